"""Kernels for CUDA, compiled without a GPU: what the driver links with the device library."""

from __future__ import annotations

import re
import sys

import pytest

import carried
import gpunet
import test_kernels
import test_process
import test_queue
import test_slices
from gpunet._compilers import check_isa

if carried.missing("numba_cuda"):
    pytest.skip(carried.missing("numba_cuda"), allow_module_level=True)

MODULES = (test_kernels, test_process, test_queue, test_slices)
KERNELS = [value for module in MODULES for value in vars(module).values() if isinstance(value, gpunet.Kernel)]


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)
def test_kernels_compile_for_cuda(kernel):
    ptx = kernel.ptx((9, 0))
    assert re.findall(r"\.visible \.entry (\S+)\(", ptx) == [kernel.name]
    assert ".target sm_90" in ptx
    # Everything that it calls is the library's.
    called = re.findall(r"^\.extern \.func\s+(?:\(.*?\))?\s*(\S+)", ptx, re.MULTILINE)
    assert all(name.startswith("gpunet_") for name in called), called
    # What calls the library says for which version; the loader reads it.
    major, minor = gpunet.C_ABI
    mark = re.search(r"\.global \.align 4 \.b8 gpunet_c_abi\[8\] = \{(.*?)\}", ptx)
    assert (mark is not None) == bool(called)
    if mark:
        numbers = [int(part) for part in mark[1].split(",")] + [0] * 8
        assert (numbers[0], numbers[4]) == (major, minor)


def test_the_net_is_two_words():
    ptx = test_kernels.echo.ptx((7, 5))
    assert ".target sm_75" in ptx
    parameters = ptx.split(".visible .entry echo(")[1].split(")")[0]
    # The net, a socket, an array's address and length.
    assert re.findall(r"\.param \.(\w+)", parameters) == ["u64"] * 5


def test_lanes_shuffle_and_vote():
    ptx = test_slices.lanes.ptx((9, 0))
    for what in ("shfl.sync.idx.b32", "shfl.sync.up.b32", "shfl.sync.down.b32", "shfl.sync.bfly.b32", "vote.sync.ballot"):
        assert what in ptx, what


def test_the_driver_takes_the_version_of_ptx():
    check_isa(".version 9.0\n", "13.0")
    check_isa(".version 9.4\n", "13.4")
    check_isa(".version 9.4\n", "12.8")
    with pytest.raises(gpunet.CompileError, match=r"writes PTX 9.4, .*CUDA 13.0. takes 9.0: .*nvidia-nvvm==13.0"):
        check_isa(".version 9.4\n", "13.0")


def test_carried_ptx_takes_the_place_of_a_compiler(monkeypatch, tmp_path):
    kernel = test_kernels.echo
    text = kernel.ptx(carried.CAPABILITY)
    carried.place(tmp_path, kernel).write_text(text)
    # Put back by monkeypatch, as the others.
    monkeypatch.setattr(gpunet.Kernel, "ptx", gpunet.Kernel.ptx)
    monkeypatch.setattr(carried, "FOLDER", str(tmp_path))
    monkeypatch.setattr(carried.importlib.util, "find_spec", lambda name: None)
    carried.use(pytest.skip)
    assert kernel.ptx((9, 0)) == text
    with pytest.raises(pytest.skip.Exception, match="no PTX of kernel 'ask' is carried"):
        test_kernels.ask.ptx((9, 0))


def test_cpp_by_nvrtc():
    pytest.importorskip("cuda.bindings.nvrtc", reason="cuda-bindings is not installed")
    from gpunet._nvrtc import compile_ptx

    ptx = compile_ptx(test_process.CPP, "shout", (9, 0)).decode()
    assert ".visible .entry shout(" in ptx and "gpunet_c_abi" in ptx
    with pytest.raises(gpunet.CompileError, match="does not compile"):
        compile_ptx("#include <gpunet/gpunet.cuh>\nnonsense", "nonsense", (9, 0))


def test_cpp_by_nvcc_where_there_is_no_nvrtc(monkeypatch):
    from gpunet import _nvrtc

    monkeypatch.setitem(sys.modules, "cuda.bindings", None)
    monkeypatch.setattr(_nvrtc, "find_nvcc", lambda: None)
    with pytest.raises(gpunet.CompileError, match="compiled by NVRTC or nvcc: pip install cuda-bindings"):
        _nvrtc.compile_ptx(test_process.CPP, "shout", (9, 0))
    monkeypatch.undo()
    nvcc = _nvrtc.find_nvcc()
    if nvcc is None:
        pytest.skip("nvcc is not installed")
    monkeypatch.setitem(sys.modules, "cuda.bindings", None)
    ptx = _nvrtc.compile_ptx(test_process.CPP, "shout", (9, 0)).decode()
    assert ".visible .entry shout(" in ptx and "gpunet_c_abi" in ptx and ".target sm_90" in ptx
    with pytest.raises(gpunet.CompileError, match="does not compile: .*nonsense"):
        _nvrtc.compile_ptx("#include <gpunet/gpunet.cuh>\nnonsense", "nonsense", (9, 0))
