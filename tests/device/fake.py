"""Arrays and a driver of a device that is not there: PTX, interpreted, in memory that arrays of NumPy hold.

`Interpreter` stands in for liebody's CudaDriver. Kernels are compiled to PTX, and threads are run by ptx.py.
`FakeArray` is an array of a library that follows the array API standard, in memory of such a device.
"""

from __future__ import annotations

import ctypes
import sys
import types
from typing import Any

import numpy as np
from device import ptx

WINDOW = 1 << 30  # bytes of a window over memory whose size is not known


class Interpreter:
    """A driver that interprets PTX, and notes what it is asked to do.

    device_type  the kind of devices in DLPack; 1: the CPU, of which arrays of any library are taken
    """

    def __init__(self, device_type: int = 2) -> None:
        self.device_type = device_type
        self.memory: list[tuple[np.ndarray, int]] = []  # bytes, and the number of the device
        self.launches: list[tuple[int, int, int, int]] = []  # device, blocks, threads, stream
        self.waits: list[tuple[int, int]] = []  # device, stream
        self.loads: list[int] = []  # devices

    def allocate(self, size: int, device: int = 0) -> np.ndarray:
        """New bytes of a device; they read as NaN."""
        data = np.full(size, 0xFF, np.uint8)
        self.memory.append((data, device))
        return data

    def _allocation(self, pointer: int) -> tuple[np.ndarray, int] | None:
        """The bytes that were allocated together and contain an address, and the number of the device."""
        for data, device in self.memory:
            if 0 <= pointer - data.ctypes.data < len(data):
                return data, device
        return None

    # -- what liebody asks for ------------------------------------------------------------------------------

    def target(self, device: int) -> str:
        return "compute_90"

    def device_of(self, pointer: int) -> int:
        found = self._allocation(pointer)
        return found[1] if found else -1

    def load(self, device: int, image: bytes, name: str) -> Any:
        self.loads.append(device)
        return ptx.Program(image.rstrip(b"\0").decode()), name

    def launch(
        self, kernel: Any, device: int, grid: int, block: int, stream: int, arguments: list[int]
    ) -> None:
        program, name = kernel
        self.launches.append((device, grid, block, stream))
        given: list[Any] = []
        for x in arguments:
            found = self._allocation(x)
            if found:
                given.append(ptx.Within(found[0], x - found[0].ctypes.data))
            elif self.device_type == 1 and 1 << 32 < x < 1 << 48:  # no bits of a double
                given.append(np.ctypeslib.as_array((ctypes.c_uint8 * WINDOW).from_address(x)))
            else:
                given.append(x)
        ptx.launch(program, name, grid, block, given)

    def wait(self, device: int, stream: int) -> None:
        self.waits.append((device, stream))

    def write(self, device: int, pointer: int, data: bytes, stream: int) -> None:
        self._bytes(pointer, len(data))[:] = np.frombuffer(data, np.uint8)

    def read(self, device: int, pointer: int, size: int, stream: int) -> bytes:
        return self._bytes(pointer, size).tobytes()

    def _bytes(self, pointer: int, size: int) -> np.ndarray:
        """The bytes from an address on."""
        found = self._allocation(pointer)
        if found:
            first = pointer - found[0].ctypes.data
            assert first + size <= len(found[0]), "outside of the memory of an array"
            return found[0][first : first + size]
        assert self.device_type == 1, "no memory of a device"
        return np.ctypeslib.as_array((ctypes.c_uint8 * size).from_address(pointer))


class FakeArray:
    """An array on a device of `Interpreter`.

    strided  numbers of NumPy in the memory of the device
    shows    by what it can be read: "interface", "dlpack"
    stream   of the CUDA Array Interface
    """

    def __init__(
        self, strided: np.ndarray, driver: Interpreter, shows: str = "interface", stream: int | None = None
    ) -> None:
        self.strided = strided
        self.driver = driver
        self.shows = shows
        self.stream = stream
        self.shape, self.dtype = strided.shape, strided.dtype
        self.device = driver.device_of(strided.ctypes.data) if strided.size else 0

    def __getattr__(self, name: str) -> Any:
        if name == "__cuda_array_interface__" and self.shows == "interface":
            return {
                "shape": self.strided.shape,
                "typestr": self.strided.dtype.str,
                "data": (self.strided.ctypes.data, not self.strided.flags.writeable),
                "strides": None if self.strided.flags.c_contiguous else self.strided.strides,
                "version": 3,
                "stream": self.stream,
            }
        if name == "__dlpack_device__" and self.shows == "dlpack":
            return lambda: (self.driver.device_type, self.device)
        if name == "__dlpack__" and self.shows == "dlpack":
            return lambda stream=None: self.strided.__dlpack__()
        raise AttributeError(name)

    def __getitem__(self, index: Any) -> FakeArray:
        return FakeArray(self.strided[index], self.driver, self.shows, self.stream)

    def __array_namespace__(self) -> Any:
        """The part of the array API that liebody needs: `empty`."""

        def empty(shape: tuple[int, ...], dtype: Any, device: int) -> FakeArray:
            return self.like(np.empty(shape, dtype), device)

        return types.SimpleNamespace(empty=empty, float64=np.dtype(np.float64))

    def like(self, values: np.ndarray, device: int = 0) -> FakeArray:
        """An array of this kind with these values on a device."""
        made = on_device(values, self.driver, self.shows, device)
        made.stream = self.stream
        return made


def on_device(
    values: Any, driver: Interpreter, shows: str = "interface", device: int = 0, dtype: Any = None
) -> FakeArray:
    """Copy numbers to a device, and nothing else is in its memory there."""
    values = np.asarray(values, dtype)
    data = driver.allocate(values.nbytes, device)
    strided = data.view(values.dtype).reshape(values.shape)
    strided[...] = values
    return FakeArray(strided, driver, shows)


class Library:
    """A stand-in for a library of arrays: a module of its name, whose arrays are FakeArrays."""

    def __init__(self, name: str, monkeypatch: Any, driver: Interpreter, **contents: Any) -> None:
        self.driver = driver
        self.kind = type("Tensor", (FakeArray,), {"__module__": name})
        module = types.ModuleType(name)
        vars(module).update(contents)
        monkeypatch.setitem(sys.modules, name, module)

    def array(self, values: Any, device: int = 0) -> Any:
        """An array of this library."""
        base = on_device(values, self.driver, device=device)
        return self.kind(base.strided, self.driver)
