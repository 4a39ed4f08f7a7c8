"""Trees made of other trees: attached, with frames and payloads, with locked joints, placed elsewhere.

Shapes, loops, transmissions, actuators and keyframes of a description follow the bodies and joints.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from ..base.arguments import floats, wrong_shape
from ..base.errors import ArgumentError, ModelError
from ..base.texts import check_name, few
from ..bodies import WORLD, Body, Frame, Joint, SpatialInertia, Tree, TreeBuilder
from ..bodies.tree import as_pose
from ..dynamics import FREE_FALL
from ..groups import Free
from ..io import Actuator, DescribedTree, Description, MjcfTree, Shape
from ..mechanisms.constrained import Closure, Condition
from ..scalars import Array
from ..scalars.linear import is_numeric

BEYOND = 1e-9
"""How far beyond its limits a joint may be locked, for round-off.  [rad, m]"""

Rename = Callable[[str], str]


# -- one tree, changed -----------------------------------------------------------------------------------


def with_frame(tree: Tree, name: str, parent: str, placement: Array | None) -> Tree:
    """The tree with one more frame, at a placement in an existing frame."""
    check_name("a frame", name)
    if name in _places(tree):
        raise ModelError(f"{tree.name} has a body or frame {name!r} already; give the new frame another name")
    at = tree.frame(parent)
    pose = as_pose(at.placement @ as_pose(placement, f"placement of frame {name!r}"), f"frame {name!r}")
    return replace(tree, frames={**tree.frames, name: Frame(name, at.body, pose)})


def payload_of(mass: Any, center: Array | None, inertia: Array | None) -> SpatialInertia:
    """The payload as an inertia. Raises ModelError for a payload that no body can be."""
    if isinstance(mass, SpatialInertia):
        if center is not None or inertia is not None:
            raise ArgumentError(
                "the payload is a SpatialInertia, which has a centre and an inertia already; leave center "
                "and inertia out, or give a mass"
            )
        payload = mass
    else:
        rotational = np.zeros((3, 3)) if inertia is None else inertia
        payload = SpatialInertia(mass, np.zeros(3) if center is None else center, rotational)
    payload.check("payload")
    return payload


def with_payload(tree: Tree, frame: str, payload: SpatialInertia) -> Tree:
    """The tree whose body at this frame carries an inertia, given in the frame."""
    at = tree.frame(frame)
    return _carrying(tree, at.body, payload.shift(at.placement))


def _carrying(tree: Tree, index: int, inertia: SpatialInertia) -> Tree:
    """The tree whose body number `index`, or the world (0), has an inertia more."""
    if inertia.is_massless:
        return tree
    if not index:
        return replace(tree, fixed_inertia=tree.fixed_inertia + inertia)
    body = tree.bodies[index - 1]
    loaded = replace(body, inertia=body.inertia + inertia)
    return replace(tree, bodies=(*tree.bodies[: index - 1], loaded, *tree.bodies[index:]))


def placed(tree: Tree, placement: Array) -> Tree:
    """The tree with all that is fixed to the world, or hangs on it, moved by a pose."""
    T = as_pose(placement, "placement of the base")
    if floating := _floating(tree):
        raise ModelError(
            f"{tree.name} floats by its joint {floating!r}, and has no base to place; give its pose by q, as "
            f"robot.configuration({{{floating!r}: [1, 0, 0, 0, x, y, z]}})"
        )

    def moved(pose: Array) -> Array:
        return as_pose(T @ pose, "placement of the base")

    changes: dict[str, Any] = {
        "bodies": tuple(b if b.parent else replace(b, placement=moved(b.placement)) for b in tree.bodies),
        "frames": {
            name: frame if frame.body else replace(frame, placement=moved(frame.placement))
            for name, frame in tree.frames.items()
        },
        "fixed_inertia": tree.fixed_inertia.shift(T),
    }
    if isinstance(tree, DescribedTree) and tree.description:
        changes["description"] = _moved(tree.description, lambda name: name, WORLD, T)
    return replace(tree, **changes)


# -- joints that no longer move --------------------------------------------------------------------------


def locked(tree: Tree, values: Mapping[str, Any]) -> Tree:
    """The tree in which these joints, and their followers, are fixed at values of their coordinates."""
    q = _locked_at(tree, values)
    leaders = {body.coordinates.start for body in tree.bodies if body.joint.name in values}
    fixed = [b for b in tree.bodies if b.joint.dim and b.coordinates.start in leaders]
    for body in fixed:
        _check_limits(tree, body, body.joint_coordinates(q))
    reduced = tree.welded({body.index: as_pose(body.pose(q), body.name) for body in fixed})
    still = {body.joint.name for body in fixed}
    changes: dict[str, Any] = {
        "bodies": reduced.bodies,
        "frames": reduced.frames,
        "fixed_inertia": reduced.fixed_inertia,
    }
    if isinstance(tree, DescribedTree) and tree.description:
        changes["description"] = replace(
            tree.description,
            joints=tuple(name for name in tree.description.joints if name not in still),
            transmissions=tuple(x for x in tree.description.transmissions if x.joint not in still),
        )
    if isinstance(tree, MjcfTree):
        coordinates = {
            body.joint.name: float(body.joint_coordinates(q)[0]) for body in fixed if _single(body)
        }
        actuators = [_without(actuator, coordinates) for actuator in tree.actuators]
        changes |= {
            "actuators": tuple(actuator for actuator in actuators if actuator.gears),
            "reference": _gathered(reduced, [(tree, str, tree.reference)]),
            "configurations": {
                key: _gathered(reduced, [(tree, str, x)]) for key, x in tree.configurations.items()
            },
        }
    return replace(tree, **changes)


def _locked_at(tree: Tree, values: Mapping[str, Any]) -> Array:
    """A configuration (nq,) with the values of the locked joints; the others are neutral."""
    q = np.array(tree.group.neutral(), float)
    bodies = {body.joint.name: body for body in tree.bodies}
    for name, value in values.items():
        joint = tree.joint(name)
        if joint.mimic is not None:
            raise ModelError(
                f"joint {name!r} follows {joint.mimic.joint!r} and has no coordinate; lock "
                f"{joint.mimic.joint!r}"
            )
        if not joint.dim:
            raise ModelError(f"joint {name!r} is fixed already; leave it out")
        x = floats(f"the coordinate of joint {name!r}", value)
        x = x[None] if x.ndim == 0 else x
        if x.shape != (joint.nq,):
            expected = "a single number" if joint.nq == 1 else f"({joint.nq},), all coordinates of the joint"
            raise wrong_shape(f"locked: {name!r}", np.shape(value), expected)
        q[bodies[name].coordinates] = x
    tree.group.check(q)
    return q


def _single(body: Body) -> bool:
    return body.joint.nq == 1


def _check_limits(tree: Tree, body: Body, x: Array) -> None:
    """Raise ModelError for coordinates beyond the limits of a joint."""
    joint = body.joint
    # limits of quaternions would be limits of no angle
    if joint.dim != joint.nq or not is_numeric(joint.lower, joint.upper, x):
        return
    if np.any(x < joint.lower - BEYOND) or np.any(x > joint.upper + BEYOND):
        raise ModelError(
            f"{tree.name}: joint {joint.name!r} cannot be locked at {np.asarray(x, float).tolist()}, its "
            f"limits are {joint.lower.tolist()} and {joint.upper.tolist()}; lock it within them, or take "
            "them away: robot.with_joints(['armature', 'damping', 'friction'])"
        )


def _without(actuator: Actuator, coordinates: Mapping[str, float]) -> Actuator:
    """The actuator with its other joints: those with these coordinates are fixed."""
    gears = {joint: gear for joint, gear in actuator.gears.items() if joint not in coordinates}
    # the length l = sum of gear x keeps the share of the fixed joints, as a constant force
    length = sum(gear * coordinates[joint] for joint, gear in actuator.gears.items() if joint in coordinates)
    constant, stiffness, damping = actuator.bias
    return replace(actuator, gears=gears, bias=(constant + stiffness * length, stiffness, damping))


# -- two trees, made one ---------------------------------------------------------------------------------


def attached(tree: Tree, other: Tree, frame: str, placement: Array | None, prefix: str) -> Tree:
    """The tree with the bodies of another one, whose world becomes a place on the body at `frame`.

    prefix  goes before all names of the other tree
    """
    if floating := _floating(other):
        raise ModelError(
            f"{other.name} floats by its joint {floating!r}, and cannot be attached; load it without "
            f"floating=True, or fix it by other.locked({{{floating!r}: [1, 0, 0, 0, 0, 0, 0]}})"
        )
    _check_names(tree, other, prefix)
    at = tree.frame(frame)
    T = as_pose(at.placement @ as_pose(placement, f"placement at frame {frame!r}"), f"frame {frame!r}")
    host = tree.bodies[at.body - 1].name if at.body else WORLD

    def renamed(name: str) -> str:
        return prefix + name

    tree = _carrying(tree, at.body, other.fixed_inertia.shift(T))
    builder = TreeBuilder(tree.name)
    _add(builder, tree, str, WORLD, np.eye(4))
    _add(builder, other, renamed, host, T)
    whole = replace(builder.build(check=False), fixed_inertia=tree.fixed_inertia)
    if not isinstance(tree, DescribedTree) and not isinstance(other, DescribedTree):
        return whole

    description = _joined(_description(tree), _moved(_description(other), renamed, host, T), other.name)
    parts = whole.name, whole.bodies, whole.frames
    fixed = whole.fixed_inertia
    if not isinstance(tree, MjcfTree) and not isinstance(other, MjcfTree):
        return DescribedTree(*parts, description, fixed_inertia=fixed)
    # the tree of an MJCF has closures, and its description no loops
    of_mjcf = _fields_of_mjcf(whole, tree, other, renamed)
    return MjcfTree(*parts, replace(description, loops=()), **of_mjcf, fixed_inertia=fixed)


def _fields_of_mjcf(whole: Tree, tree: Tree, other: Tree, renamed: Rename) -> dict[str, Any]:
    """Gravity, closures, configurations and actuators of a tree made of two."""
    start = _reference(tree), _reference(other)

    def configuration(first: Array, second: Array) -> np.ndarray:
        return _gathered(whole, [(tree, str, first), (other, renamed, second)])

    # a keyframe of one tree leaves the other one in its reference
    ours = {name: configuration(q, start[1]) for name, q in _of_mjcf(tree, "configurations", {}).items()}
    theirs = {
        renamed(name): configuration(start[0], q) for name, q in _of_mjcf(other, "configurations", {}).items()
    }
    added = [
        replace(x, name=renamed(x.name), gears={renamed(joint): gear for joint, gear in x.gears.items()})
        for x in _of_mjcf(other, "actuators", ())
    ]
    return {
        "gravity": _of_mjcf(tree, "gravity", np.array(FREE_FALL)),
        "loops": (*_closures(tree), *(_renamed(closure, renamed) for closure in _closures(other))),
        "reference": configuration(*start),
        "configurations": ours | theirs,
        "actuators": (*_of_mjcf(tree, "actuators", ()), *added),
    }


def prefix_of(tree: Tree, other: Tree) -> str:
    """A prefix that keeps names apart: none where they differ anyway, else the name of the other tree."""
    return f"{other.name}_" if _shared(tree, other, "") else ""


def _add(builder: TreeBuilder, tree: Tree, name: Rename, carrier: str, T: Array) -> None:
    """Add the bodies and frames of a tree whose world is fixed to a carrier at T."""
    names = [carrier, *(name(body.name) for body in tree.bodies)]
    for body in tree.bodies:
        placement = body.placement if body.parent else T @ body.placement
        builder.add(name(body.name), _named(body.joint, name), body.inertia, names[body.parent], placement)
    for frame in tree.frames.values():
        pose = frame.placement if frame.body else T @ frame.placement
        builder.frame(name(frame.name), names[frame.body], pose)
    if any(WORLD in _ends(closure) for closure in _closures(tree)) and carrier != WORLD:
        builder.frame(name(WORLD), carrier, T)


def _named(joint: Joint, name: Rename) -> Joint:
    mimic = joint.mimic and replace(joint.mimic, joint=name(joint.mimic.joint))
    return replace(joint, name=name(joint.name), mimic=mimic)


def _places(tree: Tree) -> set[str]:
    """The names of bodies and frames."""
    return {WORLD, *(body.name for body in tree.bodies), *tree.frames}


def _names(tree: Tree) -> dict[str, set[str]]:
    """The names of a tree by kinds; within a kind they differ."""
    return {
        "bodies or frames": _places(tree) - {WORLD},
        "joints": {body.joint.name for body in tree.bodies},
        "closures": {closure.name for closure in _closures(tree)},
        "actuators": {actuator.name for actuator in _of_mjcf(tree, "actuators", ())},
        "keyframes": set(_of_mjcf(tree, "configurations", {})),
    }


def _shared(tree: Tree, other: Tree, prefix: str) -> dict[str, list[str]]:
    """{kind: names that both trees have}, with a prefix before the names of the other tree."""
    of_both = _names(tree)
    theirs = _names(other)
    shared = {kind: sorted(of_both[kind] & {prefix + name for name in theirs[kind]}) for kind in theirs}
    return {kind: names for kind, names in shared.items() if names}


def _check_names(tree: Tree, other: Tree, prefix: str) -> None:
    """Raise ModelError for names that both trees would have."""
    for kind, names in _shared(tree, other, prefix).items():
        raise ModelError(
            f"{tree.name} and {other.name} both have {kind} called {few([repr(name) for name in names])}; "
            "give the names of the second one a prefix, such as prefix='left_'"
        )


# -- descriptions ----------------------------------------------------------------------------------------


def _description(tree: Tree) -> Description:
    """The description of a tree, an empty one where it has none."""
    description = tree.description if isinstance(tree, DescribedTree) else None
    return description or Description(tree.name, tree.name, (), (), Counter())


def _joined(description: Description, added: Description, name: str) -> Description:
    """One description of two; `name` calls the second robot, whose lines are lines of another file."""
    assumed = {f"{kind}, in {name}": lines for kind, lines in added.assumed.items()}
    return replace(
        description,
        links=description.links + added.links,
        shapes=description.shapes + added.shapes,
        unused=description.unused + added.unused,
        loops=description.loops + added.loops,
        joints=description.joints + added.joints,
        assumed=description.assumed | assumed,
        transmissions=description.transmissions + added.transmissions,
    )


def _moved(description: Description, name: Rename, carrier: str, T: Array) -> Description:
    """A description with other names, whose world is fixed to a carrier at T.

    Planes of the world are grounds: they stay where they are, and are no part of another body.
    """

    def end(link: str) -> str:
        return carrier if link == WORLD else name(link)

    def is_ground(x: Shape) -> bool:
        return x.link == WORLD and x.kind == "plane"

    def shape(x: Shape) -> Shape:
        moves = x.link == WORLD and not is_ground(x)
        return replace(x, link=end(x.link), placement=np.asarray(T @ x.placement if moves else x.placement))

    return replace(
        description,
        links=tuple(
            replace(
                x,
                name=name(x.name),
                parent=x.parent and name(x.parent),
                joint=x.joint and _named(x.joint, name),
            )
            for x in description.links
        ),
        shapes=tuple(shape(x) for x in description.shapes if carrier == WORLD or not is_ground(x)),
        loops=tuple(
            replace(
                x,
                name=name(x.name),
                parent=end(x.parent),
                child=end(x.child),
                on_parent=T @ x.on_parent if x.parent == WORLD else x.on_parent,
                on_child=T @ x.on_child if x.child == WORLD else x.on_child,
            )
            for x in description.loops
        ),
        joints=tuple(map(name, description.joints)),
        transmissions=tuple(
            replace(x, name=name(x.name), joint=name(x.joint), actuator=name(x.actuator))
            for x in description.transmissions
        ),
    )


def _closures(tree: Tree) -> tuple[Closure | Condition, ...]:
    return tree.closures if isinstance(tree, DescribedTree) else ()


def _ends(closure: Closure | Condition) -> Collection[str]:
    """The frames of a closure."""
    if isinstance(closure, Closure):
        return closure.a, closure.b
    return (closure.frames,) if isinstance(closure.frames, str) else closure.frames


def _renamed(closure: Closure | Condition, name: Rename) -> Closure | Condition:
    if isinstance(closure, Closure):
        return replace(closure, name=name(closure.name), a=name(closure.a), b=name(closure.b))
    return replace(closure, name=name(closure.name), frames=tuple(map(name, _ends(closure))))


def _of_mjcf(tree: Tree, name: str, otherwise: Any) -> Any:
    """A field that trees of an MJCF have."""
    return getattr(tree, name) if isinstance(tree, MjcfTree) else otherwise


def _reference(tree: Tree) -> np.ndarray:
    """The configuration in which a tree is drawn."""
    reference: np.ndarray = _of_mjcf(tree, "reference", np.zeros(0))
    return reference if reference.shape == (tree.nq,) else np.asarray(tree.group.neutral(), float)


def _gathered(tree: Tree, parts: Iterable[tuple[Tree, Rename, Array]]) -> np.ndarray:
    """The configuration of a tree from configurations of its parts, joint by joint."""
    coordinates = {
        name(body.joint.name): q[body.coordinates]
        for part, name, q in parts
        for body in part.bodies
        if body.joint.mimic is None
    }
    q = np.zeros(tree.nq)
    for body in tree.bodies:
        if body.joint.mimic is None:
            q[body.coordinates] = coordinates[body.joint.name]
    return q


def _floating(tree: Tree) -> str | None:
    """The free joint on the world, if there is one."""
    return next((b.joint.name for b in tree.bodies if not b.parent and isinstance(b.joint.group, Free)), None)
