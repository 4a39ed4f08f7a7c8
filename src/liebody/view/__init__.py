"""Mechanisms to look at: in a browser, in a notebook, as a film.

    view(robot, run).show()              # in the browser
    view(robot, run).save("run.html")    # one file, which plays without a network; also .gif, .mp4, .png

A drawing (`drawing.py`) shows a mechanism by solids on its bodies, a scene (`scene.py`) moves a drawing. A
page (`page.py`, `scene.js`) and a film (`film.py`) show scenes; `view.py` holds the call.
vendor/three.min.js is three.js, with its licence (MIT), bundled by `make three`.

Runs are drawn with matplotlib by `plot.py`, `plot_joints.py`, `plot_frame.py`, of parts in `figures.py`, and
as moving SVG by `animation.py`. `joints.py` and `skeleton.py` say which curves and lines there are.
"""

from .meshes import ViewWarning
from .view import View, view

__all__ = ["View", "ViewWarning", "view"]
