"""What the programs that test_process runs begin with: a GPU, and kernels that wait."""

from __future__ import annotations

import os
import sys

import numpy as np

import carried
import gpunet
from gpunet import device as gn


@gpunet.kernel
def hold(net, listener: gpunet.Socket, out: gpunet.Array[np.int64]):
    """Waits for a client that does not come."""
    stream = gn.accept(net, gn.BLOCK, listener)
    if gn.thread_index() == 0:
        out[0] = stream


@gpunet.kernel
def spin(net, out: gpunet.Array[np.int64]):
    """Does not look whether it is to stop."""
    while out[0] == 0:
        gn.pause()


carried.use(sys.exit)
GPU = os.environ.get("GPUNET_PYTHON_GPU", "emulated")
