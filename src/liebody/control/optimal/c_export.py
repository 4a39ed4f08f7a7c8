"""A controller of optimal control as one C file: plans in memory of the caller, made again at each call."""

from __future__ import annotations

import copy
import ctypes
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

from ...base.errors import ModelError
from ...compiler.printers import BYTES_PER_STATEMENT, constant_table, memory_of, number_type
from ...io import (
    COARSE,
    LEAST_FLOAT,
    UNKNOWN,
    About,
    Difference,
    c_comment,
    c_prefix,
    host_library,
    is_single,
    warn_if_coarse,
    word_of_c,
    write_c,
)
from ...scalars import Array
from ...stepping import STATUSES, linearisations, plan_c99, plan_memory
from . import lagrangian
from .plan import Planner

CALLS = 5  # calls of the self-test, a closed loop
MEASURED = 20  # calls in which float32 is compared with float64
AWAY = 1e-3  # deviations of its states from the plan: of tangents, and ten times as much of velocities
TOLERANCE = 1e-9  # relative difference of inputs and costs, at least
TIMES_ROUND_OFF = 1e3  # the tolerance as a multiple of what the last digits of the state change
SETTINGS = {
    "PENALTY": lagrangian.PENALTY,
    "STIFFER": lagrangian.STIFFER,
    "STIFFEST": lagrangian.STIFFEST,
    "PENALTIES": lagrangian.PENALTIES,
    "SLOW": lagrangian.SLOW,
    "LITTLE": lagrangian.LITTLE,
    "LOOSE": lagrangian.LOOSE,
    "TIGHTER": lagrangian.TIGHTER,
    "FEW": lagrangian.FEW,
    "MOST": lagrangian.MOST,
    "LONG": lagrangian.LONG,
    "SHORT": lagrangian.SHORT,
    "ANEW": lagrangian.ANEW,
    "FAR": lagrangian.FAR,
}
POINTERS = 1400  # bytes of the structures of a search, which point into the memory
FIXED_CODE = 9000  # bytes of runtime/plan.h, descent.h and shooting.h
FIELDS = {  # of the memory, in its order, with their comments
    "x": "states (q, v) of knots 0 ... N",
    "u": "inputs between them",
    "k": "what the last iteration would change of them",
    "K": "gains (N, m, n): near the states, the best inputs are u + K d",
    "p": "parameters of knots, then mu and multipliers",
    "slopes": "derivatives of the cost to go",
    "models": "gap, cost, and derivatives of each knot",
    "end": "cost of the last state, with derivatives",
    "states": "what the last step length led to",
    "inputs": "",
    "stage": "distances to bounds of constraints, next multipliers",
    "terminal": "",
    "scratch": "matrices of one knot",
}
RULES = """
Arrays are row-major arrays of {real}, whose shapes stand beside them; ..._SIZE is how many
numbers they hold. Units are SI. Quaternions are (w, x, y, z). Velocities are left-trivialised:
those of a free or spherical joint are in the axes of its body.
The memory belongs to the caller and holds all that is kept between calls; it may be copied, and
one motion needs one. Nothing is allocated, and there is no other state: threads may call at once,
with a memory each. math.h and string.h are all that is needed.
Arguments are not checked; where they or the plan are no numbers, the status is FAILED and the
inputs are those of the last plan at this time, or zero within the bounds if there is none.
Bytes of stack are those of the text as it stands; compilers that optimise take up to twice as
many and 256 more. Bytes of code are an estimate, {bytes} for each operation and result, for Thumb-2
with a floating-point unit that has {real}."""


class ControllerOptions(Protocol):
    """The options of a `Controller` that its export needs."""

    problem: Planner
    knots: int
    iterations: int | None
    tolerance: float
    feasibility: float
    first_iterations: int


class Recorded(NamedTuple):
    """A call of a controller in the self-test.

    q, v       the state
    inputs     computed by the controller in Python
    cost       of its plan
    tolerance  relative difference of inputs and cost that round-off explains
    """

    q: Array
    v: Array
    inputs: Array
    cost: float
    tolerance: float


def export_controller(
    controller: Any,
    folder: str | Path,
    name: str,
    start: tuple[Any, Any],
    parameters: Mapping[str, Any] | None,
    dtype: Any,
) -> list[Path]:
    """`Controller.export_c`, whose docstring says more."""
    single = is_single(dtype)
    layout = controller.problem.layout
    if layout.tables:
        raise ModelError(
            f"parameters {', '.join(sorted(layout.tables))} are tables, which C has no memory for; let the "
            "functions hold them as constants"
        )
    rounded = number_type(single).dtype
    p = layout.values(parameters or {}, ()).astype(rounded).astype(float)
    calls = recorded(controller, start, parameters, rounded, MEASURED if single else CALLS)
    part = _ExportedController(c_prefix(name), controller, calls, p, single)
    if single and part.difference:
        warn_if_coarse(f"inputs of {part.name}", part.difference)
    lines = [f"{key}: from {place.start}" for key, place in layout.places.items()]
    about = About(["Parameters:", *lines] if lines else [])
    rules = RULES.format(real=part.real, bytes=BYTES_PER_STATEMENT)
    return write_c(folder, part.prefix, [part], about, rules)


def recorded(
    controller: Any, start: tuple[Any, Any], parameters: Mapping[str, Any] | None, dtype: Any, count: int
) -> list[Recorded]:
    """Calls in states near those that are planned, with what another round-off would change.

    dtype  a type of numbers, which hold the states exactly
    count  number of calls
    """
    mechanism = controller.problem.mechanism
    rng = np.random.default_rng(0)
    follower = _copied(controller)
    other = _copied(controller)
    calls: list[Recorded] = []
    q, v = start
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(count):
            q, v = (None if x is None else np.asarray(x, dtype).astype(float) for x in (q, v))
            follower(q, v, parameters)
            plan = follower.plan
            # the same controller in a state that differs in its last digits
            last_digits = np.finfo(float).eps * rng.standard_normal((2, mechanism.nv))
            near = mechanism.group.integrate(plan.q[0], last_digits[0]), plan.v[0] + last_digits[1]
            other(*near, parameters)
            inputs, others = plan.u[0], other.plan.u[0]
            changes = np.abs(inputs - others).max() / max(1.0, np.abs(inputs).max())
            changes = max(changes, abs(plan.cost - other.plan.cost) / max(1.0, abs(plan.cost)))
            tolerance = max(TOLERANCE, float(f"{TIMES_ROUND_OFF * changes:.1e}"))
            calls.append(Recorded(plan.q[0], plan.v[0], inputs, plan.cost, tolerance))
            q = mechanism.group.integrate(plan.q[1], AWAY * rng.standard_normal(mechanism.nv))
            v = plan.v[1] + 10 * AWAY * rng.standard_normal(mechanism.nv)
    return calls


def _copied(controller: Any) -> Any:
    """A controller of the same problem, without a plan."""
    controller = copy.copy(controller)
    controller.reset()
    return controller


class _ExportedController:
    """The functions of a controller as they go into the files; an `ExportedPart`."""

    key = "mpc"

    def __init__(
        self, prefix: str, controller: ControllerOptions, calls: Sequence[Recorded], p: Array, single: bool
    ) -> None:
        self.prefix = prefix
        self.name = f"{prefix}_mpc"
        self.number = number_type(single)
        self.real = self.number.name
        self._controller = controller
        self._calls = calls
        self._p = p
        self._functions, self._shape = controller.problem.in_c(controller.knots)
        self.memory = plan_memory(self._functions, self._shape)
        settings = SETTINGS | {
            "DT": controller.problem.dt,
            "TOLERANCE": controller.tolerance,
            "FEASIBILITY": controller.feasibility,
            "ITERATIONS": controller.iterations or 0,
            "FIRST_ITERATIONS": controller.first_iterations,
        }
        types = f"{self.name}_memory", f"{self.name}_result"
        body = plan_c99(self._functions, self._shape, settings, types, single)
        self.text = "\n".join([body, *self._entries()])
        self.difference: Difference | None = None
        self._tolerances = [call.tolerance for call in calls[:CALLS]]
        if single:
            self._compare_floats()
        self.comparisons = 2 * len(self._tolerances)

    def _compare_floats(self) -> None:
        """How inputs in float32 differ from those in float64 along the calls, and tolerances of the test.

        The test follows calls up to the first one in which floats are too coarse.
        """
        inputs = self._inputs_on_host()
        if inputs is None:
            self._tolerances = [UNKNOWN]
            return
        doubles = [call.inputs for call in self._calls]
        self.difference = Difference.of(inputs, doubles)
        apart = [Difference.of(*pair).relative for pair in zip(inputs, doubles, strict=True)]
        last = next((k for k, x in enumerate(apart) if not x <= COARSE), len(apart))
        # ten times the largest difference in these calls, of what the processor may round otherwise
        tolerance = max(LEAST_FLOAT, float(f"{10 * max(apart[: max(1, last)]):.1e}"))
        self._tolerances = [tolerance] * min(CALLS, max(1, last))

    def _inputs_on_host(self) -> list[Array] | None:
        """The inputs of the recorded calls by the text itself; None without a compiler."""
        library = host_library(f"{self._structures()}\n#include <math.h>\n{self.text}")
        if library is None:
            return None
        memory = np.zeros(self.bytes(), np.uint8)
        result = np.zeros(64, np.uint8)
        inputs = []
        getattr(library, f"{self.name}_reset")(ctypes.c_void_p(memory.ctypes.data))
        for call in self._calls:
            arrays = [x.astype(np.float32) for x in (call.q, call.v, self._p)]
            u = np.zeros(self._sizes[-1], np.float32)
            pointers = [ctypes.c_void_p(x.ctypes.data) for x in (memory, *arrays, u, result)]
            # without parameters the function takes none
            passed = [*pointers[:4], ctypes.c_int(0)] if self._shape.own else pointers[:3]
            getattr(library, self.name)(*passed, *pointers[4:])
            inputs.append(u)
        return inputs

    @property
    def names(self) -> list[str]:
        return ["q", "v", "parameters", "u"]

    @property
    def _sizes(self) -> list[int]:
        x, _, m, _ = self._shape.sizes
        return [self._shape.position, x - self._shape.position, self._shape.own, m]

    def _takes(self) -> list[str]:
        real = self.real
        parameters = [f"const {real} *parameters", "int apart"] if self._shape.own else []
        return [
            f"{self.name}_memory *memory", f"const {real} *q", f"const {real} *v", *parameters,
            f"{real} *u", f"{self.name}_result *result",
        ]  # fmt: skip

    def _entries(self) -> list[str]:
        """The functions that a caller sees."""
        passed = "parameters, apart" if self._shape.own else "q, 0"
        return [
            f"void {self.name}_reset({self.name}_memory *memory) {{ forget(memory); }}",
            "",
            f"int {self.name}({', '.join(self._takes())}) {{",
            f"    control(memory, q, v, {passed}, u, result);",
            "    return result->status;",
            "}",
            "",
        ]

    def declaration(self, macros: Sequence[str]) -> str:
        """Structures, statuses and prototypes, with their documentation."""
        name = self.name
        lines = [f"#define {macro} {size}" for macro, size in zip(macros, self._sizes, strict=True)]
        lines.append(f"#define {name.upper()}_KNOTS {self._controller.knots}")
        lines += [f"#define {name.upper()}_{word_of_c(x).upper()} {k}" for k, x in enumerate(STATUSES)]
        lines += ["", self._structures(), "", "/* Forgets the plan; to be called first. */"]
        lines += [f"void {name}_reset({name}_memory *memory);", "", *self._about(), f"int {name}("]
        takes = self._takes()
        shapes = dict(zip(self.names, self._sizes, strict=True))
        for k, declared in enumerate(takes):
            size = shapes.get(declared.split("*")[-1])
            said = "" if size is None else f"  /* {size} */"
            lines.append(f"    {declared}{');' if k == len(takes) - 1 else ','}{said}")
        return "\n".join([*lines, ""])

    def _structures(self) -> str:
        """The types of memory and results."""
        name = self.name
        real = self.real
        lines = ["/* Memory of the controller, which belongs to its caller. */", "typedef struct {"]
        lines.append("    int planned;  /* 0: the next call begins anew */")
        lines.append(f"    {real} penalty, largest, alpha, cost;")
        for field, size in self.memory.items():
            said = f"  /* {FIELDS[field]} */" if FIELDS[field] else ""
            lines.append(f"    {real} {field}[{size}];{said}")
        lines += [f"}} {name}_memory;", "", "/* What a call tells of its plan. */", "typedef struct {"]
        lines.append("    int status;          /* 0 if converged, or another of the macros above */")
        lines.append("    int iterations;      /* steps that were taken */")
        lines.append("    int linearisations;  /* models of all knots that were made for them */")
        lines.append(f"    {real} cost;         /* of the plan, and of slack */")
        lines.append(f"    {real} gap;          /* largest one between the pieces of the plan */")
        lines.append(f"    {real} violation;    /* largest one of constraints without slack */")
        lines.append(f"    {real} gradient;     /* largest slope of the cost by a free input */")
        lines.append(f"    {real} penalty;      /* mu of the next call */")
        lines.append(f"}} {name}_result;")
        return "\n".join(lines)

    def _about(self) -> list[str]:
        """The comment of the function."""
        c = self._controller
        first = linearisations(c.first_iterations)
        later = c.iterations or lagrangian.MOST + linearisations(lagrangian.ANEW)
        typical = "" if c.iterations else f", mostly {lagrangian.FEW} to {lagrangian.MOST}"
        code, stack, tables = self.costs()
        sentences = [
            f"The inputs u of the next {c.problem.dt:g} s in the state (q, v), by a plan of {c.knots} steps.",
            "Returns the status. Each call improves the plan of the last one, a step further on unless the",
            "state is still where it begins, with its multipliers and penalty; the first call searches",
            "from inputs of zero.",
        ]
        if self._shape.own:
            sentences += [
                "Parameters of knot k (0 ... N) begin at parameters[k * apart]; apart 0: the same for all.",
            ]
        sentences += [
            f"Linearisations: at most {first} in the first call, {later} in later ones{typical}.",
            "Each makes the models of all knots once; at most 20 backward passes, mostly 1; and",
            "at most 16 forward passes, mostly 1.",
            *self._precision(),
            f"bytes: memory {self.bytes()}, stack {stack}, code {code}, tables {tables}",
        ]
        sentences[0] = f"/* {sentences[0]}"
        return [sentences[0], *(f"   {c_comment(x)}" for x in sentences[1:-1]), f"   {sentences[-1]} */"]

    def _precision(self) -> list[str]:
        """Lines about numbers in float32."""
        if self.number is number_type(False):
            return []
        if self.difference is None:
            return ["Floats were not compared with doubles: there was no C compiler."]
        return [f"Inputs differ from those of doubles by up to {self.difference}, in {MEASURED} calls."]

    def bytes(self) -> int:
        """Size of the memory, with its integer padded to a number."""
        return self.number.size * (5 + sum(self.memory.values()))

    def costs(self) -> tuple[int, int, int]:
        """Bytes of code, stack and tables, counted in the text."""
        _, n, m, _ = self._shape.sizes
        functions = [*self._functions.passes._fields, "elapsed", "knot_model", "last_model"]
        constraints = zip(("stage", "terminal"), self._functions.constraints, strict=True)
        functions += [f"{key}_model" for key, part in constraints if part.values]
        counts = memory_of(self.text, self.number, *functions)
        # vectors of a knot in the backward pass, its two matrices by inputs, and pointers
        passes = self.number.size * (2 * n + 10 * m + 2 * m * m) + POINTERS
        return counts[0].code + FIXED_CODE, max(x.stack for x in counts) + passes, counts[0].tables

    def case(self) -> str:
        """A C function that follows the recorded states, and compares inputs and costs."""
        m = self._sizes[-1]
        lines = [f"static void test_{self.key}(void)", "{", f"    static {self.name}_memory memory;"]
        lines += [f"    {self.name}_result result;", f"    {self.real} u[{m}];"]
        lines.append(f"    {self._table('p', self._p)}")
        for k, call in enumerate(self._calls[: len(self._tolerances)]):
            for key, values in (("q", call.q), ("v", call.v), ("u", call.inputs), ("cost", call.cost)):
                lines.append(f"    {self._table(f'{key}{k}', values)}")
        lines.append(f"    {self.name}_reset(&memory);")
        for k, tolerance in enumerate(self._tolerances):
            passed = "p, 0, " if self._shape.own else ""
            lines.append(f"    {self.name}(&memory, q{k}, v{k}, {passed}u, &result);")
            lines.append(f'    compare("inputs of call {k}", u, u{k}, {m}, {tolerance!r});')
            lines.append(f'    compare("cost of call {k}", &result.cost, cost{k}, 1, {tolerance!r});')
        if not self._shape.own:
            lines.append("    (void)p;")
        return "\n".join([*lines, "}", ""])

    def _table(self, name: str, values: Any) -> str:
        return constant_table(self.real, name, (self.number.literal(float(x)) for x in np.ravel(values)))
