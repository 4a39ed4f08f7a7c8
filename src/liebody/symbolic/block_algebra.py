"""Matrices written with named matrices: sums, products and block matrices, as one writes them by hand.

A `BlockMatrix` is a name with a definition (X_2), an explicit matrix, or is composed of others by +, -, @
and .T. Zeros and ones vanish: X @ 1 is X. The order of factors and terms is kept. An expression is written on
a page, LaTeX or text, and it is evaluated to an array over any scalars, from the entries that are written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import sympy

from ..base.arguments import short, wrong_shape
from ..base.errors import ArgumentError
from ..groups import SE2, SE3
from ..scalars import Array
from ..scalars.linear import skew, solve
from .block_pages import TILDE, LatexPage, Page, TextPage

AXES = "xyz"
SUM, PRODUCT, ATOM = range(3)  # how tightly an expression binds

Number = Callable[[Any], Any]  # a SymPy expression as a scalar of an evaluation


class BlockMatrix:
    """A matrix made of named matrices; it adds, multiplies and transposes."""

    shape: tuple[int, int]
    binds = ATOM
    word = ""  # names of operators whose meaning is to be said

    def __add__(self, other: BlockMatrix) -> BlockMatrix:
        return total(self, checked_block(other, self.shape, "a term"))

    def __sub__(self, other: BlockMatrix) -> BlockMatrix:
        return total(self, -checked_block(other, self.shape, "a term"))

    def __neg__(self) -> BlockMatrix:
        return scaled(-1, self)

    def __matmul__(self, other: BlockMatrix) -> BlockMatrix:
        return product(self, checked_block(other, (self.shape[1], None), "a factor"))

    @property
    def T(self) -> BlockMatrix:
        """The transpose."""
        return _Transposed(self)

    @property
    def parts(self) -> tuple[BlockMatrix, ...]:
        """The expressions that this one consists of."""
        return ()

    def written(self, page: Page) -> Any:
        """This expression on a page."""
        raise NotImplementedError

    def computed(self, values: BlockValues) -> Array:
        """The entries (rows, columns), over the scalars of `values`."""
        raise NotImplementedError

    def latex(self) -> str:
        """LaTeX of the expression."""
        return str(self.written(LatexPage()))

    def _repr_latex_(self) -> str:
        return f"$\\displaystyle {self.latex()}$"

    def __str__(self) -> str:
        return str(self.written(TextPage()))

    __repr__ = __str__


@dataclass(frozen=True, eq=False, repr=False)
class _Zero(BlockMatrix):
    shape: tuple[int, int]

    @property
    def T(self) -> BlockMatrix:
        return _Zero(self.shape[::-1])

    def written(self, page: Page) -> Any:
        return page.put("0", "0")

    def computed(self, values: BlockValues) -> Array:
        return np.zeros(self.shape, int).astype(object)


@dataclass(frozen=True, eq=False, repr=False)
class _One(BlockMatrix):
    size: int

    @property
    def shape(self) -> tuple[int, int]:  # type: ignore[override]
        return self.size, self.size

    @property
    def T(self) -> BlockMatrix:
        return self

    def written(self, page: Page) -> Any:
        return page.put(r"\mathbf{1}", "1")

    def computed(self, values: BlockValues) -> Array:
        return np.eye(self.size, dtype=int).astype(object)


@dataclass(frozen=True, eq=False, repr=False)
class NamedBlock(BlockMatrix):
    """A name, such as X_2, for an expression.

    letter     its letter, or a word of LETTERS
    index      its subscript
    value      the expression that it stands for
    dot        whether it is written with a dot, as a rate
    explained  whether its meaning is said in words, not by a line `name = value`
    symmetric  whether its transpose is itself
    general    whether one line with the index i defines it, with others of its letter
    """

    letter: str
    index: str
    value: BlockMatrix
    dot: bool = False
    explained: bool = False
    symmetric: bool = False
    general: bool = False

    @property
    def shape(self) -> tuple[int, int]:  # type: ignore[override]
        return self.value.shape

    @property
    def word(self) -> str:  # type: ignore[override]
        return self.letter if self.explained else ""

    @property
    def key(self) -> str:
        """The name in letters: X2, Adot2, M_bb."""
        index = self.index if self.index.isdigit() else f"_{self.index}" if self.index else ""
        return f"{self.letter}{'dot' if self.dot else ''}{index}"

    @property
    def T(self) -> BlockMatrix:
        return self if self.symmetric else _Transposed(self)

    @property
    def parts(self) -> tuple[BlockMatrix, ...]:
        return (self.value,)

    def written(self, page: Page) -> Any:
        return page.name(self.letter, self.index, "dot" if self.dot else "")

    def computed(self, values: BlockValues) -> Array:
        return values.of(self.value)


@dataclass(frozen=True, eq=False, repr=False)
class _Numbers(BlockMatrix):
    """An explicit matrix of SymPy expressions, row by row."""

    rows: tuple[tuple[Any, ...], ...]

    @property
    def shape(self) -> tuple[int, int]:  # type: ignore[override]
        return len(self.rows), len(self.rows[0])

    @property
    def T(self) -> BlockMatrix:
        return _Numbers(tuple(zip(*self.rows, strict=True)))

    def written(self, page: Page) -> Any:
        entries = [[page.scalar(x) for x in row] for row in self.rows]
        # a column is written as a row, which takes one line
        column = self.shape[1] == 1 and self.shape[0] > 1
        if column:
            return page.transposed(page.matrix([[entry for (entry,) in entries]]))
        return entries[0][0] if self.shape == (1, 1) else page.matrix(entries)

    def computed(self, values: BlockValues) -> Array:
        return np.array([[values.number(x) for x in row] for row in self.rows], dtype=object)


@dataclass(frozen=True, eq=False, repr=False)
class _Grid(BlockMatrix):
    """A block matrix; a symmetric one is written with its upper triangle."""

    rows: tuple[tuple[BlockMatrix, ...], ...]
    symmetric: bool = False

    @property
    def word(self) -> str:  # type: ignore[override]
        return "*" if self.symmetric and len(self.rows) > 1 else ""

    @property
    def shape(self) -> tuple[int, int]:  # type: ignore[override]
        return sum(row[0].shape[0] for row in self.rows), sum(x.shape[1] for x in self.rows[0])

    @property
    def T(self) -> BlockMatrix:
        if self.symmetric:
            return self
        return _Grid(tuple(tuple(x.T for x in column) for column in zip(*self.rows, strict=True)))

    @property
    def parts(self) -> tuple[BlockMatrix, ...]:
        return tuple(x for row in self.rows for x in row)

    def written(self, page: Page) -> Any:
        def entry(i: int, j: int, x: BlockMatrix) -> Any:
            hidden = self.symmetric and i > j and not isinstance(x, _Zero)
            return page.put(r"\ast", "*") if hidden else x.written(page)

        return page.matrix([[entry(i, j, x) for j, x in enumerate(row)] for i, row in enumerate(self.rows)])

    def computed(self, values: BlockValues) -> Array:
        return np.block([[values.of(x) for x in row] for row in self.rows])


@dataclass(frozen=True, eq=False, repr=False)
class _Transposed(BlockMatrix):
    of: BlockMatrix

    @property
    def shape(self) -> tuple[int, int]:  # type: ignore[override]
        return self.of.shape[::-1]

    @property
    def T(self) -> BlockMatrix:
        return self.of

    @property
    def parts(self) -> tuple[BlockMatrix, ...]:
        return (self.of,)

    def written(self, page: Page) -> Any:
        return page.transposed(_within(self.of, ATOM, page))

    def computed(self, values: BlockValues) -> Array:
        return values.of(self.of).T


@dataclass(frozen=True, eq=False, repr=False)
class _Product(BlockMatrix):
    """coefficient times a product of matrices; the coefficient is a SymPy expression."""

    coefficient: Any
    factors: tuple[BlockMatrix, ...]
    binds = PRODUCT

    @property
    def shape(self) -> tuple[int, int]:  # type: ignore[override]
        return self.factors[0].shape[0], self.factors[-1].shape[1]

    @property
    def T(self) -> BlockMatrix:
        return scaled(self.coefficient, product(*(x.T for x in reversed(self.factors))))

    @property
    def parts(self) -> tuple[BlockMatrix, ...]:
        return self.factors

    def written(self, page: Page) -> Any:
        c = self.coefficient
        negative = c.could_extract_minus_sign()
        size = -c if negative else c
        words = [page.put("-", "-")] if negative else []
        # the same factors in a row are a power
        runs: list[list[Any]] = []
        for x in self.factors:
            if runs and runs[-1][0] is x:
                runs[-1][1] += 1
            else:
                runs.append([x, 1])
        written = [_power(x, e, page) for x, e in runs]  # a series ends the product
        if size != 1:
            number = page.scalar(size)
            written.insert(0, page.parentheses(number) if size.is_Add else number)
        return page.row([*words, page.joined(written)])

    def computed(self, values: BlockValues) -> Array:
        result = values.of(self.factors[0])
        for x in self.factors[1:]:
            result = result @ values.of(x)
        return result if self.coefficient == 1 else result * values.number(self.coefficient)


@dataclass(frozen=True, eq=False, repr=False)
class _Sum(BlockMatrix):
    terms: tuple[BlockMatrix, ...]
    binds = SUM

    @property
    def shape(self) -> tuple[int, int]:  # type: ignore[override]
        return self.terms[0].shape

    @property
    def T(self) -> BlockMatrix:
        return total(*(x.T for x in self.terms))

    @property
    def parts(self) -> tuple[BlockMatrix, ...]:
        return self.terms

    def written(self, page: Page) -> Any:
        words = [self.terms[0].written(page)]
        for x in self.terms[1:]:
            negative = isinstance(x, _Product) and x.coefficient.could_extract_minus_sign()
            words += [page.sign("-" if negative else "+"), (-x if negative else x).written(page)]
        return page.row(words)

    def computed(self, values: BlockValues) -> Array:
        result = values.of(self.terms[0])
        for x in self.terms[1:]:
            result = result + values.of(x)
        return result


@dataclass(frozen=True, eq=False, repr=False)
class _Series(BlockMatrix):
    """The sum over bodies 1 to `count` of a term, written once with the index i."""

    term: BlockMatrix
    count: int
    all: BlockMatrix
    binds = SUM

    @property
    def shape(self) -> tuple[int, int]:  # type: ignore[override]
        return self.term.shape

    @property
    def T(self) -> BlockMatrix:
        return _Series(self.term.T, self.count, self.all.T)

    @property
    def parts(self) -> tuple[BlockMatrix, ...]:
        return (self.all,)

    def written(self, page: Page) -> Any:
        sign = page.put(rf"\sum_{{i=1}}^{{{self.count}}} ", f"Σ(i = 1..{self.count}) ")
        return page.row([sign, _within(self.term, PRODUCT, page)])

    def computed(self, values: BlockValues) -> Array:
        return values.of(self.all)


@dataclass(frozen=True, eq=False, repr=False)
class _Hat(BlockMatrix):
    """[x] with [x] y = x cross y, in space; x turned by a right angle, x^perp = (-x_2, x_1), in a plane."""

    of: NamedBlock

    @property
    def word(self) -> str:  # type: ignore[override]
        return "hat" if self.shape == (3, 3) else "perp"

    @property
    def shape(self) -> tuple[int, int]:  # type: ignore[override]
        return (3, 3) if self.of.shape[0] == 3 else (2, 1)

    @property
    def T(self) -> BlockMatrix:
        return -self if self.shape == (3, 3) else _Transposed(self)

    @property
    def parts(self) -> tuple[BlockMatrix, ...]:
        return (self.of,)

    def written(self, page: Page) -> Any:
        if self.shape == (3, 3):
            return page.name(self.of.letter, self.of.index, "hat")
        return page.raised(self.of.written(page), r"\perp", "⊥")

    def computed(self, values: BlockValues) -> Array:
        x = values.of(self.of)[:, 0]
        return skew(x) if len(x) == 3 else np.array([[-x[1]], [x[0]]])


@dataclass(frozen=True, eq=False, repr=False)
class _Adjoint(BlockMatrix):
    """ad_V, or ad~_p with ad~_p V = -ad_V^T p, of SE(3) or SE(2)."""

    of: BlockMatrix
    dual: bool

    @property
    def word(self) -> str:  # type: ignore[override]
        return "coad" if self.dual else "ad"

    @property
    def shape(self) -> tuple[int, int]:  # type: ignore[override]
        return self.of.shape[0], self.of.shape[0]

    @property
    def T(self) -> BlockMatrix:
        return -self if self.dual else _Transposed(self)

    @property
    def parts(self) -> tuple[BlockMatrix, ...]:
        return (self.of,)

    def written(self, page: Page) -> Any:
        words = (r"\widetilde{\mathrm{ad}}", f"ad{TILDE}") if self.dual else (r"\mathrm{ad}", "ad")
        return page.applied(*words, self.of.written(page))

    def computed(self, values: BlockValues) -> Array:
        x = values.of(self.of)[:, 0]
        group = SE3 if len(x) == 6 else SE2
        return np.asarray(group.coad(x) if self.dual else group.ad(x), dtype=object)


@dataclass(frozen=True, eq=False, repr=False)
class _Turn(BlockMatrix):
    """The rotation by an angle: about x, y or z, about a vector in space, or in a plane."""

    axis: str | BlockMatrix  # x, y, z; "" in a plane
    angle: Any

    @property
    def shape(self) -> tuple[int, int]:  # type: ignore[override]
        return (2, 2) if self.axis == "" else (3, 3)

    @property
    def parts(self) -> tuple[BlockMatrix, ...]:
        return (self.axis,) if isinstance(self.axis, BlockMatrix) else ()

    def written(self, page: Page) -> Any:
        if isinstance(self.axis, BlockMatrix):
            inside = page.joined([_within(self.axis, ATOM, page), page.scalar(self.angle)])
            return page.row([page.put(r"\exp", "exp"), page.parentheses(inside)])
        name = page.name("R", self.axis, "")
        return page.row([name, page.parentheses(page.scalar(self.angle))])

    def computed(self, values: BlockValues) -> Array:
        c = values.number(sympy.cos(self.angle))
        s = values.number(sympy.sin(self.angle))
        if self.axis == "":
            return np.array([[c, -s], [s, c]])
        if isinstance(self.axis, BlockMatrix):
            # of a unit vector a: 1 + sin [a] + (1 - cos) [a]^2
            hat = values.of(self.axis)
            return np.eye(3, dtype=int) + hat * s + hat @ hat * (1 - c)
        k = AXES.index(self.axis)
        i, j = (k + 1) % 3, (k + 2) % 3
        R = np.eye(3, dtype=int).astype(object)
        R[i, i], R[i, j], R[j, i], R[j, j] = c, -s, s, c
        return R


@dataclass(frozen=True, eq=False, repr=False)
class _Inverse(BlockMatrix):
    """The inverse of a symmetric positive definite matrix."""

    of: BlockMatrix

    @property
    def shape(self) -> tuple[int, int]:  # type: ignore[override]
        return self.of.shape

    @property
    def T(self) -> BlockMatrix:
        return self

    @property
    def parts(self) -> tuple[BlockMatrix, ...]:
        return (self.of,)

    def written(self, page: Page) -> Any:
        return page.raised(_within(self.of, ATOM, page), "-1", "⁻¹")

    def computed(self, values: BlockValues) -> Array:
        return solve(values.of(self.of), np.eye(self.shape[0], dtype=int))


@dataclass(frozen=True, eq=False, repr=False)
class _FirstMoment(BlockMatrix):
    """c, (3, 1) or (2, 1), of an inertia [., m [c]; ., m 1], or [., m c^perp^T; ., m 1] in a plane."""

    of: BlockMatrix

    @property
    def shape(self) -> tuple[int, int]:  # type: ignore[override]
        return (3, 1) if self.of.shape[0] == 6 else (2, 1)

    @property
    def parts(self) -> tuple[BlockMatrix, ...]:
        return (self.of,)

    def computed(self, values: BlockValues) -> Array:
        M = values.of(self.of)
        moment = [M[2, 4], M[0, 5], M[1, 3]] if len(M) == 6 else [M[0, 2], -M[0, 1]]
        return np.array([[x / M[-1, -1]] for x in moment], dtype=object)


def checked_block(x: Any, shape: tuple[int, int | None] | None, what: str) -> BlockMatrix:
    """x, a matrix of this shape, with any number of columns where that is None.

    Raises ArgumentError for what is no matrix of blocks, and ShapeError.
    """
    if not isinstance(x, BlockMatrix):
        raise ArgumentError(
            f"{what} is {short(x)}, expected an expression of named matrices, as `BlockEquations` has them"
        )
    if shape is not None and (x.shape[0] != shape[0] or shape[1] not in (None, x.shape[1])):
        raise wrong_shape(f"{what}, {short(str(x))},", x.shape, f"({shape[0]}, {shape[1] or 'any'})")
    return x


# -- composing --------------------------------------------------------------------------------------------


def zero(rows: int, columns: int) -> BlockMatrix:
    """The matrix of zeros."""
    return _Zero((rows, columns))


def one(size: int) -> BlockMatrix:
    """The identity."""
    return _One(size)


def is_zero(x: BlockMatrix) -> bool:
    """Whether a matrix is zero by its structure."""
    return isinstance(x, _Zero)


def is_one(x: BlockMatrix) -> bool:
    """Whether a matrix is the identity by its structure."""
    return isinstance(x, _One)


def total(*terms: BlockMatrix) -> BlockMatrix:
    """The sum; zeros vanish."""
    left: list[BlockMatrix] = []
    for x in terms:
        left += x.terms if isinstance(x, _Sum) else [] if is_zero(x) else [x]
    if not left:
        return terms[0]
    return left[0] if len(left) == 1 else _Sum(tuple(left))


def product(*factors: BlockMatrix) -> BlockMatrix:
    """The product; ones vanish, and a zero makes it zero."""
    coefficient: Any = sympy.Integer(1)
    left: list[BlockMatrix] = []
    for x in factors:
        if isinstance(x, _Product):
            coefficient = coefficient * x.coefficient
        left += x.factors if isinstance(x, _Product) else [] if isinstance(x, _One) else [x]
    if any(map(is_zero, left)):
        return zero(factors[0].shape[0], factors[-1].shape[1])
    if not left:
        return scaled(coefficient, factors[0])
    return left[0] if len(left) == 1 and coefficient == 1 else _Product(coefficient, tuple(left))


def scaled(coefficient: Any, x: BlockMatrix) -> BlockMatrix:
    """A SymPy expression, or a whole number, times a matrix."""
    coefficient = sympy.sympify(coefficient)
    if coefficient == 0 or is_zero(x):
        return zero(*x.shape)
    if coefficient == 1:
        return x
    # a sign goes into a sum, other coefficients stand before it
    if isinstance(x, _Sum) and coefficient == -1:
        return total(*(scaled(-1, term) for term in x.terms))
    if isinstance(x, _Product):
        coefficient = coefficient * x.coefficient
        if coefficient == 1 and len(x.factors) == 1:
            return x.factors[0]
        return _Product(coefficient, x.factors)
    return _Product(coefficient, (x,))


def numbers(rows: Sequence[Sequence[Any]]) -> BlockMatrix:
    """An explicit matrix of SymPy expressions; zeros and the identity are recognized."""
    entries = tuple(tuple(map(sympy.sympify, row)) for row in rows)
    shape = len(entries), len(entries[0])
    if all(x == 0 for row in entries for x in row):
        return zero(*shape)
    square = shape[0] == shape[1]
    if square and all(x == (i == j) for i, row in enumerate(entries) for j, x in enumerate(row)):
        return one(shape[0])
    return _Numbers(entries)


def grid(rows: Sequence[Sequence[BlockMatrix]], symmetric: bool = False) -> BlockMatrix:
    """A block matrix; rows and columns without entries vanish, zeros and the identity are recognized."""
    rows = [[x for x in row if x.shape[1]] for row in rows if row[0].shape[0]]
    if len(rows) == 1 and len(rows[0]) == 1:
        return rows[0][0]
    made = _Grid(tuple(map(tuple, rows)), symmetric)
    if all(map(is_zero, made.parts)):
        return zero(*made.shape)
    places = [(i, j, x) for i, row in enumerate(rows) for j, x in enumerate(row)]
    if len(rows) == len(rows[0]) and all(isinstance(x, _One) if i == j else is_zero(x) for i, j, x in places):
        return one(made.shape[0])
    return made


def series(term: BlockMatrix, terms: Sequence[BlockMatrix]) -> BlockMatrix:
    """The sum of `terms`, which is written with `term`, whose index is i."""
    return _Series(term, len(terms), total(*terms))


def hat(x: BlockMatrix) -> BlockMatrix:
    """The matrix of the cross product with x (3, 1), a name; x turned by a right angle for x (2, 1)."""
    if is_zero(x):
        return zero(3, 3) if x.shape[0] == 3 else x
    if isinstance(x, _Product):
        return scaled(x.coefficient, hat(*x.factors))
    if not isinstance(x, NamedBlock):
        raise TypeError(f"hat of {x}, expected a name")
    return _Hat(x)


def ad(V: BlockMatrix) -> BlockMatrix:
    """The matrix of the bracket, ad_V W = [V, W]."""
    return zero(V.shape[0], V.shape[0]) if is_zero(V) else _Adjoint(V, dual=False)


def coad(p: BlockMatrix) -> BlockMatrix:
    """ad~_p, with ad~_p V = -ad_V^T p."""
    return zero(p.shape[0], p.shape[0]) if is_zero(p) else _Adjoint(p, dual=True)


def turn(axis: str | BlockMatrix, angle: Any) -> BlockMatrix:
    """The rotation by an angle about "x", "y" or "z", about the hat of a unit vector, or in a plane ("")."""
    return _Turn(axis, angle)


def first_moment(inertia: BlockMatrix) -> BlockMatrix:
    """The centre of mass c of an inertia [., m [c]; ., m 1] of SE(3) or SE(2)."""
    return _FirstMoment(inertia)


def inverse(x: BlockMatrix) -> BlockMatrix:
    """The inverse of a symmetric positive definite matrix."""
    return x if isinstance(x, _One) else _Inverse(x)


def definitions(wanted: Sequence[BlockMatrix]) -> list[NamedBlock]:
    """The names in some expressions, and in the definitions of these: each after those that it needs."""
    ordered: dict[NamedBlock, None] = {}

    def visit(x: BlockMatrix) -> None:
        if x in ordered:
            return
        for part in x.parts:
            visit(part)
        if isinstance(x, NamedBlock):
            ordered.setdefault(x)

    for x in wanted:
        visit(x)
    return [*ordered]


def operators(wanted: Sequence[BlockMatrix]) -> Iterator[BlockMatrix]:
    """All expressions within some expressions and their definitions."""
    seen: set[int] = set()
    stack = [*wanted]
    while stack:
        x = stack.pop()
        if id(x) not in seen:
            seen.add(id(x))
            yield x
            stack += x.parts


class BlockValues:
    """Entries of expressions over one kind of scalars, each expression computed once.

    number  a SymPy expression as such a scalar
    """

    def __init__(self, number: Number) -> None:
        self.number = number
        self._known: dict[int, tuple[BlockMatrix, Array]] = {}

    def of(self, x: BlockMatrix) -> Array:
        """The entries of x, (rows, columns)."""
        if id(x) not in self._known:
            self._known[id(x)] = x, x.computed(self)
        return self._known[id(x)][1]


def _within(x: BlockMatrix, binds: int, page: Page) -> Any:
    """x, in parentheses if it binds less."""
    written = x.written(page)
    return page.parentheses(written) if x.binds < binds else written


def _power(x: BlockMatrix, exponent: int, page: Page) -> Any:
    if isinstance(x, _Series):
        return x.written(page)
    if exponent == 1:
        return _within(x, PRODUCT, page)
    return page.raised(_within(x, ATOM, page), str(exponent), "²" if exponent == 2 else f"^{exponent}")
