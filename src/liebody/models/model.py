"""From the tree of a bundled model to the robot a user holds."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import ParamSpec

from ..bodies import Tree
from ..robot import Robot

P = ParamSpec("P")


def model(build: Callable[P, Tree]) -> Callable[P, Robot]:
    """A function that makes a tree, as one that makes the robot of it."""

    @functools.wraps(build)
    def make(*args: P.args, **kwargs: P.kwargs) -> Robot:
        return Robot(build(*args, **kwargs))

    make.__annotations__["return"] = "Robot"
    return make
