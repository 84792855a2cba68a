"""What tests share: GPUs, nets, peers; and a deadline for each test, after which the process ends with a report."""

from __future__ import annotations

import faulthandler
import os
import socket
import sys
import time

import pytest

import carried
import gpunet

carried.use(pytest.skip)



def sample() -> float:
    begin, done = time.monotonic(), 0
    while done == 0 or (done < 10 and time.monotonic() < begin + 0.01):
        os.urandom(65536)
        done += 1
    return (time.monotonic() - begin) / done / 0.0005


def slowness() -> float:
    """How many times slower than a usual machine this one is, at least 1: the worst of some samples, for limits.

    As in `gpunet_support::testing`, and told by the same variable where a test of Rust starts this one.
    """
    told = os.environ.get("GPUNET_SLOWNESS")
    return float(told.split(",")[1]) if told else min(max(1.0, *(sample() for _ in range(5))), 32.0)


DEADLINE = 60.0 * slowness()
"""Seconds for what is waited for: a limit for hangs."""
TEST_DEADLINE = 10 * DEADLINE
"""Seconds for a test, with what numba compiles for it."""


@pytest.fixture(autouse=True)
def deadline():
    faulthandler.dump_traceback_later(TEST_DEADLINE, exit=True, file=sys.__stderr__)
    yield
    faulthandler.cancel_dump_traceback_later()


@pytest.fixture(scope="session")
def gpu():
    """The GPU that `GPUNET_PYTHON_GPU` names; the emulated one."""
    return gpunet.Gpu(os.environ.get("GPUNET_PYTHON_GPU", "emulated"))


@pytest.fixture(autouse=True)
def loaded(request):
    """On CUDA a module's kernels are loaded before any of them runs, or a queue is open: loading waits for both."""
    if "gpu" in request.fixturenames:
        gpu = request.getfixturevalue("gpu")
        if gpu.kind == "cuda":
            for value in vars(request.module).values():
                if isinstance(value, gpunet.Kernel):
                    value.load(gpu)


@pytest.fixture
def emulated(gpu):
    """The emulated GPU: what it reports is its own."""
    if gpu.kind != "emulated":
        pytest.skip("of the emulated GPU")
    return gpu


@pytest.fixture
def net(gpu):
    with gpunet.Net(gpu) as made:
        yield made


def connect(listener) -> socket.socket:
    """A client of a listener."""
    client = socket.create_connection(listener.address.pair(), timeout=DEADLINE)
    client.settimeout(DEADLINE)
    return client


def pattern(count: int, start: int = 0) -> bytes:
    """Bytes that differ by their position."""
    return bytes((start + at) * 7 % 251 for at in range(count))


def receive(client: socket.socket, count: int) -> bytes:
    """So many bytes, or all until the end."""
    got = bytearray()
    while len(got) < count:
        more = client.recv(count - len(got))
        if not more:
            break
        got += more
    return bytes(got)
