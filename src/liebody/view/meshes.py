"""Triangles: bodies of revolution, boxes, files of meshes, and simpler meshes of them."""

from __future__ import annotations

import io
import warnings
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..base.errors import LiebodyError, require

Array = Any
AROUND = 28  # facets of a body of revolution
MOST_LINES = 250  # of a terrain along an axis
WELD = 1e-5  # of a mesh's size: vertices closer than this are one
# cells along a mesh when it is simplified first, and how they grow
FINEST = 400
COARSER = 1.4


class ViewWarning(UserWarning):
    """Something of a mechanism is not shown as it is described: a mesh that is missing, or simplified."""


class Mesh(NamedTuple):
    """Triangles: vertices (n, 3) [m] and faces (m, 3), counted from 0, seen from outside counterclockwise."""

    vertices: Array
    faces: Array


def lathe(profile: Sequence[tuple[float, float]]) -> Mesh:
    """The surface that a profile of points (r, z), from below to above, leaves as it turns about z."""
    r, z = np.asarray(profile, float).T
    turn = np.linspace(0, 2 * np.pi, AROUND, endpoint=False)
    circle = np.stack([np.cos(turn), np.sin(turn)], axis=-1)
    rings = np.concatenate(
        [r[:, None, None] * circle, np.broadcast_to(z[:, None, None], (len(r), AROUND, 1))], 2
    )
    # two triangles between neighbouring points of neighbouring rings
    i, j = np.mgrid[: len(r) - 1, :AROUND]
    a = i * AROUND + j
    b = i * AROUND + (j + 1) % AROUND
    quads = [np.stack(x, axis=-1).reshape(-1, 3) for x in ((a, b, b + AROUND), (a, b + AROUND, a + AROUND))]
    return welded(Mesh(rings.reshape(-1, 3), np.concatenate(quads)), WELD)


@cache
def sphere() -> Mesh:
    """The unit ball."""
    turn = np.linspace(-np.pi / 2, np.pi / 2, AROUND // 2 + 1)
    return lathe(list(zip(np.cos(turn), np.sin(turn), strict=True)))


@cache
def capsule(slenderness: float) -> Mesh:
    """A cylinder along z of radius 1 between half balls, its length without them in radii."""
    turn = np.linspace(0, np.pi / 2, AROUND // 4 + 1)
    r = np.cos(turn)
    z = np.sin(turn) + slenderness / 2
    return lathe([*zip(r[::-1], -z[::-1], strict=True), *zip(r, z, strict=True)])


@cache
def cylinder() -> Mesh:
    """Radius and length 1, along z, with its centre at the origin."""
    return lathe([(0, -0.5), *((1, z) for z in np.linspace(-0.5, 0.5, 9)), (0, 0.5)])


@cache
def arrow() -> Mesh:
    """From the origin to (0, 0, 1)."""
    return lathe([(0, 0), (0.025, 0), (0.025, 0.8), (0.07, 0.8), (0, 1)])


@cache
def box() -> Mesh:
    """Edges 1, with its centre at the origin."""
    corners = np.array(np.meshgrid(*[(-0.5, 0.5)] * 3, indexing="ij")).reshape(3, -1).T
    # corners of each side counterclockwise, seen from outside
    sides = [(0, 1, 3, 2), (4, 6, 7, 5), (0, 4, 5, 1), (2, 3, 7, 6), (0, 2, 6, 4), (1, 5, 7, 3)]
    return Mesh(corners, np.array([half for a, b, c, d in sides for half in ((a, b, c), (a, c, d))]))


def terrain(heights: Array, spacing: Sequence[float], repeats: bool = True) -> Mesh:
    """Heights over a grid from (0, 0) on, to where they repeat themselves or end.

    Of more than MOST_LINES lines along an axis every second, third, ... one is shown, and the last one.
    """
    # a grid that repeats itself has one more row and column, which close the last cells
    z = np.pad(heights, (0, 1), mode="wrap") if repeats else heights
    rows, columns = (np.unique([*range(0, n, -(-n // MOST_LINES)), n - 1]) for n in z.shape)
    z = z[np.ix_(rows, columns)]
    n, m = z.shape
    x, y = np.meshgrid(spacing[0] * rows, spacing[1] * columns, indexing="ij")
    k = np.arange(n * m).reshape(n, m)
    a, b, c, d = (k[i : n - 1 + i, j : m - 1 + j].ravel() for i, j in ((0, 0), (1, 0), (1, 1), (0, 1)))
    triangles = np.concatenate([np.stack([a, b, c], axis=-1), np.stack([a, c, d], axis=-1)])
    return Mesh(np.stack([x, y, z], axis=-1).reshape(-1, 3), triangles)


def welded(mesh: Mesh, cell: float) -> Mesh:
    """The mesh with all vertices in a cube of this edge as one, in their middle; faces without area go."""
    v = mesh.vertices
    # the cube of each vertex as one integer, 21 bits an axis
    x, y, z = np.round((v - v.min(axis=0, initial=np.inf)) / cell).astype(np.int64).T  # below 2^21 each
    _, where, count = np.unique((x << 42) + (y << 21) + z, return_inverse=True, return_counts=True)
    middle = np.stack([np.bincount(where, x) for x in v.T], axis=-1) / count[:, None]
    a, b, c = faces = where[mesh.faces].T
    return Mesh(middle, faces.T[(a != b) & (b != c) & (c != a)])


def simplified(mesh: Mesh, most: int) -> Mesh:
    """The mesh with at most so many faces: vertices are clustered in cubes that grow until it is."""
    size = float(np.ptp(mesh.vertices, axis=0).max()) if len(mesh.vertices) else 1.0
    # vertices that coincide first; then coarser and coarser, until few enough faces keep an area
    coarse = welded(mesh, WELD * size)
    cell = size / FINEST
    while len(coarse.faces) > most:
        coarse = welded(mesh, cell)
        cell = cell * COARSER
    return coarse


def divided(mesh: Mesh, longest: float) -> Mesh:
    """The mesh with triangles halved at their longest edge until none is longer than this."""
    v, f = mesh
    while len(f):
        edges = np.linalg.norm(v[f] - v[np.roll(f, -1, axis=1)], axis=-1)
        (long,) = np.nonzero(edges.max(axis=1) > longest)
        if not len(long):
            break
        # each long triangle becomes two, on both sides of the middle of its longest edge
        order = (edges[long].argmax(axis=1)[:, None] + np.arange(3)) % 3
        a, b, c = np.take_along_axis(f[long], order, axis=1).T
        middle = len(v) + np.arange(len(long))
        halves = np.stack([a, middle, c], axis=-1), np.stack([middle, b, c], axis=-1)
        v = np.concatenate([v, (v[a] + v[b]) / 2])
        f = np.concatenate([np.delete(f, long, axis=0), *halves])
    return Mesh(v, f)


def normals(mesh: Mesh) -> Array:
    """Unit normals (m, 3, 3) at the corners of faces: of the surface where it is smooth, else the face's."""
    a, b, c = (mesh.vertices[mesh.faces[:, k]] for k in range(3))
    area = np.cross(b - a, c - a)
    at = np.zeros_like(mesh.vertices)
    # the normal at a vertex is the mean of its faces, by area; at sharp edges each face keeps its normal
    for k in range(3):
        np.add.at(at, mesh.faces[:, k], area)
    flat = _unit(area)[:, None]
    smooth = _unit(at)[mesh.faces]
    near = (flat * smooth).sum(axis=-1, keepdims=True) > np.cos(0.6)
    return np.where(near, smooth, flat)


def _unit(x: Array) -> Array:
    return x / np.maximum(np.linalg.norm(x, axis=-1, keepdims=True), 1e-300)


def of_file(path: Path) -> list[tuple[Mesh, str | None]]:
    """The meshes of a file (STL, OBJ, DAE, ...), in metres, each with its colour if it has one.

    Raises MissingPackage without trimesh (or pycollada, for DAE); LiebodyError where there are none.
    """
    dae = path.suffix.lower() == ".dae"
    require("meshes", "trimesh", *(["collada"] if dae else []), extra="view")
    import trimesh

    content = io.BytesIO(_without_textures(path.read_bytes())) if dae else path
    # parts stand in the scene of the file with placements; `dump` applies them
    scene: Any = trimesh.load_scene(content, file_type=path.suffix[1:].lower())
    meshes = []
    for part in scene.dump():
        if hasattr(part, "faces"):  # no lines or points
            material = getattr(part.visual, "material", None)
            color = part.visual.main_color if material is None else material.main_color
            defined = material is not None or part.visual.defined
            vertices = np.asarray(part.vertices, float)
            meshes.append(
                (Mesh(vertices, np.asarray(part.faces)), hexadecimal(color / 255) if defined else None)
            )
    if not meshes:
        raise LiebodyError("there are no triangles in it")
    return meshes


def _without_textures(dae: bytes) -> bytes:
    """COLLADA with a colour for each texture, since a part whose texture is missing would not be read."""
    root = ElementTree.fromstring(dae)
    for parent in root.iter():
        for child in list(parent):
            kind = child.tag.rpartition("}")[2]
            if kind in ("newparam", "library_images"):
                parent.remove(child)
            elif kind == "texture":
                child.tag = child.tag.replace("texture", "color")
                child.attrib = {}
                child.text = "0.7 0.7 0.7 1"
                child[:] = []
    return ElementTree.tostring(root)


def hexadecimal(color: Iterable[float]) -> str:
    """ "#rrggbb" of red, green, blue in 0..1."""
    return "#" + "".join(f"{round(255 * min(max(float(x), 0), 1)):02x}" for x in list(color)[:3])


def not_shown(what: str) -> None:
    """Say that something is not shown."""
    warnings.warn(what, ViewWarning, stacklevel=2)
