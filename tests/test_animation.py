"""Animated drawings of runs: they move as the robot does, and need nothing but a program that shows SVG."""

from __future__ import annotations

import subprocess
import sys
from xml.etree import ElementTree

import numpy as np
import pytest

import liebody as lb
from liebody.base.errors import LiebodyError
from liebody.runs import Run

SVG = "{http://www.w3.org/2000/svg}"
PENDULUM = lb.models.double_pendulum()


def tracks(svg, element):
    """The values that each moving element takes, {attribute: (frames,)}."""
    root = ElementTree.fromstring(svg)
    return [
        {
            x.get("attributeName"): np.array(x.get("values").split(";"), float)
            for x in moving.iter(f"{SVG}animate")
        }
        for moving in root.iter(f"{SVG}{element}")
    ]


def test_the_tip_of_the_drawing_goes_where_the_tip_of_the_robot_goes():
    """A motion in a plane is drawn in it: pixels are coordinates but for a scale and a shift."""
    run = lb.simulate(PENDULUM, [2.0, 0.3], t_end=3.96, record_every=0.04)
    svg = run.animate(seconds=4.0).svg  # a frame for each of the hundred states
    tip = tracks(svg, "circle")[-3]  # the last two are the dots on curves
    p = PENDULUM.pose(run.q, "tip")[:, :3, 3]
    scale = np.ptp(tip["cx"]) / np.ptp(p[:, 0])
    for pixels, metres in ((tip["cx"], p[:, 0]), (-tip["cy"], p[:, 2])):
        shift = pixels - scale * metres
        np.testing.assert_allclose(shift, shift.mean(), atol=0.2)
    # Links keep their length on the way, to a tenth of a pixel.
    for link in tracks(svg, "line"):
        x1, y1, x2, y2 = (link.get(k, np.nan) for k in ("x1", "y1", "x2", "y2"))
        if not np.isnan(x1).any() and not np.isnan(y1).any():
            assert np.ptp(np.hypot(x2 - x1, y2 - y1)) < 0.4


def test_curves_of_the_chosen_joints_stand_beside_the_robot():
    run = lb.simulate(lb.models.puma560(), v0=np.ones(6), t_end=0.2, joints="ideal")

    def texts(**options):
        root = ElementTree.fromstring(run.animate(**options).svg)
        return [x.text for x in root.iter(f"{SVG}text") if "[" in x.text]

    assert texts(joints=["joint3", "joint1"]) == ["joint3 [rad]", "joint1 [rad]"]
    assert texts() == [f"joint{i} [rad]" for i in (1, 2, 3, 4)]
    # A motion of less than a second lasts one, unless it is told.
    assert 'dur="1s"' in run.animate().svg and 'dur="7s"' in run.animate(seconds=7).svg


def test_a_notebook_shows_it_and_files_hold_it(tmp_path):
    run = lb.simulate(PENDULUM, [[2.0, 0.3], [1.0, 0.2]], t_end=0.5)
    shown = run.animate()
    assert "<svg" in shown._repr_html_() and "<script" not in shown._repr_html_() and len(shown.svg) < 100_000
    for name in ("run.svg", "run.html"):
        shown.save(tmp_path / name)
        assert shown.svg in (tmp_path / name).read_text()
    run.save(tmp_path / "run.nc")
    again = Run.load(tmp_path / "run.nc")
    assert again.animate(system=PENDULUM).svg == shown.svg
    with pytest.raises(LiebodyError, match=r"does not know its robot; give it, run\.animate"):
        again.animate()


def test_a_motion_that_diverged_is_shown_up_to_there():
    q = np.array([[0.1, 0.2], [0.3, 0.4], [np.nan, 1.0]])
    svg = Run.from_states(PENDULUM, [0, 1, 2], q, np.zeros((3, 2))).animate().svg
    assert "nan" not in svg and ">1 s<" in svg


@pytest.mark.parametrize(
    ("draw", "words"),
    [
        (lambda run: run.animate(joints="hans"), "there is no joint 'hans'"),
        (lambda run: run.animate(seconds=0.0), "seconds is 0.0"),
        (lambda run: run.animate(system=3), "3 has no tree of joints"),
        (lambda run: run.animate().save("run.gif"), "saved as .svg or .html"),
        (lambda run: run.animate().save("nowhere/run.svg"), "cannot write"),
        (lambda run: Run.from_states(PENDULUM, [0], run.q[:1], run.v[:1]).animate(), "two times or more"),
    ],
)
def test_drawings_that_cannot_be_are_refused(draw, words):
    with pytest.raises(LiebodyError, match=words):
        draw(lb.simulate(PENDULUM, [2.0, 0.3], t_end=0.1))


def test_it_needs_no_further_package():
    code = (
        "import sys\n"
        "for name in ('matplotlib', 'PIL', 'IPython', 'trimesh'):\n"
        "    sys.modules[name] = None\n"
        "import liebody as lb\n"
        "run = lb.simulate(lb.load('double_pendulum'), [2.0, 0.0], t_end=0.1)\n"
        "assert '<animate' in run.animate()._repr_html_() and '<iframe' in run.view()._repr_html_()\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
