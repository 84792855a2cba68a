// Images, shapes, and how arguments of kernels are passed.
#ifndef GPUNET_HOST_KERNELS_HPP
#define GPUNET_HOST_KERNELS_HPP

#include <algorithm>
#include <memory>
#include <type_traits>
#include <vector>

#include "base.hpp"
#include "memory.hpp"

namespace gpunet {
namespace host {

/// Sizes in up to three dimensions.
struct dim {
    std::uint32_t x = 1, y = 1, z = 1;

    constexpr dim(std::uint32_t x, std::uint32_t y = 1, std::uint32_t z = 1) : x(x), y(y), z(z)
    {
    }
};

/// Blocks, threads of each, and bytes of launch-sized shared memory: `{8, 256}`.
struct shape {
    dim blocks, threads;
    std::uint32_t shared_bytes = 0;

    constexpr shape(dim blocks, dim threads, std::uint32_t shared_bytes = 0)
        : blocks(blocks), threads(threads), shared_bytes(shared_bytes)
    {
    }

    /// As the C functions take it.
    gpunet_shape raw() const
    {
        return {{blocks.x, blocks.y, blocks.z}, {threads.x, threads.y, threads.z}, shared_bytes, 0};
    }
};

/// Kernels that can be launched by name.
class image : public detail::owned<gpunet_host_image, gpunet_image_free> {
  public:
    /// A shared object for the emulated GPU; PTX, a cubin or a fatbin for CUDA. `name` is yours, for errors.
    static image from_file(const gpu &on, const std::string &name, const std::string &path)
    {
        image made;
        check(gpunet_image_load_file(on.raw(), name.c_str(), path.c_str(), &made.raw_));
        return made;
    }

    /// PTX text, a cubin or a fatbin.
    static image from_bytes(const gpu &on, const std::string &name, const void *bytes, std::size_t length)
    {
        image made;
        check(gpunet_image_load_bytes(on.raw(), name.c_str(), bytes, length, &made.raw_));
        return made;
    }

    /// Functions of this process, for the emulated GPU.
    static image from_records(const gpu &on, const std::string &name, const gpunet_kernel *const *records,
                              std::size_t count)
    {
        image made;
        check(gpunet_image_load_functions(on.raw(), name.c_str(), records, count, &made.raw_));
        return made;
    }

#if defined(GPUNET_EMULATED)
    /// The kernels of this program, which has them beside its host code (gpunet.cuh is included before).
    static image from_program(const gpu &on, const std::string &name)
    {
        std::uint64_t count = 0;
        const gpunet_kernel *const *records = gpunet_list_kernels(&count);
        return from_records(on, name, records, static_cast<std::size_t>(count));
    }
#endif

    /// The names of its kernels.
    std::vector<std::string> kernels() const
    {
        const std::string all = detail::text([&](char *to, std::size_t capacity, std::size_t *length) {
            return gpunet_image_kernels(raw_, to, capacity, length);
        });
        std::vector<std::string> names;
        std::size_t begin = 0;
        // Counted: the lines.
        while (begin < all.size()) {
            const std::size_t end = std::min(all.find('\n', begin), all.size());
            names.push_back(all.substr(begin, end - begin));
            begin = end + 1;
        }
        return names;
    }

    /// The bytes of each parameter of a kernel, the net first.
    std::vector<std::uint64_t> parameters(const std::string &kernel) const
    {
        std::vector<std::uint64_t> sizes(64);
        std::size_t count = 0;
        check(gpunet_image_parameters(raw_, kernel.c_str(), sizes.data(), sizes.size(), &count));
        if (count > sizes.size()) {
            sizes.resize(count);
            check(gpunet_image_parameters(raw_, kernel.c_str(), sizes.data(), sizes.size(), &count));
        }
        sizes.resize(count);
        return sizes;
    }

    /// The driver's handle (CUfunction) for blocks of so many threads; null on the emulated GPU.
    void *cuda_function(const std::string &kernel, std::uint32_t threads) const
    {
        std::uint64_t function = 0;
        check(gpunet_image_cuda_function(raw_, kernel.c_str(), threads, &function));
        return reinterpret_cast<void *>(static_cast<std::uintptr_t>(function));
    }

  private:
    image() = default;
};

/// Among the arguments of a launch: keeps a buffer that another argument names inside.
template <class T> struct keeps_buffer {
    const buffer<T> &of;
};

/// Among the arguments of a launch: keeps a buffer that another argument names inside, and is no argument.
template <class T> keeps_buffer<T> keeps(const buffer<T> &of)
{
    return {of};
}

/// Among the arguments of a launch: keeps whatever it is until the kernel has ended, and is no argument. A
/// thread of gpunet's lets go of it.
struct keeps_object {
    std::shared_ptr<void> object;
};

/// The same as an argument.
inline keeps_object keeps(std::shared_ptr<void> object)
{
    return {std::move(object)};
}

/// The arguments of a kernel behind its net, as the C functions take them.
class arguments {
  public:
    /// A socket, a buffer or a part of it, flags, or a value whose bytes are copied.
    template <class... Args> explicit arguments(const Args &...given)
    {
        all_.reserve(sizeof...(given));
        (add(given), ...);
    }

    const gpunet_argument *data() const noexcept
    {
        return all_.data();
    }

    std::size_t size() const noexcept
    {
        return all_.size();
    }

    /// A call took what it is to keep.
    void taken() noexcept
    {
        // Counted: what is kept.
        for (auto &object : objects_) {
            static_cast<void>(object.release());
        }
        objects_.clear();
    }

  private:
    void add(const socket &given)
    {
        push(GPUNET_ARGUMENT_SOCKET, &given.handle, sizeof given.handle);
    }

    template <class T> void add(const buffer<T> &given)
    {
        push(GPUNET_ARGUMENT_BUFFER, given.raw(), 0);
    }

    template <class T> void add(const buffer_part<T> &given)
    {
        push(GPUNET_ARGUMENT_BUFFER, given.of.raw(), given.first * sizeof(T));
    }

    template <class W> void add(const flags<W> &given)
    {
        push(GPUNET_ARGUMENT_FLAGS, given.raw(), 0);
    }

    template <class T> void add(const keeps_buffer<T> &given)
    {
        push(GPUNET_KEEP_BUFFER, given.of.raw(), 0);
    }

    void add(const keeps_object &given)
    {
        objects_.push_back(std::make_unique<std::shared_ptr<void>>(given.object));
        push(GPUNET_KEEP, objects_.back().get(), 0);
        all_.back().release = [](void *object) { delete static_cast<std::shared_ptr<void> *>(object); };
    }

    template <class T> void add(const T &given)
    {
        static_assert(!std::is_array_v<T>, "an array of the host is nothing to a kernel: pass a buffer");
        static_assert(!std::is_null_pointer_v<T>, "pass a null pointer of the parameter's type");
        static_assert(std::is_trivially_copyable_v<T>, "an argument's bytes are copied to the kernel");
        push(GPUNET_ARGUMENT_BYTES, &given, sizeof given);
    }

    void push(std::uint32_t kind, const void *value, std::size_t size)
    {
        all_.push_back({kind, 0, size, value, nullptr});
    }

    std::vector<gpunet_argument> all_;
    std::vector<std::unique_ptr<std::shared_ptr<void>>> objects_;
};

} // namespace host
} // namespace gpunet

#endif
