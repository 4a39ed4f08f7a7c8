"""Simulation of robots and of constrained systems: a vector field and a Lie-group integrator in one loop."""

from __future__ import annotations

import functools
import inspect
import itertools
import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NoReturn, Protocol, overload
from weakref import WeakKeyDictionary

import numpy as np

from .bodies import JOINT_KINDS, Parametric, joint_kinds
from .codegen import Flow, Function, Kernel, Samples, trace
from .codegen.layout import FlatLayout
from .codegen.march import REASONS, STOPPED, Ensemble, Settings
from .codegen.printers.march import Guards
from .codegen.samples import equidistant
from .codegen.watch import Nearest
from .constrained import Constrained, Stabilization
from .constrained_run import ConstrainedRun
from .door import checked, count, floats
from .dynamics import Force, Mechanism, OpenTree, RigidBody, joint_laws
from .errors import (
    SECONDS,
    ArgumentError,
    ConfigurationError,
    GraphError,
    IntegrationError,
    LiebodyError,
    ShapeError,
    positive,
    warn,
)
from .groups import SE3, SO3, LieGroup, Product
from .integrators import (
    MechanicalFlow,
    MechanicalMethod,
    Method,
    coefficients,
    is_mechanical,
    mechanical_method,
    method_named,
)
from .linear import is_numeric
from .progress import Progress
from .robot import Robot, quaternions
from .run import LATER, Run
from .scalar import Array
from .systems import EventLog, HybridRun, HybridSystem

MOST_STATES = 1000  # recorded by default
MOST_ROWS = 10**9
MOST_STEPS = 2**53  # beyond which t + dt is t
MOST_EVENTS = 100_000  # of a member that are kept
MOST_EFFORTS = 8  # functions whose compiled loops are kept with a mechanism
ADVICE = "write tau with NumPy operators, liebody.scalar and methods of a Robot"
BY_DEFAULT = joint_kinds(("armature", "damping"))  # what acts in joints
CONTACT = 0.02  # how long stops at limits are touched                                                   [s]
STEPS_OF_CONTACT = 10  # at least
NONE = np.zeros(0)
FEW_STEPS = 1000  # of all members, which are taken without a look at the clock
OFF_UNIT = 1e-6  # by how much norms of quaternions that are given may be off
FEW_QUATERNIONS = 8  # which Python makes unit sooner than NumPy
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
    forces        what acts beside efforts and weight, such as `JointFriction()`, or a `Force` of your own
                  (docs/integration.md): the same in every mechanism, by every method. Each is compiled once,
                  so keep those that are no frozen dataclasses. A HybridSystem has its forces already
    joints        of a Robot, what of its description acts in the joints: "ideal" (nothing), "real" (all), or
                  some of "armature", "damping", "friction" (`JointFriction`), "springs" (`JointSpring`),
                  "limits" (`JointLimits.stops`, with contacts of 20 ms, or of ten steps where that is longer)
                  and "efforts" (tau is kept within the effort limits). Default: armature and damping act, and
                  a motion that goes beyond limits is named in a PassedLimits warning and in its metadata
    stabilization against drift of a System's constraints: "projection" after each step (the default),
                  "none", "baumgarte", "index-2", or a `constrained.Stabilization` (docs/constrained.md)
    events        {name: event(t, q, v)}, functions of a single state made of NumPy operators and
                  liebody.scalar. An event is a change of the sign of such a number, located to round-off by
                  steps that end there. A function may have attributes, as in `solve_ivp`: `direction`
                  (positive: only upwards, negative: only downwards), `terminal` (True: the run ends there)
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
    was reached. So does the KeyboardInterrupt of Ctrl-C, which ends a simulation at once.

    A `systems.HybridSystem` has a `simulate` method of its own, which is then called with the same options.

    Müller and Terze (2014), eqs (36), (37), on the state space G x R^n.
    """
    chosen, threads = method_of(method), count("threads", threads)
    t_end, h = positive("t_end", t_end, SECONDS), None if dt is None else positive("dt", dt, SECONDS)
    forces = tuple(forces)
    functions = (tau, *(events or {}).values())
    mechanism, p = with_parameters(mechanism, parameters, functions)
    made = mechanism_of(mechanism, forces, joints, h)
    if isinstance(chosen, MechanicalMethod):
        check_fit(chosen, t_end, h, stabilization)
        stabilized = None
    else:
        stabilized = made.stabilization(stabilization, h)
    q, v, batch = states_of(made, q0, v0, p)
    if h is None and isinstance(chosen, Method) and not chosen.error_weights:
        raise IntegrationError(
            f"{chosen.name} has no embedded method, so its error cannot be controlled: give dt, or take "
            "method='rkmk45'"
        )
    if hold not in ("zero", "linear"):
        raise IntegrationError(f"hold is {hold!r}, expected 'zero' or 'linear'")
    u = Efforts(made.nu, tau, hold == "linear", batch)
    p = np.broadcast_to(p, (*batch, p.shape[-1])) if p.ndim > 1 else p
    u.take(made.layout, p)
    clock = Clock(t_end, h, record_every)
    if callable(tau):
        why = u.traced_from(made, tau, q[0], v[0])
        if why is not None:
            _may_be_called(chosen, h, why)
            warn(f"{why}; so it is called at every stage, slower", CalledEfforts)
            if events:
                raise IntegrationError(f"events are located by compiled steps, and {why}; {ADVICE}")
    flow = flow_of(made, chosen, stabilized, u.traced)
    implicit = isinstance(flow, MechanicalFlow)
    y = points_of(flow, q, v, h or clock.first, u.taken(flow).at(0.0) if implicit else None)
    if events:
        flow = flow.watching(guards_of(made, events, y.shape[1], u.taken(flow).table.shape[-1]))
    if u.called is not None:
        flow = flow.calling(u.at_states)

    def ensemble(y: Array) -> Ensemble:
        return Ensemble(y, clock.times, h or clock.first, len(events or ()))

    def marched(flow: Any, members: Ensemble, shown: bool | None) -> Array:
        """Advance the members to their ends; which of them failed, and at which row."""
        with Progress(shown, t_end, bar_format=BAR) as bar:
            if h is not None and not events:
                return _fixed(flow, u.taken(flow), clock, members, threads, bar)
            settings = Settings(rtol, atol, controlled=h is None, most=MOST_EVENTS if events else 0)
            return _march(flow, u.taken(flow), members, settings, threads, bar)

    def recorded(members: Ensemble, failed: Array) -> tuple[Array, Array]:
        """Times and states of the record; without those of members from which on they failed."""
        for i in np.flatnonzero(failed) if failed.any() else ():
            members.record[i, failed[i] :] = np.nan
        if interrupted or (events and not batch and members.ends[0, 1] == STOPPED):
            return members.reached()
        return clock.times, members.record

    start, members, interrupted = time.perf_counter(), ensemble(y), None
    try:
        failed = marched(flow, members, progress)
    except KeyboardInterrupt as stop:
        interrupted, failed = stop, np.zeros(len(y), np.int64)
    seconds = time.perf_counter() - start
    times, states = recorded(members, failed)
    shape = (*batch, len(times))
    Q = states[..., : made.nq].reshape(*shape, made.nq)
    V = states[..., made.nq : made.nq + made.nv].reshape(*shape, made.nv)
    metadata = {
        "model": made.name,
        "method": chosen.name,
        **({"rtol": rtol, "atol": atol} if h is None else {"dt": h}),
        "efforts": "none" if tau is None else "called" if u.called else "compiled",
        **({"forces": ", ".join(type(force).__name__ for force in forces)} if forces else {}),
        **({} if joints is None else {"joints": ", ".join(sorted(joint_kinds(joints))) or "ideal"}),
        **({"parameters": ", ".join(made.layout.defaults)} if made.layout.size else {}),
        "seconds": seconds,
    }
    found: dict[str, Any] = {"mechanism": made, "drives": made.drives, "metadata": metadata}
    found["tree"] = getattr(made, "tree", None)
    later = found["later"] = {}
    if made.nu and tau is not None:
        later["tau"] = lambda: made.acting(u.recorded(times, Q, V))
    if "tau" in later or made.works:
        if isinstance(chosen, Method) and type(made) is _OfRobot and not interrupted:

            def measured() -> Array:
                """The work of all forces, integrated with the motion."""
                meter = flow_of(made, chosen, None, u.traced, metered=True)
                start = np.concatenate([q, v, np.zeros((len(q), 1))], axis=1)
                if events:
                    efforts = u.taken(meter).table.shape[-1]
                    meter = meter.watching(guards_of(made, events, start.shape[1], efforts))
                if u.called is not None:
                    meter = meter.calling(u.at_states)
                along = ensemble(start)
                return recorded(along, marched(meter, along, False))[1][..., -1].reshape(shape)

            later["work_done"] = lambda: measured() + _stored(made, Q, p)
        else:
            later["work_done"] = lambda: _work(made, times, Q, V, run.tau, p)
    if isinstance(made, OpenTree) and made.forces and made.works:
        later["forces"] = lambda: _forces(made, times, Q, V, p)
    if joints is None and made.idle_limits is not None:
        _note_passed_limits(made, times, Q, metadata, p)
    if made.layout.size:
        found["parameters"] = made.layout.named(np.broadcast_to(p, (*batch, made.layout.size)))
    kind = Run
    if isinstance(made, Constrained):
        kind, found = ConstrainedRun, {**found, "constraints": made.rows, "system": made}
        metadata["stabilization"] = stabilized.name if stabilized else "by the method"
        if np.isfinite(members.nearest.pivot).any():
            found["smallest_pivot"] = members.nearest.pivot.reshape(batch).copy()
            found["smallest_pivot_time"] = members.nearest.time.reshape(batch).copy()
            _warn_of_singular(made, members.nearest)
    if events:
        at = slice(made.nq), slice(made.nq, made.nq + made.nv)
        logs = EventLog.of_members(members, tuple(events), lambda _, y: (y[:, at[0]], y[:, at[1]], {}))
        found["events"] = logs if batch else logs[0]
    run: Run = kind(times, Q, V, LATER, LATER, *made.labels, **found)
    if failed.any():
        if isinstance(flow, Flow):
            members.ends[:] = 0  # of explicit methods diagnosis says more
        _report(made, run, batch, members, failed)
    if interrupted:
        interrupted.run = run  # type: ignore[attr-defined]
        raise interrupted
    return run


def method_of(given: str | Method | MechanicalMethod) -> Method | MechanicalMethod:
    """The explicit method, or the one for mechanical systems, of this name."""
    if isinstance(given, MechanicalMethod):
        return given
    return _method_called(given) if type(given) is str else method_named(given)


@functools.cache  # so that a method is one object, by which flows are kept
def _method_called(given: str) -> Method | MechanicalMethod:
    if is_mechanical(given):
        return mechanical_method(given)
    if given == "time-stepping":
        raise IntegrationError(
            "time stepping is for robots with contacts: robot_system(robot, Contact('foot', friction=0.8)) "
            "of liebody.systems, and its simulate(..., method='time-stepping')"
        )
    return method_named(given)


def check_fit(method: MechanicalMethod, t_end: float, h: float | None, stabilization: Any) -> None:
    """Raise IntegrationError for what methods for mechanical systems cannot do."""
    if h is None and not method.estimates_errors:
        raise IntegrationError(
            f"{method.name} takes steps of one length: give dt, or take 'radau5', 'gauss4' or "
            "'generalized-alpha'"
        )
    if h is not None and abs(round(min(t_end / h, MOST_STEPS)) * h - t_end) > 1e-9 * t_end:
        raise IntegrationError(
            f"{method.name} takes steps of one length, and t_end = {t_end:g} s is no multiple of dt = {h:g} s"
        )
    if stabilization is not None:
        raise IntegrationError(
            f"{method.name} keeps constraints in its own way; leave out stabilization = {stabilization!r}"
        )


class _OfRobot(OpenTree):
    """The joint coordinates of a robot, with forces; energies by the robot's own kernels."""

    def __init__(self, robot: Robot, forces: tuple[Force, ...], clipped: bool) -> None:
        super().__init__(robot.tree, robot.gravity_vector, forces, clipped, robot)
        self.robot = robot

    def recipe(self) -> str | None:
        """As `Mechanism.recipe`; our own laws are determined by their text and the joints' numbers."""
        ours = all(type(force).__module__.startswith("liebody.") for force in self.forces)
        fields = [name for kind in JOINT_KINDS.values() for name in kind]
        joints = [getattr(body.joint, name) for body in self.tree.bodies for name in fields]
        if not ours or not is_numeric(*joints):
            return None
        acting = {"forces": repr(self.forces), "joints": repr([x.tolist() for x in joints])}
        return self.robot.recipe("flow", {**acting, "clipped": self.clipped})

    def kinetic_energy(self, q: Array, v: Array, parameters: Any = None) -> Array:
        return self.robot.kinetic_energy(q, v, parameters=parameters)

    def potential_energy(self, q: Array, parameters: Any = None) -> Array:
        energy = self.robot.potential_energy(q, parameters=parameters)
        if not any(f.stores for f in self.forces):
            return energy
        given = [self.robot.packed(parameters)] if self.layout.size else []
        return energy + self.kernel("stored")(q, *given)


def mechanism_of(
    given: Robot | Mechanism,
    forces: tuple[Force, ...],
    joints: str | Iterable[str] | None = None,
    h: float | None = None,
) -> Mechanism:
    """The mechanism with forces and, of a robot, these kinds of joints, for steps of h; made once."""
    if isinstance(given, Mechanism):
        if joints is not None:
            raise IntegrationError(
                f"joints is {joints!r}, which a Robot takes; {given.name} has the damping that it was built "
                "with: give it forces=[JointFriction(), JointLimits(1e4), ...]"
            )
        return given.with_forces(*forces)
    if not isinstance(given, Robot):
        raise IntegrationError(f"{given!r} is no mechanism; expected a Robot, a System or a ClosedTree")
    kinds = BY_DEFAULT if joints is None else joint_kinds(joints)
    contact = max(CONTACT, STEPS_OF_CONTACT * (h or 0)) if "limits" in kinds else CONTACT
    key = ("mechanism", kinds, contact)
    if key not in given.flows:
        robot = given if "armature" in kinds else given.with_joints(JOINT_KINDS.keys() - {"armature"})
        laws = joint_laws(given.tree, kinds, contact)
        given.flows[key] = _OfRobot(robot, laws, clipped="efforts" in kinds)
    return given.flows[key].with_forces(*forces)


def with_parameters(
    mechanism: Any, parameters: Mapping[str, Any] | None, functions: Iterable[Any]
) -> tuple[Any, Array]:
    """The mechanism in which these parameters are free, and their values (..., np).

    Names that a Robot does not know are numbers of the user's own, for functions that take parameters.
    """
    if not isinstance(mechanism, Parametric):
        if parameters:
            raise IntegrationError(
                f"{mechanism!r} has no parameters; those of a Robot, a System, a ClosedTree and a "
                "HybridSystem may be given"
            )
        return mechanism, np.zeros(0)
    taken = any(map(takes_parameters, functions))
    if parameters:
        known = mechanism.parameters
        own = [name for name in parameters if name not in known]
        if own and not taken:
            known.refuse(own[0], mechanism.name)
        free = [name for name in parameters if name in known]
        mechanism = mechanism.with_parameters(*free, dict.fromkeys(own, 0.0))
    if taken and not mechanism.layout.size:
        raise IntegrationError(
            "a function of (t, q, v, p) takes parameters, and there are none; give parameters={'K_p': 5.0}, "
            "for instance, or give its fourth argument a default"
        )
    return mechanism.prototype, mechanism.packed(parameters)


def takes_parameters(function: Any) -> bool:
    """Whether a function of (t, q, v) has a fourth argument, without a default: the parameters."""
    if not callable(function):
        return False
    try:
        arguments = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # it does not tell
        return False
    places = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return sum(x.kind in places and x.default is x.empty for x in arguments) > 3


def flow_of(
    mechanism: Any,
    method: Method | MechanicalMethod,
    stabilized: Any,
    feedback: Function | None,
    metered: bool = False,
) -> Any:
    """The compiled loop of this method, kept with the mechanism; of users' efforts the last few.

    metered  whether the last entry of the state is the work done, as `OpenTree.metered` has it
    """
    key = (feedback and feedback.form, method, stabilized, mechanism.redundant, metered)
    if key in mechanism.flows:
        return mechanism.flows[key]
    flow: Flow | MechanicalFlow
    if isinstance(method, MechanicalMethod):
        flow = method.flow(**_driven(mechanism.mechanics(), feedback, mechanism.values))
    else:
        if metered:
            parts = mechanism.metered(feedback)
        else:
            parts = mechanism.parts(stabilized, feedback=feedback, watched=mechanism.nc > 0)
        recipe = mechanism.recipe() if feedback is None else None
        flow = Flow(
            parts.field,
            parts.advance,
            parts.pull,
            coefficients(method),
            rigid=mechanism.group.dim,
            recipe=recipe and (f"{recipe}|metered" if metered else recipe),
            after=parts.after,
            watch=parts.watch,
        )
    if feedback is not None:
        kept = [k for k in mechanism.flows if isinstance(k[0], tuple)]
        for old in kept[: 1 - MOST_EFFORTS]:
            del mechanism.flows[old]
    mechanism.flows[key] = flow
    return flow


def _driven(mechanics: dict[str, Any], feedback: Callable[..., Any] | None, p: Array) -> dict[str, Any]:
    """The equations of a mechanical method with efforts (t, q, v) -> u, or (t, q, v, p) with parameters p."""
    if feedback is None:
        return mechanics
    applied, at, more = mechanics["Q"], mechanics.get("at"), [p] if len(p) else []
    driven = {"Q": lambda t, q, v, u: applied(t, q, v, feedback(t, q, v, *more)), "efforts": len(p)}
    if at:
        driven["at"] = lambda u: _driven(at(u), feedback, u)
    return {**mechanics, **driven}


def points_of(flow: Any, q: Array, v: Array, h: float, u: Array = None) -> Array:
    """The states y (n, point) of a flow at t = 0, before steps of h with efforts u; None: zero."""
    if isinstance(flow, MechanicalFlow):
        return flow.start(q, v, 0.0, h, u)
    return np.concatenate([q, v], axis=1)


class Clock:
    """The steps of a run and the times of its record."""

    def __init__(self, t_end: float, h: float | None, record_every: float | None) -> None:
        given = None if record_every is None else positive("record_every", record_every, SECONDS)
        self.h = h
        if h is None:
            interval = t_end / MOST_STATES if given is None else given
            self.first = min(interval, 1e-3)
            self.rows, self.rest = _whole(t_end, interval)
            ends = []
        else:
            self.steps, self.rest = _whole(t_end, h)
            every = self.steps / MOST_STATES if given is None else round(min(given / h, MOST_STEPS))
            self.every = max(1, math.ceil(every))
            if given is not None and abs(self.every * h - given) > 1e-6 * given:
                raise IntegrationError(
                    f"record_every = {given} s is no multiple of dt = {h} s; take {self.every * h:g}, for "
                    "instance"
                )
            interval = h * self.every
            self.rows, self.extra = divmod(self.steps, self.every)
            ends = [h * self.steps] if self.extra else []
        if self.rows > MOST_ROWS:
            raise IntegrationError(
                f"record_every = {interval} s makes {self.rows} records; take {t_end / MOST_STATES:g}, for "
                "instance"
            )
        ends += [t_end] if self.rest else []
        self.times = interval * np.arange(self.rows + 1.0)
        if ends:
            self.times = np.append(self.times, ends)


def _whole(time: float, h: float) -> tuple[int, float]:
    """How many times h goes into a time, and the rest, if that is more than round-off."""
    ratio = time / h
    if not ratio < MOST_STEPS:
        raise IntegrationError(
            f"dt = {h} s is lost in the round-off of t_end = {time} s; take longer steps, or a shorter time"
        )
    whole = math.floor(ratio * (1 + 1e-12))
    rest = time - whole * h
    return whole, rest if rest > 1e-9 * h else 0.0


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


def _fixed(flow: Any, u: Samples, clock: Clock, members: Ensemble, threads: int, bar: Progress) -> Array:
    """Fixed steps, in chunks; 1 + the row from which on each member is lost, or 0."""
    h, every, row, failed = clock.h, clock.every, clock.rows + 1, np.zeros(len(members.y), np.int64)
    assert h is not None
    implicit = isinstance(flow, MechanicalFlow)
    options: Any = {"losses": members.ends} if implicit else {"nearest": members.nearest}

    def take(t: float, h: float, steps: int, every: int, row: int) -> None:
        try:
            flow.steps(members.y, u, t, h, steps, every, members.record, row, failed, threads, **options)
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
    return failed


def _march(
    flow: Any, u: Samples, members: Ensemble, settings: Settings, threads: int, bar: Progress
) -> Array:
    """Steps of the members' own, in chunks of records; as `_fixed`."""
    positive("rtol", settings.rtol), positive("atol", settings.atol)
    for done, rows in _chunks(len(members.times) - 1):
        flow.march(members, u, 1 + done + rows, settings, threads)
        bar.at(members.times[done + rows])
    ended = (members.ends[:, 1] > 0) & (members.ends[:, 1] != STOPPED)
    return np.where(ended, members.clock["row"] + 1, 0)


def guards_of(
    mechanism: Mechanism, events: Mapping[str, Callable[..., Any]], point: int, efforts: int
) -> Guards:
    """The events' functions, traced together."""
    nq, nv, layout = mechanism.nq, mechanism.nv, mechanism.layout

    def found(t: Any, y: Array, u: Array) -> Array:
        values = []
        for name, event in events.items():
            more = [layout.read(u[len(u) - layout.size :])] if takes_parameters(event) else []
            value = np.asarray(event(t, y[:nq], y[nq : nq + nv], *more))
            if value.shape != ():
                raise ShapeError(f"event {name} returned shape {value.shape}; it must return one number")
            values.append(value[()])
        return np.array(values)

    try:
        function = trace(found, {"t": (), "y": point, "u": efforts}, "guards")
    except (GraphError, TypeError, AttributeError) as error:
        raise IntegrationError(
            f"the events {', '.join(map(str, events))} cannot be traced: {error}; write them with NumPy "
            "operators, liebody.scalar and methods of a Robot"
        ) from None
    directions = [int(np.sign(getattr(event, "direction", 0))) for event in events.values()]
    return Guards(
        function, directions, [bool(getattr(event, "terminal", False)) for event in events.values()]
    )


# -- efforts -------------------------------------------------------------------------------------------------


class Efforts:
    """Efforts that are numbers, of all members or of each; or those of a function, traced or called."""

    def __init__(self, nu: int, tau: Any, linear: bool, batch: tuple[int, ...]) -> None:
        self.nu, self.nq, self.nv = nu, 0, 0
        self.traced: Function | None = None
        self.called: Callable[..., Any] | None = None
        self.samples = Samples(np.zeros((1, 1, nu)))
        if tau is None or callable(tau):
            return
        first, interval = 0.0, 1.0
        if isinstance(tau, tuple) and len(tau) == 2:
            times, values = floats("times of tau", tau[0]), floats("tau", tau[1])
            if times.ndim != 1 or len(times) < 2 or values.ndim < 2 or values.shape[-2:] != (len(times), nu):
                raise ShapeError(
                    f"tau is a pair of shapes {times.shape} and {values.shape}, expected times (samples,) "
                    f"with at least two, and values (..., samples, {nu})"
                )
            table, (first, interval) = values, equidistant("tau", times)
        else:
            table = floats("tau", tau)
            if table.ndim < 1 or table.shape[-1] != nu:
                raise ShapeError(f"tau has shape {table.shape}, expected ({nu},) or (..., {nu})")
            table = table[..., None, :]
        lead = () if table.ndim == 2 else batch
        try:
            table = np.broadcast_to(table, (*lead, *table.shape[-2:]))
        except ValueError:
            raise ShapeError(
                f"tau has leading axes {table.shape[:-2]}, those of the states are {batch}; samples over "
                "time are a pair, tau=(times, values)"
            ) from None
        table = np.ascontiguousarray(table.reshape(math.prod(lead), *table.shape[-2:]))
        self.samples = Samples(table, first, interval, linear)

    def take(self, layout: FlatLayout, p: Array) -> None:
        """Parameters (..., np), which stand behind the efforts, and which functions may take."""
        self.layout, self.p = layout, p

    def traced_from(
        self, mechanism: Mechanism, feedback: Callable[..., Any], q: Array, v: Array
    ) -> str | None:
        """Take the function (t, q, v) -> (nu,), traced; or say why it can only be called.

        Raises what the function raises on the numbers of a state (q, v), and ShapeError for a result of
        another shape.
        """
        self.nq, self.nv, taken = mechanism.nq, mechanism.nv, takes_parameters(feedback)
        try:
            inspect.signature(feedback).bind(0.0, q, v, *([None] if taken else []))
        except TypeError as error:
            raise ArgumentError(
                f"tau has to be a function of (t, q, v), or of (t, q, v, p) with parameters: {error}"
            ) from None
        except ValueError:  # it does not tell what it takes
            pass

        def efforts(t: Any, q: Array, v: Array, *p: Array) -> Array:
            return np.asarray(feedback(t, q, v, *([self.layout.read(*p)] if taken else [])))

        shapes: dict[str, Any] = {"t": (), "q": mechanism.nq, "v": mechanism.nv}
        if self.layout.size:
            shapes["parameters"] = self.layout.size
        try:
            traced = trace(efforts, shapes, "tau")
        except Exception as error:  # of the user's code, in which anything may refuse symbols
            told = getattr(error, "has_line", False)
            why = str(error) if told else f"tau cannot be traced, {type(error).__name__}: {error}"
            cause = (told and error.__cause__) or error
            self.called = efforts
            try:
                self.at(0.0, q.copy(), v.copy(), self._rows(1)[0])
            except LiebodyError:
                raise
            except Exception as failed:
                if not isinstance(cause, GraphError):
                    raise
                raise GraphError(
                    f"tau(t, q, v) fails on numbers, {type(failed).__name__}: {failed}; and {why}"
                ) from failed
            return why
        (result,) = traced.outputs.values()
        self._check(result.shape)
        self.traced = traced
        return None

    def _check(self, shape: tuple[int, ...]) -> None:
        if shape != (self.nu,):
            raise ShapeError(f"tau(t, q, v) returned an array of shape {shape}, expected ({self.nu},)")

    def at(self, t: float, q: Array, v: Array, p: Array) -> Array:
        """What the function returns at a state."""
        assert self.called is not None
        u = np.asarray(self.called(t, q, v, *([p] if len(p) else [])), float)
        self._check(u.shape)
        return u

    def at_states(self, t: float, y: Array) -> Array:
        """The same of an ensemble's states y (n, nq + nv, ...), (n, nu); NaN where they are not finite."""
        lost, nq, end, rows = np.full(self.nu, np.nan), self.nq, self.nq + self.nv, self._rows(len(y))
        u = [
            self.at(t, x[:nq], x[nq:end], p) if np.isfinite(x).all() else lost
            for x, p in zip(y, rows, strict=True)
        ]
        return np.concatenate([u, rows], axis=-1)

    def _rows(self, n: int) -> Array:
        """The parameters of n members, (n, np)."""
        flat = self.p.reshape(-1, self.layout.size) if self.layout.size else np.zeros((1, 0))
        return np.broadcast_to(flat[:n], (n, self.layout.size))

    def taken(self, flow: Flow | MechanicalFlow) -> Samples:
        """The samples that a flow takes; implicit methods take none where efforts are a function."""
        none = self.traced and isinstance(flow, MechanicalFlow)
        efforts = Samples(np.zeros((1, 1, 0))) if none else self.samples
        return efforts.beside(self.p.reshape(-1, self.layout.size)) if self.layout.size else efforts

    def recorded(self, times: Array, Q: Array, V: Array) -> Array:
        """The efforts at the recorded times, (..., times, nu); NaN where the states are not finite."""
        finite = np.isfinite(Q).all(axis=-1) & np.isfinite(V).all(axis=-1)
        u = np.full((*finite.shape, self.nu), np.nan)
        p = np.broadcast_to(self.p[..., None, :], (*finite.shape, self.layout.size))
        if self.traced is not None:
            more = [p[finite]] if self.layout.size else []
            u[finite] = Kernel(self.traced)(
                np.broadcast_to(times, finite.shape)[finite], Q[finite], V[finite], *more
            )
        elif self.called is not None:
            for at in map(tuple, np.argwhere(finite)):
                u[at] = self.at(times[at[-1]], Q[at], V[at], p[at])
        else:
            sampled = np.stack([self.samples.at(t) for t in times], axis=-2)
            shape = (*(Q.shape[:-2] if len(sampled) > 1 else ()), len(times), self.nu)
            u[finite] = np.broadcast_to(sampled.reshape(shape), u.shape)[finite]
        return u


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


# -- the door ----------------------------------------------------------------------------------------------


class _Door:
    """What checks the states of a mechanism; made once for each mechanism."""

    def __init__(self, group: Product) -> None:
        self.group = group
        self.start: Array = None
        self.firsts = list(quaternions(group))
        self.quaternions = np.add.outer(self.firsts, np.arange(4)).astype(int)
        self.special = any(_has_own_normal_form(factor) for factor in group.factors)

    def normalize(self, q: Array) -> None:
        """Make the quaternions of configurations (n, nq) unit, in place.

        Raises ConfigurationError where they are off by more than round-off.
        """
        if len(q) * len(self.firsts) <= FEW_QUATERNIONS:
            for row, k in itertools.product(q, self.firsts):
                w, x, y, z = row[k : k + 4].tolist()
                norm = math.sqrt(w * w + x * x + y * y + z * z)
                if not abs(norm - 1) <= OFF_UNIT:
                    self._refuse(k, norm)
                row[k : k + 4] = w / norm, x / norm, y / norm, z / norm
        elif self.firsts:
            found = q[:, self.quaternions]
            norms = np.sqrt((found * found).sum(axis=-1))
            wrong = ~(np.abs(norms - 1) <= OFF_UNIT)
            if wrong.any():
                i, k = np.argwhere(wrong)[0]
                self._refuse(self.firsts[k], norms[i, k])
            q[:, self.quaternions] = found / norms[..., None]
        if self.special:
            q[:] = [self.group.normalize(x) for x in q]

    def _refuse(self, k: int, norm: float) -> NoReturn:
        raise ConfigurationError(
            f"the quaternion q0[{k}:{k + 4}] has norm {norm:.9g}, expected 1 (order w, x, y, z); use "
            "robot.normalize(q0), or divide it by its norm"
        )


def _has_own_normal_form(group: LieGroup) -> bool:
    """Whether a group of the user's own normalizes coordinates beyond unit quaternions."""
    if isinstance(group, Product):
        return any(_has_own_normal_form(factor) for factor in group.factors)
    return type(group).normalize not in (LieGroup.normalize, type(SO3).normalize, type(SE3).normalize)


_doors: WeakKeyDictionary[Mechanism, _Door] = WeakKeyDictionary()


def states_of(
    mechanism: Mechanism, q0: Array, v0: Array, p: Array = NONE
) -> tuple[Array, Array, tuple[int, ...]]:
    """Initial states as (n, nq) and (n, nv), and the ensemble's shape, with parameters p (..., np)."""
    if mechanism not in _doors:
        _doors[mechanism] = _Door(mechanism.group)
    door = _doors[mechanism]
    shape, moved = p.shape[:-1], p if mechanism.layout.size and mechanism.nc else None
    start = door.start
    if q0 is None and (start is None or moved is not None):
        start = door.start = mechanism.start(moved)
    if isinstance(q0, Mapping):
        q0 = mechanism.labels[0].filled(q0, mechanism.start(moved))
    if isinstance(v0, Mapping):
        v0 = mechanism.labels[1].filled(v0, np.zeros(mechanism.nv), "v0")
    q = start if q0 is None else floats("q0", q0)
    v = np.zeros(mechanism.nv) if v0 is None else floats("v0", v0)
    for name, array, size in (("q0", q, mechanism.nq), ("v0", v, mechanism.nv)):
        if array.ndim < 1 or array.shape[-1] != size:
            raise ShapeError(
                f"{name} has shape {array.shape}, expected ({size},) or an ensemble (..., {size})"
            )
    batch = q.shape[:-1]
    if not batch == v.shape[:-1] == shape:
        try:
            batch = np.broadcast_shapes(batch, v.shape[:-1], shape)
        except ValueError:
            more = f" and parameters {shape}" if shape else ""
            raise ShapeError(
                f"q0 {q.shape} and v0 {v.shape}{more} differ in their leading axes; make the ensembles equal"
            ) from None
        q, v = (np.broadcast_to(x, (*batch, x.shape[-1])) for x in (q, v))
    q, v = (np.array(x, order="C").reshape(-1, x.shape[-1]) for x in (q, v))
    if not len(q):
        raise ShapeError(f"the ensemble is empty: q0 has shape {np.shape(q0)}")
    door.normalize(q)
    try:
        if moved is not None:
            moved = np.broadcast_to(p, (*batch, p.shape[-1])).reshape(len(q), -1)
        one = len(q) == 1
        mechanism.check_state(q[0] if one else q, v[0] if one else v, p=moved)
    except ConfigurationError as error:
        if q0 is not None:
            raise
        raise ConfigurationError(
            f"{error}, where q0 = system.assemble(): simulations start there unless q0 is given, and not "
            "from system.guess; if v0 belongs to another configuration, give that as q0"
        ) from None
    return q, v, batch


# -- afterwards --------------------------------------------------------------------------------------------


def _report(mechanism: Mechanism, run: Run, batch: tuple[int, ...], members: Ensemble, failed: Array) -> None:
    """Raise IntegrationError for a simulation that was lost, warn of members of an ensemble."""
    lost, losses, times = np.flatnonzero(failed).tolist(), members.ends, members.times
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
        return why or f"take a smaller step, and look for forces that pump energy in{drifting}"

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
    robot = isinstance(mechanism, _OfRobot)
    remedy = "joints='real', or 'ideal' where" if robot else "forces=[JointLimits(1e4)], or no limits if"
    warn(
        f"joints went beyond their limits, which do not act by themselves: {metadata['passed_limits']}. Give "
        f"{remedy} limits do not matter",
        PassedLimits,
    )


def _warn_of_singular(mechanism: Constrained, nearest: Nearest) -> None:
    """Name the closest singular position that members have gone through."""
    singular = np.isfinite(nearest.singular_pivot)
    if not singular.any():
        return
    passed = np.flatnonzero(singular)
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
