"""Waits, signals, threads, asyncio, garbage collection, exit and fork: nothing hangs, nothing holds the GIL."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import carried

import gpunet
from conftest import DEADLINE, TEST_DEADLINE, connect, pattern, receive
from gpunet import device as gn

PROGRAM = """
import gc, os, signal, sys, threading, time
import numpy as np
import gpunet
from programs import GPU, hold, spin

gpu = gpunet.Gpu(GPU)
out = gpu.buffer(1, np.int64)
"""


def run(program: str, expect: int = 0) -> str:
    """Runs a program of its own, in bounded time."""
    if os.environ.get("GPUNET_PYTHON_GPU", "emulated") == "emulated":
        if carried.missing("numba"):
            pytest.skip(carried.missing("numba"))
    command = [sys.executable, "-c", PROGRAM + textwrap.dedent(program)]
    path = os.pathsep.join([str(Path(__file__).parent), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {**os.environ, "PYTHONPATH": path}
    done = subprocess.run(command, capture_output=True, text=True, timeout=TEST_DEADLINE, env=environment)
    assert done.returncode == expect, f"exit code {done.returncode}: {done.stdout}\n{done.stderr}"
    return done.stdout


@gpunet.kernel
def hold(net, listener: gpunet.Socket, out: gpunet.Array[np.int64]):
    """Waits for a client, reads to its end."""
    buffer = gn.shared_array(64, np.uint8)
    stream = gn.accept(net, gn.BLOCK, listener)
    count = stream
    while count > 0:
        count = gn.receive(net, gn.BLOCK, stream, buffer)
    if gn.thread_index() == 0:
        out[0] = count


def test_other_threads_run_while_one_waits(gpu, net):
    out = gpu.buffer(1, np.int64)
    with net.listen() as listener:
        launch = net.launch(hold, 1, 32, listener, out)
        turns = 0
        waiting = threading.Thread(target=launch.wait, args=(DEADLINE,))
        waiting.start()
        begin = time.monotonic()
        while time.monotonic() < begin + 0.2:
            turns += 1
        assert waiting.is_alive() and turns > 1000
        connect(listener).close()
        waiting.join(DEADLINE)
        assert not waiting.is_alive()


def test_ctrl_c_raises_and_leaves_the_kernel_to_its_context_manager():
    said = run(
        """
        with gpunet.Net(gpu) as net:
            launch = net.launch(hold, 1, 32, net.listen(), out)
            threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
            try:
                launch.wait()
            except KeyboardInterrupt:
                print("interrupted, done:", launch.done)
        print("closed, done:", launch.done, out.numpy()[0])
        """
    )
    assert said == "interrupted, done: False\nclosed, done: True -125\n"


def test_a_net_that_is_collected_ends_in_the_background(gpu):
    net = gpunet.Net(gpu)
    out = gpu.buffer(1, np.int64)
    launch = net.launch(hold, 1, 32, net.listen(), out)
    begin = time.monotonic()
    del net
    gc.collect()
    # The collector does not wait for it.
    assert time.monotonic() - begin < DEADLINE / 4
    launch.wait(DEADLINE)
    assert out.numpy()[0] == -125


def test_a_net_may_be_closed_while_others_use_it(gpu):
    net = gpunet.Net(gpu)
    out = gpu.buffer(1, np.int64)
    launch = net.launch(hold, 1, 32, net.listen(), out)
    ends = []

    def use():
        try:
            while True:
                net.statistics()
        except gpunet.ClosedError as error:
            ends.append(str(error))

    users = [threading.Thread(target=use) for _ in range(3)]
    for user in users:
        user.start()
    time.sleep(0.05)
    net.close()
    for user in users:
        user.join(DEADLINE)
    assert ends == ["this net is closed: make a new one"] * 3
    launch.wait(DEADLINE)
    assert out.numpy()[0] == -125


def test_a_kernel_that_does_not_listen_to_stops_is_killed(emulated):
    said = run(
        """
        net = gpunet.Net(gpu)
        launch = net.launch(spin, 1, 4, out)
        begin = time.monotonic()
        turns = 0
        closing = threading.Thread(target=net.close)
        closing.start()
        while closing.is_alive():
            turns += 1
            time.sleep(0.001)
        print(turns > 100, time.monotonic() - begin < 200)
        try:
            launch.wait(600)
        except gpunet.KernelError as error:
            print(error)
        """
    )
    assert said == "True True\nkernel 'spin' was killed by the host\n"


def test_exit_with_a_kernel_that_runs():
    for end in ("", "sys.exit(0)", "del net", "net = launch = None; gc_cycle = [gpu]; gc_cycle.append(gc_cycle)"):
        begin = time.monotonic()
        run(
            f"""
            net = gpunet.Net(gpu)
            launch = net.launch(hold, 1, 32, net.listen(), out)
            {end}
            """
        )
        assert time.monotonic() - begin < TEST_DEADLINE / 2


def test_exit_by_an_exception_with_a_kernel_that_runs():
    run(
        """
        with gpunet.Net(gpu) as net, net.launch(hold, 1, 32, net.listen(), out):
            raise SystemExit(7)
        """,
        expect=7,
    )


def test_a_forked_child_owns_nothing():
    said = run(
        """
        net = gpunet.Net(gpu)
        listener = net.listen()
        launch = net.launch(hold, 1, 32, listener, out)
        sys.stdout.flush()
        child = os.fork()
        if child == 0:
            for call in (net.statistics, launch.abort, lambda: launch.wait(1), out.numpy, gpu.stream):
                try:
                    call()
                except gpunet.ForkedError as error:
                    print("refused:", "forked off" in str(error))
            net.close()
            del net, launch, listener, out, gpu
            import gc
            gc.collect()
            # What it makes itself is its own.
            with gpunet.Gpu("emulated") as own, gpunet.Net(own) as mine:
                print(mine.statistics()["sockets"])
            sys.exit(3)
        pid, status = os.waitpid(child, 0)
        print("child:", os.waitstatus_to_exitcode(status))
        print("alive:", not launch.done, net.statistics()["sockets"])
        launch.abort()
        launch.wait(600)
        """
    )
    assert said == "refused: True\n" * 5 + "0\nchild: 3\nalive: True 1\n"


def test_asyncio_waits_beside_others(gpu, net):
    async def client(listener, count):
        reader, writer = await asyncio.open_connection(*listener.address.pair())
        writer.write(pattern(count))
        writer.close()
        await writer.wait_closed()

    async def serve():
        out = gpu.buffer(1, np.int64)
        with net.listen() as listener:
            launch = net.launch(hold, 1, 32, listener, out)
            assert not launch.done
            await asyncio.gather(client(listener, 3000), asyncio.wait_for(launch, DEADLINE))
        return out.numpy()[0]

    assert asyncio.run(serve()) == 0

    async def cancelled():
        out = gpu.buffer(1, np.int64)
        with net.launch(hold, 1, 32, net.listen(), out) as launch:
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(launch, 0.05)
            assert not launch.done
        return launch.done

    assert asyncio.run(cancelled())


def test_a_fault_is_raised_by_await(emulated):
    @gpunet.kernel
    def wrong(net, by: np.int64):
        if by == 0:
            raise ValueError

    async def run():
        with gpunet.Net(emulated) as net:
            await net.launch(wrong, 1, 1, 0)

    with pytest.raises(gpunet.KernelError):
        asyncio.run(run())


CPP = r"""
#include <gpunet/gpunet.cuh>

extern "C" __global__ void shout(gpunet_net net, uint64_t listener)
{
    GPUNET_SHARED(uint8_t[256], buffer);
    gpunet::listener_ref clients(gpunet::block(net), listener);
    while (auto stream = clients.accept()) {
        while (size_t bytes = stream->read(buffer).value_or(0)) {
            for (size_t at = threadIdx.x; at < bytes; at += blockDim.x) {
                buffer[at] ^= 0x20;
            }
            __syncthreads();
            if (!stream->write_all(buffer, bytes)) {
                break;
            }
        }
    }
}
GPUNET_KERNEL(shout);
"""


@gpunet.kernel
def serve(net, listener: gpunet.Socket, mask: np.uint8):
    """Every block serves one connection after the other, until it is stopped."""
    buffer = gn.shared_array(256, np.uint8)
    while True:
        stream = gn.accept(net, gn.BLOCK, listener)
        if stream < 0:
            break
        while True:
            count = gn.receive(net, gn.BLOCK, stream, buffer)
            if count <= 0:
                break
            for at in range(gn.thread_index(), count, gn.block_size()):
                buffer[at] ^= mask
            gn.sync()
            gn.send(net, gn.BLOCK, stream, buffer, count)
        gn.close(net, gn.BLOCK, stream)


def test_cpp_and_python_kernels_and_two_threads_on_one_net(gpu, net):
    shout = gpu.compile(CPP, "shout")["shout"]
    serve.load(gpu)
    failures = []

    def clients(kernel, mask, arguments):
        try:
            with net.listen() as listener, net.launch(kernel, 2, 32, listener, *arguments):
                for turn in range(10):
                    with connect(listener) as client:
                        sent = pattern(500 + turn)
                        client.sendall(sent)
                        assert receive(client, len(sent)) == bytes(byte ^ mask for byte in sent)
        except BaseException as error:
            failures.append(error)

    work = [(shout, 0x20, ()), (serve, 0x55, (0x55,)), (serve, 0x0F, (0x0F,)), (shout, 0x20, ())]
    threads = [threading.Thread(target=clients, args=one) for one in work]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads)
    assert failures == []
    statistics = net.statistics()
    assert statistics["accepted"] == 40 and statistics["failed"] == 0
    assert net.dump() == []
