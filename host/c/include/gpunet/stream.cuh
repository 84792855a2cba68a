// Connected byte streams, TCP or UNIX.
#ifndef GPUNET_STREAM_CUH
#define GPUNET_STREAM_CUH

#include "slice.cuh"

namespace gpunet {

/// A stream by its handle, of the program or of another group. It stays open when this goes.
class stream_ref : public socket_ref {
  public:
    using socket_ref::socket_ref;

    /// Receives at least one byte, at most what the buffer holds; 0 once the peer has closed.
    GPUNET_FUNCTION result<std::size_t> read(void *to, std::size_t length, site at = site::here()) const
    {
        return detail::counted(grecv(on_, handle_, to, length, 0, at));
    }

    /// The same, into an array.
    template <class T, std::size_t N>
    GPUNET_FUNCTION result<std::size_t> read(T (&to)[N], site at = site::here()) const
    {
        return read(to, sizeof to, at);
    }

    /// Receives until the buffer is full; how much it was if the peer closes before.
    GPUNET_FUNCTION result<std::size_t> read_full(void *to, std::size_t length, site at = site::here()) const
    {
        std::size_t got = 0;
        // Counted: each turn receives a byte or more, or is the last.
        for (;;) {
            const std::int64_t more =
                grecv(on_, handle_, static_cast<std::uint8_t *>(to) + got, length - got, 0, at);
            if (more < 0) {
                return detail::failed(more);
            }
            got += static_cast<std::size_t>(more);
            if (more == 0 || got >= length) {
                return got;
            }
        }
    }

    /// Receives until the buffer is full; ECONNRESET if the peer closes before.
    GPUNET_FUNCTION result<void> read_exact(void *to, std::size_t length, site at = site::here()) const
    {
        const result<std::size_t> got = read_full(to, length, at);
        if (!got) {
            return failure{got.error()};
        }
        if (*got != length) {
            return failure{GPUNET_ECONNRESET};
        }
        return {};
    }

    /// Copies received bytes, at least one, and leaves them in the ring; 0 once the peer has closed.
    GPUNET_FUNCTION result<std::size_t> peek(void *to, std::size_t length, site at = site::here()) const
    {
        return detail::counted(grecv(on_, handle_, to, length, GPUNET_MSG_PEEK, at));
    }

    /// Sends: all of it, or on a non-blocking socket as much as fits. How many bytes.
    GPUNET_FUNCTION result<std::size_t> write(const void *from, std::size_t length, site at = site::here()) const
    {
        return detail::counted(gsend(on_, handle_, from, length, 0, at));
    }

    /// Sends all of it, or says why not: EAGAIN on a non-blocking socket, else what ended the wait for space.
    /// Part of it may have been sent.
    GPUNET_FUNCTION result<void> write_all(const void *from, std::size_t length, site at = site::here()) const
    {
        return detail::checked(detail::send(on_, handle_, from, length, 0, at).error);
    }

    /// Received bytes in the ring itself: at least `least`, all there are. They stay there until
    /// `received_slice::consume`. Fewer than `least` come only at the end of the stream, and none once all
    /// of them were consumed.
    GPUNET_FUNCTION result<received_slice> received(std::size_t least = 1, site at = site::here()) const
    {
        std::uint64_t ring = 0;
        const std::int64_t span = GPUNET_CALL(at, gpunet_open_slice, GPUNET_ON(on_), handle_,
                                              GPUNET_DIRECTION_RECEIVE, least > 0 ? least : 1, &ring);
        if (span < 0) {
            return detail::failed(span);
        }
        // Of no length: nothing was opened.
        return span >> 32 == 0 ? received_slice()
                               : received_slice(on_, handle_, ring, static_cast<std::uint64_t>(span));
    }

    /// Space in the ring itself: at least `least` bytes, at most `most`. It is sent with
    /// `space_slice::commit`.
    GPUNET_FUNCTION result<space_slice> space(std::size_t least, std::size_t most, site at = site::here()) const
    {
        std::uint64_t ring = 0;
        const std::int64_t span = GPUNET_CALL(at, gpunet_open_slice, GPUNET_ON(on_), handle_,
                                              GPUNET_DIRECTION_SEND, least > 0 ? least : 1, &ring);
        if (span < 0) {
            return detail::failed(span);
        }
        if (span >> 32 == 0) {
            return failure{GPUNET_EPIPE};
        }
        return space_slice(on_, handle_, ring, static_cast<std::uint64_t>(span), most > least ? most : least);
    }

    /// Ends one direction or both (GPUNET_SHUT_WR and its siblings).
    GPUNET_FUNCTION result<void> shutdown(int how, site at = site::here()) const
    {
        return detail::checked(gshutdown(on_, handle_, how, at));
    }

    /// The peer's address.
    GPUNET_FUNCTION result<address> peer_address(site at = site::here()) const
    {
        address peer;
        const std::int64_t done = ggetpeername(on_, handle_, &peer, at);
        if (done < 0) {
            return detail::failed(done);
        }
        return peer;
    }
};

/// A stream that is closed when it goes out of scope. Made by `connect`, by a listener, or of a handle.
class stream : public detail::owned<stream_ref> {
  public:
    using owned::owned;

    /// Connects to an address.
    GPUNET_FUNCTION static result<stream> connect(const group &on, const ::gpunet_address &address,
                                                  site at = site::here())
    {
        return connect_with_rings(on, address, 0, 0, at);
    }

    /// Connects to an address with rings of these capacities; 0: as the net has it.
    GPUNET_FUNCTION static result<stream> connect_with_rings(const group &on, const ::gpunet_address &address,
                                                             std::uint64_t receive, std::uint64_t send,
                                                             site at = site::here())
    {
        const std::int64_t made = detail::make_socket(on, address, 0, at);
        if (made < 0) {
            return detail::failed(made);
        }
        stream socket(on, static_cast<gpunet::handle>(made));
        std::int64_t done = 0;
        if (receive > 0) {
            done = gsetsockopt(on, socket.handle(), GPUNET_OPTION_RECEIVE_RING, receive, at);
        }
        if (done >= 0 && send > 0) {
            done = gsetsockopt(on, socket.handle(), GPUNET_OPTION_SEND_RING, send, at);
        }
        if (done >= 0) {
            done = gconnect(on, socket.handle(), address, at);
        }
        if (done < 0) {
            return detail::failed(done);
        }
        return static_cast<stream &&>(socket);
    }
};

} // namespace gpunet

#endif
