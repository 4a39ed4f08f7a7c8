"""Mechanisms to look at: in a browser, in a notebook, as a film.

    view(robot, run).show()              # in the browser
    view(robot, run).save("run.html")    # one file, which plays without a network; also .gif, .mp4, .png

A drawing (`drawing.py`) shows a mechanism by solids on its bodies, a scene (`scene.py`) moves a drawing. A
page (`page.py`, `scene.js`) and a film (`film.py`) show scenes; `view.py` holds the call. vendor/three.min.js
is three.js, with its licence (MIT), bundled by `make three`.
"""

from .meshes import ViewWarning
from .view import View, view

__all__ = ["View", "ViewWarning", "view"]
