"""The run of recorded states: its work and forces are computed when they are asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..mechanisms import Mechanism, OpenTree
from ..mechanisms.constrained import Constrained
from ..runs import ConstrainedRun, Run
from ..runs.run import LATER
from ..scalars import Array
from .efforts import EffortInput


def efforts_of(mechanism: Mechanism, t: Array, q: Array, v: Array, efforts: EffortInput) -> Array:
    """The efforts (..., nt, nu) that act: the given ones, and the ones that move prescribed joints."""
    u = mechanism.acting(efforts.recorded(t, q, v))
    finite = np.isfinite(u).all(axis=-1)
    p = np.broadcast_to(efforts.p[..., None, :], (*finite.shape, efforts.p.shape[-1]))[finite]
    u[finite] = mechanism.completed(
        np.broadcast_to(t, finite.shape)[finite], q[finite], v[finite], u[finite], p
    )
    return u


def run_of_record(
    mechanism: Mechanism,
    times: Array,
    q: Array,
    v: Array,
    p: Array,
    later: dict[str, Callable[[], Any]],
    metadata: dict[str, Any],
    **more: Any,
) -> Run:
    """The run of states q (*batch, nt, nq), v (*batch, nt, nv) with parameters p, (np,) or (*batch, np).

    later  calls that give efforts and work; forces by name are added
    more   further fields, of a `ConstrainedRun` if the mechanism has constraints
    """
    if isinstance(mechanism, OpenTree) and mechanism.forces and mechanism.works:
        later["forces"] = lambda: forces_by_name(mechanism, times, q, v, p)
    fields: dict[str, Any] = {
        "mechanism": mechanism,
        "drives": mechanism.drives,
        "metadata": metadata,
        "tree": getattr(mechanism, "tree", None),
        "later": later,
        **more,
    }
    layout = mechanism.layout
    if layout.size:
        fields["parameters"] = layout.named(np.broadcast_to(p, (*q.shape[:-2], layout.size)))
    kind = Run
    if isinstance(mechanism, Constrained):
        kind = ConstrainedRun
        fields |= {"constraints": mechanism.rows, "system": mechanism}
    run: Run = kind(times, q, v, LATER, LATER, *mechanism.labels, **fields)
    return run


def stored_energy(mechanism: OpenTree, q: Array, p: Array) -> Any:
    """The energy that the forces store, less the energy that they stored at the start, (..., nt)."""
    if not any(force.stores for force in mechanism.forces):
        return 0.0
    energy = _along(mechanism, "stored", np.isfinite(q).all(axis=-1), q, p=p)
    return energy - energy[..., :1]


def work_by_powers(mechanism: Mechanism, t: Array, q: Array, v: Array, tau: Array, p: Array) -> Array:
    """The work since the first time, (..., nt), from powers P at the times: an error of order four.

    The integral over an interval h is h (P_0 + P_1)/2 + h^2 (P'_0 - P'_1)/12, with differences for P'.
    """
    finite = np.isfinite(q).all(axis=-1) & np.isfinite(v).all(axis=-1)
    u = np.zeros((*finite.shape, mechanism.nu)) if tau is None else tau
    # Powers at all recorded states, from which the integral of each interval follows.
    power = _along(mechanism, "power", finite, np.broadcast_to(t, finite.shape), q, v, u, p=p)
    h = np.diff(t)
    work = np.zeros(finite.shape)
    slope: Array = np.gradient(power, t, axis=-1, edge_order=2 if len(h) > 1 else 1) if len(h) else power
    pieces = h * (power[..., 1:] + power[..., :-1]) / 2 + h**2 * (slope[..., :-1] - slope[..., 1:]) / 12
    work[..., 1:] = np.cumsum(pieces, axis=-1)
    return work


def forces_by_name(mechanism: OpenTree, t: Array, q: Array, v: Array, p: Array) -> dict[str, Array]:
    """{name: generalised forces (..., nt, nv)} of the forces beside efforts and weight."""
    finite = np.isfinite(q).all(axis=-1) & np.isfinite(v).all(axis=-1)
    forces = _along(mechanism, "forces", finite, np.broadcast_to(t, finite.shape), q, v, p=p)
    by_name: dict[str, Array] = {}
    for i, force in enumerate(mechanism.forces):
        # Forces of one name, as two springs, are added.
        by_name[force.name] = by_name.get(force.name, 0) + forces[..., i, :]
    return by_name


def _along(mechanism: Mechanism, name: str, finite: Array, *arrays: Array, p: Array) -> Array:
    """A function of a mechanism at recorded states and their parameters p; NaN where they are not finite."""
    size = p.shape[-1]
    # Kernels take rows: the finite states of all members and times.
    parameters = [np.broadcast_to(p[..., None, :], (*finite.shape, size))] if size else []
    values = mechanism.kernel(name)(*(x[finite] for x in (*arrays, *parameters)))
    along = np.full((*finite.shape, *values.shape[1:]), np.nan)
    along[finite] = values
    return along
