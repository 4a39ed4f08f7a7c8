"""Rows of tables on devices, and numbers that go to a device and come back."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...base.errors import ShapeError
from ..printers.cuda import BLOCK, cuda_prelude
from ..runtime import runtime
from .device import DeviceKernel
from .device_arrays import library_of
from .device_code import DeviceCode
from .device_queue import DeviceQueue


class DeviceSource(DeviceKernel):
    """A kernel whose CUDA C++ a subclass writes, as `source`; nothing is traced.

    The kernel takes arguments in the order of `DeviceKernel`: the number of rows, addresses of arrays and of
    results, numbers between rows of each array.
    """

    def __init__(
        self,
        name: str,
        inputs: dict[str, tuple[int, ...]],
        outputs: dict[str, tuple[int, ...]],
        fused: bool = True,
    ) -> None:
        self.name = name
        self.inputs = inputs
        self.outputs = outputs
        self.fused = bool(fused)
        self._codes = {}

    def source(self, dtype: Any = np.float64) -> str:
        raise NotImplementedError

    def code(self, kind: np.dtype[Any]) -> DeviceCode:
        if kind not in self._codes:
            code = DeviceCode(self.name, lambda: self.source(kind), None, self.fused, str(kind))
            self._codes.setdefault(kind, code)
        return self._codes[kind]


class DeviceTake(DeviceSource):
    """One row of each member's table: take(table (length, size), index ()) -> row (size,).

    The index is a whole number of the arrays' type; the table is a ring, row `index` modulo its length.
    """

    def __init__(self, length: int, size: int) -> None:
        self.length = length
        self.size = size
        super().__init__("take", {"table": (length, size), "index": ()}, {"row": (size,)})

    def __reduce__(self) -> tuple[Any, ...]:
        return DeviceTake, (self.length, self.size)

    def source(self, dtype: Any = np.float64) -> str:
        """The CUDA C++ of the kernel of runtime/device_take.h for this table and this type of numbers."""
        sizes = {"BLOCK": BLOCK, "LENGTH": self.length, "SIZE": self.size}
        words = [f"#define {name} {x}" for name, x in sizes.items()]
        head = cuda_prelude(np.dtype(dtype) == np.float32)
        return "\n".join([head, *words, runtime("device_take.h")])


class DeviceMemory:
    """Arrays of a caller's library on the device of one of its arrays, and copies to and from the CPU.

    like  an array on a CUDA device; it says the library, the device and the type of numbers

    Raises DeviceError for an array of the CPU, ShapeError for an empty one and for other types.
    """

    def __init__(self, like: Any) -> None:
        self.like = like
        queue = self._queue("like", like)
        if not queue.given["like"].size:
            raise ShapeError(
                "like has no numbers, so that it has no place on a device; give one with a number"
            )
        self.dtype = queue.dtype
        self.name, _ = library_of(like)

    @staticmethod
    def _queue(name: str, array: Any) -> DeviceQueue:
        return DeviceQueue("memory of a device", {name: array})

    def put(self, values: np.ndarray) -> Any:
        """A new array with these numbers, copied from the CPU."""
        queue = self._queue("like", self.like)
        array, place = queue.empty(values.shape)
        queue.write(place, np.asarray(values, self.dtype))
        queue.finish()
        return array

    def fetch(self, array: Any) -> np.ndarray:
        """The numbers of an array, copied to the CPU. Raises ShapeError for gaps and for another order."""
        queue = self._queue("array", array)
        place = queue.given["array"]
        if not place.is_dense:
            raise ShapeError(
                f"an array {place.shape} has steps {place.steps} between its numbers, expected C order "
                "without gaps; copy it first, as array.contiguous() or cupy.ascontiguousarray(array)"
            )
        values: np.ndarray = queue.read(place.pointer, place.shape, place.dtype)
        return values
