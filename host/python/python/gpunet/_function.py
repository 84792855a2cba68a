"""Functions that kernels call."""

from __future__ import annotations

from typing import Any, Callable, Dict


class Function:
    """A function that kernels call, compiled with them; made by `@gpunet.function`."""

    def __init__(self, python: Callable[..., Any]) -> None:
        self._python = python
        self._made: Dict[Any, Any] = {}
        self.__name__ = python.__name__
        self.__doc__ = python.__doc__

    def _for(self, made: Any) -> Any:
        key = made.name, made.capability
        if key not in self._made:
            self._made[key] = made.function(self._python)
        return self._made[key]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise TypeError(f"'{self.__name__}' is a function of kernels: only these call it")
