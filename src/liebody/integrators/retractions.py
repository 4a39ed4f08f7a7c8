"""Maps tau from the algebra to the group that methods may step with: exp, and Cayley's.

A retraction has tau(0) = 1 and derivative one there; those here also have tau(-u) = tau(u)^-1, as symmetric
methods need. The differential is right-trivialised like dexp: hat(dtau(u) du) = dg g^-1, g = tau(u).

Bou-Rabee, Marsden, "Hamilton-Pontryagin integrators on Lie groups", Found. Comput. Math. 9 (2009), section 4;
Kobilarov, Marsden, "Discrete geometric optimal control on Lie groups", IEEE Trans. Robot. 27 (2011).
"""

from __future__ import annotations

import numpy as np

from ..compiler import repeated
from ..groups import SE3, SO3, LieGroup, Product
from ..groups.se3 import SE3Group
from ..groups.so3 import SO3Group, quaternion_product, quaternion_rotate
from ..scalars import Array, sqrt
from ..scalars.linear import cross, product


class Exponential:
    """tau = exp."""

    def __init__(self, group: LieGroup) -> None:
        self.group = group

    def integrate(self, q: Array, u: Array) -> Array:
        """Coordinates of g tau(u), where q are coordinates of g."""
        return self.group.integrate(q, u)

    def dual(self, operation: str, u: Array, p: Array) -> Array:
        """A^T p with A = Ad or dtau_inverse at u, by the factors of a product."""

        def of_factor(factor: LieGroup, u: Array, p: Array) -> Array:
            return _dual(type(self), factor, operation, u, p)

        return self.group.by_factors(of_factor, u, p)

    def Ad(self, u: Array) -> Array:
        """Ad of tau(u), (dim, dim), on a group that is no product."""
        return self.group.Ad(self.group.exp(u))

    def dtau_inverse(self, u: Array) -> Array:
        """Inverse of dtau(u), (dim, dim), on a group that is no product."""
        return self.group.dexp_inverse(u)


class Cayley(Exponential):
    """tau(u) = (1 - hat(u)/2)^-1 (1 + hat(u)/2) on SO(3) and SE(3), as such or as factors; others keep exp.

    No trigonometric functions, and no poles: omega turns by 2 arctan(|omega|/2), less than half a turn.

        hat(dtau^-1(u) w) = (1 - hat(u)/2) hat(w) (1 + hat(u)/2)

    In coordinates the rotation is the unit quaternion along (1, omega/2), and the translation solves
    (1 - [omega]/2) p = v.
    """

    @property
    def _turns(self) -> bool:
        return isinstance(self.group, (SO3Group, SE3Group))

    def integrate(self, q: Array, u: Array) -> Array:
        if isinstance(self.group, Product):
            parts = zip(self.group.factors, self.group.coordinate_slices, self.group.dofs, strict=True)
            return np.concatenate([Cayley(factor).integrate(q[k], u[i]) for factor, k, i in parts])
        if not self._turns:
            return super().integrate(q, u)
        turned = quaternion_product(q[:4], _quaternion(u[:3]))
        if isinstance(self.group, SO3Group):
            return turned
        return np.concatenate([turned, q[4:] + quaternion_rotate(q[:4], _translation(u))])

    def Ad(self, u: Array) -> Array:
        if not self._turns:
            return super().Ad(u)
        R = SO3.element(_quaternion(u[:3]))
        return R if isinstance(self.group, SO3Group) else SE3.Ad(SE3.motion(R, _translation(u)))

    def dtau_inverse(self, u: Array) -> Array:
        """1 - [omega]/2 + omega omega^T/4 of rotations; Kobilarov, Marsden, eq. (55)."""
        if not self._turns:
            return super().dtau_inverse(u)
        omega = u[:3]
        one = np.eye(3, dtype=int)
        half = one - 0.5 * SO3.hat(omega)
        turning = half + 0.25 * np.outer(omega, omega)
        if isinstance(self.group, SO3Group):
            return turning
        return np.block([[turning, np.zeros((3, 3), int)], [-0.5 * (half @ SO3.hat(u[3:])), half]])


RETRACTIONS: dict[str, type[Exponential]] = {"exp": Exponential, "cay": Cayley}


@repeated
def _dual(kind: type[Exponential], group: LieGroup, operation: str, u: Array, p: Array) -> Array:
    return product(getattr(kind(group), operation)(u).T, p)


def _quaternion(omega: Array) -> Array:
    """The unit quaternion along (1, omega/2)."""
    x = sqrt(1 + 0.25 * (omega @ omega))
    return np.concatenate([np.reshape(1 / x, 1), 0.5 / x * omega])


def _translation(u: Array) -> Array:
    """p with (1 - [omega]/2) p = v."""
    # (1 - [a])^-1 = 1 + ([a] + [a]^2)/(1 + a^T a), because [a]^3 = -(a^T a) [a].
    a = 0.5 * u[:3]
    v = u[3:]
    once = cross(a, v)
    return v + (once + cross(a, once)) / (1 + a @ a)
