"""A GPU, its memory, words and streams."""

from __future__ import annotations

import math
import os
from typing import Any, Dict, Iterable, Optional, Sequence, Tuple, Union

import numpy as np

from . import _gpunet
from ._memory import locate


class Gpu:
    """An open GPU: `auto` (the first CUDA device, else the emulated one), `cuda`, `cuda:N` or `emulated`.

    The emulated one runs kernels on the CPU. With a `seed` it runs their threads in an order drawn from it, so that
    a run can be repeated; `workers` is how many threads of the system a launch has at most.
    """

    def __init__(self, choice: str = "auto", *, seed: Optional[int] = None, workers: Optional[int] = None) -> None:
        self._gpu = _gpunet.Gpu(choice, seed, workers)
        self._info: Dict[str, Any] = self._gpu.info()
        self._loaded: Dict[Any, Any] = {}

    @property
    def info(self) -> Dict[str, Any]:
        """What it is: kind, name, driver, compute_capability, limits, and the reason why it was chosen."""
        return dict(self._info)

    @property
    def kind(self) -> str:
        """`cuda` or `emulated`."""
        return self._info["kind"]

    @property
    def name(self) -> str:
        """The device's name."""
        return self._info["name"]

    def buffer(self, shape: Any, dtype: Any = np.uint8) -> "Buffer":
        """A buffer of that shape, zeroed; or one with the shape, type and contents of an array."""
        if isinstance(shape, (int, np.integer, tuple, list)):
            return Buffer(self, shape, dtype)
        array = np.ascontiguousarray(shape)
        made = Buffer(self, array.shape, array.dtype)
        made.write(array)
        return made

    def flags(self, count: int) -> "Flags":
        """Words of 64 bits that the program, kernels and streams set and wait for, 0 at first."""
        return Flags(self, count)

    def stream(self, stream: Any = None) -> "Stream":
        """A new stream; or one of another library: its number, or an object that has one (`__cuda_stream__`,
        `cuda_stream` as PyTorch's, `ptr` as CuPy's), which is kept.
        """
        return Stream(self, stream)

    def load(self, source: Any, name: Optional[str] = None) -> Any:
        """Makes kernels launchable: those of an image (PTX, cubin, fatbin as `bytes`, a path; see `Image`), or a
        `@gpunet.kernel`, which is compiled for this GPU. On CUDA all are loaded before the first launch: the driver
        would wait for kernels that run.
        """
        from ._image import Image
        from ._kernel import Kernel

        if isinstance(source, Kernel):
            return source.load(self)
        return Image(self, source, name)

    def compile(self, source: "str | os.PathLike[str]", name: Optional[str] = None, **options: Any) -> Any:
        """Compiles kernels in CUDA C++ and loads them; see `Image.compile`."""
        from ._image import Image

        return Image.compile(self, source, name, **options)

    def close(self) -> None:
        """Lets go of the GPU; nets and buffers on it stay."""
        self._gpu.close()

    def __enter__(self) -> "Gpu":
        return self

    def __exit__(self, *error: Any) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<gpunet.Gpu {self.kind}: {self.name} ({self._info['reason']})>"


class Buffer:
    """An array in the memory of a GPU. A kernel that was given it keeps it until it has ended."""

    def __init__(self, gpu: Gpu, shape: "Union[int, np.integer[Any], Sequence[int]]", dtype: Any = np.uint8) -> None:
        lengths: Iterable[Any] = (shape,) if isinstance(shape, (int, np.integer)) else shape
        self._shape = tuple(int(length) for length in lengths)
        self._dtype = np.dtype(dtype)
        if any(length < 0 for length in self._shape) or self._dtype.hasobject:
            raise ValueError(f"no shape or type of a buffer: {shape}, {dtype}")
        # NumPy's product would wrap, and a kernel would be given more elements than there is memory for.
        if math.prod(self._shape) * self._dtype.itemsize >= 2**63:
            raise ValueError(f"a buffer of {self._dtype}{list(self._shape)} is larger than the address space")
        self._kind = gpu.kind
        # One of no elements has no memory.
        self._memory = gpu._gpu.memory(self.nbytes) if self.nbytes else None

    @property
    def shape(self) -> Tuple[int, ...]:
        """The length of each dimension."""
        return self._shape

    @property
    def dtype(self) -> np.dtype:
        """The elements' type."""
        return self._dtype

    @property
    def size(self) -> int:
        """How many elements there are."""
        return int(np.prod(self._shape, dtype=np.int64))

    @property
    def nbytes(self) -> int:
        """How many bytes they have."""
        return self.size * self._dtype.itemsize

    def __len__(self) -> int:
        if not self._shape:
            raise TypeError("len() of a buffer without dimensions")
        return self._shape[0]

    def numpy(self) -> np.ndarray:
        """A copy of all elements. Waits for no kernel."""
        return self.read(0, self.size).reshape(self._shape)

    def read(self, start: int, count: int) -> np.ndarray:
        """A copy of elements from `start` on, of one dimension."""
        if start < 0 or count < 0 or start + count > self.size:
            raise IndexError(f"elements {start} to {start + count} of {self.size}")
        if self._memory is None or count == 0:
            return np.zeros(0, self._dtype)
        size = self._dtype.itemsize
        return np.frombuffer(self._memory.read(start * size, count * size), self._dtype).copy()

    def write(self, array: Any, start: int = 0) -> None:
        """Copies an array's elements in, from element `start` on. Waits for no kernel."""
        array = np.ascontiguousarray(array)
        if array.dtype != self._dtype:
            if not np.can_cast(array.dtype, self._dtype, "same_kind"):
                raise TypeError(f"a buffer of {self._dtype} takes no {array.dtype}")
            array = array.astype(self._dtype)
        if start < 0 or start + array.size > self.size:
            raise IndexError(f"elements {start} to {start + array.size} of {self.size}")
        if self._memory is not None and array.size:
            self._memory.write(start * self._dtype.itemsize, array.tobytes())

    def __array__(self, dtype: Any = None, copy: Optional[bool] = None) -> np.ndarray:
        if copy is False:
            raise ValueError("the elements of a GPU's buffer are copied")
        array = self.numpy()
        return array if dtype is None else array.astype(dtype)

    @property
    def __cuda_array_interface__(self) -> Dict[str, Any]:
        if self._kind != "cuda":
            raise AttributeError("the memory of the emulated GPU is not CUDA's: use numpy()")
        return {"shape": self._shape, "typestr": self._dtype.str, "data": (self._address(), False), "version": 3}

    def _address(self) -> int:
        return 0 if self._memory is None else self._memory.address()

    def close(self) -> None:
        """Gives the memory back, once kernels that use it have ended."""
        if self._memory is not None:
            self._memory.close()

    def __enter__(self) -> "Buffer":
        return self

    def __exit__(self, *error: Any) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<gpunet.Buffer {self._dtype}{list(self._shape)}>"


class Flags:
    """Words of 64 bits in host memory, which the program reads and writes, and streams wait for and write."""

    def __init__(self, gpu: Gpu, count: int) -> None:
        self._flags = gpu._gpu.flags(count)

    def __len__(self) -> int:
        return len(self._flags)

    def __getitem__(self, index: int) -> int:
        return self._flags.load(index)

    def __setitem__(self, index: int, value: int) -> None:
        self._flags.store(index, value)


class Stream:
    """Kernels and operations one after the other; see `Gpu.stream`."""

    def __init__(self, gpu: Gpu, stream: Any = None) -> None:
        self._keeps = stream
        self._stream = gpu._gpu.stream(None if stream is None else _raw_stream(stream))

    @property
    def done(self) -> bool:
        """Whether all that gpunet has put there is done; raises how a kernel there has faulted."""
        return self._stream.is_done()

    def wait(self, timeout: Optional[float] = None) -> bool:
        """Waits until that is so, at most so many seconds. Whether it is."""
        return self._stream.wait(timeout)


def _raw_stream(stream: Any) -> int:
    if isinstance(stream, int) and not isinstance(stream, bool):
        return stream
    if hasattr(stream, "__cuda_stream__"):
        protocol = stream.__cuda_stream__
        # A version and the number.
        return int((protocol() if callable(protocol) else protocol)[1])
    for attribute in ("cuda_stream", "ptr", "handle"):
        if isinstance(getattr(stream, attribute, None), int):
            return int(getattr(stream, attribute))
    raise TypeError(
        f"no stream of CUDA: {type(stream).__name__}; give its number, or an object with __cuda_stream__, cuda_stream "
        "or ptr"
    )


def located(value: Any, kind: str, start: int, count: Optional[int]) -> Tuple[int, int, Any]:
    """Address and bytes of elements of an array for an operation, and what keeps them."""
    found = locate(value, kind)
    if found is None:
        raise TypeError(f"no array: {type(value).__name__}")
    size = int(np.prod(found.shape, dtype=np.int64))
    count = size - start if count is None else count
    if start < 0 or count < 0 or start + count > size:
        raise IndexError(f"elements {start} to {start + count} of {size}")
    item = found.dtype.itemsize
    # Memory itself, which outlives a buffer that is closed.
    keeps = value._memory if isinstance(value, Buffer) else found.keeps
    return found.address + start * item, count * item, keeps
