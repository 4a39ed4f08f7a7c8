"""The cache of compiled kernels: whose folder it is, full disks, damage, what is removed, what goes on."""

import contextlib
import errno
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from test_build import KERNEL, leftovers, python

from liebody.base.errors import CompilerError
from liebody.cli import main
from liebody.compiler import Kernel, trace
from liebody.compiler.native import build, cache

COMPILER = build.find_compiler()
pytestmark = pytest.mark.skipif(COMPILER is None, reason="there is no C compiler")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A cache of this process for a test."""
    monkeypatch.setattr(cache, "_chosen", tmp_path / "kernels")
    return tmp_path / "kernels"


def library(number, note=None):
    return build.library(build.Source([f"int f(void) {{ return {number}; }}"]), COMPILER, note)


def forbidden(*_, **__):
    raise AssertionError("compiled again")


def chosen(path, monkeypatch):
    monkeypatch.setenv("LIEBODY_CACHE", str(path))
    monkeypatch.setattr(cache, "_chosen", None)
    return cache.cache_folder()


# -- whose folder it is -------------------------------------------------------------------------------------


def test_what_a_symbolic_link_leads_to_is_left_alone(tmp_path, monkeypatch):
    mine = tmp_path / "mine"
    (mine / "tmp-thesis").mkdir(parents=True)
    mine.chmod(0o755)
    os.utime(mine / "tmp-thesis", (0, 0))
    (tmp_path / "kernels").symlink_to(mine)
    with pytest.warns(cache.CacheWarning, match="kernels cannot hold .*: it is a symbolic link"):
        used = chosen(tmp_path, monkeypatch)
    assert used.parent != tmp_path and os.listdir(mine) == ["tmp-thesis"]
    assert mine.stat().st_mode & 0o777 == 0o755


@pytest.mark.parametrize("name", ["thesis.tex", "tmp.d"])
def test_a_folder_with_other_things_is_left_alone(tmp_path, monkeypatch, name):
    other = tmp_path / "kernels" / name
    other.mkdir(parents=True)
    os.utime(other, (0, 0))
    other.parent.chmod(0o755)
    with pytest.warns(cache.CacheWarning, match=f"it holds {name}, which is not of liebody; set LIEBODY"):
        assert chosen(tmp_path, monkeypatch).parent != tmp_path
    assert os.listdir(other.parent) == [name] and other.parent.stat().st_mode & 0o777 == 0o755


def _no_home(*_, **__):
    raise RuntimeError("could not determine the home directory")


@pytest.mark.parametrize("found", [_no_home, lambda *_, **__: "~/.cache/liebody"], ids=["raises", "leaves ~"])
def test_a_user_without_a_home_has_a_temporary_folder(tmp_path, monkeypatch, found):
    """No HOME, and a number without a name: versions of platformdirs raise, or leave the path as it is."""
    monkeypatch.delenv("LIEBODY_CACHE", raising=False)
    monkeypatch.setattr("platformdirs.user_cache_dir", found)
    monkeypatch.setattr(cache, "_chosen", None)
    monkeypatch.chdir(tmp_path)
    with pytest.warns(cache.CacheWarning, match="no home folder for compiled kernels: set LIEBODY_CACHE"):
        assert cache.cache_folder().name.startswith(cache.PREFIX)
    assert os.listdir(tmp_path) == []


def test_a_cache_is_tagged_and_known_again_whatever_is_added(tmp_path, monkeypatch):
    used = chosen(tmp_path, monkeypatch)
    assert used == tmp_path / "kernels"
    assert (used / "CACHEDIR.TAG").read_text().startswith("Signature: 8a477f597d28d172789f06886806bc55\n")
    (used / "tmp-of-another").write_text("kept")
    (used / ".nfs0123").write_text("by the file system")
    assert chosen(tmp_path, monkeypatch) == used and (used / "tmp-of-another").exists()


def test_a_cache_of_version_0_1_goes_on(tmp_path, monkeypatch):
    for name in (f"{'0' * 40}.so", f"{'1' * 40}.json", "tmp-0a_b"):
        (tmp_path / "kernels").mkdir(exist_ok=True)
        (tmp_path / "kernels" / name).write_text("")
    assert chosen(tmp_path, monkeypatch) == tmp_path / "kernels"


def test_a_folder_in_place_of_a_library_or_a_note_gives_way(folder):
    note = build.digest("a note")
    library(3, note)
    (made,) = folder.glob("*.so")
    for path in (made, made.with_suffix(".sum"), folder / f"{note}.path"):
        path.unlink()
        (path / "inside").mkdir(parents=True)
        assert library(3, note).f() == 3 and path.is_file()


def test_a_file_in_place_of_the_folder_is_said(folder):
    cache.cache_folder()
    folder.rmdir()
    folder.write_text("a file")
    with pytest.warns(cache.CacheWarning, match="File exists in .*; so kernels are compiled into"):
        assert library(4).f() == 4
    assert folder.read_text() == "a file"


# -- full disks ---------------------------------------------------------------------------------------------


@contextlib.contextmanager
def full(path):
    """A small file system, if one may be made here."""
    path.mkdir()
    options = ["-t", "tmpfs", "-o", "size=48k", "tmpfs", str(path)]
    if os.name != "posix" or not shutil.which("mount") or subprocess.run(["mount", *options]).returncode:
        pytest.skip("no file system can be mounted here")
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(path)], check=True)


FULL = (
    "import warnings\nwarnings.simplefilter('always')\n"
    + KERNEL.replace("RECIPE", "'a recipe'")
    + """
import liebody as lb
run = lb.simulate(lb.models.double_pendulum(), [1.0, 0.5], t_end=0.1, dt=0.01)
print(run.energy_drift < 1e-6)
"""
)


@pytest.mark.parametrize("both", [False, True])
@pytest.mark.many
def test_on_a_full_disk_kernels_go_to_a_temporary_folder_and_then_to_numpy(tmp_path, both):
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    with contextlib.ExitStack() as stack:
        stack.enter_context(full(tmp_path / "cache"))
        if both:
            temporary = tmp_path / "small"
            stack.enter_context(full(temporary))
        done = python(FULL, tmp_path / "cache", TMPDIR=str(temporary))
    assert done.stdout.endswith("True\n")
    assert f"CacheWarning: there is no space in {tmp_path / 'cache'}" in done.stderr
    assert ("so kernels run as NumPy source" in done.stderr) == both
    assert "install a C compiler" not in done.stderr
    assert not list(temporary.iterdir())


@pytest.mark.parametrize("operation", ["write_bytes", "write_text", "mkdir"])
def test_no_space_at_any_operation_is_survived(folder, monkeypatch, operation):
    original = getattr(Path, operation)

    def fails(path, *arguments, **options):
        if path.is_relative_to(folder):
            raise OSError(errno.ENOSPC, "No space left on device", str(path))
        return original(path, *arguments, **options)

    monkeypatch.setattr(Path, operation, fails)
    with pytest.warns(cache.CacheWarning, match="there is no space in"):
        k = Kernel(trace(lambda q: q + 5, {"q": 2}, "f"), recipe=f"plus five, {operation}")
        np.testing.assert_array_equal(k(np.ones(2)), 6)


def test_without_any_place_kernels_run_as_numpy_source(folder, monkeypatch):
    def nowhere(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(cache.tempfile, "mkdtemp", nowhere)
    monkeypatch.setattr("liebody.compiler.native.libraries._warned", False)
    k = Kernel(trace(lambda q: q + 7, {"q": 2}, "f"))
    with pytest.warns(
        UserWarning, match="there is no space in .* and no temporary folder .* as NumPy source"
    ):
        np.testing.assert_array_equal(k(np.ones((3, 2))), 8)
    np.testing.assert_array_equal(k(np.ones(2)), 8)


def test_without_a_folder_for_the_compiler_the_advice_is_to_make_room(folder, monkeypatch, recwarn):
    def nowhere(*_, **__):
        raise build.NoPlace("there is no space in the temporary folder")

    monkeypatch.setattr(build, "vector_bits", nowhere)
    monkeypatch.setattr(build, "REFUSALS", [])
    monkeypatch.setattr(build, "find_compiler", build.find_compiler.__wrapped__)
    monkeypatch.setattr("liebody.compiler.native.libraries._warned", False)
    np.testing.assert_array_equal(Kernel(trace(lambda q: q + 9, {"q": 2}, "f"))(np.ones(2)), 10)
    (said,) = (str(w.message) for w in recwarn)
    assert "no space" in said and "make room" in said and "install a C compiler" not in said


# -- what is damaged, what is killed ------------------------------------------------------------------------


def test_notes_and_libraries_are_bound_to_their_keys(folder):
    """Exchanged files are noticed: no other kernel is loaded than the one that is asked for."""
    notes = [build.digest(f"note {k}") for k in range(2)]
    for k, note in enumerate(notes):
        assert library(10 + k, note).f() == 10 + k
    stems = [path.stem for path in folder.glob("*.so")]
    pairs = [(stems, ".so"), (stems, ".sum"), (notes, ".path")]
    for exchanged in ([0, 1], [2], [0], [1]):
        for (first, second), suffix in (pairs[i] for i in exchanged):
            one, other = folder / f"{first}{suffix}", folder / f"{second}{suffix}"
            content = one.read_bytes()
            one.write_bytes(other.read_bytes())
            other.write_bytes(content)
        assert [library(10 + k, note).f() for k, note in enumerate(notes)] == [10, 11]


def test_a_compile_that_was_killed_leaves_its_folder_to_the_next_one(folder, monkeypatch):
    code = """
from liebody.compiler.native import cache
w = cache.workplace()
print(w.__enter__(), flush=True)
input()
"""
    environment = {**os.environ, "LIEBODY_CACHE": str(folder.parent)}
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    place = Path(process.stdout.readline().strip())
    monkeypatch.setattr(cache, "_made", 0)
    library(5)
    assert place.is_dir()  # it goes on
    process.kill()
    process.communicate()
    assert place.is_dir()
    monkeypatch.setattr(cache, "_made", 0)
    library(6)
    assert not leftovers(folder)


def test_a_cache_of_many_files_is_not_listed_to_find_one(tmp_path, monkeypatch):
    chosen(tmp_path, monkeypatch)
    note = build.digest("one of many")
    library(7, note)
    for name in ("listdir", "scandir"):
        monkeypatch.setattr(os, name, forbidden)
    assert chosen(tmp_path, monkeypatch) == tmp_path / "kernels"
    assert library(7, note).f() == 7


def test_export_writes_its_text_also_where_the_compiler_is_broken(tmp_path):
    code = """
import sys, liebody as lb
print([path.name for path in lb.models.double_pendulum().export_c(sys.argv[0] + "out", ["inverse_dynamics"])])
""".replace('sys.argv[0] + "out"', repr(str(tmp_path / "out")))
    broken = tmp_path / "broken"
    broken.write_text("#!/bin/sh\nexit 3\n")
    broken.chmod(0o755)
    for command in ("no-such-compiler", str(broken)):
        done = python(code, tmp_path, CC=command)
        assert ".c" in done.stdout and ".h" in done.stdout


def test_stopping_ends_the_compilers(folder, tmp_path, monkeypatch):
    """Ctrl-C while kernels are compiled comes through at once, and leaves nothing behind."""
    slow, pid = tmp_path / "slow", tmp_path / "pid"
    slow.write_text(f'#!/bin/sh\nsleep 30 &\necho $! > "{pid}"\nwait\n')
    slow.chmod(0o755)

    def stop():
        while not pid.exists() or not pid.read_text().strip():
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)
        stopped.append(time.perf_counter())

    stopped = []
    threading.Thread(target=stop, daemon=True).start()
    with pytest.raises(KeyboardInterrupt):
        units = [f"int f{k};" for k in range(2)]
        build.library(build.Source(units), build.Compiler((str(slow),), "slow"))
    assert time.perf_counter() - stopped[0] < 5  # of the 30 s; the machine may be busy
    assert not leftovers(folder)
    sleeper = int(pid.read_text())
    for _ in range(100):
        try:
            state = Path(f"/proc/{sleeper}/stat").read_text().rpartition(")")[2].split()[0]
        except FileNotFoundError:
            break
        if state == "Z":
            break
        time.sleep(0.05)
    else:
        pytest.fail("the compiler goes on")


# -- how much -----------------------------------------------------------------------------------------------


def test_what_was_used_least_recently_is_removed_first(folder, monkeypatch):
    keys = []
    for k in range(4):
        library(20 + k)
        keys.append(({path.stem for path in folder.glob("*.so")} - set(keys)).pop())
        for path in folder.glob(f"{keys[-1]}.*"):
            os.utime(path, (time.time() - 10_000 * (4 - k),) * 2)
    assert library(20).f() == 20  # is used again
    sizes = {entry.key: entry.size for entry in cache.entries()}
    removed, freed = cache.prune(sizes[keys[0]] + sizes[keys[3]])
    assert removed == 2 and freed == sizes[keys[1]] + sizes[keys[2]]
    assert {path.stem for path in folder.glob("*.so")} == {keys[0], keys[3]}
    monkeypatch.setattr(build, "_run", forbidden)
    assert library(20).f() == 20 and library(23).f() == 23


def test_the_limit_holds_by_itself(folder, monkeypatch):
    monkeypatch.setenv("LIEBODY_CACHE_LIMIT", "0.1 MB")
    monkeypatch.setattr(cache, "OFTEN", 2)
    for k in range(12):
        assert library(40 + k).f() == 40 + k
        assert sum(entry.size for entry in cache.entries()) < 1.6e5


def test_the_limit_is_looked_at_once_an_hour(folder, monkeypatch):
    monkeypatch.setenv("LIEBODY_CACHE_LIMIT", "0 MB")
    monkeypatch.setattr(cache, "_chosen", None)
    chosen(folder.parent, monkeypatch)
    monkeypatch.setattr(cache, "_made", 0)
    library(30)
    assert len(cache.entries()) == 1
    os.utime(folder / cache.TAG, (time.time() - 2 * cache.RECENT,) * 2)
    library(31)
    assert not cache.entries()
    library(32)
    assert len(cache.entries()) == 1


@pytest.mark.parametrize("text", ["much", "-1", "1 TB", "1e3"])
def test_a_limit_that_is_no_size_is_refused(monkeypatch, text):
    monkeypatch.setenv("LIEBODY_CACHE_LIMIT", text)
    with pytest.raises(CompilerError, match=r"LIEBODY_CACHE_LIMIT is .*, expected a size such as '500 MB'"):
        cache.limit()
    with pytest.raises(CompilerError, match="expected a size"):
        cache.size_of("--limit", text)


RACE = """
from liebody.compiler.native import build, cache
compiler = build.find_compiler()
for i in range(40):
    k = i % 3
    source = build.Source([f"int f(void) {{ return {k}; }}"], ["-O0", "-shared", "-fPIC"])
    assert build.library(source, compiler, build.digest(f"note {k}")).f() == k
    cache.prune(0, wait=i % 2 == 0)
print("all right")
"""


@pytest.mark.wide
def test_processes_that_prune_at_once_lose_nothing_that_is_in_use(tmp_path):
    environment = {**os.environ, "LIEBODY_CACHE": str(tmp_path)}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    command = [sys.executable, "-W", "error", "-c", RACE]
    processes = [subprocess.Popen(command, env=environment, **pipes) for _ in range(3)]
    for process in processes:
        said, errors = process.communicate()
        assert said == "all right\n", errors
    assert not leftovers(tmp_path / "kernels")


def test_the_command_line_shows_and_removes_kernels(folder, monkeypatch):
    def liebody(*words):
        done = CliRunner().invoke(main, ["cache", *words])
        assert done.exit_code == 0, done.output
        return done.output

    library(60)
    monkeypatch.setattr(cache, "version", lambda: "0.0.9")
    library(61, build.digest("a note"))
    monkeypatch.undo()
    monkeypatch.setattr(cache, "_chosen", folder)
    shown = liebody("info")
    assert (
        str(folder) in shown and "libraries of 0.0.9" in shown and "notes" in shown and "1000.0 MB" in shown
    )
    assert "removed 1 entry" in liebody("prune", "--other-versions")
    assert "0.0.9" not in liebody("info") and len(list(folder.glob("*.so"))) == 1
    assert "removed 0 entries" in liebody("prune")
    assert "removed 2 entries" in liebody("prune", "--limit", "0")
    assert not list(folder.glob("*.so"))
    assert "expected a size" in CliRunner().invoke(main, ["cache", "prune", "--limit", "x"]).output


# -- Windows -----------------------------------------------------------------------------------------------

WITHOUT_POSIX = """
import ctypes, os, subprocess, sys, tempfile, types
for name in ("killpg", "getuid", "O_NOFOLLOW", "O_DIRECTORY", "fork"):
    delattr(os, name)
sys.modules.update(dict.fromkeys(("fcntl", "resource", "pwd", "grp")))
flags = []
kernel32 = types.SimpleNamespace(LockFileEx=lambda file, kind, *_: flags.append(kind) or 1)
ctypes.WinDLL = lambda name: {"kernel32": kernel32}[name]
sys.modules["msvcrt"] = types.SimpleNamespace(get_osfhandle=lambda handle: handle)

import liebody as lb
from liebody.compiler.native import cache

for _ in range(2):
    robot = lb.load("double_pendulum")
    robot.mass_matrix([0.1, 0.2])
assert flags and set(flags) <= {0, 3}, flags
assert cache.prune(0)[0] > 0
assert flags[-1] == 2 and not list(cache.cache_folder().glob("*.so"))
flags.clear()
for _ in range(2):
    found = lb.sweep(lambda p: {"y": p["x"] ** 2}, {"x": [1.0, 2.0, 3.0]}, "STORE", workers=0)
print(found.y.values, lb.sweep.verify("STORE"))
assert len(flags) >= 3 and set(flags) == {3}, flags  # exclusively, and without waiting
"""


def test_kernels_and_sweeps_need_nothing_of_posix(tmp_path):
    """Without its locks, users and process groups, by a stand-in of what locks files on Windows."""
    store = tmp_path / "store.zarr"
    done = python(WITHOUT_POSIX.replace("STORE", str(store)), tmp_path)
    assert "[1. 4. 9.] []" in done.stdout
    assert {path.name for path in tmp_path.glob(".store*")} == {".store.zarr.lock"}


def test_a_library_that_is_open_and_cannot_be_removed_stays_whole(folder, monkeypatch):
    """On Windows such a file can neither be removed nor be replaced."""
    library(1)
    (path,) = folder.glob(f"*{cache.SUFFIX}")
    clear, place = cache._clear, cache._place

    def refuse(target):
        if target == path:
            raise PermissionError(errno.EACCES, "it is open")

    monkeypatch.setattr(cache, "_clear", lambda target: refuse(target) or clear(target))
    monkeypatch.setattr(cache, "_place", lambda made, target: refuse(target) or place(made, target))
    assert cache.prune(0) == (0, 0)
    assert cache.kept(path.stem).f() == 1
    path.with_suffix(".sum").unlink()  # so that it is compiled again
    assert library(1).f() == 1
    assert cache.cache_folder() == folder and cache.kept(path.stem).f() == 1
