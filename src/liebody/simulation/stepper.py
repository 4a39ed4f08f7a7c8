"""One step of a simulation at a time, for a user's loops: controllers, games, learning, hardware."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol, overload

import numpy as np

from ..base.arguments import check_in_single, check_state, checked, count, members_of, wrong_shape
from ..base.concurrency import Spare
from ..base.errors import SECONDS, IntegrationError, ShapeError, positive
from ..compiler import DeviceMarch, Function, cuda_device, trace
from ..hybrid import HybridStepper, HybridSystem
from ..integrators import MechanicalFlow, MechanicalMethod, Method
from ..mechanisms import Forces, Mechanism, forces_of
from ..robot import Robot
from ..runs import EventLog
from ..scalars import Array
from ..stepping import Samples
from ..stepping.drive import FEW_STEPS, MOST_EVENTS, threads_of
from ..stepping.loop import Unable
from ..stepping.march import (
    LOCATED_IN_SINGLE,
    NOT_FINITE,
    RAN,
    REASONS,
    STOPPED,
    Ensemble,
    Settings,
)
from ..stepping.singular import Nearest
from .setup import (
    NONE,
    PUMPING,
    check_fit,
    flow_of,
    guards_of,
    is_single_precision,
    mechanism_of,
    method_of,
    points_of,
    stabilization_of,
    with_parameters,
)
from .states import states_of


class StepperState:
    """A state of a mechanism, or of an ensemble, between two steps of a `Stepper`. It never changes.

    t       time                                                                                         [s]
    q, v    configurations (..., nq) and velocities (..., nv)
    ended   which members a terminal event has ended, (...); they stay as they are
    events  events of the last step: an `EventLog`, of an ensemble a list; None without event functions
    """

    __slots__ = ("_last", "_last_efforts", "_number", "_watched", "ended", "events", "stepper", "y")

    def __init__(
        self,
        stepper: Stepper,
        number: int,
        y: Array,
        ended: Array,
        last_efforts: Array = None,
        watched: Array = None,
    ) -> None:
        self.stepper = stepper
        self._number = number  # of steps since the start
        self.y = y
        self.ended = ended
        self._last_efforts = last_efforts  # of implicit methods, which may remember what these have done
        self._watched = watched  # rows of `Nearest`, where steps are watched for dependent constraints
        self.events: Any = None
        self._last: Array = None  # times of the last events

    def __copy__(self) -> StepperState:
        return self.__deepcopy__({})

    def __deepcopy__(self, memo: Any) -> StepperState:
        """The same state of the same stepper, in new arrays."""
        new = StepperState.__new__(StepperState)
        for name in self.__slots__:
            value = getattr(self, name)
            setattr(new, name, value if name == "stepper" else copy.deepcopy(value, memo))
        return new

    @property
    def t(self) -> float:
        return self._number * self.stepper.dt

    @property
    def q(self) -> Array:
        return self.y[..., : self.stepper.nq]

    @property
    def v(self) -> Array:
        nq = self.stepper.nq
        return self.y[..., nq : nq + self.stepper.nv]

    def __repr__(self) -> str:
        return f"StepperState(t={self.t:.9g}, q={self.q!r}, v={self.v!r})"


class _Buffers:
    """The arrays of a call of `step`, in which C takes the steps, and views of them.

    y           (n, point), states
    table       (n, 1, nu + np), efforts with the parameters behind them
    kept        arrays that `Flow.steps` fills as well: a record, failed, losses, nearest
    failed      the second array of `kept` as a memoryview, which Python reads sooner
    steps_call  a call of the loop on these arrays, for steps of an explicit method in one thread without
                events; otherwise None
    """

    __slots__ = ("efforts", "failed", "kept", "state", "steps_call", "table", "u", "y")

    def __init__(self, sim: Stepper) -> None:
        n = len(sim._table)
        point = sim._point
        dtype = sim._flow.dtype
        self.y = np.zeros((n, point), dtype)
        self.table = sim._table.copy()
        self.kept = (
            np.zeros((n, 1, point), dtype),
            np.zeros(n, np.int64),
            np.zeros((n, 2)),
            Nearest.of(n, point),
        )
        self.failed = memoryview(self.kept[1])
        self.efforts = self.table[..., : sim.nu]
        self.state = self.y.reshape(*sim.batch, point)
        self.u = self.efforts.reshape(*sim.batch, sim.nu)
        self.steps_call = None
        # The call is bound to these arrays, so a step only fills and empties them.
        if sim.threads == 1 and not sim._events and not sim._implicit:
            self.steps_call = sim._flow.steps_call(self.y, Samples(self.table), sim.dt, *self.kept)


class Stepper:
    """Steps of one length for a mechanism, compiled; made by `stepper`, whose docstring says more.

    A stepper never changes: threads may share one, each with other states. Steppers and states can be copied
    and pickled, also together, as checkpoints.
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
        arguments: Mapping[str, Any],
    ) -> None:
        self.mechanism = mechanism
        self.dt = dt
        self.batch = batch
        self.threads = threads
        self.nq = mechanism.nq
        self.nv = mechanism.nv
        self.nu = mechanism.nu
        self._arguments = arguments
        # An implicit method may remember more than q and v: its states are longer.
        efforts = self.nu + p.shape[-1]  # with the parameters behind them
        n = int(np.prod(batch))
        self._events = tuple(events)
        self._implicit = isinstance(flow, MechanicalFlow)
        self._point = flow.point if self._implicit else self.nq + self.nv
        self._flow = flow.watching(guards_of(mechanism, events, self._point, efforts)) if events else flow
        self._table = np.zeros((n, 1, efforts))  # without efforts
        self._table[:, 0, self.nu :] = p.reshape(n, -1)
        # Without terminal events all states share this mask; nobody may write to it.
        self._all_on = np.zeros(batch, bool)
        self._all_on.flags.writeable = False
        self._spare: Spare[_Buffers] = Spare()
        # Two steppers take each other's states if all of this is the same.
        parts = flow.identity, type(mechanism), mechanism.name, tuple(events)
        self._identity = *parts, dt, batch, self._point, self._table.tobytes()

    def __reduce__(self) -> tuple[Any, ...]:
        """A stepper is pickled as the arguments that made it."""
        return _stepper_of, (dict(self._arguments),)

    def __copy__(self) -> Stepper:
        return self

    def __deepcopy__(self, memo: Any) -> Stepper:
        """The stepper itself, because it never changes: it takes steps from copies of its states, too."""
        return self

    def takes(self, other: Any) -> bool:
        """Whether this stepper takes states of another one: both were made of the same parts."""
        return bool(self._identity == other._identity)

    def __repr__(self) -> str:
        members = f", members={self.batch}" if self.batch else ""
        return f"Stepper of {self.mechanism.name}: dt={self.dt:g}{members}"

    def start(self, q0: Array = None, v0: Array = None) -> StepperState:
        """The state at t = 0 from states of all members, or one for all. Default as in `simulate`."""
        n = len(self._table)
        y = self._points(q0, v0, self._table.reshape(*self.batch, -1))
        last_efforts = np.zeros((n, 1, self.nu)) if self._implicit else None
        # No event has happened yet, so none is too close to another one.
        watched = Nearest.of(n, self._point).rows if self._flow.is_watched else None
        state = StepperState(self, 0, y, self._all_on, last_efforts, watched)
        if self._events:
            state._last = np.full((n, len(self._events)), -np.inf)
        return state

    def reset(self, state: StepperState, members: Array, q0: Array = None, v0: Array = None) -> StepperState:
        """The same state, except that some members (a mask or indices) begin anew at q0, v0."""
        check_state(self, state, StepperState)
        new = StepperState(self, state._number, state.y.copy(), state.ended.copy())
        # The parameters of these members stand in their rows of the table.
        table = members_of(self._table.reshape(*self.batch, -1), members, self.batch)
        new.y[members] = self._points(q0, v0, table, state.t)
        new.ended[members] = False
        new.events = state.events
        # Nothing that a method, an event or the watch remembers of the old motion may reach the new one.
        if state._last is not None:
            new._last = state._last.copy()
            new._last.reshape(*self.batch, -1)[members] = -np.inf
        if state._last_efforts is not None:
            new._last_efforts = state._last_efforts.copy()
            new._last_efforts.reshape(*self.batch, self.nu)[members] = 0
        if state._watched is not None:
            new._watched = state._watched.copy()
            new._watched.reshape(*self.batch, -1)[members] = Nearest.of(1, self._point).rows[0]
        return new

    def step(self, state: StepperState, u: Array = None, steps: int = 1) -> StepperState:
        """The state after a step, or several, with efforts u (nu,) or (..., nu) held constant; None: zero.

        A member of an ensemble whose step cannot be taken is NaN from there on.

        Raises IntegrationError where a single mechanism's step cannot be taken, ShapeError for u.
        """
        if type(state) is not StepperState or state.stepper is not self:
            check_state(self, state, StepperState)
        if type(steps) is not int or steps < 1:
            steps = count("steps", steps)
        # C writes into the buffers, so two calls never share them. Later calls use them again, because new
        # arrays take longer than a step.
        try:
            buffers = self._spare.pop()
        except IndexError:  # all are in use
            buffers = _Buffers(self)
        buffers.state[...] = state.y
        # Assignment broadcasts one effort to all members, and refuses other shapes.
        if u is None:
            buffers.u[...] = 0
        else:
            try:
                buffers.u[...] = u
            except (ValueError, TypeError):
                each = f" or {buffers.u.shape}" if self.batch else ""
                raise wrong_shape("u", np.shape(u), f"numbers ({self.nu},){each}") from None
        watched = state._watched
        if watched is not None:
            buffers.kept[3].rows[...] = watched
        number = state._number + steps
        if self._events:
            return self._march(state, number, buffers)
        t = state._number * self.dt
        # The short way leaves out all checks. It cannot be interrupted, so many steps take the long
        # way, and so do steps near a singular position, before which the short way gives up.
        if buffers.steps_call is None or steps > FEW_STEPS:
            self._take(state, t, steps, buffers)
        else:
            try:
                buffers.steps_call(t, steps, steps, 0)
            except Unable:
                # The short way may have written over the state.
                buffers.state[...] = state.y
                if watched is not None:
                    buffers.kept[3].rows[...] = watched
                self._take(state, t, steps, buffers)
        # A lost member of an ensemble is NaN; a lost simulation is an error.
        if not self.batch and buffers.failed[0]:
            self._raise(state, t, buffers)
        last_efforts = buffers.efforts.copy() if self._implicit else None
        watched = None if watched is None else buffers.kept[3].rows.copy()
        new = StepperState(self, number, buffers.state.copy(), state.ended, last_efforts, watched)
        # Only now: after an error the buffers are not used again.
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
        step = self._flow.traced(self.dt, name)
        free = self._table.shape[-1] - self.nu

        def parted(t: Any, q: Array, v: Array, u: Array, *p: Array) -> dict[str, Array]:
            # Inside, efforts and parameters are one vector, as in the table.
            y = step(t, np.concatenate([q, v]), np.concatenate([u, *p]))
            return {"q_next": y[: self.nq], "v_next": y[self.nq :]}

        parameters = {"parameters": free} if free else {}
        return trace(parted, {"t": (), "q": self.nq, "v": self.nv, "u": self.nu, **parameters}, name)

    def on_device(self, device: str = "cuda", *, fused: bool = True) -> DeviceMarch:
        """Steps on arrays that live on a CUDA device, such as arrays of CuPy and PyTorch: many in one launch.

            march = lb.stepper(robot, dt=1e-3).on_device()
            q, v = march(q, v, u, steps=20)         # 20 ms later, with the efforts u (..., nv) held

        device  "cuda"; which one, the arrays of a call say
        fused   whether products and sums may become fused multiply-adds

        Members are leading axes of the arrays. Values of free parameters (..., np) come after the efforts;
        `t=` is the time of the first step. The type of the arrays, float32 or float64, decides in which
        numbers steps are computed, whatever the dtype of the stepper is. Experimental: not yet run or timed
        on a device. More in `liebody.compiler.DeviceMarch` and in docs/gpu.md.

        Raises IntegrationError for implicit methods and for events, ArgumentError for other devices.
        """
        cuda_device(device)
        if self._events:
            raise IntegrationError(
                "steps on a device have no events yet; make the stepper without `events`, or simulate with "
                "device='cuda'"
            )
        return DeviceMarch(self.function(), self.dt, fused=fused)

    def _points(self, q0: Array, v0: Array, table: Array, t: float = 0.0) -> Array:
        """Points (..., point) of members without efforts at time t, from their rows of the table."""
        closing = self.mechanism.is_bound and table.size > 0  # states that may depend on parameters
        p = table[..., self.nu :] if closing and self.mechanism.layout.size else NONE
        q, v, ensemble = states_of(self.mechanism, q0, v0, p, t)
        if self._flow.single:
            check_in_single(q, v)
        batch = table.shape[:-1]
        try:
            q, v = (np.broadcast_to(x.reshape(*ensemble, -1), (*batch, x.shape[-1])) for x in (q, v))
        except ValueError:
            raise ShapeError(
                f"q0 and v0 have the leading axes {ensemble}, those of the members to start are {batch}"
            ) from None
        n = int(np.prod(batch))
        if not n:
            return np.zeros((*batch, self._point), self._flow.dtype)
        y = points_of(self._flow, q.reshape(n, -1), v.reshape(n, -1), self.dt, table.reshape(n, -1))
        return np.asarray(y.reshape(*batch, -1), self._flow.dtype)

    def _samples(self, state: StepperState, t: float, buffers: _Buffers) -> Samples:
        """The efforts from t on, as samples; after the last efforts, if a method has to see the jump."""
        if state._last_efforts is None or (state._last_efforts == buffers.efforts).all():
            return Samples(buffers.table)
        # Two samples, a step before and now: the method sees a jump between them, as in a run.
        table = np.repeat(buffers.table, 2, axis=1)
        table[:, :1, : self.nu] = state._last_efforts
        return Samples(table, t - self.dt, self.dt)

    def _take(self, state: StepperState, t: float, steps: int, buffers: _Buffers) -> None:
        """Steps of all members together, with samples, threads and signals."""
        record, failed, losses, nearest = buffers.kept
        results = record, 0, failed, self.threads, losses, nearest
        samples = self._samples(state, t, buffers)
        self._flow.steps(buffers.y, samples, t, self.dt, steps, steps, *results)

    def _march(self, state: StepperState, number: int, buffers: _Buffers) -> StepperState:
        """Steps that also end at events."""
        start = state._number * self.dt
        end = number * self.dt
        # An ensemble of this one interval, with all that members remember of earlier ones.
        m = Ensemble(buffers.y, [start, end], self.dt, len(self._events), dtype=self._flow.dtype)
        m.last[:] = state._last
        if self._flow.is_watched:
            m.nearest.rows[...] = state._watched
        # Members that a terminal event has ended are marked as stopped, and the march leaves them alone.
        m.ends[state.ended.ravel()] = start, STOPPED
        located = LOCATED_IN_SINGLE if self._flow.single else Settings.tolerance
        settings = Settings(controlled=False, tolerance=located, most=MOST_EVENTS)
        self._flow.march(m, self._samples(state, start, buffers), 2, settings, self.threads)
        reasons = m.ends[:, 1]
        # A member that did not reach the end, and was not stopped by an event, is lost.
        lost = (reasons != RAN) & (reasons != STOPPED)
        if lost.any() and not self.batch:
            buffers.kept[2][:] = m.ends
            self._raise(state, start, buffers)
        m.y[lost] = np.nan
        nq = self.nq
        nv = self.nv
        logs = EventLog.of_members(m, self._events, lambda _, y: (y[:, :nq], y[:, nq : nq + nv], {}))
        last_efforts = buffers.efforts.copy() if self._implicit else None
        ended = (reasons == STOPPED).reshape(self.batch)
        new = StepperState(self, number, m.y.reshape(state.y.shape), ended, last_efforts)
        new.events = logs if self.batch else logs[0]
        new._last = m.last
        if self._flow.is_watched:
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
            f"{why or f'take a shorter step, and {PUMPING}'}"
        )


class _MakesSteppers(Protocol):
    @overload
    def __call__(self, mechanism: HybridSystem, *, dt: float, **options: Any) -> HybridStepper: ...
    @overload
    def __call__(self, mechanism: Robot | Mechanism, *, dt: float, **options: Any) -> Stepper: ...


def _or_hybrid(stepper: Callable[..., Stepper]) -> _MakesSteppers:
    """`stepper`, which makes a `HybridStepper` for hybrid systems."""

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
    forces: Forces = (),
    joints: str | Iterable[str] | None = None,
    prescribed: Mapping[str, Callable[..., Any]] | None = None,
    stabilization: Any = None,
    events: Mapping[str, Callable[..., Any]] | None = None,
    parameters: Mapping[str, Any] | None = None,
    threads: int | None = None,
    dtype: Any = np.float64,
) -> Stepper:
    """A simulation that is taken one step at a time, with efforts that you choose in between.

        sim = lb.stepper(robot, dt=1e-3)
        state = sim.start(q0)
        for _ in range(1000):
            state = sim.step(state, u=robot.gravity(state.q) - 20 * state.v)

    dt       length of a step                                                                            [s]
    members  number of members of an ensemble, or its shape; they are lanes of vectors. Default: the leading
             axes of the parameters, or one robot alone
    others   as in `simulate`, which takes the same steps: the states agree to the last bit with a run whose
             efforts are samples that are held. Events end a step early, and it goes on from there; a
             `terminal` event ends a member, until it is `reset`

    A `hybrid.HybridSystem` gives a `hybrid.HybridStepper`, with the options members, method, events and
    threads; what is held during dt are its parameters.

    Raises IntegrationError for a mechanism that is none, or a method without steps of one length.
    """
    # For pickle, before any of them is replaced.
    arguments = dict(locals())
    h = positive("dt", dt, SECONDS)
    chosen = method_of(method)
    parametric, p = with_parameters(mechanism, parameters, (events or {}).values(), prescribed)
    moving = mechanism_of(parametric, forces_of(forces), joints, h, prescribed)
    check_fit(chosen, h, h)
    stabilized = stabilization_of(moving, chosen, stabilization, h)
    single = is_single_precision(dtype, moving, chosen)
    flow = flow_of(moving, chosen, stabilized, None, single=single)
    # The members are asked for, or as many as there are values of the parameters.
    shape = p.shape[:-1] if members is None else members if isinstance(members, tuple) else (members,)
    batch = tuple(count("members", n) for n in shape)
    try:
        p = np.broadcast_to(p, (*batch, p.shape[-1]))
    except ValueError:
        raise ShapeError(
            f"parameters have the leading axes {p.shape[:-1]}, those of the members are {batch}"
        ) from None
    shared = threads_of(threads, int(np.prod(batch)), 1)
    return Stepper(moving, flow, h, batch, events or {}, shared, p, arguments)


def _stepper_of(arguments: dict[str, Any]) -> Stepper:
    """The stepper with these arguments; for `pickle`."""
    return stepper(**arguments)
