"""MJCF read by MuJoCo, beside MuJoCo: mechanics, forces, loops, names; what is refused, what is named."""

from __future__ import annotations

import re
import sys
import warnings
from pathlib import Path

import mujoco
import numpy as np
import pytest
from click.testing import CliRunner

import liebody as lb
from liebody import dynamics, mechanisms
from liebody.base.errors import DescriptionError, MissingPackage, ModelError, ShapeError
from liebody.bodies import Joint, SpatialInertia, TreeBuilder
from liebody.cli import main
from liebody.groups import Prismatic, Revolute
from liebody.io import OpenLoops, UnusedElements, load_mjcf, mujoco_layout
from liebody.io.report import report
from liebody.mechanisms.constrained import ClosedTree

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
import mjcf

FOLDER = Path(__file__).parent / "mjcf"
FILES = {name: FOLDER / f"{name}.xml" for name in ("arm", "walker", "loops")}
BODY = '<geom size="0.1"/>'
since_4 = pytest.mark.skipif(int(mujoco.__version__.split(".")[0]) < 4, reason="is so since MuJoCo 4")


def model_of(inside: str, body: str = BODY) -> str:
    """A model of one body on a hinge, and further elements."""
    return f'<mujoco><worldbody><body name="b"><joint name="j"/>{body}</body></worldbody>{inside}</mujoco>'


def quietly(source, **options):
    return load_mjcf(source, unused=False, **options)


def active(path):
    """MuJoCo's model with all its forces."""
    return mujoco.MjSpec.from_file(str(path)).compile()


def violation(model, data, equality):
    """How MuJoCo finds an equality violated."""
    rows = data.efc_type == mujoco.mjtConstraint.mjCNSTR_EQUALITY
    return data.efc_pos[rows & (data.efc_id == model.equality(equality).id)]


# -- the same mechanics -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FILES)
def test_mass_bias_poses_and_jacobians_are_mujocos(name):
    errors = mjcf.differences(quietly(FILES[name]), mjcf.compiled(FILES[name]))
    assert max(errors[:4]) < 1e-13


@pytest.mark.parametrize("name", ["arm", pytest.param("walker", marks=since_4), "loops"])
@pytest.mark.many
def test_motions_are_mujocos(name):
    """RK4 with the same steps, with springs and damping, over 1 s; of walker and loops on SO(3) x R^3."""
    largest, remark = mjcf.motion(quietly(FILES[name], mimic=False), mjcf.compiled(FILES[name]))
    assert largest < 1e-11 and remark == ""


def test_differences_are_seen():
    """The comparison that the tests above rely on fails for another mass and another spring."""
    tree, model = quietly(FILES["arm"]), mjcf.compiled(FILES["arm"])
    model.body_mass[2] *= 1 + 1e-9
    errors = mjcf.differences(tree, model)
    assert errors.M > 1e-11 and errors.bias > 1e-11 and errors.poses < 1e-13
    model = mjcf.compiled(FILES["arm"])
    model.jnt_stiffness[0] *= 1 + 1e-6
    assert mjcf.motion(quietly(FILES["arm"], mimic=False), model)[0] > 1e-9


def test_names_are_mujocos():
    tree = quietly(FILES["walker"], merge_fixed=False)
    bodies = ["torso", "thigh on hip_x", "thigh on hip_z", "thigh", "body number 3", "foot", "arm"]
    assert [body.name for body in tree.bodies] == bodies
    joints = ["torso", "hip_x", "hip_z", "joint number 3", "knee", "foot", "shoulder"]
    assert [body.joint.name for body in tree.bodies] == joints  # of two on the thigh one has no name
    assert list(tree.frames) == ["nose", "site number 1", "tip"]
    welded = quietly(FILES["walker"])
    assert welded.frame("foot").body == welded.body("body number 3").index
    assert quietly(FILES["arm"]).frame("upper_site").body == quietly(FILES["arm"]).body("upper").index
    assert quietly(FILES["arm"]).name == "arm with a gripper" and quietly(model_of("")).name == "mjcf"


def test_joints_without_names_are_called_like_their_bodies():
    """As in a `TreeBuilder`; where the name is taken, or a body has two joints, they keep their numbers."""
    joints = '<body name="j"><joint/>BODY</body><body name="c"><joint/><joint type="slide"/>BODY</body>'
    text = model_of("", f'{BODY}<body name="d"><joint/>BODY</body>{joints}'.replace("BODY", BODY))
    tree = quietly(text)
    names = ["j", "d", "joint number 2", "joint number 3", "joint number 4"]
    assert [body.joint.name for body in tree.bodies] == names
    robot = lb.Robot(tree)
    assert robot.configuration({"d": 0.3})[tree.body("d").coordinates] == 0.3
    q = np.arange(5.0)
    np.testing.assert_array_equal(mujoco_layout(robot, mjcf.compiled(text)).to_q(q), q)


@pytest.mark.parametrize("name", FILES)
def test_trees_and_layouts_are_shown_in_one_line(name):
    tree, model = quietly(FILES[name]), mjcf.compiled(FILES[name])
    sizes = f"nq = {tree.nq}, nv = {tree.nv}"
    assert repr(tree) == f"MjcfTree {tree.name!r}: {len(tree.bodies)} bodies, {sizes}"
    theirs = f"nq = {model.nq}, nv = {model.nv}"
    assert repr(mujoco_layout(tree, model)) == f"Layout of {tree.name!r}, {sizes}, in a model with {theirs}"


@pytest.mark.parametrize("name", FILES)
def test_sites_are_frames_at_mujocos_places(name):
    tree, model = quietly(FILES[name]), active(FILES[name])
    data, q = mujoco.MjData(model), tree.group.random(np.random.default_rng(3))
    data.qpos = mujoco_layout(tree, model).to_q(q)
    mujoco.mj_kinematics(model, data)
    assert model.nsite
    for i in range(model.nsite):
        site = model.site(i).name or f"site number {i}"
        T = dynamics.frame_pose(tree, q, site if site in tree.frames else f"{site}_site")
        np.testing.assert_allclose(T[:3, 3], data.site_xpos[i], atol=1e-14)
        np.testing.assert_allclose(np.ravel(T[:3, :3]), data.site_xmat[i], atol=1e-14)


@pytest.mark.filterwarnings("ignore::liebody.io.UnusedElements")
def test_gravity_is_the_files_own():
    assert lb.load(model_of('<option gravity="0 3 -4"/>')).gravity_vector.tolist() == [0, 3, -4]
    assert lb.load(model_of(""), gravity=(0, 0, -1.6)).gravity_vector.tolist() == [0, 0, -1.6]
    assert not lb.load(model_of('<option><flag gravity="disable"/></option>')).gravity_vector.any()


# -- joints -------------------------------------------------------------------------------------------------


def test_joints_have_the_numbers_of_the_file():
    tree = quietly(FILES["arm"])
    shoulder, wrist, finger = (tree.joint(name) for name in ("shoulder", "wrist", "finger_left"))
    np.testing.assert_allclose([shoulder.lower[0], shoulder.upper[0]], np.radians([-170, 90]), rtol=1e-15)
    assert (shoulder.stiffness, shoulder.damping, shoulder.armature) == (3, 0.3, 0.02)
    np.testing.assert_allclose(shoulder.rest, np.radians(35), rtol=1e-15)
    assert (wrist.damping, wrist.friction) == (0.05, 0.1) and np.isinf(wrist.upper)
    assert tree.joint("elbow").effort_limit == 25 and (finger.lower, finger.upper) == (0, 0.04)
    assert (quietly(FILES["walker"]).joint("shoulder").armature == 0.005).all()


@since_4
def test_rotors_of_actuators_belong_to_their_joints():
    text = model_of('<actuator><motor joint="j" armature="3" damping="5" gear="2"/></actuator>')
    tree, model = quietly(text), mjcf.compiled(text)
    assert (tree.joint("j").armature, tree.joint("j").damping) == (12, 20)
    assert mjcf.differences(tree, model).M < 1e-15


@pytest.mark.parametrize("name", ["arm", "walker"])
def test_springs_and_damping_are_mujocos_passive_forces(name):
    tree, model = quietly(FILES[name], mimic=False), active(FILES[name])
    model.opt.density = model.opt.viscosity = 0
    layout, data, rng = mujoco_layout(tree, model), mujoco.MjData(model), np.random.default_rng(5)
    for _ in range(5):
        q, v = tree.group.integrate(tree.reference, 0.3 * rng.normal(size=tree.nv)), rng.normal(size=tree.nv)
        data.qpos, data.qvel = layout.to_q(q), layout.to_v(q, v)
        mujoco.mj_forward(model, data)
        laws = mechanisms.JointSpring(), mechanisms.JointDamping()
        ours = sum(np.asarray(law.on_tree(tree, 0.0, q, v), float) for law in laws)
        np.testing.assert_allclose(layout.to_effort(q, ours), data.qfrc_passive, atol=1e-13)


def test_springs_of_joints_act_where_they_are_asked_for():
    body = SpatialInertia(1.0, rotational=np.ones(3))
    tree = TreeBuilder().add("a", Joint("x", Prismatic([1, 0, 0]), stiffness=4.0, rest=0.5), body)
    tree = tree.add("b", Joint("phi", Revolute([0, 0, 1])), body).build()
    own, given = mechanisms.JointSpring(), mechanisms.JointSpring({"x": 4.0}, {"x": 0.5})
    q = np.array([0.2, 1.0])
    assert own.on_tree(tree, 0, q, q).tolist() == given.on_tree(tree, 0, q, q).tolist() == [1.2, 0]
    run = lb.simulate(lb.Robot(tree, (0, 0, 0)), t_end=1.0, dt=1e-2, forces=[own])
    np.testing.assert_allclose(run.q[:, 0], 0.5 - 0.5 * np.cos(2 * run.t), atol=1e-8)
    with pytest.raises(ModelError, match=r"stiffness is \[-1.0\]; give zero or more"):
        Joint("x", Prismatic([1, 0, 0]), stiffness=-1.0)


# -- equalities ---------------------------------------------------------------------------------------------


def test_a_follower_moves_as_the_equality_says():
    tree, model = quietly(FILES["arm"]), active(FILES["arm"])
    assert tree.nv == model.nv - 1 and quietly(FILES["arm"], mimic=False).nv == model.nv
    q = tree.group.random(np.random.default_rng(0))
    qpos = mujoco_layout(tree, model).to_q(q)
    left, right = (qpos[model.joint(f"finger_{side}").qposadr[0]] for side in ("left", "right"))
    assert right == pytest.approx(0.002 + (left - 0.01), abs=1e-16)


def test_two_joints_of_a_fixed_tendon_follow_each_other():
    """2 (f1 - 0.1) - 0.5 (f2 + 0.2) = 0.05: MuJoCo finds no violation."""
    tree, model = quietly(FILES["loops"]), active(FILES["loops"])
    data, q = mujoco.MjData(model), tree.group.random(np.random.default_rng(1))
    data.qpos = mujoco_layout(tree, model).to_q(q)
    mujoco.mj_forward(model, data)
    (found,) = violation(model, data, "bent")
    assert abs(found) < 1e-15
    assert tree.joint("f1").mimic.joint == "f2"


def test_a_circle_of_equalities_leaves_one_joint_free():
    bodies = "".join(f'<body><joint name="{x}"/><geom size=".1"/></body>' for x in "abc")
    pairs = "".join(f'<joint joint1="{x}" joint2="{y}" polycoef="0 2 0 0 0"/>' for x, y in ("ab", "bc", "ca"))
    text = f"<mujoco><worldbody>{bodies}</worldbody><equality>{pairs}</equality></mujoco>"
    with pytest.warns(UnusedElements, match=r"equality/joint \(1\)"):
        tree = load_mjcf(text)
    assert tree.nv == 1 and [body.joint.mimic is None for body in tree.bodies] == [False, False, True]


def test_closures_are_violated_as_mujocos_equalities_are():
    tree, model = quietly(FILES["loops"]), active(FILES["loops"])
    assert [closure.name for closure in tree.closures] == ["pin", "hang", "glue"]
    closed, data = ClosedTree(tree, tree.closures, tree.gravity), mujoco.MjData(model)
    for seed in range(3):
        q = tree.group.random(np.random.default_rng(seed))
        data.qpos = mujoco_layout(tree, model).to_q(q)
        mujoco.mj_forward(model, data)
        for closure, found in closed.violation(q).items():
            distance = np.linalg.norm(violation(model, data, closure)[:3])
            assert np.linalg.norm(found[:3]) == pytest.approx(distance, rel=1e-12), closure


def test_a_weld_is_closed_where_mujoco_has_no_violation():
    """In pose and orientation: the plate is put where MuJoCo's relpose has it."""
    tree, model = quietly(FILES["loops"]), active(FILES["loops"])
    T = np.eye(4)
    T[:3, 3] = [1, 2, 3]
    T[:3, :3] = [[0, 0, 1], [1, 0, 0], [0, 1, 0]]  # the quaternion (1, 1, 1, 1)/2
    anchor = np.eye(4)
    anchor[:3, 3] = [0.1, 0, 0.2]
    q = tree.reference
    rocker = dynamics.frame_pose(tree, q, "rocker")
    plate = rocker @ anchor @ np.linalg.inv(T)
    q[tree.body("plate").coordinates] = lb.groups.SE3.coordinates(plate)
    data = mujoco.MjData(model)
    data.qpos = mujoco_layout(tree, model).to_q(q)
    mujoco.mj_forward(model, data)
    assert np.abs(violation(model, data, "glue")).max() < 1e-14
    closed = ClosedTree(tree, tree.closures, tree.gravity)
    assert np.abs(closed.violation(q)["glue"]).max() < 1e-14


def test_a_four_bar_moves_with_its_loop_closed():
    """A parallelogram: by its energy, (d phi/dt)^2 = 2 (E - V) / I of one angle, whatever the closure."""
    bar = '<joint name="{}" axis="0 1 0"/><geom type="capsule" fromto="0 0 0 {}" size="0.02" contype="0" '
    bar += 'conaffinity="0"/>'
    text = f"""<mujoco><worldbody>
      <body name="crank">{bar.format("a", "0 0 0.5")}<body name="coupler" pos="0 0 0.5">
        {bar.format("b", "1 0 0")}</body></body>
      <body name="rocker" pos="1 0 0">{bar.format("c", "0 0 0.5")}</body></worldbody>
      <equality><connect body1="coupler" body2="rocker" anchor="1 0 0"/></equality></mujoco>"""
    tree = load_mjcf(text)
    closed = ClosedTree(tree, tree.closures, tree.gravity)
    run = lb.simulate(closed, [0.1, -0.1, 0.1], t_end=0.6, dt=1e-3)  # singular at 0.75 s
    phi = run.q[:, 0]
    np.testing.assert_allclose(run.q, np.outer(phi, [1, -1, 1]), atol=1e-9)
    inertias = [body.inertia for body in tree.bodies]
    about = [inertias[i].moments.I[1, 1] for i in (0, 2)]
    I = sum(about) + inertias[1].mass * 0.5**2
    weight = 9.81 * (2 * inertias[0].mass * 0.25 + inertias[1].mass * 0.5)
    energy = 0.5 * I * run.v[:, 0] ** 2 + weight * np.cos(phi)
    np.testing.assert_allclose(energy, weight * np.cos(0.1), rtol=1e-9)
    assert phi[-1] > 0.5


def test_a_robot_with_loops_is_open_and_says_so():
    with pytest.warns(OpenLoops, match="'pin', 'hang', 'glue'"), pytest.warns(UnusedElements):
        lb.load(FILES["loops"])


# -- actuators and keyframes --------------------------------------------------------------------------------


def test_actuators_are_mujocos():
    """Motors, servos, one on a tendon; controls and forces beyond their ranges."""
    tree, model = quietly(FILES["arm"], mimic=False), active(FILES["arm"])
    assert [a.name for a in tree.actuators] == ["lift", "bend", "spin", "grip", "pull"]
    layout, data, rng = mujoco_layout(tree, model), mujoco.MjData(model), np.random.default_rng(7)
    for _ in range(10):
        q, v, u = (2 * rng.normal(size=n) for n in (tree.nq, tree.nv, 5))
        data.qpos, data.qvel, data.ctrl = layout.to_q(q), layout.to_v(q, v), u
        model.jnt_actfrclimited[:] = 0  # a limit of the joint, not of the actuator
        mujoco.mj_forward(model, data)
        ours = layout.to_effort(q, tree.actuation(q, v, u))
        np.testing.assert_allclose(ours, data.qfrc_actuator, atol=1e-12)
    with pytest.raises(ShapeError, match="5 actuators: lift, bend"):
        tree.actuation(q, v, u[:2])


@since_4
def test_an_actuator_has_its_own_gear_and_range_behind_one_of_several_controls():
    text = """<mujoco><worldbody><body><joint name="b" type="ball"/><geom size=".1"/><body pos="1 0 0">
      <joint name="j"/><geom size=".1"/></body></body></worldbody><actuator><orientation joint="b" kp="3"/>
      <motor name="m" joint="j" ctrlrange="-3 3" forcerange="-2 2" gear="7" armature="0.5"/></actuator>
      </mujoco>"""
    tree = quietly(text)
    (motor,) = tree.actuators
    assert (motor.gears, motor.control_range, motor.force_range) == ({"j": 7}, (-3, 3), (-2, 2))
    assert tree.joint("j").armature == 0.5 * 7**2


def test_the_effort_of_an_actuator_on_a_follower_acts_on_its_leader():
    tree, free = quietly(FILES["arm"]), quietly(FILES["arm"], mimic=False)
    q, v, u = np.full(tree.nq, 0.1), np.full(tree.nv, 0.2), np.ones(5)
    model = active(FILES["arm"])
    bound, loose = mujoco_layout(tree, model), mujoco_layout(free, model)
    q_loose = loose.from_q(bound.to_q(q))
    G = bound.to_v(q, np.eye(tree.nv)).T
    efforts = loose.to_effort(q_loose, free.actuation(q_loose, loose.from_v(bound.to_q(q), G @ v), u))
    np.testing.assert_allclose(tree.actuation(q, v, u), G.T @ efforts, atol=1e-13)


def test_actuation_is_compiled_into_a_simulation():
    tree = quietly(model_of('<actuator><position joint="j" kp="20" kv="4"/></actuator>'))
    robot = lb.Robot(tree, (0, 0, 0))
    run = lb.simulate(robot, t_end=20.0, dt=1e-3, tau=lambda t, q, v: tree.actuation(q, v, [0.7]))
    assert run.metadata["efforts"] == "compiled" and run.q[-1] == pytest.approx(0.7, abs=1e-6)


def test_keyframes_are_named_configurations():
    tree = quietly(FILES["arm"])
    assert list(tree.configurations) == ["home", "folded"]
    np.testing.assert_array_equal(tree.configurations["folded"], [-1, 2, 0, 1.5, 0])
    np.testing.assert_allclose(tree.reference, [np.radians(20), 0, 0.05, 0, 0.01], rtol=1e-15)
    lying = quietly(FILES["walker"]).configurations["lying"]
    np.testing.assert_allclose(lying[:7], [0.5**0.5, 0, 0.5**0.5, 0, 0.3, 0.2, 0.1], atol=1e-15)


def test_shapes_are_kept_for_viewers():
    shapes = quietly(FILES["arm"]).description.shapes
    assert [shape.kind for shape in shapes[:2]] == ["plane", "capsule"]
    upper = next(shape for shape in shapes if shape.link == "upper")
    assert upper.size[0] == 0.04 and upper.size[1] == pytest.approx(np.hypot(0.3, 0.05))
    np.testing.assert_allclose(upper.placement[:3, 3], [0.15, 0, 0.025], atol=1e-15)
    np.testing.assert_allclose(upper.color, [0.2, 0.4, 0.8, 1], atol=1e-7)


def test_a_mesh_is_drawn_where_its_file_has_it(tmp_path):
    """MuJoCo moves meshes to principal axes; the file's vertices at the shape's placement are MuJoCo's."""
    vertices = np.array([[0, 0, 0], [0.3, 0, 0], [0, 0.2, 0], [0, 0, 0.1]])
    faces = [[0, 2, 1], [0, 1, 3], [0, 3, 2], [1, 2, 3]]
    lines = [f"v {x} {y} {z}" for x, y, z in vertices] + [f"f {a + 1} {b + 1} {c + 1}" for a, b, c in faces]
    (tmp_path / "meshes").mkdir()
    (tmp_path / "meshes" / "corner.obj").write_text("\n".join(lines))
    file = tmp_path / "robot.xml"
    file.write_text(
        '<mujoco><compiler meshdir="meshes"/><asset><mesh file="corner.obj" scale="2 2 1"/></asset>'
        '<worldbody><body name="b"><joint/><geom type="mesh" mesh="corner" pos="1 2 3" quat="1 2 3 4"/>'
        "</body></worldbody></mujoco>"
    )
    (shape,) = quietly(file).description.shapes
    assert shape.path == tmp_path / "meshes" / "corner.obj" and shape.size == (2, 2, 1)
    model = mujoco.MjModel.from_xml_path(str(file))
    R = np.zeros(9)
    mujoco.mju_quat2Mat(R, model.geom_quat[0])
    theirs = model.mesh_vert @ R.reshape(3, 3).T + model.geom_pos[0]
    ours = vertices * shape.size @ shape.placement[:3, :3].T + shape.placement[:3, 3]
    distances = np.linalg.norm(theirs[:, None] - ours, axis=2)
    assert distances.min(axis=1).max() < 1e-6 and set(distances.argmin(axis=1)) == {0, 1, 2, 3}


CORNER = "v 0 0 0\nv .3 0 0\nv 0 .2 0\nv 0 0 .1\nf 1 3 2\nf 1 2 4\nf 1 4 3\nf 2 3 4"
INERTIAL = '<inertial pos="0 0 0" mass="1" diaginertia="1 1 1"/>'


def drawn(meshes: str, rest: str = "", geom: str = "", compiler: str = "") -> str:
    """A model whose body is drawn by the mesh "corner"."""
    mesh = '<mesh name="corner" file="corner.obj"/>'
    return model_of(
        f'<compiler meshdir="{meshes}" {compiler}/><asset>{mesh}{rest}</asset>',
        f'{INERTIAL}<geom name="picture" type="mesh" mesh="corner" {geom}/>',
    )


@pytest.mark.parametrize("meshes", ["", "meshes", "../meshes", "absolute"])
@pytest.mark.parametrize("folder", ["", "urdf", "pk/urdf"])
def test_meshes_are_found_from_wherever_the_file_is_named(folder, meshes, tmp_path, monkeypatch):
    """By its path from any folder above, relative or absolute; and they stay so in another folder."""
    home = tmp_path / "pk" / "urdf"
    at = tmp_path / "elsewhere" if meshes == "absolute" else home / meshes
    for path in (home, at):
        path.mkdir(parents=True, exist_ok=True)
    (at / "corner.obj").write_text(CORNER)
    (home / "m.xml").write_text(drawn(str(at) if meshes == "absolute" else meshes))
    start = tmp_path / "pk/urdf".removesuffix(folder)
    monkeypatch.chdir(start)
    for source in (f"{folder}/m.xml".lstrip("/"), start / folder / "m.xml"):
        (shape,) = quietly(source).description.shapes
        monkeypatch.chdir(tmp_path)
        assert shape.path.is_absolute() and shape.path.samefile(at / "corner.obj")
        monkeypatch.chdir(start)
    told = CliRunner().invoke(main, ["info", f"{folder}/m.xml".lstrip("/")])
    assert told.exit_code == 0 and "not found" not in told.output


@pytest.mark.parametrize("broken", [False, True])
def test_files_on_which_no_motion_depends_may_be_missing_or_broken(broken, tmp_path):
    """Meshes of bodies that state their inertia, textures, height fields: dynamics are those with them."""
    more = (
        '<texture name="t" type="2d" file="no.png"/><material name="m" texture="t"/>'
        '<texture type="skybox" fileup="up.png"/><hfield name="h" file="no.png" size="1 1 1 1"/>'
    )
    (tmp_path / "whole").mkdir()
    (tmp_path / "whole" / "corner.obj").write_text(CORNER)
    (tmp_path / "whole" / "m.xml").write_text(drawn(".", geom='pos="1 2 3" quat="1 2 3 4"'))
    (tmp_path / "m.xml").write_text(drawn(".", more, 'pos="1 2 3" quat="1 2 3 4" material="m"'))
    if broken:
        (tmp_path / "corner.obj").write_text("no mesh")
    tree, whole = quietly(tmp_path / "m.xml"), quietly(tmp_path / "whole" / "m.xml")
    (shape,), (expected,) = tree.description.shapes, whole.description.shapes
    assert shape.filename == "corner.obj"
    assert shape.path == (tmp_path / "corner.obj" if broken else None)
    np.testing.assert_allclose(shape.placement, expected.placement, atol=1e-6)  # MuJoCo's vertices are floats
    assert shape.size == expected.size
    q = np.array([0.4])
    np.testing.assert_array_equal(dynamics.mass_matrix(tree, q), dynamics.mass_matrix(whole, q))


@pytest.mark.parametrize(
    "text",
    [
        drawn(".").replace(INERTIAL, ""),
        drawn(".", compiler='inertiafromgeom="true"'),
        drawn(".").replace('type="mesh"', 'type="box"'),  # whose size is fitted to the mesh
    ],
)
def test_meshes_on_which_inertias_or_sizes_depend_are_needed(text, tmp_path):
    (tmp_path / "m.xml").write_text(text)
    with pytest.raises(DescriptionError, match=r"corner\.obj.*Remedy: place the file"):
        quietly(tmp_path / "m.xml")
    (tmp_path / "corner.obj").write_text(CORNER)
    assert quietly(tmp_path / "m.xml").nv == 1


# -- what is named, and what is refused ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (model_of('<actuator><general joint="j" gaintype="affine"/></actuator>'), "actuator of"),
        (model_of('<actuator><general joint="j" dyntype="filter" dynprm="1"/></actuator>'), "actuator of"),
        (model_of('<option viscosity="0.1"/>'), "fluid"),
        (model_of("", f'{BODY}<site name="s"/>') , "contact of geoms (1)"),
        (model_of('<equality><joint joint1="j" polycoef="0.3 0 0 0 0"/></equality>'), "equality/joint (1)"),
        (model_of('<equality><connect body1="b" anchor="0 0 1" active="false"/></equality>'), "connect (1)"),
        (model_of('<tendon><fixed stiffness="2"><joint joint="j" coef="1"/></fixed></tendon>'), "a tendon"),
        (model_of("").replace('"j"', '"j" type="ball" range="0 1" limited="true"'), "limit of a ball"),
        (model_of("").replace('"j"', '"j" type="ball" stiffness="1"'), "spring of a ball"),
        (model_of("").replace('"j"', '"j" type="free" armature="1"'), "armature of a free joint"),
        (model_of("").replace('<body name="b">', '<body name="b" gravcomp="1">'), "body@gravcomp (1)"),
        (model_of('<option><flag limit="disable"/></option>'), "option/flag@limit (it acts here) (1)"),
        (model_of('<option><flag frictionloss="disable"/></option>'), "option/flag@frictionloss"),
        (
            model_of("").replace('"j"', '"j" actuatorfrclimited="true" actuatorfrcrange="-1 3"'),
            "actuatorfrcrange that differs by direction (1)",
        ),
        (model_of('<contact><exclude body1="b" body2="world"/></contact>'), "contact/exclude (1)"),
    ],
)  # fmt: skip
def test_what_is_not_used_is_named(text, what):
    with pytest.warns(UnusedElements) as said:
        tree = load_mjcf(text)
    assert len(said) == 1 and what in str(said[0].message) and said[0].filename == __file__
    assert tree.nv


def test_what_no_motion_depends_on_is_counted_and_not_warned_of():
    inside = '<geom size="0.1" contype="0" conaffinity="0"/><camera/><light/><light/>'
    text = model_of('<sensor><jointpos joint="j"/></sensor>', inside)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert load_mjcf(text).description.unused == {"camera": 1, "light": 2, "sensor": 1}


def test_what_is_used_is_not_named():
    text = model_of("", '<geom size="0.1" contype="0" conaffinity="0"/><site name="s"/>')
    text = text.replace('"j"', '"j" actuatorfrclimited="true" actuatorfrcrange="-3 3"')
    text = text.replace("<worldbody>", '<option><flag gravity="disable"/></option><worldbody>')
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not load_mjcf(text).description.unused
        assert load_mjcf(model_of(""), unused=False).description.unused == {"contact of geoms": 1}


def test_contacts_that_do_not_act_are_named_with_what_makes_them(tmp_path):
    words = "contact of geoms (1); liebody.contact.Contact.of_collisions"
    with pytest.warns(UnusedElements, match=re.escape(words)):
        robot = lb.load(model_of(""))
    assert words in str(report(robot.tree))
    assert len(lb.contact.Contact.of_collisions(robot, friction=0.5)) == 1


@since_4
def test_what_mujoco_warns_of_is_in_the_warning():
    with pytest.warns(UnusedElements, match="settotalmass") as said:
        load_mjcf(model_of('<compiler settotalmass="3"/>'))
    assert len(said) == 1


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("<mujoco><worldbody>\n<body><joint foo='1'/></body></worldbody></mujoco>",
         ["<text>", "line 2", "unrecognized attribute", "'foo'", "delete"]),
        ("<mujoco><worldbody>\n<body name='x'><joint/></body></worldbody></mujoco>",
         ["mass and inertia", "geom"]),
        (model_of('<asset><mesh file="nothing.stl"/></asset>', '<geom type="mesh" mesh="nothing"/>'),
         ["nothing.stl", "place the file", "<inertial>"]),
        (model_of('<equality><joint joint1="k"/></equality>'), ["'k'", "Remedy"]),
        ("<mujoco>", ["malformed XML", "line 1"]),
        ("<!DOCTYPE mujoco []><mujoco/>", ["document type declaration"]),
        ('<robot name="r"><link name="a"/></robot>', ["<robot>", "<mujoco>"]),
        ("nowhere.xml", ["No file", "nowhere.xml"]),
        (model_of("").replace('name="b"', 'name="b{}"'), ["body", "'b{}'", "Remedy"]),
    ],
)  # fmt: skip
def test_descriptions_that_are_refused(source, words):
    with pytest.raises(DescriptionError) as error:
        quietly(source)
    assert all(re.search(re.escape(word), str(error.value)) for word in words), str(error.value)


def test_a_file_that_is_refused_is_named(tmp_path):
    file = tmp_path / "bad.xml"
    file.write_text("<mujoco>\n<worldbod/>\n</mujoco>")
    with pytest.raises(DescriptionError, match=r"bad\.xml: MuJoCo refuses it: .*worldbod.*line 2"):
        load_mjcf(file)


@since_4
def test_a_file_of_another_name_is_refused_with_a_remedy(tmp_path):
    file = tmp_path / "robot.mjcf"
    file.write_text(model_of(""))
    with pytest.raises(DescriptionError, match=r"ends in \.xml"):
        load_mjcf(file)


def test_options_that_make_no_sense_are_refused():
    with pytest.raises(ModelError, match="<freejoint/>"):
        lb.load(model_of(""), floating=True)
    with pytest.raises(ModelError, match="check is 'no'"):
        load_mjcf(model_of(""), check="no")


def test_without_mujoco_the_message_says_what_to_install(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(MissingPackage, match="reading MJCF: pip install mujoco"):
        load_mjcf(model_of(""))


# -- from the command line ----------------------------------------------------------------------------------


def test_info_describes_an_mjcf():
    found = CliRunner().invoke(main, ["info", str(FILES["arm"])])
    assert found.exit_code == 0 and found.stderr == ""
    for words in (
        "arm with a gripper: 6 bodies, 5 degrees",
        "finger_left -0.008",
        "JointSpring()",
        "sensor (1)",
    ):
        assert words in found.stdout


HILLS = """<mujoco><asset><hfield name="h" nrow="4" ncol="5" size="2 1.5 0.3 0.1" elevation="{}"/></asset>
<worldbody><geom name="hills" type="hfield" hfield="h" pos="0.5 -0.2 0.1" {}/><body name="b"><joint name="j"/>
<geom size="0.1"/></body></worldbody></mujoco>"""


def test_height_fields_of_the_world_are_grounds_with_mujocos_heights():
    elevation = " ".join(map(str, np.random.default_rng(0).random(20).round(3)))
    text = HILLS.format(elevation, "")
    tree = quietly(text)
    (ground,) = tree.grounds.values()
    assert [*tree.grounds] == ["hills"] and ground.shape == (5, 4)
    assert "geom of type hfield" not in tree.description.unused
    model = mujoco.MjModel.from_xml_string(text)
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    heights = ground.parameters["heights"].values
    for i, j in np.ndindex(5, 4):  # rays, slightly within the rim
        x, y = ground.origin + np.array(ground.spacing) * [i, j] + 1e-7 * (np.array([2, 1.5]) - [i, j])
        down = mujoco.mj_ray(
            model, data, np.array([x, y, 5.0]), np.array([0, 0, -1.0]), None, 1, -1, np.zeros(1, np.int32)
        )
        assert 5.0 - down == pytest.approx(heights[i, j], abs=1e-6)  # MuJoCo's heights are floats
    tilted = quietly(HILLS.format(elevation, 'euler="10 0 0"'))
    assert not tilted.grounds and tilted.description.unused["geom of type hfield"] == 1
