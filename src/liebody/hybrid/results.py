"""From the members of a finished march to the result of a hybrid simulation."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ..base.concurrency import cached_property
from ..base.errors import warn
from ..runs import EventLog, HybridRun, HybridStates
from ..scalars import Array
from ..stepping import Samples
from ..stepping.march import REASONS, Ensemble
from .equations import HybridEquations


class LostEvents(UserWarning):
    """Members had more events than were to be kept; the later ones are counted only."""


def hybrid_run(
    system: HybridEquations,
    members: Ensemble,
    batch: tuple[int, ...],
    t: Array,
    u: Samples,
    metadata: dict[str, Any],
) -> HybridRun:
    """The result of members that have marched to the times t (rows,), or have ended before.

    u  the parameters of each member over time
    """
    # of sampled parameters a run has the first values
    p = u.table[:, 0, : system.parameters.size].reshape(*batch, -1)
    # a member with a reason (a code above zero) has ended at its own time, the others at t_end
    end_times = np.where(members.ends[:, 1] > 0, members.ends[:, 0], t[-1])
    times = np.broadcast_to(t, members.record.shape[:2])
    samples = hybrid_states(system, times, members.record, u.along(times), batch, u.kept)
    final = hybrid_states(system, end_times, members.y, u.along(end_times[:, None])[:, 0], batch, u.kept)

    logs = event_logs(system, members)
    return HybridRun(
        **system.described(samples),
        metadata=metadata,
        t=t,
        q=samples.q,
        v=samples.v,
        memory=samples.memory,
        work=samples.work,
        outputs=samples.outputs,
        final=final,
        parameters=system.parameters.named(p),
        events=logs[0] if not batch else logs,
        counts=members.counts[:, :3].reshape(*batch, 3),
        end_times=final.t,
        ends=np.array([REASONS[int(k)] for k in members.ends[:, 1]]).reshape(batch),
    )


def event_logs(system: HybridEquations, members: Ensemble) -> list[EventLog]:
    """The log of each member."""

    # the log has flat states of each event, and asks for their parts
    def read(t: Array, y: Array) -> tuple[Array, Array, dict[str, Array]]:
        _, q, v, z, _ = system.read_flat(t, y, np.zeros(system.parameters.size))
        return q, v, dict(zip(z._fields, z, strict=True))

    return EventLog.of_members(members, system.guard_names, read)


def hybrid_states(
    system: HybridEquations, t: Array, y: Array, u: Array, batch: tuple[int, ...], kept: tuple[Any, ...] = ()
) -> HybridStates:
    """Named parts and signals of the states y (n, ..., size) at times t (n, ...), for an ensemble `batch`.

    kept  tables whose addresses are in u; they live until the signals are known
    """

    def shaped(x: Array) -> Array:
        return np.reshape(x, (*batch, *np.shape(x)[1:]))

    # Memory, works and signals are float64 also of states in float32.
    _, q, v, *_ = system.read_flat(t, shaped(y), np.zeros(system.parameters.size))
    y = np.asarray(y, float)
    z = system.read_flat(t, shaped(y), np.zeros(system.parameters.size))[3]
    signals: Mapping[str, Array] = {}
    if (kernel := system.output_kernel) is not None:
        names = list(kernel.function.outputs)

        # deferred: t, y and u are kept until a signal is asked for
        def compute() -> dict[str, Array]:
            values = kernel(t, y, u)
            values = values if len(names) > 1 else (values,)  # a kernel returns a single output as an array
            return {name: shaped(x) for name, x in zip(names, values, strict=True)}

        signals = Signals(names, compute, kept)
    first = y.shape[-1] - len(system.power_names)  # the works are the last entries of y
    return HybridStates(
        t=shaped(t),
        q=q,
        v=v,
        memory=dict(zip(z._fields, z, strict=True)),
        work={name: shaped(y[..., first + k]) for k, name in enumerate(system.power_names)},
        outputs=signals,
    )


def warn_of_lost_events(happened: Array, kept: Any, most: int) -> None:
    """Warn if a member had more events than the `most` that its log keeps; happened, kept: (n,)."""
    lost = happened - kept
    short = np.flatnonzero(lost)
    if len(short):
        which = f" of {len(short)} of {len(lost)} members" if len(lost) > 1 else ""
        warn(
            f"{lost.sum()} of {happened[short].sum()} events{which} were not kept, but the first "
            f"{most} of each. Give most_events={happened.max()} or more to keep all, or "
            "most_events=0 if none are needed",
            LostEvents,
        )


class Signals(Mapping[str, Array]):
    """Signals by name, computed at the first access: most runs of a search need none of them."""

    def __init__(
        self, names: Sequence[str], compute: Callable[[], dict[str, Array]], kept: tuple[Any, ...] = ()
    ) -> None:
        self._names = tuple(names)
        self._compute = compute
        self._kept = kept

    @cached_property
    def _values(self) -> dict[str, Array]:
        return self._compute()

    def __getitem__(self, name: str) -> Array:
        return self._values[name]

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled as a dictionary, because other processes do not have the kernel of the values."""
        return dict, (self._values,)
