// GPUs and their memory.
#ifndef GPUNET_HOST_MEMORY_HPP
#define GPUNET_HOST_MEMORY_HPP

#include <type_traits>
#include <vector>

#include "base.hpp"

namespace gpunet {
namespace host {

/// An open GPU.
class gpu : public detail::owned<gpunet_host_gpu, gpunet_gpu_free> {
  public:
    /// "auto" (a CUDA device, and where there is none the emulated GPU), "cuda", "cuda:N" or "emulated".
    explicit gpu(const std::string &choice = "auto")
    {
        check(gpunet_gpu_open(choice.c_str(), &raw_));
    }

    /// "name", "kind", "reason" or "driver".
    std::string text(const char *name) const
    {
        return detail::text([&](char *to, std::size_t capacity, std::size_t *length) {
            return gpunet_gpu_text(raw_, name, to, capacity, length);
        });
    }

    /// The device's name.
    std::string name() const
    {
        return text("name");
    }

    /// Why this one was chosen.
    std::string reason() const
    {
        return text("reason");
    }

    /// Whether kernels run on the CPU.
    bool is_emulated() const
    {
        return text("kind") == "emulated";
    }

    /// "multiprocessors", "max_threads_per_block" and so on (gpunet_gpu_number).
    std::uint64_t number(const char *name) const
    {
        std::uint64_t found = 0;
        check(gpunet_gpu_number(raw_, name, &found));
        return found;
    }
};

template <class T> class buffer;

/// A buffer from one of its elements on: an argument of launches.
template <class T> struct buffer_part {
    const buffer<T> &of;
    std::size_t first;
};

/// Elements in the memory of a GPU. A kernel takes a `T *` for it.
template <class T> class buffer : public detail::owned<gpunet_host_buffer, gpunet_buffer_free> {
    static_assert(std::is_trivially_copyable_v<T>, "a buffer's elements are copied byte by byte");

  public:
    /// So many elements, all zero bytes.
    buffer(const gpu &on, std::size_t count) : count_(count)
    {
        if (count > SIZE_MAX / sizeof(T)) {
            throw error(GPUNET_ERANGE, "a buffer that is larger than the address space");
        }
        check(gpunet_buffer_create(on.raw(), count * sizeof(T), &raw_));
    }

    /// With these elements.
    buffer(const gpu &on, const std::vector<T> &elements) : buffer(on, elements.size())
    {
        write(elements.data(), elements.size());
    }

    /// How many elements it has.
    std::size_t size() const noexcept
    {
        return count_;
    }

    /// Copies elements out. Waits for no kernel.
    void read(T *to, std::size_t count, std::size_t first = 0) const
    {
        check(gpunet_buffer_read(raw_, first * sizeof(T), to, count * sizeof(T)));
    }

    /// Copies elements in. Waits for no kernel.
    void write(const T *from, std::size_t count, std::size_t first = 0) const
    {
        check(gpunet_buffer_write(raw_, first * sizeof(T), from, count * sizeof(T)));
    }

    /// All elements.
    std::vector<T> to_vector() const
    {
        std::vector<T> elements(count_);
        read(elements.data(), count_);
        return elements;
    }

    /// One element.
    T at(std::size_t index) const
    {
        T element;
        read(&element, 1, index);
        return element;
    }

    /// From that element on, as an argument of launches.
    buffer_part<T> from(std::size_t first) const
    {
        return {*this, first};
    }

    /// Where it begins, for kernels alone. What is given it inside a struct keeps it by `keeps`.
    T *device_pointer() const
    {
        std::uint64_t address = 0;
        check(gpunet_buffer_address(raw_, &address));
        return reinterpret_cast<T *>(static_cast<std::uintptr_t>(address));
    }

  private:
    std::size_t count_ = 0;
};

/// Words in host memory that kernels, streams and the program set and wait for. A kernel takes a `W *`.
template <class W> class flags : public detail::owned<gpunet_host_flags, gpunet_flags_free> {
    static_assert(std::is_same_v<W, std::uint32_t> || std::is_same_v<W, std::uint64_t>,
                  "flags are uint32_t or uint64_t");

  public:
    /// So many, all 0.
    flags(const gpu &on, std::size_t count)
    {
        check(gpunet_flags_create(on.raw(), count, sizeof(W) * 8, &raw_));
    }

    /// A flag, with all that its writer did before.
    W load(std::size_t index) const
    {
        std::uint64_t value = 0;
        check(gpunet_flags_load(raw_, index, &value));
        return static_cast<W>(value);
    }

    /// Sets a flag; who waits for it sees all that was done before.
    void store(std::size_t index, W value) const
    {
        check(gpunet_flags_store(raw_, index, value));
    }
};

} // namespace host
} // namespace gpunet

#endif
