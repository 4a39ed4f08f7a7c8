"""Distances that differential inverse kinematics keeps above a margin: between bodies, and to planes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from ..base.arguments import checked, floats, number, wrong_shape
from ..base.errors import ModelError
from ..bodies import Frame
from ..compiler import FlatLayout, trace
from ..contact import SphereContact, closest
from ..groups import along_group
from ..robot import Robot
from ..scalars import Array, minimum, sqrt, where
from ..scalars.linear import product, skew
from .whole_body_tasks import layout_of, values_of

PARAMETERS = ("margin", "gain", "rate", "retreat", "active")  # that each clearance has
RETREAT = 0.1  # speed at which a margin that is passed is won back, unless a call says otherwise      [m/s]
MEET = 1e-12  # axes that are closer than this have no normal between them                              [m]


class Clearance:
    """Distances d(q, p) that stay above a margin: each is a half space of the velocities.

        dd/dt >= -gain (d - margin) / dt

    in each step dt. A distance that is above the margin stays so, up to the curvature of d within a step; a
    smaller one grows to it. The step covers at most the part `gain` of what is left.

        Clearance.of_collisions(robot, ("forearm", "torso"), margin=0.02)
        Clearance.spheres(robot, ("tool", Frame("ball", 0, T)), radius=(0.05, 0.2))
        Clearance.plane(robot, "elbow", radius=0.06)
        Clearance("reach", lambda q, p: p.far - norm(robot.pose(q, "tool")[:3, 3]), {"far": 0.8})

    name        of the clearance: its parameters are name.margin, name.gain, name.rate, name.retreat,
                name.active
    function    (q, p) -> d (k,) or a number, of NumPy operators, `liebody.scalars` and methods of robots; p
                has the parameters of the clearance as attributes, and the free ones of the robot        [m]
    parameters  {name: value by default}, numbers or arrays of any shape; they become name.word
    margin      the least distance                                                                         [m]
    gain        the part of what is left that a step may cover, above 0 and at most 1

    `rate` (k,), zero by default, is how fast the distances change while the robot is at rest: of obstacles
    that move [m/s]. `retreat` (0.1) is the speed at most by which a distance below the margin grows [m/s].
    `active`, 1 or 0, switches the clearance in a call.

    Faverjon and Tournassoud (1987), "A local based approach for path planning of manipulators with a high
    number of degrees of freedom", ICRA; Kanoun (2011), "Real-time prioritized kinematic control under
    inequality constraints for redundant manipulators", Robotics: Science and Systems VII.
    """

    @checked
    def __init__(
        self,
        name: str,
        function: Callable[..., Any],
        parameters: Mapping[str, Any] | None = None,
        *,
        margin: float = 0.0,
        gain: float = 0.5,
    ) -> None:
        self.name = name
        self.function = function
        self.own = dict(parameters or {})
        for word in self.own:
            if word in PARAMETERS:
                raise ModelError(
                    f"clearance {name!r} has a parameter {word!r}, which each clearance has; rename it"
                )
        self.margin = number("margin", margin)
        self.gain = number("gain", gain)
        if not 0 < self.gain <= 1:
            raise ModelError(f"gain of clearance {name!r} is {gain:g}, expected above 0 and at most 1")

    def __repr__(self) -> str:
        return f"Clearance({self.name!r})"

    def sized(self, robot: Robot) -> SizedClearance:
        """The clearance of one robot, with its function traced."""
        return SizedClearance(self, robot)

    def gradient(self, robot: Robot, layout: FlatLayout) -> Callable[..., Any]:
        """(q, flat parameters) -> the derivatives of d along the group, (k, nv)."""
        shapes = {"q": robot.nq, "p": layout.size}

        def distances(q: Array, p: Array) -> Array:
            return np.atleast_1d(np.asarray(self.function(q, layout.read(p))))

        moved = along_group(distances, shapes, {"q": robot.group}, name="distances")
        derivative: Callable[..., Any] = moved.jacobian()
        return derivative

    @classmethod
    def spheres(
        cls,
        robot: Robot,
        *pairs: tuple[str | Frame, str | Frame],
        radius: Any,
        length: Any = 0.0,
        name: str = "spheres",
        **options: Any,
    ) -> Clearance:
        """Distances between the surfaces of spheres and capsules about frames, one for each pair.

        pairs     (a, b): frames, or their names. A `Frame` of body 0 stands in the world. The origin of a
                  frame is the centre of its sphere; its z axis is the axis of its capsule
        radius    one for all, (2,) for all a and all b, or (n, 2)                                         [m]
        length    of capsules between the centres of their ends, likewise; zero: a sphere                  [m]
        options   margin and gain

        Distances and their derivatives are exact: the nearest points of the axes have them. Where two
        capsules become parallel, their nearest points jump from end to end: a step misses the margin by up to
        its relative rotation times their length.
        """
        contact = SphereContact(*pairs, radius=radius, length=length, name=name)
        return RoundClearance(name, robot, contact, **options)

    @classmethod
    def of_collisions(
        cls,
        robot: Robot,
        *pairs: tuple[str, str],
        name: str = "collisions",
        **options: Any,
    ) -> Clearance:
        """Distances of all spheres and capsules of one link from all of another link, for pairs of links.

        options  margin and gain

        Raises ModelError for links without such shapes.
        """
        contact = SphereContact.of_collisions(robot, *pairs, name=name)
        return RoundClearance(name, robot, contact, **options)

    @classmethod
    def plane(
        cls,
        robot: Robot,
        frame: str,
        points: Any = ((0.0, 0.0, 0.0),),
        *,
        radius: float = 0.0,
        normal: Sequence[float] = (0.0, 0.0, 1.0),
        offset: float = 0.0,
        name: str | None = None,
        **options: Any,
    ) -> Clearance:
        """Distances normal . x - offset - radius of points of a frame from a plane, on the side of `normal`.

        points    (k, 3) in the frame's axes                                                               [m]
        normal    a unit vector in the world, parameter `normal`
        offset    of the plane along it, parameter `offset`                                                [m]
        name      of the clearance; None: frame_plane
        options   margin and gain
        """
        at = floats("points", points)
        if at.ndim != 2 or at.shape[1] != 3 or not len(at):
            raise wrong_shape("points", at.shape, "(k, 3)")
        direction = floats("normal", normal)
        if direction.shape != (3,):
            raise wrong_shape("normal", direction.shape, "(3,)")
        if abs(np.linalg.norm(direction) - 1) > 1e-6:
            raise ModelError(
                f"normal has the length {np.linalg.norm(direction):g}, expected a unit vector; divide by it"
            )

        distances = partial(_plane_distances, robot, frame, at, radius)
        own = {"normal": direction, "offset": float(offset)}
        return cls(f"{frame}_plane" if name is None else name, distances, own, **options)


# No function inside of `Clearance.plane`, so that clearances can be pickled.
def _plane_distances(robot: Robot, frame: str, points: Array, radius: float, q: Array, p: Any) -> Array:
    T = robot.pose(q, frame, parameters=values_of(robot, p))
    places = product(points, T[:3, :3].T) + T[:3, 3]
    return product(places, p.normal) - p.offset - radius


class RoundClearance(Clearance):
    """Distances of pairs of spheres and capsules; made by `Clearance.spheres`.

    The nearest points of two axes stay nearest to first order: the distance changes as if they were fixed to
    their bodies.
    """

    def __init__(self, name: str, robot: Robot, contact: SphereContact, **options: Any) -> None:
        self.robot = robot
        # (frame, frame, half lengths, sum of radii) of each pair
        self.pairs: list[tuple[Frame, Frame, list[float], float]] = []
        for pair, radii, lengths in zip(contact.pairs, contact.radii, contact.lengths, strict=True):
            a, b = (robot.tree.frame(x) if isinstance(x, str) else x for x in pair)
            if a.body == b.body:
                raise ModelError(
                    f"{name}: {a.name!r} and {b.name!r} belong to one body, so that their distance is "
                    "constant; leave the pair out"
                )
            self.pairs.append((a, b, (0.5 * lengths).tolist(), float(radii.sum())))
        super().__init__(name, self._values, **options)

    def _values(self, q: Array, p: Any) -> Array:
        return np.array([d for d, _ in self._distances(q, p, False)])

    def gradient(self, robot: Robot, layout: FlatLayout) -> Callable[..., Any]:
        return lambda q, p: np.array([row for _, row in self._distances(q, layout.read(p), True)])

    def _distances(self, q: Array, p: Any, with_rows: bool) -> list[tuple[Any, Any]]:
        """The distance of each pair, and its derivative (nv,)."""
        values = values_of(self.robot, p)
        distances = []
        for a, b, halves, size in self.pairs:
            T, U = (self.robot.pose(q, x, parameters=values) for x in (a, b))
            u, w = T[:3, 2], U[:3, 2]
            x, y = closest(T[:3, 3] - U[:3, 3], u, w, *halves)
            nearest = T[:3, 3] + x * u, U[:3, 3] + y * w
            between = nearest[0] - nearest[1]
            square = between @ between
            apart = square > MEET * MEET
            length = sqrt(where(apart, square, 1.0))
            d = where(apart, length, 0.0) - size
            row = None
            if with_rows:
                # axes that meet get the normal z, so that nothing divides by zero
                n = np.array(
                    [where(apart, e / length, z) for e, z in zip(between, (0.0, 0.0, 1.0), strict=True)]
                )
                row = self._speed(q, values, a, n, nearest[0] - T[:3, 3])
                row = row - self._speed(q, values, b, n, nearest[1] - U[:3, 3])
            distances.append((d, row))
        return distances

    def _speed(self, q: Array, values: Any, frame: Frame, n: Array, r: Array) -> Array:
        """(nv,): the velocity along n of the body's point at r from the origin of a frame."""
        if not frame.body:
            return np.zeros(self.robot.nv, int)
        J = self.robot.jacobian(q, frame, "mixed", parameters=values)
        return product((J[3:] - product(skew(r), J[:3])).T, n)


class SizedClearance:
    """A clearance of one robot: its number of distances, and its half spaces on symbols."""

    def __init__(self, clearance: Clearance, robot: Robot) -> None:
        self.clearance = clearance
        self.robot = robot
        what = f"clearance {clearance.name!r}"
        self.layout = layout_of(what, clearance.function, ("q", "p"), clearance.own, robot)
        shapes = {"q": robot.nq, "p": self.layout.size}
        (d,) = trace(self._value, shapes, "distances").outputs.values()
        if d.ndim != 1 or not d.size:
            raise wrong_shape(what, d.shape, "one axis, (k,)")
        self.size = d.size
        own = {"margin": clearance.margin, "gain": clearance.gain, "rate": np.zeros(self.size)}
        own |= {"retreat": RETREAT, "active": 1.0}
        self.defaults = {f"{clearance.name}.{word}": x for word, x in {**own, **clearance.own}.items()}

    def _value(self, q: Array, p: Array) -> Array:
        return np.atleast_1d(np.asarray(self.clearance.function(q, self.layout.read(p))))

    def half_spaces(self, q: Array, named: Mapping[str, Any]) -> tuple[Array, Array, Array, Any]:
        """d (k,), J (k, nv) and low (k,) of J v >= low, and whether they are active, on symbols.

        named  all parameters by their names, dt among them
        """
        own = {word: named[f"{self.clearance.name}.{word}"] for word in (*PARAMETERS, *self.clearance.own)}
        free = (named[name] for name in self.robot.layout.defaults)
        p = self.layout.write([*(own[word] for word in self.clearance.own), *free])
        d = self._value(q, p)
        low = minimum(-own["gain"] / named["dt"] * (d - own["margin"]), own["retreat"]) - own["rate"]
        return d, self.clearance.gradient(self.robot, self.layout)(q, p), low, own["active"]
