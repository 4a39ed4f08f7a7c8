"""Robots with contacts and controllers, as hybrid systems with a ledger of energies.

    system = robot_system(lb.models.revolute_hopper(), controller_2("foot"), Contact("foot"))
    run = system.simulate(q0, v0, t_end=20, parameters={"K_p": np.linspace(2, 10, 64)})
    print(system.ledger(run, member=3))

A robot system is a tree of bodies and *elements* that act on it. Each element brings efforts or wrenches,
memory, losses and stored energy. The equations of motion are

    M(q) v' + C(q, v) v + g(q) = sum of tau_k + sum of J_k^T F_k,

solved by the articulated-body algorithm; an element may add a constraint, too (`Element.constraint`). All of
it is traced and compiled into one loop.
"""

from __future__ import annotations

import copy
import functools
from collections import Counter, namedtuple
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar

import numpy as np

from .. import dynamics
from ..base.arguments import names
from ..base.concurrency import cached_property
from ..base.errors import SECONDS, ModelError, positive
from ..bodies import Tree
from ..bodies.labels import labels
from ..dynamics import FREE_FALL
from ..groups import SE3
from ..integrators import Method
from ..mechanisms import Force, JointDamping, OpenTree, force_named
from ..mechanisms.constrained import ClosedTree
from ..runs import HybridStates
from ..scalars import Array, maximum, minimum, where
from ..scalars.linear import cross, solve
from .element import (
    Element,
    check_once,
    check_range,
    driven,
    full_name,
    joined,
    one_by_one,
    parameter_name,
    with_full_names,
)
from .equations import KernelCall, dictionary_of
from .ledger import AccountedSystem
from .robot_state import State
from .system import HybridSystem

TOGETHER = 1e-9  # times that differ by less are the same                                                [s]


class RobotSystem(AccountedSystem):
    """The hybrid system of a robot with contacts and controllers; see the head of this module.

    robot         a Robot, or a Tree; of `TimeStepping` also a `ClosedTree`
    elements      contacts, controllers, events: `Element`s; `Force`s, or their names (`force_named`), beside
                  the joints' damping; or sequences of both
    gravity       acceleration of free fall, (3,); default: gravity of the robot                      [m/s2]
    step          the step in flight, a parameter of the system                                           [s]
    stance_step   the step while something touches, likewise                                              [s]
    landing_step  the step in the first time `landing` after a touch-down, likewise                       [s]
    actuated      a name, or names, of the joints that have drives; others get no efforts of controllers.
                  Default: all, the free joint of the base included
    ledger        whether works and losses are integrated along
    outputs       more signals: State -> {name: signal}

    Steps must resolve the contacts: with damping D and the mass m that a point shows to the floor, explicit
    methods of order 4 need steps below 2.7 m / D. Its works are, by name:

    joint_<name>      of the drive of each joint; work of a floating base's joint comes from outside
    <force>           of each force, such as the joints' damping (negative), if they have any
    <element>_work    work of each element on the robot
    <element>_<loss>  dissipation of each element (positive)

    Errors: ModelError for names that two elements share, or frames and joints that the robot does not have.
    """

    resolves_contacts = True  # by short steps while something touches
    closes_loops = False  # whether the robot may be a `ClosedTree`
    by_method: ClassVar[dict[str, type[RobotSystem]]] = {}  # classes that replace this one for a method

    def __init__(
        self,
        robot: Any,
        *elements: Element | Force | str | Iterable[Element | Force | str],
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
        flat = [force_named(x) if isinstance(x, str) else x for x in one_by_one(elements)]
        for element in flat:
            if not isinstance(element, (Element, Force)):
                raise ModelError(
                    f"{element!r} is no element of a robot system, such as Contact or RadialSpring"
                )
        forces = [x for x in flat if isinstance(x, Force)]
        self.mechanism = _mechanism(robot, forces, gravity, self.closes_loops)
        self.tree = tree = getattr(robot, "tree", robot)
        self.gravity = tuple(self.mechanism.gravity)
        self.elements = tuple(copy.deepcopy(x) for x in flat if isinstance(x, Element))
        self._more_outputs = outputs

        # `stepped_by` makes systems for other methods from these arguments
        self._other_systems: dict[str, RobotSystem] = {}
        self._description = robot, tuple(flat)
        self._options: dict[str, Any] = {"gravity": gravity, "actuated": actuated}
        self._options |= {"ledger": ledger, "outputs": outputs}

        self._lossy: dict[Element, tuple[str, ...]] = {}
        for element in self.elements:
            element.attach(tree)
        self._driven = driven(tree, actuated)
        steps = self._steps(step, stance_step, landing_step, landing)
        free = robot.layout.defaults if robot is not tree else {}
        kinds = self._by_full_names()

        super().__init__(
            tree.group,
            self._accelerations,
            memory=kinds["memory"],
            flows=kinds["flows"],
            parameters=joined(kinds["parameters"], steps, free),
            rates=self._if_any("rates", functools.partial(self._collected, "rates")),
            start=self._if_any("start", self._started),
            guards=self._if_any("guards", functools.partial(self._collected, "guards")),
            directions=kinds["directions"],
            update=self._if_any("update", self._updated),
            step=self._step,
            stop=self._if_any("stop", self._stop),
            powers=self._powers if ledger else None,
            outputs=self._signals,
            calls=[self._call(k) for k, e in enumerate(self.elements) if e.called is not None],
            name=name or tree.name,
        )
        self.parameters.checks = {**self.mechanism.layout.checks, **self._range_checks()}

    def _range_checks(self) -> dict[str, Callable[..., Any]]:
        """Functions that check the values of parameters in a simulation, by the ranges of the elements."""
        ranges = {parameter_name(e, key): x for e in self.elements for key, x in e.ranges.items()}
        return {name: functools.partial(check_range, name, *limits) for name, limits in ranges.items()}

    def _steps(
        self, step: float, stance_step: float, landing_step: float, landing: float
    ) -> dict[str, float]:
        """Parameters for the lengths of steps; contacts need short steps, unless they are solved for."""
        steps = {"step": positive("step", step, SECONDS)}
        if self.resolves_contacts and any(element.stiff for element in self.elements):
            lengths = {"stance_step": stance_step, "landing_step": landing_step}
            steps |= {name: positive(name, x, SECONDS) for name, x in lengths.items()} | {"landing": landing}
        return steps

    def _if_any(self, part: str, function: Callable[..., Any]) -> Callable[..., Any] | None:
        """The function if an element overrides this method of `Element`; else None."""
        has = any(getattr(type(e), part) is not getattr(Element, part) for e in self.elements)
        return function if has else None

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
            for kind, values in kinds.items():
                name_of = parameter_name if kind == "parameters" else full_name
                renamed = {name_of(element, key): value for key, value in getattr(element, kind).items()}
                # a direction has the name of a guard, which `joined` checks
                taken.update([] if kind == "directions" else list(renamed))
                values.update(renamed)
        check_once(taken)
        return kinds

    # -- parts of the hybrid system -------------------------------------------------------------------------

    def _state(self, t: Any, q: Array, v: Array, z: Any, p: Any) -> State:
        """The state of the robot, in which each element has its memory and parameters."""
        layout = self.mechanism.layout
        here = self.mechanism.at(layout.write([getattr(p, x) for x in layout.fields.values()]))
        s = State(here.tree, tuple(here.gravity), t, q, v)
        s.mechanism = here
        s.elements = [
            (e, memory(*(getattr(z, full_name(e, x)) for x in memory._fields)),
             parameters(*(getattr(p, parameter_name(e, x)) for x in parameters._fields)))
            for e, memory, parameters in self._tuples
        ]  # fmt: skip
        # contacts and stores of energy are announced first, because other elements may ask for them
        for element, z_, p_ in s.elements:
            element.tell(s, z_, p_)
        return s

    def _efforts_of(self, element: Element, s: State, z: Any, p: Any) -> Array:
        """Efforts of one element, (nv,); drives act on actuated joints only."""
        efforts = element.efforts(s, z, p)
        if efforts is None:
            return np.zeros(self.nv, int)
        return self._driven * efforts if element.driven else efforts

    def _accelerations(self, *arguments: Any) -> Array:
        return self._constrained_motion(self._state(*arguments))[0]

    def _constrained_motion(self, s: State) -> tuple[Array, dict[Element, Array]]:
        """dv/dt (nv,), and the multipliers of the elements' constraints.

        With the acceleration a of the free robot, dv/dt = a + M^-1 J^T x,
        (J M^-1 J^T) x = -(J a + (dJ/dt) v).
        """
        a = s.mechanism.acceleration(s.t, s.q, s.v, *self._loads(s, s.elements))
        constraints = {e: rows for e, z, p in s.elements if (rows := e.constraint(s, z, p)) is not None}
        if not constraints:
            return a, {}
        # the rows of all constraints are solved together, because their forces act on each other
        J, rate = (np.concatenate(x) for x in zip(*(rows[:2] for rows in constraints.values()), strict=True))
        X = solve(dynamics.mass_matrix(s.tree, s.q), J.T)
        x = solve(J @ X, -(J @ a + rate))
        ends = np.cumsum([len(rows[1]) for rows in constraints.values()])[:-1]
        multipliers = {
            e: rows[2] @ part if len(rows) == 3 else part
            for (e, rows), part in zip(constraints.items(), np.split(x, ends), strict=True)
        }
        return a + X @ x, multipliers

    def _loads(self, s: State, each: Iterable[tuple[Element, Any, Any]]) -> tuple[Array, Array | None]:
        """Efforts (nv,) of the elements, and their wrenches on the bodies, (n, 6), None without forces."""
        tau: Array = np.zeros(self.nv, int)
        wrenches = np.zeros((len(self.tree.bodies), 6), int).astype(object)
        loaded = False
        for element, z, p in each:
            tau = tau + self._efforts_of(element, s, z, p)
            for frame, force in element.forces(s, z, p):
                if not frame.body:  # a frame of the world, which no force moves
                    continue
                # from the world's axes at the frame to the axes and the origin of the body
                R, arm = SE3.parts(np.asarray(frame.placement))
                force = R @ (s.pose(frame)[:3, :3].T @ force)
                i = frame.body - 1
                wrenches[i] = wrenches[i] + np.concatenate([cross(arm, force), force])
                loaded = True
        return tau, wrenches if loaded else None

    def _collected(self, part: str, *arguments: Any) -> dict[str, Any]:
        """Results of a method of all elements, by full names."""
        s = self._state(*arguments)
        return joined(*(with_full_names(e, getattr(e, part)(s, z, p)) for e, z, p in s.elements))

    def _updated(self, t: Any, q: Array, v: Array, z: Any, p: Any, events: Any) -> Any:
        s = self._state(t, q, v, z, p)
        new = self._with_memories(z, [(e, e.update(s, z_, p_, events)) for e, z_, p_ in s.elements])
        velocities = [u for e, z_, p_ in s.elements if (u := e.velocity(s, z_, p_, events)) is not None]
        # Changes of velocity add up. Without them the update returns z alone, so that variations of q and v
        # stay exact.
        return (q, v + sum(u - v for u in velocities), new) if velocities else new

    def _started(self, t: Any, q: Array, v: Array, z: Any, p: Any) -> Any:
        s = self._state(t, q, v, z, p)
        return self._with_memories(z, [(e, e.start(s, z_, p_)) for e, z_, p_ in s.elements])

    def _with_memories(self, z: Any, memories: list[tuple[Element, Any]]) -> Any:
        """The memory z of the system with new memories of its elements."""
        new = {full_name(e, x): y for e, memory in memories for x, y in memory._asdict().items()}
        return z._replace(**new)

    def _step(self, t: Any, q: Array, v: Array, z: Any, p: Any) -> Any:
        h = p.step
        calling = any(element.called is not None for element in self.elements)
        if not calling and not any(element.stiff for element in self.elements):
            return h
        s = self._state(t, q, v, z, p)
        if any(element.stiff for element in self.elements):
            # the shortest steps resolve the landing, when the contact forces rise
            stance = where(t - s.landed < p.landing, p.landing_step, p.stance_step)
            h = where(s.stance > 0.5, stance, h)
        for e, z_, p_ in s.elements:
            if e.called is not None:
                wait = e.next_call(s, z_, p_) - t
                h = where(wait > TOGETHER, minimum(h, wait), h)  # what is due here is called before the step
        return h

    def _call(self, k: int) -> KernelCall:
        """The call of element number k."""
        kernel = self.elements[k].called
        assert kernel is not None
        parts = (self._due, self._ask, self._answer)
        return KernelCall(kernel, *(functools.partial(part, k) for part in parts))

    def _due(self, k: int, *arguments: Any) -> Any:
        s = self._state(*arguments)
        e, z, p = s.elements[k]
        return where(e.next_call(s, z, p) - s.t > TOGETHER, 0.0, 1.0)

    def _ask(self, k: int, *arguments: Any) -> Any:
        s = self._state(*arguments)
        e, z, p = s.elements[k]
        return e.ask(s, z, p)

    def _answer(self, k: int, t: Any, q: Array, v: Array, z: Any, p: Any, *results: Array) -> Any:
        s = self._state(t, q, v, z, p)
        e, z_, p_ = s.elements[k]
        return self._with_memories(z, [(e, e.answer(s, z_, p_, *results))])

    def _stop(self, *arguments: Any) -> Any:
        s = self._state(*arguments)
        values = [x for x in (e.stop(s, z, p) for e, z, p in s.elements) if x is not None]
        return functools.reduce(maximum, values)

    def _powers(self, *arguments: Any) -> dict[str, Any]:
        s = self._state(*arguments)
        efforts = [self._efforts_of(e, s, z, p) for e, z, p in s.elements]
        return self._powers_by_name(s, efforts, [e.losses(s, z, p) for e, z, p in s.elements])

    def _signals(self, *arguments: Any) -> dict[str, Any]:
        s = self._state(*arguments)
        efforts: Array = np.zeros(self.nv, int)
        constrained = any(type(e).constraint is not Element.constraint for e in self.elements)
        multipliers = self._constrained_motion(s)[1] if constrained else {}
        # signals of the robot, then of its elements, then of its forces, then further ones of the user
        of_robot = ("kinetic_energy", "potential_energy", "com", "com_velocity")
        signals: list[Mapping[str, Any]] = [{name: getattr(s, name) for name in of_robot}]
        for e, z, p in s.elements:
            if e.driven:
                efforts = efforts + self._efforts_of(e, s, z, p)
            values = {**e.outputs(s, z, p), **(e.reactions(z, multipliers[e]) if e in multipliers else {})}
            for name, x in (("energy", e.energy(s, z, p)), ("lost", e.lost(z))):
                if x is not None:
                    values[name] = x
            signals.append(with_full_names(e, values))
        storing = [force for force in self.mechanism.forces if force.stores]
        signals.append({f"{force.name}_energy": force.energy_in_tree(s.tree, s.q) for force in storing})
        more = dictionary_of(self._more_outputs, s) if self._more_outputs else {}
        return joined(*signals, {"efforts": efforts}, more)

    def touching(self, z: Any) -> dict[str, Array]:
        flags = {}
        for e, memory, _ in self._tuples:
            touching = e.touching(memory(*(getattr(z, full_name(e, x)) for x in memory._fields)))
            if touching is not None:
                flags[full_name(e, "force")] = touching
        return flags

    def described(self, states: HybridStates) -> dict[str, Any]:
        """As `HybridSystem.described`, with the energies, works and losses of a ledger along the run."""
        outputs = states.outputs
        coordinates, dofs = labels(self.tree)
        potential = outputs["potential_energy"]
        work_done = None
        if self.power_names:
            # the ledger of each sample, from the first one on
            def change(kind: str, name: str) -> Array:
                x = getattr(states, kind)[name]
                return x - x[..., :1]

            balance = self._balance(change, outputs)
            potential = potential + sum(outputs[name] for name in balance.stored)
            work_done = sum(balance.work.values()) - sum(balance.losses.values()) + np.zeros_like(potential)
        return {
            "coordinates": coordinates,
            "dofs": dofs,
            "kinetic": outputs["kinetic_energy"],
            "potential": potential,
            **({"tau": outputs["efforts"]} if outputs["efforts"].shape == states.v.shape else {}),
            "work_done": work_done,
            "tree": self.tree,
        }

    # -- methods that need a system with other elements ------------------------------------------------------

    def __init_subclass__(cls, method: str | None = None, **options: Any) -> None:
        super().__init_subclass__(**options)
        if method is not None:
            RobotSystem.by_method[method] = cls

    def stepped_by(self, method: Any) -> tuple[HybridSystem, Method]:
        kind = self.by_method.get(method) if isinstance(method, str) else None
        if kind is None:
            return super().stepped_by(method)
        if method not in self._other_systems:
            robot, elements = self._description
            self._other_systems[method] = kind(robot, *elements, **self._options, name=self.name)
        return self._other_systems[method].stepped_by(method)


robot_system = RobotSystem


def _mechanism(robot: Any, forces: list[Force], gravity: Array | None, closes_loops: bool) -> OpenTree:
    """The robot with its forces, among them the damping of its joints; raises ModelError."""
    tree = getattr(robot, "tree", robot)
    if not isinstance(tree, Tree):
        raise ModelError(f"robot_system takes a Robot or a Tree, not {robot!r}")
    closed = isinstance(robot, ClosedTree)
    if closed and not closes_loops:
        raise ModelError(
            f"{tree.name} has closed loops, which are for time stepping: contact.TimeStepping(robot, "
            "...); without contacts, lb.simulate(robot, ...)"
        )
    free = robot.layout.defaults if robot is not tree else {}
    # The damping may be zero by default and a free parameter. A `ClosedTree` has the force already.
    damped = any(np.any(np.asarray(body.damping, float)) for body in tree.bodies)
    if not closed and (damped or any(name.endswith(".damping") for name in free)):
        forces = [JointDamping(), *forces]
    if (free or closed) and gravity is not None:
        raise ModelError(
            f"{tree.name} has free parameters, or loops, and a gravity of its own; leave out gravity = "
            f"{gravity!r} here, and give robot.with_parameters({{'gravity': ...}})"
        )
    if closed:
        return robot.with_forces(*forces)
    fall: Any = getattr(robot, "gravity_vector", FREE_FALL) if gravity is None else gravity
    return OpenTree(tree, fall, tuple(forces), robot=robot if free else None)
