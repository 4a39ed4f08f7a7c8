"""NVRTC, NVIDIA's compiler of CUDA C++, called by ctypes. It needs no device and no driver.

The library comes with the wheel nvidia-cuda-nvrtc (the extra `cuda`), with PyTorch for CUDA, or with CUDA
itself, in $CUDA_PATH or /usr/local/cuda.
"""

from __future__ import annotations

import ctypes
import functools
import os
import re
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from ...base.errors import CompilerError, MissingPackage

FOLDERS = ("/usr/local/cuda",)  # where CUDA's installers put it
ADVICE = "pip install nvidia-cuda-nvrtc, or liebody with its extra 'cuda'"


class Image(NamedTuple):
    """Compiled code.

    code  a cubin, machine code for one architecture, or the text of PTX
    log   warnings of the compiler
    """

    code: bytes
    log: str


def newest(pattern: str) -> Path | None:
    """The file of NVIDIA's wheels that matches, of the newest version; without one, the file of CUDA."""
    spec = find_spec("nvidia")
    wheels = [Path(root) for root in (spec.submodule_search_locations or [] if spec else [])]
    inside = [folder for root in wheels for folder in root.iterdir() if folder.is_dir()]
    installed = [Path(root) for root in (os.environ.get("CUDA_PATH", ""), *FOLDERS) if root]
    for folders in (inside, installed):
        files = [file for folder in folders for file in folder.glob(pattern)]
        if files:
            return max(files, key=lambda file: [int(x) for x in re.findall(r"\d+", str(file))])
    return None


def library() -> Path:
    """The file of NVRTC; raises MissingPackage where there is none."""
    file = newest("lib/libnvrtc.so.*") or newest("lib64/libnvrtc.so.*")
    if file is None:
        raise MissingPackage(f"NVRTC is not installed; for CUDA kernels: {ADVICE}")
    return file


def identity() -> str:
    """A text that changes when the compiler does, found without loading it."""
    file = library().resolve()
    status = file.stat()
    return "|".join([str(file), str(status.st_size), str(status.st_mtime_ns)])


@functools.cache
def _loaded(file: Path) -> ctypes.CDLL:
    """The library, opened."""
    try:
        # some versions do not look beside themselves for their second file
        for builtins in file.parent.glob("libnvrtc-builtins.so.*"):
            ctypes.CDLL(str(builtins))
        nvrtc = ctypes.CDLL(str(file))
    except OSError as error:
        raise CompilerError(f"{file} cannot be loaded: {error}; {ADVICE}") from error
    nvrtc.nvrtcGetErrorString.restype = ctypes.c_char_p
    return nvrtc


def compile_cuda(source: str, target: str, fused: bool = True, options: Sequence[str] = ()) -> Image:
    """A translation unit of CUDA C++, compiled.

    target   "sm_90" and the like: a cubin for devices of that architecture; "compute_90": PTX
    fused    whether products and sums may become fused multiply-adds
    options  further options of NVRTC

    Raises CompilerError with the compiler's words, MissingPackage without NVRTC.
    """
    nvrtc = _loaded(library())
    program = ctypes.c_void_p()
    handle = ctypes.byref(program)

    def check(status: int) -> None:
        if status:
            words = nvrtc.nvrtcGetErrorString(status).decode()
            raise CompilerError(f"NVRTC cannot compile for {target}: {words}\n{log()}".rstrip())

    def read(kind: str) -> bytes:
        size = ctypes.c_size_t()
        nvrtc[f"nvrtcGet{kind}Size"](program, ctypes.byref(size))
        buffer = ctypes.create_string_buffer(size.value)
        nvrtc[f"nvrtcGet{kind}"](program, buffer)
        return buffer.raw

    def log() -> str:
        return read("ProgramLog").rstrip(b"\0").decode(errors="replace")

    check(nvrtc.nvrtcCreateProgram(handle, source.encode(), b"kernel.cu", 0, None, None))
    try:
        flags = [f"--gpu-architecture={target}", f"--fmad={'true' if fused else 'false'}", *options]
        words = [flag.encode() for flag in flags]
        check(nvrtc.nvrtcCompileProgram(program, len(words), (ctypes.c_char_p * len(words))(*words)))
        return Image(read("PTX" if target.startswith("compute") else "CUBIN"), log())
    finally:
        nvrtc.nvrtcDestroyProgram(handle)
