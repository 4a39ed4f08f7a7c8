"""From the tree of a bundled model to the robot a user holds."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ParamSpec

from ..base.arguments import checked
from ..bodies import Tree
from ..robot import GRAVITY, Robot

P = ParamSpec("P")


def model(gravity: Any = GRAVITY) -> Callable[[Callable[P, Tree]], Callable[P, Robot]]:
    """What makes a function that makes a tree one that makes the robot of it, under this gravity."""

    def of(build: Callable[P, Tree]) -> Callable[P, Robot]:
        tree = checked(build)

        @functools.wraps(build)
        def make(*args: P.args, **kwargs: P.kwargs) -> Robot:
            return Robot(tree(*args, **kwargs), gravity)

        make.__annotations__["return"] = "Robot"
        return make

    return of
