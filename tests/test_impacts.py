"""Impacts with restitution: no point goes through the ground, and no energy is gained, whatever falls."""

import warnings

import numpy as np
import pytest

import liebody as lb
from liebody.base.errors import IntegrationError, ModelError
from liebody.bodies import SpatialInertia, TreeBuilder
from liebody.compiler.native import libraries
from liebody.contact import Contact, TimeStepping, UnsolvedSteps
from liebody.contact.cones import Cone, ConeNewton
from liebody.contact.impacts import Bounce, ImpactRow, impact
from liebody.groups import Free, Planar, Prismatic
from liebody.hybrid import VariedSystem
from liebody.scalars.linear import factor

G, K, D, H = 9.81, 1e8, 1e5, 1e-3
SIZE = np.array([0.4, 0.3, 0.2])
CORNERS = np.array([[x, y, z] for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)]) * SIZE / 2


def body(group, points, inertia):
    """A body with frames p0, p1, ... at the points."""
    builder = TreeBuilder("body").add("body", group, inertia)
    for i, point in enumerate(points):
        builder.frame(f"p{i}", "body", point)
    return builder.build()


def polygon(n):
    """A disc in the vertical plane with n points on its rim, or a rod with two ends."""
    a = 2 * np.pi * np.arange(n) / n
    return [[0.2 * np.cos(x), 0, 0.2 * np.sin(x)] for x in a]


ROD = SpatialInertia.box(1.0, (0.4, 0.05, 0.05))
BODIES = {
    **{f"{n} points in a plane": (Planar((0, 1, 0)), polygon(n), ROD) for n in (2, 3, 5, 8)},
    "a sole on 4 points": (Free(), CORNERS[CORNERS[:, 2] < 0], SpatialInertia.box(1.0, SIZE)),
    "a box on 8 points": (Free(), CORNERS, SpatialInertia.box(1.0, SIZE)),
}


def dropped(kind, members, seed, **options):
    """A run of random drops and throws, some of them nearly flat, and the largest vertical momentum."""
    group, points, inertia = BODIES[kind]
    tree, rng = body(group, points, inertia), np.random.default_rng(seed)
    law = {"stiffness": K, "damping": D, "friction": 0.5, "restitution": 0.5}
    system = TimeStepping(tree, Contact(*(f"p{i}" for i in range(len(points))), **law), **options)
    place = np.array([1.0, 0, 0, 0, 0, 0, 0]) if tree.nq == 7 else np.zeros(3)
    q = np.tile(place, (members, 1))
    tilt = np.where(rng.uniform(size=members) < 0.3, 1e-3, 3.0) * rng.uniform(-1, 1, members)
    if tree.nq == 7:
        axis = rng.normal(size=(members, 3))
        axis /= np.linalg.norm(axis, axis=1)[:, None]
        q[:, :4] = np.concatenate([np.cos(tilt / 2)[:, None], np.sin(tilt / 2)[:, None] * axis], axis=1)
    else:
        q[:, 0] = tilt
    v = rng.uniform(-1, 1, (members, tree.nv)) * np.where(np.arange(tree.nv) < tree.nv // 2, 8.0, 3.0)
    poses = np.array([tree.body("body").joint.group.pose(x) for x in q])
    lowest = (np.array(points) @ poses[:, 2, :3].T).min(axis=0)
    unit = np.eye(tree.nq)[tree.nq - (1 if tree.nq == 7 else 2) :]
    up = next(x for x in unit if abs(tree.body("body").joint.group.pose(place + x)[2, 3]) > 0.5)
    sign = tree.body("body").joint.group.pose(place + up)[2, 3]
    q += (sign * (10.0 ** rng.uniform(-5, -1, members) - lowest))[:, None] * up
    given = {
        "floor_restitution": np.where(rng.uniform(size=members) < 0.2, 1.0, rng.uniform(0, 1, members)),
        "floor_friction": np.where(rng.uniform(size=members) < 0.3, 0.0, rng.uniform(0, 2, members)),
    }
    run = system.simulate(q, v, t_end=0.3, dt=H, record_every=H, parameters=given)
    momentum = np.linalg.norm(v[:, tree.nv - (3 if tree.nq == 7 else 2) :], axis=1).max() + G * 0.3
    return system, run, given, momentum


def check_laws(run, momentum):
    assert (run.ends == "").all()
    energy = run.kinetic + run.potential  # with what the ground stores
    assert (energy - energy[:, :1]).max() < 1e-12 * np.abs(energy).max()
    depth = -run.outputs["floor_height_over"].min(axis=-1)
    assert depth.max() < 2 * momentum / (H * K + D)  # what the impulse of a whole landing presses it in
    assert (run.outputs["floor_force"][..., 2].max(axis=(1, 2)) > 0).mean() > 0.5  # most have landed


QUICK = [pytest.param(kind, marks=[pytest.mark.wide] if "on" in kind.split() else []) for kind in BODIES]


@pytest.mark.parametrize("kind", QUICK)
def test_no_point_goes_through_the_ground_and_no_energy_is_gained(kind):
    _, run, _, momentum = dropped(kind, 64, 1)
    check_laws(run, momentum)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("kind", BODIES)
def test_no_point_of_thousands_goes_through_the_ground(kind, seed):
    _, run, _, momentum = dropped(kind, 1024, 10 + seed)
    check_laws(run, momentum)


TOLERANCE = 1e-6  # N, a ten-millionth of what the bodies weigh
MOST = {"plane": 1e-4, "points": 5e-3}  # share of the steps in contact above it, by kinds' last word


def check_what_is_said(kind, members, seed):
    """After each step the residual is within the tolerance, or the step is counted, and a warning says it."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        _, run, _, momentum = dropped(kind, members, seed, tolerance=TOLERANCE)
    above = run.memory["residual"] > TOLERANCE
    np.testing.assert_allclose(run.memory["unsolved"], np.cumsum(above, axis=1), atol=1e-9)
    said = [str(x.message) for x in caught if x.category is UnsolvedSteps]
    who = f"{above.sum()} steps of {above.any(axis=1).sum()} of {members} members stayed above the tolerance"
    assert len(said) == above.any() and all(text.startswith(who) for text in said)
    in_contact = (run.outputs["floor_force"][..., 2] > 0).any(axis=2)
    assert above.sum() <= MOST[kind.split()[-1]] * in_contact.sum()
    check_laws(run, momentum)  # they hold in steps that are not solved, too


@pytest.mark.wide
@pytest.mark.parametrize("kind", ["3 points in a plane", "a sole on 4 points"])
def test_every_step_is_within_the_tolerance_or_said_not_to_be(kind):
    check_what_is_said(kind, 128, 10)


@pytest.mark.slow
@pytest.mark.parametrize("kind", BODIES)
def test_every_step_of_thousands_of_drops_is_within_the_tolerance_or_said_not_to_be(kind):
    check_what_is_said(kind, 1024, 20)


def two_ended_rod(e, **options):
    tree = TreeBuilder("rod").add("body", Planar((0, 1, 0)), ROD)
    tree = tree.frame("l", "body", [-0.2, 0, 0]).frame("r", "body", [0.2, 0, 0]).build()
    law = {"stiffness": K, "damping": D, "friction": 0.0, "restitution": e}
    return TimeStepping(tree, Contact("l", "r", **law), **options)


def test_a_rebounding_end_does_not_drive_the_other_one_into_the_ground():
    """The right end, 3.2 mm above, is driven down by the rebound of the left one: both rebound."""
    rod = two_ended_rod(0.3, tolerance=1e-8)
    run = rod.simulate([-0.0009, 0.003, 0], [-0.25, -3.17, 0], t_end=3e-3, dt=1e-3, record_every=1e-3)
    assert run.outputs["floor_height_over"].min() > -1e-5
    energy = run.kinetic + run.potential
    assert np.diff(energy).max() < 1e-12 and run.memory["residual"].max() < 1e-8
    ends = run.v[1, 1] + np.array([1, -1]) * 0.2 * run.v[1, 0]
    before = -3.17 + np.array([1, -1]) * 0.2 * -0.25
    np.testing.assert_allclose(ends, -0.3 * before - G * H, atol=2e-2)  # each its own, by Newton's law


def test_an_elastic_body_keeps_its_energy_over_many_bounces():
    """e = 1 without friction: but for impulses of slow and driven points, none of which happen here."""
    tree = body(Planar((0, 1, 0)), polygon(2), ROD)
    law = {"stiffness": K, "damping": D, "friction": 0.0, "restitution": 1.0}
    system = TimeStepping(tree, Contact("p0", "p1", **law))
    run = system.simulate([0.7, 0.5, 0.0], [3.0, 0.0, 0.3], t_end=1.0, dt=H, record_every=H)
    energy = run.kinetic + run.potential
    hits = run.outputs["floor_force"][..., 2].max(axis=1) > 0
    assert hits.sum() >= 2
    lost = -np.diff(energy) / run.kinetic.max()
    assert np.abs(lost[~hits[1:]]).max() < 1e-13  # in flight
    assert -1e-13 < lost[hits[1:]].min() and lost[hits[1:]].max() < 5e-9  # points give way by 1e-9


@pytest.mark.filterwarnings("ignore::liebody.contact.UnsolvedSteps")
def test_a_block_on_four_corners_bounces_without_gaining_energy():
    points = [(-0.1, -0.1, -0.05), (-0.1, 0.1, -0.05), (0.1, -0.1, -0.05), (0.1, 0.1, -0.05)]
    tree = body(Free(), points, SpatialInertia.box(2.0, (0.2, 0.2, 0.1)))
    law = {"stiffness": 1e5, "damping": 1e3, "friction": 0.5, "restitution": 0.8}
    system = TimeStepping(tree, Contact("p0", "p1", "p2", "p3", **law))
    tilt = np.linspace(0, 0.2, 32)
    q0 = np.stack([np.cos(tilt / 2), np.sin(tilt / 2), *np.zeros((4, 32)), 0.08 + 0 * tilt], axis=1)
    run = system.simulate(q0, [0, 0, 0, 1.0, 0, 0], t_end=1.0, dt=H, record_every=H)
    energy = run.kinetic + run.potential
    assert (energy - energy[:, :1]).max() < 1e-12
    assert run.outputs["floor_height_over"].min() > -3e-3  # 2 kg at 1 m/s on 1e5 N/m and 1e3 N s/m


def test_steps_without_a_compiler_obey_the_same_law(monkeypatch):
    state, options = ([-0.0009, 0.003, 0], [-0.25, -3.17, 0]), {"t_end": 3e-3, "dt": H, "record_every": H}
    run = two_ended_rod(0.3, tolerance=1e-8).simulate(*state, **options)
    monkeypatch.setattr(libraries, "find_compiler_or_warn", lambda: None)
    slow = two_ended_rod(0.3, tolerance=1e-8).simulate(*state, **options)
    np.testing.assert_allclose(slow.q, run.q, atol=1e-12)
    np.testing.assert_allclose(slow.v, run.v, atol=1e-9)


def test_a_tolerance_that_is_not_reached_is_said_and_counted_by_member():
    """One rod lands, and round-off alone is above such a tolerance; another one is still high up."""
    tree = body(Planar((0, -1, 0)), polygon(2), ROD)
    floor = Contact("p0", "p1", stiffness=K, damping=D, friction=0.6)
    q0, v0 = [[0.01, z, 0] for z in (0.03, 5.0)], [1.0, -1.0, 0.5]
    options = {"t_end": 0.1, "dt": H, "record_every": H}
    hard = TimeStepping(tree, floor, tolerance=1e-15, sweeps=1)
    with pytest.warns(UnsolvedSteps, match=r"steps of 1 of 2 members stayed above the tolerance of 1e-15 N"):
        run = hard.simulate(q0, v0, **options)
    above = (run.memory["residual"] > 1e-15).sum(axis=1)
    np.testing.assert_allclose(run.memory["unsolved"][:, -1], above, atol=1e-9)
    assert above[0] > 0 and above[1] == 0
    sim = lb.stepper(hard, dt=0.05, members=2, method="time-stepping")
    state = sim.start(q0, v0)
    for _ in range(2):
        before = state.memory.unsolved
        with pytest.warns(UnsolvedSteps, match=r"of 1 of 2 members .*state\.memory\.unsolved") as said:
            state = sim.step(state)
        steps = int(str(said[0].message).split()[0])
        np.testing.assert_allclose(state.memory.unsolved - before, [steps, 0], atol=1e-9)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UnsolvedSteps)
        easy = TimeStepping(tree, floor, tolerance=1e-6).simulate(q0, v0, **options)
    assert easy.memory["residual"].max() <= 1e-6 and easy.memory["unsolved"].max() == 0


@pytest.mark.wide
def test_bodies_that_do_not_touch_bounce_as_each_of_them_alone():
    """Each with its own e. Alone, the rod's e is reduced for its friction: that of the ball must not be."""
    law = {"stiffness": K, "damping": D}
    rough = Contact("tip", "end", **law, friction=0.8, restitution=0.9, name="rough")
    smooth = Contact("ball", **law, friction=0.0, restitution=0.6, name="smooth")

    def tree(*wanted):
        builder = TreeBuilder("apart")
        if "rod" in wanted:
            builder.add("rod", Planar((0, 1, 0)), ROD)
            builder.frame("tip", "rod", [-0.2, 0, 0]).frame("end", "rod", [0.2, 0, 0])
        if "ball" in wanted:
            builder.add("ball", Prismatic([0, 0, 1]), SpatialInertia.point(2.0))
        return builder.build()

    rng, options = np.random.default_rng(3), {"t_end": 2e-3, "dt": H, "record_every": H}
    tilt, n = rng.uniform(0.3, 1.4, 64), 64
    q_rod = np.stack([tilt, 0.2 * np.sin(tilt) + 1e-4, np.zeros(n)], axis=1)
    v_rod, q_ball, v_ball = rng.uniform(-4, 4, (n, 3)), np.full((n, 1), 1e-4), rng.uniform(-3, -1, (n, 1))
    both = TimeStepping(tree("rod", "ball"), rough, smooth, gravity=(0, 0, 0))
    run = both.simulate(np.hstack([q_rod, q_ball]), np.hstack([v_rod, v_ball]), **options)
    rod = TimeStepping(tree("rod"), rough, gravity=(0, 0, 0)).simulate(q_rod, v_rod, **options)
    ball = TimeStepping(tree("ball"), smooth, gravity=(0, 0, 0)).simulate(q_ball, v_ball, **options)
    np.testing.assert_allclose(run.v[..., :3], rod.v, atol=1e-12)
    np.testing.assert_allclose(run.v[..., 3:], ball.v, atol=1e-12)
    np.testing.assert_allclose(run.v[:, 1, 3:], -0.6 * v_ball, rtol=1e-6)
    hit = rod.kinetic[:, 1] < rod.kinetic[:, 0] * (1 - 1e-6)
    assert hit.sum() > 20


@pytest.mark.parametrize("sweeps", [1, 3])
def test_impacts_of_any_mechanism_add_no_kinetic_energy(sweeps):
    """For any inertia, points, e and friction, with sweeps that have not converged, too."""
    rng, hit = np.random.default_rng(7), 0
    for _ in range(30):
        n, points = int(rng.integers(2, 9)), int(rng.integers(1, 5))
        root = rng.normal(size=(n, n)) * 10.0 ** rng.uniform(-1, 1, n)
        M, v = root @ root.T + 1e-3 * np.eye(n), 3 * rng.normal(size=n)
        rows = []
        for _ in range(points):
            J, gap, e = rng.normal(size=(3, n)), max(0.0, rng.normal()), rng.uniform()
            fast = float((J @ v)[0] < -0.05)
            hits = fast * (rng.uniform() < 0.8)
            bias = np.array([0.0 if hits else gap, 0, 0])
            law = Cone(rng.uniform(0, 2))
            rows.append(ImpactRow(J, bias, np.full(3, 1e-12), law, bounce=Bounce(hits, fast, e)))
        after = v + np.asarray(impact(factor(M), v, rows, sweeps, ConeNewton(3)).change, float)
        before = v @ M @ v
        assert after @ M @ after <= before * (1 + 1e-12)
        hit += after @ M @ after < before * (1 - 1e-6)
    assert hit > 10


def test_derivatives_of_steps_are_refused():
    rod = two_ended_rod(0.3)
    for call in (VariedSystem, lambda system: lb.sensitivities(system, q0=[0, 1.0, 0], t_end=0.1, dt=H)):
        with pytest.raises(ModelError, match="moves by time stepping; derivatives"):
            call(rod)
    with pytest.raises(IntegrationError, match="events, iterations and impacts, and is no straight code"):
        lb.stepper(rod, dt=H, method="time-stepping").function()
