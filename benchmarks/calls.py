"""Every function of a robot that Pinocchio has, too: one Python call, and batches of 8, 64 and 512 states.

    python benchmarks/calls.py [robot ...]       (ur5 panda anymal talos)

Both run alternately in this process on the same URDF and the same random states; medians over the rounds of
the time per state, and of the ratio round by round with its quartiles. Pinocchio's batches are Python loops,
which cost about 0.1 us a state. Our results are new arrays each time; matrices of 512 states may be larger
than the caches, and wait for memory. The last lines are calls that are often slow: with `threads=1`, with
lists.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pinocchio as pin

sys.path.insert(0, str(Path(__file__).parent))
from dynamics import compare
from machine import describe
from robots import FILES, beside_pinocchio

BATCHES = (8, 64, 512)
REPEAT = 500  # of one call, in a round


def frame_pose(model: Any, data: Any, frame: int) -> Callable[..., Any]:
    def call(q: Any) -> Any:
        pin.forwardKinematics(model, data, q)
        return pin.updateFramePlacement(model, data, frame)

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
        method = getattr(ours, function)
        one, other = [given[k][0].copy() for k in arrays], [theirs[k][0].copy() for k in arrays]
        compare(
            f"{function}, one", lambda m=method, x=one, o=options: m(*x, **o),
            lambda r=reference, x=other: r(*x), 1, REPEAT,
        )  # fmt: skip
        for n in BATCHES:
            batch = [given[k][:n].copy() for k in arrays]
            rows = list(zip(*(theirs[k][:n] for k in arrays), strict=True))

            def loop(reference: Callable[..., Any] = reference, rows: list[Any] = rows) -> None:
                for row in rows:
                    reference(*row)

            compare(
                f"{function}, {n}", lambda m=method, x=batch, o=options: m(*x, **o), loop, n,
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
