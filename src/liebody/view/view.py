"""A mechanism to look at: the call `view`, and the `View` that it returns."""

from __future__ import annotations

import os
import tempfile
import webbrowser
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..base.arguments import checked, count
from ..base.concurrency import cached_property
from ..base.errors import ArgumentError, LiebodyError, pass_on_signals, require, warn
from ..base.texts import path_of
from .page import cell_of, page_of
from .scene import Scene, scene_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CELL = 460  # height of a notebook's cell [px]


def require_for(path: Path) -> None:
    """Raise MissingPackage where the writer of pictures or films of this suffix is not installed."""
    if path.suffix in (".gif", ".png"):
        require("films and pictures", "PIL", extra="view")
    elif path.suffix == ".mp4":
        require("films as MP4", "PIL", "imageio_ffmpeg", extra="mp4")


class View:
    """A mechanism to look at, at rest or in motion. A notebook shows it; `show` opens a browser."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene

    @cached_property
    def html(self) -> str:
        """The page: one file of at most 5 MB, which needs no network and no other file."""
        return page_of(self.scene)

    @checked
    def save(self, path: str | os.PathLike[str], *, progress: bool | None = None, **options: Any) -> None:
        """Write a page (.html), a film (.gif, .mp4) or a picture (.png).

        progress  whether to show a bar that counts the frames of a film; default: on a terminal, when it
                  takes long
        options   of films and pictures: width and height [px], layers (visible parts, such as "frames"); of
                  films: seconds (how long they last), fps; of pictures: at (the time [s])

        Raises LiebodyError for other suffixes and layers, and for files that cannot be written.
        """
        path = path_of("the name of the file", path)
        if path.suffix not in (".html", ".gif", ".mp4", ".png"):
            raise LiebodyError(f"{path.name}: views are saved as .html, .gif, .mp4 or .png; name it so")
        if not path.parent.is_dir():
            raise LiebodyError(f"cannot write {path}: there is no folder {path.parent}; make it first")
        try:
            # a page needs the standard library only; pictures and films need the extra `view`
            if path.suffix == ".html":
                if options:
                    raise ArgumentError(f"{path.name}: a page has no {', '.join(options)}; leave them out")
                path.write_text(self.html, encoding="utf-8")
                return
            require_for(path)
            from .film import film, picture

            if path.suffix == ".png":
                picture(self.scene, path, **options)
            else:
                film(self.scene, path, progress, **options)
        except OSError as error:
            pass_on_signals(error)
            raise LiebodyError(f"cannot write {path}: {error.strerror or error}") from error

    def image(self, **options: Any) -> Any:
        """A picture as an array (height, width, 3) of bytes; options as of pictures in `save`.

        Raises LiebodyError for other layers, MissingPackage without pillow.
        """
        require("pictures", "PIL", extra="view")
        from .film import image

        return image(self.scene, **options)

    def figure(
        self,
        names: Sequence[str] = ("bodies", "joints"),
        *,
        layers: Sequence[str] = (),
        width: int = 800,
        height: int | None = None,
        at: float | None = None,
    ) -> Figure:
        """A picture with names, as a figure of matplotlib: for papers and pages.

        names   kinds of parts to name: "bodies" (at their centres of mass), "joints", "frames"
        layers  visible parts beside the mechanism, such as "frames"
        width   and height                                                                            [px]
        at      the time that is shown; the first of a motion if None                                  [s]

        Raises LiebodyError for other kinds of names, MissingPackage without matplotlib and pillow.
        """
        from .film import figure

        return figure(self.scene, names, at, layers=layers, width=width, height=height)

    def show(self) -> Path:
        """Open it in the browser; the page is a file in the folder for temporary files, which is returned.

        Warns where there is no browser.
        """
        folder = Path(tempfile.mkdtemp(prefix="liebody-"))
        path = folder / "view.html"
        self.save(path)
        if not webbrowser.open(path.as_uri()):
            warn(f"there is no browser to open; the page is {path}, or save it elsewhere", UserWarning)
        return path

    def _repr_html_(self) -> str:
        return cell_of(self.html, CELL)

    def __repr__(self) -> str:
        t = self.scene.t
        when = f"t = {t[0]:g} to {t[-1]:g} s" if len(t) > 1 else "at rest"
        return f"View of {self.scene.drawing.name}, {when}; .show() opens a browser, .save(file) writes it"


@partial(checked, but=("system",))
def view(
    system: Any,
    motion: Any = None,
    *,
    members: int = 8,
    ghosts: bool = False,
    trace: Sequence[str] | None = None,
) -> View:
    """Show a mechanism, at rest or in motion.

    system   a Robot, Tree, ClosedTree, System, RobotSystem, RigidBody, or the group on which a body moves:
             SO3, SE3, a motion subgroup, or a product that begins with one of them; or a run, which knows
             its system
    motion   a run or the result of `solve_ivp`; or configurations (..., nq), or values of joints,
             {"elbow_joint": 1.2}; None: where simulations start
    members  how many of an ensemble are shown at most, evenly chosen
    ghosts   whether they are shown in one place, all but the first faintly, or side by side
    trace    names of frames and bodies whose paths are drawn; None: one at the end of the longest branch

    Meshes of a description are read by trimesh and pycollada, if they are installed; bodies without any are
    drawn as ellipsoids that have their inertia, between links from joint to joint.

    returns  View: .show(), .save("run.html"); in a notebook it is shown

    Raises ModelError for what has no pose in space, ShapeError for configurations that do not fit. Warns
    (ViewWarning) of meshes that are not shown.
    """
    members = count("members", members)
    # a run knows its system, and which of its members differ
    if hasattr(system, "t") and hasattr(system, "view"):
        return system.view(members=members, ghosts=ghosts, trace=trace)
    return View(scene_of(system, motion, members, ghosts, trace))
