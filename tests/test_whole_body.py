"""Whole-body control: laws of mechanics in every command, exact tasks, optimality, and what gives way."""

import copy
import pickle
import re
import shutil
import subprocess
from types import SimpleNamespace

import numpy as np
import pytest
from controllers_in_c import ControllerInC
from legged import legged

import liebody as lb
from liebody.base.errors import ArgumentError, ConfigurationError, IntegrationError, ModelError, ShapeError
from liebody.compiler import Kernel
from liebody.control import DifferentialIK, MotionTask, Support, WholeBody
from liebody.groups import SE3, SO3, Free, Prismatic

FEET = ("left_foot", "right_foot")
POSE = np.array([0.1, 0.4, -0.8, -0.1, 0.4, -0.8])
STRAIGHT = np.arctan2(0.02, 0.28)  # the knee of a leg whose hip, knee and foot are on one line
FREE = {"velocity_limit": np.full(6, 1e6), "low": np.full(6, -1e6), "high": np.full(6, 1e6)}
EXACT = {"acceleration_weight": 1e-10, "force_weight": 1e-10}


@pytest.fixture(scope="module")
def biped():
    return lb.Robot(legged("biped"))


@pytest.fixture(scope="module")
def walking(biped):
    """A controller with soles of four coplanar points on the left, and a point on the right."""
    tasks = [
        MotionTask.pose(biped, "pelvis", kp=100.0, weight=10.0),
        MotionTask.posture(biped, kp=50.0, weight=0.5),
        MotionTask("lift", lambda q, v, p: biped.pose(q, "right_foot")[2:3, 3] - p.z, {"z": 0.0}, kp=20.0),
    ]
    return WholeBody(biped, tasks, [Support.sole("left_foot", 0.2, 0.1), Support("right_foot", facets=8)])


def on_points(biped, whole=False, **options):
    """A controller on two points, each at the end of three joints, with options of `WholeBody`.

    whole  whether its program has all unknowns from the start, for which a hard task without weight will do
    """
    tasks = [
        MotionTask.pose(biped, "pelvis", kp=100.0, weight=10.0),
        MotionTask.posture(biped, kp=50.0, weight=0.5),
    ]
    if whole:
        tasks.append(MotionTask("none", lambda q, v, p: q[7:8], weight=0.0, hard=True))
    return WholeBody(biped, tasks, [Support("left_foot"), Support("right_foot", facets=8)], **options)


@pytest.fixture(scope="module")
def stepping(biped):
    return on_points(biped)


@pytest.fixture(scope="module")
def arm():
    return lb.load("puma560")


@pytest.fixture(scope="module")
def reaching(arm):
    """A controller of an arm with a task of each kind, all switched off by default."""
    tip = arm.tree.bodies[-1].name
    upper = arm.tree.bodies[4].name
    tasks = [
        MotionTask.pose(arm, tip, kp=3.0, weight=0.0),
        MotionTask.orientation(arm, arm.tree.bodies[3].name, kp=3.0, weight=0.0),
        MotionTask.position(arm, upper, kp=3.0, kd=0.5, weight=0.0),
        MotionTask.center_of_mass(arm, kp=3.0, weight=0.0),
        MotionTask.momentum(arm, kp=3.0, weight=0.0),
        MotionTask.posture(arm, kp=[1, 2, 3, 4, 5, 6], weight=0.0),
        MotionTask(
            "own", lambda q, v, p: np.array([q[0] * q[1] - p.x, np.sin(q[2])]), {"x": 0.2}, weight=0.0
        ),
    ]
    return WholeBody(arm, tasks, limits=())


def state_of(robot, rng, size=0.2):
    q = robot.neutral()
    q[7:] = POSE
    return robot.integrate(q, size * rng.normal(size=robot.nv)), size * rng.normal(size=robot.nv)


def jacobian_of_points(robot, q, support):
    """(3 points, nv) in the world."""
    J = robot.jacobian(q, support.frame)
    R = robot.pose(q, support.frame)[:3, :3]
    return np.concatenate([R @ (J[3:] - SO3.hat(r) @ J[:3]) for r in support.points])


def laws(wb, q, v, u, active=(1, 1), friction=0.7):
    """Equations of motion, cones, zeros: in each command, whatever gives way."""
    robot = wb.robot
    force = u.f.ravel()
    J = np.concatenate([jacobian_of_points(robot, q, support) for support in wb.supports])
    M, h = robot.mass_matrix(q), robot.bias(q, v, damping=True)
    size = np.abs(h).max() + np.abs(u.tau).max() + np.abs(force).max()
    np.testing.assert_allclose(M @ u.a + h, u.tau + J.T @ force, atol=1e-9 * size)
    assert not u.tau[wb.passive].any()
    normal = u.f[:, 2]
    assert (np.hypot(u.f[:, 0], u.f[:, 1]) <= friction * normal * (1 + 1e-6) + 1e-6 * size).all()
    assert (normal >= -1e-7 * size).all()
    first = 0
    for support, on in zip(wb.supports, active, strict=True):
        if not on:
            assert not u.f[first : first + len(support.points)].any()
        first += len(support.points)


def test_standing_still_forces_carry_the_weight_and_efforts_are_those_of_statics(biped, walking):
    q = biped.neutral()
    q[7:] = POSE
    # the pelvis is turned and moved at will: only gravity and the frames matter
    q = biped.integrate(q, np.r_[0, 0, 0.3, 1.0, 2.0, 0.5, np.zeros(6)])
    v = np.zeros(biped.nv)
    foot = biped.pose(q, "right_foot")
    values = {"pelvis.target": biped.pose(q, "pelvis"), "posture.target": q[7:], "lift.z": foot[2, 3], **FREE}
    u = walking(q, v, {**values, "left_foot.friction": 2.0, "right_foot.friction": 2.0})
    # At rest with upright forces the tasks cost nothing. These forces, as multiples x >= 0 of the mass with
    # the sum g, cost force_weight x^2/2 <= 1e-4 g^2/2. The minimum is not above, so w s^2 <= 1e-4 g^2 for the
    # slack s of hard rows, with w = 1e6 times the largest weight 10.
    assert u.status == 0 and np.abs(u.slack).max() < 9.81 * np.sqrt(1e-4 / 1e7)
    assert np.abs(u.a).max() < 0.05  # small costs of forces pull a little
    weight = np.array([0, 0, biped.mass * 9.81])
    rate = biped.centroidal_momentum_rate(q, v, u.a)[3:]
    np.testing.assert_allclose(u.f.sum(axis=0), weight + rate, atol=1e-8)
    laws(walking, q, v, u, friction=2.0)


def scarce(rng, count):
    """Random values of parameters for so many calls: supports off, without friction, efforts too small."""
    active = rng.integers(0, 2, (2, count))
    friction = rng.choice([0.0, 0.3, 1.0], count)
    return {
        "left_foot.active": active[0],
        "right_foot.active": active[1],
        "left_foot.friction": friction,
        "right_foot.friction": friction,
        "effort_limit": 10.0 ** rng.uniform(-2, 2, (count, 6)),
        "posture.target": POSE + rng.normal(size=(count, 6)),
    }


def test_the_laws_hold_in_all_commands_also_with_slack(biped, walking):
    """Random states and parameters, with efforts too small for the motion, friction of nought, no support."""
    rng = np.random.default_rng(1)
    count = 64
    states = [state_of(biped, rng) for _ in range(count)]
    q, v = (np.array(x) for x in zip(*states, strict=True))
    values = scarce(rng, count)
    active = np.stack([values["left_foot.active"], values["right_foot.active"]])
    friction = values["left_foot.friction"]
    effort = values["effort_limit"]
    many = walking(q, v, values)
    for x in many:
        assert np.isfinite(x).all()
    for k in range(count):
        u = type(many)(*(x[k] for x in many))
        laws(walking, q[k], v[k], u, active[:, k], friction[k])
        assert (np.abs(u.tau[6:]) <= effort[k] * (1 + 1e-6) + 1e-6 * np.abs(u.tau).max()).all()
        if not friction[k]:
            assert not u.f[:, :2].any()
        assert (u.status == 1) == (u.status < 2 and np.abs(u.slack).max() > 1e-3)
    assert {0, 1} <= {*many.status.astype(int)} and (many.status < 2).mean() > 0.9
    # a single call is a lane
    one = walking(q[5], v[5], {name: x[5] for name, x in values.items()})
    for x, y in zip(one, many, strict=True):
        np.testing.assert_allclose(x, y[5], atol=2e-5 * max(1, np.abs(x).max()))


def test_without_the_accelerations_of_legs_commands_are_those_of_the_whole_program(biped, stepping):
    """States near and far from straight legs; supports and friction on and off; limits that contradict.

    The program of forces alone is tried first. Where it fails, the whole one takes over in the same call.
    """
    whole = on_points(biped, whole=True)
    assert stepping.kernel.function.unknowns == 6 and whole.kernel.function.unknowns == 12
    rng = np.random.default_rng(6)
    count = 96
    q, v = (np.array(x) for x in zip(*(state_of(biped, rng) for _ in range(count)), strict=True))
    q[::8, 9] = STRAIGHT + 10.0 ** rng.uniform(-9, -1, len(q[::8]))
    q[0, 9] = STRAIGHT
    values = {**scarce(rng, count), "acceleration_weight": 1e-2, "force_weight": 1e-2}
    for foot in ("left_foot", "right_foot"):
        values[f"{foot}.active"][0] = 1
    active = np.stack([values["left_foot.active"], values["right_foot.active"]])
    friction = values["left_foot.friction"]
    effort = values["effort_limit"]
    v[::2] = 0
    many, others = stepping(q, v, values), whole(q, v, values)
    for u in (many, others):
        assert (u.status < 2).all()
    # Supports that are on have some slack in the whole program, and none in that of forces alone.
    on = active.any(axis=0)
    slipped = many.slack[:, :6].any(axis=1)
    assert 0.1 < slipped.mean() < 0.5 and {0, 1} <= {*many.status[slipped].astype(int)} and slipped[0]
    assert (many.status[on & ~slipped] == 0).all()
    for k in range(count):
        u = type(many)(*(x[k] for x in many))
        laws(stepping, q[k], v[k], u, active[:, k], friction[k])
        assert (np.abs(u.tau[6:]) <= effort[k] * (1 + 1e-6) + 1e-6 * np.abs(u.tau).max()).all()
    # What differs is caused by slack s of the whole program: the support does not move at all, or by s.
    slack = np.abs(others.slack).max(axis=1)
    for x, y in ((many.tau, others.tau), (many.a, others.a), (many.f.sum(axis=1), others.f.sum(axis=1))):
        difference = np.abs(x - y).max(axis=1) / (1 + np.abs(y).max(axis=1))
        assert (difference <= slack + 1e-5).all()
    # Points that carry do not accelerate. At rest that is J a = 0.
    for k in np.flatnonzero(on & ~slipped):
        for support, on in zip(stepping.supports, active[:, k], strict=True):
            if on and not v[k].any():
                J = jacobian_of_points(biped, q[k], support)
                np.testing.assert_allclose(J @ many.a[k], 0, atol=1e-11 * (1 + np.abs(many.a[k]).max()))
    # a single call is a lane
    for k in (0, 1, np.flatnonzero(slipped)[-1]):
        one = stepping(
            q[k], v[k], {name: np.broadcast_to(x, (count, *np.shape(x)[1:]))[k] for name, x in values.items()}
        )
        for x, y in zip(one, many, strict=True):
            np.testing.assert_allclose(x, y[k], atol=2e-5 * max(1, np.abs(x).max()))


def certified(H, g, rows, low, high, x):
    """Check the conditions of a minimum of x'Hx/2 + g'x within low <= rows x <= high at x."""
    size = 1 + np.abs(rows) @ np.abs(x)
    at_low = rows @ x - low < 1e-6 * size
    at_high = high - rows @ x < 1e-6 * size
    active = at_low | at_high
    assert (rows @ x > low - 1e-6 * size).all() and (rows @ x < high + 1e-6 * size).all()
    # multipliers of the active rows, the smallest ones where they are redundant, of the right sign
    import scipy.optimize

    signs = np.where(at_low, 1.0, -1.0)[active]
    gradient = H @ x + g
    _, rest = scipy.optimize.nnls((rows[active] * signs[:, None]).T, gradient)
    terms = np.abs(H) @ np.abs(x) + np.abs(g)
    # a gap of 1e-9 of a cost w s^2 / 2 leaves 1e-9^(1/2) of its gradient w s
    assert rest < 3e-5 * terms.max(), rest / terms.max()
    return active.sum()


@pytest.mark.parametrize("friction, limit", [(0.7, 100.0), (0.1, 100.0), (0.7, 6.0)])
def test_the_command_is_the_minimum_of_the_whole_program(biped, walking, friction, limit):
    """The program of a, tau and f, put together from the robot's own terms; its conditions of a minimum.

    At rest, so that nothing depends on rates of Jacobians; tests of tasks are about these.
    """
    pytest.importorskip("scipy")
    rng = np.random.default_rng(2)
    q, _ = state_of(biped, rng, 0.1)
    v = np.zeros(biped.nv)
    target = biped.pose(biped.integrate(q, np.r_[0.1, 0.2, -0.1, 0.3, 0.1, 0.2, np.zeros(6)]), "pelvis")
    values = {"pelvis.target": target, "posture.target": POSE, **FREE, "effort_limit": np.full(6, limit)}
    weights = {"acceleration_weight": 1e-3, "force_weight": 1e-2, "left_foot.active": 0.0}
    names = {f"{foot}.friction": friction for foot in FEET}
    u = walking(q, v, {**values, **weights, **names})
    assert u.status < 2
    # unknowns (a, f / mass) of all joints and of the point; equations of motion of the base are equalities
    support = walking.supports[1]
    J = jacobian_of_points(biped, q, support)
    m = float(biped.mass)
    n = biped.nv + 3
    e = SE3.log(np.linalg.inv(target) @ biped.pose(q, "pelvis"))
    height = biped.pose(q, "right_foot")[2, 3]
    pieces = [
        (SE3.dexp_inverse(-e) @ biped.jacobian(q, "pelvis"), -100 * e, 10.0),
        (np.eye(biped.nv)[6:], -50 * (q[7:] - POSE), 0.5),
        (J[2:], -20 * np.array([height]), 1.0),
        (J, np.zeros(3), 1e6 * 10.0),  # hard: 1e6 times the largest weight
        (np.eye(biped.nv)[6:], np.zeros(6), 1e-3),
    ]
    H = np.zeros((n, n))
    g = np.zeros(n)
    for rows, b, weight in pieces:
        rows = np.hstack([rows, np.zeros((len(rows), 3))])
        H += weight * rows.T @ rows
        g -= weight * rows.T @ b
    # forces count as multiples of friction in the cone, as unknowns do
    H[biped.nv :, biped.nv :] += 1e-2 * np.diag([1 / friction**2, 1 / friction**2, 1])
    efforts = np.hstack([biped.mass_matrix(q), -m * J.T])
    h = biped.bias(q, v)
    low = np.r_[np.zeros(6), np.full(6, -limit)] - h
    high = np.r_[np.zeros(6), np.full(6, limit)] - h
    angles = (np.arange(8) + 0.5) * np.pi / 4
    cone = np.zeros((8, n))
    cone[:, biped.nv :] = np.stack(
        [np.cos(angles), np.sin(angles), np.full(8, -friction * np.cos(np.pi / 8))], axis=1
    )
    rows = np.concatenate([efforts, cone])
    x = np.concatenate([u.a, u.f[-1] / m])
    active = certified(H, g, rows, np.r_[low, np.full(8, -np.inf)], np.r_[high, np.zeros(8)], x)
    if limit < 10 or friction < 0.5:
        assert active > 6  # more than the equalities: a limit or the cone takes part


def exact_minimum(data, start):
    """x of a program whose inequalities have no slack, by active sets, and the numbers of active rows.

    Starting with rows that are met with equality at `start`, solve the equations of the active rows; drop one
    whose multiplier has the wrong sign, add one that is violated. Where neither is left, the conditions of
    the minimum of a convex program hold to round-off.
    """
    H, g, A, b, weight, C, low, high, weight_c, _ = data
    assert ((weight_c == 0) | (weight_c > 1e29)).all()
    lower = (weight_c > 0) & (low > -1e20)
    upper = (weight_c > 0) & (high < 1e20)
    rows = np.concatenate([C[lower], -C[upper]])
    ends = np.concatenate([low[lower], -high[upper]])
    size = np.abs(rows).max(axis=1)
    rows, ends = rows / size[:, None], ends / size
    H = H + (A.T * weight) @ A
    g = g - A.T @ (weight * b)
    n = len(g)
    unit = np.abs(start).max()
    active = [*np.flatnonzero(rows @ start - ends < 1e-7 * unit)]
    for _ in range(50):
        a = rows[active]
        matrix = np.block([[H, -a.T], [a, np.zeros((len(a), len(a)))]])
        solution = np.linalg.lstsq(matrix, np.r_[-g, ends[active]], rcond=1e-15)[0]
        x, z = solution[:n], solution[n:]
        distances = rows @ x - ends
        if len(z) and z.min() < -1e-10 * np.abs(g).max():
            active.pop(int(z.argmin()))
        elif distances.min() < -1e-12 * unit:
            active.append(int(distances.argmin()))
        else:
            assert np.abs(H @ x + g - a.T @ z).max() < 1e-10 * np.abs(g).max()
            return x, active
    raise AssertionError("active sets repeat")


def test_a_small_tolerance_gives_efforts_the_digits_that_the_cost_of_forces_decides(biped):
    """Efforts of two feet that press against each other, beside the exact minimum of the same program."""
    rng = np.random.default_rng(7)
    q, v = (np.array(x) for x in zip(*(state_of(biped, rng, 0.1) for _ in range(64)), strict=True))
    standing = biped.neutral()
    standing[7:] = POSE
    values = {"pelvis.target": biped.pose(standing, "pelvis"), "posture.target": POSE}
    values |= {"force_weight": 1e-2, "effort_limit": np.full(6, 12.0)}
    apart = {}
    sizes = []
    for tolerance in (1e-9, 1e-13):
        wb = on_points(biped, limits=["effort"], tolerance=tolerance)
        u = wb(q, v, values)
        assert not u.status.any() and not u.slack.any() and (u.gap <= tolerance).all()
        solver = wb.kernel.function
        *data, _, efforts, _ = Kernel(solver.before)(q, v, wb.pack(values))
        apart[tolerance] = np.zeros(len(q))
        for k in range(len(q)):
            numbers = [np.asarray(x)[k] for x in data]
            x, active = exact_minimum(numbers, solver.minimum(numbers).x)
            tau = efforts[k, :, :-1] @ x + efforts[k, :, -1]
            apart[tolerance][k] = np.abs(tau - u.tau[k, 6:]).max()
            sizes.append(len(active))
    assert {0, 1, 2} <= {*sizes}
    assert apart[1e-9].max() > 1e-3  # N m
    # Where a row nearly presses, z and t are both small, and the error is the root of their product.
    assert np.median(apart[1e-13]) < 1e-9 and np.quantile(apart[1e-13], 0.95) < 1e-6
    assert apart[1e-13].max() < 1e-5


def test_a_tolerance_below_round_off_ends_with_the_best_point(biped):
    """No status 2, and no second program where the first one is solved as well as by default."""
    rng = np.random.default_rng(8)
    q, v = (np.array(x) for x in zip(*(state_of(biped, rng, 0.1) for _ in range(200)), strict=True))
    values = {"posture.target": POSE, "force_weight": 1e-2}
    by_default = on_points(biped)(q, v, values)
    u = on_points(biped, tolerance=1e-17)(q, v, values)
    assert all(np.isfinite(x).all() for x in u)
    assert (u.iterations > by_default.iterations).all() and u.gap.max() < 1e-9
    np.testing.assert_array_equal(u.status, by_default.status)
    np.testing.assert_array_equal(u.slack.any(axis=1), by_default.slack.any(axis=1))
    with pytest.raises(IntegrationError, match=r"tolerance is 0\.0, expected a positive number"):
        on_points(biped, tolerance=0.0)


def test_each_kind_of_task_alone_has_exactly_its_acceleration(arm, reaching):
    """y along q exp(s v + s^2 a / 2), differentiated by differences, obeys the equation of the task."""
    rng = np.random.default_rng(3)
    q = np.array([0.3, -0.8, 0.6, 0.4, 0.9, -0.5])  # far from singular positions
    v = rng.normal(size=arm.nv)
    near = arm.integrate(q, 0.3 * rng.normal(size=arm.nv))
    names = [task.task.name for task in reaching.tasks]
    tip, middle, upper = names[:3]
    targets = {
        tip: arm.pose(near, tip),
        middle: arm.pose(near, middle)[:3, :3],
        upper: arm.pose(near, upper)[:3, 3],
        "center_of_mass": arm.center_of_mass(near),
        "momentum": rng.normal(size=6),
        "posture": near,
    }
    values = {
        tip: lambda q, v: SE3.log(np.linalg.inv(targets[tip]) @ arm.pose(q, tip)),
        middle: lambda q, v: SO3.log(targets[middle].T @ arm.pose(q, middle)[:3, :3]),
        upper: lambda q, v: arm.pose(q, upper)[:3, 3] - targets[upper],
        "center_of_mass": lambda q, v: arm.center_of_mass(q) - targets["center_of_mass"],
        "momentum": lambda q, v: arm.centroidal_momentum(q, v) - targets["momentum"],
        "posture": lambda q, v: q - near,
        "own": lambda q, v: np.array([q[0] * q[1] - 0.2, np.sin(q[2])]),
    }
    for task in reaching.tasks:
        name = task.task.name
        k = task.size
        rate, acceleration = rng.normal(size=(2, k))
        if name == "momentum":  # its six rows nearly depend on each other: ask for what some a gives
            reachable = arm.centroidal_momentum_rate(q, v, rng.normal(size=arm.nv))
            rate = reachable + 3.0 * values[name](q, v)
        given = {
            f"{name}.weight": 1.0,
            f"{name}.rate": rate,
            f"{name}.acceleration": acceleration,
            "acceleration_weight": 1e-13,
        }
        given |= {f"{x}.target": target for x, target in targets.items()}
        u = reaching(q, v, given)
        h = 2e-3
        y = [
            values[name](arm.integrate(q, s * v + s * s / 2 * u.a), v + s * u.a) for s in h * np.arange(-2, 3)
        ]
        first = (y[0] - 8 * y[1] + 8 * y[3] - y[4]) / (12 * h)
        second = (-y[0] + 16 * y[1] - 30 * y[2] + 16 * y[3] - y[4]) / (12 * h * h)
        kp = task.task.gains["kp"]
        kd = task.task.gains["kd"]
        assert task.second == (name != "momentum")
        if task.second:
            wanted = acceleration - kd * (first - rate) - kp * y[2]
            np.testing.assert_allclose(second, wanted, atol=2e-6 * (1 + np.abs(wanted).max()))
        else:
            wanted = rate - kp * y[2]
            np.testing.assert_allclose(first, wanted, atol=2e-6 * (1 + np.abs(wanted).max()))
        np.testing.assert_allclose(u.tau, arm.inverse_dynamics(q, v, u.a, damping=True), rtol=1e-9, atol=1e-9)


def test_hard_tasks_come_before_others_and_efforts_before_both():
    """Two masses on slides: the hard task of the first has what it asks for until the limit of efforts."""
    tree = lb.TreeBuilder("slides")
    for name, axis in (("x", [1, 0, 0]), ("y", [0, 1, 0])):
        tree.add(name, Prismatic(axis), lb.SpatialInertia.point(2.0))
    robot = lb.Robot(tree.build())
    tasks = [
        MotionTask("first", lambda q, v, p: q[:1] - p.x, {"x": 1.0}, kp=1.0, hard=True),
        MotionTask("other", lambda q, v, p: q[:1] - p.x, {"x": -1.0}, kp=1.0, weight=100.0),
        MotionTask("second", lambda q, v, p: q[1:], kp=1.0),
    ]
    wb = WholeBody(robot, tasks, limits=["effort"])
    q = np.array([0.0, 3.0])
    u = wb(q, np.zeros(2), EXACT)
    np.testing.assert_allclose(u.a, [1.0, -3.0], atol=1e-5)
    np.testing.assert_allclose(u.tau, [2.0, -6.0], atol=1e-5)  # gravity is along z
    assert u.status == 0 and wb.rows == ["first[0]"]
    u = wb(q, np.zeros(2), {**EXACT, "effort_limit": [0.5, 100.0]})
    # The hard task weighs 1e6 times 100 and misses 3/4, so that its multiplier is y = 7.5e7. The gap is
    # relative to |b y| + |limit y| = (1 + 1/4) y and what is small beside it. At worst all of it is the
    # product z t at the other joint, whose distance from its limit is t = (100 - 6)/2 in units of a; z moves
    # a by as much.
    y = 1e6 * 100 * 0.75
    z = u.gap * 1.25 * y / ((100 - 6) / 2)
    assert u.gap <= 1e-9
    np.testing.assert_allclose(u.tau, [0.5, -6.0], atol=2 * z)
    assert u.tau[0] <= 0.5 + 1e-7
    assert u.status == 1
    np.testing.assert_allclose(u.slack, [1.0 - 0.25], atol=1e-6)
    # two tasks of equal rank: the mean by their weights
    u = wb(q, np.zeros(2), {**EXACT, "first.weight": 0.0, "other.weight": 1.0, "second.weight": 0.0})
    np.testing.assert_allclose(u.a[0], -1.0, atol=1e-6)


def test_a_joint_driven_against_its_limits_stops_before_them():
    """A slide is asked to go beyond: it brakes in time, and is never faster than it may be."""
    robot = lb.Robot(
        lb.TreeBuilder("slide").add("x", Prismatic([1, 0, 0]), lb.SpatialInertia.point(2.0)).build()
    )
    h = 0.01
    wb = WholeBody(robot, [MotionTask("go", lambda q, v, p: q - 5.0, kp=40.0)], horizon=h)
    limits = {"low": [-1.0], "high": [1.0], "velocity_limit": [3.0], "braking": [20.0]}
    p = wb.pack({**limits, "effort_limit": [50.0]})
    q, v = np.array([-0.9]), np.array([0.0])
    positions = []
    speeds = []
    most = 0.0
    for _ in range(200):
        u = wb(q, v, p)
        assert u.status == 0 and abs(u.tau[0]) <= 50.0
        most = max(most, abs(-40 * (q[0] - 5.0) - 2 * np.sqrt(40) * v[0] - u.a[0]) + 1e-4 * abs(u.a[0]))
        q = q + h * v + h * h / 2 * u.a
        v = v + h * u.a
        positions.append(q[0])
        speeds.append(v[0])
    # The limit gives way by s = y / 1e6, with y the pull of the task, of weight 1, and of the cost of a; and
    # by 1e-9 of |a| <= 25, the tolerance of rows. After a horizon the speed is beyond by s h. The position
    # is beyond by s h^2/2, and by w s h/d until rest, where w <= d h is the speed in the last period.
    s = most / 1e6 + 25e-9
    assert max(speeds) <= 3.0 + s * h and max(speeds) > 2.9
    assert max(positions) <= 1.0 + 1.5 * s * h * h and positions[-1] > 0.99
    assert abs(speeds[-1]) < 0.05
    # without that limit it goes on
    free = WholeBody(robot, [MotionTask("go", lambda q, v, p: q - 5.0, kp=40.0)], limits=["effort"])
    assert free(q, v).a[0] > 100


def test_joints_without_a_drive_have_no_effort(arm):
    """An arm whose third joint is free: the posture of the others is exact, and it falls as it must."""
    joints = [body.joint.name for body in arm.tree.bodies]
    driven = joints[:2] + joints[3:]
    kept = [0, 1, 3, 4, 5]
    task = MotionTask("posture", lambda q, v, p: q[kept] - p.target, {"target": np.zeros(5)}, kp=30.0)
    wb = WholeBody(arm, [task], limits=(), actuated=driven)
    rng = np.random.default_rng(4)
    q, v = rng.normal(size=(2, 6))
    u = wb(q, v, EXACT)
    assert u.tau[2] == 0
    np.testing.assert_allclose(u.a[kept], (-30 * q - 2 * np.sqrt(30) * v)[kept], rtol=1e-7)
    np.testing.assert_allclose(arm.inverse_dynamics(q, v, u.a, damping=True), u.tau, atol=1e-9)


def test_straight_legs_and_four_coplanar_points_have_an_answer(biped, walking):
    """J of a straight leg has no full rank: forces and efforts stay moderate, and laws hold."""
    q = biped.neutral()
    v = np.zeros(biped.nv)
    values = {"pelvis.target": biped.pose(q, "pelvis"), "posture.target": np.zeros(6), **FREE}
    down = values["pelvis.target"].copy()
    down[2, 3] -= 0.05
    for target in (values["pelvis.target"], down):
        u = walking(q, v, {**values, "pelvis.target": target})
        laws(walking, q, v, u)
        assert u.status == 0
        assert np.abs(u.tau).max() < 30 and np.abs(u.f).max() < 3 * 9.81 * biped.mass


def relative_change(results, expected):
    """Of efforts, accelerations and forces, by the largest entry of each."""
    parts = zip(results[:3], expected[:3], strict=True)
    return max(np.abs(x - y).max() / max(1, np.abs(y).max()) for x, y in parts)


@pytest.mark.parametrize("name", ["walking", "stepping"])
def test_the_controller_as_c99_compiles_without_warnings_and_has_the_same_numbers(
    name, biped, request, tmp_path
):
    """Its self-test compares it with NumPy; here it is compared with the call from Python."""
    wb = request.getfixturevalue(name)
    paths = wb.export_c(tmp_path, {"posture.target": POSE})
    assert [x.name for x in paths] == ["biped.c", "biped.h", "biped_test.c", "CMakeLists.txt"]
    in_c = ControllerInC(paths, tmp_path, "-Wfloat-equal")
    assert "3 comparisons" in in_c.printed
    rng = np.random.default_rng(5)
    p = wb.pack({"acceleration_weight": 1.0, "force_weight": 1.0, "effort_limit": np.full(6, 20.0)})

    for is_straight in (False, False, True):
        q, v = state_of(biped, rng)
        if is_straight:  # a leg that is not eliminated
            q[9] = STRAIGHT
        expected = wb(q, v, p)
        if name == "stepping":
            assert expected.slack.any() == is_straight
        for x, y in zip(in_c((q, v, p), expected), expected, strict=True):
            np.testing.assert_allclose(x, y, atol=1e-8 * max(1, np.abs(y).max()))
    # C and Python add up in different orders. That changes commands by as much as last digits of states do.
    by_order, by_digits = [], []
    for _ in range(30):
        q, v = state_of(biped, rng)
        expected = wb(q, v, p)
        by_order.append(relative_change(in_c((q, v, p), expected), expected))
        for _ in range(3):
            nearby = (np.nextafter(x, x + rng.choice([-1.0, 1.0], x.shape)) for x in (q, v))
            by_digits.append(relative_change(wb(*nearby, p), expected))
    assert np.median(by_order) < 1e-12 and max(by_order) < 10 * max(by_digits)
    with pytest.raises(ModelError, match="two of the functions solve quadratic programs"):
        lb.export_c(tmp_path, "two", {"one": wb.kernel, "two": wb.kernel})


@pytest.mark.slow
@pytest.mark.skipif(
    None in (shutil.which("aarch64-linux-gnu-gcc"), shutil.which("qemu-aarch64")),
    reason="gcc-aarch64-linux-gnu or qemu-user is not installed",
)
def test_the_exported_controller_passes_its_own_test_on_aarch64(walking, tmp_path):
    paths = walking.export_c(tmp_path, {"posture.target": POSE})
    program = tmp_path / "selftest"
    strict = "-std=c99 -O2 -static -Wall -Wextra -Werror -pedantic -Wconversion".split()
    subprocess.run(["aarch64-linux-gnu-gcc", *strict, "-o", program, *paths[::2], "-lm"], check=True)
    done = subprocess.run(["qemu-aarch64", program], capture_output=True, text=True)
    assert done.returncode == 0 and "3 comparisons" in done.stdout, done.stdout + done.stderr


@pytest.mark.wide
def test_an_export_in_floats_says_how_far_its_efforts_are_from_those_of_doubles(biped, walking, tmp_path):
    """In the states that it was found in, by another compilation; efforts of some 20 N m differ by N m."""
    with pytest.warns(
        lb.io.InaccurateFloats, match=r"tau of biped_whole_body in float32 differ .* of the largest"
    ):
        paths = walking.export_c(tmp_path, {"posture.target": POSE}, dtype=np.float32)
    in_c = ControllerInC(paths, tmp_path, "-Wdouble-promotion")
    stated = float(re.search(r"tau: (\S+) \(", paths[1].read_text())[1])
    p = walking.pack({"acceleration_weight": 1.0, "force_weight": 1.0, "posture.target": POSE})
    rng = np.random.default_rng(1)
    apart = []
    for _ in range(100):
        q = biped.integrate(biped.neutral(), 0.3 * rng.standard_normal(biped.nv))
        q, v = q.astype(np.float32), (0.3 * rng.standard_normal(biped.nv)).astype(np.float32)
        expected = walking(q.astype(float), v.astype(float), p.astype(np.float32).astype(float))
        results = in_c((q, v, p.astype(np.float32)), expected)
        apart.append(np.abs(results[0] - expected.tau).max())
    # round-off is another one, and what it makes of the worst states
    assert stated / 10 < max(apart) < 10 * stated


@pytest.mark.parametrize("again", [copy.deepcopy, lambda wb: pickle.loads(pickle.dumps(wb))])
def test_controllers_and_all_kinds_of_tasks_can_be_pickled_before_and_after_calls(biped, stepping, again):
    q = biped.neutral()
    q[7:] = POSE
    v = 0.1 * np.arange(12)
    before = again(on_points(biped))
    expected = stepping(q, v)
    for wb in (before, again(stepping), again(before)):
        for x, y in zip(wb(q, v), expected, strict=True):
            np.testing.assert_array_equal(x, y)
    tasks = [
        MotionTask.pose(biped, "pelvis"),
        MotionTask.orientation(biped, "left_foot"),
        MotionTask.position(biped, "right_foot"),
        MotionTask.center_of_mass(biped),
        MotionTask.momentum(biped),
        MotionTask.posture(biped),
    ]
    for task in tasks:
        values = SimpleNamespace(**task.own)
        np.testing.assert_array_equal(again(task).function(q, v, values), task.function(q, v, values))
    ik = DifferentialIK(biped, tasks)
    np.testing.assert_array_equal(again(ik)(q).v, ik(q).v)


def test_wrong_arguments_are_refused_by_name(biped, walking, arm):
    q, v = biped.neutral(), np.zeros(biped.nv)
    task = MotionTask.posture(biped)
    with pytest.raises(ModelError, match=r"there is no parameter 'left_foot\.activ'"):
        walking(q, v, {"left_foot.activ": 0})
    with pytest.raises(ShapeError, match=r"v has shape \(6,\), expected \(..., 12\)"):
        walking(q, np.zeros(6))
    with pytest.raises(ConfigurationError, match=r"v\[0\] is nan"):
        walking(q, np.full(biped.nv, np.nan))
    with pytest.raises(ConfigurationError, match="norm"):
        walking(2 * q, v)
    with pytest.raises(ModelError, match=r"parameter left_foot\.largest is nan"):
        walking.pack({"left_foot.largest": np.nan})
    with pytest.raises(ArgumentError, match="iterations is 0, expected a whole number, 1 or more"):
        WholeBody(biped, [task], iterations=0)
    with pytest.raises(ModelError, match="there is no limit 'torque'"):
        WholeBody(biped, [task], limits=["torque"])
    with pytest.raises(ModelError, match="two tasks or supports 'posture'"):
        WholeBody(biped, [task, MotionTask.posture(biped)])
    with pytest.raises(ModelError, match="there is no joint 'elbow'"):
        WholeBody(biped, [task], actuated=["elbow"])
    with pytest.raises(ModelError, match="kp of task 'posture' is -1"):
        MotionTask.posture(biped, kp=-1.0)
    with pytest.raises(ShapeError, match=r"weight of task 'posture' has shape \(2,\)"):
        WholeBody(biped, [MotionTask.posture(biped, weight=[1.0, 2.0])])
    with pytest.raises(ModelError, match=r"takes \(q\), expected \(q, v, p\)"):
        WholeBody(biped, [MotionTask("own", lambda q: q)])
    with pytest.raises(ShapeError, match=r"points has shape \(3,\), expected \(k, 3\)"):
        Support("left_foot", [0.0, 0.0, 0.0])
    assert isinstance(biped.tree.bodies[0].joint.group, Free)
