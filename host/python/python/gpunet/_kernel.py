"""Kernels in Python: `@gpunet.kernel`, and functions that they call: `@gpunet.function`."""

from __future__ import annotations

import inspect
import itertools
import threading
from typing import Any, Callable, List, Sequence, Tuple, overload

from ._arguments import dimensions, typed
from ._compilers import check_isa, compiler
from ._errors import CompileError
from ._function import Function
from ._open_gpu import OpenGpu
from ._types import parameter, split

_count = itertools.count()
_loading = threading.RLock()
"""Threads that launch a kernel for the first time at once compile it once."""


class Kernel:
    """A kernel in Python, for `Net.launch`; made by `@gpunet.kernel`."""

    def __init__(self, python: Callable[..., Any], signature: Any = None) -> None:
        self._python = python
        self.__name__ = python.__name__
        self.__doc__ = python.__doc__
        self._names, self._types = _signature(python, signature)
        self._function = Function(python)

    @property
    def name(self) -> str:
        """Its name."""
        return self.__name__

    def ptx(self, capability: Tuple[int, int] = (7, 5)) -> str:
        """Its PTX for GPUs from that compute capability on. Needs no GPU."""
        made = compiler("cuda")
        return self._compiled(lambda: made.compile(self.name, self._function, self._types, capability))

    def load(self, gpu: OpenGpu) -> "Kernel":
        """Compiles it for a GPU and loads it there; the first launch does, too. On CUDA it is done before any
        kernel runs.
        """
        self._loaded_on(gpu)
        return self

    def _loaded_on(self, gpu: OpenGpu) -> Tuple[Any, str]:
        with _loading:
            return self._load(gpu), self.name

    def _load(self, gpu: OpenGpu) -> Any:
        # By the kernel itself, not its name: the GPU keeps it.
        if self not in gpu._loaded:
            image = f"{self._python.__module__}.{self._python.__qualname__}-{next(_count)}"
            if gpu.kind == "cuda":
                ptx = self.ptx(gpu.info["compute_capability"])
                check_isa(ptx, gpu.info["driver"])
                gpu._loaded[self] = gpu._gpu.load_bytes(image, ptx.encode())
            else:
                made = compiler("cpu")
                address, sizes, keeps = self._compiled(lambda: made.compile(self.name, self._function, self._types))
                gpu._loaded[self] = gpu._gpu.load_functions(image, [(self.name, address, sizes, [keeps])])
        return gpu._loaded[self]

    def _compiled(self, compile: Callable[[], Any]) -> Any:
        try:
            return compile()
        except CompileError:
            raise
        except Exception as error:
            raise CompileError(f"kernel '{self.name}' does not compile: {error}") from error

    def _prepare(self, gpu: OpenGpu, grid: Any, block: Any, args: Sequence[Any], shared: int) -> Tuple[Any, ...]:
        layout = (dimensions("grid", grid), dimensions("block", block), shared)
        items, objects = typed(self.name, self._names, self._types, args, gpu.kind)
        image, name = self._loaded_on(gpu)
        return image, name, layout, items, objects

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise TypeError(f"'{self.name}' is a kernel: launch it with net.launch({self.name}, grid, block, ...)")

    def __repr__(self) -> str:
        takes = ", ".join(f"{name}: {of}" for name, of in zip(self._names, self._types))
        return f"<gpunet.kernel {self.name}({takes})>"


def _signature(python: Callable[..., Any], signature: Any) -> Tuple[List[str], List[Any]]:
    """Names and types of the parameters behind the net."""
    names = list(inspect.signature(python).parameters)
    if not names:
        raise TypeError(f"kernel '{python.__name__}': its first parameter is the net")
    first, *names = names
    if signature is None:
        try:
            hints = inspect.get_annotations(python, eval_str=True)
        except (NameError, AttributeError):
            # Of names that only a function around it knows.
            hints = inspect.get_annotations(python)
        missing = [name for name in names if name not in hints]
        if missing:
            raise TypeError(
                f"kernel '{python.__name__}': parameter '{missing[0]}' has no type: annotate it, or give a signature"
            )
        types = [parameter(hints[name]) for name in names]
    else:
        given = split(signature) if isinstance(signature, str) else list(getattr(signature, "args", signature))
        types = [parameter(part) for part in given]
    if len(types) != len(names):
        raise TypeError(
            f"kernel '{python.__name__}' has {len(names)} parameters behind '{first}', and its signature {len(types)}"
        )
    return names, types


@overload
def kernel(given: Callable[..., Any]) -> Kernel: ...
@overload
def kernel(given: Any = None) -> Callable[[Callable[..., Any]], Kernel]: ...
def kernel(given: Any = None) -> Any:
    """Makes a function a kernel, which is compiled for the GPU that it is launched on.

    Its first parameter is the net. Types of the others are annotations (`np.uint32`, `gpunet.Array[np.uint8]`,
    `gpunet.Socket`, `gpunet.Address`), or a signature: `@gpunet.kernel("socket, uint8[::1]")`, or one of numba's.
    """
    if callable(given) and not hasattr(given, "args"):
        return Kernel(given)
    return lambda python: Kernel(python, given)


def function(python: Callable[..., Any]) -> Function:
    """Makes a function callable from kernels, on all GPUs."""
    return Function(python)
