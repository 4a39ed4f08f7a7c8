"""Pictures of joints between their limits, phase plots, and paths of frames: what is in them."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from constrained_models import three_bar
from matplotlib.collections import LineCollection
from mpl_toolkits.mplot3d.axes3d import Axes3D

import liebody as lb
from liebody.base.errors import LiebodyError
from liebody.bodies import Joint, TreeBuilder
from liebody.groups import Free, Planar, Prismatic, Revolute
from liebody.runs import Run
from liebody.view.figures import members_of
from liebody.view.plot_frame import frame_motion


def an_arm():
    """A free base with an arm, whose joints have limits of position, rate and effort."""
    limits = {"lower": -0.5, "upper": 1.0, "velocity_limit": 2.0, "effort_limit": 5.0}
    ball = lb.SpatialInertia.sphere(1.0, 0.1)
    tree = TreeBuilder("arm").add("base", Free(), ball)
    tree.add("hinge", Joint("hinge", Revolute([0, 0, 1]), **limits), ball, parent="base")
    tree.add("slide", Joint("slide", Prismatic([1, 0, 0]), upper=50.0), ball, parent="hinge")
    return lb.Robot(tree.add("cart", Joint("cart", Planar([0, 0, 1])), ball, parent="slide").build())


def a_run(robot, batch=(), nt=30, tau=True):
    rng = np.random.default_rng(0)
    q = 0.1 * robot.random(rng, (*batch, nt), within_limits=False)
    q[..., :4] = [1, 0, 0, 0]
    hinge = robot.tree.body("hinge").coordinates.start
    q[..., hinge] = np.linspace(-0.4, 1.1, nt)
    v = rng.standard_normal((*batch, nt, robot.nv))
    return Run.from_states(robot, np.linspace(0, 2, nt), q, v, tau=0.3 * v if tau else None)


def curves(axis):
    return [x for c in axis.collections if isinstance(c, LineCollection) for x in c.get_segments()]


def lines_at(axis):
    """Where lines go across the whole panel."""
    across = [line.get_ydata() for line in axis.lines if len(line.get_ydata()) == 2]
    return sorted(float(y[0]) for y in across if y[0] == y[1])


def test_a_joint_is_drawn_by_its_name_with_its_angle_rate_and_effort():
    robot = an_arm()
    run = a_run(robot)
    axes = run.plot(joints="hinge").axes
    assert [axis.get_ylabel() for axis in axes] == ["angle [rad]", "rate [rad/s]", "effort [N m]"]
    assert axes[0].get_title("left") == "hinge"
    i, j = run.coordinates.names.index("hinge"), run.dofs.names.index("hinge")
    for axis, values in zip(axes, (run.q[:, i], run.v[:, j], run.tau[:, j]), strict=True):
        (curve,) = curves(axis)
        np.testing.assert_array_equal(curve, np.stack([run.t, values], axis=-1))
    assert len(a_run(robot, tau=False).plot(joints=["slide", "hinge"]).axes) == 4


def test_limits_are_lines_with_what_lies_beyond_shaded_and_far_ones_are_named():
    run = a_run(an_arm())
    angle, rate, effort = run.plot(joints="hinge").axes
    assert lines_at(angle) == [-0.5, 1.0] and lines_at(rate) == [-2.0, 2.0]
    assert angle.get_ylim()[0] < -0.5 and angle.get_ylim()[1] > 1.1
    assert len(angle.patches) == 2
    assert lines_at(effort) == [] and "5 N m" in effort.get_title("right")
    slide = run.plot(joints="slide").axes[0]
    assert lines_at(slide) == [] and slide.get_title("right") == "limit 50 m" and slide.get_ylim()[1] < 5


def test_a_joint_with_several_coordinates_has_rows_by_their_kinds():
    run = a_run(an_arm(), tau=False)
    axes = run.plot(joints=["base", "cart", "base.x"]).axes
    labels = [axis.get_ylabel() for axis in axes]
    assert labels == [
        *("quaternion", "rate [rad/s]", "position [m]", "velocity [m/s]"),
        *("angle [rad]", "rate [rad/s]", "position [m]", "velocity [m/s]"),
        *("position [m]", ""),
    ]
    names = [text.get_text() for text in axes[2].get_legend().get_texts()]
    assert names == ["x", "y", "z"] and len(curves(axes[0])) == 4


def test_a_loaded_run_takes_the_limits_from_the_robot(tmp_path):
    robot = an_arm()
    run = a_run(robot)
    run.save(tmp_path / "run.nc")
    again = Run.load(tmp_path / "run.nc")
    assert lines_at(again.plot(joints="hinge").axes[0]) == []
    assert lines_at(again.plot(joints="hinge", system=robot).axes[0]) == [-0.5, 1.0]
    assert again.plot_frame("cart", system=robot)
    with pytest.raises(LiebodyError, match="does not know its system; give it, system=robot"):
        again.plot_frame("cart")


def test_members_are_thin_lines_of_every_kind_of_picture():
    run = a_run(an_arm(), (2, 3))
    assert [len(curves(axis)) for axis in run.plot(joints="hinge").axes] == [6, 6, 6]
    assert len(curves(run.plot(joints="hinge", members=4).axes[0])) == 4
    assert len(curves(run.plot_phase(joints="hinge").axes[0])) == 6
    position, speed = run.plot_frame("cart").axes[1:]
    assert len(curves(position)) == 18 and len(curves(speed)) == 6


def test_a_phase_plot_has_rates_over_angles_of_all_joints_that_have_them():
    run = a_run(an_arm())
    figure = run.plot_phase()
    panels = [axis for axis in figure.axes if axis.get_title("left")]
    assert [axis.get_title("left") for axis in panels] == ["hinge", "slide", "cart.angle"]
    i, j = run.coordinates.names.index("hinge"), run.dofs.names.index("hinge")
    points = np.stack([run.q[:, i], run.v[:, j]], axis=-1)
    np.testing.assert_array_equal(np.stack(curves(panels[0])), np.stack([points[:-1], points[1:]], axis=1))
    assert "3 of 11 velocities" in figure.get_suptitle()
    upright = [line.get_xdata() for line in panels[0].lines if len(line.get_xdata()) == 2]
    assert sorted(x[0] for x in upright if x[0] == x[1]) == [-0.5, 1.0]


@pytest.mark.parametrize("name", ["hinge", "slide", "cart", "base"])
def test_the_speed_of_a_frame_is_the_rate_of_its_position(name):
    """Positions come from poses, speeds from twists: differences of positions have an error of dt^2."""
    robot = an_arm()
    v0 = np.random.default_rng(3).standard_normal(robot.nv)
    run = lb.simulate(robot, v0=v0, t_end=0.5, dt=1e-3, joints="ideal")
    _, of = members_of(run, 1)
    p, rate = frame_motion(run, of, name, None)
    differences = np.gradient(p[0], run.t, axis=0, edge_order=2)
    np.testing.assert_allclose(rate[0], differences, atol=1e-4)
    figure = run.plot_frame(name)
    (speed,) = curves(next(axis for axis in figure.axes if axis.get_ylabel() == "speed [m/s]"))
    np.testing.assert_allclose(speed[:, 1], np.linalg.norm(differences, axis=-1), atol=1e-4)


@pytest.mark.parametrize("kind", ["SE3", "SO3xR3"])
def test_bodies_of_systems_in_absolute_coordinates_have_paths_too(kind):
    system, v = three_bar(kind)
    run = lb.simulate(system, v0=v, t_end=0.1, dt=1e-3)
    _, of = members_of(run, 1)
    for body in system.bodies:
        p, rate = frame_motion(run, of, body.name, None)
        np.testing.assert_allclose(rate[0], np.gradient(p[0], run.t, axis=0, edge_order=2), atol=1e-3)
    with pytest.raises(LiebodyError, match="there is no body 'nobody'"):
        run.plot_frame("nobody")


def test_members_with_lengths_of_their_own_have_their_own_paths():
    robot = lb.models.double_pendulum()
    places = [[0.5, 0.0, 0.0], [2.0, 0.0, 0.0]]
    run = lb.simulate(robot, t_end=0.05, parameters={"link2.position": places})
    _, of = members_of(run, 2)
    p, _ = frame_motion(run, of, "tip", None)
    for i in range(2):
        one = lb.Robot(run.member(i).tree).pose(run.q[i], "tip")[..., :3, 3]
        np.testing.assert_allclose(p[i], one, atol=1e-14)
    assert np.linalg.norm(p[0, 0] - p[1, 0]) > 1


def test_a_path_in_a_plane_is_drawn_in_it_and_any_other_in_space():
    for spherical in (False, True):
        robot = lb.models.double_pendulum(spherical=spherical)
        v = np.zeros(robot.nv)
        v[0] = 1.0
        run = lb.simulate(robot, v0=v + 0.3 * spherical, t_end=0.2)
        assert isinstance(run.plot_frame("tip").axes[0], Axes3D) == spherical


def test_a_motion_that_diverged_is_drawn_up_to_there(tmp_path):
    run = a_run(an_arm())
    q = run.q.copy()
    q[20:] = np.nan
    lost = Run.from_states(an_arm(), run.t, q, run.v)
    lost.plot(tmp_path / "a.png", joints="hinge")
    lost.plot_phase(tmp_path / "b.png")
    lost.plot_frame("cart", tmp_path / "c.png")
    assert all((tmp_path / f"{x}.png").stat().st_size > 1000 for x in "abc")


@pytest.mark.parametrize(
    ("draw", "words"),
    [
        (lambda run: run.plot(joints="hing"), "there is no joint 'hing'.*hinge"),
        (lambda run: run.plot(joints=[]), "no joints are named"),
        (lambda run: run.plot(joints="hinge", system=3), "system is 3"),
        (lambda run: run.plot(joints=3), "joints is 3"),
        (lambda run: run.plot_phase(joints="base"), "no coordinate of these joints has a rate"),
        (lambda run: run.plot_phase(members=0), "members is 0"),
        (lambda run: run.plot_frame("hans"), "no frame called 'hans'"),
        (lambda run: run.plot_frame("hinge", system=lb.models.puma560()), "q has shape"),
        (lambda run: run.plot_frame("hinge", "x.xyz"), "cannot write the picture"),
    ],
)
def test_pictures_of_what_is_not_there_are_refused(draw, words):
    with pytest.raises(LiebodyError, match=words):
        draw(a_run(an_arm()))


def test_the_pictures_need_no_pyplot():
    code = (
        "import sys, liebody as lb\n"
        "run = lb.simulate(lb.load('double_pendulum'), [2.0, 0.0], t_end=0.1)\n"
        "figures = run.plot(joints='link1'), run.plot_phase(), run.plot_frame('tip')\n"
        "assert all(x._repr_png_().startswith(b'\\x89PNG') for x in figures)\n"
        "assert 'matplotlib.pyplot' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
