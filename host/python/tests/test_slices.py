"""Slices of rings, and values between the lanes of a warp."""

from __future__ import annotations

import errno
import socket

import numpy as np
import pytest

import gpunet
from conftest import DEADLINE, connect, pattern, receive
from gpunet import device as gn


@gpunet.kernel
def shout(net, listener: gpunet.Socket, ended: gpunet.Array[np.int64]):
    """Reads where the bytes lie, and writes the answer where it is sent from: each byte, inverted."""
    stream = gn.accept(net, gn.BLOCK, listener)
    while stream >= 0:
        count, received = gn.peek(net, gn.BLOCK, stream)
        if count <= 0:
            if gn.thread_index() == 0:
                ended[0] = count
                ended[1] = gn.consume(net, gn.THREAD, stream, received)
            break
        room, space = gn.reserve(net, gn.BLOCK, stream, 1, count)
        if room < 0:
            break
        for at in range(gn.thread_index(), room, gn.block_size()):
            gn.store_byte(space, at, ~gn.load_byte(received, at))
        gn.commit(net, gn.BLOCK, stream, space)
        gn.consume(net, gn.BLOCK, stream, received, room)
    gn.close(net, gn.BLOCK, stream)


def test_slices_wrap_and_come_to_an_end(gpu):
    ended = gpu.buffer(np.array([7, 7], np.int64))
    # A ring that is gone round many times, at places that are no multiple of anything.
    with gpunet.Net(gpu, ring=4096) as net, net.listen() as listener:
        launch = net.launch(shout, 1, 64, listener, ended)
        position = 0
        with connect(listener) as client:
            for count in (1, 4095, 777, 4096, 3, 5000, 12_345):
                sent = pattern(count, position)
                for at in range(0, count, 3000):
                    piece = sent[at : at + 3000]
                    client.sendall(piece)
                    assert receive(client, len(piece)) == bytes(~byte & 255 for byte in piece)
                position += count
            client.shutdown(socket.SHUT_WR)
            launch.wait(DEADLINE)
    assert list(ended.numpy()) == [0, 0]


@gpunet.kernel
def look_twice(net, stream: gpunet.Socket, results: gpunet.Array[np.int64]):
    """Consumes a part of a slice, then nothing, then more than there is; sends a part of what it reserved."""
    count, received = gn.peek(net, gn.BLOCK, stream, 10)
    first, second = received
    length = len(first) + len(second)
    gn.consume(net, gn.BLOCK, stream, received, 4)
    again, rest = gn.peek(net, gn.BLOCK, stream, 6)
    byte = np.int64(gn.load_byte(rest, 0))
    gn.consume(net, gn.BLOCK, stream, rest, 0)
    third, last = gn.peek(net, gn.BLOCK, stream)
    gn.consume(net, gn.BLOCK, stream, last, 1_000_000)
    room, space = gn.reserve(net, gn.BLOCK, stream, 3, 5)
    for at in range(gn.thread_index(), room, gn.block_size()):
        gn.store_byte(space, at, 65 + at)
    gn.commit(net, gn.BLOCK, stream, space, 2)
    room_of_nothing, nothing = gn.reserve(net, gn.BLOCK, stream, 1, 1)
    gn.commit(net, gn.BLOCK, stream, nothing, 0)
    gn.shutdown(net, gn.BLOCK, stream)
    closed, none = gn.reserve(net, gn.BLOCK, stream)
    gn.commit(net, gn.BLOCK, stream, none)
    if gn.thread_index() == 0:
        for at, number in enumerate((count, length, again, byte, third, room, room_of_nothing, closed)):
            results[at] = number


def test_what_is_not_consumed_stays_and_what_is_not_committed_is_not_sent(gpu, net):
    inner, outer = socket.socketpair()
    outer.settimeout(DEADLINE)
    results = gpu.buffer(8, np.int64)
    with outer:
        outer.sendall(bytes(range(10)))
        net.launch(look_twice, 1, 32, net.hand_over(inner), results).wait(DEADLINE)
        assert receive(outer, 100) == b"AB"
    assert list(results.numpy()) == [10, 10, 6, 4, 6, 5, 1, -errno.EPIPE]


@gpunet.kernel
def differ_in_a_slice(net, stream: gpunet.Socket):
    count, received = gn.peek(net, gn.BLOCK, stream)
    gn.consume(net, gn.BLOCK, stream, received, gn.thread_index() % 2)


def test_slices_that_threads_close_differently_are_reported(emulated):
    inner, outer = socket.socketpair()
    with outer, gpunet.Net(emulated) as net:
        outer.sendall(b"xx")
        with pytest.raises(gpunet.DivergenceError, match=r"consume.*test_slices.py:"):
            net.launch(differ_in_a_slice, 1, 32, net.hand_over(inner)).wait(DEADLINE)


def test_a_slice_is_what_peek_gives(gpu, net):
    @gpunet.kernel
    def wrong(net, stream: gpunet.Socket, data: gpunet.Array[np.uint8]):
        gn.consume(net, gn.BLOCK, stream, data)

    with pytest.raises(gpunet.CompileError, match="'slice' is what peek or reserve gave"):
        net.launch(wrong, 1, 1, net.listen(), gpu.buffer(1))


@gpunet.kernel
def lanes(net, out: gpunet.Array[np.int64, 2], real: gpunet.Array[np.float64], votes: gpunet.Array[np.uint32]):
    """What each lane gets from others: by number, up, down, by bits; a sum of floats; a vote."""
    at = gn.thread_index()
    lane = at % 32
    value = (at << 40) + at
    out[at, 0] = gn.shuffle(value, 3)
    out[at, 1] = gn.shuffle_up(value, 2)
    out[at, 2] = gn.shuffle_down(np.int32(-at), 1)
    out[at, 3] = gn.shuffle_xor(np.uint8(at), 5)
    total = np.float64(lane) + 0.5
    step = 16
    while step > 0:
        total += gn.shuffle_xor(total, step)
        step >>= 1
    real[at] = total
    votes[at] = gn.ballot(lane % 3 == 0)


def test_lanes_give_values_to_each_other(gpu, net):
    out, real, votes = gpu.buffer((64, 4), np.int64), gpu.buffer(64, np.float64), gpu.buffer(64, np.uint32)
    net.launch(lanes, 1, 64, out, real, votes).wait(DEADLINE)
    big = [(at << 40) + at for at in range(64)]
    for at, row in enumerate(out.numpy()):
        warp, lane = at - at % 32, at % 32
        expected = [
            big[warp + 3],
            big[at - 2] if lane >= 2 else big[at],
            -(at + 1) if lane < 31 else -at,
            warp + (lane ^ 5),
        ]
        assert list(row) == expected, at
    assert set(real.numpy()) == {sum(range(32)) + 16.0}
    assert set(votes.numpy()) == {sum(1 << lane for lane in range(0, 32, 3))}


@gpunet.kernel
def half_a_vote(net, votes: gpunet.Array[np.uint32]):
    if gn.thread_index() < 16:
        votes[0] = gn.ballot(True)


def test_a_vote_of_half_a_warp_is_reported(emulated):
    with gpunet.Net(emulated) as net:
        with pytest.raises(gpunet.DivergenceError):
            net.launch(half_a_vote, 1, 32, emulated.buffer(1, np.uint32)).wait(DEADLINE)


def test_a_shuffle_of_what_is_no_number(gpu, net):
    @gpunet.kernel
    def wrong(net, out: gpunet.Array[np.int64]):
        out[0] = gn.shuffle(out, 0)

    with pytest.raises(gpunet.CompileError, match="give each other integers and floats, not array"):
        net.launch(wrong, 1, 32, gpu.buffer(1, np.int64))


@gpunet.kernel
def touch_beyond(net, stream: gpunet.Socket, beyond: np.int64, store: np.int32):
    count, received = gn.peek(net, gn.BLOCK, stream)
    if store == 0:
        gn.load_byte(received, count + beyond)
    else:
        gn.store_byte(received, count + beyond, 1)
    gn.consume(net, gn.BLOCK, stream, received)


def test_a_byte_beyond_a_slice_is_a_fault(emulated):
    for store in (0, 1):
        for beyond, is_fault in ((-1, False), (0, True), (-100, True), (10**12, True)):
            with gpunet.Net(emulated) as net:
                ours, theirs = socket.socketpair()
                ours.sendall(b"0123456789")
                launch = net.launch(touch_beyond, 1, 32, net.hand_over(theirs), beyond, store)
                if is_fault:
                    with pytest.raises(gpunet.KernelError, match=r"_byte: an index out of bounds at .*test_slices\.py"):
                        launch.wait(DEADLINE)
                else:
                    launch.wait(DEADLINE)
                ours.close()
