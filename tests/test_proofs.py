"""Proved orbits: bounds around independent values, and a checker that refuses what was changed."""

from __future__ import annotations

import ast
import copy
import itertools
import json
import re
import subprocess
import sys
from fractions import Fraction
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import mpmath
import numpy as np
import pytest

import liebody as lb
from liebody.gaits import GaitError, ProofError, periodic_orbit, prove, prove_field
from liebody.gaits.proofs.system import StepEquations
from liebody.scalars import cos, sin, where

pytest.importorskip("flint", reason="the checker is built on Arb")
import liebody_check

ROOT = Path(__file__).parents[1]


def van_der_pol():
    return lb.HybridSystem(
        lb.groups.R(1),
        lambda t, q, v, z, p: np.array([p.mu * (1 - q[0] ** 2) * v[0] - q[0]]),
        parameters={"mu": 1.0},
        name="van der Pol",
    )


def roessler(y):
    return [-y[1] - y[2], y[0] + 0.2 * y[1], 0.2 + y[2] * (y[0] - 5.7)]


def simplest_walker(guards=None):
    """Garcia, Chatterjee, Ruina, Coleman (1998): angles of the legs; the jump exchanges them."""

    def field(t, q, v, z, p):
        stance = sin(q[0] - p.slope)
        return np.array([stance, (cos(q[0] - p.slope) - v[0] ** 2) * sin(q[0] - q[1])])

    def update(t, q, v, z, p, events):
        c = cos(q[0] - q[1])
        after = q[::-1], np.array([c * v[0], c * c * v[0]])
        return *(
            np.array([where(events.strike < 0, a, b) for a, b in zip(*x)]) for x in zip(after, (q, v))
        ), z

    def strike(t, q, v, z, p):
        return {"strike": q[0] + q[1], **(guards(q, v) if guards else {})}

    return lb.HybridSystem(
        lb.groups.R(2), field, parameters={"slope": 0.009}, guards=strike, directions={"strike": -1},
        update=update, name="simplest walker",
    )  # fmt: skip


WALKING = {
    "q0": [0.2003, -0.2003], "v0": [-0.1998, -0.184], "period": 3.88, "section": "strike", "dt": 5e-3,
    "method": "rkmk8",
}  # fmt: skip


def compass_module():
    path = ROOT / "examples" / "compass_walker.py"
    spec = spec_from_file_location("compass_walker", path)
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def oscillator():
    return periodic_orbit(van_der_pol(), [2.0], [0.1], period=6.5, dt=0.01, method="rkmk8")


@pytest.fixture(scope="module")
def compass():
    module = compass_module()
    return periodic_orbit(module.walker, **module.GUESS, section="strike", **module.STEPS)


@pytest.fixture(scope="module")
def walker():
    return prove(periodic_orbit(simplest_walker(), **WALKING))


def bounds_of(ball):
    return float(ball.lower()), float(ball.upper())


BITS = 140  # behind the point, in the integers of `after`


def after(y, time, steps=200, order=30):
    """The state of Roessler's equations after a time, from integers in units of 2^-BITS: 35 digits."""
    one = 1 << BITS
    a, b, c = (int(Fraction(x) * one) for x in (0.2, 0.2, 5.7))
    h = time // steps
    for _ in range(steps):
        x, y_, z = ([value] for value in y)
        for k in range(order):
            products = sum(x[j] * z[k - j] for j in range(k + 1)) >> BITS
            x.append((-y_[k] - z[k]) // (k + 1))
            y_.append((x[k] + (a * y_[k] >> BITS)) // (k + 1))
            z.append(((b if k == 0 else 0) + products - (c * z[k] >> BITS)) // (k + 1))
        y = []
        for series in (x, y_, z):
            value = 0
            for coefficient in reversed(series):
                value = (value * h >> BITS) + coefficient
            y.append(value)
    return y


def closed_orbit(y, z, period):
    """(y, z, T) of an orbit that starts at x = 0, as fractions of 30 digits; Newton's method, one slope."""
    unknowns = [int(Fraction(x) * (1 << BITS)) for x in (y, z, period)]

    def defect(unknowns):
        start = [0, *unknowns[:2]]
        return [b - a for a, b in zip(start, after(start, unknowns[2]))]

    step = 1 << (BITS - 30)
    F = defect(unknowns)
    columns = [defect([x + step * (j == k) for k, x in enumerate(unknowns)]) for j in range(3)]
    J = np.array([[(b - a) / step for a, b in zip(F, column)] for column in columns]).T
    for _ in range(4):  # each step has the eight or nine digits of the slope
        scale = max(map(abs, F)) or 1
        change = np.linalg.solve(J, [x / scale for x in F])
        unknowns = [x - int(Fraction(float(d)) * scale) for x, d in zip(unknowns, change)]
        F = defect(unknowns)
    assert max(map(abs, F)) < 1 << (BITS - 100)
    return [Fraction(x, 1 << BITS) for x in unknowns]


def exact_bounds(ball):
    """The bounds of a ball of Arb as fractions."""
    parts = [x.mid().man_exp() for x in (ball.lower(), ball.upper())]
    return [Fraction(int(m)) * Fraction(2) ** int(e) for m, e in parts]


# -- the ladder ---------------------------------------------------------------------------------------------


def test_roesslers_orbit_is_proved_around_its_value_in_thirty_digits():
    certificate = prove_field(roessler, [0, -8.38094, 0.02959], 5.8811, names="xyz", name="Roessler")
    proof = certificate.check()
    *state, period = closed_orbit(-8.380941742829880, 0.029590060630667, 5.881088455553877)
    for ball, exact in zip([*proof.nodes[0][1:], proof.period], [*state, period]):
        low, high = exact_bounds(ball)
        assert low < exact < high and high - low < Fraction(1, 10**12)
    assert certificate.period[0] < period < certificate.period[1]
    assert proof.stable is False and proof.least
    assert "One has a modulus above 1: the orbit is unstable." in proof.theorem


@pytest.mark.wide
@pytest.mark.parametrize(
    ("start", "period", "multiplier"),
    [([0, -5.42407, 0.0310812], 11.7586, -3.512), ([0, -6.2334, 0.03055], 17.5158, -2.3419)],
)
def test_roesslers_orbits_of_longer_periods_are_proved(start, period, multiplier):
    proof = prove_field(roessler, start, period).check()
    assert proof.least and float(proof.period.rad()) < 1e-12
    assert float(proof.multipliers[0].real) == pytest.approx(multiplier, abs=2e-3)


def test_van_der_pols_orbit_is_proved_and_checked(oscillator):
    certificate = prove(oscillator)
    proof = certificate.check()
    low, high = bounds_of(proof.period)
    assert 6.66328685932313 - 2e-13 < low < high < 6.66328685932313 + 2e-13  # the prototype's
    assert certificate.period[0] < high and low < certificate.period[1]
    # by Liouville the multiplier is exp(integral of the divergence 1 - q^2), here by Simpson's rule
    run = oscillator.simulate(1.0, dt=1e-3, t_eval=np.linspace(0, oscillator.period, 4001))
    f = 1 - run.q[:, 0] ** 2
    integral = oscillator.period / 12000 * (f[0] + 4 * f[1::2].sum() + 2 * f[2:-1:2].sum() + f[-1])
    (multiplier,) = proof.multipliers
    assert abs(float(multiplier.real) / np.exp(integral) - 1) < 1e-9 and float(multiplier.real.rad()) < 1e-10
    assert proof.stable and proof.least and certificate.stable
    assert certificate.radius > 3e-3
    assert "exponentially stable" in certificate.theorem()


@pytest.mark.many
@pytest.mark.parametrize("mu", [0.1, 3])
def test_van_der_pols_orbits_of_other_mu_have_the_known_periods(mu):
    """For mu = 0.1 by the series 2 pi (1 + mu^2 / 16 - 5 mu^4 / 3072), else from Andersen, Geer (1982)."""
    period = {0.1: 2 * np.pi * (1 + 0.01 / 16 - 5e-4 / 3072), 3: 8.85909550}[mu]
    orbit = periodic_orbit(
        van_der_pol(), [2.0], [0.0], period=period, parameters={"mu": float(mu)}, dt=5e-3, method="rkmk8"
    )
    certificate = prove(orbit)
    low, high = certificate.period
    assert abs(low - period) < 2e-8 and high - low < 1e-12 and certificate.stable
    liebody_check.check(certificate.data)


@pytest.mark.slow
def test_van_der_pols_relaxation_oscillation_is_proved():
    """mu = 10: 350 steps; the checker takes 20 s."""
    orbit = periodic_orbit(
        van_der_pol(), [2.0], [0.0], period=19.078, parameters={"mu": 10.0}, dt=1e-3, method="rkmk8"
    )
    proof = prove(orbit).check()
    assert float(proof.period.rad()) < 2e-12 and abs(float(proof.period.mid()) - 19.07836957) < 1e-8
    assert proof.stable


def test_multipliers_that_are_zero_have_no_modulus_below_zero():
    """Where the jump leads to one state from all others, the derivative of the return map is exactly zero."""
    resetting = lb.HybridSystem(
        lb.groups.R(1), lambda t, q, v, z, p: np.array([p.pull - q[0]]), parameters={"pull": 0.5},
        guards=lambda t, q, v, z, p: {"fire": q[0] - 1}, directions={"fire": 1}, name="resetting",
        update=lambda t, q, v, z, p, events: (
            np.array([where(events.fire > 0, 0.0, q[0])]), np.array([where(events.fire > 0, 1.0, v[0])]), z
        ),
    )  # fmt: skip
    orbit = periodic_orbit(resetting, [0.0], [1.0], period=1.0, section="fire", dt=0.01, method="rkmk8")
    for theorem in (prove(orbit).theorem(), prove(orbit, parameters={"pull": ("0.499", "0.501")}).theorem()):
        assert "a modulus of at most 0: " in theorem and "exponentially stable" in theorem


def test_the_simplest_walker_has_the_gait_that_is_published(walker):
    """The start of Garcia's long-period gait at 0.009, in 12 digits, as its followers print it."""
    proof = walker.check()
    expected = {0: 0.200310900544, 2: -0.199832473005}
    for k, value in expected.items():
        low, high = bounds_of(proof.nodes[0][k])
        assert high - low < 1e-14 and abs(low - value) < 6e-13
    # phi' = theta' - psi'
    swing = float(proof.nodes[0][2].mid()) - float(proof.nodes[0][3].mid())
    assert abs(swing + 0.015822999948) < 6e-13
    largest = float(abs(proof.multipliers[0]).mid())
    assert proof.stable and abs(largest - np.hypot(0.19009984, 0.55759878)) < 1e-7


def after_a_step(angle, rate, time, steps=24, order=28):
    """The simplest walker's next strike, by power series of many digits.

    angle, rate  of the stance leg after a strike: they determine the state of both legs
    time         about when the next strike is

    returns      angle and rate after it, and its time
    """
    slope = mpmath.mpf(0.009)

    def product(x, y, k):
        return mpmath.fdot(x[: k + 1], y[k::-1])

    def moved(q, v, h):
        (a, b), (va, vb) = ([[x] for x in pair] for pair in (q, v))
        angles = q[0] - slope, q[0] - q[1]
        (s, s2), (c, c2) = ([[f(x)] for x in angles] for f in (mpmath.sin, mpmath.cos))
        pull = []
        for k in range(order):
            apart = [x - y for x, y in zip(va, vb)]
            s_k, c_k = product(c, va, k), product(s, va, k)
            s2_k, c2_k = product(c2, apart, k), product(s2, apart, k)
            pull.append(c[k] - product(va, va, k))
            va.append(s[k] / (k + 1))
            vb.append(product(pull, s2, k) / (k + 1))
            for series, derivative in ((a, va[k]), (b, vb[k]), (s, s_k), (c, -c_k), (s2, s2_k), (c2, -c2_k)):
                series.append(derivative / (k + 1))
        a, b, va, vb = (mpmath.polyval(series[::-1], h) for series in (a, b, va, vb))
        return (a, b), (va, vb)

    q, v = (angle, -angle), (rate, mpmath.cos(2 * angle) * rate)
    for _ in range(steps):
        q, v = moved(q, v, time / steps)
    for _ in range(4):  # Newton's method for the guard q0 + q1
        h = -sum(q) / sum(v)
        q, v = moved(q, v, h)
        time += h
    return q[1], mpmath.cos(q[0] - q[1]) * v[0], time


def test_the_multipliers_of_the_simplest_walker_are_those_in_thirty_digits(walker):
    """Those of the map of two numbers, the rest are zero; Newton's method and central differences."""
    proof = walker.check()
    with mpmath.workdps(35):
        period, step = mpmath.mpf("3.88246375285"), mpmath.mpf(10) ** -11
        x = mpmath.matrix(["0.200310900544", "-0.199832473005"])

        def slope(x):
            J = mpmath.matrix(2, 2)
            for j in range(2):
                ends = []
                for sign in (1, -1):
                    moved = x.copy()
                    moved[j] += sign * step
                    ends.append(after_a_step(*moved, period))
                for i in range(2):
                    J[i, j] = (ends[0][i] - ends[1][i]) / (2 * step)
            return J

        J = slope(x)
        for _ in range(3):
            *end, time = after_a_step(*x, period)
            F = mpmath.matrix(end) - x
            x = x - mpmath.lu_solve(J - mpmath.eye(2), F)
        assert mpmath.norm(F) < mpmath.mpf(10) ** -18
        J = slope(x)
        trace, determinant = J[0, 0] + J[1, 1], mpmath.det(J)
        exact = mpmath.mpc(trace / 2, mpmath.sqrt(determinant - trace**2 / 4))
        assert abs(exact - mpmath.mpc("-0.19009984106588809", "0.55759877668206829")) < 1e-16
        for ball, number in ((proof.nodes[0][0], x[0]), (proof.nodes[0][2], x[1]), (proof.period, time)):
            low, high = exact_bounds(ball)
            assert low < Fraction(str(number)) < high and high - low < 1e-13
        for ball, number in zip((proof.multipliers[0], proof.multipliers[3]), (exact.conjugate(), exact)):
            for part, value in ((ball.real, number.real), (ball.imag, number.imag)):
                low, high = exact_bounds(part)
                assert low < Fraction(str(value)) < high and high - low < 1e-9
        assert all(ball.contains(0) for ball in proof.multipliers[1:3])


def test_the_compass_gait_is_proved_stable_and_checked(compass):
    certificate = prove(compass)
    proof = certificate.check()
    for low, high in (bounds_of(proof.period), certificate.period):
        assert 0.734346391158719 - 4e-14 < low < high < 0.734346391158719 + 4e-14
        assert high - low < 4e-14
    assert float(proof.largest.upper()) < 0.57996 and certificate.largest_multiplier < 0.57996
    assert certificate.radius > 3e-4 and proof.least
    # what the two programs enclose independently meets
    for ours, theirs in zip(certificate.nodes, proof.nodes):
        for (low, high), ball in zip(ours, theirs):
            assert low <= float(ball.upper()) and float(ball.lower()) <= high
    theorem = certificate.theorem()
    assert "one jump at strike in each period" in theorem
    assert "Between its jumps the guard strike has no event." in theorem
    assert "All have a modulus below 0.579953: the orbit is exponentially stable." in theorem


def test_a_theorem_holds_for_an_interval_of_a_parameter_and_for_constants_that_were_rounded(compass):
    slope = Fraction(float(compass.system.parameters.defaults["slope"]))
    bounds = slope - Fraction(1, 10**7), slope + Fraction(1, 10**7)
    family = prove(compass, parameters={"slope": bounds}, rounding=2**-50)
    # orbits at both ends lie within
    for end in bounds:
        other = compass.with_parameters(slope=float(end))
        (low, high), state = family.at(end)
        assert low < other.period < high
        assert (state[:2, 0] <= other.q).all() and (other.q <= state[:2, 1]).all()
    assert family.stable
    constants = family.data["constants"]
    assert any(isinstance(x, list) for x in constants)


def test_a_parameter_is_a_fraction(oscillator):
    third = oscillator.with_parameters(mu=1 / 3)
    certificate = prove(third, parameters={"mu": Fraction(1, 3)})
    assert ["mu", "1/3"] in certificate.data["parameters"]
    proof = liebody_check.check(json.loads(json.dumps(dict(certificate.data))))
    assert "mu = 1/3" in proof.theorem and proof.stable


# -- what is refused ----------------------------------------------------------------------------------------


def test_kinds_of_orbits_that_are_not_covered_are_named(oscillator):
    R = lb.groups.R
    circles = lb.HybridSystem(R(1), lambda t, q, v, z, p: np.array([-q[0]]), name="circles")
    with pytest.raises(ProofError, match=r"singular|converge|no box"):
        prove(periodic_orbit(circles, [1.0], [0.0], period=6.28, dt=0.01))
    kinked = lb.HybridSystem(
        R(1), lambda t, q, v, z, p: np.array([(1 - abs(q[0])) * v[0] - q[0]]), name="kinked"
    )
    with pytest.raises(ProofError, match="make its change an event, by a guard"):
        prove(periodic_orbit(kinked, [2.0], [0.0], period=6.5, dt=0.01))
    with pytest.raises(ProofError, match="no parameter 'nu'"):
        prove(oscillator, parameters={"nu": 1})
    with pytest.raises(ProofError, match="expected a number, a fraction"):
        prove(oscillator, parameters={"mu": "one"})
    with pytest.raises(ProofError, match="lower bound first"):
        prove(oscillator, parameters={"mu": (2, 1)})
    with pytest.raises(ProofError, match="find the orbit there"):
        prove(oscillator, parameters={"mu": Fraction(3, 2)})
    with pytest.raises(ProofError, match="expected 4 to 30"):
        prove(oscillator, order=40)
    with pytest.raises(ProofError, match="Smaller intervals of parameters"):
        prove(oscillator, radius=0.4)
    assert issubclass(ProofError, GaitError)


def test_an_event_on_the_way_or_a_graze_is_not_overlooked():
    """Further guards: one has no event, one has two, one comes near zero."""
    quiet = prove(periodic_orbit(simplest_walker(lambda q, v: {"fallen": q[0] ** 2 - 1}), **WALKING))
    assert "no other event of: strike, fallen" in quiet.theorem()
    orbit = periodic_orbit(simplest_walker(lambda q, v: {"upright": q[0]}), **WALKING)
    assert orbit.events == (("upright", -1),)
    assert "until the guard upright changes from positive to negative" in prove(orbit).theorem()
    lowest = orbit.simulate(1.0, t_eval=np.linspace(0, orbit.period, 2000)).v[:-1, 0].max()
    grazing = simplest_walker(lambda q, v: {"graze": v[0] - float(lowest)})
    near = periodic_orbit(simplest_walker(), **WALKING)
    data = copy.deepcopy(dict(prove(near).data))
    with pytest.raises(ProofError, match=r"graze|other events"):
        prove(periodic_orbit(grazing, **WALKING))
    # a certificate in which an event is claimed away
    data["guards"].append(
        {"name": "upright", "direction": 0, "function": {"nodes": data["field"]["nodes"][:4], "outputs": [0]}}
    )
    with pytest.raises(liebody_check.Refused, match="another event of the guard upright"):
        liebody_check.check(data)


def changed(data, path, value):
    """A copy of a certificate with one entry changed."""
    data = copy.deepcopy(data)
    *where_to, last = path
    place = data
    for key in where_to:
        place = place[key]
    place[last] = value
    return data


def mutants(data):
    """(what, certificate) for each constant, sign, operation, index and node, changed once."""

    def larger(x):
        value = float.fromhex(x)
        return (value * 1.1 if value else 0.1).hex()

    for k, x in enumerate(data["constants"]):
        yield f"constant {k}", changed(data, ["constants", k], larger(x))
        if float.fromhex(x):
            yield f"sign of constant {k}", changed(data, ["constants", k], (-float.fromhex(x)).hex())
    for k, (name, x) in enumerate(data["parameters"]):
        yield f"parameter {name}", changed(data, ["parameters", k, 1], larger(x))
    functions = {"field": ["field"], "section": ["section", "function"]}
    if "jump" in data["section"]:
        functions["jump"] = ["section", "jump"]
    others = {"add": "sub", "sub": "add", "mul": "div", "div": "mul", "sin": "cos", "cos": "sin"}
    for name, path in functions.items():
        function = data
        for key in path:
            function = function[key]
        for k, (op, *operands) in enumerate(function["nodes"]):
            if op == "input":
                continue
            if op in others:
                yield f"{name} {k}: {op}", changed(data, [*path, "nodes", k, 0], others[op])
            if op == "neg":
                yield f"{name} {k}: {op}", changed(data, [*path, "nodes", k], ["add", *operands, *operands])
            for j, x in enumerate(operands):
                for other in {x - 1, x + 1} & set(range(k if op in others or op == "neg" else 99)):
                    at = [*path, "nodes", k, 1 + j]
                    yield f"{name} {k}: operand {j} {x} -> {other}", changed(data, at, other)
        for k, x in enumerate(function["outputs"]):
            yield f"{name}: output {k}", changed(data, [*path, "outputs", k], x - 1)
    radius = float.fromhex(data["radius"])
    for i in range(len(data["nodes"])):
        for k in range(len(data["states"])):
            moved = float.fromhex(data["nodes"][i][k]) + 2 * radius
            yield f"node {i}, {k}", changed(data, ["nodes", i, k], moved.hex())
    for i, w in enumerate(data["durations"]):
        yield f"duration {i}", changed(data, ["durations", i], (float.fromhex(w) * 1.5).hex())
    yield "radius", changed(data, ["radius"], (0.3).hex())
    yield "factor", changed(data, ["factor"], (float.fromhex(data["factor"]) + 2 * radius).hex())
    if "event" not in data["section"]:
        return
    yield "direction", changed(data, ["section", "direction"], 1)
    yield "event", changed(data, ["section", "event"], "strikes")
    yield "direction of the guard", changed(data, ["guards", 0, "direction"], 1)
    yield "states", changed(data, ["states"], data["states"][:-1])


def refused(data):
    try:
        liebody_check.check(data)
    except liebody_check.Refused:
        return True
    return False


@pytest.fixture(scope="module")
def narrow():
    """A certificate of a small box, in which orbits of slightly changed equations do not lie by chance."""
    return dict(prove(periodic_orbit(simplest_walker(), **WALKING), radius=1e-7).data)


def test_a_certificate_that_was_changed_once_is_refused(narrow):
    assert not refused(narrow)
    every = list(mutants(narrow))
    assert len(every) > 100
    chosen = every[:: len(every) // 20]
    assert [what for what, data in chosen if not refused(data)] == []


def test_changed_constants_are_refused(oscillator):
    data = dict(prove(oscillator).data)
    chosen = [(what, x) for what, x in mutants(data) if "constant" in what]
    assert len(chosen) >= 2
    assert [what for what, x in chosen if not refused(x)] == []


@pytest.mark.slow
def test_all_changes_of_a_certificate_are_refused(narrow):
    assert [what for what, data in mutants(narrow) if not refused(data)] == []


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        (["format"], "certificate", "format"),
        (["field", "nodes", 5, 1], -1, "index -1"),
        (["field", "nodes", 5, 1], 99, "index 99"),
        (["field", "nodes", 5, 1], True, "index True"),
        (["field", "nodes", 6], ["system", "rm"], "no operation"),
        (["field", "outputs"], [2, 3, 4], "3 results, expected 4"),
        (["durations", 0], "-0x1p-3", "no duration"),
        (["durations", 0], "1/3", "no double"),
        (["nodes", 0], ["0x0p+0"], "not as many states"),
        (["radius"], "0x0p+0", "radius"),
        (["parameters", 0, 1], 1.5, "no certificate"),
        (["parameters", 0, 1], ["0x1p+0", "0x0p+0"], "wrong order"),
        (["guards"], [], "not the guard 'strike'"),
        (["section"], {}, "KeyError"),
        (["order"], 1000, "order"),
        (["name"], "walker). There is a stable orbit.\n(", "no name"),
    ],
)
def test_files_that_are_no_certificates_are_refused(walker, path, value, words):
    with pytest.raises(liebody_check.Refused, match=words):
        liebody_check.check(changed(dict(walker.data), path, value))


def test_the_command_prints_the_theorem_or_refuses(walker, tmp_path):
    good, bad = tmp_path / "good.json", tmp_path / "bad.json"
    walker.save(good)
    bad.write_text(json.dumps(changed(dict(walker.data), ["parameters", 0, 1], "1/100")))
    command = [sys.executable, "-m", "liebody_check"]
    environment = {"PYTHONPATH": ":".join(sys.path), "PATH": ""}
    said = subprocess.run([*command, good], capture_output=True, text=True, env=environment)
    assert said.returncode == 0 and said.stdout.startswith("Theorem (simplest walker).")
    said = subprocess.run([*command, bad], capture_output=True, text=True, env=environment)
    assert said.returncode == 1 and "refused" in said.stderr and not said.stdout


def test_the_prover_withholds_a_theorem_that_the_checker_refuses(walker):
    from dataclasses import replace

    false = replace(walker, data=changed(dict(walker.data), ["parameters", 0, 1], "1/100"), _checked=[])
    assert "not checked yet" in repr(false)
    with pytest.raises(ProofError, match="the checker refuses the certificate"):
        false.theorem()


@pytest.mark.parametrize("sign", [1, -1])
def test_the_checker_refuses_steps_that_leave_every_box(sign):
    """y' = +-y^2 beyond its pole, and contains the motion before it."""
    from flint import arb

    from liebody_check.claims import Function
    from liebody_check.motions import step
    from liebody_check.numbers import Known
    from liebody_check.proof import with_unit

    square = Function(1, (("input", 0), ("mul", 0, 0), ("neg", 1)), (1 if sign > 0 else 2,))
    for part in (1.0, 1.2, 2.0):
        for start in ([[arb(sign)]], with_unit([arb(sign)])):
            with pytest.raises(liebody_check.Refused):
                step(square, Known([], []), start, arb(part), 4)
    for part in (Fraction(1, 16), Fraction(1, 8), Fraction(1, 4)):
        ((value, slope),) = step(square, Known([], []), with_unit([arb(sign)]), arb(float(part)), 4).at(
            arb(float(part))
        )
        low, high = exact_bounds(value)
        assert low <= sign / (1 - part) <= high
        low, high = exact_bounds(slope)
        assert low <= 1 / (1 - part) ** 2 <= high


@pytest.mark.wide
def test_a_period_is_called_the_least_one_only_where_it_is():
    """Twice around is a periodic orbit, too, with the square of the multiplier."""

    def field(y):
        return [y[1], 0.5 * (1 - y[0] ** 2) * y[1] - y[0]]

    once = prove_field(field, [2.0, 0.0], 6.38).check()
    twice = prove_field(field, [2.0, 0.0], 12.77).check()
    assert once.least and not twice.least
    assert "perhaps not the least one" in twice.theorem
    assert abs(float(twice.period.mid()) - 2 * float(once.period.mid())) < 1e-11
    first, second = (float(x.multipliers[0].real) for x in (once, twice))
    assert abs(first**2 - second) < 1e-9


def test_the_checker_imports_nothing_of_the_library():
    for path in (ROOT / "src" / "liebody_check").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) and not node.level else []
            names += [x.name for x in node.names] if isinstance(node, ast.Import) else []
            allowed = {"flint", "liebody_check", *sys.stdlib_module_names}
            assert {name.split(".")[0] for name in names} <= allowed, path.name


@pytest.mark.parametrize(
    ("low", "high"), [("0.1", "0.1000001"), ("-3.00000001", "-3"), ("-1e-9", "1e-9"), ("123456", "123457")]
)
def test_decimal_bounds_contain_what_they_print(low, high):
    from liebody_check.words import between

    text = between(Fraction(low), Fraction(high))
    number, distance = map(Fraction, re.fullmatch(r"(-?[\d.]+) \+- ([\d.e+-]+)", text).groups())
    assert number - distance <= Fraction(low) and Fraction(high) <= number + distance
    assert distance < (Fraction(high) - Fraction(low)) * Fraction(3, 4)


def test_a_box_may_have_a_radius_for_each_unknown(oscillator, monkeypatch):
    """Where no box of one radius is proved; the theorem states the smallest radii, rounded downwards."""
    common = prove(oscillator)
    monkeypatch.setattr(sys.modules[prove.__module__], "RADII", np.array([0.4, 0.2]))
    certificate = prove(oscillator)
    assert "radius" not in certificate.data
    radii = [float.fromhex(x) for x in certificate.data["radii"]]
    assert len(radii) == 2 * len(certificate.nodes) + 1 and len(set(radii)) > 100
    assert certificate.radius == min(radii) < common.radius
    proof = certificate.check()
    assert proof.stable and abs(float(proof.period.mid()) - common.period[0]) < 1e-12
    (line,) = [x for x in proof.theorem.splitlines() if x.startswith("No other orbit")]
    printed = dict(re.findall(r"([\d.e-]+) of (q\[0\]|v\[0\]|the factors)", line)[k][::-1] for k in range(3))
    exact = {"q[0]": min(radii[:-1:2]), "v[0]": min(radii[1:-1:2]), "the factors": radii[-1]}
    for name, radius in exact.items():
        assert 0.89 * Fraction(radius) < Fraction(printed[name]) <= Fraction(radius)


def test_radii_that_are_no_box_of_the_orbit_are_refused(oscillator, monkeypatch):
    monkeypatch.setattr(sys.modules[prove.__module__], "RADII", np.array([0.4, 0.2]))
    data = dict(prove(oscillator).data)
    radii = data["radii"]
    small = ["0x1p-70", *radii[1:]]
    large = [*radii[:40], "0x1p-2", *radii[41:]]
    changes = [
        ({"radii": small}, "inequality"),
        ({"radii": large}, "inequality|no box"),
        ({"radii": radii[:-1]}, "one for each unknown"),
        ({"radii": [*radii, radii[-1]]}, "one for each unknown"),
        ({"radii": ["0x0p+0", *radii[1:]]}, "not positive"),
        ({"radii": [*radii[:-1], "0x1p+1"]}, "below the factor"),
        ({"radius": radii[0]}, "not one of"),
    ]
    for change, words in changes:
        with pytest.raises(liebody_check.Refused, match=words):
            liebody_check.check(data | change)


def test_a_stiff_orbit_is_proved_by_points_in_extended_precision(oscillator, monkeypatch):
    """Van der Pol's is none; it is taken for one here, with steps whose ends are thin."""
    common = prove(oscillator)
    monkeypatch.setattr(sys.modules[StepEquations.__module__], "STIFF", 0.1)
    certificate = prove(oscillator)
    assert len(certificate.nodes) > len(common.nodes)
    radii = [float.fromhex(x) for x in certificate.data["radii"]]
    assert max(radii) < 1e-12
    # both periods contain the exact one, and this one is known better
    (low, high), (least, most) = certificate.period, common.period
    assert least < high and low < most and high - low < (most - least) / 3
    assert certificate.stable and certificate.check().stable


def test_newtons_method_of_a_stiff_orbit_says_where_it_does_not_converge(oscillator, monkeypatch):
    monkeypatch.setattr(sys.modules[StepEquations.__module__], "STIFF", 0.1)
    residual = StepEquations.residual
    signs = itertools.cycle([1e-3, -1e-3])

    def disturbed(self, at, events_only=False):
        return residual(self, at, events_only) + next(signs) * np.array([-1.0, 1.0])

    monkeypatch.setattr(StepEquations, "residual", disturbed)
    with pytest.raises(ProofError, match="does not converge"):
        prove(oscillator)
