"""Basins of orbits up to shifts: relative states, exact return maps, and certificates that were changed."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from test_proofs import changed
from test_proofs_phases import RUNNING, runner
from test_proofs_positive import BOUNCING, ball

import liebody as lb
from liebody.gaits import ProofError, periodic_orbit, prove_basin
from liebody.gaits.proofs.phases import equations_of
from liebody.gaits.proofs.relative import relative_equations
from liebody.scalars import where

pytest.importorskip("flint", reason="the checker is built on Arb")
import liebody_check


@pytest.fixture(scope="module")
def bouncing():
    return periodic_orbit(ball(), [0, 0.8], [1, 0], **BOUNCING)


@pytest.fixture(scope="module")
def basin(bouncing):
    return prove_basin(bouncing)


def apex_to_apex(height, speed):
    """The exact return map of the ball: its height and its speed along the wind, 1."""
    down = np.sqrt(20 * height)
    up = 2 + 0.5 * down
    return up * up / 20, 1 + (speed - 1) * np.exp(-(down + up) / 10)


def test_the_exact_return_map_brings_relative_states_nearer(basin):
    proof = basin.check()
    in_c = float(basin.check(steps="c").contraction)
    assert in_c == pytest.approx(float(proof.contraction), rel=1e-6)
    V, kappa = basin.axes, float(proof.contraction.upper())
    assert V.shape == (3, 2) and not V[2].any() and np.array_equal(basin.normal, [0, 0, 1])
    assert kappa < 0.8 and float(proof.inside) > 0.2
    random = np.random.default_rng(0)
    a = random.normal(size=(2, 500))
    a *= basin.radius / np.linalg.norm(a, axis=0)  # on the boundary
    height, speed = np.array([[0.8], [1.0]]) + V[:2] @ a
    after = np.array(apex_to_apex(height, speed)) - [[0.8], [1.0]]
    size = np.linalg.norm(np.linalg.solve(V[:2], after), axis=0)
    assert (size <= kappa * basin.radius * (1 + 1e-9)).all()
    assert size.max() > 0.6 * kappa * basin.radius


def test_the_theorem_says_what_relative_states_are(basin):
    text = basin.theorem()
    for words in (
        "Theorem (ball, up to shifts). Let y move in 2 phases",
        "All of them stay as they are where q[0] grows by s.",
        "From here on states that differ by shifts are one: each stands for that with q[0] = 0.",
        "It starts in phase 1 at q[1] = 0.8",
        "Every motion converges to this orbit that starts at a state x = c + V a + s n of phase 1",
    ):
        assert words in text
    assert "moves by" not in text


def test_starts_of_the_runner_come_nearer_at_the_next_apex():
    """Simulated from random starts of the proved set, at any place along the ground."""
    orbit = periodic_orbit(runner(), [0, 1.0], [5, 0], **RUNNING)
    basin = prove_basin(orbit)
    proof = basin.check(steps="c")
    assert "with relative foot = foot - q[0]" in proof.theorem
    kappa = float(proof.contraction.upper())
    L = np.linalg.inv(np.column_stack([basin.axes, basin.normal]))[:2]
    centre = np.array([float.fromhex(x) for x in basin.data["phases"][0]["nodes"][0]])[1:]
    star = np.array([float(x) for x in proof.orbit.nodes[0]])
    random = np.random.default_rng(1)
    a = random.normal(size=(16, 2))
    a *= basin.radius / np.linalg.norm(a, axis=1, keepdims=True)
    starts = centre + a @ basin.axes.T
    system = runner()
    for x, place in zip(starts, random.uniform(-5, 5, 16)):
        run = lb.simulate(system, [place, x[0]], x[1:], t_end=0.45, dt=1e-3, method="rkmk8")
        log = run.events.of("apex")
        (i,) = np.flatnonzero(log.t > 0.2)
        after = np.array([log.q[i, 1], *log.v[i]])
        assert np.linalg.norm(L @ (after - star)) <= kappa * np.linalg.norm(L @ (x - star)) + 1e-9
        assert abs(log.q[i, 0] - place - 1.987) < 2e-2


def skewed():
    """The ball with the coordinates x and h + 2 x: a shift moves both."""
    plain = ball()

    def heights(q):
        return np.array([q[0], q[1] - 2 * q[0]])

    def field(t, q, v, z, p):
        a = plain.vector_field(t, heights(q), heights(v), z, p)
        return np.array([a[0], a[1] + 2 * a[0]])

    def update(t, q, v, z, p, events):
        u = heights(v)
        return q, np.array([v[0], where(events.floor < 0, 2 - 0.5 * u[1] + 2 * v[0], v[1])]), z

    return lb.HybridSystem(
        lb.groups.R(2), field, name="skewed", update=update, directions={"floor": -1, "apex": -1},
        guards=lambda t, q, v, z, p: {"floor": q[1] - 2 * q[0], "apex": v[1] - 2 * v[0]},
        parameters={"wind": 1.0},
    )  # fmt: skip


def test_a_shift_may_move_several_states():
    """q[1] moves by 1 and q[0] by 1/2: the relative q[0] is -h / 2, so its starts are half as far away."""
    options = {**BOUNCING, "symmetries": [[1, 2]]}
    other = prove_basin(periodic_orbit(skewed(), [0, 0.8], [1, 2], **options))
    text = other.theorem()
    assert "with q[1] = 0, with relative q[0] = q[0] - 0.5 q[1]." in text
    assert "at relative q[0] = -0.4" in text
    assert other.radius > 0.05 and float(other.check().contraction) < 0.9


def test_two_shifts():
    """A ball in space, that two winds carry along."""
    plain = ball()

    def field(t, q, v, z, p):
        return np.array([p.wind - v[0], 2 * p.wind - v[1], -10.0])

    space = lb.HybridSystem(
        lb.groups.R(3), field, name="ball in space", directions={"floor": -1, "apex": -1},
        guards=lambda t, q, v, z, p: {"floor": q[2], "apex": v[2]}, parameters={"wind": 1.0},
        update=lambda t, q, v, z, p, events: (
            q, np.array([v[0], v[1], where(events.floor < 0, 2 - 0.5 * v[2], v[2])]), z
        ),
    )  # fmt: skip
    assert plain.parameters.defaults == space.parameters.defaults
    options = {**BOUNCING, "symmetries": [[1, 0, 0], [0, 1, 0]]}
    basin = prove_basin(periodic_orbit(space, [0, 0, 0.8], [1, 2, 0], **options))
    assert basin.axes.shape == (4, 3)
    text = basin.theorem()
    assert "each stands for that with q[0] = 0 and q[1] = 0." in text and "at q[2] = 0.8" in text


def test_changed_certificates_are_refused(basin):
    data = json.loads(json.dumps(dict(basin.data)))
    along = data["symmetries"][0]["along"]
    assert data["format"] == "liebody certificate 8"
    zero, one, two = "0x0.0p+0", (1.0).hex(), (2.0).hex()
    cases = [
        (["symmetries"], [], "no shifts"),
        (["symmetries", 0, "along"], [along[0], [two, *along[1][1:]]], "does not move its coordinate alone"),
        (["symmetries", 0, "along"], [along[0], [one, one, zero, zero]], "not seen to"),
        (["symmetries", 0, "coordinate"], 1, "a symmetry does not move its coordinate by 1"),
        (["phases", 0, "nodes", 1, 0], (1e-9).hex(), "no relative state"),
        (["phases", 1, "nodes", 0, 1], (0.1).hex(), "no orbit"),
        (["format"], "liebody certificate 7", "another format"),
        (["normal"], [zero, one, zero], "may lie in it|singular"),
    ]
    for path, value, words in cases:
        with pytest.raises(liebody_check.Refused, match=words):
            liebody_check.check(changed(data, path, value), steps="c")
    # a field that depends on the place: no function may
    field = data["phases"][0]["field"]
    nodes = [*field["nodes"], ["add", field["outputs"][2], 0]]
    moved = {"nodes": nodes, "outputs": [*field["outputs"][:2], len(nodes) - 1, field["outputs"][3]]}
    with pytest.raises(liebody_check.Refused, match="unchanged under a symmetry"):
        liebody_check.check(changed(data, ["phases", 0, "field"], moved))


def test_a_shift_that_moves_its_coordinate_otherwise_in_another_phase_is_named(bouncing):
    equations, _ = equations_of(bouncing, {}, 0.0)
    (symmetry,) = equations.symmetries
    along = [symmetry.along[0], [Fraction(2), *symmetry.along[1][1:]]]
    equations.symmetries = [replace(symmetry, along=along)]
    with pytest.raises(
        ProofError, match=r"a shift of ball moves q\[0\] otherwise in phase 2 than at the start"
    ):
        relative_equations(equations)
