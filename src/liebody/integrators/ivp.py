"""Initial value problems on Lie groups, called as `scipy.integrate.solve_ivp` is."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ..base.arguments import checked, floats, members, number, short, wrong_shape
from ..base.concurrency import cached_property
from ..base.errors import ConfigurationError, IntegrationError, ShapeError, pass_on_signals, positive, warn
from ..groups import LieGroup, Product, RealGroup, group_named
from ..stepping import Clock, Samples
from ..stepping.march import NOT_FINITE, RAN, STOPPED, Ensemble, Settings, Steps, locate, next_step
from .collocation import Collocation
from .methods import FieldMethod, field_method
from .rkmk import NotConverged, Step, advance, evaluate, interpolant, vector_components
from .tableaux import DATA

EPSILON = float(np.finfo(float).eps)
TINY = float(np.finfo(float).tiny)
SAFETY = 0.9  # step controller: aim at SAFETY^k of the tolerance, where the error goes with h^k
INTEGRAL = 0.3  # gain of the integral part of the controller: 0.7 - 0.4 in `next_step`
# Largest turn of one step under error control [rad]: half the distance 2 pi to the first pole of dexp^-1.
LARGEST_TURN = math.pi
NOTHING = np.zeros(0)


class DenseOutput:
    """The solution as a function of time, on the group: `sol(t)` is (..., nq) for times of shape (...).

    Within each step q(t) = integrate(q_i, Psi(theta)) with a polynomial Psi in the algebra, theta = (t -
    t_i)/h_i. So every value lies on the group. The curve and its velocity are continuous.

    t_min, t_max  the times between which it is defined                        [s]
    """

    def __init__(self, group: LieGroup, segments: Sequence[DenseStep], end: float) -> None:
        self.group = group
        self.segments = tuple(segments)
        starts = [segment.t for segment in self.segments]
        # `searchsorted` needs increasing numbers: backward motions are searched in -t.
        self._direction = math.copysign(1, self.segments[0].h)
        self._starts = self._direction * np.array(starts)
        self.t_min = min(starts[0], end)
        self.t_max = max(starts[0], end)

    @np.errstate(all="ignore")
    def __call__(self, t: Any) -> np.ndarray:
        times = np.asarray(t, dtype=float)
        # The end is a sum of steps, so a caller's t_end may exceed it by round-off.
        slack = 8 * EPSILON * max(abs(self.t_min), abs(self.t_max))
        if not np.all((times >= self.t_min - slack) & (times <= self.t_max + slack)):
            raise IntegrationError(
                f"the solution is known from t = {self.t_min} to {self.t_max}, and was asked for at {t}; "
                "integrate over a longer t_span"
            )
        # The segment of a time is the last one that has begun. Round-off before the first start gives -1.
        places = np.searchsorted(self._starts, self._direction * times, side="right") - 1
        values = [self.segments[i](time) for i, time in zip(places.clip(0).flat, times.flat)]
        return np.reshape(np.array(values, dtype=float), (*times.shape, self.group.nq))

    def __repr__(self) -> str:
        return f"DenseOutput({self.group}, t = {self.t_min} to {self.t_max}, {len(self.segments)} steps)"


class DenseStep(NamedTuple):
    """One step of the dense output: q(t) = integrate(q, sum_m C_m ((t - t_i)/h)^m)."""

    group: LieGroup
    t: float
    h: float
    q: np.ndarray
    C: np.ndarray

    def __call__(self, t: float) -> np.ndarray:
        psi = evaluate(self.C, (t - self.t) / self.h)
        return np.asarray(self.group.normalize(self.group.integrate(self.q, psi)))


@dataclass(frozen=True)
class Solution:
    """Result of `solve_ivp`, with the names of SciPy's result but q for y. The first axis of q is time.

    group     the group
    t         times, (m,)                                                      [s]
    q         coordinates at these times, (m, nq)
    sol       dense output, a function of time; None unless asked for
    t_events  for each event function, the times of its events; None without event functions   [s]
    q_events  for each event function, coordinates at its events, (number, nq); None without event functions
    nfev      evaluations of F
    steps, rejected  steps taken, and tried in vain
    status    0 at the end of t_span, 1 at a terminal event, -1 where the step size became too small
    message   the same in words
    success   status >= 0
    """

    group: LieGroup
    t: np.ndarray
    q: np.ndarray
    sol: DenseOutput | None
    t_events: list[np.ndarray] | None
    q_events: list[np.ndarray] | None
    nfev: int
    steps: int
    rejected: int
    status: int
    message: str

    @property
    def success(self) -> bool:
        return self.status >= 0

    def __repr__(self) -> str:
        span = f"t = {self.t[0]:g} to {self.t[-1]:g}, " if len(self.t) else ""
        events = "" if self.t_events is None else f", events {[len(t) for t in self.t_events]}"
        return (
            f"Solution({self.group}: {span}{len(self.t)} times, {self.steps} steps, "
            f"{self.rejected} rejected, nfev {self.nfev}{events}, status {self.status}: {self.message})"
        )


@partial(checked, but=("F", "group", "t_span", "args"))
def solve_ivp(
    F: Callable[..., Any],
    t_span: Sequence[float],
    g0: Any,
    group: LieGroup | str,
    method: str | FieldMethod = "rkmk45",
    t_eval: Any = None,
    *,
    rtol: float = 1e-6,
    atol: Any = 1e-9,
    max_step: float = math.inf,
    first_step: float | None = None,
    dense_output: bool = False,
    events: Any = None,
    args: tuple[Any, ...] | None = None,
    dt: float | None = None,
) -> Solution:
    """Integrate g^-1 dg/dt = F(t, g) on a Lie group from g0.

    F           F(t, q, *args) is the body velocity g^-1 dg/dt, (dim,), at coordinates q (nq,). For a
                mechanical system the group is Product(G, R(nv)), q is (coordinates of G, v), and F is
                (v, dv/dt)
    t_span      times of start and end; the end may be the earlier                                        [s]
    g0          where it starts: coordinates (nq,), or an element (n, n)
    group       the group, such as SO3, SE3 or Product(SE3, R(6)), or the name of one that needs no arguments,
                "SO3" or one of another package (`groups.group_named`)
    method      with error control "rkmk45" (Dormand, Prince), "rkmk23" (Bogacki, Shampine), "rkmk56"
                (Verner), "rkmk8" (Dormand, Prince), "rkmk-tsitouras", "rkmk-heun"; with dt also "rkmk1" to
                "rkmk8" and "rkmk-" with the name of any tableau; "cf3", "cf4" (commutator-free) and
                "crouch-grossman2" to "crouch-grossman4"; or your own Tableau or CommutatorFree. Where F
                is stiff, with error control or dt, "radau5", "radau3", "radau1" (RadauIIA), "gauss2" to
                "gauss6" (Gauss), which solve equations in every step, with derivatives by differences
    t_eval      times at which to return the solution, in the direction of time; default: the steps       [s]
    rtol, atol  tolerances of each step: the root mean square over the algebra of error_i/(atol_i + rtol
                size_i) is kept below 1. In factors R(n), size_i is the larger |x_i| of both ends, as in
                SciPy; elsewhere it is 1 (a radian, a metre), so that the steps do not depend on the world
                frame. atol may be an array (dim,)
    max_step    longest step; worth setting where F changes for a short time, or events come in pairs     [s]
    first_step  first step; default: estimated from F                                                     [s]
    dense_output  whether to return the solution as a function of time, `sol`
    events      a function event(t, q, *args) -> float, or a list of them. An event is a change of its sign
                over a step, or its coming to zero, located by root finding on the dense output. Attributes
                of the function may be `terminal` (True, or the number of its events after which to stop) and
                `direction` (positive: only upwards; negative: only downwards). A zero at the start is no
                event
    args        further arguments of F and of the event functions
    dt          fixed step, without error control; the last step is shorter if dt does not divide the span [s]

    returns     Solution: t, q (times first), sol, t_events, q_events, nfev, status, message, success

    Every state lies on the group to round-off: quaternions are unit. With error control, a step that leaves
    the domain of F (NaN, infinity) is tried again, shorter. If the error cannot be kept with any step above
    round-off, what has been reached is returned, with status -1.

    Errors: ShapeError for wrong shapes of g0, F, events, t_eval or atol; ConfigurationError for a g0 that is
    not on the group; IntegrationError for settings out of range, and where F is not finite, naming the time.

    One state at a time, in Python. Ensembles belong in `liebody.simulate`, which compiles F and the method
    into one loop.
    """
    # The function is long because half of it is this reference of its options; the other half checks them one
    # after another, and then makes one `_March`.
    rule = field_method(method)
    t0, t1 = _span(t_span)
    group = group_named(group) if isinstance(group, str) else group
    if not isinstance(group, LieGroup):
        raise IntegrationError(f"group must be a group such as liebody.groups.SO3, not {group!r}")
    if args is not None and not isinstance(args, tuple):
        raise IntegrationError(f"args must be a tuple of further arguments, not {args!r}; write args=(x,)")
    q0 = _start(group, g0)
    velocity = _Velocity(F, args or (), group)
    # None stands for "no events asked for", where t_events is None; an empty list gives empty lists.
    watches = None
    if events is not None:
        functions = [events] if callable(events) else members("events", events, "functions event(t, q)")
        watches = [_Watch(event, args or ()) for event in functions]
    times = None if t_eval is None else _output_times(t_eval, t0, t1)
    # The march counts the time s = |t - t0|, so that it increases for backward motions, too.
    span = abs(t1 - t0)
    control = None
    if dt is None:
        control = _Control(group, rule, (rtol, atol), (first_step, max_step), span)
        ends = [0.0, span]
    elif first_step is None and max_step == math.inf:
        dt = positive("dt", dt)
        ends = Clock(span, dt, dt).times.tolist() if span else [0.0, 0.0]
    else:
        raise IntegrationError(
            "first_step and max_step belong to error control, which dt switches off; leave them"
        )
    march = _March(velocity, rule, (t0, t1), control, watches or [], _Output(t0, q0, times, dense_output))
    member = Ensemble(q0[None], ends, math.inf)
    # A state that overflows is found and reported in words. F and events keep the caller's settings.
    with np.errstate(all="ignore"):
        if span:
            march.advance(member)

    output = march.output
    # Over an empty span no step was taken: the dense output is then the constant q0.
    segments = output.segments or [DenseStep(group, t0, 1.0, q0, np.zeros((1, group.dim)))]
    return Solution(
        group=group,
        t=np.array(output.t, dtype=float),
        q=_rows(output.q, group.nq),
        sol=DenseOutput(group, segments, output.end) if dense_output else None,
        t_events=None if watches is None else [np.array(watch.t, dtype=float) for watch in watches],
        q_events=None if watches is None else [_rows(watch.q, group.nq) for watch in watches],
        nfev=velocity.evaluations,
        steps=int(member.counts[0, 2]),
        rejected=int(member.counts[0, 3]),
        status=march.status,
        message=march.message,
    )


# The march


class _NotFinite(IntegrationError):
    """F is NaN or infinite; a shorter step may avoid it."""


class _Velocity:
    """A user's vector field. It counts calls, checks and copies the velocity, and passes q read-only."""

    def __init__(self, F: Callable[..., Any], args: tuple[Any, ...], group: LieGroup) -> None:
        if not callable(F):
            raise IntegrationError(f"F must be a function F(t, q), not {F!r}")
        self.F = F
        self.args = args
        self.group = group
        self.evaluations = 0
        self.settings = np.geterr()  # the caller's, restored around F: the march switches warnings off

    def __call__(self, t: float, q: np.ndarray) -> np.ndarray:
        self.evaluations += 1
        q.setflags(write=False)  # q may be a state of the record, which F must not change
        with np.errstate(**self.settings):
            # A copy, because F may return the same array each time, and stages are kept.
            value = np.array(self.F(t, q, *self.args))
        group = self.group
        if value.shape != (group.dim,):
            raise wrong_shape(
                f"the result of F at t = {t:.9g}", value.shape, f"a velocity on {group}, ({group.dim},)"
            )
        if value.dtype.kind not in "fiub":
            raise ShapeError(
                f"F returned {value.dtype} at t = {t:.9g}; a velocity on {group} is {group.dim} floats"
            )
        # For a few numbers, math.isfinite over a list is faster than np.isfinite.
        if not all(map(math.isfinite, value.tolist())):
            raise _NotFinite(
                f"F is not finite at t = {t:.9g}: it returned {value} at coordinates {q}; "
                "look there for a division by zero, or a motion that ends there"
            )
        return value.astype(float, copy=False)


@dataclass
class _Taken:
    """A step from (t, q) to (end, step.q), of length h, which is negative where time goes backwards.

    The velocity at the end and the curve within cost evaluations of F, so they are computed when asked for.
    """

    field: _Velocity
    method: FieldMethod
    t: float
    h: float
    end: float
    q: np.ndarray
    step: Step

    @cached_property
    def velocity(self) -> np.ndarray:
        """F at the end, which an FSAL method knows already."""
        known = self.step.velocity
        return self.field(self.end, self.step.q) if known is None else known

    @cached_property
    def curve(self) -> DenseStep:
        """The solution within the step."""
        group, step = self.field.group, self.step._replace(velocity=self.velocity)
        C = interpolant(group, self.method, self.field, self.t, self.q, self.h, step)
        return DenseStep(group, self.t, self.h, self.q, C)

    def __call__(self, t: float) -> np.ndarray:
        return self.step.q if t == self.end else self.curve(t)


@dataclass
class _March(Steps):
    """A user's field as the one member of a march, in the time s = |t - t0|.

    At the end of a step its events are located on its dense output, and the next step is chosen. Without
    `control`, steps end at the times of the record.
    """

    field: _Velocity
    method: FieldMethod
    span: tuple[float, float]
    control: _Control | None
    watches: Sequence[_Watch]
    output: _Output

    def __post_init__(self) -> None:
        self.status = 0
        self.message = "reached the end of t_span"
        self.forward = math.copysign(1.0, self.span[1] - self.span[0])  # dt/ds
        self.last: _Taken | None = None  # the last accepted step
        self.first: np.ndarray | None = None  # F at t0, under error control
        self.obstacle: IntegrationError | None = None  # why the last trial step could not be taken
        # Error of the last accepted step, for the controller. Before the first step it is the aim of the
        # controller, as if an earlier step had met it.
        self.last_error = SAFETY**self.error_order
        self.rejected = 0  # steps rejected up to the last accepted one

    def advance(self, member: Ensemble) -> None:
        """March to the end, or to where it cannot go on."""
        self.member = member
        settings = Settings(controlled=self.control is not None, tolerance=None)
        # No efforts: a sample table with one empty row.
        self._march_numpy(member, Samples.of(np.zeros((1, 1, 0))), len(member.times), settings)
        if member.ends[0, 1] not in (RAN, STOPPED):
            # Steps have shrunk to round-off. If F or Newton's method refused the last one, that is the cause;
            # otherwise the error estimate was too large, which is a result with status -1.
            if self.obstacle:
                raise self.obstacle
            self._stop(
                f"the error at t = {self._time(member.ends[0, 0]):.9g} exceeds the tolerances with any step "
                "above round-off; the solution may be singular here, or rtol and atol are too tight for it"
            )

    def _stop(self, message: str, status: int = -1) -> bool:
        self.status, self.message = status, message
        return True

    def _time(self, s: float) -> float:
        """The user's time; the march's own is reached but for round-off where it counts as reached."""
        (t0, t1), end = self.span, self.member.times[-1]
        return t1 if s >= end - 1e-13 * end else t0 + self.forward * s

    @property
    def velocity(self) -> Any:
        """F where the next step starts; None where it is not known."""
        return self.last.velocity if self.last else self.first

    @property
    def error_order(self) -> int:  # type: ignore[override]
        return self.control.order if self.control else 1

    def _look(self, s: float, y: Any, u: Any) -> tuple[Any, float, bool]:
        t0 = self.span[0]
        step = math.inf
        self.values = np.array([watch(t0, y) for watch in self.watches])
        if self.control:
            self.first = self.field(t0, y)
            step = self.control.first(self.field, t0, y, self.first, self.forward)
        return NOTHING, *self._bounded(t0, step)

    def _step(self, t: float, h: float, y: Any, efforts: Any, lost: Any, watched: Any) -> tuple[Any, Any]:
        field = self.field
        control = self.control
        q = y[0]
        self.obstacle = None
        at = self._time(t)
        signed = self.forward * h
        end = self._time(t + h)
        try:
            if isinstance(self.method, Collocation):
                # Newton's method may stop at a small part of the tolerances; without them, at round-off.
                scale = control and control.scale(q, q)
                step = self.method.advance(field.group, field, at, q, signed, self.velocity, scale)
            else:
                step = advance(field.group, self.method, field, at, q, signed, self.velocity)
        except (_NotFinite, NotConverged) as obstacle:
            if control is None:
                raise
            # The march tries a shorter step, unless this one is as short as round-off allows.
            self.obstacle = obstacle
            lost[0] = NOT_FINITE
            return y, None
        if control is None and not all(map(math.isfinite, step.q.tolist())):
            raise IntegrationError(
                f"the state at t = {end:.9g} is not finite: {step.q}; take dt shorter than {h:.9g}"
            )
        self.trial = _Taken(field, self.method, at, signed, end, q, step)
        return step.q[None], None

    def _defect(
        self, t: float, h: float, y: Any, efforts: Any, after: Any, left: Any, settings: Settings, lost: Any
    ) -> float | None:
        if self.control is None:
            return None
        if lost[0]:
            return math.inf
        self.error = self.control.error(y[0], self.trial.step)
        if self.error <= 1:
            # Evaluate F at the end before the step is accepted: where it is not finite, the next step could
            # not start, but a shorter one may stay within the domain of F.
            try:
                self.trial.velocity  # noqa: B018
            except _NotFinite as obstacle:
                self.obstacle = obstacle
                self.error = math.inf
        return self.error

    def _update(self, t: float, y: Any, u: Any, e: Any) -> tuple[Any, Any, float, bool]:
        taken = self.trial
        step = math.inf
        self.last = taken
        # Events first: a terminal one cuts the output of this step short.
        event = self._examine(taken)
        self.output.add(taken, taken.end if event is None else event)
        if event is not None:
            return y, NOTHING, step, self._stop(f"stopped by a terminal event at t = {event:.9g}", 1)
        if self.control:
            h = abs(taken.h)
            rejected = int(self.member.counts[0, 3])
            # With a constant error e the controller multiplies steps by SAFETY^INTEGRAL e^(-INTEGRAL/k): it
            # rests at e = SAFETY^k.
            step, self.last_error = next_step(
                h, self.error, self.last_error, self.error_order, SAFETY**INTEGRAL
            )
            # After a rejection the step does not grow at once, which would be rejected again.
            if rejected > self.rejected:
                step = min(step, h)
            self.rejected = rejected
        return y, NOTHING, *self._bounded(taken.end, step)

    def _bounded(self, t: float, step: float) -> tuple[float, bool]:
        """The next step, no longer than turns allow, and whether to stop."""
        t0, t1 = self.span
        if self.control is None or t == t1:
            return step, False
        rate = turn_rate(self.field.group, self.velocity)
        # The longest step that turns allow would be below the round-off of t.
        if rate * abs(t1 - t0) * EPSILON > LARGEST_TURN:
            return step, self._stop(
                f"the motion turns by {rate:.3g} rad/s at t = {t:.9g}, too fast for steps above round-off; "
                "look for a velocity that has grown without bound"
            )
        return max(TINY, min(step, self.control.max_step, LARGEST_TURN / rate)), False

    def _examine(self, taken: _Taken) -> float | None:
        """Record the events within a step, in their order; the time of a terminal one, if there is one."""
        if not self.watches:
            return None
        length = abs(taken.h)
        low = 0.0
        directions = np.array([watch.direction for watch in self.watches])

        def crossed(a: Any, b: Any) -> Any:
            # Coming to zero counts, leaving zero does not: so a zero at the start is no event, and an event
            # that falls on the end of a step is found once.
            return ((a < 0) & (b >= 0) & (directions >= 0)) | ((a > 0) & (b <= 0) & (directions <= 0))

        def trial(h: float) -> tuple[np.ndarray, float, np.ndarray]:
            t = taken.end if h == length else taken.t + self.forward * h
            q = taken(t)
            return q, t, np.array([watch(t, q) for watch in self.watches])

        values = self.values  # of the event functions at the start of the step
        end = trial(length)
        self.values = end[2]
        tolerance = 4 * EPSILON * max(abs(taken.t), abs(taken.end))  # [s]
        # One event after another: `locate` gives the first one, and the search goes on just past it. A pair
        # of sign changes of one function within a step stays unseen, because only the ends are compared.
        while crossed(values, end[2]).any():
            low, (q, t, past), _ = locate(trial, crossed, values, low, length, end, tolerance)
            for watch, here in zip(self.watches, crossed(values, past)):
                if here and watch.record(t, q):
                    return t
            values = past
        return None


class _Control:
    """Error norm, bounds of the step, the first step.

    tolerances  rtol and atol
    steps       the first one and the longest one, as the user gave them

    `next_step` chooses the steps, so that errors tend to 0.9^k of the tolerances, with k the order of the
    error estimate. The first step: Hairer, Norsett, Wanner, "Solving Ordinary Differential Equations I",
    section II.4.
    """

    def __init__(
        self, group: LieGroup, method: FieldMethod, tolerances: Any, steps: Any, span: float
    ) -> None:
        if method.embedded_order is None:
            adaptive = ", ".join(repr(f"rkmk-{name}") for name, data in DATA.items() if "embedded" in data)
            adaptive += ", 'radau5', 'gauss4'"
            raise IntegrationError(
                f"method {method.name!r} has no error estimate; give a fixed step dt, or use {adaptive}"
            )
        self.group = group
        self.rtol, self.atol = _tolerances(group, *tolerances)
        first_step, max_step = steps
        self.max_step = min(span, positive("max_step", max_step, infinite=True))
        self.first_step = None if first_step is None else positive("first_step", first_step)
        # Power of h with which the estimate goes to zero: the local error of the less accurate result.
        self.order = 1 + min(method.order, method.embedded_order)
        self.relative = vector_components(group)

    def scale(self, q0: np.ndarray, q1: np.ndarray) -> np.ndarray:
        """atol + rtol size, (dim,): size is 1, and the larger |x| in the components of factors R(n)."""
        # In R(n) a relative error has a meaning. A position of SE(3) has none: its size is the distance to
        # the origin of the world, which is arbitrary.
        size = np.ones(self.group.dim)
        dofs, coordinates = self.relative
        size[dofs] = np.maximum(np.abs(q0[coordinates]), np.abs(q1[coordinates]))
        return np.asarray(self.atol + self.rtol * size)

    def error(self, q0: np.ndarray, step: Step) -> float:
        """Norm of the error estimate in units of the tolerances; infinity where it is not a number."""
        norm = _norm(step.error / self.scale(q0, step.q))
        return norm if math.isfinite(norm) else math.inf

    def first(self, field: _Velocity, t: float, q: np.ndarray, velocity: np.ndarray, sign: float) -> float:
        """Size of the first step: about one per cent of what changes the state, and its velocity."""
        if self.first_step is not None:
            return min(self.first_step, self.max_step)
        # d0, d1 of the source: sizes of the state and of its velocity, in units of the tolerances. The state
        # counts as its size in `scale`, since coordinates such as quaternions are no vectors.
        scale = self.scale(q, q)
        state = _norm((scale - self.atol) / (self.rtol * scale))
        speed = _norm(velocity / scale)
        # A step of Euler's method over one per cent of the state gives d2, the size of the acceleration.
        small = min(self.max_step, 1e-6 if min(state, speed) < 1e-5 else 0.01 * state / speed)
        h = sign * small
        try:
            change = field(t + h, self.group.integrate(q, h * velocity)) - velocity
        except _NotFinite:
            return small
        # The step whose local error h^k max(d1, d2) is a hundredth of the tolerance.
        fastest = max(speed, _norm(change / scale) / small) if small else math.inf
        guess = max(1e-6, 1e-3 * small) if fastest <= 1e-15 else (0.01 / fastest) ** (1 / self.order)
        return min(100 * small, guess, self.max_step)


def turn_rate(group: LieGroup, velocity: np.ndarray) -> float:
    """How fast a motion turns: the spectral radius of ad(velocity), which is |omega| on SO(3) and SE(3).

    dexp^-1_Psi has poles where ad_Psi has an eigenvalue 2 pi i k. A step must keep well away from them, even
    where F is constant and its error estimate zero.
    """
    if isinstance(group, Product):
        parts = zip(group.factors, group.dofs)
        return max((turn_rate(factor, velocity[dofs]) for factor, dofs in parts), default=TINY)
    if isinstance(group, RealGroup):
        return TINY
    # ad of a product is block-diagonal, and zero in R(n): so only small matrices have to be diagonalised.
    ad = np.asarray(group.ad(velocity), dtype=float)
    return max(TINY, float(np.abs(np.linalg.eigvals(ad)).max(initial=0)))


def _norm(x: np.ndarray) -> float:
    """Root mean square."""
    return math.hypot(*x.tolist()) / math.sqrt(max(1, len(x)))


# Events


class _Watch:
    """An event function with the record of its events."""

    def __init__(self, event: Callable[..., Any], args: tuple[Any, ...]) -> None:
        if not callable(event):
            raise IntegrationError(f"an event must be a function event(t, q), not {event!r}")
        self.event = event
        self.args = args
        self.settings = np.geterr()
        self.name = getattr(event, "__name__", repr(event))
        # SciPy's convention: True stops at the first event, an integer at that many; 0 and False never.
        limit = getattr(event, "terminal", False)
        if limit is None or int(limit) != limit or limit < 0:
            raise IntegrationError(
                f"event {self.name}: terminal is True, False or a number of events, not {limit!r}"
            )
        self.limit = int(limit)
        self.direction = number(f"the direction of event {self.name}", getattr(event, "direction", 0))
        self.t: list[float] = []
        self.q: list[np.ndarray] = []

    def __call__(self, t: float, q: np.ndarray) -> float:
        with np.errstate(**self.settings):
            value = np.asarray(self.event(t, q, *self.args))
        if value.shape != ():
            raise wrong_shape(f"the result of event {self.name} at t = {t:.9g}", value.shape, "one number")
        if not np.isfinite(value):
            raise IntegrationError(f"event {self.name} is {value} at t = {t:.9g}; it must be finite")
        return float(value)

    def record(self, t: float, q: np.ndarray) -> bool:
        """Keep an event; True if the motion ends with it."""
        self.t.append(t)
        self.q.append(q)
        return len(self.t) == self.limit


# Output


class _Output:
    """Collects the output: states at the steps or at given times, and segments of the dense output."""

    def __init__(self, t0: float, q0: np.ndarray, times: np.ndarray | None, dense: bool) -> None:
        at_start = times is None or (len(times) > 0 and times[0] == t0)
        self.t = [t0] if at_start else []
        self.q = [q0] if at_start else []
        self.times = times
        self.end = t0
        self.segments: list[DenseStep] | None = [] if dense else None

    def add(self, step: _Taken, end: float) -> None:
        """Record the step up to the time `end`."""
        self.end = end
        if self.segments is not None:
            self.segments.append(step.curve)
        if self.times is None:
            self.t.append(end)
            self.q.append(step(end))
            return
        # Times of t_eval that this step has passed: (end - time) h >= 0 in both directions of time.
        while len(self.t) < len(self.times) and (end - self.times[len(self.t)]) * step.h >= 0:
            time = float(self.times[len(self.t)])
            self.t.append(time)
            self.q.append(step(time))


def _rows(points: list[np.ndarray], nq: int) -> np.ndarray:
    return np.reshape(np.array(points, dtype=float), (len(points), nq))


# Arguments


def _span(t_span: Any) -> tuple[float, float]:
    try:
        t0, t1 = map(float, t_span)
    except (TypeError, ValueError, OverflowError):
        raise IntegrationError(f"t_span must be two times (start, end), not {t_span!r}") from None
    if not (math.isfinite(t0) and math.isfinite(t1)):
        raise IntegrationError(f"t_span must be finite, not {t_span!r}")
    return t0, t1


def _start(group: LieGroup, g0: Any) -> np.ndarray:
    """Coordinates of g0, given as coordinates or as an element."""
    wanted = f"coordinates of {group}, ({group.nq},), or an element, ({group.n}, {group.n})"
    try:
        g = np.array(g0, dtype=float)
    except Exception as error:  # anything may be in the place of an array, with code of its own
        pass_on_signals(error)
        raise ShapeError(f"g0 is {short(g0)}, expected {wanted}") from None
    if g.shape == (group.nq,):
        return np.array(group.normalize(group.check(g)), dtype=float)
    if g.shape != (group.n, group.n):
        raise wrong_shape("g0", g.shape, wanted)
    if not np.isfinite(g).all():
        raise ConfigurationError(f"the element g0 of {group} must be finite, not {g.tolist()}")
    # A matrix is an element if its coordinates give it back. 1e-6 allows for rounded input.
    with np.errstate(all="ignore"):
        q = np.array(group.coordinates(g), dtype=float)
        distance = np.abs(group.element(q) - g).max(initial=0)
    if not distance <= 1e-6 * max(1, np.abs(g).max(initial=0)):
        raise ConfigurationError(
            f"the matrix g0 is not an element of {group}: the nearest one found differs by {distance:.2g}; "
            "for rotations check that it is orthogonal with determinant 1"
        )
    return np.array(group.normalize(q), dtype=float)


def _output_times(t_eval: Any, t0: float, t1: float) -> np.ndarray:
    times = floats("t_eval", t_eval, finite=False)
    if times.ndim != 1:
        raise wrong_shape("t_eval", times.shape, "a list of times, (m,)")
    if not np.all((times >= min(t0, t1)) & (times <= max(t0, t1))):
        raise IntegrationError(
            f"t_eval must lie within t_span = ({t0}, {t1}); it goes from {times.min()} to {times.max()}"
        )
    if np.any(np.diff(times) * (t1 - t0) <= 0):
        raise IntegrationError(
            "t_eval must be strictly in the direction of time, from the start to the end of t_span"
        )
    return times


def _tolerances(group: LieGroup, rtol: Any, atol: Any) -> tuple[float, np.ndarray]:
    atol = floats("atol", atol)
    if atol.shape not in ((), (group.dim,)):
        raise wrong_shape("atol", atol.shape, f"one number or, on {group}, ({group.dim},)")
    if not np.all(atol > 0):
        raise IntegrationError(
            f"atol must be positive, not {atol}; where a state is zero, rtol alone forbids any error"
        )
    rtol = positive("rtol", rtol)
    if rtol < 100 * EPSILON:
        warn(f"rtol = {rtol} is within round-off; {100 * EPSILON:.2g} is used", UserWarning)
    return max(rtol, 100 * EPSILON), atol
