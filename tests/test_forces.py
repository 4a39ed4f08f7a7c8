"""Forces are written once: they act alike in every kind of mechanism, by every method, and keep its order."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, fields

import mpmath
import numpy as np
import pytest

import liebody as lb
from liebody.base.errors import LiebodyError, ModelError, ShapeError
from liebody.bodies import Joint, SpatialInertia, Tree, TreeBuilder
from liebody.compiler import Program, jacobian, trace
from liebody.compiler.printers.numpy_source import compile_numpy
from liebody.dynamics import bias_forces, body_poses, body_twists, mass_matrix
from liebody.groups import Planar, Prismatic, Revolute, Spherical
from liebody.hybrid import robot_system
from liebody.integrators import mechanical_method
from liebody.mechanisms import (
    Force,
    FrameForce,
    JointDamping,
    JointForce,
    JointFriction,
    JointLimits,
    JointSpring,
    OpenTree,
    Potential,
    SmoothContact,
)
from liebody.mechanisms.constrained import (
    AbsoluteTree,
    ClosedTree,
    Closure,
    Condition,
    System,
    SystemBuilder,
    system,
)
from liebody.mechanisms.constrained.maximal import joint_coordinates
from liebody.scalars import absolute, tanh

BAR = SpatialInertia.box(1.0, [1.0, 0.3, 0.2], com=[0.5, 0, 0])
Y = [0, 1, 0]
METHODS = {"rkmk4": 4, "radau5": 5, "variational": 2}


@dataclass(frozen=True)
class Drag(JointForce):
    """What a user adds: one class of a few lines."""

    c: float

    def effort(self, t, x, v):
        return -self.c * v * absolute(v)


@dataclass(frozen=True)
class Coil(JointForce):
    """A torsion spring, with its energy."""

    k: float
    name = "coil"

    def numbers(self, joint):
        return (self.k,) if joint.name == "A" else None

    def effort(self, t, x, v, k):
        return -k * (x - 0.2)

    def energy(self, x, k):
        return 0.5 * k[0] * (x[0] - 0.2) ** 2


@dataclass(frozen=True)
class Tether(FrameForce):
    """A spring from the origin of a body to a place in the world."""

    body: str
    k: float
    name = "tether"

    @property
    def frames(self):
        return (self.body,)

    def wrenches(self, t, T, V):
        force = -self.k * T[:3, :3].T @ (T[:3, 3] - [0.3, 0.4, 0.5])
        return [np.concatenate([np.zeros(3, int), force])]

    def energy(self, T):
        d = T[:3, 3] - [0.3, 0.4, 0.5]
        return 0.5 * self.k * (d @ d)


def two_bars(friction=(0.3, 0.0)) -> Tree:
    """Two bars on hinges A and B, dampers in both."""
    builder = TreeBuilder("two bars").add(
        "a", Joint("A", Revolute(Y), friction=friction[0], damping=0.1), BAR
    )
    second = Joint("B", Revolute(Y), friction=friction[1], damping=0.2 * (friction[1] > 0))
    return builder.add("b", second, BAR, "a", [1.0, 0, 0]).frame("end", "a", [1.0, 0, 0]).build()


def closed_bars() -> ClosedTree:
    """The same bars: the second moves in the plane, and a closure makes hinge B."""
    builder = TreeBuilder("closed").add("a", Joint("A", Revolute(Y), friction=0.3, damping=0.1), BAR)
    builder.add("b", Planar(Y), BAR).frame("end", "a", [1.0, 0, 0])
    closure = Condition("pin", lambda A, B: (A[:3, 3] - B[:3, 3])[np.array([0, 2])], ("end", "b"))
    return ClosedTree(builder.build(), [closure])


START = (np.array([0.3, 0.7]), np.array([1.5, -2.0]))


def simulated(kind: str, forces=(), **options) -> np.ndarray:
    """(angles, rates) of the two bars at the end, from their coordinates in this kind of mechanism."""
    tree, (q, v) = two_bars(), START
    if kind == "robot":
        run = lb.simulate(lb.Robot(tree), q, v, forces=forces, **options)
        return np.r_[run.q[-1], run.v[-1]]
    if kind == "hybrid":
        h = options.pop("dt")
        made = robot_system(lb.Robot(tree), *forces, step=h)
        run = made.simulate(q, v, record_every=options["t_end"], **options)
        return np.r_[run.q[-1], run.v[-1]]
    if kind == "system":
        absolute_tree = AbsoluteTree(tree)
        run = lb.simulate(absolute_tree.system, *absolute_tree.to_system(q, v), forces=forces, **options)
        return np.concatenate(absolute_tree.to_tree(run.q[-1], run.v[-1]))
    closed = closed_bars()
    place = np.r_[q[0], joint_coordinates(Planar(Y), body_poses(tree, q)[1])]
    rates = np.r_[v[0], np.linalg.pinv(Planar(Y).S) @ body_twists(tree, q, v)[1]]
    run = lb.simulate(closed, place, rates, forces=forces, **options)
    q, v = run.q[-1], run.v[-1]
    return np.array([q[0], q[1] - q[0], v[0], v[1] - v[0]])


@pytest.fixture(scope="module")
def exact() -> np.ndarray:
    """With friction, by small steps of order eight."""
    return simulated("robot", [JointFriction(v_s=0.3)], t_end=0.4, dt=1e-3, method="rkmk8")


CASES = [(kind, m) for kind in ("robot", "system", "closed", "hybrid") for m in METHODS][:-2]


@pytest.mark.parametrize(("kind", "method"), CASES)
@pytest.mark.many
def test_friction_acts_in_every_mechanism_by_every_method_of_its_order(kind, method, exact):
    """Hybrid systems have explicit methods only."""
    order = METHODS[method]
    steps = {4: (20, 40), 5: (8, 16), 2: (40, 80)}[order]
    forces = [JointFriction(v_s=0.3)]
    errors = [
        np.abs(simulated(kind, forces, t_end=0.4, dt=0.4 / n, method=method) - exact).max() for n in steps
    ]
    slope = math.log2(errors[0] / errors[1])
    assert errors[1] < 3e-3 and slope > order - 0.35, (errors, slope)


def test_friction_takes_part_in_the_motion(exact):
    assert np.abs(simulated("robot", t_end=0.4, dt=1e-2) - exact).max() > 0.05


# -- a block that friction stops: v_s asinh(sinh(v0/v_s) exp(-mu t/(m v_s))) ---------------------------------

MASS, MU, SLOW = 2.0, 3.0, 0.05


def block(kind: str):
    """A block on a slide: the mechanism, its state at 1 m/s, and its velocity in a run."""
    slide = Joint("slide", Prismatic([1, 0, 0]), friction=MU)
    box = SpatialInertia.box(MASS, [0.1, 0.1, 0.1])
    if kind == "robot":
        return (
            lb.Robot(TreeBuilder("block").add("box", slide, box).build()),
            [0.0],
            [1.0],
            lambda run: run.v[:, 0],
        )
    if kind == "system":
        made = SystemBuilder("block").body("box", box).joint("slide", slide, "world", "box").build()
        q = made.guess
        return made, q, made.velocities(q, {"box": [0, 0, 0, 1, 0, 0]}), lambda run: run.v[:, 3]
    half = SpatialInertia.box(MASS / 2, [0.1, 0.1, 0.1])
    builder = TreeBuilder("block").add("box", slide, half).add("rider", Revolute([0, 0, 1]), half, "box")
    guide = Condition("guide", lambda T: T[0, 1], ("rider",))
    return ClosedTree(builder.build(), [guide]), [0.0, 0.0], [1.0, 0.0], lambda run: run.v[:, 0]


@pytest.mark.parametrize("method", ["rkmk4", "radau5", "variational", "generalized-alpha"])
@pytest.mark.parametrize("kind", ["robot", "system", "closed"])
@pytest.mark.many
def test_a_sliding_block_slows_down_as_the_law_says(kind, method):
    made, q, v, speed = block(kind)
    second = method in ("variational", "generalized-alpha")
    run = lb.simulate(
        made, q, v, t_end=0.8, dt=1e-3 if second else 4e-3, method=method, forces=[JointFriction(v_s=SLOW)]
    )
    with mpmath.workdps(30):
        exact = [
            float(
                SLOW * mpmath.asinh(mpmath.sinh(1 / mpmath.mpf(SLOW)) * mpmath.exp(-MU * t / (MASS * SLOW)))
            )
            for t in map(mpmath.mpf, run.t.tolist())
        ]
    assert exact[-1] < 1e-3 < exact[len(exact) // 2]
    assert np.abs(speed(run) - exact).max() < (2e-4 if second else 2e-5)


def test_stiff_friction_is_differentiated_by_implicit_methods():
    """dt = 20 m v_s / mu, at which explicit methods oscillate: the block comes to rest."""
    made, q, v, _ = block("robot")
    law = [JointFriction(v_s=1e-4)]
    dt = 20 * MASS * 1e-4 / MU
    stopped = lb.simulate(made, q, v, t_end=600 * dt, dt=dt, method="radau5", forces=law)
    assert abs(stopped.v[-1, 0]) < 1e-9
    assert stopped.q[-1, 0] == pytest.approx(MASS / (2 * MU), rel=1e-3)  # v0^2 m/(2 mu)
    jumping = lb.simulate(made, q, v, t_end=600 * dt, dt=dt, forces=law)
    assert abs(jumping.v[-1, 0]) > 1e-4


# -- energy --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
def test_what_friction_takes_is_what_the_motion_loses(method):
    """T + U falls by the integral of mu tanh(v/v_s) v, of the joint with friction (Simpson's rule)."""
    robot = lb.Robot(two_bars())
    run = lb.simulate(
        robot, *START, t_end=1.0, dt=1e-3, method=method, joints="ideal", forces=[JointFriction(v_s=0.3)]
    )
    power = 0.3 * np.tanh(run.v[:, 0] / 0.3) * run.v[:, 0]
    lost = (power[0] + 4 * power[1:-1:2].sum() + 2 * power[2:-1:2].sum() + power[-1]) * 1e-3 / 3
    gate = 1e-3 if method == "variational" else 1e-7
    assert lost > 0.1 and run.energy[0] - run.energy[-1] == pytest.approx(lost, abs=gate)


def test_the_ledger_of_a_hybrid_system_books_each_force():
    robot = lb.Robot(two_bars((0.3, 0.2)))
    made = robot_system(robot, JointFriction(v_s=0.3), Coil(2.0), Tether("b", 3.0), step=1e-3)
    ledger = made.ledger(made.simulate(*START, t_end=1.0, record_every=0.5))
    assert set(ledger.losses) == {"damping", "friction", "coil", "tether"}
    assert set(ledger.stored) == {"coil_energy", "tether_energy"}
    assert ledger.losses["friction"] > 0.1 and ledger.losses["damping"] > 0.1
    assert max(abs(ledger.losses[name]) for name in ("coil", "tether")) < 1e-9
    assert abs(ledger.residual) < 1e-9 * ledger.throughput


@pytest.mark.parametrize("kind", ["robot", "system", "closed"])
@pytest.mark.many
def test_energy_that_forces_store_is_energy_of_the_run(kind):
    tree = two_bars((0.0, 0.0))
    forces, options = [Coil(20.0), Tether("b", 30.0)], {"t_end": 0.5, "dt": 1e-3}
    q, v = START
    if kind == "robot":
        run = lb.simulate(lb.Robot(tree), q, v, forces=forces, joints="ideal", **options)
    elif kind == "system":
        made = SystemBuilder("bars").body("a", BAR).body("b", BAR)
        made.joint("A", Revolute(Y), "world", "a").joint("B", Revolute(Y), "a", "b", on_parent=[1.0, 0, 0])
        run = lb.simulate(made.build(), AbsoluteTree(tree).to_system(q)[0], forces=forces, **options)
    else:
        builder = TreeBuilder("closed").add("a", Joint("A", Revolute(Y)), BAR)
        builder.add("b", Planar(Y), BAR).frame("end", "a", [1.0, 0, 0])
        pin = Closure("pin", 0.5, "end", "b")
        made = ClosedTree(builder.build(), [pin])
        run = lb.simulate(made, made.assemble([0.3, 0.4, 1.2, 0.1]), forces=forces, **options)
    assert run.energy_drift < 1e-8 and np.ptp(run.potential) > 0.1


# -- laws of one's own, in a few lines -----------------------------------------------------------------------


@pytest.mark.wide
def test_a_law_of_ones_own_acts_alike_in_every_mechanism():
    law = [Drag(0.4), Coil(8.0)]
    options = {"t_end": 0.3, "dt": 2e-3}
    robot = simulated("robot", law, **options)
    assert np.abs(robot - simulated("robot", **options)).max() > 1e-2
    for kind in ("system", "hybrid"):
        np.testing.assert_allclose(simulated(kind, law, **options), robot, atol=1e-9)
    closed = simulated("closed", [Coil(8.0)], **options)
    np.testing.assert_allclose(closed, simulated("robot", [Coil(8.0)], **options), atol=1e-9)


@pytest.mark.wide
def test_springs_in_joints_are_those_of_the_builder_of_systems():
    """Two springs in one joint, one of them past half a turn from its rest; and the energy in them."""
    law = [JointSpring({"A": 8.0, "B": 5.0}, {"A": 3.0}), JointSpring({"A": 2.0})]
    options = {"t_end": 0.3, "dt": 2e-3}
    for kind, some in (("system", law), ("hybrid", law[:1])):
        robot = simulated("robot", some, **options)
        np.testing.assert_allclose(simulated(kind, some, **options), robot, atol=1e-9)
    made = SystemBuilder("bars").body("a", BAR).body("b", BAR)
    made.joint("A", Revolute(Y), "world", "a").joint("B", Revolute(Y), "a", "b", on_parent=[1.0, 0, 0])
    made.joint_spring("one", "A", 8.0, 3.0).joint_spring("two", "A", 2.0).joint_spring("three", "B", 5.0)
    tree = two_bars((0.0, 0.0))
    robot = lb.simulate(lb.Robot(tree), *START, forces=law, joints="ideal", **options)
    places = AbsoluteTree(tree)
    run = lb.simulate(made.build(), *places.to_system(*START), **options)
    np.testing.assert_allclose(places.to_tree(run.q[-1])[0], robot.q[-1], atol=1e-9)
    np.testing.assert_allclose(run.energy, robot.energy, rtol=1e-8)
    assert robot.energy_drift < 1e-7 and np.ptp(robot.potential) > 0.1


@pytest.mark.wide
def test_wrenches_on_frames_are_those_of_a_system_with_such_a_force():
    """Tether on a body of a robot, of a closed tree and of a system; and given to the builder as a wrench."""
    options, law = {"t_end": 0.3, "dt": 2e-3}, Tether("b", 40.0)
    robot = simulated("robot", [law], **options)
    assert np.abs(robot - simulated("robot", **options)).max() > 1e-2
    for kind in ("system", "closed", "hybrid"):
        np.testing.assert_allclose(simulated(kind, [law], **options), robot, atol=1e-9)


@pytest.mark.wide
def test_generalised_forces_are_dual_to_the_velocities():
    """Weight, as a force of a user's own in absolute coordinates, moves bodies as gravity does."""

    class Weight(Force):
        def efforts(self, t, q, v):
            return np.tile([0, 0, 0, 0, 0, -9.81], 2)

    def bars(gravity) -> System:
        made = SystemBuilder("bars", gravity)
        for name, place in (("a", [0, 0, 0]), ("b", [1.0, 0, 0])):
            made.body(name, BAR, place, "SO3xR3")
        made.joint("A", Spherical(), "world", "a")
        return made.joint("B", Spherical(), "a", "b", on_parent=[1.0, 0, 0]).build()

    options = {"t_end": 0.3, "dt": 2e-3}
    falls = lb.simulate(bars((0, 0, -9.81)), **options)
    pushed = lb.simulate(bars((0, 0, 0)), forces=[Weight()], **options)
    np.testing.assert_allclose(pushed.q, falls.q, atol=1e-11)
    flow = mechanical_method("variational").flow
    falls, pushed = bars((0, 0, -9.81)), bars((0, 0, 0)).with_forces(Weight())
    q = falls.assemble()
    ends = [flow(**made.mechanics()).run(q, np.zeros(12), 0.1, 2e-3).q[-1] for made in (falls, pushed)]
    np.testing.assert_allclose(ends[1], ends[0], atol=1e-12)


def test_accelerations_and_reactions_know_the_forces():
    closed, law = closed_bars(), JointFriction(v_s=0.3)
    q, v = closed.assemble([0.3, 1.0, 1.0, -0.3]), np.array([1.5, 0.2, 0.0, 0.0])
    v = closed.consistent_velocities(q, v)
    mine, u = closed.with_forces(law), np.array([-0.3 * np.tanh(v[0] / 0.3), 0, 0, 0])
    for found, expected in zip(mine.accelerations(q, v), closed.accelerations(q, v, u), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)
    assert closed.with_forces(law) is mine and closed.with_forces() is closed


@pytest.mark.wide
def test_long_systems_have_friction_in_loops(monkeypatch):
    """A chain whose functions are programs moves as one whose functions are straight lines."""

    def chain() -> System:
        made, before = SystemBuilder("chain"), "world"
        for i in range(12):
            joint = Joint(f"j{i}", Revolute(Y), friction=0.1 * (1 + i), damping=0.01 * (i % 3))
            at = [0.2, 0, 0] if i else None
            made.body(f"b{i}", SpatialInertia.box(1.0, [0.2, 0.1, 0.05], com=[0.1, 0, 0]), [0.2 * i, 0, 0])
            made.joint(f"j{i}", joint, before, f"b{i}", on_parent=at)
            before = f"b{i}"
        return made.build()

    runs = []
    for large in (10, 10**9):
        monkeypatch.setattr(system, "LARGE", large)
        made = chain()
        assert made.is_large == (large == 10)
        runs.append(lb.simulate(made, t_end=0.05, dt=1e-3, forces=[JointFriction(v_s=0.1)]))
    np.testing.assert_allclose(runs[0].q, runs[1].q, atol=1e-11)
    assert np.abs(runs[0].v[-1] - lb.simulate(made, t_end=0.05, dt=1e-3).v[-1]).max() > 1e-3


def test_long_robots_have_friction_in_loops():
    """A chain of 150 hinges: its field is a program; small steps of it are those of the dense equations."""
    builder, parent = TreeBuilder("chain"), "world"
    for i in range(150):
        joint = Joint(f"j{i}", Revolute(Y), friction=0.01 * (1 + i % 4), damping=0.01)
        builder.add(
            f"b{i}", joint, SpatialInertia.box(1.0, [0.2, 0.1, 0.05], com=[0.1, 0, 0]), parent, [0.2, 0, 0]
        )
        parent = f"b{i}"
    tree, law = builder.build(), JointFriction(v_s=0.1)
    made = OpenTree(tree, forces=(JointDamping(), law))
    field = made.parts().field()
    assert isinstance(field, Program)
    rng = np.random.default_rng(0)
    q, v = 0.1 * rng.standard_normal(150), rng.standard_normal(150)
    mu = np.array([body.joint.friction[0] for body in tree.bodies])
    losses = 0.01 * v + mu * np.tanh(v / 0.1)
    rest = bias_forces(tree, q, v)
    expected = np.linalg.solve(mass_matrix(tree, q).astype(float), -losses - rest.astype(float))
    found = compile_numpy(field)(0.0, np.r_[q, v], np.zeros(150))[150:]
    np.testing.assert_allclose(found, expected, rtol=1e-7, atol=1e-6 * np.abs(expected).max())


# -- what is kept, read and refused --------------------------------------------------------------------------


def test_flows_are_kept_for_equal_forces():
    robot = lb.Robot(two_bars())
    for _ in range(3):
        lb.simulate(robot, *START, t_end=0.01, dt=1e-3, forces=[JointFriction({"A": 0.2})])
    (damped,) = robot.flows.values()
    (made,) = damped.flows.values()
    assert len(made.flows) == 1


def test_damping_is_a_force_among_others():
    robot, options = lb.Robot(two_bars()), {"t_end": 0.1, "dt": 1e-3}
    run = lb.simulate(robot, *START, **options)
    again = lb.simulate(robot, *START, joints="ideal", forces=[JointDamping()], **options)
    np.testing.assert_array_equal(run.q, again.q)
    open_tree = lb.simulate(OpenTree(robot.tree, forces=(JointDamping(),)), *START, **options)
    np.testing.assert_allclose(open_tree.q, run.q, atol=1e-14)
    np.testing.assert_allclose(open_tree.energy, run.energy, atol=1e-12)


def test_friction_of_a_urdf_is_read(tmp_path):
    text = """<robot name="r"><link name="base"/><link name="arm"><inertial><origin xyz="0.5 0 0"/>
    <mass value="1"/><inertia ixx="0.1" ixy="0" ixz="0" iyy="0.1" iyz="0" izz="0.1"/></inertial></link>
    <joint name="hinge" type="continuous"><parent link="base"/><child link="arm"/><axis xyz="0 0 1"/>
    <dynamics friction="0.25"/></joint></robot>"""
    path = tmp_path / "r.urdf"
    path.write_text(text)
    robot = lb.load(path)
    run = lb.simulate(robot, v0=[1.0], t_end=0.5, dt=1e-3, forces=[JointFriction(v_s=1e-2)])
    assert run.v[-1, 0] == pytest.approx(1 - 0.5 * 0.25 / 0.35, abs=1e-9)  # far from rest: -mu


def test_a_follower_rubs_at_the_velocity_of_its_leader():
    """Joint f turns -2 times as fast as A: its friction takes the power mu |2 v| of A."""
    builder = TreeBuilder("followed").add("a", Joint("A", Revolute(Y)), BAR)
    builder.add("f", Joint("F", Revolute(Y), friction=0.5, mimic=lb.bodies.Mimic("A", -2.0)), BAR, "a")
    (tau,) = JointFriction(v_s=1e-3).on_tree(builder.build(), 0.0, np.zeros(1), np.array([3.0]))
    assert tau == pytest.approx(-1.0)


@dataclass(frozen=True)
class Wide(JointForce):
    def effort(self, t, x, v):
        return np.zeros(7)


@dataclass
class Unhashable(JointForce):
    c: float = 1.0


@pytest.mark.parametrize("made", [lambda: lb.Robot(two_bars()), closed_bars], ids=["robot", "closed"])
@pytest.mark.parametrize(
    ("force", "error", "words"),
    [
        (3, ModelError, ["3", "JointFriction()"]),
        ("frictoin", ModelError, ["'frictoin'", "did you mean 'friction'"]),
        (JointFriction({"C": 1.0}), ModelError, ["'C'", "A"]),
        (Wide(), ShapeError, ["Wide", "(7,)", "(1,)"]),
        (Unhashable(), ModelError, ["Unhashable", "frozen"]),
    ],
)
def test_what_is_no_force_is_refused(made, force, error, words):
    with pytest.raises(error) as caught:
        lb.simulate(made(), t_end=0.01, dt=1e-3, forces=[force])
    assert all(word in str(caught.value) for word in words), caught.value


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: JointFriction(-1.0), "JointFriction: mu is -1.0; give zero or more"),
        (lambda: JointFriction({"A": -1.0}), "mu is -1.0; give zero or more"),
        (lambda: JointFriction({"A": None}), "mu is None, expected numbers or symbols"),
        (lambda: JointFriction(np.inf), "mu is inf; give zero or more"),
        (lambda: JointFriction("rough"), "mu is 'rough', expected numbers or symbols"),
        (lambda: JointFriction(v_s=None), "v_s is None, expected numbers or symbols"),
        (lambda: JointFriction(v_s=0.0), "v_s is 0.0; give a positive number"),
        (lambda: JointSpring(-2.0), "JointSpring: stiffness is -2.0; give zero or more"),
        (lambda: JointSpring(2.0, {"A": np.nan}), "rest is nan; give a finite number"),
        (lambda: JointLimits("hard"), "stiffness is 'hard', expected numbers or symbols"),
        (lambda: JointLimits(1e4, -1.0), "damping_time is -1.0; give zero or more"),
        (lambda: JointLimits(1e4, {"A": 1e-3}), "damping_time is {'A': 0.001}; give one number for all"),
        (lambda: JointFriction(v_s={"A": 1e-3}), "v_s is {'A': 0.001}; give one number for all joints"),
        (lambda: JointSpring((1.0, 2.0)), "stiffness is (1.0, 2.0); give a number, or {name of a joint"),
        (lambda: SmoothContact(3), "SmoothContact: frames is 3, expected names of frames"),
        (lambda: SmoothContact("tip", width=0.0), "width is 0.0; give a positive number"),
        (lambda: SmoothContact("tip", height=np.nan), "height is nan; give a finite number"),
    ],
)
def test_laws_refuse_numbers_that_cannot_be(make, words):
    with pytest.raises(LiebodyError, match=re.escape(words)):
        make()


@pytest.mark.parametrize("law", [JointFriction, JointSpring, JointLimits])
@pytest.mark.parametrize("value", [{"A": 0.2}, {"B": 0.2}, (("A", 0.2),), (0.2, 0.3), [0.2], "soft"])
def test_numbers_of_laws_are_taken_and_act_or_are_refused_at_once(law, value):
    """Each field with each kind of value: no law is made that fails when it acts."""
    tree = (
        TreeBuilder("two")
        .add("a", Joint("A", Revolute([0, 0, 1]), -1.0, 1.0), SpatialInertia.sphere(1.0, 0.1))
        .add("b", Joint("B", Revolute([0, 1, 0]), -1.0, 1.0), SpatialInertia.sphere(1.0, 0.1), "a")
        .build()
    )
    for field in fields(law):
        numbers = {"stiffness": 1.0} if law is JointLimits else {}
        try:
            made = law(**(numbers | {field.name: value}))
        except LiebodyError as error:
            assert f"{law.__name__}: {field.name}" in str(error)
            continue
        assert np.isfinite(made.on_tree(tree, 0.0, np.array([1.2, 0.5]), np.array([0.3, -0.4]))).all()
        hash(made)


def test_forces_of_a_name_are_told_apart_in_a_hybrid_system():
    with pytest.raises(ModelError, match="friction"):
        robot_system(lb.Robot(two_bars()), JointFriction(0.1), JointFriction(0.2))


def test_tanh_and_its_derivative_are_exact_over_decades():
    function = trace(lambda x: tanh(x), {"x": 1}, "tanh")
    slope = jacobian(function, "x", "forward")
    with mpmath.workdps(40):
        for size in [0.0, *np.logspace(-12, 3, 61), *np.linspace(0.2, 0.3, 21)]:
            for x in (size, -size):
                exact = mpmath.tanh(mpmath.mpf(float(x)))
                assert float(function(np.array([x]))[0]) == pytest.approx(float(exact), rel=4e-16, abs=0)
                derivative = float(mpmath.sech(mpmath.mpf(float(x))) ** 2)
                assert float(slope(np.array([x]))[0, 0]) == pytest.approx(derivative, rel=2e-15)


@pytest.mark.parametrize("kind", ["system", "closed"])
@pytest.mark.many
def test_the_balance_of_energy_counts_efforts_dampers_and_forces(kind):
    """By the trapezoidal rule: a quarter of what is left over with intervals half as long."""
    jumps = []
    for every in (4e-3, 2e-3):
        options = {
            "t_end": 0.4,
            "dt": 1e-3,
            "record_every": every,
            "forces": [JointFriction(v_s=0.3), Coil(2.0)],
        }
        if kind == "closed":
            made = closed_bars()
            q = np.r_[0.3, joint_coordinates(Planar(Y), body_poses(two_bars(), START[0])[1])]
            v = made.consistent_velocities(q, [1.5, 0, 0, 0])
            run = lb.simulate(made, q, v, tau=[0.7, 0, 0, 0], **options)
        else:
            places = AbsoluteTree(two_bars())
            run = lb.simulate(places.system, *places.to_system(*START), tau=[0.7, -0.4], **options)
        assert np.ptp(run.energy) > 0.1
        jumps.append(float(run.largest_energy_jump) / every)
    assert jumps[1] < 1e-3 and np.log2(jumps[0] / jumps[1]) == pytest.approx(2, abs=0.3)


# -- contact -----------------------------------------------------------------------------------------------


def test_smooth_contact_carries_a_weight_and_slows_what_slides():
    """At rest at the depth m g / K; what slides stops after v^2 / 2 mu g, where slips are fast."""
    sled = TreeBuilder("sled").add("x", Prismatic([1, 0, 0]), SpatialInertia.sphere(1.0, 0.1))
    sled.add("z", Prismatic([0, 0, 1]), SpatialInertia.sphere(1.0, 0.1), parent="x")
    robot, ground = lb.Robot(sled.build()), SmoothContact("z", stiffness=2e3, friction=0.5, viscosity=1e3)
    start = [0.0, -9.81 / ground.stiffness]  # z carries 1 kg
    run = lb.simulate(robot, start, [3.0, 0.0], t_end=2.0, dt=2e-4, forces=[ground])
    slowing = 0.5 * 9.81 / 2  # of both
    assert run.q[-1, 0] == pytest.approx(9.0 / (2 * slowing), rel=0.01)
    np.testing.assert_allclose(run.q[:, 1], start[1], rtol=1e-6)


def test_smooth_contact_is_the_slope_of_its_energy_and_has_no_jump():
    ground = SmoothContact("foot", damping=0.7, normal=(0.0, 0.6, 0.8), height=0.2)
    rng = np.random.default_rng(0)
    n, T = np.array([0.0, 0.6, 0.8]), np.eye(4)

    def energy(y):
        T[:3, 3] = (0.2 + y) * n
        return ground.energy(T)

    for y in (-4e-3, -1.1e-3, -0.7e-3, 0.3e-3, 0.9e-3, 2e-3):
        push = ground.force((0.2 + y) * n, np.zeros(3))
        assert n @ push == pytest.approx(-(energy(y + 1e-7) - energy(y - 1e-7)) / 2e-7, rel=1e-5, abs=1e-6)
        np.testing.assert_allclose(push, (n @ push) * n, atol=1e-12)
        u = rng.normal(size=3)
        moved, along = ground.force((0.2 + y) * n, u), u - (n @ u) * n
        assert n @ moved == pytest.approx(n @ push * max(1 - 0.7 * n @ u, 0))
        assert np.linalg.norm(moved - (n @ moved) * n) <= 0.8 * (n @ moved) + 1e-12 and moved @ along <= 0
    gaps = [ground.force((0.2 + y) * n, -n) for y in (1e-3 - 1e-9, 1e-3 + 1e-9)]
    assert np.abs(gaps[0]).max() < 1e-9 and not gaps[1].any()  # it begins from nothing


@pytest.mark.parametrize(
    "options",
    [{"stiffness": -1.0}, {"width": 0.0}, {"normal": (0, 0, 0)}, {"friction": np.nan}, {"damping": "soft"}],
)
def test_smooth_contact_says_what_it_takes(options):
    with pytest.raises(LiebodyError, match="SmoothContact: " + next(iter(options))):
        SmoothContact("foot", **options)


class Well:
    """A potential of a user's own, whose text says nothing of its numbers."""

    def __init__(self, stiffness):
        self.stiffness = stiffness

    def __repr__(self):
        return "a well"

    def __call__(self, q):
        return 0.5 * self.stiffness * (q @ q)


def test_potentials_with_the_same_text_are_compiled_each():
    """Libraries are found by texts, and that of a function may be its address."""

    def end(stiffness):
        robot = lb.load("double_pendulum")
        well = Potential(Well(stiffness), robot.group)
        return lb.simulate(robot, [0.4, 0.1], t_end=0.1, dt=1e-2, forces=[well]).q[-1]

    np.testing.assert_allclose(
        end(0.0), lb.simulate(lb.load("double_pendulum"), [0.4, 0.1], t_end=0.1, dt=1e-2).q[-1]
    )
    assert np.abs(end(5.0) - end(0.0)).max() > 1e-3


def test_forces_with_fields_that_have_no_hash_are_refused():
    with pytest.raises(ModelError, match=r"has no hash, .* of numbers and tuples"):
        lb.simulate(lb.load("double_pendulum"), t_end=0.1, dt=1e-2, forces=[JointSpring(np.array(3.0))])
