"""Efforts as a linear function of what a robot's bodies and joints are: the columns of linear identification.

    tau + J^T F = sum over bodies Y_b pi_b + D v + f tanh(v / v_s) + A a + c

pi_b are the ten parameters of a body (mass, first moments, inertia about the origin of its frame), D and f
the viscous and the dry friction of each joint, A the armature, c the offset of its effort sensor.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from ..base.arguments import floats, names, wrong_shape
from ..base.errors import ModelError, known
from ..bodies import PARAMETERS, Body
from ..groups import Free
from ..robot import Robot
from ..scalars import Array
from ..scalars.linear import matvec
from .inertias import body_of_parameters

KINDS = ("damping", "friction", "armature", "offset")
EXTENT = 0.1  # of a body without volume, in the robot's size
DIMENSIONS = (0, *[1] * 3, *[2] * 6)  # powers of a length in the parameters of a body


class Term(NamedTuple):
    """A loss of one degree of freedom.

    name  parameter of the robot: "joint1.damping"
    kind  "damping", "friction", "armature", "offset"
    own   the robot's own value
    row   its velocity and effort, in v and tau
    entry  its place in the parameter; None: the joint has no other one
    """

    name: str
    kind: str
    own: float
    row: int
    entry: int | None

    def __str__(self) -> str:
        return self.name if self.entry is None else f"{self.name}[{self.entry}]"


class LinearModel:
    """The columns of the free parameters of a robot, and which value they have in it.

    bodies  free bodies; None: all that have mass
    losses  of all joints but a floating base: "damping", "friction", "armature", "offset"
    v_s     as of `JointFriction`                                                                 [rad/s, m/s]

    The unknowns are ten parameters of each body, and then a number for each of `terms`.
    """

    def __init__(
        self, robot: Robot, bodies: str | Iterable[str] | None, losses: str | Iterable[str], v_s: float
    ) -> None:
        self.robot = robot
        self.v_s = v_s
        own = {body.name: body for body in robot.tree.bodies}
        heavy = [body.name for body in own.values() if float(body.inertia.mass) > 0]
        wanted = heavy if bodies is None else names(bodies)
        for name in wanted:
            if name not in own:
                raise ModelError(f"robot {robot.name!r} has no body {name!r}; {known(own, name)}")
        self.bodies: list[Body] = [own[name] for name in dict.fromkeys(wanted)]
        self.losses = tuple(dict.fromkeys(names(losses)))
        for kind in self.losses:
            if kind not in KINDS:
                raise ModelError(f"there are no losses of the kind {kind!r}; {known(KINDS, kind)}")
        self.terms = [
            term
            for kind in self.losses
            for body in own.values()
            if body.joint.mimic is None and not isinstance(body.joint.group, Free)
            for term in _terms_of(body, kind, range(robot.nv)[body.dofs])
        ]
        if not self.bodies and not self.terms:
            raise ModelError("nothing is free; name bodies, or losses such as 'damping'")
        inertial = [f"{body.name}.{x}" for body in self.bodies for x in PARAMETERS]
        self.entries = [*inertial, *map(str, self.terms)]

    @property
    def inertial(self) -> int:
        """The number of columns of bodies, which come first."""
        return len(PARAMETERS) * len(self.bodies)

    @property
    def own(self) -> Array:
        """The robot's own values (n,): losses are no part of its inverse dynamics, but for armature."""
        pi = self.robot.inertial_parameters.reshape(-1, len(PARAMETERS))
        parts = [pi[body.index - 1] for body in self.bodies]
        return np.concatenate([*parts, [term.own for term in self.terms]])

    @property
    def length(self) -> float:
        """The robot's size: the largest distance of a joint or a centre from its frame's origin   [m]."""
        at = [body.placement[:3, 3] for body in self.robot.tree.bodies]
        at += [body.inertia.com for body in self.robot.tree.bodies]
        return max((float(np.linalg.norm(np.asarray(x, float))) for x in at), default=0.0) or 1.0

    def reference(self, body: Body) -> Array:
        """The pseudo-inertia (4, 4) of a body, about which estimates stay where data says nothing.

        A body without volume gets the extent of a small ball; one without mass gets 1 % of the robot's.
        """
        m, h, Sigma = body.inertia.moments
        m, h, Sigma = float(m), np.asarray(h, float), np.asarray(Sigma, float)
        # A reference has to be positive definite, because its logarithm measures distances
        m = m or 0.01 * float(self.robot.mass) or 1.0
        P = np.block([[Sigma, h[:, None]], [h, m]])
        # second moments about the centre of mass, over the mass: squares of the body's extent, by
        # directions
        smallest = np.linalg.eigvalsh(Sigma - np.outer(h, h) / m)[0] / m
        # of a ball of radius r they are r^2 / 5 in each direction
        extent = (EXTENT * self.length) ** 2 / 5
        if smallest < 1e-6 * extent:
            P[:3, :3] += m * (extent - min(smallest, 0.0)) * np.eye(3)
        return P

    def references(self) -> Array:
        """`reference` of all bodies, (bodies, 4, 4)."""
        return np.array([self.reference(body) for body in self.bodies]).reshape(-1, 4, 4)

    def sizes(self) -> Array:
        """Sizes of the parameters (n,): m, m r, m r^2 with a body's radius of gyration r; 1 of losses."""
        sizes = []
        for P in self.references():
            # the first three diagonal entries of P are second moments, the last one is the mass
            radius = np.sqrt(np.trace(P[:3, :3]) / P[3, 3])
            sizes += [P[3, 3] * radius**k for k in DIMENSIONS]
        return np.array(sizes + [1.0] * (len(self.entries) - len(sizes)))

    def columns(self, q: Array, v: Array, a: Array) -> Array:
        """A (samples, nv, n) with A x = the part of the efforts that the free parameters x make."""
        return self.columns_with(self.robot.inverse_dynamics_regressor(q, v, a), v, a)

    def columns_with(self, Y: Array, v: Array, a: Array) -> Array:
        """As `columns`, with the regressor Y (samples, nv, 10 bodies) of all bodies."""
        count = len(PARAMETERS)
        blocks = [Y[..., count * (body.index - 1) : count * body.index] for body in self.bodies]
        functions = {
            "damping": v,
            "friction": np.tanh(v / self.v_s),
            "armature": a,
            "offset": np.ones_like(v),
        }
        losses = np.zeros((*v.shape, len(self.terms)))
        for column, term in enumerate(self.terms):
            losses[..., term.row, column] = functions[term.kind][..., term.row]
        return np.concatenate([*blocks, losses], axis=-1)

    def slopes(self, v: Array, weights: Array) -> tuple[Array, Array]:
        """Gradients by v, a (samples, nv) of the sum of weights (samples, nv, n) times columns of losses."""
        by_v, by_a = np.zeros((2, *v.shape))
        rates = {"damping": np.ones_like(v), "friction": (1 - np.tanh(v / self.v_s) ** 2) / self.v_s}
        for column, term in enumerate(self.terms, start=self.inertial):
            row = term.row
            if term.kind == "armature":
                by_a[..., row] += weights[..., row, column]
            elif term.kind in rates:
                by_v[..., row] += weights[..., row, column] * rates[term.kind][..., row]
        return by_v, by_a

    def rest(self, q: Array, v: Array, a: Array, tau: Array, contacts: Mapping[str, Any]) -> Array:
        """(..., samples, nv): what the robot's own parameters do not explain of the efforts, A (x - own)."""
        # the robot's own parameters include the bodies that are not free, with armature and without losses
        explained = self.robot.inverse_dynamics(q, v, a)
        for frame, given in contacts.items():
            forces = floats(f"contacts[{frame!r}]", given)
            explained = explained - matvec(self.contact_rows(q, frame, forces).swapaxes(-1, -2), forces)
        return tau - explained

    def contact_rows(self, q: Array, frame: str, forces: Array) -> Array:
        """J (..., samples, k, nv) of forces (..., samples, k) at a frame: their efforts are J^T F."""
        samples = q.shape[-2]
        if forces.ndim < 2 or forces.shape[-2] != samples or forces.shape[-1] not in (3, 6):
            raise wrong_shape(
                f"contacts[{frame!r}]",
                forces.shape,
                f"({samples}, 3), forces, or ({samples}, 6), moments and forces",
            )
        J: Array = self.robot.jacobian(q, frame, "mixed")[..., 6 - forces.shape[-1] :, :]
        return J

    # -- as the robot has them ------------------------------------------------------------------------------

    def values(self, x: Array) -> tuple[dict[str, Any], Array]:
        """{parameter: value} at x, and the derivative of all values in one array by x."""
        values: dict[str, Any] = {}
        blocks = []
        for k, body in enumerate(self.bodies):
            numbers, D = body_of_parameters(x[10 * k : 10 * k + 10])
            values[f"{body.name}.mass"] = float(numbers[0])
            values[f"{body.name}.center"] = numbers[1:4]
            values[f"{body.name}.inertia"] = numbers[4:]
            blocks.append(D)
        losses: dict[str, list[float]] = {}
        for term, number in zip(self.terms, x[self.inertial :].tolist(), strict=True):
            losses.setdefault(term.name, []).append(number)
        values |= {name: own[0] if len(own) == 1 else np.array(own) for name, own in losses.items()}
        D = np.eye(len(x))
        for k, block in enumerate(blocks):
            D[10 * k : 10 * k + 10, 10 * k : 10 * k + 10] = block
        return values, D


def _terms_of(body: Body, kind: str, rows: range) -> list[Term]:
    """The losses of one kind of a joint, whose velocities are these rows."""
    own = body.joint.armature if kind == "armature" else 0.0
    values = np.broadcast_to(np.asarray(own, float), (len(rows),)).tolist()
    name = f"{body.joint.name}.{kind}"
    several = len(rows) > 1
    return [
        Term(name, kind, value, row, i if several else None)
        for i, (row, value) in enumerate(zip(rows, values, strict=True))
    ]
