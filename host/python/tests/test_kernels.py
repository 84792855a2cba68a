"""Kernels in Python with real peers: streams, endings, time-outs, polls, reports."""

from __future__ import annotations

import errno
import inspect
import socket
import struct

import numpy as np
import pytest

import gpunet
from conftest import DEADLINE, connect, pattern, receive
from gpunet import device as gn


@gpunet.kernel
def echo(net, listener: gpunet.Socket, result: gpunet.Array[np.int64]):
    """One connection, sent back until it ends."""
    buffer = gn.shared_array(1000, np.uint8)
    stream = gn.accept(net, gn.BLOCK, listener)
    count = stream
    while stream >= 0:
        count = gn.receive(net, gn.BLOCK, stream, buffer)
        if count <= 0:
            break
        sent = gn.send_all(net, gn.BLOCK, stream, buffer, count)
        if sent < 0:
            count = sent
            break
    if stream >= 0:
        gn.close(net, gn.BLOCK, stream)
    if gn.thread_index() == 0:
        result[0] = count


@pytest.mark.parametrize("threads", [1, 33, 64])
def test_a_stream_of_odd_sizes_is_sent_back(gpu, net, threads):
    result = gpu.buffer(np.array([-1], np.int64))
    with net.listen() as listener:
        launch = net.launch(echo, 1, threads, listener, result)
        position = 0
        with connect(listener) as client:
            for count in (1, 7, 255, 256, 257, 999, 1000, 1001, 4097, 70_001):
                sent = pattern(count, position)
                # In pieces that both buffers hold.
                for at in range(0, count, 10_000):
                    client.sendall(sent[at : at + 10_000])
                    assert receive(client, len(sent[at : at + 10_000])) == sent[at : at + 10_000]
                position += count
        launch.wait(DEADLINE)
    assert result.numpy()[0] == 0
    assert net.statistics()["received_bytes"] == position


def test_a_peer_that_resets_is_an_error(gpu, net):
    result = gpu.buffer(1, np.int64)
    with net.listen() as listener:
        launch = net.launch(echo, 1, 32, listener, result)
        client = connect(listener)
        client.sendall(b"x")
        assert receive(client, 1) == b"x"
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.close()
        launch.wait(DEADLINE)
    assert result.numpy()[0] == -errno.ECONNRESET


@gpunet.kernel
def wait_in_vain(net, listener: gpunet.Socket, timeout_ns: np.uint64, results: gpunet.Array[np.int64]):
    """An accept that nobody comes for, and a receive that nobody sends for."""
    buffer = gn.shared_array(16, np.uint8)
    stream = gn.accept(net, gn.BLOCK, listener)
    gn.set_option(net, gn.BLOCK, stream, gn.OPTION_RECEIVE_TIMEOUT, timeout_ns)
    received = gn.receive(net, gn.BLOCK, stream, buffer)
    at_once = gn.receive(net, gn.BLOCK, stream, buffer, 16, gn.MSG_DONTWAIT)
    read = gn.get_option(net, gn.BLOCK, stream, gn.OPTION_RECEIVE_TIMEOUT)
    gn.set_option(net, gn.BLOCK, listener, gn.OPTION_RECEIVE_TIMEOUT, timeout_ns)
    accepted = gn.accept(net, gn.BLOCK, listener)
    closed = gn.close(net, gn.BLOCK, stream)
    again = gn.close(net, gn.BLOCK, stream)
    if gn.thread_index() == 0:
        results[0] = received
        results[1] = at_once
        results[2] = read
        results[3] = accepted
        results[4] = closed
        results[5] = again


def test_waits_have_their_time(gpu, net):
    results = gpu.buffer(6, np.int64)
    with net.listen() as listener, connect(listener):
        net.launch(wait_in_vain, 1, 32, listener, 20_000_000, results).wait(DEADLINE)
    expected = [-errno.ETIMEDOUT, -errno.EAGAIN, 20_000_000, -errno.ETIMEDOUT, 0, -errno.EBADF]
    assert list(results.numpy()) == expected


@gpunet.kernel("address, uint8[::1], int64[::1]")
def ask(net, address, message, results):
    """A client: connects, sends a buffer, takes the answer up to the end."""
    stream = gn.open_stream(net, gn.BLOCK, address)
    count = np.int64(0)
    if stream >= 0:
        named, peer = gn.peer_address(net, gn.BLOCK, stream)
        own_named, own = gn.own_address(net, gn.BLOCK, stream)
        gn.send_all(net, gn.BLOCK, stream, message)
        gn.shutdown(net, gn.BLOCK, stream)
        count = gn.receive_all(net, gn.BLOCK, stream, message)
        gn.close(net, gn.BLOCK, stream)
        if gn.thread_index() == 0:
            results[1] = count
            results[2] = named
            results[3] = (peer[0] >> 16) & 0xFFFF
            results[4] = own[0] & 0xFFFF
    if gn.thread_index() == 0:
        results[0] = stream


def test_a_kernel_connects(gpu, net):
    results = gpu.buffer(5, np.int64)
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(DEADLINE)
        message = gpu.buffer(np.frombuffer(pattern(5000), np.uint8))
        address = gpunet.Address(server.getsockname())
        launch = net.launch(ask, 1, 64, address, message, results)
        peer, _ = server.accept()
        with peer:
            peer.settimeout(DEADLINE)
            assert receive(peer, 10_000) == pattern(5000)
            peer.sendall(pattern(3000, 9))
        launch.wait(DEADLINE)
        port = server.getsockname()[1]
    handle, count, named, peer_port, family = (int(number) for number in results.numpy())
    assert (count, named, peer_port, family) == (3000, 0, port, socket.AF_INET)
    assert handle > 0
    assert bytes(message.numpy()[:3000]) == pattern(3000, 9)


def test_a_refused_connection_is_an_error_number(gpu, net):
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = gpunet.Address(server.getsockname())
    results = gpu.buffer(5, np.int64)
    net.launch(ask, 1, 32, address, gpu.buffer(10), results).wait(DEADLINE)
    assert results.numpy()[0] == -errno.ECONNREFUSED
    assert net.statistics()["sockets"] == 0


@gpunet.function
def add_ready(entries, count, ready):
    """Which of some entries are ready, as bits."""
    for at in range(count):
        if (entries[2 * at + 1] >> np.uint64(16)) & np.uint64(gn.POLLIN):
            ready |= 1 << at
    return ready


@gpunet.kernel
def poll_both(net, first: gpunet.Socket, second: gpunet.Socket, results: gpunet.Array[np.int64]):
    """Looks at two sockets with poll, then waits for both with a poller."""
    entries = gn.shared_array(4, np.uint64)
    events = gn.shared_array(8, np.uint64)
    if gn.thread_index() == 0:
        entries[0], entries[1] = first, gn.POLLIN
        entries[2], entries[3] = second, gn.POLLIN
    gn.sync()
    count = gn.poll(net, gn.BLOCK, entries, 10_000)
    ready = add_ready(entries, 2, 0)
    poller = gn.poller(net, gn.BLOCK)
    gn.watch(net, gn.BLOCK, poller, first, gn.POLLIN, 5)
    gn.watch(net, gn.BLOCK, poller, second, gn.POLLIN, 6)
    found = gn.wait(net, gn.BLOCK, poller, events, 600_000_000_000)
    token = events[0]
    gn.close(net, gn.BLOCK, poller)
    if gn.thread_index() == 0:
        results[0] = count
        results[1] = ready
        results[2] = found
        results[3] = token


def test_polls_tell_who_is_ready(gpu, net):
    pairs = [socket.socketpair() for _ in range(2)]
    handles = [net.hand_over(inner) for inner, _ in pairs]
    results = gpu.buffer(4, np.int64)
    pairs[1][1].sendall(b"ready")
    net.launch(poll_both, 1, 64, *handles, results).wait(DEADLINE)
    assert list(results.numpy()) == [1, 2, 1, 6]
    for handle, expected in zip(handles, (b"", b"ready")):
        taken, unread = net.take_back(handle)
        with taken:
            assert unread == expected
    for _, outer in pairs:
        outer.close()


@gpunet.kernel
def place(net, out: gpunet.Array[np.int64, 2], sum: gpunet.Array[np.uint32]):
    """Where each thread is; a warp's barrier; launch-sized memory."""
    at = (gn.block_index() * gn.block_size(1) + gn.thread_index(1)) * gn.block_size() + gn.thread_index()
    shared = gn.launch_shared(2, np.uint32)
    if gn.thread_index() == 0 and gn.thread_index(1) == 0:
        shared[0] = 40 + gn.block_index()
    gn.sync(gn.BLOCK)
    gn.sync(gn.WARP)
    out[at, 0] = gn.thread_index(1)
    out[at, 1] = gn.grid_size()
    out[at, 2] = shared[0]
    before = gn.clock()
    gn.pause()
    if gn.clock() >= before:
        gn.atomic_add(sum, 0, 1)


def test_threads_know_their_place(gpu, net):
    out, total = gpu.buffer((3 * 16 * 2, 3), np.int64), gpu.buffer(1, np.uint32)
    net.launch(place, 3, (16, 2), out, total, shared=8).wait(DEADLINE)
    rows = out.numpy()
    assert total.numpy()[0] == len(rows)
    for at, (y, blocks, shared) in enumerate(rows):
        assert (y, blocks, shared) == (at // 16 % 2, 3, 40 + at // 32)


@gpunet.kernel
def print_text(net, text: gpunet.Array[np.uint8]):
    gn.print_line(net, gn.BLOCK, "a constant")
    gn.print_line(net, gn.BLOCK, text, 4)
    beyond = gn.print_line(net, gn.BLOCK, text, 100)
    if beyond != -22:
        gn.print_line(net, gn.BLOCK, "more than there is")


def test_kernels_print(gpu):
    lines = []
    with gpunet.Net(gpu, on_print=lambda launch, line: lines.append(line)) as net:
        net.launch(print_text, 1, 32, gpu.buffer(np.frombuffer(b"fine, and more", np.uint8))).wait(DEADLINE)
    assert lines == ["a constant", "fine"]


@gpunet.kernel
def differ(net, listener: gpunet.Socket):
    gn.set_option(net, gn.BLOCK, listener, gn.OPTION_RECEIVE_TIMEOUT, gn.thread_index())


@gpunet.kernel
def half_a_barrier(net, out: gpunet.Array[np.int64]):
    if gn.thread_index() < 16:
        gn.sync()
    out[0] = 1


def test_divergence_is_reported_with_its_place(emulated):
    line = inspect.getsourcelines(differ._python)[1] + 2
    with gpunet.Net(emulated) as net:
        with pytest.raises(gpunet.DivergenceError) as report:
            net.launch(differ, 1, 32, net.listen()).wait(DEADLINE)
    assert f"test_kernels.py:{line}" in str(report.value) and "gsetsockopt" in str(report.value)
    assert report.value.blame == "kernel"
    with gpunet.Net(emulated) as net:
        with pytest.raises(gpunet.DivergenceError, match="barrier"):
            net.launch(half_a_barrier, 1, 32, emulated.buffer(1, np.int64)).wait(DEADLINE)
        # A net whose kernel has faulted launches no more.
        with pytest.raises(gpunet.NetError, match="make a new net"):
            net.launch(half_a_barrier, 1, 32, emulated.buffer(1, np.int64))


@gpunet.kernel
def divide(net, out: gpunet.Array[np.int64], by: np.int64):
    if by == 0:
        raise ValueError("by nothing")
    out[0] = 10 // by


def test_an_exception_in_a_kernel_is_a_fault(emulated):
    faults = []
    with gpunet.Net(emulated, on_fault=lambda *fault: faults.append(fault)) as net:
        out = emulated.buffer(1, np.int64)
        net.launch(divide, 1, 4, out, 3).wait(DEADLINE)
        assert out.numpy()[0] == 3
        with pytest.raises(gpunet.KernelError, match="raised an exception"):
            net.launch(divide, 1, 4, out, 0).wait(DEADLINE)
    assert [(kernel, type(error)) for _, kernel, error in faults] == [("divide", gpunet.KernelError)]


@gpunet.function
def store_at(out, at):
    out[at] = 5


@gpunet.kernel
def store_beyond(net, out: gpunet.Array[np.int64], at: np.int64, how: np.int32):
    if how == 0:
        out[at] = 5
    elif how == 1:
        store_at(out, at)
    else:
        gn.atomic_add(out, at, 5)


def test_an_index_beyond_an_array_is_a_fault(emulated):
    for how in range(3):
        for at in (2, -3, 10**12):
            memory = np.zeros(8, np.int64)
            with gpunet.Net(emulated) as net:
                with pytest.raises(gpunet.KernelError, match="an index (beyond an array|out of bounds)"):
                    net.launch(store_beyond, 1, 1, memory[3:5], at, how).wait(DEADLINE)
            assert not memory.any()


def test_a_stopped_kernel_ends(gpu, net):
    result = gpu.buffer(1, np.int64)
    with net.listen() as listener:
        with net.launch(echo, 1, 32, listener, result) as launch:
            assert not launch.done
            with pytest.raises(gpunet.StillRunning):
                launch.wait(0.05)
            with pytest.raises(TimeoutError):
                launch.wait(0)
    assert launch.done
    assert result.numpy()[0] == -errno.ECANCELED


def test_what_is_no_kernel_says_so():
    with pytest.raises(TypeError, match="launch it with net.launch"):
        echo(1, 2)
    with pytest.raises(TypeError, match="only kernels call it"):
        gn.accept(1, 2, 3)
    with pytest.raises(TypeError, match="parameter 'a' has no type"):
        gpunet.kernel(lambda net, a: None)
    with pytest.raises(TypeError, match="its first parameter is the net"):
        gpunet.kernel(lambda: None)
    with pytest.raises(TypeError, match="has 1 parameters behind 'net', and its signature 2"):
        gpunet.kernel("socket, int32")(lambda net, a: None)
    for wrong, why in ((">i4", "byte order"), (None, "None is no type"), ((np.int8, 0), "1 dimension or more, not 0")):
        with pytest.raises(TypeError, match=why):
            gpunet.Array[wrong]


def test_only_kernels_are_launched(net):
    queue = net.queue()
    for wrong in ("echo", lambda net: None, None):
        for launch in (net.launch, queue.launch, queue.graph().launch):
            with pytest.raises(gpunet.ArgumentError, match="no kernel: .*use a @gpunet.kernel"):
                launch(wrong, 1, 1)


def test_what_does_not_compile_says_why(gpu, net):
    @gpunet.kernel
    def wrong(net, listener: gpunet.Socket):
        gn.receive(net, gn.BLOCK, listener, 5)

    with pytest.raises(gpunet.CompileError, match="'buffer' is an array of one dimension"):
        net.launch(wrong, 1, 1, net.listen())


def test_a_net_that_is_not_set_is_told(emulated):
    @gpunet.kernel
    def wrong(net, listener: gpunet.Socket):
        gn.accept((np.uint64(0), np.uint64(0)), gn.BLOCK, listener)

    with gpunet.Net(emulated) as net:
        with pytest.raises(gpunet.KernelError, match=r"gaccept with a net that is not set, at .*test_kernels.py:\d+") as error:
            net.launch(wrong, 1, 32, net.listen()).wait(DEADLINE)
    assert "\n" not in str(error.value)
