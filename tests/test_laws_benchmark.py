"""The benchmark that measures the laws of Coriolis matrices: ours hold, and it sees broken ones."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
import laws
import peers

GATE = 1e-10
CHAIN = [(k - 1, "revolute, any axis") for k in range(6)]


def measured(peer, joints, base="fixed"):
    return laws.measure(*laws.prepare(peer, joints, base, "", seed=0)[:4])


@pytest.mark.parametrize("base", ["fixed", "floating"])
@pytest.mark.parametrize("kind", peers.Ours.kinds)
@pytest.mark.many
def test_ours_satisfies_every_law(kind, base):
    found = measured(peers.Ours, peers.tree_of(kind), base)
    assert max(found[key] for key in (*laws.LAWS, "error of dM/dt")) < GATE, found


def test_pinocchio_satisfies_every_law_on_six_hinges():
    found = measured(peers.Pinocchio, CHAIN)
    assert max(found[key] for key in (*laws.LAWS, "error of dM/dt")) < GATE, found


@pytest.mark.parametrize(
    ("peer", "kind", "base"),
    [
        (peers.Ours, "spherical", "floating"),
        (peers.Ours, "planar", "fixed"),
        (peers.Pinocchio, "universal", "fixed"),
    ],
)
def test_controls_hold(peer, kind, base):
    """Also for what breaks the laws, so that it is C that breaks them."""
    found = laws.controls(*laws.prepare(peer, peers.tree_of(kind), base, "", seed=0))
    assert set(found) == set(laws.CONTROLS)
    assert max(found.values()) < GATE, found


def test_pinocchio_and_ours_are_given_the_same_mechanism():
    """M and C agree entry by entry, where the joints are hinges."""
    links = peers.random_links(np.random.default_rng(1), CHAIN)
    q, v = np.random.default_rng(2).normal(size=(2, 6))
    for ours, theirs in zip(
        *(p(links, False).terms(q, v) for p in (peers.Ours, peers.Pinocchio)), strict=True
    ):
        np.testing.assert_allclose(ours, theirs, atol=1e-12 * np.linalg.norm(ours))


class Wrong(peers.Ours):
    """A Coriolis matrix, a bracket or a mass matrix that is not right, by the name of the mistake."""

    mistake = ""

    def terms(self, x, v):
        M, C, h, g = super().terms(x, v)
        return {
            "doubled C": (M, 2 * C, h, g),
            "not skew": (M, C + np.outer(h, self._across(v)), h, g),  # C v is the same
            "another form": (M, self.dynamics.coriolis_matrix(self.tree, x, v, "coadjoint"), h, g),
            "M not symmetric": (M + np.triu(M, 1), C, h, g),
            "M not positive": (-M, C, h, g),
        }[self.mistake]

    @staticmethod
    def _across(v):
        u = np.roll(v, 1)
        return u - (u @ v) / (v @ v) * v


@pytest.mark.parametrize(
    ("mistake", "broken"),
    [
        ("doubled C", {"C v", "dM/dt", "torsion"}),
        ("not skew", {"dM/dt", "torsion"}),
        ("another form", {"torsion"}),
        ("M not symmetric", {"M", "torsion"}),
        ("M not positive", {"M", "torsion"}),
    ],
)
def test_mistakes_are_seen(monkeypatch, mistake, broken):
    monkeypatch.setattr(Wrong, "mistake", mistake)
    found = measured(Wrong, peers.tree_of("spherical"))
    assert set(laws.verdicts(found)) == broken


def test_the_wrong_bracket_is_named():
    state = laws.prepare(OppositeBracket, peers.tree_of("spherical"), "fixed", "", seed=0)
    found = laws.measure(*state[:4]) | laws.controls(*state)
    report = {"notes": [], "rows": [{"joint": "spherical", "base": "fixed", "variant": "", **found}]}
    assert found["bracket"] > 0.1  # the control tells that the bracket, not C, is wrong
    assert laws.findings(report)[0].endswith("law 4 holds with the bracket opposite")


class OppositeBracket(peers.Ours):
    def __init__(self, *args):
        super().__init__(*args)
        self.structure, self.others = -self.structure, {"opposite": self.structure}


def test_the_error_of_a_slope_is_estimated():
    rate, error = laws.slope(lambda t: np.exp(3 * t) * np.array([1.0, 2.0]))
    np.testing.assert_allclose(rate, [3, 6], rtol=1e-12)
    assert error < 1e-11


def test_tables():
    numbers = dict.fromkeys((*laws.LAWS, *laws.CONTROLS, "error of dM/dt"), 1e-15)
    holds = {"joint": "hinge", "base": "fixed", "variant": "", **numbers}
    rows = [
        holds,
        {**holds, "base": "floating", "dM/dt": 0.5},
        {**holds, "joint": "ball", "C v": np.nan},
        {**holds, "joint": "slide", "variant": "one"},
        {**holds, "joint": "slide", "variant": "other", "M": 1.0},
    ]
    reports = [
        {"peer": "some", "version": "1", "notes": [], "rows": rows},
        {"peer": "other", "version": "2", "notes": ["a note"], "rows": rows[3:4]},
    ]
    assert laws.summary(reports).splitlines() == [
        "| joint | some 1 | other 2 |",
        "|---|---|---|",
        "| hinge | fixed: 1e-15; floating: **dM/dt 0.5** |  |",
        "| ball | **C v nan** |  |",
        "| slide | one: 1e-15; other: **M 1** | 1e-15 |",
    ]
    assert laws.full(reports[0]).count("**") == 6
    assert [len(laws.findings(report)) for report in reports] == [3, 1]
