"""Slices of rings: received bytes where they lie, and space to send from, without a copy.

A slice is a pair of arrays of bytes, since a ring wraps: the piece up to the ring's end, and the one from its
beginning on. Both are empty where nothing was opened; then closing it does nothing.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from . import device
from ._device_functions import _function
from ._lowering import I8, I32, I64, Lowering

RECEIVE, SEND = 0, 1
EPIPE = 32
LOG_MASK = 63
"""In the word of a ring: the logarithm of its capacity; the rest is its address."""


def _pieces(compiler: Any) -> Any:
    types = compiler.types
    return types.UniTuple(types.Array(types.uint8, 1, "C"), 2)


def _opened(compiler: Any, _: Any) -> Any:
    types = compiler.types
    return types.Tuple([types.int64, _pieces(compiler)])


def _least(builder: Any, one: Any, other: Any) -> Any:
    return builder.select(builder.icmp_unsigned("<", one, other), one, other)


def _open(on: Lowering, direction: int, most: Any) -> Any:
    """Opens a slice; how many bytes it has or the error, and its pieces."""
    builder, number = on.builder, lambda value: ir.Constant(I64, value)
    ring = on.local(I64)
    builder.store(number(0), ring)
    least = on.number("least", 64)
    least = builder.select(builder.icmp_unsigned("==", least, number(0)), number(1), least)
    span = on.call("open_slice", on.number("socket", 64), ir.Constant(I32, direction), least, on.address_of(ring))
    word = builder.load(ring)
    # Of an error, and at the end of the stream, nothing is open.
    is_open = builder.icmp_signed(">", span, number(0xFFFF_FFFF))
    length = builder.lshr(span, number(32))
    if most is not None:
        most = builder.select(builder.icmp_unsigned("<", most, least), least, most)
        length = _least(builder, length, most)
    length = builder.select(is_open, length, number(0))
    capacity = builder.shl(number(1), builder.and_(word, number(LOG_MASK)))
    start = builder.and_(word, number(~LOG_MASK & (1 << 64) - 1))
    at = builder.and_(span, builder.sub(capacity, number(1)))
    first = _least(builder, length, builder.sub(capacity, at))
    ended = builder.select(builder.icmp_signed("<", span, number(0)), span, number(-EPIPE if direction == SEND else 0))
    result = builder.select(is_open, length, ended)
    kind = _pieces(on.compiler)
    pieces = [
        on.make_array(kind.dtype, builder.add(start, at), [first]),
        on.make_array(kind.dtype, start, [builder.sub(length, first)]),
    ]
    slice_ = on.context.make_tuple(builder, kind, pieces)
    return on.context.make_tuple(builder, _opened(on.compiler, None), [result, slice_])


def _lengths(on: Lowering) -> Any:
    """Bytes of the slice's first piece, and of both."""
    kind, builder = on.types["slice"], on.builder
    made = [
        on.compiler.arrayobj.make_array(kind.dtype)(on.context, builder, builder.extract_value(on.values["slice"], at))
        for at in range(2)
    ]
    return made, made[0].nitems, builder.add(made[0].nitems, made[1].nitems)


def _close(on: Lowering, direction: int) -> Any:
    """Closes a slice: so many of its bytes were used, by default all of them."""
    _check(on)
    builder = on.builder
    _, _, length = _lengths(on)
    used = length
    if not isinstance(on.types["count"], on.compiler.types.Omitted):
        used = _least(builder, on.number("count", 64), length)
    result = on.local(I64)
    builder.store(ir.Constant(I64, 0), result)
    with builder.if_then(builder.icmp_unsigned(">", length, ir.Constant(I64, 0))):
        socket = on.number("socket", 64)
        builder.store(on.call("close_slice", socket, ir.Constant(I32, direction), used), result)
    return builder.load(result)


def _check(on: Lowering) -> None:
    if on.types["slice"] != _pieces(on.compiler):
        raise TypeError(f"gpunet.device: 'slice' is what peek or reserve gave, not {on.types['slice']}")


@_function(device.peek, _opened)
def _peek(on: Lowering) -> Any:
    return _open(on, RECEIVE, None)


@_function(device.reserve, _opened)
def _reserve(on: Lowering) -> Any:
    is_limited = not isinstance(on.types["most"], on.compiler.types.Omitted)
    return _open(on, SEND, on.number("most", 64) if is_limited else None)


@_function(device.consume, slice="any", count="int64")
def _consume(on: Lowering) -> Any:
    return _close(on, RECEIVE)


@_function(device.commit, slice="any", count="int64")
def _commit(on: Lowering) -> Any:
    return _close(on, SEND)


def _place(on: Lowering, function: str) -> Any:
    """Where a byte of a slice lies."""
    _check(on)
    builder = on.builder
    (one, two), first, length = _lengths(on)
    index = on.number("index", 64)
    on.check(function, index, length)
    starts = [on.address_of(one.data), builder.sub(on.address_of(two.data), first)]
    start = builder.select(builder.icmp_unsigned("<", index, first), *starts)
    return builder.inttoptr(builder.add(start, index), I8.as_pointer())


@_function(device.load_byte, "uint8", slice="any", index="int64")
def _load(on: Lowering) -> Any:
    return on.builder.load(_place(on, "load_byte"))


@_function(device.store_byte, "none", slice="any", index="int64", value="uint8")
def _store(on: Lowering) -> None:
    on.builder.store(on.number("value", 8), _place(on, "store_byte"))
