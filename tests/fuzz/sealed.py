"""Files of runs that somebody crafted and sealed: none leads out of itself, or asks for what is not in it.

The digest of a sealed file is right, because whoever writes a file can write its digest. One to three things
in it are replaced: arrays by links, external storage, virtual datasets, shapes of any size, compressed zeros,
texts that are the same text again and again, complex numbers, references; names and texts by such with
control characters. The file either loads as what it holds itself, or is refused as a LiebodyError, within
limits of time and memory.
"""

from __future__ import annotations

import os
import resource
import signal
import tempfile
import traceback
import warnings
from pathlib import Path

import h5py
import numpy as np
from campaign import main
from results import whole

import liebody as lb
from liebody.base.digests import LENGTH, seal
from liebody.base.errors import LiebodyError

PATIENCE = 10  # seconds of processor time
WAITING = 120  # seconds on a machine that does other things, too; only what waits for ever takes as long
MEMORY = 4 << 30  # bytes of address space beside what is there
SECRET = 1.2345678901234567e89
HOSTILE = ["\x1b]0;title\x07", "\x1b[2J", "a\nb", "\r", "\x9b31m", "\u202egnp", "\x7f", "x\u2028y"]


def external(random, file, name, folder):
    """Data in another file: one with a secret, a pipe, a device, one that is not there."""
    data, (secret, pipe) = file[name], folder
    where = random.choice([secret, secret, pipe, "/dev/zero", "/dev/stdin", str(secret) + "x"])
    del file[name]
    count = int(np.prod(data.shape)) * 8
    file.create_dataset(name, data.shape, "f8", external=[(where, 0, max(count, 8))])


def virtual(random, file, name, folder):
    """A virtual dataset of another file, or of the file itself."""
    data, (secret, _) = file[name], folder
    shape = data.shape
    del file[name]
    layout = h5py.VirtualLayout(shape, "f8")
    if shape:
        source = random.choice([str(secret) + ".h5", "."])
        layout[...] = h5py.VirtualSource(source, "secret", shape)
    file.create_virtual_dataset(name, layout)


def link(random, file, name, folder):
    """A link in place of an array, or beside it."""
    name = random.choice([name, "force_new"])
    if name in file:
        file.move(name, f"kept{random.random()}")
    targets = [h5py.SoftLink("/q"), h5py.SoftLink("/" + name), h5py.SoftLink("/nowhere")]
    targets += [h5py.ExternalLink(str(folder[0]) + ".h5", "/secret"), h5py.ExternalLink(folder[1], "/x")]
    file[name] = random.choice(targets)


def huge(random, file, name, folder):
    """A shape that the file cannot fill: chunks that are not there, or zeros that are compressed."""
    axes = file[name].ndim or 1
    n = 10 ** random.randrange(3, 19)
    shape = tuple(
        n if k == random.randrange(axes) or axes == 1 else random.choice([1, n]) for k in range(axes)
    )
    if np.prod(shape, dtype=float) > 1e18:
        shape = (n,)
    options = random.choice([{}, {"compression": "gzip"}, {"fletcher32": True}, {"shuffle": True}])
    chunks = tuple(min(k, 1 << 10) for k in shape) if axes < 3 else True
    del file[name]
    try:
        made = file.create_dataset(name, shape, random.choice(["f8", "i4", "S400"]), chunks=chunks, **options)
    except (ValueError, OverflowError):  # beyond HDF5's own limits
        file.create_dataset(name, (10**9,), "f8", chunks=(1000,))
        return
    if len(shape) == 1 and random.random() < 0.3:
        made[: 1 << 10] = made[: 1 << 10]


def squeezed(random, file, name, folder):
    """Zeros that are compressed and there."""
    del file[name]
    file.create_dataset(name, data=np.zeros(1 << 20), chunks=(1 << 18,), compression="gzip")


def texts(random, file, name, folder):
    """Many entries that are one text in the file."""
    name = random.choice(["coordinate", "dof_units", "coordinate_units"])
    if name in file:
        del file[name]
    n = random.choice([1, 10, 3000])
    made = file.create_dataset(name, (n,), h5py.string_dtype())
    made[:] = "x" * random.choice([1, 10**4])


def same_text(random, file, name, folder):
    """Many entries that refer to one long text: rows of the table of references are copies of the first."""
    name = random.choice(["coordinate", "guard", "dof_units"])
    if name in file:
        del file[name]
    n = 4000
    made = file.create_dataset(name, (n,), h5py.string_dtype())
    made[:] = [f"{random.random()}"] * (n - 1) + ["y" * 10**5]
    file.flush()
    file.attrs["_copy"] = made.id.get_offset() or 0  # where `case` finds the table


def kinds(random, file, name, folder):
    """Other kinds of entries."""
    data = file[name]
    shape = data.shape if data.size < 10**6 else (10,)  # it may have been made huge before
    del file[name]
    kind = random.choice(["c16", "c8", "f2", "i1", "u8", "S7", "O", "ref", "array", "bool", "opaque"])
    if kind == "O":
        file.create_dataset(name, shape, h5py.string_dtype())
    elif kind == "ref":
        file.create_dataset(name, shape, h5py.ref_dtype)
    elif kind == "array":
        file.create_dataset(name, shape, np.dtype("(3,)f8"))
    elif kind == "opaque":
        file.create_dataset(name, shape, np.dtype("V16"))
    else:
        file.create_dataset(name, data=np.ones(shape, kind))


def words(random, file, name, folder):
    """Control characters in labels, attributes and names of variables."""
    text = random.choice(HOSTILE)
    where = random.randrange(3)
    labels = (
        file.get("coordinate") if isinstance(file.get("coordinate", getlink=True), h5py.HardLink) else None
    )
    if where == 0 and isinstance(labels, h5py.Dataset) and labels.dtype.kind == "O" and labels.shape:
        labels[0] = text
    elif where == 1:
        file.attrs[
            random.choice(["model", "method", "format", "source", "title", "note", "format_version"])
        ] = text
    else:
        file[f"{random.choice(['force_', 'parameter_', ''])}{random.random()}{text}"] = np.zeros(3)


def attributes(random, file, name, folder):
    """Attributes that are no single number or text."""
    values = [
        np.zeros(5000),
        np.zeros((0,)),
        h5py.Empty("f8"),
        [b"a", b"b"],
        file.ref,
        1 + 2j,
        b"x" * 60000,
        True,
    ]
    file.attrs[random.choice(["model", "dt", "format_version", "format", "other"])] = random.choice(values)


def groups(random, file, name, folder):
    """A folder, or a named type, in place of an array."""
    del file[name]
    if random.random() < 0.5:
        file.create_group(name)[name] = h5py.ExternalLink(str(folder[0]) + ".h5", "/secret")
    else:
        file[name] = np.dtype("f8")


CHANGES = [external, virtual, link, huge, squeezed, texts, same_text, kinds, words, attributes, groups]
CHANGES += [external, virtual, link, huge, words]  # more often


def crafted(random, folder: Path, changes=CHANGES) -> Path:
    """A sealed file of which some parts are not as `save` writes them."""
    path, secret, pipe = folder / "raw.h5", folder / "secret", folder / "pipe"
    np.full(1000, SECRET).tofile(secret)
    with h5py.File(f"{secret}.h5", "w") as other:
        other["secret"] = np.full(1000, SECRET)
    if not pipe.exists():
        os.mkfifo(pipe)
    path.write_bytes(whole()[:-LENGTH])
    with h5py.File(path, "r+") as file:
        for _ in range(random.choice([1, 1, 2, 3])):
            change = random.choice(changes)
            name = random.choice(list(file))
            if isinstance(file.get(name, getlink=True), h5py.HardLink) and isinstance(
                file[name], h5py.Dataset
            ):
                change(random, file, name, (str(secret), str(pipe)))
        offset = int(file.attrs.get("_copy", 0))
    content = bytearray(path.read_bytes())
    if offset:  # all entries refer to the last one
        last = content[offset + 16 * 3999 : offset + 16 * 4000]
        content[offset : offset + 16 * 4000] = last * 4000
    sealed = folder / "run.nc"  # without waiting for the disk, as `write` does
    sealed.write_bytes(content + seal(content))
    return sealed


def case(random) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = crafted(random, Path(folder))
        code = loaded_in_a_child(path, random.random() < 0.8)
        assert code == 0, f"a crafted file ended in {code}"


def loaded_in_a_child(path: Path, check: bool) -> int:
    """Load a file in a process of its own, with limits, and look at what it gives; 0 if that is right."""
    child = os.fork()
    if not child:
        code = 1
        try:
            for number in (signal.SIGALRM, signal.SIGPROF):
                signal.signal(number, signal.SIG_DFL)
            signal.alarm(WAITING)
            signal.setitimer(signal.ITIMER_PROF, PATIENCE)
            used = 4096 * int(Path("/proc/self/statm").read_text().split()[0])
            resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, resource.RLIM_INFINITY))
            with warnings.catch_warnings():
                warnings.simplefilter("error", np.exceptions.ComplexWarning)
                told = look(path, check)
            bad = [sign for sign in told if not sign.isprintable() and sign != "\n"]
            code = 2 if bad else 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def look(path: Path, check: bool) -> str:
    """What loading says; AssertionError if a number of another file comes out."""
    try:
        run = lb.Run.load(path, check=check)
        arrays = [
            run.t,
            run.q,
            run.v,
            run.kinetic,
            run.potential,
            run.tau,
            run.work_done,
            *run.forces.values(),
        ]
        assert not any(SECRET in x for x in arrays if x is not None), "another file was read"
        run.to_dataframe()
        return "\n".join([run.summary(), repr(run), *run.to_dataframe().columns])
    except LiebodyError as error:
        return str(error)


if __name__ == "__main__":
    main(case)
