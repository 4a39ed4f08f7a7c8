"""Run the numerical tests as on other x86-64 processors: of 2003, with AVX2 and FMA, and with AVX-512.

    python tests/processors.py [--shares]

For each level C is compiled with its -march, and NumPy, OpenBLAS and the C library are kept from code for
newer processors, which they choose at run time. A level that this machine lacks is skipped with a word. With
--shares the lowest level runs the tests that compile little, the highest one of this machine those that
compile much, and levels between none: that takes as long as one level.
"""

from __future__ import annotations

import argparse
import os
import platform
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from liebody.compiler.native.build import find_compiler

TESTS = Path(__file__).parent
SELECTED = [  # what computes, and compiles little
    "test_c_printer.py",
    "test_coefficients.py",
    "test_contact.py",
    "test_dynamics.py",
    "test_factorization.py",
    "test_flow.py",
    "test_graph.py",
    "test_groups.py",
    "test_hybrid_flow.py",
    "test_kernels.py",
    "test_linear.py",
    "test_printers.py",
    "test_program.py",
    "test_simulate.py",
]
UNMARKED = [  # what steps, solves and differentiates in compiled code; their wide tests compile much
    "test_derivatives.py",
    "test_differentiation.py",
    "test_events.py",
    "test_feet.py",
    "test_forces.py",
    "test_restitution.py",
    "test_sensitivities.py",
    "test_sparse.py",
    "test_spheres.py",
    "test_stepper.py",
    "test_steps.py",
    "test_time_stepping.py",
    "test_time_stepping_loops.py",
    "test_variations.py",
]
LEFT_OUT = [  # by how their names begin: slow ones, and those of sizes, memory and locks
    "test_c_printer.py::test_c99_stores",
    "test_c_printer.py::test_every_operation_over_lanes_is_that_of_the_graph[float32 x 4",
    "test_c_printer.py::test_every_operation_over_lanes_is_that_of_the_graph[float64 x 4",
    "test_c_printer.py::test_more_results_than_a_stack_holds",
    "test_c_printer.py::test_outputs_of_every_kind_are_stored",
    "test_c_printer.py::test_units_compiled_apart_compute_what_one_unit_does",
    "test_flow.py::test_flows_together",
    "test_groups.py::test_small_motions_keep_all_their_digits",
    "test_groups.py::test_what_the_logarithm_does_not_refuse_it_reaches",
    "test_kernels.py::test_batches_release_the_interpreter_lock",
    "test_kernels.py::test_the_entry_leaves_no_memory_behind",
    "test_printers.py::test_casadi_is_the_interpreter",
    "test_printers.py::test_sympy_has_the_value_in_exact_arithmetic",
    "test_program.py::test_a_flow_of_programs_is_the_flow_of_their_graphs",
    "test_simulate.py::test_anymal_falls_as_in_scipy_with_pinocchio",
    "test_simulate.py::test_compiled_steps_have_the_order_of_their_method",
]
MARKS = "not slow and not gpu and not browser"
REPORT = """
import numpy._core._multiarray_umath as umath
from liebody.compiler.native import build
compiler = build.find_compiler()
words = f"C for vectors of {build.vector_bits(compiler)} bits" if compiler else "no C compiler"
features = [x for x in umath.__cpu_dispatch__ if umath.__cpu_features__[x]]
print(words, "NumPy with " + (" ".join(features) or "no more than its baseline"), sep=", ")
"""


class Level(NamedTuple):
    """A level of x86-64: what NumPy calls its features, and a processor of it in the words of OpenBLAS."""

    name: str
    needs: tuple[str, ...]
    core: str
    too_new: tuple[str, ...]  # features of NumPy that begin so
    hidden: str  # from the C library


LEVELS = [
    Level("x86-64", (), "Nehalem", ("",), "-AVX512F,-AVX2,-AVX,-FMA,-FMA4"),
    Level("x86-64-v3", ("AVX2", "FMA3"), "Haswell", ("AVX512", "X86_V4"), "-AVX512F"),
    Level("x86-64-v4", ("AVX512_SKX",), "SkylakeX", (), ""),
]


def features() -> dict[str, bool]:
    """What NumPy finds of this processor."""
    import numpy._core._multiarray_umath as umath

    return dict(umath.__cpu_features__)


def environment(level: Level) -> dict[str, str]:
    """In which a process computes as on a processor of this level."""
    import numpy._core._multiarray_umath as umath

    found, compiler = features(), find_compiler()
    newer = [x for x in umath.__cpu_dispatch__ if found[x] and x.startswith(level.too_new)]
    changed = {"NPY_DISABLE_CPU_FEATURES": " ".join(newer), "OPENBLAS_CORETYPE": level.core}
    changed |= {"GLIBC_TUNABLES": f"glibc.cpu.hwcaps={level.hidden}"} if level.hidden else {}
    if compiler:
        name = level.name.replace("-", "_") if "ziglang" in compiler.command else level.name
        changed["CC"] = shlex.join([*compiler.command, f"-march={name}"])
    return {**os.environ, **changed}


def run(level: Level, names: Sequence[Sequence[str]] = (SELECTED, UNMARKED)) -> int:
    """The exit status of the tests of these lists."""
    chosen = environment(level)
    subprocess.run([sys.executable, "-c", REPORT], env=chosen, check=True)
    left_out = [x for name in LEFT_OUT for x in ("--deselect", f"tests/{name}")]
    command, status = [sys.executable, "-m", "pytest", "-q", "-n", "logical", *left_out], 0
    for chosen_names in names:
        marks = MARKS if chosen_names is SELECTED else f"{MARKS} and not wide"
        tests = [f"tests/{name}" for name in chosen_names]
        done = subprocess.run([*command, "-m", marks, *tests], env=chosen, cwd=TESTS.parent, check=False)
        status = status or done.returncode
    return status


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--shares",
        action="store_true",
        help="a part of the tests on the lowest level, others on the highest",
    )
    shares = parser.parse_args(arguments).shares
    if platform.machine() not in ("x86_64", "AMD64"):
        print(f"this processor is {platform.machine()}, not x86-64: nothing is run")
        return 0
    found = features()
    lowest, *_, highest = LEVELS[:1] + [x for x in LEVELS if all(found.get(name) for name in x.needs)]
    lists = (
        {lowest: [SELECTED], highest: [UNMARKED]} if lowest is not highest else {lowest: [SELECTED, UNMARKED]}
    )
    failed = []
    for level in LEVELS:
        print(f"\n== {level.name}", flush=True)
        missing = [name for name in level.needs if not found.get(name)]
        if missing:
            print(f"skipped: this machine has no {', '.join(missing)}")
        elif shares and level not in lists:
            print("skipped: the levels above and below share the tests")
        elif run(level, lists[level]) if shares else run(level):
            failed.append(level.name)
    if failed:
        print(f"\nfailed as on {', '.join(failed)}")
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
