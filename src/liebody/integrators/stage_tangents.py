"""Tangents of states through the stages of explicit methods, and kernels of functions with their derivatives.

A neighbour of a state y is y exp(s). The derivatives are the exact ones of the discrete step, and so only
approximate ones of the motion.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..compiler import Function, Kernel, Program, traced
from ..groups import LieGroup, along_group
from ..scalars import Array
from ..stepping.flow import stages
from ..stepping.records import Coefficients

StateTangents = tuple[Array, Array]
"""y (..., point), and its derivatives, (..., dim, columns): along its group, at y"""


def differentiated(
    function: Function | Program, group: LieGroup, by: Sequence[str], ends: LieGroup | None = None
) -> Kernel:
    """A kernel from the inputs of a function to its value and its derivatives by some of these inputs.

    The derivative by an input called y is along the group of states. The first of several outputs counts.

    by    the names of these inputs
    ends  the group of the value, if it is a state; its derivatives are then tangents at that state
    """
    # Loops of a program are unrolled: derivatives are traced through straight code.
    straight = function.unroll()
    shapes = {name: x.shape for name, x in straight.inputs.items()}

    def value(*arguments: Any) -> Array:
        results = straight(*arguments)
        return np.asarray(results[0] if isinstance(results, tuple) else results)

    moved = along_group(value, shapes, {name: group if name == "y" else None for name in by}, ends=ends)
    slopes = [moved.jacobian(name, "forward") for name in by]

    def both(*arguments: Any) -> tuple[Array, ...]:
        return value(*arguments), *(slope(*arguments) for slope in slopes)

    return Kernel(traced(both, shapes, f"{straight.name}_by_{'_'.join(by)}"))


class StageTangents:
    """Steps of an explicit method on states y of a group that carry the derivatives of y by numbers s along.

        y(s) = y exp(slope ds),    dy/dt = y f,    df/ds = (df/dy) slope + (df/du) du/ds

    A state is a pair y (..., point), slope (..., dim, columns), with a column for each number of s. A vector
    of the algebra, such as the velocity f, has its derivatives as further columns, (..., dim, 1 + columns).
    Arrays hold floats or symbols, with any leading axes.

        tangents = StageTangents(group, pull)
        y, slope = tangents.step(coefficients(method), velocity, t, h, (y, np.eye(group.dim)))

    group  of the states
    pull   (psi, f) -> dexp^-1_(-psi) f, of all components or of the first ones; None for methods that do not
           pull velocities back (`Method.pulls_back`)
    """

    def __init__(self, group: LieGroup, pull: Function | Program | None) -> None:
        self.group = group
        size = group.dim
        # The adjoint and dexp are the identity on commuting components, such as angles and velocities. They
        # differ from it at a random vector on all other components: only there slopes have to be turned.
        psi = np.random.default_rng(0).normal(size=size)
        off = np.abs(group.Ad(group.exp(psi)) - np.eye(size)) + np.abs(group.dexp(psi) - np.eye(size))
        self._turning = turning = np.flatnonzero(off.any(axis=0) | off.any(axis=1))

        def moved(y: Array, psi: Array) -> tuple[Array, Array, Array]:
            end = group.normalize(group.integrate(y, psi))
            places = np.ix_(turning, turning)
            return end, group.Ad(group.exp(-psi))[places], group.dexp(-psi)[places]

        self._moved = Kernel(traced(moved, {"y": group.nq, "psi": size}, "moved"))
        self._pulled = pull and differentiated(pull, group, ("psi", "f"))
        self._size = pull.inputs["f"].size if pull else 0

    def through(self, f: Array, by_y: Array, by_u: Array, slope: Array) -> Array:
        """The velocity f (..., dim) of a state with its derivatives as further columns, by the chain rule.

        by_y   (..., rows, dim): derivatives of the last `rows` components of f along the group. The other
               components are v = dq/dt, which is part of the state: its rows of `slope` are taken
        by_u   (..., rows, k): derivatives by the inputs, which the last k columns belong to
        slope  (..., dim, columns): the derivatives of the state
        """
        # The chain rule: through the state, and, in the last columns, directly through the inputs.
        slope_of_f = by_y @ slope
        k = slope_of_f.shape[-1] - by_u.shape[-1]
        slope_of_f = np.concatenate([slope_of_f[..., :k], slope_of_f[..., k:] + by_u], axis=-1)
        # Where dq/dt = v, rates have the rows of dv/dt alone; the others are the derivatives of v.
        rest = self.group.dim - by_y.shape[-2]
        if rest:
            slope_of_f = np.concatenate([slope[..., rest : 2 * rest, :], slope_of_f], axis=-2)
        return np.concatenate([f[..., None], slope_of_f], axis=-1)

    def advance(self, at: StateTangents, psi: Array) -> StateTangents:
        """y exp(psi), whose slope is Ad(exp(-psi)) slope + dexp(-psi) dpsi."""
        turning = self._turning
        end, Ad, dexp = self._moved(at[0], psi[..., 0])
        # Where everything commutes, slopes add up; the other components are turned.
        slope = at[1] + psi[..., 1:]
        slope[..., turning, :] = Ad @ at[1][..., turning, :] + dexp @ psi[..., turning, 1:]
        return end, slope

    def pulled(self, psi: Array, f: Array) -> Array:
        """dexp^-1_(-psi) f."""
        assert self._pulled
        k = self._size
        turning = self._turning
        # Beyond the first k components dexp^-1 is the identity.
        value, by_psi, by_f = self._pulled(psi[..., :k, 0], f[..., :k, 0])
        value = np.concatenate([value, f[..., k:, 0]], axis=-1)
        pulled = np.concatenate([value[..., None], f[..., 1:]], axis=-1)
        part = (turning[:, None], turning)
        pulled[..., turning, 1:] = (
            by_psi[..., *part] @ psi[..., turning, 1:] + by_f[..., *part] @ f[..., turning, 1:]
        )
        return pulled

    def step(
        self,
        method: Coefficients,
        velocity: Callable[[Any, StateTangents], Array],
        t: Any,
        h: Any,
        start: StateTangents,
    ) -> StateTangents:
        """The state at t + h with its derivatives, from the ones at t.

        method    `coefficients` of an explicit method
        velocity  (t, (y, slope)) -> f with its derivatives, (..., dim, 1 + columns); see `through`
        t, h      time and length of the step [s], (...)
        """
        pull = self.pulled if self._pulled else None
        return stages(method, velocity, self.advance, pull, t, h, start)[1]
