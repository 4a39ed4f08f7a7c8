"""Public names that change: the old form works for one minor version, and warns where it is used.

    @deprecated("gaits.search", since="0.3")                 a function, method or property that is replaced
    @renamed_arguments({"damping": "joints"}, since="0.3")   arguments with another name, called by keyword
    __getattr__ = renamed_attributes(__name__, {"Motion": "Trajectory"}, since="0.3")    names of a module

`since` is the version that first warns. The next minor version has the old form no more:
tests/test_promises.py fails there until it is removed. Both decorators stand above all others, because they
warn of the line of their caller.
"""

from __future__ import annotations

import functools
import inspect
import re
import sys
import warnings
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, TypeVar

from .errors import ArgumentError

F = TypeVar("F", bound=Callable[..., Any])


class DeprecatedName(DeprecationWarning):
    """An old name that works for one more minor version; the message has the new name.

    Python shows it where a script or a notebook uses the name, and pytest shows all. To find each use:
    `python -W error::DeprecationWarning`.
    """


def removed_in(since: str) -> str:
    """The version that has the old form no more: the minor version after `since`, as "0.4" after "0.3"."""
    match = re.fullmatch(r"(\d+)\.(\d+)", since)
    if match is None:
        raise ArgumentError(f'since is {since!r}, expected a minor version such as "0.3"')
    return f"{match[1]}.{int(match[2]) + 1}"


def deprecated(replacement: str, *, since: str) -> Callable[[F], F]:
    """Decorator: each call of a function warns, and its docstring begins with what replaces it.

    replacement  what to use in its place, such as "gaits.search"
    since        the version that first warns

    Below `@property` it is for properties. A class is renamed by `renamed_attributes`, because both names are
    one class then.
    """
    end = removed_in(since)

    def decorate(function: F) -> F:
        if inspect.isclass(function):
            raise ArgumentError(f"{function.__name__} is a class: rename it by renamed_attributes")
        text = f"{function.__qualname__} is deprecated since {since}, and removed in {end}: use {replacement}"

        @functools.wraps(function)
        def warning(*args: Any, **kwargs: Any) -> Any:
            warnings.warn(text, DeprecatedName, stacklevel=2)
            return function(*args, **kwargs)

        warning.__doc__ = (
            f"Deprecated since {since}: use {replacement}.\n\n{inspect.getdoc(function) or ''}".rstrip()
        )
        return warning  # type: ignore[return-value]

    return decorate


def renamed_arguments(names: Mapping[str, str], *, since: str) -> Callable[[F], F]:
    """Decorator: a function takes arguments by their old names, too, and warns.

    names  the new name of each old one. Arguments by position do not change
    since  the version that first warns

    The signature has the new names alone. A call with both names of an argument raises ArgumentError.
    """
    end = removed_in(since)

    def decorate(function: F) -> F:
        unknown = set(names.values()) - set(inspect.signature(function).parameters)
        if unknown:
            raise ArgumentError(f"{function.__qualname__} has no arguments {', '.join(sorted(unknown))}")

        @functools.wraps(function)
        def translating(*args: Any, **kwargs: Any) -> Any:
            for old in [name for name in kwargs if name in names]:
                new = names[old]
                if new in kwargs:
                    raise ArgumentError(
                        f"{function.__name__} got {old} and {new}, two names of one argument: leave out {old}"
                    )
                warnings.warn(
                    f"the argument {old} of {function.__qualname__} is deprecated since {since}, "
                    f"and removed in {end}: use {new}",
                    DeprecatedName,
                    stacklevel=2,
                )
                kwargs[new] = kwargs.pop(old)
            return function(*args, **kwargs)

        return translating  # type: ignore[return-value]

    return decorate


def renamed_attributes(module: str, names: Mapping[str, str], *, since: str) -> Callable[[str], Any]:
    """The `__getattr__` of a module some of whose attributes have old names.

    module  its `__name__`
    names   the new name of each old one: an attribute of the module, or the path of something elsewhere, such
            as "liebody.runs.Run"
    since   the version that first warns
    """
    end = removed_in(since)

    def attribute(name: str) -> Any:
        if name not in names:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        new = names[name]
        path = new if "." in new else f"{module}.{new}"
        warnings.warn(
            f"{module}.{name} is deprecated since {since}, and removed in {end}: use {path}",
            DeprecatedName,
            stacklevel=2,
        )
        home, _, last = path.rpartition(".")
        return getattr(sys.modules.get(home) or import_module(home), last)

    return attribute
