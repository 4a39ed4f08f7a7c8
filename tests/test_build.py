"""Compiling and keeping kernels: compilers found and missing, the cache, other processes, damage."""

import os
import platform
import shlex
import signal
import stat
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from liebody.base.errors import CompilerError
from liebody.compiler.native import build, cache

COMPILER = build.find_compiler()
PLAIN = shlex.join(x for x in COMPILER.command if not x.startswith("-m") or x == "-m") if COMPILER else ""
pytestmark = pytest.mark.skipif(COMPILER is None, reason="there is no C compiler")

KERNEL = """
import numpy as np
from liebody import scalars
from liebody.compiler import Kernel, trace
traced = []
def make():
    traced.append(1)
    return trace(lambda q: scalars.sin(q) + q[::-1], {"q": 5}, "f")
f = Kernel(make, recipe=RECIPE)
q = np.arange(500.0).reshape(100, 5)
right = np.sin(q) + q[:, ::-1]
np.testing.assert_allclose(f(q[0]), right[0], rtol=1e-14)
np.testing.assert_allclose(f(q), right, rtol=1e-14)
print(len(traced), "traced")
"""


@pytest.fixture
def count(tmp_path):
    """A compiler that writes a line for each time it runs."""
    script = tmp_path / "cc with spaces" / "counting"
    script.parent.mkdir()
    log = tmp_path / "log"
    log.touch()
    script.write_text(f'#!/bin/sh\necho "$@" >> "{log}"\nexec {PLAIN} "$@"\n')
    script.chmod(0o755)
    return f"'{script}' -DANYTHING", lambda: len(log.read_text().splitlines())


def python(code, folder, check=True, cwd=None, **environment):
    """Run Python code in a process of its own, with its cache in `folder`; it imports nothing of `cwd`."""
    inherited = {k: v for k, v in os.environ.items() if k not in ("CC", "LIEBODY_CACHE")}
    paths = os.pathsep.join(
        [str(Path(build.__file__).parents[2]), *filter(None, [os.environ.get("PYTHONPATH")])]
    )
    given = {**inherited, "PYTHONPATH": paths, "LIEBODY_CACHE": str(folder), **environment}
    done = subprocess.run(
        [sys.executable, "-P", "-c", textwrap.dedent(code)],
        env=given,
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
    )
    if check:
        assert done.returncode == 0, done.stderr
    return done


def leftovers(folder):
    return list(folder.glob(f"{cache.PREFIX}*"))


def kernel(recipe=None):
    return KERNEL.replace("RECIPE", repr(recipe))


# -- what is kept -------------------------------------------------------------------------------------------


@pytest.mark.wide
def test_a_second_process_compiles_nothing(tmp_path, count):
    command, runs = count
    python(kernel(), tmp_path, CC=command)
    assert runs() == 4  # the probe of the compiler, the entry, the loops over one state and over lanes
    assert python(kernel(), tmp_path, CC=command).stdout == "1 traced\n"
    assert runs() == 4


@pytest.mark.wide
def test_with_a_recipe_a_second_process_traces_nothing(tmp_path, count):
    command, runs = count
    assert python(kernel("sine, version 1"), tmp_path, CC=command).stdout == "1 traced\n"
    assert python(kernel("sine, version 1"), tmp_path, CC=command).stdout == "0 traced\n"
    assert runs() == 4
    assert python(kernel("sine, version 2"), tmp_path, CC=command).stdout == "1 traced\n"


def test_another_version_of_the_library_has_other_notes(monkeypatch):
    mine = build.note("a recipe")
    assert build.note("a recipe") == mine != build.note("another")
    monkeypatch.setattr(build, "library_digest", lambda: "of another version")
    assert build.note("a recipe") != mine


def test_the_digest_of_the_library_is_that_of_its_texts_which_are_read_when_they_have_changed(
    tmp_path, monkeypatch
):
    library = tmp_path / "library"
    monkeypatch.setattr(cache, "_chosen", tmp_path / "kernels")
    monkeypatch.setattr(build, "__file__", str(library / "compiler" / "native" / "build.py"))
    reads = []
    read_text = Path.read_text
    monkeypatch.setattr(Path, "read_text", lambda *a, **o: reads.append(a) or read_text(*a, **o))
    text = library / "compiler" / "runtime" / "a.h"
    text.parent.mkdir(parents=True)
    (library / "b.py").write_text("two")

    def digest():
        time.sleep(0.03)  # times of files are those of the last tick
        return build.library_digest.__wrapped__()

    def write(content):
        text.write_text(content)
        os.utime(text, ns=(10**18, 10**18))

    write("one")
    first = digest()
    assert len(reads) == 2
    (library / "__pycache__").mkdir()
    (library / "__pycache__" / "b.py").touch()
    (library / "notes.txt").touch()
    assert digest() == first and len(reads) == 2
    write("eno")  # of the same size and date
    assert digest() != first
    write("one")
    assert digest() == first and len(reads) == 6
    (library / "c.py").write_text("three")
    second = digest()
    assert second != first
    monkeypatch.setattr(build, "version", lambda: "another, of which there is bytecode alone")
    assert digest() not in (first, second)


def test_the_key_depends_on_text_compiler_processor_and_flags(tmp_path, monkeypatch):
    monkeypatch.setattr(cache, "_chosen", tmp_path)
    text = "int f(void) { return 1; }"
    build.library(build.Source([text]), COMPILER)
    build.library(build.Source([text + " "]), COMPILER)
    build.library(build.Source([text]), build.Compiler(COMPILER.command, "another"))
    build.library(build.Source([text], build.LONG_FLAGS), COMPILER)
    monkeypatch.setattr(build, "processor", lambda: "another")
    build.library(build.Source([text]), COMPILER)
    assert len(list(tmp_path.glob("*.so"))) == 5
    assert not leftovers(tmp_path)


DAMAGES = [("truncated", None), ("truncated", "a recipe"), ("garbage", "a recipe"), ("no sum", None)]


@pytest.mark.parametrize(("damage", "recipe"), DAMAGES)
@pytest.mark.wide
def test_a_damaged_library_is_made_again(tmp_path, damage, recipe, count):
    command, runs = count
    python(kernel(recipe), tmp_path, CC=command)
    folder = tmp_path / "kernels"
    for library in folder.glob("*.so"):
        if damage == "no sum":
            library.with_suffix(".sum").unlink()
        else:
            whole = library.read_bytes()
            library.write_bytes(whole[: len(whole) // 2] if damage == "truncated" else os.urandom(5000))
    python(kernel(recipe), tmp_path, CC=command)
    assert runs() == 8


@pytest.mark.wide
def test_damaged_notes_are_passed_over(tmp_path):
    python(kernel("a recipe"), tmp_path)
    for suffix, content in [
        (".path", b""),
        (".path", b"../../etc"),
        (".json", b"\xff{"),
        (".json", b'{"name": 1}'),
    ]:
        for note in (tmp_path / "kernels").glob(f"*{suffix}"):
            note.write_bytes(content)
        assert python(kernel("a recipe"), tmp_path).stdout == "1 traced\n"


@pytest.mark.wide
def test_two_processes_at_once_both_succeed(tmp_path):
    script = ["-c", kernel("a recipe")]
    paths = os.pathsep.join([str(Path(build.__file__).parents[2])])
    environment = {**os.environ, "LIEBODY_CACHE": str(tmp_path), "PYTHONPATH": paths}
    processes = [
        subprocess.Popen([sys.executable, *script], env=environment, stderr=subprocess.PIPE) for _ in range(2)
    ]
    for process in processes:
        _, words = process.communicate()
        assert process.returncode == 0, words
    assert not leftovers(tmp_path / "kernels")


@pytest.mark.wide
def test_a_compile_that_is_killed_leaves_nothing_broken(tmp_path):
    slow = tmp_path / "slow"
    started = tmp_path / "started"
    python(kernel(), tmp_path / "other")  # bytecode is compiled by now
    slow.write_text(f'#!/bin/sh\ntouch "{started}"\nexec sleep 60\n')
    slow.chmod(0o755)
    environment = {
        **os.environ,
        "LIEBODY_CACHE": str(tmp_path),
        "PYTHONPATH": str(Path(build.__file__).parents[2]),
        "CC": str(slow),
    }
    process = subprocess.Popen(
        [sys.executable, "-c", kernel("a recipe")], env=environment, start_new_session=True
    )
    while not started.exists():
        assert process.poll() is None
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    folder = tmp_path / "kernels"
    assert len(leftovers(folder)) == 1
    assert python(kernel("a recipe"), tmp_path).stdout == "1 traced\n"
    assert not leftovers(folder)


def test_a_cache_that_is_removed_meanwhile_is_made_again(tmp_path):
    python(
        kernel()
        + """
import shutil, os
shutil.rmtree(os.environ["LIEBODY_CACHE"])
g = Kernel(trace(lambda q: scalars.cos(q), {"q": 5}, "g"), recipe="g")
np.testing.assert_allclose(g(q), np.cos(q), rtol=1e-14)
""",
        tmp_path / "cache",
    )


# -- where it is kept ---------------------------------------------------------------------------------------


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("before", [None, 0o777, 0o755])
@pytest.mark.many
def test_the_cache_is_private(tmp_path, before):
    folder = tmp_path / "kernels"
    if before is not None:
        folder.mkdir()
        folder.chmod(before)
    tmp_path.chmod(0o755)
    python(
        "from liebody.compiler.native import cache; assert cache.cache_folder().name == 'kernels'",
        tmp_path,
    )
    assert mode(folder) == 0o700
    assert mode(tmp_path) == 0o755  # the folder that was named is left as it is


def test_without_the_variable_it_is_the_users_cache_folder(tmp_path):
    code = "from liebody.compiler.native import cache; print(cache.cache_folder())"
    done = python(code, "", XDG_CACHE_HOME=str(tmp_path), HOME=str(tmp_path))
    assert Path(done.stdout.strip()).is_relative_to(tmp_path)


OF_ANOTHER = "import os; os.getuid = lambda: 12345\n"
UNWRITABLE = "import os; os.access = lambda path, mode: False\n"


@pytest.mark.parametrize("why", [OF_ANOTHER, UNWRITABLE, ""], ids=["of another user", "unwritable", "a file"])
@pytest.mark.many
def test_without_a_folder_of_its_own_a_process_uses_a_private_one_and_removes_it(tmp_path, why):
    (tmp_path / "temporary").mkdir()
    if not why:
        (tmp_path / "kernels").write_text("a file")
    code = """
from liebody.compiler.native import cache
folder = cache.cache_folder()
assert folder.stat().st_mode & 0o777 == 0o700
assert list(folder.glob("*.so")), "it is used"
if os.fork() == 0:
    raise SystemExit  # a child does not take it away
os.wait()
assert folder.exists()
print(folder)
"""
    done = python("import os\n" + why + kernel() + code, tmp_path, TMPDIR=str(tmp_path / "temporary"))
    folder = Path(done.stdout.splitlines()[-1])
    assert folder.parent == tmp_path / "temporary" and not folder.exists()
    assert not list(tmp_path.glob("kernels/*"))


# -- compilers ----------------------------------------------------------------------------------------------


def test_a_compiler_named_by_the_user_must_work(tmp_path):
    done = python(kernel(), tmp_path, check=False, CC="no-such-compiler -O2")
    assert (
        "CompilerError: $CC is 'no-such-compiler -O2', but there is no program 'no-such-compiler'"
        in done.stderr
    )
    done = python(kernel(), tmp_path, check=False, CC="'unclosed")
    assert 'CompilerError: $CC is "\'unclosed", which is no command' in done.stderr
    broken = tmp_path / "broken"
    broken.write_text("#!/bin/sh\necho 'licence expired' >&2\nexit 3\n")
    broken.chmod(0o755)
    done = python(kernel(), tmp_path, check=False, CC=str(broken))
    assert (
        f"CompilerError: the C compiler {broken} stopped with exit status 3: licence expired" in done.stderr
    )
    assert not leftovers(tmp_path / "kernels")


def test_a_compiler_that_does_not_work_is_passed_over(tmp_path):
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "cc").write_text("#!/bin/sh\necho 'install the tools first' >&2\nexit 1\n")
    (folder / "gcc").write_text(f'#!/bin/sh\nexec {PLAIN} "$@"\n')
    for program in folder.iterdir():
        program.chmod(0o755)
    code = kernel() + "from liebody.compiler.native import build; print(build.find_compiler().command)"
    done = python(code, tmp_path, PATH=f"{folder}:{os.environ['PATH']}")
    assert str(folder / "gcc") in done.stdout


@pytest.mark.parametrize("option", ["-nostdinc", "--sysroot=/nowhere"])
def test_a_missing_header_is_named_in_place_of_a_missing_compiler(tmp_path, option):
    done = python(kernel(), tmp_path, check=False, CC=f"{PLAIN} {option}")
    assert "CompilerError" in done.stderr and "header of the C library is not" in done.stderr
    assert "math.h" in done.stderr and "install a C compiler" not in done.stderr


def test_what_a_compiler_that_works_refuses_is_no_reason_to_install_one(tmp_path, monkeypatch):
    monkeypatch.setattr(cache, "_chosen", tmp_path)
    with pytest.raises(CompilerError, match="builds other code") as caught:
        build.library(build.Source(["int f(void) { return unknown; }"]), COMPILER)
    assert "install" not in str(caught.value)
    with pytest.raises(CompilerError, match="ask for another x"):
        build.library(build.Source(["#include <x/x.h>"], advice="ask for another x.h"), COMPILER)


# -- what compilers may not change --------------------------------------------------------------------------

ARITHMETIC = """
import sys
import numpy as np
import liebody as lb
robot = lb.load("double_pendulum")
q, v, a = np.random.default_rng(0).normal(size=(3, 100, 2))
function = robot.kernel("inverse_dynamics").function
expected = [function(*state) for state in zip(q, v, a)]  # by Python's floats
for found in (robot.inverse_dynamics(q, v, a), [robot.inverse_dynamics(*state) for state in zip(q, v, a)]):
    np.testing.assert_allclose(found, expected, rtol=1e-13, atol=1e-13)
for broken in (np.nan, np.inf):
    try:
        robot.inverse_dynamics(np.array([broken, 0.0]), v[0], a[0])
    except lb.LiebodyError:
        continue
    raise SystemExit(f"{broken} passed the guard")
smallest, half = sys.float_info.min, 0.5
assert smallest * half > 0, "numbers below the normal ones are zero in the process"
"""
INTEL = platform.machine() in ("x86_64", "AMD64")
FAST = [
    "-Ofast",
    "-ffast-math",
    "-funsafe-math-optimizations",
    "-fassociative-math -fno-signed-zeros",
    "-ffinite-math-only -freciprocal-math",
    "-fsingle-precision-constant",
    "-mfpmath=387",
]


@pytest.mark.parametrize("options", FAST)
@pytest.mark.parametrize("hidden", [False, True])
@pytest.mark.many
def test_options_of_the_compiler_leave_numbers_and_the_process_alone(options, hidden, tmp_path):
    if "gcc" not in PLAIN and "/cc" not in PLAIN and options in FAST[-2:]:
        pytest.skip("GCC alone has this option")
    if options.startswith("-m") and not INTEL:
        pytest.skip("processors of Intel's kind alone have this option")
    if hidden:  # in a file that the compiler reads; what is still wrong then is refused
        (tmp_path / "options").write_text(options)
        done = python(
            ARITHMETIC, tmp_path, options not in build.NEGATIONS, CC=f"{PLAIN} @{tmp_path / 'options'}"
        )
        assert not done.returncode or "whose numbers are wrong" in done.stderr
    else:
        python(ARITHMETIC, tmp_path, CC=f"{PLAIN} {options}")


WRONG = {"-Dsin=cos": "functions of math.h", "-Dfloat=double": "floats"}
WRONG |= {"-mno-sse2": "the order of sums"} if INTEL else {}


@pytest.mark.parametrize("options", WRONG)
def test_a_compiler_whose_numbers_are_wrong_is_refused(options, tmp_path):
    done = python(kernel(), tmp_path, check=False, CC=f"{PLAIN} {options}")
    assert "CompilerError" in done.stderr and "whose numbers are wrong" in done.stderr
    assert WRONG[options] in done.stderr and options in done.stderr


# -- what lies in the working folder ------------------------------------------------------------------------

OURS = "import os, sys\nos.execvp({command!r}, [{command!r}, *sys.argv[2:]])\n"
TRAP = "open({marker!r}, 'w')\nraise SystemExit('this ran')\n"
LISTS = ["CPATH", "C_INCLUDE_PATH", "LIBRARY_PATH", "COMPILER_PATH", "GCC_EXEC_PREFIX", "PATH"]


@pytest.fixture
def trapped(tmp_path):
    """A working folder whose files say so when they run, or are read; and where they say it."""
    folder, marker = tmp_path / "work", tmp_path / "marker"
    (folder / "ziglang").mkdir(parents=True)
    for name in ("__init__", "__main__"):
        (folder / "ziglang" / f"{name}.py").write_text(TRAP.format(marker=str(marker)))
    for name in ("subprocess", "os", "numpy", "site"):
        (folder / f"{name}.py").write_text(TRAP.format(marker=str(marker)))
    for name in ("math", "stdint", "string"):
        (folder / f"{name}.h").write_text("#error of the working folder\n")
    for name in ("libm.so", "libm.a", "libc.so", "libc.a"):
        (folder / name).write_text("of the working folder\n")
    for name in ("cc", "gcc", "clang", "cc1", "as", "ld", "collect2", "python"):
        (folder / name).write_text(f"#!/bin/sh\ntouch '{marker}'\nexit 1\n")
        (folder / name).chmod(0o755)
    return folder, marker


@pytest.mark.parametrize("value", [os.pathsep, ".", ""])
@pytest.mark.parametrize("names", [LISTS, *([name] for name in LISTS)], ids=" ".join)
@pytest.mark.many
def test_nothing_of_the_working_folder_takes_part_in_a_compile(names, value, trapped, tmp_path):
    folder, marker = trapped
    environment = dict.fromkeys(names, value)
    if "PATH" in names:
        environment["PATH"] = f"{value}{os.pathsep}{os.environ['PATH']}"
    done = python(kernel(), tmp_path, cwd=folder, **environment)
    assert "traced" in done.stdout and not done.stderr and not marker.exists()


def test_nothing_of_the_working_folder_runs_as_the_compiler_of_the_wheel(trapped, tmp_path):
    folder, marker = trapped
    wheel = tmp_path / "packages" / "ziglang"  # stands for the wheel, which takes long at its first use
    wheel.mkdir(parents=True)
    (wheel / "__init__.py").touch()
    program, *options = COMPILER.command
    run = f"os.execv({program!r}, [{program!r}, *{options!r}, *sys.argv[2:]])\n"
    (wheel / "__main__.py").write_text(f"import os, sys\nos.environ['PATH'] = {os.environ['PATH']!r}\n{run}")
    paths = os.pathsep.join([str(Path(build.__file__).parents[2]), str(wheel.parent)])
    code = kernel() + "from liebody.compiler.native import build; print(build.find_compiler().command)"
    done = python(code, tmp_path, cwd=folder, PATH=str(folder / "nothing"), PYTHONPATH=paths)
    assert "ziglang" in done.stdout and not marker.exists()


WITHOUT = """
import warnings, importlib.util
importlib.util.find_spec = lambda name: None
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
CODE
    from liebody.stepping import Flow
    from liebody.compiler.native.libraries import MissingCompiler
    g = Kernel(trace(lambda q: 2 * q, {"q": 5}, "g"))
    np.testing.assert_array_equal(g(q, threads=3), 2 * q)
(warning,) = caught
assert warning.category is MissingCompiler
print(warning.message)
"""


@pytest.mark.parametrize("stub", [False, True])
def test_without_a_compiler_numpy_takes_over_with_one_warning(tmp_path, stub):
    folder = tmp_path / "bin"
    folder.mkdir()
    if stub:
        (folder / "cc").write_text("#!/bin/sh\necho 'install the tools first' >&2\nexit 1\n")
        (folder / "cc").chmod(0o755)
    done = python(WITHOUT.replace("CODE", textwrap.indent(kernel(), "    ")), tmp_path, PATH=str(folder))
    words = (
        f"there is no C compiler{' that works' if stub else ''}, so kernels run as NumPy source, where a step"
    )
    assert words in done.stdout and "times as long" in done.stdout
    assert (
        done.stdout.count(build.installed_by() or "pip install ziglang") == 1 <= done.stdout.count("ziglang")
    )
    assert ("install the tools first" in done.stdout) == stub


@pytest.mark.parametrize(
    ("system", "release", "command"),
    [
        ("linux", {"ID": "ubuntu", "ID_LIKE": "debian"}, "apt install gcc libc6-dev"),
        ("linux", {"ID": "linuxmint", "ID_LIKE": "ubuntu debian"}, "apt install gcc libc6-dev"),
        ("linux", {"ID": "rocky", "ID_LIKE": "rhel centos fedora"}, "dnf install gcc glibc-devel"),
        ("linux", {"ID": "opensuse-leap", "ID_LIKE": "suse opensuse"}, "zypper install gcc glibc-devel"),
        ("linux", {"ID": "alpine"}, "apk add gcc musl-dev"),
        ("linux", {"ID": "unheard-of"}, ""),
        ("darwin", {}, "xcode-select --install"),
    ],
)
def test_the_command_that_installs_a_compiler_is_that_of_the_system(monkeypatch, system, release, command):
    monkeypatch.setattr(sys, "platform", system)
    monkeypatch.setattr("platform.freedesktop_os_release", lambda: release)
    assert build.installed_by() == command
    advice = f"install a C compiler: {command}, or pip" if command else "install a C compiler: pip"
    assert f"{advice} install ziglang;" in build.advice()


def test_a_system_without_a_release_file_installs_a_compiler_by_pip(monkeypatch):
    def missing():
        raise OSError("no file")

    monkeypatch.setattr("platform.freedesktop_os_release", missing)
    monkeypatch.setattr(sys, "platform", "linux")
    assert build.installed_by() == ""


@pytest.mark.slow  # zig prepares its libraries at first use
def test_the_compiler_of_the_ziglang_wheel_builds_kernels(tmp_path):
    pytest.importorskip("ziglang")
    code = (
        kernel()
        + """
from liebody.compiler.native import build
from liebody.compiler.printers.c import Guard, batch_units
assert "ziglang" in build.find_compiler().command
h = trace(lambda q: [q := scalars.sin(q) * q[::-1] for _ in range(40)][-1], {"q": 5}, "h")
units = batch_units(h, 4, units=2, piece=100)
assert len(units) == 2
build.library(build.Source(units), build.find_compiler()).run
k = Kernel(h, dtype=np.float32)
np.testing.assert_allclose(k(np.tile(q / 500, (2, 1))), np.tile(Kernel(h)(q / 500), (2, 1)), rtol=1e-4,
atol=1e-6)
"""
    )
    python(code, tmp_path, PATH=str(tmp_path))


BITS = """
from liebody.compiler.native import build
compiler = build.find_compiler()
bits = build.vector_bits(compiler)
assert build.lanes(compiler) == bits // 64 and build.lanes(compiler, single=True) == bits // 32
print(bits)
"""


def test_the_number_of_lanes_is_that_of_the_processor(tmp_path):
    bits = int(python(BITS, tmp_path).stdout)
    assert bits in (128, 256, 512)
    try:
        flags = next(
            x for x in Path("/proc/cpuinfo").read_text().splitlines() if x.startswith("flags")
        ).split()
    except (OSError, StopIteration):
        return
    assert bits == (512 if "avx512f" in flags else 256 if "avx" in flags else 128)


@pytest.mark.skipif(platform.machine() != "x86_64", reason="these are names of x86-64 processors")
@pytest.mark.parametrize(("option", "bits"), [("nehalem", 128), ("haswell", 256), ("cannonlake", 512)])
@pytest.mark.many
def test_the_processor_that_the_user_names_is_compiled_for(tmp_path, option, bits):
    assert int(python(BITS, tmp_path, CC=f"{PLAIN} -march={option}").stdout) == bits


def test_options_of_the_user_take_the_place_of_those_that_decide_the_same(tmp_path, count):
    command, _ = count
    python(kernel(), tmp_path, CC=f"{command} -O0 -ffp-contract=off -mtune=generic")
    for options in map(str.split, (tmp_path / "log").read_text().splitlines()):
        decided = [x for x in options if x.startswith(("-O", "-ffp-contract", "-march", "-mtune"))]
        assert decided == ["-O0", "-ffp-contract=off", "-mtune=generic", "-march=native"]
