"""The C texts that generated code is built on: headers and templates, read by name.

A header says in its first lines what it needs before it and what it defines. Python holds no C beyond what it
generates; printers join their text with these.
"""

from pathlib import Path


def runtime(name: str) -> str:
    """The text of a file of this folder, such as "lanes.h"."""
    return (Path(__file__).parent / name).read_text(encoding="utf-8")
