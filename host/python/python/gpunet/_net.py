"""A net: sockets for kernels, and the kernels that run on it."""

from __future__ import annotations

import atexit
import os
import socket as sockets
import weakref
from typing import Any, Dict, List, Optional, Sequence, Tuple

from . import _gpunet
from ._address import Address, AddressLike
from ._arguments import dimensions, prepared, socket_handle
from ._errors import ClosedError, SocketError
from ._gpu import Gpu, Stream
from ._launch import Launch, Lease
from ._queue import Queue
from ._types import Socket

_END = 30.0
"""Seconds that nets may take to end when the interpreter exits; each takes 15 at most."""

_open: "weakref.WeakSet[Net]" = weakref.WeakSet()
_process = os.getpid()


def _print(launch: int, line: str) -> None:
    print(f"[launch {launch}] {line}", flush=True)


class Net:
    """Sockets for the kernels of a GPU.

    Settings are those of the Rust crate's `NetBuilder`, by name; times are seconds: `sockets`, `reserved`,
    `unaccepted`, `ring`, `ring_memory`, `proxy_threads`, `request_slots`, `timeout`, `linger`, `heartbeat_timeout`,
    `spin`, `idle_sleep`, `policy` (a dict: `closed`, `allow_connect`, `deny_connect`, `allow_bind`, `deny_bind`,
    `max_sockets`, `max_in_flight`, `max_rate`), `transport`, `placements`, `control_memory`, `on_print(launch, line)`,
    `on_fault(launch, kernel, error)`.

    Closing it, which the end of its block does, stops its kernels, sends what is unsent and closes all sockets,
    in bounded time and with other threads running. One that is let go of is closed in the background, and all are
    closed when the interpreter exits.
    """

    def __init__(self, gpu: Optional[Gpu] = None, **settings: Any) -> None:
        self._gpu = Gpu() if gpu is None else gpu
        settings.setdefault("on_print", _print)
        self._net = _gpunet.Net(self._gpu._gpu, settings)
        _open.add(self)

    @property
    def gpu(self) -> Gpu:
        """The GPU it lives on."""
        return self._gpu

    def listen(
        self,
        address: AddressLike = ("127.0.0.1", 0),
        *,
        backlog: Optional[int] = None,
        reuse_port: bool = False,
        only_v6: Optional[bool] = None,
    ) -> "Listener":
        """Listens at an address, for kernels to accept from; port 0 is for the system to choose."""
        handle, bound = self._net.listen(Address(address).to_words(), backlog, reuse_port, only_v6)
        return Listener(self, handle, Address.from_words(bound))

    def hand_over(self, socket: "sockets.socket") -> Socket:
        """Hands a connected or listening socket to kernels; the Python object is closed. It stays open when kernels
        end, and `take_back` returns it.
        """
        # A copy, so that a socket that is refused stays the program's.
        handle = self._net.hand_over(os.dup(socket.fileno()))
        socket.close()
        return Socket(handle)

    def take_back(self, socket: Any) -> Tuple["sockets.socket", bytes]:
        """Takes a socket back, once no kernel runs on this net: the system's socket, and bytes that no kernel has
        read.
        """
        descriptor, unread = self._net.take_back(socket_handle(socket))
        return sockets.socket(fileno=descriptor), unread

    def close_socket(self, socket: Any) -> None:
        """Closes a socket, whoever made it."""
        self._net.close_socket(socket_handle(socket))

    def launch(self, kernel: Any, grid: Any, block: Any, *args: Any, shared: int = 0) -> Launch:
        """Starts a kernel: a `@gpunet.kernel`, or one of an image (`image["name"]`). It has `grid` blocks of `block`
        threads, numbers or tuples, and `shared` bytes of launch-sized shared memory. The net is its first argument,
        `args` are those behind it.
        """
        image, name, layout, items, objects = prepared(kernel, self._gpu, grid, block, args, shared)
        return Launch(self._net.launch(image, name, layout, items, objects))

    def queue(self, stream: Any = None, *, timeout: Optional[float] = None) -> Queue:
        """A queue of operations on a stream (a new one by default); each operation may take `timeout` seconds, 30
        unless said.
        """
        stream = stream if isinstance(stream, Stream) else self._gpu.stream(stream)
        return Queue(self._net.queue(stream._stream, timeout), self._gpu, stream)

    def lease(self, streams: Sequence[Any], kernels: Sequence[Tuple[Any, Any, Any]]) -> Lease:
        """Lends the net to kernels that the program launches itself on these streams, and names here, each as a
        tuple of kernel, largest grid, largest block. A kernel may be the driver's handle of a function (an `int`, of
        this device's primary context). Kernels are given `Lease.net` on these streams alone, before the lease is
        closed.
        """
        made = [stream if isinstance(stream, Stream) else self._gpu.stream(stream) for stream in streams]
        named: List[Any] = []
        for kernel, grid, block in kernels:
            layout = (dimensions("grid", grid), dimensions("block", block), 0)
            if isinstance(kernel, int):
                named.append((None, "", kernel, layout))
            else:
                image, name = kernel._loaded_on(self._gpu)
                named.append((image, name, 0, layout))
        lease = self._net.lease([stream._stream for stream in made], named)
        return Lease(lease, self._gpu, (made, kernels))

    def statistics(self) -> Dict[str, Any]:
        """What the proxy has done so far, by name."""
        return self._net.statistics()

    def dump(self) -> List[Dict[str, Any]]:
        """Every socket, as the proxy sees it: for a kernel that seems stuck."""
        return self._net.dump()

    def abort(self) -> None:
        """Stops all kernels of this net: their waits return ECANCELED."""
        self._net.abort()

    def close(self) -> None:
        """Closes the net; see the class."""
        self._net.close()

    def __enter__(self) -> "Net":
        return self

    def __exit__(self, *error: Any) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<gpunet.Net on {self._gpu.name}, {'open' if self._net.is_open() else 'closed'}>"


class Listener:
    """A listening socket of a net; an argument of kernels, which accept from it."""

    def __init__(self, net: Net, handle: int, address: Address) -> None:
        self._net = net
        self._handle = Socket(handle)
        self._address = address

    @property
    def handle(self) -> Socket:
        """Its handle."""
        return self._handle

    @property
    def address(self) -> Address:
        """Where it listens, with the port that the system chose."""
        return self._address

    @property
    def port(self) -> int:
        """That port."""
        return self._address.port

    def close(self) -> None:
        """Closes it: kernels' calls on it return EBADF."""
        self._net.close_socket(self._handle)

    def __enter__(self) -> "Listener":
        return self

    def __exit__(self, *error: Any) -> None:
        try:
            self.close()
        except (SocketError, ClosedError):
            # It has gone with its net, or with a kernel that faulted.
            pass

    def __repr__(self) -> str:
        return f"<gpunet.Listener at {self._address}>"


@atexit.register
def _at_exit() -> None:
    # A forked child owns none of them.
    if os.getpid() != _process:
        return
    for net in list(_open):
        net.close()
    _gpunet.finish(_END)


def _forked() -> None:
    # What the child makes itself is its own.
    global _process
    _process = os.getpid()
    _open.clear()


os.register_at_fork(after_in_child=_forked)
