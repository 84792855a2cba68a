// Listening sockets, TCP or UNIX.
#ifndef GPUNET_LISTENER_CUH
#define GPUNET_LISTENER_CUH

#include "stream.cuh"

namespace gpunet {

/// How a listener listens.
struct listen_options {
    /// Connections that may wait in the system's queue. Those that the proxy has accepted ahead of kernels
    /// come on top.
    int backlog = 128;
    /// Whether other sockets may listen at the same address (SO_REUSEPORT), if all of them ask for it. Blocks
    /// of one net need no second listener; they share one.
    bool reuse_port = false;
    /// Whether `accept` gives EAGAIN where nobody waits. Accepted streams do not inherit it.
    bool nonblocking = false;
    /// Whether a listener at `[::]` takes peers of IPv6 alone (IPV6_V6ONLY).
    bool only_v6 = false;
};

/// A listener by its handle, of the program or of another group. It stays open when this goes.
class listener_ref : public socket_ref {
  public:
    using socket_ref::socket_ref;

    /// The next connection.
    GPUNET_FUNCTION result<stream> accept(site at = site::here()) const
    {
        const std::int64_t accepted = gaccept(on_, handle_, at);
        if (accepted < 0) {
            return detail::failed(accepted);
        }
        return stream(on_, static_cast<gpunet::handle>(accepted));
    }
};

/// A listener that is closed when it goes out of scope. Made by `bind`, or of a handle.
class listener : public detail::owned<listener_ref> {
  public:
    using owned::owned;

    /// Listens at an address. EADDRINUSE where another socket does.
    GPUNET_FUNCTION static result<listener> bind(const group &on, const ::gpunet_address &address,
                                                 const listen_options &options = {}, site at = site::here())
    {
        const int type = options.nonblocking ? GPUNET_SOCK_NONBLOCK : 0;
        const std::int64_t made = detail::make_socket(on, address, type, at);
        if (made < 0) {
            return detail::failed(made);
        }
        listener socket(on, static_cast<gpunet::handle>(made));
        std::int64_t done = 0;
        if (options.reuse_port) {
            done = gsetsockopt(on, socket.handle(), GPUNET_OPTION_REUSE_PORT, 1, at);
        }
        if (done >= 0 && options.only_v6) {
            done = gsetsockopt(on, socket.handle(), GPUNET_OPTION_V6_ONLY, 1, at);
        }
        if (done >= 0) {
            done = gbind(on, socket.handle(), address, at);
        }
        if (done >= 0) {
            done = glisten(on, socket.handle(), options.backlog, at);
        }
        if (done < 0) {
            return detail::failed(done);
        }
        return static_cast<listener &&>(socket);
    }
};

} // namespace gpunet

#endif
