"""Arguments and settings: what is taken, what is refused, what is kept."""

from __future__ import annotations

import gc
import time
import weakref

import numpy as np
import pytest

import gpunet
from conftest import DEADLINE
from gpunet import device as gn


@gpunet.kernel
def fill(
    net,
    out: gpunet.Array[np.float32],
    count: np.int32,
    value: float,
    flag: np.bool_,
):
    for at in range(gn.thread_index(), count, gn.block_size()):
        out[at] = value if flag else -value


def test_numpy_arrays_are_reached_where_they_are(emulated, net):
    out = np.zeros(100, np.float32)
    net.launch(fill, 1, 32, out, 100, 2.5, True).wait(DEADLINE)
    assert (out == 2.5).all()
    # Numbers of NumPy's, and of a narrower type.
    net.launch(fill, 1, 32, out[10:20], np.int16(10), np.float32(0.5), np.bool_(False)).wait(DEADLINE)
    assert (out[10:20] == -0.5).all() and (out[20:] == 2.5).all()


def test_buffers_go_in_and_out(gpu, net):
    out = gpu.buffer(np.arange(100, dtype=np.float32))
    net.launch(fill, 1, 32, out, 50, 1.0, True).wait(DEADLINE)
    assert list(np.asarray(out)) == [1.0] * 50 + list(range(50, 100))
    out.write([7, 8], start=3)
    assert list(out.read(2, 4)) == [1, 7, 8, 1]
    for start, count in ((99, 2), (-1, 1), (0, 101)):
        with pytest.raises(IndexError):
            out.read(start, count)
    with pytest.raises(IndexError):
        out.write(np.zeros(2, np.float32), 99)
    with pytest.raises(TypeError, match="takes no complex128"):
        out.write(np.zeros(1, complex))
    empty = gpu.buffer(0, np.float32)
    assert len(empty) == 0 and empty.numpy().size == 0
    net.launch(fill, 1, 32, empty, 0, 1.0, True).wait(DEADLINE)
    assert hasattr(out, "__cuda_array_interface__") == (gpu.kind == "cuda")


class Tensor:
    """What other libraries' tensors are: memory behind DLPack."""

    def __init__(self, array, device=(1, 0)):
        self.array, self.device = array, device

    def __dlpack__(self, **_):
        return self.array.__dlpack__()

    def __dlpack_device__(self):
        return self.device


def test_tensors_by_dlpack(emulated, net):
    array = np.zeros(64, np.float32)
    net.launch(fill, 1, 32, Tensor(array), 64, 3.0, True).wait(DEADLINE)
    assert (array == 3.0).all()
    for tensor, why in (
        (Tensor(array, (2, 0)), "CUDA's memory, which this GPU"),
        (Tensor(np.zeros((4, 4), np.float32).T[1]), "not C-contiguous"),
        (Tensor(np.zeros(4, np.int8)), "an array of int8"),
    ):
        with pytest.raises(gpunet.ArgumentError, match=why):
            net.launch(fill, 1, 32, tensor, 1, 3.0, True)


def test_wrong_arguments_name_kernel_parameter_and_types(emulated, net):
    out = np.zeros(4, np.float32)
    read_only = np.zeros(4, np.float32)
    read_only.flags.writeable = False
    wrong = [
        ((out, 1, 1.0), r"takes 4 arguments \(out: float32\[::1\], count: int32, value: float64, flag: bool\), given 3"),
        ((out, 1.5, 1.0, True), r"parameter 2 'count' takes int32, given float 1.5: no integer"),
        ((out, 2**31, 1.0, True), r"parameter 2 'count' takes int32, given int 2147483648: out of range"),
        ((out, np.int64(1), 1.0, True), r"parameter 2 'count' takes int32, .*a int64"),
        ((out, np.uint32(2**31), 1.0, True), r"parameter 2 'count' takes int32, .*out of range"),
        ((out, 1, "x", True), r"parameter 3 'value' takes float64, given str 'x': no number"),
        ((out, 1, 1.0, 1), r"parameter 4 'flag' takes bool, given int 1: neither True nor False"),
        ((5, 1, 1.0, True), r"parameter 1 'out' takes float32\[::1\], given int 5: no array"),
        ((out.astype(float), 1, 1.0, True), r"parameter 1 'out' takes float32\[::1\], .*an array of float64"),
        ((np.zeros((2, 2), np.float32), 1, 1.0, True), r"an array of float32\[:, ::1\]"),
        ((np.zeros(8, np.float32)[::2], 1, 1.0, True), r"not C-contiguous"),
        ((read_only, 1, 1.0, True), r"read-only"),
    ]
    for arguments, message in wrong:
        with pytest.raises(gpunet.ArgumentError, match=message) as error:
            net.launch(fill, 1, 32, *arguments)
        assert "kernel 'fill'" in str(error.value) and "\n" not in str(error.value)
        assert isinstance(error.value, TypeError)


@gpunet.kernel
def store_float(net, out: gpunet.Array[np.float64], value: np.float32):
    out[0] = value


def test_a_float_that_does_not_fit_is_refused(emulated, net):
    out = np.zeros(1)
    for value in (1e300, -1e300, 2**200):
        with pytest.raises(gpunet.ArgumentError, match="parameter 2 'value' takes float32, .*out of range"):
            net.launch(store_float, 1, 1, out, value)
    net.launch(store_float, 1, 1, out, float("inf")).wait(DEADLINE)
    assert out[0] == float("inf")


def test_a_buffer_beyond_all_addresses_is_refused(emulated):
    for shape in ((2**32, 2**32), 2**63, 2**64, (2**62, 4)):
        with pytest.raises(ValueError, match="larger than the address space"):
            emulated.buffer(shape)
    assert emulated.buffer((2**62, 0)).nbytes == 0


def test_a_buffer_of_another_gpu_is_refused(emulated, net):
    other = gpunet.Gpu("emulated")
    with pytest.raises(gpunet.GpuError, match="another GPU"):
        net.launch(fill, 1, 1, other.buffer(1, np.float32), 1, 1.0, True)


@gpunet.kernel
def hold(net, listener: gpunet.Socket, out: gpunet.Array[np.int64]):
    gn.accept(net, gn.BLOCK, listener)
    out[0] = 77


def test_arrays_live_as_long_as_the_kernel(emulated, net):
    listener = net.listen()
    # As large as memory that the allocator gives back at once.
    out = np.zeros(1 << 20, np.int64)
    gone = weakref.ref(out)
    launch = net.launch(hold, 1, 32, listener, out)
    del out
    gc.collect()
    assert gone() is not None
    launch.abort()
    launch.wait(DEADLINE)
    # It is let go of on another thread, and counted down when one of Python's comes by.
    end = time.monotonic() + DEADLINE
    while gone() is not None and time.monotonic() < end:
        net.statistics()
        time.sleep(0.01)
    assert gone() is None


def test_sockets_are_no_numbers(net):
    for value in (True, -1, 2**64, "x", None):
        with pytest.raises(gpunet.ArgumentError, match="no socket"):
            net.launch(hold, 1, 1, value, np.zeros(1, np.int64))


def test_settings_have_names_and_types(gpu):
    with gpunet.Net(
        gpu,
        sockets=8,
        reserved=2,
        unaccepted=4,
        ring=8192,
        ring_memory=1 << 20,
        proxy_threads=2,
        request_slots=8,
        timeout=5,
        linger=1.5,
        heartbeat_timeout=20,
        spin=1e-5,
        idle_sleep=1e-4,
        policy={"closed": True, "allow_connect": ["127.0.0.0/8"], "max_sockets": 4, "max_rate": 1 << 20},
        transport="tcp",
        placements=["bounce"],
        control_memory="host",
        on_print=print,
        on_fault=print,
    ) as net:
        assert net.statistics()["sockets"] == 0
    with pytest.raises(TypeError, match="no setting 'sokets'; it has: sockets, reserved, .*on_fault"):
        gpunet.Net(gpu, sokets=1)
    with pytest.raises(TypeError, match="setting 'sockets' takes int"):
        gpunet.Net(gpu, sockets="many")
    with pytest.raises(TypeError, match="a policy has no setting 'allow'"):
        gpunet.Net(gpu, policy={"allow": []})
    with pytest.raises(ValueError, match="is no rule"):
        gpunet.Net(gpu, policy={"allow_bind": ["nowhere"]})
    with pytest.raises(gpunet.SettingError, match="proxy threads: 1 to 64"):
        gpunet.Net(gpu, proxy_threads=65)
    with pytest.raises(ValueError, match="unknown transport 'udp'"):
        gpunet.Net(gpu, transport="udp")
    with pytest.raises(TypeError, match="on_print.*cannot be called"):
        gpunet.Net(gpu, on_print=5)


def test_gpus_and_addresses():
    with pytest.raises(gpunet.GpuError, match="use auto, cuda, cuda:N or emulated"):
        gpunet.Gpu("opengl")
    with pytest.raises(ValueError, match="of the emulated GPU"):
        gpunet.Gpu("auto", seed=1)
    with gpunet.Gpu("emulated", seed=7) as gpu:
        assert gpu.kind == "emulated"
    with pytest.raises(gpunet.ClosedError, match="closed"):
        gpu.buffer(1)
    for text, pair in (("127.0.0.1:80", ("127.0.0.1", 80)), ("[::1]:443", ("::1", 443))):
        address = gpunet.Address(text)
        assert str(address) == text and address.pair() == pair and address == gpunet.Address(pair)
        assert gpunet.Address.from_words(address.to_words()) == address
    assert str(gpunet.Address("unix:/tmp/x")) == "unix:/tmp/x"
    paths = ("unix:/" + "x" * 200, "unix:", "unix:/a\0b")
    for wrong in ("localhost", "host:80x", "example.org:80", "127.0.0.1:65536", *paths):
        with pytest.raises(ValueError):
            gpunet.Address(wrong)


def test_an_address_that_is_taken(net):
    with net.listen() as listener:
        with pytest.raises(gpunet.SocketError, match="another socket has that port") as error:
            net.listen(listener.address)
        assert gpunet.errno_name(error.value.errno) == "EADDRINUSE"
