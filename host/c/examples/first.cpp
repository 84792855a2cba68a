// Runs the server of first.cu until its standard input ends: first IMAGE [GPU]
#include <gpunet/gpunet.hpp>

#include <iostream>

namespace host = gpunet::host;

int main(int argc, char **argv)
{
    if (argc != 2 && argc != 3) {
        std::cerr << "usage: first IMAGE [GPU]" << std::endl;
        return 2;
    }
    try {
        const host::gpu gpu(argc > 2 ? argv[2] : "auto");
        const auto kernels = host::image::from_file(gpu, "first", argv[1]);
        const host::net net(gpu);
        const auto listener = net.listen("127.0.0.1:0");
        const auto server = net.launch(kernels, "first_server", {1, 32}, listener.socket);

        std::cout << gpu.name() << " (" << gpu.reason() << ")" << std::endl;
        std::cout << "port " << listener.port() << std::endl;
        std::string line;
        while (std::getline(std::cin, line) && !server.is_finished()) {
        }
    } catch (const gpunet::error &error) {
        std::cerr << error.blame() << ": " << error.what() << std::endl;
        return 1;
    }
    return 0;
}
