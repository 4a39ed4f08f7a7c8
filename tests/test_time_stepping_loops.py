"""Closed loops in time stepping, alone and on the ground: a four-bar, and a leg that is one."""

from dataclasses import dataclass

import numpy as np
import pytest
from constrained_models import four_bar

import liebody as lb
from liebody.base.errors import ConfigurationError, ModelError
from liebody.bodies import Joint, SpatialInertia, TreeBuilder
from liebody.compiler import Function, Program
from liebody.compiler.printers.numpy_source import compile_numpy
from liebody.contact import Contact, TimeStepping, time_stepping
from liebody.groups import Prismatic, Revolute
from liebody.hybrid import JointPD, robot_system
from liebody.mechanisms import FrameForce, JointSpring
from liebody.mechanisms.constrained import ClosedTree, Closure
from liebody.scalars import maximum, where

G = 9.81
TRUNK, ROD, SOLE, LENGTH = 5.0, 0.5, 0.3, 0.4  # kg, kg, kg, m
THIN, K = 0.02, 400.0  # half the thickness of the sole [m]; stiffness of the drive [N m/rad]


@pytest.fixture(scope="module")
def four_bars():
    """A planar four-bar in space, whose closing hinge has three redundant equations of five, and a state."""
    closed = ClosedTree(four_bar(), [Closure("C", Revolute([0, 1, 0]), "end", "tip")])
    q = closed.assemble(np.array([-1.0, 0.5, -2.0]))
    return closed, q, closed.consistent_velocities(q, np.array([3.0, 0, 0]), hold=["A"])


def leg():
    """A trunk on a vertical slide, on a leg with two parallel rods that keep the sole level."""
    builder = TreeBuilder("leg").add("trunk", Prismatic([0, 0, 1]), SpatialInertia.point(TRUNK))
    rod = SpatialInertia.box(ROD, [0.02, 0.02, LENGTH], com=[0, 0, -LENGTH / 2])
    hinge = Revolute([0, 1, 0])
    builder.add("front", Joint("hip", hinge), rod, "trunk").frame("front_end", "front", [0, 0, -LENGTH])
    builder.add("rear", Joint("rear_hip", hinge), rod, "trunk", [-0.2, 0, 0])
    builder.frame("rear_end", "rear", [0, 0, -LENGTH])
    box = SpatialInertia.box(SOLE, [0.3, 0.1, 2 * THIN], com=[-0.1, 0, 0])
    builder.add("sole", Joint("ankle", hinge), box, "front", [0, 0, -LENGTH])
    builder.frame("rear_pin", "sole", [-0.2, 0, 0])
    builder.frame("toe", "sole", [0.05, 0, -THIN]).frame("heel", "sole", [-0.25, 0, -THIN])
    return builder.build()


PIN = Closure("pin", Revolute([0, 1, 0]), "rear_end", "rear_pin")


def folded(angle, above=0.0):
    """q of the trunk's height, hip, ankle and rear hip, with the sole level, so far above the ground."""
    height = LENGTH * np.cos(angle) + THIN + above
    return np.array([height, angle, -angle, angle])


@pytest.fixture(scope="module")
def standing():
    closed = ClosedTree(leg(), [PIN])
    drive = JointPD(K=[0, K, 0, 0], D=[0, 20, 0, 0], q_des=[0, 0.4, 0, 0], gravity_compensation=False)
    floor = Contact("toe", "heel", stiffness=1e6, damping=1e4, friction=0.5)
    system = TimeStepping(closed, drive, floor, actuated=["hip"], sweeps=8)
    frictions = [0.0, 0.5]
    run = system.simulate(
        folded(0.5, above=0.1),
        t_end=4.0,
        dt=1e-3,
        record_every=0.01,
        parameters={"floor_friction": frictions},
    )
    return closed, system, run


@pytest.mark.wide
def test_a_four_bar_comes_to_the_constrained_solvers_motion_at_first_order(four_bars):
    closed, q, v = four_bars
    system = TimeStepping(closed)
    options = {"t_end": 0.8, "record_every": 0.08}
    run = system.simulate(q, v, **options, parameters={"step": [4e-3, 2e-3, 1e-3]})
    exact = lb.simulate(closed, q, v, dt=5e-4, **options)
    far = np.abs(run.q - exact.q).max(axis=(1, 2))
    assert far[-1] < 5e-3
    np.testing.assert_allclose(np.log2(far[:-1] / far[1:]), 1, atol=0.1)
    apart = [np.abs(closed.violation(x)["C"]).max() for x in run.q]
    assert apart[-1] < 1e-6
    np.testing.assert_allclose(np.log2(np.divide(apart[:-1], apart[1:])), 3, atol=0.3)


@pytest.mark.wide
def test_loops_stay_closed_over_long_runs_and_gain_no_energy(four_bars):
    """Without losses, the energy of the method swings, and decreases slowly."""
    closed, q, v = four_bars
    system = TimeStepping(closed)
    run = system.simulate(q, v, t_end=20.0, record_every=0.02, parameters={"step": [2e-3, 1e-3]})
    apart = np.abs(closed.violation(run.q)["C"]).max(axis=-1)
    assert (apart[:, 500:].max(axis=1) < 1.1 * apart[:, :500].max(axis=1)).all() and apart[1].max() < 1e-6
    energy = run.kinetic + run.potential
    assert (energy[:, 250:].max(axis=1) < energy[:, :250].max(axis=1)).all()
    given = np.abs(run.work["loops"]).max(axis=1)  # by the loop: of second order, and nearly nothing
    assert given[1] < 1e-4 * run.kinetic.max() and np.log2(given[0] / given[1]) > 2


@pytest.mark.wide
def test_a_leg_with_a_loop_stands_where_its_statics_say(standing):
    """Without friction: the hip at the angle a where K (0.4 - a) = -(trunk + one rod) g L sin a."""
    _, _, run = standing
    _, a, ankle, rear = run.q[0, -1]
    assert np.abs(run.v[:, -1]).max() < 1e-6
    assert rear == pytest.approx(a, abs=1e-9) and ankle == pytest.approx(-a, abs=1e-9)
    assert K * (0.4 - a) == pytest.approx(-(TRUNK + ROD) * G * LENGTH * np.sin(a), abs=1e-6)
    weight = (TRUNK + 2 * ROD + SOLE) * G
    forces = run.outputs["floor_force"][:, -1]
    np.testing.assert_allclose(forces[..., 2], weight / 2, rtol=1e-6)  # of points that move alike
    np.testing.assert_allclose(run.outputs["floor_height_over"][:, -1], -weight / 2 / 1e6, rtol=1e-6)


@pytest.mark.wide
def test_contact_forces_and_those_of_the_loop_balance_weight_and_drive(standing):
    closed, _, run = standing
    for member in range(2):
        q = run.q[member, -1]
        _, G_loop, _ = closed.measure(q)
        given = run.tau[member, -1] - G_loop.T @ run.outputs["loops_multipliers"][member, -1]
        for point, force in zip(("toe", "heel"), run.outputs["floor_force"][member, -1], strict=True):
            given = given + lb.dynamics.frame_jacobian(closed.tree, q, point, "mixed")[3:].T @ force
        weight = lb.dynamics.gravity_forces(closed.tree, q)
        np.testing.assert_allclose(given, weight, atol=1e-6 * np.abs(weight).max())


@pytest.mark.wide
def test_a_dropped_leg_keeps_its_loop_closed_and_gains_no_energy(standing):
    closed, system, run = standing
    assert np.abs(closed.violation(run.q)["pin"]).max() < 1e-5
    residual = np.sort(run.memory["residual"], axis=1)
    assert (
        residual[:, -1].max() < 0.02 * run.outputs["floor_force"].max()
    )  # as both points touch down at once
    assert residual[:, -40].max() < 1e-5 and run.memory["residual"][:, -1].max() < 1e-9
    lost = sum(run.work[name] for name in ("floor_normal", "floor_tangential", "loops"))
    assert np.diff(lost).min() > -1e-4 * lost[:, -1].max()
    for member in range(2):
        book = system.ledger(run, member)
        assert abs(book.residual) < 2e-3 * book.throughput


@dataclass(frozen=True)
class SoftFloor(FrameForce):
    """The law of `Contact` without friction, under a frame: f = max(-k z - d z', 0) while z < 0."""

    frames: tuple[str, ...]
    k: float
    d: float

    def wrenches(self, t, *motions):
        found = []
        for T, V in zip(motions[::2], motions[1::2], strict=True):
            z, rate = T[2, 3], T[2, :3] @ V[3:]
            push = where(z < 0, maximum(-self.k * z - self.d * rate, 0.0), 0.0)
            found.append(np.concatenate([np.zeros(3, int), push * T[2, :3]]))
        return found


@pytest.mark.slow
def test_a_leg_with_a_loop_lands_as_its_compliant_contact_says():
    closed = ClosedTree(leg(), [PIN])
    floor = Contact("toe", "heel", stiffness=5e3, damping=60.0, friction=0.0)
    spring = JointSpring({"hip": K}, rest={"hip": 0.5})
    system = TimeStepping(closed, floor, spring)
    q0 = folded(0.5, above=0.1)
    options = {"t_end": 0.3, "record_every": 0.05}
    soft = SoftFloor(("toe", "heel"), 5e3, 60.0)
    exact = lb.simulate(closed, q0, **options, dt=2e-5, forces=[soft, spring])
    run = system.simulate(q0, **options, parameters={"step": [4e-4, 2e-4, 1e-4]})
    far = np.abs(run.q - exact.q).max(axis=(1, 2))
    assert run.outputs["floor_force"][..., 2].max() > 10  # it landed
    assert far[-1] < 1e-3
    np.testing.assert_allclose(np.log2(far[:-1] / far[1:]), 1, atol=0.25)


def test_many_points_beside_a_loop_are_loops_that_compute_what_straight_lines_do(monkeypatch):
    fields = []
    for many in (99, 0):
        monkeypatch.setattr(time_stepping, "MANY", many)
        floor = Contact("toe", "heel", stiffness=1e6, damping=1e4, friction=0.5, restitution=0.2)
        system = TimeStepping(ClosedTree(leg(), [PIN]), floor)
        fields.append(system.flow(time_stepping.EULER).functions.field)
    straight, loops = fields
    assert isinstance(straight, Function) and isinstance(loops, Program)
    given = system.parameters.values({}, (), 1e-3)
    for above in (-0.002, 0.0, 0.1):
        y = np.zeros(straight.inputs["y"].size)
        y[:8] = [*folded(0.5, above), -0.3, 0.1, -0.1, 0.1]
        expected = compile_numpy(straight)(0.0, y, given)
        np.testing.assert_allclose(compile_numpy(loops)(0.0, y, given), expected, rtol=1e-9, atol=1e-9)
        assert (np.abs(expected[8:]).max() > 100) == (above <= 0)  # efforts of the ground


def test_closed_loops_need_time_stepping_and_states_that_close_them():
    closed = ClosedTree(leg(), [PIN])
    floor = Contact("toe", "heel", friction=0.5)
    with pytest.raises(ModelError, match="closed loops, which are for time stepping"):
        robot_system(closed, floor)
    with pytest.raises(ModelError, match="gravity of its own"):
        TimeStepping(closed, floor, gravity=(0, 0, -1.62))


MJCF = """
<mujoco><option gravity="0 0 -9.81"/><worldbody>
  <body name="trunk" pos="0 0 0.5"><joint name="rail" type="slide" axis="0 0 1"/>
    <geom type="sphere" size="0.1" mass="5"/>
    <body name="front"><joint name="hip" axis="0 1 0" damping="0.1"/>
      <geom type="capsule" fromto="0 0 0 0.2 0 -0.2" size="0.02" mass="0.5"/>
      <body name="shank" pos="0.2 0 -0.2"><joint name="knee" axis="0 1 0" damping="5"/>
        <geom type="capsule" fromto="0 0 0 -0.2 0 -0.2" size="0.02" mass="0.5"/></body></body>
    <body name="rear"><joint name="rear_hip" axis="0 1 0"/>
      <geom type="capsule" fromto="0 0 0 -0.2 0 -0.2" size="0.02" mass="0.5"/>
      <body name="rear_shank" pos="-0.2 0 -0.2"><joint name="rear_knee" axis="0 1 0" damping="5"/>
        <geom type="capsule" fromto="0 0 0 0.2 0 -0.2" size="0.02" mass="0.5"/></body></body>
  </body></worldbody>
  <equality><connect name="foot" body1="shank" body2="rear_shank" anchor="-0.2 0 -0.2"/></equality>
</mujoco>"""


@pytest.mark.wide
@pytest.mark.filterwarnings("ignore::liebody.io.OpenLoops")
def test_a_leg_of_five_bars_from_an_mjcf_falls_on_the_ground_and_stands():
    """Both knees are held by springs; masses, a rod's damping and friction differ from member to member."""
    pytest.importorskip("mujoco")
    robot = lb.load(MJCF)
    closed = ClosedTree(robot.tree, robot.tree.closures).with_parameters("trunk.mass")
    (pin,) = closed.constraints
    springs = JointSpring({"knee": 200.0, "rear_knee": 200.0})
    foot = Contact.of_collisions(robot, "shank", stiffness=1e6, damping=1e4, friction=0.5)
    system = TimeStepping(closed, foot, springs)
    masses = np.array([4.0, 6.0])
    q0 = closed.start()
    run = system.simulate(
        q0,
        t_end=3.0,
        dt=1e-3,
        record_every=0.1,
        parameters={"trunk.mass": masses, "floor_friction": [0.2, 0.8]},
    )
    assert np.abs(closed.plain.violation(run.q)[pin.name]).max() < 1e-4
    (contact,) = foot
    force = run.outputs[f"{contact.name}_force"][:, -1].sum(axis=1)
    np.testing.assert_allclose(force[:, 2], (masses + 2.0) * G, rtol=1e-3)
    with pytest.raises(ConfigurationError, match="q0 opens the loop of 'foot'"):
        system.simulate(q0 + [0, 0.1, 0, 0, 0], t_end=0.1, dt=1e-3)
