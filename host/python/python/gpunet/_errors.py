"""Exceptions. Each message is one line that says what is wrong and what to do about it."""

from __future__ import annotations

from typing import Optional


class Error(Exception):
    """What goes wrong in gpunet."""


class GpuError(Error):
    """A GPU could not do what it was asked."""

    blame: Optional[str] = None
    """Who has to change something: 'caller', 'system' or 'kernel'."""


class ImageError(GpuError):
    """An image of kernels that is not one, or not for this GPU, or for another version."""


class CompileError(ImageError):
    """Source of kernels that does not compile."""


class ArgumentError(Error, TypeError):
    """Arguments that are not what a kernel takes."""


class NetError(Error):
    """A net could not do what it was asked."""

    errno: Optional[int] = None
    """What the system said, where it was asked."""


class SettingError(NetError, ValueError):
    """A setting of a net that makes no sense."""


class SocketError(NetError):
    """A call on a socket failed; `errno` says how."""


class ClosedError(Error):
    """The object is closed."""


class ForkedError(Error):
    """The object belongs to the process that this one was forked off from."""


class KernelError(Error):
    """A kernel did not end well."""

    blame: Optional[str] = None
    """Who has to change something: 'caller', 'system' or 'kernel'."""


class DivergenceError(KernelError):
    """Threads of a group did not make the same call; reported by the emulated GPU."""


class OperationError(Error):
    """An operation of a queue failed; `errno` says how, `index` which one of its batch."""

    errno: Optional[int] = None
    index: Optional[int] = None


class StillRunning(Error, TimeoutError):
    """The time is over, and what was waited for is not done."""
