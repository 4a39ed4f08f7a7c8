"""Basins of attraction: where motions from a grid of starts settle, in which attractors, found by themselves.

Each start is simulated for a time. Its last returns to a section tell whether it has settled in an orbit that
closes after one or a few returns, up to symmetries; those that settle in the same states share an attractor.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..base.errors import ConfigurationError
from ..sweep import sweep
from .segments import Array
from .shooting import Shooting

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ENDED = 0  # outcomes; attractors follow
UNSETTLED = 1


@dataclass(frozen=True, eq=False)
class Attractor:
    """An orbit in which motions settle: states at its returns q (k, nq), v (k, nv), and its period [s].

    `periodic_orbit(system, a.q[0], a.v[0], period=a.period, section=..., segments=len(a.q))` is the orbit.
    """

    q: Array
    v: Array
    period: float

    def __repr__(self) -> str:
        return f"Attractor(period {self.period:.6g} s, {len(self.q)} returns)"


@dataclass(frozen=True, eq=False)
class Basin:
    """The outcome of each start of a grid.

    axes        {name: values}, in the order of the axes of the arrays
    outcome     0: it ended early; 1: it had not settled; 2, 3, ...: it settled in attractors[0], [1], ...
    end_times   when it ended                                                                            [s]
    q, v        where it ended, (..., nq) and (..., nv)
    attractors  those found, the one with the largest basin first
    """

    axes: dict[str, Array]
    outcome: Array
    end_times: Array
    q: Array
    v: Array
    attractors: list[Attractor]

    @property
    def shares(self) -> Array:
        """The share of all starts for each outcome."""
        return np.bincount(self.outcome.ravel(), minlength=2 + len(self.attractors)) / self.outcome.size

    def plot(self, path: str | os.PathLike[str] | None = None) -> Figure:
        """Draw the outcomes over two axes, a colour each, with their shares."""
        from .pictures import basin

        return basin(self, path)


def basin(
    system: Any,
    axes: Mapping[str, Any],
    state: Callable[[dict[str, Array]], tuple[Array, Array]],
    store: str | os.PathLike[str],
    *,
    section: str | tuple[str, int],
    t_end: float,
    symmetries: Any = (),
    parameters: Mapping[str, Any] | None = None,
    scale: Any = 1.0,
    tolerance: float = 1e-3,
    longest: int = 4,
    options: Mapping[str, Any] | None = None,
    **sweeping: Any,
) -> Basin:
    """Simulate from each point of a grid, by `lb.sweep`, and find the attractor of each.

    axes       {name: values}; names of parameters are given to the system
    state      {name: (n,)} -> q0 (n, nq), v0 (n, nv)
    store      folder of the results; after a kill the same call runs the chunks that are missing
    section    guard at whose events motions are compared, or (name, direction), as of `periodic_orbit`
    t_end      how long each start is simulated                                                          [s]
    symmetries, parameters, scale  as of `periodic_orbit`
    tolerance  over the scale: of states that count as the same
    longest    of the orbits that are recognised, in returns to the section
    options    of `HybridSystem.simulate`; sweeping: options of `lb.sweep`, as workers and chunk

    Errors as of `lb.sweep`.
    """
    if longest < 1:
        raise ConfigurationError(f"longest is {longest!r}, expected a number of returns, one or more")
    # only the system's metric is used: how far two states are apart, symmetries left out
    shooting = Shooting(system, section=section, symmetries=symmetries, scale=scale)
    last = {"q": ("back", "coordinate"), "v": ("back", "velocity"), "t": ("back",)}
    last |= {"q_end": ("coordinate",), "v_end": ("velocity",)}
    # chunks record the last returns; the outcome is sorted out afterwards, in this process
    ds = sweep(
        last_returns, axes, store, outputs=last, system=system, state=state, section=shooting.section,
        number=longest + 1, t_end=t_end, parameters=dict(parameters or {}), simulation=dict(options or {}),
        **sweeping,
    )  # fmt: skip
    shape = ds["end_time"].shape
    ended = (ds["cause"].values != "").ravel()
    q, v, t = (ds[name].values.reshape(ended.size, longest + 1, *tail) for name, tail in
               (("q", (system.nq,)), ("v", (system.nv,)), ("t", ())))  # fmt: skip
    outcome, attractors = _sorted_out(shooting, q, v, t, ended, tolerance)
    values = {str(name): ds[name].values for name in ds["end_time"].dims}
    end_times, q_end, v_end = (ds[name].values for name in ("end_time", "q_end", "v_end"))
    return Basin(values, outcome.reshape(shape), end_times, q_end, v_end, attractors)


def last_returns(
    p: Mapping[str, Array], *, system: Any, state: Any, section: tuple[str, int], number: int, t_end: float,
    parameters: Mapping[str, Any], simulation: Mapping[str, Any],
) -> dict[str, Array]:  # fmt: skip
    """States and times of the last returns to the section, the latest first, or NaN; and how it ended."""
    q0, v0 = state(dict(p))
    swept = {name: x for name, x in p.items() if name in system.parameters.defaults}
    run = system.simulate(
        q0, v0, t_end=t_end, record_every=t_end, parameters={**parameters, **swept}, **simulation
    )
    n = len(run.events)
    q, v, t = (np.full((n, number, *tail), np.nan) for tail in ((system.nq,), (system.nv,), ()))
    for i, log in enumerate(run.events):
        # the latest first; fewer returns leave NaN
        at = log.of(*section).where(slice(None, None, -1)).where(slice(number))
        q[i, : len(at)] = at.q
        v[i, : len(at)] = at.v
        t[i, : len(at)] = at.t
    end = {"cause": run.ends, "end_time": run.end_times, "q_end": run.final.q, "v_end": run.final.v}
    return {"q": q, "v": v, "t": t, **end}


def _sorted_out(
    shooting: Shooting, q: Array, v: Array, t: Array, ended: Array, tolerance: float
) -> tuple[Array, list[Attractor]]:
    """The outcome of each start (n,), and the attractors by the size of their basins."""

    def same(*states: Array) -> bool:
        return shooting.apart(*states) < tolerance

    attractors: list[Attractor] = []
    outcome = np.where(ended, ENDED, UNSETTLED)
    for i in np.flatnonzero(~ended):
        # an attractor whose states the last return meets
        known = (
            j
            for j, a in enumerate(attractors)
            for r, w in zip(a.q, a.v, strict=True)
            if same(r, w, q[i, 0], v[i, 0])
        )
        # the first earlier return with the same state: the orbit closes after k returns
        back = (
            k
            for k in range(1, q.shape[1])
            if np.isfinite(t[i, k]) and same(q[i, k], v[i, k], q[i, 0], v[i, 0])
        )
        k = next(back, None)
        if k is None:
            continue
        j = next(known, None)
        if j is None:
            j = len(attractors)
            attractors.append(Attractor(q[i, k - 1 :: -1], v[i, k - 1 :: -1], float(t[i, 0] - t[i, k])))
        outcome[i] = 2 + j
    # attractors are numbered by the size of their basins
    order = np.argsort([-np.count_nonzero(outcome == 2 + j) for j in range(len(attractors))], kind="stable")
    renamed = np.concatenate([[ENDED, UNSETTLED], 2 + np.argsort(order)]).astype(int)
    return renamed[outcome], [attractors[j] for j in order]
