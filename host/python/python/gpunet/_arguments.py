"""The arguments of a launch: from Python's values to the parameters of machine code.

What comes of it are items for the extension module: `bytes` of a parameter, the handle of a socket as an
`int`, or memory of gpunet's; and the objects that a launch keeps until its kernel has ended.
"""

from __future__ import annotations

import math
import struct
from typing import Any, List, Optional, Sequence, Tuple

import numpy as np

from ._address import Address
from ._buffer import Buffer
from ._errors import ArgumentError
from ._memory import locate
from ._types import AddressType, ArrayType, Scalar, Socket, SocketType

Arguments = Tuple[List[Any], List[Any]]


def dimensions(what: str, given: Any) -> Tuple[int, int, int]:
    """Blocks or threads: a number, or up to three."""
    parts = tuple(given) if isinstance(given, (tuple, list)) else (given,)
    if not 1 <= len(parts) <= 3 or not all(isinstance(part, (int, np.integer)) for part in parts):
        raise ArgumentError(f"{what} is a number or a tuple of up to three, not {given!r}")
    if not all(0 <= part < 2**32 for part in parts):
        raise ArgumentError(f"{what} has numbers from 1 to 2**32 - 1, not {given!r}")
    x, y, z = (tuple(int(part) for part in parts) + (1, 1))[:3]
    return x, y, z


def prepared(kernel: Any, gpu: Any, grid: Any, block: Any, args: Sequence[Any], shared: int) -> Tuple[Any, ...]:
    """What a launch is made of: image, name, layout, items and objects."""
    if not hasattr(kernel, "_prepare"):
        raise ArgumentError(f"no kernel: {_describe(kernel)}; use a @gpunet.kernel, or one of an image, image['name']")
    return kernel._prepare(gpu, grid, block, args, shared)


def typed(kernel: str, names: Sequence[str], types: Sequence[Any], values: Sequence[Any], kind: str) -> Arguments:
    """Arguments of a kernel whose types are declared."""
    if len(values) != len(types):
        takes = ", ".join(f"{name}: {of}" for name, of in zip(names, types))
        raise ArgumentError(f"kernel '{kernel}' takes {len(types)} arguments ({takes}), given {len(values)}")
    items: List[Any] = []
    objects: List[Any] = []
    for at, (name, of, value) in enumerate(zip(names, types, values)):
        try:
            _one(of, value, kind, items, objects)
        except (TypeError, ValueError, OverflowError) as error:
            raise ArgumentError(
                f"kernel '{kernel}', parameter {at + 1} '{name}' takes {of}, given {_describe(value)}: {error}"
            ) from None
    return items, objects


def _one(of: Any, value: Any, kind: str, items: List[Any], objects: List[Any]) -> None:
    if isinstance(of, SocketType):
        items.append(socket_handle(value))
    elif isinstance(of, AddressType):
        items.extend(struct.pack("<Q", word) for word in Address(value).to_words())
    elif isinstance(of, ArrayType):
        located = locate(value, kind)
        if located is None:
            raise TypeError("no array")
        if located.dtype != of.dtype or len(located.shape) != of.ndim:
            given = ArrayType(located.dtype, len(located.shape)) if located.shape else located.dtype
            raise TypeError(f"an array of {given}")
        items.append(_pointer(value, located.address))
        items.extend(struct.pack("<q", length) for length in located.shape)
        objects.append(located.keeps)
    else:
        assert isinstance(of, Scalar)
        items.append(_number(of.dtype, value))


def _pointer(value: Any, address: int) -> Any:
    # So that the extension module sees which GPU's memory it is.
    memory = value._memory if isinstance(value, Buffer) else None
    return struct.pack("<Q", address) if memory is None else memory


def socket_handle(value: Any) -> int:
    """The handle of a listener, or of what `Net.hand_over` gives."""
    handle = getattr(value, "handle", value)
    if isinstance(handle, bool) or not isinstance(handle, (int, np.integer)) or not 0 <= handle < 2**64:
        raise TypeError("no socket: use a listener, or what net.hand_over gives")
    return int(handle)


def _number(dtype: np.dtype, value: Any) -> bytes:
    if isinstance(value, np.generic):
        if not np.can_cast(value.dtype, dtype, "same_kind") or value.dtype.itemsize > dtype.itemsize:
            raise TypeError(f"a {value.dtype}")
        # An unsigned one may be too large for a signed one of its size, which NumPy takes for the same kind.
        if dtype.kind in "iu" and value.dtype.kind in "iu":
            value = int(value)
        else:
            return np.asarray(value).astype(dtype).tobytes()
    if dtype.kind == "f":
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise TypeError("no number")
        with np.errstate(over="ignore"):
            made = np.array(value, dtype)
        # What is no infinity must not become one.
        if np.isinf(made) and not math.isinf(value):
            raise ValueError(f"out of range: {np.finfo(dtype).min} to {np.finfo(dtype).max}")
        return made.tobytes()
    if dtype.kind == "b":
        if not isinstance(value, bool):
            raise TypeError("neither True nor False")
        return np.array(value, dtype).tobytes()
    # A bool is an int, and a float is cut off by nobody.
    if not isinstance(value, int):
        raise TypeError("no integer")
    limits = np.iinfo(dtype)
    if not limits.min <= value <= limits.max:
        raise ValueError(f"out of range: {limits.min} to {limits.max}")
    return np.array(value, dtype).tobytes()


def untyped(kernel: str, sizes: Optional[Sequence[int]], values: Sequence[Any], kind: str) -> Arguments:
    """Arguments of a kernel of which only the sizes of parameters are known, if these are."""
    if sizes is not None and len(values) != len(sizes):
        raise ArgumentError(
            f"kernel '{kernel}' takes {len(sizes)} arguments (of {list(sizes)} bytes), given {len(values)}"
        )
    items: List[Any] = []
    objects: List[Any] = []
    for at, value in enumerate(values):
        size = None if sizes is None else sizes[at]
        try:
            item = _plain(value, size, kind, objects)
            given = len(item) if isinstance(item, bytes) else 8
            if size is not None and given != size:
                raise TypeError(f"that has {given} bytes")
        except (TypeError, ValueError, OverflowError) as error:
            takes = "a value" if size is None else f"{size} bytes"
            raise ArgumentError(
                f"kernel '{kernel}', parameter {at + 1} takes {takes}, given {_describe(value)}: {error}"
            ) from None
        items.append(item)
    return items, objects


def _plain(value: Any, size: Optional[int], kind: str, objects: List[Any]) -> Any:
    if isinstance(value, (bytes, bytearray)):
        return bytes(value)
    if isinstance(value, Address):
        return bytes(value)
    if isinstance(value, (Socket,)) or hasattr(value, "handle"):
        return socket_handle(value)
    if isinstance(value, np.generic):
        return value.tobytes()
    if isinstance(value, (bool, int, float)):
        if size is None:
            raise TypeError("how large the parameter is, this image does not say: use np.int32(...) and the like")
        if isinstance(value, float):
            if size not in (4, 8):
                raise TypeError("a float has 4 or 8 bytes")
            return struct.pack("<f" if size == 4 else "<d", value)
        if size not in (1, 2, 4, 8):
            raise TypeError("an int has 1, 2, 4 or 8 bytes")
        if not -(1 << (8 * size - 1)) <= value < 1 << (8 * size):
            raise ValueError(f"out of range of {size} bytes")
        return (int(value) % (1 << (8 * size))).to_bytes(size, "little")
    located = locate(value, kind)
    if located is None:
        raise TypeError("neither a number, a socket, an address, bytes nor an array")
    objects.append(located.keeps)
    return _pointer(value, located.address)


def _describe(value: Any) -> str:
    text = repr(value)
    if len(text) > 40 or "\n" in text:
        return type(value).__name__
    return f"{type(value).__name__} {text}"
