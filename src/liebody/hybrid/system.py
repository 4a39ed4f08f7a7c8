"""Hybrid systems: motion on a group, with memory that changes at events.

Between events the motion obeys

    q' = v (left-trivialised, on the group),    v' = f(t, q, v, z, p),

with memory z, which is constant between the ends of steps, and parameters p, constant for each member of an
ensemble. Parts of z may flow: they have rates, and change within steps too. An event is a change of the sign
of a guard g_i(t, q, v, z, p); there, and at the end of every step, the update gives a new memory, and may
give a new q and v. Works are integrals of powers along the motion.

All of it is written once, in NumPy operators and functions of `liebody.scalars`, traced, and compiled with
the integrator into one loop (`stepping.hybrid`).
"""

from __future__ import annotations

import functools
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from ..base.arguments import check_members, checked, count, floats, number, short, vectors
from ..base.concurrency import cached_property
from ..base.errors import (
    SECONDS,
    ConfigurationError,
    IntegrationError,
    ModelError,
    ShapeError,
    positive,
    warn,
)
from ..bodies.labels import Labels, labels_of
from ..compiler import Kernel, trace, traced
from ..compiler.printers.numpy_source import compile_numpy
from ..compiler.programs.layout import FlatLayout, Sendable, ensemble_of
from ..groups import LieGroup, Product, R
from ..integrators import Method, coefficients, method_named
from ..runs import EventLog, HybridRun, HybridStates
from ..scalars import Array
from ..stepping import Samples
from ..stepping.hybrid import HybridFlow
from ..stepping.march import REASONS, Ensemble, Settings
from ..stepping.records import Repeats
from ..stepping.samples import equidistant

MOST_EVENTS = 100_000  # of a member that are kept by default


class LostEvents(UserWarning):
    """Members had more events than were to be kept; the later ones are counted only."""


def _by_method(simulate: Callable[..., Any]) -> Callable[..., Any]:
    """`simulate`, of the system that its method takes steps of."""

    @functools.wraps(simulate)
    def call(self: Any, *states: Any, **options: Any) -> Any:
        system, _ = self.stepped_by(options.get("method"))
        return simulate(self, *states, **options) if system is self else system.simulate(*states, **options)

    return call


class Given:
    """What a simulation is given for its parameters: constants, and samples {name: (times, values)}."""

    def __init__(self, constant: dict[str, Any], sampled: dict[str, Any], layout: FlatLayout) -> None:
        for name, pair in sampled.items():
            if not isinstance(pair, tuple) or len(pair) != 2:
                raise ConfigurationError(f"sampled {name} is {pair!r}, expected a pair (times, values)")
            if name in constant:
                raise ConfigurationError(
                    f"{name} is given in parameters and in sampled; leave one of them out"
                )
        self.layout, self.constant = layout, constant
        self.sampled = {name: values for name, (_, values) in sampled.items()}
        self.times = {name: floats(f"times of {name}", times) for name, (times, _) in sampled.items()}

    @property
    def batches(self) -> dict[str, tuple[int, ...]]:
        """The leading axes."""
        return self.layout.batches(self.constant) | self.layout.batches(self.sampled, own=1)

    def samples(self, hold: str, batch: tuple[int, ...], dt: float) -> Samples:
        """Parameters of each member, followed by the step dt."""
        if hold not in ("zero", "linear"):
            raise IntegrationError(f"hold is {hold!r}, expected 'zero' or 'linear'")
        first, interval, rows, names = 0.0, 1.0, 1, list(self.times)
        for name, times in self.times.items():
            if not np.array_equal(times, self.times[names[0]]):
                raise ConfigurationError(
                    f"{names[0]} and {name} are sampled at different times; resample one of them, for "
                    "instance with numpy.interp"
                )
            (first, interval), rows = equidistant(name, times), len(times)
        values = dict(self.sampled)
        for name, value in self.constant.items():  # the axis of samples follows those of the ensemble
            extra = np.ndim(value) - self.layout.defaults[name].ndim if name in self.layout.defaults else 0
            values[name] = np.expand_dims(value, extra) if extra > 0 else value
        table = self.layout.values(values, (*batch, rows), dt)
        table = table.reshape(math.prod(batch), rows, self.layout.size + 1)
        return Samples(np.ascontiguousarray(table), first, interval, hold == "linear")


class HybridSystem(Sendable):
    """Motion on a group with memory, events, works and outputs; see the head of this module.

    group         the configuration group of q (nq,), with velocities v (nv,) in its algebra
    vector_field  (t, q, v, z, p) -> dv/dt (nv,)
    memory        names of the memory with their values at the start, numbers or arrays: `z.anchor`
    flows         names of quantities that flow, with their values at the start; read as memory: `z.angle`
    rates         (t, q, v, z, p) -> {name: rate}, one for each of the flows
    start         (t, q, v, z, p) -> z, the memory at the start; what `simulate` is given goes before it
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
    name          what it is called

    Functions consist of NumPy operators and functions of `liebody.scalars`, without branches on values. Their
    results must not depend on anything but their arguments.

    Errors: ModelError for names that are not words or not known, ShapeError for results of a wrong shape.
    """

    has_field = True  # whether methods integrate its vector field; others have steps of their own

    def __init__(
        self,
        group: LieGroup,
        vector_field: Callable[..., Any],
        *,
        memory: Mapping[str, Any] | None = None,
        flows: Mapping[str, Any] | None = None,
        rates: Callable[..., Any] | None = None,
        start: Callable[..., Any] | None = None,
        parameters: Mapping[str, Any] | None = None,
        guards: Callable[..., Any] | None = None,
        directions: Mapping[str, int] | None = None,
        update: Callable[..., Any] | None = None,
        step: Callable[..., Any] | None = None,
        stop: Callable[..., Any] | None = None,
        powers: Callable[..., Any] | None = None,
        outputs: Callable[..., Any] | None = None,
        name: str = "system",
    ) -> None:
        self.group, self.name = group, name
        self.nq, self.nv = group.nq, group.dim
        self.memory = FlatLayout("memory", {**(memory or {}), **(flows or {})})
        both = [name for name in flows or {} if name in (memory or {})]
        if both:
            raise ModelError(f"{both[0]!r} is the name of memory and of a flow; give each its own")
        self._still, self._flowing = FlatLayout("memory", memory or {}), FlatLayout("flow", flows or {})
        self.parameters = FlatLayout("parameter", parameters or {})
        self.vector_field, self.update, self.step, self.stop = vector_field, update, step, stop
        self.powers, self.outputs, self.guards = powers, outputs, guards
        self.rates, self.start = rates, start
        if sorted(rated := self._names(rates)) != sorted(self._flowing.defaults):
            raise ModelError(
                f"{name}: there are rates of {', '.join(rated) or 'nothing'} and flows "
                f"{', '.join(self._flowing.defaults) or 'none'}; give each flow its rate"
            )
        self._guards = FlatLayout("guard", dict.fromkeys(self._names(guards), 0.0))
        self.guard_names = tuple(self._guards.defaults)
        self.power_names = tuple(self._names(powers))
        directions = dict(directions or {})
        self._guards.check(directions)
        for guard, sign in directions.items():
            if sign not in (-1, 0, 1):
                raise ModelError(f"the direction of {guard!r} is {sign!r}, expected +1, -1, or 0 for both")
        self.directions = tuple(int(directions.get(guard, 0)) for guard in self.guard_names)

    def __repr__(self) -> str:
        return (
            f"HybridSystem({self.name!r} on {self.group}, memory {list(self.memory.defaults)}, "
            f"{len(self.parameters.defaults)} parameters, events {list(self.guard_names)})"
        )

    @property
    def events_type(self) -> Any:
        """The named tuples that say which guards have changed their signs."""
        return self._guards.type

    def _names(self, part: Callable[..., Any] | None) -> list[str]:
        """The names in the dictionary that a part returns, found by tracing it."""
        if part is None:
            return []
        names: list[str] = []

        def keys(t: Any, y: Array, u: Array) -> Array:
            names.extend(dictionary_of(part, *self._read(t, y, u)))
            return np.zeros(1)

        size = self.memory.size + self.nq + self.nv
        trace(keys, {"t": (), "y": size, "u": self.parameters.size + 1}, "names")
        return names

    @cached_property
    def _shapes(self) -> dict[str, Any]:
        """What functions of time, flat state, and flat parameters with the step take."""
        return {"t": (), "y": self._still.size + self._point.nq, "u": self.parameters.size + 1}

    # -- the flat state y = (memory that stays, q, v, memory that flows, works) ------------------------------

    def _read(self, t: Any, y: Array, u: Array) -> tuple[Any, ...]:
        m, end = self._still.size, self._still.size + self.nq + self.nv
        z = [*self._still.read(y[..., :m]), *self._flowing.read(y[..., end : end + self._flowing.size])]
        p = self.parameters.read(u[..., : self.parameters.size])
        return t, y[..., m : m + self.nq], y[..., m + self.nq : end], self.memory.type(*z), p

    def _write(self, q: Array, v: Array, z: Any, works: Array) -> Array:
        k = len(self._still.defaults)
        return np.concatenate([self._still.write(z[:k]), q, v, self._flowing.write(z[k:]), works])

    @cached_property
    def _point(self) -> LieGroup:
        return Product(self.group, R(self.nv), R(self._flowing.size + len(self.power_names)))

    def _motion(self, *at: Any) -> tuple[Array, Array, Mapping[str, Any], Mapping[str, Any]]:
        """What is integrated: the velocity of q, dv/dt, rates of the flows, powers."""
        rates = self.rates(*at) if self.rates else {}
        return at[2], self.vector_field(*at), rates, self.powers(*at) if self.powers else {}

    def _guarded(self, at: Sequence[Any]) -> Array:
        """The numbers whose signs are watched at (t, q, v, z, p); without guards one that does not change."""
        return _numbers("guards", (self.guards(*at) if self.guards else {}) or {"none": 1.0})

    def _after_update(self, at: Sequence[Any], happened: Any) -> tuple[Array, Array, Any, bool]:
        """q, v, z after the update at (t, q, v, z, p), and whether it may change q or v."""
        _, q, v, z, _ = at
        if self.update is None:
            return q, v, z, False
        result = self.update(*at, self.events_type(*happened[: len(self.guard_names)]))
        if isinstance(result, self.memory.type):
            return q, v, result, False
        if not isinstance(result, tuple) or len(result) != 3:
            raise ShapeError(f"update returned {short(result)}, expected z or (q, v, z)")
        return *result, True

    def _advanced(self, x: Array, psi: Array) -> Array:
        """The point x exp(psi), with q, v, flows and works one after the other."""
        return self._point.normalize(self._point.integrate(x, psi))

    def _loops(self) -> Any:
        """Steps of the field and of the outputs that become loops, as `traced` takes them."""
        return False

    def _repeats(self) -> Repeats | None:
        """How steps are taken anew that search for something; None: once is enough."""
        return None

    @cached_property
    def _flows(self) -> dict[Any, HybridFlow]:
        return {}

    def _flow(self, method: Method) -> HybridFlow:
        if method not in self._flows:
            return self._flows.setdefault(method, self._make(method))
        return self._flows[method]

    def _make(self, method: Method) -> HybridFlow:
        m, works, state, size = self._still.size, len(self.power_names), self._shapes, self._shapes["y"]
        number = max(1, len(self.guard_names))

        def velocity(t: Any, y: Array, u: Array) -> Array:
            v, change, found, powers = self._motion(*self._read(t, y, u))
            change = np.asarray(change)
            if change.shape != (self.nv,):
                raise ShapeError(f"vector_field returned shape {change.shape}, expected dv/dt, ({self.nv},)")
            rates = self._flowing.write([found[name] for name in self._flowing.defaults])
            if rates.shape != (self._flowing.size,):
                raise ShapeError(f"rates returned {rates.shape} numbers, expected {self._flowing.size}")
            return np.concatenate([v, change, rates, _numbers("powers", powers)])

        def advance(y: Array, psi: Array) -> Array:
            return np.concatenate([y[:m], self._advanced(y[m:], psi)])

        def pull(psi: Array, f: Array) -> Array:
            return self._point.dexp_inverse_times(-psi, f)

        def guards(t: Any, y: Array, u: Array) -> Array:
            return self._guarded(self._read(t, y, u))

        def look(t: Any, y: Array, u: Array) -> tuple[Any, ...]:
            arguments = self._read(t, y, u)
            h = self.step(*arguments) if self.step else u[-1]
            return guards(t, y, u), h, self.stop(*arguments) if self.stop else 0.0

        def after(t: Any, y: Array, u: Array, e: Array) -> tuple[Any, ...]:
            y = self._write(*self._after_update(self._read(t, y, u), e)[:3], y[size - works :])
            if y.shape != (size,):
                raise ShapeError("update must return z, or (q, v, z), of the shapes it was given")
            return y, *look(t, y, u)

        algebra = self._point.dim
        return HybridFlow(
            partial(traced, velocity, state, "field", loops=self._loops()),
            partial(trace, advance, {"y": size, "psi": algebra}, "advance"),
            partial(trace, pull, {"psi": algebra, "f": algebra}, "pull"),
            partial(trace, guards, state, "guards"),
            partial(trace, look, state, "look"),
            partial(trace, after, {**state, "e": number}, "after"),
            coefficients(method),
            self.directions or (0,),
            repeats=self._repeats(),
        )

    @cached_property
    def _outputs(self) -> Kernel | None:
        if self.outputs is None:
            return None
        outputs = self.outputs

        def signals(t: Any, y: Array, u: Array) -> dict[str, Any]:
            return {name: np.asarray(x) for name, x in dictionary_of(outputs, *self._read(t, y, u)).items()}

        return Kernel(traced(signals, self._shapes, "outputs", loops=self._loops()))

    @cached_property
    def _start(self) -> Kernel | None:
        if self.start is None:
            return None
        start = self.start

        def memory(q: Array, v: Array, z: Array, u: Array) -> Array:
            found = start(0.0, q, v, self.memory.read(z), self.parameters.read(u[: self.parameters.size]))
            return self.memory.write(found)

        shapes = {"q": self.nq, "v": self.nv, "z": self.memory.size, "u": self._shapes["u"]}
        return Kernel(trace(memory, shapes, "start"))

    def _memory_at_start(self, q: Array, v: Array, u: Array, given: Mapping[str, Any], batch: Any) -> Array:
        """The memory (n, size): what is given, else that of `start`."""
        z = self.memory.values(given, batch).reshape(len(q), self.memory.size)
        if self._start is None:
            return z
        said = self.memory.write(np.full(x.shape, name in given) for name, x in self.memory.defaults.items())
        return np.where(said, z, self._start(q, v, z, u))

    def _checked(self, q0: Array, v0: Array) -> tuple[Array, Array]:
        """States to start from, (..., nq) and (..., nv), of arrays or of names; at rest without v0."""
        if isinstance(q0, Mapping):
            q0 = labels_of(self)[0].filled(q0, self.group.neutral())
        if isinstance(v0, Mapping):
            v0 = labels_of(self)[1].filled(v0, np.zeros(self.nv), "v0")
        q, v = vectors("q0", q0, self.nq), vectors("v0", np.zeros(self.nv) if v0 is None else v0, self.nv)
        return self._normal(self.group.check(q)), v

    @cached_property
    def _normal(self) -> Callable[..., Any]:
        """`normalize` of the group, of any leading axes."""
        return compile_numpy(trace(self.group.normalize, {"q": self.nq}, "normalize"))

    def _points(self, q: Array, v: Array, u: Array, memory: Mapping[str, Any], batch: Any) -> Array:
        """Flat states y (n, point) of the members of an ensemble at the start, with parameters u there."""
        n = math.prod(batch)
        try:
            q, v = (np.broadcast_to(x, (*batch, x.shape[-1])).reshape(n, x.shape[-1]) for x in (q, v))
        except ValueError:
            raise ShapeError(
                f"q0 and v0 have shapes {q.shape} and {v.shape}, the members to start are {batch}"
            ) from None
        z, m = self._memory_at_start(q, v, u, memory, batch), self._still.size
        return np.concatenate([z[:, :m], q, v, z[:, m:], np.zeros((n, len(self.power_names)))], axis=1)

    # -- simulation -----------------------------------------------------------------------------------------

    def stepped_by(self, method: str | Method | None) -> tuple[HybridSystem, Method]:
        """The system that a method takes its steps of, and the method; default: "rkmk4"."""
        return self, method_named("rkmk4" if method is None else method)

    def fitted(self, given: Mapping[str, Any], interval: float) -> dict[str, Any]:
        """Parameters for steps that have to end at multiples of an interval."""
        return dict(given)

    def judge(self, before: Array, after: Array) -> None:
        """Warn of what went wrong between two flat states of members, (n, point) each, of a stepper."""

    @checked
    @_by_method
    def simulate(
        self,
        q0: Array,
        v0: Array = None,
        *,
        t_end: float,
        dt: float | None = None,
        record_every: float | None = None,
        parameters: Mapping[str, Any] | None = None,
        memory: Mapping[str, Any] | None = None,
        sampled: Mapping[str, tuple[Array, Array]] | None = None,
        hold: str = "zero",
        method: str | Method | None = None,
        locate: float | None = 1e-14,
        least: float = 1e-7,
        events: int = MOST_EVENTS,
        limit: int = 10_000_000,
        threads: int | None = None,
    ) -> HybridRun:
        """Simulate from (q0, v0) over [0, t_end], or an ensemble of such.

        q0, v0        states at the start, (..., nq), (..., nv); leading axes: an ensemble; default: at rest.
                      Of robots, also entries by name, as {"elbow": 1.2}
        t_end         end of the simulation                                                              [s]
        dt            the step, for systems without a `step` of their own                                 [s]
        record_every  time between samples; default: a thousandth of t_end                                [s]
        parameters    values that differ from the defaults: of their shape, or (..., *shape) for each member
        memory        the same for the memory at the start
        sampled       parameters that change with time, {name: (times, values)}: values (..., samples, *shape)
                      at equidistant times, the same for all names. Steps end at these times
        hold          between samples: "zero" (the last one) or "linear"
        method        an explicit method: "rkmk4", the default, "cf4", "rkmk8", ...
                      (docs/explicit-methods.md); of robots also "time-stepping" (docs/contact.md)
        locate        to which the time of an event is located, times max(1, t); None: events are taken at the
                      ends of the steps in which they happen                                             [s]
        least         an event sooner than this after the last one of its guard is taken then, and not
                      located: ever shorter bounces, which would never end, pass                          [s]
        events        how many events of each member to keep at most, with the states after them; if there
                      are more, a LostEvents warning says how many. 0: none are kept, none missed
        limit         most steps between two samples, before a member is given up
        threads       that share the members; default: those of the machine

        returns       HybridRun. A member that stops, is not finite, or cannot go on ends there, with its time
                      and reason in `end_times` and `ends` and its state there in `final`; its later samples
                      are NaN. The others go on, and what a member does depends on nobody else. Ctrl-C ends
                      all at once: the KeyboardInterrupt holds what was reached, as its attribute `run`

        Errors: ShapeError, ConfigurationError, IntegrationError for arguments that cannot be.
        """
        (_, method), most, limit = self.stepped_by(method), count("events", events, 0), count("limit", limit)
        threads = (os.cpu_count() or 1) if threads is None else count("threads", threads)
        locate, least = None if locate is None else number("locate", locate), number("least", least)
        for name, x in (("locate", locate), ("least", least)):
            if x is not None and x < 0:
                raise IntegrationError(f"{name} is {x!r}, expected a number of seconds, zero or more")
        q, v = self._checked(q0, v0)
        given = Given(dict(parameters or {}), dict(sampled or {}), self.parameters)
        states = {"q0": q.shape[:-1], "v0": v.shape[:-1]}
        batch = ensemble_of(states | given.batches | self.memory.batches(memory or {}))
        check_members(batch)
        t_end = positive("t_end", t_end, SECONDS)
        interval = t_end / 1000 if record_every is None else positive("record_every", record_every, SECONDS)
        intervals = max(1, round(min(t_end / interval, 2**53)))
        if abs(intervals * interval - t_end) > 1e-9 * t_end:
            raise IntegrationError(
                f"t_end = {t_end} s is no multiple of record_every = {interval} s; "
                f"take {t_end / intervals:g}, for instance"
            )
        if self.step is None and dt is None:
            raise IntegrationError(f"{self.name} does not choose its steps: give dt")
        step = interval if dt is None else positive("dt", dt, SECONDS)
        u = given.samples(hold, batch, step)

        flow, _ = self._flow(method), self._outputs  # what is wrong with them is said before the motion
        y = self._points(q, v, u.at(0.0), memory or {}, batch)
        times = interval * np.arange(intervals + 1)
        settings = Settings(tolerance=locate, least=least, limit=limit, most=most)
        members = flow.ensemble(y, times)
        metadata = {"model": self.name, "method": method.name, **({} if dt is None else {"dt": dt})}
        try:
            flow.march(members, u, len(times), settings, threads)
        except KeyboardInterrupt as stop:
            stop.run = self._run(members, batch, times, u, metadata)  # type: ignore[attr-defined]
            raise
        if most:
            _warn_of_lost(members, most)
        return self._run(members, batch, times, u, metadata)

    def described(self, states: HybridStates) -> dict[str, Any]:
        """What a `Run` has of these states: names of coordinates, energies, efforts, work."""
        names = [f"q{i}" for i in range(self.nq)], [f"v{i}" for i in range(self.nv)]
        coordinates, dofs = (Labels(tuple(x), ("",) * len(x)) for x in names)
        return {"coordinates": coordinates, "dofs": dofs, "kinetic": None, "potential": None}

    def _run(
        self, members: Ensemble, batch: tuple[int, ...], t: Array, u: Samples, metadata: dict[str, Any]
    ) -> HybridRun:
        p = u.table[:, 0, : self.parameters.size].reshape(*batch, -1)
        end_times = np.where(members.ends[:, 1] > 0, members.ends[:, 0], t[-1])
        times = np.broadcast_to(t, members.record.shape[:2])
        samples = self._states(times, members.record, u.along(times), batch)
        final = self._states(end_times, members.y, u.along(end_times[:, None])[:, 0], batch)

        def read(t: Array, y: Array) -> tuple[Array, Array, dict[str, Array]]:
            _, q, v, z, _ = self._read(t, y, np.zeros(self.parameters.size))
            return q, v, dict(zip(z._fields, z, strict=True))

        logs = EventLog.of_members(members, self.guard_names, read)
        return HybridRun(
            **self.described(samples),
            metadata=metadata,
            t=t,
            q=samples.q,
            v=samples.v,
            memory=samples.memory,
            work=samples.work,
            outputs=samples.outputs,
            final=final,
            parameters=self.parameters.named(p),
            events=logs[0] if not batch else logs,
            counts=members.counts[:, :3].reshape(*batch, 3),
            end_times=final.t,
            ends=np.array([REASONS[int(k)] for k in members.ends[:, 1]]).reshape(batch),
        )

    def _states(self, t: Array, y: Array, u: Array, batch: tuple[int, ...]) -> HybridStates:
        """What there is to know of states y (n, ..., size) at times t (n, ...), of an ensemble `batch`."""

        def shaped(x: Array) -> Array:
            return np.reshape(x, (*batch, *np.shape(x)[1:]))

        _, q, v, z, _ = self._read(t, shaped(y), np.zeros(self.parameters.size))
        signals: Mapping[str, Array] = {}
        if (outputs := self._outputs) is not None:
            names = list(outputs.function.outputs)

            def compute() -> dict[str, Array]:
                found = outputs(t, y, u)
                found = found if len(names) > 1 else (found,)
                return {name: shaped(x) for name, x in zip(names, found, strict=True)}

            signals = Signals(names, compute)
        first = y.shape[-1] - len(self.power_names)
        return HybridStates(
            t=shaped(t),
            q=q,
            v=v,
            memory=dict(zip(z._fields, z, strict=True)),
            work={name: shaped(y[..., first + k]) for k, name in enumerate(self.power_names)},
            outputs=signals,
        )


def dictionary_of(part: Callable[..., Any], *at: Any) -> Mapping[str, Any]:
    """The dictionary that a part returns."""
    found = part(*at)
    if not isinstance(found, Mapping):
        name = getattr(part, "__name__", part)
        raise ModelError(f"{name} must return a dictionary of names and values, not {found!r}")
    return found


def _numbers(part: str, found: Mapping[str, Any]) -> Array:
    """What a part has returned, a number for each name."""
    for name, x in found.items():
        if np.shape(x):
            raise ShapeError(f"{part} returned {name!r} of shape {np.shape(x)}, expected single numbers")
    return np.array([np.asarray(x)[()] for x in found.values()])


def _warn_of_lost(members: Ensemble, most: int) -> None:
    lost = members.counts[:, 0] - [len(log) for log in members.log]
    short = np.flatnonzero(lost)
    if len(short):
        which = f" of {len(short)} of {len(lost)} members" if len(lost) > 1 else ""
        warn(
            f"{lost.sum()} of {members.counts[short, 0].sum()} events{which} were not kept, but the first "
            f"{most} of each. Give events={members.counts[:, 0].max()} or more to keep all, or events=0 if "
            "none are needed",
            LostEvents,
        )


class Signals(Mapping[str, Array]):
    """Signals by their names, computed when the first one is asked for: most runs of a search need none."""

    def __init__(self, names: Sequence[str], compute: Callable[[], dict[str, Array]]) -> None:
        self._names, self._compute = tuple(names), compute

    @cached_property
    def _values(self) -> dict[str, Array]:
        return self._compute()

    def __getitem__(self, name: str) -> Array:
        return self._values[name]

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __reduce__(self) -> tuple[Any, ...]:
        return dict, (self._values,)
