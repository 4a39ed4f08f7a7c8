"""Time stepping with contacts: laws of friction in closed forms, energy, order, the compliant limit."""

import importlib
import itertools
import sys
from collections import namedtuple
from pathlib import Path

import numpy as np
import pytest
from found import description

import liebody as lb
from liebody.base.errors import ArgumentError, IntegrationError, ModelError
from liebody.bodies import Joint, SpatialInertia, TreeBuilder
from liebody.compiler import Function, Program, trace
from liebody.compiler.native import libraries
from liebody.compiler.printers.numpy_source import compile_numpy
from liebody.contact import Boxes, Contact, HeightField, SphereContact, TimeStepping, time_stepping
from liebody.contact.cones import Block, Bounds, Cone, ConeNewton, ProjectedStep, formed, gauss_seidel
from liebody.contact.grounds import tangents
from liebody.contact.time_stepping import EULER
from liebody.groups import Free, Planar, Prismatic, Revolute, SpatialTranslation
from liebody.hybrid import Feedback, JointPD, robot_system
from liebody.mechanisms import JointFriction, JointLimits
from liebody.scalars import Table

G, MASS, RADIUS = 9.81, 2.0, 0.1
SLOPE = 0.3  # rad


def cornered_block(mass):
    """A tree of one block, and the names of the points in its lower corners."""
    builder = TreeBuilder("block").add("body", Free(), SpatialInertia.box(mass, (0.2, 0.2, 0.1)))
    corners = {f"corner{x}{y}": (0.1 * (-1) ** x, 0.1 * (-1) ** y, -0.05) for x in (0, 1) for y in (0, 1)}
    for name, corner in corners.items():
        builder.frame(name, "body", corner)
    return builder.build(), list(corners)


@pytest.fixture(scope="module")
def block():
    """A block with a point in each lower corner, on a slope downwards along x."""
    tree, corners = cornered_block(MASS)
    floor = Contact(
        *corners,
        normal=(np.sin(SLOPE), 0, np.cos(SLOPE)),
        stiffness=1e5,
        damping=1e3,
        friction=0.4,
    )
    system = robot_system(tree, floor)
    q0 = np.array([np.cos(SLOPE / 2), 0, np.sin(SLOPE / 2), 0, 0.05 * np.sin(SLOPE), 0, 0.05 * np.cos(SLOPE)])
    frictions = np.array([0.4, 1.05 * np.tan(SLOPE), 0.95 * np.tan(SLOPE), 0.2, 0.0])
    given = {"parameters": {"floor_friction": frictions}, "method": "time-stepping", "dt": 2e-3}
    return frictions, system.simulate(q0, t_end=10.0, record_every=0.1, **given)


@pytest.fixture(scope="module")
def ball():
    """A massive ball of the radius 10 cm on a plane."""
    inertia = SpatialInertia(MASS, np.zeros(3), 0.4 * MASS * RADIUS**2 * np.ones(3))
    tree = TreeBuilder("ball").add("body", Free(), inertia).build()
    return TimeStepping(tree, Contact("body", radius=RADIUS, stiffness=1e8, damping=1e5, friction=0.3))


def test_a_block_on_a_slope_sticks_below_the_angle_of_friction_and_slides_above_it(block):
    frictions, run = block
    down = np.array([np.cos(SLOPE), 0, -np.sin(SLOPE)])
    x = run.q[..., 4:] @ down
    sticks = frictions > np.tan(SLOPE)
    assert np.ptp(x[sticks][:, 5:], axis=1).max() < 1e-6
    expected = G * (np.sin(SLOPE) - frictions[~sticks] * np.cos(SLOPE))
    speed = run.v[~sticks][..., 3]
    np.testing.assert_allclose((speed[:, -1] - speed[:, 10]) / (run.t[-1] - run.t[10]), expected, rtol=1e-3)
    assert np.abs(run.v[~sticks][:, -1, :3]).max() < 1e-6  # without tipping over


def test_the_ledger_knows_what_each_point_has_dissipated(block):
    """In front, where more weight lies on a slope, more is lost by sliding; all of it is the ledger's."""
    frictions, run = block
    lost = run.memory["floor_dissipated"]
    for k, name in enumerate(("floor_normal", "floor_tangential")):
        np.testing.assert_allclose(lost[..., k].sum(axis=-1), run.work[name], rtol=1e-9, atol=1e-9)
    slides = (frictions < np.tan(SLOPE)) & (frictions > 0)
    assert (lost[slides, -1, :2, 1] > 1.05 * lost[slides, -1, 2:, 1]).all()  # corners further down
    path = run.q[..., 4:] @ [np.cos(SLOPE), 0, -np.sin(SLOPE)]
    work = frictions * MASS * G * np.cos(SLOPE) * (path[:, -1] - path[:, 0])
    np.testing.assert_allclose(lost[slides, -1, :, 1].sum(axis=-1), work[slides], rtol=2e-3)


def test_what_is_statically_indeterminate_stands_symmetrically(block):
    _, run = block
    forces = run.outputs["floor_force"][0, -1]
    np.testing.assert_allclose(forces.sum(axis=0), [0, 0, MASS * G], atol=1e-9)
    left, right = forces[0::2], forces[1::2]
    np.testing.assert_allclose(left, right * [1, -1, 1], atol=1e-6 * MASS * G)


def test_impulses_obey_cone_and_complementarity_once_they_have_converged(block):
    _, run = block
    assert run.memory["residual"][:, -1].max() < 1e-8 * MASS * G


def test_a_sliding_ball_comes_to_roll_with_five_sevenths_of_its_speed(ball):
    mu, speed, q0 = 0.3, 2.0, [1, 0, 0, 0, 0, 0, RADIUS]
    steps = np.array([4e-3, 2e-3, 1e-3])
    v0 = [0, 0, 7.0, speed, 0, 0]  # and spins about the normal
    run = ball.simulate(q0, v0, t_end=1.0, record_every=0.02, parameters={"step": steps})
    until = 2 * speed / (7 * mu * G)
    t = run.t
    rolled = speed * until - mu * G * until**2 / 2 + 5 / 7 * speed * (t - until)
    x = np.where(t < until, speed * t - mu * G * t**2 / 2, rolled)
    far = np.abs(run.q[..., 4] - x).max(axis=-1)
    assert far[-1] < 1e-3
    np.testing.assert_allclose(np.log2(far[:-1] / far[1:]), 1, atol=0.1)  # first order
    R = np.array([ball.tree.body("body").joint.group.pose(q)[:3, :3] for q in run.q[:, -1]])
    velocity = np.einsum("nij,nj->ni", R, run.v[:, -1, 3:])
    omega = np.einsum("nij,nj->ni", R, run.v[:, -1, :3])
    np.testing.assert_allclose(velocity, np.tile([5 / 7 * speed, 0, 0], (3, 1)), atol=1e-4)
    np.testing.assert_allclose(omega, np.tile([0, 5 / 7 * speed / RADIUS, 7.0], (3, 1)), atol=1e-3)
    np.testing.assert_allclose(run.outputs["floor_slip"][:, -1, 0], 0, atol=1e-9)


def test_a_rigid_foot_comes_to_rest_without_penetrating_and_no_energy_is_gained(ball):
    height = 0.1
    run = ball.simulate(
        [1, 0, 0, 0, 0, 0, RADIUS + height], [0, 3, 0, 0.5, 0, 0], t_end=1.0, record_every=1e-3
    )
    assert run.outputs["floor_height_over"].min() > -5e-5
    lost = run.work["floor_normal"], run.work["floor_tangential"]
    for losses in lost:
        assert np.diff(losses).min() > -1e-6 * losses[-1]  # but for the weight's work while a spring lets go
    energy = run.kinetic + run.potential + sum(lost)
    bound = 0.5 * 1e-3 * MASS * G * (np.sqrt(2 * G * height) + 1e-3)  # h m g |v| / 2, of symplectic Euler
    assert np.abs(energy - energy[0]).max() < bound
    assert lost[0][-1] == pytest.approx(MASS * G * height, rel=1e-2)
    book = ball.ledger(run)
    assert set(book.losses) == {"floor_normal", "floor_tangential"} and abs(book.residual) < bound


def test_short_steps_come_to_the_compliant_contact_at_first_order():
    tree = TreeBuilder("particle").add("body", SpatialTranslation(), SpatialInertia.point(1.5))
    floor = Contact("tip", stiffness=2e3, damping=40.0, friction=0.5)
    system = robot_system(tree.frame("tip", "body").build(), floor)
    q0, v0, options = [0, 0, 0.05], [0.6, -0.4, 0], {"t_end": 0.6, "record_every": 0.2}
    exact = system.simulate(q0, v0, **options)
    steps = {"step": np.array([4e-4, 2e-4, 1e-4])}
    run = lb.simulate(system, q0, v0, **options, method="time-stepping", parameters=steps)
    far = np.abs(run.q - exact.q).max(axis=(1, 2))
    assert far[-1] < 1e-4
    np.testing.assert_allclose(np.log2(far[:-1] / far[1:]), 1, atol=0.25)


@pytest.mark.parametrize("mu", [0.0, 1e-3, 0.1, 0.5, 1.0])
def test_one_contact_is_solved_from_any_state(mu):
    rng, cone = np.random.default_rng(1), Cone(mu)
    worst = 0.0
    for _ in range(300):
        J = rng.standard_normal((3, 9)) * 10.0 ** rng.uniform(-1, 1, (3, 1))
        A, b = J @ J.T + 1e-3 * np.eye(3), rng.standard_normal(3)
        x = cone.solve(A, b, np.zeros(3), ConeNewton(12))
        assert x[0] >= 0 and np.hypot(*x[1:]) <= mu * x[0] * (1 + 1e-12)
        worst = max(worst, cone.defect(A, A @ x + b, x) * A[0, 0] / np.linalg.norm(b))
    assert worst < 1e-8


def rows_of(law):
    """How many rows a law has."""
    return 3 if isinstance(law, Cone) else 1


def swept(A, b, laws, sweeps, solver):
    """Impulses of w = A x + b from x = 0, and the largest defect of a law."""
    ends, one, zero = np.cumsum([0, *map(rows_of, laws)]), np.eye(len(b)), np.zeros(len(b))
    blocks = [
        Block(law, one[:, i:j], A[:, i:j], zero[i:j], b[i:j])
        for law, (i, j) in zip(laws, itertools.pairwise(ends), strict=True)
    ]
    x, _, defect = gauss_seidel(blocks, [zero[: rows_of(law)] for law in laws], sweeps, solver)
    return np.concatenate(x), defect


def test_sweeps_over_factors_are_those_over_their_product():
    """Impulses of A = X^T Y + R, to round-off."""
    rng = np.random.default_rng(9)
    X, d, R, b = (
        rng.standard_normal((7, 8)),
        rng.uniform(1, 2, 7),
        rng.uniform(0.1, 1, 8),
        rng.standard_normal(8),
    )
    laws = [Cone(0.5), Bounds(-0.1, 0.2), Cone(0.8), Bounds(0, np.inf)]
    ends = [0, 3, 4, 7, 8]
    blocks = [
        Block(law, X[:, i:j], (X / d[:, None])[:, i:j], R[i:j], b[i:j])
        for law, (i, j) in zip(laws, itertools.pairwise(ends), strict=True)
    ]
    start = [np.zeros(rows_of(law)) for law in laws]
    for solver in (ProjectedStep(), ConeNewton(3)):
        x, y, defect = gauss_seidel(blocks, start, 5, solver)
        other, whole, rest = gauss_seidel(formed(blocks), start, 5, solver)
        np.testing.assert_allclose(np.concatenate(x), np.concatenate(other), rtol=1e-12, atol=1e-13)
        np.testing.assert_allclose(y, X @ np.concatenate(x), rtol=1e-12, atol=1e-13)
        np.testing.assert_allclose(whole, np.concatenate(other), rtol=1e-12, atol=1e-13)
        np.testing.assert_allclose(defect, rest, rtol=1e-9, atol=1e-13)


def test_projected_and_exact_sweeps_come_to_the_same_impulses():
    rng = np.random.default_rng(2)
    J = rng.standard_normal((12, 18))
    A, b = J @ J.T / 18 + 0.1 * np.eye(12), rng.standard_normal(12)
    laws = [Cone(0.7)] * 4
    exact, defect = swept(A, b, laws, 60, ConeNewton(8))
    plain, _ = swept(A, b, laws, 400, ProjectedStep())
    assert defect < 1e-12 and exact[0::3].max() > 0.1
    np.testing.assert_allclose(plain, exact, atol=1e-10)


@pytest.mark.wide
@pytest.mark.parametrize("mu", [0.2, 0.9])
def test_four_contacts_obey_signorini_and_coulomb_in_their_own_words(mu):
    """No force without touch, none that pulls, all within the cone, friction against the slip: to 1e-8."""
    rng, kinds = np.random.default_rng(6), np.zeros(3, int)
    for _ in range(8):
        J = rng.standard_normal((12, 18))
        A = 0.3 * (J @ J.T) / 18 + 0.7 * np.eye(12)
        b = rng.standard_normal(12) * np.repeat(10.0 ** rng.uniform(-3, 0, 4), 3)
        b[0::3] = rng.standard_normal(4) - 0.5
        x, defect = swept(A, b, [Cone(mu)] * 4, 100, ConeNewton(8))
        w = A @ x + b
        assert defect < 1e-9
        for (n, *t), (u, *s) in zip(x.reshape(4, 3), w.reshape(4, 3), strict=True):
            assert n >= 0 and u > -1e-8 and n * u < 1e-8
            assert np.hypot(*t) <= mu * n + 1e-12
            np.testing.assert_allclose(mu * n * np.array(s), -np.hypot(*s) * np.array(t), atol=1e-8)
            kinds[0 if n == 0 else 1 if np.hypot(*s) < 1e-8 else 2] += 1
    assert kinds.min() > 2  # some separate, some stick, some slip


def test_bounds_hold_limits_and_dry_friction():
    A = np.array([[2.0, 0.5], [0.5, 1.0]])
    x, defect = swept(A, np.array([-3.0, 1.0]), [Bounds(0, np.inf), Bounds(-0.2, 0.2)], 40, ProjectedStep())
    np.testing.assert_allclose(x, [1.55, -0.2])
    assert defect < 1e-14


def test_a_controller_is_implicit_and_its_steps_are_those_of_the_stepper():
    tree = TreeBuilder("slider").add("body", Prismatic([0, 0, 1]), SpatialInertia.point(1.0))
    stiff = JointPD(K=1e7, D=1e3, q_des=[0.2], gravity_compensation=False)
    system = robot_system(tree.build(), stiff, Contact("body", friction=0.5, stiffness=1e6))
    run = system.simulate([0.3], t_end=0.1, dt=1e-3, method="time-stepping")
    assert np.abs(run.q[-1] - [0.2 - G / 1e7]).max() < 1e-9
    sim = lb.stepper(system, dt=0.02, method="time-stepping")
    state = sim.start([0.3])
    for _ in range(5):
        state = sim.step(state)
    np.testing.assert_allclose(state.q, run.q[-1], atol=1e-15)


def test_dry_friction_stops_and_effort_limits_of_joints_are_exact():
    """A slider of 1 kg with 2 N of friction between stops at +-0.5 m, pushed and drawn by at most 5 N."""
    builder = TreeBuilder("slider").add(
        "body",
        Joint("slide", Prismatic([1, 0, 0]), lower=-0.5, upper=0.5, effort_limit=5.0),
        SpatialInertia.point(1.0),
    )
    push = Feedback(lambda s, p: p.push, push=[0.0], name="push")
    spring = JointPD(K=0.0, q_des=[10.0], gravity_compensation=False)
    laws = JointFriction(2.0), JointLimits(1e6, damping_time=0.01)
    system = TimeStepping(builder.build(), push, spring, *laws, clipped=True)
    given = {"push": [[1.9], [3.0], [0.0], [9.0]], "pd_K": [0.0, 0.0, 1e4, 0.0]}
    run = system.simulate([0.0], t_end=3.0, dt=1e-3, record_every=0.1, parameters=given)
    q, t = run.q[..., 0], run.t
    assert np.abs(q[0]).max() == 0  # sticks
    early = t < 0.51
    for member, force in ((1, 3.0), (2, 5.0), (3, 5.0)):
        moving = early & (q[member] < 0.49)
        expected = (force - 2.0) * t[moving] * (t[moving] + 1e-3) / 2  # of symplectic Euler, exactly
        np.testing.assert_allclose(q[member][moving], expected, atol=1e-12)
        assert q[member].max() < 0.5 + 1e-4  # its landing at up to 1.7 m/s
        assert -1e-12 < q[member, -1] - 0.5 < (force + 2.0) / 1e6 + 1e-12
    held = run.memory["limits_reaction"][1:, -1, 0] + run.memory["friction_reaction"][1:, -1, 0]
    np.testing.assert_allclose(held, [-3.0, -5.0, -5.0], atol=1e-6)
    book = system.ledger(run, 1)
    assert book.losses["friction"] == pytest.approx(2.0 * 0.5, rel=1e-2)
    assert abs(book.residual) < 1e-2


def test_a_drive_gives_no_more_than_its_limit_at_the_end_of_a_step_either():
    """A brake of 5 N lets a kilogramme fall: on its own, and onto a spring; what it gives is its work."""
    slide = Joint("slide", Prismatic([0, 0, 1]), effort_limit=5.0)
    tree = TreeBuilder("lift").add("body", slide, SpatialInertia.point(1.0)).build()
    brake = JointPD(K=0.0, D=1e3, q_des=[0.0], gravity_compensation=False)
    floor = Contact("body", height=-0.05, friction=0.0, stiffness=1e6, damping=1e4)
    system, h = TimeStepping(tree, brake, floor, clipped=True), 1e-3
    run = system.simulate([0.0], t_end=0.3, dt=h, record_every=h)
    n, v = np.arange(1, 100), run.v[..., 0]
    first = -h * G / (1 + 1e3 * h)  # with 4.9 N; from then on 5 N
    np.testing.assert_allclose(v[1:100], first - (n - 1) * h * (G - 5.0), rtol=1e-12)
    given = np.diff(v) / h + G - run.outputs["floor_force"][1:, 0, 2]
    assert np.abs(given).max() < 5.0 + 1e-9
    np.testing.assert_allclose(run.outputs["efforts"][1:, 0], given, atol=1e-9)
    np.testing.assert_allclose(run.work["joint_slide"][-1], np.sum(given * np.diff(run.q[:, 0])), rtol=1e-2)
    assert abs(system.ledger(run).residual) < 0.01
    assert run.outputs["floor_force"][-1, 0, 2] == pytest.approx(G, abs=1e-3)


def test_height_fields_have_the_distances_and_normals_of_their_patches():
    rng, p = np.random.default_rng(3), namedtuple("p", "heights")
    field = HeightField(rng.normal(size=(5, 4)), spacing=(0.5, 0.25))
    heights = field.parameters["heights"].values
    given = p(field.parameters["heights"])
    for x in rng.uniform(-4, 4, (50, 3)):
        d, n = field.over(x, given)
        i, j = np.floor(x[:2] / (0.5, 0.25)).astype(int)
        s, t = x[0] / 0.5 - i, x[1] / 0.25 - j
        corners = [[heights[(i + a) % 5, (j + b) % 4] for b in (0, 1)] for a in (0, 1)]
        height = np.array([1 - s, s]) @ corners @ [1 - t, t]
        slope = [1, np.array([-2, 2]) @ corners @ [1 - t, t], np.array([1 - s, s]) @ corners @ [-4, 4]]
        np.testing.assert_allclose(d, (x[2] - height) / np.linalg.norm(slope), atol=1e-13)
        np.testing.assert_allclose(n, np.array([-slope[1], -slope[2], 1]) / np.linalg.norm(slope), atol=1e-13)


def test_boxes_are_as_far_as_their_nearest_points():
    rng = np.random.default_rng(4)
    boxes = Boxes(([0.3, 0, 0.2], [0.5, 0.4, 0.2]), ([-1, 1, 0.1], [0.2, 0.3, 0.1]))
    for x in rng.uniform([-2, -2, 0], [2, 2, 1], (200, 3)):
        d, n = boxes.over(x, None)
        nearest = [np.clip(x, c - b, c + b) for c, b in boxes.boxes]
        if any((y == x).all() for y in nearest):
            assert d <= 0
            d_out, _ = boxes.over(x - n * d, None)  # the surface is where the normal leads to
            assert abs(d_out) < 1e-12
            continue
        expected = min(x[2], *(np.linalg.norm(x - y) for y in nearest))
        assert d == pytest.approx(expected, abs=1e-13)
        assert np.linalg.norm(n) == pytest.approx(1)
        e = tangents(n)
        np.testing.assert_allclose(e @ np.array([*e, n]).T, [[1, 0, 0], [0, 1, 0]], atol=1e-13)


def test_a_margin_is_along_the_normal_of_every_ground():
    heights = 0.2 * np.random.default_rng(5).standard_normal((3, 3))
    grounds = {
        "plane": {"normal": (0.6, 0, 0.8)},
        "steps": {"ground": Boxes.steps(0.1, 0.4, 2)},
        "field": {"ground": HeightField(heights, 0.5)},
    }
    for options in grounds.values():
        contact = Contact("body", radius=0.1, friction=0.5, height=0.05, margin=0.03, **options)
        p = namedtuple("p", contact.parameters)
        for x in np.random.default_rng(6).uniform(-1, 1, (20, 3)):
            near, axes = contact.over(x, p(**contact.parameters))
            far, same = contact.over(x, p(**{**contact.parameters, "margin": 0.0}))
            np.testing.assert_allclose(far - near, 0.03, atol=1e-15)
            np.testing.assert_array_equal(axes, same)
    with pytest.raises(ModelError, match="margin"):
        robot_system(
            TreeBuilder("a").add("body", Prismatic([0, 0, 1]), SpatialInertia.point(1.0)).build(), contact
        )


@pytest.mark.wide
def test_each_member_walks_on_ground_of_its_own():
    """Terrain and friction by member: flat fields of two heights, and one that rises by 0.1 m per metre."""
    inertia = SpatialInertia(MASS, np.zeros(3), 0.4 * MASS * RADIUS**2 * np.ones(3))
    tree = TreeBuilder("ball").add("body", Free(), inertia).build()
    ramp = np.minimum(np.arange(8), 7)[:, None] * 0.1 + np.zeros((8, 2))
    heights = np.array([0 * ramp, 0.3 + 0 * ramp, ramp])
    ground = HeightField(heights[0], spacing=(1.0, 1.0))
    floor = Contact("body", radius=RADIUS, stiffness=1e7, damping=1e4, friction=0.5, ground=ground)
    q0 = [[1, 0, 0, 0, 3.5, 0.5, RADIUS * np.sqrt(1.01) + z] for z in (0, 0.3, 0.35)]
    given = {"floor_heights": heights, "floor_friction": [0.5, 0.5, 1.0], "step": 1e-3}
    run = TimeStepping(tree, floor).simulate(q0, t_end=0.5, record_every=0.1, parameters=given)
    np.testing.assert_allclose(run.q[:2, -1, 6], [RADIUS, 0.3 + RADIUS], atol=1e-5)
    rolled = 5 / 7 * G * (0.1 / np.sqrt(1.01)) * 0.5**2 / 2 / np.sqrt(1.01)  # down, along x
    assert 3.5 - run.q[2, -1, 4] == pytest.approx(rolled, rel=5e-3)
    np.testing.assert_allclose(run.q[:2, -1, 4], 3.5, atol=1e-9)


def test_balls_come_to_rest_on_steps_and_their_floor():
    inertia = SpatialInertia(MASS, np.zeros(3), 0.4 * MASS * RADIUS**2 * np.ones(3))
    tree = TreeBuilder("ball").add("body", Free(), inertia).build()
    stairs = Boxes.steps(rise=0.1, run=0.4, count=2, start=0.5)
    floor = Contact("body", radius=RADIUS, stiffness=1e6, damping=1e4, friction=0.5, ground=stairs)
    q0 = np.array([[1, 0, 0, 0, x, 0, 0.5] for x in (0.0, 0.7, 1.1)])
    run = TimeStepping(tree, floor).simulate(q0, t_end=1.0, dt=1e-3, record_every=0.5)
    np.testing.assert_allclose(run.q[:, -1, 6], RADIUS + np.array([0, 0.1, 0.2]) - MASS * G / 1e6, atol=1e-8)
    np.testing.assert_allclose(run.outputs["floor_force"][:, -1, 0, 2], MASS * G, rtol=1e-6)


def test_balls_in_a_row_pass_their_speed_on_where_steps_resolve_their_touch_and_else_go_on_together():
    """Newton's cradle on a slide: elastic with springs and steps that resolve them, plastic otherwise."""
    builder = TreeBuilder("cradle")
    for i in range(3):
        builder.add(f"ball{i}", Prismatic([1, 0, 0]), SpatialInertia.point(1.0))
    pairs = [("ball0", "ball1"), ("ball1", "ball2")]
    system = TimeStepping(builder.build(), SphereContact(*pairs, radius=0.1, stiffness=1e6, damping=0.0))
    given = {"step": [1e-6, 1e-2], "spheres_damping": [0.0, 1e7]}
    run = system.simulate([0, 0.21, 0.42], [1.0, 0, 0], t_end=0.2, record_every=0.02, parameters=given)
    np.testing.assert_allclose(run.v[:, -1].sum(axis=-1), 1, atol=1e-9)
    np.testing.assert_allclose(run.v[0, -1], [0, 0, 1], atol=5e-3)
    assert np.diff(run.v[1, -1]).min() > -1e-6 and run.v[1, -1] @ run.v[1, -1] < 0.35  # 1/3: all as one


def test_painleves_rod_passes_where_rigid_bodies_have_no_acceleration():
    """A rod slides on its lower end with so much friction that sliding has no solution at first: it jams."""
    length, mu = 1.0, 2.0
    rod = TreeBuilder("rod").add("rod", Planar([0, -1, 0]), SpatialInertia.rod(1.0, length))
    tree = rod.frame("tip", "rod", [0, 0, -length / 2]).build()
    tilt = np.radians(np.array([10.0, 30.0, 40.0, 60.0]))  # from upright
    s, c = np.sin(tilt), np.cos(tilt)
    assert (1 + 3 * s**2 - 3 * mu * s * c < 0).tolist() == [False, True, True, False]  # Painleve's paradox
    system = TimeStepping(tree, Contact("tip", friction=mu, stiffness=1e7, damping=1e4))
    q0 = np.stack([tilt, 0.5 * length * c, 0 * tilt], axis=1)
    outcome = {}
    for direction in (1.0, -1.0):
        v0 = -direction * np.stack([0 * tilt, s, c], axis=1)  # along x of the world, in the rod's axes
        run = system.simulate(q0, v0, t_end=0.2, dt=1e-4, record_every=1e-3)
        assert (run.ends == "").all() and run.memory["residual"].max() < 1e-6
        energy = run.kinetic + run.potential + run.outputs["floor_energy"]
        assert np.diff(energy, axis=-1).max() < 1e-6
        outcome[direction] = np.linalg.norm(run.outputs["floor_slip"][:, 1, 0], axis=-1)
    assert outcome[1.0][1:3].max() < 0.05  # within 1 ms
    assert outcome[1.0][3] > 0.95 and outcome[-1.0].min() > 0.95  # no paradox: it slides on


FOOT = """
<robot name="foot"><link name="foot">
  <inertial><mass value="2"/><inertia ixx="0.1" iyy="0.1" izz="0.1" ixy="0" ixz="0" iyz="0"/></inertial>
  <collision><origin xyz="0.2 0 -0.1"/><geometry><sphere radius="0.05"/></geometry></collision>
  <collision><origin xyz="-0.2 0.1 -0.1"/><geometry><sphere radius="0.05"/></geometry></collision>
  <collision><origin xyz="-0.2 -0.1 -0.1"/><geometry><sphere radius="0.03"/></geometry></collision>
</link></robot>"""


@pytest.mark.wide
def test_spheres_of_a_description_touch_the_ground_and_masses_differ_by_member():
    robot = lb.load(FOOT, floating=True)
    with pytest.raises(ModelError, match="no shapes for collisions"):
        Contact.of_collisions(robot, "hand")
    floors = Contact.of_collisions(robot, "foot", stiffness=1e5, damping=1e3, friction=0.5)
    assert [(floor.name, floor.radius, len(floor.points)) for floor in floors] == [
        ("floor_0", 0.05, 2),
        ("floor_1", 0.03, 1),
    ]
    system = TimeStepping(robot.with_parameters("foot.mass"), *floors)
    masses = np.array([1.0, 2.0, 3.0])
    run = system.simulate(
        [1, 0, 0, 0, 0, 0, 0.2], t_end=3.0, dt=2e-3, record_every=1.0, parameters={"foot.mass": masses}
    )
    for k, q in enumerate(run.q[:, -1]):
        force = np.concatenate([run.outputs[f"{floor.name}_force"][k, -1, :, 2] for floor in floors])
        feet = [frame for floor in floors for frame in floor.frames(robot.tree)]
        arms = np.array([lb.dynamics.frame_pose(robot.tree, q, foot)[:2, 3] for foot in feet]) - q[4:6]
        np.testing.assert_allclose([force.sum(), *(force @ arms)], [masses[k] * G, 0, 0], atol=2e-3)


def test_python_does_not_work_member_by_member(ball):
    """Threads share the members in C; what Python does before and after would keep them from scaling."""

    def calls(members):
        q0 = np.tile([2 * (1 - 1e-7), 0, 0, 0, 0, 0, 0.1], (members, 1))
        q0[:, :4] /= 2
        count = itertools.count()
        sys.setprofile(lambda *_: next(count))
        try:
            run = ball.simulate(q0, t_end=2e-3, record_every=1e-3, dt=1e-3, most_events=0, threads=1)
        finally:
            sys.setprofile(None)
        assert len(run.events) == members and np.allclose(np.linalg.norm(run.q[..., :4], axis=-1), 1, rtol=0)
        return next(count)

    calls(20), calls(220)  # compile
    few, many = calls(20), calls(220)
    assert many - few < 200 * 12  # a log of the events of each: an object, and slices


def test_what_time_stepping_cannot_do_is_said(ball):
    tree = TreeBuilder("particle").add("body", SpatialTranslation(), SpatialInertia.point(1.0)).build()
    with pytest.raises(ModelError, match="needs friction"):
        TimeStepping(tree, Contact("body"))
    with pytest.raises(ModelError, match="both zero"):
        TimeStepping(tree, Contact("body", friction=0.5, stiffness=0, damping=0))
    with pytest.raises(ModelError, match="TimeStepping"):
        robot_system(tree, Contact("body", radius=0.1))
    with pytest.raises(IntegrationError, match="time stepping"):
        ball.simulate([1, 0, 0, 0, 0, 0, 1], t_end=1.0, method="rkmk4")
    with pytest.raises(IntegrationError, match="robots with contacts"):
        lb.simulate(lb.Robot(tree), t_end=1.0, dt=1e-3, method="time-stepping")
    with pytest.raises(ModelError, match="pairs of frames"):
        SphereContact(radius=0.1)
    with pytest.raises(ModelError, match="positive sides"):
        Boxes(([0, 0, 0], [1, 0, 1]))
    with pytest.raises(ModelError, match="2 x 2"):
        HeightField([1.0, 2.0])
    with pytest.raises(ModelError, match=r"spacing of \(1, 2, 3\)"):
        HeightField(np.zeros((2, 2)), (1, 2, 3))
    with pytest.raises(ModelError, match=r"origin \(0.0, 0.0\) and outside='wrap'; give two numbers"):
        HeightField(np.zeros((2, 2)), outside="wrap")
    with pytest.raises(ArgumentError, match=r"count is 2.5, expected a whole number"):
        Boxes.steps(0.1, 0.3, 2.5)
    for name in ("sweeps", "newton"):
        with pytest.raises(ArgumentError, match=f"{name} is 0, expected a whole number, 1 or more"):
            TimeStepping(tree, Contact("body", friction=0.5), **{name: 0})
    with pytest.raises(ModelError, match="solver is 'exact', expected one of 'newton', 'projected'"):
        TimeStepping(tree, Contact("body", friction=0.5), solver="exact")
    with pytest.raises(ModelError, match="newton=3 counts iterations of solver='newton'"):
        TimeStepping(tree, Contact("body", friction=0.5), solver="projected", newton=3)
    for step in (0.0, -1e-3, [], [1e-3, 0.0]):
        with pytest.raises(IntegrationError, match=r"step is .* expected positive"):
            ball.simulate([1, 0, 0, 0, 0, 0, 1], t_end=1.0, parameters={"step": step})


@pytest.mark.slow
def test_anymal_dropped_stands_where_the_compliant_contact_says():
    robot = lb.load(description("anymal_b_simple_description/robots/anymal.urdf"), floating=True)
    feet = [f"{leg}_FOOT" for leg in ("LF", "RF", "LH", "RH")]
    pose = np.array([0, 0.4, -0.8] * 2 + [0, -0.4, 0.8] * 2)
    q = np.concatenate([robot.neutral()[:7], pose])
    q[6] = 0.1 - min(lb.dynamics.frame_pose(robot.tree, q, foot)[2, 3] for foot in feet)
    drives = JointPD(K=200.0, D=5.0, q_des=pose, gravity_compensation=False)
    floor = Contact(*feet, stiffness=2e4, damping=4e2, friction=0.8)
    system = robot_system(robot, drives, floor, stance_step=1e-4, landing_step=1e-5, ledger=False)
    compliant = system.simulate(q, t_end=1.0, record_every=0.5, locate=None, most_events=0)
    stepped = system.simulate(q, t_end=1.0, record_every=0.5, dt=1e-3, method="time-stepping")
    assert np.abs(robot.difference(compliant.q[-1], stepped.q[-1])[3:6]).max() < 1e-3
    assert stepped.memory["residual"].max() < 1e-3


@pytest.mark.wide
def test_anymal_dropped_onto_rigid_ground_moves_as_in_mujoco_with_its_hardest_settings(monkeypatch):
    pytest.importorskip("mujoco", reason="mujoco comes with the extra `test`")
    description("anymal_b_simple_description")
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1] / "benchmarks"))
    benchmark = importlib.import_module("contact_mujoco")
    exact = benchmark.theirs(2e-5)
    off = np.linalg.norm(benchmark.ours(1e-3) - exact, axis=1)
    assert off.max() < 1e-3 and off[-1] < 1e-4  # of positions every 50 ms; after 1 s
    assert np.linalg.norm(benchmark.theirs(1e-4) - exact, axis=1).max() < 2e-4  # MuJoCo's own error


BOX_FOOT = """
<robot name="foot"><link name="foot">
  <inertial><origin xyz="0.02 0 0"/><mass value="2"/>
    <inertia ixx="0.01" iyy="0.01" izz="0.01" ixy="0" ixz="0" iyz="0"/></inertial>
  <collision><geometry><box size="0.2 0.1 0.04"/></geometry></collision>
</link></robot>"""


@pytest.mark.slow
def test_a_foot_that_is_a_box_stands_on_its_corners_by_the_law_of_the_lever():
    robot = lb.load(BOX_FOOT, floating=True)
    (corners,) = Contact.of_collisions(robot, kinds=("box",), stiffness=1e5, damping=1e3, friction=0.5)
    run = TimeStepping(robot, corners).simulate(
        [1, 0, 0, 0, 0, 0, 0.03], t_end=2.0, dt=2e-3, record_every=1.0
    )
    force, height = run.outputs["floor_force"][-1], run.outputs["floor_height_over"][-1]
    places = np.array([frame.placement[:3, 3] for frame in corners.frames(robot.tree)])
    below = places[:, 2] < 0
    assert (height[~below] > 0.03).all() and np.abs(force[~below]).max() == 0
    lever = MASS * G / 4 * (1 + 0.02 / 0.1 * np.sign(places[below, 0]))
    np.testing.assert_allclose(force[below, 2], lever, rtol=1e-3)


def rough(**options):
    """A box with a flap on rough ground: stops, friction, restitution, steps taken anew; and states of it."""
    builder = TreeBuilder("box").add("body", Free(), SpatialInertia.box(MASS, (0.4, 0.2, 0.1)))
    flap = Joint("hinge", Revolute([0, 1, 0]), lower=-0.1, upper=0.4)
    builder.add("flap", flap, SpatialInertia.box(0.3, (0.2, 0.2, 0.02), com=[0.1, 0, 0]), "body", [0.2, 0, 0])
    corners = {f"{x}{y}": (0.2 * (-1) ** x, 0.1 * (-1) ** y, -0.05) for x in (0, 1) for y in (0, 1)}
    for name, corner in corners.items():
        builder.frame(f"corner{name}", "body", corner)
    for y in (-1, 1):
        builder.frame(f"tip{y}", "flap", [0.2, 0.1 * y, 0])
    names = [*(f"corner{x}" for x in corners), "tip-1", "tip1"]
    heights = 0.01 * np.random.default_rng(4).standard_normal((3, 3))
    law = {"stiffness": 1e5, "damping": 1e3, "friction": 0.5, "restitution": 0.3}
    floor = Contact(*names, **law, ground=HeightField(heights, 0.4), radius=0.01)
    system = TimeStepping(builder.build(), floor, JointFriction(0.02), JointLimits(1e5, 0.01), **options)
    return (
        system,
        np.array([1, 0, 0, 0, 0.1, 0.05, 0.08, 0.0]),
        np.array([0.5, 1.0, 2.0, 0.4, 0.2, -0.5, 1.0]),
    )


def test_a_point_on_a_height_field_costs_the_same_for_any_number_of_heights():
    lengths = set()
    for n in (3, 1000):
        field = HeightField(np.zeros((n, n)))

        def over(x, p, field=field):
            return field.over(x, namedtuple("p", "heights")(p))

        lengths.add(trace(over, {"x": 3, "p": ()}, "over").length)
    assert len(lengths) == 1


def test_outside_of_a_grid_that_ends_its_rim_goes_on():
    heights = np.array([[0.1, 0.2, 0.4], [0.3, 0.0, 0.6]])
    field = HeightField(heights, (0.5, 0.25), origin=(1.0, -1.0), outside="hold")
    p = namedtuple("p", "heights")(field.parameters["heights"])
    for x, height, slope in (
        ((1.0, -1.0), 0.1, None),
        ((1.5, -0.5), 0.6, None),
        ((1.25, -0.625), 0.3, (0.0, 2 * 0.8)),  # in the middle of a cell: 0.2 0.4 / 0.0 0.6
        ((9.0, -0.625), 0.3, (0.0, 4 * 0.6)),
        ((1.25, -5.0), 0.2, (2 * 0.2, 0.0)),
        ((-3.0, 7.0), 0.4, (0.0, 0.0)),
    ):
        d, n = field.over(np.array([*x, 2.0]), p)
        assert 2.0 - d / n[2] == pytest.approx(height, abs=1e-15)
        if slope is not None:
            np.testing.assert_allclose(-n[:2] / n[2], slope, atol=1e-14)


def test_level_heights_are_a_plane_to_a_ball():
    """Steps over 200 x 200 level heights, of its own or shared, are those over the plane at that height."""
    inertia = SpatialInertia(MASS, np.zeros(3), 0.4 * MASS * RADIUS**2 * np.ones(3))
    tree = TreeBuilder("ball").add("body", Free(), inertia).build()
    law = {"radius": RADIUS, "stiffness": 1e6, "damping": 1e3, "friction": 0.5}
    q0 = np.array([[1, 0, 0, 0, x, 0.3, 0.4] for x in (-90.0, 0.0, 1234.5)])
    v0 = np.tile([0, 3.0, 0, 1.0, 0.5, 0], (3, 1))
    options = {"t_end": 0.4, "dt": 2e-3, "record_every": 0.1}
    plane = TimeStepping(tree, Contact("body", height=0.2, **law)).simulate(q0, v0, **options)
    system = TimeStepping(tree, Contact("body", ground=HeightField(np.full((200, 200), 0.2)), **law))
    own = np.array([Table(np.full((200, 200), 0.2)) for _ in range(3)], object)
    for given in ({}, {"parameters": {"floor_heights": own}}):
        run = system.simulate(q0, v0, **options, **given)
        np.testing.assert_allclose(run.q, plane.q, atol=1e-11)
        assert run.parameters["floor_heights"].shape == (3, 200, 200)


def test_many_points_are_loops_that_compute_what_straight_lines_do(monkeypatch):
    system, q, v = rough(tolerance=1e-8)
    straight = system.flow(EULER).functions.field
    monkeypatch.setattr(time_stepping, "MANY", 0)
    loops = rough(tolerance=1e-8)[0].flow(EULER).functions.field
    assert isinstance(straight, Function) and isinstance(loops, Program)
    rng, run = np.random.default_rng(3), compile_numpy(straight)
    given = system.parameters.values({}, (), 1e-3)
    for depth in (0.0, 0.05, 0.1):
        state = 0.1 * rng.standard_normal(straight.inputs["y"].size)
        state[:15] = np.concatenate([q, v])
        state[6] -= depth
        expected = run(0.0, state, given)
        np.testing.assert_allclose(compile_numpy(loops)(0.0, state, given), expected, rtol=1e-11, atol=1e-9)


def test_the_text_of_a_step_hardly_grows_with_its_points():
    def text(side):
        builder = TreeBuilder("plate").add("body", Free(), SpatialInertia.box(MASS, (0.4, 0.4, 0.1)))
        for i, (x, y) in enumerate(itertools.product(np.linspace(-0.2, 0.2, side), repeat=2)):
            builder.frame(f"p{i}", "body", [x, y, -0.05])
        floor = Contact(*(f"p{i}" for i in range(side**2)), stiffness=1e5, damping=1e3, friction=0.5)
        return TimeStepping(builder.build(), floor).flow(EULER).functions.field.length

    few, many = text(4), text(8)
    assert few < 4000 and (many - few) / 48 < 40  # operations; a point on its own has 1500


def test_feet_of_legs_that_are_alike_are_one_loop():
    builder = TreeBuilder("centipede").add("body", Free(), SpatialInertia.box(5.0, (1, 0.2, 0.1)))
    rod, legs = SpatialInertia.rod(0.1, 0.3, com=[0, 0, -0.15]), range(14)
    for i in legs:
        hip = [i / 14 - 0.51, 0.1 * (-1) ** i, 0.01]
        builder.add(f"leg{i}", Revolute([0, 1, 0]), rod, "body", hip).frame(
            f"foot{i}", f"leg{i}", [0, 0, -0.3]
        )
    floor = Contact(*(f"foot{i}" for i in legs), stiffness=1e5, damping=1e3, friction=0.5)
    field = TimeStepping(builder.build(), floor).flow(EULER).functions.field
    names = [part.function.name for each in field.passes for part in each.parts]
    assert 0 < names.count("solved") <= 2 and 0 < names.count("seen") <= 2  # the first sees no other yet


@pytest.mark.wide
def test_loops_over_points_move_as_straight_lines_do_for_members_of_their_own(monkeypatch):
    ends, given = [], {"floor_friction": [0.1, 0.5, 0.9], "floor_restitution": [0.0, 0.3, 0.6]}
    for many in (99, 0):
        monkeypatch.setattr(time_stepping, "MANY", many)
        system, q, v = rough(tolerance=1e-6)
        run = system.simulate(q, v, t_end=0.1, dt=1e-3, record_every=1e-3, parameters=given)
        ends.append([run.q, run.v, *run.memory.values(), *run.outputs.values(), *run.work.values()])
    for a, b in zip(*ends, strict=True):
        assert np.isfinite(a).all()
        np.testing.assert_allclose(b, a, rtol=1e-12, atol=1e-12 * max(1.0, np.abs(a).max()))
    touched = run.outputs["floor_force"][..., 2] > 0
    assert touched.any(axis=1).sum() > 6  # points of all members


@pytest.mark.wide
def test_steps_are_repeated_until_every_lane_obeys_the_laws_whatever_its_company(monkeypatch):
    """Rods that fall on two tips, with impacts at random: once is too little for 1e-8 N."""
    rod = TreeBuilder("rod").add("rod", Planar([0, -1, 0]), SpatialInertia.rod(1.0, 1.0))
    tree = rod.frame("tip", "rod", [0, 0, -0.5]).frame("top", "rod", [0, 0, 0.5]).build()
    floor = Contact("tip", "top", friction=0.6, stiffness=1e6, damping=3e3)
    rng = np.random.default_rng(8)
    q0 = np.stack([rng.uniform(1.2, 1.9, 12), rng.uniform(0.2, 0.3, 12), np.zeros(12)], axis=1)
    v0, options = rng.normal(size=(12, 3)), {"t_end": 0.6, "dt": 1e-3}
    once = TimeStepping(tree, floor, ledger=False, newton=8).simulate(q0, v0, **options)
    system = TimeStepping(tree, floor, ledger=False, newton=8, tolerance=1e-8)
    run = system.simulate(q0, v0, **options)
    assert run.memory["residual"].max() <= 1e-8 < 1e-3 < once.memory["residual"].max()
    np.testing.assert_array_equal(system.simulate(q0[7:], v0[7:], **options).q, run.q[7:])
    monkeypatch.setattr(libraries, "find_compiler_or_warn", lambda: None)
    plain = TimeStepping(tree, floor, ledger=False, newton=8, tolerance=1e-8)
    landing = int(np.argmax(run.outputs["floor_force"][7, :, :, 2].max(axis=1) > 0))
    q, v = run.q[7, landing - 2], run.v[7, landing - 2]
    forces = {name: x[7, landing - 2] for name, x in run.memory.items()}
    slow = plain.simulate(q, v, t_end=0.005, dt=1e-3, record_every=1e-3, memory=forces)
    np.testing.assert_allclose(slow.q, run.q[7, landing - 2 : landing + 4], atol=1e-12)
