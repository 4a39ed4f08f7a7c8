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
from ..compiler.programs.passes import length, rolled
from ..compiler.programs.sparse import sparse_jacobian, traced_to_differentiate, zeros
from .banded import SMALLEST_PIVOT, envelope, ordering, reordered
from .loop import CompiledSteps, Way
from .march import REASONS, Ensemble, Settings
from .print_implicit import implicit_source
from .records import Control, ControlFunctions, Memory, Phase, PhaseFunctions, Remembers
from .samples import Samples

LOOSE, ROUND_OFF, SLOW = 1e-8, 1e-13, 0.1  # as in runtime/newton.h
SMALL_PART, SMALLEST_PART = 0.1, 1e-6
ITERATIONS, TRIES = 50, 12  # of Newton's method, for steps of a given length and under error control
Solvers = list[tuple[PhaseFunctions, tuple[Callable[..., Any], ...]]]
Shapes = dict[str, int | Sequence[int]]
SUM = trace(lambda a, b: a + b, {"a": (), "b": ()}, "sum")
LONG = 40_000  # operations of the text from which on it is compiled with less effort
PLAIN = ("-fno-tree-vectorize", "-DLONG_CODE")  # one member: as fast, and a sixth less to compile


class ImplicitFlow(CompiledSteps):
    """The steps of an implicit one-step method, compiled into one loop; called as `Flow` is.

    phases      the systems that a step solves, in order, each by Newton's method with the Jacobian from the
                derivatives of its graph
    finish      (z, t, h, y, u) -> y at the end of the step
    point       length of y, which may hold more than the state: what a method remembers from step to step
    efforts     length of u
    nodes       at which parts of a step u is taken
    tolerance   relative, of each unknown; the default is round-off, which Newton's method reaches with at
                most one iteration more than it needs for 1e-8
    iterations  of Newton's method, at most
    recipe      a text that determines all this, with which a library of an earlier process is found untraced
    control     what steps under error control need; None where the method takes no such steps. There rows of
                the record are states within steps, which do not depend on them, and the last step ends at
                the last row; otherwise steps end at each row
    memory      how what y remembers is made to fit steps of another length, or efforts that have jumped; None
                where it depends on neither

    The Jacobian is made once per step and phase, and again when convergence is slower than tenfold. Equations
    and unknowns are brought into an order in which its entries are near the diagonal, so that factoring it
    is linear in the number of bodies of a chain; without zeros it takes n^3/3 multiplications. Members of an
    ensemble are lanes of vectors and shares of threads, with pivots of their own.
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
        self.control, self.memory = control, memory
        self.phases, self.finish, self.point, self.efforts = tuple(phases), finish, point, efforts
        self.nodes = tuple(map(float, nodes))
        self.tolerance, self.iterations = tolerance, iterations
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
        y, z = np.asarray(y, float), np.zeros(0)
        for phase in self.phases:
            x = solve_by_differences(
                phase.residual,
                np.asarray(phase.predict(z, t, h, y, u), float),
                (z, t, h, y, u),
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
        """Of t, h, y, u."""
        return {"t": (), "h": (), "y": self.point, "u": (len(self.nodes), self.efforts)}

    def _traced(self, phases: Sequence[Phase], kept: int) -> tuple[tuple[PhaseFunctions, ...], int]:
        """The phases, traced, and what is kept after them, where so much has been kept before."""
        functions = []
        for phase in phases:
            before: Shapes = {"z": kept, **self._shapes}
            predict = traced(phase.predict, before, "predict")
            (x,) = predict.outputs.values()
            inputs: Shapes = {"x": x.size, **before}
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
            long = isinstance(both, Program)
            if long and not isinstance(predict, Program):
                predict = traced(phase.predict, before, "predict", loops=True)
            keep = traced(phase.keep, inputs, "keep", loops=long or None)
            functions.append(_ordered(predict, residual, both, keep, phase.linear))
            (k,) = keep.outputs.values()
            kept += k.size
        return tuple(functions), kept

    @cached_property
    def control_functions(self) -> ControlFunctions:
        """What steps under error control need besides, traced."""
        control = self._controls
        before = self.functions[1].inputs["z"].size
        phases, kept = self._traced(control.phases, before)
        inputs: Shapes = {"z": kept, **self._shapes, "after": self.point}
        return ControlFunctions(
            phases,
            trace(control.error, inputs, "error"),
            trace(control.between, {"s": (), **inputs}, "between"),
            control.order,
        )

    @cached_property
    def memory_functions(self) -> Remembers | None:
        """What makes memory fit, traced."""
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
        found = self.memory_functions if way.remembers else None
        return found and found._replace(restart=found.restart if way.jumps else None)

    def _flags(self, way: Way, lanes: int) -> Sequence[str]:
        phases, finish = self.functions
        others = [finish, *filter(None, self._remembers(way) or ())]
        if way.controlled:
            control = self.control_functions
            phases, others = (*phases, *control.phases), [*others, control.error, control.between]
        parts = [f for phase in phases for f in (phase.predict, phase.residual, phase.both, phase.keep)]
        total = sum(length(rolled(f)) for f in (*parts, *others))
        flags = build.FLAGS if total < LONG else build.LONG_FLAGS
        return (*flags, *PLAIN) if lanes == 1 else flags

    # -- without a compiler -------------------------------------------------------------------------------

    _controlled, _estimated = False, None  # of a call: whether it has error control, and its last estimate

    def _fixed_numpy(self, *arguments: Any) -> None:
        super(ImplicitFlow, self._of_a_call(False))._fixed_numpy(*arguments)

    def _march_numpy(self, m: Ensemble, u: Samples, until: int, settings: Settings) -> None:
        super(ImplicitFlow, self._of_a_call(settings.controlled))._march_numpy(m, u, until, settings)

    def _of_a_call(self, controlled: bool) -> ImplicitFlow:
        """A copy that one call changes, while other threads make calls of their own."""
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
        """t, h, y and u as the functions of a phase take them."""
        n, at = len(y), np.stack([efforts(t + c * h) for c in self.nodes], axis=-2)
        return np.full(n, t), np.full(n, h), y, np.broadcast_to(at, (n, *at.shape[1:]))

    def _fit(
        self, u: Samples, y: Any, made: float, t: float, h: float, efforts: Callable[[float], Any]
    ) -> Any:
        if self.memory is None:
            return y
        (fit, restart), made_by_all = self._memory_numpy, np.full(len(y), made)
        times, lengths, _, at = self._at_nodes(t, h, y, efforts)
        if u.jumps(t):
            return restart(y, made_by_all, times, lengths, at)
        return y if made == h else fit(y, made_by_all, lengths)

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
        """z, with what these phases keep."""
        for phase, functions in phases:
            x = functions[0](z, *arguments)
            self._newton_numpy(phase, functions, x, z, arguments, lost, self._tries)
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
        self._newton_numpy(phase, functions, x, z, arguments, lost, self.iterations)
        return x

    def _newton_numpy(
        self, phase: PhaseFunctions, functions: tuple[Callable[..., Any], ...], x: Any, z: Any,
        arguments: tuple[Any, ...], lost: Any, iterations: int,
    ) -> None:  # fmt: skip
        """The function `newton` of runtime/implicit.h; x and lost change in place."""
        _, residual, both, _ = functions
        if not x.shape[-1]:
            return
        rows, columns = np.array(phase.places).T
        active, fresh, linear = lost == 0, True, phase.linear
        before, part = np.full(len(x), np.inf), np.ones(len(x))
        inverse, base, direction = np.zeros((*x.shape, x.shape[-1])), x.copy(), np.zeros_like(x)
        for k in range(1 if linear else iterations):
            if not active.any():
                return
            fresh_now = fresh
            if fresh:
                r, values = both(x, z, *arguments)
                D = np.zeros_like(inverse)
                D[:, rows, columns] = values
                bad = active & ~(np.isfinite(r).all(axis=-1) & np.isfinite(D).all(axis=(-1, -2)))
                lost[bad], active = 1, active & ~bad
                inverse, regular = _inverses(D, active)
                lost[active & ~regular], active = 2, active & regular
            else:
                r = residual(x, z, *arguments)
            correction = (inverse @ r[..., None])[..., 0]
            size = np.abs(x)
            norm = (np.abs(correction) / (1 + size)).max(axis=-1)
            with np.errstate(invalid="ignore"):  # 0 / 0 of members that are there
                rate = norm / before
            done, worse = (norm == 0) | linear, np.zeros(len(x), bool)
            if k:
                bound = self.tolerance * (size + size.max(axis=-1, keepdims=True) / 1024)
                done |= (rate < 0.5) & (rate[:, None] * np.abs(correction) <= bound).all(axis=-1)
                done |= (rate > 0.25) & (norm <= (LOOSE if fresh_now else ROUND_OFF))
                if not fresh_now:
                    shorter = (norm <= (1 - 0.25 * part) * before) | (norm <= LOOSE)
                    worse = active & ~(done | shorter | ((part < SMALL_PART) & np.isfinite(norm)))
            part = np.where(worse, 0.5 * part, 1.0)
            stuck = worse & (part < SMALLEST_PART)
            lost[stuck], active = 1, active & ~stuck
            base = np.where(worse[:, None], base, x)
            direction = np.where(worse[:, None], direction, correction)
            x[active] = (base - part[:, None] * direction)[active]
            before = np.where(worse, before, norm)
            active &= ~done
            fresh = k > 0 and not (active & worse).any() and bool((active & (rate > SLOW)).any())
        lost[active] = 3


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
    """A phase with its Jacobian, unknowns and equations in an order in which that is cheap to factor.

    softened  the residual, perhaps with "soften" of `Phase`
    """
    (x,), (r,) = predict.outputs.values(), residual.outputs.values()
    places, both = sparse_jacobian(softened, "x")
    values = both.outputs["values"]
    if "soften" in softened.outputs:
        rows = np.flatnonzero(~zeros(softened)["soften"]).tolist()
        places, values = _with_diagonal(both, places, rows)
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
    values, added = both.outputs["values"].copy(), both.outputs["soften"]
    at = {place: k for k, place in enumerate(places)}
    there = [i for i in rows if (i, i) in at]
    if there:
        diagonal = [at[i, i] for i in there]
        total = (values[diagonal], added[there])
        values[diagonal] = both.apply(SUM, *total) if isinstance(both, Program) else np.add(*total)
    new = [i for i in rows if (i, i) not in at]
    return [*places, *((i, i) for i in new)], np.concatenate([values, added[new]])


def _in_order(function: Function | Program, order: Sequence[int]) -> dict[str, Any]:
    """The inputs, with the unknowns in this order."""
    return {**function.inputs, "x": function.inputs["x"][order]}


def _inverses(D: Any, wanted: Any) -> tuple[Any, Any]:
    """The inverses of the matrices that are wanted (zero for others), and which are not singular."""
    inverse, regular = np.zeros_like(D), np.zeros(len(D), bool)
    for i in np.flatnonzero(wanted):
        scale = np.abs(D[i]).max(axis=-1, initial=0.0)
        scaled = D[i] / scale[:, None]
        if np.isfinite(scaled).all() and np.linalg.cond(scaled) < 1 / SMALLEST_PIVOT:
            inverse[i], regular[i] = np.linalg.inv(scaled) / scale, True
    return inverse, regular


def solve_by_differences(residual: Callable[..., Any], x: Any, rest: tuple[Any, ...]) -> np.ndarray:
    """x with residual(x, *rest) = 0, by Newton's method, until corrections stop to shrink.

    Derivatives are central differences.

    Errors: IntegrationError where it does not converge.
    """
    before = np.inf
    if not x.size:
        return np.asarray(x)
    for _ in range(ITERATIONS):
        d = 1e-5 * (1 + np.abs(x))
        columns = [(residual(x + e, *rest) - residual(x - e, *rest)) / (2 * e.max()) for e in np.diag(d)]
        r = residual(x, *rest)
        try:
            dx = np.linalg.solve(np.stack(columns, axis=-1), r)
        except np.linalg.LinAlgError:
            raise IntegrationError(REASONS[2]) from None
        norm = np.max(np.abs(dx) / (1 + np.abs(x)))
        if not np.isfinite(norm):
            raise IntegrationError(f"{REASONS[1]}: in the equations of a step")
        x = x - dx
        if norm == 0 or (norm <= LOOSE and norm > 0.25 * before):
            return x
        before = norm
    raise IntegrationError(REASONS[3])
