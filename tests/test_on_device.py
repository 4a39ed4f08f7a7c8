"""The launcher of CUDA kernels: arrays of a device go in, results come back there, on the library's stream.

No device is here: the driver is an interpreter of PTX (device/fake.py), and arrays of a device are memory of
NumPy. A library of C (device/driver.c) stands in for NVIDIA's driver, and notes how it is called.
"""

import copy
import gc
import os
import pickle
import re
import subprocess
import sys
import threading
import types
from pathlib import Path

import numpy as np
import pytest
from device import budgets, nvrtc
from device.fake import FakeArray, Interpreter, Library, on_device
from native import compiled
from test_cuda import UNFUSED

import liebody as lb
from liebody.base.concurrency import lock_of, unlock
from liebody.base.errors import (
    ArgumentError,
    CompilerError,
    DeviceError,
    GraphError,
    MissingPackage,
    ShapeError,
)
from liebody.compiler import DeviceKernel, trace
from liebody.compiler.native import build, cache, device_queue, driver
from liebody.compiler.native import nvrtc as native_nvrtc
from liebody.compiler.native.driver import CudaDriver
from liebody.control import QuadraticProgram

needs_nvrtc = pytest.mark.skipif(bool(nvrtc.missing()), reason=nvrtc.missing() or "NVRTC is installed")
pytestmark = needs_nvrtc


@pytest.fixture
def gpu(monkeypatch):
    """The interpreter as the driver of this process."""
    interpreter = Interpreter()
    monkeypatch.setattr(device_queue, "driver", lambda: interpreter)
    return interpreter


def law(q, K):
    return {"tau": K @ q, "s": q[0] * q[1] + 1}


LAW = trace(law, {"q": 2, "K": (2, 2)}, "law")
Q = np.array([[1.0, 2.0], [3.0, 5.0], [-1.0, 0.5]])
K = np.array([[2.0, 0.0], [1.0, 4.0]])


def on_host(function, arrays):
    """Results of the C of this library, which fuses nothing, for arrays (n, *shape)."""
    status, results = compiled(function, single=arrays[0].dtype == np.float32, flags=UNFUSED)(*arrays)
    assert status == 0
    return results


# -- calls --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shows", ["interface", "dlpack"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_arrays_of_a_device_go_in_and_come_back(gpu, shows, dtype):
    q = on_device(Q, gpu, shows, dtype=dtype)
    gains = on_device(K, gpu, shows, dtype=dtype)
    tau, s = DeviceKernel(LAW)(q, gains)
    assert type(tau) is FakeArray and tau.dtype == dtype and s.shape == (3,)
    np.testing.assert_array_equal(tau.strided, Q @ K.T)  # small whole numbers: exact
    np.testing.assert_array_equal(s.strided, Q[:, 0] * Q[:, 1] + 1)
    assert gpu.launches == [(0, 1, 160, 0)]


def test_single_states_batches_of_any_axes_and_none_at_all(gpu):
    kernel = DeviceKernel(LAW)
    gains = on_device(K, gpu)
    tau, s = kernel(on_device(Q[0], gpu), gains)
    assert tau.shape == (2,) and s.shape == ()
    np.testing.assert_array_equal(tau.strided, K @ Q[0])
    many = np.arange(2 * 300 * 2.0).reshape(2, 300, 2)
    each = np.broadcast_to(K, (2, 300, 2, 2)).copy()
    each[1] *= 2
    tau, _ = kernel(on_device(many, gpu), on_device(each, gpu))
    np.testing.assert_array_equal(tau.strided, np.einsum("...ij,...j->...i", each, many))
    assert gpu.launches[-1] == (0, 4, 160, 0)  # 600 states in blocks of 160
    count = len(gpu.launches)
    tau, s = kernel(on_device(Q[:0], gpu), gains)
    assert tau.shape == (0, 2) and s.shape == (0,) and len(gpu.launches) == count


def test_rows_at_equal_distances_are_read_where_they_lie(gpu):
    wide = on_device(np.arange(24.0).reshape(4, 6), gpu)
    gains = on_device(K, gpu)
    tau, _ = DeviceKernel(LAW)(wide[:, 2:4], gains)
    np.testing.assert_array_equal(tau.strided, wide.strided[:, 2:4] @ K.T)
    tau, _ = DeviceKernel(LAW)(wide[::-2, 2:4], gains)
    np.testing.assert_array_equal(tau.strided, wide.strided[::-2, 2:4] @ K.T)
    with pytest.raises(ShapeError, match=r"law: q \(4, 2\) has steps \(6, 3\).*contiguous\(\) of PyTorch"):
        DeviceKernel(LAW)(wide[:, ::3], gains)


def test_results_go_into_arrays_that_are_given(gpu):
    kernel = DeviceKernel(LAW)
    q, gains = on_device(Q, gpu), on_device(K, gpu)
    out = on_device(np.zeros((3, 2)), gpu), on_device(np.zeros(3), gpu)
    results = kernel(q, gains, out=out)
    assert all(y is target for y, target in zip(results, out, strict=True))
    np.testing.assert_array_equal(out[0].strided, Q @ K.T)
    twice = DeviceKernel(trace(lambda x: 2 * x, {"x": 2}, "twice"))
    assert twice(q, out=out[0]) is out[0]
    np.testing.assert_array_equal(out[0].strided, 2 * Q)
    for wrong, words in (
        (q, "out for .* overlaps with an argument"),
        (q[:2], r"out for .* has shape \(2, 2\)"),
        (on_device(Q, gpu, dtype=np.float32), "holds another type"),
        (on_device(Q, gpu, device=1), "lies on another device"),
        (on_device(np.zeros((3, 4)), gpu)[:, :2], "is not in C order without gaps"),
        ((out[0], out[1]), "has 1 outputs"),
        (Q, "out for .* is a numpy.ndarray in memory of the CPU"),
    ):
        with pytest.raises((ShapeError, DeviceError), match=words):
            twice(q, out=wrong)
    square = DeviceKernel(trace(lambda x: (2 * x, 3 * x), {"x": 2}, "square"))
    with pytest.raises(ShapeError, match=r"out for .* overlaps with another result"):
        square(q, out=(out[0], out[0]))
    out[0].strided.flags.writeable = False
    with pytest.raises(ShapeError, match="is read-only"):
        twice(q, out=out[0])


ROBOTS = [
    pytest.param(name, dtype, marks=[] if (name, dtype) == ("ur5", np.float64) else pytest.mark.wide)
    for name in ("ur5", "anymal")
    for dtype in (np.float64, np.float32)
]


@pytest.mark.parametrize(("name", "dtype"), ROBOTS)
def test_calls_of_robots_equal_c_to_the_bit(gpu, name, dtype):
    robot = budgets.robot(name)
    calls = robot.on_device("cuda", fused=False)
    rng = np.random.default_rng(3)
    q = robot.random(rng, 40).astype(dtype)
    v, a = rng.standard_normal((2, 40, robot.nv)).astype(dtype)
    wrenches = rng.standard_normal((40, len(robot.tree.bodies), 6)).astype(dtype)
    given = [on_device(x, gpu) for x in (q, v, a)]
    for call in ("inverse_dynamics", "forward_dynamics"):
        (exact,) = on_host(robot.kernel(call).function.unroll(), [q, v, a])
        np.testing.assert_array_equal(getattr(calls, call)(*given).strided, exact)
    (exact,) = on_host(robot.kernel("inverse_dynamics_wrenches").function.unroll(), [q, v, a, wrenches])
    result = calls.inverse_dynamics(*given, wrenches=on_device(wrenches, gpu))
    np.testing.assert_array_equal(result.strided, exact)
    pull = calls.derivatives("inverse_dynamics", ("q", "v"), "vjp")
    exact = on_host(robot.derivatives("inverse_dynamics", ("q", "v"), "vjp").function.unroll(), [q, v, a, a])
    for ours, theirs in zip(pull(*given, given[2]), exact, strict=True):
        np.testing.assert_array_equal(ours.strided, theirs)


def test_robots_on_a_device_have_the_calls_and_options_of_robots(gpu):
    robot = lb.models.puma560()
    calls = robot.on_device()
    q = on_device(robot.random(0, 5), gpu)
    ours = calls.jacobian(q, frame="link6")
    np.testing.assert_allclose(ours.strided, robot.jacobian(q.strided, frame="link6"), rtol=0, atol=1e-13)
    assert calls.kernel("jacobian", frame="link6") is calls.kernel("jacobian", frame="link6")
    assert "jacobian" in dir(calls) and "Newton-Euler" in calls.inverse_dynamics.__doc__
    assert isinstance(calls.centroidal_momentum_matrix(q), FakeArray)
    with pytest.raises(AttributeError, match=r"no call 'jacobain'.*did you mean 'jacobian'"):
        _ = calls.jacobain
    with pytest.raises(ArgumentError, match=r"jacobian\(q, frame.*missing a required argument"):
        calls.jacobian(q)
    with pytest.raises(ArgumentError, match="device is 'tpu', expected 'cuda'"):
        robot.on_device("tpu")
    with pytest.raises(lb.LiebodyError, match="no free parameters"):
        calls.gravity(q, parameters=q)


def test_parameters_are_arrays_of_the_device(gpu):
    robot = lb.models.puma560().with_parameters("link3.mass")
    calls = robot.on_device()
    states = robot.random(0, 5)
    q = on_device(states, gpu)
    with pytest.raises(DeviceError, match=r"free parameters \(link3.mass\), expected .* on the device"):
        calls.gravity(q)
    for mass in (np.array([3.0]), np.arange(1.0, 6.0)[:, None]):  # one for all states, one for each
        ours = calls.gravity(q, parameters=on_device(mass, gpu))
        exact = robot.gravity(states, parameters=mass)
        np.testing.assert_allclose(ours.strided, exact, rtol=0, atol=1e-12)


# -- streams and libraries ----------------------------------------------------------------------------------


class Device:
    """A device of CuPy: arrays are made within it."""

    current = None

    def __init__(self, number):
        self.number = number

    def __enter__(self):
        Device.current = self.number

    def __exit__(self, *error):
        Device.current = None


def stream_with(name, number):
    return types.SimpleNamespace(**{name: number})


def test_work_of_pytorch_is_queued_on_its_current_stream(gpu, monkeypatch):
    asked = []

    def empty(shape, dtype, device):
        return torch.array(np.empty(shape, dtype), device)

    cuda = types.SimpleNamespace(
        current_stream=lambda device: asked.append(device) or stream_with("cuda_stream", 77)
    )
    torch = Library("torch", monkeypatch, gpu, empty=empty, cuda=cuda)
    tau, _ = DeviceKernel(LAW)(torch.array(Q, 1), torch.array(K, 1))
    assert type(tau) is torch.kind and tau.device == 1
    np.testing.assert_array_equal(tau.strided, Q @ K.T)
    assert gpu.launches == [(1, 1, 160, 77)] and set(asked) == {1} and gpu.waits == []


def test_tensors_that_pytorch_differentiates_by_are_read_detached(gpu, monkeypatch):
    cuda = types.SimpleNamespace(current_stream=lambda device: stream_with("cuda_stream", 5))
    empty = lambda shape, dtype, device: torch.array(np.empty(shape, dtype), device)  # noqa: E731
    torch = Library("torch", monkeypatch, gpu, empty=empty, cuda=cuda)
    q, gains = torch.array(Q), torch.array(K)
    q.requires_grad, q.detach = True, lambda: torch.kind(q.strided, gpu)
    q.shows = "nothing"  # PyTorch raises an error where such a tensor is asked for its interface
    tau, _ = DeviceKernel(LAW)(q, gains)
    np.testing.assert_array_equal(tau.strided, Q @ K.T)


def test_work_of_cupy_is_queued_on_its_current_stream(gpu, monkeypatch):
    streams = types.SimpleNamespace(get_current_stream=lambda: stream_with("ptr", 10 + Device.current))
    empty = lambda shape, dtype: cupy.array(np.empty(shape, dtype), Device.current)  # noqa: E731
    cupy = Library("cupy", monkeypatch, gpu, empty=empty, cuda=streams)
    q, gains = cupy.array(Q, 1), cupy.array(K, 1)
    q.device = gains.device = Device(1)
    tau, _ = DeviceKernel(LAW)(q, gains)
    np.testing.assert_array_equal(tau.strided, Q @ K.T)
    assert gpu.launches == [(1, 1, 160, 11)] and gpu.waits == []


def test_work_of_warp_is_queued_on_the_stream_of_its_device(gpu, monkeypatch):
    where = types.SimpleNamespace(stream=stream_with("cuda_stream", 9))  # None: the default stream

    def empty(shape, dtype, device):
        assert dtype == "double" and device is where
        return warp.array(np.empty(shape))

    kinds = {np.dtype(np.float64): "double"}
    warp = Library("warp", monkeypatch, gpu, empty=empty, dtype_from_numpy=kinds.__getitem__)
    q, gains = warp.array(Q), warp.array(K)
    q.device = gains.device = where
    tau, _ = DeviceKernel(LAW)(q, gains)
    np.testing.assert_array_equal(tau.strided, Q @ K.T)
    q.requires_grad = True  # Warp has such arrays, too, and shows their memory
    where.stream.cuda_stream = None
    DeviceKernel(LAW)(q, gains)
    assert gpu.launches == [(0, 1, 160, 9), (0, 1, 160, 0)]


def test_libraries_without_streams_are_waited_for(gpu):
    kernel = DeviceKernel(LAW)
    for stream, used in ((None, 0), (1, 0), (42, 42)):  # 1 is the default stream of the interface
        q, gains = on_device(Q, gpu), on_device(K, gpu)
        q.stream = gains.stream = stream
        kernel(q, gains)
        assert gpu.launches[-1][3] == used and gpu.waits[-1] == (0, used)


def test_streams_that_other_arrays_name_are_waited_for(gpu):
    q, gains = on_device(Q, gpu), on_device(K, gpu)
    q.stream, gains.stream = 42, 43
    tau, _ = DeviceKernel(LAW)(q, gains)
    np.testing.assert_array_equal(tau.strided, Q @ K.T)
    assert gpu.waits == [(0, 43), (0, 42)]  # before the launch, and after it


def test_arrays_without_numbers_are_on_any_device(gpu):
    kernel = DeviceKernel(trace(lambda e, x: 2 * x, {"e": 0, "x": 2}, "twice"))
    nothing = on_device(np.zeros((3, 0)), gpu)  # its interface names no memory
    doubled = kernel(nothing, on_device(Q, gpu, device=1), out=on_device(np.zeros((3, 2)), gpu, device=1))
    np.testing.assert_array_equal(doubled.strided, 2 * Q)
    assert gpu.launches == [(1, 1, 160, 0)]


def test_libraries_that_make_no_arrays_are_given_them(gpu, monkeypatch):
    monkeypatch.delattr(FakeArray, "__array_namespace__")
    q, gains = on_device(Q, gpu), on_device(K, gpu)
    with pytest.raises(DeviceError, match=r"device.FakeArray does not follow; give arrays for them as `out`"):
        DeviceKernel(LAW)(q, gains)
    tau, _ = DeviceKernel(LAW)(q, gains, out=(on_device(np.zeros((3, 2)), gpu), on_device(np.zeros(3), gpu)))
    np.testing.assert_array_equal(tau.strided, Q @ K.T)


# -- errors -------------------------------------------------------------------------------------------------


def test_arrays_of_the_cpu_are_refused_with_a_remedy(gpu):
    kernel = DeviceKernel(LAW)
    gains = on_device(K, gpu)
    words = r"law: q is a numpy.ndarray in memory of the CPU, expected .* as cupy.asarray\(q\), torch.as_t"
    with pytest.raises(DeviceError, match=words):
        kernel(Q, gains)
    with pytest.raises(DeviceError, match=r"law: q is a builtins.list, expected an array on a CUDA device"):
        kernel([1.0, 2.0], gains)
    elsewhere = FakeArray(Q.copy(), gpu)
    with pytest.raises(DeviceError, match=r"names the address 0x.*, which is memory of the CPU"):
        kernel(elsewhere, gains)
    assert gpu.launches == []


def test_wrong_shapes_types_and_mixtures_are_refused(gpu, monkeypatch):
    kernel = DeviceKernel(LAW)
    q, gains = on_device(Q, gpu), on_device(K, gpu)
    other = Library("torch", monkeypatch, gpu)
    for arrays, words in (
        ((q,), r"law takes 2 arrays \(q, K\), got 1"),
        ((on_device(Q.T, gpu), gains), r"law: q has shape \(2, 3\), expected \(2,\) or a batch"),
        ((q, on_device(np.stack([K, K]), gpu)), r"all leading axes of the batch, \(3,\), or none"),
        ((q, on_device(K, gpu, dtype=np.float32)), r"several types \(q: float64, K: float32\).*in silence"),
        ((q, on_device(K, gpu, device=1)), r"several devices \(q: 0, K: 1\)"),
        ((q, other.array(K)), r"several libraries \(q: device, K: torch\)"),
        ((on_device(Q.astype(int), gpu), on_device(K.astype(int), gpu)), "hold int64, expected float32 or"),
    ):
        with pytest.raises((ShapeError, DeviceError), match=words):
            kernel(*arrays)
    assert gpu.launches == []


def test_functions_without_kernels_for_devices_are_refused(gpu):
    with pytest.raises(GraphError, match="no kernel for devices"):
        DeviceKernel(QuadraticProgram(2, 0, 1).kernel).source()
    constant = DeviceKernel(trace(lambda: np.ones(2), {}, "constant"))
    with pytest.raises(ShapeError, match="takes no arrays"):
        constant()


def test_without_a_driver_the_error_names_the_remedy(monkeypatch):
    monkeypatch.setattr(driver, "LIBRARY", "libno-such-driver.so.1")
    with pytest.raises(DeviceError, match=r"no driver of CUDA here \(.*libno-such.*NVIDIA GPU.*NumPy arrays"):
        CudaDriver("libno-such-driver.so.1")
    monkeypatch.setattr(device_queue, "driver", lambda: CudaDriver("libno-such-driver.so.1"))
    with pytest.raises(DeviceError, match="no driver of CUDA here"):
        lb.models.puma560().on_device().gravity(np.zeros(6))


def test_without_a_compiler_the_error_names_the_wheel(gpu, monkeypatch):
    monkeypatch.setattr(native_nvrtc, "newest", lambda pattern: None)
    with pytest.raises(MissingPackage, match="pip install nvidia-cuda-nvrtc"):
        DeviceKernel(LAW)(on_device(Q, gpu), on_device(K, gpu))


def test_the_words_of_the_compiler_reach_the_user():
    with pytest.raises(CompilerError, match=r'(?s)cannot compile for sm_90: .*identifier "y" is undef'):
        native_nvrtc.compile_cuda('extern "C" __global__ void f(double *x) { *x = y; }', "sm_90")


# -- the cache, threads, pickles ----------------------------------------------------------------------------


def test_images_are_compiled_once_and_found_by_the_next_process(gpu, monkeypatch, tmp_path):
    monkeypatch.setenv("LIEBODY_CACHE", str(tmp_path))
    monkeypatch.setattr(cache, "_chosen", None)
    robot = lb.models.puma560()
    q = on_device(robot.random(0, 3), gpu)
    first = robot.on_device().gravity(q)
    files = [x for x in (tmp_path / "kernels").iterdir() if x.suffix == ".cubin"]
    assert len(files) == 1

    def refused(*_, **__):
        raise AssertionError("compiled again")

    monkeypatch.setattr(native_nvrtc, "compile_cuda", refused)
    monkeypatch.setattr(DeviceKernel, "source", refused)  # its recipe determines it, so nothing is traced
    again = lb.models.puma560().on_device().gravity(q)
    np.testing.assert_array_equal(first.strided, again.strided)
    files[0].write_bytes(files[0].read_bytes()[:-1])  # damaged: not used
    with pytest.raises(AssertionError, match="compiled again"):
        lb.models.puma560().on_device().gravity(q)
    assert cache.prune(0)[0] >= 1 and not files[0].exists()


def test_machine_code_is_made_without_a_device():
    image = DeviceKernel(LAW).image("sm_90", np.float32)
    assert image[:4] == b"\x7fELF"


def test_threads_load_a_kernel_once(gpu):
    kernel = DeviceKernel(LAW)
    q, gains = on_device(Q, gpu), on_device(K, gpu)
    results = [None] * 4
    start = threading.Barrier(4)

    def work(k):
        start.wait()
        results[k] = kernel(q, gains)[0].strided

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert gpu.loads == [0]
    for y in results:
        np.testing.assert_array_equal(y, Q @ K.T)


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_copies_and_pickles_compute_the_same(gpu, again):
    q, gains = on_device(Q, gpu), on_device(K, gpu)
    kernel = DeviceKernel(LAW, fused=False)
    kernel(q, gains)
    copied = again(kernel)
    assert copied.fused is False and repr(copied) == "DeviceKernel law(q[2], K[2, 2])"
    np.testing.assert_array_equal(copied(q, gains)[0].strided, Q @ K.T)
    calls = again(lb.models.puma560().on_device())
    assert calls.gravity(on_device(np.zeros(6), gpu)).shape == (6,)


# -- NVIDIA's driver, stood in for by C ---------------------------------------------------------------------


@pytest.fixture
def stand_in(tmp_path, monkeypatch):
    """A library with the driver's functions, compiled against NVIDIA's declarations of them."""
    header = native_nvrtc.newest("include/cuda.h")
    if header is None:
        pytest.skip("cuda.h is not installed: pip install '.[cuda]'")
    source = Path(__file__).parent / "device" / "driver.c"
    library = tmp_path / "libcuda.so"
    command = [*build.find_compiler().command, "-shared", "-fPIC", "-w", f"-I{header.parent}"]
    subprocess.run([*command, source, "-o", library], check=True)
    monkeypatch.setenv("NOTES", str(tmp_path / "notes"))
    return library


def test_the_driver_is_called_as_its_header_declares(stand_in, tmp_path):
    cuda = CudaDriver(str(stand_in))
    assert cuda.target(3) == "sm_91"
    assert cuda.device_of(0x7000000000003000) == 3
    assert cuda.device_of(0x7000000000001000) == cuda.device_of(0x7000000000002000) == -1
    assert cuda.device_of(0x7000000000004000) == 3  # where this thread has no context, one is made current
    with pytest.raises(DeviceError, match="refused cuPointerGetAttribute"):
        cuda.device_of(0x7000000000005000)
    kernel = cuda.load(3, b"IMAGE...", "kernel")
    cuda.launch(kernel, 3, 2_000_000_000, 160, 0x7FFFEEEEDDDDCCCC, [0x7000000000003000, 1 << 40, -5])
    cuda.wait(3, 0x7FFFEEEEDDDDCCCC)
    cuda.write(3, 0x7000000000003000, b"DATA", 9)
    assert cuda.read(3, 0x7000000000003000, 3, 9) == b"\7\7\7"
    del kernel
    gc.collect()
    assert (tmp_path / "notes").read_text().splitlines() == [
        "retain 100",
        "retain 103",  # once
        "function kernel",
        "launch 1 33445566778899aa grid 2000000000 1 1 block 160 1 1 shared 0 stream 7fffeeeeddddcccc "
        "extra 0 arguments 7000000000003000 10000000000 -5",  # within the device's context
        "wait 7fffeeeeddddcccc",
        "write 7000000000003000 4 DATA stream 9",
        "wait 9",
        "read 7000000000003000 3 stream 9",
        "wait 9",
        "wait for all",
        "unload 1 2233445566778899",  # nobody holds the kernel; within the context of its device
    ]
    with pytest.raises(DeviceError, match="cuModuleLoadData, CUDA_ERROR_INVALID_IMAGE: words of the driver"):
        cuda.load(3, b"another", "kernel")


def test_a_machine_without_a_device_is_told(stand_in, monkeypatch):
    monkeypatch.setenv("NO_DEVICE", "1")
    with pytest.raises(DeviceError, match=r"no driver of CUDA here \(CUDA_ERROR_NO_DEVICE: words"):
        CudaDriver(str(stand_in))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_forked_processes_are_told_to_be_spawned(stand_in):
    script = f"""
import os
from liebody.compiler.native.driver import CudaDriver
cuda = CudaDriver({str(stand_in)!r})
child = os.fork()
if not child:
    try:
        cuda.target(3)
    except ValueError as error:
        print(error, flush=True)
    os._exit(0)
os.waitpid(child, 0)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert "forked from one that uses CUDA" in done.stdout and "get_context('spawn')" in done.stdout


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_modules_are_unloaded_in_their_own_process_alone_and_not_at_its_end(stand_in, tmp_path):
    script = f"""
import gc, os
from liebody.compiler.native.driver import CudaDriver
cuda = CudaDriver({str(stand_in)!r})
kernels = [cuda.load(3, b"IMAGE...", "kernel") for _ in range(3)]
if not os.fork():
    del kernels
    gc.collect()
    os._exit(0)
os.wait()
kernels.pop()
gc.collect()
"""
    subprocess.run([sys.executable, "-c", script], check=True)
    notes = (tmp_path / "notes").read_text().splitlines()
    assert notes.count("function kernel") == 3
    assert [x for x in notes if x.startswith("unload")] == ["unload 1 2233445566778899"]


def test_kernels_that_are_collected_in_any_thread_are_unloaded(stand_in, tmp_path):
    cuda = CudaDriver(str(stand_in))
    kernels = [cuda.load(3, b"IMAGE...", "kernel") for _ in range(8)]
    threads = [threading.Thread(target=kernels.pop) for _ in range(8)]
    with lock_of(cuda, 3):  # the collector may run where a lock is held
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(10)
            assert not thread.is_alive()
    unlock(cuda, 3)
    assert (tmp_path / "notes").read_text().count("unload") == 8


def test_every_function_of_the_driver_that_is_called_is_declared_by_nvidia():
    header = native_nvrtc.newest("include/cuda.h")
    if header is None:
        pytest.skip("cuda.h is not installed: pip install '.[cuda]'")
    text = header.read_text()
    called = set(ctypes_calls(Path(driver.__file__).read_text()))
    assert len(called) >= 10
    for name in called:
        assert f"CUDAAPI {name}(" in text or f"{name.removesuffix('_v2')}_v2" in text, name


def ctypes_calls(source):
    """Names of the driver's functions in a Python source."""
    return re.findall(r"\bcu[A-Z]\w+\b", source)


# -- JAX ----------------------------------------------------------------------------------------------------


@pytest.fixture
def jax(monkeypatch):
    """JAX, whose arrays of the CPU stand in for those of a device."""
    module = pytest.importorskip("jax")
    monkeypatch.setattr(device_queue, "driver", lambda: Interpreter(device_type=1))
    with module.enable_x64(True):
        yield module


def test_arrays_of_jax_go_in_and_come_back(jax):
    q, gains = jax.numpy.asarray(Q), jax.numpy.asarray(K)
    tau, s = DeviceKernel(LAW)(q, gains)
    assert isinstance(tau, jax.Array) and isinstance(s, jax.Array)
    np.testing.assert_array_equal(tau, Q @ K.T)
    np.testing.assert_array_equal(s, Q[:, 0] * Q[:, 1] + 1)
    again, _ = DeviceKernel(LAW)(q + 1, gains)
    np.testing.assert_array_equal(again, (Q + 1) @ K.T)
    np.testing.assert_array_equal(tau, Q @ K.T)


def test_tracers_of_jax_are_refused(jax):
    with pytest.raises(DeviceError, match=r"Tracer.*expected an array on a CUDA device"):
        jax.jit(DeviceKernel(LAW))(jax.numpy.asarray(Q), jax.numpy.asarray(K))


def test_arrays_of_jax_in_memory_of_the_cpu_are_refused(gpu):
    jax = pytest.importorskip("jax")
    with pytest.raises(DeviceError, match=r"in memory of the CPU.*jax.device_put\(q\)"):
        DeviceKernel(LAW)(jax.numpy.asarray(Q), jax.numpy.asarray(K))


# -- marches ------------------------------------------------------------------------------------------------


def marched(function, arrays, dt, steps, t, dtype):
    """States after some steps of the C of this library, which fuses nothing; times are sums of doubles."""
    run = compiled(function, single=dtype == np.float32, flags=UNFUSED)
    q, v, *held = arrays
    for k in range(steps):
        status, (q, v) = run(np.full(len(q), t + k * dt), q, v, *held)
        assert status == 0
    return q, v


MARCHES = [
    pytest.param(name, dtype, marks=[] if name == "pendulum" else pytest.mark.wide)
    for name in ("pendulum", "ur5", "panda", "anymal")
    for dtype in (np.float64, np.float32)
]


@pytest.mark.parametrize(("name", "dtype"), MARCHES)
def test_steps_on_a_device_equal_c_to_the_bit(gpu, name, dtype):
    robot = lb.models.double_pendulum() if name == "pendulum" else budgets.robot(name)
    stepper = lb.stepper(robot, dt=1e-3, method="rkmk4")
    march = stepper.on_device(fused=False)
    rng = np.random.default_rng(4)
    q = robot.random(rng, 7).astype(dtype)
    v, u = rng.standard_normal((2, 7, robot.nv)).astype(dtype)
    ours = march(*(on_device(x, gpu) for x in (q, v, u)), steps=3)
    assert len(gpu.launches) == 1
    for x, exact in zip(ours, marched(stepper.function(), (q, v, u), 1e-3, 3, 0.0, dtype), strict=True):
        assert x.dtype == dtype and not np.array_equal(exact, q)
        np.testing.assert_array_equal(x.strided, exact)


MARCH_BUDGETS = {  # registers, rounded up to multiples of eight, and spilled bytes on sm_90 (decision 52)
    ("ur5", "float64"): (208, 0),
    ("ur5", "float32"): (128, 0),
    ("panda", "float64"): (168, 0),
    ("panda", "float32"): (96, 24),
    ("anymal", "float64"): (255, 0),
    ("anymal", "float32"): (128, 0),
}


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        pytest.param(*key, marks=pytest.mark.wide if key[0] == "ur5" else pytest.mark.slow)
        for key in MARCH_BUDGETS
    ],
)
def test_steps_compile_without_warnings_within_their_registers(name, dtype):
    march = lb.stepper(budgets.robot(name), dt=1e-3, joints="ideal").on_device()
    (taken,) = nvrtc.resources(nvrtc.ptx(march.source(dtype), 90), 90).values()
    registers, spilled = MARCH_BUDGETS[name, dtype]
    assert taken.registers <= registers and taken.spilled <= spilled


def test_steps_know_the_time_and_efforts_of_one_row(gpu):
    step = trace(lambda t, x, u: x + t * u, {"t": (), "x": 2, "u": 2}, "step")
    march = lb.compiler.DeviceMarch(step, 0.25)
    x, u = on_device(np.ones((3, 2)), gpu), on_device(np.array([1.0, 2.0]), gpu)
    end = march(x, u, t=2.0, steps=4)  # x + (2 + 2.25 + 2.5 + 2.75) u, exact in binary
    np.testing.assert_array_equal(end.strided, np.tile([1 + 9.5, 1 + 19.0], (3, 1)))
    copied = pickle.loads(pickle.dumps(march))
    np.testing.assert_array_equal(copied(x, u, t=2.0, steps=4).strided, end.strided)
    other = lb.compiler.DeviceMarch(step, 0.5)(x, u, t=2.0, steps=4)  # dt is part of the kernel
    np.testing.assert_array_equal(other.strided, np.tile([1 + 11.0, 1 + 22.0], (3, 1)))


def test_steps_of_a_stepper_on_a_device_are_those_of_simulate(gpu):
    robot = lb.models.puma560().with_parameters("link3.mass")
    stepper = lb.stepper(robot, dt=1e-3)
    rng = np.random.default_rng(5)
    q = robot.random(rng, 4)
    u = rng.standard_normal((4, 6))
    mass = np.array([[3.0], [4.0], [5.0], [6.0]])
    given = [on_device(x, gpu) for x in (q, np.zeros((4, 6)), u, mass)]
    ours = stepper.on_device()(*given, steps=10)
    run = lb.simulate(robot, q, t_end=0.01, dt=1e-3, tau=u, parameters={"link3.mass": mass[:, 0]})
    for x, exact in zip(ours, (run.q[..., -1, :], run.v[..., -1, :]), strict=True):
        np.testing.assert_allclose(x.strided, exact, rtol=0, atol=1e-12)


def test_steps_of_a_stepper_in_float32_are_computed_in_the_type_of_the_arrays(gpu):
    robot = lb.models.double_pendulum()
    sim = lb.stepper(robot, dt=1e-3, members=5, dtype="float32")
    march = sim.on_device()
    assert repr(march) == "DeviceMarch step(q[2], v[2], u[2])"
    q = robot.random(0, 5).astype(np.float32)
    v, u = np.ones((2, 5, 2), np.float32)
    end = sim.step(sim.start(q, v), u, steps=10)
    exact = lb.stepper(robot, dt=1e-3, members=5)
    exact_end = exact.step(exact.start(q, v), u, steps=10)
    for dtype, (q_end, v_end), most in (
        (np.float32, (end.q, end.v), 20 * np.finfo(np.float32).eps),  # two roundings a step
        (np.float64, (exact_end.q, exact_end.v), 1e-13),
    ):
        ours = march(*(on_device(x, gpu, dtype=dtype) for x in (q, v, u)), steps=10)
        for x, y in zip(ours, (q_end, v_end), strict=True):
            assert x.dtype == y.dtype == dtype
            np.testing.assert_allclose(x.strided, y, rtol=0, atol=most * max(1, np.abs(y).max()))


def test_wrong_marches_are_refused_with_a_remedy(gpu):
    robot = lb.models.puma560()
    with pytest.raises(lb.LiebodyError, match="no events yet"):
        lb.stepper(robot, dt=1e-3, events={"e": lambda t, q, v: q[0]}).on_device()
    with pytest.raises(ArgumentError, match="device is 'cpu', expected 'cuda'"):
        lb.stepper(robot, dt=1e-3).on_device("cpu")
    with pytest.raises(GraphError, match="law is no step"):
        lb.compiler.DeviceMarch(LAW, 0.1)
    with pytest.raises(lb.LiebodyError, match="steps"):
        lb.stepper(robot, dt=1e-3).on_device()(*(on_device(np.zeros((2, 6)), gpu),) * 3, steps=0)
