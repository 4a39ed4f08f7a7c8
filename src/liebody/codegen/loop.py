"""The loops of runtime/march.h: compiled for one lane and for many, found by their recipe, and called."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Sequence
from functools import cached_property
from types import SimpleNamespace
from typing import Any

import numpy as np

from . import build, interrupts
from .graph import undisturbed
from .kernel import FEW_MEMBERS, find_compiler_or_warn, warn_of_no_compiler
from .march import Ensemble, Settings
from .samples import Samples
from .watch import Nearest

MEMORY = "there is no memory for the equations of a step"
LOG = np.dtype([("entries", np.uintp), ("room", np.int64), ("kept", np.int64)])  # a Log of runtime/march.h


class _Record(ctypes.Structure):
    _fields_ = build.fields("void_p values, int64 rows, void_p failed losses nearest")


class _Course(ctypes.Structure):
    _fields_ = build.fields(
        "int64 n, void_p y efforts, double t h, int64 steps every, void_p record, int64 row, "
        "void_p count asked"
    )


class _March(ctypes.Structure):
    _fields_ = build.fields(
        "int64 n rows until, void_p times y clock record ends counts last nearest logs queue, "
        "double rtol atol tolerance least, int64 limit most, void_p asked"
    )


def _place(array: Any) -> int:
    """Where the first entry is; a third of the time of `array.ctypes.data`."""
    return ctypes.addressof(ctypes.c_char.from_buffer(array))


class Unable(Exception):
    """A step has to be taken carefully, and the library has no functions for that."""


class Course:
    """A call of `fixed_steps` of runtime/march.h for a share of the members, which may be made again."""

    def __init__(
        self, function: Any, y: Any, efforts: Any, h: float, kept: Sequence[Any], asked: int | None = None
    ) -> None:
        record = kept[0]
        self.counts = (ctypes.c_int64 * 3)()
        self._kept = _Record(_place(record), record.shape[1], *map(_place, kept[1:]))
        address, self._alive = ctypes.addressof, (y, efforts, kept)
        self._in_c = _Course(
            len(y), _place(y), address(efforts), 0, h, 1, 1, address(self._kept), 0, address(self.counts),
            asked,
        )  # fmt: skip
        self._function, self._pointer, self._set = function, ctypes.byref(self._in_c), (1, 1, 0)

    def __call__(self, t: float, steps: int, every: int, row: int) -> None:
        """`steps` steps from t; every `every`-th state is kept, from this row of the record on."""
        c = self._in_c
        c.t = t
        if (steps, every, row) != self._set:  # each field takes a while
            self._set = c.steps, c.every, c.row = steps, every, row
        code = self._function(self._pointer)
        if code:
            _succeeded(code)


class CompiledLoop:
    """A loop over the steps of one method for one system; members of an ensemble are lanes of vectors.

    kind      "steps" of one length, or a "march"
    recipe    a text that determines what is traced, with which a library of an earlier process is found
              untraced; None where users' own code takes part
    settings  what determines the source beside the recipe
    source    C source for a number of lanes
    flags     options of the compiler for a number of lanes
    """

    def __init__(
        self,
        kind: str,
        recipe: str | None,
        settings: tuple[Any, ...],
        source: Callable[[int], str],
        flags: Callable[[int], Sequence[str]] = lambda lanes: build.FLAGS,
    ) -> None:
        self.kind, self.recipe, self.settings = kind, recipe, settings
        self.source, self.flags = source, flags
        self._lock = threading.RLock()
        self._libraries: dict[int, Any] = {}

    @cached_property
    def compiler(self) -> build.Compiler | None:
        """The C compiler; None where there is none, after a warning."""
        return find_compiler_or_warn()

    def _library(self, lanes: int) -> Any:
        compiler = self.compiler
        assert compiler is not None
        note = None
        if self.recipe:
            parts = (self.recipe, repr(self.settings), f"{self.kind}{lanes}", compiler.identity)
            note = build.note(*parts)

        @undisturbed()
        def source() -> build.Source:
            return build.Source([self.source(lanes)], self.flags(lanes))

        return self._prepare(build.library(source, compiler, note))

    def _prepare(self, library: Any) -> Any:
        """The library with the types of its functions."""
        p, n = ctypes.c_void_p, ctypes.c_int64
        if self.kind == "march":
            library.march.restype, library.march.argtypes = n, [p, p]
            library.drain.restype, library.drain.argtypes = None, [n, p, p]
        elif self.kind == "steps":
            library.fixed_steps.restype, library.fixed_steps.argtypes = n, [p]
        return library

    def _kept(self, lanes: int) -> Any:
        """The library over so many lanes; the lock is this loop's own, so that others compile meanwhile."""
        if lanes not in self._libraries:
            with self._lock:
                if lanes not in self._libraries:
                    self._libraries[lanes] = self._library(lanes)
        return self._libraries[lanes]

    def _for(self, members: int) -> tuple[Any, int]:
        """The library for so many members, and its lanes."""
        assert self.compiler is not None
        lanes = 1 if members < FEW_MEMBERS else build.lanes(self.compiler)
        return self._kept(lanes), lanes

    def is_compiled(self, members: int) -> bool:
        """Whether a library for so many members is there, made if need be; False without a compiler."""
        try:
            return self.compiler is not None and bool(self._for(members))
        except build.NoPlace as error:
            self.compiler = None
            warn_of_no_compiler(str(error))
            return False

    def course(
        self, y: Any, u: Samples, h: float, record: Any, failed: Any, losses: Any, nearest: Nearest
    ) -> Course:
        """Steps of these arrays, which stay where they are, to be taken as often as wanted."""
        library, _ = self._for(len(y))
        return Course(library.fixed_steps, y, u.in_c(), h, (record, failed, losses, nearest.rows))

    def steps(
        self, y: Any, u: Samples, t: float, h: float, steps: int, every: int, record: Any, row: int,
        failed: Any, losses: Any, nearest: Nearest, threads: int,
    ) -> tuple[int, int]:  # fmt: skip
        """`fixed_steps` of runtime/march.h; iterations and Jacobians, of a vector of members each.

        A KeyboardInterrupt has the time of the states as its `reached`; None if they are at several times.
        """
        n = len(y)
        if not n:
            return 0, 0
        library, lanes = self._for(n)
        size = -(-n // max(threads, 1))
        size += -size % lanes
        shares: list[Course] = []
        try:
            with interrupts.Deferred() as asked:
                arrays = y, record, failed, losses, nearest.rows
                for start in range(0, n, size):
                    own = [x[start : start + size] for x in arrays] if size < n else arrays
                    shares.append(Course(library.fixed_steps, own[0], u.in_c(start), h, own[1:], asked))
                if len(shares) < 2:
                    shares[0](t, steps, every, row)
                else:
                    build.in_threads(lambda share: share(t, steps, every, row), shares, threads)
        except KeyboardInterrupt as stop:
            taken = {share.counts[2] for share in shares}
            stop.reached = t + taken.pop() * h if len(taken) == 1 and min(taken) >= 0 else None  # type: ignore[attr-defined]
            raise
        return sum(s.counts[0] for s in shares), sum(s.counts[1] for s in shares)

    def march(self, m: Ensemble, u: Samples, until: int, settings: Settings, threads: int) -> None:
        """`march` of runtime/march.h."""
        n = len(m.y)
        library, _ = self._for(n)
        logs, queue = np.zeros(n, LOG), ctypes.c_int64(0)
        arrays = (m.times, m.y, m.clock, m.record, m.ends, m.counts, m.last, m.nearest.rows, logs)
        fields = (
            n, len(m.times), until, *(x.ctypes.data for x in arrays), ctypes.addressof(queue),
            settings.rtol, settings.atol, -1.0 if settings.tolerance is None else settings.tolerance,
            settings.least, settings.limit, settings.most,
        )  # fmt: skip
        given = u.in_c()
        try:
            with interrupts.Deferred() as asked:
                control = _March(*fields, asked)

                def go(_: int) -> None:
                    _succeeded(library.march(ctypes.byref(control), ctypes.byref(given)))

                if threads == 1:
                    go(0)
                else:
                    build.in_threads(go, range(threads), threads)
        except KeyboardInterrupt:
            m.interrupt(until)
            raise
        finally:
            entries = np.empty((logs["kept"].sum(), 2 + m.y.shape[1]))
            library.drain(n, logs.ctypes.data, entries.ctypes.data)
        if len(entries):
            for i, new in enumerate(np.split(entries, np.cumsum(logs["kept"][:-1]))):
                m.keep(i, new)


def _succeeded(code: int) -> None:
    """Raise for what the loops in C return."""
    if code < 0:
        raise MemoryError(MEMORY)
    if code > 0:
        raise Unable


class OneOf(CompiledLoop):
    """The steps of one method in a library that several share."""

    def __init__(self, shared: CompiledLoop, number: int) -> None:
        super().__init__("steps", None, (), shared.source)
        self.shared, self.number = shared, number

    def _library(self, lanes: int) -> Any:
        found = getattr(self.shared._kept(lanes), f"fixed_steps_{self.number}")
        return self._prepare(SimpleNamespace(fixed_steps=found))
