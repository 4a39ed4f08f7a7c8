"""Public functions of liebody by their names, for methods that lead to a room above.

`run.view()` and `robot.view()` are where a user looks for a picture, and the picture is made by a room that
imports runs and robots. They ask for its function when they are called, so no module imports a room above.
"""

import sys
from typing import Any


def public(name: str) -> Any:
    """The value of `liebody.NAME`; `liebody/__init__.py` imports its room when it is first asked for."""
    return getattr(sys.modules[__name__.partition(".")[0]], name)


def version() -> str:
    """The version of liebody, as its source says."""
    return str(public("__version__"))
