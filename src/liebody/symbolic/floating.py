"""Closed forms of floating bases: the curvature of the mechanical connection, the angle of the locked frame.

Where the velocities of the base are sorted into r that turn and t that translate,

    Mbb = [A, B; B^T, m 1],    J = m A - B B^T,    D = det J,

the momentum (h_w, h_v) of a joint turns the base by w = N / D, N = adj(J) (m h_w - B h_v). The curvature's
angular part is

    d_j w_i - d_i w_j + w_i x w_j  =  ((d_j N_i - d_i N_j) D - N_i d_j D + N_j d_i D + N_i x N_j) / D^2.

N and D are polynomials in sines, cosines and parameters, so that zero is decided without round-off.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import sympy

from ..base.errors import ModelError
from ..bodies import Tree
from ..compiler import jacobian
from ..dynamics import base_dofs, base_momentum_matrix, floating_base
from ..groups import Prismatic, Revolute
from ..scalars import Array
from ..scalars.linear import cross
from .derivation import Derivation


def curvature(equations: Derivation) -> Any:
    """B(q), angular part, (r, n, n)."""
    tree = equations.tree
    r = len(_sorted(tree)[0])
    n = tree.nv - base_dofs(tree)[0].stop
    entries = np.full((r, n, n), sympy.Integer(0))
    if r and n > 1:  # antisymmetric: only pairs i < j are computed
        upper = _upper_curvature(equations)
        for column, (i, j) in enumerate(itertools.combinations(range(n), 2)):
            entries[:, i, j] = upper[:, column].flat()
            entries[:, j, i] = [-x for x in upper[:, column]]
    return sympy.ImmutableDenseNDimArray(entries.ravel().tolist(), (r, n, n))


def locked_angle(equations: Derivation) -> Any:
    """theta_bc(q) of a base that turns about one axis, with one joint: an integral by its antiderivative.

    revolute joint    w = 1/2 + (n - a/2) / (a + b cos q + c sin q)
    prismatic joint   w = d / (a + b q + c q^2)
    """
    tree = equations.tree
    joints = [body for body in tree.bodies[1:] if body.joint.dim]
    if len(_sorted(tree)[0]) != 1 or len(joints) != 1 or joints[0].joint.dim != 1:
        raise ModelError(
            f"tree {tree.name!r} has no closed form of the locked angle: the base has to turn about one "
            "axis, and one joint of one degree of freedom to follow; dynamics.locked_angle integrates "
            "numerically"
        )
    q = equations.q[tree.nq - 1]
    (_, (numerator,)), (_, D) = equations.closed_forms("locked_angle", _parts)
    group = joints[0].joint.group
    if isinstance(group, Prismatic):
        return _of_a_slider(tree, q, numerator, D)
    if isinstance(group, Revolute):
        return _of_a_hinge(tree, q, numerator, D)
    raise ModelError(
        f"joint {joints[0].joint.name!r} of tree {tree.name!r} is {group!r}; the locked angle has a closed "
        "form here for Revolute and Prismatic"
    )


def _of_a_hinge(tree: Tree, q: Any, numerator: Any, D: Any) -> Any:
    """int_0^q of w, with the continuous antiderivative of 1 / (a + b cos q + c sin q), e^2 = a^2 - b^2 - c^2:

    (q - 2 atan((b sin q - c cos q) / (a + e + b cos q + c sin q))) / e.
    """
    half = sympy.pi / 2

    def wave(x: Any) -> tuple[Any, Any, Any]:
        # three values of the wave tell its three coefficients
        at = [x.subs(q, angle) for angle in (0, half, 2 * half)]
        a = (at[0] + at[2]) / 2
        return a, (at[0] - at[2]) / 2, at[1] - a

    a, b, c = wave(D)
    n, n_b, n_c = wave(numerator)
    for x, (x_0, x_b, x_c) in ((D, (a, b, c)), (numerator, (n, n_b, n_c))):
        _same(tree, x, x_0 + x_b * sympy.cos(q) + x_c * sympy.sin(q), D)
    _same(tree, 2 * n_b, b, D)
    _same(tree, 2 * n_c, c, D)
    # the integrand is 1/2 + (n - a/2) / D, with an antiderivative that is continuous for all q
    a, b, c, n = (_tidy(x, D) for x in (a, b, c, n))
    e = sympy.sqrt(sympy.factor(sympy.expand(a**2 - b**2 - c**2)))

    def primitive(x: Any) -> Any:
        turned = b * sympy.sin(x) - c * sympy.cos(x)
        return (x - 2 * sympy.atan(turned / (a + e + b * sympy.cos(x) + c * sympy.sin(x)))) / e

    return q / 2 + sympy.factor(n - a / 2) * (primitive(q) - primitive(sympy.Integer(0)))


def _of_a_slider(tree: Tree, q: Any, numerator: Any, D: Any) -> Any:
    """int_0^q of d / (a + b q + c q^2)."""
    if sympy.expand(numerator) == 0:
        return sympy.Integer(0)
    _same(tree, sympy.diff(numerator, q), 0, numerator)
    a, b, c = (_tidy(sympy.expand(D).coeff(q, k), D) for k in range(3))
    _same(tree, D, a + b * q + c * q**2, D)
    # the discriminant is positive, as D is the determinant of an inertia
    root = sympy.sqrt(sympy.factor(4 * a * c - b**2))
    return 2 * numerator / root * (sympy.atan((2 * c * q + b) / root) - sympy.atan(b / root))


def _same(tree: Tree, x: Any, expected: Any, like: Any) -> None:
    """Decimals are rounded to the size of those in `like`, symbols are exact."""
    # decimals leave round-off, so zero is told by size first and by SymPy where symbols remain
    left = sympy.expand(sympy.expand_trig(x - expected))
    if _tidy(left, like) != 0 and sympy.simplify(left) != 0:
        raise ModelError(
            f"the joint of tree {tree.name!r} does not move in the plane that its base turns in, so the "
            "locked angle has no short closed form; dynamics.locked_angle integrates numerically"
        )


def _tidy(x: Any, like: Any) -> Any:
    """A short form of x, and zero where it is next to the terms of `like`."""
    x = sympy.expand(x)
    return sympy.factor(x) if _largest(x) > 1e-12 * _largest(sympy.expand(like)) else sympy.Integer(0)


def _largest(x: Any) -> float:
    """The largest number in front of a term."""
    return max((abs(float(term.as_coeff_Mul()[0])) for term in sympy.Add.make_args(x)), default=0.0)


# -- polynomials --------------------------------------------------------------------------------------------


def _sorted(tree: Tree) -> tuple[list[int], list[int]]:
    """Which velocities of the base turn, and which translate only."""
    S = floating_base(tree).joint.S
    turning = [k for k in range(S.shape[1]) if np.any(S[:3, k])]
    return turning, [k for k in range(S.shape[1]) if k not in turning]


def _parts(tree: Tree, q: Array) -> tuple[Array, Any]:
    """N, (r, n), and D."""
    turning, sliding = _sorted(tree)
    S = floating_base(tree).joint.S
    # momenta of unit velocities: of the base, then of the joints, along the twists of the base
    momenta = base_momentum_matrix(tree, q)
    h = np.stack([S[:3].T @ column[:3] + S[3:].T @ column[3:] for column in momenta.T], axis=1)
    r = len(turning)
    k = S.shape[1]
    # rows and columns that turn before those that translate, then joints: blocks A, B, h_w, h_v
    order = [*turning, *sliding, *range(k, tree.nv)]
    h = np.stack([h[row][order] for row in (*turning, *sliding)])
    mass = tree.mass if sliding else 1
    A = h[:r, :r]
    B = h[:r, r:k]
    h_w = h[:r, k:]
    h_v = h[r:, k:]
    J = mass * A - B @ B.T if sliding else A
    adjoint, D = _adjugate(J)
    N = adjoint @ (mass * h_w - B @ h_v if sliding else h_w)
    return N, D


def _adjugate(J: Array) -> tuple[Array, Any]:
    """adj(J) and det(J) of a symmetric matrix of 0, 1 or 3 rows."""
    if len(J) == 3:
        adjoint = np.stack([cross(J[1], J[2]), cross(J[2], J[0]), cross(J[0], J[1])], axis=1)
        return adjoint, J[0] @ adjoint[:, 0]
    return np.eye(len(J), dtype=int), J[0, 0] if len(J) else 1


def _upper_curvature(equations: Derivation) -> Any:
    """The columns of pairs i < j, (r, n (n - 1) / 2); N and D are differentiated as graphs."""
    tree = equations.tree
    k = base_dofs(tree)[0].stop
    r = len(_sorted(tree)[0])
    n = tree.nv - k

    def moved(tree: Tree, q: Array, v: Array) -> Array:
        N, D = _parts(tree, tree.group.integrate(q, np.concatenate([np.zeros(k, int), v[k:]])))
        return np.concatenate([np.reshape(N, -1), [D]])

    function = equations.traced(moved, "curvature")
    by_v = jacobian(function, "v")
    still = np.zeros(tree.nv).astype(object)

    def pairs(q: Array, v: Array, *others: Array) -> Array:
        # N, D and their derivatives along the joints, at the same graph
        value = function(q, still, *others)
        rate = by_v(q, still, *others)[:, k:]
        N = np.reshape(value[:-1], (r, n))
        D = value[-1]
        dN = np.reshape(rate[:-1], (r, n, n))
        dD = rate[-1]
        columns = []
        for i in range(n):
            # joints with several degrees of freedom: their fields do not commute
            bracket = tree.group.ad(np.eye(tree.nv)[k + i])[k:, k:]
            for j in range(i + 1, n):
                change = dN[:, i, j] - dN[:, j, i] + N @ bracket[:, j]
                # the numerator of the head's equation; w x w is zero about one axis
                column = change * D - N[:, i] * dD[j] + N[:, j] * dD[i]
                columns.append(column + cross(N[:, i], N[:, j]) if r == 3 else column)
        return np.stack(columns, axis=1) / D / D

    return equations.closed_form("curvature", pairs)
