// Slices of a ring as a kernel uses them, without a copy: received bytes to read, space to write into.
//
// All threads of a group open one, use it and close it together; meanwhile the group has that direction of
// the stream. A slice that wraps has two pieces, which operator[] and the copies take care of.
#ifndef GPUNET_SLICE_CUH
#define GPUNET_SLICE_CUH

#include "socket.cuh"

namespace gpunet {

/// A part of memory.
template <class Byte> struct piece {
    /// The first byte.
    Byte *data;
    /// How many there are.
    std::size_t size;
};

namespace detail {

/// An open slice, the same in every thread of the group, that is closed when it goes out of scope.
template <std::uint32_t Direction, class Byte> class ring_slice {
  public:
    /// None.
    __device__ constexpr ring_slice() : on_(), socket_(0), ring_(0), begin_(0), length_(0)
    {
    }

    /// Takes the slice over.
    __device__ constexpr ring_slice(ring_slice &&other) noexcept
        : on_(other.on_), socket_(other.socket_), ring_(other.ring_), begin_(other.begin_), length_(other.length_)
    {
        other.ring_ = 0;
    }

    ring_slice(const ring_slice &) = delete;
    ring_slice &operator=(const ring_slice &) = delete;
    ring_slice &operator=(ring_slice &&) = delete;

    /// Closes; nothing of it was used.
    __device__ ~ring_slice() noexcept(false)
    {
        if (ring_ != 0 && !is_unwinding()) {
            close(0, site::here());
        }
    }

    /// How many bytes there are.
    __device__ constexpr std::size_t size() const
    {
        return length_;
    }

    /// The byte at `index`, which is below `size()`.
    __device__ constexpr Byte &operator[](std::size_t index) const
    {
        return start()[(begin_ + index) & (capacity() - 1)];
    }

    /// The bytes up to the end of the ring: all of them, unless the slice wraps.
    __device__ constexpr piece<Byte> first() const
    {
        const std::size_t at = begin_ & (capacity() - 1);
        return {start() + at, least_of(length_, capacity() - at)};
    }

    /// The bytes from the beginning of the ring on; none unless the slice wraps.
    __device__ constexpr piece<Byte> second() const
    {
        return {start(), length_ - first().size};
    }

  protected:
    /// An open slice: the words of the ring and of the span, and at most so many bytes of it.
    __device__ constexpr ring_slice(const group &on, handle socket, std::uint64_t ring, std::uint64_t span,
                                    std::size_t most)
        : on_(on), socket_(socket), ring_(ring), begin_(static_cast<std::uint32_t>(span)),
          length_(static_cast<std::uint32_t>(least_of(span >> 32, most)))
    {
    }

    /// Publishes that the first `used` bytes were read or filled.
    GPUNET_FUNCTION void close(std::size_t used, site at)
    {
        ring_ = 0;
        static_cast<void>(
            GPUNET_CALL(at, gpunet_close_slice, GPUNET_ON(on_), socket_, Direction, least_of(used, length_)));
    }

    /// Calls `copy` with each part of the bytes from `offset` on: where it lies, how far behind `offset` it
    /// begins, and its length; `length` bytes or what there is. How many in all.
    template <class F> GPUNET_FUNCTION std::size_t parts(std::size_t offset, std::size_t length, F copy) const
    {
        const piece<Byte> one = first(), two = second();
        const std::size_t skip = least_of(offset, one.size), head = least_of(length, one.size - skip);
        const std::size_t rest = least_of(offset - skip, two.size), tail = least_of(length - head, two.size - rest);
        copy(one.data + skip, std::size_t{0}, head);
        if (tail > 0) {
            copy(two.data + rest, head, tail);
        }
        return head + tail;
    }

    group on_;
    handle socket_;
    /// 0: none is open.
    std::uint64_t ring_;
    std::uint32_t begin_;
    std::uint32_t length_;

  private:
    __device__ constexpr Byte *start() const
    {
        return reinterpret_cast<Byte *>(ring_ & ~static_cast<std::uint64_t>(GPUNET_RING_LOG_MASK));
    }

    __device__ constexpr std::size_t capacity() const
    {
        return std::size_t{1} << (ring_ & GPUNET_RING_LOG_MASK);
    }
};

} // namespace detail

/// Received bytes, in the ring (`stream_ref::received`). No other group receives until this goes. Empty at
/// the end of the stream.
class received_slice : public detail::ring_slice<GPUNET_DIRECTION_RECEIVE, const std::uint8_t> {
  public:
    /// None.
    constexpr received_slice() = default;

    /// For `stream_ref::received`.
    __device__ constexpr received_slice(const group &on, gpunet::handle socket, std::uint64_t ring,
                                        std::uint64_t span)
        : ring_slice(on, socket, ring, span, static_cast<std::size_t>(-1))
    {
    }

    /// Copies the bytes from `offset` on into a buffer, as many as it holds and as there are; how many. All
    /// threads of the group call it, and each does its share: behind the group's next barrier all of them
    /// are there. Nothing is consumed.
    GPUNET_FUNCTION std::size_t copy_to(std::size_t offset, void *to, std::size_t length) const
    {
        std::uint8_t *const target = static_cast<std::uint8_t *>(to);
        return parts(offset, length, [&](const std::uint8_t *ring, std::size_t at, std::size_t bytes) {
            detail::copy(on_, ring, target + at, bytes);
        });
    }

    /// Consumes the first `bytes` of them and closes the slice; without it nothing is consumed.
    GPUNET_FUNCTION void consume(std::size_t bytes, site at = site::here())
    {
        if (ring_ != 0) {
            close(bytes, at);
        }
    }
};

/// Space to send from, in the ring (`stream_ref::space`). No other group sends until this goes.
class space_slice : public detail::ring_slice<GPUNET_DIRECTION_SEND, std::uint8_t> {
  public:
    /// None.
    constexpr space_slice() = default;

    /// For `stream_ref::space`.
    __device__ constexpr space_slice(const group &on, gpunet::handle socket, std::uint64_t ring,
                                     std::uint64_t span, std::size_t most)
        : ring_slice(on, socket, ring, span, most)
    {
    }

    /// Copies bytes into the space from `offset` on, as many as fit there; how many. All threads of the group
    /// call it, and each does its share. `commit` waits for all of them.
    GPUNET_FUNCTION std::size_t copy_from(std::size_t offset, const void *from, std::size_t length) const
    {
        const std::uint8_t *const source = static_cast<const std::uint8_t *>(from);
        return parts(offset, length, [&](std::uint8_t *ring, std::size_t at, std::size_t bytes) {
            detail::copy(on_, source + at, ring, bytes);
        });
    }

    /// Sends the first `bytes` of it and closes the slice; without it nothing is sent.
    GPUNET_FUNCTION void commit(std::size_t bytes, site at = site::here())
    {
        if (ring_ != 0) {
            close(bytes, at);
        }
    }
};

} // namespace gpunet

#endif
