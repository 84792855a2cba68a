#include <gpunet/gpunet.cuh>

/// Every block serves one connection at a time, for ever: what comes in goes back out.
extern "C" __global__ void first_server(gpunet_net net, uint64_t listener)
{
    GPUNET_SHARED(uint8_t[1024], buffer);
    const gpunet::listener_ref clients(gpunet::block(net), listener);
    while (auto stream = clients.accept()) {
        while (size_t bytes = stream->read(buffer).value_or(0)) {
            if (!stream->write_all(buffer, bytes)) {
                break;
            }
        }
    }
}
GPUNET_KERNEL(first_server);
