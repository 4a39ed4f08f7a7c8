"""The calls of a robot on arrays that live on a CUDA device."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Sequence
from typing import Any, Protocol

from ..base.concurrency import lock_of, unlock
from ..base.errors import ArgumentError, DeviceError, ModelError, known
from ..compiler import DeviceKernel, Kernel
from .algorithm import PARAMETERS, Algorithm, Host, kernels_of


class HostWithKernels(Host, Protocol):
    """The part of a robot whose kernels run on a device."""

    def kernel(self, name: str, dtype: Any = None, **options: Any) -> Kernel:
        """The kernel behind the call `name` with these options."""

    def derivatives(
        self, name: str, wrt: str | Sequence[str] = "q", product: str | None = None, **options: Any
    ) -> Kernel:
        """The kernel of the derivative of the call `name`."""


class RobotOnDevice:
    """The calls of a robot on arrays that live on a CUDA device; `Robot.on_device` makes it.

        gpu = robot.on_device()
        tau = gpu.inverse_dynamics(q, v, a)             # tensors of PyTorch in, a tensor out
        J = gpu.jacobian(q, frame="tool0")

    Each algorithm of the robot is a method with its arrays and options, and with `parameters`, an array
    (..., np) on the device, where the robot has free ones, and `out`. `DeviceKernel` says what arrays are
    taken. Kernels are compiled at first use.
    """

    def __init__(self, robot: HostWithKernels, fused: bool = True) -> None:
        self.robot = robot
        self.fused = fused
        self._kernels: dict[Kernel, DeviceKernel] = {}

    def __repr__(self) -> str:
        return f"{self.robot!r}, on a CUDA device"

    def __reduce__(self) -> tuple[Any, ...]:
        return RobotOnDevice, (self.robot, self.fused)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self._algorithms()})

    def _algorithms(self) -> dict[str, Algorithm]:
        return {algorithm.name: algorithm for algorithm, _ in kernels_of(type(self.robot)).values()}

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name not in self._algorithms():
            raise AttributeError(f"RobotOnDevice has no call {name!r}; {known(self._algorithms(), name)}")
        algorithm = self._algorithms()[name]
        method = functools.partial(self._call, algorithm)
        method.__doc__ = algorithm.text
        return method

    def kernel(self, name: str, **options: Any) -> DeviceKernel:
        """The kernel behind the call `name` with these options, as of `Robot.kernel`."""
        return self._kernel(self.robot.kernel(name, **options))

    def derivatives(
        self, name: str, wrt: str | Sequence[str] = "q", product: str | None = None, **options: Any
    ) -> DeviceKernel:
        """The kernel of the derivative of the call `name`, as of `Robot.derivatives`."""
        return self._kernel(self.robot.derivatives(name, wrt, product, **options))

    def _kernel(self, kernel: Kernel) -> DeviceKernel:
        """One kernel for the device for each kernel of the robot."""
        with lock_of(self, id(kernel)):
            if kernel not in self._kernels:
                self._kernels[kernel] = DeviceKernel(kernel, fused=self.fused)
            unlock(self, id(kernel))
        return self._kernels[kernel]

    def _call(
        self, algorithm: Algorithm, *arguments: Any, parameters: Any = None, out: Any = None, **named: Any
    ) -> Any:
        """Evaluate an algorithm: sort arguments into arrays and options, and call the kernel of these."""
        signature = inspect.Signature([x.replace(annotation=x.empty) for x in algorithm.parameters.values()])
        try:
            values = signature.bind(*arguments, **named).arguments
        except TypeError as error:
            raise ArgumentError(f"{algorithm.name}{signature}: {error}") from None
        given = [key for key in algorithm.optional if values.get(key) is not None]
        options = {key: x for key, x in values.items() if key in algorithm.options}
        last = []
        if self.robot.layout.size:
            if parameters is None:
                layout = self.robot.layout
                raise DeviceError(
                    f"{algorithm.name}: the robot has free parameters ({', '.join(layout.defaults)}), "
                    f"expected their values as an array (..., {layout.size}) on the device, parameters=...; "
                    "robot.values has their defaults, on the CPU"
                )
            last = [parameters]
        elif parameters is not None:
            raise ModelError(f"{algorithm.name}: the robot has no free {PARAMETERS}; see with_parameters")
        kernel = self._kernel(algorithm.kernel(self.robot, tuple(given), algorithm.values(options)))
        result = kernel(*(values[key] for key in (*algorithm.arrays, *given)), *last, out=out)
        return algorithm.tuple_of(*result) if algorithm.tuple_of else result
