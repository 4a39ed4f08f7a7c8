"""Integrators on Lie groups: their order, their dense output and events, and what they refuse."""

from __future__ import annotations

import re
import runpy
import textwrap
from fractions import Fraction
from functools import cache
from itertools import pairwise
from math import factorial
from pathlib import Path

import mpmath
import numpy as np
import pytest
import scipy.integrate
import scipy.special
from hypothesis import given
from hypothesis import strategies as st

from liebody.base.errors import ArgumentError, ConfigurationError, IntegrationError, ShapeError
from liebody.compiler import trace
from liebody.groups import SE2, SE3, SO2, SO3, Product, R, SO3xR3
from liebody.integrators import (
    CommutatorFree,
    Tableau,
    commutator_free,
    method_named,
    rkmk_step,
    solve_ivp,
    tableau,
)
from liebody.integrators.tableaux import DATA, density, rooted_trees, stage_weights
from liebody.stepping.march import locate

METHODS = list(DATA)
EMBEDDED = [name for name in METHODS if tableau(name).embedded_order is not None]


# Vector fields, each twice: as F(t, q), and as dx/dt = f(t, x) of matrix entries for the reference


def hat(w):
    return np.array([[0, -w[2], w[1]], [w[2], 0, -w[0]], [-w[1], w[0], 0]])


def rotation(q):
    w, x, y, z = q
    return np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
            [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
            [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
        ]
    )


def matrices(q):
    """(w, x, y, z, ...) to (nine entries of the rotation matrix, ...)."""
    return np.concatenate([rotation(q[:4]).ravel(), q[4:]])


def split(x):
    return x[:9].reshape(3, 3), x[9:]


def spin(t, R, p):
    return p + np.array([np.sin(2 * t) + R[0, 1], 1.5 + R[1, 2] * np.cos(t), R[2, 0] - 2 * R[2, 2]])


def drive(t, R, p):
    return np.array([np.cos(t) + p[1], R[0, 2] - 0.5 * p[0], 1 + np.sin(3 * t) * p[2]])


def steer(t, angle, p):
    return np.array([1 + np.sin(2 * t) + p[0] * p[1], 2 + np.cos(angle), np.sin(t) - p[0]])


INERTIA = np.array([1.0, 2.0, 2.5])
KINETIC = Product(SO3, R(3))  # attitude and angular velocity


def top(R, w):
    """Angular acceleration of a heavy top."""
    return (np.cross(INERTIA * w, w) + np.cross([0.3, 0.1, 1.0], R.T @ [0, 0, -5])) / INERTIA


def on_so3(t, x):
    R, _ = split(x)
    return (R @ hat(spin(t, R, 0))).ravel()


def on_se3(t, x):
    R, p = split(x)
    return np.concatenate([(R @ hat(spin(t, R, p))).ravel(), R @ drive(t, R, p)])


def on_se2(t, x):
    w, vx, vy = steer(t, x[0], x[1:])
    c, s = np.cos(x[0]), np.sin(x[0])
    return np.array([w, c * vx - s * vy, s * vx + c * vy])


def on_so3xr3(t, x):
    R, p = split(x)
    return np.concatenate([(R @ hat(spin(t, R, p))).ravel(), drive(t, R, p)])


def on_product(t, x):
    R, w = split(x)
    return np.concatenate([(R @ hat(w)).ravel(), top(R, w)])


def rigid(t, q):
    return np.concatenate([spin(t, rotation(q[:4]), q[4:]), drive(t, rotation(q[:4]), q[4:])])


POSE = np.array([1, 0, 0, 0, 0.3, -0.2, 0.5])
PROBLEMS = {  # group, F, start, the same as f, coordinates to what f integrates
    "SO3": (SO3, lambda t, q: spin(t, rotation(q), 0), np.array([1.0, 0, 0, 0]), on_so3, matrices),
    "SE3": (SE3, rigid, POSE, on_se3, matrices),
    "SE2": (SE2, lambda t, q: steer(t, q[0], q[1:]), np.array([0.3, -0.2, 0.5]), on_se2, np.asarray),
    "SO3xR3": (SO3xR3, rigid, POSE, on_so3xr3, matrices),
    "SO3 x velocity": (
        KINETIC,
        lambda t, q: np.concatenate([q[4:], top(rotation(q[:4]), q[4:])]),
        np.array([1.0, 0, 0, 0, 1, 2, 3]),
        on_product,
        matrices,
    ),
}
END = 2.5


def extrapolate(f, x, end, steps, columns=9):
    """dx/dt = f(t, x) by Gragg's extrapolated midpoint rule, in long doubles: nothing of Runge and Kutta."""
    x, H = np.asarray(x, np.longdouble), np.longdouble(end) / steps
    for i in range(steps):
        t, row = i * H, []
        for k in range(1, columns + 1):
            h = H / (2 * k)
            before, now = x, x + h * f(t, x)
            for j in range(1, 2 * k):
                before, now = now, before + 2 * h * f(t + j * h, now)
            refined = [(before + now + h * f(t + H, now)) / 2]
            for m, coarse in enumerate(row, start=1):
                ratio = (np.longdouble(k) / (k - m)) ** 2
                refined.append(refined[-1] + (refined[-1] - coarse) / (ratio - 1))
            row = refined
        x = row[-1]
    return x


@cache
def reference(problem):
    _, _, q0, f, flat = PROBLEMS[problem]
    return extrapolate(f, flat(q0), END, 50)


def test_problem_references_agree_with_dop853():
    for problem, (_, _, q0, f, flat) in PROBLEMS.items():
        x = scipy.integrate.solve_ivp(f, (0, END), flat(q0), method="DOP853", rtol=3e-14, atol=1e-15).y[:, -1]
        np.testing.assert_allclose(reference(problem).astype(float), x, atol=3e-13)


# Tableaux


def test_rooted_trees_are_those_of_the_literature():
    assert [len(rooted_trees(p)) for p in range(1, 9)] == [1, 1, 2, 4, 9, 20, 48, 115]
    # Hairer, Norsett, Wanner, table II.2.1
    assert sorted(map(density, rooted_trees(4))) == [4, 8, 12, 24]
    assert sorted(map(density, rooted_trees(5))) == [5, 10, 15, 20, 20, 30, 40, 60, 120]
    assert all(density(rooted_trees(p)[0]) <= factorial(p) for p in range(1, 8))


@pytest.mark.parametrize("name", METHODS)
def test_a_tableau_has_the_order_it_states_and_no_more(name):
    method = tableau(name)
    weights = stage_weights(method.A.tolist(), method.order + 1)

    def defect(b, order):
        return max(abs(b @ np.array(weights[t], float) - 1 / density(t)) for t in rooted_trees(order))

    assert all(defect(method.b, p) < 1e-12 for p in range(1, method.order + 1))
    assert defect(method.b, method.order + 1) > 1e-5
    if method.embedded_order is not None:
        assert defect(method.embedded, method.embedded_order + 1) > 1e-5
    np.testing.assert_allclose(method.A.sum(1), method.c, atol=1e-15)


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.many
def test_a_mistyped_entry_of_a_tableau_is_refused(name):
    data = DATA[name]
    rows = {"b": [data["b"]], "c": [data["c"]], "A": data["A"], "embedded": [data.get("embedded", [])]}
    rows["interpolant"] = data.get("interpolant") or []
    for field, table in rows.items():
        for i, row in enumerate(table):
            for j, entry in enumerate(row):
                wrong = [[*r] for r in table]
                wrong[i][j] = float(Fraction(entry)) + 1e-6
                changed = wrong if field in ("A", "interpolant") else wrong[0]
                with pytest.raises(
                    IntegrationError, match=r"sums to|order condition|interpolant|below the diagonal"
                ):
                    Tableau(name=name, **{**data, field: changed})


def test_a_tableau_of_ones_own_and_its_mistakes():
    own = Tableau("own", A=[[], ["2/3"]], b=["1/4", "3/4"], c=[0, "2/3"], order=2)
    np.testing.assert_array_equal(own.A, tableau("ralston").A)
    assert tableau(own) is own and not own.fsal and tableau("rkmk45").fsal
    assert tableau("rkmk45") is tableau("dormand-prince") is tableau("rkmk-dormand-prince")
    with pytest.raises(IntegrationError, match=r"order 3, but miss the order condition"):
        Tableau("own", A=[[], ["2/3"]], b=["1/4", "3/4"], c=[0, "2/3"], order=3)
    with pytest.raises(IntegrationError, match="2 nodes go with 2 rows"):
        Tableau("own", A=[[]], b=[1], c=[0, 1], order=1)
    with pytest.raises(IntegrationError, match="below the diagonal"):
        Tableau("implicit", A=[["1/2"]], b=[1], c=["1/2"], order=2)
    with pytest.raises(IntegrationError, match="embedded_order must differ"):
        Tableau("own", A=[[], [1]], b=["1/2", "1/2"], c=[0, 1], order=2, embedded=[1])
    with pytest.raises(ValueError, match="read-only"):
        own.A[0, 0] = 1


# Order


def error(problem, method, steps):
    group, F, q0, _, flat = PROBLEMS[problem]
    q = solve_ivp(F, (0, END), q0, group, method, dt=END / steps).q[-1]
    return (flat(q) - reference(problem)).astype(float)


STEPS = {1: 64, 2: 48, 3: 40, 4: 40, 5: 80, 6: 40}


@pytest.mark.parametrize("problem", PROBLEMS)
@pytest.mark.parametrize("method", [name for name in METHODS if tableau(name).order in STEPS])
@pytest.mark.many
def test_order_of_the_state_by_slope(method, problem):
    """E(h) = C h^p + D h^(p+1) + ..., whose second term the combination E(h) - 2^(p+1) E(h/2) removes.

    Without that, the methods of Dormand, Prince and Tsitouras, who made C tiny, show p only near round-off.
    A method of a lower order q still shows q here.
    """
    p = tableau(method).order
    n = STEPS[p]
    E = [error(problem, method, n * 2**k) for k in range(3)]
    D = [np.linalg.norm(a - 2 ** (p + 1) * b) for a, b in pairwise(E)]
    assert abs(np.log2(D[0] / D[1]) - p) < 0.1
    assert np.linalg.norm(E[2]) < 2 * np.linalg.norm(E[1]) / 2**p


def quaternion_product(p, q):
    a, u, b, w = p[0], p[1:], q[0], q[1:]
    return np.concatenate([[a * b - u @ w], a * w + b * u + np.cross(u, w)])


def precise_step(A, b, q, w, h):
    """A Runge-Kutta-Munthe-Kaas step of the heavy top, from its definition, in the numbers of mpmath."""

    def move(psi):
        angle = mpmath.sqrt(psi[:3] @ psi[:3])
        half = [mpmath.cos(angle / 2), *(mpmath.sin(angle / 2) / angle * psi[:3])] if angle else [1, 0, 0, 0]
        return quaternion_product(q, np.array(half)), w + psi[3:]

    def pull(psi, f):  # dexp^-1_{-psi}
        u, x = psi[:3], psi[:3] @ psi[:3]
        g = (1 - mpmath.sqrt(x) / 2 * mpmath.cot(mpmath.sqrt(x) / 2)) / x if x else 0
        turn = f[:3] + np.cross(u, f[:3]) / 2 + g * np.cross(u, np.cross(u, f[:3]))
        return np.concatenate([turn, f[3:]])

    k = []
    for row in A:
        psi = h * sum((a * s for a, s in zip(row, k)), np.array([mpmath.mpf(0)] * 6))
        attitude, velocity = move(psi)
        k.append(pull(psi, np.concatenate([velocity, top(rotation(attitude), velocity)])))
    return move(h * sum(x * s for x, s in zip(b, k)))


@pytest.mark.parametrize("method", ["rk4", "fehlberg7", "dop853"])
@pytest.mark.many
def test_high_orders_by_slope_in_40_digits(method):
    """Orders 7 and 8, by their slope in 40 digits.

    They reach the round-off of doubles before their slope is settled. The steps in 40 digits agree with those
    of the library to the round-off of doubles.
    """
    data, ends = DATA[method], []
    with mpmath.workdps(40):
        A = [[mpmath.mpf(x.numerator) / x.denominator for x in map(Fraction, row)] for row in data["A"]]
        b = [mpmath.mpf(x.numerator) / x.denominator for x in map(Fraction, data["b"])]
        start = [np.array([mpmath.mpf(x) for x in part]) for part in ([1, 0, 0, 0], [1, 2, 3])]
        for steps in (16, 32, 64, 128):
            q, w = start
            for _ in range(steps):
                q, w = precise_step(A, b, q, w, mpmath.mpf(1) / (2 * steps))
            ends.append(np.concatenate([q, w]))
        D = [np.array(a - 2 ** (data["order"] + 1) * b, float) for a, b in pairwise(_differences(ends))]
    assert abs(np.log2(np.linalg.norm(D[0]) / np.linalg.norm(D[1])) - data["order"]) < 0.1
    F, q0 = PROBLEMS["SO3 x velocity"][1:3]
    run = solve_ivp(F, (0, 0.5), q0, KINETIC, f"rkmk-{method}", dt=1 / 256)
    np.testing.assert_allclose(run.q[-1], np.array(ends[-1], float), atol=1e-14)


def _differences(values):
    return [a - b for a, b in pairwise(values)]


COMMUTATOR_FREE = list(commutator_free.DATA)


@pytest.mark.parametrize("problem", PROBLEMS)
@pytest.mark.parametrize("method", COMMUTATOR_FREE)
@pytest.mark.many
def test_order_of_commutator_free_methods_by_slope(method, problem):
    p = method_named(method).order
    E = [error(problem, method, STEPS[p] * 2**k) for k in range(3)]
    D = [np.linalg.norm(a - 2 ** (p + 1) * b) for a, b in pairwise(E)]
    assert abs(np.log2(D[0] / D[1]) - p) < 0.1
    assert np.linalg.norm(E[2]) < 2 * np.linalg.norm(E[1]) / 2**p


def test_words_of_ordered_trees_are_counted_by_catalan():
    assert [len(set(commutator_free.words(n))) for n in range(7)] == [1, 1, 2, 5, 14, 42, 132]
    # d/ds of a word: the flow of F from 0 to 1 passes the trees in their order, so both orders of two nodes
    assert commutator_free.exact(((), ())) == Fraction(1, 2) == commutator_free.exact((((),),))
    assert commutator_free.exact(((), ((),))) == Fraction(1, 3)
    assert commutator_free.exact((((),), ())) == Fraction(1, 6)


@pytest.mark.parametrize("name", COMMUTATOR_FREE)
def test_a_mistyped_entry_of_a_commutator_free_method_is_refused(name):
    data = commutator_free.DATA[name]
    for i, stage in enumerate([*data["stages"], data["weights"]]):
        for m, row in enumerate(stage):
            for j, entry in enumerate(row):
                wrong = [[[*r] for r in rows] for rows in [*data["stages"], data["weights"]]]
                wrong[i][m][j] = float(Fraction(entry)) + 1e-6
                changed = {**data, "stages": wrong[:-1], "weights": wrong[-1]}
                with pytest.raises(IntegrationError, match="misses the condition of the ordered trees"):
                    CommutatorFree(name=name, **changed)


def test_order_conditions_of_ordered_trees_are_more_than_those_of_runge_and_kutta():
    """Kutta's weights in one exponential are of order 4 on vectors; without dexp^-1 a group knows only 2."""
    rk4 = {
        "stages": [[], [["1/2"]], [[0, "1/2"]], [[0, 0, 1]]],
        "weights": [["1/6", "1/3", "1/3", "1/6"]],
    }
    naive = CommutatorFree("naive", **rk4, order=2)
    E = [np.linalg.norm(error("SO3", naive, n)) for n in (64, 128)]
    assert np.log2(E[0] / E[1]) == pytest.approx(2, abs=0.1)
    with pytest.raises(IntegrationError, match=r"said to be of order 3, but misses .* with 3 nodes"):
        CommutatorFree("naive", **rk4, order=3)
    with pytest.raises(IntegrationError, match="stage 1 combines the velocities of the 1 stages before it"):
        CommutatorFree("ahead", stages=[[], [[0, 1]]], weights=[[1]], order=1)


def test_stages_begin_where_an_earlier_one_ended():
    starts = {name: [start for start, _ in method_named(name).paths] for name in ("cf3", "cf4")}
    assert starts == {"cf3": [0, 0, 0, 1], "cf4": [0, 0, 0, 1, 0]}


def test_names_of_methods():
    assert method_named("rkmk8") is tableau("dop853") and method_named("cf4").order == 4
    own = method_named("cf4")
    assert method_named(own) is own
    with pytest.raises(IntegrationError, match=r"no method 'cf5' .* did you mean 'cf4'"):
        method_named("cf5")
    with pytest.raises(IntegrationError, match="has no error estimate; give a fixed step dt"):
        solve_ivp(PROBLEMS["SO3"][1], (0, 1), PROBLEMS["SO3"][2], SO3, "cf4")
    with pytest.raises(IntegrationError, match=r"no method \['rkmk4'\]"):
        method_named(["rkmk4"])


def test_methods_named_where_an_error_estimate_is_wanted_have_one():
    with pytest.raises(IntegrationError) as refused:
        solve_ivp(PROBLEMS["SO3"][1], (0, 1), PROBLEMS["SO3"][2], SO3, "rkmk4")
    named = re.findall(r"'rkmk-([a-z0-9-]+)'", str(refused.value))
    assert set(named) == {name for name in METHODS if tableau(name).embedded is not None}


class Truncated(type(SE3)):
    """SE(3) with I, or with dexp^-1_{+Psi}, in place of dexp^-1_{-Psi}."""

    def __init__(self, sign):
        self.sign = sign

    def dexp_inverse_times(self, u, w):
        return super().dexp_inverse_times(self.sign * u, w)


MASS, THETA, ARM = 21.6, np.diag([0.36, 0.306, 0.09]), np.array([0.5, 0, 0])
PIVOT = np.hstack([hat(ARM), np.eye(3)])  # v + arm x omega = 0: the body turns about -arm
KKT = np.linalg.inv(
    np.block(
        [
            [np.block([[THETA, np.zeros((3, 3))], [np.zeros((3, 3)), MASS * np.eye(3)]]), PIVOT.T],
            [PIVOT, np.zeros((3, 3))],
        ]
    )
)


def free_top(t, q):
    """Mueller and Terze, 5.1: a body on a spherical joint, index-1 equations on SE(3) x R^6, no gravity."""
    w, v = q[7:10], q[10:]
    forces = np.concatenate([np.cross(THETA @ w, w), -MASS * np.cross(w, v), np.zeros(3)])
    return np.concatenate([w, v, (KKT @ forces)[:6]])


def run_top(se3, dt, t_end):
    w = np.array([0, 20 * np.pi, 10 * np.pi])
    q0 = np.concatenate([[1, 0, 0, 0], ARM, w, np.cross(w, ARM)])
    run = solve_ivp(free_top, (0, t_end), q0, Product(se3, R(6)), "rkmk4", dt=dt)
    Rs = np.array([rotation(q) for q in run.q[:, :4]])
    pivot = run.q[:, 4:7] - Rs @ ARM
    energy = 0.5 * np.einsum("ti,ij,tj->t", run.q[:, 7:10], THETA, run.q[:, 7:10])
    energy = energy + 0.5 * MASS * (run.q[:, 10:] ** 2).sum(1)
    drift = np.abs(energy / energy[0] - 1).max()
    return Rs[-1], np.linalg.norm(pivot - pivot[0], axis=1).max(), drift, energy[0]


def test_energy_and_joints_are_blind_to_a_missing_dexp_and_the_attitude_is_not():
    theta = THETA - MASS * hat(ARM) @ hat(ARM)  # about the pivot: Euler's equations, an independent reference

    def euler(t, x):
        R, w = split(x)
        return np.concatenate([(R @ hat(w)).ravel(), np.cross(theta @ w, w) / np.diag(theta)])

    t_end = 0.1
    exact = extrapolate(euler, [*np.eye(3).ravel(), 0, 20 * np.pi, 10 * np.pi], t_end, 60)[:9].reshape(3, 3)
    found = {}
    for name, se3 in {"dexp": SE3, "none": Truncated(0), "wrong sign": Truncated(-1)}.items():
        runs = [run_top(se3, dt, t_end) for dt in (1e-3, 5e-4)]
        errors = [np.linalg.norm((run[0] - exact).astype(float)) for run in runs]
        found[name] = np.log2(errors[0] / errors[1])
        assert runs[0][1] < 1e-13  # the joint holds
        assert abs(runs[0][2] / run_top(SE3, 1e-3, t_end)[2] - 1) < 1e-3  # the energy is the same
    assert abs(found["dexp"] - 4) < 0.5  # tends to 4 from above on this problem
    assert found["none"] == pytest.approx(2, abs=0.1)
    assert found["wrong sign"] == pytest.approx(2, abs=0.1)


def test_the_heavy_top_of_mueller_and_terze_shows_the_published_drift():
    _, joint, drift, kinetic = run_top(SE3, 1e-3, 1.0)
    assert kinetic == pytest.approx(13972.398951, abs=1e-5)
    assert drift == pytest.approx(2.80e-8, rel=0.01)
    assert joint < 1e-11


def test_quaternions_stay_unit():
    group, F, q0, _, _ = PROBLEMS["SE3"]
    run = solve_ivp(lambda t, q: 5 * np.cos(q[:6]), (0, 100), q0, group, "rkmk1", dt=0.01)
    assert len(run.t) == 10001
    assert np.abs(np.linalg.norm(run.q[:, :4], axis=1) - 1).max() < 1e-15 * 4
    run = solve_ivp(F, (0, 2), q0, group, dense_output=True)
    q = run.sol(np.linspace(0, 2, 100))
    assert np.abs(np.linalg.norm(q[:, :4], axis=1) - 1).max() < 1e-15 * 4


@pytest.mark.parametrize("method", METHODS)
def test_on_vectors_a_step_is_the_classical_one(method):
    m = tableau(method)

    def f(t, x):
        return np.array([x[1] * t, -np.sin(x[0]) + x[2], x[0] * x[1]])

    x, h = np.array([0.3, -1.0, 2.0]), 0.1
    k = []
    for i in range(m.stages):
        k.append(f(0.5 + m.c[i] * h, x + h * sum((a * s for a, s in zip(m.A[i], k)), np.zeros(3))))
    q1, stages, estimate = rkmk_step(R(3), method, f, 0.5, x, h)
    np.testing.assert_allclose(q1, x + h * m.b @ np.array(k), atol=1e-15)
    np.testing.assert_allclose(stages, k, atol=1e-14)
    if m.embedded is None:
        assert estimate is None
    else:
        np.testing.assert_allclose(estimate, h * (m.b - m.embedded) @ np.array(k), atol=1e-15)


@pytest.mark.parametrize("problem", ["SO3", "SE3", "SE2"])
@pytest.mark.parametrize("method", ["rkmk4", "rkmk45"])
def test_a_step_can_be_traced(method, problem):
    group = PROBLEMS[problem][0]
    A = np.random.default_rng(1).normal(size=(group.dim, group.nq))

    def step(t, q, h):
        q1, stages, estimate = rkmk_step(group, method, lambda t, q: A @ q * t, t, q, h)
        return (q1, stages) if estimate is None else (q1, stages, estimate)

    q0 = PROBLEMS[problem][2]
    f = trace(step, {"t": (), "q": (group.nq,), "h": ()})
    for traced, direct in zip(f(0.7, q0, 0.2), step(0.7, q0, 0.2)):
        np.testing.assert_allclose(traced, direct, rtol=1e-13, atol=1e-14)


# Dense output


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.many
def test_dense_output_is_as_accurate_as_the_steps(method):
    group, F, q0, f, _ = PROBLEMS["SO3"]
    p, n = min(tableau(method).order, 6), 30
    times = np.linspace(0, END, 4 * n + 1)  # includes points within every step
    errors = []
    exact = [np.eye(3).ravel()]
    for a, b in pairwise(times):
        exact.append(extrapolate(lambda t, x, a=a: f(a + t, x), exact[-1], b - a, 1))
    for steps in (n, 2 * n):
        run = solve_ivp(F, (0, END), q0, group, method, dt=END / steps, dense_output=True)
        q = run.sol(times)
        np.testing.assert_allclose(run.sol(run.t), run.q, atol=1e-14)
        errors.append(max(np.abs(rotation(a) - np.reshape(x, (3, 3))).max() for a, x in zip(q, exact)))
    assert np.log2(errors[0] / errors[1]) > p - 0.15


@pytest.mark.parametrize("method", ["rkmk45", "rkmk-tsitouras", "rkmk4", "rkmk56"])
def test_dense_output_has_the_velocity_of_F_at_the_steps_from_both_sides(method):
    group, F, q0, _, _ = PROBLEMS["SE3"]
    run = solve_ivp(F, (0, 1), q0, group, method, dt=0.25, dense_output=True)
    d = 1e-6
    for t in (0.25, 0.5, 0.75):
        left = group.difference(run.sol(t - d), run.sol(t)) / d
        right = group.difference(run.sol(t), run.sol(t + d)) / d
        np.testing.assert_allclose(left, F(t, run.sol(t)), atol=1e-4)
        np.testing.assert_allclose(right, F(t, run.sol(t)), atol=1e-4)


def test_shapes_of_dense_output_and_its_ends():
    group, F, q0, _, _ = PROBLEMS["SE3"]
    for span in ((0, 1), (1, 0)):
        run = solve_ivp(F, span, q0, group, dense_output=True)
        assert run.sol(0.3).shape == (7,) and run.sol(np.full((2, 3), 0.3)).shape == (2, 3, 7)
        assert run.sol([]).shape == (0, 7)
        assert (run.sol.t_min, run.sol.t_max) == (0, 1)
        np.testing.assert_allclose(run.sol(span[0]), q0, atol=1e-15)
        np.testing.assert_allclose(run.sol(span[1]), run.q[-1], atol=1e-14)
        with pytest.raises(IntegrationError, match=r"from t = 0.0 to 1.0.*longer t_span"):
            run.sol(1.01)
        with pytest.raises(IntegrationError, match="longer t_span"):
            run.sol([0.5, np.nan])


def test_output_at_given_times_does_not_change_the_steps():
    group, F, q0, _, _ = PROBLEMS["SE3"]
    free = solve_ivp(F, (0, 2), q0, group, dense_output=True)
    times = np.array([0, 0.1, 0.1234, 1.7, 2])
    run = solve_ivp(F, (0, 2), q0, group, t_eval=times)
    assert run.steps == free.steps
    np.testing.assert_array_equal(run.t, times)
    np.testing.assert_allclose(run.q, free.sol(times), atol=1e-15)
    np.testing.assert_array_equal(run.q[-1], free.q[-1])
    back = solve_ivp(F, (2, 0), free.q[-1], group, t_eval=times[::-1], rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(back.q[-1], q0, atol=1e-5)
    assert solve_ivp(F, (0, 2), q0, group, t_eval=[]).q.shape == (0, 7)


# Error control


@pytest.mark.parametrize("problem", PROBLEMS)
@pytest.mark.parametrize("method", EMBEDDED)
@pytest.mark.many
def test_error_follows_the_tolerance(method, problem):
    group, F, q0, _, flat = PROBLEMS[problem]
    for rtol in (1e-4, 1e-6) if tableau(method).order < 5 else (1e-5, 1e-9):
        run = solve_ivp(F, (0, END), q0, group, method, rtol=rtol, atol=rtol)
        assert run.success and run.status == 0 and run.t[-1] == END
        distance = np.abs((flat(run.q[-1]) - reference(problem)).astype(float)).max()
        assert distance < 100 * rtol


def test_on_vectors_it_costs_and_gives_what_scipy_does():
    def f(t, x):  # Van der Pol
        return np.array([x[1], 2 * (1 - x[0] ** 2) * x[1] - x[0]])

    times = np.linspace(0, 20, 50)
    exact = scipy.integrate.solve_ivp(f, (0, 20), [2, 0], "DOP853", times, rtol=1e-12, atol=1e-12).y.T
    for ours, theirs in (("rkmk45", "RK45"), ("rkmk23", "RK23")):
        peer = scipy.integrate.solve_ivp(f, (0, 20), [2, 0], theirs, times, rtol=1e-6, atol=1e-6)
        run = solve_ivp(f, (0, 20), [2.0, 0], R(2), ours, times, rtol=1e-6, atol=1e-6)
        assert run.nfev < 1.25 * peer.nfev
        assert np.abs(run.q - exact).max() < 3 * np.abs(peer.y.T - exact).max()


def test_steps_do_not_depend_on_the_world_frame():
    def F(t, q, T):  # in terms of the motion relative to the frame T, which is what physics is
        relative = SE3.coordinates(SE3.inverse(T) @ SE3.element(q))
        return rigid(t, relative)

    T = SE3.element(SE3.random(np.random.default_rng(3)))
    T[:3, 3] *= 1000
    here = solve_ivp(F, (0, 2), POSE, SE3, args=(np.eye(4),))
    there = solve_ivp(F, (0, 2), SE3.coordinates(T @ SE3.element(POSE)), SE3, args=(T,))
    np.testing.assert_allclose(there.t, here.t, rtol=1e-6)
    np.testing.assert_allclose(SE3.element(there.q[-1]), T @ SE3.element(here.q[-1]), rtol=1e-9, atol=1e-9)


def test_tolerances_are_relative_in_vector_factors_only():
    def F(t, q):
        return np.array([0, 0, 0, -q[4]])

    run = solve_ivp(F, (0, 5), [1.0, 0, 0, 0, 1e6], Product(SO3, R(1)), rtol=1e-8, atol=1e-12)
    assert run.q[-1, 4] == pytest.approx(1e6 * np.exp(-5), rel=1e-6)
    assert run.steps < 100  # an absolute 1e-8 of 1e6 would take thousands
    turned = [
        solve_ivp(lambda t, q: np.array([np.cos(5 * t)]), (0, 5), [angle], SO2, rtol=1e-6).steps
        for angle in (0.0, 1e4)
    ]
    assert turned[0] == turned[1]


def test_a_tolerance_for_each_direction():
    group, F, q0, _, _ = PROBLEMS["SO3xR3"]
    tight = solve_ivp(F, (0, 1), q0, group, atol=1e-10, rtol=1e-12)
    loose = solve_ivp(F, (0, 1), q0, group, atol=[1e-3] * 3 + [1e-10] * 3, rtol=1e-12)
    assert loose.steps < tight.steps


@pytest.mark.parametrize("method", EMBEDDED)
@pytest.mark.parametrize("group", [SO3, SE3, SE2, Product(SO3, R(1))], ids=repr)
@pytest.mark.many
def test_a_steady_motion_is_exact_though_its_error_estimate_is_zero(group, method):
    """Steps would grow without bound, past the poles of dexp^-1 at rotations by 2 pi."""
    u = np.array([0.3, -0.2, 2.0, 0.5, 1.0, -1.0])[: group.dim]
    run = solve_ivp(lambda t, q: u, (0, 200), group.neutral(), group, method, dense_output=True)
    assert run.steps > 10
    for t in np.linspace(0, 200, 23):
        exact = group.integrate(group.neutral(), t * u)
        np.testing.assert_allclose(group.difference(exact, run.sol(t)), 0, atol=1e-10)


def test_a_blow_up_ends_with_what_was_reached():
    run = solve_ivp(lambda t, x: x**2, (0, 2), [1.0], R(1), dense_output=True)
    assert (run.status, run.success) == (-1, False)
    assert run.t[-1] == pytest.approx(1, abs=1e-5) and run.q[-1, 0] > 1e6
    assert "round-off" in run.message
    assert run.sol(0.5) == pytest.approx(2, rel=1e-5)


def test_a_step_that_leaves_the_domain_of_F_is_tried_again():
    def F(t, x):
        return -1 / np.sqrt(x) if x[0] > 0 else np.array([np.nan])

    exact = 1 - 1.5 * 0.66  # x^(3/2)
    run = solve_ivp(F, (0, 0.66), [1.0], R(1), first_step=0.66)
    assert run.rejected > 0
    assert run.q[-1, 0] == pytest.approx(exact ** (2 / 3), rel=1e-4)
    with pytest.raises(IntegrationError, match=r"F is not finite at t = 0\.666"):
        solve_ivp(F, (0, 1), [1.0], R(1))


@pytest.mark.parametrize("options", [{}, {"method": "radau5"}, {"dt": 1e-3}], ids=str)
@pytest.mark.parametrize(("start", "length"), [(0.0, 1e-13), (1e6, -1e-3), (-1.0, 1.0), (0.0, 1e12)])
def test_no_scale_of_time_is_preferred(start, length, options):
    options = {name: x * abs(length) if name == "dt" else x for name, x in options.items()}
    rtol = {} if "dt" in options else {"rtol": 1e-9, "atol": 1e-12}
    run = solve_ivp(
        lambda t, x: x / length,
        (start, start + length),
        [1.0],
        R(1),
        events=lambda t, x: x[0] - 2,
        **rtol,
        **options,
    )
    assert run.t[0] == start and run.t[-1] == start + length
    np.testing.assert_allclose(run.q[-1], np.e, rtol=1e-7)
    np.testing.assert_allclose((run.t_events[0] - start) / length, np.log(2), atol=1e-6)


def test_a_long_time_may_begin_with_short_steps():
    """As in Robertson's problem, over 1e11 s."""
    run = solve_ivp(lambda t, x: [1 / (t + 1e-9)], (0, 1e12), [1.0], R(1), rtol=1e-9, first_step=1e3)
    assert run.success and run.rejected > 10
    np.testing.assert_allclose(run.q[-1], 1 + np.log1p(1e21), rtol=1e-7)


def test_maximal_and_first_steps_are_kept():
    group, F, q0, _, _ = PROBLEMS["SO3"]
    run = solve_ivp(F, (0, 1), q0, group, rtol=1e-2, atol=1e-2, max_step=0.05)
    assert np.diff(run.t).max() <= 0.05 * (1 + 1e-12)
    assert solve_ivp(F, (0, 1), q0, group, first_step=0.001).t[1] == 0.001


def test_evaluations_are_counted_and_not_wasted():
    group, F, q0, _, _ = PROBLEMS["SO3"]
    calls = []

    def counted(t, q):
        calls.append(t)
        return F(t, q)

    for method, expected in (("rkmk4", 40), ("rkmk45", 61), ("rkmk1", 10)):
        calls.clear()
        run = solve_ivp(counted, (0, 1), q0, group, method, dt=0.1)
        assert run.nfev == len(calls) == expected
        assert run.steps == 10
    calls.clear()
    assert solve_ivp(counted, (0, 1), q0, group, dense_output=True).nfev == len(calls)


def test_fixed_steps_end_where_asked():
    run = solve_ivp(lambda t, x: x, (0, 1), [1.0], R(1), "rkmk4", dt=0.3)
    np.testing.assert_allclose(run.t, [0, 0.3, 0.6, 0.9, 1], atol=1e-15)
    assert solve_ivp(lambda t, x: x, (0, 1), [1.0], R(1), "rkmk4", dt=0.1).steps == 10
    assert solve_ivp(lambda t, x: x, (1, 0), [1.0], R(1), "rkmk4", dt=0.1).q[-1, 0] == pytest.approx(
        np.exp(-1), rel=1e-5
    )


@pytest.mark.parametrize("options", [{}, {"dt": 0.1}])
def test_nothing_to_integrate(options):
    run = solve_ivp(lambda t, x: x, (1, 1), [2.0], R(1), t_eval=[1], dense_output=True, **options)
    assert (run.t.tolist(), run.q.tolist(), run.steps, run.sol(1).tolist()) == ([1], [[2]], 0, [2])


def test_a_group_without_dimensions():
    run = solve_ivp(lambda t, x: [], (0, 1), [], R(0))
    assert run.success and run.q.shape[1:] == (0,)


# Implicit methods


@pytest.mark.parametrize(
    ("method", "problem", "steps"), [("radau5", "SE3", 20), ("radau3", "SE2", 60), ("gauss4", "SO3xR3", 40)]
)
def test_implicit_methods_have_their_order_on_any_group(method, problem, steps):
    group, F, q0, _, flat = PROBLEMS[problem]
    errors = []
    for n in (steps, 2 * steps):
        run = solve_ivp(F, (0, END), q0, group, method, dt=END / n)
        errors.append(float(np.linalg.norm((flat(run.q[-1]) - reference(problem)).astype(float))))
    assert np.log2(errors[0] / errors[1]) == pytest.approx(float(method[-1]), abs=0.2)


@pytest.mark.parametrize("method", ["radau5", "gauss4"])
@pytest.mark.many
def test_implicit_methods_have_events_dense_output_and_error_control_as_explicit_ones(method):
    group, F, q0, _, flat = PROBLEMS["SO3 x velocity"]

    def level(t, q):
        return q[5]

    options = {"events": level, "dense_output": True}
    exact = solve_ivp(F, (0, END), q0, group, "rkmk8", rtol=1e-11, atol=1e-13, **options)
    run = solve_ivp(F, (0, END), q0, group, method, rtol=1e-8, atol=1e-10, **options)
    times = np.linspace(0, END, 101)
    apart = np.abs([flat(q) for q in run.sol(times)] - np.array([flat(q) for q in exact.sol(times)])).max()
    assert apart < 1e-6 and run.success and run.rejected < 0.1 * run.steps
    assert len(exact.t_events[0]) > 0
    np.testing.assert_allclose(run.t_events[0], exact.t_events[0], atol=1e-6)
    coarse = solve_ivp(F, (0, END), q0, group, method, rtol=1e-5, atol=1e-7)
    assert run.steps / coarse.steps == pytest.approx(1e3**0.25, rel=0.2)  # the estimate is of order 4
    back = solve_ivp(F, (END, 0), run.q[-1], group, method, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(flat(back.q[-1]), flat(q0), atol=1e-6)


def test_stiff_equations_take_an_implicit_method():
    """Van der Pol's oscillator with mu = 1000, once down and over, beside SciPy's Radau."""

    def F(t, x):
        return np.array([x[1], 1e3 * (1 - x[0] ** 2) * x[1] - x[0]])

    exact = scipy.integrate.solve_ivp(F, (0, 1000), [2, 0], method="Radau", rtol=1e-8, atol=1e-10).y[:, -1]
    theirs = scipy.integrate.solve_ivp(F, (0, 1000), [2, 0], method="Radau", rtol=1e-5, atol=1e-8)
    run = solve_ivp(F, (0, 1000), [2, 0], R(2), "radau5", rtol=1e-5, atol=1e-8, t_eval=[0, 1000])
    np.testing.assert_allclose(run.q[-1], exact, rtol=1e-5)
    assert run.steps < 1.5 * len(theirs.t) and run.nfev < 2 * theirs.nfev
    short = solve_ivp(F, (0, 1), [2, 0], R(2), rtol=1e-5, atol=1e-8)  # an explicit method, bound by stability
    assert short.steps > run.steps  # for a thousandth of the time
    with pytest.raises(IntegrationError, match=r"step at t = 0 are not solved by Newton's method with h = 3"):
        solve_ivp(lambda t, x: 1 + x**2, (0, 6), [0.0], R(1), "radau5", dt=3.0)


# Events


def fall(t, x):
    return np.array([x[1], -9.81])


def height(t, x):
    return x[0]


def test_an_event_on_a_group_is_located_to_round_off():
    """A body that turns steadily about a fixed axis points downwards when it has turned by pi."""
    axis = np.array([1.0, 2.0, 2.0]) / 3

    def half_turn(t, q):
        return q[0]

    run = solve_ivp(lambda t, q: 2 * axis, (0, 4), [1.0, 0, 0, 0], SO3, events=half_turn)
    np.testing.assert_allclose(run.t_events[0], [np.pi / 2], rtol=1e-14)
    np.testing.assert_allclose(run.q_events[0], [[0, *axis]], atol=1e-14)
    assert run.status == 0 and run.t[-1] == 4


def test_a_terminal_event_stops_there():
    def ground(t, x):
        return x[0]

    ground.terminal = True
    run = solve_ivp(fall, (0, 10), [10.0, 0], R(2), events=ground, dense_output=True)
    assert (run.status, run.success) == (1, True) and "terminal event" in run.message
    t = np.sqrt(2 * 10 / 9.81)
    assert run.t[-1] == pytest.approx(t, rel=1e-14) and run.t_events[0] == pytest.approx(t, rel=1e-14)
    np.testing.assert_allclose(run.q[-1], [0, -9.81 * t], atol=1e-12)
    assert run.sol.t_max == run.t[-1]
    with pytest.raises(IntegrationError):
        run.sol(run.t[-1] + 0.01)
    sampled = solve_ivp(fall, (0, 10), [10.0, 0], R(2), events=ground, t_eval=[0, 1, 5])
    assert sampled.t.tolist() == [0, 1]


def test_directions_and_numbers_of_events():
    def wave(direction, terminal):
        def event(t, x):
            return np.sin(t)

        event.direction, event.terminal = direction, terminal
        return event

    def stand(t, x):
        return np.zeros(1)

    for span, up in (((0.5, 20), [2, 4, 6]), ((20, 0.5), [5, 3, 1])):
        events = [wave(0, False), wave(1, False), wave(-1, False)]
        run = solve_ivp(stand, span, [0.0], R(1), events=events, max_step=0.7)
        every, upwards, downwards = (np.round(t / np.pi, 12).tolist() for t in run.t_events)
        assert every == ([1, 2, 3, 4, 5, 6] if span[0] < span[1] else [6, 5, 4, 3, 2, 1])
        assert upwards == up
        assert sorted(upwards + downwards) == [1, 2, 3, 4, 5, 6]
        third = solve_ivp(stand, span, [0.0], R(1), events=wave(0, 3), max_step=0.7)
        assert (third.status, len(third.t_events[0])) == (1, 3)
        assert third.t[-1] == third.t_events[0][-1]


def test_a_zero_at_the_start_is_no_event():
    def ground(t, x):
        return x[0]

    ground.terminal = True
    run = solve_ivp(fall, (0, 10), [0.0, 5.0], R(2), events=ground)
    assert run.t[-1] == pytest.approx(2 * 5 / 9.81, rel=1e-13)


def test_events_of_one_step_are_taken_in_their_order():
    def at(time, terminal):
        def event(t, x):
            return t - time

        event.terminal = terminal
        return event

    events = [at(0.9, False), at(0.6, True), at(0.3, False)]
    run = solve_ivp(lambda t, x: np.ones(1), (0, 1), [0.0], R(1), "rkmk4", dt=1.0, events=events)
    assert [len(t) for t in run.t_events] == [0, 1, 1]
    np.testing.assert_allclose(run.t, [0, 0.6], atol=1e-15)
    assert run.q_events[0].shape == (0, 1)


def test_events_agree_with_scipy():
    def swing(t, x):
        return np.array([x[1], -np.sin(x[0])])

    options = {"rtol": 1e-9, "atol": 1e-9}
    ours = solve_ivp(swing, (0, 20), [1.0, 0.5], R(2), events=[height, lambda t, x: x[1]], **options)
    theirs = scipy.integrate.solve_ivp(
        swing, (0, 20), [1.0, 0.5], events=[height, lambda t, x: x[1]], **options
    )
    for a, b in zip(ours.t_events, theirs.t_events):
        np.testing.assert_allclose(a, b, atol=1e-6)
    for a, b in zip(ours.q_events, theirs.y_events):
        np.testing.assert_allclose(a, b, atol=1e-6)


@given(
    root=st.floats(-1e3, 1e3),
    width=st.floats(1e-3, 1e3),
    place=st.floats(0.001, 0.999),
    power=st.sampled_from([1, 3, 9]),
    flip=st.booleans(),
)
def test_roots_are_found_whatever_the_function(root, width, place, power, flip):
    a = root - place * width
    b = a + width
    calls = []

    def f(t):
        calls.append(t)
        return (-1) ** flip * (np.arctan(50 * (t - root)) + 0.1 * (t - root)) ** power

    def trial(length):
        return None, None, np.array([f(a + length)])

    tolerance, end = 4 * np.finfo(float).eps * max(abs(a), abs(b)), trial(width)
    start = trial(0.0)[2]
    length, past, _ = locate(trial, lambda a, b: a * b <= 0, start, 0.0, width, end, tolerance)
    assert abs(a + length - root) <= 2 * tolerance and start * past[2] <= 0
    assert 0 < length <= width and len(calls) < 160


EXAMPLE = Path(__file__).parents[1] / "examples" / "rigid_body_on_so3.py"


def test_the_example_prints_what_it_says(capsys):
    example = runpy.run_path(str(EXAMPLE))
    run = example["main"]()
    printed = capsys.readouterr().out
    stated = textwrap.dedent(example["__doc__"].split("prints\n")[1]).strip()
    number = re.compile(r"[0-9]+(?:\.[0-9]+)?(?:e-?[0-9]+)?")
    assert number.sub("#", printed).strip() == number.sub("#", stated)
    a, b = ([float(x) for x in number.findall(text)] for text in (printed, stated))
    np.testing.assert_allclose(a, b, rtol=0.1, atol=2)  # the steps may differ by a few on other machines

    # Landau, Lifshitz, Mechanics, section 37: omega_2 is an elliptic sine, and has its zeros 2 K apart
    J1, J2, J3 = example["INERTIA"]
    w = run.q[0, 4:]
    energy, momentum = example["INERTIA"] @ w**2, (example["INERTIA"] ** 2) @ w**2
    rate = np.sqrt((J3 - J2) * (momentum - energy * J1) / (J1 * J2 * J3))
    m = (J2 - J1) * (energy * J3 - momentum) / ((J3 - J2) * (momentum - energy * J1))
    np.testing.assert_allclose(np.diff(run.t_events[0]), 2 * scipy.special.ellipk(m) / rate, rtol=1e-5)


# The door


def test_an_element_is_accepted_for_its_coordinates():
    group, F, q0, _, _ = PROBLEMS["SE3"]
    by_element = solve_ivp(F, (0, 1), group.element(q0), group)
    np.testing.assert_allclose(by_element.q[-1], solve_ivp(F, (0, 1), q0, group).q[-1], atol=1e-13)


def test_what_F_is_given_is_read_only_and_what_it_returns_is_copied():
    buffer = np.zeros(3)

    def reusing(t, q):
        buffer[:] = spin(t, rotation(q), 0)
        return buffer

    group, F, q0, _, _ = PROBLEMS["SO3"]
    np.testing.assert_array_equal(
        solve_ivp(reusing, (0, 1), q0, group).q[-1], solve_ivp(F, (0, 1), q0, group).q[-1]
    )

    def meddling(t, q):
        q[0] = 0
        return buffer

    with pytest.raises(ValueError, match="read-only"):
        solve_ivp(meddling, (0, 1), q0, group)
    assert q0.flags.writeable and q0[0] == 1


ONE = [1.0, 0, 0, 0]


def still(t, q):
    return np.zeros(3)


MISTAKES = [
    ({"g0": [1.0, 0, 0]}, ShapeError, r"g0 has shape \(3,\), .*\(4,\), or an element, \(3, 3\)"),
    ({"g0": np.eye(4)}, ShapeError, r"shape \(4, 4\)"),
    ({"g0": "north"}, ShapeError, "g0 is 'north'"),
    ({"g0": [2.0, 0, 0, 0]}, ConfigurationError, "quaternion"),
    ({"g0": [np.nan, 0, 0, 0]}, ConfigurationError, "finite"),
    ({"g0": np.full((3, 3), np.nan)}, ConfigurationError, "finite"),
    ({"g0": 2 * np.eye(3)}, ConfigurationError, "not an element of SO3.*orthogonal"),
    ({"g0": np.diag([1.0, 1, -1])}, ConfigurationError, "not an element of SO3"),
    (
        {"F": lambda t, q: np.zeros(4)},
        ShapeError,
        r"result of F at t = 0 has shape \(4,\), .*SO3, \(3,\)",
    ),
    ({"F": lambda t, q: np.zeros((1, 3))}, ShapeError, r"shape \(1, 3\)"),
    ({"F": lambda t, q: ["a", "b", "c"]}, ShapeError, "F returned <U1"),
    ({"F": lambda t, q: np.full(3, 1j)}, ShapeError, "F returned complex128"),
    ({"F": lambda t, q: np.full(3, np.nan)}, IntegrationError, "F is not finite at t = 0"),
    ({"F": lambda t, q: np.full(3, np.inf), "dt": 0.1}, IntegrationError, "F is not finite at t = 0"),
    (
        {"F": lambda t, q: np.full(3, 0.0 if t < 0.45 else np.nan), "dt": 0.1},
        IntegrationError,
        r"at t = 0\.48",
    ),
    ({"F": 3}, IntegrationError, "F must be a function"),
    ({"group": 3}, IntegrationError, "group must be a group"),
    ({"method": "RK45"}, IntegrationError, "no method 'RK45' .* with error control, is 'rkmk45'"),
    (
        {"method": "euler"},
        IntegrationError,
        "no error estimate; give a fixed step dt, or use .*dormand-prince",
    ),
    ({"t_span": 3}, IntegrationError, "t_span must be two times"),
    ({"t_span": (0, np.inf)}, IntegrationError, "t_span must be finite"),
    ({"t_eval": [0, 2]}, IntegrationError, "t_eval must lie within"),
    ({"t_eval": [0.5, 0.2]}, IntegrationError, "direction of time"),
    ({"t_eval": [[0.5]]}, ShapeError, r"shape \(1, 1\)"),
    ({"rtol": -1}, IntegrationError, "rtol is -1, expected a positive number"),
    ({"atol": 0}, IntegrationError, "atol must be positive"),
    ({"atol": [1e-6] * 4}, ShapeError, r"atol has shape \(4,\), .*SO3, \(3,\)"),
    ({"dt": 0}, IntegrationError, "dt is 0, expected a positive number"),
    ({"dt": 0.1, "max_step": 0.1}, IntegrationError, "dt switches off"),
    ({"first_step": -1}, IntegrationError, "first_step is -1, expected a positive number"),
    ({"max_step": np.nan}, IntegrationError, "max_step is nan, expected a positive number"),
    ({"args": 3}, IntegrationError, r"write args=\(x,\)"),
    ({"events": [1]}, IntegrationError, "an event must be a function"),
    ({"events": 3}, ArgumentError, "events is 3, expected functions"),
    (
        {"events": lambda t, q: q},
        ShapeError,
        r"event <lambda> at t = 0 has shape \(4,\), expected one number",
    ),
    ({"events": lambda t, q: np.nan}, IntegrationError, "event <lambda> is nan at t = 0"),
]


@pytest.mark.parametrize("changes, kind, message", MISTAKES)
def test_mistakes_are_named(changes, kind, message):
    call = {"F": still, "t_span": (0, 1), "g0": ONE, "group": SO3, **changes}
    with pytest.raises(kind, match=message):
        solve_ivp(**call)


def test_a_tolerance_below_round_off_is_raised_with_a_warning():
    with pytest.warns(UserWarning, match="within round-off"):
        solve_ivp(still, (0, 1), ONE, SO3, rtol=1e-20)


def test_the_result_says_what_happened():
    run = solve_ivp(still, (0, 1), ONE, SO3, events=height)
    assert repr(run).startswith("Solution(SO3: t = 0 to 1, ")
    assert "status 0: reached the end of t_span" in repr(run)
    assert (run.sol, solve_ivp(still, (0, 1), ONE, SO3).t_events) == (None, None)
