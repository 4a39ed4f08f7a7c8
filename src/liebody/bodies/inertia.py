"""The inertia of a rigid body about any frame fixed to it."""

from __future__ import annotations

from dataclasses import dataclass, field
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np

from ..base.arguments import floats, number, quantities, quantity, short
from ..base.errors import ArgumentError, ModelError, ShapeError, counted
from ..scalars import Array
from ..scalars.linear import cross, is_numeric, is_zero, skew, symmetric

SAME_CORNER = 1e-5
"""Corners of a surface that are this near, of its extent, are one; files of meshes round to 1e-7."""

PARAMETERS = ("m", "h_x", "h_y", "h_z", "I_xx", "I_xy", "I_xz", "I_yy", "I_yz", "I_zz")
"""Names of the ten numbers of a body in which equations of motion are linear.

The mass, the first moments h = m c, and the rotational inertia about the origin of the body's frame
[kg, kg m, kg m2].
"""
UPPER = ((0, 0), (0, 1), (0, 2), (1, 1), (1, 2), (2, 2))
"""Places of xx, xy, xz, yy, yz, zz in a symmetric matrix."""


def matrix_of(upper: Array) -> Array:
    """The symmetric matrices of xx, xy, xz, yy, yz, zz, which are the first axis: (3, 3, ...)."""
    entries = dict(zip(UPPER, upper, strict=True))
    return np.array([[entries[min(i, j), max(i, j)] for j in range(3)] for i in range(3)])


class Moments(NamedTuple):
    """The mass distribution's integrals about a frame: m = int dm, h = int r dm, Sigma = int r r^T dm.

    They move with the points of the body: under r' = R r + p, as the blocks of T [Sigma h; h^T m] T^T.
    """

    m: Any
    h: Array
    Sigma: Array

    @property
    def I(self) -> Array:  # noqa: E743
        """Rotational inertia about the frame's origin (3, 3):  I = tr(Sigma) 1 - Sigma."""
        S = self.Sigma
        return np.array(
            [
                [S[1, 1] + S[2, 2], -S[0, 1], -S[0, 2]],
                [-S[0, 1], S[0, 0] + S[2, 2], -S[1, 2]],
                [-S[0, 2], -S[1, 2], S[0, 0] + S[1, 1]],
            ]
        )

    @classmethod
    def of_parameters(cls, pi: Array) -> Moments:
        """The moments of a body with these `PARAMETERS` (10,)."""
        I = matrix_of(pi[4:])
        return cls(pi[0], pi[1:4], np.trace(I) / 2 * np.eye(3) - I)

    def parameters(self) -> Array:
        """`PARAMETERS` (10,)."""
        I = self.I
        return np.array([self.m, *self.h, *(I[place] for place in UPPER)])

    @classmethod
    def of_pseudo_inertia(cls, P: Array) -> Moments:
        """The moments of P = [Sigma h; h^T m], (4, 4)."""
        return cls(P[3, 3], P[:3, 3], symmetric(3, lambda i, j: P[i, j]))

    def pseudo_inertia(self) -> Array:
        """[Sigma h; h^T m], (4, 4)."""
        h = np.reshape(self.h, (3, 1))
        return np.block([[self.Sigma, h], [h.T, np.reshape(self.m, (1, 1))]])

    def times(self, w: Array, v: Array) -> tuple[Array, Array]:
        """J (w, v): the momentum at this twist."""
        return self.I @ w + cross(self.h, v), self.m * v - cross(self.h, w)

    def transpose_times(self, w: Array, v: Array) -> tuple[Array, Array]:
        """The same, as J is symmetric."""
        return self.times(w, v)

    def out(self, T: Any) -> Moments:
        """About the parent's frame, where `dynamics.spatial.Transformation` T leads."""
        return Moments(*T.moments_out(*self))

    def plus(self, other: Moments) -> Moments:
        """Those of both bodies."""
        return Moments(*(x + y for x, y in zip(self, other, strict=True)))

    def matrix(self) -> Array:
        """J = [[I, [h]], [-[h], m 1]], (6, 6)."""
        H = skew(self.h)
        return np.block([[self.I, H], [-H, self.m * np.eye(3, dtype=int)]])


SECOND_MOMENTS = tuple(  # dSigma / dI = tr(dI) 1 / 2 - dI, of each moment and product of inertia
    np.eye(3) / 2 * (i == j) - np.array([[float({r, c} == {i, j}) for c in range(3)] for r in range(3)])
    for i, j in UPPER
)
_NONE = np.zeros(3, int)
UNIT_MOMENTS = (  # of bodies with one parameter equal to one, and no other
    Moments(1, _NONE, np.zeros((3, 3), int)),
    *(Moments(0, e, np.zeros((3, 3), int)) for e in np.eye(3, dtype=int)),
    *(Moments(0, _NONE, dSigma) for dSigma in SECOND_MOMENTS),
)


def moved_parameters(pose: Array) -> Array:
    """(10, 10): `PARAMETERS` about a frame of a body whose parameters are about one at this pose in it."""
    columns = [
        Moments.of_pseudo_inertia(pose @ x.pseudo_inertia() @ pose.T).parameters() for x in UNIT_MOMENTS
    ]
    return np.array(columns, float).T


def _round(axis: int, along: Any, across: Any) -> Array:
    """Moments of inertia (3,), `along` that about coordinate axis number `axis`; raises ArgumentError."""
    if not isinstance(axis, Integral) or axis not in range(3):
        raise ArgumentError(f"axis is {short(axis)}, expected 0, 1 or 2, which are x, y and z")
    return np.array([along if k == axis else across for k in range(3)])


@dataclass(frozen=True, eq=False)
class SpatialInertia:
    """Mass, centre of mass, and rotational inertia of a rigid body, in a frame fixed to the body.

    mass        [kg]
    com         centre of mass in the body frame, (3,)                                     [m]
    rotational  rotational inertia about the centre of mass, in the axes of the body frame,
                (3, 3), or (3,) for a diagonal one                                         [kg m2]

    The frame need not lie at the centre of mass. Entries may be symbols. `findings` names values that no body
    can have, and `check` refuses them. J = [[I_c - m [c]^2, m [c]], [-m [c], m 1]]: Ploen (1999), eq. (12).
    """

    mass: Any = 0.0
    com: Array = field(default_factory=lambda: np.zeros(3))
    rotational: Array = field(default_factory=lambda: np.zeros((3, 3)))

    def __post_init__(self) -> None:
        mass = quantity("mass", self.mass)
        com = quantities("com", self.com, (3,))
        rotational = quantities("rotational inertia", self.rotational, (3, 3), (3,))
        if rotational.shape == (3,):
            rotational = np.array([[rotational[i] if i == j else 0 for j in range(3)] for i in range(3)])
        object.__setattr__(self, "mass", mass)
        object.__setattr__(self, "com", com)
        object.__setattr__(self, "rotational", rotational)

    # -- bodies of uniform density ------------------------------------------------------------------------

    @classmethod
    def point(cls, mass: Any, com: Array = (0, 0, 0)) -> SpatialInertia:
        """A point mass at `com`."""
        return cls(mass, com)

    @classmethod
    def box(cls, mass: Any, size: Array, com: Array = (0, 0, 0)) -> SpatialInertia:
        """A box with edges `size` (3,) along the axes, centred at `com`."""
        mass = quantity("mass", mass)
        x, y, z = quantities("size", size, (3,)).tolist()
        return cls(mass, com, [(a * a + b * b) * mass / 12 for a, b in ((y, z), (x, z), (x, y))])

    @classmethod
    def sphere(cls, mass: Any, radius: Any, com: Array = (0, 0, 0)) -> SpatialInertia:
        """A solid ball centred at `com`."""
        mass = quantity("mass", mass)
        radius = quantity("radius", radius)
        return cls(mass, com, np.ones(3) * (2 * mass * radius * radius / 5))

    @classmethod
    def cylinder(
        cls, mass: Any, radius: Any, length: Any, axis: int = 2, com: Array = (0, 0, 0)
    ) -> SpatialInertia:
        """A solid cylinder along coordinate axis number `axis`, centred at `com`."""
        mass = quantity("mass", mass)
        radius = quantity("radius", radius)
        length = quantity("length", length)
        across = mass * (3 * radius * radius + length * length) / 12
        return cls(mass, com, _round(axis, mass * radius * radius / 2, across))

    @classmethod
    def rod(cls, mass: Any, length: Any, axis: int = 2, com: Array = (0, 0, 0)) -> SpatialInertia:
        """A thin rod along coordinate axis number `axis` (0, 1, 2 are x, y, z), centred at `com`."""
        mass = quantity("mass", mass)
        length = quantity("length", length)
        return cls(mass, com, _round(axis, 0, mass * length * length / 12))

    @classmethod
    def polyhedron(cls, density: float, triangles: Array) -> SpatialInertia:
        """A solid within a closed surface of triangles (n, 3, 3), all turning the same way seen from outside.

        By the divergence theorem a sum over the tetrahedra that the triangles (a, b, c) span with one point,
        from which they are seen: of volume V = a . (b x c) / 6, negative where seen from behind, with
        int r dV = V s / 4 and int r r^T dV = V (a a^T + b b^T + c c^T + s s^T) / 20, where s = a + b + c.

        Raises ModelError for a surface that is not closed, or encloses no volume.
        """
        density = number("density", density)
        triangles = floats("triangles", triangles)
        if triangles.ndim != 3 or triangles.shape[1:] != (3, 3) or not len(triangles):
            raise ShapeError(f"triangles have shape {triangles.shape}, expected (n, 3, 3)")
        # About the mean of the corners, because far from the origin large volumes of both signs would cancel.
        middle = triangles.mean(axis=(0, 1))
        seen = triangles - middle
        size = np.abs(seen).max()
        _check_closed(seen, SAME_CORNER * size)
        V = np.linalg.det(seen) / 6
        volume = V.sum()
        if not abs(volume) > 1e-12 * size**3:
            raise ModelError(f"a surface of extent {size:g} m encloses no volume; give a solid one")
        s = seen.sum(axis=1)
        com = V @ s / (4 * volume)
        square = np.einsum("n,nki,nkj->ij", V, seen, seen) + np.einsum("n,ni,nj->ij", V, s, s)
        Sigma = square / (20 * volume) - np.outer(com, com)
        mass = density * abs(volume)
        return cls(mass, middle + com, mass * Moments(1, com, Sigma).I)

    @classmethod
    def from_matrix(cls, J: Array) -> SpatialInertia:
        """The inertia whose `matrix()` is J (6, 6), angular first."""
        J = quantities("spatial inertia, angular first,", J, (6, 6))
        m = J[5, 5]
        # The upper right block is m [c]; these are its entries with a positive sign.
        h = np.array([J[2, 4], J[0, 5], J[1, 3]])
        c = h / m if not is_zero(m) else np.zeros(3)
        inertia = cls(m, c, J[:3, :3] + m * skew(c) @ skew(c))
        if is_numeric(J) and not np.allclose(inertia.matrix(), J.astype(float), atol=1e-9 * np.abs(J).max()):
            raise ModelError(
                "not a spatial inertia of a rigid body:\n"
                f"{J}\n"
                "expected [[I, m [c]], [-m [c], m 1]] with I symmetric; is it given linear-first, or "
                "about another point?"
            )
        return inertia

    # -- what the algorithms use --------------------------------------------------------------------------

    @property
    def moments(self) -> Moments:
        """m, h = m c and Sigma about the origin of the body frame."""
        h = self.mass * self.com
        c = self.com
        I = self.rotational
        half = (I[0, 0] + I[1, 1] + I[2, 2]) / 2
        Sigma = symmetric(3, lambda i, j: ((half if i == j else 0) - I[i, j]) + h[i] * c[j])
        return Moments(self.mass, h, Sigma)

    def matrix(self) -> Array:
        """J (6, 6), symmetric: kinetic energy V^T J V / 2 and momentum J V at the twist V = (omega, v)."""
        return self.moments.matrix()

    def shift(self, T: Array) -> SpatialInertia:
        """The same body seen from frame a, where T = T_ab (4, 4) is the pose of the present frame in a."""
        T = quantities("T", T, (4, 4))
        R, p = T[:3, :3], T[:3, 3]
        return SpatialInertia(self.mass, R @ self.com + p, R @ self.rotational @ R.T)

    def __add__(self, other: SpatialInertia) -> SpatialInertia:
        """Two bodies welded into one, both given in the same frame."""
        if not isinstance(other, SpatialInertia):
            return NotImplemented
        # Steiner's theorem for two bodies in one formula: m1 m2/(m1 + m2) (d^T d 1 - d d^T), d between
        # centres.
        m = self.mass + other.mass
        if is_numeric(m) and m == 0:
            return SpatialInertia(m, np.zeros(3), self.rotational + other.rotational)
        c = (self.mass * self.com + other.mass * other.com) / m
        d = self.com - other.com
        about = (
            self.rotational
            + other.rotational
            + self.mass * other.mass / m * (d @ d * np.eye(3) - np.outer(d, d))
        )
        return SpatialInertia(m, c, about)

    # -- what a body can be -------------------------------------------------------------------------------

    @property
    def is_massless(self) -> bool:
        """Whether all is known to be zero."""
        return is_numeric(self.mass, self.rotational) and self.mass == 0 and not np.any(self.rotational)

    def findings(self) -> list[str]:
        """Reasons why no real body has this inertia, in words; empty if there are none, or for symbols."""
        if not is_numeric(self.mass, self.com, self.rotational):
            return []
        I = np.asarray(self.rotational, float)
        if not (np.isfinite(self.mass) and np.all(np.isfinite(self.com)) and np.all(np.isfinite(I))):
            return [
                f"mass {self.mass}, com {self.com}, inertia {I.tolist()} must be finite numbers; correct them"
            ]
        reasons = []
        if self.mass < 0:
            reasons.append(f"mass {self.mass} kg is negative; give a mass of zero or more")
        size = np.abs(I).max()
        if np.abs(I - I.T).max() > 1e-9 * size:
            reasons.append(
                f"rotational inertia {I.tolist()} is not symmetric; give ixy = iyx, ixz = izx, iyz = izy"
            )
            return reasons
        # int x^2 dm >= 0 along every axis is the triangle inequality of the principal moments. It may be
        # missed by 1e-6: thin plates have equality, and files round.
        small, middle, large = np.linalg.eigvalsh(I)
        if small < -1e-9 * size:
            reasons.append(
                f"rotational inertia has a negative principal moment ({small:.6g} kg m2) and is not "
                "positive definite; check the signs of the products of inertia, and that it is taken "
                "about the centre of mass"
            )
        elif small + middle < large * (1 - 1e-6):
            reasons.append(
                f"principal moments {small:.6g}, {middle:.6g}, {large:.6g} kg m2 break the triangle "
                f"inequality ({small:.6g} + {middle:.6g} < {large:.6g}): no distribution of positive "
                "mass has them; check the units, and that the inertia is taken about the centre of mass"
            )
        return reasons

    @property
    def is_physical(self) -> bool:
        """Whether a rigid body can have this inertia."""
        return not self.findings()

    def check(self, name: str) -> None:
        """Raise ModelError, naming the body, if no rigid body can have this inertia."""
        for finding in self.findings():
            raise ModelError(f"body {name!r}: {finding}")


def _check_closed(triangles: Array, tolerance: float) -> None:
    """Raise ModelError unless every edge of a surface is passed as often one way as the other."""
    # Number the corners, by their places in a grid of the tolerance. Each edge counts +1 from the smaller
    # number to the larger one, and -1 back: on a closed surface every sum is zero.
    grid = np.round(triangles.reshape(-1, 3) / tolerance).astype(np.int64)
    corners = np.unique(grid, axis=0, return_inverse=True)[1].reshape(-1, 3)
    edges = np.concatenate([corners[:, [0, 1]], corners[:, [1, 2]], corners[:, [2, 0]]])
    way = np.sign(edges[:, 1] - edges[:, 0])
    _, which = np.unique(np.sort(edges, axis=1), axis=0, return_inverse=True)
    open_edges = int(np.count_nonzero(np.bincount(which.ravel(), weights=way)))
    if open_edges:
        raise ModelError(
            f"the surface is not closed: {counted(open_edges, 'edge')} without a neighbour; give a mesh "
            "that encloses its volume"
        )
