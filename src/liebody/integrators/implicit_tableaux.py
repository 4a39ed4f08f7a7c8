"""Implicit and half-explicit Runge-Kutta methods as data that checks itself.

As in `tableaux`, every order condition of rooted trees is verified when a tableau is made, exactly: the
entries lie in a field Q(sqrt d), and are computed with as pairs of fractions.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np

from ..base.errors import IntegrationError
from .tableaux import ButcherTableau, dot, printed

TERM = re.compile(r"([+-]?)(\d+(?:/\d+)?)?(r?)")


@dataclass(frozen=True)
class Surd:
    """a + b sqrt(d) with fractions a, b: exact arithmetic of the coefficients of Gauss and Radau."""

    a: Fraction
    b: Fraction
    d: int

    @classmethod
    def read(cls, text: str, d: int) -> Surd:
        """From text like "11/45-7/360r", where r is sqrt(d)."""
        # The terms add up in two sums: a of those without r, b of the coefficients of r; "r" alone is 1 r.
        a = b = Fraction(0)
        if not re.fullmatch(rf"(?:{TERM.pattern})+", text):
            raise IntegrationError(f"{text!r} is no entry of a tableau, such as 11/45-7/360r")
        for sign, number, root in TERM.findall(text):
            value = Fraction(number or (1 if root else 0)) * (-1 if sign == "-" else 1)
            a, b = (a, b + value) if root else (a + value, b)
        return cls(a, b, d)

    def _other(self, x: Any) -> Surd:
        return x if isinstance(x, Surd) else Surd(Fraction(x), Fraction(0), self.d)

    def __add__(self, other: Any) -> Surd:
        x = self._other(other)
        return Surd(self.a + x.a, self.b + x.b, self.d)

    def __mul__(self, other: Any) -> Surd:
        x = self._other(other)
        return Surd(self.a * x.a + self.d * self.b * x.b, self.a * x.b + self.b * x.a, self.d)

    __radd__, __rmul__ = __add__, __mul__

    def __sub__(self, other: Any) -> Surd:
        return self + self._other(other) * -1

    def __bool__(self) -> bool:
        # If d is no square, a + b sqrt(d) = 0 only with a = b = 0. For d = 1, the default, entries have no r.
        return bool(self.a or self.b)

    def __float__(self) -> float:
        return float(self.a) + float(self.b) * float(self.d) ** 0.5

    def __str__(self) -> str:
        return f"{self.a} + {self.b} sqrt({self.d})"


@dataclass(frozen=True, eq=False, repr=False)
class ImplicitTableau(ButcherTableau):
    """A Runge-Kutta method for implicit or half-explicit use, verified on construction.

    name    how it is called
    A, b, c coefficients (s, s), weights (s,), nodes (s,), as text in which r stands for sqrt(root)
    order   of the result: every order condition of rooted trees up to it is checked
    root    d of r = sqrt(d)
    collocation  whether it is a collocation method, sum_j A_ij c_j^(k-1) = c_i^k/k for k up to s: then A has
            an inverse, and the stages have order s
    stiffly_accurate  whether the last stage is the result; with A regular this makes it L-stable
    half_explicit  whether A is strictly lower triangular with entries A_(i+1) i and b_s that are not zero,
            and the conditions of order 3 in index 2 hold (Brasey, Hairer)
    source  where it was published

    Errors: IntegrationError, naming the condition that does not hold.
    """

    root: int = 1
    collocation: bool = False
    stiffly_accurate: bool = False
    half_explicit: bool = False
    source: str = ""

    def __post_init__(self) -> None:
        A, b, _ = self._check(Fraction(0))
        if self.collocation:
            self._require_collocation(A)
        if self.stiffly_accurate:
            self._require(
                not any(x - y for x, y in zip(A[-1], b, strict=True)), "the last row of A differs from b"
            )
        if self.half_explicit:
            self._require_half_explicit()

    def _exact(self, entry: str) -> Surd:
        return Surd.read(entry, self.root)

    def _require_collocation(self, A: list[list[Surd]]) -> None:
        # k = 1 holds by the definition of c. `powers` are c^(k-1), `following` c^k.
        c = [sum(row) for row in A]
        powers = [self._exact("1") for _ in c]
        for k in range(1, len(c) + 1):
            following = [x * y for x, y in zip(powers, c, strict=True)]
            for i, row in enumerate(A):
                defect = following[i] * Fraction(1, k) - dot(row, powers)
                self._require(not defect, f"row {i} of A does not integrate polynomials of degree {k - 1}")
            powers = following

    def _require_half_explicit(self) -> None:
        """With w the inverse of A without its first row, above b, and c_(s+1) = 1:

        sum_ij b_i c_i w_ij c_(j+1)^2 = 2/3,  sum_ijk b_i w_ij c_(j+1)^2 w_ik c_(k+1)^2 = 4/3.
        """
        # Every stage is determined by the constraint at the next one, and the last stage by the result: so
        # the rows of A move up by one. The matrix must be regular for the multipliers to exist.
        shifted = np.vstack([self.A[1:], self.b])
        explicit = not np.triu(self.A).any() and np.diag(shifted).all()
        self._require(bool(explicit), "it is not half-explicit")
        # Two conditions beyond the ones of rooted trees, in floats: inverses of surds would need division.
        if self.order >= 3:
            slope = np.linalg.solve(shifted, np.append(self.c[1:], 1.0) ** 2)
            for value, wanted in ((self.b @ (self.c * slope), 2 / 3), (self.b @ slope**2, 4 / 3)):
                holds = bool(abs(value - wanted) < 1e-13)
                self._require(holds, f"in index 2 it has {value:.6g} for {wanted:.6g}")

    def __repr__(self) -> str:
        return f"ImplicitTableau({self.name!r}, order {self.order}, {self.stages} stages)"


DATA = printed(
    """
gauss2 order=2 collocation: the implicit midpoint rule
  1/2 | 1/2
      | 1

gauss4 order=4 root=3 collocation: Hammer, Hollingsworth (1955)
  1/2-1/6r | 1/4      1/4-1/6r
  1/2+1/6r | 1/4+1/6r 1/4
           | 1/2      1/2

gauss6 order=6 root=15 collocation: Kuntzmann (1961), Butcher (1964)
  1/2-1/10r | 5/36       2/9-1/15r 5/36-1/30r
  1/2       | 5/36+1/24r 2/9       5/36-1/24r
  1/2+1/10r | 5/36+1/30r 2/9+1/15r 5/36
            | 5/18       4/9       5/18

radau1 order=1 collocation stiffly_accurate: the implicit Euler method
  1 | 1
    | 1

radau3 order=3 collocation stiffly_accurate: Radau IIA: Ehle (1969)
  1/3 | 5/12 -1/12
  1   | 3/4  1/4
      | 3/4  1/4

radau5 order=5 root=6 collocation stiffly_accurate: Radau IIA: Ehle (1969); Hairer, Wanner, Solving \
    Ordinary Differential Equations II, table IV.5.6
  2/5-1/10r | 11/45-7/360r     37/225-169/1800r -2/225+1/75r
  2/5+1/10r | 37/225+169/1800r 11/45+7/360r     -2/225-1/75r
  1         | 4/9-1/36r        4/9+1/36r        1/9
            | 4/9-1/36r        4/9+1/36r        1/9

hem3 order=3 half_explicit: Brasey, Hairer, SIAM J. Numer. Anal. 30 (1993)
  0   |
  1/3 | 1/3
  1   | -1 2
      | 0  3/4 1/4

hem4 order=4 root=6 half_explicit: Brasey, Hairer, SIAM J. Numer. Anal. 30 (1993): HEM4
  0         |
  3/10      | 3/10
  2/5-1/10r | 1/30+1/30r       11/30-2/15r
  2/5+1/10r | -79/150-31/150r  -1/30-2/15r 24/25+11/25r
  1         | 7/3+5/6r         -4/3+7/6r   -9/4-7/4r    9/4-1/4r
            | 0                0           4/9-1/36r    4/9+1/36r 1/9
"""
)


@cache
def implicit_tableau(name: str) -> ImplicitTableau:
    """The verified tableau of this name."""
    return ImplicitTableau(name=name, **DATA[name])
