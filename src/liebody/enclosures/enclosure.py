"""The call that encloses all motions from a box of states."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..base.arguments import checked, count, floats, wrong_shape
from ..base.errors import SECONDS, ArgumentError, ModelError, positive
from ..compiler import outward
from ..mechanisms.constrained import ClosedTree
from .closed_trees import Ties, motion_of_closed_tree
from .motion import ExactMotion, motion_of
from .sets import Crossing, Stepping, tube

Array = Any
ORDERS = 4, 30
PIECES = 4  # of a step, for the boxes on the way


@dataclass(frozen=True, eq=False)
class Enclosure:
    """A tube that contains every motion from a box of states, at every value of the parameters.

    t      times at the ends of m steps, (m + 1,)                                                        [s]
    ends   bounds (m + 1, nq + nv, 2) of (q, v) at these times: (lower, upper)
    boxes  bounds (m, nq + nv, 2) of (q, v) at all times of each step
    names  of the states

    All bounds are proved: rounded outwards, with the remainders of all series.
    """

    t: Array
    ends: Array
    boxes: Array
    names: list[str]
    motion: ExactMotion
    steps: list[Crossing]

    @property
    def width(self) -> float:
        """The largest width of a box at the end of a step."""
        return float((self.ends[..., 1] - self.ends[..., 0]).max())

    @checked
    def at(self, times: Array) -> Array:
        """Bounds (..., nq + nv, 2) of (q, v) at any times (...) from 0 to t_end: (lower, upper).     [s]"""
        times = floats("times", times)
        if times.size and not (times.min() >= 0 and times.max() <= self.t[-1]):
            raise ArgumentError(
                f"times are from {times.min():g} to {times.max():g}, expected 0 to {self.t[-1]:g} s"
            )
        out = np.empty((*times.shape, len(self.names), 2))
        for place in np.ndindex(times.shape):
            time = float(times[place])
            step = self.steps[min(int(np.searchsorted(self.t, time, "right")) - 1, len(self.steps) - 1)]
            out[place] = self._at(step, time)
        return out

    def _at(self, step: Crossing, time: float) -> Array:
        stepping = Stepping(self.motion.library, step.order)
        passage = stepping.along(step.start, stepping.duration((step.times[0], time)), 0)
        return passage.box[: len(self.names)] * [-1, 1]

    @checked
    def contains(self, run: Any) -> bool:
        """Whether all states of a run, of `simulate` or with t, q and v, lie in the boxes at their times.

        A run has errors of its method; a tube may be narrower than they are.
        """
        states = np.concatenate([np.asarray(run.q), np.asarray(run.v)], axis=-1)
        if states.shape[-1] != len(self.names):
            raise wrong_shape("the state (q, v) of the run", states.shape[-1:], f"({len(self.names)},)")
        boxes = self.at(run.t)
        return bool(((boxes[..., 0] <= states) & (states <= boxes[..., 1])).all())

    @checked
    def bounds(self, function: Callable[..., Any], *, pieces: int = PIECES) -> tuple[Array, Array]:
        """Proved lower and upper bounds of a function over all motions of the tube.

        function  (t, q, v) or (t, q, v, p) -> (...), of NumPy operators; p are the parameters, by name
        pieces    of each step: more of them give closer bounds
        returns   lower (...), upper (...)

        A function along a motion has its own series, so conserved quantities stay as close as they are at the
        start.

            low, high = tube.bounds(lambda t, q, v: v[0] ** 2 / 2 - 9.81 * cos(q[0]))
        """
        pieces = count("pieces", pieces)
        library, shape = self.motion.observing(function)
        lower, upper = [], []
        for step in self.steps:
            stepping = Stepping(library, step.order, part=1)
            seen = stepping.along(step.start, stepping.duration(step.times), pieces).seen
            lower.append(-seen[..., 0].max(axis=0))
            upper.append(seen[..., 1].max(axis=0))
        low = np.min(lower, axis=0).reshape(shape)
        high = np.max(upper, axis=0).reshape(shape)
        return low[()], high[()]

    def __repr__(self) -> str:
        return (
            f"Enclosure({self.motion.name!r}, {len(self.steps)} steps to t = {self.t[-1]:g} s, "
            f"states within {self.width:.1e})"
        )


@checked
def enclose(
    system: Any,
    q0: Any,
    v0: Any,
    t_end: float,
    *,
    tau: Any = None,
    joints: Any = None,
    parameters: Mapping[str, Any] | None = None,
    rounding: float = 0.0,
    order: int = 18,
) -> Enclosure:
    """Compute a tube: boxes over time that provably contain every motion from a box of initial states.

    system      a Robot, a `ClosedTree`, a HybridSystem without events on R(n), SE2, SO3, SE3 or products of
                them, or a vector field y' = f(y) of NumPy operators (with v0 = None)
    q0, v0      (nq,), (nv,): each entry is a number, or a pair (lower, upper). Fractions, and decimals in
                quotes such as "0.1", are exact; 0.1 is the binary number next to it. A quaternion q in q0
                stands for the rotation of q / |q|, and a box of them for all these rotations. In a closed
                tree, entries that the closures and |q| = 1 determine are computed from the others; give them
                as numbers
    t_end       end of the tube                                                                          [s]
    tau         efforts of a robot: (nv,), or a function (t, q, v) or (t, q, v, p), as in `simulate`
    joints      what acts in joints of a robot, as in `simulate`
    parameters  {"link1.mass": (0.9, 1.1)}: the tube contains the motions at each value between
    rounding    relative uncertainty of constants with more than 24 binary digits, such as 2**-50: the tube
                holds for all constants within it. With 0, constants are exactly their doubles
    order       order of Taylor's formula in each step, from 4 to 30

    returns     Enclosure, with boxes over time, `at`, `contains` and `bounds`

    Each step uses Taylor's formula. Its remainder is bounded over a box that the motion does not leave. The
    set of states is represented in axes that rotate with the motion (Lohner 1988), so that rotation does not
    widen it. The set includes how states depend on the parameters. A C compiler is needed, because NumPy
    cannot switch the direction of rounding.

    Raises EnclosureError if the tube cannot be continued; the message has the time and what may help. Raises
    ModelError for systems that are not covered, GraphError for operations without a rule, and
    ConfigurationError for quaternions whose norm is not one, and starts off the closures of a closed tree.

        tube = lb.enclose(lb.models.double_pendulum(), [(1.0, 1.001), 0.0], [0.0, 0.0], 1.0)
        tube.boxes, tube.at(0.5)
    """
    t_end = positive("t_end", t_end, SECONDS)
    order = count("order", order)
    if not ORDERS[0] <= order <= ORDERS[1]:
        raise ArgumentError(f"order is {order}, expected {ORDERS[0]} to {ORDERS[1]}")
    if not 0 <= rounding < 1e-6:
        raise ArgumentError(f"rounding is {rounding!r}, expected a small share such as 2**-50, or 0")
    given = parameters or {}
    ties: Ties | None = None
    if isinstance(system, ClosedTree):
        if joints is not None:
            raise ModelError(f"joints is {joints!r}, which a Robot takes; {system.name} has its own damping")
        motion, ties = motion_of_closed_tree(system, q0, v0, tau, given, rounding)
    else:
        motion = motion_of(system, q0, tau, joints, given, rounding)
    bounds = motion.start(q0, v0)
    box = np.array([(-low, high) for low, high in map(outward, bounds)])
    if ties is None:
        start = Stepping(motion.library, order).from_box(box)
    else:
        start = ties.set_of(box, [low == high for low, high in bounds])
    first = box if ties is None else start.box(motion.library)
    tied = None if ties is None else ties.tied
    steps, ends, boxes = tube(motion, start, first, t_end, order, PIECES, tied)
    size = len(motion.names)
    times = np.array([0.0, *(step.times[1] for step in steps)])
    return Enclosure(times, ends[:, :size] * [-1, 1], boxes[:, :size] * [-1, 1], motion.names, motion, steps)
