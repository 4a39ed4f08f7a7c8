"""States as users give them, for everything that moves: completed, checked, with unit quaternions."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping
from typing import NoReturn

import numpy as np

from ..base.arguments import OFF_UNIT, floats, free_base, quaternion_remedy, wrong_shape
from ..base.errors import ConfigurationError
from ..bodies.labels import Labels
from ..groups import SE3, SO3, LieGroup, Product
from ..scalars import Array

FEW_QUATERNIONS = 8  # which Python makes unit sooner than NumPy


class States:
    """Reads states (q, v): configurations q (nq,) of a group, and velocities v (nv,).

    start  the configuration in which motions start by default, kept by those who compute it; None: unknown
    time   at which it is that one
    """

    def __init__(self, group: LieGroup, nv: int) -> None:
        self.group = group
        self.nv = nv  # velocities may be fewer than the algebra has dimensions
        self.start: Array = None
        self.time = 0.0
        self.firsts = list(group.quaternions)
        self.quaternions = np.add.outer(self.firsts, np.arange(4)).astype(int)
        self.special = _has_own_normal_form(group)

    def read(
        self,
        q0: Array,
        v0: Array,
        start: Callable[[], Array],
        labels: Callable[[], tuple[Labels, Labels]],
    ) -> tuple[Array, Array]:
        """q (..., nq) and v (..., nv) as finite floats, from arrays, from entries by name, or from None.

        start   makes the configuration (nq,) that None stands for, and that entries by name complete;
                velocities are completed by zeros
        labels  makes the names of coordinates and velocities, which are looked up in entries by name

        Errors: ShapeError and ConfigurationError, which name the array and what is expected.
        """
        group = self.group
        if isinstance(q0, Mapping):
            q0 = labels()[0].filled(q0, start())
        if isinstance(v0, Mapping):
            v0 = labels()[1].filled(v0, np.zeros(self.nv), "v0")
        q = start() if q0 is None else floats("q0", q0)
        v = np.zeros(self.nv) if v0 is None else floats("v0", v0)
        for name, array, size in (("q0", q, group.nq), ("v0", v, self.nv)):
            if array.ndim < 1 or array.shape[-1] != size:
                more = free_base(name, array.shape[-1] if array.ndim else 1, size)
                raise wrong_shape(name, array.shape, f"({size},) or an ensemble (..., {size}){more}")
        return q, v

    def normalize(self, q: Array) -> None:
        """Make the quaternions of configurations (n, nq) unit, in place.

        Raises ConfigurationError where they are off by more than round-off.
        """
        # Both ways divide by the norm. For a few quaternions Python's numbers are faster than arrays.
        if len(q) * len(self.firsts) <= FEW_QUATERNIONS:
            for row, k in itertools.product(q, self.firsts):
                w, x, y, z = row[k : k + 4].tolist()
                norm = math.sqrt(w * w + x * x + y * y + z * z)
                if not abs(norm - 1) <= OFF_UNIT:
                    self._refuse(row, k, norm)
                if norm != 1:
                    row[k : k + 4] = w / norm, x / norm, y / norm, z / norm
        elif self.firsts:
            quaternions = q[:, self.quaternions]
            norms = np.sqrt((quaternions * quaternions).sum(axis=-1))
            wrong = ~(np.abs(norms - 1) <= OFF_UNIT)
            if wrong.any():
                i, k = np.argwhere(wrong)[0]
                self._refuse(q[i], self.firsts[k], norms[i, k])
            q[:, self.quaternions] = quaternions / norms[..., None]
        if self.special:
            q[:] = [self.group.normalize(x) for x in q]

    def _refuse(self, q: Array, k: int, norm: float) -> NoReturn:
        remedy = "use robot.normalize(q0), or divide it by its norm"
        raise ConfigurationError(
            f"the quaternion q0[{k}:{k + 4}] has norm {norm:.9g}, expected 1 (order w, x, y, z); "
            f"{quaternion_remedy(q, k, self.group.poses, remedy)}"
        )


def _has_own_normal_form(group: LieGroup) -> bool:
    """Whether a user's group normalizes its coordinates itself, beyond unit quaternions."""
    if isinstance(group, Product):
        return any(_has_own_normal_form(factor) for factor in group.factors)
    return type(group).normalize not in (LieGroup.normalize, type(SO3).normalize, type(SE3).normalize)
