"""Write trees as URDF and as MJCF, with all digits: read again they have the same dynamics to round-off.

Joints of several commuting motions, as Cylindrical, become as many joints of one, in the order of their
coordinates. Properties without words in a format are refused. Shapes and keyframes, which have no part in the
dynamics, are left out.
"""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from dataclasses import fields, replace
from typing import Any, NoReturn

import numpy as np

from ..base.errors import ModelError
from ..bodies import WORLD, Body, Frame, Joint, SpatialInertia, Tree
from ..groups import (
    SE3,
    SO3,
    Cylindrical,
    Fixed,
    Free,
    MotionSubgroup,
    PlanarTranslation,
    Prismatic,
    Revolute,
    SpatialTranslation,
    Spherical,
)
from ..mechanisms.constrained import Closure
from ..scalars import Array
from ..scalars.linear import is_numeric
from .document import LONGEST_NAME, NAME_SIGNS, is_name, new_name, quoted
from .mjcf import UNLIMITED, MjcfTree
from .near_zeros import roll_pitch_yaw
from .urdf import JOINTS, LOOPS, MOMENTS

COMMUTING = (Cylindrical, PlanarTranslation, SpatialTranslation)
URDF_KINDS = {group: word for word, group in reversed(JOINTS.items())}
URDF_LOOPS = {group: word for word, group in LOOPS.items()}
MJCF_KINDS = {Free: "free", Spherical: "ball", Prismatic: "slide", Revolute: "hinge"}
MJCF_LOOPS = {Fixed: "weld", Spherical: "connect"}
LEAST_MOMENT = 1e-15
"""[kg, kg m2]: MuJoCo refuses bodies that move with less."""


def urdf_of(tree: Tree) -> str:
    """The URDF of a tree: its bodies and frames as links on a link "world", which stands for the world.

    A revolute joint beside its body's origin gets a link without mass on its axis, BODY_on_JOINT. Followers
    are mimic joints, closures <constraint>s (`load_urdf`). A URDF says nothing of gravity.

    Raises ModelError for properties without words in URDF: ball, helical and Schoenflies joints, armature,
    springs, numbers that differ between the freedoms of a joint, closures that are conditions or rods,
    symbols.
    """
    return _Urdf(tree).text()


def mjcf_of(tree: Tree, gravity: Array) -> str:
    """The MJCF of a tree under gravity (3,): its frames as sites, of an `MjcfTree` also its actuators.

    A body without mass and with one child is written as a further joint of that child, and read again with
    another frame. Followers are equalities of joints, closures connect or weld sites; MuJoCo itself keeps
    both softly. Velocity limits have no place.

    Raises ModelError for properties without words in MJCF: planar, helical and Schoenflies joints, free
    joints that do not hang on the world's origin or have an armature, other bodies that move without mass or
    moments of inertia, numbers that differ between the freedoms of a joint, other closures, symbols.
    """
    return _Mjcf(tree, gravity).text()


class _Writer:
    """The base of both writers: bodies and frames by their parents, joints in the groups of a format.

    format  its name, for messages
    kinds   groups of joints that it has, and its words for them
    """

    format: str
    kinds: dict[type, str]

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self.names = {WORLD, *(b.name for b in tree.bodies), *tree.frames}
        self.joints = {b.joint.name for b in tree.bodies}
        self.frames: dict[int, list[Frame]] = {i: [] for i in range(len(tree.bodies) + 1)}
        self.children: dict[int, list[Body]] = {i: [] for i in range(len(tree.bodies) + 1)}
        for frame in tree.frames.values():
            self.frames[frame.body].append(frame)
        for body in tree.bodies:
            self.children[body.parent].append(body)
            moments = (body.inertia.mass, body.inertia.com, body.inertia.rotational, body.placement)
            if not is_numeric(*moments, *(getattr(body.joint, name) for name in self.numbers)):
                self.refuse(f"body {body.name!r} has symbols for numbers", "write a tree of numbers")

    numbers = tuple(f.name for f in fields(Joint) if f.name not in ("name", "group", "mimic"))

    def refuse(self, what: str, remedy: str) -> NoReturn:
        raise ModelError(f"{self.tree.name} cannot be written as {self.format}: {what}; {remedy}")

    def simple(self, joint: Joint) -> list[Joint]:
        """The joint as joints that the format has, in the order of its coordinates."""
        if isinstance(joint.group, COMMUTING):
            point = getattr(joint.group, "point", np.zeros(3))
            # columns of S are axes of rotations or directions of translations, in the order of coordinates
            joints = []
            for i, s in enumerate(joint.group.S.T):
                group = Revolute(s[:3], point) if s[:3].any() else Prismatic(s[3:])
                numbers: dict[str, Any] = {name: float(getattr(joint, name)[i]) for name in self.numbers}
                joints.append(Joint(new_name(f"{joint.name}_{i + 1}", self.joints), group, **numbers))
            return joints
        if type(joint.group) not in self.kinds:
            words = ", ".join(group.__name__ for group in (*self.kinds, *COMMUTING))
            self.refuse(
                f"joint {joint.name!r} is {joint.group!r}", f"{self.format} has joints of the groups {words}"
            )
        return [joint]

    def one(self, joint: Joint, name: str) -> float:
        """A property of the joint that is the same in all its freedoms. Raises ModelError."""
        values = np.unique(getattr(joint, name).astype(float))
        if len(values) > 1:
            self.refuse(
                f"joint {joint.name!r} has {name} {values.tolist()} in its directions",
                "give it one number, or make it several joints",
            )
        return float(values[0]) if len(values) else 0.0

    def text_of(self, root: Any) -> str:
        """The document as text. Raises ModelError for names that the readers would refuse."""
        for element in root.iter():
            name = element.get("name", "x")
            if element is not root and not is_name(name):
                self.refuse(
                    f"the name {quoted(name)} of a <{element.tag}> is none that is read again",
                    f"use 1 to {LONGEST_NAME} letters, digits, blanks and the signs {NAME_SIGNS.strip()}",
                )
        ElementTree.indent(root)
        return ElementTree.tostring(root, encoding="unicode") + "\n"

    def closed(self, kinds: dict[type, str]) -> list[tuple[Closure, str]]:
        """The closures of the tree, with the format's word for each."""
        closures = []
        for closure in getattr(self.tree, "closures", ()):
            what = getattr(closure, "what", closure)
            if type(what) not in kinds or np.any(getattr(what, "point", 0)):
                words = ", ".join(group.__name__ for group in kinds)
                self.refuse(f"closure {closure.name!r} is {what!r}", f"it closes loops by {words} at frames")
            closures.append((closure, kinds[type(what)]))
        return closures


class _Urdf(_Writer):
    format, kinds = "URDF", URDF_KINDS

    def text(self) -> str:
        self.root: Any = ElementTree.Element("robot", name=self.tree.name)
        loops = self.closed(URDF_LOOPS)
        ends = {f"{closure.name}_{side}_frame" for closure, _ in loops for side in ("parent", "child")}
        _add(self.root, "link", name=WORLD)
        for frame in self.frames[0]:
            self.frame(frame, WORLD, ends)
        for body in self.tree.bodies:
            self.body(body)
            for frame in self.frames[body.index]:
                self.frame(frame, body.name, ends)
        for closure, kind in loops:
            self.loop(closure, kind)
        return self.text_of(self.root)

    def body(self, body: Body) -> None:
        """A link for the body, and one between for each joint but the last, and on each axis beside it."""
        # A joint of a URDF turns about an axis through the origin of its child link. If the axis lies beside
        # the origin of the body, a link on the axis comes between, and a fixed joint leads to the body.
        parent = self.tree.bodies[body.parent - 1].name if body.parent else WORLD
        origin = np.asarray(body.placement, float)
        simple = self.simple(body.joint)
        for k, joint in enumerate(simple):
            on_axis = SE3.motion(np.eye(3), np.array(getattr(joint.group, "point", np.zeros(3)), float))
            last = k == len(simple) - 1 and not on_axis[:3, 3].any()
            link = body.name if last else new_name(f"{body.name}_on_{joint.name}", self.names)
            self.link(link, body.inertia if last else None)
            self.joint(joint, origin @ on_axis, parent, link)
            parent = link
            origin = SE3.inverse(on_axis).astype(float)
        if parent != body.name:
            self.link(body.name, body.inertia)
            fixed = Joint(new_name(f"{body.name}_beside_{body.joint.name}", self.joints), Fixed())
            self.joint(fixed, origin, parent, body.name)

    def frame(self, frame: Frame, parent: str, ends: set[str]) -> None:
        if frame.name not in ends:  # these are made again of the constraint
            self.link(frame.name, None)
            name = new_name(f"{frame.name}_joint", self.joints)
            self.joint(Joint(name, Fixed()), frame.placement, parent, frame.name)

    def link(self, name: str, inertia: SpatialInertia | None) -> None:
        link = _add(self.root, "link", name=name)
        if inertia is None or inertia.is_massless:
            return
        inertial = _add(link, "inertial")
        _add(inertial, "origin", xyz=inertia.com)
        _add(inertial, "mass", value=inertia.mass)
        _add(inertial, "inertia", **{name: inertia.rotational[at] for at, name in MOMENTS.items()})

    def joint(self, joint: Joint, origin: Array, parent: str, child: str) -> None:
        for name in ("armature", "stiffness"):
            if np.any(getattr(joint, name)):
                self.refuse(
                    f"joint {joint.name!r} has {name} {getattr(joint, name).tolist()}",
                    "write MJCF, which can",
                )
        # an unlimited hinge is "continuous"; a revolute joint of a URDF must have limits
        kind = self.kinds[type(joint.group)]
        lower = self.one(joint, "lower")
        upper = self.one(joint, "upper")
        if kind == "revolute" and np.isinf([lower, upper]).all():
            kind = "continuous"
        element = _add(self.root, "joint", name=joint.name, type=kind)
        _add(element, "parent", link=parent)
        _add(element, "child", link=child)
        _add(element, "origin", **_origin(origin))
        axis = getattr(joint.group, "axis", getattr(joint.group, "normal", None))
        if axis is not None:
            _add(element, "axis", xyz=axis)
        if kind in ("revolute", "continuous", "prismatic"):
            limits = {} if kind == "continuous" else {"lower": lower, "upper": upper}
            for name in ("effort", "velocity"):
                if np.isfinite(number := self.one(joint, f"{name}_limit")):
                    limits[name] = number
            if np.isfinite(list(limits.values())).any():
                _add(element, "limit", **limits)
        losses = {name: self.one(joint, name) for name in ("damping", "friction")}
        if any(losses.values()):
            _add(element, "dynamics", **losses)
        if joint.mimic is not None:
            _add(element, "mimic", **vars(joint.mimic))

    def loop(self, closure: Closure, kind: str) -> None:
        element = _add(self.root, "constraint", name=closure.name, type=kind)
        axis = getattr(closure.what, "axis", None)
        for side, end in (("parent", closure.a), ("child", closure.b)):
            frame = self.tree.frame(end)
            link = self.tree.bodies[frame.body - 1].name if frame.body else WORLD
            _add(element, side, link=link)
            _add(element, f"{side}_origin", **_origin(frame.placement))
            if axis is not None:
                _add(element, f"{side}_axis", xyz=axis)


class _Mjcf(_Writer):
    format, kinds = "MJCF", MJCF_KINDS

    def __init__(self, tree: Tree, gravity: Array) -> None:
        super().__init__(tree)
        self.gravity = gravity

    def text(self) -> str:
        root: Any = ElementTree.Element("mujoco", model=self.tree.name)
        _add(root, "compiler", angle="radian")
        _add(root, "option", gravity=self.gravity)
        world = _add(root, "worldbody")
        # loops are closed at sites, so the bodies at their ends get sites of new names
        self.loops = self.closed(MJCF_LOOPS)
        closed = dict.fromkeys(end for closure, _ in self.loops for end in (closure.a, closure.b))
        self.ends = {x: x if x in self.tree.frames else new_name(f"{x}_site", self.names) for x in closed}
        self.sites(world, WORLD, 0)
        for body in self.children[0]:
            self.body(world, body, np.eye(4), [])
        equality = _add(root, "equality")
        for body in self.tree.bodies:
            if body.joint.mimic is not None:
                mimic = body.joint.mimic
                numbers = [mimic.offset, mimic.multiplier, 0, 0, 0]
                _add(equality, "joint", joint1=body.joint.name, joint2=mimic.joint, polycoef=numbers)
        for closure, kind in self.loops:
            a, b = self.ends[closure.a], self.ends[closure.b]
            _add(equality, kind, name=closure.name, site1=a, site2=b)
        self.actuators(root)
        for element in [element for element in root if not len(element) and not element.attrib]:
            root.remove(element)
        return self.text_of(root)

    def body(self, above: Any, body: Body, carrier: Array, carried: list[Joint]) -> None:
        """A body with its joints and the joints of the massless bodies that carry it.

        carrier  pose of the last of these bodies in the last one with mass, (4, 4)
        carried  their joints, in the frame of the last of them
        """
        # A massless body with one child and nothing else is no body of the MJCF: MuJoCo would refuse it. Its
        # joints are handed on to the child, expressed in the child's frame.
        placement = np.asarray(body.placement, float)
        moved = [replace(joint, group=self.seen_from(joint, placement)) for joint in carried]
        joints = [*moved, *(self.simple(body.joint) if body.joint.dim else [])]
        placement = carrier @ placement
        lone = len(self.children[body.index]) == 1 and not self.frames[body.index]
        if joints and lone and body.inertia.is_massless and body.name not in self.ends:
            self.body(above, self.children[body.index][0], placement, joints)
            return
        element = _add(above, "body", name=body.name, **_at(placement))
        for joint in joints:
            self.joint(element, joint, body, placement, len(joints))
        self.inertial(element, body, bool(joints))
        self.sites(element, body.name, body.index)
        for child in self.children[body.index]:
            self.body(element, child, np.eye(4), [])

    def seen_from(self, joint: Joint, placement: Array) -> MotionSubgroup:
        """The group of the joint in the axes of a frame at this placement."""
        R = placement[:3, :3]
        p = placement[:3, 3]
        if isinstance(joint.group, Prismatic):
            return Prismatic(R.T @ joint.group.axis)
        if isinstance(joint.group, Revolute):
            return Revolute(R.T @ joint.group.axis, R.T @ (joint.group.point - p))
        if isinstance(joint.group, Spherical) and np.array_equal(R, np.eye(3)):
            return Spherical(joint.group.point - p)
        self.refuse(f"joint {joint.name!r}, {joint.group!r}, moves a body without mass", "give the body some")

    def joint(self, element: Any, joint: Joint, body: Body, placement: Array, joints: int) -> None:
        kind = self.kinds[type(joint.group)]
        numbers = {"damping": "damping", "friction": "frictionloss", "armature": "armature"}
        words = {word: self.one(joint, name) for name, word in numbers.items()}
        if kind == "free" and (
            body.parent or joints > 1 or words["armature"] or not np.array_equal(placement, np.eye(4))
        ):
            self.refuse(
                f"joint {joint.name!r} is free, and is not alone at the world's origin without armature",
                "its coordinates are the pose in the world: hang the body on the world, without placement",
            )
        attributes: dict[str, Any] = {word: x for word, x in words.items() if x}
        if kind in ("slide", "hinge"):
            lower, upper, effort = (self.one(joint, x) for x in ("lower", "upper", "effort_limit"))
            attributes["axis"] = joint.group.axis  # type: ignore[attr-defined]
            if joint.stiffness.any():
                attributes |= {"stiffness": joint.stiffness, "springref": joint.rest}
            if lower == upper:
                self.refuse(
                    f"joint {joint.name!r} has no room to move, from {lower:g} to {upper:g}",
                    "give it limits that differ, or make it fixed",
                )
            if not np.isinf([lower, upper]).all():
                attributes |= {"limited": "true", "range": np.clip([lower, upper], -UNLIMITED, UNLIMITED)}
            if np.isfinite(effort):
                attributes |= {"actuatorfrclimited": "true", "actuatorfrcrange": [-effort, effort]}
        if kind in ("ball", "hinge"):
            attributes["pos"] = joint.group.point  # type: ignore[attr-defined]
        _add(element, "joint", name=joint.name, type=kind, **attributes)

    def inertial(self, element: Any, body: Body, moves: bool) -> None:
        """Along principal axes, whose moments obey the triangle inequality that MuJoCo checks to the bit."""
        inertia = body.inertia
        if not moves and inertia.is_massless:
            return
        # eigh gives an orthogonal R, perhaps a reflection; and round-off may break the triangle inequality
        moments, R = np.linalg.eigh(np.asarray(inertia.rotational, float))
        if not min(moments[0], inertia.mass) >= LEAST_MOMENT:
            self.refuse(
                f"body {body.name!r} has mass {inertia.mass:g} and principal moments {moments.tolist()}",
                f"MuJoCo wants more than {LEAST_MOMENT:g} of each; give it some",
            )
        if moments[0] + moments[1] < moments[2] <= (moments[0] + moments[1]) * (1 + 1e-12):
            moments[2] = moments[0] + moments[1]
        R[:, 0] *= np.linalg.det(R)
        place = _at(SE3.motion(R, inertia.com))
        _add(element, "inertial", mass=inertia.mass, diaginertia=moments, **place)

    def sites(self, element: Any, name: str, index: int) -> None:
        at_origin = [Frame(self.ends[name], index, np.eye(4))] if name in self.ends else []
        for frame in (*at_origin, *self.frames[index]):
            # loops that end at a body end at a site at its origin
            _add(element, "site", name=frame.name, **_at(frame.placement))

    def actuators(self, root: Any) -> None:
        tendons = _add(root, "tendon")
        actuators = _add(root, "actuator")
        # an actuator drives one joint, so several joints are joined by a fixed tendon
        for actuator in self.tree.actuators if isinstance(self.tree, MjcfTree) else ():
            (joint, gear), *others = actuator.gears.items()
            attributes: dict[str, Any] = {"joint": joint, "gear": gear}
            if others:
                attributes = {"tendon": f"{actuator.name}_tendon"}
                tendon = _add(tendons, "fixed", name=attributes["tendon"])
                for of, coefficient in actuator.gears.items():
                    _add(tendon, "joint", joint=of, coef=coefficient)
            attributes |= {"gainprm": actuator.gain, "biastype": "affine", "biasprm": actuator.bias}
            for word, limits in (("ctrl", actuator.control_range), ("force", actuator.force_range)):
                if np.isfinite(limits).any():
                    attributes |= {f"{word}limited": "true", f"{word}range": limits}
            _add(actuators, "general", name=actuator.name, **attributes)


def _add(parent: Any, tag: str, **attributes: Any) -> Any:
    """A child of an element; its attributes are text, or numbers, which are written with all their digits."""
    texts = {name: x if isinstance(x, str) else _row(x) for name, x in attributes.items()}
    return ElementTree.SubElement(parent, tag, texts)


def _row(numbers: Any) -> str:
    """Numbers with all their digits, separated by blanks."""
    return " ".join(repr(float(x) + 0.0).removesuffix(".0") for x in np.ravel(numbers))


def _at(T: Array) -> dict[str, Array]:
    """Attributes pos and quat of a pose."""
    return {"pos": T[:3, 3], "quat": SO3.coordinates(np.asarray(T[:3, :3], float))}


def _origin(T: Array) -> dict[str, Array]:
    """Attributes xyz and rpy of a pose."""
    return {"xyz": T[:3, 3], "rpy": roll_pitch_yaw(np.asarray(T[:3, :3], float))}
