"""Flows: the steps of explicit Lie-group methods for a left-trivialised field, carried through time."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..base.concurrency import cached_property
from ..base.errors import IntegrationError
from ..compiler import Function, Kernel, Program, trace
from ..compiler.native import build
from ..compiler.native.libraries import Libraries
from ..compiler.printers.c import number_type
from ..compiler.printers.numpy_source import compile_numpy
from .loop import CompiledLoop, CompiledSteps, StepsCall, Way
from .march import Settings
from .print_explicit import explicit_source
from .print_march import with_kernel
from .records import Careful, Coefficients, FlowFunctions, Marching, Part, Watch
from .samples import Samples
from .singular import Nearest, Watched, WatchedFunctions


class Explicit(CompiledSteps):
    """The steps of an explicit method, in Python. The first three `functions` are field, advance and pull."""

    method: Coefficients

    def _run(self, function: Function | Program) -> Callable[..., Any]:
        return compile_numpy(function) if self.called is None else Kernel(function)

    @cached_property
    def _numpy(self) -> tuple[Any, ...]:
        return tuple(self._run(f) if isinstance(f, Function | Program) else None for f in self.functions)

    def _step(
        self, t: float, h: float, y: Any, efforts: Callable[[float], Any], lost: Any, watched: Any
    ) -> tuple[Any, Any]:
        field, advance, pull = self._numpy[:3]

        def efforts_at(now: float, point: Any) -> Any:
            return efforts(now) if self.called is None else self.called(now, point)

        def take(velocity: Callable[[float, Any], Any]) -> tuple[list[Any], Any]:
            return stages(self.method, velocity, advance, pull, t, h, y)[:2]

        if watched is not None:
            k, end = watched.stages(take, h, y, efforts_at)
        else:
            timed = self.functions[0]
            k, end = take(lambda now, point: field(_time(timed, now), point, efforts_at(now, point)))
        return end, k


class Flow(Explicit):
    """The steps of an explicit method for a left-trivialised field, compiled into one loop.

    The parts are traced functions or programs. Each is given as a function without arguments that makes it,
    so that a library found by its recipe needs no tracing:

    field    (t, y, u) -> f, the velocity in the algebra; u are efforts, constant or sampled (`Samples`)
    advance  (y, psi) -> y exp(psi)
    pull     (psi, f) -> dexp^-1_(-psi) f; ignored by methods that do not pull back
    method   its coefficients
    rigid    number of entries at the head of the algebra that have size 1 in the error control; the others
             have the sizes of the last coordinates of y
    after    (t, y, u) -> y, applied to the state at the end of each accepted step, such as a projection onto
             constraints; None: the state is kept
    watch    how `after`, or without it `field`, is watched for dependent constraints; None: not watched
    single   whether it computes in float32, twice as many members at once: steps of one length, not watched.
             Without a compiler states are rounded to float32 at the end of each step

    Members of an ensemble are lanes of vectors and shares of threads. Without a compiler the same steps run
    as NumPy source.
    """

    def __init__(
        self,
        field: Part,
        advance: Part,
        pull: Part | None,
        method: Coefficients,
        rigid: int = 0,
        recipe: str | None = None,
        after: Part | None = None,
        watch: Watch | None = None,
        single: bool = False,
    ) -> None:
        self._parts: tuple[Part | None, ...] = (field, advance, pull if method.pulled else None, after)
        number = ("float32",) if single else ()
        super().__init__(recipe, method, rigid, after is not None, watch is not None, *number)
        self.single = single
        self.watch = watch
        self.is_watched = watch is not None
        self.is_careful = watch is not None and watch.field is None
        self.method = method
        self.rigid = rigid

    @cached_property
    def functions(self) -> FlowFunctions:
        """field, advance, pull and after, traced."""
        return FlowFunctions(*(part and part() for part in self._parts))  # type: ignore[arg-type]

    def _source(self, way: Way, lanes: int) -> str:
        marching = Marching(controlled=way.controlled, guards=self.guards) if way.march else None
        watching = self._watching(way.careful)
        number = number_type(self.single)
        return explicit_source(self.functions, self.method, lanes, self.rigid, marching, watching, number)

    def device_source(self, way: Way) -> str:
        if self.watch is not None:
            raise IntegrationError("constraints are watched for singular positions on the CPU alone")
        marching = Marching(guards=self.guards) if way.march else None
        number = number_type(self.single)
        source = explicit_source(
            self.functions, self.method, 1, self.rigid, marching, None, number, device=True
        )
        return with_kernel(source)

    def _watching(self, careful: bool) -> Careful | None:
        """The careful functions that a loop is compiled with; None: nothing is watched."""
        if self.watch is None:
            return None
        return self._careful if careful and self._parts[3] is not None else ()

    @cached_property
    def _careful(self) -> tuple[Function | Program | None, ...]:
        """field and after of steps that are taken carefully, traced; None: the ordinary ones."""
        assert self.watch is not None
        return self.watch.field and self.watch.field(), self.watch.after and self.watch.after()

    def traced(self, h: float, name: str = "step") -> Function:
        """A step of length h as a function (t, y, u) -> y at its end, with efforts that are held."""
        field, advance, pull, settle = (f.unroll() if f else None for f in self.functions)
        assert field and advance

        def first_result(function: Any, t: Any, y: Any, u: Any) -> Any:
            results = function(_time(function, t), y, u)  # a watched function has `worst` as its second one
            return results[0] if isinstance(results, tuple) else results

        def step(t: Any, y: Any, u: Any) -> Any:
            def velocity(now: Any, point: Any) -> Any:
                return first_result(field, now, point, u)

            end = stages(self.method, velocity, advance, pull, t, h, y)[1]
            return first_result(settle, t + h, end, u) if settle else end

        _, y, u = field.inputs.values()
        return trace(step, {"t": (), "y": y.shape, "u": u.shape}, name)

    def calling(self, efforts: Callable[[float, Any], Any]) -> Flow:
        """The same flow with efforts that are a Python function (t, y (n, point)) -> (n, dim).

        Its loop runs in Python, its functions are compiled.
        """
        self.functions  # noqa: B018 - traced once for both
        other = copy.copy(self)
        other.called = efforts
        vars(other).pop("_numpy", None)
        return other

    def steps_call(self, y: Any, u: Samples, h: float, *kept: Any) -> StepsCall | None:
        """The call of C that `steps` makes, for use again and again; None without a compiler."""
        loop = self._loop(u)
        return loop.steps_call(y, u, h, *kept) if loop.is_compiled(len(y)) else None

    # -- without a compiler -------------------------------------------------------------------------------

    def _watch(self, nearest: Nearest) -> Watched | None:
        if self.watch is None:
            return None

        def called(function: Function | Program | None) -> Any:
            if function is None:
                return None
            run = self._run(function)
            return lambda t, y, u: run(_time(function, t), y, u)

        ordinary = (self.functions.field, self.functions.settle)
        # Without `settle` states are not put on constraints: careful steps are then ordinary ones.
        careful = self._careful if self.functions.settle else ordinary
        parts = (*ordinary, *(f or g for f, g in zip(careful, ordinary)))
        return Watched(WatchedFunctions(*map(called, parts)), nearest)

    def _complete(
        self, t: float, h: float, y: Any, end: Any, efforts: Callable[[float], Any], watched: Any
    ) -> Any:
        if watched is not None:
            return watched.complete(t, h, t + h, y, end)
        after = self.functions.settle
        return end if after is None else self._numpy[3](_time(after, t + h), end, efforts(t + h))

    def _defect(
        self, t: float, h: float, y: Any, efforts: Any, after: Any, left: Any, settings: Settings, lost: Any
    ) -> float | None:
        if not settings.controlled:
            return None
        # the root mean square of the error over its tolerances, in the algebra
        n = left[0].shape[-1]
        size = np.maximum(np.abs(y[0, -n:]), np.abs(after[0, -n:]))
        size[: self.rigid] = 1
        error = h * combination(self.method.error, left)[0]
        return float(np.sqrt(np.mean((error / (settings.atol + settings.rtol * size)) ** 2)))

    @property
    def error_order(self) -> int:  # type: ignore[override]
        """The power of h that the error estimate goes with."""
        return self.method.error_order


def together(flows: Sequence[Flow], recipe: str | None = None) -> None:
    """Let flows that differ only in their methods share one library, in which their parts are compiled once.

    flows   with equal field, advance, pull (or None) and after, before any of them is run
    recipe  a text that determines the parts, as for one flow

    Steps under error control stay in separate libraries.
    """
    # one printed text holds the loops of all methods; a flow that pulls back has all functions they call
    pulls = next((flow for flow in flows if flow.method.pulled), flows[0])

    def source(lanes: int) -> build.Source:
        methods = [flow.method for flow in flows]
        return build.Source(
            [explicit_source(pulls.functions, methods, lanes, pulls.rigid)], name="steps of a study"
        )

    shared = Libraries(source, [recipe, repr([flow.settings for flow in flows])] if recipe else [])
    for k, flow in enumerate(flows):
        flow.loops[Way()] = CompiledLoop(shared, f"{Way().name}_{k}")


def stages(
    method: Coefficients,
    velocity: Callable[[float, Any], Any],
    advance: Callable[[Any, Any], Any],
    pull: Callable[[Any, Any], Any] | None,
    t: float,
    h: Any,
    y: Any,
) -> tuple[list[Any], Any, Any, Any]:
    """An explicit step from (t, y): velocities k of the stages, its end, last exponent, and last velocity.

    The arguments are as for `Flow`, with velocity(t, y). The last velocity is not pulled back. For a method
    whose last stage is the end of the step (FSAL) it is the first velocity of the next step.
    """
    paths, c, *_ = method
    f = velocity(t, y)
    k = [f]
    points = [y]
    psi = np.zeros_like(f)
    for i, (start, exponents) in enumerate(paths[1:], start=1):
        if i == len(c) and paths[i] == paths[i - 1]:  # the last stage is the end
            break
        # from the point of an earlier stage, along one exponential after the other
        point = points[start]
        for row in exponents:
            psi = h * combination(row, k)
            point = advance(point, psi)
        points.append(point)
        if i < len(c):
            f = velocity(t + c[i] * h, point)
            k.append(f if pull is None else pull(psi, f))
    return k, points[-1], psi, f


def combination(weights: Sequence[tuple[int, float]], vectors: Sequence[Any]) -> Any:
    """sum of weight vectors[j] over the pairs (j, weight)."""
    total = None
    for j, weight in weights:
        total = weight * vectors[j] if total is None else total + weight * vectors[j]
    return np.zeros_like(vectors[0]) if total is None else total


def _time(function: Function | Program, t: float) -> Any:
    """t in the shape that a function of (t, y, u) takes, () or (1,)."""
    return np.reshape(t, next(iter(function.inputs.values())).shape)
