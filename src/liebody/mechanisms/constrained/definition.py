"""The definition of a system, as its builder collected it; and its numbers as parameters.

<body>.mass, .center, .inertia      as of robots' bodies; the inertia positive definite
<joint>.position, .orientation      where the joint's frame lies on the parent, as of robots' joints
<joint>.child.position, ...         and on the child
<joint>.damping, .friction, ...     as of robots' joints, without armature
<rod>.length                        of a massless rod                                                    [m]
<spring>.stiffness, .damping, .rest of a spring-damper; of a spring in a joint without damping
<rod>.a.position, .b.position       where the ends of a rod or a spring-damper lie on the bodies         [m]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...base.errors import ModelError, known
from ...bodies import WORLD, Joint, Parameter, SpatialInertia, matrix_of
from ...bodies.parameters import (
    LOSSES,
    inertia_with,
    losses_with,
    of_inertia,
    of_losses,
    of_placement,
    placement_with,
)
from ...groups import SE3, MotionSubgroup, Revolute
from ...scalars import Array
from ..forces import JointDamping, JointFriction, JointLimits, JointSpring
from ..prescribed import OfTime
from .bodies import GROUPS, SLIGHT, MovingBody
from .constraints import Constraint, ConstraintKind, Distance, JointFrames, OnCurve, Universal, lower_pair
from .coordinates import GROUND
from .drives import SUFFIX, AngleDrive
from .forces import BodyForce, ForceKind, JointEffort, SpringDamper, as_constants, effort_of_joint, with_law
from .system import System

LOSSES_OF_JOINTS = tuple(loss for loss in LOSSES if loss != "armature")
OF_SPRINGS = {"stiffness": "N/m", "damping": "N s/m", "rest": "m"}
LENGTH = {"length": "m"}


@dataclass(frozen=True)
class GivenBody:
    """A body as it was given; `whole`: with an inertia about all axes, to which nothing is added."""

    inertia: SpatialInertia
    pose: np.ndarray | None
    configuration: str
    whole: bool = False


@dataclass(frozen=True)
class GivenLink:
    """A constraint or force as it was given: between which bodies, and where on them."""

    name: str
    kind: Any
    bodies: tuple[str, ...]
    frames: tuple[np.ndarray, ...]  # poses (4, 4) in the bodies' own frames
    joint: Joint | None = None
    constants: tuple[Any, ...] = ()
    acting: frozenset[str] = frozenset()  # fields of the joint whose forces act: friction, stiffness, lower
    exchanged: bool = False  # whether parent and child were exchanged, because the child is the world

    @property
    def group(self) -> MotionSubgroup | None:
        return None if self.joint is None else self.joint.group


def link_of_drive(links: Mapping[str, GivenLink], name: str, function: OfTime, system: str) -> GivenLink:
    """The constraint `name`.drive, by which a joint among these links follows a function of time."""
    joints = {name: link for name, link in links.items() if link.joint is not None}
    if name not in joints:
        raise ModelError(f"{system} has no joint called {name!r}; {known(joints, name)}")
    if name + SUFFIX in links:
        raise ModelError(
            f"joint {name!r} of {system} has a drive already; leave one of its two functions out"
        )
    link = joints[name]
    if link.exchanged:
        raise ModelError(
            f"joint {name!r}: the child is the world; make the world the parent, so that a drive has a "
            "direction"
        )
    assert link.joint is not None
    return GivenLink(name + SUFFIX, AngleDrive.of(link.joint, function), link.bodies, link.frames)


@dataclass(frozen=True, eq=False)
class Definition:
    """Bodies, constraints and forces by name, and the `System` that they make."""

    name: str
    gravity: Array
    bodies: dict[str, GivenBody]
    constraints: dict[str, GivenLink]
    forces: dict[str, GivenLink]
    stops: JointLimits | None = None  # at the limits of joints

    def system(self) -> System:
        """The system, whose numbers may be symbols."""
        names = {WORLD: GROUND, **{name: i for i, name in enumerate(self.bodies)}}
        poses = self._guesses()
        acting: dict[str, list[GivenLink]] = {name: [] for name in names}  # constraints, then forces
        for link in (*self.constraints.values(), *self.forces.values()):
            for name in dict.fromkeys(link.bodies):
                acting[name].append(link)
        # bodies first: their centres of mass, groups and levers follow from the links that act on them
        bodies = tuple(
            MovingBody(
                name,
                body.inertia,
                *self._configuration(name, body, acting[name]),
                poses[name],
                self._lever(name, body, acting[name]),
            )
            for name, body in self.bodies.items()
        )
        constraints = tuple(
            self._constraint(link, names, bodies, poses) for link in self.constraints.values()
        )
        # forces in the order of u; springs in joints have no entry of it and join the joints' laws last
        forces = []
        springs = []
        nu = 0
        joints = {c.name: c for c in constraints}
        for link in self.forces.values():
            if link.kind is None:
                assert link.joint is not None
                springs.append((link.joint.name, *link.constants))
                continue
            place = slice(nu, nu := nu + link.kind.efforts)
            if isinstance(link.kind, JointEffort):
                forces.append(effort_of_joint(joints[link.name], True, place))
            else:
                forces.append(self._force(link, names, bodies, place))
        forces = with_law(forces, JointDamping(), constraints)
        for field, law_of_joints in (("friction", JointFriction()), ("stiffness", JointSpring())):
            of_joints = [c for c in constraints if field in self.constraints[c.name].acting]
            forces = with_law(forces, law_of_joints, of_joints)
        if self.stops is not None:
            forces = with_law(forces, self.stops, constraints)
        while springs:  # of each joint the first one is in the same law
            first = {joint: (k, rest) for joint, k, rest in reversed(springs)}
            law = JointSpring({j: k for j, (k, _) in first.items()}, {j: x for j, (_, x) in first.items()})
            forces = with_law(forces, law, constraints)
            springs = [x for x in springs if first.pop(x[0], None) is None]
        curves = tuple(
            float(link.constants[0]) for link in self.constraints.values() if isinstance(link.kind, OnCurve)
        )
        return System(self.name, bodies, constraints, tuple(forces), self.gravity, curves, definition=self)

    # -- numbers by name ------------------------------------------------------------------------------------

    def of_bodies(self, system: System) -> dict[str, Parameter]:
        """The parameters of bodies, with the values of the system."""
        parameters: dict[str, Parameter] = {}
        for b in system.bodies:
            parameters |= of_inertia(b.name, b.whole)
            name = f"{b.name}.inertia"
            parameters[name] = _MovingInertia(name, parameters[name].value, "kg m2")
        return parameters

    def of_links(self, system: System) -> dict[str, Parameter]:
        """The parameters of joints, rods and springs."""
        parameters: dict[str, Parameter] = {}
        # the numbers of constraints come from the system, because it knows lengths that were guessed
        links = [(link, link.constants) for link in self.forces.values()]
        links += [(self.constraints[c.name], c.constants[2:3]) for c in system.constraints]
        for link, constants in links:
            for (kind, unit), x in zip(_kinds(link).items(), constants):
                name = f"{link.name}.{kind}"
                parameters[name] = Parameter(name, np.array(x, float), unit)
            for holder, T in zip(_holders(link), link.frames):
                if link.joint is None:
                    name = f"{holder}.position"
                    parameters |= {name: Parameter(name, T[:3, 3], "m")} if _kinds(link) else {}
                elif link.name in self.constraints:
                    parameters |= of_placement(holder, T)
            if link.joint is not None:
                parameters |= of_losses(link.joint, LOSSES_OF_JOINTS)
        return parameters

    def with_values(self, values: Mapping[str, Array], nominal: System) -> Definition:
        """The same with these values of its parameters, numbers or symbols, next to the nominal system."""

        def linked(link: GivenLink, constants: tuple[Any, ...]) -> GivenLink:
            kinds = zip(_kinds(link), constants)
            return replace(
                link,
                frames=tuple(placement_with(*x, values) for x in zip(_holders(link), link.frames)),
                joint=link.joint and losses_with(link.joint, values),
                constants=tuple(values.get(f"{link.name}.{k}", x) for k, x in kinds) or link.constants,
            )

        return replace(
            self,
            gravity=values.get("gravity", self.gravity),
            bodies={
                b.name: replace(
                    self.bodies[b.name],
                    inertia=inertia_with(b.name, b.whole, values),
                    # the nominal guess stays: neutral joints at other placements would put loops elsewhere
                    pose=b.guess,
                    whole=True,
                )
                for b in nominal.bodies
            },
            constraints={
                c.name: linked(self.constraints[c.name], c.constants[2:3]) for c in nominal.constraints
            },
            forces={name: linked(link, link.constants) for name, link in self.forces.items()},
        )

    def with_stops(self, contact: float = 0.02) -> Definition:
        """The same, in which stops act at the limits of joints, with contacts of this time [s].

        k = m (pi / contact)^2, T = contact / pi, as of `JointLimits.stops`; m is the inertia that the joint
        feels where the bodies are guessed, with all others free to move.
        """
        limited = [name for name, link in self.constraints.items() if "lower" in link.acting]
        if not limited:
            return self
        system = self.system()
        q = system.guess
        W = system.inverse_mass_root(q, ())
        # motions that constraints allow: W P, with P onto the kernel of J W
        J = system.measure(q)[1] @ W
        P = np.eye(J.shape[1]) - np.linalg.pinv(J, rcond=1e-9) @ J
        stiffness = {}
        for name in limited:
            measured = self.driven({name: lambda t: 0.0 * t}).system()
            row = measured.measure(q)[1][measured.rows[name + SUFFIX]][0] @ W
            mobility = [row @ P @ row, row @ row]  # a joint that constraints hold feels its two bodies alone
            inverse = mobility[0] if mobility[0] > 1e-9 * mobility[1] else mobility[1]
            stiffness[name] = float((np.pi / contact) ** 2 / inverse)
        return replace(self, stops=JointLimits(stiffness, contact / np.pi))

    def driven(self, drives: Mapping[str, OfTime]) -> Definition:
        """The same, in which joints follow functions of time."""
        constraints = dict(self.constraints)
        for name, function in drives.items():
            link = link_of_drive(constraints, name, function, self.name)
            constraints[link.name] = link
        return replace(self, constraints=constraints)

    # -- the system -----------------------------------------------------------------------------------------

    def _lever(self, name: str, body: GivenBody, acting: list[GivenLink]) -> float:
        """How far from its centre of mass these links act on a body."""
        if body.whole:
            return 0.0
        com = np.asarray(body.inertia.com, float)
        arms = [
            # frames and centre of mass are both in the body's own frame
            float(np.linalg.norm(frame[:3, 3] - com))
            for link in acting
            for frame, of in zip(link.frames, link.bodies)
            if of == name
        ]
        return max(arms, default=0.0)

    def _configuration(self, name: str, body: GivenBody, acting: list[GivenLink]) -> tuple[Any, str]:
        """The group of a body on which these links act, and why."""
        if body.configuration != "auto":
            return GROUPS[body.configuration], "as given"
        constraints = [link for link in acting if self.constraints.get(link.name) is link]
        # only a lower pair to the ground keeps the absolute motion in a subgroup (Mueller, Terze)
        for link in constraints:
            if link.group is not None and link.bodies == (WORLD, name):
                return GROUPS["SE3"], f"on the ground by {link.name!r}, {link.group!r}: a motion subgroup"
        if not constraints:
            return GROUPS["SO3xR3"], "free: its centre of mass moves along a parabola, not a screw"
        return GROUPS["SO3xR3"], "its absolute motion is no motion subgroup"

    def _guesses(self) -> dict[str, np.ndarray]:
        """Poses of the bodies' frames: as given, else along neutral joints, else at the origin."""
        poses = {WORLD: np.eye(4)}
        poses |= {name: body.pose for name, body in self.bodies.items() if body.pose is not None}
        joints = [link for link in self.constraints.values() if link.group is not None]
        # from bodies with a known pose along neutral joints, in either direction, to all that can be reached
        missing = True
        while missing:
            missing = False
            for link in joints:
                parent, child = link.bodies
                on_parent, on_child = link.frames
                group = link.group
                assert group is not None
                # the child's pose in the parent with the joint at its neutral coordinates
                step = on_parent @ group.pose(group.neutral()).astype(float) @ SE3.inverse(on_child)
                for placed, new, way in ((parent, child, step), (child, parent, SE3.inverse(step))):
                    if placed in poses and new not in poses:
                        poses[new] = poses[placed] @ way
                        missing = True
        return {name: poses.get(name, np.eye(4)) for name in (WORLD, *self.bodies)}

    def _constraint(
        self,
        link: GivenLink,
        names: dict[str, int],
        bodies: Sequence[MovingBody],
        poses: dict[str, np.ndarray],
    ) -> Constraint:
        numbers = tuple(names[b] for b in link.bodies)
        at = [_at_com(bodies, i, T) for i, T in zip(numbers, link.frames, strict=True)]
        kind: ConstraintKind = link.kind
        joint = None
        constants: tuple[Any, ...]
        if link.group is not None:
            _, axes, pitch = lower_pair(link.group)
            # the kinds know one frame of a joint: here it is turned so that its axis is z
            a, b = at[0] @ axes, at[1] @ axes
            constants = (a[:3, :3], a[:3, 3], b[:3, :3], b[:3, 3], pitch)
            assert link.joint is not None
            joint = JointFrames(link.joint, at[0], at[1])
        elif isinstance(kind, AngleDrive):
            a, b = (T @ kind.axes for T in at)
            constants = (a[:3, :3], a[:3, 3], b[:3, :3], b[:3, 3])
        elif isinstance(kind, Universal):
            da, db = (T[:3, :3] @ d for T, d in zip(at, link.constants, strict=True))
            constants = (da, at[0][:3, 3], db, at[1][:3, 3])
        elif isinstance(kind, Distance):
            (length,) = link.constants
            if length is None:
                ends = [(poses[b] @ T)[:3, 3] for b, T in zip(link.bodies, link.frames, strict=True)]
                length = float(np.linalg.norm(ends[1] - ends[0]))
                if length < 1e-12:
                    raise ModelError(
                        f"rod {link.name!r} has no length where its bodies are guessed; give one"
                    )
            constants = (at[0][:3, 3], at[1][:3, 3], length)
        elif isinstance(kind, OnCurve):
            constants = (at[1][:3, 3], at[0][:3, 3])
        else:
            constants = tuple(x for T in at for x in (T[:3, :3], T[:3, 3]))
        frame = at[-1]
        return Constraint(link.name, kind, numbers, as_constants(constants), frame, joint)

    def _force(
        self, link: GivenLink, names: dict[str, int], bodies: Sequence[MovingBody], efforts: slice
    ) -> BodyForce:
        numbers = tuple(names[b] for b in link.bodies)
        at = [_at_com(bodies, i, T) for i, T in zip(numbers, link.frames, strict=True)]
        kind: ForceKind = link.kind
        constants: tuple[Any, ...]
        if isinstance(kind, SpringDamper):
            constants = (at[0][:3, 3], at[1][:3, 3], *link.constants)
        else:
            constants = tuple(x for T in at for x in (T[:3, :3], T[:3, 3]))
        return BodyForce(link.name, kind, numbers, as_constants(constants), efforts)


def _at_com(bodies: Sequence[MovingBody], number: int, T: np.ndarray) -> np.ndarray:
    """A pose in a body's own frame, seen from the frame at its centre of mass."""
    return T if number < 0 else SE3.inverse(bodies[number].offset) @ T


def _kinds(link: GivenLink) -> dict[str, str]:
    """Kinds and units of the numbers that a link has as its constants."""
    if link.kind is None:  # a spring in a joint
        turns = isinstance(link.group, Revolute)
        return dict(zip(("stiffness", "rest"), ("N m/rad", "rad") if turns else ("N/m", "m")))
    if isinstance(link.kind, SpringDamper):
        return OF_SPRINGS
    return LENGTH if isinstance(link.kind, Distance) else {}


def _holders(link: GivenLink) -> tuple[str, ...]:
    """To whom the places of a link on its two bodies belong."""
    if isinstance(link.kind, AngleDrive):  # the frames of its joint
        return link.kind.joint, f"{link.kind.joint}.child"
    return (link.name, f"{link.name}.child") if link.joint else (f"{link.name}.a", f"{link.name}.b")


class _MovingInertia(Parameter):
    """The inertia of a body that may turn about all axes."""

    def _check_inertia(self, values: Array) -> None:
        super()._check_inertia(values)
        # the nominal inertia was raised to SLIGHT already; 1e-6 leaves room for round-off
        moments = np.linalg.eigvalsh(matrix_of(np.moveaxis(values, -1, 0)).transpose())
        thin = moments[..., 0] < SLIGHT * (1 - 1e-6) * moments[..., 2]
        self._refuse(values, thin.T, "no principal moment below 1e-7 of the largest, about which it may turn")
