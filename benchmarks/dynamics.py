"""Batches and single states: liebody's kernels beside Pinocchio, one thread, float64.

    python benchmarks/dynamics.py [robot ...]          (ur5 panda anymal talos)

Both run alternately in this process on the same URDF and the same random states; a round times each once. The
table shows medians over the rounds: the time per state, and the ratio round by round with its quartiles.
Batches: Pinocchio's `rneaInParallel` and `abaInParallel` with one thread, and a Python loop over `crba`
(which fills the upper triangle only, and whose loop costs about 0.1 us per state). "one": a Python call of
each, results allocated.
"""

from __future__ import annotations

import numpy as np
from machine import absent
from paired import SINGLE, compare, main
from robots import beside_pinocchio

try:
    import pinocchio as pin
except ModuleNotFoundError as error:
    absent(error)


def robot(name: str, states: int) -> None:
    ours, model, data, layout = beside_pinocchio(name)
    pool = pin.ModelPool(model)

    rng = np.random.default_rng(0)
    q = ours.random(rng, states)
    v, a = rng.standard_normal((2, states, ours.nv))
    Q, V, A = (np.asfortranarray(x.T) for x in (layout.to_q(q), layout.to_v(q, v), layout.to_v(q, a)))
    Tau = np.empty((model.nv, states), order="F")
    columns = [np.ascontiguousarray(Q[:, i]) for i in range(states)]

    def crba() -> None:
        for x in columns:
            pin.crba(model, data, x)

    inverse, forward, mass = ours.inverse_dynamics, ours.forward_dynamics, ours.mass_matrix
    compare(
        f"{name} inverse dynamics",
        lambda: inverse(q, v, a),
        lambda: pin.rneaInParallel(1, pool, Q, V, A, Tau),
        states,
    )
    compare(
        f"{name} forward dynamics",
        lambda: forward(q, v, a),
        lambda: pin.abaInParallel(1, pool, Q, V, A, Tau),
        states,
    )
    compare(f"{name} mass matrix", lambda: mass(q), crba, states)

    q0, v0, a0 = q[0].copy(), v[0].copy(), a[0].copy()
    Q0, V0, A0 = Q[:, 0].copy(), V[:, 0].copy(), A[:, 0].copy()
    inverse(q0, v0, a0), forward(q0, v0, a0), mass(q0)
    inverse, forward, mass = ours.inverse_dynamics, ours.forward_dynamics, ours.mass_matrix
    compare(
        f"{name} one inverse",
        lambda: inverse(q0, v0, a0),
        lambda: pin.rnea(model, data, Q0, V0, A0),
        1,
        SINGLE,
    )
    compare(
        f"{name} one forward",
        lambda: forward(q0, v0, a0),
        lambda: pin.aba(model, data, Q0, V0, A0),
        1,
        SINGLE,
    )
    compare(f"{name} one mass matrix", lambda: mass(q0), lambda: pin.crba(model, data, Q0), 1, SINGLE)


if __name__ == "__main__":
    main(__doc__, robot)
