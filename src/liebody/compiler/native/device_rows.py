"""Rows of tables on devices, and numbers that go to a device and come back."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...base.errors import ShapeError
from ..printers.cuda import BLOCK, cuda_prelude
from .device import DeviceKernel
from .device_arrays import TYPES, library_of, read
from .device_code import ENTRY, DeviceCode
from .driver import driver


class DeviceSource(DeviceKernel):
    """A kernel that is written as CUDA C++, and not traced; a subclass has `source`.

    Its arguments are those of `DeviceKernel`: the number of rows, arrays, results, distances between rows.
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

    def _code(self, kind: np.dtype[Any]) -> DeviceCode:
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
        head = cuda_prelude(np.dtype(dtype) == np.float32)
        return f"""{head}
extern "C" __global__ void __launch_bounds__({BLOCK}) {ENTRY}(int64_t n, const real *restrict table,
    const real *restrict index, real *restrict row, int64_t step0, int64_t step1) {{
    const int64_t first = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    const int64_t apart = (int64_t)gridDim.x * blockDim.x;
    for (int64_t i = first; i < n; i += apart) {{
        const int64_t k = (int64_t)index[i * step1] % {self.length};
        const real *const of_member = table + i * step0 + k * {self.size};
        for (int j = 0; j < {self.size}; j++) row[i * {self.size} + j] = of_member[j];
    }}
}}"""


class DeviceMemory:
    """Arrays of a caller's library on the device of one of its arrays, and copies to and from the CPU.

    like  an array on a CUDA device; it says the library, the device and the type of numbers

    Raises DeviceError for an array of the CPU, ShapeError for an empty one and for other types.
    """

    def __init__(self, like: Any) -> None:
        self.like = like
        self._driver = driver()
        place = read("like", like, self._driver)
        if not place.size:
            raise ShapeError(
                "like has no numbers, so that it has no place on a device; give one with a number"
            )
        if place.dtype not in TYPES:
            raise ShapeError(f"like holds {place.dtype}, expected float32 or float64")
        self.dtype = place.dtype
        self.device = place.device
        self.name, self._library = library_of(like)

    def empty(self, shape: tuple[int, ...]) -> Any:
        """A new array with arbitrary numbers."""
        return self._library.empty(self.like, shape)

    def put(self, values: np.ndarray) -> Any:
        """A new array with these numbers, copied from the CPU."""
        array = self.empty(values.shape)
        if values.size:
            place = read("array", array, self._driver)
            data = np.ascontiguousarray(values, self.dtype).tobytes()
            self._driver.write(self.device, place.pointer, data, self._library.stream(self.like))
        return array

    def fetch(self, array: Any) -> np.ndarray:
        """The numbers of an array of this memory, in C order, copied to the CPU."""
        place = read("array", array, self._driver)
        values = np.empty(place.shape, place.dtype)
        if values.size:
            stream = self._library.stream(array)
            data = self._driver.read(self.device, place.pointer, values.nbytes, stream)
            values[...] = np.frombuffer(data, place.dtype).reshape(place.shape)
        return values
