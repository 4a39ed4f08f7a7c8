"""Damage of files: changed, missing, exchanged, old pieces of runs, kernels, sweeps are found and named."""

import hashlib
import json
import shutil

import numpy as np
import pytest
import xarray

import liebody as lb
from liebody.base import digests
from liebody.base.errors import LiebodyError
from liebody.bodies.labels import Labels
from liebody.compiler.native import cache

FLIPS = 20  # of the bytes of a file, evenly, with the first and the last


class SavedRun:
    """A run: one sealed file. Its pieces are blocks of the file."""

    def __init__(self, folder, monkeypatch, age):
        self.folder = folder
        values = np.linspace(1.0, 2.0, 50)[:, None] + age
        labels = Labels(("q",), ("rad",)), Labels(("v",), ("rad/s",))
        lb.Run(np.arange(50.0), values, values, values[:, 0], values[:, 0], *labels).save(folder / "run.nc")

    def damaged(self):
        try:
            lb.Run.load(self.folder / "run.nc")
        except LiebodyError as error:
            return [str(error)]
        return []

    def owner(self, name):
        return name

    def exchanged(self, name, files):
        whole = files[name]
        third = len(whole) // 3
        yield whole[third : 2 * third] + whole[:third] + whole[2 * third :]

    def stale(self, name, files, older):
        assert len(files[name]) == len(older[name])
        k = files[name].index(b"\x3f", 1000)  # the highest byte of a number below 2
        for first in range(k - k % 8, len(files[name]) - 8, 8):
            yield files[name][:first] + older[name][first : first + 8] + files[name][first + 8 :]


class Pieces:
    """Of the cache and of a store, whose pieces are files."""

    def exchanged(self, name, files):
        yield from files.values()

    def stale(self, name, files, older):
        yield older[name]


class Notes(Pieces):
    """Notes of the cache, sealed under their names. A name is the digest of all on which the note depends."""

    KEYS = ("a" * 40, "b" * 40)

    def __init__(self, folder, monkeypatch, age):
        self.folder = folder
        monkeypatch.setattr(cache, "_chosen", folder)
        for key in self.KEYS:
            cache.store(key, ".json", f"{key} {age}".encode())

    def damaged(self):
        return [key for key in self.KEYS if cache.recall(key, ".json") is None]

    def owner(self, name):
        return name[:40]


class Libraries(Pieces):
    """Libraries of the cache, each with its digest in a note. They are not opened: damage ends Python."""

    KEYS = Notes.KEYS

    def __init__(self, folder, monkeypatch, age):
        self.folder = folder
        monkeypatch.setattr(cache, "_chosen", folder)
        monkeypatch.setattr(cache, "_load", lambda path: path)
        monkeypatch.setattr(cache, "_note_use", lambda path: False)
        for key in self.KEYS:
            (folder / "built").write_bytes(f"library {key} {age}".encode())
            cache.keep(key, folder / "built")
        (folder / cache.LOCK).unlink()  # no content

    def damaged(self):
        found = [key for key in self.KEYS if cache.kept(key) is None]
        (self.folder / cache.LOCK).unlink()
        return found

    def owner(self, name):
        return name[:40]


class Store(Pieces):
    """The store of a sweep: files of Zarr and their copies, with records."""

    def __init__(self, folder, monkeypatch, age):
        self.folder = folder / "s.zarr"

        def run(p):
            return {"y": p["x"] + age, "cause": np.where(p["x"] > 1, f"cause {age}", "")}

        lb.sweep(run, {"x": np.arange(3.0)}, self.folder, workers=0, chunk=1, identity="y")

    def damaged(self):
        recorded = {path.name for path in (self.folder / "status/recorded").iterdir()}
        lost = [f"the chunk x {k} is not recorded" for k in range(3) if str(k) not in recorded]
        return [damage.what for damage in lb.sweep.verify(self.folder)] + lost

    def owner(self, name):
        of_chunk = name.split("/")[1:2] in (["c"], ["recorded"]) and not name.startswith("x/")
        return f"the chunk x {name.rpartition('/')[2]}" if of_chunk else name


def flipped(keeper, name, files, older):
    content = files[name]
    step = max(1, len(content) // FLIPS)
    for at in {*range(0, len(content), step), len(content) - 1}:
        yield content[:at] + bytes([content[at] ^ 1 << at % 8]) + content[at + 1 :]


LAWS = {
    "flipped": flipped,
    "cut off or longer": lambda keeper, name, files, older: [
        files[name][:-1],
        files[name] + b"\n",
        files[name] * 2,
        b"",
    ],
    "removed": lambda keeper, name, files, older: [None],
    "exchanged": lambda keeper, name, files, older: keeper.exchanged(name, files),
    "old": lambda keeper, name, files, older: keeper.stale(name, files, older),
}
KEEPERS = [SavedRun, Notes, Libraries, Store]
# An old note under the same name is no damage: the name says on what its content depends.
CASES = [(kind, law) for kind in KEEPERS for law in LAWS if (kind, law) != (Notes, "old")]


def contents(folder):
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


@pytest.fixture
def made(request, tmp_path, monkeypatch):
    """A keeper with its files, and the files of an older one with other numbers."""
    ages = []
    for age in (0, 1):
        folder = tmp_path / str(age)
        folder.mkdir()
        keeper = request.param(folder, monkeypatch, age)
        ages.append(contents(keeper.folder))
    return keeper, ages[1], ages[0]


@pytest.mark.parametrize(
    ("made", "law"),
    CASES,
    indirect=["made"],
    ids=[f"{kind.__name__}, {law}" for kind, law in CASES],
)
def test_damage_is_found_and_named(made, law):
    keeper, files, older = made
    cases = 0
    assert keeper.damaged() == []
    for name, whole in files.items():
        path = keeper.folder / name
        for content in LAWS[law](keeper, name, files, older):
            if content == whole:
                continue
            path.unlink() if content is None else path.write_bytes(content)
            damaged = keeper.damaged()
            assert len(damaged) == 1 and keeper.owner(name) in damaged[0], (name, content, damaged)
            path.write_bytes(whole)
            cases += 1
    assert cases and keeper.damaged() == []


@pytest.mark.parametrize("made", [Libraries, Store], indirect=True)
def test_pieces_with_their_records_cannot_change_places(made):
    """Each file has the digest that its record tells, but stands in another place."""
    keeper, files, _ = made
    if isinstance(keeper, Store):
        moved = {name: name.replace("/0", "/1") for name in files if name.endswith("/0") and name[0] != "x"}
        moved = {name: other for name, other in moved.items() if other in files}
    else:
        first, second = keeper.KEYS
        moved = {name: name.replace(first, second) for name in files if name.startswith(first)}
    for name, other in moved.items():
        (keeper.folder / name).write_bytes(files[other])
        (keeper.folder / other).write_bytes(files[name])
    assert len(moved) > 1 and len(keeper.damaged()) == 2


def test_a_run_may_be_renamed_and_a_note_may_not(tmp_path, monkeypatch):
    run = SavedRun(tmp_path, monkeypatch, 0)
    (tmp_path / "run.nc").rename(tmp_path / "other.nc")
    assert len(lb.Run.load(tmp_path / "other.nc").t) == 50 and len(run.damaged()) == 1
    (tmp_path / "kernels").mkdir()
    notes = Notes(tmp_path / "kernels", monkeypatch, 0)
    (notes.folder / f"{'a' * 40}.json").rename(notes.folder / f"{'b' * 40}.json")
    assert notes.damaged() == list(notes.KEYS)


def test_files_that_exist_keep_their_formats(tmp_path, monkeypatch):
    """Runs and stores of users were written by these rules, whoever changes `digests`."""
    SavedRun(tmp_path, monkeypatch, 0)
    content, mark, last = (tmp_path / "run.nc").read_bytes().rpartition(b"\nliebody sha256 ")
    assert mark and last == hashlib.sha256(content).hexdigest().encode() + b"\n"

    store = Store(tmp_path, monkeypatch, 0).folder
    variables = json.loads(json.loads((store / "zarr.json").read_text())["attributes"]["variables"])
    parts = ["2", *(hashlib.sha256((store / f"{x}/c/2").read_bytes()).hexdigest() for x in variables)]
    record = "".join(f"{len(part)}:{part}" for part in parts)
    assert (store / "status/recorded/2").read_text() == hashlib.sha256(record.encode()).hexdigest()
    listed = json.loads((store / "status/copy.json").read_text())
    pairs = "".join(f"{len(x)}:{x}" for pair in listed["digests"].items() for x in pair)
    assert listed["sha256"] == hashlib.sha256(pairs.encode()).hexdigest() and "y/zarr.json" in pairs


def _rewritten(file, old, new):
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))


# Damage of a store, and whether the CRC-32C codec of Zarr finds it when the store is read. Records find all.
OF_ZARR = {
    "a byte of a chunk": (lambda s, old: (s / "y/c/2").write_bytes(b"?" + (s / "y/c/2").read_bytes()), True),
    "a chunk cut off": (lambda s, old: (s / "y/c/2").write_bytes((s / "y/c/2").read_bytes()[:-1]), True),
    "a chunk removed": (lambda s, old: (s / "y/c/2").unlink(), False),
    "another chunk": (lambda s, old: shutil.copy(s / "y/c/1", s / "y/c/2"), False),
    "an old chunk": (lambda s, old: shutil.copy(old / "y/c/2", s / "y/c/2"), False),
    "a status removed": (lambda s, old: (s / "status/c/2").unlink(), False),
    "an axis removed": (lambda s, old: (s / "x/c/0").unlink(), False),
    "fill values": (lambda s, old: _rewritten(s / "y/zarr.json", '"NaN"', "7.0"), False),
    "names of axes": (lambda s, old: _rewritten(s / "y/zarr.json", '"x"', '"z"'), False),
    "attributes": (lambda s, old: _rewritten(s / "status/zarr.json", "ended_early", "done_well"), False),
}


@pytest.mark.parametrize("kind", OF_ZARR)
def test_the_checksums_of_zarr_find_changed_bytes_of_chunks_only(kind, tmp_path, monkeypatch):
    """Why stores have records of their own; docs/decisions/0026-one-mechanism-finds-damage.md."""
    stores = []
    for age in (0, 1):
        (tmp_path / str(age)).mkdir()
        stores.append(Store(tmp_path / str(age), monkeypatch, age))
    damage, noticed = OF_ZARR[kind]
    damage(stores[1].folder, stores[0].folder)
    try:
        xarray.open_zarr(stores[1].folder, consolidated=False, chunks=None).load()
        raised = False
    except ValueError as error:
        raised = "checksum" in str(error)
    assert raised == noticed and len(stores[1].damaged()) == 1


def test_a_write_that_fails_leaves_the_old_file_alone(tmp_path, monkeypatch):
    path = tmp_path / "file"
    digests.write(path, tmp_path / "new", b"one, ", b"two")
    with monkeypatch.context() as patch, pytest.raises(OSError, match="full"):
        patch.setattr("os.fsync", lambda _: (_ for _ in ()).throw(OSError("full")))
        digests.write(path, tmp_path / "new", b"three")
    assert contents(tmp_path) == {"file": b"one, two"}
