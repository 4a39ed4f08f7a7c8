"""Designs that were tried: values of free parameters, their gaits, objectives and limits; and their files."""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..base.concurrency import cached_property
from ..base.digests import CHANGED, LENGTH, is_sealed, seal, write
from ..base.errors import ConfigurationError, LiebodyError, ModelError, known, pass_on_signals
from ..base.texts import path_of
from .evolution import fronts
from .orbit import PeriodicOrbit
from .segments import Array, GaitError, Point
from .shooting import Shooting, Shot

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FORMAT = "liebody designs 1"


@dataclass(frozen=True, eq=False)
class Design:
    """Values of free parameters, and the gait of the robot that has them.

    values      of the free parameters, by name
    generation  in which it was tried; 0: a start
    parent      place of its parent in `Designs.tried`; None: a start
    objectives  by name; empty where there is no gait
    limited     values of the limited numbers, by name
    beyond      by how much limits are exceeded; see `design`. Zero: none is
    failure     why there is no gait; "" where there is one
    """

    values: dict[str, Any]
    generation: int
    parent: int | None
    objectives: dict[str, float]
    limited: dict[str, float]
    beyond: float
    failure: str
    shooting: Shooting
    point: Point | None
    shot: Shot | None = None

    @property
    def feasible(self) -> bool:
        """Whether it has a gait, which keeps all limits."""
        return not self.failure and self.beyond <= 0

    @cached_property
    def orbit(self) -> PeriodicOrbit:
        """Its gait. Errors: GaitError where it has none."""
        if self.point is None:
            raise GaitError(f"this design has no gait: {self.failure}")
        shot = self.shooting.shoot(self.point) if self.shot is None else self.shot
        return PeriodicOrbit(self.shooting, self.point, shot)

    def __repr__(self) -> str:
        shown = [f"{name} {np.array2string(np.asarray(x), precision=6)}" for name, x in self.values.items()]
        if self.failure:
            return f"Design({', '.join(shown)}: {self.failure})"
        numbers = {**self.objectives, **self.limited}
        shown += [f"{name} = {x:.6g}" for name, x in numbers.items()]
        return f"Design({', '.join(shown)}{'' if self.feasible else '; beyond limits'})"


@dataclass(frozen=True, eq=False)
class Designs:
    """All designs that were tried, in their order, the starts first.

    free        {name: (least, most)} of the free parameters
    objectives  their names
    limits      {name: (least, most)} of the limited numbers, infinite where there is none
    """

    tried: list[Design]
    free: dict[str, tuple[Array, Array]]
    objectives: tuple[str, ...]
    limits: dict[str, tuple[float, float]]

    @property
    def feasible(self) -> list[Design]:
        """Those whose gaits keep all limits."""
        return [x for x in self.tried if x.feasible]

    @property
    def failed(self) -> list[Design]:
        """Those without a gait; `failure` says why."""
        return [x for x in self.tried if x.failure]

    @property
    def front(self) -> list[Design]:
        """The Pareto front, by the first objective: no design is as good in all of them and better in one."""
        feasible = self.feasible
        if not feasible:
            return []
        values = self._values(feasible)
        chosen = [feasible[i] for i in fronts(values)[0]]
        unique = {tuple(x.objectives.values()): x for x in reversed(chosen)}
        return sorted(unique.values(), key=lambda x: tuple(x.objectives.values()))

    @property
    def best(self) -> Design:
        """The feasible design with the least value of the only objective; `least` and `front` have several.

        Errors: GaitError where no design keeps the limits.
        """
        if len(self.objectives) > 1:
            names = ", ".join(self.objectives)
            raise ConfigurationError(f"there are several objectives, {names}: use front, or least(name)")
        return self.least(self.objectives[0])

    def least(self, objective: str) -> Design:
        """The feasible design with the least value of one objective.

        Errors: GaitError where no design keeps the limits.
        """
        if objective not in self.objectives:
            raise ModelError(f"there is no objective {objective!r}; {known(self.objectives, objective)}")
        if not self.feasible:
            nearest = min((x for x in self.tried if not x.failure), key=lambda x: x.beyond)
            raise GaitError(
                f"none of {len(self.tried)} designs keeps the limits; the nearest is {nearest}. Let more "
                "parameters be free, give wider bounds, or more generations"
            )
        return min(self.feasible, key=lambda x: x.objectives[objective])

    @property
    def table(self) -> dict[str, Array]:
        """A column for each number, (n, ...), by name; NaN where there is no gait. Failures are texts."""
        n = len(self.tried)
        columns: dict[str, Array] = {"generation": np.array([x.generation for x in self.tried])}
        for name in self.free:
            columns[name] = np.array([x.values[name] for x in self.tried])
        for kind in ("objectives", "limited"):
            for name in self.objectives if kind == "objectives" else self.limits:
                columns[name] = np.array([getattr(x, kind).get(name, np.nan) for x in self.tried])
        columns["beyond"] = np.array([x.beyond for x in self.tried])
        columns["failure"] = np.array([x.failure for x in self.tried], dtype=object).reshape(n)
        return columns

    def _values(self, designs: Sequence[Design]) -> Array:
        return np.array([[x.objectives[name] for name in self.objectives] for x in designs])

    def __repr__(self) -> str:
        n = len(self.tried)
        if not self.feasible:
            ends = "none keeps the limits"
        elif len(self.objectives) == 1:
            name = self.objectives[0]
            first, least = (x.objectives[name] for x in (self.tried[0], self.best))
            ends = f"least {name} {least:.6g}, {first:.6g} at first"
        else:
            ends = f"{len(self.front)} on the front of {', '.join(self.objectives)}"
        return f"Designs({n} tried, {len(self.failed)} without a gait; {ends})"

    def plot(self, path: str | os.PathLike[str] | None = None) -> Figure:
        """Draw two objectives with their front, or one objective over the designs in their order.

        path  file to write, its suffix says how: .png, .pdf, .svg
        """
        from .pictures import designs

        return designs(self, path)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write all designs to a file, as text (JSON) with a digest. `load` reads it."""
        write_designs(path, self, {})

    @classmethod
    def load(cls, path: str | os.PathLike[str], start: PeriodicOrbit) -> Designs:
        """Read a file of `save`, or of the option `store` of `design`.

        start  an orbit of the same system, with the same section and symmetries. The file has states at the
               section; each gait is simulated when it is first asked for

        Errors: LiebodyError for a file that is damaged, or no file of designs.
        """
        return read_designs(path, start.shooting)[0]


# -- files --------------------------------------------------------------------------------------------------


def write_designs(path: str | os.PathLike[str], designs: Designs, search: Mapping[str, Any]) -> None:
    """Write designs, and the state of their search, as a whole or not at all."""
    target = path_of("path", path)
    content = {
        "format": FORMAT,
        "free": {name: [x.tolist() for x in bounds] for name, bounds in designs.free.items()},
        "objectives": designs.objectives,
        "limits": {name: [_number(x) for x in bounds] for name, bounds in designs.limits.items()},
        "tried": [_row(x) for x in designs.tried],
        "search": search,
    }
    text = json.dumps(content, allow_nan=False, indent=1).encode()
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(6)}")
    try:
        write(target, temporary, text, seal(text))
    except OSError as error:
        pass_on_signals(error)
        raise LiebodyError(f"cannot write {target}: {error.strerror or error}") from error


def read_designs(path: str | os.PathLike[str], shooting: Shooting) -> tuple[Designs, dict[str, Any]]:
    """The designs of a file, whose gaits satisfy these equations, and the state of their search."""
    target = path_of("path", path)
    try:
        whole = target.read_bytes()
    except OSError as error:
        pass_on_signals(error)
        raise LiebodyError(f"cannot read {target}: {error.strerror or error}") from error
    if not is_sealed(whole):
        raise LiebodyError(f"{target} {CHANGED}, or no file of designs; find a copy, or search again")
    content = json.loads(whole[:-LENGTH])
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise LiebodyError(f"{target} is no file of the form {FORMAT!r}")
    free = {name: (np.array(low), np.array(high)) for name, (low, high) in content["free"].items()}
    limits = {name: (_bound(low, -1), _bound(high, 1)) for name, (low, high) in content["limits"].items()}
    tried = [_design(row, shooting) for row in content["tried"]]
    return Designs(tried, free, tuple(content["objectives"]), limits), content["search"]


def _number(x: float) -> float | None:
    """A bound as JSON has it: there is no infinity."""
    return float(x) if np.isfinite(x) else None


def _bound(x: float | None, sign: int) -> float:
    return sign * np.inf if x is None else float(x)


def _row(design: Design) -> dict[str, Any]:
    row: dict[str, Any] = {"values": _plain(design.values)}
    row |= {name: getattr(design, name) for name in ("generation", "parent", "objectives", "limited")}
    if design.point is None:
        return {**row, "failure": design.failure}
    at = design.point
    orbit = {"q": at.q, "v": at.v, "period": at.period, "shift": at.shift, "parameters": at.parameters}
    return {**row, "beyond": design.beyond, "orbit": _plain(orbit)}


def _plain(x: Any) -> Any:
    """Dictionaries of arrays and numbers, as JSON has them."""
    return {k: _plain(y) for k, y in x.items()} if isinstance(x, dict) else np.asarray(x).tolist()


def _design(row: Mapping[str, Any], shooting: Shooting) -> Design:
    values = {name: np.asarray(x)[()] for name, x in row["values"].items()}
    shared = {name: row[name] for name in ("generation", "parent", "objectives", "limited")}
    if "orbit" not in row:
        return Design(values, beyond=np.inf, failure=row["failure"], shooting=shooting, point=None, **shared)
    at = row["orbit"]
    parameters = {name: np.asarray(x)[()] for name, x in at["parameters"].items()}
    nodes = [np.array(at[name], float) for name in ("q", "v")]
    shapes = [(shooting.segments, size) for size in (shooting.system.nq, shooting.system.nv)]
    if [x.shape for x in nodes] != shapes or len(at["shift"]) != len(shooting.symmetries):
        raise ConfigurationError(
            f"the file has gaits with states {nodes[0].shape}, {nodes[1].shape} and {len(at['shift'])} "
            f"symmetries, the orbit has {shapes[0]}, {shapes[1]} and {len(shooting.symmetries)}: give one of "
            "the system of the file, with the same segments and symmetries"
        )
    q, v = nodes
    point = Point(q, v, float(at["period"]), np.array(at["shift"], float), parameters)
    return Design(values, beyond=row["beyond"], failure="", shooting=shooting, point=point, **shared)
