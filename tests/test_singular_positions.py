"""Motions through positions in which constraints become dependent; bodies without inertia about an axis."""

import warnings

import numpy as np
import pytest
from constrained_models import chain, floating, four_bar, heavy_top, pendulum, three_bar

import liebody as lb
from liebody.base.errors import IntegrationError
from liebody.bodies import Joint, SpatialInertia, TreeBuilder
from liebody.compiler.native import build, libraries
from liebody.groups import Revolute
from liebody.mechanisms.constrained import AbsoluteTree, ClosedTree, Closure, SystemBuilder
from liebody.runs import ConstrainedRun
from liebody.simulation.simulate import SingularPosition
from liebody_studies.multibody_benchmarks.models import four_bars, four_bars_reference


@pytest.fixture(scope="module")
def models():
    """Two four-bars in a row, in joint and in absolute coordinates: all rods in line four times in 3 s."""
    return dict(zip(("joints", "absolute"), four_bars(), strict=True))


def simulated(model, t_end, **options):
    with pytest.warns(SingularPosition, match=r"at t = .* s the motion goes through a singular position"):
        return lb.simulate(model.mechanism, model.q, model.v, t_end=t_end, record_every=0.05, **options)


@pytest.mark.parametrize("method", ["rkmk8", "rkmk4"])
@pytest.mark.parametrize("coordinates", ["joints", "absolute"])
@pytest.mark.many
def test_stages_next_to_singular_positions_do_not_spoil_a_step(models, coordinates, method):
    """At 1 ms RK8 lost 1.18 J of 71 J at t = 2.656 s, 0.24 degrees from such a position."""
    run = simulated(models[coordinates], 3.0, dt=1e-3, method=method)
    error = models[coordinates].measure(run) - four_bars_reference(run.t)
    assert np.abs(error).max() < 1e-6
    assert run.largest_energy_jump < 1e-6 and run.largest_violation < 1e-12
    assert run.smallest_pivot < 1e-5 and 0.7 < run.smallest_pivot_time < 3.0


@pytest.mark.parametrize("coordinates", ["joints", "absolute"])
@pytest.mark.many
def test_error_control_goes_through_singular_positions(models, coordinates):
    run = simulated(models[coordinates], 1.0, method="rkmk45", rtol=1e-9, atol=1e-9)
    assert np.abs(models[coordinates].measure(run) - four_bars_reference(run.t)).max() < 1e-7


def test_a_parallelogram_goes_through_its_line(models):
    """One four-bar, which may go on as a parallelogram or crossed: it stays what it was."""
    model = four_bars(1)[0]
    run = simulated(model, 1.0, dt=1e-3)
    np.testing.assert_allclose(model.measure(run), four_bars_reference(run.t, 1), atol=1e-8)


@pytest.mark.wide
def test_members_pass_singular_positions_on_their_own(models):
    """One of three starts at rest where it does not come to such a position."""
    model = models["joints"]
    v = np.stack([model.v, 0 * model.v, 0.9 * model.v])
    q = np.tile(model.q, (3, 1))
    with pytest.warns(SingularPosition, match="2 of 3 members"):
        run = lb.simulate(model.mechanism, q, v, t_end=0.85, dt=1e-3, record_every=0.05)
    assert (
        run.smallest_pivot.shape == (3,) and run.smallest_pivot[1] > 1e-2 > run.smallest_pivot[[0, 2]].max()
    )
    alone = simulated(model, 0.85, dt=1e-3)
    np.testing.assert_allclose(run.q[0], alone.q, atol=1e-9)
    assert run.member(2).smallest_pivot == run.smallest_pivot[2]


@pytest.mark.parametrize("method", ["radau5", "generalized-alpha", "half-explicit4"])
@pytest.mark.wide
def test_implicit_methods_in_absolute_coordinates_say_where_they_stop(models, method):
    model = models["absolute"]
    with pytest.raises(IntegrationError, match=r"the step at t = [0-9.]+ s cannot be taken") as caught:
        lb.simulate(model.mechanism, model.q, model.v, t_end=1.5, dt=1e-3, method=method, record_every=0.05)
    run = caught.value.run
    good = np.isfinite(run.q).all(axis=-1)
    error = model.measure(run)[good] - four_bars_reference(run.t)[good]
    assert np.abs(error).max() < 1e-4  # up to there


def test_without_a_compiler_the_same_steps_are_taken_carefully(models, monkeypatch):
    if build.find_compiler() is None:
        pytest.skip("there is no C compiler")
    model = models["joints"]
    before = lb.simulate(model.mechanism, model.q, model.v, t_end=0.71, dt=1e-3, record_every=0.01)
    q, v, options = before.q[-1], before.v[-1], {"t_end": 0.01, "dt": 1e-3, "method": "rkmk8"}
    with pytest.warns(SingularPosition):
        compiled = lb.simulate(model.mechanism, q, v, **options)
    monkeypatch.setattr(libraries, "find_compiler_or_warn", lambda: None)
    other = four_bars()[0]
    other.mechanism.assemble(model.q)  # as the first one was: pivots are compared to those around there
    with pytest.warns(SingularPosition):
        run = lb.simulate(other.mechanism, q, v, **options)
    np.testing.assert_allclose(run.q, compiled.q, atol=1e-9)
    assert run.smallest_pivot == pytest.approx(compiled.smallest_pivot, rel=1e-3)


@pytest.mark.parametrize("make", [heavy_top, pendulum, floating, three_bar])
@pytest.mark.parametrize("group", ["SE3", "SO3xR3"])
def test_nobody_is_warned_of_what_is_regular(make, group):
    system, v = make(group)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run = lb.simulate(system, v0=v, t_end=0.2, dt=2e-3)
    assert run.smallest_pivot > 1e-3


@pytest.mark.wide
def test_nobody_is_warned_of_redundant_equations_nor_of_long_chains():
    """A planar four-bar in space has three redundant equations everywhere; pivots of chains are small."""
    closed = ClosedTree(four_bar(), [Closure("C", Revolute([0, 1, 0]), "end", "tip")])
    q = closed.assemble(np.array([-1.0, 0.5, -2.0]))
    v = closed.consistent_velocities(q, np.array([3.0, 0, 0]), hold=["A"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run = lb.simulate(closed, q, v, t_end=0.5, dt=2e-3)
        lb.simulate(chain(20), t_end=0.1, dt=2e-3)
    assert run.smallest_pivot > 1e-3


@pytest.mark.wide
def test_nobody_is_warned_where_other_equations_become_the_redundant_ones():
    """A planar four-bar of thin rods in space: pivots of two dependent rows change places at t = 2.407 s."""
    tree, closures = four_bar(rods=True), [Closure("C", Revolute([0, 1, 0]), "end", "tip")]
    closed = ClosedTree(tree, closures)
    q = closed.assemble(np.array([-1.0, 0.5, -2.0]))
    v = closed.consistent_velocities(q, np.array([3.0, 0, 0]), hold=["A"])
    absolute = AbsoluteTree(tree, closures)
    system, (x, u) = absolute.system, absolute.to_system(q, v)
    assert system.report(x).redundancy == 3
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run = lb.simulate(system, x, u, t_end=2.5, dt=1e-3, record_every=0.1)
    assert run.smallest_pivot > 0.1 and run.energy_drift < 1e-9


def test_the_smallest_pivot_is_kept_in_files(tmp_path, models):
    run = simulated(models["joints"], 0.8, dt=1e-3)
    run.save(tmp_path / "run.nc")
    again = ConstrainedRun.load(tmp_path / "run.nc")
    assert again.smallest_pivot == run.smallest_pivot and again.smallest_pivot_time == run.smallest_pivot_time
    assert "smallest relative pivot" in run.summary()


# -- inertias on the border of what a body can have ---------------------------------------------------------


def arm(rod, ball):
    """A thin rod on a hinge about y, and a point mass 0.3 m beside a hinge about x at its end."""
    builder = TreeBuilder("arm")
    builder.add("rod", Joint("A", Revolute([0, 1, 0])), rod)
    builder.add("ball", Joint("B", Revolute([1, 0, 0])), ball, "rod", [0.5, 0, 0])
    return lb.Robot(builder.build())


@pytest.mark.parametrize("group", ["SE3", "SO3xR3"])
@pytest.mark.wide
def test_thin_rods_and_point_masses_move_as_in_joint_coordinates(group):
    rod = SpatialInertia(2.0, [0.25, 0, 0], rotational=[0, 2 / 48, 2 / 48])
    ball = SpatialInertia.point(1.0, [0, 0.3, 0])
    robot = arm(rod, ball)
    builder = SystemBuilder("arm")
    builder.body("rod", rod, configuration=group).body("ball", ball, [0.5, 0, 0], group)
    builder.joint("A", Revolute([0, 1, 0]), "world", "rod")
    builder.joint("B", Revolute([1, 0, 0]), "rod", "ball", on_parent=[0.5, 0, 0])
    system = builder.build()
    options = {"t_end": 1.0, "dt": 1e-3, "record_every": 0.1}
    exact = lb.simulate(robot, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run = lb.simulate(system, **options)
    place = np.stack([robot.pose(q, "ball") @ [0, 0.3, 0, 1] for q in exact.q])[:, :3]
    np.testing.assert_allclose(run.q[:, 11:14], place, atol=1e-6)  # the slight inertia is 1e-7
    assert run.energy_drift < 1e-7


def test_a_point_mass_falls_and_a_plate_that_is_flat_to_round_off_turns():
    point = SystemBuilder("point").body("p", SpatialInertia(1.0)).build()
    run = lb.simulate(point, t_end=1.0, dt=0.1)
    np.testing.assert_allclose(run.q[-1, 4:], [0, 0, -9.81 / 2], atol=1e-12)
    moments = np.array([0.1, 0.2, np.nextafter(0.1 + 0.2, 1)])  # one unit above the sum
    plate = (
        SystemBuilder("plate", gravity=(0, 0, 0)).body("p", SpatialInertia(1.0, rotational=moments)).build()
    )
    spin = lb.simulate(plate, v0=[1.0, 2.0, 3.0, 0, 0, 0], t_end=1.0, dt=1e-3)
    assert spin.energy_drift < 1e-12
