"""Intervals of the fields of all bundled systems contain Arb's values of the same graph, at random states.

A graph becomes a tape, C over intervals, and a value between two bounds; Arb computes the tape once more, in
200 bits, operation by operation. States are numbers, or boxes over ten decades of widths with points within.
"""

from __future__ import annotations

import operator
from functools import cache
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from arb_digits import arb_digits

import liebody as lb
from liebody import dynamics
from liebody.compiler import Constants, IntervalLibrary, NotProved, exactly, tape_of, trace
from liebody.scalars import cos, sin

flint = pytest.importorskip("flint", reason="Arb is what intervals are compared with")
arb = flint.arb
SECOND = {  # of the operations that these fields have
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "div": operator.truediv,
    "neg": operator.neg,
    "sin": arb.sin,
    "cos": arb.cos,
}
MODELS = lb.models.names()
LARGE = {"space_robot", "puma560"}
SHORTER = {"planar_chain": {"n": 4}}  # each link of a chain costs more than a digit of its intervals


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


def compass():
    """The field of the compass walker of the examples."""
    path = Path(__file__).parents[1] / "examples" / "compass_walker.py"
    spec = spec_from_file_location("compass_walker", path)
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    system = module.walker
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
SYSTEMS = [*HYBRID, *MODELS]


@cache
def printed(name):
    """The tape of a field, its constants, and its interval arithmetic along up to two directions."""
    field, size = HYBRID[name] if name in HYBRID else accelerations(name)
    constants = Constants()
    tape = tape_of(trace(field, {"y": size}, "field"), {}, constants)
    return SimpleNamespace(
        tape=tape, constants=constants, size=size, arithmetic=IntervalLibrary([tape], constants, 2)
    )


def of_arb(system, x):
    """The results of a tape at balls x."""
    known = [arb(flint.fmpq(a.numerator, a.denominator)) for a, _ in system.constants.bounds]
    values = []
    for op, *operands in system.tape.nodes:
        if op == "input":
            values.append(x[operands[0]])
        elif op == "constant":
            values.append(known[operands[0]])
        else:
            values.append(SECOND[op](*(values[k] for k in operands)))
    return [values[k] for k in system.tape.outputs]


def misses(bounds, exact):
    """Whether a number, known as a narrow ball, is surely not within (-lower, upper)."""
    return bool(exact < arb(-bounds[0]) or exact > arb(bounds[1])) or not exact.is_finite()


def compare(system, n, seed):
    """Values at n random states: half of them numbers, half of them boxes, with a point in each."""
    random = np.random.default_rng(seed)
    widths = []
    refused = 0
    for k in range(n):
        y = random.normal(size=system.size) * 10.0 ** random.uniform(-3, 1)
        radius = 0.0 if k % 2 else 10.0 ** random.uniform(-12, -1.5)
        low, high = y - radius, y + radius
        box = np.stack([-low, high], axis=-1)
        try:
            values, _ = system.arithmetic.evaluate(0, box)
        except NotProved:  # a denominator, in a wide box
            assert radius > 0
            refused += 1
            continue
        # corners of the box in one coordinate in three
        point = low + (high - low) * np.clip(random.uniform(-0.25, 1.25, system.size), 0, 1)
        exact = of_arb(system, [arb(a) for a in np.clip(point, low, high).tolist()])
        wrong = [j for j, pair in enumerate(zip(values, exact)) if misses(*pair)]
        assert wrong == [], f"results {wrong} at state {k}: {y} +- {radius}"
        if not radius:
            widths.append(values.sum(axis=-1).max() / (1 + np.abs(values).max()))
    assert refused < n / 4
    assert np.median(widths) < 1e-11


@pytest.mark.parametrize("name", [x for x in SYSTEMS if x not in LARGE])
def test_values_of_fields_contain_arbs_at_1000_random_states(name):
    compare(printed(name), 1000, 1)


@pytest.mark.wide
@pytest.mark.parametrize("name", sorted(LARGE))
def test_values_of_large_fields_contain_arbs_at_1000_random_states(name):
    compare(printed(name), 1000, 2)


@pytest.mark.slow
@pytest.mark.parametrize("name", SYSTEMS)
def test_values_of_fields_contain_arbs_at_very_many_random_states(name):
    """A million states of small fields; of large ones as many as take the same time."""
    system = printed(name)
    compare(system, int(1e6 * min(1, 60 / len(system.tape.nodes))), 3)


@pytest.mark.parametrize("name", ["compass walker", "double_pendulum", "revolute_hopper"])
def test_slopes_of_fields_contain_those_of_arb(name):
    """Along random directions, by a difference of 60 digits."""
    system = printed(name)
    flint.ctx.prec = 500
    h = arb(2) ** -160
    random = np.random.default_rng(4)
    for _ in range(100):
        y, along = random.normal(size=(2, system.size))
        _, slopes = system.arithmetic.evaluate(0, exactly(y), exactly(along[:, None]))
        moved = [
            of_arb(system, [arb(a) + s * h * arb(b) for a, b in zip(y.tolist(), along.tolist())])
            for s in (1, -1)
        ]
        for bounds, a, b in zip(slopes[:, 0], *moved):
            slope = (a - b) / (2 * h)
            error = arb(2) ** -200  # of the difference
            assert arb(-bounds[0]) - error < slope < arb(bounds[1]) + error
        assert slopes.sum(axis=-1).max() < 1e-9 * (1 + np.abs(slopes).max())
