"""The `Equations` of a robot: its numbers become symbols, its coordinates get names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import sympy

from .. import models
from ..base.errors import ModelError, ShapeError
from ..bodies import Tree, labels_of
from ..dynamics import coriolis_form
from ..models.loading import load
from ..robot import GRAVITY, Robot
from . import sources
from .closed_forms import Equations
from .numbers import exact
from .parameters import exact_numbers, free_parameters, model_with_symbols, parameters_of, with_symbols

LETTERS = {"angle": r"\theta", "omega": r"\omega", "distance": "d", "v": "v"}


def equations_of(
    robot: Robot | Tree | str,
    form: str,
    simplify: bool,
    symbols: bool | Iterable[str],
    gravity: Sequence[Any] | None,
    names: tuple[Sequence[Any] | None, ...],
    floating: bool,
) -> Equations:
    """The `Equations` for the arguments of `liebody.symbolic.equations`."""
    coriolis_form(form)
    values: dict[Any, float] = {}
    # a bundled model has symbols for its parameters, as m1 and l1; any other tree for its numbers
    bundled = None
    if symbols is True and isinstance(robot, str) and robot in models.names():
        bundled = model_with_symbols(robot)
    if bundled:
        tree, values = bundled
        direction: Any = GRAVITY
    else:
        held = robot if isinstance(robot, Robot) else load(robot, floating=floating)
        tree = held.tree
        direction = held.gravity_vector
        if held.layout.size:
            tree, fall, values = free_parameters(held)
            if gravity is None and (not held.symbols or "gravity" in held.layout.defaults):
                gravity = tuple(fall)
        if symbols:
            tree, values = with_symbols(tree, symbols)
    if not tree.nv:
        raise ModelError(f"{tree.name} has no degrees of freedom, and so no equations of motion")
    # gravity: as given, or the robot's; in a tree with symbols its size is the symbol g
    _, numbers = exact_numbers(tree)
    if gravity is None:
        gravity = _gravity(direction, any(x.free_symbols for x in numbers))
        values.update(
            {s: float(np.linalg.norm(direction)) for x in gravity for s in x.free_symbols if values}
        )
    elif np.shape(gravity) != (3,):
        raise ShapeError(f"gravity is {gravity!r}, expected three numbers or symbols, such as (0, 0, -g)")
    gravity = tuple(map(exact, gravity))
    (q, v, a), tex = _symbols(tree, names)
    tau = [sympy.Symbol(f"tau{k}", real=True) for k in range(1, tree.nv + 1)]
    tex.update({t: rf"\tau_{{{k}}}" for k, t in enumerate(tau, start=1)})
    # all other symbols are parameters; no two symbols may share a name
    parameters = parameters_of([*numbers, *gravity])
    kinds = {
        "a coordinate": q,
        "a velocity": v,
        "an acceleration": a,
        "an effort": tau,
        "a parameter": parameters,
    }
    _check_distinct(tree.name, kinds)
    # immutable, so that expressions with them can be keys
    column = sympy.ImmutableMatrix
    return Equations(
        tree, column(q), column(v), column(a), column(tau), parameters, gravity, form, simplify, values, tex
    )


def _gravity(vector: Any, symbolic: bool) -> tuple[Any, ...]:
    """Free fall with exact numbers, or of size g."""
    if not symbolic or not np.any(vector):
        return tuple(exact(x) for x in vector)
    # the direction keeps its numbers, only the size becomes a symbol
    g = sympy.Symbol("g", positive=True)
    direction = np.asarray(vector, float) / np.linalg.norm(vector)
    return tuple(g * exact(x, roots=True) for x in direction)


def _symbols(tree: Tree, names: tuple[Sequence[Any] | None, ...]) -> tuple[list[list[Any]], dict[Any, str]]:
    """Symbols of q, v and a, and their LaTeX."""
    rows: tuple[list[tuple[str, str]], ...] = ([], [], [])
    coordinates, velocities = (iter(vector.names) for vector in labels_of(tree))
    several = sum(b.joint.dim > 1 and b.joint.mimic is None for b in tree.bodies) > 1
    for body in tree.bodies:
        joint = body.joint
        # a joint that follows another has no coordinates
        if joint.mimic is not None:
            continue
        if (joint.nq, joint.dim) == (1, 1):
            next(coordinates), next(velocities)
            k = body.dofs.start + 1
            for row, letter, tex in zip(rows, "qva", ("q", r"\dot{q}", r"\ddot{q}"), strict=True):
                row.append((f"{letter}{k}", f"{tex}_{{{k}}}"))
            continue
        # joints with several: the name of the component, after the joint's if there are several such joints
        prefix, of = (f"{sources.identifier(joint.name)}_", joint.name) if several else ("", "")
        for _ in range(joint.nq):
            component = next(coordinates).rpartition(".")[2]
            rows[0].append((f"{prefix}{component}", _tex(component, of)))
        for _ in range(joint.dim):
            component = next(velocities).rpartition(".")[2]
            rows[1].append((f"{prefix}{component}", _tex(component, of)))
            rows[2].append((f"{prefix}d{component}", _tex(component, of, dot=True)))
    families: list[list[Any]] = []
    latex: dict[Any, str] = {}
    # names of the user, or these; as many as there are coordinates and velocities
    for wanted, row, what in zip(names, rows, "qva", strict=True):
        if wanted is None:
            symbols = [sympy.Symbol(name, real=True) for name, _ in row]
            latex.update({s: words for s, (_, words) in zip(symbols, row, strict=True)})
        else:
            symbols = [x if isinstance(x, sympy.Symbol) else sympy.Symbol(str(x), real=True) for x in wanted]
        if len(symbols) != len(row):
            raise ShapeError(f"{len(symbols)} names for {what} of {tree.name}, expected {len(row)}")
        families.append(symbols)
    return families, latex


def _tex(component: str, joint: str, dot: bool = False) -> str:
    r"""`wx` of joint `base` as \omega_{x,\mathrm{base}}."""
    letter = LETTERS.get(component, "")
    index = ""
    if not letter:
        pairs = {"q": "q", "w": r"\omega", "v": "v"}
        letter, index = (pairs[component[0]], component[1:]) if component[0] in pairs else (component, "")
    letter = rf"\dot{{{letter}}}" if dot else letter
    words = [index, rf"\mathrm{{{joint}}}".replace("_", r"\_") if joint else ""]
    subscript = ",".join(filter(None, words))
    return f"{letter}_{{{subscript}}}" if subscript else letter


def _check_distinct(name: str, kinds: Mapping[str, Sequence[Any]]) -> None:
    """Refuse two symbols of one name: on paper they could not be told apart."""
    seen: dict[str, str] = {}
    for kind, symbols in kinds.items():
        for symbol in symbols:
            if symbol.name in seen:
                raise ModelError(
                    f"{name}: {symbol.name!r} names {seen[symbol.name]} and {kind}; give the "
                    "symbols of the robot other names, or name coordinates, velocities and accelerations by "
                    "q=[...], v=[...], a=[...]"
                )
            seen[symbol.name] = kind
