"""Sets of states that turn with the motion, so that boxes around them do not grow by turning.

    X = { c + A a + B b :  |a| <= alpha,  b in beta }

with numbers c, A, B, radii alpha of the box at the start, and small boxes beta of what was rounded and
estimated since. After a step phi, with D the derivatives of phi at all points of the box of X,

    phi(X) is in  phi(c) + (D A) a + (D B) b.

The new c and A are the middles of phi(c) and D A, and what they leave goes to the new B b. Its B is the
orthogonal factor of D B, whose columns are first sorted by how far they reach (Lohner 1988; Nedialkov,
Jackson 1999): a box along these directions fits what a step has turned and stretched.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ..base.errors import IntegrationError
from ..compiler import IntervalLibrary, NotProved, exactly, middle
from .motion import ExactMotion

Array = Any
NARROW = 3e-14  # of the end of a step from a number, over the size of the state ...
SHARE = 1e-3  # ... or over the width of the set, where that is more
LOOSE = 1.5  # of the derivatives of a step, over those of the field times the step
SHORTEST = 1e-7  # of all the time


class EnclosureError(IntegrationError):
    """A tube that could not be continued: the message says at which time, and what would help."""


@dataclass(frozen=True)
class MotionSet:
    """The set X above: c (N,), A and B (N, N), alpha (N,), beta (N, 2)."""

    c: Array
    A: Array
    alpha: Array
    B: Array
    beta: Array

    def image(self, library: IntervalLibrary, D: Array) -> Array:
        """(D A) a + (D B) b for matrices D (m, N, 2), all a and all b: boxes (m, 2)."""
        box = np.stack([self.alpha, self.alpha], axis=-1)
        DA = library.product(D, exactly(self.A))
        DB = library.product(D, exactly(self.B))
        parts = library.product(DA, box[:, None]), library.product(DB, self.beta[:, None])
        return library.combine("add", *parts)[:, 0]

    def box(self, library: IntervalLibrary) -> Array:
        """The box (N, 2) of the set."""
        reach = self.image(library, exactly(np.eye(len(self.c))))
        return library.combine("add", exactly(self.c), reach)


class Moved(NamedTuple):
    """A set after a step, { c + A a + DB b + rest }, before it gets new axes.

    DB    (N, N, 2), with b in `beta`
    rest  what was rounded and estimated in the step, (N, 2)
    """

    c: Array
    A: Array
    alpha: Array
    DB: Array
    beta: Array
    rest: Array


class Passage(NamedTuple):
    """The results of a step.

    moved   the set after it before it has new axes, `end` with these, and its `box` (N, 2)
    seen    boxes (pieces, results, 2) of what is observed on the way
    centre  the end (N, 2) of the motion from c
    D       derivatives (N, N, 2) of the end by all states of the set
    """

    moved: Moved
    end: MotionSet
    box: Array
    seen: Array
    centre: Array
    D: Array


@dataclass(frozen=True)
class Crossing:
    """A step of a tube: the set at its start, its times from and to (doubles), and its order."""

    start: MotionSet
    times: tuple[float, float]
    order: int


class Stepping:
    """Steps of a motion, in intervals.

    library  arithmetic whose part 0 is the vector field
    part     what is observed along steps: a part of the library, None: the states
    """

    def __init__(self, library: IntervalLibrary, order: int, part: int | None = None) -> None:
        self.library = library
        self.order = order
        self.part = part

    def from_box(self, x: Array) -> MotionSet:
        """The set of a box (N, 2)."""
        n = len(x)
        c = middle(x)
        away = self.library.combine("sub", x, exactly(c))
        return MotionSet(c, np.eye(n), away.max(axis=-1), np.eye(n), np.zeros((n, 2)))

    def along(self, start: MotionSet, duration: Array, pieces: int) -> Passage:
        """A step of a duration, an interval (2,), from a set."""
        library = self.library
        n = len(start.c)
        centre, around_centre = library.follow(
            exactly(start.c), duration, self.order, False, pieces, self.part
        )
        ends, around = library.follow(start.box(library), duration, self.order, True, pieces, self.part)
        ends, D = ends[:, 0], ends[:, 1:]
        # what is observed: mean values around the centre, and values of the box
        seen = around[:, :, 0]
        if pieces:
            slopes = around[:, :, 1:].reshape(-1, n, 2)
            reach = start.image(library, slopes).reshape(seen.shape)
            seen = np.minimum(seen, library.combine("add", around_centre[:, :, 0], reach))
        # the set at the end
        centre = centre[:, 0]
        c = middle(centre)
        DA = library.product(D, exactly(start.A))
        A = middle(DA)
        rest = library.combine("sub", centre, exactly(c))
        left = library.combine("sub", DA, exactly(A))
        alpha = np.stack([start.alpha, start.alpha], axis=-1)
        rest = library.combine("add", rest, library.product(left, alpha[:, None])[:, 0])
        DB = library.product(D, exactly(start.B))
        moved = Moved(c, A, start.alpha, DB, start.beta, rest)
        B = _directions(middle(DB), start.beta.max(axis=-1))
        end = MotionSet(
            c, A, start.alpha, B, along_axes(library, inverse_of(library, B), DB, start.beta, rest)
        )
        return Passage(moved, end, np.minimum(ends, end.box(library)), seen, centre, D)

    def duration(self, times: tuple[float, float]) -> Array:
        """The interval (2,) of the exact difference of two times."""
        return self.library.combine("sub", exactly(times[1]), exactly(times[0]))


def along_axes(library: IntervalLibrary, inverse: Array, DB: Array, beta: Array, rest: Array) -> Array:
    """The box (k, 2) of Q^-1 (DB b + rest), b in beta, for axes with the `inverse` Q^-1 (k, k, 2)."""
    turned = library.product(library.product(inverse, DB), beta[:, None])
    return library.combine("add", turned, library.product(inverse, rest[:, None]))[:, 0]


def inverse_of(library: IntervalLibrary, Q: Array) -> Array:
    """Bounds of Q^-1 for a nearly orthogonal Q: (1 - E)^-1 Q^T with E = 1 - Q^T Q.

    (1 - E)^-1 - 1 has entries of at most |E| / (1 - |E|) in each row, with the maximum norm |E|.
    """
    n = len(Q)
    E = library.combine("sub", exactly(np.eye(n)), library.multiplied(Q.T, exactly(Q)))
    size = np.nextafter(E.max(axis=-1).sum(axis=-1).max(initial=0.0) * (1 + 1e-12), np.inf)
    if not size < 0.5:
        raise NotProved("the directions of the tube are nearly dependent")
    error = np.nextafter(2 * size, np.inf) * np.abs(Q.T).max(axis=0, initial=0.0)
    error = np.broadcast_to(np.nextafter(error, np.inf), (n, n))
    return library.combine("add", exactly(Q.T), np.stack([error, error], axis=-1))


def _directions(M: Array, reach: Array) -> Array:
    """The orthogonal factor of the columns of M, the one with the longest reach first.

    The column of the time, the last state, stays the last one: then no other column has a part along the
    time, and `_at_time` may set it without a change of the other states.
    """
    lengths = np.linalg.norm((M * reach)[:, :-1], axis=0)
    order = [*np.argsort(-lengths, kind="stable"), len(M) - 1]
    return np.linalg.qr(M[:, order])[0]


def tube(
    motion: ExactMotion,
    start: MotionSet,
    box: Array,
    t_end: float,
    order: int,
    pieces: int,
    tied: Callable[[Moved], MotionSet | None] | None = None,
) -> tuple[Any, ...]:
    """Steps, boxes at their ends (m + 1, N, 2), and boxes on the way (m, N, 2), from a set in a box (N, 2).

    tied  leaves out states of a set after a step that no motion can have; where it returns None, and without
          it, all states stay
    """
    stepping = Stepping(motion.library, order)
    library = motion.library
    now = start
    steps, ends, between = [], [box], []
    t = 0.0
    h = t_end / 8
    while t < t_end:
        problem: Exception | None = None
        growth = 1.5
        while True:
            # the last two steps share what is left
            rest = t_end - t
            to = t_end if h >= rest else t + min(h, rest / 2)
            if not to - t > SHORTEST * t_end:
                raise _blown_up(motion, t, t_end, ends, problem)
            duration = stepping.duration((t, to))
            try:
                passage = stepping.along(now, duration, pieces)
                if _is_short(library, now, passage, to - t):
                    break
            except NotProved as error:
                problem = error
            h = (to - t) * 0.6
            growth = 1.1
        steps.append(Crossing(now, (t, to), order))
        between.append(passage.seen.max(axis=0))
        # all motions have this time, while the centre's is rounded
        moved = passage.moved._replace(c=np.append(passage.moved.c[:-1], to))
        fewer = None if tied is None else tied(moved)
        now = _at_time(fewer or passage.end, to)
        ends.append(np.minimum(passage.box, now.box(library)))
        h = (to - t) * growth
        t = to
    return steps, np.stack(ends), np.stack(between)


def _is_short(library: IntervalLibrary, start: MotionSet, passage: Passage, h: float) -> bool:
    """Whether a step of h is as short as it should be.

    1. The remainder is small beside the size of the state, or the width of the set.
    2. Derivatives of the end vary over the set little more than h times the field's derivatives. A longer
       step evaluates a long series in wide intervals, whose width grows with each coefficient.
    """
    box = start.box(library)
    width = box.sum(axis=-1).max()
    narrow = passage.centre.sum(axis=-1).max() < max(NARROW * (1 + np.abs(start.c).max()), SHARE * width)
    _, J = library.evaluate(0, box, exactly(np.eye(len(box))))
    most = LOOSE * h * J.sum(axis=-1).max() + NARROW * np.abs(passage.D).max()
    return bool(narrow and passage.D.sum(axis=-1).max() <= most)


def _at_time(state: MotionSet, t: float) -> MotionSet:
    """The set with the exact time t, which all motions have, as its last state."""
    c = state.c.copy()
    A = state.A.copy()
    c[-1] = t
    A[-1] = 0.0
    return MotionSet(c, A, state.alpha, state.B, state.beta)


def _blown_up(
    motion: ExactMotion, t: float, t_end: float, ends: list[Array], problem: Exception | None
) -> EnclosureError:
    widths = ends[-1].sum(axis=-1)[: len(motion.names)]
    first = ends[0].sum(axis=-1)[: len(motion.names)]
    k = int(np.argmax(widths))
    reason = problem or "the remainder of Taylor's formula is not small in any step"
    advice = "parts of the box, each with its tube," if first.max() > 0 else "another order"
    if motion.wide:
        advice += " or narrower bounds of parameters"
    return EnclosureError(
        f"the tube of {motion.name} cannot be continued beyond t = {t:.6g} s of {t_end:g} s: {reason}. There "
        f"{motion.names[k]} is known within {widths[k]:.1e}, and at the start within {first[k]:.1e}; "
        f"{advice} may help, or a t_end below {t:.3g}. Beyond a singular state"
        " there is no tube"
    )
