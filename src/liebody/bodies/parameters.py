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

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..base.arguments import OFF_UNIT
from ..base.errors import ModelError
from ..compiler.printers.sympy_source import from_sympy
from ..compiler.programs.layout import word_of
from ..groups import SE3, SO3, Prismatic, Revolute
from ..scalars import Array
from ..scalars.linear import is_numeric
from .inertia import UPPER, SpatialInertia, matrix_of
from .joints import NOT_NEGATIVE, Joint
from .tree import Body, Tree

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

    @property
    def kind(self) -> str:
        """The quantity of the body or joint: mass, axis, damping; "" for words of the user, as `length`."""
        owner, _, quantity = self.name.rpartition(".")
        return quantity if owner else ""

    @property
    def is_unit(self) -> bool:
        """Whether values are vectors of norm 1."""
        return self.kind in ("axis", "orientation")

    @property
    def relation(self) -> str:
        """How entries compare to zero, by kind: ">", ">=", or "" for any sign."""
        return ">" if self.kind in ("mass", "length") else ">=" if self.kind in NOT_NEGATIVE else ""

    @property
    def sign(self) -> str:
        """As `relation`, weakened if the default value, such as a mass of zero, does not fulfil it."""
        relation = self.relation
        least = np.min(self.value, initial=1.0)
        return relation if least > 0 else relation and ">=" if least == 0 else ""

    def checked(self, values: Array) -> Array:
        """Values (..., *shape), axes and quaternions of norm 1 to round-off.

        Raises ModelError for a value that no mechanism can have, and names the member of the ensemble; the
        mechanism's own one passes.
        """
        if self.is_unit:
            norms = np.linalg.norm(values, axis=-1, keepdims=True)
            self._refuse(
                values, np.abs(norms[..., 0] - 1) > OFF_UNIT, "a vector of norm 1; divide it by its norm"
            )
            return values / norms
        if self.relation == ">":
            self._refuse(values, ~(values > 0), f"a positive {self.kind}")
        elif self.kind == "inertia":
            self._check_inertia(values)
        elif self.relation:
            # ~(x >= 0) and not x < 0: NaN is wrong, too.
            wrong = ~(values >= 0)
            self._refuse(values, wrong.any(axis=-1) if self.shape else wrong, "zero or more")
        return values

    def _check_inertia(self, values: Array) -> None:
        """As `SpatialInertia.findings`, whose words are used."""
        rows = values.reshape(-1, 6)
        moments = np.linalg.eigvalsh(matrix_of(rows.T).transpose(2, 0, 1))
        small, middle, large = moments.T
        size = np.abs(rows).max(axis=-1)
        # negative moments, or moments that break the triangle inequality
        wrong = (small < -1e-9 * size) | (small + middle < large * (1 - 1e-6))
        if wrong.any():
            why = SpatialInertia(1.0, np.zeros(3), matrix_of(rows[np.argmax(wrong)])).findings()
            self._refuse(values, wrong.reshape(values.shape[:-1]), f"the inertia of a body: {why[0]}")

    def _refuse(self, values: Array, wrong: Array, expected: str) -> None:
        # the default value passes in any case: models may hold what no real body has, such as zero masses
        other = values != self.value
        wrong = wrong & (other.any(axis=-1) if self.shape else other)
        if np.any(wrong):
            at = tuple(int(i) for i in np.argwhere(wrong)[0])
            member = f" of member {at[0] if len(at) == 1 else at}" if at else ""
            unit = f" {self.unit}" if self.unit else ""
            raise ModelError(f"{self.name}{member} is {values[at].tolist()}{unit}, expected {expected}")


def parameters_of(tree: Tree) -> dict[str, Parameter]:
    """All parameters of a tree by their names, with its own numbers; those that are symbols are left out."""
    parameters: dict[str, Parameter] = {}
    for b in tree.bodies:
        parameters |= of_inertia(b.name, b.inertia)
        parameters |= of_placement(b.joint.name, b.placement)
        if isinstance(b.joint.group, Revolute | Prismatic):
            parameters |= _numeric({f"{b.joint.name}.axis": (b.joint.group.axis, "")})
        parameters |= of_losses(b.joint, tuple(LOSSES))
    return parameters


def of_inertia(body: str, inertia: SpatialInertia) -> dict[str, Parameter]:
    """Mass, centre and inertia of a body."""
    rotational = np.array([inertia.rotational[ij] for ij in UPPER])
    return _numeric(
        {
            f"{body}.mass": (inertia.mass, "kg"),
            f"{body}.center": (inertia.com, "m"),
            f"{body}.inertia": (rotational, "kg m2"),
        }
    )


def of_placement(holder: str, T: Array) -> dict[str, Parameter]:
    """Position and orientation of a frame (4, 4)."""
    numbers: dict[str, tuple[Any, str]] = {f"{holder}.position": (T[:3, 3], "m")}
    if is_numeric(T):
        numbers[f"{holder}.orientation"] = SO3.coordinates(np.asarray(T[:3, :3], float)), ""
    return _numeric(numbers)


def of_losses(joint: Joint, losses: Sequence[str]) -> dict[str, Parameter]:
    """The losses of a joint that are among these: damping, friction, armature and so on."""
    numbers: dict[str, tuple[Any, str]] = {}
    # A degree of freedom that turns has the units of a hinge, also if it slides along, as a screw does.
    turns = [bool(np.any(s[:3])) for s in joint.S.T]
    for loss in losses if joint.dim else ():
        turning, sliding = LOSSES[loss]
        units = [turning if turn else sliding for turn in turns]
        value = getattr(joint, loss)
        unit = units[0] if len(set(units)) == 1 else ", ".join(units)
        numbers[f"{joint.name}.{loss}"] = value[0] if joint.dim == 1 else value, unit
    return _numeric(numbers)


def _numeric(numbers: Mapping[str, tuple[Any, str]]) -> dict[str, Parameter]:
    return {
        name: Parameter(name, np.array(value, float), unit)
        for name, (value, unit) in numbers.items()
        if is_numeric(value)
    }


def with_values(tree: Tree, values: Mapping[str, Array]) -> Tree:
    """The tree with these values of parameters, numbers or symbols; others stay.

    SymPy's symbols (`symbols_of`) take values together: all or none.
    """
    # symbols first: an expression such as m/2 may stand in several places, which all follow
    symbols = symbols_of(tree)
    numbers = {
        name: values[name] for name, symbol in symbols.items() if values.get(name, symbol) is not symbol
    }
    if len(numbers) == len(symbols):
        tree = _each(
            tree, lambda x: from_sympy(x, dict(zip(symbols.values(), numbers.values(), strict=True)))
        )
    return replace(tree, bodies=tuple(_changed(body, values) for body in tree.bodies)) if values else tree


def symbols_of(tree: Tree) -> dict[str, Any]:
    """SymPy's symbols in the numbers of a tree, by their words.

    Raises ModelError for two that are one word, and for one called gravity.
    """
    symbols: dict[str, Any] = {}

    def note(x: Any) -> Any:
        for symbol in sorted(x.free_symbols, key=str):
            word = word_of(symbol.name)
            if symbols.setdefault(word, symbol) != symbol or word == "gravity":
                raise ModelError(
                    f"{tree.name}: the symbol {symbol.name!r} is one word, {word}, with another symbol or "
                    "with the gravity of robots; give it another name"
                )
        return x

    _each(tree, note)
    return symbols


def _each(tree: Tree, value: Callable[[Any], Any]) -> Tree:
    """The tree with value(x) in place of each number x of SymPy."""

    def of(given: Any) -> Any:
        array = np.asarray(given)
        if array.dtype != object or not any(hasattr(x, "free_symbols") for x in array.flat):
            return given
        entries = [value(x) if hasattr(x, "free_symbols") else x for x in array.flat]
        numbers = np.reshape(np.array(entries), array.shape)
        return numbers if array.ndim else numbers[()]

    # Objects without symbols stay the same objects, so that nothing is checked or traced again.
    def changed(holder: Any, names: Iterable[str]) -> Any:
        old = {name: getattr(holder, name) for name in names}
        new = {name: of(x) for name, x in old.items()}
        return replace(holder, **new) if any(new[name] is not x for name, x in old.items()) else holder

    def body(b: Body) -> Body:
        b = changed(b, ("placement", "ratio", "offset"))
        inertia = changed(b.inertia, ("mass", "com", "rotational"))
        joint = changed(b.joint, LOSSES)
        same = inertia is b.inertia and joint is b.joint
        return b if same else replace(b, inertia=inertia, joint=joint)

    bodies = tuple(map(body, tree.bodies))
    frames = {name: changed(frame, ("placement",)) for name, frame in tree.frames.items()}
    return replace(tree, bodies=bodies, frames=frames)


def _changed(body: Body, values: Mapping[str, Array]) -> Body:
    joint: Joint = body.joint
    inertia = inertia_with(body.name, body.inertia, values)
    placement = body.placement
    axis = _own(joint.name, ("axis",), values)
    if axis and isinstance(joint.group, Revolute | Prismatic):
        joint = replace(joint, group=joint.group.along(axis["axis"]))
    joint = losses_with(joint, values)
    placement = placement_with(joint.name, placement, values)
    return replace(body, inertia=inertia, placement=placement, joint=joint)


def inertia_with(body: str, inertia: SpatialInertia, values: Mapping[str, Array]) -> SpatialInertia:
    """The inertia of a body with these of its parameters."""
    changes = _own(body, ("mass", "center", "inertia"), values)
    if not changes:
        return inertia
    rotational = matrix_of(changes["inertia"]) if "inertia" in changes else inertia.rotational
    return SpatialInertia(changes.get("mass", inertia.mass), changes.get("center", inertia.com), rotational)


def placement_with(holder: str, T: Array, values: Mapping[str, Array]) -> Array:
    """The frame (4, 4) with these of its parameters."""
    changes = _own(holder, ("position", "orientation"), values)
    if not changes:
        return T
    R, p = SE3.parts(T)
    R = SO3.element(changes["orientation"]) if "orientation" in changes else R
    return SE3.motion(R, changes.get("position", p))


def losses_with(joint: Joint, values: Mapping[str, Array]) -> Joint:
    """The joint with these of its losses."""
    return replace(joint, **_own(joint.name, tuple(LOSSES), values))


def _own(holder: str, kinds: Sequence[str], values: Mapping[str, Array]) -> dict[str, Any]:
    return {k: values[f"{holder}.{k}"] for k in kinds if f"{holder}.{k}" in values}
