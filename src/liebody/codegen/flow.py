"""Compiled flows: many steps of a Runge-Kutta-Munthe-Kaas method, for an ensemble, in one call."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from typing import Any

import numpy as np

from . import build
from .graph import Function
from .kernel import FEW_MEMBERS, find_compiler_or_warn
from .printers.flow import flow_source


class _Efforts(ctypes.Structure):
    _fields_ = (
        ("table", ctypes.c_void_p),
        ("member_stride", ctypes.c_long),
        ("samples", ctypes.c_long),
        ("first", ctypes.c_double),
        ("interval", ctypes.c_double),
        ("linear", ctypes.c_int),
    )


class Flow:
    """The steps y -> y exp(psi) of an explicit method for a left-trivialised vector field, compiled into one loop.

    field    (t, y, u) -> f, the velocity in the algebra; u are efforts, constant or sampled
    advance  (y, psi) -> y exp(psi)
    pull     (psi, f) -> dexp^-1_(-psi) f
    tableau  (A, b, c) of the method

    Members of an ensemble are lanes of vectors and shares of threads. Without a compiler the same steps run as
    NumPy source.
    """

    def __init__(
        self,
        field: Callable[[], Function],
        advance: Callable[[], Function],
        pull: Callable[[], Function],
        tableau: tuple[Sequence[Sequence[float]], Sequence[float], Sequence[float]],
        recipe: str | None = None,
    ) -> None:
        self._parts, self.tableau, self._recipe = (field, advance, pull), tableau, recipe
        self._lock = threading.RLock()

    @cached_property
    def functions(self) -> tuple[Function, Function, Function]:
        """field, advance and pull, traced."""
        field, advance, pull = (part() for part in self._parts)
        return field, advance, pull

    @cached_property
    def _compiler(self) -> build.Compiler | None:
        return find_compiler_or_warn()

    def _library(self, lanes: int) -> ctypes.CDLL:
        assert self._compiler is not None
        note = None
        if self._recipe:
            parts = (self._recipe, repr(self.tableau), f"flow{lanes}", self._compiler.identity, build.processor())
            note = build.cache_folder() / f"{build.digest(*parts, *build.FLAGS)}.path"
            if note.exists() and (path := build.cache_folder() / note.read_text()).exists():
                return _prepare(build.load(path))
        path = build.library([flow_source(*self.functions, *self.tableau, lanes)], self._compiler)
        if note:
            build.store(note.stem, ".path", path.name.encode())
        return _prepare(build.load(path))

    @cached_property
    def _one(self) -> ctypes.CDLL:
        with self._lock:
            return self._library(1)

    @cached_property
    def _many(self) -> tuple[ctypes.CDLL, int]:
        assert self._compiler is not None
        with self._lock:
            lanes = build.lanes(self._compiler)
            return self._library(lanes), lanes

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
        first: float = 0.0,
        interval: float = 1.0,
        linear: bool = False,
        threads: int = 1,
    ) -> None:
        """Advance the ensemble y (n, point), in place, by `steps` steps of length h from time t.

        u       efforts (1 or n, samples, dim), sampled from time `first` on at `interval`
        record  (n, records, point): every `every`-th state goes to record[:, row], record[:, row + 1], ...
        failed  (n,) integers: 1 + the row at which a member was found not finite, left alone otherwise
        """
        n, samples = len(y), u.shape[1]
        if self._compiler is None:
            self._steps_numpy(y, u, t, h, steps, every, record, row, failed, first, interval, linear)
            return
        library, lanes = (self._one, 1) if n < FEW_MEMBERS else self._many

        def share(start: int, stop: int) -> None:
            table = u[start:] if len(u) > 1 else u
            stride = u.shape[1] * u.shape[2] if len(u) > 1 else 0
            efforts = _Efforts(table.ctypes.data, stride, samples, first, interval, int(linear))
            library.fixed_steps(
                stop - start,
                y[start:].ctypes.data,
                ctypes.byref(efforts),
                t,
                h,
                steps,
                every,
                record[start:].ctypes.data,
                record.shape[1],
                row,
                failed[start:].ctypes.data,
            )

        size = -(-n // max(threads, 1))
        size += -size % lanes
        if size >= n:
            share(0, n)
            return
        with ThreadPoolExecutor(max_workers=threads) as pool:
            list(pool.map(lambda start: share(start, min(start + size, n)), range(0, n, size)))

    @cached_property
    def _numpy(self) -> tuple[Callable[..., Any], ...]:
        from .printers.numpy_source import compile_numpy

        return tuple(compile_numpy(f) for f in self.functions)

    def _steps_numpy(
        self, y: Any, u: Any, t: float, h: float, steps: int, every: int, record: Any, row: int, failed: Any,
        first: float, interval: float, linear: bool,
    ) -> None:  # fmt: skip
        """The loop of runtime/flow.h, with NumPy source for its functions."""
        field, advance, pull = self._numpy
        A, b, c = self.tableau
        alone = len(y) == 1
        state = y[0].copy() if alone else y.copy()

        def efforts(at: float) -> Any:
            s = min(max((at - first) / interval, 0.0), u.shape[1] - 1.0) if u.shape[1] > 1 else 0.0
            k = min(int(s if linear else s + 1e-9), u.shape[1] - 1)
            low, high = u[:, k], u[:, min(k + 1, u.shape[1] - 1)]
            value = low + (s - k) * (high - low) if linear else low
            return value[0] if alone or len(u) == 1 else value

        with np.errstate(all="ignore"):
            for s in range(steps):
                start = t + s * h
                k = [field(start, state, efforts(start))]
                for i in range(1, len(b)):
                    psi = h * sum((A[i][j] * k[j] for j in range(i) if A[i][j]), np.zeros_like(k[0]))
                    at = start + c[i] * h
                    k.append(pull(psi, field(at, advance(state, psi), efforts(at))))
                psi = h * sum((w * stage for w, stage in zip(b, k, strict=True) if w), np.zeros_like(k[0]))
                state = advance(state, psi)
                if (s + 1) % every == 0:
                    record[:, row] = state
                    row += 1
                    lost = ~np.isfinite(np.atleast_2d(state)).all(axis=1)
                    failed[lost & (failed == 0)] = row
        y[...] = state


def _prepare(library: ctypes.CDLL) -> ctypes.CDLL:
    p, n, d = ctypes.c_void_p, ctypes.c_long, ctypes.c_double
    library.fixed_steps.restype = None
    library.fixed_steps.argtypes = [n, p, p, d, d, n, n, p, n, n, p]
    return library
