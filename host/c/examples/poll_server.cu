// An echo server for many connections at once: each block has a poller, which says where there is something to
// do. Any number of blocks share one listener.
#include <gpunet/gpunet.cuh>

/// Sends back what has come, until nothing is left. Whether the stream goes on.
__device__ bool serve(const gpunet::block &block, uint64_t socket, uint8_t *buffer, size_t capacity)
{
    const gpunet::stream_ref stream(block, socket);
    // Counted: what the ring holds, and what comes meanwhile.
    for (;;) {
        const int64_t got = gpunet::grecv(block, socket, buffer, capacity, GPUNET_MSG_DONTWAIT);
        if (got <= 0) {
            return got == -GPUNET_EAGAIN;
        }
        if (!stream.write_all(buffer, static_cast<size_t>(got))) {
            return false;
        }
    }
}

/// Serves until the program stops it.
extern "C" __global__ void poll_server(gpunet_net net, uint64_t listener)
{
    // The token of the listener; that of a stream is its handle.
    constexpr uint64_t NEW_CLIENT = 0;
    GPUNET_SHARED(uint8_t[4096], buffer);
    GPUNET_SHARED(gpunet_event[32], events);
    const gpunet::block block(net);
    const gpunet::listener_ref clients(block, listener);

    // Another block may have accepted whom an event reports: nobody waits for the next one.
    auto poller = gpunet::poller::create(block);
    if (!clients.set_option(GPUNET_OPTION_NON_BLOCKING, 1) || !poller ||
        !poller->add(listener, GPUNET_POLLIN, NEW_CLIENT)) {
        gpunet::gprint(block, gpunet::line().text("cannot poll: error ").number(poller.error()));
        return;
    }
    while (size_t count = poller->wait(events).value_or(0)) {
        // Counted: the events.
        for (size_t at = 0; at < count; ++at) {
            const uint64_t token = events[at].token;
            if (token == NEW_CLIENT) {
                auto stream = clients.accept();
                // The poller keeps it from now on, by its handle.
                if (stream && poller->add(stream->handle(), GPUNET_POLLIN, stream->handle())) {
                    static_cast<void>(stream->release());
                }
            } else if (!serve(block, token, buffer, sizeof buffer)) {
                gpunet::gclose(block, token);
            }
        }
        // All have read the events before the next ones come.
        block.sync();
    }
}
GPUNET_KERNEL(poll_server);
