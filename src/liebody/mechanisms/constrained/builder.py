"""Putting a system together: bodies, joints, constraints and forces by name, checked at the door."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from ...base.arguments import array_of, checked, floats, names, number, quantities
from ...base.errors import ModelError, known
from ...base.texts import check_name
from ...bodies import WORLD, Joint, SpatialInertia, joint_named
from ...bodies.tree import as_pose
from ...groups import SE3, MotionSubgroup, Prismatic, Revolute
from ...groups.subgroups import three_numbers, unit_vector
from ...scalars import Array
from ..forces import Bushing
from .bodies import GROUPS, check_mass
from .constraints import Distance, General, OnCurve, Universal, lower_pair
from .definition import Definition, GivenBody, GivenLink, link_of_drive
from .forces import JointEffort, OwnWrench, SpringDamper
from .system import System
from .velocities import GeneralVelocity, contact, knife_edge, relative_motion, relative_pose, rolling


class SystemBuilder:
    """Collects bodies, constraints and forces in any order; `build` checks them and makes the `System`.

        top = SystemBuilder("heavy top", gravity=(0, 0, 0))
        top.body("top", SpatialInertia(21.6, rotational=[0.36, 0.306, 0.09]), pose=[0.5, 0, 0])
        top.joint("pivot", Spherical(), "world", "top", on_child=[-0.5, 0, 0])
        system = top.build()

    Frames on bodies (`on_parent`, `on_child`, `pose`) are poses (4, 4), translations (3,), or None for the
    body's own frame. Every method returns the builder.
    """

    # The class is long because it has one method for each kind of body, constraint and force, most of it
    # documentation; each checks its arguments and stores one record for `Definition`.

    def __init__(self, name: str = "system", gravity: Array = (0.0, 0.0, -9.81)) -> None:
        check_name("a system", name)
        self.name = name
        self.gravity = three_numbers(gravity, "gravity")
        self._bodies: dict[str, GivenBody] = {}
        self._constraints: dict[str, GivenLink] = {}
        self._forces: dict[str, GivenLink] = {}

    # -- bodies -------------------------------------------------------------------------------------------

    @partial(checked, but=("inertia",))
    def body(
        self, name: str, inertia: SpatialInertia, pose: Array = None, configuration: str = "auto"
    ) -> SystemBuilder:
        """Add a body.

        inertia        in the body's own frame; its mass must be positive. Thin rods and point masses get a
                       slight inertia about the axes that have none, 1e-7 of the inertia at the joints:
                       motions change by as much
        pose           a guess of where its frame is in the world; None: as its joints have it, if they are
                       neutral
        configuration  "SE3", "SO3xR3" or "auto": SE(3) if the body's absolute motion is a motion subgroup,
                       being joined to the ground by a lower pair, SO(3) x R^3 otherwise (Mueller, Terze)
        """
        check_name("a body", name)
        if name in self._bodies or name == WORLD:
            raise ModelError(
                f"there are two bodies called {name!r}; give each its own name ({WORLD!r} is the world's)"
            )
        if not isinstance(inertia, SpatialInertia):
            raise ModelError(f"body {name!r}: inertia is {inertia!r}, expected a SpatialInertia")
        check_mass(name, inertia)
        if configuration not in ("auto", *GROUPS):
            raise ModelError(
                f"body {name!r}: configuration is {configuration!r}, expected 'SE3', 'SO3xR3' or 'auto'"
            )
        self._bodies[name] = GivenBody(inertia, None if pose is None else _pose(pose, name), configuration)
        return self

    # -- constraints --------------------------------------------------------------------------------------

    @partial(checked, but=("joint",))
    def joint(
        self,
        name: str,
        joint: Joint | MotionSubgroup | str,
        parent: str,
        child: str,
        on_parent: Array = None,
        on_child: Array = None,
        damping: Array = 0.0,
        driven: bool = False,
        offset: Array = 0.0,
        friction: Array = 0.0,
        stiffness: Array = 0.0,
        rest: Array = 0.0,
        limits: Array = None,
    ) -> SystemBuilder:
        """Join two bodies, or a body and the world, by a motion subgroup of SE(3) (any but Free()).

        joint                a Joint, its group, or the name of one that needs no arguments (`joint_named`)
        on_parent, on_child  where the joint's frame lies on either body; they coincide if it is neutral, or
                             where its coordinate is `offset`
        damping              effort per velocity of the joint's motions, a number or (dim,)
        driven               whether efforts u act along its motions; they are appended to the system's u
        offset               of a joint of one motion: its coordinate where the frames coincide, from which
                             springs and limits in it count                                          [rad, m]
        friction             dry friction that acts, as `JointFriction`                              [N m, N]
        stiffness, rest      of a spring that acts in a hinge or slide, as `JointSpring`; angles count the
                             short way round from rest                              [N m/rad, N/m; rad, m]
        limits               (lower, upper) of a hinge or slide, at which stops act: `JointLimits`, so stiff
                             that a contact takes 20 ms with the inertia that moves; infinite: no stop.
                             Angles are within -pi and pi                                            [rad, m]
        """
        joint = joint_named(joint) if isinstance(joint, str) else joint
        if isinstance(joint, Joint) and (joint.mimic is not None or np.any(joint.armature)):
            raise ModelError(
                f"joint {name!r} follows another one or has an armature, which absolute coordinates do not "
                "know; give a gear as a constraint, and a rotor as a body"
            )
        if not isinstance(joint, (Joint, MotionSubgroup)):
            raise ModelError(
                f"joint {name!r} is {joint!r}, expected a motion subgroup such as Revolute([0, 0, 1])"
            )
        # a `Joint` of this name, with this damping unless that is zero
        joint = replace(joint, name=name) if isinstance(joint, Joint) else Joint(name, joint)
        joint = replace(joint, damping=damping) if np.any(array_of("damping", damping)) else joint
        given = {"friction": friction, "stiffness": stiffness, "rest": rest}
        laws = {field: x for field, x in given.items() if np.any(array_of(field, x))}
        if limits is not None:
            lower, upper = quantities(f"limits of joint {name!r}", limits, (2,))
            laws |= {"lower": lower, "upper": upper}
        if laws.keys() - {"friction"} and not isinstance(joint.group, Revolute | Prismatic):
            raise ModelError(
                f"joint {name!r} moves by {joint.group!r}, and springs and limits act in Revolute and "
                "Prismatic joints; give others a `bushing` or a `wrench`"
            )
        joint = replace(joint, **laws)
        kind, _, _ = lower_pair(joint.group)
        frames = _pose(on_parent, name), _pose(on_child, name)
        if np.any(at := floats("offset", offset)):
            if (joint.group.dim, joint.group.nq) != (1, 1) or np.size(offset) != 1:
                raise ModelError(
                    f"joint {name!r}: offset is {offset!r}, and {joint.group!r} has {joint.group.dim} "
                    "motions; give one number, to a joint of one motion"
                )
            # where the coordinate is zero, the parent's frame lies back along the joint by the offset
            frames = frames[0] @ SE3.inverse(joint.group.pose(np.reshape(at, 1))).astype(float), frames[1]
        exchanged = False
        # rows are in the axes of the last body, which must be one that moves: the world comes first
        if child == WORLD:
            if driven or laws or np.any(joint.damping):
                raise ModelError(
                    f"joint {name!r}: the child is the world; make the world the parent, so that efforts and "
                    "forces in it have a direction"
                )
            parent, child, frames = child, parent, frames[::-1]
            exchanged = True
        self._add(
            "constraint",
            name,
            kind,
            (parent, child),
            frames,
            joint,
            exchanged=exchanged,
            acting=frozenset(laws),
        )
        if driven:
            self._add("force", name, JointEffort(joint.dim, True), (parent, child), frames, joint)
        return self

    def drive(self, joint: str, function: Callable[[Any], Any]) -> SystemBuilder:
        """Let a Revolute or Prismatic joint follow a function of time: its coordinate is function(t).

        joint     the name of a joint added before
        function  of NumPy operators and `liebody.scalars`; it is differentiated twice          [rad, m]

        The constraint is called `joint`.drive. Its multiplier is minus the effort that moves the joint, which
        `run.effort(joint)` has, and whose work is in the balance of energy. Angles count the short way round.

        Raises ModelError for unknown joints, for a joint that has a drive, and for functions that cannot be
        traced.
        """
        link = link_of_drive(self._constraints, joint, function, self.name)
        self._constraints[link.name] = link
        return self

    @checked
    def universal(
        self,
        name: str,
        parent: str,
        child: str,
        parent_axis: Array,
        child_axis: Array,
        on_parent: Array = None,
        on_child: Array = None,
    ) -> SystemBuilder:
        """Join two bodies by a universal joint: a common point, and an axis on each, at right angles."""
        axes = tuple(unit_vector(axis, f"an axis of {name!r}") for axis in (parent_axis, child_axis))
        frames = _pose(on_parent, name), _pose(on_child, name)
        # as in `joint`: the last body must be one that moves
        if child == WORLD:
            parent, child, frames, axes = child, parent, frames[::-1], axes[::-1]
        return self._add("constraint", name, Universal(), (parent, child), frames, constants=axes)

    @checked
    def rod(
        self, name: str, a: str, b: str, on_a: Array = None, on_b: Array = None, length: float | None = None
    ) -> SystemBuilder:
        """Keep the distance of two points, as a massless rod between ball joints.

        length  None: the distance in the bodies' guessed poses
        """
        # the distance is symmetric, and the last body must be one that moves
        if b == WORLD:
            a, b, on_a, on_b = b, a, on_b, on_a
        if length is not None and not 0 < number(f"length of {name!r}", length, finite=False) < np.inf:
            raise ModelError(f"rod {name!r} has length {length!r}, expected a positive number of metres")
        frames = _pose(on_a, name), _pose(on_b, name)
        return self._add("constraint", name, Distance(), (a, b), frames, constants=(length,))

    @checked
    def point_on_curve(
        self,
        name: str,
        curve: Callable[[Any], Array],
        body: str,
        point: Array = None,
        on: str = WORLD,
        start: float = 0.0,
    ) -> SystemBuilder:
        """Keep a point of `body` on a curve s -> (x, y, z) fixed to the body `on`, in its own frame.

        The curve is a function of NumPy operators and `liebody.scalars` with dc/ds nowhere zero. The
        parameter s is a coordinate of the system; `start` is a guess of it.
        """
        frames = (np.eye(4), _pose(point, name))
        return self._add("constraint", name, OnCurve(curve), (on, body), frames, constants=(float(start),))

    @checked
    def point_on_surface(
        self, name: str, surface: Callable[[Array], Any], body: str, point: Array = None, on: str = WORLD
    ) -> SystemBuilder:
        """Keep a point of `body` where surface((x, y, z)) = 0, in the own frame of the body `on`.

        Two equations make a curve. The gradient must not vanish where it is zero.
        """
        place = _pose(point, name)[:3, 3]

        def g(*poses: Array) -> Array:
            # the point in the axes of the body `on`, or in the world's
            T = poses[-1]
            S = poses[0] if len(poses) > 1 else np.eye(4, dtype=int)
            return surface(S[:3, :3].T @ (T[:3, :3] @ place + T[:3, 3] - S[:3, 3]))

        return self.constraint(name, g, [body] if on == WORLD else [on, body])

    @checked
    def point_on_line(
        self,
        name: str,
        body: str,
        point: Array = None,
        on: str = WORLD,
        through: Array = (0.0, 0.0, 0.0),
        direction: Array = (1.0, 0.0, 0.0),
    ) -> SystemBuilder:
        """Keep a point of `body` on a line through a point of the body `on`, in its own frame.

        Two equations, and no further coordinate: n . (x - through) = 0 for two directions n across the line.
        """
        start = three_numbers(through, f"through of {name!r}")
        along = unit_vector(direction, f"an axis of {name!r}")
        # the right singular vectors beyond the first span the directions across
        across = np.linalg.svd(along[None])[2][1:]
        return self.point_on_surface(name, lambda x: across @ (x - start), body, point, on)

    @checked
    def constraint(
        self, name: str, function: Callable[..., Any], bodies: str | Sequence[str], timed: bool = False
    ) -> SystemBuilder:
        """Require function(T_1, T_2, ...) = 0 of the poses (4, 4) of these bodies' own frames.

        function  made of NumPy operators and `liebody.scalars`; a number or a vector. With `timed`, the time
                  comes first: function(t, T_1, ...)
        """
        bodies = names(bodies)
        kind = General(function, len(bodies), timed, name)
        return self._add("constraint", name, kind, bodies, (np.eye(4),) * len(bodies))

    @checked
    def velocity_constraint(
        self, name: str, function: Callable[..., Any], bodies: str | Sequence[str], timed: bool = False
    ) -> SystemBuilder:
        """Require function(T_1, V_1, T_2, V_2, ...) = 0 of poses (4, 4) and twists (6,) of these bodies.

        function  of NumPy operators and `liebody.scalars`, affine in the twists; a number or a vector. Poses
                  and twists belong to the bodies' own frames, the twists in their axes. With `timed`, the
                  time comes first

        It need not be integrable: it limits where bodies can go in an instant, not where they can get.
        """
        bodies = names(bodies)
        kind = GeneralVelocity(function, len(bodies), timed, name)
        return self._add("constraint", name, kind, bodies, (np.eye(4),) * len(bodies))

    @checked
    def knife_edge(
        self,
        name: str,
        body: str,
        on_body: Array = None,
        on: str = WORLD,
        slip: float | Callable[[Any], Any] = 0.0,
    ) -> SystemBuilder:
        """A blade, or a wheel seen from above: the frame's origin does not move along its y axis.

        on_body  the frame on the body; the blade lies along x
        on       the body against which it does not move
        slip     velocity along y that is given instead, a number or a function of time                [m/s]
        """
        if not callable(slip):
            slip = number(f"slip of {name!r}", slip)
        return self._sliding(name, knife_edge(slip), (on, np.eye(4)), (body, _pose(on_body, name)), slip)

    @checked
    def rolling(
        self,
        name: str,
        body: str,
        radius: float,
        axis: Array = None,
        center: Array = None,
        on: str = WORLD,
        plane: Array = None,
        slip: Any = 0.0,
        held: bool = True,
    ) -> SystemBuilder:
        """A ball, or a thin disc, that rolls on a plane without slipping.

        axis    of a disc, a direction of the body; None: a ball
        center  a point of the body
        plane   the frame on the body `on` whose x and y axes span the plane; the wheel stays on the side of z
        slip    velocity of the point that touches the plane which is given instead, (2,), or a function of
                time: along x and y; of a disc along its track, where it goes when it turns about its axis,
                and across                                                                             [m/s]
        held    whether the wheel is held on the plane, by a constraint `name`.contact that can push and pull

        A disc must not lie flat: there no point is the lowest one. Raises ModelError for a radius that is not
        positive.
        """
        if not 0 < number(f"radius of {name!r}", radius, finite=False) < np.inf:
            raise ModelError(f"wheel {name!r} has radius {radius!r}, expected a positive number of metres")
        if not callable(slip):
            slip = quantities(f"slip of {name!r}", slip, (), (2,))
        d = None if axis is None else unit_vector(axis, f"an axis of {name!r}")
        base = (on, _pose(plane, name))
        wheel = (body, _pose(center, name))
        # two constraints: one of places keeps the contact, one of velocities forbids slipping
        if held:
            height = contact(radius, d)
            bodies = [body] if on == WORLD else [on, body]
            self.constraint(
                f"{name}.contact", lambda *T: height(relative_pose(base[1], wheel[1], *T)), bodies
            )
        return self._sliding(name, rolling(radius, d, slip), base, wheel, slip)

    def _sliding(
        self, name: str, law: Callable[..., Any], base: tuple[str, Array], frame: tuple[str, Array], slip: Any
    ) -> SystemBuilder:
        """A velocity constraint law(t, X, V) of the motion of a frame on a body against a base on another."""
        timed = callable(slip)

        def function(*arguments: Any) -> Any:
            motion = relative_motion(base[1], frame[1], *arguments[timed:])
            return law(arguments[0] if timed else 0.0, *motion)

        bodies = [frame[0]] if base[0] == WORLD else [base[0], frame[0]]
        return self.velocity_constraint(name, function, bodies, timed)

    # -- forces -------------------------------------------------------------------------------------------

    @checked
    def spring(
        self,
        name: str,
        a: str,
        b: str,
        on_a: Array = None,
        on_b: Array = None,
        stiffness: float = 0.0,
        length: float = 0.0,
        damping: float = 0.0,
        tension: Callable[[Any, Any], Any] | None = None,
        energy: Callable[[Any], Any] | None = None,
    ) -> SystemBuilder:
        """A spring of a rest length and a damper along it between two points   [N/m, m, N s/m]

        tension  a further tension as a function of the distance and its rate, for springs and dampers that
                 are not linear                                                                            [N]
        energy   the potential energy of that, as a function of the distance; None: it stores none         [J]
        """
        named = {"stiffness": stiffness, "damping": damping, "length": length}
        numbers = tuple(number(f"{what} of {name!r}", x) for what, x in named.items())
        frames = (_pose(on_a, name), _pose(on_b, name))
        kind = SpringDamper(tension, energy)
        return self._add("force", name, kind, (a, b), frames, constants=numbers)

    @checked
    def bushing(
        self, name: str, a: str, b: str, on_a: Array = None, on_b: Array = None, **numbers: Any
    ) -> SystemBuilder:
        """Springs and dampers along and about the axes of a frame on a, between it and one on b.

        numbers  stiffness, damping, turning_stiffness, turning_damping of a `mechanisms.Bushing`, which has
                 the equations: a number, or three
        """
        law = Bushing(a, b, **numbers)
        frames = (_pose(on_a, name), _pose(on_b, name))
        kind = OwnWrench(law.wrenches, 2, 0, name, law.energy)
        return self._add("force", name, kind, (a, b), frames)

    @checked
    def joint_spring(self, name: str, joint: str, stiffness: float, rest: float = 0.0) -> SystemBuilder:
        """A spring in a Revolute or Prismatic joint: effort -stiffness (x - rest) along its coordinate x.

        joint  the name of a joint added before
        rest   where it is relaxed; angles count the short way round from there   [N m/rad, rad; N/m, m]
        """
        link = self._constraints.get(joint)
        if link is None or not isinstance(link.group, (Revolute, Prismatic)):
            raise ModelError(
                f"spring {name!r} is to act in {joint!r}, which is no Revolute or Prismatic joint "
                "added before"
            )
        numbers = number(f"stiffness of {name!r}", stiffness), number(f"rest of {name!r}", rest)
        # without a kind: `Definition` joins the springs of all joints to one law
        return self._add("force", name, None, link.bodies, link.frames, link.joint, numbers)

    @checked
    def wrench(
        self,
        name: str,
        function: Callable[..., Any],
        bodies: str | Sequence[str],
        efforts: int = 0,
        energy: Callable[..., Any] | None = None,
    ) -> SystemBuilder:
        """Wrenches by a function(t, T_1, V_1, ...) of time, poses (4, 4) and twists (6,) of bodies.

        All in the bodies' own frames, the twists and the wrenches (moment, force) also in their axes. For one
        body the result is (6,), for several (k, 6). With `efforts`, so many entries of u come after t.

        energy  the potential energy of their conservative part, energy(T_1, ...)                          [J]
        """
        bodies = names(bodies)
        kind = OwnWrench(function, len(bodies), efforts, name, energy)
        return self._add("force", name, kind, bodies, (np.eye(4),) * len(bodies))

    def _add(self, what: str, *given: Any, **more: Any) -> SystemBuilder:
        link = GivenLink(*given, **more)
        table = self._forces if what == "force" else self._constraints
        check_name(f"a {what}", link.name)
        if link.name in table:
            raise ModelError(f"there are two {what}s called {link.name!r}; give each its own name")
        if len(set(link.bodies)) < len(link.bodies):
            raise ModelError(
                f"{what} {link.name!r} acts between {link.bodies[0]!r} and itself; name two bodies"
            )
        table[link.name] = link
        return self

    # -- the system ---------------------------------------------------------------------------------------

    def build(self) -> System:
        """The system. Raises ModelError for unknown bodies and for constraints that act on none."""
        if not self._bodies:
            raise ModelError(f"{self.name} has no bodies; add one with body(name, inertia)")
        # checked at the end, because links may be added before their bodies
        there = (WORLD, *self._bodies)
        for link in (*self._constraints.values(), *self._forces.values()):
            for body in link.bodies:
                if body not in there:
                    raise ModelError(
                        f"{link.name!r} acts on {body!r}, and there is no such body; {known(there, body)}"
                    )
            if all(body == WORLD for body in link.bodies):
                raise ModelError(f"{link.name!r} acts on the world alone; name a body")
        definition = Definition(
            self.name, self.gravity, dict(self._bodies), dict(self._constraints), dict(self._forces)
        )
        return definition.with_stops().system()


def _pose(value: Array, name: str) -> np.ndarray:
    """A pose (4, 4) from a pose, a translation or None."""
    what = f"a frame of {name!r}"
    return as_pose(None if value is None else floats(what, value), what)
