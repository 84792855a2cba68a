"""The two compilers of kernels in Python, and all that differs between them.

    cpu     numba, for the emulated GPU: a function of this process
    cuda    numba-cuda, for CUDA: PTX, which the driver links with the device library

Each has its own copies of numba's parts. A `Compiler` names them, registers the device functions (`_emit`), and
compiles a kernel's entry, whose parameters are numbers alone.
"""

from __future__ import annotations

import contextlib
import ctypes
import re
from types import SimpleNamespace
from typing import Any, Callable, Iterator, List, Optional, Sequence, Tuple

import numpy as np

from . import _gpunet
from ._errors import CompileError
from ._function import Function
from ._types import AddressType, ArrayType, Scalar


class Compiler:
    """What both have."""

    name: str
    types: Any
    cgutils: Any
    arrayobj: Any
    templates: Any
    capability: Optional[Tuple[int, int]] = None

    def register(self, stub: Any, define: Callable[..., Any]) -> None:
        """Makes an object of the package a function of kernels, which `define` types and lowers."""
        templates = self.templates
        template = templates.make_intrinsic_template(stub, define, stub.__name__, prefer_literal=True, kwargs={})
        templates.infer(template)
        templates.infer_global(stub, self.types.Function(template))

    def number(self, dtype: np.dtype) -> Any:
        """A number's type."""
        return self.types.boolean if dtype.kind == "b" else getattr(self.types, str(dtype))

    def parameters(self, of: Any) -> List[Any]:
        """The types of machine code that a parameter becomes."""
        if isinstance(of, ArrayType):
            return [self.types.uint64] + [self.types.int64] * of.ndim
        if isinstance(of, AddressType):
            return [self.types.uint64] * 14
        return [self.number(of.dtype)] if isinstance(of, Scalar) else [self.types.uint64]

    def expression(self, of: Any, values: Sequence[str], at: int) -> str:
        """A parameter as the kernel has it, from those of machine code."""
        if isinstance(of, ArrayType):
            return f"_array_at({values[0]}, ({', '.join(values[1:])},), _dtype_{at})"
        if isinstance(of, AddressType):
            return f"({', '.join(values)})"
        return values[0]

    def _entry(self, name: str, body: Any, types: Sequence[Any], values: Callable[[int, Any], str], line: str) -> Any:
        """A function that makes a kernel's parameters of those of machine code and calls it.

        `values` says how the parameter of that number and type is read, `line` is the entry's form.
        """
        from . import _lowering

        scope = {"_body": body, "_array_at": _lowering.array_at, "_parameter": _lowering.parameter, "_trap": _lowering.trap_raised}
        at, passed = 0, []
        for place, of in enumerate(types):
            kinds = self.parameters(of)
            given = []
            for kind in kinds:
                scope[f"_kind_{at}"] = kind
                given.append(values(at, kind))
                at += 1
            if isinstance(of, ArrayType):
                scope[f"_dtype_{place}"] = self.number(of.dtype)
            passed.append(self.expression(of, given, place))
        text = line.format(name=name, parameters=", ".join(f"p{n}" for n in range(at)), passed=", ".join(passed))
        exec(compile(text, f"<entry of kernel {name}>", "exec"), scope)
        return scope[name]


class Cpu(Compiler):
    """numba: kernels are functions of this process."""

    name = "cpu"

    def __init__(self) -> None:
        try:
            import numba
            from numba.core import cgutils, types
            from numba.core.typing import templates
            from numba.core.typing.typeof import typeof_impl
            from numba.np import arrayobj
        except ImportError as error:
            raise CompileError(f"kernels in Python want numba ({error}): pip install numba") from None
        self.numba, self.types, self.cgutils, self.arrayobj = numba, types, cgutils, arrayobj
        self.templates, self.typeof_impl = templates, typeof_impl
        self._add_symbols()

    def _add_symbols(self) -> None:
        """Shows numba's linker where the device functions are: the extension module is loaded for itself alone."""
        import llvmlite.binding

        from . import _lowering

        library = ctypes.CDLL(_gpunet.__file__)
        for symbol in _lowering.SYMBOLS:
            llvmlite.binding.add_symbol(symbol, ctypes.cast(getattr(library, symbol), ctypes.c_void_p).value)

    def function(self, python: Any) -> Any:
        """A function that kernels call."""
        # With bounds: the kernel's memory is the program's own, which an index beyond an array would overwrite.
        return self.numba.njit(error_model="numpy", boundscheck=True)(python)

    def function_type(self, made: Any) -> Any:
        return self.types.Dispatcher(made)

    def compile(self, name: str, body: Any, types: Sequence[Any]) -> Tuple[int, List[int], Any]:
        """The address of a kernel's entry, the sizes of its parameters, and what keeps them."""
        from . import _lowering

        # An exception of the kernel's ends it, as a fault; numba's own way would want the interpreter.
        line = (
            "def {name}(given):\n"
            "    net = (_parameter(given, 0, 0, _word), _parameter(given, 0, 8, _word))\n"
            "    try:\n"
            "        _body(net, {passed})\n"
            "    except Exception:\n"
            "        _trap()\n"
        )
        entry = self._entry(name, body, types, lambda at, _: f"_parameter(given, {at + 1}, 0, _kind_{at})", line)
        entry.__globals__["_word"] = self.types.uint64
        signature = self.types.void(self.types.CPointer(self.types.uint64))
        made = self.numba.cfunc(signature, error_model="numpy")(entry)
        sizes = [16] + [_lowering.bytes_of(kind) for of in types for kind in self.parameters(of)]
        return int(made.address or 0), sizes, (made, body)


class Cuda(Compiler):
    """numba-cuda: kernels are PTX."""

    name = "cuda"

    def __init__(self) -> None:
        try:
            from numba import cuda
            from numba.cuda import cgutils, types  # type: ignore[attr-defined]
            from numba.cuda.np import arrayobj
            from numba.cuda.typing import templates
            from numba.cuda.typing.typeof import typeof_impl
        except ImportError as error:
            raise CompileError(
                f"kernels in Python for CUDA want numba-cuda ({error}): pip install numba-cuda[cu13]"
            ) from None
        except Exception as error:
            # Versions that do not fit each other fail in any way while they are imported.
            raise CompileError(
                f"numba-cuda cannot be imported ({error}): install a version that fits numpy and numba"
            ) from error
        self.cuda, self.types, self.cgutils, self.arrayobj = cuda, types, cgutils, arrayobj
        self.templates, self.typeof_impl = templates, typeof_impl

    def function(self, python: Any) -> Any:
        """A function that kernels call."""
        return self.cuda.jit(device=True)(python)

    def function_type(self, made: Any) -> Any:
        return made._numba_type_

    @contextlib.contextmanager
    def _for_device(self, capability: Tuple[int, int]) -> Iterator[None]:
        """Has functions that a kernel calls compiled for that capability, too: numba-cuda takes the current device's
        for these, and would look for one.
        """
        from numba.cuda import dispatcher
        from numba.cuda.core.compiler_lock import global_compiler_lock

        with global_compiler_lock:
            device, self.capability = dispatcher.get_current_device, capability
            dispatcher.get_current_device = lambda: SimpleNamespace(compute_capability=capability)
            try:
                yield
            finally:
                dispatcher.get_current_device = device

    def compile(self, name: str, body: Any, types: Sequence[Any], capability: Tuple[int, int]) -> str:
        """PTX with that kernel, for GPUs from that capability on. Needs no GPU."""
        line = "def {name}(net0, net1, {parameters}):\n    _body((net0, net1), {passed})\n"
        entry = self._entry(name, body, types, lambda at, _: f"p{at}", line)
        words = [self.types.uint64] * 2
        signature = self.types.void(*words, *(kind for of in types for kind in self.parameters(of)))
        options = {"device": False, "abi": "numba", "output": "ptx"}
        with self._for_device(capability):
            ptx, _ = self.cuda.compile(entry, signature, cc=capability, **options)
        ptx = ptx if isinstance(ptx, str) else bytes(ptx).decode()
        # Its mangled name is no word for reports.
        mangled = re.search(r"\.entry\s+(\S+)\(", ptx)
        if mangled is None:
            raise CompileError(f"kernel '{name}': numba-cuda has made no entry of it")
        return ptx.replace(mangled[1], name)


_made: dict = {}


def compiler(kind: str) -> Any:
    """The compiler for that kind of GPU, with the device functions in it."""
    if kind not in _made:
        from . import _emit

        made = Cuda() if kind == "cuda" else Cpu()
        _emit.register(made)
        made.typeof_impl.register(Function)(lambda value, _: made.function_type(value._for(made)))
        _made[kind] = made
    return _made[kind]


def check_isa(ptx: str, driver: str) -> None:
    """Whether a driver takes PTX of that version: that of CUDA 13.x is 9.x, and numba-cuda writes the newest one
    that its NVVM knows.
    """
    version = re.search(r"^\.version\s+(\d+)\.(\d+)", ptx, re.MULTILINE)
    major, minor = (int(part) for part in driver.split(".")[:2])
    if version and major >= 13 and (int(version[1]), int(version[2])) > (major - 4, minor):
        raise CompileError(
            f"NVVM writes PTX {version[1]}.{version[2]}, and this driver (CUDA {driver}) takes {major - 4}.{minor}: "
            f"update the driver, or pip install 'nvidia-nvvm=={major}.{minor}.*'"
        )
