"""Spheres and capsules against each other: exact distances and normals, and momenta that are kept."""

import itertools
from fractions import Fraction

import mpmath
import numpy as np
import pytest

import liebody as lb
from liebody.base.errors import ModelError
from liebody.bodies import SpatialInertia, TreeBuilder
from liebody.compiler.printers.numpy_source import compile_numpy
from liebody.contact import Contact, SphereContact, TimeStepping, time_stepping
from liebody.contact.spheres import closest
from liebody.groups import SE3, SO3, Free
from liebody.hybrid import State


def exact_distance(p, d, q, e):
    """Of the segments p + s d and q + t e, 0 <= s, t <= 1, of rational numbers: squared, a Fraction."""

    def dot(a, b):
        return sum(x * y for x, y in zip(a, b, strict=True))

    def squared(s, t):
        gap = [a + s * x - b - t * y for a, x, b, y in zip(p, d, q, e, strict=True)]
        return dot(gap, gap)

    r = [a - b for a, b in zip(p, q, strict=True)]
    dd, ee, de, dr, er = dot(d, d), dot(e, e), dot(d, e), dot(d, r), dot(e, r)
    found = [(s, t) for s in (0, 1) for t in (0, 1)]
    found += [(s, (s * de + er) / ee) for s in (0, 1)] + [((t * de - dr) / dd, t) for t in (0, 1)]
    determinant = dd * ee - de * de
    if determinant:
        s = (de * er - dr * ee) / determinant
        found.append((s, (s * de + er) / ee))
    return min(squared(s, t) for s, t in found if 0 <= s <= 1 and 0 <= t <= 1)


def rational(x):
    return [Fraction(y) for y in x]


@pytest.mark.parametrize("angle", [None, 1.0, 1e-2, 1e-4, 1e-6, 1e-8, 0.0])
def test_nearest_points_of_segments_have_their_exact_distance(angle):
    """Of any directions (None), and of nearly and exactly parallel ones."""
    rng = np.random.default_rng(7)
    for _ in range(200):
        u, other = rng.standard_normal((2, 3))
        u = u / np.linalg.norm(u)
        if angle is None:
            w = other / np.linalg.norm(other)
        else:
            across = np.cross(u, other)
            across = across / np.linalg.norm(across)
            w = (np.cos(angle) * u + np.sin(angle) * across) * rng.choice([-1, 1])
        half, other_half = rng.uniform(0.05, 0.5, 2)
        p, q = rng.uniform(-0.6, 0.6, (2, 3))
        x, y = closest(p - q, u, w, half, other_half)
        assert abs(x) <= half and abs(y) <= other_half
        ends = [p - half * u, 2 * half * u, q - other_half * w, 2 * other_half * w]
        with mpmath.workdps(40):
            square = exact_distance(*map(rational, ends))
            exact = mpmath.sqrt(mpmath.mpf(square.numerator) / square.denominator)
            found = float(np.linalg.norm(p + x * u - q - y * w) - exact)
        assert -1e-14 < found < 1e-11


def test_parallel_segments_touch_in_the_middle_of_what_they_share():
    u, up = np.array([1.0, 0, 0]), np.array([0, 0, 0.3])
    for shift, expected in ((0, (0, 0)), (0.4, (-0.1, 0.3)), (-0.4, (0.1, -0.3)), (2, (-0.5, 0.7))):
        for sign in (1, -1):
            x, y = closest(up + shift * u, u, sign * u, 0.5, 0.7)
            np.testing.assert_allclose((x, sign * y), expected, atol=1e-9)


def two():
    inertia = SpatialInertia(2.0, np.zeros(3), 0.01 * np.ones(3))
    return TreeBuilder("two").add("one", Free(), inertia).add("other", Free(), inertia).build()


def state(tree, poses):
    q = np.concatenate([SE3.coordinates(T) for T in poses]).astype(float)
    return State(tree, (0, 0, 0), 0.0, q, np.zeros(tree.nv)), q


def test_gaps_and_their_rates_are_those_of_the_bodies_surfaces():
    """Jacobians beside differences of the gap along random motions."""
    tree = two()
    rng = np.random.default_rng(3)
    for lengths in ((0, 0), (0.3, 0), (0, 0.4), (0.3, 0.4)):
        contact = SphereContact(("one", "other"), radius=(0.05, 0.1), length=lengths)
        contact.attach(tree)
        p = type("p", (), {"margin": 0.0})
        for _ in range(20):
            places = rng.uniform(-0.3, 0.3, (2, 3)) + [[0, 0, 0.4], [0, 0, -0.4]]
            poses = [SE3.motion(SO3.exp(rng.normal(size=3)), x) for x in places]
            s, q = state(tree, poses)
            gap, axes = contact._gap(s, 0, p)
            J = contact._jacobian(s, 0, axes)
            v, h = rng.normal(size=tree.nv), 1e-6
            ahead, behind = (
                contact._gap(State(tree, (0, 0, 0), 0.0, tree.group.integrate(q, x * v), v), 0, p)[0]
                for x in (h, -h)
            )
            assert (ahead - behind) / (2 * h) == pytest.approx(J[0] @ v, abs=1e-7)
            np.testing.assert_allclose(axes @ axes.T, np.eye(3), atol=1e-14)
            a, b = contact._nearest(s, 0)
            assert gap == pytest.approx(np.linalg.norm(a - b) - 0.15, abs=1e-15)


def test_many_pairs_are_loops_that_compute_what_straight_lines_do(monkeypatch):
    fields = []
    for many in (99, 0):
        monkeypatch.setattr(time_stepping, "MANY", many)
        builder, spin = TreeBuilder("bars"), SpatialInertia(1.0, np.zeros(3), 0.01 * np.ones(3))
        for i in range(7):
            builder.add(f"b{i}", Free(), spin)
        pairs = [(f"b{i}", f"b{i + 1}") for i in range(6)]
        touch = SphereContact(*pairs, radius=(0.05, 0.07), length=0.4, friction=0.5, margin=0.01)
        system = TimeStepping(builder.build(), touch)
        fields.append(system.flow(time_stepping.EULER).functions.field)
    straight, loops = fields
    names = [part.function.name for each in loops.passes for part in each.parts]
    assert names.count("nearest") == names.count("relative") == names.count("diagonal") == 1
    rng, given = np.random.default_rng(8), system.parameters.values({}, (), 1e-3)
    y = np.zeros(straight.inputs["y"].size)
    q = y[:49].reshape(7, 7)
    q[:, :4] = rng.normal(size=(7, 4))
    q[:, :4] /= np.linalg.norm(q[:, :4], axis=1)[:, None]
    q[:, 4] = 0.1 * np.arange(7)
    y[49:91] = rng.normal(size=42)
    expected = compile_numpy(straight)(0.0, y, given)
    np.testing.assert_allclose(compile_numpy(loops)(0.0, y, given), expected, rtol=1e-9, atol=1e-9)
    assert np.abs(expected[84:]).max() > 100  # bars touch


@pytest.mark.wide
def test_a_collision_of_two_free_capsules_keeps_momentum_and_angular_momentum_to_round_off():
    tree = two()
    touch = SphereContact(
        ("one", "other"), radius=(0.05, 0.08), length=(0.4, 0.3), friction=0.5, restitution=0.7, stiffness=1e8
    )
    system = TimeStepping(tree, touch, gravity=(0, 0, 0))
    one = SE3.motion(SO3.exp(np.array([0.3, 0.2, 0.5])), np.zeros(3))
    other = SE3.motion(SO3.exp(np.array([1.2, -0.4, 0.1])), np.array([0.5, 0.1, 0.05]))
    _, q0 = state(tree, (one, other))
    v0 = np.array([1.0, -2, 0.5, 2.0, 0.1, 0, 0.3, 0.8, -1, -1.0, 0, 0.2])
    run = system.simulate(q0, v0, t_end=0.4, dt=1e-3, record_every=1e-2)
    total = np.array([momentum(tree, q, v) for q, v in zip(run.q, run.v, strict=True)])
    assert run.work["spheres_normal"][-1] > 0.1
    np.testing.assert_allclose(total, np.broadcast_to(total[0], total.shape), atol=1e-12)
    assert run.kinetic.max() <= run.kinetic[0] * (1 + 1e-12) and run.kinetic[-1] < 0.95 * run.kinetic[0]


def momentum(tree, q, v):
    """Angular momentum about the world's origin and momentum of two free balls, (6,)."""
    total = np.zeros(6)
    for i in range(2):
        R, p = SE3.parts(tree.bodies[i].joint.group.pose(q[7 * i : 7 * i + 7]))
        V = v[6 * i : 6 * i + 6]
        m = 2.0 * R @ V[3:]
        total += np.concatenate([0.01 * R @ V[:3] + np.cross(p, m), m])
    return total


CAPSULES = """
<mujoco><worldbody>
  <body name="arm" pos="0 0 1"><joint name="shoulder" axis="0 1 0"/>
    <geom type="capsule" fromto="0 0 0 0.4 0 0" size="0.03" mass="1"/></body>
  <body name="leg" pos="0 0.05 0.9"><joint name="hip" axis="0 1 0"/>
    <geom type="capsule" fromto="0 0 0 0.4 0 0" size="0.04" mass="1"/>
    <geom type="sphere" pos="0.4 0 0" size="0.06" mass="0.1"/>
    <geom type="box" pos="0.4 0 0" size="0.02 0.03 0.01" mass="0.1"/>
    <geom type="cylinder" pos="0.4 0 0" size="0.02 0.03" mass="0.1"/></body>
</worldbody></mujoco>"""


def test_shapes_of_a_description_touch_each_other_and_the_ground():
    pytest.importorskip("mujoco")
    robot = lb.load(CAPSULES)
    touch = SphereContact.of_collisions(robot, ("arm", "leg"), friction=0.3)
    np.testing.assert_allclose(touch.radii, [[0.03, 0.04], [0.03, 0.06]])
    np.testing.assert_allclose(touch.lengths, [[0.4, 0.4], [0.4, 0.0]])
    touch.attach(robot.tree)
    s = State(robot.tree, (0, 0, 0), 0.0, np.zeros(2), np.zeros(2))
    p = type("p", (), {"margin": 0.01})
    gaps = [touch._gap(s, i, p)[0] for i in range(2)]
    apart = np.hypot(0.05, 0.1)
    np.testing.assert_allclose(gaps, [apart - 0.07 - 0.01, apart - 0.09 - 0.01], atol=1e-12)

    (corners,) = Contact.of_collisions(robot, "leg", kinds=("box",), friction=0.5)
    found = np.array([frame.placement[:3, 3] for frame in corners.frames(robot.tree)])
    expected = [np.array(x) * (0.02, 0.03, 0.01) + (0.4, 0, 0) for x in itertools.product((-1, 1), repeat=3)]
    assert {tuple(x) for x in found.round(12)} == {tuple(x) for x in np.round(expected, 12)}
    (rims,) = Contact.of_collisions(robot, "leg", kinds=("cylinder",), friction=0.5)
    points = np.array([frame.placement[:3, 3] for frame in rims.frames(robot.tree)]) - [0.4, 0, 0]
    np.testing.assert_allclose(np.hypot(*points.T[:2]), 0.02, atol=1e-12)
    np.testing.assert_allclose(np.abs(points[:, 2]), 0.03)
    assert len(points) == 16
    with pytest.raises(ModelError, match="not 'mesh'"):
        Contact.of_collisions(robot, kinds=("mesh",))
    for links in (("arm",), ("leg", "arm")):
        with pytest.raises(ModelError, match="on arm;"):
            Contact.of_collisions(robot, *links, kinds=("box",), friction=0.5)


def test_what_spheres_need_is_said():
    with pytest.raises(ModelError, match="pairs of frames"):
        SphereContact(radius=0.1)
    with pytest.raises(ModelError, match="positive radii"):
        SphereContact(("a", "b"), radius=0.0)
    with pytest.raises(ModelError, match="expected a number, two, or two a pair"):
        SphereContact(("a", "b"), radius=(0.1, 0.2, 0.3))
