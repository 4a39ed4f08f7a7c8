"""Hybrid systems, one interval of time after the other, with parameters of one's own in between."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..base.arguments import check_state, count, members_of
from ..base.errors import SECONDS, IntegrationError, positive
from ..integrators import Method
from ..scalars import Array
from ..stepping.march import RAN, REASONS, STOPPED, Settings
from .system import Given, HybridSystem


class HybridState:
    """A state of a hybrid system, or of an ensemble (...), between two intervals. It does not change.

    t         time                                                                                       [s]
    q, v      configurations (..., nq) and velocities (..., nv)
    memory    its parts by name, (..., *shape)
    ends      (...): why a member ended, "" where it goes on; it stays where it was
    """

    __slots__ = ("_last", "_number", "_reasons", "_y", "stepper")

    def __init__(self, stepper: HybridStepper, number: int, y: Array, reasons: Array, last: Array) -> None:
        self.stepper, self._number, self._y, self._reasons, self._last = stepper, number, y, reasons, last

    @property
    def t(self) -> float:
        return self._number * self.stepper.dt

    def __copy__(self) -> HybridState:
        return self.__deepcopy__({})

    def __deepcopy__(self, memo: Any) -> HybridState:
        """The same state, in arrays of its own, of the same stepper."""
        arrays = (x.copy() for x in (self._y, self._reasons, self._last))
        return HybridState(self.stepper, self._number, *arrays)

    def _read(self) -> tuple[Any, ...]:
        sim = self.stepper
        parameters = np.zeros(sim.system.parameters.size)
        return sim.system._read(self.t, self._y.reshape(*sim.batch, -1), parameters)

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
    """Intervals of one length for a hybrid system; made by `liebody.stepper`.

        sim = lb.stepper(system, dt=0.02, members=256)
        state = sim.start(q0)
        state = sim.step(state, {"K_p": gains})              # gains (256,), held for 0.02 s
        state = sim.reset(state, state.ended, q0)

    Within an interval the system takes the steps that it chooses, or one of length dt; members are lanes of
    vectors and shares of `threads`, each with steps of its own. Time goes on for members that begin anew.

    Nothing of it changes: threads may share one, each with states of its own. Steppers and states can be
    copied and pickled, also together, as checkpoints.
    """

    def __init__(
        self,
        system: HybridSystem,
        dt: float,
        members: int | tuple[int, ...] = (),
        method: str | Method | None = None,
        threads: int = 1,
    ) -> None:
        self._given = system, dt, members, method, threads
        system, method = system.stepped_by(method)
        self.system, self.dt, self.threads = system, positive("dt", dt, SECONDS), count("threads", threads)
        shape = members if isinstance(members, tuple) else (members,)
        self.batch = tuple(count("members", n) for n in shape)
        self._flow, self._settings = system._flow(method), Settings(least=1e-7, limit=10**7)
        self._n = math.prod(self.batch)
        names = system.guard_names, [*system.memory.defaults], [*system.parameters.defaults]
        # what the states of two steppers have in common that take them from each other
        self._identity = type(system), system.name, system.nq, system.nv, names, repr(method), dt, self.batch

    def __reduce__(self) -> tuple[Any, ...]:
        """By what it was made of."""
        return HybridStepper, self._given

    def __copy__(self) -> HybridStepper:
        return self

    def __deepcopy__(self, memo: Any) -> HybridStepper:
        """Itself, because it does not change: it takes steps from copies of its states, too."""
        return self

    def takes(self, other: Any) -> bool:
        """Whether states of another stepper are states of this one: both were made of the same."""
        return bool(self._identity == other._identity)

    def start(self, q0: Array, v0: Array = None, **memory: Any) -> HybridState:
        """The state at t = 0; states, and values of the memory, of all members, or one for all."""
        y = self._points(q0, v0, memory, self.batch)
        last = np.full((self._n, max(1, len(self.system.guard_names))), -np.inf)
        return HybridState(self, 0, y, np.full(self._n, RAN), last)

    def reset(
        self, state: HybridState, members: Array, q0: Array, v0: Array = None, **memory: Any
    ) -> HybridState:
        """The same state, but for members (a mask or indices of the ensemble) that begin anew."""
        check_state(self, state, HybridState)
        which = members_of(np.arange(self._n).reshape(self.batch), members, self.batch)
        y, reasons, last = state._y.copy(), state._reasons.copy(), state._last.copy()
        y[which.ravel()] = self._points(q0, v0, memory, which.shape)
        reasons[which.ravel()], last[which.ravel()] = RAN, -np.inf
        return HybridState(self, state._number, y, reasons, last)

    def step(self, state: HybridState, parameters: Mapping[str, Any] | None = None) -> HybridState:
        """The state dt later; parameters that differ from the defaults are of their shape, or (..., *shape).

        Members that stop, or cannot go on, end: see `HybridState.ends`. `TimeStepping` with a tolerance warns
        of steps that did not come to it (`contact.UnsolvedSteps`), and `state.memory.unsolved` counts them.
        """
        check_state(self, state, HybridState)
        u, number = self._parameters(parameters or {}, self.batch), state._number + 1
        m = self._flow.ensemble(state._y, [state.t, number * self.dt])
        m.last[:] = state._last
        m.clock["step"] = self.dt
        m.ends[state._reasons != RAN] = state.t, STOPPED
        self._flow.march(m, u, 2, self._settings, self.threads)
        reasons = np.where(state._reasons != RAN, state._reasons, m.ends[:, 1].astype(int))
        self.system.judge(state._y, m.y)
        return HybridState(self, number, m.y, reasons, m.last)

    def function(self, name: str = "step") -> Any:
        """Raises IntegrationError: a step of a hybrid system is no traced function."""
        raise IntegrationError(
            f"a step of {self.system.name} may have events, iterations and impacts, and is no straight code; "
            "of a robot without contacts, take lb.stepper(robot, dt=...).function()"
        )

    def _parameters(self, given: Mapping[str, Any], batch: tuple[int, ...]) -> Any:
        given = self.system.fitted(given, self.dt)
        return Given(given, {}, self.system.parameters).samples("zero", batch, self.dt)

    def _points(self, q0: Array, v0: Array, memory: Mapping[str, Any], batch: tuple[int, ...]) -> Array:
        q, v = self.system._checked(q0, v0)
        return self.system._points(q, v, self._parameters({}, batch).at(0.0), memory, batch)
