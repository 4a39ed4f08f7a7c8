"""Linear models of a mechanism at any state, and linear-quadratic regulators on them.

The tangent (delta, nu) of a state (q, v) leads to (q exp(delta), v + nu).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ..base.arguments import checked, floats, vectors, wrong_shape
from ..base.errors import SECONDS, ModelError, ShapeError, positive, require
from ..compiler import Kernel, traced
from ..compiler.programs.layout import ensemble_of
from ..groups import along_group
from ..integrators import MechanicalMethod, Method
from ..mechanisms import Forces, Mechanism, OpenTree, forces_of
from ..mechanisms.constrained import Constrained, Stabilization
from ..mechanisms.constrained.stabilization import NOTHING
from ..robot import Robot
from ..scalars import Array
from .setup import flow_of, mechanism_of, method_of, points_of, stabilization_of
from .step_derivatives import Inputs, rates_of, steps_of


class Linearization(NamedTuple):
    """dx/dt = A x + B du, or x(t + dt) = A x + B du, of tangents x = (delta, nu) and changes of efforts du.

    A   (..., 2 nv, 2 nv)
    B   (..., 2 nv, nu)
    dt  the step; None: continuous                                                                     [s]
    """

    A: Array
    B: Array
    dt: float | None = None


class ConstrainedLinearization(NamedTuple):
    """The linear model of tangents that obey the constraints, with coordinates x (n,), one for each freedom.

    A        (..., n, n)
    B        (..., n, nu)
    dt       the step; None: continuous                                                                [s]
    basis    (delta, nu) = basis x, (..., 2 nv, n)
    measure  x = measure (delta, nu), (..., n, 2 nv); measure basis = 1
    """

    A: Array
    B: Array
    dt: float | None
    basis: Array
    measure: Array


class Regulator(NamedTuple):
    """The feedback u = -K x, K (nu, 2 nv), of least cost; the cost from a state x on is x^T P x."""

    K: Array
    P: Array


@partial(checked, but=("mechanism",))
def linearize(
    mechanism: Robot | Mechanism,
    q: Array,
    v: Array = None,
    tau: Array = None,
    dt: float | None = None,
    *,
    method: str | Method | MechanicalMethod = "rkmk4",
    forces: Forces = (),
    joints: str | Iterable[str] | None = None,
    stabilization: str | Stabilization | None = None,
) -> Linearization | ConstrainedLinearization:
    """A and B of the equations of motion along the group, at any state, or of one step of a method.

        d delta/dt = nu - ad_v delta,    d nu/dt = (da/dq) delta + (da/dv) nu + (da/dtau) du

    The motion carries tangents along: that is the term ad_v, with the bracket of the joints' groups, which
    vanishes where v is zero. The matrices of a step are its exact derivatives, with constant efforts.

    The states of a `System` or `ClosedTree` obey g(q) = 0, J(q) v = b, and tangents J delta = 0,
    J nu + d(J v - b)/dq delta = 0; then (delta, nu) = basis x. For a tree x has the changes of angles, and of
    velocities, of joints that are chosen to be independent; for a System it has coordinates in an orthonormal
    basis of the null space of J, which moves with q. Velocity constraints restrict nu alone. A and B are in
    these coordinates at (q, v), also for the end of a step.

    q, v, tau        state and efforts, (..., nq), (..., nv), (..., nu), at t = 0; v and tau are zero if None.
                     States have to obey the constraints
    dt               length of a step; None: continuous                                                [s]
    method           a method of `simulate`, by which the step is taken; one that remembers nothing
    forces, joints, stabilization   as in `simulate`

    Raises ShapeError, ConfigurationError for states off the constraints, ModelError for curves as
    constraints and for methods that remember more than q and v, such as generalized-alpha.
    """
    moving = mechanism_of(mechanism, forces_of(forces), joints, dt)
    chosen = method_of(method)
    if dt is not None:
        dt = positive("dt", dt, SECONDS)
    if moving.group.dim != moving.nv:
        raise ModelError(f"{moving.name} has curves as constraints, which linearize does not take")
    # States and efforts share their leading axes; inside they are rows.
    q = moving.configurations(q)
    v = vectors("v", np.zeros(moving.nv) if v is None else v, moving.nv)
    tau = vectors("tau", np.zeros(moving.nu) if tau is None else tau, moving.nu)
    batch = ensemble_of({"q": q.shape[:-1], "v": v.shape[:-1], "tau": tau.shape[:-1]})
    n = math.prod(batch)
    if moving.nc and not n:
        raise ShapeError("there are no states to linearise at, which would say how many freedoms there are")
    q, v, tau = (np.broadcast_to(x, (*batch, x.shape[-1])).reshape(n, x.shape[-1]) for x in (q, v, tau))
    moving.check_state(q, v)
    # A mechanism with free parameters is linearised at their values by default.
    u = np.concatenate([tau, np.broadcast_to(moving.values, (n, moving.layout.size))], axis=-1)
    if dt is None:
        A, B = _continuous(moving, q, v, u)
    else:
        stabilized = stabilization_of(moving, chosen, stabilization, dt)
        A, B = _discrete(moving, chosen, stabilized, dt, q, v, u)
    # The derivatives by the parameters behind the efforts are of no use here.
    B = B[..., : moving.nu]
    # Tangents on the constraints have fewer coordinates: A and B in them.
    charts = _charts(moving, q, v) if isinstance(moving, Constrained) and moving.nc else []
    if charts:
        basis, measure = charts
        A = measure @ A @ basis
        B = measure @ B
    A, B, *charts = (x.reshape(*batch, *x.shape[1:]) for x in (A, B, *charts))
    return ConstrainedLinearization(A, B, dt, *charts) if charts else Linearization(A, B, dt)


@checked
def lqr(linear: Linearization | ConstrainedLinearization, Q: Array, R: Array, N: Array = None) -> Regulator:
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
    Q = floats("Q", Q)
    R = floats("R", R)
    N = floats("N", np.zeros((n, m)) if N is None else N)
    matrices = {"A": (A, (n, n)), "B": (B, (n, m)), "Q": (Q, (n, n)), "R": (R, (m, m)), "N": (N, (n, m))}
    for name, (x, shape) in matrices.items():
        if np.shape(x) != shape:
            raise wrong_shape(name, np.shape(x), shape)
    discrete = linear.dt is not None
    try:
        # SciPy does not check that R is positive definite.
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


def _discrete(
    mechanism: Mechanism,
    method: Method | MechanicalMethod,
    stabilized: Any,
    dt: float,
    q: Array,
    v: Array,
    u: Array,
) -> tuple[Array, Array]:
    """A and B of one step of a method, for all tangents."""
    flow = flow_of(mechanism, method, stabilized, None)
    # A tangent has no entries for what a method remembers beside q and v, such as accelerations.
    y = points_of(flow, q, v, dt, u)
    if y.shape[1] != mechanism.nq + mechanism.nv:
        raise ModelError(f"{method.name} remembers more than q and v from step to step; take another method")
    _, A, B = steps_of(mechanism, method, stabilized, flow)(np.zeros(len(q)), dt, y, Inputs(u))
    return A, B


def _continuous(mechanism: Mechanism, q: Array, v: Array, u: Array) -> tuple[Array, Array]:
    """A and B of the equations of motion, for all tangents, whether or not they obey the constraints."""
    # Constraints hold by their multipliers; stabilisation would add terms that vanish only on them.
    if "rates" not in mechanism.flows:
        parts = mechanism.parts(NOTHING if isinstance(mechanism, Constrained) else None)
        bracket = Kernel(traced(mechanism.group.ad, {"v": mechanism.nv}, "bracket"))
        mechanism.flows["rates"] = rates_of(mechanism, parts.field), bracket
    rates, bracket = mechanism.flows["rates"]
    _, A, B = rates(np.zeros(len(q)), np.concatenate([q, v], axis=-1), u)
    n = mechanism.nv
    if A.shape[1] == n:  # dq/dt = v
        kinematic = np.eye(n, 3 * n, n)
        A, B = (
            np.concatenate([np.broadcast_to(x, (len(q), *x.shape)), y], axis=1)
            for x, y in ((kinematic[:, : 2 * n], A), (kinematic[:, 2 * n :], B))
        )
    # d delta/dt = nu - ad_v delta
    A[:, :n, :n] -= bracket(v)
    return A, B


def _charts(mechanism: Constrained, q: Array, v: Array) -> list[Array]:
    """basis (N, 2 nv, n) and measure (N, n, 2 nv) of the tangents that obey the constraints."""
    if "tangent space" not in mechanism.flows:
        n = mechanism.nv

        def rate(q: Array, v: Array) -> Array:
            return mechanism.residuals(0.0, q, v)[1]

        by_q = along_group(rate, {"q": mechanism.nq, "v": n}, {"q": mechanism.group}).jacobian(mode="forward")

        def space(q: Array, v: Array) -> tuple[Array, Array]:
            return mechanism.constraints_at(q)[1], by_q(q, v)

        mechanism.flows["tangent space"] = Kernel(traced(space, {"q": mechanism.nq, "v": n}, "space"))
    joints = isinstance(mechanism, OpenTree)
    spaces = zip(*mechanism.flows["tangent space"](q, v), strict=True)
    charts = [_chart(J, D, mechanism.of_places, joints) for J, D in spaces]
    return [np.stack(x) for x in zip(*charts, strict=True)]


def _chart(J: Array, D: Array, places: Array, joints: bool) -> tuple[Array, Array]:
    """basis and measure of one state, with D = d(J v - b)/dq.

    places  which rows of J forbid places
    joints  whether coordinates are entries of delta and nu themselves
    """
    n = J.shape[1]
    # For delta (constraints of places) and for nu (all constraints): N spans the null space of J, L reads
    # coordinates, and L N = 1. For joints L picks the independent ones.
    N = []
    L = []
    for rows in (J[places], J):
        # Redundant equations have singular values of zero but for round-off.
        _, sizes, V = np.linalg.svd(rows)
        space = V[int((sizes > 1e-10 * sizes.max(initial=1.0)).sum()) :].T
        L.append(np.eye(n)[_independent(space)] if joints else space.T)
        N.append(space @ np.linalg.inv(L[-1] @ space))
    # A change of places changes velocities, too: J nu = -D delta, without a part in the coordinates of nu.
    follows = -np.linalg.pinv(J, 1e-10) @ D @ N[0]
    follows -= N[1] @ (L[1] @ follows)
    k = N[0].shape[1]
    basis = np.zeros((2 * n, k + N[1].shape[1]))
    basis[:n, :k] = N[0]
    basis[n:, :k] = follows
    basis[n:, k:] = N[1]
    measure = np.zeros((k + len(L[1]), 2 * n))
    measure[:k, :n] = L[0]
    measure[k:, n:] = L[1]
    return basis, measure


def _independent(N: Array) -> list[int]:
    """k rows of N (n, k) that have an inverse, in order: each time the row that is longest."""
    # After each choice its direction is removed from all rows: a row is as long as it is independent of the
    # chosen ones (Gram-Schmidt with pivots).
    rows: list[int] = []
    rest = np.array(N)
    for _ in range(N.shape[1]):
        rows.append(int(np.argmax((rest * rest).sum(axis=1))))
        along = rest[rows[-1]] / np.linalg.norm(rest[rows[-1]])
        rest = rest - np.outer(rest @ along, along)
    return sorted(rows)
