"""One step of a simulation at a time, for loops of one's own: controllers, games, learning, hardware."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol, overload

import numpy as np

from . import prepare
from .codegen import Function, Samples, trace
from .codegen.loop import Unable
from .codegen.march import NOT_FINITE, RAN, REASONS, STOPPED, Ensemble, Settings
from .codegen.watch import Nearest
from .door import check_state, checked, count, members_of
from .dynamics import Force, Mechanism
from .errors import SECONDS, IntegrationError, ShapeError, positive
from .integrators import MechanicalFlow, MechanicalMethod, Method
from .robot import Robot
from .scalar import Array
from .simulate import MOST_EVENTS
from .systems import EventLog, HybridStepper, HybridSystem


class StepperState:
    """A state of a mechanism, or of an ensemble, between two steps of a `Stepper`. It does not change.

    t       time                                                                                         [s]
    q, v    configurations (..., nq) and velocities (..., nv)
    ended   which members a terminal event has ended, (...); they stay as they are
    events  those of the last step: an `EventLog`, of an ensemble a list of them; None if none are looked for
    """

    __slots__ = ("_before", "_last", "_number", "_stepper", "ended", "events", "y")

    def __init__(self, stepper: Stepper, number: int, y: Array, ended: Array, before: Array = None) -> None:
        self._stepper, self._number, self.y, self.ended = stepper, number, y, ended
        self._before = before  # efforts of the last step, where a method remembers what they have done
        self.events: Any = None
        self._last: Array = None  # times of the last events

    @property
    def t(self) -> float:
        return self._number * self._stepper.dt

    @property
    def q(self) -> Array:
        return self.y[..., : self._stepper.nq]

    @property
    def v(self) -> Array:
        nq = self._stepper.nq
        return self.y[..., nq : nq + self._stepper.nv]

    def __repr__(self) -> str:
        return f"StepperState(t={self.t:.9g}, q={self.q!r}, v={self.v!r})"


class Stepper:
    """Steps of one length for a mechanism, compiled; made by `stepper`, whose docstring says more."""

    def __init__(
        self,
        mechanism: Mechanism,
        flow: Any,
        dt: float,
        batch: tuple[int, ...],
        events: Mapping[str, Callable[..., Any]],
        threads: int,
        p: Array,
    ) -> None:
        self.mechanism, self.dt, self.batch, self.threads = mechanism, dt, batch, threads
        self.nq, self.nv, self.nu = mechanism.nq, mechanism.nv, mechanism.nu
        efforts = self.nu + p.shape[-1]  # with the parameters behind them
        self._events, self._implicit, n = tuple(events), isinstance(flow, MechanicalFlow), int(np.prod(batch))
        point = flow.point if self._implicit else self.nq + self.nv
        self._flow = flow.watching(prepare.guards_of(mechanism, events, point, efforts)) if events else flow
        self._y, self._table = np.zeros((n, point)), np.zeros((n, 1, efforts))
        self._table[:, 0, self.nu :] = p.reshape(n, -1)
        self._kept = np.zeros((n, 1, point)), np.zeros(n, np.int64), np.zeros((n, 2)), Nearest.of(n, point)
        self._efforts = self._table[..., : self.nu]
        self._state, self._u = self._y.reshape(*batch, point), self._efforts.reshape(*batch, self.nu)
        self._all_on = np.zeros(batch, bool)
        self._all_on.flags.writeable = False
        self._course = None
        if threads == 1 and not events and not self._implicit:
            self._course = flow.course(self._y, Samples(self._table), dt, *self._kept)

    def __repr__(self) -> str:
        members = f", members={self.batch}" if self.batch else ""
        return f"Stepper of {self.mechanism.name}: dt={self.dt:g}{members}"

    def start(self, q0: Array = None, v0: Array = None) -> StepperState:
        """The state at t = 0; states of all members, or one for all. Default as of `simulate`."""
        y = self._points(q0, v0, self._table.reshape(*self.batch, -1))
        state = StepperState(self, 0, y, self._all_on, 0 * self._efforts if self._implicit else None)
        if self._events:
            state._last = np.full((len(self._y), len(self._events)), -np.inf)
        return state

    def reset(self, state: StepperState, members: Array, q0: Array = None, v0: Array = None) -> StepperState:
        """The same state, but for members (a mask or indices of the ensemble) that begin anew at q0, v0."""
        check_state(self, state, StepperState)
        new = StepperState(self, state._number, state.y.copy(), state.ended.copy())
        table = members_of(self._table.reshape(*self.batch, -1), members, self.batch)
        new.y[members] = self._points(q0, v0, table)
        new.ended[members] = False
        new.events = state.events
        if state._last is not None:
            new._last = state._last.copy()
            new._last.reshape(*self.batch, -1)[members] = -np.inf
        if state._before is not None:
            new._before = state._before.copy()
            new._before.reshape(self._u.shape)[members] = 0
        return new

    def step(self, state: StepperState, u: Array = None, steps: int = 1) -> StepperState:
        """The state after a step, or several, with efforts u (nu,) or (..., nu) held constant; None: zero.

        A member of an ensemble whose step cannot be taken is NaN from there on.

        Raises IntegrationError where a single mechanism's step cannot be taken, ShapeError for u.
        """
        check_state(self, state, StepperState)
        if type(steps) is not int or steps < 1:
            steps = count("steps", steps)
        self._state[...] = state.y
        if u is None:
            self._u[...] = 0
        else:
            try:
                self._u[...] = u
            except (ValueError, TypeError):
                each = f" or {self._u.shape}" if self.batch else ""
                raise ShapeError(f"u has shape {np.shape(u)}, expected numbers ({self.nu},){each}") from None
        number = state._number + steps
        if self._events:
            return self._march(state, number)
        t = state._number * self.dt
        if self._course is None:
            self._take(state, t, steps)
        else:
            try:
                self._course(t, steps, steps, 0)
            except Unable:
                self._state[...] = state.y
                self._take(state, t, steps)
        if not self.batch and self._kept[1][0]:
            self._raise(state, t)
        before = self._efforts.copy() if self._implicit else None
        return StepperState(self, number, self._state.copy(), state.ended, before)

    def function(self, name: str = "step") -> Function:
        """A step of one mechanism as a traced function (t (), q, v, u) -> q_next, v_next, without events.

        It is for traced code, such as the model of a predictive controller, and for C:

            lb.export_c("out", "arm", [lb.stepper(robot, dt=1e-3).function()])

        Free parameters (np,) come last. Raises IntegrationError for implicit methods, which iterate.
        """
        if self._implicit:
            raise IntegrationError(
                "a step of an implicit method iterates, and is no straight code; take an explicit one, "
                'such as method="rkmk4"'
            )
        step, free = self._flow.traced(self.dt, name), self._table.shape[-1] - self.nu

        def parted(t: Any, q: Array, v: Array, u: Array, *p: Array) -> dict[str, Array]:
            y = step(t, np.concatenate([q, v]), np.concatenate([u, *p]))
            return {"q_next": y[: self.nq], "v_next": y[self.nq :]}

        given = {"parameters": free} if free else {}
        return trace(parted, {"t": (), "q": self.nq, "v": self.nv, "u": self.nu, **given}, name)

    def _points(self, q0: Array, v0: Array, table: Array) -> Array:
        """Points (..., point) of members without efforts, from their rows of the table."""
        closing = self.mechanism.nc > 0 and table.size > 0  # loops, which may depend on parameters
        p = table[..., self.nu :] if closing and self.mechanism.layout.size else prepare.NONE
        q, v, given = prepare.states_of(self.mechanism, q0, v0, p)
        batch = table.shape[:-1]
        try:
            q, v = (np.broadcast_to(x.reshape(*given, -1), (*batch, x.shape[-1])) for x in (q, v))
        except ValueError:
            raise ShapeError(
                f"q0 and v0 have the leading axes {given}, those of the members to start are {batch}"
            ) from None
        n = int(np.prod(batch))
        if not n:
            return np.zeros((*batch, self._y.shape[1]))
        u = table.reshape(n, -1).copy()
        u[:, : self.nu] = 0
        y = prepare.points_of(self._flow, q.reshape(n, -1), v.reshape(n, -1), self.dt, u)
        return y.reshape(*batch, -1)

    def _samples(self, state: StepperState, t: float) -> Samples:
        """The efforts from t on; with those before, where a method remembers what they have done."""
        if state._before is None or (state._before == self._efforts).all():
            return Samples(self._table)
        table = np.repeat(self._table, 2, axis=1)
        table[:, :1, : self.nu] = state._before
        return Samples(table, t - self.dt, self.dt)

    def _take(self, state: StepperState, t: float, steps: int) -> None:
        record, failed, losses, nearest = self._kept
        kept = record, 0, failed, self.threads, losses, nearest
        self._flow.steps(self._y, self._samples(state, t), t, self.dt, steps, steps, *kept)

    def _march(self, state: StepperState, number: int) -> StepperState:
        """Steps that end at events, too."""
        start, end = state._number * self.dt, number * self.dt
        m = Ensemble(self._y, [start, end], self.dt, len(self._events))
        m.last[:] = state._last
        m.ends[state.ended.ravel()] = start, STOPPED
        settings = Settings(controlled=False, most=MOST_EVENTS)
        self._flow.march(m, self._samples(state, start), 2, settings, self.threads)
        reasons = m.ends[:, 1]
        lost = (reasons != RAN) & (reasons != STOPPED)
        if lost.any() and not self.batch:
            self._kept[2][:] = m.ends
            self._raise(state, start)
        m.y[lost] = np.nan
        nq, nv = self.nq, self.nv
        logs = EventLog.of_members(m, self._events, lambda _, y: (y[:, :nq], y[:, nq : nq + nv], {}))
        before = self._efforts.copy() if self._implicit else None
        ended = (reasons == STOPPED).reshape(self.batch)
        new = StepperState(self, number, m.y.reshape(self._state.shape), ended, before)
        new.events, new._last = logs if self.batch else logs[0], m.last
        return new

    def _raise(self, state: StepperState, t: float) -> None:
        _, failed, losses, _ = self._kept
        failed[:] = 0
        reason = int(losses[0, 1]) or NOT_FINITE
        if not np.isfinite(self._efforts).all():
            why: str | None = f"u is {self._u.tolist()}, expected finite efforts"
        else:
            why = self.mechanism.diagnosis(state.q, state.v, self.dt, t)
        raise IntegrationError(
            f"the step at t = {t:.9g} s cannot be taken: {REASONS[reason]}; "
            f"{why or f'take a shorter step, and {prepare.PUMPING}'}"
        )


class _MakesSteppers(Protocol):
    @overload
    def __call__(self, mechanism: HybridSystem, *, dt: float, **options: Any) -> HybridStepper: ...
    @overload
    def __call__(self, mechanism: Robot | Mechanism, *, dt: float, **options: Any) -> Stepper: ...


def _or_hybrid(stepper: Callable[..., Stepper]) -> _MakesSteppers:
    """`stepper`; of hybrid systems a `HybridStepper`."""

    @functools.wraps(stepper)
    def either(mechanism: Any, **options: Any) -> Any:
        return (HybridStepper if isinstance(mechanism, HybridSystem) else stepper)(mechanism, **options)

    return either


@_or_hybrid
@checked
def stepper(
    mechanism: Robot | Mechanism,
    *,
    dt: float,
    method: str | Method | MechanicalMethod = "rkmk4",
    members: int | tuple[int, ...] | None = None,
    forces: Iterable[Force] = (),
    joints: str | Iterable[str] | None = None,
    stabilization: Any = None,
    events: Mapping[str, Callable[..., Any]] | None = None,
    parameters: Mapping[str, Any] | None = None,
    threads: int = 1,
) -> Stepper:
    """What takes a simulation one step at a time, with efforts of your own in between.

        sim = lb.stepper(robot, dt=1e-3)
        state = sim.start(q0)
        for _ in range(1000):
            state = sim.step(state, u=robot.gravity(state.q) - 20 * state.v)

    dt       length of a step                                                                            [s]
    members  number of members of an ensemble, or its shape; they are lanes of vectors. Default: those of the
             parameters, or one robot alone
    others   as of `simulate`, whose steps these are: the states agree to the last bit with those of a run
             whose efforts are samples that are held. Events end a step early, and it goes on from there;
             those that are `terminal` end a member, until it is `reset`

    A `systems.HybridSystem` gives a `systems.HybridStepper`, with the options members, method and threads;
    what is held during dt are its parameters.

    Raises IntegrationError for a mechanism that is none, or a method without steps of one length.
    """
    h, chosen = positive("dt", dt, SECONDS), prepare.method_of(method)
    mechanism, p = prepare.with_parameters(mechanism, parameters, (events or {}).values())
    made = prepare.mechanism_of(mechanism, tuple(forces), joints, h)
    prepare.check_fit(chosen, h, h)
    flow = prepare.flow_of(made, chosen, prepare.stabilization_of(made, chosen, stabilization, h), None)
    shape = p.shape[:-1] if members is None else members if isinstance(members, tuple) else (members,)
    batch = tuple(count("members", n) for n in shape)
    try:
        p = np.broadcast_to(p, (*batch, p.shape[-1]))
    except ValueError:
        raise ShapeError(
            f"parameters have the leading axes {p.shape[:-1]}, those of the members are {batch}"
        ) from None
    return Stepper(made, flow, h, batch, events or {}, count("threads", threads), p)
