"""PTX of the tests' kernels that another machine has compiled, for one with a GPU and without numba-cuda.

    python carried.py FOLDER        writes it, for compute capability 9.0
    GPUNET_PYTHON_PTX=FOLDER        has the tests use it where numba-cuda is not installed, or cannot be imported

Without either, what needs a compiler there is skipped.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from pathlib import Path
from typing import Callable, Optional

import gpunet

MODULES = ("programs", "test_arguments", "test_kernels", "test_process", "test_queue", "test_slices")
FOLDER = os.environ.get("GPUNET_PYTHON_PTX")
CAPABILITY = (9, 0)


def place(folder: Path, kernel: gpunet.Kernel) -> Path:
    """Where the PTX of a kernel is kept."""
    python = kernel._python
    return folder / f"{python.__module__}.{python.__qualname__}.ptx"


def write(folder: Path) -> int:
    """Compiles all kernels of the modules, not those inside of tests; how many."""
    folder.mkdir(parents=True, exist_ok=True)
    written = set()
    for name in MODULES:
        for kernel in vars(importlib.import_module(name)).values():
            if isinstance(kernel, gpunet.Kernel):
                place(folder, kernel).write_text(kernel.ptx(CAPABILITY))
                written.add(place(folder, kernel))
    return len(written)


def missing(compiler: str) -> Optional[str]:
    """Why numba or numba-cuda cannot be used, or None. One that is installed may not fit the numpy beside it."""
    module = "numba.cuda.np.arrayobj" if compiler == "numba_cuda" else "numba"
    if importlib.util.find_spec(compiler) is None:
        return f"{compiler.replace('_', '-')} is not installed"
    try:
        importlib.import_module(module)
    except Exception as error:
        return f"{compiler.replace('_', '-')} cannot be imported: {error}"
    return None


def use(without: Callable[[str], None]) -> None:
    """Has kernels take their PTX from the folder, where numba-cuda cannot be used; one that has none there calls
    `without` with the reason.
    """
    why = missing("numba_cuda")
    if why is None:
        return

    def ptx(kernel: gpunet.Kernel, capability=CAPABILITY) -> str:
        path = place(Path(FOLDER), kernel) if FOLDER else None
        if path is None or not path.is_file():
            without(f"{why}, and no PTX of kernel '{kernel.name}' is carried")
        return path.read_text()

    gpunet.Kernel.ptx = ptx


if __name__ == "__main__":
    print(f"{write(Path(sys.argv[1]))} kernels")
