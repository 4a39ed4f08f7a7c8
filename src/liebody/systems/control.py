"""Controllers: elements of a robot system that give efforts to its joints, for any robot.

Virtual springs act between the centre of mass c and a point f of the robot, along polar coordinates of the
leg r = f - c: its length r and its angle alpha about an axis. Both depend on the robot's shape and attitude
only, so a spring along r has no part in the base, and one along alpha turns it by just its own torque.

    RadialSpring       tau_r = -K_r (r - r_des) - D_r r'
    PolarSpring        tau_p = -K_p (alpha - alpha_des) - D_p alpha'
    LockedPolarSpring  the same with the angle of the locked frame, alpha_c
    EnergyRegulator    tau_E = -K_E (E - E_des) r'

Feurstein's Controllers are sums of these: `controller_1`, `controller_2`, `controller_3`.

Feurstein (2021), "Decoupling of ... floating-base robots", chapter 4.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import dynamics
from ..bodies import Tree
from ..dynamics import joint_group, mechanical_connection
from ..errors import ModelError
from ..linear import cross
from ..scalar import arctan2, sqrt
from .robot import Element, State, up

Array = Any
PHASES = ("always", "stance", "flight")
AXIS = (0.0, -1.0, 0.0)  # turns from down to forward, -z to x


class _LegElement(Element):
    """An effort along one coordinate of a leg."""

    prefix = ""

    def __init__(self, point: str, name: str) -> None:
        super().__init__()
        self.point, self.name = point, name

    def attach(self, tree: Tree) -> None:
        tree.frame(self.point)

    def _active(self, phase: str, s: State) -> Any:
        """1 in the phase, 0 elsewhere."""
        if phase == "always":
            return 1
        return s.touching(self.point) if phase == "stance" else 1 - s.touching(self.point)

    def _length(self, s: State) -> tuple[Any, Array]:
        """r, and J_r (nv,) of r' = J_r v."""
        r, J = s.leg(self.point)
        size = sqrt(r @ r)
        return size, (r / size) @ J


class RadialSpring(_LegElement):
    """tau_r = -K_r (r - r_des) - D_r r', along the leg's length r, by efforts J_r^T tau_r.

    point   name of the frame at the leg's end
    K_r     stiffness, parameter                                                                       [N/m]
    r_des   rest length, parameter                                                                       [m]
    D_r     damping, parameter                                                                       [N s/m]
    damped  when the damper acts: "always", "stance" or "flight"

    Works: <name>_work of spring and damper, <name>_damper dissipated. Signals: length, length_rate, force,
    energy = K_r (r - r_des)^2 / 2. Feurstein (2021), section 4.1.3.
    """

    def __init__(
        self,
        point: str,
        K_r: float,
        r_des: float,
        D_r: float = 0.0,
        damped: str = "always",
        name: str = "radial",
    ) -> None:
        super().__init__(point, name)
        self._phase = _phase(damped)
        self.parameters = {"K_r": K_r, "r_des": r_des, "D_r": D_r}

    def _force(self, s: State, p: Any) -> tuple[Any, Any, Array]:
        """tau_r, damping as it acts, J_r."""
        r, J = self._length(s)
        D = p.D_r * self._active(self._phase, s)
        return -p.K_r * (r - p.r_des) - D * (J @ s.v), D, J

    def tell(self, s: State, z: Any, p: Any) -> None:
        s.stored[self.name] = lambda: self.energy(s, z, p)

    def efforts(self, s: State, z: Any, p: Any) -> Array:
        force, _, J = self._force(s, p)
        return force * J

    def losses(self, s: State, z: Any, p: Any) -> dict[str, Any]:
        _, D, J = self._force(s, p)
        return {"damper": D * (J @ s.v) ** 2}

    def energy(self, s: State, z: Any, p: Any) -> Any:
        return 0.5 * p.K_r * (self._length(s)[0] - p.r_des) ** 2

    def outputs(self, s: State, z: Any, p: Any) -> dict[str, Any]:
        r, J = self._length(s)
        return {"length": r, "length_rate": J @ s.v, "force": self._force(s, p)[0]}


class EnergyRegulator(_LegElement):
    """tau_E = -K_E (E - E_des) r', along the leg's length r: it feeds energy until E = E_des.

    point    name of the frame at the leg's end
    K_E      gain, parameter                                                                     [N s/(m J)]
    E_des    level, parameter                                                                            [J]
    springs  names of the springs whose energy counts; E = T + U + that of these

    Work: <name>_work; signals: error = E - E_des, force. Feurstein (2021), section 4.1.4.
    """

    def __init__(
        self,
        point: str,
        K_E: float,
        E_des: float,
        springs: tuple[str, ...] = ("radial",),
        name: str = "regulator",
    ) -> None:
        super().__init__(point, name)
        self.springs = springs
        self.parameters = {"K_E": K_E, "E_des": E_des}

    def _error(self, s: State, p: Any) -> Any:
        for spring in self.springs:
            if spring not in s.stored:
                known = ", ".join(s.stored) or "none"
                raise ModelError(f"{self.name} counts the energy of {spring!r}; there are: {known}")
        stored = [s.stored[spring]() for spring in self.springs]
        return s.kinetic_energy + s.potential_energy + sum(stored, start=0) - p.E_des

    def efforts(self, s: State, z: Any, p: Any) -> Array:
        _, J = self._length(s)
        return (-p.K_E * self._error(s, p) * (J @ s.v)) * J

    def outputs(self, s: State, z: Any, p: Any) -> dict[str, Any]:
        _, J = self._length(s)
        error = self._error(s, p)
        return {"error": error, "force": -p.K_E * error * (J @ s.v)}


class PolarSpring(_LegElement):
    """tau_p = -K_p (alpha - alpha_des) - D_p alpha', along the leg's angle alpha, by J_alpha^T tau_p.

    alpha is the angle of the leg about `axis`, from straight down: with the default axis, the foot is ahead
    in x where alpha > 0. In the plane this is a torque tau_p on the base, and its share on the joints.

    point      name of the frame at the leg's end
    K_p, D_p   stiffness and damping, parameters                                        [N m/rad, N m s/rad]
    alpha_des  parameter                                                                               [rad]
    acts       "stance" (while the point touches something), "flight" or "always"
    axis       (3,), horizontal

    Work: <name>_work; signals: angle, torque. Feurstein (2021), section 4.1.3.
    """

    def __init__(
        self,
        point: str,
        K_p: float,
        alpha_des: float = 0.0,
        D_p: float = 0.0,
        acts: str = "stance",
        axis: Any = AXIS,
        name: str = "polar",
    ) -> None:
        super().__init__(point, name)
        a = np.asarray(axis, float)
        if a.shape != (3,) or not np.isfinite(a).all() or not a.any():
            raise ModelError(f"{name}: axis is {axis!r}, expected a direction (3,)")
        self.axis, self._phase = a / np.linalg.norm(a), _phase(acts)
        self.parameters = {"K_p": K_p, "D_p": D_p, "alpha_des": alpha_des}

    def _down_and_ahead(self, s: State) -> tuple[Array, Array]:
        down = -up(s.gravity)
        return down, cross(self.axis, down)

    def _angle(self, s: State, z: Any) -> Any:
        down, ahead = self._down_and_ahead(s)
        r = s.base_rotation @ s.leg(self.point)[0]
        return arctan2(ahead @ r, down @ r)

    def _jacobian(self, s: State) -> Array:
        """J_alpha (nv,) of alpha' = J_alpha v: a . (r x r') / |r normal to a|^2."""
        r, J = s.leg(self.point)
        a = s.base_rotation.T @ self.axis
        along = a @ r
        return cross(a, r) @ J / (r @ r - along * along)

    def _torque(self, s: State, z: Any, p: Any) -> tuple[Any, Array]:
        J = self._jacobian(s)
        torque = -p.K_p * (self._angle(s, z) - p.alpha_des) - p.D_p * (J @ s.v)
        return torque * self._active(self._phase, s), J

    def efforts(self, s: State, z: Any, p: Any) -> Array:
        torque, J = self._torque(s, z, p)
        return torque * J

    def outputs(self, s: State, z: Any, p: Any) -> dict[str, Any]:
        return {"angle": self._angle(s, z), "torque": self._torque(s, z, p)[0]}


class LockedPolarSpring(PolarSpring):
    """A polar spring with the angle of the locked frame instead: tau_p = -K_p (alpha_c - alpha_des) - ...

    alpha_c' = a . R (omega_b + m_w(q) q'), the angular velocity the robot would have with its joints locked,
    m the mechanical connection: it carries the whole angular momentum about the centre of mass. alpha_c flows
    with the motion, since with two joints or more it is no function of the configuration. It starts as the
    angle of the base's x axis from straight down, plus the line integral of m_w along q from neutral joints:
    for one joint that is theta_b + theta_bc(q) + pi/2, and stays so.

    Arguments as in `PolarSpring`; for robots with a floating base. Feurstein (2021), section 4.1.5 and eq.
    (3.76).
    """

    def attach(self, tree: Tree) -> None:
        super().attach(tree)
        dynamics.floating_base(tree)
        self.flows = {"angle": 0.0}

    def _angle(self, s: State, z: Any) -> Any:
        return z.angle

    def _jacobian(self, s: State) -> Array:
        tree = s.tree
        base = tree.bodies[0]
        turning = base.joint.S[:3].T @ (s.base_rotation.T @ self.axis)
        return np.concatenate([turning, turning @ mechanical_connection(tree, s.q)])

    def rates(self, s: State, z: Any, p: Any) -> dict[str, Any]:
        return {"angle": self._jacobian(s) @ s.v}

    def start(self, s: State, z: Any, p: Any) -> Any:
        tree, joints = s.tree, joint_group(s.tree)
        base = tree.bodies[0]
        down, ahead = self._down_and_ahead(s)
        R = s.base_rotation
        turning = base.joint.S[:3].T @ (R.T @ self.axis)
        velocity = joints.difference(joints.neutral(), s.q[base.coordinates.stop :])
        nodes, weights = np.polynomial.legendre.leggauss(16)
        total: Any = 0
        for node, weight in zip(nodes, weights, strict=True):
            for part in range(4):
                at = joints.integrate(joints.neutral(), ((node + 1) / 8 + part / 4) * velocity)
                m = mechanical_connection(tree, np.concatenate([base.joint.group.neutral(), at]))
                total = total + weight / 8 * (turning @ m @ velocity)
        return z._replace(angle=arctan2(ahead @ R[:, 0], down @ R[:, 0]) + total)


def controller_1(
    point: str = "foot", K_r: float = 2200.0, r_des: float = 0.14, D_r: float = 0.0, K_p: float = 6.0,
    D_p: float = 0.0, alpha_des: float = 0.0, axis: Any = AXIS,
) -> tuple[Element, ...]:  # fmt: skip
    """Feurstein's Controller I: a radial spring, damped in flight, and a polar spring in stance.

        tau = J_r^T (-K_r (r - r_des) - D_r r') + J_alpha^T (-K_p (alpha - alpha_des) - D_p alpha')

    point  name of the frame at the leg's end, with a `Contact`; the others are parameters
    """
    radial = RadialSpring(point, K_r, r_des, D_r, "flight")
    return radial, PolarSpring(point, K_p, alpha_des, D_p, axis=axis)


def controller_2(
    point: str = "foot", K_r: float = 2200.0, r_des: float = 0.14, D_r: float = 0.0, K_p: float = 6.0,
    D_p: float = 0.0, alpha_des: float = 0.0, K_E: float = 10.0, E_des: float = 2.8382, axis: Any = AXIS,
) -> tuple[Element, ...]:  # fmt: skip
    """Feurstein's Controller II: Controller I with the energy T + U + K_r (r - r_des)^2 / 2 regulated.

        tau_r = -K_r (r - r_des) - D_r r' - K_E (E - E_des) r'

    Arguments as in `controller_1`, and K_E, E_des; with K_E = 0 it is Controller I.
    """
    return *controller_1(point, K_r, r_des, D_r, K_p, D_p, alpha_des, axis), EnergyRegulator(
        point, K_E, E_des
    )


def controller_3(
    point: str = "foot", K_r: float = 2200.0, r_des: float = 0.14, D_r: float = 0.0, K_p: float = 6.0,
    D_p: float = 0.0, alpha_des: float = 0.0, K_E: float = 10.0, E_des: float = 2.8382, axis: Any = AXIS,
) -> tuple[Element, ...]:  # fmt: skip
    """Feurstein's Controller III: Controller II with alpha_c of the locked frame instead of alpha.

    Arguments as in `controller_2`.
    """
    return (
        RadialSpring(point, K_r, r_des, D_r, "flight"),
        LockedPolarSpring(point, K_p, alpha_des, D_p, axis=axis),
        EnergyRegulator(point, K_E, E_des),
    )


def _phase(name: str) -> str:
    if name not in PHASES:
        raise ModelError(f"{name!r} is no phase; take one of {', '.join(PHASES)}")
    return name
