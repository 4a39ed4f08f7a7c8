"""Joints as descriptions have them: limits, effort limits, friction, springs, rotors; and ideal ones."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import liebody as lb
from liebody.base.errors import DescriptionError, IntegrationError, LiebodyError, ModelError
from liebody.bodies import JOINT_KINDS, Joint, SpatialInertia, TreeBuilder
from liebody.groups import Prismatic, Revolute
from liebody.io import load_urdf
from liebody.mechanisms import JointDamping, JointFriction, JointLimits, JointSpring, OpenTree
from liebody.mechanisms.constrained import AbsoluteTree, ClosedTree, Condition, SystemBuilder
from liebody.simulation.simulate import PassedLimits, mechanism_of

BOX = SpatialInertia.box(2.0, [0.5, 0.2, 0.1], com=[0.25, 0, 0])
METHODS = ("rkmk4", "rkmk45", "radau5", "generalized-alpha", "variational")


def cart(**numbers) -> lb.Robot:
    """A cart of 2 kg on a rail from -1 m to 1 m."""
    joint = Joint("slider", Prismatic([1, 0, 0]), **{"lower": -1.0, "upper": 1.0, **numbers})
    return lb.Robot(TreeBuilder("cart").add("cart", joint, BOX).build())


# -- limits that do not act are told -----------------------------------------------------------------------


def test_a_motion_beyond_a_limit_is_told_once_in_a_warning_and_in_the_run(tmp_path):
    with pytest.warns(PassedLimits, match=r"slider at 0\.222 s") as told:
        run = lb.simulate(cart(), t_end=2.0, dt=1e-3, tau=[82.0], record_every=2e-3)
    assert len(told) == 1 and told[0].filename == __file__
    assert run.q[-1, 0] == pytest.approx(82.0)  # 41 t^2 / 2 m
    assert "passed_limits slider at 0.222 s" in run.summary()
    run.save(tmp_path / "run.nc")
    assert lb.Run.load(tmp_path / "run.nc").metadata["passed_limits"] == "slider at 0.222 s"


def test_nothing_is_told_within_the_limits_nor_where_joints_were_chosen():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        within = lb.simulate(cart(), v0=[0.5], t_end=2.0, dt=0.5)  # ends on the limit
        ideal = lb.simulate(cart(), v0=[5.0], t_end=2.0, dt=0.5, joints="ideal")
        stopped = lb.simulate(cart(), v0=[5.0], t_end=1.0, dt=1e-3, forces=[JointLimits(1e5)])
    assert "passed_limits" not in {**within.metadata, **ideal.metadata, **stopped.metadata}
    assert within.q[-1, 0] == pytest.approx(1.0) and ideal.q[-1, 0] == pytest.approx(10.0)


@pytest.mark.parametrize("turning", [True, False])
@pytest.mark.many
def test_constrained_systems_that_pass_limits_say_when(turning):
    """A hinge at constant speed, and a slide that falls: a System, and the same as a ClosedTree."""
    kind = Revolute([0, 1, 0]) if turning else Prismatic([0, 0, 1])
    joint = Joint("limited", kind, lower=-0.5, upper=0.25)
    inertia = SpatialInertia.box(1.0, [0.1, 0.2, 0.3])
    builder = SystemBuilder("system", gravity=[0, 0, 0 if turning else -2.0])
    builder.body("body", inertia).joint("limited", joint, "world", "body", [1.0, 2.0, 3.0])
    system = builder.build()
    options = {"t_end": 1.0, "dt": 1e-2}
    speed = np.array([0, 1.0, 0, 0, 0, 0]) if turning else np.zeros(6)
    first = 0.26 if turning else 0.71  # after 0.25 rad at 1 rad/s, and 0.5 m at 2 m/s2, to the next record
    with pytest.warns(PassedLimits, match=rf"limited at {first} s. Give forces="):
        run = lb.simulate(system, None, speed, **options)
    assert run.metadata["passed_limits"] == f"limited at {first} s"
    acting = lb.simulate(system, None, speed, forces=[JointLimits(1e4)], **options)
    assert "passed_limits" not in acting.metadata
    with pytest.warns(PassedLimits, match="limited at 0.5"):  # of one member of two
        lb.simulate(system, None, speed / 2, parameters={"gravity": [[0, 0, 0], [0, 0, -4.0]]}, **options)
    short = lb.simulate(system, None, speed, t_end=0.2, dt=1e-2)
    assert "passed_limits" not in short.metadata


def test_closed_trees_that_pass_limits_say_when():
    tree = TreeBuilder("loop").add(
        "arm", Joint("limited", Revolute([0, 0, 1]), upper=0.25), SpatialInertia.box(1, [1, 1, 1])
    )
    tree.add("slide", Joint("slide", Prismatic([0, 0, 1])), SpatialInertia.box(1, [1, 1, 1]))
    made = ClosedTree(tree.build(), [Condition("low", lambda T: T[2, 3], ("slide",))])
    with pytest.warns(PassedLimits, match=r"limited at 0\.26 s"):
        run = lb.simulate(made, None, [1.0, 0.0], t_end=1.0, dt=1e-2)
    assert run.metadata["passed_limits"] == "limited at 0.26 s"


def test_a_follower_beyond_its_own_limit_is_told():
    builder = TreeBuilder("two").add("a", Joint("A", Revolute([0, 0, 1])), BOX)
    follower = Joint("f", Revolute([0, 0, 1]), -0.5, 0.5, mimic=lb.bodies.Mimic("A", -2.0, 0.1))
    robot = lb.Robot(builder.add("b", follower, BOX, "a", [0.5, 0, 0]).build())
    with pytest.warns(PassedLimits, match=r"f at 0\.35 s"):  # 0.1 - 2 t < -0.5
        lb.simulate(robot, v0=[1.0], t_end=0.5, dt=0.05, record_every=0.05, method="rkmk8")


# -- stops ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
def test_stops_keep_a_joint_within_its_limits_by_every_method(method):
    """It rebounds with a share of its speed, and goes no further than 20 ms of contact allow."""
    step = {} if method == "rkmk45" else {"dt": 1e-3}
    run = lb.simulate(cart(), v0=[1.0], t_end=4.0, method=method, joints="real", **step)
    assert 1.0 < run.q.max() < 1.0 + 0.02 / np.pi and run.q.min() > -1.0
    assert run.v[-1, 0] == pytest.approx(-0.404, abs=4e-3)


def test_a_stop_rebounds_with_the_same_share_at_every_speed_and_only_pushes():
    speeds = np.array([[1e-3], [0.1], [1.0], [100.0]])
    run = lb.simulate(
        cart(), 1.0 - 0.01 * speeds, speeds, t_end=0.05, dt=1e-5, joints={"limits"}, record_every=1e-4
    )
    shares = -run.v[:, -1] / speeds
    np.testing.assert_allclose(shares, shares[1, 0], rtol=1e-6)
    power = np.diff(run.v[..., 0], axis=1)  # the push of the upper stop slows down, and never speeds up
    assert (power <= 1e-12 * speeds).all() and shares[0, 0] == pytest.approx(0.4038, abs=1e-4)


def test_a_stop_without_a_damper_is_a_spring_whose_energy_is_kept():
    k, m, v = 3000.0, 2.0, 0.7
    law = JointLimits({"slider": k})
    run = lb.simulate(cart(), [0.9], [v], t_end=1.0, dt=1e-4, forces=[law], joints="ideal", method="rkmk8")
    assert run.q.max() - 1.0 == pytest.approx(v * np.sqrt(m / k), rel=1e-3)  # sampled
    assert run.energy_drift < 1e-6 and run.v[-1, 0] == pytest.approx(-v, rel=1e-6)
    assert np.ptp(run.potential) == pytest.approx(m * v * v / 2, rel=1e-3)


def test_the_stiffness_of_stops_is_that_of_the_inertia_that_a_joint_feels():
    builder = TreeBuilder("two").add("a", Joint("A", Revolute([0, 1, 0]), -1.0, 2.0), BOX)
    builder.add("b", Joint("B", Revolute([0, 1, 0]), -0.2, np.inf), BOX, "a", [0.5, 0, 0])
    tree = builder.build()
    M = lb.dynamics.mass_matrix(tree, np.array([0.5, -0.2])).astype(float)
    law = JointLimits.stops(tree, contact=0.01)
    felt = 1 / np.diag(np.linalg.inv(M))
    np.testing.assert_allclose([x for _, x in law.stiffness], felt * (np.pi / 0.01) ** 2)
    assert law.damping_time == 0.01 / np.pi


def test_contacts_last_ten_steps_where_steps_are_long():
    robot = cart()
    long, short = (mechanism_of(robot, (), "real", h).forces for h in (0.01, 1e-4))
    (stops,) = [law for law in long if isinstance(law, JointLimits)]
    assert stops == JointLimits.stops(robot.tree, 0.1)
    assert JointLimits.stops(robot.tree, 0.02) in short
    run = lb.simulate(robot, v0=[1.0], t_end=4.0, dt=0.01, joints={"limits"})
    assert np.abs(run.q).max() < 1.04 and np.abs(run.v[-1, 0]) == pytest.approx(0.404, abs=5e-3)


@pytest.mark.parametrize("given", [0.0, -1.0, np.nan, {"slider": -2.0}])
def test_stops_without_stiffness_are_refused(given):
    with pytest.raises(ModelError, match=r"JointLimits: stiffness is .*; give a positive number"):
        JointLimits(given)


# -- efforts -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["rkmk4", "radau5", "variational"])
@pytest.mark.parametrize("kind", ["constant", "samples", "traced"])
def test_efforts_are_kept_within_their_limits_and_passive_forces_are_not(kind, method):
    """m dv/dt = clip(u) - c v with c v > 5 N: v(t) = v_s + (v_0 - v_s) exp(-c t / m)."""
    c, m, v0, t_end = 4.0, 2.0, 10.0, 0.5
    robot = cart(effort_limit=5.0, damping=c, lower=-np.inf, upper=np.inf)
    tau = {
        "constant": [-20.0],
        "samples": (np.array([0.0, 1.0]), np.full((2, 1), -20.0)),
        "traced": lambda t, q, v: np.array([-20.0 - v[0]]),
    }[kind]
    run = lb.simulate(
        robot, v0=[v0], t_end=t_end, dt=2e-3, tau=tau, joints={"damping", "efforts"}, method=method
    )
    limit = -5.0 / c
    assert run.v[-1, 0] == pytest.approx(limit + (v0 - limit) * np.exp(-c * t_end / m), rel=2e-6)
    assert (run.tau == -5.0).all()
    free = lb.simulate(robot, v0=[v0], t_end=t_end, dt=2e-3, tau=tau, method=method)
    assert free.v[-1, 0] < run.v[-1, 0] - 1 and (free.tau < -19).all()


# -- kinds ---------------------------------------------------------------------------------------------------


def lossy() -> lb.Robot:
    joint = Joint(
        "A", Revolute([0, 1, 0]), -1, 1, effort_limit=3.0,
        damping=0.1, friction=0.2, armature=0.3, stiffness=4.0, rest=0.5,
    )  # fmt: skip
    return lb.Robot(TreeBuilder("lossy").add("a", joint, BOX).build())


@pytest.mark.wide
def test_kinds_of_joints_are_the_forces_that_they_name():
    robot, options = lossy(), {"t_end": 0.3, "dt": 1e-3, "v0": [2.0]}
    laws = {
        "damping": JointDamping(),
        "friction": JointFriction(),
        "springs": JointSpring(),
        "limits": JointLimits.stops(robot.tree),
    }
    bare = OpenTree(robot.tree)
    runs = {}
    for kinds in ([], *([x] for x in laws), list(laws)):
        run = lb.simulate(robot, joints=["armature", *kinds], **options)
        expected = lb.simulate(bare.with_forces(*(laws[x] for x in kinds), JointLimits(1e-9)), **options)
        np.testing.assert_allclose(run.q, expected.q, atol=1e-9)
        runs[tuple(kinds)] = run.q[-1, 0]
    assert len(set(runs.values())) >= 5
    real = lb.simulate(robot, joints="real", **options)
    assert real.q[-1, 0] == runs[tuple(laws)]
    assert real.metadata["joints"] == ", ".join(sorted(JOINT_KINDS))


def test_by_default_armature_and_damping_act_and_an_ideal_robot_has_neither():
    robot = lossy()
    options = {"t_end": 0.2, "dt": 1e-3, "v0": [1.0]}
    default = lb.simulate(robot, **options)
    np.testing.assert_array_equal(default.q, lb.simulate(robot, joints={"armature", "damping"}, **options).q)
    ideal = lb.simulate(robot, joints="ideal", **options)
    made = robot.with_joints("ideal")
    np.testing.assert_array_equal(ideal.q, lb.simulate(made, **options).q)
    assert robot.mass_matrix([0.0])[0, 0] - made.mass_matrix([0.0])[0, 0] == pytest.approx(0.3, rel=1e-14)
    assert np.abs(ideal.q - default.q).max() > 1e-3


def test_with_joints_keeps_only_what_is_named():
    robot = lossy()
    fields = [x for kind in JOINT_KINDS.values() for x in kind]
    for kind, own in JOINT_KINDS.items():
        joint = robot.with_joints({kind}).tree.joint("A")
        for name in fields:
            same = np.array_equal(getattr(joint, name), getattr(robot.tree.joint("A"), name))
            assert same == (name in own), (kind, name)
    assert vars(robot.with_joints("real").tree.joint("A")).keys() == vars(robot.tree.joint("A")).keys()


@pytest.mark.parametrize("joints", ["rigid", {"limit"}, ["damping", 3]])
def test_unknown_kinds_of_joints_are_refused(joints):
    with pytest.raises(LiebodyError, match=r"joints (cannot be|has 3)"):
        lb.simulate(cart(), t_end=1.0, dt=0.1, joints=joints)


def test_a_system_has_the_joints_that_it_was_built_with():
    system = AbsoluteTree(lossy().tree.with_joints({"damping"})).system
    with pytest.raises(IntegrationError, match="which a Robot takes"):
        lb.simulate(system, t_end=0.1, dt=1e-2, joints="real")


def test_stops_act_alike_in_joint_and_in_absolute_coordinates():
    tree = lossy().tree.with_joints({"limits"})
    law = [JointLimits(500.0, 0.01)]
    options = {"t_end": 0.5, "dt": 1e-3, "forces": law}
    run = lb.simulate(lb.Robot(tree), [0.8], [3.0], **options)
    places = AbsoluteTree(tree)
    absolute = lb.simulate(places.system, *places.to_system([0.8], [3.0]), **options)
    assert run.q.max() > 1.0
    np.testing.assert_allclose(places.to_tree(absolute.q[-1])[0], run.q[-1], atol=1e-6)
    np.testing.assert_allclose(absolute.energy, run.energy, atol=1e-3)


def test_what_is_compiled_for_one_robot_is_not_taken_for_another_with_other_joints():
    """Recipes find what is compiled across processes; friction, springs and limits are in them."""
    recipes = set()
    for numbers in (
        {},
        {"friction": 0.5},
        {"stiffness": 3.0},
        {"rest": 0.5},
        {"upper": 2.0},
        {"damping": 1.0},
    ):
        recipes.add(mechanism_of(cart(**numbers), (JointFriction(), JointSpring())).recipe())
    assert len(recipes) == 6 and None not in recipes
    again = mechanism_of(cart(), (JointFriction(), JointSpring())).recipe()
    assert again in recipes


# -- read ----------------------------------------------------------------------------------------------------

URDF = """<robot name="r" xmlns:drake="http://drake.mit.edu"><link name="base"/>
<link name="arm"><inertial><origin xyz="0.5 0 0"/><mass value="1"/>
<inertia ixx="0.1" ixy="0" ixz="0" iyy="0.1" iyz="0" izz="0.1"/></inertial></link>
<joint name="hinge" type="revolute"><parent link="base"/><child link="arm"/><axis xyz="0 0 1"/>
<limit lower="-1" upper="2" effort="7" velocity="3"/><dynamics damping="0.5" friction="0.25"/></joint>
{beside}</robot>"""
DRIVE = """<transmission name="t"><type>transmission_interface/SimpleTransmission</type><joint name="hinge"/>
<actuator name="motor"><mechanicalReduction>{reduction}</mechanicalReduction>{rotor}</actuator>
</transmission>"""
ROTOR = '<drake:rotor_inertia value="{}"/>'
SPRING = """<gazebo reference="{}"><springStiffness>{}</springStiffness>
<springReference>0.3</springReference></gazebo>"""


def test_limits_losses_springs_and_rotors_of_a_urdf_are_read():
    beside = DRIVE.format(reduction=50, rotor=ROTOR.format(1e-4)) + SPRING.format("hinge", 8.0)
    tree = load_urdf(URDF.format(beside=beside))
    joint = tree.joint("hinge")
    found = {name: float(getattr(joint, name)[0]) for kind in JOINT_KINDS.values() for name in kind}
    assert found == {
        "armature": 0.25, "damping": 0.5, "friction": 0.25, "stiffness": 8.0, "rest": 0.3,
        "lower": -1.0, "upper": 2.0, "effort_limit": 7.0,
    }  # fmt: skip
    (drive,) = tree.description.transmissions
    assert (drive.joint, drive.actuator, drive.reduction, drive.rotor_inertia) == ("hinge", "motor", 50, 1e-4)
    assert drive.kind == "transmission_interface/SimpleTransmission"
    assert not tree.description.unused


def test_a_gear_ratio_goes_before_a_reduction_and_rotors_add_up():
    geared = '<drake:gear_ratio value="10"/>' + ROTOR.format(1e-3)
    beside = DRIVE.format(reduction=3, rotor=geared) + DRIVE.format(reduction=10, rotor=ROTOR.format(1e-3))
    assert load_urdf(URDF.format(beside=beside)).joint("hinge").armature[0] == pytest.approx(0.2)


def test_transmissions_that_dynamics_do_not_depend_on_refuse_no_file():
    for beside in ('<transmission name="t"/>', DRIVE.format(reduction="many", rotor="")):
        tree = load_urdf(URDF.format(beside=beside))
        assert tree.description.unused["transmission"] == 1 and not tree.description.transmissions
    other = load_urdf(URDF.format(beside=SPRING.format("knee", 1.0)))
    assert other.description.unused["gazebo spring of an unknown joint"] == 1


@pytest.mark.parametrize(
    ("beside", "why"),
    [
        (DRIVE.format(reduction="many", rotor=ROTOR.format(1e-4)), "mechanicalReduction"),
        (DRIVE.format(reduction=2, rotor=ROTOR.format(-1e-4)), "negative"),
        (SPRING.format("hinge", -1.0), "negative"),
        (SPRING.format("hinge", "stiff"), "springStiffness"),
    ],
)
def test_springs_and_rotors_that_cannot_be_are_refused(beside, why):
    with pytest.raises(DescriptionError, match=why):
        load_urdf(URDF.format(beside=beside))


# -- against MuJoCo ------------------------------------------------------------------------------------------

MJCF = """<mujoco><option integrator="RK4" timestep="1e-3">
<flag contact="disable" constraint="disable"/></option>
<worldbody><body><joint name="A" axis="0 1 0" armature="0.3" damping="0.4" stiffness="5" springref="20"/>
<geom type="box" size="0.25 0.1 0.05" pos="0.25 0 0" mass="2"/>
<body pos="0.5 0 0"><joint name="B" type="slide" axis="1 0 0" armature="0.1" damping="0.2" stiffness="30"
springref="0.1"/><geom type="box" size="0.2 0.1 0.05" mass="1.5"/></body></body></worldbody></mujoco>"""


def test_armature_damping_and_springs_are_those_of_mujoco():
    """Accelerations to round-off; a second of motion by the same method and step."""
    mujoco = pytest.importorskip("mujoco", reason="the test extra `mujoco` is not installed")
    model = mujoco.MjModel.from_xml_string(MJCF)
    robot, data = lb.load(MJCF), mujoco.MjData(model)
    q, v = np.array([0.4, 0.05]), np.array([1.0, -0.5])
    data.qpos[:], data.qvel[:] = q, v
    mujoco.mj_forward(model, data)
    mechanism = mechanism_of(robot, (), "real")
    np.testing.assert_allclose(mechanism.acceleration(0.0, q, v, np.zeros(2)), data.qacc, rtol=1e-9)
    for _ in range(1000):
        mujoco.mj_step(model, data)
    run = lb.simulate(robot, q, v, t_end=1.0, dt=1e-3, joints="real")
    np.testing.assert_allclose(run.q[-1], data.qpos, atol=1e-9)
    np.testing.assert_allclose(run.v[-1], data.qvel, atol=1e-9)
    bare = robot.with_joints("ideal")
    rotors = robot.mass_matrix(data.qpos) - bare.mass_matrix(data.qpos)
    np.testing.assert_allclose(rotors, np.diag(model.dof_armature), atol=1e-15)
