"""Robots written as URDF and MJCF: read again they are the same; what cannot be said is refused."""

from __future__ import annotations

import warnings
import xml.etree.ElementTree as ElementTree
from dataclasses import fields
from pathlib import Path

import mujoco
import numpy as np
import pytest
from random_trees import random_inertia, random_placement, random_tree

import liebody as lb
from liebody import dynamics, mechanisms
from liebody.base.errors import ModelError
from liebody.bodies import Joint, Mimic, SpatialInertia, TreeBuilder
from liebody.groups import (
    SE3,
    SO3,
    Cylindrical,
    Fixed,
    Free,
    Helical,
    Planar,
    Prismatic,
    Revolute,
    Schoenflies,
    Spherical,
)
from liebody.io import MjcfTree, load_mjcf, load_urdf
from liebody.io.writing import mjcf_of, urdf_of
from liebody.mechanisms.constrained import ClosedTree, Closure, Condition

BODY = SpatialInertia(2.0, [0.1, -0.2, 0.3], [[0.3, 0.01, 0.02], [0.01, 0.25, 0.03], [0.02, 0.03, 0.2]])
WEIGHT = (0.3, -0.2, -9.81)
FOLDER = Path(__file__).parent / "mjcf"
URDF = (
    "fixed",
    "prismatic",
    "revolute",
    "planar-translation",
    "cylindrical",
    "planar",
    "spatial-translation",
)
MJCF = (
    "fixed",
    "prismatic",
    "revolute",
    "planar-translation",
    "cylindrical",
    "spatial-translation",
    "spherical",
)
WRITERS = {"URDF": lambda tree: urdf_of(tree), "MJCF": lambda tree: mjcf_of(tree, WEIGHT)}
READERS = {"URDF": load_urdf, "MJCF": load_mjcf}


def again(tree, form):
    return READERS[form](WRITERS[form](tree))


def one(joint, inertia=BODY, placement=None, **more):
    """A tree of one body."""
    return TreeBuilder("one").add("body", Joint("joint", joint, **more), inertia, "world", placement).build()


def assert_same_dynamics(tree, other, states=3):
    """M, bias forces, and the poses of all frames and bodies with mass by name."""
    assert (other.nq, other.nv) == (tree.nq, tree.nv)
    rng = np.random.default_rng(0)
    for _ in range(states):
        q, v = tree.group.random(rng), rng.normal(size=tree.nv)
        for function, arguments in ((dynamics.mass_matrix, (q,)), (dynamics.bias_forces, (q, v, WEIGHT))):
            expected = np.asarray(function(tree, *arguments), float)
            found = np.asarray(function(other, *arguments), float)
            np.testing.assert_allclose(
                found, expected, rtol=0, atol=1e-12 * np.abs(expected).max(initial=1e-3)
            )
        for name in (*(body.name for body in tree.bodies if body.inertia.mass), *tree.frames):
            T = dynamics.frame_pose(tree, q, name)
            np.testing.assert_allclose(dynamics.frame_pose(other, q, name), T, atol=1e-13, err_msg=name)


@pytest.mark.parametrize(
    ("form", "kinds", "root"),
    [("URDF", URDF, ()), ("URDF", URDF, ("free",)), ("MJCF", MJCF, ()), ("MJCF", MJCF, ("free",))],
)
@pytest.mark.parametrize("seed", range(4))
def test_trees_of_all_joints_that_a_format_has_are_the_same_again(form, kinds, root, seed):
    rng = np.random.default_rng(seed)
    tree = random_tree(rng, rng.permutation(kinds), rotors=False)
    if root:  # on a free body at the world's origin
        tree = hung_on_a_free_body(tree)
    assert_same_dynamics(tree, again(tree, form))


def hung_on_a_free_body(tree):
    builder, names = TreeBuilder(tree.name), ["root", *(body.name for body in tree.bodies)]
    builder.add("root", Joint("free", Free(), damping=0.3), random_inertia(np.random.default_rng(9)))
    for body in tree.bodies:
        builder.add(body.name, body.joint, body.inertia, names[body.parent], body.placement)
    for frame in tree.frames.values():
        builder.frame(frame.name, names[frame.body], frame.placement)
    return builder.frame("in the world", "world", [1, 2, 3]).build()


@pytest.mark.parametrize("form", WRITERS)
def test_followers_follow_again(form):
    rng = np.random.default_rng(2)
    builder = TreeBuilder("hand").add(
        "a", Joint("lead", Revolute([0, 1, 2], [0.1, 0, 0])), random_inertia(rng)
    )
    joints = [(Prismatic([1, 0, 1]), Mimic("lead", 0.3, -0.1)), (Revolute([0, 0, 1]), Mimic("f0", -2.0, 0.5))]
    for k, (group, mimic) in enumerate(joints):
        joint = Joint(f"f{k}", group, mimic=mimic, damping=0.2)
        builder.add(f"b{k}", joint, random_inertia(rng), "a", random_placement(rng))
    tree = builder.build()
    found = again(tree, form)
    assert_same_dynamics(tree, found)
    assert found.joint("f1").mimic == Mimic("f0", -2.0, 0.5) and found.nv == 1


@pytest.mark.parametrize("form", WRITERS)
def test_joints_have_the_same_numbers_again(form):
    """Limits, losses; in MJCF armature and springs, too. MJCF has no velocity limits."""
    numbers = {"lower": -0.3, "upper": 1.7, "effort_limit": 20, "damping": 0.1, "friction": 0.2}
    numbers |= {"velocity_limit": 3} if form == "URDF" else {"armature": 0.3, "stiffness": 7, "rest": 0.25}
    for group in (Revolute([0, 1, 1]), Prismatic([0, 0, 1])):
        tree = one(group, **numbers)
        joint, found = tree.joint("joint"), again(tree, form).joint("joint")
        for field in fields(Joint)[2:-1]:
            assert getattr(found, field.name) == getattr(joint, field.name), field.name
        for numbers_of in ({}, {"lower": 0.5, "effort_limit": 2.0}):
            found = again(one(group, **numbers_of), form).joint("joint")
            assert found.lower == numbers_of.get("lower", -np.inf) and found.upper >= 1e10


@pytest.mark.parametrize("form", WRITERS)
@pytest.mark.parametrize("closeness", [0.0, 1e-9, 1e-8, 1e-6, 1e-4, 0.1])
def test_rotations_keep_their_digits_next_to_the_poles_of_roll_pitch_yaw(form, closeness):
    x, y, z = np.eye(3)
    for side in (1, -1):
        R = SO3.exp(0.7 * z) @ SO3.exp(side * (np.pi / 2 - closeness) * y) @ SO3.exp(0.4 * x)
        tree = one(Revolute([0, 0, 1]), placement=SE3.motion(R, np.ones(3)))
        np.testing.assert_allclose(again(tree, form).bodies[0].placement[:3, :3], R, atol=1e-15)


def test_models_read_from_mjcf_are_the_same_again():
    """With springs, rotors, actuators, several joints of a body, free bodies and balls."""
    for name in ("arm", "walker", "loops"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            robot = lb.load(FOLDER / f"{name}.xml")
            other = lb.load(robot.to_mjcf())
        assert_same_dynamics(robot.tree, other.tree)
        assert np.array_equal(robot.gravity_vector, other.gravity_vector)
        assert [b.name for b in robot.tree.bodies if b.inertia.mass] == [
            b.name for b in other.tree.bodies if b.inertia.mass
        ]
        rng = np.random.default_rng(1)
        q, v = robot.group.random(rng), rng.normal(size=robot.nv)
        u = rng.normal(size=len(robot.tree.actuators))
        expected = robot.tree.actuation(q, v, u)
        np.testing.assert_allclose(other.tree.actuation(q, v, u), expected, atol=1e-12)
        expected, found = (
            mechanisms.JointSpring().on_tree(tree, 0, q, v) for tree in (robot.tree, other.tree)
        )
        np.testing.assert_allclose(found.astype(float), expected.astype(float), atol=1e-13)


@pytest.mark.parametrize("form", WRITERS)
def test_loops_are_closed_alike_again(form):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tree = load_mjcf(FOLDER / "loops.xml")
        other = again(tree, form)
    q = tree.group.random(np.random.default_rng(0))
    expected = ClosedTree(tree, tree.closures).violation(q)
    found = ClosedTree(other, other.closures).violation(q)
    assert list(found) == list(expected) == ["pin", "hang", "glue"]
    for name, rows in expected.items():
        np.testing.assert_allclose(found[name], rows, atol=1e-14)


def test_a_loop_of_a_urdf_is_written_as_it_was_read():
    text = """<robot name="r"><link name="base"/>
      <link name="a"><inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1" ixy="0"
      ixz="0" iyz="0"/></inertial></link>
      <joint name="j" type="continuous"><parent link="base"/><child link="a"/><axis xyz="0 0 1"/></joint>
      <constraint name="rail" type="prismatic"><parent link="base"/><child link="a"/>
      <parent_origin xyz="1 2 0"/><parent_axis xyz="0 3 4"/><child_origin xyz="1 0 0" rpy="0 0 1"/>
      </constraint></robot>"""
    tree = load_urdf(text)
    other = again(tree, "URDF")
    q = np.array([0.3])
    expected = ClosedTree(tree, tree.closures).violation(q)["rail"]
    np.testing.assert_allclose(ClosedTree(other, other.closures).violation(q)["rail"], expected, atol=1e-15)
    assert list(other.frames) == list(tree.frames)


def test_mujoco_itself_moves_what_is_written():
    """The M of MuJoCo for a written space robot."""
    robot = lb.models.space_robot()
    model = mujoco.MjModel.from_xml_string(robot.to_mjcf())
    data, q = mujoco.MjData(model), robot.random(0)
    layout = lb.io.mujoco_layout(robot.tree, model)
    data.qpos = layout.to_q(q)
    mujoco.mj_forward(model, data)
    M = np.zeros((model.nv, model.nv))
    for row, unit in zip(M, np.eye(model.nv), strict=True):
        mujoco.mj_mulM(model, data, row, unit)
    G = layout.to_v(q, np.eye(robot.nv)).T
    np.testing.assert_allclose(G.T @ M @ G, dynamics.mass_matrix(robot.tree, q), atol=1e-12)


@pytest.mark.parametrize("form", ["urdf", "mjcf"])
def test_a_file_is_written_where_one_is_named(tmp_path, form):
    robot = lb.Robot(one(Revolute([0, 0, 1])))
    file = tmp_path / "robot.xml"
    text = getattr(robot, f"to_{form}")(file)
    assert file.read_text() == text and lb.load(file).nv == 1
    assert ElementTree.fromstring(text).tag == {"urdf": "robot", "mjcf": "mujoco"}[form]


def test_names_of_parts_do_not_meet():
    """A link on an axis, and joints of frames, give way to names that are taken."""
    tree = TreeBuilder("names").add("a", Joint("j", Revolute([0, 0, 1], [1, 0, 0])), BODY)
    tree = tree.add("a_on_j", Joint("a_beside_j", Prismatic([1, 0, 0])), BODY, "a").frame("f", "a").build()
    assert_same_dynamics(tree, again(tree, "URDF"))


def test_sites_of_closures_do_not_meet_frames():
    tree = TreeBuilder("pair").add("a", Revolute([0, 0, 1]), BODY).add("b", Revolute([0, 0, 1]), BODY)
    tree = tree.frame("a_site", "a", [0, 0, 0.3]).build()
    pinned = MjcfTree(tree.name, tree.bodies, tree.frames, loops=(Closure("pin", Spherical(), "a", "b"),))
    found = load_mjcf(mjcf_of(pinned, np.zeros(3)), unused=False)
    assert sorted(found.frames) == ["a_site", "a_site_", "b_site"]
    violated = [ClosedTree(x, x.closures).violation([0.3, -0.4])["pin"] for x in (found, pinned)]
    np.testing.assert_allclose(*violated, atol=1e-14)


@pytest.mark.parametrize("form", ["URDF", "MJCF"])
def test_limits_on_one_side_are_the_same_again(form):
    for lower, upper in ((-np.inf, 0.5), (-0.5, np.inf), (-np.inf, np.inf)):
        joint = again(one(Prismatic([1, 0, 0]), lower=lower, upper=upper), form).bodies[-1].joint
        assert (joint.lower, joint.upper) == (lower, upper)


MASSLESS = TreeBuilder("one").add("gimbal", Joint("outer", Spherical()), SpatialInertia())
MASSLESS.add("body", Joint("inner", Revolute([1, 0, 0])), BODY, "gimbal", SE3.exp(np.full(6, 0.3)))


@pytest.mark.parametrize(
    ("form", "tree", "words"),
    [
        ("URDF", one(Spherical()), r"'joint' is Spherical\(\); URDF has joints of the groups Fixed, Free"),
        ("URDF", one(Helical([0, 0, 1], 0.1)), "Helical"),
        ("MJCF", one(Planar([0, 0, 1])), "MJCF has joints of the groups Free, Spherical"),
        ("MJCF", one(Schoenflies([0, 0, 1])), "Schoenflies"),
        ("URDF", one(Revolute([0, 0, 1]), armature=0.1), r"has armature \[0.1\]; write MJCF"),
        ("URDF", one(Prismatic([0, 0, 1]), stiffness=3), r"has stiffness \[3\]; write MJCF"),
        ("URDF", one(Planar([0, 0, 1]), damping=[1, 2, 2]), r"has damping \[1.0, 2.0\] in its directions"),
        ("MJCF", one(Spherical(), armature=[1, 2, 2]), r"armature \[1.0, 2.0\]"),
        ("MJCF", one(Free(), placement=[0, 0, 1]), "not alone at the world's origin"),
        ("MJCF", one(Free(), armature=0.1), "without armature"),
        (
            "MJCF",
            one(Revolute([1, 0, 0]), SpatialInertia.rod(1.0, 1.0, 0), armature=1.0),
            "principal moments",
        ),
        ("MJCF", one(Revolute([1, 0, 0]), lower=0.5, upper=0.5), "no room to move, from 0.5 to 0.5; give it"),
        ("MJCF", MASSLESS.build(check=False), "'outer', Spherical.*without mass"),
    ],
)
def test_what_cannot_be_said_is_refused(form, tree, words):
    with pytest.raises(ModelError, match=f"^one cannot be written as {form}: .*{words}"):
        WRITERS[form](tree)


def test_symbols_and_conditions_are_refused():
    from liebody.compiler import trace

    def written(m):
        with pytest.raises(ModelError, match="symbols for numbers"):
            urdf_of(one(Revolute([0, 0, 1]), SpatialInertia(m[0], np.zeros(3), np.ones(3))))
        return m

    trace(written, {"m": 1})
    tree = load_urdf(
        """<robot name="r"><link name="base"/>
      <link name="a"><inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1" ixy="0"
      ixz="0" iyz="0"/></inertial></link>
      <joint name="j" type="continuous"><parent link="base"/><child link="a"/></joint>
      <constraint name="u" type="universal"><parent link="base"/><child link="a"/>
      <parent_axis xyz="1 0 0"/><child_axis xyz="0 1 0"/></constraint></robot>"""
    )
    assert isinstance(tree.closures[0], Condition)
    with pytest.raises(ModelError, match="closure 'u' is"):
        urdf_of(tree)


def test_joints_of_several_motions_become_several():
    found = again(one(Cylindrical([0, 0, 1], [0.1, 0, 0]), damping=[1, 2]), "MJCF")
    assert [type(body.joint.group) for body in found.bodies] == [Revolute, Prismatic]
    assert [float(body.joint.damping[0]) for body in found.bodies] == [1, 2]
    assert [body.name for body in found.bodies] == ["body on joint_1", "body"]
    fixed = TreeBuilder("f").add("a", Revolute([0, 0, 1]), BODY).add("b", Fixed(), BODY, "a").build()
    assert_same_dynamics(fixed, again(fixed, "MJCF"))
