"""Where the headers for C++ are."""

from __future__ import annotations

from pathlib import Path


def include() -> Path:
    """The folder with gpunet's headers for C++ (`gpunet/gpunet.cuh`), for other compilers."""
    return Path(__file__).parent / "include"
