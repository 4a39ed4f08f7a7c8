"""Elimination by blocks in proofs of orbits: bounds of solutions beside exact ones, and long orbits."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from test_proofs import van_der_pol

from liebody.compiler import NotProved, exactly
from liebody.gaits import ProofError, periodic_orbit, prove
from liebody.gaits.proofs import blocks as of_prover
from liebody.gaits.proofs.blocks import BlockElimination, Derivatives, PhaseBlocks

pytest.importorskip("flint", reason="the checker is built on Arb")
import flint

import liebody_check.blocks as of_checker

STATES = (3, 4)  # of the phases; the first one has a symmetry along its state 1
STEPS = (7, 5)


def cycle(rng, coordinates=(1,)):
    """Derivatives of an orbit of two phases: rotations that shrink, and jumps."""
    phases = []
    for N, m, following in zip(STATES, STEPS, STATES[1:] + STATES[:1], strict=True):
        D = np.stack([np.linalg.qr(rng.normal(size=(N, N)))[0] * np.linspace(0.5, 1, N) for _ in range(m)])
        phases.append(
            PhaseBlocks(
                exactly(D),
                exactly(rng.normal(size=(m, N))),
                exactly(rng.normal(size=N)),
                exactly(0.5 * rng.normal(size=(following, N))),
            )
        )
    xi = np.zeros((len(coordinates), STATES[0]))
    for k, j in enumerate(coordinates):
        xi[k, j] = 1.0
    return Derivatives(phases, exactly(xi), list(coordinates))


def dense(derivatives, from_start=False):
    """The matrix of the equations, as fractions, entry by entry from their definition."""
    phases = derivatives.middles().phases
    n = sum(x.factor.size + x.factor.shape[1] + 1 for x in phases)
    A = [[Fraction(0)] * n for _ in range(n)]
    row = column = 0

    def put(i, j, block):
        for a, line in enumerate(np.atleast_2d(block)):
            for b, x in enumerate(line):
                A[i + a][j + b] += Fraction(float(x))

    for x in phases:
        m, N = x.factor.shape
        factor = column + (m + 1) * N
        for i in range(m):
            put(row, column + i * N, x.steps[i])
            put(row, column + (i + 1) * N, -np.eye(N))
            put(row, factor, x.factor[i][:, None])
            row += N
        put(row, factor - N, x.section)
        put(row + 1, factor - N, x.jump)
        column = (factor + 1) % n
        put(row + 1, column, -np.eye(len(x.jump)))
        row += 1 + len(x.jump)
    N = phases[0].factor.shape[1]
    for k, j in enumerate(derivatives.coordinates):
        for i in range(n):
            A[i][j] = Fraction(0)
        put(n - N, j, -derivatives.middles().translations[k][:, None])
    if from_start:
        for i in range(N):
            A[n - N + i] = [Fraction(int(i == j)) for j in range(n)]
    return A


def inverse(A):
    """The exact inverse, as fractions."""
    n = len(A)
    rational = flint.fmpq_mat([[flint.fmpq(x.numerator, x.denominator) for x in row] for row in A]).inv()
    return [[Fraction(int(rational[i, j].p), int(rational[i, j].q)) for j in range(n)] for i in range(n)]


def matrix(x):
    """A matrix of Arb's balls."""
    return flint.arb_mat(np.atleast_2d(x).tolist())


def applied(Y, x, absolute=False):
    return [sum((abs(y) if absolute else y) * Fraction(float(a)) for y, a in zip(row, x)) for row in Y]


@pytest.mark.parametrize("from_start", [False, True])
@pytest.mark.parametrize(("most", "factor"), [(1000, 1 + 1e-9), (20, 30.0)])
def test_bounds_contain_all_exact_solutions_and_are_close(from_start, most, factor):
    rng = np.random.default_rng(3)
    for coordinates in ((1,), ()):
        derivatives = cycle(rng, coordinates)
        linear = BlockElimination(derivatives, from_start, most)
        Y = inverse(dense(derivatives, from_start))
        e = rng.normal(size=len(Y)) * 10.0 ** rng.integers(-6, 1, size=len(Y))
        x = linear.solve(e[:, None])
        exact = applied(Y, e)
        assert max(abs(Fraction(float(a)) - b) for a, b in zip(x[:, 0], exact)) < Fraction(1e-12)
        # |Y| d is the largest of all solutions with right sides within d
        largest = applied(Y, np.abs(e), absolute=True)
        bound = linear.bound(np.abs(e)[:, None])[:, 0]
        for a, b in zip(bound.tolist(), largest, strict=True):
            assert b <= Fraction(a) <= Fraction(factor) * b + Fraction(1e-12)
        # what cancels in C Y does not widen bounds of C x for the last node x
        C = rng.normal(size=(2, STATES[1]))
        rows = [applied(list(zip(*Y[-1 - STATES[1] : -1], strict=True)), row) for row in C]
        largest = applied(rows, np.abs(e), absolute=True)
        bound = linear.bound_at_end(exactly(C), np.abs(e)[:, None])[:, 0]
        for a, b in zip(bound.tolist(), largest, strict=True):
            assert b <= Fraction(a) <= Fraction(factor) * b + Fraction(1e-12)
        # what is left of the equations
        left = linear.left(exactly(e)[:, None], x)[:, 0]
        A = dense(derivatives, from_start)
        for a, b, row in zip(left.tolist(), e, A, strict=True):
            rest = Fraction(float(b)) - sum(y * Fraction(float(z)) for y, z in zip(row, x[:, 0]))
            assert abs(rest) <= Fraction(a) < Fraction(1e-12)


def test_bounds_of_long_steps_do_not_depend_on_the_units_of_states():
    """A phase of 40 steps that mix places and velocities, in units of m and of 2^-12 m."""
    rng = np.random.default_rng(8)
    N, m = 4, 40
    turns = [np.linalg.qr(rng.normal(size=(N, N)))[0] for _ in range(2)]
    D = np.stack([0.3 * turns[0] + 0.7 * np.diag(rng.uniform(0.5, 1, N)) @ turns[1] for _ in range(m)])
    g, h, J = rng.normal(size=(m, N)), rng.normal(size=N), 0.5 * rng.normal(size=(N, N))
    errors = rng.random(size=(m, N))
    of_programs = [], []
    for S in (np.ones(N), 2.0 ** np.array([0, 0, -12, -12])):
        numbers = D * S / S[:, None], g / S, h * S, J * S / S[:, None]
        phase = PhaseBlocks(*(exactly(x) for x in numbers))
        linear = BlockElimination(Derivatives([phase], exactly(np.zeros((0, N))), []), most=40)
        assert linear.parts[0].L > 3
        e = np.concatenate([(errors / S).ravel(), [1.0], 1 / S])
        of_programs[0].append(linear.bound(e[:, None])[:-1, 0].reshape(m + 1, N) * S)
        steps, factor = [[matrix(x) for x in numbers[0]], [matrix(x[:, None]) for x in numbers[1]]]
        blocks = of_checker.Blocks(steps, factor, matrix(numbers[2]), matrix(numbers[3]))
        balls = of_checker.Elimination(of_checker.Derivatives([blocks], flint.arb_mat(N, 0), []), most=40)
        x = balls.solve(flint.arb_mat([[flint.arb(0, y)] for y in e.tolist()]))
        radii = np.array([float(x[k, 0].rad()) for k in range((m + 1) * N)])
        of_programs[1].append(radii.reshape(m + 1, N) * S)
    for one, other in of_programs:
        assert (np.maximum(one / other, other / one) < 2).all()


def test_derivatives_that_vary_are_bounded():
    rng = np.random.default_rng(5)
    derivatives = cycle(rng)
    wide = Derivatives(
        [x.apply(lambda y: y + 1e-3 * rng.random(y.shape)) for x in derivatives.phases],
        derivatives.translations,
        derivatives.coordinates,
    )
    linear = BlockElimination(derivatives)
    radius = rng.random(len(dense(derivatives)))
    bound = linear.varied(wide.away(linear.M), radius[:, None])[:, 0]
    # corners of the intervals
    corner = Derivatives(
        [
            x.apply(lambda y: exactly(np.where(rng.random(y.shape[:-1]) < 0.5, -y[..., 0], y[..., 1])))
            for x in wide.phases
        ],
        wide.translations,
        wide.coordinates,
    )
    for a, b, size in zip(dense(corner), dense(derivatives), bound.tolist(), strict=True):
        rest = sum(abs(x - y) * Fraction(float(r)) for x, y, r in zip(a, b, radius))
        assert rest <= Fraction(size) < Fraction(1)


def test_singular_equations_are_refused():
    derivatives = cycle(np.random.default_rng(4))
    derivatives.phases[0].section[:] = 0.0
    with pytest.raises(ProofError, match="singular"):
        BlockElimination(derivatives)
    derivatives.phases[0].section[:] = exactly(np.full(3, 1e-17))
    with pytest.raises(NotProved, match="nearly singular"):
        BlockElimination(derivatives).bound(np.ones((len(dense(derivatives)), 1)))


@pytest.mark.parametrize("from_start", [False, True])
@pytest.mark.parametrize("most", [240, 20])
def test_balls_of_the_checker_contain_exact_solutions(monkeypatch, from_start, most):
    monkeypatch.setattr(of_checker, "MOST", most)
    derivatives = cycle(np.random.default_rng(3))
    numbers = derivatives.middles()

    phases = [
        of_checker.Blocks(
            [matrix(D) for D in x.steps],
            [matrix(g[:, None]) for g in x.factor],
            matrix(x.section),
            matrix(x.jump),
        )
        for x in numbers.phases
    ]
    given = of_checker.Derivatives(phases, matrix(numbers.translations.T), [1])
    Y = inverse(dense(derivatives, from_start))
    rng = np.random.default_rng(6)
    middle, radius = rng.normal(size=len(Y)), 1e-3 * rng.random(len(Y))
    right = flint.arb_mat([[flint.arb(a, b)] for a, b in zip(middle.tolist(), radius.tolist())])
    linear = of_checker.Elimination(given, from_start)
    x = linear.solve(right)
    centre, reach = applied(Y, middle), applied(Y, radius, absolute=True)
    for k, (a, b) in enumerate(zip(centre, reach, strict=True)):
        low, high = (flint.arb(flint.fmpq(y.numerator, y.denominator)) for y in (a - b, a + b))
        assert x[k, 0].contains(low.mid()) and x[k, 0].contains(high.mid())
        assert x[k, 0].rad() < 30 * float(b) + 1e-20
    # what cancels in C Y does not widen C x for the last node x
    C = rng.normal(size=(2, STATES[1]))
    rows = [applied(list(zip(*Y[-1 - STATES[1] : -1], strict=True)), row) for row in C]
    ends = linear.at_end(matrix(C), right)
    for k, (a, b) in enumerate(zip(applied(rows, middle), applied(rows, radius, absolute=True), strict=True)):
        low, high = (flint.arb(flint.fmpq(y.numerator, y.denominator)) for y in (a - b, a + b))
        assert ends[k, 0].contains(low.mid()) and ends[k, 0].contains(high.mid())
        assert ends[k, 0].rad() < (1 + 1e-6 if most > len(Y) else 30) * float(b) + 1e-20


def test_a_box_is_claimed_only_if_it_holds_with_steps_as_long_as_those_of_the_checker(monkeypatch):
    """Long steps widen bounds: with 20 unknowns of long steps the box must be smaller."""
    assert of_prover.OF_CHECKER == of_checker.MOST
    orbit = periodic_orbit(van_der_pol(), [2.0], [0.1], period=6.5, dt=0.01, method="rkmk8")
    monkeypatch.setattr(of_checker, "MOST", 20)
    wide = prove(orbit)
    with pytest.raises(ProofError, match="Krawczyk's inequality does not hold"):
        wide.check()
    monkeypatch.setattr(of_prover, "OF_CHECKER", 20)
    narrow = prove(orbit)
    assert narrow.radius < wide.radius and narrow.check().stable
    assert prove(orbit, parameters={"mu": ("0.9999", "1.0001")}).check().stable


def test_short_steps_prove_the_same_orbit():
    orbit = periodic_orbit(van_der_pol(), [2.0], [0.1], period=6.5, dt=0.01, method="rkmk8")
    long, short = prove(orbit), prove(orbit, order=5)
    assert len(short.nodes) > 15 * len(long.nodes)
    low, high = short.period
    assert low <= long.period[0] and long.period[1] <= high and high - low < 5e-11
    assert short.largest_multiplier < 0.00085971
    proof = short.check()
    assert proof.stable and proof.period.overlaps(long.check().period) and proof.period.rad() < 1e-11


def test_derivatives_by_the_start_are_bounded_along_many_phases():
    """Each phase multiplies the first state by an unknown number in [-1, 1], and forgets the second one."""
    from liebody_check.proof import _states_by_the_start

    arb, arb_mat = flint.arb, flint.arb_mat
    many = 12
    step = arb_mat([[arb(0, 1), 0], [0, 1]])
    second = arb_mat([[0], [1]])
    phase = of_checker.Blocks([step], [second], second.transpose(), arb_mat([[1, 0], [0, 1]]))
    X = _states_by_the_start(of_checker.Derivatives([phase] * many, arb_mat(2, 0), []))
    assert X is not None
    for k in range(many):
        for factor in (1, -1):
            first = 5 * k  # a phase has two nodes of two states, and a factor
            assert X[first, 0].contains(factor**k) and X[first + 2, 0].contains(factor ** (k + 1))
        assert X[5 * k + 1, 1].contains(int(k == 0)) and X[5 * k + 4, 1].contains(-int(k == 0))
