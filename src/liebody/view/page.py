"""A scene as one file of HTML, without a network: the library that draws (three.js), a script, the data."""

from __future__ import annotations

import base64
import html
import json
import re
import zlib
from importlib.resources import files
from typing import Any

import numpy as np

from ..groups import quaternions
from .drawing import MOST_TRIANGLES, with_at_most
from .meshes import arrow, cylinder
from .scene import OPENING, Scene

Array = Any
LARGEST = 5_000_000  # bytes of a page


class PackedArrays:
    """Arrays one after the other as bytes; in the data of a page stands where each begins."""

    def __init__(self) -> None:
        self.data = bytearray()

    def put(self, array: Array, kind: str = "f4") -> dict[str, Any]:
        values = np.ascontiguousarray(array, dtype="<" + kind)
        place = {"at": len(self.data), "length": values.size, "kind": kind}
        self.data += values.tobytes()
        return place

    def text(self) -> str:
        """All of them, compressed, in letters."""
        return base64.b64encode(zlib.compress(self.data, 9)).decode()


def page_of(scene: Scene) -> str:
    """The page; meshes are simplified as far as it takes to stay below LARGEST."""
    # halve the triangles until the page is small enough
    most = MOST_TRIANGLES
    while len(page := _page(scene, most)) > LARGEST:
        most //= 2
    return page


def _page(scene: Scene, most: int) -> str:
    store = PackedArrays()
    # equal meshes are stored once; arrays go into one block of bytes, and the data names their places
    solids, total = with_at_most(scene.solids, most)
    used = {id(mesh): mesh for mesh in (cylinder(), arrow(), *(solid.mesh for solid in solids))}
    number = {key: k for k, key in enumerate(used)}
    notes = [scene.note] if scene.note else []
    if total > most:
        left = sum(len(mesh.faces) for mesh in used.values())
        notes.append(f"meshes simplified from {total} to {left} triangles")
    T = scene.poses
    data = {
        "title": scene.title,
        "note": "; ".join(notes),
        "t": store.put(scene.t, "f8"),
        "members": T.shape[0],
        "bodies": T.shape[2],
        "poses": store.put(np.concatenate([T[..., :3, 3], quaternions(T[..., :3, :3])], axis=-1)),
        "faint": scene.faint,
        "meshes": [
            [store.put(mesh.vertices), store.put(mesh.faces, "u2" if len(mesh.vertices) < 2**16 else "u4")]
            for mesh in used.values()
        ],
        "cylinder": number[id(cylinder())],
        "arrowhead": number[id(arrow())],
        "solids": [
            [number[id(s.mesh)], s.body, s.placement[:3].round(7).ravel().tolist(), s.color, s.layer]
            for s in solids
        ],
        "rods": [[r.a, list(r.on_a), r.b, list(r.on_b), r.radius, r.color] for r in scene.drawing.rods],
        "shown": [*scene.shown, "forces", "traces", "floor"],
        "energies": {name: store.put(values[0]) for name, values in scene.energies.items()},
        "forces": [[body, list(point), store.put(f)] for body, point, f in scene.forces],
        "arrow": scene.arrow_scale,
        "traces": [[body, list(point)] for body, point in scene.traces],
        "floor": scene.floor,
        "size": scene.size,
        "cell": scene.cell,
        "path": store.put(scene.path),
        "camera": {"from": scene.camera.tolist(), "opening": OPENING},
    }  # fmt: skip
    text = {
        "TITLE": html.escape(scene.title or "liebody"),
        "LIBRARY": _resource("vendor/three.min.js"),
        "SCENE": _resource("scene.js"),
        # no "</script>" within the data
        "DATA": json.dumps(data, separators=(",", ":")).replace("<", "\\u003c"),
        "BYTES": store.text(),
    }
    # the template with library, script and data in place of {{WORDS}}
    return re.sub("{{(.*?)}}", lambda found: text[found[1]], _resource("page.html"))


def _resource(name: str) -> str:
    return (files(__package__) / name).read_text(encoding="utf-8")


def cell_of(page: str, height: int) -> str:
    """A page inside a notebook's cell."""
    text = html.escape(page, quote=True)
    return f'<iframe srcdoc="{text}" width="100%" height="{height}" style="border: 0"></iframe>'
