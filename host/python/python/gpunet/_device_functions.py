"""Each device function: what its arguments are, what it returns, what code it becomes."""

from __future__ import annotations

from typing import Any, Callable, Dict, Optional, Tuple

from llvmlite import ir

from . import _lowering, device
from ._lowering import EINVAL, I8, I32, I64, LONGEST_PACKET, PACKET_BYTES, Lowering
from ._stub import Stub

FUNCTIONS: Dict[Stub, Tuple[Dict[str, str], Any, Callable[[Lowering], Any]]] = {}
"""Kinds of arguments (uint64 where not said), the result's type or what makes it, and the code."""


def _function(function: Any, result: Any = "int64", **kinds: str) -> Callable[[Any], Any]:
    def put(emit: Any) -> Any:
        FUNCTIONS[function] = ({"net": "net", "group": "uint32", **kinds}, result, emit)
        return emit

    return put


def _plain(function: Any, *arguments: Tuple[str, int], symbol: Optional[str] = None, **kinds: str) -> None:
    """A call that takes numbers as they are."""
    name = symbol or function.__name__
    _function(function, **kinds)(lambda on: on.call(name, *(on.number(of, bits) for of, bits in arguments)))


_plain(device.listen, ("socket", 64), ("backlog", 32), backlog="int32")
_plain(device.accept, ("listener", 64))
_plain(device.shutdown, ("socket", 64), ("how", 32), how="int32")
_plain(device.close, ("socket", 64))
_plain(device.set_option, ("socket", 64), ("option", 32), ("value", 64), option="uint32")
_plain(device.get_option, ("socket", 64), ("option", 32), option="uint32")
_plain(device.poller)
_plain(device.watch, ("poller", 64), ("socket", 64), ("events", 64), ("token", 64))
_plain(device.time)


@_function(device.socket, domain="int32", type="int32")
def _socket(on: Lowering) -> Any:
    return on.call("socket", on.number("domain", 32), on.number("type", 32), ir.Constant(I32, 0))


@_function(device.bind, address="address")
def _bind(on: Lowering) -> Any:
    return on.call("bind", on.number("socket", 64), on.address("address"))


@_function(device.connect, address="address")
def _connect(on: Lowering) -> Any:
    return on.call("connect", on.number("socket", 64), on.address("address"))


@_function(device.open_stream, address="address")
def _open_stream(on: Lowering) -> Any:
    builder = on.builder
    address = on.address("address")
    family = builder.and_(builder.extract_value(on.values["address"], 0), ir.Constant(I64, 0xFFFF))
    stream = ir.Constant(I32, device.SOCK_STREAM)
    made = on.call("socket", builder.trunc(family, I32), stream, ir.Constant(I32, 0))
    result = on.local(I64)
    builder.store(made, result)
    with builder.if_then(builder.icmp_signed(">=", made, ir.Constant(I64, 0))):
        connected = on.call("connect", made, address)
        with builder.if_then(builder.icmp_signed("<", connected, ir.Constant(I64, 0))):
            on.call("close", made)
            builder.store(connected, result)
    return builder.load(result)


def _named(function: Any, which: int) -> None:
    def result(compiler: Any, _: Any) -> Any:
        types = compiler.types
        return types.Tuple([types.int64, types.UniTuple(types.uint64, 14)])

    @_function(function, result)
    def emit(on: Lowering) -> Any:
        builder, words = on.builder, ir.ArrayType(I64, 14)
        place = on.local(words)
        builder.store(ir.Constant(words, None), place)
        outcome = on.call("name", on.number("socket", 64), ir.Constant(I32, which), on.address_of(place))
        pair = ir.Constant(ir.LiteralStructType([I64, words]), ir.Undefined)
        pair = builder.insert_value(pair, outcome, 0)
        return builder.insert_value(pair, builder.load(place), 1)


_named(device.own_address, 0)
_named(device.peer_address, 1)


def _within(on: Lowering, size: Any, run: Callable[[Any], Any]) -> Any:
    """Runs with the length that was given, where the buffer has so many bytes; else it is EINVAL."""
    if isinstance(on.types["length"], on.compiler.types.Omitted):
        return run(size)
    builder, length = on.builder, on.number("length", 64)
    result = on.local(I64)
    builder.store(ir.Constant(I64, -EINVAL), result)
    with builder.if_then(builder.icmp_unsigned("<=", length, size)):
        builder.store(run(length), result)
    return builder.load(result)


def _send(on: Lowering, flags: Any, whole: bool) -> Any:
    """The loop of a send: each piece goes the way that is short for it. `whole`: an error counts though some bytes
    were sent.
    """
    builder, socket = on.builder, on.number("socket", 64)
    address, size = on.array("buffer")
    zero = ir.Constant(I64, 0)

    def run(length: Any) -> Any:
        done, error, more = on.local(I64), on.local(I64), on.local(I64)
        builder.store(zero, done)
        builder.store(zero, error)
        turn, end = builder.append_basic_block("send"), builder.append_basic_block("sent")
        builder.branch(turn)
        # Counted: each turn sends a byte or more, or is the last.
        builder.position_at_end(turn)
        before = builder.load(done)
        left, place = builder.sub(length, before), builder.add(address, before)

        def send_by(name: str) -> None:
            builder.store(on.call(name, socket, place, left, flags), more)

        is_short = builder.icmp_unsigned("<=", left, ir.Constant(I64, PACKET_BYTES))
        with builder.if_else(is_short) as (short, long):
            with short:
                send_by("send")
            with long:
                fits = builder.icmp_unsigned("<=", left, ir.Constant(I64, LONGEST_PACKET))
                with builder.if_else(fits) as (packet, ring):
                    with packet:
                        send_by("send_long")
                    with ring:
                        send_by("send_ring")
        sent = builder.load(more)
        failed = builder.icmp_signed("<", sent, zero)
        with builder.if_else(failed) as (bad, good):
            with bad:
                builder.store(sent, error)
            with good:
                builder.store(builder.add(before, sent), done)
        over = builder.icmp_signed("<=", sent, zero)
        over = builder.or_(over, builder.icmp_unsigned(">=", builder.load(done), length))
        over = builder.or_(over, builder.icmp_unsigned("!=", flags, ir.Constant(I32, 0)))
        builder.cbranch(over, end, turn)
        builder.position_at_end(end)
        count, errno = builder.load(done), builder.load(error)
        counts = builder.icmp_signed("==" if whole else ">", errno if whole else count, zero)
        return builder.select(counts, count, errno)

    return _within(on, size, run)


@_function(device.send, buffer="array", length="int64", flags="uint32")
def _send_some(on: Lowering) -> Any:
    return _send(on, on.number("flags", 32), False)


@_function(device.send_all, buffer="array", length="int64")
def _send_all(on: Lowering) -> Any:
    return _send(on, ir.Constant(I32, 0), True)


def _receive(on: Lowering, flags: Any) -> Any:
    address, size = on.array("buffer")
    socket = on.number("socket", 64)
    return _within(on, size, lambda length: on.call("receive", socket, address, length, flags))


@_function(device.receive, buffer="array", length="int64", flags="uint32")
def _receive_some(on: Lowering) -> Any:
    return _receive(on, on.number("flags", 32))


@_function(device.receive_all, buffer="array", length="int64")
def _receive_all(on: Lowering) -> Any:
    return _receive(on, ir.Constant(I32, device.MSG_WAITALL))


def _pairs(on: Lowering, name: str) -> Any:
    """An array of pairs of words, and how many there are."""
    address, size = on.array(name)
    return address, on.builder.lshr(size, ir.Constant(I64, 4))


@_function(device.poll, entries="array", timeout_ms="int64")
def _poll(on: Lowering) -> Any:
    return on.call("poll", *_pairs(on, "entries"), on.number("timeout_ms", 64))


@_function(device.wait, events="array")
def _wait(on: Lowering) -> Any:
    return on.call("wait", on.number("poller", 64), *_pairs(on, "events"), on.number("timeout_ns", 64))


@_function(device.print_line, text="any", length="int64")
def _print_line(on: Lowering) -> Any:
    types, kind = on.compiler.types, on.types["text"]
    if isinstance(kind, types.StringLiteral):
        data = kind.literal_value.encode()
        return on.call("print", on.text(data + b"\0"), ir.Constant(I64, len(data)))
    if not isinstance(kind, types.Array):
        raise TypeError(f"gpunet.device.print_line prints a constant text or an array of bytes, not {kind}")
    address, size = on.array("text")
    return _within(on, size, lambda length: on.call("print", address, length))


def _place(function: Any, register: str, first: int) -> None:
    """A thread's place: `first` is where the emulated GPU has it among twelve numbers."""

    @_function(function, "int64", axis="constant")
    def emit(on: Lowering) -> Any:
        kind = on.types["axis"]
        axis = int(kind.value if isinstance(kind, on.compiler.types.Omitted) else kind.literal_value)
        if axis not in (0, 1, 2):
            raise TypeError(f"an axis is 0, 1 or 2, not {axis}")
        if on.emulated:
            place = on.local(ir.ArrayType(I32, 12))
            on.emulator("position", on.address_of(place))
            number = on.builder.extract_value(on.builder.load(place), first + axis)
        else:
            made = on.function(f"llvm.nvvm.read.ptx.sreg.{register}.{'xyz'[axis]}", I32, [])
            number = on.builder.call(made, [])
        return on.builder.zext(number, I64)


_place(device.thread_index, "tid", 0)
_place(device.block_index, "ctaid", 3)
_place(device.block_size, "ntid", 6)
_place(device.grid_size, "nctaid", 9)


@_function(device.sync, "none")
def _sync(on: Lowering) -> None:
    builder, group = on.builder, on.number("group", 32)
    if on.emulated:
        on.announce()
        on.emulator("barrier", group)
        return
    # The number is a constant as a rule, and one of them is left.
    with builder.if_then(builder.icmp_unsigned("==", group, ir.Constant(I32, device.BLOCK))):
        builder.call(on.function("llvm.nvvm.barrier0", ir.VoidType(), []), [])
    with builder.if_then(builder.icmp_unsigned("==", group, ir.Constant(I32, device.WARP))):
        lanes = ir.Constant(I32, 0xFFFFFFFF)
        builder.call(on.function("llvm.nvvm.bar.warp.sync", ir.VoidType(), [lanes]), [lanes])


def _array_type(compiler: Any, kinds: Any) -> Any:
    dtype = kinds["dtype"]
    return compiler.types.Array(getattr(dtype, "dtype", dtype), 1, "C")


def _shared(on: Lowering, own: bool) -> Any:
    kind = _array_type(on.compiler, on.types)
    count = int(on.types["count"].literal_value)
    size = count * _lowering.bytes_of(kind.dtype)
    if on.emulated:
        key: Any = ir.Constant(I64, 0)
        if own:
            made = on.variable(I8, 0)
            made.linkage, made.initializer = "internal", ir.Constant(I8, 0)
            key = on.address_of(made)
        address = on.emulator("shared", key, ir.Constant(I64, size), result=I64)
    elif own:
        made = on.variable(ir.ArrayType(I8, size), 3)
        made.linkage, made.align = "internal", 16
        made.initializer = ir.Constant(made.type.pointee, ir.Undefined)
        address = on.address_of(made)
    else:
        name = "gpunet_launch_shared"
        made = on.builder.module.globals.get(name)
        if made is None:
            made = ir.GlobalVariable(on.builder.module, ir.ArrayType(I8, 0), name, addrspace=3)
            made.linkage, made.align = "external", 128
        address = on.address_of(made)
    return on.make_array(kind, address, [ir.Constant(I64, count)])


@_function(device.shared_array, _array_type, count="constant", dtype="any")
def _shared_array(on: Lowering) -> Any:
    return _shared(on, True)


@_function(device.launch_shared, _array_type, count="constant", dtype="any")
def _launch_shared(on: Lowering) -> Any:
    return _shared(on, False)


@_function(device.atomic_add, lambda _, kinds: kinds["array"].dtype, array="array", index="int64", value="any")
def _atomic_add(on: Lowering) -> Any:
    kind, builder = on.types["array"].dtype, on.builder
    if not isinstance(kind, on.compiler.types.Integer):
        raise TypeError(f"gpunet.device.atomic_add adds to integers, not to {kind}")
    address, size = on.array("array")
    index, width = on.number("index", 64), ir.Constant(I64, kind.bitwidth // 8)
    on.check("atomic_add", index, builder.udiv(size, width))
    offset = builder.mul(index, width)
    place = builder.inttoptr(builder.add(address, offset), ir.IntType(kind.bitwidth).as_pointer())
    return builder.atomic_rmw("add", place, on.number("value", kind.bitwidth), "monotonic")


@_function(device.pause, "none")
def _pause(on: Lowering) -> None:
    if on.emulated:
        on.emulator("pause")
    else:
        kind = ir.FunctionType(ir.VoidType(), [I32])
        asm = ir.InlineAsm(kind, "nanosleep.u32 $0;", "r", side_effect=True)
        on.builder.call(asm, [ir.Constant(I32, 100)])


@_function(device.clock, "uint64")
def _clock(on: Lowering) -> Any:
    if on.emulated:
        return on.emulator("clock", result=I64)
    asm = ir.InlineAsm(ir.FunctionType(I64, []), "mov.u64 $0, %globaltimer;", "=l", side_effect=True)
    return on.builder.call(asm, [])


@_function(_lowering.trap_raised, "none")
def _trap_raised(on: Lowering) -> None:
    on.emulator("trap", on.text(b"the kernel raised an exception (a raise, or an index beyond an array)\0"))


@_function(
    _lowering.array_at,
    lambda compiler, kinds: compiler.types.Array(kinds["dtype"].dtype, len(kinds["shape"]), "C"),
    shape="any",
    dtype="any",
)
def _array_at(on: Lowering) -> Any:
    kind = on.compiler.types.Array(on.types["dtype"].dtype, len(on.types["shape"]), "C")
    lengths = [on.builder.extract_value(on.values["shape"], at) for at in range(kind.ndim)]
    return on.make_array(kind, on.number("address", 64), lengths)


@_function(
    _lowering.parameter, lambda _, kinds: kinds["dtype"].dtype, given="any", index="constant", offset="constant", dtype="any"
)
def _parameter(on: Lowering) -> Any:
    builder, kind = on.builder, on.types["dtype"].dtype
    at = ir.Constant(I64, 8 * int(on.types["index"].literal_value))
    given = builder.ptrtoint(on.values["given"], I64)
    place = builder.load(builder.inttoptr(builder.add(given, at), I64.as_pointer()))
    place = builder.add(place, ir.Constant(I64, int(on.types["offset"].literal_value)))
    bits = 8 if kind is on.compiler.types.boolean else kind.bitwidth
    number = on.context.get_value_type(kind) if isinstance(kind, on.compiler.types.Float) else ir.IntType(bits)
    value = builder.load(builder.inttoptr(place, number.as_pointer()))
    if kind is on.compiler.types.boolean:
        return builder.icmp_unsigned("!=", value, ir.Constant(I8, 0))
    return value
