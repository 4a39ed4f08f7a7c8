"""The parts with which every motion begins: method, mechanism with forces and parameters, compiled flow.

Simulations, steppers, sensitivities and linear models are made of these, of `states` and of `efforts`.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Mapping
from types import NoneType
from typing import Any

import numpy as np

from ..base.arguments import event_attributes, takes_parameters, wrong_shape
from ..base.errors import (
    SECONDS,
    GraphError,
    IntegrationError,
    ModelError,
    positive,
)
from ..base.texts import check_names
from ..bodies import JOINT_KINDS, Parametric, joint_kinds
from ..compiler import Function, trace
from ..compiler.native.kernel import is_single
from ..integrators import MechanicalFlow, MechanicalMethod, Method, any_method, coefficients
from ..mechanisms import Force, Mechanism, OpenTree, joint_laws
from ..robot import Robot
from ..scalars import Array
from ..scalars.linear import is_numeric
from ..stepping import Clock, Flow
from ..stepping.clock import MOST_STEPS
from ..stepping.records import Guards

DEFAULT_STEP = 1e-3  # [s]
# methods by default
CONTROLLED = "rkmk45"  # that chooses its steps, as in `solve_ivp`
FIXED = "rkmk4"  # with steps of one length
MOST_EFFORTS = 8  # functions whose compiled loops are kept with a mechanism
PUMPING = "look for forces that pump energy in, as those of angles in degrees do, where radians belong"
ADVICE = "write tau with NumPy operators, liebody.scalars and methods of a Robot"
BY_DEFAULT = joint_kinds(("armature", "damping"))  # what acts in joints
CONTACT = 0.02  # how long stops at limits are touched                                                   [s]
STEPS_OF_CONTACT = 10  # at least
NONE = np.zeros(0)  # no parameters
RTOL = 1e-8  # tolerances of the error control, where none are given
ATOL = 1e-10
NOT_OF_HYBRID_SYSTEMS = {  # options of `simulate` and `sensitivities`, and what hybrid systems have instead
    "tau": "give efforts as parameters, or by an element such as hybrid.JointPD",
    "running": "give the cost a place in `flows`",
    "forces": "give forces to robot_system(robot, force, ...)",
    "joints": "its joints have what they were built with",
    "prescribed": "give the joint a controller, such as hybrid.JointPD with a target over time",
    "stabilization": "its constraints are elements, or loops of time stepping",
    "rtol": "it chooses its steps by the function `step`, or takes steps of dt",
    "atol": "it chooses its steps by the function `step`, or takes steps of dt",
}


def default_method(dt: float | None) -> str:
    """The method that `simulate` takes where none is given: under error control where there is no dt."""
    return CONTROLLED if dt is None else FIXED


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


def clock_of(
    method: Method | MechanicalMethod,
    t_end: float,
    dt: float | None,
    record_every: float | None,
    t_eval: Array = None,
) -> Clock:
    """The times of a simulation by this method, from options of `simulate`.

    A method that does not estimate its errors takes steps of at most DEFAULT_STEP where no dt is given, a
    whole number of them up to t_end, and from row to row of the record.
    """
    t_end = positive("t_end", t_end, SECONDS)
    controlled = method.error_weights if isinstance(method, Method) else method.estimates_errors
    if dt is not None:
        h: float | None = positive("dt", dt, SECONDS)
    elif controlled:
        h = None
    else:
        if t_eval is not None:
            time = Clock(t_end, None, record_every, t_eval).interval
        elif record_every is not None:
            time = min(t_end, positive("record_every", record_every, SECONDS))
        else:
            time = t_end
        h = time / math.ceil(min(time / DEFAULT_STEP, MOST_STEPS) * (1 - 1e-9))
    check_fit(method, t_end, h)
    clock = Clock(t_end, h, record_every, t_eval)
    if t_eval is not None and isinstance(method, MechanicalMethod) and not clock.is_even:
        raise IntegrationError(
            f"{method.name} takes steps of one length, and times of t_eval are no multiples of dt = {h:g} s"
        )
    return clock


def check_fit(method: Method | MechanicalMethod, t_end: float, h: float | None) -> None:
    """Raise IntegrationError where a method cannot take steps of h to t_end; None: under error control."""
    if isinstance(method, Method) or h is None:
        return
    if Clock.whole_steps(t_end, h) is None:
        raise IntegrationError(
            f"{method.name} takes steps of one length, and t_end = {t_end:g} s is no multiple of dt = {h:g} s"
        )


def tolerances_of(h: float | None, rtol: float | None, atol: float | None) -> tuple[float, float]:
    """rtol and atol of error control, with h = None; raises IntegrationError if given for steps of h."""
    for name, x in (("rtol", rtol), ("atol", atol)):
        if x is not None and h is not None:
            raise IntegrationError(
                f"{name} = {x!r} belongs to error control, and these steps have one length, {h:g} s: leave "
                "it out, or leave out dt and take a method with an error estimate, such as 'rkmk45'"
            )
    return (
        RTOL if rtol is None else positive("rtol", rtol),
        ATOL if atol is None else positive("atol", atol),
    )


def refuse_foreign(options: Mapping[str, Any]) -> None:
    """Raise ModelError for options that are given for a hybrid system, and belong to other mechanisms."""
    for name, remedy in NOT_OF_HYBRID_SYSTEMS.items():
        if options.get(name) is not None:
            raise ModelError(f"{name} is given for a hybrid system, which does not take it; {remedy}")


def stabilization_of(
    mechanism: Mechanism, method: Method | MechanicalMethod, given: Any, h: float | None
) -> Any:
    """The stabilisation of an explicit method against drift of constraints; None for the other methods.

    Raises IntegrationError if one is given for a method that keeps constraints in its own way.
    """
    if isinstance(method, Method):
        return mechanism.stabilization(given, h)
    if given is not None:
        raise IntegrationError(
            f"{method.name} keeps constraints in its own way; leave out stabilization = {given!r}"
        )
    return None


def _is_plain(x: Any) -> bool:
    """Whether the text of a force's field determines the field, which the text of a function does not."""
    return all(map(_is_plain, x)) if isinstance(x, tuple) else isinstance(x, (str, int, float, NoneType))


class RobotMechanism(OpenTree):
    """The joint coordinates of a robot, with forces; energies by the robot's own kernels."""

    def __init__(self, robot: Robot, forces: tuple[Force, ...], clipped: bool) -> None:
        super().__init__(robot.tree, robot.gravity_vector, forces, clipped, robot)
        self.robot = robot

    def recipe(self) -> str | None:
        """As `Mechanism.recipe`; their numbers, and numbers of the joints, determine forces of liebody."""
        # A user's function may compute anything, and a parameter has no number: no text says what they are.
        if self.prescribed is not None:
            return None
        ours = all(type(force).__module__.startswith("liebody.") for force in self.forces)
        ours &= all(_is_plain(x) for force in self.forces for x in vars(force).values())
        # What acts in joints enters the code as numbers.
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
        p = [self.robot.packed(parameters)] if self.layout.size else []
        return energy + self.kernel("stored")(q, *p)


def mechanism_of(
    given: Robot | Mechanism,
    forces: tuple[Force, ...],
    joints: str | Iterable[str] | None = None,
    h: float | None = None,
    prescribed: Mapping[str, Any] | None = None,
) -> Mechanism:
    """The mechanism that `simulate` moves: with forces and, of a robot, these kinds of joints; made once.

    given   a Robot, or a mechanism that is returned with the forces
    forces  `mechanisms.Force`, which act beside efforts and weight
    joints  what acts in the joints of a robot, as in `simulate`: "ideal", "real", or names of `JOINT_KINDS`;
            None: armature and damping
    prescribed  {joint: function of time} of joints that follow them, as in `simulate`
    h       length of steps [s]; stops at limits are so soft that a contact lasts some steps. None: short ones

    Raises IntegrationError for `joints` beside a mechanism, which has its own, and for other objects;
    ModelError for one without degrees of freedom.
    """
    if isinstance(given, Mechanism):
        if joints is not None:
            raise IntegrationError(
                f"joints is {joints!r}, which a Robot takes; {given.name} has the damping that it was built "
                "with: give it forces=[JointFriction(), JointLimits(1e4), ...]"
            )
        mechanism = given.with_forces(*forces)
    elif isinstance(given, Robot):
        # Mechanisms are kept with the robot, because their compiled flows are kept with them. The time of
        # contact is a number in these flows, so it is part of the key.
        kinds = BY_DEFAULT if joints is None else joint_kinds(joints)
        contact = max(CONTACT, STEPS_OF_CONTACT * (h or 0)) if "limits" in kinds else CONTACT
        key = ("mechanism", kinds, contact)
        if key not in given.flows:
            robot = given if "armature" in kinds else given.with_joints(JOINT_KINDS.keys() - {"armature"})
            laws = joint_laws(given.tree, kinds, contact)
            given.flows[key] = RobotMechanism(robot, laws, clipped="efforts" in kinds)
        mechanism = given.flows[key].with_forces(*forces)
    else:
        raise IntegrationError(f"{given!r} is no mechanism; expected a Robot, a System or a ClosedTree")
    if not mechanism.nv:
        raise ModelError(f"{mechanism.name} has no degrees of freedom, and so no motion; give it a joint")
    return mechanism.with_prescribed(prescribed) if prescribed else mechanism


def with_parameters(
    mechanism: Any,
    parameters: Mapping[str, Any] | None,
    functions: Iterable[Any],
    prescribed: Mapping[str, Any] | None = None,
) -> tuple[Any, Array]:
    """The mechanism in which these parameters are free, and their values (..., np).

    functions  functions (t, q, v, p) of the user, which may take parameters, and functions (t, p) of joints
    prescribed that follow them. If one does, names that the mechanism does not know are numbers of the user,
               such as gains
    """
    if not isinstance(mechanism, Parametric):
        if parameters:
            raise IntegrationError(
                f"{mechanism!r} has no parameters; those of a Robot, a System, a ClosedTree and a "
                "HybridSystem may be given"
            )
        return mechanism, NONE
    # A gain needs a function that reads it: otherwise an unknown name is a mistake.
    taken = any(map(takes_parameters, functions))
    of_time = (prescribed or {}).values()
    taken = taken or any(takes_parameters(f, 1) and not takes_parameters(f, 2) for f in of_time)
    if parameters:
        known = mechanism.parameters
        of_user = [name for name in parameters if name not in known]
        if of_user and not taken:
            known.refuse(of_user[0], mechanism.name)
        free = [name for name in parameters if name in known]
        mechanism = mechanism.with_parameters(*free, dict.fromkeys(of_user, 0.0))
    if taken and not mechanism.layout.size:
        raise IntegrationError(
            "a function of (t, q, v, p) or (t, p) takes parameters, and there are none; give "
            "parameters={'K_p': 5.0}, for instance, or give its last argument a default"
        )
    if not mechanism.layout.size:
        return mechanism, NONE
    # Values are an input of compiled flows, so mechanisms with the same free parameters share a prototype.
    return mechanism.prototype, mechanism.packed(parameters)


def is_single_precision(
    dtype: Any, mechanism: Mechanism, method: Method | MechanicalMethod, controlled: bool = False
) -> bool:
    """Whether a motion with `dtype` is computed in float32, and not in float64.

    controlled  whether it is under error control

    Raises LiebodyError for other types, IntegrationError for motions that need the digits of float64.
    """
    if not is_single(dtype):
        return False
    tables = mechanism.layout.tables
    reason = ""
    if isinstance(method, MechanicalMethod):
        reason = (
            f"{method.name} solves its equations to the round-off of float64; take an explicit method, such "
            "as 'rkmk4'"
        )
    elif mechanism.nc:
        reason = (
            f"{mechanism.name} has constraints, which are kept to the round-off of float64; leave out dtype"
        )
    elif controlled:
        reason = "error control is for tolerances below the round-off of float32; give dt"
    elif tables:
        names = ", ".join(map(repr, tables))
        reason = f"the parameters {names} are tables in memory, whose addresses have 64 bits; leave out dtype"
    if reason:
        raise IntegrationError(f"dtype is float32, and {reason}")
    return True


def flow_of(
    mechanism: Any,
    method: Method | MechanicalMethod,
    stabilized: Any,
    feedback: Function | None,
    metered: bool = False,
    single: bool = False,
) -> Any:
    """The compiled loop of this method, kept with the mechanism; of users' efforts the last few.

    metered  whether the last entry of the state is the work done, as `OpenTree.metered` has it
    single   whether an explicit method computes in float32
    """
    # Two functions of one form have the same code, so they share a flow.
    key = (feedback and feedback.form, method, stabilized, mechanism.redundant, metered, single)
    if key in mechanism.flows:
        return mechanism.flows[key]
    flow: Flow | MechanicalFlow
    if isinstance(method, MechanicalMethod):
        flow = method.flow(**_driven(mechanism.mechanics(), feedback, mechanism.values))
    else:
        # The parts of a flow are calls that trace; it makes them when it is compiled.
        if metered:
            parts = mechanism.metered(feedback)
        else:
            parts = mechanism.parts(stabilized, feedback=feedback, watched=mechanism.nc > 0)
        # A recipe finds a flow that an earlier process has compiled; a user's function has none.
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
            single=single,
        )
    # A program may make functions without end, each with a flow of its own: the oldest are dropped.
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
    applied = mechanics["Q"]
    at_parameters = mechanics.get("at")
    parameters = [p] if len(p) else []
    driven = {"Q": lambda t, q, v, u: applied(t, q, v, feedback(t, q, v, *parameters)), "efforts": len(p)}
    if at_parameters:
        driven["at"] = lambda u: _driven(at_parameters(u), feedback, u)
    return {**mechanics, **driven}


def points_of(flow: Any, q: Array, v: Array, h: float, u: Array = None) -> Array:
    """The states y (n, point) of a flow at t = 0, before steps of h with efforts u; None: zero."""
    if isinstance(flow, MechanicalFlow):
        return flow.start(q, v, 0.0, h, u)
    return np.concatenate([q, v], axis=1)


def in_degrees(mechanism: Mechanism, q: Array) -> str:
    """A question at the end of a message on a motion from q (nq,), if its angles may be degrees; or "".

    An angle of more than a turn may be one. That alone is no reason to refuse it.
    """
    labels = mechanism.labels[0]
    # The question names only the coordinate that starts farthest.
    angles = [i for i, unit in enumerate(labels.units) if unit == "rad"]
    i = max(angles, key=lambda i: abs(q[i]), default=None)
    if i is None or not 2 * math.pi < abs(q[i]) < math.inf:
        return ""
    return f"; {labels.names[i]} begins at {q[i]:g} rad: is it meant in degrees? numpy.radians converts"


def guards_of(
    mechanism: Mechanism, events: Mapping[str, Callable[..., Any]], point: int, efforts: int
) -> Guards:
    """The events' functions, traced together."""
    nq = mechanism.nq
    nv = mechanism.nv
    layout = mechanism.layout
    check_names("an event", events)

    def values_of_events(t: Any, y: Array, u: Array) -> Array:
        values = []
        for name, event in events.items():
            # The parameters stand behind the efforts.
            more = [layout.read(u[len(u) - layout.size :])] if takes_parameters(event) else []
            value = np.asarray(event(t, y[:nq], y[nq : nq + nv], *more))
            if value.shape != ():
                raise wrong_shape(f"the result of event {name}", value.shape, "one number")
            values.append(value[()])
        return np.array(values)

    try:
        function = trace(values_of_events, {"t": (), "y": point, "u": efforts}, "guards")
    except (GraphError, TypeError, AttributeError) as error:
        raise IntegrationError(
            f"the events {', '.join(map(str, events))} cannot be traced: {error}; write them with NumPy "
            "operators, liebody.scalars and methods of a Robot"
        ) from None
    return Guards(function, *event_attributes(events))
