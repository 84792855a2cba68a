"""docs/tutorial/python.md, followed word for word: files are written, commands run, and what they print is compared."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

import carried

import gpunet
from conftest import DEADLINE, TEST_DEADLINE, receive

PAGE = Path(__file__).parents[3] / "docs" / "tutorial" / "python.md"


def steps(text: str):
    """What a reader does, from the kernel on: ("write", file, text), ("run", command, printed or None)."""
    # How it is installed is tried by who runs these tests with the wheel.
    text = text.split("## The kernel", 1)[1].split("## On CUDA", 1)[0]
    done = []
    file = None
    for heading, kind, block in re.findall(r"^### `(.+?)`$|^```(\w+)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        if heading:
            file = heading
        elif kind == "sh":
            done.append(["run", block, None])
        elif kind == "text" and done and done[-1][0] == "run":
            done[-1][2] = block
        elif file is not None:
            done.append(["write", file, block])
            file = None
    return done


def needs_a_compiler():
    """The programs of the page take the GPU that there is, and compile their kernels for it."""
    cuda = os.environ.get("GPUNET_PYTHON_GPU", "emulated").startswith("cuda")
    why = carried.missing("numba_cuda" if cuda else "numba")
    if why:
        pytest.skip(why)


def test_the_page_is_followed_word_for_word(tmp_path):
    needs_a_compiler()
    todo = steps(PAGE.read_text())
    # A page that this test no longer understands would be followed in no time.
    assert [step[0] for step in todo] == ["write", "write", "run", "write", "run"]
    folder = str(Path(sys.executable).parent)
    environment = {**os.environ, "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"}
    for what, name, text in todo:
        if what == "write":
            (tmp_path / name).write_text(text)
            continue
        done = subprocess.run(
            ["bash", "-ec", name], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=TEST_DEADLINE
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout == text


def test_the_server_of_the_page_ends_with_ctrl_c(tmp_path):
    needs_a_compiler()
    ((_, name, text), *_) = steps(PAGE.read_text())
    (tmp_path / name).write_text(text)
    server = subprocess.Popen([sys.executable, name, "0"], cwd=tmp_path, stdout=subprocess.PIPE, text=True)
    try:
        assert "gpunet.Gpu" in server.stdout.readline()
        port = int(re.search(r"serving at 127.0.0.1:(\d+);", server.stdout.readline())[1])
        with socket.create_connection(("127.0.0.1", port), timeout=DEADLINE) as client:
            client.sendall(b"hello")
            assert client.recv(5, socket.MSG_WAITALL) == b"hello"
        server.send_signal(signal.SIGINT)
        printed, _ = server.communicate(timeout=DEADLINE)
        assert printed == "5 bytes sent back\n" and server.returncode == 0
    finally:
        server.kill()
        server.wait(DEADLINE)


def test_the_first_example_serves_until_its_input_ends(gpu):
    needs_a_compiler()
    example = Path(__file__).parents[1] / "examples" / "first.py"
    command = [sys.executable, str(example), gpu.kind]
    server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert "gpunet.Gpu" in server.stdout.readline()
        port = int(server.stdout.readline().split()[1])
        for message in (b"first", b"second " * 500):
            with socket.create_connection(("127.0.0.1", port), timeout=DEADLINE) as client:
                client.sendall(message)
                assert receive(client, len(message)) == message
        printed, _ = server.communicate("", timeout=DEADLINE)
        assert printed == "" and server.returncode == 0
    finally:
        server.kill()
        server.wait(DEADLINE)


@pytest.mark.parametrize("word", ["ArgumentError", "ForkedError", "OperationError", "StillRunning", "CompileError"])
def test_the_page_names_what_there_is(word):
    assert f"`{word}`" in PAGE.read_text() and issubclass(getattr(gpunet, word), gpunet.Error)
