"""Arrays of other libraries in the memory of a device: where they lie, how to make another, on which stream.

An array is read by its `__cuda_array_interface__` (CuPy, PyTorch, JAX, Warp, Numba) or by DLPack. Nothing
here imports a library: whoever has an array of one has imported it.

CUDA Array Interface 3, https://numba.readthedocs.io/en/stable/cuda/cuda_array_interface.html
DLPack 1.1, https://dmlc.github.io/dlpack/latest/
"""

from __future__ import annotations

import ctypes
import itertools
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ...base.arguments import wrong_shape
from ...base.errors import DeviceError, ShapeError, pass_on_signals
from .driver import DEFAULT_STREAM, Driver

LEGACY = 1  # the default stream, as the CUDA Array Interface numbers it
CODES = {0: "i", 1: "u", 2: "f"}  # DLDataTypeCode: the letters of NumPy's types
TYPES = (np.dtype(np.float64), np.dtype(np.float32))
COPIES = "cupy.asarray({0}), torch.as_tensor({0}, device='cuda') or jax.device_put({0})"


class DeviceArray(NamedTuple):
    """An array in the memory of a device.

    pointer   address of its first number
    shape     lengths of its axes
    steps     numbers between neighbours along each axis
    dtype     type of its numbers
    device    number of its device
    readonly  whether it must not be written
    """

    pointer: int
    shape: tuple[int, ...]
    steps: tuple[int, ...]
    dtype: np.dtype[Any]
    device: int
    readonly: bool

    @property
    def size(self) -> int:
        """The number of its entries."""
        return math.prod(self.shape)

    @property
    def is_dense(self) -> bool:
        """Whether numbers lie in C order without gaps; steps of axes of length 1 are free."""
        steps = zip(self.shape, self.steps, dense_steps(self.shape), strict=True)
        return not self.size or all(n == 1 or step == dense for n, step, dense in steps)

    def row_step(self, name: str, axes: int) -> int:
        """Numbers between rows of the last `axes` axes; 0 for one row. Messages call the array `name`.

        Raises ShapeError unless rows have no gaps and lie at equal distances.
        """
        lead = len(self.shape) - axes
        row = self._replace(shape=self.shape[lead:], steps=self.steps[lead:])
        merged = _merged(self.shape[:lead], self.steps[:lead])
        if merged is None or not row.is_dense:
            key = name.rpartition(" ")[2]
            raise ShapeError(
                f"{name} {self.shape} has steps {self.steps} between its numbers, expected rows without "
                f"gaps, at equal distances; copy it first, as {key}.contiguous() of PyTorch or "
                f"cupy.ascontiguousarray({key}): nothing is copied in silence"
            )
        return merged if lead else 0

    @property
    def span(self) -> tuple[int, int]:
        """The addresses of its first byte and behind its last one."""
        ends = [(n - 1) * step for n, step in zip(self.shape, self.steps, strict=True)] if self.size else []
        low, high = sum(min(x, 0) for x in ends), sum(max(x, 0) for x in ends)
        size = self.dtype.itemsize
        return self.pointer + low * size, self.pointer + (high + min(self.size, 1)) * size

    def overlaps(self, other: DeviceArray) -> bool:
        """Whether two arrays may share memory: their spans do."""
        (first, end), (other_first, other_end) = self.span, other.span
        return first < other_end and other_first < end


def _merged(shape: Sequence[int], steps: Sequence[int]) -> int | None:
    """The step along axes of these lengths as one axis; None if they cannot be merged.

    Axes are one axis if a step along the outer of two neighbours is as long as the whole inner one.
    """
    axes = [(n, step) for n, step in zip(shape, steps, strict=True) if n != 1]
    if not axes or 0 in shape:
        return 0
    for (_, outer), (n, inner) in itertools.pairwise(axes):
        if outer != n * inner:
            return None
    return axes[-1][1]


def device_of(given: Sequence[DeviceArray]) -> int:
    """The device on which the first array with numbers lies; empty arrays have no memory."""
    return next((x.device for x in given if x.size), given[0].device)


def dense_steps(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The steps of an array in C order without gaps."""
    return tuple(math.prod(shape[k + 1 :]) for k in range(len(shape)))


def read(name: str, array: Any, driver: Driver) -> DeviceArray:
    """Where an array lies; messages call it `name`. Raises DeviceError for arrays of the CPU."""
    detach = _attribute(array, "detach")
    if detach and array.requires_grad:
        array = detach()  # PyTorch shows no memory of tensors that it differentiates by
    if wait := _attribute(array, "block_until_ready"):
        wait()  # JAX computes in streams of its own, which it does not name
    interface = _attribute(array, "__cuda_array_interface__")
    if isinstance(interface, Mapping):
        return _by_interface(name, interface, driver)
    where = _attribute(array, "__dlpack_device__")
    if where is None:
        raise DeviceError(f"{name} is a {_kind(array)}, expected an array on a CUDA device, {_remedy(name)}")
    kind, device = (int(x) for x in where())
    if kind != driver.device_type:
        raise _on_cpu(name, array)
    return _by_dlpack(array, device)


def _attribute(array: Any, name: str) -> Any:
    """An attribute of an array, or None: libraries raise errors of several kinds where it does not apply."""
    try:
        return getattr(array, name, None)
    except Exception as error:
        pass_on_signals(error)
        return None


def _kind(array: Any) -> str:
    return f"{type(array).__module__.partition('.')[0]}.{type(array).__name__}"


def _remedy(name: str) -> str:
    word = name.rpartition(" ")[2]
    return (
        f"as {COPIES.format(word)} make one: nothing is copied to the device in silence; calls of the robot "
        "itself take arrays in memory of the CPU"
    )


def _on_cpu(name: str, array: Any) -> DeviceError:
    return DeviceError(
        f"{name} is a {_kind(array)} in memory of the CPU, expected an array on a CUDA device, "
        f"{_remedy(name)}"
    )


def _by_interface(name: str, interface: Mapping[str, Any], driver: Driver) -> DeviceArray:
    """An array by its CUDA Array Interface."""
    shape = tuple(int(n) for n in interface["shape"])
    dtype = np.dtype(interface["typestr"])
    pointer, readonly = interface["data"]
    strides = interface.get("strides")
    steps = dense_steps(shape) if strides is None else tuple(int(s) // dtype.itemsize for s in strides)
    device = driver.device_of(pointer) if math.prod(shape) else 0  # empty arrays may have no memory
    if device < 0:
        raise DeviceError(
            f"{name}: its __cuda_array_interface__ names the address {pointer:#x}, which is memory of the "
            "CPU, expected memory of a CUDA device"
        )
    return DeviceArray(int(pointer), shape, steps, dtype, device, bool(readonly))


class _Tensor(ctypes.Structure):
    """DLTensor of dlpack.h, the first part of what a capsule holds."""

    _fields_ = (
        ("data", ctypes.c_uint64),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


def _by_dlpack(array: Any, device: int) -> DeviceArray:
    """An array by DLPack. The capsule stays unused: it frees itself, and the array keeps its memory."""
    capsule = array.__dlpack__()  # its library waits for the array on the default stream
    pointer_in = ctypes.pythonapi.PyCapsule_GetPointer
    pointer_in.restype = ctypes.c_void_p
    pointer_in.argtypes = (ctypes.py_object, ctypes.c_char_p)
    tensor = _Tensor.from_address(pointer_in(capsule, b"dltensor"))
    shape = tuple(tensor.shape[k] for k in range(tensor.ndim))
    steps = tuple(tensor.strides[k] for k in range(tensor.ndim)) if tensor.strides else dense_steps(shape)
    dtype = np.dtype(f"{CODES.get(tensor.code, 'V')}{tensor.bits // 8}")
    return DeviceArray((tensor.data or 0) + tensor.byte_offset, shape, steps, dtype, device, False)


# -- libraries ----------------------------------------------------------------------------------------------


class Library(NamedTuple):
    """A library of arrays on devices.

    empty    empty(array, shape, dtype=None): a new array of the kind and device of another one, and of its
             type or the one of this name, such as "float64"
    stream   stream(array): the handle of the stream on which the library works now, on the device of an array
    ordered  whether later work of the library waits for what is in this stream
    """

    empty: Callable[..., Any]
    stream: Callable[[Any], int]
    ordered: bool = True


def _torch_empty(array: Any, shape: tuple[int, ...], dtype: str | None = None) -> Any:
    torch = sys.modules["torch"]
    kind = getattr(torch, dtype) if dtype else array.dtype
    return torch.empty(shape, dtype=kind, device=array.device)


def _torch_stream(array: Any) -> int:
    return int(sys.modules["torch"].cuda.current_stream(array.device).cuda_stream)


def _cupy_empty(array: Any, shape: tuple[int, ...], dtype: str | None = None) -> Any:
    with array.device:
        return sys.modules["cupy"].empty(shape, dtype or array.dtype)


def _cupy_stream(array: Any) -> int:
    with array.device:
        return int(sys.modules["cupy"].cuda.get_current_stream().ptr)


def _warp_empty(array: Any, shape: tuple[int, ...], dtype: str | None = None) -> Any:
    # numbers of vectors and matrices become axes
    warp = sys.modules["warp"]
    scalar = warp.dtype_from_numpy(np.dtype(dtype or array.__cuda_array_interface__["typestr"]))
    return warp.empty(shape, dtype=scalar, device=array.device)


def _warp_stream(array: Any) -> int:
    return int(array.device.stream.cuda_stream or DEFAULT_STREAM)


def _standard_empty(array: Any, shape: tuple[int, ...], dtype: str | None = None) -> Any:
    if not hasattr(array, "__array_namespace__"):
        raise DeviceError(
            f"results are made by the array API standard, which {_kind(array)} does not follow; give arrays "
            "for them as `out`"
        )
    space = array.__array_namespace__()
    kind = getattr(space, dtype) if dtype else array.dtype
    return space.empty(shape, dtype=kind, device=array.device)


def _standard_stream(array: Any) -> int:
    stream = (_attribute(array, "__cuda_array_interface__") or {}).get("stream")
    return DEFAULT_STREAM if stream in (None, LEGACY) else int(stream)


STANDARD = Library(_standard_empty, _standard_stream, ordered=False)
LIBRARIES = {
    "torch": Library(_torch_empty, _torch_stream),
    "cupy": Library(_cupy_empty, _cupy_stream),
    "warp": Library(_warp_empty, _warp_stream),
}
"""Libraries by the name of their module.

Others follow the array API standard, which knows no streams: calls work on the default stream, or the one
that the first array names. They wait for the streams of the other arrays, and for their results. Arrays of
JAX, which does not change them, are made, and filled before anyone else holds them.
"""


def library_of(array: Any) -> tuple[str, Library]:
    """The name of an array's library, and how it makes arrays."""
    name = type(array).__module__.partition(".")[0]
    return name, LIBRARIES.get(name, STANDARD)


def common_library(name: str, arrays: Mapping[str, Any], given: Sequence[DeviceArray]) -> Library:
    """The library of arrays, which lie on one device and have one type, float32 or float64.

    name  of the call, in messages
    """
    names = [library_of(x)[0] for x in arrays.values()]
    device = device_of(given)
    for what, values in (
        ("libraries", names),
        ("devices", [x.device if x.size else device for x in given]),
        ("types", [str(x.dtype) for x in given]),
    ):
        if len(set(values)) > 1:
            pairs = ", ".join(f"{key}: {x}" for key, x in zip(arrays, values, strict=True))
            kind = ShapeError if what == "types" else DeviceError
            raise kind(
                f"{name} got arrays of several {what} ({pairs}), expected one; convert them first: nothing "
                "is converted or copied in silence"
            )
    if given[0].dtype not in TYPES:
        raise ShapeError(
            f"{name}: arrays hold {given[0].dtype}, expected float32 or float64; convert them first"
        )
    return library_of(next(iter(arrays.values())))[1]


def batch_of(
    name: str, shapes: Mapping[str, tuple[int, ...]], given: Sequence[DeviceArray]
) -> tuple[int, ...]:
    """The leading axes of arrays: each has all of them before its shape, or none."""
    leads = []
    for (key, shape), x in zip(shapes.items(), given, strict=True):
        axes = len(x.shape) - len(shape)
        if axes < 0 or x.shape[axes:] != shape:
            expected = f"{shape} or a batch (..., {', '.join(map(str, shape))})"
            raise wrong_shape(f"{name}: {key}", x.shape, expected)
        leads.append(x.shape[:axes])
    batch = max(leads, key=len)
    if any(lead not in ((), batch) for lead in leads):
        pairs = ", ".join(f"{key} {x.shape}" for key, x in zip(shapes, given, strict=True))
        raise ShapeError(
            f"{name}: {pairs}: expected for each array all leading axes of the batch, {batch}, or none, for "
            "one row that the batch shares; broadcast and copy the others first"
        )
    return batch
