"""Values with derivatives along directions, each a power series of time with balls of Arb as coefficients."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from flint import arb, arb_series, ctx, fmpq

from .claims import Bounds, Function, Refused

BITS = 113
MOST = 64  # coefficients of a series
Ball = Any  # arb
Series = Any  # arb_series


@dataclass(frozen=True)
class Known:
    """Numbers of functions that are no arguments.

    moving  the index of a parameter that changes at the rate 1 along the only direction; None: none does
    """

    constant: list[Ball]
    parameter: list[Ball]
    moving: int | None = None


def precisely() -> None:
    """Set the working precision, and the greatest length of series, of python-flint."""
    ctx.prec = BITS
    ctx.cap = MOST


def ball(x: Fraction) -> Ball:
    return arb(fmpq(x.numerator, x.denominator))


def around(bounds: Bounds) -> Ball:
    """A ball with all numbers between two bounds."""
    return ball(bounds[0]) if bounds[0] == bounds[1] else ball(bounds[0]).union(ball(bounds[1]))


class Jet:
    """A series x of so many coefficients, and its derivatives dx along directions."""

    __slots__ = ("dx", "length", "x")

    def __init__(self, x: Series, dx: list[Series], length: int) -> None:
        self.x = x
        self.dx = dx
        self.length = length

    def __add__(self, other: Jet) -> Jet:
        return self.same(self.x + other.x, [a + b for a, b in zip(self.dx, other.dx)])

    def __sub__(self, other: Jet) -> Jet:
        return self.same(self.x - other.x, [a - b for a, b in zip(self.dx, other.dx)])

    def __neg__(self) -> Jet:
        return self.same(-self.x, [-a for a in self.dx])

    def __mul__(self, other: Jet) -> Jet:
        if self is other:
            twice = self.x + self.x
            return self.same(self.x * self.x, [twice * a for a in self.dx])
        return self.same(self.x * other.x, [self.x * b + a * other.x for a, b in zip(self.dx, other.dx)])

    def __truediv__(self, other: Jet) -> Jet:
        inverse = other.x.inv()  # python-flint 0.6 to 0.8 do not divide a zero series
        if not inverse[0].is_finite():  # zero times its series would be zero
            raise Refused("a denominator may be zero in a box")
        q = self.x * inverse
        return self.same(q, [(a - q * b) * inverse for a, b in zip(self.dx, other.dx)])

    def same(self, x: Series, dx: list[Series]) -> Jet:
        """A jet with as many coefficients."""
        return Jet(x, dx, self.length)

    def along(self, value: Series, slope: Series) -> Jet:
        """A function with this value, and this slope at x."""
        return self.same(value, [slope * a for a in self.dx])


def _sqrt(a: Jet) -> Jet:
    root = a.x.sqrt()
    return a.along(root, 1 / (root + root))


def _exp(a: Jet) -> Jet:
    value = a.x.exp()
    return a.along(value, value)


def _sinh(a: Jet) -> Jet:
    e = a.x.exp()
    return a.along((e - 1 / e) / 2, (e + 1 / e) / 2)


def _cosh(a: Jet) -> Jet:
    e = a.x.exp()
    return a.along((e + 1 / e) / 2, (e - 1 / e) / 2)


def _tanh(a: Jet) -> Jet:
    e = a.x.exp()
    value = (e - 1 / e) / (e + 1 / e)
    return a.along(value, 1 - value * value)


def _tan(a: Jet) -> Jet:
    value = a.x.tan()
    return a.along(value, 1 + value * value)


def _arctan2(b: Jet, a: Jet) -> Jet:
    """The angle w of (a, b): w' = (a b' - b a') / r, with the angle of the first coefficients from Arb."""
    x, y = a.x, b.x
    if not (x[0] > 0 or y[0] > 0 or y[0] < 0):
        raise Refused("an angle of a box that meets the negative half of the first axis")
    inverse = (x * x + y * y).inv()
    first = arb.atan2(y[0], x[0])
    if a.length == 1:
        value = arb_series([first], prec=1)
    else:
        value = ((x * y.derivative() - y * x.derivative()) * inverse).integral() + first
    return a.same(value, [(x * d - y * c) * inverse for c, d in zip(a.dx, b.dx)])


OPERATIONS: dict[str, Callable[..., Jet]] = {
    "add": Jet.__add__,
    "sub": Jet.__sub__,
    "mul": Jet.__mul__,
    "div": Jet.__truediv__,
    "neg": Jet.__neg__,
    "sqrt": _sqrt,
    "exp": _exp,
    "log": lambda a: a.along(a.x.log(), 1 / a.x),
    "sin": lambda a: a.along(a.x.sin(), a.x.cos()),
    "cos": lambda a: a.along(a.x.cos(), -a.x.sin()),
    "tan": _tan,
    "sinh": _sinh,
    "cosh": _cosh,
    "tanh": _tanh,
    "arcsin": lambda a: a.along(a.x.asin(), 1 / (1 - a.x * a.x).sqrt()),
    "arccos": lambda a: a.along(a.x.acos(), -1 / (1 - a.x * a.x).sqrt()),
    "arctan2": _arctan2,
    "hypot": lambda a, b: _sqrt(a * a + b * b),
}


def value_of(function: Function, arguments: list[Jet], known: Known) -> list[Jet]:
    """The results of a function."""
    directions = len(arguments[0].dx)
    length = arguments[0].length
    nothing = arb_series([], prec=length)
    values: list[Jet] = []
    for op, *operands in function.nodes:
        if op == "input":
            values.append(arguments[operands[0]])
        elif op in ("constant", "parameter"):
            number = getattr(known, op)[operands[0]]
            moves = op == "parameter" and operands[0] == known.moving
            rate = arb_series([1], prec=length) if moves else nothing
            values.append(Jet(arb_series([number], prec=length), [rate] * directions, length))
        else:
            result = OPERATIONS[op](*(values[k] for k in operands))
            # a product with zero would hide it
            if not result.x[0].is_finite():
                raise Refused(f"{op} is not defined, or has no bounds, over a box")
            values.append(result)
    return [values[k] for k in function.outputs]
