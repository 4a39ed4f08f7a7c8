"""Generated C elsewhere: no undefined behaviour, and libraries for other systems, run in an emulator."""

import ctypes
import importlib.util
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import liebody as lb
from liebody import scalars
from liebody.base import interrupts
from liebody.compiler import Program, runtime, trace
from liebody.compiler.native import build
from liebody.compiler.printers.c import Guard, batch_units
from liebody.compiler.printers.program import program_unit
from liebody.stepping import loop, march, riccati, samples

FLAGS = [flag for flag in build.FLAGS if not flag.startswith("-march")]
ZIG = [sys.executable, "-m", "ziglang", "cc", "-target"]
MINGW = "x86_64-w64-mingw32-gcc"
# What compiles for another system, and what runs its programs here.
TARGETS = {
    "windows": ([*ZIG, "x86_64-windows-gnu"], "wine"),
    "windows by GCC": ([MINGW, "-static"], "wine"),
    "macos": ([*ZIG, "aarch64-macos"], None),
    "linux": ([*ZIG, "aarch64-linux-musl"], "qemu-aarch64"),
}
MEMBERS, STEPS, DT = 3, 5, 1e-3
HEADERS = Path(runtime.__file__).parent
LONG = re.compile(r"(?<!long )\blong\b(?! long| double).{,30}")
MAIN_OF_A_BATCH = """
#include <stdio.h>
static const real in[{n}][{most}] = {{{rows}}};
static const real *const inputs[] = {{{inputs}}};
static const int64_t in_stride[] = {{{in_stride}}}, out_stride[] = {{{out_stride}}};
static real out[{results}][{n} * {largest}];
int main(void) {{
    real *outputs[] = {{{outputs}}};
    if (run({n}, inputs, in_stride, outputs, out_stride, 0)) return 2;
    for (int k = 0; k < {results}; k++)
        for (int i = 0; i < {n} * out_stride[k]; i++) printf("%.17g\\n", (double)out[k][i]);
    return 0;
}}
"""
MAIN_OF_STEPS = """
#include <stdio.h>
static double y[{n} * POINT] = {{{y}}}, table[EFFORTS + 1], record[{n} * POINT];
static double losses[2 * {n}], nearest[100 * {n}];
int main(void) {{
    static int64_t failed[{n}], taken[1];
    const Samples e = {{table, 0, 1, 0.0, 1.0, 0}};
    const Record r = {{record, 1, failed, losses, nearest}};
    const StepsCall c = {{{n}, y, &e, 0.0, {h!r}, {steps}, {steps}, &r, 0, taken}};
    if (fixed_steps(&c)) return 2;
    for (int i = 0; i < {n} * POINT; i++) printf("%.17g\\n", y[i]);
    return 0;
}}
"""


def batch_program(function, lanes, rows, single=False):
    """C that computes a function of one argument for rows (n, size), and prints the results."""
    (x,), outputs = function.inputs.values(), list(function.outputs.values())
    unit = (
        program_unit(function, lanes, single, Guard())
        if isinstance(function, Program)
        else batch_units(function, lanes, single)[0]
    )
    sizes = [y.size for y in outputs]
    return unit + MAIN_OF_A_BATCH.format(
        n=len(rows),
        most=x.size,
        rows=", ".join("{" + ", ".join(repr(float(entry)) for entry in row) + "}" for row in rows),
        inputs="in[0]",
        in_stride=x.size,
        out_stride=", ".join(map(str, sizes)),
        results=len(outputs),
        largest=max(sizes),
        outputs=", ".join(f"out[{k}]" for k in range(len(outputs))),
    )


def numbers(command):
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return np.array([float(line) for line in done.stdout.split()])


@pytest.mark.skipif(build.find_compiler() is None, reason="there is no C compiler")
@pytest.mark.parametrize("single", [False, True])
@pytest.mark.parametrize("lanes", [1, 4])
def test_elementary_functions_have_no_undefined_behaviour(lanes, single, tmp_path):
    """What C leaves undefined is a trap here: shifts into the sign, overflow, bad alignment."""
    names = ("sin", "cos", "tan", "exp", "absolute")
    function = trace(lambda x: np.stack([getattr(scalars, f)(x[0]) for f in names]), {"x": 1}, "all")
    x = np.concatenate([np.linspace(-12, 12, 49), [1e6, -1e6, 1e30, -1e30]])[:, None]
    (tmp_path / "all.c").write_text(batch_program(function, lanes, x, single))
    traps = ["-fsanitize=undefined", "-fsanitize-undefined-trap-on-error", "-O1", "-std=gnu11", "-w"]
    command = [*build.find_compiler().command, *traps, "-o", tmp_path / "all", tmp_path / "all.c", "-lm"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = numbers([tmp_path / "all"]).reshape(-1, len(names))[:49]
    np.testing.assert_allclose(found[:, 1], np.cos(x[:49, 0]), atol=1e-6 if single else 1e-15)


def units(lanes):
    """Programs in C over lanes, each with the numbers that it is to print."""
    robot, chain = lb.load("heavy_top"), lb.models.planar_chain(60)
    q = robot.random(0, (MEMBERS,))
    kernel = robot.kernel("mass_matrix")
    yield "kernel", batch_program(kernel.function, lanes, q), kernel(q)
    program = chain.kernel("mass_matrix").function
    assert isinstance(program, Program)
    angles = chain.random(0, (MEMBERS,))
    yield "program", batch_program(program, lanes, angles), chain.mass_matrix(angles)
    v = np.random.default_rng(1).normal(size=(MEMBERS, robot.nv))
    for method in ("rkmk4", "generalized-alpha", "variational"):
        sim = lb.stepper(robot, dt=DT, method=method, members=MEMBERS)
        state = sim.start(q, v)
        y = ", ".join(repr(float(x)) for x in state.y.ravel())
        text = MAIN_OF_STEPS.format(n=MEMBERS, y=y, h=DT, steps=STEPS)
        yield method, sim._flow.source(lanes) + text, sim.step(state, steps=STEPS).y


needs_zig = pytest.mark.skipif(
    importlib.util.find_spec("ziglang") is None, reason="the extra `compiler` is missing"
)


@pytest.fixture
def emulate(tmp_path):
    """A call that makes the command by which a program of another system runs, if it can run here."""

    def command(emulator, *program):
        if emulator is None or shutil.which(emulator) is None:
            return None
        return [emulator, *program]

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WINEPREFIX", str(tmp_path / "wine"))
        patch.setenv("WINEDEBUG", "-all")
        yield command


@pytest.mark.slow
@needs_zig
@pytest.mark.parametrize("target", TARGETS)
def test_libraries_are_compiled_for_other_systems(target, tmp_path, emulate):
    """They compile for Windows, macOS and Linux on ARM; where an emulator is, with the numbers of here."""
    compiler, emulator = TARGETS[target]
    if shutil.which(compiler[0]) is None:
        pytest.skip(f"{compiler[0]} is not installed")
    for name, text, expected in units(lanes=2):
        source, program = tmp_path / f"{name}.c", tmp_path / f"{name}.exe"
        source.write_text(text)
        done = subprocess.run(
            [*compiler, *FLAGS, "-o", program, source, "-lm"], capture_output=True, text=True
        )
        assert done.returncode == 0, f"{name}: {done.stderr}"
        command = emulate(emulator, program)
        if command:
            found = numbers(command)
            scale = np.abs(expected).max()
            np.testing.assert_allclose(found, np.ravel(expected), rtol=1e-12, atol=1e-12 * scale)
    if emulator and not command:
        pytest.skip(f"they compile; {emulator}, to run them, is not installed")


HOST = """
#include <windows.h>
#include <stdint.h>
#include <stdio.h>
typedef int64_t Run(int64_t, const double *const *, const int64_t *, double *const *, const int64_t *, int);
int main(int count, char **words) {
    static double q[] = {ROWS}, M[3 * 9];
    const double *in[] = {q};
    double *out[] = {M};
    const int64_t in_stride[] = {4}, out_stride[] = {9};
    HMODULE library = LoadLibraryA(words[count - 1]);
    Run *run = library ? (Run *)(void *)GetProcAddress(library, "run") : NULL;
    if (!run || run(3, in, in_stride, out, out_stride, 0)) return 2;
    for (int i = 0; i < 3 * 9; i++) printf("%.17g\\n", M[i]);
    return 0;
}
"""


@pytest.mark.slow
@needs_zig
@pytest.mark.skipif(shutil.which("wine") is None, reason="wine, to run it, is not installed")
@pytest.mark.parametrize("compiler", ["windows", "windows by GCC"])
def test_a_library_of_windows_is_called_as_from_python(compiler, tmp_path, emulate):
    """Another program loads it and calls `run`, with integers of 64 bits, as ctypes does."""
    command, emulator = TARGETS[compiler]
    if shutil.which(command[0]) is None:
        pytest.skip(f"{command[0]} is not installed")
    robot = lb.load("heavy_top")
    q = robot.random(0, (MEMBERS,))
    (tmp_path / "kernel.c").write_text(batch_units(robot.kernel("mass_matrix").function, 2)[0])
    (tmp_path / "host.c").write_text(HOST.replace("ROWS", ", ".join(repr(float(x)) for x in q.ravel())))
    for options in (["-shared", "-o", "kernel.dll", "kernel.c"], ["-o", "host.exe", "host.c"]):
        done = subprocess.run([*command, *FLAGS, *options], cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    found = numbers(emulate(emulator, tmp_path / "host.exe", str(tmp_path / "kernel.dll")))
    np.testing.assert_allclose(found, robot.mass_matrix(q).ravel(), rtol=1e-12, atol=1e-12)


# -- integers, which are to have 64 bits wherever those of `long` have 32 ------------------------------------


def code_of(text):
    """C without its comments."""
    return re.sub(r"/\*.*?\*/", "", text, flags=re.S)


def generated():
    """C text of all kinds that liebody makes."""
    robot, chain = lb.load("heavy_top"), lb.models.planar_chain(60)
    kernel = robot.kernel("mass_matrix").function
    yield from (batch_units(kernel, lanes)[0] for lanes in (1, 2))
    yield program_unit(chain.kernel("mass_matrix").function, 2, False, Guard())
    for method in ("rkmk4", "generalized-alpha"):
        yield lb.stepper(robot, dt=DT, method=method, members=MEMBERS)._flow.source(2)


def test_no_integer_has_the_size_of_long():
    """On Windows it has 32 bits, and everything else here 64."""
    headers = [path.read_text() for path in HEADERS.glob("*.h")]
    assert len(headers) > 10
    found = [line for text in (*headers, *generated()) for line in LONG.findall(code_of(text))]
    assert found == []


def offsets():
    """(structure of C, field, its offset here) of what is passed between Python and C."""
    for made, name in [
        (interrupts.CaughtSignals, "Signals"),
        (loop._Record, "Record"),
        (loop._StepsCall, "StepsCall"),
        (loop._March, "March"),
        (samples.SamplesInC, "Samples"),
        (riccati._Call, "Shooting"),
    ]:
        for field, *_ in made._fields_:
            yield name, field, getattr(made, field).offset
        yield name, None, ctypes.sizeof(made)
    for dtype, name in [(loop.LOG, "Log"), (march.CLOCK, "Clock")]:
        for field, (_, offset, *_) in dtype.fields.items():
            yield name, field, offset
        yield name, None, dtype.itemsize


@needs_zig
@pytest.mark.parametrize("target", ["x86_64-windows-gnu", "aarch64-macos"])
def test_structures_have_the_layout_that_python_gives_them(target, tmp_path):
    text = "".join((HEADERS / name).read_text() for name in ("samples.h", "march.h", "shooting.h"))
    wanted = {name for name, _, _ in offsets()}
    made = re.findall(r"typedef struct \{.*?\} \w+;", code_of(text), flags=re.S)
    lines = [x for x in made if x.rsplit(" ", 1)[1][:-1] in wanted]
    assert len(lines) == len(wanted)
    for name, field, offset in offsets():
        place = f"sizeof({name})" if field is None else f"offsetof({name}, {field})"
        lines.append(f'_Static_assert({place} == {offset}, "{place}");')
    head = ["#include <stddef.h>", "#include <stdint.h>", "typedef double real;", "typedef void Scratch;"]
    source = "\n".join([*head, *lines])
    (tmp_path / "layout.c").write_text(source)
    done = subprocess.run(
        [*ZIG, target, "-c", "-o", "layout.o", "layout.c"], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
