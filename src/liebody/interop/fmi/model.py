"""A model as FMI sees it: flat arrays, functions of them, and a variable for each entry.

Hybrid systems and mechanisms become one kind of model. y = (memory, x) has the coordinates x that move, u the
inputs and parameters. It uses the functions of the compiled loops (`stepping.records`), dx/dt in coordinates,
and changes along directions.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...base.arguments import floats, wrong_shape
from ...base.errors import ModelError, ShapeError, known
from ...bodies import Labels, Parameter, labels_of
from ...compiler import FlatLayout, Function, Program, trace, traced
from ...groups import LieGroup, Product, R
from ...hybrid import HybridSystem, RobotSystem
from ...integrators import Method, coefficients
from ...mechanisms import Mechanism
from ...robot import derivatives
from ...scalars import Array
from ...simulation import states_of
from ...stepping import Coefficients

STEP = "step"
"""The name of the step of Co-Simulation among the parameters"""
RATES = {"rad": "rad/s", "m": "m/s", "rad/s": "rad/s2", "m/s": "m/s2", "1": "1/s"}
EFFORTS = {"rad/s": "N m", "m/s": "N"}


@dataclass(frozen=True)
class Variable:
    """A variable of a model: one number.

    kind   "state", "rate", "memory", "input", "parameter", "output", "guard"
    start  its value at the start; None: it is computed
    """

    name: str
    kind: str
    unit: str = ""
    start: float | None = None


@dataclass
class Model:
    """The functions and variables of a model; see the head of this module, and fmi.h for the functions.

    memory      how many entries of y do not move
    step_place  the place of the step in u
    size_of     for each entry of the algebra the entry of y that measures it; -1: its size is 1
    """

    name: str
    functions: dict[str, Function | Program]
    variables: list[Variable]
    method: Coefficients | None = None
    memory: int = 0
    coordinates: int = 0
    velocities: int = 0
    remembered: int = 0
    step_place: int = 0
    directions: Sequence[int] = ()
    terminal: Sequence[bool] = ()
    size_of: Sequence[int] = ()
    is_hybrid: bool = False
    is_controlled: bool = False
    flags: dict[str, bool] = field(default_factory=dict)

    def of_kind(self, *kinds: str) -> list[tuple[int, Variable]]:
        """Variables of these kinds with their numbers; number 0 is time."""
        return [(k, x) for k, x in enumerate(self.variables, start=1) if x.kind in kinds]

    def starts(self, *kinds: str) -> list[float]:
        """Values at the start of the variables of these kinds; 0 for those that are computed."""
        return [x.start or 0.0 for _, x in self.of_kind(*kinds)]


def structured(name: str) -> str:
    """A name in the structured naming convention of FMI: other characters than words and dots are quoted."""
    parts = [
        x if re.fullmatch(r"[A-Za-z_]\w*(\[\d+(,\d+)*\])?", x, re.ASCII) else _quoted(x)
        for x in name.split(".")
    ]
    return ".".join(parts)


def _quoted(part: str) -> str:
    safe = part.encode("ascii", "replace").decode().replace("\\", "\\\\").replace("'", "\\'")
    return f"'{safe}'"


def entries(name: str, value: Any) -> list[tuple[str, float]]:
    """Names and numbers of the entries of an array: K[1], K[2], ...; indices from 1, as Modelica has them."""
    array = np.asarray(value, float)
    if not array.ndim:
        return [(name, float(array))]
    places = np.ndindex(array.shape)
    return [(f"{name}[{','.join(str(i + 1) for i in place)}]", float(array[place])) for place in places]


def _settings(
    values: Mapping[str, Any], parameters: Mapping[str, Parameter], inputs: Collection[str] = ()
) -> list[Variable]:
    """Variables of parameters with these values: inputs if they are named, otherwise parameters.

    parameters  of the mechanism, which have units
    """
    settings = []
    for name, value in values.items():
        kind = "input" if name in inputs else "parameter"
        # a joint that turns and slides has a unit for each degree of freedom
        units = parameters[name].unit.split(", ") if name in parameters else [""]
        numbers = entries(name, value)
        units = units * len(numbers) if len(units) == 1 else units
        settings += [
            Variable(structured(n), kind, unit, x) for (n, x), unit in zip(numbers, units, strict=True)
        ]
    return settings


# -- functions that both kinds of models have ----------------------------------------------------------------


def _in_coordinates(group: LieGroup, memory: int, point: int, algebra: int) -> dict[str, Function]:
    """Functions of flat states y whose part behind the memory lies on a group."""

    def normalized(y: Array) -> Array:
        return np.concatenate([y[:memory], group.normalize(y[memory:])])

    def rate(y: Array, f: Array) -> Array:
        return group.coordinate_rate(y[memory:], f)

    return {
        "normalized": trace(normalized, {"y": point}, "normalized"),
        "rate": trace(rate, {"y": point, "f": algebra}, "rate"),
    }


def _with_changes(functions: dict[str, Function | Program]) -> dict[str, Function | Program]:
    """The functions; of those that derivatives of a model are made of, also changes and gradients."""
    wanted = {"normalized": ("y",), "rate": ("y", "f"), "field": ("y", "u"), "signals": ("y", "u")}
    changes = {
        f"{name}_{product}": derivatives(functions[name], wrt, product).function
        for name, wrt in wanted.items()
        if name in functions
        for product in ("jvp", "vjp")
    }
    return {**functions, **changes}


def _sizes(group: LieGroup, straight: int, point: int) -> list[int]:
    """The entry of y that measures each entry of the algebra: one in R^n, -1 (size 1) on the group.

    straight  how many of the last entries of y lie in R^n
    """
    return [-1] * group.dim + list(range(point - straight, point))


def _one_signal(outputs: Mapping[str, Array]) -> Array:
    """Signals as one flat array."""
    flat = [np.ravel(np.asarray(x, dtype=object)) for x in outputs.values()]
    return np.concatenate(flat) if flat else np.zeros(0)


def _signals(function: Function | Program, names: Collection[str]) -> Function:
    """The outputs of a function in one array."""
    whole = function.unroll() if isinstance(function, Program) else function

    def signals(*arrays: Any) -> Array:
        results = whole(*arrays)
        results = results if isinstance(results, tuple) else (results,)
        return _one_signal(dict(zip(names, results, strict=True)))

    return trace(signals, {key: x.shape for key, x in function.inputs.items()}, "signals")


# -- hybrid systems ------------------------------------------------------------------------------------------


def of_hybrid(
    system: HybridSystem,
    method: Method,
    dt: float,
    inputs: Collection[str],
    parameters: Mapping[str, Any],
    memory: Mapping[str, Any],
    start: tuple[Any, Any],
) -> Model:
    """The model of a hybrid system; `inputs` are parameters that the importer sets as functions of time."""
    if not system.has_field:
        raise ModelError(
            f"{system.name} takes steps of its own, as time stepping does, and has no vector field that "
            "FMI could integrate; export robot_system(robot, Contact(...)) with compliant contacts"
        )
    if system.calls:
        raise ModelError(
            f"{system.name} calls {system.calls[0].kernel.name} between steps, which is no part of an FMU; "
            "export the robot alone, and the controller by its export_c"
        )
    for name in inputs:
        if name not in system.parameters.defaults:
            raise ModelError(
                f"there is no parameter {name!r} to be an input; {known(system.parameters.defaults, name)}"
            )
    parts = system.flow(method).functions
    first = system.constant_memory.size
    q, v = system.checked_states(*start)
    if q.ndim != 1 or v.ndim != 1:
        raise ShapeError(f"q0 and v0 have shapes {q.shape} and {v.shape}, expected one state")
    z = system.memory.values(memory, ())
    point, algebra = first + system.moving_group.nq, system.moving_group.dim
    functions: dict[str, Function | Program] = {
        "field": parts.field,
        "advance": parts.advance,
        "look": parts.look,
        "after": parts.after,
        **_in_coordinates(system.moving_group, first, point, algebra),
    }
    if parts.pull is not None:
        functions["pull"] = parts.pull
    if system.guard_names:
        functions["guards"] = parts.guards
    names = system.output_kernel.outputs if system.output_kernel else {}
    if system.output_kernel:
        functions["signals"] = _signals(system.output_kernel.function, names)
    if system.start_kernel:
        functions["start"] = system.start_kernel.function

    coordinates, dofs = _labels(system)
    # a start that is computed from q, v and parameters gives the memory its first value
    computed = "start" in functions
    states = [*_states("q", coordinates, q), *_states("v", dofs, v)]
    remembered = system.memory.named(z)
    flowing = [pair for name in system.flowing_memory.defaults for pair in entries(name, remembered[name])]
    states += [Variable(structured(f"memory.{n}"), "state", "", x) for n, x in flowing]
    states += [Variable(structured(f"work.{n}"), "state", "J", 0.0) for n in system.power_names]
    constant = [pair for name in system.constant_memory.defaults for pair in entries(name, remembered[name])]
    values = {**system.parameters.defaults, **parameters}
    known_parameters = system.mechanism.parameters if isinstance(system, RobotSystem) else {}
    system.parameters.values(parameters, ())  # checks names and shapes
    settings = _settings(values, known_parameters, inputs)
    steps = [Variable("communication.step", "parameter", "s", dt)]
    signals = [
        Variable(structured(n), "output")
        for name, shape in names.items()
        for n, _ in entries(name, np.zeros(shape))
    ]
    guards = [Variable(structured(f"guard.{n}"), "guard") for n in system.guard_names]
    return Model(
        system.name,
        _with_changes(functions),
        [
            *states,
            *(_rate_of(x) for x in states),
            *(
                Variable(structured(f"memory.{n}"), "memory", "", None if computed else x)
                for n, x in constant
            ),
            *settings,
            *steps,
            *signals,
            *guards,
        ],
        coefficients(method),
        memory=first,
        coordinates=system.nq,
        velocities=system.nv,
        remembered=system.memory.size,
        step_place=system.parameters.size,
        directions=system.directions if system.guard_names else (),
        terminal=system.terminal if system.guard_names else (),
        size_of=_sizes(system.group, algebra - system.group.dim, point),
        is_hybrid=True,
    )


def _labels(system: HybridSystem) -> tuple[Labels, Labels]:
    """Names and units of q and v; numbers, where the coordinates have no names."""
    if hasattr(system, "tree") or hasattr(system, "labels"):
        return labels_of(system)
    return tuple(Labels(tuple(str(i + 1) for i in range(n)), ("",) * n) for n in (system.nq, system.nv))  # type: ignore[return-value]


def _states(letter: str, labels: Labels, values: Array) -> list[Variable]:
    """The states q or v: `q.elbow`, `v.base.wx`, and q[1] of coordinates without names."""
    names = [f"{letter}[{name}]" if name.isdigit() else f"{letter}.{name}" for name in labels.names]
    return [
        Variable(structured(name), "state", unit, float(x))
        for name, unit, x in zip(names, labels.units, np.ravel(values), strict=True)
    ]


def _rate_of(state: Variable) -> Variable:
    return Variable(f"der({state.name})", "rate", RATES.get(state.unit, ""))


# -- mechanisms ----------------------------------------------------------------------------------------------


def of_mechanism(
    mechanism: Mechanism,
    method: Method,
    dt: float,
    controlled: bool,
    stabilization: Any,
    parameters: Mapping[str, Any],
    start: tuple[Any, Any],
    outputs: Callable[..., Mapping[str, Any]] | None,
) -> Model:
    """The model of a mechanism: its efforts are inputs."""
    parts = mechanism.parts(mechanism.stabilization(stabilization, dt))
    p = mechanism.layout.values(parameters, ()) if mechanism.layout.size else np.zeros(0)
    if np.isnan(p).any():
        missing = [name for name, x in mechanism.layout.named(p).items() if np.isnan(x).any()]
        raise ModelError(
            f"{mechanism.name}: the parameters {', '.join(missing)} have no value; give parameters"
        )
    q, v, batch = states_of(mechanism, *start, p if mechanism.layout.size else np.zeros(0))
    if batch:
        raise ShapeError(f"q0 and v0 make an ensemble of shape {batch}, expected one state")
    nq, nv, nu = mechanism.nq, mechanism.nv, mechanism.nu
    group = Product(mechanism.group, R(nv))
    point, algebra = nq + nv, mechanism.group.dim + nv
    functions: dict[str, Function | Program] = {
        "field": parts.field(),
        "advance": parts.advance(),
        **_in_coordinates(group, 0, point, algebra),
    }
    table = coefficients(method)
    if table.pulled:
        functions["pull"] = parts.pull()
    if parts.after is not None:
        functions["settle"] = parts.after()
    names: dict[str, tuple[int, ...]] = {}
    if outputs is not None:
        functions["signals"], names = _user_signals(mechanism, outputs)

    coordinates, dofs = mechanism.labels
    states = [*_states("q", coordinates, q), *_states("v", dofs, v)]
    drives = mechanism.drives
    efforts = (
        list(zip(drives.names, drives.units, strict=True))
        if drives is not None
        else [(name, EFFORTS.get(unit, "")) for name, unit in zip(dofs.names, dofs.units, strict=True)]
    )
    free = mechanism.layout.named(p) if mechanism.layout.size else {}
    settings = [Variable(structured(f"tau.{name}"), "input", unit, 0.0) for name, unit in efforts]
    settings += _settings(free, mechanism.parameters)
    signals = [
        Variable(structured(n), "output")
        for name, shape in names.items()
        for n, _ in entries(name, np.zeros(shape))
    ]
    return Model(
        mechanism.name,
        _with_changes(functions),
        [
            *states,
            *(_rate_of(x) for x in states),
            *settings,
            Variable("communication.step", "parameter", "s", dt),
            *signals,
        ],
        table,
        coordinates=nq,
        velocities=nv,
        step_place=nu + mechanism.layout.size,
        size_of=_sizes(mechanism.group, nv, point),
        is_controlled=controlled,
    )


# -- functions -----------------------------------------------------------------------------------------------


def of_function(function: Function | Program, dt: float, start: Mapping[str, Any]) -> Model:
    """The model of a function without states, such as a controller: its arguments are inputs.

    start  values of arguments at the start, by name; default: zeros. An argument `t` () is the time
    """
    inputs = {key: x.shape for key, x in function.inputs.items() if key != "t"}
    unknown = [key for key in start if key not in inputs]
    if unknown:
        raise ModelError(f"{function.name} has no argument {unknown[0]!r}; {known(inputs, unknown[0])}")
    values = {key: floats(key, start.get(key, np.zeros(shape))) for key, shape in inputs.items()}
    for key, shape in inputs.items():
        if values[key].shape != shape:
            raise wrong_shape(f"{function.name}: {key}", values[key].shape, shape)
    layout = FlatLayout("argument", values)
    whole = function.unroll() if isinstance(function, Program) else function

    def signals(t: Any, y: Array, u: Array) -> Array:
        given = dict(zip(inputs, layout.read(u), strict=True))
        results = whole(*(t if key == "t" else given[key] for key in function.inputs))
        return _one_signal(dict(enumerate(results if isinstance(results, tuple) else (results,))))  # type: ignore[arg-type]

    sizes: dict[str, int | Sequence[int]] = {"t": (), "y": 1, "u": layout.size}
    functions: dict[str, Function | Program] = {"signals": trace(signals, sizes, "signals")}
    settings = [
        Variable(structured(n), "input", "", x)
        for key, value in values.items()
        for n, x in entries(key, value)
    ]
    outputs = [
        Variable(structured(n), "output")
        for key, y in function.outputs.items()
        for n, _ in entries(key, np.zeros(y.shape))
    ]
    steps = [Variable("communication.step", "parameter", "s", dt)]
    return Model(
        function.name, _with_changes(functions), [*settings, *steps, *outputs], step_place=layout.size
    )


def _user_signals(
    mechanism: Mechanism, outputs: Callable[..., Mapping[str, Any]]
) -> tuple[Function | Program, dict[str, tuple[int, ...]]]:
    """A user's outputs (t, q, v, u), or (t, q, v, u, p), as a function of (t, y, u), and their shapes."""
    nq, nu = mechanism.nq, mechanism.nu
    shapes: dict[str, tuple[int, ...]] = {}

    def signals(t: Any, y: Array, u: Array) -> Array:
        p = [mechanism.layout.read(u[nu:])] if mechanism.layout.size else []
        values = outputs(t, y[:nq], y[nq:], u[:nu], *p)
        if not isinstance(values, Mapping):
            raise ModelError(f"outputs returned {values!r}, expected a dictionary of names and values")
        shapes.update({name: np.shape(x) for name, x in values.items()})
        return _one_signal(values)

    size: dict[str, int | Sequence[int]] = {"t": (), "y": nq + mechanism.nv, "u": nu + mechanism.layout.size}
    return traced(signals, size, "signals", loops=mechanism.loops), shapes
