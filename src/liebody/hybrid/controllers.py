"""Controllers: elements of a robot system that give efforts to its joints, for any robot.

    JointPD                    springs and dampers of the joints, with compensation of gravity
    OperationalSpaceImpedance  a frame on springs and dampers, with natural or shaped inertia
    DecoupledImpedance         the joints of a floating robot, decoupled from its momentum; its flight
    Feedback                   any function of the state

Virtual springs act between the centre of mass c and a point f of the robot, along polar coordinates of the
leg r = f - c: its length r and its angle alpha about an axis. Both depend on the robot's shape and attitude
only. Therefore a spring along r does not act on the base, and a spring along alpha turns the base by its
torque alone.

    RadialSpring       tau_r = -K_r (r - r_des) - D_r r'
    PolarSpring        tau_p = -K_p (alpha - alpha_des) - D_p alpha'
    LockedPolarSpring  the same with the angle of the locked frame, alpha_c
    EnergyRegulator    tau_E = -K_E (E - E_des) r'

Feurstein's Controllers are sums of these: I the radial spring and the regulator (`controller_1`), II these
and the polar spring (`controller_2`), III these and the locked polar spring (`controller_3`).

Feurstein (2021), chapter 4.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .. import dynamics
from ..base.arguments import floats, wrong_shape
from ..base.errors import ModelError
from ..bodies import Tree
from ..dynamics import joint_group, mechanical_connection
from ..groups import SE3
from ..scalars import Array, arctan2, sqrt
from ..scalars.linear import back_substitute, cross, factor, is_numeric
from .element import Element
from .robot_state import State, up

PHASES = ("always", "stance", "flight")
AXIS = (0.0, -1.0, 0.0)  # turns from down to forward, -z to x


class _LegElement(Element):
    """An effort along one coordinate of a leg; its parameters have no prefix under its usual name."""

    usual = ""

    def __init__(self, point: str, name: str) -> None:
        super().__init__()
        self.point = point
        self.name = name
        self.prefix = "" if name == self.usual else None

    def attach(self, tree: Tree) -> None:
        tree.frame(self.point)

    def _active(self, phase: str, s: State) -> Any:
        """1 in the phase, 0 elsewhere."""
        if phase == "always":
            return 1
        return s.touching(self.point) if phase == "stance" else 1 - s.touching(self.point)

    def _force(self, s: State, z: Any, p: Any) -> tuple[Any, Array]:
        """The effort along the coordinate, and J (nv,) of its rate J v."""
        raise NotImplementedError

    def efforts(self, s: State, z: Any, p: Any) -> Array:
        force, J = self._force(s, z, p)
        return force * J

    def _length(self, s: State) -> tuple[Any, Array]:
        """r, and J_r (nv,) of r' = J_r v, with exact zeros for the base."""
        r, J = s.leg(self.point)
        size = sqrt(r @ r)
        # the base's columns of J are r' by rotations, at right angles to r, and vanish up to round-off
        return size, np.concatenate([np.zeros(s.base_dofs, int), (r / size) @ J[:, s.base_dofs :]])


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

    usual = "radial"

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

    def _damping(self, s: State, p: Any) -> Any:
        return p.D_r * self._active(self._phase, s)

    def _force(self, s: State, z: Any, p: Any) -> tuple[Any, Array]:
        r, J = self._length(s)
        return -p.K_r * (r - p.r_des) - self._damping(s, p) * (J @ s.v), J

    def tell(self, s: State, z: Any, p: Any) -> None:
        s.stored[self.name] = lambda: self.energy(s, z, p)

    def losses(self, s: State, z: Any, p: Any) -> dict[str, Any]:
        return {"damper": self._damping(s, p) * (self._length(s)[1] @ s.v) ** 2}

    def energy(self, s: State, z: Any, p: Any) -> Any:
        return 0.5 * p.K_r * (self._length(s)[0] - p.r_des) ** 2

    def outputs(self, s: State, z: Any, p: Any) -> dict[str, Any]:
        r, J = self._length(s)
        return {"length": r, "length_rate": J @ s.v, "force": self._force(s, z, p)[0]}


class EnergyRegulator(_LegElement):
    """tau_E = -K_E (E - E_des) r', along the leg's length r: it feeds energy until E = E_des.

    point    name of the frame at the leg's end
    K_E      gain, parameter                                                                     [N s/(m J)]
    E_des    level, parameter                                                                            [J]
    springs  names of the springs whose energy counts; E = T + U + energy of these springs

    Work: <name>_work; signals: error = E - E_des, force. Feurstein (2021), section 4.1.4.
    """

    usual = "regulator"

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

    def _force(self, s: State, z: Any, p: Any) -> tuple[Any, Array]:
        _, J = self._length(s)
        return -p.K_E * self._error(s, p) * (J @ s.v), J

    def outputs(self, s: State, z: Any, p: Any) -> dict[str, Any]:
        return {"error": self._error(s, p), "force": self._force(s, z, p)[0]}


class PolarSpring(_LegElement):
    """tau_p = -K_p (alpha - alpha_des) - D_p alpha', along the leg's angle alpha, by J_alpha^T tau_p.

    alpha is the angle of the leg about `axis`, from straight down: with the default axis, the foot is ahead
    in x where alpha > 0. In the plane this is a torque tau_p on the base, and its share on the joints.

    point      name of the frame at the leg's end
    K_p, D_p   stiffness and damping, parameters                                        [N m/rad, N m s/rad]
    alpha_des  parameter                                                                               [rad]
    acts       "stance" (while the point touches something), "flight" or "always"
    axis       (3,), horizontal; ModelError for other axes

    Work: <name>_work; signals: angle, torque. Feurstein (2021), section 4.1.3.
    """

    usual = "polar"

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
        a = floats(f"{name}: axis", axis)
        if a.shape != (3,) or not a.any():
            raise ModelError(f"{name}: axis is {axis!r}, expected a direction (3,)")
        self.axis = a / np.linalg.norm(a)
        self._phase = _phase(acts)
        self.parameters = {"K_p": K_p, "D_p": D_p, "alpha_des": alpha_des}

    def _down_and_ahead(self, s: State) -> tuple[Array, Array]:
        """Directions (3,) that define alpha: straight down, alpha = 0, and ahead, where alpha is positive."""
        down = -up(s.gravity)
        # gravity may be a free parameter, whose value is not known while tracing
        if is_numeric(down) and abs(float(self.axis @ down)) > 1e-6:
            raise ModelError(
                f"{self.name}: axis {self.axis.tolist()} is not horizontal; down is {down.tolist()}"
            )
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

    def _force(self, s: State, z: Any, p: Any) -> tuple[Any, Array]:
        J = self._jacobian(s)
        torque = -p.K_p * (self._angle(s, z) - p.alpha_des) - p.D_p * (J @ s.v)
        return torque * self._active(self._phase, s), J

    def outputs(self, s: State, z: Any, p: Any) -> dict[str, Any]:
        return {"angle": self._angle(s, z), "torque": self._force(s, z, p)[0]}


class LockedPolarSpring(PolarSpring):
    """A polar spring with the angle of the locked frame instead: tau_p = -K_p (alpha_c - alpha_des) - ...

    alpha_c' = a . R (omega_b + m_w(q) q') is the angular velocity of the robot with locked joints and the
    same angular momentum about the centre of mass, m the mechanical connection. alpha_c is a flow, because
    with two joints or more it is no function of the configuration. It starts as the angle of the base's x
    axis from straight down, plus the line integral of m_w along q from neutral joints. For one joint it is
    theta_b + theta_bc(q) + pi/2 at all times.

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
        tree = s.tree
        joints = joint_group(tree)
        base = tree.bodies[0]
        down, ahead = self._down_and_ahead(s)
        R = s.base_rotation
        turning = base.joint.S[:3].T @ (R.T @ self.axis)
        velocity = joints.difference(joints.neutral(), s.q[base.coordinates.stop :])
        # The line integral goes along the geodesic from neutral joints, by Gauss quadrature, because the
        # integrand is smooth. The base's pose does not matter for m.
        nodes, weights = np.polynomial.legendre.leggauss(24)
        total: Any = 0
        for node, weight in zip(nodes, weights, strict=True):
            shape = joints.integrate(joints.neutral(), (node + 1) / 2 * velocity)
            m = mechanical_connection(tree, np.concatenate([base.joint.group.neutral(), shape]))
            total = total + weight / 2 * (turning @ m @ velocity)
        return z._replace(angle=arctan2(ahead @ R[:, 0], down @ R[:, 0]) + total)


def controller_1(
    point: str = "foot", K_r: float = 2200.0, r_des: float = 0.1411, D_r: float = 0.0,
    K_E: float = 10.0, E_des: float = 2.8382,
) -> tuple[Element, ...]:  # fmt: skip
    """Feurstein's Controller I: the radial spring and the regulator. It does not act on the base.

        tau = J_r^T tau_r,    tau_r = -K_r (r - r_des) - D_r r' - K_E (E - E_des) r',    D_r in flight only

    with E = T + U + K_r (r - r_des)^2 / 2, in flight and in stance; K_E = 0 switches the regulator off.

    point  name of the frame at the leg's end, with a `Contact`. The other arguments are parameters, with the
           values of the thesis' revolute hopper as defaults; r_des and E_des are the leg's length and E at
           its start

    Feurstein (2021), section 4.1.5, eqs (4.16), (4.18); his experiments I, which have K_E = 0.
    """
    return RadialSpring(point, K_r, r_des, D_r, "flight"), EnergyRegulator(point, K_E, E_des)


def controller_2(
    point: str = "foot", K_r: float = 2200.0, r_des: float = 0.1411, D_r: float = 0.0, K_p: float = 6.0,
    D_p: float = 0.0, alpha_des: float = 0.0, K_E: float = 10.0, E_des: float = 2.8382, axis: Any = AXIS,
) -> tuple[Element, ...]:  # fmt: skip
    """Feurstein's Controller II: Controller I and a polar spring, which acts in stance only.

        tau = J_r^T tau_r + J_alpha^T tau_p,    tau_p = -K_p (alpha - alpha_des) - D_p alpha'

    Arguments as in `controller_1`, and K_p, D_p, alpha_des, axis as in `PolarSpring`.

    Feurstein (2021), eqs (4.16) to (4.19); his experiments from II on.
    """
    radial = controller_1(point, K_r, r_des, D_r, K_E, E_des)
    return *radial, PolarSpring(point, K_p, alpha_des, D_p, axis=axis)


def controller_3(
    point: str = "foot", K_r: float = 2200.0, r_des: float = 0.1411, D_r: float = 0.0, K_p: float = 6.0,
    D_p: float = 0.0, alpha_des: float = 0.0, K_E: float = 10.0, E_des: float = 2.8382, axis: Any = AXIS,
) -> tuple[Element, ...]:  # fmt: skip
    """Feurstein's Controller III: Controller II with alpha_c of the locked frame instead of alpha.

    Arguments as in `controller_2`. Feurstein (2021), eq. (4.26); he has no experiment with it.
    """
    radial = controller_1(point, K_r, r_des, D_r, K_E, E_des)
    return *radial, LockedPolarSpring(point, K_p, alpha_des, D_p, axis=axis)


# -- joints, frames, and the flight of a robot --------------------------------------------------------------


class JointPD(Element):
    """tau = -dU/dq - D v + g(q), with U = e^T diag(K) e / 2 and e = log(q_des^-1 q) of each joint's group.

    K     stiffness, parameter: one number, or (n,)                                         [N m/rad, N/m]
    q_des coordinates of the joints, parameter, (nq of the joints,); default: neutral
    D     damping, parameter: one number, or (n,)                                       [N m s/rad, N s/m]
    gravity_compensation   whether g(q) is added
    name  prefix of the names: pd_K, pd_D, pd_q_des

    n is the number of velocities of the joints without a floating base, which is a first joint with three
    motions or more, some of them translations. For hinges -dU/dq is -K (q - q_des), and for ball joints the
    torque of a spring between attitudes.

    Takegaki and Arimoto (1981), "A new feedback method for dynamic control of manipulators".
    """

    def __init__(
        self, K: Any, q_des: Any = None, D: Any = 0.0, gravity_compensation: bool = True, name: str = "pd"
    ) -> None:
        super().__init__()
        self.name = name
        self._compensates = gravity_compensation
        self._arguments = {"K": K, "D": D, "q_des": q_des}

    def attach(self, tree: Tree) -> None:
        base = _floating(tree)
        self._group = joint_group(tree) if base else tree.group
        # where the joints begin in q and in v, behind a floating base
        self._first = (tree.bodies[0].coordinates.stop, tree.bodies[0].dofs.stop) if base else (0, 0)
        arguments = dict(self._arguments)
        if arguments["q_des"] is None:
            arguments["q_des"] = self._group.neutral()
        self.parameters = {
            "K": _shaped(self.name, "K", arguments["K"], (), (self._group.dim,)),
            "D": _shaped(self.name, "D", arguments["D"], (), (self._group.dim,)),
            "q_des": _shaped(self.name, "q_des", arguments["q_des"], (self._group.nq,)),
        }

    def spring(self, s: State, p: Any) -> tuple[Any, Array]:
        """U and dU/dq (n,) of the joints."""
        e = self._group.difference(p.q_des, s.q[self._first[0] :])
        pull = p.K * e
        return 0.5 * (e @ pull), self._group.dexp_inverse(-e).T @ pull

    def efforts(self, s: State, z: Any, p: Any) -> Array:
        nv = self._first[1]
        tau = -self.spring(s, p)[1] - p.D * s.v[nv:]
        if self._compensates:
            tau = tau + dynamics.gravity_forces(s.tree, s.q, s.gravity)[nv:]
        return np.concatenate([np.zeros(nv, int), tau])

    def gains(self, s: State, p: Any) -> tuple[Array, Array]:
        rest = np.zeros(self._first[1], int)
        one = np.ones(self._group.dim, int)
        return np.concatenate([rest, p.K * one]), np.concatenate([rest, p.D * one])

    def energy(self, s: State, z: Any, p: Any) -> Any:
        return self.spring(s, p)[0]


class OperationalSpaceImpedance(Element):
    """A frame on springs and dampers: F = -dU - D V, with U = e^T diag(K) e / 2 and tau = J^T F + g(q).

    frame    name of a frame or body
    K, D     stiffness and damping, parameters: one number, or one for each row
    target   parameter: position (3,), or pose (7,) = (w, x, y, z, px, py, pz) with a unit quaternion, in the
             world. A position has e = x - x_des, V = x', along the world's axes; a pose e = log(T_des^-1 T),
             V the frame's twist, in its own axes
    shaped   False: the frame keeps its natural inertia; True: F such that V' = -dU - D V, with K and D per
             mass
    D_null   damping of motions that leave the frame at rest, parameter
    name     prefix of the names: task_K, task_D, task_target, task_D_null

    All joints are assumed to have drives, as in arms. Where J loses rank, shaping divides by zero.

    Khatib (1987), "A unified approach for motion and force control of robot manipulators".
    """

    def __init__(
        self,
        frame: str,
        target: Any,
        K: Any,
        D: Any,
        shaped: bool = False,
        D_null: float = 0.0,
        name: str = "task",
    ) -> None:
        super().__init__()
        self.name = name
        self.frame = frame
        self._shaped = shaped
        target = _shaped(name, "target", target, (3,), (7,))
        if len(target) == 7:
            SE3.check(target)
        self._pose = len(target) == 7
        rows = (6 if self._pose else 3,)
        self.parameters = {
            "target": target,
            "K": _shaped(name, "K", K, (), rows),
            "D": _shaped(name, "D", D, (), rows),
            "D_null": D_null,
        }

    def attach(self, tree: Tree) -> None:
        tree.frame(self.frame)

    def _task(self, s: State, p: Any) -> tuple[Array, Array, Array, Array]:
        """e, dU/de in the frame's velocities, J, dJ/dt."""
        # a pose has its twist in the frame's axes, a position its velocity in the world's axes
        kind, rows = ("body", slice(0, 6)) if self._pose else ("mixed", slice(3, 6))
        J = dynamics.frame_jacobian(s.tree, s.q, self.frame, kind)[rows]
        rate = dynamics.frame_jacobian_rate(s.tree, s.q, s.v, self.frame, kind)[rows]
        if not self._pose:
            e = s.position(self.frame) - p.target
            return e, p.K * e, J, rate
        e = SE3.log(SE3.compose(SE3.inverse(SE3.element(p.target)), s.pose(self.frame)))
        return e, SE3.dexp_inverse(-e).T @ (p.K * e), J, rate

    def efforts(self, s: State, z: Any, p: Any) -> Array:
        _, slope, J, rate = self._task(s, p)
        wanted = -slope - p.D * (J @ s.v)
        mass = factor(dynamics.mass_matrix(s.tree, s.q))
        task = factor(J @ back_substitute(mass, J.T))  # factors of the inverse inertia of the frame
        slack = -p.D_null * s.v
        if self._shaped:
            # F gives V' = J v' + (dJ/dt) v its wanted value, with bias forces and damping taken into account
            bias = dynamics.bias_forces(s.tree, s.q, s.v, s.gravity)
            wanted = wanted - rate @ s.v - J @ back_substitute(mass, slack)
            return J.T @ back_substitute(task, wanted) + slack + bias
        # Project the damping to efforts that do not accelerate the frame (Khatib's null space projection).
        slack = slack - J.T @ back_substitute(task, J @ back_substitute(mass, slack))
        return J.T @ wanted + slack + dynamics.gravity_forces(s.tree, s.q, s.gravity)

    def energy(self, s: State, z: Any, p: Any) -> Any:
        e = self._task(s, p)[0]
        return 0.5 * (e @ (p.K * e))

    def outputs(self, s: State, z: Any, p: Any) -> dict[str, Any]:
        return {"error": self._task(s, p)[0]}


class DecoupledImpedance(Element):
    """Internal and external motion of a floating robot, on separate springs.

    In the velocities v_y = q' of the joints and v_x = (omega, c') of a frame at the centre of mass
    (dynamics.decoupling, T_x = "centroidal"), with the passive C of Feurstein, the efforts are

        F_y = gy + Cyx v_x - dU - D v_y,                    U = e^T diag(K) e / 2,  e = log(q_des^-1 q)
        F_x = gx - (D_turn omega, K_com (c - c_des) + D_com c')                     if the base is driven

    so that My v_y' + Cy v_y = -dU - D v_y for any momentum of the robot: the energy v_y^T My v_y / 2 + U
    only falls. With driven base the momentum obeys l' = -D_turn omega, m c'' = -K_com (c - c_des) - D_com c';
    without, F_b = 0.

    K, q_des, D            gains and set-points of the joints, parameters, as in `JointPD`
    base_driven            whether the joint of the base has drives (thrusters)
    K_com, D_com, D_turn   external gains, parameters; com (3,): the set-point in the world, parameter

    Feurstein (2021), eqs (3.80) to (3.84); Garofalo, Henze, Englsberger, Ott (2015), "On the inertially
    decoupled structure of the floating base robot dynamics".
    """

    def __init__(
        self,
        K: Any,
        q_des: Any = None,
        D: Any = 0.0,
        base_driven: bool = False,
        K_com: float = 0.0,
        D_com: float = 0.0,
        D_turn: float = 0.0,
        com: Any = (0.0, 0.0, 0.0),
        name: str = "decoupled",
    ) -> None:
        super().__init__()
        self.name = name
        self._base_driven = base_driven
        self._joints = JointPD(K, q_des, D, name=name)
        if base_driven:
            target = _shaped(name, "com", com, (3,))
            self._external = {"K_com": K_com, "D_com": D_com, "D_turn": D_turn, "com": target}

    def attach(self, tree: Tree) -> None:
        dynamics.floating_base(tree)
        self._joints.attach(tree)
        self.parameters = {**self._joints.parameters, **(self._external if self._base_driven else {})}

    def efforts(self, s: State, z: Any, p: Any) -> Array:
        tree = s.tree
        base = tree.bodies[0]
        k = base.dofs.stop
        # internal motion: gravity and the coupling with the momentum are compensated
        parts = dynamics.decoupled_dynamics(tree, s.q, s.v, "centroidal", "identity", "feurstein", s.gravity)
        w = dynamics.decoupled_velocity(tree, s.q, s.v, "centroidal")
        v_x = w[:k]
        v_y = w[k:]
        F_y = parts.gy + parts.Cyx @ v_x - self._joints.spring(s, p)[1] - p.D * v_y
        if not self._base_driven:
            return np.concatenate([np.zeros(k, int), F_y])
        # External motion: a spring of the centre of mass in the axes of the base joint's fixed frame, for the
        # velocities of the base that translate only; damping of translations and of rotations.
        S = base.joint.S
        R = np.asarray(base.placement)[:3, :3]
        spring = S[3:].T @ (R.T @ (p.K_com * (s.com - p.com)))
        moves = np.any(S[3:] != 0, axis=0) & ~np.any(S[:3] != 0, axis=0)
        F_x = parts.gx - spring * moves - np.where(moves, p.D_com, p.D_turn) * v_x
        return dynamics.efforts_from_decoupled(tree, s.q, np.concatenate([F_x, F_y]), "centroidal")

    def energy(self, s: State, z: Any, p: Any) -> Any:
        return self._joints.energy(s, z, p)


class Feedback(Element):
    """Efforts by a function: (s, p) -> (nv,), or fewer, for the joints without the floating base.

    function    of the `State` s and the parameters p, read by name; of NumPy operators and `liebody.scalars`
    parameters  names with their default values; `prefix` goes before the names in a system
    """

    def __init__(
        self,
        function: Callable[[State, Any], Array],
        name: str = "feedback",
        prefix: str = "",
        **parameters: Any,
    ) -> None:
        super().__init__()
        self.name = name
        self.prefix = prefix
        self.function = function
        self.parameters = parameters

    def efforts(self, s: State, z: Any, p: Any) -> Array:
        tau = np.asarray(self.function(s, p))
        # efforts of the joints alone: zeros stand for a floating base
        missing = s.tree.nv - len(tau) if tau.ndim == 1 else -1
        base = s.tree.bodies[0].dofs.stop if _floating(s.tree) else 0
        if missing not in (0, base):
            raise ModelError(f"{self.name} returned efforts of shape {tau.shape}, expected ({s.tree.nv},)")
        return np.concatenate([np.zeros(missing, int), tau])


def _floating(tree: Tree) -> bool:
    """Whether one body carries all others on a joint of three motions or more, with a translation."""
    roots = [body for body in tree.bodies if not body.parent]
    if len(roots) != 1 or roots[0].joint.dim < 3:
        return False
    S = roots[0].joint.S
    # more independent motions than rotations: some motions translate
    return bool(np.linalg.matrix_rank(S) > np.linalg.matrix_rank(S[:3]))


def _shaped(name: str, what: str, value: Any, *shapes: tuple[int, ...]) -> np.ndarray:
    """A value as an array of one of these shapes; raises ShapeError."""
    array = floats(f"{name}: {what}", value)
    if array.shape not in shapes:
        wanted = " or ".join(map(str, shapes))
        raise wrong_shape(f"{name}: {what}", array.shape, wanted)
    return array


def _phase(name: str) -> str:
    """The name of a phase; raises ModelError for others."""
    if name not in PHASES:
        raise ModelError(f"{name!r} is no phase; take one of {', '.join(PHASES)}")
    return name
