"""Kernels on CUDA devices: functions as calls on arrays that live there."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ...base.arguments import count, number, wrong_shape
from ...base.errors import ArgumentError, GraphError, ShapeError
from ..graph.graph import Function
from ..printers.cuda import cuda_kernel, cuda_march, cuda_prelude
from ..programs.program import Program
from ..programs.quadratic_program import Minimizer
from .device_arrays import DeviceArray, batch_of, read
from .device_code import ENTRY, DeviceCode
from .device_queue import DeviceQueue, bits_of
from .kernel import Kernel


def cuda_device(device: str) -> None:
    """Raise ArgumentError for another device than "cuda"."""
    if device != "cuda":
        raise ArgumentError(
            f"device is {device!r}, expected 'cuda'; without on_device, calls run on the CPU; the arrays "
            "of a call say which of several devices it uses"
        )


class _Call(NamedTuple):
    """The arrays of one call.

    inputs   rows (n, size) of the arguments: address and numbers between rows
    results  arrays of the library, and where they lie
    """

    inputs: list[tuple[int, int]]
    results: list[Any]
    places: list[DeviceArray]


class DeviceKernel:
    """A function compiled for CUDA devices: a call on arrays that live on one.

        k = lb.compiler.DeviceKernel(robot.kernel("forward_dynamics"))
        a = k(q, v, tau)                    # tensors of PyTorch on the device, a is one, too

    k(*arrays, out=None) takes arrays of CuPy, PyTorch, Warp, or others with DLPack or the CUDA Array
    Interface, all of one library, one device and one type, float32 or float64. Each has the input's shape,
    one state for the whole batch, or all leading axes of the batch in front of it. Results are arrays of the
    same library, or a tuple of them where there are several; `out` is an array, or several, to write them to.

    Nothing is copied, and nothing is computed on the CPU. Work is queued on the stream on which the library
    works now, as its own functions are; the call returns before it is done. Values are not checked: NaN gives
    NaN, and quaternions must be unit. The first call for a type and an architecture compiles the kernel, by
    NVRTC, into the cache of kernels. Threads may share it, and it may be pickled.

    function  a `Kernel`, of which the function is taken, or a traced `Function` or `Program`
    fused     whether products and sums may become fused multiply-adds. Without them, results are the same
              bits on every device

    Experimental: not yet run or timed on a device (docs/gpu.md). Raises DeviceError for arrays of the CPU, of
    several libraries or devices, and without a driver; ShapeError for shapes, types and layouts;
    CompilerError where NVRTC refuses the source, MissingPackage where it is not installed; GraphError for
    quadratic programs.
    """

    def __init__(self, function: Kernel | Function | Program, *, fused: bool = True) -> None:
        self.kernel = function if isinstance(function, Kernel) else Kernel(function)
        self.fused = bool(fused)
        self.name = self.kernel.name
        self.inputs = self.kernel.inputs
        self.outputs = self.kernel.outputs
        self.__doc__ = self.kernel.__doc__ or type(self).__doc__
        self._codes: dict[np.dtype[Any], DeviceCode] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return _device_kernel, (self.kernel, self.fused)

    def __repr__(self) -> str:
        arrays = ", ".join(f"{key}{list(shape)}" for key, shape in self.inputs.items())
        return f"{type(self).__name__} {self.name}({arrays})"

    # -- compiled forms -----------------------------------------------------------------------------------

    def source(self, dtype: Any = np.float64) -> str:
        """CUDA C++ of the kernel. Behind the results it takes the numbers between rows of each argument."""
        function = self.kernel.function
        if isinstance(function, Minimizer):
            raise GraphError(f"{self.name} solves a quadratic program, which has no kernel for devices yet")
        single = np.dtype(dtype) == np.float32
        return f"{cuda_prelude(single)}\n{self._text(function, single)}"

    def _text(self, function: Function | Program, single: bool) -> str:
        """CUDA C++ of the kernel without the text before it."""
        return cuda_kernel(function, ENTRY, single, strided=True)

    def image(self, target: str, dtype: Any = np.float64) -> bytes:
        """The compiled kernel for a target of NVRTC, such as "sm_90", from the cache or compiled."""
        return self.code(np.dtype(dtype)).image(target)

    def code(self, kind: np.dtype[Any]) -> DeviceCode:
        """The kernel for a type of numbers."""
        if kind not in self._codes:
            recipe = self.kernel.recipe
            code = DeviceCode(
                self.name, lambda: self.source(kind), recipe, self.fused, str(kind), *self._identity()
            )
            self._codes.setdefault(kind, code)
        return self._codes[kind]

    def _identity(self) -> list[str]:
        """Words that determine the source, beside the function."""
        return []

    # -- calls --------------------------------------------------------------------------------------------

    def __call__(self, *arrays: Any, out: Any = None) -> Any:
        return self._run(arrays, out)

    def _run(self, arrays: Sequence[Any], out: Any, others: Sequence[int] = ()) -> Any:
        """Launch the kernel; `others` are its arguments behind the arrays' arguments."""
        if len(arrays) != len(self.inputs):
            names = ", ".join(self.inputs)
            raise ShapeError(f"{self.name} takes {len(self.inputs)} arrays ({names}), got {len(arrays)}")
        if not arrays:
            raise ShapeError(f"{self.name} takes no arrays, which would say on which device it is computed")
        queue = DeviceQueue(self.name, dict(zip(self.inputs, arrays, strict=True)))
        batch = batch_of(self.name, self.inputs, [*queue.given.values()])
        call = self._arranged(queue, batch, out)
        queue.follow(call.results)
        pointers = [*(pointer for pointer, _ in call.inputs), *(y.pointer for y in call.places)]
        steps = (step for _, step in call.inputs)
        queue.launch(self.code(queue.dtype), math.prod(batch), [*pointers, *steps, *others])
        queue.finish()
        return call.results[0] if len(call.results) == 1 else tuple(call.results)

    def _arranged(self, queue: DeviceQueue, batch: tuple[int, ...], out: Any) -> _Call:
        """Rows of the arguments, and the arrays of the results."""
        given = [*queue.given.values()]
        shapes = {key: (*batch, *shape) for key, shape in self.outputs.items()}
        inputs = [
            (x.pointer, x.row_step(f"{self.name}: {key}", len(shape)))
            for (key, shape), x in zip(self.inputs.items(), given, strict=True)
        ]
        if out is None:
            results = [queue.array(shape) for shape in shapes.values()]
        else:
            results = list(out) if isinstance(out, (tuple, list)) else [out]
        if len(results) != len(shapes):
            raise ShapeError(
                f"{self.name} has {len(shapes)} outputs ({', '.join(shapes)}), out has {len(results)}"
            )
        places: list[DeviceArray] = []
        for (key, shape), y in zip(shapes.items(), results, strict=True):
            name = f"{self.name}: out for {key}"
            place = read(name, y, queue.driver)
            if place.shape != shape:
                raise wrong_shape(name, place.shape, shape)
            wrong = (
                "holds another type than the arguments"
                if place.dtype != queue.dtype
                else "lies on another device than the arguments"
                if place.size and place.device != queue.device
                else "is read-only"
                if place.readonly and out is not None
                else "is not in C order without gaps"
                if place.size and not place.is_dense
                else "overlaps with an argument"
                if any(map(place.overlaps, given))
                else "overlaps with another result"
                if any(map(place.overlaps, places))
                else ""
            )
            if wrong:
                raise ShapeError(f"{name} {wrong}; leave out `out` for a new array")
            places.append(place)
        return _Call(inputs, results, places)


class DeviceMarch(DeviceKernel):
    """Steps of a method on a CUDA device, many in one launch; `Stepper.on_device` makes it.

        march = lb.stepper(robot, dt=1e-3).on_device()
        q, v = march(q, v, u, steps=20)             # tensors on the device: 20 ms later, efforts held

    march(*states, *held, t=0.0, steps=1, out=None) takes arrays as `DeviceKernel` says. The loop over
    the steps is in the kernel: states stay in memory of the thread from the first step to the last. The type
    of the arrays, float32 or float64, decides in which numbers it computes.

    step  a traced step (t (), state, ..., held, ...) -> end, ..., of the length dt

    Experimental: not yet run or timed on a device. Raises the errors of `DeviceKernel`.
    """

    def __init__(self, step: Kernel | Function, dt: float, *, fused: bool = True) -> None:
        super().__init__(step, fused=fused)
        self.dt = float(dt)
        time, *states = self.inputs.items()
        if time[1] != () or [shape for _, shape in states[: len(self.outputs)]] != [*self.outputs.values()]:
            raise GraphError(
                f"{self.name} is no step: it takes {self.inputs}, expected a time () and then the shapes of "
                f"its results {self.outputs}"
            )
        self.inputs = dict(states)

    def __reduce__(self) -> tuple[Any, ...]:
        return _device_march, (self.kernel, self.dt, self.fused)

    def _text(self, function: Function | Program, single: bool) -> str:
        return cuda_march(function.unroll(), self.dt, ENTRY, single)

    def _identity(self) -> list[str]:
        return ["march", self.dt.hex()]

    def __call__(self, *arrays: Any, t: float = 0.0, steps: int = 1, out: Any = None) -> Any:
        return self._run(arrays, out, [bits_of(number("t", t)), count("steps", steps)])


def _device_march(kernel: Kernel, dt: float, fused: bool) -> DeviceMarch:
    return DeviceMarch(kernel, dt, fused=fused)


def _device_kernel(kernel: Kernel, fused: bool) -> DeviceKernel:
    return DeviceKernel(kernel, fused=fused)
