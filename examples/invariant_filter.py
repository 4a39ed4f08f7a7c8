"""An invariant Kalman filter estimates the pose of a vehicle, beside a filter that is not invariant.

    python examples/invariant_filter.py [invariant_filter.png]

A vehicle measures its twist, with noise and a bias, and its position once a second. At the start it knows
its heading only to 60 degrees. The state is (T, b), pose and bias. Two extended Kalman filters estimate
it. Both are the same few lines over two groups, whose exponentials define the error e by x = x^ exp(e):

    SE(3) x R^6              the left-invariant filter (Barrau and Bonnabel, 2017)
    SO(3) x R^3 x R^6        attitude and position apart, as filters of quaternions have it

After a drive with an unknown heading, the possible positions lie on an arc. In the exponential
coordinates of SE(3) this arc is a straight line, so an error that is Gaussian in e stays Gaussian.
Without the bias, the motion of errors would not depend on the estimate. A measurement moves the estimate
by Gauss-Newton iterations, because errors are large at the start. All derivatives are derivatives of the
group operations, compiled, for all runs at once.

A filter is consistent if its covariance P describes its errors. Then the mean of e^T P^-1 e over many
runs is 12, the dimension of e.
"""

from __future__ import annotations

import sys
from typing import Any, NamedTuple

import numpy as np

from liebody.compiler import Kernel, jacobian, trace
from liebody.groups import SE3, LieGroup, Product, R, SO3xR3

GROUPS = {"invariant": Product(SE3, R(6)), "apart": Product(SO3xR3, R(6))}
DT, STEPS, FIX = 0.1, 600, 10  # s; number of steps; steps between measurements of the position
TWIST = np.array([0.02, 0.02, 0.02, 0.1, 0.1, 0.1])  # deviation of a measured twist, rad/s and m/s
DRIFT = np.array([1e-4, 1e-4, 1e-4, 1e-3, 1e-3, 1e-3])  # of the bias in a step
POSITION = 0.3  # of a measured position, m
UPDATES = 4  # iterations at each of them
START = np.concatenate([np.radians([3, 3, 60]), np.full(3, 0.1), np.full(3, 0.01), np.full(3, 0.05)])


def moved(x, u):
    """The state (T, b) a step later, at a measured twist u."""
    return np.concatenate([SE3.integrate(x[:7], DT * (u - x[7:])), x[7:]])


class Filter(NamedTuple):
    """The compiled parts of a filter, for states (..., 13) of all runs."""

    move: Kernel
    add: Kernel  # x exp(e)
    error: Kernel  # e of x and x exp(e)
    by_state: Kernel  # of the error after a step: by the error before,
    by_twist: Kernel  # and by the twist
    position: Kernel  # of x exp(e)
    by_error: Kernel  # its derivative
    turned: Kernel  # how an error moves when the estimate moves to x exp(e)

    @classmethod
    def over(cls, group: LieGroup) -> Filter:
        def by_error(function: Any, shapes: dict[str, int]) -> Kernel:
            return Kernel(jacobian(trace(function, shapes), "e"))

        def after(x, u, e):
            return group.difference(moved(x, u), moved(group.integrate(x, e), u))

        def pushed(x, u, e):
            return group.difference(moved(x, u), moved(x, u + e))

        def position(x, e):
            return group.integrate(x, e)[4:7]

        def turned(x, at, e):
            return group.difference(group.integrate(x, at), group.integrate(x, at + e))

        state, twist, error = {"x": 13}, {"u": 6}, {"e": 12}
        return cls(
            Kernel(trace(moved, state | twist)),
            Kernel(trace(group.integrate, state | error)),
            Kernel(trace(group.difference, {"x": 13, "y": 13})),
            by_error(after, state | twist | error),
            by_error(pushed, state | twist | {"e": 6}),
            Kernel(trace(position, state | error)),
            by_error(position, state | error),
            by_error(turned, state | {"at": 12} | error),
        )


def estimate(f, start, P, twists, fixes):
    """Estimates (steps + 1, runs, 13) and covariances of all runs."""
    x, Q, N = start, np.diag(TWIST**2), POSITION**2 * np.eye(3)
    states, covariances = [x], [P]
    for k, u in enumerate(twists):
        F, G = f.by_state(x, u, np.zeros(12)), f.by_twist(x, u, np.zeros(6))
        P = F @ P @ np.swapaxes(F, 1, 2) + G @ Q @ np.swapaxes(G, 1, 2)
        P[:, range(6, 12), range(6, 12)] += DRIFT**2
        x = f.move(x, u)
        if (k + 1) % FIX == 0:
            e = np.zeros((len(x), 12))
            for _ in range(UPDATES):  # Gauss-Newton on e^T P^-1 e + |y - p|^2 / POSITION^2
                H = f.by_error(x, e)
                K = np.swapaxes(np.linalg.solve(H @ P @ np.swapaxes(H, 1, 2) + N, H @ P), 1, 2)
                left = fixes[k] - f.position(x, e) + np.einsum("nij,nj->ni", H, e)
                e = np.einsum("nij,nj->ni", K, left)
            D = f.turned(x, e, np.zeros(12))
            rest = D @ (np.eye(12) - K @ H)
            P = rest @ P @ np.swapaxes(rest, 1, 2) + D @ K @ N @ np.swapaxes(D @ K, 1, 2)
            x = f.add(x, e)
        states.append(x)
        covariances.append(P)
    return np.array(states), np.array(covariances)


def drive(f, runs, rng):
    """Start of the estimates, true states (steps + 1, runs, 13), measured twists and positions."""
    start = np.tile([1.0] + 12 * [0.0], (runs, 1))
    x = f.add(start, START * rng.standard_normal((runs, 12)))
    t = DT * np.arange(STEPS)
    course = np.stack(
        [0 * t, 0 * t, 0.3 * np.sin(0.25 * t), 2 + 0 * t, 0 * t, 0.3 * np.cos(0.4 * t)], axis=-1
    )
    states, twists, fixes = [x], [], []
    for u in course:
        twists.append(u + x[:, 7:] + TWIST * rng.standard_normal((runs, 6)))
        x = f.move(x, u + x[:, 7:])
        x[:, 7:] += DRIFT * rng.standard_normal((runs, 6))
        states.append(x)
        fixes.append(x[:, 4:7] + POSITION * rng.standard_normal((runs, 3)))
    return start, np.array(states), np.array(twists), np.array(fixes)


def main(path: str | None = None, runs: int = 200) -> dict[str, dict[str, np.ndarray]]:
    filters = {name: Filter.over(group) for name, group in GROUPS.items()}
    start, true, twists, fixes = drive(filters["apart"], runs, np.random.default_rng(0))
    P = np.broadcast_to(np.diag(START**2), (runs, 12, 12))
    found = {}
    for name, f in filters.items():
        x, P_ = estimate(f, start, P, twists, fixes)
        e = f.error(x, true)
        square = np.einsum("kni,kni->kn", e, np.linalg.solve(P_, e[..., None])[..., 0])
        turn = 2 * np.arccos(np.minimum(1, np.abs(np.sum(x[..., :4] * true[..., :4], axis=-1))))
        away = np.linalg.norm(x[..., 4:7] - true[..., 4:7], axis=-1)
        found[name] = {"square": square, "turn": turn, "away": away}
        print(
            f"{name:10} mean of e^T P^-1 e / 12 at 10, 20, 60 s:",
            *(f"{np.mean(square[round(s / DT)]) / 12:8.2f}" for s in (10, 20, 60)),
            f"  heading after 20 s: {np.degrees(np.sqrt(np.mean(turn[200] ** 2))):.2f} deg",
        )
    if path:
        draw(path, found)
    return found


def draw(path, found):
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.6), layout="constrained")
    t = DT * np.arange(STEPS + 1)
    for name, x in found.items():
        left.semilogy(t, np.degrees(np.sqrt(np.mean(x["turn"] ** 2, axis=1))), label=name)
        right.semilogy(t, np.mean(x["square"], axis=1) / 12, label=name)
    left.set(xlabel="t [s]", ylabel="error of the attitude, rms [deg]")
    right.axhline(1, color="0.8", zorder=0)
    right.set(xlabel="t [s]", ylabel="$e^T P^{-1} e$ / 12, mean of all runs")
    left.legend(frameon=False)
    figure.savefig(path, dpi=120)


if __name__ == "__main__":
    main(*sys.argv[1:])
