"""Centroidal momentum: nanoseconds per state beside Pinocchio, one thread, float64.

    python benchmarks/centroidal.py [anymal talos ur5 panda]

Both run alternately in this process on the same URDF and the same random states; a round times each once. The
table shows medians over the rounds: the time per state, and the ratio round by round with its quartiles.
Batches of 8192 states; Pinocchio has no batch calls for these, so they run in Python loops over states, which
cost about 0.1 us per state. "one": a Python call of each, results allocated.

    A          centroidal_momentum_matrix          computeCentroidalMap
    dA/dt      ... and its derivative, both        dccrba (A, dA/dt and h)
    h          centroidal_momentum                 computeCentroidalMomentum
    (dA/dt) v  centroidal_momentum_bias            computeCentroidalMomentumTimeVariation at zero acceleration

Pinocchio has nothing that corresponds to the lines of the mechanical connection; they are timed alone.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from machine import absent
from paired import SINGLE, alone, compare, main
from robots import FILES, beside_pinocchio

try:
    import pinocchio as pin
except ModuleNotFoundError as error:
    absent(error)


def robot(name: str, states: int) -> None:
    ours, model, data, layout = beside_pinocchio(name)

    rng = np.random.default_rng(0)
    q, v = ours.random(rng, states), rng.standard_normal((states, ours.nv))
    pairs = [
        (np.ascontiguousarray(x), np.ascontiguousarray(y))
        for x, y in zip(layout.to_q(q), layout.to_v(q, v), strict=True)
    ]
    zero = np.zeros(model.nv)

    def maps() -> None:
        for x, _ in pairs:
            pin.computeCentroidalMap(model, data, x)

    def both() -> None:
        for x, y in pairs:
            pin.dccrba(model, data, x, y)

    def momenta() -> None:
        for x, y in pairs:
            pin.computeCentroidalMomentum(model, data, x, y)

    def rates() -> None:
        for x, y in pairs:
            pin.computeCentroidalMomentumTimeVariation(model, data, x, y, zero)

    def ours_both() -> Any:
        return ours.centroidal_momentum_matrix(q), ours.centroidal_momentum_matrix_derivative(q, v)

    compare(f"{name} A", lambda: ours.centroidal_momentum_matrix(q), maps, states)
    compare(f"{name} A, dA/dt", ours_both, both, states)
    compare(f"{name} h", lambda: ours.centroidal_momentum(q, v), momenta, states)
    compare(f"{name} (dA/dt) v", lambda: ours.centroidal_momentum_bias(q, v), rates, states)
    q0, (Q0, _) = q[0].copy(), pairs[0]
    ours.centroidal_momentum_matrix(q0)
    entry = ours.centroidal_momentum_matrix
    compare(f"{name} one A", lambda: entry(q0), lambda: pin.computeCentroidalMap(model, data, Q0), 1, SINGLE)
    if FILES[name][1]:  # it floats
        alone(f"{name} locked velocity", lambda: ours.locked_velocity(q, v), states)
        alone(f"{name} m", lambda: ours.mechanical_connection(q), states)


if __name__ == "__main__":
    main(__doc__, robot, ("anymal", "talos", "ur5", "panda"))
