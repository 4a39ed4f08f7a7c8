"""Every function of a robot: one Python call, and batches of 8, 64 and 512 states, beside Pinocchio's.

    python benchmarks/calls.py [robot ...]       (ur5 panda anymal talos)

Both run alternately in this process on the same URDF and the same random states; medians over the rounds of
the time per state, and of the ratio round by round with its quartiles. Pinocchio's batches are Python loops,
which cost about 0.1 us a state. Our results are new arrays each time; matrices of 512 states may be larger
than the caches, and wait for memory. Functions that Pinocchio does not have stand alone, at the end; before
them are calls that are often slow: with `threads=1`, with lists.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pinocchio as pin

from liebody.errors import LiebodyError
from liebody.robot import kernels_of

sys.path.insert(0, str(Path(__file__).parent))
from dynamics import ROUNDS, compare, seconds
from machine import describe
from robots import FILES, beside_pinocchio

BATCHES = (8, 64, 512)
REPEAT = 500  # of one call, in a round


def frame_pose(model: Any, data: Any, frame: int) -> Callable[..., Any]:
    def call(q: Any) -> Any:
        pin.forwardKinematics(model, data, q)
        return pin.updateFramePlacement(model, data, frame)

    return call


def frame_twist(model: Any, data: Any, frame: int) -> Callable[..., Any]:
    def call(q: Any, v: Any) -> Any:
        pin.forwardKinematics(model, data, q, v)
        return pin.getFrameVelocity(model, data, frame)

    return call


def calls(model: Any, data: Any, frame: str) -> dict[str, tuple[str, dict[str, Any], Callable[..., Any]]]:
    """Name of a function of ours: the arrays it takes, its options, and the same of Pinocchio."""
    number = model.getFrameId(frame)
    local = pin.ReferenceFrame.LOCAL

    def of(function: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *x: function(model, data, *x)

    return {
        "inverse_dynamics": ("qva", {}, of(pin.rnea)),
        "forward_dynamics": ("qva", {}, of(pin.aba)),
        "mass_matrix": ("q", {}, of(pin.crba)),
        "bias": ("qv", {}, of(pin.nonLinearEffects)),
        "gravity": ("q", {}, of(pin.computeGeneralizedGravity)),
        "coriolis_matrix": ("qv", {}, of(pin.computeCoriolisMatrix)),
        "kinetic_energy": ("qv", {}, of(pin.computeKineticEnergy)),
        "potential_energy": ("q", {}, of(pin.computePotentialEnergy)),
        "pose": ("q", {"frame": frame}, frame_pose(model, data, number)),
        "jacobian": (
            "q",
            {"frame": frame},
            lambda q: pin.computeFrameJacobian(model, data, q, number, local),
        ),
        "integrate": ("qv", {}, lambda q, v: pin.integrate(model, q, v)),
        "normalize": ("q", {}, lambda q: pin.normalize(model, q)),
        "poses": ("q", {}, of(pin.forwardKinematics)),
        "twists": ("qv", {}, of(pin.forwardKinematics)),
        "twist": ("qv", {"frame": frame}, frame_twist(model, data, number)),
        "center_of_mass": ("q", {}, of(pin.centerOfMass)),
        "center_of_mass_jacobian": ("q", {}, of(pin.jacobianCenterOfMass)),
        "centroidal_momentum": ("qv", {}, of(pin.computeCentroidalMomentum)),
        "centroidal_momentum_matrix": ("q", {}, of(pin.computeCentroidalMap)),
        "inverse_dynamics_regressor": ("qva", {}, of(pin.computeJointTorqueRegressor)),
        "inverse_dynamics_derivatives": ("qva", {}, of(pin.computeRNEADerivatives)),
        "forward_dynamics_derivatives": ("qva", {}, of(pin.computeABADerivatives)),
    }


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
    for function, (arrays, options, reference) in calls(model, data, frame).items():
        getattr(ours, function)(*(given[k][0] for k in arrays), **options)  # from here on it is the entry
        method, chosen = getattr(ours, function), tuple(options.values())
        one, other = [given[k][0].copy() for k in arrays], [theirs[k][0].copy() for k in arrays]
        compare(
            f"{function}, one", lambda m=method, x=one, o=chosen: m(*x, *o),
            lambda r=reference, x=other: r(*x), 1, REPEAT,
        )  # fmt: skip
        for n in BATCHES:
            batch = [given[k][:n].copy() for k in arrays]
            rows = list(zip(*(theirs[k][:n] for k in arrays), strict=True))

            def loop(reference: Callable[..., Any] = reference, rows: list[Any] = rows) -> None:
                for row in rows:
                    reference(*row)

            compare(
                f"{function}, {n}", lambda m=method, x=batch, o=chosen: m(*x, *o), loop, n,
                max(1, REPEAT // n),
            )  # fmt: skip
    state = [given[k][0].copy() for k in "qva"]
    lists = [x.tolist() for x in state]
    rnea = [theirs[k][0].copy() for k in "qva"]
    for label, call in (
        ("inverse_dynamics, threads=1", lambda: ours.inverse_dynamics(*state, threads=1)),
        ("inverse_dynamics, lists", lambda: ours.inverse_dynamics(*lists)),
    ):
        compare(label, call, lambda: pin.rnea(model, data, *rnea), 1, REPEAT)
    found = {name for name, _ in kernels_of(type(ours)).items()} - set(calls(model, data, frame))
    print(f"{'ns per state, alone':36s} " + " ".join(f"{n:10d}" for n in (1, *BATCHES)))
    for function in sorted(found):
        alone(ours, function, {"frame": frame}, rng)


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
    print(f"{'ns per state':36s} {'liebody':>10s} {'pinocchio':>10s} {'ratio':>8s}   [quartiles]")
    for name in chosen or list(FILES):
        robot(name)


if __name__ == "__main__":
    main(sys.argv[1:])
