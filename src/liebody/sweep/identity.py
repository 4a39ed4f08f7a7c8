"""Digests of all that a function's results depend on, to tell whether it began a sweep."""

from __future__ import annotations

import functools
import hashlib
import os
import sys
import sysconfig
import types
from pathlib import Path
from typing import Any

import numpy as np

from ..base.digests import digest
from ..base.errors import pass_on_signals

PACKAGE = str(Path(__file__).parents[1])
STANDARD = tuple(sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib"))
INSTALLED = ("site-packages", "dist-packages")  # names of folders into which libraries are installed


def parts(run: Any, options: Any) -> dict[str, str]:
    """Digests of a function or a system, of the functions and values it uses, and of options, by their names.

    Functions of the user's own are known by their bytecode, so that comments and layout do not matter, by the
    values they enclose, and by the functions and values they use from their module. Those of libraries are
    known by their names, wherever they are installed, and objects by their state.
    """
    walk = _Walk()
    walk.parts["run"] = walk.digest(run)
    for name, value in options.items():
        walk.parts[f"option {name}"] = walk.digest(value)
    walk.parts["Python"] = "{}.{}".format(*sys.version_info)
    return dict(sorted(walk.parts.items()))


class _Walk:
    def __init__(self) -> None:
        self.parts: dict[str, str] = {}
        self.known: dict[int, tuple[Any, str]] = {}  # the objects too, so that no other gets their id

    def digest(self, x: Any) -> str:
        if id(x) not in self.known:
            # an object that contains itself is met again while its digest is made
            self.known[id(x)] = x, "itself"
            self.known[id(x)] = x, _hash(type(x).__name__, *self.contents(x))
        return self.known[id(x)][1]

    def contents(self, x: Any) -> list[str]:
        """Texts that identify x."""
        # values are known by what they hold ...
        if x is None or isinstance(x, (bool, int, float, complex, str, bytes)):
            return [repr(x)]
        if isinstance(x, (np.ndarray, np.generic)) and x.dtype != object:
            return [str(x.dtype), str(x.shape), hashlib.sha256(np.ascontiguousarray(x).tobytes()).hexdigest()]
        if isinstance(x, np.ndarray):
            return [str(x.shape), *map(self.digest, x.ravel())]
        if isinstance(x, (list, tuple)):
            return [self.digest(item) for item in x]
        if isinstance(x, (set, frozenset)):
            return sorted(self.digest(item) for item in x)
        if isinstance(x, (dict, types.MappingProxyType)):
            return [self.digest(item) for pair in list(x.items()) for item in pair]
        if isinstance(x, functools.partial):
            return [self.digest(x.func), self.digest(x.args), self.digest(x.keywords)]
        if isinstance(x, types.MethodType):
            return [self.digest(x.__func__), self.digest(x.__self__)]
        # ... functions by their code and by the names they use ...
        if isinstance(x, types.FunctionType):
            return self.function(x)
        if isinstance(x, types.CodeType):
            return self.code(x)
        if isinstance(x, types.CellType):
            return [] if _empty(x) else [self.digest(x.cell_contents)]
        if isinstance(x, types.ModuleType):
            return [x.__name__]
        if isinstance(x, type):
            return self.type(x)
        name = getattr(x, "__qualname__", None)
        if callable(x) and isinstance(name, str):  # built in, and known by its name
            return [name]
        # ... other objects by their type and attributes
        return [*self.type(type(x)), *self.state(x)]

    def function(self, x: types.FunctionType) -> list[str]:
        enclosed = [self.digest(x.__defaults__), self.digest(x.__kwdefaults__), self.digest(x.__closure__)]
        if _of_library(x.__code__.co_filename):
            return [x.__module__ or "", x.__qualname__, *enclosed]
        # globals that the code looks up are parts of the identity, under their names
        names = _names(x.__code__)
        for name in names:
            if name in x.__globals__:
                self.used(name, x.__globals__[name], names)
        return [*self.code(x.__code__, x.__doc__), *enclosed]

    def used(self, name: str, x: Any, names: list[str]) -> None:
        """Note what a function uses from its module; of the user's other modules, what it may use of them."""
        if isinstance(x, types.ModuleType):
            if not _is_library(x):
                for inner in names:
                    if inner in vars(x) and not isinstance(vars(x)[inner], types.ModuleType):
                        self.note(f"{name}.{inner}", vars(x)[inner])
        else:
            self.note(name, x)

    def note(self, name: str, x: Any) -> None:
        # two modules may use one name: the digest of both then
        known = self.parts.get(name)
        digest = self.digest(x)
        self.parts[name] = digest if known in (None, digest) else _hash(known or "", digest)

    def code(self, x: types.CodeType, doc: str | None = None) -> list[str]:
        # the docstring is the first constant of the code; it has no influence on results
        constants = (None, *x.co_consts[1:]) if doc and x.co_consts[:1] == (doc,) else x.co_consts
        return [
            x.co_code.hex(),
            x.co_exceptiontable.hex(),
            " ".join(x.co_names),
            *(self.digest(constant) for constant in constants),
        ]

    def type(self, x: type) -> list[str]:
        if _is_library(sys.modules.get(x.__module__)):
            return [x.__module__, x.__qualname__]
        methods = [self.digest(f) for f in list(vars(x).values()) if isinstance(f, types.FunctionType)]
        return [x.__qualname__, *methods]

    def state(self, x: Any) -> list[str]:
        """The attributes of an object, without those that are computed once from others."""
        try:
            state = x.__getstate__()
        except Exception as error:
            pass_on_signals(error)
            return []
        if not isinstance(state, dict):
            return [self.digest(state)]
        cached = functools.cached_property
        return [
            self.digest({n: y for n, y in state.items() if not isinstance(getattr(type(x), n, None), cached)})
        ]


def _hash(*texts: str) -> str:
    return digest(*texts)[:16]


def _names(code: types.CodeType) -> list[str]:
    """Names that a function and those within it look up."""
    inner = [name for c in code.co_consts if isinstance(c, types.CodeType) for name in _names(c)]
    return list(dict.fromkeys([*code.co_names, *inner]))


def _empty(cell: types.CellType) -> bool:
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:
        return True
    return False


def _of_library(file: str) -> bool:
    return file.startswith("<frozen") or _in_library(file, tuple(sys.path))


@functools.cache
def _in_library(file: str, path: tuple[str, ...]) -> bool:
    """Whether a file belongs to this package, to Python, or to a package installed on `path`."""
    place = os.path.realpath(file)
    return place.startswith(_libraries(path)) or any(f"{os.sep}{x}{os.sep}" in place for x in INSTALLED)


@functools.cache
def _libraries(path: tuple[str, ...]) -> tuple[str, ...]:
    """Folders of libraries; on the path, those with records of installed packages."""
    installed = (x for x in path if x and any(Path(x).glob("*.dist-info")))
    return tuple(os.path.realpath(x) + os.sep for x in (PACKAGE, *STANDARD, *installed))


def _is_library(module: types.ModuleType | None) -> bool:
    if module is None:
        return False
    known = module.__name__.split(".")[0] in sys.stdlib_module_names
    return known or _of_library(getattr(module, "__file__", None) or "")
