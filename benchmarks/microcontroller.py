"""Exported functions on bare Cortex-M processors: instructions, bytes of stack and bytes of code.

    python benchmarks/microcontroller.py            # needs arm-none-eabi-gcc with newlib, qemu-system-arm

Each function is exported in float64 and float32, compiled with -O2 for a Cortex-M4F (a floating-point unit of
single precision: doubles are computed by calls of integer code) and for a Cortex-M7 (double precision), and
runs on the boards AN386 and AN500 of QEMU. The program checks its results against those of liebody.

Then controllers with their solvers, on the Cortex-M7 in float64: the whole-body controller of ANYmal on four
feet (benchmarks/whole_body.py has it), and predictive control of a Puma 560 with 20 knots, limits of efforts
and of speeds, two steps a call; its second call is counted, after a first plan. Working memory is the
caller's.

QEMU counts instructions, not cycles: it knows neither waiting for flash memory, nor caches, nor that an M7
issues two instructions at once. A thousand `nop` calibrate the count. The stack includes math.h; the code is
that of the function and its parts alone, and the line before each table says what libraries and the harness
take beside it.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from machine import describe, unless_quick
from whole_body import POSE, standing

import liebody as lb
from liebody.compiler import Function, Kernel, trace
from liebody.control.optimal import BrokenConstraints
from liebody.scalars import maximum, minimum

HERE = Path(__file__).parent
COMPILER, EMULATOR = "arm-none-eabi-gcc", "qemu-system-arm"
BOARDS = {  # options of the compiler, and the board of QEMU
    "Cortex-M4F": ("-mcpu=cortex-m4 -mfpu=fpv4-sp-d16", "mps2-an386"),
    "Cortex-M7": ("-mcpu=cortex-m7 -mfpu=fpv5-d16", "mps2-an500"),
}
OPTIONS = "-O2 -std=gnu99 -mthumb -mfloat-abi=hard -ffunction-sections -fno-builtin-memset".split()
LINK = "-nostartfiles -Wl,--gc-sections -lm -lc -lnosys".split()
RUN = "-display none -monitor none -serial none -icount shift=6 -chardev stdio,id=out".split()
RUN += ["-semihosting-config", "enable=on,target=native,chardev=out"]
TOLERANCE = {np.float64: 1e-9, np.float32: 1e-3}


class Row(NamedTuple):
    """What one function takes."""

    operations: int
    instructions: int
    stack: int
    code: int


def controller(robot: lb.Robot) -> Function:
    """The law of docs/c.md: efforts towards a target with gravity compensated, and a largest effort."""

    def law(q: Any, v: Any, target: Any, K: Any, D: Any, most: Any) -> dict[str, Any]:
        tau = K * (target - q) - D * v + robot.gravity(q)
        return {"tau": minimum(maximum(tau, -most), most)}

    return trace(law, dict.fromkeys(("q", "v", "target", "K", "D", "most"), robot.nv), "law")


def functions() -> dict[str, Function]:
    """The functions, by a name of C."""
    arm, hopper = lb.load("puma560"), lb.load("three_joint_hopper")
    dynamics = ["inverse_dynamics", "forward_dynamics", "mass_matrix", "forward_dynamics_derivatives"]
    chosen = {f"puma560_{key}": arm.kernel(key).function for key in unless_quick(dynamics, dynamics[:1])}
    chosen["puma560_law"] = controller(arm)
    chosen["hopper_forward_dynamics"] = hopper.kernel("forward_dynamics").function
    chosen["hopper_step"] = lb.stepper(hopper, dt=1e-3, method="euler").function()
    return chosen


def case(name: str, function: Function, prefix: str, dtype: Any) -> tuple[str, str]:
    """Arrays of arguments, results and expected results with a function that calls; its row in the table."""
    rng = np.random.default_rng(0)
    arguments = [rng.uniform(-0.5, 0.5, x.shape).astype(dtype) for x in function.inputs.values()]
    results = Kernel(function)(*(x.astype(float) for x in arguments))
    results = results if isinstance(results, tuple) else (results,)
    expected = np.concatenate([np.ravel(y) for y in results])

    def table(word: str, values: Any) -> str:
        return (
            f"static const REAL {name}_{word}[] = {{{', '.join(repr(float(x)) for x in np.ravel(values))}}};"
        )

    lines = [table(f"in{k}", x) for k, x in enumerate(arguments)]
    lines += [table("expected", expected), f"static REAL {name}_out[{expected.size}];"]
    first = np.cumsum([0, *(np.size(y) for y in results)])[:-1]
    passed = [f"{name}_in{k}" for k in range(len(arguments))] + [f"{name}_out + {k}" for k in first]
    lines.append(f"static void {name}_call(void) {{ {prefix}_{name}({', '.join(passed)}); }}")
    return "\n".join(
        lines
    ), f'{{"{name}", {name}_call, nothing, {name}_out, {name}_expected, {expected.size}}},'


def built(folder: Path, chosen: dict[str, Function], dtype: Any, options: str) -> tuple[Path, dict[str, int]]:
    """The program with these functions, and the bytes of code of each."""
    source, header, *_ = lb.export_c(folder, "x", chosen, dtype=dtype)
    texts, rows = zip(*(case(name, f, "x", dtype) for name, f in chosen.items()), strict=True)
    table = ["static const Case cases[] = {", *rows, "};", f"#define TOLERANCE {TOLERANCE[dtype]}"]
    (folder / "cases.h").write_text("\n".join([f'#include "{header.name}"', *texts, *table]))
    real = "float" if dtype == np.float32 else "double"
    command = [COMPILER, *options.split(), *OPTIONS, f"-DREAL={real}", f"-I{folder}"]
    exported = folder / "exported.o"
    run([*command, "-c", "-o", exported, source])
    harness = [HERE / "microcontroller.c", "-T", HERE / "microcontroller.ld"]
    run([*command, "-o", folder / "program.elf", exported, *harness, *LINK])
    symbols = [x.split() for x in run([COMPILER.replace("gcc", "nm"), "-S", exported]).splitlines()]
    sizes = {x[3]: int(x[1], 16) for x in symbols if len(x) == 4}
    own = {name: [s for s in sizes if re.fullmatch(rf"x_{name}(_\d+)?", s)] for name in chosen}
    return folder / "program.elf", {name: sum(sizes[s] for s in own[name]) for name in chosen}


class Solver(NamedTuple):
    """A controller on the board.

    files     its export
    text      the C functions NAME_call and NAME_before, which the harness calls, and NAME_out, NAME_expected
    count     numbers that are compared
    memory    bytes of the caller
    """

    files: list[Path]
    text: str
    count: int
    memory: int


def c_table(name: str, values: Any) -> str:
    return f"static const double {name}[] = {{{', '.join(repr(float(x)) for x in np.ravel(values))}}};"


def whole_body(folder: Path) -> Solver:
    """One call of a whole-body controller, for a quadruped on four feet."""
    robot, q, _, controller = standing()
    values = {"base.target": robot.pose(q, "base"), "posture.target": POSE}
    files = controller.export_c(folder, values)
    # with the small costs at 1 all results are determined to many digits
    p = controller.pack({**values, "acceleration_weight": 1.0, "force_weight": 1.0})
    rng = np.random.default_rng(0)
    q, v = robot.integrate(q, 0.05 * rng.normal(size=robot.nv)), 0.1 * rng.normal(size=robot.nv)
    command = controller(q, v, p)
    header = files[1].read_text()
    work = int(re.search(r"WORK_SIZE (\d+)", header)[1])  # type: ignore[index]
    sizes = [max(1, np.size(x)) for x in command]
    lines = [f'#include "{files[1].name}"', c_table("wb_q", q), c_table("wb_v", v), c_table("wb_p", p)]
    lines += [c_table("wb_expected", command.tau), f"static double wb_out[{sum(sizes)}], wb_work[{work}];"]
    results = [f"wb_out + {sum(sizes[:k])}" for k in range(len(sizes))]
    name = f"{files[0].stem}_whole_body"
    lines.append(f"static void wb_call(void) {{ {name}(wb_q, wb_v, wb_p, {', '.join(results)}, wb_work); }}")
    lines.append("#define wb_before nothing")
    return Solver(files, "\n".join(lines), command.tau.size, 8 * work)


def predictive(folder: Path, knots: int = 20) -> Solver:
    """The second call of a predictive controller of an arm, two steps of the search."""
    arm = lb.load("puma560")
    goal = np.array([0.5, 0.3, -0.4, 0.2, 0.3, 0.1])

    def stage(q: Any, v: Any, u: Any) -> Any:
        return np.concatenate([3 * (q - goal), 0.3 * v, 0.03 * (u - arm.gravity(q))])

    def speed(q: Any, v: Any, u: Any) -> Any:
        return v

    problem = lb.optimal_control(
        arm,
        dt=0.02,
        stage=stage,
        terminal=lambda q, v: np.concatenate([10 * (q - goal), v]),
        method="semi-implicit-euler",
        limits=100.0,
        stage_constraints=[(speed, -1.0, 1.0)],
        joints="ideal",
    )
    controller = problem.mpc(knots, iterations=2)
    q, v = arm.neutral(), np.zeros(arm.nv)
    files = controller.export_c(folder, q, v, name="arm")
    controller(q, v)
    following = controller.plan.q[1], controller.plan.v[1]
    with warnings.catch_warnings():
        # two steps leave a speed beyond its bound for a while
        warnings.simplefilter("ignore", BrokenConstraints)
        expected = controller(*following)
    states = dict(zip(("q0", "v0", "q1", "v1"), (q, v, *following), strict=True))
    lines = [f'#include "{files[1].name}"', *(c_table(f"mpc_{key}", x) for key, x in states.items())]
    lines += [c_table("mpc_expected", expected), f"static double mpc_out[{arm.nv}];"]
    lines.append("static arm_mpc_memory mpc_memory;\nstatic arm_mpc_result mpc_result;")
    call = "arm_mpc(&mpc_memory, mpc_q{0}, mpc_v{0}, mpc_out, &mpc_result);"
    lines.append(f"static void mpc_call(void) {{ {call.format(1)} }}")
    lines.append(f"static void mpc_before(void) {{ arm_mpc_reset(&mpc_memory); {call.format(0)} }}")
    memory = int(re.search(r"bytes: memory (\d+)", files[1].read_text())[1])  # type: ignore[index]
    return Solver(files, "\n".join(lines), arm.nv, memory)


def solver_on_board(folder: Path, key: str, solver: Solver) -> tuple[int, int, int]:
    """Instructions, bytes of stack and bytes of code of one call on a Cortex-M7; checks the results."""
    options, board = BOARDS["Cortex-M7"]
    row = f'{{"{key}", {key}_call, {key}_before, {key}_out, {key}_expected, {solver.count}}}'
    table = f"static const Case cases[] = {{{row}}};\n#define TOLERANCE {TOLERANCE[np.float64]}"
    (folder / "cases.h").write_text(f"{solver.text}\n{table}\n")
    command = [COMPILER, *options.split(), *OPTIONS, "-DREAL=double", f"-I{folder}"]
    compiled = folder / "exported.o"
    run([*command, "-c", "-o", compiled, solver.files[0]])
    harness = [HERE / "microcontroller.c", "-T", HERE / "microcontroller.ld"]
    run([*command, "-o", folder / "program.elf", compiled, *harness, *LINK])
    code = int(run([COMPILER.replace("gcc", "size"), compiled]).splitlines()[1].split()[0])
    return *measured(folder / "program.elf", board)[key], code


def measured(program: Path, board: str) -> dict[str, tuple[int, int]]:
    """Instructions and bytes of stack of each function; raises RuntimeError for wrong results."""
    lines = run([EMULATOR, "-M", board, *RUN, "-kernel", program]).splitlines()
    found = {
        name: (int(count), int(more or 0)) for name, count, more in (f"{x} 0".split()[:3] for x in lines)
    }
    count, _ = found.pop("calibration")
    if abs(count - 1000) > 1:  # the timer ticks 1.6 times in an instruction
        raise RuntimeError(f"1000 instructions are counted as {count}: this QEMU counts otherwise")
    return found


def run(command: list[Any]) -> str:
    """What a command prints; raises RuntimeError if it fails."""
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False, timeout=500)
    if done.returncode:
        raise RuntimeError(f"{command[0]} ends with {done.returncode}: {done.stdout}{done.stderr}")
    return done.stdout


def tables() -> Iterator[tuple[str, str, int, dict[str, Row]]]:
    """For each processor and type: its name, that of the type, other bytes of the program, and the rows."""
    chosen = functions()
    for processor, (options, board) in BOARDS.items():
        for dtype in (np.float32, np.float64):
            with tempfile.TemporaryDirectory() as folder:
                program, code = built(Path(folder), chosen, dtype, options)
                text = int(run([COMPILER.replace("gcc", "size"), program]).splitlines()[1].split()[0])
                counts = measured(program, board)
            rows = {
                name: Row(sum(f.operations.values()), *counts[name], code[name]) for name, f in chosen.items()
            }
            yield processor, np.dtype(dtype).name, text - sum(code.values()), rows


def main() -> int:
    missing = [tool for tool in (COMPILER, EMULATOR) if shutil.which(tool) is None]
    if missing:
        print(f"{' and '.join(missing)} not installed here (gcc-arm-none-eabi, libnewlib-arm-none-eabi, "
              "qemu-system-arm): nothing is measured")  # fmt: skip
        return 0
    print(describe())
    print(" | ".join(run([tool, "--version"]).splitlines()[0] for tool in (COMPILER, EMULATOR)))
    for processor, real, others, rows in tables():
        print(f"\n{processor}, {real}; libraries, harness and data take {others} bytes beside the code")
        print(f"{'function':38} {'operations':>10} {'instructions':>12} {'each':>5} {'stack':>6} {'code':>6}")
        for name, row in rows.items():
            each = row.instructions / row.operations
            print(
                f"{name:38} {row.operations:10} {row.instructions:12} {each:5.1f} {row.stack:6} {row.code:6}"
            )
    print("\nCortex-M7, float64: controllers; code is with tables")
    print(f"{'controller':38} {'instructions':>12} {'stack':>6} {'code':>7} {'working memory':>14}")
    for key, make in SOLVERS.items():
        with tempfile.TemporaryDirectory() as name:
            solver = make(Path(name))
            instructions, stack, code = solver_on_board(Path(name), key, solver)
        print(f"{LABELS[key]:38} {instructions:12} {stack:6} {code:7} {solver.memory:14}")
    return 0


SOLVERS = {"wb": whole_body, "mpc": predictive}
LABELS = {"wb": "whole-body control, ANYmal", "mpc": "predictive control, Puma 560, 20 knots"}


if __name__ == "__main__":
    sys.exit(main())
