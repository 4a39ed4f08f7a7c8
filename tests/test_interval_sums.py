"""Sums of products of intervals: exact bounds of whole numbers; bounds of others are rounded outwards.

The program under test is a function of C around the header, which is compiled for doubles in vectors, for
doubles one by one, and for numbers of 80 bits.
"""

from __future__ import annotations

import ctypes
import platform
from fractions import Fraction
from functools import cache

import numpy as np
import pytest

from liebody.compiler.native import build
from liebody.compiler.native.intervals import FLAGS, exact_number, has_extended_precision
from liebody.compiler.runtime import runtime

CALL = """
int sums(int n, int d, const Scalar *x, const Scalar *X, const Scalar *y, const Scalar *Y, Scalar *z) {
    ENTER
    const Interval *a = (const Interval *)x, *b = (const Interval *)y + n - 1;
    Interval *out = (Interval *)z;
    *out = convolved(a, b, n);
    convolved_rows(out + 1, a, (const Row *)X, b, (const Row *)Y + n - 1, n, d);
    LEAVE
}
"""
ON_X86 = platform.machine().lower() in ("x86_64", "amd64")
KINDS = ["vectors", "one by one", "80 bits"]
DIRECTIONS = [0, 1, 2, 3, 6, 7]


@cache
def library(kind, directions, text=None):
    """The header, or another text of it, with a function around it."""
    extended = kind == "80 bits"
    lines = [
        *(["#define EXTENDED"] if extended else []),
        f"#define DIRECTIONS {directions}",
        runtime("interval.h"),
        text or runtime("interval_sums.h"),
        CALL,
    ]
    flags = [*FLAGS, *(["-mno-avx"] if kind == "one by one" and ON_X86 else [])]
    source = build.Source(["\n".join(lines)], flags, name="sums of products")
    return build.library(source, build.find_compiler())


def computed(kind, directions, d, x, X, y, Y, text=None):
    """(-lower, upper), (1 + d, 2), of the sums over j of x_j y_(n-1-j), and of their derivatives."""
    dtype = np.longdouble if kind == "80 bits" else np.float64
    out = np.full((1 + X.shape[1], 2), np.nan, dtype)
    arrays = [np.ascontiguousarray(a, dtype) for a in (x, X, y, Y)]
    pointers = [ctypes.c_void_p(a.ctypes.data) for a in (*arrays, out)]
    assert library(kind, directions, text).sums(len(x), d, *pointers) == 0
    return out[: 1 + d]


def intervals(random, shape, whole):
    """(-lower, upper): positive, negative, around zero, points and zeros; of whole numbers or of any."""
    a, b = np.sort(random.integers(-9, 10, (2, *shape)), axis=0) * 1.0
    if not whole:
        a, b = np.sort([a * random.uniform(0.5, 1, shape), b * random.uniform(0.5, 1, shape)], axis=0)
    kinds = random.integers(0, 5, shape)
    a, b = np.where(kinds == 3, b, a), np.where(kinds == 4, 0, b)
    a = np.where(kinds == 4, 0, a)
    away = np.abs(a).clip(1) if whole else np.abs(a)
    low = np.select([kinds == 0, kinds == 1], [away, -away - np.abs(b)], a)
    high = np.select([kinds == 0, kinds == 1], [away + np.abs(b), -away], b)
    assert (low <= high).all()
    return np.stack([-low, high], axis=-1)


def product(x, y):
    """Exact bounds of the product of two intervals (-lower, upper)."""
    bounds = [Fraction(a) * Fraction(b) for a in (-x[0], x[1]) for b in (-y[0], y[1])]
    return min(bounds), max(bounds)


def exact(x, X, y, Y, d):
    """Exact (lower, upper) of the sums, and sums of the sizes of their terms."""
    n = len(x)
    results = []
    for i in range(1 + d):
        terms = [product(x[j], y[n - 1 - j] if i == 0 else Y[n - 1 - j, i - 1]) for j in range(n)]
        if i:
            terms += [product(y[n - 1 - j], X[j, i - 1]) for j in range(n)]
        low, high = (sum(bound) for bound in zip(*terms))
        results.append((low, high, sum(max(abs(a), abs(b)) for a, b in terms)))
    return results


def check(kind, directions, text=None):
    """Whole numbers exactly; others within their bounds, which are no wider than rounding makes them."""
    random = np.random.default_rng(directions)
    unit = Fraction(float(np.finfo(np.longdouble if kind == "80 bits" else float).eps))
    width = directions + directions % 2
    for n in [*range(1, 10), 30]:
        for d in range(0, width + 1, 2):
            for whole in (True, False):
                case = [intervals(random, shape, whole) for shape in ((n,), (n, width)) * 2]
                results = computed(kind, directions, d, *case, text=text)
                for (minus, upper), (low, high, size) in zip(results, exact(*case, d), strict=True):
                    apart = low + exact_number(minus), exact_number(upper) - high
                    assert min(apart) >= 0
                    assert max(apart) <= (0 if whole else 3 * n * unit * size)


@pytest.mark.parametrize("directions", DIRECTIONS)
@pytest.mark.parametrize("kind", KINDS)
def test_sums_of_products_are_exact_for_whole_numbers_and_are_rounded_outwards(kind, directions):
    if kind == "80 bits" and not has_extended_precision():
        pytest.skip("there are no numbers of 80 bits")
    check(kind, directions)
