"""What other packages add, as entry points: readers of descriptions, printers of languages.

    [project.entry-points."liebody.readers"]      a suffix of files, and what reads them
    sdf = "mypackage.sdf:read"

    [project.entry-points."liebody.printers"]     a language of `liebody export --to`, and what writes it
    rust = "mypackage.rust:write"

docs/architecture.md says how they are called. A package is imported when its reader or printer is first used.
"""

from __future__ import annotations

from typing import Any

from .errors import LiebodyError, pass_on_signals

READERS = "liebody.readers"
PRINTERS = "liebody.printers"


def extensions(group: str) -> list[str]:
    """The names that installed packages add to a group, sorted."""
    from importlib.metadata import entry_points  # it is slow to import, and most programs ask for nothing

    return sorted(entry_points(group=group).names)


def extension(group: str, name: str) -> Any:
    """What a package adds by this name; None if there is none.

    Raises LiebodyError if two packages add the name, or if the package cannot be imported.
    """
    from importlib.metadata import entry_points

    # an editable installation may list its entry points twice
    found = sorted({entry.value: entry for entry in entry_points(group=group, name=name)}.items())
    if len(found) > 1:
        values = ", ".join(value for value, _ in found)
        raise LiebodyError(f"{len(found)} packages add {name!r} to {group}: {values}. Uninstall all but one")
    for value, entry in found:
        try:
            return entry.load()
        except Exception as error:  # whatever the code of a package raises when it is imported
            pass_on_signals(error)
            raise LiebodyError(
                f"{value}, which adds {name!r} to {group}, cannot be imported: {error}"
            ) from error
    return None
