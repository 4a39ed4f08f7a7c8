"""Coriolis matrices: nanoseconds per state beside Pinocchio's `computeCoriolisMatrix`, one thread.

    python benchmarks/coriolis.py [ur5 panda anymal talos]

Both run alternately in this process on the same URDF and the same random states; a round times each once. The
table shows medians over the rounds: the time per state, and the ratio round by round with its quartiles.
Batches of 8192 states; Pinocchio has no batch call for it, so it runs in a Python loop over states, which
costs about 0.1 us per state. "one": a Python call of each, results allocated. Pinocchio has nothing that
corresponds to the other lines; they are timed alone.
"""

from __future__ import annotations

import numpy as np
from machine import absent
from paired import SINGLE, alone, compare, main
from robots import beside_pinocchio

try:
    import pinocchio as pin
except ModuleNotFoundError as error:
    absent(error)


def robot(name: str, states: int) -> None:
    ours, model, data, layout = beside_pinocchio(name)

    rng = np.random.default_rng(0)
    q = ours.random(rng, states)
    v, v_r, a_r = rng.standard_normal((3, states, ours.nv))
    pairs = [
        (np.ascontiguousarray(x), np.ascontiguousarray(y))
        for x, y in zip(layout.to_q(q), layout.to_v(q, v), strict=True)
    ]

    def loop() -> None:
        for x, y in pairs:
            pin.computeCoriolisMatrix(model, data, x, y)

    compare(f"{name} C", lambda: ours.coriolis_matrix(q, v), loop, states)
    q0, v0, (Q0, V0) = q[0].copy(), v[0].copy(), pairs[0]
    ours.coriolis_matrix(q0, v0)
    entry = ours.coriolis_matrix
    compare(
        f"{name} one C",
        lambda: entry(q0, v0),
        lambda: pin.computeCoriolisMatrix(model, data, Q0, V0),
        1,
        SINGLE,
    )
    alone(f"{name} dM/dt", lambda: ours.mass_matrix_derivative(q, v), states)
    alone(f"{name} M, dM/dt and C", lambda: ours.mass_and_coriolis(q, v), states)
    alone(f"{name} M a_r + C v_r + g", lambda: ours.passive_inverse_dynamics(q, v, v_r, a_r), states)
    alone(f"{name} C^T v", lambda: ours.coriolis_transpose_times(q, v), states)


if __name__ == "__main__":
    main(__doc__, robot)
