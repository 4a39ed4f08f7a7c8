"""Contact with half-spaces: closed forms, the cone of friction, energy, several points, what is refused."""

import numpy as np
import pytest

import liebody as lb
from liebody import models
from liebody.base.errors import IntegrationError, ModelError, ShapeError
from liebody.bodies import SpatialInertia, TreeBuilder
from liebody.contact import Contact, PointFeet, TimeStepping
from liebody.groups import SE3, Free, Planar, SpatialTranslation
from liebody.hybrid import Apex, Element, Fall, JointPD, robot_system
from liebody.models.pendulums import UPRIGHT

MASS, G = 1.5, 9.81
K, D = 2e3, 8.0


def particle():
    """A point that moves in space without turning."""
    builder = TreeBuilder("particle").add("body", SpatialTranslation(), SpatialInertia.point(MASS))
    return builder.frame("tip", "body").build()


def box(free=True):
    """A block of 20 x 20 x 10 cm with a point in each lower corner."""
    joint, at = (Free(), None) if free else (Planar((0, 0, 1)), UPRIGHT)
    inertia = SpatialInertia.box(2.0, (0.2, 0.1, 0.2) if not free else (0.2, 0.2, 0.1))
    builder = TreeBuilder("box").add("body", joint, inertia, placement=at)
    corners = (
        [(x, y, -0.05) for x in (-0.1, 0.1) for y in (-0.1, 0.1)]
        if free
        else [(-0.1, -0.05, 0), (0.1, -0.05, 0)]
    )
    for i, corner in enumerate(corners):
        builder.frame(f"corner{i}", "body", corner)
    return builder.build(), [f"corner{i}" for i in range(len(corners))]


def left_feet():
    """A particle with two points whose names differ in a sign that names of guards have not."""
    builder = TreeBuilder("particle").add("body", SpatialTranslation(), SpatialInertia.point(MASS))
    return builder.frame("left-foot", "body").frame("left_foot", "body", (0.1, 0, 0)).build()


def observed(**signals):
    return robot_system(particle(), outputs=lambda s: signals).simulate(np.zeros(3), t_end=0.1, dt=0.1)


def oscillator(t, y, u, stiffness, damping, offset=0.0):
    """m y'' = -stiffness (y - offset) - damping y', below critical damping."""
    decay = damping / (2 * MASS)
    omega = np.sqrt(stiffness / MASS - decay**2)
    y = y - offset
    c, s = np.cos(omega * t), np.sin(omega * t)
    return offset + np.exp(-decay * t) * (y * c + (u + decay * y) / omega * s)


def test_a_landing_point_follows_the_damped_springs():
    system = robot_system(particle(), Contact("tip", stiffness=(K, 3e3), damping=(D, 5.0)))
    run = system.simulate([0, 0, 0.5], [0.4, -0.2, 0], t_end=0.45, record_every=1e-3, most_events=5)
    down = run.events.of("floor_tip", -1)
    assert down.t[0] == pytest.approx(np.sqrt(2 * 0.5 / G), abs=1e-13)
    touching = (run.t > down.t[0]) & (run.t < run.events.of("floor_tip", 1).t[0])
    t = run.t[touching] - down.t[0]
    force = run.outputs["floor_force"][touching, 0]
    pushes = force[:, 2] > 0  # until the damper would hold the point back
    assert pushes.sum() > 60
    sag = -MASS * G / K
    z = oscillator(t, 0, -G * down.t[0], K, D, sag)
    np.testing.assert_allclose(run.q[touching, 2][pushes], z[pushes], atol=1e-11)
    anchor = down.q[0, :2]
    for i, u in ((0, 0.4), (1, -0.2)):
        x = anchor[i] + oscillator(t, 0, u, 3e3, 5.0)
        np.testing.assert_allclose(run.q[touching, i], x, atol=1e-11)
    np.testing.assert_allclose(run.memory["floor_anchor"][touching, 0], np.tile(anchor, (len(t), 1)))
    np.testing.assert_array_equal(
        run.memory["floor_contact"][:, 0], run.outputs["floor_height_over"][:, 0] <= 0
    )
    ledger = system.ledger(run)
    assert abs(ledger.residual) < 1e-9 * ledger.throughput


def test_a_point_without_losses_comes_back_to_its_height():
    system = robot_system(
        particle(),
        Contact("tip", stiffness=K, damping=0.0),
        Apex(),
        step=1e-4,
        stance_step=1e-4,
        landing_step=1e-4,
    )
    run = system.simulate([0, 0, 0.2], t_end=1.5, record_every=0.1, most_events=20)
    apexes = run.events.of("apex")
    assert len(apexes) >= 3
    np.testing.assert_allclose(apexes.q[:, 2], 0.2, atol=1e-10)


def test_a_point_that_leaves_sideways_lets_energy_go():
    system = robot_system(particle(), Contact("tip", stiffness=(K, 500.0), damping=0.0))
    run = system.simulate([0, 0, 0.1], [1.0, 0, 0], t_end=0.35, record_every=0.01, most_events=5)
    up = run.events.of("floor_tip", 1)
    stretch = up.q[0, :2] - up.memory["floor_anchor"][0, 0]
    assert len(up) == 1 and np.linalg.norm(stretch) > 0.01
    ledger = system.ledger(run)
    assert ledger.losses["floor_lost"] == pytest.approx(250.0 * stretch @ stretch, rel=1e-9)
    assert ledger.losses["floor_normal"] == pytest.approx(0, abs=1e-9)
    assert abs(ledger.residual) < 1e-9 * ledger.throughput


def test_friction_slows_a_sliding_point_and_then_holds_it():
    """By mu g, whatever its direction; the force stays in the cone, and the anchor follows."""
    mu, speed = 0.4, np.array([0.6, -0.8])
    system = robot_system(
        particle(), Contact("tip", stiffness=1e4, damping=200.0, friction=mu), stance_step=2e-5
    )
    sag = -MASS * G / 1e4
    run = system.simulate([0, 0, sag], [*speed, 0], t_end=0.5, record_every=0.01)
    assert run.memory["floor_contact"][0, 0] == 1
    stop = 1.0 / (mu * G)
    sliding = (run.t < 0.9 * stop) & (run.t > 0.02)
    wanted = speed * (1.0 - mu * G * run.t[sliding, None])
    np.testing.assert_allclose(run.v[sliding, :2], wanted, atol=2e-3)
    np.testing.assert_allclose(run.v[run.t > stop + 0.1], 0, atol=1e-4)
    force = run.outputs["floor_force"][:, 0]
    assert np.all(np.linalg.norm(force[:, :2], axis=1) <= mu * force[:, 2] * (1 + 1e-9))
    ledger = system.ledger(run)
    assert sum(ledger.losses.values()) == pytest.approx(MASS / 2, rel=1e-2)
    assert abs(ledger.residual) < 1e-5 * ledger.throughput


def test_a_strong_damper_does_not_make_a_point_creep_after_it_has_slipped():
    """While it slips the spring holds mu F_n at most, so that it holds the point where it stops."""
    mu, speed = 0.4, 1.0
    floor = Contact("tip", stiffness=1e4, damping=(200.0, 2000.0), friction=mu)
    system = robot_system(particle(), floor, stance_step=2e-5)
    run = system.simulate([0, 0, -MASS * G / 1e4], [speed, 0, 0], t_end=0.5, record_every=0.01)
    stretch = run.q[:, 0] - run.memory["floor_anchor"][:, 0, 0]
    limit = mu * MASS * G / 1e4
    assert abs(stretch).max() <= limit * (1 + 1e-6)
    stopped = run.t > speed / (mu * G) + 0.02
    assert np.ptp(run.q[stopped, 0]) <= 2 * limit
    assert run.q[-1, 0] == pytest.approx(speed**2 / (2 * mu * G), abs=2 * limit)
    ledger = system.ledger(run)
    assert ledger.losses["floor_lost"] >= 0 and abs(ledger.residual) < 1e-5 * ledger.throughput


@pytest.mark.parametrize("mu", [0.3, 0.7])
def test_on_a_slope_friction_holds_up_to_its_angle(mu):
    slope = 0.5
    normal = np.array([-np.sin(slope), 0, np.cos(slope)])
    floor = Contact("tip", stiffness=1e4, damping=200.0, friction=mu, normal=normal, height=0.2)
    system = robot_system(particle(), floor, stance_step=2e-5)
    start = normal * (0.2 - MASS * G * np.cos(slope) / 1e4)
    run = system.simulate(start, t_end=0.5, record_every=0.05)
    down = np.array([-np.cos(slope), 0, -np.sin(slope)])
    drive = G * max(0, np.sin(slope) - mu * np.cos(slope))
    moved = (run.q[-1] - start) @ down
    assert moved == pytest.approx(drive * 0.5**2 / 2, abs=4e-3)  # the spring gives first
    np.testing.assert_allclose(run.v[:, 1], 0, atol=1e-12)


@pytest.mark.parametrize("free", [True, False])
def test_a_box_comes_to_rest_on_its_corners(free):
    """Tilted and turning at first; at rest its corners carry its weight."""
    tree, corners = box(free)
    system = robot_system(tree, Contact(*corners, stiffness=2e4, damping=150.0, friction=0.5), Fall(-0.1))
    group = tree.group
    q0 = group.integrate(
        group.neutral(), np.array([0.1, 0.2, 0.3, 0, 0, 0.15]) if free else np.array([0.2, 0, 0.15])
    )
    run = system.simulate(q0, t_end=2.5, record_every=0.05, most_events=200)
    assert run.ends == "" and len({name for log in [run.events] for name in log.guard}) == len(corners)
    np.testing.assert_allclose(run.v[-1], 0, atol=1e-3)
    np.testing.assert_array_equal(run.memory["floor_contact"][-1], 1)
    np.testing.assert_allclose(run.outputs["floor_force"][-1].sum(axis=0), [0, 0, 2.0 * G], atol=0.05)
    assert run.outputs["com"][-1, 2] == pytest.approx(0.05 - 2.0 * G / (2e4 * len(corners)), abs=1e-5)
    ledger = system.ledger(run)
    assert abs(ledger.residual) < 1e-5 * ledger.throughput


def test_wrenches_on_turned_bodies_are_forces_on_points():
    """M a + bias = J^T F, with the Jacobian of the point."""
    tree, _ = box()
    placement = SE3.element([0.8, 0.2, -0.4, np.sqrt(0.16), 0.1, 0.2, -0.3])
    tree = (
        TreeBuilder("turned")
        .add("body", Free(), tree.bodies[0].inertia)
        .frame("tip", "body", placement)
        .build()
    )
    system = robot_system(tree, Contact("tip", height=1.0))
    rng = np.random.default_rng(0)
    q, v = tree.group.random(rng), rng.standard_normal(6)
    z = system.memory.type(**{k: np.array(x) for k, x in system.memory.defaults.items()})
    z = z._replace(floor_contact=np.ones(1))
    p = system.parameters.type(**system.parameters.defaults)
    found = system.vector_field(0.0, q, v, z, p)
    robot = models.free_rigid_body()
    robot = type(robot)(tree, robot.gravity_vector)
    x, u = robot.pose(q, "tip")[:3, 3], robot.jacobian(q, "tip", "mixed")[3:] @ v
    F = -1e4 * x - 1e3 * u
    F[2] = max(F[2] + 1e4, 0)
    wanted = robot.jacobian(q, "tip", "mixed")[3:].T @ F
    np.testing.assert_allclose(robot.mass_matrix(q) @ found + robot.bias(q, v), wanted, rtol=1e-9)


def test_bounces_in_a_settling_contact_keep_its_anchor():
    """A point thrown up sideways comes down after 0.02 s, in the same contact, or in another one."""
    anchors = []
    for settling in (0.0, 0.05):
        system = robot_system(particle(), Contact("tip", settling=settling))
        run = system.simulate(
            [0, 0, 1e-9],
            [1e-3, 0, 0.1],
            t_end=0.05,
            memory={"floor_left": [0.0]},
            most_events=9,
            record_every=0.01,
        )
        down = run.events.of("floor_tip", -1)
        assert down.t[0] == pytest.approx(0.2 / G, abs=1e-6)
        anchors.append(down.memory["floor_anchor"][0, 0, 0])
    assert anchors[0] == pytest.approx(0.2e-3 / G, rel=1e-6) and anchors[1] == 0


def test_endless_bounces_pass():
    """Bounces whose times shrink geometrically end at a finite time; the run goes on and comes to rest."""
    light = robot_system(particle(), Contact("tip", stiffness=1e5, damping=20.0), stance_step=1e-5)
    run = light.simulate([0, 0, 0.02], t_end=4.0, record_every=0.5, most_events=1000)
    assert run.ends == "" and len(run.events.of("floor_tip", -1)) > 5
    assert run.counts[0] < 500
    assert run.q[-1, 2] == pytest.approx(-MASS * G / 1e5, rel=1e-3)


def test_events_at_the_ends_of_steps_converge_to_located_ones():
    system = robot_system(particle(), Contact("tip", stiffness=K, damping=D))
    exact = system.simulate([0, 0, 0.1], t_end=0.3, record_every=0.1)
    errors = []
    for h in (1e-3, 1e-5):
        steps = {"step": h, "stance_step": h, "landing_step": h}
        run = system.simulate([0, 0, 0.1], t_end=0.3, record_every=0.1, parameters=steps, locate=None)
        errors.append(np.abs(run.q[-1] - exact.q[-1]).max())
    assert errors[1] < 0.2 * errors[0] < 1e-3


def test_losses_of_impact_are_a_part_of_all():
    runs = []
    for impact in (None, 2e-3):
        system = robot_system(particle(), Contact("tip", stiffness=K, damping=50.0, impact=impact))
        runs.append(system.simulate([0, 0, 0.1], [0.3, 0, 0], t_end=0.2, record_every=0.1))
    for kind in ("normal", "tangential"):
        parts = runs[1].work[f"floor_{kind}"][-1], runs[1].work[f"floor_impact_{kind}"][-1]
        assert min(parts) > 0
        assert sum(parts) == pytest.approx(runs[0].work[f"floor_{kind}"][-1], abs=1e-12)


def test_a_point_between_two_walls_has_a_contact_with_each():
    walls = [
        Contact("tip", normal=(sign, 0, 0), height=-0.1, damping=0.0, name=name)
        for sign, name in ((1, "left"), (-1, "right"))
    ]
    system = robot_system(particle(), *walls, gravity=(0, 0, 0), stance_step=2e-5, landing_step=2e-5)
    run = system.simulate([0, 0, 0], [1.0, 0, 0], t_end=1.0, record_every=0.1, most_events=20)
    hits = run.events.of("right_tip", -1).t, run.events.of("left_tip", -1).t
    assert len(hits[0]) >= 2 and len(hits[1]) >= 2 and hits[0][0] == pytest.approx(0.1)
    pause = np.pi * np.sqrt(MASS / 1e4)
    assert hits[1][0] - hits[0][0] == pytest.approx(0.2 + pause, abs=1e-9)


def slid(method=None, **options):
    """A particle over a floor that gives way, from rest, with parameters of one's own."""
    own = {"friction": 0.5, "restitution": 0.5} if method else {"friction": 0.5}
    system = (TimeStepping if method else robot_system)(particle(), Contact("tip", **own))
    return system.simulate(np.zeros(3), t_end=0.1, **options)


@pytest.mark.parametrize(
    ("act", "words"),
    [
        (lambda: Contact(), ["which points"]),
        (lambda: Contact("tip", "tip"), ["twice"]),
        (lambda: Contact("tip", normal=(0, 0, 0)), ["normal", "direction"]),
        (lambda: Contact("tip", stiffness=-1), ["stiffness", "-1"]),
        (lambda: Contact("tip", friction=-0.5), ["friction", "-0.5", "zero or more"]),
        (lambda: Contact("tip", radius=-0.1), ["radius", "-0.1", "zero or more"]),
        (lambda: Contact("tip", stiffness=(1, 2, 3)), ["stiffness", "(1, 2, 3)", "two of them"]),
        (
            lambda: slid(parameters={"floor_friction": [0.1, -0.5]}),
            ["floor_friction", "-0.5", "zero or more"],
        ),
        (lambda: slid(sampled={"floor_friction": ([0, 1], [0.1, -0.5])}), ["floor_friction", "-0.5"]),
        (lambda: slid(parameters={"floor_damping": -1}, method="time-stepping"), ["floor_damping", "-1.0"]),
        (lambda: slid(parameters={"floor_restitution": 2}, method="time-stepping"), ["from 0 to 1"]),
        (lambda: robot_system(particle(), 3), ["3", "no element"]),
        (lambda: robot_system(particle(), Apex(), Apex()), ["'apex'", "another name"]),
        (lambda: observed(kinetic_energy=0.0), ["'kinetic_energy'", "another name"]),
        (
            lambda: robot_system(particle(), outputs=lambda s: s.q).simulate(np.zeros(3), t_end=1),
            ["dictionary"],
        ),
        (lambda: robot_system(left_feet(), Contact("left-foot", "left_foot")), ["left-foot", "one word"]),
        (lambda: PointFeet("left-foot", "left_foot"), ["ground", "left_foot", "one word"]),
        (lambda: robot_system(particle(), Contact("heel")), ["heel", "tip"]),
        (lambda: robot_system(particle(), Contact("tip"), Contact("tip")), ["floor_contact", "another name"]),
        (lambda: robot_system(particle(), "floor"), ["no force 'floor'", "friction"]),
        (lambda: robot_system("particle"), ["Robot or a Tree", "particle"]),
        (lambda: robot_system(particle(), actuated="hip"), ["'hip'"]),
        (lambda: robot_system(particle(), Fall(0.0, "toe")), ["toe"]),
    ],
)
def test_what_cannot_be_is_refused_in_words(act, words):
    with pytest.raises(ModelError) as caught:
        act()
    assert all(word in str(caught.value) for word in words), str(caught.value)


def test_numbers_that_cannot_be_are_refused_by_their_names():
    for name, given in (
        ("stiffness", "hard"),
        ("damping", [1, "soft"]),
        ("normal", "up"),
        ("friction", [0.1, 0.2]),
    ):
        with pytest.raises(ShapeError, match=f"floor: {name}"):
            Contact("tip", **{name: given})
    for name, given in (("step", 0.0), ("stance_step", -1e-5), ("landing_step", None)):
        with pytest.raises(
            IntegrationError, match=f"{name} is {given}, expected a positive number of seconds"
        ):
            robot_system(particle(), Contact("tip"), **{name: given})
    with pytest.raises(ShapeError, match="pd: K"):
        robot_system(particle(), JointPD("stiff"))


def test_the_books_of_a_run_from_a_file_are_those_of_its_samples(tmp_path):
    """Files have no final states: without `last` there is no end to balance to."""
    system = robot_system(particle(), Contact("tip", stiffness=K, damping=D))
    run = system.simulate([0, 0, 0.02], [0.1, 0, 0], t_end=0.1, record_every=0.05)
    run.save(tmp_path / "run.nc")
    again = lb.Run.load(tmp_path / "run.nc")
    assert system.ledger(again, last=2) == system.ledger(run, last=2)
    with pytest.raises(ShapeError, match="from a file has no final states; give `last`"):
        system.ledger(again)
    with pytest.raises(ModelError, match=r"one of another system"):
        robot_system(particle()).ledger(run)
    with pytest.raises(ShapeError, match=r"member .*first"):
        system.ledger(run, "first")


def test_one_floor_may_carry_several_robots():
    floor = Contact("tip", stiffness=K)
    first = robot_system(particle(), floor)
    turned = TreeBuilder("turned").add("body", SpatialTranslation(), SpatialInertia.point(MASS))
    second = robot_system(turned.frame("tip", "body", (0, 0, -0.3)).build(), floor)
    runs = [
        s.simulate([0, 0, 0.1 + lift], t_end=0.2, record_every=0.1) for s, lift in ((first, 0), (second, 0.3))
    ]
    np.testing.assert_allclose(runs[0].q[:, 2], runs[1].q[:, 2] - 0.3, atol=1e-12)


def test_points_may_be_called_anything_and_may_stand_still():
    builder = TreeBuilder("particle").add("body", SpatialTranslation(), SpatialInertia.point(MASS))
    tree = builder.frame("left-foot/tip", "body").frame("stone", "world", (0, 0, -0.1)).build()
    system = robot_system(tree, Contact("left-foot/tip", "stone"))
    run = system.simulate([0, 0, 0.1], t_end=0.2, record_every=0.1, most_events=4)
    assert len(run.events.of("floor_left_foot_tip", -1)) == 1
    alone = robot_system(particle(), Contact("tip")).simulate([0, 0, 0.1], t_end=0.2, record_every=0.1)
    np.testing.assert_allclose(run.q[:2], alone.q[:2], atol=1e-12)


def test_an_element_of_ones_own():
    """A wind that pushes a point; its work is that of an outer force."""

    class Wind(Element):
        driven = False

        def __init__(self, point, force):
            super().__init__()
            self.name, self.point, self.parameters = "wind", point, {"force": force}

        def attach(self, tree):
            self.frame = tree.frame(self.point)

        def forces(self, s, z, p):
            return [(self.frame, p.force)]

    system = robot_system(particle(), Wind("tip", (3.0, 0, MASS * G)), step=1e-2)
    run = system.simulate([0, 0, 0], t_end=1.0, parameters={"wind_force": [[3.0, 0, 0], [6.0, 0, 0]]})
    np.testing.assert_allclose(run.q[:, -1, 0], [1.0, 2.0], atol=1e-12)
    ledger = system.ledger(run, member=1)
    assert ledger.work["wind_work"] == pytest.approx(12.0) and abs(ledger.residual) < 1e-9
