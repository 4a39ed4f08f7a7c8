"""Viscoelastic contact of points with a half-space, and points of a robot's collision shapes."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..base.arguments import floats, number
from ..base.errors import ModelError
from ..bodies import Frame, Tree
from ..compiler import trace
from ..dynamics import frame_twist
from ..groups import Planar
from ..hybrid import Element, State
from ..hybrid.element import check_range, word
from ..scalars import Array, maximum, where
from .cones import within
from .grounds import Ground, tangents

ROUND = ("sphere", "capsule")
RANGES = {"stiffness": (0, np.inf), "damping": (0, np.inf), "friction": (0, np.inf), "restitution": (0, 1)}
RIM = 8  # points on a rim of a cylinder; between them it may sink by 0.076 of its radius


class Contact(Element):
    """Points of a robot on a viscoelastic half-space {x: n . x <= height}.

    With y = n . x - height and the rest x of a point's position, and its anchor a, where it touched down,

        F_n = max(-K y - D y', 0),      F_t = -K (x - a) - D x'       while y <= 0, and nothing otherwise.

    The height of a point alone decides whether it touches, for both forces: F_t also acts while F_n is held
    at zero. With friction, F_t is cut to |F_t| <= mu F_n, and the anchor is drawn along so that the force of
    the spring alone stays within this bound, K |x - a| <= mu F_n (Cundall and Strack 1979); without, the
    point sticks.

    points     names of frames, or frames; their origins are the points
    normal     of the half-space, out of it, (3,)
    height     of its surface over the world's origin, along the normal                                  [m]
    stiffness  K, for both directions, or (normal, tangential)                                         [N/m]
    damping    D, likewise                                                                           [N s/m]
    friction   mu; None: points stick
    settling   a touch-down sooner than this after the last lift-off belongs to the same contact, and keeps
               its anchor. A stiff floor makes a light foot bounce a few times just after its touch-down [s]
    corners    whether it is an event, too, when F_n of a touching point leaves zero or comes to it, with the
               guards <point>_pushes and the memory pushes (n,). Steps then end at the corners of F_n, so that
               methods keep their order; derivatives (`VariedSystem`) need it
    impact     if given, losses in this time after a touch-down are counted as losses by impact          [s]
    radius     of spheres about the points, for `TimeStepping` alone                                     [m]
    ground     in place of the plane, a `HeightField` or `Boxes`, raised by height; likewise
    margin     a parameter, likewise: the distance over the ground at which it acts; None: zero          [m]
    restitution  e of Newton's law, likewise: a point that hits faster than the parameter
               restitution_threshold [m/s], 0.05 by default, leaves with e times its normal velocity; None: it
               does not rebound
    name       prefix of the names of parameters, guards, memory, losses and signals

    It has the parameters height, stiffness, damping, friction, settling; the guards <point>, heights over
    the surface, downwards at touch-down (other characters of a name than letters and digits become
    underscores); the memory

        contact (n,)      1 while a point touches
        anchor (n, k)     along the k tangents in which the points can move at all
        left (n,), since (n,)  times of its last lift-off and touch-down                                 [s]
        lost              tangential energy released at lift-off and by slipping, less energy regained   [J]

    the losses "normal" and "tangential" (with `impact` also "impact_normal" and "impact_tangential", which
    the first two do not contain then), and the signals force (n, 3), height_over (n,), and energy, stored:
    K y^2 / 2 + K |x - a|^2 / 2. While F_n is held at zero, the normal spring loses K |y| y'.

    Planar robots have one tangent, others two. Feurstein (2021), eqs (4.13), (4.14), with the signs of the
    springs mended.
    """

    driven = False
    touches = True
    stiff = True

    def __init__(
        self,
        *points: str | Frame,
        normal: Any = (0.0, 0.0, 1.0),
        height: float = 0.0,
        stiffness: Any = 1e4,
        damping: Any = 1e3,
        friction: float | None = None,
        settling: float = 0.0,
        corners: bool = False,
        impact: float | None = None,
        radius: float = 0.0,
        ground: Ground | None = None,
        restitution: float | None = None,
        margin: float | None = None,
        name: str = "floor",
    ) -> None:
        super().__init__()
        self.radius = radius
        self.ground = ground
        self._points = points
        names = tuple(point.name if isinstance(point, Frame) else point for point in points)
        n = _checked_normal(name, names, normal, stiffness, damping, radius)
        self.name = name
        self.points = names
        self.slips = friction is not None
        self._impact = impact is not None
        self._corners = corners
        plane = Planar(n)
        self.normal = plane.normal
        self._e = plane.S[3:, 1:].T  # the tangents in its rows
        self.parameters = {"height": height, "stiffness": stiffness, "damping": damping, "settling": settling}
        threshold = None if restitution is None else 0.05
        optional = {"friction": friction, "impact": impact, "restitution": restitution}
        optional |= {"restitution_threshold": threshold, "margin": margin}
        self.parameters |= {
            what: number(f"{name}: {what}", x) for what, x in optional.items() if x is not None
        }
        self.ranges = {what: limits for what, limits in RANGES.items() if what in self.parameters}
        for what, limits in self.ranges.items():
            check_range(f"{name}: {what}", *limits, self.parameters[what])
        if ground is not None:
            self.parameters |= ground.parameters

    def attach(self, tree: Tree) -> None:
        if self.radius or self.ground is not None or {"restitution", "margin"} & set(self.parameters):
            raise ModelError(
                f"{self.name}: spheres, grounds that are no planes, margins and restitution are for time "
                "stepping, contact.TimeStepping(robot, Contact(...)); leave out radius, ground, margin and "
                "restitution here"
            )
        self._words = words_of(self.name, self.points)
        # a planar robot has one tangent: the anchors along the other would be constant
        self._tangents = self._e[movable(tree, self.frames(tree), self._e)]
        n = len(self.points)
        k = len(self._tangents)
        self.memory = {
            "contact": np.zeros(n),
            "anchor": np.zeros((n, k)),
            "left": np.full(n, -1e9),
            "since": np.full(n, -1e9),
            "lost": 0.0,
        }
        if self._corners:
            self.memory["pushes"] = np.zeros(n)

    @classmethod
    def of_collisions(
        cls,
        robot: Any,
        *links: str,
        kinds: Collection[str] = ROUND,
        name: str = "floor",
        **options: Any,
    ) -> list[Contact]:
        """Contacts of the collision shapes of a description with the ground, as points and spheres.

        links    on which links; default: on all
        kinds    of shapes: spheres, ends of capsules; and, if they are named, the corners of each "box", and
                 RIM points on either rim of each "cylinder"
        options  of `Contact`, without radius

        There is one for each radius, called floor, or floor_0, floor_1, ...; points are called as their link,
        with their number. For `TimeStepping`. Raises ModelError where there are no such shapes, or a link has
        none.
        """
        # A contact has one radius. Shapes become points: centres of spheres, or corners with radius zero.
        by_radius: dict[float, list[Frame]] = {}
        for shape in collision_shapes(robot, links, kinds):
            others = by_radius.setdefault(shape.radius if shape.kind in ROUND else 0.0, [])
            for place in shape.places:
                T = shape.frame.placement.copy()
                T[:3, 3] += T[:3, :3] @ place
                others.append(Frame(f"{shape.frame.name}_{len(others)}", shape.frame.body, T))
        return [
            cls(*points, radius=radius, name=name if len(by_radius) == 1 else f"{name}_{i}", **options)
            for i, (radius, points) in enumerate(by_radius.items())
        ]

    def frames(self, tree: Tree) -> list[Frame]:
        """The frames of the points. In a tree with parameters their placements may depend on these."""
        return [x if isinstance(x, Frame) else tree.frame(x) for x in self._points]

    def over(self, x: Array, p: Any) -> tuple[Any, Array]:
        """Distance of a sphere (or point) at x over the surface; normal and tangents in rows, (3, 3)."""
        size = self.radius + p.margin if "margin" in self.parameters else self.radius
        if self.ground is None:
            return self.normal @ x - size - p.height, np.concatenate([[self.normal], self._e])
        distance, n = self.ground.over(x - np.array([0, 0, p.height]), p)
        return distance - size, np.concatenate([[n], tangents(n)])

    # -- one point ------------------------------------------------------------------------------------------

    def _point(self, s: State, i: int, p: Any) -> tuple[Any, Any, Array, Array]:
        """Height and its rate, position and velocity along the tangents."""
        frame = self.frames(s.tree)[i]
        x = s.position(frame)
        u = s.velocity(frame)
        return self.normal @ x - p.height, self.normal @ u, self._tangents @ x, self._tangents @ u

    def _laws(self, s: State, i: int, z: Any, p: Any) -> tuple[Any, Array, Any]:
        """Normal and tangential force of point i while it touches, and stored energy."""
        K, K_t = pair(p.stiffness)
        D_t = pair(p.damping)[1]
        y, _, x, w = self._point(s, i, p)
        stretch = x - z.anchor[i]
        push = self._push(s, i, p)
        # With corners, the memory holds the branch of max(push, 0) between events, so that F_n is smooth
        # within steps.
        F_n = push * z.pushes[i] if self._corners else maximum(push, 0.0)
        F_t = -K_t * stretch - D_t * w
        if self.slips:
            F_t = within(F_t, p.friction * F_n)
        return F_n, F_t, 0.5 * K * y * y + 0.5 * K_t * (stretch @ stretch)

    # -- methods of `Element` -------------------------------------------------------------------------------

    def tell(self, s: State, z: Any, p: Any) -> None:
        for point, flag, since in zip(self.points, z.contact, z.since, strict=True):
            s.touches(point, flag, since)

    def forces(self, s: State, z: Any, p: Any) -> list[tuple[Frame, Array]]:
        return [(frame, self._force(s, i, z, p)) for i, frame in enumerate(self.frames(s.tree))]

    def _force(self, s: State, i: int, z: Any, p: Any) -> Array:
        F_n, F_t, _ = self._laws(s, i, z, p)
        return (F_n * z.contact[i]) * self.normal + (F_t * z.contact[i]) @ self._tangents

    def losses(self, s: State, z: Any, p: Any) -> dict[str, Any]:
        K, K_t = pair(p.stiffness)
        normal, tangential = [], []
        for i in range(len(self.points)):
            F_n, F_t, _ = self._laws(s, i, z, p)
            y, u, x, w = self._point(s, i, p)
            # the power of each force, less the part that its spring stores
            lost_n = -(F_n + K * y) * u * z.contact[i]
            lost_t = -((F_t + K_t * (x - z.anchor[i])) @ w) * z.contact[i]
            normal.append(lost_n)
            tangential.append(lost_t)
        names = {"normal": normal, "tangential": tangential}
        if not self._impact:
            return {name: sum(lost) for name, lost in names.items()}
        fresh = np.array([where(s.t - since < p.impact, 1.0, 0.0) for since in z.since])
        return {
            **{
                name: sum(x * (1 - f) for x, f in zip(lost, fresh, strict=True))
                for name, lost in names.items()
            },
            **{f"impact_{name}": lost @ fresh for name, lost in names.items()},
        }

    def energy(self, s: State, z: Any, p: Any) -> Any:
        return sum(self._laws(s, i, z, p)[2] * z.contact[i] for i in range(len(self.points)))

    def lost(self, z: Any) -> Any:
        return z.lost

    def guards(self, s: State, z: Any, p: Any) -> dict[str, Any]:
        values = {x: self._point(s, i, p)[0] for i, x in enumerate(self._words)}
        if self._corners:
            for i, x in enumerate(self._words):
                values[f"{x}_pushes"] = where(z.contact[i] > 0.5, self._push(s, i, p), -1.0)
        return values

    def start(self, s: State, z: Any, p: Any) -> Any:
        y, x = self._all(s, p)
        return self._pushing(s, z._replace(contact=np.array([under(h) for h in y]), anchor=x), p)

    def update(self, s: State, z: Any, p: Any, events: Any) -> Any:
        """Touch-downs set anchors, lift-offs and slipping let energy go."""
        K_t = pair(p.stiffness)[1]
        y, x = self._all(s, p)
        # touch-downs and lift-offs: flags, anchors and times of each point
        now, anchor, left, since = [], [], [], []
        for i, h in enumerate(y):
            now.append(under(h))
            down = now[i] > z.contact[i]
            anew = down & (s.t - z.left[i] > p.settling)
            anchor.append(where(anew, x[i], z.anchor[i]))
            left.append(where(now[i] < z.contact[i], s.t, z.left[i]))
            since.append(where(down, s.t, z.since[i]))
        moved = z._replace(
            contact=np.array(now), anchor=np.stack(anchor), left=np.array(left), since=np.array(since)
        )
        moved = self._pushing(s, moved, p)
        # slipping: anchors are drawn along, until the springs are within the cone of friction
        if self.slips:
            drawn = []
            for i in range(len(self.points)):
                F_n = self._laws(s, i, moved, p)[0]
                stretch = x[i] - moved.anchor[i]
                held = within(K_t * stretch, p.friction * F_n) / where(K_t > 0, K_t, 1.0)
                drawn.append(where(now[i] > 0.5, x[i] - held, moved.anchor[i]))
            moved = moved._replace(anchor=np.stack(drawn))
        # energy of the tangential springs that the new anchors release
        before = self._tangential_energy(x, z, K_t)
        after = self._tangential_energy(x, moved, K_t)
        return moved._replace(lost=z.lost + before - after)

    def _push(self, s: State, i: int, p: Any) -> Any:
        """-K y - D y', the normal force of a touching point before it is held at zero."""
        y, u, _, _ = self._point(s, i, p)
        return -pair(p.stiffness)[0] * y - pair(p.damping)[0] * u

    def _pushing(self, s: State, z: Any, p: Any) -> Any:
        """The memory with the flags `pushes`: whether F_n of each point is positive."""
        if not self._corners:
            return z
        pushes = [where(self._push(s, i, p) > 0, c, 0.0) for i, c in enumerate(z.contact)]
        return z._replace(pushes=np.array(pushes))

    def _all(self, s: State, p: Any) -> tuple[Array, Array]:
        """Heights (n,), and positions along the tangents (n, k)."""
        points = [self._point(s, i, p) for i in range(len(self.points))]
        k = len(self._tangents)
        heights = np.array([x[0] for x in points])
        return heights, np.array([x[2] for x in points]).reshape(len(points), k)

    def _tangential_energy(self, x: Array, z: Any, K_t: Any) -> Any:
        stretch = x - z.anchor
        return sum((0.5 * K_t * (d @ d) * c for d, c in zip(stretch, z.contact, strict=True)), start=0)

    def touching(self, z: Any) -> Array:
        return np.asarray(z.contact > 0.5)

    def outputs(self, s: State, z: Any, p: Any) -> dict[str, Any]:
        return {
            "force": np.stack([force for _, force in self.forces(s, z, p)]),
            "height_over": self._all(s, p)[0],
        }


def _checked_normal(
    name: str, points: tuple[str, ...], normal: Any, stiffness: Any, damping: Any, radius: Any
) -> np.ndarray:
    """The normal of a contact as an array; raises ModelError for arguments of `Contact` that cannot be."""
    if not points:
        raise ModelError(f"{name}: which points touch it? Give the points of frames, Contact('foot')")
    if len(set(points)) < len(points):
        raise ModelError(f"{name}: a point of {points} is named twice")
    n = floats(f"{name}: normal", normal)
    if n.shape != (3,) or not n.any():
        raise ModelError(f"{name}: normal is {normal!r}, expected a direction (3,)")
    for what, x in (("stiffness", stiffness), ("damping", damping)):
        if np.shape(x) not in ((), (2,)):
            raise ModelError(f"{name}: {what} is {x!r}, expected a number, or two of them")
    check_range(f"{name}: radius", 0, np.inf, number(f"{name}: radius", radius))
    return n


class CollisionShape(NamedTuple):
    """A shape of a description: its frame, named by its link and a number; kind and size as in `Shape`."""

    frame: Frame
    kind: str
    size: tuple[float, ...]

    @property
    def radius(self) -> float:
        return self.size[0]

    @property
    def length(self) -> float:
        """Length along z, between the centres of the ends.  [m]"""
        return 0.0 if self.kind == "sphere" else self.size[1]

    @property
    def places(self) -> np.ndarray:
        """The centres of spheres and of ends, or points of boxes and cylinders, in its frame, (n, 3).  [m]"""
        ends = np.array([-0.5, 0.5])
        if self.kind == "box":
            return np.stack(np.meshgrid(*(x * ends for x in self.size)), axis=-1).reshape(-1, 3)
        if self.kind == "sphere":
            return np.zeros((1, 3))
        angles = 2 * np.pi * np.arange(RIM) / RIM
        rim = self.radius * np.array([np.cos(angles), np.sin(angles)]).T
        rim = rim if self.kind == "cylinder" else np.zeros((1, 2))
        return np.array([[*point, z] for z in self.length * ends for point in rim])


def collision_shapes(
    robot: Any, links: Collection[str] = (), kinds: Collection[str] = ROUND
) -> list[CollisionShape]:
    """Collision shapes of these kinds in a description, on these links, or on all links by default.

    Raises ModelError for robots or links without such shapes, and for unknown kinds.
    """
    tree = getattr(robot, "tree", robot)
    if unknown := [kind for kind in kinds if kind not in (*ROUND, "box", "cylinder")]:
        raise ModelError(f"kinds are {kinds!r}; known are sphere, capsule, box, cylinder, not {unknown[0]!r}")
    places = {body.name: Frame(body.name, body.index, np.eye(4)) for body in tree.bodies} | tree.frames
    shapes = []
    bare = set(links)  # links without a shape so far
    for k, shape in enumerate(getattr(getattr(tree, "description", None), "shapes", ())):
        place = places.get(shape.link)  # none for shapes of the world
        if place is None or not shape.collides or shape.kind not in kinds:
            continue
        if not links or shape.link in links:
            T = np.array(place.placement, float) @ shape.placement
            frame = Frame(f"{shape.link}_{k}", place.body, T)
            shapes.append(CollisionShape(frame, shape.kind, shape.size))
            bare -= {shape.link}
    if bare or not shapes:
        raise ModelError(
            f"{tree.name} has no shapes for collisions of the kinds {', '.join(kinds)}"
            f"{' on ' + ', '.join(sorted(bare)) if bare else ''}; name points, Contact('foot')"
        )
    return shapes


def words_of(name: str, points: Sequence[str]) -> list[str]:
    """Names of the guards of points. Raises ModelError for two points with the same name of a guard."""
    words = [word(x) for x in points]
    if len(set(words)) < len(words):
        raise ModelError(
            f"{name}: two of the points {', '.join(points)} are one word, as guards are called; give one "
            "of the frames another name"
        )
    return words


def movable(tree: Tree, frames: Sequence[Frame], directions: Array, own_axes: bool = False) -> np.ndarray:
    """Flags (k,) of the directions (k, 3) of the world along which any of these points can move.

    A trace tells: if a velocity along a direction is a constant zero, no configuration moves the point there.

    own_axes  whether the directions are fixed in each frame, and not in the world
    """

    def speeds(q: Array, v: Array) -> Array:
        s = State(tree, (0, 0, 0), 0.0, q, v)
        velocities = [
            frame_twist(tree, q, v, frame)[3:] if own_axes else s.velocity(frame) for frame in frames
        ]
        return np.stack([directions @ x for x in velocities])

    moving = trace(speeds, {"q": tree.nq, "v": tree.nv}, "speeds").outputs["speeds"]
    return np.array([any(hasattr(x, "apply") or x != 0 for x in column) for column in moving.T], bool)


def under(height: Any) -> Any:
    """Whether a point touches: 1 or 0."""
    return where(height > 0, 0.0, 1.0)


def pair(x: Any) -> tuple[Any, Any]:
    """(normal, tangential), which may be one number."""
    return (x, x) if np.ndim(x) == 0 else (x[0], x[1])
