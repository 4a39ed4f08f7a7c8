"""URDF: the Unified Robot Description Format, read into a Tree.

The file is read in two steps. `read_urdf` gives a `Description`: links, joints and shapes as the file states them, each
checked where it stands, so that a message names the file, the line, the element, the value and the remedy.
`load_urdf` makes the Tree: fixed joints merged, mimic joints bound to the joints they follow, inertias checked.

Format: http://wiki.ros.org/urdf/XML. What differs from other readers:

* Mimic joints are honoured: they are no degrees of freedom.
* Bodies are numbered depth-first, children in the order in which the file lists their joints.
* `rpy` angles within 1e-10 of a multiple of pi/2 give exact zeros and ones. 1.5708 is 3.7e-6 away from pi/2 and stays
  what it is.
* Every element and attribute that is not used is named, once, in an `UnusedElements` warning.
"""

from __future__ import annotations

import math
import os
import posixpath
import warnings
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np

from ..errors import DescriptionError
from .document import Element, read_document, shorten

RIGHT_ANGLE_TOLERANCE = 1e-10
KINDS = ("revolute", "continuous", "prismatic", "fixed", "floating", "planar")

USED = {
    "robot": {"link", "joint", "material", "@name", "@version"},
    "link": {"inertial", "visual", "collision", "@name"},
    "inertial": {"origin", "mass", "inertia"},
    "mass": {"@value"},
    "inertia": {"@ixx", "@ixy", "@ixz", "@iyy", "@iyz", "@izz"},
    "visual": {"origin", "geometry", "material", "@name"},
    "collision": {"origin", "geometry", "@name"},
    "geometry": {"mesh", "box", "cylinder", "sphere", "capsule"},
    "mesh": {"@filename", "@scale"},
    "box": {"@size"},
    "cylinder": {"@radius", "@length"},
    "capsule": {"@radius", "@length"},
    "sphere": {"@radius"},
    "material": {"color", "@name"},
    "color": {"@rgba"},
    "origin": {"@xyz", "@rpy"},
    "joint": {"parent", "child", "origin", "axis", "limit", "dynamics", "mimic", "@name", "@type"},
    "parent": {"@link"},
    "child": {"@link"},
    "axis": {"@xyz"},
    "limit": {"@lower", "@upper", "@velocity", "@effort"},
    "dynamics": {"@damping", "@friction"},
    "mimic": {"@joint", "@multiplier", "@offset"},
}
"""What is read, of each element: the children, and the attributes (with @). All else is named in a warning."""


class UnusedElements(UserWarning):
    """A description has elements, attributes or mesh paths that were not used."""


class DoubtfulInertia(UserWarning):
    """A description has inertias that no body can have, and was loaded nevertheless."""


@dataclass(frozen=True, eq=False)
class Inertial:
    """Mass [kg], centre of mass (3,) [m], and rotational inertia (3, 3) about it [kg m2], in the axes of the link."""

    mass: float
    com: np.ndarray
    rotational: np.ndarray


@dataclass(frozen=True, eq=False)
class Shape:
    """A visual or collision shape of a link, kept for viewers.

    link       the link, a frame of the tree
    role       "visual" or "collision"
    kind       "mesh", "box", "cylinder", "capsule" or "sphere"
    placement  pose of the shape in the link, (4, 4)
    size       box: three edges; cylinder, capsule: radius and length along z; sphere: radius; mesh: three scales
    filename   of a mesh, as the file states it
    path       of a mesh, where it was found inside the package folder; None otherwise
    color      red, green, blue, alpha in 0..1; None if not stated
    """

    link: str
    role: str
    kind: str
    placement: np.ndarray
    size: tuple[float, ...]
    filename: str | None = None
    path: Path | None = None
    color: tuple[float, ...] | None = None


@dataclass(frozen=True, eq=False)
class Link:
    """A link as the file states it; inertial is None where the file has none."""

    name: str
    inertial: Inertial | None
    element: Element


@dataclass(frozen=True, eq=False)
class JointDescription:
    """A joint as the file states it: axis of length 1, origin as a pose (4, 4), limits infinite where there are none."""

    name: str
    kind: str
    parent: str
    child: str
    origin: np.ndarray
    axis: np.ndarray
    lower: float
    upper: float
    velocity_limit: float
    effort_limit: float
    damping: float
    friction: float
    mimic: tuple[str, float, float] | None
    element: Element


@dataclass(frozen=True, eq=False)
class Description:
    """A URDF as it stands: a tree of links below `root`, in depth-first order.

    links   by name, parents before children
    joints  by the name of their child link, in the same order (the root has none)
    shapes  visual and collision shapes
    unused  what was not used, and how often
    """

    name: str
    source: str
    root: str
    links: dict[str, Link]
    joints: dict[str, JointDescription]
    shapes: tuple[Shape, ...]
    unused: Counter[str]


def read_urdf(source: str | bytes | os.PathLike[str]) -> Description:
    """The links, joints and shapes of a URDF, checked where they stand.

    source   path of the file, or the XML text itself
    raises   DescriptionError: missing file, malformed or unsafe XML, numbers that are none, unknown joint types, missing
             or repeated elements, unknown or repeated names, cycles, no root or several, joints with a zero axis, mimic
             joints that follow nothing, mesh paths that leave the package folder
    """
    robot, path = read_document(source)
    if robot.tag != "robot":
        robot.fail(f"the root element is <{robot.tag}>, a URDF begins with <robot name=...>", "pass a URDF file")
    unused = _unused(robot)
    for element in robot.all("joint"):
        if element.get("mimic") and element.attributes.get("type") == "fixed":
            unused["joint/mimic of a fixed joint"] += 1
    colors = {
        material.name(): _color(material) for material in robot.all("material") if "name" in material.attributes
    }

    links: dict[str, Link] = {}
    shapes = []
    for element in robot.all("link"):
        link = Link(element.name(), _inertial(element.get("inertial")), element)
        if link.name in links:
            element.fail(
                f"a second link of the name {shorten(link.name)}, the first stands in line "
                f"{links[link.name].element.line}",
                "give every link its own name",
            )
        links[link.name] = link
        for role in ("visual", "collision"):
            for shape in element.all(role):
                shapes += _shape(shape, link.name, role, colors, path, unused)
    if not links:
        hint = " (a xacro file has to be expanded: xacro robot.urdf.xacro > robot.urdf)"
        robot.fail("a robot without any <link>", "add at least one link" + hint)

    joints: dict[str, JointDescription] = {}
    by_name: dict[str, JointDescription] = {}
    for element in robot.all("joint"):
        joint = _joint(element, links)
        if joint.name in by_name:
            element.fail(
                f"a second joint of the name {shorten(joint.name)}, the first stands in line "
                f"{by_name[joint.name].element.line}",
                "give every joint its own name",
            )
        if joint.child in joints:
            element.fail(
                f"link {shorten(joint.child)} is the child of joints {shorten(joints[joint.child].name)} and "
                f"{shorten(joint.name)}",
                "a URDF is a tree: keep one of the joints (closed loops cannot be written in URDF)",
            )
        by_name[joint.name] = joints[joint.child] = joint
    for joint in by_name.values():
        _check_mimic(joint, by_name)

    order = _depth_first(robot, links, joints)
    name = robot.name() if "name" in robot.attributes else "robot"
    return Description(
        name=name,
        source=robot.source,
        root=order[0],
        links={link: links[link] for link in order},
        joints={link: joints[link] for link in order[1:]},
        shapes=tuple(shapes),
        unused=unused,
    )


def rotation_rpy(rpy: Any) -> np.ndarray:
    """R = Rz(yaw) Ry(pitch) Rx(roll), (3, 3), of angles (roll, pitch, yaw) [rad].

    Multiples of pi/2, to 1e-10, give exact zeros and ones, so that compiled code is free of products with 6e-17.
    """
    (cr, sr), (cp, sp), (cy, sy) = map(_cosine_sine, rpy)
    return np.array(
        [
            [cy * cp, cy * sp * sr - sy * cr, cy * sp * cr + sy * sr],
            [sy * cp, sy * sp * sr + cy * cr, sy * sp * cr - cy * sr],
            [-sp, cp * sr, cp * cr],
        ]
    )


def _cosine_sine(angle: float) -> tuple[float, float]:
    turns = round(angle / (math.pi / 2))
    if abs(angle - turns * (math.pi / 2)) < RIGHT_ANGLE_TOLERANCE:
        return ((1.0, 0.0), (0.0, 1.0), (-1.0, 0.0), (0.0, -1.0))[turns % 4]
    return math.cos(angle), math.sin(angle)


def _origin(element: Element | None) -> np.ndarray:
    T = np.eye(4)
    if element is not None:
        T[:3, :3] = rotation_rpy(element.vector("rpy", (0, 0, 0)))
        T[:3, 3] = element.vector("xyz", (0, 0, 0))
    return T + 0.0  # no negative zeros


def _inertial(element: Element | None) -> Inertial | None:
    if element is None:
        return None
    inertia = element.need("inertia")
    xx, yy, zz = (inertia.number(i) for i in ("ixx", "iyy", "izz"))
    xy, xz, yz = (inertia.number(i, 0.0) for i in ("ixy", "ixz", "iyz"))
    T = _origin(element.get("origin"))
    R = T[:3, :3]
    rotational = R @ np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]]) @ R.T
    return Inertial(element.need("mass").number("value"), T[:3, 3], (rotational + rotational.T) / 2)


def _joint(element: Element, links: dict[str, Link]) -> JointDescription:
    name = element.name()
    kind = element.text("type")
    if kind not in KINDS:
        element.fail(f"joint {shorten(name)} has the unknown type {shorten(kind)}", f"use one of {', '.join(KINDS)}")
    ends = []
    for tag in ("parent", "child"):
        end = element.need(tag)
        ends.append(end.name("link"))
        if ends[-1] not in links:
            end.fail(
                f"the {tag} of joint {shorten(name)} is {shorten(ends[-1])}, and there is no such link",
                'correct the name, or add <link name="..."/>',
            )
    parent, child = ends
    if parent == child:
        element.fail(f"joint {shorten(name)} joins link {shorten(parent)} to itself", "name two different links")

    axis = np.array([1.0, 0.0, 0.0])
    stated = element.get("axis")
    if stated is not None and kind not in ("fixed", "floating"):
        axis = _unit(stated, stated.vector("xyz", (1, 0, 0)), name)

    lower, upper, velocity, effort = -math.inf, math.inf, math.inf, math.inf
    limit = element.get("limit")
    if limit is not None and kind not in ("fixed", "floating", "planar"):
        velocity, effort = (_not_negative(limit, i, math.inf) for i in ("velocity", "effort"))
        if kind != "continuous":
            lower, upper = limit.number("lower", 0.0), limit.number("upper", 0.0)
        if lower > upper:
            limit.fail(f"joint {shorten(name)} has the limits lower={lower:g} > upper={upper:g}", "exchange them")

    damping = friction = 0.0
    dynamics = element.get("dynamics")
    if dynamics is not None and kind != "fixed":
        damping, friction = (_not_negative(dynamics, i, 0.0) for i in ("damping", "friction"))

    mimic = element.get("mimic") if kind != "fixed" else None
    follows = mimic and (mimic.name("joint"), mimic.number("multiplier", 1.0), mimic.number("offset", 0.0))
    return JointDescription(
        name=name,
        kind=kind,
        parent=parent,
        child=child,
        origin=_origin(element.get("origin")),
        axis=axis,
        lower=lower,
        upper=upper,
        velocity_limit=velocity,
        effort_limit=effort,
        damping=damping,
        friction=friction,
        mimic=follows,
        element=element,
    )


def _unit(element: Element, axis: np.ndarray, joint: str) -> np.ndarray:
    largest = np.abs(axis).max()
    if largest < 1e-6:
        element.fail(
            f"the axis of joint {shorten(joint)} is {axis.tolist()}, which has no direction",
            'state a direction, such as xyz="0 0 1", or make the joint fixed',
        )
    return axis / (math.sqrt(sum((axis / largest) ** 2)) * largest) + 0.0


def _not_negative(element: Element, attribute: str, default: float) -> float:
    value = element.number(attribute, default) if attribute in element.attributes else default
    if value < 0:
        element.fail(f"{attribute}={value:g} of <{element.tag}> is negative", "state zero or a positive number")
    return value


def _check_mimic(joint: JointDescription, joints: dict[str, JointDescription]) -> None:
    followed: list[str] = []
    while joint.mimic is not None:
        element = joint.element.need("mimic")
        target = joint.mimic[0]
        if target not in joints:
            element.fail(
                f"joint {shorten(joint.name)} mimics {shorten(target)}, and there is no such joint",
                "correct the name, or delete <mimic>",
            )
        if target == joint.name or target in followed:
            element.fail(
                f"joint {shorten(joint.name)} mimics itself, by way of {', '.join(map(shorten, [*followed, target]))}",
                "let one of the joints be free: delete its <mimic>",
            )
        for end in (joint, joints[target]):
            if end.kind not in ("revolute", "continuous", "prismatic"):
                element.fail(
                    f"joint {shorten(joint.name)} mimics {shorten(target)}, and {shorten(end.name)} is {end.kind}",
                    "mimic works between joints of one coordinate: revolute, continuous, prismatic",
                )
        followed.append(joint.name)
        joint = joints[target]


def _depth_first(robot: Element, links: dict[str, Link], joints: dict[str, JointDescription]) -> list[str]:
    roots = [link for link in links if link not in joints]
    if not roots:
        robot.fail("every link is the child of a joint: the joints form a cycle", "delete the joint that closes it")
    if len(roots) > 1:
        links[roots[1]].element.fail(
            f"{len(roots)} links are the child of no joint: {_listed(roots)}",
            "a URDF has one root: join the others to it, with fixed joints if they do not move",
        )
    children: dict[str, list[str]] = {link: [] for link in links}
    for joint in joints.values():
        children[joint.parent].append(joint.child)
    order, waiting = [], [roots[0]]
    while waiting:
        order.append(waiting.pop())
        waiting += reversed(children[order[-1]])
    if len(order) < len(links):
        cycle = [next(link for link in links if link not in set(order))]
        while joints[cycle[-1]].parent not in cycle:
            cycle.append(joints[cycle[-1]].parent)
        cycle = cycle[cycle.index(joints[cycle[-1]].parent) :]
        joints[cycle[0]].element.fail(
            f"the joints form a cycle of the links {_listed(cycle)}", "delete the joint that closes it"
        )
    return order


def _shape(
    element: Element, link: str, role: str, colors: dict[str, tuple[float, ...] | None], path: Path | None, unused: Counter[str]
) -> list[Shape]:
    """The shapes of a <visual> or <collision>: one, or none where the geometry is empty or of an unknown kind."""
    color = None
    material = element.get("material") if role == "visual" else None
    if material is not None:
        color = _color(material) or colors.get(material.attributes.get("name", ""))
    shapes = []
    geometry = element.get("geometry")
    for kind in geometry.children if geometry else ():
        filename = found = None
        if kind.tag == "mesh":
            filename = kind.text("filename")
            found = _mesh(kind, filename, path, unused)
            scale = kind.attributes.get("scale", "1 1 1")
            size = kind.vector("scale", (1,) if len(scale.split()) == 1 else (1, 1, 1))
            size = np.broadcast_to(size, 3)
        elif kind.tag == "box":
            size = kind.vector("size", kind.text("size") and (1, 1, 1))
        elif kind.tag in ("cylinder", "capsule"):
            size = [kind.number("radius"), kind.number("length")]
        elif kind.tag == "sphere":
            size = [kind.number("radius")]
        else:
            continue
        shapes.append(
            Shape(
                link=link,
                role=role,
                kind=kind.tag,
                placement=_origin(element.get("origin")),
                size=tuple(map(float, size)),
                filename=filename,
                path=found,
                color=color,
            )
        )
    return shapes


def _color(material: Element) -> tuple[float, ...] | None:
    color = material.get("color")
    return None if color is None else tuple(color.vector("rgba", (1, 1, 1, 1)).tolist())


def _mesh(element: Element, filename: str, description: Path | None, unused: Counter[str]) -> Path | None:
    """Where a mesh lies, None where it is not found in the package folder; a path that climbs out is an error.

    The package folder of "package://name/..." is the nearest folder of that name around the description; that of other
    paths the nearest folder with a package.xml, or else the parent of the folder of the description.
    """
    text = filename.replace("\\", "/")
    scheme, mark, rest = text.partition("://")
    here = None if description is None else description.resolve().parent
    around = [] if here is None else [here, *here.parents]

    if mark and scheme == "package":
        package, _, rest = rest.lstrip("/").partition("/")
        inside = posixpath.normpath(rest or ".")
        if package in ("", ".", "..") or inside.startswith(("..", "/")):
            _refuse_mesh(element, filename)
        candidates = [folder / inside for folder in around if folder.name == package]
        candidates += [folder / package / inside for folder in around]
    elif (mark and scheme != "file") or not text:
        unused["mesh at an address that is not read"] += 1
        return None
    elif mark or posixpath.isabs(text) or text[1:2] == ":":
        candidates = [Path(posixpath.normpath(unquote(rest) if mark else text))]
        if here is None or not candidates[0].is_relative_to(_package_folder(around)):
            unused["mesh at an absolute path outside the package folder"] += 1
            return None
    elif here is None:
        if posixpath.normpath(text).startswith(".."):
            _refuse_mesh(element, filename)
        return None
    else:
        candidates = [Path(posixpath.normpath(posixpath.join(here.as_posix(), text)))]
        if not candidates[0].is_relative_to(_package_folder(around)):
            _refuse_mesh(element, filename)
    return next((path for path in candidates if _is_file(path)), None)


def _package_folder(around: list[Path]) -> Path:
    marked = (folder for folder in around if (folder / "package.xml").is_file())
    return next(marked, around[min(1, len(around) - 1)])


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):  # a name too long, a null character
        return False


def _refuse_mesh(element: Element, filename: str) -> None:
    element.fail(
        f"the mesh path {shorten(filename)} leaves the package folder",
        "keep meshes inside the package, and write package://name/meshes/file.stl",
    )


def _unused(robot: Element) -> Counter[str]:
    """How often each element and attribute below `robot` occurs that is not read, by its path."""
    count: Counter[str] = Counter()
    waiting = [(robot, "")]
    while waiting:
        element, path = waiting.pop()
        known = USED[element.tag]
        for attribute in element.attributes:
            if "@" + attribute not in known and not attribute.startswith("xmlns"):
                count[f"{path}@{attribute}"] += 1
        for child in element.children:
            if child.tag in known:
                waiting.append((child, f"{path}{child.tag}/"))
            else:
                count[f"{path}{child.tag}"] += 1
    return count


def _listed(names: list[str], most: int = 6) -> str:
    shown = ", ".join(shorten(name) for name in names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"
