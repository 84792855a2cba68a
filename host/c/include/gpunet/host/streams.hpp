// Streams: kernels and operations in an order that the program chooses.
#ifndef GPUNET_HOST_STREAMS_HPP
#define GPUNET_HOST_STREAMS_HPP

#include <deque>
#include <functional>
#include <optional>
#include <vector>

#include "base.hpp"
#include "kernels.hpp"
#include "memory.hpp"
#include "net.hpp"

namespace gpunet {
namespace host {

/// A stream of a GPU.
class stream : public detail::owned<gpunet_host_stream, gpunet_stream_free> {
  public:
    /// A new one. The first of a GPU loads a kernel, so it is made before others run.
    explicit stream(const gpu &on)
    {
        check(gpunet_stream_create(on.raw(), &raw_));
    }

    /// One that the program has: a cudaStream_t or CUstream, which outlives this.
    static stream from_raw(const gpu &on, const void *cuda_stream)
    {
        stream made;
        const auto number = static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(cuda_stream));
        check(gpunet_stream_from_raw(on.raw(), number, &made.raw_));
        return made;
    }

    /// Waits until all that gpunet has put there is done, at most so long. Whether it is.
    bool wait(timeout time = forever) const
    {
        const gpunet_status status = gpunet_stream_wait(raw_, detail::nanoseconds(time));
        if (status == GPUNET_ETIMEOUT) {
            return false;
        }
        check(status);
        return true;
    }

    /// Whether it is.
    bool is_done() const
    {
        std::int32_t done = 0;
        check(gpunet_stream_is_done(raw_, &done));
        return done != 0;
    }

  private:
    stream() = default;
};

/// When a wait for a word is over; see GPUNET_WAIT_GREATER_OR_EQUAL and its siblings.
enum class condition : std::uint32_t {
    greater_or_equal = GPUNET_WAIT_GREATER_OR_EQUAL,
    equal = GPUNET_WAIT_EQUAL,
    bits_and = GPUNET_WAIT_AND,
    bits_nor = GPUNET_WAIT_NOR,
};

/// Operations in their order, to be posted as often as wanted. It keeps the memory that it names.
class batch : public detail::owned<gpunet_host_batch, gpunet_batch_free> {
  public:
    /// Each operation may take so long; 0: as the queue has it.
    explicit batch(timeout each = timeout::zero())
    {
        check(gpunet_batch_create(detail::nanoseconds(each), &raw_));
    }

    /// Sends elements of a buffer.
    template <class T>
    batch &send(socket to, const buffer<T> &from, std::size_t first, std::size_t count)
    {
        check(gpunet_batch_send(raw_, to.handle, from.raw(), first * sizeof(T), count * sizeof(T)));
        return *this;
    }

    /// Sends all elements of a buffer.
    template <class T> batch &send(socket to, const buffer<T> &from)
    {
        return send(to, from, 0, from.size());
    }

    /// Fills elements of a buffer with what is received.
    template <class T>
    batch &receive(socket from, const buffer<T> &to, std::size_t first, std::size_t count)
    {
        check(gpunet_batch_receive(raw_, from.handle, to.raw(), first * sizeof(T), count * sizeof(T)));
        return *this;
    }

    /// Fills a whole buffer with what is received.
    template <class T> batch &receive(socket from, const buffer<T> &to)
    {
        return receive(from, to, 0, to.size());
    }

    /// Sends bytes of GPU memory that the program has, and keeps.
    batch &send_raw(socket to, const void *from, std::size_t bytes)
    {
        check(gpunet_batch_send_raw(raw_, to.handle, address(from), bytes));
        return *this;
    }

    /// Fills such memory with what is received.
    batch &receive_raw(socket from, void *to, std::size_t bytes)
    {
        check(gpunet_batch_receive_raw(raw_, from.handle, address(to), bytes));
        return *this;
    }

    /// Waits until a flag is what the condition and the value say.
    template <class W> batch &wait(const flags<W> &of, std::size_t index, condition how, std::uint64_t value)
    {
        check(gpunet_batch_wait_flag(raw_, of.raw(), index, static_cast<std::uint32_t>(how), value));
        return *this;
    }

    /// Waits until a word of a buffer is what the condition and the value say.
    template <class W> batch &wait(const buffer<W> &of, std::size_t index, condition how, std::uint64_t value)
    {
        static_assert(sizeof(W) == 4 || sizeof(W) == 8, "words have 32 or 64 bits");
        check(gpunet_batch_wait_word(raw_, of.raw(), index, sizeof(W) * 8, static_cast<std::uint32_t>(how),
                                     value));
        return *this;
    }

    /// Writes a flag.
    template <class W> batch &write(const flags<W> &of, std::size_t index, std::uint64_t value)
    {
        check(gpunet_batch_write_flag(raw_, of.raw(), index, value));
        return *this;
    }

    /// Writes a word of a buffer.
    template <class W> batch &write(const buffer<W> &of, std::size_t index, std::uint64_t value)
    {
        static_assert(sizeof(W) == 4 || sizeof(W) == 8, "words have 32 or 64 bits");
        check(gpunet_batch_write_word(raw_, of.raw(), index, sizeof(W) * 8, value));
        return *this;
    }

    /// How many operations it has.
    std::size_t size() const
    {
        std::size_t length = 0;
        check(gpunet_batch_length(raw_, &length));
        return length;
    }

  private:
    static std::uint64_t address(const void *of)
    {
        return static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(of));
    }
};

/// Operations that were posted. When it goes, they go on.
class completions : public detail::owned<gpunet_host_completions, gpunet_completions_free> {
  public:
    /// Waits until all are done, at most so long, and throws how the first went that failed. Whether they are.
    bool wait(timeout time = forever) const
    {
        const gpunet_status status = gpunet_completions_wait(raw_, detail::nanoseconds(time));
        if (status == GPUNET_ETIMEOUT) {
            return false;
        }
        check(status);
        return true;
    }

    /// The error number of an operation, 0 where it went well; nothing while it is not done.
    std::optional<int> status(std::size_t index) const
    {
        std::int32_t done = 0, number = 0;
        check(gpunet_completions_status(raw_, index, &done, &number));
        return done != 0 ? std::optional<int>(number) : std::nullopt;
    }

    /// How many there are.
    std::size_t size() const
    {
        std::size_t length = 0;
        check(gpunet_completions_length(raw_, &length));
        return length;
    }

  private:
    friend class queue;
    completions() = default;
};

/// A queue of kernels and operations on a stream. When it goes, what is on the stream still runs.
class queue : public detail::owned<gpunet_host_queue, gpunet_queue_free> {
  public:
    /// Operations may take so long where their batch does not say; 0: 30 s.
    queue(const net &of, const stream &on, timeout each = timeout::zero())
    {
        check(gpunet_queue_create(of.raw(), on.raw(), detail::nanoseconds(each), &raw_));
    }

    /// Puts a kernel on the stream, as net::launch takes it.
    template <class... Args>
    void launch(const image &of, const std::string &kernel, const shape &laid_out, const Args &...args) const
    {
        arguments packed(args...);
        const gpunet_shape raw_shape = laid_out.raw();
        check(gpunet_queue_launch(raw_, of.raw(), kernel.c_str(), &raw_shape, packed.data(), packed.size()));
        packed.taken();
    }

    /// Puts the operations of a batch on the stream: all of them, or none.
    completions post(const batch &operations) const
    {
        completions made;
        check(gpunet_queue_post(raw_, operations.raw(), &made.raw_));
        return made;
    }

    /// Stops what is on the stream.
    void abort() const
    {
        check(gpunet_queue_abort(raw_));
    }
};

/// Kernels and operations that are launched together, again and again:
/// `graph(queue, [&](auto &steps) { steps.launch(image, "first", {1, 32}, buffer); steps.post(batch); })`.
class graph : public detail::owned<gpunet_host_graph, gpunet_graph_free> {
  public:
    /// What a graph is made of, in order.
    class steps {
      public:
        /// A kernel, as net::launch takes it.
        template <class... Args>
        steps &launch(const image &of, const std::string &kernel, const shape &laid_out, const Args &...args)
        {
            // Copies: what the arguments name lives in the caller's expression, their bytes until then.
            auto copied = std::make_shared<std::tuple<holder<Args>...>>(holder<Args>{args}...);
            auto packed = std::apply([](auto &...each) { return arguments(each.value...); }, *copied);
            made_.push_back({kernel, laid_out.raw(), std::move(packed), std::move(copied)});
            auto &one = made_.back();
            all_.push_back({nullptr, of.raw(), one.kernel.c_str(), &one.shape, one.packed.data(),
                            one.packed.size()});
            return *this;
        }

        /// The operations of a batch.
        steps &post(const batch &operations)
        {
            all_.push_back({operations.raw(), nullptr, nullptr, nullptr, nullptr, 0});
            return *this;
        }

      private:
        friend class graph;

        /// Values are copied, and objects of this header stay where they are.
        template <class T>
        struct holder {
            std::conditional_t<std::is_copy_constructible_v<T>, T, const T &> value;
        };

        struct kernel_step {
            std::string kernel;
            gpunet_shape shape;
            arguments packed;
            std::shared_ptr<void> values;
        };

        std::deque<kernel_step> made_;
        std::vector<gpunet_graph_step> all_;
    };

    /// A graph of what `build` puts together. Objects that it names live until this has returned.
    template <class F> graph(const queue &on, F build)
    {
        steps put_together;
        build(put_together);
        check(gpunet_graph_create(on.raw(), put_together.all_.data(), put_together.all_.size(), &raw_));
        // Counted: the kernels.
        for (auto &one : put_together.made_) {
            one.packed.taken();
        }
    }

    /// Puts it on the stream; which of its launches this is, from 1.
    std::uint32_t launch() const
    {
        std::uint32_t number = 0;
        check(gpunet_graph_launch(raw_, &number));
        return number;
    }

    /// Waits until all operations of a launch are done, at most so long. Whether they are.
    bool wait(std::uint32_t number, timeout time = forever) const
    {
        const gpunet_status status = gpunet_graph_wait(raw_, number, detail::nanoseconds(time));
        if (status == GPUNET_ETIMEOUT) {
            return false;
        }
        check(status);
        return true;
    }
};

/// A kernel that will run under a lease, in its largest shape: one of an image, or a CUfunction.
struct lease_kernel {
    lease_kernel(const image &of, std::string name, const shape &largest)
        : of(of.raw()), name(std::move(name)), largest(largest)
    {
    }

    lease_kernel(const void *cuda_function, const shape &largest)
        : function(static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(cuda_function))), largest(largest)
    {
    }

    const gpunet_host_image *of = nullptr;
    std::string name;
    std::uint64_t function = 0;
    shape largest;
};

/// Streams on which the program runs kernels of a net itself. When it goes, it is closed.
class lease : public detail::owned<gpunet_host_lease, gpunet_lease_free> {
  public:
    /// For these streams and kernels.
    lease(const host::net &of, const std::vector<std::reference_wrapper<const stream>> &streams,
          const std::vector<lease_kernel> &kernels)
    {
        std::vector<const gpunet_host_stream *> raw_streams;
        // Counted: the streams.
        for (const stream &one : streams) {
            raw_streams.push_back(one.raw());
        }
        std::vector<gpunet_lease_kernel> raw_kernels;
        // Counted: the kernels.
        for (const lease_kernel &one : kernels) {
            raw_kernels.push_back({one.of, one.name.c_str(), one.function, one.largest.raw()});
        }
        check(gpunet_lease_create(of.raw(), raw_streams.data(), raw_streams.size(), raw_kernels.data(),
                                  raw_kernels.size(), &raw_));
    }

    /// The net as its kernels take it: `kernel<<<blocks, threads, 0, stream>>>(lease.net(), ...)`.
    gpunet_net net() const
    {
        gpunet_net found;
        check(gpunet_lease_net(raw_, &found));
        return found;
    }

    /// Puts a kernel of an image on one of its streams: on the emulated GPU the only way.
    template <class... Args>
    void launch(const stream &on, const image &of, const std::string &kernel, const shape &laid_out,
                const Args &...args) const
    {
        arguments packed(args...);
        const gpunet_shape raw_shape = laid_out.raw();
        check(gpunet_lease_launch(raw_, on.raw(), of.raw(), kernel.c_str(), &raw_shape, packed.data(),
                                  packed.size()));
        packed.taken();
    }

    /// No more kernels use the net: it ends when all that is on its streams now is done. Returns at once.
    void close() const
    {
        check(gpunet_lease_close(raw_));
    }

    /// Waits until it has ended, at most so long; throws how its kernels ended, if that was no good.
    bool wait(timeout time = forever) const
    {
        const gpunet_status status = gpunet_lease_wait(raw_, detail::nanoseconds(time));
        if (status == GPUNET_ETIMEOUT) {
            return false;
        }
        check(status);
        return true;
    }

    /// Whether it has ended.
    bool is_finished() const
    {
        std::int32_t finished = 0;
        check(gpunet_lease_is_finished(raw_, &finished));
        return finished != 0;
    }

    /// Stops its kernels, those that are yet to run, too.
    void abort() const
    {
        check(gpunet_lease_abort(raw_));
    }
};

} // namespace host
} // namespace gpunet

#endif
