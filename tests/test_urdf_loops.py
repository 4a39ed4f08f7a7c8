"""Loops in a URDF: the <constraint> element, what it becomes, and what is refused."""

from __future__ import annotations

import re
import warnings

import numpy as np
import pytest
from constrained_models import four_bar

import liebody as lb
from liebody.base.errors import DescriptionError
from liebody.dynamics import body_poses
from liebody.groups import SO3, Revolute
from liebody.io import LoopConstraint, OpenLoops, load_urdf
from liebody.mechanisms.constrained import AbsoluteTree, ClosedTree, Closure


def link(name: str, length: float) -> str:
    """A bar as in `four_bar`: of its length in metres and kilograms."""
    a, b = length * (2 * 0.05**2) / 12, length * (length**2 + 0.05**2) / 12
    return f"""<link name="{name}"><inertial><origin xyz="{length / 2} 0 0"/><mass value="{length}"/>
        <inertia ixx="{a}" ixy="0" ixz="0" iyy="{b}" iyz="0" izz="{b}"/></inertial></link>"""


def joint(name: str, parent: str, child: str, x: float) -> str:
    return f"""<joint name="{name}" type="continuous"><parent link="{parent}"/><child link="{child}"/>
        <origin xyz="{x} 0 0"/><axis xyz="0 1 0"/></joint>"""


CONSTRAINT = """<constraint name="pin" type="revolute">
    <parent link="coupler"/><parent_origin xyz="2 0 0"/><parent_axis xyz="0 1 0"/>
    <child link="rocker"/><child_origin xyz="1.5 0 0"/></constraint>"""


def urdf(constraint: str = CONSTRAINT) -> str:
    links = '<link name="base"/>' + link("crank", 1.0) + link("coupler", 2.0) + link("rocker", 1.5)
    joints = (
        joint("A", "base", "crank", 0) + joint("B", "crank", "coupler", 1) + joint("D", "base", "rocker", 2.2)
    )
    return f'<robot name="four-bar">{links}{joints}{constraint}</robot>'


def closed_after(tree, closures) -> np.ndarray:
    """q after half a second from a state of the crank."""
    mechanism = ClosedTree(tree, closures)
    q = mechanism.assemble([-1.0, 0.5, -2.0])
    v = mechanism.consistent_velocities(q, [3.0, 0, 0], hold=["A"])
    return lb.simulate(mechanism, q, v, t_end=0.2, dt=1e-3).q[-1]


@pytest.mark.wide
def test_a_constraint_is_the_closure_given_by_hand():
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # nothing is unused
        tree = load_urdf(urdf())
    (loop,) = tree.description.loops
    assert (loop.name, loop.kind, loop.parent, loop.child) == ("pin", "revolute", "coupler", "rocker")
    by_hand = closed_after(four_bar(), [Closure("pin", Revolute([0, 1, 0]), "end", "tip")])
    assert np.allclose(closed_after(tree, tree.closures), by_hand, atol=1e-10)


def test_frames_of_a_constraint_have_its_origins():
    text = CONSTRAINT.replace(
        '<child_origin xyz="1.5 0 0"/>', '<child_origin xyz="1.5 0 0" rpy="0.3 -0.4 0.5"/>'
    )
    tree = load_urdf(urdf(text))
    frame = tree.frame("pin_child_frame")
    assert tree.bodies[frame.body - 1].name == "rocker" and np.allclose(frame.placement[:3, 3], [1.5, 0, 0])
    x, y, z = np.eye(3)
    assert np.allclose(frame.placement[:3, :3], SO3.exp(0.5 * z) @ SO3.exp(-0.4 * y) @ SO3.exp(0.3 * x))


@pytest.mark.parametrize(
    ("kind", "rows"), [("link", 6), ("revolute", 5), ("prismatic", 5), ("universal", 4), ("spherical", 3)]
)
@pytest.mark.many
def test_every_kind_leaves_its_motions(kind, rows):
    axes = '<parent_axis xyz="0 2 0"/>' + ('<child_axis xyz="1 0 0"/>' if kind == "universal" else "")
    ends = f'<parent link="coupler"/>{axes}<child link="rocker"/>'
    text = f'<constraint name="pin" type="{kind}">{ends}</constraint>'
    tree = load_urdf(urdf(text))
    mechanism = ClosedTree(tree, tree.closures)
    assert mechanism.nc == rows
    poses = body_poses(tree, np.zeros(3))
    g = mechanism.violation(np.zeros(3))["pin"]
    if kind != "prismatic":
        assert np.isclose(np.linalg.norm(g), np.linalg.norm(poses[1][:3, 3] - poses[2][:3, 3]))
    assert AbsoluteTree(tree, tree.closures).system.constraints[-1].rows == rows


def test_a_universal_constraint_keeps_its_axes_at_right_angles():
    text = """<constraint name="pin" type="universal"><parent link="coupler"/><parent_axis xyz="1 0 0"/>
        <child link="rocker"/><child_axis xyz="1 0 0"/></constraint>"""
    tree = load_urdf(urdf(text))
    q = np.array([0.3, 0.4, -0.2])
    turn = body_poses(tree, q)[1][:3, 0] @ body_poses(tree, q)[2][:3, 0]
    assert np.isclose(ClosedTree(tree, tree.closures).violation(q)["pin"][3], turn)


def test_a_constraint_to_the_fixed_root_closes_to_the_ground():
    text = """<constraint name="pin" type="revolute"><parent link="base"/><parent_origin xyz="3 0 0"/>
        <parent_axis xyz="0 1 0"/><child link="coupler"/><child_origin xyz="2 0 0"/></constraint>"""
    tree = load_urdf(urdf(text))
    assert ClosedTree(tree, tree.closures).violation(np.zeros(3))["pin"] == pytest.approx([0] * 5, abs=1e-14)


def test_load_warns_that_a_robot_is_open():
    with pytest.warns(OpenLoops, match="'pin'"):
        robot = lb.load(urdf())
    assert robot.nv == 3 and [c.name for c in robot.tree.closures] == ["pin"]
    assert isinstance(robot.tree.description.loops[0], LoopConstraint)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("revolute", "screw"), ["unknown type 'screw'", "universal"]),
        (('link="rocker"', 'link="rock"'), ["child of constraint 'pin'", "'rock'", "no such link"]),
        (('link="rocker"', 'link="coupler"'), ["joins link 'coupler' to itself"]),
        (('<parent_axis xyz="0 1 0"/>', '<parent_axis xyz="0 0 0"/>'), ["no direction"]),
        (('xyz="1.5 0 0"', 'xyz="1.5 0"'), ["2 numbers", "expected 3"]),
        (('<child link="rocker"/>', ""), ["no <child>"]),
        (("revolute", "universal"), ["no <child_axis>", "universal joint has two"]),
        (
            ("</constraint>", '<child_axis xyz="1 0 0"/></constraint>'),
            ["axes of the revolute constraint", "rpy"],
        ),
        (('name="pin"', 'name="p{}n"'), ["is not a name"]),
    ],
)
def test_what_is_refused(change, words):
    text = urdf(CONSTRAINT.replace(*change))
    with pytest.raises(DescriptionError) as error:
        load_urdf(text)
    assert all(re.search(re.escape(word), str(error.value)) for word in words), str(error.value)


def test_two_constraints_of_one_name_are_refused():
    with pytest.raises(DescriptionError, match="second constraint called 'pin'"):
        load_urdf(urdf(2 * CONSTRAINT))
