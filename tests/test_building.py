"""Robots made of robots: attached, with frames and payloads, with locked joints, placed elsewhere.

Expected values are sums over the parts: a gripper on an arm has the energies of the same gripper that floats,
at the pose and twist of the arm's frame.
"""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from found import description
from random_trees import JOINTS, random_tree

import liebody as lb
from liebody import dynamics
from liebody.base.errors import ArgumentError, ConfigurationError, ModelError, ShapeError
from liebody.bodies import Joint, SpatialInertia, TreeBuilder
from liebody.contact.points import collision_shapes
from liebody.groups import SE3, SO3, Fixed, Planar, Revolute, Spherical
from liebody.io import MjcfTree
from liebody.mechanisms.constrained import ClosedTree

P = SE3.motion(SO3.exp(np.array([0.3, -0.5, 0.8])), np.array([0.02, -0.01, 0.05]))

ARM = """<robot name="arm">
<link name="base"><inertial><mass value="4"/>
  <inertia ixx="0.02" ixy="0" ixz="0" iyy="0.02" iyz="0" izz="0.03"/></inertial>
  <visual><geometry><box size="0.2 0.2 0.1"/></geometry></visual></link>
<link name="upper"><inertial><origin xyz="0.2 0.01 0"/><mass value="3"/>
  <inertia ixx="0.01" ixy="0.002" ixz="0" iyy="0.05" iyz="0" izz="0.05"/></inertial>
  <visual><geometry><cylinder radius="0.05" length="0.4"/></geometry></visual></link>
<link name="fore"><inertial><origin xyz="0.15 0 0.01"/><mass value="2"/>
  <inertia ixx="0.004" ixy="0" ixz="0.001" iyy="0.02" iyz="0" izz="0.02"/></inertial></link>
<link name="tool"/>
<joint name="shoulder" type="revolute"><parent link="base"/><child link="upper"/><origin xyz="0 0 0.3"/>
  <axis xyz="0 0 1"/><limit lower="-2" upper="2" effort="80" velocity="3"/><dynamics damping="0.4"/></joint>
<joint name="elbow" type="revolute"><parent link="upper"/><child link="fore"/>
  <origin xyz="0.4 0 0" rpy="0.3 0.2 -0.1"/><axis xyz="0 1 0"/>
  <limit lower="-2.5" upper="2.5" effort="40" velocity="3"/></joint>
<joint name="flange" type="fixed"><parent link="fore"/><child link="tool"/>
  <origin xyz="0.3 0 0" rpy="0 1 0"/></joint>
</robot>"""

GRIPPER = """<robot name="gripper">
<link name="palm"><inertial><origin xyz="0 0.01 0.03"/><mass value="0.8"/>
  <inertia ixx="0.002" ixy="0" ixz="0" iyy="0.001" iyz="0.0002" izz="0.002"/></inertial>
  <collision><geometry><box size="0.1 0.08 0.06"/></geometry></collision></link>
<link name="left"><inertial><origin xyz="0 0 0.02"/><mass value="0.1"/>
  <inertia ixx="1e-4" ixy="0" ixz="0" iyy="1e-4" iyz="0" izz="2e-5"/></inertial>
  <collision><geometry><sphere radius="0.01"/></geometry></collision></link>
<link name="right"><inertial><origin xyz="0 0 0.02"/><mass value="0.1"/>
  <inertia ixx="1e-4" ixy="0" ixz="0" iyy="1e-4" iyz="0" izz="2e-5"/></inertial></link>
<link name="tip"/>
<joint name="finger" type="prismatic"><parent link="palm"/><child link="left"/><origin xyz="0 0.01 0.06"/>
  <axis xyz="0 1 0"/><limit lower="0" upper="0.04" effort="20" velocity="0.2"/></joint>
<joint name="other_finger" type="prismatic"><parent link="palm"/><child link="right"/>
  <origin xyz="0 -0.01 0.06"/><axis xyz="0 -1 0"/><limit lower="0" upper="0.04" effort="20" velocity="0.2"/>
  <mimic joint="finger" multiplier="1" offset="0.001"/></joint>
<joint name="at_tip" type="fixed"><parent link="left"/><child link="tip"/><origin xyz="0 0 0.04"/></joint>
<transmission name="drive"><type>simple</type><joint name="finger"/>
  <actuator name="motor"><mechanicalReduction>50</mechanicalReduction></actuator></transmission>
</robot>"""

HAND = """<mujoco model="hand"><worldbody>
  <geom name="floor" type="plane" size="1 1 0.1"/>
  <body name="palm" pos="0 0 0.02"><inertial pos="0 0 0.01" mass="0.5" diaginertia="1e-3 1e-3 1e-3"/>
    <geom name="pad" type="box" size="0.03 0.03 0.01"/>
    <body name="a" pos="0 0.02 0.03">
      <joint name="ja" type="hinge" axis="1 0 0" stiffness="0.3" damping="0.01"/>
      <geom type="capsule" size="0.01" fromto="0 0 0 0 0 0.05"/><site name="nail" pos="0 0 0.05"/></body>
    <body name="b" pos="0 -0.02 0.03"><joint name="jb" type="hinge" axis="1 0 0"/>
      <geom type="capsule" size="0.01" fromto="0 0 0 0 0 0.05"/></body>
  </body></worldbody>
  <tendon><fixed name="both"><joint joint="ja" coef="1"/><joint joint="jb" coef="-2"/></fixed></tendon>
  <actuator><position name="grip" tendon="both" kp="3" kv="0.1" ctrlrange="-1 1"/></actuator>
  <equality><connect name="pin" body1="a" body2="b" anchor="0 -0.02 0.05"/></equality>
  <keyframe><key name="closed" qpos="0.3 -0.4"/></keyframe>
</mujoco>"""


def load(text, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return lb.load(text, **options)


def by_joint(robot, values):
    """The entries of v, or of q where each joint has one coordinate, by joint."""
    return {b.joint.name: values[b.dofs] for b in robot.tree.bodies if b.joint.mimic is None}


def assembled(robot, parts):
    """An array of a robot from {joint: entries} of its parts."""
    entries = [parts[b.joint.name] for b in robot.tree.bodies if b.joint.mimic is None]
    return np.concatenate(entries)


def kinetic(tree, q, v):
    return float(dynamics.kinetic_energy(tree, q, v))


def potential(robot, q):
    return float(dynamics.potential_energy(robot.tree, q, robot.gravity_vector))


@pytest.mark.parametrize("prefix", [None, "left_"])
@pytest.mark.parametrize("carrier", ["fixed", "moving"])
def test_an_attached_robot_has_the_energies_and_the_mass_matrix_of_its_parts(carrier, prefix):
    arm = load(ARM, floating=carrier == "moving")
    gripper, floating = load(GRIPPER), load(GRIPPER, floating=True)
    robot = arm.attach(gripper, "tool", P, prefix=prefix)
    rng = np.random.default_rng(1)
    for _ in range(5):
        q_arm, v_arm = arm.random(rng), rng.normal(size=arm.nv)
        q_hand, v_hand = gripper.random(rng), rng.normal(size=gripper.nv)
        T = dynamics.frame_pose(arm.tree, q_arm, "tool") @ P
        X = SE3.Ad(SE3.inverse(P)) @ dynamics.frame_jacobian(
            arm.tree, q_arm, "tool"
        )  # twist of the palm per v
        q_floating = np.concatenate([SE3.coordinates(T), q_hand])
        # the gripper's bodies come last: they hang on the arm's last body, which has no other children
        q, v = np.concatenate([q_arm, q_hand]), np.concatenate([v_arm, v_hand])
        v_floating = np.concatenate([X @ v_arm, v_hand])
        expected = kinetic(arm.tree, q_arm, v_arm) + kinetic(floating.tree, q_floating, v_floating)
        assert kinetic(robot.tree, q, v) == pytest.approx(expected, rel=1e-12)
        J = np.block([[X, np.zeros((6, gripper.nv))], [np.zeros((gripper.nv, arm.nv)), np.eye(gripper.nv)]])
        M = J.T @ dynamics.mass_matrix(floating.tree, q_floating) @ J
        M[: arm.nv, : arm.nv] += dynamics.mass_matrix(arm.tree, q_arm)
        np.testing.assert_allclose(dynamics.mass_matrix(robot.tree, q), M, atol=1e-13)
        sum_of_parts = potential(arm, q_arm) + potential(floating, q_floating)
        assert potential(robot, q) == pytest.approx(sum_of_parts, rel=1e-12)
        tip = dynamics.frame_pose(robot.tree, q, (prefix or "") + "tip")
        np.testing.assert_allclose(tip, dynamics.frame_pose(floating.tree, q_floating, "tip"), atol=1e-14)


def test_a_random_tree_on_a_random_tree_has_the_energies_of_both():
    """Joints of every kind, also where the numbering of the bodies interleaves."""
    rng = np.random.default_rng(2)
    first = lb.Robot(random_tree(rng, list(JOINTS), followers=2))
    kinds = ["revolute", "spherical", "fixed", "planar", "prismatic", "helical"]
    tree = random_tree(rng, kinds, followers=1)
    second = lb.Robot(tree)
    host = first.tree.bodies[3].name
    robot = first.attach(second, host, P, prefix="second ")
    order = [b.name.startswith("second ") for b in robot.tree.bodies]
    assert order != sorted(order)  # the second robot stands amid the first one
    base = TreeBuilder("floating").add("base", lb.groups.Free()).build(check=False)
    floating = lb.Robot(base).attach(second, "base", prefix="second ")
    q1, q2 = first.random(rng), second.random(rng)
    v1, v2 = rng.normal(size=first.nv), rng.normal(size=second.nv)
    velocities = by_joint(first, v1) | {f"second {name}": x for name, x in by_joint(second, v2).items()}
    coordinates = {
        prefix + b.joint.name: q[b.coordinates]
        for prefix, part, q in (("", first, q1), ("second ", second, q2))
        for b in part.tree.bodies
        if b.joint.mimic is None
    }
    q, v = assembled(robot, coordinates), assembled(robot, velocities)
    T = dynamics.frame_pose(first.tree, q1, host) @ P
    V = SE3.Ad(SE3.inverse(P)) @ dynamics.frame_twist(first.tree, q1, v1, host)
    q_floating, v_floating = np.concatenate([SE3.coordinates(T), q2]), np.concatenate([V, v2])
    expected = kinetic(first.tree, q1, v1) + kinetic(floating.tree, q_floating, v_floating)
    assert kinetic(robot.tree, q, v) == pytest.approx(expected, rel=1e-12)
    sum_of_parts = potential(first, q1) + potential(floating, q_floating)
    assert potential(robot, q) == pytest.approx(sum_of_parts, rel=1e-11)


def test_a_robot_of_a_package_carries_another_one():
    arm, base = load(description("ur_description/urdf/ur5_robot.urdf")), "deck"
    cart = TreeBuilder("cart").add(base, Planar([0, 0, 1]), SpatialInertia.box(30.0, [0.6, 0.4, 0.3])).build()
    robot = lb.Robot(cart).attach(arm, base, [0, 0, 0.15])
    assert robot.mass == pytest.approx(
        30 + sum(x.inertia.mass for x in arm.tree.description.links if x.inertia)
    )
    q = np.concatenate([[0.0, 0.0, 0.0], arm.random(3)])
    expected = arm.mass_matrix(q[3:])  # the cart stands still
    np.testing.assert_allclose(robot.mass_matrix(q)[3:, 3:], expected, rtol=1e-12)
    shapes = robot.tree.description.shapes
    assert len(shapes) == len(arm.tree.description.shapes)
    assert all(robot.tree.frame(shape.link) for shape in shapes)


def test_what_descriptions_say_of_joints_and_shapes_follows():
    arm, gripper = load(ARM), load(GRIPPER)
    robot = arm.attach(gripper, "tool", P, prefix="left_").attach(gripper, "tool", prefix="right_")
    tree, q = robot.tree, robot.random(4)
    assert tree.joint("left_other_finger").mimic.joint == "left_finger"
    assert tree.joint("left_finger").upper == 0.04 and tree.joint("elbow").effort_limit == 40
    assert tree.joint("shoulder").damping == 0.4
    drives = {x.name: (x.joint, x.actuator, x.reduction) for x in tree.description.transmissions}
    assert drives == {
        "left_drive": ("left_finger", "left_motor", 50),
        "right_drive": ("right_finger", "right_motor", 50),
    }
    # each shape stands where the same one stands on its part
    at = dynamics.frame_pose(arm.tree, arm.configuration(dict(zip(("shoulder", "elbow"), q[:2]))), "tool")
    for shape in gripper.tree.description.shapes:
        moved = next(x for x in tree.description.shapes if x.link == f"left_{shape.link}")
        alone = dynamics.frame_pose(gripper.tree, q[2:3], shape.link) @ shape.placement
        here = dynamics.frame_pose(tree, q, moved.link) @ moved.placement
        np.testing.assert_allclose(here, at @ P @ alone, atol=1e-14)
    assert len(tree.description.shapes) == 2 + 2 * 2
    assert {x.frame.name.split("_")[0] for x in collision_shapes(robot)} == {"left", "right"}


def test_names_are_kept_apart_or_refused():
    arm, gripper = load(ARM), load(GRIPPER)
    once = arm.attach(gripper, "tool")
    assert "palm" in once.tree.frames and once.tree.joint("finger")
    twice = once.attach(gripper, "tool")
    assert "gripper_palm" in twice.tree.frames and twice.tree.joint("gripper_other_finger").mimic
    with pytest.raises(ModelError, match=r"both have .* called .*'gripper_palm'.*prefix='left_'"):
        twice.attach(gripper, "tool")
    with pytest.raises(ModelError, match="both have joints called 'finger', 'other_finger'"):
        robot = TreeBuilder("x").add("y", Joint("finger", Revolute([0, 0, 1])), SpatialInertia.sphere(1, 1))
        robot.add("z", Joint("other_finger", Revolute([0, 0, 1])), SpatialInertia.sphere(1, 1))
        lb.Robot(robot.build()).attach(gripper, "y", prefix="")


def test_an_attached_robot_is_written_and_read_again():
    robot = load(ARM).attach(load(GRIPPER), "tool", P)
    again = load(robot.to_urdf())
    rng = np.random.default_rng(5)
    q, v = robot.random(rng), rng.normal(size=robot.nv)
    assert [b.name for b in again.tree.bodies] == [b.name for b in robot.tree.bodies]
    for algorithm in (dynamics.mass_matrix, lambda tree, q: dynamics.bias_forces(tree, q, v)):
        np.testing.assert_allclose(algorithm(again.tree, q), algorithm(robot.tree, q), rtol=1e-11, atol=1e-13)


def test_actuators_keyframes_loops_and_grounds_of_an_mjcf_follow():
    pytest.importorskip("mujoco")
    hand, arm = load(HAND), load(ARM)
    robot = arm.attach(hand, "tool", P, prefix="h_")
    tree = robot.tree
    assert isinstance(tree, MjcfTree)
    # the order of the hand's joints is that of the file, behind the arm's
    q = np.array([0.2, -0.3, 0.4, 0.5])
    v = np.array([0.1, 0.7, -0.2, 0.3])
    efforts = hand.tree.actuation(q[2:], v[2:], [0.6])
    np.testing.assert_allclose(tree.actuation(q, v, [0.6]), [0, 0, *efforts], atol=1e-15)
    np.testing.assert_array_equal(tree.configurations["h_closed"], [0, 0, 0.3, -0.4])
    assert [shape.kind for shape in tree.description.shapes if shape.kind == "plane"] == []
    closed, alone = ClosedTree(tree, tree.closures), ClosedTree(hand.tree, hand.tree.closures)
    norm = np.linalg.norm(alone.loop_rows(q[2:], v[2:], 0.0).residual)
    assert np.linalg.norm(closed.loop_rows(q, v, 0.0).residual) == pytest.approx(norm, rel=1e-12)
    # and the other way round: what has an MJCF stays one
    back = hand.attach(arm, "nail", prefix="arm_")
    np.testing.assert_allclose(
        by_joint(back, back.tree.actuation(assembled(back, by_joint(back, np.zeros(4))), np.zeros(4), [0.6]))[
            "ja"
        ],
        hand.tree.actuation(np.zeros(2), np.zeros(2), [0.6])[:1],
    )
    assert any(shape.kind == "plane" for shape in back.tree.description.shapes)
    assert np.array_equal(back.tree.gravity, hand.tree.gravity)


def test_a_loop_of_a_urdf_still_closes_on_a_moving_base():
    from test_urdf_loops import urdf

    linkage = load(urdf())
    robot = load(ARM).attach(linkage, "tool", P, prefix="link_")
    alone, carried = (ClosedTree(x.tree, x.tree.closures) for x in (linkage, robot))
    q = alone.assemble([-1.0, 0.5, -2.0])
    whole = np.concatenate([[0.3, -0.8], q])
    np.testing.assert_allclose(carried.loop_rows(whole, np.zeros(5), 0.0).residual, 0, atol=1e-11)
    again = load(robot.placed([1, 2, 3]).to_urdf())
    assert [closure.name for closure in again.tree.closures] == ["link_pin"]


def test_free_parameters_follow():
    arm = load(ARM).with_parameters({"fore.mass": 2.5, "K": 4.0})
    gripper = load(GRIPPER).with_parameters({"left.mass": 0.2, "gravity": [0, 0, 0]})
    robot = arm.attach(gripper, "tool", prefix="g_")
    palm = gripper.tree.fixed_inertia.mass
    assert {name: x.tolist() for name, x in robot.layout.defaults.items()} == {
        "fore.mass": 2.5 + palm, "g_left.mass": 0.2, "K": 4.0,
    }  # fmt: skip
    assert robot.mass == pytest.approx(3 + 2.5 + palm + 0.2 + 0.1)
    assert robot.gravity_vector.tolist() == [0, 0, -9.81]
    q, v = robot.random(0), np.ones(robot.nv)
    fixed = load(ARM.replace('<mass value="2"/>', '<mass value="1.5"/>'))
    heavier = fixed.attach(load(GRIPPER.replace('"0.1"', '"0.3"', 1)), "tool", prefix="g_")
    # masses alone differ: those of the fore arm, to which the palm is welded, and of the left finger
    values = {"fore.mass": heavier.tree.body("fore").inertia.mass, "g_left.mass": 0.3}
    moved = heavier.tree.body("fore").inertia
    robot = robot.with_parameters("fore.center", "fore.inertia")
    upper = np.triu_indices(3)
    values |= {"fore.center": moved.com, "fore.inertia": moved.rotational[upper]}
    expected = heavier.kinetic_energy(q, v)
    assert robot.kinetic_energy(q, v, parameters=values) == pytest.approx(expected, rel=1e-12)
    # those of a locked joint vanish, and its mass counts where it is carried
    stiff = robot.locked({"g_finger": 0.02})
    assert set(stiff.layout.defaults) == {"fore.mass", "fore.center", "fore.inertia", "K"}
    assert stiff.layout.defaults["fore.mass"] == pytest.approx(2.5 + palm + 0.2 + 0.1)


# -- locked joints ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(6))
def test_a_locked_robot_has_the_other_rows_of_the_equations(seed):
    rng = np.random.default_rng(seed)
    tree = random_tree(rng, list(rng.permutation(list(JOINTS))), followers=2)
    robot = lb.Robot(tree)
    leaders = [b for b in tree.bodies if b.joint.mimic is None and b.joint.dim]
    chosen = rng.permutation(len(leaders))[: len(leaders) // 2]
    q = robot.random(rng)
    v, a = rng.normal(size=(2, robot.nv))
    for i in chosen:
        v[leaders[i].dofs] = a[leaders[i].dofs] = 0
    reduced = robot.locked({leaders[i].joint.name: q[leaders[i].coordinates] for i in chosen})
    free = [leaders[i] for i in range(len(leaders)) if i not in chosen]
    rows = np.concatenate([np.arange(robot.nv)[b.dofs] for b in free])
    places = np.concatenate([np.arange(robot.nq)[b.coordinates] for b in free])
    assert (reduced.nq, reduced.nv) == (len(places), len(rows))
    full = dynamics.inverse_dynamics(tree, q, v, a)
    part = dynamics.inverse_dynamics(reduced.tree, q[places], v[rows], a[rows])
    np.testing.assert_allclose(part, full[rows], atol=1e-11 * np.abs(full).max())
    M = dynamics.mass_matrix(tree, q)[np.ix_(rows, rows)]
    np.testing.assert_allclose(dynamics.mass_matrix(reduced.tree, q[places]), M, atol=1e-12 * np.abs(M).max())
    for name in [b.name for b in tree.bodies] + list(tree.frames):
        here = dynamics.frame_pose(reduced.tree, q[places], name)
        np.testing.assert_allclose(
            here, dynamics.frame_pose(tree, q, name), atol=1e-12 * (1 + np.abs(here).max())
        )


def test_followers_shapes_and_drives_follow_a_locked_joint():
    gripper = load(GRIPPER)
    stiff = gripper.locked({"finger": 0.03})
    assert (stiff.nv, len(stiff.tree.bodies)) == (0, 0)
    assert stiff.tree.fixed_inertia.mass == pytest.approx(1.0)
    for link in ("left", "right", "tip"):  # the follower stands at 0.03 + 0.001
        expected = dynamics.frame_pose(gripper.tree, np.array([0.03]), link)
        np.testing.assert_allclose(stiff.tree.frame(link).placement, expected, atol=1e-15)
    assert stiff.tree.description.transmissions == ()
    assert len(stiff.tree.description.shapes) == 2
    # attached, it weighs what the moving one weighs
    arm = load(ARM)
    whole = arm.attach(stiff, "tool", P)
    moving = arm.attach(gripper, "tool", P)
    q = np.array([0.3, -0.4, 0.03])
    expected = dynamics.mass_matrix(moving.tree, q)[:2, :2]
    np.testing.assert_allclose(dynamics.mass_matrix(whole.tree, q[:2]), expected, rtol=1e-12)


def test_a_loop_with_a_locked_joint_closes_where_it_closed():
    from test_urdf_loops import urdf

    linkage = load(urdf())
    q = ClosedTree(linkage.tree, linkage.tree.closures).assemble([-1.0, 0.5, -2.0])
    stiff = linkage.locked({"A": q[0]})
    rows = ClosedTree(stiff.tree, stiff.tree.closures).loop_rows(q[1:], np.zeros(2), 0.0)
    np.testing.assert_allclose(rows.residual, 0, atol=1e-11)


def test_an_actuator_with_a_locked_joint_pulls_the_others_as_before():
    pytest.importorskip("mujoco")
    hand = load(HAND)
    stiff = hand.locked({"jb": 0.7})
    full = hand.tree.actuation(np.array([0.2, 0.7]), np.array([0.5, 0.0]), [0.4])
    np.testing.assert_allclose(
        stiff.tree.actuation(np.array([0.2]), np.array([0.5]), [0.4]), full[:1], rtol=1e-14
    )
    np.testing.assert_array_equal(stiff.tree.configurations["closed"], [0.3])
    assert hand.locked({"ja": 0.1, "jb": 0.7}).tree.actuators == ()


# -- frames, payloads, places ----------------------------------------------------------------------------


def test_a_payload_adds_its_energy_at_the_twist_of_the_frame():
    arm = load(ARM)
    payload = SpatialInertia(1.5, [0.01, 0.02, 0.1], [[0.01, 0.001, 0], [0.001, 0.02, 0], [0, 0, 0.015]])
    robot = arm.with_payload("tool", payload)
    by_numbers = arm.with_payload("tool", 1.5, payload.com, payload.rotational)
    rng = np.random.default_rng(0)
    q, v = arm.random(rng), rng.normal(size=2)
    V = dynamics.frame_twist(arm.tree, q, v, "tool")
    expected = kinetic(arm.tree, q, v) + V @ payload.matrix() @ V / 2
    assert kinetic(robot.tree, q, v) == pytest.approx(expected, rel=1e-13)
    assert kinetic(by_numbers.tree, q, v) == kinetic(robot.tree, q, v)
    height = (dynamics.frame_pose(arm.tree, q, "tool") @ [*payload.com, 1])[2]
    assert potential(robot, q) == pytest.approx(potential(arm, q) + 1.5 * 9.81 * height, rel=1e-13)
    point = arm.with_payload("tool", 2.0)
    assert kinetic(point.tree, q, v) == pytest.approx(kinetic(arm.tree, q, v) + V[3:] @ V[3:], rel=1e-13)
    assert len(robot.tree.description.shapes) == len(arm.tree.description.shapes)


def test_a_new_frame_stands_at_its_placement_in_the_other():
    arm = load(ARM)
    robot = (
        arm.with_frame("camera", "tool", P)
        .with_frame("lens", "camera", [0, 0, 0.1])
        .with_frame("c", "world", P)
    )
    q = arm.random(0)
    lens = dynamics.frame_pose(arm.tree, q, "tool") @ P @ SE3.motion(np.eye(3), np.array([0, 0, 0.1]))
    np.testing.assert_allclose(robot.pose(q, frame="lens"), lens, atol=1e-15)
    np.testing.assert_allclose(robot.pose(q, frame="c"), P, atol=1e-15)
    assert list(arm.tree.frames) == ["base", "tool"]  # the robot itself did not change


def test_a_placed_robot_is_the_same_one_elsewhere():
    arm = load(ARM)
    robot = arm.placed(P).placed([1, 2, 3])
    T = SE3.motion(np.eye(3), np.array([1.0, 2, 3])) @ P
    rng = np.random.default_rng(0)
    q, v = arm.random(rng), rng.normal(size=2)
    assert kinetic(robot.tree, q, v) == pytest.approx(kinetic(arm.tree, q, v), rel=1e-13)
    for frame in ("base", "tool", "fore"):
        expected = T @ dynamics.frame_pose(arm.tree, q, frame)
        np.testing.assert_allclose(dynamics.frame_pose(robot.tree, q, frame), expected, atol=1e-14)
    # turning the world and gravity together changes nothing
    turned = lb.Robot(robot.tree, T[:3, :3] @ arm.gravity_vector)
    np.testing.assert_allclose(turned.gravity(q), arm.gravity(q), atol=1e-13)
    hand = load(GRIPPER).placed(P)
    expected = load(GRIPPER).tree.fixed_inertia.shift(P).matrix()
    np.testing.assert_allclose(hand.tree.fixed_inertia.matrix(), expected, atol=1e-15)


def test_a_ground_stays_where_it_is():
    pytest.importorskip("mujoco")
    hand = load(HAND).placed([0, 0, 1.0])
    (ground,) = [shape for shape in hand.tree.description.shapes if shape.kind == "plane"]
    np.testing.assert_array_equal(ground.placement, np.eye(4))


def test_side_by_side_in_the_world():
    arm = load(ARM)
    both = arm.attach(arm, "world", [0, 1, 0])
    q = np.array([0.1, 0.2, 0.3, 0.4])
    expected = dynamics.frame_pose(arm.tree, q[2:], "tool") + np.array(
        [[0, 0, 0, 0], [0, 0, 0, 1], [0] * 4, [0] * 4]
    )
    np.testing.assert_allclose(dynamics.frame_pose(both.tree, q, "arm_tool"), expected, atol=1e-15)


# -- what is refused -------------------------------------------------------------------------------------

ARM_ROBOT, GRIPPER_ROBOT = load(ARM), load(GRIPPER)
BALL = lb.Robot(TreeBuilder("ball").add("b", Spherical(), SpatialInertia.sphere(1, 1)).build())
REFUSED = {
    "unknown frame": (
        lambda: ARM_ROBOT.attach(GRIPPER_ROBOT, "hand"),
        ModelError,
        "no frame called 'hand'; known",
    ),
    "no robot": (lambda: ARM_ROBOT.attach(GRIPPER, "tool"), ArgumentError, "other is .*expected Robot"),
    "floats": (
        lambda: ARM_ROBOT.attach(load(GRIPPER, floating=True), "tool"),
        ModelError,
        r"load it without floating=True",
    ),
    "placement": (lambda: ARM_ROBOT.attach(GRIPPER_ROBOT, "tool", [1, 2]), ShapeError, r"a pose \(4, 4\)"),
    "frame is taken": (
        lambda: ARM_ROBOT.with_frame("tool", "fore"),
        ModelError,
        "has a body or frame 'tool' already",
    ),
    "parent": (lambda: ARM_ROBOT.with_frame("x", "hand"), ModelError, "no frame called 'hand'"),
    "negative mass": (
        lambda: ARM_ROBOT.with_payload("tool", -1.0),
        ModelError,
        "'payload': mass -1.0 kg is negative",
    ),
    "no inertia of a body": (
        lambda: ARM_ROBOT.with_payload("tool", 1.0, inertia=[1, 1, 3]),
        ModelError,
        "triangle inequality",
    ),
    "two centres": (
        lambda: ARM_ROBOT.with_payload("tool", SpatialInertia.point(1.0), center=[0, 0, 1]),
        ArgumentError,
        "leave center and inertia out",
    ),
    "no mass": (
        lambda: ARM_ROBOT.with_payload("tool", "heavy"),
        ShapeError,
        "mass is 'heavy', expected numbers",
    ),
    "unknown joint": (lambda: ARM_ROBOT.locked({"wrist": 0.0}), ModelError, "no joint called 'wrist'; known"),
    "follower": (
        lambda: GRIPPER_ROBOT.locked({"other_finger": 0.0}),
        ModelError,
        "follows 'finger'.*lock 'finger'",
    ),
    "beyond its limits": (
        lambda: GRIPPER_ROBOT.locked({"finger": 0.05}),
        ModelError,
        r"locked at \[0.05\].*with_joints",
    ),
    "not finite": (
        lambda: ARM_ROBOT.locked({"elbow": np.nan}),
        ConfigurationError,
        "expected a finite number",
    ),
    "batch": (lambda: ARM_ROBOT.locked({"elbow": [0.1, 0.2]}), ShapeError, "expected a single number"),
    "quaternion": (lambda: BALL.locked({"b": [1, 1, 0, 0]}), ConfigurationError, "norm"),
    "part of a joint": (lambda: BALL.locked({"b": 1.0}), ShapeError, "all coordinates of the joint"),
    "fixed joint": (
        lambda: load(ARM, merge_fixed=False).locked({"flange": 0.0}),
        ModelError,
        "'flange' is fixed already",
    ),
    "base that floats": (
        lambda: load(ARM, floating=True).placed([0, 0, 1]),
        ModelError,
        r"robot.configuration\(\{'root_joint'",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_robot_that_cannot_be_built_is_refused_with_a_remedy(case):
    call, error, words = REFUSED[case]
    with pytest.raises(error, match=words):
        call()


def test_fixed_joints_that_were_kept_stay():
    arm = load(ARM, merge_fixed=False)
    robot = arm.locked({"elbow": 0.3})
    assert isinstance(robot.tree.joint("flange").group, Fixed)
    assert [b.name for b in robot.tree.bodies] == ["base", "upper", "tool"]
