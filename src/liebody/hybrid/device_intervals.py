"""Intervals of hybrid systems on CUDA devices, whose members have clocks of their own."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np

from ..base.errors import ModelError
from ..compiler.programs.layout import ensemble_of
from ..scalars import Array
from ..stepping.hold import DeviceHold
from ..stepping.hybrid import HybridFlow
from ..stepping.march import Settings


class HostOfIntervals(Protocol):
    """The members of a stepper that `DeviceIntervals` reads; dt is the length of an interval [s]."""

    system: Any
    dt: float

    def rows_on_device(self, *, fused: bool = True) -> DeviceIntervals: ...


class DeviceIntervals(DeviceHold):
    """Intervals of a hybrid system on arrays of a CUDA device; `HybridStepper.rows_on_device` makes it.

        march = lb.stepper(system, dt=0.02).rows_on_device()
        rows = torch.as_tensor(march.start(q0), device="cuda")
        u = torch.as_tensor(march.parameters({"floor_friction": mu}), device="cuda")
        for _ in range(500):
            u[:, march.parameter_places["pd_q_des"]] = policy(rows[:, march.places["q"]])
            rows = march(rows, u)               # 0.02 s later: all steps of the interval in one launch

    march(rows, parameters, out=None) takes arrays as `compiler.DeviceKernel` does: rows (..., size) of
    members, and parameters (..., size) for each member, or one row for all. `start` and `parameters` make
    both on the CPU, and `places` and `parameter_places` say which of their columns are what:

    places            {name: slice} of rows: "q", "v", all memory, "works", "intervals" since the start,
                      "reason" why a member ended (0: it goes on), "since_event" of each guard [s]
    parameter_places  {name: slice} of parameters; an array (2, 3) is 6 columns

    Each member has its own clock, intervals times the length of an interval. float64 and float32 take the
    steps of `HybridStepper.step` in this type. Errors as of `compiler.DeviceKernel`.
    """

    def __init__(
        self, stepper: HostOfIntervals, flow: HybridFlow, settings: Settings, *, fused: bool = True
    ) -> None:
        self.stepper = stepper
        self.system = system = stepper.system
        if system.parameters.tables:
            raise ModelError(
                f"the parameter {min(system.parameters.tables)!r} of {system.name} is a table in memory "
                "of the CPU, which a device cannot read; take system.with_constant_tables()"
            )
        super().__init__(flow, stepper.dt, settings, fused)
        # the order of a flat state, as `system.write_flat` makes it; then the columns of `DeviceHold`
        sizes = {"q": system.nq, "v": system.nv}
        constant, flowing = (
            {name: at.stop - at.start for name, at in layout.places.items()}
            for layout in (system.constant_memory, system.flowing_memory)
        )
        (rows,) = self.inputs["rows"]
        works = {"works": len(system.power_names), "intervals": 1, "reason": 1}
        self.places = _places({**constant, **sizes, **flowing, **works})
        self.places["since_event"] = slice(self.places["reason"].stop, rows)
        self.parameter_places = dict(system.parameters.places)

    def __reduce__(self) -> tuple[Any, ...]:
        return _device_intervals, (self.stepper, self.fused)

    def start(
        self,
        q0: Array,
        v0: Array = None,
        parameters: Mapping[str, Any] | None = None,
        **memory: Any,
    ) -> np.ndarray:
        """Rows (..., size) of members at q0, v0, in memory of the CPU; as `HybridStepper.start`.

        The members are the leading axes of states, parameters and memory, which are broadcast.
        """
        q, v = self.system.checked_states(q0, v0)
        given = self.system.parameters.batches(parameters or {}) | self.system.memory.batches(memory)
        batch = ensemble_of({"q0": q.shape[:-1], "v0": v.shape[:-1], **given})
        u = self.parameters(parameters, batch)
        n = math.prod(batch)
        y = self.system.start_states(q, v, u.reshape(n, -1), memory, batch)
        rows = np.zeros((n, *self.inputs["rows"]))
        # behind the state: no interval since the start, no reason, and no event ever
        rows[:, : y.shape[1]] = y
        rows[:, self.places["since_event"]] = np.inf
        return rows.reshape(*batch, -1)

    def parameters(
        self, values: Mapping[str, Any] | None = None, batch: tuple[int, ...] | None = None
    ) -> np.ndarray:
        """Flat parameters (..., size) in memory of the CPU: the defaults, or values (..., *shape).

        batch  leading axes; default: the leading axes of the values
        """
        layout = self.system.parameters
        if batch is None:
            batch = ensemble_of(layout.batches(values or {}))
        return layout.values(self.system.fitted(values or {}, self.interval), batch, self.interval)


def _places(sizes: Mapping[str, int]) -> dict[str, slice]:
    """Slices of a flat array that has parts of these sizes, in this order."""
    ends = np.cumsum([0, *sizes.values()]).tolist()
    return {name: slice(a, b) for name, a, b in zip(sizes, ends, ends[1:], strict=False)}


def _device_intervals(stepper: HostOfIntervals, fused: bool) -> DeviceIntervals:
    return stepper.rows_on_device(fused=fused)
