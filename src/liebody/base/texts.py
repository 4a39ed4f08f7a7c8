"""Texts from outside, such as names and paths: checks, and safe forms for messages."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from .errors import ArgumentError, LiebodyError, ModelError, pass_on_signals


def is_writable(text: str) -> bool:
    """Whether files can hold a text: it has no NUL and no half of a surrogate pair."""
    half = not text.isascii() and any("\ud800" <= sign <= "\udfff" for sign in text)
    return "\0" not in text and not half


def shown(text: Any, breaks: bool = False) -> str:
    r"""A text as it may be printed: signs that are not printable are escaped, ESC as \x1b.

    breaks  whether line breaks and tabs stay
    """
    plain = str(text)
    if plain.isprintable():
        return plain
    kept = "\n\t" if breaks else ""
    return "".join(
        sign if sign.isprintable() or sign in kept else sign.encode("unicode_escape").decode()
        for sign in plain
    )


def few(texts: Sequence[str], most: int = 6) -> str:
    """The first few of these texts, separated by commas, and the number of the others."""
    listed = ", ".join(texts[:most])
    return listed if len(texts) <= most else f"{listed} and {len(texts) - most} more"


def check_name(what: str, name: Any, error: type[LiebodyError] = ModelError) -> None:
    """Raise an error for a name that is not text, or that has signs which are not printable."""
    if not isinstance(name, str):
        raise ArgumentError(f"the name of {what} is {name!r}, expected text")
    if not name.isprintable():
        raise error(
            f"the name {name!a} of {what} has control characters, or others that cannot be printed; "
            "use letters, digits, blanks and signs"
        )


def check_names(what: str, names: Iterable[Any], error: type[LiebodyError] = ModelError) -> None:
    """Raise an error for the first of the names that `check_name` refuses."""
    for name in names:
        if type(name) is not str or not name.isprintable():
            check_name(what, name, error)


def path_of(what: str, given: str | os.PathLike[str], error: type[LiebodyError] = LiebodyError) -> Path:
    """The argument as a path; raises an error for anything that cannot be the name of a file."""
    try:
        path = Path(given)
        name = os.fsencode(path)
    except (TypeError, UnicodeEncodeError):
        raise error(f"{what} is {short_ascii(given)}, expected a path") from None
    if b"\0" in name:
        raise error(f"{what} is {short_ascii(given)}, and no path has a NUL in it")
    return path


def short_ascii(value: Any, width: int = 60) -> str:
    """A value in a message, in ASCII and no longer than this."""
    try:
        text = ascii(value)
    except Exception as error:  # a value may be anything
        pass_on_signals(error)
        text = f"a {type(value).__name__}"
    return text if len(text) <= width else f"{text[:width]}..."


def message_of(error: BaseException) -> str:
    """The message of an exception, also of one whose message cannot be made."""
    try:
        return shown(error, breaks=True)
    except BaseException as raised:  # a user's class may raise anything here
        pass_on_signals(raised)
        return "its message cannot be shown"


def words_of(error: BaseException) -> str:
    """The kind and message of an exception."""
    return f"{shown(type(error).__name__)}: {message_of(error)}"
