"""Compiled implicit flows: many steps of a method with equations to solve, for an ensemble, in one call."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..base.concurrency import cached_property
from ..base.errors import IntegrationError
from ..compiler import Function, Program, trace, traced
from ..compiler.graph.graph import undisturbed
from ..compiler.native import build
from ..compiler.printers.numpy_source import compile_numpy
from ..compiler.programs.passes import rolled
from ..compiler.programs.sparse import sparse_jacobian, traced_to_differentiate, zeros
from .banded import envelope, ordering, reordered
from .loop import CompiledSteps, Way
from .march import Ensemble, Settings
from .newton import newton, solve_by_differences
from .print_implicit import implicit_source
from .records import Control, ControlFunctions, Memory, Phase, PhaseFunctions, Remembers
from .samples import Samples

ITERATIONS = 50  # most iterations of Newton's method in steps of a given length
TRIES = 12  # the same under error control, which takes a shorter step instead
Solvers = list[tuple[PhaseFunctions, tuple[Callable[..., Any], ...]]]
Shapes = dict[str, int | Sequence[int]]
# Derivatives of programs are programs, in which a sum is the call of a function:
SUM = trace(lambda a, b: a + b, {"a": (), "b": ()}, "sum")
LONG = 40_000  # operations of the text from which on it is compiled with less effort
PLAIN = ("-fno-tree-vectorize", "-DLONG_CODE")  # one member: as fast, and a sixth less to compile


class ImplicitFlow(CompiledSteps):
    """The steps of an implicit one-step method, compiled into one loop; called as `Flow` is.

    phases      the systems that a step solves, in order, each by Newton's method with the Jacobian from the
                derivatives of its graph
    finish      (z, t, h, y, u) -> y at the end of the step
    point       length of y: the state, and the quantities that a method remembers from step to step
    efforts     length of u
    nodes       at which parts of a step u is taken
    tolerance   relative, of each unknown; the default is round-off, which Newton's method reaches with at
                most one iteration more than it needs for 1e-8
    iterations  of Newton's method, at most
    recipe      a text that determines all this, with which a library of an earlier process is found untraced
    control     error estimate and states within steps, for steps under error control; None: the method takes
                no such steps. Under error control rows of the record are states within steps, steps do not
                depend on them, and the last step ends at the last row; otherwise steps end at each row
    memory      how to adapt remembered quantities to steps of another length, and to efforts that have
                jumped; None where they depend on neither

    The Jacobian is made once per step and phase, and again when convergence is slower than tenfold. Equations
    and unknowns are brought into an order in which its entries are near the diagonal, so that factoring it
    is linear in the number of bodies of a chain; without zeros it takes n^3/3 multiplications. Members of an
    ensemble are lanes of vectors and shares of threads; each member has its own pivots.
    """

    def __init__(
        self,
        phases: Sequence[Phase],
        finish: Callable[..., Any],
        point: int,
        efforts: int = 0,
        nodes: Sequence[float] = (0.0, 1.0),
        tolerance: float = 1e-15,
        iterations: int = ITERATIONS,
        recipe: str | None = None,
        control: Control | None = None,
        memory: Memory | None = None,
    ) -> None:
        self.phases = tuple(phases)
        self.finish = finish
        self.point = point
        self.efforts = efforts
        self.nodes = tuple(map(float, nodes))
        self.tolerance = tolerance
        self.iterations = iterations
        self.control = control
        self.memory = memory
        super().__init__(recipe, self.nodes, tolerance, iterations, control and control.order)

    # -- one step, as it reads ----------------------------------------------------------------------------

    def step(self, t: float, h: float, y: Any, u: Any = None) -> np.ndarray:
        """One step from (t, y) to t + h in plain NumPy: the reference for the compiled loop.

        The Jacobians are difference quotients, so functions need not be traceable, and derivatives of the
        graph are not trusted. u is constant (efforts,) or given at the nodes, (nodes, efforts).

        Errors: IntegrationError where Newton's method does not converge.
        """
        u = np.zeros(self.efforts) if u is None else np.asarray(u, float)
        u = np.broadcast_to(u, (len(self.nodes), self.efforts))
        y = np.asarray(y, float)
        z = np.zeros(0)
        for phase in self.phases:
            x = solve_by_differences(
                phase.residual,
                np.asarray(phase.predict(z, t, h, y, u), float),
                (z, t, h, y, u),
                ITERATIONS,
            )
            z = np.concatenate([z, phase.keep(x, z, t, h, y, u)])
        return np.asarray(self.finish(z, t, h, y, u), float)

    # -- traced and compiled ------------------------------------------------------------------------------

    @cached_property
    def functions(self) -> tuple[tuple[PhaseFunctions, ...], Function | Program]:
        """The phases, with their Jacobians, and `finish`, traced."""
        with undisturbed():
            phases, kept = self._traced(self.phases, 0)
            long = any(isinstance(phase.both, Program) for phase in phases)
            return phases, traced(self.finish, {"z": kept, **self._shapes}, "finish", loops=long or None)

    @property
    def _shapes(self) -> Shapes:
        """Shapes of t, h, y, u, for tracing."""
        return {"t": (), "h": (), "y": self.point, "u": (len(self.nodes), self.efforts)}

    def _traced(self, phases: Sequence[Phase], kept: int) -> tuple[tuple[PhaseFunctions, ...], int]:
        """The phases, traced, and the length of z behind them; `kept` is its length in front of them."""
        functions = []
        for phase in phases:
            state: Shapes = {"z": kept, **self._shapes}
            predict = traced(phase.predict, state, "predict")
            (x,) = predict.outputs.values()
            inputs: Shapes = {"x": x.size, **state}
            # The residual is traced alone only where the Jacobian's function has a softened diagonal as well:
            # otherwise one function serves for both.
            softened = False
            if phase.soften is not None:
                softened = not zeros(traced(phase.soften, inputs, "soften"))["soften"].all()
            both = traced_to_differentiate(phase.softened if softened else phase.residual, inputs, "residual")
            residual = traced(phase.residual, inputs, "residual") if softened else both
            (r,) = residual.outputs.values()
            if r.size != x.size:
                raise IntegrationError(
                    f"a phase has {r.size} equations for {x.size} unknowns; make them as many"
                )
            # Long equations become a program of loops, and with them the other functions of the phase.
            long = isinstance(both, Program)
            if long and not isinstance(predict, Program):
                predict = traced(phase.predict, state, "predict", loops=True)
            keep = traced(phase.keep, inputs, "keep", loops=long or None)
            functions.append(_ordered(predict, residual, both, keep, phase.linear))
            (k,) = keep.outputs.values()
            kept += k.size
        return tuple(functions), kept

    @cached_property
    def control_functions(self) -> ControlFunctions:
        """`control`, traced."""
        control = self._controls
        phases, kept = self._traced(control.phases, self.functions[1].inputs["z"].size)
        inputs: Shapes = {"z": kept, **self._shapes, "after": self.point}
        return ControlFunctions(
            phases,
            trace(control.error, inputs, "error"),
            trace(control.between, {"s": (), **inputs}, "between"),
            control.order,
        )

    @cached_property
    def memory_functions(self) -> Remembers | None:
        """`memory`, traced."""
        if self.memory is None:
            return None
        t, h, y, u = self._shapes.items()
        return Remembers(
            trace(self.memory.fit, dict([y, ("made", ()), h]), "fit"),
            trace(self.memory.restart, dict([y, ("made", ()), t, h, u]), "restart"),
        )

    @property
    def _controls(self) -> Control:
        if self.control is None:
            raise IntegrationError("this method has no error estimate: give steps of one length")
        return self.control

    def _source(self, way: Way, lanes: int) -> str:
        phases, finish = self.functions
        guards = self.guards if way.march else None
        control = self.control_functions if way.controlled else None
        tries = TRIES if way.controlled else self.iterations
        memory = self._remembers(way)
        return implicit_source(
            phases, finish, self.nodes, self.tolerance, tries, lanes, control, memory, guards
        )

    def _remembers(self, way: Way) -> Remembers | None:
        functions = self.memory_functions if way.remembers else None
        return functions and functions._replace(restart=functions.restart if way.jumps else None)

    def _flags(self, way: Way, lanes: int) -> Sequence[str]:
        phases, finish = self.functions
        others = [finish, *filter(None, self._remembers(way) or ())]
        if way.controlled:
            control = self.control_functions
            phases, others = (*phases, *control.phases), [*others, control.error, control.between]
        parts = [f for phase in phases for f in (phase.predict, phase.residual, phase.both, phase.keep)]
        total = sum(rolled(f).length for f in (*parts, *others))
        flags = build.FLAGS if total < LONG else build.LONG_FLAGS
        return (*flags, *PLAIN) if lanes == 1 else flags

    # -- without a compiler -------------------------------------------------------------------------------

    # The state of one call: whether it has error control, and z of its last estimate
    _controlled = False
    _estimated: Any = None

    def _fixed_numpy(self, *arguments: Any) -> None:
        super(ImplicitFlow, self._of_a_call(False))._fixed_numpy(*arguments)

    def _march_numpy(self, m: Ensemble, u: Samples, until: int, settings: Settings) -> None:
        super(ImplicitFlow, self._of_a_call(settings.controlled))._march_numpy(m, u, until, settings)

    def _of_a_call(self, controlled: bool) -> ImplicitFlow:
        """A copy that one call changes, while other threads make other calls."""
        self._numpy, self._memory_numpy  # noqa: B018 - made once for all copies
        if controlled:
            self._control_numpy  # noqa: B018
        other = copy.copy(self)
        other._controlled = controlled
        return other

    @property
    def _tries(self) -> int:
        return TRIES if self._controlled else self.iterations

    @cached_property
    def _numpy(self) -> tuple[Solvers, Callable[..., Any]]:
        phases, finish = self.functions
        return _compiled(phases), compile_numpy(finish)

    @cached_property
    def _control_numpy(self) -> tuple[Solvers, tuple[Any, ...]]:
        phases, *others, _ = self.control_functions
        return _compiled(phases), tuple(map(compile_numpy, others))

    @cached_property
    def _memory_numpy(self) -> tuple[Callable[..., Any], ...]:
        return tuple(compile_numpy(f) for f in self.memory_functions or () if f)

    @property
    def dense(self) -> bool:  # type: ignore[override]
        """Whether records are states within steps: under error control."""
        return self._controlled

    @property
    def error_order(self) -> int:  # type: ignore[override]
        """The power of h that the error estimate goes with."""
        return self._controls.order

    def _at_nodes(self, t: float, h: float, y: Any, efforts: Callable[[float], Any]) -> tuple[Any, ...]:
        """t, h, y and u, one of each for every member, as the functions of a phase take them."""
        n = len(y)
        u = np.stack([efforts(t + c * h) for c in self.nodes], axis=-2)
        return np.full(n, t), np.full(n, h), y, np.broadcast_to(u, (n, *u.shape[1:]))

    def _fit(
        self, u: Samples, y: Any, made: float, t: float, h: float, efforts: Callable[[float], Any]
    ) -> Any:
        if self.memory is None:
            return y
        fit, restart = self._memory_numpy
        last_lengths = np.full(len(y), made)
        times, lengths, _, at_nodes = self._at_nodes(t, h, y, efforts)
        if u.jumps(t):
            return restart(y, last_lengths, times, lengths, at_nodes)
        return y if made == h else fit(y, last_lengths, lengths)

    def _step(
        self, t: float, h: float, y: Any, efforts: Callable[[float], Any], lost: Any, watched: Any
    ) -> tuple[Any, Any]:
        phases, finish = self._numpy
        arguments = self._at_nodes(t, h, y, efforts)
        z = self._kept(phases, np.zeros((len(y), 0)), arguments, lost)
        return finish(z, *arguments), z

    def _defect(
        self, t: float, h: float, y: Any, efforts: Any, after: Any, left: Any, settings: Settings, lost: Any
    ) -> float | None:
        if not settings.controlled:
            return None
        phases, (error, _) = self._control_numpy
        arguments = self._at_nodes(t, h, y, efforts)
        z = self._kept(phases, left, arguments, lost)
        e, size = error(z, *arguments, after)
        defect = float(np.sqrt(np.mean((e / (settings.atol + settings.rtol * size)) ** 2)))
        self._estimated = z
        return defect if np.isfinite(after).all() else np.nan

    def _within(self, s: float, t: float, h: float, y: Any, efforts: Any, after: Any, left: Any) -> Any:
        between = self._control_numpy[1][1]
        return between(np.full(1, s), self._estimated, *self._at_nodes(t, h, y, efforts), after)

    def _kept(self, phases: Solvers, z: Any, arguments: tuple[Any, ...], lost: Any) -> Any:
        """z, extended by these phases, each of which is solved in turn."""
        for phase, functions in phases:
            x = functions[0](z, *arguments)
            newton(phase, functions[1:3], x, z, arguments, lost, self.tolerance, self._tries)
            z = np.concatenate([z, functions[3](x, z, *arguments)], axis=-1)
        return z

    def solved(
        self, phase: PhaseFunctions, functions: tuple[Callable[..., Any], ...], z: Any,
        arguments: tuple[Any, ...], lost: Any,
    ) -> Any:  # fmt: skip
        """x (n, unknowns) with which the equations of a phase hold; lost (n,) as in `Steps`.

        functions  predict, residual, both and keep of the phase, over arrays
        """
        x = functions[0](z, *arguments)
        newton(phase, functions[1:3], x, z, arguments, lost, self.tolerance, self.iterations)
        return x


def _compiled(phases: Sequence[PhaseFunctions]) -> Solvers:
    """Each phase, with its functions predict, residual, both and keep as NumPy source."""
    parts = [(phase.predict, phase.residual, phase.both, phase.keep) for phase in phases]
    return [(phase, tuple(map(compile_numpy, part))) for phase, part in zip(phases, parts, strict=True)]


def _ordered(
    predict: Function | Program,
    residual: Function | Program,
    softened: Function | Program,
    keep: Function | Program,
    linear: bool,
) -> PhaseFunctions:
    """A phase with its Jacobian, its unknowns and equations in an order in which that is cheap to factor.

    softened  the residual, with a second output "soften" where the phase has that
    """
    (x,) = predict.outputs.values()
    (r,) = residual.outputs.values()
    places, both = sparse_jacobian(softened, "x")
    values = both.outputs["values"]
    if "soften" in softened.outputs:
        rows = np.flatnonzero(~zeros(softened)["soften"]).tolist()
        places, values = _with_diagonal(both, places, rows)
    # Unknowns and equations move alike, so that the diagonal stays where it is. Entries are sorted by rows,
    # as the elimination in C reads them.
    order = ordering(x.size, places)
    moved = reordered(places, order)
    row_by_row = np.lexsort(moved.T[::-1])
    places = [(i, j) for i, j in moved[row_by_row].tolist()]
    return PhaseFunctions(
        predict.over(predict.inputs, {"x": x[order]}),
        residual.over(_in_order(residual, order), {"r": r[order]}),
        both.over(_in_order(both, order), {"r": both.outputs["r"][order], "values": values[row_by_row]}),
        places,
        envelope(x.size, places),
        keep.over(_in_order(keep, order), keep.outputs),
        linear,
    )


def _with_diagonal(
    both: Function | Program, places: list[tuple[int, int]], rows: Sequence[int]
) -> tuple[list[tuple[int, int]], Any]:
    """The places and values of a Jacobian with "soften" on its diagonal, in these rows."""
    values = both.outputs["values"].copy()
    added = both.outputs["soften"]
    position = {place: k for k, place in enumerate(places)}
    # entries that the Jacobian has on its diagonal become sums, others are appended
    present = [i for i in rows if (i, i) in position]
    if present:
        diagonal = [position[i, i] for i in present]
        terms = (values[diagonal], added[present])
        values[diagonal] = both.apply(SUM, *terms) if isinstance(both, Program) else np.add(*terms)
    new = [i for i in rows if (i, i) not in position]
    return [*places, *((i, i) for i in new)], np.concatenate([values, added[new]])


def _in_order(function: Function | Program, order: Sequence[int]) -> dict[str, Any]:
    """The inputs, with the unknowns in this order."""
    return {**function.inputs, "x": function.inputs["x"][order]}
