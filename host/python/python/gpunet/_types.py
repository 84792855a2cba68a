"""The types of a kernel's parameters, as annotations and signatures say them.

A parameter of a kernel in Python becomes one or more of machine code, the same for both compilers:

    number          one of its size
    socket          one of 8 bytes
    array           its address, and the length of each dimension: 8 bytes each
    address         14 words of 8 bytes
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, List, Tuple, TypeVar

import numpy as np

from ._address import Address


class Socket(int):
    """A socket of a net by its handle: what `Net.hand_over` gives, and a parameter's type in kernels."""

    def __repr__(self) -> str:
        return f"Socket({int(self):#x})"


if TYPE_CHECKING:
    _T = TypeVar("_T")

    class Array(Generic[_T]):
        """As type checkers see it: what a kernel does with one. Of two dimensions, give the kernel a signature."""

        shape: Tuple[int, ...]

        def __getitem__(self, index: Any) -> Any: ...
        def __setitem__(self, index: Any, value: Any) -> None: ...
        def __len__(self) -> int: ...

else:

    class Array:
        """A parameter's type: `Array[np.uint8]`, or `Array[np.float32, 2]` of two dimensions; C-contiguous."""

        def __class_getitem__(cls, item: Any) -> "ArrayType":
            dtype, ndim = item if isinstance(item, tuple) else (item, 1)
            if not isinstance(ndim, int) or ndim < 1:
                raise TypeError(f"an array has 1 dimension or more, not {ndim!r}")
            return ArrayType(_dtype(dtype), ndim)


@dataclass(frozen=True)
class Scalar:
    """A number."""

    dtype: np.dtype

    def __str__(self) -> str:
        return str(self.dtype)


@dataclass(frozen=True)
class ArrayType:
    """An array in memory that kernels reach."""

    dtype: np.dtype
    ndim: int

    def __str__(self) -> str:
        return f"{self.dtype}[{', '.join([':'] * (self.ndim - 1) + ['::1'])}]"


@dataclass(frozen=True)
class SocketType:
    """A socket."""

    def __str__(self) -> str:
        return "socket"


@dataclass(frozen=True)
class AddressType:
    """An address, by value."""

    def __str__(self) -> str:
        return "address"


def parameter(given: Any) -> Any:
    """A parameter's type from an annotation, a part of a signature or a type of numba's."""
    if isinstance(given, (Scalar, ArrayType, SocketType, AddressType)):
        return given
    if given is Socket:
        return SocketType()
    if given is Address:
        return AddressType()
    if isinstance(given, str):
        return _of_text(given.strip())
    if hasattr(given, "mangling_args") or type(given).__module__.startswith("numba."):
        return _of_numba(given)
    return Scalar(_dtype(given))


def _of_text(text: str) -> Any:
    named = {"socket": SocketType(), "Socket": SocketType(), "address": AddressType(), "Address": AddressType()}
    if text.split(".")[-1] in named:
        return named[text.split(".")[-1]]
    array = re.fullmatch(r"(.+?)\s*\[\s*((?::\s*,\s*)*)::?1?\s*\]", text)
    if array:
        return ArrayType(_dtype(array[1]), array[2].count(",") + 1)
    return Scalar(_dtype(text))


def _of_numba(given: Any) -> Any:
    if hasattr(given, "ndim"):
        if given.layout not in ("C", "A"):
            raise TypeError(f"arrays of kernels are C-contiguous, not {given}")
        return ArrayType(_dtype(str(given.dtype)), given.ndim)
    return Scalar(_dtype(str(given)))


def _dtype(given: Any) -> np.dtype:
    if isinstance(given, str):
        given = given.split(".")[-1]
        # As numba says them.
        given = {"int": "int64", "float": "float64"}.get(given, given)
    try:
        # Of nothing NumPy makes a float64.
        dtype = np.dtype("" if given is None else given)
    except TypeError:
        raise TypeError(
            f"{given!r} is no type of a kernel's parameter: use a number's (np.uint32), gpunet.Array[np.uint8], "
            "gpunet.Socket or gpunet.Address"
        ) from None
    if dtype.kind not in "iufb" or dtype.itemsize > 8:
        raise TypeError(f"a kernel's parameters are numbers of up to 8 bytes or arrays of them, not {dtype}")
    if not dtype.isnative:
        raise TypeError(f"a kernel's numbers have the byte order of the machine, and {dtype.str} has not")
    return dtype


def split(signature: str) -> List[str]:
    """The parts of a signature: `void(socket, uint8[:, ::1])`, with or without `void` and brackets."""
    inner = re.fullmatch(r"\s*(?:void|none)?\s*\((.*)\)\s*", signature, re.DOTALL)
    text = inner[1] if inner else signature
    parts, depth = [""], 0
    for letter in text:
        depth += {"[": 1, "]": -1}.get(letter, 0)
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts if part.strip()]
