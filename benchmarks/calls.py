"""Every function of a robot: one Python call, and batches of 8, 64 and 512 states, beside Pinocchio's.

    python benchmarks/calls.py [robot ...]       (ur5 panda anymal talos)

Both run alternately in this process on the same URDF and the same random states; medians over the rounds of
the time per state, and of the ratio round by round with its quartiles. One call is what a program writes,
`robot.pose(q, frame)` with names of its own, in a loop of Python's; Pinocchio's batches are such loops. Our
results are arrays of their own; matrices of 512 states may be larger than the caches, and wait for memory.
Pinocchio's `poses` and `twists` stay in its data, which is no array. Functions that Pinocchio does not have
stand alone, at the end.

Goals stand behind the lines they are for: one call 3 times as fast as Pinocchio's, batches of 64 with vectors
as results 8 times; then `pose` and `jacobian` of a frame within 0.6 us, and a call of 8 within 2 us of its
arithmetic, which is that of a state in the larger batches: all run over lanes, in a loop that the first batch
of 64 compiles. Then calls that are often slow: with `threads=1`, with lists.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from functools import partial
from statistics import median
from typing import Any

import numpy as np
from machine import absent, describe, met, seconds, unless_quick
from paired import HEADINGS, ROUNDS, compare
from robots import CHOSEN, beside_pinocchio

from liebody.base.errors import LiebodyError
from liebody.robot import kernels_of

try:
    import pinocchio as pin
except ModuleNotFoundError as error:
    absent(error)

BATCHES = (8, 64, 512)
REPEAT = unless_quick(500, 2)  # of one call, in a round
ONE, VECTORS, FRAME, ABOVE = 3, 8, 0.6, 2  # goals: ratios, and microseconds


STATEMENTS = {  # a function of ours, what it takes, its options, and what the same is in Pinocchio
    "inverse_dynamics": ("q, v, a", False, "pin.rnea(model, data, q, v, a)"),
    "forward_dynamics": ("q, v, a", False, "pin.aba(model, data, q, v, a)"),
    "mass_matrix": ("q", False, "pin.crba(model, data, q)"),
    "bias": ("q, v", False, "pin.nonLinearEffects(model, data, q, v)"),
    "gravity": ("q", False, "pin.computeGeneralizedGravity(model, data, q)"),
    "coriolis_matrix": ("q, v", False, "pin.computeCoriolisMatrix(model, data, q, v)"),
    "kinetic_energy": ("q, v", False, "pin.computeKineticEnergy(model, data, q, v)"),
    "potential_energy": ("q", False, "pin.computePotentialEnergy(model, data, q)"),
    "pose": (
        "q", True, "pin.forwardKinematics(model, data, q); pin.updateFramePlacement(model, data, frame)"
    ),
    "jacobian": ("q", True, "pin.computeFrameJacobian(model, data, q, frame, local)"),
    "integrate": ("q, v", False, "pin.integrate(model, q, v)"),
    "normalize": ("q", False, "pin.normalize(model, q)"),
    "poses": ("q", False, "pin.forwardKinematics(model, data, q)"),
    "twists": ("q, v", False, "pin.forwardKinematics(model, data, q, v)"),
    "twist": (
        "q, v", True, "pin.forwardKinematics(model, data, q, v); pin.getFrameVelocity(model, data, frame)"
    ),
    "center_of_mass": ("q", False, "pin.centerOfMass(model, data, q)"),
    "center_of_mass_jacobian": ("q", False, "pin.jacobianCenterOfMass(model, data, q)"),
    "centroidal_momentum": ("q, v", False, "pin.computeCentroidalMomentum(model, data, q, v)"),
    "centroidal_momentum_matrix": ("q", False, "pin.computeCentroidalMap(model, data, q)"),
    "inverse_dynamics_regressor": ("q, v, a", False, "pin.computeJointTorqueRegressor(model, data, q, v, a)"),
    "inverse_dynamics_derivatives": ("q, v, a", False, "pin.computeRNEADerivatives(model, data, q, v, a)"),
    "forward_dynamics_derivatives": ("q, v, a", False, "pin.computeABADerivatives(model, data, q, v, a)"),
}  # fmt: skip


def repeated(times: int, statement: str, each: str = "", **names: Any) -> Callable[[], None]:
    """A function that runs a statement so often, or for `each` = "q, v" of rows, in loops of Python's."""
    loop = f"for {each} in rows: {statement}" if each else statement
    source = f"def run({', '.join(names)}):\n for _ in range({times}):\n  {loop}"
    made: dict[str, Any] = {}
    exec(source, {"pin": pin}, made)
    return partial(made["run"], **names)


def robot(name: str) -> None:
    ours, model, data, layout = beside_pinocchio(name)
    rng = np.random.default_rng(0)
    most = max(BATCHES)
    q = ours.random(rng, most)
    given = {"q": q, "v": rng.standard_normal((most, ours.nv)), "a": rng.standard_normal((most, ours.nv))}
    theirs = {"q": layout.to_q(q), **{k: layout.to_v(q, given[k]) for k in "va"}}
    theirs = {key: np.ascontiguousarray(x) for key, x in theirs.items()}
    frame = next(
        f.name for f in reversed(model.frames) if f.name in ours.tree.frames or f.name in names(ours)
    )
    print(f"{name}, frame {frame}")
    known: dict[str, Any] = {"model": model, "data": data}
    known |= {"frame": model.getFrameId(frame), "local": pin.ReferenceFrame.LOCAL}
    ratios, calls, frames = {}, {}, []
    for function, (arrays, of_frame, statement) in STATEMENTS.items():
        keys = arrays.split(", ")
        option = {"frame": frame} if of_frame else {}
        result = getattr(ours, function)(*(given[k][0] for k in keys), **option)  # now it is the entry
        is_vector = not isinstance(result, tuple) and np.ndim(result) < 2
        getattr(ours, function)(*(given[k] for k in keys), **option)  # and there is a loop over lanes
        method, call = getattr(ours, function), f"call({', '.join([*keys, *option])})"
        times = []
        for n in (1, *BATCHES):
            repeat = max(1, REPEAT // n)
            own = {k: (given[k][0] if n == 1 else given[k][:n]).copy() for k in keys}
            if n == 1:
                other = repeated(repeat, statement, **known, **{k: theirs[k][0].copy() for k in keys})
            else:
                rows = [*zip(*(theirs[k][:n] for k in keys))]
                other = repeated(repeat, statement, f"{arrays},", rows=rows, **known)
            mine = repeated(repeat, call, call=method, **own, **option)
            goal = {1: ONE, 64: VECTORS if is_vector else 0}.get(n, 0)
            label = f"{function}, {n if n > 1 else 'one'}"
            time, ratio = compare(label, mine, other, n * repeat, goal=goal)
            times.append(time)
            if n in (1, 64):
                ratios[function, n] = ratio
        calls[function] = 8 * (times[1] - min(times[2:])) * 1e6
        frames += [times[0] * 1e6] if function in ("pose", "jacobian") else []
    print(f"least ratio of one call: {least({k: x for (k, n), x in ratios.items() if n == 1})}")
    print(f"least ratio of a batch of 64: {least({k: x for (k, n), x in ratios.items() if n == 64})}")
    worst = max(calls, key=lambda name: calls[name])
    longest = max(frames)
    print(f"pose, jacobian of a frame: at most {longest:.2f} us; <= {FRAME}: {met(longest <= FRAME)}")
    met_too = met(calls[worst] <= ABOVE)
    print(f"a call of 8 above its arithmetic: at most {calls[worst]:.2f} us ({worst}); <= {ABOVE}: {met_too}")
    state = {k: given[k][0].copy() for k in "qva"}
    rnea = {k: theirs[k][0].copy() for k in "qva"}
    call, same = "call(q, v, a)", repeated(REPEAT, STATEMENTS["inverse_dynamics"][2], **known, **rnea)
    lists = {k: x.tolist() for k, x in state.items()}
    run = partial(repeated, REPEAT, call=ours.inverse_dynamics)
    compare("inverse_dynamics, threads=1", run("call(q, v, a, threads=1)", **state), same, REPEAT)
    compare("inverse_dynamics, lists", run(call, **lists), same, REPEAT)
    found = {name for name, _ in kernels_of(type(ours)).items()} - set(STATEMENTS)
    print(f"{'ns per state, alone':36s} " + " ".join(f"{n:10d}" for n in (1, *BATCHES)))
    for function in sorted(found):
        alone(ours, function, {"frame": frame}, rng)


def least(ratios: dict[str, float]) -> str:
    """The three least of them, and what they are of."""
    return ", ".join(f"{ratios[name]:.1f} ({name})" for name in sorted(ratios, key=lambda k: ratios[k])[:3])


def alone(ours: Any, function: str, known: dict[str, Any], rng: np.random.Generator) -> None:
    """Medians of a function that has nothing beside it; not of those that need more than a frame."""
    algorithm, given = kernels_of(type(ours))[function]
    options = {k: known[k] for k in algorithm.options if k in known}
    try:
        kernel = ours.kernel(function, **options)
    except LiebodyError:
        return
    times = []
    for n in (1, *BATCHES):
        arrays = {
            name: (ours.random(rng, n) if name[0] == "q" else rng.standard_normal((n, *kernel.inputs[name])))
            for name in algorithm.arrays + given
        }
        if n == 1:
            arrays = {name: x[0] for name, x in arrays.items()}
        more = {name: arrays.pop(name) for name in given}
        for _ in range(2):  # from the second one on it is the entry
            call = partial(getattr(ours, algorithm.name), *arrays.values(), **more, **options)
            call()
        repeat = max(1, REPEAT // n)
        times.append(median(seconds(call, repeat) for _ in range(ROUNDS)) / n * 1e9)
    print(f"{function:36s} " + " ".join(f"{x:10.1f}" for x in times))


def names(ours: Any) -> set[str]:
    return {body.name for body in ours.tree.bodies}


def main(chosen: list[str]) -> None:
    warnings.simplefilter("ignore")
    print(describe("pin", "numpy"))
    print(f"{'ns per state':28s} {HEADINGS}")
    for name in chosen or CHOSEN:
        robot(name)


if __name__ == "__main__":
    main(sys.argv[1:])
