"""Grounds for time stepping: height fields, boxes and stairs. `Contact` itself has planes.

A ground gives the distance of a point from its surface, and the normal there. Choices between surfaces are
made by `where`, because the traced code has no branches.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..base.arguments import count as whole
from ..base.arguments import floats, number
from ..base.errors import ModelError
from ..scalars import Array, Table, absolute, clip, floor, lookup, maximum, minimum, sqrt, where


class Ground:
    """A surface under a robot. `parameters` become parameters of the contact with it.

    top  height of its highest places, along z                                                           [m]
    """

    top = 0.0

    def __init__(self) -> None:
        self.parameters: dict[str, Any] = {}

    def over(self, x: Array, p: Any) -> tuple[Any, Array]:
        """Distance of the point x (3,) from the surface, negative below it, and its normal there, (3,).

        p  the contact's parameters
        """
        raise NotImplementedError


class HeightField(Ground):
    """z = f(x, y), bilinear between heights on a grid, which repeats itself in both directions, or ends.

        distance (z - f) / sqrt(1 + f_x^2 + f_y^2),        normal (-f_x, -f_y, 1) / sqrt(1 + f_x^2 + f_y^2)

    heights  (nx, ny) at x = origin[0] + spacing i, y = origin[1] + spacing j; a parameter: each member may
             have its own                                                                                 [m]
    spacing  of the grid, or (2,): along x and y                                                          [m]
    origin   place of the first height, (2,)                                                              [m]
    outside  "repeat": the grid begins again a spacing after its last heights; "hold": the heights of its rim
             go on, level across it

    The normal is exact. The distance is exact on planes, and correct to first order elsewhere. The heights
    are a `Table`: they stay in memory, and a point costs the same for any number of them. As parameters of
    simulations they are arrays (..., nx, ny), or an array of `liebody.scalars.Table`, which are not copied.

    Errors: ModelError for fewer than 2 x 2 heights, a spacing that is not positive, an origin that is not
    two numbers, and unknown words.
    """

    def __init__(
        self, heights: Array, spacing: Any = 0.25, origin: Any = (0.0, 0.0), outside: str = "repeat"
    ) -> None:
        super().__init__()
        table = floats("heights", heights)
        steps = floats("spacing", spacing)
        first = floats("origin", origin)
        if first.shape != (2,) or outside not in ("repeat", "hold"):
            raise ModelError(
                f"HeightField has the origin {origin!r} and outside={outside!r}; give two numbers, and "
                "'repeat' or 'hold'"
            )
        if table.ndim != 2 or min(table.shape) < 2 or steps.shape not in ((), (2,)) or (steps <= 0).any():
            raise ModelError(
                f"HeightField has heights {table.shape} and a spacing of {spacing!r}; give a matrix of 2 x 2 "
                "or more and a positive distance"
            )
        self.shape = table.shape
        self.spacing = np.broadcast_to(steps, 2).tolist()
        self.origin = first.tolist()
        self.outside = outside
        self.parameters = {"heights": Table(table)}
        self.top = float(table.max())

    def over(self, x: Array, p: Any) -> tuple[Any, Array]:
        # the cell of the grid that x lies in, with corners at rows i and columns j, and the shares s, t in it
        (i, s, slope_x), (j, t, slope_y) = (self._cell(x[k], k) for k in (0, 1))
        corners = [[lookup(p.heights, row * self.shape[1] + column) for column in j] for row in i]
        # heights at the share t of both sides along y, and their slopes
        low, high = (first + t * (second - first) for first, second in corners)
        slope_low, slope_high = (second - first for first, second in corners)
        f = low + s * (high - low)
        f_x = (high - low) * slope_x
        f_y = (slope_low + s * (slope_high - slope_low)) * slope_y
        size = 1 / sqrt(1 + f_x * f_x + f_y * f_y)
        return (x[2] - f) * size, np.array([-f_x * size, -f_y * size, size])

    def _cell(self, x: Any, axis: int) -> tuple[tuple[Any, Any], Any, Any]:
        """Numbers of the heights on both sides of x along an axis, the share of x between them, ds/dx."""
        n = self.shape[axis]
        steps = (x - self.origin[axis]) / self.spacing[axis]
        slope = 1 / self.spacing[axis]
        if self.outside == "hold":
            inside = clip(steps, 0.0, n - 1.0)
            i = minimum(floor(inside), n - 2.0)
            return (i, i + 1), inside - i, where(absolute(steps - inside) > 0, 0.0, slope)
        i = floor(steps)
        s = steps - i
        i = i - n * floor(i / n)
        return (i, where(i < n - 1, i + 1, 0.0)), s, slope


class Boxes(Ground):
    """Boxes along the world's axes on the plane z = 0, to which distances and normals are exact.

    boxes  (centre (3,), half the lengths of its sides (3,)) of each                                      [m]

    A point touches the nearest of several surfaces.

    Errors: ModelError without boxes, and for sides that are not positive.
    """

    def __init__(self, *boxes: tuple[Sequence[float], Sequence[float]]) -> None:
        super().__init__()
        self.boxes = [(floats("centre", c), floats("half sides", b)) for c, b in boxes]
        if not boxes or any(c.shape != (3,) or b.shape != (3,) or not (b > 0).all() for c, b in self.boxes):
            raise ModelError(
                f"Boxes{boxes!r}: give (centre (3,), half sides (3,)), with positive sides, of each"
            )
        self.top = max(0.0, *(float(c[2] + b[2]) for c, b in self.boxes))

    @classmethod
    def steps(cls, rise: float, run: float, count: int, start: float = 0.5, width: float = 10.0) -> Boxes:
        """Steps upwards along x: `count` of them, each `rise` high and `run` deep, from x = start on."""
        count = whole("count", count)
        rise, run, start = (number(name, x) for name, x in (("rise", rise), ("run", run), ("start", start)))
        last = start + count * run + 10.0  # there the upper floor ends
        boxes = []
        # step i is a box from its front edge to the end of the stairs: boxes overlap, without gaps in between
        for i in range(count):
            first = start + i * run
            half = 0.5 * (i + 1) * rise
            boxes.append(((0.5 * (first + last), 0.0, half), (0.5 * (last - first), 0.5 * width, half)))
        return cls(*boxes)

    def over(self, x: Array, p: Any) -> tuple[Any, Array]:
        # the nearest surface: the plane z = 0, or a box
        d: Any = x[2]
        n = np.array([0, 0, 1])
        for centre, half in self.boxes:
            distance, normal = _over_box(x - centre, half)
            nearer = distance < d
            d = where(nearer, distance, d)
            n = np.array([where(nearer, y, z) for y, z in zip(normal, n)])
        return d, n


def _over_box(r: Array, half: Array) -> tuple[Any, Array]:
    """Distance and normal at r from the centre of a box."""
    # outside: the distance to the nearest point of the box, whose coordinates are r, clipped to the sides
    beyond = absolute(r) - half
    out = np.array([maximum(y, 0.0) for y in beyond])
    square = out @ out
    outside = square > 0
    length = sqrt(where(outside, square, 1.0))
    # inside: the nearest side has the largest (negative) distance
    deepest = maximum(maximum(beyond[0], beyond[1]), beyond[2])
    signs = [where(y < 0, -1.0, 1.0) for y in r]
    first = beyond[0] >= deepest
    second = (beyond[1] >= deepest) & ~first
    inner = [where(first, 1.0, 0.0), where(second, 1.0, 0.0), where(first | second, 0.0, 1.0)]
    normal = [s * where(outside, y / length, z) for s, y, z in zip(signs, out, inner, strict=True)]
    return where(outside, length, deepest), np.array(normal)


def tangents(n: Array) -> Array:
    """Two unit vectors (2, 3) at right angles to a unit vector n and to each other.

    Duff et al. (2017), "Building an orthonormal basis, revisited".
    """
    s = where(n[2] < 0, -1.0, 1.0)  # the formula of the other hemisphere, which is regular for n = -z
    a = -1 / (s + n[2])
    b = n[0] * n[1] * a
    return np.array([[1 + s * n[0] * n[0] * a, s * b, -s * n[0]], [b, s + n[1] * n[1] * a, -n[1]]])
