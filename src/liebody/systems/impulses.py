"""What time stepping solves for: impulses of contacts, of joints' stops and dry friction, of closed loops."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from .. import dynamics
from ..bodies import Body, Tree
from ..constrained.elimination import PROXIMAL
from ..dynamics import JointForce, JointFriction, JointLimits
from ..errors import ModelError
from ..linear import back_substitute, factor, inward, outward, product, skew, symmetric
from ..scalar import Array, maximum, minimum, sqrt, where
from .cones import HELD, Bounds, Cone, gauss_seidel, within
from .contact import Contact, pair, under
from .flight import turning
from .robot import Element, State

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


class Impulses(NamedTuple):
    """Impulses x of rows, the largest defect of a law, the change of v (nv,), J v (m,) before and after."""

    x: Array
    residual: Any
    change: Array
    before: Array
    after: Array


def impulses(factors: Any, v: Array, r: Array, rows: Sequence[Row], sweeps: int, newton: int) -> Impulses:
    """Impulses x that obey the laws of rows, w = J v' + bias + R x, with v' = v + M^-1 (L^T r + J^T x).

    factors  L and 1/d of M = L^T diag(d) L

    Rows that are held, w = 0, are eliminated: the others see the inverse inertia that the loops leave,
    A - C^T B^-1 C, of the held rows' own B and the coupling C. So no sweep over contacts opens a loop.

    With restitution, x = x_0 + s (x_e - x_0) of the impulses x_0 without it and x_e with it. s = 1, unless
    the work x . (J v + J v') / 2 would be positive, as friction or several contacts can make it: then it is
    zero.
    """
    if not rows:
        return Impulses(np.zeros(0), 0.0, outward(factors, r), np.zeros(0), np.zeros(0))
    J, b, R, start = (np.concatenate([getattr(row, k) for row in rows]) for k in ("J", "bias", "R", "x"))
    X = inward(factors, J.T)
    Y = X * np.array(factors[1])[:, None]
    sizes = [len(row.x) for row in rows]
    is_held = np.repeat([row.law is HELD for row in rows], sizes)
    held, others = (np.flatnonzero(x).tolist() for x in (is_held, ~is_held))

    def entry(i: int, j: int) -> Any:
        return _dot(X[:, i], Y[:, j]) + (R[i] if i == j else 0)

    before = product(J, v)
    free = before + product(Y.T, r)
    B = factor(symmetric(len(held), lambda i, j: entry(held[i], held[j])))
    C = np.array([[entry(k, i) for i in others] for k in held]).reshape(len(held), len(others))
    S, s = back_substitute(B, C), back_substitute(B, (free + b)[held])
    A = symmetric(len(others), lambda i, j: entry(others[i], others[j]) - _dot(C[:, i], S[:, j]))
    w = free[others] - product(C.T, s)
    laws = [row.law for row in rows if row.law is not HELD]
    x, after = np.zeros((2, len(J)), int).astype(object)

    def mobility(y: Array) -> Array:
        return product(A, y) - R[others] * y

    x[others], residual = gauss_seidel(A, w + b[others], laws, start[others], sweeps, newton)
    if any(row.rebound is not None for row in rows):
        more = np.concatenate([np.zeros(len(row.x)) if row.rebound is None else row.rebound for row in rows])
        found, rest = gauss_seidel(A, w + (b + more)[others], laws, x[others], sweeps, newton)
        added, speed = found - x[others], before[others] + w + mobility(x[others])
        share = _most(x[others] @ speed, added @ speed + x[others] @ mobility(added), added @ mobility(added))
        x[others], residual = x[others] + share * added, maximum(residual, rest)
    after[others] = w + mobility(x[others])
    x[held] = -(s + product(S, x[others]))
    after[held] = -b[held] - R[held] * x[held]
    return Impulses(x, residual, outward(factors, r + product(X, x)), before, after)


def _most(a: Any, b: Any, c: Any) -> Any:
    """The largest s <= 1 with a + b s + c s^2 <= max(a, 0), where c >= 0."""
    spare = maximum(-a, 0.0)
    root = (sqrt(maximum(b * b + 4 * c * spare, 0.0)) - b) / where(c > 0, 2 * c, 1.0)
    return where(b + c > spare, minimum(root, 1.0), 1.0)


def _dot(a: Array, b: Array) -> Any:
    """a . b without the terms that are known to be zero."""
    return product(np.reshape(a, (1, -1)), b)[0]


class Solved(Element):
    """An element whose impulses are found in the solve of a step. What it dissipates is known behind that."""

    driven = False
    guess = "reaction"  # what of its flows a step starts its search from

    def rows(self, s: State, z: Any, p: Any, h: Any) -> list[Row]:
        """Its rows in a step of length h."""
        raise NotImplementedError

    def after(
        self, s: State, z: Any, p: Any, h: Any, x: Array, before: Array, v: Array
    ) -> tuple[dict[str, Array], dict[str, Any]]:
        """The flows after a step, and the powers lost in it.

        x  impulses (m,) of its rows; before, v: velocities (m,) along them at the beginning and at the end
        """
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
        self.parameters, self._rebounds = given, "restitution" in given

    def attach(self, tree: Tree) -> None:
        n, self._frames = len(self.points), self._located(tree)
        self.flows = {"reaction": np.zeros((n, 3)), "stretch": np.zeros((n, 2))}
        if self.ledger:
            self.flows["dissipated"] = np.zeros((n, 2))
        if self.repeated:
            self.guess, self.flows["guess"] = "guess", np.zeros((n, 3))

    def _located(self, tree: Tree) -> list[Any]:
        """Where the points are."""
        return self.contact.frames(tree)

    def tell(self, s: State, z: Any, p: Any) -> None:
        for point, force in zip(self.points, z.reaction, strict=True):
            s.touches(point, where(force[0] > 0, 1.0, 0.0), 0.0)

    # -- one point ------------------------------------------------------------------------------------------

    def _gap(self, s: State, i: int, p: Any) -> tuple[Any, Array]:
        """Distance over the ground, and normal and tangents in the rows of a matrix (3, 3)."""
        return self.contact.over(s.position(self._frames[i]), p)

    def _jacobian(self, s: State, i: int, axes: Array) -> Array:
        """J (3, nv) of the velocity of the lowest point of i along the axes."""
        J = dynamics.frame_jacobian(s.tree, s.q, self._frames[i], "mixed")
        radius = self.contact.radius
        lowest = J[3:] + radius * product(skew(axes[0]), J[:3]) if radius else J[3:]
        return product(axes, lowest)

    def rows(self, s: State, z: Any, p: Any, h: Any) -> list[Row]:
        """The rows of all points, for a step of length h."""
        (K, K_t), (D, D_t), found = pair(p.stiffness), pair(p.damping), []
        c, c_t = h * K + D, h * K_t + D_t
        for i in range(len(self.points)):
            gap, axes = self._gap(s, i, p)
            J, soft, rebound = self._jacobian(s, i, axes), 1 / (h * c), None
            first = where(gap > 0, gap / h, gap * (K / c))
            if self._rebounds:
                u = product(J[:1], s.v)[0]
                fast = (p.restitution > 0) & (u < -p.restitution_threshold)
                hits = fast & (gap + h * u <= 0)
                first, soft = where(hits, 0.0, where(fast, 2 * first, first)), where(hits, RIGID, 1.0) * soft
                rebound = np.array([where(hits, p.restitution * u, 0.0), 0, 0])
            bias = np.concatenate([[first], z.stretch[i] * (K_t / c_t)])
            R = np.array([soft, *[1 / (h * c_t)] * 2])
            found.append(Row(J, bias, R, Cone(p.friction), h * getattr(z, self.guess)[i], rebound))
        return found

    def after(
        self, s: State, z: Any, p: Any, h: Any, x: Array, before: Array, v: Array
    ) -> tuple[dict[str, Array], dict[str, Any]]:
        (K, K_t), stretches, lost = pair(p.stiffness), [], []
        x, before, v = (y.reshape(-1, 3) for y in (x, before, v))
        for i in range(len(self.points)):
            gap, _ = self._gap(s, i, p)
            ahead, mean = gap + h * v[i, 0], 0.5 * (before[i] + v[i])
            held = within(K_t * (z.stretch[i] + h * v[i, 1:]), p.friction * x[i, 0] / h)
            s_new = under(ahead) * held / where(K_t > 0, K_t, 1.0)
            stored = 0.5 * K * (minimum(ahead, 0.0) ** 2 - minimum(gap, 0.0) ** 2)
            stored_t = 0.5 * K_t * (s_new @ s_new - z.stretch[i] @ z.stretch[i])
            lost.append([-x[i, 0] * mean[0] - stored, -(x[i, 1:] @ mean[1:]) - stored_t])
            stretches.append(s_new)
        flows, losses = {"reaction": x / h, "stretch": np.stack(stretches)}, np.array(lost)
        if self.ledger:
            flows["dissipated"] = z.dissipated + losses
        if self.repeated:
            flows["guess"] = x / h
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


class _JointImpulses(Solved):
    """A `JointForce` as time stepping takes it, by one row for each velocity v_i that it acts on.

    Memory and signal: reaction (m,), the efforts in the last step; the loss is called as the force.
    """

    def __init__(self, force: JointForce) -> None:
        super().__init__()
        self.name, self.force = force.name, force

    def attach(self, tree: Tree) -> None:
        self.force.check([body.joint.name for body in tree.bodies])
        self._at: list[tuple[Body, int, list[Any]]] = []  # body, place among its velocities, numbers
        for body in tree.bodies:
            numbers = self.force.numbers_in(body.joint) if body.joint.mimic is None else None
            self._at += (
                [] if numbers is None else [(body, i, [x[i] for x in numbers]) for i in range(body.joint.dim)]
            )
        self.flows = {"reaction": np.zeros(len(self._at))}

    def _row(
        self, s: State, h: Any, body: Body, i: int, numbers: Sequence[Any]
    ) -> tuple[Any, Any, Any, Bounds]:
        """The entry of J, bias, R and law."""
        raise NotImplementedError

    def rows(self, s: State, z: Any, p: Any, h: Any) -> list[Row]:
        found = []
        for (body, i, numbers), effort in zip(self._at, z.reaction, strict=True):
            entry, bias, R, law = self._row(s, h, body, i, numbers)
            J = np.zeros((1, s.tree.nv), int).astype(object)
            J[0, body.dofs.start + i] = entry
            found.append(Row(J, np.array([bias]), np.array([R]), law, np.array([h * effort * entry])))
        return found

    def after(
        self, s: State, z: Any, p: Any, h: Any, x: Array, before: Array, v: Array
    ) -> tuple[dict[str, Array], dict[str, Any]]:
        signs = [self._row(s, h, *at)[0] for at in self._at]
        lost = -(x @ (0.5 * (before + v))) / h - self._stored(s, h, v)
        return {"reaction": np.array(signs) * x / h}, {"": lost}

    def _stored(self, s: State, h: Any, v: Array) -> Any:
        """The rate of the energy that it stores."""
        return 0.0

    def energy(self, s: State, z: Any, p: Any) -> Any:
        return 0.0

    def losses(self, s: State, z: Any, p: Any) -> dict[str, Any]:
        return {"": 0.0}

    def outputs(self, s: State, z: Any, p: Any) -> dict[str, Any]:
        return {"reaction": z.reaction}


class FrictionImpulses(_JointImpulses):
    """Dry friction: |x| <= h mu, v_i = 0 where it is less, against v_i where it is as much."""

    def _row(
        self, s: State, h: Any, body: Body, i: int, numbers: Sequence[Any]
    ) -> tuple[Any, Any, Any, Bounds]:
        return 1, 0, 0, Bounds(-h * numbers[0], h * numbers[0])


class StopImpulses(_JointImpulses):
    """Stops at the limits of hinges and slides: x = h max(-k g' - k T dg/dt, 0) at the nearer limit.

    g is the distance to it; beyond the limit, g < 0. As of a contact, x > 0 needs g' <= 0.
    """

    def _gap(self, s: State, body: Body, i: int, lower: Any, upper: Any) -> tuple[Any, Any]:
        """The sign with which the distance to the nearer limit grows along v_i, and that distance."""
        q = body.joint_coordinates(s.q)[i]
        low = q < 0.5 * (lower + upper)
        return where(low, 1.0, -1.0), where(low, q - lower, upper - q)

    def _row(
        self, s: State, h: Any, body: Body, i: int, numbers: Sequence[Any]
    ) -> tuple[Any, Any, Any, Bounds]:
        k, lower, upper, T = numbers
        sign, gap = self._gap(s, body, i, lower, upper)
        return sign, where(gap > 0, gap / h, gap / (h + T)), 1 / (h * k * (h + T)), Bounds(0.0, np.inf)

    def _stored(self, s: State, h: Any, v: Array) -> Any:
        total: Any = 0.0
        for (body, i, (k, lower, upper, _)), u in zip(self._at, v, strict=True):
            gap = self._gap(s, body, i, lower, upper)[1]
            total = total + 0.5 * k * (minimum(gap + h * u, 0.0) ** 2 - minimum(gap, 0.0) ** 2)
        return total / h

    def energy(self, s: State, z: Any, p: Any) -> Any:
        gaps = [(k, self._gap(s, body, i, low, high)[1]) for body, i, (k, low, high, _) in self._at]
        return sum((0.5 * k * minimum(gap, 0.0) ** 2 for k, gap in gaps), start=0.0)


class LoopImpulses(Solved):
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

    def after(
        self, s: State, z: Any, p: Any, h: Any, x: Array, before: Array, v: Array
    ) -> tuple[dict[str, Array], dict[str, Any]]:
        return {"multipliers": -x / h}, {"": -(x @ (0.5 * (before + v))) / h}

    def energy(self, s: State, z: Any, p: Any) -> Any:
        return 0.0

    def losses(self, s: State, z: Any, p: Any) -> dict[str, Any]:
        return {"": 0.0}

    def outputs(self, s: State, z: Any, p: Any) -> dict[str, Any]:
        return {"multipliers": z.multipliers}


KINDS: dict[type, type[Solved]] = {
    Contact: ContactImpulses,
    JointFriction: FrictionImpulses,
    JointLimits: StopImpulses,
}
"""Elements and forces that are solved for, and what they become."""
