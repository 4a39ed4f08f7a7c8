"""Free parameters as coordinates without bounds, and back.

A fit moves coordinates x. Masses, damping, friction, armature and stiffness are exp(x), so they stay
positive; the name of a body stands for all ten numbers of its inertia, by log-Cholesky coordinates;
directions and orientations move along their groups; everything else is x itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..base.arguments import floats
from ..base.errors import ModelError, known
from ..groups import SO3
from ..robot import Robot
from ..scalars import Array
from .inertias import COORDINATES, body_of, coordinates_of

POSITIVE = ("mass", "damping", "friction", "armature", "stiffness")
INERTIA = ("mass", "center", "inertia")


@dataclass(frozen=True)
class Part:
    """A free parameter, or all of a body.

    name      as the user gave it
    names     the parameters of the robot that it stands for
    entries   names of its coordinates
    start     its coordinates at the start
    scales    sizes of its coordinates
    values    x -> the parameters' values in one array, and the derivative of that by x
    """

    name: str
    names: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]
    entries: tuple[str, ...]
    start: Array
    scales: Array
    values: Callable[[Array], tuple[Array, Array]]


class FreeParameters:
    """The free parameters of a robot, as coordinates x (n,).

    robot     its parameters are the start, but for those in `start`
    free      names of parameters, and of bodies for all ten numbers of their inertia
    positive  names of the user's own parameters that stay positive
    """

    def __init__(
        self, robot: Robot, free: Iterable[str], start: Mapping[str, Any], positive: Iterable[str] = ()
    ) -> None:
        self.robot = robot
        positive = set(positive)
        self.parts = [_part(robot, name, start, name in positive) for name in dict.fromkeys(free)]
        if not self.parts:
            raise ModelError("nothing is free; name parameters, such as 'link6.mass', or bodies")
        names = [name for part in self.parts for name in part.names]
        twice = [name for name in names if names.count(name) > 1]
        if twice:
            raise ModelError(f"{twice[0]!r} is free twice: by its own name and by that of its body")
        self.entries = tuple(entry for part in self.parts for entry in part.entries)
        self.start = np.concatenate([part.start for part in self.parts])
        self.scales = np.concatenate([part.scales for part in self.parts])

    def _slices(self) -> list[tuple[Part, slice]]:
        ends = np.cumsum([len(part.start) for part in self.parts])
        return [(part, slice(int(end) - len(part.start), int(end))) for part, end in zip(self.parts, ends)]

    def values(self, x: Array) -> dict[str, Array]:
        """Values of the parameters at coordinates x."""
        found = {}
        for part, at in self._slices():
            flat, _ = part.values(x[at])
            for name, shape in zip(part.names, part.shapes, strict=True):
                size = int(np.prod(shape, dtype=int))
                found[name], flat = flat[:size].reshape(shape), flat[size:]
        return found

    def derivative(self, x: Array) -> Array:
        """d(all values in one array)/dx, (values, n): a block for each part."""
        blocks = [part.values(x[at])[1] for part, at in self._slices()]
        D = np.zeros((sum(len(block) for block in blocks), len(x)))
        row = 0
        for block, (_, at) in zip(blocks, self._slices(), strict=True):
            D[row : row + len(block), at] = block
            row += len(block)
        return D

    @property
    def names(self) -> list[str]:
        """Names of the parameters, in the order of the values."""
        return [name for part in self.parts for name in part.names]


def _part(robot: Robot, name: str, start: Mapping[str, Any], positive: bool) -> Part:
    bodies = {body.name: body for body in robot.tree.bodies}
    if name in bodies:
        return _body(robot, name, start)
    if name in robot.parameters:
        shape = np.shape(robot.parameters[name].value)
        value = start.get(name, robot.parameters[name].value)
    elif name in start:
        value = start[name]
        shape = np.shape(value)
    else:
        names = [*robot.parameters, *bodies]
        raise ModelError(
            f"there is no parameter {name!r} to be free; {known(names, name)}; words of your own "
            "need a value in `start`"
        )
    value = floats(name, value, finite=False)
    if value.shape != shape or not np.isfinite(value).all():
        raise ModelError(
            f"{name} starts at {value}, expected finite numbers of shape {shape}; give it in `start`"
        )
    kind = name.rpartition(".")[2]
    flat = np.ravel(value).astype(float)
    if positive or (kind in POSITIVE and name in robot.parameters):
        if (flat <= 0).any():
            raise ModelError(
                f"{name} starts at {value}, and its logarithm is free; give a positive number in `start`, "
                f"such as start={{{name!r}: 0.1}}"
            )
        return Part(
            name,
            (name,),
            (shape,),
            _entries(f"log {name}", shape),
            np.log(flat),
            np.ones(flat.size),
            _exponential,
        )
    if name in robot.parameters and kind == "orientation":
        return _turned(name, flat)
    if name in robot.parameters and kind == "axis":
        return _tilted(name, flat)
    if name in robot.parameters and kind == "inertia":
        body = name.rpartition(".")[0]
        raise ModelError(f"{name} alone might belong to no body; free the whole body {body!r}")
    scales = np.full(flat.size, np.linalg.norm(flat) or 1.0)
    return Part(name, (name,), (shape,), _entries(name, shape), flat, scales, _itself)


def _entries(name: str, shape: tuple[int, ...]) -> tuple[str, ...]:
    return tuple(f"{name}[{','.join(map(str, i))}]" for i in np.ndindex(shape)) if shape else (name,)


def _itself(x: Array) -> tuple[Array, Array]:
    return x, np.eye(len(x))


def _exponential(x: Array) -> tuple[Array, Array]:
    values = np.exp(x)
    return values, np.diag(values)


def _body(robot: Robot, name: str, start: Mapping[str, Any]) -> Part:
    names = tuple(f"{name}.{kind}" for kind in INERTIA)
    values = [start.get(x, robot.parameters[x].value) for x in names]
    theta = coordinates_of(float(values[0]), np.asarray(values[1], float), np.asarray(values[2], float))
    entries = tuple(f"{name} {x}" for x in COORDINATES)
    return Part(name, names, ((), (3,), (6,)), entries, theta, np.ones(10), body_of)


def _turned(name: str, start: Array) -> Part:
    """An orientation q exp(u), by the vector u (3,) of its turn in its own axes."""
    q = start / np.linalg.norm(start)

    def values(u: Array) -> tuple[Array, Array]:
        # The derivative of q exp(u) by u is body-fixed: dexp(-u) for turns from the right
        turned = SO3.integrate(q, u)
        rates = SO3.dexp(-u)  # body-fixed angular velocities of changes of u
        return turned, np.array([SO3.coordinate_rate(turned, rate) for rate in rates.T]).T

    return Part(
        name, (name,), (start.shape,), _entries(f"turn of {name}", (3,)), np.zeros(3), np.ones(3), values
    )


def _tilted(name: str, start: Array) -> Part:
    """A direction exp(B w) axis, by its tilts w (2,) about two axes B that are normal to it."""
    axis = start / np.linalg.norm(start)
    # two orthonormal directions normal to the axis, so that no coordinate turns the axis about itself
    B = np.linalg.svd(axis[None, :])[2][1:].T

    def values(w: Array) -> tuple[Array, Array]:
        # the axis is turned from the left, exp(u) axis, and its change is omega x axis with omega = dexp(u)
        # B dw
        u = B @ w
        tilted = SO3.exp(u) @ axis
        return tilted, -SO3.hat(tilted) @ SO3.dexp(u) @ B

    return Part(
        name, (name,), (start.shape,), _entries(f"tilt of {name}", (2,)), np.zeros(2), np.ones(2), values
    )
