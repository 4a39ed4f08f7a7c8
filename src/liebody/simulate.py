"""Simulation of a robot: its vector field and a Lie-group integrator, compiled into one loop."""

from __future__ import annotations

import functools
import math
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from . import dynamics
from .codegen import Flow, Kernel, trace
from .codegen.flow import stages
from .errors import ConfigurationError, GraphError, IntegrationError, ShapeError
from .groups import Product, R
from .integrators import Method, method_named
from .robot import Robot, quaternions
from .run import Run, labels

Array = Any
MOST_STATES = 1000  # recorded by default
CHUNK = 0.25  # seconds between two looks at the progress bar and at Ctrl-C


class DivergedMembers(UserWarning):
    """Some members of an ensemble did not stay finite; the others went on."""


def simulate(
    robot: Robot,
    q0: Array = None,
    v0: Array = None,
    *,
    t_end: float,
    dt: float | None = None,
    method: str | Method = "rkmk4",
    tau: Any = None,
    record_every: float | None = None,
    rtol: float = 1e-8,
    atol: float = 1e-10,
    hold: str = "zero",
    damping: bool = True,
    threads: int = 1,
    progress: bool | None = None,
) -> Run:
    """Integrate dq/dt = v, dv/dt = M^-1 (tau - C v - g) from (q0, v0) over [0, t_end], on the configuration
    manifold.

    q0, v0        initial states, (..., nq) and (..., nv): leading axes make an ensemble, whose members are
                  lanes of vectors and shares of threads. Default: the neutral configuration, at rest
    t_end         end of the simulation                                                                  [s]
    dt            fixed step; None: steps under error control, where the method has an embedded one       [s]
    method        an explicit method: "rkmk4", "rkmk45", "cf4", ... or a Tableau (docs/integration.md)
    tau           efforts: None (zero); constant (..., nv); sampled, a pair (times, values (..., samples, nv))
                  with equidistant times; or a function tau(t, q, v) -> (nv,) of a single state. A function
                  made of NumPy operators and liebody.scalar is compiled into the loop; any other is called at
                  every stage, slower, and must not depend on anything but its arguments
    record_every  time between recorded states; default: every step, or so that there are at most 1000     [s]
    rtol, atol    of the error control, as in `solve_ivp`: errors of q absolute, those of v relative to |v|
    hold          between samples of tau: "zero" (the last one) or "linear"
    damping       whether the joints' damping acts
    threads       threads that share an ensemble
    progress      whether to show a progress bar; default: on a terminal, when it takes long

    returns       Run: t, q (..., times, nq), v, energies; .plot(), .save(file)

    Orientation stays a group element: no singularity, unit quaternions to round-off. A member of an ensemble
    that does not stay finite (or whose step under error control vanishes) is NaN from there on, and named in
    a DivergedMembers warning; a single simulation raises IntegrationError, whose attribute `run` holds what
    was reached.

    Müller and Terze (2014), eqs (36), (37), on the state space G x R^n.
    """
    method = method_named(method)
    q, v, batch = _states(robot, q0, v0)
    t_end, h = _positive("t_end", t_end), None if dt is None else _positive("dt", dt)
    if h is None and not method.error_weights:
        raise IntegrationError(
            f"{method.name} has no embedded method, so its error cannot be controlled: give dt, or take "
            "method='rkmk45'"
        )
    n = len(q)
    table, feedback, sampling = _efforts(robot, tau, batch, n)
    if hold not in ("zero", "linear"):
        raise IntegrationError(f"hold is {hold!r}, expected 'zero' or 'linear'")
    clock = _Clock(t_end, h, record_every)

    y = np.concatenate([q, v], axis=1)
    record = np.full((n, len(clock.times), y.shape[1]), np.nan)
    record[:, 0] = y
    failed = np.zeros(n, np.int64)
    start = time.perf_counter()
    called = feedback if feedback is not None and not _traceable(robot, feedback) else None
    with _Progress(progress, t_end) as bar:
        if called is None:
            flow = _flow(robot, method, feedback, damping)
            options = {"first": sampling[0], "linear": hold == "linear", "threads": threads}
            if h is not None:
                _fixed(flow, y, table, clock, record, failed, bar, interval=sampling[1], **options)
            else:
                _controlled(
                    flow, y, table, clock, rtol, atol, record, failed, bar, sampling=sampling[1], **options
                )
        else:
            if h is None:
                raise IntegrationError(
                    "efforts by a function that cannot be compiled need a fixed step: give dt"
                )
            _called(robot, method, called, damping, y, clock, record, failed, bar)
    seconds = time.perf_counter() - start

    for i in np.flatnonzero(failed):
        record[i, failed[i] :] = np.nan
    shape = (*batch, len(clock.times))
    Q = record[..., : robot.nq].reshape(*shape, robot.nq)
    V = record[..., robot.nq :].reshape(*shape, robot.nv)
    coordinates, dofs = labels(robot.tree)
    finite = np.isfinite(record).all(axis=-1).reshape(shape)
    run = Run(
        clock.times,
        Q,
        V,
        kinetic=_where_finite(robot.kinetic_energy, finite, Q, V),
        potential=_where_finite(robot.potential_energy, finite, Q),
        coordinates=coordinates,
        dofs=dofs,
        metadata={
            "model": robot.name,
            "method": method.name,
            **({"rtol": rtol, "atol": atol} if h is None else {"dt": h}),
            "efforts": "none" if tau is None else "called" if called else "compiled",
            "seconds": seconds,
        },
    )
    _report(run, failed, batch, clock)
    return run


class _Clock:
    """The steps of a run and the times of its record."""

    def __init__(self, t_end: float, h: float | None, record_every: float | None) -> None:
        self.h = h
        if h is None:
            interval = (
                t_end / MOST_STATES if record_every is None else _positive("record_every", record_every)
            )
            self.rows = max(1, math.floor(t_end / interval * (1 + 1e-12)))
            self.interval = interval
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
            self.every = max(1, round(_positive("record_every", record_every) / h))
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
    """Fixed steps, in chunks of about a quarter of a second."""
    h, every = clock.h, clock.every
    assert h is not None
    done, rows = 0, 1
    while done < clock.rows:
        rows = min(rows, clock.rows - done)
        start = time.perf_counter()
        flow.steps(y, u, done * every * h, h, rows * every, every, record, 1 + done, failed, **options)
        done += rows
        bar.at(done * every * h)
        rows = max(1, int(rows * min(100.0, CHUNK / max(time.perf_counter() - start, 1e-9))))
    row = clock.rows + 1
    if clock.extra:
        flow.steps(y, u, clock.rows * every * h, h, clock.extra, clock.extra, record, row, failed, **options)
        row += 1
    if clock.rest:
        flow.steps(y, u, clock.steps * h, clock.rest, 1, 1, record, row, failed, **options)


def _controlled(
    flow: Flow,
    y: Array,
    u: Array,
    clock: _Clock,
    rtol: float,
    atol: float,
    record: Array,
    failed: Array,
    bar: _Progress,
    **options: Any,
) -> None:
    """Steps under error control, in chunks of about a quarter of a second."""
    _positive("rtol", rtol), _positive("atol", atol)
    step = np.full(len(y), min(clock.interval, 1e-3))
    done, rows = 0, 1
    while done < clock.rows:
        rows = min(rows, clock.rows - done)
        start = time.perf_counter()
        t = done * clock.interval
        flow.controlled(y, u, t, clock.interval, rows, rtol, atol, step, record, 1 + done, failed, **options)
        done += rows
        bar.at(done * clock.interval)
        rows = max(1, int(rows * min(100.0, CHUNK / max(time.perf_counter() - start, 1e-9))))
    if clock.rest:
        t = clock.rows * clock.interval
        flow.controlled(y, u, t, clock.rest, 1, rtol, atol, step, record, clock.rows + 1, failed, **options)


def _called(
    robot: Robot,
    method: Method,
    feedback: Callable[..., Any],
    damping: bool,
    y: Array,
    clock: _Clock,
    record: Array,
    failed: Array,
    bar: _Progress,
) -> None:
    """Fixed steps with efforts by a Python function, called for every member at every stage."""
    field, advance, pull = (part and Kernel(part) for part in _flow(robot, method, None, damping).functions)
    assert field is not None and advance is not None
    nq = robot.nq

    def velocity(t: float, y: Array) -> Array:
        u = [_effort(feedback, robot, t, state[:nq], state[nq:]) for state in y]
        return field(t, y, u)

    h, row = clock.h, 1
    assert h is not None
    for s in range(clock.steps + bool(clock.rest)):
        step = h if s < clock.steps else clock.rest
        y[:] = stages(method.paths, method.c, velocity, advance, pull, s * h, step, y)[1]
        if (s + 1) % clock.every == 0 or s + 1 >= clock.steps:
            record[:, row] = y
            failed[(failed == 0) & ~np.isfinite(y).all(axis=1)] = row
            row += 1
            bar.at((s + 1) * h)


def _effort(feedback: Callable[..., Any], robot: Robot, t: float, q: Array, v: Array) -> Array:
    u = np.asarray(feedback(t, q, v), float)
    if u.shape != (robot.nv,):
        raise ShapeError(f"tau(t, q, v) returned an array of shape {u.shape}, expected ({robot.nv},)")
    return u


# -- tracing
# ----------------------------------------------------------------------------------------------------


def _flow(robot: Robot, method: Method, feedback: Callable[..., Any] | None, damping: bool) -> Flow:
    """The compiled loop for this robot and method; kept with the robot unless it holds a user's function."""
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
        functools.partial(trace, field, {"t": (), "y": nq + nv, "u": nv}, "field"),
        functools.partial(trace, advance, {"y": nq + nv, "psi": 2 * nv}, "advance"),
        functools.partial(trace, pull, {"psi": 2 * nv, "f": 2 * nv}, "pull") if method.pulls_back else None,
        method.paths,
        tuple(method.c),
        error=_error(method),
        rigid=nv,
        recipe=robot.recipe("flow", {"damping": damping}) if feedback is None else None,
    )
    if feedback is None:
        robot.flows[key] = flow
    return flow


def _error(method: Method) -> tuple[list[float], int] | None:
    if not method.error_weights:
        return None
    weights = [0.0] * len(method.c)
    for i, w in method.error_weights:
        weights[i] = w
    assert method.embedded_order is not None
    return weights, min(method.order, method.embedded_order) + 1


def _traceable(robot: Robot, feedback: Callable[..., Any]) -> bool:
    """Whether the function runs on symbols; its result must have the right shape."""

    def efforts(t: Any, q: Array, v: Array) -> Array:
        return np.asarray(feedback(t, q, v))

    try:
        traced = trace(efforts, {"t": (), "q": robot.nq, "v": robot.nv}, "tau")
    except (GraphError, TypeError, AttributeError):
        return False
    (result,) = traced.outputs.values()
    if result.shape != (robot.nv,):
        raise ShapeError(f"tau(t, q, v) returned an array of shape {result.shape}, expected ({robot.nv},)")
    return True


# -- the door
# ---------------------------------------------------------------------------------------------------


def _states(robot: Robot, q0: Array, v0: Array) -> tuple[Array, Array, tuple[int, ...]]:
    """Initial states as (n, nq) and (n, nv), and the ensemble's shape."""
    q = robot.neutral() if q0 is None else _numbers("q0", q0)
    v = np.zeros(robot.nv) if v0 is None else _numbers("v0", v0)
    for name, array, size in (("q0", q, robot.nq), ("v0", v, robot.nv)):
        if array.ndim < 1 or array.shape[-1] != size:
            raise ShapeError(
                f"{name} has shape {array.shape}, expected ({size},) or an ensemble (..., {size})"
            )
    try:
        batch = np.broadcast_shapes(q.shape[:-1], v.shape[:-1])
    except ValueError:
        raise ShapeError(
            f"q0 {q.shape} and v0 {v.shape} differ in their leading axes; make the ensembles equal"
        ) from None
    q = np.broadcast_to(q, (*batch, robot.nq)).reshape(-1, robot.nq).copy()
    v = np.broadcast_to(v, (*batch, robot.nv)).reshape(-1, robot.nv).copy()
    if not len(q):
        raise ShapeError(f"the ensemble is empty: q0 has shape {np.shape(q0)}")
    for start in quaternions(robot.group):
        norm = np.linalg.norm(q[:, start : start + 4], axis=1)
        wrong = np.flatnonzero(np.abs(norm - 1) > 1e-6)
        if len(wrong):
            raise ConfigurationError(
                f"the quaternion q0[{start}:{start + 4}] has norm {norm[wrong[0]]:.9g}, expected 1 "
                "(order w, x, y, z); use robot.normalize(q0)"
            )
    return np.stack([robot.group.normalize(x) for x in q]) if len(q) < 64 else robot.normalize(q), v, batch


def _efforts(
    robot: Robot, tau: Any, batch: tuple[int, ...], n: int
) -> tuple[Array, Callable[..., Any] | None, tuple[float, float]]:
    """(table (1 or n, samples, nv), function or None, (first time, interval))."""
    nothing = np.zeros((1, 1, robot.nv))
    if tau is None:
        return nothing, None, (0.0, 1.0)
    if callable(tau):
        return nothing, tau, (0.0, 1.0)
    if isinstance(tau, tuple) and len(tau) == 2:
        times, values = _numbers("times of tau", tau[0]), _numbers("tau", tau[1])
        if (
            times.ndim != 1
            or len(times) < 2
            or values.ndim < 2
            or values.shape[-2:] != (len(times), robot.nv)
        ):
            raise ShapeError(
                f"tau is a pair of shapes {times.shape} and {values.shape}, expected times (samples,) with "
                f"at least two, and values (..., samples, {robot.nv})"
            )
        interval = (times[-1] - times[0]) / (len(times) - 1)
        if interval <= 0 or np.abs(np.diff(times) - interval).max() > 1e-6 * interval:
            raise IntegrationError(
                "the times of tau must increase in equal intervals; resample it, for instance with "
                "numpy.interp"
            )
        table, sampling = values, (float(times[0]), float(interval))
    else:
        table, sampling = _numbers("tau", tau), (0.0, 1.0)
        if table.ndim < 1 or table.shape[-1] != robot.nv:
            raise ShapeError(f"tau has shape {table.shape}, expected ({robot.nv},) or (..., {robot.nv})")
        table = table[..., None, :]
    if table.ndim == 2:
        return np.ascontiguousarray(table[None]), None, sampling
    try:
        table = np.broadcast_to(table, (*batch, *table.shape[-2:]))
    except ValueError:
        raise ShapeError(
            f"tau has leading axes {table.shape[:-2]}, those of the states are {batch}"
        ) from None
    return np.ascontiguousarray(table.reshape(n, *table.shape[-2:])), None, sampling


def _numbers(name: str, given: Any) -> Array:
    try:
        array = np.asarray(given, float)
    except (TypeError, ValueError) as error:
        raise ShapeError(f"{name} cannot be read as an array of numbers: {error}") from None
    if not np.all(np.isfinite(array)):
        where = tuple(int(i) for i in np.argwhere(~np.isfinite(array))[0])
        raise ConfigurationError(
            f"{name}[{', '.join(map(str, where))}] is {array[where]}, expected a finite number"
        )
    return array


def _positive(name: str, value: Any) -> float:
    if not isinstance(value, (int, float, np.number)) or not (0 < value < math.inf):
        unit = "" if name in ("rtol", "atol") else " of seconds"
        raise IntegrationError(f"{name} is {value!r}, expected a positive number{unit}")
    return float(value)


# -- afterwards
# -------------------------------------------------------------------------------------------------


def _where_finite(function: Callable[..., Array], finite: Array, *arrays: Array) -> Array:
    values = np.full(finite.shape, np.nan)
    values[finite] = function(*(x[finite] for x in arrays))
    return values


def _report(run: Run, failed: Array, batch: tuple[int, ...], clock: _Clock) -> None:
    lost = np.flatnonzero(failed)
    if not len(lost):
        return
    first = clock.times[failed[lost[0]] - 1]
    if not batch:
        error = IntegrationError(
            f"the state is not finite after t = {first:g} s; take a smaller step, and look for efforts that "
            "pump energy in; the attribute `run` of this error holds the states up to there"
        )
        error.run = run  # type: ignore[attr-defined]
        raise error
    named = ", ".join(
        f"{tuple(int(k) for k in np.unravel_index(i, batch))} after {clock.times[failed[i] - 1]:g} s"
        for i in lost[:5]
    )
    warnings.warn(
        f"{len(lost)} of {len(failed)} members did not stay finite: {named}"
        + (", ..." if len(lost) > 5 else ""),
        DivergedMembers,
        stacklevel=3,
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
