"""What `liebody info` says of a mechanism."""

import dataclasses

import numpy as np
import pytest

from liebody import models
from liebody.bodies import Frame, Joint, Mimic, SpatialInertia, TreeBuilder
from liebody.dynamics import mass_matrix
from liebody.groups import SE3, Free, Prismatic, Revolute
from liebody.io import load_urdf
from liebody.io.report import report

BODY = SpatialInertia(2.0, [0.1, 0, 0], [0.02, 0.03, 0.04])


def test_a_sound_mechanism_has_no_findings_and_its_numbers():
    tree = models.planar_chain(3, length=0.5, mass=2.0).tree
    told = report(tree)
    assert told.findings == ()
    assert told.mass == 6
    np.testing.assert_allclose(told.center, [0, 0, -0.75], atol=1e-15)
    assert 0.5 < told.reach <= 1.5
    least, median, largest = told.condition
    assert 1 < least <= median <= largest < 1e4
    assert 1 < told.scaled < 1e3
    assert told.weakest == ("link3", pytest.approx(2 * 0.5**2 / 3))
    text = str(told)
    assert "3 bodies, 3 degrees of freedom" in text
    assert "Findings: none." in text
    assert all(f"link{i}" in text for i in (1, 2, 3))


def test_conditioning_is_that_of_the_mass_matrix_within_the_limits():
    joint = Joint("j", Prismatic((1, 0, 0)), lower=0.5, upper=0.5 + 1e-9)
    tree = TreeBuilder().add("a", Revolute((0, 0, 1)), BODY).add("b", joint, BODY, "a").build()
    M = mass_matrix(tree, np.array([0.3, 0.5]))
    np.testing.assert_allclose(report(tree).condition, np.linalg.cond(M), rtol=1e-6)


def test_what_follows_is_told_with_what_it_follows():
    tree = (
        TreeBuilder()
        .add("a", Joint("j", Revolute((0, 0, 1)), -1, 2), BODY)
        .add("b", Joint("k", Revolute((0, 0, 1)), mimic=Mimic("j", -2, 0.5)), BODY, "a")
        .build()
    )
    text = str(report(tree))
    assert "1 of the joints follow others" in text
    assert "= -2 j +0.5" in text
    assert "-1 .. 2" in text


SHAPE = '<inertial><mass value="1"/><inertia ixx="1" ixy="0" ixz="0" iyy="1" iyz="0" izz="1"/></inertial>'
LINKS = "".join(f'<link name="{name}">{SHAPE}</link>' for name in "abcde")


def _described(*joints, rest=""):
    made = [
        f'<joint name="{parent}{child}" type="continuous">'
        f'<parent link="{parent}"/><child link="{child}"/>{rest}</joint>'
        for parent, child in joints
    ]
    return load_urdf(f'<robot name="r">{LINKS}{"".join(made)}</robot>', floating=True)


def test_the_numbers_of_a_tree_and_the_order_of_its_file_are_told_where_they_differ():
    """q is depth-first, so that the coordinates of a joint are not where it stands in a file."""
    tree = _described("ab", "ac", "bd", "ce")
    text = str(report(tree))
    assert [body.joint.name for body in tree.bodies] == ["root_joint", "ab", "bd", "ac", "ce"]
    assert "depth-first from the base; q and v follow it" in text
    assert "order in the file  'ab', 'ac', 'bd', 'ce'\n" in text
    for name in ("root_joint", "ab", "bd", "ac", "ce"):
        coordinates = tree.body(name[-1] if name != "root_joint" else "a").coordinates
        row = next(line.split() for line in text.splitlines() if f" {name} " in line)
        first, last = coordinates.start, coordinates.stop - 1
        assert row[5] == (f"{first}" if first == last else f"{first}..{last}")
    assert "order in the file" not in str(report(_described("ab", "bd", "ac", "ce")))
    assert "order in the file" not in str(report(models.planar_chain(3).tree))


def test_damping_that_acts_and_friction_that_does_not_are_told():
    lossy = '<dynamics damping="0.5" friction="0.25"/>'
    told = report(_described("ab", "ac", "ad", "ae", rest=lossy))
    names = "'ab', 'ac', 'ad', 'ae'"
    assert f"damping            acts in simulations, unless joints='ideal': {names}\n" in str(told)
    assert any("dry friction does not act" in x and names in x for x in told.findings)
    plain = report(_described("ab", "ac", "ad", "ae"))
    assert "damping" not in str(plain) and "friction" not in str(plain)


def test_frames_limits_and_losses_of_joints_are_listed():
    joint = Joint("j", Revolute((0, 1, 0)), -1.5, 2.5, 3.0, 40.0, damping=0.25, friction=0.125, armature=0.01)
    tree = _tree(BODY, joint)
    tree = dataclasses.replace(tree, frames={"tool": Frame("tool", 2, SE3.motion(np.eye(3), [0, 0, 0.5]))})
    lines = [line.split() for line in str(report(tree)).splitlines()]
    assert "velocity limit  effort limit  damping  friction  armature" in str(report(tree))
    assert ["j", "3", "40", "0.25", "0.125", "0.01"] in lines
    assert ["tool", "b", "(0,", "0,", "0.5)"] in lines
    assert any(line[-3:] == ["-1.5", "..", "2.5"] for line in lines)


def _on_one_axis(first):
    return TreeBuilder().add("a", Revolute((0, 0, 1)), first).add("b", Revolute((0, 0, 1)), BODY, "a").build()


def _tree(second, joint=None):
    return (
        TreeBuilder()
        .add("a", Revolute((0, 0, 1)), BODY)
        .add("b", joint or Joint("j", Revolute((0, 1, 0))), second, "a", [0.3, 0, 0])
        .build(check=False)
    )


@pytest.mark.parametrize(
    "tree, words",
    [
        (_tree(SpatialInertia(1, [0.1, 0, 0], [1, 1, 3])), ["'b'", "triangle inequality"]),
        (_tree(SpatialInertia(1, [0.1, 0, 0], [1, 1, -1])), ["'b'", "not positive definite"]),
        (_tree(SpatialInertia(1, [0.1, 0, 0], [20, 20, 30])), ["'b'", "radius of gyration", "kg m2"]),
        (_tree(SpatialInertia(1, [0.1, 0, 0])), ["without extent", "'b'"]),
        (
            _tree(SpatialInertia(1e-8, [0.1, 0, 0], [1e-11] * 3)),
            ["inertias differ widely", "'j'", "armature"],
        ),
        (_tree(SpatialInertia()), ["'b'", "'j'", "without any inertia"]),
        (_on_one_axis(SpatialInertia(1e-10, [0, 0, 0], [1e-10] * 3)), ["close to singular", "armature"]),
        (_tree(SpatialInertia(0, [0, 0, 0], [0.1] * 3)), ["'b'", "no mass"]),
        (_tree(BODY, Joint("j", Revolute((0, 1, 0)), -90, 90)), ["'j'", "-90 and 90 rad", "degrees"]),
        (_tree(BODY, Joint("j", Revolute((0, 1, 0)), 0, 0)), ["no room to move", "'j'"]),
        (_tree(BODY, Joint("j", Revolute((0, 1, 0)), velocity_limit=0)), ["velocity limit zero", "'j'"]),
        (_tree(BODY, Joint("j", Revolute((0, 1, 0)), effort_limit=0)), ["effort limit zero", "'j'"]),
        (TreeBuilder().build(), ["nothing moves", "floating"]),
    ],
)
def test_what_is_doubtful_is_found_and_named(tree, words):
    findings = report(tree).findings
    assert any(all(word in finding for word in words) for finding in findings), findings


@pytest.mark.parametrize("most", [6.3, 8 * np.pi, 1e16, np.finfo(float).max])
def test_limits_of_a_few_turns_and_those_that_say_none_are_not_doubtful(most):
    assert not report(_tree(BODY, Joint("j", Revolute((0, 1, 0)), -most, most))).findings


def test_the_reach_of_what_floats_is_measured_from_its_base():
    tree = TreeBuilder().add("base", Free(), BODY).frame("antenna", "base", [0, 0, 0.7]).build()
    assert report(tree).reach == pytest.approx(0.7)


@pytest.mark.filterwarnings("ignore::liebody.io.AssumedDynamics")
def test_a_description_is_told_with_its_lines_its_meshes_and_what_is_unused():
    odd = (
        '<inertial><mass value="0.1"/><inertia ixx="1e-4" iyy="1e-4" izz="3e-4"/></inertial>'
        '<visual><geometry><mesh filename="meshes/none.stl"/></geometry></visual>'
    )
    sound = '<inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1"/></inertial>'
    told = report(
        load_urdf(
            '<robot name="r">\n<link name="a"/>\n'
            f'<link name="b">{sound}</link>\n<link name="c">{odd}</link>\n'
            '<joint name="j" type="continuous"><parent link="a"/><child link="b"/></joint>'
            '<joint name="k" type="fixed"><parent link="b"/><child link="c"/></joint><gazebo/></robot>'
        )
    )
    text = str(told)
    assert "links welded to others: 'c' (line 4)" in text
    assert "1 mesh not found" in text
    assert "'meshes/none.stl'" in text
    assert "gazebo (1)" in text
    assert "products of inertia that are not stated are zero (2 times, line 3)" in text
