"""Simulation of hybrid systems one interval after the other, with new parameters for each interval."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from ..base.arguments import check_in_single, check_state, count, members_of
from ..base.concurrency import Spare
from ..base.errors import SECONDS, IntegrationError, ShapeError, positive
from ..compiler import cuda_device
from ..integrators import Method
from ..scalars import Array
from ..stepping import Samples
from ..stepping.drive import MANY, MOST_EVENTS, threads_of
from ..stepping.march import LOCATED_IN_SINGLE, RAN, REASONS, STOPPED, Ensemble, Settings
from .device import DeviceHybridStepper, device_system
from .device_intervals import DeviceIntervals
from .results import event_logs, hybrid_states
from .system import HybridSystem


class HybridState:
    """A state of a hybrid system, or of an ensemble (...), between two intervals. It is immutable.

    t         time                                                                                       [s]
    q, v      configurations (..., nq) and velocities (..., nv)
    memory    parts of the memory by name, (..., *shape)
    outputs   signals of the system by name, (..., *shape), as in the `outputs` of a run: of robots with
              contacts the forces, slips and heights over the ground, efforts, energies. They are computed
              when one of them is asked for
    parameters  values of all parameters in the last interval, (..., *shape)
    touching  which points of contacts touch something, (..., points), in the order of the elements
    contact_forces  the forces on them in the world's axes, (..., points, 3), from the outputs       [N]
    ends      (...): why a member ended, "" while it goes on; a member that ended keeps its state
    events    events of the last interval, of guards and of event functions: an `EventLog`, of an ensemble a
              list. None at the start, and of a stepper without event functions
    """

    __slots__ = ("_last", "_number", "_outputs", "_reasons", "_tables", "_u", "_y", "events", "stepper")

    def __init__(
        self,
        stepper: HybridStepper,
        number: int,
        y: Array,
        reasons: Array,
        last: Array,
        u: Array,
        tables: Array,
    ) -> None:
        self.stepper = stepper
        self._number = number  # of intervals so far
        self._y = y  # flat states, (n, size)
        self._reasons = reasons  # codes of REASONS, (n,)
        self._last = last  # time of the last event of each guard, (n, guards)
        self._u = u  # flat parameters of the last interval, (n, size)
        self._tables = tables  # those whose addresses stand in u, which keeps them in memory, (n, tables)
        self._outputs: Mapping[str, Array] | None = None
        self.events: Any = None

    @property
    def t(self) -> float:
        return self._number * self.stepper.dt

    def __copy__(self) -> HybridState:
        return self.__deepcopy__({})

    def __deepcopy__(self, memo: Any) -> HybridState:
        """The same state of the same stepper, in new arrays."""
        arrays = (x.copy() for x in (self._y, self._reasons, self._last, self._u, self._tables))
        new = HybridState(self.stepper, self._number, *arrays)
        new.events = copy.deepcopy(self.events, memo)
        return new

    def __getstate__(self) -> Any:
        return [getattr(self, name) for name in self.__slots__ if name != "_outputs"]

    def __setstate__(self, values: Any) -> None:
        self._outputs = None  # computed anew, because compiled functions stay in their process
        for name, value in zip((x for x in self.__slots__ if x != "_outputs"), values, strict=True):
            setattr(self, name, value)
        if self._tables.size:  # they have other addresses in another process
            addresses = [[table.address for table in row] for row in self._tables]
            self._u[:, self.stepper.system.parameters.addresses] = addresses

    def _part(self, first: int, size: int) -> Array:
        first += self.stepper.system.constant_memory.size
        return self._y[:, first : first + size].reshape(*self.stepper.batch, size)

    @property
    def q(self) -> Array:
        return self._part(0, self.stepper.system.nq)

    @property
    def v(self) -> Array:
        return self._part(self.stepper.system.nq, self.stepper.system.nv)

    @property
    def memory(self) -> Any:
        sim = self.stepper
        return sim.system.read_flat(self.t, self._y.reshape(*sim.batch, -1), self._u)[3]

    @property
    def parameters(self) -> dict[str, Array]:
        sim = self.stepper
        return sim.system.parameters.named(self._u[:, : sim.system.parameters.size].reshape(*sim.batch, -1))

    @property
    def outputs(self) -> Mapping[str, Array]:
        if self._outputs is None:
            sim = self.stepper
            t = np.full(len(self._y), self.t)
            self._outputs = hybrid_states(sim.system, t, self._y, self._u, sim.batch).outputs
        return self._outputs

    @property
    def touching(self) -> Array:
        flags = self.stepper.system.touching(self.memory).values()
        return np.concatenate([np.zeros((*self.stepper.batch, 0), bool), *flags], axis=-1)

    @property
    def contact_forces(self) -> Array:
        names = self.stepper.system.touching(self.memory)
        forces = [np.zeros((*self.stepper.batch, 0, 3)), *(self.outputs[name] for name in names)]
        return np.concatenate(forces, axis=-2)

    @property
    def ended(self) -> Array:
        """Which members have ended, (...)."""
        return (self._reasons != RAN).reshape(self.stepper.batch)

    @property
    def ends(self) -> Array:
        return np.array([REASONS[int(k)] for k in self._reasons]).reshape(self.stepper.batch)

    def __repr__(self) -> str:
        return f"HybridState(t={self.t:.9g}, q={self.q!r}, v={self.v!r})"


class HybridStepper:
    """A hybrid system that is simulated by intervals of one length; `liebody.stepper` returns it.

        sim = lb.stepper(system, dt=0.02, members=256)
        state = sim.start(q0)
        state = sim.step(state, {"K_p": gains})              # gains (256,), held for 0.02 s
        state = sim.reset(state, state.ended, q0)
        state = sim.replace(state, [3, 4], v=pushed)        # v of members 3 and 4; their memory stays

    Events of `events`, as of `simulate`, and of the guards of the system are in the `events` of a state.
    Within an interval the system takes the steps that it chooses, or one of length dt. Members are lanes of
    vectors, which `threads` share; each member has its own steps. A reset does not change the time: it is
    common to all members.

    A stepper is immutable: threads may share one, each with its own states. Steppers and states can be copied
    and pickled, also together, as checkpoints.
    """

    def __init__(
        self,
        system: HybridSystem,
        dt: float,
        members: int | tuple[int, ...] = (),
        method: str | Method | None = None,
        events: Mapping[str, Callable[..., Any]] | None = None,
        threads: int | None = None,
        dtype: Any = np.float64,
    ) -> None:
        self._arguments = system, dt, members, method, events, threads, dtype
        system, method = system.stepped_by(method)
        self.system = system = system.with_events(events or {})
        self.dt = positive("dt", dt, SECONDS)
        shape = members if isinstance(members, tuple) else (members,)
        self.batch = tuple(count("members", n) for n in shape)
        self._n = math.prod(self.batch)
        self.threads = threads_of(threads, self._n, MANY)
        self._flow = system.flow(method, single=system.is_single(dtype))
        self._spare: Spare[Ensemble] = Spare()
        tolerance = LOCATED_IN_SINGLE if self._flow.single else Settings.tolerance
        most = MOST_EVENTS if events else 0
        self._settings = Settings(tolerance=tolerance, least=1e-7, limit=10**7, most=most)
        names = system.guard_names, [*system.memory.defaults], [*system.parameters.defaults]
        # two steppers with the same identity take states from each other
        sizes = system.nq, system.nv, self.batch, self._flow.dtype
        self._identity = type(system), system.name, sizes, names, repr(method), dt

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled as its arguments, because compiled loops stay in their process."""
        return HybridStepper, self._arguments

    def __copy__(self) -> HybridStepper:
        return self

    def __deepcopy__(self, memo: Any) -> HybridStepper:
        """Itself, because it is immutable, and takes steps from copies of its states, too."""
        return self

    def takes(self, other: Any) -> bool:
        """Whether this stepper takes steps from states of another one: both have the same arguments."""
        return bool(self._identity == other._identity)

    def start(
        self, q0: Array, v0: Array = None, parameters: Mapping[str, Any] | None = None, **memory: Any
    ) -> HybridState:
        """The state at t = 0; q0, v0 and values of the memory are arrays for each member, or one for all.

        parameters  as in `step`, for the memory at the start and the outputs
        """
        u, tables = self._table(parameters, self.batch)
        y = self._start_states(q0, v0, u, memory, self.batch)
        last = np.full((self._n, max(1, len(self.system.guard_names))), -np.inf)
        return HybridState(self, 0, y, np.full(self._n, RAN), last, u, tables)

    def reset(
        self,
        state: HybridState,
        members: Array,
        q0: Array,
        v0: Array = None,
        parameters: Mapping[str, Any] | None = None,
        **memory: Any,
    ) -> HybridState:
        """The same state, except for members (a mask, or indices of the ensemble) that start at q0, v0."""
        at = self._places(state, members)
        y, reasons, last = (x.copy() for x in (state._y, state._reasons, state._last))
        u, tables = state._u.copy(), state._tables.copy()
        u[at.ravel()], tables[at.ravel()] = self._table(parameters, at.shape)
        y[at.ravel()] = self._start_states(q0, v0, u[at.ravel()], memory, at.shape)
        reasons[at.ravel()] = RAN
        last[at.ravel()] = -np.inf
        return HybridState(self, state._number, y, reasons, last, u, tables)

    def replace(self, state: HybridState, members: Array, q: Array = None, v: Array = None) -> HybridState:
        """The same state, except for q or v of members (a mask, or indices of the ensemble): a push.

        Unlike `reset` it keeps the memory, such as the forces of contacts, and members that have ended stay
        as they are otherwise.
        """
        at = self._places(state, members)
        y = state._y.copy()
        first = self.system.constant_memory.size
        end = first + self.system.nq + self.system.nv
        old = y[at.ravel(), first:end].reshape(*at.shape, end - first)
        nq = self.system.nq
        new = self.system.checked_states(old[..., :nq] if q is None else q, old[..., nq:] if v is None else v)
        try:
            for x, part in zip(new, np.split(old, [nq], axis=-1), strict=True):
                part[...] = x
        except ValueError:
            raise ShapeError(
                f"q and v have the leading axes {new[0].shape[:-1]} and {new[1].shape[:-1]}, the members to "
                f"change are {at.shape}"
            ) from None
        y[at.ravel(), first:end] = old.reshape(at.size, end - first)
        return HybridState(self, state._number, y, state._reasons, state._last, state._u, state._tables)

    def step(self, state: HybridState, parameters: Mapping[str, Any] | None = None) -> HybridState:
        """The state dt later.

        parameters  values that differ from the defaults: of their shape, or (..., *shape) for each member

        Members that stop, or cannot go on, end: see `HybridState.ends`. `TimeStepping` with a tolerance warns
        of steps that did not come to it (`contact.UnsolvedSteps`), and `state.memory.unsolved` counts them.
        """
        check_state(self, state, HybridState)
        u, tables = self._table(parameters, self.batch)
        number = state._number + 1
        # Calls use the arrays of a march again, because new ones take up to a tenth of the time of a step.
        try:
            m = self._spare.pop()
        except IndexError:  # all are in use
            m = self._flow.ensemble(state._y, [0.0, self.dt])
        # The march runs over one interval. It gets from the state which events were last and which members
        # have ended, so that a motion does not depend on the intervals that it is cut into.
        m.restart(state._y, state.t, number * self.dt, self.dt)
        m.last[:] = state._last
        ended = state._reasons != RAN
        some_ended = ended.any()
        if some_ended:
            m.ends[ended] = state.t, STOPPED
        self._flow.march(m, Samples.of(u), 2, self._settings, self.threads)
        reasons = m.ends[:, 1].astype(int)
        if some_ended:
            reasons[ended] = state._reasons[ended]
        self.system.judge(state._y, m.y)
        new = HybridState(self, number, m.y, reasons, m.last.copy(), u, tables)
        if self._settings.most:
            logs = event_logs(self.system, m)
            new.events = logs if self.batch else logs[0]
        # Only now: after an error the arrays are not used again.
        self._spare.append(m)
        return new

    def on_device(
        self, device: str = "cuda", *, fused: bool = True, most_events: int = 16
    ) -> DeviceHybridStepper:
        """The same stepper on a CUDA device, for arrays that live there: one launch for each interval.

            sim = lb.stepper(system, dt=0.02, members=4096).on_device()
            state = sim.start(q0)               # an array of CuPy, PyTorch, JAX or Warp, (4096, nq)
            state = sim.step(state, {"K_p": gains})

        device       "cuda"; which one, the arrays of a call say
        fused        whether products and sums may become fused multiply-adds
        most_events  how many events of each member and interval a log has room for, of a stepper with
                     `events`; `state.events.count` says how many there were

        Arrays have the type of the stepper, float64 or float32. Experimental: not yet run or timed on a
        device. More in `liebody.hybrid.DeviceHybridStepper` and in docs/gpu.md.

        Raises ArgumentError for other devices, ModelError for systems with tables in memory or with `calls`.
        """
        cuda_device(device)
        room = count("most_events", most_events, 0) if self._settings.most else 0
        system = device_system(self.system, self._flow, fused)
        settings = replace(self._settings, most=room)
        again = self, {"fused": fused, "most_events": most_events}
        return DeviceHybridStepper(system, self.dt, self.batch, settings, self.system.fitted, again)

    def function(self, name: str = "step") -> Any:
        """Raises IntegrationError: a step of a hybrid system is no traced function."""
        raise IntegrationError(
            f"a step of {self.system.name} may have events, iterations and impacts, and is no straight code; "
            "of a robot without contacts, take lb.stepper(robot, dt=...).function()"
        )

    def rows_on_device(self, *, fused: bool = True) -> DeviceIntervals:
        """Intervals of members on a CUDA device that have clocks of their own, as learning needs them.

        A member is a row of an array, with all that a step needs, so that a program on the device may begin
        members anew. Raises IntegrationError for a stepper with `events`, ModelError as `on_device` does.
        """
        if self._settings.most:
            raise IntegrationError(
                "rows on a device have no log of events; make the stepper without `events`"
            )
        return DeviceIntervals(self, self._flow, self._settings, fused=fused)

    def _places(self, state: HybridState, members: Array) -> Array:
        """Indices of the members that a mask, or indices, choose."""
        check_state(self, state, HybridState)
        return members_of(np.arange(self._n).reshape(self.batch), members, self.batch)

    def _table(self, values: Mapping[str, Any] | None, batch: tuple[int, ...]) -> tuple[Array, Array]:
        """Parameters of an interval for members `batch`, with a step that divides it: flat ones, and tables.

        Of flat parameters (n, size) those that are tables in memory are addresses; (n, tables) keeps these.
        """
        layout = self.system.parameters
        fitted = layout.with_tables(self.system.fitted(values or {}, self.dt))
        flat = layout.values(fitted, batch, self.dt)
        flat = flat.reshape(math.prod(batch), flat.shape[-1])
        return flat, layout.tables_in(flat)

    def _start_states(
        self, q0: Array, v0: Array, u: Array, memory: Mapping[str, Any], batch: tuple[int, ...]
    ) -> Array:
        q, v = self.system.checked_states(q0, v0)
        if self._flow.single:
            check_in_single(q, v)
        return self.system.start_states(q, v, u, memory, batch).astype(self._flow.dtype, copy=False)
