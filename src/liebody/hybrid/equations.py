"""The equations of a hybrid system on flat arrays, traced for the compiled loop.

Users write the parts of a system as functions of (t, q, v, z, p), with named tuples z and p. The integrator
knows flat arrays alone: a state y and parameters u. `HybridEquations` translates between the two. Its section
"contract" has the members for the rest of the library: simulations, steppers, variations, systems in the
place of another one.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Self

import numpy as np

from ..base.arguments import event_attributes, short, takes_parameters, wrong_shape
from ..base.concurrency import Sendable, cached_property
from ..base.errors import ModelError, ShapeError
from ..base.texts import check_names
from ..bodies.labels import Labels
from ..compiler import Kernel, trace, traced
from ..compiler.programs.layout import FlatLayout
from ..groups import LieGroup, Product, R
from ..integrators import Method, coefficients
from ..runs import HybridStates
from ..scalars import Array
from ..stepping.hybrid import HybridFlow
from ..stepping.records import FlowCall, Retries

MOST_WATCHING = 8  # systems with further events that are kept with a system


@dataclass(frozen=True)
class KernelCall:
    """A compiled function that a system calls between steps, when it is due, and what becomes of its results.

    kernel   the function, in float64, such as a controller that solves a quadratic program
    due      (t, q, v, z, p) -> it is called before the step from here where this is positive
    ask      (t, q, v, z, p) -> the arrays that the kernel takes
    answer   (t, q, v, z, p, *results) -> the memory z after the call; flows keep their values
    """

    kernel: Kernel
    due: Callable[..., Any]
    ask: Callable[..., Sequence[Any]]
    answer: Callable[..., Any]


class HybridEquations(Sendable):
    """The parts of a hybrid system and their graphs, with the arguments and errors of `HybridSystem`."""

    def __init__(
        self,
        group: LieGroup,
        vector_field: Callable[..., Any],
        *,
        memory: Mapping[str, Any] | None = None,
        flows: Mapping[str, Any] | None = None,
        rates: Callable[..., Any] | None = None,
        start: Callable[..., Any] | None = None,
        parameters: Mapping[str, Any] | None = None,
        guards: Callable[..., Any] | None = None,
        directions: Mapping[str, int] | None = None,
        update: Callable[..., Any] | None = None,
        step: Callable[..., Any] | None = None,
        stop: Callable[..., Any] | None = None,
        powers: Callable[..., Any] | None = None,
        outputs: Callable[..., Any] | None = None,
        calls: Sequence[KernelCall] = (),
        name: str = "system",
    ) -> None:
        self.calls = tuple(calls)
        for call in self.calls:
            if call.kernel.dtype != np.float64:  # C gets its address, and passes doubles
                raise ModelError(
                    f"{name} calls {call.kernel.name}, which computes in {call.kernel.dtype}; compile it in "
                    "float64"
                )
        self.group = group
        self.name = name
        self.nq = group.nq
        self.nv = group.dim
        self.memory = FlatLayout("memory", {**(memory or {}), **(flows or {})})
        both = [name for name in flows or {} if name in (memory or {})]
        if both:
            raise ModelError(f"{both[0]!r} is the name of memory and of a flow; give each its own")
        self.constant_memory = FlatLayout("memory", memory or {})
        self.flowing_memory = FlatLayout("flow", flows or {})
        self.parameters = FlatLayout("parameter", parameters or {})

        self.vector_field = vector_field
        self.rates = rates
        self.start = start
        self.guards = guards
        self.update = update
        self.step = step
        self.stop = stop
        self.powers = powers
        self.outputs = outputs

        # parts name their results in the dictionaries that they return: a trace of a part finds the names
        if sorted(rated := self._names(rates)) != sorted(self.flowing_memory.defaults):
            raise ModelError(
                f"{name}: there are rates of {', '.join(rated) or 'nothing'} and flows "
                f"{', '.join(self.flowing_memory.defaults) or 'none'}; give each flow its rate"
            )
        self._guard_layout = FlatLayout("guard", dict.fromkeys(self._names(guards), 0.0))
        self.guard_names = tuple(self._guard_layout.defaults)
        self.power_names = tuple(self._names(powers))
        directions = dict(directions or {})
        self._guard_layout.check(directions)
        for guard, sign in directions.items():
            if sign not in (-1, 0, 1):
                raise ModelError(f"the direction of {guard!r} is {sign!r}, expected +1, -1, or 0 for both")
        self.directions = tuple(int(directions.get(guard, 0)) for guard in self.guard_names)
        self.terminal = (False,) * len(self.guard_names)

    def __repr__(self) -> str:
        return (
            f"HybridSystem({self.name!r} on {self.group}, memory {list(self.memory.defaults)}, "
            f"{len(self.parameters.defaults)} parameters, events {list(self.guard_names)})"
        )

    @property
    def events_type(self) -> Any:
        """The named tuples that say which guards have changed their signs."""
        return self._guard_layout.type

    def _names(self, part: Callable[..., Any] | None) -> list[str]:
        """The names in the dictionary that a part returns, found by tracing it."""
        if part is None:
            return []
        names: list[str] = []

        # the part runs once, on symbols; its values are not needed
        def keys(t: Any, y: Array, u: Array) -> Array:
            names.extend(dictionary_of(part, *self.read_flat(t, y, u)))
            return np.zeros(1)

        # the works are missing in y, because their names are not known yet
        size = self.memory.size + self.nq + self.nv
        trace(keys, {"t": (), "y": size, "u": self.parameters.size + 1}, "names")
        return names

    # -- the contract: flat states and the parts that are integrated ----------------------------------------
    #
    # A flat state is y = (constant memory, q, v, flowing memory, works); flat parameters are u = (p, step).
    # The integrator moves all of y but its head, the constant memory, which changes in updates only.
    # Further members of the contract are `constant_memory` and `flowing_memory`, the layouts of the two parts
    # of the memory, and `memory`, `parameters`, `guard_names`, `power_names`, `directions`, `terminal`.

    @cached_property
    def flat_shapes(self) -> dict[str, Any]:
        """Shapes of the arguments t, y, u of traced functions."""
        return {"t": (), "y": self.constant_memory.size + self.moving_group.nq, "u": self.parameters.size + 1}

    @cached_property
    def moving_group(self) -> LieGroup:
        """The group of the integrated part of y: q, v, flowing memory and works."""
        return Product(self.group, R(self.nv), R(self.flowing_memory.size + len(self.power_names)))

    def read_flat(self, t: Any, y: Array, u: Array) -> tuple[Any, ...]:
        """The arguments (t, q, v, z, p) of the parts, from y (..., size) and u (..., size)."""
        first = self.constant_memory.size
        end = first + self.nq + self.nv
        flowing = y[..., end : end + self.flowing_memory.size]
        # the names of the memory are in the same order: constant parts first
        z = [*self.constant_memory.read(y[..., :first]), *self.flowing_memory.read(flowing)]
        p = self.parameters.read(u[..., : self.parameters.size])
        return t, y[..., first : first + self.nq], y[..., first + self.nq : end], self.memory.type(*z), p

    def write_flat(self, q: Array, v: Array, z: Any, works: Array) -> Array:
        """The flat state y (size,); the inverse of `read_flat`."""
        k = len(self.constant_memory.defaults)
        constant = self.constant_memory.write(z[:k])
        return np.concatenate([constant, q, v, self.flowing_memory.write(z[k:]), works])

    def motion(self, *arguments: Any) -> tuple[Array, Array, Mapping[str, Any], Mapping[str, Any]]:
        """The integrated rates at (t, q, v, z, p): velocity of q, dv/dt, rates of the flows, powers."""
        rates = self.rates(*arguments) if self.rates else {}
        change = self.vector_field(*arguments)
        return arguments[2], change, rates, self.powers(*arguments) if self.powers else {}

    def guard_values(self, arguments: Sequence[Any]) -> Array:
        """Values of the guards at (t, q, v, z, p), (guards,); the constant 1 in a system without guards."""
        return _numbers("guards", (self.guards(*arguments) if self.guards else {}) or {"none": 1.0})

    def after_update(self, arguments: Sequence[Any], events: Any) -> tuple[Array, Array, Any, bool]:
        """q, v, z after the update at (t, q, v, z, p), and whether the update may change q or v."""
        _, q, v, z, _ = arguments
        if self.update is None:
            return q, v, z, False
        result = self.update(*arguments, self.events_type(*events[: len(self.guard_names)]))
        if isinstance(result, self.memory.type):
            return q, v, result, False
        if not isinstance(result, tuple) or len(result) != 3:
            raise ShapeError(f"update returned {short(result)}, expected z or (q, v, z)")
        # a result (q, v, z) may jump, even if it is equal to q, v at run time
        return *result, True

    def with_events(self, events: Mapping[str, Callable[..., Any]]) -> Self:
        """The same system, which is also watched for events of further functions, as of `simulate`.

        events  {name: event(t, q, v)}, or event(t, q, v, p) with the parameters of the system. They are
                guards that change nothing; their attributes `direction` and `terminal` are as in `simulate`
        """
        if not events:
            return self
        check_names("an event", events)
        both = [name for name in events if name in self.guard_names]
        if both:
            raise ModelError(f"{both[0]!r} is the name of a guard and of an event; give each its own")
        # Calls with the same functions share a system, and so its compiled loop.
        directions, terminal = event_attributes(events)
        key = (*events.items(), tuple(directions), tuple(terminal))
        if key not in self._watching:
            self._watching[key] = self._watched(events, directions, terminal)
            for oldest in [*self._watching][:-MOST_WATCHING]:
                self._watching.pop(oldest, None)
        return self._watching[key]

    def with_constant_tables(self) -> Self:
        """The same system, whose tables in memory are constants of its functions, with their defaults."""
        if not self.parameters.tables:
            return self
        other = copy.copy(self)
        other.parameters = self.parameters.with_constant_tables()
        for name in ("_flows", "_watching", "devices", "output_kernel", "start_kernel"):
            vars(other).pop(name, None)
        return other

    def _watched(
        self, events: Mapping[str, Callable[..., Any]], directions: Sequence[int], terminal: Sequence[bool]
    ) -> Self:
        """A copy of the system with these further guards."""
        own = self.guards

        def guards(t: Any, q: Array, v: Array, z: Any, p: Any) -> dict[str, Any]:
            values = {
                name: event(t, q, v, *([p] if takes_parameters(event) else []))
                for name, event in events.items()
            }
            return {**(own(t, q, v, z, p) if own else {}), **values}

        other = copy.copy(self)
        other.guards = guards
        other.guard_names = (*self.guard_names, *events)
        other.directions = (*self.directions, *directions)
        other.terminal = (*self.terminal, *terminal)
        other._guard_layout = FlatLayout("guard", dict.fromkeys(other.guard_names, 0.0))
        for name in ("_flows", "_watching", "devices"):  # those of this system watch its own guards only
            vars(other).pop(name, None)
        return other

    def advanced(self, x: Array, psi: Array) -> Array:
        """The point x exp(psi) of `moving_group`."""
        return self.moving_group.normalize(self.moving_group.integrate(x, psi))

    def touching(self, z: Any) -> dict[str, Array]:
        """Which points touch something, (..., points) each, by the name of the signal with their forces."""
        return {}

    def loop_functions(self) -> Any:
        """The repeated functions of field and outputs that become loops: the option `loops` of `traced`."""
        return False

    def retries(self) -> Retries | None:
        """The rule by which a step is repeated until its forces converge; None: it is taken once."""
        return None

    def flow(self, method: Method, single: bool = False) -> HybridFlow:
        """The compiled loop of this system with a method, in float32 or float64; each one is made once."""
        key = method, single
        if key not in self._flows:
            return self._flows.setdefault(key, self._make_flow(method, single))
        return self._flows[key]

    def described(self, states: HybridStates) -> dict[str, Any]:
        """Fields of a `Run` for these states: names of coordinates, energies, efforts, work."""
        coordinates, dofs = (
            Labels(tuple(f"{symbol}{i}" for i in range(n)), ("",) * n)
            for symbol, n in (("q", self.nq), ("v", self.nv))
        )
        return {"coordinates": coordinates, "dofs": dofs, "kinetic": None, "potential": None}

    # -- graphs ---------------------------------------------------------------------------------------------

    @cached_property
    def _flows(self) -> dict[Any, HybridFlow]:
        return {}

    @cached_property
    def devices(self) -> dict[Any, Any]:
        """The system on CUDA devices, by its flows (`hybrid.device`)."""
        return {}

    @cached_property
    def _watching(self) -> dict[Any, Any]:
        """The systems that `with_events` has made, by the events."""
        return {}

    def _make_flow(self, method: Method, single: bool) -> HybridFlow:
        """Functions of (t, y, u), which are traced when the loop is first needed."""
        first = self.constant_memory.size  # where the integrated part of y begins
        works = len(self.power_names)
        shapes = self.flat_shapes
        size = shapes["y"]

        # the rate in the algebra of the integrated part of y
        def velocity(t: Any, y: Array, u: Array) -> Array:
            v, change, rates, powers = self.motion(*self.read_flat(t, y, u))
            change = np.asarray(change)
            if change.shape != (self.nv,):
                raise wrong_shape("the result of vector_field", change.shape, f"dv/dt, ({self.nv},)")
            flat_rates = self.flowing_memory.write([rates[name] for name in self.flowing_memory.defaults])
            if flat_rates.shape != (self.flowing_memory.size,):
                size = self.flowing_memory.size
                raise wrong_shape("the result of rates", flat_rates.shape, f"rates of the memory, ({size},)")
            return np.concatenate([v, change, flat_rates, _numbers("powers", powers)])

        # the state after a step psi in the algebra: the constant memory stays
        def advance(y: Array, psi: Array) -> Array:
            return np.concatenate([y[:first], self.advanced(y[first:], psi)])

        # rates f at y exp(psi), pulled back to the algebra at y: for Runge-Kutta-Munthe-Kaas methods
        def pull(psi: Array, f: Array) -> Array:
            return self.moving_group.dexp_inverse_times(-psi, f)

        def guards(t: Any, y: Array, u: Array) -> Array:
            return self.guard_values(self.read_flat(t, y, u))

        def look(t: Any, y: Array, u: Array) -> tuple[Any, ...]:
            """Guards, step from here and stopping value, which the loop needs at the start of each step."""
            arguments = self.read_flat(t, y, u)
            h = self.step(*arguments) if self.step else u[-1]
            return guards(t, y, u), h, self.stop(*arguments) if self.stop else 0.0

        def after(t: Any, y: Array, u: Array, e: Array) -> tuple[Any, ...]:
            """The state after the update, which leaves the works, and what `look` says of it."""
            q, v, z, _ = self.after_update(self.read_flat(t, y, u), e)
            y = self.write_flat(q, v, z, y[size - works :])
            if y.shape != (size,):
                raise ShapeError("update must return z, or (q, v, z), of the shapes it was given")
            return y, *look(t, y, u)

        def called(call: KernelCall) -> FlowCall:
            def due(t: Any, y: Array, u: Array) -> Array:
                return np.reshape(call.due(*self.read_flat(t, y, u)), 1)

            def ask(t: Any, y: Array, u: Array) -> tuple[Any, ...]:
                inputs, arrays = call.kernel.inputs, tuple(call.ask(*self.read_flat(t, y, u)))
                if len(arrays) != len(inputs):
                    raise ShapeError(
                        f"{call.kernel.name} is asked with {len(arrays)} arrays, expected {len(inputs)}: "
                        f"{', '.join(inputs)}"
                    )
                return tuple(
                    _shaped(f"{call.kernel.name}: {key}", x, inputs[key])
                    for key, x in zip(inputs, arrays, strict=True)
                )

            def answer(t: Any, y: Array, u: Array, *results: Array) -> tuple[Any, ...]:
                z = call.answer(*self.read_flat(t, y, u), *results)
                constant = self.constant_memory.write(z[: len(self.constant_memory.defaults)])
                y = np.concatenate([_shaped("memory after a call", constant, (first,)), y[first:]])
                g, h, _ = look(t, y, u)
                return y, g, h

            # an input of a kernel may be called t, y or u
            results = {f"r{k}": shape for k, shape in enumerate(call.kernel.outputs.values())}
            return FlowCall(
                call.kernel,
                partial(trace, due, shapes, "due"),
                partial(trace, ask, shapes, "ask"),
                partial(trace, answer, {**shapes, **results}, "answer"),
            )

        algebra = self.moving_group.dim
        events = max(1, len(self.guard_names))  # a system without guards has the constant one
        return HybridFlow(
            partial(traced, velocity, shapes, "field", loops=self.loop_functions()),
            partial(trace, advance, {"y": size, "psi": algebra}, "advance"),
            partial(trace, pull, {"psi": algebra, "f": algebra}, "pull"),
            partial(trace, guards, shapes, "guards"),
            partial(trace, look, shapes, "look"),
            partial(trace, after, {**shapes, "e": events}, "after"),
            coefficients(method),
            self.directions or (0,),
            self.terminal,
            retries=self.retries(),
            calls=[called(call) for call in self.calls],
            single=single,
        )

    @cached_property
    def output_kernel(self) -> Kernel | None:
        """(t, y, u) -> the outputs; None in a system without outputs."""
        if self.outputs is None:
            return None
        outputs = self.outputs

        def signals(t: Any, y: Array, u: Array) -> dict[str, Any]:
            values = dictionary_of(outputs, *self.read_flat(t, y, u))
            return {name: np.asarray(x) for name, x in values.items()}

        return Kernel(traced(signals, self.flat_shapes, "outputs", loops=self.loop_functions()))

    @cached_property
    def start_kernel(self) -> Kernel | None:
        """(q, v, z, u) -> the memory at the start, by `start`; None in a system without it."""
        if self.start is None:
            return None
        start = self.start

        def memory(q: Array, v: Array, z: Array, u: Array) -> Array:
            p = self.parameters.read(u[: self.parameters.size])
            return self.memory.write(start(0.0, q, v, self.memory.read(z), p))

        shapes = {"q": self.nq, "v": self.nv, "z": self.memory.size, "u": self.flat_shapes["u"]}
        return Kernel(trace(memory, shapes, "start"))


def _shaped(what: str, given: Any, shape: tuple[int, ...]) -> Array:
    """An array of this shape; raises ShapeError for another."""
    array = np.asarray(given)
    if array.shape != shape:
        raise wrong_shape(what, array.shape, str(shape))
    return array


def dictionary_of(part: Callable[..., Any], *arguments: Any) -> Mapping[str, Any]:
    """The dictionary that a part returns; raises ModelError for anything else."""
    values = part(*arguments)
    if not isinstance(values, Mapping):
        name = getattr(part, "__name__", part)
        raise ModelError(f"{name} must return a dictionary of names and values, not {values!r}")
    return values


def _numbers(part: str, values: Mapping[str, Any]) -> Array:
    """The values that a part has returned, as an array; raises ShapeError for values that are arrays."""
    for name, x in values.items():
        if np.shape(x):
            raise ShapeError(f"{part} returned {name!r} of shape {np.shape(x)}, expected single numbers")
    return np.array([np.asarray(x)[()] for x in values.values()])
