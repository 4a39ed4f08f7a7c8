"""Kernels that another library calls from its own C code, with its own buffers, such as XLA below JAX."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ...base.errors import CompilerError
from ..printers.c import constant_table, enumeration
from ..printers.cuda import BLOCK
from . import build, entry
from .device import DeviceKernel
from .device_code import MOST_BLOCKS
from .driver import driver
from .kernel import FEW, Kernel

Shapes = Sequence[tuple[int, ...]]


class Foreign(NamedTuple):
    """Another library that calls C functions, and how it does so.

        jax = Foreign("functions of JAX", text, [folder of headers], "install another version")
        call = jax.call("gravity", [(6,)], [(6,)])  # each name has one library
        register(call.handle)  # with the other library
        call.serve(kernel, rows=1000)

    what     its functions, as the subject of messages
    text     C that defines `handle`, the function that the other library calls, and

                 void use_loops(Run *over_one, Run *over_lanes)

             which keeps the loops of a kernel. `over_one` serves fewer rows than FEW. Their type is

                 int64_t Run(int64_t rows, const void *const *in, const int64_t *in_strides,
                             void *const *out, const int64_t *out_strides, int)

             Strides count numbers, and are 0 for an array with one row that all share. The last argument is
             0. A negative result means that there is no memory. Before the text stand the constants INPUTS,
             OUTPUTS and FEW, the name `called`, and the tables input_dimensions, input_size and output_size
    folders  folders of its headers
    advice   end of the message where the compiler refuses the text, as for headers of another version
    """

    what: str
    text: str
    folders: Sequence[str] = ()
    advice: str = build.OTHERWISE

    def call(self, name: str, inputs: Shapes, outputs: Shapes) -> ForeignCall:
        """The compiled function for arrays of these shapes (of one state), one for each name.

        Raises CompilerError where there is no C compiler, and where it refuses the text.
        """
        return ForeignCall(self._library(name, inputs, outputs, {"FEW": FEW}))

    def device_call(self, name: str, inputs: Shapes, outputs: Shapes) -> ForeignDeviceCall:
        """The compiled function for arrays of these shapes on a CUDA device.

        The text is as `ForeignDeviceCall` says. Raises the errors of `call`.
        """
        constants = {"BLOCK": BLOCK, "MOST_BLOCKS": MOST_BLOCKS}
        return ForeignDeviceCall(self._library(name, inputs, outputs, constants))

    def _library(
        self, name: str, inputs: Shapes, outputs: Shapes, constants: Mapping[str, int]
    ) -> ctypes.CDLL:
        # sizes as tables, then the text that reads them
        lines = [
            "#include <stdint.h>",
            enumeration({"INPUTS": len(inputs), "OUTPUTS": len(outputs), **constants}),
            f'static const char called[] = "{name}";',
            constant_table("int64_t", "input_dimensions", map(len, inputs)),
            constant_table("int64_t", "input_size", map(math.prod, inputs)),
            constant_table("int64_t", "output_size", map(math.prod, outputs)),
        ]
        compiler = build.find_compiler()
        if compiler is None:
            raise CompilerError(f"{self.what} are compiled, and there is no C compiler; {build.ADVICE}")
        flags = (*build.FLAGS, *(f"-I{folder}" for folder in self.folders))
        source = build.Source(["\n".join([*lines, self.text])], flags, self.advice, name)
        return build.library(source, compiler)


class ForeignCall:
    """A C function by which another library runs a kernel on its own buffers; made by `Foreign.call`.

    handle  the function, a pointer of ctypes
    """

    def __init__(self, library: ctypes.CDLL) -> None:
        self._use_loops = library.use_loops
        self._use_loops.argtypes = [ctypes.c_void_p] * 2
        self.handle: Any = library.handle
        self.handle.restype = ctypes.c_void_p

    def serve(self, kernel: Kernel, rows: int) -> None:
        """Run this kernel from now on; the loop that so many rows need is compiled if it is missing.

        The caller keeps the kernel as long as the other library may call.
        """
        self._use_loops(*entry.addresses(kernel.loops(rows)))


# The driver's functions that the text of a call on a device may use, in this order.
DRIVER = ("cuStreamGetCtx", "cuCtxPushCurrent_v2", "cuCtxPopCurrent_v2", "cuLaunchKernel", "cuGetErrorName")


class ForeignDeviceCall:
    """A C function by which another library queues a kernel on its own buffers on a CUDA device.

    `Foreign.device_call` makes it. The text defines `handle`, the function that the other library calls, and

        void use_kernels(const Driver *functions, int count, const Loaded *kernels)

    which keeps the kernel of each device. `Driver` has five pointers: cuStreamGetCtx, cuCtxPushCurrent,
    cuCtxPopCurrent, cuLaunchKernel and cuGetErrorName. `Loaded` has two: a primary context and the kernel in
    it, whose arguments are the number of rows, the inputs, the outputs, and the numbers between rows of each
    input. Before the text stand the constants INPUTS, OUTPUTS, BLOCK and MOST_BLOCKS, the name `called`, and
    the tables of `Foreign`.

    handle  the function, a pointer of ctypes
    """

    def __init__(self, library: ctypes.CDLL) -> None:
        self._use_kernels = library.use_kernels
        self.handle: Any = library.handle
        self.handle.restype = ctypes.c_void_p
        self._kept: tuple[Any, ...] = ()  # what C points to

    def serve(self, kernel: DeviceKernel, dtype: Any, devices: Sequence[int]) -> None:
        """Run this kernel for numbers of a type; it is compiled for these devices and loaded there.

        The caller keeps this object as long as the other library may call. Raises the errors of
        `DeviceKernel` for the driver and the compiler.
        """
        chosen = driver()
        code = kernel.code(dtype)
        kernels = [code.on(chosen, device) for device in devices]
        pairs = [x for pair in zip(kernels, devices, strict=True) for x in chosen.handles(*pair)]
        functions = (ctypes.c_void_p * len(DRIVER))(*map(chosen.address, DRIVER))
        loaded = (ctypes.c_void_p * len(pairs))(*pairs)
        self._use_kernels(functions, len(devices), loaded)
        self._kept = kernels, loaded
