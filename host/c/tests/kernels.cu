// Kernels that try what the examples do not: CUDA's words on the emulated GPU, groups of warps and of single
// threads, and what the emulated GPU must report.
#include <gpunet/gpunet.cuh>

// Whole headers of the standard library behind ours: none of our macros may be a word of theirs.
#include <algorithm>
#include <memory>
#include <vector>

constexpr uint8_t LOCALHOST6[16] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
static_assert(gpunet::address::v4(127, 0, 0, 1, 80).port() == 80);
static_assert(gpunet::address::v4(127, 0, 0, 1, 80).bytes[3] == 1);
static_assert(gpunet::address::v6(LOCALHOST6, 7, 0x01020304).bytes[16] == 4);
static_assert(gpunet::address::v6(LOCALHOST6, 7).with_port(9).port() == 9);
static_assert(gpunet::address::unix_path("/tmp/x").port_or_length == 6);
static_assert(gpunet::address::unix_path("/tmp/x") && !gpunet::address());

struct pair {
    uint32_t first, second;
};

__device__ uint32_t all_sums;

/// Stores what words of CUDA give, as thread 33 of block 0 sees it. For three blocks of 96 threads: 96, 1520,
/// 7, 0, 30, 32, 1, 0, 2, 96, 3, 3, 3, 96, 5.
extern "C" __global__ void __launch_bounds__(128) words(gpunet_net net, uint32_t *out)
{
    GPUNET_SHARED(uint32_t, sum);
    GPUNET_SHARED(pair[4], pairs);
    const gpunet::warp warp(net);
    if (threadIdx.x == 0) {
        sum = 0;
        for (auto &each : pairs) {
            each = {1, 2};
        }
    }
    __syncthreads();
    atomicAdd(&sum, 1u);
    __syncthreads();
    uint32_t value = threadIdx.x;
    for (unsigned by = 16; by > 0; by /= 2) {
        value += __shfl_down_sync(~0u, value, by);
    }
    value = __shfl_sync(~0u, value, 0);
    const uint32_t votes = __ballot_sync(~0u, warp.thread_rank() < 3);
    const uint32_t below = __shfl_up_sync(~0u, warp.thread_rank(), 1);
    const uint32_t across = __shfl_xor_sync(~0u, warp.thread_rank(), 31);
    const uint32_t thirds = static_cast<uint32_t>(__syncthreads_count(threadIdx.x % 3 == 0));
    const uint32_t any = static_cast<uint32_t>(__syncthreads_or(threadIdx.x == 95));
    const uint32_t all = static_cast<uint32_t>(__syncthreads_and(threadIdx.x != 5));
    warp.sync();
    gpunet::block::sync();
    atomicAdd(&all_sums, sum);
    if (blockIdx.x == 0 && threadIdx.x == 33) {
        const uint32_t found[] = {sum,       value,      votes,
                                  below,     across,     thirds,
                                  any,       all,        pairs[3].second,
                                  blockDim.x, gridDim.x, static_cast<uint32_t>(__popc(votes)),
                                  min(3u, 4u), atomicCAS(&sum, 96u, 5u), sum};
        for (int at = 0; at < 15; ++at) {
            out[at] = found[at];
        }
        gpunet::gprint(gpunet::thread(net), gpunet::line().text("numbers: ").number(-1234567890123).text(", ").number(0));
    }
}
GPUNET_KERNEL(words);

/// Each warp echoes, through copies out of the ring and into it, with 600 bytes of launch-sized memory each.
extern "C" __global__ void warps(gpunet_net net, uint64_t listener)
{
    GPUNET_LAUNCH_SHARED(uint8_t, memory);
    const gpunet::warp warp(net);
    uint8_t *const buffer = memory + threadIdx.x / 32 * 600;
    const gpunet::listener_ref clients(warp, listener);
    while (auto stream = clients.accept()) {
        const auto peer = stream->peer_address();
        if (!peer || peer->port() == 0 || !stream->set_timeout(5'000'000'000)) {
            return;
        }
        while (auto received = stream->received()) {
            const size_t bytes = received->copy_to(0, buffer, 600);
            if (bytes == 0) {
                break;
            }
            received->consume(bytes);
            auto space = stream->space(1, bytes);
            if (!space) {
                break;
            }
            const size_t sent = space->copy_from(0, buffer, bytes);
            space->commit(sent);
            if (sent < bytes && !stream->write_all(buffer + sent, bytes - sent)) {
                break;
            }
        }
    }
}
GPUNET_KERNEL(warps);

/// Some threads echo, each by itself, with a buffer of its own.
extern "C" __global__ void threads(gpunet_net net, uint64_t listener)
{
    if (threadIdx.x % 5 != 3) {
        return;
    }
    const gpunet::listener_ref clients(gpunet::thread(net), listener);
    uint8_t buffer[333];
    while (auto accepted = clients.accept()) {
        gpunet::stream stream(static_cast<gpunet::stream &&>(*accepted));
        while (size_t bytes = stream.peek(buffer, sizeof buffer).value_or(0)) {
            if (!stream.read_exact(buffer, bytes) || stream.write(buffer, bytes).value_or(0) != bytes) {
                break;
            }
        }
        if (!stream.close()) {
            return;
        }
    }
}
GPUNET_KERNEL(threads);

/// A barrier that one thread alone reaches, while a stream is open.
extern "C" __global__ void diverge(gpunet_net net, uint64_t listener)
{
    GPUNET_SHARED(uint8_t[16], buffer);
    const gpunet::listener_ref clients(gpunet::block(net), listener);
    auto stream = clients.accept();
    if (threadIdx.x == 3) {
        __syncthreads();
    }
    static_cast<void>(stream->read(buffer));
}
GPUNET_KERNEL(diverge);

/// A call whose arguments differ, while a stream and a slice are open.
extern "C" __global__ void differ(gpunet_net net, uint64_t listener)
{
    GPUNET_SHARED(uint8_t[16], buffer);
    const gpunet::listener_ref clients(gpunet::block(net), listener);
    auto stream = clients.accept();
    auto received = stream->received();
    static_cast<void>(stream->write_all(buffer, threadIdx.x == 7 ? 3 : 4));
}
GPUNET_KERNEL(differ);

/// A fault of one thread.
extern "C" __global__ void trap(gpunet_net net, uint64_t listener)
{
    const gpunet::listener_ref clients(gpunet::block(net), listener);
    auto stream = clients.accept();
    if (threadIdx.x == 9) {
        __trap();
    }
    gpunet::block::sync();
}
GPUNET_KERNEL(trap);

/// A call with a net that nobody has set.
extern "C" __global__ void unset(gpunet_net net, uint64_t listener)
{
    static_cast<void>(net);
    gpunet_net none = {};
    const gpunet::block nowhere(none);
    const gpunet::listener_ref clients(nowhere, listener);
    auto stream = clients.accept();
}
GPUNET_KERNEL(unset);
