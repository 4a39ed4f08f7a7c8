"""Robots with contacts and controllers, as hybrid systems with a ledger of energies.

    system = robot_system(lb.models.revolute_hopper(), controller_2("foot"), Contact("foot"))
    run = system.simulate(q0, v0, t_end=20, parameters={"K_p": np.linspace(2, 10, 64)})
    print(system.ledger(run, member=3))

A robot system is a tree of bodies and *elements* that act on it. Each brings efforts or wrenches, and what it
remembers, dissipates and stores; the equations of motion are

    M(q) v' + C(q, v) v + g(q) = sum of tau_k + sum of J_k^T F_k,

by the articulated-body algorithm; an element may forbid motions, too (`Element.constraint`). All of it
is traced and compiled into one loop.
"""

from __future__ import annotations

import copy
import functools
import re
from collections import Counter, namedtuple
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from .. import dynamics
from ..base.arguments import floats, is_index, names, short
from ..base.concurrency import cached_property
from ..base.errors import SECONDS, ModelError, ShapeError, positive
from ..bodies import Frame, Tree
from ..bodies.labels import labels
from ..dynamics import FREE_FALL
from ..groups import SE3
from ..integrators import Method
from ..mechanisms import Force, JointDamping, OpenTree
from ..mechanisms.constrained import ClosedTree
from ..runs import EventLog, HybridRun, HybridStates
from ..scalars import Array, maximum, sqrt, where
from ..scalars.linear import cross, is_numeric, solve
from .system import HybridSystem, dictionary_of


def once(method: Callable[..., Any]) -> Callable[..., Any]:
    """The method, of which each result is computed once and kept."""

    @functools.wraps(method)
    def call(self: Any, *arguments: Any) -> Any:
        key = method.__name__, *arguments
        if key not in self._kept:
            self._kept[key] = method(self, *arguments)
        return self._kept[key]

    return call


class State:
    """A robot in motion, as its elements see it; everything is computed once.

    tree, gravity  of the robot
    t, q, v        time, configuration (nq,), velocity (nv,)
    mechanism      the robot with its forces and, of a `ClosedTree`, its closures; of states in a system
    drives         efforts of the drives, and their stiffness and damping, (nv,) each; given_up: what they
                   give less than that at their limits, (nv,); in time stepping
    """

    mechanism: Any = None
    drives: Any = None
    given_up: Any = None

    def __init__(self, tree: Tree, gravity: Array, t: Any, q: Array, v: Array) -> None:
        self.tree, self.gravity, self.t, self.q, self.v = tree, gravity, t, q, v
        self._kept: dict[Any, Any] = {}
        self.flags: dict[str, Any] = {}
        self.landed: Any = -np.inf
        self.stored: dict[str, Callable[[], Any]] = {}
        self.elements: list[tuple[Element, Any, Any]] = []  # with their memory and parameters

    @cached_property
    def kinetic_energy(self) -> Any:
        """T  [J]"""
        return dynamics.kinetic_energy(self.tree, self.q, self.v)

    @cached_property
    def potential_energy(self) -> Any:
        """U of gravity, zero where the centre of mass is in the world's origin  [J]"""
        return dynamics.potential_energy(self.tree, self.q, self.gravity)

    @cached_property
    def com(self) -> Array:
        """Centre of mass in the world, (3,)  [m]"""
        return dynamics.center_of_mass(self.tree, self.q)

    @cached_property
    def com_velocity(self) -> Array:
        """Its velocity in the world, (3,)  [m/s]"""
        return dynamics.center_of_mass_velocity(self.tree, self.q, self.v)

    @once
    def pose(self, frame: str | Frame) -> Array:
        """Pose of a frame in the world, (4, 4)."""
        return dynamics.frame_pose(self.tree, self.q, frame)

    def position(self, point: str | Frame) -> Array:
        """Position of a frame's origin in the world, (3,)  [m]"""
        return self.pose(point)[:3, 3]

    @once
    def velocity(self, point: str | Frame) -> Array:
        """Velocity of a frame's origin, in the world's axes, (3,)  [m/s]"""
        twist = dynamics.frame_twist(self.tree, self.q, self.v, point)
        return self.pose(point)[:3, :3] @ twist[3:]

    @once
    def jacobian(self, frame: str | Frame) -> Array:
        """The Jacobian of a frame, (6, nv): angular and linear velocity in the world's axes."""
        return dynamics.frame_jacobian(self.tree, self.q, frame, "mixed")

    def touching(self, point: str) -> Any:
        """1 where a point touches something, 0 where it does not.

        Raises ModelError for points without a contact.
        """
        if point not in self.flags:
            known = ", ".join(self.flags) or "none"
            raise ModelError(
                f"whether {point!r} touches something is asked for, and it has no contact (points that have "
                f"one: {known}); add Contact({point!r})"
            )
        return self.flags[point]

    @property
    def stance(self) -> Any:
        """1 where any point touches something, 0 in flight."""
        return functools.reduce(maximum, self.flags.values(), 0.0)

    def touches(self, point: str, flag: Any, since: Any) -> None:
        """Elements tell whether a point touches something, 1 or 0, and when it last touched down."""
        self.landed = since if not self.flags else maximum(self.landed, since)
        self.flags[point] = maximum(self.flags[point], flag) if point in self.flags else flag

    # -- the leg: from the centre of mass to a point, in the axes of the base -------------------------------

    @cached_property
    def _base(self) -> Any:
        """The one body that carries all others and moves freely; None where there is none."""
        roots = [body for body in self.tree.bodies if not body.parent]
        return roots[0] if len(roots) == 1 and roots[0].joint.dim > 1 else None

    @property
    def base_dofs(self) -> int:
        """How many velocities, the first ones, are those of a base that carries all others; 0 without one."""
        return 0 if self._base is None else self._base.dofs.stop

    @cached_property
    def base_rotation(self) -> Array:
        """Axes of the base in the world, (3, 3); the world's own where no base floats."""
        return np.eye(3, dtype=int) if self._base is None else self._base.pose(self.q)[:3, :3]

    @once
    def leg(self, point: str | Frame) -> tuple[Array, Array]:
        """r (3,) from the centre of mass to a point, and J (3, nv) of dr/dt = J v, in the base's axes.

        dr/dt is that of the world, turned into the base's axes. Neither depends on where the base is.
        """
        tree, base, q = self.tree, self._base, self.q
        if base is not None:  # put it where its joint is neutral: exact zeros and ones
            q = np.concatenate([base.joint.group.neutral(), q[base.coordinates.stop :]])
        R = np.eye(3, dtype=int) if base is None else base.placement[:3, :3]
        r = R.T @ (dynamics.frame_pose(tree, q, point)[:3, 3] - dynamics.center_of_mass(tree, q))
        J = dynamics.frame_jacobian(tree, q, point, "mixed")[3:] - dynamics.center_of_mass_jacobian(tree, q)
        J = R.T @ J
        if base is not None:  # translations of the base do not move r, and its rotations turn it
            turned = np.stack([cross(S[:3], r) for S in base.joint.S.T], axis=1)
            J = np.concatenate([turned, J[:, self.base_dofs :]], axis=1)
        return r, J


class Element:
    """What acts on a robot: a contact, a spring, a controller. A subclass overrides what it has.

    name         goes before the names of what it brings, with an underscore
    prefix       before those of its parameters instead, if it is given
    memory, flows, parameters, directions   as in `HybridSystem`, by the element's own names
    ranges       (least, most) of parameters that a simulation may be given, likewise

    A system keeps copies of its elements, so one element may go to several.
    """

    name = "element"
    prefix: str | None = None
    touches = False  # whether it tells `State.touches`
    stiff = False  # whether steps are to be short while something touches
    driven = True  # whether the robot's drives give its efforts: then they are work of the joints

    def __init__(self) -> None:
        self.memory: dict[str, Any] = {}
        self.flows: dict[str, Any] = {}
        self.parameters: dict[str, Any] = {}
        self.directions: dict[str, int] = {}
        self.ranges: dict[str, tuple[float, float]] = {}

    def attach(self, tree: Tree) -> None:
        """Look up what is needed of the tree; raises ModelError for what is not there."""

    def tell(self, s: State, z: Any, p: Any) -> None:
        """What other elements may ask for: points that touch something, `s.touches`; energies, `s.stored`."""

    def efforts(self, s: State, z: Any, p: Any) -> Array | None:
        """Generalised efforts, (nv,)."""
        return None

    def forces(self, s: State, z: Any, p: Any) -> list[tuple[Frame, Array]]:
        """Forces on points, in the world's axes: (frame, force (3,)) each."""
        return []

    def gains(self, s: State, p: Any) -> tuple[Array, Array] | None:
        """Stiffness -d tau_i/d q_i and damping -d tau_i/d v_i of its efforts, (nv,) each, for `TimeStepping`.

        None: the efforts are taken from the start of a step.
        """
        return None

    def constraint(self, s: State, z: Any, p: Any) -> tuple[Array, Array] | None:
        """J (k, nv) and (dJ/dt) v (k,) of motions that it forbids, J dv/dt + (dJ/dt) v = 0; None: none."""
        return None

    def reactions(self, z: Any, x: Array) -> dict[str, Any]:
        """Signals of its constraint's multipliers x (k,): the efforts on the robot are J^T x."""
        return {}

    def velocity(self, s: State, z: Any, p: Any, events: Any) -> Array | None:
        """The velocity (nv,) after the events, as of an impact; None: events do not change it."""
        return None

    def losses(self, s: State, z: Any, p: Any) -> dict[str, Any]:
        """Powers that it dissipates, by name."""
        return {}

    def energy(self, s: State, z: Any, p: Any) -> Any:
        """Energy that it stores; None: it stores none."""
        return None

    def lost(self, z: Any) -> Any:
        """Stored energy lost in updates so far, out of its memory; None: none."""
        return None

    def rates(self, s: State, z: Any, p: Any) -> dict[str, Any]:
        """Rates of its flows."""
        return {}

    def guards(self, s: State, z: Any, p: Any) -> dict[str, Any]:
        """Guards by name."""
        return {}

    def update(self, s: State, z: Any, p: Any, events: Any) -> Any:
        """The memory at the end of a step; events are those of the system, by their full names."""
        return z

    def start(self, s: State, z: Any, p: Any) -> Any:
        """The memory at the start."""
        return z

    def stop(self, s: State, z: Any, p: Any) -> Any:
        """The member ends where this is positive; None: never."""
        return None

    def outputs(self, s: State, z: Any, p: Any) -> dict[str, Any]:
        """Signals by name."""
        return {}


class Apex(Element):
    """An event wherever the centre of mass is at the top of its path in flight, while no point touches."""

    def __init__(self, name: str = "apex") -> None:
        super().__init__()
        self.name, self.directions = name, {"": -1}

    def guards(self, s: State, z: Any, p: Any) -> dict[str, Any]:
        return {"": where(s.stance > 0.5, -1.0, s.com_velocity @ up(s.gravity))}


class Fall(Element):
    """Members end where the centre of mass, or a point, is lower than a height.

    point   name of a frame; None: the centre of mass
    height  parameter, above the world's origin, against gravity                                       [m]
    """

    def __init__(self, height: float = 0.0, point: str | None = None, name: str = "fall") -> None:
        super().__init__()
        self.name, self.point, self.parameters = name, point, {"height": height}

    def attach(self, tree: Tree) -> None:
        if self.point is not None:
            tree.frame(self.point)

    def stop(self, s: State, z: Any, p: Any) -> Any:
        at = s.com if self.point is None else s.position(self.point)
        return p.height - at @ up(s.gravity)


def up(gravity: Array) -> np.ndarray:
    """The direction against gravity, (3,); z without gravity."""
    g: Array = np.asarray(gravity)
    if not is_numeric(g):
        return -g / sqrt(g @ g)
    size = np.linalg.norm(g.astype(float))
    return -g / size if size else np.array([0, 0, 1.0])


class RobotSystem(HybridSystem):
    """The hybrid system of a robot with contacts and controllers; see the head of this module.

    robot         a Robot, or a Tree; of `TimeStepping` also a `ClosedTree`
    elements      contacts, controllers, events: `Element`s; `Force`s, beside the joints' damping; or
                  sequences of such
    gravity       acceleration of free fall, (3,); default: the robot's own                           [m/s2]
    step          the step in flight, a parameter of the system                                           [s]
    stance_step   the step while something touches, likewise                                              [s]
    landing_step  the step in the first time `landing` after a touch-down, likewise                       [s]
    actuated      a name, or names, of the joints that have drives; others get no efforts of controllers.
                  Default: all, the free joint of the base included
    ledger        whether works and losses are integrated along
    outputs       more signals: State -> {name: signal}

    Steps must resolve the contacts: with damping D and the mass m that a point shows to the floor, explicit
    methods of order 4 need steps below 2.7 m / D. Its works are, by name:

    joint_<name>      of the drive of each joint; that of a floating base's joint comes from outside
    <force>           of each force, such as the joints' damping (negative), if they have any
    <element>_work    what each element gives to the robot
    <element>_<loss>  what it dissipates (positive)

    Errors: ModelError for names that two elements share, or frames and joints that the robot does not have.
    """

    resolves_contacts = True  # by short steps while something touches
    closes_loops = False  # whether the robot may be a `ClosedTree`
    by_method: ClassVar[dict[str, type[RobotSystem]]] = {}  # what takes the place of this class for a method

    def __init__(
        self,
        robot: Any,
        *elements: Element | Force | Iterable[Element | Force],
        gravity: Array | None = None,
        step: float = 1e-4,
        stance_step: float = 1e-5,
        landing_step: float = 1e-6,
        landing: float = 5e-4,
        actuated: str | Iterable[str] | None = None,
        ledger: bool = True,
        outputs: Callable[[State], Mapping[str, Any]] | None = None,
        name: str | None = None,
    ) -> None:
        actuated = None if actuated is None else names(actuated)
        flat = one_by_one(elements)
        for given in flat:
            if not isinstance(given, (Element, Force)):
                raise ModelError(
                    f"{given!r} is no element of a robot system, such as Contact or RadialSpring"
                )
        tree = getattr(robot, "tree", robot)
        if not isinstance(tree, Tree):
            raise ModelError(f"robot_system takes a Robot or a Tree, not {robot!r}")
        closed = isinstance(robot, ClosedTree)
        if closed and not self.closes_loops:
            raise ModelError(
                f"{tree.name} has closed loops, which are for time stepping: contact.TimeStepping(robot, "
                "...); without contacts, lb.simulate(robot, ...)"
            )
        forces = [given for given in flat if isinstance(given, Force)]
        free = robot.layout.defaults if robot is not tree else {}
        damped = any(np.any(np.asarray(body.damping, float)) for body in tree.bodies)
        if not closed and (damped or any(name.endswith(".damping") for name in free)):
            forces.insert(0, JointDamping())
        if (free or closed) and gravity is not None:
            raise ModelError(
                f"{tree.name} has free parameters, or loops, and a gravity of its own; leave out gravity = "
                f"{gravity!r} here, and give robot.with_parameters({{'gravity': ...}})"
            )
        fall: Any = getattr(robot, "gravity_vector", FREE_FALL) if gravity is None else gravity
        self.mechanism: OpenTree = (
            robot.with_forces(*forces)
            if closed
            else OpenTree(tree, fall, tuple(forces), robot=robot if free else None)
        )
        self.tree, self._more = tree, outputs
        self.gravity = tuple(self.mechanism.gravity)
        self.elements = tuple(copy.deepcopy(x) for x in flat if isinstance(x, Element))
        self._others: dict[str, RobotSystem] = {}  # of the same robot, by the methods that have their own
        self._description = robot, tuple(flat)
        self._options: dict[str, Any] = {"gravity": gravity, "actuated": actuated}
        self._options |= {"ledger": ledger, "outputs": outputs}
        self._lossy: dict[Element, tuple[str, ...]] = {}
        for element in self.elements:
            element.attach(tree)
        self._driven = driven(tree, actuated)
        steps = {"step": positive("step", step, SECONDS)}
        if self.resolves_contacts and any(element.stiff for element in self.elements):
            lengths = {"stance_step": stance_step, "landing_step": landing_step}
            steps |= {name: positive(name, x, SECONDS) for name, x in lengths.items()} | {"landing": landing}
        kinds = self._by_full_names()

        def if_any(part: str, made: Callable[..., Any]) -> Callable[..., Any] | None:
            has = any(getattr(type(e), part) is not getattr(Element, part) for e in self.elements)
            return made if has else None

        super().__init__(
            tree.group,
            self._accelerations,
            memory=kinds["memory"],
            flows=kinds["flows"],
            parameters=_joined(kinds["parameters"], steps, free),
            rates=if_any("rates", functools.partial(self._named, "rates")),
            start=if_any("start", self._started),
            guards=if_any("guards", functools.partial(self._named, "guards")),
            directions=kinds["directions"],
            update=if_any("update", self._updated),
            step=self._step,
            stop=if_any("stop", self._stop),
            powers=self._powers if ledger else None,
            outputs=self._signals,
            name=name or tree.name,
        )
        ranges = {_parameter(e, key): x for e in self.elements for key, x in e.ranges.items()}
        checks = {name: functools.partial(check_range, name, *limits) for name, limits in ranges.items()}
        self.parameters.checks = {**self.mechanism.layout.checks, **checks}

    @cached_property
    def _tuples(self) -> list[tuple[Element, Any, Any]]:
        """Each element with the named tuples of its memory and of its parameters."""
        return [
            (e, namedtuple("Memory", [*e.memory, *e.flows]), namedtuple("Parameters", [*e.parameters]))
            for e in self.elements
        ]

    def _by_full_names(self) -> dict[str, dict[str, Any]]:
        """Memory, flows, parameters, directions of all elements. Raises ModelError for a name given twice."""
        taken = Counter([*(force.name for force in self.mechanism.forces), *self.mechanism.layout.defaults])
        kinds: dict[str, dict[str, Any]] = {k: {} for k in ("memory", "flows", "parameters", "directions")}
        for element in self.elements:
            for kind, found in kinds.items():
                full = _parameter if kind == "parameters" else full_name
                own = {full(element, key): value for key, value in getattr(element, kind).items()}
                taken.update([] if kind == "directions" else list(own))
                found.update(own)
        for name in (name for name, count in taken.items() if count > 1):
            raise _twice(name)
        return kinds

    # -- parts of the hybrid system -------------------------------------------------------------------------

    def _seen(self, t: Any, q: Array, v: Array, z: Any, p: Any) -> State:
        """The state, with each element and its own memory and parameters."""
        own = self.mechanism.layout
        here = self.mechanism.at(own.write([getattr(p, x) for x in own.fields.values()]))
        s = State(here.tree, tuple(here.gravity), t, q, v)
        s.mechanism = here
        s.elements = [
            (e, memory(*(getattr(z, full_name(e, x)) for x in memory._fields)),
             parameters(*(getattr(p, _parameter(e, x)) for x in parameters._fields)))
            for e, memory, parameters in self._tuples
        ]  # fmt: skip
        for element, z_, p_ in s.elements:
            element.tell(s, z_, p_)
        return s

    def _efforts_of(self, element: Element, s: State, z: Any, p: Any) -> Array:
        efforts = element.efforts(s, z, p)
        if efforts is None:
            return np.zeros(self.nv, int)
        return self._driven * efforts if element.driven else efforts

    def _accelerations(self, *at: Any) -> Array:
        return self._solved(self._seen(*at))[0]

    def _solved(self, s: State) -> tuple[Array, dict[Element, Array]]:
        """dv/dt (nv,), and the multipliers of the elements' constraints.

        With the acceleration a of the free robot, dv/dt = a + M^-1 J^T x,
        (J M^-1 J^T) x = -(J a + (dJ/dt) v).
        """
        a = s.mechanism.acceleration(s.t, s.q, s.v, *self._loads(s, s.elements))
        found = {e: rows for e, z, p in s.elements if (rows := e.constraint(s, z, p)) is not None}
        if not found:
            return a, {}
        J, rate = (np.concatenate(x) for x in zip(*found.values(), strict=True))
        X = solve(dynamics.mass_matrix(s.tree, s.q), J.T)
        x = solve(J @ X, -(J @ a + rate))
        ends = np.cumsum([len(rate) for _, rate in found.values()])[:-1]
        return a + X @ x, dict(zip(found, np.split(x, ends), strict=True))

    def _loads(self, s: State, each: Iterable[tuple[Element, Any, Any]]) -> tuple[Array, Array | None]:
        """Efforts (nv,) of the elements, and their wrenches on the bodies, (n, 6), None if there are none."""
        tau: Array = np.zeros(self.nv, int)
        wrenches = np.zeros((len(self.tree.bodies), 6), int).astype(object)
        loaded = False
        for element, z, p in each:
            tau = tau + self._efforts_of(element, s, z, p)
            for frame, force in element.forces(s, z, p):
                if not frame.body:  # of the world
                    continue
                R, arm = SE3.parts(np.asarray(frame.placement))
                force = R @ (s.pose(frame)[:3, :3].T @ force)
                i = frame.body - 1
                wrenches[i] = wrenches[i] + np.concatenate([cross(arm, force), force])
                loaded = True
        return tau, wrenches if loaded else None

    def _named(self, part: str, *at: Any) -> dict[str, Any]:
        s = self._seen(*at)
        return _joined(*(_called(e, getattr(e, part)(s, z, p)) for e, z, p in s.elements))

    def _updated(self, t: Any, q: Array, v: Array, z: Any, p: Any, events: Any) -> Any:
        s = self._seen(t, q, v, z, p)
        new = self._written(z, [(e, e.update(s, z_, p_, events)) for e, z_, p_ in s.elements])
        changed = [u for e, z_, p_ in s.elements if (u := e.velocity(s, z_, p_, events)) is not None]
        return (q, v + sum(u - v for u in changed), new) if changed else new

    def _started(self, t: Any, q: Array, v: Array, z: Any, p: Any) -> Any:
        s = self._seen(t, q, v, z, p)
        return self._written(z, [(e, e.start(s, z_, p_)) for e, z_, p_ in s.elements])

    def _written(self, z: Any, memories: list[tuple[Element, Any]]) -> Any:
        found = {full_name(e, x): y for e, memory in memories for x, y in memory._asdict().items()}
        return z._replace(**found)

    def _step(self, t: Any, q: Array, v: Array, z: Any, p: Any) -> Any:
        if not any(element.stiff for element in self.elements):
            return p.step
        s = self._seen(t, q, v, z, p)
        stance = where(t - s.landed < p.landing, p.landing_step, p.stance_step)
        return where(s.stance > 0.5, stance, p.step)

    def _stop(self, *at: Any) -> Any:
        s = self._seen(*at)
        found = [x for x in (e.stop(s, z, p) for e, z, p in s.elements) if x is not None]
        return functools.reduce(maximum, found)

    def _powers(self, *at: Any) -> dict[str, Any]:
        s = self._seen(*at)
        efforts = [self._efforts_of(e, s, z, p) for e, z, p in s.elements]
        return self._balance(s, efforts, [e.losses(s, z, p) for e, z, p in s.elements])

    def _balance(self, s: State, efforts: list[Array], lost: list[Any]) -> dict[str, Any]:
        """Powers by name, of the elements' efforts and losses."""
        v, driven, found = s.v, np.zeros(self.nv, int), []
        for (e, z, p), tau, own in zip(s.elements, efforts, lost, strict=True):
            if e.driven:
                driven = driven + tau
            given = tau @ v
            for frame, force in e.forces(s, z, p):
                given = given + force @ s.velocity(frame)
            losses = _called(e, own)
            self._lossy[e] = tuple(losses)
            found += [_called(e, {"work": given} if _acts(e) else {}), losses]
        joints = {}
        for body in self.tree.bodies:
            if body.joint.mimic is None and np.any(self._driven[body.dofs]):
                joints[f"joint_{body.joint.name}"] = driven[body.dofs] @ v[body.dofs]
        forces = {force.name: force.on_tree(s.tree, s.t, s.q, v) @ v for force in self.mechanism.forces}
        return _joined(joints, forces, *found)

    def _signals(self, *at: Any) -> dict[str, Any]:
        s = self._seen(*at)
        efforts: Array = np.zeros(self.nv, int)
        forbids = any(type(e).constraint is not Element.constraint for e in self.elements)
        reactions = self._solved(s)[1] if forbids else {}
        names = ("kinetic_energy", "potential_energy", "com", "com_velocity")
        found: list[Mapping[str, Any]] = [{name: getattr(s, name) for name in names}]
        for e, z, p in s.elements:
            if e.driven:
                efforts = efforts + self._efforts_of(e, s, z, p)
            own = {**e.outputs(s, z, p), **(e.reactions(z, reactions[e]) if e in reactions else {})}
            for name, x in (("energy", e.energy(s, z, p)), ("lost", e.lost(z))):
                if x is not None:
                    own[name] = x
            found.append(_called(e, own))
        storing = [force for force in self.mechanism.forces if force.stores]
        found.append({f"{force.name}_energy": force.energy_in_tree(s.tree, s.q) for force in storing})
        return _joined(*found, {"efforts": efforts}, dictionary_of(self._more, s) if self._more else {})

    def plastic_losses(self, log: EventLog, point: str) -> np.ndarray:
        """What a point that stops dead takes from the kinetic energy at each event of a log.  [J]

        u^T (J M^-1 J^T)^-1 u / 2 with the point's velocity u: the loss of touch-downs on a dead, stiff floor.
        Directions in which the point cannot move at all take no part.
        """
        found = []
        for q, v in zip(log.q, log.v, strict=True):
            J = dynamics.frame_jacobian(self.tree, q, point, "mixed")[3:]
            mobility = J @ np.linalg.solve(dynamics.mass_matrix(self.tree, q).astype(float), J.T)
            u = J @ v
            found.append(u @ np.linalg.pinv(mobility, rcond=1e-9, hermitian=True) @ u / 2)
        return np.array(found)

    def described(self, states: HybridStates) -> dict[str, Any]:
        """As `HybridSystem.described`: what a ledger says, along the run."""
        outputs = states.outputs
        coordinates, dofs = labels(self.tree)
        potential, done = outputs["potential_energy"], None
        if self.power_names:

            def change(kind: str, name: str) -> Array:
                x = getattr(states, kind)[name]
                return x - x[..., :1]

            found = self._accounts(change, outputs)
            potential = potential + sum(outputs[name] for name in found.stored)
            done = sum(found.work.values()) - sum(found.losses.values()) + np.zeros_like(potential)
        return {
            "coordinates": coordinates,
            "dofs": dofs,
            "kinetic": outputs["kinetic_energy"],
            "potential": potential,
            **({"tau": outputs["efforts"]} if outputs["efforts"].shape == states.v.shape else {}),
            "work_done": done,
            "tree": self.tree,
        }

    # -- methods with systems of their own ------------------------------------------------------------------

    def __init_subclass__(cls, method: str | None = None, **options: Any) -> None:
        super().__init_subclass__(**options)
        if method is not None:
            RobotSystem.by_method[method] = cls

    def stepped_by(self, method: Any) -> tuple[HybridSystem, Method]:
        kind = self.by_method.get(method) if isinstance(method, str) else None
        if kind is None:
            return super().stepped_by(method)
        if method not in self._others:
            robot, elements = self._description
            self._others[method] = kind(robot, *elements, **self._options, name=self.name)
        return self._others[method].stepped_by(method)

    # -- the ledger -----------------------------------------------------------------------------------------

    def ledger(self, run: HybridRun, member: Any = (), first: int = 0, last: int | None = None) -> Ledger:
        """The balance of energy of one member between two samples, or to where it ended.

        member       index of the member, or tuple of indices
        first, last  the samples; last = None: where the member ended, be it before t_end

        Errors: ShapeError for members and samples that are not there, for samples after the end, and for runs
        from a file without `last`: files have no final states.
        """
        member = member if isinstance(member, tuple) else (member,)
        if not is_index(member, run.end_times.shape):
            raise ShapeError(f"member {member} is no index of an ensemble of shape {run.end_times.shape}")
        if not self.power_names:
            raise ModelError(f"{self.name} was made without a ledger; leave out ledger=False")
        if run.work.keys() != set(self.power_names):
            raise ModelError(
                f"the run has the works {', '.join(run.work) or 'none'}, and {self.name} has "
                f"{', '.join(self.power_names)}: it is one of another system"
            )
        if last is None and run.final is None:
            raise ShapeError("a run from a file has no final states; give `last`, the number of a sample")
        for sample in (first, last):
            if sample is not None and not -len(run.t) <= sample < len(run.t):
                raise ShapeError(f"sample {sample} is not among the {len(run.t)} of this run")
            if sample is not None and run.t[sample] > run.end_times[member]:
                raise ShapeError(
                    f"sample {sample} is at t = {run.t[sample]:g} s, but the member ended at "
                    f"{run.end_times[member]:g} s: {run.ends[member]}; leave out `last`"
                )

        def change(kind: str, name: str) -> float:
            samples = getattr(run, kind)[name][member]
            end = getattr(run.final, kind)[name][member] if last is None else samples[last]
            return float(end - samples[first])

        return self._accounts(change, run.outputs)

    def _accounts(self, change: Callable[[str, str], Any], outputs: Collection[str]) -> Ledger:
        """The balance of changes of "work" and "outputs" by name, where there are these outputs."""
        energy = {name: change("outputs", f"{name}_energy") for name in ("kinetic", "potential")}
        work = {name: change("work", name) for name in self.power_names if name.startswith("joint_")}
        stored, losses, elements = {}, {}, {}
        for force in self.mechanism.forces:
            losses[force.name] = -change("work", force.name)
            if force.stores:
                stored[f"{force.name}_energy"] = change("outputs", f"{force.name}_energy")
                losses[force.name] -= stored[f"{force.name}_energy"]
        for e in self.elements:
            given, own, lost = (full_name(e, name) for name in ("work", "energy", "lost"))
            if given in self.power_names:
                elements[given] = change("work", given)
            if e.driven:
                continue
            if own in outputs:
                stored[own] = change("outputs", own)
                losses |= {name: change("work", name) for name in self._lossy[e]}
                losses |= {lost: change("outputs", lost)} if lost in outputs else {}
            elif given in elements:  # from outside
                work[given] = elements[given]
        return Ledger(energy, stored, work, losses, elements)


robot_system = RobotSystem


@dataclass(frozen=True)
class Ledger:
    """Where energy came from and went.                                                                  [J]

    energy    changes of the robot's kinetic and potential energy
    stored    changes of the energy that passive elements store: springs of the floor
    work      of drives, joint by joint, and of outer elements
    losses    what passive elements and forces dissipated, with stored energy that was let go
    elements  work of each element on the robot; of controllers it is part of `work`
    """

    energy: dict[str, float]
    stored: dict[str, float]
    work: dict[str, float]
    losses: dict[str, float]
    elements: dict[str, float]

    @property
    def residual(self) -> float:
        """Work less losses less what is there now; zero but for errors of integration."""
        parts = (self.work, self.losses, self.energy, self.stored)
        work, losses, energy, stored = (sum(part.values()) for part in parts)
        return work - losses - energy - stored

    @property
    def throughput(self) -> float:
        """Sum of the amounts that were moved."""
        parts = (self.work, self.losses, self.energy, self.stored)
        return sum(abs(x) for part in parts for x in part.values())

    def __str__(self) -> str:
        lines = []
        for title in ("work", "losses", "energy", "stored"):
            for name, x in getattr(self, title).items():
                lines.append(f"{title:8} {name:28} {x:12.6f} J")
        lines.append(f"{'residual':37} {self.residual:12.2e} J of {self.throughput:.4g} J")
        return "\n".join(lines)


def check_range(name: str, least: float, most: float, given: Any) -> np.ndarray:
    """What is given as numbers within a range; raises ModelError."""
    values = floats(name, given)
    if not ((least <= values) & (values <= most)).all():
        wanted = f"from {least:g} to {most:g}" if np.isfinite(most) else "of zero or more"
        raise ModelError(f"{name} is {short(values.tolist())}, expected numbers {wanted}")
    return values


def one_by_one(elements: Iterable[Any]) -> list[Any]:
    """Elements, or sequences of such, one after the other."""
    return [x for given in elements for x in (given if isinstance(given, Iterable) else [given])]


def word(name: str) -> str:
    """The name of a frame as a part of other names, with underscores for what is no letter or digit."""
    return re.sub(r"\W", "_", name, flags=re.ASCII)


def _twice(name: str) -> ModelError:
    return ModelError(f"two elements have something called {name!r}; give one of them another name")


def _joined(*parts: Mapping[str, Any]) -> dict[str, Any]:
    """All of what several parts bring. Raises ModelError for a name that comes twice."""
    names = Counter(name for part in parts for name in part)
    for name in (name for name, count in names.items() if count > 1):
        raise _twice(name)
    return {name: x for part in parts for name, x in part.items()}


def _called(element: Element, own: Mapping[str, Any]) -> dict[str, Any]:
    return {full_name(element, name): x for name, x in own.items()}


def full_name(element: Element, name: str) -> str:
    return "_".join(x for x in (element.name, name) if x)


def _parameter(element: Element, name: str) -> str:
    prefix = element.name if element.prefix is None else element.prefix
    return "_".join(x for x in (prefix, name) if x)


def _acts(element: Element) -> bool:
    """Whether an element gives efforts or forces."""
    return any(getattr(type(element), x) is not getattr(Element, x) for x in ("efforts", "forces"))


def driven(tree: Tree, actuated: Iterable[str] | None) -> np.ndarray:
    """1 for velocities whose joints have drives, (nv,)."""
    found = np.ones(tree.nv, int) if actuated is None else np.zeros(tree.nv, int)
    for name in actuated or ():
        joint = tree.joint(name)
        body = next(body for body in tree.bodies if body.joint is joint)
        found[body.dofs] = 1
    return found
