"""The result of a simulation of a hybrid system: a Run with memory, works, outputs, and ends of members."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..scalars import Array
from .run import Run
from .variables import OF_PARAMETER, named_in, with_own_axes

SERIES_PREFIXES = {"memory": "memory_", "work": "work_of_", "outputs": "output_"}
"""Fields of a run that hold series by name, with the prefixes of these names in files."""


@dataclass(frozen=True)
class HybridStates:
    """States of a hybrid system with memory, works and outputs, called as in a `HybridRun`."""

    t: Array
    q: Array
    v: Array
    memory: dict[str, Array]
    work: dict[str, Array]
    outputs: Mapping[str, Array]


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class HybridRun(Run, mark="end_time", needs=()):
    """The result of a simulation of a hybrid system, a `Run`; `...` are the axes of the ensemble.

    q, v        as in `Run`; NaN after the end of a member
    memory      for each name, (..., rows, *shape)
    work        for each power, its integral from the start, (..., rows)                                  [J]
    outputs     for each name, (..., rows, *shape)
    final       the HybridStates (...) in which the members ended, at `end_times`; None in a loaded run
    parameters  for each name, (..., *shape); the first sample of a parameter that changes with time
    events      an EventLog, or a list of them for the members in their order
    counts      (..., 3): events, events that were not located, steps
    end_times   (...): when the member ended                                                             [s]
    ends        (...): why a member ended before t_end; "" if it did not

    A `RobotSystem` gives energies, efforts and work_done; other systems have what their outputs say.
    """

    memory: dict[str, Array]
    work: dict[str, Array]
    outputs: Mapping[str, Array]
    final: Any
    parameters: dict[str, Array]
    counts: Array
    end_times: Array
    ends: Array

    def _member(self, index: tuple[int, ...]) -> dict[str, Any]:
        # `final` of a member has the same fields; memory, works and outputs are mappings of arrays.
        final = self.final and HybridStates(
            **{
                name: {k: y[index] for k, y in x.items()} if isinstance(x, Mapping) else x[index]
                for name, x in vars(self.final).items()
            }
        )
        groups = {
            name: {k: x[index] for k, x in getattr(self, name).items()}
            for name in (*SERIES_PREFIXES, "parameters")
        }
        ends = {name: getattr(self, name)[index] for name in ("counts", "end_times", "ends")}
        return {**Run._member(self, index), **groups, **ends, "final": final}

    def _told_ends(self) -> list[str]:
        # Members that ended for the same reason are one line.
        early = Counter(x for x in self.ends.ravel().tolist() if x)
        return [f"  {n} of {self.ends.size} ended before the end: {reason}" for reason, n in early.items()]

    def _variables(self) -> dict[str, Any]:
        # Names of a system may coincide among groups, so each group has its prefix.
        variables = Run._variables(self)
        rows = variables["q"][0][:-1]
        for kind, named in SERIES_PREFIXES.items():
            for name, x in getattr(self, kind).items():
                meaning = {"long_name": f"{kind}: {name}"}
                variables[named + name] = *with_own_axes(named + name, x, rows), meaning
        when = {"units": "s", "long_name": "when the member ended"}
        variables["end_time"] = rows[:-1], np.asarray(self.end_times), when
        variables["end"] = rows[:-1], np.asarray(self.ends).astype(object), {"long_name": "why, if early"}
        meaning = {"long_name": "events, those not located, steps"}
        variables["counts"] = *with_own_axes("counts", self.counts, rows[:-1]), meaning
        return variables

    @classmethod
    def _extras(cls, variables: Mapping[str, Array]) -> dict[str, Any]:
        return {
            **{kind: named_in(variables, prefix) for kind, prefix in SERIES_PREFIXES.items()},
            "parameters": named_in(variables, OF_PARAMETER),
            "final": None,
            "counts": variables["counts"],
            "end_times": variables["end_time"],
            "ends": variables["end"].astype(str),
        }

    def __repr__(self) -> str:
        batch = self.q.shape[:-2]
        early = self.end_times[self.ends != ""]
        samples = f"{len(self.t)} samples to t = {self.t[-1]:g} s"
        if not batch and early.size:
            until = np.count_nonzero(self.t <= self.end_times)
            return f"HybridRun({until} of {samples}; ended at t = {self.end_times:g} s: {self.ends})"
        first = f", the first at t = {early.min():g} s" if early.size else ""
        members = f"{batch} members, {early.size} ended early{first}, " if batch else ""
        return f"HybridRun({members}{samples})"
