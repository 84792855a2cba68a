"""PyTorch beside a server kernel: examples/train_beside_server.py, each stage in a process of its own."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import TEST_DEADLINE

EXAMPLE = Path(__file__).parents[1] / "examples" / "train_beside_server.py"
ON_EMULATED = ("alone", "server", "idle", "beside")


def _run(gpu, *options: str) -> dict:
    """Runs the example; what it measured."""
    if importlib.util.find_spec("torch") is None:
        pytest.skip("PyTorch is not installed")
    command = [sys.executable, str(EXAMPLE), "--gpu", gpu.kind, "--steps", "100", "--deadline", "60", *options]
    # PTX of its server, where there is no NVRTC.
    image = os.environ.get("GPUNET_TRAIN_IMAGE")
    command += ["--image", image] if image and gpu.kind == "cuda" else []
    done = subprocess.run(command, capture_output=True, text=True, timeout=TEST_DEADLINE)
    print(done.stderr)
    if done.returncode == 77:
        pytest.skip(done.stderr.strip().splitlines()[-1])
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("stage", ["alone", "server", "probe", "idle", "beside", "stream", "graph"])
def test_training_beside_a_server(gpu, stage):
    if gpu.kind == "emulated" and stage not in ON_EMULATED:
        pytest.skip("streams of PyTorch's are CUDA's")
    result = _run(gpu, "--stage", stage)
    assert result["failed"] == []
    if stage == "beside":
        assert result["training_beside_the_server"]["steps_per_s"] > 0
        assert result["server_beside_training"]["round_trips"] > 0
    if stage in ("stream", "graph"):
        assert True in result.values()


def test_a_machine_without_pytorch_or_cuda_says_so():
    """The example's own words for it, with a Python that has no PyTorch."""
    hides = f"import sys; sys.modules['torch'] = None; sys.argv = ['x', '--gpu', 'emulated']; sys.path.insert(0, {str(EXAMPLE.parent)!r})"
    program = f"{hides}; import importlib.util as u; u.find_spec = lambda name: None; import train_beside_server as t; t.main()"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=TEST_DEADLINE)
    assert (done.returncode, done.stderr) == (77, "skipped: PyTorch is not installed\n")
