"""The states in which a motion starts: completed, checked, with unit quaternions."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from typing import NoReturn
from weakref import WeakKeyDictionary

import numpy as np

from ..base.arguments import OFF_UNIT, check_members, floats, free_base, quaternion_remedy, wrong_shape
from ..base.errors import ConfigurationError, ShapeError
from ..groups import SE3, SO3, LieGroup, Product
from ..mechanisms import Mechanism
from ..scalars import Array
from .setup import NONE

FEW_QUATERNIONS = 8  # which Python makes unit sooner than NumPy


class _StateCheck:
    """Checks of the states of a mechanism, with what they need to know; one object for each mechanism."""

    def __init__(self, group: Product) -> None:
        self.group = group
        self.start: Array = None  # where motions start by default, once that was asked for
        self.firsts = list(group.quaternions)
        self.quaternions = np.add.outer(self.firsts, np.arange(4)).astype(int)
        self.special = any(_has_own_normal_form(factor) for factor in group.factors)

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


_checks: WeakKeyDictionary[Mechanism, _StateCheck] = WeakKeyDictionary()


def states_of(
    mechanism: Mechanism, q0: Array, v0: Array, p: Array = NONE
) -> tuple[Array, Array, tuple[int, ...]]:
    """Initial states as (n, nq) and (n, nv), and the ensemble's shape, with parameters p (..., np)."""
    check = _checks.get(mechanism)
    if check is None:
        check = _checks[mechanism] = _StateCheck(mechanism.group)
    shape = p.shape[:-1]
    # The start of a closed mechanism depends on its parameters, such as lengths: it is assembled anew for
    # them. All others start in the same configuration, which is kept.
    closing = p if mechanism.layout.size and mechanism.nc else None
    start = check.start
    if q0 is None and (start is None or closing is not None):
        start = check.start = mechanism.start(closing)
    if isinstance(q0, Mapping):
        q0 = mechanism.labels[0].filled(q0, mechanism.start(closing))
    if isinstance(v0, Mapping):
        v0 = mechanism.labels[1].filled(v0, np.zeros(mechanism.nv), "v0")
    q = start if q0 is None else floats("q0", q0)
    v = np.zeros(mechanism.nv) if v0 is None else floats("v0", v0)
    for name, array, size in (("q0", q, mechanism.nq), ("v0", v, mechanism.nv)):
        if array.ndim < 1 or array.shape[-1] != size:
            more = free_base(name, array.shape[-1] if array.ndim else 1, size)
            raise wrong_shape(name, array.shape, f"({size},) or an ensemble (..., {size}){more}")
    batch = q.shape[:-1]
    # Most calls have equal axes; the others are broadcast.
    if not batch == v.shape[:-1] == shape:
        try:
            batch = np.broadcast_shapes(batch, v.shape[:-1], shape)
        except ValueError:
            more = f" and parameters {shape}" if shape else ""
            raise ShapeError(
                f"q0 {q.shape} and v0 {v.shape}{more} differ in their leading axes; make the ensembles equal"
            ) from None
        q, v = (np.broadcast_to(x, (*batch, x.shape[-1])) for x in (q, v))
    # Copies, which are made unit in place.
    q, v = (np.array(x, order="C").reshape(-1, x.shape[-1]) for x in (q, v))
    check_members(batch)
    check.normalize(q)
    if closing is not None:
        closing = np.broadcast_to(p, (*batch, p.shape[-1])).reshape(len(q), -1)
    # Constraints that move with time let no state rest: they say the velocities at the start.
    if v0 is None and mechanism.nc:
        v = np.array(mechanism.start_velocities(q, closing))
    try:
        one = len(q) == 1
        mechanism.check_state(q[0] if one else q, v[0] if one else v, p=closing)
    except ConfigurationError as error:
        if q0 is not None:
            raise
        raise ConfigurationError(
            f"{error}, where q0 = system.assemble(): simulations start there unless q0 is given, and not "
            "from system.guess; if v0 belongs to another configuration, give that as q0"
        ) from None
    return q, v, batch
