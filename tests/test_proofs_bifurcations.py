"""Proved flips and folds: bounds around exact values, and a checker that differentiates by itself."""

from __future__ import annotations

import json
from dataclasses import replace

import mpmath
import numpy as np
import pytest
from test_proofs import changed, compass_module, refused

import liebody as lb
from liebody.gaits import ProofError, continuation, periodic_orbit, prove_flip, prove_fold
from liebody.scalars import exp, where

pytest.importorskip("flint", reason="the checker is built on Arb")
from flint import arb, arb_series

import liebody_check
from liebody_check.__main__ import main
from liebody_check.bifurcations import for_all_values
from liebody_check.claims import Function, Guard
from liebody_check.larger import Writer
from liebody_check.numbers import Jet, Known, precisely, value_of
from liebody_check.proof import is_zero_again
from liebody_check.reading import OPERANDS, read

STEPS = {"section": "wall", "dt": 0.01, "method": "rkmk8"}


def logistic(v, p):
    return p.mu * v * (1 - v)


def bouncing(jump, mu, name):
    """A point goes from 0 to a wall at 1 with the speed v; then it is at 0 again, with the speed jump(v).

    Its return map is jump, and its period is 1 / v.
    """

    def update(t, q, v, z, p, events):
        hit = events.wall > 0
        return np.array([where(hit, 0.0, q[0])]), np.array([where(hit, jump(v[0], p), v[0])]), z

    return lb.HybridSystem(
        lb.groups.R(1), lambda t, q, v, z, p: np.array([0.0 * v[0]]), update=update, parameters={"mu": mu},
        guards=lambda t, q, v, z, p: {"wall": q[0] - 1}, directions={"wall": 1}, name=name,
    )  # fmt: skip


def striding(mu):
    """The same with the logistic map, and a second coordinate, which moves as fast and is not set back."""

    def update(t, q, v, z, p, events):
        hit = events.wall > 0
        speed = logistic(v[0], p)
        return np.array([where(hit, 0.0, q[0]), q[1]]), np.array([where(hit, speed, x) for x in v]), z

    return lb.HybridSystem(
        lb.groups.R(2), lambda t, q, v, z, p: 0.0 * v, update=update, parameters={"mu": mu},
        guards=lambda t, q, v, z, p: {"wall": q[0] - 1}, directions={"wall": 1}, name="striding",
    )  # fmt: skip


def circles(mu):
    """q'' = -q + v h(r), with h = mu + r - r^2 and r = q^2 + v^2: circles where h is zero."""

    def field(t, q, v, z, p):
        r = q[0] ** 2 + v[0] ** 2
        return np.array([v[0] * (p.mu + r - r * r) - q[0]])

    return lb.HybridSystem(lb.groups.R(1), field, parameters={"mu": mu}, name="circles")


@pytest.fixture(scope="module")
def flip():
    orbit = periodic_orbit(bouncing(logistic, 2.99, "logistic"), [0.0], [0.66], period=1.5, **STEPS)
    return prove_flip(orbit, "mu")


@pytest.fixture(scope="module")
def fold():
    orbit = periodic_orbit(circles(-0.2495), [np.sqrt(0.5 + np.sqrt(0.0005))], [0.0], period=6.28, dt=0.01)
    return prove_fold(orbit, "mu")


def contains(x, exact, radius):
    """Whether a ball of the checker has an exact number, and is narrow."""
    with mpmath.workdps(60):
        middle, away = mpmath.mpf(x.mid().str(50, radius=False)), mpmath.mpf(x.rad().str(20, radius=False))
        return abs(middle - exact) <= away * (1 + mpmath.mpf(10) ** -15) and away < radius


# -- exact values -------------------------------------------------------------------------------------------


def test_a_flip_is_at_its_exact_value(flip):
    """The logistic map has the multiplier 2 - mu at 1 - 1 / mu: -1 for mu = 3."""
    assert flip.value[0] <= 3 <= flip.value[1] and flip.period[0] <= 1.5 <= flip.period[1]
    assert flip.value[1] - flip.value[0] < 1e-12
    proof = flip.check()
    assert contains(proof.value, 3, 1e-25) and contains(proof.period, mpmath.mpf("1.5"), 1e-25)
    with mpmath.workdps(50):
        assert contains(proof.start[1], mpmath.mpf(2) / 3, 1e-15)
    assert contains(proof.direction[0], 0, 1e-25) and contains(proof.direction[1], 1, 1e-25)
    assert len(proof.others) == 1


def test_a_flip_of_two_phases_is_at_its_exact_value():
    """The cycle of two returns of the logistic map has the multiplier 4 + 2 mu - mu^2: -1 at 1 + sqrt(6)."""
    mu = 3.445
    v = [(mu + 1 + sign * np.sqrt((mu - 3) * (mu + 1))) / (2 * mu) for sign in (-1, 1)]
    system = bouncing(logistic, mu, "logistic")
    orbit = periodic_orbit(system, [0.0], [v[0]], period=sum(1 / np.array(v)), segments=2, **STEPS)
    proof = prove_flip(orbit, "mu").check()
    with mpmath.workdps(50):
        exact = 1 + mpmath.sqrt(6)
        assert contains(proof.value, exact, 1e-15) and contains(proof.period, exact, 1e-15)


def test_a_fold_with_events_is_at_its_exact_value():
    """v = mu exp(v) has two solutions below mu = 1 / e, where both are 1."""
    system = bouncing(lambda v, p: p.mu * exp(v), 0.367, "exponential")
    proof = prove_fold(periodic_orbit(system, [0.0], [0.933], period=1.07, **STEPS), "mu").check()
    with mpmath.workdps(50):
        assert contains(proof.value, mpmath.exp(-1), 1e-15)
    assert contains(proof.start[1], 1, 1e-15) and contains(proof.period, 1, 1e-15)


def test_a_fold_of_limit_cycles_is_at_its_exact_value(fold):
    """h has a double zero r = 1/2 at mu = -1/4: a circle with the period 2 pi."""
    assert fold.value[0] <= -0.25 <= fold.value[1] and fold.period[0] <= 2 * np.pi <= fold.period[1]
    proof = fold.check()
    with mpmath.workdps(50):
        assert contains(proof.value, mpmath.mpf(-1) / 4, 1e-13)
        assert contains(proof.period, 2 * mpmath.pi, 1e-13)
        v = mpmath.mpf(float(fold.start[1, 1]))  # the section
        assert contains(proof.start[0], mpmath.sqrt(mpmath.mpf(1) / 2 - v**2), 1e-13)
    assert proof.others == []


def test_a_flip_up_to_a_shift_is_at_its_exact_value():
    orbit = periodic_orbit(striding(2.99), [0.0, 0.0], [0.66, 0.66], period=1.5, symmetries=[[0, 1]], **STEPS)
    flip = prove_flip(orbit, "mu")
    proof = flip.check()
    assert contains(proof.value, 3, 1e-15) and contains(proof.shift[0], 1, 1e-15)
    assert contains(proof.direction[1], 0, 1e-15)
    assert "up to such a shift" in flip.theorem()


@pytest.mark.slow
def test_the_flip_of_the_compass_gait_is_enclosed():
    """At 4.39090 degrees, where continuation finds it; 1e-8 degrees would be eight digits."""
    module = compass_module()
    gait = periodic_orbit(module.walker, **module.GUESS, section="strike", **module.STEPS)
    branch = continuation(gait, "slope", step=0.005, bounds=(0.05, 0.078), locate="stability")
    (found,) = branch.bifurcations
    flip = prove_flip(found.orbit, "slope")
    assert flip.value[0] - 1e-7 < found.value < flip.value[1] + 1e-7
    low, high = np.degrees(flip.value)
    assert high - low < 1e-10 and abs(low - 4.39089825) < 1e-8
    proof = flip.check()
    assert float(proof.value.rad()) < 1e-12
    assert len(proof.others) == 3 and "a rate that is not zero" in flip.theorem()


def test_steps_in_c_lead_to_the_same_bifurcation(flip):
    one, other = flip.check("python"), liebody_check.check(flip.data, steps="c")
    assert other.by == "C" and contains(other.value, 3, 1e-20)
    assert other.least == one.least and len(other.others) == 1
    assert all(a.overlaps(b) for a, b in zip(other.direction, one.direction, strict=True))


# -- theorems and the checker -------------------------------------------------------------------------------


def test_the_theorem_says_what_is_proved(flip, fold, tmp_path, capsys):
    for words in (
        "Theorem (logistic, a flip over mu).",
        "Exactly one periodic orbit with one jump at wall in each period has the multiplier -1",
        "There mu = 3.0000000000",
        "the multiplier passes -1 at a rate that is not zero",
        "Between its jumps the guard wall has no event.",
    ):
        assert words in flip.theorem()
    assert "a quadratic turn over mu" in fold.theorem()
    assert "has a multiplier 1 beside that along the orbit" in fold.theorem()
    assert "checked" in repr(flip)
    flip.save(tmp_path / "flip.json")
    assert main([str(tmp_path / "flip.json")]) == 0
    assert "There mu = 3.0000000000" in capsys.readouterr().out


@pytest.mark.parametrize("op", sorted(OPERANDS))
def test_the_checkers_derivatives_are_those_of_power_series(op):
    """The written derivative of each operation against that which its jets carry."""
    count = OPERANDS[op]
    alone = Function(count, (*(("input", k) for k in range(count)), (op, *range(count))), (count,))
    constants = []
    write = Writer(count, constants, None)
    _, slopes = write.with_changes(alone, write.y, write.w)
    precisely()
    known = Known([arb(int(low)) for low, _ in constants], [])
    x, w = [arb("0.3"), arb("0.7")][:count], [arb("1.25"), arb("-0.5")][:count]

    def jet(value, slope):
        return Jet(arb_series([value], prec=1), [arb_series([slope], prec=1)], 1)

    expected = value_of(alone, [jet(a, b) for a, b in zip(x, w)], known)[0].dx[0][0]
    arguments = [jet(a, arb(0)) for a in (*x, *w)]
    (written,) = value_of(write.function(slopes), arguments, known)
    assert written.x[0].overlaps(expected) and float(abs(written.x[0] - expected).upper()) < 1e-30


def test_changed_certificates_are_refused(flip):
    data = json.loads(json.dumps(flip.data))
    assert not refused(data)
    phase = data["phases"][0]
    normal = [float.fromhex(x) for x in data["normal"]]
    mutants = {
        "kind": changed(data, ["kind"], "fold"),
        "unknown kind": changed(data, ["kind"], "torus"),
        "parameter": changed(data, ["parameter"], "nu"),
        "an unknown entry": changed(data, ["rotations"], []),
        "normal": changed(data, ["normal"], [(2 * x).hex() for x in normal]),
        "length of the normal": changed(data, ["normal"], data["normal"][:1]),
        "value": changed(data, ["parameters", 0, 1], (3.1).hex()),
        "interval": changed(data, ["parameters", 0, 1], [(2.9).hex(), (3.1).hex()]),
        "change": changed(data, ["phases", 0, "changes", 0, 1], (1.1).hex()),
        "changes": changed(data, ["phases", 0, "changes"], phase["changes"][:-1]),
        "node": changed(data, ["phases", 0, "nodes", 0, 1], (0.7).hex()),
    }
    jump = phase["section"]["jump"]["nodes"]
    for k, (op, *_) in enumerate(jump):
        if op in ("mul", "sub"):
            mutants[f"jump {k}"] = changed(data, ["phases", 0, "section", "jump", "nodes", k, 0], "add")
    assert len(mutants) > 11
    assert [what for what, other in mutants.items() if not refused(other)] == []


def test_a_symmetry_must_hold_at_all_values_of_the_parameter():
    """The field gains the term (mu - mu_0) q[1], which is zero at the value mu_0 of the certificate alone."""
    orbit = periodic_orbit(striding(2.99), [0.0, 0.0], [0.66, 0.66], period=1.5, symmetries=[[0, 1]], **STEPS)
    data = json.loads(json.dumps(prove_flip(orbit, "mu").data))
    field = data["phases"][0]["field"]
    N, n = len(data["phases"][0]["states"]), len(field["nodes"])
    place = len(data["constants"])
    data["constants"].append(data["parameters"][0][1])
    last = field["outputs"][N - 1]
    field["nodes"] += [["parameter", 0], ["constant", place], ["sub", n, n + 1], ["mul", 1, n + 2]]
    field["nodes"] += [["add", last, n + 3]]
    field["outputs"][N - 1] = n + 4
    with pytest.raises(liebody_check.Refused, match="not seen to be unchanged under a symmetry"):
        liebody_check.check(data)


def test_a_guard_that_is_zero_at_one_value_of_the_parameter_may_have_an_event(flip):
    """Behind the jump q is mu - mu_0: the guard q starts at zero at the value of the certificate alone."""
    data = json.loads(json.dumps(flip.data))
    claim = read(data)
    (phase,) = claim.claim.phases
    nodes = (*phase.jump.nodes, ("parameter", 0), ("constant", len(claim.claim.constants)))
    jump = Function(2, (*nodes, ("sub", len(nodes) - 2, len(nodes) - 1)), (len(nodes), phase.jump.outputs[1]))
    height = Function(2, (("input", 0), ("input", 1)), (0,))
    bounds = (claim.value, claim.value)
    moved = replace(
        claim.claim, phases=(replace(phase, jump=jump),), constants=(*claim.claim.constants, bounds)
    )
    guard = Guard("height", 1, height, 0)
    assert is_zero_again(moved, moved.phases[0], guard)
    open_claim = for_all_values(replace(claim, claim=moved))
    assert not is_zero_again(open_claim, open_claim.phases[0], guard)


def test_what_is_no_bifurcation_is_named(flip):
    orbit = periodic_orbit(bouncing(logistic, 2.2, "logistic"), [0.0], [0.54], period=1.8, **STEPS)
    with pytest.raises(ProofError, match="not near a flip: its multiplier nearest to -1"):
        prove_flip(orbit, "mu")
    with pytest.raises(ProofError, match="there is no parameter 'nu'"):
        prove_flip(orbit, "nu")
    with pytest.raises(ProofError, match="order is 2"):
        prove_flip(orbit, "mu", order=2)
    # a branch point: v = 0 and v = 1 - 1 / mu cross at mu = 1, and the larger system is singular
    crossing = bouncing(lambda v, p: 1 + (v - 1) * (p.mu + 1 - v), 0.9, "crossing")
    with pytest.raises(ProofError):
        prove_fold(periodic_orbit(crossing, [0.0], [1.0], period=1.0, **STEPS), "mu")
    with pytest.raises(liebody_check.Refused):
        liebody_check.check({**flip.data, "format": "liebody certificate 9"})
