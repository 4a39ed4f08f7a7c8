"""Simulations of robots on CUDA devices, whose states stay there."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from ..base.arguments import check_members, count, floats
from ..base.errors import IntegrationError, ShapeError, warn
from ..compiler import cuda_device
from ..compiler.native.device_arrays import batch_of
from ..compiler.native.device_queue import DeviceQueue
from ..hybrid.device import ROOM_ON_DEVICE, kept_events, numbers_and_arrays, refuse_of_cpu
from ..hybrid.results import warn_of_lost_events
from ..integrators import Method
from ..mechanisms import Mechanism
from ..runs import DeviceEvents, DeviceRun, EventLog, Run
from ..runs.device import columns
from ..scalars import Array
from ..stepping import Clock, Drive, Samples
from ..stepping.device import DevicePart, DeviceSamples, device_loop, device_samples
from ..stepping.march import LOCATED_IN_SINGLE, REASONS, STOPPED, Settings
from ..stepping.samples import equidistant
from .efforts import EffortInput, is_sampled
from .motion import PreparedSimulation
from .reports import DivergedMembers, note_passed_limits
from .setup import (
    guards_of,
    is_single_precision,
    mechanism_of,
    stabilization_of,
    tolerances_of,
    with_parameters,
)


def check_for_device(method: Any, clock: Clock, prescribed: Any) -> None:
    """Raise IntegrationError for motions that are of the CPU; each message has the remedy."""
    if not isinstance(method, Method):
        raise IntegrationError(
            f"{method.name} solves equations in its steps, which it does on the CPU alone; on a device take "
            "an explicit method, such as 'rkmk4'"
        )
    if clock.h is None:
        raise IntegrationError(
            "steps on a device have one length, and without dt there is error control: give dt, such as 1e-3"
        )
    if prescribed:
        raise IntegrationError(
            "prescribed joints start from states that are checked and completed on the CPU; leave out "
            "device, or give the joint an effort that follows its target"
        )


def free_on_device(
    mechanism: Any, parameters: Mapping[str, Any], functions: Any
) -> tuple[Any, Array, dict[str, Any]]:
    """The mechanism with free parameters, their values (np,), and arrays of the device by "parameter name".

    Values of the arrays are the mechanism's own, or zero, in the values (np,).
    """
    numbers, arrays = numbers_and_arrays("parameter", parameters)
    known = getattr(mechanism, "parameters", {})
    nominal = dict(numbers)
    for key in arrays:
        name = key.removeprefix("parameter ")
        nominal[name] = known[name].value if name in known else 0.0
    return *with_parameters(mechanism, nominal, functions), arrays


def simulate_on_device(
    mechanism: Any, q0: Any, v0: Any, *, method: Any, clock: Clock, tau: Any, hold: str, forces: Any,
    joints: Any, prescribed: Any, stabilization: Any, events: Mapping[str, Any], parameters: Any, rtol: Any,
    atol: Any, threads: Any, progress: Any, most_events: int | None, dtype: Any, device: str, fused: bool,
    metadata_of: Callable[[PreparedSimulation, float], dict[str, Any]],
) -> DeviceRun:  # fmt: skip
    """The run of `simulate` on a device; arguments as there, with the forces as objects.

    metadata_of  (simulation, seconds) -> the metadata of its run
    """
    cuda_device(device)
    refuse_of_cpu(threads, progress)
    check_for_device(method, clock, prescribed)
    tolerances = tolerances_of(clock.h, rtol, atol)
    functions = (tau, *events.values())
    parametric, p, arrays = free_on_device(mechanism, parameters or {}, functions)
    moving = mechanism_of(parametric, forces, joints, clock.h)
    if moving.nc:
        raise IntegrationError(
            f"{moving.name} has constraints, which are watched for singular positions on the CPU alone; "
            "leave out device"
        )
    stabilization_of(moving, method, stabilization, clock.h)
    single = is_single_precision(dtype, moving, method)
    efforts = traced_efforts(moving, tau, hold, p)
    states = {"q0": q0, **({} if v0 is None else {"v0": v0})}
    most = ROOM_ON_DEVICE if most_events is None else count("most_events", most_events, 0)
    simulation = PreparedSimulation(
        moving, method, None, (np.zeros((0, moving.nq)), np.zeros((0, moving.nv))), (), efforts, clock,
        tolerances, events, None, forces, joints, (), single, max(most, 1),
    )  # fmt: skip
    prepared = DeviceSimulation(simulation, {**states, **arrays}, tau, hold, most, fused)
    begin = time.perf_counter()
    run = prepared.run(metadata_of(simulation, 0.0) | {"device": device})
    run.metadata["seconds"] = time.perf_counter() - begin
    return run


class DeviceSimulation:
    """A prepared simulation whose members are on a device.

    simulation  without states: those of the CPU are made when the run is copied
    arrays      q0, v0, and parameters that are arrays, by name
    tau         efforts: None, a function that is traced already, an array, or a pair (times, array)
    most        room of the logs of events
    fused       whether products and sums may become fused multiply-adds
    """

    def __init__(
        self, simulation: PreparedSimulation, arrays: Mapping[str, Any], tau: Any, hold: str, most: int,
        fused: bool,
    ) -> None:  # fmt: skip
        self.simulation = simulation
        self.arrays = dict(arrays)
        self.most = most if simulation.events else 0
        self.fused = fused
        self.over_time: Samples | None = None
        self.sampled = False
        if tau is not None and not callable(tau):
            if is_sampled(tau):
                times = floats("times of tau", tau[0])
                shared = np.zeros((1, len(times), 0))
                self.over_time = Samples(shared, *equidistant("tau", times), hold == "linear")
                self.sampled = True
            self.arrays["tau"] = tau[1] if self.sampled else tau

    def run(self, metadata: dict[str, Any]) -> DeviceRun:
        """Queue the steps, wait for them, and make the run."""
        simulation = self.simulation
        mechanism, clock = simulation.mechanism, simulation.clock
        name, nq, nv = mechanism.name, mechanism.nq, mechanism.nv
        queue = DeviceQueue("simulate", self.arrays)
        kind = np.dtype(np.float32 if simulation.single else np.float64)
        if queue.dtype != kind:
            raise ShapeError(
                f"simulate: arrays hold {queue.dtype}, and steps are in {kind}; convert the arrays, or give "
                f"dtype={str(queue.dtype)!r}"
            )
        batch = self._batch(queue)
        check_members(batch)
        n, rows, point, times = math.prod(batch), len(clock.times), nq + nv, clock.times
        samples = self._samples(queue, batch)
        size = queue.dtype.itemsize
        start = queue.memory({"start": n * point * size})["start"]
        for key, first, width in (("q0", 0, nq), ("v0", nq, nv)):
            to = (start + first * size, point)
            if key in self.arrays:
                x = queue.given[key]
                step = x.row_step(f"simulate: {key}", 1)
                queue.copy(n, (x.pointer, step), to, width)
            else:
                zeros = queue.memory({"zeros": nv * size})["zeros"]
                queue.write(zeros, np.zeros(nv, queue.dtype))
                queue.copy(n, (zeros, 0), to, width)
        record, at_record = queue.empty((*batch, rows, point))
        q, v = columns(record, 0, (nq,)), columns(record, nq, (nv,))
        fields: dict[str, Any] = {"t": times, "q": q, "v": v, "metadata": metadata}
        flow = simulation.flow()
        if not simulation.events:
            loop = device_loop(flow, march=False, fused=self.fused)
            places = loop.steps(queue, n, start, samples, clock, at_record)
            # what is read here waits for the device
            failed = queue.read(places[0], (n,), np.int64)
            ends = np.zeros((n, 2))
            counts = entries = None
        else:
            flow = flow.watching(guards_of(mechanism, simulation.events, point, samples_dim(mechanism)))
            loop = device_loop(flow, march=True, fused=self.fused)
            log, at_log = queue.empty((*batch, self.most, 2 + point), "float64") if self.most else (None, 0)
            happened, at_happened = queue.empty(batch)
            located = LOCATED_IN_SINGLE if simulation.single else Settings.tolerance
            settings = Settings(controlled=False, tolerance=located, most=self.most)
            given = {"start": start, "record": at_record, "happened": at_happened}
            given |= {"entries": at_log} if self.most else {}
            at = loop.march(queue, n, samples, times, clock.first, settings, **given)
            ends = queue.read(at["ends"], (n, 2), np.float64)
            counts = queue.read(at["counts"], (n, 4), np.int64)
            entries = (at_log, happened) if self.most else None
            lost = (ends[:, 1] > 0) & (ends[:, 1] != STOPPED)
            reached = np.searchsorted(times, ends[:, 0], side="right")  # the first row behind the end
            failed = np.where(lost, reached + 1, 0)
            if self.most:
                warn_of_lost_events(counts[:, 0], np.minimum(counts[:, 0], self.most), self.most)
                fields["events"] = self._events(log, happened, queue, at_log, counts, batch)
            fields["counts"] = counts[:, :3].reshape(*batch, 3)
        end_times = np.where(ends[:, 1] > 0, ends[:, 0], times[-1])
        # of steps of one length only the first row that is not finite is known
        unknown = (failed > 0) & (ends[:, 1] == 0)
        end_times[unknown] = times[failed[unknown] - 2]
        texts = np.where(unknown, REASONS[1], [REASONS[int(k)] for k in ends[:, 1]])

        def copied() -> Run:
            return self._copied(queue, batch, samples, at_record, failed, ends, counts, entries, metadata)

        run = DeviceRun(
            ends=texts.reshape(batch), end_times=end_times.reshape(batch), copied=copied, **fields
        )
        report_lost_on_device(name, run, failed, times)
        return run

    def _batch(self, queue: DeviceQueue) -> tuple[int, ...]:
        mechanism = self.simulation.mechanism
        shapes = {"q0": (mechanism.nq,), "v0": (mechanism.nv,)}
        states = {key: shapes[key] for key in shapes if key in self.arrays}
        return batch_of("simulate", states, [queue.given[key] for key in states])

    def _samples(self, queue: DeviceQueue, batch: tuple[int, ...]) -> DeviceSamples:
        """The table of efforts, with parameters behind them."""
        simulation = self.simulation
        mechanism = simulation.mechanism
        layout, nu = mechanism.layout, mechanism.nu
        row = np.concatenate([np.zeros(nu), simulation.efforts.p])
        parts = []
        if "tau" in self.arrays:
            parts.append(DevicePart("tau", 0, (nu,), self.sampled))
        for key in self.arrays:
            if key.startswith("parameter "):
                name = key.removeprefix("parameter ")
                parts.append(DevicePart(key, nu + layout.places[name].start, layout.defaults[name].shape))
        return device_samples(queue, "simulate", batch, row, parts, self.over_time)

    def _events(
        self, log: Any, happened: Any, queue: DeviceQueue, at_log: int, counts: Any, batch: tuple[int, ...]
    ) -> DeviceEvents:
        mechanism = self.simulation.mechanism
        nq, nv = mechanism.nq, mechanism.nv
        names = tuple(self.simulation.events)
        parts = columns(log, 0, ()), columns(log, 1, ()), columns(log, 2, (nq,)), columns(log, 2 + nq, (nv,))

        def copied() -> Any:
            n = len(counts)
            drive = self._drive(np.zeros((n, nq)), np.zeros((n, nv)))
            entries = queue.read(at_log, (n, self.most, 2 + nq + nv), np.float64)
            kept_events(drive.members, counts[:, 0], entries)
            logs = EventLog.of_members(drive.members, names, lambda _, y: (y[:, :nq], y[:, nq : nq + nv], {}))
            return logs if batch else logs[0]

        return DeviceEvents(names, *parts, {}, happened, copied)

    def _drive(self, q: Array, v: Array) -> Drive:
        """The drive of the same simulation on the CPU, at its start."""
        self.simulation.states = q, v
        return self.simulation.drive()

    def _copied(
        self, queue: DeviceQueue, batch: tuple[int, ...], samples: DeviceSamples, at_record: int, failed: Any,
        ends: Any, counts: Any, entries: Any, metadata: dict[str, Any],
    ) -> Run:  # fmt: skip
        """The run on the CPU of what is in the memory of the device."""
        simulation = self.simulation
        mechanism = simulation.mechanism
        n, rows, nq, nu = math.prod(batch), len(simulation.clock.times), mechanism.nq, mechanism.nu
        states = queue.read(at_record, (n, rows, nq + mechanism.nv), queue.dtype)
        own = n if samples.stride else 1
        dim = nu + mechanism.layout.size
        table = queue.read(samples.table, (own, samples.samples, dim), np.float64)
        efforts = simulation.efforts
        over_time = Samples(table, samples.first, samples.interval, samples.linear)
        efforts.samples = replace(over_time, table=np.ascontiguousarray(table[..., :nu]))
        p = table[:, 0, nu:]
        efforts.p = p.reshape(*batch, -1) if own > 1 else p[0]
        simulation.batch = batch
        drive = self._drive(*(np.ascontiguousarray(x) for x in (states[:, 0, :nq], states[:, 0, nq:])))
        members = drive.members
        members.record[...] = states
        members.ends[...] = ends
        drive.failed[:] = failed
        if counts is not None:
            members.counts[...] = counts
        if entries is not None:
            log = queue.read(entries[0], (n, self.most, 2 + nq + mechanism.nv), np.float64)
            kept_events(members, counts[:, 0], log)
        times, record = simulation.recorded(drive)
        metadata = dict(metadata)
        if simulation.joints is None and mechanism.idle_limits is not None:
            note_passed_limits(mechanism, times, simulation.parted(record)[0], metadata, efforts.p)
        return simulation.run(drive, times, record, metadata)


def samples_dim(mechanism: Mechanism) -> int:
    """The number of efforts with the parameters behind them."""
    return int(mechanism.nu + mechanism.layout.size)


def report_lost_on_device(name: str, run: DeviceRun, failed: Any, times: Array) -> None:
    """Raise IntegrationError for a simulation that was lost, warn of members of an ensemble."""
    lost = np.flatnonzero(failed)
    if not len(lost):
        return
    batch = run.ends.shape
    remedy = "take a smaller step; run.to_cpu() has the states up to there"
    if not batch:
        error = IntegrationError(
            f"the state of {name} is not finite after t = {run.end_times:g} s; {remedy}, and the attribute "
            "`run` of this error is the run"
        )
        error.run = run  # type: ignore[attr-defined]
        raise error
    first = tuple(int(k) for k in np.unravel_index(lost[0], batch))
    warn(
        f"{len(lost)} of {len(failed)} members did not stay finite, the first one of them {first} after "
        f"{run.end_times[first]:g} s; {remedy}",
        DivergedMembers,
    )


def traced_efforts(mechanism: Mechanism, tau: Any, hold: str, p: Array) -> EffortInput:
    """The efforts of a simulation on a device: functions are traced, and arrays come later.

    Raises IntegrationError for a function that can only be called.
    """
    efforts = EffortInput(mechanism, tau if callable(tau) else None, hold, (), p)
    if callable(tau):
        start: Callable[..., Any] = mechanism.start
        why = efforts.trace(tau, start(p), np.zeros(mechanism.nv))
        if why is not None:
            raise IntegrationError(f"steps on a device are compiled, and {why}")
    elif tau is not None:
        efforts.kind = "compiled"
    return efforts
