"""Values between the points of a table: linear or cubic, over one axis or two, periodic or not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ..base.arguments import floats, short, wrong_shape
from ..base.errors import ArgumentError, ConfigurationError, ShapeError
from .elementary import Array, clip, floor, minimum, where
from .tables import Table, lookup

KINDS = ("linear", "cubic")
OUTSIDE = ("hold", "extend")
EVEN = (
    4 * np.finfo(float).eps
)  # of the largest coordinate: points this close to equal distances count as such


def interp(
    x: Any,
    points: Any,
    values: Any,
    kind: str = "linear",
    periodic: bool | Sequence[bool] = False,
    outside: str = "hold",
) -> Array:
    """The value at x of a function that is known at points, on floats, arrays and symbols.

        torque = interp(speed, [0, 100, 200], [2.0, 1.8, 0.0])                     # over one axis
        loss = interp((speed, torque), (speeds, torques), losses)                  # over two: losses (n, m)

    x         number, array or symbols; over two axes a pair of them
    points    (n,), increasing, two or more; over two axes a pair (n,), (m,)
    values    (n,), or (n, m): numbers; with kind="linear" also a parameter that is a `Table`
    kind      "linear", bilinear over two axes; "cubic": the spline that is smooth to its second derivative
              (C2) and takes the values at the points. Its third derivative is continuous at the second point
              and at the last but one, too ("not a knot"). Over two axes it is the product of both
    periodic  whether the values repeat, with the period points[-1] - points[0]; then the last value is the
              first one. Over two axes a pair of these, or one for both
    outside   "hold": the value at the nearest end; "extend": the first and last pieces go on

    returns   array of the shape of x. NaN gives NaN

    The cost is the same for any number of values, if points are at equal distances; otherwise it is log2(n)
    look-ups more. The derivative at a point belongs to the piece to the right; with "hold" it is zero at both
    ends.

    Errors: ShapeError for shapes that do not fit, ConfigurationError for points that do not increase, values
    that are not finite, and periodic values whose ends differ, ArgumentError for unknown words. De Boor
    (1978), "A practical guide to splines", chapter IV.
    """
    if kind not in KINDS:
        raise ArgumentError(f"kind is {short(kind)}, expected 'linear' or 'cubic'")
    if outside not in OUTSIDE:
        raise ArgumentError(f"outside is {short(outside)}, expected 'hold' or 'extend'")
    single = not (isinstance(points, (tuple, list)) and len(points) == 2 and np.ndim(points[0]) == 1)
    coordinates = (x,) if single else tuple(x)
    grids = [floats("points", grid) for grid in ((points,) if single else points)]
    each = np.broadcast_to(periodic, len(grids)) if np.ndim(periodic) == 0 else periodic
    repeats = [bool(repeat) for repeat in np.asarray(each)]
    if len(coordinates) != len(grids) or len(repeats) != len(grids):
        raise ShapeError(
            f"x has {len(coordinates)} and periodic has {len(repeats)} axes, points have {len(grids)}; give "
            "one of each, or pairs"
        )
    for grid in grids:
        if grid.ndim != 1 or len(grid) < 2:
            raise wrong_shape("points", grid.shape, "(n,), two or more")
        if not (np.diff(grid) > 0).all():
            raise ConfigurationError(
                f"points are {short(grid.tolist())}, expected increasing numbers; sort them"
            )
    shape = tuple(len(grid) for grid in grids)
    known = _known(values, shape, repeats)
    places = [_place(*axis, outside) for axis in zip(coordinates, grids, repeats, strict=True)]
    if kind == "linear":
        return _linear(values if known is None else Table(known), places, shape)
    if known is None:
        raise ArgumentError(
            "a cubic needs values that are known while tracing, not a parameter; give numbers"
        )
    return _cubic(known, places, grids, repeats)


def _known(values: Any, shape: tuple[int, ...], repeats: Sequence[bool]) -> Any:
    """The values as an array of this shape; None for the address of a table."""
    if isinstance(values, Table):
        values = values.values
    elif np.ndim(values) == 0 and not isinstance(values, (str, bytes)):
        return None
    if np.asarray(values).dtype == object and any(hasattr(y, "apply") for y in np.ravel(values)):
        raise ArgumentError(
            "values hold symbols, expected numbers; make them a parameter that is a liebody.scalars.Table"
        )
    known = floats("values", values)
    if known.shape != shape:
        raise wrong_shape("values", known.shape, shape, ", one for each point")
    for axis, repeat in enumerate(repeats):
        first = known.take(0, axis)
        last = known.take(-1, axis)
        if repeat and not np.allclose(first, last, rtol=1e-9, atol=1e-9 * np.ptp(known)):
            raise ConfigurationError(
                f"values are periodic, and begin with {short(first.tolist())}, but end with "
                f"{short(last.tolist())}; repeat the first value at the end of the period"
            )
    return known


class _Place(NamedTuple):
    """Where x lies on an axis: between points i and i + 1, at the share s of their distance h."""

    i: Any
    s: Any
    h: Any


def _place(x: Any, grid: np.ndarray, periodic: bool, outside: str) -> _Place:
    first = float(grid[0])
    length = float(grid[-1] - grid[0])
    pieces = len(grid) - 1
    x = np.asarray(x)[()] if isinstance(x, (list, tuple)) else x
    if periodic:
        x = x - length * floor((x - first) / length)
    elif outside == "hold":
        x = clip(x, first, float(grid[-1]))
    h = length / pieces
    even = np.abs(grid - (first + h * np.arange(pieces + 1))).max() <= EVEN * np.abs(grid[[0, -1]]).max()
    if even:
        steps = (x - first) / h
        below = clip(floor(steps), 0.0, pieces - 1.0)
        return _Place(below, steps - below, h)
    # binary search, without branches: the last point that is not beyond x
    knots = Table(grid)
    i: Any = np.zeros(np.shape(x))[()]
    for k in reversed(range((pieces - 1).bit_length())):
        i = where(x >= lookup(knots, i + 2.0**k), i + 2.0**k, i)
    i = minimum(i, pieces - 1.0)
    left = lookup(knots, i)
    h = lookup(knots, i + 1.0) - left
    return _Place(i, (x - left) / h, h)


def _linear(table: Any, places: Sequence[_Place], shape: tuple[int, ...]) -> Any:
    """The weighted mean of the values around, axis by axis; exact at points."""
    (i, s, _), *rest = places
    if not rest:
        return (1 - s) * lookup(table, i) + s * lookup(table, i + 1)
    j, t, _ = rest[0]
    low, high = i * shape[1] + j, (i + 1) * shape[1] + j
    before = (1 - t) * lookup(table, low) + t * lookup(table, low + 1)
    after = (1 - t) * lookup(table, high) + t * lookup(table, high + 1)
    return (1 - s) * before + s * after


def _cubic(
    values: np.ndarray, places: Sequence[_Place], grids: Sequence[np.ndarray], repeats: Sequence[bool]
) -> Any:
    """Hermite's cubics of values and slopes at the points around."""
    slopes = spline_slopes(grids[0], values, repeats[0])
    (i, s, h), *rest = places
    if not rest:
        table = Table(np.stack([values, slopes], axis=-1))
        return sum(
            weight * lookup(table, 2 * (i + corner) + derivative)
            for (corner, derivative), weight in _hermite(s, h).items()
        )
    # over two axes each point has the value, both slopes and the mixed derivative
    j, t, l = rest[0]
    of_values = spline_slopes(grids[1], values.T, repeats[1]).T
    of_slopes = spline_slopes(grids[1], slopes.T, repeats[1]).T
    table = Table(np.stack([values, of_values, slopes, of_slopes], axis=-1))
    columns = len(grids[1])
    return sum(
        a * b * lookup(table, 4 * ((i + corner) * columns + j + side) + (2 * m + n))
        for (corner, m), a in _hermite(s, h).items()
        for (side, n), b in _hermite(t, l).items()
    )


def _hermite(s: Any, h: Any) -> dict[tuple[int, int], Any]:
    """Weights of value (0) and slope (1) at both ends of a piece of length h, by (end, which)."""
    r = 1 - s
    return {
        (0, 0): r * r * (1 + 2 * s),
        (0, 1): s * r * r * h,
        (1, 0): s * s * (1 + 2 * r),
        (1, 1): -s * s * r * h,
    }


def spline_slopes(x: np.ndarray, y: np.ndarray, periodic: bool = False) -> np.ndarray:
    """Slopes (n, ...) at the points x (n,) of the C2 cubic spline through y (n, ...).

    They solve h_i d_{i-1} + 2 (h_{i-1} + h_i) d_i + h_{i-1} d_{i+1} = 3 (h_i m_{i-1} + h_{i-1} m_i), with the
    slopes m of the chords; at the ends not-a-knot conditions, or the same equation around the period.
    De Boor (1978), eqs (IV.7), (IV.13).
    """
    n = len(x)
    h = np.diff(x).reshape(-1, *[1] * (y.ndim - 1))
    m = np.diff(y, axis=0) / h
    if n == 2:
        return np.concatenate([m, m]) * (not periodic)
    if periodic:
        before = np.roll(h, 1, axis=0)
        right = 3 * (h * np.roll(m, 1, axis=0) + before * m)
        d = _cyclic(h, 2 * (before + h), before, right)
        return np.concatenate([d, d[:1]])
    if n == 3:  # one parabola through three points
        curvature = (m[1] - m[0]) / (h[0] + h[1])
        return np.stack([m[0] - h[0] * curvature, m[0] + h[0] * curvature, m[1] + h[1] * curvature])
    lower, diagonal, upper = (np.zeros((n, *h.shape[1:])) for _ in range(3))
    right = np.zeros(y.shape)
    lower[1:-1] = h[1:]
    diagonal[1:-1] = 2 * (h[:-1] + h[1:])
    upper[1:-1] = h[:-1]
    right[1:-1] = 3 * (h[1:] * m[:-1] + h[:-1] * m[1:])
    ends = h[0] + h[1], h[-1] + h[-2]
    diagonal[0], upper[0] = h[1], ends[0]
    right[0] = ((h[0] + 2 * ends[0]) * h[1] * m[0] + h[0] ** 2 * m[1]) / ends[0]
    diagonal[-1], lower[-1] = h[-2], ends[1]
    right[-1] = (h[-1] ** 2 * m[-2] + (2 * ends[1] + h[-1]) * h[-2] * m[-1]) / ends[1]
    return _tridiagonal(lower, diagonal, upper, right)


def _tridiagonal(lower: Array, diagonal: Array, upper: Array, right: Array) -> np.ndarray:
    """The solution of a tridiagonal system, by elimination without pivots."""
    diagonal, x = diagonal.copy(), right.astype(float)
    for k in range(1, len(x)):
        factor = lower[k] / diagonal[k - 1]
        diagonal[k] -= factor * upper[k - 1]
        x[k] -= factor * x[k - 1]
    x[-1] /= diagonal[-1]
    for k in reversed(range(len(x) - 1)):
        x[k] = (x[k] - upper[k] * x[k + 1]) / diagonal[k]
    return x


def _cyclic(lower: Array, diagonal: Array, upper: Array, right: Array) -> np.ndarray:
    """As `_tridiagonal`, with lower[0] in the last column and upper[-1] in the first one."""
    if len(right) == 2:  # both neighbours of a point are the other one
        a, b = diagonal[0], lower[0] + upper[0]
        c, d = lower[1] + upper[1], diagonal[1]
        det = a * d - b * c
        return np.stack([(d * right[0] - b * right[1]) / det, (a * right[1] - c * right[0]) / det])
    # Sherman and Morrison: a change of rank one, u v^T, closes the circle
    gamma = -diagonal[0]
    inside = diagonal.copy()
    inside[0] = diagonal[0] - gamma
    inside[-1] = diagonal[-1] - upper[-1] * lower[0] / gamma
    u = np.zeros(right.shape)
    u[0], u[-1] = gamma, upper[-1]
    y = _tridiagonal(lower, inside, upper, right)
    z = _tridiagonal(lower, inside, upper, u)
    ratio = lower[0] / gamma
    return y - z * (y[0] + ratio * y[-1]) / (1 + z[0] + ratio * z[-1])
