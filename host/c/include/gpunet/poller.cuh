// Pollers: the proxy reports which of very many sockets are ready, the GPU scans nothing.
//
// Events are edge-triggered, as epoll's with EPOLLET: one says that something has happened since the last one
// was taken, so receive until EAGAIN. What a socket is ready for when it is added is reported at once.
#ifndef GPUNET_POLLER_CUH
#define GPUNET_POLLER_CUH

#include "socket.cuh"

namespace gpunet {

/// Watches sockets, for the group that made it and no other. Closed when it goes out of scope.
class poller : public detail::owned<socket_ref> {
  public:
    using owned::owned;

    /// A poller that watches nothing yet.
    GPUNET_FUNCTION static result<poller> create(const group &on, site at = site::here())
    {
        const std::int64_t made = GPUNET_CALL(at, gpunet_poller, GPUNET_ON(on));
        if (made < 0) {
            return detail::failed(made);
        }
        return poller(on, static_cast<gpunet::handle>(made));
    }

    /// Watches a socket for events (GPUNET_POLLIN and its siblings); `token` comes back with them. Adding it
    /// again changes both, and reports anew what it is ready for.
    GPUNET_FUNCTION result<void> add(gpunet::handle socket, std::uint32_t events, std::uint64_t token,
                                     site at = site::here()) const
    {
        return detail::checked(GPUNET_CALL(at, gpunet_watch, GPUNET_ON(on_), handle_, socket, events, token));
    }

    /// No longer watches a socket. Closing one does that too.
    GPUNET_FUNCTION result<void> remove(gpunet::handle socket, site at = site::here()) const
    {
        return detail::checked(GPUNET_CALL(at, gpunet_watch, GPUNET_ON(on_), handle_, socket, 0, 0));
    }

    /// Waits for events, up to `timeout_ns` (0: no limit), and takes at most `capacity` of them into memory
    /// that the group shares; how many.
    GPUNET_FUNCTION result<std::size_t> wait(::gpunet_event *events, std::size_t capacity,
                                             std::uint64_t timeout_ns = 0, site at = site::here()) const
    {
        return detail::counted(
            GPUNET_CALL(at, gpunet_wait, GPUNET_ON(on_), handle_, events, capacity, timeout_ns));
    }

    /// The same, into an array.
    template <std::size_t N>
    GPUNET_FUNCTION result<std::size_t> wait(::gpunet_event (&events)[N], std::uint64_t timeout_ns = 0,
                                             site at = site::here()) const
    {
        return wait(events, N, timeout_ns, at);
    }
};

} // namespace gpunet

#endif
