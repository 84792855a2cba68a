"""An echo server in a kernel: `python first.py [GPU]` serves until its standard input ends."""

import sys

import gpunet
import numpy as np
from gpunet import device as gn


@gpunet.kernel
def first_server(net, listener: gpunet.Socket):
    """Every block serves one connection at a time, for ever: what comes in goes back out."""
    buffer = gn.shared_array(1024, np.uint8)
    stream = gn.accept(net, gn.BLOCK, listener)
    while stream >= 0:
        count = gn.receive(net, gn.BLOCK, stream, buffer)
        while count > 0 and gn.send_all(net, gn.BLOCK, stream, buffer, count) > 0:
            count = gn.receive(net, gn.BLOCK, stream, buffer)
        gn.close(net, gn.BLOCK, stream)
        stream = gn.accept(net, gn.BLOCK, listener)


if __name__ == "__main__":
    gpu = gpunet.Gpu(sys.argv[1] if len(sys.argv) > 1 else "auto")
    with gpunet.Net(gpu) as net, net.listen(("127.0.0.1", 0)) as listener:
        with net.launch(first_server, 1, 32, listener):
            print(gpu, f"port {listener.port}", sep="\n", flush=True)
            sys.stdin.read()
