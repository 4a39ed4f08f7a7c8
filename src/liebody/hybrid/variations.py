"""Derivatives of hybrid flows by where they start and by their parameters, events included.

Between events a variation x = (eta, dv, ...) of the state, eta = g^-1 dg on the group, obeys the linearised
equations

    eta' = dv - ad(v) eta,      dv' = df/dq eta + df/dv dv + df/dz dz + df/dp dp.

At an event of the guard g, members that start elsewhere arrive later by dt = -(dg x) / (dg/dt), and the
update r takes the variation to

    x+ = Dr (x + X- dt) - X+ dt                                   (the saltation matrix; X the vector field)

with everything of r that depends on time. So derivatives are as exact as the motion, in one simulation.

Leine, Nijmeijer (2004), Dynamics and Bifurcations of Non-Smooth Mechanical Systems, chapter 7.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..base.concurrency import cached_property
from ..base.errors import ModelError
from ..compiler import Function, Kernel, trace
from ..groups import AlongGroup, LieGroup, Product, R
from ..runs import EventLog, HybridRun, HybridStates
from ..scalars import Array, absolute, where
from .in_place import InPlaceOf, changed
from .system import HybridSystem

OF_MEMORY, OF_STATE, OF_TIME = "variation_of_memory", "variation", "delay"


class VariedSystem(InPlaceOf):
    """A hybrid system, with the derivatives of its flow carried along.

    system      a HybridSystem; every simulation of it is one of this, of the same options
    parameters  names of parameters by which to differentiate, too

    Columns of the derivatives are the directions (q (nv,), v (nv,), parameters) at the start, rows those of
    (q, v) later: left-trivialised, body-fixed. Smooth motion between events is assumed: where a force has a
    corner, as that of a contact that is held at zero, the derivative goes on along the branch taken.
    """

    def __init__(self, system: HybridSystem, parameters: Sequence[str] = ()) -> None:
        system.parameters.check(dict.fromkeys(parameters))
        if len(set(parameters)) < len(parameters):
            raise ModelError(f"parameters are {[*parameters]}; name each once")
        self._by = [system.parameters.fields[name] for name in parameters]
        self._m, self._k = system._still.size, system._flowing.size
        self._n = self._m + 2 * system.nv + self._k
        self._p = sum(system.parameters.defaults[name].size for name in parameters)
        self.columns = 2 * system.nv + self._p
        super().__init__(
            system,
            memory={
                OF_MEMORY: np.zeros((self._m, self.columns)),
                OF_TIME: np.zeros(self.columns),  # of the last event: how much later others arrive there
            },
            flows={OF_STATE: np.zeros((self._n - self._m, self.columns))},
            rates=self._all_rates,
            start=self._started,
            update=self._updated,
            name=f"{system.name}, varied",
        )

    # -- results --------------------------------------------------------------------------------------------

    def derivatives(self, of: HybridRun | EventLog) -> Array:
        """D (..., 2 nv, columns) of (q, v) at the samples of a run or the events of a log, at fixed times."""
        return of.memory[OF_STATE][..., : 2 * self.nv, :]

    def on_section(self, log: EventLog, parameters: Any = None) -> Array:
        """D (events, 2 nv, columns) of (q, v) at the events of one guard, wherever in time those happen.

        log         the events of one guard, in one direction, `run.events.of("apex")`
        parameters  those of the run that differ from the defaults

        D = x + X+ dt with the variation x at a fixed time, the rate X+ of the state after the event, and the
        delay dt of the event. It is the derivative of a return map if the start lies on its section; where
        an event changes the state, the section is that just after it.
        """
        if len(set(log.guard)) != 1:
            raise ModelError(
                f"events of one guard are needed, not of {sorted(set(log.guard))}; use log.of(...)"
            )
        return (
            self.derivatives(log) + self.state_rates(log, parameters)[..., None] * self.delays(log)[:, None]
        )

    def delays(self, log: EventLog) -> Array:
        """dt (events, columns): how much later members that start elsewhere arrive at these events."""
        return log.memory[OF_TIME]

    def state_rates(self, states: HybridStates | EventLog, parameters: Any = None) -> Array:
        """(dq, dv)/dt (..., 2 nv), left-trivialised, at the states of a run or the events of a log."""
        t, n = np.asarray(states.t), np.size(states.t)
        z = [np.reshape(states.memory[name], (n, -1)) for name in self.system.memory.type._fields]
        k = len(self.system._still.defaults)
        parts = [*z[:k], np.reshape(states.q, (n, -1)), np.reshape(states.v, (n, -1)), *z[k:]]
        y = np.concatenate(parts, axis=1)
        values = self.system.parameters.values(parameters or {}, ())
        u = np.broadcast_to(np.concatenate([values, [0.0]]), (n, self.system.parameters.size + 1))
        found = self._state_rates(t.reshape(n), y, u)[:, : 2 * self.nv]
        return found.reshape(*t.shape, 2 * self.nv)

    @cached_property
    def _state_rates(self) -> Kernel:
        """(t, y, u) -> rates of the state."""
        rest = np.zeros(self._n + 1 + self._p)
        return Kernel(trace(lambda t, y, u: self._rates_of(t, y, u, rest), self._inputs, "rates"))

    # -- the graphs that are differentiated -----------------------------------------------------------------

    @cached_property
    def _space(self) -> LieGroup:
        """Of the system's flat states, without works."""
        return Product(R(self._m), self.group, R(self.nv), R(self._k))

    @property
    def _inputs(self) -> dict[str, Any]:
        return {**self.system._shapes, "y": self._space.nq}

    def _moved(self, t: Any, y: Array, u: Array, s: Array) -> tuple[Any, ...]:
        """(t, q, v, z, p), moved by s = (memory, eta, dv, flows, dt, dp)."""
        y = self._space.integrate(y, s[: self._n])
        *at, p = self.system._read(t + s[self._n], y, u)
        return *at, changed(p, self._by, s[self._n + 1 :])

    def _traced(self, part: Callable[..., Array], name: str, **more: Any) -> Function:
        return trace(part, {**self._inputs, **more, "s": self._n + 1 + self._p}, name)

    @cached_property
    def _rates_of(self) -> Function:
        """(t, y, u, s) -> the rates (2 nv + k,) of the moved state."""

        def rates(t: Any, y: Array, u: Array, s: Array) -> Array:
            at = self._moved(t, y, u, s)
            flows = self.system.rates(*at) if self.system.rates else {}
            flow = self.system._flowing.write([flows[name] for name in self.system._flowing.defaults])
            return np.concatenate([at[2], np.asarray(self.system.vector_field(*at)), flow])

        return self._traced(rates, "rates")

    @cached_property
    def _rates_by(self) -> Function:
        return at_rest(self._rates_of)

    @cached_property
    def _guards_by(self) -> Function:
        def guards(t: Any, y: Array, u: Array, s: Array) -> Array:
            return self.system._guarded(self._moved(t, y, u, s))

        return at_rest(self._traced(guards, "guards"))

    @cached_property
    def _update_by(self) -> Function:
        """(t, y, u, e, direction) -> the change of (memory, eta, dv, flows) after an update."""

        def updated(t: Any, y: Array, u: Array, e: Array, s: Array) -> Array:
            here, there = (
                self._flat(*self.system._after_update(self._moved(t, y, u, x), e)[:3])
                for x in (np.zeros(self._n + 1 + self._p), s)
            )
            return self._space.difference(here, there)

        number = max(1, len(self.guard_names))
        return at_rest(self._traced(updated, "updated", e=number))

    # -- parts of the varied system -------------------------------------------------------------------------

    def _flat(self, q: Array, v: Array, z: Any) -> Array:
        """The flat state of the system itself, without works."""
        return self.system._write(q, v, z, np.zeros(0, int))

    def _flat_parameters(self, p: Any) -> Array:
        return np.concatenate([self.system.parameters.write(p), [0.0]])

    def _columns(self, X: Array) -> zip[tuple[Array, Array]]:
        """Each column of variations X (n, columns), with what of s stays along it: (dt, dp)."""
        fixed = np.concatenate([np.zeros((2 * self.nv, 1 + self._p)), np.eye(1 + self._p)[1:]])
        return zip(X.T, fixed, strict=True)

    def _carried(self, z: Any) -> zip[tuple[Array, Array]]:
        return self._columns(np.concatenate([getattr(z, OF_MEMORY), getattr(z, OF_STATE)]))

    def _all_rates(self, t: Any, q: Array, v: Array, z: Any, p: Any) -> dict[str, Any]:
        base, nv = self._memory(z), self.nv
        y, u = self._flat(q, v, base), self._flat_parameters(p)
        ad = self.group.ad(v)
        columns = []
        for x, fixed in self._carried(z):
            rate = self._rates_by(t, y, u, np.concatenate([x, fixed]))
            eta = rate[:nv] - ad @ x[self._m : self._m + nv]
            columns.append(np.concatenate([eta, rate[nv:]]))
        flows = self.system.rates(t, q, v, base, p) if self.system.rates else {}
        return {**flows, OF_STATE: np.stack(columns, axis=1)}

    def _updated(self, t: Any, q: Array, v: Array, z: Any, p: Any, events: Any) -> Any:
        base, m = self._memory(z), self._m
        y, u = self._flat(q, v, base), self._flat_parameters(p)
        e = np.array([*events]) if len(events) else np.zeros(1)
        q_, v_, z_, jumps = self.system._after_update((t, q, v, base, p), e)
        rates = (
            self._rates_of(t, at, u, np.zeros(self._n + 1 + self._p)) for at in (y, self._flat(q_, v_, z_))
        )
        before, after = (np.concatenate([np.zeros(m, int), rate]) for rate in rates)
        toward = self._guards_by(t, y, u, np.concatenate([before, [1.0], np.zeros(self._p)]))
        columns, delays = [], []
        for x, fixed in self._carried(z):
            change = self._guards_by(t, y, u, np.concatenate([x, fixed]))
            late: Any = 0.0
            for happened, g, g_ in zip(events, change, toward, strict=False):
                late = where(absolute(happened) > 0.5, -g / where(absolute(happened) > 0.5, g_, 1.0), late)
            arrived = np.concatenate([x + before * late, [late], fixed[1:]])
            new = self._update_by(t, y, u, e, arrived)
            if not jumps:  # q and v stay: their variations do
                state = slice(m, m + 2 * self.nv)
                new = np.concatenate([new[:m], arrived[state], new[state.stop :]])
            columns.append(new - after * late)
            delays.append(late)
        X = np.stack(columns, axis=1)
        found = {**z_._asdict(), OF_MEMORY: X[:m], OF_STATE: X[m:], OF_TIME: np.array(delays)}
        return q_, v_, z._replace(**found)

    def _started(self, t: Any, q: Array, v: Array, z: Any, p: Any) -> Any:
        base = self._memory(z)
        y, u = self._flat(q, v, base), self._flat_parameters(p)

        def start(t: Any, y: Array, u: Array, s: Array) -> Array:
            at = self._moved(t, y, u, s)
            z = self.system.start(*at) if self.system.start else at[3]
            return self.system.memory.write(z)

        by = at_rest(self._traced(start, "start"))
        state = slice(self._m, self._m + 2 * self.nv)
        X, columns = np.eye(self._n, self.columns, -self._m), []
        X[state.stop :] = 0
        for direction, fixed in self._columns(X):
            x = by(t, y, u, np.concatenate([direction, fixed]))
            columns.append(np.concatenate([x[: self._m], direction[state], x[self._m :]]))
        X = np.stack(columns, axis=1)
        begun = self.system.start(t, q, v, base, p) if self.system.start else base
        return z._replace(**begun._asdict(), **{OF_MEMORY: X[: self._m], OF_STATE: X[self._m :]})


def at_rest(function: Function) -> Function:
    """The derivative of function(..., s) at s = 0, along a direction: (..., direction)."""
    shapes = {key: x.shape for key, x in function.inputs.items()}
    return trace(AlongGroup(function).jvp(), shapes, f"{function.name}_along")
