"""Bad input, and what is said of it: each row is an input, its error, and words the message must have.

Every error is a ValueError that says where, what, and what to do.
"""

import contextlib
import copy
import importlib
import pkgutil
import re
import sys
import time
import tomllib
import warnings
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np
import pytest

import liebody as lb
from liebody import dynamics, mechanisms, models
from liebody.base import arguments
from liebody.base.errors import (
    ArgumentError,
    ConfigurationError,
    DescriptionError,
    IntegrationError,
    LiebodyError,
    MissingPackage,
    ModelError,
    ShapeError,
    positive,
)
from liebody.bodies import Joint, Mimic, SpatialInertia, Tree, TreeBuilder
from liebody.compiler import Kernel, to_casadi, trace
from liebody.compiler.printers.sympy_source import to_sympy
from liebody.groups import SE3, SO3, Free, Helical, Planar, Prismatic, Revolute, Spherical
from liebody.io import load_urdf
from liebody.simulation.simulate import PassedLimits
from liebody_studies import reproduce

INERTIAL = '<inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial>'
A = f'<link name="a">{INERTIAL}</link>'
B = f'<link name="b">{INERTIAL}</link>'
C = f'<link name="c">{INERTIAL}</link>'
LIMIT = '<limit lower="-1" upper="1" effort="1" velocity="1"/>'


def joint(name="j", parent="a", child="b", rest=LIMIT, kind="revolute"):
    return (
        f'<joint name="{name}" type="{kind}"><parent link="{parent}"/><child link="{child}"/>{rest}</joint>'
    )


def robot(*parts):
    return '<robot name="r">\n' + "\n".join(parts) + "\n</robot>"


def link(inertial):
    return f'<link name="b"><inertial>{inertial}</inertial></link>'


def mesh(filename):
    return (
        f'<link name="b">{INERTIAL}<visual><geometry><mesh filename="{filename}"/></geometry></visual></link>'
    )


def bomb(depth=12):
    entities = "".join(f'<!ENTITY x{i} "{f"&x{i - 1};" * 10}">' for i in range(1, depth))
    return (
        f'<!DOCTYPE robot [<!ENTITY x0 "ha">{entities}]><robot name="r"><link name="&x{depth - 1};"/></robot>'
    )


MASSLESS = '<mass value="0"/><inertia ixx="0" iyy="0" izz="0"/>'

XML = {
    # text that is no XML, or unsafe
    "empty text": (b"", ["line 1", "no element found"]),
    "no XML": ("<robot", ["line 1", "malformed XML", "Remedy"]),
    "a tag left open": (
        '<robot name="r">\n<link name="a">\n</robot>',
        ["line 3", "mismatched tag", "closed"],
    ),
    "an attribute without quotes": ("<robot name=r/>", ["line 1", "malformed XML", "quoted"]),
    "two root elements": (robot(A) + robot(A), ["malformed XML", "junk after document element"]),
    "an unknown entity": ('<robot name="&who;"/>', ["malformed XML", "undefined entity"]),
    "an encoding that is none": (b'<?xml version="1.0" encoding="klingon"?><robot/>', ["encoding", "UTF-8"]),
    "bytes that are not UTF-8": (b'<robot name="\xff\xfe"/>', ["malformed XML"]),
    "an entity bomb": (bomb(), ["document type declaration", "DOCTYPE", "delete"]),
    "an external entity": (
        '<!DOCTYPE r [<!ENTITY x SYSTEM "file:///etc/passwd">]><robot name="&x;"/>',
        ["document type declaration", "delete"],
    ),
    "an external document type": ('<!DOCTYPE r SYSTEM "http://example.org/r.dtd"><robot/>', ["DOCTYPE"]),
    "a document type in UTF-16": ("<!DOCTYPE r []><robot/>".encode("utf-16"), ["DOCTYPE"]),
    # another document
    "MJCF": ("<mujoco/>", ["<mujoco>", "URDF"]),
    "an empty robot": (robot(), ["without any <link>", "xacro"]),
    "a xacro file": (
        robot(A, link('<mass value="${m}"/><inertia ixx="1" iyy="1" izz="1"/>')),
        ["xacro", "${m}"],
    ),
    # missing and repeated elements
    "a link without name": (robot("<link/>"), ["line 2", "no attribute 'name'", "<link>"]),
    "a joint without name": (
        robot(A, B, joint().replace('name="j" ', "")),
        ["line 4", "no attribute 'name'"],
    ),
    "a joint without type": (
        robot(A, B, joint().replace(' type="revolute"', "")),
        ["no attribute 'type'", "'j'"],
    ),
    "a joint without parent": (
        robot(A, B, joint().replace('<parent link="a"/>', "")),
        ["no <parent>", "'j'"],
    ),
    "a joint without child": (robot(A, B, joint().replace('<child link="b"/>', "")), ["no <child>", "'j'"]),
    "a joint with two parents": (
        robot(A, B, joint(rest=LIMIT + '<parent link="a"/>')),
        ["a second <parent>"],
    ),
    "inertia without ixx": (
        robot(A, link('<mass value="1"/><inertia iyy="1" izz="1"/>')),
        ["line 3", "no attribute 'ixx'"],
    ),
    # names
    "two links of a name": (robot(A, A), ["line 3", "a second link", "'a'", "line 2"]),
    "two joints of a name": (
        robot(A, B, C, joint(), joint(child="c")),
        ["line 6", "a second joint", "'j'", "line 5"],
    ),
    "an unknown parent": (
        robot(A, B, joint(parent="z")),
        ["line 4", "parent of joint 'j'", "'z'", "no such link"],
    ),
    "an unknown child": (
        robot(A, B, joint(child="z")),
        ["line 4", "child of joint 'j'", "'z'", "no such link"],
    ),
    "an empty name": (robot('<link name=""/>'), ["line 2", "is not a name"]),
    "a name of blanks": (robot('<link name="   "/>'), ["line 2", "is not a name"]),
    "a name with quotes": (robot("<link name='a\"b'/>"), ["is not a name", "letters, digits"]),
    "a name with line breaks": (robot('<link name="a&#10;b"/>'), ["is not a name", r"\n"]),
    "a name with a null character": (robot('<link name="a&#0;b"/>'), ["line 2", "malformed XML"]),
    "a name with an escape": (robot('<link name="a&#27;[31mb"/>'), ["malformed XML"]),
    "a name that turns text around": (robot('<link name="a\u202eb"/>'), ["is not a name", r"\u202e"]),
    "a name that is C": (robot('<link name="x; } int main() { system(0);"/>'), ["is not a name", "system"]),
    "a name that ends a comment": (robot('<link name="*/ #include &lt;stdio.h&gt;"/>'), ["is not a name"]),
    "a name with a backslash": (robot('<link name="a\\"/>'), ["is not a name"]),
    "a name that is a shell": (robot('<link name="$(rm -rf /)"/>'), ["is not a name"]),
    "a name without end": (robot(f'<link name="{"a" * 10_000}"/>'), ["is not a name", "1 to 200"]),
    "a joint called badly": (robot(A, B, joint(name="j`k`")), ["line 4", "is not a name"]),
    # how they hang together
    "two roots": (
        robot(A, B, C, joint()),
        ["line 4", "2 links are the child of no joint", "'a', 'c'", "fixed"],
    ),
    "a cycle": (
        robot(A, B, C, joint("j", "b", "c"), joint("k", "c", "b")),
        ["close a cycle", "'b'", "'c'", "'j'", "'k'", "delete"],
    ),
    "nothing but a cycle": (robot(A, B, joint(), joint("k", "b", "a")), ["close a cycle", "'a'", "'b'"]),
    "a link on itself": (robot(A, joint(child="a")), ["joint 'j' joins link 'a' to itself"]),
    "a link on two": (
        robot(A, B, C, joint(child="c"), joint("k", "b", "c")),
        ["line 6", "'c' is the child of two joints", "'j'", "'k'", "<constraint>"],
    ),
    "a link called world": (
        robot(A, B.replace('"b"', '"world"'), joint(child="world")),
        ["'world'", "rename"],
    ),
    # joints
    "an unknown type": (
        robot(A, B, joint(kind="hinge")),
        ["line 4", "unknown type 'hinge'", "revolute, continuous"],
    ),
    "an axis without direction": (
        robot(A, B, joint(rest='<axis xyz="0 0 0"/>' + LIMIT)),
        ["'j'", "no direction"],
    ),
    "an axis without xyz": (robot(A, B, joint(rest="<axis/>" + LIMIT)), ["no attribute 'xyz'", "<axis>"]),
    "an axis of two numbers": (
        robot(A, B, joint(rest='<axis xyz="0 1"/>' + LIMIT)),
        ["has 2 numbers", "expected 3"],
    ),
    "an axis with nan": (robot(A, B, joint(rest='<axis xyz="0 nan 1"/>' + LIMIT)), ["not finite", "<axis>"]),
    "an axis of words": (
        robot(A, B, joint(rest='<axis xyz="x y z"/>' + LIMIT)),
        ["not made of numbers", "'x y z'"],
    ),
    "an axis with commas": (
        robot(A, B, joint(rest='<axis xyz="0,0,1"/>' + LIMIT)),
        ["not made of numbers", "blanks"],
    ),
    "an origin with infinity": (
        robot(A, B, joint(rest='<origin xyz="inf 0 0"/>' + LIMIT)),
        ["not finite", "xyz"],
    ),
    "a mass beyond measure": (
        robot(A, link('<mass value="1e300"/><inertia ixx="1" iyy="1" izz="1"/>')),
        ["line 3", "'1e300'", "beyond 1e+15", "SI units"],
    ),
    "digits of another script": (
        robot(A, link('<mass value="\u0661\u0662"/><inertia ixx="1" iyy="1" izz="1"/>')),
        ["line 3", "not a number", "decimal"],
    ),
    "a blank of another script": (
        robot(A, B, joint(rest='<axis xyz="0\u00a00\u00a01"/>' + LIMIT)),
        ["not made of numbers"],
    ),
    "ten million decimals": (
        robot(A, link(f'<mass value="1.{"3" * 10**7}"/><inertia ixx="1" iyy="1" izz="1"/>')),
        ["line 3", "not a number"],
    ),
    "angles of Python": (robot(A, B, joint(rest='<origin rpy="1_0 0 0"/>' + LIMIT)), ["not made of numbers"]),
    "negative damping": (
        robot(A, B, joint(rest='<dynamics damping="-2"/>')),
        ["damping=-2", "negative", "zero or more"],
    ),
    # mimic
    "a mimic of nothing": (
        robot(A, B, joint(rest='<mimic joint="z"/>')),
        ["'j' mimics 'z'", "no such", "mimic=False"],
    ),
    "a mimic of itself": (robot(A, B, joint(rest='<mimic joint="j"/>')), ["circle", "'j'"]),
    "mimics in a circle": (
        robot(A, B, C, joint(rest='<mimic joint="k"/>'), joint("k", "b", "c", '<mimic joint="j"/>')),
        ["circle", "'j', 'k'", "delete"],
    ),
    "a mimic of what floats": (
        robot(A, B, C, joint(rest='<mimic joint="k"/>'), joint("k", "b", "c", "", "floating")),
        ["'j' mimics 'k'", "'floating'", "one coordinate"],
    ),
    "a planar mimic": (
        robot(A, B, C, joint(rest='<mimic joint="k"/>', kind="planar"), joint("k", "b", "c")),
        ["'j' is 'planar'"],
    ),
    "a mimic without joint": (robot(A, B, joint(rest='<mimic multiplier="2"/>')), ["no attribute 'joint'"]),
}


@pytest.mark.parametrize("name", XML)
def test_a_bad_urdf_is_refused_with_place_and_remedy(name):
    text, words = XML[name]
    with pytest.raises(DescriptionError) as caught:
        load_urdf(text)
    _says(caught, "<text>, line ", "Remedy: ", *words)


def test_an_entity_bomb_takes_no_time():
    start = time.perf_counter()
    with pytest.raises(DescriptionError):
        load_urdf(bomb(200))
    assert time.perf_counter() - start < 1


MECHANISMS = {
    "no mass behind a joint": (robot(A, link(MASSLESS), joint()), ["'b'", "'j'", "without any inertia"]),
    "no inertia behind a joint": (robot(A, '<link name="b"/>', joint()), ["'b'", "without any inertia"]),
    "negative mass": (
        robot(A, link('<mass value="-1"/><inertia ixx="1" iyy="1" izz="1"/>'), joint()),
        ["line 3", "'b'", "negative mass", "-1 kg"],
    ),
    "negative mass on a fixed joint": (
        robot(
            A, B, link('<mass value="-0.5"/><inertia ixx="1" iyy="1" izz="1"/>').replace('"b"', '"c"')
        ).replace("</robot>", joint() + joint("k", "b", "c", "", "fixed") + "</robot>"),
        ["line 4", "'c'", "negative mass"],
    ),
    "negative moments": (
        robot(A, link('<mass value="1"/><inertia ixx="-1" iyy="1" izz="1"/>'), joint()),
        ["'b'", "negative principal moment", "-1"],
    ),
    "products beyond moments": (
        robot(A, link('<mass value="1"/><inertia ixx="1" iyy="1" izz="1" ixy="2"/>'), joint()),
        ["'b'", "not positive definite"],
    ),
}


@pytest.mark.parametrize("name", MECHANISMS)
def test_a_mechanism_that_cannot_be_is_refused_with_the_body_and_a_remedy(name):
    text, words = MECHANISMS[name]
    with pytest.raises(ModelError) as caught:
        load_urdf(text)
    _says(caught, "<text>", "Remedy: ", 'check="warn"', *words)


@pytest.mark.wide
def test_deep_and_large_files_are_no_danger(tmp_path, monkeypatch):
    deep, deeper = ("<x>" * depth + "</x>" * depth for depth in (400, 200_000))
    assert load_urdf(robot(A, B, joint(), deep)).description.unused == {"x": 1}
    with pytest.raises(DescriptionError, match="elements within each other, 500 deep"):
        load_urdf(robot(A, B, joint(), deeper))
    file = tmp_path / "large.urdf"
    file.write_text(robot(A, " " * 1000))
    monkeypatch.setattr("liebody.io.document.LARGEST_FILE", 1000)
    with pytest.raises(DescriptionError, match=r"large.urdf has \d+ bytes, and a description at most 1000"):
        load_urdf(file)
    with pytest.raises(DescriptionError, match=r"<text> has \d+ bytes, and a description at most 1000"):
        load_urdf(robot(A, " " * 1000))


def test_a_file_is_named_in_its_messages(tmp_path):
    file = tmp_path / "broken.urdf"
    file.write_text(robot(A, A))
    with pytest.raises(DescriptionError, match=rf"{file}, line 3: "):
        load_urdf(file)


def test_a_mesh_path_may_leave_the_folder_of_the_file_but_not_the_package(tmp_path):
    folder = tmp_path / "p" / "urdf"
    folder.mkdir(parents=True)
    for place in (tmp_path / "x.stl", tmp_path / "p" / "x.stl"):
        place.write_text("solid")
    file = folder / "r.urdf"

    def found(filename):
        file.write_text(robot(A, mesh(filename), joint()))
        description = load_urdf(file).description
        return description.shapes[0].path, description.unused

    inside = tmp_path / "p" / "x.stl"
    assert found("../x.stl") == (inside, {})
    for outside in ("../../x.stl", "..\\..\\x.stl", "package://p/../x.stl", "package://../x.stl"):
        assert found(outside) == (None, {"mesh outside the package folder": 1})
    (tmp_path / "package.xml").write_text("<package/>")
    assert found("../../x.stl") == (tmp_path / "x.stl", {})


INERTIA = SpatialInertia(1, [0, 0, 0], [1, 1, 1])
Z = (0, 0, 1)

PYTHON = {
    # paths
    "a missing file": (
        lambda: load_urdf("no/such.urdf"),
        DescriptionError,
        ["no/such.urdf", "check the path"],
    ),
    "a folder": (lambda: load_urdf("."), DescriptionError, ["folder"]),
    "no path": (lambda: load_urdf(3), DescriptionError, ["int", "path"]),
    "a path with a null character": (lambda: load_urdf("a\0b"), DescriptionError, [r"a\x00b"]),
    "a path without end": (lambda: load_urdf("a" * 10_000), DescriptionError, ["cannot be read"]),
    "an unknown inertia": (
        lambda: load_urdf(robot(A), inertia="guess"),
        ModelError,
        ["'guess'", '"from collision geometry"'],
    ),
    "a density of nothing": (
        lambda: load_urdf(robot(A), inertia="from collision geometry", density=0),
        ModelError,
        ["density", "0", "positive"],
    ),
    "a density of words": (
        lambda: load_urdf(robot(A), inertia="from collision geometry", density="steel"),
        ModelError,
        ["density", "'steel'", "positive"],
    ),
    "a surface of nothing": (
        lambda: SpatialInertia.polyhedron(1, np.zeros((2, 2, 3))),
        ShapeError,
        ["(2, 2, 3)", "(n, 3, 3)"],
    ),
    "an unknown check": (lambda: load_urdf(robot(A), check="maybe"), ModelError, ["'maybe'", '"warn"']),
    # groups
    "an axis without direction": (lambda: Revolute((0, 0, 0)), ModelError, ["axis", "no direction"]),
    "an axis of two numbers": (lambda: Prismatic((0, 1)), ShapeError, ["axis", "three numbers"]),
    "an axis with nan": (lambda: Revolute((0, np.nan, 0)), ModelError, ["axis", "not finite"]),
    "a pitch of zero": (lambda: Helical(Z, 0), ModelError, ["pitch", "Revolute"]),
    "a quaternion far from unit": (lambda: SO3.check([2, 0, 0, 0]), ConfigurationError, ["2", "normalize"]),
    "complex coordinates": (
        lambda: SO3.check(np.array([1, 0, 0, 1j])),
        ShapeError,
        ["coordinates of SO3", "4 numbers", "1.j"],
    ),
    "a pose with nan": (lambda: SE3.check([1, 0, 0, 0, np.nan, 0, 0]), ConfigurationError, ["finite"]),
    # bodies
    "an inertia of four numbers": (
        lambda: SpatialInertia(1, [0, 0, 0], [1, 2, 3, 4]),
        ShapeError,
        ["rotational", "(4,)", "(3, 3)"],
    ),
    "a joint that is none": (lambda: Joint("j", "revolute"), ModelError, ["'j'", "'revolute'", "Revolute"]),
    "negative damping": (lambda: Joint("j", Revolute(Z), damping=-1), ModelError, ["'j'", "damping", "-1"]),
    "negative armature": (
        lambda: Joint("j", Revolute(Z), armature=-1),
        ModelError,
        ["'j'", "armature", "-1"],
    ),
    "a limit above the other": (
        lambda: Joint("j", Revolute(Z), lower=1, upper=-1),
        ModelError,
        ["'j'", "lower is [1], above upper, [-1]", "exchange"],
    ),
    "a limit with nan": (
        lambda: Joint("j", Revolute(Z), upper=np.nan),
        ModelError,
        ["'j'", "upper is [nan]", "numbers"],
    ),
    "a negative limit of efforts": (
        lambda: Joint("j", Revolute(Z), effort_limit=-1.0),
        ModelError,
        ["'j'", "effort_limit is [-1.0]", "zero or more"],
    ),
    "an armature without end": (
        lambda: Joint("j", Revolute(Z), armature=np.inf),
        ModelError,
        ["'j'", "armature is [inf]", "zero or more, finite"],
    ),
    "a spring relaxed nowhere": (
        lambda: Joint("j", Revolute(Z), rest=np.nan),
        ModelError,
        ["'j'", "rest is [nan]", "finite"],
    ),
    "a follower with nan": (lambda: Mimic("k", np.nan), ModelError, ["multiplier", "'k'", "nan", "finite"]),
    "a follower of words": (lambda: Mimic("k", 1, "far"), ShapeError, ["offset", "'k'", "'far'", "numbers"]),
    "two limits of one": (
        lambda: Joint("j", Revolute(Z), lower=[0, 1]),
        ShapeError,
        ["lower", "(2,)", "(1,)"],
    ),
    "a ball that mimics": (
        lambda: Joint("j", Spherical(), mimic=Mimic("k")),
        ModelError,
        ["'j'", "mimics 'k'"],
    ),
    "a zero mass that moves": (
        lambda: TreeBuilder().add("a", Revolute(Z)).build(),
        ModelError,
        ["'a'", "without any inertia", "armature"],
    ),
    "a negative mass": (
        lambda: TreeBuilder().add("a", Free(), SpatialInertia(-1, [0, 0, 0], [1, 1, 1])).build(),
        ModelError,
        ["'a'", "-1", "negative"],
    ),
    "a broken triangle": (
        lambda: TreeBuilder().add("a", Free(), SpatialInertia(1, [0, 0, 0], [1, 1, 3])).build(),
        ModelError,
        ["'a'", "triangle inequality", "units"],
    ),
    "an inertia with nan": (
        lambda: TreeBuilder().add("a", Free(), SpatialInertia(np.nan, [0, 0, 0], [1, 1, 1])).build(),
        ModelError,
        ["'a'", "finite"],
    ),
    "two bodies of a name": (
        lambda: TreeBuilder().add("a", Revolute(Z), INERTIA).add("a", Revolute(Z), INERTIA),
        ModelError,
        ["two bodies", "'a'"],
    ),
    "an unknown parent": (
        lambda: TreeBuilder().add("a", Revolute(Z), INERTIA, "z").build(),
        ModelError,
        ["'a'", "'z'", "known"],
    ),
    "a circle of bodies": (
        lambda: TreeBuilder().add("a", Revolute(Z), INERTIA, "b").add("b", Revolute(Z), INERTIA, "a").build(),
        ModelError,
        ["'a', 'b'", "circle"],
    ),
    "a placement that is no pose": (
        lambda: TreeBuilder().add("a", Revolute(Z), INERTIA, placement=np.ones((4, 4))),
        ModelError,
        ["'a'", "not a rigid motion"],
    ),
    "a check of another name": (
        lambda: TreeBuilder().build("wran"),
        ModelError,
        ["check is 'wran'", '"warn"'],
    ),
    "an unknown body": (
        lambda: models.puma560().tree.body("elbow"),
        ModelError,
        ["'elbow'", "known", "link1"],
    ),
    # what is found about mechanisms
    "a curvature at no state": (
        lambda: dynamics.integrability(HOPPER, states=0),
        ArgumentError,
        ["states is 0", "1 or more"],
    ),
    "parameters at fewer than no states": (
        lambda: dynamics.base_parameters(HOPPER, states=-3),
        ArgumentError,
        ["states is -3", "0 or more"],
    ),
    "a frame of a q too short": (
        lambda: dynamics.locked_frame(HOPPER, [0.1]),
        ShapeError,
        ["(..., 4)", "(1,)"],
    ),
    "a frame of many q": (
        lambda: dynamics.locked_frame(HOPPER, np.zeros((3, 4))),
        ShapeError,
        ["q", "(3, 4)", "single configuration, (4,)"],
    ),
    "an angle at nan": (
        lambda: dynamics.locked_angle(HOPPER, [0, 0, 0, np.nan]),
        ConfigurationError,
        ["coordinate 3", "nan"],
    ),
    "an angle from nowhere": (
        lambda: dynamics.locked_angle(HOPPER, np.zeros(4), start=[0, 0]),
        ShapeError,
        ["path"],
    ),
    "a path without velocity": (
        lambda: dynamics.holonomy(HOPPER, lambda s: s),
        ArgumentError,
        ["the path is 0.0", "configuration and a velocity"],
    ),
    "a path of other joints": (
        lambda: dynamics.motion_without_momentum(HOPPER, lambda s: ([s, s], [1, 1])),
        ShapeError,
        ["(2,), (2,)", "the joints have (1,) and (1,)"],
    ),
    "a rate in a frame that may move": (
        lambda: dynamics.is_momentum_conserved(HOPPER, np.zeros(4), np.zeros(4), np.eye(3)),
        ModelError,
        ["velocity is not known", "MovingFrame(g, u)"],
    ),
    "a task of one number": (
        lambda: dynamics.internal_jacobian(HOPPER, np.zeros(4), dynamics.Task("foot", 3)),
        ArgumentError,
        ["rows", "is 3", "0 to 5"],
    ),
    "stops that take no time": (
        lambda: mechanisms.JointLimits.stops(PUMA.tree, 0.0),
        ModelError,
        ["contact is 0.0", "positive"],
    ),
    "buoyancy without a centre": (
        lambda: mechanisms.RigidBody(Free(), INERTIA, buoyancy=(1.0,)),
        ShapeError,
        ["buoyancy is (1.0,)", "centre (3,)"],
    ),
    "a velocity too short": (
        lambda: mechanisms.RigidBody(Free(), INERTIA).coriolis([1, 2]),
        ShapeError,
        ["v", "(2,)", "(6,)"],
    ),
    "a fall of words": (lambda: mechanisms.OpenTree(HOPPER, "down"), ShapeError, ["gravity", "'down'"]),
    "screws of words": (lambda: Tree.from_screws("a", "b", []), ShapeError, ["space_screws", "numbers"]),
    "a rank of a vector": (lambda: dynamics.rank_of([1, 2]), ShapeError, ["J", "(2,)", "(r, n)"]),
    "an ellipsoid of words": (
        lambda: mechanisms.ellipsoid_added_mass("abc", 1.0),
        ShapeError,
        ["semi_axes", "numbers"],
    ),
    "a fluid lighter than nothing": (
        lambda: mechanisms.ellipsoid_added_mass((1, 2, 3), -1.0),
        ModelError,
        ["density", "-1.0", "zero or more"],
    ),
    "two angles": (
        lambda: mechanisms.roll_pitch_yaw_transformation([1, 2]),
        ShapeError,
        ["3 or 6 numbers", "not 2"],
    ),
    # what a user calls
    "an unknown model": (lambda: lb.load("puma"), DescriptionError, ["puma"]),
    "gravity of two numbers": (
        lambda: lb.Robot(models.puma560().tree, (0, -9.81)),
        ShapeError,
        ["gravity", "three"],
    ),
    "a q too short": (lambda: PUMA.inverse_dynamics(np.zeros(5), ZERO, ZERO), ShapeError, ["(5,)", "6"]),
    "a v too long": (lambda: PUMA.inverse_dynamics(ZERO, np.zeros(7), ZERO), ShapeError, ["(7,)", "6"]),
    "batches that do not fit": (
        lambda: PUMA.inverse_dynamics(np.zeros((3, 6)), np.zeros((2, 6)), ZERO),
        ShapeError,
        ["(3,", "(2,"],
    ),
    "a q with nan": (lambda: PUMA.mass_matrix([0, np.nan, 0, 0, 0, 0]), ConfigurationError, ["q", "finite"]),
    "a q of words": (lambda: PUMA.mass_matrix("home"), ShapeError, ["q"]),
    "a top far from unit": (
        lambda: TOP.mass_matrix([2.0, 0, 0, 0]),
        ConfigurationError,
        ["norm 2", "normalize"],
    ),
}

PUMA, TOP, ZERO = models.puma560(), models.heavy_top(), np.zeros(6)
HOPPER = models.revolute_hopper().tree


@pytest.mark.parametrize("name", PYTHON)
@pytest.mark.many
def test_bad_python_input_is_refused_with_value_and_expectation(name):
    call, error, words = PYTHON[name]
    with pytest.raises(error) as caught:
        call()
    _says(caught, *words)


def _says(caught, *words):
    assert isinstance(caught.value, LiebodyError)
    assert isinstance(caught.value, ValueError)
    message = str(caught.value)
    assert all(word in message for word in words), message
    assert message.replace("\n", "").isprintable(), "a message carries control characters of its input"


COMPLETE = robot(
    '<material name="red"><color rgba="1 0 0 1"/></material>',
    A,
    '<link name="b"><inertial><origin xyz="0 0 1" rpy="0.1 0 0"/><mass value="1"/>'
    '<inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial>'
    '<visual><origin xyz="0 0 0"/><geometry><mesh filename="b.stl" scale="1 1 1"/></geometry></visual>'
    '<collision><geometry><box size="1 1 1"/></geometry></collision>'
    '<collision><geometry><cylinder radius="1" length="1"/></geometry></collision>'
    '<collision><geometry><sphere radius="1"/></geometry></collision></link>',
    C,
    joint("j", "a", "b", '<axis xyz="0 0 1"/><dynamics damping="1" friction="1"/>' + LIMIT),
    joint(
        "k", "b", "c", '<origin xyz="1 0 0" rpy="0 0 0"/><mimic joint="j" multiplier="2" offset="1"/>' + LIMIT
    ),
)
PLACES = [match.span(1) for match in re.finditer(r'="([^"]*)"', COMPLETE)]


@pytest.mark.filterwarnings("ignore::liebody.io.DoubtfulInertia")
@pytest.mark.parametrize("text", ["1.0", b"1.0", np.str_("1.0"), np.array("1.0"), np.array("1.0", object)])
def test_text_is_no_number_at_any_door(text):
    """NumPy would read it as one."""
    traced = trace(lambda x: 2 * x, {"x": 2}, "f")
    pair = [text if isinstance(text, (str, bytes)) else text.item(), 0.5]
    calls = [
        lambda: arguments.number("x", text),
        lambda: arguments.quantity("x", text),
        lambda: arguments.floats("x", [pair, pair]),
        lambda: arguments.vector("x", np.array(pair, object), 2),
        lambda: positive("x", text),
        lambda: traced(pair),
        lambda: Kernel(traced)(np.array(pair, object)),
        lambda: lb.simulate(lb.load("double_pendulum"), pair, t_end=0.1, dt=0.1),
    ]
    for call in calls:
        with pytest.raises(LiebodyError, match=r"1\.0"):
            call()


@pytest.mark.parametrize(
    "text", ["", " ", "nan", "-inf", "1e400", "-1", "0", "0 0 0", "1e300 1e300 1e300", "j", "../../x"]
)
@pytest.mark.many
def test_whatever_an_attribute_says_the_answer_is_a_tree_or_an_error_of_ours(text):
    for start, end in PLACES:
        try:
            tree = load_urdf(COMPLETE[:start] + text + COMPLETE[end:])
        except LiebodyError as error:
            assert "Remedy: " in str(error)
        else:
            assert tree.nv >= 1


CHANGES = {
    "left out": lambda parent, k: parent.remove(parent[k]),
    "repeated": lambda parent, k: parent.insert(k, copy.deepcopy(parent[k])),
    "without attributes": lambda parent, k: parent[k].attrib.clear(),
    "without children": lambda parent, k: parent[k].clear(),
    "in itself": lambda parent, k: parent[k].append(copy.deepcopy(parent[k])),
    "under another name": lambda parent, k: setattr(parent[k], "tag", "x"),
}


@pytest.mark.filterwarnings("ignore::liebody.io.DoubtfulInertia", "ignore::liebody.io.AssumedDynamics")
@pytest.mark.parametrize("inertia", [None, "from collision geometry"])
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.many
def test_whatever_happens_to_an_element_the_answer_is_a_tree_or_an_error_of_ours(change, inertia):
    count, read = len(list(ElementTree.fromstring(COMPLETE).iter())) - 1, 0
    for chosen in range(count):
        root = ElementTree.fromstring(COMPLETE)
        CHANGES[change](*[(parent, k) for parent in root.iter() for k in range(len(parent))][chosen])
        try:
            tree = load_urdf(ElementTree.tostring(root), inertia=inertia)
        except LiebodyError as error:
            assert "Remedy: " in str(error)
        else:
            read += tree.nv >= 1
    assert count == 40 and read > 4


# -- what may be meant --------------------------------------------------------------------------------------

WALKER = robot(A, B, C, joint(), joint("k", "b", "c"))
XACRO = 'xmlns:xacro="http://www.ros.org/wiki/xacro"'


def walker(floating=True):
    return lb.load(WALKER, floating=floating)


def theirs(q, scalar_last):
    """Coordinates of a robot on a free base in the order of MuJoCo, or of Pinocchio."""
    turn = np.roll(q[..., :4], -1, axis=-1) if scalar_last else q[..., :4]
    return np.concatenate([q[..., 4:7], turn, q[..., 7:]], axis=-1)


@pytest.mark.parametrize("scalar_last", [False, True])
@pytest.mark.parametrize(
    "call",
    [
        lambda r, q: r.mass_matrix(q),
        lambda r, q: r.forward_dynamics(np.tile(q, (70, 1)), np.zeros(r.nv), np.zeros(r.nv)),
        lambda r, q: r.kernel("gravity")(q),
        lambda r, q: r.group.check(q),
        lambda r, q: lb.simulate(r, q, t_end=0.01, dt=1e-3),
        lambda r, q: lb.simulate(r, np.tile(q, (12, 1)), t_end=0.01, dt=1e-3),
        lambda r, q: lb.stepper(r, dt=1e-3).start(q),
        lambda r, q: lb.inverse_kinematics(r, {"c": np.zeros(3)}, q0=q),
        lambda r, q: lb.linearize(r, q),
    ],
)
def test_a_position_before_the_quaternion_is_asked_for_and_not_normalized(call, scalar_last):
    """Normalizing what has another order would make a wrong pose in silence."""
    robot = walker()
    q = theirs(robot.random(3), scalar_last)
    with pytest.raises(
        ConfigurationError, match="the order of MuJoCo and Pinocchio, position first"
    ) as error:
        call(robot, q)
    assert "normalize" not in str(error.value) and "mujoco_layout" in str(error.value)
    with pytest.raises(ConfigurationError, match=r"normalize|divide it by its norm") as error:
        call(robot, np.concatenate([2 * robot.random(3)[:4], q[4:]]))
    assert "MuJoCo" not in str(error.value)


def test_only_poses_have_another_order():
    """Numbers behind the quaternion of a ball joint are no orientation, whatever their norm."""
    tree = TreeBuilder("ball").add("ball", Spherical(), SpatialInertia.box(1, [1, 2, 3]))
    for i in range(4):
        parent = f"link{i - 1}" if i else "ball"
        tree.add(f"link{i}", Revolute((0, 0, 1)), SpatialInertia.box(1, [1, 2, 3]), parent)
    robot = lb.Robot(tree.build())
    q = np.array([0.0, 0, 0, 0, 1, 0, 0, 0])
    for call in (lambda: robot.mass_matrix(q), lambda: lb.simulate(robot, q, t_end=0.1, dt=0.1)):
        with pytest.raises(ConfigurationError, match="normalize"):
            call()
    assert robot.mass_matrix(robot.random(1)).shape == (7, 7)


@pytest.mark.parametrize(
    "call",
    [
        lambda r, q, v: r.mass_matrix(q),
        lambda r, q, v: r.mass_matrix([q, q]),
        lambda r, q, v: r.gravity(q.tolist()),
        lambda r, q, v: r.bias(q[7:], v),
        lambda r, q, v: lb.simulate(r, q, t_end=0.01, dt=1e-3),
        lambda r, q, v: lb.simulate(r, q[7:], v, t_end=0.01, dt=1e-3),
        lambda r, q, v: lb.stepper(r, dt=1e-3).start(q),
        lambda r, q, v: r.view(q),
    ],
)
def test_seven_coordinates_too_many_ask_for_a_floating_base(call):
    fixed, floating = walker(False), walker()
    with pytest.raises(ShapeError, match=r"[67] more are as many as a free base has: .*floating=True"):
        call(fixed, floating.neutral(), np.zeros(floating.nv))
    with pytest.raises(ShapeError) as error:
        call(fixed, np.zeros(fixed.nq + 8), np.zeros(fixed.nv + 5))
    assert "free base" not in str(error.value)


def test_robots_say_whether_their_base_is_fixed():
    assert str(walker(False)).endswith(", fixed base") and str(walker()).endswith(", floating base")
    assert str(models.double_pendulum(spherical=True)).endswith(", fixed base")
    planar = TreeBuilder("cart").add("cart", Planar((0, 0, 1)), SpatialInertia.box(1, [1, 2, 3])).build()
    assert "base" not in str(lb.Robot(planar))  # it drives


def test_angles_that_may_be_degrees_are_asked_for():
    robot = walker(False)
    with pytest.warns(PassedLimits, match=r"; k begins at -90 rad: is it meant in degrees\? numpy.radians"):
        lb.simulate(robot, [[0.1, 0], [45, -90]], t_end=0.01, dt=1e-3)
    with pytest.warns(PassedLimits) as said:
        lb.simulate(robot, [1.2, 0], t_end=0.01, dt=1e-3)
    assert "degrees" not in str(said[0].message)
    options = {"t_end": 1.0, "dt": 1e-2, "joints": "ideal", "tau": lambda t, q, v: 1e9 * v**3}
    with pytest.raises(
        IntegrationError, match=r"energy in, as those of angles in degrees.*j begins at 30 rad"
    ):
        lb.simulate(robot, [30, 0], [1, 1], **options)
    with pytest.raises(IntegrationError, match="energy in, as those of angles in degrees") as error:
        lb.simulate(robot, [1, 0], [1, 1], **options)
    assert "begins at" not in str(error.value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (f'<robot {XACRO}><xacro:include filename="a"/><link name="world"/></robot>', "<xacro:include>"),
        (f'<robot {XACRO}><link name="world"/><xacro:arm parent="world"/></robot>', "<xacro:arm>"),
        (f'<robot {XACRO}><xacro:property name="x" value="1"/></robot>', "without any <link>"),
        (robot('<link name="${prefix}a"/>'), "is not a name"),
        (robot('<link name="$(arg prefix)a"/>'), "is not a name"),
    ],
)
def test_files_of_xacro_are_refused_before_they_are_expanded(text, words, tmp_path):
    file = tmp_path / "arm.xacro"
    file.write_text(text)
    for source in (text, file):
        with pytest.raises(
            DescriptionError, match=f"{words}.*expand it first, xacro robot.urdf.xacro > robot.urdf"
        ):
            lb.load(source)


def test_what_xacro_leaves_behind_is_unused(tmp_path):
    """Expanded files keep its name space, and some keep its elements."""
    rest = '<xacro:if value="0"/><xacro:property name="x" value="1"/>'
    text = WALKER.replace("<robot ", f"<robot {XACRO} ").replace("</robot>", f"{rest}</robot>")
    assert lb.load(text).nq == 2
    file = tmp_path / "arm.xacro"
    file.write_text(text)
    with pytest.raises(DescriptionError, match="expand it first"):
        lb.load(file)
    file.write_text(text.replace('<xacro:if value="0"/>', ""))
    assert lb.load(file).nq == 2


@pytest.mark.parametrize(
    ("method", "words"),
    [
        ("RK45", "of the same order, with error control, is 'rkmk45'; known are rkmk1"),
        ("RK4", "is 'rkmk4'"),
        ("DOP853", "'rkmk-dop853'"),
        ("BDF", "'radau5'"),
        ("semi-implicit-euler", "a step of optimal_control alone; .*'variational'"),
        ("semi_implicit_euler", "'variational'"),
        ("Verlet", "'variational'"),
        ("radau6", "did you mean 'radau5'"),
    ],
)
def test_methods_of_other_libraries_are_answered_with_what_there_is(method, words):
    for call in (
        lambda: lb.simulate(walker(), t_end=1.0, method=method),
        lambda: lb.stepper(walker(), dt=1e-3, method=method),
    ):
        with pytest.raises(IntegrationError, match=f"no method '{method}'.*{words}") as error:
            call()
        assert "generalized-alpha" in str(error.value) and "cf4" in str(error.value)  # all are listed


def test_a_rotation_in_the_place_of_a_pose_is_asked_for():
    """It is read as three positions, which are allowed; other positions are taken without a word."""
    robot = walker(False)
    with pytest.warns(
        UserWarning, match=r"a rotation matrix \(3, 3\), and read as three positions; .*SE3.motion"
    ):
        found = lb.inverse_kinematics(robot, {"c": np.eye(3)})
    assert found.q.shape == (3, 2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        lb.inverse_kinematics(robot, {"c": np.ones((3, 3))})
        lb.inverse_kinematics(robot, {"c": np.eye(4)})
    with pytest.raises(ShapeError, match=r"expected a pose \(..., 4, 4\) or a position"):
        lb.inverse_kinematics(robot, {"c": np.eye(2)})


# -- packages that are not installed ------------------------------------------------------------------------

OPTIONAL = {
    "closed forms": ("sympy", "sympy", lambda: lb.equations("double_pendulum")),
    "equations in symbols": ("sympy", "sympy", lambda: lb.rigid_body_equations(SO3)),
    "expressions of SymPy": ("sympy", "sympy", lambda: to_sympy(trace(lambda x: x + 1, {"x": ()}))),
    "functions of CasADi": ("casadi", "casadi", lambda: to_casadi(trace(lambda x: x + 1, {"x": ()}))),
    "samples": ("scipy", "sweep", lambda: lb.sample({"x": (0, 1)}, 4)),
    "sweeps": ("zarr", "sweep", lambda: lb.sweep(print, {"x": [1.0]}, "store.zarr")),
    "the robot 'ur5_description'": ("robot_descriptions", "descriptions", lambda: lb.load("ur5_description")),
    "studies": ("cloudpickle", "studies", lambda: reproduce("rnea-notes")),
    "to_xarray": (
        "xarray",
        "sweep",
        lambda: lb.simulate(lb.load("double_pendulum"), t_end=0.1, dt=0.1).to_xarray(),
    ),
    "pictures": (
        "matplotlib",
        "plot",
        lambda: lb.simulate(lb.load("double_pendulum"), t_end=0.1, dt=0.1).plot(),
    ),
}


@pytest.mark.parametrize("purpose", OPTIONAL)
def test_a_package_that_is_missing_is_named_with_the_command_that_installs_it(purpose, monkeypatch, tmp_path):
    package, extra, call = OPTIONAL[purpose]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingPackage) as error:
        call()
    remedy = f"pip install {package}, or liebody with its extra {extra!r}"
    assert str(error.value) == f"{package} is not installed; for {purpose}: {remedy}"
    extras = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
    assert extra in extras["optional-dependencies"]
    assert isinstance(error.value, LiebodyError) and isinstance(error.value, ImportError)


def test_no_text_advises_to_install_extras_from_an_index():
    """That is true of a release alone; `pip install sympy` and, in a checkout, `.[sympy]` always are."""
    root = Path(__file__).parent.parent
    pages = [root / "README.md", *root.glob("docs/**/*.md")]
    for path in [*Path(lb.__file__).parent.rglob("*.py"), *pages]:
        assert not re.search(r"pip install .{0,2}liebody\[", path.read_text(encoding="utf-8")), path


# -- all of them --------------------------------------------------------------------------------------------

INSIDE = {"NoPlace", "NotConverged", "TooLarge", "WrongResults", "_NotFinite"}  # caught: their base is met


def kinds(base):
    """The classes below one that are liebody's."""
    for found in base.__subclasses__():
        if found.__module__.startswith("liebody."):
            yield found
        yield from kinds(found)


def test_every_kind_of_error_and_warning_is_met_in_a_test():
    for module in pkgutil.walk_packages(lb.__path__, "liebody."):
        if module.name != "liebody.__main__":
            with contextlib.suppress(MissingPackage):  # of an extra
                importlib.import_module(module.name)
    tests = "".join(path.read_text(encoding="utf-8") for path in Path(__file__).parent.glob("test_*.py"))
    found = {x.__name__ for base in (LiebodyError, UserWarning) for x in kinds(base)} - INSIDE
    assert len(found) > 20
    assert not [x for x in found if not re.search(rf"(raises|warns)\([^)]*\b{x}\b|category is {x}\b", tests)]
