"""Adaptive control after Slotine and Li (1987), which works because dM/dt - 2 C is skew-symmetric.

    python examples/slotine_li.py [picture.png]

The Puma 560 follows a fast motion. Its controller knows neither masses nor inertias: the inertial
parameters p^ start at zero. With e = q - q_d, v_r = v_d - L e, s = v - v_r and the regressor Y,

    Y(q, v, v_r, a_r) p = M a_r + C v_r + g,    tau = Y p^ - K s,    dp^/dt = -P Y^T s,

V = (s^T M s + (p^ - p)^T P^-1 (p^ - p)) / 2 falls at the rate s^T K s, so s and e go to zero. This
requires s^T (dM/dt - 2 C) s = 0 for every s. The matrix of recursive Newton-Euler ("newton-euler") gives
the same C v, but its C v_r differs by D s, D = C_newton-euler - C. With it, V changes at the rate -s^T (K
+ D) s. D is proportional to the speed, and no larger than the links' own inertia. The script prints and
draws the consequences:

- rotors behind high gears outweigh most links: on the real arm the difference is hard to see;
- the same links on direct drives need a K that grows with the speed, or the motion is unstable, with known
  parameters or not. With the skew C, every K > 0 will do.
"""

from __future__ import annotations

import sys
from typing import Any, NamedTuple

import numpy as np

import liebody as lb
from liebody import dynamics, scalars
from liebody.compiler import Kernel, trace
from liebody.groups import R
from liebody.scalars import linear

Array = Any
SKEW, NOT_SKEW = "christoffel", "newton-euler"
SLOPE = 5.0  # L: how fast e vanishes where s = 0  [1/s]
SPEED = np.array([2.0, 3.0, 2.0, 4.0, 3.0, 5.0])  # of the motion to follow  [rad/s]
PHASE = np.arange(6.0)
AMPLITUDE, PERIOD = 0.8, 2 * np.pi  # [rad], [s]


class Run(NamedTuple):
    """t (n,) [s], errors (n, 6) [rad], V (n,) and the work of K, the integral of s^T K s (n,); [J]."""

    t: Array
    error: Array
    V: Array
    work: Array


def desired(t: Any) -> tuple[Array, Array, Array]:
    """q_d, v_d, a_d."""
    x = SPEED * t + PHASE
    return (
        AMPLITUDE * scalars.sin(x),
        AMPLITUDE * SPEED * scalars.cos(x),
        -AMPLITUDE * SPEED**2 * scalars.sin(x),
    )


def unit_gain(robot: lb.Robot) -> Array:
    """K that lets s of each joint, alone and at home, vanish at the rate 1/s: the diagonal of M."""
    return np.diag(robot.mass_matrix(robot.neutral()))


def closed_loop(robot: lb.Robot, form: str, gain: float, P: Array) -> Kernel:
    """The rates of (q, v, p^, work of K), compiled: arm, regressor and adaptation are one function."""
    tree, K = robot.tree, gain * unit_gain(robot)
    rotors = np.concatenate([body.armature for body in tree.bodies])  # known, from data sheets

    def rates(t: Any, y: Array) -> Array:
        q, v, parameters = y[:6], y[6:12], y[12:-1]
        q_d, v_d, a_d = desired(t)
        v_r, a_r = v_d - SLOPE * (q - q_d), a_d - SLOPE * (v - v_d)
        s = v - v_r
        Y = dynamics.passive_regressor(tree, q, v, v_r, a_r, form=form)
        tau = Y @ parameters + rotors * a_r - K * s
        a = dynamics.forward_dynamics(tree, q, v, tau)
        return np.concatenate([v, a, -P @ (Y.T @ s), [s @ (K * s)]])

    return Kernel(trace(rates, {"t": (), "y": 13 + len(P)}, "rates"))


def adaptation(robot: lb.Robot, gain: float, rate: float) -> Array:
    """P with which all parameters are learned at about the same rate  [1/s].

    While p^ changes slowly, s is K^-1 Y (p^ - p), so that its error vanishes by P mean(Y^T K^-1 Y) = rate in
    the 36 of 60 directions that can be told from efforts; in the others p^ stays what it is.
    """
    q, v, a = desired(np.linspace(0, PERIOD, 400, endpoint=False)[:, None])
    Y = robot.inverse_dynamics_regressor(q, v, a)
    weighted = Y / (gain * unit_gain(robot))[:, None]
    return rate * inverse(np.einsum("tij,tik->jk", Y, weighted) / len(Y))


def inverse(A: Array) -> Array:
    """The pseudoinverse of a symmetric matrix: small eigenvalues count as zero."""
    return np.linalg.pinv(A, rcond=1e-10, hermitian=True)


def follow(robot: lb.Robot, form: str, gain: float, rate: float, known: float, t_end: float) -> Run:
    """From a start on the desired motion, with p^ = `known` times p; rate 0 for no adaptation."""
    p = robot.inertial_parameters
    P = adaptation(robot, gain, rate) if rate else np.zeros((len(p), len(p)))
    rates = closed_loop(robot, form, gain, P)
    q_d, v_d, _ = desired(0.0)
    start = np.concatenate([q_d, v_d, known * p, [0]])
    run = lb.solve_ivp(
        lambda t, y: rates(np.asarray(t), y),
        (0, t_end),
        start,
        R(len(start)),
        "rkmk56",
        rtol=1e-8,
        atol=1e-10,
    )
    q, v, wrong = run.q[:, :6], run.q[:, 6:12], run.q[:, 12:-1] - p
    q_d, v_d, _ = desired(run.t[:, None])
    error, s = q - q_d, v - v_d + SLOPE * (q - q_d)
    V = np.einsum("ti,tij,tj->t", s, robot.mass_matrix(q), s) / 2
    if rate:
        V += np.einsum("ti,ij,tj->t", wrong, inverse(P), wrong) / 2
    return Run(run.t, error, V, run.q[:, -1])


def growth(robot: lb.Robot, form: str, gains: Array) -> Array:
    """Growth rate of a small s on the desired motion, with known parameters, for each gain  [1/s].

    M ds/dt = -(C + K) s is periodic: the largest Floquet exponent. At c times the speed, growth and gains are
    c times those here.
    """
    tree, K = robot.tree, unit_gain(robot)

    def rates(t: Any, y: Array, gain: Any) -> Array:
        q, v, _ = desired(t)
        M, _, C = dynamics.mass_and_coriolis(tree, q, v, form)
        S = y.reshape(6, 6)
        return linear.solve(M, -(C @ S + gain * (K[:, None] * S))).reshape(-1)

    kernel = Kernel(trace(rates, {"t": (), "y": 36, "gain": ()}, "rates"))
    exponents, one = [], np.eye(6).ravel()
    for gain in np.asarray(gains, float):
        run = lb.solve_ivp(
            lambda t, y, gain: kernel(np.asarray(t), y, gain), (0, PERIOD), one, R(36), args=(np.array(gain),)
        )
        multipliers = np.linalg.eigvals(run.q[-1].reshape(6, 6))
        exponents.append(np.log(np.abs(multipliers).max()) / PERIOD)
    return np.array(exponents)


GEARED, DIRECT = lb.models.puma560(), lb.models.puma560(motors=False)
GAINS = np.linspace(0, 2.5, 11)


def main(picture: str | None = None, t_end: float = 20.0) -> tuple[dict[str, Run], dict[str, Array]]:
    runs = {
        "geared, gains alone": follow(GEARED, SKEW, 20.0, 0.0, 0.0, t_end),
        "geared, skew C": follow(GEARED, SKEW, 20.0, 1.0, 0.0, t_end),
        "geared, C not skew": follow(GEARED, NOT_SKEW, 20.0, 1.0, 0.0, t_end),
        "direct, skew C": follow(DIRECT, SKEW, 5.0, 1.0, 0.7, t_end),
        "direct, C not skew": follow(DIRECT, NOT_SKEW, 5.0, 1.0, 0.7, t_end),
    }
    print("largest error in the first and the last two seconds; change of V + work of K, over V at the start")
    for name, run in runs.items():
        error = largest_error(run)
        first, last = error[run.t < 2].max(), error[run.t > t_end - 2].max()
        change = f"{balance(run).max():12.1e}" if "C" in name else ""
        print(f"{name:20s}{first:8.2f} deg{last:8.3f} deg{change}")

    exponents = {}
    print("known parameters: growth of s with K = 0, and the K from which on s vanishes, in units of M/s")
    for arm, robot in (("geared", GEARED), ("direct", DIRECT)):
        for form, label in ((SKEW, "skew C"), (NOT_SKEW, "C not skew")):
            exponents[f"{arm}, {label}"] = values = growth(robot, form, GAINS)
            print(f"{arm + ', ' + label:20s}{values[0]:z8.3f} /s{np.interp(0, -values, GAINS):8.2f} /s")
    if picture:
        draw(runs, exponents, picture)
    return runs, exponents


def largest_error(run: Run) -> Array:
    """The largest error of all joints at each time [deg]."""
    return np.degrees(np.abs(run.error).max(axis=1))


def balance(run: Run) -> Array:
    """The change of V + work of K, divided by V at the start."""
    return np.abs(run.V + run.work - run.V[0]) / run.V[0]


def draw(runs: dict[str, Run], exponents: dict[str, Array], picture: str) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    colors = {"gains alone": "0.6", "skew C": "C0", "C not skew": "C3"}
    labels = {"gains alone": "no adaptation", "skew C": "skew C", "C not skew": "C of Newton-Euler"}
    arms = {"geared": ("geared arm", "--"), "direct": ("direct drives", "-")}
    figure, ((a, b), (c, d)) = plt.subplots(2, 2, figsize=(11, 7.5), layout="constrained")
    for name, run in runs.items():
        arm, law = name.split(", ")
        style = {"color": colors[law], "lw": 1.2}
        (a if arm == "geared" else b).semilogy(run.t, largest_error(run), label=labels[law], **style)
        if law != "gains alone":
            c.semilogy(
                run.t[1:],
                np.maximum(balance(run)[1:], 1e-12),
                arms[arm][1],
                label=f"{arms[arm][0]}, {labels[law]}",
                **style,
            )
    for name, values in exponents.items():
        arm, law = name.split(", ")
        style = {"color": colors[law], "label": f"{arms[arm][0]}, {labels[law]}"}
        d.plot(GAINS, values, arms[arm][1], **style)
    d.axhline(0, color="k", lw=0.8)
    error = "largest error of a joint [deg]"
    a.set(title="Puma 560: no parameter known at the start", xlabel="t [s]", ylabel=error, ylim=(1e-3, 30))
    b.set(title="Its links on direct drives: 30 % wrong at the start", xlabel="t [s]", ylabel=error)
    c.set(
        title=r"Balance of $V$: should stay at zero",
        xlabel="t [s]",
        ylabel=r"$|V + \int s^T K s\,dt - V(0)|\,/\,V(0)$",
        ylim=(1e-12, 1e2),
    )
    d.set(
        title="Known parameters: above zero the motion is unstable",
        xlabel="gain K [diagonal of M / s]",
        ylabel="growth of s [1/s]",
    )
    for axes in (a, b, c, d):
        axes.grid(alpha=0.3)
        axes.legend(frameon=False, fontsize="small", ncols=2 if axes is c else 1)
    figure.savefig(picture, dpi=110)
    plt.close(figure)


if __name__ == "__main__":
    main(*sys.argv[1:2])
