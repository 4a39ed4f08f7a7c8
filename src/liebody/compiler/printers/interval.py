"""Prints traced functions as C over intervals: bounds that are proved, of values and of Taylor coefficients.

A `Tape` is a function as a list of operations on numbers of earlier ones, without the graph. Its constants
stand apart (`Constants`), as exact fractions, each with a lower and an upper bound: a proof holds for all
numbers between them. The printed text has a call for each operation and coefficient, of the rules in
runtime/taylor.h; bounds of constants, rounded outwards, come with each call of it.

Operations that decide by a condition (`where`, `minimum`, ...) have no rule yet.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from ...base.errors import GraphError
from ..graph.graph import Expr, Function
from ..runtime import runtime

LENGTH = 32  # coefficients of a series
LINES = 1000  # operations in one C function
RULES = {  # calls of runtime/taylor.h; operands are {0}, {1}
    "add": "series_plus({y}, {0}, {1}, k, d)",
    "sub": "series_less({y}, {0}, {1}, k, d)",
    "mul": "series_times({y}, {0}, {1}, k, d)",
    "div": "series_over({y}, {0}, {1}, k, d)",
    "neg": "series_opposite({y}, {0}, k, d)",
    "sqrt": "series_root({y}, {0}, k, d)",
    "exp": "series_exponential({y}, {0}, k, d)",
    "log": "series_logarithm({y}, {0}, k, d)",
    "square": "series_square({y}, {0}, k, d)",
    "angle": "series_angle({y}, {0}, {1}, {2}, k, d)",
}
KNOWN = frozenset(
    ("add", "sub", "mul", "div", "neg", "sqrt", "exp", "log", "sin", "cos", "tan", "sinh", "cosh", "tanh")
) | {"arcsin", "arccos", "arctan2", "hypot"}
Bounds = tuple[Fraction, Fraction]


@dataclass
class Constants:
    """The constants and parameters of a proof: exact bounds of each.

    parameters  by name; their values in functions are ("parameter", k), in this order
    spread      a constant of a graph that has more than `SHORT` binary digits stands for all numbers within
                this share of it, since it may be a rounded one; 0: for itself
    bounds      of constants, in the order in which they were met
    """

    parameters: dict[str, Bounds] = field(default_factory=dict)
    spread: Fraction = Fraction(0)
    bounds: list[Bounds] = field(default_factory=list)

    def copy(self) -> Constants:
        """The same ones, to which others may be added."""
        return Constants(dict(self.parameters), self.spread, list(self.bounds))

    @property
    def every(self) -> list[Bounds]:
        """Bounds as printed text numbers them: of parameters, then of constants."""
        return [*self.parameters.values(), *self.bounds]

    def place(self, bounds: Bounds) -> int:
        """The number of a constant with these bounds, added if it is new."""
        if bounds not in self.bounds:
            self.bounds.append(bounds)
        return self.bounds.index(bounds)

    def of(self, x: float) -> int:
        """The number of a constant of a graph."""
        if not math.isfinite(x):
            raise GraphError(f"the constant {x!r} is in the graph, and proofs are about finite numbers")
        exact = Fraction(x)
        wide = 0 if is_short(exact) else abs(exact) * self.spread
        return self.place((exact - wide, exact + wide))


SHORT = 24  # binary digits


def is_short(x: Fraction) -> bool:
    """Whether a binary number has so few digits that nothing was rounded: 0.5, 3, 100, and not fl(0.1)."""
    odd = abs(x.numerator)
    return odd == 0 or (odd // (odd & -odd)).bit_length() <= SHORT


@dataclass(frozen=True)
class Tape:
    """A function of numbers: its operations, each on numbers of earlier ones.

    inputs   how many numbers it takes; they are the first nodes
    nodes    (operation, operands...): ("input", k), ("constant", k), ("parameter", k), or an operation of
             the graph
    outputs  the nodes that are its results
    """

    inputs: int
    nodes: tuple[tuple[Any, ...], ...]
    outputs: tuple[int, ...]


def tape_of(function: Function, known: Mapping[Expr, int], constants: Constants) -> Tape:
    """The tape of a function of its first input; the symbols of all others are `known` parameters, by number.

    Errors: GraphError for an operation without a rule, and for a symbol that is not known.
    """
    first = list(next(iter(function.inputs.values())).flat)
    nodes: list[tuple[Any, ...]] = [("input", k) for k in range(len(first))]
    places: dict[Any, int] = {x: k for k, x in enumerate(first)}

    def place(x: Any) -> int:
        """The node of an operand, which may be a constant."""
        if type(x) is Expr and x in places:
            return places[x]
        if type(x) is Expr and x not in known:
            raise GraphError(f"{function.name} depends on {x!r}, which is neither state nor parameter")
        key = ("parameter", known[x]) if type(x) is Expr else ("constant", constants.of(float(x)))
        if key not in places:
            places[key] = len(nodes)
            nodes.append(key)
        return places[key]

    for node in function.nodes:
        if node.op == "input":
            continue
        if node.op not in KNOWN:
            raise GraphError(
                f"{function.name} has the operation {node.op!r}, for which proofs have no rule; "
                f"they have: {', '.join(sorted(KNOWN))}"
            )
        operands = [place(x) for x in node.args]
        places[node] = len(nodes)
        nodes.append((node.op, *operands))
    outputs = tuple(place(x) for y in function.outputs.values() for x in y.flat)
    return Tape(len(first), tuple(nodes), outputs)


def outward(bounds: Bounds) -> tuple[float, float]:
    """Doubles around exact bounds: the largest one below and the smallest one above."""
    low, high = (float(x) for x in bounds)  # of fractions: the nearest double
    if Fraction(low) > bounds[0]:
        low = math.nextafter(low, -math.inf)
    if Fraction(high) < bounds[1]:
        high = math.nextafter(high, math.inf)
    return low, high


class _Lines:
    """The calls for the operations of a tape; operations without a rule are composed of others."""

    def __init__(self, tape: Tape, parameters: int) -> None:
        self.tape = tape
        self.first = {"parameter": 0, "constant": parameters}  # places of bounds
        self.count = tape.inputs
        self.lines: list[str] = []
        self.places: dict[int, int] = {}  # of nodes of the tape
        self.pairs: dict[int, tuple[int, int]] = {}  # sine and cosine, by the angle
        for k, (op, *operands) in enumerate(tape.nodes):
            self.places[k] = k if op == "input" else self.node(op, operands)

    def new(self, op: str, *operands: int) -> int:
        """A node by a rule of the table, on nodes of C."""
        rule = "square" if op == "mul" and operands[0] == operands[1] else op
        y = self.count
        self.count += 1
        self.lines.append(RULES[rule].format(*(f"n + {x}" for x in operands), y=f"n + {y}"))
        return y

    def with_constant(self, rule: str, constant: int, *operands: int) -> int:
        y = self.count
        self.count += 1
        words = ", ".join(f"n + {x}" for x in (y, *operands))
        self.lines.append(f"series_{rule}({words}, constant[{constant}], k, d)")
        return y

    def pair(self, angle: int) -> tuple[int, int]:
        """Sine and cosine of an angle, which are computed together."""
        if angle not in self.pairs:
            s, c = self.count, self.count + 1
            self.count += 2
            self.lines.append(f"series_sine_and_cosine(n + {s}, n + {c}, n + {angle}, k, d)")
            self.pairs[angle] = s, c
        return self.pairs[angle]

    def node(self, op: str, operands: Sequence[int]) -> int:
        """A node of the tape."""
        if op in self.first:
            return self.with_constant("constant", self.first[op] + operands[0])
        # sums and products with a constant need no series of it
        kinds = [self.tape.nodes[x] for x in operands]
        known = [k for k, kind in enumerate(kinds) if kind[0] in self.first]
        if op in ("add", "mul") and known:
            kind, place = kinds[known[0]]
            rule = {"add": "shift", "mul": "scale"}[op]
            return self.with_constant(rule, self.first[kind] + place, self.places[operands[1 - known[0]]])
        x = [self.places[k] for k in operands]
        if op in RULES:
            return self.new(op, *x)
        return getattr(self, f"_{op}")(*x)

    def _sin(self, x: int) -> int:
        return self.pair(x)[0]

    def _cos(self, x: int) -> int:
        return self.pair(x)[1]

    def _tan(self, x: int) -> int:
        return self.new("div", *self.pair(x))

    def _exponentials(self, x: int) -> tuple[int, int]:
        return self.new("exp", x), self.new("exp", self.new("neg", x))

    def _half(self, x: int) -> int:
        one = self._unit()
        return self.new("div", x, self.new("add", one, one))

    def _unit(self) -> int:
        y = self.count
        self.count += 1
        self.lines.append(f"series_constant(n + {y}, point(1.0), k, d)")
        return y

    def _sinh(self, x: int) -> int:
        return self._half(self.new("sub", *self._exponentials(x)))

    def _cosh(self, x: int) -> int:
        return self._half(self.new("add", *self._exponentials(x)))

    def _tanh(self, x: int) -> int:
        a, b = self._exponentials(x)
        return self.new("div", self.new("sub", a, b), self.new("add", a, b))

    def _hypot(self, x: int, y: int) -> int:
        return self.new("sqrt", self._squares(x, y))

    def _squares(self, x: int, y: int) -> int:
        return self.new("add", self.new("mul", x, x), self.new("mul", y, y))

    def _arctan2(self, y: int, x: int) -> int:
        return self.new("angle", y, x, self._squares(x, y))

    def _beside(self, x: int) -> int:
        """sqrt((1 - x) (1 + x))"""
        one = self._unit()
        return self.new("sqrt", self.new("mul", self.new("sub", one, x), self.new("add", one, x)))

    def _arcsin(self, x: int) -> int:
        return self._arctan2(x, self._beside(x))

    def _arccos(self, x: int) -> int:
        return self._arctan2(self._beside(x), x)


def interval_source(tapes: Sequence[Tape], parameters: int, directions: int, extended: bool = False) -> str:
    """C source with the calls of runtime/flow_enclosure.h and runtime/interval_arrays.h.

    tapes       vector fields, with as many results as inputs, and any other functions
    parameters  how many there are
    directions  along how many of them derivatives are taken at most
    extended    numbers of 80 bits in place of doubles
    """
    printed = [_Lines(tape, parameters) for tape in tapes]
    lines = [
        *(["#define EXTENDED"] if extended else []),
        f"#define DIRECTIONS {directions}",
        f"#define MOST_STATES {max(tape.inputs for tape in tapes)}",
        f"#define LENGTH {LENGTH}",
        runtime("interval.h"),
        runtime("interval_sums.h"),
        runtime("taylor.h"),
        "static _Thread_local const Interval *constant;",
    ]
    for part, code in enumerate(printed):
        lines += _functions(part, code)
    lines += [
        _table("nodes_of", (code.count for code in printed)),
        _table("inputs_of", (tape.inputs for tape in tapes)),
        _table("outputs_count", (len(tape.outputs) for tape in tapes)),
        f"static const int *const outputs_of[] = {{{', '.join(f'outputs_{k}' for k in range(len(tapes)))}}};",
        "static void compute(int part, Series *n, int k, int d) {",
        *(f"    if (part == {part}) part_{part}(n, k, d);" for part in range(len(tapes))),
        "}",
        runtime("flow_enclosure.h"),
        runtime("interval_arrays.h"),
    ]
    return "\n".join(lines)


def _functions(part: int, code: _Lines) -> list[str]:
    """The C functions of one tape, of `LINES` operations each."""
    lines = []
    pieces = [code.lines[k : k + LINES] for k in range(0, len(code.lines), LINES)]
    for j, piece in enumerate(pieces):
        lines.append(f"static void part_{part}_{j}(Series *n, int k, int d) {{")
        lines += [f"    {line};" for line in piece]
        lines.append("}")
    lines.append(f"static void part_{part}(Series *n, int k, int d) {{")
    lines += [f"    part_{part}_{j}(n, k, d);" for j in range(len(pieces))]
    lines.append("}")
    lines.append(_table(f"outputs_{part}", (code.places[x] for x in code.tape.outputs)))
    return lines


def _table(name: str, numbers: Iterable[int]) -> str:
    return f"static const int {name}[] = {{{', '.join(map(str, numbers))}}};"
