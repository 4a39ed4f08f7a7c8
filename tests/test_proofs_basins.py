"""Proved basins: exact return maps bring all starts nearer, and a checker that refuses what was changed."""

from __future__ import annotations

import json

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from test_proofs import changed, compass_module, refused, van_der_pol
from test_proofs_bifurcations import STEPS, bouncing, logistic

import liebody as lb
from liebody.gaits import ProofError, periodic_orbit, prove_basin

pytest.importorskip("flint", reason="the checker is built on Arb")
import liebody_check

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
    assert np.array_equal(basin.axes != 0, [[True], [False]]) and np.array_equal(basin.normal, [0, 1])
    assert basin.radius > 1e-2 and basin.contraction < 0.05
    assert "starts at a state x = c + V a + s n with v[0] = fl(" in basin.theorem(steps="c")
    # files of the format before sections do not say what the section is
    old = as_before(basin.data)
    assert float(liebody_check.check(old, steps="c").contraction) < 0.05
    assert refused({**old, "pieces": 4})


def as_before(data):
    """The certificate of a basin in format 5."""
    kept = {key: x for key, x in data.items() if key not in ("normal", "thickness", "pieces")}
    return {**kept, "format": "liebody certificate 5"}


def test_basins_of_all_states_have_no_section(basin):
    assert basin.normal is None and basin.data["normal"] == []
    proofs = [liebody_check.check(as_before(basin.data)), *(basin.check(steps=x) for x in ("c", "python"))]
    assert [x.by for x in proofs] == ["Python", "C", "Python"]
    for proof in proofs:
        assert float(proof.contraction) == pytest.approx(basin.contraction, rel=1e-9)


def curve(q, v):
    """A guard whose zeros are a curve through the orbit of van der Pol's oscillator."""
    return v - 0.1 + 0.5 * (q - 2) + 2 * (q - 2) ** 2


@pytest.fixture(scope="module")
def across_a_curve():
    marked = lb.HybridSystem(
        lb.groups.R(1), lambda t, q, v, z, p: np.array([(1 - q[0] ** 2) * v[0] - q[0]]),
        guards=lambda t, q, v, z, p: {"mark": curve(q[0], v[0])}, directions={"mark": -1}, name="marked",
    )  # fmt: skip
    orbit = periodic_orbit(marked, [2.0], [0.1], period=6.66, section="mark", dt=0.01, method="rkmk8")
    return prove_basin(orbit, radius=0.01)


def starts_within(basin, guard, number):
    """States x = c + V a + s n with |a| = radius, where a guard is zero: V a, and x."""
    centre = np.array([float.fromhex(x) for x in basin.data["nodes"][0]])
    random = np.random.default_rng(0)
    a = random.normal(size=(number, basin.axes.shape[1]))
    for one in basin.radius * a / np.linalg.norm(a, axis=1, keepdims=True):
        x = centre + basin.axes @ one
        for _ in range(6):
            slope = (guard(x + 1e-6 * basin.normal) - guard(x - 1e-6 * basin.normal)) / 2e-6
            x = x - guard(x) / slope * basin.normal
        yield one, x


def nearest(basin, x):
    """The coordinate a of a state."""
    both = np.column_stack([basin.axes, basin.normal])
    centre = np.array([float.fromhex(x) for x in basin.data["nodes"][0]])
    return np.linalg.solve(both, x - centre)[:-1]


def next_event(field, guard, x):
    """The state at which a guard comes to zero from above, after it has left zero."""

    def event(t, y):
        return guard(y)

    event.terminal, event.direction = True, -1
    accuracy = {"method": "DOP853", "rtol": 1e-12, "atol": 1e-12}
    away = solve_ivp(field, (0, 0.1), x, **accuracy).y[:, -1]
    return solve_ivp(field, (0, 20), away, events=event, **accuracy).y[:, -1]


def test_starts_on_a_curved_section_come_nearer_to_the_orbit(across_a_curve):
    basin = across_a_curve
    kappa = float(basin.check(steps="c").contraction)
    assert 0 < kappa < 0.1 and "in which mark is zero" in basin.theorem()
    largest = 0.0
    for a, x in starts_within(basin, lambda y: curve(*y), 8):
        after = next_event(lambda t, y: [y[1], (1 - y[0] ** 2) * y[1] - y[0]], lambda y: curve(*y), x)
        # the orbit starts within 1e-12 of the first node
        largest = max(largest, np.linalg.norm(nearest(basin, after)) / np.linalg.norm(a))
    assert 1e-4 < largest < kappa


def test_changed_sections_are_refused(across_a_curve):
    basin = across_a_curve
    data = json.loads(json.dumps(basin.data))
    V = [row[0] for row in data["axes"]]

    def refused_in_c(other):
        try:
            liebody_check.check(other, steps="c")
        except liebody_check.Refused:
            return True
        return False

    assert not refused_in_c(data)
    reach = [float.fromhex(x) for x in data["columns"][0]["reach"]]
    mutants = {
        "no normal": changed(data, ["normal"], []),
        "a normal within the section": changed(data, ["normal"], V),
        "a short normal": changed(data, ["normal"], data["normal"][:1]),
        "another normal": changed(data, ["normal"], ["0x1p+0", "-0x1.ap+0"]),
        "zero": changed(data, ["normal"], ["0x0p+0", "0x0p+0"]),
        "thin": changed(data, ["thickness"], "0x1p-40"),
        "no thickness": changed(data, ["thickness"], "0x0p+0"),
        "thick": changed(data, ["thickness"], "0x1p+0"),
        "no pieces": changed(data, ["pieces"], 0),
        "one piece": changed(data, ["pieces"], 1),
        "many pieces": changed(data, ["pieces"], 65),
        "half a piece": changed(data, ["pieces"], 4.5),
        "size": changed(data, ["size"], (2 * basin.radius).hex()),
        "axis": changed(data, ["axes", 0, 0], (-float.fromhex(V[0])).hex()),
        "narrow boxes": changed(data, ["columns", 0, "reach"], [(x / 2).hex() for x in reach]),
        "wide boxes": changed(data, ["columns", 0, "reach"], [(x * 8).hex() for x in reach]),
        "another format": changed(data, ["format"], "liebody certificate 5"),
    }
    assert [what for what, other in mutants.items() if not refused_in_c(other)] == []
    # a guard that is another one behind the jump is no section of the starts
    jump = data["section"]["jump"]
    assert refused_in_c(changed(data, ["section", "jump", "outputs"], jump["outputs"][::-1]))


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
    with pytest.raises(ProofError, match="pieces is 65, expected 1 to 64"):
        prove_basin(bounce, pieces=65)


@pytest.mark.slow
def test_a_basin_of_the_compass_gait_is_proved():
    module = compass_module()
    gait = periodic_orbit(module.walker, **module.GUESS, section="strike", **module.STEPS)
    basin = prove_basin(gait)
    proof = basin.check(steps="c")
    assert float(proof.inside) > 1.2e-3 and float(proof.contraction) < 0.95
    assert (np.linalg.svd(basin.axes, compute_uv=False) * basin.radius)[0] > 1e-2
    assert "in which strike is zero, as behind a jump at strike" in proof.theorem

    def strike(x):
        return x[0] + x[1] + 2 * np.radians(3.0)

    def field(t, x):
        return [*x[2:], *module.swing(t, x[:2], x[2:], None, None)]

    largest = 0.0
    for a, x in starts_within(basin, strike, 50):
        before = next_event(field, strike, x)
        after = np.concatenate(module.heel_strike(before[:2], before[2:]))
        largest = max(largest, np.linalg.norm(nearest(basin, after)) / np.linalg.norm(a))
    assert 0.5 < largest < basin.contraction
