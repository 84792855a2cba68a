"""Kernels that run: launches and leases."""

from __future__ import annotations

import asyncio
from typing import Any, Generator, Optional

from ._arguments import prepared
from ._errors import KernelError, StillRunning

_STOP = 10.0
"""Seconds that a kernel may take to end after it was stopped."""


class Launch:
    """A kernel that was launched. Letting go of it leaves the kernel running.

    As a context manager it stops the kernel when the block is left, and waits until it has ended; how it ended is
    raised. `await launch` waits in asyncio.
    """

    def __init__(self, launch: Any) -> None:
        self._launch = launch

    @property
    def kernel(self) -> str:
        """The kernel's name."""
        return self._launch.kernel()

    @property
    def number(self) -> int:
        """The launch's number on its net, as printed lines and statistics name it."""
        return self._launch.number()

    @property
    def done(self) -> bool:
        """Whether the kernel has ended."""
        return self._launch.done()

    def wait(self, timeout: Optional[float] = None) -> None:
        """Waits until the kernel has ended. Raises how it ended, when not well (`KernelError`), or `StillRunning`
        after so many seconds. Other threads run meanwhile, and Ctrl-C raises KeyboardInterrupt; the kernel goes on.
        """
        self._launch.wait(timeout)

    def abort(self) -> None:
        """Stops the kernel: its waits return ECANCELED."""
        self._launch.abort()

    def __await__(self) -> Generator[Any, None, None]:
        return self._wait_async().__await__()

    async def _wait_async(self) -> None:
        pause = 0.0005
        while not self.done:
            await asyncio.sleep(pause)
            pause = min(pause * 1.5, 0.02)
        self.wait(0)

    def __enter__(self) -> "Launch":
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        self.abort()
        try:
            self.wait(_STOP)
        except (KernelError, StillRunning):
            # What the block raised says more.
            if kind is None:
                raise

    def __repr__(self) -> str:
        return f"<gpunet.Launch {self.number} of '{self.kernel}', {'done' if self.done else 'running'}>"


class Lease:
    """Streams on which the program runs kernels of a net itself; made by `Net.lease`.

    As a context manager it is closed when the block is left: what is on the streams still runs.
    """

    def __init__(self, lease: Any, gpu: Any, keeps: Any) -> None:
        self._lease = lease
        self._gpu = gpu
        self._keeps = keeps

    @property
    def net(self) -> bytes:
        """The net as kernels take it, by value: 16 bytes, two words."""
        return self._lease.net()

    def launch(self, stream: Any, kernel: Any, grid: Any, block: Any, *args: Any, shared: int = 0) -> None:
        """Puts a kernel on one of its streams; on the emulated GPU the only way."""
        image, name, layout, items, objects = prepared(kernel, self._gpu, grid, block, args, shared)
        self._lease.launch(stream._stream, image, name, layout, items, objects)


    def close(self) -> None:
        """No more kernels use the net: it ends when what is on its streams is done. Returns at once."""
        self._lease.close()

    def wait(self, timeout: Optional[float] = None) -> None:
        """Waits until it has ended; raises as `Launch.wait`."""
        self._lease.wait(timeout)

    @property
    def done(self) -> bool:
        """Whether it has ended."""
        return self._lease.done()

    def abort(self) -> None:
        """Stops its kernels, those that are yet to run, too."""
        self._lease.abort()

    def __enter__(self) -> "Lease":
        return self

    def __exit__(self, *error: Any) -> None:
        self.close()
