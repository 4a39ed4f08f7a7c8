"""The study of Ploen (1999): its equations hold on random mechanisms, and its slips are slips."""

from __future__ import annotations

import re
from collections import Counter

import numpy as np
import pytest
import sympy as sp
from click.testing import CliRunner

from liebody import TreeBuilder
from liebody import dynamics as dyn
from liebody.groups import Free
from liebody_studies.command import reproduce
from liebody_studies.compare import apart, random_inertia
from liebody_studies.ploen import algorithms, symbols
from liebody_studies.ploen import page as ploen
from liebody_studies.ploen.algorithms import FORMS, SKEW, Chain, Mechanism
from liebody_studies.ploen.checks import checks, corrections
from liebody_studies.report import APART, EXACT, Check, Correction

pytestmark = pytest.mark.wide


@pytest.fixture(scope="module")
def report():
    return ploen.study()


@pytest.fixture(scope="module")
def arm():
    return symbols.planar_arm()


# -- equations and corrections ------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
def test_every_equation_is_what_the_page_says(seed):
    found = checks(seed)
    assert [(c.number, c.printed, c.off) for c in found if not c.confirmed] == []
    assert [c.number for c in found if c.says != "holds"] == ["30"]


def test_no_equation_is_left_out():
    """(1) is (23), and (10), (11), (13), (14) are parts of (9), (8) and of the recursion."""
    covered = set()
    for c in checks():
        for part in c.label.replace("Prop. ", "P").replace("§ ", "§").split(", "):
            first, _, last = part.partition("–")
            covered |= set(range(int(first), int(last or first) + 1)) if first.isdigit() else {part}
    assert covered >= {*range(2, 39), "P1", "P2"}


@pytest.mark.parametrize("seed", range(4))
def test_every_correction_is_right_and_every_slip_is_one(seed):
    found = corrections(seed)
    assert [c.number for c in found] == [f"2-{k}" for k in range(1, 8)]
    assert {c.number: (c.before, c.after) for c in found if not c.confirmed} == {}


def test_a_check_that_fails_is_seen():
    assert not Check("1", "x", "y", 1e-3).confirmed
    assert not Check("1", "x", "y", 1e-3, "misprint", differs=True).confirmed
    assert not Correction("1", "", "", before=1e-15, after=0).confirmed
    assert not Correction("1", "", "", before=1.0, after=1e-3).confirmed


def test_the_recursion_as_printed_is_inverse_dynamics_on_trees_with_any_joints():
    rng = np.random.default_rng(0)
    for kinds in (list(algorithms.JOINTS), ["free", "revolute", "spherical", "helical"]):
        tree = algorithms.random_tree(rng, kinds)
        q, v, a = tree.group.random(rng), rng.normal(size=tree.nv), rng.normal(size=tree.nv)
        fall = np.concatenate([np.zeros(3), -algorithms.FREE_FALL])
        tau = algorithms.recursion(tree, q, v, a, np.zeros(6), fall).tau
        assert apart(tau, dyn.inverse_dynamics(tree, q, v, a)) < EXACT


def test_a_moving_base_is_a_first_joint_that_moves_so():
    """V_0 and dV_0/dt against the same chain on a free joint, whose motion is given."""
    rng = np.random.default_rng(2)
    chain = Chain.random(rng)
    builder = TreeBuilder().add("base", Free(), random_inertia(rng))
    parent = "base"
    for body in chain.tree.bodies:
        builder.add(body.name, body.joint, body.inertia, parent, body.placement)
        parent = body.name
    floating = builder.build()
    V_0, A_0 = rng.normal(size=(2, 6))
    q, v, a = chain.tree.group.random(rng), rng.normal(size=6), rng.normal(size=6)
    tau = dyn.inverse_dynamics(
        floating,
        np.concatenate([floating.group.neutral()[:7], q]),
        np.concatenate([V_0, v]),
        np.concatenate([A_0, a]),
        gravity=(0, 0, 0),
    )
    assert apart(algorithms.recursion(chain.tree, q, v, a, V_0, A_0).tau, tau[6:]) < EXACT


def test_other_frames_leave_the_mechanism_what_it_is():
    rng = np.random.default_rng(3)
    chain = Chain.random(rng)
    other = chain.reframed(rng)
    q, v = chain.tree.group.random(rng), rng.normal(size=6)
    assert apart(dyn.mass_matrix(other.tree, q), dyn.mass_matrix(chain.tree, q)) < EXACT
    assert apart(other.tree.bodies[2].placement, chain.tree.bodies[2].placement) > APART
    for form in FORMS:
        assert (ploen.frame_dependence(form, seed=4) > APART) == (form == "ploen")
        C = dyn.coriolis_matrix(other.tree, q, v, form)
        assert apart(C @ v, dyn.coriolis_matrix(chain.tree, q, v, form) @ v) < EXACT


# -- propositions -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [0, 1])
def test_propositions_on_mechanisms(seed):
    for x in algorithms.mechanisms(seed):
        for form, c in ploen.form_checks(x).items():
            assert c.product < EXACT and (c.identity is None or c.identity < EXACT), (x.name, form)
            assert (c.skewness < EXACT) == (form in SKEW), (x.name, form)
            assert (c.christoffel < EXACT) == (form == "christoffel"), (x.name, form)


def test_koszuls_formula_is_christoffels_where_joints_commute():
    """(3) itself, by central differences of M in the coordinates."""
    chain = Chain.random(np.random.default_rng(5), "RPH")
    tree, q, v, h = chain.tree, np.array([0.3, -0.4, 0.8]), np.array([0.5, 1.2, -0.7]), 1e-6
    dM = np.array(
        [(dyn.mass_matrix(tree, q + h * e) - dyn.mass_matrix(tree, q - h * e)) / (2 * h) for e in np.eye(3)]
    )
    C = np.array(
        [
            [sum((dM[i, k, j] + dM[j, k, i] - dM[k, i, j]) * v[i] for i in range(3)) / 2 for j in range(3)]
            for k in range(3)
        ]
    )
    np.testing.assert_allclose(algorithms.christoffel_matrix(tree, q, v), C, atol=1e-8)


def test_lagranges_equations_see_a_wrong_force():
    """What (23) is compared with is not made of what it tests."""
    chain = Chain.random(np.random.default_rng(6))
    tree, q, v = chain.tree, np.linspace(-1, 1, 6), np.ones(6)
    right = algorithms.lagrange(tree, q, v, v)
    assert apart(dyn.inverse_dynamics(tree, q, v, v), sum(right)) < EXACT
    inertias = (*chain.inertias[:5], random_inertia(np.random.default_rng(1)))
    heavier = Chain(chain.screws, chain.homes, inertias)
    assert apart(dyn.inverse_dynamics(heavier.tree, q, v, v), sum(right)) > APART


def test_proposition_1_in_symbols():
    steps = symbols.proposition_1()
    assert set(steps) == {"31", "32", "33", "34", "skew"}
    assert symbols.vanishes(*steps.values())


def test_proposition_2_in_symbols(arm):
    m2, l1, r2 = sp.symbols("m2 l1 r2", positive=True)
    a, b = arm.v
    expected = l1 * m2 * r2 * sp.sin(arm.q[1]) * sp.Matrix([[0, 2 * a + b], [-2 * a - b, 0]])
    for form in FORMS:
        rest = arm.rest(form)
        assert symbols.vanishes(rest + rest.T) == (form in SKEW)
        assert symbols.vanishes(rest - expected) == (form in SKEW)
        assert symbols.vanishes(arm.C(form) - arm.equations.coriolis(form))
    assert not arm.M.atoms(sp.Float)


def test_three_axes_tell_the_skew_forms_apart():
    eq, C, factor = symbols.three_axes()
    a, b, c = eq.v
    turning = factor * sp.Matrix([[0, -c, b], [c, 0, -a], [-b, a, 0]])
    assert symbols.vanishes(C["ploen"] - C["christoffel"] + turning)
    assert symbols.vanishes(C["coadjoint"] - C["christoffel"] - turning)
    assert not symbols.vanishes(turning)


def test_only_skew_forms_keep_the_energy_of_s():
    """The error falls as that of RK4 does, for skew forms alone."""
    drift = []
    for steps in (20, 40):
        _, energies = ploen.transported_energy(steps, t_end=0.4)
        drift.append({form: np.ptp(x) for form, x in energies.items()})
    for form in FORMS:
        if form in SKEW:
            assert drift[1][form] < drift[0][form] / 8 < 1e-6
        else:
            assert drift[1][form] == pytest.approx(drift[0][form], rel=0.05)
            assert drift[1][form] > 0.05


# -- the page -----------------------------------------------------------------------------------------------


def test_the_report_bears_itself_out(report):
    assert [v.claim for v in report.verdicts if not v.confirmed] == []
    assert Counter(v.says for v in report.verdicts) == {"holds": 83, "misprint": 3, "imprecise": 5}
    html = report.html
    assert "not confirmed" not in html and "<script" not in html
    assert re.findall(r'(?:src|href)="(?!#)', html) == []
    assert html.count("<figure>") == 4 and len(html) < 1_500_000
    assert all(f"2‑{k}" in html for k in range(1, 8))


def test_a_broken_form_would_show(monkeypatch):
    """With a Proposition 1 that is off by a thousandth the page does not stay green."""
    true = algorithms.body_matrix
    monkeypatch.setattr(
        algorithms, "body_matrix", lambda form, I, V: true(form, I, V) * (1.001 if form == "ploen" else 1)
    )
    failed = {c.number for c in checks() if not c.confirmed}
    assert {"34", "35", "37"} <= failed
    x = algorithms.mechanisms()[0]
    assert ploen.form_checks(Mechanism(*x))["ploen"].identity > 1e-4


def test_the_command_writes_the_page(report, tmp_path, monkeypatch):
    monkeypatch.setattr(ploen, "study", lambda: report)
    result = CliRunner().invoke(reproduce, ["ploen", "--out", str(tmp_path)])
    assert result.exit_code == 0
    assert (tmp_path / "ploen.html").read_text().startswith("<!DOCTYPE html>")
