"""The equations of one rigid body on paper: scalar by scalar, with named symbols, for any Lie group.

SymPy is imported where it is used: pip install sympy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from ..base.arguments import checked, short, wrong_shape
from ..base.errors import ModelError, ShapeError, require
from ..compiler import to_sympy, trace
from ..groups import SE2, SE3, SO2, SO3, LieGroup, MotionSubgroup, RealGroup, SO3xR3
from ..mechanisms import structure_constants
from ..scalars import Array

Names = Sequence[str]

AXES = "xyz"
LETTERS = "pqruvw"  # of angular and linear velocity along x, y, z: From, and marine craft
KINDS = ("principal", "diagonal", "body", "general")


class CallableText(str):
    """A text that is its own result when it is called: `x.text` and `x.text()` are the same."""

    __slots__ = ()

    def __call__(self) -> str:
        return str(self)


@dataclass(frozen=True)
class RigidBodyEquations:
    """M dv/dt + C(v) v = tau of a body on a group, as SymPy matrices and as scalar equations.

    group       the group
    velocities, rates, efforts   the symbols of v, dv/dt and tau
    momenta     symbols p_1, ... that stand for M v in `coad`
    M           inertia, (dim, dim)
    ad          the matrix ad_v of the bracket
    coad        ad~_p, the Coriolis matrix in terms of the momentum p = M v (From, table 1)

    `text()` and `latex()` print the scalar equations.
    """

    group: LieGroup
    velocities: tuple[Any, ...]
    rates: tuple[Any, ...]
    efforts: tuple[Any, ...]
    momenta: tuple[Any, ...]
    M: Any
    ad: Any
    coad: Any

    @property
    def v(self) -> Any:
        """The velocities as a column."""
        return _sympy().Matrix(self.velocities)

    @property
    def momentum(self) -> Any:
        """M v, a column."""
        return self.M * self.v

    @property
    def C(self) -> Any:
        """C(v) = ad~_(M v)."""
        values = dict(zip(self.momenta, self.momentum, strict=True))
        return self.coad.subs(values, simultaneous=True)

    @property
    def left(self) -> Any:
        """M dv/dt + C(v) v, a column; like products of velocities are collected."""
        sympy = _sympy()
        return sympy.Matrix([sympy.Add(*(c * m for c, m in row)) for row in self._terms])

    @property
    def equations(self) -> list[Any]:
        """The scalar equations, one a coordinate."""
        Eq = _sympy().Eq
        return [Eq(left, tau, evaluate=False) for left, tau in zip(self.left, self.efforts, strict=True)]

    @property
    def text(self) -> CallableText:
        """`text()`: the equations as lines of text. The text itself, too; without a call it is deprecated."""
        return CallableText("\n".join(self._lines(str, "*", "=")))

    @property
    def latex(self) -> CallableText:
        """`latex()`: the equations as aligned lines of LaTeX. Without a call it is deprecated, as `text`."""
        lines = self._lines(_sympy().latex, " ", "&=")
        return CallableText(r"\begin{aligned} " + r" \\ ".join(lines) + r" \end{aligned}")

    def _lines(self, printed: Callable[[Any], str], times: str, equals: str) -> Iterator[str]:
        """The equations, one a line, in a language."""
        for row, tau in zip(self._terms, self.efforts, strict=True):
            yield f"{_sum(row, printed, times)} {equals} {printed(tau)}"

    @property
    def _terms(self) -> list[list[tuple[Any, Any]]]:
        """For each equation, coefficients and the products of velocities they stand before."""
        sympy = _sympy()
        columns = self.M * sympy.Matrix(self.rates) + self.C * self.v
        # each equation as a polynomial in rates and velocities: like products are collected
        symbols = (*self.rates, *self.velocities)
        rows: list[list[tuple[Any, Any]]] = []
        for entry in columns:
            if (entry := sympy.expand(entry)) == 0:
                rows.append([])
                continue
            terms = sympy.Poly(entry, *symbols).terms()
            rows.append(
                [
                    (sympy.factor(c), sympy.Mul(*(s**k for s, k in zip(symbols, powers, strict=True))))
                    for powers, c in terms
                ]
            )
        return rows

    def _repr_latex_(self) -> str:
        return f"$\\displaystyle {self.latex()}$"

    def __str__(self) -> str:
        return self.text()

    def __repr__(self) -> str:
        return f"RigidBodyEquations({self.group}):\n{self.text()}"


@checked
def rigid_body_equations(
    group: LieGroup,
    inertia: str | Any = "principal",
    *,
    velocities: Sequence[str] | None = None,
    efforts: Sequence[str] | None = None,
) -> RigidBodyEquations:
    """The equations M dv/dt + C(v) v = tau of a body on `group`, in symbols.

    inertia     "principal": a body whose frame lies at its centre of mass, along its principal axes: m, I_x,
                I_y, I_z. "diagonal": three different masses m_u, m_v, m_w as well, as of a body with planes
                of symmetry in a fluid. "body": any body, with the products of inertia about the frame I_xy,
                ... and the first moments m c_x, ... "general": M_11, M_12, ..., any symmetric M.
                Or a symmetric matrix of SymPy expressions or numbers, (dim, dim), or (6, 6), angular first,
                for SE3 and its subgroups. Only "general" and a matrix for groups that do not move a body
    velocities  names; by default p, q, r for rotations about x, y, z, u, v, w for translations along them,
                and v_1, v_2, ... for other groups. Their rates are these with `dot`: LaTeX prints a dot
    efforts     names; by default tau_ and the name of the velocity

    A helical group's pitch is the symbol h. `mechanisms.RigidBody` has the same equations in numbers.

    Raises ModelError for names that collide, for an inertia that is not symmetric, is singular whatever its
    symbols are, or is made of numbers and not positive definite, and for a group whose bracket is none;
    ShapeError for wrong shapes.
    """
    # symbols of velocities, rates, efforts and momenta, by their names
    sympy = _sympy()
    c = structure_constants(group)
    n = group.dim
    names = _names(group) if velocities is None else list(velocities)
    tau_names = [f"tau_{name.replace('_', '')}" for name in names] if efforts is None else list(efforts)
    for what, words in (("velocities", names), ("efforts", tau_names)):
        if len(words) != n:
            raise ShapeError(
                f"{len(words)} names of {what} ({', '.join(words)}) for {group} of dimension {n}"
            )
    v, rates, tau, p = (
        tuple(sympy.Symbol(name, real=True) for name in family)
        for family in (names, map(_dotted, names), tau_names, (f"p_{i + 1}" for i in range(n)))
    )
    M = _inertia(sympy, group, inertia, names)
    _refuse_collisions(
        {
            "velocities": [s.name for s in v],
            "rates": [s.name for s in rates],
            "efforts": [s.name for s in tau],
            "inertia": sorted({s.name for s in M.free_symbols}),
        }
    )
    if {s.name for s in p} & {s.name for s in (*v, *M.free_symbols)}:
        p = tuple(sympy.Symbol(f"P_{i + 1}", real=True) for i in range(n))
    # [e_i, e_j] = c_kij e_k: the matrices of v -> ad_v and p -> ad~_p
    ad = sympy.zeros(n, n)
    coad = sympy.zeros(n, n)
    for k, i, j in np.argwhere(c):
        number = _rational(sympy, c[k, i, j])
        ad[int(k), int(j)] += number * v[i]
        coad[int(i), int(j)] += number * p[k]
    return RigidBodyEquations(group, v, rates, tau, p, M, ad, coad)


@dataclass(frozen=True)
class BoltzmannHamelEquations:
    """The Boltzmann-Hamel equations of v = S(x) dx/dt with constant M, as SymPy matrices.

    coordinates, velocities  the symbols of x and v
    M, S        inertia and velocity transformation, (n, n)
    rates       dx/dt = S^-1 v, a column
    gamma       Hamel's coefficients (gamma_k)_ij as a list over k of (n, n); From, eq. (46)
    C           Coriolis matrix C(x, v), From, eq. (54): skew, C v the bias forces
    """

    coordinates: tuple[Any, ...]
    velocities: tuple[Any, ...]
    M: Any
    S: Any
    rates: Any
    gamma: list[Any]
    C: Any


def boltzmann_hamel_equations(
    S: Callable[[Array], Array] | Any,
    inertia: Any,
    *,
    coordinates: Names | None = None,
    velocities: Names | None = None,
    simplify: bool = True,
) -> BoltzmannHamelEquations:
    """The Boltzmann-Hamel equations in symbols, from any velocity transformation v = S(x) dx/dt.

    S           takes x (n,) and returns (n, n), as for `mechanisms.BoltzmannHamel`; or a SymPy matrix in the
                symbols `coordinates`
    inertia     M, (n, n), of SymPy expressions or numbers
    coordinates, velocities  names (or, for a SymPy matrix, symbols); x_1, ... and v_1, ... by default
    simplify    simplify each entry of gamma, C and the rates

    Raises ModelError for names that collide and for an S that is singular everywhere.
    """
    sympy = _sympy()
    M = _matrix(sympy, "inertia", inertia)
    n = M.rows
    _check_symbolic_inertia(sympy, M, n)
    x = _symbols(sympy, coordinates, "x", n)
    v = _symbols(sympy, velocities, "v", n)
    families = {"coordinates": x, "velocities": v, "inertia": tuple(M.free_symbols)}
    _refuse_collisions({what: sorted(s.name for s in symbols) for what, symbols in families.items()})
    matrix = (
        to_sympy(trace(S, {"x": (n,)}, name="S"), {"x": list(x)})["S"]
        if callable(S)
        else _matrix(sympy, "S", S)
    )
    if matrix.shape != (n, n):
        raise wrong_shape("S(x)", matrix.shape, f"that of the inertia, ({n}, {n})")
    tidy = sympy.simplify if simplify else lambda entry: entry
    # without an inverse the coordinates' rates do not follow from the velocities
    if tidy(matrix.det()) == 0:
        raise ModelError("S(x) is singular at every x, and v = S(x) dx/dt are no velocities")
    inverse = matrix.inv().applyfunc(tidy)

    # curl of the rows of S, seen in the velocities
    curls = []
    for j in range(n):
        rows = [[matrix[j, a].diff(x[b]) - matrix[j, b].diff(x[a]) for b in range(n)] for a in range(n)]
        curls.append(inverse.T * sympy.Matrix(rows) * inverse)  # [i, k]: (gamma_k)_ij
    curls = [curl.applyfunc(tidy) for curl in curls]
    # the same numbers in the order of gamma_k; C sums them with the momentum of each velocity
    gamma = [sympy.Matrix(n, n, lambda i, j, k=k: curls[j][i, k]) for k in range(n)]
    momentum = M * sympy.Matrix(v)
    C = sum((momentum[s] * curls[s] for s in range(n)), sympy.zeros(n, n)).applyfunc(tidy)
    return BoltzmannHamelEquations(x, v, M, matrix, inverse * sympy.Matrix(v), gamma, C)


# -- names and numbers --------------------------------------------------------------------------------------


def _sympy() -> Any:
    require("equations in symbols", "sympy", extra="sympy")
    import sympy

    return sympy


def _names(group: LieGroup) -> list[str]:
    """p, q, r, u, v, w where the velocities turn about or slide along x, y, z; else v_1, v_2, ..."""
    # the letters of marine craft, where each velocity has one
    known = {SE2: "ruv", SO3: "pqr", SO2: "r", SE3: LETTERS, SO3xR3: LETTERS}
    if isinstance(group, MotionSubgroup):
        letters = [_letter(column) for column in group.S.T]
        if all(letters) and len(set(letters)) == len(letters):
            return [str(letter) for letter in letters]
    elif group in known:
        return list(known[group])
    elif isinstance(group, RealGroup) and group.dim <= 3:
        return list("uvw"[: group.dim])
    return [f"v_{i + 1}" for i in range(group.dim)]


def _letter(twist: np.ndarray) -> str | None:
    """The letter of a twist along a coordinate axis; of its rotation if it is helical."""
    angular = twist[:3]
    linear = twist[3:]
    for part, letters in ((angular, LETTERS[:3]), (linear, LETTERS[3:])):
        if part.any():
            along = np.flatnonzero(part)
            # along one axis, and not about a line beside the origin
            straight = len(along) == 1 and part[along[0]] == 1 and not np.cross(part, linear).any()
            return letters[along[0]] if straight else None
    return None


def _twists(sympy: Any, group: LieGroup) -> Any:
    """S (6, dim), a helical group's pitch as the symbol h; None for groups that do not move a body."""
    if group == SE3:
        return sympy.eye(6)
    if not isinstance(group, MotionSubgroup):
        return {SO3: sympy.eye(6)[:, :3], SE2: sympy.eye(6)[:, 2:5]}.get(group)
    S = sympy.Matrix(6, group.dim, [_rational(sympy, x) for x in group.S.flat])
    if hasattr(group, "pitch"):
        h = sympy.Symbol("h", real=True)
        for j in range(group.dim):
            if any(S[:3, j]):
                # the pitch is the part of the translation along the axis
                axis = S[:3, j]
                S[3:, j] = S[3:, j] + (h - _rational(sympy, group.pitch)) * axis
    return S


def _inertia(sympy: Any, group: LieGroup, inertia: Any, names: list[str]) -> Any:
    n = group.dim
    S = _twists(sympy, group)
    if isinstance(inertia, str):
        if inertia not in KINDS:
            raise ModelError(
                f"there is no inertia {inertia!r}; there are {', '.join(map(repr, KINDS))}, or a matrix"
            )
        if inertia == "general":
            return sympy.Matrix(n, n, lambda i, j: sympy.Symbol(_entry(min(i, j), max(i, j), n), real=True))
        # a translation of R^n has one mass; other groups have to say how they move a body
        if S is None:
            if not isinstance(group, RealGroup) or inertia == "body":
                raise ModelError(
                    f"an inertia {inertia!r} is that of a body in space, and {group} does not say how it"
                    " moves one; give inertia='general' or a matrix"
                )
            return sympy.diag(*[sympy.Symbol("m", positive=True)] * n)
        full = _body(sympy, inertia)
    else:
        full = _matrix(sympy, "inertia", inertia)
    # restricted to the motions of the group
    if full.shape == (6, 6) and S is not None:
        full = S.T * full * S
    if full.shape != (n, n):
        raise wrong_shape(f"inertia on {group}", full.shape, f"({n}, {n})")
    _check_symbolic_inertia(sympy, full, n)
    return full


def _matrix(sympy: Any, what: str, given: Any) -> Any:
    try:
        return sympy.Matrix(given)
    except (TypeError, ValueError) as error:
        raise ShapeError(f"{what} is {short(given)}, expected a matrix of SymPy or of numbers") from error


def _body(sympy: Any, kind: str) -> Any:
    """Spatial inertia (6, 6) in symbols, angular first. Ploen, eq. (12)."""
    m = sympy.Symbol("m", positive=True)
    I = [sympy.Symbol(f"I_{a}", positive=True) for a in AXES]
    if kind == "principal":
        return sympy.diag(*I, m, m, m)
    if kind == "diagonal":
        return sympy.diag(*I, *(sympy.Symbol(f"m_{a}", positive=True) for a in LETTERS[3:]))
    # products of inertia and first moments, all about the origin of the frame
    mixed = {
        (i, j): sympy.Symbol(f"I_{AXES[i]}{AXES[j]}", real=True) for i in range(3) for j in range(i + 1, 3)
    }
    about = sympy.Matrix(3, 3, lambda i, j: I[i] if i == j else mixed[min(i, j), max(i, j)])
    c = sympy.Matrix([sympy.Symbol(f"c_{a}", real=True) for a in AXES])
    cross = m * c.hat()
    return sympy.Matrix(sympy.BlockMatrix([[about, cross], [-cross, m * sympy.eye(3)]]))


def _check_symbolic_inertia(sympy: Any, M: Any, n: int) -> None:
    if M.shape != (n, n):
        raise wrong_shape("the inertia", M.shape, f"({n}, {n})")
    rest = (M - M.T).applyfunc(sympy.expand)
    for i in range(n):
        for j in range(i):
            if rest[i, j] != 0:
                raise ModelError(
                    f"the inertia is not symmetric: entry ({j}, {i}) is {M[j, i]}, entry ({i}, {j}) is"
                    f" {M[i, j]}"
                )
    symbols = sorted(M.free_symbols, key=str)
    # fractions of primes in place of symbols: singular there means singular whatever they are
    trial = M.subs({s: sympy.Rational(sympy.prime(k + 5), sympy.prime(k + 3)) for k, s in enumerate(symbols)})
    if n and trial.rank() < n:
        direction = ", ".join(map(str, trial.nullspace()[0]))
        raise ModelError(
            f"the inertia is singular (at the velocity ({direction}), for example, there is no momentum);"
            " every motion of the group needs inertia, or leave that motion out"
        )
    if n and not symbols and not M.is_positive_definite:
        raise ModelError(f"the inertia {M.tolist()} is not positive definite, as that of every body is")


def _refuse_collisions(families: dict[str, list[str]]) -> None:
    """Raise ModelError if a name stands for two things."""
    seen: dict[str, str] = {}
    for what, names in families.items():
        for name in names:
            if name in seen:
                raise ModelError(
                    f"the symbol {name!r} is among the {seen[name]} and among the {what}; give other names"
                    if seen[name] != what
                    else f"the symbol {name!r} is twice among the {what}; give other names"
                )
            seen[name] = what


def _symbols(sympy: Any, names: Any, letter: str, n: int) -> tuple[Any, ...]:
    words = [f"{letter}_{i + 1}" for i in range(n)] if names is None else list(names)
    if len(words) != n:
        raise ShapeError(f"{len(words)} names for {n} symbols: {', '.join(map(str, words))}")
    return tuple(sympy.Symbol(s, real=True) if isinstance(s, str) else s for s in words)


def _dotted(name: str) -> str:
    """The name of a rate: `udot`, `v_1` to `vdot_1`, which LaTeX prints with a dot."""
    stem, _, index = name.partition("_")
    return f"{stem}dot_{index}" if index else f"{stem}dot"


def _entry(i: int, j: int, n: int) -> str:
    return f"M_{i + 1}{j + 1}" if n < 10 else f"M_{i + 1},{j + 1}"


def _rational(sympy: Any, x: float) -> Any:
    # a float that is a short fraction to round-off is meant as this fraction
    near = Fraction(float(x)).limit_denominator(10_000)
    return (
        sympy.Rational(near.numerator, near.denominator) if abs(float(near) - x) < 1e-15 else sympy.Float(x)
    )


def _sum(terms: list[tuple[Any, Any]], printed: Any, times: str) -> str:
    """coefficient times product, with signs between; SymPy would reorder them."""
    text = ""
    for coefficient, product in terms:
        negative = coefficient.could_extract_minus_sign()
        size = -coefficient if negative else coefficient
        # no factor 1, parentheses around sums
        factors = [] if size == 1 else [f"({printed(size)})" if size.is_Add else printed(size)]
        factors.append(printed(product))
        sign = (" - " if negative else " + ") if text else ("-" if negative else "")
        text += sign + times.join(factors)
    return text or "0"
