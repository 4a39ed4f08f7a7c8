"""Chains of 10 to 1000 links, beside Pinocchio: compile time, and time per state of both dynamics.

    python benchmarks/chains.py [straight] [links ...]
    python benchmarks/chains.py functions [links ...]

Hinges whose axes turn by a right angle from link to link, bodies with full inertia. Batches of 256 states,
one thread; Pinocchio up to 300 links (above, its data structure takes tens of gigabytes). Long chains become
loops over their links; `straight` as the first argument keeps them straight-line. The last lines give the
slopes, in log-log from 100 links on: 1 is linear.

With `functions`: of the functions named in FUNCTIONS, in processor time with an empty cache, how long they
take to be traced and compiled, and per state in batches of 64 (regressors: 8); then their slopes over the
links. A regressor of n links has 5 n (n + 1) entries that are not zero, so that none can be written in time
linear in n: its slope is over these entries.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial

import numpy as np
from machine import absent, describe, seconds, spent, unless_quick

import liebody as lb
from liebody.compiler import Program
from liebody.compiler.programs import passes
from liebody.groups import SE3, Revolute

try:
    import pinocchio as pin
except ModuleNotFoundError as error:
    absent(error)

STATES, ROUNDS = unless_quick((256, 7), (8, 1))
LAST = {"frame": "link{}"}
FUNCTIONS: dict[str, dict[str, str]] = {
    "poses": {},
    "twists": {},
    "center_of_mass": {},
    "momentum": {},
    "centroidal_momentum": {},
    "kinetic_energy": {},
    "potential_energy": {},
    "jacobian": LAST,
    "passive_inverse_dynamics": {},
    "coriolis_transpose_times": {},
    "inverse_dynamics_regressor": {},
    "passive_regressor": {},
    "integrate": {},
    "difference": {},
}
TURNS = (
    np.eye(3),
    np.array([[1.0, 0, 0], [0, 0, -1], [0, 1, 0]]),
    np.array([[0, 0, 1.0], [0, 1, 0], [-1, 0, 0]]),
)


def chain(n: int) -> lb.Tree:
    rng = np.random.default_rng(0)
    builder, parent = lb.TreeBuilder(f"chain{n}"), "world"
    for i in range(n):
        spread = rng.normal(size=(3, 3)) * 0.1
        second = spread @ spread.T + 0.01 * np.eye(3)
        body = lb.SpatialInertia(1.0, rng.normal(size=3) * 0.05, np.trace(second) * np.eye(3) - second)
        placement = SE3.motion(TURNS[i % 3], rng.normal(size=3) * 0.1)
        builder.add(f"link{i}", lb.Joint(f"joint{i}", Revolute([0, 0, 1])), body, parent, placement)
        parent = f"link{i}"
    return builder.build()


def pinocchio_chain(tree: lb.Tree) -> pin.Model:
    model = pin.Model()
    for body in tree.bodies:
        placement = pin.SE3(body.placement[:3, :3], body.placement[:3, 3])
        joint = model.addJoint(body.parent, pin.JointModelRZ(), placement, body.joint.name)
        inertia = body.inertia
        model.appendBodyToJoint(
            joint, pin.Inertia(inertia.mass, inertia.com, inertia.rotational), pin.SE3.Identity()
        )
    return model


def median(function: Callable[[], object]) -> float:
    function()
    return statistics.median(seconds(function, clock=time.perf_counter) for _ in range(ROUNDS)) / STATES


def functions(sizes: list[int]) -> None:
    """How long functions take to compile, and to run, over the length of a chain."""
    print(describe("numpy"))
    print(f"{'links':>6s} {'':27s} {'compile s':>10s} {'us/state':>10s}")
    found: dict[str, list[tuple[int, int, float]]] = {}
    for n in sizes:
        robot, rng = lb.Robot(chain(n)), np.random.default_rng(1)
        for name, options in FUNCTIONS.items():
            start = spent()
            kernel = robot.kernel(name, **{key: x.format(n - 1) for key, x in options.items()})
            states = 8 if "regressor" in name else 64
            given = [rng.standard_normal((states, *x.shape)) for x in kernel.function.inputs.values()]
            kernel(*given)
            compiled = spent() - start
            each = min(seconds(partial(kernel, *given)) for _ in range(ROUNDS)) / states
            size = 5 * n * (n + 1) if "regressor" in name else n
            found.setdefault(name, []).append((n, size, each))
            print(f"{n:6d} {name:27s} {compiled:10.2f} {each * 1e6:10.2f}", flush=True)
    for name, rows in found.items():
        (n0, size0, t0), (n1, size1, t1) = next((row for row in rows if row[0] >= 100), rows[0]), rows[-1]
        if n1 > n0:
            slope, over = np.log(t1 / t0) / np.log(size1 / size0), "links" if size1 == n1 else "entries"
            print(f"{name}: slope of time per state over {over} {slope:.2f}")


def main() -> None:
    words = sys.argv[1:]
    if "functions" in words:
        words.remove("functions")
        with tempfile.TemporaryDirectory() as empty:
            os.environ["LIEBODY_CACHE"] = empty
            return functions([int(n) for n in words] or unless_quick([100, 300, 1000], [10]))
    if "straight" in words:
        words.remove("straight")
        passes.REPEATED = 10**9
    sizes = [int(n) for n in words] or unless_quick([10, 30, 100, 300, 1000], [10, 30])
    print(describe("pin", "numpy"))
    print(
        f"{'links':>6s} {'':17s} {'':5s} {'operat.':>9s} {'trace s':>8s} {'compile s':>10s} {'us/state':>9s} "
        f"{'pinocchio':>10s} {'ratio':>6s}"
    )
    found: dict[str, list[tuple[int, float, float]]] = {}
    for n in sizes:
        tree = chain(n)
        robot = lb.Robot(tree)
        rng = np.random.default_rng(1)
        q, v, a = rng.standard_normal((3, STATES, n))
        if n <= 300:
            model = pinocchio_chain(tree)
            pool = pin.ModelPool(model)
            Q, V, A, Out = (np.asfortranarray(x.T) for x in (q, v, a, np.empty_like(q)))
        for name in ("inverse_dynamics", "forward_dynamics"):
            start = time.perf_counter()
            kernel = robot.kernel(name)
            function = kernel.function
            traced = time.perf_counter() - start
            start = time.perf_counter()
            out = kernel(q, v, a)
            compiled = time.perf_counter() - start
            ours = median(lambda: kernel(q, v, a))  # noqa: B023
            operations = sum(function.operations.values())
            form = "loop" if isinstance(function, Program) else ""
            row = f"{n:6d} {name:17s} {form:5s} {operations:9d} {traced:8.2f} {compiled:10.2f} "
            row += f"{ours * 1e6:9.2f}"
            if n <= 300:
                parallel = pin.rneaInParallel if name == "inverse_dynamics" else pin.abaInParallel
                theirs = median(lambda: parallel(1, pool, Q, V, A, Out))  # noqa: B023
                np.testing.assert_allclose(out.T, Out, rtol=1e-6, atol=1e-6 * np.abs(Out).max())
                row += f" {theirs * 1e6:10.2f} {theirs / ours:6.1f}"
            print(row, flush=True)
            found.setdefault(name, []).append((n, compiled, ours))
    for name, rows in found.items():
        large = [row for row in rows if row[0] >= 100]
        if len(large) > 1:
            (n0, c0, t0), (n1, c1, t1) = large[0], large[-1]
            compiling, running = (np.log(x1 / x0) / np.log(n1 / n0) for x0, x1 in ((c0, c1), (t0, t1)))
            print(f"{name}: slope of compile time {compiling:.2f}, of time per state {running:.2f}")


if __name__ == "__main__":
    main()
