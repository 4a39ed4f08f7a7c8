"""What begins every motion: its method, mechanism, states, efforts, clock and compiled flow, checked.

Simulations, steppers, sensitivities and linear models are made of these.
"""

from __future__ import annotations

import functools
import inspect
import itertools
import math
from collections.abc import Callable, Iterable, Mapping
from types import NoneType
from typing import Any, NoReturn
from weakref import WeakKeyDictionary

import numpy as np

from ..base.arguments import (
    OFF_UNIT,
    check_arguments,
    check_members,
    floats,
    free_base,
    number,
    quaternion_remedy,
)
from ..base.errors import (
    SECONDS,
    ConfigurationError,
    GraphError,
    IntegrationError,
    LiebodyError,
    ModelError,
    ShapeError,
    pass_on_signals,
    positive,
)
from ..base.texts import check_names, words_of
from ..bodies import JOINT_KINDS, Parametric, joint_kinds
from ..compiler import Function, Kernel, trace
from ..groups import SE3, SO3, LieGroup, Product
from ..integrators import MechanicalFlow, MechanicalMethod, Method, any_method, coefficients
from ..mechanisms import Force, Mechanism, OpenTree, joint_laws
from ..robot import Robot
from ..scalars import Array
from ..scalars.linear import is_numeric
from ..stepping import Flow, Samples
from ..stepping.records import Guards
from ..stepping.samples import equidistant

DEFAULT_STEP = 1e-3  # [s]
MOST_STATES = 1000  # recorded by default
MOST_ROWS = 10**9
MOST_STEPS = 2**53  # beyond which t + dt is t
MOST_EFFORTS = 8  # functions whose compiled loops are kept with a mechanism
PUMPING = "look for forces that pump energy in, as those of angles in degrees do, where radians belong"
ADVICE = "write tau with NumPy operators, liebody.scalars and methods of a Robot"
BY_DEFAULT = joint_kinds(("armature", "damping"))  # what acts in joints
CONTACT = 0.02  # how long stops at limits are touched                                                   [s]
STEPS_OF_CONTACT = 10  # at least
NONE = np.zeros(0)
FEW_QUATERNIONS = 8  # which Python makes unit sooner than NumPy


def method_of(given: str | Method | MechanicalMethod) -> Method | MechanicalMethod:
    """The explicit method, or the one for mechanical systems, of this name."""
    return _method_called(given) if type(given) is str else any_method(given)


@functools.cache  # so that a method is one object, by which flows are kept
def _method_called(given: str) -> Method | MechanicalMethod:
    if given == "time-stepping":
        raise IntegrationError(
            "time stepping is for robots with contacts: robot_system(robot, Contact('foot', friction=0.8)) "
            "of liebody.hybrid, and its simulate(..., method='time-stepping')"
        )
    return any_method(given)


def step_of(
    method: Method | MechanicalMethod, t_end: float, dt: float | None, record_every: float | None
) -> float | None:
    """The length of the steps; None: under error control.

    A method that does not estimate its errors takes steps of at most DEFAULT_STEP where no dt is given, a
    whole number of them up to t_end, and from record to record.
    """
    if dt is not None:
        return positive("dt", dt, SECONDS)
    if method.error_weights if isinstance(method, Method) else method.estimates_errors:
        return None
    time = t_end if record_every is None else min(t_end, positive("record_every", record_every, SECONDS))
    return time / math.ceil(min(time / DEFAULT_STEP, MOST_STEPS) * (1 - 1e-9))


def check_fit(method: Method | MechanicalMethod, t_end: float, h: float | None) -> None:
    """Raise IntegrationError where a method cannot take steps of h to t_end; None: under error control."""
    if isinstance(method, Method) or h is None:
        return
    if abs(round(min(t_end / h, MOST_STEPS)) * h - t_end) > 1e-9 * t_end:
        raise IntegrationError(
            f"{method.name} takes steps of one length, and t_end = {t_end:g} s is no multiple of dt = {h:g} s"
        )


def stabilization_of(
    mechanism: Mechanism, method: Method | MechanicalMethod, given: Any, h: float | None
) -> Any:
    """What explicit methods do against drift of constraints; raises IntegrationError where nothing can be."""
    if isinstance(method, Method):
        return mechanism.stabilization(given, h)
    if given is not None:
        raise IntegrationError(
            f"{method.name} keeps constraints in its own way; leave out stabilization = {given!r}"
        )
    return None


def _is_plain(x: Any) -> bool:
    """Whether its text determines a field of a force; that of a function does not."""
    return all(map(_is_plain, x)) if isinstance(x, tuple) else isinstance(x, (str, int, float, NoneType))


class OfRobot(OpenTree):
    """The joint coordinates of a robot, with forces; energies by the robot's own kernels."""

    def __init__(self, robot: Robot, forces: tuple[Force, ...], clipped: bool) -> None:
        super().__init__(robot.tree, robot.gravity_vector, forces, clipped, robot)
        self.robot = robot

    def recipe(self) -> str | None:
        """As `Mechanism.recipe`; our own laws are determined by their numbers and those of the joints."""
        ours = all(type(force).__module__.startswith("liebody.") for force in self.forces)
        ours &= all(_is_plain(x) for force in self.forces for x in vars(force).values())
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
        made = given.with_forces(*forces)
    elif isinstance(given, Robot):
        kinds = BY_DEFAULT if joints is None else joint_kinds(joints)
        contact = max(CONTACT, STEPS_OF_CONTACT * (h or 0)) if "limits" in kinds else CONTACT
        key = ("mechanism", kinds, contact)
        if key not in given.flows:
            robot = given if "armature" in kinds else given.with_joints(JOINT_KINDS.keys() - {"armature"})
            laws = joint_laws(given.tree, kinds, contact)
            given.flows[key] = OfRobot(robot, laws, clipped="efforts" in kinds)
        made = given.flows[key].with_forces(*forces)
    else:
        raise IntegrationError(f"{given!r} is no mechanism; expected a Robot, a System or a ClosedTree")
    if not made.nv:
        raise ModelError(f"{made.name} has no degrees of freedom, and so no motion; give it a joint")
    return made


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
        return mechanism, NONE
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
    if not mechanism.layout.size:
        return mechanism, NONE
    return mechanism.prototype, mechanism.packed(parameters)


def takes_parameters(function: Any) -> bool:
    """Whether a function of (t, q, v) has a fourth argument, without a default: the parameters."""
    if not callable(function):
        return False
    try:
        arguments = inspect.signature(function).parameters.values()
    except (TypeError, ValueError) as error:  # it does not tell
        pass_on_signals(error)
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


def in_degrees(mechanism: Mechanism, q: Array) -> str:
    """A question at the end of a message on a motion that began at q (nq,), if its angles may be degrees.

    So they may be where one of them is more than a turn; in a message on something else that is no refusal.
    """
    labels = mechanism.labels[0]
    angles = [i for i, unit in enumerate(labels.units) if unit == "rad"]
    i = max(angles, key=lambda i: abs(q[i]), default=None)
    if i is None or not 2 * math.pi < abs(q[i]) < math.inf:
        return ""
    return f"; {labels.names[i]} begins at {q[i]:g} rad: is it meant in degrees? numpy.radians converts"


def guards_of(
    mechanism: Mechanism, events: Mapping[str, Callable[..., Any]], point: int, efforts: int
) -> Guards:
    """The events' functions, traced together."""
    nq, nv, layout = mechanism.nq, mechanism.nv, mechanism.layout
    check_names("an event", events)

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
            "operators, liebody.scalars and methods of a Robot"
        ) from None
    given = {f"the direction of event {k}": getattr(event, "direction", 0) for k, event in events.items()}
    directions = [int(np.sign(number(name, x))) for name, x in given.items()]
    return Guards(function, directions, [bool(getattr(x, "terminal", False)) for x in events.values()])


# -- time and efforts ----------------------------------------------------------------------------------------


class Clock:
    """The steps of a run and the times of its record.

    h, first      length of the steps, None: under error control; and of the first one, in any case     [s]
    steps, every  how many whole ones there are, and after how many of them a state is recorded
    rows          of the record at such distances, after the first; `extra` steps and a `rest` [s] follow
    """

    def __init__(self, t_end: float, h: float | None, record_every: float | None) -> None:
        given = None if record_every is None else positive("record_every", record_every, SECONDS)
        self.t_end, self.h, self.steps, self.every, self.extra = t_end, h, 0, 1, 0
        if h is None:
            interval = t_end / MOST_STATES if given is None else given
            self.first = min(interval, 1e-3)
            self.rows, self.rest = _whole(t_end, interval)
        else:
            self.first = h
            self.steps, self.rest = _whole(t_end, h)
            every = self.steps / MOST_STATES if given is None else round(min(given / h, MOST_STEPS))
            self.every = max(1, math.ceil(every))
            interval = h * self.every
            if given is not None and abs(interval - given) > 1e-6 * given:
                raise IntegrationError(
                    f"record_every = {given} s is no multiple of dt = {h} s; take {interval:g}, for instance"
                )
            self.rows, self.extra = divmod(self.steps, self.every)
        if self.rows > MOST_ROWS:
            raise IntegrationError(
                f"record_every = {interval} s makes {self.rows} records; take {t_end / MOST_STATES:g}, for "
                "instance"
            )
        self.times = interval * np.arange(self.rows + 1.0)
        ends = [self.first * self.steps] * bool(self.extra) + [t_end] * bool(self.rest)
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


class Efforts:
    """Efforts that are numbers, of all members or of each; or those of a function, traced or called.

    kind  "none", "compiled" or "called"
    p     parameters, (np,) or (*batch, np), which stand behind the efforts, and which functions may take
    """

    def __init__(
        self, mechanism: Mechanism, tau: Any, hold: str, batch: tuple[int, ...] = (), p: Array = NONE
    ) -> None:
        if hold not in ("zero", "linear"):
            raise IntegrationError(f"hold is {hold!r}, expected 'zero' or 'linear'")
        self.nq, self.nv, self.nu, self.layout = mechanism.nq, mechanism.nv, mechanism.nu, mechanism.layout
        self.p = np.broadcast_to(p, (*batch, p.shape[-1])) if p.ndim > 1 else p
        self.kind = "none" if tau is None else "compiled"
        self.traced: Function | None = None
        self.called: Callable[..., Any] | None = None
        if tau is None or callable(tau):
            self.samples = _zero(self.nu)
        else:
            self.samples = _sampled(tau, self.nu, hold == "linear", batch)

    def trace(self, feedback: Callable[..., Any], q: Array, v: Array) -> str | None:
        """Take the function (t, q, v) -> (nu,), traced; or say why it can only be called.

        Raises what the function raises on the numbers of a state (q, v), and ShapeError for a result of
        another shape.
        """
        taken = takes_parameters(feedback)
        check_arguments("tau", feedback, *"tqvp"[: 3 + taken], more=", or of (t, q, v, p) with parameters")

        def efforts(t: Any, q: Array, v: Array, *p: Array) -> Array:
            return np.asarray(feedback(t, q, v, *([self.layout.read(*p)] if taken else [])))

        more = {"parameters": self.layout.size} if self.layout.size else {}
        try:
            traced = trace(efforts, {"t": (), "q": self.nq, "v": self.nv, **more}, "tau")
        except Exception as error:  # of the user's code, in which anything may refuse symbols
            pass_on_signals(error)
            told = getattr(error, "has_line", False)
            why = str(error) if told else f"tau cannot be traced, {words_of(error)}"
            cause = (told and error.__cause__) or error
            self.kind, self.called = "called", efforts
            try:
                self.at(0.0, q.copy(), v.copy(), self._rows(1)[0])
            except LiebodyError:
                raise
            except Exception as failed:
                pass_on_signals(failed)
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


@functools.cache
def _zero(nu: int) -> Samples:
    """No efforts."""
    return Samples(np.zeros((1, 1, nu)))


def is_sampled(tau: Any) -> bool:
    """Whether efforts are a pair (times, values), not two numbers."""
    return isinstance(tau, tuple) and len(tau) == 2 and np.ndim(tau[0]) > 0


def _sampled(tau: Any, nu: int, linear: bool, batch: tuple[int, ...]) -> Samples:
    """Efforts that are constant (..., nu), or a pair (times, values (..., samples, nu))."""
    first, interval = 0.0, 1.0
    if is_sampled(tau):
        times, table = floats("times of tau", tau[0]), floats("tau", tau[1])
        if times.ndim != 1 or len(times) < 2 or table.ndim < 2 or table.shape[-2:] != (len(times), nu):
            raise ShapeError(
                f"tau is a pair of shapes {times.shape} and {table.shape}, expected times (samples,) "
                f"with at least two, and values (..., samples, {nu})"
            )
        first, interval = equidistant("tau", times)
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
    return Samples(table, first, interval, linear)


# -- states ------------------------------------------------------------------------------------------------


class _Door:
    """What checks the states of a mechanism; made once for each mechanism."""

    def __init__(self, group: Product) -> None:
        self.group = group
        self.start: Array = None
        self.firsts = list(group.quaternions)
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
                    self._refuse(row, k, norm)
                if norm != 1:
                    row[k : k + 4] = w / norm, x / norm, y / norm, z / norm
        elif self.firsts:
            found = q[:, self.quaternions]
            norms = np.sqrt((found * found).sum(axis=-1))
            wrong = ~(np.abs(norms - 1) <= OFF_UNIT)
            if wrong.any():
                i, k = np.argwhere(wrong)[0]
                self._refuse(q[i], self.firsts[k], norms[i, k])
            q[:, self.quaternions] = found / norms[..., None]
        if self.special:
            q[:] = [self.group.normalize(x) for x in q]

    def _refuse(self, q: Array, k: int, norm: float) -> NoReturn:
        remedy = "use robot.normalize(q0), or divide it by its norm"
        raise ConfigurationError(
            f"the quaternion q0[{k}:{k + 4}] has norm {norm:.9g}, expected 1 (order w, x, y, z); "
            f"{quaternion_remedy(q, k, self.group.poses, remedy)}"
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
    door = _doors.get(mechanism)
    if door is None:
        door = _doors[mechanism] = _Door(mechanism.group)
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
            more = free_base(name, array.shape[-1] if array.ndim else 1, size)
            raise ShapeError(
                f"{name} has shape {array.shape}, expected ({size},) or an ensemble (..., {size}){more}"
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
    check_members(batch)
    door.normalize(q)
    if moved is not None:
        moved = np.broadcast_to(p, (*batch, p.shape[-1])).reshape(len(q), -1)
    if v0 is None and mechanism.nc:
        v = np.array(mechanism.start_velocities(q, moved))
    try:
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
