"""Refuse an MJCF that asks too much of MuJoCo, before MuJoCo reads it.

An MJCF of a few lines may ask for copies without end (`replicate`), for tables of any size, and for files
that are pipes or devices. MuJoCo sets no limits: it would take all memory, or wait for ever. The limits here
are far beyond any model that is known to us.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

from ..base.errors import DescriptionError, pass_on_signals
from .document import XmlElement, quoted, read_document

MOST_ELEMENTS = 200_000
"""Elements of a model, with all copies. The largest model known to us has some 10,000."""

MOST_NUMBERS = 10**8
"""Entries of a height field or of a texture: 10,000 x 10,000."""

COPIES = ("replicate", "composite", "flexcomp")
"""Elements that stand for `count` others."""

TABLES = {
    "hfield": ("nrow", "ncol"),
    "texture": ("width", "height"),
    "numeric": ("size",),
    "user": ("dim",),
    "contact": ("num",),
    "size": ("nkey",),
}
"""Attributes whose product is the size of a table."""

FILES = ("file", "fileright", "fileleft", "fileup", "filedown", "filefront", "fileback")
FOLDERS = ("meshdir", "texturedir", "assetdir")
MODELS = ("include", "model")
"""Elements whose file is a description, too."""


def check_limits(document: XmlElement, path: Path | None) -> None:
    """Raise DescriptionError for an MJCF, of this path, that asks for too much, or for pipes or devices.

    Included descriptions are read, and count as if they stood in its place.
    """
    check = _Check(path.parent if path else Path())
    # elements and folders first: files may lie in folders that a later <compiler> names
    elements = check.elements(document)
    check.check_files()
    if elements > MOST_ELEMENTS:
        document.fail(
            f"it has {elements} elements, with copies, and may have {MOST_ELEMENTS}",
            "make a smaller count of <replicate>, <composite> or <flexcomp>",
        )


class _Check:
    """A walk through a description and the files that it includes, from the folder of the main file on."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.folders = {folder}
        self.known: dict[Path, int] = {}  # elements of the descriptions that were read
        self.naming: list[XmlElement] = []  # elements that name files, which lie in any of the folders

    def elements(self, document: XmlElement) -> int:
        """How many elements a description has, each counted as often as it is copied."""
        compilers = [x.attributes for x in document.everything() if x.tag == "compiler"]
        self.folders |= {self.folder / x[y] for x in compilers for y in FOLDERS if y in x}
        # copies multiply on the way down; the walk ends once the total is beyond the limit, so that its time
        # is bounded as well
        total = 0
        pending = [(document, 1)]
        while pending:
            element, copies = pending.pop()
            self.check_table(element)
            if element.tag in COPIES:
                copies *= max(1, _product(element.attributes.get("count", "1").split()))
            total += copies
            if element.tag in MODELS:
                total += copies * sum(map(self.included, self.files(element)))
            self.naming.append(element)
            if total > MOST_ELEMENTS:
                break
            pending += [(child, copies) for child in element.children]
        return total

    def check_table(self, element: XmlElement) -> None:
        """Refuse a table of too many numbers."""
        sizes = [element.attributes[x] for x in TABLES.get(element.tag, ()) if x in element.attributes]
        sizes += [x for name, x in element.attributes.items() if name.startswith("nuser_")]
        if sizes and _product(sizes) > MOST_NUMBERS:
            element.fail(
                f"{element} asks for {' x '.join(sizes)} numbers, and {MOST_NUMBERS} are allowed",
                "make it smaller",
            )

    def check_files(self) -> None:
        """Refuse pipes and devices, when all folders are known in which files may lie."""
        for element in self.naming:
            for _ in self.files(element):
                pass

    def files(self, element: XmlElement) -> Iterator[Path]:
        """The files that an element names, wherever they may lie; pipes and devices are refused."""
        for name in (element.attributes[x] for x in FILES if x in element.attributes):
            # which attribute of <compiler> a file's folder comes from depends on its kind: try all folders
            for folder in self.folders:
                for path in {folder / name, folder / Path(name).name}:  # the latter with `strippath`
                    try:
                        there = path.exists()
                        regular = path.is_file() or path.is_dir()
                    except (OSError, ValueError) as error:  # no name of a file
                        pass_on_signals(error)
                        continue
                    if there and not regular:
                        element.fail(f"{quoted(name)} is no regular file", "name a file on a disk")
                    if there:
                        yield path

    def included(self, path: Path) -> int:
        """How many elements an included description has; 0 for one that is no XML, which MuJoCo refuses."""
        path = path.resolve()
        if path not in self.known:
            self.known[path] = 0  # of one that includes itself, which MuJoCo refuses
            if path.is_file():
                self.known[path] = self.elements(_read(path))
        return self.known[path]


def _read(path: Path) -> XmlElement:
    """The root of an included description; an empty element if it is no XML, which MuJoCo refuses itself."""
    try:
        return read_document(path)[0]
    except DescriptionError as error:
        if "malformed XML" in str(error):  # MuJoCo says so, too, where it needs the file
            return XmlElement("", {}, str(path), 0)
        raise


def _product(numbers: list[str]) -> int:
    """The product of whole numbers, as large as they are; 0 for words, which MuJoCo refuses."""
    try:
        # each factor is clipped, so that the product stays cheap whatever the file states
        return math.prod(min(int(float(x)), 10**18) for text in numbers for x in text.split()[:1])
    except OverflowError:  # infinity
        return 10**18
    except ValueError:
        return 0
