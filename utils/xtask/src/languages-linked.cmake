# A program that launches its own kernels: gpunet_link_device links the device library into it.
cmake_minimum_required(VERSION 3.18)
project(linked LANGUAGES CXX CUDA)

find_package(gpunet REQUIRED)
add_executable(single ${PROGRAMS}/single.cu)
target_compile_features(single PRIVATE cxx_std_17 cuda_std_17)
target_link_libraries(single PRIVATE gpunet::gpunet)
gpunet_link_device(single)
