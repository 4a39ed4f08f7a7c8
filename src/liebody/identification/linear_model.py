"""Efforts as a linear function of what a robot's bodies and joints are: the columns of linear identification.

    tau + J^T F = sum over bodies Y_b pi_b + D v + f tanh(v / v_s) + A a + c

pi_b are the ten parameters of a body (mass, first moments, inertia about the origin of its frame), D and f
the viscous and the dry friction of each joint, A the armature, c the offset of its effort sensor.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from ..base.arguments import floats, names, wrong_shape
from ..base.errors import ModelError, known
from ..bodies import Body
from ..groups import Free
from ..robot import Robot
from ..scalars import Array
from ..scalars.linear import matvec
from .inertias import PARAMETERS, UPPER

KINDS = ("damping", "friction", "armature", "offset")
EXTENT = 0.1  # of a body without volume, in the robot's size
DIMENSIONS = (0, *[1] * 3, *[2] * 6)  # powers of a length in the parameters of a body


class LinearModel:
    """The columns of the free parameters of a robot, and which value they have in it.

    bodies  free bodies; None: all that have mass
    losses  of all joints but a floating base: "damping", "friction", "armature", "offset"
    v_s     as of `JointFriction`                                                                 [rad/s, m/s]
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
        self.joints = [
            body
            for body in own.values()
            if body.joint.dim and body.joint.mimic is None and not isinstance(body.joint.group, Free)
        ]
        if not self.bodies and not (self.losses and self.joints):
            raise ModelError("nothing is free; name bodies, or losses such as 'damping'")
        self.entries = [f"{body.name}.{x}" for body in self.bodies for x in PARAMETERS] + [
            f"{body.joint.name}.{kind}" + (f"[{i}]" if body.joint.dim > 1 else "")
            for kind in self.losses
            for body in self.joints
            for i in range(body.joint.dim)
        ]

    @property
    def inertial(self) -> int:
        """The number of columns of bodies, which come first."""
        return len(PARAMETERS) * len(self.bodies)

    @property
    def own(self) -> Array:
        """The robot's own values (n,): losses are no part of its inverse dynamics, but for armature."""
        pi = self.robot.inertial_parameters.reshape(-1, len(PARAMETERS))
        parts = [pi[body.index - 1] for body in self.bodies]
        for kind in self.losses:
            for body in self.joints:
                value = body.joint.armature if kind == "armature" else 0.0
                parts.append(np.broadcast_to(np.asarray(value, float), (body.joint.dim,)))
        return np.concatenate(parts)

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
        m = m or 0.01 * float(self.robot.mass) or 1.0
        P = np.block([[Sigma, h[:, None]], [h, m]])
        smallest = np.linalg.eigvalsh(Sigma - np.outer(h, h) / m)[0] / m
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
            radius = np.sqrt(np.trace(P[:3, :3]) / P[3, 3])
            sizes += [P[3, 3] * radius**k for k in DIMENSIONS]
        return np.array(sizes + [1.0] * (len(self.entries) - len(sizes)))

    def columns(self, q: Array, v: Array, a: Array) -> Array:
        """A (samples, nv, n) with A x = the part of the efforts that the free parameters x make."""
        Y = self.robot.inverse_dynamics_regressor(q, v, a)
        count = len(PARAMETERS)
        blocks = [Y[..., count * (body.index - 1) : count * body.index] for body in self.bodies]
        columns = {
            "damping": v,
            "friction": np.tanh(v / self.v_s),
            "armature": a,
            "offset": np.ones_like(v),
        }
        for kind in self.losses:
            for body in self.joints:
                block = np.zeros((*v.shape, body.joint.dim))
                for i, row in enumerate(range(self.robot.nv)[body.dofs]):
                    block[:, row, i] = columns[kind][:, row]
                blocks.append(block)
        return np.concatenate(blocks, axis=-1)

    def rest(self, q: Array, v: Array, a: Array, tau: Array, contacts: Mapping[str, Any]) -> Array:
        """(samples, nv): efforts and contacts that the robot's own parameters do not explain, A (x - own)."""
        explained = self.robot.inverse_dynamics(q, v, a)
        for frame, given in contacts.items():
            forces = floats(f"contacts[{frame!r}]", given)
            if forces.shape not in ((len(q), 3), (len(q), 6)):
                raise wrong_shape(
                    f"contacts[{frame!r}]",
                    forces.shape,
                    f"({len(q)}, 3), forces, or ({len(q)}, 6), moments and forces",
                )
            J = self.robot.jacobian(q, frame, "mixed")[:, 6 - forces.shape[1] :]
            explained = explained - matvec(J.swapaxes(1, 2), forces)
        return tau - explained

    # -- as the robot has them ------------------------------------------------------------------------------

    def values(self, x: Array) -> tuple[dict[str, Any], Array]:
        """{parameter: value} at x, and the derivative of all values in one array by x."""
        values: dict[str, Any] = {}
        blocks = []
        for k, body in enumerate(self.bodies):
            numbers, D = of_body(x[10 * k : 10 * k + 10])
            values[f"{body.name}.mass"] = float(numbers[0])
            values[f"{body.name}.center"] = numbers[1:4]
            values[f"{body.name}.inertia"] = numbers[4:]
            blocks.append(D)
        at = self.inertial
        for kind in self.losses:
            for body in self.joints:
                own = x[at : at + body.joint.dim]
                values[f"{body.joint.name}.{kind}"] = float(own[0]) if body.joint.dim == 1 else own
                at += body.joint.dim
        D = np.eye(len(x))
        for k, block in enumerate(blocks):
            D[10 * k : 10 * k + 10, 10 * k : 10 * k + 10] = block
        return values, D


def of_body(pi: Array) -> tuple[Array, Array]:
    """(mass, center, inertia about it) (10,) of the parameters of a body, and the derivative (10, 10)."""
    m, h = pi[0], pi[1:4]
    c = h / m
    I_c = pi[4:] - ((h @ h) * np.eye(3) - np.outer(h, h))[UPPER] / m
    D = np.zeros((10, 10))
    D[0, 0] = 1
    D[1:4, 0] = -c / m
    D[1:4, 1:4] = np.eye(3) / m
    D[4:, 0] = ((c @ c) * np.eye(3) - np.outer(c, c))[UPPER]
    for k, e in enumerate(np.eye(3)):
        turned = np.outer(e, c)
        D[4:, 1 + k] = -(2 * c[k] * np.eye(3) - turned - turned.T)[UPPER]
    D[4:, 4:] = np.eye(6)
    return np.array([m, *c, *I_c]), D
