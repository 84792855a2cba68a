// A client: connects, sends a pattern in messages of one size, and checks what an echo server sends back.
#include <gpunet/gpunet.cuh>

/// What a client found, for the program to read.
struct client_report {
    /// Messages that came back as they were sent.
    uint32_t right;
    /// What ended it: 0, or an error number.
    int32_t error;
};

/// The block connects and makes so many round trips. The message lies in launch-sized shared memory, which
/// has room for two.
extern "C" __global__ void echo_client(gpunet_net net, gpunet_address server, uint32_t messages, uint32_t bytes,
                                       client_report *report)
{
    const gpunet::block block(net);
    GPUNET_LAUNCH_SHARED(uint8_t, message);
    uint8_t *const answer = message + bytes;
    uint32_t right = 0;
    int32_t error = 0;

    auto stream = gpunet::stream::connect(block, server);
    if (!stream) {
        error = stream.error();
    } else if (auto set = stream->set_timeout(10'000'000'000); !set) {
        error = set.error();
    }
    // Counted: the messages.
    for (uint32_t at = 0; at < messages && error == 0; ++at) {
        // Counted: the bytes.
        for (uint32_t byte = block.thread_rank(); byte < bytes; byte += block.num_threads()) {
            message[byte] = static_cast<uint8_t>(at * 7 + byte);
        }
        block.sync();
        if (auto sent = stream->write_all(message, bytes); !sent) {
            error = sent.error();
        } else if (auto got = stream->read_exact(answer, bytes); !got) {
            error = got.error();
        } else {
            int wrong = 0;
            // Counted: the bytes.
            for (uint32_t byte = block.thread_rank(); byte < bytes; byte += block.num_threads()) {
                wrong |= answer[byte] != message[byte];
            }
            right += __syncthreads_or(wrong) ? 0 : 1;
        }
    }
    if (block.thread_rank() == 0) {
        *report = {right, error};
    }
}
GPUNET_KERNEL(echo_client);
