// An echo server: listens, accepts, reads and writes. One connection at a time for each block.
#include <gpunet/gpunet.cuh>

/// Sends back what comes in, until the stream ends.
__device__ void echo(const gpunet::stream &stream)
{
    GPUNET_SHARED(uint8_t[4096], buffer);
    while (size_t bytes = stream.read(buffer).value_or(0)) {
        if (!stream.write_all(buffer, bytes)) {
            return;
        }
    }
}

/// Every block serves one connection after the other, from a listener of the program, until it is stopped.
extern "C" __global__ void echo_server(gpunet_net net, uint64_t listener)
{
    const gpunet::listener_ref clients(gpunet::block(net), listener);
    while (auto stream = clients.accept()) {
        echo(*stream);
    }
}
GPUNET_KERNEL(echo_server);

/// One block listens itself, prints the port that the system chose, and serves so many connections.
extern "C" __global__ void echo_listen(gpunet_net net, gpunet_address address, uint32_t connections, uint32_t *port)
{
    const gpunet::block block(net);
    auto clients = gpunet::listener::bind(block, address);
    if (!clients) {
        gpunet::gprint(block, gpunet::line().text("cannot listen: error ").number(clients.error()));
        return;
    }
    const auto own = clients->local_address();
    if (own && block.thread_rank() == 0) {
        *port = own->port();
        __threadfence_system();
    }
    // Counted: the connections.
    for (uint32_t served = 0; served < connections; ++served) {
        auto stream = clients->accept();
        if (!stream) {
            return;
        }
        echo(*stream);
    }
}
GPUNET_KERNEL(echo_listen);
