"""The mechanisms of six benchmarks of multibody dynamics, and their solutions by other means."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.integrate import solve_ivp

from liebody import Robot, Run
from liebody.bodies import WORLD, Joint, SpatialInertia, Tree, TreeBuilder
from liebody.dynamics import body_poses
from liebody.groups import SE3, SO3, Prismatic, Revolute, Spherical
from liebody.mechanisms.constrained import (
    AbsoluteTree,
    ClosedTree,
    Closure,
    Condition,
    Constrained,
    SystemBuilder,
)
from liebody.scalars import cos, sin, sqrt

from ..compare import Array
from ..report import rows_of

X, Y, Z = np.eye(3)
G = 9.81


class Model(NamedTuple):
    """A mechanism at its start, and what is looked at: measure(run) -> (times, ...)."""

    name: str
    mechanism: Constrained | Robot
    q: Array
    v: Array
    measure: Callable[[Run], Array]
    tau: Any = None


def closed(
    tree: Tree, closures: Sequence[Closure | Condition], gravity: Array, q: Array, v: Array,
    measure: Callable[[Array], Array], tau: Any = (None, None),
) -> tuple[Model, Model]:  # fmt: skip
    """A tree with loops in joint and in absolute coordinates; measure(q of the tree) -> numbers."""
    joints = ClosedTree(tree, closures, gravity)
    absolute = AbsoluteTree(tree, closures, gravity)
    Q, V = absolute.to_system(q, v)

    def of_joints(run: Run) -> Array:
        return np.array([measure(q) for q in run.q])

    def of_absolute(run: Run) -> Array:
        return np.array([measure(absolute.to_tree(q)[0]) for q in run.q])

    by_joints = Model("joint", joints, q, v, of_joints, tau[0])
    return by_joints, Model("absolute", absolute.system, Q, V, of_absolute, tau[1])


# -- the heavy top ------------------------------------------------------------------------------------------

TOP_MASS, TOP_INERTIA, TOP_ARM = 15.0, np.array([0.234375, 0.46875, 0.234375]), Y
TOP_OMEGA = np.array([0.0, 150.0, -4.61538])
TOP_PUBLISHED = -106.163804141
"""omega_y in the world at 2 s, to which Exudyn's explicit Lie-group methods converge [rad/s]."""


def heavy_top(configuration: str) -> Model:
    """The top as a free body with a ball joint; omega in the world is looked at."""
    builder = SystemBuilder("heavy top", gravity=(0, 0, -G))
    builder.body("top", SpatialInertia(TOP_MASS, rotational=TOP_INERTIA), TOP_ARM, configuration)
    builder.joint("pivot", Spherical(), WORLD, "top", on_child=-TOP_ARM)
    system = builder.build()
    v = system.velocities(system.guess, {"top": [*TOP_OMEGA, *np.cross(TOP_OMEGA, TOP_ARM)]})

    def omega(run: Run) -> Array:
        return np.einsum("tij,tj->ti", system.poses(run.q)[:, 0, :3, :3], run.v[:, :3])

    return Model(configuration, system, system.guess, v, omega)


def heavy_top_reference(times: Array) -> Array:
    """omega in the world, from Euler's equations about the pivot with quaternions, by SciPy's DOP853."""
    J = np.diag(TOP_INERTIA) + TOP_MASS * (np.eye(3) - np.outer(TOP_ARM, TOP_ARM))

    def field(t: float, y: Array) -> Array:
        w, x, z = y[0], y[1:4], y[4:]
        weight = SO3.element(y[:4]).T @ [0, 0, -TOP_MASS * G]
        turn = np.concatenate([[-x @ z], w * z + np.cross(x, z)]) / 2
        return np.concatenate([turn, np.linalg.solve(J, np.cross(J @ z, z) + np.cross(TOP_ARM, weight))])

    start = np.concatenate([[1, 0, 0, 0], TOP_OMEGA])
    y = solve_ivp(field, times[[0, -1]], start, "DOP853", times, rtol=1e-13, atol=1e-12).y.T
    return np.array([SO3.element(q[:4] / np.linalg.norm(q[:4])) @ q[4:] for q in y])


# -- the spatial slider-crank -------------------------------------------------------------------------------

CRANK, ROD = 0.08, 0.3
CRANK_AXIS = np.array([0, 0.1, 0.12])
CRANK_SPEED = 6.0
ROD_OMEGA = np.array([1.92, -0.96, 0.48])  # as in the benchmark's data, rad/s
SLIDER_START = float(np.sqrt(ROD**2 - 0.1**2 - 0.2**2))  # 0.2 m
CRANK_INERTIA = SpatialInertia(0.12, [0, 0, CRANK / 2], np.diag([1e-4, 1e-4, 1e-5]))
ROD_INERTIA = np.array([4e-4, 4e-3, 4e-3])


def slider_crank() -> tuple[Model, Model]:
    """Crank, ball joint, rod, universal joint, slider on the x axis, whose displacement is compared."""
    tip = CRANK_AXIS + CRANK * Z
    slider = np.array([np.sqrt(ROD**2 - tip[1] ** 2 - tip[2] ** 2), 0, 0])
    along = (slider - tip) / ROD
    across = np.cross(X, along) / np.linalg.norm(np.cross(X, along))  # the rod's axis in the universal joint
    R = np.stack([along, across, np.cross(along, across)], axis=1)
    rod = SpatialInertia(0.5, [ROD / 2, 0, 0], np.diag(ROD_INERTIA))
    block = SpatialInertia(2.0, rotational=np.full(3, 1e-4))
    builder = TreeBuilder("slider-crank")
    builder.add("crank", Joint("A", Revolute(X)), CRANK_INERTIA, placement=CRANK_AXIS)
    builder.add("rod", Joint("B", Spherical()), rod, "crank", SE3.motion(R, CRANK * Z))
    builder.add("slider", Joint("D", Prismatic(X)), block, placement=slider)
    tree = builder.frame("end", "rod", [ROD, 0, 0]).build()

    def universal(rod: Array, slider: Array) -> Array:
        return np.append(rod[:3, 3] - slider[:3, 3], rod[:3, 1] @ slider[:3, 0])

    closures = [Condition("C", universal, ("end", "slider"))]
    q = tree.group.neutral()
    model = ClosedTree(tree, closures, (0, 0, -G))
    v = model.consistent_velocities(q, [CRANK_SPEED, *np.zeros(4)], hold=["A"])
    return closed(tree, closures, (0, 0, -G), q, v, lambda q: q[-1:])


def slider_crank_reference(times: Array) -> Array:
    """The slider's displacement from the equation of the crank angle alone, m a + m' w^2/2 + U' = 0.

    By DOP853, with m(angle) and U(angle) from the closed form of the kinematics and their derivatives by
    complex steps.
    """

    def place(a: Any) -> tuple[Any, Any, Any, Any]:
        """The pin B, dB/da, the slider's x, dx/da."""
        s, c = np.sin(a), np.cos(a)
        y, z = CRANK_AXIS[1] - CRANK * s, CRANK_AXIS[2] + CRANK * c
        x = np.sqrt(ROD**2 - y**2 - z**2)
        dy, dz = -CRANK * c, -CRANK * s
        return np.array([0 * y, y, z]), np.array([0 * y, dy, dz]), x, -(y * dy + z * dz) / x

    def both(a: Any) -> tuple[Any, Any]:
        """m and U."""
        B, dB, x, dx = place(a)
        along = (x * X - B) / ROD
        relative = dx * X - dB
        # omega = along x d(along) + k along, and it has no part along n = x cross (x cross along)
        w = np.cross(along, relative) / ROD
        n = np.cross(X, np.cross(X, along))
        w = w - along * (w @ n) / (along @ n)
        spin = w @ along
        turning = ROD_INERTIA[0] * spin**2 + ROD_INERTIA[1] * (w @ w - spin**2)
        centre = (dx * X + dB) / 2
        I = CRANK_INERTIA
        crank = I.rotational[0, 0] + I.mass * (CRANK / 2) ** 2
        m = crank + 0.5 * (centre @ centre) + turning + 2.0 * dx**2
        heights = I.mass * (CRANK_AXIS[2] + CRANK / 2 * np.cos(a)) + 0.5 * B[2] / 2
        return m, G * heights

    def field(t: float, y: Array) -> list[float]:
        m, U = both(y[0] + 1e-30j)
        return [y[1], -(m.imag / 1e-30 * y[1] ** 2 / 2 + U.imag / 1e-30) / m.real]

    y = solve_ivp(field, times[[0, -1]], [0, CRANK_SPEED], "DOP853", times, rtol=1e-13, atol=1e-13).y[0]
    return np.array([[place(a)[2] - place(0.0)[2]] for a in y])


# -- N four-bars --------------------------------------------------------------------------------------------

MORE = (10, 40)  # four-bars
FOUR_BARS_EXUDYN = ((0.3284552113, 0.00025), (0.3284573768, 0.000125))
"""x of B_0 at 10 s by Exudyn's generalized-alpha with two steps, from its test `fourBarMechanismIftomm`."""


def four_bars(n: int = 2) -> tuple[Model, Model]:
    """B_0, the first joint above the ground, is looked at. 2 n + 1 rods of 1 m and 1 kg."""
    rod = SpatialInertia(1.0, [0.5, 0, 0], np.diag([1e-3, 1 / 12, 1 / 12]))
    upright = SO3.exp(np.pi / 2 * Z)
    builder = TreeBuilder(f"{n} four-bars")
    for k in range(n + 1):
        builder.add(f"crank{k}", Revolute(Z), rod, placement=SE3.motion(upright, k * X))
        builder.frame(f"top{k}", f"crank{k}", SE3.motion(upright.T, X))
    for k in range(n):
        builder.add(f"coupler{k}", Revolute(Z), rod, f"crank{k}", SE3.motion(upright.T, X))
        builder.frame(f"end{k}", f"coupler{k}", X)
    tree = builder.build()
    closures = [Closure(f"C{k}", Revolute(Z), f"end{k}", f"top{k + 1}") for k in range(n)]
    cranks = np.array([b.name.startswith("crank") for b in tree.bodies])
    v = np.where(cranks, -1.0, 1.0)

    def tip(q: Array) -> Array:
        return np.array([-np.sin(q[0]), np.cos(q[0])])

    return closed(tree, closures, (0, -G, 0), np.zeros(tree.nq), v, tip)


def four_bars_reference(times: Array, n: int = 2) -> Array:
    """B_0 while all cranks stay parallel: ((n + 1)/3 + n) a = -((n + 1)/2 + n) g cos(angle), by DOP853."""
    factor = ((n + 1) / 2 + n) / ((n + 1) / 3 + n) * G

    def field(t: float, y: Array) -> list[float]:
        return [y[1], -factor * np.cos(y[0])]

    y = solve_ivp(field, times[[0, -1]], [np.pi / 2, -1], "DOP853", times, rtol=1e-13, atol=1e-13).y
    return np.stack([np.cos(y[0]), np.sin(y[0])], axis=1)


# -- Andrews' squeezer --------------------------------------------------------------------------------------

ANDREWS = rows_of(__package__, "andrews")
ANDREWS_JOINTS = tuple(row["joint"] for row in ANDREWS)
ANDREWS_START, ANDREWS_END, ANDREWS_END_VELOCITIES = (
    np.array([float(row[key]) for row in ANDREWS]) for key in ("start", "end", "velocity at the end")
)
ANDREWS_ACCELERATIONS = (14222.4439199541138705911625887, -10666.8329399655854029433719415)  # at the start
ANDREWS_MULTIPLIERS = (98.5668703962410896057654982170, -6.12268834425566265503114393122)
ANDREWS_END_MULTIPLIERS = (
    199.1753333731910, -29.75531228015052, 23.06654119098399, 31.45271365475927, 22.64249232082739,
    11.61740700019673,
)  # fmt: skip
ANDREWS_TORQUE, ANDREWS_STIFFNESS, ANDREWS_REST = 0.033, 4530.0, 0.07785
ANDREWS_A, ANDREWS_B, ANDREWS_C = (-0.06934, -0.00227, 0), (-0.03635, 0.03273, 0), (0.014, 0.072, 0)


def andrews() -> tuple[Model, Model]:
    """Seven bodies in the plane, driven by a torque; the seven angles are looked at."""

    def add(
        name: str, joint: str, mass: float, com: Array, inertia: float, parent: str, place: Array
    ) -> None:
        body = SpatialInertia(mass, [*com, 0], np.full(3, inertia))
        builder.add(name, Joint(joint, Revolute(Z)), body, parent, np.array([*place, 0.0][:3]))

    builder = TreeBuilder("Andrews' squeezer")
    add("K1", "beta", 0.04325, (92e-5, 0), 2.194e-6, WORLD, (0, 0))
    add("K2", "Theta", 0.00365, (-115e-4, 0), 4.410e-7, "K1", (7e-3, 0))
    add("K3", "gamma", 0.02373, (1043e-5, -1874e-5), 5.255e-6, WORLD, ANDREWS_B)
    add("K5", "delta", 0.07050, (2308e-5, 916e-5), 1.169e-5, WORLD, ANDREWS_A)
    add("K4", "Phi", 0.00706, (0, 1421e-5 - 2e-2), 5.667e-7, "K5", (4e-2, 0))
    add("K7", "epsilon", 0.05498, (-1228e-5, -449e-5), 1.912e-5, WORLD, ANDREWS_A)
    add("K6", "Omega", 0.00706, (2e-2 - 1421e-5, 0), 5.667e-7, "K7", (0, -4e-2))
    for body, x, y in (("K2", -28e-3, 0), ("K3", 0, -35e-3), ("K4", 0, -2e-2), ("K6", 2e-2, 0)):
        builder.frame(f"E{body[1]}", body, [x, y, 0])
    tree = builder.build()

    def meet(a: Array, b: Array) -> Array:
        return a[:2, 3] - b[:2, 3]

    closures = [Condition(f"E{k}", meet, ("E2", f"E{k}")) for k in (3, 4, 6)]
    order = andrews_order(tree)
    q = np.zeros(7)
    q[order] = ANDREWS_START
    absolute = AbsoluteTree(tree, closures, (0, 0, 0)).system
    third = absolute.index("K3")

    def torques(c: Any, s: Any) -> Array:
        """Of the motor, and of the spring from D on K3 to C."""
        d = np.array([0.02 * c + 0.018 * s, 0.02 * s - 0.018 * c])
        pull = d + np.array(ANDREWS_B[:2]) - np.array(ANDREWS_C[:2])
        length = sqrt(pull @ pull)
        f = -(ANDREWS_STIFFNESS * (length - ANDREWS_REST) / length) * pull
        moment = d[0] * f[1] - d[1] * f[0]
        return np.array([{"beta": ANDREWS_TORQUE, "gamma": moment}.get(b.joint.name, 0) for b in tree.bodies])

    def joint_torques(t: Any, q: Array, v: Array) -> Array:
        return torques(cos(q[order[2]]), sin(q[order[2]]))

    def absolute_torques(t: Any, q: Array, v: Array) -> Array:
        w, z = q[7 * third], q[7 * third + 3]
        return torques(w * w - z * z, 2 * w * z)

    def angles(q: Array) -> Array:
        """In the order of the test set, the turns that absolute coordinates do not count as there."""
        turns = np.round((ANDREWS_END - q[order]) / (2 * np.pi))
        return q[order] + 2 * np.pi * turns

    return closed(tree, closures, (0, 0, 0), q, np.zeros(7), angles, (joint_torques, absolute_torques))


def andrews_order(tree: Tree) -> list[int]:
    """Where the joints of the test set stand in the tree."""
    names = [b.joint.name for b in tree.bodies]
    return [names.index(name) for name in ANDREWS_JOINTS]


# -- Bricard's mechanism ------------------------------------------------------------------------------------

BRICARD_POINTS = np.array([[0, 0, 0], [1, 0, 0], [1, -1, 0], [1, -1, 1], [0, -1, 1], [0, 0, 1]], float)
BRICARD_AXES = np.array([Y, Z, X, Y, Z, X])


def bricard() -> tuple[Model, Model]:
    """Five rods of 1 m, 1 kg and a square section of 0.1 m, and the ground; P_3 is looked at."""
    rod = SpatialInertia.box(1.0, [1, 0.1, 0.1], com=[0.5, 0, 0])
    turns = [SO3.exp(np.pi / 2 * x) for x in (0 * Z, -Z, -Y, 2 * Z, Z)]
    poses = [np.eye(4)] + [SE3.motion(np.round(R), p) for R, p in zip(turns, BRICARD_POINTS[:5], strict=True)]
    builder, parent = TreeBuilder("Bricard's mechanism"), WORLD
    for k in range(1, 6):
        axis, place = poses[k][:3, :3].T @ BRICARD_AXES[k - 1], SE3.inverse(poses[k - 1]) @ poses[k]
        builder.add(f"rod{k}", Joint(f"J{k}", Revolute(axis)), rod, parent, place)
        parent = f"rod{k}"
    last = SE3.motion(np.eye(3), BRICARD_POINTS[5])
    builder.frame("end", "rod5", SE3.inverse(poses[5]) @ last).frame("ground", WORLD, last)
    tree = builder.build()

    def third(q: Array) -> Array:
        return np.asarray(body_poses(tree, q)[2][:3, 3], float)

    closures = [Closure("J6", Revolute(X), "ground", "end")]
    return closed(tree, closures, (0, -G, 0), np.zeros(5), np.zeros(5), third)


def bricard_cosines(tree: Tree, q: Array) -> Array:
    """Of the angles between neighbouring rods, (4,)."""
    along = np.array([T[:3, 0] for T in body_poses(tree, q)])
    return np.einsum("ki,ki->k", along[:-1], along[1:])


# -- the stiff flyball governor -----------------------------------------------------------------------------

SPRING, DAMPER, SPRING_LENGTH = 8e5, 4e4, 0.5
GOVERNOR_SPEED = 2 * np.pi
GOVERNOR_ANGLE = np.pi / 6  # of the rods below the horizontal
SHAFT = SpatialInertia.box(0.3, [0.01, 0.01, 1.0], com=[0, 0, 0.5])
SLIDER = SpatialInertia.box(3.0, [0.1, 0.1, 0.1])
ARM = SpatialInertia.box(0.3, [1, 0.01, 0.01], com=[0.5, 0, 0]) + SpatialInertia(5.0, X, np.zeros((3, 3)))


def _arms() -> dict[str, Array]:
    """Poses of the rods on the shaft."""
    right = SE3.motion(SO3.exp(GOVERNOR_ANGLE * Y), np.array([0.05, 0, 1]))
    return {"right": right, "left": np.diag([-1.0, -1.0, 1.0, 1.0]) @ right}


def governor() -> Model:
    """In absolute coordinates; the height of the slider is looked at."""
    builder = SystemBuilder("flyball governor", gravity=(0, 0, -G))
    builder.body("shaft", SHAFT).body("slider", SLIDER, [0, 0, 0.5])
    builder.joint("shaft", Revolute(Z), WORLD, "shaft")
    builder.joint("slider", Prismatic(Z), "shaft", "slider", on_parent=[0, 0, 0.5])
    for (name, T), sign in zip(_arms().items(), (1, -1), strict=True):
        builder.body(name, ARM, T).joint(name, Revolute(Y), "shaft", name, on_parent=T)
        ends, law = ([sign * 0.05, 0, 0], [0.5, 0, 0]), (SPRING, SPRING_LENGTH, DAMPER)
        builder.spring(f"spring {name}", "slider", name, *ends, *law)
    system = builder.build()
    q = system.guess
    twists = {}
    for body, T in zip(system.bodies, system.poses(q), strict=True):
        w = T[:3, :3].T @ (GOVERNOR_SPEED * Z)
        twists[body.name] = [*w, *np.cross(w, T[:3, :3].T @ T[:3, 3])]
    i, v = system.index("slider"), system.velocities(q, twists)
    return Model("absolute", system, q, v, lambda run: system.poses(run.q)[:, i, 2, 3:])


def governor_tree() -> Model:
    """In joint coordinates (shaft, slider, right, left), springs as efforts from their lengths."""
    builder = TreeBuilder("flyball governor")
    builder.add("shaft", Revolute(Z), SHAFT)
    builder.add("slider", Prismatic(Z), SLIDER, "shaft", [0, 0, 0.5])
    for name, T in _arms().items():
        builder.add(name, Revolute(Y), ARM, "shaft", T)

    def springs(t: Any, q: Array, v: Array) -> Array:
        efforts: list[Any] = [0, 0, 0, 0]
        for k in (2, 3):
            s, c = sin(q[k] + GOVERNOR_ANGLE), cos(q[k] + GOVERNOR_ANGLE)
            across, up = 0.5 * c, 0.5 - 0.5 * s - q[1]
            length = sqrt(across * across + up * up)
            by_slider, by_arm = -up / length, -0.5 * (across * s + up * c) / length
            force = SPRING * (length - SPRING_LENGTH) + DAMPER * (by_slider * v[1] + by_arm * v[k])
            efforts[1], efforts[k] = efforts[1] - force * by_slider, -force * by_arm
        return np.array(efforts)

    v = np.array([GOVERNOR_SPEED, 0, 0, 0])
    robot = Robot(builder.build(), (0, 0, -G))
    return Model("joint", robot, np.zeros(4), v, lambda run: run.q[:, 1:2] + 0.5, springs)
