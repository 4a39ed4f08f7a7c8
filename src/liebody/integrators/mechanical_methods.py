"""The methods for mechanical systems by their names."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from typing import Any

from ..errors import IntegrationError
from .collocation import COLLOCATION
from .generalized_alpha import GeneralizedAlpha
from .half_explicit import HalfExplicit
from .mechanics import MechanicalMethod
from .variational import Variational

NAMES: dict[str, Callable[[], MechanicalMethod]] = {
    **COLLOCATION,
    "generalized-alpha": GeneralizedAlpha,
    "variational": Variational,
    "variational-cay": lambda: Variational("cay"),
    "half-explicit3": lambda: HalfExplicit(3),
    "half-explicit4": lambda: HalfExplicit(4),
    "half-explicit": HalfExplicit,
}


def is_mechanical(name: Any) -> bool:
    """Whether `mechanical_method` knows this name, or it is such a method itself."""
    return isinstance(name, MechanicalMethod) or (isinstance(name, str) and name in NAMES)


def mechanical_method(name: str | MechanicalMethod) -> MechanicalMethod:
    """The method of this name, with its defaults; a method is itself.

    Errors: IntegrationError for a name that is not known; it lists those that are.
    """
    if isinstance(name, MechanicalMethod):
        return name
    if name in NAMES:
        return NAMES[name]()
    close = difflib.get_close_matches(str(name).lower(), NAMES, n=1)
    raise IntegrationError(
        f"no method {name!r} for mechanical systems; {f'did you mean {close[0]!r}? ' if close else ''}"
        f"There are {', '.join(NAMES)}"
    )
