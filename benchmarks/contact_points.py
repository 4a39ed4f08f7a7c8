"""Time stepping with many contact points, as a straight line and as loops: text, compilation, time per step.

    python benchmarks/contact_points.py [points ...]        (4 16 64; straight lines up to 16)

A plate slides on a square of points. Printed: operations of a step and of its text, processor time to compile
it over lanes, and microseconds for a step, alone and per member of 64 (one thread, least of several).
"""

from __future__ import annotations

import itertools
import os
import sys
import tempfile
from functools import partial

os.environ["LIEBODY_CACHE"] = tempfile.mkdtemp()  # every kernel is compiled

import numpy as np
from machine import describe, keep, seconds, spent, unless_quick

from liebody.bodies import SpatialInertia, TreeBuilder
from liebody.contact import Contact, TimeStepping, time_stepping
from liebody.groups import Free

LONGEST, ROUNDS = 16, unless_quick(5, 1)
Q, V = np.array([1, 0, 0, 0, 0, 0, 0.05]), np.array([0, 0, 0, 1.0, 0, 0])


def plate(points: int) -> TimeStepping:
    builder = TreeBuilder("plate").add("body", Free(), SpatialInertia.box(2.0, (0.4, 0.4, 0.1)))
    along = np.linspace(-0.2, 0.2, round(points**0.5))
    for i, (x, y) in enumerate(itertools.product(along, along)):
        builder.frame(f"p{i}", "body", [x, y, -0.05])
    names = (f"p{i}" for i in range(len(along) ** 2))
    return TimeStepping(builder.build(), Contact(*names, stiffness=1e5, damping=1e3, friction=0.5))


def measured(label: str, system: TimeStepping) -> str:
    field = system.flow(time_stepping.EULER).functions.field
    line = f"{sum(field.operations.values()):9} {field.length:9}"
    least = []
    for members, steps in ((64, 100), (1, 500)):
        t_end = steps * 1e-3
        given = {"t_end": t_end, "dt": 1e-3, "record_every": t_end, "threads": 1, "most_events": 0}
        states = np.tile(Q, (members, 1)), np.tile(V, (members, 1))
        compiled = seconds(run := partial(system.simulate, *states, **given), clock=spent)
        line += f" {compiled:7.1f} s" if members > 1 else ""
        if members > 1:
            keep(f"{label}, compiled", seconds=compiled)
        each = [seconds(run) / members / steps for _ in range(ROUNDS)]
        keep(f"{label}, {members}", seconds=each)
        least.append(1e6 * min(each))
    return f"{line} {least[1]:8.2f} us {least[0]:8.3f} us"


if __name__ == "__main__":
    print(describe())
    print(f"{'points':>6} {'':8} {'step':>9} {'text':>9} {'compile':>9} {'alone':>11} {'of 64':>11}")
    for points in [int(x) for x in sys.argv[1:]] or unless_quick([4, 16, 64], [4]):
        for name, many in (("straight", points), ("loops", 0)):
            if many <= LONGEST:
                time_stepping.MANY = many
                print(f"{points:6} {name:8} {measured(f'{points} {name}', plate(points))}", flush=True)
