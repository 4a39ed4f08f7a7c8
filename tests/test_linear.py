"""Factorisations and solves: against NumPy on floats, and free of charge where structural zeros are met."""

from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from liebody.base.errors import ConfigurationError, ShapeError
from liebody.compiler import jacobian, trace
from liebody.scalars.linear import back_substitute, cross, factor, inverse, is_numeric, skew, solve, symmetric


def positive_definite(rng, n, decades):
    Q = np.linalg.qr(rng.normal(size=(n, n)))[0]
    return (Q * 10 ** rng.uniform(-decades, 0, n)) @ Q.T


@given(st.integers(0, 2**32 - 1), st.integers(1, 9), st.integers(0, 8))
def test_factor_multiplies_back(seed, n, decades):
    A = positive_definite(np.random.default_rng(seed), n, decades)
    rows, reciprocals = factor(A)
    L = np.eye(n)
    for k, row in enumerate(rows):
        L[k, :k] = row
    np.testing.assert_allclose(L.T @ np.diag(1 / np.array(reciprocals)) @ L, A, atol=1e-14 * n)


@given(st.integers(0, 2**32 - 1), st.integers(1, 9), st.integers(0, 8))
def test_solve_leaves_a_residual_of_round_off(seed, n, decades):
    rng = np.random.default_rng(seed)
    A = positive_definite(rng, n, decades)
    for b in (rng.normal(size=n), rng.normal(size=(n, 3))):
        x = solve(A, b)
        assert np.abs(A @ x - b).max() <= 1e-14 * n * max(1, np.abs(x).max())


def test_solving_on_symbols_is_solving_on_floats():
    rng = np.random.default_rng(0)
    A, b = positive_definite(rng, 5, 1), rng.normal(size=5)
    f = trace(solve, {"A": (5, 5), "b": 5})
    np.testing.assert_allclose(f(A, b), np.linalg.solve(A, b), rtol=1e-13)


def test_a_factorisation_is_as_sparse_as_the_tree_it_is_of():
    """Two chains of three on one root: what is not between a body and its ancestors is never touched."""
    parent = [-1, 0, 1, 2, 0, 4, 5]

    def ancestors(i):
        return {i} | (ancestors(parent[i]) if i else set())

    pattern = np.array([[j in ancestors(i) or i in ancestors(j) for j in range(7)] for i in range(7)])

    def lower(A):
        L, reciprocals = factor(np.where(pattern, A, 0))
        return np.array([*(x for row in L for x in row), *reciprocals])

    f = trace(lower, {"A": (7, 7)})
    L = f.outputs["lower"][: 7 * 6 // 2]
    zeros = sum(not pattern[i, j] for i in range(7) for j in range(i))
    assert sum(x == 0 for x in L if isinstance(x, float)) == zeros == 9
    depths = [len(ancestors(i)) - 1 for i in range(7)]
    updates = sum(d * (d + 1) // 2 for d in depths)
    assert f.operations == {"div": 7, "mul": sum(depths) + updates, "sub": updates}


def test_structural_zeros_cost_nothing():
    f = trace(lambda d, b: solve(np.diag(d), b), {"d": 4, "b": 4})
    assert f.operations == {"div": 4, "mul": 4}


def test_back_substitution_serves_several_right_hand_sides():
    rng = np.random.default_rng(1)
    A, B = positive_definite(rng, 4, 2), rng.normal(size=(4, 2))
    factors = factor(A)
    for k in range(2):
        one = back_substitute(factors, B[:, k])
        atol = 1e-15 * np.linalg.cond(A) * np.abs(one).max()
        np.testing.assert_allclose(back_substitute(factors, B)[:, k], one, rtol=0, atol=atol)


@pytest.mark.parametrize("shape", [(3,), (2, 3), (2, 2, 2)])
def test_what_is_not_square_is_refused(shape):
    with pytest.raises(ShapeError, match="square"):
        factor(np.ones(shape))


def test_cross_and_skew_agree():
    a, b = np.random.default_rng(2).normal(size=(2, 3))
    exact = [float(x) for x in np.cross([Fraction(x) for x in a], [Fraction(x) for x in b])]
    size = np.linalg.norm(a) * np.linalg.norm(b)
    np.testing.assert_allclose(cross(a, b), exact, rtol=0, atol=2e-16 * size)
    np.testing.assert_allclose(skew(a) @ b, exact, rtol=0, atol=2e-16 * size)


def test_symmetric_asks_for_the_upper_triangle_only():
    asked = []
    A = symmetric(3, lambda i, j: asked.append((i, j)) or 10 * i + j)
    assert sorted(asked) == [(0, 0), (0, 1), (0, 2), (1, 1), (1, 2), (2, 2)]
    np.testing.assert_array_equal(A, [[0, 1, 2], [1, 11, 12], [2, 12, 22]])


def test_numbers_are_told_from_symbols():
    seen = []
    trace(lambda x: seen.append((is_numeric(x), is_numeric(np.array([1, 2], dtype=object)))) or x, {"x": 2})
    assert seen == [(False, True)]


# -- inverses of matrices that are not symmetric -------------------------------------------------------------


def exact_inverse(A):
    with mpmath.workdps(60):
        return np.array((mpmath.matrix(A.tolist()) ** -1).tolist(), float).reshape(A.shape)


@given(st.integers(0, 2**32 - 1), st.integers(1, 8), st.integers(0, 13))
def test_errors_of_an_inverse_are_round_off_times_the_condition(seed, n, decades):
    """Any regular matrix, with one or several small singular values, against multiple precision."""
    rng = np.random.default_rng(seed)
    U, V = (np.linalg.qr(rng.normal(size=(n, n)))[0] for _ in range(2))
    A = (U * 10 ** rng.choice([0.0, -decades, -decades / 2], n)) @ V
    exact = exact_inverse(A)
    condition = np.linalg.norm(A) * np.linalg.norm(exact)
    assert np.linalg.norm(inverse(A) - exact) <= 1e-15 * n**1.5 * condition * np.linalg.norm(exact)


@given(st.integers(0, 2**32 - 1), st.integers(1, 6), st.floats(-200, 200))
def test_an_inverse_does_not_depend_on_the_units_of_its_columns(seed, n, decade):
    """A D has the inverse D^-1 A^-1 to the last bits, though its condition may be anything."""
    rng = np.random.default_rng(seed)
    A, D = rng.normal(size=(n, n)), 2.0 ** np.round(decade * rng.uniform(-1, 1, n))
    np.testing.assert_array_equal(inverse(A * D), inverse(A) / D[:, None])


def test_inverting_symbols_is_inverting_floats_and_has_its_derivative():
    A = np.random.default_rng(2).normal(size=(5, 5))
    f = trace(inverse, {"A": (5, 5)})
    np.testing.assert_allclose(f(A), np.linalg.inv(A), rtol=1e-12)
    X, slope = np.linalg.inv(A), jacobian(f, "A")(A)
    np.testing.assert_allclose(slope, -np.einsum("ia,bj->ijab", X, X), atol=1e-12 * np.abs(X).max() ** 2)


@pytest.mark.parametrize("sign", [1, -1])
def test_no_reflection_divides_by_zero_where_entries_are_zero(sign):
    """Diagonal matrices, permutations, and columns whose first entry is zero, as numbers of a trace."""
    f = trace(inverse, {"A": (3, 3)})
    for A in (np.eye(3), np.diag([3.0, 1e-8, 2.0]), np.eye(3)[[1, 2, 0]], np.eye(3)[::-1]):
        np.testing.assert_allclose(f(sign * A), np.linalg.inv(sign * A), rtol=1e-15)


def test_what_is_known_to_be_zero_costs_nothing():
    def blocks(a, b):
        A = np.zeros((5, 5), int).astype(object)
        A[0, 0], A[1:3, 1:3], A[3:, 3:] = a, b, [[0, a], [2, 0]]
        return inverse(A)

    X = trace(blocks, {"a": (), "b": (2, 2)}).outputs["blocks"]
    off = [(i, j) for i in range(5) for j in range(5) if {i, j} not in ({0}, {1}, {2}, {1, 2}, {3, 4})]
    assert all(type(X[at]) is not type(X[1, 1]) and float(X[at]) == 0 for at in off)
    triangle = trace(lambda a: inverse(np.triu(a)), {"a": (4, 4)})
    assert "sqrt" not in triangle.operations


def test_matrices_without_an_inverse_are_refused():
    with pytest.raises(ShapeError, match=r"shape \(2, 3\) has no inverse"):
        inverse(np.ones((2, 3)))
    with pytest.raises(ConfigurationError, match="column 1 depends on the ones before it"):
        trace(lambda a: inverse(np.array([[a, 0], [1, 0]])), {"a": ()})
    assert inverse(np.zeros((0, 0))).shape == (0, 0)
