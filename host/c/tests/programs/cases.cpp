// The C++ host side: `cases FOLDER CASE [GPU [KIND]]` runs one case, with kernels that were compiled into the folder,
// on the emulated GPU or another; KIND is how names of images end: so (of the emulated GPU), ptx, cubin, fatbin.
#include <gpunet/gpunet.hpp>

#include <atomic>
#include <chrono>
#include <cstring>
#include <iostream>
#include <map>
#include <mutex>
#include <thread>

#include <sys/wait.h>

#include "tcp.hpp"

using namespace std::chrono_literals;
namespace host = gpunet::host;

/// As host/c/examples/client.cu has it.
struct client_report {
    std::uint32_t right;
    std::int32_t error;
};

/// The GPU, and how names of its images end.
static std::string chosen_gpu = "emulated", kind = "so";

/// What all cases use.
struct world {
    explicit world(std::string folder, const host::net_options &options = {})
        : folder(std::move(folder)), gpu(chosen_gpu.c_str()), net(gpu, options)
    {
    }

    host::image image(const std::string &name) const
    {
        return host::image::from_file(gpu, name, folder + "/" + name + "." + kind);
    }

    std::string folder;
    host::gpu gpu;
    host::net net;
};

constexpr auto LIMIT = 600s;

/// Stops a server, which then ends well.
static void stop(const host::launch &server)
{
    EXPECT(!server.is_finished());
    server.abort();
    EXPECT(server.wait(LIMIT));
}

static void echo(const std::string &folder)
{
    world in(folder);
    const auto image = in.image("echo");
    EXPECT(image.kernels() == (std::vector<std::string>{"echo_listen", "echo_server"}));
    EXPECT(image.parameters("echo_server") == (std::vector<std::uint64_t>{16, 8}));
    const auto listener = in.net.listen("127.0.0.1:0");
    const auto server = in.net.launch(image, "echo_server", {2, 64}, listener.socket);
    for (int turn = 0; turn < 3; ++turn) {
        tcp::connect(listener.port()).echo(pattern(50000));
    }
    EXPECT(in.net.statistic("received_bytes") == 150000);
    EXPECT(in.net.statistics().at("accepted") == 3);
    stop(server);

    // A kernel that listens by itself prints its port.
    const host::buffer<std::uint32_t> port(in.gpu, 1);
    const auto own = in.net.launch(image, "echo_listen", {1, 32}, host::parse_address("127.0.0.1:0"), 1u, port);
    while (port.at(0) == 0) {
        EXPECT(!own.wait(1ms));
    }
    tcp::connect(static_cast<std::uint16_t>(port.at(0))).echo("itself");
    EXPECT(own.wait(LIMIT));
}

static client_report run_client(const world &in, const host::image &image, const gpunet_address &server)
{
    const host::buffer<client_report> report(in.gpu, 1);
    const auto client = in.net.launch(image, "echo_client", {1, 64, 600}, server, 20u, 300u, report);
    EXPECT(client.wait(LIMIT));
    return report.at(0);
}

static void client(const std::string &folder)
{
    world in(folder);
    const auto servers = in.image("echo"), clients = in.image("client");
    const auto listener = in.net.listen("127.0.0.1:0");
    const auto server = in.net.launch(servers, "echo_server", {1, 32}, listener.socket);
    const client_report report = run_client(in, clients, listener.address);
    EXPECT(report.right == 20 && report.error == 0);
    stop(server);
}

static void poll_server(const std::string &folder)
{
    world in(folder);
    const auto image = in.image("poll_server");
    const auto many = in.net.listen("127.0.0.1:0", {64, true, -1});
    const auto server = in.net.launch(image, "poll_server", {2, 64}, many.socket);
    std::vector<tcp> clients;
    for (int at = 0; at < 8; ++at) {
        clients.push_back(tcp::connect(many.port()));
    }
    for (int turn = 0; turn < 3; ++turn) {
        for (unsigned at = 0; at < clients.size(); ++at) {
            clients[at].send(pattern(1000, at));
        }
        for (unsigned at = 0; at < clients.size(); ++at) {
            EXPECT(clients[at].receive(1000) == pattern(1000, at));
        }
    }
    stop(server);
}

static void slices(const std::string &folder)
{
    world in(folder);
    const auto image = in.image("slices");
    const auto listener = in.net.listen("127.0.0.1:0");
    const auto server = in.net.launch(image, "shout_server", {1, 64}, listener.socket);
    {
        const tcp client = tcp::connect(listener.port());
        client.send("Slices of rings, 100%!");
        EXPECT(client.receive(22) == "SLICES OF RINGS, 100%!");
    }
    // It has seen the end of the stream, and closed it.
    while (in.net.statistic("sockets") > 1) {
        std::this_thread::sleep_for(1ms);
    }
    stop(server);

    // More than a ring holds, from a buffer of the GPU's; from its second byte on.
    const std::string bytes = pattern(300000);
    const host::buffer<std::uint8_t> memory(in.gpu, std::vector<std::uint8_t>(bytes.begin(), bytes.end()));
    const tcp peer = tcp::listen();
    const auto address = host::parse_address("127.0.0.1:" + std::to_string(peer.port()));
    const auto sender = in.net.launch(image, "slice_sender", {1, 64}, address, memory.from(1), std::uint64_t(299999));
    EXPECT(peer.accept().receive(300000) == bytes.substr(1));
    EXPECT(sender.wait(LIMIT));
}

static void groups(const std::string &folder)
{
    world in(folder);
    const auto image = in.image("kernels");
    for (const char *kernel : {"warps", "threads"}) {
        const auto listener = in.net.listen("127.0.0.1:0");
        const auto server = in.net.launch(image, kernel, {1, 64, 1200}, listener.socket);
        const tcp first = tcp::connect(listener.port()), second = tcp::connect(listener.port());
        second.echo(pattern(5000, 3));
        first.echo(pattern(5000, 5));
        stop(server);
    }
}

static void words(const std::string &folder)
{
    std::mutex lock;
    std::vector<std::string> lines;
    host::net_options options;
    options.set(host::on_print([&](std::uint32_t, const char *line) {
        const std::lock_guard<std::mutex> held(lock);
        lines.push_back(line);
    }));
    {
        world in(folder, options);
        const auto image = in.image("kernels");
        const host::buffer<std::uint32_t> out(in.gpu, 15);
        EXPECT(in.net.launch(image, "words", {3, 96}, out).wait(LIMIT));
        EXPECT(out.to_vector() ==
               (std::vector<std::uint32_t>{96, 1520, 7, 0, 30, 32, 1, 0, 2, 96, 3, 3, 3, 96, 5}));
    }
    // A net that is gone has printed all.
    EXPECT(lines == std::vector<std::string>{"numbers: -1234567890123, 0"});
}

/// Prints what something throws.
template <class F> static void thrown(const char *what, F &&call)
{
    try {
        call();
        EXPECT(!"it is a mistake");
    } catch (const gpunet::error &error) {
        std::cout << what << ": " << error.name() << ", " << error.blame() << ": " << error.what() << std::endl;
    }
}

/// What programs may get wrong, each with its sentence. Images of that kind are in the folder.
static void errors(const std::string &folder)
{
    world in(folder);
    for (const char *name : {"version", "missing", "machine"}) {
        thrown(name, [&] { static_cast<void>(in.image(name)); });
    }
    const auto image = in.image("echo");
    const auto listener = in.net.listen("127.0.0.1:0");
    const auto start = [&](const auto &...args) {
        static_cast<void>(in.net.launch(image, "echo_server", {1, 32}, args...));
    };
    thrown("too few", [&] { start(); });
    thrown("too many", [&] { start(listener.socket, 7u); });
    thrown("another type", [&] { start(7u); });
    host::gpu moved(std::move(in.gpu));
    thrown("no GPU", [&] { const host::net none(in.gpu); });
}

/// Runs a kernel that is wrong, and prints how it ended.
static void wrong(const std::string &folder, const char *kernel)
{
    std::atomic<int> faults{0};
    host::net_options options;
    options.set(host::on_fault([&](std::uint32_t, const char *, const char *) { ++faults; }));
    {
        world in(folder, options);
        const auto image = in.image("kernels");
        const auto listener = in.net.listen("127.0.0.1:0");
        const auto launch = in.net.launch(image, kernel, {1, 32}, listener.socket);
        const tcp client = tcp::connect(listener.port());
        client.send("x");
        try {
            launch.wait(LIMIT);
            EXPECT(!"it is wrong, and ended well");
        } catch (const gpunet::error &error) {
            std::cout << error.name() << ", " << error.blame() << ": " << error.what() << std::endl;
        }
        try {
            static_cast<void>(in.net.launch(image, kernel, {1, 32}, listener.socket));
            EXPECT(!"the net is of no more use");
        } catch (const gpunet::error &error) {
            EXPECT(error.code() == GPUNET_EFAULTED);
        }
    }
    EXPECT(faults == 1);
}

static void timeouts(const std::string &folder)
{
    host::net_options options;
    options.set("timeout_ns", 300ms).set("sockets", 16);
    world in(folder, options);
    const auto image = in.image("echo");
    const auto listener = in.net.listen("127.0.0.1:0");
    const auto begin = std::chrono::steady_clock::now();
    const auto server = in.net.launch(image, "echo_server", {1, 32}, listener.socket);
    EXPECT(server.wait(LIMIT));
    EXPECT(std::chrono::steady_clock::now() - begin >= 300ms);
}

static void endings(const std::string &folder)
{
    world in(folder);
    const auto image = in.image("client");
    tcp peer = tcp::listen();
    const auto address = host::parse_address("127.0.0.1:" + std::to_string(peer.port()));
    {
        // It answers once, and then closes what it has read.
        std::thread serves([&] {
            const tcp served = peer.accept();
            served.send(served.receive(300));
            EXPECT(served.receive(300).size() == 300);
        });
        const client_report report = run_client(in, image, address);
        serves.join();
        EXPECT(report.right == 1 && report.error == GPUNET_ECONNRESET);
    }
    {
        std::thread serves([&] {
            tcp served = peer.accept();
            EXPECT(served.receive(300).size() == 300);
            served.reset();
        });
        const client_report report = run_client(in, image, address);
        serves.join();
        EXPECT(report.right == 0 && report.error == GPUNET_ECONNRESET);
    }
    // Nobody listens there any more.
    peer.reset();
    const client_report report = run_client(in, image, address);
    EXPECT(report.right == 0 && report.error == GPUNET_ECONNREFUSED);
}

/// A connection of the program's whose one end is a net's, and the other a plain socket.
static std::pair<host::socket, tcp> handed_over(const host::net &net)
{
    const tcp listener = tcp::listen();
    tcp ours = tcp::connect(listener.port());
    tcp peer = listener.accept();
    return {net.hand_over(ours.release()), std::move(peer)};
}

static void stream(const std::string &folder)
{
    world in(folder);
    const host::stream on(in.gpu);
    auto [socket, peer] = handed_over(in.net);
    const host::buffer<char> memory(in.gpu, std::vector<char>{'h', 'e', 'l', 'l', 'o', 0, 0, 0});
    const host::flags<std::uint32_t> flags(in.gpu, 2);
    const host::buffer<std::uint64_t> counts(in.gpu, 2);
    {
        const host::queue queue(in.net, on, LIMIT);
        host::batch batch;
        batch.wait(flags, 0, host::condition::greater_or_equal, 7).send(socket, memory, 0, 5);
        batch.receive(socket, memory, 5, 3).write(flags, 1, 9).write(counts, 1, 1ull << 40);
        batch.wait(counts, 1, host::condition::equal, 1ull << 40);
        EXPECT(batch.size() == 6);
        const auto posted = queue.post(batch);
        EXPECT(posted.size() == 6 && !posted.wait(20ms) && !posted.status(0));
        flags.store(0, 7);
        EXPECT(peer.receive(5) == "hello");
        peer.send("you and more");
        EXPECT(posted.wait(LIMIT) && posted.status(5) == 0);
        EXPECT(flags.load(1) == 9 && counts.at(1) == 1ull << 40);
        EXPECT(memory.to_vector() == (std::vector<char>{'h', 'e', 'l', 'l', 'o', 'y', 'o', 'u'}));
        EXPECT(on.wait(LIMIT) && on.is_done());

        // A time-out is the peer's, with its number, and later operations on the socket are cancelled.
        host::batch late(50ms);
        late.receive(socket, memory, 0, 8);
        auto taken = queue.post(late);
        EXPECT(taken.wait(LIMIT));
        late = host::batch(50ms);
        late.receive(socket, memory, 0, 8);
        taken = queue.post(late);
        try {
            taken.wait(LIMIT);
            EXPECT(!"nothing was sent");
        } catch (const gpunet::error &error) {
            EXPECT(error.code() == GPUNET_EPEER && error.number() == GPUNET_ETIMEDOUT);
            EXPECT(taken.status(0) == GPUNET_ETIMEDOUT);
        }
        try {
            static_cast<void>(in.net.take_back(socket));
            EXPECT(!"a queue is open");
        } catch (const gpunet::error &error) {
            EXPECT(error.code() == GPUNET_ERUNNING);
        }
    }
    // What no kernel has read comes back with the socket.
    auto [other, end] = handed_over(in.net);
    end.send("unread");
    while (in.net.dump().find("\"to_be_read\":6") == std::string::npos) {
        std::this_thread::sleep_for(1ms);
    }
    host::taken_back back{-1, {}};
    for (int turn = 0; back.descriptor < 0; ++turn) {
        try {
            back = in.net.take_back(other);
        } catch (const gpunet::error &error) {
            // The queue's launch ends a moment after it.
            EXPECT(error.code() == GPUNET_ERUNNING && turn < 600000);
            std::this_thread::sleep_for(1ms);
        }
    }
    EXPECT(std::string(back.unread.begin(), back.unread.end()) == "unread");
    close(back.descriptor);
}

static void graph(const std::string &folder)
{
    world in(folder);
    const auto image = in.image("kernels");
    const host::stream on(in.gpu);
    auto [socket, peer] = handed_over(in.net);
    const host::buffer<std::uint32_t> out(in.gpu, 15);
    const host::queue queue(in.net, on);
    host::batch batch;
    batch.send(socket, out);
    const host::graph both(queue, [&](auto &steps) { steps.launch(image, "words", {3, 96}, out).post(batch); });
    for (std::uint32_t turn = 1; turn <= 3; ++turn) {
        EXPECT(both.launch() == turn);
        EXPECT(both.wait(turn, LIMIT));
        const std::string got = peer.receive(60);
        std::uint32_t number = 0;
        std::memcpy(&number, got.data() + 4, 4);
        EXPECT(number == 1520);
    }
    // Kernels by themselves, between operations.
    queue.launch(image, "words", {3, 96}, out);
    EXPECT(queue.post(batch).wait(LIMIT));
    EXPECT(peer.receive(60).size() == 60);
}

static void lease(const std::string &folder)
{
    world in(folder);
    const auto image = in.image("kernels"), servers = in.image("echo");
    const host::stream first(in.gpu), second(in.gpu);
    const auto listener = in.net.listen("127.0.0.1:0");
    const host::buffer<std::uint32_t> out(in.gpu, 15);
    const host::lease lease(in.net, {first, second}, {{servers, "echo_server", {1, 64}}, {image, "words", {3, 96}}});
    EXPECT(lease.net().records != 0);
    lease.launch(first, servers, "echo_server", {1, 64}, listener.socket);
    lease.launch(second, image, "words", {3, 96}, out);
    tcp::connect(listener.port()).echo(pattern(3000));
    EXPECT(second.wait(LIMIT) && out.at(1) == 1520);
    EXPECT(!lease.wait(1ms) && !lease.is_finished());
    lease.close();
    try {
        lease.launch(second, image, "words", {3, 96}, out);
        EXPECT(!"it is closed");
    } catch (const gpunet::error &error) {
        EXPECT(error.code() == GPUNET_EGONE);
    }
    EXPECT(!lease.wait(20ms));
    lease.abort();
    EXPECT(lease.wait(LIMIT) && lease.is_finished());
}

static void kept(const std::string &folder)
{
    world in(folder);
    const auto image = in.image("echo");
    const std::shared_ptr<int> object = std::make_shared<int>(7);
    // Nothing else has the launch and its buffer: they live as long as the kernel.
    {
        const host::buffer<std::uint32_t> port(in.gpu, 1);
        const auto launch = in.net.launch(image, "echo_listen", {1, 32}, host::parse_address("127.0.0.1:0"), 1u, port,
                                          host::keeps(object), host::keeps(port));
        EXPECT(object.use_count() == 2 && !launch.wait(1ms));
    }
    std::this_thread::sleep_for(50ms);
    EXPECT(object.use_count() == 2);
    in.net.abort();
    for (int turn = 0; object.use_count() > 1; ++turn) {
        EXPECT(turn < 600000);
        std::this_thread::sleep_for(1ms);
    }
    // A handle that is freed while a thread waits with it: the wait goes on.
    {
        const auto listener = in.net.listen("127.0.0.1:0");
        auto served = in.net.launch(image, "echo_server", {1, 32}, listener.socket);
        std::atomic<gpunet_status> waited{-1};
        std::thread waits([&, raw = served.raw()] { waited = gpunet_launch_wait(raw, GPUNET_FOREVER); });
        std::this_thread::sleep_for(50ms);
        served = in.net.launch(image, "echo_server", {1, 32}, listener.socket);
        std::this_thread::sleep_for(20ms);
        EXPECT(waited == -1);
        in.net.abort();
        waits.join();
        EXPECT(waited == GPUNET_OK && served.wait(LIMIT));
    }
    // What is not launched keeps nothing.
    try {
        static_cast<void>(in.net.launch(image, "absent", {1, 32}, host::keeps(object)));
        EXPECT(!"there is none");
    } catch (const gpunet::error &error) {
        EXPECT(error.code() == GPUNET_EKERNEL && std::string(error.blame()) == "caller");
        EXPECT(std::string(error.what()) == "module 'echo' has no kernel 'absent' (it has: echo_listen, echo_server)");
    }
    EXPECT(object.use_count() == 1);

    // A handle that was moved from is null, and one that is moved to is freed first.
    host::gpu moved(std::move(in.gpu));
    EXPECT(!in.gpu && moved);
    try {
        const host::buffer<int> none(in.gpu, 1);
        EXPECT(!"there is no GPU");
    } catch (const gpunet::error &error) {
        EXPECT(error.code() == GPUNET_ENULL);
    }
    in.net = host::net(moved);
    EXPECT(in.net.statistic("sockets") == 0);
}

/// A child that is forked off while a kernel runs: what it inherits goes there, and the parent's kernel goes on.
static void forked(const std::string &folder)
{
    pid_t child = -1;
    {
        world in(folder);
        const auto image = in.image("echo");
        const auto listener = in.net.listen("127.0.0.1:0");
        const auto server = in.net.launch(image, "echo_server", {1, 32}, listener.socket);
        tcp::connect(listener.port()).echo("before");
        child = fork();
        if (child == 0) {
            alarm(20);
            try {
                server.abort();
                EXPECT(!"the kernel is the parent's");
            } catch (const gpunet::error &error) {
                EXPECT(error.code() == GPUNET_EFORKED);
            }
        } else {
            int status = 1;
            EXPECT(waitpid(child, &status, 0) == child && status == 0);
            tcp::connect(listener.port()).echo("after");
            stop(server);
        }
    }
    if (child == 0) {
        // All objects have gone, and nothing has waited.
        _exit(0);
    }
}

/// The process ends while a kernel runs, and nothing was freed.
static void leaves(const std::string &folder)
{
    world *const in = new world(folder);
    const auto *const image = new host::image(in->image("echo"));
    const auto listener = in->net.listen("127.0.0.1:0");
    const auto *const server = new host::launch(in->net.launch(*image, "echo_server", {1, 32}, listener.socket));
    tcp::connect(listener.port()).echo("once");
    EXPECT(!server->is_finished());
}

int main(int argc, char **argv)
{
    const std::map<std::string, void (*)(const std::string &)> cases = {
        {"echo", echo},         {"client", client},   {"poll_server", poll_server}, {"slices", slices},
        {"groups", groups},     {"words", words},     {"timeouts", timeouts},       {"endings", endings},
        {"stream", stream},     {"graph", graph},     {"lease", lease},             {"kept", kept},
        {"errors", errors},     {"forked", forked},   {"leaves", leaves},
    };
    EXPECT(argc >= 3 && argc <= 5);
    chosen_gpu = argc > 3 ? argv[3] : chosen_gpu;
    kind = argc > 4 ? argv[4] : kind;
    alarm(120);
    const std::string folder = argv[1], name = argv[2];
    try {
        if (name == "diverge" || name == "differ" || name == "trap" || name == "unset") {
            wrong(folder, name.c_str());
        } else {
            EXPECT(cases.count(name) == 1);
            cases.at(name)(folder);
        }
    } catch (const gpunet::error &error) {
        std::cerr << error.name() << ": " << error.what() << std::endl;
        return 1;
    }
    std::cout << "done" << std::endl;
    return 0;
}
