"""What time stepping solves for: impulses of contacts, of joints' stops and dry friction, of closed loops."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..bodies import Body, Frame, Tree
from ..codegen import step
from ..constrained.elimination import PROXIMAL
from ..door import names
from ..dynamics import JointForce, JointFriction, JointLimits
from ..errors import ModelError
from ..groups import SE3
from ..linear import dot, factor, inward, is_zero, outward, product, skew, square, symmetric
from ..scalar import Array, maximum, minimum, sqrt, where
from .cones import HELD, SWEEPS, Block, Bounds, Cone, Saturation, formed, gauss_seidel, put, reached, within
from .contact import Contact, pair, under
from .flight import turning
from .robot import Element, State, driven

FORMED = 15  # rows up to which sweeps with J M^-1 J^T are shorter than those with its factors
RIGID = 1e-3  # of its compliance that a point has while it rebounds


class Row(NamedTuple):
    """Rows of the solve that one law holds: w = J v' + bias + R x, from the impulses x of the last step.

    rebound  what restitution adds to the bias; None: nothing
    """

    J: Array
    bias: Array
    R: Array
    law: Any
    x: Array
    rebound: Array | None = None


class Push(NamedTuple):
    """Impulses x (m,) of rows, and the velocities J v along them before and after."""

    x: Array
    before: Array
    after: Array

    @property
    def work(self) -> Any:
        """By the mean velocities."""
        return self.x @ (0.5 * (self.before + self.after))


class Impulses(NamedTuple):
    """The push on each row, the largest defect of a law, the change of v (nv,)."""

    pushes: list[Push]
    residual: Any
    change: Array


def impulses(factors: Any, v: Array, r: Array, rows: Sequence[Row], sweeps: int, newton: int) -> Impulses:
    """Impulses x that obey the laws of rows, w = J v' + bias + R x, with v' = v + M^-1 (L^T r + J^T x).

    factors  L and 1/d of M = L^T diag(d) L

    With X = L^-T J^T and Y = X / d, J M^-1 J^T = X^T Y. Rows that are held, w = 0, are eliminated: the others
    see the inverse inertia that the loops leave, X^T Y - C^T B^-1 C, of the held rows' own B = L_B^T d_B L_B
    and the coupling C. Longer columns have that, Z = L_B^-T C below X and -Z / d_B below Y. So no sweep over
    contacts opens a loop.

    With restitution, x = x_0 + s (x_e - x_0) of the impulses x_0 without it and x_e with it. s = 1, unless
    the work x . (J v + J v') / 2 would be positive, as friction or several contacts can make it: then it is
    zero.
    """
    if not rows:
        return Impulses([], 0.0, outward(factors, r))
    n, L, scale = len(v), square(factors[0]), np.array(factors[1])
    seen = [_in_factors(L, scale, row, v, r) for row in rows]
    held, others = ([i for i, row in enumerate(rows) if (row.law is HELD) is x] for x in (True, False))
    loops = _Loops.of(n, [seen[i] for i in held], [rows[i].R for i in held])
    for i in others if held else ():
        seen[i] = loops.beside(seen[i])
    blocks = [Block(rows[i].law, seen[i].X, seen[i].Y, rows[i].R, seen[i].b) for i in others]
    few = sum(len(block.R) for block in blocks) <= FORMED
    if few:
        blocks = formed(blocks)
    x, y, residual = gauss_seidel(blocks, [rows[i].x for i in others], sweeps, newton)
    if any(row.rebound is not None for row in rows):
        rebounds = [rows[i].rebound for i in others]
        more = [k if e is None else k._replace(b=k.b + e) for k, e in zip(blocks, rebounds, strict=True)]
        x_e, y_e, rest = gauss_seidel(more, x, sweeps, newton)
        each = zip(others, blocks, x, x_e, strict=True)
        works = []
        for i, block, x_0, x_1 in each:
            at = reached(block.Y)
            own = seen[i].before, seen[i].free, block.Y[at]
            works.append(_works(*own, x_0, x_1, y[at], y_e[at]))
        share = _most(*(sum(terms) for terms in zip(*works, strict=True)))
        x = [x_0 + share * (x_1 - x_0) for x_0, x_1 in zip(x, x_e, strict=True)]
        y, residual = y + share * (y_e - y), maximum(residual, rest)
    pushed = y
    if few:
        none = np.zeros((n + len(held), 0), int)
        pushed = product(np.concatenate([none, *(seen[i].X for i in others)], axis=1), y)
    taken = -outward((loops.L, loops.scale), loops.z + pushed[n:])
    pushes = {}
    for i, block, own in zip(others, blocks, x, strict=True):
        at = reached(block.Y)
        pushes[i] = Push(own, seen[i].before, _after(seen[i].free, block.Y[at], y[at]))
    for i, own in zip(held, taken[:, None], strict=True):
        pushes[i] = Push(own, seen[i].before, -rows[i].bias - rows[i].R * own)
    change = outward(factors, r + pushed[:n] + product(loops.X, taken))
    return Impulses([pushes[i] for i in range(len(rows))], residual, change)


class _Seen(NamedTuple):
    """A row in factors of M: X = L^-T J^T and Y = X / d, (nv, m).

    J v before, and free of all impulses x, after M^-1 L^T r; b of w = A x + b.
    """

    X: Array
    Y: Array
    before: Array
    free: Array
    b: Array


def _in_factors(L: Array, scale: Array, row: Row, v: Array, r: Array) -> _Seen:
    """What is seen of a row by the velocities on the way to it: those of rows alike are alike."""
    at = set(reached(row.J.T))
    for k in reversed(range(len(v))):
        at |= {i for i in range(k) if not is_zero(L[k, i])} if k in at else set()
    a, whole = sorted(at), np.zeros((len(v), len(row.bias)), int)
    X, Y, *others = _seen(L[np.ix_(a, a)], scale[a], row.J[:, a], row.bias, v[a], r[a])
    return _Seen(put(whole, a, X), put(whole, a, Y), *others)


@step
def _seen(L: Array, scale: Array, J: Array, bias: Array, v: Array, r: Array) -> tuple[Array, ...]:
    X = inward((L, scale), J.T)
    Y, before = X * scale[:, None], product(J, v)
    free = before + product(Y.T, r)
    return X, Y, before, free, free + bias


class _Loops(NamedTuple):
    """Rows that are held: their X, Y (nv, m), factors of B = X^T Y + R, and z = L^-T b of B x + b = 0."""

    X: Array
    Y: Array
    L: Array
    scale: Array
    z: Array

    @classmethod
    def of(cls, n: int, rows: Sequence[_Seen], shifts: Sequence[Array]) -> _Loops:
        none = np.zeros((n, 0), int)
        X, Y = (np.concatenate([none, *(getattr(row, k) for row in rows)], axis=1) for k in "XY")
        R, b = (np.concatenate([none[0], *x]) for x in (shifts, [row.b for row in rows]))
        B = factor(symmetric(len(b), lambda i, j: dot(X[:, i], Y[:, j]) + (R[i] if i == j else 0)))
        return cls(X, Y, square(B[0]), np.array(B[1]), inward(B, b))

    def beside(self, row: _Seen) -> _Seen:
        """A row beside those that are held, whose X^T Y is the inverse inertia that they leave."""
        at = reached(row.X)
        Z, W, more = _beside(self.L, self.scale, self.z, self.Y[at], row.X[at])
        X, Y = np.concatenate([row.X, Z]), np.concatenate([row.Y, W])
        return _Seen(X, Y, row.before, row.free + more, row.b + more)


@step
def _beside(L: Array, scale: Array, z: Array, held: Array, X: Array) -> tuple[Array, Array, Array]:
    Z = inward((L, scale), product(held.T, X))
    W = -Z * scale[:, None]
    return Z, W, product(W.T, z)


@step
def _after(free: Array, Y: Array, y: Array) -> Array:
    """Velocities along a row, with all impulses, y = X x."""
    return free + product(Y.T, y)


@step
def _works(
    before: Array, free: Array, Y: Array, x_0: Array, x: Array, y_0: Array, y: Array
) -> tuple[Any, Any, Any]:
    """Twice the work of impulses x_0 + s (x - x_0) on a row, by its coefficients of 1, s, s^2."""
    added, speed, more = x - x_0, before + _after(free, Y, y_0), product(Y.T, y - y_0)
    return x_0 @ speed, added @ speed + x_0 @ more, added @ more


def _most(a: Any, b: Any, c: Any) -> Any:
    """The largest s <= 1 with a + b s + c s^2 <= max(a, 0), where c >= 0."""
    spare = maximum(-a, 0.0)
    root = (sqrt(maximum(b * b + 4 * c * spare, 0.0)) - b) / where(c > 0, 2 * c, 1.0)
    return where(b + c > spare, minimum(root, 1.0), 1.0)


After = tuple[dict[str, Array], dict[str, Any]]


class Solved(Element):
    """An element whose impulses are found in the solve of a step. What it dissipates is known after that."""

    driven = False
    guess = "reaction"  # what of its flows a step starts its search from

    def rows(self, s: State, z: Any, p: Any, h: Any) -> list[Row]:
        """Its rows in a step of length h."""
        raise NotImplementedError

    def after(self, s: State, z: Any, p: Any, h: Any, found: list[Push]) -> After:
        """The flows after a step, and the powers lost in it; found: the pushes on its rows."""
        raise NotImplementedError

    def rates(self, s: State, z: Any, p: Any) -> dict[str, Any]:
        return self.flows


class ContactImpulses(Solved):
    """A `Contact` as time stepping takes it.

    Memory: reaction (n, 3), the forces on its points along normal and tangents in the last step [N], and
    stretch (n, 2) along the tangents [m]; in systems with a ledger also dissipated (n, 2), what each point
    has lost so far along normal and tangents [J]. Signals: force (n, 3), in the world; height_over (n,); slip
    (n, 2), the velocities along the tangents; energy, stored: k g^2 / 2 below the surface + k |s|^2 / 2.
    Losses: "normal" and "tangential", of all points.
    """

    ledger = True  # whether the system has one
    steps: tuple[Any, ...] = ()  # of its own that are done to each of many points
    repeated = False  # whether steps are taken anew; then they start from `guess`, not from the reaction

    def __init__(self, contact: Contact) -> None:
        super().__init__()
        self.name, self.prefix, self.points = contact.name, contact.prefix, contact.points
        self.contact = contact
        given = {name: x for name, x in contact.parameters.items() if name != "settling"}
        if "friction" not in given:
            raise ModelError(f"{self.name}: time stepping needs friction; give Contact(..., friction=0.8)")
        if any(k == d == 0 for k, d in zip(pair(given["stiffness"]), pair(given["damping"]))):
            raise ModelError(f"{self.name}: stiffness and damping are both zero; give stiffness=1e6, say")
        self.parameters, self.ranges, self._rebounds = given, contact.ranges, "restitution" in given

    def attach(self, tree: Tree) -> None:
        n, self._frames = len(self.points), self._located(tree)
        self.flows = {"reaction": np.zeros((n, 3)), "stretch": np.zeros((n, 2))}
        if self.ledger:
            self.flows["dissipated"] = np.zeros((n, 2))
        if self.repeated:
            self.guess, self.flows["guess"] = "guess", np.zeros((n, 3))

    def _located(self, tree: Tree) -> list[Any]:
        """Where the points are: the first frame on their body, which they share, and r (3,) in its axes."""
        first: dict[int, Frame] = {}
        found = []
        for frame in self.contact.frames(tree):
            R, p = SE3.parts(first.setdefault(frame.body, frame).placement)
            found.append((first[frame.body], R.T @ (frame.placement[:3, 3] - p)))
        return found

    def tell(self, s: State, z: Any, p: Any) -> None:
        for point, force in zip(self.points, z.reaction, strict=True):
            s.touches(point, where(force[0] > 0, 1.0, 0.0), 0.0)

    # -- one point ------------------------------------------------------------------------------------------

    def _gap(self, s: State, i: int, p: Any) -> tuple[Any, Array]:
        """Distance over the ground, and normal and tangents in the rows of a matrix (3, 3)."""
        first, r = self._frames[i]
        return _over(self.contact, p, s.pose(first), r)

    def _jacobian(self, s: State, i: int, axes: Array) -> Array:
        """J (3, nv) of the velocity of the lowest point of i along the axes."""
        first, r = self._frames[i]
        J = s.jacobian(first)
        at = reached(J.T)
        found = _along(axes, s.pose(first)[:3, :3], r, self.contact.radius, J[:, at])
        return put(np.zeros((s.tree.nv, 3), int), at, found.T).T

    def rows(self, s: State, z: Any, p: Any, h: Any) -> list[Row]:
        """The rows of all points, for a step of length h."""
        found = []
        for i in range(len(self.points)):
            gap, axes = self._gap(s, i, p)
            J = self._jacobian(s, i, axes)
            u = product(J[:1], s.v)[0] if self._rebounds else None
            bias, R, rebound = _at_ground(gap, u, z.stretch[i], p, h)
            x = h * getattr(z, self.guess)[i]
            found.append(Row(J, bias, R, Cone(p.friction), x, rebound if self._rebounds else None))
        return found

    def after(self, s: State, z: Any, p: Any, h: Any, found: list[Push]) -> After:
        behind = [_behind(self._gap(s, i, p)[0], z.stretch[i], x, p, h) for i, x in enumerate(found)]
        stretches, losses = (np.stack(y) for y in zip(*behind, strict=True))
        flows = {"reaction": np.stack([push.x for push in found]) / h, "stretch": stretches}
        if self.ledger:
            flows["dissipated"] = z.dissipated + losses
        if self.repeated:
            flows["guess"] = flows["reaction"]
        return flows, dict(zip(("normal", "tangential"), losses.sum(axis=0) / h, strict=True))

    # -- what is known of it --------------------------------------------------------------------------------

    def energy(self, s: State, z: Any, p: Any) -> Any:
        K, K_t = pair(p.stiffness)
        gaps = [minimum(self._gap(s, i, p)[0], 0.0) for i in range(len(self.points))]
        return sum(0.5 * (K * g * g + K_t * (t @ t)) for g, t in zip(gaps, z.stretch, strict=True))

    def losses(self, s: State, z: Any, p: Any) -> dict[str, Any]:
        return {"normal": 0.0, "tangential": 0.0}

    def outputs(self, s: State, z: Any, p: Any) -> dict[str, Any]:
        found = [self._gap(s, i, p) for i in range(len(self.points))]
        speeds = [product(self._jacobian(s, i, axes), s.v) for i, (_, axes) in enumerate(found)]
        forces = [force @ axes for force, (_, axes) in zip(z.reaction, found, strict=True)]
        return {
            "force": np.stack(forces),
            "height_over": np.array([gap for gap, _ in found]),
            "slip": np.stack([u[1:] for u in speeds]),
        }


@step
def _over(contact: Contact, p: Any, T: Array, r: Array) -> tuple[Any, Array]:
    """`Contact.over` at the point r of a body whose pose is T."""
    return contact.over(T[:3, 3] + T[:3, :3] @ r, p)


@step
def _along(axes: Array, R: Array, r: Array, radius: Any, J: Array) -> Array:
    """Along axes, the Jacobian of what is lowest of a sphere at r, out of that of its body, `mixed`."""
    arm = R @ r - radius * axes[0]
    return product(axes, J[3:] - product(skew(arm), J[:3]))


@step
def _at_ground(gap: Any, u: Any, stretch: Array, p: Any, h: Any) -> tuple[Array, Array, Array]:
    """Bias, compliance, and rebound of a point that comes with the normal velocity u."""
    (K, K_t), (D, D_t) = pair(p.stiffness), pair(p.damping)
    c, c_t = h * K + D, h * K_t + D_t
    soft, back = 1 / (h * c), 0.0
    first = where(gap > 0, gap / h, gap * (K / c))
    if u is not None:
        fast = (p.restitution > 0) & (u < -p.restitution_threshold)
        hits = fast & (gap + h * u <= 0)
        first, soft = where(hits, 0.0, where(fast, 2 * first, first)), where(hits, RIGID, 1.0) * soft
        back = where(hits, p.restitution * u, 0.0)
    bias = np.concatenate([[first], stretch * (K_t / c_t)])
    return bias, np.array([soft, *[1 / (h * c_t)] * 2]), np.array([back, 0, 0])


@step
def _behind(gap: Any, stretch: Array, push: Push, p: Any, h: Any) -> tuple[Array, Array]:
    """The stretch of a point after a step, and what it has lost in it, along normal and tangents."""
    (K, K_t), (x, before, v) = pair(p.stiffness), push
    ahead, mean = gap + h * v[0], 0.5 * (before + v)
    held = within(K_t * (stretch + h * v[1:]), p.friction * x[0] / h)
    new = under(ahead) * held / where(K_t > 0, K_t, 1.0)
    stored = 0.5 * K * (minimum(ahead, 0.0) ** 2 - minimum(gap, 0.0) ** 2)
    stored_t = 0.5 * K_t * (new @ new - stretch @ stretch)
    return new, np.array([-x[0] * mean[0] - stored, -(x[1:] @ mean[1:]) - stored_t])


class _Dissipating(Solved):
    """A law that stores nothing, unless it says so, and whose one loss is called as its force."""

    def energy(self, s: State, z: Any, p: Any) -> Any:
        return 0.0

    def losses(self, s: State, z: Any, p: Any) -> dict[str, Any]:
        return {"": 0.0}

    def outputs(self, s: State, z: Any, p: Any) -> dict[str, Any]:
        return {name: getattr(z, name) for name in self.flows}


class _At(NamedTuple):
    """A velocity on which a force acts: its body, its place among the body's, the numbers of the force."""

    body: Body
    place: int
    numbers: list[Any]


class _JointImpulses(_Dissipating):
    """A `JointForce` as time stepping takes it, by one row for each velocity v_i that it acts on.

    Memory and signal: reaction (m,), the efforts in the last step; the loss is called as the force.
    """

    def __init__(self, force: JointForce) -> None:
        super().__init__()
        self.name, self.force = force.name, force

    def attach(self, tree: Tree) -> None:
        self.force.check([body.joint.name for body in tree.bodies])
        self._at: list[_At] = []
        for body in tree.bodies:
            numbers = self.force.numbers_in(body.joint) if body.joint.mimic is None else None
            if numbers is not None:
                self._at += [_At(body, i, [x[i] for x in numbers]) for i in range(body.joint.dim)]
        self.flows = {"reaction": np.zeros(len(self._at))}

    def _row(self, s: State, h: Any, at: _At) -> tuple[Any, Any, Any, Bounds]:
        """The entry of J, bias, R and law."""
        raise NotImplementedError

    def rows(self, s: State, z: Any, p: Any, h: Any) -> list[Row]:
        found = []
        for at, effort in zip(self._at, z.reaction, strict=True):
            entry, bias, R, law = self._row(s, h, at)
            J = np.zeros((1, s.tree.nv), int).astype(object)
            J[0, at.body.dofs.start + at.place] = entry
            found.append(Row(J, np.array([bias]), np.array([R]), law, np.array([h * effort * entry])))
        return found

    def after(self, s: State, z: Any, p: Any, h: Any, found: list[Push]) -> After:
        efforts = [self._row(s, h, at)[0] * push.x[0] for at, push in zip(self._at, found, strict=True)]
        lost = -sum(push.work for push in found) / h - self._stored(s, h, found)
        return {"reaction": np.array(efforts) / h}, {"": lost}

    def _stored(self, s: State, h: Any, found: list[Push]) -> Any:
        """The rate of the energy that it stores."""
        return 0.0


class FrictionImpulses(_JointImpulses):
    """Dry friction: |x| <= h mu, v_i = 0 where it is less, against v_i where it is as much."""

    def _row(self, s: State, h: Any, at: _At) -> tuple[Any, Any, Any, Bounds]:
        return 1, 0, 0, Bounds(-h * at.numbers[0], h * at.numbers[0])


class StopImpulses(_JointImpulses):
    """Stops at the limits of hinges and slides: x = h max(-k g' - k T dg/dt, 0) at the nearer limit.

    g is the distance to it; beyond the limit, g < 0. As of a contact, x > 0 needs g' <= 0.
    """

    def _gap(self, s: State, at: _At) -> tuple[Any, Any]:
        """The sign with which the distance to the nearer limit grows along v_i, and that distance."""
        q, (_, lower, upper, _) = at.body.joint_coordinates(s.q)[at.place], at.numbers
        low = q < 0.5 * (lower + upper)
        return where(low, 1.0, -1.0), where(low, q - lower, upper - q)

    def _row(self, s: State, h: Any, at: _At) -> tuple[Any, Any, Any, Bounds]:
        (sign, gap), (k, *_, T) = self._gap(s, at), at.numbers
        return sign, where(gap > 0, gap / h, gap / (h + T)), 1 / (h * k * (h + T)), Bounds(0.0, np.inf)

    def _stored(self, s: State, h: Any, found: list[Push]) -> Any:
        ahead = [h * push.after[0] for push in found]
        return (self._energy(s, ahead) - self._energy(s, [0.0] * len(ahead))) / h

    def _energy(self, s: State, ahead: Sequence[Any]) -> Any:
        """What is stored where the distances have grown by so much."""
        gaps = [(at.numbers[0], self._gap(s, at)[1] + x) for at, x in zip(self._at, ahead, strict=True)]
        return sum((0.5 * k * minimum(gap, 0.0) ** 2 for k, gap in gaps), start=0.0)

    def energy(self, s: State, z: Any, p: Any) -> Any:
        return self._energy(s, [0.0] * len(self._at))


class DriveImpulses(Solved):
    """What drives give up at the effort limits of their joints, one row for each velocity that has one.

        h |tau - h K v' - D (v' - v) + x / h| <= h tau_max,    x = 0 where it is less

    with tau, K, D of all elements that are driven (`State.drives`): exact at the end of a step.

    Memory: reaction (m,), x / h of the last step. It is part of the joints' work.
    """

    name, driven = "saturation", True

    def __init__(self, actuated: str | Iterable[str] | None) -> None:
        super().__init__()
        self._actuated = None if actuated is None else names(actuated)

    def attach(self, tree: Tree) -> None:
        limits = effort_limits(tree)
        self._at = np.flatnonzero(np.isfinite(limits) & (driven(tree, self._actuated) != 0)).tolist()
        self._limits = limits[self._at].tolist()
        self.flows = {"reaction": np.zeros(len(self._at))}

    def efforts(self, s: State, z: Any, p: Any) -> Array:
        return np.zeros(s.tree.nv, int)  # what is given up is known after the solve

    def rows(self, s: State, z: Any, p: Any, h: Any) -> list[Row]:
        (tau, K, D), nothing, found = s.drives, np.zeros(1, int), []
        for i, most, x in zip(self._at, self._limits, z.reaction, strict=True):
            law = Saturation(h * (tau[i] + D[i] * s.v[i]), h * (D[i] + h * K[i]), h * most)
            J = np.zeros((1, s.tree.nv), int)
            J[0, i] = 1
            found.append(Row(J, nothing, nothing, law, np.array([h * x])))
        return found

    def after(self, s: State, z: Any, p: Any, h: Any, found: list[Push]) -> After:
        x = np.concatenate([np.zeros(0), *(push.x for push in found)])
        s.given_up = np.zeros(s.tree.nv, int).astype(object)
        s.given_up[self._at] = x / h
        return {"reaction": x / h}, {}


def effort_limits(tree: Tree) -> np.ndarray:
    """Of the drives of joints, (nv,); those that follow others have none."""
    limits = np.full(tree.nv, np.inf)
    for body in tree.bodies:
        if body.joint.mimic is None:
            limits[body.dofs] = body.joint.effort_limit
    return limits


class LoopImpulses(_Dissipating):
    """The closures of a `ClosedTree`, whose impulses each step finds exactly, with those of the contacts.

        g + h (J v' + drift) + h^2/2 (dJ/dt) v = 0

    so that loops stay closed to O(h^3) in smooth motion, whatever their velocities did before. Closures that
    velocities obey have J v' + drift = 0.

    Memory and signal: multipliers (nc,), lambda of J^T lambda as `ClosedTree` has them, in the last step; the
    loss, called "loops", is what they take; of closures that are driven, less what they give.
    """

    name, guess = "loops", "multipliers"

    def __init__(self, nc: int) -> None:
        super().__init__()
        self.flows = {"multipliers": np.zeros(nc)}

    def rows(self, s: State, z: Any, p: Any, h: Any) -> list[Row]:
        closed = s.mechanism
        found = closed.loop_rows(s.q, s.v, s.t)
        swing = found.bias - product(found.J, turning(s.tree, s.v))
        bias = found.drift + closed.of_places * (found.residual / h + 0.5 * h * swing)
        R, x = PROXIMAL * closed.row_sizes(s.q), np.zeros(1, int)
        return [Row(found.J[[i]], bias[[i]], R[[i]], HELD, x) for i in range(closed.nc)]

    def after(self, s: State, z: Any, p: Any, h: Any, found: list[Push]) -> After:
        forces = -np.concatenate([push.x for push in found]) / h
        return {"multipliers": forces}, {"": -sum(push.work for push in found) / h}


KINDS: dict[type, type[Solved]] = {
    Contact: ContactImpulses,
    JointFriction: FrictionImpulses,
    JointLimits: StopImpulses,
}
"""Elements and forces that are solved for, and what they become."""

STEPS = (*SWEEPS, _over, _along, _at_ground, _behind, _seen, _beside, _after, _works)
"""What is done to each point or row; of many it becomes loops."""
