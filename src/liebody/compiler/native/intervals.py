"""Libraries of interval arithmetic: compiled, probed, and called on arrays of bounds.

An array of intervals is an array of doubles with a last axis (-lower, upper), as in runtime/interval.h. There
is no substitute for a compiler: NumPy cannot round upwards, so nothing is proved without one.

A library in *extended precision* computes with numbers of 80 bits, arrays of numpy.longdouble. They have 64
binary digits, and doubles 53. Processors of the x86 family have them. Where C's long double is
another type (Windows, ARM), `has_extended_precision` is False, and such a library computes with doubles.
"""

from __future__ import annotations

import ctypes
import functools
import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from ...base.errors import ArgumentError, CompilerError, IntegrationError
from ..printers.interval import LENGTH, Constants, Tape, interval_source, outward
from . import build

Array = Any
FLAGS = (
    f"-std=gnu11 -O2 -march=native {build.STRICT} -frounding-math -ftrapping-math -ffp-contract=off "
    "-fno-tree-vectorize -fno-tree-slp-vectorize -fno-math-errno -fno-semantic-interposition -w -fPIC"
).split()
REASONS = {
    1: "the processor does not round upwards, or takes subnormal numbers for zero, in this thread",
    2: "a number leaves the range of doubles",
    3: "a denominator contains zero, a root is taken of what may be negative, or an angle is not defined",
    4: "no box contains the motion over this step",
    5: "there is no memory",
}
OPERATIONS = ("add", "sub", "mul", "div", "sqrt", "exp", "log", "arctan", "arctan2", "sincos", "square")
PROBES = ("sums", "differences", "quotients", "roots", "multiples", *["products"] * 12)
MOST_ORDER = LENGTH - 2


class NotProved(IntegrationError):
    """Bounds that cannot be computed: the message says why."""


class IntervalLibrary:
    """Functions over intervals, motions of those that are vector fields, and arrays of intervals.

    tapes       vector fields, and further functions
    constants   theirs
    middles     use the middle of constants that have bounds: for guesses, not for proofs
    directions  of derivatives, at most
    extended    compute with numbers of 80 bits, where there are any; results then have this `type`

    Errors: CompilerError without a C compiler, and where its code does not round as proofs need it.
    """

    def __init__(
        self,
        tapes: Sequence[Tape],
        constants: Constants,
        directions: int,
        middles: bool = False,
        extended: bool = False,
    ) -> None:
        compiler = build.find_compiler()
        if compiler is None:
            raise CompilerError(
                "proofs need a C compiler, because NumPy cannot round upwards; there is no other way to "
                f"compute them. {build.ADVICE}"
            )
        self.tapes = tuple(tapes)
        self.directions = directions
        extended = extended and has_extended_precision()
        self.type: Any = np.longdouble if extended else np.float64
        bounds = [((low + high) / 2,) * 2 if middles else (low, high) for low, high in constants.every]
        outer = [(-low, high) for low, high in map(outward, bounds)]
        self.constants = np.array(outer, self.type).reshape(-1, 2)
        text = interval_source(tapes, len(constants.parameters), directions, extended)
        source = build.Source([text], FLAGS, name="interval arithmetic")
        self._library = build.library(source, compiler)
        if not vars(self._library).get("probed"):  # once for each library that is loaded
            self._probe(compiler)
            vars(self._library)["probed"] = True

    # -- calls of C -----------------------------------------------------------------------------------------

    def _call(self, name: str, *arguments: Any) -> None:
        """Call a function of the library; NotProved where it fails."""
        words = [_pointer(x) if isinstance(x, np.ndarray) else ctypes.c_int64(x) for x in arguments]
        status = getattr(self._library, name)(*words)
        if status:
            raise NotProved(REASONS[status])

    def _order(self, order: int) -> int:
        """An order for which the arrays of C have room."""
        if not 0 < order <= MOST_ORDER:
            raise ArgumentError(f"the order of Taylor's formula is {order}, expected 1 to {MOST_ORDER}")
        return order

    def _numbers(self, x: Array) -> Array:
        """An array of numbers for C; NotProved for what is not finite."""
        x = np.ascontiguousarray(x, self.type)
        if not np.isfinite(x).all():
            raise NotProved(REASONS[2])
        return x

    def _empty(self, *shape: int) -> Array:
        return np.empty(shape, self.type)

    def evaluate(self, part: int, x: Array, derivatives: Array = None) -> tuple[Array, Array]:
        """Values (..., m, 2) of a part at boxes x (..., n, 2), and slopes along `derivatives` (..., n, d, 2).

        returns  values, slopes (..., m, d, 2)
        """
        numbers = self._with_seeds(x, derivatives)
        many, each = numbers.shape[:-3], numbers.shape[-2]
        out = self._empty(*many, len(self.tapes[part].outputs), each, 2)
        self._call("evaluate", part, self.constants, math.prod(many), numbers, each - 1, out)
        return out[..., 0, :], out[..., 1:, :]

    def move(
        self,
        x: Array,
        time: Array,
        order: int,
        derivatives: bool | Array = False,
        pieces: int = 0,
        field: int = 0,
    ) -> tuple[Array, Array, Array]:
        """Ends (..., n, 2) of the motions of a field, a part, from boxes x (..., n, 2) after times (..., 2).

        Also their derivatives (..., n, n, 2) by the start, or those along given directions (..., n, d, 2) of
        it, and boxes (..., pieces, n, 2) of the states in equal parts of [0, time].
        """
        out, tube = self.follow(x, time, order, derivatives, pieces, field=field)
        return out[..., 0, :], out[..., 1:, :], tube[..., 0, :]

    def follow(
        self,
        x: Array,
        time: Array,
        order: int,
        derivatives: bool | Array,
        pieces: int,
        part: int | None = None,
        field: int = 0,
    ) -> tuple[Array, Array]:
        """As `move`: ends with their derivatives (..., n, 1 + d, 2), and bounds of a part along the motions.

        The bounds hold for the results of a part, or for the states, and for their derivatives by the start,
        in equal pieces of the time, (..., pieces, results, 1 + d, 2).
        """
        n = x.shape[-2]
        seeds = exactly(np.eye(n)[:, : n * derivatives]) if isinstance(derivatives, bool) else derivatives
        numbers = self._with_seeds(x, seeds)
        many, each = numbers.shape[:-3], numbers.shape[-2]
        out = self._empty(*numbers.shape)
        results = n if part is None else len(self.tapes[part].outputs)
        tube = self._empty(*many, pieces, results, each, 2)
        boxes = math.prod(many), numbers, each - 1
        observed = -1 if part is None else part
        times = self._times(time, many)
        order = self._order(order)
        self._call("enclose", field, self.constants, *boxes, order, times, pieces, observed, out, tube)
        return out, tube

    def remainder(self, x: Array, time: Array, order: int, field: int = 0) -> Array:
        """Bounds (..., n, 2) of the coefficients order + 1 of the motions from boxes x in [0, time]."""
        out = self._empty(*x.shape)
        many = x.shape[:-2]
        numbers = math.prod(many), self._numbers(x), self._order(order), self._times(time, many)
        self._call("remainders", field, self.constants, *numbers, out)
        return out

    def end(self, x: Array, time: Array, order: int, rest: Array, field: int = 0) -> Array:
        """The ends of `move` without derivatives, with the `remainder` that another library has bounded.

        rest  `remainder` of the same boxes, over times that contain these

        The remainder is so small that doubles suffice for it where numbers of 80 bits compute the ends.
        """
        out = self._empty(*x.shape)
        many = x.shape[:-2]
        numbers = math.prod(many), self._numbers(x), self._order(order), self._times(time, many)
        self._call("ends_of_motions", field, self.constants, *numbers, self._numbers(rest), out)
        return out

    def _with_seeds(self, x: Array, seeds: Array) -> Array:
        """Boxes with their directions, (..., n, 1 + d, 2); None: no directions."""
        if seeds is None:
            return self._numbers(x[..., None, :])
        if seeds.shape[-2] > self.directions:
            raise ArgumentError(
                f"{seeds.shape[-2]} directions of derivatives are given, and this library is compiled for at "
                f"most {self.directions}"
            )
        seeds = np.broadcast_to(seeds, (*x.shape[:-1], *seeds.shape[-2:]))
        return self._numbers(np.concatenate([x[..., None, :], seeds], axis=-2))

    def _times(self, time: Array, many: tuple[int, ...]) -> Array:
        return self._numbers(np.broadcast_to(time, (*many, 2)))

    def combine(self, operation: str, x: Array, y: Array = None) -> Array:
        """An operation of `OPERATIONS` on arrays of intervals, entry by entry; "sincos" adds an axis of 2."""
        x, y = np.broadcast_arrays(x, x if y is None else y)
        x = self._numbers(x)
        pair = operation == "sincos"
        out = self._empty(*((*x.shape[:-1], 2, 2) if pair else x.shape))
        self._call("combine", OPERATIONS.index(operation), x.size // 2, x, self._numbers(y), out)
        return out

    def multiplied(self, Y: Array, x: Array) -> Array:
        """Y x (n, p, 2) for numbers Y (n, m) and intervals x (m, p, 2)."""
        out = self._empty(len(Y), x.shape[1], 2)
        self._call("multiplied", *Y.shape, x.shape[1], self._numbers(Y), self._numbers(x), out)
        return out

    def product(self, x: Array, y: Array) -> Array:
        """x y (n, p, 2) for matrices of intervals x (n, m, 2) and y (m, p, 2)."""
        out = self._empty(len(x), y.shape[1], 2)
        self._call("product", *x.shape[:2], y.shape[1], self._numbers(x), self._numbers(y), out)
        return out

    # -- the probe ------------------------------------------------------------------------------------------

    def _probe(self, compiler: build.Compiler) -> None:
        """Refuse a compiler, or options in $CC, whose code does not round as runtime/interval.h assumes."""
        x, y = (self._numbers(numbers) for numbers in _pairs())
        out = self._empty(len(x), len(PROBES), 2)
        self._call("probe", len(x), x, y, out)
        lower, upper = -out[..., 0], out[..., 1]
        least, most = _tightest(self.type)
        right = (lower == least) & (upper == most)
        # a lower bound of a root is a quotient by the upper one
        k = PROBES.index("roots")
        below = np.nextafter(least[:, k], lower.dtype.type(-np.inf))
        right[:, k] |= (lower[:, k] == below) & (upper[:, k] == most[:, k])
        for i, k in np.argwhere(~right):
            raise CompilerError(
                f"code of {compiler.command[0]} does not round {PROBES[k]} upwards: of {x[i]} and {y[i]} it "
                f"makes [{lower[i, k]}, {upper[i, k]}]. So nothing can be proved by it. GCC does on x86-64, "
                "without options in $CC that change floating-point arithmetic"
            )


@functools.cache
def _pairs() -> tuple[Array, Array]:
    """Pairs of numbers, over many decades and with products that are not exact."""
    random = np.random.default_rng(30)
    x = random.normal(size=64) * 10.0 ** random.integers(-9, 9, size=64)
    y = random.normal(size=64) * 10.0 ** random.integers(-9, 9, size=64)
    return np.append(x, [1.0, -1.0, 3.0]), np.append(y, [2.0**-60, 2.0**-60, 7.0])


@functools.cache
def _tightest(kind: Any) -> tuple[Array, Array]:
    """The tightest lower and upper bounds (pairs, probes) of the results, as numbers of a type."""
    rows = []
    for x, y in zip(*_pairs(), strict=True):
        a, b = exact_number(x), exact_number(y)
        exact = {"sums": a + b, "differences": a - b, "quotients": a / b, "multiples": a * b}
        row = []
        for k, name in enumerate(PROBES):
            if name == "roots":
                row.append(_around_root(abs(a), kind))
            elif name == "products":  # of [|a|, 8 |a|] and [|b|, 8 |b|], with signs
                signs = (k - PROBES.index("products")) % 4  # of both factors, as bits
                size = abs(a * b) if signs in (0, 3) else -abs(a * b)
                row.append((_below(min(size, 64 * size), kind), -_below(-max(size, 64 * size), kind)))
            else:
                row.append((_below(exact[name], kind), -_below(-exact[name], kind)))
        rows.append(row)
    bounds = np.array(rows, kind)
    return bounds[..., 0], bounds[..., 1]


def _below(exact: Fraction, kind: Any) -> Any:
    """The largest number of a type up to an exact one."""
    x = kind(float(exact))
    x = x + kind(float(exact - exact_number(x)))
    while exact_number(x) > exact:
        x = np.nextafter(x, kind(-np.inf))
    while exact_number(np.nextafter(x, kind(np.inf))) <= exact:
        x = np.nextafter(x, kind(np.inf))
    return x


def _around_root(exact: Fraction, kind: Any) -> tuple[Any, Any]:
    """The numbers of a type next to the root of an exact one."""
    x = np.sqrt(kind(float(exact)))
    while exact_number(x) ** 2 > exact:
        x = np.nextafter(x, kind(-np.inf))
    while exact_number(np.nextafter(x, kind(np.inf))) ** 2 <= exact:
        x = np.nextafter(x, kind(np.inf))
    return x, x if exact_number(x) ** 2 == exact else np.nextafter(x, kind(np.inf))


def exact_number(x: Any) -> Fraction:
    """The value of a double, or of a number in extended precision."""
    return Fraction(*x.as_integer_ratio())


def has_extended_precision() -> bool:
    """Whether C's long double, which is numpy's, has the 80 bits of x86 processors."""
    kind = np.finfo(np.longdouble)
    return kind.nmant == 63 and kind.maxexp == 16384 and np.dtype(np.longdouble).itemsize == 16


def exactly(x: Array) -> Array:
    """Numbers as intervals, (..., 2)."""
    x = np.asarray(x, float)
    return np.stack([-x, x], axis=-1)


def rounded_outward(x: Array) -> Array:
    """Intervals of doubles that contain intervals in extended precision."""
    nearest = np.asarray(x, float)
    return nearest if x.dtype == nearest.dtype else np.nextafter(nearest, np.inf)


def middle(x: Array) -> Array:
    """A number within each interval, near its middle."""
    return (x[..., 1] - x[..., 0]) / 2


def _pointer(x: Array) -> Any:
    return ctypes.c_void_p(x.ctypes.data)
