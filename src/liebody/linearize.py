"""Linear models of a mechanism at any state, and linear-quadratic regulators on them.

The tangent (delta, nu) of a state (q, v) leads to (q exp(delta), v + nu).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from .codegen import Kernel, jacobian, trace, traced
from .door import checked
from .dynamics import Force, OpenTree
from .errors import ModelError, ShapeError, positive, require
from .integrators.methods import Method, method_named
from .integrators.rkmk import combination
from .robot import Robot
from .scalar import Array
from .simulate import mechanism_of


class Linearization(NamedTuple):
    """dx/dt = A x + B du, or x(t + dt) = A x + B du, of tangents x = (delta, nu) and changes of efforts du.

    A   (..., 2 nv, 2 nv)
    B   (..., 2 nv, nv)
    dt  the step; None: continuous                                                                     [s]
    """

    A: Array
    B: Array
    dt: float | None = None


class Regulator(NamedTuple):
    """u = -K x (nu, 2 nv) of least cost, which is x^T P x from the state x on."""

    K: Array
    P: Array


@partial(checked, but=("mechanism",))
def linearize(
    mechanism: Robot | OpenTree,
    q: Array,
    v: Array = None,
    tau: Array = None,
    dt: float | None = None,
    *,
    method: str | Method = "rkmk4",
    forces: Iterable[Force] = (),
    joints: str | Iterable[str] | None = None,
) -> Linearization:
    """A and B of the equations of motion along the group, at any state, or of one step of a method.

        d delta/dt = nu - ad_v delta,    d nu/dt = (da/dq) delta + (da/dv) nu + (da/dtau) du

    ad_v, with the bracket of the joints' groups, is what is left of v where it is not zero: tangents are
    carried along by the motion. The step's matrices are its exact derivatives, with constant efforts.

    q, v, tau        state and efforts, (..., nq), (..., nv), (..., nv), at t = 0; v and tau are zero if None
    dt               length of a step; None: continuous                                                [s]
    method           an explicit method of `simulate`, by which the step is taken
    forces, joints   as in `simulate`

    Raises ModelError for mechanisms with constraints, IntegrationError for methods that are not explicit.
    """
    made = mechanism_of(mechanism, tuple(forces), joints, dt)
    if not isinstance(made, OpenTree):
        raise ModelError(
            f"{made.name} has constraints, and linearize takes a Robot or an OpenTree; differentiate its runs"
        )
    if dt is not None:
        dt = positive("dt", dt, " of seconds")
    q = made.configurations(q)
    rest = np.zeros(made.nv)
    v, tau = (rest if x is None else np.asarray(x, float) for x in (v, tau))
    for name, x in (("v", v), ("tau", tau)):
        if x.ndim < 1 or x.shape[-1] != made.nv:
            raise ShapeError(f"{name} has shape {x.shape}, expected (..., {made.nv})")
    batch = np.broadcast_shapes(q.shape[:-1], v.shape[:-1], tau.shape[:-1])
    q, v, tau = (np.broadcast_to(x, (*batch, x.shape[-1])) for x in (q, v, tau))
    if "tangents" not in made.flows:
        made.flows["tangents"] = _Tangents(made)
    tangents: _Tangents = made.flows["tangents"]
    n = made.nv
    unit = np.broadcast_to(np.eye(3 * n), (*batch, 3 * n, 3 * n))  # of delta, nu and du
    start = _Point(q, v, unit[..., :n, :], unit[..., n : 2 * n, :])
    if dt is None:
        _, _, turned, rate = tangents.rate(start, tau, unit[..., 2 * n :, :], 0.0)
        turned = turned - tangents.bracket(v) @ start.delta
        both = np.concatenate([turned, rate], axis=-2)
    else:
        end = tangents.step(method_named(method), start, tau, unit[..., 2 * n :, :], dt)
        both = np.concatenate([end.delta, end.nu], axis=-2)
    return Linearization(both[..., : 2 * n], both[..., 2 * n :], dt)


def lqr(linear: Linearization, Q: Array, R: Array, N: Array = None) -> Regulator:
    """The feedback u = -K x that minimises int x^T Q x + u^T R u + 2 x^T N u dt; with dt, a sum over steps.

    linear  A (n, n) and B (n, m) of a single state; take columns of B for fewer drives:
            `linear._replace(B=linear.B[:, [1]])`
    Q, R    weights, symmetric, (n, n) and (m, m), positive semidefinite and positive definite
    N       (n, m); zero if None

    x is (difference(q_0, q), v - v_0), and u is added to the efforts of the state that was linearised.

    Raises ShapeError, and ModelError where no feedback makes the state stable. By the Riccati equations of
    scipy.linalg.
    """
    require("regulators", "scipy", extra="control")
    from scipy.linalg import solve_continuous_are, solve_discrete_are

    A, B = (np.asarray(x, float) for x in linear[:2])
    n, m = A.shape[-1], B.shape[-1]
    N = np.zeros((n, m)) if N is None else N
    given = {"A": (A, (n, n)), "B": (B, (n, m)), "Q": (Q, (n, n)), "R": (R, (m, m)), "N": (N, (n, m))}
    for name, (x, shape) in given.items():
        if np.shape(x) != shape:
            raise ShapeError(f"{name} has shape {np.shape(x)}, expected {shape}")
    Q, R, N = (np.asarray(x, float) for x in (Q, R, N))
    discrete = linear.dt is not None
    try:
        np.linalg.cholesky(R)
        P = (solve_discrete_are if discrete else solve_continuous_are)(A, B, Q, R, s=N)
    except (np.linalg.LinAlgError, ValueError) as error:
        raise ModelError(
            f"the Riccati equation has no stabilising solution ({error}); every motion that does not die "
            "away by itself needs a drive, and a weight in Q; R must be positive definite"
        ) from None
    left = R + B.T @ P @ B if discrete else R
    K = np.linalg.solve(left, B.T @ P @ A + N.T if discrete else B.T @ P + N.T)
    return Regulator(K, P)


class _Point(NamedTuple):
    """A state, and how its tangent depends on that at the start and on the efforts, (..., nv, 3 nv)."""

    q: Array
    v: Array
    delta: Array
    nu: Array


class _Tangents:
    """The equations of motion of a tree, and of its tangents."""

    def __init__(self, mechanism: OpenTree) -> None:
        self.mechanism, self.group = mechanism, mechanism.group
        own = getattr(mechanism, "robot", None)
        self.robot: Robot = own or Robot(mechanism.tree, mechanism.gravity)
        n, group = mechanism.nv, self.group
        zero = np.zeros(n).astype(object)
        applied = trace(
            lambda t, q, v, u, s: mechanism.efforts(t, group.integrate(q, s), v, u),
            {"t": (), "q": mechanism.nq, "v": n, "u": n, "s": n},
        )
        pull = trace(lambda psi, f: group.dexp_inverse_times(-psi, f), {"psi": n, "f": n})

        def efforts(*at: Array) -> tuple[Array, ...]:
            return applied(*at, zero), *(jacobian(applied, x)(*at, zero) for x in "svu")

        def moved(q: Array, psi: Array) -> tuple[Array, ...]:
            end = group.normalize(group.integrate(q, psi))
            return end, group.Ad(group.exp(-psi)), group.dexp(-psi)

        def pulled(psi: Array, f: Array) -> tuple[Array, ...]:
            return pull(psi, f), *(jacobian(pull, x)(psi, f) for x in ("psi", "f"))

        shapes: Mapping[str, int | Sequence[int]] = {"t": (), "q": mechanism.nq, "v": n, "u": n}
        self._efforts = Kernel(traced(efforts, shapes, "efforts"))
        self._moved = Kernel(traced(moved, {"q": mechanism.nq, "psi": n}, "moved"))
        self._pulled = Kernel(traced(pulled, {"psi": n, "f": n}, "pulled"))
        self.bracket = Kernel(traced(group.ad, {"v": n}, "bracket"))

    def rate(self, at: _Point, u: Array, du: Array, t: float) -> tuple[Array, ...]:
        """v, dv/dt, and their derivatives along the tangent."""
        tau, *slopes = self._efforts(t, at.q, at.v, u)
        a = self.robot.forward_dynamics(at.q, at.v, tau)
        by_q, by_v, by_tau = self.robot.forward_dynamics_derivatives(at.q, at.v, tau)
        by_q, by_v, by_u = by_q + by_tau @ slopes[0], by_v + by_tau @ slopes[1], by_tau @ slopes[2]
        return at.v, a, at.nu, by_q @ at.delta + by_v @ at.nu + by_u @ du

    def step(self, method: Method, start: _Point, u: Array, du: Array, h: float) -> _Point:
        """The end of one step of a method, as `integrators.methods.advance` on the group x R^nv."""
        points, rates = [start], [self.rate(start, u, du, 0.0)]
        for i, (first, exponentials) in enumerate(method.paths[1:], start=1):
            point = points[first]
            for row in exponentials:
                psi, rise, d_psi, d_rise = (
                    h * combination(row, values) for values in zip(*rates, strict=True)
                )
                q, X, D = self._moved(point.q, psi)
                point = _Point(q, point.v + rise, X @ point.delta + D @ d_psi, point.nu + d_rise)
            points.append(point)
            if i < len(method.paths) - 1:
                v, a, dv, da = self.rate(point, u, du, h * float(method.c[i]))
                if method.pulls_back:
                    v, by_psi, by_v = self._pulled(psi, v)
                    dv = by_psi @ d_psi + by_v @ dv
                rates.append((v, a, dv, da))
        return points[-1]
