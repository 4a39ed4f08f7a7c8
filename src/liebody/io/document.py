"""Read the XML of robot descriptions safely, into elements that know their line.

The parser is Expat, of Python's standard library, with a handler that stops at a document type declaration.
Without one there are no entities but the five of XML itself, so nothing can expand, and nothing is fetched
from disk or network. Elements keep their line number, for messages that can be acted on.
"""

from __future__ import annotations

import codecs
import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn
from xml.parsers import expat

from ..base.errors import DescriptionError, pass_on_signals
from ..base.texts import few

LARGEST_FILE = 64 * 2**20
"""Bytes. The largest robot description known to us has 1 MB; a file beyond this size is a mistake."""

DEEPEST = 500
"""Elements within each other. Chains of bodies are nested in an MJCF."""

LARGEST_NUMBER = 1e15
"""No length, mass or inertia; beyond it, sums of products lose all others."""

LONGEST_NUMBER = 400
"""Signs. What a computer prints without an exponent has at most 17 digits after 308 zeros."""

EXPAND = "expand it first, xacro robot.urdf.xacro > robot.urdf"
LONGEST_NAME = 200
NAME_SIGNS = " _-.:/+()[]#@,&="
"""What a name may have besides letters and digits."""


@dataclass(eq=False)
class XmlElement:
    """One XML element: tag, attributes, children, its own text, and where it stands."""

    tag: str
    attributes: dict[str, str]
    source: str
    line: int
    children: list[XmlElement] = field(default_factory=list)
    text: str = ""

    def all(self, tag: str) -> Iterator[XmlElement]:
        """The children with this tag, in the order of the file."""
        return (child for child in self.children if child.tag == tag)

    def everything(self) -> Iterator[XmlElement]:
        """The element and all below it."""
        # a stack instead of recursion: files nest up to DEEPEST elements
        pending = [self]
        while pending:
            element = pending.pop()
            yield element
            pending += element.children

    def first(self, tag: str) -> XmlElement:
        """The first child with this tag; the element itself if there is none."""
        return next(self.all(tag), self)

    def name(self, attribute: str) -> str:
        """The attribute as a name: 1 to 200 letters, digits, blanks and signs of NAME_SIGNS.

        Names are data: they are shown and looked up, and never become part of generated code. Quotes, line
        breaks, braces and the like have no place in them, and are refused before they reach a log or a shell.
        """
        name = self.attributes[attribute]
        if not is_name(name):
            self.fail(
                f"{attribute}={quoted(name)} of <{self.tag}> is not a name",
                f"this is a xacro file: {EXPAND}"
                if is_macro(name)
                else f"use 1 to {LONGEST_NAME} letters, digits, blanks and the signs {NAME_SIGNS.strip()}",
            )
        return name

    def numbers(self, attribute: str, counts: tuple[int, ...], infinite: bool = False) -> list[float]:
        """The attribute as numbers separated by blanks, as many as one of `counts` says; finite."""
        text = self.attributes[attribute]
        return self._numbers(text, f"{attribute}={quoted(text)} of <{self.tag}>", counts, infinite)

    def number(self) -> float:
        """The text of the element as a number."""
        return self._numbers(self.text, f"the text {quoted(self.text.strip())} of <{self.tag}>", (1,))[0]

    def _numbers(self, text: str, what: str, counts: tuple[int, ...], infinite: bool = False) -> list[float]:
        # Refuse in the order in which a user would mend: macros, words, how many, not finite, too large.
        expected = " or ".join(map(str, counts))
        plural = "" if counts == (1,) else "s separated by blanks"
        remedy = f"write {expected} decimal number{plural}, such as 0.25 or 1e-3"
        if is_macro(text):
            remedy = f"this is a xacro file: {EXPAND}"
        try:
            numbers = _decimals(text)
        except ValueError:
            self.fail(f"{what} is not {'made of numbers' if plural else 'a number'}", remedy)
        if len(numbers) not in counts:
            self.fail(f"{what} has {len(numbers)} numbers, expected {expected}", remedy)
        if any(math.isnan(x) or (math.isinf(x) and not infinite) for x in numbers):
            self.fail(f"{what} is not finite", remedy)
        if not infinite and max(map(abs, numbers)) > LARGEST_NUMBER:
            self.fail(f"{what} is beyond {LARGEST_NUMBER:g}", "give SI units: metres, kilograms, radians")
        return numbers

    def fail(self, what: str, remedy: str) -> NoReturn:
        """Raise a DescriptionError that names the file, the line, the mistake and the remedy."""
        raise DescriptionError(f"{self.source}, line {self.line}: {what}. Remedy: {remedy}.")

    def __str__(self) -> str:
        name = self.attributes.get("name")
        return f"<{self.tag}>" if name is None else f"<{self.tag} name={quoted(name)}>"


def _decimals(text: str) -> list[float]:
    """The numbers of a text; float() would also take 1_000, digits of other scripts, and endless ones."""
    words = text.split()
    if "_" in text or not text.isascii() or max(map(len, words), default=0) > LONGEST_NUMBER:
        raise ValueError(text)
    return [float(word) for word in words]


def is_macro(text: str) -> bool:
    """Whether xacro has to replace something in a text."""
    return "${" in text or "$(" in text


def is_name(text: str) -> bool:
    """Whether a text may be a name."""
    known = all(sign.isalnum() or sign in NAME_SIGNS for sign in text)
    return 0 < len(text.strip()) <= LONGEST_NAME and known


def new_name(name: str, taken: set[str], suffix: str = "_") -> str:
    """The name, with suffixes until nobody has it; it is then taken."""
    while name in taken:
        name += suffix
    taken.add(name)
    return name


def quoted(text: str, width: int = 60) -> str:
    """The text in quotes, escaped, and cut to a width: hostile text stays one harmless line of a message."""
    return ascii(text if len(text) <= width else text[: width - 3] + "...")


def listed(names: list[str], most: int = 6) -> str:
    """Names in quotes, the first few of them."""
    return few([quoted(name) for name in names], most)


def counts(found: Mapping[str, int]) -> str:
    """Names in alphabetical order, each with its count."""
    return ", ".join(f"{name} ({n})" for name, n in sorted(found.items()))


def read_document(source: str | bytes | os.PathLike[str]) -> tuple[XmlElement, Path | None]:
    """The root element of an XML document, and the path of its file.

    source    path of a file, or the XML text itself (bytes, or a str that begins with "<" after blanks)
    returns   root element; path, None for text
    raises    DescriptionError: missing file, malformed XML, a document type declaration, more than 64 MiB

    Blanks before the XML declaration, an error in XML, are common, and are passed over.
    """
    if isinstance(source, bytes):
        return _parse(source, "<text>"), None
    # no path begins with "<", so this is text; a byte order mark and blanks may come before
    if isinstance(source, str) and source.lstrip("\ufeff \t\r\n").startswith("<"):
        return _parse(source.encode("utf-8", "replace"), "<text>", "utf-8"), None
    if not isinstance(source, (str, os.PathLike)):
        raise DescriptionError(
            f"A robot description is a path or XML text, not {type(source).__name__} {quoted(repr(source))}. "
            "Remedy: pass the path of the file, or the text that begins with '<'."
        )
    try:
        path = Path(source).expanduser()
    except RuntimeError:  # there is no such user, or no home
        raise DescriptionError(
            f"{quoted(os.fspath(source))} begins in a home folder that is not known. Remedy: give the "
            "whole path."
        ) from None
    shown = ascii(str(path))[1:-1]
    try:
        if path.is_dir():
            raise DescriptionError(
                f"{shown} is a folder. Remedy: pass the path of the description file in it."
            )
        if not path.is_file():
            raise DescriptionError(f"No file {shown} (seen from {Path.cwd()}). Remedy: check the path.")
        # the size is checked before the file is taken into memory
        _check_size(shown, path.stat().st_size)
        data = path.read_bytes()
    except OSError as error:
        pass_on_signals(error)
        raise DescriptionError(
            f"{shown} cannot be read: {error}. Remedy: check the path and its permissions."
        ) from error
    return _parse(data, shown), path


def _check_size(source: str, size: int) -> None:
    """Refuse a file of more than LARGEST_FILE bytes."""
    if size > LARGEST_FILE:
        raise DescriptionError(
            f"{source} has {size} bytes, and a description at most {LARGEST_FILE}. "
            "Remedy: keep meshes and data in files of their own."
        )


def _parse(data: bytes, source: str, encoding: str | None = None) -> XmlElement:
    """The root element of a document; the handler of a <!DOCTYPE> refuses it before any entity is defined."""
    _check_size(source, len(data))
    # UTF-16 is recoded, because blanks and line breaks are counted in single bytes below
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        data = data.decode("utf-16", "replace").encode()
        encoding = "utf-8"
    # lines of blanks before the declaration are removed; messages count them nevertheless
    text = data.removeprefix(codecs.BOM_UTF8).lstrip()
    passed_over = data.count(b"\n", 0, len(data) - len(text))
    parser = expat.ParserCreate(encoding)
    # the open elements, outermost first, below a top without a tag; handlers push, pop and fill them
    top = XmlElement("", {}, source, 0)
    opened = [top]

    def start(tag: str, attributes: dict[str, str]) -> None:
        element = XmlElement(tag, attributes, source, passed_over + parser.CurrentLineNumber)
        opened[-1].children.append(element)
        opened.append(element)
        # refused while parsing: no later walk through the elements meets a deeper tree
        if len(opened) > DEEPEST:
            element.fail(
                f"elements within each other, {DEEPEST} deep", "nest them less; MuJoCo takes no more, either"
            )

    def end(_tag: str) -> None:
        opened.pop()

    def characters(text: str) -> None:
        opened[-1].text += text

    def doctype(*_: object) -> None:
        XmlElement("", {}, source, passed_over + parser.CurrentLineNumber).fail(
            "a document type declaration (<!DOCTYPE ...>): a robot description needs none, and its entities "
            "can be used to read files or to exhaust memory",
            "delete the declaration, and write the values of its entities out",
        )

    parser.StartElementHandler = start
    parser.EndElementHandler = end
    parser.CharacterDataHandler = characters
    parser.StartDoctypeDeclHandler = doctype
    try:
        parser.Parse(text, True)
    except expat.ExpatError as error:
        XmlElement("", {}, source, passed_over + error.lineno).fail(
            f"malformed XML: {expat.ErrorString(error.code)}, column {error.offset + 1}",
            "correct the line; every tag has to be closed, and every attribute to be quoted",
        )
    except DescriptionError:
        # raised by a handler above, with the line of the element
        raise
    except (LookupError, ValueError) as error:
        XmlElement("", {}, source, 1).fail(f"unknown text encoding: {error}", "save the file as UTF-8")
    # Expat accepts exactly one root element
    return top.children[0]
