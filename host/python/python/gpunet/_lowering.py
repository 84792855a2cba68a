"""What device functions become in kernels: calls of the C ABI in LLVM's language, for both compilers.

The loops and checks that gpunet.cuh has inline are inline here. On the emulated GPU each call is announced with its
place in the kernel's source, for reports. For CUDA an image gets the mark `gpunet_c_abi`, which says what version of
the C ABI it was compiled for. Addresses are 64-bit numbers.
"""

from __future__ import annotations

from typing import Any, Dict, List, Sequence

from llvmlite import ir

from . import _gpunet
from ._stub import stub

I8, I32, I64 = ir.IntType(8), ir.IntType(32), ir.IntType(64)

PACKET_BYTES, LONGEST_PACKET = 256, 4096
"""Sends of up to so many bytes have functions of their own."""
EINVAL = 22

_CALLS = (
    "socket bind connect listen accept send send_long send_ring receive shutdown close name set_option get_option poll poller "
    "watch wait open_slice close_slice time print"
).split()
_EMULATED = "site position barrier shared shuffle ballot pause clock trap".split()
SYMBOLS = [f"gpunet_{name}" for name in _CALLS] + [f"gpunet_emulated_{name}" for name in _EMULATED]
"""What the extension module exports and kernels on the emulated GPU call."""


@stub
def array_at(address: int, shape: Any, dtype: Any) -> Any:
    """An array in memory at an address."""


@stub
def parameter(given: Any, index: int, offset: int, dtype: Any) -> Any:
    """A number of a kernel's parameters on the emulated GPU, of which `given` has the addresses."""


@stub
def trap_raised() -> None:
    """Ends the kernel with a fault: it has raised an exception."""


class Lowering:
    """One call of a device function in a kernel: its arguments as values, and what can be made of them."""

    def __init__(self, compiler: Any, context: Any, builder: Any, names: Sequence[str], kinds: Any, args: Any, loc: Any):
        self.compiler, self.context, self.builder, self.loc = compiler, context, builder, loc
        self.types: Dict[str, Any] = dict(zip(names, kinds))
        self.values: Dict[str, Any] = dict(zip(names, args))
        self.emulated = compiler.name == "cpu"

    def number(self, name: str, bits: int) -> Any:
        """An integer, or the default that stands for it."""
        kind = self.types[name]
        if isinstance(kind, self.compiler.types.Omitted):
            return ir.Constant(ir.IntType(bits), int(kind.value))
        value = self.values[name]
        if value.type.width == bits:
            return value
        if value.type.width > bits:
            return self.builder.trunc(value, ir.IntType(bits))
        extend = self.builder.sext if getattr(kind, "signed", False) else self.builder.zext
        return extend(value, ir.IntType(bits))

    def function(self, name: str, result: Any, arguments: Sequence[Any]) -> Any:
        """A function of another image's, declared."""
        kind = ir.FunctionType(result, [argument.type for argument in arguments])
        return self.compiler.cgutils.get_or_insert_function(self.builder.module, kind, name)

    def emulator(self, name: str, *arguments: Any, result: Any = None) -> Any:
        """Calls the emulated GPU."""
        made = self.function(f"gpunet_emulated_{name}", result or ir.VoidType(), arguments)
        return self.builder.call(made, arguments)

    def announce(self) -> None:
        """Announces to the emulated GPU where the next call stands."""
        if self.emulated and self.loc is not None:
            file = self.text(str(self.loc.filename).encode() + b"\0")
            self.emulator("site", file, ir.Constant(I32, self.loc.line or 0))

    def check(self, function: str, index: Any, length: Any) -> None:
        """Has the emulated GPU report an index that is not below the length: the memory there is the program's."""
        if self.emulated:
            with self.builder.if_then(self.builder.icmp_unsigned(">=", index, length), likely=False):
                self.announce()
                self.emulator("trap", self.text(f"gpunet.device.{function}: an index out of bounds\0".encode()))

    def call(self, name: str, *arguments: Any) -> Any:
        """Calls a function of the C ABI on the net, as the group."""
        self.announce()
        net = self.values["net"]
        words = [self.builder.extract_value(net, at) for at in range(2)]
        given = [*words, self.number("group", 32), *arguments]
        made = self.function(f"gpunet_{name}", I64, given)
        if not self.emulated:
            # All threads of the group come there together.
            made.attributes.add("convergent")
            self.mark()
        return self.builder.call(made, given)

    def mark(self) -> None:
        """What the image is compiled for: one variable, however many functions are linked."""
        if "gpunet_c_abi" not in self.builder.module.globals:
            kind = ir.ArrayType(I32, 2)
            made = ir.GlobalVariable(self.builder.module, kind, "gpunet_c_abi", addrspace=1)
            made.linkage, made.align = "weak", 4
            made.initializer = ir.Constant(kind, list(_gpunet.C_ABI))

    def address_of(self, pointer: Any) -> Any:
        """A pointer as a number, of whatever memory."""
        if getattr(pointer.type, "addrspace", 0):
            opaque = getattr(pointer.type, "is_opaque", False)
            generic = ir.PointerType() if opaque else pointer.type.pointee.as_pointer()
            pointer = self.builder.addrspacecast(pointer, generic)
        return self.builder.ptrtoint(pointer, I64)

    def variable(self, kind: Any, space: int, name: str = "gpunet") -> Any:
        """A variable of the image."""
        module = self.builder.module
        return ir.GlobalVariable(module, kind, module.get_unique_name(name), addrspace=0 if self.emulated else space)

    def text(self, data: bytes) -> Any:
        """The address of constant bytes."""
        kind = ir.ArrayType(I8, len(data))
        made = self.variable(kind, 1)
        made.linkage, made.global_constant = "internal", True
        made.initializer = ir.Constant(kind, bytearray(data))
        return self.address_of(made)

    def local(self, kind: Any) -> Any:
        """Memory of the thread's own."""
        return self.compiler.cgutils.alloca_once(self.builder, kind)

    def address(self, name: str) -> Any:
        """A socket's address, in memory of the thread's own."""
        place = self.local(ir.ArrayType(I64, 14))
        self.builder.store(self.values[name], place)
        return self.address_of(place)

    def array(self, name: str) -> Any:
        """Where an array begins, and its bytes."""
        kind = self.types[name]
        made = self.compiler.arrayobj.make_array(kind)(self.context, self.builder, self.values[name])
        return self.address_of(made.data), self.builder.mul(made.nitems, made.itemsize)

    def make_array(self, kind: Any, address: Any, shape: Sequence[Any]) -> Any:
        """An array at an address."""
        builder, arrayobj = self.builder, self.compiler.arrayobj
        made = arrayobj.make_array(kind)(self.context, builder)
        size = ir.Constant(I64, bytes_of(kind.dtype))
        strides: List[Any] = []
        stride: Any = size
        for length in reversed(shape):
            strides.insert(0, stride)
            stride = builder.mul(stride, length)
        data = builder.inttoptr(address, self.context.get_data_type(kind.dtype).as_pointer())
        arrayobj.populate_array(made, data=data, shape=shape, strides=strides, itemsize=size, meminfo=None)
        return made._getvalue()


def bytes_of(kind: Any) -> int:
    """Bytes of a number's type; of a boolean one."""
    return 1 if not hasattr(kind, "bitwidth") else kind.bitwidth // 8
