// A server without copies: it reads received bytes in the ring itself, and writes the answer, the same in
// capitals, straight into the ring to send from.
#include <gpunet/gpunet.cuh>

/// Answers until the stream ends. Whether it ended well.
__device__ bool shout(const gpunet::block &block, const gpunet::stream &stream)
{
    // Counted: each turn consumes a byte or more, or is the last.
    for (;;) {
        auto received = stream.received();
        if (!received || received->size() == 0) {
            return bool(received);
        }
        auto space = stream.space(1, received->size());
        if (!space) {
            return false;
        }
        // At most as many as were received.
        const size_t bytes = space->size();
        // Counted: the bytes.
        for (size_t at = block.thread_rank(); at < bytes; at += block.num_threads()) {
            const uint8_t byte = (*received)[at];
            (*space)[at] = byte >= 'a' && byte <= 'z' ? static_cast<uint8_t>(byte - 'a' + 'A') : byte;
        }
        // Both wait for all threads first.
        space->commit(bytes);
        received->consume(bytes);
    }
}

/// Every block serves one connection after the other until the program stops it.
extern "C" __global__ void shout_server(gpunet_net net, uint64_t listener)
{
    const gpunet::block block(net);
    const gpunet::listener_ref clients(block, listener);
    while (auto stream = clients.accept()) {
        if (!shout(block, *stream)) {
            gpunet::gprint(block, "a connection ended with an error");
        }
    }
}
GPUNET_KERNEL(shout_server);

/// One block sends so many bytes from its own memory, through the ring in pieces.
extern "C" __global__ void slice_sender(gpunet_net net, gpunet_address server, const uint8_t *from, uint64_t length)
{
    auto stream = gpunet::stream::connect(gpunet::block(net), server);
    uint64_t sent = 0;
    // Counted: each turn sends a byte or more, or is the last.
    while (stream && sent < length) {
        auto space = stream->space(1, length - sent);
        if (!space) {
            return;
        }
        const size_t bytes = space->copy_from(0, from + sent, length - sent);
        space->commit(bytes);
        sent += bytes;
    }
}
GPUNET_KERNEL(slice_sender);
