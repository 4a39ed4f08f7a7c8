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
from ..linear import outward, product, skew
from ..scalar import Array, maximum, minimum, sqrt, where
from .cones import HELD, SWEEPS, Bounds, Cone, Saturation, gauss_seidel, put, reached, within
from .contact import Contact, pair, under
from .flight import turning
from .impacts import RIGID, Bounce, ImpactRow
from .impacts import STEPS as OF_IMPACTS
from .robot import Element, State, driven
from .rows import STEPS as OF_ROWS
from .rows import Impulses, Problem, Push, Row


def impulses(factors: Any, v: Array, r: Array, rows: Sequence[Row], sweeps: int, newton: int) -> Impulses:
    """Impulses x that obey the laws of rows, w = J v' + bias + R x, with v' = v + M^-1 (L^T r + J^T x).

    factors  L and 1/d of M = L^T diag(d) L
    """
    if not rows:
        return Impulses([], 0.0, outward(factors, r))
    problem = Problem.of(factors, v, r, rows)
    x, y, residual = gauss_seidel(problem.blocks, [rows[i].x for i in problem.others], sweeps, newton)
    pushes, change = problem.pushed(factors, r, x, y)
    return Impulses(pushes, residual, change)


After = tuple[dict[str, Array], dict[str, Any]]


class Struck(NamedTuple):
    """The part of an element in an `Impact`."""

    pushes: list[Push]
    found: list[Array]


class Solved(Element):
    """An element whose impulses are found in the solve of a step. What it dissipates is known after that."""

    driven = False
    guess = "reaction"  # what of its flows a step starts its search from
    impact_guess: str | None = None  # and the search for an impact; None: it starts from zero
    repeated = False  # whether steps are taken anew, from what they found
    bounces = False  # whether steps begin with impacts, whose impulses a next step does not start from

    def rows(self, s: State, z: Any, p: Any, h: Any) -> list[Row]:
        """Its rows in a step of length h."""
        raise NotImplementedError

    def after(self, s: State, z: Any, p: Any, h: Any, found: list[Push], struck: Struck | None) -> After:
        """The flows after a step, and the powers lost in it.

        found   the pushes on its rows
        struck  the impact at the beginning of the step, on its rows; None: there are no impacts
        """
        raise NotImplementedError

    def impact_rows(self, s: State, z: Any, p: Any, h: Any) -> list[ImpactRow]:
        """Its rows in the impact at the beginning of a step, as many as in the step, or none."""
        return []

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

    def __init__(self, contact: Contact) -> None:
        super().__init__()
        self.name, self.prefix, self.points = contact.name, contact.prefix, contact.points
        self.contact = contact
        given = {name: x for name, x in contact.parameters.items() if name != "settling"}
        if "friction" not in given:
            raise ModelError(f"{self.name}: time stepping needs friction; give Contact(..., friction=0.8)")
        if any(k == d == 0 for k, d in zip(pair(given["stiffness"]), pair(given["damping"]))):
            raise ModelError(f"{self.name}: stiffness and damping are both zero; give stiffness=1e6, say")
        self.parameters, self.ranges, self.rebounds = given, contact.ranges, "restitution" in given

    def attach(self, tree: Tree) -> None:
        n, self._frames = len(self.points), self._located(tree)
        self.flows = {"reaction": np.zeros((n, 3)), "stretch": np.zeros((n, 2))}
        if self.ledger:
            self.flows["dissipated"] = np.zeros((n, 2))
        if self.repeated or self.bounces:
            self.guess, self.flows["guess"] = "guess", np.zeros((n, 3))
        if self.repeated and self.bounces:
            self.impact_guess, self.flows["impact_guess"] = "impact_guess", np.zeros((n, 2, 3))

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
            bias, R = _at_ground(gap, z.stretch[i], p, h)
            x = h * getattr(z, self.guess)[i]
            found.append(Row(J, bias, R, Cone(p.friction), x))
        return found

    def impact_rows(self, s: State, z: Any, p: Any, h: Any) -> list[ImpactRow]:
        rows = []
        for i in range(len(self.points)):
            gap, axes = self._gap(s, i, p)
            J, starts = self._jacobian(s, i, axes), None
            if self.impact_guess is not None:
                starts = h * getattr(z, self.impact_guess)[i]
            if self.rebounds:
                bounce, bias, R = _hitting(gap, product(J[:1], s.v)[0], s.gravity, p, h)
            else:
                bounce, (bias, R) = None, _met(gap, p, h)
            rows.append(ImpactRow(J, bias, R, Cone(p.friction), starts, bounce))
        return rows

    def after(self, s: State, z: Any, p: Any, h: Any, found: list[Push], struck: Struck | None) -> After:
        behind = [_behind(self._gap(s, i, p)[0], z.stretch[i], x, p, h) for i, x in enumerate(found)]
        stretches, losses = (np.stack(y) for y in zip(*behind, strict=True))
        forces = np.stack([push.x for push in found]) / h
        flows = {"reaction": forces, "stretch": stretches}
        if self.guess == "guess":
            flows["guess"] = forces
        if struck is not None:
            flows["reaction"] = forces + np.stack([push.x for push in struck.pushes]) / h
            losses = losses + np.stack([_lost(push) for push in struck.pushes])
            if self.impact_guess is not None:
                flows[self.impact_guess] = np.stack(struck.found) / h
        if self.ledger:
            flows["dissipated"] = z.dissipated + losses
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
def _at_ground(gap: Any, stretch: Array, p: Any, h: Any) -> tuple[Array, Array]:
    """Bias and compliance of a point."""
    (K, K_t), (D, D_t) = pair(p.stiffness), pair(p.damping)
    c, c_t = h * K + D, h * K_t + D_t
    soft = 1 / (h * c)
    first = where(gap > 0, gap / h, gap * (K / c))
    bias = np.concatenate([[first], stretch * (K_t / c_t)])
    return bias, np.array([soft, *[1 / (h * c_t)] * 2])


def _not_below(gap: Any, p: Any, h: Any) -> tuple[Array, Array]:
    """Bias and compliance of a point in an impact: it comes no further than to the ground within the step."""
    (K, K_t), (D, D_t) = pair(p.stiffness), pair(p.damping)
    soft, soft_t = RIGID / (h * (h * K + D)), RIGID / (h * (h * K_t + D_t))
    return np.array([maximum(gap, 0.0) / h, 0, 0]), np.array([soft, soft_t, soft_t])


@step
def _met(gap: Any, p: Any, h: Any) -> tuple[Array, Array]:
    return _not_below(gap, p, h)


@step
def _hitting(gap: Any, u: Any, gravity: Any, p: Any, h: Any) -> tuple[Bounce, Array, Array]:
    """Whether a point that comes with the normal velocity u hits, and its bias and compliance then.

    It falls by h^2 |gravity| at most beside its path of h u.
    """
    g = np.asarray(gravity)
    fast = (p.restitution > 0) & (u < -p.restitution_threshold)
    hits = fast & (gap + h * u - h * h * sqrt(g @ g) <= 0)
    bias, R = _not_below(gap, p, h)
    flags = where(hits, 1.0, 0.0), where(fast, 1.0, 0.0)
    return Bounce(*flags, p.restitution), where(hits, 0.0, bias), R


@step
def _lost(push: Push) -> Array:
    """What a point loses in an impact, along normal and tangents."""
    work = push.x * (0.5 * (push.before + push.after))
    return np.array([-work[0], -(work[1] + work[2])])


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

    def _jacobian(self, s: State, at: _At, entry: Any) -> Array:
        J = np.zeros((1, s.tree.nv), int).astype(object)
        J[0, at.body.dofs.start + at.place] = entry
        return J

    def rows(self, s: State, z: Any, p: Any, h: Any) -> list[Row]:
        found = []
        for at, effort in zip(self._at, getattr(z, self.guess), strict=True):
            entry, bias, R, law = self._row(s, h, at)
            start = np.array([h * effort * entry])
            found.append(Row(self._jacobian(s, at, entry), np.array([bias]), np.array([R]), law, start))
        return found

    def after(self, s: State, z: Any, p: Any, h: Any, found: list[Push], struck: Struck | None) -> After:
        entries = [self._row(s, h, at)[0] for at in self._at]
        efforts = np.array([x * push.x[0] for x, push in zip(entries, found, strict=True)]) / h
        lost = -sum(push.work for push in found) / h - self._stored(s, h, found)
        flows = {"reaction": efforts}
        if self.guess == "guess":
            flows["guess"] = efforts
        if struck is not None and struck.pushes:
            more = [x * push.x[0] for x, push in zip(entries, struck.pushes, strict=True)]
            flows["reaction"] = efforts + np.array(more) / h
            lost = lost - sum(push.work for push in struck.pushes) / h
        if self.impact_guess is not None and struck is not None:
            flows[self.impact_guess] = np.reshape([x[:, 0] for x in struck.found], (-1, 2)) / h
        return flows, {"": lost}

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

    def attach(self, tree: Tree) -> None:
        super().attach(tree)
        if self.bounces:
            self.guess, self.flows["guess"] = "guess", np.zeros(len(self._at))
        if self.bounces and self.repeated:
            self.impact_guess, self.flows["impact_guess"] = "impact_guess", np.zeros((len(self._at), 2))

    def impact_rows(self, s: State, z: Any, p: Any, h: Any) -> list[ImpactRow]:
        """Joints get no further than to their stops within the step."""
        rows = []
        for i, at in enumerate(self._at):
            (sign, gap), (k, *_, T) = self._gap(s, at), at.numbers
            starts = None if self.impact_guess is None else h * getattr(z, self.impact_guess)[i][:, None]
            bias, R = maximum(gap, 0.0) / h, RIGID / (h * k * (h + T))
            J = self._jacobian(s, at, sign)
            rows.append(ImpactRow(J, np.array([bias]), np.array([R]), Bounds(0.0, np.inf), starts))
        return rows

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

    def after(self, s: State, z: Any, p: Any, h: Any, found: list[Push], struck: Struck | None) -> After:
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

    def impact_rows(self, s: State, z: Any, p: Any, h: Any) -> list[ImpactRow]:
        """The velocities of the closures stay as they are."""
        closed = s.mechanism
        J, R = closed.loop_rows(s.q, s.v, s.t).J, PROXIMAL * closed.row_sizes(s.q)
        return [ImpactRow(J[[i]], -product(J[[i]], s.v), R[[i]], HELD) for i in range(closed.nc)]

    def after(self, s: State, z: Any, p: Any, h: Any, found: list[Push], struck: Struck | None) -> After:
        pushes = [found, *([] if struck is None else [struck.pushes])]
        forces = -sum(np.concatenate([push.x for push in each]) for each in pushes) / h
        return {"multipliers": forces}, {"": -sum(push.work for each in pushes for push in each) / h}


KINDS: dict[type, type[Solved]] = {
    Contact: ContactImpulses,
    JointFriction: FrictionImpulses,
    JointLimits: StopImpulses,
}
"""Elements and forces that are solved for, and what they become."""

STEPS = (*SWEEPS, *OF_ROWS, *OF_IMPACTS, _over, _along, _at_ground, _met, _hitting, _behind, _lost)
"""What is done to each point or row; of many it becomes loops."""
