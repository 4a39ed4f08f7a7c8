"""Hybrid systems on CUDA devices: simulations, and steps by intervals of one length."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, Protocol

import numpy as np

from ..base.arguments import check_members, check_state, floats, short, wrong_shape
from ..base.errors import ConfigurationError, IntegrationError, ModelError, ShapeError
from ..compiler import DeviceKernel, trace
from ..compiler.native.device_arrays import batch_of
from ..compiler.native.device_queue import DeviceQueue
from ..runs import DeviceEvents, DeviceRun, HybridRun
from ..runs.device import columns
from ..scalars import Array
from ..stepping import Clock, Samples
from ..stepping.device import DevicePart, DeviceSamples, device_loop, device_samples
from ..stepping.hybrid import HybridFlow
from ..stepping.march import REASONS, Ensemble, Settings
from ..stepping.samples import equidistant, is_linear
from .equations import HybridEquations
from .results import event_logs, hybrid_run, warn_of_lost_events

ROOM_ON_DEVICE = 100
"""Events of a member for which the log of a simulation on a device has room by default."""


def refuse_of_cpu(threads: int | None, progress: bool | None) -> None:
    """Raise IntegrationError for options of simulations that belong to the CPU."""
    if threads is not None:
        raise IntegrationError(
            f"threads = {threads} are of the CPU; on a device each member has one: leave it out"
        )
    if progress:
        raise IntegrationError(
            "a simulation on a device is one launch, which reports no progress: leave it out"
        )


def numbers_and_arrays(what: str, values: Mapping[str, Any]) -> tuple[dict[str, float], dict[str, Any]]:
    """Values by name: Python's numbers, the same for all members, and arrays of a device by "what name"."""
    numbers = {name: float(x) for name, x in values.items() if isinstance(x, (int, float, np.number))}
    return numbers, {f"{what} {name}": x for name, x in values.items() if name not in numbers}


def check_fitted(name: str, fitted: Mapping[str, Any], arrays: Mapping[str, Any]) -> None:
    """Raise IntegrationError for arrays of parameters that the CPU fits to an interval.

    name    of the system
    fitted  results of `HybridSystem.fitted`
    arrays  by "parameter name", as of `numbers_and_arrays`
    """
    for parameter in fitted:
        if f"parameter {parameter}" in arrays:
            raise IntegrationError(
                f"{name}: {parameter} is an array, and on a device it is one number for all members, fitted "
                "to the intervals; give a number, and call once for each length"
            )


class DeviceSystem:
    """A hybrid system with a method on CUDA devices: its loop, and its states at the start.

    system  with the guards of its events
    flow    its steps
    fused   whether products and sums may become fused multiply-adds
    """

    def __init__(self, system: HybridEquations, flow: HybridFlow, fused: bool = True) -> None:
        if system.parameters.tables:
            raise ModelError(
                f"the parameter {min(system.parameters.tables)!r} of {system.name} is a table in memory of "
                "the CPU, which a device cannot read; take system.with_constant_tables()"
            )
        self.system = system
        self.flow = flow
        self.loop = device_loop(flow, march=True, fused=fused)
        self.fused = fused
        self._starts: dict[Any, DeviceKernel] = {}

    def queue(self, arrays: Mapping[str, Any]) -> DeviceQueue:
        """The queue of a call with these arrays, which have the type of the flow."""
        queue = DeviceQueue(self.system.name, arrays)
        if queue.dtype != self.flow.dtype:
            raise ShapeError(
                f"{self.system.name}: arrays hold {queue.dtype}, and steps are in {self.flow.dtype}; convert "
                f"the arrays, or give dtype={str(queue.dtype)!r}"
            )
        return queue

    def samples(
        self, queue: DeviceQueue, batch: tuple[int, ...], numbers: Mapping[str, float], arrays: Sequence[str],
        sampled: Sequence[str], step: float, over_time: Samples | None = None,
    ) -> DeviceSamples:  # fmt: skip
        """The table of the parameters, with the step at its end.

        numbers          the same for all members
        arrays, sampled  names in the queue, "parameter name", of constant ones and of those over time
        """
        layout = self.system.parameters
        names = {key: key.removeprefix("parameter ") for key in (*arrays, *sampled)}
        layout.check(dict.fromkeys([*numbers, *names.values()]))
        row = layout.values(numbers, (), step)
        parts = [
            DevicePart(key, layout.places[name].start, layout.defaults[name].shape, key in sampled)
            for key, name in names.items()
        ]
        return device_samples(queue, self.system.name, batch, row, parts, over_time)

    def start(
        self, queue: DeviceQueue, batch: tuple[int, ...], samples: DeviceSamples,
        numbers: Mapping[str, float], arrays: Sequence[str],
    ) -> tuple[Any, int]:  # fmt: skip
        """States (*batch, size) at the start, from q0 and v0 of the queue, and their address.

        numbers, arrays  values of the memory, and names of others in the queue, "memory name"
        """
        name, layout = self.system.name, self.system.memory
        words = {key: key.removeprefix("memory ") for key in arrays}
        layout.check(dict.fromkeys([*numbers, *words.values()]))
        shapes: dict[str, tuple[int, ...]] = {"q0": (self.system.nq,)}
        shapes |= {"v0": (self.system.nv,)} if "v0" in queue.given else {}
        shapes |= {key: layout.defaults[word].shape for key, word in words.items()}
        given = [queue.given[key] for key in shapes]
        lead = batch_of(name, shapes, given)
        if lead not in ((), batch):
            raise ShapeError(f"{name}: arrays have the leading axes {lead}, the members are {batch}")
        n, dim, size = math.prod(batch), self.system.parameters.size + 1, queue.dtype.itemsize
        own = n if samples.stride else 1
        memory = queue.memory({"u": own * dim * size, "numbers": len(numbers) * size})
        types = np.dtype(np.float64), queue.dtype
        queue.copy(own, (samples.table, samples.stride), (memory["u"], dim), dim, types)
        queue.write(memory["numbers"], np.array(list(numbers.values()), queue.dtype))
        y, place = queue.empty((*batch, self.loop.point))
        rows = [
            (x.pointer, x.row_step(f"{name}: {key}", len(shape)))
            for (key, shape), x in zip(shapes.items(), given, strict=True)
        ]
        rows += [(memory["u"], dim if samples.stride else 0), (memory["numbers"], 0)]
        pointers, steps = zip(*rows, strict=True)
        kernel = self._start_kernel("v0" in queue.given, tuple(words.values()), tuple(numbers))
        queue.launch(kernel.code(queue.dtype), n, [*pointers, place, *steps])
        return y, place

    def _start_kernel(
        self, with_velocity: bool, arrays: tuple[str, ...], numbers: tuple[str, ...]
    ) -> DeviceKernel:
        """(q0, v0, arrays, u, numbers) -> y: values of the user, else results of `start`, else defaults."""
        key = with_velocity, arrays, numbers
        if key in self._starts:
            return self._starts[key]
        system = self.system
        layout = system.memory

        def flat(q: Array, *others: Any) -> Array:
            v = others[0] if with_velocity else np.zeros(system.nv)
            *parts, u, values = others[int(with_velocity) :]
            shapes = (layout.defaults[name].shape for name in numbers)
            spread = (np.full(shape, x) for shape, x in zip(shapes, values, strict=True))
            by_user = dict(zip([*arrays, *numbers], [*parts, *spread], strict=True))
            z = {**layout.defaults, **by_user}
            if system.start is not None:
                p = system.parameters.read(u[: system.parameters.size])
                made = system.start(0.0, q, v, layout.type(*z.values()), p)
                z = {**dict(zip(layout.defaults, made, strict=True)), **by_user}
            return system.write_flat(q, v, [*z.values()], np.zeros(len(system.power_names)))

        inputs: dict[str, Any] = {"q0": system.nq, **({"v0": system.nv} if with_velocity else {})}
        inputs |= {f"memory{k}": layout.defaults[name].shape for k, name in enumerate(arrays)}
        inputs |= {"u": system.parameters.size + 1, "numbers": len(numbers)}
        kernel = DeviceKernel(trace(flat, inputs, "start"), fused=self.fused)
        return self._starts.setdefault(key, kernel)

    def parts(self, y: Any) -> tuple[Any, Any, dict[str, Any]]:
        """q, v and the memory by name, of arrays (..., size)."""
        system = self.system
        first = system.constant_memory.size
        memory = {}
        behind = first + system.nq + system.nv
        for layout, begin in ((system.constant_memory, 0), (system.flowing_memory, behind)):
            for name, at in layout.places.items():
                memory[name] = columns(y, begin + at.start, layout.defaults[name].shape)
        q = columns(y, first, (system.nq,))
        return q, columns(y, first + system.nq, (system.nv,)), memory

    def events(self, log: Any, happened: Any, batch: tuple[int, ...]) -> DeviceEvents | None:
        """The events of a log (*batch, room, 2 + size); None without guards."""
        if not self.system.guard_names or log is None:
            return None
        t, guard = columns(log, 0, ()), columns(log, 1, ())
        rows = (slice(None),) * (len(log.shape) - 1)
        q, v, memory = self.parts(log[(*rows, slice(2, None))])

        def copied() -> Any:
            n = math.prod(batch)
            queue = DeviceQueue("to_cpu", {"log": log})
            entries = queue.read(queue.given["log"].pointer, (n, *log.shape[-2:]), np.float64)
            counts = DeviceQueue("to_cpu", {"count": happened})
            number = counts.read(counts.given["count"].pointer, (n,), counts.dtype)
            times = np.array([0.0, 0.0])
            members = Ensemble(np.zeros((n, self.loop.point)), times, 0.0, self.loop.guards)
            kept_events(members, number, entries)
            logs = event_logs(self.system, members)
            return logs if batch else logs[0]

        return DeviceEvents(self.system.guard_names, t, guard, q, v, memory, happened, copied)


def kept_events(members: Ensemble, happened: Any, entries: Any) -> None:
    """Put the events in the logs (n, room, 2 + point) of a device into the members of the CPU."""
    members.counts[:, 0] = happened
    for i, log in enumerate(entries):
        members.keep(i, log[: int(min(happened[i], len(log)))])


def device_system(system: HybridEquations, flow: HybridFlow, fused: bool = True) -> DeviceSystem:
    """A system with a separate flow on devices, made once."""
    key = flow, fused
    if key not in system.devices:
        system.devices.setdefault(key, DeviceSystem(system, flow, fused))
    made: DeviceSystem = system.devices[key]
    return made


def hybrid_device_run(
    system: DeviceSystem, q0: Any, v0: Any, clock: Clock, settings: Settings, step: float,
    parameters: Mapping[str, Any], memory: Mapping[str, Any], over_time: DeviceOverTime,
    metadata: dict[str, Any], judge: Callable[[Array], None] | None,
) -> DeviceRun:  # fmt: skip
    """The run of a simulation on a device, from arrays q0 and v0 (None: at rest); others as of `simulate`.

    judge  gets the flat states (n, size) at the end, and warns of failed steps; None: steps cannot fail
    """
    numbers, arrays = numbers_and_arrays("parameter", parameters)
    kept_numbers, kept = numbers_and_arrays("memory", memory)
    sampled = {f"parameter {name}": values for name, values in over_time.values.items()}
    states = {"q0": q0, **({} if v0 is None else {"v0": v0})}
    queue = system.queue({**states, **arrays, **kept, **sampled})
    equations, loop, times = system.system, system.loop, clock.times
    # the members are the leading axes of whatever has most of them
    shapes = {"q0": (equations.nq,), "v0": (equations.nv,)}
    equations.parameters.check({key.removeprefix("parameter "): None for key in (*arrays, *sampled)})
    equations.memory.check({key.removeprefix("memory "): None for key in kept})
    sizes = [len(shapes[key]) for key in states]
    sizes += [equations.parameters.defaults[key.split(" ", 1)[1]].ndim for key in arrays]
    sizes += [equations.memory.defaults[key.split(" ", 1)[1]].ndim for key in kept]
    sizes += [equations.parameters.defaults[key.split(" ", 1)[1]].ndim + 1 for key in sampled]
    leads = [x.shape[: max(len(x.shape) - k, 0)] for x, k in zip(queue.given.values(), sizes, strict=True)]
    batch = max(leads, key=len)
    check_members(batch)
    samples = system.samples(queue, batch, numbers, list(arrays), list(sampled), step, over_time.samples)
    _, start = system.start(queue, batch, samples, kept_numbers, list(kept))
    n, rows, point, room = math.prod(batch), len(times), loop.point, settings.most
    record, at_record = queue.empty((*batch, rows, point))
    happened, at_happened = queue.empty(batch)
    places = {"start": start, "record": at_record, "happened": at_happened}
    log = None
    if room and equations.guard_names:
        log, places["entries"] = queue.empty((*batch, room, 2 + point), "float64")
    settings = settings if log is not None else replace(settings, most=0)
    places = loop.march(queue, n, samples, times, times[-1] - times[0], settings, **places)
    # what is read here waits for the device
    ends = queue.read(places["ends"], (n, 2), np.float64)
    counts = queue.read(places["counts"], (n, 4), np.int64)
    if log is not None:
        warn_of_lost_events(counts[:, 0], np.minimum(counts[:, 0], room), room)
    if judge is not None:
        judge(queue.read(places["y"], (n, point), queue.dtype))
    q, v, by_name = system.parts(record)
    ended = ends[:, 1] > 0

    def copied() -> HybridRun:
        members = system.flow.ensemble(np.zeros((n, point)), times)
        members.record[...] = queue.read(at_record, (n, rows, point), queue.dtype)
        members.y[...] = queue.read(places["y"], (n, point), queue.dtype)
        members.ends[...], members.counts[...] = ends, counts
        if log is not None:
            entries = queue.read(places["entries"], (n, room, 2 + point), np.float64)
            kept_events(members, counts[:, 0], entries)
        dim = equations.parameters.size + 1
        own = n if samples.stride else 1
        table = queue.read(samples.table, (own, samples.samples, dim), np.float64)
        u = Samples(np.repeat(table, n // own, axis=0), samples.first, samples.interval, samples.linear)
        return hybrid_run(equations, members, batch, times, u, metadata)

    return DeviceRun(
        t=times,
        q=q,
        v=v,
        ends=np.array([REASONS[int(k)] for k in ends[:, 1]]).reshape(batch),
        end_times=np.where(ended, ends[:, 0], times[-1]).reshape(batch),
        metadata=metadata,
        copied=copied,
        memory=by_name,
        events=system.events(log, happened, batch),
        counts=counts[:, :3].reshape(*batch, 3),
    )


class DeviceOverTime(NamedTuple):
    """Parameters over time whose values are arrays of a device.

    values   by name, (..., samples, *shape)
    samples  their number, times and interpolation; None without such parameters
    """

    values: dict[str, Any]
    samples: Samples | None

    @classmethod
    def of(cls, sampled: Mapping[str, Any], hold: str) -> DeviceOverTime:
        """From {name: (times, values)}, as of `HybridSystem.simulate`; times are numbers of the CPU."""
        linear = is_linear(hold)
        first: Array = None
        for name, pair in sampled.items():
            if not isinstance(pair, tuple) or len(pair) != 2:
                raise ConfigurationError(f"sampled {name} is {short(pair)}, expected a pair (times, values)")
            times = floats(f"times of {name}", pair[0])
            if first is not None and not np.array_equal(first, times):
                raise ConfigurationError(f"{name} is sampled at other times than the others; resample it")
            first = times
        if first is None:
            return cls({}, None)
        begin, interval = equidistant(next(iter(sampled)), first)
        shared = Samples(np.zeros((1, len(first), 0)), begin, interval, linear)
        return cls({name: values for name, (_, values) in sampled.items()}, shared)


class DeviceHybridState:
    """A state of an ensemble on a device between two intervals of a `DeviceHybridStepper`. It is immutable.

    t        time                                                                                        [s]
    q, v     configurations (..., nq) and velocities (..., nv), arrays of the device
    memory   parts of the memory by name, (..., *shape)
    reasons  (...), numbers: why a member has ended, codes of `HybridState.ends`; 0 while it goes on. A member
             that has ended keeps its state
    events   `DeviceEvents` of the last interval; None at the start, and without event functions
    """

    def __init__(
        self, stepper: DeviceHybridStepper, number: int, y: Any, reasons: Any, remembered: Any, events: Any
    ) -> None:
        self.stepper = stepper
        self._number = number  # of intervals so far
        self._y = y  # flat states, (..., size)
        self.reasons = reasons
        self._remembered = remembered  # ends and times of last events; None at the start
        self.events = events

    @property
    def t(self) -> float:
        return self._number * self.stepper.dt

    @property
    def q(self) -> Any:
        return self.stepper.system.parts(self._y)[0]

    @property
    def v(self) -> Any:
        return self.stepper.system.parts(self._y)[1]

    @property
    def memory(self) -> dict[str, Any]:
        return self.stepper.system.parts(self._y)[2]

    def __repr__(self) -> str:
        return f"DeviceHybridState(t={self.t:.9g}, members {tuple(self._y.shape[:-1])})"


class HostOfSteps(Protocol):
    """The stepper of the CPU that makes a `DeviceHybridStepper`."""

    def on_device(self, *, fused: bool = True, most_events: int = 16) -> DeviceHybridStepper: ...


def _device_hybrid_stepper(host: HostOfSteps, options: dict[str, Any]) -> DeviceHybridStepper:
    return host.on_device(**options)


class DeviceHybridStepper:
    """A hybrid system on a CUDA device, simulated by intervals of one length, each one launch.

        sim = lb.stepper(system, dt=0.02, members=4096).on_device()
        state = sim.start(q0)                           # an array (4096, nq) of PyTorch, for example
        state = sim.step(state, {"K_p": gains})         # gains (4096,), held for 0.02 s
        state.q, state.reasons                          # tensors on the device

    `HybridStepper.on_device` makes it. A thread of the device has a member, and does what the CPU does: steps
    that the system chooses, events, updates of the memory. Parameters are numbers, the same for all members,
    or arrays of the device. A call returns before the work is done, and warns of nothing: `reasons` says
    which members have ended. Arrays have the type in which the stepper computes.

    Experimental: not yet run or timed on a device (docs/gpu.md). Raises the errors of
    `compiler.DeviceKernel`, and ModelError for parameters and memory that the system does not have.
    """

    def __init__(
        self,
        system: DeviceSystem,
        dt: float,
        batch: tuple[int, ...],
        settings: Settings,
        fitted: Any,
        made_by: tuple[HostOfSteps, dict[str, Any]],
    ) -> None:
        self.system = system
        self.dt = dt
        self.batch = batch
        self._settings = settings
        self._fitted = fitted  # of a system: parameters with steps that divide an interval
        self._made_by = made_by

    def __reduce__(self) -> tuple[Any, ...]:
        # traced steps and loaded kernels stay in their process: the stepper of the CPU makes others
        return _device_hybrid_stepper, self._made_by

    def __repr__(self) -> str:
        members = f", members={self.batch}" if self.batch else ""
        return f"DeviceHybridStepper of {self.system.system.name}: dt={self.dt:g}{members}"

    def takes(self, other: Any) -> bool:
        """Whether this stepper takes steps from states of another one: it is the same."""
        return self is other

    def start(
        self, q0: Any, v0: Any = None, parameters: Mapping[str, Any] | None = None, **memory: Any
    ) -> DeviceHybridState:
        """The state at t = 0 from arrays of the device, for each member or one for all; v0 = None: at rest.

        Values are not checked: quaternions must be unit. Parameters as in `step`; values of the memory are
        numbers or arrays of the device, too.
        """
        numbers, arrays = numbers_and_arrays("parameter", parameters or {})
        kept_numbers, kept = numbers_and_arrays("memory", memory)
        queue = self.system.queue({"q0": q0, **({} if v0 is None else {"v0": v0}), **arrays, **kept})
        samples = self._samples(queue, numbers, arrays)
        y, _ = self.system.start(queue, self.batch, samples, kept_numbers, list(kept))
        reasons, place = queue.empty(self.batch)
        queue.write(place, np.zeros(self.batch, queue.dtype))
        queue.finish()
        return DeviceHybridState(self, 0, y, reasons, None, None)

    def reset(
        self, state: DeviceHybridState, members: Any, q0: Any, v0: Any = None,
        parameters: Mapping[str, Any] | None = None, **memory: Any,
    ) -> DeviceHybridState:  # fmt: skip
        """The same state, except for members that start at q0, v0, as of `start`.

            state = sim.reset(state, state.reasons, q0)         # all that have ended

        members  numbers (...) of the arrays' type: those that are not zero choose a member
        """
        check_state(self, state, DeviceHybridState)
        new = self.start(q0, v0, parameters, **memory)
        remembered = {} if state._remembered is None else {"remembered": state._remembered}
        states = {"state": state._y, "reasons": state.reasons, "start": new._y}
        queue = self.system.queue({"members": members, **states, **remembered})
        at = queue.given
        if at["members"].shape != self.batch or not at["members"].is_dense:
            raise wrong_shape("members", at["members"].shape, f"{self.batch}, in C order without gaps")
        n, point, guards = math.prod(self.batch), self.system.loop.point, self.system.loop.guards
        chosen = at["members"].pointer
        # of a member that has just started: ends, and times of the last events
        none = queue.memory({"none": 16 + 8 * guards})["none"]
        queue.write(none, np.array([0.0, 0.0, *[-np.inf] * guards]))
        doubles = np.dtype(np.float64), np.dtype(np.float64)
        y, place = queue.empty((*self.batch, point))
        queue.copy(n, (at["state"].pointer, point), (place, point), point)
        queue.copy(n, (at["start"].pointer, point), (place, point), point, chosen=chosen)
        reasons, code = queue.empty(self.batch)
        queue.copy(n, (at["reasons"].pointer, 1), (code, 1), 1)
        queue.copy(n, (none, 0), (code, 1), 1, chosen=chosen)  # zero has the same bits in both types
        kept = None
        if remembered:
            old = at["remembered"].pointer
            kept, ends = queue.empty(state._remembered.shape)
            for source, to, begin, width in (
                (old, ends, none, 2),
                (old + 16 * n, ends + 16 * n, none + 16, guards),
            ):
                queue.copy(n, (source, width), (to, width), width, doubles)
                queue.copy(n, (begin, 0), (to, width), width, doubles, chosen=chosen)
        queue.finish()
        return DeviceHybridState(self, state._number, y, reasons, kept, state.events)

    def step(
        self, state: DeviceHybridState, parameters: Mapping[str, Any] | None = None
    ) -> DeviceHybridState:
        """The state dt later, with these values of parameters: numbers, or arrays of the device."""
        check_state(self, state, DeviceHybridState)
        numbers, arrays = numbers_and_arrays("parameter", parameters or {})
        remembered = {} if state._remembered is None else {"remembered": state._remembered}
        queue = self.system.queue({"state": state._y, **remembered, **arrays})
        samples = self._samples(queue, numbers, arrays)
        loop, n, room = self.system.loop, math.prod(self.batch), self._settings.most
        y, place = queue.empty((*self.batch, loop.point))
        reasons, code = queue.empty(self.batch)
        happened, number = queue.empty(self.batch)
        # ends and times of the last events are doubles, in an array of the type of the others
        size = 8 * n * (2 + loop.guards)
        kept, at = queue.empty((max(size // queue.dtype.itemsize, 1),))
        places = {"ends": at, "last": at + 16 * n}
        if state._remembered is not None:
            before = queue.given["remembered"].pointer
            places |= {"ends_before": before, "last_before": before + 16 * n}
        log = None
        if room:
            log, places["entries"] = queue.empty((*self.batch, room, 2 + loop.point), "float64")
        end = state._number + 1
        loop.march(
            queue, n, samples, [state.t, end * self.dt], self.dt, self._settings,
            start=queue.given["state"].pointer, y=place, reasons=code, happened=number, **places,
        )  # fmt: skip
        queue.finish()
        events = self.system.events(log, happened, self.batch)
        return DeviceHybridState(self, end, y, reasons, kept, events)

    def _samples(
        self, queue: DeviceQueue, numbers: Mapping[str, float], arrays: Mapping[str, Any]
    ) -> DeviceSamples:
        fitted = self._fitted(numbers, self.dt)
        check_fitted(self.system.system.name, fitted, arrays)
        return self.system.samples(queue, self.batch, fitted, list(arrays), [], self.dt)
