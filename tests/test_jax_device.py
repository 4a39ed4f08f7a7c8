"""Functions of JAX on CUDA devices: their programs, and the handler that XLA calls.

No device is here. XLA on the CPU makes the call frames and reads the errors; the stream that it would give
on a device, and NVIDIA's functions, are stood in for. The interpreter of PTX runs kernels on XLA's buffers.
"""

# ruff: noqa: F811 - fixtures of another file
from __future__ import annotations

import ctypes
import functools
import re

import numpy as np
import pytest
from device import nvrtc
from device.fake import Interpreter
from native import compiled
from test_cuda import UNFUSED
from test_on_device import stand_in  # noqa: F401

import liebody as lb
from liebody.compiler import DeviceKernel, trace, vjp
from liebody.compiler.native import build, foreign
from liebody.compiler.native.device_code import DeviceCode
from liebody.compiler.native.driver import CudaDriver

jax = pytest.importorskip("jax", reason="the test extra `jax` is not installed")

import liebody.interop.jax as functions  # noqa: E402

jax.config.update("jax_enable_x64", True)
needs_nvrtc = pytest.mark.skipif(bool(nvrtc.missing()), reason=nvrtc.missing() or "NVRTC is installed")
ROWS = 200  # two blocks
LINKED = trace(lambda q, k: {"y": k * q + q[0] * q[1]}, {"q": 2, "k": ()}, "linked")

# XLA's frame with a stream in it, handed on to a handler
STREAM = """
#include <stdint.h>
#include <xla/ffi/api/c_api.h>
static XLA_FFI_Handler *handler;
static void *stream, *expected;
void use(XLA_FFI_Handler *given, void *queue) { handler = given, stream = queue; }
static XLA_FFI_Error *stream_get(XLA_FFI_Stream_Get_Args *args) {
    const int right = args->struct_size == XLA_FFI_Stream_Get_Args_STRUCT_SIZE &&
                      !args->extension_start && args->ctx == expected;
    args->stream = right ? stream : 0;
    return 0;
}
XLA_FFI_Error *handle(XLA_FFI_CallFrame *frame) {
    if (frame->extension_start) return handler(frame);
    XLA_FFI_CallFrame call = *frame;
    XLA_FFI_Api api = *frame->api;
    expected = frame->ctx;
    if (stream) api.XLA_FFI_Stream_Get = stream_get;
    call.api = &api;
    return handler(&call);
}
"""
C_INT, POINTER = ctypes.c_int, ctypes.c_void_p
TYPES = {
    "cuStreamGetCtx": [POINTER, ctypes.POINTER(POINTER)],
    "cuCtxPushCurrent_v2": [POINTER],
    "cuCtxPopCurrent_v2": [ctypes.POINTER(POINTER)],
    "cuLaunchKernel": [POINTER, *[ctypes.c_uint] * 7, POINTER, ctypes.POINTER(POINTER), POINTER],
    "cuGetErrorName": [C_INT, ctypes.POINTER(ctypes.c_char_p)],
}


class Called(Interpreter):
    """The interpreter as C calls it. Device d has the context 1000 d, and streams from 1000 d + 1 on."""

    def __init__(self) -> None:
        super().__init__(device_type=1)
        self.kernels = {}
        self.current = []  # contexts
        self.faults = []
        self.status = dict.fromkeys(TYPES, 0)
        self.pointers = {
            name: ctypes.CFUNCTYPE(C_INT, *types)(functools.partial(self._called, name))
            for name, types in TYPES.items()
        }

    def address(self, function):
        return ctypes.cast(self.pointers[function], POINTER).value

    def handles(self, kernel, device):
        handle = 0x1122334400000000 + 16 * len(self.kernels)
        self.kernels[handle] = kernel, device
        return 1000 * device, handle

    def _called(self, name, *arguments):
        try:  # an exception would not leave the call from C
            return self.status[name] or getattr(self, name)(*arguments) or 0
        except BaseException as error:
            self.faults.append(error)
            return 999

    def cuStreamGetCtx(self, stream, context):
        context[0] = stream // 1000 * 1000

    def cuCtxPushCurrent_v2(self, context):
        self.current.append(context)

    def cuCtxPopCurrent_v2(self, context):
        context[0] = self.current.pop()

    def cuGetErrorName(self, status, name):
        name[0] = b"CUDA_ERROR_OF_TESTS" if status == 701 else None

    def cuLaunchKernel(self, handle, gx, gy, gz, bx, by, bz, shared, stream, parameters, extra):
        kernel, device = self.kernels[handle]
        assert (gy, gz, by, bz, shared, extra) == (1, 1, 1, 1, 0, None)
        assert self.current == [1000 * device]
        program, name = kernel
        count = len(program.routines[name].parameters)
        values = [ctypes.c_int64.from_address(parameters[k]).value for k in range(count)]
        self.launch(kernel, device, gx, bx, stream, values)


@pytest.fixture
def gpu(monkeypatch):
    """JAX with the devices 3 and 5, whose driver is an interpreter; kernels fuse nothing."""
    driver = Called()
    monkeypatch.setattr(foreign, "driver", lambda: driver)
    monkeypatch.setattr(functions, "_devices", lambda: [3, 5])
    monkeypatch.setattr(functions, "DEVICE_TARGETS", {})
    monkeypatch.setattr(functions, "DeviceKernel", functools.partial(DeviceKernel, fused=False))
    yield driver
    assert not driver.faults and not driver.current


LIBRARIES = []  # of STREAM, at most one


def with_stream(first):
    """The library of STREAM, which XLA on the CPU knows as `with_stream`; `first` is a handler."""
    if LIBRARIES:
        return LIBRARIES[0]
    flags = (*build.FLAGS, f"-I{jax.ffi.include_dir()}")
    source = build.Source([STREAM], flags, build.OTHERWISE, "with_stream")
    library = build.library(source, build.find_compiler())
    library.use(first, None)  # XLA asks it for its version as soon as it is registered
    jax.ffi.register_ffi_target("with_stream", jax.ffi.pycapsule(library.handle), platform="cpu")
    LIBRARIES.append(library)
    return library


def by_xla(f, arrays, stream):
    """Results of a call of the handler for devices, by XLA on the CPU, with a stream; 0: that of XLA."""
    dtype = arrays[0].dtype
    handle = functions.DEVICE_TARGETS[f.device_target(dtype)].handle
    with_stream(handle).use(handle, POINTER(stream))
    shapes = [jax.ShapeDtypeStruct((*f.lead(arrays), *shape), dtype) for shape in f.outputs]
    return [np.asarray(y) for y in jax.jit(jax.ffi.ffi_call("with_stream", shapes))(*arrays)]


def on_host(f, arrays):
    """Results of the C of this library, which fuses nothing."""
    lead = f.lead(arrays)
    rows = [np.broadcast_to(x, (*lead, *shape)).copy() for x, shape in zip(arrays, f.inputs, strict=True)]
    status, results = compiled(f.function, single=rows[0].dtype == np.float32, flags=UNFUSED)(*rows)
    assert status == 0
    return results


def calls(f, *arrays):
    """Custom calls of the program for CUDA devices: target, and types of arguments and results."""
    text = jax.jit(f).trace(*arrays).lower(lowering_platforms=("cuda",)).as_text()
    return re.findall(r"custom_call @(\w+)\(.*: \(?([^()]*?)\)? -> \(?([^()]*?)\)?$", text, re.MULTILINE)


@pytest.mark.parametrize("dtype, bits", [(np.float64, "f64"), (np.float32, "f32")])
def test_programs_for_devices_call_values_and_derivatives(dtype, bits):
    robot = lb.models.double_pendulum()
    arm = functions.RobotFunctions(robot)
    q, row = np.zeros((7, 2), dtype), np.zeros(2, dtype)
    batch, one = f"tensor<7x2x{bits}>", f"tensor<2x{bits}>"
    ((target, takes, gives),) = calls(arm.inverse_dynamics, q, q, row)
    assert takes == f"{batch}, {batch}, {one}" and gives == batch
    assert "liebody_inverse_dynamics" in target and target in functions.DEVICE_TARGETS

    def pull(q, v, a, w):
        return jax.vjp(arm.inverse_dynamics, q, v, a)[1](w)

    ((target, takes, gives),) = calls(pull, q, q, row, q)
    assert takes == f"{batch}, {batch}, {one}, {batch}" and gives == f"{batch}, {batch}, {batch}"
    assert "inverse_dynamics_vjp" in target and target in functions.DEVICE_TARGETS


@needs_nvrtc
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("derived", [False, True])
def test_the_kernel_runs_on_buffers_of_xla_in_its_stream(gpu, dtype, derived):
    f = functions.Compiled.of(lb.models.double_pendulum().kernel("inverse_dynamics"))
    q, v, a, w = np.random.default_rng(0).normal(size=(4, ROWS, 2)).astype(dtype)
    arrays = [q, v, a[0]]  # one row of a for all
    if derived:
        f = f.derivative(vjp, (0, 1, 2))
        arrays.append(w)
    results = by_xla(f, arrays, 5007)
    for y, expected in zip(results, on_host(f, arrays), strict=True):
        assert y.dtype == dtype
        np.testing.assert_array_equal(y, expected)
    assert gpu.launches == [(5, 2, 160, 5007)]  # 200 rows in blocks of 160
    assert gpu.loads == [3, 5]
    single = [x[0] if x.ndim == 2 else x for x in arrays]
    for y, whole in zip(by_xla(f, single, 3001), results, strict=True):
        np.testing.assert_array_equal(y, whole[0])
    assert gpu.launches[1:] == [(3, 1, 160, 3001)] and gpu.loads == [3, 5]


@needs_nvrtc
def test_no_rows_launch_nothing_and_axes_of_batches_may_be_many(gpu):
    f = functions.Compiled.of(LINKED)
    q = np.arange(12.0).reshape(2, 3, 2)
    k = np.arange(6.0).reshape(2, 3)
    (y,) = by_xla(f, [q, k], 3001)
    np.testing.assert_array_equal(y, k[..., None] * q + q[..., :1] * q[..., 1:])
    by_xla(f, [q[:0], k[:0]], 3001)
    assert gpu.launches == [(3, 1, 160, 3001)]


@needs_nvrtc
@pytest.mark.parametrize(
    "function, status, words",
    [
        ("cuStreamGetCtx", 701, "CUDA_ERROR_OF_TESTS"),
        ("cuCtxPushCurrent", 701, "CUDA_ERROR_OF_TESTS"),
        ("cuLaunchKernel", 701, "CUDA_ERROR_OF_TESTS"),
        ("cuLaunchKernel", 7, "an unknown error"),
    ],
)
def test_errors_of_the_driver_are_errors_of_xla(gpu, function, status, words):
    name = function + "_v2" * (function == "cuCtxPushCurrent")
    gpu.status[name] = status
    with pytest.raises(
        jax.errors.JaxRuntimeError,
        match=rf"INTERNAL.*refused {function} for liebody_linked_\w+: {words} \(error {status}\)",
    ):
        by_xla(functions.Compiled.of(LINKED), [np.ones(2), np.ones(())], 3001)
    assert not gpu.launches


@needs_nvrtc
def test_a_device_without_the_kernel_and_a_platform_without_streams_are_named(gpu, monkeypatch):
    arrays = [np.ones(2), np.ones(())]
    f = functions.Compiled.of(LINKED)
    missing = r"FAILED_PRECONDITION.*liebody_linked_\w+ is not loaded on the device of this call"
    with pytest.raises(jax.errors.JaxRuntimeError, match=missing):
        by_xla(f, arrays, 7001)
    with pytest.raises(jax.errors.JaxRuntimeError, match="UNIMPLEMENTED"):  # words of XLA
        by_xla(f, arrays, 0)
    # a program that was lowered where JAX has no device
    monkeypatch.setattr(functions, "_devices", list)
    elsewhere = trace(lambda q: {"y": 2 * q}, {"q": 2}, "elsewhere")
    with pytest.raises(jax.errors.JaxRuntimeError, match=missing.replace("linked", "elsewhere")):
        by_xla(functions.Compiled.of(elsewhere), arrays[:1], 3001)


def test_calls_of_nvidias_driver_are_as_its_header_declares(stand_in, tmp_path, monkeypatch):
    cuda = CudaDriver(str(stand_in))
    monkeypatch.setattr(foreign, "driver", lambda: cuda)
    monkeypatch.setattr(functions, "_devices", lambda: [3])
    monkeypatch.setattr(DeviceCode, "image", lambda self, target: b"IMAGE of " + target.encode())
    f = functions.Compiled.of(trace(lambda q: {"y": 3 * q}, {"q": 2}, "declared"))
    by_xla(f, [np.ones((1000, 2))], 9)  # a stream of device 3
    (launch,) = [line for line in (tmp_path / "notes").read_text().splitlines() if "launch" in line]
    assert re.fullmatch(
        r"launch 1 33445566778899aa grid 7 1 1 block 160 1 1 shared 0 stream 9 extra 0 "
        r"arguments 3e8 [0-9a-f]+ \d+",  # 1000 rows, and addresses
        launch,
    )
    with pytest.raises(jax.errors.JaxRuntimeError, match="is not loaded on the device"):
        by_xla(f, [np.ones((1000, 2))], 8)
