// What the other headers stand on: macros for both compilers, results, groups.
#ifndef GPUNET_BASE_CUH
#define GPUNET_BASE_CUH

#if !defined(__cplusplus) || __cplusplus < 201703L
#error "gpunet/gpunet.cuh needs C++17: -std=c++17"
#endif

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "device.h"
#if !defined(__CUDACC__)
#include "emulated.hpp"
#endif

#define GPUNET_FUNCTION __device__ __forceinline__
#define GPUNET_CONSTEXPR __host__ __device__ constexpr

/// The net and the kind of a group, as every function of the C ABI takes them.
#define GPUNET_ON(on) (on).net().records, (on).net().shape, (on).kind()

#if defined(GPUNET_EMULATED)

/// Calls a function of the C ABI, from a place in the source.
#define GPUNET_CALL(at, function, ...)                                                                        \
    ::gpunet::emulated::call((at).file, (at).line, [&] { return function(__VA_ARGS__); })

#else

#define GPUNET_CALL(at, function, ...) (static_cast<void>(at), function(__VA_ARGS__))

/// A variable of the block: `GPUNET_SHARED(float[128], sums);`.
#define GPUNET_SHARED(type, name) __shared__ ::gpunet::detail::same<type> name

/// The launch-sized shared memory, as a pointer: `GPUNET_LAUNCH_SHARED(uint8_t, buffer);`. It has one name
/// and one alignment, since all of it is the same memory.
#define GPUNET_LAUNCH_SHARED(type, name)                                                                      \
    extern __shared__ __align__(128) unsigned char gpunet_launch_shared[];                                    \
    type *const name = reinterpret_cast<type *>(gpunet_launch_shared)

/// Behind the definition of a kernel, which is `extern "C"`: makes it known to the emulated GPU.
#define GPUNET_KERNEL(kernel_name)                                                                            \
    static_assert(::gpunet::detail::takes_net<decltype(&kernel_name)>::value,                                 \
                  "the first parameter of a kernel is a gpunet_net")

#endif

namespace gpunet {

/// A net, as kernels get it.
using net = ::gpunet_net;

/// How a kernel names a socket.
using handle = std::uint64_t;

namespace detail {

/// A type that is not deduced from an argument.
template <class T> struct not_deduced {
    using type = T;
};
template <class T> using same = typename not_deduced<T>::type;

/// Whether the first parameter of a kernel is a net.
template <class F> struct takes_net : std::false_type {};
template <class... Others> struct takes_net<void (*)(net, Others...)> : std::true_type {};

GPUNET_CONSTEXPR std::size_t least_of(std::size_t a, std::size_t b)
{
    return b < a ? b : a;
}

/// Whether the emulator is ending the calling thread, whose group will not come together any more.
GPUNET_FUNCTION bool is_unwinding()
{
#if defined(GPUNET_EMULATED)
    return emulated::unwinding;
#else
    return false;
#endif
}

} // namespace detail

/// Where a call stands in the source, for reports of the emulated GPU. Functions have it as a default
/// argument.
struct site {
#if defined(GPUNET_EMULATED)
    const char *file;
    std::uint32_t line;

    static constexpr site here(const char *file = __builtin_FILE(), std::uint32_t line = __builtin_LINE())
    {
        return {file, line};
    }
#else
    __device__ static constexpr site here()
    {
        return {};
    }
#endif
};

/// What makes a result one of an error: its number, positive.
struct failure {
    std::int32_t number;
};

/// A value, or an error number of Linux (GPUNET_EAGAIN ...). True where there is a value.
template <class T> class [[nodiscard]] result {
  public:
    /// A value.
    __device__ constexpr result(T value) : value_(static_cast<T &&>(value)), error_(0)
    {
    }

    /// An error.
    __device__ constexpr result(failure error) : value_(), error_(error.number)
    {
    }

    /// Whether there is a value.
    __device__ constexpr explicit operator bool() const
    {
        return error_ == 0;
    }

    /// Whether there is a value.
    __device__ constexpr bool has_value() const
    {
        return error_ == 0;
    }

    /// The value. Where there is none: 0, or an empty socket, which nobody may call.
    __device__ constexpr T &value() &
    {
        return value_;
    }

    /// The value, to be moved from.
    __device__ constexpr T &&value() &&
    {
        return static_cast<T &&>(value_);
    }

    /// The value.
    __device__ constexpr const T &value() const &
    {
        return value_;
    }

    /// The value.
    __device__ constexpr T &operator*() &
    {
        return value_;
    }

    /// The value, to be moved from.
    __device__ constexpr T &&operator*() &&
    {
        return static_cast<T &&>(value_);
    }

    /// The value.
    __device__ constexpr const T &operator*() const &
    {
        return value_;
    }

    /// A member of the value.
    __device__ constexpr T *operator->()
    {
        return &value_;
    }

    /// A member of the value.
    __device__ constexpr const T *operator->() const
    {
        return &value_;
    }

    /// The value, or another where there is none.
    __device__ constexpr T value_or(T other) const
    {
        return error_ == 0 ? value_ : other;
    }

    /// The error number, positive; 0 where there is a value.
    __device__ constexpr std::int32_t error() const
    {
        return error_;
    }

  private:
    T value_;
    std::int32_t error_;
};

/// Success, or an error number of Linux.
template <> class [[nodiscard]] result<void> {
  public:
    /// Success.
    __device__ constexpr result() : error_(0)
    {
    }

    /// An error.
    __device__ constexpr result(failure error) : error_(error.number)
    {
    }

    /// Whether it went well.
    __device__ constexpr explicit operator bool() const
    {
        return error_ == 0;
    }

    /// The error number, positive; 0 for success.
    __device__ constexpr std::int32_t error() const
    {
        return error_;
    }

  private:
    std::int32_t error_;
};

namespace detail {

/// The error of what a function of the C ABI returned, which is negative.
GPUNET_FUNCTION failure failed(std::int64_t number)
{
    return {static_cast<std::int32_t>(-number)};
}

/// What a function of the C ABI returned, as a number or an error.
GPUNET_FUNCTION result<std::size_t> counted(std::int64_t number)
{
    if (number < 0) {
        return failed(number);
    }
    return static_cast<std::size_t>(number);
}

/// What a function of the C ABI returned, as success or an error.
GPUNET_FUNCTION result<void> checked(std::int64_t number)
{
    if (number < 0) {
        return failed(number);
    }
    return {};
}

/// The calling thread's place in its block, x fastest.
GPUNET_FUNCTION unsigned thread_rank()
{
    return (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
}

/// Threads of the block.
GPUNET_FUNCTION unsigned num_threads()
{
    return blockDim.x * blockDim.y * blockDim.z;
}

/// The first thread of the calling thread's warp.
GPUNET_FUNCTION unsigned warp_begin()
{
    return thread_rank() / 32 * 32;
}

} // namespace detail

/// A net and who uses it, as every call takes them: made of a block, a warp or a thread.
class group {
  public:
    /// The net.
    __device__ constexpr const ::gpunet_net &net() const
    {
        return net_;
    }

    /// GPUNET_GROUP_BLOCK and its siblings.
    __device__ constexpr std::uint32_t kind() const
    {
        return kind_;
    }

    /// Of no net: nobody may call with it.
    __device__ constexpr group() : net_{0, 0}, kind_(GPUNET_GROUP_THREAD)
    {
    }

    /// The group of that kind.
    __device__ constexpr group(::gpunet_net net, std::uint32_t kind) : net_(net), kind_(kind)
    {
    }

  private:
    ::gpunet_net net_;
    std::uint32_t kind_;
};

/// All threads of the block.
class block : public group {
  public:
    /// The calling thread's block on a net.
    __device__ constexpr explicit block(::gpunet_net net) : group(net, GPUNET_GROUP_BLOCK)
    {
    }

    /// The calling thread's place in it, from 0.
    GPUNET_FUNCTION static unsigned thread_rank()
    {
        return detail::thread_rank();
    }

    /// How many threads it has.
    GPUNET_FUNCTION static unsigned num_threads()
    {
        return detail::num_threads();
    }

    /// Waits for all of them: what each did before is visible to all afterwards.
    GPUNET_FUNCTION static void sync([[maybe_unused]] site at = site::here())
    {
#if defined(GPUNET_EMULATED)
        emulated::barrier(GPUNET_GROUP_BLOCK, at.file, at.line);
#else
        __syncthreads();
#endif
    }
};

/// The threads of the calling thread's warp.
class warp : public group {
  public:
    /// The calling thread's warp on a net.
    __device__ constexpr explicit warp(::gpunet_net net) : group(net, GPUNET_GROUP_WARP)
    {
    }

    /// The calling thread's place in it, from 0.
    GPUNET_FUNCTION static unsigned thread_rank()
    {
        return detail::thread_rank() - detail::warp_begin();
    }

    /// How many threads it has: the last one of a block may have fewer than 32.
    GPUNET_FUNCTION static unsigned num_threads()
    {
        const unsigned left = detail::num_threads() - detail::warp_begin();
        return left < 32 ? left : 32;
    }

    /// Waits for all of them: what each did before is visible to all afterwards.
    GPUNET_FUNCTION static void sync([[maybe_unused]] site at = site::here())
    {
#if defined(GPUNET_EMULATED)
        emulated::barrier(GPUNET_GROUP_WARP, at.file, at.line);
#else
        __syncwarp(0xFFFFFFFFu >> (32 - num_threads()));
#endif
    }
};

/// The calling thread by itself. It may call from divergent code.
class thread : public group {
  public:
    /// The calling thread on a net.
    __device__ constexpr explicit thread(::gpunet_net net) : group(net, GPUNET_GROUP_THREAD)
    {
    }

    /// 0.
    GPUNET_FUNCTION static unsigned thread_rank()
    {
        return 0;
    }

    /// 1.
    GPUNET_FUNCTION static unsigned num_threads()
    {
        return 1;
    }

    /// Nothing to wait for.
    GPUNET_FUNCTION static void sync(site = site::here())
    {
    }
};

namespace detail {

/// Copies bytes, each thread of the group its share: behind the group's next barrier all of them are there.
GPUNET_FUNCTION void copy(const group &on, const std::uint8_t *from, std::uint8_t *to, std::size_t length)
{
#if defined(GPUNET_EMULATED)
    const bool is_warp = on.kind() == GPUNET_GROUP_WARP, is_thread = on.kind() == GPUNET_GROUP_THREAD;
    const std::size_t rank = is_thread ? 0 : is_warp ? warp::thread_rank() : block::thread_rank();
    const std::size_t threads = is_thread ? 1 : is_warp ? warp::num_threads() : block::num_threads();
    // Counted: the bytes.
    for (std::size_t at = rank; at < length; at += threads) {
        to[at] = from[at];
    }
#else
    gpunet_copy(GPUNET_ON(on), from, to, length);
#endif
}

} // namespace detail

} // namespace gpunet

#endif
