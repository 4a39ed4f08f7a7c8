"""Functions of robots and kernels in PyTorch: CUDA kernels that PyTorch differentiates.

    from liebody.interop.torch import function

    forward_dynamics = function(robot.kernel("forward_dynamics"))
    a = forward_dynamics(q, v, tau)             # tensors on a CUDA device
    a.square().sum().backward()                 # gradients of q, v and tau, where these require them

Each function is a `torch.autograd.Function`. Its forward pass is a `DeviceKernel`, its backward pass another
one, which `compiler.vjp` makes: compiled when it is first needed, and a function of this kind again, so
derivatives exist to any order. Work is queued on PyTorch's current stream.

PyTorch differentiates by the coordinates q as they enter the formulas, four of them for a quaternion. There
are no rules for `torch.vmap` (batches are leading axes), forward derivatives and `torch.compile`.

Experimental: not yet run or timed on a device.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..base.concurrency import cached_property, lock_of, unlock
from ..base.errors import ArgumentError, require
from ..compiler import DeviceKernel, Function, Kernel, Program, vjp

require("functions of PyTorch", "torch")

import torch  # noqa: E402


class Differentiable:
    """A kernel of devices, with the vector-Jacobian products that PyTorch asks for.

    kernel  the kernel of the CPU whose function it is
    fused   whether products and sums may become fused multiply-adds
    level   how many derivatives it is away from the first function
    """

    def __init__(self, kernel: Kernel, fused: bool, level: int = 0) -> None:
        self.kernel = kernel
        self.call = DeviceKernel(kernel, fused=fused)
        self.fused = fused
        self.level = level
        self._products: dict[tuple[int, ...], Differentiable] = {}

    @cached_property
    def function(self) -> Function:
        """The traced function, as straight code."""
        function: Function = self.kernel.function.unroll()
        return function

    def product(self, wrt: tuple[int, ...]) -> Differentiable:
        """f(*inputs, *weights): gradients of the weighted results by the inputs with these numbers."""
        with lock_of(self, wrt):
            if wrt not in self._products:
                # names of weights occur once in a graph
                f = self.function
                inputs = {f"x{self.level}_{k}": x for k, x in enumerate(f.inputs.values())}
                outputs = {f"y{self.level}_{k}": y for k, y in enumerate(f.outputs.values())}
                derived = vjp(Function(f.name, inputs, outputs), [f"x{self.level}_{k}" for k in wrt])
                self._products[wrt] = Differentiable(Kernel(derived), self.fused, self.level + 1)
            unlock(self, wrt)
        return self._products[wrt]

    def __call__(self, *tensors: Any) -> Any:
        for name, x in zip(self.kernel.inputs, tensors, strict=False):
            if not isinstance(x, torch.Tensor):
                kind = f"{type(x).__module__}.{type(x).__qualname__}"
                raise ArgumentError(
                    f"{self.kernel.name}: {name} is a {kind}, expected a torch.Tensor on a CUDA device, as "
                    f'torch.as_tensor({name}, device="cuda") makes one'
                )
        return _Call.apply(self, *tensors)


class _Call(torch.autograd.Function):
    """A call of a kernel in PyTorch's graph of operations."""

    @staticmethod
    def forward(ctx: Any, f: Differentiable, *tensors: Any) -> Any:
        ctx.f = f
        ctx.save_for_backward(*tensors)
        return f.call(*(x.detach() for x in tensors))

    @staticmethod
    def backward(ctx: Any, *weights: Any) -> Any:
        tensors = ctx.saved_tensors
        wrt = tuple(k for k in range(len(tensors)) if ctx.needs_input_grad[k + 1])
        # gradients of sums are expanded from one number: the kernel reads rows without gaps
        passed = (w.contiguous() for w in weights)
        computed = ctx.f.product(wrt)(*tensors, *passed)
        gradients: list[Any] = [None] * (1 + len(tensors))
        for k, gradient in zip(wrt, computed if isinstance(computed, tuple) else (computed,), strict=True):
            # an array that the whole batch shares has the sum over the batch
            extra = gradient.ndim - tensors[k].ndim
            gradients[k + 1] = gradient.sum(dim=tuple(range(extra))) if extra else gradient
        return tuple(gradients)


def function(kernel: Kernel | Function | Program, *, fused: bool = True) -> Callable[..., Any]:
    """A kernel, or a traced function, as a function of PyTorch's tensors on a CUDA device.

        law = lb.compiler.trace(lambda q, v, K: robot.gravity(q) - K * v, {"q": 6, "v": 6, "K": 6}, "law")
        liebody.interop.torch.function(law)(q, v, K).sum().backward()

    fused  whether products and sums may become fused multiply-adds

    Tensors are as `compiler.DeviceKernel` takes them: states or batches of float32 or float64. There is one
    result, or a tuple of them. Raises ArgumentError for what is no tensor, such as NumPy arrays, and the
    errors of `DeviceKernel`: DeviceError for tensors of the CPU.
    """
    return Differentiable(kernel if isinstance(kernel, Kernel) else Kernel(kernel), fused)
