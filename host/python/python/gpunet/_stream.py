"""Streams, and the words that they wait for."""

from __future__ import annotations

from typing import Any, Optional

from ._open_gpu import OpenGpu


class Flags:
    """Words of 64 bits in host memory, which the program reads and writes, and streams wait for and write."""

    def __init__(self, gpu: OpenGpu, count: int) -> None:
        self._flags = gpu._gpu.flags(count)

    def __len__(self) -> int:
        return len(self._flags)

    def __getitem__(self, index: int) -> int:
        return self._flags.load(index)

    def __setitem__(self, index: int, value: int) -> None:
        self._flags.store(index, value)


class Stream:
    """Kernels and operations one after the other; see `Gpu.stream`."""

    def __init__(self, gpu: OpenGpu, stream: Any = None) -> None:
        self._keeps = stream
        self._stream = gpu._gpu.stream(None if stream is None else _raw_stream(stream))

    @property
    def done(self) -> bool:
        """Whether all that gpunet has put there is done; raises how a kernel there has faulted."""
        return self._stream.is_done()

    def wait(self, timeout: Optional[float] = None) -> bool:
        """Waits until that is so, at most so many seconds. Whether it is."""
        return self._stream.wait(timeout)


def _raw_stream(stream: Any) -> int:
    if isinstance(stream, int) and not isinstance(stream, bool):
        return stream
    if hasattr(stream, "__cuda_stream__"):
        protocol = stream.__cuda_stream__
        # A version and the number.
        return int((protocol() if callable(protocol) else protocol)[1])
    for attribute in ("cuda_stream", "ptr", "handle"):
        if isinstance(getattr(stream, attribute, None), int):
            return int(getattr(stream, attribute))
    raise TypeError(
        f"no stream of CUDA: {type(stream).__name__}; give its number, or an object with __cuda_stream__, cuda_stream "
        "or ptr"
    )
