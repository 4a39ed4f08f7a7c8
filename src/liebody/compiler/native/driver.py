"""The driver of CUDA devices: it loads compiled kernels, launches them and knows where memory lies.

`Driver` is all that kernels need of it. `CudaDriver` calls NVIDIA's library libcuda.so.1 by ctypes; it works
in the primary context of a device, as CuPy, PyTorch, JAX and Warp do, so pointers and streams are theirs.
"""

from __future__ import annotations

import ctypes
import functools
import os
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

from ...base.concurrency import lock_of, unlock
from ...base.errors import DeviceError

LIBRARY = "libcuda.so.1"
DLPACK_CUDA = 2  # kDLCUDA of dlpack.h
# Attributes of devices and pointers in cuda.h.
MAJOR, MINOR = 75, 76  # CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, _MINOR
MEMORY_TYPE, ORDINAL = 2, 9  # CU_POINTER_ATTRIBUTE_MEMORY_TYPE, _DEVICE_ORDINAL
ON_DEVICE = 2  # CU_MEMORYTYPE_DEVICE
INVALID_VALUE, INVALID_CONTEXT = 1, 201  # CUDA_ERROR_INVALID_VALUE, _CONTEXT
DEFAULT_STREAM = 0

NO_DRIVER = (
    "there is no driver of CUDA here ({why}): device='cuda' takes an NVIDIA GPU and its driver; without them "
    "call the same function of the robot on NumPy arrays, or write its source by export_cuda"
)


class Driver(Protocol):
    """The calls of a device's driver that kernels need.

    device_type  the kind of devices in DLPack: 2 for CUDA. Arrays of other kinds are refused
    """

    device_type: int

    def target(self, device: int) -> str:
        """The target of NVRTC for a device: "sm_90" and the like."""

    def device_of(self, pointer: int) -> int:
        """The number of the device in whose memory an address lies; -1 for memory of the CPU."""

    def load(self, device: int, image: bytes, name: str) -> Any:
        """The kernel of this name in a compiled image."""

    def launch(
        self, kernel: Any, device: int, grid: int, block: int, stream: int, arguments: Sequence[int]
    ) -> None:
        """Start a kernel in a stream. Its arguments are whole numbers of 64 bits, and addresses."""

    def wait(self, device: int, stream: int) -> None:
        """Return when all work in a stream is done."""

    def write(self, device: int, pointer: int, data: bytes, stream: int) -> None:
        """Copy bytes of the CPU to an address, after the work in a stream; return when that is done."""

    def read(self, device: int, pointer: int, size: int, stream: int) -> bytes:
        """The bytes from an address on, after the work in a stream."""

    def address(self, function: str) -> int:
        """Where a function of the driver lies, for C that calls it."""

    def handles(self, kernel: Any, device: int) -> tuple[int, int]:
        """The primary context of a device and a kernel that is loaded there, as C takes them."""


class CudaKernel:
    """A kernel that is loaded on a device. Its module is unloaded when nobody holds the kernel any more."""

    def __init__(self, function: ctypes.c_void_p, unload: Callable[[], None]) -> None:
        self.function = function
        # At the end of the process the driver frees everything, and may be gone before this object.
        weakref.finalize(self, unload).atexit = False


class CudaDriver:
    """NVIDIA's driver. Raises DeviceError where there is none, and for its errors.

    library  file of the driver
    """

    device_type = DLPACK_CUDA

    def __init__(self, library: str = LIBRARY) -> None:
        try:
            self._cuda = ctypes.CDLL(library)
        except OSError as error:
            raise DeviceError(NO_DRIVER.format(why=error)) from error
        self._process = os.getpid()
        self._contexts: dict[int, ctypes.c_void_p] = {}
        status = self._cuda.cuInit(0)
        if status:
            raise DeviceError(NO_DRIVER.format(why=self._words(status)))

    def _words(self, status: int) -> str:
        """The driver's name and description of an error."""
        words = []
        for function in (self._cuda.cuGetErrorName, self._cuda.cuGetErrorString):
            text = ctypes.c_char_p()
            function(status, ctypes.byref(text))
            words.append((text.value or b"").decode())
        return f"{words[0] or f'error {status}'}: {words[1]}".rstrip(": ")

    def _call(self, function: str, *arguments: Any) -> None:
        self._accept(function, self._cuda[function](*arguments))

    def _accept(self, function: str, status: int) -> None:
        """Raise DeviceError if a function of the driver returned an error."""
        if status:
            raise DeviceError(
                f"the driver of CUDA refused {function}, {self._words(status)}; after an illegal address the "
                "process has to be started again, and a newer cubin needs a newer driver"
            )

    def _check_process(self) -> None:
        """Raise DeviceError in a process that was forked."""
        if os.getpid() != self._process:
            raise DeviceError(
                "this process was forked from one that uses CUDA, where CUDA works no more; start processes "
                "by multiprocessing.get_context('spawn')"
            )

    def _attribute(self, device: int, number: int) -> int:
        value = ctypes.c_int()
        self._call("cuDeviceGetAttribute", ctypes.byref(value), number, self._handle(device))
        return value.value

    def _handle(self, device: int) -> ctypes.c_int:
        """The driver's handle of the device with this number."""
        self._check_process()
        handle = ctypes.c_int()
        self._call("cuDeviceGet", ctypes.byref(handle), device)
        return handle

    @contextmanager
    def _current(self, device: int) -> Iterator[None]:
        """Make the primary context of a device the thread's, and the former one afterwards."""
        handle = self._handle(device)
        with lock_of(self, device):
            if device not in self._contexts:
                context = ctypes.c_void_p()
                self._call("cuDevicePrimaryCtxRetain", ctypes.byref(context), handle)
                self._contexts[device] = context
            unlock(self, device)
        self._call("cuCtxPushCurrent_v2", self._contexts[device])
        try:
            yield
        finally:
            self._cuda.cuCtxPopCurrent_v2(ctypes.byref(ctypes.c_void_p()))

    def target(self, device: int) -> str:
        return f"sm_{self._attribute(device, MAJOR)}{self._attribute(device, MINOR)}"

    def device_of(self, pointer: int) -> int:
        self._check_process()
        kind, device = ctypes.c_uint(), ctypes.c_int()
        function, address = "cuPointerGetAttribute", ctypes.c_uint64(pointer)
        status = self._cuda[function](ctypes.byref(kind), MEMORY_TYPE, address)
        if status == INVALID_CONTEXT:  # this thread has none: that of any device will do
            with self._current(0):
                status = self._cuda[function](ctypes.byref(kind), MEMORY_TYPE, address)
                self._cuda[function](ctypes.byref(device), ORDINAL, address)
        elif not status:
            self._call(function, ctypes.byref(device), ORDINAL, address)
        if status == INVALID_VALUE:  # an address that the driver does not know is memory of the CPU
            return -1
        self._accept(function, status)
        return device.value if kind.value == ON_DEVICE else -1

    def load(self, device: int, image: bytes, name: str) -> Any:
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        with self._current(device):
            self._call("cuModuleLoadData", ctypes.byref(module), image)
            self._call("cuModuleGetFunction", ctypes.byref(function), module, name.encode())
        return CudaKernel(function, functools.partial(self._unload, self._contexts[device], module))

    def _unload(self, context: ctypes.c_void_p, module: ctypes.c_void_p) -> None:
        """Unload a module, after all work of its device.

        The garbage collector calls it, at any time and in any thread. So it takes no lock, and raises no
        errors. In a process that was forked it does nothing: the module belongs to the other process.
        """
        if os.getpid() != self._process or self._cuda.cuCtxPushCurrent_v2(context):
            return  # an error: the process ends, or the device has stopped
        # launched kernels may still run, whoever has launched them
        if not self._cuda.cuCtxSynchronize():
            self._cuda.cuModuleUnload(module)
        self._cuda.cuCtxPopCurrent_v2(ctypes.byref(ctypes.c_void_p()))

    def launch(
        self, kernel: Any, device: int, grid: int, block: int, stream: int, arguments: Sequence[int]
    ) -> None:
        # the driver copies the arguments before it returns, so they may end here
        values = [ctypes.c_int64(x) for x in arguments]
        places = (ctypes.c_void_p * len(values))(*[ctypes.addressof(x) for x in values])
        with self._current(device):
            sizes = [ctypes.c_uint(x) for x in (grid, 1, 1, block, 1, 1, 0)]
            self._call("cuLaunchKernel", kernel.function, *sizes, ctypes.c_void_p(stream), places, None)

    def wait(self, device: int, stream: int) -> None:
        with self._current(device):
            self._call("cuStreamSynchronize", ctypes.c_void_p(stream))

    def write(self, device: int, pointer: int, data: bytes, stream: int) -> None:
        with self._current(device):
            place, size, queue = ctypes.c_uint64(pointer), ctypes.c_size_t(len(data)), ctypes.c_void_p(stream)
            self._call("cuMemcpyHtoDAsync_v2", place, data, size, queue)
            self._call("cuStreamSynchronize", queue)

    def read(self, device: int, pointer: int, size: int, stream: int) -> bytes:
        buffer = ctypes.create_string_buffer(size)
        with self._current(device):
            place, queue = ctypes.c_uint64(pointer), ctypes.c_void_p(stream)
            self._call("cuMemcpyDtoHAsync_v2", buffer, place, ctypes.c_size_t(size), queue)
            self._call("cuStreamSynchronize", queue)
        return buffer.raw

    def address(self, function: str) -> int:
        return ctypes.cast(self._cuda[function], ctypes.c_void_p).value or 0

    def handles(self, kernel: Any, device: int) -> tuple[int, int]:
        return self._contexts[device].value or 0, kernel.function.value


@functools.cache
def driver() -> Driver:
    """The driver of this process; raises DeviceError where there is none."""
    return CudaDriver()
