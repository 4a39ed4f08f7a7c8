"""Warnings of simulations: lost members, limits that were passed, singular positions, slow efforts."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..base.errors import IntegrationError, warn
from ..mechanisms import Mechanism
from ..mechanisms.constrained import Constrained
from ..runs import Run
from ..scalars import Array
from ..stepping import Drive, Flow
from ..stepping.march import REASONS
from ..stepping.singular import Nearest
from .setup import PUMPING, RobotMechanism, in_degrees


class SingularPosition(UserWarning):
    """Constraints came to depend on each other on the way; there a motion may go on in several ways."""


class DivergedMembers(UserWarning):
    """Some members of an ensemble did not stay finite; the others went on."""


class CalledEfforts(UserWarning):
    """EffortInput by a function that cannot be traced: it is called at every stage, slower."""


class PassedLimits(UserWarning):
    """A motion went beyond limits of its joints, which did not act."""


def report_lost(mechanism: Mechanism, run: Run, batch: tuple[int, ...], drive: Drive) -> None:
    """Raise IntegrationError for a simulation that was lost, warn of members of an ensemble.

    drive  that made the run
    """
    lost = np.flatnonzero(drive.failed).tolist()
    losses = drive.members.ends
    times = drive.members.times
    # An explicit loop knows only that a state is not finite; the diagnosis of the mechanism says why.
    if isinstance(drive.flow, Flow):
        losses[:] = 0
    # The last finite row of each lost member is where its search for a reason starts.
    finite = np.isfinite(run.q).all(axis=-1) & np.isfinite(run.v).all(axis=-1)
    finite = finite.reshape(len(losses), -1)
    q, v = (x.reshape(*finite.shape, x.shape[-1]) for x in (run.q, run.v))
    last = {i: int(np.flatnonzero(finite[i])[-1]) for i in lost}

    def reason_of(i: int) -> str:
        start, end = times[last[i] : last[i] + 2]
        # An implicit step says itself why it cannot be taken.
        if losses[i, 1]:
            return f"the step at t = {losses[i, 0]:.9g} s cannot be taken: {REASONS[int(losses[i, 1])]}"
        why = mechanism.diagnosis(q[i, last[i]], v[i, last[i]], end - start, start)
        drifting = ", or constraints that drift apart" if isinstance(mechanism, Constrained) else ""
        question = in_degrees(mechanism, q[i, 0])
        return why or f"take a smaller step, and {PUMPING}{drifting}{question}"

    if not batch:
        error = IntegrationError(
            f"the state is not finite after t = {times[last[0]]:g} s; {reason_of(0)}; "
            "the attribute `run` of this error holds the states up to there"
        )
        error.run = run  # type: ignore[attr-defined]
        raise error
    named = ", ".join(
        f"{tuple(int(k) for k in np.unravel_index(i, batch))} after {times[last[i]]:g} s"
        for i in list(last)[:5]
    )
    # At most five members are named; if these are all, the message has the reason of the first one.
    warn(
        f"{len(lost)} of {len(losses)} members did not stay finite: {named}"
        + (", ..." if len(lost) > 5 else f"; of the first one: {reason_of(int(lost[0]))}"),
        DivergedMembers,
    )


def note_passed_limits(
    mechanism: Mechanism, times: Array, q: Array, metadata: dict[str, Any], p: Array
) -> None:
    """Warn of joints beyond their limits, where these do not act, and say so in the metadata of the run."""
    assert mechanism.idle_limits is not None
    parameters = np.broadcast_to(p, (*q.shape[:-2], p.shape[-1])) if mechanism.layout.size else None
    passed = mechanism.idle_limits.passed(times, mechanism.limited(q, parameters))
    if not passed:
        return
    metadata["passed_limits"] = ", ".join(f"{name} at {t:.6g} s" for name, t in passed.items())
    is_robot = isinstance(mechanism, RobotMechanism)
    remedy = "joints='real', or 'ideal' where" if is_robot else "forces=[JointLimits(1e4)], or no limits if"
    warn(
        f"joints went beyond their limits, which do not act by themselves: {metadata['passed_limits']}. Give "
        f"{remedy} limits do not matter{in_degrees(mechanism, _farthest_start(q))}",
        PassedLimits,
    )


def _farthest_start(q: Array) -> Array:
    """The largest coordinates (nq,) among all members' configurations (..., times, nq) at the start."""
    starts = q[..., 0, :].reshape(-1, q.shape[-1])
    places = np.argmax(np.abs(np.nan_to_num(starts)), axis=0)
    return starts[places, np.arange(q.shape[-1])]


def warn_of_singular(mechanism: Constrained, nearest: Nearest) -> None:
    """Name the closest singular position that members have gone through.

    nearest  what the march has kept of each member: its smallest pivot, and the state of the smallest pivot
             among those so small that the position counts as singular; infinite where there was none
    """
    (passed,) = np.isfinite(nearest.singular_pivot).nonzero()
    if not len(passed):
        return
    # The closest one of all members speaks for the others.
    i = int(passed[np.argmin(nearest.singular_pivot[passed])])
    q = nearest.singular_state[i][: mechanism.nq]
    _, names = mechanism.nearly_dependent(q, nearest.singular_time[i])
    members = f" ({len(passed)} of {len(nearest.pivot)} members)" if len(nearest.pivot) > 1 else ""
    warn(
        f"at t = {nearest.singular_time[i]:.6g} s the motion goes through a singular position{members}, in "
        f"which {', '.join(names)} depend on each other (relative pivot {nearest.singular_pivot[i]:.2g}): "
        "there it may go on in several ways. The steps around it were taken with all stages on the "
        "constraints; compare run.largest_energy_jump, and the motion with a shorter step",
        SingularPosition,
    )
