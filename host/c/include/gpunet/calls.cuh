// The familiar calls: a count or a handle, or a negative error number. The group comes first.
#ifndef GPUNET_CALLS_CUH
#define GPUNET_CALLS_CUH

#include "address.cuh"

namespace gpunet {

/// A flag of gsend and grecv that is ignored, for code written for Linux: no signal reaches a kernel.
constexpr std::uint32_t msg_nosignal = 0x4000;

/// Makes a socket: GPUNET_AF_INET and its siblings, GPUNET_SOCK_STREAM perhaps with GPUNET_SOCK_NONBLOCK, 0.
/// Its handle.
GPUNET_FUNCTION std::int64_t gsocket(const group &on, int domain, int type, int protocol, site at = site::here())
{
    return GPUNET_CALL(at, gpunet_socket, GPUNET_ON(on), domain, type, protocol);
}

/// Gives the socket its own address.
GPUNET_FUNCTION std::int64_t gbind(const group &on, handle socket, const ::gpunet_address &address,
                                   site at = site::here())
{
    return GPUNET_CALL(at, gpunet_bind, GPUNET_ON(on), socket, &address);
}

/// Makes it a listener with so many connections in the system's queue.
GPUNET_FUNCTION std::int64_t glisten(const group &on, handle socket, int backlog, site at = site::here())
{
    return GPUNET_CALL(at, gpunet_listen, GPUNET_ON(on), socket, backlog);
}

/// The next connection of a listener. Its handle.
GPUNET_FUNCTION std::int64_t gaccept(const group &on, handle socket, site at = site::here())
{
    return GPUNET_CALL(at, gpunet_accept, GPUNET_ON(on), socket);
}

/// Connects; EINPROGRESS on a non-blocking socket, which is writable once it is connected.
GPUNET_FUNCTION std::int64_t gconnect(const group &on, handle socket, const ::gpunet_address &address,
                                      site at = site::here())
{
    return GPUNET_CALL(at, gpunet_connect, GPUNET_ON(on), socket, &address);
}

namespace detail {

/// How many bytes were sent, and what ended it: 0 or a negative error number.
struct sent {
    std::size_t bytes;
    std::int64_t error;
};

/// Sends a buffer, on a blocking socket all of it. The loop is the kernel's: each piece goes the way that is
/// short for it.
GPUNET_FUNCTION sent send(const group &on, handle socket, const void *buffer, std::size_t length,
                          std::uint32_t flags, site at)
{
    flags &= ~msg_nosignal;
    const std::uint8_t *const from = static_cast<const std::uint8_t *>(buffer);
    std::size_t done = 0;
    // Counted: each turn sends a byte or more, or is the last.
    for (;;) {
        const std::size_t left = length - done;
        const std::int64_t more =
            left <= GPUNET_PACKET_BYTES
                ? GPUNET_CALL(at, gpunet_send, GPUNET_ON(on), socket, from + done, left, flags)
            : left <= GPUNET_LONGEST_PACKET
                ? GPUNET_CALL(at, gpunet_send_long, GPUNET_ON(on), socket, from + done, left, flags)
                : GPUNET_CALL(at, gpunet_send_ring, GPUNET_ON(on), socket, from + done, left, flags);
        if (more < 0) {
            return {done, more};
        }
        done += static_cast<std::size_t>(more);
        if (more == 0 || done >= length || flags != 0) {
            return {done, 0};
        }
    }
}

} // namespace detail

/// Sends: on a blocking socket all of the buffer, else as much as fits. How many bytes.
GPUNET_FUNCTION std::int64_t gsend(const group &on, handle socket, const void *buffer, std::size_t length,
                                   std::uint32_t flags = 0, site at = site::here())
{
    const detail::sent sent = detail::send(on, socket, buffer, length, flags, at);
    // As sockets say it: the error only if nothing was sent; the next call will meet it.
    return sent.bytes > 0 ? static_cast<std::int64_t>(sent.bytes) : sent.error;
}

/// Receives at least one byte, at most what the buffer holds; 0 once the peer has closed.
GPUNET_FUNCTION std::int64_t grecv(const group &on, handle socket, void *buffer, std::size_t length,
                                   std::uint32_t flags = 0, site at = site::here())
{
    return GPUNET_CALL(at, gpunet_receive, GPUNET_ON(on), socket, static_cast<std::uint8_t *>(buffer), length,
                       flags & ~msg_nosignal);
}

/// Ends one direction or both (GPUNET_SHUT_WR and its siblings); what was sent before still arrives.
GPUNET_FUNCTION std::int64_t gshutdown(const group &on, handle socket, int how, site at = site::here())
{
    return GPUNET_CALL(at, gpunet_shutdown, GPUNET_ON(on), socket, how);
}

/// Closes the socket: calls of other groups on it return EBADF, what is unsent is sent.
GPUNET_FUNCTION std::int64_t gclose(const group &on, handle socket, site at = site::here())
{
    return GPUNET_CALL(at, gpunet_close, GPUNET_ON(on), socket);
}

/// The peer's address, to every thread's `to`.
GPUNET_FUNCTION std::int64_t ggetpeername(const group &on, handle socket, ::gpunet_address *to,
                                          site at = site::here())
{
    return GPUNET_CALL(at, gpunet_name, GPUNET_ON(on), socket, GPUNET_NAME_PEER, to);
}

/// The socket's own address, to every thread's `to`.
GPUNET_FUNCTION std::int64_t ggetsockname(const group &on, handle socket, ::gpunet_address *to,
                                          site at = site::here())
{
    return GPUNET_CALL(at, gpunet_name, GPUNET_ON(on), socket, GPUNET_NAME_OWN, to);
}

/// Sets an option (GPUNET_OPTION_NO_DELAY and its siblings).
GPUNET_FUNCTION std::int64_t gsetsockopt(const group &on, handle socket, std::uint32_t option,
                                         std::uint64_t value, site at = site::here())
{
    return GPUNET_CALL(at, gpunet_set_option, GPUNET_ON(on), socket, option, value);
}

/// Reads an option.
GPUNET_FUNCTION std::int64_t ggetsockopt(const group &on, handle socket, std::uint32_t option,
                                         site at = site::here())
{
    return GPUNET_CALL(at, gpunet_get_option, GPUNET_ON(on), socket, option);
}

/// Waits until one of the sockets is ready or `timeout_ms` is over (negative: no limit, 0: a look). How many
/// are ready; their `revents` are set, all others' cleared. The entries lie in memory that the group shares.
GPUNET_FUNCTION std::int64_t gpoll(const group &on, ::gpunet_pollfd *sockets, std::size_t count,
                                   std::int64_t timeout_ms, site at = site::here())
{
    return GPUNET_CALL(at, gpunet_poll, GPUNET_ON(on), sockets, count, timeout_ms);
}

/// Nanoseconds since 1970, by the host's clock.
GPUNET_FUNCTION std::int64_t ggettimeofday(const group &on, site at = site::here())
{
    return GPUNET_CALL(at, gpunet_time, GPUNET_ON(on));
}

/// Prints a line on the host, cut off at GPUNET_MAX_TEXT bytes.
GPUNET_FUNCTION std::int64_t gprint(const group &on, const char *text, std::size_t length, site at = site::here())
{
    return GPUNET_CALL(at, gpunet_print, GPUNET_ON(on), reinterpret_cast<const std::uint8_t *>(text), length);
}

/// The same, up to a closing zero.
GPUNET_FUNCTION std::int64_t gprint(const group &on, const char *text, site at = site::here())
{
    std::size_t length = 0;
    // Counted: the text, as far as it is printed.
    while (length < GPUNET_MAX_TEXT && text[length] != 0) {
        ++length;
    }
    return gprint(on, text, length, at);
}

/// A line of text and numbers for gprint: `gprint(on, line().text("port ").number(port));`.
class line {
  public:
    /// Nothing yet.
    __device__ line() : length_(0)
    {
    }

    /// Appends text; what does not fit is dropped.
    __device__ line &text(const char *text)
    {
        // Counted: the text, as far as it fits.
        while (*text != 0 && length_ < GPUNET_MAX_TEXT) {
            bytes_[length_++] = *text++;
        }
        return *this;
    }

    /// Appends a number.
    __device__ line &number(std::int64_t number)
    {
        std::uint64_t rest = static_cast<std::uint64_t>(number);
        char digits[21];
        std::size_t at = sizeof digits;
        digits[--at] = 0;
        if (number < 0) {
            text("-");
            rest = 0 - rest;
        }
        // Counted: the digits, of which there are 20 at most.
        do {
            digits[--at] = static_cast<char>('0' + rest % 10);
            rest /= 10;
        } while (rest != 0);
        return text(digits + at);
    }

    /// Its first byte.
    __device__ const char *data() const
    {
        return bytes_;
    }

    /// How many there are.
    __device__ std::size_t size() const
    {
        return length_;
    }

  private:
    char bytes_[GPUNET_MAX_TEXT];
    std::size_t length_;
};

/// Prints a line on the host.
GPUNET_FUNCTION std::int64_t gprint(const group &on, const line &line, site at = site::here())
{
    return gprint(on, line.data(), line.size(), at);
}

} // namespace gpunet

#endif
