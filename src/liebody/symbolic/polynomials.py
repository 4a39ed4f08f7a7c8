"""Traced functions as quotients of polynomials in sines, cosines and parameters, and their short expressions.

The equations of motion of a tree are polynomials in the sines and cosines of its angles, its quaternions,
velocities and parameters. On polynomials sin^2 + cos^2 = 1 is a rewriting rule, and gives each function one
normal form, in which what cancels is gone. Quotients are kept in lowest terms: their denominators are
products of known factors, so that trial division by these tells what cancels. All that is decided by
arithmetic, and needs no search:

    trace -> normal form (`Ring.evaluate`) -> short expression (`Ring.expression`).

A monomial is an integer: the exponent of generator k stands in its bits 8 k to 8 k + 7, so that a product of
monomials is a sum of integers. A polynomial is a dict from monomials to coefficients, integers where they can
be and fractions elsewhere. The reciprocal of each factor of a denominator is a generator as well, and all
terms of a quotient have the same product of reciprocals.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from typing import Any

import sympy
from sympy.polys import polyconfig

from ..base.errors import ModelError
from ..compiler import Expr, Function
from ..compiler.graph.graph import CONDITIONS
from ..compiler.printers import interpreted, on
from ..compiler.printers.sympy_source import RULES
from .numbers import is_long, readable, recognized

Monomial = int
Polynomial = dict[Monomial, Any]
Wave = tuple[Monomial, bool, tuple[int, ...]]  # a product of generators with cos (False) or sin of an angle

BITS = 8
LARGEST = 6_000  # terms of a polynomial on the way
LARGEST_PRODUCT = 20_000  # products of terms in one step
READABLE = 2_000  # terms of an entry; beyond, nobody reads what comes out
FEW = 40  # terms of which everything that could make them shorter is tried
FOURIER = 400  # terms that are still turned into sines and cosines of sums
SHARED = 40  # terms of which what they share is taken out
WAVES = 4  # of these for each term, beyond which they are no shorter
LARGEST_NUMBER = 1_000_000  # of the whole numbers in quotients; beyond, decimals stay
FACTORED = 200  # terms of a denominator that is still factored
# Images in one variable that SymPy's factorisation (Wang's) tries: where the image of a polynomial without
# factors has some in all of them, these are lifted in vain, for minutes. It does so for 3, and here for some
# in a thousand; one image without factors ends it.
IMAGES = 16


class TooLarge(ModelError):
    """A closed form with more terms than anybody reads."""


@dataclass(eq=False)
class Ring:
    """Polynomials and their quotients over the rationals, in generators that appear as they are met.

    Rules x_k^2 = polynomial without x_k^2 are kept by every product: for the sine beside each cosine, the
    scalar part of each unit quaternion, and square roots.
    """

    generators: list[Any] = field(default_factory=list)
    places: dict[Any, int] = field(default_factory=dict)
    squares: dict[int, Polynomial] = field(default_factory=dict)
    circles: dict[Any, tuple[int, int]] = field(default_factory=dict)  # angle -> places of its cos and sin
    quaternions: list[tuple[int, ...]] = field(default_factory=list)
    denominators: dict[int, Polynomial] = field(default_factory=dict)  # by the places of their reciprocals
    parameters: frozenset[Any] = frozenset()  # generators of which sums are taken out as factors
    _reciprocals: int = 0  # the bits of their exponents
    _rigid: int = 0  # a bit pattern that no reduced monomial meets
    _reduced: dict[Monomial, Polynomial] = field(default_factory=dict)
    _short: dict[Any, Any] = field(default_factory=dict)

    # -- generators ---------------------------------------------------------------------------------------

    def place(self, symbol: Any) -> int:
        """The number of the generator `symbol`, a SymPy expression; a new one if it is new."""
        if symbol not in self.places:
            self.places[symbol] = len(self.generators)
            self.generators.append(symbol)
        return self.places[symbol]

    def generator(self, symbol: Any) -> Polynomial:
        return {1 << (BITS * self.place(symbol)): 1}

    def rule(self, k: int, square: Polynomial) -> None:
        """From now on x_k^2 is `square`."""
        self.squares[k] = square
        self._rigid |= (2**BITS - 2) << (BITS * k)

    def quaternion(self, symbols: Sequence[Any]) -> None:
        """Four symbols whose squares add to one."""
        places = tuple(self.place(x) for x in symbols)
        self.quaternions.append(places)
        self.rule(places[0], {0: 1, **{2 << (BITS * k): -1 for k in places[1:]}})

    def circle(self, angle: Any) -> tuple[int, int]:
        """The places of the cosine and the sine of an angle."""
        if angle not in self.circles:
            cosine = self.place(sympy.cos(angle))
            sine = self.place(sympy.sin(angle))
            self.circles[angle] = cosine, sine
            self.rule(sine, {0: 1, 2 << (BITS * cosine): -1})
        return self.circles[angle]

    # -- arithmetic ---------------------------------------------------------------------------------------

    def product(self, a: Polynomial, b: Polynomial) -> Polynomial:
        """a b, in normal form."""
        if len(a) * len(b) > LARGEST_PRODUCT:
            raise TooLarge(f"more than {LARGEST_PRODUCT} products in one step")
        total: Polynomial = {}
        for m, x in a.items():
            for n, y in b.items():
                total[m + n] = total.get(m + n, 0) + x * y
        return self.reduced(total)

    def reduced(self, a: Polynomial) -> Polynomial:
        """a in normal form, by the rules."""
        total: Polynomial = {}
        for m, x in a.items():
            if x == 0:
                continue
            if m & self._rigid:
                for n, y in self._reduced_monomial(m).items():
                    total[n] = total.get(n, 0) + x * y
            else:
                total[m] = total.get(m, 0) + x
        total = {m: _simple(x) for m, x in total.items() if x != 0}
        if len(total) > LARGEST:
            raise TooLarge(f"an expression of more than {LARGEST} terms")
        return self.lowest(total)

    def _reduced_monomial(self, m: Monomial) -> Polynomial:
        if m not in self._reduced:
            k = next(k for k in self.squares if exponent(m, k) >= 2)
            rest = m - (2 << (BITS * k))
            self._reduced[m] = self.reduced({rest + n: x for n, x in self.squares[k].items()})
        return self._reduced[m]

    def sum(self, a: Polynomial, b: Polynomial, sign: int = 1) -> Polynomial:
        """a + sign b, in normal form."""
        return self.lowest(add(a, b, sign))

    def lowest(self, a: Polynomial) -> Polynomial:
        """A sum of quotients as one quotient, from which each factor that divides the numerator is gone."""
        if not any(m & self._reciprocals for m in a):
            return a
        parts: dict[Monomial, Polynomial] = {}
        for m, x in a.items():
            parts.setdefault(m & self._reciprocals, {})[m & ~self._reciprocals] = x
        powers = {k: max(exponent(m, k) for m in parts) for k in self.denominators}
        numerator: Polynomial = {}
        for m, p in parts.items():
            missing = {k: e - exponent(m, k) for k, e in powers.items()}
            numerator = add(numerator, self.product(p, self._denominator(missing)))
        for k in powers:
            while powers[k] and (q := self.quotient(numerator, self.denominators[k])) is not None:
                numerator = q
                powers[k] = powers[k] - 1
        common = sum(e << (BITS * k) for k, e in powers.items())
        return {m + common: x for m, x in numerator.items()}

    def _denominator(self, powers: Mapping[int, int]) -> Polynomial:
        """The product of denominators, given by the places of their reciprocals."""
        total: Polynomial = {0: 1}
        for k, e in powers.items():
            for _ in range(e):
                total = self.product(total, self.denominators[k])
        return total

    def split(self, a: Polynomial) -> tuple[Polynomial, dict[int, int]]:
        """The numerator of a, and the powers of the denominators."""
        common = next(iter(a), 0) & self._reciprocals
        powers = {k: e for k in self.denominators if (e := exponent(common, k))}
        return {m - common: x for m, x in a.items()}, powers

    def quotient(self, a: Polynomial, b: Polynomial) -> Polynomial | None:
        """a / b if it is a polynomial, of polynomials in normal form; else None.

        (p + q x)(p - q x) is free of an x with a rule, and what divides by such a polynomial does so
        coefficient by coefficient.
        """
        for k in self.squares:
            if any(exponent(m, k) for m in b):
                conjugate = _conjugate(b, k)
                a = self.product(a, conjugate)
                b = self.product(b, conjugate)
        return _divided(a, b)

    def reciprocal(self, a: Polynomial) -> Polynomial:
        """1 / a in normal form.

        Raises ModelError where a is zero.
        """
        if not a:
            raise ModelError("a closed form divides by what is zero for all coordinates and parameters")
        a, powers = self.split(a)
        numerator = self._denominator(powers)
        for k in self.squares:
            if self.generators[k].is_Pow and any(exponent(m, k) for m in a):  # a root
                conjugate = _conjugate(a, k)
                numerator = self.product(numerator, conjugate)
                a = self.product(a, conjugate)
        common = 0
        for k, d in self.denominators.items():
            while (q := self.quotient(a, d)) is not None:
                a = q
                common = common + (1 << (BITS * k))
        places = [k for k in range(len(self.generators)) if any(exponent(m, k) for m in a)]
        content, factors = _factor_list(a, places) if len(a) <= FACTORED else (1, [(a, 1)])
        for d, e in factors:
            scale = _content(d)
            if max(abs(x / scale) for x in d.values()) > LARGEST_NUMBER:  # decimals: as they were met
                scale = 1 / Fraction(content) if len(factors) == e == 1 else max(d.values(), key=abs)
            content *= scale**e
            d = scaled(d, Fraction(1) / scale)
            k = self.place(1 / self.expression(d))
            self.denominators[k] = d
            self._reciprocals |= self._mask([k])
            common += e << (BITS * k)
        return self.product(numerator, {common: _simple(Fraction(1) / content)})

    # -- from traces and from SymPy -----------------------------------------------------------------------

    def evaluate(self, function: Function, inputs: Mapping[Expr, Any]) -> dict[str, list[Polynomial]]:
        """The outputs of a traced function, flat, as polynomials, given its inputs as SymPy expressions."""

        def expression(x: Any) -> Any:
            return x if isinstance(x, sympy.Basic) else self.polynomial_expression(x)

        def of_sympy(op: str, rule: Callable[..., Any]) -> Callable[..., Any]:
            """Conditions, which stay SymPy's, and what is no quotient of polynomials: a new generator."""
            if op in CONDITIONS:
                return lambda *x: rule(*map(expression, x))
            return lambda *x: self.from_sympy(rule(*map(expression, x)))

        rules = {op: of_sympy(op, rule) for op, rule in on(sympy, RULES).items()} | {
            "add": self.sum,
            "sub": partial(self.sum, sign=-1),
            "mul": self.product,
            "neg": partial(scaled, factor=-1),
            "div": lambda a, b: self.product(a, self.reciprocal(b)),
        }
        given = {x: self.from_sympy(inputs[x]) for x in function.nodes if x.op == "input"}
        return interpreted(function, given, rules, lambda x: self.from_sympy(recognized(x, roots=True)))

    def from_sympy(self, expression: Any) -> Polynomial:
        """A SymPy expression as a quotient of polynomials; subexpressions that are none become generators."""
        if expression.is_Rational:
            return {0: _simple(Fraction(expression.p, expression.q))} if expression else {}
        if expression.is_Add:
            total: Polynomial = {}
            for term in expression.args:
                total = self.sum(total, self.from_sympy(term))
            return total
        if expression.is_Mul:
            total = {0: 1}
            for factor in expression.args:
                total = self.product(total, self.from_sympy(factor))
            return total
        if expression.is_Pow and expression.exp.is_Integer and abs(expression.exp) < 2**BITS:
            total = {0: 1}
            base = self.from_sympy(expression.base)
            if expression.exp < 0:
                base = self.reciprocal(base)
            for _ in range(abs(int(expression.exp))):
                total = self.product(total, base)
            return total
        if isinstance(expression, sympy.sin | sympy.cos):
            places = self.circle(expression.args[0])
            return {1 << (BITS * places[isinstance(expression, sympy.sin)]): 1}
        if expression.is_Pow and expression.exp == sympy.Rational(1, 2):
            self.rule(self.place(expression), self.from_sympy(expression.base))
        return self.generator(expression)

    # -- short expressions --------------------------------------------------------------------------------

    def polynomial_expression(self, a: Polynomial) -> Any:
        """The polynomial as it stands, a sum of monomials."""
        return sympy.Add(*(readable(x) * self._power_product(m) for m, x in a.items()))

    def shortest(self, expression: Any) -> Any:
        """The short form of a SymPy expression."""
        return self.expression(self.from_sympy(sympy.expand_trig(expression)))

    def _without_roots(self, a: Polynomial) -> Polynomial:
        """a; beside decimals roots of numbers are decimals, too, as 0.3 sqrt(2) x + 0.2 x is one term.

        What the digits that were meant do not tell from zero is zero.
        """
        roots = {
            k: f for k, f in enumerate(self.generators) if f.is_Pow and f.is_number and k in self.squares
        }
        if not any(m & self._mask([*roots]) for m in a) or not any(map(is_long, a.values())):
            return a
        terms: dict[Monomial, list[Fraction]] = {}
        for m, x in a.items():
            for k, root in roots.items():
                if exponent(m, k):
                    m = m - (1 << (BITS * k))
                    x = x * Fraction(str(root.evalf(30)))
            terms.setdefault(m, []).append(Fraction(x))
        sums = {m: float(sum(x)) for m, x in terms.items()}
        meant = {m: x for m, x in sums.items() if abs(x) > 1e-14 * float(max(map(abs, terms[m])))}
        return {m: _simple(Fraction(f"{x:.15g}")) for m, x in meant.items()}

    def expression(self, a: Polynomial) -> Any:
        """A short expression of a polynomial in normal form.

        What multiplies one product of parameters and velocities is a function of the angles alone, and is
        brought to its own shortest form (`_angles`): a polynomial in sines and cosines, or one in sines and
        cosines of sums of angles. Terms with the same function of the angles are collected, and the
        parameters before them factored.
        """
        if not a:
            return sympy.Integer(0)
        if len(a) > READABLE:
            raise TooLarge(f"an expression of {len(a)} terms")
        a, powers = self.split(self._without_roots(a))
        if powers:
            content = _content(a)
            common = _common(a)
            if max(abs(content.numerator), content.denominator) > LARGEST_NUMBER:
                content = 1
            rest = self.expression({m - common: _simple(Fraction(x) / content) for m, x in a.items()})
            reciprocals = (self.generators[k] ** e for k, e in powers.items())
            return sympy.Mul(readable(content), self._power_product(common), rest, *reciprocals)
        by_outer: dict[Monomial, Polynomial] = {}
        inner = self._mask([k for pair in (*self.circles.values(), *self.quaternions) for k in pair])
        for m, x in a.items():
            by_outer.setdefault(m & ~inner, {})[m & inner] = x
        ways = [self._whole]
        if len(a) <= FOURIER and any(len(p) > 1 for p in by_outer.values()):
            ways += [self._split_waves] if len(by_outer) > 1 else []
            ways.append(self._split_monomials)
        candidates = [(self._sum_over(groups), groups) for groups in (collected(by_outer, w) for w in ways)]
        best, groups = min(candidates, key=lambda c: c[0][0])
        if sum(map(len, groups.values())) <= SHARED:
            best = min([best, self._nested(groups), *self._by_masses(groups)], key=_cost)
        return best[1]

    def _sum_over(self, groups: Mapping[Any, Polynomial]) -> tuple[int, Any]:
        """(length, sum over functions f of the angles of (polynomial in the rest) f)."""
        terms = []
        cost = 0
        for f, group in groups.items():
            length, outer_expression = self._grouped(group)
            cost += length + _length(f) + 1
            terms.append(_times(outer_expression, f))
        return cost, sympy.Add(*terms)

    def _nested(self, groups: Mapping[Any, Polynomial]) -> tuple[int, Any]:
        """The same with the powers that its terms share taken out, functions of the angles as letters."""
        letters = Ring()
        total = {}
        for f, group in groups.items():
            for m, x in group.items():
                place = letters._letter(f)
                for k, e in enumerate(m.to_bytes(len(self.generators), "little")):
                    place += e * letters._letter(self.generators[k]) if e else 0
                total[place] = x
        return letters._grouped(total) if total else (0, sympy.Integer(0))

    def _by_masses(self, groups: Mapping[Any, Polynomial]) -> Iterator[tuple[int, Any]]:
        """The same with sums of parameters taken out: m1 + m2 before all that a composite body bears."""
        own = self._mask(k for k, x in enumerate(self.generators) if x in self.parameters)
        rows: dict[tuple[Any, Monomial], Polynomial] = {}
        for f, group in groups.items():
            for m, x in group.items():
                rows.setdefault((f, m & ~own), {})[m & own] = x
        found: dict[Any, list[Any]] = {}  # rows by their sums of parameters, up to a monomial
        for (f, rest), row in rows.items():
            content = _content(row)
            common = _common(row)
            normal = tuple(sorted((m - common, _simple(Fraction(x) / content)) for m, x in row.items()))
            found.setdefault(normal, []).append((f, rest, rest + common, content))
        shared = {x: several for x, several in found.items() if len(x) > 1 and len(several) > 1}
        if not shared:
            return
        parts = []
        left = {f: dict(group) for f, group in groups.items()}
        for normal, several in shared.items():
            inner: dict[Any, Polynomial] = {}
            for f, rest, place, content in several:
                inner.setdefault(f, {})[place] = _simple(content)
                for m in rows[f, rest]:
                    del left[f][rest + m]
            parts.append((self._grouped(dict(normal)), self._short_sum(inner)))
        left = {f: group for f, group in left.items() if group}
        parts += [((0, sympy.Integer(1)), self._short_sum(left))] if left else []
        yield sum(a[0] + b[0] + 1 for a, b in parts), sympy.Add(*(_times(a[1], b[1]) for a, b in parts))

    def _short_sum(self, groups: Mapping[Any, Polynomial]) -> tuple[int, Any]:
        return min(self._sum_over(groups), self._nested(groups), key=_cost)

    def _letter(self, x: Any) -> Monomial:
        """x as a generator; nothing for 1."""
        return 0 if x == 1 else 1 << (BITS * self.place(x))

    def _whole(self, p: Polynomial) -> list[tuple[Any, Any]]:
        """p as one function of the angles, its shortest form, up to a factor."""
        content = _content(p)
        factor, f = self._angles(scaled(p, Fraction(1) / content))
        return [(f, content * factor)]

    def _split_waves(self, p: Polynomial) -> list[tuple[Any, Any]]:
        """p as sines and cosines of sums of angles, one by one."""
        waves = self._waves(p, self._angles_of(p))
        return [(self._wave(w), x) for w, x in waves.items()]

    def _split_monomials(self, p: Polynomial) -> list[tuple[Any, Any]]:
        """p as powers of sines and cosines, one by one."""
        return [(self._power_product(m), x) for m, x in p.items()]

    def _angles(self, p: Polynomial) -> tuple[Any, Any]:
        """(factor, f) with p = factor f and f short, for a polynomial in sines, cosines and quaternions."""
        key = tuple(sorted(p.items()))
        if key not in self._short:
            if len(p) == 1:
                ((m, x),) = p.items()
                self._short[key] = (x, self._power_product(m))
            else:
                candidates = list(self._forms(p))
                if len(p) <= FEW:
                    candidates += self._factored(p)
                _, factor, f = min(candidates, key=lambda c: c[0])
                self._short[key] = (factor, f)
        return self._short[key]

    def _forms(self, p: Polynomial) -> Iterator[tuple[int, Any, Any]]:
        """(length, factor, f): sums of terms that are p, by different choices of terms."""
        for alternative in self._alternatives(p):
            yield self._sum((self._power_product(m), x) for m, x in alternative.items())
        angles = self._angles_of(p)
        if len(p) > FOURIER:
            return
        runs = [angles]
        if len(p) <= 4 * FEW:
            pairs = [angles[i:j] for i in range(len(angles)) for j in range(i + 1, len(angles) + 1)]
            runs += [run for run in pairs if run != angles]
        for run in runs:
            waves = self._waves(p, run)
            if len(waves) > WAVES * len(p):
                continue
            yield self._sum((self._wave(w), x) for w, x in waves.items())
            yield from self._half_angle(waves)

    def _alternatives(self, p: Polynomial) -> Iterator[Polynomial]:
        """p, and p with squares replaced by 1 minus the other squares of a circle or quaternion."""
        yield p
        choices = []
        for circle in (*self.circles.values(), *self.quaternions):
            squared = [k for k in circle if any(exponent(m, k) >= 2 for m in p)]
            if squared:
                choices.append([(k, circle) for k in squared])
        if len(p) > 4 * FEW:
            return
        for choice in itertools.islice(itertools.product(*([None, *c] for c in choices)), 1, 33):
            q = p
            for replaced in filter(None, choice):
                q = _eliminated(q, *replaced)
            yield q

    def _half_angle(self, waves: Mapping[Wave, Any]) -> Iterator[tuple[int, Any, Any]]:
        """A (1 + cos 2x) = 2 A cos(x)^2 and A (1 - cos 2x) = 2 A sin(x)^2, where that is all."""
        if len(waves) != 2:
            return
        (u, A), (w, B) = sorted(waves.items(), key=lambda item: any(item[0][2]))
        if any(u[2]) or u[1] or w[1] or u[0] != w[0] or abs(A) != abs(B) or any(k % 2 for k in w[2]):
            return
        half = (w[0], A != B, tuple(k // 2 for k in w[2]))
        if any(half[2]):
            trigonometric = self._wave((0, *half[1:])) ** 2
            f = self._power_product(w[0]) * trigonometric
            yield _length(f), 2 * A, f

    def _factored(self, p: Polynomial) -> Iterator[tuple[int, Any, Any]]:
        """The factors of p, and of its other forms, each as short as it can be."""
        for alternative in itertools.islice(self._alternatives(p), 4):
            places = [k for k in range(len(self.generators)) if any(exponent(m, k) for m in alternative)]
            content, factors = _factor_list(alternative, places)
            if len(factors) == 1 and factors[0][1] == 1:
                continue
            product = sympy.Integer(1)
            length = 0
            for q, power in factors:
                if len(q) == 1:
                    factor = 1
                    f = self._power_product(next(iter(q)))
                    factor = next(iter(q.values()))
                else:
                    _, factor, f = min(self._forms(self.reduced(q)), key=lambda c: c[0])
                content = content * factor**power
                product = product * f**power
                length += _length(f) + power - 1
            yield length + len(factors), content, product

    def _sum(self, terms: Iterable[tuple[Any, Any]]) -> tuple[int, Any, Any]:
        terms = [(f, x) for f, x in terms if x != 0]
        if not terms:
            return 0, 0, sympy.Integer(0)
        content = _scale(dict(enumerate(x for _, x in terms)))
        cost = sum(_length(f) + 1 + (abs(x) != abs(content)) for f, x in terms)
        total = sympy.Add(*(readable(Fraction(x) / content) * f for f, x in terms))
        return cost, content, total

    # -- sines and cosines of sums ------------------------------------------------------------------------

    def _angles_of(self, p: Polynomial) -> list[Any]:
        """The angles whose sines and cosines occur, in the order of the joints."""
        return [
            angle
            for angle, (c, s) in self.circles.items()
            if any(exponent(m, c) or exponent(m, s) for m in p)
        ]

    def _waves(self, p: Polynomial, angles: Sequence[Any]) -> dict[Wave, Any]:
        """p with products of sines and cosines of `angles` turned into sines and cosines of their sums.

        cos^a sin^b = 2^-(a+b) (-i)^b (z + 1/z)^a (z - 1/z)^b with z = exp(i angle).
        """
        places = [self.circles[angle] for angle in angles]
        order = list(self.circles)
        numbers = [order.index(angle) for angle in angles]
        waves: dict[Wave, Any] = {}
        for m, x in p.items():
            rest = m
            sines = 0
            spectrum = {(0,) * len(order): Fraction(x)}
            for number, (c, s) in zip(numbers, places, strict=True):
                a = exponent(m, c)
                b = exponent(m, s)
                rest -= (a << (BITS * c)) + (b << (BITS * s))
                sines += b
                if a + b:
                    spectrum = {
                        (*k[:number], k[number] + j, *k[number + 1 :]): y * z
                        for k, y in spectrum.items()
                        for j, z in _laurent(a, b).items()
                    }
            sign = (-1) ** (sines // 2)
            for k, y in spectrum.items():
                odd = bool(sines % 2)
                if next((j for j in k if j), 0) < 0:
                    k = tuple(-j for j in k)
                    y = -y if odd else y
                if odd and not any(k):
                    continue
                key = (rest, odd, k)
                waves[key] = waves.get(key, 0) + sign * y
        return {w: _simple(x) for w, x in waves.items() if x != 0}

    def _wave(self, wave: Wave) -> Any:
        rest, odd, k = wave
        angle = sympy.Add(*(n * angle for n, angle in zip(k, self.circles, strict=True)))
        return self._power_product(rest) * (sympy.sin(angle) if odd else sympy.cos(angle))

    # -- parameters and velocities ------------------------------------------------------------------------

    def _grouped(self, p: Polynomial) -> tuple[int, Any]:
        """(length, expression) of a polynomial in parameters and velocities, common factors taken out."""
        key = ("grouped", tuple(sorted(p.items())))
        if key not in self._short:
            self._short[key] = self._group(p)
        return self._short[key]

    def _group(self, p: Polynomial) -> tuple[int, Any]:
        content = _content(p)
        common = _common(p)
        p = {m - common: _simple(Fraction(x) / content) for m, x in p.items()}
        front = self._power_product(common)
        length = _length(front) + (content not in (1, -1))
        if len(p) == 1:
            return length, _times(readable(content), front)
        inside, rest = self._sum_of_groups(p)
        if len(p) <= FEW:
            places = [k for k in range(len(self.generators)) if any(exponent(m, k) for m in p)]
            number, factors = (1, [(p, 1)]) if is_prime(p, places) else _factor_list(p, places)
            if len(factors) > 1 or factors[0][1] > 1:
                parts = [(self._sum_of_groups(q), power) for q, power in factors]
                if sum(part[0] + power for part, power in parts) <= inside + 1:
                    inside = sum(part[0] + power for part, power in parts)
                    rest = sympy.Mul(*(part[1] ** power for part, power in parts))
                    content = content * number
        return length + inside, _times(readable(content) * front, rest)

    def _sum_of_groups(self, p: Polynomial) -> tuple[int, Any]:
        """A sum, with the power that occurs most often factored out, again and again."""
        best: tuple[int, int, int, int] | None = None
        for k in range(len(self.generators)):
            exponents = sorted((exponent(m, k) for m in p), reverse=True)
            for e in {e for e in exponents if e}:
                count = sum(x >= e for x in exponents)
                candidate = ((count - 1) * e, e, -k, k)
                if 1 < count < len(p) and (best is None or candidate > best):
                    best = candidate
        if best is None or len(p) > READABLE:
            terms = [readable(x) * self._power_product(m) for m, x in p.items()]
            return sum(map(_length, terms)) + len(terms), sympy.Add(*terms)
        _, e, _, k = best
        shared = {m: x for m, x in p.items() if exponent(m, k) >= e}
        others = {m: x for m, x in p.items() if exponent(m, k) < e}
        a = self._grouped(shared)
        b = self._grouped(others)
        return a[0] + b[0] + 1, sympy.Add(a[1], b[1])

    # -- pieces -------------------------------------------------------------------------------------------

    def _power_product(self, m: Monomial) -> Any:
        factors = []
        k = 0
        while m:
            if e := m & (2**BITS - 1):
                factors.append(self.generators[k] ** e)
            m >>= BITS
            k += 1
        return sympy.Mul(*factors)

    def _mask(self, places: Iterable[int]) -> int:
        return sum((2**BITS - 1) << (BITS * k) for k in places)


def collected(
    by_outer: Mapping[Monomial, Polynomial], split: Callable[[Polynomial], Iterable[tuple[Any, Any]]]
) -> dict[Any, Polynomial]:
    """{function f of the angles: polynomial in the rest}, by one way to split polynomials in the angles."""
    groups: dict[Any, Polynomial] = {}
    for outer, p in by_outer.items():
        for f, factor in split(p):
            group = groups.setdefault(f, {})
            group[outer] = group.get(outer, 0) + factor
    kept = {f: {m: _simple(x) for m, x in group.items() if x != 0} for f, group in groups.items()}
    return {f: group for f, group in kept.items() if group}


def _cost(found: tuple[int, Any]) -> int:
    return found[0]


def exponent(m: Monomial, k: int) -> int:
    """The exponent of generator k."""
    return (m >> (BITS * k)) & (2**BITS - 1)


def add(a: Polynomial, b: Polynomial, sign: int = 1) -> Polynomial:
    """a + sign b."""
    total = dict(a)
    for m, x in b.items():
        total[m] = total.get(m, 0) + sign * x
        if total[m] == 0:
            del total[m]
    return total


def _conjugate(a: Polynomial, k: int) -> Polynomial:
    """a with -x_k for x_k, of which there is no square."""
    return {m: -x if exponent(m, k) else x for m, x in a.items()}


def _divided(a: Polynomial, b: Polynomial) -> Polynomial | None:
    """a / b by long division in lexical order, with no rule for squares; None where a term remains."""
    lead = max(b)
    total = {}
    a = dict(a)
    tail = [(m - lead, x) for m, x in b.items() if m != lead]
    heads = [-m for m in a]
    heapq.heapify(heads)
    while heads:
        head = -heapq.heappop(heads)
        if not (x := a.pop(head, 0)):
            continue
        if not _divides(lead, head):
            return None
        total[head - lead] = factor = _simple(Fraction(x) / b[lead])
        for step, y in tail:
            if head + step not in a:
                heapq.heappush(heads, -(head + step))
            a[head + step] = a.get(head + step, 0) - factor * y
    return total


def _divides(m: Monomial, n: Monomial) -> bool:
    """Whether no exponent of m is larger than that of n."""
    return all(
        (m >> shift) & (2**BITS - 1) <= (n >> shift) & (2**BITS - 1)
        for shift in range(0, m.bit_length(), BITS)
    )


def scaled(a: Polynomial, factor: Any) -> Polynomial:
    return {m: _simple(factor * x) for m, x in a.items()}


def _simple(x: Any) -> Any:
    """A whole number as an integer; others as they are."""
    return x.numerator if x.denominator == 1 else x


def _content(p: Mapping[Any, Any]) -> Any:
    """The rational c for which p / c has coprime integers, more of them positive."""
    numerator = math.gcd(*(Fraction(x).numerator for x in p.values()))
    denominator = math.lcm(*(Fraction(x).denominator for x in p.values()))
    signs = sum(1 if x > 0 else -1 for x in p.values()) or (1 if p[max(p)] > 0 else -1)
    return Fraction(numerator if signs > 0 else -numerator, denominator)


def _scale(p: Mapping[Any, Any]) -> Any:
    """What is taken out of p: `_content`, or of decimals the largest."""
    content = _content(p)
    if max(abs(x / content) for x in p.values()) > LARGEST_NUMBER:
        return max(map(Fraction, p.values()), key=abs)
    return content


def _common(p: Polynomial) -> Monomial:
    """The greatest common divisor of the monomials."""
    bits = max(p).bit_length()
    total = 0
    for shift in range(0, bits, BITS):
        total |= min((m >> shift) & (2**BITS - 1) for m in p) << shift
    return total


def _laurent(a: int, b: int) -> dict[int, Fraction]:
    """(z + 1/z)^a (z - 1/z)^b / 2^(a + b), by powers of z."""
    total = {0: Fraction(1)}
    for sign in (1,) * a + (-1,) * b:
        following: dict[int, Fraction] = {}
        for k, x in total.items():
            following[k + 1] = following.get(k + 1, 0) + x / 2
            following[k - 1] = following.get(k - 1, 0) + sign * x / 2
        total = {k: x for k, x in following.items() if x}
    return total


def _eliminated(p: Polynomial, k: int, circle: Sequence[int]) -> Polynomial:
    """p with x_k^2 replaced by 1 minus the squares of the others of its circle."""
    while any(exponent(m, k) >= 2 for m in p):
        q: Polynomial = {}
        for m, x in p.items():
            if exponent(m, k) < 2:
                q = add(q, {m: x})
                continue
            rest = m - (2 << (BITS * k))
            q = add(q, {rest: x})
            for other in circle:
                if other != k:
                    q = add(q, {rest + (2 << (BITS * other)): -x})
        p = q
    return p


def is_prime(p: Polynomial, places: Iterable[int]) -> bool:
    """Whether some generator occurs in one term alone, to the first power: p = a x + b with a monomial a.

    Then p, without a monomial that divides it, has no factors, since such a factor would divide a and b.
    """
    return any(sorted(exponent(m, k) for m in p)[-2:] == [0, 1] for k in places)


def _factor_list(p: Polynomial, places: Sequence[int]) -> tuple[Any, list[tuple[Polynomial, int]]]:
    """The factors of a polynomial over the rationals, and the number before them."""
    if not places:
        return p[0], []
    domain, *_ = sympy.ring([f"x{k}" for k in places], sympy.QQ)
    element = domain.from_dict(
        {
            tuple(exponent(m, k) for k in places): sympy.QQ(*Fraction(x).as_integer_ratio())
            for m, x in p.items()
        }
    )
    with polyconfig.using(EEZ_NUMBER_OF_CONFIGS=IMAGES):
        number, factors = element.factor_list()
    found = []
    for factor, power in factors:
        q = {
            sum(e << (BITS * k) for e, k in zip(exponents, places, strict=True)): _simple(
                Fraction(int(x.numerator), int(x.denominator))
            )
            for exponents, x in factor.terms()
        }
        found.append((q, power))
    return Fraction(int(number.numerator), int(number.denominator)), found


def _length(f: Any) -> int:
    """How long an expression is to read: its symbols, functions and powers."""
    if f.is_Number:
        return 0 if f in (1, -1) else 1
    if f.is_Symbol:
        return 1
    own = 1 if f.is_Pow or f.is_Function else len(f.args) - 1 if f.is_Add else 0
    return own + sum(map(_length, f.args if not f.is_Pow else f.args[:1]))


def _times(a: Any, b: Any) -> Any:
    """a b, with the sign before a sum that reads well; fractions stay before sums, decimals do not."""
    sums = [x for x in sympy.Mul.make_args(b) if x.is_Add]
    if not sums:
        return a * b
    number, rest = a.as_coeff_Mul()
    if number.is_Float and any(abs(term.as_coeff_Mul()[0]) != 1 for term in sums[0].args):
        inside = sympy.Add(*(_decimal_times(number, term) for term in sums[0].args))
        others = [x for x in sympy.Mul.make_args(b) if x is not sums[0]]
        return _times(rest, sympy.Mul(inside, *others))
    if b.is_Add and b.could_extract_minus_sign():
        a = -a
        b = -b
    return a * b if not a.is_Number or abs(a) == 1 else sympy.Mul(a, b, evaluate=False)


def _decimal_times(number: Any, term: Any) -> Any:
    """The product, its number rounded to the digits that were meant."""
    coefficient, rest = term.as_coeff_Mul()
    return readable(Fraction(f"{float(number * coefficient):.15g}")) * rest
