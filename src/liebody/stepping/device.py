"""The loops of runtime/march.h on CUDA devices: members of an ensemble are threads."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ..base.arguments import wrong_shape
from ..base.concurrency import cached_property
from ..compiler.native.device_code import DeviceCode
from ..compiler.native.device_queue import DeviceQueue, bits_of
from .clock import Clock
from .loop import CompiledSteps, Way
from .march import Settings
from .samples import Samples

CLOCK_SIZE, LOG_SIZE = 40, 24  # bytes of Clock and Log of runtime/march.h


class DeviceSamples(NamedTuple):
    """`Samples` in the memory of a device."""

    table: int
    """address of the table (1 or n, samples, dim), of doubles"""
    stride: int
    """numbers between the tables of members; 0: all share one"""
    samples: int = 1
    first: float = 0.0
    interval: float = 1.0
    linear: bool = False

    @property
    def arguments(self) -> list[int]:
        linear = int(self.linear and self.samples > 1)
        return [self.table, self.stride, self.samples, bits_of(self.first), bits_of(self.interval), linear]


class DevicePart(NamedTuple):
    """Values of some columns of a table that are arrays of a device.

    name     of the array in the queue
    first    its first column
    shape    of a value
    sampled  whether there is one for each sample: (..., samples, *shape) instead of (..., *shape)
    """

    name: str
    first: int
    shape: tuple[int, ...]
    sampled: bool = False


def device_samples(
    queue: DeviceQueue, what: str, batch: tuple[int, ...], row: Any, parts: Sequence[DevicePart],
    over_time: Samples | None = None,
) -> DeviceSamples:  # fmt: skip
    """A table of samples on a device: numbers of the CPU, the same for all members, and arrays of the device.

    what       of the call, in messages
    row        (dim,), values of all columns; `parts` go over them
    over_time  whose number of samples, times and interpolation these samples have; None: one sample

    Raises ShapeError for arrays of other shapes.
    """
    shared = over_time or Samples(np.zeros((1, 1, 0)))
    count = shared.table.shape[1]
    dim = len(row)
    leads = []
    for part in parts:
        x = queue.given[part.name]
        shape = ((count,) if part.sampled else ()) + part.shape
        lead = x.shape[: len(x.shape) - len(shape)]
        if x.shape[len(lead) :] != shape or lead not in ((), batch):
            expected = f"{shape}" + (f", or {batch + shape} for each member" if batch else "")
            raise wrong_shape(f"{what}: {part.name}", x.shape, expected)
        leads.append(lead)
    n = math.prod(batch) if any(leads) else 1
    memory = queue.memory({"table": 8 * n * count * dim, "row": 8 * dim})
    # All rows of the table begin as the CPU's row; then each array goes into its columns.
    queue.write(memory["row"], np.asarray(row, float))
    double = np.dtype(np.float64)
    queue.copy(n * count, (memory["row"], 0), (memory["table"], dim), dim, (double, double))
    # Row i of the table is sample i % count of member i // count. An array over time has a row for each
    # sample, and either all members share them or each member has some; another array has a row for all
    # members or for each.
    for part, lead in zip(parts, leads, strict=True):
        x = queue.given[part.name]
        step = x.row_step(f"{what}: {part.name}", len(part.shape))
        own = math.prod(lead) if lead else 1  # tables that the array has
        repeat, period = (1, own * count) if part.sampled else (count, own)
        to = (memory["table"] + 8 * part.first, dim)
        width = math.prod(part.shape)
        queue.copy(n * count, (x.pointer, step), to, width, (queue.dtype, double), repeat, period)
    stride = count * dim if n > 1 else 0
    return DeviceSamples(memory["table"], stride, count, shared.first, shared.interval, shared.linear)


def device_loop(flow: CompiledSteps, march: bool, fused: bool = True) -> DeviceLoop:
    """The loop of a flow on devices, made once."""
    key = march, fused
    if key not in flow.device_loops:
        flow.device_loops.setdefault(key, DeviceLoop(flow, march, fused))
    return flow.device_loops[key]


class DeviceLoop:
    """The loop of a flow on CUDA devices, compiled when it is first used.

    flow   an explicit method's steps, in the type of numbers that they have
    march  whether members march, each with its own steps and events; otherwise steps have one length
    fused  whether products and sums may become fused multiply-adds
    """

    def __init__(self, flow: CompiledSteps, march: bool, fused: bool = True) -> None:
        self.flow = flow
        way = Way(march=march)
        recipe = flow.recipe and "|".join([flow.recipe, repr(flow.settings), repr(way)])
        self.code = DeviceCode("steps of a simulation", lambda: flow.device_source(way), recipe, fused)

    @cached_property
    def point(self) -> int:
        """The length of a state."""
        _, y, _ = self.flow.functions.field.inputs.values()
        return int(y.size)

    @cached_property
    def guards(self) -> int:
        """The number of guards."""
        return self.flow.guard_count

    def steps(
        self, queue: DeviceQueue, n: int, start: int, samples: DeviceSamples, clock: Clock, record: int
    ) -> tuple[int, int]:
        """Queue the steps of a clock from states `start` (n, point), into record (n, rows, point).

        Returns the addresses of `failed` (n,), whole numbers, and of `losses` (n, 2), as of `Flow.steps`.
        """
        size = queue.dtype.itemsize
        memory = queue.memory({"y": n * self.point * size, "failed": 8 * n, "losses": 16 * n})
        rows = len(clock.times)
        # A stretch has steps of one length: one launch. States go from one to the next in `y`.
        for k, stretch in enumerate(clock.stretches):
            t, h, steps, every, row = stretch
            begin = int(not k)
            queue.launch(
                self.code,
                n,
                [
                    *(start, memory["y"], *samples.arguments, bits_of(t), bits_of(h), steps, every, begin),
                    *(row, rows, record, memory["failed"], memory["losses"]),
                ],
            )
        return memory["failed"], memory["losses"]

    def march(
        self,
        queue: DeviceQueue,
        n: int,
        samples: DeviceSamples,
        times: Any,
        wanted: float,
        settings: Settings,
        **places: int,
    ) -> dict[str, int]:
        """Queue a march of n members to the times (rows,) of their record; `wanted`: the first step to try.

        places  addresses of arrays: `start` (n, point), the states, and, where the caller keeps them,
                y         (n, point), the states at the end
                record    (n, rows, point)
                reasons   (n,), the codes of `REASONS`, and
                happened  (n,), how many events there were, as numbers of the arrays' type
                entries   (n, most, 2 + point), the logs, doubles; NaN behind the last event
                ends      (n, 2) and
                last      (n, guards), doubles, as of `Ensemble`
                With `ends_before` and `last_before` a march goes on, otherwise nothing has happened yet

        Returns the addresses of all of them, and of `counts` (n, 4), whole numbers, as of `Ensemble`.
        """
        rows, most, number = len(times), settings.most, queue.dtype.itemsize
        sizes = {
            "y": n * self.point * number,
            "record": n * rows * self.point * number,
            "reasons": n * number,
            "happened": n * number,
            "ends": 16 * n,
            "last": 8 * n * self.guards,
            "entries": 8 * n * most * (2 + self.point),
            "counts": 32 * n,
            "clock": CLOCK_SIZE * n,
            "logs": LOG_SIZE * n,
            "times": 8 * rows,
        }
        # the caller's arrays take the place of working memory
        memory = queue.memory({key: size for key, size in sizes.items() if key not in places})
        at = {"ends_before": 0, "last_before": 0, **memory, **places}
        queue.write(at["times"], np.asarray(times, float))
        tolerance = -1.0 if settings.tolerance is None else settings.tolerance
        queue.launch(
            self.code,
            n,
            [
                *(at["start"], at["y"], *samples.arguments, at["times"], rows, bits_of(wanted)),
                *(at[key] for key in ("record", "reasons", "happened", "clock", "ends", "ends_before")),
                *(at[key] for key in ("counts", "last", "last_before", "logs", "entries")),
                *(bits_of(tolerance), bits_of(settings.least), settings.limit, most),
            ],
        )
        return at
