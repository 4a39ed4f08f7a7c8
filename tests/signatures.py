"""Write tests/signatures.txt, the public names of liebody with their signatures and tiers.

    python tests/signatures.py

A change of that file is a change of what users may call: tests/test_promises.py fails until it is written
anew, so that nobody makes one unawares. Each name has a line, with the members of a class indented below it.
Inherited members stand with the class that defines them, if that is public. The text is the same for every
Python and every NumPy: it has no annotations, no text of defaults that are objects, and nothing that other
packages define.
"""

from __future__ import annotations

import enum
import inspect
import sys
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
SNAPSHOT = ROOT / "tests" / "signatures.txt"
sys.path.insert(0, str(ROOT / "docs" / "site"))

from reference import Name, public_names  # noqa: E402
from tiers import tier  # noqa: E402

LITERALS = (bool, int, float, str, type(None))


def default(value: Any) -> str:
    """The text of a default: of numbers, texts, None and tuples of these their own, of others an ellipsis."""
    if type(value) is tuple:
        return f"({', '.join(default(x) for x in value)}{',' if len(value) == 1 else ''})"
    return repr(value) if type(value) in LITERALS else "..."


def signature(value: Any, bound: bool = True) -> str:
    """The parameters of a call in the syntax of Python; without the first, self, if it is not bound."""
    texts: list[str] = []
    last = None
    parameters = list(inspect.signature(value).parameters.values())
    for p in parameters if bound else parameters[1:]:
        if last == p.POSITIONAL_ONLY and p.kind != last:
            texts.append("/")
        if p.kind == p.KEYWORD_ONLY and last not in (p.KEYWORD_ONLY, p.VAR_POSITIONAL):
            texts.append("*")
        stars = {p.VAR_POSITIONAL: "*", p.VAR_KEYWORD: "**"}.get(p.kind, "")
        texts.append(stars + p.name + ("" if p.default is p.empty else f"={default(p.default)}"))
        last = p.kind
    if last == inspect.Parameter.POSITIONAL_ONLY:
        texts.append("/")
    return f"({', '.join(texts)})"


def is_ours(value: Any) -> bool:
    return (getattr(value, "__module__", None) or "").startswith("liebody")


def constructor(cls: type) -> str:
    """The signature of a class, if liebody defines how its objects are made."""
    if issubclass(cls, enum.Enum) or getattr(cls, "_is_protocol", False):
        return ""
    for base in cls.__mro__:
        if base.__module__.startswith("liebody"):
            # named tuples have a __new__ that their class does not define itself
            if "__init__" in vars(base) or "__new__" in vars(base) or hasattr(base, "_fields"):
                return signature(cls)
    return "()" if not issubclass(cls, BaseException) else ""


def members(cls: type, shown: set[type]) -> Iterator[str]:
    """A line for each public member of a class that no other shown class defines."""
    lines: dict[str, str] = {}
    for base in cls.__mro__:
        if not is_ours(base) or (base is not cls and base in shown):
            continue
        for name, value in vars(base).items():
            if not name.startswith("_") and name not in lines:
                lines[name] = member(name, value, base)
        for name in fields_of(base):
            lines.setdefault(name, f".{name}")
    yield from (lines[name] for name in sorted(lines))


def fields_of(cls: type) -> list[str]:
    """The attributes that the fields of a class become."""
    if is_dataclass(cls):
        return [field.name for field in fields(cls) if field.name[0] != "_"]
    return [*getattr(cls, "_fields", ())]


def member(name: str, value: Any, cls: type) -> str:
    """The line of a member: what is called with its parameters, what is read without."""
    if name in fields_of(cls):
        return f".{name}"
    if isinstance(value, classmethod | staticmethod):
        return f"{name}{signature(value.__func__, bound=isinstance(value, staticmethod))}"
    if inspect.isfunction(value):
        return f"{name}{signature(value, bound=False)}"
    if type(value).__name__ == "Algorithm":  # its call as a method
        return f"{name}{signature(getattr(cls, name), bound=False)}"
    return f".{name}"


def lines_of(name: Name, shown: set[type]) -> Iterator[str]:
    value = name.value
    label = name.path if tier(name.path) == "stable" else f"{tier(name.path)} {name.path}"
    if inspect.isclass(value) and is_ours(value):
        bases = [
            base.__name__ for base in value.__bases__ if base in shown or issubclass(base, BaseException)
        ]
        yield f"{label}{constructor(value)}" + (f" of {', '.join(bases)}" if bases else "")
        yield from (f"    {line}" for line in members(value, shown))
    elif inspect.isroutine(value) and is_ours(value):
        yield f"{label}{signature(value)}"
    else:
        yield label


def snapshot() -> str:
    """The text of the snapshot, as the source is now."""
    names = sorted(public_names(), key=lambda name: name.path)
    shown = {name.value for name in names if inspect.isclass(name.value)}
    lines = [line for name in names for line in lines_of(name, shown)]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    SNAPSHOT.write_text(snapshot(), encoding="utf-8")
    print(f"wrote {SNAPSHOT.relative_to(ROOT)}")
