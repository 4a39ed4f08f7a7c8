"""Constraints between bodies: their equations as rows J dV + b of accelerations, and residuals g.

A constraint acts on the states of one or more bodies. The state of a body is the pose (R, p) of a frame fixed
to it, here always at its centre of mass, and (omega, v), both in the body's axes, whether the body's
configuration group is SE(3) or SO(3) x R^3. Its acceleration is (d omega/dt, a) with a = R^T p'' the
acceleration of the point p in the body's axes. The two primitives, with all derivatives exact:

    a point r       p + R r;  velocity R (v + omega x r);
                    acceleration R (a + omega' x r + omega x (omega x r))
    a direction d   R d;      velocity R (omega x d)

From these, in the axes of the last body, so that the Jacobian of a joint on the ground is constant
(Mueller, Terze, eqs (40), (50), (53)): rows that are exact second derivatives of g = 0, or of J V = 0.

`Rows.jacobians` are with respect to (omega, v) of each body, and so J V is the rate of g. The kinds here are
plain data plus arithmetic: the same code runs on floats and on symbols.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from ...base.arguments import check_arguments, wrong_shape
from ...base.concurrency import cached_property
from ...base.errors import GraphError, ModelError
from ...bodies import Joint
from ...compiler import Function, jacobian, trace
from ...groups import SE3, MotionSubgroup, subgroups
from ...scalars import Array, arctan2, cos, sin, sqrt, where
from ...scalars.linear import cross, skew

ONE = np.eye(3, dtype=int)
ZERO = np.zeros(3, int)
HALF_TURN = 1e-12  # of 1 + cos, below which an angle counts as half a turn: off by 1e-6 rad


class BodyState(NamedTuple):
    """Pose and velocity of a body: axes R (3, 3) and origin p (3,) in the world, omega and v in its axes."""

    R: Array
    p: Array
    w: Array
    v: Array


States = Sequence[BodyState]
GROUND = BodyState(ONE, ZERO, ZERO, ZERO)


class Rows(NamedTuple):
    """m equations: sum of J_i (omega_i', a_i) + bias = 0, of which `residual` is the integral.

    drift is the part of the residual's rate that does not come from velocities: explicit time.
    For a curve, `slide` is the rate of its parameter, `closer` the change of it to the closest point.
    """

    jacobians: list[Array]
    bias: Array
    residual: Array
    drift: Array | None = None
    slide: Array | None = None
    closer: Array | None = None


class ConstraintKind:
    """A kind of constraints, with its equations. Kinds that are equal share their code.

    rows        number of equations
    parameters  number of further coordinates (for a curve, one), which stand in q after the bodies
    holonomic   whether the equations have integrals, g = 0; constraints on velocities have residuals of zero
    timed       whether the time enters
    is_driven   whether a constraint without time prescribes velocities other than zero
    """

    rows: int
    parameters: int = 0
    holonomic: bool = True
    timed: bool = False
    is_driven: bool = False

    def __call__(self, states: States, constants: Sequence[Array], t: Any, s: Array) -> Rows:
        """The equations at states of the bodies, with a constraint's constants, time and parameters."""
        raise NotImplementedError


@dataclass(frozen=True)
class Constraint:
    """A constraint in a system: its kind, between which bodies (-1 is the ground), with which constants.

    frame  the pose (4, 4) of the frame in which its reaction is reported, in the last body
    """

    name: str
    kind: ConstraintKind
    bodies: tuple[int, ...]
    constants: tuple[np.ndarray, ...]
    frame: np.ndarray = field(default_factory=lambda: np.eye(4))
    joint: JointFrames | None = None

    @property
    def rows(self) -> int:
        return self.kind.rows


@dataclass(frozen=True, eq=False)
class JointFrames:
    """A joint, and where its frames lie in the two bodies (poses (4, 4) at the centres of mass)."""

    joint: Joint
    on_parent: np.ndarray
    on_child: np.ndarray

    @property
    def group(self) -> MotionSubgroup:
        """The motions that it leaves."""
        return self.joint.group

    @cached_property
    def constants(self) -> tuple[np.ndarray, ...]:
        """R, p of the frames, S^+ (k, 6), and the wrenches W (6, k) of unit efforts, S^T W = 1.

        A wrench is a moment about the axis of a rotation, a force along a translation.
        """
        # S^+ maps a relative twist to joint velocities, W efforts to a wrench; S^T W = 1 keeps the power
        S = self.group.S
        _, axes, _ = lower_pair(self.group)
        turns = S[:3].any(axis=0)
        moments = np.where(turns, S[:3], np.cross(axes[:3, 3], S[3:], axisb=0, axisc=0))
        W = np.concatenate([moments, np.where(turns, 0.0, S[3:])])
        Ra, ra = SE3.parts(self.on_parent)
        Rb, rb = SE3.parts(self.on_child)
        return Ra, ra, Rb, rb, np.linalg.pinv(S), W


# -- lower pairs ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class LowerPair(ConstraintKind):
    """Motion along a subgroup of SE(3) with axis z; the rest of the relative motion is locked.

    rotation     "free", "axis" (it may turn about z only) or "locked"
    translation  "free", "normal" (locked along z), "perpendicular" (to z) or "locked"
    screw        whether translation along z is tied to the angle about z, by the pitch

    Where translation is locked, two points coincide: rows R^T (p_b - p_a)'' = 0. All others say that the
    relative twist, in the axes of the child, stays in the span of S, N^T (V_b - Ad(T_ab^-1) V_a) = 0, and the
    derivative of that: a joint on the ground has N^T V = 0 with a constant N, which every Runge-Kutta method
    keeps to round-off on SE(3). All lower pairs are one function, as they share its terms.
    """

    rotation: str
    translation: str
    screw: bool = False

    @property
    def rows(self) -> int:  # type: ignore[override]
        turning = {"free": 0, "axis": 2, "locked": 3}[self.rotation]
        moving = {"free": 0, "normal": 1, "perpendicular": 2, "locked": 3}[self.translation]
        return turning + moving + self.screw

    def __call__(self, states: States, constants: Sequence[Array], t: Any, s: Array) -> Rows:
        """Rows of a joint: first its translations, then its rotations, then translations along an axis.

        Longer than sixty lines: all rows share the attitudes C and E and the velocities of the joint's
        points, and a trace holds each of these once.
        """
        a, b = states
        Ra, ra, Rb, rb, pitch = constants
        C = b.R.T @ a.R  # the parent's axes in the child's
        wa = C @ a.w
        z = Rb[:, 2]
        d = b.R.T @ (b.p - a.p)
        # velocity and centripetal acceleration of the child's point, in the child's axes
        point_b = b.v + cross(b.w, rb)
        swing_b = cross(b.w, cross(b.w, rb))
        Ja = []
        Jb = []
        bias = []
        residual = []

        def row(on_a: tuple[Array, Array], on_b: tuple[Array, Array], rest: Any, g: Any) -> None:
            Ja.append(np.concatenate(on_a))
            Jb.append(np.concatenate(on_b))
            bias.append(rest)
            residual.append(g)

        if self.translation == "locked":
            # coinciding points: R^T (p_b - p_a)'' = 0, a row for each axis of the child
            swing = swing_b - C @ cross(a.w, cross(a.w, ra))
            gap = d + rb - C @ ra
            arm = C @ skew(ra)
            for k, n in enumerate(ONE):
                row((arm[k], -C[k]), (cross(rb, n), n), swing[k], gap[k])
        E = Rb.T @ C @ Ra  # the parent's joint frame in the child's
        # residuals of the attitude, whose rates are rows of the relative angular velocity
        tilt = None
        if self.rotation == "locked":
            tilt = _turn(E)
        elif self.rotation == "axis":
            tilt = _tilt(E)
        # d/dt (omega_b - C omega_a) has, besides the accelerations, omega_b x C omega_a
        turning = cross(b.w, wa)
        if tilt is not None:
            for k in range(3 if self.rotation == "locked" else 2):
                n = Rb[:, k]
                row((-(n @ C), ZERO), (n, ZERO), n @ turning, tilt[k])
        if self.translation in ("normal", "perpendicular") or self.screw:
            rho = C.T @ (d + rb)  # the child's point in the parent's axes, from the parent's centre of mass
            across = C.T @ point_b - a.v
            # velocity of the child's point relative to the parent as a rigid frame
            slip = point_b - C @ (a.v + cross(a.w, rho))
            rest = swing_b - C @ cross(a.w, across) - cross(b.w, slip)
            # the child's point in the parent's joint frame: x and y across the axis, z along it
            place = Ra.T @ (rho - ra)

            def along(n: Array) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
                m = n @ C
                return (-cross(rho, m), -m), (cross(rb, n), n)

            if self.translation == "perpendicular":
                gap = E @ np.array([place[0], place[1], 0])
                for k in range(2):
                    n = Rb[:, k]
                    row(*along(n), n @ rest, gap[k])
            if self.translation == "normal":
                row(*along(z), z @ rest, place[2])
            if self.screw:
                (at, am), (bt, bm) = along(z)
                angle = arctan2(E[0, 1] - E[1, 0], E[0, 0] + E[1, 1])
                # how far the angle lies behind the climb, the short way round: a screw counts turns
                behind = place[2] / pitch - angle
                climb = pitch * arctan2(sin(behind), cos(behind))
                row((at + pitch * (z @ C), am), (bt - pitch * z, bm), z @ rest - pitch * (z @ turning), climb)
        return Rows([np.stack(Ja), np.stack(Jb)], np.array(bias), np.array(residual))


def _turn(E: Array) -> Array:
    """-2 tan(angle/2) a (3,) of the rotation E by an angle about a; large, along a, at half a turn."""
    # at half a turn the direction is read from E + 1 = 2 a a^T, because the skew part vanishes
    c = 1 + E[0, 0] + E[1, 1] + E[2, 2]  # 4 cos(angle/2)^2
    skew_part = (E[1, 2] - E[2, 1], E[2, 0] - E[0, 2], E[0, 1] - E[1, 0])
    first = (E[0, 0] >= E[1, 1]) & (E[0, 0] >= E[2, 2])
    second = E[1, 1] >= E[2, 2]
    columns = (E + ONE).T  # of 2 a a^T at half a turn: the longest one is that with the largest diagonal
    along = [where(first, x, where(second, y, z)) for x, y, z in zip(*columns, strict=True)]
    reach = 4 / sqrt(HALF_TURN * (along[0] * along[0] + along[1] * along[1] + along[2] * along[2]))
    return _unless_half_turn(c, skew_part, [reach * x for x in along])


def _tilt(E: Array) -> Array:
    """-2 tan(angle/2) a (2,) of the shortest rotation, about a, from z to E z; about x where this is -z."""
    return _unless_half_turn(1 + E[2, 2], (E[1, 2], -E[0, 2]), (2 * np.sqrt(2 / HALF_TURN), 0))


def _unless_half_turn(c: Array, values: Sequence[Any], instead: Sequence[Any]) -> Array:
    """2 values / c; the values `instead` where c vanishes."""
    regular = c > HALF_TURN
    divisor = where(regular, c, 1)
    return np.array([where(regular, 2 * x / divisor, y) for x, y in zip(values, instead, strict=True)])


_PAIRS: dict[type, LowerPair] = {
    subgroups.Fixed: LowerPair("locked", "locked"),
    subgroups.Revolute: LowerPair("axis", "locked"),
    subgroups.Prismatic: LowerPair("locked", "perpendicular"),
    subgroups.Helical: LowerPair("axis", "perpendicular", screw=True),
    subgroups.Cylindrical: LowerPair("axis", "perpendicular"),
    subgroups.Planar: LowerPair("axis", "normal"),
    subgroups.PlanarHelical: LowerPair("axis", "free", screw=True),
    subgroups.PlanarTranslation: LowerPair("locked", "normal"),
    subgroups.SpatialTranslation: LowerPair("locked", "free"),
    subgroups.Spherical: LowerPair("free", "locked"),
    subgroups.Schoenflies: LowerPair("axis", "free"),
}


def lower_pair(group: MotionSubgroup) -> tuple[LowerPair, np.ndarray, float]:
    """(the motions that a subgroup locks, the pose (4, 4) of its frame with axis z, its pitch)."""
    kind = _PAIRS.get(type(group))
    if kind is None:
        free = " Free() locks nothing: leave the joint out." if isinstance(group, subgroups.Free) else ""
        raise ModelError(
            f"{group!r} is no lower pair; known are {', '.join(sorted(c.__name__ for c in _PAIRS))}.{free}"
        )
    # a group without a preferred direction names no axis: any will do
    direction = getattr(group, "axis", getattr(group, "normal", np.array([0.0, 0.0, 1.0])))
    point = getattr(group, "point", np.zeros(3))
    # two directions across the axis complete the frame
    e = subgroups.Planar(direction).S[3:, 1:]
    frame = SE3.motion(np.column_stack([e, direction]), point)
    return kind, frame, float(getattr(group, "pitch", 1.0))


# -- directions and distances ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Universal(ConstraintKind):
    """Two points coincide, and a direction of one body stays at right angles to one of the other."""

    rows = 4

    def __call__(self, states: States, constants: Sequence[Array], t: Any, s: Array) -> Rows:
        da, ra, db, rb = constants
        one = LowerPair("free", "locked")(states, (ONE, ra, ONE, rb, 1), t, s)
        angle = RightAngle()(states, (da, db), t, s)
        jacobians = [np.concatenate(J) for J in zip(one.jacobians, angle.jacobians, strict=True)]
        return Rows(
            jacobians, np.concatenate([one.bias, angle.bias]), np.concatenate([one.residual, angle.residual])
        )


@dataclass(frozen=True)
class RightAngle(ConstraintKind):
    """A direction of one body stays at right angles to one of the other: (R_a d_a) . (R_b d_b) = 0."""

    rows = 1

    def __call__(self, states: States, constants: Sequence[Array], t: Any, s: Array) -> Rows:
        a, b = states
        da, db = constants
        C = b.R.T @ a.R
        e = C @ da
        wa = C @ a.w
        c = cross(db, e)
        relative = b.w - wa
        # the second derivative of d_b . C d_a without the terms in angular accelerations
        bias = cross(b.w, wa) @ c - relative @ cross(db, cross(relative, e))
        Ja = np.concatenate([-(c @ C), ZERO])
        Jb = np.concatenate([c, ZERO])
        return Rows([Ja[None], Jb[None]], np.array([bias]), np.array([db @ e]))


@dataclass(frozen=True)
class Distance(ConstraintKind):
    """Two points keep their distance, as the ends of a massless rod: g = (|d|^2 - L^2)/(2 L)."""

    rows = 1

    def __call__(self, states: States, constants: Sequence[Array], t: Any, s: Array) -> Rows:
        a, b = states
        ra, rb, length = constants
        C = b.R.T @ a.R
        d = b.R.T @ (b.p - a.p) + rb - C @ ra
        rate = b.v + cross(b.w, rb) - C @ (a.v + cross(a.w, ra))
        swing = cross(b.w, cross(b.w, rb)) - C @ cross(a.w, cross(a.w, ra))
        # over L, g is a length, and at g = 0 the row is the unit direction of the rod
        u = d / length
        scale = 1 / length
        m = u @ C
        Ja = np.concatenate([-cross(ra, m), -m])
        Jb = np.concatenate([cross(rb, u), u])
        return Rows(
            [Ja[None], Jb[None]],
            np.array([scale * (rate @ rate) + u @ swing]),
            np.array([0.5 * scale * (d @ d - length * length)]),
        )


# -- curves ---------------------------------------------------------------------------------------------


class OnCurve(ConstraintKind):
    """A point of one body stays on a curve c(s), s -> (3,), of the other. s is a coordinate of the system.

    Rows: the two components of p - c(s) normal to the curve; s follows the closest point of the curve.
    Derivatives of c come from its graph.
    """

    rows = 2
    parameters = 1

    def __init__(self, curve: Callable[[Any], Array]) -> None:
        self.position = traced_function(lambda s: np.asarray(curve(s)), {"s": ()}, "the curve", (3,))
        self.first = jacobian(self.position, "s", "forward")
        self.second = jacobian(self.first, "s", "forward")

    def __call__(self, states: States, constants: Sequence[Array], t: Any, s: Array) -> Rows:
        a, b = states
        rb, origin = constants  # the point on b, and the origin of the curve on a
        c, slope, bend = (np.asarray(f(s[0])) for f in (self.position, self.first, self.second))
        C = b.R.T @ a.R
        rho = C.T @ (b.R.T @ (b.p - a.p) + rb)
        across = C.T @ (b.v + cross(b.w, rb)) - a.v
        rate = across - cross(a.w, rho)
        gap = rho - origin - c
        square = slope @ slope
        # ds/dt from d/dt [c'(s) . (p - c(s))] = 0, which defines the closest point
        slide = (slope @ rate) / (square - gap @ bend)
        swing = C.T @ cross(b.w, cross(b.w, rb)) - cross(a.w, across) - cross(a.w, rate)
        swing = swing - bend * (slide * slide)
        Ja = []
        Jb = []
        bias = []
        residual = []
        # rows only across the curve: along it the point is free
        for n in _normals(slope / sqrt(square)):
            m = C @ n
            Ja.append(np.concatenate([-cross(rho, n), -n]))
            Jb.append(np.concatenate([cross(rb, m), m]))
            bias.append(n @ swing)
            residual.append(n @ gap)
        return Rows(
            [np.stack(Ja), np.stack(Jb)],
            np.array(bias),
            np.array(residual),
            slide=np.reshape(slide, 1),
            closer=np.reshape(slope @ gap / square, 1),
        )

    def closest(self, s: float, place: Array, iterations: int = 50) -> float:
        """The parameter of the curve's point closest to `place`, from the guess s on (Gauss-Newton)."""
        for _ in range(iterations):
            slope = self.first(s)
            step = float(slope @ (place - self.position(s)) / (slope @ slope))
            # a Gauss-Newton step: the curvature of c is left out
            s += step
            if abs(step) < 1e-15 * max(1.0, abs(s)):
                break
        return s


def _normals(u: Array) -> tuple[Array, Array]:
    """Two unit vectors normal to the unit vector u and to each other (Duff et al. 2017)."""
    x, y, z = u
    sign = where(z < 0, -1.0, 1.0)  # sign + z is 1 or more: no division by zero at any u
    k = -1 / (sign + z)
    return (
        np.array([1 + sign * x * x * k, sign * x * y * k, -sign * x]),
        np.array([x * y * k, sign + y * y * k, -y]),
    )


# -- by functions of users ----------------------------------------------------------------------------------


class OfFunction(ConstraintKind):
    """A constraint by a user's function of poses (4, 4) of the bodies' frames, or of twists, too.

    function  takes (T_1, V_1, ...) with twists (6,) in the frames' own axes, or, where `parts` has none,
              (T_1, T_2, ...), after the time if `timed`; returns a number or a vector (m,)
    """

    parts = "Rp"  # arguments of the traced function for each body: R, p, and also w, v of the twist

    def __init__(self, function: Callable[..., Any], count: int, timed: bool, name: str) -> None:
        self.function = function
        self.count = count
        self.timed = timed
        letters = "TV" if "w" in self.parts else "T"
        arguments = ["t"] * timed + [f"{x}_{i + 1}" for i in range(count) for x in letters]
        check_arguments(f"constraint {name!r}", function, *arguments)
        self.value = traced_function(self._value, self._shapes(self.parts), f"constraint {name!r}", None)
        self.rows = next(iter(self.value.outputs.values())).size

    def _shapes(self, parts: str) -> dict[str, Any]:
        """The shapes of t and of these parts of each body: "R0", "p0", "R1", ..."""
        return {"t": (), **{f"{x}{i}": (3, 3) if x == "R" else 3 for i in range(self.count) for x in parts}}

    def _value(self, t: Any, *parts: Array) -> Array:
        arguments: list[Any] = [t] * self.timed
        for R, p, *twist in zip(*(parts[k :: len(self.parts)] for k in range(len(self.parts))), strict=True):
            arguments += [SE3.motion(R, p), *([np.concatenate(twist)] if twist else [])]
        return np.atleast_1d(np.asarray(self.function(*arguments)))

    @cached_property
    def _gradients(self) -> list[tuple[Function, Function]]:
        """Derivatives by the last two parts of each body."""
        a, b = self.parts[-2], self.parts[-1]
        return [(jacobian(self.value, f"{a}{i}"), jacobian(self.value, f"{b}{i}")) for i in range(self.count)]

    @cached_property
    def _along(self) -> Function:
        """The derivative by e along T exp(e V) at t + e: (e, t, R, p, w, v, ...) -> (m,)."""

        def path(e: Any, t: Any, *parts: Array) -> Array:
            moved: list[Array] = []
            for R, p, *twist in zip(*(parts[k::4] for k in range(4)), strict=True):
                # R exp(e W) to second order, which two derivatives at e = 0 need
                W = skew(twist[0])
                moved += [R + e * (R @ W) + (0.5 * e * e) * (R @ (W @ W)), p + e * (R @ twist[1])]
                moved += twist if "w" in self.parts else []
            return self.value(t + e, *moved)

        return jacobian(trace(path, {"e": (), **self._shapes("Rpwv")}, "path"), "e", "forward")


class General(OfFunction):
    """g(T_1, T_2, ...) = 0 or g(t, T_1, ...) = 0, with derivatives from the graph of g.

    With T(e) = T exp(e V) to second order, J V = dg/de and bias = d^2 g/de^2 at e = 0.
    """

    def __init__(self, function: Callable[..., Any], count: int, timed: bool, name: str) -> None:
        super().__init__(function, count, timed, name)
        # an entry whose derivatives all vanish in the graph constrains nothing and makes A singular
        moves = np.zeros(self.rows, bool)
        for by_pose in (f for pair in self._gradients for f in pair):
            entries = next(iter(by_pose.outputs.values())).reshape(self.rows, -1)
            moves |= np.array([any(type(x) is not float or x != 0 for x in row) for row in entries])
        if not moves.all():
            raise ModelError(
                f"constraint {name!r}: entry {int(np.argmin(moves))} of what its function returns does not "
                "depend on the poses; leave it out"
            )

    @cached_property
    def _bend(self) -> Function:
        """The second derivative, as `_along`."""
        return jacobian(self._along, "e", "forward")

    def __call__(self, states: States, constants: Sequence[Array], t: Any, s: Array) -> Rows:
        frames = own_frames(states, constants)
        places = [x for R, p, _, _ in frames for x in (R, p)]
        jacobians = []
        for (R, _, _, _), (by_R, by_p), Q, r in zip(
            frames, self._gradients, constants[::2], constants[1::2], strict=True
        ):
            # the derivative by all entries of R, taken along the three rotations R hat(e_k)
            G, P = by_R(t, *places), by_p(t, *places)
            turned = [(G * (R @ skew(e))[None]).sum(axis=(1, 2)) for e in ONE]
            jacobians.append(at_center(np.stack(turned, axis=1), P @ R, Q, r))
        bias = self._bend(0.0, t, *(x for frame in frames for x in frame))
        # p'' = R a of the frame's origin while a of the centre of mass is zero: omega x (omega x r)
        for body, J, r in zip(states, jacobians, constants[1::2], strict=True):
            bias = bias + J[:, 3:] @ cross(body.w, cross(body.w, r))
        drift = None
        if self.timed:
            still = [x for R, p, _, _ in frames for x in (R, p, ZERO, ZERO)]
            drift = self._along(0.0, t, *still)
        return Rows(jacobians, bias, self.value(t, *places), drift)


def own_frames(states: States, constants: Sequence[Array]) -> list[tuple[Array, Array, Array, Array]]:
    """R, p, omega, v of the bodies' own frames: at r in the axes of the centres of mass, turned by Q.

    constants  Q, r of each body
    """
    return [
        (body.R @ Q, body.p + body.R @ r, Q.T @ body.w, Q.T @ (body.v + cross(body.w, r)))
        for body, Q, r in zip(states, constants[::2], constants[1::2], strict=True)
    ]


def at_center(turned: Array, moved: Array, Q: Array, r: Array) -> Array:
    """Rows (m, 6) for (omega, v) of a body, from rows (m, 3) for its frame, in the frame's axes."""
    # rows in the body's axes; turning about the centre of mass moves the frame by omega x r
    spin = turned @ Q.T
    slide = moved @ Q.T
    return np.concatenate([spin + slide @ -skew(r), slide], axis=1)


def traced_function(
    function: Callable[..., Any], shapes: Any, what: str, shape: tuple[int, ...] | None
) -> Function:
    """The trace of a user's function, with errors that name it."""
    try:
        traced = trace(function, shapes, "user")
    except GraphError as error:
        raise GraphError(f"{what}: {error}") from None
    returned = next(iter(traced.outputs.values())).shape
    if shape is not None and returned != shape:
        raise wrong_shape(f"the result of {what}", returned, shape)
    if shape is None and (len(returned) != 1 or not returned[0]):
        raise wrong_shape(f"the result of {what}", returned, "a number or a vector (m,)")
    return traced
