"""Runs whose states stay on a CUDA device, and the events in them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..base.errors import LiebodyError


def columns(array: Any, first: int, shape: tuple[int, ...]) -> Any:
    """Columns of an array (..., size) of any library, from `first` on, as (..., *shape)."""
    size = int(np.prod(shape))
    rows = (slice(None),) * (len(array.shape) - 1)
    if not shape:
        return array[(*rows, first)]
    part = array[(*rows, slice(first, first + size))]
    return part if len(shape) == 1 else part.reshape((*array.shape[:-1], *shape))


@dataclass(frozen=True, repr=False)
class DeviceEvents:
    """The events of the members of an ensemble, as arrays of a device; each member has room for `room`.

    names  of the guards
    t      times (..., room), NaN behind the last event                                                  [s]
    guard  (..., room): 1 + the number of the guard in `names`, negative for changes downwards; NaN behind
    q, v   states after the events, (..., room, nq) and (..., room, nv); of any other memory `memory`
    count  (...): how many events there were, also those that found no room, as numbers

    t and guard are float64, also in motions in float32, and so are q and v.
    """

    names: tuple[str, ...]
    t: Any
    guard: Any
    q: Any
    v: Any
    memory: Mapping[str, Any]
    count: Any
    copied: Callable[[], Any]

    @property
    def room(self) -> int:
        """How many events of each member are kept at most."""
        return int(self.t.shape[-1])

    def to_cpu(self) -> Any:
        """The `EventLog`, of an ensemble a list; `lost` of each says how many events found no room.

        It waits for the device, and copies the events.
        """
        return self.copied()

    def __repr__(self) -> str:
        shape = ", ".join(map(str, self.t.shape[:-1]))
        return f"DeviceEvents({', '.join(self.names)}; members ({shape}), room for {self.room} of each)"


@dataclass(frozen=True, repr=False)
class DeviceRun:
    """A run whose states stay on a CUDA device, as arrays of the library that the start came from.

    t         times of the record (rows,), of NumPy                                                      [s]
    q, v      arrays of the device, (..., rows, nq) and (..., rows, nv); NaN from where a member is lost, and
              after its end
    memory    of hybrid systems: parts of the memory by name, (..., rows, *shape), on the device
    events    `DeviceEvents`; None without guards
    ends      (...), of NumPy: why a member ended early, "" where it did not
    end_times (...), of NumPy: when it ended                                                             [s]
    counts    (..., 3), of NumPy: events, events that were not located, steps; None for steps of one length
    metadata  model, method and options

    Slices are those of the library, such as views of PyTorch's. `to_cpu` makes the run that `simulate`
    without `device` returns, with energies, plots and files.
    """

    t: np.ndarray
    q: Any
    v: Any
    ends: np.ndarray
    end_times: np.ndarray
    metadata: dict[str, Any]
    copied: Callable[[], Any]
    memory: Mapping[str, Any] = field(default_factory=dict)
    events: DeviceEvents | None = None
    counts: np.ndarray | None = None

    def to_cpu(self) -> Any:
        """The run of these states on the CPU: a `Run`, or of a hybrid system a `HybridRun`.

        States and events are copied. Energies, efforts, outputs and work are computed on the CPU when they
        are asked for; work of efforts takes a second simulation there, as in every run.
        """
        return self.copied()

    def __reduce__(self) -> Any:
        raise LiebodyError("a run on a device cannot be pickled; pickle run.to_cpu()")

    def __repr__(self) -> str:
        ended = np.count_nonzero(self.ends != "")
        early = f", {ended} ended early" if ended else ""
        shape = ", ".join(map(str, self.q.shape[:-2]))
        return (
            f"DeviceRun({self.metadata['model']}, {self.metadata['method']}: members ({shape}), "
            f"{len(self.t)} states to t = {self.t[-1]:g} s{early})"
        )
