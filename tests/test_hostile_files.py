"""Files, names and texts that somebody made to do harm: refused, or shown without harm."""

import cProfile
import hashlib
import json
import os
import shutil
import warnings

import h5py
import numpy as np
import pytest

import liebody as lb
from liebody import LiebodyError, Run
from liebody.base.digests import LENGTH, digest, seal
from liebody.base.texts import shown
from liebody.bodies import SpatialInertia, TreeBuilder
from liebody.bodies.labels import Labels
from liebody.groups import Revolute

ESCAPES = ["\x1b[31m", "\x1b]0;title\x07", "\0", "\r", "\n", "\x9b2J", "\u202e", "\ud800", "\u2028"]


@pytest.fixture
def crafted(tmp_path):
    """A run's file, changed by a function of the open file, and sealed again; returns its path."""
    run = lb.simulate(lb.models.double_pendulum(), [1.0, 0.5], t_end=0.2, dt=0.01, tau=np.zeros(2))
    run.save(tmp_path / "whole.nc")

    def craft(change, patch=lambda content: content):
        path = tmp_path / "run.nc"
        path.write_bytes((tmp_path / "whole.nc").read_bytes()[:-LENGTH])
        with h5py.File(path, "r+") as file:
            change(file)
        content = patch(path.read_bytes())
        path.write_bytes(content + seal(content))
        return path

    return craft


def in_place_of(name, make):
    """A change that removes an array and makes something else of its name."""

    def change(file):
        del file[name]
        make(file)

    return change


def virtual(file):
    layout = h5py.VirtualLayout((21,), "f8")
    layout[...] = h5py.VirtualSource("other.h5", "secret", (21,))
    file.create_virtual_dataset("kinetic", layout)


LEADING_OUT = {
    "external storage": lambda f: f.create_dataset(
        "kinetic", (21,), "f8", external=[("/etc/passwd", 0, 168)]
    ),
    "virtual dataset": virtual,
    "soft link": lambda f: f.__setitem__("kinetic", h5py.SoftLink("/potential")),
    "external link": lambda f: f.__setitem__("kinetic", h5py.ExternalLink("other.h5", "/secret")),
    "references": lambda f: f.create_dataset("kinetic", (21,), h5py.ref_dtype),
}


@pytest.mark.parametrize("check", [True, False])
@pytest.mark.parametrize("kind", LEADING_OUT)
def test_a_sealed_file_that_leads_out_of_itself_is_refused(crafted, kind, check, tmp_path):
    with h5py.File(tmp_path / "other.h5", "w") as other:
        other["secret"] = np.ones(21)
    path = crafted(in_place_of("kinetic", LEADING_OUT[kind]))
    with pytest.raises(LiebodyError, match=r"run\.nc is not read: .*kinetic"):
        Run.load(path, check=check)


@pytest.mark.parametrize("check", [True, False])
@pytest.mark.parametrize(
    "options", [{}, {"compression": "gzip"}, {"fletcher32": True}, {"shuffle": True}], ids=str
)
def test_shapes_that_a_file_cannot_fill_are_refused_before_they_are_read(crafted, options, check):
    def huge(file):
        file.create_dataset("q", (8 * 10**9, 1), "f8", chunks=(1000, 1), **options)

    path = crafted(in_place_of("q", huge))
    assert path.stat().st_size < 10**5
    with pytest.raises(
        LiebodyError, match=r"q is compressed|q has shape .* more bytes than the file can hold"
    ):
        Run.load(path, check=check)


def test_arrays_that_are_the_same_bytes_of_a_file_are_counted_each(crafted):
    """Hard links to one array, each of which is read."""

    def linked(file):
        for k in range(3000):
            file[f"force_{k}"] = file["q"]

    with pytest.raises(LiebodyError, match=r"its arrays take \d+ bytes, and it can hold \d+"):
        Run.load(crafted(linked))


def test_texts_that_are_the_same_bytes_of_a_file_are_counted_each(crafted):
    """Entries of a table of texts that all refer to one long text: 4000 times 100 kB in a file of 0.4 MB."""
    at = []

    def long(file):
        table = file.create_dataset("guard", (4000,), h5py.string_dtype())
        table[:] = ["x"] * 3999 + ["y" * 100_000]
        at.append(table.id.get_offset())

    def same(content):
        first, last = at[-1], at[-1] + 16 * 3999
        return content[:first] + 4000 * content[last : last + 16] + content[last + 16 :]

    assert Run.load(crafted(long)).t.shape == (21,)
    with pytest.raises(LiebodyError, match="the texts of guard take more bytes than the file can hold"):
        Run.load(crafted(long, same))


@pytest.mark.parametrize("name", ["coordinate", "coordinate_units"])
@pytest.mark.parametrize(
    "given",
    [{"shape": (10**7,), "dtype": "i4"}, {"shape": (10**7,), "dtype": "S1"}],
    ids=["numbers", "texts"],
)
def test_labels_without_end_are_refused_before_they_become_texts(crafted, name, given):
    """Chunks that are not there are zeros of any number; each would be a text of 50 bytes in memory."""

    def many(file):
        if name in file:
            del file[name]
        file.create_dataset(name, chunks=(1000,), **given)

    path, profile = crafted(many), cProfile.Profile()
    words = rf"{name} holds int32, expected text|{name} has shape .* more bytes than the file can hold"
    with profile, pytest.raises(LiebodyError, match=words):
        Run.load(path, check=False)
    assert sum(entry.callcount for entry in profile.getstats()) < 10**5


def test_pipes_and_devices_are_no_files_of_runs(tmp_path):
    os.mkfifo(tmp_path / "run.nc")
    (tmp_path / "zero.nc").symlink_to("/dev/zero")
    for name in ("run.nc", "zero.nc"):
        with pytest.raises(LiebodyError, match="there is no file"):
            Run.load(tmp_path / name)


@pytest.mark.parametrize("kind", ["c16", "c8"])
def test_complex_numbers_are_refused_and_not_cut(crafted, kind):
    path = crafted(in_place_of("v", lambda f: f.create_dataset("v", data=np.full((21, 2), 1 + 2j, kind))))
    with pytest.raises(LiebodyError, match="v holds complex"):
        Run.load(path)
    run = lb.simulate(lb.models.double_pendulum(), [1.0, 0.5], t_end=0.2, dt=0.01)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for name in ("t", "q", "v", "kinetic", "tau", "work_done"):
            arrays = {x: getattr(run, x) for x in ("t", "q", "v", "kinetic", "potential")}
            shape = {"tau": run.v.shape, "work_done": run.t.shape}.get(name, np.shape(arrays.get(name)))
            with pytest.raises(LiebodyError, match="its numbers are complex"):
                Run(**{**arrays, name: np.full(shape, 1j)}, coordinates=run.coordinates, dofs=run.dofs)


@pytest.mark.parametrize("text", [x for x in ESCAPES if x not in ("\0", "\ud800")])  # HDF5 has none
def test_texts_of_a_file_are_printed_without_control_characters(crafted, text):
    def hostile(file):
        file["coordinate"][0] = text
        file["dof_units"][0] = text
        file.attrs["model"] = file.attrs["note"] = text
        file["force_" + text] = np.zeros((21, 2))

    run = Run.load(crafted(hostile))
    for told in (run.summary(), repr(run), run._repr_html_(), *run.to_dataframe().columns):
        assert all(sign.isprintable() or sign == "\n" for sign in told)
        assert text not in told or text == "\n"
    assert run.coordinates.names[0] == shown(text) and list(run.forces) == [shown(text)]


def test_a_format_that_is_no_number_is_named_without_harm(crafted):
    path = crafted(lambda file: file.attrs.update(format_version="\x1b[2J", source="\x1b]0;x\x07"))
    with pytest.raises(LiebodyError, match="format version") as raised:
        Run.load(path)
    assert str(raised.value).isprintable()


# -- names --------------------------------------------------------------------------------------------------


def test_no_two_lists_of_texts_have_one_digest():
    """Whatever the texts are: separators of any kind, digits and colons as the lengths have them, nothing."""
    texts = ["", "a", "\0", "a\0", "\0a", "1:a", "1:", ":", "a1:", "|", "\n", "ab", "\ud800"]
    lists = [(), *((x,) for x in texts), *((x, y) for x in texts for y in texts)]
    lists += [(x, y, z) for x in texts for y in texts for z in texts]
    assert len({digest(*x) for x in lists}) == len(lists)


def arm(*frames):
    builder = TreeBuilder("arm").add("link", Revolute([0, 1, 0]), SpatialInertia.rod(1.0, 0.5))
    for name in frames:
        builder.frame(name, "link")
    return lb.Robot(builder.build())


@pytest.mark.parametrize("text", ESCAPES)
def test_names_that_cannot_be_printed_are_refused_where_they_come_in(text):
    bad, body = f"a{text}b", SpatialInertia.rod(1.0, 0.5)
    pendulum, constrained = lb.models.double_pendulum(), lb.mechanisms.constrained
    doors = {
        "tree": lambda: TreeBuilder(bad),
        "body": lambda: TreeBuilder().add(bad, Revolute([0, 1, 0]), body),
        "joint": lambda: lb.bodies.Joint(bad, Revolute([0, 1, 0])),
        "frame": lambda: arm(bad),
        "system": lambda: constrained.SystemBuilder(bad),
        "body of a system": lambda: constrained.SystemBuilder().body(bad, body),
        "joint of a system": lambda: constrained.SystemBuilder().joint(bad, Revolute([0, 1, 0]), "a", "b"),
        "label": lambda: Labels((bad,), ("m",)),
        "unit": lambda: Labels(("x",), (bad,)),
        "event": lambda: lb.simulate(
            pendulum, [1.0, 0.5], t_end=0.1, dt=0.01, events={bad: lambda t, q, v: q[0]}
        ),
    }
    for what, call in doors.items():
        with pytest.raises(LiebodyError) as raised:
            call()
        assert str(raised.value).isprintable(), what


def test_names_with_separators_do_not_make_two_robots_one(monkeypatch):
    """Even if control characters came in: a name that looks like two and an end tells trees apart."""
    monkeypatch.setattr("liebody.bodies.tree.check_name", lambda *_: None)
    pose = np.eye(4).tobytes().hex()
    one, two = arm(f"a\0001\0{pose}\0b"), arm("a", "b")
    assert one.recipe("mass_matrix", {}) != two.recipe("mass_matrix", {})
    assert arm("a", "b").recipe("mass_matrix", {}) == two.recipe("mass_matrix", {})


# -- stores of sweeps ---------------------------------------------------------------------------------------


@pytest.fixture
def store(tmp_path):
    """A store of a sweep, and the call that continues it."""

    def swept(path=tmp_path / "s.zarr"):
        axes = {"x": np.arange(4.0)}
        return lb.sweep(lambda p: {"y": p["x"] ** 2}, axes, path, chunk=2, workers=0, identity="squares")

    swept()
    return tmp_path / "s.zarr", swept


def resealed(store, change):
    """Change the list of a store's files and their digests, with the digest of the list."""
    path = store / "status/copy.json"
    digests = json.loads(path.read_text())["digests"]
    change(digests)
    signed = {"digests": digests, "sha256": digest(*(x for pair in digests.items() for x in pair))}
    path.write_text(json.dumps(signed))


@pytest.mark.parametrize("name", ["../victim", "y/../../victim", "{absolute}", "status/copy/../../../victim"])
def test_a_store_changes_no_file_outside_of_itself(store, tmp_path, name):
    """A list of files that names one outside, and has another digest for it: it would be "repaired"."""
    path, again = store
    victim = tmp_path / "victim"
    victim.write_text("mine")
    name = name.format(absolute=victim)
    resealed(path, lambda digests: digests.update({name: hashlib.sha256(b"theirs").hexdigest()}))
    for copy in (path / "status/copy" / "victim", tmp_path / "theirs"):
        copy.write_bytes(b"theirs")
    for call in (lb.sweep.verify, lb.sweep.repair, lambda _: again()):
        try:
            call(path)
        except LiebodyError:
            pass
        assert victim.read_text() == "mine"


def test_a_store_that_leads_out_by_a_link_is_refused_where_something_would_be_removed(store, tmp_path):
    path, again = store
    mine = tmp_path / "mine" / "c"
    mine.mkdir(parents=True)
    (mine / "0").write_text("mine")
    shutil.rmtree(path / "y" / "c")
    (path / "y" / "c").symlink_to(mine)
    for call in (lambda: lb.sweep.repair(path), again):
        with pytest.raises(LiebodyError, match="leads out of the store"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            call()
    assert (mine / "0").read_text() == "mine"


def test_results_of_a_store_are_called_by_names_of_folders(store, tmp_path):
    path, again = store
    about = json.loads((path / "zarr.json").read_text())
    about["attributes"]["variables"] = json.dumps(["../victim", "status", "cause"])
    text = json.dumps(about).encode()
    for file in (path / "zarr.json", path / "status/copy/zarr.json"):
        file.write_bytes(text)
    resealed(path, lambda digests: digests.update({"zarr.json": hashlib.sha256(text).hexdigest()}))
    for call in (lb.sweep.verify, lb.sweep.repair, lambda _: again()):
        with pytest.raises(LiebodyError, match="not a store of a sweep"):
            call(path)


def test_pipes_in_a_store_are_damage_and_are_not_waited_for(store):
    path, again = store
    whole = (path / "y/c/0").read_bytes()
    (path / "y/c/0").unlink()
    os.mkfifo(path / "y/c/0")
    assert len(lb.sweep.verify(path)) == 1
    with pytest.warns(UserWarning, match="was damaged"):
        again()
    assert (path / "y/c/0").read_bytes() == whole


@pytest.mark.parametrize("value", [[], {}, 3, None, "x", [10**12, 10**12]], ids=str)
@pytest.mark.parametrize("key", ["definition", "variables", "format_version", "shape", "dimension_names"])
def test_descriptions_of_a_store_may_be_anything(store, key, value):
    path, again = store
    for name in (
        ("zarr.json",) if key in ("definition", "variables", "format_version") else ("status/zarr.json",)
    ):
        about = json.loads((path / name).read_text())
        if name == "zarr.json":
            about["attributes"][key] = value if key == "format_version" else json.dumps(value)
        else:
            about[key] = value
        text = json.dumps(about).encode()
        for file in (path / name, path / "status/copy" / name):
            file.write_bytes(text)
        known = hashlib.sha256(text).hexdigest()
        resealed(path, lambda digests, name=name, known=known: digests.update({name: known}))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for call in (lb.sweep.verify, lb.sweep.repair, lambda _: again()):
            try:
                call(path)
            except LiebodyError as error:
                assert str(error).isprintable()


# -- paths and texts of calls --------------------------------------------------------------------------------


ROBOT = lb.models.double_pendulum()
SHORT = {"t_end": 0.02, "dt": 0.01}
GEOM = "<worldbody><body name='b'><joint/><geom size='1'/></body></worldbody>"
TEXTS = {
    "load": lambda x, folder: lb.load(f"{folder}/{x}"),
    "load a name": lambda x, folder: lb.load(x),
    "load URDF": lambda x, folder: lb.load(f"<robot name='{x}'/>"),
    "load MJCF": lambda x, folder: lb.load(f"<mujoco model='{x}'>{GEOM}</mujoco>"),
    "Run.load": lambda x, folder: Run.load(f"{folder}/{x}.nc"),
    "Run.save": lambda x, folder: lb.simulate(ROBOT, [1, 0.5], **SHORT).save(f"{folder}/{x}.nc"),
    "a page": lambda x, folder: ROBOT.view().save(f"{folder}/{x}.html"),
    "a picture": lambda x, folder: lb.simulate(ROBOT, [1, 0.5], **SHORT).plot(f"{folder}/{x}.png"),
    "to_csv": lambda x, folder: lb.simulate(ROBOT, [1, 0.5], **SHORT).to_csv(f"{folder}/{x}"),
    "to_urdf": lambda x, folder: ROBOT.to_urdf(f"{folder}/{x}"),
    "to_mjcf": lambda x, folder: ROBOT.to_mjcf(f"{folder}/{x}"),
    "export_c": lambda x, folder: ROBOT.export_c(f"{folder}/{x}", ["mass_matrix"]),
    "sweep": lambda x, folder: lb.sweep(lambda p: {"y": p["x"]}, {"x": [1.0]}, f"{folder}/{x}", workers=0),
    "an axis": lambda x, folder: lb.sweep(lambda p: {"y": p[x]}, {x: [1.0]}, folder / "s", workers=0),
    "a result": lambda x, folder: lb.sweep(lambda p: {x: p["x"]}, {"x": [1.0]}, folder / "s", workers=0),
    "verify": lambda x, folder: lb.sweep.verify(f"{folder}/{x}"),
    "repair": lambda x, folder: lb.sweep.repair(f"{folder}/{x}"),
    "q0": lambda x, folder: lb.simulate(ROBOT, {x: 1.0}, **SHORT),
    "kernel": lambda x, folder: ROBOT.kernel(x),
    "metadata": lambda x, folder: Run(
        [0.0],
        [[0.0]],
        [[0.0]],
        [0.0],
        [0.0],
        Labels(("q",), ("",)),
        Labels(("v",), ("",)),
        metadata={"model": x},
    ).save(folder / "run.nc"),
    "a force": lambda x, folder: Run(
        [0.0],
        [[0.0]],
        [[0.0]],
        [0.0],
        [0.0],
        Labels(("q",), ("",)),
        Labels(("v",), ("",)),
        forces={x: [[0.0]]},
    ).save(folder / "run.nc"),
}


@pytest.mark.parametrize("text", ["a\0b", "a\ud800b", "\0", "\udfff"], ids=ascii)
@pytest.mark.parametrize("call", TEXTS)
def test_texts_that_no_file_can_hold_are_refused_as_our_errors(call, text, tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            TEXTS[call](text, tmp_path)
        except LiebodyError as error:
            assert "\0" not in str(error) and str(error).replace("\n", "").isprintable()


class Mute(Exception):
    """An error whose message cannot be made."""

    def __str__(self):
        raise RuntimeError


class Hostile:
    """What raises it wherever it is read as an array."""

    def __array__(self, *_, **__):
        raise Mute


def test_errors_of_users_objects_that_have_no_message_are_named_all_the_same():
    for call in (lambda: ROBOT.mass_matrix(Hostile()), lambda: lb.simulate(ROBOT, Hostile(), **SHORT)):
        with pytest.raises(LiebodyError, match="its message cannot be shown"):
            call()

    def tau(t, q, v):
        if not isinstance(t, float):
            raise Mute
        return np.zeros(2)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert lb.simulate(ROBOT, [1.0, 0.5], tau=tau, **SHORT).q.shape == (3, 2)


def test_homes_of_users_that_are_not_there_are_no_error_of_python():
    with pytest.raises(LiebodyError, match="a home folder that is not known"):
        lb.load("~no such user here/robot.urdf")


# -- descriptions -------------------------------------------------------------------------------------------

BODY = "<body><joint/><geom size='1'/></body>"
WORLD = f"<worldbody>{BODY}</worldbody>"
MESH = "<worldbody><body><joint/><geom type='mesh' mesh='m'/></body></worldbody>"
ASSET = "<asset><mesh name='m' file='x.stl'/></asset>"
TOO_MUCH = {
    "copies": f"<worldbody><replicate count='1e8'>{BODY}</replicate></worldbody>",
    "copies of copies": "<worldbody><replicate count='999'><replicate count='999'>"
    f"{BODY}</replicate></replicate></worldbody>",
    "infinite copies": f"<worldbody><replicate count='inf'>{BODY}</replicate></worldbody>",
    "copies of an include": "<worldbody><replicate count='1000'><include file='many.xml'/>"
    "</replicate></worldbody>",
    "an include of copies": "<include file='copies.xml'/>",
    "a composite": "<worldbody><body><composite type='cable' count='100000000 1 1'/></body></worldbody>",
    "a grid": "<worldbody><body><flexcomp name='f' count='10000 10000 10'/></body></worldbody>",
    "a height field": f"<asset><hfield name='h' nrow='100000' ncol='100000' size='1 1 1 1'/></asset>{WORLD}",
    "a texture": f"<asset><texture name='t' builtin='flat' width='100000' height='100000'/></asset>{WORLD}",
    "a sensor": f"<sensor><user name='s' dim='2000000000'/></sensor>{WORLD}",
    "a list": f"<custom><numeric name='n' size='2000000000'/></custom>{WORLD}",
    "numbers of users": f"<size nuser_body='2000000000'/>{WORLD}",
    "keyframes": f"<size nkey='2000000000'/>{WORLD}",
    "an included pipe": f"<include file='pipe'/>{WORLD}",
    "a mesh that is a pipe": f"<asset><mesh name='m' file='pipe'/></asset>{MESH}",
    "a device": f"<asset><mesh name='m' file='/dev/zero'/></asset>{MESH}",
    "a pipe in the folder of meshes": f"<compiler meshdir='meshes'/>{ASSET}{MESH}",
    "a folder that comes later": f"{ASSET}{MESH}<compiler meshdir='meshes'/>",
    "bodies within bodies": f"<worldbody>{'<body>' * 3000}{'</body>' * 3000}</worldbody>",
}


@pytest.mark.parametrize("what", TOO_MUCH)
def test_an_mjcf_that_asks_for_too_much_is_refused_before_mujoco_reads_it(what, tmp_path, monkeypatch):
    mujoco = pytest.importorskip("mujoco")
    monkeypatch.setattr(mujoco, "MjSpec", None)  # where it is asked, this is no LiebodyError
    (tmp_path / "meshes").mkdir()
    os.mkfifo(tmp_path / "pipe"), os.mkfifo(tmp_path / "meshes/x.stl")
    (tmp_path / "many.xml").write_text(f"<mujoco>{BODY * 500}</mujoco>")
    (tmp_path / "copies.xml").write_text(f"<mujoco>{TOO_MUCH['copies']}</mujoco>")
    (tmp_path / "m.xml").write_text(f"<mujoco>{TOO_MUCH[what]}</mujoco>")
    with pytest.raises(LiebodyError, match=r"Remedy: (make|name a file|nest)"):
        lb.load(tmp_path / "m.xml")


def test_copies_and_includes_of_a_usual_size_are_read(tmp_path):
    pytest.importorskip("mujoco")
    (tmp_path / "part.xml").write_text(f"<mujoco>{WORLD}</mujoco>")
    copies = f"<worldbody><replicate count='20' offset='3 0 0'>{BODY}</replicate></worldbody>"
    (tmp_path / "m.xml").write_text(f"<mujoco><include file='part.xml'/>{copies}</mujoco>")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert lb.load(tmp_path / "m.xml").nq == 21


def test_elements_within_each_other_without_end_are_refused():
    with pytest.raises(LiebodyError, match="500 deep"):
        lb.load(f"<robot name='r'>{'<link>' * 100_000}{'</link>' * 100_000}</robot>")


@pytest.mark.parametrize("write", ["to_urdf", "to_mjcf"])
@pytest.mark.parametrize("name", ['a"b', "a{b}", "a;b", "", " ", "x" * 201, "a$b", "a<b>"])
@pytest.mark.parametrize("what", ["body", "joint", "frame", "long frame"])
def test_names_that_are_not_read_again_are_not_written(write, name, what):
    names = {"body": "a", "joint": "b", "frame": "c", what: name}
    if what == "long frame":  # whose joint in a URDF would be called c..._joint
        names["frame"] = "c" * 199
    builder = TreeBuilder("r")
    builder.add(
        names["body"], lb.bodies.Joint(names["joint"], Revolute([0, 1, 0])), SpatialInertia.box(1, [1, 1, 1])
    )
    robot = lb.Robot(builder.frame(names["frame"], names["body"]).build())
    try:
        text = getattr(robot, write)()
    except LiebodyError as error:
        assert "is none that is read again; use 1 to 200 letters, digits, blanks" in str(error)
        return
    assert what == "long frame" and write == "to_mjcf"
    assert lb.load(text).tree.frames.keys() == robot.tree.frames.keys()


def calls_to_load(links):
    """How many functions are called to read so many links, half of them fixed in a row, half to the first."""
    inertia = (
        "<inertial><mass value='1'/><inertia ixx='1' ixy='0' ixz='0' iyy='1' iyz='0' izz='1'/></inertial>"
    )
    parts = [f"<link name='l{k}'>{inertia}</link>" for k in range(links)]
    for k in range(1, links):
        parent = k - 1 if k < links // 2 else 0
        ends = f"<parent link='l{parent}'/><child link='l{k}'/>"
        parts.append(f"<joint name='j{k}' type='fixed'>{ends}<origin xyz='0 0 {k}e-3'/></joint>")
    text, profile = f"<robot name='r'>{''.join(parts)}</robot>", cProfile.Profile()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tree = profile.runcall(lb.load, text, floating=True).tree
    assert len(tree.bodies) == 1 and len(tree.frames) == links - 1
    return sum(entry.callcount for entry in profile.getstats())


def test_the_work_of_reading_links_grows_with_their_number():
    """Not with its square. It is counted in calls of functions; a walk over all links per link would show."""
    calls_to_load(10)  # what is imported and built once
    small, large = calls_to_load(200), calls_to_load(800)
    assert large < 4.2 * small
