// Sockets for CUDA C++ kernels, in the manner of cooperative groups and of the standard library.
//
//     extern "C" __global__ void echo(gpunet_net net, uint64_t listener)
//     {
//         GPUNET_SHARED(uint8_t[1024], buffer);
//         gpunet::listener_ref clients(gpunet::block(net), listener);
//         while (auto stream = clients.accept()) {
//             while (size_t bytes = stream->read(buffer).value_or(0)) {
//                 if (!stream->write_all(buffer, bytes)) {
//                     break;
//                 }
//             }
//         }
//     }
//     GPUNET_KERNEL(echo);
//
// A call is made by a group: all threads of a block, of a warp, or a single thread. All of them call with the
// same arguments and get the same result. Buffers lie in memory that the group shares (shared or global
// memory). A thread's own variables serve for what is sent, where each thread has the same bytes, and for
// groups of one thread.
//
// No exceptions, no allocation: a result is a value or an error number of Linux. A stream, a listener and a
// poller close their socket when they go out of scope, in all threads of the group; `stream_ref` and
// `listener_ref` are the same without that. The last parameter of functions, `at`, is not for callers to pass:
// on the emulated GPU it is the line that reports name, and nothing on CUDA.
//
// | file | what |
// | --- | --- |
// | device.h | the C ABI under all this |
// | base.cuh | results, groups, GPUNET_SHARED, GPUNET_KERNEL |
// | address.cuh | addresses of sockets |
// | calls.cuh | the familiar calls: gsocket, gsend, gpoll, gprint ... |
// | socket.cuh, stream.cuh, slice.cuh, listener.cuh, poller.cuh | the same as types |
// | emulated.hpp | CUDA's words for g++, for the emulated GPU |
#ifndef GPUNET_GPUNET_CUH
#define GPUNET_GPUNET_CUH

#include "address.cuh"
#include "base.cuh"
#include "calls.cuh"
#include "listener.cuh"
#include "poller.cuh"
#include "socket.cuh"
#include "slice.cuh"
#include "stream.cuh"

#endif
