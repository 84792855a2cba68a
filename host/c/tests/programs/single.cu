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

int main()
{
    alarm(60);
    const host::gpu gpu("emulated");
    const host::net net(gpu);
#if defined(GPUNET_EMULATED)
    const auto image = host::image::from_program(gpu, "program");
    const auto listener = net.listen("127.0.0.1:0");
    const host::buffer<uint32_t> served(gpu, 1);
    const auto launch = net.launch(image, "shout", {1, 256}, listener.socket, served);
    {
        const tcp client = tcp::connect(listener.port());
        client.send("shout");
        EXPECT(client.receive(5) == "SHOUT");
    }
    while (served.at(0) == 0) {
        usleep(1000);
    }
    launch.abort();
    EXPECT(launch.wait(std::chrono::seconds(30)));
#endif
    std::cout << "done" << std::endl;
    return 0;
}
