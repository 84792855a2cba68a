"""Functions that exist in kernels alone, for both compilers."""

from __future__ import annotations

import functools
import inspect
from typing import Any, Callable, TypeVar, cast

_F = TypeVar("_F", bound=Callable[..., Any])


class Stub:
    """Stands for a device function; `_emit` says what it becomes."""

    __name__: str

    def __init__(self, python: Callable[..., Any]) -> None:
        functools.update_wrapper(self, python)
        self.__signature__ = inspect.signature(python)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise TypeError(f"'{self.__name__}' is a device function: only kernels call it")

    def __repr__(self) -> str:
        return f"<gpunet device function {self.__name__}>"


def stub(python: _F) -> _F:
    """Makes a declaration a device function, which type checkers see as it is declared."""
    return cast(_F, Stub(python))
