"""Feet that stand on rigid ground, one at a time: walking with point feet."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from .. import dynamics
from ..base.errors import ModelError
from ..bodies import Frame, Tree
from ..groups import SE3, Planar
from ..hybrid import Element, State
from ..hybrid.element import full_name
from ..scalars import Array, maximum, where
from ..scalars.linear import cross, solve
from .points import movable, words_of


class PointFeet(Element):
    """Points of a robot that stand on rigid ground {x: n . x <= height}, one at a time, without slipping.

    While a point stands, its velocity J v is zero, by the force F of the ground:

        M dv/dt + C v + g = tau + J^T F,      J dv/dt + (dJ/dt) v = 0.

    When another point touches down, it stands at once, without a bounce, and the first point is free (an
    instantaneous double support): the impulse P of the ground changes the velocity by

        M (v+ - v) = J^T P,      J v+ = 0.

    Westervelt, Grizzle, Chevallereau, Choi, Morris (2007), Feedback Control of Dynamic Bipedal Robot
    Locomotion, sections 3.4.1 and 3.4.2, with the impact of Hurmuzlu and Marghitu (1994).

    points  names of frames; their origins are the points. The first one stands at the start, at any height
    normal  of the half-space, out of it, (3,)
    height  of its surface over the world's origin, along the normal                                     [m]
    depth   a member ends when a point is deeper under the surface, such as a foot that did not lift off   [m]
    name    prefix of the names of parameters, guards, memory and signals

    It has the parameters height and depth; the guards <point>, heights over the surface of points that do not
    stand, downwards at touch-down (other characters of a name than letters and digits become underscores);
    the memory

        stands (n,)  1 for the point that stands
        since        time of the last touch-down                                                         [s]
        lost         kinetic energy taken by impacts                                                     [J]

    and the signals force (n, 3), in the world's axes, height_over (n,), and lost. The model does not keep the
    ground from pulling, and does not bound friction: check that the force along the normal is positive, or
    prove it for an orbit (`gaits.prove`, `positive`).

    Errors: ModelError for fewer than two points, or frames that the robot does not have.
    """

    driven = False
    touches = True

    def __init__(
        self,
        *points: str,
        normal: Any = (0.0, 0.0, 1.0),
        height: float = 0.0,
        depth: float = 1e-3,
        name: str = "ground",
    ) -> None:
        super().__init__()
        if len(set(points)) < max(2, len(points)):
            raise ModelError(f"{name}: points are {points}, expected two or more, each once: the feet")
        plane = Planar(np.asarray(normal, float))
        self.name = name
        self.points = points
        self.normal = plane.normal
        self.parameters = {"height": height, "depth": depth}
        self._names = words_of(name, points)
        self.directions = dict.fromkeys(self._names, -1)

    def attach(self, tree: Tree) -> None:
        # A planar robot cannot move along one axis. A row there would make J M^-1 J^T singular.
        points = [_in_axes_of_its_body(tree, x) for x in self.points]
        self._rows = np.eye(3)[movable(tree, points, np.eye(3), own_axes=True)]
        stands = np.zeros(len(self.points))
        stands[0] = 1
        self.memory = {"stands": stands, "since": -1e9, "lost": 0.0}

    def tell(self, s: State, z: Any, p: Any) -> None:
        for point, flag in zip(self.points, z.stands, strict=True):
            s.touches(point, flag, z.since)

    def _standing(self, s: State, stands: Array) -> Array:
        """The Jacobian (k, nv) of the point that stands, in axes of its body, where the point can move.

        In these axes J M^-1 J^T does not depend on the pose of the base, and is nearly diagonal for a
        nearly straight leg. So bounds of its inverse over boxes of states are tight (`gaits.prove`). J is a
        sum over all points, because the standing point is known at run time only.
        """
        J = [dynamics.frame_jacobian(s.tree, s.q, x)[3:] for x in self._points(s)]
        return self._rows @ _chosen(stands, J)

    def _points(self, s: State) -> list[Frame]:
        return [_in_axes_of_its_body(s.tree, x) for x in self.points]

    def constraint(self, s: State, z: Any, p: Any) -> tuple[Array, Array, Array]:
        still = np.zeros(len(s.v), int)
        rates = []
        turns = []
        for point in self._points(s):
            w, u = np.split(dynamics.frame_twist(s.tree, s.q, s.v, point), 2)
            of_twist = dynamics.frame_acceleration(s.tree, s.q, s.v, still, point)
            rates.append(of_twist[3:] + cross(w, u))
            turns.append(dynamics.frame_pose(s.tree, s.q, point)[:3, :3])
        world = _chosen(z.stands, turns) @ self._rows.T
        return self._standing(s, z.stands), self._rows @ _chosen(z.stands, rates), world

    def reactions(self, z: Any, x: Array) -> dict[str, Any]:
        return {"force": np.outer(z.stands, x)}

    def _heights(self, s: State, p: Any) -> list[Any]:
        return [self.normal @ s.position(point) - p.height for point in self.points]

    def guards(self, s: State, z: Any, p: Any) -> dict[str, Any]:
        swings = zip(self._names, z.stands, self._heights(s, p), strict=True)
        # the standing point is at height zero up to round-off, whose sign is no event
        return {name: where(flag > 0.5, 1.0, y) for name, flag, y in swings}

    def _landed(self, z: Any, events: Any) -> tuple[Any, Array]:
        """Whether a point has touched down, 1 or 0, and flags (n,) of the point that stands now.

        If several points touch down at once, the first of them stands.
        """
        down: Any = 0.0
        stands = []
        for name in self._names:
            now = where(getattr(events, full_name(self, name)) < 0, 1 - down, 0.0)
            stands.append(now)
            down = down + now
        return down, where(down > 0.5, np.array(stands), z.stands)

    def velocity(self, s: State, z: Any, p: Any, events: Any) -> Array:
        down, stands = self._landed(z, events)
        J = self._standing(s, stands)
        # v+ = v - M^-1 J^T (J M^-1 J^T)^-1 J v: the impulse that stops the point
        X = solve(dynamics.mass_matrix(s.tree, s.q), J.T)
        return where(down > 0.5, s.v - X @ solve(J @ X, J @ s.v), s.v)

    def update(self, s: State, z: Any, p: Any, events: Any) -> Any:
        down, stands = self._landed(z, events)
        # the impact takes kinetic energy, which the ledger counts as lost
        taken = s.kinetic_energy - dynamics.kinetic_energy(s.tree, s.q, self.velocity(s, z, p, events))
        lost_at_event = z.lost + taken
        since = where(down > 0.5, s.t, z.since)
        lost = where(down > 0.5, lost_at_event, z.lost)
        return z._replace(stands=stands, since=since, lost=lost)

    def stop(self, s: State, z: Any, p: Any) -> Any:
        # the standing point does not count
        lowest = [where(flag > 0.5, -1.0, -y) for flag, y in zip(z.stands, self._heights(s, p), strict=True)]
        return functools.reduce(maximum, lowest) - p.depth

    def energy(self, s: State, z: Any, p: Any) -> Any:
        return 0.0

    def lost(self, z: Any) -> Any:
        return z.lost

    def touching(self, z: Any) -> Array:
        return np.asarray(z.stands > 0.5)

    def outputs(self, s: State, z: Any, p: Any) -> dict[str, Any]:
        return {"height_over": np.array(self._heights(s, p))}


def _chosen(flags: Array, each: list[Array]) -> Array:
    """The item whose flag is 1."""
    return sum(x * y for x, y in zip(flags, each, strict=True))


def _in_axes_of_its_body(tree: Tree, point: str) -> Frame:
    """A frame at a point, with the axes of the body that the point belongs to."""
    frame = tree.frame(point)
    return Frame(frame.name, frame.body, SE3.motion(np.eye(3, dtype=int), frame.placement[:3, 3]))
