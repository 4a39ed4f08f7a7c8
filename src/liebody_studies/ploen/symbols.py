"""Ploen (1999) in symbols: his propositions for every body, and on small mechanisms."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import sympy

from liebody.bodies import SpatialInertia, TreeBuilder
from liebody.dynamics import Factorization
from liebody.groups import SE3, Revolute
from liebody.scalars.linear import cross
from liebody.symbolic import equations, shortest

from ..compare import Array
from .algorithms import SKEW, J_printed, ad_printed, ad_star_printed, block_diagonal, body_matrix


def proposition_1() -> dict[str, Any]:
    """(31)-(34) in symbols, for any inertia and twist: what each differs from -ad_V^T J V by; all zero.

    "skew" is C_i + C_i^T of Proposition 1, and "printed" its matrix.
    """

    def vector(name: str) -> Array:
        return np.array(sympy.symbols([f"{name}_{k}" for k in "xyz"]), dtype=object)

    def names(key: str) -> Any:
        return sympy.Symbol(f"I_{key}")

    m, r, w, v = sympy.Symbol("m"), vector("r"), vector("omega"), vector("v")
    I = np.array([[names("".join(sorted(a + b))) for b in "xyz"] for a in "xyz"], dtype=object)
    inertia, V = SpatialInertia(m, r, I), np.concatenate([w, v])
    J, C_bar = J_printed(inertia), body_matrix("ploen", inertia, V)
    p = J @ V
    product = np.concatenate([cross(w, p[:3]) + cross(v, p[3:]), cross(w, p[3:])])
    whole = J[:3, :3]
    turning, jacobi = cross(w, whole @ w), cross(w, cross(r, v)) - cross(v, cross(r, w))
    second = -m * cross(w, cross(r, w)) + m * cross(w, v)
    steps = {
        "31": body_matrix("newton-euler", inertia, V) @ V,
        "32": np.concatenate([turning + m * (jacobi + cross(v, v)), second]),
        "33": np.concatenate([turning + m * cross(r, cross(w, v)) + whole @ cross(w, w), second]),
        "34": C_bar @ V,
    }
    rest = {key: sympy.Matrix(x - product).applyfunc(sympy.expand) for key, x in steps.items()}
    return {**rest, "skew": sympy.Matrix(C_bar + C_bar.T).applyfunc(sympy.expand)}


@dataclass(frozen=True, eq=False)
class SymbolicArm:
    """The paper's global matrices of the planar arm of two links, in symbols.

    factors   S, G, Gamma, J, ...
    q, v      angles and their rates
    inertias  of the two links
    equations of the same arm by `liebody.symbolic`
    """

    factors: Factorization
    q: Array
    v: Array
    inertias: tuple[SpatialInertia, ...]
    equations: Any

    @cached_property
    def M(self) -> Any:
        """(24)."""
        return shortest(sympy.Matrix(self.factors.M))

    @cached_property
    def rate(self) -> Any:
        """dM/dt, by differentiating M, not by (28)."""
        terms = (self.M.diff(q) * v for q, v in zip(self.q, self.v, strict=True))
        return shortest(sum(terms, sympy.zeros(2)))

    def C(self, form: str) -> Any:
        """(25), (37), or with the other forms' matrices of the bodies; "hamel" from its definition."""
        if form == "hamel":
            v = sympy.Matrix(self.v)
            return shortest(self.rate - sympy.Matrix([(v.T * self.M.diff(q)) / 2 for q in self.q]))
        f = self.factors
        twists = f.V.reshape(-1, 6)
        middle = block_diagonal([body_matrix(form, I, V) for I, V in zip(self.inertias, twists, strict=True)])
        GS = f.G @ f.S
        return shortest(sympy.Matrix(GS.T @ (f.J @ f.G @ f.ad_Sv @ f.Gamma + middle) @ GS))

    def rest(self, form: str) -> Any:
        """dM/dt - 2 C."""
        return shortest(self.rate - 2 * self.C(form))


def planar_arm() -> SymbolicArm:
    """Link i has the length l_i, its centre of mass at r_i beyond joint i, and the moment I_i about it."""
    m1, m2, l1, r1, r2, I1, I2, g = sympy.symbols("m1 m2 l1 r1 r2 I1 I2 g", positive=True)
    inertias = (
        SpatialInertia(m1, np.array([r1, 0, 0]), np.diag([0, 0, I1])),
        SpatialInertia(m2, np.array([r2, 0, 0]), np.diag([0, 0, I2])),
    )
    builder, hinge = TreeBuilder("planar_arm"), Revolute((0, 0, 1))
    tree = (
        builder.add("link1", hinge, inertias[0]).add("link2", hinge, inertias[1], "link1", [l1, 0, 0]).build()
    )
    q = sympy.symbols("q1 q2", real=True)
    v, a = ([sympy.Symbol(rf"\{d}{{q}}_{{{k}}}", real=True) for k in (1, 2)] for d in ("dot", "ddot"))
    z = np.array([0, 0, 1, 0, 0, 0], dtype=object)
    X = []
    for angle, place in zip(q, (0, l1), strict=True):
        c, s = sympy.cos(angle), sympy.sin(angle)
        turn = np.array([[c, -s, 0], [s, c, 0], [0, 0, 1]], dtype=object)
        X.append(SE3.Ad(SE3.inverse(SE3.motion(turn, np.array([place, 0, 0], dtype=object)))))
    V = [z * v[0]]
    V.append(X[1] @ V[0] + z * v[1])
    zero = np.zeros((6, 6), int)
    factors = Factorization(
        Gamma=np.block([[zero, zero], [X[1], zero]]),
        P_0=np.concatenate([X[0], zero]),
        S=np.array([[*z, *(0 * z)], [*(0 * z), *z]], dtype=object).T,
        J=block_diagonal([J_printed(I) for I in inertias]),
        V=np.concatenate(V),
        ad_Sv=block_diagonal([-ad_printed(z * x) for x in v]),
        ad_V=block_diagonal([-ad_star_printed(x) for x in V]),
        rotors=np.zeros(2, int),
    )
    closed = equations(tree, gravity=(0, -g, 0), q=q, v=v, a=a)
    return SymbolicArm(factors, np.array(q), np.array(v), inertias, closed)


def three_axes() -> tuple[Any, dict[str, Any], Any]:
    """A body on three hinges whose axes meet: its equations, C of the skew forms, and the factor lambda.

    The two bodies between have no mass. C of another form less that of (2) is -lambda [v], 0 or +lambda [v].
    """
    A, B, D = sympy.symbols("A B D", positive=True)
    quarter = SE3.motion(np.array([[0, 0, 1], [0, 1, 0], [-1, 0, 0]]), np.zeros(3))  # z becomes x
    builder = TreeBuilder("three_axes").add("yaw", Revolute((0, 0, 1)))
    builder.add("pitch", Revolute((0, 1, 0)), parent="yaw")
    builder.add("roll", Revolute((0, 0, 1)), SpatialInertia(0, np.zeros(3), [A, B, D]), "pitch", quarter)
    tree = builder.build(check=False)
    rates = [sympy.Symbol(rf"\dot{{q}}_{{{k}}}", real=True) for k in (1, 2, 3)]
    eq = equations(tree, q=sympy.symbols("q1 q2 q3", real=True), v=rates)
    factor = (A + B + D) / 2 * sympy.cos(eq.q[1])
    return eq, {form: eq.coriolis(form) for form in SKEW}, factor


def vanishes(*matrices: Any) -> bool:
    """Whether all entries are the number zero, in normal form."""
    return all(x == 0 for matrix in matrices for x in shortest(sympy.Matrix(matrix)))
