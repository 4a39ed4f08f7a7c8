"""Report a mechanism and doubts about it: bodies, joints, masses, reach, conditioning."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..base.errors import counted
from ..bodies import Body, Joint, Tree
from ..dynamics import body_poses, center_of_mass, mass_matrix
from ..groups import Free, Revolute
from ..scalars.linear import is_numeric
from .document import counts, listed
from .mjcf import CONTACTS, GEOMS_TOUCH, UNLIMITED
from .urdf import DescribedTree

SAMPLES = 20
ILL_CONDITIONED = 1e8
TURNS = 8 * np.pi
"""Beyond four turns, limits of hinges were probably meant in degrees, up to that many of them."""
DEGREES = 720
POINT_LIKE = 1e-3
"""Radius of gyration over reach below which a body is like a point: its moments were probably left out."""


@dataclass(frozen=True, eq=False)
class TreeReport:
    """Findings of `report`; `liebody info` prints its text.

    tree          the mechanism
    mass          of all bodies [kg]
    center        its centre of mass at the neutral configuration, in the world, (3,) [m]
    reach         the farthest that a body, frame or centre of mass gets from the base, in the samples [m]
    condition     condition numbers of M, least, median and largest
    scaled        the largest condition number of M with its diagonal scaled to ones, whatever the units
    weakest       the joint with the least entry on the diagonal of M, and that entry
    findings      errors and doubts, with advice
    """

    tree: Tree
    mass: float
    center: np.ndarray
    reach: float
    condition: tuple[float, float, float]
    scaled: float
    weakest: tuple[str, float]
    findings: tuple[str, ...]

    def __str__(self) -> str:
        tree = self.tree
        mimics = sum(body.joint.mimic is not None for body in tree.bodies)
        follow = f" ({mimics} of the joints follow others)" if mimics else ""
        lines = [
            f"{tree.name}: {counted(len(tree.bodies), 'body', 'bodies')}, "
            f"{counted(tree.nv, 'degree')} of freedom{follow}, {counted(len(tree.frames), 'further frame')}",
            "",
            *_table(
                ["", "body", "on", "mass [kg]", "joint", "q", "group", "limits"],
                [_row(body, tree) for body in tree.bodies],
            ),
            "",
            *_numbers_of_joints(tree),
            *_frames(tree),
            *_order(tree),
            f"mass               {self.mass:.6g} kg, centre at {_vector(self.center)} m when neutral",
            f"reach              {self.reach:.4g} m",
        ]
        if tree.nv:
            least, median, largest = self.condition
            lines += [
                f"condition of M     {median:.2g} in the median, {least:.2g} to {largest:.2g}; "
                f"{self.scaled:.2g} with a diagonal of ones",
                f"least inertia      {self.weakest[1]:.3g}, of joint {self.weakest[0]!r}",
            ]
        if damped := [b.joint.name for b in tree.bodies if np.any(b.joint.damping)]:
            lines.append(f"damping            acts in simulations, unless joints='ideal': {listed(damped)}")
        lines += ["", "Findings" if self.findings else "Findings: none."]
        lines += [f"  - {finding}" for finding in self.findings]
        return "\n".join(lines)


def report(tree: Tree, samples: int = SAMPLES, seed: int = 0) -> TreeReport:
    """Look a mechanism over: can bodies have its inertias, is M well conditioned, are the limits filled in?

    samples   over how many random configurations, within the limits of the joints
    seed      of their random numbers
    """
    # reach and condition numbers depend on q: take them over samples of configurations
    rng = np.random.default_rng(seed)
    configurations = [_random_configuration(tree, rng) for _ in range(samples)]
    reach = max((_reach(tree, q) for q in configurations), default=0.0)
    condition = 1.0, 1.0, 1.0
    scaled = 1.0
    weakest = "", 0.0
    if tree.nv:
        matrices = np.array([mass_matrix(tree, q) for q in configurations], dtype=float)
        diagonals = np.diagonal(matrices, axis1=1, axis2=2)
        # a diagonal of ones removes the units: a large condition number then means nearly dependent motions
        scale = 1 / np.sqrt(np.where(diagonals > 0, diagonals, 1))
        conditions = np.linalg.cond(matrices)
        condition = float(conditions.min()), float(np.median(conditions)), float(conditions.max())
        scaled = float(np.linalg.cond(matrices * scale[:, :, None] * scale[:, None, :]).max())
        dof = int(diagonals.min(axis=0).argmin())
        # a follower shares its freedom with the joint that it follows, which is the one to name
        owner = next(b for b in tree.bodies if b.joint.mimic is None and b.dofs.start <= dof < b.dofs.stop)
        weakest = owner.joint.name, float(diagonals[:, dof].min())
    return TreeReport(
        tree=tree,
        mass=float(tree.mass),
        center=np.asarray(center_of_mass(tree, tree.group.neutral()), float)
        if tree.mass > 0
        else np.zeros(3),
        reach=reach,
        condition=condition,
        scaled=scaled,
        weakest=weakest,
        findings=(
            *tree.findings(),
            *_doubtful_bodies(tree, reach),
            *_doubtful_joints(tree),
            *_conditioning(condition[2], scaled, weakest),
            *_of_the_description(tree),
        ),
    )


def _random_configuration(tree: Tree, rng: np.random.Generator) -> np.ndarray:
    """A random configuration; joints of one freedom lie within their limits."""
    q = tree.group.random(rng) if tree.nq else np.zeros(0)
    for body in tree.bodies:
        joint = body.joint
        # MuJoCo, whose files are loaded as well, ignores limits from UNLIMITED on
        if (
            joint.mimic is None
            and joint.dim == joint.nq == 1
            and np.all(np.abs([joint.lower, joint.upper]) < UNLIMITED)
        ):
            q[body.coordinates] = rng.uniform(joint.lower, joint.upper)
    return q


def _reach(tree: Tree, q: np.ndarray) -> float:
    """The farthest point from the base: from the world, or from a body that floats."""
    # poses by number of the body, the world first
    poses = [np.eye(4), *np.asarray(body_poses(tree, q), float).reshape(-1, 4, 4)]
    # a body that floats is its own base: its distance from the world says nothing about the size
    base = poses[1] if tree.bodies and isinstance(tree.bodies[0].joint.group, Free) else poses[0]
    points = [pose[:3, 3] for pose in poses[1:]]
    points += [
        (poses[body.index] @ np.append(body.inertia.com, 1.0))[:3]
        for body in tree.bodies
        if body.inertia.mass
    ]
    points += [(poses[frame.body] @ frame.placement)[:3, 3] for frame in tree.frames.values()]
    return float(max((np.linalg.norm(point - base[:3, 3]) for point in points), default=0.0))


def _doubtful_bodies(tree: Tree, reach: float) -> list[str]:
    """Bodies whose radius of gyration does not fit the size of the mechanism, as with wrong units."""
    doubts = []
    points = []
    for body in tree.bodies:
        inertia = body.inertia
        if not inertia.mass and np.any(inertia.rotational):
            doubts.append(f"body {body.name!r} has rotational inertia and no mass; fill the mass in")
        if not inertia.mass > 0 or not reach:
            continue
        # the largest radius of gyration: far beyond the reach in wrong units, near zero if it was left out
        gyration = np.sqrt(max(np.linalg.eigvalsh(inertia.rotational)[-1], 0) / inertia.mass)
        if gyration > 2 * reach:
            doubts.append(
                f"body {body.name!r}: its radius of gyration, {gyration:.3g} m, is beyond the reach of the "
                f"mechanism, {reach:.3g} m; check the units of its inertia (kg m2) and of its mass (kg)"
            )
        elif gyration < POINT_LIKE * reach and len(tree.bodies) > 1:
            points.append(body.name)
    if points:
        doubts.append(
            f"bodies of mass without extent: {listed(points)}; if their rotational inertia was left out, or "
            "given in other units, supply it"
        )
    return doubts


def _doubtful_joints(tree: Tree) -> list[str]:
    """Limits that were probably forgotten or given in degrees, and properties that do not act by default."""
    still = [b.joint.name for b in tree.bodies if b.joint.dim and np.all(b.joint.lower == b.joint.upper)]
    without_speed = [b.joint.name for b in tree.bodies if b.joint.dim and np.all(b.joint.velocity_limit == 0)]
    without_effort = [b.joint.name for b in tree.bodies if b.joint.dim and np.all(b.joint.effort_limit == 0)]
    rubbing = [b.joint.name for b in tree.bodies if np.any(b.joint.friction)]
    sprung = [b.joint.name for b in tree.bodies if np.any(b.joint.stiffness)]
    doubts = []
    for joint in (b.joint for b in tree.bodies if isinstance(b.joint.group, Revolute)):
        bounds = np.concatenate([joint.lower, joint.upper])
        if np.isfinite(bounds).all() and TURNS < np.abs(bounds).max() <= DEGREES:
            doubts.append(
                f"joint {joint.name!r}: limits {bounds[0]:g} and {bounds[1]:g} rad are many turns; if "
                "degrees were meant, convert them, and leave the limits out where it turns freely"
            )
    if rubbing:
        doubts.append(
            f"dry friction does not act by itself: {listed(rubbing)}; if it matters, simulate with "
            "joints='real', or forces=[JointFriction()]"
        )
    if sprung:
        doubts.append(
            f"springs do not act by themselves: {listed(sprung)}; simulate with joints='real', or "
            "forces=[JointSpring()]"
        )
    if not tree.nv:
        doubts.append("nothing moves; if it is to fly, drive or walk, load it with a floating base")
    if still:
        doubts.append(
            f"no room to move between the limits: {listed(still)}; fill the limits in, or make them fixed"
        )
    if without_speed:
        doubts.append(f"velocity limit zero: {listed(without_speed)}; fill it in, it was probably forgotten")
    if without_effort:
        doubts.append(f"effort limit zero: {listed(without_effort)}; fill it in, unless they are passive")
    return doubts


def _conditioning(largest: float, scaled: float, weakest: tuple[str, float]) -> list[str]:
    """Doubts about M: singular in any units, or only with inertias that differ widely."""
    if scaled > ILL_CONDITIONED:
        return [
            f"M is close to singular ({scaled:.2g} with a diagonal of ones): some motion has next to no "
            "inertia; give the bodies that move mass and inertia, or the joints armature"
        ]
    if largest > ILL_CONDITIONED:
        return [
            f"inertias differ widely (condition of M {largest:.2g}): joint {weakest[0]!r} moves only "
            f"{weakest[1]:.2g}, so simulations need small steps; often a geared motor's armature is missing"
        ]
    return []


def _of_the_description(tree: Tree) -> list[str]:
    """Doubts about the file: welded links, missing meshes, assumptions, elements without effect."""
    description = tree.description if isinstance(tree, DescribedTree) else None
    if description is None:
        return []
    bodies = {body.name for body in tree.bodies}
    doubts = []
    welded = [
        # single links on fixed joints may have inertias that no body has, as the welded sum counts
        f"{link.name!r} (line {link.line})"
        for link in description.links
        if link.inertia is not None and link.name not in bodies and not link.inertia.is_physical
    ]
    if welded:
        doubts.append(
            f"inertias no body can have, of links welded to others: {', '.join(welded)}; the sums count, and "
            "are listed above if they are doubtful"
        )
    missing = sorted({s.filename for s in description.shapes if s.filename is not None and s.path is None})
    if missing:
        meshes = counted(len(missing), "mesh", "meshes")
        doubts.append(f"{meshes} not found, only a viewer misses them: {listed(missing)}")
    doubts += [
        f"left open in the file, and dynamics rest on it: {what}" for what in description.assumptions()
    ]
    near_zeros = description.near_zeros
    if near_zeros.words and not near_zeros.tolerance:
        doubts.append(f"near-zeros of CAD: load(..., snap=1e-4) would round {near_zeros.words}")
    if description.unused:
        remedy = f"; {CONTACTS}" if GEOMS_TOUCH in description.unused else ""
        doubts.append(f"elements of the file that have no effect: {counts(description.unused)}{remedy}")
    return doubts


def _order(tree: Tree) -> list[str]:
    """The order of bodies, q and v, and the order of the file if it differs."""
    if not tree.nv:
        return []
    lines = ["order              depth-first from the base; q and v follow it"]
    description = tree.description if isinstance(tree, DescribedTree) else None
    if description is not None:
        # joints that follow or were welded have no place in q, and so no order to compare
        ours = [b.joint.name for b in tree.bodies if b.joint.mimic is None and b.joint.nq]
        file = [name for name in description.joints if name in ours]
        if file != [name for name in ours if name in file]:
            lines.append(f"order in the file  {listed(file, len(file))}")
    return lines


def _row(body: Body, tree: Tree) -> list[str]:
    """The line of a body in the table of bodies."""
    joint = body.joint
    limits = ""
    if joint.mimic is not None:
        limits = f"= {body.ratio:g} {joint.mimic.joint} {body.offset:+g}"
    elif np.isfinite(joint.lower).any() or np.isfinite(joint.upper).any():
        limits = ", ".join(f"{lo:.4g} .. {hi:.4g}" for lo, hi in zip(joint.lower, joint.upper, strict=True))
    parent = tree.bodies[body.parent - 1].name if body.parent else "world"
    first = body.coordinates.start
    last = body.coordinates.stop - 1
    q = "" if joint.mimic is not None or last < first else f"{first}" if first == last else f"{first}..{last}"
    mass = f"{body.inertia.mass:.4g}"
    return [str(body.index), body.name, parent, mass, joint.name, q, _group(body), limits]


def _group(body: Body) -> str:
    """The joint's group with its axis in four digits."""
    group = body.joint.group
    axis = getattr(group, "axis", getattr(group, "normal", None))
    name = type(group).__name__
    return name if axis is None else f"{name} {_vector(axis)}"


NUMBERS = ("velocity_limit", "effort_limit", "damping", "friction", "armature", "stiffness", "rest")
"""Properties of joints beside limits: fields of `Joint`, and columns of a table."""


def _numbers_of_joints(tree: Tree) -> list[str]:
    """A row for each joint with such numbers, a column for each of them that a joint has."""

    def cell(joint: Joint, field: str) -> str:
        values = np.asarray(getattr(joint, field))
        # infinite limits and zero losses are the values of joints that state none
        stated = values[np.isfinite(values) & (values != 0)] if is_numeric(values) else values
        return ", ".join(dict.fromkeys(f"{x:.4g}" if is_numeric(x) else str(x) for x in stated))

    cells = [[b.joint.name, *(cell(b.joint, x) for x in NUMBERS)] for b in tree.bodies]
    rows = [row for row in cells if any(row[1:])]
    # columns without any number are left out
    shown = [i for i in range(len(NUMBERS) + 1) if any(row[i] for row in rows)]
    head = ["joint", *(name.replace("_", " ") for name in NUMBERS)]
    table = _table([head[i] for i in shown], [[row[i] for i in shown] for row in rows])
    return [*table, ""] if rows else []


def _frames(tree: Tree) -> list[str]:
    """Each frame that is not a body's own, with its body and its place there."""
    names = ["world", *(body.name for body in tree.bodies)]
    rows = [[f.name, names[f.body], _vector(f.placement[:3, 3])] for f in tree.frames.values()]
    return [*_table(["frame", "on", "at [m]"], rows), ""] if rows else []


def _vector(x: np.ndarray) -> str:
    """A vector in four digits; adding 0.0 makes -0 a 0."""
    return "(" + ", ".join(f"{value + 0.0:.4g}" for value in np.round(x, 12)) + ")"


def _table(head: list[str], rows: list[list[str]]) -> list[str]:
    """The lines of a table whose columns are as wide as their longest cell."""
    widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in [head, *rows]
    ]
