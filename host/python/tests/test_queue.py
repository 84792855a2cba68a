"""Stream-ordered operations and leases."""

from __future__ import annotations

import errno
import gc
import socket
import time
import weakref

import numpy as np
import pytest

import gpunet
from conftest import DEADLINE, pattern, receive
from gpunet import device as gn


@gpunet.kernel
def invert(net, data: gpunet.Array[np.uint8], count: np.uint32):
    for at in range(gn.thread_index(), count, gn.block_size()):
        data[at] = ~data[at]


@gpunet.kernel
def send_one(net, stream: gpunet.Socket, byte: np.uint8):
    buffer = gn.shared_array(1, np.uint8)
    if gn.thread_index() == 0:
        buffer[0] = byte
    gn.sync()
    gn.send_all(net, gn.BLOCK, stream, buffer)


def _pair(net):
    inner, outer = socket.socketpair()
    outer.settimeout(DEADLINE)
    return net.hand_over(inner), outer


def test_a_pipeline_on_a_stream(gpu, net):
    handle, peer = _pair(net)
    data = gpu.buffer(1000)
    stream = gpu.stream()
    with peer, net.queue(stream, timeout=DEADLINE) as queue:
        received = queue.receive(handle, data)
        queue.launch(invert, 1, 64, data, 1000)
        sent = queue.send(handle, data, 0, 700)
        with pytest.raises(gpunet.StillRunning):
            received.wait(0.02)
        assert received.statuses == [None] and not sent.done
        peer.sendall(pattern(1000))
        assert receive(peer, 700) == bytes(~byte & 255 for byte in pattern(700))
        sent.wait(DEADLINE)
        assert (received.statuses, sent.statuses, len(sent)) == ([0], [0], 1)
        assert stream.wait(DEADLINE) and stream.done


def test_arrays_and_flags_in_batches(emulated, net):
    handle, peer = _pair(net)
    flags = emulated.flags(2)
    with peer, net.queue() as queue:
        batch = queue.batch(timeout=DEADLINE).wait(flags, 0, ">=", 5)
        # The post keeps the array, which may be read-only: it is only sent from.
        batch.send(handle, np.frombuffer(pattern(100), np.uint8), 10, 20).write(flags, 1, 9)
        assert len(batch) == 3
        posted = queue.post(batch)
        again = queue.post(batch)
        del batch
        flags[0] = 5
        posted.wait(DEADLINE)
        again.wait(DEADLINE)
        assert flags[1] == 9 and flags[0] == 5 and len(flags) == 2
        assert receive(peer, 40) == pattern(100)[10:30] * 2
        with pytest.raises(ValueError, match="unknown condition"):
            queue.batch().wait(flags, 0, "<", 5)
        with pytest.raises(IndexError):
            flags[2] = 1
        with pytest.raises(IndexError):
            queue.send(handle, np.zeros(4, np.uint8), 2, 3)
        with pytest.raises(TypeError, match="read-only"):
            queue.receive(handle, np.frombuffer(bytes(4), np.uint8))


def test_an_operation_that_fails_says_how(gpu, net):
    handle, peer = _pair(net)
    with net.queue() as queue:
        batch = queue.batch(timeout=0.05).receive(handle, gpu.buffer(10))
        with pytest.raises(gpunet.OperationError) as error:
            queue.post(batch).wait(DEADLINE)
        assert (error.value.errno, error.value.index) == (errno.ETIMEDOUT, 0)
        peer.close()


def test_a_graph_runs_again_and_again(gpu, net):
    handle, peer = _pair(net)
    data = gpu.buffer(100)
    stream = gpu.stream()
    with peer, net.queue(stream, timeout=DEADLINE) as queue:
        steps = queue.graph().post(queue.batch(10).receive(handle, data))
        steps.launch(invert, 1, 64, data, 100).post(queue.batch(10).send(handle, data))
        # The graph has what it uses.
        del data
        with steps.build() as graph:
            assert graph.statuses == [(0, 0), (0, 0)]
            graph.wait(timeout=0)
            for turn in range(1, 4):
                assert graph.launch() == turn
                with pytest.raises(gpunet.StillRunning):
                    graph.wait(turn, 0.01)
                peer.sendall(pattern(100, turn))
                assert receive(peer, 100) == bytes(~byte & 255 for byte in pattern(100, turn))
                graph.wait(turn, DEADLINE)
            # Two on the stream at once.
            graph.launch()
            graph.launch()
            peer.sendall(pattern(200))
            assert receive(peer, 200) == bytes(~byte & 255 for byte in pattern(200))
            graph.wait(timeout=DEADLINE)
            assert graph.statuses == [(5, 0), (5, 0)]
        with pytest.raises(gpunet.ClosedError, match="this graph is closed"):
            graph.launch()
        assert stream.wait(DEADLINE)


def test_an_operation_of_a_graph_that_fails_says_which(gpu, net):
    handle, peer = _pair(net)
    with peer, net.queue() as queue:
        batch = queue.batch(timeout=0.05).receive(handle, gpu.buffer(10))
        with queue.graph().post(queue.batch(10).send(handle, gpu.buffer(1))).post(batch).build() as graph:
            graph.launch()
            with pytest.raises(gpunet.OperationError) as error:
                graph.wait(timeout=DEADLINE)
            assert (error.value.errno, error.value.index) == (errno.ETIMEDOUT, 1)
        with pytest.raises(gpunet.ArgumentError, match="takes 2 arguments"):
            queue.graph().launch(invert, 1, 64)


def test_a_graph_that_is_let_go_of_while_it_runs_keeps_its_arrays(emulated, net):
    handle, peer = _pair(net)
    data = np.zeros(1 << 20, np.uint8)
    gone = weakref.ref(data)
    with peer, net.queue() as queue:
        graph = queue.graph().post(queue.batch(10).receive(handle, data)).build()
        graph.launch()
        del data
        graph.close()
        del graph
        gc.collect()
        assert gone() is not None
        peer.sendall(bytes(1 << 20))
        # What is done is let go of when something is posted or closed.
        for _ in range(int(DEADLINE / 0.01)):
            queue.graph().build().close()
            gc.collect()
            if gone() is None:
                break
            time.sleep(0.01)
        assert gone() is None


def test_kernels_under_a_lease(gpu, net):
    handle, peer = _pair(net)
    streams = [gpu.stream(), gpu.stream()]
    with peer, net.lease(streams, [(send_one, 1, 32)]) as lease:
        assert len(lease.net) == 16
        lease.launch(streams[0], send_one, 1, 32, handle, 65)
        assert receive(peer, 1) == b"A"
        lease.launch(streams[1], send_one, 1, 32, handle, 66)
        assert receive(peer, 1) == b"B"
        with pytest.raises(gpunet.NetError, match="none of this lease's"):
            lease.launch(gpu.stream(), send_one, 1, 32, handle, 67)
        assert not lease.done
    lease.wait(DEADLINE)
    assert lease.done
    with pytest.raises(gpunet.NetError, match="closed"):
        lease.launch(streams[0], send_one, 1, 32, handle, 68)


class Foreign:
    """Streams as other libraries have them."""

    def __init__(self, **attributes):
        self.__dict__.update(attributes)


def test_streams_of_other_libraries_by_their_number(emulated):
    from gpunet._stream import _raw_stream

    assert _raw_stream(Foreign(cuda_stream=7)) == 7
    assert _raw_stream(Foreign(ptr=8)) == 8
    assert _raw_stream(Foreign(__cuda_stream__=lambda: (0, 9))) == 9
    assert _raw_stream(Foreign(__cuda_stream__=(0, 10))) == 10
    with pytest.raises(TypeError, match="no stream of CUDA: Foreign"):
        emulated.stream(Foreign())
    with pytest.raises(gpunet.GpuError, match="not possible on the emulated GPU"):
        emulated.stream(7)


def test_a_batch_keeps_the_memory_of_a_buffer_that_is_closed(gpu, net):
    handle, peer = _pair(net)
    with peer, net.queue(timeout=DEADLINE) as queue:
        closed = gpu.buffer(4096)
        batch = queue.batch().receive(handle, closed)
        closed.close()
        # One of these would have its memory.
        others = [gpu.buffer(4096) for _ in range(32)]
        peer.sendall(b"\xaa" * 4096)
        queue.post(batch).wait(DEADLINE)
        assert not any(other.numpy().any() for other in others)
        with pytest.raises(gpunet.ClosedError):
            queue.batch().receive(handle, closed)


def test_what_is_no_socket_is_refused(gpu, net):
    data = gpu.buffer(4)
    for wrong in (None, 1.5, "5", True, -1, 2**64):
        for use in (lambda: net.queue().send(wrong, data), lambda: net.close_socket(wrong), lambda: net.take_back(wrong)):
            with pytest.raises(TypeError, match="no socket: use a listener"):
                use()
