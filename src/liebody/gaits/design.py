"""Design: parameters of a robot and of its controller with which its gaits are better.

A design is a set of values of free parameters, such as masses, lengths, springs and gains, with the gait that
the robot has with them. Children of known designs are tried, generation after generation (`evolution`). The
gait of a child is found from its parent's: Newton's method starts at the parent's orbit. Where that fails, it
goes there in shorter steps of the parameters. All children of a generation are simulated together.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ..base.arguments import checked, count, floats, number
from ..base.errors import ConfigurationError, IntegrationError, LiebodyError, ShapeError, positive
from ..base.progress import Progress
from ..base.texts import path_of
from .designs import Design, Designs, read_designs, write_designs
from .evolution import Mutation, order
from .orbit import ENOUGH, PeriodicOrbit
from .segments import Array, GaitError, Point
from .shooting import Search, Shooting, Shot

Objective = Callable[[PeriodicOrbit], float]
DRAWS = 10  # how often a child is drawn that differs from all designs before
NO_GAIT = ""  # among names of limits: that there has to be a gait
HALVINGS = 1  # how often the way to a new design is halved before it is given up
SAME = 1e-6  # relative difference of objectives of the start, between a store and a call that continues it


@partial(checked, but=("start", "objectives", "store"))
def design(
    start: PeriodicOrbit | Sequence[PeriodicOrbit],
    free: Mapping[str, Any],
    objectives: Objective | Mapping[str, Objective],
    *,
    limits: Mapping[str, Any] | None = None,
    dependent: Callable[..., Mapping[str, Any]] | None = None,
    generations: int = 20,
    population: int = 12,
    spread: float = 0.15,
    seed: int = 0,
    tolerance: float = ENOUGH,
    tries: int = 8,
    store: str | os.PathLike[str] | None = None,
    progress: bool | None = None,
) -> Designs:
    """Search parameters of a robot and its controller for better gaits: co-design over periodic orbits.

        legs = design(
            gait, {"shank.mass": (0.03, 0.1), "K_r": (1500, 4000)}, {"cost": cost_of_transport},
            limits={"multiplier": (largest_multiplier, None, 0.9)},
        )

    start       a gait, from `periodic_orbit`, or several, as from `search`, of one system with the same
                section, symmetries and segments. Its unknowns and conditions hold for all designs: with
                unknowns=["E_des"] and the speed as a condition, all gaits have that speed
    free        {name: (least, most)} of parameters of the system, such as a robot's parameters
                (`robot.with_parameters`), symbols of its tree, gains of its controller. Bounds of an array
                are numbers or arrays; entries with equal bounds stay as they are
    objectives  orbit -> a number, the smaller the better, or {name: function} of several: the result is then
                a Pareto front
    limits      {name: (function, least, most)} of numbers of the orbit that must stay within bounds; None
                for no bound. The start may be beyond limits: the search goes there first
    dependent   values of the free parameters, a dictionary -> {name: value} of other parameters that follow
                from them, as the centre of mass of a link from its length
    generations, population   so many times so many children are tried
    spread      size of the first steps, over the width of the bounds
    seed        of the random steps: the same call gives the same designs
    tolerance, tries   of Newton's method for each gait, as of `periodic_orbit`
    store       a file in which all designs are kept after each generation. If it exists, the search in it
                goes on to so many generations; a search that was killed loses the last generation only
    progress    whether to show a bar; default: on a terminal, when it takes long

    returns     `Designs`: all that were tried, their gaits, the best one, the front, why others failed

    The method is the elitist evolution strategy of Igel, Hansen and Roth (2007). It compares designs, and
    needs neither slopes nor units of the objectives. Designs within the limits come before those beyond,
    whose order is the sum of all excesses, each over the size of its bound (over one for a bound of zero).
    A child without a gait, or with an objective that is not finite, is kept as a failure, with its reason.

    With a section all children of a generation are members of one ensemble, so that they share lanes and
    threads. Without one they are simulated one after the other.

    A gait is followed from parent to child by its equations alone. The kind of gait may change on the way,
    as the order of its events; a limit may demand what has to stay.

    Errors: GaitError where the start, with its dependent parameters, is no orbit; ConfigurationError for a
    start beyond the bounds, for parameters that are unknowns too, and for the store of another search.
    """
    if isinstance(start, PeriodicOrbit):
        start = [start]
    problem = _problem(list(start), free, objectives, limits, dependent, tolerance, count("tries", tries))
    generations = count("generations", generations, 0)
    population = count("population", population)
    definition = problem.definition | {
        "population": population,
        "spread": positive("spread", spread),
        "seed": count("seed", seed, 0),
    }
    path = None if store is None else path_of("store", store)
    # 1. a search that the store holds goes on; else the starts are the first parents
    search = _Search.continued(problem, path, definition) if path and path.exists() else None
    if search is None:
        search = _Search.begun(problem, list(start), float(spread), seed)
    # 2. generation after generation; a store has the whole search after each of them
    with Progress(progress, generations, unit="generation", initial=search.generation) as bar:
        while search.generation < generations:
            search.step(population, population if len(problem.objectives) > 1 else 1)
            if path:
                search.write(path, definition)
            bar.at(search.generation)
    return search.designs


@dataclass(frozen=True, eq=False)
class _Problem:
    """Free parameters, objectives, and the search for gaits; designs are points x (n,) of the unit box.

    objectives  functions of orbits by name
    limited     functions of orbits by name, whose bounds are `limits`
    bounds      least and most of each free parameter, in its shape
    passes      how often the start passes its section between its ends
    """

    shooting: Shooting
    objectives: dict[str, Objective]
    limited: dict[str, Objective]
    limits: dict[str, tuple[float, float]]
    bounds: dict[str, tuple[Array, Array]]
    passes: int
    dependent: Callable[..., Mapping[str, Any]] | None
    tolerance: float
    tries: int

    @property
    def flat(self) -> tuple[Array, Array, Array]:
        """Least and most of all free entries in a row, and which of them vary."""
        least, most = (np.concatenate([x[k].ravel() for x in self.bounds.values()]) for k in (0, 1))
        return least, most, least < most

    @property
    def definition(self) -> dict[str, Any]:
        """The settings that must agree between a store and a call that continues it."""
        return {
            "system": self.shooting.system.name,
            "free": {name: [x.tolist() for x in bounds] for name, bounds in self.bounds.items()},
            "objectives": list(self.objectives),
            "limits": {name: [str(x) for x in bounds] for name, bounds in self.limits.items()},
        }

    def values(self, x: Array, base: Array) -> dict[str, Any]:
        """Free parameters by name at a point; base: values of all entries, of which some do not vary."""
        least, most, varied = self.flat
        flat = base.copy()
        flat[varied] = least[varied] + x * (most - least)[varied]
        values = {}
        first = 0
        for name, (low, _) in self.bounds.items():
            values[name] = flat[first : first + low.size].reshape(low.shape)[()]
            first += low.size
        return values

    def point_of(self, values: Mapping[str, Any]) -> Array:
        """The point of the unit box with these values, (n,)."""
        least, most, varied = self.flat
        flat = np.concatenate([np.ravel(values[name]) for name in self.bounds])
        return ((flat - least)[varied]) / (most - least)[varied]

    def _checked_parameters(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Free parameters, and those that follow from them. GaitError for values that no robot can have."""
        parameters = dict(values)
        # in an ensemble the values of one design would stop all others
        try:
            if self.dependent is not None:
                parameters |= self.dependent(dict(values))
            self.shooting.system.parameters.values(parameters, ())
        except LiebodyError as error:
            raise GaitError(f"no robot has such parameters: {error}") from error
        return parameters

    def follow(
        self, at: Point, start: Mapping[str, Any], end: Mapping[str, Any]
    ) -> Search[tuple[Point, Shot]]:
        """The orbit at other values of the free parameters, followed from a known one at `start`.

        First at once; where Newton's method fails, over half of the way, and over half of that.
        """
        done = 0.0
        step = 1.0
        shot: Shot | None = None
        while shot is None or done < 1.0:
            share = min(1.0, done + step)
            # the end itself, so that the result does not depend on the steps
            values = end if share == 1.0 else {k: x + share * (end[k] - x) for k, x in start.items()}
            try:
                trial = replace(at, parameters={**at.parameters, **self._checked_parameters(values)})
                trial = replace(trial, period=self.shooting.period_of(trial))
                found, equations, _ = yield from self.shooting.newton(trial, self.tolerance, self.tries)
                self._check_returns(equations)
            except GaitError:
                step /= 2
                if step < 2.0**-HALVINGS:
                    raise
                continue
            at = found
            shot = equations
            done = share
        return at, shot

    def _check_returns(self, shot: Shot) -> None:
        """Refuse orbits that pass the section more often, or less often, than the start does.

        A period that becomes much shorter is not seen: returns within half of the guess do not count.
        """
        passes = _passes(self.shooting, shot)
        if passes != self.passes:
            raise GaitError(
                f"its orbit passes the section {passes} times on the way, the start's {self.passes}"
            )

    def evaluated(
        self, values: dict[str, Any], found: tuple[Point, Shot] | GaitError, generation: int,
        parent: int | None,
    ) -> Design:  # fmt: skip
        """The design with these values, from the orbit that was found, or from the error."""
        objectives: dict[str, float] = {}
        limited: dict[str, float] = {}
        place = (values, generation, parent)
        if isinstance(found, GaitError):
            return Design(*place, {}, {}, np.inf, str(found), self.shooting, None)
        orbit = PeriodicOrbit(self.shooting, *found)
        for numbers, functions in ((limited, self.limited), (objectives, self.objectives)):
            for name, function in functions.items():
                # a motion of the user's function may end early, too
                try:
                    numbers[name] = number(name, function(orbit), finite=False)
                except IntegrationError as error:
                    failure = f"{name} cannot be computed: {error}"
                    return Design(*place, {}, {}, np.inf, failure, self.shooting, None)
                if not np.isfinite(numbers[name]):
                    failure = f"{name} is {numbers[name]} for its gait"
                    return Design(*place, {}, {}, np.inf, failure, self.shooting, None)
        beyond = sum(_excess(limited[name], *bounds) for name, bounds in self.limits.items())
        return Design(*place, objectives, limited, beyond, "", self.shooting, *found)


def _excess(value: float, least: float, most: float) -> float:
    """By how much a value is out of its bounds, over the size of the bound that it exceeds."""
    if least <= value <= most:
        return 0.0
    bound = least if value < least else most
    return abs(value - bound) / (abs(bound) or 1.0)


class _Search:
    """The state of a search: all designs, the parents with their steps, the random numbers."""

    def __init__(
        self, problem: _Problem, designs: Designs, pool: list[tuple[int, Mutation]], generation: int,
        rng: np.random.Generator,
    ) -> None:  # fmt: skip
        self.problem = problem
        self.designs = designs
        self.pool = pool  # places of the parents in designs.tried, the best first, and their steps
        self.generation = generation
        self.rng = rng

    @classmethod
    def begun(cls, problem: _Problem, orbits: list[PeriodicOrbit], spread: float, seed: int) -> _Search:
        """The starts are the first parents, all with the same steps."""
        shooting = problem.shooting
        least, most, varied = problem.flat
        starts = []
        for orbit in orbits:
            values = {name: _value(orbit, name) for name in problem.bounds}
            flat = np.concatenate([np.ravel(x) for x in values.values()])
            if not ((flat >= least) & (flat <= most))[varied].all():
                raise ConfigurationError(
                    f"the start has {values}, which is not within the bounds of free; widen them, or start "
                    "from orbit.with_parameters(...)"
                )
            starts.append(values)
        # dependent parameters may differ from those of the start
        searches = [
            problem.follow(orbit.point, values, values) for orbit, values in zip(orbits, starts, strict=True)
        ]
        tried = []
        for values, found in zip(starts, shooting.solve_several(searches), strict=True):
            if isinstance(found, GaitError):
                raise GaitError(f"the start is no orbit with its dependent parameters: {found}")
            tried.append(problem.evaluated(values, found, 0, None))
            if tried[-1].failure:
                raise GaitError(f"the start has no objectives: {tried[-1].failure}")
        designs = Designs(tried, problem.bounds, tuple(problem.objectives), problem.limits)
        steps = Mutation.round(int(np.count_nonzero(varied)), spread)
        return cls(problem, designs, [(i, steps) for i in range(len(tried))], 0, np.random.default_rng(seed))

    def step(self, population: int, survivors: int) -> None:
        """One generation: children of all parents, their gaits, and the survivors among both."""
        problem = self.problem
        tried = self.designs.tried
        # 1. children: parents take turns
        which = [k % len(self.pool) for k in range(population)]
        starts: list[dict[str, Any]] = []
        ends: list[dict[str, Any]] = []
        points: list[tuple[Array, Array]] = []
        known_designs = {_key(x.values) for x in tried}
        for k in which:
            parent, steps = self.pool[k]
            values = tried[parent].values
            flat = np.concatenate([np.ravel(values[name]) for name in problem.bounds]).astype(float)
            point = problem.point_of(values)
            # at the bounds the same design is drawn again and again: it is drawn anew a few times
            for _ in range(DRAWS):
                child = steps.child(point, self.rng)
                end = problem.values(child, flat)
                if _key(end) not in known_designs:
                    break
            known_designs.add(_key(end))
            points.append((point, child))
            starts.append(values)
            ends.append(end)
        # 2. their gaits, all searched for in step, and what they are worth
        searches = []
        for k, start, end in zip(which, starts, ends, strict=True):
            at = tried[self.pool[k][0]].point
            assert at is not None
            searches.append(problem.follow(at, start, end))
        found = problem.shooting.solve_several(searches)
        children = [
            problem.evaluated(values, result, self.generation + 1, self.pool[k][0])
            for k, values, result in zip(which, ends, found, strict=True)
        ]
        # 3. parents and children in one order; a parent is first among equals
        first = len(tried)
        tried.extend(children)
        candidates = [place for place, _ in self.pool] + list(range(first, len(tried)))
        rank = np.empty(len(candidates), int)
        rank[_order([tried[i] for i in candidates])] = np.arange(len(candidates))
        # 4. steps adapt: their size by the share of better children, their shape by steps that led to those,
        #    and by steps beyond limits; both belong to a parent, and to each child by its own step
        better = rank[len(self.pool) :] < rank[which]
        judged = []
        for k, (place, steps) in enumerate(self.pool):
            own = [i for i in range(population) if which[i] == k]
            refused = [self._refused(tried[place], children[i]) for i in own]
            counted = [i for i, limits in zip(own, refused, strict=True) if not limits]
            if counted:
                steps = steps.judged(float(better[counted].mean()), len(counted))
            for i, limits in zip(own, refused, strict=True):
                if limits:
                    steps = steps.narrowed((points[i][1] - points[i][0]) / self.pool[k][1].size, limits)
            judged.append(steps)
        learnt = [
            judged[k].learnt((child - point) / self.pool[k][1].size)
            for k, (point, child) in zip(which, points, strict=True)
        ]
        steps_of = [*judged, *learnt]
        # 5. the first ones survive; only those with a gait can have children
        alive = [i for i in np.argsort(rank) if not tried[candidates[i]].failure]
        self.pool = [(candidates[i], steps_of[i]) for i in alive[:survivors]]
        self.generation += 1

    def _refused(self, parent: Design, child: Design) -> list[str]:
        """The limits beyond which a child of a feasible parent lies: having a gait is one, too."""
        if not parent.feasible or child.feasible:
            return []
        if child.failure:
            return [NO_GAIT]
        limits = self.problem.limits
        return [name for name, x in child.limited.items() if _excess(x, *limits[name]) > 0]

    # -- the store ------------------------------------------------------------------------------------------

    def write(self, path: Path, definition: Mapping[str, Any]) -> None:
        """Write the whole search."""
        pool = [{"design": place, **steps.as_lists()} for place, steps in self.pool]
        state = {"definition": definition, "generation": self.generation, "pool": pool}
        write_designs(path, self.designs, {**state, "random": self.rng.bit_generator.state})

    @classmethod
    def continued(cls, problem: _Problem, path: Path, definition: Mapping[str, Any]) -> _Search:
        """The search that a file holds."""
        designs, state = read_designs(path, problem.shooting)
        kept = state.get("definition")
        if kept is None:
            raise ConfigurationError(f"{path} was written by `save`, and holds no search; give another store")
        different = [name for name, x in definition.items() if kept.get(name) != x]
        if different:
            name = different[0]
            raise ConfigurationError(
                f"{path} holds another search: {name} was {kept.get(name)}, and is {definition[name]}; give "
                "the same, or another store"
            )
        # functions have no definition that could be compared: the start has to give the same numbers
        first = designs.tried[0]
        again = problem.evaluated(first.values, (first.orbit.point, first.orbit.shot), 0, None)
        for name, x in {**first.objectives, **first.limited}.items():
            y = {**again.objectives, **again.limited}.get(name, np.nan)
            if not abs(y - x) <= SAME * max(abs(x), abs(y)):
                raise ConfigurationError(
                    f"{path} holds another search: {name} of its start was {x:.9g}, and is {y:.9g} now; give "
                    "another store"
                )
        pool = [(row.pop("design"), Mutation.of_lists(row)) for row in state["pool"]]
        rng = np.random.default_rng()
        rng.bit_generator.state = state["random"]
        return cls(problem, designs, pool, state["generation"], rng)


def _order(designs: Sequence[Design]) -> Array:
    m = max(len(x.objectives) for x in designs)
    values = [list(x.objectives.values()) or [np.inf] * m for x in designs]
    return order(np.array(values), np.array([x.beyond for x in designs]))


def _key(values: Mapping[str, Any]) -> tuple[float, ...]:
    """Values of free parameters, to be found in a set."""
    return tuple(np.concatenate([np.ravel(x) for x in values.values()]).tolist())


def _value(orbit: PeriodicOrbit, name: str) -> Array:
    """The value of a parameter of an orbit."""
    default = orbit.system.parameters.defaults[name]
    return np.array(orbit.parameters.get(name, default), float).reshape(default.shape)[()]


def _problem(
    start: list[PeriodicOrbit], free: Mapping[str, Any], objectives: Any, limits: Mapping[str, Any] | None,
    dependent: Any, tolerance: float, tries: int,
) -> _Problem:  # fmt: skip
    """The arguments of `design`, checked."""
    if not start or not all(isinstance(x, PeriodicOrbit) for x in start):
        raise ConfigurationError("start is no orbit, or a list without any; `periodic_orbit` finds one")
    shooting = start[0].shooting
    for other in start[1:]:
        same = other.system is shooting.system and other.shooting.section == shooting.section
        same = same and len(other.point.q) == shooting.segments
        if not same or not np.array_equal(other.shooting.symmetries, shooting.symmetries):
            raise ConfigurationError(
                "the starts are orbits of different systems, sections, symmetries or numbers of segments; "
                "search for a design from each by itself"
            )
    if not free:
        raise ConfigurationError("free is empty; name parameters with their bounds, {name: (least, most)}")
    system = shooting.system
    system.parameters.check(dict.fromkeys(free))
    both = [name for name in free if name in shooting.unknowns]
    if both:
        raise ConfigurationError(f"{', '.join(both)}: unknown parameters of the orbit, which cannot be free")
    bounds = {
        name: _bounds(name, given, system.parameters.defaults[name].shape) for name, given in free.items()
    }
    if not any((low < high).any() for low, high in bounds.values()):
        raise ConfigurationError("all bounds of free are equal; give (least, most) with least < most")
    functions = dict(objectives) if isinstance(objectives, Mapping) else {_name(objectives): objectives}
    if not functions:
        raise ConfigurationError("objectives is empty; give a function of an orbit, or {name: function}")
    limited = {}
    ranges = {}
    for name, given in (limits or {}).items():
        if not isinstance(given, tuple | list) or len(given) != 3:
            raise ConfigurationError(f"limits of {name} are {given!r}, expected (function, least, most)")
        limited[name] = given[0]
        least, most = (
            sign * np.inf if x is None else number(f"limit of {name}", x)
            for x, sign in zip(given[1:], (-1, 1), strict=True)
        )
        if not least <= most:
            raise ConfigurationError(f"limits of {name} are {given[1:]!r}, expected (least, most)")
        ranges[name] = (least, most)
    taken = [*free, *functions, *limited]
    for name, function in {**functions, **limited}.items():
        if not callable(function):
            raise ConfigurationError(f"{name} is {function!r}, expected a function of an orbit")
        if taken.count(name) > 1 or name in ("generation", "beyond", "failure"):
            raise ConfigurationError(
                f"{name} names two things; give each of free, objectives, limits its own name"
            )
    return _Problem(
        shooting, functions, limited, ranges, bounds, _passes(shooting, start[0].shot), dependent,
        positive("tolerance", tolerance), tries,
    )  # fmt: skip


def _passes(shooting: Shooting, shot: Shot) -> int:
    return sum(shooting.at_section(*event) for arc in shot.arcs for event in arc.end.events)


def _name(function: Any) -> str:
    """The name of the only objective."""
    name = getattr(function, "__name__", "objective")
    return "objective" if name == "<lambda>" else str(name)


def _bounds(name: str, given: Any, shape: tuple[int, ...]) -> tuple[Array, Array]:
    """Least and most of a parameter, in its shape."""
    if not isinstance(given, tuple | list | np.ndarray) or len(given) != 2:
        raise ShapeError(f"bounds of {name} are {given!r}, expected (least, most)")
    try:
        least, most = (np.broadcast_to(floats(f"bounds of {name}", x), shape).copy() for x in given)
    except ValueError as error:
        if isinstance(error, ConfigurationError):
            raise
        raise ShapeError(f"bounds of {name} are {given!r}, expected numbers or arrays {shape}") from None
    if not (least <= most).all():
        raise ConfigurationError(f"bounds of {name} are {given!r}, expected (least, most)")
    return least, most
