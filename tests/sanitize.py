"""Run the tests of compiled code with GCC's sanitizers of addresses and of undefined behaviour.

    make sanitize                    # or: python tests/sanitize.py [arguments of pytest]

Every kernel and march that the tests compile is instrumented; the first access outside of its arrays, or the
first operation that C leaves undefined, ends the run with a report. Python itself is not instrumented, so its
leaks are not looked for. Some fifteen minutes on two cores.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

TESTS = Path(__file__).parent
SELECTED = [  # kernels, calls, marches of every kind; test_kernels measures memory and times, too
    "test_c_printer.py",
    "test_contact.py",
    "test_events.py",
    "test_flow.py",
    "test_hybrid_flow.py",
    "test_implicit.py",
    "test_kernels.py",
    "test_layouts.py",
    "test_pool.py",
    "test_program.py",
    "test_samples.py",
    "test_sparse.py",
    "test_stepper.py",
]
LEFT_OUT = [  # the sanitizer keeps what is freed, and takes a large address space
    "test_kernels.py::test_the_entry_leaves_no_memory_behind",
    "test_pool.py::test_idle_memory_is_given_back_before_memory_runs_out",
]
CAUGHT = """
from liebody.compiler.native import build
wrong = {
    "AddressSanitizer": "int a[2]; int f(int n) { int *volatile p = a; return p[n]; }",
    "runtime error: left shift": "int f(int n) { return -n << 3; }",
}
build.library(build.Source([wrong[WORDS]]), build.find_compiler()).f(5)
"""


def environment(folder: str) -> dict[str, str]:
    """In which all that is compiled is instrumented."""
    wanted = subprocess.run(
        ["gcc", "-print-file-name=libasan.so"], capture_output=True, text=True, check=True
    )
    return {
        **os.environ,
        "CC": "gcc -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer",
        "LD_PRELOAD": wanted.stdout.strip(),
        "ASAN_OPTIONS": "detect_leaks=0",
        "LIEBODY_CACHE": folder,
    }


def main(arguments: list[str]) -> int:
    with tempfile.TemporaryDirectory() as folder:
        chosen = environment(folder)
        for words in ("AddressSanitizer", "runtime error: left shift"):  # whether mistakes are caught here
            code = [sys.executable, "-c", CAUGHT.replace("WORDS", repr(words))]
            done = subprocess.run(code, env=chosen, capture_output=True, text=True, check=False)
            if done.returncode == 0 or words not in done.stderr:
                print(f"a mistake that was made on purpose is not found ({words}):\n{done.stderr}")
                return 1
        command = [sys.executable, "-m", "pytest", "-q", "-n", "logical", "-p", "no:cacheprovider"]
        left_out = [x for name in LEFT_OUT for x in ("--deselect", f"tests/{name}")]
        given = arguments or [f"tests/{name}" for name in SELECTED]
        return subprocess.run(
            [*command, *left_out, *given], env=chosen, cwd=TESTS.parent, check=False
        ).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
