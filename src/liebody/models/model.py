"""Turn a function that builds a tree into a function that builds a robot."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ParamSpec

from ..base.arguments import checked
from ..bodies import Tree
from ..robot import GRAVITY, Robot

P = ParamSpec("P")


def model(gravity: Any = GRAVITY) -> Callable[[Callable[P, Tree]], Callable[P, Robot]]:
    """Decorator: the decorated function builds a tree; the result builds its robot under this gravity."""

    def of(build: Callable[P, Tree]) -> Callable[P, Robot]:
        # argument checks are attached once, when the module is read, not at every call
        tree = checked(build)

        @functools.wraps(build)
        def make(*args: P.args, **kwargs: P.kwargs) -> Robot:
            return Robot(tree(*args, **kwargs), gravity)

        # wraps copies the annotation Tree of the decorated function, and a Robot is returned
        make.__annotations__["return"] = "Robot"
        return make

    return of
