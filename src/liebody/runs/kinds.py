"""The kinds of runs, among which a file finds the class that reads it.

A subclass of `Run` registers itself when it is defined, `class ConstrainedRun(Run, mark="equation")`, so that
`Run.load` need not import the subclasses. `runs/__init__.py` imports them all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class RunKind:
    """A class of runs, as files know it.

    mark   a variable that only files of this kind have; "" for a plain run
    needs  variables that all files of this kind have, beside times, states and their labels
    make   (variables, metadata) -> the run
    """

    mark: str
    needs: tuple[str, ...]
    make: Callable[[Mapping[str, np.ndarray], Mapping[str, Any]], Any]


_kinds: dict[str, RunKind] = {}


def register(kind: RunKind) -> None:
    """Let files that have the mark of this kind be read as runs of this kind."""
    _kinds[kind.mark] = kind


def kind_of(variables: Mapping[str, np.ndarray]) -> RunKind:
    """The kind of run that these variables of a file make; a plain run if no mark is among them."""
    marked = (kind for mark, kind in _kinds.items() if mark and mark in variables)
    return next(marked, _kinds[""])
