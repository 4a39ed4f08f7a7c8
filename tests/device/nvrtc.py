"""CUDA compiled to PTX and machine code without a device: liebody's call of NVRTC, and ptxas.

Both are wheels of the extra `cuda` (nvidia-cuda-nvrtc, nvidia-cuda-nvcc). `missing` says why a test that
needs them is skipped.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from liebody.base.errors import CompilerError, MissingPackage
from liebody.compiler.native import nvrtc

ARCHITECTURES = (80, 90, 120)
"""Compute capabilities times ten: A100; H100 and H200; GeForce RTX 50 and RTX PRO 6000."""


class CompileError(Exception):
    """NVRTC or ptxas refused a text, or warned of it."""


@dataclass(frozen=True)
class Resources:
    """What ptxas says that a kernel takes of a thread's resources.

    registers  of 32 bits, at most 255
    spilled    bytes of registers that are stored in local memory, and loaded back
    stack      bytes of local memory: arrays and spilled registers
    """

    registers: int
    spilled: int
    stack: int


def missing() -> str:
    """Why CUDA cannot be compiled here; "" if it can."""
    try:
        nvrtc.library()
    except MissingPackage as error:
        return str(error)
    return "" if _ptxas() else "ptxas is not installed: pip install '.[cuda]'"


def _ptxas() -> str | None:
    wheel = nvrtc.newest("bin/ptxas")
    return str(wheel) if wheel else shutil.which("ptxas")


def ptx(source: str, architecture: int = 90, fused: bool = True, options: Sequence[str] = ()) -> str:
    """The PTX of a translation unit in CUDA C++; raises CompileError for errors and for warnings.

    fused    whether products and sums may become fused multiply-adds
    options  further options of NVRTC
    """
    try:
        image = nvrtc.compile_cuda(source, f"compute_{architecture}", fused, options)
    except CompilerError as error:
        raise CompileError(str(error)) from error
    if image.log.strip():
        raise CompileError(image.log)
    return image.code.rstrip(b"\0").decode()


def resources(code: str, architecture: int) -> dict[str, Resources]:
    """What each kernel of a PTX text takes as machine code; raises CompileError where ptxas complains."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "kernel.ptx"
        file.write_text(code, encoding="ascii")
        command = [str(_ptxas()), f"-arch=sm_{architecture}", "-v", str(file), "-o", str(file) + ".cubin"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    said = done.stdout + done.stderr
    if done.returncode or "warning" in said.lower():
        raise CompileError(said)
    found = {}
    for name, part in re.findall(r"Compiling entry function '(\w+)'(.*?)(?=Compiling entry|\Z)", said, re.S):
        # the lines behind the name: first those of the kernel, then those of functions that it calls
        frames = re.findall(
            r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", part
        )
        registers = int(re.search(r"Used (\d+) registers", part)[1])
        spilled = sum(int(stores) + int(loads) for _, stores, loads in frames)
        found[name] = Resources(registers, spilled, sum(int(stack) for stack, _, _ in frames))
    return found
