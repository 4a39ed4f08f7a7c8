"""Coordinates of Pinocchio and MuJoCo: there, back, and the same physics on both sides."""

import numpy as np
import pytest

from liebody import dynamics
from liebody.base.errors import ModelError, ShapeError
from liebody.bodies import Joint, Mimic, SpatialInertia, TreeBuilder
from liebody.groups import (
    SE3,
    Free,
    Helical,
    Planar,
    Prismatic,
    Revolute,
    Schoenflies,
    SpatialTranslation,
    Spherical,
)
from liebody.io import mujoco_layout, pinocchio_layout

pinocchio = pytest.importorskip("pinocchio", reason="the test extra `pin` is not installed")
mujoco = pytest.importorskip("mujoco", reason="the test extra `mujoco` is not installed")

BODY = SpatialInertia(1.5, [0.1, -0.2, 0.3], [[0.3, 0.01, 0.02], [0.01, 0.25, 0.03], [0.02, 0.03, 0.2]])
PLACE = SE3.exp(np.array([0.3, -0.2, 0.5, 0.1, 0.2, 0.3]))


def _tree(*groups, follower=None):
    """A chain of bodies on these joints; the last may follow the one before."""
    builder, parent = TreeBuilder(), "world"
    for i, group in enumerate(groups):
        last = follower is not None and i == len(groups) - 1
        joint = Joint(f"joint{i}", group, mimic=Mimic(f"joint{i - 1}", *follower) if last else None)
        builder.add(f"body{i}", joint, BODY, parent, PLACE)
        parent = f"body{i}"
    return builder.build()


def _pinocchio(models):
    """The same chain in Pinocchio."""
    model, parent = pinocchio.Model(), 0
    rotational = np.array(BODY.rotational)
    for i, joint in enumerate(models):
        parent = model.addJoint(parent, joint, pinocchio.SE3(PLACE), f"joint{i}")
        model.appendBodyToJoint(
            parent, pinocchio.Inertia(BODY.mass, np.array(BODY.com), rotational), pinocchio.SE3.Identity()
        )
    return model


def _states(tree, count=7, seed=0):
    rng = np.random.default_rng(seed)
    q = np.array([tree.group.random(rng) for _ in range(count)])
    return q, rng.normal(size=(count, tree.nv)), rng.normal(size=(count, tree.nv))


def _there_and_back(layout, q, v, a, tau):
    their_q, their_v = layout.to_q(q), layout.to_v(q, v)
    np.testing.assert_allclose(np.cos(layout.from_q(their_q)), np.cos(q), atol=1e-14)
    np.testing.assert_allclose(np.sin(layout.from_q(their_q)), np.sin(q), atol=1e-14)
    np.testing.assert_allclose(layout.from_v(their_q, their_v), v, atol=1e-14)
    np.testing.assert_allclose(layout.from_a(their_q, their_v, layout.to_a(q, v, a)), a, atol=1e-13)
    np.testing.assert_allclose(layout.from_effort(their_q, layout.to_effort(q, tau)), tau, atol=1e-13)
    # efforts have the same power on both sides
    power = np.sum(layout.to_effort(q, tau) * their_v, axis=-1)
    np.testing.assert_allclose(power, np.sum(tau * v, axis=-1), atol=1e-13)
    # single states are rows of batches
    for i in range(len(q)):
        np.testing.assert_array_equal(layout.to_q(q[i]), their_q[i])
        np.testing.assert_allclose(layout.to_a(q[i], v[i], a[i]), layout.to_a(q, v, a)[i], atol=1e-15)


AXIS = np.array([0.6, 0.0, -0.8])
PINOCCHIO = {
    "revolute": (Revolute((0, -1, 0)), lambda: pinocchio.JointModelRevoluteUnaligned(0, -1, 0)),
    "continuous": (Revolute((1, 0, 0)), lambda: pinocchio.JointModelRUBX()),
    "prismatic": (Prismatic(AXIS), lambda: pinocchio.JointModelPrismaticUnaligned(AXIS)),
    "helical": (Helical(AXIS, 0.3), lambda: pinocchio.JointModelHelicalUnaligned(AXIS, 0.3)),
    "planar": (Planar((0, 0, 1)), lambda: pinocchio.JointModelPlanar()),
    "translation": (SpatialTranslation(), lambda: pinocchio.JointModelTranslation()),
    "spherical": (Spherical(), lambda: pinocchio.JointModelSpherical()),
    "free": (Free(), lambda: pinocchio.JointModelFreeFlyer()),
}


@pytest.mark.parametrize("kind", PINOCCHIO)
def test_pinocchio_has_the_same_physics_in_its_layout(kind):
    group, joint = PINOCCHIO[kind]
    tree = _tree(group, Revolute((0, 0, 1)), group)
    model = _pinocchio([joint(), pinocchio.JointModelRZ(), joint()])
    layout, data = pinocchio_layout(tree, model), model.createData()
    q, v, a = _states(tree)
    their_q, their_v, their_a = layout.to_q(q), layout.to_v(q, v), layout.to_a(q, v, a)
    for i in range(len(q)):
        theirs = pinocchio.rnea(model, data, their_q[i], their_v[i], their_a[i])
        ours = dynamics.inverse_dynamics(tree, q[i], v[i], a[i])
        np.testing.assert_allclose(layout.from_effort(their_q[i], theirs), ours, atol=1e-11)
        np.testing.assert_allclose(layout.to_effort(q[i], ours), theirs, atol=1e-11)
        pinocchio.forwardKinematics(model, data, their_q[i])
        np.testing.assert_allclose(data.oMi[3].homogeneous, dynamics.body_poses(tree, q[i])[2], atol=1e-13)
    _there_and_back(layout, q, v, a, dynamics.inverse_dynamics(tree, q[0], v[0], a[0]) + v)


@pytest.mark.parametrize("follows", [True, False], ids=["follows there too", "moves freely there"])
def test_a_joint_that_follows_is_set_to_what_it_follows(follows):
    tree = _tree(Spherical(), Revolute((0, 0, 1)), Revolute((0, 0, 1)), follower=(-2.0, 0.25))
    model = _pinocchio([pinocchio.JointModelSpherical(), pinocchio.JointModelRZ(), pinocchio.JointModelRZ()])
    if follows:
        model = pinocchio.transformJointIntoMimic(model, 2, 3, -2.0, 0.25)
    layout, data = pinocchio_layout(tree, model), model.createData()
    assert layout.nv == (4 if follows else 5)
    q, v, a = _states(tree)
    for x, w, b in zip(q, v, a, strict=True):
        y = layout.to_q(x)
        theirs = pinocchio.rnea(model, data, y, layout.to_v(x, w), layout.to_a(x, w, b))
        ours = dynamics.inverse_dynamics(tree, x, w, b)
        np.testing.assert_allclose(layout.from_effort(y, theirs), ours, atol=1e-11)
    _there_and_back(layout, q, v, a, v)


def _mujoco(joints):
    """The same chain in MuJoCo."""
    quaternion = SE3.coordinates(PLACE)
    inertia = np.array(BODY.rotational)
    full = inertia[[0, 1, 2, 0, 0, 1], [0, 1, 2, 1, 2, 2]]
    text = "".join(
        f'<body pos="{_words(quaternion[4:])}" quat="{_words(quaternion[:4])}">{joint}'
        f'<inertial mass="{BODY.mass}" pos="{_words(BODY.com)}" fullinertia="{_words(full)}"/>'
        for joint in joints
    )
    text = (
        f'<option gravity="0 0 -9.81"/><compiler angle="radian"/><worldbody>{text}{"</body>" * len(joints)}'
    )
    return mujoco.MjModel.from_xml_string(f"<mujoco>{text}</worldbody></mujoco>")


def _words(x):
    return " ".join(map(repr, map(float, x)))


MUJOCO = {
    "hinge": (Revolute(AXIS), f'<joint name="{{}}" type="hinge" axis="{_words(AXIS)}"/>'),
    "slide": (Prismatic(AXIS), f'<joint name="{{}}" type="slide" axis="{_words(AXIS)}"/>'),
    "ball": (Spherical(), '<joint name="{}" type="ball"/>'),
    "free": (Free(), '<freejoint name="{}"/>'),
}


def _mujoco_pair(kind):
    group, first = MUJOCO[kind]
    text = [first.format("joint0"), MUJOCO["ball"][1].format("joint1"), MUJOCO["hinge"][1].format("joint2")]
    model = _mujoco(text)
    tree = _tree(group, Spherical(), Revolute(AXIS))
    if (
        kind == "free"
    ):  # MuJoCo's free joint stands where the body is at the configuration of the drawing: in the world
        bodies = [(body, PLACE if body.index > 1 else None) for body in tree.bodies]
        builder = TreeBuilder()
        for body, place in bodies:
            parent = tree.bodies[body.parent - 1].name if body.parent else "world"
            builder.add(body.name, body.joint, body.inertia, parent, place)
        tree = builder.build()
    return tree, model


@pytest.mark.parametrize("kind", MUJOCO)
def test_mujoco_has_the_same_physics_in_its_layout(kind):
    tree, model = _mujoco_pair(kind)
    layout, data = mujoco_layout(tree, model), mujoco.MjData(model)
    q, v, a = _states(tree)
    for x, w, b in zip(q, v, a, strict=True):
        data.qpos, data.qvel, data.qacc = layout.to_q(x), layout.to_v(x, w), layout.to_a(x, w, b)
        mujoco.mj_inverse(model, data)
        ours = dynamics.inverse_dynamics(tree, x, w, b)
        np.testing.assert_allclose(layout.from_effort(data.qpos, data.qfrc_inverse), ours, atol=1e-11)
        np.testing.assert_allclose(data.xpos[3], dynamics.body_poses(tree, x)[2][:3, 3], atol=1e-13)
    _there_and_back(layout, q, v, a, v)


def test_joints_are_found_by_name_in_any_order_and_by_given_names():
    model = _mujoco([MUJOCO["hinge"][1].format("a"), MUJOCO["slide"][1].format("b")])
    tree = (
        TreeBuilder()
        .add("x", Joint("b", Prismatic(AXIS)), BODY)
        .add("y", Joint("arm", Revolute(AXIS)), BODY, "x")
        .build()
    )
    layout = mujoco_layout(tree, model, names={"arm": "a"})
    np.testing.assert_array_equal(layout.to_q([1.0, 2.0]), [2, 1])
    np.testing.assert_array_equal(layout.from_v([0, 0], [1.0, 2.0]), [2, 1])


def test_a_free_joint_is_found_whatever_it_is_called():
    tree = TreeBuilder().add("base", Joint("root_joint", Free()), BODY).build()
    for name in ("", "floating_base"):
        layout = mujoco_layout(tree, _mujoco([f'<freejoint name="{name}"/>']))
        np.testing.assert_array_equal(layout.to_q([1, 0, 0, 0, 5, 6, 7.0]), [5, 6, 7, 1, 0, 0, 0])


def test_batches_have_any_leading_axes_and_broadcast():
    tree, model = _mujoco_pair("free")
    layout = mujoco_layout(tree, model)
    q, v, a = _states(tree, 6)
    q, v = q.reshape(2, 3, -1), v[:3]
    out = layout.to_a(q, v, a[0])
    assert out.shape == (2, 3, layout.nv)
    np.testing.assert_allclose(out[1, 2], layout.to_a(q[1, 2], v[2], a[0]), atol=1e-15)
    assert layout.to_effort(q[0], v).shape == (3, layout.nv)
    assert layout.to_q(np.zeros((0, tree.nq))).shape == (0, layout.nq)


@pytest.mark.parametrize(
    "tree, model, words",
    [
        (
            _tree(Revolute((0, 0, 1))),
            lambda: _mujoco(['<joint name="x" type="hinge"/>']),
            ["no joint", "'joint0'", "x"],
        ),
        (
            _tree(Revolute((0, 0, 1))),
            lambda: _mujoco(['<joint name="joint0" type="ball"/>']),
            ["'joint0'", "4 coord"],
        ),
        (
            _tree(Revolute((0, 0, 1))),
            lambda: _mujoco(['<joint name="joint0"/>', '<joint name="extra"/>']),
            ["has joints the tree has not", "extra"],
        ),
        (
            _tree(Schoenflies((0, 0, 1))),
            lambda: _mujoco(['<joint name="joint0" type="ball"/>']),
            ["Schoenflies"],
        ),
    ],
)
def test_joints_that_do_not_correspond_are_named(tree, model, words):
    with pytest.raises(ModelError) as caught:
        mujoco_layout(tree, model())
    assert all(word in str(caught.value) for word in words)


def test_wrong_shapes_are_named_with_both_shapes():
    tree = _tree(Free())
    layout = pinocchio_layout(tree, _pinocchio([pinocchio.JointModelFreeFlyer()]))
    for call in (
        lambda: layout.to_q(np.zeros((2, 6))),
        lambda: layout.to_v(np.zeros((2, 6)), np.zeros(6)),
        lambda: layout.from_q(np.zeros((2, 6))),
    ):
        with pytest.raises(ShapeError, match=r"q has shape \(2, 6\), expected \(\.\.\., 7\)"):
            call()
    with pytest.raises(ShapeError, match=r"v has shape \(\), expected \(\.\.\., 6\)"):
        layout.to_v(tree.group.neutral(), 3.0)
    with pytest.raises(ShapeError, match="q cannot be read"):
        layout.to_q("hello")
