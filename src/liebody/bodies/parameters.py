"""The numbers of a tree as parameters: what they are called, what they may be, and the tree that has others.

<body>.mass           ()                                                                       [kg]
<body>.center         (3,)  centre of mass in the body's frame                                 [m]
<body>.inertia        (6,)  xx, xy, xz, yy, yz, zz about it, in the axes of the body's frame   [kg m2]
<joint>.position      (3,)  of the joint's fixed frame in the parent's frame                   [m]
<joint>.orientation   (4,)  of that frame, a unit quaternion (w, x, y, z)
<joint>.axis          (3,)  of a hinge or a slide, a unit vector in the joint's frame
<joint>.damping, ...  () or (dim,), and friction, armature, stiffness, rest, as in `Joint`
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..codegen.layout import word_of
from ..codegen.printers.sympy_source import from_sympy
from ..errors import ModelError
from ..groups import SE3, SO3, Prismatic, Revolute
from ..linear import is_numeric
from ..scalar import Array
from .inertia import SpatialInertia
from .joints import NOT_NEGATIVE, Joint
from .tree import Body, Tree

UNIT = 1e-6  # how far the norms of axes and quaternions may be from 1
UPPER = ((0, 0), (0, 1), (0, 2), (1, 1), (1, 2), (2, 2))
LOSSES = {  # of joints: units of hinges, and of slides
    "damping": ("N m s/rad", "N s/m"),
    "friction": ("N m", "N"),
    "armature": ("kg m2", "kg"),
    "stiffness": ("N m/rad", "N/m"),
    "rest": ("rad", "m"),
}


@dataclass(frozen=True, eq=False)
class Parameter:
    """A number or an array of numbers that may differ between mechanisms of one structure.

    value  the one that a mechanism has by default
    """

    name: str
    value: Array
    unit: str = ""

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of a single value."""
        return np.shape(self.value)

    def checked(self, values: Array) -> Array:
        """Values (..., *shape), axes and quaternions of norm 1 to round-off.

        Raises ModelError for a value that no mechanism can have, and names the member of the ensemble; the
        mechanism's own one passes.
        """
        kind = self.name.rpartition(".")[2]
        if kind in ("axis", "orientation"):
            norms = np.linalg.norm(values, axis=-1, keepdims=True)
            self._refuse(
                values, np.abs(norms[..., 0] - 1) > UNIT, "a vector of norm 1; divide it by its norm"
            )
            return values / norms
        if kind == "mass":
            self._refuse(values, ~(values > 0), "a positive mass")
        elif kind == "inertia":
            self._check_inertia(values)
        elif kind in NOT_NEGATIVE:
            wrong = ~(values >= 0)
            self._refuse(values, wrong.any(axis=-1) if self.shape else wrong, "zero or more")
        return values

    def _check_inertia(self, values: Array) -> None:
        """As `SpatialInertia.findings`, whose words are used."""
        rows = values.reshape(-1, 6)
        moments = np.linalg.eigvalsh(_full(rows.T).transpose(2, 0, 1))
        small, middle, large = moments.T
        size = np.abs(rows).max(axis=-1)
        wrong = (small < -1e-9 * size) | (small + middle < large * (1 - 1e-6))
        if wrong.any():
            why = SpatialInertia(1.0, np.zeros(3), _full(rows[np.argmax(wrong)])).findings()
            self._refuse(values, wrong.reshape(values.shape[:-1]), f"the inertia of a body: {why[0]}")

    def _refuse(self, values: Array, wrong: Array, expected: str) -> None:
        other = values != self.value
        wrong = wrong & (other.any(axis=-1) if self.shape else other)
        if np.any(wrong):
            at = tuple(int(i) for i in np.argwhere(wrong)[0])
            member = f" of member {at[0] if len(at) == 1 else at}" if at else ""
            unit = f" {self.unit}" if self.unit else ""
            raise ModelError(f"{self.name}{member} is {values[at].tolist()}{unit}, expected {expected}")


def parameters_of(tree: Tree) -> dict[str, Parameter]:
    """All parameters of a tree by their names, with its own numbers; those that are symbols are left out."""
    found: dict[str, tuple[Any, str]] = {}
    for b in tree.bodies:
        joint = b.joint
        found[f"{b.name}.mass"] = b.inertia.mass, "kg"
        found[f"{b.name}.center"] = b.inertia.com, "m"
        found[f"{b.name}.inertia"] = np.array([b.inertia.rotational[ij] for ij in UPPER]), "kg m2"
        found[f"{joint.name}.position"] = b.placement[:3, 3], "m"
        if is_numeric(b.placement):
            R = np.asarray(b.placement[:3, :3], float)
            found[f"{joint.name}.orientation"] = SO3.coordinates(R), ""
        if isinstance(joint.group, Revolute | Prismatic):
            found[f"{joint.name}.axis"] = joint.group.axis, ""
        if joint.dim:
            turns = [bool(np.any(s[:3])) for s in joint.S.T]
            for loss, (turning, sliding) in LOSSES.items():
                units = [turning if turn else sliding for turn in turns]
                one = joint.dim == 1
                value = getattr(joint, loss)
                unit = units[0] if len(set(units)) == 1 else ", ".join(units)
                found[f"{joint.name}.{loss}"] = value[0] if one else value, unit
    return {
        name: Parameter(name, np.array(value, float), unit)
        for name, (value, unit) in found.items()
        if is_numeric(value)
    }


def with_values(tree: Tree, values: Mapping[str, Array]) -> Tree:
    """The tree with these values of parameters, numbers or symbols; others stay.

    Of SymPy's symbols (`symbols_of`) all get values or none.
    """
    symbols = symbols_of(tree)
    given = {name: values[name] for name, symbol in symbols.items() if values.get(name, symbol) is not symbol}
    if len(given) == len(symbols):
        tree = _each(tree, lambda x: from_sympy(x, dict(zip(symbols.values(), given.values(), strict=True))))
    return replace(tree, bodies=tuple(_changed(body, values) for body in tree.bodies)) if values else tree


def symbols_of(tree: Tree) -> dict[str, Any]:
    """SymPy's symbols in the numbers of a tree, by their words.

    Raises ModelError for two that are one word, and for one called gravity.
    """
    found: dict[str, Any] = {}

    def note(x: Any) -> Any:
        for symbol in sorted(x.free_symbols, key=str):
            word = word_of(symbol.name)
            if found.setdefault(word, symbol) != symbol or word == "gravity":
                raise ModelError(
                    f"{tree.name}: the symbol {symbol.name!r} is one word, {word}, with another symbol or "
                    "with the gravity of robots; give it another name"
                )
        return x

    _each(tree, note)
    return found


def _each(tree: Tree, value: Callable[[Any], Any]) -> Tree:
    """The tree with value(x) in place of each number x of SymPy."""

    def of(given: Any) -> Any:
        array = np.asarray(given)
        if array.dtype != object or not any(hasattr(x, "free_symbols") for x in array.flat):
            return given
        entries = [value(x) if hasattr(x, "free_symbols") else x for x in array.flat]
        made = np.reshape(np.array(entries), array.shape)
        return made if array.ndim else made[()]

    def own(holder: Any, names: Iterable[str]) -> Any:
        old = {name: getattr(holder, name) for name in names}
        new = {name: of(x) for name, x in old.items()}
        return replace(holder, **new) if any(new[name] is not x for name, x in old.items()) else holder

    def body(b: Body) -> Body:
        b = own(b, ("placement", "ratio", "offset"))
        inertia = own(b.inertia, ("mass", "com", "rotational"))
        joint = own(b.joint, LOSSES)
        same = inertia is b.inertia and joint is b.joint
        return b if same else replace(b, inertia=inertia, joint=joint)

    bodies = tuple(map(body, tree.bodies))
    frames = {name: own(frame, ("placement",)) for name, frame in tree.frames.items()}
    return replace(tree, bodies=bodies, frames=frames)


def _changed(body: Body, values: Mapping[str, Array]) -> Body:
    def own(holder: str, kinds: tuple[str, ...]) -> dict[str, Any]:
        return {k: values[f"{holder}.{k}"] for k in kinds if f"{holder}.{k}" in values}

    of_inertia = own(body.name, ("mass", "center", "inertia"))
    if of_inertia:
        mass, com, rotational = body.inertia.mass, body.inertia.com, body.inertia.rotational
        if "inertia" in of_inertia:
            rotational = _full(of_inertia["inertia"])
        inertia = SpatialInertia(of_inertia.get("mass", mass), of_inertia.get("center", com), rotational)
        body = replace(body, inertia=inertia)
    place = own(body.joint.name, ("position", "orientation"))
    if place:
        R, p = SE3.parts(body.placement)
        R = SO3.element(place["orientation"]) if "orientation" in place else R
        body = replace(body, placement=SE3.motion(R, place.get("position", p)))
    joint: Joint = body.joint
    axis = own(joint.name, ("axis",))
    if axis and isinstance(joint.group, Revolute | Prismatic):
        joint = replace(joint, group=joint.group.along(axis["axis"]))
    return replace(body, joint=replace(joint, **own(joint.name, tuple(LOSSES))))


def _full(upper: Array) -> Array:
    """The symmetric matrices of xx, xy, xz, yy, yz, zz, which are the first axis: (3, 3, ...)."""
    entries = dict(zip(UPPER, upper, strict=True))
    return np.array([[entries[min(i, j), max(i, j)] for j in range(3)] for i in range(3)])
