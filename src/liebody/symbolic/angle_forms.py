"""Short expressions of polynomials in sines, cosines and quaternions: the functions of the angles."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any

import sympy

from .numbers import readable
from .polynomials import (
    BITS,
    LARGEST_NUMBER,
    Monomial,
    Polynomial,
    Quotients,
    add,
    as_integer,
    content_of,
    exponent,
    factor_list,
)

Wave = tuple[Monomial, bool, tuple[int, ...]]  # a product of generators with cos (False) or sin of an angle

FEW = 40  # terms of which everything that could make them shorter is tried
FOURIER = 400  # terms that are still turned into sines and cosines of sums
WAVES = 4  # sines and cosines of sums for each term, beyond which they are no shorter


class AngleForms(Quotients):
    """Polynomials in sines, cosines and quaternions in their shortest form, found among several.

    Candidates are sums of monomials, with squares replaced by the rule of their circle; sums of sines and
    cosines of sums of angles; half angles; and products of factors. The shortest one is remembered.
    """

    def _angles(self, p: Polynomial) -> tuple[Any, Any]:
        """(factor, f) with p = factor f and f short, for a polynomial in sines, cosines and quaternions."""
        # entries of matrices share many of these polynomials: each is shortened once
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
        # sums of angles over all joints, and over each run of neighbouring joints, as chains have them
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
        # for each circle or quaternion one of its squares may go; all combinations, up to a few dozen
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
        # one term is constant in the angles, the other has even multiples of all of them
        (u, A), (w, B) = sorted(waves.items(), key=lambda item: any(item[0][2]))
        if any(u[2]) or u[1] or w[1] or u[0] != w[0] or abs(A) != abs(B) or any(k % 2 for k in w[2]):
            return
        half = (w[0], A != B, tuple(k // 2 for k in w[2]))
        if any(half[2]):
            trigonometric = self._wave((0, *half[1:])) ** 2
            f = self._power_product(w[0]) * trigonometric
            yield length_of(f), 2 * A, f

    def _factored(self, p: Polynomial) -> Iterator[tuple[int, Any, Any]]:
        """The factors of p, and of its other forms, each as short as it can be."""
        for alternative in itertools.islice(self._alternatives(p), 4):
            places = [k for k in range(len(self.generators)) if any(exponent(m, k) for m in alternative)]
            # one factor to the first power is the polynomial itself
            content, factors = factor_list(alternative, places)
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
                length += length_of(f) + power - 1
            yield length + len(factors), content, product

    def _sum(self, terms: Iterable[tuple[Any, Any]]) -> tuple[int, Any, Any]:
        terms = [(f, x) for f, x in terms if x != 0]
        if not terms:
            return 0, 0, sympy.Integer(0)
        # the common factor goes in front, and makes the other coefficients whole numbers where it can
        content = scale_of(dict(enumerate(x for _, x in terms)))
        cost = sum(length_of(f) + 1 + (abs(x) != abs(content)) for f, x in terms)
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
            # from the product of powers to a spectrum: coefficients by the multiples of all angles
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
            # (-i)^sines: its real part is a cosine, its imaginary part a sine
            sign = (-1) ** (sines // 2)
            for k, y in spectrum.items():
                odd = bool(sines % 2)
                # cos(-x) = cos(x), sin(-x) = -sin(x): the first multiple is positive
                if next((j for j in k if j), 0) < 0:
                    k = tuple(-j for j in k)
                    y = -y if odd else y
                if odd and not any(k):
                    continue  # sin 0
                key = (rest, odd, k)
                waves[key] = waves.get(key, 0) + sign * y
        return {w: as_integer(x) for w, x in waves.items() if x != 0}

    def _wave(self, wave: Wave) -> Any:
        rest, odd, k = wave  # other generators, sine or cosine, multiples of the angles
        angle = sympy.Add(*(n * angle for n, angle in zip(k, self.circles, strict=True)))
        return self._power_product(rest) * (sympy.sin(angle) if odd else sympy.cos(angle))


def scale_of(p: Mapping[Any, Any]) -> Any:
    """The factor to take out of p: `content_of`, or the largest of decimals."""
    content = content_of(p)
    if max(abs(x / content) for x in p.values()) > LARGEST_NUMBER:
        return max(map(Fraction, p.values()), key=abs)
    return content


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


def length_of(f: Any) -> int:
    """How long an expression is to read: its symbols, functions and powers."""
    if f.is_Number:
        return 0 if f in (1, -1) else 1
    if f.is_Symbol:
        return 1
    here = 1 if f.is_Pow or f.is_Function else len(f.args) - 1 if f.is_Add else 0
    return here + sum(map(length_of, f.args if not f.is_Pow else f.args[:1]))
