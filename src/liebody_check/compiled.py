"""Steps of motions in C, for certificates of thousands of them: compiles steps.c, and calls it on all cores.

steps.c computes with balls h + l +- r of three doubles. They are made from balls of Arb, and become balls of
Arb again. A function of a certificate becomes two lists of instructions, of values and of derivatives (rows).
"""

from __future__ import annotations

import ctypes
import functools
import os
import shutil
import subprocess
import tempfile
from array import array
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from flint import arb

from .claims import Function, Phase, Refused
from .motions import Numbers, Signs
from .numbers import Ball, Known

SOURCE = Path(__file__).with_name("steps.c")
FLAGS = "-std=c11 -O3 -ffp-contract=off -fno-fast-math -fno-strict-aliasing -fPIC -shared".split()
FINE = 2.0**-62  # of a state behind a step from numbers
RUNS = 128  # of pairs of signs along a step
PROBLEMS = {
    2: "there is not enough memory for the steps",
    3: "the processor does not round doubles to the nearest, as steps in C need it",
}


class Unavailable(RuntimeError):
    """Steps in C cannot be computed on this machine."""


# -- instructions -------------------------------------------------------------------------------------------

VALUES = [
    "constant",
    "add",
    "sub",
    "neg",
    "half",
    "mul",
    "scale",
    "inverse",
    "root",
    "integral",
    "cross",
    "angle",
]
ROWS = ["unit", "add", "sub", "neg", "combine"]
ELEMENTARY = ["exp", "log", "sin", "cos", "tan", "arcsin", "arccos"]


@dataclass(frozen=True)
class _Node:
    """The places of an operation's value and row (-1: it has no derivatives)."""

    value: int
    row: int
    still: bool


@dataclass
class Instructions:
    """A function as lists of instructions; `one` is the place of the number 1 among the constants."""

    inputs: int
    one: int
    values: list[tuple[int, ...]] = field(default_factory=list)
    rows: list[tuple[int, ...]] = field(default_factory=list)
    stills: set[int] = field(default_factory=set)

    def value(self, op: str, *operands: int) -> int:
        """The place of a new value; a product with a number is one of each coefficient."""
        still = op == "constant" or all(k in self.stills for k in operands)
        if op == "mul" and not still and any(k in self.stills for k in operands):
            op, operands = "scale", tuple(sorted(operands, key=lambda k: k not in self.stills))
        return self._append(op, still, *operands)

    def integral(self, function: str, x: int, slope: int) -> int:
        """w = function(x), with w' = slope x'."""
        return self._append("integral", x in self.stills, x, slope, ELEMENTARY.index(function))

    def _append(self, op: str, still: bool, *numbers: int) -> int:
        place = self.next_value
        self.values.append((VALUES.index(op), int(still), *numbers, *[-1] * (4 - len(numbers))))
        if still:
            self.stills.add(place)
        return place

    @property
    def next_value(self) -> int:
        """The place of the value that comes next."""
        return self.inputs + len(self.values)

    def row(self, op: str, *operands: int) -> int:
        self.rows.append((ROWS.index(op), *operands, *[-1] * (5 - len(operands))))
        return self.inputs + len(self.rows) - 1

    def combined(self, first: int, *products: tuple[int, int]) -> int:
        """The place of the row: the row `first` and products of a value with a row; -1 where all are zero."""
        kept = [x for x in products if x[1] >= 0]
        if not kept:
            return first
        flat = [k for x in kept for k in x]
        return self.row("combine", first, *flat)

    def operation(self, op: str, nodes: list[_Node]) -> tuple[int, int]:
        """Value and row of an operation."""
        value = self.value
        x, y = nodes[0].value, nodes[-1].value
        dx, dy = nodes[0].row, nodes[-1].row
        if op in ("add", "sub"):
            if dy < 0:
                return value(op, x, y), dx
            if dx < 0:
                return value(op, x, y), dy if op == "add" else self.row("neg", dy)
            return value(op, x, y), self.row(op, dx, dy)
        if op == "neg":
            return value("neg", x), -1 if dx < 0 else self.row("neg", dx)
        if op == "mul":
            return value("mul", x, y), self.combined(-1, (x, dy), (y, dx))
        if op == "div":  # d(x/y) = (dx - (x/y) dy) / y
            reciprocal = value("inverse", y)
            quotient = value("mul", x, reciprocal)
            rest = dx if dy < 0 else self.combined(dx, (value("neg", quotient), dy))
            return quotient, self.combined(-1, (reciprocal, rest))
        if op == "hypot":
            square = value("add", value("mul", x, x), value("mul", y, y))
            row = self.combined(-1, (x, dx), (y, dy))
            root = value("root", square)
            return root, self.combined(-1, (value("inverse", root), row))
        if op == "arctan2":  # of (y, x), in this order: dw = (y dx - x dy) / (x^2 + y^2)
            size = value("inverse", value("add", value("mul", x, x), value("mul", y, y)))
            cross = value("cross", x, y)
            row = self.combined(-1, (y, dx), (value("neg", x), dy))
            return value("angle", x, y, cross, size), self.combined(-1, (size, row))
        w, slope = self.of_one(op, x)
        return w, self.combined(-1, (slope, dx))

    def of_one(self, op: str, x: int) -> tuple[int, int]:
        """Values of a function of x, and of its slope."""
        value = self.value
        if op == "sqrt":
            w = value("root", x)
            return w, value("inverse", value("add", w, w))
        if op == "exp":
            w = self.integral("exp", x, self.next_value)
            return w, w
        if op in ("sin", "cos"):  # each has the other one as its slope, but for a sign
            place = self.next_value
            sine = self.integral("sin", x, place + 1)
            cosine = self.integral("cos", x, place + 2)
            opposite = value("neg", sine)
            return (sine, cosine) if op == "sin" else (cosine, opposite)
        one = value("constant", self.one)
        if op == "tan":
            place = self.next_value
            w = self.integral("tan", x, place + 2)
            return w, value("add", one, value("mul", w, w))
        if op == "log":
            slope = value("inverse", x)
            return self.integral("log", x, slope), slope
        if op in ("arcsin", "arccos"):
            slope = value("inverse", value("root", value("sub", one, value("mul", x, x))))
            slope = slope if op == "arcsin" else value("neg", slope)
            return self.integral(op, x, slope), slope
        grows = self.integral("exp", x, self.next_value)
        shrinks = value("inverse", grows)
        sinh = value("half", value("sub", grows, shrinks))
        cosh = value("half", value("add", grows, shrinks))
        if op in ("sinh", "cosh"):
            return (sinh, cosh) if op == "sinh" else (cosh, sinh)
        tanh = value("mul", sinh, value("inverse", cosh))
        return tanh, value("sub", one, value("mul", tanh, tanh))


class _CFunction(ctypes.Structure):
    _fields_ = (
        ("inputs", ctypes.c_int),
        ("values", ctypes.c_int),
        ("rows", ctypes.c_int),
        ("outputs", ctypes.c_int),
        ("value", ctypes.POINTER(ctypes.c_int)),
        ("row", ctypes.POINTER(ctypes.c_int)),
        ("results", ctypes.POINTER(ctypes.c_int)),
    )


def instructions_of(function: Function, known: Known) -> _CFunction:
    """A function of a certificate for steps.c, with the constants as `constants_of` lists them."""
    numbers = {"constant": 0, "parameter": len(known.constant)}
    made = Instructions(function.inputs, len(known.constant) + len(known.parameter))
    nodes: list[_Node] = []
    for op, *operands in function.nodes:
        if op == "input":
            nodes.append(_Node(operands[0], operands[0], False))
        elif op in numbers:
            moves = op == "parameter" and operands[0] == known.moving
            place = made.value("constant", numbers[op] + operands[0])
            nodes.append(_Node(place, made.row("unit") if moves else -1, True))
        else:
            value, row = made.operation(op, [nodes[k] for k in operands])
            nodes.append(_Node(value, row, value in made.stills))
    results = [(nodes[k].value, nodes[k].row) for k in function.outputs]
    return _CFunction(
        function.inputs,
        len(made.values),
        len(made.rows),
        len(results),
        _integers(made.values),
        _integers(made.rows),
        _integers(results),
    )


def _integers(rows: Sequence[Sequence[int]]) -> Any:
    flat = [k for row in rows for k in row]
    return (ctypes.c_int * max(1, len(flat)))(*flat)


# -- balls --------------------------------------------------------------------------------------------------


def doubles_of(x: Ball) -> tuple[float, float, float]:
    """(h, l, r) with all numbers of a ball within r of h + l."""
    h = float(x.mid())
    rest = x - arb(h)
    l = float(rest.mid())
    r = float((rest - arb(l)).abs_upper())  # may be rounded downwards
    return h, l, r * (1 + 2.0**-40) + 2.0**-1060


def ball_of(h: float, l: float, r: float) -> Ball:
    return arb(h, r) + arb(l)


def _flat(balls: Any) -> array[float]:
    numbers = array("d")
    for x in balls:
        numbers.extend(doubles_of(x))
    return numbers


def _at(numbers: Any, place: int = 0) -> Any:
    """A pointer to an array, from a place on."""
    address, _ = numbers.buffer_info()
    return ctypes.c_void_p(address + place * numbers.itemsize)


def constants_of(known: Known) -> array[float]:
    return _flat([*known.constant, *known.parameter, arb(1)])


# -- the library --------------------------------------------------------------------------------------------


@functools.cache
def library() -> ctypes.CDLL:
    """steps.c, compiled for this process; Unavailable where it does not compile, or round as assumed."""
    return compiled(SOURCE.read_text(encoding="utf-8"))


def compiled(text: str, flags: Sequence[str] = ()) -> ctypes.CDLL:
    """A library of the text of steps.c. Nothing is kept for other processes, which would have to trust it."""
    names = [os.environ.get("CC", ""), "cc", "gcc", "clang"]
    compiler = next((path for name in names if name and (path := shutil.which(name))), None)
    if compiler is None:
        raise Unavailable(
            "steps in C need a C compiler (cc, gcc or clang), and there is none; without --steps c, all "
            "steps are computed in Python"
        )
    with tempfile.TemporaryDirectory(prefix="liebody_check") as folder:
        source, binary = Path(folder) / "steps.c", Path(folder) / "steps.so"
        source.write_text(text, encoding="utf-8")
        command = [compiler, *FLAGS, *flags, str(source), "-o", str(binary), "-lm"]
        for more in (["-march=native"], []):
            run = subprocess.run([*command, *more], capture_output=True, text=True, check=False)
            if run.returncode == 0:
                break
        else:
            raise Unavailable(f"{compiler} does not compile steps.c: {run.stderr.strip()[:500]}")
        loaded = ctypes.CDLL(str(binary))
    problem = loaded.check_rounding()
    if problem:
        raise Unavailable(PROBLEMS[problem])
    return loaded


def _done(problem: int) -> None:
    if problem:
        raise Unavailable(PROBLEMS[problem])


def _in_threads(count: int, call: Callable[[int, int], int]) -> None:
    """Calls for parts (first, how many) of `count` steps."""
    workers = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    size = max(1, min(64, -(-count // workers)))
    parts = [(k, min(size, count - k)) for k in range(0, count, size)]
    with ThreadPoolExecutor(workers) as pool:
        for problem in pool.map(lambda part: call(*part), parts):
            _done(problem)


class StepsInC:
    """Steps by steps.c, with the methods of `motions.StepsInPython`."""

    language = "C"

    def __init__(self, order: int) -> None:
        self.order = order
        self.library = library()
        self._functions: dict[Any, _CFunction] = {}

    def _function(self, function: Function, known: Known) -> _CFunction:
        # numbers of constants and parameters decide at which places instructions find them
        key = function, known.moving, len(known.constant), len(known.parameter)
        if key not in self._functions:
            self._functions[key] = instructions_of(function, known)
        return self._functions[key]

    def ends(
        self, phase: Phase, known: Known, starts: list[Numbers], times: list[Ball], fine: bool = False
    ) -> list[tuple[Numbers, list[Ball]]]:
        """The boxes at the ends of steps, and the rates there."""
        count, N, numbers = len(starts), len(phase.states), len(starts[0][0])
        function, constants = self._function(phase.field, known), constants_of(known)
        start = _flat(x for box in starts for state in box for x in state)
        time = _flat(times)
        end, rate = array("d", bytes(8 * len(start))), array("d", bytes(24 * count * N))
        status = array("i", bytes(4 * count))

        def call(first: int, many: int) -> int:
            place = 3 * N * first
            return int(
                self.library.check_steps(
                    ctypes.byref(function),
                    _at(constants),
                    ctypes.c_int(numbers - 1),
                    ctypes.c_int(self.order),
                    ctypes.c_double(FINE if fine else float("inf")),
                    ctypes.c_long(many),
                    _at(start, place * numbers),
                    _at(time, 3 * first),
                    _at(end, place * numbers),
                    _at(rate, place),
                    _at(status, first),
                )
            )

        _in_threads(count, call)
        if any(status):
            raise Refused("no box contains the motion over a step")
        values = (ball_of(*x) for x in zip(end[::3], end[1::3], end[2::3]))
        rates = (ball_of(*x) for x in zip(rate[::3], rate[1::3], rate[2::3]))
        return [
            ([[next(values) for _ in range(numbers)] for _ in range(N)], [next(rates) for _ in range(N)])
            for _ in range(count)
        ]

    def signs(self, phase: Phase, known: Known, starts: list[list[Ball]], times: list[Ball]) -> Signs:
        """Signs along steps from boxes."""
        count, N = len(starts), len(phase.states)
        guards = phase.guards
        function, constants = self._function(phase.field, known), constants_of(known)
        functions = (_CFunction * max(1, len(guards)))(*(self._function(x.function, known) for x in guards))
        conditions = array("i", [k for x in guards for k in (x.sign, x.direction)] or [0])
        coordinate = -1 if phase.coordinate is None else phase.coordinate
        lists = len(guards) + (coordinate >= 0)
        start, time = _flat(x for box in starts for x in box), _flat(times)
        origin = start[: 3 * N]
        runs = array("b", bytes(max(1, count * lists * RUNS * 2)))
        lengths = array("i", bytes(4 * max(1, count * lists)))
        status = array("i", bytes(4 * count))

        def call(first: int, many: int) -> int:
            return int(
                self.library.check_events(
                    ctypes.byref(function),
                    _at(constants),
                    ctypes.c_int(self.order),
                    ctypes.c_long(many),
                    _at(start, 3 * N * first),
                    _at(time, 3 * first),
                    ctypes.c_int(len(guards)),
                    ctypes.byref(functions),
                    _at(conditions),
                    ctypes.c_int(coordinate),
                    _at(origin),
                    ctypes.c_int(RUNS),
                    _at(runs, first * lists * RUNS * 2),
                    _at(lengths, first * lists),
                    _at(status, first),
                )
            )

        _in_threads(count, call)
        if any(status):
            raise Refused("no box contains the motion over a step")

        def of(k: int) -> list[tuple[int, int]]:
            pairs = []
            for i in range(count):
                place = (i * lists + k) * RUNS * 2
                flat = runs[place : place + 2 * lengths[i * lists + k]]
                pairs += [*zip(flat[::2], flat[1::2])]
            return pairs

        returns = [(bool(a), b) for a, b in of(len(guards))] if coordinate >= 0 else []
        return Signs([of(k) for k in range(len(guards))], returns)
