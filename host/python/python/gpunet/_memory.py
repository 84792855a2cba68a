"""Where the elements of an array lie: gpunet's buffers, NumPy, `__cuda_array_interface__`, DLPack."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any, Optional, Tuple

import numpy as np

from ._buffer import Buffer


@dataclass
class Located:
    """Elements in memory, C-contiguous, and what keeps them there."""

    address: int
    shape: Tuple[int, ...]
    dtype: np.dtype
    keeps: Any

    @property
    def nbytes(self) -> int:
        return int(np.prod(self.shape, dtype=np.int64)) * self.dtype.itemsize


def locate(value: Any, kind: str, writes: bool = True) -> Optional[Located]:
    """The memory of an array for kernels on that kind of GPU; nothing of what is no array.

    Raises TypeError for arrays that such kernels cannot reach, and for those that are read-only unless nobody
    `writes` there.
    """
    if isinstance(value, Buffer):
        return Located(value._address(), value.shape, value.dtype, value)
    if isinstance(value, np.ndarray):
        return _numpy(value, kind, writes)
    if kind == "cuda" and hasattr(value, "__cuda_array_interface__"):
        return _cuda_array(value, writes)
    if hasattr(value, "__dlpack__") and hasattr(value, "__dlpack_device__"):
        return _dlpack(value, kind)
    if hasattr(value, "__cuda_array_interface__"):
        raise TypeError("an array in CUDA's memory, which the emulated GPU does not reach: copy it to NumPy")
    return None


def located(
    value: Any, kind: str, start: int, count: Optional[int], writes: bool = True
) -> Tuple[int, int, Any]:
    """Address and bytes of elements of an array for an operation, and what keeps them."""
    found = locate(value, kind, writes)
    if found is None:
        raise TypeError(f"no array: {type(value).__name__}")
    size = int(np.prod(found.shape, dtype=np.int64))
    count = size - start if count is None else count
    if start < 0 or count < 0 or start + count > size:
        raise IndexError(f"elements {start} to {start + count} of {size}")
    item = found.dtype.itemsize
    # Memory itself, which outlives a buffer that is closed.
    keeps = value._memory if isinstance(value, Buffer) else found.keeps
    return found.address + start * item, count * item, keeps


def _numpy(array: np.ndarray, kind: str, writes: bool) -> Located:
    if kind == "cuda":
        raise TypeError("a NumPy array in host memory, which the GPU does not reach: copy it with gpu.buffer(array)")
    if not array.flags.c_contiguous:
        raise TypeError("an array that is not C-contiguous: use np.ascontiguousarray")
    if writes and not array.flags.writeable:
        raise TypeError("an array that is read-only, and kernels may write: use a copy")
    return Located(array.ctypes.data, array.shape, array.dtype, array)


def _cuda_array(value: Any, writes: bool) -> Located:
    interface = value.__cuda_array_interface__
    dtype, shape = np.dtype(interface["typestr"]), tuple(interface["shape"])
    strides = interface.get("strides")
    if strides is not None and tuple(strides) != _strides(shape, dtype.itemsize):
        raise TypeError("an array that is not C-contiguous: make a contiguous copy")
    address, read_only = interface["data"]
    if writes and read_only:
        raise TypeError("an array that is read-only, and kernels may write: use a copy")
    return Located(int(address or 0), shape, dtype, value)


def _strides(shape: Tuple[int, ...], itemsize: int) -> Tuple[int, ...]:
    strides = []
    for length in reversed(shape):
        strides.append(itemsize)
        itemsize *= length
    return tuple(reversed(strides))


class _Tensor(ctypes.Structure):
    """`DLTensor` of DLPack, the beginning of what a capsule named "dltensor" holds."""

    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


_CPU, _CUDA = 1, 2
_KINDS = {0: "i", 1: "u", 2: "f", 6: "b"}


def _dlpack(value: Any, kind: str) -> Located:
    device = int(value.__dlpack_device__()[0])
    if device != (_CUDA if kind == "cuda" else _CPU):
        where = "CUDA's memory" if device == _CUDA else "host memory" if device == _CPU else "another device's memory"
        raise TypeError(f"a tensor in {where}, which this GPU ({kind}) does not reach: copy it there first")
    capsule = value.__dlpack__()
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    tensor = _Tensor.from_address(pointer(capsule, b"dltensor"))
    letter = _KINDS.get(tensor.code)
    if letter is None or tensor.lanes != 1 or tensor.bits % 8:
        raise TypeError(f"a tensor with elements that NumPy has no type for (DLPack code {tensor.code})")
    dtype = np.dtype(np.bool_) if letter == "b" else np.dtype(f"{letter}{tensor.bits // 8}")
    shape = tuple(tensor.shape[at] for at in range(tensor.ndim))
    if tensor.strides:
        strides = tuple(tensor.strides[at] for at in range(tensor.ndim))
        matters = [at for at in range(tensor.ndim) if shape[at] != 1]
        if any(strides[at] != _strides(shape, 1)[at] for at in matters):
            raise TypeError("a tensor that is not C-contiguous: make a contiguous copy")
    address = (tensor.data or 0) + tensor.byte_offset
    # The capsule, which nobody consumes, frees the tensor's description when it goes.
    return Located(address, shape, dtype, (value, capsule))
