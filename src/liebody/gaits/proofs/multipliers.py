"""Enclosures of the multipliers of an orbit: eigenvalues of the derivative P of its return map.

P is not a product of derivatives of steps, whose bounds would grow. The derivatives of all states by the
start are one solution of the linear system of `system`, with x_0 = e in place of the closing equation, and
the preconditioned system bounds its error in all steps at once.

With approximate eigenvectors V, P V = V L + R, so P has the eigenvalues of L + V^-1 R. They lie in discs
around the diagonal of L with the radius |V^-1 R| <= |W R| / (1 - |I - W V|), W about V^-1, in the maximum
norm (Gershgorin). This part is exact arithmetic of fractions.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from ...compiler import NotProved, exactly, middle, outward
from .blocks import ROUNDED, TINY, TRIES, BlockElimination
from .equations import ProofError
from .system import Enclosed, StepEquations, upwards

Array = Any
Complex = tuple[Fraction, Fraction]
Matrix = list[list[Complex]]


def return_map_slope(problem: StepEquations, found: Enclosed) -> Array:
    """The derivative of the return map, (N, N, 2), without the coordinates of symmetries and of y_j = c."""
    last = problem.equations.phases[-1]
    N = problem.equations.phases[0].size
    n = len(found.radius)
    linear = BlockElimination(found.A, from_start=True)
    away = found.A.away(linear.M)
    right = np.concatenate([np.zeros((n - N, N)), np.eye(N)])
    X = linear.solve(right)
    # the error E of X: M E = (B - M X) - (A - M) (X + E)
    rest = (linear.left(exactly(right), X) + linear.varied(away, np.abs(X))) * ROUNDED
    error = linear.bound(rest)
    for _ in range(TRIES):
        tried = 1.5 * error + TINY
        error = linear.bound((rest + linear.varied(away, tried)) * ROUNDED)
        if (error < tried).all():
            break
    else:
        raise ProofError(
            "the multipliers cannot be enclosed: derivatives vary too much in the box of the orbit"
        )
    # the state at the end of the last phase, before its factor
    at = slice(n - 1 - last.size, n - 1)
    ends = upwards(np.stack([error[at] - X[at], error[at] + X[at]], axis=-1))
    boxes, _ = found.phases[-1]
    _, slope = problem.jump(last, boxes[-1])
    return _across(problem, problem.library.product(slope, ends), found.phases[0][0][0])


def _across(problem: StepEquations, P: Array, start: Array) -> Array:
    """The derivative across the symmetries, in the section y_j = c, and of rotations.

    A change y of the state is the same up to the symmetries as y - sum_a xi_a y_(j_a), which is zero in their
    coordinates j_a. A change of a unit quaternion q is normal to q: one of its entries follows from the
    others. The closing makes all changes so.

    start  the box (N, 2) of the first state
    """
    library = problem.library
    symmetries = problem.equations.symmetries
    for symmetry, xi in zip(symmetries, problem.translations, strict=True):
        moved = library.combine("mul", xi[:, None], P[symmetry.coordinate][None])
        P = library.combine("sub", P, moved)
    j = problem.equations.phases[-1].coordinate
    left_out = [symmetry.coordinate for symmetry in symmetries] + ([] if j is None else [j])
    closing = problem.equations.closing
    for rotation in [] if closing is None else closing.rotations:
        places = [k for k in range(rotation.place, rotation.place + 4) if k != j]
        i = max(places, key=lambda k: abs(middle(start[k])))
        for k in places:
            if k != i:
                share = library.combine("div", start[k], start[i])
                P[:, k] = library.combine("sub", P[:, k], library.combine("mul", P[:, i], share))
        left_out.append(i)
    return np.delete(np.delete(P, left_out, axis=0), left_out, axis=1)


def largest_modulus(problem: StepEquations, P: Array) -> float:
    """An upper bound of the moduli of all eigenvalues: the least of |P^k|^(1/k) in the maximum norm.

    It holds where eigenvectors are not independent, as with several multipliers that are zero.
    """
    library = problem.library
    bound = math.inf
    power = P
    for j in range(9):
        norm = float(upwards(upwards(power.max(axis=-1)).sum(axis=-1) * (1 + 1e-14)).max(initial=0.0))
        bound = min(bound, norm ** (0.5**j) * (1 + 1e-14))
        try:
            power = library.product(power, power)
        except NotProved:  # larger than all doubles
            break
    return bound


def discs(P: Array) -> tuple[Array, float]:
    """Centres of discs, the largest first, and the radius of all.

    They contain the eigenvalues of all matrices in P. As many eigenvalues as discs lie in a union of discs
    that meets no other one.
    """
    centre = middle(P)
    values, V = np.linalg.eig(centre)
    try:
        W = np.linalg.inv(V)
    except np.linalg.LinAlgError:
        W = np.linalg.pinv(V)
    eigenvectors = _exact(V)
    inverse = _exact(W)
    n = len(values)
    # R = P V - V L: its middle, and the radii of its entries
    lower = [[-Fraction(float(x[0])) for x in row] for row in P]
    upper = [[Fraction(float(x[1])) for x in row] for row in P]
    half = Fraction(1, 2)
    middles = [[((a + b) * half, Fraction(0)) for a, b in zip(*rows)] for rows in zip(lower, upper)]
    radii = [[(b - a) * half for a, b in zip(*rows)] for rows in zip(lower, upper)]
    R = _minus(_product(middles, eigenvectors), _product(eigenvectors, _exact(np.diag(values))))
    around = [
        [sum(r * _size(x) for r, x in zip(row, column)) for column in zip(*eigenvectors)] for row in radii
    ]
    # |W R| with all its errors, and |I - W V|
    rest = _product(inverse, R)
    norm = max(
        sum(map(_size, rest[i])) + sum(_size(x) * sum(row) for x, row in zip(inverse[i], around))
        for i in range(n)
    )
    unit = _exact(np.eye(n))
    off = max(sum(map(_size, row)) for row in _minus(unit, _product(inverse, eigenvectors)))
    bound = Fraction(norm / (1 - off)) if off < 1 else None
    radius = math.inf if bound is None else outward((bound, bound))[1]
    order = np.argsort(-np.abs(values), kind="stable")
    return np.asarray(values, complex)[order], radius


def _exact(M: Array) -> Matrix:
    return [
        [(Fraction(float(x.real)), Fraction(float(x.imag))) for x in row] for row in np.asarray(M, complex)
    ]


def _product(A: Matrix, B: Matrix) -> Matrix:
    return [[_inner(row, column) for column in zip(*B)] for row in A]


def _inner(x: Sequence[Complex], y: Sequence[Complex]) -> Complex:
    real = sum((a * c - b * d for (a, b), (c, d) in zip(x, y)), Fraction(0))
    imaginary = sum((a * d + b * c for (a, b), (c, d) in zip(x, y)), Fraction(0))
    return real, imaginary


def _minus(A: Matrix, B: Matrix) -> Matrix:
    return [[(a - c, b - d) for (a, b), (c, d) in zip(*rows)] for rows in zip(A, B)]


def _size(x: Complex) -> Fraction:
    """An upper bound of |x|, exact if x is real."""
    a, b = abs(x[0]), abs(x[1])
    return a if b == 0 else b if a == 0 else min(a + b, Fraction(_hypotenuse(a, b)))


def _hypotenuse(a: Fraction, b: Fraction) -> float:
    """A double above sqrt(a^2 + b^2): the nearest one is tried, and then larger ones."""
    size = math.hypot(float(a), float(b))
    while Fraction(size) ** 2 < a * a + b * b:
        size = math.nextafter(size, math.inf)
    return size
