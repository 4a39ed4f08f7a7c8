"""Elements of time stepping with impulses: contacts, joints' stops, dry friction, limits of drives, loops.

Each element states its rows of the problem w = J v' + bias + R x, and after the solve its new memory and its
losses. Implicit springs and dampers are compliances R: x = -h (k g' + d u) with g' = g + h u is the row
u + g k / (h k + d) + x / (h (h k + d)) = 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..base.arguments import names
from ..base.errors import ModelError
from ..bodies import Body, Frame, Tree
from ..compiler import repeated
from ..groups import SE3
from ..hybrid import Element, State
from ..hybrid.element import driven
from ..integrators.saddle_point import PROXIMAL
from ..mechanisms import JointForce, JointFriction, JointLimits
from ..scalars import Array, maximum, minimum, sqrt, where
from ..scalars.linear import outward, product, skew
from .cones import HELD, Bounds, Cone, ConeSolver, Saturation, gauss_seidel, put, reached, within
from .cones import REPEATED as REPEATED_IN_SWEEPS
from .flight import turning
from .impacts import REPEATED as REPEATED_IN_IMPACTS
from .impacts import RIGID, Bounce, ImpactRow
from .points import Contact, pair, under
from .rows import REPEATED as REPEATED_IN_ROWS
from .rows import Impulses, Problem, Push, Row


def impulses(
    factors: Any, v: Array, r: Array, rows: Sequence[Row], sweeps: int, solver: ConeSolver
) -> Impulses:
    """Impulses x that obey the laws of rows, w = J v' + bias + R x, with v' = v + M^-1 (L^T r + J^T x).

    factors  L and 1/d of M = L^T diag(d) L
    """
    if not rows:
        return Impulses([], 0.0, outward(factors, r))
    # loops are eliminated first; sweeps go over all other rows
    problem = Problem.of(factors, v, r, rows)
    x, y, residual = gauss_seidel(problem.blocks, [rows[i].x for i in problem.others], sweeps, solver)
    pushes, change = problem.pushed(factors, r, x, y)
    return Impulses(pushes, residual, change)


After = tuple[dict[str, Array], dict[str, Any]]


class Struck(NamedTuple):
    """The part of an element in an `Impact`: the pushes on its rows, and `Impact.both` of its rows."""

    pushes: list[Push]
    both: list[Array]


class Solved(Element):
    """An element whose impulses are solved for in each step, and whose losses are known after that."""

    driven = False
    guess = "reaction"  # name of the flow with the forces from which the solve of a step starts
    impact_guess: str | None = None  # likewise of the solve of an impact; None: it starts from zero
    repeated = False  # whether steps are repeated, starting from the forces that they have found
    bounces = False  # whether steps begin with impacts, whose impulses are no start for the next step

    def rows(self, s: State, z: Any, p: Any, h: Any) -> list[Row]:
        """Its rows in a step of length h."""
        raise NotImplementedError

    def after(self, s: State, z: Any, p: Any, h: Any, pushes: list[Push], struck: Struck | None) -> After:
        """The flows after a step, and the powers lost in it.

        pushes  the pushes on its rows
        struck  its part of the impact at the beginning of the step; None: systems without restitution
        """
        raise NotImplementedError

    def impact_rows(self, s: State, z: Any, p: Any, h: Any) -> list[ImpactRow]:
        """Its rows in the impact at the beginning of a step, as many as in the step, or none."""
        return []

    def rates(self, s: State, z: Any, p: Any) -> dict[str, Any]:
        return self.flows


class ContactImpulses(Solved):
    """The element of time stepping that replaces a `Contact`.

    Memory: reaction (n, 3), the forces on its points along normal and tangents in the last step [N], and
    stretch (n, 2) along the tangents [m]; in systems with a ledger also dissipated (n, 2), the loss of each
    point so far along normal and tangents [J]. Signals: force (n, 3), in the world; height_over (n,); slip
    (n, 2), the velocities along the tangents; energy, stored: k g^2 / 2 below the surface + k |s|^2 / 2.
    Losses: "normal" and "tangential", of all points.
    """

    ledger = True  # whether the system has a ledger
    repeated_functions: tuple[Any, ...] = ()  # of a subclass, repeated for each point

    def __init__(self, contact: Contact) -> None:
        super().__init__()
        self.name = contact.name
        self.prefix = contact.prefix
        self.points = contact.points
        self.contact = contact
        parameters = {name: x for name, x in contact.parameters.items() if name != "settling"}
        if "friction" not in parameters:
            raise ModelError(f"{self.name}: time stepping needs friction; give Contact(..., friction=0.8)")
        if any(k == d == 0 for k, d in zip(pair(parameters["stiffness"]), pair(parameters["damping"]))):
            raise ModelError(f"{self.name}: stiffness and damping are both zero; give stiffness=1e6, say")
        self.parameters = parameters
        self.ranges = contact.ranges
        self.rebounds = "restitution" in parameters

    def attach(self, tree: Tree) -> None:
        n = len(self.points)
        self._tree = tree
        self._places = self._located(tree)
        self.flows = {"reaction": np.zeros((n, 3)), "stretch": np.zeros((n, 2))}
        if self.ledger:
            self.flows["dissipated"] = np.zeros((n, 2))
        # The start of the solve is a separate flow where it differs from `reaction`. Attempts at a step
        # replace it, while `reaction` still says which points touch; and with impacts `reaction` has their
        # impulses.
        if self.repeated or self.bounces:
            self.guess = "guess"
            self.flows["guess"] = np.zeros((n, 3))
        if self.repeated and self.bounces:
            self.impact_guess = "impact_guess"
            self.flows["impact_guess"] = np.zeros((n, 2, 3))

    def _located(self, tree: Tree) -> list[Any]:
        """Places of the points: the first frame on their body, which they share, and r (3,) in its axes.

        So the pose and the Jacobian of a body are computed once for all its points.
        """
        first: dict[int, Frame] = {}
        places = []
        for frame in self.contact.frames(tree):
            R, p = SE3.parts(first.setdefault(frame.body, frame).placement)
            places.append((first[frame.body], R.T @ (frame.placement[:3, 3] - p)))
        return places

    def _frames(self, s: State, i: int) -> Any:
        """The place of one point, or the frames of one pair; placements may depend on parameters."""
        return (self._places if s.tree is self._tree else self._located(s.tree))[i]

    def tell(self, s: State, z: Any, p: Any) -> None:
        # a point touches if it had a normal force in the last step
        for point, force in zip(self.points, z.reaction, strict=True):
            s.touches(point, where(force[0] > 0, 1.0, 0.0), 0.0)

    # -- one point ------------------------------------------------------------------------------------------

    def _gap(self, s: State, i: int, p: Any) -> tuple[Any, Array]:
        """Distance over the ground, and normal and tangents in the rows of a matrix (3, 3)."""
        first, r = self._frames(s, i)
        return _over(self.contact, p, s.pose(first), r)

    def _jacobian(self, s: State, i: int, axes: Array) -> Array:
        """J (3, nv) of the velocity of contact point i along the axes."""
        first, r = self._frames(s, i)
        J = s.jacobian(first)
        at = reached(J.T)  # only the columns of joints on the path to the body, as in `rows`
        moving = _along(axes, s.pose(first)[:3, :3], r, self.contact.radius, J[:, at])
        return put(np.zeros((s.tree.nv, 3), int), at, moving.T).T

    def rows(self, s: State, z: Any, p: Any, h: Any) -> list[Row]:
        """The rows of all points, for a step of length h."""
        rows = []
        for i in range(len(self.points)):
            gap, axes = self._gap(s, i, p)
            J = self._jacobian(s, i, axes)
            bias, R = _at_ground(gap, z.stretch[i], p, h)
            x = h * getattr(z, self.guess)[i]
            rows.append(Row(J, bias, R, Cone(p.friction), x))
        return rows

    def impact_rows(self, s: State, z: Any, p: Any, h: Any) -> list[ImpactRow]:
        rows = []
        for i in range(len(self.points)):
            gap, axes = self._gap(s, i, p)
            J = self._jacobian(s, i, axes)
            starts = None
            # An attempt starts from the impact that the attempt before has found. Without a tolerance the
            # search starts from zero, because an impact of the last step does not go on.
            if self.impact_guess is not None:
                starts = h * getattr(z, self.impact_guess)[i]
            if self.rebounds:
                bounce, bias, R = _hitting(gap, product(J[:1], s.v)[0], s.gravity, p, h)
            else:
                bounce, (bias, R) = None, _met(gap, p, h)
            rows.append(ImpactRow(J, bias, R, Cone(p.friction), starts, bounce))
        return rows

    def after(self, s: State, z: Any, p: Any, h: Any, pushes: list[Push], struck: Struck | None) -> After:
        results = [_behind(self._gap(s, i, p)[0], z.stretch[i], x, p, h) for i, x in enumerate(pushes)]
        stretches, losses = (np.stack(y) for y in zip(*results, strict=True))
        forces = np.stack([push.x for push in pushes]) / h
        # Impulses over h are forces. The forces of an impact count in the reaction and in the losses, but the
        # next step does not start from them.
        flows = {"reaction": forces, "stretch": stretches}
        if self.guess == "guess":
            flows["guess"] = forces
        if struck is not None:
            flows["reaction"] = forces + np.stack([push.x for push in struck.pushes]) / h
            losses = losses + np.stack([_lost(push) for push in struck.pushes])
            if self.impact_guess is not None:
                flows[self.impact_guess] = np.stack(struck.both) / h
        if self.ledger:
            flows["dissipated"] = z.dissipated + losses
        return flows, dict(zip(("normal", "tangential"), losses.sum(axis=0) / h, strict=True))

    def touching(self, z: Any) -> Array:
        return np.asarray(z.reaction[..., 0] > 0)

    # -- energy and signals ---------------------------------------------------------------------------------

    def energy(self, s: State, z: Any, p: Any) -> Any:
        K, K_t = pair(p.stiffness)
        gaps = [minimum(self._gap(s, i, p)[0], 0.0) for i in range(len(self.points))]
        return sum(0.5 * (K * g * g + K_t * (t @ t)) for g, t in zip(gaps, z.stretch, strict=True))

    def losses(self, s: State, z: Any, p: Any) -> dict[str, Any]:
        return {"normal": 0.0, "tangential": 0.0}

    def outputs(self, s: State, z: Any, p: Any) -> dict[str, Any]:
        gaps = [self._gap(s, i, p) for i in range(len(self.points))]
        speeds = [product(self._jacobian(s, i, axes), s.v) for i, (_, axes) in enumerate(gaps)]
        forces = [force @ axes for force, (_, axes) in zip(z.reaction, gaps, strict=True)]
        return {
            "force": np.stack(forces),
            "height_over": np.array([gap for gap, _ in gaps]),
            "slip": np.stack([u[1:] for u in speeds]),
        }


@repeated
def _over(contact: Contact, p: Any, T: Array, r: Array) -> tuple[Any, Array]:
    """`Contact.over` at the point r of a body whose pose is T."""
    return contact.over(T[:3, 3] + T[:3, :3] @ r, p)


@repeated
def _along(axes: Array, R: Array, r: Array, radius: Any, J: Array) -> Array:
    """The Jacobian, along axes, of the contact point of a sphere, from the `mixed` Jacobian J of its body.

    R, r, radius  rotation of the body, centre of the sphere in the body's axes, radius
    """
    arm = R @ r - radius * axes[0]
    return product(axes, J[3:] - product(skew(arm), J[:3]))


@repeated
def _at_ground(gap: Any, stretch: Array, p: Any, h: Any) -> tuple[Array, Array]:
    """Bias and compliance R of a point in a step, by the implicit spring and damper of the ground."""
    (K, K_t), (D, D_t) = pair(p.stiffness), pair(p.damping)
    c, c_t = h * K + D, h * K_t + D_t
    soft = 1 / (h * c)
    # Above the ground the point may come down to it within the step, u + gap / h >= 0. Below it the spring
    # acts.
    first = where(gap > 0, gap / h, gap * (K / c))
    bias = np.concatenate([[first], stretch * (K_t / c_t)])
    return bias, np.array([soft, *[1 / (h * c_t)] * 2])


def _not_below(gap: Any, p: Any, h: Any) -> tuple[Array, Array]:
    """Bias and compliance of a point in an impact: it comes no further than to the ground within the step."""
    (K, K_t), (D, D_t) = pair(p.stiffness), pair(p.damping)
    soft = RIGID / (h * (h * K + D))
    soft_t = RIGID / (h * (h * K_t + D_t))
    return np.array([maximum(gap, 0.0) / h, 0, 0]), np.array([soft, soft_t, soft_t])


@repeated
def _met(gap: Any, p: Any, h: Any) -> tuple[Array, Array]:
    """`_not_below`, repeated for each point without restitution."""
    return _not_below(gap, p, h)


@repeated
def _hitting(gap: Any, u: Any, gravity: Any, p: Any, h: Any) -> tuple[Bounce, Array, Array]:
    """Restitution of a point with the normal velocity u, and its bias and compliance in an impact.

    A point hits if it may reach the ground within the step: its path is h u, and free fall adds h^2 |gravity|
    at most.
    """
    g = np.asarray(gravity)
    # below the threshold a point does not rebound, so that bounces come to an end
    fast = (p.restitution > 0) & (u < -p.restitution_threshold)
    hits = fast & (gap + h * u - h * h * sqrt(g @ g) <= 0)
    bias, R = _not_below(gap, p, h)
    flags = where(hits, 1.0, 0.0), where(fast, 1.0, 0.0)
    return Bounce(*flags, p.restitution), where(hits, 0.0, bias), R


@repeated
def _lost(push: Push) -> Array:
    """Energy that a point loses in an impact, along normal and tangents, (2,)."""
    work = push.x * (0.5 * (push.before + push.after))
    return np.array([-work[0], -(work[1] + work[2])])


@repeated
def _behind(gap: Any, stretch: Array, push: Push, p: Any, h: Any) -> tuple[Array, Array]:
    """The stretch of a point after a step, and its energy loss in it along normal and tangents, (2,)."""
    K, K_t = pair(p.stiffness)
    x, before, v = push
    ahead = gap + h * v[0]  # the gap after the step
    mean = 0.5 * (before + v)
    # A slipping point draws its anchor along, so that the spring alone stays within the cone of friction.
    held = within(K_t * (stretch + h * v[1:]), p.friction * x[0] / h)
    new = under(ahead) * held / where(K_t > 0, K_t, 1.0)
    stored = 0.5 * K * (minimum(ahead, 0.0) ** 2 - minimum(gap, 0.0) ** 2)
    stored_t = 0.5 * K_t * (new @ new - stretch @ stretch)
    # the loss is the work that the ground takes, less the growth of stored energy
    return new, np.array([-x[0] * mean[0] - stored, -(x[1:] @ mean[1:]) - stored_t])


class _Dissipating(Solved):
    """A law with one loss, which has the name of the element; it stores no energy, unless a subclass does."""

    def energy(self, s: State, z: Any, p: Any) -> Any:
        return 0.0

    def losses(self, s: State, z: Any, p: Any) -> dict[str, Any]:
        return {"": 0.0}

    def outputs(self, s: State, z: Any, p: Any) -> dict[str, Any]:
        return {name: getattr(z, name) for name in self.flows}


class _At(NamedTuple):
    """A velocity on which a force acts: body, index in the body's velocities, numbers of the force."""

    body: Body
    place: int
    numbers: list[Any]


class _JointImpulses(_Dissipating):
    """The element of time stepping that replaces a `JointForce`: a row for each velocity v_i it acts on.

    Memory and signal: reaction (m,), the efforts in the last step; the loss has the name of the force.
    """

    def __init__(self, force: JointForce) -> None:
        super().__init__()
        self.name = force.name
        self.force = force

    def attach(self, tree: Tree) -> None:
        self.force.check([body.joint.name for body in tree.bodies])
        self._at: list[_At] = []
        for body in tree.bodies:
            # a joint that mimics another has no velocity of its own
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
        rows = []
        for at, effort in zip(self._at, getattr(z, self.guess), strict=True):
            entry, bias, R, law = self._row(s, h, at)
            start = np.array([h * effort * entry])
            rows.append(Row(self._jacobian(s, at, entry), np.array([bias]), np.array([R]), law, start))
        return rows

    def after(self, s: State, z: Any, p: Any, h: Any, pushes: list[Push], struck: Struck | None) -> After:
        entries = [self._row(s, h, at)[0] for at in self._at]
        # a row is along +-v_i: the effort on v_i is the impulse with the sign of the row
        efforts = np.array([x * push.x[0] for x, push in zip(entries, pushes, strict=True)]) / h
        lost = -sum(push.work for push in pushes) / h - self._stored(s, h, pushes)
        flows = {"reaction": efforts}
        if self.guess == "guess":
            flows["guess"] = efforts
        if struck is not None and struck.pushes:
            more = [x * push.x[0] for x, push in zip(entries, struck.pushes, strict=True)]
            flows["reaction"] = efforts + np.array(more) / h
            lost = lost - sum(push.work for push in struck.pushes) / h
        if self.impact_guess is not None and struck is not None:
            flows[self.impact_guess] = np.reshape([x[:, 0] for x in struck.both], (-1, 2)) / h
        return flows, {"": lost}

    def _stored(self, s: State, h: Any, pushes: list[Push]) -> Any:
        """The rate of the stored energy."""
        return 0.0


class FrictionImpulses(_JointImpulses):
    """Dry friction: |x| <= h mu; v_i = 0 if |x| < h mu, else x acts against v_i."""

    def _row(self, s: State, h: Any, at: _At) -> tuple[Any, Any, Any, Bounds]:
        return 1, 0, 0, Bounds(-h * at.numbers[0], h * at.numbers[0])


class StopImpulses(_JointImpulses):
    """Stops at the limits of hinges and slides: x = h max(-k g' - k T dg/dt, 0) at the nearer limit.

    g is the distance to the limit; beyond the limit, g < 0. As in a contact, x > 0 needs g' <= 0.
    """

    def _gap(self, s: State, at: _At) -> tuple[Any, Any]:
        """The sign with which the distance to the nearer limit grows along v_i, and this distance."""
        q = at.body.joint_coordinates(s.q)[at.place]
        _, lower, upper, _ = at.numbers
        low = q < 0.5 * (lower + upper)
        return where(low, 1.0, -1.0), where(low, q - lower, upper - q)

    def _row(self, s: State, h: Any, at: _At) -> tuple[Any, Any, Any, Bounds]:
        sign, gap = self._gap(s, at)
        k, *_, T = at.numbers
        # before the limit the joint may come to it within the step; beyond it the spring and damper act
        return sign, where(gap > 0, gap / h, gap / (h + T)), 1 / (h * k * (h + T)), Bounds(0.0, np.inf)

    def attach(self, tree: Tree) -> None:
        super().attach(tree)
        if self.bounces:
            self.guess = "guess"
            self.flows["guess"] = np.zeros(len(self._at))
        if self.bounces and self.repeated:
            self.impact_guess = "impact_guess"
            self.flows["impact_guess"] = np.zeros((len(self._at), 2))

    def impact_rows(self, s: State, z: Any, p: Any, h: Any) -> list[ImpactRow]:
        """Joints get no further than to their stops within the step."""
        rows = []
        for i, at in enumerate(self._at):
            sign, gap = self._gap(s, at)
            k, *_, T = at.numbers
            starts = None if self.impact_guess is None else h * getattr(z, self.impact_guess)[i][:, None]
            bias = maximum(gap, 0.0) / h
            R = RIGID / (h * k * (h + T))
            J = self._jacobian(s, at, sign)
            rows.append(ImpactRow(J, np.array([bias]), np.array([R]), Bounds(0.0, np.inf), starts))
        return rows

    def _stored(self, s: State, h: Any, pushes: list[Push]) -> Any:
        ahead = [h * push.after[0] for push in pushes]
        return (self._energy(s, ahead) - self._energy(s, [0.0] * len(ahead))) / h

    def _energy(self, s: State, ahead: Sequence[Any]) -> Any:
        """The stored energy after the distances have grown by `ahead`."""
        gaps = [(at.numbers[0], self._gap(s, at)[1] + x) for at, x in zip(self._at, ahead, strict=True)]
        return sum((0.5 * k * minimum(gap, 0.0) ** 2 for k, gap in gaps), start=0.0)

    def energy(self, s: State, z: Any, p: Any) -> Any:
        return self._energy(s, [0.0] * len(self._at))


class DriveImpulses(Solved):
    """Impulses that keep drives within the effort limits of their joints, one row for each limited velocity.

        h |tau - h K v' - D (v' - v) + x / h| <= h tau_max,    x = 0 where the effort is less

    with tau, K, D of all driven elements (`State.drives`): exact at the end of a step.

    Memory: reaction (m,), x / h of the last step. It is part of the joints' work.
    """

    name = "saturation"
    driven = True

    def __init__(self, actuated: str | Iterable[str] | None) -> None:
        super().__init__()
        self._actuated = None if actuated is None else names(actuated)

    def attach(self, tree: Tree) -> None:
        limits = effort_limits(tree)
        # velocities with a finite limit and a drive
        self._at = np.flatnonzero(np.isfinite(limits) & (driven(tree, self._actuated) != 0)).tolist()
        self._limits = limits[self._at].tolist()
        self.flows = {"reaction": np.zeros(len(self._at))}

    def efforts(self, s: State, z: Any, p: Any) -> Array:
        return np.zeros(s.tree.nv, int)  # the part that drives give up is known after the solve

    def rows(self, s: State, z: Any, p: Any, h: Any) -> list[Row]:
        tau, K, D = s.drives
        nothing = np.zeros(1, int)
        rows = []
        # the impulse of a drive over the step is h (tau + D v - (D + h K) v'), linear in v'
        for i, most, x in zip(self._at, self._limits, z.reaction, strict=True):
            law = Saturation(h * (tau[i] + D[i] * s.v[i]), h * (D[i] + h * K[i]), h * most)
            J = np.zeros((1, s.tree.nv), int)
            J[0, i] = 1
            rows.append(Row(J, nothing, nothing, law, np.array([h * x])))
        return rows

    def after(self, s: State, z: Any, p: Any, h: Any, pushes: list[Push], struck: Struck | None) -> After:
        x = np.concatenate([np.zeros(0), *(push.x for push in pushes)])
        s.given_up = np.zeros(s.tree.nv, int).astype(object)
        s.given_up[self._at] = x / h
        return {"reaction": x / h}, {}


def effort_limits(tree: Tree) -> np.ndarray:
    """Effort limits of the drives of joints, (nv,); infinite for joints that mimic others."""
    limits = np.full(tree.nv, np.inf)
    for body in tree.bodies:
        if body.joint.mimic is None:
            limits[body.dofs] = body.joint.effort_limit
    return limits


class LoopImpulses(_Dissipating):
    """The closures of a `ClosedTree`, solved for exactly in each step, together with the contacts.

        g + h (J v' + drift) + h^2/2 (dJ/dt) v = 0

    so that loops stay closed to O(h^3) in smooth motion, whatever the velocities before were. Closures of
    velocities have J v' + drift = 0.

    Memory and signal: multipliers (nc,), lambda of J^T lambda as in `ClosedTree`, in the last step. The loss,
    called "loops", is the energy that closures take, less the energy that driven closures give.
    """

    name = "loops"
    guess = "multipliers"

    def __init__(self, nc: int) -> None:
        super().__init__()
        self.flows = {"multipliers": np.zeros(nc)}

    def rows(self, s: State, z: Any, p: Any, h: Any) -> list[Row]:
        closed = s.mechanism
        loops = closed.loop_rows(s.q, s.v, s.t)
        # `carried` turns v' to the new axes of a base, which takes a part of (dJ/dt) v
        swing = loops.bias - product(loops.J, turning(s.tree, s.v))
        bias = loops.drift + closed.of_places * (loops.residual / h + 0.5 * h * swing)
        R = PROXIMAL * closed.row_sizes(s.q)
        x = np.zeros(1, int)
        return [Row(loops.J[[i]], bias[[i]], R[[i]], HELD, x) for i in range(closed.nc)]

    def impact_rows(self, s: State, z: Any, p: Any, h: Any) -> list[ImpactRow]:
        """The velocities of the closures stay as they are."""
        closed = s.mechanism
        J = closed.loop_rows(s.q, s.v, s.t).J
        R = PROXIMAL * closed.row_sizes(s.q)
        return [ImpactRow(J[[i]], -product(J[[i]], s.v), R[[i]], HELD) for i in range(closed.nc)]

    def after(self, s: State, z: Any, p: Any, h: Any, pushes: list[Push], struck: Struck | None) -> After:
        both = [pushes, *([] if struck is None else [struck.pushes])]  # of the step and of the impact
        forces = -sum(np.concatenate([push.x for push in each]) for each in both) / h
        return {"multipliers": forces}, {"": -sum(push.work for each in both for push in each) / h}


KINDS: dict[type, type[Solved]] = {
    Contact: ContactImpulses,
    JointFriction: FrictionImpulses,
    JointLimits: StopImpulses,
}
"""Contacts and forces, with the elements of time stepping that replace them."""

REPEATED = (
    *REPEATED_IN_SWEEPS,
    *REPEATED_IN_ROWS,
    *REPEATED_IN_IMPACTS,
    _over,
    _along,
    _at_ground,
    _met,
    _hitting,
    _behind,
    _lost,
)
"""Functions that are repeated for each point or row; with many points they become loops."""
