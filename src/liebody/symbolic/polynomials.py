"""Traced functions as quotients of polynomials in sines, cosines and parameters, and their short expressions.

The equations of motion of a tree are polynomials in the sines and cosines of its angles, its quaternions,
velocities and parameters. On polynomials sin^2 + cos^2 = 1 is a rewriting rule, and gives each function one
normal form, without terms that cancel. Quotients are kept in lowest terms: their denominators are products
of known factors, so that trial division finds common factors. Arithmetic decides all that, without a search:

    trace -> normal form (`Ring.evaluate`) -> short expression (`Ring.expression`).

A monomial is an integer: the exponent of generator k stands in its bits 8 k to 8 k + 7, so that a product of
monomials is a sum of integers. A polynomial is a dict from monomials to coefficients, integers where they can
be and fractions elsewhere. The reciprocal of each factor of a denominator is a generator as well, and all
terms of a quotient have the same product of reciprocals.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from typing import Any

import sympy
from sympy.polys import polyconfig

from ..base.errors import ModelError
from ..compiler import CONDITIONS, Expr, Function, interpreted, sympy_rules
from ..scalars import Table
from .numbers import readable, recognized

Monomial = int
Polynomial = dict[Monomial, Any]

BITS = 8
LARGEST = 6_000  # terms of a polynomial on the way
LARGEST_PRODUCT = 20_000  # products of terms in one step
LARGEST_NUMBER = 1_000_000  # of the whole numbers in quotients; beyond, decimals stay
FACTORED = 200  # terms of a denominator that is still factored
# Images in one variable that SymPy's factorisation (Wang's) tries: where the image of a polynomial without
# factors has some in all of them, these are lifted in vain, for minutes. It does so for 3, and here for some
# in a thousand; one image without factors ends it.
IMAGES = 16


class TooLarge(ModelError):
    """A closed form with more terms than anybody reads."""


@dataclass(eq=False)
class Quotients:
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
            if m & self._rigid:  # some exponent is two or more where a rule holds
                for n, y in self._reduced_monomial(m).items():
                    total[n] = total.get(n, 0) + x * y
            else:
                total[m] = total.get(m, 0) + x
        total = {m: as_integer(x) for m, x in total.items() if x != 0}
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
        # numerators by their products of reciprocals, then over the largest power of each
        parts: dict[Monomial, Polynomial] = {}
        for m, x in a.items():
            parts.setdefault(m & self._reciprocals, {})[m & ~self._reciprocals] = x
        powers = {k: max(exponent(m, k) for m in parts) for k in self.denominators}
        numerator: Polynomial = {}
        for m, p in parts.items():
            missing = {k: e - exponent(m, k) for k, e in powers.items()}
            numerator = add(numerator, self.product(p, self._denominator(missing)))
        # known factors that divide the numerator cancel
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

        (p + q x)(p - q x) is free of an x with a rule, and division by such a polynomial works coefficient by
        coefficient.
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
        # 1 / (p / d) = d / p
        a, powers = self.split(a)
        numerator = self._denominator(powers)
        # roots leave the denominator: (p + q x)(p - q x)
        for k in self.squares:
            if self.generators[k].is_Pow and any(exponent(m, k) for m in a):  # a root
                conjugate = _conjugate(a, k)
                numerator = self.product(numerator, conjugate)
                a = self.product(a, conjugate)
        # known factors first, by division; only the remainder is factored
        common = 0
        for k, d in self.denominators.items():
            while (q := self.quotient(a, d)) is not None:
                a = q
                common = common + (1 << (BITS * k))
        places = [k for k in range(len(self.generators)) if any(exponent(m, k) for m in a)]
        content, factors = factor_list(a, places) if len(a) <= FACTORED else (1, [(a, 1)])
        # each new factor, over its content, becomes a generator: its reciprocal
        for d, e in factors:
            scale = content_of(d)
            if max(abs(x / scale) for x in d.values()) > LARGEST_NUMBER:  # decimals: as they were met
                scale = 1 / Fraction(content) if len(factors) == e == 1 else max(d.values(), key=abs)
            content *= scale**e
            d = scaled(d, Fraction(1) / scale)
            k = self.place(1 / self.expression(d))
            self.denominators[k] = d
            self._reciprocals |= self._mask([k])
            common += e << (BITS * k)
        return self.product(numerator, {common: as_integer(Fraction(1) / content)})

    # -- from traces and from SymPy -----------------------------------------------------------------------

    def evaluate(self, function: Function, inputs: Mapping[Expr, Any]) -> dict[str, list[Polynomial]]:
        """The outputs of a traced function, flat, as polynomials, given its inputs as SymPy expressions."""

        def expression(x: Any) -> Any:
            return x if isinstance(x, (sympy.Basic, Table)) else self.polynomial_expression(x)

        def of_sympy(op: str, rule: Callable[..., Any]) -> Callable[..., Any]:
            """Conditions stay SymPy's; other functions that are no quotients become new generators."""
            if op in CONDITIONS:
                return lambda *x: rule(*map(expression, x))
            return lambda *x: self.from_sympy(rule(*map(expression, x)))

        rules = {op: of_sympy(op, rule) for op, rule in sympy_rules().items()} | {
            "add": self.sum,
            "sub": partial(self.sum, sign=-1),
            "mul": self.product,
            "neg": partial(scaled, factor=-1),
            "div": lambda a, b: self.product(a, self.reciprocal(b)),
        }
        values = {x: self.from_sympy(inputs[x]) for x in function.nodes if x.op == "input"}
        return interpreted(function, values, rules, lambda x: self.from_sympy(recognized(x, roots=True)))

    def from_sympy(self, expression: Any) -> Polynomial:
        """A SymPy expression as a quotient of polynomials; subexpressions that are none become generators."""
        if expression.is_Rational:
            return {0: as_integer(Fraction(expression.p, expression.q))} if expression else {}
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
        # a square root is a generator with the rule that its square is the radicand
        if expression.is_Pow and expression.exp == sympy.Rational(1, 2):
            self.rule(self.place(expression), self.from_sympy(expression.base))
        return self.generator(expression)

    # -- back to SymPy ------------------------------------------------------------------------------------

    def polynomial_expression(self, a: Polynomial) -> Any:
        """The polynomial as it stands, a sum of monomials."""
        return sympy.Add(*(readable(x) * self._power_product(m) for m, x in a.items()))

    def expression(self, a: Polynomial) -> Any:
        """A short expression of a polynomial in normal form: `Ring.expression`."""
        raise NotImplementedError

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
    # the largest monomials come first, from a heap; each multiple of b removes one and adds smaller ones
    heads = [-m for m in a]
    heapq.heapify(heads)
    while heads:
        head = -heapq.heappop(heads)
        if not (x := a.pop(head, 0)):
            continue
        if not _divides(lead, head):
            return None
        total[head - lead] = factor = as_integer(Fraction(x) / b[lead])
        for step, y in tail:
            if head + step not in a:
                heapq.heappush(heads, -(head + step))
            a[head + step] = a.get(head + step, 0) - factor * y
    return total


def _divides(m: Monomial, n: Monomial) -> bool:
    """Whether each exponent of m is at most the one of n."""
    return all(
        (m >> shift) & (2**BITS - 1) <= (n >> shift) & (2**BITS - 1)
        for shift in range(0, m.bit_length(), BITS)
    )


def scaled(a: Polynomial, factor: Any) -> Polynomial:
    return {m: as_integer(factor * x) for m, x in a.items()}


def as_integer(x: Any) -> Any:
    """A whole number as an integer; others as they are."""
    return x.numerator if x.denominator == 1 else x


def content_of(p: Mapping[Any, Any]) -> Any:
    """The rational c for which p / c has coprime integers, more of them positive."""
    numerator = math.gcd(*(Fraction(x).numerator for x in p.values()))
    denominator = math.lcm(*(Fraction(x).denominator for x in p.values()))
    signs = sum(1 if x > 0 else -1 for x in p.values()) or (1 if p[max(p)] > 0 else -1)
    return Fraction(numerator if signs > 0 else -numerator, denominator)


def common_monomial(p: Polynomial) -> Monomial:
    """The greatest common divisor of the monomials."""
    bits = max(p).bit_length()
    total = 0
    for shift in range(0, bits, BITS):
        total |= min((m >> shift) & (2**BITS - 1) for m in p) << shift
    return total


def is_prime(p: Polynomial, places: Iterable[int]) -> bool:
    """Whether some generator occurs in one term alone, to the first power: p = a x + b with a monomial a.

    Then p, without a monomial that divides it, has no factors, since such a factor would divide a and b.
    """
    return any(sorted(exponent(m, k) for m in p)[-2:] == [0, 1] for k in places)


def factor_list(p: Polynomial, places: Sequence[int]) -> tuple[Any, list[tuple[Polynomial, int]]]:
    """The factors of a polynomial over the rationals, and the number before them."""
    if not places:
        return p[0], []
    # SymPy factors over the rationals, in the generators that occur
    domain, *_ = sympy.ring([f"x{k}" for k in places], sympy.QQ)
    element = domain.from_dict(
        {
            tuple(exponent(m, k) for k in places): sympy.QQ(*Fraction(x).as_integer_ratio())
            for m, x in p.items()
        }
    )
    with polyconfig.using(EEZ_NUMBER_OF_CONFIGS=IMAGES):
        number, factors = element.factor_list()
    polynomials = []
    for factor, power in factors:
        q = {
            sum(e << (BITS * k) for e, k in zip(exponents, places, strict=True)): as_integer(
                Fraction(int(x.numerator), int(x.denominator))
            )
            for exponents, x in factor.terms()
        }
        polynomials.append((q, power))
    return Fraction(int(number.numerator), int(number.denominator)), polynomials
