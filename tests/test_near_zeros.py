"""Near-zeros of CAD: angles and offsets that `snap` rounds, what it says, and what the equations gain.

A file whose numbers were written exactly is the reference.
"""

from __future__ import annotations

import math
import re
import warnings
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from found import description

import liebody as lb
from liebody.base.errors import LiebodyError, ModelError
from liebody.cli import main
from liebody.io import RoundedNumbers, load_mjcf, load_urdf

SO101 = "so_arm_description/urdf/so101.urdf"

TEXT = """<robot name="arm"><link name="base"/>
<link name="a"><inertial><origin xyz="{c} 0.1 -0.2" rpy="0 {x} 0"/><mass value="1"/>
  <inertia ixx="1" ixy="0.1" ixz="0" iyy="2" iyz="0" izz="2.5"/></inertial>
  <visual><origin xyz="{c} 0 0" rpy="{right} 0 0"/><geometry><box size="1 1 1"/></geometry></visual></link>
<link name="b"><inertial><origin xyz="0.1 0 0"/><mass value="1"/>
  <inertia ixx="1" ixy="0" ixz="0" iyy="1" iyz="0" izz="1"/></inertial></link>
<joint name="ja" type="continuous"><parent link="base"/><child link="a"/>
  <origin xyz="0 {c} 0.3" rpy="{right} {x} {half}"/><axis xyz="0 {a} 1"/></joint>
<joint name="jb" type="continuous"><parent link="a"/><child link="b"/>
  <origin xyz="0 0 0.4" rpy="{third} 0.05 0"/><axis xyz="0 1 0"/></joint>
</robot>"""
LITERAL = {
    "c": "-9e-09",
    "x": "-5.2e-08",
    "right": "1.5708",
    "half": "-3.14159",
    "third": "1.0472",
    "a": "4e-06",
}
EXACT = {
    "c": 0,
    "x": 0,
    "right": repr(math.pi / 2),
    "half": repr(-math.pi),
    "third": repr(math.pi / 3),
    "a": 0,
}


def quietly(text, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return lb.load(text, **options)


def operations(robot):
    return sum(robot.kernel("mass_matrix").operations.values())


def test_a_file_with_near_zeros_becomes_the_file_with_exact_numbers():
    snapped, exact = quietly(TEXT.format(**LITERAL), snap=1e-4), quietly(TEXT.format(**EXACT))
    for one, other in zip(snapped.tree.bodies, exact.tree.bodies, strict=True):
        np.testing.assert_allclose(one.placement, other.placement, rtol=0, atol=2e-16)
        np.testing.assert_array_equal(one.placement == 0, other.placement == 0)
        np.testing.assert_array_equal(one.inertia.com, other.inertia.com)
        np.testing.assert_array_equal(one.joint.S, other.joint.S)
    assert operations(snapped) == operations(exact)
    assert operations(quietly(TEXT.format(**LITERAL))) > 1.5 * operations(exact)


def test_the_warning_and_the_description_say_how_many_and_how_far():
    with pytest.warns(RoundedNumbers) as said:
        robot = lb.load(TEXT.format(**LITERAL), snap=1e-4)
    # rpy: -5.2e-8 twice, 1.5708, -3.14159, 1.0472; axis: 4e-6; offsets: two. The shape of a link stays
    near = robot.tree.description.near_zeros
    assert (near.angles, near.offsets) == (6, 2)
    assert near.largest_angle == pytest.approx(4e-6, rel=1e-9)
    assert near.largest_offset == 9e-9
    (shape,) = robot.tree.description.shapes
    assert shape.placement[0, 3] == -9e-9 and shape.placement[1, 1] != 0
    assert str(said[0].message) == (
        "<text>: rounded 6 angles to multiples of pi/12, by at most 4e-06 rad, and 2 offsets to zero, by "
        "at most 9e-09 m"
    )


def test_nothing_is_rounded_by_default():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tree = lb.load(TEXT.format(**LITERAL)).tree
    a, b = tree.bodies
    assert a.placement[1, 3] == -9e-9 and a.inertia.com[0] != 0
    np.testing.assert_allclose(a.joint.S[:3, 0], [0, 4e-6, 1], atol=1e-10)
    assert abs(b.placement[1, 1]) != np.cos(np.pi / 3) and np.count_nonzero(a.placement[:3, :3]) == 9


@pytest.mark.parametrize("multiple", range(-24, 25))
def test_every_multiple_of_15_degrees_attracts_within_the_tolerance_and_not_beyond(multiple):
    angle = multiple * math.pi / 12
    text = TEXT.format(**{**EXACT, "third": "{}"})
    for away, rounded in ((0.9e-3, True), (-0.9e-3, True), (1.1e-3, False), (-1.1e-3, False)):
        tree = quietly(text.format(repr(angle + away)), snap=1e-3).tree
        expected = quietly(text.format(repr(angle if rounded else angle + away))).tree
        np.testing.assert_allclose(tree.bodies[1].placement, expected.bodies[1].placement, atol=4e-16)


@pytest.mark.parametrize(
    "offset, kept", [(0.99e-6, 0.0), (-0.99e-6, 0.0), (1.01e-6, 1.01e-6), (-2e-6, -2e-6)]
)
def test_offsets_below_a_micrometre_are_zero(offset, kept):
    tree = quietly(TEXT.format(**{**EXACT, "c": repr(offset)}), snap=1e-4).tree
    assert tree.bodies[0].placement[1, 3] == kept


def test_an_so_101_has_half_of_its_operations():
    """As docs/reading.md states, and as with the file whose numbers are written exactly."""
    path = description(SO101)
    text = path.read_text()

    def exact(attribute):
        numbers = [float(x) for x in attribute[2].split()]
        # 1.5708 and 3.14159 stand for halves of pi; what is below 1e-6 stands for zero
        halves = [round(x / (math.pi / 2)) * math.pi / 2 for x in numbers]
        near = [abs(x - y) < 1e-5 and attribute[1] == "rpy" for x, y in zip(numbers, halves, strict=True)]
        written = [
            y if is_near else 0.0 if abs(x) < 1e-6 else x for x, y, is_near in zip(numbers, halves, near)
        ]
        return f'{attribute[1]}="{" ".join(map(repr, written))}"'

    reference = quietly(re.sub(r'(rpy|xyz)="([^"]*)"', exact, text))
    literal, snapped = quietly(path), quietly(path, snap=1e-4)
    assert operations(snapped) == operations(reference)
    page = (Path(__file__).parents[1] / "docs/reading.md").read_text(encoding="utf-8")
    stated = re.search(r"SO-101 .* has some (\d+) operations; with `snap=1e-4` it has (\d+)", page)
    assert int(stated[2]) == operations(snapped)
    # which products of near-zeros are exactly zero depends on the last bits of sines
    assert abs(int(stated[1]) - operations(literal)) < 10
    q = literal.random(0)
    M = literal.mass_matrix(q)
    np.testing.assert_allclose(snapped.mass_matrix(q), reference.mass_matrix(q), atol=1e-15 * M.max())
    np.testing.assert_allclose(snapped.mass_matrix(q), M, atol=1e-5 * M.max())


def test_loops_are_rounded_too():
    from test_urdf_loops import CONSTRAINT, urdf

    crooked = CONSTRAINT.replace('xyz="1.5 0 0"', 'xyz="1.5 5e-17 0" rpy="0 3e-5 0"')
    tree = quietly(urdf(crooked), snap=1e-4).tree
    np.testing.assert_array_equal(tree.frame("pin_child_frame").placement[:3, :3], np.eye(3))
    assert tree.frame("pin_child_frame").placement[1, 3] == 0
    assert tree.description.near_zeros.angles == 1


MJCF = """<mujoco><compiler angle="radian"/><worldbody><body name="a" pos="{c} 0 0.3" euler="{right} 0 0">
  <inertial pos="0.1 {c} 0" mass="1" diaginertia="1 1.2 0.9" euler="0 {x} 0"/>
  <joint name="ja" axis="0 {a} 1"/>
  <body name="b" pos="0 0 0.4" quat="{w} {w} {x} 0"><inertial pos="0.1 0 0" mass="1" diaginertia="1 1 1"/>
    <joint name="jb" axis="0 1 0" pos="0 {c} 0"/><site name="s" pos="0.1 {c} 0"/></body>
</body></worldbody></mujoco>"""


def test_an_mjcf_is_rounded_as_well():
    pytest.importorskip("mujoco")
    literal, exact = {**LITERAL, "w": "0.70710"}, {**EXACT, "w": repr(math.sqrt(0.5))}
    # angles: 1.5708, that of the principal axes, the axis, and two of the quaternion's
    with pytest.warns(RoundedNumbers, match=r"rounded 5 angles .* and 4 offsets"):
        snapped = lb.load(MJCF.format(**literal), snap=1e-4)
    reference = quietly(MJCF.format(**exact))
    q = snapped.random(0)
    np.testing.assert_allclose(snapped.mass_matrix(q), reference.mass_matrix(q), rtol=1e-14, atol=1e-15)
    np.testing.assert_allclose(snapped.pose(q, frame="s"), reference.pose(q, frame="s"), atol=1e-15)
    assert operations(snapped) == operations(reference) < operations(quietly(MJCF.format(**literal)))


def test_info_proposes_to_round_where_that_changes_something(tmp_path):
    for numbers, proposes in ((LITERAL, True), (EXACT, False)):
        (tmp_path / "arm.urdf").write_text(TEXT.format(**numbers))
        text = CliRunner().invoke(main, ["info", str(tmp_path / "arm.urdf")]).output
        assert ("load(..., snap=1e-4) would round 6 angles" in text) == proposes
        assert ("near-zeros" in text) == proposes


@pytest.mark.parametrize("snap", [-1e-4, math.pi / 24, 1.0, math.nan, "fine", [1e-4]])
@pytest.mark.parametrize("read", [load_urdf, load_mjcf, lb.load])
def test_a_tolerance_that_cannot_be_is_refused(snap, read):
    with pytest.raises(LiebodyError, match="snap"):
        read(TEXT.format(**EXACT), snap=snap)
    with pytest.raises(ModelError, match=r"snap is 1, expected a tolerance in radians.*such as 1e-4"):
        read(TEXT.format(**EXACT), snap=1.0)
