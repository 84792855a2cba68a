// Nets and launches.
#ifndef GPUNET_HOST_NET_HPP
#define GPUNET_HOST_NET_HPP

#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "base.hpp"
#include "kernels.hpp"
#include "memory.hpp"

namespace gpunet {
namespace host {

/// Called for each line that a kernel prints: the launch's number, and the line. It must not throw.
using on_print = std::function<void(std::uint32_t launch, const char *line)>;

/// Called when a kernel faults: the launch's number, the kernel's name, and how it ended. It must not throw.
using on_fault = std::function<void(std::uint32_t launch, const char *kernel, const char *sentence)>;

/// Settings of a net.
class net_options : public detail::owned<gpunet_host_net_options, gpunet_net_options_free> {
  public:
    /// As a net has them where nothing is set.
    net_options()
    {
        check(gpunet_net_options_create(&raw_));
    }

    /// Sets a number: "sockets", "proxy_threads", "ring" and so on (gpunet_net_options_set).
    net_options &set(const char *name, std::uint64_t value) &
    {
        check(gpunet_net_options_set(raw_, name, value));
        return *this;
    }

    /// Sets a time: "timeout_ns", "linger_ns" and so on.
    net_options &set(const char *name, timeout value) &
    {
        return set(name, detail::nanoseconds(value));
    }

    /// Sets a text: "transport", "allow_connect" and so on (gpunet_net_options_set_text).
    net_options &set(const char *name, const char *value) &
    {
        check(gpunet_net_options_set_text(raw_, name, value));
        return *this;
    }

    /// Has lines that kernels print go to a function in place of standard output.
    net_options &set(host::on_print function) &
    {
        auto kept = std::make_shared<host::on_print>(std::move(function));
        const auto call = [](void *user, std::uint32_t launch, const char *line) {
            (*static_cast<host::on_print *>(user))(launch, line);
        };
        check(gpunet_net_options_on_print(raw_, call, kept.get()));
        functions_.push_back(std::move(kept));
        return *this;
    }

    /// Has a function called for kernels that fault.
    net_options &set(host::on_fault function) &
    {
        auto kept = std::make_shared<host::on_fault>(std::move(function));
        const auto call = [](void *user, std::uint32_t launch, const char *kernel, const char *sentence) {
            (*static_cast<host::on_fault *>(user))(launch, kernel, sentence);
        };
        check(gpunet_net_options_on_fault(raw_, call, kept.get()));
        functions_.push_back(std::move(kept));
        return *this;
    }

  private:
    friend class net;
    /// What nets made with these call.
    std::vector<std::shared_ptr<void>> functions_;
};

/// A kernel that was launched. When it goes, the kernel runs on.
class launch : public detail::owned<gpunet_host_launch, gpunet_launch_free> {
  public:
    /// Waits until the kernel has ended; throws what ended it, if that was no good.
    void wait() const
    {
        check(gpunet_launch_wait(raw_, GPUNET_FOREVER));
    }

    /// The same, at most so long. Whether it has ended.
    bool wait(timeout time) const
    {
        const gpunet_status status = gpunet_launch_wait(raw_, detail::nanoseconds(time));
        if (status == GPUNET_ETIMEOUT) {
            return false;
        }
        check(status);
        return true;
    }

    /// Whether the kernel has ended.
    bool is_finished() const
    {
        std::int32_t finished = 0;
        check(gpunet_launch_is_finished(raw_, &finished));
        return finished != 0;
    }

    /// Its number on its net, as printed lines name it.
    std::uint32_t number() const
    {
        std::uint32_t found = 0;
        check(gpunet_launch_number(raw_, &found));
        return found;
    }

    /// Stops the kernel: its waits return ECANCELED.
    void abort() const
    {
        check(gpunet_launch_abort(raw_));
    }

  private:
    friend class net;
    launch() = default;
};

/// A listener, and where it listens.
struct listening {
    host::socket socket;
    gpunet_address address;

    /// The port that it has.
    std::uint16_t port() const noexcept
    {
        return address.port_or_length;
    }
};

/// How to listen; see gpunet_net_listen_with.
struct listen_options {
    /// 0: 512.
    std::uint32_t backlog = 0;
    bool reuse_port = false;
    /// Negative: as the system has it.
    int only_v6 = -1;
};

/// A socket that was taken back: yours to close.
struct taken_back {
    int descriptor;
    /// What no kernel has read.
    std::vector<std::uint8_t> unread;
};

/// A net: memory, proxy threads, and the kernels that run on it. When it goes, its kernels are stopped.
class net : public detail::owned<gpunet_host_net, gpunet_net_free> {
  public:
    /// With the usual settings.
    explicit net(const gpu &on)
    {
        check(gpunet_net_create(on.raw(), nullptr, &raw_));
    }

    /// With these.
    net(const gpu &on, const net_options &options)
        : functions_(options.functions_)
    {
        check(gpunet_net_create(on.raw(), options.raw(), &raw_));
    }

    net(net &&) noexcept = default;

    net &operator=(net &&other) noexcept
    {
        if (this != &other) {
            // Its own functions are called until it is gone.
            net old(std::move(*this));
            detail::owned<gpunet_host_net, gpunet_net_free>::operator=(std::move(other));
            functions_ = std::move(other.functions_);
        }
        return *this;
    }

    ~net()
    {
        gpunet_net_free(std::exchange(raw_, nullptr));
    }

    /// Listens, for kernels to accept from.
    listening listen(const std::string &address, const listen_options &options = {}) const
    {
        listening made;
        check(gpunet_net_listen_with(raw_, address.c_str(), options.backlog, options.reuse_port ? 1 : 0,
                                     options.only_v6, &made.socket.handle, &made.address));
        return made;
    }

    /// Hands a socket of the program over to kernels. It takes the descriptor, unless it throws.
    host::socket hand_over(int descriptor) const
    {
        host::socket made;
        check(gpunet_net_hand_over(raw_, descriptor, &made.handle));
        return made;
    }

    /// Takes a socket back, once no kernel runs and no queue is open.
    taken_back take_back(host::socket from) const
    {
        taken_back taken{-1, {}};
        std::uint8_t *bytes = nullptr;
        std::size_t length = 0;
        check(gpunet_net_take_back(raw_, from.handle, &taken.descriptor, &bytes, &length));
        const std::unique_ptr<std::uint8_t, void (*)(void *)> freed(bytes, gpunet_free);
        taken.unread.assign(bytes, bytes + length);
        return taken;
    }

    /// Closes a socket, whoever uses it.
    void close(host::socket which) const
    {
        check(gpunet_net_close_socket(raw_, which.handle));
    }

    /// A counter: "received_bytes", "accepted" and so on.
    std::uint64_t statistic(const char *name) const
    {
        std::uint64_t value = 0;
        check(gpunet_net_statistic(raw_, name, &value));
        return value;
    }

    /// All counters.
    std::map<std::string, std::uint64_t> statistics() const
    {
        std::map<std::string, std::uint64_t> all;
        // Counted: the names.
        for (std::uint32_t at = 0; const char *name = gpunet_statistic_name(at); ++at) {
            all[name] = statistic(name);
        }
        return all;
    }

    /// Every socket, as JSON text.
    std::string dump() const
    {
        return detail::text([&](char *to, std::size_t capacity, std::size_t *length) {
            return gpunet_net_dump(raw_, to, capacity, length);
        });
    }

    /// Stops all its kernels.
    void abort() const
    {
        check(gpunet_net_abort(raw_));
    }

    /// Starts a kernel: `net.launch(image, "echo", {8, 256}, listener.socket, buffer, 7u)`. Arguments are sockets,
    /// buffers, flags, and values of the very types that the kernel takes; their sizes are compared.
    template <class... Args>
    host::launch launch(const image &of, const std::string &kernel, const shape &laid_out,
                        const Args &...args) const
    {
        host::launch made;
        arguments packed(args...);
        const gpunet_shape raw_shape = laid_out.raw();
        check(gpunet_launch_start(raw_, of.raw(), kernel.c_str(), &raw_shape, packed.data(), packed.size(),
                                  &made.raw_));
        packed.taken();
        return made;
    }

  private:
    /// Behind the net in the order of going: its threads call them.
    std::vector<std::shared_ptr<void>> functions_;
};

} // namespace host
} // namespace gpunet

#endif
