"""CUDA compiled to PTX and machine code without a device: NVRTC by ctypes, and ptxas.

Both are wheels of the extra `cuda` (nvidia-cuda-nvrtc, nvidia-cuda-nvcc). `missing` says why a test that
needs them is skipped.
"""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path

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


def _folders() -> list[Path]:
    """The folders of NVIDIA's wheels."""
    spec = find_spec("nvidia")
    roots = list(spec.submodule_search_locations or []) if spec else []
    return [folder for root in roots for folder in Path(root).iterdir() if folder.is_dir()]


def _newest(pattern: str) -> Path | None:
    """The file of the wheels that matches, of the newest version of CUDA."""
    files = [file for folder in _folders() for file in folder.glob(pattern)]
    return max(files, key=lambda file: [int(x) for x in re.findall(r"\d+", str(file))], default=None)


def missing() -> str:
    """Why CUDA cannot be compiled here; "" if it can."""
    if _newest("lib/libnvrtc.so.*") is None:
        return "NVRTC is not installed: pip install '.[cuda]'"
    return "" if _ptxas() else "ptxas is not installed: pip install '.[cuda]'"


def _ptxas() -> str | None:
    wheel = _newest("bin/ptxas")
    return str(wheel) if wheel else shutil.which("ptxas")


@cache
def _library() -> ctypes.CDLL:
    library = ctypes.CDLL(str(_newest("lib/libnvrtc.so.*")))
    library.nvrtcGetErrorString.restype = ctypes.c_char_p
    return library


def ptx(source: str, architecture: int = 90, fused: bool = True, options: Sequence[str] = ()) -> str:
    """The PTX of a translation unit in CUDA C++; raises CompileError for errors and for warnings.

    fused    whether products and sums may become fused multiply-adds
    options  further options of NVRTC
    """
    library = _library()
    program = ctypes.c_void_p()

    def check(status: int) -> None:
        if status:
            raise CompileError(f"{library.nvrtcGetErrorString(status).decode()}\n{log()}")

    def text(size_of: str, read: str) -> str:
        size = ctypes.c_size_t()
        library[size_of](program, ctypes.byref(size))
        buffer = ctypes.create_string_buffer(size.value)
        library[read](program, buffer)
        return buffer.value.decode()

    def log() -> str:
        return text("nvrtcGetProgramLogSize", "nvrtcGetProgramLog")

    check(library.nvrtcCreateProgram(ctypes.byref(program), source.encode(), b"kernel.cu", 0, None, None))
    try:
        flags = [f"--gpu-architecture=compute_{architecture}", f"--fmad={'true' if fused else 'false'}"]
        words = [x.encode() for x in [*flags, *options]]
        check(library.nvrtcCompileProgram(program, len(words), (ctypes.c_char_p * len(words))(*words)))
        if log().strip():
            raise CompileError(log())
        return text("nvrtcGetPTXSize", "nvrtcGetPTX")
    finally:
        library.nvrtcDestroyProgram(ctypes.byref(program))


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
