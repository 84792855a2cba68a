"""A GPU that is open: what its buffers, streams, images and kernels are made with."""

from __future__ import annotations

from typing import Any, Dict, Optional, TypeVar

from . import _gpunet

Opened = TypeVar("Opened", bound="OpenGpu")


class OpenGpu:
    """A GPU that is open: its handle, what it is, and the kernels that were loaded on it."""

    def __init__(self, choice: str = "auto", *, seed: Optional[int] = None, workers: Optional[int] = None) -> None:
        self._gpu = _gpunet.Gpu(choice, seed, workers)
        self._info: Dict[str, Any] = self._gpu.info()
        self._loaded: Dict[Any, Any] = {}

    @property
    def info(self) -> Dict[str, Any]:
        """What it is: kind, name, driver, compute_capability, limits, and the reason why it was chosen."""
        return dict(self._info)

    @property
    def kind(self) -> str:
        """`cuda` or `emulated`."""
        return self._info["kind"]

    @property
    def name(self) -> str:
        """The device's name."""
        return self._info["name"]

    def close(self) -> None:
        """Lets go of the GPU; nets and buffers on it stay."""
        self._gpu.close()

    def __enter__(self: Opened) -> Opened:
        return self

    def __exit__(self, *error: Any) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<gpunet.Gpu {self.kind}: {self.name} ({self._info['reason']})>"
