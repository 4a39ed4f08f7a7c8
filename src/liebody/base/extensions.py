"""Entry points of other packages: they add formats, languages, commands, groups, joints, forces, methods.

    [project.entry-points."liebody.readers"]      a suffix of files, and what reads them
    sdf = "mypackage.sdf:read"

    [project.entry-points."liebody.printers"]     a language of `liebody export --to`, and what writes it
    rust = "mypackage.rust:write"

    [project.entry-points."liebody.methods"]      a name for `lb.simulate(method=...)`, and the method
    heun3 = "mypackage.methods:HEUN3"

`liebody.commands`, `liebody.groups`, `liebody.joints` and `liebody.forces` are declared in the same way;
docs/extensions.md says what each of them is. A package is imported when something of it is first asked for by
name. Names of liebody come first: no package replaces them.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Hashable, Mapping
from typing import TYPE_CHECKING, Any

from .errors import LiebodyError, ModelError, known, pass_on_signals

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

READERS = "liebody.readers"
PRINTERS = "liebody.printers"
COMMANDS = "liebody.commands"
GROUPS = "liebody.groups"
JOINTS = "liebody.joints"
FORCES = "liebody.forces"
METHODS = "liebody.methods"


def extensions(group: str) -> list[str]:
    """The names that installed packages add to a group of entry points, sorted."""
    from importlib.metadata import entry_points  # it is slow to import, and most programs ask for nothing

    return sorted(entry_points(group=group).names)


def extension(group: str, name: str) -> Any:
    """The object that a package adds by this name; None if no package adds one.

    Raises LiebodyError if two packages add the name, or if the package cannot be imported.
    """
    entry = _entry(group, name)
    return None if entry is None else _loaded(entry)


def added(group: str, name: str, kind: Any, what: str, *args: Any, **options: Any) -> Any:
    """The object of a kind that a package adds by this name; None if there is none.

    A package adds the object itself, or a function or class that makes it from the arguments.

    what  the kind, in words, for messages

    Raises LiebodyError as `extension` does, for arguments that do not fit, and for anything of another kind.
    """
    entry = _entry(group, name)
    if entry is None:
        return None
    loaded = _loaded(entry)
    source = f"{entry.value} of the package {_package(entry)}, which adds {name!r} to {group},"
    try:
        made = _object(loaded, kind, args, options)
    except LiebodyError:
        raise
    except Exception as error:  # whatever the code of a package raises
        pass_on_signals(error)
        raise LiebodyError(f"{source} raised {type(error).__name__}: {error}") from error
    if not isinstance(made, kind):
        verb = "is" if made is loaded else "returned"
        raise LiebodyError(f"{source} {verb} {made!r}, expected {what}")
    return made


def named(
    group: str, name: str, ours: Mapping[str, Any], kind: Any, what: str, *args: Any, **options: Any
) -> Any:
    """The object of a kind with this name: one of `ours`, {name: an object, or what makes it}, or `added`.

    Raises ModelError for unknown names, and for arguments that do not fit; LiebodyError as `added` does.
    """
    if name in ours:
        return _object(ours[name], kind, args, options)
    made = added(group, name, kind, what, *args, **options)
    if made is None:
        word = group.removeprefix("liebody.").removesuffix("s")
        names = [*ours, *extensions(group)]
        raise ModelError(f"there is no {word} {name!r}; {known(names, name, len(names))}")
    return made


def _entry(group: str, name: str) -> EntryPoint | None:
    """The one entry point with this name; raises LiebodyError if there are several."""
    from importlib.metadata import entry_points

    # an editable installation may list its entry points twice
    entries = {entry.value: entry for entry in entry_points(group=group, name=name)}
    if len(entries) > 1:
        values = ", ".join(sorted(entries))
        raise LiebodyError(
            f"{len(entries)} packages add {name!r} to {group}: {values}. Uninstall all but one"
        )
    return next(iter(entries.values()), None)


def _package(entry: EntryPoint) -> str:
    """The name by which the package of an entry point is installed."""
    return entry.dist.name if entry.dist else entry.module.partition(".")[0]


def _loaded(entry: EntryPoint) -> Any:
    try:
        return entry.load()
    except Exception as error:  # whatever the code of a package raises when it is imported
        pass_on_signals(error)
        raise LiebodyError(
            f"{entry.value} of the package {_package(entry)}, which adds {entry.name!r} to {entry.group}, "
            f"cannot be imported: {error}. Mend or uninstall {_package(entry)}"
        ) from error


def _object(given: Any, kind: Any, args: tuple[Any, ...], options: Mapping[str, Any]) -> Any:
    """An object of a kind, or what a function or class makes of these arguments.

    Raises ModelError for arguments that it does not take.
    """
    if isinstance(given, kind) or not callable(given):
        if args or options:
            raise ModelError(f"{given!r} is made already and takes no arguments; leave them out")
        return given
    try:
        inspect.signature(given).bind(*args, **options)
    except TypeError as error:
        pass_on_signals(error)
        name = getattr(given, "__name__", repr(given))
        taken = ", ".join(inspect.signature(given).parameters)
        raise ModelError(
            f"{name}({taken}) cannot be called so: {error}; group_named, joint_named and force_named pass "
            "arguments on"
        ) from None
    except ValueError as error:  # a function of C may have no signature
        pass_on_signals(error)
    if args or options or not isinstance(given, Hashable):
        return given(*args, **options)
    return _made_once(given)


@functools.cache
def _made_once(make: Any) -> Any:
    """The result of a call without arguments: always the same object, because compiled code is kept by it."""
    return make()
