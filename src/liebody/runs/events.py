"""The events of a simulation: a log for each member, and its variables in files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from ..base.errors import LiebodyError, counted
from ..base.texts import shown
from .variables import axes_of, named_in, texts_in


@dataclass(frozen=True, repr=False)
class EventLog:
    """The events of one member, in their order: times, guards, directions of the change, states after.

    lost   how many later events were not kept (of all guards, also in a log that `of` returns)
    names  the names of all guards, also of guards without events; None: not known
    """

    t: np.ndarray
    guard: tuple[str, ...]
    direction: np.ndarray
    q: np.ndarray
    v: np.ndarray
    memory: dict[str, np.ndarray]
    lost: int = 0
    names: tuple[str, ...] | None = None

    @classmethod
    def of_members(cls, members: Any, names: Sequence[str], read: Callable[..., Any]) -> list[EventLog]:
        """The log of each member of an `Ensemble`; `read` gives q, v and memory of times and states."""
        # The entries of all members are read at once, because `read` may call a compiled function. An entry
        # is (time, signed number of the guard from 1, state).
        entries = np.concatenate([*members.log, np.zeros((0, 2 + members.y.shape[1]))])
        t = entries[:, 0]
        signs = entries[:, 1].astype(int)
        guard = [names[abs(k) - 1] for k in signs.tolist()]
        q, v, memory = read(t, entries[:, 2:])
        ends = np.cumsum([0, *map(len, members.log)]).tolist()
        logs = []
        for (first, end), count in zip(pairwise(ends), members.counts[:, 0].tolist(), strict=True):
            rows = slice(first, end)
            logs.append(
                cls(
                    t[rows],
                    tuple(guard[rows]),
                    np.sign(signs[rows]),
                    q[rows],
                    v[rows],
                    {name: x[rows] for name, x in memory.items()},
                    count - (end - first),
                    tuple(names),
                )
            )
        return logs

    def __len__(self) -> int:
        return len(self.t)

    def __repr__(self) -> str:
        kinds = "".join(f", {number} {shown(name)}" for name, number in Counter(self.guard).items())
        until = f" to t = {self.t[-1]:g} s" if len(self) else ""
        lost = f"; {self.lost} more were not kept" if self.lost else ""
        return f"EventLog({counted(len(self), 'event')}{until}{kinds}{lost})"

    def of(self, guard: str, direction: int = 0) -> EventLog:
        """The events of one guard, in one direction (+1, -1), or in both (0).

        Raises LiebodyError for a name that no guard has.
        """
        if self.names is not None and guard not in self.names:
            raise LiebodyError(f"there is no event {guard!r}; there are {', '.join(self.names) or 'none'}")
        # If the names of all guards are not known, a guard may have had no events.
        keep = np.array([name == guard for name in self.guard], bool)
        return self.where(keep & ((direction == 0) | (self.direction == direction)))

    def where(self, keep: Any) -> EventLog:
        """Some of the events: a mask, indices, or a slice."""
        of_each = {name: getattr(self, name)[keep] for name in ("t", "direction", "q", "v")}
        guard = tuple(np.array(self.guard, dtype=object)[keep])
        return replace(self, guard=guard, memory={k: x[keep] for k, x in self.memory.items()}, **of_each)


def event_variables(events: Any, batch: tuple[int, ...]) -> dict[str, Any]:
    """The variables of an event log, or of one for each member, along one dimension "event"."""
    # Members have different numbers of events, so their logs stand one after the other, and a variable says
    # of which member each event is.
    logs = [events] if isinstance(events, EventLog) else list(events)
    counts = [len(log) for log in logs]
    along_events = {
        "member": (np.repeat(np.arange(len(logs)), counts), "place of the member in the flat batch"),
        "time": (np.concatenate([log.t for log in logs]), "time of the event"),
        "guard": (np.array([name for log in logs for name in log.guard], object), "what changed its sign"),
        "direction": (np.concatenate([log.direction for log in logs]).astype(int), "of that change"),
        "q": (np.concatenate([log.q for log in logs]), "coordinates after it"),
        "v": (np.concatenate([log.v for log in logs]), "velocities after it"),
    }
    for name in logs[0].memory:
        memory = np.concatenate([log.memory[name] for log in logs])
        along_events[f"memory_{name}"] = memory, f"{name} after it"
    # States share the dimensions of the run; memory has its own.
    ends = {"q": ("coordinate",), "v": ("dof",)}
    variables: dict[str, Any] = {}
    for name, (values, meaning) in along_events.items():
        axes = ends.get(name, tuple(f"event_{name}_{i}" for i in range(values.ndim - 1)))
        variables[f"event_{name}"] = ("event", *axes), values, {"long_name": meaning}
    lost = np.reshape([log.lost for log in logs], batch)
    variables["events_lost"] = axes_of(batch), lost, {"long_name": "how many later events were not kept"}
    if logs[0].names:
        names = np.array(logs[0].names, object)
        variables["guard"] = ("guard",), names, {"long_name": "name of what may change its sign"}
    return variables


def events_of(variables: Mapping[str, np.ndarray], batch: tuple[int, ...]) -> Any:
    """The event log in the variables of a file, or one for each member; None if the run looked for none."""
    if "event_time" not in variables:
        return None
    memory = named_in(variables, "event_memory_")
    names = texts_in(variables, "guard") if "guard" in variables else None
    logs = []
    # Members without events have no rows, so the counts of lost events say how many members there are.
    for i, lost in enumerate(variables["events_lost"].ravel()):
        rows = variables["event_member"] == i
        t, direction, q, v = (variables[f"event_{name}"][rows] for name in ("time", "direction", "q", "v"))
        guard = tuple(variables["event_guard"][rows])
        of_member = {name: x[rows] for name, x in memory.items()}
        logs.append(EventLog(t, guard, direction, q, v, of_member, int(lost), names))
    return logs if batch else logs[0]
