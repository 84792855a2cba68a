// What streams, listeners and pollers have in common, and who closes their socket.
#ifndef GPUNET_SOCKET_CUH
#define GPUNET_SOCKET_CUH

#include "calls.cuh"

namespace gpunet {

/// A socket by its handle, for a group. It stays open: its owner closes it, or the net in the end.
class socket_ref {
  public:
    /// Names no socket.
    __device__ constexpr socket_ref() : on_(), handle_(0)
    {
    }

    /// The socket with that handle.
    __device__ constexpr socket_ref(const group &on, gpunet::handle socket) : on_(on), handle_(socket)
    {
    }

    /// Its handle.
    __device__ constexpr gpunet::handle handle() const
    {
        return handle_;
    }

    /// Its net, and the group that uses it.
    __device__ constexpr const group &on() const
    {
        return on_;
    }

    /// Its own address, with the port that the system chose.
    GPUNET_FUNCTION result<address> local_address(site at = site::here()) const
    {
        address own;
        const std::int64_t done = ggetsockname(on_, handle_, &own, at);
        if (done < 0) {
            return detail::failed(done);
        }
        return own;
    }

    /// Sets an option (GPUNET_OPTION_NO_DELAY and its siblings).
    GPUNET_FUNCTION result<void> set_option(std::uint32_t option, std::uint64_t value,
                                            site at = site::here()) const
    {
        return detail::checked(gsetsockopt(on_, handle_, option, value, at));
    }

    /// Reads an option.
    GPUNET_FUNCTION result<std::size_t> get_option(std::uint32_t option, site at = site::here()) const
    {
        return detail::counted(ggetsockopt(on_, handle_, option, at));
    }

    /// Limits how long reads and accepts may wait, in nanoseconds; 0: no limit.
    GPUNET_FUNCTION result<void> set_read_timeout(std::uint64_t ns, site at = site::here()) const
    {
        return set_option(GPUNET_OPTION_RECEIVE_TIMEOUT, ns, at);
    }

    /// Limits how long writes may wait, in nanoseconds; 0: no limit.
    GPUNET_FUNCTION result<void> set_write_timeout(std::uint64_t ns, site at = site::here()) const
    {
        return set_option(GPUNET_OPTION_SEND_TIMEOUT, ns, at);
    }

    /// Limits how long any call may wait, in nanoseconds; 0: no limit.
    GPUNET_FUNCTION result<void> set_timeout(std::uint64_t ns, site at = site::here()) const
    {
        const result<void> reads = set_read_timeout(ns, at);
        return reads ? set_write_timeout(ns, at) : reads;
    }

  protected:
    group on_;
    gpunet::handle handle_;
};

namespace detail {

/// A socket that is closed when this goes out of scope, in all threads of the group.
template <class Ref> class owned : public Ref {
  public:
    /// No socket.
    __device__ constexpr owned() : Ref()
    {
    }

    /// The socket with that handle, to be closed.
    __device__ constexpr owned(const group &on, gpunet::handle socket) : Ref(on, socket)
    {
    }

    /// Takes the socket over.
    __device__ constexpr owned(owned &&other) noexcept : Ref(other)
    {
        other.handle_ = 0;
    }

    /// Closes its own and takes the other over.
    __device__ owned &operator=(owned &&other) noexcept(false)
    {
        if (this != &other) {
            drop();
            Ref::operator=(other);
            other.handle_ = 0;
        }
        return *this;
    }

    owned(const owned &) = delete;
    owned &operator=(const owned &) = delete;

    /// Closes. Where the emulator ends the thread nothing is called: the host closes what a kernel leaves
    /// open.
    __device__ ~owned() noexcept(false)
    {
        drop();
    }

    /// Its handle; it stays open.
    [[nodiscard]] __device__ constexpr gpunet::handle release()
    {
        const gpunet::handle socket = this->handle_;
        this->handle_ = 0;
        return socket;
    }

    /// Closes it and says whether that went well.
    GPUNET_FUNCTION result<void> close(site at = site::here())
    {
        return checked(gclose(this->on_, release(), at));
    }

  private:
    GPUNET_FUNCTION void drop()
    {
        if (this->handle_ != 0 && !is_unwinding()) {
            // Nobody is left to report it to.
            static_cast<void>(gclose(this->on_, this->handle_));
        }
    }
};

/// Makes a socket for an address; its handle.
GPUNET_FUNCTION std::int64_t make_socket(const group &on, const ::gpunet_address &address, int type, site at)
{
    const int family = address.family;
    if (family != GPUNET_AF_INET && family != GPUNET_AF_INET6 && family != GPUNET_AF_UNIX) {
        return -GPUNET_EAFNOSUPPORT;
    }
    return gsocket(on, family, GPUNET_SOCK_STREAM | type, 0, at);
}

} // namespace detail

} // namespace gpunet

#endif
