"""The drawing of a mechanism: meshes on its bodies, rods between points of two, and the poses of the bodies.

Bodies are numbered from 1, as in trees; 0 is the world. Meshes and primitive shapes of a description are
drawn; bodies without shapes are drawn as solids of uniform density that have their inertia, with
links from joint to joint.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ..base.errors import MissingPackage, ModelError, pass_on_signals
from ..base.texts import few, message_of
from ..bodies import SpatialInertia, Tree
from ..compiler import Kernel, traced
from ..contact import HeightField
from ..dynamics import body_poses
from ..groups import SE3, SO3, LieGroup, MotionSubgroup, Product, SO3xR3
from ..mechanisms import RigidBody
from ..mechanisms.constrained import ClosedTree, Constraint, Distance, System
from .meshes import (
    Mesh,
    arrow,
    box,
    capsule,
    cylinder,
    hexadecimal,
    not_shown,
    of_file,
    simplified,
    sphere,
    terrain,
)

Array = Any
BODIES = "bodies"
JOINTS = "joint axes"
FRAMES = "frames"
CENTRE = "centre of mass"
INERTIAS = "inertias"
GROUND = "ground"  # which pictures are not made to fit
LAYERS = BODIES, JOINTS, FRAMES, CENTRE, INERTIAS, GROUND
PALETTE = ("#3f7fbf", "#e08a3c", "#4fa36c", "#b6659a", "#55aecb", "#c7a12b", "#7b6bb5", "#c45b52")
JOINT = "#454d58"
GREY = "#c3c7cc"
RGB = ("#d23c3c", "#3fa34d", "#3c6fd2")
MOST_TRIANGLES = 110_000  # of all meshes of a mechanism; more are simplified
THIN = 0.045  # radius of links, in their usual length
ONE = np.eye(4)
BOX = SpatialInertia.box(1.0, (1.0, 0.6, 0.3))  # drawn for a group without an inertia


class Solid(NamedTuple):
    """A mesh on a body at a placement (4, 4), which may scale it, as part of a layer."""

    body: int
    mesh: Mesh
    placement: Array
    color: str
    layer: str = BODIES


class Rod(NamedTuple):
    """A cylinder from a point of body a to a point of body b, which may come closer to each other."""

    a: int
    on_a: Array
    b: int
    on_b: Array
    radius: float
    color: str


@dataclass
class Drawing:
    """The parts of a mechanism to draw, and where they are.

    name      of the mechanism
    poses     q (..., nq) -> poses of the bodies (..., n, 4, 4), the world not among them
    points    by name, (body, point (3,)): points that may be traced, or at which forces act
    joints    by name, likewise: their places; bodies  the names of the bodies
    tip       the name of the point that is traced unless others are named; None: none
    inertias  of the bodies, each in its body's frame
    solids, rods, floor   the visible parts; the floor is a height [m], None: below everything
    contacts  by the name of an output with forces (..., n, 3), the n points at which they act
    """

    name: str
    poses: Callable[[Array], Array]
    inertias: list[SpatialInertia]
    points: dict[str, tuple[int, Array]] = field(default_factory=dict)
    joints: dict[str, tuple[int, Array]] = field(default_factory=dict)
    bodies: tuple[str, ...] = ()
    tip: str | None = None
    solids: list[Solid] = field(default_factory=list)
    rods: list[Rod] = field(default_factory=list)
    floor: float | None = None
    contacts: dict[str, tuple[str, ...]] = field(default_factory=dict)
    single: bool = False  # one body without links: its axes show how it turns

    @property
    def named(self) -> dict[str, list[tuple[str, int, Array, str]]]:
        """Names with their bodies, points and colours, by kinds: bodies, joints, frames."""
        bodies = zip(self.bodies, self.coms, strict=True)
        return {
            "bodies": [(name, i, com, color_of(i)) for i, (name, com) in enumerate(bodies, start=1)],
            "joints": [(name, *at, JOINT) for name, at in self.joints.items() if name not in self.bodies],
            "frames": [(name, *at, RGB[0]) for name, at in self.points.items() if name not in self.bodies],
        }

    @property
    def masses(self) -> Array:
        """(n,) [kg]"""
        return np.array([float(inertia.mass) for inertia in self.inertias])

    @property
    def coms(self) -> Array:
        """Centres of mass in the frames of the bodies, (n, 3) [m]"""
        return np.array([np.asarray(inertia.com, float) for inertia in self.inertias]).reshape(-1, 3)


def drawing_of(system: Any) -> Drawing:
    """The drawing of a Robot, Tree, ClosedTree, RobotSystem, System, RigidBody, or of a group of motions.

    Raises ModelError for what has no pose in space.
    """
    # whatever has a tree is drawn by it
    tree = system if isinstance(system, Tree) else getattr(system, "tree", None)
    if isinstance(tree, Tree):
        return _of_tree(tree, system)
    if isinstance(system, System):
        return _of_system(system)
    if isinstance(system, RigidBody):
        return _of_group(system.group, _inertia_of(system))
    group = system if isinstance(system, LieGroup) else getattr(system, "group", None)
    if not isinstance(group, LieGroup):
        raise ModelError(
            f"{system!r} cannot be drawn: expected a Robot, a Tree, a System, a system of one of them, a "
            "RigidBody, or a group of motions in space"
        )
    return _of_group(group, BOX)


# -- trees and systems ---------------------------------------------------------------------------------------


class Joined(NamedTuple):
    """A joint between bodies a and b, at poses (4, 4) on them; S (6, k) is its twist, None of a distance."""

    name: str
    a: int
    on_a: Array
    b: int
    on_b: Array
    S: Any


def _of_tree(tree: Tree, system: Any) -> Drawing:
    poses = getattr(system, "poses", None) or Kernel(
        partial(traced, partial(body_poses, tree), {"q": tree.nq}, "poses")
    )
    drawing = Drawing(tree.name, poses, [body.inertia for body in tree.bodies])
    # frames and bodies may be traced; joints connect bodies where their frames are
    places = {name: (f.body, _floats(f.placement)) for name, f in tree.frames.items()}
    places |= {body.name: (body.index, ONE) for body in tree.bodies}
    drawing.points = {name: (body, T[:3, 3]) for name, (body, T) in places.items()}
    drawing.bodies = tuple(body.name for body in tree.bodies)
    joined = [
        Joined(x.joint.name, x.parent, _floats(x.placement), x.index, ONE, _floats(x.joint.S))
        for x in tree.bodies
    ]
    if isinstance(system, ClosedTree):
        joined += _joined(system.constraints, np.zeros((len(tree.bodies), 3)))
    # frames on bodies without children are tips: links lead there
    inner = {x.a for x in joined}
    shown = _described(drawing, tree, places)
    leaves = [x for x in drawing.points.values() if x[0] not in inner and np.any(x[1])]
    _add_skeleton(drawing, joined, leaves, JOINTS if shown else BODIES)
    for element in getattr(system, "elements", ()):
        _add_contact(drawing, element)
    # without a description the path of the outermost point is drawn
    depth = {name: len(tree.ancestors(body)) for name, (body, _) in drawing.points.items()}
    drawing.tip = None if shown else max(depth, key=lambda name: depth[name], default=None)
    return drawing


def _add_contact(found: Drawing, element: Any) -> None:
    """The points of an element at which forces act, and the ground that a contact touches."""
    points = getattr(element, "points", ())
    points = tuple(pair[0] for pair in getattr(element, "pairs", ())) or points  # spheres that meet
    if not points or not found.points.keys() >= set(points):
        return
    found.contacts[f"{element.name}_force"] = points
    contact = getattr(element, "contact", element)  # time stepping holds it
    # boxes and height fields are solids of the ground; a horizontal plane is the floor of the scene
    ground = getattr(contact, "ground", None)
    height = contact.parameters.get("height")
    boxes = getattr(ground, "boxes", None)
    heights = ground.parameters["heights"].values if isinstance(ground, HeightField) else None
    if ground and boxes:
        found.floor = 0.0
        found.solids += [Solid(0, box(), moved(c) @ scaled(*2 * half), GREY, GROUND) for c, half in boxes]
    elif ground and heights is not None:
        found.floor = float(heights.min())
        mesh = terrain(heights, ground.spacing, ground.outside == "repeat")
        found.solids.append(Solid(0, mesh, moved([*ground.origin, 0.0]), GREY, GROUND))
    elif height is not None and np.ndim(height) == 0 and abs(contact.normal[2]) > 0.99:
        found.floor = float(height) * float(contact.normal[2])


def _of_system(system: System) -> Drawing:
    drawing = Drawing(system.name, system.poses, [b.inertia for b in system.bodies])
    drawing.bodies = tuple(body.name for body in system.bodies)
    drawing.points = {name: (i, np.zeros(3)) for i, name in enumerate(drawing.bodies, start=1)}
    _add_skeleton(drawing, _joined(system.constraints, drawing.coms), [], BODIES)
    drawing.tip = system.bodies[-1].name
    drawing.single = len(system.bodies) == 1
    return drawing


def _joined(constraints: Iterable[Constraint], origins: Array) -> list[Joined]:
    """Joints and distances among constraints, whose frames are given from these origins of the bodies."""
    places = [ONE, *(moved(x) for x in origins)]
    joints = []
    for c in constraints:
        if c.joint or isinstance(c.kind, Distance):
            at = (c.joint.on_parent, c.joint.on_child) if c.joint else [moved(x) for x in c.constants[:2]]
            a, b = (body + 1 for body in c.bodies)
            S = _floats(c.joint.group.S) if c.joint else None
            joints.append(Joined(c.name, a, places[a] @ at[0], b, places[b] @ at[1], S))
    return joints


def _add_skeleton(found: Drawing, joined: list[Joined], tips: list[tuple[int, Array]], layer: str) -> None:
    """Links from the first joint of each body to its others and its tips, or its centre of mass; joints.

    layer  BODIES, or JOINTS: only the axes of joints and, of each body, its inertia
    """
    free = [x.name for x in joined if x.S is not None and x.S.shape[1] in (0, 6)]
    found.joints = {x.name: (x.b, x.on_b[:3, 3]) for x in joined if x.name not in free}
    points: dict[int, list[Array]] = {i: [] for i in range(len(found.inertias) + 1)}
    for body, point in [end for x in joined for end in ((x.b, x.on_b[:3, 3]), (x.a, x.on_a[:3, 3]))] + tips:
        points[body].append(point)
    for i, com in enumerate(found.coms, start=1):
        points[i] += [com] if len(points[i]) == 1 else []
    # links start at the first point of a body, where its own joint is; their usual length gives the radius
    links = [(i, x[0], end) for i, x in points.items() if i for end in x[1:] if np.any(end != x[0])]
    lengths = [np.linalg.norm(end - start) for _, start, end in links]
    radius = THIN * float(np.median(lengths)) if links else 0.02
    if layer == BODIES:
        found.rods += [Rod(i, start, i, end, radius, color_of(i)) for i, start, end in links]
    for x in joined:
        # a distance or a slide is a rod between the bodies, a hinge a cylinder, a ball joint a ball
        turns, slides = (x.S is not None and bool(x.S[k : k + 3].any()) for k in (0, 3))
        dim = 0 if x.S is None else x.S.shape[1]
        if layer == BODIES and (x.S is None or (slides and dim < 6 and (x.a or dim == 1))):
            found.rods.append(Rod(x.a, x.on_a[:3, 3], x.b, x.on_b[:3, 3], 0.7 * radius, JOINT))
        if layer == BODIES and turns and not slides:
            wide = 1.5 * radius
            long = 3.6 * radius
            hinge = cylinder(), x.on_b @ along_axis(x.S[:3, 0]) @ scaled(wide, wide, long)
            ball = sphere(), x.on_b @ scaled(wide)
            found.solids.append(Solid(x.b, *(hinge if dim == 1 else ball), JOINT))
        if dim == 1:  # its axis, through the point where the twist only turns
            turn = x.S[:3, 0]
            move = x.S[3:, 0]
            point = np.cross(turn, move) / (turn @ turn) if turns else np.zeros(3)
            line = along_axis(turn if turns else move) @ scaled(*np.array([0.2, 0.2, 12]) * radius)
            found.solids.append(Solid(x.b, cylinder(), x.on_b @ moved(point) @ line, RGB[2], JOINTS))
    _add_inertias(found, radius, BODIES if layer == BODIES else INERTIAS)
    _add_frames(found, found.points, 6 * radius)


# -- descriptions --------------------------------------------------------------------------------------------


def _described(found: Drawing, tree: Tree, places: dict[str, tuple[int, Array]]) -> bool:
    """Add the visual shapes of a description, else its collision shapes; returns whether it has any.

    places  bodies and frames by name: the body, and their pose on it
    """
    shapes = getattr(getattr(tree, "description", None), "shapes", ())
    visual = [shape for shape in shapes if shape.role == "visual"] or shapes
    visual = [shape for shape in visual if shape.kind != "plane"]  # the floor of the scene stands for them
    files: dict[Any, list[tuple[Mesh, str | None]]] = {}
    missing = []
    drawn = []
    for shape in visual:
        body, placement = places.get(shape.link, (0, ONE))
        placement = placement @ shape.placement
        color = None if shape.color is None else hexadecimal(shape.color)
        if shape.kind != "mesh":
            drawn.append(Solid(body, *_primitive(shape.kind, shape.size, placement), color or GREY))
            continue
        if shape.path is None:
            missing.append(str(shape.filename))
            continue
        # a mesh that cannot be read is named in a warning; a missing reader draws inertias instead
        try:
            parts = files[shape.path] if shape.path in files else of_file(shape.path)
        except MissingPackage as error:
            not_shown(f"no mesh of {tree.name!r} is shown: {error}")
            return False
        except Exception as error:
            pass_on_signals(error)
            missing.append(f"{shape.path.name} ({message_of(error)})")
            continue
        files[shape.path] = parts
        placed = placement @ scaled(*shape.size)
        drawn += [Solid(body, mesh, placed, tint or color or GREY) for mesh, tint in parts]
    if missing:
        not_shown(f"{tree.name}: meshes that could not be read are not shown: {few(missing, 4)}")
    found.solids += drawn
    return bool(drawn)


def _primitive(kind: str, size: tuple[float, ...], placement: Array) -> tuple[Mesh, Array]:
    if kind == "box":
        return box(), placement @ scaled(*size)
    if kind == "cylinder":
        return cylinder(), placement @ scaled(size[0], size[0], size[1])
    if kind == "capsule":
        return capsule(size[1] / size[0]), placement @ scaled(size[0], size[0], size[0])
    return sphere(), placement @ scaled(*(size * 3)[:3])


def with_at_most(solids: list[Solid], most: int) -> tuple[list[Solid], int]:
    """The solids with at most so many triangles, each mesh simplified alike; and how many there were."""
    meshes = {id(solid.mesh): solid.mesh for solid in solids}
    counts = {key: len(mesh.faces) for key, mesh in meshes.items()}
    total = sum(counts.values())
    if total <= most:
        return solids, total
    # small meshes stay as they are; larger ones share the triangles that are left
    small = {key: min(count, 500) for key, count in counts.items()}
    share = max(0.0, most - sum(small.values())) / max(1, total - sum(small.values()))
    allowed = {key: int(small[key] + share * (counts[key] - small[key])) for key in counts}
    simpler = {key: simplified(mesh, allowed[key]) for key, mesh in meshes.items()}
    return [solid._replace(mesh=simpler[id(solid.mesh)]) for solid in solids], total


# -- single bodies -------------------------------------------------------------------------------------------


def _of_group(group: LieGroup, inertia: SpatialInertia) -> Drawing:
    """One body that moves on a group; q may go on with velocities, as in states of `solve_ivp`."""
    place, nq = _place_on(group)

    def poses(q: Array) -> Array:
        rows = np.asarray(q, float)[..., :nq].reshape(-1, nq)
        return np.array([_floats(place(row)) for row in rows]).reshape(*np.shape(q)[:-1], 1, 4, 4)

    drawing = Drawing(
        repr(group), poses, [inertia], {"body": (1, np.zeros(3))}, bodies=("body",), single=True
    )
    size = _add_inertias(drawing, 0.05, BODIES)
    _add_frames(drawing, ["body"], 1.6 * size)
    tip = np.zeros(3)
    tip[0] = 1.6 * size
    drawing.points["x"] = (1, tip)
    drawing.tip = "x"
    return drawing


def _place_on(group: LieGroup) -> tuple[Callable[[Array], Array], int]:
    """q -> pose (4, 4), and how many coordinates it takes."""
    # the first factor of a product moves the body; pure rotations turn it about the origin
    if group == SO3xR3:
        return lambda q: SE3.motion(SO3.element(q[:4]), q[4:]), 7
    if isinstance(group, Product):
        return _place_on(group.factors[0])
    if isinstance(group, MotionSubgroup):
        return group.pose, group.nq
    if group == SE3:
        return SE3.element, group.nq
    if group == SO3:
        return lambda q: SE3.motion(SO3.element(q), np.zeros(3)), group.nq
    raise ModelError(
        f"elements of {group!r} are no motions in space that could be drawn; give a body on SO3, SE3, SO3xR3 "
        "or a motion subgroup, or a product that begins with one of them"
    )


def _inertia_of(body: RigidBody) -> SpatialInertia:
    """The inertia that a body on a group shows: the whole on SE3, the rotational part on SO3."""
    M = _floats(body.mass_matrix)
    if body.group == SE3:
        return SpatialInertia.from_matrix(M)
    if M.shape == (3, 3):
        return SpatialInertia(1.0, np.zeros(3), 0.2 * M / np.abs(M).max())
    return BOX


# -- parts ---------------------------------------------------------------------------------------------------


def _add_inertias(found: Drawing, radius: float, layer: str) -> float:
    """Each body as the uniform solid of its inertia about its centre of mass; returns the largest semi-axis.

    Ellipsoids, with semi-axes sqrt(5 P_i / m) for the second moments P = tr(I)/2 - I of the mass. A body that
    is not wider than a link is a ball on its link; without links it is a rod, of length sqrt(12 P_1 / m).
    """
    linked = {i for rod in found.rods for i in (rod.a, rod.b)}
    heaviest = max([*found.masses, 1e-300])
    largest = 0.0
    for i, inertia in enumerate(found.inertias, start=1):
        mass = float(inertia.mass)
        I = _floats(inertia.rotational)
        if mass <= 0:
            continue
        # second moments of the mass along its principal axes, turned to the right hand
        moments, axes = np.linalg.eigh(np.eye(3) * np.trace(I) / 2 - I)
        axes = axes * np.sign(np.linalg.det(axes))
        semi = np.sqrt(5 * np.maximum(moments, 0) / mass)
        at = np.eye(4)
        at[:3, :3] = axes
        at[:3, 3] = _floats(inertia.com)
        if semi[1] > 1.2 * radius:
            shape = sphere(), at @ scaled(*np.maximum(semi, radius))
        elif semi[2] > 1.2 * radius and i not in linked:
            shape = cylinder(), at @ scaled(1.3 * radius, 1.3 * radius, np.sqrt(12 / 5) * semi[2])
        else:
            shape = sphere(), at @ scaled(max(2.8 * radius * np.cbrt(mass / heaviest), 1.5 * radius))
        found.solids.append(Solid(i, *shape, color_of(i), layer))
        largest = max(largest, semi[2], radius)
    return largest


def _add_frames(found: Drawing, names: Iterable[str], length: float) -> None:
    for name in names:
        body, point = found.points[name]
        for axis, color in zip(np.eye(3), RGB, strict=True):
            shape = moved(point) @ along_axis(axis) @ scaled(length)
            found.solids.append(Solid(body, arrow(), shape, color, FRAMES))


def color_of(body: int) -> str:
    """The colour of a body without meshes."""
    return PALETTE[(body - 1) % len(PALETTE)]


def scaled(*factors: float) -> Array:
    """Scaling by one factor, or by one along each axis."""
    T = np.eye(4)
    T[[0, 1, 2], [0, 1, 2]] = factors
    return T


def moved(point: Array) -> Array:
    T = np.eye(4)
    T[:3, 3] = point
    return T


def along_axis(direction: Array) -> Array:
    """A rotation that takes z to a direction."""
    z = np.asarray(direction, float) / np.linalg.norm(direction)
    x = np.cross(np.eye(3)[np.argmin(np.abs(z))], z)
    x = x / np.linalg.norm(x)
    T = np.eye(4)
    T[:3, :3] = np.column_stack([x, np.cross(z, x), z])
    return T


def _floats(x: Array) -> Array:
    return np.asarray(x, float)
