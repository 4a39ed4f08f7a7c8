"""The benchmark of closed forms checks that SymPy's methods and ours have the same numbers, and can fail."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

import liebody as lb
from liebody import Joint, SpatialInertia, TreeBuilder
from liebody.groups import Revolute

pytest.importorskip("sympy")
sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
import closed_forms


def arm(mass=2.0):
    """Two hinges askew, inertias about no axis of symmetry, a drive with an armature."""
    builder, placement = TreeBuilder("arm"), np.eye(4)
    placement[:3, :3] = [[0, -0.6, 0.8], [1, 0, 0], [0, 0.8, 0.6]]
    placement[:3, 3] = [0.1, -0.2, 0.3]
    inertia = SpatialInertia(
        mass, [0.3, 0.1, -0.2], [[0.5, 0.01, 0.02], [0.01, 0.6, -0.03], [0.02, -0.03, 0.7]]
    )
    builder.add("upper", Joint("shoulder", Revolute((0, 0, 1)), armature=0.7), inertia, placement=placement)
    builder.add("lower", Revolute((0.6, 0.8, 0)), inertia, parent="upper", placement=placement)
    return lb.Robot(builder.build())


@pytest.mark.many
@pytest.mark.parametrize("method", ["Kane", "Lagrange"])
def test_sympys_methods_have_the_numbers_of_the_robot_and_no_other_ones(method):
    robot = arm()
    found = closed_forms.arm_by_sympy(robot.tree.bodies, method)
    assert closed_forms.apart(robot, found, armatures=False) < 1e-12
    assert closed_forms.apart(robot, found, armatures=True) > 0.1
    assert closed_forms.apart(arm(mass=2.001), found, armatures=False) > 1e-5


def test_our_closed_forms_have_the_numbers_of_the_robot():
    robot = arm()
    found = closed_forms.left_side(lb.equations(robot))
    assert closed_forms.apart(robot, found, armatures=True) < 1e-12


def test_other_numbers_end_the_benchmark():
    closed_forms.checked_row("form", [1, 2], 0.0, 1e-10)
    with pytest.raises(SystemExit, match=r"off by 2\.0e-09, more than 1e-9"):
        closed_forms.checked_row("form", [1, 2], 0.0, 2e-9)
