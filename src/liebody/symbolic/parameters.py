"""The numbers of a tree: found, named, and put back as something else."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import sympy

from .. import models
from ..base.errors import ModelError
from ..bodies import Body, SpatialInertia, Tree
from ..robot import Robot
from ..scalars import Array
from .numbers import exact, exact_rotation

AXES = "xyz"


def replaced(
    tree: Tree, value: Callable[[Any, str], Any], rotation: Callable[[Array], Array] = np.asarray
) -> Tree:
    """The tree with value(x, name) for each of its numbers x but 0, and 1 and -1 in rotations.

    Numbers are called m1, c1x, I1xx, p1x, J1 (mass, centre of mass, inertia about it, placement and armature
    of body 1), p_foot_x (placement of the frame "foot" on its body). Entries of rotations share the name R1,
    ratio and offset of a mimic k1. Axes and pitches of joints stay.
    `rotation` comes before, for each rotation (3, 3).
    """

    def of(x: Any, name: str) -> Any:
        return 0 if not hasattr(x, "free_symbols") and x == 0 else value(x, name)

    def entries(array: Array, name: str) -> Array:
        return np.array([of(x, f"{name}{axis}") for x, axis in zip(array, AXES, strict=True)])

    def turn(x: Any, name: str) -> Any:
        known = not hasattr(x, "free_symbols") and x in (-1, 0, 1)
        return int(x) if known else value(x, name)

    def pose(T: Array, name: str, position: str) -> Array:
        placed = np.zeros((4, 4), int).astype(object)
        placed[3, 3] = 1
        placed[:3, 3] = entries(T[:3, 3], position)
        placed[:3, :3] = [[turn(x, f"R{name}") for x in row] for row in rotation(T[:3, :3])]
        return placed

    def body(b: Body) -> Body:
        i = b.index
        I = b.inertia.rotational
        # one value for both entries of the symmetric matrix
        upper = {(j, k): of(I[j, k], f"I{i}{AXES[j]}{AXES[k]}") for j in range(3) for k in range(j, 3)}
        rotational = np.array([[upper[min(j, k), max(j, k)] for k in range(3)] for j in range(3)])
        inertia = SpatialInertia(of(b.inertia.mass, f"m{i}"), entries(b.inertia.com, f"c{i}"), rotational)
        placement = pose(b.placement, str(i), f"p{i}")
        armature = [
            of(x, f"J{i}" if b.joint.dim == 1 else f"J{i}_{k}")
            for k, x in enumerate(b.joint.armature, start=1)
        ]
        # fixed joints have no armature
        joint = replace(b.joint, armature=np.array(armature, dtype=object)) if armature else b.joint
        changed = replace(b, inertia=inertia, placement=placement, joint=joint)
        if b.joint.mimic is not None:
            changed = replace(changed, ratio=turn(b.ratio, f"k{i}"), offset=of(b.offset, f"k{i}"))
        return changed

    # placements of frames are numbers of the tree, too
    bodies = tuple(map(body, tree.bodies))
    frames = {
        key: replace(frame, placement=pose(frame.placement, f"_{key}", f"p_{key}_"))
        for key, frame in tree.frames.items()
    }
    return Tree(tree.name, bodies, frames)


def exact_numbers(tree: Tree) -> tuple[Tree, list[Any]]:
    """The tree with exact SymPy numbers and expressions, and the different ones among them."""
    numbers: dict[Any, None] = {}

    def of(x: Any, name: str) -> Any:
        number = exact(x, roots=name.startswith("R"))
        numbers.setdefault(number)
        return number

    return replaced(tree, of, exact_rotation), list(numbers)


def with_symbols(tree: Tree, chosen: bool | Iterable[str] = True) -> tuple[Tree, dict[Any, float]]:
    """The tree with a symbol for each number that is not structure, and the numbers by their symbols.

    chosen  names of those that become symbols; True for all

    Raises ModelError for a name that no number has.
    """
    values: dict[Any, float] = {}
    wanted = None if chosen is True else {chosen} if isinstance(chosen, str) else set(chosen or ())
    known: list[str] = []

    def of(x: Any, name: str) -> Any:
        # rotations and mimics are structure; symbols stay
        if name[0] in "Rk" or hasattr(x, "free_symbols"):
            return x
        known.append(name)
        if wanted is not None and name not in wanted:
            return x
        symbol = sympy.Symbol(name, real=True)
        values[symbol] = float(x)
        return symbol

    symbolic = replaced(tree, of)
    # each wanted name must have been met
    for name in sorted((wanted or set()) - set(known)):
        raise ModelError(
            f"{tree.name} has no number {name!r} to be a symbol; there are {', '.join(dict.fromkeys(known))} "
            "(what is zero stays zero)"
        )
    return symbolic, values


def free_parameters(robot: Robot) -> tuple[Tree, Array, dict[Any, float]]:
    """Tree and gravity of a robot with symbols for its free parameters, and their numbers by the symbols."""
    symbols: list[Any] = []
    values: dict[Any, float] = {}
    for name, default in robot.layout.defaults.items():
        kind = name.rpartition(".")[2]
        if kind == "axis":
            raise ModelError(f"{name} is free, and axes of closed forms are numbers; leave it out")
        # components are called as in descriptions: xx, xy, ... of inertias, w, x, y, z of orientations
        endings = {"inertia": ("xx", "xy", "xz", "yy", "yz", "zz"), "orientation": ("w", *AXES)}.get(
            kind, AXES
        )
        for k, x in enumerate(default.flat):
            # a symbol of the user stays; any other value becomes a symbol named after the parameter
            if name in robot.symbols:
                symbols.append(robot.symbols[name])
                values |= {} if np.isnan(x) else {symbols[-1]: float(x)}
                continue
            word = robot.layout.fields[name]
            ending = "" if not default.ndim else f"_{endings[k] if len(endings) == default.size else k}"
            symbols.append(sympy.Symbol(word + ending, positive=True if kind == "mass" else None, real=True))
            values[symbols[-1]] = float(x)
    return *robot.at(np.array(symbols)), values


def model_with_symbols(name: str) -> tuple[Tree, dict[Any, float]] | None:
    """A bundled model with symbols for its parameters, masses=(1, 1) being m1, m2; None if it has none."""
    make = getattr(models, name)
    arguments = {}
    values = {}
    for parameter in inspect.signature(make).parameters.values():
        default = parameter.default
        # float arguments, and sequences of them, are parameters; counts and names are not
        if isinstance(default, float) or (isinstance(default, Sequence) and not isinstance(default, str)):
            # masses -> m1, m2; zeros stay numbers
            letter = {"inertia": "I", "com": "c"}.get(parameter.name, parameter.name[0])
            numbers = np.atleast_1d(np.asarray(default, float))
            names = (
                [letter] if np.ndim(default) == 0 else [f"{letter}{k}" for k in range(1, len(numbers) + 1)]
            )
            symbols = [
                sympy.Symbol(word, positive=True) if x else 0 for word, x in zip(names, numbers, strict=True)
            ]
            arguments[parameter.name] = symbols if np.ndim(default) else symbols[0]
            values.update({s: float(x) for s, x in zip(symbols, numbers, strict=True) if x})
    return (make(**arguments).tree, values) if arguments else None


def parameters_of(expressions: Sequence[Any]) -> tuple[Any, ...]:
    """The symbols in SymPy expressions, in natural order: m1, m2, m10."""
    return tuple(sorted({s for e in expressions for s in e.free_symbols}, key=lambda s: _natural(s.name)))


def _natural(name: str) -> list[tuple[int, Any]]:
    words = re.findall(r"\d+|\D+", name)
    return [(0, int(word)) if word.isdigit() else (1, word) for word in words]
