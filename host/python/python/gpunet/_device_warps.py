"""Values and votes between the lanes of a warp."""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from . import device
from ._device_functions import _function
from ._lowering import I32, I64, Lowering

LANES = 0xFFFF_FFFF
"""All lanes of the warp: those that it does not have count as ended."""
WARP = 32


def _shuffled(compiler: Any, kinds: Any) -> Any:
    types, kind = compiler.types, kinds["value"]
    # Of a constant, too.
    kind = getattr(kind, "literal_type", kind)
    if not isinstance(kind, (types.Integer, types.Float)) or kind.bitwidth > 64:
        raise TypeError(f"lanes of a warp give each other integers and floats, not {kind}")
    return kind


def _shuffle(function: Any, how: int, by: str) -> None:
    """`how` is the same number for the emulated GPU and for NVVM."""

    @_function(function, _shuffled, value="any", **{by: "uint32"})
    def emit(on: Lowering) -> Any:
        types, builder = on.compiler.types, on.builder
        kind = _shuffled(on.compiler, on.types)
        bits = ir.IntType(kind.bitwidth)
        value = on.values["value"]
        real = isinstance(kind, types.Float)
        value = builder.bitcast(value, bits) if real else value
        given = _give(on, how, value if kind.bitwidth == 64 else builder.zext(value, I64), kind.bitwidth, by)
        given = given if kind.bitwidth == 64 else builder.trunc(given, bits)
        return builder.bitcast(given, on.context.get_value_type(kind)) if real else given


def _give(on: Lowering, how: int, value: Any, bits: int, by: str) -> Any:
    builder, distance = on.builder, on.number(by, 32)
    if on.emulated:
        on.announce()
        numbers = ir.Constant(I32, LANES), value, ir.Constant(I32, how), distance, ir.Constant(I32, WARP)
        return on.emulator("shuffle", *numbers, result=I64)

    def half(word: Any) -> Any:
        # The last number is where a lane beyond the warp stops: going up at lane 0.
        numbers = [ir.Constant(I32, LANES), ir.Constant(I32, how), word, distance, ir.Constant(I32, 0 if how == 1 else 31)]
        pair = ir.LiteralStructType([I32, ir.IntType(1)])
        made = on.function("llvm.nvvm.shfl.sync.i32", pair, numbers)
        return builder.zext(builder.extract_value(builder.call(made, numbers), 0), I64)

    low = half(builder.trunc(value, I32))
    if bits <= 32:
        return low
    thirty_two = ir.Constant(I64, 32)
    high = half(builder.trunc(builder.lshr(value, thirty_two), I32))
    return builder.or_(low, builder.shl(high, thirty_two))


_shuffle(device.shuffle, 0, "lane")
_shuffle(device.shuffle_up, 1, "by")
_shuffle(device.shuffle_down, 2, "by")
_shuffle(device.shuffle_xor, 3, "mask")


@_function(device.ballot, "uint32", yes="boolean")
def _ballot(on: Lowering) -> Any:
    builder, yes = on.builder, on.values["yes"]
    if on.emulated:
        on.announce()
        return on.emulator("ballot", ir.Constant(I32, LANES), builder.zext(yes, I32), result=I32)
    numbers = [ir.Constant(I32, LANES), ir.Constant(I32, 3), yes]
    made = on.function("llvm.nvvm.vote.sync", ir.LiteralStructType([I32, ir.IntType(1)]), numbers)
    return builder.extract_value(builder.call(made, numbers), 0)
