"""Derivatives of inverse and forward dynamics beside Pinocchio, one thread, float64.

    python benchmarks/derivatives.py [robot ...]       (ur5 panda anymal talos)

Both run alternately in this process on the same URDF and the same random states, in a round eight batches or
500 calls of each. The table shows medians over the rounds: the time per state, and the ratio round by round
with its quartiles. Batches of 512 states: Pinocchio runs in a Python loop, which costs about 0.1 us a state.
"no zeros": what is not structurally zero (`kernel.nonzeros()`), as fewer bytes are written. "one": a Python
call of each, results allocated. `computeRNEADerivatives` and `computeABADerivatives` fill the upper triangles
of M and M^-1 only. Compile: seconds of processor time to trace and compile the kernel of single states, in an
empty cache. Last, operations of products over those of the function, by configuration and velocity.
"""

from __future__ import annotations

import os
import tempfile
from functools import partial

import numpy as np
from machine import absent, keep, seconds, spent, unless_quick
from paired import compare, main
from robots import beside_pinocchio

try:
    import pinocchio as pin
except ModuleNotFoundError as error:
    absent(error)

BATCHES, REPEAT = unless_quick((8, 500), (1, 2))
PRODUCTS = "jvp", "vjp", "hvp"


def robot(name: str, states: int) -> None:
    ours, model, data, layout = beside_pinocchio(name)
    rng = np.random.default_rng(0)
    q = ours.random(rng, states)
    v, x = rng.standard_normal((2, states, ours.nv))
    theirs = [np.ascontiguousarray(y) for y in (layout.to_q(q), layout.to_v(q, v), layout.to_v(q, x))]
    given = list(zip(*theirs, strict=True))
    for method, reference in (
        ("inverse_dynamics_derivatives", pin.computeRNEADerivatives),
        ("forward_dynamics_derivatives", pin.computeABADerivatives),
    ):
        label = f"{name} d {method.split('_')[0]} dynamics"
        one = q[0].copy(), v[0].copy(), x[0].copy()
        compiling = seconds(partial(getattr(ours, method), *one), clock=spent)
        keep(f"{label}, compiled", seconds=compiling)
        print(f"{label}: compile {compiling:.1f} s", flush=True)
        call = getattr(ours, method)
        values, _ = ours.kernel(method).nonzeros()

        def loop(reference: object = reference) -> None:
            for row in given:
                reference(model, data, *row)  # type: ignore[operator]

        compare(label, lambda call=call: call(q, v, x), loop, states, BATCHES)
        compare(
            f"{label}, no zeros",
            lambda values=values: values(q, v, x),
            loop,
            states,
            BATCHES,
        )
        compare(
            f"{label}, one",
            lambda call=call, one=one: call(*one),
            lambda reference=reference: reference(model, data, *given[0]),
            1,
            REPEAT,
        )
        function = method.removesuffix("_derivatives")
        base = sum(ours.kernel(function).operations.values())
        counts = {p: sum(ours.derivatives(function, ("q", "v"), p).operations.values()) for p in PRODUCTS}
        print(f"{label}: " + ", ".join(f"{p} {n / base:.1f} times" for p, n in counts.items()), flush=True)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as cache:
        os.environ["LIEBODY_CACHE"] = cache
        main(__doc__, robot, batch=512)
