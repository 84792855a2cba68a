// Runs a server kernel of an image until its standard input ends:
//
//     serve IMAGE KERNEL [GPU [ADDRESS]]        serve echo.so echo_server emulated 127.0.0.1:7000
#include <gpunet/gpunet.hpp>

#include <iostream>

namespace host = gpunet::host;

int main(int argc, char **argv)
{
    if (argc < 3 || argc > 5) {
        std::cerr << "usage: serve IMAGE KERNEL [GPU [ADDRESS]]" << std::endl;
        return 2;
    }
    try {
        const host::gpu gpu(argc > 3 ? argv[3] : "auto");
        std::cout << gpu.name() << " (" << gpu.reason() << ")" << std::endl;
        const auto image = host::image::from_file(gpu, "kernels", argv[1]);
        const host::net net(gpu);
        const auto listener = net.listen(argc > 4 ? argv[4] : "127.0.0.1:0");
        const auto server = net.launch(image, argv[2], {4, 64}, listener.socket);
        std::cout << "port " << listener.port() << std::endl;

        std::string line;
        while (std::getline(std::cin, line) && !server.is_finished()) {
        }
        server.abort();
        server.wait();
        std::cout << net.statistic("accepted") << " connections" << std::endl;
    } catch (const gpunet::error &error) {
        std::cerr << error.blame() << ": " << error.what() << std::endl;
        return 1;
    }
    return 0;
}
