"""Configurations at which frames are where they should be, on the group and within the joints' limits."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..base.arguments import checked, count, floats, wrong_shape
from ..base.errors import ConfigurationError, ModelError, ShapeError, positive, warn
from ..bodies import NO_LIMIT, Body, Frame, Joint, Tree
from ..compiler import Kernel, traced
from ..groups import SE3, Fixed, Prismatic, RealGroup, Revolute, Spherical
from ..robot import Robot
from ..scalars import Array
from ..scalars.linear import is_numeric

CONVERGED = "converged"
STATIONARY = "closest within reach"
UNFINISHED = "not finished"
STEEP = 1e-8  # a gradient below it, relative to its factors, is none
# Searches that end equally close, for a target beyond the links' lengths and for others (of 4500 poses that
# can be reached, 3 had 6 of them before one converged, and none had 12). Relative differences below SAME
# count as equal.
BEYOND = 3
AGREEING = 12
SAME = 1e-6
FIRST_DAMPING = 1e-2
LARGEST_DAMPING = 1e16


@dataclass(frozen=True, repr=False)
class InverseKinematics:
    """The result of `inverse_kinematics`, for each member of a batch (...).

    q           configurations, (..., nq)
    residual    |e| of the errors of all targets, (...)                                            [rad and m]
    converged   whether |e|, with lengths over the size, is at most the tolerance, (...)
    iterations  how many steps were tried, those from other starts included, (...)
    reason      "converged"; "closest within reach": no small motion comes nearer, and no start that was tried
                has led nearer; or "not finished" after so many iterations, (...)
    errors      e of each target, by its frame, (..., 6) or (..., 3)                               [rad, m]
    poses       where the frames are at q, (..., 4, 4) each: the closest poses that were found
    size        the length that counts as much as a radian: how long the links to the frames are           [m]
    """

    q: Array
    residual: Array
    converged: Array
    iterations: Array
    reason: Array
    errors: dict[str | Frame, Array]
    poses: dict[str | Frame, Array]
    size: float

    def __repr__(self) -> str:
        worst = float(np.max(self.residual, initial=0))
        of = f"{np.count_nonzero(self.converged)} of {np.size(self.converged)}"
        left = ", ".join(sorted({*np.ravel(self.reason)} - {CONVERGED}))
        return f"InverseKinematics: {of} converged, largest residual {worst:.3g}{left and f' ({left})'}"


@checked
def inverse_kinematics(
    robot: Robot,
    targets: Mapping[str | Frame, Array],
    q0: Any = None,
    *,
    limits: bool = True,
    tolerance: float = 1e-10,
    iterations: int = 100,
    restarts: int = 60,
    rng: np.random.Generator | int | None = 0,
) -> InverseKinematics:
    """Configurations q at which frames have given poses or positions: least |W e(q)|, by Levenberg-Marquardt.

        found = lb.inverse_kinematics(robot, {"tool0": T}, q0)       # found.q, found.converged

    With the pose T(q) of a frame and T* that is wanted, e = log(T^-1 T*), (6,), and with a position p*,
    e = p* - p, (3,). W divides lengths by the size of the robot, so that the search is the same in any unit
    of length. A step is dq = D (A^T A + lambda 1)^-1 A^T W e along the group with A = W J D, where D
    multiplies translations by the size; lambda is in proportion to |W e|^2, so that steps are quadratic near
    a solution and small where J loses rank.

    targets     by name of a frame or body: poses (..., 4, 4), or positions (..., 3), in the world     [m]
    q0          where to start, (..., nq), or values of joints, {"elbow_joint": 1.2}; None: neutral
    limits      whether the joints' limits, also of those that follow others, are kept
    tolerance   of |W e|: radians, and lengths over the size (`InverseKinematics.size`)                  [rad]
    iterations  most steps of a search
    restarts    how many searches from random configurations follow at most where one has not converged: near
                singular configurations most starts lead to others that are closest in their neighbourhood. A
                target is given up as soon as twelve searches have ended equally close to it, and no other one
                closer (three, where it is farther away than the links are long)
    rng         where these are drawn from

    For motions that lead there step by step, clear of obstacles, there is `control.DifferentialIK`.

    Leading axes of targets and q0 broadcast. A target out of reach is no error: `converged` is False, and q
    the closest configuration that was found.

    Raises ShapeError, ConfigurationError, ModelError for targets and starts that cannot be.

    Sugihara, "Solvability-unconcerned inverse kinematics by the Levenberg-Marquardt method", IEEE Trans.
    Robot. 27 (2011); limits by projection, with an active set: Kelley (1999), section 5.4.
    """
    # The function is long because it checks, starts, repeats and sorts all searches of a batch in one place.
    tolerance = positive("tolerance", tolerance)
    iterations = count("iterations", iterations, 0)
    restarts = count("restarts", restarts, 0)
    wanted = {frame: _target(robot, frame, target) for frame, target in targets.items()}
    if not wanted:
        raise ModelError("there are no targets; give some, as {'tool0': T}")
    start = robot.neutral() if q0 is None else robot.configuration(q0) if isinstance(q0, Mapping) else q0
    start = robot.group.check(floats("q0", start, finite=False))
    sizes = {frame: 1 if target.shape[-1] == 3 else 2 for frame, target in wanted.items()}  # axes of a target
    try:
        leading = [x.shape[: x.ndim - sizes[frame]] for frame, x in wanted.items()]
        batch = np.broadcast_shapes(start.shape[:-1], *leading)
    except ValueError as error:
        raise ShapeError(f"the leading axes of targets and q0 do not broadcast: {error}") from None
    # all members become rows of one search
    n = math.prod(batch)
    rows = [
        np.broadcast_to(x, (*batch, *x.shape[-sizes[frame] :])).reshape(n, *x.shape[-sizes[frame] :])
        for frame, x in wanted.items()
    ]
    search = _Search(robot, {frame: n == 2 for frame, n in sizes.items()}, limits, tolerance, iterations)
    q = np.broadcast_to(start, (*batch, robot.nq)).reshape(n, robot.nq)
    best = search.run(search.bounds.inside(q), rows)

    # Members that have not converged start again from random configurations, in rounds of 1, 2, 4, ...
    # starts: easy members cost few searches, and hard ones fill the lanes of a round.
    seed = rng if rng is None or isinstance(rng, np.random.Generator) else count("rng", rng, 0)
    draw = np.random.default_rng(seed)
    beyond = search.beyond_reach(rows)
    ends = best.residual[:, None]  # of all searches so far, a column each
    for copies in _doubling(restarts):
        # many searches that end equally close tell that nothing nearer exists: the member is given up
        agreeing = (ends <= best.residual[:, None] * (1 + SAME)).sum(axis=1)
        left = np.flatnonzero((best.residual > tolerance) & (agreeing < np.where(beyond, BEYOND, AGREEING)))
        if not len(left):
            break
        members = np.repeat(left, copies)
        tried = search.run(search.random(draw, len(members)), [x[members] for x in rows])
        ends = np.concatenate([ends, np.full((len(ends), copies), np.inf)], axis=1)
        ends[left, -copies:] = tried.residual.reshape(-1, copies)
        best.iterations[left] += tried.iterations.reshape(-1, copies).sum(axis=1)
        # keep the best start of the round where it beats all before
        first = np.argmin(tried.residual.reshape(-1, copies), axis=1) + copies * np.arange(len(left))
        better = tried.residual[first] < best.residual[left]
        for kept, new in ((best.q, tried.q), (best.residual, tried.residual), (best.reason, tried.reason)):
            kept[left[better]] = new[first[better]]
    # errors without weights, a part for each target
    e, _ = search.kernel(best.q, *rows)
    parts = np.split(e, np.cumsum([3 * n for n in sizes.values()])[:-1], axis=-1)
    return InverseKinematics(
        best.q.reshape(*batch, robot.nq),
        np.linalg.norm(e, axis=-1).reshape(batch)[()],
        (best.residual <= tolerance).reshape(batch)[()],
        best.iterations.reshape(batch)[()],
        best.reason.reshape(batch)[()],
        {frame: x.reshape(*batch, x.shape[-1]) for frame, x in zip(wanted, parts, strict=True)},
        {frame: robot.pose(best.q, frame).reshape(*batch, 4, 4) for frame in wanted},
        search.size,
    )


def _doubling(total: int) -> Iterator[int]:
    """1, 2, 4, ... with this sum."""
    n = 1
    while total > 0:
        yield min(n, total)
        total = total - n
        n = 2 * n


def _target(robot: Robot, frame: str | Frame, target: Any) -> Array:
    """A pose (..., 4, 4) or position (..., 3) as floats, of a frame that the robot has."""
    if isinstance(frame, str):
        robot.tree.frame(frame)
    x = floats(f"the target of {frame!r}", target)
    if x.shape[-1:] != (3,) and x.shape[-2:] != (4, 4):
        raise wrong_shape(f"the target of {frame!r}", x.shape, "a pose (..., 4, 4) or a position (..., 3)")
    if x.shape == (3, 3) and np.abs(x.T @ x - np.eye(3)).max() <= 1e-6 and np.linalg.det(x) > 0:
        warn(
            f"the target of {frame!r} is a rotation matrix (3, 3), and read as three positions; a pose is "
            "(4, 4): SE3.motion(R, p), with the position p",
            UserWarning,
        )
    if x.shape[-1] == 4:
        R = x[..., :3, :3]
        off = max(
            np.abs(np.swapaxes(R, -1, -2) @ R - np.eye(3)).max(initial=0),
            np.abs(np.linalg.det(R) - 1).max(initial=0),
            np.abs(x[..., 3, :] - [0, 0, 0, 1]).max(initial=0),
        )
        if off > 1e-6:
            raise ConfigurationError(
                f"the target of {frame!r} is no pose (off by {off:.3g}): expected a rotation, a position and "
                "the row 0, 0, 0, 1"
            )
    return x


class _Bounds:
    """The box of coordinates within the joints' limits.

    low, high  (nq,), infinite where there are none
    pairs      coordinates that are degrees of freedom, too, and their numbers among these
    """

    def __init__(self, robot: Robot, limits: bool) -> None:
        tree = robot.tree
        none = np.full(tree.nq, np.inf)
        self.low, self.high = tree.coordinate_limits if limits else (-none, none)
        straight = [body for body in tree.bodies if isinstance(body.joint.group, RealGroup)]
        self.pairs = (
            np.array([i for body in straight for i in range(tree.nq)[body.coordinates]], int),
            np.array([i for body in straight for i in range(tree.nv)[body.dofs]], int),
        )

    def inside(self, q: Array) -> Array:
        """The closest configurations (n, nq) within the limits."""
        return np.clip(q, self.low, self.high)

    def random(self, robot: Robot, rng: np.random.Generator, n: int, units: Array) -> Array:
        """Random configurations (n, nq) within the limits: uniform between limits that are finite.

        units  factors of the unlimited coordinates, (nq,)
        """
        q = robot.random(rng, n, within_limits=False) * units
        closed = np.isfinite(self.high - self.low)
        q[:, closed] = rng.uniform(self.low[closed], self.high[closed], (n, np.count_nonzero(closed)))
        return self.inside(q)

    def free(self, q: Array, uphill: Array) -> Array:
        """Which degrees of freedom (n, nv) can go along `uphill` (n, nv): not those that a limit stops."""
        at, dof = self.pairs
        free = np.ones(uphill.shape, bool)
        free[:, dof] = ~(
            ((q[:, at] <= self.low[at]) & (uphill[:, dof] < 0))
            | ((q[:, at] >= self.high[at]) & (uphill[:, dof] > 0))
        )
        return free


@dataclass
class _Found:
    """The state of searches, a row each; the residual is |W e|."""

    q: Array
    residual: Array
    iterations: Array
    reason: Array


class _Search:
    """Levenberg-Marquardt steps for many searches at once."""

    def __init__(
        self, robot: Robot, is_pose: Mapping[Any, bool], limits: bool, tolerance: float, iterations: int
    ) -> None:
        self.robot = robot
        self.tolerance = tolerance
        self.most = iterations
        self.bounds = _Bounds(robot, limits)
        key = ("inverse kinematics", *is_pose.items())
        if key not in robot.kernels:
            robot.kernels[key] = Kernel(_errors(robot, dict(is_pose)))
        self.kernel = robot.kernels[key]
        self.size = _size(robot.tree, is_pose, limits)
        # weights: angles count as they are, lengths over the size
        shares = [[1.0] * 3 * whole + [1 / self.size] * 3 for whole in is_pose.values()]
        self.weights = np.concatenate(shares)  # W
        slides = _slides(robot.tree)
        self.units = np.where(slides, self.size, 1.0)  # D
        neutral = np.asarray(robot.neutral(), float)
        # coordinates that a slide moves are lengths
        moved = np.asarray(robot.group.integrate(neutral, slides.astype(float)), float)
        self.coordinate_units = np.where(moved != neutral, self.size, 1.0)  # of coordinates that are lengths
        self.reaches = [_reach(robot.tree, frame, limits) for frame in is_pose]

    def beyond_reach(self, targets: list[Array]) -> Array:
        """Whether some target is farther away than the links are long, (n,)."""
        places = (x[..., :3, 3] if x.ndim == 3 else x for x in targets)
        apart = [np.linalg.norm(p - o, axis=-1) > r * (1 + SAME) for p, (o, r) in zip(places, self.reaches)]
        return np.any(apart, axis=0)

    def errors(self, q: Array, targets: list[Array]) -> tuple[Array, Array]:
        """W e (n, m) and W J D (n, m, nv): with lengths in units of the size."""
        e, J = self.kernel(q, *targets)
        return e * self.weights, J * self.weights[:, None] * self.units

    def random(self, rng: np.random.Generator, n: int) -> Array:
        """Random configurations (n, nq) within the limits, translations as far as the robot is large."""
        return self.bounds.random(self.robot, rng, n, self.coordinate_units)

    def run(self, q: Array, targets: list[Array]) -> _Found:
        """Searches from q (n, nq), each until it has converged or cannot come nearer."""
        n = len(q)
        searches = _Found(
            q.copy(), np.full(n, np.inf), np.zeros(n, int), np.full(n, UNFINISHED, dtype=object)
        )
        damping = np.full(n, FIRST_DAMPING)
        e, J = self.errors(q, targets)
        searches.residual[:] = np.linalg.norm(e, axis=-1)
        for _ in range(self.most):
            # the gradient of the residual; a limit that stops a joint takes the joint out of the step
            uphill = (np.swapaxes(J, -1, -2) @ e[..., None])[..., 0]
            free = self.bounds.free(searches.q, uphill)
            size = np.linalg.norm(J, axis=(-1, -2))
            # a search ends at a stationary point, at the largest damping, or where it has converged
            flat = np.linalg.norm(uphill * free, axis=-1) <= STEEP * size * searches.residual
            stuck = flat | (damping > LARGEST_DAMPING) | ~np.isfinite(searches.residual)
            searches.reason[stuck] = STATIONARY
            searches.reason[searches.residual <= self.tolerance] = CONVERGED
            going = np.flatnonzero(searches.reason == UNFINISHED)
            if not len(going):
                break
            searches.iterations[going] += 1
            e_ = e[going]
            J_ = J[going] * free[going, None, :]
            # the damping shrinks with the residual: steps become quadratic near a solution (Sugihara 2011)
            lam = damping[going] * size[going] ** 2 * np.minimum(1, searches.residual[going] ** 2)
            step = _damped(J_, e_, lam) * self.units
            there = self.bounds.inside(self.robot.integrate(searches.q[going], step))
            e_, J_ = self.errors(there, [x[going] for x in targets])
            residual = np.linalg.norm(e_, axis=-1)
            better = residual < searches.residual[going]
            # only steps that lead nearer are taken; the others are tried again with more damping
            rows = going[better]
            searches.q[rows] = there[better]
            searches.residual[rows] = residual[better]
            e[rows] = e_[better]
            J[rows] = J_[better]
            damping[going] *= np.where(better, 0.25, 8.0)
        searches.q = np.array(self.robot.normalize(searches.q))
        return searches


def _chain(tree: Tree, frame: str | Frame) -> tuple[Frame, list[Body]]:
    """The frame, and the bodies that carry it, from the root on."""
    at = tree.frame(frame) if isinstance(frame, str) else frame
    bodies = tree.ancestors(at.body) if at.body else []
    return at, sorted(bodies, key=lambda body: body.index)


def _links(at: Frame, chain: list[Body]) -> float:
    """Length of all links of a chain, from its root to the frame, without slides."""
    lengths = [float(np.linalg.norm(T[:3, 3])) for T in (*(b.placement for b in chain[1:]), at.placement)]
    for body in chain:
        if isinstance(body.joint.group, Revolute | Spherical):
            lengths.append(2 * float(np.linalg.norm(getattr(body.joint.group, "point", 0.0))))  # of the axis
    return sum(lengths) if chain else 0.0


def _stroke(joint: Joint) -> float:
    """How far a slide gets from zero within its limits."""
    return float(np.abs([joint.lower, joint.upper]).max())


def _reach(tree: Tree, frame: str | Frame, limits: bool) -> tuple[Array, float]:
    """A place in the world, and how far from it a frame's origin can get, by the lengths of its links."""
    at, chain = _chain(tree, frame)
    reach = _links(at, chain)
    for body in chain:
        group = body.joint.group
        joint = body.joint
        if isinstance(group, Prismatic) and limits and joint.mimic is None:
            reach += _stroke(joint)
        elif not isinstance(group, Revolute | Spherical | Fixed):
            reach = np.inf
    origin = chain[0].placement[:3, 3] if chain else at.placement[:3, 3]
    return np.asarray(origin, float), reach


def _size(tree: Tree, frames: Iterable[str | Frame], limits: bool) -> float:
    """A length that grows with the robot and does not depend on where it stands.

    The longest chain of links to one of the frames, or the largest radius of gyration of a body that carries
    it, whichever is longer. Limits of slides are a last resort, as descriptions have 1e3 for no limit. 1 m
    where nothing has a length.
    """
    lengths = [0.0]
    strokes = [0.0]
    for frame in frames:
        at, chain = _chain(tree, frame)
        lengths.append(_links(at, chain))
        for body in chain:
            m, _, Sigma = body.inertia.moments
            if is_numeric(m, Sigma) and m > 0:
                lengths.append(math.sqrt(max(float(np.trace(Sigma)) / float(m), 0.0)))
            if isinstance(body.joint.group, Prismatic):
                strokes.append(_stroke(body.joint))
    for size in (max(lengths), max(x for x in strokes if x < NO_LIMIT)):
        if size > 0:
            return size
    return 1.0


def _slides(tree: Tree) -> Array:
    """Which velocities (nv,) are translations, in metres; a joint that follows counts as its leader."""
    slides = np.zeros(tree.nv, bool)
    for body in tree.bodies:
        if body.joint.mimic is None:
            for k, S in body.columns:
                slides[k] = is_numeric(S) and not np.any(S[:3])
    return slides


def _errors(robot: Robot, is_pose: Mapping[Any, bool]) -> Any:
    """(q, targets) -> e (m,) and J (m, nv), with de = -J dq, traced."""

    def errors(q: Array, *targets: Array) -> tuple[Array, Array]:
        e = []
        J = []
        for (frame, whole), target in zip(is_pose.items(), targets, strict=True):
            T = robot.pose(q, frame)
            V = robot.jacobian(q, frame)
            if whole:
                e.append(SE3.log(SE3.compose(SE3.inverse(T), target)))
                J.append(SE3.dexp_inverse(e[-1]) @ V)
            else:
                e.append(target - T[:3, 3])
                J.append(T[:3, :3] @ V[3:])
        return np.concatenate(e), np.concatenate(J)

    shapes = {f"target_{k}": (4, 4) if whole else 3 for k, whole in enumerate(is_pose.values())}
    return traced(errors, {"q": robot.nq, **shapes}, "errors")


def _damped(J: Array, e: Array, lam: Array) -> Array:
    """(J^T J + lambda 1)^-1 J^T e of many (n, m, k), (n, m), (n,), by singular values: of any rank."""
    # singular values below round-off count as zero: no step along them, even without damping
    U, s, Vt = np.linalg.svd(J, full_matrices=False)
    along = (np.swapaxes(U, -1, -2) @ e[..., None])[..., 0]
    least = math.ulp(1.0) * max(J.shape[1:]) * s.max(axis=-1, initial=0)
    inverse = np.where(s > least[:, None], s, 0) / np.maximum(s * s + lam[:, None], np.finfo(float).tiny)
    return (np.swapaxes(Vt, -1, -2) @ (inverse * along)[..., None])[..., 0]
