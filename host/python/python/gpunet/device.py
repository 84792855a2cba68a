"""What kernels call: `from gpunet import device as gn`.

A call takes the net, the group that makes it together (`BLOCK`, `WARP` or `THREAD`), then what it is about, and
returns a number: a count or a handle, or a negative error number (`errno.ETIMEDOUT` ...). All threads of the group
make it with the same arguments and get the same result; the emulated GPU reports where they do not. What a call
received is there for all of them when it returns.

Buffers are arrays of one dimension in memory that the group shares: parameters of the kernel or `shared_array`.
Lengths are bytes.
"""

# Declarations: what they do is in `_device_functions` and beside it.
# mypy: disable-error-code="empty-body"

from __future__ import annotations

from typing import Any, Optional, Tuple

from ._stub import stub

THREAD, WARP, BLOCK = 0, 1, 2
"""Who makes a call together."""

AF_UNIX, AF_INET, AF_INET6 = 1, 2, 10
SOCK_STREAM, SOCK_NONBLOCK = 1, 2048
MSG_PEEK, MSG_DONTWAIT, MSG_WAITALL = 0x2, 0x40, 0x100
SHUT_RD, SHUT_WR, SHUT_RDWR = 0, 1, 2
POLLIN, POLLOUT, POLLERR, POLLHUP, POLLNVAL, POLLRDHUP = 0x1, 0x4, 0x8, 0x10, 0x20, 0x2000

OPTION_NON_BLOCKING = 1
"""Calls that would wait return EAGAIN (0 or 1)."""
OPTION_RECEIVE_TIMEOUT = 2
"""How long accept and receive may wait, nanoseconds; 0: no limit."""
OPTION_SEND_TIMEOUT = 3
"""How long connect and send may wait, nanoseconds; 0: no limit."""
OPTION_RECEIVE_RING, OPTION_SEND_RING = 4, 5
OPTION_NO_DELAY, OPTION_KEEP_ALIVE, OPTION_KEEP_ALIVE_IDLE, OPTION_KEEP_ALIVE_INTERVAL = 6, 7, 8, 9
OPTION_KEEP_ALIVE_COUNT, OPTION_USER_TIMEOUT, OPTION_REUSE_ADDRESS, OPTION_REUSE_PORT = 10, 11, 12, 13
OPTION_V6_ONLY, OPTION_QUICK_ACK = 14, 15
OPTION_DETACHED = 16
"""The socket outlives the kernel that made it (0 or 1)."""
OPTION_ERROR = 17
OPTION_SYSTEM_SEND_BUFFER, OPTION_SYSTEM_RECEIVE_BUFFER, OPTION_TRANSPORT, OPTION_PLACEMENT = 18, 19, 20, 21


@stub
def socket(net: Any, group: int, domain: int = AF_INET, type: int = SOCK_STREAM) -> int:
    """Makes a socket; its handle."""


@stub
def bind(net: Any, group: int, socket: int, address: Any) -> int:
    """Gives a socket its own address."""


@stub
def listen(net: Any, group: int, socket: int, backlog: int = 128) -> int:
    """Makes a socket a listener."""


@stub
def accept(net: Any, group: int, listener: int) -> int:
    """The next connection of a listener; its handle."""


@stub
def connect(net: Any, group: int, socket: int, address: Any) -> int:
    """Connects a socket; EINPROGRESS on a non-blocking one."""


@stub
def open_stream(net: Any, group: int, address: Any) -> int:
    """A new socket that is connected to an address; its handle. One that cannot be connected is closed again."""


@stub
def send(net: Any, group: int, socket: int, buffer: Any, length: Optional[int] = None, flags: int = 0) -> int:
    """Sends: on a blocking socket all of the buffer or `length` bytes of it, else as much as fits. How many bytes; an
    error only where none was sent.
    """


@stub
def send_all(net: Any, group: int, socket: int, buffer: Any, length: Optional[int] = None) -> int:
    """Sends all of it; how many bytes, or the error that ended it."""


@stub
def receive(net: Any, group: int, socket: int, buffer: Any, length: Optional[int] = None, flags: int = 0) -> int:
    """Receives at least one byte, at most what the buffer holds or `length`; 0 once the peer has closed."""


@stub
def receive_all(net: Any, group: int, socket: int, buffer: Any, length: Optional[int] = None) -> int:
    """Fills the buffer, or `length` bytes of it; how many, which are fewer only where the stream ended."""


@stub
def peek(net: Any, group: int, socket: int, least: int = 1) -> Tuple[int, Any]:
    """Received bytes in the ring itself, without a copy: how many, and a slice. At least `least` of them, all there
    are; fewer come only at the end of the stream, and 0 once all were consumed. They stay until `consume`, and no other
    group receives meanwhile. A negative count is an error; then nothing is open.

    A slice is a pair of arrays of `uint8`, as a ring wraps: `first, second = slice`; `load_byte` has its bytes by number.
    """


@stub
def consume(net: Any, group: int, socket: int, slice: Any, count: Optional[int] = None) -> int:
    """Consumes the first `count` bytes of a slice of `peek`, or all, and closes it; 0 consumes none. Waits for all
    threads of the group first.
    """


@stub
def reserve(net: Any, group: int, socket: int, least: int = 1, most: Optional[int] = None) -> Tuple[int, Any]:
    """Space in the ring to send from: how many bytes, at least `least`, at most `most`, and a slice to fill
    (`store_byte`, or its two arrays). It is sent with `commit`; no other group sends meanwhile. A negative count is an
    error; then nothing is open.
    """


@stub
def commit(net: Any, group: int, socket: int, slice: Any, count: Optional[int] = None) -> int:
    """Sends the first `count` bytes of a slice of `reserve`, or all, and closes it; 0 sends none. Waits for all threads
    of the group first.
    """


@stub
def load_byte(slice: Any, index: int) -> int:
    """The byte of a slice with that number, which is below its count."""


@stub
def store_byte(slice: Any, index: int, value: int) -> None:
    """Writes the byte of a slice of `reserve` with that number, which is below its count."""


@stub
def shutdown(net: Any, group: int, socket: int, how: int = SHUT_WR) -> int:
    """Ends one direction or both; what was sent before still arrives."""


@stub
def close(net: Any, group: int, socket: int) -> int:
    """Closes a socket: what is unsent is sent, and calls on it return EBADF."""


@stub
def own_address(net: Any, group: int, socket: int) -> Tuple[int, Tuple[int, ...]]:
    """A socket's own address: the result, and the address as 14 words."""


@stub
def peer_address(net: Any, group: int, socket: int) -> Tuple[int, Tuple[int, ...]]:
    """The peer's address: the result, and the address as 14 words."""


@stub
def set_option(net: Any, group: int, socket: int, option: int, value: int) -> int:
    """Sets an option (`OPTION_NO_DELAY` ...)."""


@stub
def get_option(net: Any, group: int, socket: int, option: int) -> int:
    """Reads an option."""


@stub
def poll(net: Any, group: int, entries: Any, timeout_ms: int = -1) -> int:
    """Waits until one of some sockets is ready, or the time is over (negative: no limit); how many are.

    `entries` is an array of `uint64` with two words for each socket: its handle, and what to look for (`POLLIN` ...);
    what was found is added to the second, shifted by 16.
    """


@stub
def poller(net: Any, group: int) -> int:
    """Makes a poller; its handle, which `close` closes."""


@stub
def watch(net: Any, group: int, poller: int, socket: int, events: int, token: int) -> int:
    """Has a poller watch a socket, or with no events no longer."""


@stub
def wait(net: Any, group: int, poller: int, events: Any, timeout_ns: int = 0) -> int:
    """Waits for events of a poller (0: no limit); how many there are. Each takes two words of `events`, an array of
    `uint64`: the token of its socket, and what happened.
    """


@stub
def time(net: Any, group: int) -> int:
    """Nanoseconds since 1970, by the host's clock."""


@stub
def print_line(net: Any, group: int, text: Any, length: Optional[int] = None) -> int:
    """Prints a line on the host: a constant text, or bytes of an array."""


@stub
def thread_index(axis: int = 0) -> int:
    """`threadIdx`; the axis is a constant, 0 for x."""


@stub
def block_index(axis: int = 0) -> int:
    """`blockIdx`."""


@stub
def block_size(axis: int = 0) -> int:
    """`blockDim`: threads of a block."""


@stub
def grid_size(axis: int = 0) -> int:
    """`gridDim`: blocks."""


@stub
def sync(group: int = BLOCK) -> None:
    """Waits for all threads of the block (`__syncthreads`), or of the warp."""


@stub
def shuffle(value: Any, lane: int) -> Any:
    """Another lane's value, by its number in the warp (`__shfl_sync`). All lanes that the warp has make this call,
    and those below, together; values are integers and floats.
    """


@stub
def shuffle_up(value: Any, by: int) -> Any:
    """The value of the lane so many below; a lane that has none there keeps its own."""


@stub
def shuffle_down(value: Any, by: int) -> Any:
    """The value of the lane so many above; a lane that has none there keeps its own."""


@stub
def shuffle_xor(value: Any, mask: int) -> Any:
    """The value of the lane whose number differs in these bits."""


@stub
def ballot(yes: bool) -> int:
    """The lanes of the warp that said yes, as bits of a `uint32`."""


@stub
def shared_array(count: int, dtype: Any) -> Any:
    """Memory of the block: an array of so many numbers, both constants, with anything inside."""


@stub
def launch_shared(count: int, dtype: Any) -> Any:
    """The launch-sized shared memory, as an array of so many numbers; all of them are the same memory."""


@stub
def atomic_add(array: Any, index: int, value: Any) -> Any:
    """Adds to an integer of an array that other threads add to, too; what it was before."""


@stub
def pause() -> None:
    """A turn of a wait loop of the kernel's own: lets other threads run."""


@stub
def clock() -> int:
    """Nanoseconds on a clock that only goes forward."""
