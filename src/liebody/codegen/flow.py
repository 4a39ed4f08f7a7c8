"""Compiled flows: many steps of an explicit Lie-group method, for an ensemble, in one call."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from types import SimpleNamespace
from typing import Any

import numpy as np

from .graph import Function
from .loop import CompiledLoop
from .printers.flow import Method, Path, flow_source, flows_source
from .program import Program
from .samples import Samples


class Flow(CompiledLoop):
    """The steps of an explicit method for a left-trivialised field, compiled into one loop.

    The parts are traced functions or programs, given as calls without arguments that make them:

    field    (t, y, u) -> f, the velocity in the algebra; u are efforts, constant or sampled (`Samples`)
    advance  (y, psi) -> y exp(psi)
    pull     (psi, f) -> dexp^-1_(-psi) f; None for methods that compose exponentials of velocities themselves
    paths    for each stage, and at last for the result: the stage it starts from, and exponents in units of
             the step, each as pairs (stage, coefficient)
    c        nodes, the times of the stages in units of the step
    error    b minus embedded weights and the order of that defect in the step, for steps under error control
    rigid    how many of the first entries of the algebra have size 1 in the error control; the others are as
             large as the last coordinates of y
    after    (t, y, u) -> y, what becomes of the state at the end of each step that is kept, such as a
             projection onto constraints; None for nothing

    Members of an ensemble are lanes of vectors and shares of threads. Without a compiler the same steps run
    as NumPy source.
    """

    kind = "flow"

    def __init__(
        self,
        field: Callable[[], Function | Program],
        advance: Callable[[], Function | Program],
        pull: Callable[[], Function | Program] | None,
        paths: Sequence[Path],
        c: Sequence[float],
        error: tuple[Sequence[float], int] | None = None,
        rigid: int = 0,
        recipe: str | None = None,
        after: Callable[[], Function | Program] | None = None,
    ) -> None:
        super().__init__(recipe)
        self._parts, self._after = (field, advance, pull), after
        self.paths, self.c = tuple(paths), tuple(c)
        self.error, self.rigid = error, rigid
        self._shared: tuple[_Several, int] | None = None

    @cached_property
    def functions(self) -> tuple[Function | Program, Function | Program, Function | Program | None]:
        """field, advance and pull."""
        field, advance, pull = self._parts
        return field(), advance(), pull and pull()

    @cached_property
    def after(self) -> Function | Program | None:
        """What follows each step."""
        return self._after and self._after()

    def source(self, lanes: int = 1) -> str:
        """C source of the loop over `lanes`."""
        return flow_source(*self.functions, self.after, self._method, lanes, self.rigid)

    @property
    def _method(self) -> Method:
        return Method(self.paths, self.c, self._parts[2] is not None, *(self.error or ()))

    def _settings(self) -> tuple[Any, ...]:
        return self.paths, self.c, self.error, self.rigid, self._after is not None

    def _library(self, lanes: int) -> Any:
        if self._shared is None:
            return super()._library(lanes)
        several, k = self._shared
        library, names = several._kept(lanes), ("fixed_steps", "controlled_steps")
        found = {name: getattr(library, f"{name}_{k}") for name in names if hasattr(library, f"{name}_{k}")}
        return self._prepare(SimpleNamespace(**found))

    def _prepare(self, library: Any) -> Any:
        p, n, d = ctypes.c_void_p, ctypes.c_long, ctypes.c_double
        library.fixed_steps.restype = None
        library.fixed_steps.argtypes = [n, p, p, d, d, n, n, p, n, n, p]
        if hasattr(library, "controlled_steps"):
            library.controlled_steps.restype = None
            library.controlled_steps.argtypes = [n, p, p, d, d, n, d, d, p, p, n, n, p, p]
        return library

    def steps(
        self,
        y: Any,
        u: Any,
        t: float,
        h: float,
        steps: int,
        every: int,
        record: Any,
        row: int,
        failed: Any,
        threads: int = 1,
    ) -> None:
        """Advance the ensemble y (n, point), in place, by `steps` steps of length h from time t.

        u       efforts: Samples, or constant ones (1 or n, 1, dim). Steps that go across samples are taken in
                parts, which end there
        record  (n, records, point): every `every`-th state goes to record[:, row], record[:, row + 1], ...
        failed  (n,) integers: 1 + the row at which a member was found not finite, left alone otherwise
        """
        n, u = len(y), Samples.of(u)
        if self._compiler is None:
            self._steps_numpy(y, u, t, h, steps, every, record, row, failed)
            return
        library, lanes = self._for(n)

        def share(start: int, stop: int) -> None:
            library.fixed_steps(
                stop - start,
                y[start:].ctypes.data,
                ctypes.byref(u.in_c(start)),
                t,
                h,
                steps,
                every,
                record[start:].ctypes.data,
                record.shape[1],
                row,
                failed[start:].ctypes.data,
            )

        _shared(share, n, lanes, threads)

    def controlled(
        self,
        y: Any,
        u: Any,
        t: float,
        interval: float,
        rows: int,
        rtol: float,
        atol: float,
        h: Any,
        record: Any,
        row: int,
        failed: Any,
        threads: int = 1,
    ) -> tuple[int, int]:
        """Advance the ensemble under error control to `rows` records, `interval` apart; (steps, rejected).

        h (n,) holds each member's step, in and out; otherwise as `steps`.
        """
        u = Samples.of(u)
        if self._compiler is None:
            return self._controlled_numpy(y, u, t, interval, rows, rtol, atol, h, record, row, failed)
        library = self._one
        counts = []

        def share(start: int, stop: int) -> None:
            taken = (ctypes.c_long * 2)()
            counts.append(taken)
            library.controlled_steps(
                stop - start,
                y[start:].ctypes.data,
                ctypes.byref(u.in_c(start)),
                t,
                interval,
                rows,
                rtol,
                atol,
                h[start:].ctypes.data,
                record[start:].ctypes.data,
                record.shape[1],
                row,
                failed[start:].ctypes.data,
                taken,
            )

        _shared(share, len(y), 1, threads)
        return sum(c[0] for c in counts), sum(c[1] for c in counts)

    @cached_property
    def _numpy(self) -> tuple[Any, ...]:
        from .printers.numpy_source import compile_numpy

        return tuple(compile_numpy(f) if f else None for f in self.functions)

    @cached_property
    def _after_numpy(self) -> Callable[..., Any]:
        from .printers.numpy_source import compile_numpy

        assert self.after is not None
        return compile_numpy(self.after)

    def _stages_numpy(
        self, t: float, h: Any, y: Any, efforts: Callable[[float], Any]
    ) -> tuple[list[Any], Any]:
        """The function `stages` of runtime/flow.h, with NumPy source for its functions."""
        field, advance, pull = self._numpy

        def velocity(at: float, point: Any) -> Any:
            return field(_time(self.functions[0], at), point, efforts(at))

        return stages(self.paths, self.c, velocity, advance, pull, t, h, y)

    def _finish_numpy(self, t: float, y: Any, efforts: Callable[[float], Any]) -> Any:
        """The function `finish` of runtime/flow.h."""
        return y if self.after is None else self._after_numpy(_time(self.after, t), y, efforts(t))

    def _steps_numpy(
        self, y: Any, u: Samples, t0: float, h: float, steps: int, every: int, record: Any, row: int,
        failed: Any,
    ) -> None:  # fmt: skip
        """The function `fixed_steps` of runtime/flow.h, over the whole ensemble at once."""
        alone = len(y) == 1
        state = y[0].copy() if alone else y.copy()
        with np.errstate(all="ignore"):
            for s in range(steps):
                step = t0 + s * h, t0 + (s + 1) * h
                for t, stop, efforts in parts(u, *step, alone):
                    length = h if (t, stop) == step else stop - t
                    state = self._stages_numpy(t, length, state, efforts)[1]
                    state = self._finish_numpy(stop, state, efforts)
                if (s + 1) % every == 0:
                    record[:, row] = state
                    row += 1
                    lost = ~np.isfinite(np.atleast_2d(state)).all(axis=1)
                    failed[lost & (failed == 0)] = row
        y[...] = state

    def _controlled_numpy(
        self, y: Any, u: Samples, t0: float, interval: float, rows: int, rtol: float, atol: float, h: Any,
        record: Any, first_row: int, failed: Any,
    ) -> tuple[int, int]:  # fmt: skip
        """The function `controlled_steps` of runtime/flow.h."""
        assert self.error is not None
        weights, order = self.error
        taken = rejected = 0
        for i in range(len(y)):
            now, step, before = y[i].copy(), float(h[i]), 1.0
            given = u.member(i)
            for r in range(rows):
                t, end = t0 + r * interval, t0 + (r + 1) * interval
                while t < end and not failed[i]:
                    _, stop, efforts = next(parts(given, t, end, alone=True))
                    last = t + 1.0000001 * step >= stop
                    length = stop - t if last else (stop - t) / 2 if t + 2 * step > stop else step
                    with np.errstate(all="ignore"):
                        k, following = self._stages_numpy(t, length, now, efforts)
                        size = np.maximum(np.abs(now[-len(k[0]) :]), np.abs(following[-len(k[0]) :]))
                        size[: self.rigid] = 1
                        error = length * sum(
                            (w * x for w, x in zip(weights, k, strict=True) if w), np.zeros_like(k[0])
                        )
                        defect = float(np.sqrt(np.mean((error / (atol + rtol * size)) ** 2)))
                    if defect <= 1:
                        factor = 0.9 * max(defect, 1e-10) ** (-0.7 / order) * before ** (0.4 / order)
                        factor, before = min(max(factor, 0.2), 10), max(defect, 1e-4)
                        t = stop if last else t + length
                        now = self._finish_numpy(t, following, efforts)
                        taken += 1
                        if not last or factor < 1 or length >= step:
                            step = length * factor
                    else:
                        step = length * (max(0.9 * defect ** (-1 / order), 0.2) if defect > 1 else 0.2)
                        rejected += 1
                        if step < 1e-14 * max(abs(end), interval):
                            failed[i] = first_row + r + 1
                if not np.isfinite(now).all() and not failed[i]:
                    failed[i] = first_row + r + 1
                if failed[i]:
                    break
                record[i, first_row + r] = now
            y[i], h[i] = now, step
        return taken, rejected


class _Several(CompiledLoop):
    """The library of several flows."""

    kind = "flows"

    def __init__(self, flows: Sequence[Flow], recipe: str | None) -> None:
        super().__init__(recipe)
        self.flows = tuple(flows)

    def source(self, lanes: int = 1) -> str:
        pulls = next((flow for flow in self.flows if flow._parts[2]), self.flows[0])
        methods = [flow._method for flow in self.flows]
        return flows_source(*pulls.functions, pulls.after, methods, lanes, pulls.rigid)

    def _settings(self) -> tuple[Any, ...]:
        return tuple((*flow._settings(), flow._parts[2] is not None) for flow in self.flows)

    def _prepare(self, library: ctypes.CDLL) -> ctypes.CDLL:
        return library


def together(flows: Sequence[Flow], recipe: str | None = None) -> None:
    """Let flows that differ in their methods alone share one library, in which their parts are compiled once.

    flows   with equal field, advance, pull (or None) and after, none of which has been run
    recipe  a text that determines the parts, as for one flow
    """
    several = _Several(flows, recipe)
    for k, flow in enumerate(flows):
        flow._shared = several, k


def stages(
    paths: Sequence[Path],
    c: Sequence[float],
    velocity: Callable[[float, Any], Any],
    advance: Callable[[Any, Any], Any],
    pull: Callable[[Any, Any], Any] | None,
    t: float,
    h: Any,
    y: Any,
) -> tuple[list[Any], Any]:
    """The velocities k of a step from (t, y), and its end; the arguments are those of `Flow`."""
    k, points = [velocity(t, y)], [y]
    for i, (start, exponents) in enumerate(paths[1:], start=1):
        point = points[start]
        for row in exponents:
            psi = h * sum((a * k[j] for j, a in row), np.zeros_like(k[0]))
            point = advance(point, psi)
        points.append(point)
        if i < len(c):
            f = velocity(t + c[i] * h, point)
            k.append(f if pull is None else pull(psi, f))
    return k, points[-1]


def _time(function: Function | Program, t: float) -> Any:
    """t in the shape that a function of (t, y, u) takes, () or (1,)."""
    return np.reshape(t, next(iter(function.inputs.values())).shape)


def parts(
    u: Samples, t: float, end: float, alone: bool = False
) -> Iterator[tuple[float, float, Callable[[float], Any]]]:
    """(begin, end, efforts as a function of time) of the parts of a step from t to `end`, one a piece of u.

    Efforts are (dim,) where there is one member `alone`, else (1 or n, dim).
    """
    while True:
        stop, piece = u.part_end(t, end), u.piece(t)

        def efforts(at: float, piece: int = piece) -> Any:
            values = u.at(at, piece)
            return values[0] if alone else values

        yield t, stop, efforts
        if stop >= end:
            return
        t = stop


def _shared(share: Callable[[int, int], None], n: int, lanes: int, threads: int) -> None:
    """share(start, stop) for all members, by threads that take whole vectors of lanes."""
    size = -(-n // max(threads, 1))
    size += -size % lanes
    if size >= n:
        share(0, n)
        return
    with ThreadPoolExecutor(max_workers=threads) as pool:
        list(pool.map(lambda start: share(start, min(start + size, n)), range(0, n, size)))
