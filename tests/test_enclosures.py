"""Tubes contain every motion from a box: closed forms, solutions of 25 digits, and bounds of functions."""

from __future__ import annotations

import pickle
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import mpmath as mp
import numpy as np
import pytest

import liebody as lb
from liebody.base.errors import ArgumentError, ConfigurationError, GraphError, ModelError, ShapeError
from liebody.enclosures.sets import _directions
from liebody.scalars import cos, sin

R = lb.groups.R


@pytest.fixture(autouse=True)
def digits():
    with mp.workdps(30):
        yield


def motion(field, start, t, steps, columns=12):
    """y(t) of y' = field(t, y) in some 25 digits: the midpoint rule, extrapolated to h = 0 in h^2 (Gragg)."""
    y = [mp.mpf(x) for x in start]
    H = mp.mpf(t) / steps
    for k in range(steps):
        table = []
        for j in range(1, columns + 1):
            n = 2 * j
            h = H / n
            before, now = y, [a + h * f for a, f in zip(y, field(k * H, y))]
            for i in range(1, n):
                rate = field(k * H + i * h, now)
                before, now = now, [a + 2 * h * f for a, f in zip(before, rate)]
            row = [now]
            for m in range(1, j):
                share = 1 / ((mp.mpf(j) / (j - m)) ** 2 - 1)
                row.append([a + (a - b) * share for a, b in zip(row[m - 1], table[-1][m - 1])])
            table.append(row)
        y = table[-1][-1]
    return y


def inside(box, y):
    """Whether numbers of many digits lie in bounds (n, 2)."""
    return all(mp.mpf(float(a)) <= x <= mp.mpf(float(b)) for (a, b), x in zip(box, y))


def van_der_pol():
    return lb.HybridSystem(
        R(1), lambda t, q, v, z, p: np.array([p.mu * (1 - q[0] ** 2) * v[0] - q[0]]),
        parameters={"mu": 1.0}, name="van der Pol",
    )  # fmt: skip


def pendulum():
    return lb.HybridSystem(
        R(1), lambda t, q, v, z, p: np.array([-9.81 * sin(q[0]) - p.friction * v[0]]),
        parameters={"friction": 0.0}, name="pendulum",
    )  # fmt: skip


def of_double_pendulum(t, y, masses=(1, 1)):
    """The equations of the textbook, by Lagrange's function of two bobs on rods of 1 m."""
    q1, q2, v1, v2 = y
    m1, m2 = masses
    c, s, g = mp.cos(q2), mp.sin(q2), mp.mpf(9.81)
    M11, M12, M22 = m1 + m2 + m2 + 2 * m2 * c, m2 * (1 + c), m2
    b1 = -m2 * s * (2 * v1 * v2 + v2**2) + g * ((m1 + m2) * mp.sin(q1) + m2 * mp.sin(q1 + q2))
    b2 = m2 * s * v1**2 + g * m2 * mp.sin(q1 + q2)
    det = M11 * M22 - M12**2
    return [v1, v2, (M12 * b2 - M22 * b1) / det, (M12 * b1 - M11 * b2) / det]


# -- motions lie in their tubes -----------------------------------------------------------------------------


def test_the_reference_of_these_tests_has_25_digits():
    y = motion(lambda t, y: [y[1], -y[0]], [1, 0], 3, 12)
    assert abs(y[0] - mp.cos(3)) < 1e-25 and abs(y[1] + mp.sin(3)) < 1e-25


@pytest.mark.parametrize("radius", [0.0, 1e-9, 1e-3])
def test_a_tube_of_van_der_pols_oscillator_contains_exact_motions(radius):
    tube = lb.enclose(van_der_pol(), [(2 - radius, 2 + radius)], [(-radius, radius)], 3.0)
    random = np.random.default_rng(1)
    for _ in range(2):
        start = 2 + radius * random.uniform(-1, 1), radius * random.uniform(-1, 1)
        for t, steps in ((0.7, 10), (3.0, 36)):
            exact = motion(lambda t, y: [y[1], (1 - y[0] ** 2) * y[1] - y[0]], start, t, steps)
            assert inside(tube.at(t), exact)
    assert inside(tube.ends[-1], exact) and tube.t[-1] == 3.0
    assert tube.width < (2e-12 if radius == 0 else 40 * radius)


def test_a_tube_of_the_double_pendulum_contains_exact_motions():
    """A robot: forward dynamics by articulated bodies; the reference has Lagrange's equations."""
    robot = lb.models.double_pendulum()
    tube = lb.enclose(robot, [(1.0, 1.0 + 1e-4), 0.5], [0.0, (-1e-4, 0.0)], 1.0)
    random = np.random.default_rng(2)
    for _ in range(2):
        a, b = random.uniform(0, 1e-4, 2)
        for t in (0.37, 1.0):
            exact = motion(of_double_pendulum, [1 + a, 0.5, 0, -b], t, 16)
            assert inside(tube.at(t), exact)
    assert tube.width < 2e-3
    thin = lb.enclose(robot, [1.0, 0.5], [0.0, 0.0], 1.0)
    assert inside(thin.ends[-1], motion(of_double_pendulum, [1, 0.5, 0, 0], 1.0, 16))
    assert thin.width < 1e-11


def test_a_tube_holds_at_each_value_of_a_mass():
    robot = lb.models.double_pendulum()
    tube = lb.enclose(robot, [1.0, 0.5], [0.0, 0.0], 1.0, parameters={"link2.mass": ("0.9999", "1.0001")})
    for mass in ("0.9999", "1.00003", "1.0001"):
        masses = 1, mp.mpf(mass)
        exact = motion(partial(of_double_pendulum, masses=masses), [1, 0.5, 0, 0], 1.0, 16)
        assert inside(tube.ends[-1], exact)
    assert 1e-4 < tube.width < 6e-3


def test_a_tube_holds_at_each_value_of_a_friction_and_is_hardly_wider_than_the_motions():
    """x'' = -x - 2 d x': the closed form at many values of d fills most of the boxes."""
    damped = lb.HybridSystem(
        R(1), lambda t, q, v, z, p: np.array([-q[0] - 2 * p.d * v[0]]), parameters={"d": 0.1}, name="damped"
    )
    tube = lb.enclose(damped, [1], [0], 20.0, parameters={"d": ("0.1", "0.101")})
    ends = []
    for k in range(11):
        d = mp.mpf("0.1") + k * mp.mpf("0.0001")
        w = mp.sqrt(1 - d * d)
        t = mp.mpf(20)
        x = mp.exp(-d * t) * (mp.cos(w * t) + d / w * mp.sin(w * t))
        v = -mp.exp(-d * t) * mp.sin(w * t) / w
        assert inside(tube.ends[-1], [x, v])
        ends.append((float(x), float(v)))
    spread = np.ptp(ends, axis=0)
    assert ((tube.ends[-1, :, 1] - tube.ends[-1, :, 0]) < 1.5 * spread + 1e-4).all()


def test_tubes_of_turning_motions_do_not_grow():
    """Forty turns: the exact image of a square is a turned square, in a box at most sqrt(2) as wide."""
    turning = lambda y: [y[1], -y[0]]  # noqa: E731
    mixed = lb.enclose(turning, [(0.999, 1.001), 0.0], None, 0.5)
    assert (mixed.ends[0] == [[0.999, 1.001], [0.0, 0.0]]).all()
    with pytest.raises(ArgumentError, match=r"q0 is 1\.0, expected a number or a pair for each state"):
        lb.enclose(turning, 1.0, None, 0.5)
    tube = lb.enclose(turning, [(0.999, 1.001), (-1e-3, 1e-3)], None, 80 * np.pi)
    assert tube.width < 2e-3 * np.sqrt(2) * (1 + 1e-6)
    t = mp.mpf(float(tube.t[-1]))
    for x, y in ((0.999, -1e-3), (1.001, 1e-3), (1.0, 0.0)):
        exact = [mp.cos(t) * x + mp.sin(t) * y, mp.cos(t) * y - mp.sin(t) * x]
        assert inside(tube.ends[-1], exact)


def test_equations_may_depend_on_time():
    """x'' = -x + cos(2 t) from rest: x = (cos t - cos 2 t) / 3."""
    driven = lb.HybridSystem(R(1), lambda t, q, v, z, p: np.array([cos(2 * t) - q[0]]), name="driven")
    tube = lb.enclose(driven, [0], [0], 7.0)
    for t in (0.1, 3.0, 7.0):
        s = mp.mpf(t)
        x = (mp.cos(s) - mp.cos(2 * s)) / 3
        assert inside(tube.at(t), [x, (2 * mp.sin(2 * s) - mp.sin(s)) / 3])
    low, high = tube.bounds(lambda t, q, v: q[0] - (cos(t) - cos(2 * t)) / 3)
    assert -1e-12 < low <= 0 <= high < 1e-12


def test_no_direction_of_a_set_but_the_last_one_has_a_part_along_the_time():
    """Also where another direction reaches less far: the time is set after each step, the others stay."""
    step = np.array([[0.9, 0.2, 0.3], [-0.1, 0.8, 0.5], [0.0, 0.0, 1.0]])
    Q = _directions(step, np.array([1e-20, 1e-3, 1e-16]))
    assert (np.abs(Q[-1]) == [0, 0, 1]).all() and (Q[:-1, -1] == 0).all()
    assert abs(Q[:, 0] @ step[:, 1]) == pytest.approx(np.linalg.norm(step[:, 1]))


def test_width_shrinks_with_the_box():
    widths = [
        lb.enclose(pendulum(), [(1.0, 1.0 + size)], [0.0], 3.0).width for size in (1e-3, 1e-5, 1e-7, 0.0)
    ]
    assert widths[0] > 50 * widths[1] > 2500 * widths[2] > 1e5 * widths[3]
    # to first order it is that of the derivative by the start: the tube is no more than a tenth wider
    a, b = (motion(lambda t, y: [y[1], -mp.mpf(9.81) * mp.sin(y[0])], [x, 0], 3.0, 40) for x in (1, 1 + 1e-5))
    narrow = lb.enclose(pendulum(), [(1.0, 1.0 + 1e-5)], [0.0], 3.0).ends[-1]
    assert max(narrow[:, 1] - narrow[:, 0]) < 1.1 * float(max(abs(y - x) for x, y in zip(a, b)))


def test_boxes_between_times_contain_the_boxes_at_all_times():
    tube = lb.enclose(pendulum(), [(1.0, 1.001)], [0.0], 2.0)
    for i, (low, high) in enumerate(zip(tube.t, tube.t[1:])):
        inner = tube.at(np.linspace(low, high, 7))
        if i % 8 == 3:
            swing = lambda t, y: [y[1], -mp.mpf(9.81) * mp.sin(y[0])]  # noqa: E731
            assert inside(tube.boxes[i], motion(swing, [1.0005, 0], (low + high) / 2, 12))
        assert (tube.boxes[i, :, 0] <= inner[..., 1]).all() and (inner[..., 0] <= tube.boxes[i, :, 1]).all()
    assert (tube.at(tube.t)[..., 0] <= tube.ends[..., 1]).all()


# -- bounds of functions ------------------------------------------------------------------------------------


def test_bounds_of_the_energy_contain_the_energy_and_stay_where_it_is_conserved():
    def energy(t, q, v):
        return v[0] ** 2 / 2 - 9.81 * cos(q[0])

    exact = -mp.mpf(9.81) * mp.cos(1)
    low, high = lb.enclose(pendulum(), [1.0], [0.0], 4.0).bounds(energy)
    assert low <= exact <= high and high - low < 1e-11
    # from a box: the least and the largest energy are those of its ends
    low, high = lb.enclose(pendulum(), [(1.0, 1.001)], [0.0], 4.0).bounds(energy)
    most = -mp.mpf(9.81) * mp.cos(mp.mpf(1.001))
    assert low <= exact < most <= high
    assert high - low < 1.1 * float(most - exact)


def test_bounds_of_reach_and_clearance_contain_those_of_simulated_motions():
    robot = lb.models.double_pendulum()
    tube = lb.enclose(robot, [(1.0, 1.001), 0.5], [0.0, 0.0], 1.0)

    def tip(t, q, v):
        return robot.pose(q, frame="tip")[:3, 3]

    low, high = tube.bounds(tip)
    run = lb.simulate(robot, [1.0005, 0.5], [0.0, 0.0], t_end=1.0, dt=1e-3, method="rkmk8")
    places = np.array([tip(t, q, v) for t, q, v in zip(run.t, run.q, run.v)])
    assert low.shape == high.shape == (3,)
    assert (low <= places.min(axis=0)).all() and (places.max(axis=0) <= high).all()
    # more pieces come closer
    finer = tube.bounds(tip, pieces=32)
    assert (finer[0] >= low).all() and (finer[1] <= high).all()
    assert (finer[1][[0, 2]] - finer[0][[0, 2]] < 1.02 * np.ptp(places, axis=0)[[0, 2]] + 0.02).all()


def test_functions_take_the_parameters_of_the_system():
    tube = lb.enclose(pendulum(), [1.0], [0.0], 1.0, parameters={"friction": ("0.1", "0.2")})
    low, high = tube.bounds(lambda t, q, v, p: p.friction)
    assert low <= 0.1 and 0.2 <= high < 0.2 + 1e-12
    # dE/dt = -friction v^2
    power = tube.bounds(lambda t, q, v, p: -p.friction * v[0] ** 2)
    assert power[0] < -1 and 0 <= power[1] < 0.02


# -- runs ---------------------------------------------------------------------------------------------------


def test_runs_of_exact_methods_lie_in_a_tube_and_those_of_other_equations_do_not():
    system = pendulum()
    tube = lb.enclose(system, [(0.999, 1.001)], [(-1e-3, 1e-3)], 2.0)
    options = {"t_end": 2.0, "dt": 0.01, "method": "rkmk8"}
    assert tube.contains(system.simulate([1.0], [0.0], **options))
    assert not tube.contains(system.simulate([1.01], [0.0], **options))
    with pytest.raises(ArgumentError, match="expected 0 to 2 s"):
        tube.at([1.0, 2.5])


@pytest.mark.wide
def test_an_arm_of_six_joints_is_enclosed():
    arm = lb.models.puma560()
    tube = lb.enclose(arm, np.full(6, 0.3), np.zeros(6), 0.1, tau=lambda t, q, v: arm.gravity(q) - 5 * v + 1)
    run = lb.simulate(
        arm, np.full(6, 0.3), np.zeros(6), t_end=0.1, dt=1e-3, method="rkmk8",
        tau=lambda t, q, v: arm.gravity(q) - 5 * v + 1,
    )  # fmt: skip
    middle = tube.at(run.t).mean(axis=-1)
    assert tube.width < 1e-12
    np.testing.assert_allclose(middle, np.concatenate([run.q, run.v], axis=1), atol=1e-11)


# -- rotations in space -------------------------------------------------------------------------------------


def of_free_body(t, y):
    """Euler's equations with the rotation as a matrix; y = (R, w)."""
    R, w = [y[0:3], y[3:6], y[6:9]], y[9:]
    turning = [
        x
        for a in R
        for x in (a[1] * w[2] - a[2] * w[1], a[2] * w[0] - a[0] * w[2], a[0] * w[1] - a[1] * w[0])
    ]
    return [*turning, -w[1] * w[2], w[2] * w[0], -w[0] * w[1] / 3]


def free_body():
    inertia = np.array([1.0, 2.0, 3.0])
    return lb.HybridSystem(
        lb.groups.SO3, lambda t, q, v, z, p: -np.cross(v, inertia * v) / inertia, name="free body"
    )


def test_a_tube_of_a_body_that_turns_over_contains_exact_motions():
    """About its second axis, which is unstable: it turns over within the time."""
    tube = lb.enclose(free_body(), [1.0, 0, 0, 0], [0.1, 2.0, 0.1], 4.0)
    assert tube.width < 1e-11 and tube.ends.shape[1:] == (7, 2)
    start = [*map(float, np.eye(3).ravel()), mp.mpf(0.1), mp.mpf(2), mp.mpf(0.1)]
    exact = motion(of_free_body, start, 4.0, 60)
    assert inside(tube.ends[-1, 4:], exact[9:])
    lower, upper = tube.bounds(lambda t, q, v: lb.groups.SO3.element(q) @ (np.array([1.0, 2.0, 3.0]) * v))
    assert (
        np.all(lower <= [0.1, 4.0, 0.1 * 3])
        and np.all(upper >= [0.1, 4.0, 0.3])
        and np.ptp(upper - lower) < 1e-12
    )
    # the rotation of the middle of the last box, whose norm is one but for rounding
    R = lb.groups.SO3.element(tube.ends[-1, :4].mean(axis=-1))
    np.testing.assert_allclose(R.ravel(), [float(x) for x in exact[:9]], atol=1e-11)
    low, high = tube.bounds(lambda t, q, v: q @ q)
    assert low <= 1 <= high < low + 1e-12


def test_a_box_of_quaternions_stands_for_rotations():
    half = mp.sqrt(mp.mpf(1) / 2)
    tube = lb.enclose(free_body(), [0.7071067, 0.7071067, 0, 0], [0, 0, 1.0], 0.5)
    box = tube.ends[0]
    assert inside(box[:2], [half, half]) and np.ptp(box, axis=1).max() < 1e-15
    assert np.array_equal(box[2:], [[0, 0], [0, 0], [0, 0], [0, 0], [1, 1]])
    wide = lb.enclose(free_body(), [(0.999, 1.0), (-0.01, 0.02), 0, (0, 0.03)], [0, 0, 1.0], 0.1).ends[0]
    random = np.random.default_rng(3)
    for _ in range(100):
        q = random.uniform([0.999, -0.01, 0, 0], [1.0, 0.02, 0, 0.03])
        q /= np.linalg.norm(q)
        assert np.all(wide[:4, 0] - 1e-15 <= q) and np.all(q <= wide[:4, 1] + 1e-15)
    # corners of the box are reached
    corner = np.array([0.999, 0.02, 0, 0]) / np.hypot(0.999, 0.02)
    assert wide[1, 1] == pytest.approx(corner[1], abs=1e-15)
    with pytest.raises(ConfigurationError, match=r"q0\[0:4\] .* of free body has a norm from 1.1"):
        lb.enclose(free_body(), [1.1, 0, 0, 0], [0, 0, 1.0], 0.5)


def test_a_spherical_pendulum_swings_as_the_plane_one_does():
    ball = lb.models.spherical_pendulum()
    start = [mp.cos(mp.mpf(1) / 2), mp.sin(mp.mpf(1) / 2), 0, 0]
    tube = lb.enclose(ball, [(float(x) - 1e-13, float(x) + 1e-13) for x in start], np.zeros(3), 0.5)
    run = lb.simulate(ball, [float(x) for x in start], np.zeros(3), t_end=0.5, dt=5e-4, method="rkmk8")
    middle = tube.at(run.t).mean(axis=-1)
    np.testing.assert_allclose(middle, np.concatenate([run.q, run.v], axis=1), atol=1e-10)


def test_a_body_that_turns_in_a_plane_moves_on_a_circle():
    cart = lb.HybridSystem(lb.groups.SE2, lambda t, q, v, z, p: np.zeros(3), name="cart")
    tube = lb.enclose(cart, [0, 0, 0], [0.5, 2, 0], 3.0)
    turn = mp.mpf("1.5")
    assert inside(tube.ends[-1, :3], [turn, 4 * mp.sin(turn), 4 * (1 - mp.cos(turn))]) and tube.width < 1e-12


@pytest.mark.wide
def test_a_floating_arm_is_enclosed():
    tree = lb.TreeBuilder("floating arm")
    tree.add("body", lb.groups.Free(), lb.SpatialInertia.box(4.0, [0.6, 0.5, 0.4]))
    link = lb.SpatialInertia.box(0.5, [0.5, 0.05, 0.1], com=[0.25, 0, 0])
    tree.add("link", lb.groups.Revolute([0, 0, 1]), link, parent="body", placement=[0.3, 0, 0.1])
    arm = lb.Robot(tree.build(), gravity=[0, 0, 0])
    q0, v0 = [1, 0, 0, 0, 0, 0, 0, 0.5], [0.3, -0.2, 0.1, 0.1, 0, 0, 1.0]
    tube = lb.enclose(arm, q0, v0, 0.5, tau=[0, 0, 0, 0, 0, 0, 0.2])
    # nothing acts from outside: momentum and angular momentum of the whole are kept
    low, high = tube.bounds(lambda t, q, v: arm.momentum(q, v))
    assert tube.width < 1e-11 and np.max(high - low) < 1e-10
    run = lb.simulate(arm, q0, v0, t_end=0.5, dt=1e-3, method="rkmk8", tau=[0, 0, 0, 0, 0, 0, 0.2])
    middle = tube.at(run.t).mean(axis=-1)
    np.testing.assert_allclose(middle, np.concatenate([run.q, run.v], axis=1), atol=1e-11)


def test_a_tube_is_the_same_in_threads_and_after_pickling():
    tube = lb.enclose(lb.models.double_pendulum(), [1.0, 0.5], [0.0, 0.0], 0.5)
    times = np.linspace(0, 0.5, 16)
    alone = tube.at(times)
    with ThreadPoolExecutor(8) as threads:
        for other in threads.map(tube.at, [times] * 8):
            assert np.array_equal(other, alone)
    again = pickle.loads(pickle.dumps(tube))
    assert np.array_equal(again.at(times), alone) and np.array_equal(again.boxes, tube.boxes)


# -- what is refused ----------------------------------------------------------------------------------------


def test_a_tube_that_blows_up_says_when_and_what_helps():
    """y' = y^2 has its pole at t = 1 / y(0)."""
    with pytest.raises(lb.EnclosureError, match=r"beyond t = (0\.9|1 s)") as error:
        lb.enclose(lambda y: y * y, [1.0], None, 2.0)
    assert "y[0] is known within" in str(error.value)
    with pytest.raises(lb.EnclosureError, match=r"parts of the box.* may help, or a t_end below"):
        lb.enclose(lb.models.double_pendulum(), [(0.0, 2.0), 0.5], [0.0, 0.0], 20.0)
    with pytest.raises(lb.EnclosureError, match="narrower bounds of parameters"):
        lb.enclose(van_der_pol(), [2.0], [0.0], 9.0, parameters={"mu": (0.5, 1.5)})


def test_systems_that_are_not_covered_are_named():

    class Affine(lb.groups.LieGroup):
        n, dim = 2, 2

        def hat(self, u):
            return np.array([[u[0], u[1]], [0, 0]])

    scaled = lb.HybridSystem(Affine(), lambda t, q, v, z, p: -v, name="scaled")
    with pytest.raises(ModelError, match="its group is Affine"):
        lb.enclose(scaled, [1, 0, 0, 1], [0, 0], 1.0)
    bouncing = lb.HybridSystem(
        R(1), lambda t, q, v, z, p: np.array([-9.81]), guards=lambda t, q, v, z, p: {"hit": q[0]},
        name="ball",
    )  # fmt: skip
    with pytest.raises(ModelError, match="it has events: hit"):
        lb.enclose(bouncing, [1.0], [0.0], 1.0)
    kinked = lb.HybridSystem(R(1), lambda t, q, v, z, p: np.array([-abs(q[0])]), name="kinked")
    with pytest.raises(GraphError, match="'absolute', for which proofs have no rule"):
        lb.enclose(kinked, [1.0], [0.0], 1.0)
    with pytest.raises(ArgumentError, match="expected a Robot, a ClosedTree, a HybridSystem"):
        lb.enclose("pendulum", [1.0], [0.0], 1.0)


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"q0": [1.0, 2.0]}, ShapeError, r"q0"),
        ({"q0": [(1.1, 1.0)]}, ArgumentError, "lower bound first"),
        ({"q0": ["one"]}, ArgumentError, "expected a number, a fraction"),
        ({"v0": [np.nan]}, ArgumentError, "expected a number, a fraction"),
        ({"parameters": {"drag": 1.0}}, ModelError, "no parameter 'drag'"),
        ({"order": 40}, ArgumentError, "expected 4 to 30"),
        ({"rounding": 0.1}, ArgumentError, "small share"),
        ({"tau": [1.0]}, ModelError, "takes neither tau nor joints"),
    ],
)
def test_wrong_arguments_are_named(options, error, words):
    with pytest.raises(error, match=words):
        lb.enclose(**{"system": pendulum(), "q0": [1.0], "v0": [0.0], "t_end": 1.0, **options})
