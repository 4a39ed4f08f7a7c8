"""Generated C elsewhere: no undefined behaviour, and libraries for other systems, run in an emulator."""

import importlib.util
import shutil
import subprocess
import sys

import numpy as np
import pytest

import liebody as lb
from liebody import scalar
from liebody.codegen import Program, build, trace
from liebody.codegen.printers.c import Guard, batch_units
from liebody.codegen.printers.program import program_unit

FLAGS = [flag for flag in build.FLAGS if not flag.startswith("-march")]
TARGETS = ["x86_64-windows-gnu", "aarch64-macos", "aarch64-linux-musl"]
MEMBERS, STEPS, DT = 3, 5, 1e-3
MAIN_OF_A_BATCH = """
#include <stdio.h>
static const real in[{n}][{most}] = {{{rows}}};
static const real *const inputs[] = {{{inputs}}};
static const long in_stride[] = {{{in_stride}}}, out_stride[] = {{{out_stride}}};
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
    static long failed[{n}], count[2];
    const Samples e = {{table, 0, 1, 0.0, 1.0, 0}};
    const Record r = {{record, 1, failed, losses, nearest}};
    const Course c = {{{n}, y, &e, 0.0, {h!r}, {steps}, {steps}, &r, 0, count}};
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
    function = trace(lambda x: np.stack([getattr(scalar, f)(x[0]) for f in names]), {"x": 1}, "all")
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


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("ziglang") is None, reason="the extra `compiler` is missing")
@pytest.mark.parametrize("target", TARGETS)
def test_libraries_are_compiled_for_other_systems(target, tmp_path):
    """They compile for Windows, macOS and Linux on ARM; the latter run, with the numbers of this machine."""
    zig = [sys.executable, "-m", "ziglang", "cc", "-target", target]
    for name, text, expected in units(lanes=2):
        source, program = tmp_path / f"{name}.c", tmp_path / f"{name}.exe"
        source.write_text(text)
        done = subprocess.run([*zig, *FLAGS, "-o", program, source, "-lm"], capture_output=True, text=True)
        assert done.returncode == 0, f"{name}: {done.stderr}"
        if "linux" in target and shutil.which("qemu-aarch64"):
            found = numbers(["qemu-aarch64", program])
            scale = np.abs(expected).max()
            np.testing.assert_allclose(found, np.ravel(expected), rtol=1e-12, atol=1e-12 * scale)
    if "linux" in target and shutil.which("qemu-aarch64") is None:
        pytest.skip("they compile; qemu-aarch64, to run them, is not installed (qemu-user)")
