"""The methods by their names: for vector fields, and for mechanical systems.

Packages add methods by entry points of the group `liebody.methods`, a method or a function that makes it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from ..base.errors import IntegrationError, known
from ..base.extensions import METHODS, added, extensions
from . import commutator_free, tableaux
from .collocation import COLLOCATION, Collocation
from .commutator_free import CommutatorFree
from .generalized_alpha import GeneralizedAlpha
from .half_explicit import HalfExplicit
from .mechanical_method import MechanicalMethod
from .tableaux import SHORT_NAMES, Tableau, tableau
from .variational import Variational

Method = Tableau | CommutatorFree
FieldMethod = Method | Collocation
AnyMethod = Method | MechanicalMethod | Collocation
OF_PACKAGES = "a liebody.integrators.Tableau, CommutatorFree, MechanicalMethod, RadauIIA or Gauss"
OWN = " (any liebody.integrators.Tableau or CommutatorFree is one)"
SYMPLECTIC = "a symplectic method here is 'variational', of order two"
STIFF = "an implicit method for stiff equations here is 'radau5'"
ELSEWHERE = {  # methods by their names in other libraries, in small letters, and what there is here
    **dict.fromkeys(("rk45", "dopri5", "ode45"), "of the same order, with error control, is 'rkmk45'"),
    **dict.fromkeys(("rk23", "ode23"), "of the same order, with error control, is 'rkmk23'"),
    **dict.fromkeys(("rk4", "runge-kutta"), "the classical method of Runge and Kutta here is 'rkmk4'"),
    "dop853": "of the same order is 'rkmk-dop853'",
    **dict.fromkeys(("radau", "bdf", "lsoda", "ode15s", "ode23s"), STIFF),
    **dict.fromkeys(("implicit", "implicitfast", "implicit-euler", "backward-euler"), STIFF),
    **dict.fromkeys(
        ("symplectic-euler", "verlet", "velocity-verlet", "leapfrog", "stormer-verlet"), SYMPLECTIC
    ),
    "semi-implicit-euler": f"it is a step of optimal_control alone; {SYMPLECTIC}",
}

EXPLICIT: dict[str, Callable[[], Method]] = {
    **{name: partial(tableau, name) for name in (*SHORT_NAMES, *(f"rkmk-{key}" for key in tableaux.DATA))},
    **{name: partial(commutator_free.commutator_free, name) for name in commutator_free.DATA},
}
MECHANICAL: dict[str, Callable[[], MechanicalMethod]] = {
    **COLLOCATION,
    "generalized-alpha": GeneralizedAlpha,
    "variational": Variational,
    "variational-cay": lambda: Variational("cay"),
    "half-explicit3": lambda: HalfExplicit(3),
    "half-explicit4": lambda: HalfExplicit(4),
    "half-explicit": HalfExplicit,
}


def method_named(name: str | Method) -> Method:
    """The method "rkmk45", "rkmk-" with the name of a tableau, "cf4", "crouch-grossman3"; a method is itself.

    Errors: IntegrationError for a name that is not known; it lists those that are.
    """
    found: Method = _named(name, Method, EXPLICIT, OWN)
    return found


def any_method(name: str | Method | MechanicalMethod) -> Method | MechanicalMethod:
    """The method of this name, explicit or for mechanical systems; a method is itself.

    Errors: IntegrationError for a name that is not known; it lists those that are.
    """
    found: Method | MechanicalMethod = _named(name, Method | MechanicalMethod, EXPLICIT | MECHANICAL, OWN)
    return found


def field_method(name: str | FieldMethod) -> FieldMethod:
    """As `method_named`, and the implicit "radau5", "radau3", "gauss4", ..., or a `RadauIIA` or `Gauss`."""
    found: FieldMethod = _named(name, FieldMethod, EXPLICIT | COLLOCATION, OWN)
    return found


def is_mechanical(name: Any) -> bool:
    """Whether `mechanical_method` knows this name, or it is such a method itself."""
    if not isinstance(name, str):
        return isinstance(name, MechanicalMethod)
    return name in MECHANICAL or (not _is_ours(name) and isinstance(_added(name), MechanicalMethod))


def mechanical_method(name: str | MechanicalMethod) -> MechanicalMethod:
    """The method of this name, with its defaults; a method is itself.

    Errors: IntegrationError for a name that is not known; it lists those that are.
    """
    found: MechanicalMethod = _named(name, MechanicalMethod, MECHANICAL, " for mechanical systems")
    return found


def _named(name: Any, kind: Any, table: Mapping[str, Callable[[], Any]], what: str) -> Any:
    """A method of this kind, or the one that is called so; also the name of a tableau alone."""
    if isinstance(name, kind):
        return name
    for key in (name, f"rkmk-{name}"):
        if isinstance(name, str) and key in table:
            return table[key]()
    others = [x for x in extensions(METHODS) if not _is_ours(x)]
    if isinstance(name, str) and name in others:
        method = _added(name)
        if isinstance(method, kind):
            return method
        what = f"{what}: a package adds it as a {type(method).__name__}"
    meant = ELSEWHERE.get(str(name).lower().replace("_", "-").replace(" ", "-"), "")
    if meant and any(key in meant for key in table):
        raise IntegrationError(f"no method {name!r}{what}; {meant}; known are {', '.join(table)}")
    names = [*table, *others]
    raise IntegrationError(f"no method {name!r}{what}; {known(names, name, len(names))}")


def _is_ours(name: str) -> bool:
    """Whether this is a name of liebody, or of one of its tableaux, for which "rkmk-" may be left out."""
    return name in MECHANICAL or name in EXPLICIT or f"rkmk-{name}" in EXPLICIT


def _added(name: str) -> AnyMethod | None:
    """The method that a package adds by this name; None if there is none."""
    method: AnyMethod | None = added(METHODS, name, AnyMethod, OF_PACKAGES)
    return method
