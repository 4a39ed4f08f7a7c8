"""Proved basins: exact return maps bring all starts nearer, and a checker that refuses what was changed."""

from __future__ import annotations

import json

import numpy as np
import pytest
from test_proofs import changed, compass_module, refused, van_der_pol
from test_proofs_bifurcations import STEPS, bouncing, logistic, striding

from liebody.gaits import ProofError, periodic_orbit, prove_basin

pytest.importorskip("flint", reason="the checker is built on Arb")

MU, STABLE = 2.5, 0.6  # the logistic map has the fixed point 1 - 1 / mu with the multiplier 2 - mu


@pytest.fixture(scope="module")
def bounce():
    return periodic_orbit(bouncing(logistic, MU, "logistic"), [0.0], [STABLE], period=1 / STABLE, **STEPS)


@pytest.fixture(scope="module")
def basin(bounce):
    return prove_basin(bounce)


def test_the_return_map_brings_all_starts_nearer(basin):
    """The return map is (q, v) -> (0, mu v (1 - v)), whatever q is."""
    proof = basin.check()
    V, kappa = basin.axes, float(proof.contraction.upper())
    assert basin.contraction < 1 and kappa < 1
    random = np.random.default_rng(0)
    a = random.normal(size=(2, 500))
    a *= basin.radius / np.linalg.norm(a, axis=0)  # on the boundary
    q, v = np.array([[0.0], [STABLE]]) + V @ a
    after = np.array([0 * q, MU * v * (1 - v) - STABLE])
    size = np.linalg.norm(np.linalg.solve(V, after), axis=0)
    assert (size <= kappa * basin.radius * (1 + 1e-9)).all()
    # v = 0.8 is mapped to 0.4, as far from 0.6: no disc with that radius is brought nearer
    assert 0.02 < float(proof.inside) <= basin.radius < 0.2
    assert np.linalg.svd(V, compute_uv=False)[-1] == pytest.approx(1)


def test_the_theorem_of_a_basin_says_what_is_proved(basin):
    text = basin.theorem()
    for words in (
        "Theorem (logistic).",
        "Every motion converges to this orbit that starts at a state x, with |V^-1 (x - c)| <= ",
        "of itself, or less.",
        "of c are among them.",
    ):
        assert words in text
    assert repr(basin).endswith("; checked)")


def test_a_basin_of_a_smooth_orbit_is_a_set_on_its_section():
    orbit = periodic_orbit(van_der_pol(), [2.0], [0.1], period=6.5, dt=0.01, method="rkmk8")
    basin = prove_basin(orbit)
    assert np.array_equal(basin.axes != 0, [[True], [False]])
    assert basin.radius > 1e-3 and basin.contraction < 0.01
    assert "starts at a state x with v[0] = fl(" in basin.theorem()


def test_changed_basins_are_refused(basin):
    data = json.loads(json.dumps(basin.data))
    assert not refused(data)
    column = data["columns"][0]
    reach = [float.fromhex(x) for x in column["reach"]]
    mutants = {
        "size": changed(data, ["size"], (8 * basin.radius).hex()),
        "no size": changed(data, ["size"], (0.0).hex()),
        "axis": changed(data, ["axes", 1, 1], (1.1 * basin.axes[1, 1]).hex()),
        "axes": changed(data, ["axes"], data["axes"][:1]),
        "narrow boxes": changed(data, ["columns", 0, "reach"], [(x / 4).hex() for x in reach]),
        "no boxes": changed(data, ["columns", 0, "reach"], [(0.0).hex()] * len(reach)),
        "boxes of others": changed(data, ["columns", 0, "reach"], column["reach"][1:]),
        "change": changed(data, ["columns", 0, "changes", 0, 0, 1], (3.0).hex()),
        "later change": changed(data, ["columns", 0, "changes", 0, 2, 1], (3.0).hex()),
        "a column": changed(data, ["columns"], data["columns"][:1]),
        "parameter": changed(data, ["parameters", 0, 1], (2.6).hex()),
        "an unknown entry": changed(data, ["rotations"], []),
        "node": changed(data, ["nodes", 0, 1], (0.7).hex()),
    }
    assert [what for what, other in mutants.items() if not refused(other)] == []


def test_orbits_without_a_basin_are_named(bounce):
    unstable = periodic_orbit(bouncing(logistic, 3.2, "logistic"), [0.0], [0.6875], period=1.4545, **STEPS)
    with pytest.raises(ProofError, match=r"not stable: a multiplier has the modulus 1\.2"):
        prove_basin(unstable)
    with pytest.raises(ProofError, match=r"no basin with a radius of 3\.0e-01"):
        prove_basin(bounce, radius=0.3)
    moving = periodic_orbit(
        striding(2.5), [0.0, 0.0], [0.6, 0.6], period=1.6667, symmetries=[[0, 1]], **STEPS
    )
    with pytest.raises(ProofError, match="up to symmetries cannot be proved yet"):
        prove_basin(moving)


@pytest.mark.slow
def test_a_basin_of_the_compass_gait_is_proved():
    module = compass_module()
    gait = periodic_orbit(module.walker, **module.GUESS, section="strike", **module.STEPS)
    basin = prove_basin(gait)
    proof = basin.check()
    assert float(proof.inside) > 3e-4 and basin.contraction < 0.95
    assert (np.linalg.svd(basin.axes, compute_uv=False) * basin.radius)[0] > 4e-3
    assert "in which strike is zero, as behind a jump at strike" in basin.theorem()
