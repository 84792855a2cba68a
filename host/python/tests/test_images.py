"""Kernels in C++: compiled here, launched by name; and images that are refused."""

from __future__ import annotations

import subprocess

import numpy as np
import pytest

import gpunet
from conftest import DEADLINE, connect, pattern, receive

SOURCE = r"""
#include <gpunet/gpunet.cuh>

extern "C" __global__ void echo(gpunet_net net, uint64_t listener, uint32_t rounds, int64_t *served)
{
    GPUNET_SHARED(uint8_t[1024], buffer);
    gpunet::listener_ref clients(gpunet::block(net), listener);
    for (uint32_t round = 0; round < rounds; ++round) {
        auto stream = clients.accept();
        if (!stream) {
            return;
        }
        while (size_t bytes = stream->read(buffer).value_or(0)) {
            if (!stream->write_all(buffer, bytes)) {
                break;
            }
            if (threadIdx.x == 0) {
                *served += static_cast<int64_t>(bytes);
            }
        }
    }
}
GPUNET_KERNEL(echo);

struct pair { float a; double b; };

extern "C" __global__ void numbers(gpunet_net net, int8_t a, uint16_t b, float c, double d, pair e, gpunet_address f, double *out)
{
    static_cast<void>(net);
    if (threadIdx.x == 0) {
        const double all[] = {double(a), double(b), double(c), d, double(e.a), e.b, double(f.port_or_length)};
        for (int at = 0; at < 7; ++at) {
            out[at] = all[at];
        }
    }
}
GPUNET_KERNEL(numbers);
"""


@pytest.fixture(scope="module")
def image(gpu):
    return gpu.compile(SOURCE, "kernels")


def test_a_kernel_in_cpp_serves_clients(gpu, net, image):
    assert sorted(image.kernels) == ["echo", "numbers"]
    assert image["echo"].sizes == [8, 4, 8]
    served = gpu.buffer(1, np.int64)
    with net.listen() as listener:
        launch = net.launch(image["echo"], 1, 64, listener, 2, served)
        assert launch.kernel == "echo" and "running" in repr(launch)
        for _ in range(2):
            with connect(listener) as client:
                client.sendall(pattern(3000))
                assert receive(client, 3000) == pattern(3000)
        launch.wait(DEADLINE)
    assert served.numpy()[0] == 6000


def test_numbers_and_structs_arrive(gpu, net, image):
    out = gpu.buffer(7, np.float64)
    pair = np.zeros(1, np.dtype([("a", np.float32), ("b", np.float64)], align=True))
    pair["a"], pair["b"] = 0.25, 1e100
    address = gpunet.Address("10.0.0.1", 4711)
    net.launch(image["numbers"], 1, 32, -3, 60_000, 1.5, np.float64(2.5), pair.tobytes(), address, out).wait(DEADLINE)
    assert list(out.numpy()) == [-3, 60_000, 1.5, 2.5, 0.25, 1e100, 4711]


def test_wrong_arguments_name_kernel_and_parameter(gpu, net, image):
    served = gpu.buffer(1, np.int64)
    listener = net.listen()
    kernel = image["echo"]
    wrong = [
        ((listener, 1), r"kernel 'echo' takes 3 arguments \(of \[8, 4, 8\] bytes\), given 2"),
        ((listener, 2**32, served), r"parameter 2 takes 4 bytes, given int 4294967296: out of range"),
        ((listener, np.int64(1), served), r"parameter 2 takes 4 bytes, .*that has 8 bytes"),
        ((listener, "two", served), r"parameter 2 takes 4 bytes, given str 'two': neither a number"),
        ((listener, 1, 1.5 + 2j), r"parameter 3 takes 8 bytes, given complex"),
    ]
    for arguments, message in wrong:
        with pytest.raises(gpunet.ArgumentError, match=message):
            net.launch(kernel, 1, 32, *arguments)
    typed = image.kernel("numbers", "int8, uint16, float32")
    with pytest.raises(TypeError, match="takes 3 arguments"):
        net.launch(typed, 1, 1)
    with pytest.raises(gpunet.ImageError, match="has no kernel 'eccho' .it has: echo, numbers"):
        image["eccho"]
    with pytest.raises(gpunet.ArgumentError, match="grid is a number or a tuple"):
        net.launch(kernel, "1", 32, listener, 1, served)
    with pytest.raises(gpunet.GpuError, match="must not be zero"):
        net.launch(kernel, 0, 32, listener, 1, served)


def _object(folder, text, *options):
    (folder / "kernel.c").write_text(text)
    made = folder / "kernel.so"
    command = ["cc", "-shared", "-fPIC", "-fexceptions", *options, "-o", str(made), str(folder / "kernel.c")]
    subprocess.run(command, check=True, timeout=DEADLINE)
    return made


KERNEL = """
#include <stdint.h>
struct gpunet_kernel { uint64_t size; const char *name; void (*entry)(void *const *); uint64_t count; const uint64_t *sizes; };
int64_t %(calls)s(uint64_t, uint64_t, uint32_t);
static void run(void *const *given) { const uint64_t *net = given[0]; %(calls)s(net[0], net[1], 2); }
static const uint64_t sizes[] = {16};
const struct gpunet_kernel gpunet_kernel_run = {sizeof(struct gpunet_kernel), "run", run, 1, sizes};
const uint32_t gpunet_c_abi[2] = {%(version)s};
"""


def test_a_shared_object_by_its_path(emulated, net, tmp_path):
    made = _object(tmp_path, KERNEL % {"calls": "gpunet_time", "version": "%d, %d" % gpunet.C_ABI})
    net.launch(emulated.load(made)["run"], 1, 32).wait(DEADLINE)
    net.launch(gpunet.Image(emulated, str(made), "by text")["run"], 2, 1).wait(DEADLINE)


def test_images_that_are_refused(emulated, tmp_path):
    major, minor = gpunet.C_ABI
    made = _object(tmp_path, KERNEL % {"calls": "gpunet_time", "version": f"{major + 6}, 3"})
    with pytest.raises(gpunet.ImageError, match=rf"another version of gpunet's C ABI \({major + 6}.3, this program"):
        emulated.load(made)
    with pytest.raises(gpunet.ImageError, match="functions that nobody defines .gpunet_fly"):
        emulated.load(_object(tmp_path, KERNEL % {"calls": "gpunet_fly", "version": f"{major}, {minor}"}))
    other = bytearray(made.read_bytes())
    # IBM's S/390.
    other[18] = 22
    (tmp_path / "other.so").write_bytes(other)
    with pytest.raises(gpunet.ImageError, match=r"'other' has no code for this GPU \(emulated, \w+\): compile it") as error:
        emulated.load(tmp_path / "other.so")
    assert error.value.blame == "caller" and "\n" not in str(error.value)
    with pytest.raises(gpunet.ImageError, match="is PTX, and this GPU .emulated. takes a shared object"):
        emulated.load(".version 8.0\n.target sm_90\n")
    cubin = bytearray(64)
    cubin[:6], cubin[18] = b"\x7fELF\x02\x01", 190
    with pytest.raises(gpunet.ImageError, match="is a cubin, and this GPU"):
        emulated.load(bytes(cubin))
    with pytest.raises(gpunet.ImageError, match="no image of kernels"):
        emulated.load(b"int main() {}")
    with pytest.raises(gpunet.ImageError, match="cannot be read: .*No such file"):
        emulated.load(tmp_path / "none.so")
    with pytest.raises(gpunet.GpuError) as error:
        emulated.load(b"int main() {}")
    assert error.value.blame == "caller"


def test_source_that_does_not_compile(emulated):
    with pytest.raises(gpunet.CompileError, match="error: .*nonsense"):
        emulated.compile("#include <gpunet/gpunet.cuh>\nnonsense")


def test_the_headers_are_those_of_the_c_crate():
    headers = gpunet.include() / "gpunet"
    assert (headers / "gpunet.cuh").is_file() and (headers / "device.h").is_file()
    text = (headers / "device.h").read_text()
    for name, number in zip(("MAJOR", "MINOR"), gpunet.C_ABI):
        assert f"#define GPUNET_C_ABI_{name} {number}\n" in text
