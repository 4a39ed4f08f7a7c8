"""Sweeps: what is stored, what survives kills, what fails, what is refused."""

from __future__ import annotations

import ast
import os
import random
import re
import subprocess
import sys
import threading
import time
import warnings
from pathlib import Path

import cloudpickle
import numpy as np
import psutil
import pytest
import xarray
import zarr
from test_hybrid_systems import ball

import liebody as lb
from liebody.base.errors import LiebodyError, ShapeError, SweepError
from liebody.groups import Spherical
from liebody.sweep import DamagedStore, FailedChunks, inventory, workers
from liebody.sweep.identity import parts
from liebody.sweep.space import Space

AXES = {"mass": np.linspace(1, 4, 100), "height": np.linspace(0.2, 1.2, 100)}
GAIN = 2.0
ELSEWHERE = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path])}


def balls(store, **how):
    """10^4 balls that fall and bounce, in 50 chunks."""
    return lb.sweep(
        ball(),
        AXES,
        store,
        q0=["height"],
        t_end=0.6,
        record_every=0.1,
        outputs=["energy", "memory_hits", "work_floor"],
        chunk=200,
        **how,
    )


def squares(p, factor=1.0):
    return {"y": factor * p["x"] ** 2}


def files(store):
    """Everything in a store, byte by byte."""
    return {str(p.relative_to(store)): p.read_bytes() for p in Path(store).rglob("*") if p.is_file()}


def recorded(store):
    return len([p for p in Path(store).glob("status/recorded/*") if p.suffix != ".partial"])


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """The store of the 10^4 balls, left alone, in one process."""
    store = tmp_path_factory.mktemp("alone") / "balls.zarr"
    balls(store, workers=0)
    return store


class Killer(threading.Thread):
    """Kills one of `victims()` at random, each time some more chunks are recorded."""

    def __init__(self, store, victims, times, seed=1):
        super().__init__(daemon=True)
        self.store, self.victims, self.random = store, victims, random.Random(seed)
        self.at = sorted(self.random.sample(range(1, 30), times))
        self.killed = []

    def run(self):
        for count in self.at:
            while recorded(self.store) < count:
                time.sleep(0.002)
            time.sleep(self.random.uniform(0, 0.05))
            while not (alive := [pid for pid in self.victims() if pid not in self.killed]):
                time.sleep(0.01)
            self.killed.append(self.random.choice(alive))
            os.kill(self.killed[-1], 9)


# -- what is stored ---------------------------------------------------------------------------------------


def test_a_grid_has_its_axes_as_dimensions(tmp_path):
    def run(p):
        assert set(map(len, p.values())) == {len(p["k"])}
        return {
            "y": p["k"] * p["b"] + p["n"],
            "curve": p["k"][:, None] * np.arange(3.0),
            "word": np.char.add(p["law"], "!"),
            "big": p["n"] > 1,
        }

    axes = {"k": np.linspace(0, 1, 7), "n": [1, 2, 3], "law": ["PD", "PID"], "b": 4.0}
    ds = lb.sweep(
        run,
        axes,
        tmp_path / "grid.zarr",
        outputs={"y": (), "curve": ("time",), "word": (), "big": ()},
        coords={"time": [0, 0.1, 0.2]},
        units={"k": "N/m", "y": "m"},
        chunk=5,
        workers=2,
    )
    expected = axes["k"][:, None, None] * 4 + np.array([1, 2, 3])[:, None] + np.zeros(2)
    np.testing.assert_array_equal(ds.y, expected)
    assert ds.y.dims == ("k", "n", "law") and ds.curve.dims == ("k", "n", "law", "time")
    np.testing.assert_array_equal(ds.curve[:, 0, 0], np.outer(axes["k"], np.arange(3.0)))
    assert ds.word.sel(k=0, n=2, law="PID").item() == "PID!"
    assert ds.big.dtype == bool and ds.b == 4 and ds.k.units == "N/m" and ds.y.units == "m"
    assert (ds.status == 1).all() and (ds.cause == "").all()
    np.testing.assert_array_equal(ds.time, [0, 0.1, 0.2])
    again = xarray.open_zarr(tmp_path / "grid.zarr", consolidated=False)
    xarray.testing.assert_identical(ds.y.load(), again.y.load())
    picked = ds.where(ds.n == 2, drop=True)
    assert picked.word.shape == (7, 1, 2) and picked.cause.dtype == object
    ds.to_netcdf(tmp_path / "grid.nc", engine="h5netcdf")
    assert zarr.open_array(tmp_path / "grid.zarr/y").chunks == (1, 2, 2)


@pytest.mark.parametrize(
    ("shape", "most", "box"),
    [((128, 128), 512, (4, 128)), ((10, 10, 10), 512, (5, 10, 10)), ((50, 3, 300), 512, (1, 1, 300))]
    + [((2, 2000), 512, (1, 512)), ((7,), 3, (3,)), ((4, 5), 10**9, (4, 5)), ((16384,), None, (512,))]
    + [((40,), None, (3,))],
)
def test_chunks_are_boxes_that_cover_the_grid_once(shape, most, box):
    space = Space({f"x{i}": np.arange(n) for i, n in enumerate(shape)}, most)
    assert space.box == box
    count = np.zeros(shape, int)
    for k in range(len(space)):
        count[space.region(k)] += 1
        members = space.parameters(k)
        indices = np.stack([members[f"x{i}"].reshape(space.members(k)) for i in range(len(shape))])
        np.testing.assert_array_equal(indices, np.indices(shape)[(slice(None), *space.region(k))])
    assert (count == 1).all()


@pytest.mark.parametrize("method", ["sobol", "latin-hypercube", "halton", "random"])
def test_samples_fill_their_box_and_repeat(method):
    sample = lb.sample({"x": (-1, 3), "y": (10, 20), "g": 9.81}, 256, method, seed=3)
    assert sample["x"].shape == (256,) and sample["g"] == 9.81
    for name, low, high in (("x", -1, 3), ("y", 10, 20)):
        quarter = np.histogram(sample[name], 4, (low, high))[0]
        assert quarter.sum() == 256 and np.all(abs(quarter - 64) <= (20 if method == "random" else 2))
    again, other = (lb.sample({"x": (-1, 3), "y": (10, 20)}, 256, method, seed=k) for k in (3, 4))
    np.testing.assert_array_equal(sample["x"], again["x"])
    assert np.any(sample["x"] != other["x"])


def test_a_sample_may_have_states_as_parameters(tmp_path):
    robot = lb.models.double_pendulum()
    q = robot.random(0, 50)
    sample = lb.Sample({"start": q, "speed": np.linspace(0, 1, 50)})
    ds = lb.sweep(
        robot,
        sample,
        tmp_path / "sample.zarr",
        q0=lambda p: p["start"],
        v0=["speed", 0.0],
        t_end=0.5,
        dt=0.01,
        record_every=0.1,
        chunk=20,
        workers=1,
    )
    assert ds.start.dims == ("sample", "start_1") and ds.q.dims == ("sample", "time", "coordinate")
    run = lb.simulate(
        robot, q, np.stack([sample["speed"], np.zeros(50)], -1), t_end=0.5, dt=0.01, record_every=0.1
    )
    np.testing.assert_allclose(ds.q, run.q, atol=1e-12)
    np.testing.assert_allclose(ds.kinetic, run.kinetic, atol=1e-12)
    assert list(ds.coordinate) == list(run.coordinates.names) and (ds.end_time == 0.5).all()


@pytest.mark.wide
def test_a_system_is_swept_as_ensembles_of_what_it_simulates(alone):
    ds = xarray.open_zarr(alone, consolidated=False)
    assert ds.energy.dims == ("mass", "height", "time") and ds.energy.shape == (100, 100, 7)
    members = ds.isel(mass=[0, 40, 99], height=[5, 99])
    run = ball().simulate(
        members.height.values[:, None],
        t_end=0.6,
        record_every=0.1,
        parameters={"mass": members.mass.values[:, None]},
    )
    np.testing.assert_allclose(members.energy, run.outputs["energy"], rtol=1e-9)
    np.testing.assert_array_equal(members.memory_hits, run.memory["hits"])
    np.testing.assert_allclose(members.time, run.t)
    assert (ds.status == 1).all() and "q" not in ds


# -- kills ------------------------------------------------------------------------------------------------


@pytest.mark.wide
def test_workers_that_are_killed_change_nothing(alone, tmp_path):
    store = tmp_path / "balls.zarr"

    def victims():
        return [p.pid for p in psutil.Process().children() if "liebody.sweep" in " ".join(p.cmdline())]

    killer = Killer(store, victims, 5)
    killer.start()
    ds = balls(store, workers=2)
    killer.join(1)
    assert killer.killed, "five, unless the machine is too busy to kill before the sweep ends"
    assert (ds.status == 1).all()
    assert files(store) == files(alone)
    assert not victims()


@pytest.mark.wide
def test_a_parent_that_is_killed_loses_nothing_and_repeats_nothing(alone, tmp_path):
    store = tmp_path / "balls.zarr"
    code = "import sys, test_sweep as t; t.balls(sys.argv[1], workers=int(sys.argv[2]))"
    rng = random.Random(2)
    for count, number in ((1, 1), (20, 2)):
        process = subprocess.Popen([sys.executable, "-c", code, str(store), str(number)], env=ELSEWHERE)
        while recorded(store) < count:
            assert process.poll() is None
            time.sleep(0.002)
        time.sleep(rng.uniform(0, 0.05))
        children = psutil.Process(process.pid).children()
        process.kill()
        process.wait()
        assert not psutil.wait_procs(children, 10)[1], "workers outlive their parent"
    done = [name for name in files(store) if re.fullmatch(r"status/recorded/\d+\.\d+", name)]
    times = {name: (store / name).stat().st_mtime_ns for name in done}
    assert 20 <= len(done) < 50
    (store / "energy/c/9").mkdir(parents=True, exist_ok=True)
    (store / "energy/c/9/9.0123.partial").write_bytes(b"cut off")  # as a kill within a write leaves it
    (tmp_path / ".balls.zarr.0123456789ab.new").mkdir()  # as a kill within the making of a store does
    balls(store, workers=0)
    assert files(store) == files(alone)
    assert times == {name: (store / name).stat().st_mtime_ns for name in done}
    assert [path.name for path in tmp_path.iterdir()] == ["balls.zarr"]


@pytest.mark.wide
def test_a_cluster_whose_workers_are_killed_gives_the_same(alone, tmp_path):
    distributed = pytest.importorskip("distributed")
    store = tmp_path / "balls.zarr"
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
    ):
        pids = list(client.run(os.getpid).values())
        killer = Killer(store, lambda: pids, 1)
        killer.start()
        ds = balls(store, client=client)
        killer.join(1)
        assert len(killer.killed) == 1 and (ds.status == 1).all()
        client.run(os.getpid)
    assert files(store) == files(alone)


def test_only_what_is_missing_is_run_on_resuming(tmp_path):
    ran, stop = [], []

    def run(p):
        if len(ran) == 3 and not stop:
            stop.append(1)
            raise KeyboardInterrupt
        ran.append(p["x"][0])
        return {"y": p["x"]}

    def once():
        return lb.sweep(
            run, {"x": np.arange(40.0)}, tmp_path / "s.zarr", chunk=5, workers=0, identity="counting"
        )

    with pytest.raises(KeyboardInterrupt):
        once()
    ds = xarray.open_zarr(tmp_path / "s.zarr", consolidated=False)
    assert (ds.status == 1).sum() == 15 and np.isnan(ds.y[15:]).all() and (ds.status[15:] == 0).all()
    assert (once().y == np.arange(40)).all()
    assert ran == list(range(0, 40, 5))
    once()
    assert len(ran) == 8


# -- failures ---------------------------------------------------------------------------------------------


class Odd(BaseException):
    """None of the errors that programs catch."""


class Mute(Exception):
    """An error whose message cannot be made."""

    def __str__(self):
        raise Odd


ODD = {
    "Odd": Odd("x"),
    "Mute": Mute(),
    "KeyboardInterrupt": KeyboardInterrupt(),
    "GeneratorExit": GeneratorExit(),
    "SystemExit": SystemExit(3),
    "ValueError": ValueError("\ud800 \x1b[2J \0 \N{RIGHT-TO-LEFT OVERRIDE}"),
}


def raising(p):
    error = list(ODD.values())[int(p["x"][0])]
    if p["x"][0] < len(ODD) and p["y"][0]:
        raise error
    return {"z": p["x"]}


def check_that_what_is_raised_is_a_failure_of_its_chunk(store, odd, **who):
    """Whatever a function raises, its chunk is marked, and the others are done."""
    axes = {"x": np.array([list(ODD).index(name) for name in odd], float), "y": np.arange(2.0)}
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        ds = lb.sweep(raising, axes, store, chunk=1, identity="raising", **who)
    assert ds.status.values.tolist() == [[1, 3]] * len(odd)
    assert [str(cause).partition(":")[0] for cause in ds.cause.values[:, 1]] == list(odd)
    words = [*map(str, ds.cause.values.ravel()), *(str(x.message) for x in told)]
    assert all(sign.isprintable() or sign in "\n\t" for text in words for sign in text)


@pytest.mark.parametrize("who", [0, 2])
def test_whatever_a_function_raises_is_a_failure_of_its_chunk(who, tmp_path):
    odd = [name for name in ODD if who or name in ("Mute", "SystemExit", "ValueError")]
    check_that_what_is_raised_is_a_failure_of_its_chunk(tmp_path / "s.zarr", odd, workers=who)


def test_whatever_a_function_raises_on_a_cluster_is_a_failure_of_its_chunk(tmp_path):
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(1, threads_per_worker=1, processes=False, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
    ):
        check_that_what_is_raised_is_a_failure_of_its_chunk(tmp_path / "s.zarr", ODD, client=client)


@pytest.mark.parametrize("error", [KeyboardInterrupt, Odd, GeneratorExit])
def test_what_is_no_error_ends_a_sweep_of_this_process(error, tmp_path):
    def run(p):
        raise error

    with pytest.raises(error):
        lb.sweep(run, {"x": np.arange(3.0)}, tmp_path / "s.zarr", workers=0)


def test_members_that_end_early_are_marked_and_the_others_go_on(tmp_path):
    """Too soft a floor: they fall through. Too negative a mass: not finite."""
    system = ball(stop=lambda t, q, v, z, p: -0.5 - q[0])
    ds = lb.sweep(
        system,
        {"stiffness": [0.0, 4e3], "mass": [1.0, 2.0], "drag": [0.1, -3e4]},
        tmp_path / "s.zarr",
        q0=[1.0],
        t_end=2.0,
        record_every=0.1,
        workers=0,
    )
    assert ds.status.sel(drag=0.1).values.tolist() == [[2, 2], [1, 1]]
    fallen = ds.sel(stiffness=0, drag=0.1)
    assert (fallen.cause == "stopped").all()
    np.testing.assert_allclose(fallen.end_time, np.sqrt(3 / 9.81), atol=0.05)
    wild = ds.sel(drag=-3e4)
    assert (wild.status == 2).all() and set(wild.cause.values.ravel()) <= {"a value is not finite", "stopped"}
    assert np.isfinite(ds.q.sel(stiffness=4e3, drag=0.1)).all()


def test_a_robot_that_diverges_is_marked(tmp_path):
    ds = lb.sweep(
        lb.models.double_pendulum(),
        {"speed": [1.0, 1e200]},
        tmp_path / "s.zarr",
        v0=["speed", 0],
        t_end=1.0,
        dt=0.1,
        workers=0,
        chunk=2,
    )
    assert ds.status.values.tolist() == [1, 2]
    assert ds.cause.values.tolist() == ["", "a value is not finite"] and ds.end_time[1] < 0.5


@pytest.mark.parametrize("number", [0, 1])
def test_a_chunk_that_raises_is_marked_reported_and_tried_again(tmp_path, number):
    broken = tmp_path / "broken"
    broken.touch()

    def run(p):
        if broken.exists() and (p["x"] == 7).any():
            raise ZeroDivisionError("seven is broken")
        return {"y": p["x"] ** 2}

    def once():
        return lb.sweep(run, {"x": np.arange(20.0), "g": 9.81}, tmp_path / "s.zarr", chunk=5, workers=number)

    with pytest.warns(FailedChunks) as caught:
        ds = once()
    first, last = (str(w.message) for w in caught)
    assert re.search(r"chunk 1 failed, x = 5.0 ... 9.0, g = 9.81: ZeroDivisionError: seven is broken", first)
    assert "in run" in first  # the traceback
    assert re.search(r"1 of 4 chunks failed \(5 of 20 members", last)
    assert all(w.filename == __file__ for w in caught)
    assert ds.status.values.tolist() == [1] * 5 + [3] * 5 + [1] * 10
    assert (ds.cause[5:10] == "ZeroDivisionError: seven is broken").all() and np.isnan(ds.y[5:10]).all()
    broken.unlink()
    ds = once()
    assert (ds.status == 1).all() and (ds.y == ds.x**2).all() and (ds.cause == "").all()


def test_a_chunk_that_kills_its_workers_is_given_up(tmp_path, monkeypatch):
    monkeypatch.setattr(workers, "DEATHS", 2)

    def run(p):
        if p["x"][0] == 5:
            os.abort()
        return {"y": p["x"]}

    with pytest.warns(FailedChunks, match="2 workers died at it, the last one by signal SIGABRT"):
        ds = lb.sweep(run, {"x": np.arange(10)}, tmp_path / "s.zarr", chunk=5, workers=1)
    assert ds.status.values.tolist() == [1] * 5 + [3] * 5


def test_a_chunk_whose_results_do_not_fit_is_marked(tmp_path):
    def run(p):
        if p["x"][0] == 0:
            return {"y": p["x"]}
        return {"y": p["x"] + 0.5} if p["x"][0] == 5 else {"y": p["x"], "z": p["x"]}

    with pytest.warns(FailedChunks):
        ds = lb.sweep(run, {"x": np.arange(15)}, tmp_path / "s.zarr", chunk=5, workers=0)
    assert ds.status.values.tolist() == [1] * 5 + [3] * 10
    assert "y is of type float64" in ds.cause[5].item() and "['y', 'z']" in ds.cause[10].item()


def test_where_the_first_chunk_fails_the_next_one_tells_the_results(tmp_path):
    def run(p):
        if p["x"][0] == 0:
            raise ValueError("no")
        return {"y": p["x"]}

    with pytest.warns(FailedChunks):
        ds = lb.sweep(run, {"x": np.arange(15)}, tmp_path / "s.zarr", chunk=5, workers=0)
    assert ds.status.values.tolist() == [3] * 5 + [1] * 10 and ds.y.values.tolist() == [0] * 5 + list(
        range(5, 15)
    )


# -- definitions ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"axes": {"x": np.linspace(0, 2, 40)}}, "parameter x was 40 values from 0.0 to 1.0 .*, now"),
        ({"axes": {"z": np.linspace(0, 1, 40)}}, "parameter x is missing"),
        ({"axes": {"x": np.linspace(0, 1, 40), "g": 9.81}}, "parameter g is new"),
        ({"run": lambda p, factor=1.0: {"y": factor * p["x"] ** 3}}, "run was 'squares', now"),
        ({"factor": 2.0}, "option factor has changed"),
        ({"chunk": 8}, "chunk was {'x': 10}, now {'x': 8}"),
        ({"outputs": ["y"]}, "outputs was None, now {'y': \\[\\]}"),
        ({"resume": False}, "resume=True, or remove it"),
    ],
)
def test_another_definition_is_refused(tmp_path, change, words):
    how = {"run": squares, "axes": {"x": np.linspace(0, 1, 40)}, "factor": 3.0, "chunk": 10, "workers": 0}
    store = tmp_path / "s.zarr"
    lb.sweep(store=store, **how)
    before = files(store)
    with pytest.raises(SweepError, match=words):
        lb.sweep(store=store, **{**how, **change})
    assert files(store) == before


def test_a_function_is_known_by_what_its_results_depend_on(monkeypatch):
    def closure(gain):
        def run(p):
            return {"y": gain * p["x"]}  # a comment

        return run

    def other(gain):
        def run(p):
            """With words."""
            return {"y": gain * p["x"]}

        return run

    assert parts(closure(2.0), {}) == parts(closure(2.0), {}) == parts(other(2.0), {})
    assert parts(closure(2.0), {}) != parts(closure(3.0), {})
    assert parts(closure(np.arange(3)), {}) != parts(closure(np.arange(1, 4)), {})

    def uses_a_global(p):
        return helper(p)

    before = parts(uses_a_global, {})
    assert {"helper", "GAIN"} <= set(before)
    monkeypatch.setitem(globals(), "GAIN", 5.0)
    after = parts(uses_a_global, {})
    assert [name for name in before if before[name] != after[name]] == ["GAIN"]


def helper(p):
    return {"y": GAIN * p["x"]}


@pytest.mark.parametrize("place", ["lib/dist-packages", "site-packages", "vendored"])
def test_libraries_are_known_by_name_wherever_they_stand(tmp_path, monkeypatch, place):
    """A library that is updated, or found elsewhere, does not make another sweep."""
    known = []
    for version in ("1", "2"):
        folder = tmp_path / version / place
        (folder / "measures").mkdir(parents=True)
        (folder / f"measures-{version}.dist-info").mkdir()
        source = f"scale = {version}\ndef measure(x):\n    return {version} * scale * x\n"
        (folder / "measures/__init__.py").write_text(source)
        monkeypatch.syspath_prepend(folder)
        monkeypatch.delitem(sys.modules, "measures", raising=False)
        import measures

        known.append(parts(lambda p: {"y": measures.measure(p["x"])}, {"also": measures.measure}))
    monkeypatch.delitem(sys.modules, "measures")
    assert known[0] == known[1] and set(known[0]) == {"run", "option also", "Python"}


class Growing:
    """An object whose state is noted in a dictionary when it is asked for."""

    noted = {}  # noqa: RUF012

    def __getstate__(self):
        self.noted[len(self.noted)] = "asked"
        return {"noted": 1}


def test_a_dictionary_may_change_while_it_is_walked():
    Growing.noted["first"] = Growing()
    assert parts(lambda p: Growing.noted, {"known": Growing.noted})


def test_a_system_is_known_by_its_definition_and_not_by_what_was_compiled():
    system = ball()
    before = parts(system, {})
    assert before == parts(ball(), {})
    system.simulate([1.0], t_end=0.1)
    assert parts(system, {}) == before
    assert parts(ball(parameters={"mass": 3.0, "stiffness": 4e3, "damping": 5.0, "drag": 0.1}), {}) != before
    assert parts(ball(stop=lambda t, q, v, z, p: -1 - q[0]), {}) != before
    robots = lb.models.puma560(), lb.models.puma560(), lb.models.double_pendulum()
    robots[1].mass_matrix(np.zeros(6))
    first, second, third = (parts(robot, {}) for robot in robots)
    assert first == second != third


def test_a_digest_is_the_same_in_every_process():
    code = (
        "import test_sweep as t; print([t.parts(t.ball(), {}), t.parts(t.squares, {'a': {'x', 'y', 'z'}})])"
    )
    found = subprocess.run(
        [sys.executable, "-c", code],
        env={**ELSEWHERE, "PYTHONHASHSEED": "1"},
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    assert ast.literal_eval(found) == [parts(ball(), {}), parts(squares, {"a": {"x", "y", "z"}})]


def test_one_process_at_a_time(tmp_path):
    store = tmp_path / "s.zarr"

    def run(p):
        if p["x"][0] == 5:
            with pytest.raises(SweepError, match="another process"):
                sweep()
        return {"y": p["x"]}

    def sweep():
        return lb.sweep(run, {"x": np.arange(10)}, store, chunk=5, workers=0, identity="itself")

    assert (sweep().status == 1).all()


def test_other_folders_are_left_alone(tmp_path):
    (tmp_path / "precious.txt").write_text("mine")
    with pytest.raises(SweepError, match="not a store of a sweep"):
        lb.sweep(squares, {"x": [1.0]}, tmp_path, workers=0)
    assert files(tmp_path) == {"precious.txt": b"mine"}


@pytest.mark.parametrize(
    ("run", "axes", "options", "error", "words"),
    [
        (squares, {}, {}, ShapeError, "one axis"),
        (squares, {"g": 9.81}, {}, ShapeError, "one axis"),
        (squares, {"x": [[1.0]]}, {}, ShapeError, "shape \\(1, 1\\)"),
        (squares, {"x": [np.nan]}, {}, ShapeError, "finite"),
        (squares, {"x": []}, {}, ShapeError, "one or more"),
        (squares, {"not a word": [1]}, {}, SweepError, "not a word"),
        (squares, {"x": [1]}, {"chunk": 0}, SweepError, "chunk is 0"),
        (squares, {"x": [1]}, {"workers": -1}, SweepError, "workers is -1"),
        (squares, {"x": [1.0]}, {"outputs": ["z"]}, SweepError, "squares has no output 'z'; there are y"),
        (squares, {"y": [1.0]}, {}, SweepError, "no chunk .* y = 1.0.*KeyError: 'x'"),
        (lambda p: {"x": p["x"]}, {"x": [1]}, {}, SweepError, "'x' is a parameter"),
        (lambda p: {"y": p["status"]}, {"status": [1]}, {}, SweepError, "'status' is made by the sweep"),
        (lambda p: {"y": p["cause"]}, {"cause": [1]}, {}, SweepError, "'cause' is made by the sweep"),
        (
            squares,
            {"x": [1]},
            {"coords": {"y": [1]}},
            SweepError,
            "'y' is values along an axis, and a result",
        ),
        (squares, 3, {}, LiebodyError, "axes is 3, expected Mapping"),
        (squares, {"x": [1]}, {"outputs": 3}, LiebodyError, "outputs is 3, expected text or"),
        (squares, {"x": [1]}, {"units": 3}, LiebodyError, "units is 3, expected Mapping"),
        (squares, {"x": [1]}, {"units": {"z": "m"}}, SweepError, "units has 'z', .* known are x, y"),
        (squares, {"x": [1]}, {"units": {"status": "1"}}, SweepError, "units has 'status', which is no"),
        (squares, {"x": [1]}, {"store": 3}, LiebodyError, "store is 3, expected text or PathLike"),
        (lambda p: {"status": p["x"]}, {"x": [1]}, {}, SweepError, "'status' is made by the sweep"),
        (lambda p: {"y": 1.0}, {"x": [1]}, {}, SweepError, "shape \\(\\), expected \\(1, ...\\)"),
        (lambda p: 3, {"x": [1]}, {}, SweepError, "expected a dictionary"),
        (3, {"x": [1]}, {}, SweepError, "expected a function"),
        (ball(), {"masse": [1]}, {"t_end": 1}, SweepError, "nothing depends on 'masse'.* There are: .*mass"),
        (
            ball(),
            {"mass": [1]},
            {"t_end": 1, "t_ends": 1},
            SweepError,
            "options of ball: .*'t_ends'; there are t_end, dt",
        ),
        (ball(), {"mass": [1]}, {}, SweepError, "options of ball: missing .*'t_end'"),
        (squares, {"x": [1]}, {"worker": 1}, SweepError, "options of squares: .*'worker'"),
        (squares, {"x": [1]}, {"store": "/dev/null/x"}, SweepError, "cannot make the folder"),
        (ball(), {"mass": [1]}, {"t_end": 1, "q0": ["h"]}, SweepError, "q0 depends on 'h'"),
        (ball(), {"mass": [1]}, {"t_end": 0.1, "outputs": ["apex"]}, SweepError, "no output 'apex'; there"),
    ],
)
@pytest.mark.filterwarnings("ignore::liebody.sweep.FailedChunks")
def test_what_cannot_be_is_refused_in_words(tmp_path, run, axes, options, error, words):
    with pytest.raises(error, match=words):
        lb.sweep(run, axes, **{"store": tmp_path / "s.zarr", "workers": 0, **options})
    assert not (tmp_path / "s.zarr").exists()


def test_units_of_unknown_names_are_refused_of_a_store_that_is_there_too(tmp_path):
    store = tmp_path / "s.zarr"
    lb.sweep(squares, {"x": [1.0, 2.0]}, store, workers=0, units={"y": "m2"})
    with pytest.raises(SweepError, match=r"units has 'xx', .* known are x, y; did you mean 'x'"):
        lb.sweep(squares, {"x": [1.0, 2.0]}, store, workers=0, units={"xx": "m"})
    assert lb.sweep(squares, {"x": [1.0, 2.0]}, store, workers=0, units={"x": "m"}).y.units == "m2"


def test_one_output_may_be_named_by_a_text(tmp_path):
    def run(p):
        return {"twice": 2 * p["x"], "wet": p["x"]}

    found = lb.sweep(run, {"x": [1.0, 2.0]}, tmp_path / "s.zarr", workers=0, outputs="twice")
    assert "wet" not in found and found.twice.values.tolist() == [2, 4]


def test_robots_and_systems_can_be_sent_after_they_were_compiled():
    robot, system = lb.models.puma560(), ball()
    tau = robot.inverse_dynamics(np.ones(6), np.ones(6), np.ones(6))
    run = system.simulate([1.0], t_end=0.5, record_every=0.1)
    again = [cloudpickle.loads(cloudpickle.dumps(x)) for x in (robot, system)]
    np.testing.assert_array_equal(again[0].inverse_dynamics(np.ones(6), np.ones(6), np.ones(6)), tau)
    np.testing.assert_array_equal(again[1].simulate([1.0], t_end=0.5, record_every=0.1).q, run.q)


def test_what_cannot_be_sent_to_workers_is_said(tmp_path):
    lock = threading.Lock()

    def run(p):
        with lock:
            return {"y": p["x"]}

    with pytest.raises(LiebodyError, match=r"run cannot be sent .*workers=0"):
        lb.sweep(run, {"x": [1.0]}, tmp_path / "s.zarr", workers=1)
    assert lb.sweep(run, {"x": [1.0]}, tmp_path / "s.zarr", workers=0).y == 1


def test_samples_of_different_lengths_are_refused():
    with pytest.raises(ShapeError, match="one length"):
        lb.Sample({"x": [1, 2], "y": [1, 2, 3]})
    with pytest.raises(ShapeError, match="lowest, highest"):
        lb.sample({"x": (2, 1)}, 8)
    with pytest.raises(SweepError, match="'latin-hypercube'"):
        lb.sample({"x": (1, 2)}, 8, "grid")


# -- the rest ---------------------------------------------------------------------------------------------


def test_the_bar_shows_what_was_done_before_and_the_time_that_remains(tmp_path, capsys):
    def run(p):
        if p["x"][0] == 10 and not (tmp_path / "on").exists():
            raise KeyboardInterrupt
        time.sleep(0.15)
        return {"y": p["x"]}

    def once():
        axes = {"x": np.arange(40)}
        lb.sweep(run, axes, tmp_path / "s.zarr", chunk=10, workers=0, progress=True, identity="run")

    with pytest.raises(KeyboardInterrupt):
        once()
    (tmp_path / "on").touch()
    once()
    capsys.readouterr()
    (tmp_path / "s.zarr").rename(tmp_path / "old.zarr")
    once()
    shown = capsys.readouterr().err
    assert re.search(r"10/40 \[00:00<00:0[0-2], .* runs/s\]", shown) and re.search(r"100%.*40/40", shown)


def test_functions_of_workers_see_their_share_of_the_processor(tmp_path):
    def run(p):
        return {"processors": np.full(len(p["x"]), os.cpu_count()), "pid": np.full(len(p["x"]), os.getpid())}

    number = max(2, os.cpu_count())
    ds = lb.sweep(run, {"x": np.arange(2 * number)}, tmp_path / "s.zarr", chunk=1, workers=number)
    assert (ds.processors == 1).all() and os.getpid() not in ds.pid


def test_importing_liebody_imports_none_of_what_sweeps_need():
    code = "import sys, liebody; print([m for m in ('xarray', 'zarr', 'dask', 'distributed', 'cloudpickle', "
    code += "'scipy', 'tqdm', 'multiprocessing.connection') if m in sys.modules])"
    out = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert out.strip() == "[]"


def test_a_constrained_system_is_swept_too(tmp_path):
    top = lb.SystemBuilder("top", gravity=(0, 0, 0))
    top.body("top", lb.SpatialInertia(21.6, rotational=[0.36, 0.306, 0.09]), pose=[0.5, 0, 0])
    top.joint("pivot", Spherical(), "world", "top", on_child=[-0.5, 0, 0])
    system = top.build()
    system.assemble()  # compiles

    def spinning(p):
        w = np.pi * np.stack([0 * p["spin"], p["spin"], p["spin"] / 2], axis=-1)
        return np.stack(
            [system.velocities(system.guess, {"top": [*x, *np.cross(x, [0.5, 0, 0])]}) for x in w]
        )

    ds = lb.sweep(
        system,
        {"spin": [1.0, 5.0, 10.0]},
        tmp_path / "s.zarr",
        v0=spinning,
        t_end=0.2,
        dt=1e-3,
        record_every=0.1,
        workers=1,
    )
    run = lb.simulate(system, v0=spinning({"spin": np.array([1.0, 5, 10])}), t_end=0.2, dt=1e-3)
    np.testing.assert_allclose(ds.q[:, -1], run.q[:, -1], atol=1e-10)
    np.testing.assert_allclose(ds.kinetic, ds.kinetic[:, :1] + np.zeros(3), rtol=1e-6)


# -- damage, and places that cannot be written --------------------------------------------------------------


@pytest.fixture
def small(tmp_path):
    """A store of 6 chunks, two of them nothing but NaN; and the call that makes it."""

    def again(**options):
        grid = {"x": np.arange(6.0), "z": np.arange(4.0)}
        return lb.sweep(_holes, grid, tmp_path / "s.zarr", workers=0, chunk=4, **options)

    again()
    return tmp_path / "s.zarr", again


def _holes(p):
    return {"y": np.where(p["x"] > 3, np.nan, p["x"] ** 2)}


def _replace(store):
    (store / "y/c/3/0").write_bytes((store / "y/c/2/0").read_bytes())


def _flip(store):
    content = bytearray((store / "y/c/3/0").read_bytes())
    content[len(content) // 2] ^= 4
    (store / "y/c/3/0").write_bytes(content)


DAMAGED = {
    "removed": (lambda store: (store / "y/c/3/0").unlink(), "y/c/3/0 is missing"),
    "empty": (lambda store: (store / "y/c/5/0").unlink(), "y/c/5/0 is missing"),
    "replaced": (_replace, "chunk x 3, z 0 is not as it was written"),
    "flipped": (_flip, "chunk x 3, z 0 is not as it was written"),
    "described": (
        lambda store: (store / "y/zarr.json").write_text("{"),
        "y/zarr.json is not as it was written",
    ),
    "axes": (lambda store: (store / "x/c/0").unlink(), "x/c/0 is missing"),
    "group": (lambda store: (store / "zarr.json").write_text("{}"), "zarr.json is not as it was written"),
    "folder": (lambda store: [(store / "y/c/3/0").unlink(), (store / "y/c/3/0").mkdir()], "is missing"),
}


@pytest.mark.parametrize("kind", DAMAGED)
@pytest.mark.many
def test_damage_is_named_and_what_was_computed_comes_back(small, kind):
    store, again = small
    whole, (damage, words) = files(store), DAMAGED[kind]
    assert lb.sweep.verify(store) == []
    damage(store)
    assert [words in found.what for found in lb.sweep.verify(store)] == [True]
    with pytest.warns(DamagedStore, match=words):
        again()
    assert files(store) == whole and lb.sweep.verify(store) == []


def test_a_repaired_store_says_which_members_are_to_be_run(small):
    store, again = small
    _flip(store)
    with pytest.raises(ValueError):  # who reads it notices, too
        xarray.open_zarr(store, consolidated=False, chunks=None).y.values  # noqa: B018
    assert [found.place for found in lb.sweep.repair(store)] == [(3, 0)]
    ds = xarray.open_zarr(store, consolidated=False, chunks=None)
    assert (ds.status.values == np.where(ds.x.values == 3, 0, 1)[:, None]).all()
    assert lb.sweep.verify(store) == []
    assert (again().status == 1).all()


def test_what_is_damaged_beyond_repair_is_said(small):
    store, again = small
    for name in ("y/zarr.json", "status/copy/y/zarr.json"):
        (store / name).write_text("{")
    for call in (again, lambda: lb.sweep.verify(store), lambda: lb.sweep.repair(store)):
        with pytest.raises(SweepError, match=r"y/zarr\.json and its copy"):
            call()
    with pytest.raises(SweepError, match="not a store of a sweep"):
        lb.sweep.verify(store.parent)


@pytest.mark.parametrize("name", ["../y", "a/b", "zarr.json", ".", "", "__y", "nul\0"])
def test_results_whose_names_are_no_folder_are_refused(tmp_path, name):
    with pytest.raises(SweepError, match="cannot be the name"):
        lb.sweep(lambda p: {name: p["x"]}, {"x": [1.0]}, tmp_path / "s.zarr", workers=0)
    assert not list(tmp_path.iterdir())


def test_a_full_disk_is_an_error_of_ours_and_the_same_call_goes_on(small, monkeypatch):
    store, again = small
    whole = files(store)
    (store / "y/c/3/0").unlink()

    def full(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch, pytest.warns(DamagedStore):
        patch.setattr(os, "fsync", full)
        with pytest.raises(SweepError, match="No space left on device; what was recorded before is kept"):
            again()
    again()
    assert files(store) == whole


def test_leftovers_of_other_names_stay(tmp_path):
    others = [
        tmp_path / name for name in (".s.zarr.old.0123456789ab.new", ".s.zarr.mine.new", ".s.zarr.0.new")
    ]
    for other in others:
        other.mkdir()
    (tmp_path / ".s.zarr.0123456789ab.new").write_text("a file")
    lb.sweep(squares, {"x": [1.0]}, tmp_path / "s.zarr", workers=0)
    assert all(other.is_dir() for other in others)


@pytest.mark.parametrize("folders", [True, False], ids=["by the folder", "by a file beside it"])
def test_a_store_has_one_sweep_at_a_time(tmp_path, monkeypatch, folders):
    """As on Windows too, which locks no folders; the lock ends when it is closed."""
    monkeypatch.setattr(inventory, "FOLDERS", folders)
    path = tmp_path / "p.zarr"
    arguments = lambda p: {"y": p["x"] + 1}, {"x": [1.0, 2.0]}, path
    lb.sweep(*arguments, workers=0)
    held = inventory.locked(path)
    assert held is not None and inventory.locked(path) is None
    with pytest.raises(SweepError, match="another process sweeps into"):
        lb.sweep(*arguments, workers=0)
    os.close(held)
    assert lb.sweep(*arguments, workers=0).y.values.tolist() == [2.0, 3.0]
    assert inventory.locked(tmp_path / "absent.zarr") is None
    assert not [file for file in tmp_path.iterdir() if file.name.endswith((".new", ".new.lock"))]
