"""Read URDF, the Unified Robot Description Format, into a tree.

A file passes three stations. `SCHEMA` lists the elements and attributes that are read, with their kinds. A
file that differs is refused with file, line, element, value and remedy; other elements are counted.
`read_urdf` checks the references between elements, and `load_urdf` builds the tree.

Format: http://wiki.ros.org/urdf/XML. Choices that the format leaves open:

* Elements without effect on dynamics (shapes, materials, limits, the robot's name) never refuse a file: an
  unreadable one is counted in `Description.unused`.
* Missing numbers with an effect on dynamics are read as by urdfdom, the parser of ROS, and named in an
  `AssumedDynamics` warning: of repeated elements the first counts; a link without <mass> has none; without
  <inertia> it is a point mass. MuJoCo refuses all of these. Where urdfdom goes on with nonsense (a moving
  joint with an <axis> without xyz, two parents) the file is refused, as by MuJoCo.

* Mimic joints are honoured: they are no degrees of freedom.
* Bodies are numbered depth-first, children in the order in which the file lists their joints.
* Angles within 1e-10 of a multiple of pi/2 give exact zeros and ones. 1.5708 is 3.7e-6 away from pi/2, and
  stays, unless `snap` rounds it.
* Springs and rotors, for which URDF has no words, are read from elements of Gazebo and Drake:
  springStiffness and springReference in <gazebo reference="JOINT">; drake:rotor_inertia J and
  drake:gear_ratio N (or mechanicalReduction) of an <actuator> in a <transmission> give its joint the armature
  N^2 J. All transmissions are kept in `Description.transmissions`; none has backlash.
* An extension: <constraint> closes loops, as proposed for urdfdom (github.com/ros/urdfdom/pull/264). The tree
  stays open; `mechanisms.constrained.ClosedTree` takes its `closures`.
"""

from __future__ import annotations

import math
import os
import posixpath
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from graphlib import CycleError, TopologicalSorter
from numbers import Real
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote

import numpy as np

from ..base.errors import DescriptionError, ModelError, counted, warn
from ..base.extensions import JOINTS as JOINTS_OF_OTHERS
from ..base.extensions import extensions
from ..base.texts import few
from ..bodies import WORLD, Joint, Mimic, SpatialInertia, Tree, TreeBuilder
from ..bodies.names import joint_along
from ..bodies.tree import check_option
from ..groups import Fixed, Free, MotionSubgroup, Planar, Prismatic, Revolute, Spherical
from ..mechanisms.constrained import Closure, Condition
from .document import EXPAND, XmlElement, counts, listed, new_name, quoted, read_document
from .meshes import read_stl
from .near_zeros import NearZeros, rotation_of

NAME = "name"
TEXT = "text"
LIMIT = "limit"


class Rule(NamedTuple):
    """The attributes and children that an element may have.

    attributes  name -> NAME, TEXT, LIMIT (a number, infinity allowed), or how many finite numbers
    children    tag -> how often: "1", "*", or at most once: "?", and "!" where dynamics depend on it
    needs       the attributes it must have
    """

    attributes: dict[str, str | int | tuple[int, ...]]
    children: dict[str, str] = {}  # noqa: RUF012
    needs: tuple[str, ...] = ()


ENDS = {"parent": "1", "child": "1"}
POSES = "origin", "parent_origin", "child_origin"
AXES = "axis", "parent_axis", "child_axis"
SCHEMA = {
    "robot": Rule(
        {"name": TEXT, "version": TEXT}, {"link": "*", "joint": "*", "material": "*", "constraint": "*"}
    ),
    "link": Rule({"name": NAME}, {"inertial": "!", "visual": "*", "collision": "*"}, ("name",)),
    "inertial": Rule({}, {"origin": "!", "mass": "!", "inertia": "!"}),
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
    "joint": Rule(
        {"name": NAME, "type": TEXT},
        ENDS | {"origin": "!", "axis": "!", "limit": "?", "dynamics": "!", "mimic": "!"},
        ("name", "type"),
    ),
    "constraint": Rule(
        {"name": NAME, "type": TEXT},
        ENDS | dict.fromkeys([*POSES[1:], *AXES[1:]], "!"),
        ("name", "type"),
    ),
    **dict.fromkeys(POSES, Rule({"xyz": 3, "rpy": 3})),
    **dict.fromkeys(AXES, Rule({"xyz": 3}, needs=("xyz",))),
    "parent": Rule({"link": NAME}, needs=("link",)),
    "child": Rule({"link": NAME}, needs=("link",)),
    "limit": Rule({"lower": LIMIT, "upper": LIMIT, "velocity": LIMIT, "effort": LIMIT}),
    "dynamics": Rule({"damping": 1, "friction": 1}),
    "mimic": Rule({"joint": NAME, "multiplier": 1, "offset": 1}, needs=("joint",)),
}
"""The elements and attributes of a URDF that are read. All others are counted."""

IDLE = ("visual", "collision", "material", "limit")
IDLE_IN = {"fixed": ("axis", "dynamics", "mimic"), "floating": ("axis",)}
"""Elements without effect on dynamics: anywhere, and in joints of a type."""

JOINTS: dict[str, type[MotionSubgroup]] = {
    "revolute": Revolute,
    "continuous": Revolute,
    "prismatic": Prismatic,
    "planar": Planar,
    "floating": Free,
    "fixed": Fixed,
}
"""Groups of the types of joints; the first four are along an axis."""

LOOPS: dict[str, type[MotionSubgroup]] = {
    "link": Fixed,
    "revolute": Revolute,
    "prismatic": Prismatic,
    "spherical": Spherical,
}
"""Groups of the types of constraints; "universal" ones are conditions."""

XACRO = "xacro:"
DEFINITIONS = ("xacro:arg", "xacro:macro", "xacro:property")
"""Elements of xacro that add nothing to a robot by themselves."""

X_AXIS = np.array([1.0, 0, 0])
SHAPES = ("mesh", "box", "cylinder", "sphere")
FROM_COLLISIONS = "from collision geometry"
MOMENTS = {(0, 0): "ixx", (0, 1): "ixy", (0, 2): "ixz", (1, 1): "iyy", (1, 2): "iyz", (2, 2): "izz"}
OUTSIDE = "mesh outside the package folder"
RIGHT_ANGLE_TOLERANCE = 1e-10
ROUND_OFF = 1e-14
"""Moments of inertia per mass [m2] below this, a radius of gyration of 0.1 um, are round-off in the file."""


class UnusedElements(UserWarning):
    """A description has elements, attributes or mesh paths that were not used; given if asked for."""


class AssumedDynamics(UserWarning):
    """A description leaves numbers open that dynamics depend on; they were read as urdfdom reads them."""


class OpenLoops(UserWarning):
    """A description closes loops, and the tree leaves them open."""


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
    collides   whether it is for contacts: in a URDF "collision" shapes, in an MJCF geoms that can touch
    """

    link: str
    role: str
    kind: str
    placement: np.ndarray
    size: tuple[float, ...]
    filename: str | None = None
    path: Path | None = None
    color: tuple[float, ...] | None = None
    collides: bool = False


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


@dataclass(frozen=True)
class Transmission:
    """An actuator on a joint.

    kind           the type of the transmission in the file
    reduction      N, turns of the actuator per turn of the joint
    rotor_inertia  J of the actuator, None if not stated; it gives the joint the armature N^2 J       [kg m2]
    """

    name: str
    kind: str
    joint: str
    actuator: str
    reduction: float = 1.0
    rotor_inertia: float | None = None


@dataclass(frozen=True, eq=False)
class Description:
    """A URDF as it stands: links depth-first from the root, shapes, loops, unused elements, assumptions.

    unused   kinds of elements without effect, counted
    joints   their names in the order of the file; a tree numbers bodies depth-first
    assumed  numbers that the file leaves open: how each kind was read, and the lines of its elements
    transmissions  from actuators to joints
    near_zeros     angles and offsets that `snap` rounds, or would round

    The description of an MJCF has neither links nor loops.
    """

    name: str
    source: str
    links: tuple[Link, ...]
    shapes: tuple[Shape, ...]
    unused: Counter[str]
    loops: tuple[LoopConstraint, ...] = ()
    joints: tuple[str, ...] = ()
    assumed: dict[str, list[int]] = field(default_factory=dict)
    transmissions: tuple[Transmission, ...] = ()
    near_zeros: NearZeros = field(default_factory=NearZeros)

    def assumptions(self) -> list[str]:
        """The assumptions as texts, each kind once."""
        return [f"{kind} ({counted(len(at), 'time')}, line {at[0]})" for kind, at in self.assumed.items()]


@dataclass(frozen=True, eq=False, repr=False)
class DescribedTree(Tree):
    """A tree with its description: `tree.description.shapes` are the shapes that a viewer draws.

    Each loop of the description has two frames, "NAME_parent_frame" and "NAME_child_frame".
    """

    description: Description | None = None

    @property
    def closures(self) -> tuple[Closure | Condition, ...]:
        """The closures of the loops of the description: `ClosedTree(tree, tree.closures)`."""
        loops = self.description.loops if self.description else ()
        return tuple(_closure(loop) for loop in loops)


def load_urdf(
    source: str | bytes | os.PathLike[str],
    *,
    floating: bool = False,
    merge_fixed: bool = True,
    mimic: bool = True,
    check: bool | str = True,
    inertia: str | None = None,
    density: float = 1000.0,
    unused: bool = False,
    snap: float = 0.0,
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
    inertia      "from collision geometry": links that state no inertia, or zeros, get the inertia of
                 their collision shapes filled with matter; overlaps count twice, as with MuJoCo's
                 inertiafromgeom; meshes are STL and enclose a volume. None: they have none
    density      of that matter [kg/m3]
    unused       whether to warn (UnusedElements) of everything in the file that has no effect here;
                 `description.unused` of the tree has it always
    snap         tolerance for near-zeros of CAD, such as 1e-4: angles of rpy within it of a multiple of pi/12
                 are that multiple, entries of axes below it, and offsets below 1e-6 m, are zero; a warning
                 (RoundedNumbers) says how many and by how much. Shapes stay. 0: nothing is rounded   [rad]

    Bodies are named after their links, joints after their joints. A floating root link called "world" becomes
    the body "world_link", since the world is body 0.

    Raises DescriptionError for files that cannot be read or understood, ModelError for mechanisms that cannot
    be, e.g. one that floats already. Loops (<constraint>) stay open: see `DescribedTree.closures`. Warns
    (DoubtfulInertia) as stated, and once (AssumedDynamics) of numbers that the file leaves open.
    """
    check_option(check)
    if inertia not in (None, FROM_COLLISIONS):
        raise ModelError(f'inertia is {inertia!r}, expected None or "{FROM_COLLISIONS}"')
    description = read_urdf(source, mimic, None if inertia is None else density, snap)
    # Findings are about the welded bodies: a link on a fixed joint may well have an inertia that no body has.
    tree = _unwelded(description, floating)
    welded = tree.merge_fixed()
    if floating:
        _check_base(description, welded)
    if check:
        _report(description, welded, check)
    if description.assumed:
        what = "; ".join(description.assumptions())
        warn(f"{description.source}: dynamics rest on what the file leaves open: {what}", AssumedDynamics)
    description.near_zeros.warn(description.source)
    if unused and description.unused:
        warn(f"{description.source}: not used: {counts(description.unused)}", UnusedElements)
    tree = welded if merge_fixed else tree
    fixed = tree.fixed_inertia
    return DescribedTree(tree.name, tree.bodies, tree.frames, description, fixed_inertia=fixed)


def _unwelded(description: Description, floating: bool) -> Tree:
    """The tree with a body for each link, not yet checked; links on fixed joints are bodies as well."""
    # the world is body 0, so a root link of that name is either the world itself or, floating, renamed
    names = {link.name: link.name for link in description.links}
    root = description.links[0].name
    if floating and root == WORLD:
        names[root] = new_name("world_link", set(names))
    root_joint = new_name("root_joint", {link.joint.name for link in description.links if link.joint})

    builder = TreeBuilder(description.name)
    for link in description.links:
        if names[link.name] == WORLD:
            # a root link called "world" that does not float is body 0 itself, which every tree has
            continue
        joint = link.joint or Joint(root_joint, Free() if floating else Fixed())
        parent = WORLD if link.parent is None else names[link.parent]
        builder.add(names[link.name], joint, link.inertia, parent, link.placement)
    for loop in description.loops:
        builder.frame(f"{loop.name}_parent_frame", names[loop.parent], loop.on_parent)
        builder.frame(f"{loop.name}_child_frame", names[loop.child], loop.on_child)
    return builder.build(check=False)


def _check_base(description: Description, tree: Tree) -> None:
    """Raise ModelError for a massless base, made to float, on which a body floats by the file's own joint."""
    base, *others = tree.bodies
    # a free joint right on the base means that the file has the floating base already
    free = [b.joint.name for b in others if b.parent == base.index and isinstance(b.joint.group, Free)]
    if free and base.inertia.is_massless:
        raise ModelError(
            f"{description.source}: the robot already floats, by its joint {quoted(free[0])}. "
            "Remedy: load it without floating."
        )


def _report(description: Description, tree: Tree, check: bool | str) -> None:
    """Raise ModelError, or warn, of masses and inertias that no mechanism has."""
    # Severe: M may be singular or indefinite. Doubtful: moments that break the triangle inequality in a
    # body that is definite otherwise; no real body has them, but every algorithm works.
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
        # name the links of the file, because the findings are about bodies that several links make
        empty, odd = _faulty(description, tree)
        for what, links in (("no inertia", empty), ("the inertia of no body", odd)):
            if links:
                lines = [f"{link.name!r} (line {link.line})" for link in links]
                severe.append(f"links that state {what}: {few(lines)}")
        remedies = ["correct the inertias in the file"]
        solid = {shape.link for shape in description.shapes if shape.role == "collision"}
        if any(link.name in solid for link in empty):
            remedies.append(f'take those of links without from their shapes, inertia="{FROM_COLLISIONS}"')
        raise ModelError(
            "\n  ".join([f"{description.source}: no such mechanism can be:", *severe])
            + f'\nRemedy: {", or ".join(remedies)}, or load it as it is with check="warn"; forward dynamics '
            "may then have no solution."
        )
    if severe or doubtful:
        text = "\n  ".join([f"{description.source}: no real mechanism is like this:", *severe, *doubtful])
        warn(text, DoubtfulInertia)


def _faulty(description: Description, tree: Tree) -> tuple[list[Link], list[Link]]:
    """The links of massless bodies, which state no inertia, and the links of unphysical bodies."""
    # links on fixed joints have become frames: the welded body that carries a frame counts for its link
    carriers = {body.name: body for body in tree.bodies}
    carriers |= {frame.name: tree.bodies[frame.body - 1] for frame in tree.frames.values() if frame.body}
    moving = [(link, carriers[link.name].inertia) for link in description.links if link.name in carriers]
    empty = [link for link, whole in moving if whole.is_massless]
    odd = [
        link for link, whole in moving if link.inertia and not (link.inertia.is_physical or whole.is_physical)
    ]
    return empty, odd


def _is_definite(inertia: SpatialInertia) -> bool:
    """Whether the kinetic energy of a body is never negative, up to round-off in its moments."""
    # decimal digits may leave a zero moment slightly negative, so 1e-9 of the largest entry is allowed
    I = inertia.rotational
    return bool(inertia.mass >= 0 and np.linalg.eigvalsh(I)[0] >= -1e-9 * np.abs(I).max())


def read_urdf(
    source: str | bytes | os.PathLike[str],
    mimic: bool = True,
    density: float | None = None,
    snap: float = 0.0,
) -> Description:
    """The links, joints and shapes of a URDF, checked.

    source   path of the file, or the XML text itself
    mimic    whether <mimic> is read
    density  of the collision shapes of links that state no inertia [kg/m3]; None: they have none
    snap     tolerance for near-zeros, as in `load_urdf`                                               [rad]
    raises   DescriptionError: missing file, malformed or unsafe XML, missing elements, numbers that are none,
             unknown joint types, unknown or repeated names, cycles, no root or several, joints without a
             direction, mimic joints that follow nothing; with a density, shapes that enclose no volume
    """
    if density is not None and not (isinstance(density, Real) and 0 < density < math.inf):
        raise ModelError(f"density is {density!r}, expected a positive number of kg/m3")
    notes = Notes(near_zeros=NearZeros.within(snap))
    document, path = read_document(source)
    if document.tag != "robot":
        document.fail(f"the root element is <{document.tag}>, and that of a URDF <robot>", "pass a URDF file")
    # macros first: the schema would complain of links that xacro has yet to insert
    _refuse_macros(document, path)
    # elements that Gazebo and Drake have added are taken out first: the schema then meets plain URDF
    drives = _take_transmissions(document)
    springs = _take_springs(document)
    robot = _admit(document, notes)
    links = _by_name(robot, "link")
    joints = _by_name(robot, "joint")
    beside = _beside_joints(drives, springs, joints, notes)
    if not links:
        document.fail(
            "a robot without any <link>",
            f"add at least one; if it is a xacro file, {EXPAND}",
        )
    # the tree's order and the followers' leaders are known before joints are made, which refer to both
    order, above = _depth_first(links, joints)
    leaders = _leaders(joints, mimic, notes)
    stated_links = []
    for name in order:
        inertia = _inertia(links[name], notes)
        # only links that would have no inertia are filled with matter; stated inertias are kept
        if density is not None and (inertia is None or inertia.is_massless):
            inertia = _filled(links[name], path, density)
        stated = Link(name, inertia, links[name].element.line)
        if joint := above.get(name):
            stated = replace(
                stated,
                parent=joint.link("parent"),
                joint=_joint(joint, leaders.get(joint.values["name"]), notes, beside),
                kind=joint.values["type"],
                placement=joint.pose("origin", notes.near_zeros),
            )
        stated_links.append(stated)
    return Description(
        name=_robot_name(document, notes),
        source=document.source,
        links=tuple(stated_links),
        shapes=tuple(_shapes(robot, path, notes)),
        unused=notes.unused,
        loops=tuple(_loops(robot, links, notes.near_zeros)),
        joints=tuple(joints),
        assumed=notes.assumed,
        transmissions=tuple(drives),
        near_zeros=notes.near_zeros,
    )


def _refuse_macros(document: XmlElement, path: Path | None) -> None:
    """Refuse a file whose robot xacro has yet to make: it has no joints, or is called robot.urdf.xacro.

    Files that were expanded may keep some elements of xacro, which are counted as unused.
    """
    # definitions alone change no element of the robot, so only calls of macros count here
    macros = [x for x in document.children if x.tag.startswith(XACRO) and x.tag not in DEFINITIONS]
    if macros and ((path and path.suffix == ".xacro") or not any(document.all("joint"))):
        macros[0].fail(f"<{macros[0].tag}> is an element of xacro, which makes a URDF of it", EXPAND)


# -- elements that Gazebo and Drake have added ------------------------------------------------------------


def _take_transmissions(document: XmlElement) -> list[Transmission]:
    """The transmissions with a joint and actuators; their elements leave the document."""
    drives = []
    for element in list(document.all("transmission")):
        try:
            transmissions = [_transmission(element, actuator) for actuator in element.all("actuator")]
        except (DescriptionError, KeyError):
            # a rotor inertia changes the dynamics, so a transmission that states one must be readable
            if any(x.tag == "drake:rotor_inertia" for a in element.all("actuator") for x in a.children):
                raise
            continue  # dynamics do not depend on it: it stays where it is counted
        if transmissions:
            document.children.remove(element)
            drives += transmissions
    return drives


def _transmission(element: XmlElement, actuator: XmlElement) -> Transmission:
    kind = element.attributes.get("type") or "".join(x.text.strip() for x in element.all("type"))
    reduction = 1.0
    rotor = None
    # the last statement counts: Drake's gear ratio, else the reduction that ROS and Gazebo write
    for x in (*element.all("mechanicalReduction"), *actuator.all("mechanicalReduction")):
        reduction = x.number()
    for x in actuator.all("drake:gear_ratio"):
        reduction = x.numbers("value", (1,))[0]
    for x in actuator.all("drake:rotor_inertia"):
        rotor = x.numbers("value", (1,))[0]
        if rotor < 0:
            x.fail(f"a rotor inertia of {rotor:g} kg m2 is negative", "give zero or more")
    names = (x.name("name") for x in (element, element.first("joint"), actuator))
    name, joint, of = names
    return Transmission(name, kind, joint, of, reduction, rotor)


def _take_springs(document: XmlElement) -> list[tuple[str, float, float]]:
    """(joint, stiffness, rest) of each spring of a joint; its element leaves the document."""
    springs = []
    for element in list(document.all("gazebo")):
        stiffness = [x.number() for x in element.all("springStiffness")]
        rest = [x.number() for x in element.all("springReference")]
        if "reference" not in element.attributes or not stiffness:
            continue
        # taken out of the document, so that the schema does not count it as an element without effect
        document.children.remove(element)
        if stiffness[0] < 0:
            element.fail(f"springStiffness {stiffness[0]:g} is negative", "give zero or more")
        springs.append((element.attributes["reference"], stiffness[0], rest[0] if rest else 0.0))
    return springs


def _beside_joints(
    drives: list[Transmission],
    springs: list[tuple[str, float, float]],
    joints: dict[str, Item],
    notes: Notes,
) -> dict[str, Any]:
    """{joint: its stiffness, rest and armature}. Springs and drives of unknown joints are counted."""
    beside: dict[str, Any] = {name: {} for name in joints}
    for drive in drives:
        if drive.joint not in beside:
            notes.unused["transmission of an unknown joint"] += 1
        elif drive.rotor_inertia is not None:
            # several drives on one joint turn together, so their reflected inertias add
            numbers = beside[drive.joint]
            numbers["armature"] = numbers.get("armature", 0.0) + drive.reduction**2 * drive.rotor_inertia
    for name, stiffness, rest in springs:
        if name in beside:
            beside[name] |= {"stiffness": stiffness, "rest": rest}
        else:
            notes.unused["gazebo spring of an unknown joint"] += 1
    return beside


def _robot_name(document: XmlElement, notes: Notes) -> str:
    """The name that the file states, or "robot": a bad name refuses no file."""
    if "name" in document.attributes:
        try:
            return document.name("name")
        except DescriptionError:
            notes.unused["@name that is not a name"] += 1
    return "robot"


# -- the schema -------------------------------------------------------------------------------------------


@dataclass(eq=False)
class Notes:
    """Elements without effect, assumptions, and near-zeros, as they are found: see `Description`."""

    unused: Counter[str] = field(default_factory=Counter)
    assumed: dict[str, list[int]] = field(default_factory=dict)
    near_zeros: NearZeros = field(default_factory=NearZeros)

    def assume(self, kind: str, element: XmlElement) -> None:
        self.assumed.setdefault(kind, []).append(element.line)


@dataclass(eq=False)
class Item:
    """An element as the schema admits it: attributes as numbers and text, children by tag."""

    element: XmlElement
    values: dict[str, Any]
    children: dict[str, list[Item]]

    def first(self, tag: str) -> Item | None:
        """The child of that tag that counts."""
        return next(iter(self.children[tag]), None)

    def link(self, side: str) -> str:
        """The link at "parent" or "child"."""
        return str(self.children[side][0].values["link"])

    def pose(self, tag: str, near_zeros: NearZeros | None = None) -> np.ndarray:
        """The pose (4, 4) of a child with xyz and rpy, R = Rz(yaw) Ry(pitch) Rx(roll), without near-zeros."""
        place = self.first(tag)
        # without <origin>, xyz or rpy the format defines zeros
        values = {} if place is None else place.values
        rpy = values.get("rpy", np.zeros(3))
        xyz = values.get("xyz", np.zeros(3))
        if near_zeros is not None:
            rpy = near_zeros.rounded(rpy)
            xyz = near_zeros.position(xyz)
        return _pose(rotation_of(rpy), xyz)


def _admit(element: XmlElement, notes: Notes, path: str = "") -> Item:
    """The element with the values that its rule reads; `path`, the tags above it, is for the counts."""
    rule = SCHEMA[element.tag]
    # attributes before children: a missing or malformed one refuses the element at once
    for name in rule.needs:
        if name not in element.attributes:
            element.fail(f"no attribute '{name}' in {element}", f'add {name}="..."')
    values = {}
    for name in element.attributes:
        kind = rule.attributes.get(name)
        if kind is not None:
            values[name] = _value(element, name, kind)
        elif not name.startswith("xmlns"):
            notes.unused[f"{path}@{name}"] += 1
    children: dict[str, list[Item]] = {tag: [] for tag in rule.children}
    for child in element.children:
        often = rule.children.get(child.tag)
        where = path + child.tag
        # An idle child never refuses the file: a second one, or one that cannot be read, is counted. A child
        # with an effect on dynamics is read as urdfdom reads it, and noted, or refuses the file.
        idle = child.tag in IDLE or child.tag in IDLE_IN.get(element.attributes.get("type", ""), ())
        if often is None:
            notes.unused[where] += 1
        elif child.tag in ("visual", "collision") and not _has_shape(child):
            notes.unused[f"{where} without a known geometry"] += 1
        elif often in "?!" and children[child.tag]:
            if idle or often == "?":
                notes.unused[f"{where} beside another"] += 1
            else:
                notes.assume(f"of several <{child.tag}> in a <{element.tag}> the first counts", child)
        else:
            try:
                children[child.tag].append(_admit(child, notes, f"{where}/"))
            except DescriptionError:
                if not idle:
                    raise
                notes.unused[f"{where} that cannot be read"] += 1
    # all stated elements count here, whether or not they could be read
    for tag, often in rule.children.items():
        stated = list(element.all(tag))
        if often == "1" and not stated:
            element.fail(f"no <{tag}> in {element}", f"add <{tag} .../>")
        if often == "1" and len(stated) > 1:
            stated[1].fail(f"a second <{tag}> in {element}", "keep one of them")
    return Item(element, values, children)


def _value(element: XmlElement, name: str, kind: str | int | tuple[int, ...]) -> Any:
    """An attribute as text, a number, or an array of several."""
    if kind == NAME:
        return element.name(name)
    if kind == TEXT:
        return element.attributes[name]
    if kind == LIMIT:
        return element.numbers(name, (1,), infinite=True)[0]
    numbers = element.numbers(name, kind if isinstance(kind, tuple) else (int(kind),))
    # a single number stays a float, several become an array
    return numbers[0] if kind == 1 else np.array(numbers)


def _has_shape(element: XmlElement) -> bool:
    """Whether a <visual> or <collision> has a geometry of a known kind."""
    return any(shape.tag in SHAPES for geometry in element.all("geometry") for shape in geometry.children)


def _by_name(document: Item, tag: str) -> dict[str, Item]:
    """The children of this tag by their names, which differ."""
    named: dict[str, Item] = {}
    for item in document.children[tag]:
        name = item.values["name"]
        if name in named:
            item.element.fail(
                f"a second {tag} called {quoted(name)}, the first stands in line {named[name].element.line}",
                f"give every {tag} its own name",
            )
        named[name] = item
    return named


def _check_ends(item: Item, links: dict[str, Item]) -> None:
    """Refuse a joint or constraint that does not join two links of the file."""
    what = f"{item.element.tag} {quoted(item.values['name'])}"
    for side in ("parent", "child"):
        if item.link(side) not in links:
            item.element.first(side).fail(
                f"the {side} of {what} is {quoted(item.link(side))}, and there is no such link",
                'correct the name, or add <link name="..."/>',
            )
    if item.link("parent") == item.link("child"):
        item.element.fail(f"{what} joins link {quoted(item.link('child'))} to itself", "name two links")


# -- how links and joints hang together -------------------------------------------------------------------


def _depth_first(links: dict[str, Item], joints: dict[str, Item]) -> tuple[list[str], dict[str, Item]]:
    """The names of the links, parents before children, and the joint of each link that has one."""
    above: dict[str, Item] = {}
    children: dict[str, list[str]] = {name: [] for name in links}
    for name, joint in joints.items():
        _check_ends(joint, links)
        child = joint.link("child")
        if child in above:
            joint.element.fail(
                f"link {quoted(child)} is the child of two joints, {quoted(above[child].values['name'])} "
                f"and {quoted(name)}",
                "keep one of them; a loop is closed by a <constraint>, since joints form a tree",
            )
        above[child] = joint
        children[joint.link("parent")].append(child)

    # With one parent a link at most, the links form trees and cycles. One root and no cycle leave one tree.
    roots = [name for name in links if name not in above]
    if len(roots) > 1:
        links[roots[1]].element.fail(
            f"{len(roots)} links are the child of no joint: {listed(roots)}",
            "a URDF has one root: join the others to it, by fixed joints if they do not move",
        )
    # a stack with the children in reverse gives depth-first order, siblings as in the file
    order = []
    pending = roots[:]
    while pending:
        order.append(pending.pop())
        pending += reversed(children[order[-1]])
    # links in a cycle cannot be reached from the root: they are missing from the order
    if cycle := _cycle({name: joint.link("parent") for name, joint in above.items()}):
        names = [above[link].values["name"] for link in cycle]
        above[cycle[0]].element.fail(
            f"joints {listed(names)} close a cycle of links: {listed(cycle)}", "delete one of them"
        )
    # the name stands for body 0 of every tree, so that no other body can have it
    if WORLD in order[1:]:
        links[WORLD].element.fail(
            f"link {WORLD!r} hangs on another link", "rename it: only the root can be called that"
        )
    return order, above


def _cycle(above: Mapping[str, str]) -> list[str]:
    """A cycle of names, each followed by the name above it; [] if there is none."""
    try:
        TopologicalSorter({name: [upper] for name, upper in above.items()}).prepare()
    except CycleError as error:
        # graphlib lists each name before the one that needs it, the first one again at the end: reversed,
        # each name is followed by the name above it
        return error.args[1][:0:-1]
    return []


def _leaders(joints: dict[str, Item], mimic: bool, notes: Notes) -> dict[str, Mimic]:
    """The `Mimic` of each follower, by name. Each chain of followers ends at a joint that moves freely."""
    leaders: dict[str, Mimic] = {}
    for name, joint in joints.items():
        stated = joint.first("mimic")
        if stated is None:
            continue
        # a fixed joint has no coordinate that could follow another
        if not mimic or joint.values["type"] == "fixed":
            notes.unused["joint/mimic" + (" of a fixed joint" if mimic else "")] += 1
            continue
        leader = stated.values["joint"]
        if leader not in joints:
            stated.element.fail(
                f"joint {quoted(name)} mimics {quoted(leader)}, and there is no such joint",
                "correct the name, delete <mimic>, or load the file with mimic=False",
            )
        # x = multiplier y + offset relates single coordinates, so both ends have exactly one
        for end in (name, leader):
            kind = joints[end].values["type"]
            if kind not in ("revolute", "continuous", "prismatic"):
                stated.element.fail(
                    f"joint {quoted(name)} mimics {quoted(leader)}, and {quoted(end)} is {quoted(kind)}",
                    "mimic works between joints of one coordinate: revolute, continuous, prismatic",
                )
        leaders[name] = Mimic(leader, stated.values.get("multiplier", 1.0), stated.values.get("offset", 0.0))
    # in a circle of followers no coordinate would be independent
    if circle := _cycle({name: mimic.joint for name, mimic in leaders.items()}):
        joints[circle[0]].children["mimic"][0].element.fail(
            f"joints mimic each other in a circle: {listed(circle)}",
            "let one of them move freely: delete its <mimic>",
        )
    return leaders


# -- loops ------------------------------------------------------------------------------------------------


def _loops(robot: Item, links: dict[str, Item], near_zeros: NearZeros) -> Iterator[LoopConstraint]:
    """The <constraint> elements."""
    for name, item in _by_name(robot, "constraint").items():
        kind = item.values["type"]
        if kind != "universal" and kind not in LOOPS:
            item.element.fail(
                f"constraint {quoted(name)} has the unknown type {quoted(kind)}",
                f"use one of universal, {', '.join(LOOPS)}",
            )
        _check_ends(item, links)
        # neither axis has a default: two equal ones could not stay at a right angle
        for tag in ("parent_axis", "child_axis") if kind == "universal" else ():
            if item.first(tag) is None:
                item.element.fail(
                    f"no <{tag}> in {item.element}", f'add <{tag} xyz="..."/>: a universal joint has two'
                )
        parent_axis = near_zeros.axis(_axis(item, "parent_axis", X_AXIS))
        child_axis = near_zeros.axis(_axis(item, "child_axis", parent_axis))
        # the file may state directions of any length; the equations of closures need unit vectors
        parent_axis = parent_axis / np.linalg.norm(parent_axis)
        child_axis = child_axis / np.linalg.norm(child_axis)
        # `Closure` makes the two frames coincide up to the group's motions, with one axis in both
        if kind in ("revolute", "prismatic") and np.abs(child_axis - parent_axis).max() > 1e-9:
            item.element.first("child_axis").fail(
                f"the axes of the {kind} constraint {quoted(name)} differ, and its frames would not coincide",
                "turn the child's frame by <child_origin rpy=...>, and leave <child_axis> out",
            )
        yield LoopConstraint(
            name,
            kind,
            item.link("parent"),
            item.link("child"),
            item.pose("parent_origin", near_zeros),
            item.pose("child_origin", near_zeros),
            parent_axis,
            child_axis,
        )


def _axis(item: Item, tag: str, default: np.ndarray) -> np.ndarray:
    """The direction that a child states, of any length; the default if there is no such child."""
    stated = item.first(tag)
    if stated is None:
        return default
    xyz: np.ndarray = stated.values["xyz"]
    if np.abs(xyz).max() < 1e-6:
        stated.element.fail(
            f"the {tag} of {item.element} has no direction: {xyz.tolist()}",
            'give one, such as xyz="0 0 1", or make the joint fixed',
        )
    return xyz


def _closure(loop: LoopConstraint) -> Closure | Condition:
    """The closure between the two frames of a loop."""
    a = f"{loop.name}_parent_frame"
    b = f"{loop.name}_child_frame"
    if loop.kind == "universal":

        def universal(A: Any, B: Any) -> Any:
            # the cross of a universal joint: origins coincide, and its two axes stay at a right angle
            crossed = (A[:3, :3] @ loop.parent_axis) @ (B[:3, :3] @ loop.child_axis)
            return np.append(B[:3, 3] - A[:3, 3], crossed)

        return Condition(loop.name, universal, (a, b))
    axis = [loop.parent_axis] if loop.kind in ("revolute", "prismatic") else []
    return Closure(loop.name, LOOPS[loop.kind](*axis), a, b)


# -- from elements to joints, inertias and shapes ---------------------------------------------------------


def _joint(item: Item, mimic: Mimic | None, notes: Notes, beside: dict[str, Any]) -> Joint:
    """The joint of an element, with the numbers that Gazebo's and Drake's elements give it."""
    name = item.values["name"]
    kind = item.values["type"]
    axis = []
    if kind not in ("fixed", "floating"):
        axis = [notes.near_zeros.axis(_axis(item, "axis", X_AXIS))]
    joint = JOINTS[kind](*axis) if kind in JOINTS else joint_along(kind, axis[0])
    if joint is None:
        item.element.fail(
            f"joint {quoted(name)} has the unknown type {quoted(kind)}",
            f"use one of {', '.join([*JOINTS, *extensions(JOINTS_OF_OTHERS)])}",
        )
    bounds: dict[str, Any] = {}
    limit = item.first("limit")
    dynamics = item.first("dynamics")
    # limits have no effect on dynamics: nonsense in them is counted, and the joint has none
    if limit is not None and joint.dim == 1:
        for bound in ("velocity", "effort"):
            if limit.values.get(bound, math.inf) >= 0:
                bounds[f"{bound}_limit"] = limit.values.get(bound, math.inf)
            else:
                notes.unused[f"joint/limit@{bound} below zero"] += 1
        # a continuous joint turns without end, whatever bounds its <limit> states
        if kind != "continuous":
            lower = limit.values.get("lower", 0.0)
            upper = limit.values.get("upper", 0.0)
            if lower <= upper:
                bounds |= {"lower": lower, "upper": upper}
            else:
                notes.unused["joint/limit with lower above upper"] += 1
    if dynamics is not None and kind != "fixed":
        # a negative loss would feed energy into the motion, so it refuses the file, as a limit does not
        for loss, value in dynamics.values.items():
            if value < 0:
                dynamics.element.fail(f"{loss}={value:g} of <dynamics> is negative", "give zero or more")
            bounds[loss] = value
    if kind not in ("fixed", "floating"):
        bounds |= beside[name]
    if isinstance(joint, Joint):  # of another package; numbers of the file replace its own
        return replace(joint, name=name, mimic=mimic, **bounds)
    return Joint(name, joint, mimic=mimic, **bounds)


def _inertia(link: Item, notes: Notes) -> SpatialInertia | None:
    """The inertia that the link states; None without <mass>."""
    inertial = link.first("inertial")
    if inertial is None:
        return None
    mass = inertial.first("mass")
    inertia = inertial.first("inertia")
    if mass is None:
        notes.assume("an <inertial> without <mass> is none", inertial.element)
        return None
    I = np.zeros((3, 3))
    m = mass.values["value"]
    if inertia is None:
        notes.assume("a <mass> without <inertia> is that of a point", inertial.element)
    else:
        for (i, j), moment in MOMENTS.items():
            I[i, j] = I[j, i] = inertia.values.get(moment, 0.0)
        if len(inertia.values) < len(MOMENTS):
            notes.assume("products of inertia that are not stated are zero", inertia.element)
    # exact zeros vanish from traced equations; exporters write them as 1e-17
    I[np.abs(I) < ROUND_OFF * abs(m)] = 0
    # the file's moments are about the centre of mass, in the axes of <origin>; shift leads to the link's
    # frame
    return SpatialInertia(m, np.zeros(3), I).shift(inertial.pose("origin", notes.near_zeros))


def _filled(link: Item, path: Path | None, density: float) -> SpatialInertia | None:
    """The inertia of the link's collision shapes, filled; None if there are none. Raises DescriptionError."""
    solids = []
    for element in link.element.all("collision"):
        if not _has_shape(element):
            element.fail(f"no shape to take an inertia from in {element}", f"use one of {', '.join(SHAPES)}")
        # with notes that are dropped: `_shapes` counts the same elements once more
        item = _admit(element, Notes())
        shape = _shape(item, link, path, Notes())
        try:
            solids.append(_solid(shape, density).shift(shape.placement))
        except ModelError as error:
            element.fail(f"{element} has no inertia: {error}", "state the inertia of the link")
    return sum(solids[1:], start=solids[0]) if solids else None


def _solid(shape: Shape, density: float) -> SpatialInertia:
    """The inertia of a shape of this density in its own frame."""
    size = np.abs(shape.size)
    if shape.kind == "box":
        return SpatialInertia.box(density * float(np.prod(size)), size)
    if shape.kind == "sphere":
        return SpatialInertia.sphere(density * 4 / 3 * math.pi * size[0] ** 3, size[0])
    if shape.kind == "cylinder":
        return SpatialInertia.cylinder(density * math.pi * size[0] ** 2 * size[1], *size)
    if shape.path is None:
        raise ModelError(f"the mesh {quoted(str(shape.filename))} was not found in the package folder")
    return SpatialInertia.polyhedron(density, read_stl(shape.path) * shape.size)


def _pose(R: np.ndarray, p: np.ndarray) -> np.ndarray:
    """A pose (4, 4); round-off next to 0 and 1 in its rotation is removed (pi/2 written as 1.57079632679)."""
    # exactly no rotation: the unit matrix, whose entries vanish from traced equations; + 0.0 removes signs of
    # zero
    if np.array_equal(R, np.eye(3)):
        T = np.eye(4)
        T[:3, 3] = p
        return T + 0.0
    # Entries below 1e-10 become zeros, if the rest is a rotation still. A small angle on purpose (1e-11 rad)
    # would not survive that: then only round-off is removed.
    cleaned = _rotation(R, RIGHT_ANGLE_TOLERANCE)
    if np.abs(cleaned.T @ cleaned - np.eye(3)).max() > ROUND_OFF:  # it was no right angle
        cleaned = _rotation(R, ROUND_OFF)
    T = np.eye(4)
    T[:3, :3] = cleaned
    T[:3, 3] = p
    return T + 0.0


def _rotation(R: np.ndarray, tolerance: float) -> np.ndarray:
    """The rotation next to R with exact zeros where entries are below the tolerance: its polar factor."""
    zero = np.abs(R) < tolerance
    # R = U s V has the polar factor U V, the rotation nearest to R in the Frobenius norm
    U, _, V = np.linalg.svd(np.where(zero, 0.0, R))
    R = np.where(zero, 0.0, U @ V)
    # a row with a single entry is a coordinate axis: the entry is exactly one in size
    return np.where(np.count_nonzero(R, axis=1, keepdims=True) == 1, np.sign(R), R)


def _shapes(robot: Item, path: Path | None, notes: Notes) -> Iterator[Shape]:
    """Visual and collision shapes, in the order of the file's links."""
    # materials below <robot> are defined once, and links refer to them by name
    colors = {material.values.get("name"): _color(material) for material in robot.children["material"]}
    for link in robot.children["link"]:
        for item in link.children["visual"] + link.children["collision"]:
            shape = _shape(item, link, path, notes)
            material = item.first("material") if shape.role == "visual" else None
            if material is not None:
                color = _color(material) or colors.get(material.values.get("name"))
                shape = replace(shape, color=color)
            yield shape


def _color(material: Item) -> tuple[float, ...] | None:
    """Red, green, blue, alpha of a material; None if it states none."""
    color = material.first("color")
    return None if color is None else tuple(color.values["rgba"].tolist())


def _shape(item: Item, link: Item, path: Path | None, notes: Notes) -> Shape:
    """The shape of a <visual> or <collision>, without its color."""
    geometry = item.children["geometry"][0]
    kind = next(kind for kind in SHAPES if geometry.children[kind])
    values = geometry.children[kind][0].values
    filename = mesh = None
    if kind == "mesh":
        filename = values["filename"]
        mesh = _mesh(filename, path, notes.unused)
        size = np.broadcast_to(values.get("scale", 1.0), 3)
    elif kind == "box":
        size = values["size"]
    else:
        size = np.array([values[name] for name in ("radius", "length") if name in values])
    return Shape(
        link=link.values["name"],
        role=item.element.tag,
        kind=kind,
        placement=item.pose("origin"),
        size=tuple(size.tolist()),
        filename=filename,
        path=mesh,
        collides=item.element.tag == "collision",
    )


# -- meshes -----------------------------------------------------------------------------------------------


def _mesh(filename: str, description: Path | None, unused: Counter[str]) -> Path | None:
    """The file of a mesh, None if it is not found; paths that leave the package folder are not followed.

    The package folder of "package://name/..." is the nearest folder of that name around the description, or
    within a folder around it. For other paths it is the nearest folder with a package.xml, or else the parent
    of the description's folder.
    """
    text = filename.replace("\\", "/")
    scheme, mark, rest = text.partition("://")
    around = [] if description is None else list(description.resolve().parents)

    # A description may come from anywhere. It must not make a viewer read files outside of its package, so
    # ".." is resolved in the text before any file is looked at.
    if mark and scheme == "package":
        package, _, rest = rest.lstrip("/").partition("/")
        inside = posixpath.normpath(rest or ".")
        if package in ("", ".", "..") or inside.startswith(("..", "/")):
            unused[OUTSIDE] += 1
            return None
        # the nearest folder of the package's name goes first, then folders beside the description
        candidates = [folder / inside for folder in around if folder.name == package]
        candidates += [folder / package / inside for folder in around]
        return next(filter(os.path.isfile, candidates), None)
    if mark and scheme != "file":
        unused["mesh at an address that is not read"] += 1
        return None
    # a drive letter (C:) makes a path absolute, also where the system has no drives
    absolute = bool(mark) or posixpath.isabs(text) or text[1:2] == ":"
    if not absolute and not around:
        return None
    path = Path(unquote(rest) if mark else text if absolute else around[0] / text)
    path = Path(posixpath.normpath(path.as_posix()))
    # the check comes after normpath, which has resolved every ".."
    if not around or not path.is_relative_to(_package_folder(around)):
        unused["mesh at an absolute path outside the package folder" if absolute else OUTSIDE] += 1
        return None
    return path if os.path.isfile(path) else None


def _package_folder(around: list[Path]) -> Path:
    """The folder that holds the package of a description, from the folders around it, nearest first."""
    # without a package.xml the custom is package/urdf/robot.urdf: the folder above the description's
    marked = (folder for folder in around if (folder / "package.xml").is_file())
    return next(marked, around[min(1, len(around) - 1)])
