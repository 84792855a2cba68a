"""Arrays in the memory of a GPU."""

from __future__ import annotations

import math
from typing import Any, Dict, Iterable, Optional, Sequence, Tuple, Union

import numpy as np

from ._open_gpu import OpenGpu


class Buffer:
    """An array in the memory of a GPU. A kernel that was given it keeps it until it has ended."""

    def __init__(self, gpu: OpenGpu, shape: "Union[int, np.integer[Any], Sequence[int]]", dtype: Any = np.uint8) -> None:
        lengths: Iterable[Any] = (shape,) if isinstance(shape, (int, np.integer)) else shape
        self._shape = tuple(int(length) for length in lengths)
        self._dtype = np.dtype(dtype)
        if any(length < 0 for length in self._shape) or self._dtype.hasobject:
            raise ValueError(f"no shape or type of a buffer: {shape}, {dtype}")
        # NumPy's product would wrap, and a kernel would be given more elements than there is memory for.
        if math.prod(self._shape) * self._dtype.itemsize >= 2**63:
            raise ValueError(f"a buffer of {self._dtype}{list(self._shape)} is larger than the address space")
        self._kind = gpu.kind
        # One of no elements has no memory.
        self._memory = gpu._gpu.memory(self.nbytes) if self.nbytes else None

    @property
    def shape(self) -> Tuple[int, ...]:
        """The length of each dimension."""
        return self._shape

    @property
    def dtype(self) -> np.dtype:
        """The elements' type."""
        return self._dtype

    @property
    def size(self) -> int:
        """How many elements there are."""
        return int(np.prod(self._shape, dtype=np.int64))

    @property
    def nbytes(self) -> int:
        """How many bytes they have."""
        return self.size * self._dtype.itemsize

    def __len__(self) -> int:
        if not self._shape:
            raise TypeError("len() of a buffer without dimensions")
        return self._shape[0]

    def numpy(self) -> np.ndarray:
        """A copy of all elements. Waits for no kernel."""
        return self.read(0, self.size).reshape(self._shape)

    def read(self, start: int, count: int) -> np.ndarray:
        """A copy of elements from `start` on, of one dimension."""
        if start < 0 or count < 0 or start + count > self.size:
            raise IndexError(f"elements {start} to {start + count} of {self.size}")
        if self._memory is None or count == 0:
            return np.zeros(0, self._dtype)
        size = self._dtype.itemsize
        return np.frombuffer(self._memory.read(start * size, count * size), self._dtype).copy()

    def write(self, array: Any, start: int = 0) -> None:
        """Copies an array's elements in, from element `start` on. Waits for no kernel."""
        array = np.ascontiguousarray(array)
        if array.dtype != self._dtype:
            if not np.can_cast(array.dtype, self._dtype, "same_kind"):
                raise TypeError(f"a buffer of {self._dtype} takes no {array.dtype}")
            array = array.astype(self._dtype)
        if start < 0 or start + array.size > self.size:
            raise IndexError(f"elements {start} to {start + array.size} of {self.size}")
        if self._memory is not None and array.size:
            self._memory.write(start * self._dtype.itemsize, array.tobytes())

    def __array__(self, dtype: Any = None, copy: Optional[bool] = None) -> np.ndarray:
        if copy is False:
            raise ValueError("the elements of a GPU's buffer are copied")
        array = self.numpy()
        return array if dtype is None else array.astype(dtype)

    @property
    def __cuda_array_interface__(self) -> Dict[str, Any]:
        if self._kind != "cuda":
            raise AttributeError("the memory of the emulated GPU is not CUDA's: use numpy()")
        return {"shape": self._shape, "typestr": self._dtype.str, "data": (self._address(), False), "version": 3}

    def _address(self) -> int:
        return 0 if self._memory is None else self._memory.address()

    def close(self) -> None:
        """Gives the memory back, once kernels that use it have ended."""
        if self._memory is not None:
            self._memory.close()

    def __enter__(self) -> "Buffer":
        return self

    def __exit__(self, *error: Any) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<gpunet.Buffer {self._dtype}{list(self._shape)}>"
