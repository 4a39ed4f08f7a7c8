"""Differential inverse kinematics: exact velocities, limits and margins that hold, optimality."""

import copy
import pickle

import numpy as np
import pytest
from legged import legged

import liebody as lb
from liebody.base.errors import ConfigurationError, ModelError, ShapeError
from liebody.bodies import Frame, Joint
from liebody.control import Clearance, DifferentialIK, MotionTask
from liebody.groups import SE3, SO3, Free, Revolute

BARE = {"damping": 0.0, "tip.levenberg": 0.0}
Q = np.array([0.3, -0.4, 0.3, 0.4, 0.9, -0.5])  # far from singular positions, within limits


def posed(x, y, z=0.0):
    T = np.eye(4)
    T[:3, 3] = x, y, z
    return T


def along_x(link, half):
    """A frame of a link whose z axis is the link's x axis, in the middle of its length."""
    T = posed(half, 0)
    T[:3, :3] = [[0, 0, 1], [0, 1, 0], [-1, 0, 0]]
    return Frame(f"{link.name}_axis", link.index, T)


def planar(links, base=((0.0, 0.0),), lower=-3.0, upper=3.0, velocity=2.0):
    """Arms in the plane z = 0 of links of 0.4 m; the tips are frames tip, or tip0, tip1."""
    tree = lb.TreeBuilder("planar")
    names = []
    for arm, place in enumerate(base):
        parent = "world"
        for i in range(links):
            name = f"link{arm}_{i}"
            joint = Joint(name, Revolute([0, 0, 1]), lower=lower, upper=upper, velocity_limit=velocity)
            inertia = lb.SpatialInertia.point(1.0, [0.2, 0, 0])
            tree.add(name, joint, inertia, parent, posed(*place) if i == 0 else posed(0.4, 0))
            parent = name
        names.append(parent)
    robot = lb.Robot(tree.build())
    for arm, name in enumerate(names):
        robot = robot.with_frame("tip" if len(base) == 1 else f"tip{arm}", name, posed(0.4, 0))
    return robot


@pytest.fixture(scope="module")
def arm():
    puma = lb.load("puma560")
    return puma.with_frame("tip", puma.tree.bodies[-1].name, posed(0.0, 0.02, 0.1))


@pytest.fixture(scope="module")
def reaching(arm):
    return DifferentialIK(arm, [MotionTask.pose(arm, "tip", gain=5.0)], limits=())


def test_a_pose_alone_has_the_velocity_of_the_inverse_jacobian(arm, reaching):
    """y = log(T_d^-1 T), dy/dt = dexp^-1(-y) J v = rate - gain y."""
    rng = np.random.default_rng(0)
    for size in (1e-3, 0.1, 1.0):
        target = SE3.compose(arm.pose(Q, "tip"), SE3.exp(size * rng.normal(size=6)))
        rate = rng.normal(size=6)
        u = reaching(Q, {**BARE, "tip.target": target, "tip.rate": rate, "tip.gain": 3.0})
        y = SE3.log(np.linalg.inv(target) @ arm.pose(Q, "tip"))
        v = np.linalg.solve(SE3.dexp_inverse(-y) @ arm.jacobian(Q, "tip"), rate - 3.0 * y)
        np.testing.assert_allclose(u.v, v, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(u.errors, y, atol=1e-12)
        assert u.status == 0 and reaching.entries[2] == "tip[2]"
        # the step is the group's
        np.testing.assert_allclose(u.q, arm.integrate(Q, 0.01 * u.v), atol=1e-15)
        u = reaching.step(Q, {"tip.target": target}, 0.2)
        np.testing.assert_allclose(u.q, arm.integrate(Q, 0.2 * u.v), atol=1e-15)


def test_two_links_have_the_velocities_of_their_closed_form():
    """v = J^-1 xdot with det J = l1 l2 sin q2, of an arm whose links are 0.4 m long."""
    robot = planar(2)
    tip = MotionTask("tip", lambda q, v, p: robot.pose(q, "tip")[:2, 3] - p.target, {"target": np.zeros(2)})
    ik = DifferentialIK(robot, [tip], limits=())
    a, b = q = np.array([0.4, 0.9])
    x = 0.4 * np.array([np.cos(a) + np.cos(a + b), np.sin(a) + np.sin(a + b)])
    target = x + [0.02, -0.03]
    u = ik(q, {**BARE, "tip.target": target, "tip.gain": 2.0})
    dx, dy = 2.0 * (target - x)
    first = (np.cos(a + b) * dx + np.sin(a + b) * dy) / (0.4 * np.sin(b))
    second = -(x @ [dx, dy]) / (0.4 * 0.4 * np.sin(b))
    np.testing.assert_allclose(u.v, [first, second], rtol=1e-9)


def test_singular_and_unreachable_targets_have_finite_velocities(arm, reaching):
    """A stretched arm that is to go inwards and outwards, and a target far away."""
    robot = planar(3)
    ik = DifferentialIK(robot, [MotionTask.position(robot, "tip", gain=5.0)], limits=())
    for x in (0.5, 1.2, 3.0, 1e3):
        for damping in (0.0, 1e-6):
            u = ik(np.zeros(3), {"tip.target": [x, 0, 0], "damping": damping})
            assert np.isfinite(u.v).all() and u.status == 0
            np.testing.assert_allclose(u.v, 0, atol=1e-6)  # no velocity moves the tip along x
    # nearly stretched: (J^T J + mu 1)^-1 J^T e by hand, mu = levenberg |y|^2
    q = np.array([0.0, 1e-4, 0.0])
    y = robot.pose(q, "tip")[:3, 3] - [0.5, 0, 0]
    J = robot.jacobian(q, "tip", "mixed")[3:]
    for levenberg in (1e-3, 1e-1):
        u = ik(q, {"tip.target": [0.5, 0, 0], "damping": 0.0, "tip.levenberg": levenberg})
        v = np.linalg.solve(J.T @ J + levenberg * (y @ y) * np.eye(3), -5.0 * J.T @ y)
        np.testing.assert_allclose(u.v, v, rtol=1e-6, atol=1e-8)


def test_each_kind_of_task_has_its_rate(arm):
    """The derivative of y along q exp(s v), by differences, is rate - gain y; a function of v vanishes."""
    rng = np.random.default_rng(3)
    middle = arm.tree.bodies[4].name
    tasks = [
        MotionTask.pose(arm, "tip", gain=3.0, weight=0.0),
        MotionTask.orientation(arm, middle, kp=9.0, weight=0.0),
        MotionTask.position(arm, arm.tree.bodies[3].name, kp=9.0, weight=0.0),
        MotionTask.center_of_mass(arm, gain=3.0, weight=0.0),
        MotionTask.posture(arm, gain=3.0, weight=0.0),
        MotionTask.momentum(arm, weight=0.0),
        MotionTask(
            "own", lambda q, v, p: np.array([q[0] * q[1] - p.x, np.sin(q[2])]), {"x": 0.2}, kp=9.0, weight=0.0
        ),
    ]
    ik = DifferentialIK(arm, tasks, limits=())
    near = arm.integrate(Q, 0.3 * rng.normal(size=6))
    upper = arm.tree.bodies[3].name
    h = arm.centroidal_momentum(Q, rng.normal(size=6))
    targets = {
        "tip.target": arm.pose(near, "tip"),
        f"{middle}.target": arm.pose(near, middle)[:3, :3],
        f"{upper}.target": arm.pose(near, upper)[:3, 3],
        "center_of_mass.target": arm.center_of_mass(near),
        "posture.target": near,
        "momentum.target": h,
    }
    functions = {
        "tip": lambda q: SE3.log(np.linalg.inv(targets["tip.target"]) @ arm.pose(q, "tip")),
        middle: lambda q: SO3.log(targets[f"{middle}.target"].T @ arm.pose(q, middle)[:3, :3]),
        upper: lambda q: arm.pose(q, upper)[:3, 3] - targets[f"{upper}.target"],
        "center_of_mass": lambda q: arm.center_of_mass(q) - targets["center_of_mass.target"],
        "posture": lambda q: q - near,
        "own": lambda q: np.array([q[0] * q[1] - 0.2, np.sin(q[2])]),
    }
    for name, function in functions.items():
        values = {**targets, f"{name}.weight": 1.0, f"{name}.levenberg": 0.0, "damping": 0.0}
        u = ik(Q, values)
        s = 2e-4
        y = [function(arm.integrate(Q, s * k * u.v)) for k in (-2, -1, 0, 1, 2)]
        rate = (y[0] - 8 * y[1] + 8 * y[3] - y[4]) / (12 * s)
        np.testing.assert_allclose(rate, -3.0 * y[2], atol=1e-7, err_msg=name)
    u = ik(Q, {**targets, "momentum.weight": 1.0, "damping": 0.0})
    np.testing.assert_allclose(arm.centroidal_momentum(Q, u.v), h, atol=1e-6)


def test_limits_hold_in_each_step_of_a_long_motion(arm):
    """Targets that jump, many beyond reach; joints start within their limits and never leave them."""
    ik = DifferentialIK(arm, [MotionTask.pose(arm, "tip", gain=20.0), MotionTask.posture(arm, weight=1e-3)])
    low, high = arm.tree.coordinate_limits
    fastest = np.array([1.0, 0.8, 1.2, 2.0, 2.0, 0.0])  # the last joint is locked
    rng = np.random.default_rng(1)
    members, dt = 16, 0.02
    q = np.clip(np.tile(Q, (members, 1)), low, high)
    at_velocity, at_position = set(), set()
    for _ in range(6):
        target = arm.pose(arm.random(rng, members), "tip")
        target[:, :3, 3] *= rng.choice([1.0, 3.0], (members, 1))
        p = ik.pack({"tip.target": target, "velocity_limit": fastest, "dt": dt})
        for _ in range(60):
            u = ik(q, p)
            assert (u.status == 0).all()
            assert (np.abs(u.v) <= fastest + 1e-7).all()
            q = u.q
            assert (q >= low - 1e-8).all() and (q <= high + 1e-8).all()
            at_velocity |= {*np.nonzero(np.abs(u.v) > 0.999 * fastest - 1e-7)[1].tolist()}
            at_position |= {*np.nonzero((q < low + 1e-3) | (q > high - 1e-3))[1].tolist()}
    np.testing.assert_allclose(q[:, 5], Q[5], atol=1e-6)
    assert len(at_velocity) > 4 and len(at_position) > 1


def test_a_joint_beyond_its_limit_comes_back_not_faster_than_it_may():
    robot = planar(2, lower=-1.0, upper=1.0, velocity=0.5)
    ik = DifferentialIK(robot, [MotionTask.posture(robot, gain=1.0)])
    q, dt = np.array([1.3, -0.2]), 0.01
    distances = []
    for _ in range(120):
        u = ik.step(q, {"posture.target": [2.0, 0.0]}, dt)
        assert (np.abs(u.v) <= 0.5 + 1e-6).all() and u.status == 0
        distances.append(q[0] - 1.0)
        q = u.q
    distances = np.array(distances)
    np.testing.assert_allclose(distances[1:50], distances[:49] - 0.5 * dt, atol=1e-8)
    assert (np.diff(distances) < 1e-9).all() and abs(distances[-1]) < 1e-6


def between_segments(a, b, c, d):
    """The distance of the segments a-b and c-d, by least squares in a box."""
    from scipy.optimize import lsq_linear

    A = np.stack([b - a, c - d], axis=1)
    return np.linalg.norm(lsq_linear(A, c - a, (0, 1), tol=1e-14).fun)


def two_arms():
    robot = planar(3, base=((-0.5, 0.0), (0.5, 0.0)))
    links = [[robot.tree.body(f"link{arm}_{i}") for i in range(3)] for arm in (0, 1)]
    pairs = [(along_x(a, 0.2), along_x(b, 0.2)) for a in links[0] for b in links[1]]
    return robot, Clearance.spheres(robot, *pairs, radius=0.05, length=0.4, margin=0.02, name="arms")


@pytest.mark.parametrize("gain", [0.2, 1.0])
def test_capsules_of_two_arms_never_penetrate(gain):
    """Each arm is sent to the other side: surfaces stay apart, and margins are nearly kept.

    Where capsules are nearly parallel, their nearest points jump from end to end, and a step misses by its
    relative rotation, some 0.3 rad/s dt, times some 0.2 m.
    """
    pytest.importorskip("scipy")
    robot, clearance = two_arms()
    tasks = [MotionTask.position(robot, f"tip{k}", gain=4.0) for k in (0, 1)]
    ik = DifferentialIK(robot, [*tasks, MotionTask.posture(robot, gain=1.0, weight=1e-3)], [clearance])
    start = np.array([2.0, -0.5, -0.5, 1.14, 0.5, 0.5])
    worst = {}
    for dt in (0.02, 0.005):
        values = {
            "tip0.target": [0.45, 0.5, 0],
            "tip1.target": [-0.4, 0.5, 0],
            "arms.gain": gain,
            "posture.target": start,
        }
        p = ik.pack({**values, "dt": dt})
        q = start
        least = []
        for _ in range(int(3 / dt)):
            u = ik(q, p)
            assert u.status == 0 and (np.abs(u.v) <= 2 + 1e-6).all()
            least.append(u.distances.min())
            q = u.q
        # the distances are exact
        ends = [
            [robot.pose(q, f"link{arm}_{i}") @ np.array([x, 0, 0, 1]) for x in (0.0, 0.4)]
            for arm in (0, 1)
            for i in range(3)
        ]
        exact = [
            between_segments(*(x[:3] for x in (*ends[i], *ends[3 + j]))) - 0.1
            for i in range(3)
            for j in range(3)
        ]
        # least squares end at 1e-7 of a distance
        np.testing.assert_allclose(ik(q, p).distances, exact, atol=1e-6)
        worst[dt] = 0.02 - min(least)
        assert worst[dt] <= 0.06 * dt
        assert min(least) < 0.021  # the arms meet
    # without the clearance they run through each other
    u = ik.reach(start, {**values, "arms.active": 0.0}, 0.02, tasks=["tip0", "tip1"], tolerance=1e-3)
    assert u.reason == "met" and ik(u.q, values).distances.min() < -0.05


def test_what_margins_are_missed_by_is_of_second_order():
    """A tip that slides along a circle from inside: a step along the tangent leaves it by (u dt)^2 / (2 R).

    From outside it gains distance. With gain 1, nothing is left of the step before.
    """
    robot = planar(3)

    def inside(q, p):
        r = robot.pose(q, "tip")[:2, 3] - p.centre
        return p.radius - lb.scalars.sqrt(r @ r)

    circle = Clearance("circle", inside, {"centre": [0.6, 0.2], "radius": 0.4}, gain=1.0)
    ball = Frame("ball", 0, posed(0.6, 0.2))
    outside = Clearance.spheres(robot, ("tip", ball), radius=(0.1, 0.3), gain=1.0, name="ball")
    tip = MotionTask.position(robot, "tip", gain=4.0)
    ik = DifferentialIK(robot, [tip], [circle, outside])
    free = {"ball.active": 0.0, "circle.active": 0.0}
    starts = {"circle": [0.8, -0.06, 0], "ball": [0.9, -0.2, 0]}
    for way, start in starts.items():
        q0 = ik.reach(np.array([-0.5, 0.6, 0.8]), {"tip.target": start, **free}, 0.02).q
        values = {"tip.target": [0.6, 0.7, 0] if way == "circle" else [0.3, 0.5, 0]}
        values |= {"circle.active": float(way == "circle"), "ball.active": float(way == "ball")}
        worst = {}
        for dt in (0.02, 0.005):
            q = q0
            least = []
            p = ik.pack({**values, "dt": dt})
            for _ in range(int(3 / dt)):
                u = ik(q, p)
                at = robot.pose(q, "tip")[:2, 3]
                least.append((1 if way == "circle" else -1) * (0.4 - np.linalg.norm(at - [0.6, 0.2])))
                q = u.q
                assert u.status == 0
            worst[dt] = -min(least[1:])
        if way == "circle":
            assert 1e-6 < worst[0.02] < (1.5 * 0.02) ** 2 / 0.8 and worst[0.005] < worst[0.02] / 8
        else:
            assert worst[0.02] < 1e-6 and min(least) < 1e-3


def test_derivatives_of_distances_are_those_of_the_distances():
    """Rows of the program against differences, for capsules, spheres, an obstacle, a plane and a function."""
    puma = lb.load("puma560")
    names = [body.name for body in puma.tree.bodies]
    ball = Frame("ball", 0, posed(0.3, 0.4, 0.5))
    near = Frame("wrist", 5, posed(0.05, 0.0, 0.1))
    clearances = [
        Clearance.spheres(puma, (near, ball), (names[1], near), radius=0.05, length=(0.2, 0.3)),
        Clearance.spheres(puma, (near, ball), radius=(0.05, 0.2), name="round"),
        Clearance.plane(puma, names[4], [[0, 0, 0.1], [0.1, 0, 0]], radius=0.05, normal=[0.6, 0, 0.8]),
        Clearance(
            "own", lambda q, p: p.far - puma.pose(q, near)[:3, 3] @ puma.pose(q, near)[:3, 3], {"far": 1.0}
        ),
    ]
    ik = DifferentialIK(puma, [MotionTask.posture(puma)], clearances)
    problem = lb.compiler.Kernel(ik.kernel.function.before)
    rng = np.random.default_rng(5)
    p = ik.pack()
    for _ in range(5):
        q = puma.random(rng)
        v = rng.normal(size=6)
        rows = problem(q, p)[5][-len(ik.distances) :]
        s = 1e-3
        d = [ik(puma.integrate(q, s * k * v), p).distances for k in (-2, -1, 1, 2)]
        np.testing.assert_allclose(rows @ v, (d[0] - 8 * d[1] + 8 * d[2] - d[3]) / (12 * s), atol=1e-7)


def test_a_floating_robot_keeps_off_the_ground_and_goes_with_moving_obstacles():
    """A foot that is sent below the ground stops on it; a plane that rises takes the foot with it."""
    biped = lb.Robot(legged("biped"))
    tasks = [MotionTask.position(biped, "left_foot", gain=5.0), MotionTask.pose(biped, "pelvis", weight=10.0)]
    ground = Clearance.plane(biped, "left_foot", offset=-0.55, margin=0.01, name="ground")
    ik = DifferentialIK(biped, tasks, [ground])
    q = biped.integrate(biped.neutral(), np.r_[np.zeros(6), 0, -0.5, 0.9, 0, -0.5, 0.9])
    at = biped.pose(q, "left_foot")[:3, 3]
    values = {"left_foot.target": [at[0], at[1], -1.0], "pelvis.target": biped.pose(q, "pelvis")}
    end = ik.reach(q, {**values, "pelvis.weight": 10.0}, 0.02)
    assert end.reason == "stalled"
    assert biped.pose(end.q, "left_foot")[2, 3] == pytest.approx(-0.54, abs=1e-6)
    # while it rises with 0.1 m/s, the foot does not touch it
    q, offset, dt = end.q, -0.55, 0.01
    for _ in range(40):
        u = ik.step(q, {**values, "ground.offset": offset, "ground.rate": [-0.1]}, dt)
        assert u.distances[0] > 0.01 - 1e-5
        q, offset = u.q, offset + 0.1 * dt
    assert biped.pose(q, "left_foot")[2, 3] == pytest.approx(offset + 0.01, abs=1e-3)
    np.testing.assert_allclose(np.linalg.norm(q[:4]), 1, atol=1e-12)


def test_a_start_within_an_obstacle_comes_out():
    robot = planar(3)
    ball = Frame("ball", 0, posed(0.9, 0.0))
    ik = DifferentialIK(
        robot,
        [MotionTask.posture(robot)],
        [Clearance.spheres(robot, ("tip", ball), radius=(0.05, 0.2), name="ball")],
    )
    q = start = np.array([0.7, -1.0, -0.5])
    u = ik(q)
    assert u.distances[0] < -0.05
    distances = []
    for _ in range(100):
        u = ik.step(q, {"posture.target": [0.0, 0.0, 0.0]}, 0.02)
        distances.append(u.distances[0])
        assert u.status < 2 and (np.abs(u.v) <= 2.0 + 1e-6).all()
        q = u.q
    assert (np.diff(distances) > -1e-4).all() and distances[-1] > -1e-4
    # a posture that would stay comes out at the speed `retreat`; near the margin, half of the way in a step
    q = start
    for retreat in (0.1, 0.3):
        u = ik.step(q, {"posture.target": q, "ball.retreat": retreat}, 1e-3)
        assert (ik(u.q).distances[0] - u.distances[0]) / 1e-3 == pytest.approx(retreat, rel=1e-2)
        u = ik.step(
            q, {"posture.target": q, "ball.retreat": retreat, "ball.margin": u.distances[0] + 1e-4}, 1e-2
        )
        assert (ik(u.q).distances[0] - u.distances[0]) == pytest.approx(0.5e-4, rel=1e-2)


def test_limits_and_exact_margins_hold_from_any_start():
    """Random configurations, within each other and beyond limits; hard tasks that cannot be met.

    Velocities are within their limits; distances above the margin have the rate that they may have.
    """
    robot, clearance = two_arms()
    tasks = [
        MotionTask.pose(robot, "tip0", gain=4.0),
        MotionTask.position(robot, "tip1", gain=4.0, hard=True),
    ]
    ik = DifferentialIK(robot, [*tasks, MotionTask.posture(robot, weight=1e-3)], [clearance])
    rng = np.random.default_rng(12)
    count = 1000
    q = rng.uniform(-3.3, 3.3, (count, 6))
    goals = {
        "tip0.target": robot.pose(rng.uniform(-3, 3, (count, 6)), "tip0"),
        "tip1.target": rng.uniform(-1, 1, (count, 3)) * [1, 1, 0],
    }
    u = ik(q, {**goals, "tip1.weight": rng.integers(0, 2, count).astype(float)})
    assert all(np.isfinite(x).all() for x in u) and (np.abs(u.v) <= 2.0).all()
    solved = u.status < 2
    assert solved.mean() > 0.98
    above = (u.distances >= 0.02) & solved[:, None]
    margins = u.slack[:, ik.rows.index("arms[0]") :]
    assert (u.distances < 0).any() and np.abs(margins[above]).max() < 1e-6
    within = (np.abs(q) <= 3.0) & solved[:, None]
    assert (np.abs(u.q[within]) <= 3.0 + 1e-9).all()


def test_a_hard_task_wins_over_a_soft_one_and_margins_over_both():
    robot = planar(3)
    tip = MotionTask.position(robot, "tip", gain=2.0, hard=True)
    against = MotionTask(
        "against", lambda q, v, p: robot.pose(q, "tip")[:1, 3] - p.x, {"x": -1.0}, weight=5.0
    )
    wall = Clearance.plane(robot, "tip", normal=[-1, 0, 0], offset=-0.9, name="wall")
    ik = DifferentialIK(robot, [against, tip], [wall])
    limits = [f"{word}[{i}]" for word in ("limit", "back") for i in range(3)]
    assert ik.rows == ["tip[0]", "tip[1]", "tip[2]", *limits, "wall[0]"]
    q = np.array([1.2, -0.9, 0.6])
    x = robot.pose(q, "tip")[:3, 3]
    u = ik(q, {"tip.target": x + [-0.1, 0.1, 0]})
    speed = robot.jacobian(q, "tip", "mixed")[3:] @ u.v
    np.testing.assert_allclose(speed, [-0.2, 0.2, 0], atol=2e-5)
    assert u.status == 0
    # beyond the wall: the hard task is missed, and says so; the wall is not passed
    assert ik.reach(q, {"tip.target": [1.05, 0.2, 0]}, 0.02, tasks=["tip"]).reason == "stalled"
    p = ik.pack({"tip.target": [1.05, 0.2, 0], "dt": 0.02})
    for _ in range(300):
        u = ik(q, p)
        assert u.distances[0] > -1e-9
        q = u.q
    assert robot.pose(q, "tip")[0, 3] == pytest.approx(0.9, abs=1e-6)
    assert u.status == 1 and u.slack[0] == pytest.approx(2.0 * 0.15, abs=1e-5)


def test_a_closed_loop_is_a_hard_task():
    """A four-bar: two arms whose tips coincide. The loop stays closed while the crank turns."""
    robot = planar(2, base=((-0.3, 0.0), (0.3, 0.0)))

    def gap(q, v, p):
        return (robot.pose(q, "tip0") - robot.pose(q, "tip1"))[:2, 3]

    loop = MotionTask("loop", gap, gain=20.0, hard=True)
    crank = MotionTask("crank", lambda q, v, p: q[:1] - p.angle, {"angle": 1.2}, gain=2.0)
    ik = DifferentialIK(robot, [loop, crank])
    start = ik.reach([1.0, 0.5, 2.0, -0.4], {"crank.weight": 0.0}, 0.02, tolerance=1e-10)
    assert start.reason == "met"
    q = start.q
    for _ in range(200):
        u = ik.step(q, None, 0.01)
        assert np.abs(u.errors[:2]).max() < 1e-4
        q = u.q
    assert abs(q[0] - 1.2) < 0.03
    J = (robot.jacobian(q, "tip0", "mixed") - robot.jacobian(q, "tip1", "mixed"))[3:5]
    gap_now = (robot.pose(q, "tip0") - robot.pose(q, "tip1"))[:2, 3]
    np.testing.assert_allclose(J @ ik(q).v, -20 * gap_now, atol=1e-5)


def least_distance_program(H, g, G, h):
    """The minimum of x'Hx/2 + g'x with G x >= h, by Lawson and Hanson's least distance programming."""
    from scipy.optimize import nnls

    L = np.linalg.cholesky(H)
    free = -np.linalg.solve(H, g)
    # x = free + L^-T z
    E = np.linalg.solve(L, G.T).T
    f = h - G @ free
    size = np.linalg.norm(E, axis=1)
    E, f = E / size[:, None], f / size
    A = np.vstack([E.T, f])
    u, _ = nnls(A, np.r_[np.zeros(len(H)), 1.0])
    r = A @ u - np.r_[np.zeros(len(H)), 1.0]
    return free + np.linalg.solve(L.T, -r[:-1] / r[-1])


def test_velocities_are_the_minimum_of_an_independent_program():
    """The program put together from the robot's Jacobians in NumPy, solved by another algorithm."""
    pytest.importorskip("scipy")
    robot, clearance = two_arms()
    tasks = [
        MotionTask.pose(robot, "tip0", gain=4.0),
        MotionTask.position(robot, "tip1", gain=[1, 2, 3], weight=[3, 2, 1]),
    ]
    ik = DifferentialIK(robot, [*tasks, MotionTask.posture(robot, weight=0.1)], [clearance])
    rng = np.random.default_rng(7)
    dt = 0.03
    goals = {"tip0.target": posed(0.45, 0.5), "tip1.target": [-0.4, 0.5, 0]}
    met = ik.reach(np.array([2.0, -0.5, -0.5, 1.14, 0.5, 0.5]), goals, dt).q
    active = 0
    for _ in range(40):
        q = met + rng.uniform(-0.05, 0.05, 6)
        pose = SE3.compose(posed(0.45, 0.5), SE3.exp(np.r_[0, 0, rng.normal(), 0, 0, 0]))
        values = {"tip0.target": pose, "tip1.target": [-0.4, 0.5, 0]}
        values |= {"damping": 1e-2, "dt": dt, "limit_gain": 0.3, "posture.levenberg": 0.0}
        u = ik(q, values)
        if u.distances.min() < 0.02:
            continue
        y = SE3.log(np.linalg.inv(pose) @ robot.pose(q, "tip0"))
        x = robot.pose(q, "tip1")[:3, 3] - values["tip1.target"]
        terms = [
            (SE3.dexp_inverse(-y) @ robot.jacobian(q, "tip0"), -4 * y, np.ones(6)),
            (robot.jacobian(q, "tip1", "mixed")[3:], -np.array([1, 2, 3]) * x, np.array([3.0, 2.0, 1.0])),
            (np.eye(6), -(q - 0), np.full(6, 0.1)),
        ]
        mu = 1e-2 + 1e-3 * (y @ y + x @ (np.array([3, 2, 1]) * x))
        H = mu * np.eye(6) + sum(J.T @ (w[:, None] * J) for J, _, w in terms)
        g = -sum(J.T @ (w * b) for J, b, w in terms)
        # distances and their slopes by differences
        s = 1e-4
        slopes = np.stack(
            [
                (ik(q + s * e, values).distances - ik(q - s * e, values).distances) / (2 * s)
                for e in np.eye(6)
            ],
            axis=1,
        )
        G = np.vstack([np.eye(6), -np.eye(6), slopes])
        low = np.maximum(-2.0, 0.3 / dt * (-3.0 - q))
        high = np.minimum(2.0, 0.3 / dt * (3.0 - q))
        h = np.r_[low, -high, -0.5 / dt * (u.distances - 0.02)]
        keep = np.linalg.norm(G, axis=1) > 1e-9
        v = least_distance_program(H, g, G[keep], h[keep])
        np.testing.assert_allclose(u.v, v, atol=2e-5)
        active += np.count_nonzero((G @ v - h)[12:] < 1e-6)
        cost = [z @ H @ z / 2 + g @ z for z in (u.v, v)]
        assert abs(cost[0] - cost[1]) < 1e-6 * max(1, abs(cost[1]))
    assert active > 5


def test_a_batch_is_its_members_and_parameters_switch_without_compiling():
    robot, clearance = two_arms()
    tasks = [MotionTask.position(robot, "tip0"), MotionTask.position(robot, "tip1", hard=True)]
    ik = DifferentialIK(robot, [*tasks, MotionTask.posture(robot, weight=1e-2)], [clearance])
    kernel = ik.kernel
    rng = np.random.default_rng(8)
    q = rng.uniform(-2, 2, (21, 6))
    values = {
        "tip0.target": rng.uniform(-1, 1, (21, 3)) * [1, 1, 0],
        "tip0.weight": rng.integers(0, 2, 21).astype(float),
        "tip1.gain": 10.0 ** rng.uniform(-1, 1, 21),
        "arms.active": rng.integers(0, 2, 21).astype(float),
        "arms.margin": rng.uniform(0, 0.1, 21),
        "dt": 10.0 ** rng.uniform(-3, -1, 21),
        "velocity_limit": rng.uniform(0, 3, (21, 6)),
    }
    many = ik(q, values)
    for k in range(21):
        one = ik(q[k], {name: x[k] for name, x in values.items()})
        np.testing.assert_allclose(one.errors, many.errors[k], atol=1e-12)
        np.testing.assert_allclose(one.distances, many.distances[k], atol=1e-12)
        assert one.status == many.status[k]
        if one.status == 0:
            np.testing.assert_allclose(one.v, many.v[k], atol=1e-5)
    assert ik.kernel is kernel and {0, 1} <= {*many.status.astype(int)}
    # a task of weight 0 pulls at nothing
    u = ik(q[0], {"tip0.weight": 0.0, "tip1.weight": 0.0, "arms.active": 0.0, "posture.target": q[0]})
    np.testing.assert_allclose(u.v, 0, atol=1e-6)


def test_reaching_ends_met_stalled_or_unfinished(arm):
    """Of a batch, the members within reach are met; poses are those of the targets."""
    ik = DifferentialIK(arm, [MotionTask.pose(arm, "tip", gain=10.0), MotionTask.posture(arm, weight=0.0)])
    rng = np.random.default_rng(9)
    near = np.clip(Q + rng.uniform(-0.3, 0.3, (5, 6)), *arm.tree.coordinate_limits)
    target = arm.pose(near, "tip")
    target[4, :3, 3] *= 5.0
    end = ik.reach(Q, {"tip.target": target}, 0.05, tolerance=1e-8)
    assert end.reason.tolist() == ["met"] * 4 + ["stalled"] and end.q.shape == (5, 6)
    np.testing.assert_allclose(arm.pose(end.q[:4], "tip"), target[:4], atol=1e-7)
    assert (end.error[:4] <= 1e-8).all() and end.error[4] > 1
    one = ik.reach(Q, {"tip.target": target[0]}, 0.05, tolerance=1e-8)
    assert one.steps == end.steps[0] and one.reason == "met"
    short = ik.reach(Q, {"tip.target": target[0]}, 0.05, steps=3)
    assert short.reason == "not finished" and short.steps == 3
    # the posture of that end is watched by name
    end = ik.reach(
        Q, {"posture.target": near[0], "tip.weight": 0.0, "posture.weight": 1.0}, tasks=["posture"]
    )
    np.testing.assert_allclose(end.q, near[0], atol=1e-5)


def test_each_limit_acts_alone_and_a_body_without_limits_has_none():
    """An arm that is sent to zero: with one limit the other is passed; a free body goes straight."""
    robot = planar(3)
    q = np.array([0.1, 2.9, -0.2])
    far = {"posture.target": [0.1, 9.9, -0.2], "dt": 0.1}
    for limit, speed in (("velocity", 2.0), ("position", 0.5 * 0.1 / 0.1)):
        ik = DifferentialIK(robot, [MotionTask.posture(robot)], limits=[limit])
        u = ik(q, far)
        np.testing.assert_allclose(u.v, [0, speed, 0], atol=1e-6)
        assert (u.q[1] > 3) == (limit == "velocity")
    still = DifferentialIK(robot, [])(q)
    np.testing.assert_allclose(still.v, 0, atol=1e-9)
    tree = lb.TreeBuilder("body").add("body", Free(), lb.SpatialInertia(1.0, rotational=np.eye(3)))
    body = lb.Robot(tree.build())
    ik = DifferentialIK(body, [MotionTask.pose(body, "body", gain=2.0)])
    assert ik.rows == []
    u = ik(body.neutral(), {"body.target": posed(1.0, 0.5), "body.levenberg": 0.0})
    np.testing.assert_allclose(u.v, [0, 0, 0, 2.0, 1.0, 0], rtol=1e-5, atol=1e-12)
    assert ik.reach(np.tile(body.neutral(), (0, 1))).q.shape == (0, 7)


def test_shapes_of_a_description_are_read():
    text = """<robot name="pair">{}{}{}</robot>""".format(
        '<link name="base"><collision><geometry><sphere radius="0.1"/></geometry></collision></link>',
        '<link name="slide"><inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" '
        'iyz="0"/></inertial><collision><origin xyz="0.5 0 0"/><geometry><sphere radius="0.2"/></geometry>'
        "</collision></link>",
        '<joint name="rail" type="prismatic"><parent link="base"/><child link="slide"/><axis xyz="1 0 0"/>'
        '<limit lower="-1" upper="1" effort="1" velocity="1"/></joint>',
    )
    robot = lb.Robot(lb.io.load_urdf(text))
    clearance = Clearance.of_collisions(robot, ("slide", "base"), margin=0.05)
    ik = DifferentialIK(robot, [MotionTask.posture(robot, gain=3.0)], [clearance])
    assert ik.distances == ["collisions[0]"]
    end = ik.reach([0.3], {"posture.target": [-0.5]}, 0.05)
    # |0.5 + q| - 0.3 = 0.05
    assert end.reason == "stalled" and end.q[0] == pytest.approx(-0.15, abs=1e-6)


def test_limits_of_joints_that_follow_are_those_of_their_leader():
    text = """<robot name="gripper"><link name="base"/>{}</robot>""".format(
        "".join(
            f'<link name="{x}"><inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" '
            f'iyz="0"/></inertial></link><joint name="{x}_joint" type="prismatic"><parent link="base"/>'
            f'<child link="{x}"/><axis xyz="1 0 0"/><limit lower="-1" upper="{upper}" effort="1" '
            f'velocity="{velocity}"/>{mimic}</joint>'
            for x, upper, velocity, mimic in (
                ("left", 1.0, 1.0, ""),
                ("right", 0.6, 0.4, '<mimic joint="left_joint" multiplier="2"/>'),
            )
        )
    )
    robot = lb.Robot(lb.io.load_urdf(text))
    ik = DifferentialIK(robot, [MotionTask.posture(robot, gain=50.0)])
    assert robot.nv == 1 and ik.layout.defaults["velocity_limit"] == pytest.approx(0.2)
    assert ik([0.0], {"posture.target": [1.0]}).v[0] == pytest.approx(0.2, abs=1e-7)
    end = ik.reach([0.0], {"posture.target": [1.0]}, 0.1)
    assert end.q[0] == pytest.approx(0.3, abs=1e-6)


def test_wrong_arguments_are_refused_by_name(arm, reaching):
    posture = MotionTask.posture(arm)
    with pytest.raises(ModelError, match=r"there is no parameter 'tip\.targe'"):
        reaching(Q, {"tip.targe": np.eye(4)})
    with pytest.raises(ShapeError, match=r"q has shape \(5,\)"):
        reaching(np.zeros(5))
    with pytest.raises(ConfigurationError, match=r"q\[0\] is nan"):
        reaching(np.full(6, np.nan))
    with pytest.raises(ModelError, match="parameter dt is 0, expected more than zero"):
        reaching(Q, {"dt": 0.0})
    with pytest.raises(ConfigurationError, match=r"parameter tip\.target\[0, 0\] is nan"):
        reaching.pack({"tip.target": np.full((4, 4), np.nan)})
    with pytest.raises(ModelError, match=r"parameter velocity_limit is nan"):
        reaching.pack({"velocity_limit": np.full(6, np.nan)})
    with pytest.raises(ModelError, match="there is no limit 'effort'"):
        DifferentialIK(arm, [posture], limits=["effort"])
    with pytest.raises(ModelError, match="two tasks or clearances 'posture'"):
        DifferentialIK(arm, [posture, posture])
    with pytest.raises(ModelError, match="'energy' is not linear in v"):
        DifferentialIK(arm, [MotionTask("energy", lambda q, v, p: v @ v)])
    with pytest.raises(ModelError, match="gain of task 'posture' is -1"):
        MotionTask.posture(arm, gain=-1.0)
    with pytest.raises(ModelError, match="parameter 'gain', which each task has"):
        MotionTask("own", lambda q, v, p: q, {"gain": 1.0})
    with pytest.raises(ModelError, match="parameter 'margin', which each clearance has"):
        Clearance("own", lambda q, p: q, {"margin": 1.0})
    with pytest.raises(ModelError, match="gain of clearance 'own' is 2, expected above 0 and at most 1"):
        Clearance("own", lambda q, p: q, gain=2.0)
    with pytest.raises(ModelError, match=r"takes \(q\), expected \(q, p\)"):
        DifferentialIK(arm, [posture], [Clearance("own", lambda q: q)])
    with pytest.raises(ShapeError, match="clearance 'own' has shape"):
        DifferentialIK(arm, [posture], [Clearance("own", lambda q, p: np.ones((2, 2)) * q[0])])
    with pytest.raises(ModelError, match="belong to one body"):
        Clearance.spheres(arm, ("tip", arm.tree.bodies[-1].name), radius=0.1)
    with pytest.raises(ModelError, match="normal has the length 2"):
        Clearance.plane(arm, "tip", normal=[0, 0, 2])
    with pytest.raises(ModelError, match="there is no task 'elbow'"):
        reaching.reach(Q, tasks=["elbow"])
    with pytest.raises(ModelError, match="no shapes for collisions"):
        Clearance.of_collisions(arm, ("link1", "link4"))
    free = arm.with_parameters("link2.mass")
    with pytest.raises(ModelError, match=r"link2\.mass is -1\.0 kg, expected a positive mass"):
        DifferentialIK(free, [MotionTask.posture(free)])(Q, {"link2.mass": -1.0})
    with pytest.raises(ModelError, match=r"'size', which is a free parameter of .*; rename it"):
        own = arm.with_parameters({"size": 1.0})
        DifferentialIK(own, [MotionTask.posture(own)], [Clearance("own", lambda q, p: q, {"size": 1.0})])


@pytest.mark.parametrize("again", [lambda ik: ik, lambda ik: pickle.loads(pickle.dumps(ik))])
def test_a_free_length_is_a_parameter_of_the_call(again):
    """Errors, distances and velocities of an arm of two links by the formula; a length for each member."""
    robot = planar(2).with_parameters("link0_1.position")
    ball = Frame("ball", 0, posed(0.0, 1.0))
    clearances = [
        Clearance.plane(robot, "tip", normal=[0.0, 1.0, 0.0], offset=-3.0),
        Clearance.spheres(robot, ("tip", ball), radius=(0.05, 0.2)),
    ]
    ik = again(DifferentialIK(robot, [MotionTask.position(robot, "tip", gain=5.0)], clearances, limits=()))
    q, target = np.array([0.4, -0.9]), np.array([0.7, 0.1, 0.0])
    lengths = np.array([0.3, 0.4, 0.6])
    positions = lengths[:, None] * [1.0, 0.0, 0.0]
    u = ik(q, {"link0_1.position": positions, "tip.target": target, **BARE})
    whole = q[0] + q[1]
    for length, v, error, distance, status in zip(lengths, u.v, u.errors, u.distances, u.status, strict=True):
        tip = length * np.array([np.cos(q[0]), np.sin(q[0])]) + 0.4 * np.array([np.cos(whole), np.sin(whole)])
        second = 0.4 * np.array([-np.sin(whole), np.cos(whole)])
        J = np.array([length * np.array([-np.sin(q[0]), np.cos(q[0])]) + second, second]).T
        np.testing.assert_allclose(error, [*(tip - target[:2]), 0], atol=1e-12)
        away = np.hypot(tip[0], tip[1] - 1.0)
        np.testing.assert_allclose(distance, [tip[1] + 3.0, away - 0.25], atol=1e-12)
        np.testing.assert_allclose(v, -5 * np.linalg.solve(J, tip - target[:2]), rtol=1e-6)
        assert status == 0


@pytest.mark.parametrize("again", [copy.deepcopy, lambda ik: pickle.loads(pickle.dumps(ik))])
def test_clearances_of_all_kinds_can_be_pickled_before_and_after_calls(again):
    robot = planar(2)
    first, second = (along_x(body, 0.2) for body in robot.tree.bodies)
    kinds = [
        Clearance.plane(robot, "tip", radius=0.01, normal=[0.0, 1.0, 0.0], offset=-0.5),
        Clearance.spheres(robot, (first, second), radius=0.03, length=0.1),
    ]
    tasks = [MotionTask.posture(robot, gain=1.0)]
    q = np.array([0.4, -0.7])
    expected = DifferentialIK(robot, tasks, kinds)(q)
    assert expected.distances.shape == (2,)
    before = again(DifferentialIK(robot, tasks, kinds))
    for ik in (before, again(before), DifferentialIK(robot, tasks, [again(x) for x in kinds])):
        for x, y in zip(ik(q), expected, strict=True):
            np.testing.assert_array_equal(x, y)
