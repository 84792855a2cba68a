"""Addresses of sockets: for `Net.listen`, and by value as arguments of kernels."""

from __future__ import annotations

import ipaddress
import os
import struct
from typing import Tuple, Union

_UNIX, _INET, _INET6 = 1, 2, 10
_MAX_PATH = 107

AddressLike = Union["Address", str, Tuple[str, int]]
"""What names an address: `("127.0.0.1", 7000)`, `"127.0.0.1:7000"`, `"[::1]:7000"`, `"unix:/path"`."""


class Address:
    """An IPv4 or IPv6 address with a port, or a UNIX path. A kernel may take one as an argument."""

    __slots__ = ("_bytes",)
    _bytes: bytes

    def __init__(self, address: AddressLike, port: "int | None" = None) -> None:
        if isinstance(address, Address):
            self._bytes = address._bytes
        elif isinstance(address, tuple):
            if len(address) < 2:
                raise ValueError(f"an address is a pair of host and port, not {address!r}")
            self._bytes = _ip(address[0], address[1])
        elif isinstance(address, str) and port is not None:
            self._bytes = _ip(address, port)
        elif isinstance(address, str):
            self._bytes = _text(address)
        else:
            raise TypeError(f"an address is a pair of host and port or a text, not {type(address).__name__}")

    @classmethod
    def unix(cls, path: "str | os.PathLike[str]") -> "Address":
        """A UNIX path."""
        made = cls.__new__(cls)
        made._bytes = _path(os.fspath(path))
        return made

    @classmethod
    def from_words(cls, words: "Tuple[int, ...]") -> "Address":
        """From the 14 words that a kernel has of it."""
        made = cls.__new__(cls)
        made._bytes = struct.pack("<14Q", *words)
        return made

    def to_words(self) -> Tuple[int, ...]:
        """As 14 words, which is how a kernel in Python has it."""
        return struct.unpack("<14Q", self._bytes)

    def __bytes__(self) -> bytes:
        """As `gpunet_address` of the C ABI."""
        return self._bytes

    @property
    def family(self) -> int:
        """`socket.AF_INET` or one of its siblings."""
        return struct.unpack_from("<H", self._bytes)[0]

    @property
    def port(self) -> int:
        """The port of an IP address, else 0."""
        return struct.unpack_from("<H", self._bytes, 2)[0] if self.family in (_INET, _INET6) else 0

    @property
    def host(self) -> str:
        """The IP address, or the UNIX path."""
        if self.family == _INET:
            return str(ipaddress.IPv4Address(self._bytes[4:8]))
        if self.family == _INET6:
            return str(ipaddress.IPv6Address(self._bytes[4:20]))
        length = struct.unpack_from("<H", self._bytes, 2)[0]
        return os.fsdecode(self._bytes[4 : 4 + length])

    def pair(self) -> Tuple[str, int]:
        """Host and port, as `socket.create_connection` takes them."""
        return self.host, self.port

    def __str__(self) -> str:
        if self.family == _INET:
            return f"{self.host}:{self.port}"
        if self.family == _INET6:
            return f"[{self.host}]:{self.port}"
        return f"unix:{self.host}"

    def __repr__(self) -> str:
        return f"Address('{self}')"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Address) and self._bytes == other._bytes

    def __hash__(self) -> int:
        return hash(self._bytes)


def _text(text: str) -> bytes:
    if text.startswith("unix:"):
        return _path(text[len("unix:") :])
    host, colon, port = text.rpartition(":")
    if not colon or not port.isascii() or not port.isdigit():
        raise ValueError(f"'{text}' is no address: such as 127.0.0.1:7000, [::1]:7000 or unix:/path")
    return _ip(host.removeprefix("[").removesuffix("]"), int(port))


def _ip(host: str, port: int) -> bytes:
    if not isinstance(port, int) or not 0 <= port <= 65535:
        raise ValueError(f"a port is a number from 0 to 65535, not {port!r}")
    try:
        ip = ipaddress.ip_address({"localhost": "127.0.0.1", "": "0.0.0.0"}.get(host, host))
    except ValueError:
        raise ValueError(f"'{host}' is no IP address: names are for socket.getaddrinfo to resolve") from None
    family = _INET if ip.version == 4 else _INET6
    return struct.pack("<HH108s", family, port, ip.packed)


def _path(path: str) -> bytes:
    encoded = os.fsencode(path)
    if not encoded or b"\0" in encoded:
        raise ValueError(f"{path!r} is no UNIX path: 1 to {_MAX_PATH} bytes without a zero")
    if len(encoded) > _MAX_PATH:
        raise ValueError(f"a UNIX path has at most {_MAX_PATH} bytes, and this has {len(encoded)}: {path}")
    return struct.pack("<HH108s", _UNIX, len(encoded), encoded)
