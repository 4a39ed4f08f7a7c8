"""The study of the RNEA notes: every slip that it lists is one, and every correction is right."""

from __future__ import annotations

import numpy as np
import pytest
import sympy as sp
from click.testing import CliRunner

from liebody import dynamics
from liebody_studies.command import reproduce
from liebody_studies.report import EXACT
from liebody_studies.rnea_notes import page as rnea_notes
from liebody_studies.rnea_notes.page import (
    Chain,
    apart,
    corrections,
    mass_rate_minus_2c,
    planar_arm,
    recursion,
    right_as_printed,
    second_link,
)

pytestmark = pytest.mark.wide


@pytest.fixture(scope="module")
def report():
    return rnea_notes.study()


@pytest.fixture(scope="module")
def arm():
    return planar_arm()


@pytest.mark.parametrize("seed", range(4))
def test_every_correction_is_right_and_every_slip_is_one(seed):
    found = corrections(seed)
    assert [c.number for c in found] == [f"4-{k}" for k in range(1, 15)]
    assert {c.number: (c.before, c.after) for c in found if not c.confirmed} == {}


@pytest.mark.parametrize("seed", range(4))
def test_the_rest_is_right_as_printed(seed):
    assert {c.printed: c.off for c in right_as_printed(seed) if c.off > EXACT} == {}


@pytest.mark.parametrize("n", [1, 2, 5])
def test_the_corrected_recursion_is_inverse_dynamics(n):
    rng = np.random.default_rng(n)
    chain = Chain.random(rng, n)
    q, v, a = rng.uniform(-3, 3, n), rng.normal(size=n), rng.normal(size=n)
    x = recursion(chain.links(q), v, a, (0, 0, -9.81))
    tau = [x[f"tau{i}"] for i in range(1, n + 1)]
    assert apart(tau, dynamics.inverse_dynamics(chain.tree, q, v, a)) < 1e-12


def test_the_formulas_of_the_second_link():
    assert max(x for seed in range(5) for x in second_link(seed).values()) < EXACT


def test_slips_that_do_not_show_for_planar_arms_are_slips_all_the_same():
    """Parallel axes hide 4-4: that is why it is easily overlooked."""
    chain = Chain.random(np.random.default_rng(0))
    chain.screws[1, :3] = chain.screws[0, :3]
    x = recursion(chain.links([0.3, 0.4]), [1.0, 2.0], [0, 0])
    assert np.abs(x["dw2"]).max() < 1e-14


def test_the_planar_arm_agrees_with_the_closed_form(arm):
    assert arm.difference == [0, 0]


def test_terms_of_the_planar_arm(arm):
    m2, l1, r2, I2 = sp.symbols("m2 l1 r2 I2", positive=True)
    theta2 = arm.equations.q[1]
    assert arm.table("w2")[r"\dot\theta_1"] == [0, 0, 1]
    assert arm.table("v2")[r"\dot\theta_1"] == [l1 * sp.sin(theta2), l1 * sp.cos(theta2) + r2, 0]
    tau2 = arm.table("tau2")
    assert tau2[r"\dot\theta_1\dot\theta_2"] == tau2[r"\dot\theta_2^2"] == 0
    assert tau2[r"\dot\theta_1^2"] == l1 * m2 * r2 * sp.sin(theta2)
    assert tau2[r"\ddot\theta_2"] == I2 + m2 * r2**2


def test_terms_add_up(arm):
    eq = arm.equations
    (t1, t2), (a1, a2), g = eq.v, eq.a, sp.Symbol("g", positive=True)
    columns = {
        r"\dot\theta_1": t1, r"\dot\theta_2": t2, r"\ddot\theta_1": a1, r"\ddot\theta_2": a2, "g": g,
        r"\dot\theta_1^2": t1**2, r"\dot\theta_1\dot\theta_2": t1 * t2, r"\dot\theta_2^2": t2**2,
    }  # fmt: skip
    for name, x in arm.variables.items():
        terms = arm.table(name)
        for k, entry in enumerate(np.ravel(x)):
            total = sum(np.ravel(terms[key])[k] * product for key, product in columns.items())
            values = dict.fromkeys(sp.sympify(entry - total).free_symbols)
            rng = np.random.default_rng(1)
            assert abs(sp.sympify(entry - total).subs({s: rng.uniform(0.5, 2) for s in values})) < 1e-12, name


def test_dm_minus_2c_is_taken_with_the_true_rate_of_m():
    chain = Chain.random(np.random.default_rng(0), 3)
    q, v, h = np.array([0.1, 0.7, -1.2]), np.array([0.3, -0.4, 0.9]), 1e-6
    rate = (dynamics.mass_matrix(chain.tree, q + h * v) - dynamics.mass_matrix(chain.tree, q - h * v)) / (
        2 * h
    )
    N = rate - 2 * dynamics.coriolis_matrix(chain.tree, q, v, "ploen")
    np.testing.assert_allclose(mass_rate_minus_2c(chain, q, v, "ploen"), N, atol=1e-8)


def test_the_report_bears_itself_out(report):
    assert report.confirmed
    said = [v.says for v in report.verdicts]
    assert said.count("misprint") + said.count("wrong") + said.count("imprecise") == 13
    html = report.html
    assert "not confirmed" not in html and "<script" not in html
    assert all(f"4‑{k}" in html for k in range(1, 15))


def test_the_command_writes_the_page(report, tmp_path, monkeypatch):
    monkeypatch.setattr(rnea_notes, "study", lambda: report)
    result = CliRunner().invoke(reproduce, ["rnea-notes", "--out", str(tmp_path)])
    assert result.exit_code == 0
    assert (tmp_path / "rnea-notes.html").read_text().startswith("<!DOCTYPE html>")
