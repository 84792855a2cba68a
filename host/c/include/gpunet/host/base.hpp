// Errors, times and handles: what the other headers of the host side stand on.
#ifndef GPUNET_HOST_BASE_HPP
#define GPUNET_HOST_BASE_HPP

#if !defined(__cplusplus) || __cplusplus < 201703L
#error "gpunet/gpunet.hpp needs C++17: -std=c++17"
#endif

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>

#include "../gpunet.h"

namespace gpunet {

/// A call of the host side that failed: a sentence (`what`), a code of gpunet.h, and whose fault it is.
class error : public std::runtime_error {
  public:
    /// With a sentence of its own.
    error(gpunet_status code, const std::string &sentence, int number = 0)
        : std::runtime_error(sentence), code_(code), number_(number)
    {
    }

    /// GPUNET_EPEER and its siblings.
    gpunet_status code() const noexcept
    {
        return code_;
    }

    /// The code's name.
    const char *name() const noexcept
    {
        return gpunet_status_name(code_);
    }

    /// "caller", "peer", "system", "kernel", "gpu" or "gpunet".
    const char *blame() const noexcept
    {
        return gpunet_status_blame(code_);
    }

    /// The error number of Linux, or 0.
    int number() const noexcept
    {
        return number_;
    }

  private:
    gpunet_status code_;
    int number_;
};

namespace host {

/// How long something may take.
using timeout = std::chrono::nanoseconds;

/// Without a limit.
constexpr timeout forever = timeout::max();

/// Throws the last error unless the status is GPUNET_OK.
inline void check(gpunet_status status)
{
    if (status != GPUNET_OK) {
        throw error(status, gpunet_last_error(), gpunet_last_errno());
    }
}

/// How a kernel names a socket; an argument of launches.
struct socket {
    std::uint64_t handle = 0;
};

/// An address of a text: "127.0.0.1:80", "[::1]:80", a host's name with a port, "unix:/path".
inline gpunet_address parse_address(const std::string &text)
{
    gpunet_address address;
    check(gpunet_address_parse(text.c_str(), &address));
    return address;
}

namespace detail {

/// Nanoseconds as the C functions take them.
inline std::uint64_t nanoseconds(timeout time)
{
    if (time == forever) {
        return GPUNET_FOREVER;
    }
    return time.count() < 0 ? 0 : static_cast<std::uint64_t>(time.count());
}

/// Text that a C function stores: called once to learn how much it is, and again for it.
template <class F> std::string text(F store)
{
    std::string found(127, '\0');
    // Counted: it may grow between two calls, and is cut off in the end.
    for (int turn = 0; turn < 4; ++turn) {
        std::size_t length = 0;
        check(store(found.data(), found.size() + 1, &length));
        const bool whole = length <= found.size();
        found.resize(length);
        if (whole) {
            return found;
        }
    }
    return found;
}

/// Owns a handle: what frees it when it goes.
template <class T, gpunet_status (*Free)(T *)> class owned {
  public:
    owned() = default;
    owned(const owned &) = delete;
    owned &operator=(const owned &) = delete;

    owned(owned &&other) noexcept : raw_(std::exchange(other.raw_, nullptr))
    {
    }

    owned &operator=(owned &&other) noexcept
    {
        if (this != &other) {
            Free(std::exchange(raw_, std::exchange(other.raw_, nullptr)));
        }
        return *this;
    }

    ~owned()
    {
        Free(raw_);
    }

    /// The handle of gpunet.h; null where it was moved from.
    T *raw() const noexcept
    {
        return raw_;
    }

    /// Whether there is one.
    explicit operator bool() const noexcept
    {
        return raw_ != nullptr;
    }

  protected:
    T *raw_ = nullptr;
};

} // namespace detail

} // namespace host

} // namespace gpunet

#endif
