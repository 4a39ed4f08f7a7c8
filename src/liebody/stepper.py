"""One step of a simulation at a time, for loops of one's own: controllers, games, learning, hardware."""

from __future__ import annotations

import copy
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
from .shared import Spare
from .simulate import FEW_STEPS, MOST_EVENTS
from .systems import EventLog, HybridStepper, HybridSystem


class StepperState:
    """A state of a mechanism, or of an ensemble, between two steps of a `Stepper`. It does not change.

    t       time                                                                                         [s]
    q, v    configurations (..., nq) and velocities (..., nv)
    ended   which members a terminal event has ended, (...); they stay as they are
    events  those of the last step: an `EventLog`, of an ensemble a list of them; None if none are looked for
    """

    __slots__ = ("_before", "_last", "_number", "_stepper", "_watched", "ended", "events", "y")

    def __init__(
        self,
        stepper: Stepper,
        number: int,
        y: Array,
        ended: Array,
        before: Array = None,
        watched: Array = None,
    ) -> None:
        self._stepper = stepper
        self._number = number
        self.y = y
        self.ended = ended
        self._before = before  # efforts of the last step, where a method remembers what they have done
        self._watched = watched  # rows of `Nearest`, where steps are watched for dependent constraints
        self.events: Any = None
        self._last: Array = None  # times of the last events

    def __copy__(self) -> StepperState:
        return self.__deepcopy__({})

    def __deepcopy__(self, memo: Any) -> StepperState:
        """The same state, in arrays of its own, of the same stepper."""
        new = StepperState.__new__(StepperState)
        for name in self.__slots__:
            value = getattr(self, name)
            setattr(new, name, value if name == "_stepper" else copy.deepcopy(value, memo))
        return new

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


class _Buffers:
    """The arrays of a call of `step`, in which C takes the steps, and views of them.

    y       (n, point), states
    table   (n, 1, nu + np), efforts with the parameters behind them
    kept    what `Flow.steps` keeps beside: a record, failed, losses, nearest
    failed  the second of these, which Python reads sooner in this way
    course  the call of the loop on these arrays, where that is all there is to do; else None
    """

    __slots__ = ("course", "efforts", "failed", "kept", "state", "table", "u", "y")

    def __init__(self, sim: Stepper) -> None:
        n, point = len(sim._table), sim._point
        self.y, self.table = np.zeros((n, point)), sim._table.copy()
        self.kept = np.zeros((n, 1, point)), np.zeros(n, np.int64), np.zeros((n, 2)), Nearest.of(n, point)
        self.failed = memoryview(self.kept[1])
        self.efforts = self.table[..., : sim.nu]
        self.state, self.u = self.y.reshape(*sim.batch, point), self.efforts.reshape(*sim.batch, sim.nu)
        self.course = None
        if sim.threads == 1 and not sim._events and not sim._implicit:
            self.course = sim._flow.course(self.y, Samples(self.table), sim.dt, *self.kept)


class Stepper:
    """Steps of one length for a mechanism, compiled; made by `stepper`, whose docstring says more.

    Nothing of it changes: threads may share one, each with states of its own. Steppers and states can be
    copied and pickled, also together, as checkpoints.
    """

    def __init__(
        self,
        mechanism: Mechanism,
        flow: Any,
        dt: float,
        batch: tuple[int, ...],
        events: Mapping[str, Callable[..., Any]],
        threads: int,
        p: Array,
        given: Mapping[str, Any],
    ) -> None:
        self.mechanism, self.dt, self.batch, self.threads = mechanism, dt, batch, threads
        self.nq, self.nv, self.nu = mechanism.nq, mechanism.nv, mechanism.nu
        self._given = given  # the arguments of `stepper`
        efforts = self.nu + p.shape[-1]  # with the parameters behind them
        self._events, self._implicit, n = tuple(events), isinstance(flow, MechanicalFlow), int(np.prod(batch))
        self._point = flow.point if self._implicit else self.nq + self.nv
        self._flow = (
            flow.watching(prepare.guards_of(mechanism, events, self._point, efforts)) if events else flow
        )
        self._is_watched = getattr(flow, "watch", None) is not None
        self._table = np.zeros((n, 1, efforts))  # without efforts
        self._table[:, 0, self.nu :] = p.reshape(n, -1)
        self._all_on = np.zeros(batch, bool)
        self._all_on.flags.writeable = False
        self._spare: Spare[_Buffers] = Spare()
        # what the states of two steppers have in common that take them from each other
        made_of = flow.identity, type(mechanism), mechanism.name, tuple(events)
        self._identity = *made_of, dt, batch, self._point, self._table.tobytes()

    def __reduce__(self) -> tuple[Any, ...]:
        """By what it was made of."""
        return _made_again, (dict(self._given),)

    def __copy__(self) -> Stepper:
        return self

    def __deepcopy__(self, memo: Any) -> Stepper:
        """Itself, because it does not change: it takes steps from copies of its states, too."""
        return self

    def takes(self, other: Any) -> bool:
        """Whether states of another stepper are states of this one: both were made of the same."""
        return bool(self._identity == other._identity)

    def __repr__(self) -> str:
        members = f", members={self.batch}" if self.batch else ""
        return f"Stepper of {self.mechanism.name}: dt={self.dt:g}{members}"

    def start(self, q0: Array = None, v0: Array = None) -> StepperState:
        """The state at t = 0; states of all members, or one for all. Default as of `simulate`."""
        n, y = len(self._table), self._points(q0, v0, self._table.reshape(*self.batch, -1))
        before = np.zeros((n, 1, self.nu)) if self._implicit else None
        watched = Nearest.of(n, self._point).rows if self._is_watched else None
        state = StepperState(self, 0, y, self._all_on, before, watched)
        if self._events:
            state._last = np.full((n, len(self._events)), -np.inf)
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
            new._before.reshape(*self.batch, self.nu)[members] = 0
        if state._watched is not None:
            new._watched = state._watched.copy()
            new._watched.reshape(*self.batch, -1)[members] = Nearest.of(1, self._point).rows[0]
        return new

    def step(self, state: StepperState, u: Array = None, steps: int = 1) -> StepperState:
        """The state after a step, or several, with efforts u (nu,) or (..., nu) held constant; None: zero.

        A member of an ensemble whose step cannot be taken is NaN from there on.

        Raises IntegrationError where a single mechanism's step cannot be taken, ShapeError for u.
        """
        if type(state) is not StepperState or state._stepper is not self:
            check_state(self, state, StepperState)
        if type(steps) is not int or steps < 1:
            steps = count("steps", steps)
        try:
            buffers = self._spare.pop()
        except IndexError:  # all are in use
            buffers = _Buffers(self)
        buffers.state[...] = state.y
        if u is None:
            buffers.u[...] = 0
        else:
            try:
                buffers.u[...] = u
            except (ValueError, TypeError):
                each = f" or {buffers.u.shape}" if self.batch else ""
                raise ShapeError(f"u has shape {np.shape(u)}, expected numbers ({self.nu},){each}") from None
        watched = state._watched
        if watched is not None:
            buffers.kept[3].rows[...] = watched
        number = state._number + steps
        if self._events:
            return self._march(state, number, buffers)
        t = state._number * self.dt
        if buffers.course is None or steps > FEW_STEPS:  # which a signal may have to end
            self._take(state, t, steps, buffers)
        else:
            try:
                buffers.course(t, steps, steps, 0)
            except Unable:
                buffers.state[...] = state.y
                if watched is not None:
                    buffers.kept[3].rows[...] = watched
                self._take(state, t, steps, buffers)
        if not self.batch and buffers.failed[0]:
            self._raise(state, t, buffers)
        before = buffers.efforts.copy() if self._implicit else None
        watched = None if watched is None else buffers.kept[3].rows.copy()
        new = StepperState(self, number, buffers.state.copy(), state.ended, before, watched)
        self._spare.append(buffers)
        return new

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
            return np.zeros((*batch, self._point))
        y = prepare.points_of(self._flow, q.reshape(n, -1), v.reshape(n, -1), self.dt, table.reshape(n, -1))
        return y.reshape(*batch, -1)

    def _samples(self, state: StepperState, t: float, buffers: _Buffers) -> Samples:
        """The efforts from t on; with those before, where a method remembers what they have done."""
        if state._before is None or (state._before == buffers.efforts).all():
            return Samples(buffers.table)
        table = np.repeat(buffers.table, 2, axis=1)
        table[:, :1, : self.nu] = state._before
        return Samples(table, t - self.dt, self.dt)

    def _take(self, state: StepperState, t: float, steps: int, buffers: _Buffers) -> None:
        record, failed, losses, nearest = buffers.kept
        kept = record, 0, failed, self.threads, losses, nearest
        samples = self._samples(state, t, buffers)
        self._flow.steps(buffers.y, samples, t, self.dt, steps, steps, *kept)

    def _march(self, state: StepperState, number: int, buffers: _Buffers) -> StepperState:
        """Steps that end at events, too."""
        start, end = state._number * self.dt, number * self.dt
        m = Ensemble(buffers.y, [start, end], self.dt, len(self._events))
        m.last[:] = state._last
        if self._is_watched:
            m.nearest.rows[...] = state._watched
        m.ends[state.ended.ravel()] = start, STOPPED
        settings = Settings(controlled=False, most=MOST_EVENTS)
        self._flow.march(m, self._samples(state, start, buffers), 2, settings, self.threads)
        reasons = m.ends[:, 1]
        lost = (reasons != RAN) & (reasons != STOPPED)
        if lost.any() and not self.batch:
            buffers.kept[2][:] = m.ends
            self._raise(state, start, buffers)
        m.y[lost] = np.nan
        nq, nv = self.nq, self.nv
        logs = EventLog.of_members(m, self._events, lambda _, y: (y[:, :nq], y[:, nq : nq + nv], {}))
        before = buffers.efforts.copy() if self._implicit else None
        ended = (reasons == STOPPED).reshape(self.batch)
        new = StepperState(self, number, m.y.reshape(state.y.shape), ended, before)
        new.events, new._last = logs if self.batch else logs[0], m.last
        if self._is_watched:
            new._watched = m.nearest.rows
        self._spare.append(buffers)
        return new

    def _raise(self, state: StepperState, t: float, buffers: _Buffers) -> None:
        reason = int(buffers.kept[2][0, 1]) or NOT_FINITE
        if not np.isfinite(buffers.efforts).all():
            why: str | None = f"u is {buffers.u.tolist()}, expected finite efforts"
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
    given = dict(locals())
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
    return Stepper(made, flow, h, batch, events or {}, count("threads", threads), p, given)


def _made_again(given: dict[str, Any]) -> Stepper:
    """The stepper of these arguments; for `pickle`."""
    return stepper(**given)
