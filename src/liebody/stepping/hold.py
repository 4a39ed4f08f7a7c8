"""Intervals of hybrid systems on CUDA devices, in which parameters are held: one launch for each interval."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..base.errors import ModelError
from ..compiler import DeviceSource
from ..compiler.native.device_code import ENTRY
from ..compiler.printers.c import literal, number_type
from ..compiler.printers.cuda import BLOCK
from ..compiler.runtime import runtime
from .hybrid import HybridFlow
from .march import LOCATED_IN_SINGLE, Settings
from .print_explicit import hybrid_source

MORE = 2  # entries of a row behind the state: intervals since the start, and why the member ended


class DeviceHold(DeviceSource):
    """One interval of a hybrid system on a CUDA device: hold(rows, parameters) -> rows, on arrays there.

    flow      the steps of the system
    interval  its length                                                                                 [s]
    settings  as of `HybridFlow.march`

    A row of a member is its state, then the number of intervals since its start, the code of the reason why
    it ended (`REASONS`; 0: it goes on), and the time since the last event of each guard. `runtime/hold.h`
    calls the march of the CPU, which counts time in doubles also where the arrays are float32. Arrays in
    float32 locate events to 1e-9 s at most. A member that has ended keeps its state. Raises the errors of
    `DeviceKernel`; ModelError for systems with calls.
    """

    def __init__(self, flow: HybridFlow, interval: float, settings: Settings, fused: bool = True) -> None:
        if flow.calls:
            raise ModelError(
                f"the system calls {flow.calls[0].kernel.name} between steps, which has no kernel for "
                "devices; take controllers of `hybrid` that are functions of the state"
            )
        self.flow = flow
        self.interval = interval
        self.settings = settings
        _, y, u = flow.functions.field.inputs.values()
        (g,) = flow.functions.guards.outputs.values()
        rows = y.size + MORE + g.size
        super().__init__("hold", {"rows": (rows,), "parameters": (u.size,)}, {"rows": (rows,)}, fused)

    def source(self, dtype: Any = np.float64) -> str:
        """CUDA C++ of the kernel."""
        single = np.dtype(dtype) == np.float32
        number = number_type(single)
        flow = self.flow
        tolerance = -1.0 if self.settings.tolerance is None else self.settings.tolerance
        # The arrays decide in which numbers the kernel computes, whatever the type of the stepper is. A
        # negative tolerance locates no events, and stays.
        if single and tolerance >= 0:
            tolerance = max(tolerance, LOCATED_IN_SINGLE)
        constants = {
            "INTERVAL": literal(self.interval),
            "TOLERANCE": literal(tolerance),
            "LEAST": literal(self.settings.least),
            "LIMIT": self.settings.limit,
        }
        (rows,) = self.inputs["rows"]
        # Each thread takes every (number of threads)-th member, so any number of blocks serves all members.
        takes = "int64_t n, const real *restrict rows, const real *restrict parameters, real *restrict ends"
        return "\n".join(
            [
                hybrid_source(flow.functions, flow.method, 1, flow.retries, number, device=True),
                *(f"#define {name} {value}" for name, value in constants.items()),
                runtime("hold.h"),
                f'extern "C" __global__ void __launch_bounds__({BLOCK}) {ENTRY}({takes}, int64_t step0, '
                "int64_t step1) {",
                "    const int64_t first = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;",
                "    const int64_t apart = (int64_t)gridDim.x * blockDim.x;",
                "    for (int64_t i = first; i < n; i += apart)",
                f"        hold(rows + i * step0, parameters + i * step1, ends + i * {rows});",
                "}",
            ]
        )
