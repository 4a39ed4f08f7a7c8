"""Initial value problems on Lie groups, called as `scipy.integrate.solve_ivp` is."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from ..errors import ConfigurationError, IntegrationError, ShapeError, positive
from ..groups import LieGroup, Product
from ..groups.real import RealGroup
from .methods import FieldMethod, advance, field_method
from .rkmk import NotConverged, Step, evaluate, interpolant, vector_components
from .tableaux import DATA

EPSILON, TINY = float(np.finfo(float).eps), float(np.finfo(float).tiny)
SAFETY, SHRINK, GROW = 0.9, 0.2, 10.0  # of the step size from one step to the next
LARGEST_TURN = math.pi  # of a step, with error control
INTEGRAL, PROPORTIONAL = 0.3, 0.4  # gains of the step size control, over the order of the error estimate


class DenseOutput:
    """The solution as a function of time, on the group: `sol(t)` is (..., nq) for times of shape (...).

    Within each step q(t) = integrate(q_i, Psi(theta)) with a polynomial Psi in the algebra, theta = (t -
    t_i)/h_i. So every value lies on the group. The curve and its velocity are continuous.

    t_min, t_max  the times between which it is defined                        [s]
    """

    def __init__(self, group: LieGroup, segments: Sequence[DenseStep]) -> None:
        self.group = group
        self.segments = tuple(segments)
        starts = [s.t for s in self.segments]
        self._backward = len(self.segments) > 0 and self.segments[0].h < 0
        self._starts = np.negative(starts) if self._backward else np.array(starts)
        ends = (starts[0], self.segments[-1].end)
        self.t_min, self.t_max = min(ends), max(ends)

    @np.errstate(all="ignore")
    def __call__(self, t: Any) -> np.ndarray:
        times = np.asarray(t, dtype=float)
        slack = 8 * EPSILON * max(abs(self.t_min), abs(self.t_max))
        if not np.all((times >= self.t_min - slack) & (times <= self.t_max + slack)):
            raise IntegrationError(
                f"the solution is known from t = {self.t_min} to {self.t_max}, and was asked for at {t}; "
                "integrate over a longer t_span"
            )
        sought = -times if self._backward else times
        places = np.clip(np.searchsorted(self._starts, sought, side="right") - 1, 0, None)
        values = [self.segments[i](time) for i, time in zip(places.flat, times.flat)]
        return np.reshape(np.array(values, dtype=float), (*times.shape, self.group.nq))

    def __repr__(self) -> str:
        return f"DenseOutput({self.group}, t = {self.t_min} to {self.t_max}, {len(self.segments)} steps)"


@dataclass(frozen=True)
class DenseStep:
    """One step of the dense output: q(t) = integrate(q, sum_m C_m ((t - t_i)/h)^m), up to the time `end`."""

    group: LieGroup
    t: float
    h: float
    end: float
    q: np.ndarray
    C: np.ndarray

    def __call__(self, t: float) -> np.ndarray:
        psi = evaluate(self.C, (t - self.t) / self.h)
        return np.asarray(self.group.normalize(self.group.integrate(self.q, psi)))


@dataclass(frozen=True)
class Solution:
    """What `solve_ivp` returns. The names are those of SciPy's result, with q for y; its first axis is time.

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


def solve_ivp(
    F: Callable[..., Any],
    t_span: Sequence[float],
    g0: Any,
    group: LieGroup,
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
    group       the group, such as SO3, SE3 or Product(SE3, R(6))
    method      with error control "rkmk45" (Dormand, Prince), "rkmk23" (Bogacki, Shampine), "rkmk56"
                (Verner), "rkmk8" (Dormand, Prince), "rkmk-tsitouras", "rkmk-heun"; with dt also "rkmk1" to
                "rkmk8" and "rkmk-" with the name of any tableau; "cf3", "cf4" (commutator-free) and
                "crouch-grossman2" to "crouch-grossman4"; or a Tableau or CommutatorFree of one's own. Where F
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
    rule = field_method(method)
    t0, t1 = _span(t_span)
    if not isinstance(group, LieGroup):
        raise IntegrationError(f"group must be a group such as liebody.groups.SO3, not {group!r}")
    if args is not None and not isinstance(args, tuple):
        raise IntegrationError(f"args must be a tuple of further arguments, not {args!r}; write args=(x,)")
    q0 = _start(group, g0)
    velocity = _Velocity(F, args or (), group)
    watches = None if events is None else [_Watch(event, args or ()) for event in _as_list(events)]
    output = _Output(group, q0, t0, None if t_eval is None else _output_times(t_eval, t0, t1), dense_output)
    if dt is None:
        control = _Control(group, rule, rtol, atol, max_step, first_step)
        steps = _controlled_steps(velocity, rule, t0, t1, q0, control)
    elif first_step is None and max_step == math.inf:
        steps = _fixed_steps(velocity, rule, t0, t1, q0, positive("dt", dt))
    else:
        raise IntegrationError(
            "first_step and max_step belong to error control, which dt switches off; leave them"
        )

    status, message, taken = 0, "reached the end of t_span", 0
    with np.errstate(all="ignore"):  # what diverges is found, and said in words; F and events have their own
        for watch in watches or ():
            watch.start(t0, q0)
        try:
            for step in steps:
                taken += 1
                stop = _examine(watches or (), step)
                output.add(step, stop)
                if stop is not None:
                    status, message = 1, f"stopped by a terminal event at t = {stop:.9g}"
                    break
        except _StepTooSmall as failure:
            status, message = -1, str(failure)

    return Solution(
        group=group,
        t=np.array(output.t, dtype=float),
        q=_rows(output.q, group.nq),
        sol=output.dense(),
        t_events=None if watches is None else [np.array(watch.t, dtype=float) for watch in watches],
        q_events=None if watches is None else [_rows(watch.q, group.nq) for watch in watches],
        nfev=velocity.evaluations,
        steps=taken,
        rejected=control.rejected if dt is None else 0,
        status=status,
        message=message,
    )


# Steps


class _NotFinite(IntegrationError):
    """F is NaN or infinite; a shorter step may avoid it."""


class _StepTooSmall(Exception):
    """Error control has reached a step at round-off."""


class _Velocity:
    """The vector field of a user, counted; what it returns is checked and copied, what it gets read-only."""

    def __init__(self, F: Callable[..., Any], args: tuple[Any, ...], group: LieGroup) -> None:
        if not callable(F):
            raise IntegrationError(f"F must be a function F(t, q), not {F!r}")
        self.F, self.args, self.group, self.evaluations = F, args, group, 0
        self.settings = np.geterr()

    def __call__(self, t: float, q: np.ndarray) -> np.ndarray:
        self.evaluations += 1
        q.setflags(write=False)
        with np.errstate(**self.settings):
            value = np.array(self.F(t, q, *self.args))
        group = self.group
        if value.shape != (group.dim,):
            raise ShapeError(
                f"F returned shape {value.shape} at t = {t:.9g}; a velocity on {group} has shape "
                f"({group.dim},)"
            )
        if value.dtype.kind not in "fiub":
            raise ShapeError(
                f"F returned {value.dtype} at t = {t:.9g}; a velocity on {group} is {group.dim} floats"
            )
        if not np.isfinite(value).all():
            raise _NotFinite(
                f"F is not finite at t = {t:.9g}: it returned {value} at coordinates {q}; "
                "look there for a division by zero, or a motion that ends there"
            )
        return value.astype(float, copy=False)


@dataclass
class _Taken:
    """A step that has been taken, from (t, q) to (end, step.q)."""

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
        return DenseStep(group, self.t, self.h, self.end, self.q, C)

    def __call__(self, t: float) -> np.ndarray:
        return self.step.q if t == self.end else self.curve(t)


def _fixed_steps(
    field: _Velocity, method: FieldMethod, t0: float, t1: float, q: np.ndarray, dt: float
) -> Iterator[_Taken]:
    """Steps of dt from t0 to t1; the last is shorter if dt does not divide the span."""
    count = math.ceil(abs(t1 - t0) / dt - 1e-9)
    signed, t, velocity = math.copysign(dt, t1 - t0), t0, None
    for i in range(1, count + 1):
        end = t1 if i == count else t0 + i * signed
        h = t1 - t if i == count else signed
        taken = _Taken(field, method, t, h, end, q, advance(field.group, method, field, t, q, h, velocity))
        if not np.isfinite(taken.step.q).all():
            raise IntegrationError(
                f"the state at t = {end:.9g} is not finite: {taken.step.q}; take dt shorter than {dt}"
            )
        yield taken
        t, q = end, taken.step.q
        velocity = taken.velocity if i < count else None


def _controlled_steps(
    field: _Velocity, method: FieldMethod, t0: float, t1: float, q: np.ndarray, control: _Control
) -> Iterator[_Taken]:
    """Steps from t0 to t1 whose estimated error is within the tolerances."""
    if t0 == t1:
        return
    direction = math.copysign(1, t1 - t0)
    t, velocity = t0, field(t0, q)
    size = control.first(field, t, q, velocity, t1 - t0)
    while t != t1:
        smallest = 10 * abs(math.nextafter(t, direction * math.inf) - t)
        rate = turn_rate(field.group, velocity)
        if rate * abs(t1 - t0) * EPSILON > LARGEST_TURN:
            raise _StepTooSmall(
                f"the motion turns by {rate:.3g} rad/s at t = {t:.9g}, too fast for steps above round-off; "
                "look for a velocity that has grown without bound"
            )
        size = max(min(size, control.max_step, LARGEST_TURN / rate), smallest)
        end = t + direction * size
        if (end - t1) * direction >= 0:
            end = t1
        h = end - t
        obstacle: IntegrationError | None = None
        try:
            step = advance(field.group, method, field, t, q, h, velocity, control.scale(q, q))
            taken = _Taken(field, method, t, h, end, q, step)
            error = control.error(q, taken.step)
            if error <= 1:
                velocity = taken.velocity
        except (_NotFinite, NotConverged) as failure:
            obstacle, error = failure, math.inf
        next_size = abs(h) * control.factor(error)
        if error <= 1:
            yield taken
            t, q = end, taken.step.q
        elif abs(h) <= smallest:
            raise obstacle or _StepTooSmall(
                f"the error at t = {t:.9g} exceeds the tolerances with any step above round-off; "
                "the solution may be singular here, or rtol and atol are too tight for it"
            )
        size = next_size


class _Control:
    """Error norm and step size control.

    The next step is (target/error)^(0.3/k) (previous error/error)^(0.4/k) times as long, with target = 0.9^k
    and k the order of the error estimate (PI control: Gustafsson, ACM Trans. Math. Softw. 17 (1991)). The
    first step is that of Hairer, Norsett, Wanner, "Solving Ordinary Differential Equations I", section II.4.
    """

    def __init__(
        self,
        group: LieGroup,
        method: FieldMethod,
        rtol: float,
        atol: Any,
        max_step: float,
        first_step: float | None,
    ) -> None:
        if method.embedded_order is None:
            adaptive = ", ".join(repr(f"rkmk-{name}") for name, data in DATA.items() if "embedded" in data)
            adaptive += ", 'radau5', 'gauss4'"
            raise IntegrationError(
                f"method {method.name!r} has no error estimate; give a fixed step dt, or use {adaptive}"
            )
        self.group = group
        self.rtol, self.atol = _tolerances(group, rtol, atol)
        self.max_step = positive("max_step", max_step, infinite=True)
        self.first_step = None if first_step is None else positive("first_step", first_step)
        self.order = 1 + min(method.order, method.embedded_order)
        self.relative = vector_components(group)
        self.previous, self.rejecting, self.rejected = SAFETY**self.order, False, 0

    def scale(self, q0: np.ndarray, q1: np.ndarray) -> np.ndarray:
        """atol + rtol size, (dim,): size is 1, and the larger |x| in the components of factors R(n)."""
        size = np.ones(self.group.dim)
        dofs, coordinates = self.relative
        size[dofs] = np.maximum(np.abs(q0[coordinates]), np.abs(q1[coordinates]))
        return np.asarray(self.atol + self.rtol * size)

    def error(self, q0: np.ndarray, step: Step) -> float:
        """Norm of the error estimate in units of the tolerances; infinity where it is not a number."""
        norm = _norm(step.error / self.scale(q0, step.q))
        return norm if math.isfinite(norm) else math.inf

    def factor(self, error: float) -> float:
        """By what the step size is to be multiplied after a step with this error."""
        if error > 1:
            self.rejecting, self.rejected = True, self.rejected + 1
            return max(SHRINK, SAFETY * error ** (-1 / self.order))
        most = 1.0 if self.rejecting else GROW
        error = max(error, 1e-10)
        k = self.order
        wanted = (SAFETY**k / error) ** (INTEGRAL / k) * (self.previous / error) ** (PROPORTIONAL / k)
        self.previous, self.rejecting = max(error, 1e-4), False
        return min(most, max(SHRINK, wanted))

    def first(self, field: _Velocity, t: float, q: np.ndarray, velocity: np.ndarray, span: float) -> float:
        """Size of the first step: about one per cent of what changes the state, and its velocity."""
        longest = min(abs(span), self.max_step)
        if self.first_step is not None:
            return min(self.first_step, longest)
        scale = self.scale(q, q)
        state, speed = _norm((scale - self.atol) / (self.rtol * scale)), _norm(velocity / scale)
        small = min(longest, 1e-6 if min(state, speed) < 1e-5 else 0.01 * state / speed)
        h = math.copysign(small, span)
        try:
            change = field(t + h, self.group.integrate(q, h * velocity)) - velocity
        except _NotFinite:
            return small
        fastest = max(speed, _norm(change / scale) / small) if small else math.inf
        guess = max(1e-6, 1e-3 * small) if fastest <= 1e-15 else (0.01 / fastest) ** (1 / self.order)
        return min(100 * small, guess, longest)


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
    ad = np.asarray(group.ad(velocity), dtype=float)
    return max(TINY, float(np.abs(np.linalg.eigvals(ad)).max(initial=0)))


def _norm(x: np.ndarray) -> float:
    """Root mean square."""
    return math.hypot(*x.tolist()) / math.sqrt(max(1, len(x)))


# Events


class _Watch:
    """An event function with what has happened to it."""

    def __init__(self, event: Callable[..., Any], args: tuple[Any, ...]) -> None:
        if not callable(event):
            raise IntegrationError(f"an event must be a function event(t, q), not {event!r}")
        self.event, self.args, self.settings = event, args, np.geterr()
        self.name = getattr(event, "__name__", repr(event))
        limit = getattr(event, "terminal", False)
        if limit is None or int(limit) != limit or limit < 0:
            raise IntegrationError(
                f"event {self.name}: terminal is True, False or a number of events, not {limit!r}"
            )
        self.limit = int(limit)
        self.direction = float(getattr(event, "direction", 0))
        self.value = 0.0
        self.t: list[float] = []
        self.q: list[np.ndarray] = []

    def __call__(self, t: float, q: np.ndarray) -> float:
        with np.errstate(**self.settings):
            value = np.asarray(self.event(t, q, *self.args))
        if value.shape != ():
            raise ShapeError(
                f"event {self.name} returned shape {value.shape} at t = {t:.9g}; it must return one number"
            )
        if not np.isfinite(value):
            raise IntegrationError(f"event {self.name} is {value} at t = {t:.9g}; it must be finite")
        return float(value)

    def start(self, t: float, q: np.ndarray) -> None:
        self.value = self(t, q)

    def find(self, step: _Taken) -> float | None:
        """The time within the step at which the event happens, if it does."""
        before, after = self.value, self(step.end, step.step.q)
        self.value = after
        upwards, downwards = before < 0 <= after, before > 0 >= after
        if (upwards and self.direction >= 0) or (downwards and self.direction <= 0):
            return find_root(lambda t: self(t, step(t)), step.t, step.end, before, after)
        return None

    def record(self, t: float, q: np.ndarray) -> bool:
        """Keep an event; whether it is the last that is wanted."""
        self.t.append(t)
        self.q.append(q)
        return len(self.t) == self.limit


def _examine(watches: Iterable[_Watch], step: _Taken) -> float | None:
    """Record the events within a step, in their order; the time of a terminal one, if there is one."""
    found = [(time, watch) for watch in watches if (time := watch.find(step)) is not None]
    for time, watch in sorted(found, key=lambda event: event[0] * math.copysign(1, step.h)):
        if watch.record(time, step(time)):
            return time
    return None


def find_root(f: Callable[[float], float], a: float, b: float, fa: float, fb: float) -> float:
    """A zero of f between a and b, whose values there differ in sign, to four units of round-off of a and b.

    Bisection, and inverse quadratic interpolation where three points say that it is safe (Chandrupatla, Adv.
    Eng. Softw. 28 (1997)).
    """
    c, fc, s = a, fa, 0.5
    tolerance = 4 * EPSILON * max(abs(a), abs(b))
    while True:
        best, value = (a, fa) if abs(fa) < abs(fb) else (b, fb)
        if value == 0 or abs(b - a) <= tolerance:
            return best
        x = a + s * (b - a)
        fx = f(x)
        if (fx > 0) == (fa > 0) and fx != 0:
            c, fc, a, fa = a, fa, x, fx
        else:
            c, fc, b, fb, a, fa = b, fb, a, fa, x, fx
        s = 0.5
        if fa != 0 and fa != fb and c != b:
            xi, phi = (a - b) / (c - b), (fa - fb) / (fc - fb)
            if phi**2 < xi and (1 - phi) ** 2 < 1 - xi:
                s = fa / (fb - fa) * fc / (fb - fc) + (c - a) / (b - a) * fa / (fc - fa) * fb / (fc - fb)
            least = 0.5 * tolerance / abs(b - a) if b != a else 0.5
            s = min(1 - least, max(least, s))


# Output


class _Output:
    """Collects what is returned: states at the steps or at given times, and segments of the dense output."""

    def __init__(
        self, group: LieGroup, q0: np.ndarray, t0: float, times: np.ndarray | None, dense: bool
    ) -> None:
        self.group = group
        at_start = times is None or (len(times) > 0 and times[0] == t0)
        self.t, self.q = ([t0], [q0]) if at_start else ([], [])
        self.times = times
        self.segments: list[DenseStep] | None = [] if dense else None
        self.point = DenseStep(group, t0, 1.0, t0, q0, np.zeros((1, group.dim)))

    def add(self, step: _Taken, stop: float | None) -> None:
        """Take what is wanted of a step, up to the time `stop` of a terminal event."""
        end = step.end if stop is None else stop
        if self.segments is not None:
            self.segments.append(replace(step.curve, end=end))
        if self.times is None:
            self.t.append(end)
            self.q.append(step(end))
            return
        while len(self.t) < len(self.times) and (end - self.times[len(self.t)]) * step.h >= 0:
            time = float(self.times[len(self.t)])
            self.t.append(time)
            self.q.append(step(time))

    def dense(self) -> DenseOutput | None:
        return None if self.segments is None else DenseOutput(self.group, self.segments or [self.point])


def _rows(points: list[np.ndarray], nq: int) -> np.ndarray:
    return np.reshape(np.array(points, dtype=float), (len(points), nq))


# Arguments


def _span(t_span: Any) -> tuple[float, float]:
    try:
        t0, t1 = map(float, t_span)
    except (TypeError, ValueError):
        raise IntegrationError(f"t_span must be two times (start, end), not {t_span!r}") from None
    if not (math.isfinite(t0) and math.isfinite(t1)):
        raise IntegrationError(f"t_span must be finite, not {t_span!r}")
    return t0, t1


def _start(group: LieGroup, g0: Any) -> np.ndarray:
    """Coordinates of g0, given as coordinates or as an element."""
    wanted = f"coordinates of {group}, shape ({group.nq},), or an element, shape ({group.n}, {group.n})"
    try:
        g = np.array(g0, dtype=float)
    except (TypeError, ValueError):
        raise ShapeError(f"g0 must be {wanted}, not {g0!r}") from None
    if g.shape == (group.nq,):
        return np.array(group.normalize(group.check(g)), dtype=float)
    if g.shape != (group.n, group.n):
        raise ShapeError(f"g0 must be {wanted}, but has shape {g.shape}")
    if not np.isfinite(g).all():
        raise ConfigurationError(f"the element g0 of {group} must be finite, not {g.tolist()}")
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
    times = np.array(t_eval, dtype=float)
    if times.ndim != 1:
        raise ShapeError(f"t_eval must be a list of times, shape (m,), but has shape {times.shape}")
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
    atol = np.array(atol, dtype=float)
    if atol.shape not in ((), (group.dim,)):
        raise ShapeError(
            f"atol is one number or, on {group}, has shape ({group.dim},), but has shape {atol.shape}"
        )
    if not np.all(atol > 0):
        raise IntegrationError(
            f"atol must be positive, not {atol}; where a state is zero, rtol alone forbids any error"
        )
    rtol = positive("rtol", rtol)
    if rtol < 100 * EPSILON:
        warnings.warn(f"rtol = {rtol} is within round-off; {100 * EPSILON:.2g} is used", stacklevel=4)
    return max(rtol, 100 * EPSILON), atol


def _as_list(events: Any) -> list[Any]:
    return [events] if callable(events) else list(events)
