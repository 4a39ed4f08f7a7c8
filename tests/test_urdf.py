"""URDF: what is read, what is made of it, and every file of a public collection against Pinocchio."""

import math
import warnings

import numpy as np
import pytest
from found import descriptions

from liebody import dynamics
from liebody.base.errors import DescriptionError, ModelError
from liebody.bodies import Mimic, SpatialInertia
from liebody.groups import Fixed, Free, Planar, Prismatic, Revolute
from liebody.io import DoubtfulInertia, UnusedElements, load_urdf, pinocchio_layout, read_urdf


def link(name, mass=1.0, xyz="0 0 0", rpy="0 0 0", inertia=(1, 1, 1, 0, 0, 0), rest=""):
    values = " ".join(
        f'{key}="{value}"'
        for key, value in zip(("ixx", "iyy", "izz", "ixy", "ixz", "iyz"), inertia, strict=True)
    )
    inertial = f'<origin xyz="{xyz}" rpy="{rpy}"/><mass value="{mass}"/><inertia {values}/>'
    return f'<link name="{name}"><inertial>{inertial}</inertial>{rest}</link>'


def joint(name, parent, child, kind="revolute", xyz="0 0 0", rpy="0 0 0", axis="0 0 1", rest=""):
    limit = (
        '<limit lower="-1" upper="2" effort="3" velocity="4"/>' if kind in ("revolute", "prismatic") else ""
    )
    return (
        f'<joint name="{name}" type="{kind}"><origin xyz="{xyz}" rpy="{rpy}"/><parent link="{parent}"/>'
        f'<child link="{child}"/><axis xyz="{axis}"/>{limit}{rest}</joint>'
    )


def robot(*parts, name="r"):
    return f'<?xml version="1.0"?>\n<robot name="{name}">\n' + "\n".join(parts) + "\n</robot>"


# -- what is read -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "kind, group",
    [
        ("revolute", Revolute((0, 0, -1))),
        ("continuous", Revolute((0, 0, -1))),
        ("prismatic", Prismatic((0, 0, -1))),
        ("planar", Planar((0, 0, -1))),
        ("floating", Free()),
        ("fixed", Fixed()),
    ],
)
def test_each_joint_type_is_its_group_about_its_axis(kind, group):
    tree = load_urdf(
        robot(link("a"), link("b"), joint("j", "a", "b", kind, axis="0 0 -3")), merge_fixed=False
    )
    assert tree.joint("j").group == group


def test_axes_of_any_length_and_direction_are_normalised():
    tree = load_urdf(robot(link("a"), link("b"), joint("j", "a", "b", axis="3 0 -4e0")))
    np.testing.assert_allclose(tree.joint("j").group.axis, [0.6, 0, -0.8], atol=1e-16)


def test_an_axis_that_is_not_stated_is_x():
    text = '<joint name="j" type="continuous"><parent link="a"/><child link="b"/></joint>'
    assert load_urdf(robot(link("a"), link("b"), text)).joint("j").group == Revolute((1, 0, 0))


def test_limits_and_losses_are_kept():
    losses = '<dynamics damping="0.5" friction="0.25"/>'
    tree = load_urdf(
        robot(
            link("a"),
            link("b"),
            link("c"),
            link("d"),
            joint("j", "a", "b", rest=losses),
            joint("k", "b", "c", "continuous", rest='<limit lower="0" upper="0" effort="7" velocity="8"/>'),
            joint("l", "c", "d", "continuous", rest='<limit effort="inf" velocity="8"/>'),
        )
    )
    j, k, l = tree.joint("j"), tree.joint("k"), tree.joint("l")
    assert (j.lower, j.upper, j.effort_limit, j.velocity_limit, j.damping, j.friction) == (
        -1,
        2,
        3,
        4,
        0.5,
        0.25,
    )
    assert (k.lower, k.upper, k.effort_limit, k.velocity_limit) == (-math.inf, math.inf, 7, 8)
    assert l.effort_limit == math.inf


def test_right_angles_are_exact_and_angles_close_to_them_stay():
    text = robot(
        link("a"),
        link("b"),
        link("c"),
        joint("j", "a", "b", rpy=f"{math.pi / 2} {-math.pi} 1.57079632679"),
        joint("k", "b", "c", rpy="1.5708 0 0.3"),
    )
    tree = load_urdf(text)
    exact, rounded = (tree.body(name).placement[:3, :3] for name in "bc")
    # Rz(pi/2) Ry(-pi) Rx(pi/2)
    np.testing.assert_array_equal(exact, [[0, 0, 1], [-1, 0, 0], [0, -1, 0]])
    assert rounded[2, 2] == pytest.approx(math.cos(1.5708), abs=1e-16)
    assert rounded[2, 2] != 0
    assert rounded[2, 0] == 0  # Ry(0) is exact
    np.testing.assert_allclose(rounded @ rounded.T, np.eye(3), atol=1e-15)


def test_bodies_are_numbered_depth_first_in_the_order_of_the_joints_in_the_file():
    text = robot(
        *(link(name) for name in "edcba"),
        joint("1", "a", "c"),
        joint("2", "c", "e"),
        joint("3", "a", "b"),
        joint("4", "c", "d"),
    )
    assert [body.name for body in load_urdf(text).bodies] == ["c", "e", "d", "b"]


def test_fixed_joints_are_welded_with_their_inertia_and_leave_a_frame():
    parts = [
        link("base"),
        link("arm", 2.0, "0.1 0 0", inertia=(0.1, 0.2, 0.25, 0.01, 0, 0)),
        link("tool", 0.5, "0 0 0.2", "0.1 0.2 0.3", (0.01, 0.02, 0.025, 0, 0, 0)),
        joint("j", "base", "arm", xyz="0 0 1"),
        joint("weld", "arm", "tool", "fixed", "0.3 0 0", "0 0.5 0"),
    ]
    welded, kept = load_urdf(robot(*parts)), load_urdf(robot(*parts), merge_fixed=False)
    arm, tool = kept.body("arm"), kept.body("tool")
    assert [body.name for body in welded.bodies] == ["arm"]
    assert {name: frame.body for name, frame in welded.frames.items()} == {"base": 0, "tool": 1}
    np.testing.assert_allclose(welded.frame("tool").placement, tool.placement, atol=1e-16)
    expected = arm.inertia + tool.inertia.shift(tool.placement)
    np.testing.assert_allclose(welded.body("arm").inertia.matrix(), expected.matrix(), atol=1e-15)
    q = np.array([0.3])
    np.testing.assert_allclose(dynamics.mass_matrix(welded, q), dynamics.mass_matrix(kept, q), rtol=1e-14)


def test_the_inertia_of_a_root_that_is_fixed_has_no_effect_and_of_one_that_floats_has():
    text = robot(link("a", 5.0), link("b", 1.0), joint("j", "a", "b"))
    fixed, floating = load_urdf(text), load_urdf(text, floating=True)
    assert (fixed.mass, floating.mass) == (1.0, 6.0)
    assert (fixed.nv, floating.nv) == (1, 7)
    assert floating.bodies[0].joint.name == "root_joint"
    assert floating.bodies[0].joint.group == Free()


def test_a_root_called_world_is_the_world_when_fixed_and_a_body_when_floating():
    text = robot(
        '<link name="world"/>', link("b"), joint("j", "world", "b", "fixed"), link("c"), joint("k", "b", "c")
    )
    assert load_urdf(text).frame("b").body == 0
    assert [body.name for body in load_urdf(text, floating=True).bodies] == ["world_link", "c"]


def test_a_joint_that_is_called_root_joint_keeps_its_name():
    text = robot(link("a"), link("b"), joint("root_joint", "a", "b"))
    assert [body.joint.name for body in load_urdf(text, floating=True).bodies] == [
        "root_joint_",
        "root_joint",
    ]


def test_inertia_is_turned_into_the_axes_of_the_link():
    tree = load_urdf(
        robot(link("a"), link("b", 2, "1 2 3", "0 0 0.4", (1, 2, 2.5, 0, 0, 0)), joint("j", "a", "b"))
    )
    c, s = math.cos(0.4), math.sin(0.4)
    R = np.array([[c, -s, 0], [s, c, 0], [0, 0, 1]])
    expected = SpatialInertia(2, [1, 2, 3], R @ np.diag([1, 2, 2.5]) @ R.T)
    np.testing.assert_allclose(tree.body("b").inertia.matrix(), expected.matrix(), atol=1e-14)


def test_mimic_joints_are_no_degrees_of_freedom():
    chain = [
        link("a"),
        link("b"),
        link("c"),
        link("d"),
        joint("j", "a", "b", rest='<mimic joint="k" multiplier="2" offset="0.5"/>'),
        joint("k", "b", "c", "prismatic", rest='<mimic joint="l" multiplier="-3" offset="0.25"/>'),
        joint("l", "c", "d", axis="0 1 0"),
    ]
    tree = load_urdf(robot(*chain))
    assert tree.nv == 1
    q = np.array([0.1])
    assert [float(body.joint_coordinates(q)[0]) for body in tree.bodies] == pytest.approx([0.4, -0.05, 0.1])
    with pytest.warns(UnusedElements, match=r"joint/mimic \(2\)"):
        assert load_urdf(robot(*chain), mimic=False, unused=True).nv == 3


def test_a_massless_link_is_allowed_where_it_carries_mass():
    text = robot(
        link("a"), '<link name="b"/>', link("c"), joint("j", "a", "b"), joint("k", "b", "c", axis="1 0 0")
    )
    tree = load_urdf(text)
    assert tree.body("b").inertia.is_massless
    assert np.linalg.eigvalsh(dynamics.mass_matrix(tree, np.array([0.3, 0.4]))).min() > 0


def test_text_bytes_and_files_are_read_alike(tmp_path):
    text = robot(link("a"), link("b"), joint("j", "a", "b"), name="größe")
    file = tmp_path / "r.urdf"
    file.write_bytes(text.replace('version="1.0"', 'version="1.0" encoding="utf-16"').encode("utf-16"))
    trees = [load_urdf(source) for source in (text, "\ufeff \n" + text[21:], text.encode(), file, str(file))]
    assert [tree.name for tree in trees] == ["größe"] * 5
    assert [tree.nv for tree in trees] == [1] * 5


# -- what is not used, and shapes -------------------------------------------------------------------------


def test_everything_that_is_not_used_is_named_in_one_warning_where_it_is_asked_for():
    text = robot(
        link("a", rest="<contact/>"),
        link("b", rest="<visual><geometry><blob/></geometry></visual><visual><geometry/></visual>"),
        joint("j", "a", "b", rest='<safety_controller k_velocity="1"/><dynamics damping="1" D="2"/>'),
        "<gazebo/><gazebo reference='a'><joint name='nested'/></gazebo><transmission name='t'/>",
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        load_urdf(text)
    with pytest.warns(UnusedElements) as caught:
        load_urdf(text, unused=True)
    assert len(caught) == 1
    message = str(caught[0].message)
    for what in (
        "gazebo (2)",
        "transmission (1)",
        "link/contact (1)",
        "joint/safety_controller (1)",
        "joint/dynamics/@D (1)",
        "link/visual without a known geometry (2)",
    ):
        assert what in message
    assert caught[0].filename == __file__


def test_a_file_of_which_all_is_used_gives_no_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        load_urdf(robot(link("a"), link("b"), joint("j", "a", "b")))


def test_shapes_are_kept_with_colors_and_the_paths_of_meshes(tmp_path):
    package = tmp_path / "arm_description"
    (package / "urdf").mkdir(parents=True)
    (package / "meshes").mkdir()
    mesh = package / "meshes" / "a.stl"
    mesh.write_text("solid")
    names = [
        "package://arm_description/meshes/a.stl",
        "../meshes/a.stl",
        mesh.as_uri(),
        str(mesh),
        "missing.stl",
    ]
    visuals = "".join(
        f'<visual><origin xyz="1 0 0"/><geometry><mesh filename="{name}" scale="2 2 2"/></geometry>'
        '<material name="red"/></visual>'
        for name in names
    )
    collision = (
        '<collision><geometry><cylinder radius="0.1" length="2"/></geometry></collision>'
        '<collision><geometry><box size="1 2 3"/></geometry></collision>'
        '<collision><geometry><sphere radius="4"/></geometry></collision>'
        '<collision><geometry><mesh filename="missing.stl"/></geometry></collision>'
    )
    red = '<material name="red"><color rgba="1 0 0 0.5"/></material>'
    file = package / "urdf" / "arm.urdf"
    file.write_text(robot(red, link("a", rest=visuals + collision), link("b"), joint("j", "a", "b")))
    shapes = load_urdf(file).description.shapes
    assert [shape.path and shape.path.resolve() for shape in shapes[:5]] == [mesh.resolve()] * 4 + [None]
    assert {shape.color for shape in shapes[:5]} == {(1, 0, 0, 0.5)}
    assert [shape.size for shape in shapes[4:]] == [(2, 2, 2), (0.1, 2), (1, 2, 3), (4,), (1, 1, 1)]
    assert [shape.kind for shape in shapes[4:]] == ["mesh", "cylinder", "box", "sphere", "mesh"]
    np.testing.assert_array_equal(shapes[0].placement[:3, 3], [1, 0, 0])


def test_meshes_at_addresses_and_outside_the_package_are_not_opened(tmp_path):
    outside = tmp_path / "secret.stl"
    outside.write_text("solid")
    folder = tmp_path / "package" / "urdf"
    folder.mkdir(parents=True)
    file = folder / "r.urdf"
    meshes = "".join(
        f'<visual><geometry><mesh filename="{name}"/></geometry></visual>'
        for name in (outside.as_uri(), str(outside), "http://example.org/a.stl")
    )
    file.write_text(robot(link("a", rest=meshes), link("b"), joint("j", "a", "b")))
    with pytest.warns(
        UnusedElements, match=r"absolute path outside the package folder \(2\), mesh at an address"
    ):
        tree = load_urdf(file, unused=True)
    assert [shape.path for shape in tree.description.shapes] == [None] * 3


# -- inertias ---------------------------------------------------------------------------------------------

SKEWED = (1, 1, 3, 0, 0, 0)
INDEFINITE = (1, 1, 1, 2, 0, 0)


def test_moments_that_break_the_triangle_inequality_are_loaded_with_a_warning():
    text = robot(link("a"), link("b", inertia=SKEWED), joint("j", "a", "b"))
    with pytest.warns(DoubtfulInertia, match=r"'b'.*triangle inequality") as caught:
        load_urdf(text)
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        load_urdf(text, check=False)


def test_indefinite_inertia_is_refused_unless_asked_for():
    text = robot(link("a"), link("b", inertia=INDEFINITE), joint("j", "a", "b"))
    with pytest.raises(ModelError, match=r"(?s)'b'.*not positive definite.*check=\"warn\""):
        load_urdf(text)
    with pytest.warns(DoubtfulInertia, match="not positive definite"):
        assert load_urdf(text, check="warn").nv == 1


def test_what_is_checked_is_the_welded_body():
    text = robot(
        link("a"),
        link("b", 10.0),
        link("c", 1e-3, inertia=tuple(1e-5 * x for x in INDEFINITE)),
        joint("j", "a", "b"),
        joint("k", "b", "c", "fixed"),
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        load_urdf(text)


# -- the collection ---------------------------------------------------------------------------------------

pinocchio = pytest.importorskip("pinocchio", reason="the test extra `pin` is not installed")


COLLECTION = descriptions(empty=True)

REFUSED = {
    "alex_psyonic_hands.urdf": (
        DescriptionError,
        "line 1037: joint 'Left_index_q2' mimics 'index_q1', and there",
    ),
    "ur3.urdf": (DescriptionError, "line 6: a robot without any <link>"),
    "romeo.urdf": (ModelError, "body 'RFinger11Link' moves by joint 'RHand' .* without any inertia"),
    "romeo_laas_small.urdf": (
        ModelError,
        "body 'LHipPitch_link': rotational inertia has a negative principal moment",
    ),
}
"""The files that are refused: a broken reference, an empty file, massless fingers, an impossible inertia."""

DOUBTFUL = {"romeo_small.urdf"}


quiet = pytest.mark.filterwarnings("ignore::liebody.io.AssumedDynamics", "ignore::liebody.io.DoubtfulInertia")


def test_the_collection_is_there():
    assert len(COLLECTION) == 69, "the test extra `example-robot-data` is not installed, or has other files"


@pytest.mark.parametrize("file", COLLECTION, ids=lambda file: file.stem)
@pytest.mark.many
def test_every_file_of_the_collection_loads_or_is_refused_with_the_reason(file):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        if file.name in REFUSED:
            error, reason = REFUSED[file.name]
            with pytest.raises(error, match=f"(?s){file.name}.*{reason}.*Remedy"):
                load_urdf(file)
        else:
            load_urdf(file)
    expected = {DoubtfulInertia} if file.name in DOUBTFUL else set()
    assert {warning.category for warning in caught} == expected


@quiet
@pytest.mark.parametrize("floating", [False, True], ids=["fixed", "floating"])
@pytest.mark.parametrize("file", COLLECTION, ids=lambda file: file.stem)
@pytest.mark.many
def test_the_collection_agrees_with_pinocchio(file, floating):
    """Masses, centres of mass, M, efforts, accelerations, energies, poses and Jacobians, to 1e-9.

    Mimic joints move freely in Pinocchio's model (which refuses some of them), and are bound by the layout.
    """
    if file.name == "ur3.urdf":
        with pytest.raises(ValueError):
            pinocchio.buildModelFromUrdf(str(file))
        return
    tree = load_urdf(file, floating=floating, check=False, mimic=file.name != "alex_psyonic_hands.urdf")
    root = (pinocchio.JointModelFreeFlyer(),) if floating else ()
    model = pinocchio.buildModelFromUrdf(str(file), *root)
    layout, data = pinocchio_layout(tree, model), model.createData()
    for body in tree.bodies:
        theirs = model.inertias[model.getJointId(body.joint.name)]
        assert body.inertia.mass == pytest.approx(theirs.mass, rel=1e-12)
    if not tree.nv:
        return
    rng = np.random.default_rng(7)
    q, v, a = tree.group.random(rng), rng.normal(size=tree.nv), rng.normal(size=tree.nv)
    qp, vp, ap = layout.to_q(q), layout.to_v(q, v), layout.to_a(q, v, a)

    tau = dynamics.inverse_dynamics(tree, q, v, a)
    _agree(tau, layout.from_effort(qp, pinocchio.rnea(model, data, qp, vp, ap)))
    upper = np.triu(pinocchio.crba(model, data, qp))
    B = np.array([layout.to_v(q, e) for e in np.eye(tree.nv)]).T
    _agree(dynamics.mass_matrix(tree, q), B.T @ (upper + np.triu(upper, 1).T) @ B)
    _agree(dynamics.kinetic_energy(tree, q, v), pinocchio.computeKineticEnergy(model, data, qp, vp))
    _agree(dynamics.potential_energy(tree, q), pinocchio.computePotentialEnergy(model, data, qp))
    _agree(dynamics.center_of_mass(tree, q), pinocchio.centerOfMass(model, data, qp))

    if file.name not in ("romeo.urdf", "romeo_laas_small.urdf"):  # M is singular
        found = layout.to_a(q, v, dynamics.forward_dynamics(tree, q, v, tau))
        _agree(layout.from_effort(qp, pinocchio.rnea(model, data, qp, vp, found)), tau)

    for name in (*list(tree.frames)[-1:], tree.bodies[-1].name):
        frame = model.getFrameId("world" if name == "world_link" else name, pinocchio.FrameType.BODY)
        J = pinocchio.computeFrameJacobian(model, data, qp, frame, pinocchio.ReferenceFrame.LOCAL) @ B
        _agree(dynamics.frame_jacobian(tree, q, name), np.concatenate([J[3:], J[:3]]))
        pinocchio.framesForwardKinematics(model, data, qp)
        _agree(dynamics.frame_pose(tree, q, name), data.oMf[frame].homogeneous)


def _agree(ours, theirs):
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-9 * max(np.abs(theirs).max(), 1e-3))


@pytest.mark.filterwarnings("ignore")  # numpy's, in yourdfpy
@pytest.mark.parametrize("file", COLLECTION, ids=lambda file: file.stem)
@pytest.mark.many
def test_the_collection_is_read_as_yourdfpy_reads_it(file):
    """Another reader of URDF finds the same links, joints, inertias, limits and shapes, number by number."""
    yourdfpy = pytest.importorskip("yourdfpy", reason="the test extra `yourdfpy` is not installed")
    if file.name in ("ur3.urdf", "alex_psyonic_hands.urdf"):
        return  # an empty file, and a mimic of nothing
    theirs = yourdfpy.URDF.load(str(file), build_scene_graph=False, load_meshes=False).robot
    ours = read_urdf(file)
    links = {link.name: link for link in ours.links}
    assert ours.name == theirs.name and set(links) == {link.name for link in theirs.links}
    for link in theirs.links:
        stated, inertia = link.inertial, links[link.name].inertia
        assert (stated is None) == (inertia is None)
        if stated is not None:
            origin = np.eye(4) if stated.origin is None else stated.origin
            expected = SpatialInertia(stated.mass, np.zeros(3), stated.inertia).shift(origin)
            assert inertia.mass == stated.mass
            _agree(inertia.matrix(), expected.matrix())
        shapes = [shape for shape in ours.shapes if shape.link == link.name]
        for shape, stated in zip(shapes, [*link.visuals, *link.collisions], strict=True):
            _agree(shape.placement, np.eye(4) if stated.origin is None else stated.origin)
            geometry = getattr(stated.geometry, shape.kind)
            if shape.kind == "mesh":
                assert shape.filename == geometry.filename
                size = np.broadcast_to(1.0 if geometry.scale is None else geometry.scale, 3)
            else:
                size = np.ravel(
                    [getattr(geometry, n) for n in ("size", "radius", "length") if hasattr(geometry, n)]
                )
            assert shape.size == tuple(size)
    assert ours.joints == tuple(joint.name for joint in theirs.joints)
    for joint in theirs.joints:
        link = links[joint.child]
        made, limit = link.joint, joint.limit
        assert (made.name, link.kind, link.parent) == (joint.name, joint.type, joint.parent)
        _agree(link.placement, np.eye(4) if joint.origin is None else joint.origin)
        if joint.type in ("revolute", "continuous", "prismatic"):
            _agree(made.group.axis, joint.axis / np.linalg.norm(joint.axis))
        if joint.type in ("revolute", "prismatic") and limit is not None:
            assert (made.lower[0], made.upper[0]) == (limit.lower or 0, limit.upper or 0)
            assert made.effort_limit[0] == (math.inf if limit.effort is None else limit.effort)
            assert made.velocity_limit[0] == (math.inf if limit.velocity is None else limit.velocity)
        if joint.dynamics is not None and joint.type != "fixed":
            losses = (float(joint.dynamics.damping or 0), float(joint.dynamics.friction or 0))
            assert (made.damping[0], made.friction[0]) == losses
        if joint.mimic is not None and joint.type != "fixed":
            assert made.mimic == Mimic(joint.mimic.joint, joint.mimic.multiplier, joint.mimic.offset)


@quiet
@pytest.mark.parametrize("file", COLLECTION[::7], ids=lambda file: file.stem)
def test_welding_fixed_joints_changes_nothing(file):
    welded, kept = load_urdf(file, check=False), load_urdf(file, check=False, merge_fixed=False)
    assert len(kept.bodies) == sum(link.name != "world" for link in read_urdf(file).links)
    assert welded.nv == kept.nv
    q, v = welded.group.random(np.random.default_rng(3)), np.ones(welded.nv)
    _agree(dynamics.inverse_dynamics(kept, q, v, v), dynamics.inverse_dynamics(welded, q, v, v))
