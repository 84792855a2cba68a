"""CUDA C++ to PTX: by NVRTC, through the package `cuda-bindings`, or where that is not installed by nvcc."""

from __future__ import annotations

import os
import shutil
import site
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, List, Optional, Sequence, Tuple

from ._errors import CompileError
from ._include import include


_INTEGERS = "".join(
    f"typedef {sign}{kind} {letter}int{bits}_t;\n"
    for sign, letter in (("signed ", ""), ("unsigned ", "u"))
    for kind, bits in (("char", 8), ("short", 16), ("int", 32), ("long long", 64))
)
_NAMES = "".join(f"using ::{letter}int{bits}_t;\n" for letter in ("", "u") for bits in (8, 16, 32, 64))

_STANDARD = {
    "stddef.h": "#pragma once\n#undef offsetof\n#define offsetof(type, member) __builtin_offsetof(type, member)\n",
    "stdint.h": f"#pragma once\n{_INTEGERS}typedef unsigned long long uintptr_t;\n",
    "cstddef": "#pragma once\n#include <stddef.h>\nnamespace std { using ::size_t; typedef decltype(nullptr) nullptr_t; }\n",
    "cstdint": f"#pragma once\n#include <stdint.h>\nnamespace std {{\n{_NAMES}using ::uintptr_t;\n}}\n",
    "type_traits": "#pragma once\n#include <cuda/std/type_traits>\nnamespace std { using namespace ::cuda::std; }\n",
}
"""Headers of the standard library that gpunet's include: NVRTC has none."""


def _headers() -> List[str]:
    """Folders of CUDA's headers and its C++ standard library, where they are installed: from `nvidia-cuda-cccl` and its
    siblings, or from a toolkit.
    """
    packages = [path for folder in [*site.getsitepackages(), *sys.path] for path in Path(folder).glob("nvidia/*/include")]
    found = []
    for path in [*packages, *(folder / "include" for folder in _toolkits())]:
        found += [str(inner) for inner in (path, path / "cccl") if inner.is_dir()]
    return list(dict.fromkeys(found))


def _toolkits() -> List[Path]:
    """Where CUDA's toolkit may be."""
    named = [os.environ.get(name) for name in ("CUDA_HOME", "CUDA_PATH")]
    return [Path(folder) for folder in (*named, "/usr/local/cuda") if folder]


def find_nvcc() -> Optional[str]:
    """The nvcc that GPUNET_NVCC names, that of the path, or of a toolkit."""
    named = os.environ.get("GPUNET_NVCC") or shutil.which("nvcc")
    found = [named, *(str(folder / "bin" / "nvcc") for folder in _toolkits())]
    return next((nvcc for nvcc in found if nvcc and os.access(nvcc, os.X_OK)), None)


def compile_by_nvcc(nvcc: str, code: str, name: str, capability: Tuple[int, int], options: Sequence[str] = ()) -> bytes:
    """PTX of C++ source by nvcc."""
    with tempfile.TemporaryDirectory(prefix="gpunet-") as folder:
        source, made = Path(folder) / f"{name}.cu", Path(folder) / f"{name}.ptx"
        source.write_text(code)
        command = [nvcc, "-std=c++17", "-rdc=true", "-ptx", f"-arch=compute_{capability[0]}{capability[1]}"]
        command += ["-I", str(include()), *options, str(source), "-o", str(made)]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            raise CompileError(f"'{name}' does not compile: {(done.stderr or done.stdout).strip()}")
        return made.read_bytes()


def compile_ptx(code: str, name: str, capability: Tuple[int, int], options: Sequence[str] = ()) -> bytes:
    """PTX of C++ source for GPUs from that capability on. Needs no GPU."""
    try:
        from cuda.bindings import nvrtc
    except ImportError:
        nvcc = find_nvcc()
        if nvcc is not None:
            return compile_by_nvcc(nvcc, code, name, capability, options)
        raise CompileError(
            "C++ for CUDA is compiled by NVRTC or nvcc: pip install cuda-bindings nvidia-cuda-nvrtc nvidia-cuda-cccl, "
            "install CUDA's toolkit, or give PTX that nvcc has made elsewhere"
        ) from None

    def check(answer: Any) -> Any:
        error, *values = answer
        if error != nvrtc.nvrtcResult.NVRTC_SUCCESS:
            raise CompileError(f"'{name}': NVRTC says {error.name}")
        return values[0] if values else None

    major, minor = capability
    given = ["--std=c++17", f"--gpu-architecture=compute_{major}{minor}", "--relocatable-device-code=true"]
    given += [f"--include-path={folder}" for folder in [str(include()), *_headers()]]
    given += options
    names, texts = [name.encode() for name in _STANDARD], [text.encode() for text in _STANDARD.values()]
    program = check(nvrtc.nvrtcCreateProgram(code.encode(), f"{name}.cu".encode(), len(names), texts, names))
    try:
        (error,) = nvrtc.nvrtcCompileProgram(program, len(given), [option.encode() for option in given])
        if error != nvrtc.nvrtcResult.NVRTC_SUCCESS:
            log = bytearray(check(nvrtc.nvrtcGetProgramLogSize(program)))
            check(nvrtc.nvrtcGetProgramLog(program, log))
            raise CompileError(f"'{name}' does not compile: {log.rstrip(bytes(1)).decode().strip()}")
        ptx = bytearray(check(nvrtc.nvrtcGetPTXSize(program)))
        check(nvrtc.nvrtcGetPTX(program, ptx))
        return bytes(ptx).rstrip(b"\0")
    finally:
        nvrtc.nvrtcDestroyProgram(program)
