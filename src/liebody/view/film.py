"""A scene as pictures: triangles with depth and light, in NumPy; written as GIF, MP4 or PNG."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..base.arguments import count, number
from ..base.arguments import names as listed
from ..base.errors import SECONDS, LiebodyError, known, positive, require
from ..base.progress import Progress
from .drawing import JOINT, LAYERS, along_axis, with_at_most
from .meshes import WELD, Mesh, arrow, cylinder, divided, normals, welded
from .scene import OPENING, Scene

Array = Any
FINE = 2  # rows of samples a pixel
MOST_FACES = 40_000  # of all meshes together
CHUNK = 1_000_000  # samples at once
SHORT = 0.12  # edges of triangles, in the size of a mechanism
SUN = np.array([0.3, -0.45, 0.84])
BACKGROUND = np.array([244, 246, 248.0])
LINES = np.array([223, 228, 233.0])
LASTS = 2.0, 6.0  # a film, unless it is told [s]
COLORS = 96  # of a GIF
# pixels of figures, and how much farther they are seen from, for their names
PER_INCH = 100
ROOM = 1.25


class Painted(NamedTuple):
    """Triangles with colours in 0..255.

    vertices (n, 3), bodies (n,) on which they are, faces (m, 3), normals at their corners (m, 3, 3),
    colors (m, 3)
    """

    vertices: Array
    bodies: Array
    faces: Array
    normals: Array
    colors: Array


def image(scene: Scene, *, at: float | None = None, **looks: Any) -> Array:
    """The picture (height, width, 3) of bytes; arguments as in `View.save`."""
    return _Painter(scene, **looks).frame(_sample(scene, at))


def picture(scene: Scene, path: Path, *, at: float | None = None, **looks: Any) -> None:
    """Write a picture; arguments as in `View.save`."""
    from PIL import Image

    Image.fromarray(image(scene, at=at, **looks)).save(path)


def film(
    scene: Scene,
    path: Path,
    progress: bool | None = None,
    *,
    seconds: float | None = None,
    fps: float | None = None,
    **looks: Any,
) -> None:
    """Write a film; arguments as in `View.save`."""
    t = scene.t
    moving = path.suffix == ".gif"
    if len(t) < 2:
        raise LiebodyError(f"{path.name}: a film needs a motion; a mechanism at rest is saved as .png")
    span = float(t[-1] - t[0])
    seconds = min(max(span, LASTS[0]), LASTS[1]) if seconds is None else positive("seconds", seconds, SECONDS)
    fps = (20 if moving else 30) if fps is None else positive("fps", fps, " of frames a second")
    moments = t[0] + span * np.linspace(0, 1, max(2, round(seconds * fps)))
    painter = _Painter(scene, **looks)

    def frames() -> Iterator[Array]:
        with Progress(progress, len(moments), unit=" frames") as bar:
            for done, k in enumerate(np.searchsorted(t, moments).clip(0, len(t) - 1), start=1):
                yield painter.frame(int(k))
                bar.at(done)

    if moving:
        _gif(path, list(frames()), fps)
    else:
        _mp4(path, frames(), painter.size, fps)


def _sample(scene: Scene, at: float | None) -> int:
    """The sample next to a time, or the first."""
    return 0 if at is None else int(np.abs(scene.t - number("at", at)).argmin())


def figure(scene: Scene, names: Sequence[str], at: float | None, **looks: Any) -> Any:
    """The picture as a figure of matplotlib, with names in columns beside it; as `View.figure` says."""
    require("pictures with names", "matplotlib", "PIL", extra="view")
    from .picture import Picture

    painter = _Painter(scene, **looks)
    painter.away *= ROOM
    width, height = painter.size
    k = _sample(scene, at)
    canvas = Picture(figsize=(width / PER_INCH, height / PER_INCH), dpi=PER_INCH)
    axis = canvas.add_axes((0, 0, 1, 1))
    axis.imshow(painter.frame(k))
    axis.set_axis_off()
    named = scene.drawing.named
    names = listed(names)
    for kind in names:
        if kind not in named:
            raise LiebodyError(f"there are no names of {kind!r}; there are {', '.join(named)}")
    marked = [
        (name, color, painter.place(0, k, body, point))
        for kind in names
        for name, body, point, color in named[kind]
    ]
    low, high = painter.extent(k)
    # names in two columns, left and right of the middle of the marked points
    middle = np.mean([place[0] for *_, place in marked]) if marked else 0.0
    for right, edge in ((False, low - 0.04 * width), (True, high + 0.04 * width)):
        column = sorted((x for x in marked if (x[2][0] >= middle) == right), key=lambda x: x[2][1])
        rows = _apart(np.array([x[2][1] for x in column]), 0.045 * height, 0.04 * height, 0.96 * height)
        style: dict[str, Any] = {
            "ha": "left" if right else "right",
            "va": "center",
            "fontsize": 9,
            "arrowprops": {"arrowstyle": "-", "color": JOINT, "lw": 0.6, "shrinkA": 0, "shrinkB": 0},
            "bbox": {"fc": BACKGROUND / 255, "ec": "none", "alpha": 0.8, "pad": 1.5},
        }
        for (name, color, place), row in zip(column, rows, strict=True):
            axis.annotate(name, place, (np.clip(edge, 0.12 * width, 0.88 * width), row), color=color, **style)
            axis.plot(*place, "o", ms=3.5, mfc=color, mec="white", mew=0.6)
    axis.set(xlim=(0, width), ylim=(height, 0))
    return canvas


def _apart(rows: Array, least: float, first: float, last: float) -> Array:
    """Rows (n,) in their order, moved so that they are at least so far apart, within a picture."""
    for _ in range(100):
        # neighbours that are too near push each other apart by half of their overlap
        overlap = np.maximum(0, least - np.diff(rows))
        rows = rows + 0.5 * (np.concatenate([[0], overlap]) - np.concatenate([overlap, [0]]))[: len(rows)]
        rows = rows.clip(first, last)
    return rows


def _gif(path: Path, frames: list[Array], fps: float) -> None:
    from PIL import Image

    # one palette for the film, from a dozen frames: colours do not flicker
    some = np.concatenate(frames[:: max(1, len(frames) // 12)])
    palette = Image.fromarray(some).quantize(COLORS, Image.Quantize.MEDIANCUT)
    first, *rest = [Image.fromarray(f).quantize(palette=palette, dither=Image.Dither.NONE) for f in frames]
    first.save(path, save_all=True, append_images=rest, duration=round(1000 / fps), loop=0, optimize=True)


def _mp4(path: Path, frames: Iterator[Array], size: tuple[int, int], fps: float) -> None:
    import imageio_ffmpeg

    writer = imageio_ffmpeg.write_frames(str(path), size, fps=fps, macro_block_size=2, quality=7)
    writer.send(None)
    for frame in frames:
        writer.send(np.ascontiguousarray(frame))
    writer.close()


class _Painter:
    """Draws a scene as it is at one of its samples."""

    def __init__(
        self, scene: Scene, width: int = 800, height: int | None = None, layers: Sequence[str] = ()
    ) -> None:
        width = count("width", width, 2)
        height = max(2, round(width * 9 / 16 / 2) * 2) if height is None else count("height", height, 2)
        self.scene = scene
        self.size = (width, height)
        self.shape = (FINE * height, FINE * width)
        shown = {*scene.shown, *listed(layers)}
        for name in shown:
            if name not in LAYERS:
                raise LiebodyError(f"there is no layer {name!r}; {known(LAYERS, name)}")
        solids, _ = with_at_most([s for s in scene.solids if s.layer in shown], MOST_FACES)
        self.still = _joined(
            [_painted(s.mesh, s.placement, s.body, s.color, SHORT * scene.size) for s in solids]
        )
        self.ground: tuple[Any, Any] = (None, None)
        self.cylinder, self.arrow = (
            _painted(mesh, np.eye(4), 0, "#000000") for mesh in (cylinder(), arrow())
        )
        self.paths = [
            scene.poses[:, :, body, :3, :3] @ point + scene.poses[:, :, body, :3, 3]
            for body, point in scene.traces
        ]
        # axes of the camera in the world, and its focal length in samples
        back = scene.camera / np.linalg.norm(scene.camera)
        right = np.cross([0, 0, 1.0], back)
        right /= np.linalg.norm(right)
        self.axes = np.stack([right, np.cross(back, right), back])
        self.focus = self.shape[0] / 2 / np.tan(np.radians(OPENING) / 2)
        self.away = scene.camera * max(1.0, 1.5 * height / width)

    def frame(self, k: int) -> Array:
        """(height, width, 3) of bytes."""
        from PIL import Image, ImageDraw, ImageFont

        self.eye = self.scene.path[k] + self.away
        # the floor is drawn again only where the camera moves
        if not np.array_equal(self.ground[0], self.eye):
            self.ground = self.eye, self._floor().astype(np.float32)
        self.color = self.ground[1].copy()
        self.depth = np.zeros(self.shape[0] * self.shape[1])
        members = range(len(self.scene.poses))
        drawn = [_joined([self._solids(m, k), *self._rods(m, k), *self._forces(m, k)]) for m in members]
        if self.scene.floor is not None:
            for painted in drawn:
                self._shadow(painted)
        for m, painted in enumerate(drawn):
            self._paint(painted, faint=self.scene.faint and m > 0)
            for path in self.paths:
                self._trace(path[m, : k + 1], self.scene.faint and m > 0)
        h = self.shape[0] // FINE
        image = self.color.reshape(*self.shape, 3)
        # each pixel is the mean of its samples
        total = sum(image[i::FINE, j::FINE] for i in range(FINE) for j in range(FINE))
        smooth = (total / FINE**2).clip(0, 255).astype(np.uint8)
        if len(self.scene.t) == 1:
            return smooth
        image = Image.fromarray(smooth)
        text = f"{self.scene.t[k]:.2f} s"
        font = ImageFont.load_default(max(12, h // 28))
        ImageDraw.Draw(image).text((h // 30, h // 36), text, "#5b6470", font)
        return np.asarray(image)

    def extent(self, k: int) -> tuple[float, float]:
        """The first and the last column of the first member in the picture."""
        parts = [self._solids(0, k), *self._rods(0, k)]
        columns = self._seen(np.concatenate([x.vertices for x in parts]))[0][:, 0] / FINE
        return columns.min(initial=np.inf), columns.max(initial=-np.inf)

    def place(self, m: int, k: int, body: int, point: Array) -> Array:
        """Column and row (2,) in the picture of a point of a body."""
        T = self.scene.poses[m, k, body]
        return self._seen(T[:3, :3] @ point + T[:3, 3])[0] / FINE

    # -- triangles of a sample -------------------------------------------------------------------------------

    def _solids(self, m: int, k: int) -> Painted:
        T = self.scene.poses[m, k]
        still = self.still
        R = T[still.bodies, :3, :3]
        p = T[still.bodies, :3, 3]
        turned = np.einsum("mij,mkj->mki", T[still.bodies[still.faces[:, 0]], :3, :3], still.normals)
        return still._replace(vertices=np.einsum("nij,nj->ni", R, still.vertices) + p, normals=turned)

    def _rods(self, m: int, k: int) -> Iterator[Painted]:
        T = self.scene.poses[m, k]
        for rod in self.scene.drawing.rods:
            a, b = (T[i, :3, :3] @ x + T[i, :3, 3] for i, x in ((rod.a, rod.on_a), (rod.b, rod.on_b)))
            if np.linalg.norm(b - a) > 1e-9:
                size = np.array([rod.radius, rod.radius, np.linalg.norm(b - a)])
                yield _placed(self.cylinder, (a + b) / 2, b - a, size, rod.color)

    def _forces(self, m: int, k: int) -> Iterator[Painted]:
        T = self.scene.poses[m, k]
        for body, point, forces in self.scene.forces:
            F = forces[m, k]
            at = T[body, :3, :3] @ point + T[body, :3, 3]
            length = min(self.scene.arrow_scale * float(np.linalg.norm(F)), self.scene.size)
            if length > 1e-3 * self.scene.size:
                yield _placed(self.arrow, at, F, np.full(3, length), "#d2341f")

    # -- how it is drawn -------------------------------------------------------------------------------------

    def _seen(self, x: Array) -> tuple[Array, Array]:
        """Columns and rows (..., 2) of points (..., 3), and one over their distances (...)."""
        x = (x - self.eye) @ self.axes.T
        near = 1 / np.maximum(-x[..., 2], 1e-6 * self.scene.size)
        h, w = self.shape
        return np.stack(
            [w / 2 + self.focus * x[..., 0] * near, h / 2 - self.focus * x[..., 1] * near], -1
        ), near

    def _floor(self) -> Array:
        """The background with a grid on the floor, (rows * columns, 3)."""
        h, w = self.shape
        image = np.tile(BACKGROUND, (h * w, 1))
        if self.scene.floor is None:
            return image
        y, x = np.mgrid[:h, :w] + 0.5
        rays = (
            np.stack([(x - w / 2) / self.focus, (h / 2 - y) / self.focus, -np.ones((h, w))], -1) @ self.axes
        )
        # where the ray of each sample meets the floor; lines are as wide as a pixel there, and fade far away
        down = (self.scene.floor - self.eye[2]) / np.where(rays[..., 2] < -1e-6, rays[..., 2], np.inf)
        at = self.eye[:2] + down[..., None] * rays[..., :2]
        cell = self.scene.cell
        wide = 0.8 * FINE * down / self.focus / cell  # half of a line, on the floor, in cells
        off = np.abs(at / cell - np.round(at / cell)).min(axis=-1)
        fade = np.exp(-(((at - self.scene.path[0, :2]) / (7 * self.scene.size)) ** 2).sum(-1))
        shown = (down > 0) * (off < wide) * np.clip(0.25 / np.maximum(wide, 1e-9), 0, 1) * fade
        return image + shown.reshape(-1, 1) * (LINES - BACKGROUND)

    def _shadow(self, painted: Painted) -> None:
        """Darken the floor where triangles are between it and the sun."""
        floor = self.scene.floor or 0.0
        x = painted.vertices
        # vertices move along the rays of the sun down to the floor
        fallen = x - (np.maximum(x[:, 2] - floor, 0) / SUN[2])[:, None] * SUN
        fallen[:, 2] = floor
        at, near = self._seen(fallen)
        dark = np.zeros(len(self.color), bool)
        for places, _, _ in self._samples(at[painted.faces], near[painted.faces]):
            dark[places] = True
        self.color[dark] = np.minimum(self.color[dark], 0.86 * BACKGROUND)

    def _paint(self, painted: Painted, faint: bool) -> None:
        corners = painted.vertices[painted.faces]
        to_eye = self.eye - corners
        to_eye /= np.linalg.norm(to_eye, axis=-1, keepdims=True)
        # normals towards the eye: meshes may be open, or turned inside out
        n = painted.normals * np.where((painted.normals * to_eye).sum(-1) < 0, -1.0, 1.0)[..., None]
        half = to_eye + SUN
        half /= np.linalg.norm(half, axis=-1, keepdims=True)
        # ambient and diffuse light, and a shine where the sun is mirrored (Blinn)
        light = 0.62 + 0.14 * n[..., 2] + 0.42 * np.maximum(n @ SUN, 0)
        shine = 45 * np.maximum((n * half).sum(-1), 0) ** 40
        shades = painted.colors[:, None] * light[..., None] + shine[..., None]
        if faint:
            shades = 0.3 * shades + 0.7 * BACKGROUND
        at, near = self._seen(painted.vertices)
        for places, weights, which in self._samples(at[painted.faces], near[painted.faces]):
            depth = (weights * near[painted.faces][which]).sum(-1)
            self._put(places, depth, (weights[..., None] * shades[which]).sum(-2))

    def _samples(self, at: Array, near: Array) -> Iterator[tuple[Array, Array, Array]]:
        """Places in the picture, weights of the corners (.., 3) and numbers of the triangles that cover them.

        Triangles of about one size go together: each with a square of samples around it.
        """
        h, w = self.shape
        # the square of samples around a triangle; those behind the camera are left out
        low = np.floor(at.min(axis=1)).clip(-1, [w, h])
        high = np.ceil(at.max(axis=1)).clip(-1, [w, h])
        extent = (high - low).max(axis=1)
        behind = near.max(axis=1) > 0.5 / (1e-6 * self.scene.size)
        classes = np.where((extent > 0) & ~behind, np.ceil(np.log2(np.maximum(extent, 1))), -1).astype(int)
        for size in range(classes.max(initial=-1) + 1):
            (members,) = np.nonzero(classes == size)
            edge = 2**size
            # as many triangles at once as fit into memory
            for part in np.array_split(members, max(1, len(members) * edge**2 // CHUNK)):
                y, x = np.mgrid[:edge, :edge].reshape(2, -1)
                px = low[part, 0, None] + x
                py = low[part, 1, None] + y
                a, b, c = (at[part, i, None] for i in range(3))
                u = b - a
                v = c - a
                # barycentric coordinates of the middle of each sample; inside, none is negative
                area = u[..., 0] * v[..., 1] - u[..., 1] * v[..., 0]
                dx = px + 0.5 - a[..., 0]
                dy = py + 0.5 - a[..., 1]
                safe = np.where(area == 0, 1.0, area)
                second = (dx * v[..., 1] - dy * v[..., 0]) / safe
                third = (u[..., 0] * dy - u[..., 1] * dx) / safe
                first = 1 - second - third
                inside = (first >= 0) & (second >= 0) & (third >= 0) & (area != 0)
                i, j = np.nonzero(inside & (px >= 0) & (py >= 0) & (px < w) & (py < h))
                weights = np.stack([first[i, j], second[i, j], third[i, j]], axis=-1)
                yield (py[i, j] * w + px[i, j]).astype(int), weights, part[i]

    def _put(self, places: Array, depth: Array, colors: Array) -> None:
        """Colour the places where nothing nearer is."""
        nearer = depth > self.depth[places]
        # far ones first: of several at one place the nearest is written last
        order = np.flatnonzero(nearer)[np.argsort(depth[nearer], kind="stable")]
        self.depth[places[order]] = depth[order]
        self.color[places[order]] = colors[order]

    def _trace(self, path: Array, faint: bool) -> None:
        """A path (nt, 3) as a line."""
        if len(path) < 2:
            return
        at, near = self._seen(path)
        # dots along each piece, at most a sample apart, a few samples wide
        steps = np.maximum(1, np.ceil(np.abs(np.diff(at, axis=0)).max(axis=1))).astype(int)
        along = np.concatenate([k + np.arange(n) / n for k, n in enumerate(steps)])
        h, w = self.shape
        k = along.astype(int)
        s = (along % 1)[:, None]
        dots = at[k] + s * (at[k + 1] - at[k])
        depth = near[k] + s[:, 0] * (near[k + 1] - near[k])
        for off in np.array(np.meshgrid(range(FINE + 1), range(FINE + 1))).reshape(2, -1).T - FINE / 2:
            x, y = np.round(dots + off).astype(int).T
            seen = (x >= 0) & (y >= 0) & (x < w) & (y < h)
            tint = np.array([200, 100, 30.0]) if not faint else np.array([232, 205, 180.0])
            self._put(y[seen] * w + x[seen], depth[seen], np.broadcast_to(tint, (int(seen.sum()), 3)))


def _painted(mesh: Mesh, placement: Array, body: int, color: str, longest: float = np.inf) -> Painted:
    placed = Mesh(mesh.vertices @ placement[:3, :3].T + placement[:3, 3], mesh.faces)
    # short edges: light and depth are interpolated between corners
    if np.isfinite(longest):
        placed = welded(divided(placed, longest), 10 * WELD * longest)
    tint = [int(color[i : i + 2], 16) for i in (1, 3, 5)]
    tints = np.broadcast_to(np.array(tint, float), (len(placed.faces), 3))
    return Painted(placed.vertices, np.full(len(placed.vertices), body), placed.faces, normals(placed), tints)


def _placed(shape: Painted, at: Array, along: Array, size: Array, color: str) -> Painted:
    """A body of revolution with z along a direction."""
    R = along_axis(along)[:3, :3]
    body = _painted(Mesh(shape.vertices * size @ R.T + at, shape.faces), np.eye(4), 0, color)
    return body._replace(normals=shape.normals @ R.T)


def _joined(parts: list[Painted]) -> Painted:
    none = np.zeros((0, 3))
    parts = [Painted(none, np.zeros(0, int), none.astype(int), np.zeros((0, 3, 3)), none), *parts]
    # faces count vertices from the first part on
    shifts = np.cumsum([0, *(len(part.vertices) for part in parts)])
    faces = [part.faces + shift for part, shift in zip(parts, shifts, strict=False)]
    vertices, bodies, _, corners, colors = (np.concatenate(x) for x in zip(*parts, strict=True))
    return Painted(vertices, bodies, np.concatenate(faces), corners, colors)
