"""Simulation of robots and of constrained systems: a vector field and a Lie-group integrator in one loop."""

from __future__ import annotations

import functools
import math
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol, overload
from weakref import WeakKeyDictionary

import numpy as np

from . import constrained, dynamics
from .codegen import Flow, Function, Kernel, Samples, trace, traced
from .codegen.flow import stages
from .codegen.march import REASONS, STOPPED, Ensemble, Settings
from .codegen.printers.march import Guards
from .codegen.samples import equidistant
from .codegen.watch import Nearest, Watched
from .codegen.watch import Parts as WatchedParts
from .constrained import Mechanism, Stabilization, assembly
from .constrained_run import ConstrainedRun, drives
from .constrained_run import labels as names
from .errors import (
    SECONDS,
    ConfigurationError,
    GraphError,
    IntegrationError,
    LiebodyError,
    ShapeError,
    positive,
)
from .groups import SE3, SO3, LieGroup, Product, R
from .integrators import (
    MechanicalFlow,
    MechanicalMethod,
    Method,
    is_mechanical,
    mechanical_method,
    method_named,
)
from .labels import Labels, labels
from .robot import Robot, quaternions
from .run import LATER, Run
from .systems import EventLog, HybridRun, HybridSystem

Array = Any
MOST_STATES = 1000  # recorded by default
LONG_POINT = 1000  # operations and stores from which on y exp(psi) of a long tree is a loop
MOST_EVENTS = 100_000  # of a member that are kept
CHUNK = 0.25  # seconds between two looks at the progress bar and at Ctrl-C


class SingularPosition(UserWarning):
    """Constraints came to depend on each other on the way; there a motion may go on in several ways."""


class DivergedMembers(UserWarning):
    """Some members of an ensemble did not stay finite; the others went on."""


class CalledEfforts(UserWarning):
    """Efforts by a function that cannot be traced: it is called at every stage, slower."""


class _Simulate(Protocol):
    @overload
    def __call__(
        self, mechanism: HybridSystem, q0: Array = ..., v0: Array = ..., **options: Any
    ) -> HybridRun: ...
    @overload
    def __call__(
        self, mechanism: Robot | Mechanism, q0: Array = ..., v0: Array = ..., **options: Any
    ) -> Run: ...


def _or_hybrid(simulate: Callable[..., Run]) -> _Simulate:
    """`simulate`, passed on to the `simulate` method of the mechanism if that is a hybrid system."""

    @functools.wraps(simulate)
    def either(mechanism: Any, q0: Array = None, v0: Array = None, **options: Any) -> Any:
        if isinstance(mechanism, HybridSystem):
            return mechanism.simulate(mechanism.group.neutral() if q0 is None else q0, v0, **options)
        return simulate(mechanism, q0, v0, **options)

    return either


@_or_hybrid
def simulate(
    mechanism: Robot | Mechanism,
    q0: Array = None,
    v0: Array = None,
    *,
    t_end: float,
    dt: float | None = None,
    method: str | Method | MechanicalMethod = "rkmk4",
    tau: Any = None,
    record_every: float | None = None,
    rtol: float = 1e-8,
    atol: float = 1e-10,
    hold: str = "zero",
    damping: bool = True,
    stabilization: str | Stabilization | None = None,
    events: Mapping[str, Callable[..., Any]] | None = None,
    threads: int = 1,
    progress: bool | None = None,
) -> Run:
    """Integrate dq/dt = v, dv/dt = M^-1 (tau - C v - g) on the configuration manifold, over [0, t_end].

    q0, v0        initial states, (..., nq) and (..., nv): leading axes make an ensemble, whose members are
                  lanes of vectors and shares of threads. Default: the neutral configuration (of a System:
                  `system.assemble()`, the closed one next to its guess), at rest
    t_end         end of the simulation                                                                  [s]
    dt            fixed step; None: steps under error control, where the method estimates its error. Explicit
                  methods then step from one recorded time to the next, implicit ones as far as they can, and
                  record states within their steps, whose error is of the order of the steps' own       [s]
    method        an explicit method, "rkmk4", "rkmk45", "cf4", ... or a Tableau; or one for mechanical
                  systems, "generalized-alpha", "variational", "half-explicit4", "radau5", ..., which keeps
                  constraints in its own way (docs/integration.md)
    tau           efforts: None (zero); constant (..., nu); sampled, a pair (times, values (..., samples, nu))
                  with equidistant times; or a function tau(t, q, v) -> (nu,) of a single state. nu is nv of a
                  Robot, and the number of driven motions of a System. A function made of NumPy operators,
                  liebody.scalar and methods of a Robot (`robot.gravity(q)`) is compiled into the loop; any
                  other is called at every stage, slower, must not depend on anything but its arguments, and
                  is named in a CalledEfforts warning
    record_every  time between recorded states; default: every step, or so that there are at most 1000     [s]
    rtol, atol    of the error control, as in `solve_ivp`: errors of q absolute, those of v relative to |v|
    hold          between samples of tau: "zero" (the last one) or "linear". Steps that go across a sample are
                  taken in parts, which end there: so every method keeps its order
    damping       whether the joints' damping acts, of a Robot
    stabilization against drift of a System's constraints: "projection" after each step (the default),
                  "none", "baumgarte", "index-2", or a `constrained.Stabilization` (docs/constrained.md)
    events        {name: event(t, q, v)}, functions of a single state made of NumPy operators and
                  liebody.scalar. An event is a change of the sign of such a number, located to round-off by
                  steps that end there. A function may have attributes, as in `solve_ivp`: `direction`
                  (positive: only upwards, negative: only downwards), `terminal` (True: the run ends there)
    threads       threads that share an ensemble
    progress      whether to show a progress bar; default: on a terminal, when it takes long

    returns       Run: t, q (..., times, nq), v, tau, energies, events; .plot(), .save(file). Of a System it
                  is a ConstrainedRun, which also has violations and multipliers

    Orientation stays a group element: no singularity, unit quaternions to round-off. A member of an ensemble
    that does not stay finite (or whose step under error control vanishes) is NaN from there on, and named in
    a DivergedMembers warning; a single simulation raises IntegrationError, whose attribute `run` holds what
    was reached.

    A `systems.HybridSystem` has a `simulate` method of its own, which is then called with the same options.

    Müller and Terze (2014), eqs (36), (37), on the state space G x R^n.
    """
    chosen = _method(method)
    explicit = None if isinstance(chosen, MechanicalMethod) else chosen
    mechanical = chosen if isinstance(chosen, MechanicalMethod) else None
    t_end, h = positive("t_end", t_end, SECONDS), None if dt is None else positive("dt", dt, SECONDS)
    if mechanical is not None:
        _fits(mechanical, t_end, h, stabilization)
        stabilization = None if isinstance(mechanism, Robot) else Stabilization("by the method")
    loop = _loop(mechanism, damping, stabilization, h)
    q, v, batch = _states(loop, q0, v0)
    if h is None and explicit is not None and not explicit.error_weights:
        raise IntegrationError(
            f"{explicit.name} has no embedded method, so its error cannot be controlled: give dt, or take "
            "method='rkmk45'"
        )
    n = len(q)
    if hold not in ("zero", "linear"):
        raise IntegrationError(f"hold is {hold!r}, expected 'zero' or 'linear'")
    u, feedback = _efforts(loop.nu, tau, hold == "linear", batch, n)
    clock = _Clock(t_end, h, record_every)

    called = None
    if feedback is not None:
        traced = _traced(loop, feedback, q[0], v[0])
        if isinstance(traced, Function):
            feedback = traced
        else:
            called = feedback
            _may_be_called(mechanical, h, traced)
            warnings.warn(f"{traced}; so it is called at every stage, slower", CalledEfforts, stacklevel=3)
    y = np.concatenate([q, v], axis=1)
    implicit: MechanicalFlow | None = None
    if mechanical is not None:
        implicit = loop.mechanical_flow(mechanical, feedback)
        y = implicit.start(q, v, 0.0, h or clock.first, None if feedback else u.at(0.0))
    record = np.full((n, len(clock.times), y.shape[1]), np.nan)
    record[:, 0] = y
    failed = np.zeros(n, np.int64)
    losses = np.zeros((n, 2))
    nearest = Nearest.of(n, y.shape[1])
    members: Ensemble | None = None
    start = time.perf_counter()
    with _Progress(progress, t_end) as bar:
        if called is None:
            options: dict[str, Any] = {"threads": threads, "nearest": nearest}
            given = u
            if implicit is not None:
                options = {"threads": threads, "losses": losses}
                given = Samples.of(np.zeros((1, 1, 0))) if feedback else u
            flow: Any = implicit if explicit is None else loop.flow(explicit, feedback)
            if events:
                flow = flow.watching(_guards(loop, events, y.shape[1], given.table.shape[-1]))
            if h is not None and not events:
                _fixed(flow, y, given, clock, record, failed, bar, **options)
            else:
                members = Ensemble(y, clock.times, h or clock.first, len(events or ()))
                settings = Settings(rtol, atol, controlled=h is None, most=MOST_EVENTS if events else 0)
                _march(flow, members, given, settings, threads, bar)
                record, ended = members.record, (members.ends[:, 1] > 0) & (members.ends[:, 1] != STOPPED)
                failed[ended] = members.clock["row"][ended] + 1
                losses = members.ends if implicit is not None else losses
                nearest = members.nearest
        else:
            assert explicit is not None
            if events:
                raise IntegrationError(
                    f"events are located by compiled steps, and {traced}; write tau with NumPy operators, "
                    "liebody.scalar and methods of a Robot"
                )
            _called(loop, explicit, called, y, clock, record, failed, nearest, bar)
    seconds = time.perf_counter() - start

    lost = np.flatnonzero(failed).tolist()
    for i in lost:
        record[i, failed[i] :] = np.nan
    times = clock.times
    if members is not None and not batch and members.ends[0, 1] == STOPPED:  # the event is the last row
        rows = int(members.clock["row"][0])
        times = np.append(times[:rows], members.ends[0, 0])
        record = np.concatenate([record[:, :rows], members.y[:, None]], axis=1)
    shape = (*batch, len(times))
    Q = record[..., : loop.nq].reshape(*shape, loop.nq)
    V = record[..., loop.nq : loop.nq + loop.nv].reshape(*shape, loop.nv)
    metadata = {
        "model": mechanism.name,
        "method": chosen.name,
        **({"rtol": rtol, "atol": atol} if h is None else {"dt": h}),
        "efforts": "none" if tau is None else "called" if called else "compiled",
        "seconds": seconds,
    }
    recorded = functools.partial(_recorded, loop.nu, u, feedback, times, Q, V)
    run = loop.run(times, Q, V, recorded if loop.nu and tau is not None else None, metadata)
    if events and members is not None:
        logs = [_log(loop, tuple(events), *x) for x in zip(members.log, members.counts[:, 0].tolist())]
        vars(run)["events"] = logs if batch else logs[0]
    if isinstance(run, ConstrainedRun) and np.isfinite(nearest.pivot).any():
        closest = {"smallest_pivot": nearest.pivot, "smallest_pivot_time": nearest.time}
        vars(run).update({name: x.reshape(batch).copy() for name, x in closest.items()})
        _warn_of_singular(loop, nearest)
    if lost:
        _report(loop, run, lost, batch, clock, losses)
    return run


def _method(given: str | Method | MechanicalMethod) -> Method | MechanicalMethod:
    """The explicit method, or the one for mechanical systems, of this name."""
    if isinstance(given, MechanicalMethod) or (isinstance(given, str) and is_mechanical(given)):
        return _mechanical_method(given)
    return method_named(given)


_mechanical_method = functools.cache(mechanical_method)  # one object for each name, by which flows are kept


def _fits(method: MechanicalMethod, t_end: float, h: float | None, stabilization: Any) -> None:
    """Raise IntegrationError for what methods for mechanical systems cannot do."""
    if h is None and not method.estimates_errors:
        raise IntegrationError(
            f"{method.name} takes steps of one length: give dt, or take 'radau5', 'gauss4' or "
            "'generalized-alpha'"
        )
    if h is not None and abs(round(t_end / h) * h - t_end) > 1e-9 * t_end:
        raise IntegrationError(
            f"{method.name} takes steps of one length, and t_end = {t_end:g} s is no multiple of dt = {h:g} s"
        )
    if stabilization is not None:
        raise IntegrationError(
            f"{method.name} keeps constraints in its own way; leave out stabilization = {stabilization!r}"
        )


class _Clock:
    """The steps of a run and the times of its record."""

    def __init__(self, t_end: float, h: float | None, record_every: float | None) -> None:
        self.h = h
        if h is None:
            interval = (
                t_end / MOST_STATES
                if record_every is None
                else positive("record_every", record_every, SECONDS)
            )
            self.rows = max(1, math.floor(t_end / interval * (1 + 1e-12)))
            self.interval, self.first = interval, min(interval, 1e-3)
            last = t_end - self.rows * interval
            self.rest = last if last > 1e-9 * interval else 0.0
            self.times = np.concatenate([interval * np.arange(self.rows + 1), [t_end] if self.rest else []])
            return
        self.steps = math.floor(t_end / h * (1 + 1e-12))
        last = t_end - self.steps * h
        self.rest = last if last > 1e-9 * h else 0.0
        if record_every is None:
            self.every = max(1, math.ceil(self.steps / MOST_STATES))
        else:
            self.every = max(1, round(positive("record_every", record_every, SECONDS) / h))
            if abs(self.every * h - record_every) > 1e-6 * record_every:
                raise IntegrationError(
                    f"record_every = {record_every} s is no multiple of dt = {h} s; "
                    f"take {self.every * h:g}, for instance"
                )
        self.rows = self.steps // self.every
        self.extra = self.steps % self.every
        ends = [h * self.steps] if self.extra else []
        if self.rest:
            ends.append(t_end)
        self.times = np.concatenate([h * self.every * np.arange(self.rows + 1), ends])


def _chunks(rows: int) -> Iterator[tuple[int, int]]:
    """(rows done, rows to do next) until so many are done, each time for about a quarter of a second."""
    done, some = 0, 1
    while done < rows:
        some = min(some, rows - done)
        start = time.perf_counter()
        yield done, some
        done += some
        some = max(1, int(some * min(100.0, CHUNK / max(time.perf_counter() - start, 1e-9))))


def _fixed(
    flow: Flow,
    y: Array,
    u: Array,
    clock: _Clock,
    record: Array,
    failed: Array,
    bar: _Progress,
    **options: Any,
) -> None:
    """Fixed steps, in chunks."""
    h, every = clock.h, clock.every
    assert h is not None
    for done, rows in _chunks(clock.rows):
        flow.steps(y, u, done * every * h, h, rows * every, every, record, 1 + done, failed, **options)
        bar.at((done + rows) * every * h)
    row = clock.rows + 1
    if clock.extra:
        flow.steps(y, u, clock.rows * every * h, h, clock.extra, clock.extra, record, row, failed, **options)
        row += 1
    if clock.rest:
        flow.steps(y, u, clock.steps * h, clock.rest, 1, 1, record, row, failed, **options)


def _march(
    flow: Flow | MechanicalFlow,
    members: Ensemble,
    u: Samples,
    settings: Settings,
    threads: int,
    bar: _Progress,
) -> None:
    """Steps of the members' own, in chunks of records."""
    positive("rtol", settings.rtol), positive("atol", settings.atol)
    for done, rows in _chunks(len(members.times) - 1):
        flow.march(members, u, 1 + done + rows, settings, threads)
        bar.at(members.times[done + rows])


def _guards(loop: _Loop, events: Mapping[str, Callable[..., Any]], point: int, efforts: int) -> Guards:
    """The events' functions, traced together."""
    nq, nv = loop.nq, loop.nv

    def found(t: Any, y: Array, u: Array) -> Array:
        values = []
        for name, event in events.items():
            value = np.asarray(event(t, y[:nq], y[nq : nq + nv]))
            if value.shape != ():
                raise ShapeError(f"event {name} returned shape {value.shape}; it must return one number")
            values.append(value[()])
        return np.array(values)

    try:
        function = trace(found, {"t": (), "y": point, "u": efforts}, "guards")
    except (GraphError, TypeError, AttributeError) as error:
        raise IntegrationError(
            f"the events {', '.join(events)} cannot be traced: {error}; write them with NumPy operators and "
            "liebody.scalar"
        ) from None
    directions = [int(np.sign(getattr(event, "direction", 0))) for event in events.values()]
    return Guards(
        function, directions, [bool(getattr(event, "terminal", False)) for event in events.values()]
    )


def _log(loop: _Loop, names: tuple[str, ...], entries: Array, count: int) -> EventLog:
    """The events of one member, of which these were kept."""
    signs, y = entries[:, 1].astype(int), entries[:, 2:]
    return EventLog(
        entries[:, 0],
        tuple(names[abs(k) - 1] for k in signs),
        np.sign(signs),
        y[:, : loop.nq],
        y[:, loop.nq : loop.nq + loop.nv],
        {},
        count - len(entries),
    )


def _called(
    loop: _Loop,
    method: Method,
    feedback: Callable[..., Any],
    y: Array,
    clock: _Clock,
    record: Array,
    failed: Array,
    nearest: Nearest,
    bar: _Progress,
) -> None:
    """Fixed steps with efforts by a Python function, called for every member at every stage."""
    flow = loop.flow(method, None)
    field, advance = (Kernel(part) for part in flow.functions[:2])
    pull, after = (
        None if part is None else Kernel(part) for part in (flow.functions.pull, flow.functions.settle)
    )
    watched = None
    if flow.watch is not None:
        kernels: list[Any] = [None if part is None else Kernel(part) for part in flow.watched_functions]
        watched = Watched(WatchedParts(*kernels), nearest)

    def efforts(t: float, y: Array) -> Array:
        return [
            _effort(feedback, loop.nu, t, state[: loop.nq], state[loop.nq :])
            if np.isfinite(state).all()
            else np.full(loop.nu, np.nan)  # of a member that is lost
            for state in y
        ]

    h, row = clock.h, 1
    assert h is not None
    for s in range(clock.steps + bool(clock.rest)):
        begin, step = s * h, h if s < clock.steps else clock.rest
        take = functools.partial(_taken, method, advance, pull, begin, step, y)
        if watched is None:
            y[:] = take(lambda t, y: field(t, y, efforts(t, y)))[1]
            if after is not None:
                y[:] = after(begin + step, y, np.zeros(loop.nu))
        else:
            end = watched.stages(take, step, y, efforts)[1]
            y[:] = watched.complete(begin, step, begin + step, y.copy(), end)
        if (s + 1) % clock.every == 0 or s + 1 >= clock.steps:
            record[:, row] = y
            failed[(failed == 0) & ~np.isfinite(y).all(axis=1)] = row
            row += 1
            bar.at((s + 1) * h)


def _taken(
    method: Method, advance: Kernel, pull: Kernel | None, t: float, h: float, y: Array, velocity: Any
) -> tuple[list[Array], Array]:
    """A step with this function (t, y) -> velocity."""
    return stages(method.paths, method.c, velocity, advance, pull, t, h, y)


def _effort(feedback: Callable[..., Any], nu: int, t: float, q: Array, v: Array) -> Array:
    u = np.asarray(feedback(t, q, v), float)
    if u.shape != (nu,):
        raise ShapeError(f"tau(t, q, v) returned an array of shape {u.shape}, expected ({nu},)")
    return u


def _recorded(
    nu: int, samples: Samples, feedback: Callable[..., Any] | None, times: Array, Q: Array, V: Array
) -> Array:
    """The efforts at the recorded times, (..., times, nu); NaN where the states are not finite."""
    finite = np.isfinite(Q).all(axis=-1) & np.isfinite(V).all(axis=-1)
    u = np.full((*finite.shape, nu), np.nan)
    if isinstance(feedback, Function):
        u[finite] = Kernel(feedback)(np.broadcast_to(times, finite.shape)[finite], Q[finite], V[finite])
    elif feedback is not None:
        for at in map(tuple, np.argwhere(finite)):
            u[at] = _effort(feedback, nu, times[at[-1]], Q[at], V[at])
    else:
        sampled = np.stack([samples.at(t) for t in times], axis=-2)
        shape = (*(Q.shape[:-2] if len(sampled) > 1 else ()), len(times), nu)
        u[finite] = np.broadcast_to(sampled.reshape(shape), u.shape)[finite]
    return u


# -- tracing -----------------------------------------------------------------------------------------------


class _Door:
    """What checks the states of a mechanism and names their entries; made once for each mechanism."""

    def __init__(self, group: Product, names: tuple[Labels, Labels]) -> None:
        self.group, self.names = group, names
        self.start: Array = None
        self.quaternions = np.add.outer(quaternions(group), np.arange(4)).astype(int)
        self.special = any(_has_own_normal_form(factor) for factor in group.factors)

    def normalize(self, q: Array) -> None:
        """Make the quaternions of configurations (n, nq) unit, in place.

        Raises ConfigurationError where they are off by more than round-off.
        """
        if len(self.quaternions):
            found = q[:, self.quaternions]
            norms = np.sqrt((found * found).sum(axis=-1))
            if not np.abs(norms - 1).max() <= 1e-6:
                wrong = np.abs(norms - 1) > 1e-6
                k = int(np.argmax(wrong.any(axis=0)))
                start, norm = self.quaternions[k, 0], norms[np.argmax(wrong[:, k]), k]
                raise ConfigurationError(
                    f"the quaternion q0[{start}:{start + 4}] has norm {norm:.9g}, expected 1 "
                    "(order w, x, y, z); use robot.normalize(q0), or divide it by its norm"
                )
            q[:, self.quaternions] = found / norms[..., None]
        if self.special:
            q[:] = [self.group.normalize(x) for x in q]


def _has_own_normal_form(group: LieGroup) -> bool:
    """Whether a group of the user's own normalizes coordinates beyond unit quaternions."""
    if isinstance(group, Product):
        return any(_has_own_normal_form(factor) for factor in group.factors)
    return type(group).normalize not in (LieGroup.normalize, type(SO3).normalize, type(SE3).normalize)


_doors: WeakKeyDictionary[Robot | Mechanism, _Door] = WeakKeyDictionary()


class _Loop(Protocol):
    """What `simulate` asks of a mechanism; its state is y = (q, v)."""

    mechanism: Any
    door: _Door
    nq: int
    nv: int
    nu: int

    def flow(self, method: Method, feedback: Callable[..., Any] | None) -> Flow:
        """The compiled loop."""

    def mechanical_flow(
        self, method: MechanicalMethod, feedback: Callable[..., Any] | None
    ) -> MechanicalFlow:
        """The compiled loop of a method for mechanical systems."""

    def start(self) -> Array:
        """The configuration in which it starts by default, (nq,)."""

    def check(self, q: Array, v: Array, given: bool) -> None:
        """Raise an error for states from which it cannot start; `given`: q are not those of `start`."""

    def run(self, t: Array, q: Array, v: Array, efforts: Callable[[], Array] | None, metadata: Any) -> Run:
        """The result."""

    def explain(self, t: float, q: Array, v: Array, interval: float) -> str:
        """Why there is no finite state an interval after this one."""


def _mechanical_flow(
    method: MechanicalMethod,
    mechanics: Callable[[], dict[str, Any]],
    feedback: Callable[..., Any] | None,
    kept: dict[tuple[Any, ...], Any],
    key: tuple[Any, ...],
) -> MechanicalFlow:
    """The flow of the method with these arguments, kept unless efforts are a user's function."""
    if feedback is None:
        if key not in kept:
            kept[key] = method.flow(**mechanics())
        return kept[key]
    given = mechanics()
    applied = given["Q"]

    def Q(t: Any, q: Array, v: Array, u: Array) -> Array:
        return applied(t, q, v, np.asarray(feedback(t, q, v)))

    return method.flow(**{**given, "Q": Q, "efforts": 0})


def _loop(
    mechanism: Robot | Mechanism, damping: bool, given: str | Stabilization | None, h: float | None
) -> _Loop:
    if isinstance(mechanism, Robot):
        if given is not None:
            raise IntegrationError(
                f"stabilization is {given!r}, and {mechanism!r} has no constraints to stabilise; leave it out"
            )
        return _RobotLoop(mechanism, damping)
    if isinstance(mechanism, Mechanism):
        return _SystemLoop(mechanism, constrained.stabilization("projection" if given is None else given, h))
    raise IntegrationError(f"simulate takes a Robot, a System or a ClosedTree, not {mechanism!r}")


class _RobotLoop:
    """A robot's joint coordinates."""

    def __init__(self, robot: Robot, damping: bool) -> None:
        self.mechanism, self.damping = robot, damping
        self.nq, self.nv, self.nu = robot.nq, robot.nv, robot.nv
        if robot not in _doors:
            _doors[robot] = _Door(robot.group, labels(robot.tree))
        self.door = _doors[robot]

    def flow(self, method: Method, feedback: Callable[..., Any] | None) -> Flow:
        """The compiled loop for this method; kept with the robot unless it holds a user's function."""
        robot, damping = self.mechanism, self.damping
        key = ("flow", method, damping)
        if feedback is None and key in robot.flows:
            return robot.flows[key]
        tree, nq, nv = robot.tree, robot.nq, robot.nv
        state = Product(robot.group, R(nv))
        gravity = tuple(robot.gravity_vector)

        def field(t: Any, y: Array, u: Array) -> Array:
            q, v = y[:nq], y[nq:]
            if feedback is not None:
                u = np.asarray(feedback(t, q, v))
            return np.concatenate([v, dynamics.forward_dynamics(tree, q, v, u, gravity, damping=damping)])

        def advance(y: Array, psi: Array) -> Array:
            return state.normalize(state.integrate(y, psi))

        def pull(psi: Array, f: Array) -> Array:
            return state.dexp_inverse_times(-psi, f)

        flow = Flow(
            lambda: traced(field, {"t": (), "y": nq + nv, "u": nv}),
            lambda: traced(advance, {"y": nq + nv, "psi": 2 * nv}, least=LONG_POINT),
            (lambda: traced(pull, {"psi": 2 * nv, "f": 2 * nv}, least=LONG_POINT))
            if method.pulls_back
            else None,
            method.paths,
            tuple(method.c),
            error=_error(method),
            rigid=nv,
            recipe=robot.recipe("flow", {"damping": damping}) if feedback is None else None,
        )
        if feedback is None:
            robot.flows[key] = flow
        return flow

    def mechanical_flow(
        self, method: MechanicalMethod, feedback: Callable[..., Any] | None
    ) -> MechanicalFlow:
        """As `flow`."""
        key = ("flow", method, self.damping)
        return _mechanical_flow(method, self._mechanics, feedback, self.mechanism.flows, key)

    def _mechanics(self) -> dict[str, Any]:
        robot, damping = self.mechanism, self.damping
        tree, gravity, losses = robot.tree, tuple(robot.gravity_vector), np.zeros(robot.nv)
        for body in tree.bodies if damping else ():
            losses[body.dofs] += body.damping

        def applied(t: Any, q: Array, v: Array, u: Array) -> Array:
            return u - dynamics.gravity_forces(tree, q, gravity) - losses * v

        return {
            "group": robot.group,
            "M": lambda q: dynamics.mass_matrix(tree, q),
            "b": lambda q, v: dynamics.bias_forces(tree, q, v, (0.0, 0.0, 0.0)),
            "Q": applied,
            "efforts": robot.nv,
        }

    def start(self) -> Array:
        return self.mechanism.neutral()

    def check(self, q: Array, v: Array, given: bool) -> None:
        pass

    def run(self, t: Array, q: Array, v: Array, efforts: Callable[[], Array] | None, metadata: Any) -> Run:
        return Run(
            t, q, v, LATER, LATER, *self.door.names, metadata=metadata, mechanism=self.mechanism,
            efforts=efforts,
        )  # fmt: skip

    def explain(self, t: float, q: Array, v: Array, interval: float) -> str:
        return "take a smaller step, and look for efforts that pump energy in"


class _SystemLoop:
    """Absolute coordinates with constraints, or joint coordinates with closed loops."""

    def __init__(self, system: Mechanism, stabilized: Stabilization) -> None:
        self.mechanism, self.stabilized = system, stabilized
        self.nq, self.nv, self.nu = system.nq, system.nv, system.nu
        if system not in _doors:
            _doors[system] = _Door(system.group, names(system))
        self.door = _doors[system]

    def flow(self, method: Method, feedback: Callable[..., Any] | None) -> Flow:
        """The compiled loop for this method; kept with the system unless it holds a user's function."""
        system = self.mechanism
        key = (method, self.stabilized, system.redundant)
        if feedback is None and key in system.flows:
            return system.flows[key]
        parts = system.parts(self.stabilized, system.redundant, feedback, watched=system.nc > 0)
        flow = Flow(
            parts.field,
            parts.advance,
            parts.pull if method.pulls_back else None,
            method.paths,
            tuple(method.c),
            error=_error(method),
            rigid=system.group.dim,
            after=parts.after,
            watch=parts.watch,
        )
        if feedback is None:
            system.flows[key] = flow
        return flow

    def mechanical_flow(
        self, method: MechanicalMethod, feedback: Callable[..., Any] | None
    ) -> MechanicalFlow:
        """As `flow`; which constraints are independent is settled when the first state has been checked."""
        system = self.mechanism
        return _mechanical_flow(method, system.mechanics, feedback, system.flows, (method, system.redundant))

    def start(self) -> Array:
        return self.mechanism.assemble()

    def check(self, q: Array, v: Array, given: bool) -> None:
        try:
            self.mechanism.check_state(*((q[0], v[0]) if len(q) == 1 else (q, v)))
        except ConfigurationError as error:
            if given:
                raise
            raise ConfigurationError(
                f"{error}, where q0 = system.assemble(): simulations start there unless q0 is given, and not "
                "from system.guess; if v0 belongs to another configuration, give that as q0"
            ) from None

    def run(self, t: Array, q: Array, v: Array, efforts: Callable[[], Array] | None, metadata: Any) -> Run:
        system = self.mechanism
        return ConstrainedRun(
            t, q, v, LATER, LATER, *self.door.names, mechanism=system, constraints=system.rows, system=system,
            efforts=efforts, drives=drives(system),
            metadata={**metadata, "stabilization": self.stabilized.name},
        )  # fmt: skip

    def explain(self, t: float, q: Array, v: Array, interval: float) -> str:
        return self.mechanism.diagnosis(q, v, interval, t) or (
            "take a smaller step, and look for forces that pump energy in, or constraints that drift apart"
        )


def _error(method: Method) -> tuple[list[float], int] | None:
    if not method.error_weights:
        return None
    weights = [0.0] * len(method.c)
    for i, w in method.error_weights:
        weights[i] = w
    assert method.embedded_order is not None
    return weights, min(method.order, method.embedded_order) + 1


def _traced(loop: _Loop, feedback: Callable[..., Any], q: Array, v: Array) -> Function | str:
    """Efforts (t, q, v) -> (nu,) as a traced function; or why there is none, if they can be called.

    Raises what the function raises on the numbers of a state (q, v), and ShapeError for a result of another
    shape.
    """

    def efforts(t: Any, q: Array, v: Array) -> Array:
        return np.asarray(feedback(t, q, v))

    try:
        traced = trace(efforts, {"t": (), "q": loop.nq, "v": loop.nv}, "tau")
    except Exception as error:  # of the user's code, in which anything may refuse symbols
        why = _place(error) + f"{type(error).__name__}: {error}"
        try:
            _effort(feedback, loop.nu, 0.0, q.copy(), v.copy())
        except LiebodyError:
            raise
        except Exception as failed:
            if not isinstance(error, GraphError):
                raise
            raise GraphError(
                f"tau(t, q, v) fails on numbers, {type(failed).__name__}: {failed}; and it cannot be traced"
                f"{why}"
            ) from failed
        return f"tau(t, q, v) cannot be traced{why}"
    (result,) = traced.outputs.values()
    if result.shape != (loop.nu,):
        raise ShapeError(f"tau(t, q, v) returned an array of shape {result.shape}, expected ({loop.nu},)")
    return traced


def _place(error: Exception) -> str:
    """The line of the user's code at which it was raised, for messages."""
    ours = str(Path(__file__).parent)
    frames = traceback.extract_tb(error.__traceback__)
    outside = [frame for frame in frames if not frame.filename.startswith(ours)]
    if not outside:
        return ", "
    return f" at `{outside[0].line}` ({Path(outside[0].filename).name}, line {outside[0].lineno}), "


def _may_be_called(method: MechanicalMethod | None, h: float | None, why: str) -> None:
    """Raise IntegrationError where efforts by a function have to be traced."""
    advice = "write it with NumPy operators, liebody.scalar and methods of a Robot"
    if method is not None:
        raise IntegrationError(f"{method.name} differentiates efforts, and {why}; {advice}, or take 'rkmk4'")
    if h is None:
        raise IntegrationError(f"{why}; {advice}, or give a fixed step dt")


# -- the door ----------------------------------------------------------------------------------------------


def _states(loop: _Loop, q0: Array, v0: Array) -> tuple[Array, Array, tuple[int, ...]]:
    """Initial states as (n, nq) and (n, nv), and the ensemble's shape."""
    if q0 is None and loop.door.start is None:
        loop.door.start = loop.start()
    q = loop.door.start if q0 is None else _numbers("q0", q0)
    v = np.zeros(loop.nv) if v0 is None else _numbers("v0", v0)
    for name, array, size in (("q0", q, loop.nq), ("v0", v, loop.nv)):
        if array.ndim < 1 or array.shape[-1] != size:
            raise ShapeError(
                f"{name} has shape {array.shape}, expected ({size},) or an ensemble (..., {size})"
            )
    batch = q.shape[:-1]
    if batch != v.shape[:-1]:
        try:
            batch = np.broadcast_shapes(batch, v.shape[:-1])
        except ValueError:
            raise ShapeError(
                f"q0 {q.shape} and v0 {v.shape} differ in their leading axes; make the ensembles equal"
            ) from None
        q, v = (np.broadcast_to(x, (*batch, x.shape[-1])) for x in (q, v))
    q, v = (np.array(x, order="C").reshape(-1, x.shape[-1]) for x in (q, v))
    if not len(q):
        raise ShapeError(f"the ensemble is empty: q0 has shape {np.shape(q0)}")
    loop.door.normalize(q)
    loop.check(q, v, q0 is not None)
    return q, v, batch


def _efforts(
    nu: int, tau: Any, linear: bool, batch: tuple[int, ...], n: int
) -> tuple[Samples, Callable[..., Any] | None]:
    """Efforts that are numbers, of all members or of each; and the function that gives them, or None."""
    if tau is None or callable(tau):
        return Samples(np.zeros((1, 1, nu))), tau
    first, interval = 0.0, 1.0
    if isinstance(tau, tuple) and len(tau) == 2:
        times, values = _numbers("times of tau", tau[0]), _numbers("tau", tau[1])
        if times.ndim != 1 or len(times) < 2 or values.ndim < 2 or values.shape[-2:] != (len(times), nu):
            raise ShapeError(
                f"tau is a pair of shapes {times.shape} and {values.shape}, expected times (samples,) with "
                f"at least two, and values (..., samples, {nu})"
            )
        table, (first, interval) = values, equidistant("tau", times)
    else:
        table = _numbers("tau", tau)
        if table.ndim < 1 or table.shape[-1] != nu:
            raise ShapeError(f"tau has shape {table.shape}, expected ({nu},) or (..., {nu})")
        table = table[..., None, :]
    shared = table.ndim == 2
    try:
        table = np.broadcast_to(table, (*(() if shared else batch), *table.shape[-2:]))
    except ValueError:
        raise ShapeError(
            f"tau has leading axes {table.shape[:-2]}, those of the states are {batch}"
        ) from None
    table = np.ascontiguousarray(table.reshape(1 if shared else n, *table.shape[-2:]))
    return Samples(table, first, interval, linear), None


def _numbers(name: str, given: Any) -> Array:
    try:
        array = np.asarray(given, float)
    except (TypeError, ValueError) as error:
        raise ShapeError(f"{name} cannot be read as an array of numbers: {error}") from None
    if not np.isfinite(array).all():
        where = tuple(int(i) for i in np.argwhere(~np.isfinite(array))[0])
        raise ConfigurationError(
            f"{name}[{', '.join(map(str, where))}] is {array[where]}, expected a finite number"
        )
    return array


# -- afterwards --------------------------------------------------------------------------------------------


def _report(
    loop: _Loop, run: Run, lost: list[int], batch: tuple[int, ...], clock: _Clock, losses: Array
) -> None:
    """Raise IntegrationError for a simulation that was lost, warn of members of an ensemble."""
    finite = run._finite.reshape(len(losses), -1)
    q, v = run.q.reshape(*finite.shape, loop.nq), run.v.reshape(*finite.shape, loop.nv)
    last = {i: int(np.flatnonzero(finite[i])[-1]) for i in lost}

    def told(i: int) -> str:
        start, end = clock.times[last[i] : last[i] + 2]
        if losses[i, 1]:
            return f"the step at t = {losses[i, 0]:.9g} s cannot be taken: {REASONS[int(losses[i, 1])]}"
        return loop.explain(start, q[i, last[i]], v[i, last[i]], end - start)

    if not batch:
        error = IntegrationError(
            f"the state is not finite after t = {clock.times[last[0]]:g} s; {told(0)}; "
            "the attribute `run` of this error holds the states up to there"
        )
        error.run = run  # type: ignore[attr-defined]
        raise error
    named = ", ".join(
        f"{tuple(int(k) for k in np.unravel_index(i, batch))} after {clock.times[last[i]]:g} s"
        for i in list(last)[:5]
    )
    warnings.warn(
        f"{len(lost)} of {len(losses)} members did not stay finite: {named}"
        + (", ..." if len(lost) > 5 else f"; of the first one: {told(int(lost[0]))}"),
        DivergedMembers,
        stacklevel=4,
    )


def _warn_of_singular(loop: _Loop, nearest: Nearest) -> None:
    """Name the closest singular position that members have gone through."""
    passed = np.flatnonzero(np.isfinite(nearest.singular_pivot))
    if not len(passed):
        return
    i = int(passed[np.argmin(nearest.singular_pivot[passed])])
    system, state = loop.mechanism, nearest.singular_state[i]
    _, names = assembly.nearly_dependent(system, state[: loop.nq], nearest.singular_time[i])
    members = f" ({len(passed)} of {len(nearest.pivot)} members)" if len(nearest.pivot) > 1 else ""
    warnings.warn(
        f"at t = {nearest.singular_time[i]:.6g} s the motion goes through a singular position{members}, in "
        f"which {', '.join(names)} depend on each other (relative pivot {nearest.singular_pivot[i]:.2g}): "
        "there it may go on in several ways. The steps around it were taken with all stages on the "
        "constraints; compare run.largest_energy_jump, and the motion with a shorter step",
        SingularPosition,
        stacklevel=4,
    )


class _Progress:
    """A progress bar over simulated time; on a terminal, after a second."""

    def __init__(self, wanted: bool | None, t_end: float) -> None:
        self.wanted = sys.stderr.isatty() if wanted is None else wanted
        self.delay = 1.0 if wanted is None else 0.0
        self.t_end, self.bar = t_end, None

    def __enter__(self) -> _Progress:
        if self.wanted:
            from tqdm import tqdm

            form = "{l_bar}{bar}| {n:.3g}/{total:.3g} s simulated [{elapsed}<{remaining}]"
            self.bar = tqdm(total=self.t_end, delay=self.delay, bar_format=form, file=sys.stderr)
        return self

    def at(self, t: float) -> None:
        if self.bar is not None:
            self.bar.update(min(t, self.t_end) - self.bar.n)

    def __exit__(self, *_: object) -> None:
        if self.bar is not None:
            self.bar.close()
