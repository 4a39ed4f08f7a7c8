"""The equations of motion in named matrices: as text, as LaTeX, and compared with those in scalars."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import sympy

from .. import dynamics
from ..base.concurrency import cached_property
from ..base.errors import ModelError, known
from ..bodies import Tree
from ..compiler import Function
from ..scalars import Array
from . import block_algebra as blocks
from .block_algebra import BlockMatrix, BlockValues, NamedBlock, checked_block
from .block_forms import BlockForms
from .block_pages import LETTERS, LatexPage, Page, TextPage
from .closed_forms import Equations
from .numbers import exact
from .polynomials import Polynomial, Quotients, TooLarge, scaled
from .short_forms import Ring

NUMBERED = re.compile(r"([A-Za-z]+)_?\d+")  # names of symbols that look like those of blocks
ORDER = (  # of the lines that define matrices of bodies: each letter after those that it needs
    *("gamma", "nu", "q", "v", "a", "epsilon", "R", "p", "X", "S", "V", "Theta", "c", "h", "I"),
    *("A", "J", "Adot", "Jdot", "C", "Gamma"),
)
ADJOINTS = {  # matrices of ad and ad~ of SE(3) and SE(2), as LaTeX and as text, with what they depend on
    6: (
        (r"(\omega, v)", r"\hat{\omega} & 0 \\ \hat{v} & \hat{\omega}", "(ω, v) = [ω̂ 0; v̂ ω̂]"),
        (r"(m, f)", r"-\hat{m} & -\hat{f} \\ -\hat{f} & 0", "(m, f) = [-m̂ -f̂; -f̂ 0]"),
    ),
    3: (
        (
            r"(\omega, x, y)",
            r"0 & 0 & 0 \\ y & 0 & -\omega \\ -x & \omega & 0",
            "(ω, x, y) = [0 0 0; y 0 -ω; -x ω 0]",
        ),
        (r"(m, x, y)", r"0 & y & -x \\ -y & 0 & 0 \\ x & 0 & 0", "(m, x, y) = [0 y -x; -y 0 0; x 0 0]"),
    ),
}
SHOWN = ("M", "C", "g")
POINTS = 2  # states with rational coordinates, where a comparison in symbols would be too large
ROUND_OFF = 1e-12  # relative, of numbers whose products a trace has rounded


@dataclass(frozen=True)
class _Part:
    """A part of the equations: its name on paper, and the algorithm that computes the same in scalars."""

    letter: str
    index: str
    algorithm: Any
    quotient: bool = False  # whether it divides by the determinant of the locked inertia


def _decoupled(index: str, result: str, quotient: bool = True, x: str = "locked") -> _Part:
    """A block of C, or of M, in the velocities v_x and the joints' velocities."""

    def algorithm(tree: Tree, q: Array, v: Array, form: str = "christoffel") -> Array:
        return getattr(dynamics.decoupled_dynamics(tree, q, v, x=x, form=form), result)

    return _Part(result[0], index, algorithm, quotient)


PARTS = {
    "M": _Part("M", "", dynamics.mass_matrix),
    "C": _Part("C", "", dynamics.coriolis_matrix),
    "g": _Part("g", "", dynamics.gravity_forces),
    "kinetic": _Part("T", "", dynamics.kinetic_energy),
    "efforts": _Part("tau", "", dynamics.inverse_dynamics),
    "momentum": _Part("h", "b", dynamics.base_momentum),
    "locked_inertia": _Part("M", "bb", dynamics.locked_inertia),
    "connection": _Part("connection", "", dynamics.mechanical_connection, True),
    "internal_inertia": _Part("M", "y", dynamics.internal_inertia, True),
    "external_coriolis": _decoupled("x", "Cx", quotient=False),
    "mixed_coriolis": _decoupled("yx", "Cyx"),
    "internal_coriolis": _decoupled("y", "Cy"),
    "centroidal_inertia": _decoupled("c", "Mx", quotient=False, x="centroidal"),
    "centroidal_coriolis": _decoupled("c", "Cx", quotient=False, x="centroidal"),
}


def _part(name: str, text: str) -> cached_property[BlockMatrix]:
    part = cached_property(lambda self: getattr(self.forms, name))
    part.__doc__ = text
    return part


class BlockEquations:
    """M(q) dv/dt + C(q, v) v + g(q) = tau, written with named matrices instead of scalars.

    scalars   the `Equations` of the same mechanism, with entries as scalars: code, and all that has no blocks

    Each part is an expression of names, such as I_1 + X_2^T I_2 X_2, and each name has a definition, down to
    matrices of coordinates and parameters. Expressions can be composed by +, -, @ and .T.

        eq = lb.equations(robot, blocks=True)
        print(eq.text("M", "C"))
        eq.M, eq.blocks["X2"]       # expressions
        eq.expand("M")              # a SymPy matrix
        eq.check()                  # that they are the equations in scalars
    """

    def __init__(self, scalars: Equations) -> None:
        self.scalars = scalars
        self.forms = BlockForms(scalars)

    M = _part("M", "The mass matrix M(q), (nv, nv), by columns of base and joints of a floating base.")
    C = _part("C", "The Coriolis matrix C(q, v), (nv, nv), of the form of the equations.")
    g = _part("g", "The efforts that hold the mechanism at rest, g(q), (nv, 1).")
    kinetic = _part("kinetic", "The kinetic energy, (1, 1).")
    efforts = _part("efforts", "M dv/dt + C v + g, (nv, 1).")
    momentum = _part("momentum", "The momentum h_b of all bodies about a floating base, (k, 1).")
    locked_inertia = _part("locked_inertia", "Mbb of a floating base, (k, k).")
    connection = _part("connection", "Mbb^-1 Mbq of a floating base, (k, n).")
    internal_inertia = _part("internal_inertia", "M_y = Mqq - Mbq^T Mbb^-1 Mbq, (n, n).")
    external_coriolis = _part("external_coriolis", "C_x of the locked velocity, (k, k); Feurstein (3.81).")
    mixed_coriolis = _part("mixed_coriolis", "C_yx of locked velocity and joints, (n, k); Feurstein (3.81).")
    internal_coriolis = _part("internal_coriolis", "C_y of the joints, (n, n); Feurstein (3.81).")
    centroidal_inertia = _part("centroidal_inertia", "M_c of a frame at the centre of mass, (k, k).")
    centroidal_coriolis = _part("centroidal_coriolis", "C_c of a frame at the centre of mass, (k, k).")

    @property
    def q(self) -> Any:
        """The coordinates, a column of symbols."""
        return self.scalars.q

    @property
    def v(self) -> Any:
        """The velocities, a column of symbols."""
        return self.scalars.v

    @property
    def parameters(self) -> tuple[Any, ...]:
        """The other symbols, in natural order."""
        return self.scalars.parameters

    @property
    def values(self) -> Mapping[Any, float]:
        """The numbers that parameters stand for, where they replaced numbers."""
        return self.scalars.values

    @property
    def blocks(self) -> dict[str, NamedBlock]:
        """The named matrices of M, C and g: X2, I1, Jdot3, ..., each with its `value`."""
        return {x.key: x for x in blocks.definitions([self.M, self.C, self.g])}

    def latex(self, *parts: str, **expressions: BlockMatrix) -> str:
        r"""LaTeX of some parts (M, C and g, if none is named), each an equation, one a line.

        parts        M, C, g, kinetic, efforts; of floating bases momentum, locked_inertia, connection,
                     internal_inertia, external_coriolis, mixed_coriolis, internal_coriolis; of those that
                     are free in space, or in a plane, centroidal_inertia, centroidal_coriolis
        expressions  others by name, composed of blocks: speed=eq.blocks["V2"]

        Definitions come first, then the parts. Matrices are `bmatrix` of the package amsmath. Last come
        operators, such as \hat{x}.
        """
        page = LatexPage(self.scalars.latex_names, self._letters_of_symbols)
        lines = [str(line) for line in self._lines(page, parts, expressions)]
        lines += [latex for latex, _ in self._conventions(parts, expressions)]
        return "\n".join(lines) + "\n"

    def text(self, *parts: str, **expressions: BlockMatrix) -> str:
        """The parts, as of `latex`, for a terminal."""
        lines = self._lines(TextPage(self._letters_of_symbols), parts, expressions)
        # single lines stand together, drawings of several lines apart
        written = ""
        tall = False
        for line in map(str, lines):
            written += ("\n" if written and (tall or "\n" in line) else "") + line + "\n"
            tall = "\n" in line
        conventions = [text for _, text in self._conventions(parts, expressions)]
        return written + "".join(f"\n{line}" for line in conventions) + ("\n" if conventions else "")

    def _repr_latex_(self) -> str:
        """M, C and g with their definitions, as notebooks show them."""
        lines = self.latex().splitlines()
        aligned = r"\\".join(line.replace(" = ", " &= ", 1) for line in lines)
        return rf"$$\begin{{aligned}}{aligned}\end{{aligned}}$$"

    def expand(self, part: str | BlockMatrix) -> Any:
        """The entries of a part, or of an expression of blocks, as a SymPy matrix.

        In short form, if the equations are simplified; raises ModelError where an entry is too long for that.
        """
        x = self._value(part) if isinstance(part, str) else checked_block(part, None, "part")
        ring = self.scalars.ring
        if not self.scalars.simplified:
            return sympy.Matrix(BlockValues(exact).of(x).tolist()).as_immutable()
        entries = BlockValues(_scalars(ring, {})).of(x)
        return sympy.Matrix(
            [[ring.expression(_terms(ring, y)) for y in row] for row in entries]
        ).as_immutable()

    def check(self, *parts: str) -> dict[str, str]:
        """How parts were found equal to those in scalars, which the algorithms of `liebody.dynamics` give.

        parts  as of `latex`; M, C, g and kinetic if none is named

        Of simplified equations both are expanded into polynomials in normal form, and the difference is zero:
        "in symbols". Where that would be too large, of parts that divide by Mbb, and of equations that are
        not simplified, both are computed in exact arithmetic at random states with rational sines,
        quaternions, velocities and parameters: "at 2 rational points". Where the algorithm has rounded
        products of numbers of many digits, and with joints of your own whose poses are no polynomials of
        sines, they are equal "to 1e-12 at 2 rational points".

        Raises ModelError for a part that differs.
        """
        return {name: self._compared(name) for name in parts or (*SHOWN, "kinetic")}

    def __repr__(self) -> str:
        where = "a plane" if self.forms.dimension == 3 else "space"
        kind = "floating base, " if self.forms.floating else ""
        return (
            f"BlockEquations of {self.scalars.tree.name!r}: nv = {self.scalars.tree.nv}, form "
            f"{self.scalars.form!r}, {kind}in {where}"
        )

    # -- pages --------------------------------------------------------------------------------------------

    @property
    def _letters_of_symbols(self) -> set[str]:
        """Letters of parameters with a number, such as I1: blocks of these letters are bold."""
        numbered = (NUMBERED.fullmatch(x.name) for x in self.parameters)
        return {match[1] for match in numbered if match}

    def _value(self, part: str) -> BlockMatrix:
        if part not in PARTS:
            raise ModelError(
                f"there is no part {part!r} in blocks; {known([*PARTS], part)}; others: `scalars`"
            )
        value: BlockMatrix = getattr(self, part)
        return value

    def _contents(
        self, parts: Sequence[str], expressions: Mapping[str, BlockMatrix]
    ) -> dict[tuple[str, str], BlockMatrix]:
        """The parts and expressions by letter and index."""
        names = parts or (() if expressions else SHOWN)
        values = {name: self._value(name) for name in names}
        shown = {(PARTS[name].letter, PARTS[name].index): x for name, x in values.items()}
        return shown | {(name, ""): checked_block(x, None, name) for name, x in expressions.items()}

    def _lines(
        self, page: Page, parts: Sequence[str], expressions: Mapping[str, BlockMatrix]
    ) -> Iterator[Any]:
        """Lines `name = value`: of the definitions, then of the parts."""
        shown = self._contents(parts, expressions)
        written = {(*key, False) for key in shown}
        defined = [x for x in blocks.definitions([*shown.values()]) if not x.explained]
        defined = [x for x in defined if (x.letter, x.index, x.dot) not in written]
        # matrices of bodies letter by letter, then what is defined alike for all bodies, then sums over them
        of_bodies = [x for x in defined if not x.index or x.index.isdigit()]
        of_bodies = [x for x in of_bodies if _letter(x) in ORDER]
        of_bodies.sort(key=lambda x: (ORDER.index(_letter(x)), int(x.index or 0)))
        lines = _grouped(x for x in of_bodies if not x.general)
        needed = {_letter(x) for x in of_bodies if x.general}
        lines += [[x] for x in self.forms.general if _letter(x) in needed]
        lines += [[x] for x in defined if x not in of_bodies]
        for group in lines:
            yield page.row([_names(page, group), page.sign("="), group[0].value.written(page)])
        for (letter, index), x in shown.items():
            value = x.value if isinstance(x, NamedBlock) and (x.letter, x.index) == (letter, index) else x
            word = page.put(rf"\mathrm{{{letter}}}".replace("_", r"\_"), letter)
            if len(letter) == 1 or letter in LETTERS:
                word = page.name(letter, index, "")
            yield page.row([word, page.sign("="), value.written(page)])

    def _conventions(
        self, parts: Sequence[str], expressions: Mapping[str, BlockMatrix]
    ) -> list[tuple[str, str]]:
        """Meanings of operators, and of names without a definition, as LaTeX and as text."""
        wanted = [*self._contents(parts, expressions).values()]
        used = {x.word for x in blocks.operators(wanted)}
        if any(x.general for x in blocks.definitions(wanted)):
            used.add(self.forms.parent_index)
            used |= {"fixed"} if any(not body.joint.dim for body in self.scalars.tree.bodies) else set()
        parents = ", ".join(str(body.parent) for body in self.scalars.tree.bodies)
        ad, coad = ADJOINTS[self.forms.dimension]
        rates = r"\dot{q}" if self.forms.floating else "v"
        meanings = {
            "*": (r"\ast = \text{transpose of its mirror image}", "* = transpose of its mirror image"),
            "hat": (r"\hat{x} y = x \times y", "x̂ y = x × y"),
            "perp": (r"x^\perp = (-x_2, x_1)", "x⊥ = (-x₂, x₁)"),
            "ad": (rf"\mathrm{{ad}}_{{{ad[0]}}} = {_latex_matrix(ad[1])}", f"ad{ad[2]}"),
            "coad": (
                rf"\widetilde{{\mathrm{{ad}}}}_{{{coad[0]}}} = {_latex_matrix(coad[1])}",
                f"ad\u0303{coad[2]}",
            ),
            "E": (
                rf"E_i {rates} = v_i \text{{, the velocities of joint }} i",
                f"Eᵢ {'q̇' if self.forms.floating else 'v'} = vᵢ, the velocities of joint i",
            ),
            "c": (r"c = \text{centre of mass, seen from the base}", "c = centre of mass, seen from the base"),
            "lambda": (
                rf"\lambda = {parents} \text{{, the parents of the bodies}}",
                f"λ = {parents}, the parents of the bodies",
            ),
            "fixed": (r"S_i = 0 \text{ if joint } i \text{ is fixed}", "Sᵢ = 0 if joint i is fixed"),
            "omega": (r"\omega_i = \text{angular part of } V_i", "ωᵢ = angular part of Vᵢ"),
        }
        return [meaning for word, meaning in meanings.items() if word in used]

    # -- comparisons --------------------------------------------------------------------------------------

    def _compared(self, name: str) -> str:
        x = self._value(name)
        polynomial = self.forms.polynomial
        if polynomial and self.scalars.simplified and not PARTS[name].quotient:
            try:
                if self._largest_difference(name, x, {}) is None:
                    return "in symbols"
            except TooLarge:
                pass
        rng = np.random.default_rng(0)
        largest = 0.0
        for _ in range(POINTS):
            point = self._rational_point(rng)
            difference = self._largest_difference if polynomial else self._difference_in_floats
            largest = max(largest, difference(name, x, point) or 0.0)
        if largest > ROUND_OFF:
            raise ModelError(
                f"{self.scalars.tree.name}: {name} in blocks differs from that in scalars, by {largest:.1e} "
                "of its largest entry; please report this mechanism"
            )
        rounded = largest > 0 or not polynomial
        return f"{'to 1e-12 ' if rounded else ''}at {POINTS} rational points"

    def _largest_difference(self, name: str, x: BlockMatrix, point: Mapping[Any, Any]) -> float | None:
        """The largest difference of an entry, relative to the largest entry; None where they are equal.

        point  numbers of symbols; {}: in symbols, where a difference has no size, and counts as infinite
        """
        ring = self._ring()
        function = self._function(name)
        inputs = self._inputs(function, point)
        (results,) = ring.evaluate(function, inputs).values()
        entries = BlockValues(_scalars(ring, point)).of(x)
        pairs = [(_terms(ring, a), b) for a, b in zip(entries.flat, results, strict=True)]
        differences = [ring.sum(a, b, -1) for a, b in pairs]
        if not any(differences):
            return None
        if not point:
            # decimals may have been rounded; numbers decide
            return np.inf
        sizes = [abs(_number(ring, b)) for _, b in pairs]
        return max(abs(_number(ring, d)) for d in differences) / max(*sizes, 1e-300)

    def _difference_in_floats(self, name: str, x: BlockMatrix, point: Mapping[Any, Any]) -> float:
        """The same in floating point."""
        function = self._function(name)
        inputs = self._inputs(function, point)
        arrays = [np.array([float(inputs[y]) for y in symbols.flat]) for symbols in function.inputs.values()]
        expected = np.asarray(function(*arrays), float).ravel()
        found = BlockValues(lambda y: float(exact(y).xreplace(dict(point)))).of(x).astype(float).ravel()
        return float(np.abs(found - expected).max() / max(np.abs(expected).max(), 1e-300))

    def _ring(self) -> Ring:
        """A ring of polynomials in the symbols, with the rule of unit quaternions."""
        ring = Ring()
        for start in self.scalars.tree.group.quaternions:
            ring.quaternion(list(self.q[start : start + 4]))
        return ring

    def _function(self, name: str) -> Function:
        part = PARTS[name]
        options = {"form": self.scalars.form} if part.letter == "C" else {}
        return self.scalars.traced(functools.partial(part.algorithm, **options), name)

    def _inputs(self, function: Function, point: Mapping[Any, Any]) -> dict[Any, Any]:
        """The inputs of a traced function, at numbers of symbols."""
        given = {k: list(getattr(self.scalars, k)) for k in ("q", "v", "a", "tau")}
        given["parameter"] = list(self.scalars.numbers[1])
        return {
            symbol: sympy.sympify(x).xreplace(dict(point))
            for key, inputs in function.inputs.items()
            for symbol, x in zip(inputs.flat, given[key], strict=True)
        }

    def _rational_point(self, rng: np.random.Generator) -> dict[Any, Any]:
        """Random numbers of all symbols: rational, or angles with rational sine and cosine."""

        def fraction() -> Any:
            return sympy.Rational(int(rng.integers(1, 20)), int(rng.integers(5, 12)))

        scalars = self.scalars
        point = {x: fraction() for x in (*scalars.v, *scalars.a, *scalars.tau, *scalars.parameters)}
        for body in scalars.tree.bodies:
            if body.joint.mimic is not None:
                continue
            q = list(scalars.q[body.coordinates])
            if body.joint.nq > body.joint.dim:
                # a point of the unit sphere, by stereographic projection
                x = [fraction() for _ in range(3)]
                s = sum(y * y for y in x)
                quaternion = [(1 - s) / (1 + s), *(2 * y / (1 + s) for y in x)]
                point |= dict(zip(q, [*quaternion, *(fraction() for _ in q[4:])], strict=True))
                continue
            turns = bool(np.any(body.joint.S[:3]))
            for y in q:
                t = fraction()
                point[y] = sympy.asin(2 * t / (1 + t * t)) if turns and y is q[0] else t
        return point


def _latex_matrix(entries: str) -> str:
    return rf"\begin{{bmatrix}}{entries}\end{{bmatrix}}"


def _letter(x: NamedBlock) -> str:
    return f"{x.letter}dot" if x.dot else x.letter


def _grouped(names: Iterable[NamedBlock]) -> list[list[NamedBlock]]:
    """Names with the same explicit matrix together."""
    groups: dict[str, list[NamedBlock]] = {}
    for x in names:
        explicit = all(y.explained for y in blocks.definitions([x.value]))
        groups.setdefault(f"{_letter(x)} = {x.value}" if explicit else x.key, []).append(x)
    return [*groups.values()]


def _names(page: Page, group: Sequence[NamedBlock]) -> Any:
    """S_1 = S_2 = S_5, or S_1 = ... = S_5 for a run of indices."""
    words = [x.written(page) for x in group]
    indices = [int(x.index) if x.index.isdigit() else 0 for x in group]
    if len(group) > 3 and indices == [*range(indices[0], indices[0] + len(group))]:
        words = [words[0], page.put(r"\dots", "..."), words[-1]]
    return page.row([y for word in words for y in (page.sign("="), word)][1:])


class _Scalar:
    """A polynomial, or a quotient of polynomials, with the operations of numbers."""

    __slots__ = ("ring", "terms")

    def __init__(self, ring: Quotients, terms: Polynomial) -> None:
        self.ring = ring
        self.terms = terms

    def __add__(self, other: Any) -> Any:
        return self._with(other, self.ring.sum)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Any:
        return self._with(other, functools.partial(self.ring.sum, sign=-1))

    def __rsub__(self, other: Any) -> Any:
        return -self + other

    def __neg__(self) -> Any:
        return _Scalar(self.ring, scaled(self.terms, -1))

    def __mul__(self, other: Any) -> Any:
        return self._with(other, self.ring.product)

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Any:
        return self._with(other, lambda a, b: self.ring.product(a, self.ring.reciprocal(b)))

    def __rtruediv__(self, other: Any) -> Any:
        return _Scalar(self.ring, self.ring.reciprocal(self.terms)) * other

    def _with(self, other: Any, operation: Callable[[Polynomial, Polynomial], Polynomial]) -> Any:
        # arrays apply operations to each of their entries
        if isinstance(other, np.ndarray):
            return NotImplemented
        return _Scalar(self.ring, operation(self.terms, _terms(self.ring, other)))


def _terms(ring: Quotients, x: Any) -> Polynomial:
    """A scalar as a polynomial; whole numbers come from zeros and ones of block matrices."""
    if isinstance(x, _Scalar):
        return x.terms
    return {0: int(x)} if x else {}


def _scalars(ring: Quotients, point: Mapping[Any, Any]) -> Any:
    """SymPy expressions as scalars over a ring, at numbers of symbols."""

    def scalar(x: Any) -> Any:
        x = exact(x)
        return _Scalar(ring, ring.from_sympy(x.xreplace(dict(point)) if point else x))

    return scalar


def _number(ring: Ring, a: Polynomial) -> float:
    """The value of a polynomial without symbols."""
    return float(sympy.N(ring.polynomial_expression(a)))
