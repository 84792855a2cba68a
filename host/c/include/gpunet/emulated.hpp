// CUDA's words for g++ and clang++: the same kernel source compiles to a shared object for the emulated GPU.
//
// gpunet.cuh includes this where the compiler is not one for CUDA. A block's threads are coroutines there;
// where they stand, their barriers, shuffles and shared memory come from functions that libgpunet exports.
//
// The emulator ends a kernel by unwinding its threads, so nothing that a kernel calls may be noexcept.
// With -fno-exceptions, as recommended, destructors do not run then; else those of gpunet.cuh do nothing.
//
// | on CUDA | here |
// | --- | --- |
// | `__shared__ T x;` | does not compile; GPUNET_SHARED(T, x) does, on both |
// | `extern __shared__ T x[];` | GPUNET_LAUNCH_SHARED(T, x), on both |
// | a mask that leaves lanes of the warp out | the emulator reports it: all of them take part |
// | a loop that waits for another thread | needs a call, a barrier or `__nanosleep` inside, or never ends |
// | `__noinline__` | not there: headers of the standard library use the word themselves |
#ifndef GPUNET_EMULATED_HPP
#define GPUNET_EMULATED_HPP

#if defined(__CUDACC__)
#error "gpunet/emulated.hpp is for host compilers; with a compiler for CUDA include gpunet/gpunet.cuh"
#endif

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#include "device.h"

/// Defined where kernels are compiled for the emulated GPU.
#define GPUNET_EMULATED 1

// What libgpunet exports. None of them is noexcept: they unwind when the emulator ends a kernel.
extern "C" {
/// Where in the source the next call stands, for the emulator's reports.
void gpunet_emulated_site(const char *file, std::uint32_t line);
/// Stores threadIdx, blockIdx, blockDim and gridDim, with x, y and z each.
void gpunet_emulated_position(std::uint32_t position[12]);
/// Waits for all threads of the warp (1) or of the block (2).
void gpunet_emulated_barrier(std::uint32_t scope);
/// Memory of the block, a piece for each key, aligned to 128 bytes; without a key the launch-sized shared
/// memory.
void *gpunet_emulated_shared(const void *key, std::uint64_t size);
/// Another lane's value: `how` 0 by number, 1 up, 2 down, 3 by exclusive or.
std::uint64_t gpunet_emulated_shuffle(std::uint32_t mask, std::uint64_t value, std::uint32_t how,
                                      std::uint32_t by, std::uint32_t width);
/// One bit for each lane that says yes.
std::uint32_t gpunet_emulated_ballot(std::uint32_t mask, std::int32_t yes);
/// One bit for each lane that the warp has.
std::uint32_t gpunet_emulated_lanes(void);
/// How many threads of the block say yes, once all have come.
std::uint32_t gpunet_emulated_count(std::int32_t yes);
/// Lets other threads run.
void gpunet_emulated_pause(void);
/// Nanoseconds on a monotonic clock.
std::uint64_t gpunet_emulated_clock(void);
/// Ends the kernel with a fault; the message may be null.
[[noreturn]] void gpunet_emulated_trap(const char *message);

/// What this object was built for (device.h). Weak, and not `inline`: of those a process has one for all the
/// objects that it loads.
__attribute__((visibility("default"), weak)) std::uint32_t gpunet_c_abi[2] = {GPUNET_C_ABI_MAJOR,
                                                                             GPUNET_C_ABI_MINOR};

// The linker's own names for both ends of the section.
extern const gpunet_kernel *const __start_gpunet_kernels[] __attribute__((weak, visibility("hidden")));
extern const gpunet_kernel *const __stop_gpunet_kernels[] __attribute__((weak, visibility("hidden")));

/// The kernels of this object or program: the addresses of their records. Who loads an object finds them
/// by their names, which begin with gpunet_kernel_.
__attribute__((visibility("default"), used)) inline const gpunet_kernel *const *
gpunet_list_kernels(std::uint64_t *count)
{
    *count = static_cast<std::uint64_t>(__stop_gpunet_kernels - __start_gpunet_kernels);
    return __start_gpunet_kernels;
}
}

#define __global__
#define __device__
#define __host__
#define __constant__
#define __managed__
#define __grid_constant__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define __align__(bytes) __attribute__((aligned(bytes)))
#define __shared__                                                                                            \
    static_assert(false, "for the emulated GPU too, write GPUNET_SHARED(type, name) for __shared__ type name");

namespace gpunet {
/// Hidden: what an object has of this is its own, also where another has a kernel of the same name.
namespace emulated __attribute__((visibility("hidden"))) {

/// Whether the emulator is ending the thread that runs: it makes no more calls. Threads are not switched
/// while one is unwound.
inline thread_local bool unwinding = false;

/// Notices that a call did not return.
struct calling {
    bool returned = false;

    ~calling()
    {
        if (!returned) {
            unwinding = true;
        }
    }
};

/// At the bottom of a thread's stack: whoever runs next on the same thread of the system is another.
struct leaving {
    ~leaving()
    {
        unwinding = false;
    }
};

/// Makes a call, and announces where it stands.
template <class F> inline auto call(const char *file, std::uint32_t line, F function)
{
    gpunet_emulated_site(file, line);
    calling now;
    const auto result = function();
    now.returned = true;
    return result;
}

/// A type that is not deduced from its argument.
template <class T> struct not_deduced {
    using type = T;
};
template <class T> using same = typename not_deduced<T>::type;

/// Three numbers, as threadIdx has them.
struct index3 {
    std::uint32_t x, y, z;
};

/// The numbers from `first` on.
inline index3 position(unsigned first)
{
    std::uint32_t all[12];
    gpunet_emulated_position(all);
    return {all[first], all[first + 1], all[first + 2]};
}

/// The barrier of a warp (1) or a block (2).
inline void barrier(std::uint32_t scope, const char *file, std::uint32_t line)
{
    call(file, line, [scope] {
        gpunet_emulated_barrier(scope);
        return 0;
    });
}

/// The block's variable of a place in the source.
template <class T> inline T &shared(const void *key)
{
    static_assert(alignof(T) <= 128, "shared variables are aligned to at most 128 bytes");
    static_assert(std::is_trivially_default_constructible_v<std::remove_all_extents_t<T>>,
                  "shared variables have no initialisation, as on CUDA");
    return *static_cast<T *>(gpunet_emulated_shared(key, sizeof(T)));
}

/// What another lane brings.
template <class T>
inline T shuffle(std::uint32_t mask, T value, std::uint32_t how, std::uint32_t by, int width, const char *file,
                 std::uint32_t line)
{
    static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= 8, "shuffles pass at most 8 bytes");
    std::uint64_t word = 0;
    std::memcpy(&word, &value, sizeof(T));
    word = call(file, line, [=] {
        return gpunet_emulated_shuffle(mask, word, how, by, static_cast<std::uint32_t>(width));
    });
    std::memcpy(&value, &word, sizeof(T));
    return value;
}

/// One bit for each lane that says yes.
inline std::uint32_t ballot(std::uint32_t mask, bool yes, const char *file, std::uint32_t line)
{
    return call(file, line, [=] { return gpunet_emulated_ballot(mask, yes ? 1 : 0); });
}

/// How many threads of the block say yes.
inline std::uint32_t count(bool yes, const char *file, std::uint32_t line)
{
    return call(file, line, [=] { return gpunet_emulated_count(yes ? 1 : 0); });
}

/// Replaces what stands at an address by a function of it; what stood there. For what the compiler has no
/// atomic operation for.
template <class T, class F> inline T replace(T *at, F function)
{
    T old;
    __atomic_load(at, &old, __ATOMIC_RELAXED);
    T next = function(old);
    // Counted: another turn only where another thread has changed the word.
    while (!__atomic_compare_exchange(at, &old, &next, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
        next = function(old);
    }
    return old;
}

/// A kernel's function, and how it is called with the addresses of its arguments.
template <auto Function> struct kernel;
template <class... Parameters, void (*Function)(Parameters...)> struct kernel<Function> {
    static_assert(sizeof...(Parameters) > 0, "the first parameter of a kernel is a gpunet_net");
    static_assert((std::is_trivially_copyable_v<Parameters> && ...), "arguments of a kernel are plain bytes");

    static constexpr std::uint64_t count = sizeof...(Parameters);
    static constexpr std::uint64_t sizes[] = {sizeof(Parameters)...};

    template <std::size_t... At> static void call(void *const *parameters, std::index_sequence<At...>)
    {
        Function(*static_cast<const Parameters *>(parameters[At])...);
    }

    static void entry(void *const *parameters)
    {
        const leaving now;
        call(parameters, std::index_sequence_for<Parameters...>{});
    }
};

} // namespace emulated
} // namespace gpunet

#define threadIdx (::gpunet::emulated::position(0))
#define blockIdx (::gpunet::emulated::position(3))
#define blockDim (::gpunet::emulated::position(6))
#define gridDim (::gpunet::emulated::position(9))

/// Lanes of a warp.
constexpr int warpSize = 32;

/// A variable of the block: `GPUNET_SHARED(float[128], sums);`.
#define GPUNET_SHARED(type, name)                                                                             \
    static const char gpunet_key_of_##name = 0;                                                               \
    auto &name = ::gpunet::emulated::shared<type>(&gpunet_key_of_##name)

/// The launch-sized shared memory, as a pointer: `GPUNET_LAUNCH_SHARED(uint8_t, buffer);`.
#define GPUNET_LAUNCH_SHARED(type, name)                                                                      \
    type *const name = static_cast<type *>(gpunet_emulated_shared(nullptr, 0))

/// Makes a kernel known to who loads this object; behind its definition, which is `extern "C"`.
#define GPUNET_KERNEL(kernel_name)                                                                            \
    extern "C" __attribute__((visibility("default"), used)) const gpunet_kernel gpunet_kernel_##kernel_name = { \
        sizeof(gpunet_kernel), #kernel_name, &::gpunet::emulated::kernel<&kernel_name>::entry,                \
        ::gpunet::emulated::kernel<&kernel_name>::count, ::gpunet::emulated::kernel<&kernel_name>::sizes};    \
    __attribute__((section("gpunet_kernels"), used)) static const gpunet_kernel *const                        \
        gpunet_kernel_entry_of_##kernel_name = &gpunet_kernel_##kernel_name;                                  \
    static_assert(::gpunet::emulated::kernel<&kernel_name>::sizes[0] == sizeof(gpunet_net),                   \
                  "the first parameter of a kernel is a gpunet_net")

// Barriers, shuffles and votes. Their last two arguments, which nobody passes, are the caller's place.
#define GPUNET_PLACE const char *file = __builtin_FILE(), std::uint32_t line = __builtin_LINE()

inline void __syncthreads(GPUNET_PLACE)
{
    ::gpunet::emulated::barrier(2, file, line);
}

inline void __syncwarp(std::uint32_t = ~0U, GPUNET_PLACE)
{
    ::gpunet::emulated::barrier(1, file, line);
}

inline int __syncthreads_count(int predicate, GPUNET_PLACE)
{
    return static_cast<int>(::gpunet::emulated::count(predicate != 0, file, line));
}

inline int __syncthreads_or(int predicate, GPUNET_PLACE)
{
    return ::gpunet::emulated::count(predicate != 0, file, line) > 0;
}

inline int __syncthreads_and(int predicate, GPUNET_PLACE)
{
    return ::gpunet::emulated::count(predicate == 0, file, line) == 0;
}

template <class T>
inline T __shfl_sync(std::uint32_t mask, T value, int by, int width = warpSize, GPUNET_PLACE)
{
    return ::gpunet::emulated::shuffle(mask, value, 0, static_cast<std::uint32_t>(by), width, file, line);
}

template <class T>
inline T __shfl_up_sync(std::uint32_t mask, T value, unsigned by, int width = warpSize, GPUNET_PLACE)
{
    return ::gpunet::emulated::shuffle(mask, value, 1, by, width, file, line);
}

template <class T>
inline T __shfl_down_sync(std::uint32_t mask, T value, unsigned by, int width = warpSize, GPUNET_PLACE)
{
    return ::gpunet::emulated::shuffle(mask, value, 2, by, width, file, line);
}

template <class T>
inline T __shfl_xor_sync(std::uint32_t mask, T value, int by, int width = warpSize, GPUNET_PLACE)
{
    return ::gpunet::emulated::shuffle(mask, value, 3, static_cast<std::uint32_t>(by), width, file, line);
}

inline std::uint32_t __ballot_sync(std::uint32_t mask, int predicate, GPUNET_PLACE)
{
    return ::gpunet::emulated::ballot(mask, predicate != 0, file, line);
}

inline int __any_sync(std::uint32_t mask, int predicate, GPUNET_PLACE)
{
    return ::gpunet::emulated::ballot(mask, predicate != 0, file, line) != 0;
}

inline int __all_sync(std::uint32_t mask, int predicate, GPUNET_PLACE)
{
    return ::gpunet::emulated::ballot(mask, predicate == 0, file, line) == 0;
}

[[noreturn]] inline void __trap(GPUNET_PLACE)
{
    ::gpunet::emulated::call(file, line, []() -> int { gpunet_emulated_trap(nullptr); });
    __builtin_unreachable();
}

#undef GPUNET_PLACE

// Atomics, relaxed as CUDA's are. For the CPU block, GPU and system scope are one.
template <class T> inline T atomicAdd(T *at, ::gpunet::emulated::same<T> value)
{
    if constexpr (std::is_floating_point_v<T>) {
        return ::gpunet::emulated::replace(at, [value](T old) { return old + value; });
    } else {
        return __atomic_fetch_add(at, value, __ATOMIC_RELAXED);
    }
}

template <class T> inline T atomicSub(T *at, ::gpunet::emulated::same<T> value)
{
    return __atomic_fetch_sub(at, value, __ATOMIC_RELAXED);
}

template <class T> inline T atomicExch(T *at, ::gpunet::emulated::same<T> value)
{
    T old;
    __atomic_exchange(at, &value, &old, __ATOMIC_RELAXED);
    return old;
}

template <class T>
inline T atomicCAS(T *at, ::gpunet::emulated::same<T> expected, ::gpunet::emulated::same<T> value)
{
    __atomic_compare_exchange(at, &expected, &value, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
    return expected;
}

template <class T> inline T atomicMin(T *at, ::gpunet::emulated::same<T> value)
{
    return ::gpunet::emulated::replace(at, [value](T old) { return old < value ? old : value; });
}

template <class T> inline T atomicMax(T *at, ::gpunet::emulated::same<T> value)
{
    return ::gpunet::emulated::replace(at, [value](T old) { return old > value ? old : value; });
}

template <class T> inline T atomicAnd(T *at, ::gpunet::emulated::same<T> value)
{
    return __atomic_fetch_and(at, value, __ATOMIC_RELAXED);
}

template <class T> inline T atomicOr(T *at, ::gpunet::emulated::same<T> value)
{
    return __atomic_fetch_or(at, value, __ATOMIC_RELAXED);
}

template <class T> inline T atomicXor(T *at, ::gpunet::emulated::same<T> value)
{
    return __atomic_fetch_xor(at, value, __ATOMIC_RELAXED);
}

inline unsigned atomicInc(unsigned *at, unsigned most)
{
    return ::gpunet::emulated::replace(at, [most](unsigned old) { return old >= most ? 0 : old + 1; });
}

inline unsigned atomicDec(unsigned *at, unsigned most)
{
    return ::gpunet::emulated::replace(at, [most](unsigned old) { return old == 0 || old > most ? most : old - 1; });
}

inline void __threadfence()
{
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}

inline void __threadfence_block()
{
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}

inline void __threadfence_system()
{
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}

template <class T> inline T __ldg(const T *from)
{
    return *from;
}

/// Cycles are nanoseconds here.
inline long long clock64()
{
    return static_cast<long long>(gpunet_emulated_clock());
}

inline unsigned __activemask()
{
    return gpunet_emulated_lanes();
}

/// Lets other threads run, for no certain time.
inline void __nanosleep(unsigned)
{
    ::gpunet::emulated::call("__nanosleep", 0, [] {
        gpunet_emulated_pause();
        return 0;
    });
}

inline int __popc(unsigned bits)
{
    return __builtin_popcount(bits);
}

inline int __popcll(unsigned long long bits)
{
    return __builtin_popcountll(bits);
}

inline int __clz(int bits)
{
    return bits == 0 ? 32 : __builtin_clz(static_cast<unsigned>(bits));
}

inline int __clzll(long long bits)
{
    return bits == 0 ? 64 : __builtin_clzll(static_cast<unsigned long long>(bits));
}

inline int __ffs(int bits)
{
    return __builtin_ffs(bits);
}

inline int __ffsll(long long bits)
{
    return __builtin_ffsll(bits);
}

// Functions, not templates, so that `using namespace std` leaves them the better choice.
#define GPUNET_LEAST_AND_MOST(type)                                                                           \
    constexpr type min(type a, type b)                                                                        \
    {                                                                                                         \
        return b < a ? b : a;                                                                                 \
    }                                                                                                         \
    constexpr type max(type a, type b)                                                                        \
    {                                                                                                         \
        return a < b ? b : a;                                                                                 \
    }
GPUNET_LEAST_AND_MOST(int)
GPUNET_LEAST_AND_MOST(unsigned)
GPUNET_LEAST_AND_MOST(long)
GPUNET_LEAST_AND_MOST(unsigned long)
GPUNET_LEAST_AND_MOST(long long)
GPUNET_LEAST_AND_MOST(unsigned long long)
GPUNET_LEAST_AND_MOST(float)
GPUNET_LEAST_AND_MOST(double)
#undef GPUNET_LEAST_AND_MOST

#endif
