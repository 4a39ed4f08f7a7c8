"""Pictures of runs: what is in them, and that they need no display."""

from __future__ import annotations

import re
import struct
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from matplotlib.collections import LineCollection
from mpl_toolkits.mplot3d.axes3d import Axes3D

import liebody as lb
from liebody import models
from liebody.base.errors import LiebodyError
from liebody.bodies.labels import labels
from liebody.gaits import Basin, Branch
from liebody.runs import Run
from liebody.view.figures import LONGEST_LEGEND, PALETTE
from liebody.view.plot import plot_motion, plot_run
from liebody.view.skeleton import plane_of, skeleton


def a_run(tree, batch=(), nt=20):
    rng = np.random.default_rng(0)
    q = np.array([tree.group.random(rng) for _ in range(int(np.prod(batch)) * nt)])
    coordinates, dofs = labels(tree)
    return Run(
        np.linspace(0, 2, nt),
        q.reshape(*batch, nt, tree.nq),
        rng.standard_normal((*batch, nt, tree.nv)),
        rng.uniform(1, 2, (*batch, nt)),
        rng.uniform(1, 2, (*batch, nt)),
        coordinates,
        dofs,
        metadata={"model": tree.name, "method": "rk4", "dt": 0.1},
    )


def curves(axis):
    return [c.get_segments() for c in axis.collections if isinstance(c, LineCollection)]


def size_of_png(path):
    head = path.read_bytes()[:24]
    assert head[:8] == b"\x89PNG\r\n\x1a\n"
    return struct.unpack(">II", head[16:])


def test_a_panel_for_each_unit_and_two_for_the_energy():
    figure = plot_run(a_run(models.free_rigid_body().tree))
    assert [axis.get_ylabel() for axis in figure.axes] == [
        "quaternion",
        "position [m]",
        "angular velocity [rad/s]",
        "velocity [m/s]",
        "energy [J]",
        "energy change [J]",
    ]


def test_curves_are_the_numbers_of_the_run():
    run = a_run(models.free_rigid_body().tree)
    quaternion, position, *_, energy, change = plot_run(run).axes
    for axis, values in ((quaternion, run.q[:, :4]), (position, run.q[:, 4:])):
        for (segment,), column in zip(curves(axis), values.T, strict=True):
            np.testing.assert_array_equal(segment, np.stack([run.t, column], axis=-1))
    for (segment,), column in zip(curves(energy), [run.kinetic, run.potential, run.energy], strict=True):
        np.testing.assert_array_equal(segment[:, 1], column)
    np.testing.assert_array_equal(curves(change)[0][0][:, 1], run.energy_change)


def test_efforts_have_a_panel_where_there_are_any():
    run = a_run(models.double_pendulum().tree)
    with_tau = Run(**{**vars(run), "tau": np.ones_like(run.v)})
    assert len(plot_run(with_tau).axes) == len(plot_run(run).axes) + 1


def test_every_member_of_a_small_batch_is_drawn_and_some_of_a_large_one():
    tree = models.double_pendulum().tree
    small, large = plot_run(a_run(tree, (2, 3))), plot_run(a_run(tree, (300,)), members=7)
    assert [len(curve) for curve in curves(small.axes[0])] == [6, 6]
    assert [len(curve) for curve in curves(large.axes[0])] == [7, 7]
    assert "6 members" in small.get_suptitle() and "7 of 300 members" in large.get_suptitle()


def test_legends_of_many_joints_stay_short_and_colours_differ():
    axis = plot_run(a_run(models.planar_chain(40).tree)).axes[0]
    texts = [text.get_text() for text in axis.get_legend().get_texts()]
    assert len(texts) <= LONGEST_LEGEND and texts[-1] == f"{LONGEST_LEGEND - 1} of 40 named"
    assert len({tuple(c.get_colors()[0]) for c in axis.collections}) == 40


def test_the_palette_has_no_colour_twice():
    assert len(set(PALETTE)) == len(PALETTE)


def test_a_run_that_left_the_finite_numbers_is_drawn_up_to_there(tmp_path):
    run = a_run(models.double_pendulum().tree)
    q, kinetic = run.q.copy(), run.kinetic.copy()
    q[12:], kinetic[12:] = np.nan, np.nan
    lost = Run(**{**vars(run), "q": q, "kinetic": kinetic})
    plot_run(lost, tmp_path / "run.png")
    plot_motion(lb.load("double_pendulum"), lost, tmp_path / "motion.png")
    assert size_of_png(tmp_path / "run.png") and size_of_png(tmp_path / "motion.png")


@pytest.mark.parametrize(("suffix", "start"), [("png", b"\x89PNG"), ("pdf", b"%PDF"), ("svg", b"<?xml")])
def test_the_suffix_says_the_format(tmp_path, suffix, start):
    path = tmp_path / f"run.{suffix}"
    a_run(models.double_pendulum().tree).plot(path)
    assert path.read_bytes().startswith(start)


@pytest.mark.parametrize("name", ["run.xyz", "missing/run.png"])
def test_a_picture_that_cannot_be_written_is_refused(tmp_path, name):
    with pytest.raises(LiebodyError, match="cannot write the picture"):
        a_run(models.double_pendulum().tree).plot(tmp_path / name)


def test_numbers_that_no_picture_has_are_refused():
    robot = models.double_pendulum()
    run = a_run(robot.tree, (4,))
    for draw, words in [
        (lambda: run.plot(members=0), "members is 0, expected a whole number, 1 or more"),
        (lambda: run.plot(3), "path is 3, expected text or PathLike"),
        (lambda: plot_motion(robot, run, instants=-1), "instants is -1, expected a whole number"),
        (lambda: plot_motion(robot, run, window=-1.0), "window is -1.0, expected a positive number"),
        (lambda: plot_motion(robot, run, window=np.nan), "window is nan, expected a positive number"),
    ]:
        with pytest.raises(LiebodyError, match=words):
            draw()


def test_pictures_need_neither_display_nor_pyplot(tmp_path):
    code = (
        "import sys, numpy as np, liebody as lb\n"
        "assert 'matplotlib' not in sys.modules, 'import liebody should not pay for pictures'\n"
        "run = lb.simulate(lb.load('double_pendulum'), [2.0, 0.0], t_end=0.1, dt=0.01)\n"
        f"run.plot({str(tmp_path / 'run.png')!r})\n"
        "assert 'matplotlib.pyplot' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
    width, height = size_of_png(tmp_path / "run.png")
    assert width > 1000 and height > 500


@pytest.mark.parametrize("kind", ["run", "motion", "view", "branch", "basin"])
def test_a_notebook_shows_every_picture_by_itself(kind):
    """As PNG of the figure's size, whether matplotlib's inline mode is on or off."""
    robot = models.double_pendulum()
    run = a_run(robot.tree)
    orbits = [SimpleNamespace(period=1.0 + x, stable=True, parameters={"x": x}) for x in (0.0, 1.0)]
    axes, zeros = {"x": np.arange(3.0), "y": np.arange(2.0)}, np.zeros((3, 2))
    figure = {
        "run": lambda: run.plot(),
        "motion": lambda: plot_motion(robot, run),
        "view": lambda: robot.view().figure(),
        "branch": lambda: Branch("x", orbits, [], ("end", "end")).plot(),
        "basin": lambda: Basin(axes, zeros.astype(int), zeros, zeros, zeros, []).plot(),
    }[kind]()
    png = figure._repr_png_()
    assert png.startswith(b"\x89PNG\r\n")
    assert struct.unpack(">2I", png[16:24]) == tuple((figure.get_size_inches() * figure.dpi).astype(int))


def test_every_figure_of_the_library_shows_itself():
    sources = {path.name: path.read_text() for path in Path(lb.__file__).parent.rglob("*.py")}
    assert not [name for name, text in sources.items() if re.search(r"\bFigure\(", text)]


@pytest.mark.parametrize("spherical", [False, True])
def test_links_in_the_picture_have_their_length_at_every_instant(spherical):
    robot = models.double_pendulum(lengths=(1.0, 0.7), spherical=spherical)
    q = a_run(robot.tree).q
    segments, masses, tip = skeleton(robot.tree, robot.poses(q))
    lengths = np.linalg.norm(segments[..., 1, :] - segments[..., 0, :], axis=-1)
    np.testing.assert_allclose(lengths, np.broadcast_to([0.0, 1.0, 0.7], lengths.shape), atol=1e-14)
    np.testing.assert_allclose(tip, robot.pose(q, "tip")[:, :3, 3], atol=1e-14)
    np.testing.assert_array_equal(masses, [1.0, 1.0])


def test_a_free_base_is_not_tied_to_the_world():
    poses = np.tile(np.eye(4), (3, 1, 1, 1)) + np.eye(4, k=3)
    segments, _, _ = skeleton(models.free_rigid_body().tree, poses)
    assert not np.any(np.all(segments[:, :, 0] == 0, axis=-1))


def test_what_moves_in_a_plane_is_drawn_in_it():
    points = np.random.default_rng(0).standard_normal((50, 3))
    assert plane_of(points) is None
    for axis, plane in ((0, (1, 2)), (1, (0, 2)), (2, (0, 1))):
        flat = points.copy()
        flat[:, axis] = 0.25
        assert plane_of(flat) == plane


@pytest.mark.parametrize("spherical", [False, True])
def test_motion_is_drawn_in_the_plane_or_in_space(tmp_path, spherical):
    robot = models.double_pendulum(spherical=spherical)
    figure = plot_motion(robot, a_run(robot.tree, (4,)), tmp_path / "motion.png", instants=3, window=1.0)
    scene = figure.axes[0]
    assert isinstance(scene, Axes3D) == spherical
    links, dots = 3 * 3, 3 * 2
    assert len(scene.lines) == links + dots
    assert size_of_png(tmp_path / "motion.png")[0] > 1000


def test_twelve_curves_differ_in_colour_or_dashes():
    axis = plot_run(a_run(models.planar_chain(12).tree)).axes[0]
    lines = axis.get_legend().get_lines()
    assert len({(line.get_color(), line.get_linestyle()) for line in lines}) == 12
    drawn = [c for c in axis.collections if isinstance(c, LineCollection)]
    assert len({(tuple(c.get_colors()[0]), str(c.get_linestyles()[0])) for c in drawn}) == 12
