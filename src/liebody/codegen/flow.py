"""Flows: the steps of explicit Lie-group methods for a left-trivialised field, carried through time."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from .graph import Function, trace
from .kernel import Kernel
from .loop import CompiledLoop, Course, OneOf, Unable
from .march import Ensemble, Settings, Steps
from .printers.explicit import Careful, Coefficients, FlowFunctions, explicit_source
from .printers.march import Guards, Marching
from .printers.numpy_source import compile_numpy
from .program import Program
from .samples import Samples
from .watch import Nearest, Watch, Watched, WatchedFunctions

Part = Callable[[], Function | Program]


class Explicit(Steps):
    """The steps of an explicit method without a compiler.

    method  its coefficients
    called  (t, y) -> u: efforts of a Python function at each stage, in place of samples
    """

    method: Coefficients
    called: Callable[[float, Any], Any] | None = None

    @property
    def functions(self) -> Any:
        """field, advance, pull, and what else there is, traced."""
        raise NotImplementedError

    def _run(self, function: Function | Program) -> Callable[..., Any]:
        return compile_numpy(function) if self.called is None else Kernel(function)

    @cached_property
    def _numpy(self) -> tuple[Any, ...]:
        return tuple(self._run(f) if isinstance(f, Function | Program) else None for f in self.functions)

    def _step(
        self, t: float, h: float, y: Any, efforts: Callable[[float], Any], lost: Any, watched: Any
    ) -> tuple[Any, Any]:
        field, advance, pull = self._numpy[:3]

        def given(at: float, point: Any) -> Any:
            return efforts(at) if self.called is None else self.called(at, point)

        def take(velocity: Callable[[float, Any], Any]) -> tuple[list[Any], Any]:
            return stages(self.method, velocity, advance, pull, t, h, y)[:2]

        if watched is not None:
            k, end = watched.stages(take, h, y, given)
        else:
            k, end = take(lambda at, point: field(_time(self.functions[0], at), point, given(at, point)))
        return end, k


class Flow(Explicit):
    """The steps of an explicit method for a left-trivialised field, compiled into one loop.

    The parts are traced functions or programs, given as calls without arguments that make them:

    field    (t, y, u) -> f, the velocity in the algebra; u are efforts, constant or sampled (`Samples`)
    advance  (y, psi) -> y exp(psi)
    pull     (psi, f) -> dexp^-1_(-psi) f; methods that do not pull back have no use for it
    method   its coefficients
    rigid    how many of the first entries of the algebra have size 1 in the error control; the others are as
             large as the last coordinates of y
    after    (t, y, u) -> y, what becomes of the state at the end of each step that is kept, such as a
             projection onto constraints; None for nothing
    watch    how `after`, or without it `field`, is watched for dependent constraints; None: it is not

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
    ) -> None:
        self._parts: tuple[Part | None, ...] = (field, advance, pull if method.pulled else None, after)
        self.watch, self._is_able = watch, watch is None or watch.field is None  # to take steps carefully
        self.method, self.rigid = method, rigid
        self._given: tuple[Any, ...] = (method, rigid, after is not None, watch is not None)
        self._fixed = CompiledLoop("steps", recipe, self._given, self.source)
        self._recipe, self.guards = recipe, None
        self._marching: dict[bool, CompiledLoop] = {}

    @cached_property
    def functions(self) -> FlowFunctions:
        """field, advance, pull, and what settles a state after each step, traced."""
        return FlowFunctions(*(part and part() for part in self._parts))  # type: ignore[arg-type]

    def source(self, lanes: int = 1) -> str:
        """C source of the steps of one length over `lanes`."""
        return explicit_source(self.functions, self.method, lanes, self.rigid, careful=self._watching)

    @property
    def _watching(self) -> Careful | None:
        if self.watch is None:
            return None
        return self._careful if self._is_able and self._parts[3] is not None else ()

    @cached_property
    def _careful(self) -> tuple[Function | Program | None, ...]:
        """field and after of steps that are taken carefully, traced; None: the ordinary ones."""
        assert self.watch is not None
        return self.watch.field and self.watch.field(), self.watch.after and self.watch.after()

    @property
    def watched_functions(self) -> tuple[Function | Program | None, ...]:
        """field and after, and those of steps that are taken carefully."""
        ordinary = self.functions.field, self.functions.settle
        careful = self._careful if self.functions.settle else ordinary
        return (*ordinary, *(f or g for f, g in zip(careful, ordinary)))

    def watching(self, guards: Guards) -> Flow:
        """The same flow, with guards whose events its march locates."""
        self.functions  # noqa: B018 - traced once for both
        other = copy.copy(self)
        other.guards, other._recipe, other._marching = guards, None, {}
        return other

    def traced(self, h: float, name: str = "step") -> Function:
        """A step of length h as a function (t, y, u) -> y at its end, with efforts that are held."""
        straight = [f.unroll() if isinstance(f, Program) else f for f in self.functions]
        field, advance, pull, settle = straight
        assert field and advance

        def at(function: Any, t: Any, y: Any, u: Any) -> Any:
            found = function(_time(function, t), y, u)  # what is watched comes second
            return found[0] if isinstance(found, tuple) else found

        def step(t: Any, y: Any, u: Any) -> Any:
            def velocity(now: Any, point: Any) -> Any:
                return at(field, now, point, u)

            end = stages(self.method, velocity, advance, pull, t, h, y)[1]
            return at(settle, t + h, end, u) if settle else end

        _, y, u = field.inputs.values()
        return trace(step, {"t": (), "y": y.shape, "u": u.shape}, name)

    def calling(self, efforts: Callable[[float, Any], Any]) -> Flow:
        """The same flow, by compiled functions without a loop, with efforts (t, y (n, point)) -> (n, dim)."""
        self.functions  # noqa: B018 - traced once for both
        other = copy.copy(self)
        other.called = efforts
        vars(other).pop("_numpy", None)
        return other

    def _march(self, controlled: bool) -> CompiledLoop:
        if controlled not in self._marching:

            def source(lanes: int) -> str:
                way = Marching(controlled=controlled, guards=self.guards)
                return explicit_source(self.functions, self.method, lanes, self.rigid, way, self._watching)

            self._marching[controlled] = CompiledLoop(
                "march", self._recipe, (*self._given, controlled), source
            )
        return self._marching[controlled]

    def steps(
        self, y: Any, u: Any, t: float, h: float, steps: int, every: int, record: Any, row: int, failed: Any,
        threads: int = 1, nearest: Nearest | None = None,
    ) -> None:  # fmt: skip
        """Advance the ensemble y (n, point), in place, by `steps` steps of length h from time t.

        u       efforts: Samples, or constant ones (1 or n, 1, dim). Steps that go across samples are taken in
                parts, which end there
        record  (n, records, point): every `every`-th state goes to record[:, row], record[:, row + 1], ...
        failed  (n,) integers: 1 + the row at which a member was found not finite, left alone otherwise
        nearest where the members came closest to dependent constraints, kept from call to call
        """
        nearest, losses = nearest or Nearest.of(*y.shape), np.zeros((len(y), 2))
        arguments = (y, Samples.of(u), t, h, steps, every, record, row, failed, losses, nearest)
        if self.called is not None or not self._fixed.is_compiled(len(y)):
            self._fixed_numpy(*arguments)
            return
        given = self._copies(y, failed, nearest.rows)
        try:
            self._fixed.steps(*arguments, threads)
        except Unable:
            self._become_able(given)
            self._fixed.steps(*arguments, threads)

    def course(self, y: Any, u: Samples, h: float, *kept: Any) -> Course | None:
        """The call that `steps` makes (`CompiledLoop.course`), to be made again; None without a compiler."""
        return self._fixed.course(y, u, h, *kept) if self._fixed.is_compiled(len(y)) else None

    def _copies(self, *arrays: Any) -> list[tuple[Any, Any]]:
        """These arrays with copies of them, where a call may have to be made again."""
        return [] if self._is_able else [(array, array.copy()) for array in arrays]

    def _become_able(self, given: list[tuple[Any, Any]]) -> None:
        """From now on have the functions for steps that are taken carefully, which few need."""
        if not self._is_able:
            self._is_able, self._given = True, (*self._given, "careful")
            self._fixed = CompiledLoop("steps", self._recipe, self._given, self.source)
            self._marching = {}
        for array, copied in given:
            array[...] = copied

    def march(self, members: Ensemble, u: Any, until: int, settings: Settings, threads: int = 1) -> None:
        """Advance members until the rows of their record before `until` are known.

        Steps are chosen by the error control, or of the length that the members begin with; the events of
        guards are located.
        """
        m, u, loop = members, Samples.of(u), self._march(settings.controlled)
        if not loop.is_compiled(len(m.y)):
            self._march_numpy(m, u, until, settings)
            return
        given, logs = self._copies(m.y, m.clock, m.counts, m.last, m.ends, m.nearest.rows), list(m.log)
        try:
            loop.march(m, u, until, settings, threads)
        except Unable:
            self._become_able(given)
            m.log[:] = logs
            self._march(settings.controlled).march(m, u, until, settings, threads)

    # -- without a compiler -------------------------------------------------------------------------------

    def _watch(self, nearest: Nearest) -> Watched | None:
        if self.watch is None:
            return None

        def called(function: Function | Program | None) -> Any:
            if function is None:
                return None
            run = self._run(function)
            return lambda t, y, u: run(_time(function, t), y, u)

        return Watched(WatchedFunctions(*map(called, self.watched_functions)), nearest)

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
    """Let flows that differ in their methods alone share one library, in which their parts are compiled once.

    flows   with equal field, advance, pull (or None) and after, none of which has been run
    recipe  a text that determines the parts, as for one flow

    Steps under error control have libraries of their own.
    """
    pulls = next((flow for flow in flows if flow.method.pulled), flows[0])
    settings = tuple(flow._given for flow in flows)

    def source(lanes: int) -> str:
        methods = [flow.method for flow in flows]
        return explicit_source(pulls.functions, methods, lanes, pulls.rigid)

    shared = CompiledLoop("several", recipe, settings, source)
    for k, flow in enumerate(flows):
        flow._fixed = OneOf(shared, k)


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

    The arguments are those of `Flow`, with velocity(t, y). The last velocity is not pulled back; of a method
    whose last stage is the end of the step (FSAL) it is the first one of the next step.
    """
    (paths, c, *_), f = method, velocity(t, y)
    k, points, psi = [f], [y], np.zeros_like(f)
    for i, (start, exponents) in enumerate(paths[1:], start=1):
        if i == len(c) and paths[i] == paths[i - 1]:  # the last stage is the end
            break
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
