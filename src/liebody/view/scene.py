"""A drawing in motion: where its bodies are over time, in one simulation or several, and who looks on."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from ..base.arguments import floats, names, wrong_shape
from ..base.concurrency import cached_property
from ..base.errors import ModelError
from ..bodies import Parametric, Tree, labels_of, parameters_of, with_values
from ..compiler import FlatLayout, Kernel, traced
from ..dynamics import body_poses
from ..scalars.linear import matvec
from .drawing import BODIES, CENTRE, FRAMES, GROUND, Drawing, Solid, drawing_of, scaled
from .meshes import sphere

Array = Any
# of the poses that a page holds
MOST_SAMPLES = 1500
MOST_BYTES = 1_400_000
BYTES = 28  # of a pose
VIEW = (0.75, -1.55, 0.55)  # from where the camera looks
OPENING = 32.0  # of the camera, from below to above [deg]
FAR = 10  # radii of a mechanism that it travels, so that the camera goes along
APART = 1.25  # members side by side, in their width
DIRECTIONS = np.array([x for x in np.ndindex(3, 3, 3) if x != (1, 1, 1)]).T - 1.0


@dataclass(frozen=True, eq=False)
class Scene:
    """A drawing with the poses of its bodies over time.

    Bodies count from 0, the world, and end with the centre of mass.

    t          times (nt,)                                                                       [s]
    poses      (members, nt, n + 2, 4, 4)
    faint      whether members after the first are drawn faintly
    energies   by name, (members, nt) [J]
    forces     (body, point (3,), forces (members, nt, 3) in the world's axes [N])
    traces     (body, point (3,)) whose paths are drawn
    floor      height [m]; None: no floor
    note       remarks for the title, such as members that are left out
    """

    title: str
    drawing: Drawing
    t: Array
    poses: Array
    faint: bool
    energies: dict[str, Array]
    forces: list[tuple[int, Array, Array]]
    traces: list[tuple[int, Array]]
    shown: tuple[str, ...]
    note: str = ""

    @property
    def solids(self) -> list[Solid]:
        """The solids of the drawing, and a mark at the centre of mass."""
        mark = Solid(self.poses.shape[2] - 1, sphere(), scaled(0.025 * self.size), "#d11a4a", CENTRE)
        return [*self.drawing.solids, mark]

    @property
    def _some(self) -> Array:
        """A hundred samples at most."""
        return np.unique(np.linspace(0, len(self.t) - 1, min(len(self.t), 100)).round().astype(int))

    @cached_property
    def outline(self) -> Array:
        """The outermost points of solids at some times, (members, times, points, 3)."""
        clouds = []
        some = self._some
        for solid in self.drawing.solids:
            if solid.layer in self.shown and solid.layer != GROUND:
                v = solid.mesh.vertices @ solid.placement[:3, :3].T + solid.placement[:3, 3]
                # the outermost vertices along 26 directions stand for the mesh
                v = v[np.unique((v @ DIRECTIONS).argmax(axis=0))]
                T = self.poses[:, some, solid.body]
                clouds.append(np.einsum("...ij,pj->...pi", T[..., :3, :3], v) + T[..., None, :3, 3])
        return np.concatenate(clouds, axis=2) if clouds else self.poses[:, some, 1:, :3, 3]

    @property
    def bounds(self) -> tuple[Array, Array]:
        """The corners of the box around everything, at all times, (3,) each."""
        x = self.outline.reshape(-1, 3)
        return x.min(axis=0), x.max(axis=0)

    @cached_property
    def size(self) -> float:
        """The radius of the first member at the start  [m]"""
        return float(np.linalg.norm(np.ptp(self.outline[0, 0], axis=0)) / 2) or 1.0

    @cached_property
    def floor(self) -> float | None:
        """The height of the floor: of a contact, of the world's origin if nothing is lower, or below all.

        A body alone has none, nor has a mechanism that falls far.
        """
        if self.drawing.floor is not None or self.drawing.single or np.ptp(self.path[:, 2]):
            return self.drawing.floor
        # a little below the lowest point, unless that is near the world's origin
        lowest = float(self.bounds[0][2])
        return 0.0 if lowest > -0.03 * self.size else lowest - 0.02 * self.size

    @cached_property
    def path(self) -> Array:
        """The point that the camera looks at (nt, 3): the middle, or a mechanism that travels far."""
        low, high = self.bounds
        middle = np.broadcast_to((low + high) / 2, (len(self.t), 3))
        travel = np.ptp(self.poses[0, :, -1, :3, 3], axis=0)
        far = travel > FAR * self.size
        return np.where(far, self.poses[0, :, -1, :3, 3], middle)

    @cached_property
    def camera(self) -> Array:
        """From where the camera looks at the path, (3,): across the plane of planar motions, or aside."""
        # a planar motion is seen from aside of its plane, any other from a corner
        spread = np.ptp(self.poses[..., 1:, :3, 3].reshape(-1, 3), axis=0)
        thin = int(np.argmin(spread))
        flat = len(self.t) > 1 and spread[thin] < 1e-6 * spread.max() and thin < 2
        view = np.array(((1.0, -0.12, 0.12), (0.12, -1.0, 0.12))[thin] if flat else VIEW)
        view /= np.linalg.norm(view)
        across = np.cross(view, [0, 0, 1.0])
        across /= np.linalg.norm(across)
        # so far away that all points are within the opening, in width and in height
        off = self.outline - self.path[self._some, None]
        slope = np.tan(np.radians(OPENING) / 2)
        near = off @ view
        wide = np.abs(off @ across)
        high = np.abs(off @ np.cross(across, view))
        distance = max(float((w / (slope * k) + near).max()) for w, k in ((wide, 1.5), (high, 0.85)))
        return 1.1 * max(distance, self.size) * view

    @property
    def cell(self) -> float:
        """The edge of the squares on the floor: 1, 10, 0.1, ...  [m]"""
        return float(10 ** np.floor(np.log10(2 * self.size)))

    @property
    def arrow_scale(self) -> float:
        """Metres a newton: nine of ten forces are shorter than 0.7 `size`, so that impacts do not hide them.

        Arrows of the others end at `size`.
        """
        norms = np.concatenate([np.zeros(0), *(np.linalg.norm(f, axis=-1).ravel() for *_, f in self.forces)])
        usual = float(np.quantile(norms[norms > 0], 0.9)) if norms.any() else 0.0
        return 0.7 * self.size / usual if usual else 0.0


def scene_of(system: Any, motion: Any, members: int, ghosts: bool, trace: Sequence[str] | None) -> Scene:
    """The scene of a system in a motion; arguments as in `view`."""
    drawing = drawing_of(system)
    t, q = _motion(system, motion)
    rows = q.reshape(math.prod(q.shape[:-2]), *q.shape[-2:])
    chosen = np.unique(np.linspace(0, len(rows) - 1, min(members, len(rows))).round().astype(int))
    drawings = _drawings(system, motion, chosen) or [drawing]
    drawing = drawings[0]
    n = len(drawing.inertias) + 2
    # a page holds so many bytes of poses: fewer samples for more bodies and members
    most = min(MOST_SAMPLES, max(2, MOST_BYTES // (BYTES * n * len(chosen))))
    kept = np.arange(len(t))
    if len(t) > most:
        kept = np.unique(np.searchsorted(t, np.linspace(t[0], t[-1], most)).clip(0, len(t) - 1))
    rows = _held(rows[chosen][:, kept])
    if len(drawings) == 1:
        poses = _with_world_and_centre(drawing, np.asarray(drawing.poses(rows), float))
    else:
        pairs = zip(drawings, rows, strict=True)
        poses = np.stack([_with_world_and_centre(x, np.asarray(x.poses(y), float)) for x, y in pairs])
    if not ghosts and len(chosen) > 1:
        poses = _side_by_side(poses, rows.shape[0])
    batch = len(q.shape) - 2

    def of(values: Any) -> Array:
        flat = np.asarray(values, float)
        return np.nan_to_num(flat.reshape(-1, *flat.shape[batch:])[chosen][:, kept])

    outputs = getattr(motion, "outputs", {})
    energies = {
        name: of(getattr(motion, name, outputs.get(f"{name}_energy")))
        for name in ("kinetic", "potential")
        if hasattr(motion, name) or f"{name}_energy" in outputs
    }
    forces = [
        (*_point(drawing, point), of(outputs[name])[..., k, :])
        for name, points in drawing.contacts.items()
        if name in outputs
        for k, point in enumerate(points)
    ]
    # paths of the named points, or of the tip
    tip = [drawing.tip] if drawing.tip and len(t) > 1 else []
    named = tip if trace is None else names(trace)
    metadata = getattr(motion, "metadata", {})
    title = " · ".join(str(x) for x in (drawing.name, metadata.get("method", "")) if x)
    notes = [f"{len(chosen)} of {math.prod(q.shape[:-2])} members"] if len(chosen) > 1 else []
    if len(drawings) > 1:
        notes.append("bodies have the size of those of the first")
    return Scene(
        title, drawing, t[kept], poses, ghosts, energies, forces, [_point(drawing, name) for name in named],
        (BODIES, GROUND, *([FRAMES] if drawing.single else [])), ", ".join(notes),
    )  # fmt: skip


def _drawings(system: Any, motion: Any, chosen: Array) -> list[Drawing]:
    """The drawing of each of these members of a run, where members differ in parameters."""
    parameters = getattr(motion, "parameters", None) or {}
    tree = system if isinstance(system, Tree) else getattr(system, "tree", None)
    known = parameters_of(tree) if tree is not None else getattr(system, "parameters", {})
    flat = {
        name: np.reshape(x, (-1, *np.shape(x)[np.ndim(motion.q) - 2 :]))
        for name, x in parameters.items()
        if name in known
    }
    if not flat or (tree is None and not isinstance(system, Parametric)):
        return []
    members = [{name: x[i] for name, x in flat.items()} for i in chosen]
    if tree is None:
        return [drawing_of(system.with_parameters(values)) for values in members]
    layout = FlatLayout("parameter", members[0])

    def poses(p: Array, q: Array) -> Array:
        return body_poses(with_values(tree, layout.named(p)), q)

    shapes = {"parameters": layout.size, "q": tree.nq}
    # members differ in numbers only: one kernel, which takes them as an input
    kernel = Kernel(partial(traced, poses, shapes, "poses"))
    drawings = []
    for values in members:
        member_tree = with_values(tree, values)
        if system is not tree:
            system = copy.copy(system)
            system.tree = member_tree
        at = partial(kernel, layout.values(values, ()))
        drawings.append(replace(drawing_of(member_tree if system is tree else system), poses=at))
    return drawings


def _motion(system: Any, motion: Any) -> tuple[Array, Array]:
    """Times (nt,) and q (..., nt, nq) of a run or a solution, of configurations, or of where it starts."""
    group = getattr(system, "group", system)
    if motion is None or isinstance(motion, Mapping):
        start = getattr(system, "guess", None)  # of systems with constraints, whose loops it nearly closes
        start = group.neutral() if start is None else start
        motion = start if motion is None else labels_of(system)[0].filled(motion, start)
    runs = hasattr(motion, "q") and hasattr(motion, "t")
    q = floats("q", motion.q if runs else motion, finite=False)
    if q.ndim < 1 + runs or q.shape[-1] < group.nq or 0 in q.shape[:-1]:
        raise wrong_shape("q", q.shape, f"(..., {group.nq}), or a run of this system")
    if not runs:
        return np.zeros(1), q[..., None, :]
    t = np.asarray(motion.t, float)
    return (t[::-1], q[..., ::-1, :]) if len(t) > 1 and t[-1] < t[0] else (t, q)


def _held(q: Array) -> Array:
    """q (members, nt, nq), where the last finite state replaces states that are not finite."""
    good = np.isfinite(q).all(axis=-1)
    if not good[:, 0].all():
        raise ModelError("a motion without a finite state at its start cannot be drawn")
    last = np.maximum.accumulate(np.where(good, np.arange(q.shape[1]), 0), axis=1)
    return np.take_along_axis(q, last[..., None], axis=1)


def _with_world_and_centre(drawing: Drawing, T: Array) -> Array:
    """Poses (..., n, 4, 4) with the world before them and a frame at the centre of mass after them."""
    ones = np.broadcast_to(np.eye(4), (*T.shape[:-3], 1, 4, 4))
    # without masses, the mean of the bodies
    weights = drawing.masses if drawing.masses.any() else np.ones(T.shape[-3])
    centres = matvec(T[..., :3, :3], drawing.coms) + T[..., :3, 3]
    centre = ones.copy()
    centre[..., 0, :3, 3] = np.einsum("n,...ni->...i", weights, centres) / (weights.sum() or 1.0)
    return np.concatenate([ones, T, centre], axis=-3)


def _side_by_side(poses: Array, members: int) -> Array:
    """The members in a row along x, each with the parts that are fixed to the world."""
    width = APART * max(float(np.ptp(poses[..., 1:, 0, 3])), 0.6 * float(np.ptp(poses[..., 1:, 2, 3])), 0.1)
    moved = poses.copy()
    moved[..., 0, 3] += (width * (np.arange(members) - (members - 1) / 2))[:, None, None]
    return moved


def _point(drawing: Drawing, name: str) -> tuple[int, Array]:
    if name not in drawing.points:
        raise ModelError(f"there is no frame {name!r}; there are {', '.join(drawing.points)}")
    return drawing.points[name]
