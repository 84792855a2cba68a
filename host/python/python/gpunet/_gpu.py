"""A GPU, and what is made on it: buffers, flags, streams, images and kernels."""

from __future__ import annotations

import os
from typing import Any, Optional

import numpy as np

from ._buffer import Buffer
from ._image import Image
from ._kernel import Kernel
from ._open_gpu import OpenGpu
from ._stream import Flags, Stream


class Gpu(OpenGpu):
    """An open GPU: `auto` (the first CUDA device, else the emulated one), `cuda`, `cuda:N` or `emulated`.

    The emulated one runs kernels on the CPU. With a `seed` it runs their threads in an order drawn from it, so that
    a run can be repeated; `workers` is how many threads of the system a launch has at most.
    """

    def buffer(self, shape: Any, dtype: Any = np.uint8) -> "Buffer":
        """A buffer of that shape, zeroed; or one with the shape, type and contents of an array."""
        if isinstance(shape, (int, np.integer, tuple, list)):
            return Buffer(self, shape, dtype)
        array = np.ascontiguousarray(shape)
        made = Buffer(self, array.shape, array.dtype)
        made.write(array)
        return made

    def flags(self, count: int) -> "Flags":
        """Words of 64 bits that the program, kernels and streams set and wait for, 0 at first."""
        return Flags(self, count)

    def stream(self, stream: Any = None) -> "Stream":
        """A new stream; or one of another library: its number, or an object that has one (`__cuda_stream__`,
        `cuda_stream` as PyTorch's, `ptr` as CuPy's), which is kept.
        """
        return Stream(self, stream)

    def load(self, source: Any, name: Optional[str] = None) -> Any:
        """Makes kernels launchable: those of an image (PTX, cubin, fatbin as `bytes`, a path; see `Image`), or a
        `@gpunet.kernel`, which is compiled for this GPU. On CUDA all are loaded before the first launch: the driver
        would wait for kernels that run.
        """
        if isinstance(source, Kernel):
            return source.load(self)
        return Image(self, source, name)

    def compile(self, source: "str | os.PathLike[str]", name: Optional[str] = None, **options: Any) -> Any:
        """Compiles kernels in CUDA C++ and loads them; see `Image.compile`."""
        return Image.compile(self, source, name, **options)
