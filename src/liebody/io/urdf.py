"""URDF, the Unified Robot Description Format, read into a tree.

A file passes three stations. `SCHEMA` says which elements and attributes are read and what they must be; a
file that differs is refused with file, line, element, value and remedy, and what is not read is counted. What
has passed goes to yourdfpy, which makes objects of it. `read_urdf` checks how they hang together, and
`load_urdf` builds the tree.

Format: http://wiki.ros.org/urdf/XML. What is worth knowing:

* Mimic joints are honoured: they are no degrees of freedom.
* Bodies are numbered depth-first, children in the order in which the file lists their joints.
* Angles within 1e-10 of a multiple of pi/2 give exact zeros and ones. 1.5708 is 3.7e-6 away from pi/2, and
  stays.
* Every element and attribute that is not used is named, in one `UnusedElements` warning.
* An extension: <constraint> closes loops, as proposed for urdfdom (github.com/ros/urdfdom/pull/264). The tree
  stays as it is; its `closures` are what `constrained.ClosedTree` takes.
"""

from __future__ import annotations

import io
import os
import posixpath
import xml.etree.ElementTree as ElementTree
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, NoReturn
from urllib.parse import unquote

import numpy as np

from ..bodies import WORLD, Joint, Mimic, SpatialInertia, Tree, TreeBuilder
from ..constrained import Closure, Condition
from ..errors import ModelError
from ..groups import SO3, Fixed, Free, MotionSubgroup, Planar, Prismatic, Revolute, Spherical
from .document import XmlElement, listed, quoted, read_document, warn

NAME, TEXT, LIMIT = "name", "text", "limit"


class Rule(NamedTuple):
    """What an element may have.

    attributes  name -> NAME, TEXT, LIMIT (a number, infinity allowed), or how many finite numbers
    children    tag -> how often: "1", "?" (at most once) or "*"
    needs       the attributes it must have
    """

    attributes: dict[str, str | int | tuple[int, ...]]
    children: dict[str, str] = {}  # noqa: RUF012
    needs: tuple[str, ...] = ()


SCHEMA = {
    "robot": Rule(
        {"name": NAME, "version": TEXT}, {"link": "*", "joint": "*", "material": "*", "constraint": "*"}
    ),
    "link": Rule({"name": NAME}, {"inertial": "?", "visual": "*", "collision": "*"}, ("name",)),
    "inertial": Rule({}, {"origin": "?", "mass": "1", "inertia": "1"}),
    "mass": Rule({"value": 1}, needs=("value",)),
    "inertia": Rule(dict.fromkeys("ixx ixy ixz iyy iyz izz".split(), 1), needs=("ixx", "iyy", "izz")),
    "visual": Rule({"name": TEXT}, {"origin": "?", "geometry": "1", "material": "?"}),
    "collision": Rule({"name": TEXT}, {"origin": "?", "geometry": "1"}),
    "geometry": Rule({}, {"mesh": "?", "box": "?", "cylinder": "?", "sphere": "?"}),
    "mesh": Rule({"filename": TEXT, "scale": (1, 3)}, needs=("filename",)),
    "box": Rule({"size": 3}, needs=("size",)),
    "cylinder": Rule({"radius": 1, "length": 1}, needs=("radius", "length")),
    "sphere": Rule({"radius": 1}, needs=("radius",)),
    "material": Rule({"name": TEXT}, {"color": "?"}),
    "color": Rule({"rgba": 4}, needs=("rgba",)),
    "origin": Rule({"xyz": 3, "rpy": 3}),
    "constraint": Rule(
        {"name": NAME, "type": TEXT},
        {
            "parent": "1",
            "parent_origin": "?",
            "parent_axis": "?",
            "child": "1",
            "child_origin": "?",
            "child_axis": "?",
        },
        ("name", "type"),
    ),
    "parent_origin": Rule({"xyz": 3, "rpy": 3}),
    "child_origin": Rule({"xyz": 3, "rpy": 3}),
    "parent_axis": Rule({"xyz": 3}, needs=("xyz",)),
    "child_axis": Rule({"xyz": 3}, needs=("xyz",)),
    "joint": Rule(
        {"name": NAME, "type": TEXT},
        {
            "parent": "1",
            "child": "1",
            "origin": "?",
            "axis": "?",
            "limit": "?",
            "dynamics": "?",
            "mimic": "?",
        },
        ("name", "type"),
    ),
    "parent": Rule({"link": NAME}, needs=("link",)),
    "child": Rule({"link": NAME}, needs=("link",)),
    "axis": Rule({"xyz": 3}, needs=("xyz",)),
    "limit": Rule({"lower": LIMIT, "upper": LIMIT, "velocity": LIMIT, "effort": LIMIT}),
    "dynamics": Rule({"damping": 1, "friction": 1}),
    "mimic": Rule({"joint": NAME, "multiplier": 1, "offset": 1}, needs=("joint",)),
}
"""What is read of a URDF. All else is counted, and named in a warning."""

KINDS = ("revolute", "continuous", "prismatic", "planar", "floating", "fixed")
CONSTRAINTS = ("link", "revolute", "prismatic", "universal", "spherical")
SHAPES = ("mesh", "box", "cylinder", "sphere")
RIGHT_ANGLE_TOLERANCE = 1e-10
ROUND_OFF = 1e-14
"""Moments of inertia per mass [m2] below this, a radius of gyration of 0.1 um, are round-off in the file."""


class UnusedElements(UserWarning):
    """A description has elements, attributes or mesh paths that were not used."""


class OpenLoops(UserWarning):
    """A description closes loops, and what was made of it leaves them open."""


class DoubtfulInertia(UserWarning):
    """A description has inertias no body can have, and was loaded nevertheless."""


@dataclass(frozen=True, eq=False)
class Shape:
    """A visual or collision shape of a link, kept for viewers.

    link       the link: a body or a frame of the tree
    role       "visual" or "collision"
    kind       "mesh", "box", "cylinder" or "sphere"; of an MJCF also "capsule", "ellipsoid" or "plane"
    placement  pose of the shape in the link, (4, 4)
    size       box: three edges; cylinder: radius, and length along z (of a capsule without its ends); sphere:
               radius; ellipsoid: three radii; plane: half its edges, zero: no end [m]; mesh: three scales
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
    """A child link on its parent, with the joint between them; the root link has neither.

    joint      the joint, with the mimic as the file states it
    kind       the joint's type in the file
    placement  pose (4, 4) of the joint in the frame of the parent link
    inertia    in the frame of the link; None where the file states none
    line       where the link stands in the file
    """

    name: str
    inertia: SpatialInertia | None
    line: int
    parent: str | None = None
    joint: Joint | None = None
    kind: str | None = None
    placement: np.ndarray = field(default_factory=lambda: np.eye(4))


@dataclass(frozen=True, eq=False)
class LoopConstraint:
    """A constraint between two links, which closes a loop.

    kind                  "link" (fixed: a link was cut), "revolute", "prismatic", "universal" or "spherical"
    parent, child         the links
    on_parent, on_child   poses (4, 4) of the constraint's frames in the links' frames
    parent_axis           (3,), in the parent's frame of the constraint: of a revolute or prismatic joint, and
                          the first one of a universal joint
    child_axis            (3,), in the child's frame: the second one of a universal joint
    """

    name: str
    kind: str
    parent: str
    child: str
    on_parent: np.ndarray
    on_child: np.ndarray
    parent_axis: np.ndarray
    child_axis: np.ndarray


@dataclass(frozen=True, eq=False)
class Description:
    """A URDF as it stands: links depth-first from the root, shapes, loops, and what was not used, counted.

    joints  their names in the order of the file, which is not that of a tree's numbers

    That of an MJCF has neither links nor loops.
    """

    name: str
    source: str
    links: tuple[Link, ...]
    shapes: tuple[Shape, ...]
    unused: Counter[str]
    loops: tuple[LoopConstraint, ...] = ()
    joints: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class DescribedTree(Tree):
    """A tree, with the description it was made from: `tree.description.shapes` is what a viewer draws.

    Each loop of the description has two frames, "NAME_parent_frame" and "NAME_child_frame".
    """

    description: Description | None = None

    @property
    def closures(self) -> tuple[Closure | Condition, ...]:
        """What closes the loops of the description: `ClosedTree(tree, tree.closures)`."""
        loops = self.description.loops if self.description else ()
        return tuple(_closure(loop) for loop in loops)


def load_urdf(
    source: str | bytes | os.PathLike[str],
    *,
    floating: bool = False,
    merge_fixed: bool = True,
    mimic: bool = True,
    check: bool | str = True,
) -> DescribedTree:
    """The tree of a URDF.

    source       path of the file, or the XML text itself
    floating     hang the root link on the world by a free joint called "root_joint"; otherwise it is fixed to
                 the world, and its inertia has no effect
    merge_fixed  weld links on fixed joints to their parents, where they leave a frame of their name;
                 otherwise each link is a body, some on joints without freedom
    mimic        bind mimic joints to the joints they follow; otherwise they move freely
    check        True: refuse negative masses, inertias that are not positive definite, and motions without
                 inertia, in the welded bodies, and warn of moments that break the triangle inequality, which
                 no body has but which do no harm; "warn": load, and warn of all of them; False: load

    Bodies are named after their links, joints after their joints. A floating root link called "world" becomes
    the body "world_link", since the world is body 0.

    Raises DescriptionError for files that cannot be read or understood, ModelError for mechanisms that cannot
    be. Loops (<constraint>) stay open: see `DescribedTree.closures`. Warns (DoubtfulInertia) as stated, and
    (UnusedElements) once of everything in the file that has no effect here.
    """
    if check not in (True, False, "warn"):
        raise ModelError(f'check is {check!r}, expected True, False or "warn"')
    description = read_urdf(source, mimic)
    names = {link.name: link.name for link in description.links}
    root = description.links[0].name
    if floating and root == WORLD:
        names[root] = _new_name("world_link", names)
    root_joint = _new_name("root_joint", [link.joint.name for link in description.links if link.joint])

    builder = TreeBuilder(description.name)
    for link in description.links:
        if names[link.name] == WORLD:
            continue
        joint = link.joint or Joint(root_joint, Free() if floating else Fixed())
        parent = WORLD if link.parent is None else names[link.parent]
        builder.add(names[link.name], joint, link.inertia, parent, link.placement)
    for loop in description.loops:
        builder.frame(f"{loop.name}_parent_frame", names[loop.parent], loop.on_parent)
        builder.frame(f"{loop.name}_child_frame", names[loop.child], loop.on_child)
    tree = builder.build(check=False)
    welded = tree.merge_fixed()
    if check:
        _report(description, welded, check)
    if description.unused:
        what = ", ".join(f"{path} ({n})" for path, n in sorted(description.unused.items()))
        warn(f"{description.source}: not used: {what}", UnusedElements)
    tree = welded if merge_fixed else tree
    return DescribedTree(tree.name, tree.bodies, tree.frames, description)


def _report(description: Description, tree: Tree, check: bool | str) -> None:
    """Raise ModelError, or warn, of masses and inertias that no mechanism has."""
    severe = [
        f"line {link.line}: link {link.name!r} has negative mass, {link.inertia.mass:g} kg; give zero or more"
        for link in description.links
        if link.inertia is not None and link.inertia.mass < 0
    ]
    doubtful = [
        f"body {body.name!r}: {finding}"
        for body in tree.bodies
        if _is_definite(body.inertia)
        for finding in body.inertia.findings()
    ]
    severe += [finding for finding in tree.findings() if finding not in doubtful]
    if severe and check != "warn":
        raise ModelError(
            "\n  ".join([f"{description.source}: no such mechanism can be:", *severe])
            + '\nRemedy: correct the inertias in the file, or load it as it is with check="warn"; forward '
            "dynamics may then have no solution."
        )
    if severe or doubtful:
        text = "\n  ".join([f"{description.source}: no real mechanism is like this:", *severe, *doubtful])
        warn(text, DoubtfulInertia)


def _is_definite(inertia: SpatialInertia) -> bool:
    I = inertia.rotational
    return bool(inertia.mass >= 0 and np.linalg.eigvalsh(I)[0] >= -1e-9 * np.abs(I).max())


def _new_name(name: str, taken: Any) -> str:
    while name in taken:
        name += "_"
    return name


def read_urdf(source: str | bytes | os.PathLike[str], mimic: bool = True) -> Description:
    """The links, joints and shapes of a URDF, checked.

    source   path of the file, or the XML text itself
    mimic    whether <mimic> is read
    raises   DescriptionError: missing file, malformed or unsafe XML, missing or repeated elements, numbers
             that are none, unknown joint types, unknown or repeated names, cycles, no root or several, joints
             without a direction, mimic joints that follow nothing, mesh paths that leave the package folder
    """
    document, path = read_document(source)
    if document.tag != "robot":
        document.fail(f"the root element is <{document.tag}>, and that of a URDF <robot>", "pass a URDF file")
    unused: Counter[str] = Counter()
    robot = _parse(_admitted(document, unused))
    if not robot.links:
        document.fail(
            "a robot without any <link>",
            "add at least one; a xacro file has to be expanded first, xacro robot.urdf.xacro > robot.urdf",
        )
    elements = _by_name(document, "link")
    order, joints = _depth_first(document, robot, elements)
    places = _by_name(document, "joint")
    by_name = {joint.name: joint for joint in robot.joints}
    for joint in robot.joints:
        if joint.mimic is not None and (joint.type == "fixed" or not mimic):
            joint.mimic = None
            unused["joint/mimic" + (" of a fixed joint" if mimic else "")] += 1
    for joint in robot.joints:
        _check_mimic(joint, by_name, places[joint.name])
    parsed = {link.name: link for link in robot.links}
    links = []
    for name in order:
        inertia, line = _inertia(parsed[name].inertial), elements[name].line
        if name in joints:
            joint = joints[name]
            made = _joint(joint, places[joint.name])
            links.append(Link(name, inertia, line, joint.parent, made, joint.type, _pose(joint.origin)))
        else:
            links.append(Link(name, inertia, line))
    return Description(
        name=robot.name,
        source=document.source,
        links=tuple(links),
        shapes=tuple(_shapes(document, robot, path, unused)),
        unused=unused,
        loops=tuple(_loops(document, elements)),
        joints=tuple(joint.name for joint in robot.joints),
    )


# -- the schema, and the parser behind it -----------------------------------------------------------------


def _admitted(root: XmlElement, unused: Counter[str]) -> bytes:
    """The XML of what the schema knows, checked against it; the rest is counted."""

    def admit(element: XmlElement, path: str) -> ElementTree.Element:
        rule = SCHEMA[element.tag]
        for name in rule.needs:
            if name not in element.attributes:
                element.fail(f"no attribute '{name}' in {element}", f'add {name}="..."')
        copy = ElementTree.Element(element.tag)
        for name, text in element.attributes.items():
            kind = rule.attributes.get(name)
            if kind is None:
                if not name.startswith("xmlns"):
                    unused[f"{path}@{name}"] += 1
                continue
            if kind == NAME:
                element.name(name)
            elif kind == LIMIT:
                element.numbers(name, (1,), infinite=True)
            elif kind != TEXT:
                element.numbers(name, kind if isinstance(kind, tuple) else (int(kind),))
            copy.set(name, text)
        for child in element.children:
            if child.tag not in rule.children:
                unused[path + child.tag] += 1
            elif child.tag in ("visual", "collision") and not _has_shape(child):
                unused[f"{path}{child.tag} without a known geometry"] += 1
            else:
                copy.append(admit(child, f"{path}{child.tag}/"))
        for tag, often in rule.children.items():
            found = list(element.all(tag))
            if often == "1" and not found:
                element.fail(f"no <{tag}> in {element}", f"add <{tag} .../>")
            if often != "*" and len(found) > 1:
                found[1].fail(f"a second <{tag}> in {element}", "keep one of them")
        return copy

    admitted = admit(root, "")
    if "name" not in admitted.attrib:
        admitted.set("name", "robot")
    return ElementTree.tostring(admitted)


def _has_shape(element: XmlElement) -> bool:
    return any(shape.tag in SHAPES for geometry in element.all("geometry") for shape in geometry.children)


def _parse(data: bytes) -> Any:
    """The yourdfpy.Robot of a URDF; meshes and scenes are left alone."""
    import yourdfpy  # imported here: it takes a second, and only who reads a URDF needs it

    return yourdfpy.URDF.load(io.BytesIO(data), build_scene_graph=False, load_meshes=False).robot


def _by_name(document: XmlElement, tag: str) -> dict[str, XmlElement]:
    found: dict[str, XmlElement] = {}
    for element in document.all(tag):
        name = element.attributes["name"]
        if name in found:
            element.fail(
                f"a second {tag} called {quoted(name)}, the first stands in line {found[name].line}",
                f"give every {tag} its own name",
            )
        found[name] = element
    return found


# -- how links and joints hang together -------------------------------------------------------------------


def _depth_first(
    document: XmlElement, robot: Any, links: dict[str, XmlElement]
) -> tuple[list[str], dict[str, Any]]:
    """The names of the links, parents before children, and the joint of each link that has one."""
    joints: dict[str, Any] = {}
    children: dict[str, list[str]] = {name: [] for name in links}
    for joint, element in zip(robot.joints, document.all("joint"), strict=True):
        for tag, link in (("parent", joint.parent), ("child", joint.child)):
            if link not in links:
                element.first(tag).fail(
                    f"the {tag} of joint {quoted(joint.name)} is {quoted(link)}, and there is no such link",
                    'correct the name, or add <link name="..."/>',
                )
        if joint.parent == joint.child:
            element.fail(
                f"joint {quoted(joint.name)} joins link {quoted(joint.child)} to itself", "name two links"
            )
        if joint.child in joints:
            element.fail(
                f"link {quoted(joint.child)} is the child of two joints, {quoted(joints[joint.child].name)} "
                f"and {quoted(joint.name)}",
                "keep one of them; a loop is closed by a <constraint>, since joints form a tree",
            )
        joints[joint.child] = joint
        children[joint.parent].append(joint.child)

    roots = [name for name in links if name not in joints]
    if len(roots) > 1:
        links[roots[1]].fail(
            f"{len(roots)} links are the child of no joint: {listed(roots)}",
            "a URDF has one root: join the others to it, by fixed joints if they do not move",
        )
    order, pending = [], roots[:]
    while pending:
        order.append(pending.pop())
        pending += reversed(children[order[-1]])
    if len(order) < len(links):
        _fail_on_cycle(document, joints, sorted(set(links) - set(order)))
    if WORLD in order[1:]:
        links[WORLD].fail(
            f"link {WORLD!r} hangs on another link", "rename it: only the root can be called that"
        )
    return order, joints


def _fail_on_cycle(document: XmlElement, joints: dict[str, Any], unreached: list[str]) -> NoReturn:
    path = [unreached[0]]
    while joints[path[-1]].parent not in path:
        path.append(joints[path[-1]].parent)
    cycle = path[path.index(joints[path[-1]].parent) :]
    names = [joints[link].name for link in cycle]
    element = next(element for element in document.all("joint") if element.attributes["name"] == names[0])
    element.fail(f"joints {listed(names)} close a cycle of links: {listed(cycle)}", "delete one of them")


def _check_mimic(joint: Any, joints: dict[str, Any], element: XmlElement) -> None:
    """Follow what a joint mimics to a joint that moves freely."""
    passed = [joint.name]
    place = element.first("mimic")
    while joint.mimic is not None:
        leader = joints.get(joint.mimic.joint)
        if leader is None:
            place.fail(
                f"joint {quoted(joint.name)} mimics {quoted(joint.mimic.joint)}, and there is no such joint",
                "correct the name, delete <mimic>, or load the file with mimic=False",
            )
        for end in (joint, leader):
            if end.type not in ("revolute", "continuous", "prismatic"):
                place.fail(
                    f"joint {quoted(joint.name)} mimics {quoted(leader.name)}, and {quoted(end.name)} is "
                    f"{quoted(end.type)}",
                    "mimic works between joints of one coordinate: revolute, continuous, prismatic",
                )
        if leader.name in passed:
            place.fail(
                f"joints mimic each other in a circle: {listed([*passed, leader.name])}",
                "let one of them move freely: delete its <mimic>",
            )
        passed.append(leader.name)
        joint = leader


# -- loops ------------------------------------------------------------------------------------------------


def _loops(document: XmlElement, links: dict[str, XmlElement]) -> Iterator[LoopConstraint]:
    """The <constraint> elements. yourdfpy does not know them: they are read from the checked document."""
    for element in _by_name(document, "constraint").values():
        name, kind = element.attributes["name"], element.attributes["type"]
        if kind not in CONSTRAINTS:
            element.fail(
                f"constraint {quoted(name)} has the unknown type {quoted(kind)}",
                f"use one of {', '.join(CONSTRAINTS)}",
            )
        parent, child = (element.first(side).attributes["link"] for side in ("parent", "child"))
        for side, link in (("parent", parent), ("child", child)):
            if link not in links:
                element.first(side).fail(
                    f"the {side} of constraint {quoted(name)} is {quoted(link)}, and there is no such link",
                    'correct the name, or add <link name="..."/>',
                )
        if parent == child:
            element.fail(f"constraint {quoted(name)} joins link {quoted(parent)} to itself", "name two links")
        parent_axis = _direction(element, "parent_axis", kind)
        child_axis = _direction(element, "child_axis", kind, None if kind == "universal" else parent_axis)
        if kind in ("revolute", "prismatic") and np.abs(child_axis - parent_axis).max() > 1e-9:
            element.first("child_axis").fail(
                f"the axes of the {kind} constraint {quoted(name)} differ, and its frames would not coincide",
                "turn the child's frame by <child_origin rpy=...>, and leave <child_axis> out",
            )
        on_parent, on_child = _origin(element, "parent_origin"), _origin(element, "child_origin")
        yield LoopConstraint(name, kind, parent, child, on_parent, on_child, parent_axis, child_axis)


def _origin(element: XmlElement, tag: str) -> np.ndarray:
    """The pose (4, 4) of an element with xyz and rpy; the identity without one."""
    place, T = element.first(tag), np.eye(4)
    if place is not element:
        if "xyz" in place.attributes:
            T[:3, 3] = place.numbers("xyz", (3,))
        if "rpy" in place.attributes:
            roll, pitch, yaw = place.numbers("rpy", (3,))
            x, y, z = np.eye(3)
            T[:3, :3] = SO3.exp(yaw * z) @ SO3.exp(pitch * y) @ SO3.exp(roll * x)
    return _pose(T)


def _direction(element: XmlElement, tag: str, kind: str, default: np.ndarray | None = None) -> np.ndarray:
    """An axis, of length one; without one the default, (1, 0, 0) as for joints; universal ones need both."""
    place = element.first(tag)
    if place is element:
        if kind == "universal":
            element.fail(f"no <{tag}> in {element}", f'add <{tag} xyz="..."/>: a universal joint has two')
        return np.array([1.0, 0, 0]) if default is None else default
    axis = np.array(place.numbers("xyz", (3,)))
    if np.abs(axis).max() < 1e-6:
        place.fail(
            f"the {tag} of {element} has no direction: {axis.tolist()}", 'give one, such as xyz="0 0 1"'
        )
    return axis / np.linalg.norm(axis)


def _closure(loop: LoopConstraint) -> Closure | Condition:
    """The closure between the two frames of a loop."""
    a, b = f"{loop.name}_parent_frame", f"{loop.name}_child_frame"
    if loop.kind == "universal":

        def universal(A: Any, B: Any) -> Any:
            crossed = (A[:3, :3] @ loop.parent_axis) @ (B[:3, :3] @ loop.child_axis)
            return np.append(B[:3, 3] - A[:3, 3], crossed)

        return Condition(loop.name, universal, (a, b))
    groups: dict[str, MotionSubgroup] = {
        "link": Fixed(),
        "revolute": Revolute(loop.parent_axis),
        "prismatic": Prismatic(loop.parent_axis),
        "spherical": Spherical(),
    }
    return Closure(loop.name, groups[loop.kind], a, b)


# -- from parsed objects to liebody's ---------------------------------------------------------------------


def _joint(joint: Any, element: XmlElement) -> Joint:
    if joint.type not in KINDS:
        element.fail(
            f"joint {quoted(joint.name)} has the unknown type {quoted(joint.type)}",
            f"use one of {', '.join(KINDS)}",
        )
    bounds: dict[str, Any] = {}
    limit, stated = joint.limit, element.first("limit")
    if limit is not None and joint.type in ("revolute", "continuous", "prismatic"):
        for name, value in (("velocity", limit.velocity), ("effort", limit.effort)):
            if value is not None:
                bounds[f"{name}_limit"] = _at_least_zero(stated, name, value)
        if joint.type != "continuous":
            bounds["lower"], bounds["upper"] = limit.lower or 0.0, limit.upper or 0.0
            if bounds["lower"] > bounds["upper"]:
                stated.fail(
                    f"joint {quoted(joint.name)} has lower={bounds['lower']:g} > upper={bounds['upper']:g}",
                    "exchange them",
                )
    if joint.dynamics is not None and joint.type != "fixed":
        for name, value in (("damping", joint.dynamics.damping), ("friction", joint.dynamics.friction)):
            bounds[name] = _at_least_zero(element.first("dynamics"), name, float(value or 0))
    mimic = None
    if joint.mimic is not None:
        mimic = Mimic(joint.mimic.joint, joint.mimic.multiplier, joint.mimic.offset)
    return Joint(joint.name, _group(joint, element.first("axis")), mimic=mimic, **bounds)


def _group(joint: Any, element: XmlElement) -> MotionSubgroup:
    if joint.type == "fixed":
        return Fixed()
    if joint.type == "floating":
        return Free()
    if np.abs(joint.axis).max() < 1e-6:
        element.fail(
            f"the axis {joint.axis.tolist()} of joint {quoted(joint.name)} has no direction",
            'give one, such as xyz="0 0 1", or make the joint fixed',
        )
    kinds = {"revolute": Revolute, "continuous": Revolute, "prismatic": Prismatic, "planar": Planar}
    return kinds[joint.type](joint.axis)


def _at_least_zero(element: XmlElement, attribute: str, value: float) -> float:
    if value < 0:
        element.fail(f"{attribute}={value:g} of <{element.tag}> is negative", "give zero or more")
    return value


def _inertia(inertial: Any) -> SpatialInertia | None:
    if inertial is None:
        return None
    I = np.where(np.abs(inertial.inertia) < ROUND_OFF * abs(inertial.mass), 0.0, inertial.inertia)
    return SpatialInertia(inertial.mass, np.zeros(3), I).shift(_pose(inertial.origin))


def _pose(origin: np.ndarray | None) -> np.ndarray:
    """A pose (4, 4); round-off next to 0 and 1 in its rotation is removed (pi/2 written as 1.57079632679)."""
    if origin is None:
        return np.eye(4)
    R = _rotation(origin[:3, :3], RIGHT_ANGLE_TOLERANCE)
    if np.abs(R.T @ R - np.eye(3)).max() > ROUND_OFF:  # what was removed belonged to no right angle
        R = _rotation(origin[:3, :3], ROUND_OFF)
    T = np.eye(4)
    T[:3, :3], T[:3, 3] = R, origin[:3, 3]
    return T + 0.0


def _rotation(R: np.ndarray, tolerance: float) -> np.ndarray:
    """The rotation next to R with exact zeros where entries are below the tolerance."""
    zero = np.abs(R) < tolerance
    U, _, V = np.linalg.svd(np.where(zero, 0.0, R))
    R = np.where(zero, 0.0, U @ V)
    return np.where(np.count_nonzero(R, axis=1, keepdims=True) == 1, np.sign(R), R)


def _shapes(document: XmlElement, robot: Any, path: Path | None, unused: Counter[str]) -> list[Shape]:
    colors = {material.name: material.color for material in robot.materials if material.color is not None}
    shapes = []
    for link, element in zip(robot.links, document.all("link"), strict=True):
        for role, parsed in (("visual", link.visuals), ("collision", link.collisions)):
            elements = filter(_has_shape, element.all(role))
            for shape, place in zip(parsed, elements, strict=True):
                kind = next(kind for kind in SHAPES if getattr(shape.geometry, kind) is not None)
                geometry = getattr(shape.geometry, kind)
                filename = found = color = None
                size: Any
                if kind == "mesh":
                    filename = geometry.filename
                    found = _mesh(place.first("geometry").first("mesh"), filename, path, unused)
                    size = np.broadcast_to(1.0 if geometry.scale is None else geometry.scale, 3)
                elif kind == "box":
                    size = geometry.size
                elif kind == "cylinder":
                    size = [geometry.radius, geometry.length]
                else:
                    size = [geometry.radius]
                if role == "visual" and shape.material is not None:
                    color = shape.material.color or colors.get(shape.material.name)
                shapes.append(
                    Shape(
                        link=link.name,
                        role=role,
                        kind=kind,
                        placement=_pose(shape.origin),
                        size=tuple(float(x) for x in size),
                        filename=filename,
                        path=found,
                        color=None if color is None else tuple(color.rgba.tolist()),
                    )
                )
    return shapes


# -- meshes -----------------------------------------------------------------------------------------------


def _mesh(element: XmlElement, filename: str, description: Path | None, unused: Counter[str]) -> Path | None:
    """Where a mesh lies, None where it is not found; a path that leaves the package folder is an error.

    The package folder of "package://name/..." is the nearest folder of that name around the description, or
    in one of those; that of other paths the nearest with a package.xml, or else the parent of the
    description's folder.
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
    elif mark and scheme != "file":
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


def _refuse_mesh(element: XmlElement, filename: str) -> NoReturn:
    element.fail(
        f"the mesh path {quoted(filename)} leaves the package folder",
        "keep meshes inside the package, and write package://name/meshes/file.stl",
    )
