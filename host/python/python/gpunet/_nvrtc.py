"""CUDA C++ to PTX by NVRTC, through the package `cuda-core`."""

from __future__ import annotations

from pathlib import Path
from typing import Any, List, Sequence, Tuple

from ._errors import CompileError
from ._image import include


def _cccl() -> List[str]:
    """Folders of the C++ standard library's headers for kernels (`nvidia-cuda-cccl`), where they are installed."""
    import site
    import sys

    found = []
    for folder in [*site.getsitepackages(), *sys.path]:
        for path in Path(folder).glob("nvidia/*/include"):
            found += [str(inner) for inner in (path, path / "cccl") if inner.is_dir()]
    return list(dict.fromkeys(found))


def compile_ptx(code: str, name: str, capability: Tuple[int, int], options: Sequence[str] = ()) -> bytes:
    """PTX of C++ source for GPUs from that capability on. Needs no GPU."""
    try:
        from cuda.core import Program, ProgramOptions
    except ImportError:
        raise CompileError(
            "C++ for CUDA is compiled by NVRTC: pip install cuda-core nvidia-cuda-nvrtc nvidia-cuda-cccl, or give PTX "
            "that nvcc has made"
        ) from None
    if options:
        raise CompileError("options are g++'s: for CUDA compile with nvcc, and give the PTX")
    settings: Any = ProgramOptions(
        name=name,
        std="c++17",
        arch=f"compute_{capability[0]}{capability[1]}",
        relocatable_device_code=True,
        include_path=[str(include()), *_cccl()],
    )
    # Headers of the host's C library are not there.
    try:
        return bytes(Program(code, "c++", settings).compile("ptx").code)
    except Exception as error:
        raise CompileError(f"'{name}' does not compile: {error}") from None
