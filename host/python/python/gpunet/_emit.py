"""Makes the device functions known to a compiler: types a call, and has it lowered."""

from __future__ import annotations

import inspect
from typing import Any, Callable, Dict, Optional

from . import _device_functions, _device_slices, _device_warps  # noqa: F401, each puts its functions into the first
from ._lowering import Lowering
from ._stub import Stub


def register(compiler: Any) -> None:
    """Makes all device functions known to a compiler."""
    for function, (kinds, result, emit) in _device_functions.FUNCTIONS.items():
        compiler.register(function, _define(compiler, function, kinds, result, emit))


def _define(compiler: Any, function: Stub, kinds: Dict[str, str], result: Any, emit: Callable[..., Any]) -> Any:
    """What types a call of a device function, and lowers it."""
    parameters = list(function.__signature__.parameters.values())

    def define(context: Any, *args: Any, **named: Any) -> Any:
        bound = function.__signature__.bind(*args, **named).arguments
        taken = [_taken(compiler, function.__name__, at, kinds, bound) for at in parameters]
        if any(kind is None for kind in taken):
            return None
        names = [at.name for at in parameters]
        returns = result(compiler, dict(zip(names, taken))) if callable(result) else getattr(compiler.types, result)

        def codegen(context: Any, builder: Any, signature: Any, args: Any, loc: Optional[Any] = None) -> Any:
            value = emit(Lowering(compiler, context, builder, names, signature.args, args, loc))
            return context.get_dummy_value() if value is None else value

        return returns(*taken), codegen

    context = inspect.Parameter("context", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    define.__signature__ = inspect.Signature([context, *parameters])  # type: ignore[attr-defined]
    define.__name__ = function.__name__
    return define


def _taken(compiler: Any, function: str, at: Any, kinds: Dict[str, str], bound: Dict[str, Any]) -> Any:
    """The type that an argument is converted to."""
    types, kind = compiler.types, kinds.get(at.name, "uint64")
    if at.name not in bound:
        return types.Omitted(at.default)
    given = bound[at.name]
    if isinstance(given, types.Omitted) or given is types.none:
        return types.Omitted(at.default)
    if kind in ("net", "address"):
        return types.UniTuple(types.uint64, 2 if kind == "net" else 14)
    if kind == "array":
        if not isinstance(given, types.Array) or given.ndim != 1 or given.layout != "C":
            raise TypeError(f"gpunet.device.{function}: '{at.name}' is an array of one dimension, not {given}")
        return given
    if kind in ("any", "constant"):
        if kind == "constant" and not isinstance(given, types.IntegerLiteral):
            raise TypeError(f"gpunet.device.{function}: '{at.name}' is a constant number, not {given}")
        return given
    return getattr(types, kind)
