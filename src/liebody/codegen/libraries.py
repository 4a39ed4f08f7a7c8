"""The compiled forms of a source, over one lane and over as many as a vector has, made when needed."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Sequence
from functools import cached_property

from ..errors import warn
from . import build
from .graph import undisturbed


class MissingCompiler(UserWarning):
    """There is no C compiler: kernels run as NumPy source, slower."""


class Libraries:
    """What a source is compiled to over one lane and over many; without a compiler, None and one warning.

    source  of a number of lanes
    recipe  words that determine the source, with which a library of an earlier process is found untraced;
            none where users' own code takes part
    ready   is called with a library that is new, and whether it has many lanes, before it is used
    single  whether numbers have 32 bits
    """

    def __init__(
        self,
        source: Callable[[int], build.Source],
        recipe: Sequence[str],
        ready: Callable[[ctypes.CDLL, bool], None] = lambda library, many: None,
        single: bool = False,
    ) -> None:
        self._source, self._recipe, self._ready, self._single = source, recipe, ready, single
        self.made: dict[bool, ctypes.CDLL] = {}
        self._lock = threading.RLock()  # of its own, so that other libraries are compiled meanwhile

    @cached_property
    def compiler(self) -> build.Compiler | None:
        """The C compiler; None where there is none, after a warning."""
        return find_compiler_or_warn()

    def lanes(self, many: bool) -> int:
        """How many lanes there are."""
        assert self.compiler is not None
        return build.lanes(self.compiler, self._single) if many else 1

    def over(self, many: bool) -> ctypes.CDLL | None:
        """The library, compiled if need be; None without a compiler, or a folder for it."""
        if many not in self.made and self.compiler is not None:
            with self._lock:
                if many not in self.made:
                    try:
                        library = self._compiled(many)
                    except build.NoPlace as error:
                        self.compiler = None
                        _warn_once(str(error))
                        return None
                    self._ready(library, many)
                    self.made[many] = library
        return self.made.get(many)

    def _compiled(self, many: bool) -> ctypes.CDLL:
        assert self.compiler is not None
        build.check_numbers(self.compiler)
        lanes, note = self.lanes(many), None
        if self._recipe:
            note = build.note(*self._recipe, f"over {lanes}", self.compiler.identity)
        return build.library(undisturbed()(lambda: self._source(lanes)), self.compiler, note)


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


_warned = False


def _warn_once(why: str, advice: str = "make room, or set LIEBODY_CACHE or TMPDIR") -> None:
    global _warned
    if not _warned:
        _warned = True
        warn(f"{why}, so kernels run as NumPy source, slower; {advice}", MissingCompiler)
