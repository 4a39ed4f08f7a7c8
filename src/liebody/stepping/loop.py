"""The loops of runtime/march.h: compiled for one lane and for many, found by their recipe, and called."""

from __future__ import annotations

import copy
import ctypes
import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, Self

import numpy as np

from ..base.errors import IntegrationError
from ..base.interrupts import CaughtSignals
from ..compiler.native import build
from ..compiler.native.kernel import Kernel
from ..compiler.native.libraries import Libraries
from .march import Ensemble, Settings, Steps
from .records import Guards
from .samples import Samples
from .singular import Nearest

FEW_MEMBERS = 2  # members from which on an ensemble runs over lanes
MEMORY = "there is no memory for the equations of a step"
LOG = np.dtype([("entries", np.uintp), ("room", np.int64), ("kept", np.int64)])  # a Log of runtime/march.h


class _Record(ctypes.Structure):
    _fields_ = build.fields("void_p values, int64 rows, void_p failed losses nearest")


class _StepsCall(ctypes.Structure):
    _fields_ = build.fields(
        "int64 n, void_p y efforts, double t h, int64 steps every, void_p record, int64 row, "
        "void_p taken signals"
    )


class _March(ctypes.Structure):
    _fields_ = build.fields(
        "int64 n rows until, void_p times start y clock record ends counts last nearest logs queue, "
        "double rtol atol tolerance least, int64 limit most, void_p signals calls"
    )


def _place(array: Any) -> int:
    """Address of the first entry, in a third of the time of `array.ctypes.data`; 0 of an empty array."""
    return ctypes.addressof(ctypes.c_char.from_buffer(array)) if array.size else 0


class Unable(Exception):
    """A step has to be taken carefully, and the library has no functions for that."""


class StepsCall:
    """A call of `fixed_steps` of runtime/march.h for a share of the members, which may be made again."""

    def __init__(
        self, function: Any, y: Any, efforts: Any, h: float, kept: Sequence[Any], signals: int | None = None
    ) -> None:
        record = kept[0]
        self.taken = ctypes.c_int64()
        self._kept = _Record(_place(record), record.shape[1], *map(_place, kept[1:]))
        # C holds addresses only: these arrays must live as long as the call may be made
        self._alive = (y, efforts, kept)
        address = ctypes.addressof
        self._in_c = _StepsCall(
            len(y), _place(y), address(efforts), 0, h, 1, 1, address(self._kept), 0, address(self.taken),
            signals,
        )  # fmt: skip
        self._function = function
        self._pointer = ctypes.byref(self._in_c)
        self._set = (1, 1, 0)  # steps, every and row in the structure

    def __call__(self, t: float, steps: int, every: int, row: int) -> None:
        """`steps` steps from t; every `every`-th state is kept, from this row of the record on."""
        c = self._in_c
        c.t = t
        if (steps, every, row) != self._set:  # each field takes a while
            self._set = c.steps, c.every, c.row = steps, every, row
        code = self._function(self._pointer)
        if code:
            _succeeded(code)


class MarchCall:
    """A call of `march` of runtime/march.h for the arrays of an ensemble, which may be made again.

    Threads take members from one queue, because members differ in the steps they need. C grows a log of
    events for each member; `CompiledLoop` copies the logs out and frees them, also after an exception.
    """

    def __init__(
        self, library: Any, m: Ensemble, until: int, settings: Settings, calls: Calls | None
    ) -> None:
        self._calls = calls  # C holds its address only
        self._library = library
        self._options = until, settings
        self._arrays = self._arrays_of(m)  # C holds addresses only
        self.logs = np.zeros(len(m.y), LOG)
        self._queue = ctypes.c_int64(0)
        times, *others = map(_place, self._arrays)
        self._in_c = _March(
            len(m.y), len(m.times), until, times, None, 0, *others, _place(self.logs),
            ctypes.addressof(self._queue), settings.rtol, settings.atol,
            -1.0 if settings.tolerance is None else settings.tolerance, settings.least, settings.limit,
            settings.most, None, calls and calls.address,
        )  # fmt: skip
        self._function = library.march
        self._pointer = ctypes.byref(self._in_c)

    @staticmethod
    def _arrays_of(m: Ensemble) -> tuple[Any, ...]:
        """The arrays that stay the same when the ensemble is restarted, which are all but y."""
        return m.times, m.clock, m.record, m.ends, m.counts, m.last, m.nearest.rows

    def is_of(self, library: Any, m: Ensemble, until: int, settings: Settings) -> bool:
        """Whether it is this call."""
        same = library is self._library and (until, settings) == self._options
        return same and all(map(operator.is_, self._arrays, self._arrays_of(m)))

    def prepare(self, start: Any, y: Any, signals: CaughtSignals | None) -> None:
        """Begin anew: all members are in the queue, and nothing is in their logs."""
        self._in_c.start = None if start is None else start.ctypes.data  # which may be read-only
        self._in_c.y = _place(y)
        self._in_c.signals = signals and signals.address
        self._queue.value = 0
        if self._options[1].most:
            self.logs[:] = 0

    def __call__(self, samples: Any) -> None:
        """Take members from the queue until it is empty; several threads may call at once."""
        _succeeded(self._function(self._pointer, ctypes.byref(samples)))


class Calls:
    """The batch loops of kernels over one lane, which a march calls between steps (runtime/calls.h)."""

    def __init__(self, kernels: Iterable[Kernel]) -> None:
        # whoever keeps the libraries keeps their functions
        self._libraries = [kernel.loops(1)[False] for kernel in kernels]
        places = [ctypes.cast(library.run, ctypes.c_void_p) for library in self._libraries]
        self._in_c = (ctypes.c_void_p * len(places))(*places)
        self.address = ctypes.addressof(self._in_c)


class CompiledLoop:
    """A loop over the steps of one method for one system; members of an ensemble are lanes of vectors.

    libraries  the libraries that contain the loop
    name       its name there: `march`, or `fixed_steps`, with a number where several methods share a library
    calls      functions that it calls between steps; None: there are none
    """

    calls: Calls | None = None

    def __init__(self, libraries: Libraries, name: str) -> None:
        self.libraries = libraries
        self.name = name

    def _for(self, members: int) -> Any:
        """The library for so many members; None without a compiler."""
        return self.libraries.over(members >= FEW_MEMBERS)

    def is_compiled(self, members: int) -> bool:
        """Whether a library for so many members exists, after compiling it; False without a compiler."""
        return self._for(members) is not None

    def steps_call(
        self, y: Any, u: Samples, h: float, record: Any, failed: Any, losses: Any, nearest: Nearest
    ) -> StepsCall:
        """A call for steps of these arrays, which must stay where they are; it can be made repeatedly."""
        function = getattr(self._for(len(y)), self.name)
        return StepsCall(function, y, u.in_c(), h, (record, failed, losses, nearest.rows))

    def steps(
        self, y: Any, u: Samples, t: float, h: float, steps: int, every: int, record: Any, row: int,
        failed: Any, losses: Any, nearest: Nearest, threads: int,
    ) -> None:  # fmt: skip
        """`fixed_steps` of runtime/march.h.

        An exception in the handler of a signal ends it. A KeyboardInterrupt has an attribute `reached`: the
        time of the states, or None if members are at several times.
        """
        n = len(y)
        if not n:
            return
        # A share of the members for each thread, in whole vectors of lanes: then results do not depend on the
        # number of threads.
        function = getattr(self._for(n), self.name)
        size = -(-n // max(threads, 1))
        size += -size % self.libraries.lanes(n >= FEW_MEMBERS)
        shares: list[StepsCall] = []
        try:
            signals = CaughtSignals.of_this_thread()
            address = signals.address if signals else None
            arrays = y, record, failed, losses, nearest.rows
            for start in range(0, n, size):
                share = [x[start : start + size] for x in arrays] if size < n else arrays
                shares.append(StepsCall(function, share[0], u.in_c(start), h, share[1:], address))
            if len(shares) < 2:
                shares[0](t, steps, every, row)
            else:
                stop = [signals.stop] if signals else []
                build.in_threads(lambda share: share(t, steps, every, row), shares, threads, *stop)
            if signals:
                signals.raise_caught()
        except KeyboardInterrupt as stop:
            # shares may have been stopped after different numbers of steps
            taken = {share.taken.value for share in shares}
            stop.reached = t + taken.pop() * h if len(taken) == 1 and min(taken) >= 0 else None  # type: ignore[attr-defined]
            raise

    def march(self, m: Ensemble, u: Samples, until: int, settings: Settings, threads: int) -> None:
        """`march` of runtime/march.h."""
        library = self._for(len(m.y))
        # An ensemble that is restarted makes the same call again, which takes less time than another one.
        call = m.call
        if not isinstance(call, MarchCall) or not call.is_of(library, m, until, settings):
            m.call = call = MarchCall(library, m, until, settings, self.calls)
        samples = u.in_c()
        try:
            signals = CaughtSignals.of_this_thread()
            call.prepare(m.start, m.y, signals)

            def go(_: int) -> None:
                call(samples)

            if threads == 1:
                go(0)
            else:
                build.in_threads(go, range(threads), threads, *([signals.stop] if signals else []))
            if signals:
                signals.raise_caught()
        except KeyboardInterrupt:
            m.interrupt(until)
            raise
        finally:
            if settings.most:
                self._drain(library, m, call.logs)

    @staticmethod
    def _drain(library: Any, m: Ensemble, logs: Any) -> None:
        """Move the events in the logs of C to the logs of the members."""
        entries = np.empty((logs["kept"].sum(), 2 + m.y.shape[1]))
        addresses = (ctypes.c_void_p(logs.ctypes.data), ctypes.c_void_p(entries.ctypes.data))
        library.drain(ctypes.c_int64(len(logs)), *addresses)
        if len(entries):
            for i, new in enumerate(np.split(entries, np.cumsum(logs["kept"][:-1]))):
                m.keep(i, new)


def _succeeded(code: int) -> None:
    """Raise the error that the result of a loop in C stands for; zero is success."""
    if code < 0:
        raise MemoryError(MEMORY)
    if code > 0:
        raise Unable


class Way(NamedTuple):
    """The kind of a loop: each kind is compiled separately, so that it contains only what it needs.

    march       whether lanes march independently
    controlled  under error control
    remembers   whether remembered quantities are adapted to steps of different lengths
    jumps       whether they are adapted to efforts that jump
    careful     whether it has the functions for careful steps (`watch`)
    """

    march: bool = False
    controlled: bool = False
    remembers: bool = False
    jumps: bool = False
    careful: bool = False

    @property
    def name(self) -> str:
        """Name of the loop in C."""
        return "march" if self.march else "fixed_steps"


class CompiledSteps(Steps):
    """A method's steps in loops that are compiled when they are needed; without a compiler they run in NumPy.

    A subclass overrides `functions` and `_source`, and the members of `Steps` for NumPy.

    recipe    a text that determines the traced functions, with which a library of an earlier process is found
              without tracing; None where users' code takes part
    settings  further values that determine the source
    loops     the loops that have been asked for, each made when it is called first
    """

    called: Callable[[float, Any], Any] | None = None
    """(t, y) -> u: efforts of a Python function at each stage, in place of samples; nothing is compiled"""
    is_watched = False
    """Whether a step may be impossible but for careful functions, which few flows ever need"""
    is_careful = False
    """Whether loops are compiled with the functions for careful steps"""
    single = False
    """Whether states and efforts are computed in float32; times are double all the same"""
    memory: Any = None
    """How remembered quantities are adapted to the next step; None where they need no adapting"""

    def __init__(self, recipe: str | None, *settings: Any) -> None:
        self.recipe = recipe
        self.settings = settings
        self.loops: dict[Way, CompiledLoop] = {}
        self.device_loops: dict[Any, Any] = {}  # of `stepping.device`

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of states and of their record."""
        return np.dtype(np.float32 if self.single else np.float64)

    @property
    def guard_count(self) -> int:
        """The number of guards."""
        return len(self.guards.directions) if self.guards else 0

    @property
    def identity(self) -> tuple[str | None, str]:
        """The recipe and the settings: two flows that differ in them take other steps."""
        return self.recipe, repr(self.settings)

    @property
    def functions(self) -> Any:
        """The functions of a step, traced."""
        raise NotImplementedError

    def _source(self, way: Way, lanes: int) -> str:
        """C source of a loop over `lanes`."""
        raise NotImplementedError

    def device_source(self, way: Way) -> str:
        """CUDA C++ of such a loop, with the kernel of runtime/device_march.h."""
        raise IntegrationError("steps of this method have no kernel for devices; take an explicit method")

    def _flags(self, way: Way, lanes: int) -> Sequence[str]:
        """Options of the compiler for such a loop."""
        return build.FLAGS

    def source(self, lanes: int = 1) -> str:
        """C source of the steps of one length over `lanes`."""
        return self._source(Way(), lanes)

    def watching(self, guards: Guards) -> Self:
        """The same flow, with guards whose events its march locates."""
        self.functions  # noqa: B018 - traced once for both
        other = copy.copy(self)
        other.guards = guards
        other.recipe = None
        other.loops = {}
        other.device_loops = {}
        return other

    def _loop(self, u: Samples, march: bool = False, controlled: bool = False) -> CompiledLoop:
        """The loop for these efforts, which is made once."""
        # the kind of loop follows from the efforts: constant ones neither jump nor divide steps
        way = Way(march, controlled, careful=self.is_careful)
        if self.memory is not None:
            way = way._replace(remembers=march or not u.constant, jumps=not u.constant and not u.linear)
        if way not in self.loops:

            def source(lanes: int) -> build.Source:
                name = f"steps of {'one state' if lanes == 1 else f'{lanes} states at a time'}"
                return build.Source([self._source(way, lanes)], self._flags(way, lanes), name=name)

            recipe = [self.recipe, repr(self.settings), repr(way)] if self.recipe else []
            return self.loops.setdefault(
                way, CompiledLoop(Libraries(source, recipe, single=self.single), way.name)
            )
        return self.loops[way]

    def steps(
        self, y: Any, u: Any, t: float, h: float, steps: int, every: int, record: Any, row: int, failed: Any,
        threads: int = 1, losses: Any = None, nearest: Nearest | None = None,
    ) -> None:  # fmt: skip
        """Advance the ensemble y (n, point), in place, by `steps` steps of length h from time t.

        y       and `record` are arrays of `dtype`
        u       efforts: Samples, or constant ones (1 or n, 1, dim). Steps that go across samples are taken in
                parts, which end there
        record  (n, records, point): every `every`-th state goes to record[:, row], record[:, row + 1], ...
        failed  (n,) integers: 1 + the row from which on a member is not finite; unchanged for the others
        losses  (n, 2): for members whose equations cannot be solved, the time at the start of that step, and
                the reason (`REASONS`). Such members are NaN from there on, while others go on
        nearest where the members came closest to dependent constraints, kept from call to call
        """
        assert y.dtype == record.dtype == self.dtype  # C gets their addresses only
        u = Samples.of(u)
        losses = np.zeros((len(y), 2)) if losses is None else losses
        nearest = nearest or Nearest.of(*y.shape)
        arguments = (y, u, t, h, steps, every, record, row, failed, losses, nearest)
        if self.called is not None or not self._loop(u).is_compiled(len(y)):
            self._fixed_numpy(*arguments)
            return
        changed = y, failed, nearest.rows
        saved = self._saved(changed)
        try:
            self._loop(u).steps(*arguments, threads)
        except Unable:
            self._restore_carefully(changed, saved)
            self._loop(u).steps(*arguments, threads)

    def march(self, members: Ensemble, u: Any, until: int, settings: Settings, threads: int = 1) -> None:
        """Advance members until the rows of their record before `until` are known; locate events of guards.

        Error control chooses the steps, or they have the length that the members begin with; u as in `steps`.
        """
        m = members
        u = Samples.of(u)
        loop = self._loop(u, True, settings.controlled)
        if not loop.is_compiled(len(m.y)):
            m.copy_start()
            self._march_numpy(m, u, until, settings)
            return
        changed = m.y, m.clock, m.counts, m.last, m.ends, m.nearest.rows, m.log
        saved = self._saved(changed)
        try:
            loop.march(m, u, until, settings, threads)
        except Unable:
            self._restore_carefully(changed, saved)
            self._loop(u, True, settings.controlled).march(m, u, until, settings, threads)
        m.start = None

    def _saved(self, changed: Sequence[Any]) -> list[Any]:
        """Copies of what a call of a loop changes, if the call may have to be made again."""
        return [x.copy() for x in changed] if self.is_watched and not self.is_careful else []

    def _restore_carefully(self, changed: Sequence[Any], saved: Sequence[Any]) -> None:
        """Put everything back as it was, for the same call of a loop that has the careful functions.

        From now on loops are compiled with these functions, for other threads, too.
        """
        self.is_careful = True
        for x, copied in zip(changed, saved, strict=True):
            x[:] = copied
