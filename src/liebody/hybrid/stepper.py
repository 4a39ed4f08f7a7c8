"""Simulation of hybrid systems one interval after the other, with new parameters for each interval."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ..base.arguments import check_state, count, members_of
from ..base.errors import SECONDS, IntegrationError, positive
from ..integrators import Method
from ..scalars import Array
from ..stepping.drive import MANY, MOST_EVENTS, threads_of
from ..stepping.march import RAN, REASONS, STOPPED, Settings
from .parameters import ParametersOverTime
from .results import event_logs
from .system import HybridSystem


class HybridState:
    """A state of a hybrid system, or of an ensemble (...), between two intervals. It is immutable.

    t         time                                                                                       [s]
    q, v      configurations (..., nq) and velocities (..., nv)
    memory    parts of the memory by name, (..., *shape)
    ends      (...): why a member ended, "" while it goes on; a member that ended keeps its state
    events    events of the last interval, of guards and of event functions: an `EventLog`, of an ensemble a
              list. None at the start, and of a stepper without event functions
    """

    __slots__ = ("_last", "_number", "_reasons", "_y", "events", "stepper")

    def __init__(self, stepper: HybridStepper, number: int, y: Array, reasons: Array, last: Array) -> None:
        self.stepper = stepper
        self._number = number  # of intervals so far
        self._y = y  # flat states, (n, size)
        self._reasons = reasons  # codes of REASONS, (n,)
        self._last = last  # time of the last event of each guard, (n, guards)
        self.events: Any = None

    @property
    def t(self) -> float:
        return self._number * self.stepper.dt

    def __copy__(self) -> HybridState:
        return self.__deepcopy__({})

    def __deepcopy__(self, memo: Any) -> HybridState:
        """The same state of the same stepper, in new arrays."""
        arrays = (x.copy() for x in (self._y, self._reasons, self._last))
        new = HybridState(self.stepper, self._number, *arrays)
        new.events = copy.deepcopy(self.events, memo)
        return new

    def _read(self) -> tuple[Any, ...]:
        sim = self.stepper
        parameters = np.zeros(sim.system.parameters.size)  # q, v and memory do not depend on them
        return sim.system.read_flat(self.t, self._y.reshape(*sim.batch, -1), parameters)

    @property
    def q(self) -> Array:
        return self._read()[1]

    @property
    def v(self) -> Array:
        return self._read()[2]

    @property
    def memory(self) -> Any:
        return self._read()[3]

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
    ) -> None:
        self._arguments = system, dt, members, method, events, threads
        system, method = system.stepped_by(method)
        self.system = system = system.with_events(events or {})
        self.dt = positive("dt", dt, SECONDS)
        shape = members if isinstance(members, tuple) else (members,)
        self.batch = tuple(count("members", n) for n in shape)
        self._n = math.prod(self.batch)
        self.threads = threads_of(threads, self._n, MANY)
        self._flow = system.flow(method)
        self._settings = Settings(least=1e-7, limit=10**7, most=MOST_EVENTS if events else 0)
        names = system.guard_names, [*system.memory.defaults], [*system.parameters.defaults]
        # two steppers with the same identity take states from each other
        self._identity = type(system), system.name, system.nq, system.nv, names, repr(method), dt, self.batch

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

    def start(self, q0: Array, v0: Array = None, **memory: Any) -> HybridState:
        """The state at t = 0; q0, v0 and values of the memory are arrays for each member, or one for all."""
        y = self._start_states(q0, v0, memory, self.batch)
        last = np.full((self._n, max(1, len(self.system.guard_names))), -np.inf)
        return HybridState(self, 0, y, np.full(self._n, RAN), last)

    def reset(
        self, state: HybridState, members: Array, q0: Array, v0: Array = None, **memory: Any
    ) -> HybridState:
        """The same state, except for members (a mask, or indices of the ensemble) that start at q0, v0."""
        check_state(self, state, HybridState)
        which = members_of(np.arange(self._n).reshape(self.batch), members, self.batch)
        y = state._y.copy()
        reasons = state._reasons.copy()
        last = state._last.copy()
        y[which.ravel()] = self._start_states(q0, v0, memory, which.shape)
        reasons[which.ravel()] = RAN
        last[which.ravel()] = -np.inf
        return HybridState(self, state._number, y, reasons, last)

    def step(self, state: HybridState, parameters: Mapping[str, Any] | None = None) -> HybridState:
        """The state dt later.

        parameters  values that differ from the defaults: of their shape, or (..., *shape) for each member

        Members that stop, or cannot go on, end: see `HybridState.ends`. `TimeStepping` with a tolerance warns
        of steps that did not come to it (`contact.UnsolvedSteps`), and `state.memory.unsolved` counts them.
        """
        check_state(self, state, HybridState)
        u = self._samples(parameters or {}, self.batch)
        number = state._number + 1
        # The march runs over one interval. It gets from the state which events were last and which members
        # have ended, so that a motion does not depend on the intervals that it is cut into.
        m = self._flow.ensemble(state._y, [state.t, number * self.dt])
        m.last[:] = state._last
        m.clock["step"] = self.dt
        m.ends[state._reasons != RAN] = state.t, STOPPED
        self._flow.march(m, u, 2, self._settings, self.threads)
        reasons = np.where(state._reasons != RAN, state._reasons, m.ends[:, 1].astype(int))
        self.system.judge(state._y, m.y)
        new = HybridState(self, number, m.y, reasons, m.last)
        if self._settings.most:
            logs = event_logs(self.system, m)
            new.events = logs if self.batch else logs[0]
        return new

    def function(self, name: str = "step") -> Any:
        """Raises IntegrationError: a step of a hybrid system is no traced function."""
        raise IntegrationError(
            f"a step of {self.system.name} may have events, iterations and impacts, and is no straight code; "
            "of a robot without contacts, take lb.stepper(robot, dt=...).function()"
        )

    def _samples(self, values: Mapping[str, Any], batch: tuple[int, ...]) -> Any:
        """Parameters of an interval for members `batch`, with a step that divides the interval."""
        fitted = self.system.fitted(values, self.dt)
        return ParametersOverTime(fitted, {}, self.system.parameters).samples("zero", batch, self.dt)

    def _start_states(self, q0: Array, v0: Array, memory: Mapping[str, Any], batch: tuple[int, ...]) -> Array:
        q, v = self.system.checked_states(q0, v0)
        return self.system.start_states(q, v, self._samples({}, batch).at(0.0), memory, batch)
