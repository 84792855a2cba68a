"""Functions that exist in kernels alone, for both compilers."""

from __future__ import annotations

import functools
import inspect
from typing import Any, Callable


class Stub:
    """Stands for a device function; `_emit` says what it becomes."""

    def __init__(self, python: Callable[..., Any]) -> None:
        functools.update_wrapper(self, python)
        self.__signature__ = inspect.signature(python)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise TypeError(f"'{self.__name__}' is a device function: only kernels call it")

    def __repr__(self) -> str:
        return f"<gpunet device function {self.__name__}>"


def stub(python: Callable[..., Any]) -> Any:
    """Makes a declaration a device function."""
    return Stub(python)
