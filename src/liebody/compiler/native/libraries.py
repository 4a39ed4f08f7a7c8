"""The compiled forms of a source, over one lane and over a whole vector of lanes, made when needed.

Libraries are unloaded when nothing refers to them any more, because each takes a few memory maps, of which
the system allows a process some 65,000.
"""

from __future__ import annotations

import _ctypes
import ctypes
import os
import sys
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...base.concurrency import cached_property, lock_of, unlock
from ...base.errors import warn
from ..graph.graph import undisturbed
from . import build


class MissingCompiler(UserWarning):
    """There is no C compiler: kernels run as NumPy source, slower."""


CLOSE: Callable[[int], Any] | None = getattr(_ctypes, "dlclose", getattr(_ctypes, "FreeLibrary", None))


def _hold_open(library: ctypes.CDLL) -> None:
    """Let a library that was just opened be closed with the last object that refers to it.

    It is closed together with an array that only the library refers to, and not by `__del__`. In a circle of
    objects the collector first calls all `__del__`, in any order, and these may still call functions of the
    library. Python's collector does not track arrays, so they go last, when the circle is taken apart.
    """
    held = np.empty(0)
    # `_handle` is documented by ctypes as the system's handle of a library; there is no other name for it
    weakref.finalize(held, _close, library._handle, os.getpid()).atexit = False
    vars(library)["held_open"] = held


def _close(handle: int, process: int) -> None:
    """Close a library that this process opened.

    A forked child closes nothing of its parent's: another thread of the parent may have held the lock of the
    loader when the child was made. At the end of a process threads may still run in C.
    """
    if CLOSE and process == os.getpid() and not sys.is_finalizing():
        CLOSE(handle)


class Libraries:
    """The libraries of a source over one lane and over many; without a compiler, None and one warning.

    source  a call with the number of lanes
    recipe  words that determine the source, so that a library of an earlier process serves without tracing;
            empty if users' own code takes part
    ready   called with a new library, and whether it has many lanes, before it is used
    single  whether numbers have 32 bits
    """

    def __init__(
        self,
        source: Callable[[int], build.Source],
        recipe: Sequence[str],
        ready: Callable[[ctypes.CDLL, bool], None] = lambda library, many: None,
        single: bool = False,
    ) -> None:
        self._source = source
        self._recipe = recipe
        self._ready = ready
        self._single = single
        self.loaded: dict[bool, ctypes.CDLL] = {}

    @cached_property
    def compiler(self) -> build.Compiler | None:
        """The C compiler; None where there is none, after a warning."""
        return find_compiler_or_warn()

    def lanes(self, many: bool) -> int:
        """The number of lanes of one form."""
        assert self.compiler is not None
        return build.lanes(self.compiler, self._single) if many else 1

    def over(self, many: bool) -> ctypes.CDLL | None:
        """The library, compiled if necessary; None without a compiler, or without a folder for it."""
        # One thread compiles, others that want the same form wait. Each form has a separate lock, so other
        # libraries are compiled meanwhile.
        if many not in self.loaded and self.compiler is not None:
            with lock_of(self, many):
                if many not in self.loaded:
                    try:
                        library = self._compiled(many)
                    except build.NoPlace as error:
                        self.compiler = None
                        _warn_once(str(error))
                        return None
                    self._ready(library, many)
                    self.loaded[many] = library
                unlock(self, many)
        return self.loaded.get(many)

    def _compiled(self, many: bool) -> ctypes.CDLL:
        assert self.compiler is not None
        build.check_numbers(self.compiler)
        lanes = self.lanes(many)
        note = None
        if self._recipe:
            note = build.note(*self._recipe, f"over {lanes}", self.compiler.identity)
        library = build.library(undisturbed()(lambda: self._source(lanes)), self.compiler, note)
        _hold_open(library)  # so whoever keeps the address of a function keeps the library, too
        return library


def find_compiler_or_warn() -> build.Compiler | None:
    """The C compiler, or None after one warning that says how to get one."""
    compiler = build.find_compiler()
    refusal = build.REFUSALS[0] if build.REFUSALS else None
    if compiler is None and isinstance(refusal, build.NoPlace):
        _warn_once(str(refusal))
    elif compiler is None and refusal:
        _warn_once("there is no C compiler that works", str(refusal))
    elif compiler is None:
        _warn_once("there is no C compiler", build.ADVICE)
    return compiler


# From benchmarks/records/without_compiler.json.
SLOWER = "where a step of a simulation takes some 410 times as long"
_warned = False  # whether this process has warned that kernels are slow


def _warn_once(why: str, advice: str = "make room, or set LIEBODY_CACHE or TMPDIR") -> None:
    global _warned
    if not _warned:
        _warned = True
        warn(f"{why}, so kernels run as NumPy source, {SLOWER}; {advice}", MissingCompiler)
