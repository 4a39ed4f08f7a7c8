"""Intervals of the fields of all bundled systems contain Arb's values of the same graph, at random states.

A graph becomes a tape, C over intervals, and a value between two bounds. Arb computes the tape once more, in
200 bits, operation by operation. States are numbers, or boxes over ten decades of widths with points within.
Of orbits of the gallery and of the page of gaits all phases are compared, as `prove` traces them, with their
guards and jumps.

The slow tests took an hour on shared cores (Intel Xeon), for 14 million states of robots and small systems,
423 728 of puma560, 204 394 of the space robot, 6.9 million of fields of orbits, 2.4 million of their guards
and jumps.
"""

from __future__ import annotations

import re
import runpy
from collections.abc import Callable
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from arb_bounds import outside
from arb_digits import arb_digits
from test_proofs_closing import STEPS, driven_by, satellite, swimmer

import liebody as lb
from liebody import dynamics
from liebody.compiler import Constants, IntervalLibrary, NotProved, Tape, exactly, tape_of, trace
from liebody.gaits import periodic_orbit
from liebody.gaits.proofs.phases import equations_of
from liebody.scalars import cos, sin

flint = pytest.importorskip("flint", reason="Arb is what intervals are compared with")
arb = flint.arb
ROOT = Path(__file__).parents[1]
OPERATIONS = {  # of the functions below, as Python writes them for Arb
    "add": "{0} + {1}",
    "sub": "{0} - {1}",
    "mul": "{0} * {1}",
    "div": "{0} / {1}",
    "neg": "-{0}",
    "sqrt": "{0}.sqrt()",
    "hypot": "({0} * {0} + {1} * {1}).sqrt()",
    "arctan2": "arb.atan2({0}, {1})",
}
MODELS = lb.models.names()
LARGE = {"space_robot", "puma560"}
SHORTER = {"planar_chain": {"n": 4}}  # each link of a chain costs more than a digit of its intervals
CHUNK = 500  # states at a time
MANY = 1_000_000  # states


digits = arb_digits(200)


def accelerations(name):
    """dv/dt of a bundled model at y = (q, v, tau), and how many entries of y there are."""
    robot = getattr(lb.models, name)(**SHORTER.get(name, {}))
    ends = np.cumsum([robot.nq, robot.nv])

    def field(y):
        q, v, tau = np.split(y, ends)
        return dynamics.forward_dynamics(robot.tree, q, v, tau, tuple(robot.gravity_vector))

    return field, robot.nq + 2 * robot.nv


def simplest_walker(y):
    stance = sin(y[0] - 0.009)
    return np.array([stance, (cos(y[0] - 0.009) - y[2] ** 2) * sin(y[0] - y[1])])


@cache
def compass():
    """The field of the compass walker of the examples."""
    system = runpy.run_path(str(ROOT / "examples" / "compass_walker.py"))["walker"]
    defaults = system.parameters.defaults.values()
    values = system.parameters.read(np.concatenate([np.ravel(x) for x in defaults]))
    return lambda y: system.vector_field(0.0, y[:2], y[2:], system.memory.type(), values)


HYBRID = {
    "van der Pol": (lambda y: np.array([1.3 * (1 - y[0] ** 2) * y[1] - y[0]]), 2),
    "pendulum": (lambda y: np.array([-9.81 * sin(y[0]) - 0.1 * y[1]]), 2),
    "Roessler": (lambda y: np.array([-y[1] - y[2], y[0] + 0.2 * y[1], 0.2 + y[2] * (y[0] - 5.7)]), 3),
    "simplest walker": (simplest_walker, 4),
    "compass walker": (lambda y: compass()(y), 4),
}


def hopper_of_gaits():
    """The orbit of the hopper of docs/gaits.md, up to its stride."""
    page = (ROOT / "docs" / "gaits.md").read_text(encoding="utf-8")
    block = next(x for x in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if "controller_2(" in x)
    names = {"lb": lb, "periodic_orbit": periodic_orbit}
    exec(block[: block.index("touches = ")], names)
    return names["gait"]


def biped_of_gaits():
    """The fastest gait of examples/planar_biped.py: two steps, and how far they lead."""
    example = runpy.run_path(str(ROOT / "examples" / "planar_biped.py"))
    return periodic_orbit(
        example["biped"],
        [0.2185482756, 0.7859012058, 0.0, -0.4550948282, 0.1148156584, -0.1247533018, 0.1552487606],
        [0.8831122265, 0.3136521503, 0.8593222241, -0.6895779162, 1.901034349, -0.4087822962, 1.239830828],
        period=0.60640215928,
        parameters={"lean": 0.2190907156, "stride": 0.165838857},
        **example["WALKING"],
        **example["METHOD"],
    )


ORBITS = {
    "driven satellite": lambda: periodic_orbit(satellite(), [1.0, 0, 0, 0], period=driven_by, **STEPS),
    "driven floating arm": lambda: periodic_orbit(
        swimmer(), [1.0, *[0] * 7], period=driven_by, symmetries=np.eye(7)[3:6], tries=60, **STEPS
    ),
    "hopper of gaits": hopper_of_gaits,
    "biped of gaits": biped_of_gaits,
}
SYSTEMS = [*HYBRID, *MODELS]


class Printed(NamedTuple):
    """Tapes with their constants, and their interval arithmetic along up to two directions.

    fields  how many of the tapes are fields, which come first; behind them are guards and jumps
    """

    tapes: list[Tape]
    fields: int
    constants: Constants
    arithmetic: IntervalLibrary


@cache
def printed(name) -> Printed:
    if name in ORBITS:
        equations, _ = equations_of(ORBITS[name](), {}, 0.0)
        constants = equations.constants
        fields = dict.fromkeys(phase.field for phase in equations.phases)
        tapes = [*fields | dict.fromkeys(tape for phase in equations.phases for tape in phase.tapes)]
    else:
        field, size = HYBRID[name] if name in HYBRID else accelerations(name)
        constants = Constants()
        tapes = fields = [tape_of(trace(field, {"y": size}, "field"), {}, constants)]
    return Printed(tapes, len(fields), constants, IntervalLibrary(tapes, constants, 2))


def in_python(tape: Tape, constants: Constants) -> Callable[..., list[Any]]:
    """A tape as a function of balls; sines and cosines of one angle are computed together."""
    known = {"parameter": 0, "constant": len(constants.parameters)}
    angles: set[int] = set()
    lines = [f"def values({', '.join(f'x{k}' for k in range(tape.inputs))}):"]
    for k, (op, *operands) in enumerate(tape.nodes):
        if op == "input":
            lines.append(f"    y{k} = x{operands[0]}")
        elif op in known:
            lines.append(f"    y{k} = known[{known[op] + operands[0]}]")
        elif op in ("sin", "cos"):
            (x,) = operands
            if x not in angles:
                lines.append(f"    sin{x}, cos{x} = y{x}.sin_cos()")
            angles.add(x)
            lines.append(f"    y{k} = {op}{x}")
        else:
            lines.append(f"    y{k} = {OPERATIONS[op].format(*(f'y{x}' for x in operands))}")
    lines.append(f"    return [{', '.join(f'y{k}' for k in tape.outputs)}]")
    balls = [arb(flint.fmpq(low.numerator, low.denominator)) for low, _ in constants.every]
    names = {"arb": arb, "known": balls}
    exec("\n".join(lines), names)
    return names["values"]


def bounds_at(system: Printed, part: int, boxes: Any) -> Any:
    """Values (n, m, 2) of a tape at boxes (n, N, 2), NaN where they are refused for a denominator."""
    try:
        return system.arithmetic.evaluate(part, boxes)[0]
    except NotProved as error:
        if len(boxes) == 1:
            assert "denominator" in str(error)
            return np.full((1, len(system.tapes[part].outputs), 2), np.nan)
    halves = np.array_split(boxes, 2)
    return np.concatenate([bounds_at(system, part, half) for half in halves])


def compare(system: Printed, part: int, n: int, seed: int) -> None:
    """A tape's values at n random states: half of them numbers, half of them boxes, with a point in each."""
    random = np.random.default_rng(seed)
    tape = system.tapes[part]
    values = in_python(tape, system.constants)
    widths = []
    refused = 0
    for first in range(0, n, CHUNK):
        count = min(CHUNK, n - first)
        y = random.normal(size=(count, tape.inputs)) * 10.0 ** random.uniform(-3, 1, (count, 1))
        is_box = np.arange(count)[:, None] % 2 == 1
        radius = is_box * 10.0 ** random.uniform(-12, -1.5, (count, 1))
        low, high = y - radius, y + radius
        bounds = bounds_at(system, part, np.stack([-low, high], axis=-1))
        known = np.isfinite(bounds).all(axis=(1, 2))
        assert (known | is_box[:, 0]).all()
        refused += np.count_nonzero(~known)
        # corners of the box in one coordinate in three
        points = low + (high - low) * np.clip(random.uniform(-0.25, 1.25, y.shape), 0, 1)
        points = np.clip(points, low, high)[known]
        exact = [values(*map(arb, row)) for row in points.tolist()]
        bounds, is_box = bounds[known], is_box[known, 0]
        wrong = outside(bounds.reshape(-1, 2), [x for row in exact for x in row])
        results = len(tape.outputs)
        assert wrong == [], [(k % results, points[k // results]) for k in wrong[:3]]
        numbers = bounds[~is_box]
        widths += (numbers.sum(axis=-1).max(axis=-1) / (1 + np.abs(numbers).max(axis=(1, 2)))).tolist()
    assert refused < n / 4
    assert np.median(widths) < 1e-11


@pytest.mark.parametrize("name", [x for x in SYSTEMS if x not in LARGE])
def test_values_of_fields_contain_arbs_at_1000_random_states(name):
    compare(printed(name), 0, 1000, 1)


@pytest.mark.wide
@pytest.mark.parametrize("name", sorted(LARGE))
def test_values_of_large_fields_contain_arbs_at_1000_random_states(name):
    compare(printed(name), 0, 1000, 2)


def many(tape: Tape) -> int:
    """A million states; of functions with more than 400 operations as many as take the same time."""
    return int(MANY * min(1, 400 / len(tape.nodes)))


@pytest.mark.slow
@pytest.mark.parametrize("name", SYSTEMS)
def test_values_of_fields_contain_arbs_at_very_many_random_states(name):
    system = printed(name)
    compare(system, 0, many(system.tapes[0]), 3)


@pytest.mark.wide
@pytest.mark.parametrize("name", ORBITS)
def test_values_of_all_functions_of_a_proof_contain_arbs_at_random_states(name):
    system = printed(name)
    for part in range(len(system.tapes)):
        compare(system, part, 200, 5)


@pytest.mark.slow
@pytest.mark.parametrize("name", ORBITS)
def test_values_of_all_functions_of_a_proof_contain_arbs_at_very_many_random_states(name):
    system = printed(name)
    for part, tape in enumerate(system.tapes):
        compare(system, part, many(tape) if part < system.fields else MANY // 10, 6)


def test_a_constant_that_differs_by_a_few_last_digits_is_noticed():
    """So that values of another function are not taken for those of this one."""
    system = printed("Roessler")
    bounds = [(low * (1 + Fraction(1, 2**49)),) * 2 for low, _ in system.constants.bounds]
    with pytest.raises(AssertionError, match="array"):
        compare(system._replace(constants=Constants(bounds=bounds)), 0, 1000, 1)


@pytest.mark.parametrize("name", ["compass walker", "double_pendulum", "revolute_hopper"])
def test_slopes_of_fields_contain_those_of_arb(name):
    """Along random directions, by a difference of 60 digits."""
    flint.ctx.prec = 500
    system = printed(name)
    (tape,) = system.tapes
    values = in_python(tape, system.constants)
    h = arb(2) ** -160
    random = np.random.default_rng(4)
    for _ in range(100):
        y, along = random.normal(size=(2, tape.inputs))
        _, slopes = system.arithmetic.evaluate(0, exactly(y), exactly(along[:, None]))
        moved = [
            values(*(arb(a) + s * h * arb(b) for a, b in zip(y.tolist(), along.tolist()))) for s in (1, -1)
        ]
        for bounds, a, b in zip(slopes[:, 0], *moved):
            slope = (a - b) / (2 * h)
            error = arb(2) ** -200  # of the difference
            assert arb(-bounds[0]) - error < slope < arb(bounds[1]) + error
        assert slopes.sum(axis=-1).max() < 1e-9 * (1 + np.abs(slopes).max())
