"""Sockets for GPU kernels.

Kernels in Python or CUDA C++ connect, accept, send and receive by themselves; this package runs them, on a CUDA GPU
or on the emulated one.

    import gpunet
    from gpunet import device as gn

    @gpunet.kernel
    def greet(net, listener: gpunet.Socket):
        stream = gn.accept(net, gn.BLOCK, listener)
        ...

    with gpunet.Net(gpunet.Gpu()) as net, net.listen(("127.0.0.1", 0)) as listener:
        net.launch(greet, 1, 64, listener).wait(10)
"""

from . import device
from ._address import Address
from ._buffer import Buffer
from ._errors import (
    ArgumentError,
    ClosedError,
    CompileError,
    DivergenceError,
    Error,
    ForkedError,
    GpuError,
    ImageError,
    KernelError,
    NetError,
    OperationError,
    SettingError,
    SocketError,
    StillRunning,
)
from ._function import Function
from ._gpu import Gpu
from ._gpunet import C_ABI, __version__, errno_name
from ._image import Image, ImageKernel
from ._include import include
from ._kernel import Kernel, function, kernel
from ._launch import Launch, Lease
from ._net import Listener, Net
from ._queue import Batch, Completions, Graph, GraphBuilder, Queue
from ._stream import Flags, Stream
from ._types import Array, Socket

__all__ = [
    "Address",
    "ArgumentError",
    "Array",
    "Batch",
    "Buffer",
    "C_ABI",
    "ClosedError",
    "CompileError",
    "Completions",
    "DivergenceError",
    "Error",
    "Flags",
    "ForkedError",
    "Function",
    "Gpu",
    "GpuError",
    "Graph",
    "GraphBuilder",
    "Image",
    "ImageError",
    "ImageKernel",
    "Kernel",
    "KernelError",
    "Launch",
    "Lease",
    "Listener",
    "Net",
    "NetError",
    "OperationError",
    "Queue",
    "SettingError",
    "Socket",
    "SocketError",
    "StillRunning",
    "Stream",
    "__version__",
    "device",
    "errno_name",
    "function",
    "include",
    "kernel",
]
