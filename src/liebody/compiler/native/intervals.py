"""Libraries of interval arithmetic: compiled, probed, and called on arrays of bounds.

An array of intervals is an array of doubles with a last axis (-lower, upper), as in runtime/interval.h. There
is no substitute for a compiler: NumPy cannot round upwards, so nothing is proved without one.
"""

from __future__ import annotations

import ctypes
import functools
import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from ...base.errors import CompilerError, IntegrationError
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
PROBES = ("sums", "differences", "quotients", "roots", "multiples", *["products"] * 4)
MOST_ORDER = LENGTH - 2


class NotProved(IntegrationError):
    """Bounds that cannot be computed: the message says why."""


class IntervalLibrary:
    """Functions over intervals, motions of those that are vector fields, and arrays of intervals.

    tapes       vector fields, and further functions
    constants   theirs
    middles     use the middle of constants that have bounds: for guesses, not for proofs
    directions  of derivatives, at most

    Errors: CompilerError without a C compiler, and where its code does not round as proofs need it.
    """

    def __init__(
        self, tapes: Sequence[Tape], constants: Constants, directions: int, middles: bool = False
    ) -> None:
        compiler = build.find_compiler()
        if compiler is None:
            raise CompilerError(
                "proofs need a C compiler, because NumPy cannot round upwards; there is no other way to "
                f"compute them. {build.ADVICE}"
            )
        self.tapes = tuple(tapes)
        self.directions = directions
        bounds = [((low + high) / 2,) * 2 if middles else (low, high) for low, high in constants.every]
        self.constants = np.array([(-low, high) for low, high in map(outward, bounds)]).reshape(-1, 2)
        text = interval_source(tapes, len(constants.parameters), directions)
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

    def evaluate(self, part: int, x: Array, derivatives: Array = None) -> tuple[Array, Array]:
        """Values (m, 2) of a part at a box x (n, 2), and slopes (m, d, 2) along `derivatives` (n, d, 2)."""
        seeds = np.zeros((len(x), 0, 2)) if derivatives is None else derivatives
        d = seeds.shape[1]
        numbers = _numbers(np.concatenate([x[:, None], seeds], axis=1))
        out = np.empty((len(self.tapes[part].outputs), 1 + d, 2))
        self._call("evaluate", part, self.constants, numbers, d, out)
        return out[:, 0], out[:, 1:]

    def move(
        self,
        x: Array,
        time: Array,
        order: int,
        derivatives: bool | Array = False,
        pieces: int = 0,
        field: int = 0,
    ) -> tuple[Array, Array, Array]:
        """The end (n, 2) of the motions of a field, which is a part, from a box x (n, 2) after times (2,).

        Also their derivatives (n, n, 2) by the start, or those along given directions (n, d, 2) of it, and
        boxes (pieces, n, 2) of the states in equal parts of [0, time].
        """
        out, tube = self.follow(x, time, order, derivatives, pieces, field=field)
        return out[:, 0], out[:, 1:], tube[:, :, 0]

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
        """As `move`: the end with its derivatives (n, 1 + d, 2), and bounds of a part along the motions.

        The bounds hold for the results of a part, or for the states, and for their derivatives by the start,
        in equal pieces of the time, (pieces, results, 1 + d, 2).
        """
        n = len(x)
        seeds = exactly(np.eye(n)[:, : n * derivatives]) if isinstance(derivatives, bool) else derivatives
        d = seeds.shape[1]
        numbers = _numbers(np.concatenate([x[:, None], seeds], axis=1))
        out = np.empty((n, 1 + d, 2))
        results = n if part is None else len(self.tapes[part].outputs)
        tube = np.empty((pieces, results, 1 + d, 2))
        observed = -1 if part is None else part
        counts = pieces, observed
        self._call("enclose", field, self.constants, numbers, d, order, _numbers(time), *counts, out, tube)
        return out, tube

    def combine(self, operation: str, x: Array, y: Array = None) -> Array:
        """An operation of `OPERATIONS` on arrays of intervals, entry by entry; "sincos" adds an axis of 2."""
        x, y = np.broadcast_arrays(x, x if y is None else y)
        x = _numbers(x)
        pair = operation == "sincos"
        out = np.empty((*x.shape[:-1], 2, 2) if pair else x.shape)
        self._call("combine", OPERATIONS.index(operation), x.size // 2, x, _numbers(y), out)
        return out

    def multiplied(self, Y: Array, x: Array) -> Array:
        """Y x (n, p, 2) for numbers Y (n, m) and intervals x (m, p, 2)."""
        out = np.empty((len(Y), x.shape[1], 2))
        self._call("multiplied", *Y.shape, x.shape[1], _numbers(Y), _numbers(x), out)
        return out

    def product(self, x: Array, y: Array) -> Array:
        """x y (n, p, 2) for matrices of intervals x (n, m, 2) and y (m, p, 2)."""
        out = np.empty((len(x), y.shape[1], 2))
        self._call("product", *x.shape[:2], y.shape[1], _numbers(x), _numbers(y), out)
        return out

    # -- the probe ------------------------------------------------------------------------------------------

    def _probe(self, compiler: build.Compiler) -> None:
        """Refuse a compiler, or options in $CC, whose code does not round as runtime/interval.h assumes."""
        x, y = _pairs()
        out = np.empty((len(x), len(PROBES), 2))
        self._call("probe", len(x), x, y, out)
        for k, name in enumerate(PROBES):
            signs = k - PROBES.index("products")  # of both factors, as bits
            for a, b, (minus, upper) in zip(x.tolist(), y.tolist(), out[:, k].tolist(), strict=True):
                if not _is_tightest(name, a, b, signs, -minus, upper):
                    raise CompilerError(
                        f"code of {compiler.command[0]} does not round {name} upwards: of {a!r} and {b!r} it "
                        f"makes [{-minus!r}, {upper!r}]. So nothing can be proved by it. GCC does on x86-64, "
                        "without options in $CC that change floating-point arithmetic"
                    )


@functools.cache
def _pairs() -> tuple[Array, Array]:
    """Pairs of numbers, over many decades and with products that are not exact."""
    random = np.random.default_rng(30)
    x = random.normal(size=64) * 10.0 ** random.integers(-9, 9, size=64)
    y = random.normal(size=64) * 10.0 ** random.integers(-9, 9, size=64)
    return np.append(x, [1.0, -1.0, 3.0]), np.append(y, [2.0**-60, 2.0**-60, 7.0])


def _is_tightest(name: str, x: float, y: float, signs: int, lower: float, upper: float) -> bool:
    """Whether bounds are the doubles next to an exact result; of roots, within two of them."""
    a, b = Fraction(x), Fraction(y)
    if name == "roots":
        inside = 0 <= lower and Fraction(lower) ** 2 <= abs(a) <= Fraction(upper) ** 2
        return inside and upper - lower <= 2 * math.ulp(upper)
    if name == "products":  # of [|a|, 8 |a|] and [|b|, 8 |b|], with signs
        size = abs(a * b) if signs in (0, 3) else -abs(a * b)
        return (lower, upper) == outward((min(size, 64 * size), max(size, 64 * size)))
    exact = {"sums": a + b, "differences": a - b, "quotients": a / b, "multiples": a * b}[name]
    return (lower, upper) == outward((exact, exact))


def exactly(x: Array) -> Array:
    """Numbers as intervals, (..., 2)."""
    x = np.asarray(x, float)
    return np.stack([-x, x], axis=-1)


def middle(x: Array) -> Array:
    """A number within each interval, near its middle."""
    return (x[..., 1] - x[..., 0]) / 2


def _numbers(x: Array) -> Array:
    """An array of doubles for C; NotProved for what is not finite."""
    x = np.ascontiguousarray(x, float)
    if not np.isfinite(x).all():
        raise NotProved(REASONS[2])
    return x


def _pointer(x: Array) -> Any:
    return ctypes.c_void_p(x.ctypes.data)
