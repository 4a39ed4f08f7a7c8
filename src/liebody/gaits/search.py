"""Search: many starts at once, one return of each, and Newton's method from those that come back nearest.

Improvement: random changes of parameters, Newton's method for each, the better orbits kept.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from typing import Any

import numpy as np

from ..base.arguments import count
from ..base.errors import ConfigurationError
from .orbit import PeriodicOrbit, largest_multiplier, periodic_orbit
from .segments import Array, GaitError
from .shooting import Shooting

SAME = 1e-5  # states nearer than this over the scale, with the same parameters, are of one orbit


def search(
    system: Any,
    starts: Mapping[str, Any],
    state: Callable[[dict[str, Array]], tuple[Array, Array]],
    *,
    period: float,
    section: str | tuple[str, int],
    keep: int = 32,
    symmetries: Any = (),
    parameters: Mapping[str, Any] | None = None,
    scale: Any = 1.0,
    objective: Callable[[PeriodicOrbit], float] | None = None,
    accept: Callable[[PeriodicOrbit], bool] | None = None,
    tries: int = 14,
    options: Mapping[str, Any] | None = None,
    **newton: Any,
) -> list[PeriodicOrbit]:
    """Periodic orbits from a sample of starts and parameters, the best first.

    starts      {name: (n, ...)}, as `lb.sample` draws them; names of parameters are given to the system
    state       starts -> q0 (n, nq), v0 (n, nv), on the section or near it
    period      a guess of all periods [s]; section, symmetries, parameters, scale as of `periodic_orbit`
    keep        from how many of them Newton's method starts: those that one return brings back nearest
    objective   orbit -> number, the smallest first; default: the largest modulus of its multipliers
    accept      orbit -> whether it counts; default: all
    options     of `HybridSystem.simulate`; tries, newton: more of `periodic_orbit`

    Orbits found twice are given once. Starts that do not return, or lead to none, are left out.
    """
    samples = {name: np.asarray(x, float) for name, x in starts.items()}
    if len({len(x) for x in samples.values()}) != 1:
        raise ConfigurationError("starts must be arrays of one length, {name: (n, ...)}")
    q, v = (np.asarray(x, float) for x in state(dict(samples)))
    drawn = {name: x for name, x in samples.items() if name in system.parameters.defaults}
    options = dict(options or {})
    fixed = dict(parameters or {})
    shooting = Shooting(system, section, symmetries=symmetries, scale=scale, simulation=options)
    # all starts in one ensemble, for one return: how far each comes back from where it began
    _, ends = shooting.reach(shooting.motion, q, v, {**fixed, **drawn}, period)
    far = np.full(len(q), np.inf)
    for i, end in enumerate(ends):
        if end.reached and np.isfinite(end.q).all():
            far[i] = shooting.apart(q[i], v[i], end.q, end.v)
    orbits: list[PeriodicOrbit] = []
    # Newton's method from the nearest ones; starts that do not converge are left out
    for i in np.argsort(far, kind="stable")[:keep]:
        if not np.isfinite(far[i]):
            break
        try:
            orbit = periodic_orbit(
                system, q[i], v[i], period=ends[i].time, section=section, symmetries=symmetries,
                parameters={**fixed, **{name: x[i] for name, x in drawn.items()}}, scale=scale, tries=tries,
                **newton, **options,
            )  # fmt: skip
        except GaitError:
            continue
        if (accept is None or accept(orbit)) and not any(_same(orbit, other) for other in orbits):
            orbits.append(orbit)
    return sorted(orbits, key=objective or largest_multiplier)


def improve(
    orbits: Sequence[PeriodicOrbit],
    spread: Mapping[str, Any],
    *,
    objective: Callable[[PeriodicOrbit], float] = largest_multiplier,
    accept: Callable[[PeriodicOrbit], bool] | None = None,
    bounds: Mapping[str, tuple[float, float]] | None = None,
    generations: int = 30,
    children: int = 48,
    parents: int = 8,
    seed: int = 0,
    **newton: Any,
) -> list[PeriodicOrbit]:
    """Orbits with a smaller objective, by random changes of parameters: the best `parents`, the best first.

    spread     {name: size} of normal changes of parameters; they shrink by 3 % from generation to generation
    objective  orbit -> number; accept: orbit -> whether it counts
    bounds     {name: (least, most)} within which parameters stay
    children   changes that are tried in each generation, of the best in turn, by Newton's method from these
    newton     tolerance and tries of `PeriodicOrbit.with_parameters`
    """
    if not orbits:
        raise ConfigurationError("there are no orbits to improve; `search` finds some")
    rng = np.random.default_rng(seed)
    best = itemgetter(0)
    parents = count("parents", parents)
    pool = sorted(((objective(orbit), orbit) for orbit in orbits), key=best)[:parents]
    for generation in range(generations):
        offspring = []
        for k in range(children):
            orbit = pool[k % len(pool)][1]
            parameters = dict(orbit.parameters)
            # normal changes that shrink, kept within the bounds
            for name, size in spread.items():
                value = np.asarray(parameters.get(name, orbit.system.parameters.defaults[name]))
                value = value + 0.97**generation * np.asarray(size) * rng.normal(size=value.shape)
                parameters[name] = np.clip(value, *(bounds or {}).get(name, (-np.inf, np.inf)))[()]
            try:
                offspring.append(orbit.with_parameters(**newton, **parameters))
            except GaitError:
                continue
        # parents stay in the pool: the best never becomes worse
        pool += [(objective(orbit), orbit) for orbit in offspring if accept is None or accept(orbit)]
        pool = sorted(pool, key=best)[:parents]
    return [orbit for _, orbit in pool]


def _same(a: PeriodicOrbit, b: PeriodicOrbit) -> bool:
    alike = all(np.array_equal(a.parameters[name], b.parameters[name]) for name in a.parameters)
    return alike and a.shooting.apart(a.q, a.v, b.q, b.v) < SAME
