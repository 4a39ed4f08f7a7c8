"""What the flows have in common: a loop in C, compiled for one lane and for many, found by its recipe."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Sequence
from functools import cached_property
from typing import Any

from . import build
from .kernel import FEW_MEMBERS, find_compiler_or_warn


class CompiledLoop:
    """A loop over steps for an ensemble, whose members are lanes of vectors.

    kind    what the notes of its libraries are called
    recipe  a text that determines its traced parts, with which a library of an earlier process is found
            untraced; None where users' own code takes part
    """

    kind: str

    def __init__(self, recipe: str | None) -> None:
        self._recipe = recipe
        self._lock = threading.RLock()
        self._libraries: dict[int, Any] = {}

    def source(self, lanes: int = 1) -> str:
        """C source of the loop over `lanes`."""
        raise NotImplementedError

    def _settings(self) -> tuple[Any, ...]:
        """What determines the source beside the recipe."""
        raise NotImplementedError

    def _flags(self, lanes: int) -> Sequence[str]:
        """Options of the compiler."""
        return build.FLAGS

    def _prepare(self, library: ctypes.CDLL) -> ctypes.CDLL:
        """The library with the types of its functions."""
        raise NotImplementedError

    @cached_property
    def _compiler(self) -> build.Compiler | None:
        return find_compiler_or_warn()

    def _library(self, lanes: int) -> ctypes.CDLL:
        compiler = self._compiler
        assert compiler is not None
        note = None
        if self._recipe:
            parts = (self._recipe, repr(self._settings()), f"{self.kind}{lanes}", compiler.identity)
            note = build.digest(*parts, build.processor(), *build.FLAGS)

        def compiled() -> Any:
            return build.library([self.source(lanes)], compiler, self._flags(lanes))

        return self._prepare(build.load(build.noted(note, compiled)))

    def _kept(self, lanes: int) -> Any:
        """The library over so many lanes; the lock is this loop's own, so that others compile meanwhile."""
        if lanes not in self._libraries:
            with self._lock:
                if lanes not in self._libraries:
                    self._libraries[lanes] = self._library(lanes)
        return self._libraries[lanes]

    @property
    def _one(self) -> Any:
        return self._kept(1)

    @property
    def _many(self) -> tuple[Any, int]:
        assert self._compiler is not None
        lanes = build.lanes(self._compiler)
        return self._kept(lanes), lanes

    def _for(self, members: int) -> tuple[Any, int]:
        """The library for so many members, and its lanes."""
        return (self._one, 1) if members < FEW_MEMBERS else self._many
