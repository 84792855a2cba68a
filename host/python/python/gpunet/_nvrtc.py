"""CUDA C++ to PTX by NVRTC, through the package `cuda-bindings`."""

from __future__ import annotations

import site
import sys
from pathlib import Path
from typing import Any, List, Sequence, Tuple

from ._errors import CompileError
from ._image import include


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
    """Folders of CUDA's headers and its C++ standard library (`nvidia-cuda-cccl`), where they are installed."""
    found = []
    for folder in [*site.getsitepackages(), *sys.path]:
        for path in Path(folder).glob("nvidia/*/include"):
            found += [str(inner) for inner in (path, path / "cccl") if inner.is_dir()]
    return list(dict.fromkeys(found))


def compile_ptx(code: str, name: str, capability: Tuple[int, int], options: Sequence[str] = ()) -> bytes:
    """PTX of C++ source for GPUs from that capability on. Needs no GPU."""
    try:
        from cuda.bindings import nvrtc
    except ImportError:
        raise CompileError(
            "C++ for CUDA is compiled by NVRTC: pip install cuda-bindings nvidia-cuda-nvrtc nvidia-cuda-cccl, or give "
            "PTX that nvcc has made"
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
