"""Motions that the site shows, made when it is built: each as a page that one can turn, and as a picture.

    ```{view} pendulum
    A spherical double pendulum, with the trace of its tip
    ```

shows the page `views/pendulum.html` in a frame, which the browser loads when the reader comes near it. Until
then, and where there is no JavaScript or no WebGL, the picture `views/pendulum.png` stands there.
"""

from __future__ import annotations

import contextlib
import html
import io
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import liebody as lb

EXAMPLES = Path(__file__).parents[2] / "examples"


def pendulum() -> Any:
    """The double pendulum of `liebody demo`, its first six seconds."""
    robot = lb.models.double_pendulum(spherical=True)
    q = robot.integrate(robot.neutral(), np.array([1.9, 0, 0, 0.3, 0.8, 0]))
    return lb.simulate(robot, q, [0, 1.5, 0.3, 0, 0, 2.0], t_end=6.0, dt=1e-3, record_every=0.01).view()


def hopper() -> Any:
    """A leg with a knee hops."""
    from liebody_studies.feurstein_hopping.experiments import EXPERIMENTS, system

    x = EXPERIMENTS["revolute VI"]
    hops = system(x.hopper)
    run = hops.simulate(x.q0, x.v0, t_end=1.4, record_every=0.005, parameters=x.parameters)
    return lb.view(hops, run, trace=["base"])


def cat() -> Any:
    """The cat of examples/falling_cat.py."""
    falling_cat = _example("falling_cat")
    return falling_cat.main().run.view()


def biped() -> Any:
    """The biped of examples/planar_biped.py, near the gait that its search finds, which attracts it."""
    example = _example("planar_biped")
    q = [0.219, 0.786, 0.0, -0.455, 0.115, -0.125, 0.155]
    v = [0.883, 0.314, 0.859, -0.690, 1.901, -0.409, 1.240]
    parameters = {"lean": 0.2191, "stride": 0.1658}
    run = example.biped.simulate(q, v, t_end=3.0, record_every=0.01, parameters=parameters, **example.METHOD)
    return lb.view(example.biped, run)


def space_robot() -> Any:
    """The robot of examples/space_robot.py, whose hand draws a circle without moving the centre of mass."""
    example = _example("space_robot")
    run = lb.simulate(
        example.ROBOT, example.START, t_end=example.DURATION, dt=example.STEP, tau=example.decoupled,
        record_every=0.1, joints=["armature", "damping"],
    )  # fmt: skip
    return run.view(trace=["hand"])


def acrobot() -> Any:
    """The acrobot of examples/acrobot_swing_up.py, which follows its plan with gains."""
    example = _example("acrobot_swing_up")
    _, motions = example.main()
    motion = motions["gains"]
    robot = lb.models.double_pendulum(masses=(1.02, 1.02))
    t = example.DT * np.arange(len(motion.q))
    return lb.Run.from_states(robot, t, motion.q, motion.v).view()


VIEWS: dict[str, Callable[[], Any]] = {
    x.__name__: x for x in (pendulum, hopper, biped, cat, space_robot, acrobot)
}


def _example(name: str) -> Any:
    """An example of the repository, as a module."""
    if str(EXAMPLES) not in sys.path:
        sys.path.append(str(EXAMPLES))
    return __import__(name)


def write(folder: Path) -> None:
    """The page and the picture of each view, in a folder that the site hands out as it is."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, make in VIEWS.items():
        with contextlib.redirect_stdout(io.StringIO()):  # examples print what they find
            view = make()
        view.save(folder / f"{name}.html")
        view.save(folder / f"{name}.png", height=450)


def figure(name: str, words: str, up: str = "") -> str:
    """A view in a page: HTML. up: the way to the root of the site, such as "../"."""
    page, picture, said = f"{up}views/{name}.html", f"{up}views/{name}.png", html.escape(words, quote=True)
    return (
        f'<figure class="view"><div class="stage" style="background-image: url({picture})">'
        f'<iframe src="{page}" loading="lazy" title="{said}"></iframe>'
        f'<noscript><img src="{picture}" alt="{said}"></noscript></div>'
        f'<figcaption>{said}. <a href="{page}">Full window</a></figcaption></figure>'
    )
