"""Short expressions of quotients in normal form: terms collected, common factors taken out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from fractions import Fraction
from typing import Any

import sympy

from .angle_forms import FEW, FOURIER, AngleForms, length_of
from .numbers import is_long, readable
from .polynomials import (
    BITS,
    LARGEST_NUMBER,
    Monomial,
    Polynomial,
    TooLarge,
    as_integer,
    common_monomial,
    content_of,
    exponent,
    factor_list,
    is_prime,
    scaled,
)

READABLE = 2_000  # terms of an entry; beyond, nobody reads what comes out
SHARED = 40  # most terms of sums from which common factors are taken out


class Ring(AngleForms):
    """Quotients of polynomials, with their short expressions."""

    def shortest(self, expression: Any) -> Any:
        """The short form of a SymPy expression."""
        return self.expression(self.from_sympy(sympy.expand_trig(expression)))

    def _without_roots(self, a: Polynomial) -> Polynomial:
        """a; beside decimals roots of numbers are decimals, too, as 0.3 sqrt(2) x + 0.2 x is one term.

        A sum that is zero to the digits that were meant is zero.
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
        return {m: as_integer(Fraction(f"{x:.15g}")) for m, x in meant.items()}

    def expression(self, a: Polynomial) -> Any:
        """A short expression of a polynomial in normal form.

        The factor of one product of parameters and velocities is a function of the angles alone, and is
        brought to its shortest form (`_angles`): a polynomial in sines and cosines, or one in sines and
        cosines of sums of angles. Terms with the same function of the angles are collected, and the
        parameters before them factored.
        """
        if not a:
            return sympy.Integer(0)
        if len(a) > READABLE:
            raise TooLarge(f"an expression of {len(a)} terms")
        a, powers = self.split(self._without_roots(a))
        if powers:
            # a quotient: common factors in front, the rest in short form, then the reciprocals
            content = content_of(a)
            common = common_monomial(a)
            if max(abs(content.numerator), content.denominator) > LARGEST_NUMBER:
                content = 1
            rest = self.expression({m - common: as_integer(Fraction(x) / content) for m, x in a.items()})
            reciprocals = (self.generators[k] ** e for k, e in powers.items())
            return sympy.Mul(readable(content), self._power_product(common), rest, *reciprocals)
        # inner: generators of angles; outer: parameters and velocities
        by_outer: dict[Monomial, Polynomial] = {}
        inner = self._mask([k for pair in (*self.circles.values(), *self.quaternions) for k in pair])
        for m, x in a.items():
            by_outer.setdefault(m & ~inner, {})[m & inner] = x
        # three ways to write functions of angles; the shortest sum wins
        ways = [self._whole]
        if len(a) <= FOURIER and any(len(p) > 1 for p in by_outer.values()):
            ways += [self._split_waves] if len(by_outer) > 1 else []
            ways.append(self._split_monomials)
        candidates = [(self._sum_over(groups), groups) for groups in (collected(by_outer, w) for w in ways)]
        best, groups = min(candidates, key=lambda c: c[0][0])
        # few terms: also common powers over all groups, and sums of masses, are tried
        if sum(map(len, groups.values())) <= SHARED:
            best = min([best, self._nested(groups), *self._by_masses(groups)], key=_cost)
        return best[1]

    def _sum_over(self, groups: Mapping[Any, Polynomial]) -> tuple[int, Any]:
        """(length, sum over functions f of the angles of (polynomial in the rest) f)."""
        terms = []
        cost = 0
        for f, group in groups.items():
            length, outer_expression = self._grouped(group)
            cost += length + length_of(f) + 1
            terms.append(times(outer_expression, f))
        return cost, sympy.Add(*terms)

    def _nested(self, groups: Mapping[Any, Polynomial]) -> tuple[int, Any]:
        """The same with the powers that its terms share taken out, functions of the angles as letters."""
        letters = Ring()
        total = {}
        # functions of angles become letters of a ring without rules, where sums are factored as they are
        for f, group in groups.items():
            for m, x in group.items():
                place = letters._letter(f)
                for k, e in enumerate(m.to_bytes(len(self.generators), "little")):
                    place += e * letters._letter(self.generators[k]) if e else 0
                total[place] = x
        return letters._grouped(total) if total else (0, sympy.Integer(0))

    def _by_masses(self, groups: Mapping[Any, Polynomial]) -> Iterator[tuple[int, Any]]:
        """The same with sums of parameters taken out: m1 + m2 before all that a composite body bears."""
        parameters = self._mask(k for k, x in enumerate(self.generators) if x in self.parameters)
        rows: dict[tuple[Any, Monomial], Polynomial] = {}
        for f, group in groups.items():
            for m, x in group.items():
                rows.setdefault((f, m & ~parameters), {})[m & parameters] = x
        by_sum: dict[Any, list[Any]] = {}  # rows by their sums of parameters, up to a monomial
        for (f, rest), row in rows.items():
            content = content_of(row)
            common = common_monomial(row)
            normal = tuple(sorted((m - common, as_integer(Fraction(x) / content)) for m, x in row.items()))
            by_sum.setdefault(normal, []).append((f, rest, rest + common, content))
        # only sums of two parameters or more that occur in several rows
        shared = {x: several for x, several in by_sum.items() if len(x) > 1 and len(several) > 1}
        if not shared:
            return
        parts = []
        left = {f: dict(group) for f, group in groups.items()}
        for normal, several in shared.items():
            inner: dict[Any, Polynomial] = {}
            for f, rest, place, content in several:
                inner.setdefault(f, {})[place] = as_integer(content)
                # the terms of the row are now within the product
                for m in rows[f, rest]:
                    del left[f][rest + m]
            parts.append((self._grouped(dict(normal)), self._short_sum(inner)))
        left = {f: group for f, group in left.items() if group}
        parts += [((0, sympy.Integer(1)), self._short_sum(left))] if left else []
        yield sum(a[0] + b[0] + 1 for a, b in parts), sympy.Add(*(times(a[1], b[1]) for a, b in parts))

    def _short_sum(self, groups: Mapping[Any, Polynomial]) -> tuple[int, Any]:
        return min(self._sum_over(groups), self._nested(groups), key=_cost)

    def _letter(self, x: Any) -> Monomial:
        """x as a generator; nothing for 1."""
        return 0 if x == 1 else 1 << (BITS * self.place(x))

    def _whole(self, p: Polynomial) -> list[tuple[Any, Any]]:
        """p as one function of the angles, its shortest form, up to a factor."""
        content = content_of(p)
        factor, f = self._angles(scaled(p, Fraction(1) / content))
        return [(f, content * factor)]

    def _split_waves(self, p: Polynomial) -> list[tuple[Any, Any]]:
        """p as sines and cosines of sums of angles, one by one."""
        waves = self._waves(p, self._angles_of(p))
        return [(self._wave(w), x) for w, x in waves.items()]

    def _split_monomials(self, p: Polynomial) -> list[tuple[Any, Any]]:
        """p as powers of sines and cosines, one by one."""
        return [(self._power_product(m), x) for m, x in p.items()]

    # -- parameters and velocities ------------------------------------------------------------------------

    def _grouped(self, p: Polynomial) -> tuple[int, Any]:
        """(length, expression) of a polynomial in parameters and velocities, common factors taken out."""
        key = ("grouped", tuple(sorted(p.items())))
        if key not in self._short:
            self._short[key] = self._group(p)
        return self._short[key]

    def _group(self, p: Polynomial) -> tuple[int, Any]:
        # the common factor goes in front; what remains is summed, or factored, whichever is shorter
        content = content_of(p)
        common = common_monomial(p)
        p = {m - common: as_integer(Fraction(x) / content) for m, x in p.items()}
        front = self._power_product(common)
        length = length_of(front) + (content not in (1, -1))
        if len(p) == 1:
            return length, times(readable(content), front)
        inside, rest = self._sum_of_groups(p)
        if len(p) <= FEW:
            places = [k for k in range(len(self.generators)) if any(exponent(m, k) for m in p)]
            # factors, unless the sum is prime by inspection or no shorter as a product
            number, factors = (1, [(p, 1)]) if is_prime(p, places) else factor_list(p, places)
            if len(factors) > 1 or factors[0][1] > 1:
                parts = [(self._sum_of_groups(q), power) for q, power in factors]
                if sum(part[0] + power for part, power in parts) <= inside + 1:
                    inside = sum(part[0] + power for part, power in parts)
                    rest = sympy.Mul(*(part[1] ** power for part, power in parts))
                    content = content * number
        return length + inside, times(readable(content) * front, rest)

    def _sum_of_groups(self, p: Polynomial) -> tuple[int, Any]:
        """A sum, with the power that occurs most often factored out, again and again."""
        best: tuple[int, int, int, int] | None = None
        for k in range(len(self.generators)):
            exponents = sorted((exponent(m, k) for m in p), reverse=True)
            for e in {e for e in exponents if e}:
                count = sum(x >= e for x in exponents)
                # gain: letters that need not be written again
                candidate = ((count - 1) * e, e, -k, k)
                if 1 < count < len(p) and (best is None or candidate > best):
                    best = candidate
        if best is None or len(p) > READABLE:
            terms = [readable(x) * self._power_product(m) for m, x in p.items()]
            return sum(map(length_of, terms)) + len(terms), sympy.Add(*terms)
        _, e, _, k = best
        shared = {m: x for m, x in p.items() if exponent(m, k) >= e}
        others = {m: x for m, x in p.items() if exponent(m, k) < e}
        a = self._grouped(shared)
        b = self._grouped(others)
        return a[0] + b[0] + 1, sympy.Add(a[1], b[1])


def collected(
    by_outer: Mapping[Monomial, Polynomial], split: Callable[[Polynomial], Iterable[tuple[Any, Any]]]
) -> dict[Any, Polynomial]:
    """{function f of the angles: polynomial in the rest}, by one way to split polynomials in the angles."""
    groups: dict[Any, Polynomial] = {}
    for outer, p in by_outer.items():
        for f, factor in split(p):
            group = groups.setdefault(f, {})
            group[outer] = group.get(outer, 0) + factor
    kept = {f: {m: as_integer(x) for m, x in group.items() if x != 0} for f, group in groups.items()}
    return {f: group for f, group in kept.items() if group}


def _cost(found: tuple[int, Any]) -> int:
    return found[0]


def times(a: Any, b: Any) -> Any:
    """a b, with the sign before a sum that reads well; fractions stay before sums, decimals do not."""
    sums = [x for x in sympy.Mul.make_args(b) if x.is_Add]
    if not sums:
        return a * b
    # a decimal goes into a sum whose terms have numbers anyway
    number, rest = a.as_coeff_Mul()
    if number.is_Float and any(abs(term.as_coeff_Mul()[0]) != 1 for term in sums[0].args):
        inside = sympy.Add(*(_decimal_times(number, term) for term in sums[0].args))
        others = [x for x in sympy.Mul.make_args(b) if x is not sums[0]]
        return times(rest, sympy.Mul(inside, *others))
    if b.is_Add and b.could_extract_minus_sign():
        a = -a
        b = -b
    return a * b if not a.is_Number or abs(a) == 1 else sympy.Mul(a, b, evaluate=False)


def _decimal_times(number: Any, term: Any) -> Any:
    """The product, its number rounded to the digits that were meant."""
    coefficient, rest = term.as_coeff_Mul()
    return readable(Fraction(f"{float(number * coefficient):.15g}")) * rest
