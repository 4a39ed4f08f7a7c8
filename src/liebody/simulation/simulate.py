"""Simulation of robots and of constrained systems: a vector field and a Lie-group integrator in one loop."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, overload

import numpy as np

from ..base.arguments import checked, count
from ..base.errors import SECONDS, ArgumentError, IntegrationError, positive, warn
from ..base.progress import Progress
from ..bodies import joint_kinds
from ..hybrid import HybridSystem
from ..integrators import MechanicalFlow, MechanicalMethod, Method
from ..mechanisms import Force, Mechanism, OpenTree, RigidBody
from ..mechanisms.constrained import Constrained, Stabilization
from ..robot import Robot
from ..runs import ConstrainedRun, EventLog, HybridRun, Run
from ..runs.run import LATER
from ..scalars import Array
from ..stepping import Flow, Samples
from ..stepping.march import REASONS, STOPPED, Ensemble, Settings
from ..stepping.singular import Nearest
from .setup import (
    ADVICE,
    PUMPING,
    Clock,
    Efforts,
    OfRobot,
    check_fit,
    flow_of,
    guards_of,
    in_degrees,
    mechanism_of,
    method_of,
    points_of,
    stabilization_of,
    states_of,
    step_of,
    with_parameters,
)

MOST_EVENTS = 100_000  # of a member that are kept
FEW_STEPS = 1000  # of all members, which are taken without a look at the clock
CHUNK = 0.25  # seconds between two looks at the progress bar
BAR = "{l_bar}{bar}| {n:.3g}/{total:.3g} s simulated [{elapsed}<{remaining}]"


class SingularPosition(UserWarning):
    """Constraints came to depend on each other on the way; there a motion may go on in several ways."""


class DivergedMembers(UserWarning):
    """Some members of an ensemble did not stay finite; the others went on."""


class CalledEfforts(UserWarning):
    """Efforts by a function that cannot be traced: it is called at every stage, slower."""


class PassedLimits(UserWarning):
    """A motion went beyond limits of its joints, which did not act."""


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
        if isinstance(mechanism, RigidBody):
            raise ArgumentError(
                f"simulate takes robots and systems, and {mechanism!r} is a field: lb.solve_ivp("
                "body.vector_field(), (0, t_end), x0, body.state_group), or a Robot with one body"
            )
        return simulate(mechanism, q0, v0, **options)

    return either


@_or_hybrid
@checked
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
    forces: Iterable[Force] = (),
    joints: str | Iterable[str] | None = None,
    stabilization: str | Stabilization | None = None,
    events: Mapping[str, Callable[..., Any]] | None = None,
    parameters: Mapping[str, Any] | None = None,
    threads: int = 1,
    progress: bool | None = None,
) -> Run:
    """Integrate dq/dt = v, dv/dt = M^-1 (tau - C v - g) on the configuration manifold, over [0, t_end].

    q0, v0        initial states, (..., nq) and (..., nv), or entries by name, {"elbow_joint": 1.2}, where
                  others are as by default. Leading axes make an ensemble, whose members are lanes of vectors
                  and shares of threads. Default: the neutral configuration (of a System:
                  `system.assemble()`, the closed one next to its guess), at rest
    t_end         end of the simulation                                                                  [s]
    dt            fixed step; None: steps under error control, where the method estimates its error, and else
                  of 1 ms, or a little less so that a whole number of them fits. Under error control explicit
                  methods step from one recorded time to the next, implicit ones as far as they can, and
                  record states within their steps, whose error is of the order of the steps' own       [s]
    method        an explicit method, "rkmk4", "rkmk45", "cf4", ... or a Tableau; or one for mechanical
                  systems, "generalized-alpha", "variational", "half-explicit4", "radau5", ..., which keeps
                  constraints in its own way (docs/choose-a-method.md)
    tau           efforts: None (zero); constant (..., nu); sampled, a pair (times, values (..., samples, nu))
                  with equidistant times; or a function tau(t, q, v) -> (nu,) of a single state. nu is nv of a
                  Robot, and the number of driven motions of a System. A function made of NumPy operators,
                  liebody.scalars and methods of a Robot (`robot.gravity(q)`) is compiled into the loop; any
                  other is called at every stage, slower, must not depend on anything but its arguments, and
                  is named in a CalledEfforts warning
    record_every  time between recorded states; default: every step, or so that there are at most 1000     [s]
    rtol, atol    of the error control, as in `solve_ivp`: errors of q absolute, those of v relative to |v|
    hold          between samples of tau: "zero" (the last one) or "linear". Steps that go across a sample are
                  taken in parts, which end there: so every method keeps its order
    forces        what acts beside efforts and weight, such as `JointFriction()`, or a `Force` of your own
                  (docs/forces.md): the same in every mechanism, by every method. Each is compiled once,
                  so keep those that are no frozen dataclasses. A HybridSystem has its forces already
    joints        of a Robot, what of its description acts in the joints: "ideal" (nothing), "real" (all), or
                  some of "armature", "damping", "friction" (`JointFriction`), "springs" (`JointSpring`),
                  "limits" (`JointLimits.stops`, with contacts of 20 ms, or of ten steps where that is longer)
                  and "efforts" (tau is kept within the effort limits). Default: armature and damping act, and
                  a motion that goes beyond limits is named in a PassedLimits warning and in its metadata
    stabilization against drift of a System's constraints: "projection" after each step (the default),
                  "none", "baumgarte", "index-2", or a `Stabilization` of `liebody.mechanisms.constrained`
                  (docs/constrained.md)
    events        {name: event(t, q, v)}, functions of a single state made of NumPy operators and
                  liebody.scalars. An event is a change of the sign of such a number, located to round-off by
                  steps that end there. Zero counts as negative: what begins at zero and rises, as a velocity
                  from rest may, is an event at the start. A function may have attributes, as in `solve_ivp`:
                  `direction` (positive: only upwards, negative: only downwards), `terminal` (True: the run
                  ends there)
    parameters    {name: values} of a Robot: those of `robot.parameters`, such as masses, and numbers of your
                  own, such as gains, which tau and events read as p.K_p of a fourth argument, p: tau(t, q, v,
                  p). Values have their shape, or (..., *shape), for each member of the ensemble. New ones
                  never compile anew (docs/parameters.md)
    threads       threads that share an ensemble
    progress      whether to show a progress bar; default: on a terminal, when it takes long

    returns       Run: t, q (..., times, nq), v, tau, energies, events; .plot(), .save(file). Of a System it
                  is a ConstrainedRun, which also has violations and multipliers

    Orientation stays a group element: no singularity, unit quaternions to round-off. A member of an ensemble
    that does not stay finite (or whose step under error control vanishes) is NaN from there on, and named in
    a DivergedMembers warning; a single simulation raises IntegrationError, whose attribute `run` holds what
    was reached. So does the KeyboardInterrupt of Ctrl-C, which ends a simulation at once. What handlers of
    other signals raise ends it, too.

    A `hybrid.HybridSystem` has a `simulate` method of its own, which is then called with the same options.

    Müller and Terze (2014), eqs (36), (37), on the state space G x R^n.
    """
    chosen, threads = method_of(method), count("threads", threads)
    t_end = positive("t_end", t_end, SECONDS)
    h = step_of(chosen, t_end, dt, record_every)
    forces, events = tuple(forces), events or {}
    mechanism, p = with_parameters(mechanism, parameters, (tau, *events.values()))
    made = mechanism_of(mechanism, forces, joints, h)
    check_fit(chosen, t_end, h)
    if h is None:
        rtol, atol = positive("rtol", rtol), positive("atol", atol)
    stabilized = stabilization_of(made, chosen, stabilization, h)
    q, v, batch = states_of(made, q0, v0, p)
    u, clock = Efforts(made, tau, hold, batch, p), Clock(t_end, h, record_every)
    if callable(tau):
        why = u.trace(tau, q[0], v[0])
        if why is not None:
            _may_be_called(chosen, h, why)
            warn(f"{why}; so it is called at every stage, slower", CalledEfforts)
            if events:
                raise IntegrationError(f"events are located by compiled steps, and {why}; {ADVICE}")
    simulation = _Simulation(
        made, chosen, stabilized, (q, v), batch, u, clock, (rtol, atol), events, threads
    )  # fmt: skip
    march = simulation.march()
    start = time.perf_counter()
    march.go(progress)
    metadata = {
        "model": made.name,
        "method": chosen.name,
        **({"rtol": rtol, "atol": atol} if h is None else {"dt": h}),
        "efforts": u.kind,
        **({"forces": ", ".join(type(force).__name__ for force in forces)} if forces else {}),
        **({} if joints is None else {"joints": ", ".join(sorted(joint_kinds(joints))) or "ideal"}),
        **({"parameters": ", ".join(made.layout.defaults)} if made.layout.size else {}),
        "seconds": time.perf_counter() - start,
    }
    if isinstance(made, Constrained):
        metadata["stabilization"] = stabilized.name if stabilized else "by the method"
    times, states = march.record()
    if joints is None and made.idle_limits is not None:
        _note_passed_limits(made, times, simulation.parted(states)[0], metadata, u.p)
    run = simulation.run(march, times, states, metadata)
    if march.interrupted:
        march.interrupted.run = run  # type: ignore[attr-defined]
        raise march.interrupted
    if np.count_nonzero(march.failed):
        _report(made, run, batch, march)
    return run


@dataclass
class _Simulation:
    """A mechanism with its initial states, what drives it, and how its steps are made and recorded."""

    mechanism: Mechanism
    method: Method | MechanicalMethod
    stabilized: Any
    states: tuple[Array, Array]  # q (n, nq), v (n, nv) of the members
    batch: tuple[int, ...]  # their shape
    efforts: Efforts
    clock: Clock
    tolerances: tuple[float, float]  # rtol, atol of the error control
    events: Mapping[str, Callable[..., Any]]
    threads: int

    def march(self, metered: bool = False) -> _March:
        """The members at the start of their way; metered: with the work of all forces behind their states."""
        made, u = self.mechanism, self.efforts
        flow = flow_of(made, self.method, self.stabilized, u.traced, metered)
        samples = u.taken(flow)
        first = samples.at(0.0) if isinstance(flow, MechanicalFlow) else None
        y = points_of(flow, *self.states, self.clock.first, first)
        if metered:
            y = np.concatenate([y, np.zeros((len(y), 1))], axis=1)
        if self.events:
            flow = flow.watching(guards_of(made, self.events, y.shape[1], samples.table.shape[-1]))
        if u.called is not None:
            flow = flow.calling(u.at_states)
        return _March(self, flow, samples, y)

    def parted(self, y: Array) -> tuple[Array, Array]:
        """q (*batch, times, nq) and v (*batch, times, nv) of recorded states (n, times, point)."""
        nq, end, shape = self.mechanism.nq, self.mechanism.nq + self.mechanism.nv, (*self.batch, y.shape[1])
        return y[..., :nq].reshape(*shape, nq), y[..., nq:end].reshape(*shape, end - nq)

    def run(self, march: _March, times: Array, states: Array, metadata: dict[str, Any]) -> Run:
        """The run of these recorded states; what takes long is computed when it is asked for."""
        made, u, batch, members = self.mechanism, self.efforts, self.batch, march.members
        q, v = self.parted(states)
        later: dict[str, Callable[[], Any]] = {}
        if made.nu and u.kind != "none":
            later["tau"] = lambda: made.acting(u.recorded(times, q, v))
        if "tau" in later or made.works:
            if isinstance(self.method, Method) and type(made) is OfRobot and not march.interrupted:
                later["work_done"] = lambda: self.metered_work(q)
            else:
                later["work_done"] = lambda: _work(made, times, q, v, run.tau, u.p)
        if isinstance(made, OpenTree) and made.forces and made.works:
            later["forces"] = lambda: _forces(made, times, q, v, u.p)
        found: dict[str, Any] = {"mechanism": made, "drives": made.drives, "metadata": metadata}
        found |= {"tree": getattr(made, "tree", None), "later": later}
        if made.layout.size:
            found["parameters"] = made.layout.named(np.broadcast_to(u.p, (*batch, made.layout.size)))
        if self.events:
            end = made.nq + made.nv
            logs = EventLog.of_members(
                members, tuple(self.events), lambda _, y: (y[:, : made.nq], y[:, made.nq : end], {})
            )
            found["events"] = logs if batch else logs[0]
        kind = Run
        if isinstance(made, Constrained):
            kind, nearest = ConstrainedRun, members.nearest
            found |= {"constraints": made.rows, "system": made}
            if np.count_nonzero(np.isfinite(nearest.pivot)):
                found["smallest_pivot"] = nearest.pivot.reshape(batch).copy()
                found["smallest_pivot_time"] = nearest.time.reshape(batch).copy()
                _warn_of_singular(made, nearest)
        run: Run = kind(times, q, v, LATER, LATER, *made.labels, **found)
        return run

    def metered_work(self, q: Array) -> Array:
        """The work (..., times) of efforts and of forces that do not store it, integrated with the motion."""
        assert isinstance(self.mechanism, OpenTree)
        along = self.march(metered=True)
        along.go(shown=False)
        if along.interrupted:
            raise along.interrupted
        return along.record()[1][..., -1].reshape(q.shape[:-1]) + _stored(self.mechanism, q, self.efforts.p)


class _March:
    """The members of a simulation on their way through time."""

    def __init__(self, simulation: _Simulation, flow: Any, samples: Samples, y: Array) -> None:
        self.simulation, self.flow, self.samples = simulation, flow, samples
        clock = simulation.clock
        self.members = Ensemble(y, clock.times, clock.first, len(simulation.events))
        self.failed = np.zeros(len(y), np.int64)  # 1 + the row from which on a member is lost, or 0
        self.interrupted: KeyboardInterrupt | None = None

    def go(self, shown: bool | None) -> None:
        """Advance the members to their ends, or to where Ctrl-C stops them; `shown`: with a progress bar."""
        clock, alike = self.simulation.clock, not self.simulation.events
        try:
            with Progress(shown, clock.t_end, bar_format=BAR) as bar:
                if clock.h is not None and alike:
                    self._take_fixed_steps(clock, clock.h, bar)
                else:
                    self._take_own_steps(bar)
        except KeyboardInterrupt as stop:
            self.interrupted = stop
            self.failed[:] = 0

    def record(self) -> tuple[Array, Array]:
        """Times, and states (n, times, point): NaN of members that are lost; those that were reached."""
        members, simulation = self.members, self.simulation
        for i in self.failed.nonzero()[0]:
            members.record[i, self.failed[i] - 1 :] = np.nan
        ended = bool(simulation.events) and not simulation.batch and members.ends[0, 1] == STOPPED
        return members.reached() if self.interrupted or ended else (members.times, members.record)

    def _take_fixed_steps(self, clock: Clock, h: float, bar: Progress) -> None:
        """Steps of one length, which the members take together, in chunks."""
        members, every, row = self.members, clock.every, clock.rows + 1
        threads = self.simulation.threads

        def take(t: float, h: float, steps: int, every: int, row: int) -> None:
            kept = members.record, row, self.failed, threads, members.ends, members.nearest
            try:
                self.flow.steps(members.y, self.samples, t, h, steps, every, *kept)
            except KeyboardInterrupt as stop:
                reached = getattr(stop, "reached", None)
                if reached is not None:
                    members.clock["t"] = reached
                    members.interrupt(len(members.times))
                raise

        for done, rows in _chunks(clock.rows, max(1, FEW_STEPS // (every * len(members.y)))):
            take(done * every * h, h, rows * every, every, 1 + done)
            bar.at((done + rows) * every * h)
        if clock.extra:
            take(clock.rows * every * h, h, clock.extra, clock.extra, row)
        if clock.rest:
            take(clock.steps * h, clock.rest, 1, 1, row + bool(clock.extra))

    def _take_own_steps(self, bar: Progress) -> None:
        """Steps of the members' own, in chunks of records."""
        members, given = self.members, self.simulation
        most = MOST_EVENTS if given.events else 0
        settings = Settings(*given.tolerances, controlled=given.clock.h is None, most=most)
        for done, rows in _chunks(len(members.times) - 1):
            self.flow.march(members, self.samples, 1 + done + rows, settings, given.threads)
            bar.at(members.times[done + rows])
        ended = (members.ends[:, 1] > 0) & (members.ends[:, 1] != STOPPED)
        self.failed[ended] = members.clock["row"][ended] + 1


def _chunks(rows: int, some: int = 1) -> Iterator[tuple[int, int]]:
    """(rows done, rows to do next) until so many are done, each time for about a quarter of a second.

    some  rows that take less than that, to begin with
    """
    done = 0
    while done < rows:
        some = min(some, rows - done)
        start = time.perf_counter()
        yield done, some
        done += some
        some = max(1, int(some * min(100.0, CHUNK / max(time.perf_counter() - start, 1e-9))))


# -- work and forces, when they are asked for ----------------------------------------------------------------


def _stored(mechanism: OpenTree, q: Array, p: Array) -> Any:
    """What the forces store, less what they stored at the start, (..., nt)."""
    if not any(force.stores for force in mechanism.forces):
        return 0.0
    energy = _along(mechanism, "stored", np.isfinite(q).all(axis=-1), q, p=p)
    return energy - energy[..., :1]


def _work(mechanism: Mechanism, t: Array, q: Array, v: Array, tau: Array, p: Array) -> Array:
    """The work since the first time, (..., nt), from powers P at the times: an error of order four.

    The integral over an interval h is h (P_0 + P_1)/2 + h^2 (P'_0 - P'_1)/12, with differences for P'.
    """
    finite = np.isfinite(q).all(axis=-1) & np.isfinite(v).all(axis=-1)
    u = np.zeros((*finite.shape, mechanism.nu)) if tau is None else tau
    power = _along(mechanism, "power", finite, np.broadcast_to(t, finite.shape), q, v, u, p=p)
    h, work = np.diff(t), np.zeros(finite.shape)
    slope: Array = np.gradient(power, t, axis=-1, edge_order=2 if len(h) > 1 else 1) if len(h) else power
    pieces = h * (power[..., 1:] + power[..., :-1]) / 2 + h**2 * (slope[..., :-1] - slope[..., 1:]) / 12
    work[..., 1:] = np.cumsum(pieces, axis=-1)
    return work


def _forces(mechanism: OpenTree, t: Array, q: Array, v: Array, p: Array) -> dict[str, Array]:
    """{name: generalised forces (..., nt, nv)} of the forces beside efforts and weight."""
    finite = np.isfinite(q).all(axis=-1) & np.isfinite(v).all(axis=-1)
    forces = _along(mechanism, "forces", finite, np.broadcast_to(t, finite.shape), q, v, p=p)
    found: dict[str, Array] = {}
    for i, force in enumerate(mechanism.forces):
        found[force.name] = found.get(force.name, 0) + forces[..., i, :]
    return found


def _along(mechanism: Mechanism, name: str, finite: Array, *arrays: Array, p: Array) -> Array:
    """A function of a mechanism at recorded states and their parameters p; NaN where they are not finite."""
    size = p.shape[-1]
    parameters = [np.broadcast_to(p[..., None, :], (*finite.shape, size))] if size else []
    given = [x[finite] for x in (*arrays, *parameters)]
    values = mechanism.kernel(name)(*given)
    found = np.full((*finite.shape, *values.shape[1:]), np.nan)
    found[finite] = values
    return found


def _may_be_called(method: Method | MechanicalMethod, h: float | None, why: str) -> None:
    """Raise IntegrationError where efforts by a function have to be traced."""
    if isinstance(method, MechanicalMethod):
        raise IntegrationError(f"{method.name} differentiates efforts, and {why}; {ADVICE}, or take 'rkmk4'")
    if h is None:
        raise IntegrationError(f"{why}; {ADVICE}, or give a fixed step dt")


# -- afterwards --------------------------------------------------------------------------------------------


def _report(mechanism: Mechanism, run: Run, batch: tuple[int, ...], march: _March) -> None:
    """Raise IntegrationError for a simulation that was lost, warn of members of an ensemble."""
    lost, losses, times = np.flatnonzero(march.failed).tolist(), march.members.ends, march.members.times
    if isinstance(march.flow, Flow):
        losses[:] = 0  # of explicit methods diagnosis says more
    finite = np.isfinite(run.q).all(axis=-1) & np.isfinite(run.v).all(axis=-1)
    finite = finite.reshape(len(losses), -1)
    q, v = (x.reshape(*finite.shape, x.shape[-1]) for x in (run.q, run.v))
    last = {i: int(np.flatnonzero(finite[i])[-1]) for i in lost}

    def told(i: int) -> str:
        start, end = times[last[i] : last[i] + 2]
        if losses[i, 1]:
            return f"the step at t = {losses[i, 0]:.9g} s cannot be taken: {REASONS[int(losses[i, 1])]}"
        why = mechanism.diagnosis(q[i, last[i]], v[i, last[i]], end - start, start)
        drifting = ", or constraints that drift apart" if isinstance(mechanism, Constrained) else ""
        asked = in_degrees(mechanism, q[i, 0])
        return why or f"take a smaller step, and {PUMPING}{drifting}{asked}"

    if not batch:
        error = IntegrationError(
            f"the state is not finite after t = {times[last[0]]:g} s; {told(0)}; "
            "the attribute `run` of this error holds the states up to there"
        )
        error.run = run  # type: ignore[attr-defined]
        raise error
    named = ", ".join(
        f"{tuple(int(k) for k in np.unravel_index(i, batch))} after {times[last[i]]:g} s"
        for i in list(last)[:5]
    )
    warn(
        f"{len(lost)} of {len(losses)} members did not stay finite: {named}"
        + (", ..." if len(lost) > 5 else f"; of the first one: {told(int(lost[0]))}"),
        DivergedMembers,
    )


def _note_passed_limits(
    mechanism: Mechanism, times: Array, q: Array, metadata: dict[str, Any], p: Array
) -> None:
    """Warn of joints beyond their limits, where these do not act, and say so in the metadata of the run."""
    assert mechanism.idle_limits is not None
    given = np.broadcast_to(p, (*q.shape[:-2], p.shape[-1])) if mechanism.layout.size else None
    passed = mechanism.idle_limits.passed(times, mechanism.limited(q, given))
    if not passed:
        return
    metadata["passed_limits"] = ", ".join(f"{name} at {t:.6g} s" for name, t in passed.items())
    robot = isinstance(mechanism, OfRobot)
    remedy = "joints='real', or 'ideal' where" if robot else "forces=[JointLimits(1e4)], or no limits if"
    warn(
        f"joints went beyond their limits, which do not act by themselves: {metadata['passed_limits']}. Give "
        f"{remedy} limits do not matter{in_degrees(mechanism, _farthest_start(q))}",
        PassedLimits,
    )


def _farthest_start(q: Array) -> Array:
    """Of all members' configurations (..., times, nq) at the start the largest coordinates (nq,)."""
    starts = q[..., 0, :].reshape(-1, q.shape[-1])
    places = np.argmax(np.abs(np.nan_to_num(starts)), axis=0)
    return starts[places, np.arange(q.shape[-1])]


def _warn_of_singular(mechanism: Constrained, nearest: Nearest) -> None:
    """Name the closest singular position that members have gone through."""
    (passed,) = np.isfinite(nearest.singular_pivot).nonzero()
    if not len(passed):
        return
    i = int(passed[np.argmin(nearest.singular_pivot[passed])])
    q = nearest.singular_state[i][: mechanism.nq]
    _, names = mechanism.nearly_dependent(q, nearest.singular_time[i])
    members = f" ({len(passed)} of {len(nearest.pivot)} members)" if len(nearest.pivot) > 1 else ""
    warn(
        f"at t = {nearest.singular_time[i]:.6g} s the motion goes through a singular position{members}, in "
        f"which {', '.join(names)} depend on each other (relative pivot {nearest.singular_pivot[i]:.2g}): "
        "there it may go on in several ways. The steps around it were taken with all stages on the "
        "constraints; compare run.largest_energy_jump, and the motion with a shorter step",
        SingularPosition,
    )
