"""A reader of SDF, as far as dynamics need it: poses, links, joints, inertias, includes.

One model with links, and joints of the kinds fixed, revolute, continuous and prismatic. Poses may be relative
to any link or joint (`relative_to`); by default those of links are relative to the model, those of joints to
the child. Models of other files that a model includes are read with it, their names behind `name::`. What
would change the dynamics and is not read raises an error: nested models, other joints, axes in other frames.
"""

from __future__ import annotations

from math import inf
from pathlib import Path
from xml.etree import ElementTree
from xml.etree.ElementTree import Element, SubElement

import numpy as np

import liebody as lb
from liebody.groups import SE3, Fixed, Free, Prismatic, Revolute

MODEL = "__model__"


def read(path: Path, *, floating: bool = False, check: bool | str = True) -> lb.Tree:
    """The tree of a file; links that no joint holds are fixed to the world, or move freely if floating.

    check  of inertias, as of `TreeBuilder.build`
    """
    return _Model(_model_of(path.resolve(), ())).tree(floating, check)


def _model_of(path: Path, including: tuple[Path, ...]) -> Element:
    """The model of a file, with the links and joints of the models that it includes."""
    if path in including:
        raise lb.errors.DescriptionError(f"{path} includes itself")
    if including and not path.is_relative_to(including[0].parent):
        raise lb.errors.DescriptionError(f"{path} is included, and lies outside of {including[0].parent}")
    try:
        root = ElementTree.parse(path).getroot()
    except (ElementTree.ParseError, OSError) as error:
        raise lb.errors.DescriptionError(f"{path}: {error}") from None
    models = root.findall("model") if root.tag == "sdf" else []
    if len(models) != 1:
        raise lb.errors.DescriptionError(f"{path} has {len(models)} models in <sdf>, expected one")
    model = models[0]
    for tag in ("model", "frame"):
        if model.find(tag) is not None:
            raise lb.errors.DescriptionError(f"{path}: <{tag}> within a model is not read")
    for include in model.findall("include"):
        uri = _text(include, "uri").removeprefix("file://")
        included = _model_of((path.parent / uri).resolve(), (*including, path))
        _add(model, included, _text(include, "name") or included.get("name", "model"), include.find("pose"))
    return model


def _add(model: Element, included: Element, name: str, pose: Element | None) -> None:
    """Add links and joints of an included model to a model; poses in it are relative to its own frame."""
    origin = SubElement(model, "link", {"name": name, "frame": "true"})
    if pose is not None:
        origin.append(pose)
    for element in [*included.findall("link"), *included.findall("joint")]:
        element.set("name", f"{name}::{element.get('name', '')}")
        for tag in ("parent", "child"):
            end = element.find(tag)
            if end is not None and _text(element, tag) != "world":
                end.text = f"{name}::{_text(element, tag)}"
        at = element.find("pose")
        if at is None and element.tag == "link":
            at = SubElement(element, "pose")
        if at is not None and at.get("relative_to"):
            at.set("relative_to", f"{name}::{at.get('relative_to')}")
        elif at is not None and element.tag == "link":
            at.set("relative_to", name)
        model.append(element)


class _Model:
    def __init__(self, model: Element) -> None:
        self.name = model.get("name", "model")
        frames = {link.get("name", ""): link for link in model.findall("link")}
        self.links = {name: link for name, link in frames.items() if not link.get("frame")}
        self.joints = {joint.get("name", ""): joint for joint in model.findall("joint")}
        self.elements = {**frames, **self.joints}
        self.holder = {_text(joint, "child"): joint for joint in self.joints.values()}

    def tree(self, floating: bool, check: bool | str) -> lb.Tree:
        builder = lb.TreeBuilder(self.name)
        for name, link in self.links.items():
            joint = self.holder.get(name)
            # liebody's frame of a body is the one of its joint; SDF's frame of a link lies elsewhere
            body = self.pose(name) if joint is None else self.pose(joint.get("name", ""))
            link_in_body = SE3.inverse(body) @ self.pose(name)
            motion = self.motion(joint) if joint is not None else Free() if floating else Fixed()
            parent = "world" if joint is None else _text(joint, "parent")
            placement = SE3.inverse(self.frame_of_body(parent)) @ body
            builder.add(name, motion, _inertia(link, link_in_body), parent, placement)
            builder.frame(f"{name}_link", name, link_in_body)
        return builder.build(check)

    def frame_of_body(self, name: str) -> np.ndarray:
        """The pose of the frame that liebody gives a body, in the model."""
        if name == "world":
            return np.eye(4)
        joint = self.holder.get(name)
        return self.pose(name if joint is None else joint.get("name", ""))

    def pose(self, name: str, waiting: tuple[str, ...] = ()) -> np.ndarray:
        """The pose of a link or joint in the model."""
        if name == MODEL:
            return np.eye(4)
        element = self.elements.get(name)
        if element is None or name in waiting:
            raise lb.errors.DescriptionError(f"poses of {self.name} cannot be resolved at {name!r}")
        usual = _text(element, "child") if element.tag == "joint" else MODEL
        pose = element.find("pose")
        base = usual if pose is None else pose.get("relative_to") or usual
        return self.pose(base, (*waiting, name)) @ _transform(pose)

    def motion(self, joint: Element) -> lb.Joint:
        kind, name = joint.get("type"), joint.get("name", "")
        if kind == "fixed":
            return lb.Joint(name, Fixed())
        groups = {"revolute": Revolute, "continuous": Revolute, "prismatic": Prismatic}
        axis = joint.find("axis")
        if kind not in groups or axis is None:
            raise lb.errors.DescriptionError(f"joint {name!r} of type {kind!r} is not read")
        xyz = axis.find("xyz")
        if xyz is not None and xyz.get("expressed_in"):
            raise lb.errors.DescriptionError(
                f"joint {name!r}: an axis expressed in another frame is not read"
            )
        group = groups[kind](_numbers(xyz, 3, (0, 0, 1)))
        lower, upper = (_number(axis, f"limit/{word}", x) for word, x in (("lower", -inf), ("upper", inf)))
        damping, friction = (_number(axis, f"dynamics/{word}", 0.0) for word in ("damping", "friction"))
        return lb.Joint(name, group, lower=lower, upper=upper, damping=damping, friction=friction)


def _inertia(link: Element, placement: np.ndarray) -> lb.SpatialInertia:
    """The inertia of a link in a frame in which the link is placed."""
    inertial = link.find("inertial")
    if inertial is None:
        return lb.SpatialInertia()
    T = placement @ _transform(inertial.find("pose"))
    xx, yy, zz = (_number(inertial, f"inertia/{word}", 1.0) for word in ("ixx", "iyy", "izz"))
    xy, xz, yz = (_number(inertial, f"inertia/{word}", 0.0) for word in ("ixy", "ixz", "iyz"))
    about_center = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
    R = T[:3, :3]
    return lb.SpatialInertia(_number(inertial, "mass", 1.0), T[:3, 3], R @ about_center @ R.T)


def _transform(pose: Element | None) -> np.ndarray:
    if pose is not None and pose.get("rotation_format", "euler_rpy") != "euler_rpy":
        raise lb.errors.DescriptionError("poses with quaternions are not read")
    x, y, z, roll, pitch, yaw = _numbers(pose, 6, (0,) * 6)
    if pose is not None and pose.get("degrees") in ("true", "1"):
        roll, pitch, yaw = np.radians([roll, pitch, yaw])
    T = np.eye(4)
    T[:3, :3] = _about(2, yaw) @ _about(1, pitch) @ _about(0, roll)
    T[:3, 3] = x, y, z
    return T


def _about(axis: int, angle: float) -> np.ndarray:
    R = np.eye(3)
    i, j = (axis + 1) % 3, (axis + 2) % 3
    R[i, i] = R[j, j] = np.cos(angle)
    R[j, i] = np.sin(angle)
    R[i, j] = -R[j, i]
    return R


def _text(element: Element, tag: str) -> str:
    return (element.findtext(tag) or "").strip()


def _number(element: Element, path: str, default: float) -> float:
    return float(element.findtext(path, str(default)))


def _numbers(element: Element | None, count: int, default: tuple[float, ...]) -> list[float]:
    numbers = [float(x) for x in (element.text or "").split()] if element is not None else []
    if len(numbers) not in (0, count):
        raise lb.errors.DescriptionError(f"{element.text!r} has {len(numbers)} numbers, expected {count}")
    return numbers or list(default)
