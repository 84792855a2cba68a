# gpunet for CMake: find_package(gpunet 0.1 REQUIRED)
#
#   gpunet::gpunet          the shared library, with headers (C11 and C++17)
#   gpunet::gpunet_static   the same, linked in; a program that loads shared objects with kernels exports
#                           its symbols then (the target sees to it)
#
#   gpunet_add_kernels(NAME SOURCES file.cu ... [ARCHITECTURES 75 80 90 ...])
#       Compiles kernels to images that programs load: for the emulated GPU the shared object NAME.so, and
#       where nvcc is (the CUDA language is enabled, or GPUNET_NVCC names it) NAME.fatbin, linked with the
#       device library. The target NAME makes both; its properties GPUNET_EMULATED_IMAGE and GPUNET_CUDA_IMAGE
#       are their paths.
#
#   gpunet_link_device(TARGET)
#       For a target with kernels of its own that it launches itself (<<<>>>, under a lease): device code is
#       linked with the device library.
cmake_minimum_required(VERSION 3.18)

get_filename_component(GPUNET_PREFIX "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
set(GPUNET_INCLUDE_DIR "${GPUNET_PREFIX}/include")
set(GPUNET_DEVICE_OBJECT "${GPUNET_PREFIX}/lib/gpunet/gpunet_device.o")
set(GPUNET_DEVICE_PTX "${GPUNET_PREFIX}/lib/gpunet/gpunet_device.ptx")

find_package(Threads QUIET)

if(NOT TARGET gpunet::gpunet)
    add_library(gpunet::gpunet SHARED IMPORTED)
    set_target_properties(gpunet::gpunet PROPERTIES
        IMPORTED_LOCATION "${GPUNET_PREFIX}/lib/libgpunet.so.1"
        IMPORTED_SONAME "libgpunet.so.1"
        INTERFACE_INCLUDE_DIRECTORIES "${GPUNET_INCLUDE_DIR}")
    add_library(gpunet::gpunet_static INTERFACE IMPORTED)
    set_target_properties(gpunet::gpunet_static PROPERTIES
        INTERFACE_INCLUDE_DIRECTORIES "${GPUNET_INCLUDE_DIR}"
        # Kernels in shared objects look for the device functions in the program: all of them are in it.
        INTERFACE_LINK_LIBRARIES
            "-Wl,--whole-archive;${GPUNET_PREFIX}/lib/libgpunet.a;-Wl,--no-whole-archive;gcc_s;util;rt;pthread;m;dl;c"
        INTERFACE_LINK_OPTIONS "-rdynamic")
endif()

function(gpunet_add_kernels name)
    cmake_parse_arguments(PARSE_ARGV 1 kernels "" "" "SOURCES;ARCHITECTURES")
    if(NOT kernels_SOURCES)
        message(FATAL_ERROR "gpunet_add_kernels(${name}): no SOURCES")
    endif()
    set(sources)
    foreach(source IN LISTS kernels_SOURCES)
        get_filename_component(source "${source}" ABSOLUTE)
        list(APPEND sources "${source}")
    endforeach()

    # CUDA's words are macros for the C++ compiler (gpunet/emulated.hpp).
    set(emulated "${CMAKE_CURRENT_BINARY_DIR}/${name}.so")
    add_custom_command(
        OUTPUT "${emulated}"
        COMMAND "${CMAKE_CXX_COMPILER}" -std=c++17 -O2 -g -fPIC -fno-exceptions -shared
            -I "${GPUNET_INCLUDE_DIR}" -x c++ ${sources} -o "${emulated}"
        DEPENDS ${sources}
        COMMENT "Kernels ${name} for the emulated GPU"
        VERBATIM)
    set(images "${emulated}")

    set(nvcc "${GPUNET_NVCC}")
    if(NOT nvcc AND CMAKE_CUDA_COMPILER_ID STREQUAL "NVIDIA")
        set(nvcc "${CMAKE_CUDA_COMPILER}")
    endif()
    set(cuda)
    if(nvcc AND EXISTS "${GPUNET_DEVICE_OBJECT}")
        if(NOT kernels_ARCHITECTURES)
            # Those that the device library in this package has.
            set(kernels_ARCHITECTURES 75 80 90 100)
        endif()
        set(code)
        foreach(architecture IN LISTS kernels_ARCHITECTURES)
            list(APPEND code "-gencode" "arch=compute_${architecture},code=sm_${architecture}")
        endforeach()
        set(objects)
        set(number 0)
        foreach(source IN LISTS sources)
            set(object "${CMAKE_CURRENT_BINARY_DIR}/${name}.${number}.cuda.o")
            math(EXPR number "${number} + 1")
            add_custom_command(
                OUTPUT "${object}"
                COMMAND "${nvcc}" -std=c++17 -dc ${code} -I "${GPUNET_INCLUDE_DIR}" "${source}" -o "${object}"
                DEPENDS "${source}"
                COMMENT "Kernels ${name} for CUDA"
                VERBATIM)
            list(APPEND objects "${object}")
        endforeach()
        set(cuda "${CMAKE_CURRENT_BINARY_DIR}/${name}.fatbin")
        add_custom_command(
            OUTPUT "${cuda}"
            COMMAND "${nvcc}" ${code} -dlink -fatbin ${objects} "${GPUNET_DEVICE_OBJECT}" -o "${cuda}"
            DEPENDS ${objects} "${GPUNET_DEVICE_OBJECT}"
            COMMENT "Kernels ${name} linked with gpunet's device library"
            VERBATIM)
        list(APPEND images "${cuda}")
    else()
        message(STATUS "gpunet: kernels ${name} for the emulated GPU alone (no nvcc, or no device library)")
    endif()
    add_custom_target(${name} ALL DEPENDS ${images})
    set_target_properties(${name} PROPERTIES
        GPUNET_EMULATED_IMAGE "${emulated}"
        GPUNET_CUDA_IMAGE "${cuda}")
endfunction()

function(gpunet_link_device target)
    if(NOT EXISTS "${GPUNET_DEVICE_OBJECT}")
        message(FATAL_ERROR "this package has no device library for CUDA: it was made without nvcc")
    endif()
    set_target_properties(${target} PROPERTIES CUDA_SEPARABLE_COMPILATION ON CUDA_RESOLVE_DEVICE_SYMBOLS ON)
    # Once for each of the two links: whether CMake gives that of device code an object among the libraries depends
    # on its version.
    target_link_options(${target} PRIVATE "$<DEVICE_LINK:${GPUNET_DEVICE_OBJECT}>" "$<HOST_LINK:${GPUNET_DEVICE_OBJECT}>")
endfunction()
