"""Closed forms: what is printed is what the kernels compute, and reads like the textbook."""

from __future__ import annotations

import ctypes
import functools
import importlib.util
import itertools
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import sympy as sp
from click.testing import CliRunner
from found import description
from hypothesis import given, settings
from hypothesis import strategies as st
from random_trees import JOINTS, random_tree
from sympy.polys import factortools

import liebody as lb
from liebody import Joint, Robot, SpatialInertia, TreeBuilder
from liebody.base.errors import ConfigurationError, LiebodyError, MissingPackage, ModelError, ShapeError
from liebody.bodies import Mimic
from liebody.cli import main
from liebody.compiler import trace
from liebody.compiler.native.build import find_compiler
from liebody.dynamics.coriolis import FORMS
from liebody.groups import Fixed, Free, Helical, Prismatic, Revolute, Spherical
from liebody.scalars import cos, exp, sin, where
from liebody.symbolic import derivation, polynomials, short_forms, shortest
from liebody.symbolic.derivation import LongForm
from liebody.symbolic.numbers import exact, exact_rotation, readable, recognized
from liebody.symbolic.parameters import replaced, with_symbols
from liebody.symbolic.short_forms import Ring
from liebody.symbolic.sources import symbols_in

OUTPUTS = ("M", "C", "g", "kinetic", "potential", "tau")
UPRIGHT = np.array([[1, 0, 0, 0], [0, 0, -1, 0], [0, 1, 0, 0], [0, 0, 0, 1]])


SWING = """
<robot name="swing">
  <link name="base"/>
  <link name="arm">
    <inertial>
      <origin xyz="0 0 -0.5"/> <mass value="2"/>
      <inertia ixx="0.2" iyy="0.2" izz="0.01" ixy="0" ixz="0" iyz="0"/>
    </inertial>
  </link>
  <joint name="hinge" type="continuous">
    <parent link="base"/> <child link="arm"/> <axis xyz="0 1 0"/>
  </joint>
</robot>
"""


def positive(names):
    return sp.symbols(names, positive=True)


def planar_arm(n):
    """n links in a plane: mass m, length l, centre of mass at r, inertia I about it."""
    m, l, r, I = (positive(f"{letter}1:{n + 1}") for letter in "mlrI")
    builder, parent, placement = TreeBuilder(f"planar{n}r"), "world", UPRIGHT
    for i in range(n):
        inertia = SpatialInertia(m[i], [r[i], 0, 0], [0, 0, I[i]])
        builder.add(f"link{i + 1}", Revolute((0, 0, 1)), inertia, parent, placement)
        parent, placement = f"link{i + 1}", np.array([l[i], 0, 0])
    return builder.build()


def anthropomorphic_arm():
    """Shoulder about z, then shoulder and elbow about y; every inertia diagonal."""
    m, l, r = positive("m1:4"), positive("l1:3"), positive("r2:4")
    I = [positive(f"I{i}x I{i}y I{i}z") for i in (1, 2, 3)]
    return (
        TreeBuilder("anthropomorphic")
        .add("shoulder", Revolute((0, 0, 1)), SpatialInertia(m[0], [0, 0, 0], I[0]))
        .add("upper", Revolute((0, 1, 0)), SpatialInertia(m[1], [r[0], 0, 0], I[1]), "shoulder", [0, 0, l[0]])
        .add("fore", Revolute((0, 1, 0)), SpatialInertia(m[2], [r[1], 0, 0], I[2]), "upper", [l[1], 0, 0])
        .build()
    )


def numeric(eq):
    """Numbers for the parameters of equations, and the robot that has them."""
    rng = np.random.default_rng(3)
    values = {
        p: float(x) for p, x in zip(eq.parameters, rng.uniform(0.5, 1.5, len(eq.parameters)), strict=True)
    }
    values.update({p: 9.81 for p in eq.parameters if p.name == "g"})

    def number(x, _):
        return float(x.subs(values)) if hasattr(x, "subs") else x

    return Robot(replaced(eq.tree, number)), values


class Reference:
    """The calls of a robot by the algorithms on floats, for mechanisms whose kernels other tests compile."""

    def __init__(self, tree):
        self.tree, self.nv = tree, tree.nv

    def random(self, rng):
        return self.tree.group.random(rng)

    def bias(self, q, v):
        return lb.dynamics.bias_forces(self.tree, q, v)

    def gravity(self, q):
        return lb.dynamics.gravity_forces(self.tree, q)

    def __getattr__(self, name):
        return functools.partial(getattr(lb.dynamics, name), self.tree)


def state(robot, seed=0):
    rng = np.random.default_rng(seed)
    return robot.random(rng), rng.standard_normal(robot.nv), rng.standard_normal(robot.nv)


def numbers_of(eq, values, q, v, a):
    """M, C, g, kinetic, potential and tau, by the Python that is printed."""
    space = {}
    exec(eq.python(*OUTPUTS, name="f"), space)
    return space["f"](q, v, a, *(values[p] for p in eq.parameters if p in used(eq)))


def expect_kernels(found, robot, q, v, a):
    M, C, g, kinetic, potential, tau = found
    np.testing.assert_allclose(M, robot.mass_matrix(q), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(C @ v + g, robot.bias(q, v), rtol=1e-12, atol=1e-11)
    np.testing.assert_allclose(g, robot.gravity(q), rtol=1e-12, atol=1e-11)
    np.testing.assert_allclose(kinetic, robot.kinetic_energy(q, v), rtol=1e-12)
    np.testing.assert_allclose(potential, robot.potential_energy(q), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(tau, robot.inverse_dynamics(q, v, a), rtol=1e-12, atol=1e-11)


# -- as in the textbook ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def pendulum():
    return lb.equations("double_pendulum", symbols=True)


def test_the_double_pendulum_reads_like_the_textbook(pendulum):
    l1, l2, m1, m2, g = positive("l1 l2 m1 m2 g")
    q1, q2, v1, v2 = sp.symbols("q1 q2 v1 v2", real=True)
    h = l1 * l2 * m2 * sp.sin(q2)
    M12 = l2 * m2 * (l1 * sp.cos(q2) + l2)
    M11 = l1**2 * (m1 + m2) + l2 * m2 * (2 * l1 * sp.cos(q2) + l2)
    assert pendulum.M == sp.Matrix([[M11, M12], [M12, l2**2 * m2]])
    assert pendulum.C == sp.Matrix([[-h * v2, -h * (v1 + v2)], [h * v1, 0]])
    second = l2 * m2 * sp.sin(q1 + q2)
    assert pendulum.g == sp.Matrix([g * (l1 * (m1 + m2) * sp.sin(q1) + second), g * second])
    assert pendulum.potential == -g * (l1 * (m1 + m2) * sp.cos(q1) + l2 * m2 * sp.cos(q1 + q2))
    assert str(pendulum.kinetic) == (
        "l1*l2*m2*v1*(v1 + v2)*cos(q2) + (l1**2*v1**2*(m1 + m2) + l2**2*m2*(v1 + v2)**2)/2"
    )


def test_velocity_products_of_the_double_pendulum(pendulum):
    l1, l2, m2 = positive("l1 l2 m2")
    h = l1 * l2 * m2 * sp.sin(pendulum.q[1])
    products = pendulum.velocity_products()
    assert products.centrifugal == sp.Matrix([[0, -h], [h, 0]])
    assert products.coriolis == sp.Matrix([-2 * h, 0]) and products.pairs == ((0, 1),)


def test_the_equations_are_lagranges(pendulum):
    """d/dt dT/dv - dT/dq + dU/dq, from the energies alone, is the right-hand side of each equation."""
    q, v, a = pendulum.q, pendulum.v, pendulum.a
    L = pendulum.kinetic - pendulum.potential
    for i, equation in enumerate(pendulum.equations):
        momentum = sp.diff(L, v[i])
        rate = sum(sp.diff(momentum, q[j]) * v[j] + sp.diff(momentum, v[j]) * a[j] for j in range(2))
        assert sp.expand(sp.expand_trig(rate - sp.diff(L, q[i]) - equation.rhs)) == 0
        assert equation.lhs == pendulum.tau[i]


def test_a_planar_arm_of_three_links():
    eq = lb.equations(planar_arm(3))
    l1, l2, m1, m2, m3, r1, r2, r3, g = positive("l1 l2 m1 m2 m3 r1 r2 r3 g")
    q1, q2, q3 = eq.q
    I3 = positive("I3")
    assert eq.M[2, 2] == I3 + m3 * r3**2
    assert eq.M[0, 2] == I3 + m3 * r3 * (l1 * sp.cos(q2 + q3) + l2 * sp.cos(q3) + r3)
    assert eq.g[2] == g * m3 * r3 * sp.cos(q1 + q2 + q3)
    second = (l2 * m3 + m2 * r2) * sp.cos(q1 + q2)
    assert eq.g[1] == g * (m3 * r3 * sp.cos(q1 + q2 + q3) + second)
    assert eq.g[0] == eq.g[2] + g * second + g * (l1 * (m2 + m3) + m1 * r1) * sp.cos(q1)


def test_an_anthropomorphic_arm():
    """Siciliano et al. (2009), section 7.3.3: products of the angles' functions stay products."""
    eq = lb.equations(anthropomorphic_arm())
    q2, q3 = eq.q[1:]
    I1z, I2x, I2z, I3x, I3z = positive("I1z I2x I2z I3x I3z")
    m2, m3, l2, r2, r3 = positive("m2 m3 l2 r2 r3")
    s2, s23, c2, c23 = sp.sin(q2), sp.sin(q2 + q3), sp.cos(q2), sp.cos(q2 + q3)
    upper, fore = I2z + l2**2 * m3 + m2 * r2**2, I3z + m3 * r3**2
    M11 = I1z + I2x * s2**2 + I3x * s23**2 + 2 * l2 * m3 * r3 * c2 * c23 + fore * c23**2 + upper * c2**2
    assert eq.M[0, 0] == M11
    assert eq.M[0, 1] == eq.M[0, 2] == 0


def test_inertias_of_composite_bodies_are_seen():
    """m1 m2 / (m1 + m2) + m2^2 / (m1 + m2), of two points in one body, is m2."""
    eq = lb.equations("revolute_hopper", symbols=True)
    l, m1, m2, m3 = positive("l m1 m2 m3")
    c = sp.cos(eq.q[3])
    assert sp.expand(eq.M[0, 0] - l**2 * (m2 + m3 * (5 + 4 * c)) / 4) == 0
    assert eq.M.free_symbols == {l, m1, m2, m3, eq.q[3]} and m1 not in eq.M[0, 0].free_symbols
    D = m1 * m2 + m1 * m3 * (5 + 4 * c) + 2 * m2 * m3 * (1 + c)  # J / (l / 2)^2 times the mass
    turning = m3 * (m1 * (1 + 2 * c) + m2 * (1 + c)) / D
    assert sp.expand(sp.numer(sp.together(eq.connection[0] - turning))) == 0
    assert [sp.count_ops(x) <= sp.count_ops(sp.simplify(x)) for x in eq.connection] == [True] * 3


def test_inverses_and_forward_dynamics_are_quotients_in_lowest_terms():
    eq = lb.equations("double_pendulum", symbols=True)
    l1, l2, m1, m2 = positive("l1 l2 m1 m2")
    D = m1 + m2 * sp.sin(eq.q[1]) ** 2
    assert sp.simplify(eq.M_inverse[0, 0] - 1 / (l1**2 * D)) == 0
    assert eq.M_inverse[1, 1].as_numer_denom()[1].subs(eq.q[1], 0) == l1**2 * l2**2 * m2 * m1
    assert (eq.M * eq.M_inverse).applyfunc(shortest) == sp.eye(2)


def test_numbers_are_recognised():
    eq = lb.equations("double_pendulum")
    q1, q2 = eq.q
    assert eq.M == sp.Matrix([[2 * sp.cos(q2) + 3, sp.cos(q2) + 1], [sp.cos(q2) + 1, 1]])
    assert eq.g[1] == 9.81 * sp.sin(q1 + q2) and not eq.parameters
    m, l = positive("m l")
    assert lb.equations(lb.models.planar_chain(3, l, m)).M[2, 2] == l**2 * m / 3
    turned = (
        TreeBuilder("turned")
        .add("a", Revolute((1, 1, 0)), SpatialInertia(2, [0, 0, 1], [0.1, 0.1, 0.1]))
        .build()
    )
    assert lb.equations(turned).M[0, 0] == sp.Rational(21, 10)  # axis of square roots of 1/2


@pytest.mark.parametrize(
    ("x", "roots", "number"),
    [
        (0.5, False, sp.Rational(1, 2)),
        (1 / 3, False, sp.Rational(1, 3)),
        (0.1 * 0.1 * 0.3, False, sp.Rational(3, 1000)),
        (0.4318, False, sp.Rational(2159, 5000)),
        (1.23456789e-7, False, sp.Rational("1.23456789e-7")),
        (-np.sqrt(3) / 2, True, -sp.sqrt(3) / 2),
        (0.7071067811865476, True, sp.sqrt(2) / 2),
        (0.7071067811865475, True, sp.sqrt(2) / 2),  # from a cosine that is one unit off
        (0.7071067811865476, False, sp.Rational("0.7071067811865476")),
        (0.3333, False, sp.Rational(3333, 10000)),
    ],
)
def test_floats_become_the_numbers_that_are_meant(x, roots, number):
    assert recognized(x, roots) == number and abs(float(recognized(x, roots)) - x) <= 4e-16 * abs(x)


def test_floats_in_expressions_become_exact_and_fractions_stay_readable():
    x = sp.Symbol("x")
    assert exact(0.25 * x + 1.5) == x / 4 + sp.Rational(3, 2)
    assert str(readable(sp.Rational(7, 12))) == "7/12" and str(readable(sp.Rational(981, 100))).startswith(
        "9.81"
    )


@pytest.mark.parametrize("turn", ["0.78539816339744831 0 0", "0.4 0 1.0471975511965976"])
def test_roots_beside_decimals_are_decimals(turn):
    """A joint turned by pi/4 or pi/3, and an inertia turned by no such angle."""
    inertial = """<inertial><origin xyz="0 0 0.3" rpy="0.1 0.2 0.3"/><mass value="2"/>
        <inertia ixx="0.1" iyy="0.2" izz="0.25" ixy="0" ixz="0" iyz="0"/></inertial>"""
    joint = """<joint name="{0}{1}" type="revolute"><parent link="{0}"/><child link="{1}"/><origin rpy="{2}"/>
        <axis xyz="0 {3}"/><limit effort="1" velocity="1" lower="-4" upper="4"/></joint>"""
    robot = lb.load(
        f"""<robot name="r"><link name="a"/><link name="b">{inertial}</link><link name="c">{inertial}</link>
        {joint.format("a", "b", "0 0 0", "0 1")}{joint.format("b", "c", turn, "1 0")}</robot>"""
    )
    eq = lb.equations(robot)
    assert "sqrt" not in str(eq.M) and "e-1" not in str(eq.M) and "000000" not in str(eq.M)
    q = np.array([0.3, -0.7])
    found = np.array(eq.M.subs(dict(zip(eq.q, q, strict=True))), float)
    np.testing.assert_allclose(found, robot.mass_matrix(q), rtol=1e-13)


@pytest.mark.parametrize(
    "turn",
    [
        "1.5708 0 0.7854",
        "1.5707963 0 0.785398163",
        "0 0.7853981633974483 0.785398163",
        "0.1 1.5708 0.3",
        "0 0 0.7853981633974483",
        "1.5707963267949 0.3 0",
    ],
)
def test_decimals_of_rotations_leave_no_noise(turn):
    """What is zero for orthogonal matrices is zero; what is tiny and not zero, as cos(1.5708), stays."""
    inertial = """<inertial><origin xyz="0.2 0 0.05"/><mass value="0.8"/>
        <inertia ixx="0.01" iyy="0.02" izz="0.02" ixy="0" ixz="0" iyz="0"/></inertial>"""
    joint = """<joint name="{0}{1}" type="revolute"><parent link="{0}"/><child link="{1}"/>
        <origin xyz="0.3 0 0.1" rpy="{2}"/><axis xyz="0 0 1"/>
        <limit effort="1" velocity="1" lower="-4" upper="4"/></joint>"""
    robot = lb.load(
        f"""<robot name="r"><link name="a"/><link name="b">{inertial}</link><link name="c">{inertial}</link>
        {joint.format("a", "b", turn)}{joint.format("b", "c", turn)}</robot>"""
    )
    eq = lb.equations(robot)
    numbers = [x for part in (eq.M, eq.g, eq.C) for x in part.atoms(sp.Number)]
    assert all(x == 0 or 1e-15 < abs(x) < 10 for x in numbers)
    q = np.array([0.3, -0.7])
    for exact_part, part in ((eq.M, robot.mass_matrix(q)), (eq.g[:], robot.gravity(q))):
        found = np.array(sp.Matrix(exact_part).subs(dict(zip(eq.q, q, strict=True))), float)
        np.testing.assert_allclose(found.reshape(part.shape), part, atol=1e-13)


@given(st.tuples(*[st.sampled_from([0.0, 0.3, -1e-4, np.pi / 4, -np.pi / 2, 1.57, 3.14])] * 3))
def test_rotations_become_exact_ones(angles):
    (cr, cp, cy), (sr, sp_, sy) = np.cos(angles), np.sin(angles)
    turns = [[[1, 0, 0], [0, cr, -sr], [0, sr, cr]], [[cp, 0, sp_], [0, 1, 0], [-sp_, 0, cp]]]
    R = np.array([[cy, -sy, 0], [sy, cy, 0], [0, 0, 1]]) @ turns[1] @ turns[0]
    R = np.where(np.abs(R) < 1e-15, 0, R)
    found = sp.Matrix(exact_rotation(R))
    assert sp.expand(found.T * found) == sp.eye(3)
    np.testing.assert_allclose(np.array(found, float), R, atol=8 * 2.0**-53)
    assert [x == 0 for x in found] == [x == 0 for x in R.flat]


def test_what_is_no_rotation_is_not_turned():
    R = np.array([[0.8, 0.3, 0], [-0.3, 0.8, 0], [0, 0, 1]])
    assert exact_rotation(R) is R


# -- the same numbers as the kernels ---------------------------------------------------------------------


@pytest.mark.parametrize("simplify", [True, False])
@pytest.mark.parametrize(
    "make",
    [
        lambda: "double_pendulum",
        lambda: lb.models.planar_chain(3),
        lambda: "spherical_pendulum",
        lambda: lb.models.double_pendulum(spherical=True),
        lambda: "heavy_top",
        lambda: "free_rigid_body",
    ],
    ids=["double_pendulum", "chain", "spherical_pendulum", "spherical_double", "top", "free"],
)
@pytest.mark.many
def test_bundled_models(make, simplify):
    robot = lb.load(make()) if isinstance(make(), str) else make()
    eq = lb.equations(robot, simplify=simplify)
    for seed in range(2):
        q, v, a = state(robot, seed)
        expect_kernels(numbers_of(eq, {}, q, v, a), robot, q, v, a)


@pytest.mark.parametrize("simplify", [True, False])
@pytest.mark.parametrize("make", [lambda: planar_arm(2), lambda: planar_arm(3), anthropomorphic_arm])
@pytest.mark.wide
def test_symbolic_arms(make, simplify):
    eq = lb.equations(make(), simplify=simplify)
    robot, values = numeric(eq)
    q, v, a = state(robot)
    expect_kernels(numbers_of(eq, values, q, v, a), robot, q, v, a)


@pytest.mark.parametrize("kind", sorted(set(JOINTS) - {"fixed"}))
@pytest.mark.many
def test_every_joint(kind):
    """A joint of each kind that carries a hinge."""
    robot = Reference(random_tree(np.random.default_rng(7), [kind, "revolute"]))
    eq = lb.equations(robot.tree, simplify=False)
    q, v, a = state(robot)
    expect_kernels(numbers_of(eq, {}, q, v, a), robot, q, v, a)


@pytest.mark.wide
def test_simplified_slides_screws_and_followers():
    """Axes along (0, 3, 4) / 5, and an angle that follows another: 1.5 q + 0.25."""
    body = SpatialInertia(2, [0.1, 0.2, 0.3], [0.1, 0.2, 0.25])
    follower = Joint("b", Revolute((0, 3, 4)), mimic=Mimic("a", 1.5, 0.25))
    builder = (
        TreeBuilder("odd").add("a", Revolute((0, 0, 1)), body).add("b", follower, body, "a", [0.5, 0, 0])
    )
    builder.add("c", Prismatic((0, 3, 4)), body, "b").add("d", Helical((1, 0, 0), 0.1), body, "c")
    robot = Reference(builder.build())
    eq = lb.equations(robot.tree)
    q, v, a = state(robot)
    expect_kernels(numbers_of(eq, {}, q, v, a), robot, q, v, a)
    assert "cos(3*q1/2 + 1/4)" in str(eq.M) or "sin(3*q1/2 + 1/4)" in str(eq.M)


@pytest.mark.wide
def test_every_number_of_a_robot_as_a_symbol():
    robot = lb.models.puma560()
    eq = lb.equations(robot, symbols=True, simplify=False)
    assert [p.name for p in eq.parameters][:6] == ["I1zz", "I2xx", "I2yy", "I2zz", "I3xx", "I3yy"]
    assert {"m2", "c2x", "p3x", "J1", "g"} <= {p.name for p in eq.parameters}
    assert eq.values[sp.Symbol("m2", real=True)] == 17.4
    q, v, a = state(robot)
    expect_kernels(numbers_of(eq, dict(eq.values), q, v, a), robot, q, v, a)


def test_symbols_of_a_followed_joint_keep_its_ratio():
    robot = Robot(random_tree(np.random.default_rng(2), ["revolute", "prismatic"], followers=1))
    tree, values = with_symbols(robot.tree)
    assert [b.ratio for b in tree.bodies] == [b.ratio for b in robot.tree.bodies]
    back = Robot(replaced(tree, lambda x, _: values.get(x, x)))
    q, v, a = state(robot)
    np.testing.assert_allclose(back.inverse_dynamics(q, v, a), robot.inverse_dynamics(q, v, a), rtol=1e-12)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.many
def test_every_form_of_the_coriolis_matrix(form):
    robot = lb.models.double_pendulum(spherical=True)
    eq = lb.equations(robot, form, simplify=False)
    q, v, _ = state(robot)
    values = dict(zip([*eq.q, *eq.v], [*q, *v], strict=True))
    C = np.array(sp.lambdify(list(values), eq.C, cse=True)(*values.values()), float)
    expected = trace(
        lambda q, v: lb.dynamics.coriolis_matrix(robot.tree, q, v, form), {"q": robot.nq, "v": robot.nv}
    )
    np.testing.assert_allclose(C, expected(q, v), rtol=1e-12, atol=1e-12)
    assert eq.coriolis(form) == eq.C


def test_the_default_form_makes_the_rate_of_the_mass_matrix_minus_2_c_skew():
    eq = lb.equations(planar_arm(2))
    rate = eq.M.applyfunc(lambda x: sum(sp.diff(x, q) * v for q, v in zip(eq.q, eq.v, strict=True)))
    N = (rate - 2 * eq.C).applyfunc(sp.expand)
    assert (N + N.T).applyfunc(sp.simplify) == sp.zeros(2, 2)
    half = sp.Rational(1, 2)
    for i, j in itertools.product(range(2), repeat=2):  # and the matrix of Christoffel symbols
        C = sum(
            half
            * (sp.diff(eq.M[i, j], eq.q[k]) + sp.diff(eq.M[i, k], eq.q[j]) - sp.diff(eq.M[j, k], eq.q[i]))
            * eq.v[k]
            for k in range(2)
        )
        assert sp.expand(C - eq.C[i, j]) == 0


@pytest.mark.parametrize("simplify", [True, False])
@pytest.mark.many
def test_velocity_products_add_up_to_c_v(simplify):
    robot = lb.models.double_pendulum(spherical=True)
    eq = lb.equations(robot, simplify=simplify)
    products = eq.velocity_products()
    q, v, _ = state(robot)
    table = sp.lambdify(list(eq.q), [products.centrifugal, products.coriolis], cse=True)(*q)
    pairs = [v[j] * v[k] for j, k in products.pairs]
    np.testing.assert_allclose(
        table[0] @ v**2 + table[1] @ pairs, robot.bias(q, v) - robot.gravity(q), atol=1e-11
    )
    assert not ({*products.centrifugal.free_symbols, *products.coriolis.free_symbols} & set(eq.v))


def test_gravity_may_be_a_symbol_in_any_direction():
    gx, gz = positive("gx gz")
    eq = lb.equations("double_pendulum", gravity=(gx, 0, -gz))
    assert eq.parameters == (gx, gz)
    q1, q2 = eq.q
    assert sp.expand(sp.expand_trig(eq.g[1] - gz * sp.sin(q1 + q2) + gx * sp.cos(q1 + q2))) == 0
    assert lb.equations("double_pendulum", gravity=(0, 0, 0)).g == sp.zeros(2, 1)
    weightless = Robot(lb.models.double_pendulum().tree, gravity=(0, 0, 0))
    assert lb.equations(weightless, symbols=True).g == sp.zeros(2, 1)


# -- short expressions -----------------------------------------------------------------------------------

x, y, z = sp.symbols("x y z", real=True)


def shortened(function, n=3):
    ring, symbols = Ring(), [x, y, z][:n]
    traced = trace(lambda q: np.array([function(*q)]), {"q": n})
    inputs = dict(zip(traced.inputs["q"], symbols, strict=True))
    ((polynomial,),) = ring.evaluate(traced, inputs).values()
    return ring.expression(polynomial)


@pytest.mark.parametrize(
    ("function", "short"),
    [
        (lambda x, y, z: sin(x) * sin(x) + cos(x) * cos(x), sp.Integer(1)),
        (lambda x, y, z: 1 - cos(x) * cos(x), sp.sin(x) ** 2),
        (lambda x, y, z: cos(x) * cos(x) - sin(x) * sin(x), sp.cos(2 * x)),
        (lambda x, y, z: cos(x) * cos(y) - sin(x) * sin(y), sp.cos(x + y)),
        (lambda x, y, z: sin(x) * cos(y) - cos(x) * sin(y), sp.sin(x - y)),
        (lambda x, y, z: z * (cos(x) * cos(y) - sin(x) * sin(y)) + z * x, z * x + z * sp.cos(x + y)),
        (lambda x, y, z: sin(x) * (cos(y) * cos(z) - sin(y) * sin(z)), sp.sin(x) * sp.cos(y + z)),
        (lambda x, y, z: (cos(x) * cos(y) - sin(x) * sin(y)) ** 2, sp.cos(x + y) ** 2),
        (lambda x, y, z: sin(2 * x + 1) ** 2 + cos(2 * x + 1) ** 2, sp.Integer(1)),
        (lambda x, y, z: x * x + 2 * x * y + y * y, (x + y) ** 2),
        (lambda x, y, z: x * x * y + x * x * z + y * z * z, x**2 * (y + z) + y * z**2),
        (lambda x, y, z: exp(x) * y - y * exp(x) + z, z),
        (lambda x, y, z: 0 * x, sp.Integer(0)),
    ],
)  # fmt: skip
def test_short_forms(function, short):
    assert sp.expand(shortened(function) - short) == 0 and sp.count_ops(shortened(function)) <= sp.count_ops(
        short
    )


@pytest.mark.parametrize(
    ("expression", "short"),
    [
        ("x/(x + y) + y/(x + y)", "1"),
        ("x*y/(x + y) + y**2/(x + y)", "y"),
        ("(x**2 - 1)/(x - 1)", "x + 1"),
        ("1/x - 1/y - (y - x)/(x*y)", "0"),
        ("1/(1/x + 1/y)", "x*y/(x + y)"),
        ("(1 - cos(x)**2)/sin(x)", "sin(x)"),  # divided in the ring where sin^2 + cos^2 = 1
        ("sin(x)/(1 + cos(x)) - (1 - cos(x))/sin(x)", "0"),
        ("(1 + sin(x))*(1 - sin(x))/cos(x)", "cos(x)"),
        ("1/(sqrt(2)*x) - sqrt(2)/(2*x)", "0"),
        ("1/(1 + sqrt(2)) - sqrt(2)", "-1"),
        ("(x + sqrt(x**2 + y**2))*(x - sqrt(x**2 + y**2))/y", "-y"),
        ("(sin(x)*z + cos(x))**3/(sin(x)*z + cos(x))**2", "z*sin(x) + cos(x)"),
    ],
)
def test_quotients_come_in_lowest_terms(expression, short):
    names = {"x": x, "y": y, "z": z}
    expected = sp.sympify(short, locals=names)
    assert sp.expand(shortest(sp.sympify(expression, locals=names)) - expected) == 0


@settings(max_examples=30)
@given(data=st.data())
@pytest.mark.wide
def test_whatever_divides_is_divided(data):
    """p d1 d2 / (d1 d2) is p, and p / d1 - r / d2 has the numerator and denominator of SymPy's cancel."""
    terms = st.lists(st.tuples(st.integers(-3, 3), *[st.integers(0, 2)] * 3), min_size=1, max_size=4)

    def polynomial():
        return sp.Add(*(c * x**i * y**j * z**k for c, i, j, k in data.draw(terms)))

    p, r, d1, d2 = polynomial(), polynomial(), polynomial(), polynomial()
    if d1 == 0 or d2 == 0:
        return
    assert sp.expand(shortest(sp.expand(p * d1 * d2) / (d1 * d2)) - sp.expand(p)) == 0
    parts = sp.fraction(sp.together(shortest(p / d1 - r / d2))), sp.fraction(sp.cancel(p / d1 - r / d2))
    found, expected = ([sp.Poly(part, x, y, z, domain="QQ") for part in fraction] for fraction in parts)
    assert found[0] * expected[1] == found[1] * expected[0]
    assert found[1].total_degree() == expected[1].total_degree()


def test_division_by_what_is_zero_is_refused():
    with pytest.raises(ModelError, match="divides by what is zero"):
        shortened(lambda x, y, z: z / (1 - cos(x) * cos(x) - sin(x) * sin(x)))


def test_what_is_no_polynomial_stays_as_it_is():
    assert shortened(lambda x, y, z: where(x > 0, y, z) * 2 / 4) == sp.Piecewise((y, x > 0), (z, True)) / 2


@settings(max_examples=40)
@given(data=st.data())
@pytest.mark.wide
def test_short_forms_have_the_same_values(data):
    """Random polynomials in sines, cosines and parameters."""
    powers = st.tuples(*[st.integers(0, 3)] * 5)
    terms = data.draw(st.lists(st.tuples(st.integers(-3, 3), powers), min_size=1, max_size=8))

    def function(x, y, z):
        factors = (cos(x), sin(x), cos(y), sin(y), z)
        total = 0 * x
        for coefficient, exponents in terms:
            term = coefficient
            for factor, power in zip(factors, exponents, strict=True):
                term = term * factor**power
            total = total + term
        return total

    at = (0.3, -1.1, 0.7)
    expected = sum(
        c * np.prod(np.power([np.cos(0.3), np.sin(0.3), np.cos(-1.1), np.sin(-1.1), 0.7], e))
        for c, e in terms
    )
    found = float(shortened(function).subs(dict(zip((x, y, z), at, strict=True))))
    assert abs(found - expected) <= 1e-12 * sum(max(1, abs(c)) for c, _ in terms)


def test_squares_of_a_quaternion_add_to_one():
    eq = lb.equations("free_rigid_body", symbols=True)
    qx, qy = eq.q[1:3]
    g, m = positive("g m")
    assert eq.g[5] == -g * m * (2 * qx**2 + 2 * qy**2 - 1)
    assert eq.M == sp.diag(*positive("I1 I2 I3"), m, m, m)
    assert eq.potential == g * m * eq.q[6]


# -- printed ---------------------------------------------------------------------------------------------


def used(eq):
    """The symbols that occur; functions take no others."""
    return symbols_in([eq.M, eq.C, eq.g, eq.kinetic, eq.potential, eq.efforts])


def of_python(eq, tmp_path, arguments):
    path = tmp_path / "printed.py"
    path.write_text(eq.python(*OUTPUTS, name="f"))
    spec = importlib.util.spec_from_file_location("printed", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.f(*arguments)


def of_c(eq, tmp_path, arguments):
    (tmp_path / "f.c").write_text(eq.c(*OUTPUTS, name="f"))
    flags = "-std=c99 -O1 -pedantic -Wall -Wextra -Wmissing-prototypes -Werror -fPIC -shared".split()
    command = [*find_compiler().command, *flags, "-o", str(tmp_path / "f.so"), str(tmp_path / "f.c"), "-lm"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    n = eq.tree.nv
    results = [np.full(shape, 7.0) for shape in ((n, n), (n, n), (n,), (1,), (1,), (n,))]
    arrays = [np.asarray(a, float) for a in arguments[:3]]
    pointers = [ctypes.c_void_p(a.ctypes.data) for a in arrays]
    ctypes.CDLL(str(tmp_path / "f.so")).f(
        *pointers, *map(ctypes.c_double, arguments[3:]), *[ctypes.c_void_p(r.ctypes.data) for r in results]
    )
    results[3], results[4] = results[3][0], results[4][0]
    return results


def of_matlab(eq, tmp_path, arguments):
    """By Octave where there is one, and by reading the text as Python."""
    text = eq.matlab(*OUTPUTS, name="f")
    read = matlab_by_python(text, arguments)
    octave = shutil.which("octave-cli")
    if octave:
        (tmp_path / "f.m").write_text(text)
        given = ", ".join(
            "[" + " ".join(map(repr, map(float, a))) + "]" if np.ndim(a) else repr(a) for a in arguments
        )
        names = "M, C, gravity, kinetic, potential, tau"
        script = f"[{names}] = f({given}); printf('%.17g\\n', M', C', gravity, kinetic, potential, tau);"
        done = subprocess.run(
            [octave, "-qf", "--eval", script], capture_output=True, text=True, cwd=tmp_path, check=False
        )
        assert done.stdout, done.stderr
        np.testing.assert_allclose(
            np.array(done.stdout.split(), float),
            np.concatenate([np.ravel(r) for r in read]),
            rtol=1e-12,
            atol=1e-12,
        )
    return read


def matlab_by_python(text, arguments):
    """The statements of a generated function: scalars, `zeros`, entries counted from 1."""
    lines = [
        line.strip() for line in text.replace("lambda", "lambda_").splitlines() if not line.startswith("%")
    ]
    head = re.fullmatch(r"function \[(.*)\] = (\w+)\((.*)\)", lines[0])
    assert head and lines[-1] == "end"
    space = {"cos": np.cos, "sin": np.sin, "sqrt": np.sqrt, "zeros": lambda m, n: np.zeros((m, n))}
    space.update(zip(head[3].split(", "), arguments, strict=True))
    for line in lines[1:-1]:
        assert line.endswith(";") and "[" not in line, line
        line = re.sub(r"\b(q|v|a)\((\d+)\)", lambda m: f"{m[1]}[{int(m[2]) - 1}]", line[:-1])
        line = re.sub(
            r"\b(?!zeros)(\w+)\((\d+), (\d+)\)",
            lambda m: f"{m[1]}[{int(m[2]) - 1}, {int(m[3]) - 1}]",
            line,
        )
        exec(line.replace("^", "**"), space)
    return [space[key].ravel() if key in ("gravity", "tau") else space[key] for key in head[1].split(", ")]


@pytest.mark.parametrize(
    ("make", "simplify"),
    [
        (lambda: "double_pendulum", True),
        (lambda: "puma560", True),
        (lambda: "puma560", False),
        (lambda: lb.models.double_pendulum(spherical=True), False),
        (anthropomorphic_arm, True),
        (lambda: "free_rigid_body", True),
        (lambda: TreeBuilder("slide").add("a", Prismatic((0, 0, 1)), SpatialInertia(1 / 3)).build(), True),
    ],
    ids=["pendulum", "puma", "puma-long", "spherical", "arm", "free", "slide"],
)
@pytest.mark.many
def test_printed_functions_compute_what_the_kernels_do(make, simplify, tmp_path):
    eq = lb.equations(make(), simplify=simplify)
    robot, values = numeric(eq)
    q, v, a = state(robot)
    arguments = [q, v, a, *(values[p] for p in eq.parameters if p in used(eq))]
    for language in (of_python, of_c, of_matlab):
        expect_kernels(language(eq, tmp_path, arguments), robot, q, v, a)


def test_a_function_takes_what_it_needs(pendulum):
    assert "def double_pendulum(q, l1, l2, m1, m2):" in pendulum.python("M")
    assert "def double_pendulum(q, v, l1, l2, m2):" in pendulum.python("C")
    assert "def swing(q, v, a, g, l1, l2, m1, m2):" in pendulum.python("tau", name="swing")
    assert "function [gravity] = double_pendulum(q, g, l1, l2, m1, m2)" in pendulum.matlab("g")


@pytest.mark.wide
def test_names_that_mean_something_in_a_language_are_changed(tmp_path):
    m, l = positive("lambda for")
    odd = sp.Symbol("t 0", positive=True)
    tree = (
        TreeBuilder('a */ """ evil name')
        .add("end", Revolute((0, 1, 0)), SpatialInertia(m, [0, 0, l], [0, odd, 0]))
        .build()
    )
    eq = lb.equations(tree, q=["return"], v=["double"], a=["function"])
    robot, values = numeric(eq)
    q, v, a = state(robot)
    arguments = [q, v, a, *(values[p] for p in eq.parameters if p in used(eq))]
    for language in (of_python, of_c, of_matlab):
        expect_kernels(language(eq, tmp_path, arguments), robot, q, v, a)
    assert "evil" in eq.c() and eq.c().count("*/") == 1
    assert eq.python().count('"""') == 4 and "\nname" not in eq.python() + eq.c() + eq.matlab()


def test_latex(pendulum):
    text = pendulum.latex()
    lines = text.splitlines()
    assert lines[0].startswith(r"M(q) = \left[\begin{matrix}l_{1}^{2} \left(m_{1} + m_{2}\right)")
    assert lines[3].startswith("T = ") and lines[4].startswith("U = ") and len(lines) == 7
    assert lines[6].startswith(r"\tau_{2} = \ddot{q}_{1} l_{2} m_{2} \left(")
    assert r"\dot{q}_{1}^{2}" in lines[6]
    assert pendulum.latex("g") == lines[2] + "\n"


def test_symbols_of_bodies_have_their_number_as_an_index_in_latex():
    body = SpatialInertia(2.0, [0.1, 0, 0.3], np.diag([0.3, 0.4, 0.5]))
    tree = TreeBuilder("rod").add("rod", Revolute([0, 1, 0]), body, placement=[0, 0, 0.2]).build()
    text = lb.equations(lb.Robot(tree), symbols=True).latex("M", "g")
    assert (
        "I_{1,yy}" in text and "c_{1,x}" in text and "m_{1}" in text and "I1" not in text and "c1" not in text
    )


def test_latex_of_components_of_joints():
    builder = TreeBuilder("two").add("base", Free(), SpatialInertia(1, np.zeros(3), np.ones(3)))
    tree = builder.add("left_arm", Spherical(), SpatialInertia(1, np.zeros(3), np.ones(3)), "base").build()
    eq = lb.equations(tree)
    assert [s.name for s in eq.q[:8]] == [
        "base_qw",
        "base_qx",
        "base_qy",
        "base_qz",
        "base_x",
        "base_y",
        "base_z",
        "left_arm_qw",
    ]
    assert [s.name for s in eq.v[6:]] == ["left_arm_wx", "left_arm_wy", "left_arm_wz"]
    assert [s.name for s in eq.a[:1]] == ["base_dwx"]
    assert r"\omega_{y,\mathrm{left\_arm}}" in eq.latex("kinetic")
    assert [s.name for s in lb.equations("heavy_top").q] == ["qw", "qx", "qy", "qz"]
    mixed = builder.add(
        "tool", Revolute((1, 0, 0)), SpatialInertia(1, np.zeros(3), np.ones(3)), "base"
    ).build()
    assert [lb.equations(mixed).v[9].name, lb.equations(mixed).q[11].name] == ["v10", "q10"]


def test_text(pendulum):
    text = pendulum.text()
    assert "M = ⎢" in text and "cos(q₂)" in text
    assert "tau2 = a1*l2*m2*(l1*cos(q2) + l2) + a2*l2**2*m2" in text
    assert max(map(len, text.splitlines())) <= 100
    wide = lb.equations("puma560", simplify=False).text("M")
    assert (
        wide.startswith("x0 = ")
        and "M[1, 2] = " in wide
        and "M[2, 1]" not in wide
        and max(map(len, wide.splitlines())) <= 100
    )
    assert pendulum.text("potential").startswith("potential = -g*(l1*(m1 + m2)*cos(q1) +")


def test_unsimplified_latex_names_what_occurs_more_than_once():
    lines = lb.equations("puma560", simplify=False).latex("M").splitlines()
    assert lines[0].startswith("x_{0} = ") and lines[-1].startswith("M(q) = ") and "x_{3}" in lines[-1]


# -- time ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "simplify", "seconds"),
    [
        (lambda: planar_arm(2), True, 10),
        (lambda: planar_arm(3), True, 10),
        (anthropomorphic_arm, True, 10),
        (lambda: lb.models.double_pendulum(spherical=True), True, 60),
        (lambda: lb.models.puma560(), False, 60),
    ],
    ids=["2r", "3r", "3r-in-space", "spherical", "puma"],
)
@pytest.mark.many
def test_closed_forms_take_seconds(make, simplify, seconds):
    start = time.process_time()
    eq = lb.equations(make(), simplify=simplify)
    eq.latex()
    eq.c(*OUTPUTS)
    assert time.process_time() - start < seconds


@pytest.mark.wide
def test_sums_of_terms_that_nothing_divides_are_not_factored():
    """Ball joints with all their numbers as symbols: factoring each sum took twenty times as long."""
    start = time.process_time()
    eq = lb.equations(lb.models.double_pendulum(spherical=True), symbols=True)
    assert eq.C.shape == (6, 6) and time.process_time() - start < 25


@given(data=st.data())
def test_no_product_of_sums_is_called_prime(data):
    """Of two sums of terms in three letters, neither with a common letter."""
    exponents = st.tuples(*[st.integers(0, 1)] * 3)
    sums = st.dictionaries(exponents, st.integers(-3, 3).filter(bool), min_size=2, max_size=3)
    a, b = (data.draw(sums.filter(lambda p: not any(map(min, zip(*p))))) for _ in range(2))
    product: dict[int, int] = {}
    for (m, x), (n, y) in itertools.product(a.items(), b.items()):
        place = sum((i + j) << (polynomials.BITS * k) for k, (i, j) in enumerate(zip(m, n)))
        product[place] = product.get(place, 0) + x * y
    assert not polynomials.is_prime({m: x for m, x in product.items() if x}, range(3))


def test_what_has_no_factors_is_not_lifted_in_vain(monkeypatch):
    """x^2 - y z - w^2: many images in one variable have factors, and by three of them SymPy was misled."""
    lifted = []
    monkeypatch.setattr(factortools, "dmp_zz_wang_hensel_lifting", lambda *_: lifted.append(1) or [])
    x, y, z, w = (1 << (polynomials.BITS * k) for k in range(4))
    p = {2 * x: 1, y + z: -1, 2 * w: -1}
    for seed in range(50):
        sp.core.random.seed(seed)
        assert polynomials.factor_list(p, range(4)) == (1, [(p, 1)])
    assert not lifted


def test_shared_subexpressions_are_not_walked_again_and_again():
    """A chain whose expressions, written out, would be longer than any page."""
    start = time.process_time()
    text = lb.equations(lb.models.planar_chain(20), simplify=False).c("tau")
    assert time.process_time() - start < 60 and len(text) < 200_000


# -- what is refused -------------------------------------------------------------------------------------


def pendulum_with(**arguments):
    return lb.equations("double_pendulum", **arguments)


REST = [0, 0], [0, 0]


def test_rates_are_of_lists_as_of_columns():
    eq = pendulum_with()
    listed = [sp.sin(eq.q[0]), eq.q[1] ** 2]
    assert eq.rate(listed) == eq.rate(sp.Matrix(listed)) == (eq.jacobian(listed) * eq.v).applyfunc(shortest)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (
            lambda: pendulum_with(form="lagrange"),
            ModelError,
            "form 'lagrange' .* use one of christoffel, ploen",
        ),
        (lambda: pendulum_with().coriolis("x"), ModelError, "form 'x' .* is unknown"),
        (lambda: pendulum_with().latex("M", "N"), ModelError, "no part 'N'; there are M, C, g"),
        (lambda: pendulum_with().c("equations"), ModelError, "no output 'equations'.*tau"),
        (lambda: pendulum_with().of(3), LiebodyError, "algorithm is 3, expected a name or a function"),
        (lambda: pendulum_with(symbols=3), LiebodyError, "symbols is 3, expected"),
        (lambda: shortest(None), LiebodyError, "expression is None, expected an expression of SymPy"),
        (
            lambda: pendulum_with(symbols=True).program("c", REST, 1.0, 0.1, values={"m_1": 2.0}),
            ModelError,
            "no parameter 'm_1'; known are g, l1, l2, m1, m2; did you mean 'm1'",
        ),
        (
            lambda: pendulum_with(symbols=True).program("c", REST, 1.0, 0.1, values={"m1": "heavy"}),
            ShapeError,
            "m1 cannot be read as an array of numbers",
        ),
        (
            lambda: pendulum_with().program("c", ([np.nan, 0], [0, 0]), 1.0, 0.1),
            ConfigurationError,
            r"q of the start\[0\] is nan, expected a finite number",
        ),
        (lambda: pendulum_with().program("c", REST, "1", 0.1), LiebodyError, "t_end is '1', expected"),
        (lambda: pendulum_with().program("c", REST, 1.0, 0.1, tau=3), LiebodyError, "tau is 3, expected an"),
        (lambda: pendulum_with(q=["q"]), ShapeError, "1 names for q of double_pendulum, expected 2"),
        (lambda: pendulum_with(gravity=(0, 1)), ShapeError, "gravity is .* three numbers"),
        (lambda: pendulum_with(q=["x", "x"]), ModelError, "'x' names a coordinate and a coordinate"),
        (
            lambda: pendulum_with(q=["x", "y"], v=["y", "z"]),
            ModelError,
            "'y' names a coordinate and a velocity",
        ),
        (
            lambda: lb.equations(lb.models.double_pendulum(lengths=sp.symbols("a1 a2"))),
            ModelError,
            "'a1' names an acceleration and a parameter.*q=",
        ),
        (
            lambda: lb.equations(lb.models.double_pendulum(masses=[positive("m"), sp.Symbol("m")])),
            ModelError,
            "'m' is one word, m, with another symbol",
        ),
        (
            lambda: lb.equations(TreeBuilder("rock").add("a", Fixed(), SpatialInertia(1)).build()),
            ModelError,
            "rock has no degrees of freedom",
        ),
        (lambda: recognized(float("nan")), ModelError, "must be finite"),
    ],
)
def test_errors(call, error, words):
    with pytest.raises(error, match=re.compile(words, re.DOTALL)):
        call()


@pytest.mark.parametrize("readable", [1, 0, 3])
@pytest.mark.many
def test_each_part_that_grows_too_long_falls_back_by_itself(readable, monkeypatch):
    """All parts come, with the numbers of kernels; those that are not too long to be read stay short."""
    whole = lb.equations("double_pendulum")
    whole.latex()
    short_rate = whole.rate(whole.M)
    monkeypatch.setattr(short_forms, "READABLE", readable)
    eq, space, (q, v, a) = lb.equations("double_pendulum"), {}, np.random.default_rng(2).normal(size=(3, 2))
    with pytest.warns(LongForm, match="it comes as its algorithm makes it") as said:
        text, latex = eq.text(), eq.latex()
        exec(eq.python(*OUTPUTS), space)
        products, rate, kinematics = eq.velocity_products(), eq.rate(eq.M), eq.kinematics
    assert all("simplify" not in str(warning.message) for warning in said)
    for line in ("M(q) = ", "C(q, v) = ", "g(q) = ", "T = ", "U = ", r"\tau_{1} = ", r"\tau_{2} = "):
        assert sum(x.startswith(line) for x in latex.splitlines()) == 1
    for name in ("M", "C", "g", "kinetic", "potential", "tau1", "tau2"):
        assert len(re.findall(rf"^ *{name}(\[.*\])? = ", text, re.MULTILINE)) >= 1
    found = space["double_pendulum"](q, v, a)
    robot = lb.load("double_pendulum")
    expected = (
        robot.mass_matrix(q), robot.coriolis_matrix(q, v), robot.gravity(q), robot.kinetic_energy(q, v),
        robot.potential_energy(q), robot.inverse_dynamics(q, v, a),
    )  # fmt: skip
    for x, y in zip(found, expected, strict=True):
        np.testing.assert_allclose(x, y, atol=1e-13)
    at = dict(zip([*eq.q, *eq.v, *eq.a], [*q, *v, *a], strict=True))
    theirs = [*whole.velocity_products()[:2], short_rate, whole.kinematics]
    for x, y in zip([*products[:2], rate, kinematics], theirs, strict=True):
        np.testing.assert_allclose(np.array(x.subs(at), float), np.array(y.subs(at), float), atol=1e-13)
    assert products.pairs == ((0, 1),)
    for part in ("M", "C", "g", "kinetic", "potential"):
        if id(getattr(eq, part)) not in eq._long:
            assert eq.latex(part) == whole.latex(part) and eq.latex(part) in latex


@pytest.mark.slow
def test_an_arm_of_six_joints_in_symbols_has_equations():
    """SO-101, whose placements are decimals; the parts that are short, gravity and potential, stay so."""
    path = description("so_arm_description/urdf/so101.urdf")
    result = CliRunner().invoke(main, ["equations", str(path), "--symbols", "--latex"])
    assert result.exit_code == 0 and "simplify" not in result.stderr and result.stderr.count("warning") == 4
    lines = result.stdout.splitlines()
    starts = ("M(q) =", "C(q, v) =", "g(q) =", "T =", "U =", r"\tau_{1}", r"\tau_{6}")
    assert all(any(line.startswith(start) for line in lines) for start in starts)
    assert "x_{" not in next(line for line in lines if line.startswith("g(q)"))


@pytest.mark.wide
def test_what_is_too_long_for_a_short_form_has_intermediates():
    """The connection of a satellite with seven hinges: expanded, its denominator alone has 7842 terms."""
    eq = lb.equations("space_robot")
    with pytest.warns(LongForm, match="space_robot: mechanical_connection in short form would be") as caught:
        m = eq.of("connection")
    assert caught[0].filename == __file__ and m.shape == (6, 7) and m is eq.connection
    definitions, ((_, rest),) = eq._contents(("connection",), {})
    operations = sum(int(sp.count_ops(x)) for x in (rest, *(x for _, x in definitions)))
    assert 50 < len(definitions) and operations < 1000
    robot, space = lb.load("space_robot"), {}
    exec(eq.python("connection"), space)
    for q in robot.random(1, 5):
        np.testing.assert_allclose(space["space_robot"](q), robot.mechanical_connection(q), atol=1e-14)
    assert "x0" not in eq.text("potential", T=eq.of("pose", frame="link2"))  # these are short
    with (
        pytest.warns(LongForm, match="curvature in short form would be"),
        pytest.raises(ModelError, match="zero"),
    ):
        eq.integrable  # noqa: B018


def test_graphs_beyond_measure_are_refused(monkeypatch):
    monkeypatch.setattr(derivation, "LARGEST_GRAPH", 50)
    eq = lb.equations("puma560", simplify=False)
    with pytest.raises(ModelError, match=r"operations, and SymPy would need more than minutes.*export_c"):
        eq.coriolis("ploen")


def test_sympy_is_asked_for(monkeypatch):
    monkeypatch.setitem(sys.modules, "sympy", None)
    with pytest.raises(MissingPackage, match="for closed forms: pip install sympy"):
        lb.equations("double_pendulum")
    result = CliRunner().invoke(main, ["equations", "double_pendulum"])
    assert result.exit_code == 2 and "pip install sympy" in result.stderr


def test_the_library_starts_without_sympy():
    check = "import sys, liebody; sys.exit('sympy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", check], check=False).returncode == 0


def test_a_tree_with_symbols_does_not_become_a_kernel():
    robot = lb.models.double_pendulum(masses=sp.symbols("m1 m2"))
    with pytest.raises(lb.LiebodyError):
        robot.mass_matrix(robot.neutral())


# -- the command line ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "start"),
    [
        ("double_pendulum --symbols --parts g", "    ⎡g⋅(l₁⋅(m₁ + m₂)⋅sin(q₁) +"),
        ("double_pendulum --latex --parts potential", "U = "),
        ("double_pendulum --python", '"""Equations of motion of double_pendulum'),
        ("double_pendulum --c --parts tau", "/* Equations of motion of double_pendulum"),
        ("puma560 --matlab --no-simplify --form coadjoint", "function [M, C, gravity] = puma560(q, v)"),
    ],
)
def test_the_command(words, start):
    result = CliRunner().invoke(main, ["equations", *words.split()])
    assert result.exit_code == 0 and result.stdout.startswith(start)


def test_the_command_reads_descriptions(tmp_path):
    (tmp_path / "swing.urdf").write_text(SWING)
    call = ["equations", str(tmp_path / "swing.urdf"), "--parts", "M,g"]
    assert CliRunner().invoke(main, call).stdout.split() == "M = [7/10] g = [9.81⋅sin(q₁)]".split()
    named = CliRunner().invoke(main, [*call, "--symbols"]).stdout
    assert "I1yy" in named.replace("₁", "1").replace("_yy", "yy") or "I₁" in named
    result = CliRunner().invoke(main, ["equations", str(tmp_path / "swing.urdf"), "--form", "x"])
    assert result.exit_code == 2 and "form 'x' of a Coriolis matrix is unknown" in result.stderr


def test_joints_with_armature_and_pitch():
    J = positive("J")
    screw = Joint("screw", Helical((0, 0, 1), 0.1), armature=J)
    eq = lb.equations(
        TreeBuilder("press").add("ram", screw, SpatialInertia(positive("m"), np.zeros(3), [0, 0, 1])).build()
    )
    m, g = positive("m g")
    assert sp.expand(eq.M[0, 0] - (J + 1 + m / 100)) == 0
    assert sp.expand(eq.g[0] - g * m / 10) == 0


def test_the_example_prints_what_it_says(capsys):
    path = Path(__file__).parent.parent / "examples" / "equations_of_a_double_pendulum.py"
    spec = importlib.util.spec_from_file_location("example", path)
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    example.main()
    assert capsys.readouterr().out.split() == example.__doc__.split("prints\n", 1)[1].split()
