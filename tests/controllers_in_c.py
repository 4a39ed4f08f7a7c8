"""Exported whole-body controllers, compiled without warnings, with their self-tests."""

from __future__ import annotations

import ctypes
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from liebody.compiler.native import build

STRICT = "-std=c99 -O1 -Wall -Wextra -Werror -pedantic -Wconversion".split()


class ControllerInC:
    """The function `<robot>_whole_body` of exported files.

    printed  what its self-test has printed, after it has passed
    """

    def __init__(self, paths: Sequence[Path], folder: Path, *options: str) -> None:
        """Compiles the files of `export_c`; skips the test where there is no compiler."""
        if (compiler := build.find_compiler()) is None:
            pytest.skip("there is no C compiler")
        command = [*compiler.command, *STRICT, *options]
        source, header, test = paths[:3]
        program, library = folder / "selftest", folder / "controller.so"
        subprocess.run([*command, "-o", program, source, test, "-lm"], check=True)
        done = subprocess.run([program], capture_output=True, text=True)
        assert done.returncode == 0, done.stdout
        self.printed = done.stdout
        subprocess.run([*command, "-fPIC", "-shared", "-o", library, source, "-lm"], check=True)
        name = f"{source.stem}_whole_body"
        self.function = getattr(ctypes.CDLL(str(library)), name)
        self.size = int(re.search(rf"{name.upper()}_WORK_SIZE (\d+)", header.read_text())[1])

    def __call__(self, arrays: Sequence[Any], like: Sequence[Any]) -> list[np.ndarray]:
        """Results in the shapes of `like`, from arrays of one type of numbers."""
        real = arrays[0].dtype
        # memory of any contents, behind whose end nothing is written
        work = np.r_[np.full(self.size, np.nan, real), np.array([7.0], real)]
        results = [np.full(x.shape, np.nan, real) for x in like]
        self.function(*(ctypes.c_void_p(x.ctypes.data) for x in (*arrays, *results, work)))
        assert work[-1] == 7.0
        return results
