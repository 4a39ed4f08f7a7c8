"""The result of a simulation: its shapes, its numbers, and its file."""

from __future__ import annotations

import h5netcdf
import numpy as np
import pytest
import xarray

from liebody.base.errors import LiebodyError, ShapeError
from liebody.bodies import Joint, Mimic, SpatialInertia, TreeBuilder
from liebody.bodies.labels import Labels, labels
from liebody.groups import (
    Cylindrical,
    Fixed,
    Free,
    Helical,
    Planar,
    PlanarHelical,
    PlanarTranslation,
    Prismatic,
    Revolute,
    Schoenflies,
    SpatialTranslation,
    Spherical,
)
from liebody.runs import Run

INERTIA = SpatialInertia.box(1.0, [0.2, 0.3, 0.4])
EVERY_JOINT = [
    Free(),
    Revolute([0, 1, 0]),
    Prismatic([1, 0, 0]),
    Helical([0, 0, 1], 0.1),
    Cylindrical([0, 0, 1]),
    PlanarTranslation([0, 0, 1]),
    Planar([0, 0, 1]),
    PlanarHelical([0, 0, 1], 0.1),
    SpatialTranslation(),
    Spherical(),
    Schoenflies([0, 0, 1]),
    Fixed(),
]


def a_tree(*groups):
    builder, parent = TreeBuilder("hopper"), "world"
    for i, group in enumerate(groups):
        builder.add(f"body{i}", Joint(f"joint{i}", group), INERTIA, parent=parent)
        parent = f"body{i}"
    return builder.build()


def a_run(batch=(), nt=5, with_tau=True, tree=None, **changes):
    tree = tree or a_tree(Free(), Revolute([0, 1, 0]))
    rng = np.random.default_rng(1)
    q = np.array([tree.group.random(rng) for _ in range(int(np.prod(batch)) * nt)])
    coordinates, dofs = labels(tree)
    parts = {
        "t": 0.1 * np.arange(nt),
        "q": q.reshape(*batch, nt, tree.nq),
        "v": rng.standard_normal((*batch, nt, tree.nv)),
        "kinetic": rng.uniform(0, 1, (*batch, nt)),
        "potential": rng.standard_normal((*batch, nt)),
        "tau": rng.standard_normal((*batch, nt, tree.nv)) if with_tau else None,
        "coordinates": coordinates,
        "dofs": dofs,
        "metadata": {"model": "hopper", "method": "rkmk4", "dt": 1e-3, "seed": 7},
    }
    return Run(**{**parts, **changes})


def test_labels_name_every_coordinate_and_velocity_of_every_joint():
    tree = a_tree(*EVERY_JOINT)
    coordinates, dofs = labels(tree)
    assert (len(coordinates), len(dofs)) == (tree.nq, tree.nv)
    assert len(set(coordinates.names)) == tree.nq and len(set(dofs.names)) == tree.nv
    assert coordinates.names[:8] == (
        *(f"joint0.{entry}" for entry in ("qw", "qx", "qy", "qz", "x", "y", "z")),
        "joint1",
    )
    assert dofs.names[:7] == (
        *(f"joint0.{entry}" for entry in ("wx", "wy", "wz", "vx", "vy", "vz")),
        "joint1",
    )


def test_units_of_velocities_follow_from_the_twists_of_the_joints():
    """A column of S with an angular part is a rate in rad/s, one without is m/s; coordinates likewise."""
    for group in EVERY_JOINT:
        coordinates, dofs = labels(a_tree(Prismatic([1, 0, 0]), group))
        expected = ["rad/s" if np.any(column[:3]) else "m/s" for column in group.S.T]
        assert list(dofs.units[1:]) == expected
        if group.nq == group.dim:
            assert [f"{unit}/s" for unit in coordinates.units[1:]] == expected
        else:
            assert coordinates.units[1:5] == ("1",) * 4


def test_units_1_are_where_the_quaternions_are():
    tree = a_tree(Revolute([1, 0, 0]), Spherical(), Prismatic([1, 0, 0]), Free())
    q = 3.0 * np.arange(1, tree.nq + 1)
    changed = np.flatnonzero(tree.group.normalize(q) != q)
    assert [i for i, unit in enumerate(labels(tree)[0].units) if unit == "1"] == list(changed)


def test_joints_that_mimic_have_no_labels():
    builder = TreeBuilder("gripper").add("left", Joint("left", Prismatic([1, 0, 0])), INERTIA)
    builder.add("right", Joint("right", Prismatic([-1, 0, 0]), mimic=Mimic("left")), INERTIA)
    coordinates, dofs = labels(builder.build())
    assert coordinates.names == dofs.names == ("left",)


def test_energy_is_kinetic_plus_potential_and_its_drift_is_relative_to_the_largest_kinetic():
    run = a_run(nt=3, kinetic=[0.0, 4.0, 2.0], potential=[5.0, 1.5, 3.0])
    np.testing.assert_array_equal(run.energy, [5.0, 5.5, 5.0])
    np.testing.assert_array_equal(run.energy_change, [0.0, 0.5, 0.0])
    assert run.energy_drift == 0.5 / 4.0


def test_drift_of_a_mechanism_at_rest_is_zero():
    assert a_run(nt=2, kinetic=[0.0, 0.0], potential=[1.0, 1.0]).energy_drift == 0.0
    assert a_run(nt=2, kinetic=[0.0, 0.0], potential=[1.0, 2.0]).energy_drift == np.inf


def test_quaternion_error_is_the_worst_over_joints_times_and_batch():
    run = a_run((2,), tree=a_tree(Free(), Revolute([0, 1, 0]), Spherical()))
    assert run.quaternion_error < 1e-15
    q = run.q.copy()
    q[1, 3, 8:12] *= 1.25
    bent = a_run((2,), tree=a_tree(Free(), Revolute([0, 1, 0]), Spherical()), q=q)
    assert bent.quaternion_error == pytest.approx(0.25)
    assert a_run(tree=a_tree(Revolute([0, 1, 0]))).quaternion_error is None


@pytest.mark.parametrize("units", [("1",), ("1", "1", "m"), ("1", "m", "1", "1", "1"), ("1",) * 5])
def test_numbers_without_unit_that_are_no_four_in_a_row_are_no_quaternion(units):
    names, t = tuple(f"x{i}" for i in range(len(units))), np.arange(3.0)
    entries = Labels(names, units)
    x = np.full((3, len(units)), 2.0)
    run = Run(t, x, x, kinetic=t, potential=t, coordinates=entries, dofs=entries)
    assert run.quaternion_error is None and "quaternions" not in run.summary()


@pytest.mark.parametrize("batch", [(), (3,), (2, 3)])
@pytest.mark.parametrize("with_tau", [True, False])
def test_a_file_gives_back_what_was_saved(tmp_path, batch, with_tau):
    run = a_run(batch, with_tau=with_tau)
    run.save(tmp_path / "run.nc")
    back = Run.load(tmp_path / "run.nc")
    for name in ("t", "q", "v", "kinetic", "potential", "tau"):
        np.testing.assert_array_equal(getattr(back, name), getattr(run, name))
    assert (back.coordinates, back.dofs, back.metadata) == (run.coordinates, run.dofs, run.metadata)
    assert [type(x) for x in back.metadata.values()] == [str, str, float, int]
    assert back.summary() == run.summary()


def test_a_file_describes_itself_to_xarray(tmp_path):
    run = a_run((3,))
    run.save(tmp_path / "run.nc")
    with xarray.open_dataset(tmp_path / "run.nc") as file:
        dataset = file.load()
    assert dict(dataset.sizes) == {"batch": 3, "time": 5, "coordinate": 8, "dof": 7}
    assert dataset.q.dims == ("batch", "time", "coordinate")
    assert dataset.time.dtype == float and dataset.time.attrs["units"] == "s"
    assert dataset.kinetic.attrs["units"] == "J"
    np.testing.assert_array_equal(dataset.q.sel(coordinate="joint0.z"), run.q[..., 6])
    np.testing.assert_array_equal(dataset.tau.sel(dof="joint1", time=0.2), run.tau[..., 2, 6])
    assert dataset.attrs["method"] == "rkmk4"
    assert dataset.coords.keys() == {"time", "coordinate", "coordinate_units", "dof", "dof_units"}


def test_a_file_is_the_dataset_of_its_run(tmp_path):
    """With a batch or without, with efforts by names of their own or without any, and with lost members."""
    drives = {"drives": Labels(("hip", "knee"), ("N m", "N")), "tau": np.arange(10.0).reshape(5, 2)}
    lost = a_run((3,)).q
    lost[1, 3:] = np.nan
    for run in (a_run(), a_run(with_tau=False), a_run((2, 3)), a_run(**drives), a_run((3,), q=lost)):
        run.save(tmp_path / "run.nc")
        with xarray.open_dataset(tmp_path / "run.nc") as file:
            xarray.testing.assert_identical(file.load(), run.to_xarray())
        back = Run.load(tmp_path / "run.nc")
        xarray.testing.assert_identical(back.to_xarray(), run.to_xarray())


def test_files_whose_units_were_no_coordinates_still_load(tmp_path):
    run = a_run()
    run.save(tmp_path / "run.nc")
    with h5netcdf.File(tmp_path / "run.nc", "a") as file:
        for name in ("q", "v", "tau"):
            del file[name].attrs["coordinates"]
    back = Run.load(tmp_path / "run.nc", check=False)
    xarray.testing.assert_identical(back.to_xarray(), run.to_xarray())


def test_names_of_any_script_and_sign_come_back(tmp_path):
    run = a_run(coordinates=Labels(('a"b', "ü", "関節", "x;y", "{}", "\\n", "'", "h"), ("",) * 8))
    run.save(tmp_path / "run.nc")
    assert Run.load(tmp_path / "run.nc").coordinates == run.coordinates


def test_saving_replaces_a_file_and_leaves_nothing_beside_it(tmp_path):
    path = tmp_path / "run.nc"
    path.write_text("old")
    a_run().save(path)
    assert [p.name for p in tmp_path.iterdir()] == ["run.nc"] and Run.load(path).t.shape == (5,)


def test_a_save_that_fails_leaves_the_old_file_and_nothing_beside_it(tmp_path, monkeypatch):
    path = tmp_path / "run.nc"
    a_run().save(path)
    monkeypatch.setattr("os.replace", lambda *_: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(LiebodyError, match="disk full"):
        a_run(nt=9).save(path)
    assert [p.name for p in tmp_path.iterdir()] == ["run.nc"] and Run.load(path).t.shape == (5,)


def _not_netcdf(path):
    path.write_text("t,q\n0,1\n")


def _cut_off(path):
    a_run(nt=4000).save(path)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def _edited(change):
    def make(path):
        a_run().save(path)
        with h5netcdf.File(path, "a") as file:
            change(file)

    return make


def _of_someone_else(path):
    xarray.Dataset({"q": ("time", np.zeros(3))}).to_netcdf(path, engine="h5netcdf")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda path: None, "there is no file"),
        (lambda path: path.mkdir(), "there is no file"),
        (lambda path: path.write_bytes(b""), "cut off or damaged"),
        (_not_netcdf, "cut off or damaged"),
        (_cut_off, "cut off or damaged"),
        (_of_someone_else, "not a run of liebody"),
        (_edited(lambda file: file.attrs.update(format_version=99)), "format version 99"),
        (_edited(lambda file: file._h5group.pop("kinetic")), "lacks the variables kinetic"),
    ],
)
def test_loading_says_what_is_wrong_with_a_file(tmp_path, make, message):
    path = tmp_path / "run.nc"
    make(path)
    edited = path.is_file() and message not in ("cut off or damaged", "there is no file")
    with pytest.raises(LiebodyError, match=message) as raised:
        Run.load(path, check=not edited)
    assert "run.nc" in str(raised.value)


def test_every_changed_bit_of_a_file_is_noticed(tmp_path):
    path = tmp_path / "run.nc"
    a_run().save(path)
    whole = path.read_bytes()
    for at in [*range(0, len(whole), 997), len(whole) - 1]:
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 16]) + whole[at + 1 :])
        with pytest.raises(LiebodyError, match="is not as it was written"):
            Run.load(path)
    for changed in (whole + b"\n", whole[:-1], whole[:-90], whole + whole):
        path.write_bytes(changed)
        with pytest.raises(LiebodyError, match="is not as it was written"):
            Run.load(path)


def test_other_programs_notice_changed_numbers(tmp_path):
    path, run = tmp_path / "run.nc", a_run()
    run.save(path)
    whole = path.read_bytes()
    at = whole.index(run.q.tobytes()) + 123
    path.write_bytes(whole[:at] + bytes([whole[at] ^ 16]) + whole[at + 1 :])
    with pytest.raises(OSError), xarray.open_dataset(path) as file:
        file.q.load()


@pytest.mark.parametrize("use", [lambda path: a_run().save(path), Run.load])
@pytest.mark.parametrize("name", ["run.csv", "run", "run.h5", "run.NC.txt"])
def test_other_suffixes_are_refused(tmp_path, use, name):
    with pytest.raises(LiebodyError, match=r"runs are netCDF files; name it 'run.*\.nc'") as refusal:
        use(tmp_path / name)
    assert (use == Run.load) != ("pictures end in .html, .gif, .mp4, .png" in str(refusal.value))
    assert list(tmp_path.iterdir()) == []


def test_saving_into_a_folder_that_is_not_there_says_so(tmp_path):
    with pytest.raises(LiebodyError, match="no folder"):
        a_run().save(tmp_path / "missing" / "run.nc")


@pytest.mark.parametrize(
    "changes",
    [
        {"t": np.zeros((5, 1))},
        {"t": np.zeros(0)},
        {"t": np.zeros(4)},
        {"q": np.zeros(8)},
        {"q": np.zeros((5, 7))},
        {"v": np.zeros((5, 8))},
        {"v": np.zeros((2, 5, 7))},
        {"kinetic": np.zeros((5, 1))},
        {"potential": np.zeros(4)},
        {"tau": np.zeros((5, 8))},
    ],
    ids=lambda changes: f"{next(iter(changes))}{next(iter(changes.values())).shape}",
)
def test_arrays_that_do_not_fit_together_are_refused(changes):
    with pytest.raises(ShapeError, match="expected"):
        a_run(**changes)


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        ({"format": "mine"}, "cannot be a name"),
        ({"time step": 1.0}, "cannot be a name"),
        ({"_dt": 1.0}, "cannot be a name"),
        ({"dt": [1.0, 2.0]}, "give text, an int or a float"),
        ({"dt": None}, "give text, an int or a float"),
        ({"converged": True}, "give text, an int or a float"),
    ],
)
def test_metadata_that_no_file_could_hold_is_refused(metadata, message):
    with pytest.raises(LiebodyError, match=message):
        a_run(metadata=metadata)


def test_a_member_of_a_batch_is_a_run_of_its_own():
    run = a_run((2, 3))
    member = run.member(1, 2)
    assert member.batch == ()
    for name in ("q", "v", "kinetic", "potential", "tau"):
        np.testing.assert_array_equal(getattr(member, name), getattr(run, name)[1, 2])
    for index in [(), (1,), (2, 0), (0, 0, 0)]:
        with pytest.raises(ShapeError, match="not in a batch of shape"):
            run.member(*index)


def test_the_summary_says_what_happened():
    text = a_run(metadata={"model": "hopper", "method": "rkmk4", "dt": 0.25}).summary()
    assert text.startswith("Run of hopper: 5 samples of nq = 8, nv = 7 from 0 to 0.4 s")
    assert "method rkmk4, dt 0.25" in text and "of unit norm" in text
    row = next(line for line in text.splitlines() if line.split()[:1] == ["joint0.z"])
    z = a_run().q[:, 6]
    np.testing.assert_allclose(
        [float(x) for x in row.split()[2:]], [z[0], z[-1], z.min(), z.max()], rtol=1e-5
    )


def test_what_left_the_finite_numbers_is_counted_and_leaves_the_rest_readable():
    run = a_run((3,))
    q, kinetic = run.q.copy(), run.kinetic.copy()
    q[1, 3:], kinetic[1, 3:] = np.nan, np.nan
    lost = a_run((3,), q=q, kinetic=kinetic)
    assert lost.finite.tolist() == [True, False, True]
    assert np.isfinite(lost.energy_drift) and np.isfinite(lost.quaternion_error)
    assert lost.energy_drift >= max(run.member(i).energy_change.max() for i in (0, 2)) / run.kinetic.max()
    assert "1 of 3 did not stay finite" in lost.summary() and "nan" not in lost.summary()
    assert "finite" not in run.summary()


def test_the_summary_of_many_joints_stays_short():
    tree = a_tree(*[Revolute([0, 1, 0])] * 60)
    lines = a_run(tree=tree).summary().splitlines()
    assert len(lines) < 60 and sum("... and 36 more" in line for line in lines) == 2


def test_repr_names_the_batch():
    assert repr(a_run((4,))) == "Run of hopper: batch (4,), 5 samples of nq = 8, nv = 7 from 0 to 0.4 s"


def test_names_with_slashes_are_as_they_were_after_loading(tmp_path):
    """In HDF5 a slash parts groups, in which readers do not look."""
    names = ["left/arm.mass", "per%2Fcent", "plain"]
    values = {name: np.arange(3.0).reshape(3, 1) + k for k, name in enumerate(names)}
    run = a_run((3,))
    forces = {"left/spring": np.ones(run.v.shape), "damping": np.zeros(run.v.shape)}
    run = a_run((3,), parameters=values, forces=forces)
    run.save(tmp_path / "run.nc")
    again = Run.load(tmp_path / "run.nc")
    for given, found in ((values, again.parameters), (forces, again.forces)):
        assert found.keys() == given.keys()
        for name, x in given.items():
            np.testing.assert_array_equal(found[name], x)
    assert len(xarray.open_dataset(tmp_path / "run.nc")) == len(run.to_xarray())


@pytest.mark.parametrize("place", [(3,), (), ("a",), (1.0,), (0, 0)])
def test_members_that_are_not_there_are_refused(place):
    run = a_run((3,))
    with pytest.raises(ShapeError, match=r"is not in a batch of shape \(3,\)"):
        run.member(*place)
    np.testing.assert_array_equal(run.member(np.int8(-1)).q, run.q[2])
    np.testing.assert_array_equal(run.member(True).q, run.q[1])
