// Kernels and host code in one file, which g++ compiles for the emulated GPU and nvcc for both.
#include <gpunet/gpunet.cuh>
#include <gpunet/gpunet.hpp>

#include <iostream>

#include "tcp.hpp"

namespace host = gpunet::host;

extern "C" __global__ void shout(gpunet_net net, uint64_t listener, uint32_t *served)
{
    GPUNET_SHARED(uint8_t[256], buffer);
    const gpunet::block block(net);
    const gpunet::listener_ref clients(block, listener);
    while (auto stream = clients.accept()) {
        while (size_t bytes = stream->read(buffer).value_or(0)) {
            if (block.thread_rank() < bytes) {
                buffer[block.thread_rank()] ^= 0x20;
            }
            block.sync();
            if (!stream->write_all(buffer, bytes)) {
                break;
            }
        }
        if (block.thread_rank() == 0) {
            ++*served;
        }
    }
}
GPUNET_KERNEL(shout);

/// A client, whose letters come back in the other case.
static void ask(std::uint16_t port)
{
    const tcp client = tcp::connect(port);
    client.send("shout");
    EXPECT(client.receive(5) == "SHOUT");
}

/// Waits until the server has seen the end of its first connection.
static void served_one(const host::buffer<uint32_t> &served)
{
    // Counted: `alarm` ends it.
    while (served.at(0) == 0) {
        usleep(1000);
    }
}

#if defined(GPUNET_EMULATED)
static void run()
{
    const host::gpu gpu("emulated");
    const host::net net(gpu);
    const auto image = host::image::from_program(gpu, "program");
    const auto listener = net.listen("127.0.0.1:0");
    const host::buffer<uint32_t> served(gpu, 1);
    const auto launch = net.launch(image, "shout", {1, 256}, listener.socket, served);
    ask(listener.port());
    served_one(served);
    launch.abort();
    EXPECT(launch.wait(std::chrono::seconds(30)));
}
#else
/// The program launches the kernel itself, on a stream of the CUDA runtime's, under a lease.
static void run()
{
    // Loaded before any kernel runs: loading would wait for it.
    cudaFunction_t function = nullptr;
    cudaStream_t raw = nullptr;
    EXPECT(cudaSetDevice(0) == cudaSuccess);
    EXPECT(cudaGetFuncBySymbol(&function, reinterpret_cast<const void *>(shout)) == cudaSuccess);
    EXPECT(cudaStreamCreateWithFlags(&raw, cudaStreamNonBlocking) == cudaSuccess);
    const host::gpu gpu("cuda:0");
    const host::net net(gpu);
    const auto listener = net.listen("127.0.0.1:0");
    const host::buffer<uint32_t> served(gpu, 1);
    const auto stream = host::stream::from_raw(gpu, raw);
    const host::lease lease(net, {stream}, {{function, {1, 256}}});
    shout<<<1, 256, 0, raw>>>(lease.net(), listener.socket.handle, served.device_pointer());
    EXPECT(cudaGetLastError() == cudaSuccess);
    ask(listener.port());
    served_one(served);
    // Another one behind it, which is stopped with it.
    shout<<<1, 256, 0, raw>>>(lease.net(), listener.socket.handle, served.device_pointer());
    EXPECT(cudaGetLastError() == cudaSuccess && !lease.is_finished());
    lease.close();
    lease.abort();
    EXPECT(lease.wait(std::chrono::seconds(30)) && lease.is_finished());
    EXPECT(cudaStreamQuery(raw) == cudaSuccess);
}
#endif

int main()
{
    alarm(60);
    try {
        run();
    } catch (const gpunet::error &error) {
        std::cerr << error.name() << ": " << error.what() << std::endl;
        return 1;
    }
    std::cout << "done" << std::endl;
    return 0;
}
