"""That no other event happens on the way: the signs of guards, or of their rates, along tubes.

An event is a change of the sign of a guard g in its direction. On a piece of the motion there is none, if

    g has one sign there, or its rate dg/dt has one sign there, against the direction of the guard;

and for a guard that is zero at the start or at the end of a phase,

    dg/dt has one sign from the start on: g leaves zero and does not come back on these pieces, or
    dg/dt has one sign up to the end: g comes to zero, and was not there before on these pieces.

Pieces become shorter until one of these holds.

A function to prove positive, or a condition, has one sign by its bounds on a piece. It also has this sign
where its rate has the same sign, and it had the sign just before; or, backwards in time, where its rate has
the other sign, and it has the sign just after (`_keeps_its_sign`). Pieces become shorter until that is known.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from ...compiler import NotProved
from .equations import OrbitPhase, ProofError, WatchedGuard
from .system import Enclosed, StepEquations, by_parts

Array = Any
MOST_PIECES = 4096  # of a step


def refuse_other_events(problem: StepEquations, found: Enclosed) -> None:
    """ProofError where an event other than those at the ends of phases cannot be excluded."""
    for phase, steps, (boxes, factor) in zip(
        problem.equations.phases, found.orbit.phases, found.phases, strict=True
    ):
        times = problem.time(steps.w, factor)
        order = problem.order_of_slopes(found.orbit)
        signs_of = functools.partial(_signs, problem, phase, phase.guards, order, 1)
        whole = [step for part in by_parts(signs_of, boxes[:-1], times) for step in part]
        for k, guard in enumerate(phase.guards):
            ends = 0  # the sign of the rate with which the guard comes to zero at the end
            same = guard.tape == phase.section and not guard.positive
            if phase.event is not None and same and (guard.sign or guard.name == phase.event[0]):
                ends = phase.event[1]
                if (
                    _sign(_value_and_rate(problem, guard, boxes[-1], problem.rate(phase, boxes[-1]))[1])
                    != ends
                ):
                    raise ProofError(
                        f"the guard {guard.name} may graze zero at the end of "
                        f"{_called(problem, phase)}: its rate may be zero"
                    )
            at_nodes = _sign(problem.evaluate(guard.tape, boxes)[0][:, 0]) if guard.sign else None
            _along(problem, phase, boxes, times, guard, ends, [signs[k] for signs in whole], at_nodes)
        for one in phase.at_end:
            value = problem.evaluate(one.tape, boxes[-1])[0][0]
            if _sign(value) != one.sign:
                if one.name:
                    raise ProofError(
                        f"that {one.name} is positive is not proved at the end of "
                        f"{_called(problem, phase)}: it lies between {-value[0]:.6g} and {value[1]:.6g}"
                    )
                raise ProofError(
                    f"a condition in the update at {phase.event} is not decided at the end of "
                    f"{_called(problem, phase)}: its numbers may be equal there"
                )


def _called(problem: StepEquations, phase: OrbitPhase) -> str:
    """A phase in words."""
    phases = problem.equations.phases
    if len(phases) == 1:
        return "the period"
    k = next(k for k, one in enumerate(phases) if one is phase)
    return f"phase {k + 1} of {len(phases)}"


def _along(
    problem: StepEquations,
    phase: OrbitPhase,
    boxes: Array,
    times: Array,
    guard: WatchedGuard,
    ends: int,
    whole: list[list[tuple[int, int]]],
    at_nodes: Array | None,
) -> None:
    """One guard along all steps of a phase.

    whole     its signs over each step as one piece
    at_nodes  its signs at the ends of steps, if it is to have one sign
    """
    steps = len(times)
    # the sign of the rate while the guard has been leaving zero from the start on; None: at the start; 0: not
    leaving: int | None = None if guard.zero_at_start else 0
    for i in range(steps):
        signs = whole[i]
        pieces = 1
        at_ends = (0, 0) if at_nodes is None else (int(at_nodes[i]), int(at_nodes[i + 1]))
        while not (
            signs
            and (
                _keeps_its_sign(signs, guard.sign, *at_ends)
                or _decided(signs, guard, leaving, ends if i == steps - 1 else 0)
            )
        ):
            pieces *= 4
            if pieces > MOST_PIECES:
                if guard.positive:
                    raise ProofError(
                        f"that {guard.name} is positive is not proved in step {i + 1} of {steps} of "
                        f"{_called(problem, phase)}: it may be zero there, or nearly"
                    )
                raise ProofError(
                    f"whether {guard.name} has another event in step {i + 1} of {steps} of "
                    f"{_called(problem, phase)} is not decided: its sign and that of its rate both change in "
                    "all boxes; it may graze zero there"
                )
            ((signs,),) = _signs(
                problem, phase, [guard], problem.order, pieces, boxes[i : i + 1], times[i : i + 1]
            )
        for _, rate in signs:
            leaving = rate if leaving in (None, rate) else 0


def _signs(
    problem: StepEquations,
    phase: OrbitPhase,
    guards: list[WatchedGuard],
    order: int,
    pieces: int,
    boxes: Array,
    times: Array,
) -> list[list[list[tuple[int, int]]]]:
    """Signs of guards and their rates on pieces, for each step; none where there are no bounds."""
    try:
        _, _, tube = problem.move(phase, boxes, times, pieces=pieces, order=order)
        rates = problem.rate(phase, tube)
    except NotProved:
        if len(boxes) == 1:
            return [[[] for _ in guards]]
        return [
            _signs(problem, phase, guards, order, pieces, *one)[0]
            for one in zip(boxes[:, None], times[:, None], strict=True)
        ]
    each = [_signs_of(problem, guard, tube, rates) for guard in guards]
    return [[signs[k] for signs in each] for k in range(len(boxes))]


def _signs_of(
    problem: StepEquations, guard: WatchedGuard, tube: Array, rates: Array
) -> list[list[tuple[int, int]]]:
    """The signs of a guard and of its rate in the tubes (steps, pieces, N, 2) of steps."""
    try:
        value, rate = _value_and_rate(problem, guard, tube, rates)
    except NotProved:
        if len(tube) == 1:
            return [[]]
        return [_signs_of(problem, guard, *one)[0] for one in zip(tube[:, None], rates[:, None], strict=True)]
    return [
        [(int(a), int(b)) for a, b in zip(*step, strict=True)]
        for step in zip(_sign(value), _sign(rate), strict=True)
    ]


def _keeps_its_sign(signs: list[tuple[int, int]], sign: int, at_start: int, at_end: int) -> bool:
    """Whether a function has its sign, which is not 0, on all pieces of a step.

    at_start, at_end  its signs at the two ends of the step
    """
    if not sign:
        return False
    proved = [value == sign for value, _ in signs]
    known = at_start == sign
    for k, (_, rate) in enumerate(signs):
        known = proved[k] = proved[k] or (known and rate == sign)
    known = at_end == sign
    for k, (_, rate) in reversed([*enumerate(signs)]):
        known = proved[k] = proved[k] or (known and rate == -sign)
    return all(proved)


def _decided(signs: list[tuple[int, int]], guard: WatchedGuard, leaving: int | None, ends: int) -> bool:
    """Whether none of the pieces of a step has an event, and a condition has its sign on all of them."""
    # the last pieces, on which the guard comes to zero
    coming = len(signs)
    while ends and coming > 0 and signs[coming - 1][1] == ends:
        coming -= 1
    for k, (value, rate) in enumerate(signs):
        leaving = rate if leaving in (None, rate) else 0
        against = guard.direction != 0 and rate == -guard.direction
        if guard.sign:
            quiet = guard.sign in (value, leaving) or (k >= coming and guard.sign == -ends)
        else:
            quiet = bool(value or against or leaving) or k >= coming
        if not quiet:
            return False
    return True


def _value_and_rate(
    problem: StepEquations, guard: WatchedGuard, y: Array, rate: Array
) -> tuple[Array, Array]:
    """Intervals (..., 2) of a guard and of its rate in boxes of states with these rates."""
    value, along = problem.evaluate(guard.tape, y, rate[..., None, :])
    return value[..., 0, :], along[..., 0, 0, :]


def _sign(x: Array) -> Array:
    """The sign of all numbers in an interval; 0 if there are several."""
    return np.where(x[..., 0] < 0, 1, np.where(x[..., 1] < 0, -1, 0))
