"""The groups of the study of From (2012): his tables as printed and as they are, his theorem on groups."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import sympy

from liebody import boltzmann_hamel_equations, rigid_body_equations
from liebody import groups as lie
from liebody.compiler import jvp, trace
from liebody.groups import SE3, LieGroup
from liebody.mechanisms import BoltzmannHamel, RigidBody, exponential_transformation

from ..compare import Array
from ..report import rows_of

X, Z = (1.0, 0.0, 0.0), (0.0, 0.0, 1.0)
PITCH = 0.3


@dataclass(frozen=True)
class Row:
    """A row of tables 1 and 2: the group, the paper's order of its velocities, and what is printed.

    shown   the rows and columns of the 4 x 4 matrix that make the paper's V^
    hat, ad, coad  as printed: rows separated by semicolons; None where the paper has no such row
    hat_slip, coad_slip  numbers of the slips in them
    """

    name: str
    group: LieGroup
    order: tuple[int, ...]
    shown: tuple[int, ...]
    hat: str | None
    ad: str | None
    coad: str | None
    hat_slip: str
    coad_slip: str


GROUPS = (
    SE3, lie.Schoenflies(Z), lie.SpatialTranslation(), lie.Planar(Z), lie.Spherical(),
    lie.PlanarTranslation(Z), lie.Prismatic(X), lie.Helical(Z, PITCH), lie.Revolute(Z), lie.Cylindrical(Z),
    lie.PlanarHelical(Z, PITCH),
)  # fmt: skip


def _row(cells: dict[str, str], group: LieGroup) -> Row:
    order, shown = (tuple(map(int, cells[key].split())) for key in ("order", "shown"))
    hat, ad, coad = (cells[key] or None for key in ("hat", "ad", "coad"))
    return Row(cells["name"], group, order, shown, hat, ad, coad, cells["hat slip"], cells["coad slip"])


ROWS = tuple(_row(cells, group) for cells, group in zip(rows_of(__package__, "tables"), GROUPS, strict=True))


def heisenberg() -> LieGroup:
    """Upper unitriangular 3 x 3 matrices, defined as a user would."""

    class Heisenberg(LieGroup):
        n, dim = 3, 3

        def hat(self, u: Array) -> Array:
            return np.array([[0, u[0], u[2]], [0, 0, u[1]], [0, 0, 0]])

    return Heisenberg()


def affine() -> LieGroup:
    """Maps x -> a x + b of the line: the bracket [e_1, e_2] = e_2 alone."""
    structure = np.zeros((2, 2, 2))
    structure[1, 0, 1], structure[1, 1, 0] = 1, -1
    return lie.AdjointGroup(structure, "Aff(1)")


def general_linear(special: bool = False) -> LieGroup:
    """GL(2), or SL(2), by a basis of matrices."""
    h, e, f, one = [[1, 0], [0, -1]], [[0, 1], [0, 0]], [[0, 0], [1, 0]], [[1, 0], [0, 1]]
    return lie.MatrixGroup([h, e, f] if special else [h, e, f, one], "SL(2)" if special else "GL(2)")


def theorem_groups() -> list[tuple[str, LieGroup]]:
    """The groups of section 5 here: all of the tables, and four that do not move bodies."""
    more = [
        ("$GL(2)$", general_linear()), ("$SL(2)$", general_linear(special=True)),
        ("Heisenberg", heisenberg()), ("Aff(1)", affine()),
    ]  # fmt: skip
    return [(row.name, row.group) for row in ROWS] + more


def table_row(row: Row) -> dict[str, Any]:
    """V^, ad_V and ad~_p of a group as SymPy matrices, in the paper's order of velocities."""
    e = rigid_body_equations(row.group)
    twist = sympy.zeros(6, 1)
    if row.group == SE3:
        twist = e.v
    else:
        columns = getattr(row.group, "S")  # noqa: B009  a motion subgroup
        S = sympy.Matrix(6, e.group.dim, [sympy.nsimplify(x) for x in columns.flat])
        if hasattr(row.group, "pitch"):
            S[5, 0] = sympy.Symbol("h", real=True)
        twist = S * e.v
    matrix = sympy.Matrix(SE3.hat(np.array(list(twist), dtype=object)))
    order = list(row.order)
    new = {e.momenta[k]: sympy.Symbol(f"p_{i + 1}", real=True) for i, k in enumerate(order)}
    return {
        "hat": matrix[list(row.shown), list(row.shown)],
        "ad": e.ad[order, order],
        "coad": e.coad[order, order].subs(new, simultaneous=True),
    }


def printed(text: str) -> Any:
    """A matrix as the paper prints it."""

    def entry(word: str) -> Any:
        name = word.lstrip("-")
        if name == "0":
            return sympy.Integer(0)
        symbol = sympy.Symbol(f"p_{name[1:]}" if len(name) > 1 else name, real=True)
        return -symbol if word.startswith("-") else symbol

    return sympy.Matrix([[entry(word) for word in line.split()] for line in text.split(";")])


def derivative_of_exp(group: LieGroup, phi: Array) -> Array:
    """(g^-1 dg/dphi_j)^v at g = exp(phi), column by column, by the derivative of the graph of exp."""
    derivative = jvp(trace(group.exp, {"u": (group.dim,)}, name="exp"), "u")
    inverse = group.inverse(group.exp(phi))
    columns = [group.vee(inverse @ derivative(phi, e)) for e in np.eye(group.dim)]
    return np.stack(columns, axis=1)


def hat_error(row: Row) -> float:
    """The largest entry of the difference of V^ as printed and as it is, all velocities and the pitch one."""
    ours, theirs = table_row(row)["hat"], printed(row.hat or "0")
    rest = (theirs if theirs.shape == ours.shape else 0 * ours) - ours
    return float(max(abs(x.subs(dict.fromkeys(x.free_symbols, 1))) for x in rest))


def hat_closure(row: Row) -> float:
    """How far the bracket of two matrices V^ of the group is from the V^ of [v, w] = ad_v w."""
    rng, S = np.random.default_rng(3), RigidBody(row.group, np.eye(row.group.dim)).twists
    v, w = rng.standard_normal((2, row.group.dim))
    a, b = np.asarray(SE3.hat(S @ v)), np.asarray(SE3.hat(S @ w))
    return off(a @ b - b @ a, SE3.hat(S @ (row.group.ad(v) @ w)))


def theorem_errors(group: LieGroup, seed: int = 5) -> tuple[float, float, float, float, float, float]:
    """|C|, and deviations: gamma_k from c; (54) at any phi; (57); C v from -ad_v^T M v; C from skew."""
    rng = np.random.default_rng(seed)
    n = group.dim
    M, (v, phi) = random_matrix(rng, n), rng.standard_normal((2, n))
    body = RigidBody(group, M)
    system = BoltzmannHamel(exponential_transformation(group), M)
    C = body.coriolis(v)
    series = BoltzmannHamel(exponential_transformation(group, terms=3), M)
    constants = off(system.hamel_coefficients(phi), body.structure.transpose(2, 1, 0))
    anywhere, at_zero = off(system.coriolis(phi, v), C), off(series.coriolis(np.zeros(n), v), C)
    force = off(C @ v, -group.ad(v).T @ M @ v)
    return float(np.abs(C).max()), constants, anywhere, at_zero, force, off(C, -C.T)


def symbolic_proofs() -> dict[str, bool]:
    """Whether (54) is ad~_(M v) at every point, by SymPy from closed forms of S, with general inertia."""
    proved = {}
    for name, group in (("$SE(2)$", lie.Planar(Z)), ("Heisenberg", heisenberg()), ("Aff(1)", affine())):
        e = rigid_body_equations(group, "general")
        x = sympy.symbols(f"x_1:{group.dim + 1}", real=True)
        ad = e.ad.subs(dict(zip(e.velocities, x, strict=True)), simultaneous=True)
        one = sympy.eye(group.dim)
        if name == "$SE(2)$":
            th = x[0]
            S = one - (1 - sympy.cos(th)) / th**2 * ad + (th - sympy.sin(th)) / th**3 * ad**2
        elif name == "Heisenberg":
            S = one - ad / 2
        else:  # ad^2 = x_1 ad
            S = one - (sympy.exp(-x[0]) - 1 + x[0]) / x[0] ** 2 * ad
        h = boltzmann_hamel_equations(S, e.M, coordinates=x, velocities=e.velocities, simplify=False)
        rest = (h.C - e.C).applyfunc(sympy.simplify)
        proved[name] = bool(rest.is_zero_matrix)
    return proved


def random_matrix(rng: np.random.Generator, n: int) -> np.ndarray:
    """A random symmetric positive definite matrix of order one: no rigid body's, in general."""
    A = rng.standard_normal((n, n))
    return A @ A.T / n + np.eye(n)


def off(A: Array, B: Array) -> float:
    """The largest deviation of an entry."""
    return float(np.abs(np.asarray(A, float) - np.asarray(B, float)).max(initial=0.0))
