"""Forces that act on a mechanism beside its drives, written once for every mechanism and every integrator.

    @dataclass(frozen=True)
    class Drag(JointForce):
        c: float

        def effort(self, t, x, v):
            return -self.c * v * absolute(v)

    run = lb.simulate(mechanism, q0, t_end=1.0, dt=1e-3, forces=[Drag(0.1)])

A law consists of NumPy operators and functions of `liebody.scalars`, without branches on values: it is
traced, compiled with the equations of motion, and differentiated by implicit methods. Laws that are equal
share compiled functions, so they are frozen dataclasses, or objects that are kept and used again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, TypeAlias

import numpy as np

from ..base.arguments import floats, members, quantity, short, wrong_shape
from ..base.errors import ModelError, ShapeError
from ..base.extensions import FORCES, named
from ..bodies import NO_LIMIT, Joint, Tree
from ..dynamics import frame_jacobian, frame_pose, frame_twist, mass_matrix
from ..groups import Prismatic, Revolute
from ..scalars import Array, arctan2, cos, maximum, minimum, sin, sqrt, tanh, where
from ..scalars.linear import cross, is_numeric

LEAST_FRICTION = 1e-3  # below it friction is viscous, so that it has a derivative at rest  [N]
ALLOWED: Mapping[str, Callable[[Any], bool]] = {
    "zero or more": lambda x: x >= 0,
    "a positive number": lambda x: x > 0,
    "a finite number": lambda x: True,
}


class Force:
    """Generalised forces of time, configuration and velocity, in a mechanism's own coordinates.

    name  in the ledger of a hybrid system

    A subclass overrides `efforts`; and `energy`, if they have a potential. `JointForce` and `FrameForce` are
    laws that do not depend on a mechanism's coordinates, and act alike in joint and in absolute ones.
    """

    name = "force"

    def efforts(self, t: Any, q: Array, v: Array) -> Array:
        """Generalised forces (nv,), whose power is efforts . v                                    [N m, N]"""
        raise NotImplementedError

    def energy(self, *at: Any, **more: Any) -> Any:
        """Potential energy () of q; of x and numbers in a JointForce, of the poses in a FrameForce   [J]"""
        return 0.0

    @property
    def stores(self) -> bool:
        """Whether it has a potential energy."""
        return type(self).energy is not Force.energy

    def on_tree(self, tree: Tree, t: Any, q: Array, v: Array) -> Array:
        """Generalised forces (nv,) in the joint coordinates of a tree."""
        return self.checked(self.efforts(t, q, v), (tree.nv,), tree.name)

    def energy_in_tree(self, tree: Tree, q: Array) -> Any:
        """Its energy in the joint coordinates of a tree."""
        return self.energy(q)

    def check(self, joints: Collection[str]) -> None:
        """Raise ModelError for joints, by name, that are not among these of a mechanism."""

    def checked(self, found: Array, shape: tuple[int, ...], where: str) -> Array:
        """The result of a law as an array. Raises ShapeError if it has another shape."""
        if np.shape(found) != shape:
            raise wrong_shape(f"the result of {type(self).__name__} {where}", np.shape(found), shape)
        return np.asarray(found)


class JointForce(Force):
    """A law of single joints: the effort along a joint's motions, from its coordinates and velocities.

    It acts in every joint for which `numbers` returns some. In absolute coordinates all of these are a loop.
    """

    def numbers(self, joint: Joint) -> Sequence[Array] | None:
        """The coefficients of the law in this joint, numbers or (dim,) each; None: it does not act there."""
        return ()

    def effort(self, t: Any, x: Array, v: Array, *numbers: Array) -> Array:
        """The effort (dim,) on the joint                                                          [N m, N]

        x  the joint's coordinates (nq,). In absolute coordinates known of hinges, an angle between -pi and
           pi, and of slides; None of other joints
        v  its velocities (dim,)
        """
        raise NotImplementedError

    def numbers_in(self, joint: Joint) -> tuple[Array, ...] | None:
        """As `numbers`, (dim,) each; None for joints that do not move."""
        numbers = self.numbers(joint) if joint.dim else None
        return (
            None if numbers is None else tuple(np.broadcast_to(np.asarray(x), (joint.dim,)) for x in numbers)
        )

    def on_tree(self, tree: Tree, t: Any, q: Array, v: Array) -> Array:
        """As `Force.on_tree`; of a joint that follows another, at the velocity of that."""
        # zeros of dtype object, because a law may return symbols
        tau: Array = np.zeros(tree.nv, int).astype(object)
        for body in tree.bodies:
            numbers = self.numbers_in(body.joint)
            if numbers is not None:
                x = body.joint_coordinates(q)
                rates = body.joint_rates(v)
                effort = self.effort(t, x, rates, *numbers)
                effort = self.checked(effort, (body.joint.dim,), f"joint {body.joint.name!r}")
                # by virtual work, a follower's effort acts on its leader with its ratio
                tau[body.dofs] = tau[body.dofs] + body.ratio * effort
        return tau.astype(float) if is_numeric(tau) else tau

    def energy_in_tree(self, tree: Tree, q: Array) -> Any:
        energy: Any = 0.0
        for body in tree.bodies:
            numbers = self.numbers_in(body.joint)
            if numbers is not None:
                energy = energy + self.energy(body.joint_coordinates(q), *numbers)
        return energy


class FrameForce(Force):
    """Wrenches on frames, from their poses and twists.

    frames  names of frames or bodies; in absolute coordinates, of bodies
    """

    frames: tuple[str, ...]

    def wrenches(self, t: Any, *motions: Array) -> Sequence[Array]:
        """The wrench (moment, force) (6,) on each frame, in its axes                              [N m, N]

        motions  pose (4, 4) in the world and twist (6,) in its own axes of each frame, in turn
        """
        raise NotImplementedError

    def on_tree(self, tree: Tree, t: Any, q: Array, v: Array) -> Array:
        """As `Force.on_tree`: the sum of J^T F."""
        motions = [x for f in self.frames for x in (frame_pose(tree, q, f), frame_twist(tree, q, v, f))]
        wrenches = self.checked(self.wrenches(t, *motions), (len(self.frames), 6), tree.name)
        # by virtual work, a wrench F on a frame has the generalised force J^T F
        return sum(frame_jacobian(tree, q, f).T @ F for f, F in zip(self.frames, wrenches, strict=True))

    def energy_in_tree(self, tree: Tree, q: Array) -> Any:
        return self.energy(*(frame_pose(tree, q, f) for f in self.frames))


@dataclass(frozen=True)
class Bushing(FrameForce):
    """Springs and dampers along and about the axes of frame a, between it and frame b.

        f = -(K p + D dp/dt),    m = -2 vee(skew(G R)) - D_r w,    G = tr(K_r)/2 - K_r

    p, R  position and attitude of b in a; f acts on b at its origin, in the axes of a
    w     angular velocity of b relative to a; m acts on b, both in its axes

    a, b               frames; of a robot, "world" is one, too
    stiffness          K: a number, or (3,) along the axes                                             [N/m]
    damping            D, likewise                                                                   [N s/m]
    turning_stiffness  K_r, likewise; the moment follows from the energy tr(G (1 - R)): K_r times the angle
                       for small angles, without a singularity at any attitude                     [N m/rad]
    turning_damping    D_r, likewise                                                             [N m s/rad]
    """

    a: str
    b: str
    stiffness: float | tuple[float, float, float] = 0.0
    damping: float | tuple[float, float, float] = 0.0
    turning_stiffness: float | tuple[float, float, float] = 0.0
    turning_damping: float | tuple[float, float, float] = 0.0
    name = "bushing"

    def __post_init__(self) -> None:
        for name in ("stiffness", "damping", "turning_stiffness", "turning_damping"):
            value = floats(f"Bushing: {name}", getattr(self, name), finite=False)
            if value.shape not in ((), (3,)) or not (np.isfinite(value) & (value >= 0)).all():
                raise ModelError(
                    f"Bushing: {name} is {getattr(self, name)!r}; give a number or three, zero or more"
                )
            object.__setattr__(self, name, tuple(np.broadcast_to(value, 3).tolist()))

    @property
    def frames(self) -> tuple[str, ...]:  # type: ignore[override]
        return self.a, self.b

    def wrenches(self, t: Any, *motions: Array) -> Sequence[Array]:
        Ta, Va, Tb, Vb = motions
        p, C = _relative(Ta, Tb)
        # the rate of p in the axes of a, which turns itself
        rate = C @ Vb[3:] - Va[3:] - cross(Va[:3], p)
        f = -(np.array(self.stiffness) * p + np.array(self.damping) * rate)
        # m = -2 vee(skew(G R)), the gradient of tr(G (1 - R))
        A = self._turning[:, None] * C
        m = -np.array([A[2, 1] - A[1, 2], A[0, 2] - A[2, 0], A[1, 0] - A[0, 1]])
        m = m - np.array(self.turning_damping) * (Vb[:3] - C.T @ Va[:3])
        # a takes the opposite wrench, moved from b's origin to its own: p x f
        return [np.concatenate([-(C @ m) - cross(p, f), -f]), np.concatenate([m, C.T @ f])]

    def energy(self, *at: Any, **more: Any) -> Any:
        p, C = _relative(*at)
        return 0.5 * (np.array(self.stiffness) * p) @ p + self._turning @ (1 - np.diagonal(C))

    @property
    def _turning(self) -> Array:
        """The diagonal of G."""
        k = np.array(self.turning_stiffness)
        return k.sum() / 2 - k


@dataclass(frozen=True)
class SmoothContact(FrameForce):
    """Points on a compliant half-space {x: n . x <= height}: a law without memory, and without a jump.

        F_n = K d(y) max(1 - c y', 0),    F_t = -D u mu F_n / sqrt((mu F_n)^2 + (D |u|)^2)

    y     height of a point over the ground, y = n . x - height; d its depth, -y but for |y| < w, where
          d = (w - y)^2 / 4 w, so that the derivative of F is continuous there, too
    u     velocity along the ground: D |u| of it is friction up to about mu F_n, and less beyond. So points
          that stand creep with F_t / D

    frames     names of frames, whose origins are the points
    stiffness  K                                                                                       [N/m]
    damping    c, of the force's share: losses vanish with the depth (Hunt and Crossley 1975)          [s/m]
    friction   mu
    viscosity  D                                                                                     [N s/m]
    width      w                                                                                         [m]
    normal     n, out of the ground, (3,)
    height     of the ground over the world's origin, along n                                            [m]

    It has derivatives everywhere, which `optimal_control` and `sensitivities` take. Explicit methods need
    steps below 2 m / D and 2 sqrt(m / K), m the inertia of a point; `contact.Contact`, which sticks, and
    `contact.TimeStepping` are for simulations alone.
    """

    frames: tuple[str, ...]
    stiffness: float = 5e4
    damping: float = 1.0
    friction: float = 0.8
    viscosity: float = 200.0
    width: float = 1e-3
    normal: tuple[float, float, float] = (0.0, 0.0, 1.0)
    height: float = 0.0
    name = "contact"

    def __post_init__(self) -> None:
        named = [self.frames] if isinstance(self.frames, str) else self.frames
        frames = members("SmoothContact: frames", named, "names of frames")
        n = floats("SmoothContact: normal", self.normal)
        if n.shape != (3,) or not n.any():
            raise ModelError(f"SmoothContact: normal is {self.normal!r}, expected a direction (3,)")
        for name in ("stiffness", "damping", "friction", "viscosity"):
            _check_number(f"SmoothContact: {name}", getattr(self, name))
        _check_number("SmoothContact: width", self.width, "a positive number")
        _check_number("SmoothContact: height", self.height, "a finite number")
        object.__setattr__(self, "frames", tuple(frames))
        # heights and slip velocities are measured along n, so n has unit length
        object.__setattr__(self, "normal", tuple((n / np.linalg.norm(n)).tolist()))

    def wrenches(self, t: Any, *motions: Array) -> Sequence[Array]:
        return [
            np.concatenate([np.zeros(3, int), T[:3, :3].T @ self.force(T[:3, 3], T[:3, :3] @ V[3:])])
            for T, V in zip(motions[::2], motions[1::2], strict=True)
        ]

    def force(self, x: Array, u: Array) -> Array:
        """The force (3,) on a point at x (3,) with the velocity u (3,), in the world's axes.          [N]"""
        n = np.array(self.normal)
        rise = n @ u
        # near: within w of the surface, where the depth is a parabola; deep: linear below that
        near, deep = self._depth(x)
        F = self.stiffness * (near * near / (4 * self.width) + deep) * maximum(1 - self.damping * rise, 0.0)
        # friction goes smoothly from D |u| to mu F_n; a tiny term keeps the root differentiable at zero
        slip = u - rise * n
        most = self.friction * F
        wanted = self.viscosity * slip
        return F * n - most / sqrt(most * most + wanted @ wanted + LEAST_FRICTION**2) * wanted

    def energy(self, *at: Any, **more: Any) -> Any:
        w = self.width
        total = 0.0
        for T in at:
            near, deep = self._depth(T[:3, 3])
            # the integral of the elastic force: a cubic near the surface, a parabola below
            total = total + near * near * near / (12 * w) + deep * (deep / 2 + w)
        return self.stiffness * total

    def _depth(self, x: Array) -> tuple[Any, Any]:
        """w - y between 0 and 2 w, and the depth below that."""
        y = np.array(self.normal) @ x - self.height
        w = self.width
        return minimum(maximum(w - y, 0.0), 2 * w), maximum(-w - y, 0.0)


def _relative(Ta: Array, Tb: Array) -> tuple[Array, Array]:
    """Position and attitude of b in a."""
    return Ta[:3, :3].T @ (Tb[:3, 3] - Ta[:3, 3]), Ta[:3, :3].T @ Tb[:3, :3]


@dataclass(frozen=True)
class JointDamping(JointForce):
    """tau = -D v of each joint, D the joint's `damping`."""

    name = "damping"

    def numbers(self, joint: Joint) -> Sequence[Array] | None:
        return _acting(joint.damping)

    def effort(self, t: Any, x: Array, v: Array, *numbers: Array) -> Array:
        return -numbers[0] * v


class _ByJoint(JointForce):
    """A law whose numbers are one for all joints, or {name of a joint: number}, frozen as pairs.

    allowed  {field: a key of `ALLOWED`, for its numbers}; zero or more by default
    shared   fields that hold one number for all joints, and none by their names
    """

    allowed: ClassVar[Mapping[str, str]] = {}
    shared: ClassVar[Collection[str]] = ()

    def __post_init__(self) -> None:
        for field, value in vars(self).items():
            if value is None and getattr(type(self), field, 0) is None:
                continue  # the joints' own
            name = f"{type(self).__name__}: {field}"
            # pairs instead of a dict, so that the law has a hash
            if isinstance(value, Mapping):
                value = tuple(value.items())
                object.__setattr__(self, field, value)
            by_joint = isinstance(value, tuple)
            if by_joint and not all(isinstance(x, tuple) and len(x) == 2 for x in value):
                raise ShapeError(f"{name} is {short(value)}; give a number, or {{name of a joint: number}}")
            if by_joint and field in self.shared:
                raise ModelError(f"{name} is {short(dict(value))}; give one number for all joints")
            for x in [x for _, x in value] if by_joint else [value]:
                _check_number(name, x, self.allowed.get(field, "zero or more"))

    def check(self, joints: Collection[str]) -> None:
        fields = [value for value in vars(self).values() if isinstance(value, tuple)]
        for name in [name for value in fields for name, _ in value]:
            if name not in joints:
                kind = type(self).__name__
                raise ModelError(f"{kind}: there is no joint {name!r}; known are {', '.join(joints)}")


def _of(given: Any, joint: Joint) -> Any:
    """The number for a joint; 0 where none is given."""
    return dict(given).get(joint.name, 0.0) if isinstance(given, tuple) else given


@dataclass(frozen=True)
class JointFriction(_ByJoint):
    """Dry friction tau = -mu tanh(v / v_s) of each joint: -mu sign(v), regularised where |v| is below 3 v_s.

    mu   the joints' efforts of friction: a number for all, or {name of a joint: effort}; None: each joint's
         `friction`, which a URDF gives                                                            [N m, N]
    v_s  the velocity at which tanh has 76 % of mu; explicit methods need steps below 2.7 m v_s / mu, m the
         inertia that moves                                                                     [rad/s, m/s]
    """

    mu: float | Mapping[str, float] | None = None
    v_s: float = 1e-2
    name = "friction"
    allowed: ClassVar = {"v_s": "a positive number"}
    shared: ClassVar = ("v_s",)

    def numbers(self, joint: Joint) -> Sequence[Array] | None:
        return _acting(joint.friction if self.mu is None else _of(self.mu, joint))

    def effort(self, t: Any, x: Array, v: Array, *numbers: Array) -> Array:
        return -numbers[0] * tanh(v / self.v_s)


@dataclass(frozen=True)
class JointSpring(_ByJoint):
    """A spring tau = -k (x - rest) of hinges and slides; an angle counts the short way round from rest.

    stiffness  k: a number for all, or {name of a joint: number}; None: each joint's own `stiffness` and
               `rest`, which an MJCF gives                                                   [N m/rad, N/m]
    rest       where it is relaxed, likewise                                                       [rad, m]
    """

    stiffness: float | Mapping[str, float] | None = None
    rest: float | Mapping[str, float] = 0.0
    name = "spring"
    allowed: ClassVar = {"rest": "a finite number"}

    def numbers(self, joint: Joint) -> Sequence[Array] | None:
        if not isinstance(joint.group, (Revolute, Prismatic)):
            return None
        of_joint = self.stiffness is None
        acting = _acting(joint.stiffness if of_joint else _of(self.stiffness, joint))
        rest = joint.rest if of_joint else _of(self.rest, joint)
        # the last number selects angles, which count the short way round from rest
        return acting and (*acting, rest, float(isinstance(joint.group, Revolute)))

    def effort(self, t: Any, x: Array, v: Array, *numbers: Array) -> Array:
        return -numbers[0] * _stretch(x, *numbers[1:])

    def energy(self, x: Array, *numbers: Array) -> Any:
        stretch = _stretch(x, *numbers[1:])
        return 0.5 * (numbers[0] * stretch) @ stretch


@dataclass(frozen=True)
class JointLimits(_ByJoint):
    """Stops of hinges and slides at the joints' limits: a spring and a damper beyond them, which never pull.

        tau = -k (d + clip(T v, -d, d)),    d = x - upper > 0,    and likewise beyond `lower`

    Continuous, as long as the damper is no stronger than the spring, and of degree one in (d, v): a joint
    rebounds with the same share of its speed at any speed, 0.40 of it where T = sqrt(m / k).

    stiffness  k: a number for all, or {name of a joint: number}; `stops` chooses it           [N m/rad, N/m]
    damping_time  T, the damper's number over k                                                          [s]

    Explicit methods need steps of a tenth of the contact, pi sqrt(m / k), m the inertia that moves. In
    absolute coordinates, which know angles between -pi and pi, limits beyond these are not reached.
    """

    stiffness: float | Mapping[str, float]
    damping_time: float = 0.0
    name = "limits"
    allowed: ClassVar = {"stiffness": "a positive number"}
    shared: ClassVar = ("damping_time",)

    @classmethod
    def stops(cls, tree: Tree, contact: float = 0.02) -> JointLimits:
        """Stops of a tree whose contacts take this time [s]: k = m (pi / contact)^2, T = contact / pi.

        m is the inertia that a joint feels, 1 / (M^-1)_ii, with all joints in the middle of their limits.

        Raises ModelError for a tree of symbols.
        """
        _check_number("JointLimits: contact", contact, "a positive number")
        q = np.array(tree.group.neutral(), float)
        limited = [b for b in tree.bodies if b.joint.mimic is None and _has_stops(b.joint)]
        # followers take their coordinate from a leader, so only leaders are placed
        for body in limited:
            ends = [x for x in (*body.joint.lower, *body.joint.upper) if abs(x) < NO_LIMIT]
            q[body.coordinates] = np.mean(ends)
        # the inertia that a joint feels with all others free to move, 1 / (M^-1)_ii, sets the stiffness
        M = mass_matrix(tree, q)
        if not is_numeric(M, q):
            raise ModelError(f"{tree.name} has symbols; give the stiffness of its stops, JointLimits(1e4)")
        felt = 1 / np.diag(np.linalg.inv(M.astype(float))) if tree.nv else np.zeros(0)
        # a follower's stop is felt by its leader with ratio^2, which is divided out
        stiffness = {
            b.joint.name: float(felt[b.dofs.start] / b.ratio**2 * (np.pi / contact) ** 2)
            for b in tree.bodies
            if _has_stops(b.joint)
        }
        return cls(stiffness or 1.0, contact / np.pi)

    def numbers(self, joint: Joint) -> Sequence[Array] | None:
        acting = _acting(_of(self.stiffness, joint)) if _has_stops(joint) else None
        lower, upper = (_bounded(x) for x in (joint.lower, joint.upper))
        return acting and (*acting, lower, upper, self.damping_time)

    def effort(self, t: Any, x: Array, v: Array, *numbers: Array) -> Array:
        k, lower, upper, T = numbers
        # each side pushes into the range: the damper acts against the velocity, and only while it touches
        below, above = _beyond(x, lower, upper)
        return k * (_push(below, -T * v) - _push(above, T * v))

    def energy(self, x: Array, *numbers: Array) -> Any:
        below, above = _beyond(x, *numbers[1:3])
        return 0.5 * ((numbers[0] * below) @ below + (numbers[0] * above) @ above)


def _has_stops(joint: Joint) -> bool:
    """Whether a joint is a hinge or slide with a limit."""
    if not isinstance(joint.group, (Revolute, Prismatic)):
        return False
    limits = np.concatenate([joint.lower, joint.upper])
    return not is_numeric(limits) or bool(np.abs(limits).min() < NO_LIMIT)


def _bounded(limit: Array) -> Array:
    return np.clip(limit, -NO_LIMIT, NO_LIMIT) if is_numeric(limit) else limit


def _beyond(x: Array, lower: Array, upper: Array) -> tuple[Array, Array]:
    """How far x is below its lower limit, and above its upper one; zero within."""
    return maximum(lower - x, 0.0), maximum(x - upper, 0.0)


def _push(d: Array, damping: Array) -> Array:
    # the damper is clipped to the spring, so that the sum never pulls
    return d + minimum(maximum(damping, -d), d)


def _stretch(x: Array, rest: Array, turns: Array) -> Array:
    """x - rest; of an angle between -pi and pi."""
    d = x - rest
    # arctan2(sin, cos) counts the short way round; a slide's stretch needs no wrapping
    return where(turns > 0.5, arctan2(sin(d), cos(d)), d)


def joint_laws(tree: Tree, kinds: Collection[str], contact: float = 0.02) -> tuple[JointForce, ...]:
    """The forces for these kinds of joint data in descriptions (`bodies.JOINT_KINDS`).

    contact  how long stops are touched, `JointLimits.stops`                                             [s]
    """
    laws: dict[str, Callable[[], JointForce]] = {
        "damping": JointDamping,
        "friction": JointFriction,
        "springs": JointSpring,
        "limits": lambda: JointLimits.stops(tree, contact),
    }
    return tuple(law() for kind, law in laws.items() if kind in kinds)


OURS: dict[str, type[Force]] = {
    "bushing": Bushing,
    "contact": SmoothContact,
    "damping": JointDamping,
    "friction": JointFriction,
    "limits": JointLimits,
    "spring": JointSpring,
}


def force_named(name: str, *args: Any, **options: Any) -> Force:
    """The force with this name, such as "friction" for `JointFriction`.

        run = lb.simulate(robot, q0, t_end=1.0, forces=force_named("friction", mu=0.2))

    Names are "bushing", "contact", "damping", "friction", "limits", "spring", and those that other packages
    add as entry points of the group `liebody.forces`: a `Force`, or what makes one. No package replaces a
    name of liebody.

    args, options  what the force is made of

    Raises ModelError for unknown names, which lists the known ones, and for other arguments; LiebodyError for
    a package that cannot be imported, or whose force is none.
    """
    force: Force = named(FORCES, name, OURS, Force, "a liebody.mechanisms.Force", *args, **options)
    return force


Forces: TypeAlias = str | Force | Iterable[str | Force]
"""What calls take as `forces`: one or several, objects or names of forces that need no arguments."""


def forces_of(given: Forces) -> tuple[Force, ...]:
    """The forces of a call, as objects."""
    several = [given] if isinstance(given, str | Force) else members("forces", given, "forces")
    return tuple(force_named(x) if isinstance(x, str) else x for x in several)


class Limits(NamedTuple):
    """Limits of n joint coordinates: their joints, least values and largest values."""

    joints: Sequence[str]
    lower: Array
    upper: Array

    def passed(self, t: Array, x: Array) -> dict[str, float]:
        """{joint: when it was first seen beyond}, of coordinates x (..., nt, n) at times t (nt,).      [s]

        Beyond is more than 1e-9 (1 + |x|).
        """
        if ((x >= self.lower) & (x <= self.upper)).all():
            return {}
        slack = 1e-9 * (1 + np.abs(x))  # a joint that rests on its limit has not passed it
        beyond = ((x < self.lower - slack) | (x > self.upper + slack)).reshape(-1, *x.shape[-2:]).any(axis=0)
        times: dict[str, float] = {}
        for i in np.flatnonzero(beyond.any(axis=0)).tolist():
            name = self.joints[i]
            times[name] = min(float(t[np.argmax(beyond[:, i])]), times.get(name, np.inf))
        return times


def _check_number(name: str, given: Any, allowed: str = "zero or more") -> None:
    """Raise ShapeError unless it is a number or a symbol, ModelError for a number that is not allowed."""
    x = quantity(name, given)
    if is_numeric(x) and not (np.isfinite(x) and ALLOWED[allowed](x)):
        raise ModelError(f"{name} is {given!r}; give {allowed}")


def _acting(values: Array) -> Sequence[Array] | None:
    """One coefficient for `numbers`; None if it is zero everywhere, so that the joint is skipped."""
    return None if is_numeric(values) and not np.any(values) else (values,)
