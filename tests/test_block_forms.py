"""Closed forms in named matrices: they are those in scalars, and a page holds them."""

from __future__ import annotations

import re
import warnings
from pathlib import Path

import numpy as np
import pytest
import sympy as sp
from click.testing import CliRunner
from found import description
from random_trees import MECHANISMS, random_mechanism

import liebody as lb
from liebody import SpatialInertia, TreeBuilder
from liebody.base.errors import ArgumentError, ModelError, ShapeError
from liebody.cli import main
from liebody.dynamics.coriolis import FORMS, body_forms
from liebody.groups import (
    SE3,
    Fixed,
    Free,
    Helical,
    MotionSubgroup,
    Prismatic,
    RealGroup,
    Revolute,
    Spherical,
)
from liebody.models import names
from liebody.symbolic import block_forms
from liebody.symbolic.block_algebra import (
    BlockValues,
    ad,
    definitions,
    grid,
    hat,
    is_zero,
    numbers,
    one,
    product,
    scaled,
    total,
    zero,
)
from liebody.symbolic.block_forms import SPELLED
from liebody.symbolic.numbers import exact

PAGE = 3000  # letters of LaTeX that fill a page
MOTION = ("M", "C", "g", "kinetic", "efforts")
OF_BASES = ("momentum", "locked_inertia", "external_coriolis", "centroidal_inertia", "centroidal_coriolis")
QUOTIENTS = ("connection", "internal_inertia", "mixed_coriolis", "internal_coriolis")


def body(k):
    """The inertia of body k, all of its numbers symbols."""
    m = sp.Symbol(f"m{k}", positive=True)
    com = sp.symbols(f"c{k}x c{k}y c{k}z", real=True)
    xx, xy, xz, yy, yz, zz = (sp.Symbol(f"I{k}{ab}", real=True) for ab in "xx xy xz yy yz zz".split())
    return SpatialInertia(m, com, [[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])


def hinged(joint=None):
    """A free body with a hinge, all of its numbers symbols."""
    place = [*sp.symbols("a b", real=True), 0]
    tree = TreeBuilder("hinged").add("body", Free(), body(1))
    return tree.add("flap", joint or Revolute((0, 0, 1)), body(2), "body", place).build()


def legs(n):
    """A free body with n hinges."""
    tree = TreeBuilder("legs").add("body", Free(), body(1))
    for k in range(2, n + 2):
        tree.add(f"leg{k}", Revolute((0, 0, 1)), body(k), "body", [sp.Symbol(f"x{k}", real=True), 0, 0])
    return tree.build()


# -- equal to the equations in scalars ---------------------------------------------------------------------


@pytest.mark.parametrize("form", body_forms())
def test_a_free_body_with_a_hinge_is_proved_in_symbols(form):
    eq = lb.equations(hinged(), form, blocks=True)
    assert eq.check(*MOTION) == dict.fromkeys(MOTION, "in symbols")


def test_external_motion_of_a_hinged_body_is_proved_in_symbols():
    """C_x in a frame at the centre of mass, too, which fills pages in scalars."""
    eq = lb.equations(hinged(), blocks=True)
    assert eq.check(*OF_BASES) == dict.fromkeys(OF_BASES, "in symbols")


def test_internal_motion_of_a_hinged_body_is_exact_at_rational_points():
    eq = lb.equations(hinged(), simplify=False, blocks=True)
    parts = ("external_coriolis", *QUOTIENTS)
    assert eq.check(*parts) == dict.fromkeys(parts, "at 2 rational points")


@pytest.mark.parametrize("name", [n for n in names() if n not in ("planar_chain", "space_robot")])
def test_bundled_models_are_proved_in_symbols(name):
    eq = lb.equations(name, symbols=True, blocks=True)
    assert set(eq.check().values()) == {"in symbols"}
    if name.endswith("hopper"):
        assert eq.forms.dimension == 3, "a hopper moves by SE(2)"
        assert set(eq.check("momentum", "centroidal_inertia").values()) == {"in symbols"}
        assert set(eq.check(*QUOTIENTS[:2]).values()) == {"at 2 rational points"}


@pytest.mark.parametrize("name", ["planar_chain", "space_robot"])
def test_long_models_are_exact_at_rational_points(name):
    eq = lb.equations(name, simplify=False, blocks=True)
    assert set(eq.check("M", "C", "g").values()) == {"at 2 rational points"}


@pytest.mark.parametrize("name", [x for x in MECHANISMS if not x.startswith("every-joint")])
@pytest.mark.many
def test_joints_of_every_kind_about_any_axis(name):
    """Axes of many digits have norm one to round-off only."""
    tree = random_mechanism(np.random.default_rng(3), name)
    found = lb.equations(tree, simplify=False, blocks=True).check("M", "C", "g")
    assert set(found.values()) <= {"at 2 rational points", "to 1e-12 at 2 rational points"}


@pytest.mark.parametrize("form", ["christoffel", "ploen"])
@pytest.mark.wide
def test_every_joint_in_one_mechanism(form):
    tree = random_mechanism(np.random.default_rng(3), "every-joint-floating")
    lb.equations(tree, form, False, blocks=True).check("M", "C", "g", "kinetic")


@pytest.mark.parametrize("make", [lambda: lb.models.revolute_hopper(), lambda: lb.models.puma560()])
def test_blocks_have_the_numbers_of_kernels(make):
    """Compiled kernels share neither the polynomials nor the traces with symbols."""
    robot = make()
    eq = lb.equations(robot, simplify=False, blocks=True)
    rng = np.random.default_rng(1)
    q, v = robot.group.random(rng), rng.normal(size=robot.nv)
    at = dict(zip([*eq.q, *eq.v], [*q, *v], strict=True))
    for part, expected in (("M", robot.mass_matrix(q)), ("C", robot.coriolis_matrix(q, v))):
        found = BlockValues(lambda x: float(exact(x).subs(at))).of(getattr(eq, part)).astype(float)
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12 * np.abs(expected).max())


def test_expanded_blocks_are_the_short_forms():
    eq = lb.equations("double_pendulum", symbols=True, blocks=True)
    assert eq.expand("M") == eq.scalars.M
    assert eq.expand("C") == eq.scalars.C
    # of any expression of blocks
    V = eq.blocks["V2"]
    assert eq.expand(V.T @ eq.blocks["I2"] @ V)[0, 0].has(eq.v[1])


def test_a_wrong_block_is_found(monkeypatch):
    """The comparison compares: with the sign of one term changed, it refuses."""

    def wrong(x):
        return -ad(x)

    monkeypatch.setattr(block_forms.blocks, "ad", wrong)
    for simplify in (True, False):
        eq = lb.equations(hinged(), simplify=simplify, blocks=True)
        assert set(eq.check("M").values()) <= {"in symbols", "at 2 rational points"}
        with pytest.raises(ModelError, match="hinged: C in blocks differs from that in scalars, by "):
            eq.check("C")


# -- what is written ---------------------------------------------------------------------------------------


def test_mass_and_coriolis_matrix_of_a_hinged_body_fit_on_a_page():
    eq = lb.equations(hinged(), blocks=True)
    blocks = eq.latex("M", "C")
    assert len(blocks) < PAGE
    # far shorter than the scalars, of which C alone fills several pages
    assert len(eq.scalars.latex("M", "C")) > 4 * len(blocks)
    assert len(eq.latex("centroidal_coriolis")) < PAGE
    lines = blocks.splitlines()
    entries = r"I_1 + X_2^\top I_2 X_2 & X_2^\top I_2 S_2 \\ \ast & S_2^\top I_2 S_2"
    assert rf"M = \begin{{bmatrix}}{entries}\end{{bmatrix}}" in lines
    assert r"X_2 = \begin{bmatrix}R_2^\top & 0 \\ -R_2^\top \hat{p}_2 & R_2^\top\end{bmatrix}" in lines
    assert r"R_2 = R_z(q_{7})" in lines
    assert r"S_2 = \begin{bmatrix}e_z \\ 0\end{bmatrix}" in lines


def stated():
    """The letters of LaTeX of M and C that the page states: in blocks and in scalars."""
    page = (Path(__file__).parents[1] / "docs/equations.md").read_text()
    table = page[page.index("| letters of LaTeX of M and C |") :]
    rows = re.findall(r"^\| (.+?) \| ([\d,]+) \| ([\d,]+) \|$", table, re.MULTILINE)[:4]
    return [(name.split(",")[0], *(int(x.replace(",", "")) for x in row)) for name, *row in rows]


ROBOTS = {
    "double pendulum in symbols": "double_pendulum",
    "revolute hopper in symbols": "revolute_hopper",
    "free body with a hinge": hinged,
    "PUMA 560": "puma560",
}


def test_letters_are_those_that_the_page_states():
    for name, blocks, scalars in stated():
        robot = ROBOTS[name]
        eq = lb.equations(
            robot if isinstance(robot, str) else robot(), symbols=isinstance(robot, str), blocks=True
        )
        assert len(eq.latex("M", "C")) == blocks
        # PUMA 560 takes minutes in scalars
        if name != "PUMA 560":
            assert len(eq.scalars.latex("M", "C")) == scalars


def lengths(make, sizes, *parts):
    return np.array([len(lb.equations(make(n), simplify=False, blocks=True).latex(*parts)) for n in sizes])


def test_the_text_grows_in_proportion_to_the_number_of_bodies():
    """Beyond the bodies that are written one by one, each further body adds the same letters."""
    # from where S_2 = ... = S_5 is written with dots, to where numbers have two digits
    sizes = range(SPELLED + 1, 9)
    grown = np.diff(lengths(legs, sizes, "M", "C"))
    assert grown.max() == grown.min() > 0
    scalars = [len(lb.equations(legs(n), simplify=False).latex("M", "C")) for n in (2, 4)]
    blocks = lengths(legs, (2, 4), "M", "C")
    assert blocks[1] - blocks[0] < scalars[1] - scalars[0]


def test_every_name_is_defined_before_it_is_used():
    for robot in (hinged(), legs(5), "puma560", "three_joint_hopper"):
        eq = lb.equations(robot, simplify=False, blocks=True)
        written: set[str] = set()
        for x in definitions([eq.M, eq.C, eq.g]):
            needed = {y.key for y in definitions([x.value])}
            assert needed <= written
            written.add(x.key)
        # each as a line of its own, in a line for several, or in general for body i
        text = eq.latex()
        for x in definitions([eq.M, eq.C, eq.g]):
            name = x.latex()
            single = f"{name} = " in text or r"\dots" in text
            assert x.explained or x.general or single, name


def test_zeros_and_ones_vanish():
    A = numbers([[sp.Symbol("a"), 0, 0], [0, 1, 0], [0, 0, 1]])
    assert product(one(3), A) is A
    assert total(zero(3, 3), A) is A
    assert is_zero(product(A, zero(3, 2))) and product(A, zero(3, 2)).shape == (3, 2)
    assert str(grid([[one(3), zero(3, 3)], [zero(3, 3), one(3)]])) == "1"
    assert str(hat(zero(3, 1))) == str(ad(zero(6, 1))) == "0"
    assert scaled(-1, scaled(-1, A)) is A
    # a column of ones and zeros is not the identity
    assert grid([[one(3)], [zero(3, 3)]]).shape == (6, 3)


def test_symbols_that_look_like_blocks_make_these_bold():
    """The heavy top has the parameters I1, I2, I3, and body 1 has an inertia I_1."""
    eq = lb.equations("heavy_top", symbols=True, blocks=True)
    assert r"\boldsymbol{I}_1 = " in eq.latex() and "I_{1} & 0 & 0" in eq.latex()
    assert "𝐈₁ = " in eq.text("M").replace("⎣", "") or "𝐈₁" in eq.text("M")
    assert r"\boldsymbol" not in lb.equations("double_pendulum", symbols=True, blocks=True).latex()


def test_a_ball_joint_a_screw_and_a_slide_are_written_as_one_knows_them():
    tree = (
        TreeBuilder("three")
        .add("ball", Spherical(), body(1))
        .add("screw", Helical((1, 0, 0), 2.0), body(2), "ball", [0, 1, 0])
        .add("slide", Prismatic((0, 1, 0)), body(3), "screw")
        .build()
    )
    text = lb.equations(tree, simplify=False, blocks=True).text()
    for line in ("R₁ = 1 + 2⋅qw ε̂₁ + 2 ε̂₁²", "R₂ = Rₓ(q₄)", "p₃ = [0  q₅  0]ᵀ"):
        assert line.replace("Rₓ", "R_x") in text


class Screw(MotionSubgroup, RealGroup):
    """The motions exp(hat(s) q) along one twist, as in docs/architecture.md."""

    def __init__(self, s):
        super().__init__(1)
        self.name, self.S = f"Screw({[*s]})", np.reshape(s, (6, 1))

    def pose(self, q):
        return SE3.exp(self.S @ q)


@pytest.mark.slow
def test_a_joint_of_ones_own_is_written_by_its_pose():
    """SymPy takes a minute for an exponential with its cases of small angles."""
    screw = Screw([0, 0, 1, 0.3, -0.2, 0.1])
    inertia = SpatialInertia.box(2.0, [0.5, 0.1, 0.2], com=[0.25, 0, 0])
    tree = TreeBuilder("arm").add("upper", screw, inertia).add("lower", screw, inertia, "upper", [0.5, 0, 0])
    eq = lb.equations(tree.build(), simplify=False, blocks=True)
    assert set(eq.check().values()) == {"to 1e-12 at 2 rational points"}


def test_fixed_joints_have_a_closed_form():
    tree = (
        TreeBuilder("elbow")
        .add("arm", Revolute((0, 0, 1)), SpatialInertia.point(sp.Symbol("m"), [1, 0, 0]))
        .add("hand", Fixed(), SpatialInertia.point(sp.Symbol("n"), [1, 0, 0]), "arm", [1, 0, 0])
        .build()
    )
    eq = lb.equations(tree, blocks=True)
    assert sp.expand(eq.expand("M")[0, 0]) == sp.Symbol("m") + 4 * sp.Symbol("n")
    assert set(eq.check().values()) == {"in symbols"}


def test_notebooks_show_blocks():
    eq = lb.equations(hinged(), blocks=True)
    shown = eq._repr_latex_()
    assert shown.startswith(r"$$\begin{aligned}") and shown.count(" &= ") == len(eq.latex().splitlines())
    assert eq.M._repr_latex_() == f"$\\displaystyle {eq.M.latex()}$"
    assert repr(eq) == "BlockEquations of 'hinged': nv = 7, form 'christoffel', floating base, in space"


def test_brackets_and_environments_of_latex_are_balanced():
    for robot in ("puma560", "revolute_hopper", "space_robot", hinged()):
        text = lb.equations(robot, simplify=False, blocks=True).latex()
        assert text.count("{") == text.count("}") and text.count("(") == text.count(")")
        assert text.count(r"\begin{bmatrix}") == text.count(r"\end{bmatrix}")
        assert "^\\top^" not in text and "}^\\perp^\\top" not in text


# -- at the door -------------------------------------------------------------------------------------------


def test_what_has_no_blocks_is_told():
    with pytest.raises(ModelError, match=r"form 'hamel' has no blocks.*use one of christoffel"):
        lb.equations("double_pendulum", "hamel", blocks=True)
    eq = lb.equations("double_pendulum", blocks=True)
    with pytest.raises(ModelError, match="no part 'potential' in blocks"):
        eq.text("potential")
    with pytest.raises(ModelError, match="floating base"):
        eq.text("connection")
    with pytest.raises(ModelError, match="no joints beside its floating base"):
        lb.equations("free_rigid_body", blocks=True).text("internal_inertia")
    with pytest.raises(ShapeError, match=r"a factor, 'I₂', has shape \(3, 3\), expected \(2, any\)"):
        eq.M @ eq.blocks["I2"]
    with pytest.raises(ArgumentError, match="a term is 1, expected an expression of named matrices"):
        eq.M + 1
    with pytest.raises(ArgumentError, match="speed is 3, expected an expression of named matrices"):
        eq.text(speed=3)
    assert set(block_forms.FORMS) == set(body_forms()) < set(FORMS)


def test_the_command_line_prints_blocks():
    run = CliRunner().invoke(main, ["equations", "double_pendulum", "--symbols", "--blocks", "--parts", "M"])
    assert run.exit_code == 0 and "M = J₁ᵀ I₁ J₁ + J₂ᵀ I₂ J₂" in run.output
    run = CliRunner().invoke(main, ["equations", "double_pendulum", "--blocks", "--latex"])
    assert r"M = J_1^\top I_1 J_1 + J_2^\top I_2 J_2" in run.output
    run = CliRunner().invoke(main, ["equations", "double_pendulum", "--blocks", "--c"])
    assert run.exit_code == 2 and "--c prints scalars: leave out --blocks" in run.output


@pytest.mark.wide
def test_a_quadruped_from_a_file_fits_on_two_pages_and_is_exact():
    path = description("anymal_b_simple_description/robots/anymal.urdf")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        eq = lb.equations(lb.load(path, floating=True), simplify=False, blocks=True)
    eq.check("M", "C", "g")
    assert "Σ(i = 1..13) Aᵢᵀ Iᵢ Aᵢ" in eq.text("M")
