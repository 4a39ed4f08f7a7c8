"""The methods for vector fields by name."""

from __future__ import annotations

import difflib

from ..errors import IntegrationError
from . import commutator_free, tableaux
from .collocation import COLLOCATION, Collocation
from .commutator_free import CommutatorFree
from .tableaux import SHORT_NAMES, Tableau

Method = Tableau | CommutatorFree
FieldMethod = Method | Collocation


def method_named(name: str | Method) -> Method:
    """The method "rkmk45", "rkmk-" with the name of a tableau, "cf4", "crouch-grossman3"; a method is itself.

    Errors: IntegrationError for a name that is not known; it lists those that are.
    """
    if isinstance(name, CommutatorFree) or name in commutator_free.DATA:
        return name if isinstance(name, CommutatorFree) else commutator_free.commutator_free(name)
    if isinstance(name, Tableau) or tableaux.is_name(name):
        return tableaux.tableau(name)
    known = [*SHORT_NAMES, *(f"rkmk-{key}" for key in tableaux.DATA), *commutator_free.DATA]
    close = difflib.get_close_matches(str(name).lower(), known, n=1) or difflib.get_close_matches(
        str(name).lower().replace("rk", "rkmk", 1), known, n=1
    )
    raise IntegrationError(
        f"no method {name!r}; {f'did you mean {close[0]!r}? ' if close else ''}"
        f"There are {', '.join(known)}, and any liebody.integrators.Tableau or CommutatorFree"
    )


def field_method(name: str | FieldMethod) -> FieldMethod:
    """As `method_named`, and the implicit "radau5", "radau3", "gauss4", ..., or a `RadauIIA` or `Gauss`."""
    if isinstance(name, Collocation):
        return name
    if isinstance(name, str) and name in COLLOCATION:
        return COLLOCATION[name]()
    try:
        return method_named(name)
    except IntegrationError as error:
        raise IntegrationError(f"{error}; implicit ones are {', '.join(COLLOCATION)}") from None
