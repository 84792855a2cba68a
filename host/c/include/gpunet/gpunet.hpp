// The host side of gpunet for C++17: GPUs, nets, buffers, kernels by name, streams. Headers only, over gpunet.h.
//
//     gpunet::host::gpu gpu("auto");
//     gpunet::host::net net(gpu);
//     auto kernels = gpunet::host::image::from_file(gpu, "kernels", "echo.so");
//     auto listener = net.listen("127.0.0.1:7000");
//     auto launch = net.launch(kernels, "echo_server", {8, 256}, listener.socket);
//     launch.wait();
//
// Objects are owned: they can be moved, not copied, and free what they stand for when they go. What fails throws
// gpunet::error, with a code (gpunet.h), whose fault it is, and one sentence. A launch keeps the buffers that it
// is given until its kernel has ended.
//
// | file | what |
// | --- | --- |
// | host/base.hpp | gpunet::error, times, handles |
// | host/memory.hpp | gpu, buffer, flags |
// | host/kernels.hpp | image, shape, arguments of kernels |
// | host/net.hpp | net_options, net, launch |
// | host/streams.hpp | stream, queue, batch, completions, graph, lease |
//
// A file of kernels may include this beside gpunet.cuh, with nvcc and with g++: what is here lies in
// gpunet::host, since a kernel's `gpunet::stream` is a connection, and its `gpunet::net` what a kernel is given.
#ifndef GPUNET_GPUNET_HPP
#define GPUNET_GPUNET_HPP

#include "host/base.hpp"
#include "host/kernels.hpp"
#include "host/memory.hpp"
#include "host/net.hpp"
#include "host/streams.hpp"

#endif
