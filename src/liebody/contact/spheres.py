"""Spheres and capsules of a robot against each other, for time stepping.

A capsule is a segment with a radius: two capsules touch where the nearest points of their segments are as far
apart as the sum of their radii.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..base.errors import ModelError
from ..bodies import Frame, Tree
from ..compiler import repeated
from ..hybrid import State
from ..scalars import Array, clip, sqrt, where
from ..scalars.linear import cross, is_zero, product, skew
from .cones import put, reached
from .grounds import tangents
from .impulses import ContactImpulses
from .points import Contact, collision_shapes

PARALLEL = 1e-12  # squared sine of an angle below which segments are parallel: 1e-6 rad
MEET = 1e-12  # axes that are closer than this have no normal between them                              [m]


class SphereContact(ContactImpulses):
    """Spheres and capsules about frames of a robot that touch each other, for `TimeStepping`.

    pairs    (a, b): frames, or their names; each pair is a contact with the law of `Contact`. The origin of a
             frame is the centre of its sphere; its z axis is the axis of its capsule
    radius   one for all, (2,) for all a and all b, or (n, 2)                                            [m]
    length   of capsules between the centres of their ends, likewise; zero: a sphere                     [m]
    margin   a parameter: the distance between surfaces at which they touch                             [m]
    law      stiffness (1e6), damping (1e3), friction (0), restitution, as in `Contact`

    The nearest points of the axes give the distance and the normal, both exact. Parallel capsules touch in
    the middle of their common length. Forces act on both bodies at one point, midway between the surfaces, so
    that momentum and angular momentum are conserved. Bodies must not penetrate each other by more than their
    radii.

    Signals and losses are the same as in `ContactImpulses`; force (n, 3) acts on a, and its opposite on b.

    Raises ModelError without pairs, for radii that are not positive, and for lengths below zero.
    """

    def __init__(
        self,
        *pairs: tuple[str | Frame, str | Frame],
        radius: Any,
        length: Any = 0.0,
        margin: float = 0.0,
        name: str = "spheres",
        **law: Any,
    ) -> None:
        if not pairs or any(len(x) != 2 for x in pairs):
            raise ModelError(f"{name}: give pairs of frames, SphereContact((a, b), radius=0.1)")
        sizes = []
        for what, size in (("radius", radius), ("length", length)):
            try:
                sizes.append(np.broadcast_to(np.asarray(size, float), (len(pairs), 2)))
            except ValueError:
                raise ModelError(
                    f"{name}: {what} is {size!r}, expected a number, two, or two a pair"
                ) from None
        self.radii, self.lengths = sizes
        if not (self.radii > 0).all() or not (self.lengths >= 0).all():
            raise ModelError(
                f"{name}: radius is {radius!r} and length is {length!r}; give positive radii, and lengths of "
                "zero or more"
            )
        points = ["_".join(x.name if isinstance(x, Frame) else x for x in pair) for pair in pairs]
        law = {"stiffness": 1e6, "damping": 1e3, "friction": 0.0, **law}
        contact = Contact(*points, **law, margin=margin, name=name)
        contact.parameters.pop("height")  # the distance between the surfaces takes its place
        super().__init__(contact)
        self.pairs = pairs

    @classmethod
    def of_collisions(cls, robot: Any, *pairs: tuple[str, str], **options: Any) -> SphereContact:
        """Contacts of all spheres and capsules of one link with all of another link, for each pair of links.

        pairs    names of links
        options  of `SphereContact`, without radius and length

        Raises ModelError for links without such shapes.
        """
        frames: list[tuple[Frame, Frame]] = []
        radii, lengths = [], []
        for pair in pairs:
            a, b = (collision_shapes(robot, (link,)) for link in pair)
            for one in a:
                for other in b:
                    frames.append((one.frame, other.frame))
                    radii.append((one.radius, other.radius))
                    lengths.append((one.length, other.length))
        return cls(*frames, radius=np.reshape(radii, (-1, 2)), length=np.reshape(lengths, (-1, 2)), **options)

    def _located(self, tree: Tree) -> list[Any]:
        return [tuple(tree.frame(x) if isinstance(x, str) else x for x in pair) for pair in self.pairs]

    def _nearest(self, s: State, i: int) -> tuple[Array, Array]:
        """The nearest points of the axes of pair i, (3,) each."""
        return _nearest(*map(s.pose, self._frames(s, i)), *(0.5 * self.lengths[i]).tolist())

    def _gap(self, s: State, i: int, p: Any) -> tuple[Any, Array]:
        return _apart(*self._nearest(s, i), self.radii[i].sum() + p.margin)

    def _jacobian(self, s: State, i: int, axes: Array) -> Array:
        ends = [(s.position(frame), s.jacobian(frame)) for frame in self._frames(s, i)]
        at = reached(*(J.T for _, J in ends))  # only the columns of joints that move one of the bodies
        moving = [(x, J[:, at]) for x, J in ends]
        relative = _relative(axes, self._nearest(s, i), self.radii[i], moving)
        return put(np.zeros((s.tree.nv, 3), int), at, relative.T).T


@repeated
def _nearest(T: Array, T_other: Array, half: Any, other: Any) -> tuple[Array, Array]:
    """The nearest points (3,) of the z axes of two poses, up to half lengths `half` and `other`."""
    (p, u), (q, w) = ((X[:3, 3], X[:3, 2]) for X in (T, T_other))
    x, y = closest(p - q, u, w, half, other)
    return p + x * u, q + y * w


@repeated
def _apart(a: Array, b: Array, size: Any) -> tuple[Any, Array]:
    """The distance between surfaces, and normal and tangents in the rows of a matrix (3, 3)."""
    square = (a - b) @ (a - b)
    apart = square > MEET * MEET
    distance = sqrt(where(apart, square, 1.0))
    # axes that meet get the normal z, so that nothing divides by zero
    n = np.array([where(apart, x / distance, y) for x, y in zip(a - b, (0.0, 0.0, 1.0), strict=True)])
    return where(apart, distance, 0.0) - size, np.concatenate([[n], tangents(n)])


@repeated
def _relative(axes: Array, nearest: tuple[Array, Array], radii: Array, moving: list[Any]) -> Array:
    """Along axes, the Jacobian of the velocity of a over b, midway between their surfaces."""
    a, b = nearest
    middle = 0.5 * (a + b - (radii[0] - radii[1]) * axes[0])
    # the velocity of a body at the point `middle`, from its frame at x
    total: Any = 0
    for (x, J), sign in zip(moving, (1, -1), strict=True):
        total = total + sign * (J[3:] - product(skew(middle - x), J[:3]))
    return product(axes, total)


SphereContact.repeated_functions = _nearest, _apart, _relative


def closest(r: Array, u: Array, w: Array, half: Any, other: Any) -> tuple[Any, Any]:
    """x, y of the nearest points p + x u, |x| <= half, and q + y w, |y| <= other, of two segments.

    r     p - q (3,), from the middle of the other segment to the middle of this one
    u, w  unit vectors

    Ericson (2005), "Real-time collision detection", section 5.1.9. For parallel segments, x is the middle of
    their common length, or the nearer end.
    """
    # spheres and capsules are told apart while tracing: a segment of length zero needs no search
    if is_zero(half):
        return 0, 0 if is_zero(other) else clip(w @ r, -other, other)
    if is_zero(other):
        return clip(-(u @ r), -half, half), 0
    b, c, f = u @ w, u @ r, w @ r
    # |u x w|^2 = 1 - b^2, without the cancellation for nearly parallel segments
    normal = cross(u, w)
    # The middle of the common length of parallel segments, which is mixed in with the weight PARALLEL. So x
    # is continuous, and the same for segments that are parallel up to round-off.
    reach = where(b < 0, -b, b) * other
    shared = 0.5 * (clip(-c - reach, -half, half) + clip(-c + reach, -half, half))
    x = clip((b * f - c + PARALLEL * shared) / (normal @ normal + PARALLEL), -half, half)
    # clip x, then y for this x, and x again for the clipped y
    y = clip(b * x + f, -other, other)
    return clip(b * y - c, -half, half), y
