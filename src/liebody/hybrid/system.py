"""Hybrid systems: motion on a group, with memory that changes at events.

Between events the motion obeys

    q' = v (left-trivialised, on the group),    v' = f(t, q, v, z, p),

with memory z and parameters p. Memory is constant between the ends of steps, except for flows, which have
rates and change within steps too. Parameters are constant for each member of an ensemble. An event is a
change of the sign of a guard g_i(t, q, v, z, p). At an event, and at the end of every step, the update gives
a new memory, and may give a new q and v. Works are integrals of powers along the motion.

Users write the functions with NumPy operators and functions of `liebody.scalars`. They are traced
(`equations`) and compiled with the integrator into one loop (`stepping.hybrid`).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ..base.arguments import check_in_single, check_members, checked, count, number
from ..base.concurrency import cached_property
from ..base.errors import SECONDS, ConfigurationError, IntegrationError, ModelError, ShapeError, positive
from ..bodies.labels import labels_of
from ..compiler import cuda_device
from ..compiler.native.kernel import is_single
from ..compiler.programs.layout import ensemble_of
from ..integrators import Method, method_named
from ..mechanisms.states import States
from ..runs import HybridRun
from ..scalars import Array
from ..stepping import Clock, Drive
from ..stepping.drive import MOST_EVENTS
from ..stepping.march import LOCATED_IN_SINGLE, Settings
from .device import (
    ROOM_ON_DEVICE,
    DeviceOverTime,
    check_fitted,
    device_system,
    hybrid_device_run,
    numbers_and_arrays,
    refuse_of_cpu,
)
from .equations import HybridEquations
from .parameters import ParametersOverTime
from .results import hybrid_run, warn_of_lost_events


def _by_method(simulate: Callable[..., Any]) -> Callable[..., Any]:
    """Decorator: time stepping needs another system; forward the call to it if that method is chosen."""

    @functools.wraps(simulate)
    def call(self: Any, *states: Any, **options: Any) -> Any:
        system, _ = self.stepped_by(options.get("method"))
        return simulate(self, *states, **options) if system is self else system.simulate(*states, **options)

    return call


class HybridSystem(HybridEquations):
    """Motion on a group with memory, events, works and outputs; see the head of this module.

    group         the configuration group of q (nq,), with velocities v (nv,) in its algebra
    vector_field  (t, q, v, z, p) -> dv/dt (nv,)
    memory        names of the memory with their values at the start, numbers or arrays: `z.anchor`
    flows         names of quantities that flow, with their values at the start; read as memory: `z.angle`
    rates         (t, q, v, z, p) -> {name: rate}, one for each of the flows
    start         (t, q, v, z, p) -> z, the memory at the start; values that `simulate` is given go before it
    parameters    names of parameters with their default values, numbers or arrays: `p.stiffness`
    guards        (t, q, v, z, p) -> {name: number}; an event is a change of the sign of a number
    directions    {name: +1 or -1} for guards whose changes upwards or downwards only are events
    update        (t, q, v, z, p, events) -> z, or (q, v, z), at the end of each step, where `events.name` is
                  +1 or -1 at an event of that guard, by the direction of the change, and otherwise 0.
                  `z._replace(name=...)` is a memory with a change; `liebody.scalars.where` decides
    step          (t, q, v, z, p) -> the step to take from here [s]; without it, `dt` of `simulate`
    stop          (t, q, v, z, p) -> a member ends where this is positive
    powers        (t, q, v, z, p) -> {name: power}; their integrals from the start are the run's `work`  [W]
    outputs       (t, q, v, z, p) -> {name: signal}, numbers or arrays, of each sample of a run
    calls         compiled functions that are called between steps, and change the memory (`KernelCall`)
    name          name of the system in messages and in the metadata of runs

    Functions consist of NumPy operators and functions of `liebody.scalars`, without branches on values. Their
    results must depend on their arguments alone, because each function is traced once.

    Errors: ModelError for names that are not words or not known, ShapeError for results of a wrong shape.
    """

    has_field = True  # False: the system takes its own steps, and methods do not integrate a vector field

    # -- states at the start --------------------------------------------------------------------------------

    def checked_states(self, q0: Array, v0: Array) -> tuple[Array, Array]:
        """Initial states as arrays (..., nq) and (..., nv), from arrays or names; v0 = None: at rest."""
        q, v = self._states.read(q0, v0, self.group.neutral, lambda: labels_of(self))
        q = np.array(q, order="C")
        self._states.normalize(q.reshape(-1, self.nq))
        return q, v

    @cached_property
    def _states(self) -> States:
        return States(self.group, self.nv)

    def start_states(
        self, q: Array, v: Array, u: Array, memory: Mapping[str, Any], batch: tuple[int, ...]
    ) -> Array:
        """Flat states y (n, size) of the members of an ensemble at the start.

        u       flat parameters at the start, (n, size)
        memory  values of the memory that replace the defaults and the results of `start`
        """
        n = math.prod(batch)
        try:
            q, v = (np.broadcast_to(x, (*batch, x.shape[-1])).reshape(n, x.shape[-1]) for x in (q, v))
        except ValueError:
            raise ShapeError(
                f"q0 and v0 have shapes {q.shape} and {v.shape}, the members to start are {batch}"
            ) from None
        z = self._memory_at_start(q, v, u, memory, batch)
        first = self.constant_memory.size
        works = np.zeros((n, len(self.power_names)))
        return np.concatenate([z[:, :first], q, v, z[:, first:], works], axis=1)

    def _memory_at_start(
        self, q: Array, v: Array, u: Array, memory: Mapping[str, Any], batch: tuple[int, ...]
    ) -> Array:
        """The memory (n, size): values of the user, else results of `start`, else the defaults."""
        z = self.memory.values(memory, batch).reshape(len(q), self.memory.size)
        if self.start_kernel is None:
            return z
        by_user = self.memory.write(
            np.full(x.shape, name in memory) for name, x in self.memory.defaults.items()
        )
        return np.where(by_user, z, self.start_kernel(q, v, z, u))

    def is_single(self, dtype: Any) -> bool:
        """Whether motions with `dtype` are computed in float32, and not in float64.

        Raises LiebodyError for other types, and ModelError for float32 and tables in memory, whose addresses
        have 64 bits.
        """
        single = is_single(dtype)
        if single and self.parameters.tables:
            raise ModelError(
                f"the parameter {min(self.parameters.tables)!r} of {self.name} is a table in memory, and its "
                "address does not fit into float32: leave out dtype, or build the table into the system"
            )
        return single

    # -- simulation -----------------------------------------------------------------------------------------

    def stepped_by(self, method: str | Method | None) -> tuple[HybridSystem, Method]:
        """The system whose steps the method takes, and the method; default: "rkmk4".

        `RobotSystem` overrides it, because time stepping needs a system with other elements.
        """
        return self, method_named("rkmk4" if method is None else method)

    def fitted(self, given: Mapping[str, Any], interval: float) -> dict[str, Any]:
        """Parameters with a step length that divides the interval, if the step length is a parameter."""
        return dict(given)

    def judge(self, before: Array, after: Array) -> None:
        """Warn of failed steps between two flat states of a stepper's members, (n, size) each."""

    def judge_run(self, end: Array) -> None:
        """Warn of failed steps of a simulation whose members end in the flat states (n, size)."""

    def clock(
        self, parameters: dict[str, Any], t_end: float, record_every: float | None, t_eval: Array
    ) -> tuple[Clock, dict[str, Any]]:
        """The times of a simulation, and its parameters; time stepping fits its steps to the times."""
        return Clock(t_end, None, record_every, t_eval), parameters

    @checked
    @_by_method
    def simulate(
        self,
        q0: Array,
        v0: Array = None,
        *,
        t_end: float,
        dt: float | None = None,
        method: str | Method | None = None,
        record_every: float | None = None,
        t_eval: Array = None,
        hold: str = "zero",
        events: Mapping[str, Callable[..., Any]] | None = None,
        parameters: Mapping[str, Any] | None = None,
        memory: Mapping[str, Any] | None = None,
        sampled: Mapping[str, tuple[Array, Array]] | None = None,
        locate: float | None = 1e-14,
        least: float = 1e-7,
        most_events: int | None = None,
        limit: int = 10_000_000,
        threads: int | None = None,
        progress: bool | None = None,
        dtype: Any = np.float64,
        device: str | None = None,
        fused: bool = True,
    ) -> HybridRun:
        """Simulate from (q0, v0) over [0, t_end], or an ensemble of initial states.

        q0, v0        states at the start, (..., nq), (..., nv); leading axes: an ensemble; default: at rest.
                      Of robots, also entries by name, as {"elbow": 1.2}
        t_end         end of the simulation                                                              [s]
        dt            the step, for systems without the function `step`                                   [s]
        method        an explicit method: "rkmk4", the default, "cf4", "rkmk8", ...
                      (docs/explicit-methods.md); of robots also "time-stepping" (docs/contact.md)
        record_every  time between recorded states; default: a thousandth of t_end                        [s]
        t_eval        times of the recorded states, increasing from 0 to t_end, in place of record_every.
                      Steps end at recorded times                                                         [s]
        hold          between samples: "zero" (the last one) or "linear"
        events        {name: event(t, q, v)} beside the guards of the system, as in `lb.simulate`: they change
                      nothing, are in the log, and end the member if they are `terminal`
        parameters    values that differ from the defaults: of their shape, or (..., *shape) for each member
        memory        the same for the memory at the start
        sampled       parameters that change with time, {name: (times, values)}: values (..., samples, *shape)
                      at equidistant times, the same for all names. Steps end at these times
        locate        to which the time of an event is located, times max(1, t); None: events are taken at the
                      ends of the steps in which they happen                                             [s]
        least         an event sooner than this after the last one of its guard is taken then, and not
                      located: ever shorter bounces, which would never end, pass                          [s]
        most_events   how many events of each member to keep at most, with the states after them; if there
                      are more, a LostEvents warning says how many. 0: none are kept, none missed. Default:
                      100,000, on a device 100, for which memory is taken at the start
        limit         most steps between two recorded states, before a member is given up
        threads       threads that share an ensemble; default: all processors, where several are sooner done
        progress      whether to show a progress bar; default: on a terminal, when it takes long
        dtype         float64; or float32: states, memory and steps are in it, twice as many members in a
                      vector, times and outputs in float64. Events are located to 1e-9 s at most. Systems
                      with tables in memory or `calls` take float64 alone (docs/conventions.md)
        device        None: the CPU; "cuda": a CUDA device, on which q0 and v0 lie, and values of parameters,
                      samples and memory that are no plain numbers (docs/gpu.md). They have the type `dtype`.
                      Experimental: not yet run or timed on a device
        fused         on a device: whether products and sums may become fused multiply-adds

        returns       HybridRun; on a device a `DeviceRun`, whose states stay there, with the HybridRun
                      as `to_cpu()`. A member that stops, is not finite, or cannot go on ends there, with its
                      time and reason in `end_times` and `ends` and its state there in `final`; its later
                      samples are NaN. The others go on: members do not depend on each other. Ctrl-C ends all
                      of them at once: the attribute `run` of the KeyboardInterrupt is the run so far

        Errors: ShapeError, ConfigurationError, IntegrationError for invalid arguments.
        """
        # The function is long because it checks all options in one place, before anything is compiled.
        _, method = self.stepped_by(method)
        given_most = (
            (MOST_EVENTS if device is None else ROOM_ON_DEVICE) if most_events is None else most_events
        )
        most = count("most_events", given_most, 0)
        limit = count("limit", limit)
        threads = None if threads is None else count("threads", threads)
        locate = None if locate is None else number("locate", locate)
        least = number("least", least)
        for name, x in (("locate", locate), ("least", least)):
            if x is not None and x < 0:
                raise IntegrationError(f"{name} is {x!r}, expected a number of seconds, zero or more")
        system = self.with_events(events or {})
        single = self.is_single(dtype)
        if single and locate is not None:
            locate = max(locate, LOCATED_IN_SINGLE)
        if device is not None:
            settings = Settings(tolerance=locate, least=least, limit=limit, most=most)
            return self._simulate_on_device(
                system, q0, v0, t_end, dt, method, (record_every, t_eval), hold, parameters or {},
                memory or {}, sampled or {}, settings, threads, progress, single, device, fused,
            )  # fmt: skip
        q, v = self.checked_states(q0, v0)
        if single:
            check_in_single(q, v)
        t_end = positive("t_end", t_end, SECONDS)
        clock, constant = self.clock(dict(parameters or {}), t_end, record_every, t_eval)
        over_time = ParametersOverTime(constant, dict(sampled or {}), self.parameters)
        # states, parameters and memory may have axes of an ensemble, which are broadcast with each other
        states = {"q0": q.shape[:-1], "v0": v.shape[:-1]}
        batch = ensemble_of(states | over_time.batches | self.memory.batches(memory or {}))
        check_members(batch)
        if self.step is None and dt is None:
            raise IntegrationError(f"{self.name} does not choose its steps: give dt")
        step = clock.interval if dt is None else positive("dt", dt, SECONDS)
        u = over_time.samples(hold, batch, step)

        # The kernel of the outputs is made before the members move, so that an error in `outputs` does not
        # come after a long computation.
        flow, _ = system.flow(method, single), self.output_kernel
        y = self.start_states(q, v, u.at(0.0), memory or {}, batch)
        settings = Settings(tolerance=locate, least=least, limit=limit, most=most)
        drive = Drive(flow, flow.ensemble(y, clock.times), u, clock, settings, threads)
        metadata = {"model": self.name, "method": method.name, **({} if dt is None else {"dt": dt})}
        if single:
            metadata["dtype"] = "float32"
        drive.go(progress)
        run = hybrid_run(system, drive.members, batch, clock.times, u, metadata)
        if drive.interrupted:
            drive.interrupted.run = run  # type: ignore[attr-defined]
            raise drive.interrupted
        if most:
            members = drive.members
            warn_of_lost_events(members.counts[:, 0], [len(log) for log in members.log], most)
        self.judge_run(drive.members.y)
        return run

    def _simulate_on_device(
        self,
        system: HybridSystem,
        q0: Any,
        v0: Any,
        t_end: float,
        dt: float | None,
        method: Method,
        recorded: tuple[float | None, Array],
        hold: str,
        parameters: Mapping[str, Any],
        memory: Mapping[str, Any],
        sampled: Mapping[str, Any],
        settings: Settings,
        threads: int | None,
        progress: bool | None,
        single: bool,
        device: str,
        fused: bool,
    ) -> Any:
        """The `DeviceRun` of `simulate`, whose other options are checked already.

        system   this one, watched for further events
        """
        cuda_device(device)
        refuse_of_cpu(threads, progress)
        t_end = positive("t_end", t_end, SECONDS)
        numbers, arrays = numbers_and_arrays("parameter", parameters)
        clock, fitted = self.clock(numbers, t_end, *recorded)
        check_fitted(self.name, fitted, arrays)
        parameters = {**parameters, **fitted}
        if self.step is None and dt is None:
            raise IntegrationError(f"{self.name} does not choose its steps: give dt")
        step = clock.interval if dt is None else positive("dt", dt, SECONDS)
        over_time = DeviceOverTime.of(sampled, hold)
        both = [name for name in sampled if name in parameters]
        if both:
            raise ConfigurationError(
                f"{both[0]} is given in parameters and in sampled; leave one of them out"
            )
        metadata = {"model": self.name, "method": method.name, **({} if dt is None else {"dt": dt})}
        metadata |= {"dtype": "float32"} if single else {}
        metadata["device"] = device
        return hybrid_device_run(
            device_system(system, system.flow(method, single), fused), q0, v0, clock, settings, step,
            parameters, memory, over_time, metadata, self.judge_run if self.retries() else None,
        )  # fmt: skip
