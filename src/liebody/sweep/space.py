"""Grids and samples of parameters, cut into chunks."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..base.arguments import array_of, checked, count, floats, wrong_shape
from ..base.errors import ShapeError, SweepError, require
from ..compiler import Named

MOST_IN_A_CHUNK = 512
FEWEST_CHUNKS = 16
MADE = ("status", "cause")  # arrays that every store has


class Sample(Named):
    """Parameters of each member of a sample, by name: arrays (n, ...), or numbers for all members.

        starts = lb.Sample({"q0": robot.random(rng, 1000), "K_p": rng.uniform(1, 9, 1000)})

    Raises ShapeError where the arrays do not have the same number of members.
    """

    @checked
    def __init__(self, values: Mapping[str, Any]) -> None:
        super().__init__({name: _values(name, value) for name, value in values.items()})
        sizes = {name: len(value) for name, value in self._values.items() if value.ndim}
        if len(set(sizes.values())) != 1:
            raise ShapeError(f"a sample needs arrays of one length, and these have {sizes}")
        self.size = next(iter(sizes.values()))

    def __repr__(self) -> str:
        return f"Sample of {self.size} members: {', '.join(self)}"


@checked
def sample(bounds: Mapping[str, Any], n: int, method: str = "sobol", seed: int = 0) -> Sample:
    """A sample of n members that fills a box evenly, for `sweep`.

    bounds  for each parameter (lowest, highest), or a number, which is the same for all members
    n       number of members; for "sobol" best a power of two
    method  "sobol" (scrambled), "latin-hypercube", "halton" (scrambled) or "random"
    seed    the same seed gives the same sample

    Owen, "Scrambling Sobol' and Niederreiter-Xing points", J. Complexity 14 (1998); McKay, Beckman and
    Conover, "A comparison of three methods ...", Technometrics 21 (1979); both as in scipy.stats.qmc.
    """
    require("samples", "scipy", extra="sweep")
    from scipy.stats import qmc

    n = count("n", n)
    seed = count("seed", seed, 0)
    limits = {name: floats(f"bounds of {name}", value) for name, value in bounds.items()}
    free = [name for name, limit in limits.items() if limit.ndim]
    for name in free:
        if limits[name].shape != (2,) or not limits[name][0] < limits[name][1]:
            raise ShapeError(f"bounds of {name} are {bounds[name]!r}, expected (lowest, highest)")
    engines = {"sobol": qmc.Sobol, "halton": qmc.Halton, "latin-hypercube": qmc.LatinHypercube}
    rng = np.random.default_rng(seed)
    # numbers in [0, 1), scaled to the bounds of each parameter
    if method == "random":
        unit = rng.random((n, len(free)))
    elif method in engines:
        unit = engines[method](len(free), rng=rng).random(n)
    else:
        raise SweepError(f"method is {method!r}, expected 'random' or one of {', '.join(map(repr, engines))}")
    drawn = {name: limits[name] @ [1 - x, x] for name, x in zip(free, unit.T, strict=True)}
    return Sample({name: drawn.get(name, limit) for name, limit in limits.items()})


class Space:
    """The members of a sweep in an array with named axes, cut into boxes of neighbours, the chunks.

    axes         {name: values}: a grid of one axis each, in their order; or a Sample, with the axis "sample".
                 Numbers are constants
    most         members of a chunk at most; default: 512, less where there would be fewer than 16 chunks

    dims, shape  names and lengths of the axes
    box          lengths of a chunk; those at the ends may be shorter
    places       of the chunks in the array of chunks
    coordinates  for each parameter the axes it depends on, and its values
    """

    def __init__(self, axes: Mapping[str, Any], most: int | None = None) -> None:
        values = {name: _values(name, value) for name, value in axes.items()}
        for name in values.keys() & set(MADE):
            raise SweepError(f"{name!r} is made by the sweep itself; call the parameter otherwise")
        self.coordinates: dict[str, tuple[tuple[str, ...], np.ndarray]] = {}
        # an axis of the grid for each array, or one axis for all members of a sample
        for name, value in values.items():
            inner = numbered(name, value.ndim - 1)
            if isinstance(axes, Sample):
                self.coordinates[name] = (("sample", *inner) if value.ndim else (), value)
            elif value.ndim > 1:
                raise wrong_shape(
                    f"axis {name}", value.shape, "(n,) or a number; arrays for each member go into a Sample"
                )
            else:
                self.coordinates[name] = ((name,) if value.ndim else (), value)
        lengths = {dims[0]: len(value) for dims, value in self.coordinates.values() if dims}
        if not lengths:
            raise ShapeError("there is nothing to sweep over; give one axis (an array of values) or more")
        self.dims = tuple(lengths)
        self.shape = tuple(lengths.values())
        self.size = math.prod(self.shape)
        # enough chunks for all workers, and none too large to be repeated after a kill
        if most is None:
            most = min(MOST_IN_A_CHUNK, math.ceil(self.size / FEWEST_CHUNKS))
        if not isinstance(most, (int, np.integer)) or most < 1:
            raise SweepError(f"chunk is {most!r}, expected how many members a chunk may have, such as 512")
        self.box = _box(self.shape, int(most))
        self.places = list(np.ndindex(*(-(-n // step) for n, step in zip(self.shape, self.box))))

    def __len__(self) -> int:
        """The number of chunks."""
        return len(self.places)

    def region(self, k: int) -> tuple[slice, ...]:
        """Where chunk k is in the array of members."""
        # chunks at the ends of an axis are shorter
        corner = zip(self.places[k], self.box, self.shape)
        return tuple(slice(i * step, min((i + 1) * step, n)) for i, step, n in corner)

    def members(self, k: int) -> tuple[int, ...]:
        """The shape of chunk k."""
        return tuple(part.stop - part.start for part in self.region(k))

    def parameters(self, k: int) -> dict[str, np.ndarray]:
        """The parameters of the members of chunk k, each (n, ...), where the last axis runs fastest."""
        # places of the members in the array; each parameter is looked up along the axis it depends on
        corner = [part.start for part in self.region(k)]
        places = np.indices(self.members(k)).reshape(len(corner), -1)  # of each member along the axes
        index = {dim: start + i for dim, start, i in zip(self.dims, corner, places)}
        return {
            name: values[index[dims[0]]] if dims else np.full(places.shape[1], values)
            for name, (dims, values) in self.coordinates.items()
        }

    def words(self, k: int) -> str:
        """The parameters of chunk k, in words."""
        phrases = []
        for name, values in self.parameters(k).items():
            if values.ndim > 1:
                continue
            # texts have no order: the first and the last one
            first, last = (
                (values[0], values[-1]) if values.dtype.kind in "UT" else (values.min(), values.max())
            )
            phrases.append(f"{name} = {first!s}" + ("" if first == last else f" ... {last!s}"))
        return ", ".join(phrases)


def numbered(name: str, n: int) -> tuple[str, ...]:
    """Names for the n axes that a parameter or result has itself: name_1, name_2, ..."""
    return tuple(f"{name}_{k + 1}" for k in range(n))


def _box(shape: tuple[int, ...], most: int) -> tuple[int, ...]:
    """The lengths of a box of at most so many members: whole last axes, and a part of the one before them."""
    box: list[int] = []
    # from the last axis on, as many whole axes as fit: members of a chunk are neighbours on disk
    for n in reversed(shape):
        box.append(min(n, max(1, most // math.prod(box))))
    return tuple(reversed(box))


def _values(name: str, value: Any) -> np.ndarray:
    if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z_][\w-]*(\.[\w-]+)*", name):
        raise SweepError(f"parameter {name!r} must be called by a word: letters, digits, underscores")
    array = array_of(f"parameter {name}", value)
    if array.dtype.kind not in "biufU" or array.size == 0:
        raise ShapeError(f"parameter {name} is {value!r}, expected numbers or words, one or more")
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise ShapeError(f"parameter {name} has values that are not finite")
    return array
