/* The host side of gpunet for C: GPUs, nets, buffers, kernels by name, streams. gpunet.hpp has the same for C++.
 *
 * Written from host/c/src by `GPUNET_RECORD=1 cargo test -p gpunet-c --test header`: not to be changed by hand.
 *
 * Every function that can fail returns a gpunet_status; gpunet_last_error() has the sentence. A handle is made
 * by ..._create, _open, _load and _start and given back by ..._free, for which null is nothing. A handle that was
 * freed, or is of another type, is an error and no crash. All functions may be called by all threads at once;
 * what one thread frees while another is in a call with it lives until that call returns.
 *
 * Addresses must lead to what their type and the numbers beside them say. Text is UTF-8 and ends with a zero.
 * Where a function stores text, it stores at most `capacity` bytes, the last of them a zero, and at `length`,
 * which may be null, how many bytes all of it has without the zero: call again with more where that is more.
 * Times are nanoseconds.
 *
 * A process that was forked after its parent opened a GPU may not use gpunet: calls return GPUNET_EFORKED, and
 * ..._free does nothing there and does not wait. It may start another program.
 */


#ifndef GPUNET_GPUNET_H
#define GPUNET_GPUNET_H

#include <stddef.h>
#include <stdint.h>

#include "device.h"


// An argument with these bytes: `value` is their address, `size` how many.
#define GPUNET_ARGUMENT_BYTES 0

// A socket: `value` is the address of its uint64_t. A listener among the arguments is closed when the launch
// fails and no other has it.
#define GPUNET_ARGUMENT_SOCKET 1

// The address of a buffer, `size` bytes from its beginning: `value` is the gpunet_host_buffer, which is kept.
#define GPUNET_ARGUMENT_BUFFER 2

// The address of flags: `value` is the gpunet_host_flags, which are kept.
#define GPUNET_ARGUMENT_FLAGS 3

// No argument: a gpunet_host_buffer that another argument names, by an address inside a struct, say, is kept.
#define GPUNET_KEEP_BUFFER 4

// No argument: the same for gpunet_host_flags.
#define GPUNET_KEEP_FLAGS 5

// No argument: `release` is called with `value`, by any thread, once the kernel has ended. Where the call
// fails it is not called.
#define GPUNET_KEEP 6

// The word has reached the value; cyclic: the difference is not negative, so that counters may wrap.
#define GPUNET_WAIT_GREATER_OR_EQUAL 0

// The word is the value.
#define GPUNET_WAIT_EQUAL 1

// The word and the value have a bit in common.
#define GPUNET_WAIT_AND 2

// Some bit is set in neither the word nor the value.
#define GPUNET_WAIT_NOR 3

// A time to wait that is never over.
#define GPUNET_FOREVER UINT64_MAX

// Version of the host's part of the C ABI; that of the device's part is GPUNET_C_ABI_MAJOR.
#define GPUNET_HOST_ABI 1

// It went well.
#define GPUNET_OK 0

// Caller: an address or a handle is null.
#define GPUNET_ENULL 1001

// Caller: a handle that was freed, or is none of this type.
#define GPUNET_EHANDLE 1002

// Caller: a value, name or text that makes no sense.
#define GPUNET_EARGUMENT 1003

// Caller: a process that was forked uses what its parent opened.
#define GPUNET_EFORKED 1004

// Caller: no image of kernels, or one for another GPU.
#define GPUNET_EIMAGE 1010

// Caller: an image that was built for another version of the C ABI, or of gpunet.
#define GPUNET_EVERSION 1011

// Caller: an image that calls functions which nobody defines.
#define GPUNET_ESYMBOL 1012

// Caller: an image has no kernel of that name.
#define GPUNET_EKERNEL 1013

// Caller: another number of arguments, or of other sizes, than the kernel takes.
#define GPUNET_EPARAMETERS 1014

// Caller: blocks, threads or shared memory that cannot be.
#define GPUNET_ESHAPE 1015

// Caller: bytes or words that a buffer does not have.
#define GPUNET_ERANGE 1016

// Caller: something of another GPU, or another stream.
#define GPUNET_EOTHERGPU 1017

// Caller: too many at once.
#define GPUNET_ELIMIT 1018

// Caller: a kernel runs, and it must not.
#define GPUNET_ERUNNING 1019

// Caller: what was waited for is not done in the time given.
#define GPUNET_ETIMEOUT 1020

// Caller: the net, queue or lease is closed.
#define GPUNET_EGONE 1021

// Caller: this GPU cannot do that.
#define GPUNET_EUNSUPPORTED 1022

// Caller: no such socket, or not in that state; gpunet_last_errno has the number.
#define GPUNET_ESOCKET 1023

// Peer: it closed, reset, refused or did not answer; gpunet_last_errno has the number.
#define GPUNET_EPEER 2001

// System: a call failed, or something is not installed.
#define GPUNET_ESYSTEM 3001

// System: nobody can listen at that address, or not so; gpunet_last_errno has the number.
#define GPUNET_ELISTEN 3002

// System: memory that cannot be had.
#define GPUNET_EMEMORY 3003

// Kernel: an illegal address, a trap, a panic.
#define GPUNET_ETRAP 4001

// Kernel: threads of a group reach different barriers, or make different calls.
#define GPUNET_EDIVERGED 4002

// Kernel: all its threads wait for one another.
#define GPUNET_EDEADLOCK 4003

// Kernel: it did not end when it was stopped, and was killed.
#define GPUNET_EKILLED 4004

// Kernel: an earlier one faulted, and with it the net or stream.
#define GPUNET_EFAULTED 4005

// GPU: no driver, one that is too old, or no such device.
#define GPUNET_EDEVICE 5001

// GPU: its context is lost.
#define GPUNET_ECONTEXT 5002

// GPU: a call of the driver failed.
#define GPUNET_EDRIVER 5003

// gpunet: a panic was caught.
#define GPUNET_EINTERNAL 6001

// gpunet: the net is down.
#define GPUNET_EDOWN 6002

// Operations in their order, to be posted on queues as often as wanted.
typedef struct gpunet_host_batch gpunet_host_batch;

// Bytes in the memory of a GPU.
typedef struct gpunet_host_buffer gpunet_host_buffer;

// Operations that were posted.
typedef struct gpunet_host_completions gpunet_host_completions;

// Words in host memory, of 32 or 64 bits.
typedef struct gpunet_host_flags gpunet_host_flags;

// An open GPU.
typedef struct gpunet_host_gpu gpunet_host_gpu;

// A graph of kernels and operations.
typedef struct gpunet_host_graph gpunet_host_graph;

// Kernels that can be launched by name.
typedef struct gpunet_host_image gpunet_host_image;

// A kernel that was launched.
typedef struct gpunet_host_launch gpunet_host_launch;

// Streams on which the program runs kernels of a net.
typedef struct gpunet_host_lease gpunet_host_lease;

// A net: memory, proxy threads, and the kernels that run on it.
typedef struct gpunet_host_net gpunet_host_net;

// Settings of a net that is yet to be made.
typedef struct gpunet_host_net_options gpunet_host_net_options;

// A queue of kernels and operations on a stream.
typedef struct gpunet_host_queue gpunet_host_queue;

// A stream of a GPU.
typedef struct gpunet_host_stream gpunet_host_stream;

// How a call went: GPUNET_OK, or one of the codes below. Thousands say whose fault it is: 1 the caller's, 2 the
// peer's, 3 the system's, 4 the kernel's, 5 the GPU's or its driver's, 6 of gpunet itself. None of them is an error
// number of Linux.
typedef int32_t gpunet_status;

// How a launch is laid out. In `blocks` and `threads` x comes first; a y or z of 0 counts as 1.
typedef struct gpunet_shape {
    // Blocks of the grid.
    uint32_t blocks[3];
    // Threads of each block.
    uint32_t threads[3];
    // Launch-sized shared memory of each block, bytes.
    uint32_t shared_bytes;
    // 0.
    uint32_t reserved;
} gpunet_shape;

// An argument of a kernel, behind the net; or something that is kept until the kernel has ended.
typedef struct gpunet_argument {
    // GPUNET_ARGUMENT_BYTES and its siblings.
    uint32_t kind;
    // 0.
    uint32_t reserved;
    // As the kind says.
    uint64_t size;
    // As the kind says.
    const void *value;
    // Of GPUNET_KEEP; else null.
    void (*release)(void*);
} gpunet_argument;

// A step of a graph: the operations of a batch, or, where `batch` is null, a kernel.
typedef struct gpunet_graph_step {
    // Operations; null: a kernel.
    const struct gpunet_host_batch *batch;
    // The kernel's image.
    const struct gpunet_host_image *image;
    // The kernel's name.
    const char *kernel;
    // The kernel's shape.
    const struct gpunet_shape *shape;
    // The kernel's arguments.
    const struct gpunet_argument *arguments;
    // How many.
    size_t count;
} gpunet_graph_step;

// A kernel that will run under a lease: one of an image, or, where `image` is null, a function of the CUDA
// driver's.
typedef struct gpunet_lease_kernel {
    // Its image; null: `function`.
    const struct gpunet_host_image *image;
    // Its name in the image.
    const char *kernel;
    // A CUfunction, as cudaGetFuncBySymbol gives it.
    uint64_t function;
    // Its largest shape.
    struct gpunet_shape shape;
} gpunet_lease_kernel;

// Called for each line that a kernel prints, by a thread of the net's: with `user`, the number of the launch,
// and the line.
typedef void (*gpunet_on_print)(void *user, uint32_t launch, const char *line);

// Called when a kernel of the net faults, by a thread of the net's: with `user`, the number of the launch,
// the kernel's name, and how it ended in one sentence.
typedef void (*gpunet_on_fault)(void *user, uint32_t launch, const char *kernel, const char *sentence);

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// Reads an address: `127.0.0.1:80`, `[::1]:80`, the name of a host with a port, or `unix:/path`. Kernels take
// gpunet_address by value.
gpunet_status gpunet_address_parse(const char *from, gpunet_address *address);

// Writes an address as text.
gpunet_status gpunet_address_text(const gpunet_address *address, char *to, size_t capacity, size_t *length);

// Makes an empty batch. `timeout_ns` is how long each operation may take, from when the stream comes to it; 0:
// as the queue has it.
gpunet_status gpunet_batch_create(uint64_t timeout_ns,
                                  struct gpunet_host_batch **batch);

// Sends bytes of a buffer.
gpunet_status gpunet_batch_send(struct gpunet_host_batch *batch,
                                uint64_t socket,
                                const struct gpunet_host_buffer *buffer,
                                size_t offset,
                                size_t bytes);

// Fills bytes of a buffer with what is received.
gpunet_status gpunet_batch_receive(struct gpunet_host_batch *batch,
                                   uint64_t socket,
                                   const struct gpunet_host_buffer *buffer,
                                   size_t offset,
                                   size_t bytes);

// Sends bytes of GPU memory that the program has from elsewhere, and keeps until the operation is done.
gpunet_status gpunet_batch_send_raw(struct gpunet_host_batch *batch,
                                    uint64_t socket,
                                    uint64_t address,
                                    size_t bytes);

// Fills such memory with what is received.
gpunet_status gpunet_batch_receive_raw(struct gpunet_host_batch *batch,
                                       uint64_t socket,
                                       uint64_t address,
                                       size_t bytes);

// Waits until a flag is what the condition (GPUNET_WAIT_EQUAL and its siblings) and the value say.
gpunet_status gpunet_batch_wait_flag(struct gpunet_host_batch *batch,
                                     const struct gpunet_host_flags *flags,
                                     size_t index,
                                     uint32_t how,
                                     uint64_t value);

// Writes a flag.
gpunet_status gpunet_batch_write_flag(struct gpunet_host_batch *batch,
                                      const struct gpunet_host_flags *flags,
                                      size_t index,
                                      uint64_t value);

// Waits until a word of a buffer, of 32 or 64 bits, is what the condition and the value say. `index` counts
// words.
gpunet_status gpunet_batch_wait_word(struct gpunet_host_batch *batch,
                                     const struct gpunet_host_buffer *buffer,
                                     size_t index,
                                     uint32_t bits,
                                     uint32_t how,
                                     uint64_t value);

// Writes a word of a buffer.
gpunet_status gpunet_batch_write_word(struct gpunet_host_batch *batch,
                                      const struct gpunet_host_buffer *buffer,
                                      size_t index,
                                      uint32_t bits,
                                      uint64_t value);

// How many operations a batch has.
gpunet_status gpunet_batch_length(const struct gpunet_host_batch *batch, size_t *length);

// Frees a batch. What was posted of it is not touched.
gpunet_status gpunet_batch_free(struct gpunet_host_batch *batch);

// How many operations were posted.
gpunet_status gpunet_completions_length(const struct gpunet_host_completions *completions, size_t *length);

// How an operation goes: `done` gets 1 where it is done, else 0; `error` its error number, 0 where it went
// well or is not done.
gpunet_status gpunet_completions_status(const struct gpunet_host_completions *completions,
                                        size_t index,
                                        int32_t *done,
                                        int32_t *error);

// Waits until all operations are done, at most so long; how the first went that failed (GPUNET_EPEER or
// GPUNET_ESOCKET, with gpunet_last_errno).
gpunet_status gpunet_completions_wait(const struct gpunet_host_completions *completions, uint64_t timeout_ns);

// Frees the handle. The operations go on.
gpunet_status gpunet_completions_free(struct gpunet_host_completions *completions);

// Opens a GPU: "auto" (a CUDA device, and where there is none the emulated GPU), "cuda", "cuda:N" or
// "emulated".
gpunet_status gpunet_gpu_open(const char *choice, struct gpunet_host_gpu **gpu);

// Says something about a GPU: "name", "kind" ("cuda" or "emulated"), "reason" (why this one was chosen),
// "driver" (the CUDA version of the driver, empty on the emulated GPU).
gpunet_status gpunet_gpu_text(const struct gpunet_host_gpu *gpu,
                              const char *name,
                              char *to,
                              size_t capacity,
                              size_t *length);

// A number of a GPU: "multiprocessors", "compute_capability" (90 for 9.0, 0 on the emulated GPU),
// "max_threads_per_block", "max_shared_bytes", "max_kernels".
gpunet_status gpunet_gpu_number(const struct gpunet_host_gpu *gpu, const char *name, uint64_t *number);

// Frees the handle. What was made of the GPU keeps it open.
gpunet_status gpunet_gpu_free(struct gpunet_host_gpu *gpu);

// Makes a graph of steps, to be launched on the queue's stream. What its kernels keep is kept until it is
// freed, and on CUDA until the queue is.
gpunet_status gpunet_graph_create(const struct gpunet_host_queue *queue,
                                  const struct gpunet_graph_step *steps,
                                  size_t count,
                                  struct gpunet_host_graph **graph);

// Puts a graph on its queue's stream; `number` gets which of its launches this is, from 1.
gpunet_status gpunet_graph_launch(const struct gpunet_host_graph *graph, uint32_t *number);

// Waits until all operations of a launch are done, at most so long; how the first went that failed.
gpunet_status gpunet_graph_wait(const struct gpunet_host_graph *graph, uint32_t number, uint64_t timeout_ns);

// Frees a graph. What is on the stream still runs.
gpunet_status gpunet_graph_free(struct gpunet_host_graph *graph);

// Loads PTX text, a cubin or a fatbin, for CUDA. `name` is yours, for errors; one name stands for one image.
gpunet_status gpunet_image_load_bytes(const struct gpunet_host_gpu *gpu,
                                      const char *name,
                                      const void *bytes,
                                      size_t length,
                                      struct gpunet_host_image **image);

// Loads a file: a shared object for the emulated GPU, which runs its initialisers; else PTX, a cubin or a
// fatbin for CUDA.
gpunet_status gpunet_image_load_file(const struct gpunet_host_gpu *gpu,
                                     const char *name,
                                     const char *path,
                                     struct gpunet_host_image **image);

// Loads functions of this process as kernels of the emulated GPU: `count` records, as GPUNET_KERNEL makes
// them in C++ (gpunet_list_kernels has those of the program). What they name stays for as long as the image is
// used.
gpunet_status gpunet_image_load_functions(const struct gpunet_host_gpu *gpu,
                                          const char *name,
                                          const gpunet_kernel *const *records,
                                          size_t count,
                                          struct gpunet_host_image **image);

// The names of an image's kernels, a line for each.
gpunet_status gpunet_image_kernels(const struct gpunet_host_image *image,
                                   char *to,
                                   size_t capacity,
                                   size_t *length);

// The bytes of each parameter of a kernel, the net as the first of them: at most `capacity` at `sizes`, and at
// `count` how many there are. 0 where that is not known, as of machine code before CUDA 12.4.
gpunet_status gpunet_image_parameters(const struct gpunet_host_image *image,
                                      const char *kernel,
                                      uint64_t *sizes,
                                      size_t capacity,
                                      size_t *count);

// The driver's handle (CUfunction) of a kernel for blocks of so many threads, for programs that launch it
// themselves under a lease; 0 on the emulated GPU.
gpunet_status gpunet_image_cuda_function(const struct gpunet_host_image *image,
                                         const char *kernel,
                                         uint32_t threads,
                                         uint64_t *function);

// Frees the handle. The image stays loaded as long as its GPU is open.
gpunet_status gpunet_image_free(struct gpunet_host_image *image);

// Starts a kernel of an image with the net as its first argument and `arguments` behind it. Their number and
// sizes are compared with what the image says; that they are what the kernel takes is the caller's promise.
// What is passed as a buffer, flags or GPUNET_KEEP is kept until the kernel has ended.
gpunet_status gpunet_launch_start(const struct gpunet_host_net *net,
                                  const struct gpunet_host_image *image,
                                  const char *kernel,
                                  const struct gpunet_shape *shape,
                                  const struct gpunet_argument *arguments,
                                  size_t count,
                                  struct gpunet_host_launch **launch);

// Waits until the kernel has ended, at most so long (GPUNET_FOREVER: without a limit); how it ended.
// GPUNET_ETIMEOUT: it still runs.
gpunet_status gpunet_launch_wait(const struct gpunet_host_launch *launch, uint64_t timeout_ns);

// Stores 1 where the kernel has ended, else 0.
gpunet_status gpunet_launch_is_finished(const struct gpunet_host_launch *launch, int32_t *finished);

// How the kernel ended, without waiting: GPUNET_OK, its error, or GPUNET_ETIMEOUT while it runs.
gpunet_status gpunet_launch_result(const struct gpunet_host_launch *launch);

// The launch's number on its net, as printed lines and dumps name it.
gpunet_status gpunet_launch_number(const struct gpunet_host_launch *launch, uint32_t *number);

// Stops the kernel: its waits return ECANCELED.
gpunet_status gpunet_launch_abort(const struct gpunet_host_launch *launch);

// Frees the handle. The kernel runs on.
gpunet_status gpunet_launch_free(struct gpunet_host_launch *launch);

// Lends a net to kernels that the program puts on these streams itself, and names here. They are given
// gpunet_lease_net, on these streams and before the lease is closed.
gpunet_status gpunet_lease_create(const struct gpunet_host_net *net,
                                  const struct gpunet_host_stream *const *streams,
                                  size_t stream_count,
                                  const struct gpunet_lease_kernel *kernels,
                                  size_t kernel_count,
                                  struct gpunet_host_lease **lease);

// The net as kernels under a lease take it, by value.
gpunet_status gpunet_lease_net(const struct gpunet_host_lease *lease, gpunet_net *net);

// Puts a kernel of an image on one of the lease's streams, as gpunet_launch_start takes it: on the emulated
// GPU the only way.
gpunet_status gpunet_lease_launch(const struct gpunet_host_lease *lease,
                                  const struct gpunet_host_stream *stream,
                                  const struct gpunet_host_image *image,
                                  const char *kernel,
                                  const struct gpunet_shape *shape,
                                  const struct gpunet_argument *arguments,
                                  size_t count);

// No more kernels use the net: the lease ends when all that is on its streams now is done. Returns at once.
gpunet_status gpunet_lease_close(const struct gpunet_host_lease *lease);

// Waits until a lease that was closed has ended, at most so long; how its kernels ended.
gpunet_status gpunet_lease_wait(const struct gpunet_host_lease *lease, uint64_t timeout_ns);

// Stores 1 where the lease has ended, else 0.
gpunet_status gpunet_lease_is_finished(const struct gpunet_host_lease *lease, int32_t *finished);

// Stops kernels under a lease, those that are yet to run, too: their waits return ECANCELED.
gpunet_status gpunet_lease_abort(const struct gpunet_host_lease *lease);

// Closes a lease and frees the handle. What is on its streams still runs.
gpunet_status gpunet_lease_free(struct gpunet_host_lease *lease);

// Allocates GPU memory, zeroed. Of 0 bytes none, and the address is null.
gpunet_status gpunet_buffer_create(const struct gpunet_host_gpu *gpu,
                                   size_t bytes,
                                   struct gpunet_host_buffer **buffer);

// Copies bytes out. Waits for no kernel; of what one writes meanwhile, each byte is the old or the new one.
gpunet_status gpunet_buffer_read(const struct gpunet_host_buffer *buffer,
                                 size_t offset,
                                 void *to,
                                 size_t bytes);

// Copies bytes in. Waits for no kernel.
gpunet_status gpunet_buffer_write(const struct gpunet_host_buffer *buffer,
                                  size_t offset,
                                  const void *from,
                                  size_t bytes);

// Where a buffer begins, for kernels.
gpunet_status gpunet_buffer_address(const struct gpunet_host_buffer *buffer, uint64_t *address);

// How many bytes a buffer has.
gpunet_status gpunet_buffer_size(const struct gpunet_host_buffer *buffer, size_t *bytes);

// Frees a buffer: its memory goes when every kernel and operation that was given it has ended.
gpunet_status gpunet_buffer_free(struct gpunet_host_buffer *buffer);

// Makes so many flags, of 32 or 64 bits each, all 0.
gpunet_status gpunet_flags_create(const struct gpunet_host_gpu *gpu,
                                  size_t count,
                                  uint32_t bits,
                                  struct gpunet_host_flags **flags);

// Reads a flag, with all that its writer did before.
gpunet_status gpunet_flags_load(const struct gpunet_host_flags *flags, uint64_t index, uint64_t *value);

// Sets a flag; who waits for it sees all that was done before.
gpunet_status gpunet_flags_store(const struct gpunet_host_flags *flags, uint64_t index, uint64_t value);

// Where the first flag is, for kernels.
gpunet_status gpunet_flags_address(const struct gpunet_host_flags *flags, uint64_t *address);

// Frees flags; what was given them keeps them.
gpunet_status gpunet_flags_free(struct gpunet_host_flags *flags);

// Makes a net on a GPU and starts its proxy threads. `options` may be null.
gpunet_status gpunet_net_create(const struct gpunet_host_gpu *gpu,
                                const struct gpunet_host_net_options *options,
                                struct gpunet_host_net **net);

// Listens at an address (as gpunet_address_parse takes it), for kernels to accept from. `socket` gets what a
// kernel names it by, `bound` the address with the port that the system chose; `bound` may be null.
gpunet_status gpunet_net_listen(const struct gpunet_host_net *net,
                                const char *address,
                                uint64_t *socket,
                                gpunet_address *bound);

// The same with options: `backlog` 1 to 4096, or 0 for 512; `reuse_port` 1 to share the port with others;
// `only_v6` 0 or 1, or negative for what the system has.
gpunet_status gpunet_net_listen_with(const struct gpunet_host_net *net,
                                     const char *address,
                                     uint32_t backlog,
                                     int32_t reuse_port,
                                     int32_t only_v6,
                                     uint64_t *socket,
                                     gpunet_address *bound);

// Hands a connected or listening stream socket of the program over to kernels. It takes the descriptor, which
// the program uses no more, unless the call fails.
gpunet_status gpunet_net_hand_over(const struct gpunet_host_net *net, int32_t descriptor, uint64_t *socket);

// Takes a socket back from kernels, once none runs on the net and no queue is open: `descriptor` gets the
// system's socket, non-blocking; `unread` and `length` bytes that had arrived and that no kernel has read, to
// be freed with gpunet_free (null and 0 where there are none).
gpunet_status gpunet_net_take_back(const struct gpunet_host_net *net,
                                   uint64_t socket,
                                   int32_t *descriptor,
                                   uint8_t **unread,
                                   size_t *length);

// Closes a socket, whoever made it and whoever uses it: what is unsent is sent.
gpunet_status gpunet_net_close_socket(const struct gpunet_host_net *net, uint64_t socket);

// The name of a counter, from 0; null behind the last.
const char *gpunet_statistic_name(uint32_t index);

// A counter of a net: "received_bytes", "sent_bytes", "accepted", "sockets" (open now) and so on, as
// gpunet_statistic_name lists them.
gpunet_status gpunet_net_statistic(const struct gpunet_host_net *net, const char *name, uint64_t *value);

// All statistics of a net as JSON text.
gpunet_status gpunet_net_statistics(const struct gpunet_host_net *net,
                                    char *to,
                                    size_t capacity,
                                    size_t *length);

// Describes every socket of a net as JSON text, for a kernel that seems stuck: a list with a line for each.
gpunet_status gpunet_net_dump(const struct gpunet_host_net *net, char *to, size_t capacity, size_t *length);

// Stops all kernels of a net: their waits return ECANCELED.
gpunet_status gpunet_net_abort(const struct gpunet_host_net *net);

// Ends a net: stops its kernels, sends what is unsent, closes all sockets and ends its threads, within some
// seconds. Launches, queues and leases of it can still be asked how they ended.
gpunet_status gpunet_net_free(struct gpunet_host_net *net);

// Makes options: as a net has them where nothing is set.
gpunet_status gpunet_net_options_create(struct gpunet_host_net_options **options);

// Sets a number. "sockets" that can be open at once (256); "reserved" ones that peers cannot take;
// "unaccepted" connections of a listener (16); "ring", bytes of each (65,536); "ring_memory", bytes of all;
// "proxy_threads" (1); "request_slots" of each (64); "timeout_ns" of calls (0: none); "linger_ns" (30 s);
// "heartbeat_timeout_ns" (10 s); "spin_ns" and "idle_sleep_ns" of proxy threads; limits of the policy:
// "max_sockets", "max_in_flight" bytes, "max_rate" in bytes a second.
gpunet_status gpunet_net_options_set(struct gpunet_host_net_options *options,
                                     const char *name,
                                     uint64_t value);

// Sets a text. "transport": auto, tcp, rdma or local; "placements" of RDMA rings: some of "dma-buf,peer
// memory,bounce"; "control_memory": auto, host or gpu; "policy": open or closed, and then any number of
// rules: "allow_connect", "deny_connect", "allow_bind", "deny_bind", such as "10.0.0.0/8:8000-8999" or
// "unix:/run/app/...".
gpunet_status gpunet_net_options_set_text(struct gpunet_host_net_options *options,
                                          const char *name,
                                          const char *value);

// Has lines that kernels print go to a function in place of standard output. `user` is passed to it.
gpunet_status gpunet_net_options_on_print(struct gpunet_host_net_options *options,
                                          gpunet_on_print function,
                                          void *user);

// Has a function called for kernels that fault. `user` is passed to it.
gpunet_status gpunet_net_options_on_fault(struct gpunet_host_net_options *options,
                                          gpunet_on_fault function,
                                          void *user);

// Frees options. Nets that were made with them are not touched.
gpunet_status gpunet_net_options_free(struct gpunet_host_net_options *options);

// What went wrong in the last call of this thread that did not return GPUNET_OK: one sentence, with what to
// do about it where that is known. It stays until the next such call of this thread. Never null.
const char *gpunet_last_error(void);

// The error number of Linux of that call (a positive number, as in errno.h), or 0 where it had none.
int32_t gpunet_last_errno(void);

// The name of a status, such as "GPUNET_ENULL". Never null.
const char *gpunet_status_name(gpunet_status status);

// Whose fault a status is: "nobody", "caller", "peer", "system", "kernel", "gpu" or "gpunet". Never null.
const char *gpunet_status_blame(gpunet_status status);

// The version of this library, such as "0.1.0".
const char *gpunet_version(void);

// The version of the C ABI that this library has, for kernels: the major number times 65,536 and the minor
// number. Images of the same major and of no higher minor number can be loaded.
uint32_t gpunet_c_abi_version(void);

// Makes a stream. The first one of a GPU loads a kernel, so it is made before others run.
gpunet_status gpunet_stream_create(const struct gpunet_host_gpu *gpu, struct gpunet_host_stream **stream);

// Takes a stream that the program has: a CUstream or cudaStream_t of the device's primary context, as a
// number. It is not destroyed before what uses it is freed. The emulated GPU has none.
gpunet_status gpunet_stream_from_raw(const struct gpunet_host_gpu *gpu,
                                     uint64_t raw,
                                     struct gpunet_host_stream **stream);

// Waits until all that gpunet has put on a stream is done, at most so long.
gpunet_status gpunet_stream_wait(const struct gpunet_host_stream *stream, uint64_t timeout_ns);

// Stores 1 where all that gpunet has put on a stream is done, else 0.
gpunet_status gpunet_stream_is_done(const struct gpunet_host_stream *stream, int32_t *done);

// Frees the handle. What is on the stream still runs.
gpunet_status gpunet_stream_free(struct gpunet_host_stream *stream);

// Opens a queue on a stream. `timeout_ns` is how long an operation may take where its batch does not say; 0:
// 30 s.
gpunet_status gpunet_queue_create(const struct gpunet_host_net *net,
                                  const struct gpunet_host_stream *stream,
                                  uint64_t timeout_ns,
                                  struct gpunet_host_queue **queue);

// Puts a kernel on the stream, as gpunet_launch_start takes it.
gpunet_status gpunet_queue_launch(const struct gpunet_host_queue *queue,
                                  const struct gpunet_host_image *image,
                                  const char *kernel,
                                  const struct gpunet_shape *shape,
                                  const struct gpunet_argument *arguments,
                                  size_t count);

// Puts the operations of a batch on the stream: all of them, or none. `completions` says how they go.
gpunet_status gpunet_queue_post(const struct gpunet_host_queue *queue,
                                const struct gpunet_host_batch *batch,
                                struct gpunet_host_completions **completions);

// Stops what is on the stream: waits return ECANCELED, of later operations, too.
gpunet_status gpunet_queue_abort(const struct gpunet_host_queue *queue);

// Closes a queue. What is on the stream still runs.
gpunet_status gpunet_queue_free(struct gpunet_host_queue *queue);

// Frees bytes that a function of this library has allocated. Null is nothing.
void gpunet_free(void *bytes);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* GPUNET_GPUNET_H */
