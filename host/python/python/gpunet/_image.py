"""Images of kernels that other compilers have made, and C++ that is compiled here."""

from __future__ import annotations

import hashlib
import itertools
import os
import subprocess
import tempfile
from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence, Tuple

from ._arguments import dimensions, typed, untyped
from ._errors import CompileError, ImageError
from ._include import include
from ._nvrtc import compile_ptx
from ._open_gpu import OpenGpu
from ._types import Scalar, SocketType, parameter, split

_count = itertools.count()


class Image:
    """Kernels that are loaded on a GPU: `image["echo"]` is one that can be launched.

    A source is PTX, a cubin or a fatbin as `bytes` or `str` for CUDA, or the path of a file: one of these, or a
    shared object for the emulated GPU. A shared object runs in this process, and stays loaded.
    """

    def __init__(self, gpu: OpenGpu, source: Any, name: Optional[str] = None) -> None:
        self._gpu = gpu
        if isinstance(source, str) and ".version" in source:
            source = source.encode()
        if isinstance(source, (bytes, bytearray, memoryview)):
            self._name = name or f"image-{hashlib.sha256(source).hexdigest()[:12]}"
            self._image = gpu._gpu.load_bytes(self._name, bytes(source))
        else:
            path = Path(source)
            self._name = name or path.stem
            self._image = self._of_file(path)
        self._kernels: Dict[str, Optional[List[int]]] = dict(self._image.kernels())

    def _of_file(self, path: Path) -> Any:
        try:
            with open(path, "rb") as file:
                begin = file.read(20)
                # An ELF file for a CPU; of CUDA's the machine is 190.
                if begin[:4] == b"\x7fELF" and begin[18:20] != b"\xbe\x00":
                    return self._gpu._gpu.load_object(self._name, path)
                return self._gpu._gpu.load_bytes(self._name, begin + file.read())
        except OSError as error:
            raise ImageError(f"image '{self._name}' cannot be read: {error}") from None

    @classmethod
    def compile(
        cls,
        gpu: OpenGpu,
        source: "str | os.PathLike[str]",
        name: Optional[str] = None,
        *,
        options: Sequence[str] = (),
    ) -> "Image":
        """Compiles kernels in CUDA C++, a text or a file, and loads them: by g++ for the emulated GPU, by NVRTC for
        CUDA (the package `cuda-bindings`, with `nvidia-cuda-nvrtc` and `nvidia-cuda-cccl`), or without it by nvcc.
        `options` are the compiler's.
        """
        text = isinstance(source, str) and "\n" in source
        code = str(source) if text else Path(source).read_text()
        name = name or (f"source-{next(_count)}" if text else Path(source).stem)
        if gpu.kind == "cuda":
            return cls(gpu, compile_ptx(code, name, gpu.info["compute_capability"], options), name)
        with tempfile.TemporaryDirectory(prefix="gpunet-") as folder:
            return cls(gpu, _compile_object(code, name, Path(folder), options), name)

    @property
    def name(self) -> str:
        """The name that it is loaded under."""
        return self._name

    @property
    def kernels(self) -> List[str]:
        """The names of its kernels."""
        return list(self._kernels)

    def kernel(self, name: str, types: Any = None) -> "ImageKernel":
        """A kernel of the image. Arguments are made by the sizes of its parameters, or by their types where these
        are given for numbers and sockets, as in `"socket, uint32, float64"`.
        """
        if name not in self._kernels:
            raise ImageError(f"image '{self._name}' has no kernel '{name}' (it has: {', '.join(self._kernels)})")
        return ImageKernel(self, name, types)

    def __getitem__(self, name: str) -> "ImageKernel":
        return self.kernel(name)

    def __repr__(self) -> str:
        return f"<gpunet.Image '{self._name}': {', '.join(self._kernels)}>"


class ImageKernel:
    """A kernel of an image, for `Net.launch`.

    Arguments: a Python `int` or `float` takes the size that the image says (1, 2, 4 or 8 bytes; a `float` 4 or 8), a
    NumPy scalar its own; a listener or socket is a `uint64_t`; a buffer or array is its address; an `Address` a
    `gpunet_address`; `bytes` are a struct.
    """

    def __init__(self, image: Image, name: str, types: Any = None) -> None:
        self._of = image
        self._name = name
        parts = split(types) if isinstance(types, str) else types
        self._types = None if parts is None else [parameter(part) for part in parts]
        if any(not isinstance(of, (Scalar, SocketType)) for of in self._types or ()):
            raise TypeError("types of an image's kernel are those of numbers and sockets: give all others as values")

    @property
    def name(self) -> str:
        """Its name."""
        return self._name

    @property
    def sizes(self) -> Optional[List[int]]:
        """Bytes of each parameter behind the net, where the image says."""
        return self._of._kernels[self._name]

    def cuda_function(self, threads: int) -> Optional[int]:
        """The driver's handle (`CUfunction`) for blocks of so many threads; none on the emulated GPU."""
        return self._of._image.cuda_function(self._name, threads)

    def _loaded_on(self, gpu: OpenGpu) -> Tuple[Any, str]:
        return self._of._image, self._name

    def _prepare(self, gpu: OpenGpu, grid: Any, block: Any, args: Sequence[Any], shared: int) -> Tuple[Any, ...]:
        layout = (dimensions("grid", grid), dimensions("block", block), shared)
        if self._types is None:
            items, objects = untyped(self._name, self.sizes, args, gpu.kind)
        else:
            names = [f"{at + 1}" for at in range(len(self._types))]
            items, objects = typed(self._name, names, self._types, args, gpu.kind)
        return self._of._image, self._name, layout, items, objects

    def __repr__(self) -> str:
        return f"<kernel '{self._name}' of image '{self._of.name}'>"


def _compile_object(code: str, name: str, folder: Path, options: Sequence[str]) -> Path:
    source, made = folder / f"{name}.cu", folder / f"{name}.so"
    source.write_text(code)
    compiler = os.environ.get("CXX", "g++")
    command = [compiler, "-std=c++17", "-O2", "-g", "-fPIC", "-fno-exceptions", "-shared", "-I", str(include())]
    command += [*options, "-x", "c++", str(source), "-o", str(made)]
    try:
        done = subprocess.run(command, capture_output=True, text=True)
    except OSError as error:
        raise CompileError(f"no C++ compiler ({compiler}: {error.strerror}): install g++, or set CXX") from None
    if done.returncode != 0:
        raise CompileError(f"'{name}' does not compile: {done.stderr.strip()}")
    return made
