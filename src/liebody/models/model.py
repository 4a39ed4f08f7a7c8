"""From the tree of a bundled model to the robot a user holds."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ParamSpec, overload

from ..bodies import Tree
from ..door import checked
from ..robot import GRAVITY, Robot

P = ParamSpec("P")


@overload
def model(build: Callable[P, Tree]) -> Callable[P, Robot]: ...
@overload
def model(*, gravity: Any) -> Callable[[Callable[P, Tree]], Callable[P, Robot]]: ...
def model(build: Callable[P, Tree] | None = None, *, gravity: Any = GRAVITY) -> Any:
    """A function that makes a tree, as one that makes the robot of it, under this gravity."""
    if build is None:
        return functools.partial(model, gravity=gravity)
    tree = checked(build)

    @functools.wraps(build)
    def make(*args: P.args, **kwargs: P.kwargs) -> Robot:
        return Robot(tree(*args, **kwargs), gravity)

    make.__annotations__["return"] = "Robot"
    return make
