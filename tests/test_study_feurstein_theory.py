"""The study of Feurstein (2021), chapters 2, 3 and A: what holds, holds on other robots; slips are slips."""

from __future__ import annotations

import re
from collections import Counter

import numpy as np
import pytest
import sympy as sp
from click.testing import CliRunner
from found import tree_of

import liebody as lb
from liebody import dynamics as dyn
from liebody_studies.command import reproduce
from liebody_studies.compare import left
from liebody_studies.feurstein_theory import equations, motions, symbols
from liebody_studies.feurstein_theory import page as theory
from liebody_studies.feurstein_theory import robots as made_of
from liebody_studies.feurstein_theory.robots import EXACT, Floating
from liebody_studies.report import APART, Check, Correction, Report, correction_rows

pytestmark = pytest.mark.wide

ANYMAL, TALOS = "anymal_b_simple_description/robots/anymal.urdf", "talos_data/robots/talos_reduced.urdf"


@pytest.fixture(scope="module")
def pair():
    """The robots of the page."""
    return made_of.robots()


@pytest.fixture(scope="module")
def slips(pair):
    return equations.corrections([made_of.robots(seed=5)[1], *pair])


# -- equations and corrections ------------------------------------------------------------------------------


@pytest.mark.parametrize("seed, k", [(0, 0), (5, 1)], ids=["space", "plane"])
def test_every_equation_is_what_the_page_says(seed, k):
    found = equations.checks(made_of.robots(seed)[k])
    assert [(c.number, c.printed, c.off) for c in found if not c.confirmed] == []
    assert sum(c.differs for c in found) == 4


def test_every_correction_is_right_and_every_slip_is_one(slips):
    assert {c.number: (c.before, c.after) for c in slips if not c.confirmed} == {}
    assert Counter(c.says for c in slips) == {"misprint": 37, "wrong": 12, "imprecise": 5}
    before = [c.before for c in slips if c.before is not None]
    assert len(before) == 39 and min(before) > APART


def test_no_equation_is_left_out(pair, slips):
    """Every number of chapters 2 and 3 and of A.1 stands in one of the two tables, but for definitions."""
    numbers = [c.number for r in pair for c in equations.checks(r)]
    numbers += [c.number for c in slips]
    covered = set()
    for text in numbers:
        for chapter, first, last in re.findall(
            r"\b([23A])\.(\d+)[a-f]?(?:–(?:[23A]\.)?(\d+))?(?![.\d])", text
        ):
            covered |= {(chapter, k) for k in range(int(first), int(last or first) + 1)}
    # (2.1), (2.3) and (3.1), (3.2) define, (2.32) is (3.21); (3.10) is (3.35); (3.51)-(3.54), (3.71) are
    # steps; (3.87), (A.1) and (A.2) name blocks
    defined = {("2", 1), ("2", 3), ("2", 32), ("3", 1), ("3", 2), ("3", 10), ("3", 87), ("A", 1), ("A", 2)}
    defined |= {("3", k) for k in (29, 51, 52, 53, 54, 71, 74, 75)}
    wanted = {(c, k) for c, n in (("2", 53), ("3", 96), ("A", 6)) for k in range(1, n + 1)}
    assert sorted(wanted - covered - defined) == []


def test_a_check_that_fails_is_seen(pair):
    assert not Check("1", "x", "y", 1e-6).confirmed
    assert not Check("1", "x", "y", 1e-6, differs=True).confirmed
    assert not Correction("1", "", "", before=1e-12, after=0).confirmed
    assert not Correction("1", "", "", before=1.0, after=1e-6).confirmed


def test_a_wrong_coriolis_matrix_would_show(monkeypatch):
    """With an inertia that is off by a thousandth in one link, what rests on the passive C falls."""
    r = made_of.robots(seed=6)[1]
    _ = r.M, r.M_rate
    r.__dict__["Lam"] = r.Lam * np.array([1, 1, 1.001, 1, 1])[:, None, None]
    failed = {c.number for c in equations.as_checks(equations._equivalence(r)) if not c.confirmed}
    assert {"3.43, 3.46", "3.44", "3.45", "3.48", "3.50", "3.59"} <= failed
    assert "3.55, L 3.2" not in failed


def test_hamiltons_principle_sees_a_wrong_force(pair, monkeypatch):
    true = dyn.inverse_dynamics
    monkeypatch.setattr(
        dyn,
        "inverse_dynamics",
        lambda *args, **rest: true(*args, **rest) * np.array([1, 1, 1.001, 1, 1, 1, 1]),
    )
    found = made_of.varied(pair[1])
    assert abs(found.change - found.hamel) / found.terms > 1e-6


@pytest.mark.parametrize("n", [4, 6, 7])
def test_which_inverse_the_decomposition_has(n):
    s = made_of.split(n)
    assert (s.left < EXACT) == (n <= 6) and (s.right < EXACT) == (n >= 6) and s.diagonal < EXACT
    assert all((x < EXACT) == (n <= 6) for x in (s.bracket, s.equations, s.inertial))


# -- propositions on robots ---------------------------------------------------------------------------------


def real(file):
    return tree_of(file, floating=True, check=False, mimic=False)


@pytest.mark.parametrize("file", [ANYMAL, TALOS], ids=["anymal", "talos"])
def test_propositions_on_real_robots(file):
    p = motions.propositions(real(file), seed=1)
    assert max(*p[:5], p.difference) < 1e-10 and p.velocity_map > 1e-4


@pytest.mark.parametrize("robot", [ANYMAL, "hopper"], ids=["anymal", "hopper"])
def test_every_relation_on_real_robots(robot):
    """Links, Lagrange's equations, both forms of C, momentum, curvature, transforms: to 1e-10."""
    r = Floating(made_of.hopper() if robot == "hopper" else real(robot), seed=3)
    off = equations._links(r) | equations._motion(r) | equations._equivalence(r) | equations._conserved(r)
    off |= equations._decoupled(r) | equations._internal(r) | equations._appendix(r)
    found = equations.as_checks(off)
    assert [(c.number, c.off) for c in found if not (c.confirmed or c.differs)] == [] and len(found) > 60


def test_robots_of_the_page_are_different():
    names = [tree.name for tree in motions.proposition_robots()]
    assert len(set(names)) == 7
    assert made_of.quadruped().nv == 18
    assert not motions.propositions(made_of.planar_2r())._replace(passive=1e-6).confirmed


# -- symbols ------------------------------------------------------------------------------------------------


def test_zero_is_told_from_what_is_not():
    a, b = sp.symbols("a b", real=True)
    assert symbols.vanishes(sp.sin(a) ** 2 + sp.cos(a) ** 2 - 1, sp.Matrix([0, b / a - b**2 / (a * b)]))
    for x in (sp.sin(a), sp.cos(a) ** 2 - 1, a - b, sp.Rational(1, 10**30), 1 / a):
        assert not symbols.vanishes(x)


def test_lemmas_and_propositions_in_symbols():
    found = symbols.statements(symbols._symbolic_plane() | symbols._symbolic_robot("R"))
    assert [(c.number, c.claim) for c in found if not c.verdict.confirmed] == []
    assert len(found) == 18 and sum(c.says == "wrong" for c in found) == 5


def test_symbolic_robot_is_the_one_of_the_library():
    """M of the hinge and (3.41), in numbers, against a tree with the same masses."""
    r = symbols.SymbolicRobot("R", numbers=True)
    m, I, l, c = ([(3 * i + k + 2) / 3 for k in range(2)] for i in range(4))
    bodies = [lb.SpatialInertia(m[k], (c[k], 0, 0), np.diag([1, 1, I[k]])) for k in range(2)]
    builder = lb.TreeBuilder("two").add("base", lb.groups.Planar([0, 0, 1]), bodies[0])
    tree = builder.add("link", lb.groups.Revolute([0, 0, 1]), bodies[1], "base", (l[0], 0, 0)).build()
    q, v = np.array([0.1, 0.2, 0.3, 0.7]), np.array([0.4, -0.5, 0.6, 0.8])
    values = {r.q[0]: q[3], r.rates[0]: v[3], **dict(zip(r.nu, v[:3], strict=True))}

    def whole(bb, bq, qb, qq):
        blocks = sp.Matrix(sp.BlockMatrix([[bb, bq], [qb, qq]]))
        return np.array(blocks.subs(values).evalf(), float)

    np.testing.assert_allclose(whole(r.Mbb, r.Mbq, r.Mbq.T, r.Mqq), dyn.mass_matrix(tree, q), atol=1e-12)
    np.testing.assert_allclose(whole(*r.passive), dyn.coriolis_matrix(tree, q, v, "feurstein"), atol=1e-12)
    np.testing.assert_allclose(
        whole(*r.hamel) @ v, dyn.bias_forces(tree, q, v, gravity=(0, 0, 0)), atol=1e-12
    )


# -- motions ------------------------------------------------------------------------------------------------


def test_the_hoppers_angle_is_the_golden_one():
    assert made_of.hopper_angle(1.7802) == pytest.approx(0.3963760148, abs=1e-10)
    assert abs(made_of.hopper_angle(4.0) - made_of.hopper_angle(4.0, unwrapped=False)) > 1


def test_momentum_is_kept_to_round_off_by_the_variational_method():
    """5000 steps of the satellite: (l, p) in the world; about the centre of mass if that rests."""
    robot = lb.models.space_robot()
    q, v = robot.neutral(), np.concatenate([[0.3, -0.4, 0.5, 0, 0, 0], np.linspace(-2, 2, 7)])
    A = robot.centroidal_momentum_matrix(q)
    v[3:6] -= np.linalg.solve(A[3:, 3:6], A[3:] @ v)
    run = lb.simulate(
        robot, q, v, t_end=10.0, dt=2e-3, method="variational", joints={"armature"}, progress=False
    )
    for momentum in (robot.momentum, robot.centroidal_momentum):
        start, end = (momentum(run.q[k], run.v[k]) for k in (0, -1))
        assert left(end - start, start) < 1e-12
    assert np.abs(run.q[-1, 7:] - run.q[0, 7:]).max() > 1


# -- the page -----------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_report_bears_itself_out():
    """Half a minute; what it is made of is tested above piece by piece, and its pictures' data elsewhere."""
    report = theory.study()
    assert [v.claim for v in report.verdicts if not v.confirmed] == []
    assert Counter(v.says for v in report.verdicts) == {
        "holds": 132,
        "misprint": 37,
        "wrong": 23,
        "imprecise": 5,
    }
    html = report.html
    assert "not confirmed" not in html and "<script" not in html
    assert re.findall(r'(?:src|href)="(?!#)', html) == []
    assert html.count("<figure>") == 5 and len(html) < 1_500_000


def test_the_command_writes_the_page(pair, tmp_path, monkeypatch):
    report = Report("Equations and corrections", "Feurstein (2021)")
    report.table(theory.equation_rows(pair), ["eq.", "as printed", "beside", "SE(3)", "SE(2)", ""])
    report.table(correction_rows(equations.corrections(pair), places=False), ["where", "", "", "off", ""])
    assert report.confirmed and len(report.verdicts) > 130 and "not confirmed" not in report.html
    monkeypatch.setattr(theory, "study", lambda: report)
    result = CliRunner().invoke(reproduce, ["feurstein-2021-theory", "--out", str(tmp_path)])
    assert result.exit_code == 0
    assert (tmp_path / "feurstein-2021-theory.html").read_text().startswith("<!DOCTYPE html>")
