"""One kind of result, of robots, constrained and hybrid systems: work, forces, events, tables, files."""

from __future__ import annotations

import csv
import dataclasses
import pickle
import subprocess
import sys

import numpy as np
import pytest
import xarray
from constrained_models import three_bar

import liebody as lb
from liebody.base.errors import LiebodyError
from liebody.bodies import Joint, SpatialInertia, TreeBuilder
from liebody.groups import R, Revolute
from liebody.hybrid import HybridSystem, robot_system
from liebody.integrators import method_named
from liebody.mechanisms import JointFriction, JointSpring
from liebody.mechanisms.constrained import AbsoluteTree
from liebody.runs import ConstrainedRun, HybridRun

Y, BAR = [0, 1, 0], SpatialInertia.box(1.0, [1.0, 0.3, 0.2], com=[0.5, 0, 0])


def arm(**numbers) -> lb.Robot:
    """Two bars on hinges, dampers in both."""
    builder = TreeBuilder("arm").add("a", Joint("A", Revolute(Y), damping=0.1, **numbers), BAR)
    return lb.Robot(builder.add("b", Joint("B", Revolute(Y), damping=0.2), BAR, "a", [1.0, 0, 0]).build())


START = ([0.3, 0.7], [1.5, -2.0])


def controlled(robot: lb.Robot):
    return lambda t, q, v: robot.gravity(q) + np.array([20.0 * (0.5 - q[0]), 3.0 - 5 * q[1]]) - 2 * v


def ball() -> HybridSystem:
    """A ball that falls on a stiff floor, and counts."""
    return HybridSystem(
        R(1),
        lambda t, q, v, z, p: np.array([-9.81 + p.stiffness * z.touching * (-q[0])]),
        memory={"touching": 0.0},
        parameters={"stiffness": 4e3},
        guards=lambda t, q, v, z, p: {"floor": q[0]},
        update=lambda t, q, v, z, p, e: z._replace(touching=z.touching - e.floor),
        powers=lambda t, q, v, z, p: {"weight": -9.81 * v[0]},
        outputs=lambda t, q, v, z, p: {"height": q[0], "state": np.array([q[0], v[0]])},
        step=lambda t, q, v, z, p: 1e-3,
        name="ball",
    )


# -- work --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("method", "n"), [("rkmk4", 20), ("cf4", 20), ("rkmk8", 12)])
def test_the_energy_of_a_controlled_run_changes_by_the_work_to_the_order_of_the_method(method, n):
    robot = arm()
    order, drifts = method_named(method).order, []
    for k in (n, 2 * n):
        run = lb.simulate(robot, *START, t_end=1.0, dt=1 / k, method=method, tau=controlled(robot))
        assert np.abs(run.energy_change).max() > 5
        drifts.append(run.energy_drift)
    assert np.log2(drifts[0] / drifts[1]) > order - 0.8 and drifts[1] < 1e-3


def test_work_is_that_of_the_whole_motion_however_few_times_are_recorded():
    robot = arm()
    options = {"t_end": 1.0, "dt": 1e-3, "tau": controlled(robot)}
    rare, often = (lb.simulate(robot, *START, record_every=h, **options) for h in (0.5, 1e-3))
    assert rare.work_done.shape == (3,)
    np.testing.assert_allclose(rare.work_done, often.work_done[::500], rtol=1e-12)
    assert rare.energy_drift < 1e-9


@pytest.mark.parametrize("hold", ["zero", "linear"])
def test_work_of_sampled_efforts_of_an_ensemble_is_that_of_each_member(hold):
    robot, rng = arm(), np.random.default_rng(0)
    tau = np.linspace(0, 1, 6), rng.normal(size=(3, 6, 2)) * 5
    q, v = (np.array(x) + rng.normal(size=(3, 2)) for x in START)
    options = {"t_end": 1.0, "dt": 0.005, "hold": hold, "method": "rkmk8"}
    run = lb.simulate(robot, q, v, tau=tau, **options)
    assert run.work_done.shape == (3, 201) and run.energy_drift < 1e-11
    one = lb.simulate(robot, q[1], v[1], tau=(tau[0], tau[1][1]), **options)
    np.testing.assert_allclose(run.member(1).work_done, one.work_done, rtol=1e-9, atol=1e-12)


@pytest.mark.wide
def test_work_is_that_under_error_control_with_events_and_of_called_efforts():
    robot = arm()
    control = controlled(robot)
    options = {"t_end": 1.0, "forces": [JointSpring(8.0, rest=0.2), JointFriction(0.3, v_s=0.3)]}
    control_run = lb.simulate(robot, *START, method="rkmk45", tau=control, rtol=1e-10, atol=1e-12, **options)
    assert control_run.energy_drift < 1e-8

    def end(t, q, v):
        return q[0] - 0.4

    end.terminal = True
    stopped = lb.simulate(robot, *START, dt=1e-3, tau=control, events={"end": end}, **options)
    assert stopped.t[-1] < 1.0 and len(stopped.work_done) == len(stopped.t) and stopped.energy_drift < 1e-9
    with pytest.warns(lb.simulate.__globals__["CalledEfforts"]):
        called = lb.simulate(
            robot, *START, dt=1e-2, tau=lambda t, q, v: np.asarray(control(t, q, v), float), **options
        )
    assert called.energy_drift < 1e-5


@pytest.mark.parametrize(("method", "order"), [("radau5", 4), ("generalized-alpha", 2), ("variational", 2)])
def test_the_balance_of_implicit_methods_has_their_order_or_four(method, order):
    robot, drifts = arm(), []
    for n in (50, 100):
        run = lb.simulate(robot, *START, t_end=1.0, dt=1 / n, method=method, tau=controlled(robot))
        drifts.append(run.energy_drift)
    assert np.log2(drifts[0] / drifts[1]) > order - 0.5 and drifts[1] < 5e-3


def test_where_nothing_does_work_there_is_none_and_the_drift_is_the_change():
    run = lb.simulate(lb.load("double_pendulum"), [1.0, 0.5], t_end=1.0, dt=1e-2)
    assert run.work_done is None and run.tau is None and run.forces == {}
    np.testing.assert_array_equal(run.energy_balance, run.energy_change)
    assert "largest change" in run.summary() and "work done" not in run.summary()


def test_work_of_damping_that_only_its_parameter_makes_is_taken_out_too():
    robot = lb.load("double_pendulum")
    damping = {f"{robot.tree.bodies[1].joint.name}.damping": 0.3}
    run = lb.simulate(robot, [1.0, 0.5], t_end=1.0, dt=1e-3, parameters=damping)
    assert run.energy_change[-1] < -0.1 and run.energy_drift < 1e-9
    assert "damping" in run.forces


@pytest.mark.wide
def test_work_of_constrained_systems_is_taken_out_too():
    tree = arm().tree
    system = AbsoluteTree(tree).system
    q, v = AbsoluteTree(tree).to_system(*START)
    drifts = [lb.simulate(system, q, v, t_end=0.5, dt=0.5 / n).energy_drift for n in (50, 100)]
    assert drifts[1] < 1e-7 and np.log2(drifts[0] / drifts[1]) > 3
    damped = lb.simulate(lb.Robot(tree), *START, t_end=0.5, dt=5e-3)
    run = lb.simulate(system, q, v, t_end=0.5, dt=5e-3)
    np.testing.assert_allclose(run.work_done, damped.work_done, atol=1e-6)


def test_work_of_a_robot_with_elements_is_that_of_its_ledger():
    robot = arm()
    system = robot_system(robot, JointFriction(0.3, v_s=0.3), JointSpring(8.0), step=1e-3)
    run = system.simulate(*START, t_end=1.0, record_every=0.1)
    ledger = system.ledger(run)
    assert ledger.residual == pytest.approx(-run.energy_balance[-1], abs=1e-12)
    assert np.abs(run.energy_balance).max() < 1e-7 < np.abs(run.energy_change).max()
    same = lb.simulate(
        robot, *START, t_end=1.0, dt=1e-3, record_every=0.1,
        forces=[JointFriction(0.3, v_s=0.3), JointSpring(8.0)],
    )  # fmt: skip
    np.testing.assert_allclose(run.work_done, same.work_done, atol=1e-6)
    np.testing.assert_allclose(run.energy, same.energy, atol=1e-6)
    assert run.coordinates == same.coordinates and run.tau.shape == run.v.shape


def test_forces_of_a_run_are_the_efforts_of_its_laws():
    run = lb.simulate(arm(), *START, t_end=0.2, dt=1e-2, forces=[JointSpring({"A": 8.0}, 0.2)])
    assert list(run.forces) == ["damping", "spring"]
    np.testing.assert_allclose(run.forces["damping"], -run.v * [0.1, 0.2], rtol=1e-14)
    np.testing.assert_allclose(run.forces["spring"][:, 0], -8.0 * (run.q[:, 0] - 0.2), rtol=1e-12)
    np.testing.assert_array_equal(run.forces["spring"][:, 1], 0)


# -- files and tables --------------------------------------------------------------------------------------


def runs() -> dict[str, lb.Run]:
    robot, many = arm(), np.array([[1.5, -2.0], [0.5, 1.0]])
    event = {"events": {"level": lambda t, q, v: q[0]}}
    bars = three_bar("SE3")[0]
    return {
        "robot": lb.simulate(robot, *START, t_end=0.5, dt=1e-2, tau=controlled(robot), **event),
        "ensemble": lb.simulate(robot, START[0], many, t_end=0.5, dt=1e-2, tau=[1.0, 0.0], **event),
        "quiet": lb.simulate(
            robot, [0.3, 0.1], t_end=0.05, dt=1e-2, events={"never": lambda t, q, v: q[0] + 9}
        ),
        "variants": lb.simulate(
            robot,
            *START,
            t_end=0.1,
            dt=1e-2,
            tau=lambda t, q, v, p: -p.K * v,
            parameters={"a.mass": [1.0, 2.0], "gravity": [0, 0, -1.6], "K": 2.0},
        ),
        "swings": lb.simulate(bars, t_end=0.1, dt=1e-2, parameters={"gravity": [[0, 0, -9.8], [0, 1, -5]]}),
        "constrained": lb.simulate(bars, t_end=0.1, dt=1e-2),
        "hybrid": ball().simulate([[0.3], [0.5]], t_end=1.0, parameters={"stiffness": [4e3, 8e3]}),
        "walker": robot_system(robot, JointFriction(0.1), step=1e-3).simulate(*START, t_end=0.1),
    }


KINDS = ("robot", "ensemble", "quiet", "variants", "swings", "constrained", "hybrid", "walker")


@pytest.fixture(scope="module")
def made() -> dict[str, lb.Run]:
    return runs()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.many
def test_a_file_gives_the_same_kind_of_run_and_equal_xarray_objects(made, kind, tmp_path):
    run = made[kind]
    run.save(tmp_path / "run.nc")
    again = lb.Run.load(tmp_path / "run.nc")
    assert type(again) is type(run)
    assert again.to_xarray().identical(run.to_xarray())
    with xarray.open_dataset(tmp_path / "run.nc") as dataset:
        assert dataset.load().identical(run.to_xarray())
    assert repr(again.events) == repr(run.events)
    if run.events is not None and kind != "walker":
        log = again.events[0] if run.batch else again.events
        assert all(len(log.of(name)) == log.guard.count(name) for name in log.names)
        with pytest.raises(LiebodyError, match=f"no event 'typo'; there are {', '.join(log.names)}"):
            log.of("typo")
    if run.parameters is None:
        assert again.parameters is None
    else:
        pairs = [(again.parameters[name], x) for name, x in run.parameters.items()]
        assert again.parameters.keys() == run.parameters.keys() and all(np.array_equal(*x) for x in pairs)
    if run.has_energies:
        np.testing.assert_array_equal(again.energy_balance, run.energy_balance)
    if isinstance(run, HybridRun):
        assert again.ends.tolist() == run.ends.tolist() and again.parameters.keys() == run.parameters.keys()
    if isinstance(run, ConstrainedRun):
        np.testing.assert_array_equal(again.residual, run.residual)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.wide
def test_every_kind_of_run_has_a_summary_a_picture_members_and_tables(made, kind, tmp_path):
    run = made[kind]
    assert run.summary().startswith(repr(run))
    assert ("work done" in run.summary()) == (run.work_done is not None)
    run.plot(tmp_path / "run.png")
    frame = run.to_dataframe()
    n = len(run.t)
    assert len(frame) == max(1, int(np.prod(run.batch))) * n and not {"time", "t"} & set(frame.columns)
    name = f"q.{run.coordinates.names[0]}"
    np.testing.assert_array_equal(frame[name].to_numpy().reshape(*run.batch, n), run.q[..., 0])
    assert frame.attrs["units"][name] == run.coordinates.units[0]
    run.to_csv(tmp_path / "run.csv")
    with open(tmp_path / "run.csv", newline="", encoding="utf-8") as file:
        head, *rows = csv.reader(file)
    assert head[: len(run.batch) + 1] == [*(["batch"] * len(run.batch)), "time [s]"]
    column = next(i for i, x in enumerate(head) if x.split(" [")[0] == name)
    np.testing.assert_array_equal([float(row[column]) for row in rows], frame[name])
    if run.batch:
        one = run.member(1)
        assert type(one) is type(run) and not one.batch
        np.testing.assert_array_equal(one.to_dataframe()[name], frame.xs(1, level="batch")[name])
    again = pickle.loads(pickle.dumps(run.member() if not run.batch else run.member(0)))
    assert again.to_xarray().equals((run.member() if not run.batch else run.member(0)).to_xarray())


def test_parameters_stand_in_every_row_of_a_member_in_tables(made):
    run = made["variants"]
    frame = run.to_dataframe()
    assert (frame.xs(1, level="batch")["parameter_a.mass"] == 2.0).all() and "parameter_K" in frame
    assert (frame["parameter_gravity.2"] == -1.6).all()
    assert run.to_xarray()["parameter_a.mass"].dims == ("batch",)
    assert made["hybrid"].to_dataframe().xs(1, level="batch")["parameter_stiffness"].unique() == [8e3]


def test_a_hybrid_run_has_its_memory_work_and_outputs_in_a_table(made):
    frame = made["hybrid"].to_dataframe()
    names = {"memory_touching", "work_of_weight", "output_height", "output_state.0", "output_state.1"}
    assert names <= set(frame)
    with pytest.raises(LiebodyError, match="has no energies"):
        made["hybrid"].energy_drift  # noqa: B018 - it has none
    assert made["walker"].view() is not None
    with pytest.raises(LiebodyError, match="no event 'floor'; there are none"):
        made["walker"].events.of("floor")


@pytest.mark.parametrize("entries", [1000, 10**6])
def test_large_parameters_are_no_columns(entries, tmp_path):
    """A height map of a million numbers is named in place of a million columns; a thousand are columns."""
    run = lb.simulate(lb.load("double_pendulum"), [0.3, 0.1], t_end=0.01, dt=1e-3)
    heights = np.arange(float(entries)).reshape(10, -1)
    run = dataclasses.replace(run, parameters={"heights": heights, "mass": np.array(2.0)})
    path = tmp_path / "run.csv"
    if entries == 1000:
        frame = run.to_dataframe()
        assert (frame["parameter_heights.9.99"] == 999).all() and "left_out" not in frame.attrs
        return
    with pytest.warns(UserWarning, match=r"parameter_heights \(10, 100000\): .* no columns; to_xarray"):
        frame = run.to_dataframe()
    with pytest.warns(UserWarning, match="no columns"):
        run.to_csv(path)
    assert frame.attrs["left_out"] == {"parameter_heights": (10, 100_000)}
    assert (frame["parameter_mass"] == 2).all() and len(frame.columns) < 20
    assert path.stat().st_size < 10_000
    assert run.to_xarray()["parameter_heights"].shape == (10, 100_000)


def test_a_file_of_an_earlier_version_without_work_forces_and_events_is_read(made, tmp_path):
    import h5netcdf

    run = made["robot"]
    run.save(tmp_path / "run.nc")
    old = tmp_path / "old.nc"
    with h5netcdf.File(tmp_path / "run.nc", "r") as source, h5netcdf.File(old, "w") as target:
        gone = ("work_done", "force_", "event")
        for name, variable in source.variables.items():
            if not name.startswith(gone):
                sizes = dict(zip(variable.dimensions, variable.shape))
                target.dimensions.update({d: n for d, n in sizes.items() if d not in target.dimensions})
                target.create_variable(name, variable.dimensions, variable.dtype, data=variable[...])
        target.attrs.update(source.attrs)
    again = lb.Run.load(old, check=False)
    assert again.work_done is None and again.forces == {} and again.events is None
    np.testing.assert_array_equal(again.q, run.q)
    np.testing.assert_array_equal(again.energy_balance, run.energy_change)


def test_a_table_that_cannot_be_written_is_refused(made, tmp_path):
    with pytest.raises(LiebodyError, match="cannot save"):
        made["robot"].to_csv(tmp_path / "none" / "run.csv")


@pytest.mark.parametrize("batch", [(), (2,)], ids=["one", "batch"])
def test_a_run_of_a_system_without_constraints_comes_back_as_one(tmp_path, batch):
    builder = lb.SystemBuilder("free")
    builder.body("box", lb.SpatialInertia.box(1.0, [0.1, 0.2, 0.3]))
    system = builder.build()
    q = np.broadcast_to(system.guess, (*batch, system.nq))
    run = lb.simulate(system, q, v0=np.ones(6), t_end=0.1, dt=1e-2)
    run.save(tmp_path / "run.nc")
    again = lb.Run.load(tmp_path / "run.nc")
    assert type(again) is type(run) is ConstrainedRun
    assert again.residual.shape == (*batch, 11, 0) and again.largest_violation == 0
    assert again.to_dataframe().equals(run.to_dataframe()) and again.violations == {}
    np.testing.assert_array_equal(again.energy, run.energy)


@pytest.mark.parametrize("kind", [ConstrainedRun, HybridRun])
def test_what_a_program_loads_first_is_of_the_kind_that_was_saved(tmp_path, kind):
    if kind is ConstrainedRun:
        system, v = three_bar("SE3")
        run = lb.simulate(system, v0=v, t_end=0.01, dt=1e-3)
    else:
        run = ball().simulate([1.0], [0.0], t_end=0.01)
    run.save(tmp_path / "run.nc")
    code = f"import liebody as lb; print(type(lb.Run.load({str(tmp_path / 'run.nc')!r})).__name__)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == kind.__name__
