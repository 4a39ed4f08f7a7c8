"""Work on a device for the arrays of one call: memory of their library, copies and launches in its stream."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ...base.errors import DeviceError
from ..printers.cuda import BLOCK
from ..runtime import runtime
from .device_arrays import DeviceArray, common_library, device_of, read
from .device_code import MOST_BLOCKS, DeviceCode
from .driver import driver

ALIGNED = 16  # bytes, to which parts of one memory are aligned
WORDS = {np.dtype(np.float64): "double", np.dtype(np.float32): "float"}


@functools.cache
def _copying(source: np.dtype[Any], to: np.dtype[Any], mask: np.dtype[Any]) -> DeviceCode:
    """The kernel of runtime/device_copy.h for these types of numbers."""
    types = {"From": source, "To": to, "Mask": mask}
    words = [f"#define BLOCK {BLOCK}", *(f"typedef {WORDS[x]} {name};" for name, x in types.items())]
    text = "\n".join([runtime("device.h"), *words, runtime("device_copy.h")])
    return DeviceCode("a copy", lambda: text, None, True)


class DeviceQueue:
    """Work that is queued for the arrays of one call, in the stream in which their library works now.

    name    of the call, in messages
    arrays  by name, all of one library, on one device and of one type, float32 or float64

    given   where they lie, by name
    dtype   their type

    Arrays and memory are made by the library, which orders their end behind the work that is queued now; the
    queue keeps them as long as it lives. Raises the errors of `DeviceKernel`.
    """

    def __init__(self, name: str, arrays: Mapping[str, Any]) -> None:
        self.driver = driver()
        self.given: dict[str, DeviceArray] = {
            key: read(f"{name}: {key}", x, self.driver) for key, x in arrays.items()
        }
        places = list(self.given.values())
        self.library = common_library(name, arrays, places)
        self.device = device_of(places)
        self.dtype = places[0].dtype
        self._like = next(iter(arrays.values()))
        self.stream = self.library.stream(self._like)
        self._kept: list[Any] = []
        self.follow(arrays.values())

    def follow(self, arrays: Iterable[Any]) -> None:
        """Wait for the work on arrays of the library that it has queued in other streams."""
        if not self.library.ordered:
            for other in {self.library.stream(x) for x in arrays} - {self.stream}:
                self.driver.wait(self.device, other)

    def array(self, shape: tuple[int, ...], dtype: str | None = None) -> Any:
        """A new array of the library, of the type of the others or of this one."""
        array = self.library.empty(self._like, shape, *([dtype] if dtype else []))
        self._kept.append(array)
        return array

    def empty(self, shape: tuple[int, ...], dtype: str | None = None) -> tuple[Any, int]:
        """A new array, as of `array`, and its address."""
        array = self.array(shape, dtype)
        place = read("a new array", array, self.driver)
        if dtype and place.dtype != dtype:
            raise DeviceError(
                f"the library of the arrays makes {place.dtype} where {dtype} is asked for, which times of "
                "events need; JAX does so until jax.config.update('jax_enable_x64', True)"
            )
        return array, place.pointer

    def memory(self, sizes: Mapping[str, int]) -> dict[str, int]:
        """Addresses of memory of these sizes in bytes, by name."""
        # One array holds all parts, so that the library orders and frees one block.
        places, end = {}, 0
        for key, size in sizes.items():
            places[key] = end
            end += size + -size % ALIGNED
        _, first = self.empty((max(end // self.dtype.itemsize, 1),))
        return {key: first + place for key, place in places.items()}

    def launch(self, code: DeviceCode, n: int, arguments: Sequence[int]) -> None:
        """Start a kernel for n rows, which is its first argument; no row, no launch."""
        if n:
            # a thread for each row; in a grid of the largest size threads take several rows
            blocks = min(-(-n // BLOCK), MOST_BLOCKS)
            kernel = code.on(self.driver, self.device)
            self.driver.launch(kernel, self.device, blocks, BLOCK, self.stream, [n, *arguments])

    def copy(
        self, n: int, source: tuple[int, int], to: tuple[int, int], width: int,
        types: tuple[Any, Any] | None = None, repeat: int = 1, period: int | None = None,
        chosen: int = 0,
    ) -> None:  # fmt: skip
        """Copy n rows of `width` numbers; a pair is the address of the first row and the distance of rows.

        types   of the numbers, from and to; default: the arrays' type for both
        repeat, period  row i comes from row (i / repeat) % period, with whole i / repeat
        chosen  address of n numbers: only rows where they are not zero; 0: all rows
        """
        code = _copying(*(np.dtype(x) for x in types or (self.dtype, self.dtype)), self.dtype)
        self.launch(code, n if width else 0, [*source, repeat, max(period or n, 1), *to, width, chosen])

    def write(self, pointer: int, values: Any) -> None:
        """Copy numbers of the CPU to an address."""
        data = np.ascontiguousarray(values).tobytes()
        if data:
            self.driver.write(self.device, pointer, data, self.stream)

    def read(self, pointer: int, shape: tuple[int, ...], dtype: Any) -> Any:
        """The numbers at an address, after all work that is queued."""
        kind = np.dtype(dtype)
        size = int(np.prod(shape)) * kind.itemsize
        data = self.driver.read(self.device, pointer, size, self.stream) if size else b""
        return np.frombuffer(data, kind).reshape(shape).copy()

    def finish(self) -> None:
        """Wait for the work where the library would not do so before it uses its arrays."""
        if not self.library.ordered:
            self.driver.wait(self.device, self.stream)


def bits_of(x: float) -> int:
    """The bits of a double, as a kernel takes it among whole numbers of 64 bits."""
    return int(np.float64(x).view(np.int64))
