"""Tutorials as notebooks to download: cells of text and code, as they stand in the pages."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

CELL = re.compile(
    r"^```\{code-cell\}[^\n]*\n(?P<options>(?::[^\n]*\n|---\n.*?\n---\n)*)(?P<code>.*?)^```$", re.M | re.S
)
FRONT = re.compile(r"\A---\n.*?\n---\n", re.DOTALL)
LINK = re.compile(r"(?<!!)\[([^\]]+)\]\((?!https?:)[^)]*\)|\{\w+(?::\w+)?\}`([^`<]+?)(?: ?<[^`]*>)?`")


def notebook(page: str) -> dict[str, Any]:
    """A notebook (format 4.5) of a page: links to other pages are left as words."""
    text, cells, start = FRONT.sub("", page), [], 0
    for found in CELL.finditer(text):
        cells += [_markdown(text[start : found.start()]), _cell("code", found["code"])]
        start = found.end()
    cells.append(_markdown(text[start:]))
    cells = [{**cell, "id": f"cell-{k}"} for k, cell in enumerate(cell for cell in cells if cell["source"])]
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    return {"cells": cells, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}


def _markdown(text: str) -> dict[str, Any]:
    return _cell("markdown", LINK.sub(lambda link: link[1] or link[2], text))


def _cell(kind: str, text: str) -> dict[str, Any]:
    code = {"outputs": [], "execution_count": None} if kind == "code" else {}
    return {"cell_type": kind, "metadata": {}, "source": text.strip(), **code}


def write(pages: Path, folder: Path) -> None:
    """The notebooks of all pages with code, in a folder that the site hands out as it is."""
    folder.mkdir(parents=True, exist_ok=True)
    for page in sorted(pages.glob("*.md")):
        text = page.read_text(encoding="utf-8")
        if CELL.search(text):
            made = json.dumps(notebook(text), indent=1, ensure_ascii=False) + "\n"
            (folder / f"{page.stem}.ipynb").write_text(made, encoding="utf-8")


def with_link(docname: str, text: str) -> str:
    """The page with a link to its notebook below the title."""
    if not (docname.startswith("tutorials/") and CELL.search(text)):
        return text
    name = docname.rpartition("/")[2]
    link = f'<a href="{name}.ipynb" download>Download this page as a notebook</a>'
    return re.sub(r"^(# .*)$", rf"\1\n\n{link}", text, count=1, flags=re.MULTILINE)
