"""Derivatives of hybrid flows by their initial states and by their parameters, events included.

Between events a variation x = (eta, dv, ...) of the state, eta = g^-1 dg on the group, obeys the linearised
equations

    eta' = dv - ad(v) eta,      dv' = df/dq eta + df/dv dv + df/dz dz + df/dp dp.

At an event of the guard g, members that start elsewhere arrive later by dt = -(dg x) / (dg/dt), and the
update r takes the variation to

    x+ = Dr (x + X- dt) - X+ dt                                   (the saltation matrix; X the vector field)

where Dr includes the derivative of r by time. So derivatives are as exact as the motion, in one simulation.

Leine, Nijmeijer (2004), Dynamics and Bifurcations of Non-Smooth Mechanical Systems, chapter 7.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..base.concurrency import cached_property
from ..base.errors import ModelError
from ..compiler import Function, Kernel, trace
from ..groups import LieGroup, Product, R, along_direction
from ..runs import EventLog, HybridRun, HybridStates
from ..scalars import Array, absolute, where
from .in_place import ExtendedSystem, with_changes
from .system import HybridSystem

OF_MEMORY, OF_STATE, OF_TIME = "variation_of_memory", "variation", "delay"


class VariedSystem(ExtendedSystem):
    """A hybrid system, with the derivatives of its flow carried along.

    system      a HybridSystem; this system can be simulated with the same options
    parameters  names of parameters by which to differentiate, too

    Columns of the derivatives are the directions (q (nv,), v (nv,), parameters) at the start, rows the
    changes of (q, v) later: left-trivialised, body-fixed. Smooth motion between events is assumed: at a
    corner of a force, for instance of a contact force that is held at zero, the derivative follows the branch
    that the motion takes.
    """

    def __init__(self, system: HybridSystem, parameters: Sequence[str] = ()) -> None:
        system.parameters.check(dict.fromkeys(parameters))
        if tables := [name for name in parameters if name in system.parameters.tables]:
            raise ModelError(
                f"the parameter {tables[0]!r} is a table in memory, by which nothing is differentiated; "
                "leave it out, or give its values as numbers while tracing"
            )
        if len(set(parameters)) < len(parameters):
            raise ModelError(f"parameters are {[*parameters]}; name each once")
        self._varied_fields = [system.parameters.fields[name] for name in parameters]
        # Sizes of a variation x = (constant memory, eta, dv, flows), and of the seed s = (x, dt, dp) along
        # which functions are differentiated.
        self._n_memory = system.constant_memory.size
        self._n_flows = system.flowing_memory.size
        self._n = self._n_memory + 2 * system.nv + self._n_flows
        self._n_parameters = sum(system.parameters.defaults[name].size for name in parameters)
        self._n_seed = self._n + 1 + self._n_parameters
        self.columns = 2 * system.nv + self._n_parameters
        super().__init__(
            system,
            memory={
                OF_MEMORY: np.zeros((self._n_memory, self.columns)),
                OF_TIME: np.zeros(self.columns),  # delays of the last event: how much later others arrive
            },
            flows={OF_STATE: np.zeros((self._n - self._n_memory, self.columns))},
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
        parameters  the run's values of parameters that differ from the defaults

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
        t = np.asarray(states.t)
        n = t.size
        z = [np.reshape(states.memory[name], (n, -1)) for name in self.system.memory.type._fields]
        k = len(self.system.constant_memory.defaults)
        q, v = (np.reshape(x, (n, -1)) for x in (states.q, states.v))
        y = np.concatenate([*z[:k], q, v, *z[k:]], axis=1)
        values = self.system.parameters.values(parameters or {}, ())
        u = np.broadcast_to(np.concatenate([values, [0.0]]), (n, self.system.parameters.size + 1))
        rates = self._state_rates(t.reshape(n), y, u)[:, : 2 * self.nv]
        return rates.reshape(*t.shape, 2 * self.nv)

    @cached_property
    def _state_rates(self) -> Kernel:
        """(t, y, u) -> rates of the state."""
        rest = np.zeros(self._n_seed)
        return Kernel(trace(lambda t, y, u: self._rates_of(t, y, u, rest), self._inputs, "rates"))

    # -- the graphs that are differentiated -----------------------------------------------------------------
    #
    # Each graph is a function of a seed s that moves its arguments, differentiated at s = 0. So it is traced
    # and differentiated once, and evaluated once for each column.

    @cached_property
    def _space(self) -> LieGroup:
        """The group of the system's flat states, without works."""
        return Product(R(self._n_memory), self.group, R(self.nv), R(self._n_flows))

    @property
    def _inputs(self) -> dict[str, Any]:
        return {**self.system.flat_shapes, "y": self._space.nq}

    def _moved(self, t: Any, y: Array, u: Array, s: Array) -> tuple[Any, ...]:
        """(t, q, v, z, p), moved by s = (memory, eta, dv, flows, dt, dp)."""
        y = self._space.integrate(y, s[: self._n])
        *state, p = self.system.read_flat(t + s[self._n], y, u)
        return *state, with_changes(p, self._varied_fields, s[self._n + 1 :])

    def _traced(self, part: Callable[..., Array], name: str, **more: Any) -> Function:
        return trace(part, {**self._inputs, **more, "s": self._n_seed}, name)

    @cached_property
    def _rates_of(self) -> Function:
        """(t, y, u, s) -> the rates (2 nv + flows,) of the moved state."""

        def rates(t: Any, y: Array, u: Array, s: Array) -> Array:
            arguments = self._moved(t, y, u, s)
            flows = self.system.rates(*arguments) if self.system.rates else {}
            layout = self.system.flowing_memory
            flat_flows = layout.write([flows[name] for name in layout.defaults])
            return np.concatenate(
                [arguments[2], np.asarray(self.system.vector_field(*arguments)), flat_flows]
            )

        return self._traced(rates, "rates")

    @cached_property
    def _rates_along(self) -> Function:
        """(t, y, u, direction) -> the change of the rates."""
        return along_direction(self._rates_of)

    @cached_property
    def _guards_along(self) -> Function:
        """(t, y, u, direction) -> the change of the guards' values."""

        def guards(t: Any, y: Array, u: Array, s: Array) -> Array:
            return self.system.guard_values(self._moved(t, y, u, s))

        return along_direction(self._traced(guards, "guards"))

    @cached_property
    def _update_along(self) -> Function:
        """(t, y, u, e, direction) -> the change of (memory, eta, dv, flows) after an update."""

        def updated(t: Any, y: Array, u: Array, e: Array, s: Array) -> Array:
            here, there = (
                self._flat(*self.system.after_update(self._moved(t, y, u, x), e)[:3])
                for x in (np.zeros(self._n_seed), s)
            )
            return self._space.difference(here, there)

        number = max(1, len(self.guard_names))
        return along_direction(self._traced(updated, "updated", e=number))

    # -- parts of the varied system -------------------------------------------------------------------------

    def _flat(self, q: Array, v: Array, z: Any) -> Array:
        """The flat state of the original system, without works."""
        return self.system.write_flat(q, v, z, np.zeros(0, int))

    def _flat_parameters(self, p: Any) -> Array:
        """Flat parameters of the original system; no part depends on the step, which is 0 here."""
        return np.concatenate([self.system.parameters.write(p), [0.0]])

    def _columns(self, X: Array) -> zip[tuple[Array, Array]]:
        """Each column of variations X (n, columns), with the rest (dt, dp) of its seed, which is constant."""
        k = self._n_parameters
        fixed = np.concatenate([np.zeros((2 * self.nv, 1 + k)), np.eye(1 + k)[1:]])
        return zip(X.T, fixed, strict=True)

    def _carried(self, z: Any) -> zip[tuple[Array, Array]]:
        """The columns of the variation in the memory z."""
        return self._columns(np.concatenate([getattr(z, OF_MEMORY), getattr(z, OF_STATE)]))

    def _all_rates(self, t: Any, q: Array, v: Array, z: Any, p: Any) -> dict[str, Any]:
        base = self.original_memory(z)
        y = self._flat(q, v, base)
        u = self._flat_parameters(p)
        nv = self.nv
        ad = self.group.ad(v)
        columns = []
        for x, fixed in self._carried(z):
            rate = self._rates_along(t, y, u, np.concatenate([x, fixed]))
            eta = rate[:nv] - ad @ x[self._n_memory : self._n_memory + nv]
            columns.append(np.concatenate([eta, rate[nv:]]))
        flows = self.system.rates(t, q, v, base, p) if self.system.rates else {}
        return {**flows, OF_STATE: np.stack(columns, axis=1)}

    def _updated(self, t: Any, q: Array, v: Array, z: Any, p: Any, events: Any) -> Any:
        base = self.original_memory(z)
        m = self._n_memory
        y = self._flat(q, v, base)
        u = self._flat_parameters(p)
        e = np.array([*events]) if len(events) else np.zeros(1)
        q_new, v_new, z_new, jumps = self.system.after_update((t, q, v, base, p), e)
        # X- and X+: rates of (memory, state) before and after the update; constant memory has none
        rates = (
            self._rates_of(t, state, u, np.zeros(self._n_seed))
            for state in (y, self._flat(q_new, v_new, z_new))
        )
        before, after = (np.concatenate([np.zeros(m, int), rate]) for rate in rates)
        # dg/dt along the motion: in time and with the rates before the event
        guard_rates = self._guards_along(
            t, y, u, np.concatenate([before, [1.0], np.zeros(self._n_parameters)])
        )
        columns, delays = [], []
        for x, fixed in self._carried(z):
            # The delay is the quotient of the guard that had the event, and 0 at the end of a step without
            # events. A guard without event may have the rate 0: its denominator is replaced by 1.
            changes = self._guards_along(t, y, u, np.concatenate([x, fixed]))
            delay: Any = 0.0
            for event, g, g_rate in zip(events, changes, guard_rates, strict=False):
                at_event = absolute(event) > 0.5
                delay = where(at_event, -g / where(at_event, g_rate, 1.0), delay)
            # the saltation: to the event of the neighbour, through the update, and back to the common time
            arrived = np.concatenate([x + before * delay, [delay], fixed[1:]])
            new = self._update_along(t, y, u, e, arrived)
            if not jumps:  # q and v stay, and so do their variations, without an error of the difference
                state = slice(m, m + 2 * self.nv)
                new = np.concatenate([new[:m], arrived[state], new[state.stop :]])
            columns.append(new - after * delay)
            delays.append(delay)
        X = np.stack(columns, axis=1)
        memory = {**z_new._asdict(), OF_MEMORY: X[:m], OF_STATE: X[m:], OF_TIME: np.array(delays)}
        return q_new, v_new, z._replace(**memory)

    def _started(self, t: Any, q: Array, v: Array, z: Any, p: Any) -> Any:
        m = self._n_memory
        base = self.original_memory(z)
        y = self._flat(q, v, base)
        u = self._flat_parameters(p)

        def start(t: Any, y: Array, u: Array, s: Array) -> Array:
            arguments = self._moved(t, y, u, s)
            memory = self.system.start(*arguments) if self.system.start else arguments[3]
            return self.system.memory.write(memory)

        start_along = along_direction(self._traced(start, "start"))
        # The state varies along unit vectors. Memory and flows do not vary by themselves, but `start` may
        # make them depend on the state and the parameters.
        state = slice(m, m + 2 * self.nv)
        X = np.eye(self._n, self.columns, -m)
        X[state.stop :] = 0
        columns = []
        for direction, fixed in self._columns(X):
            x = start_along(t, y, u, np.concatenate([direction, fixed]))
            columns.append(np.concatenate([x[:m], direction[state], x[m:]]))
        X = np.stack(columns, axis=1)
        memory = self.system.start(t, q, v, base, p) if self.system.start else base
        return z._replace(**memory._asdict(), **{OF_MEMORY: X[:m], OF_STATE: X[m:]})
