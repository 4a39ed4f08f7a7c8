"""Write CUDA source of kernels: one file that NVRTC or nvcc compiles, with a launch for C++."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..base.arguments import checked
from ..base.errors import LiebodyError, ModelError, pass_on_signals
from ..base.public import version
from ..base.texts import path_of
from ..compiler import Function, Kernel, Minimizer, Program
from ..compiler.native.kernel import data_type
from ..compiler.printers.c import c_function
from ..compiler.printers.cuda import BLOCK, Layout, cuda_kernel, cuda_names, cuda_prelude
from .c_export import About, Functions, comment_of_c, named_functions, word_of_c


@checked
def export_cuda(
    folder: str | Path,
    name: str,
    functions: Functions,
    *,
    dtype: Any = np.float64,
    layout: Layout = "rows",
    about: About | None = None,
) -> Path:
    """Write traced functions to `folder`/`name`.cu as CUDA kernels, which evaluate one state in each thread.

        file = lb.export_cuda("out", "filter", [lb.compiler.trace(step, {"x": 2, "y": ()}, "step")])

    name       of the file, and prefix of all names in it; characters that C does not allow become _
    functions  kernels, functions or programs; pairs of a name and such; or a mapping from names to such
    dtype      float64: the arrays hold `double`; float32: `float`
    layout     of the arrays on the device, for n states: "rows", (n, size); "columns", (size, n), in which
               neighbouring threads read neighbouring numbers
    about      further sentences for the head of the file; see `About`

    The kernels are `extern "C" __global__ void name_function(int64_t n, const double *argument, ..., double
    *result, ...)`, for blocks of 160 threads or less in a grid of any size. NVRTC compiles the file with no
    option but the architecture; for nvcc there is a function `..._launch` beside each kernel, too. The device
    checks no arguments. docs/gpu.md shows launches from CuPy, PyTorch and CUDA C++.

    Experimental: PTX interpreted agrees with the C bit for bit without fused multiply-adds; not yet run or
    timed on a device. Returns the path.

    Raises LiebodyError for an empty list of functions and for other types than float64 and float32,
    ModelError for functions that solve quadratic programs, GraphError for tables that are parameters.
    """
    about = about or About()
    prefix = word_of_c(name).lower()
    prefix = prefix if prefix[:1].isalpha() else f"robot_{prefix}".rstrip("_")
    single = data_type(dtype) == np.float32
    if not single and data_type(dtype) != np.float64:
        raise LiebodyError(f"dtype is {np.dtype(dtype)}, expected float64 or float32")
    exported = {
        key: x if isinstance(x, Kernel) else Kernel(x) for key, x in named_functions(functions).items()
    }
    if not exported:
        raise LiebodyError("no functions to export; name at least one, such as inverse_dynamics")
    text = [_head(prefix, about, layout, "float" if single else "double"), cuda_prelude(single)]
    for key, kernel in exported.items():
        function = kernel.function
        if isinstance(function, Minimizer):
            raise ModelError(f"{key} solves a quadratic program, which has no kernel for devices yet")
        text.append(_documented(key, kernel, layout))
        text.append(cuda_kernel(function, f"{prefix}_{key}", single, layout))
    text.append(_launches([(f"{prefix}_{key}", x.function) for key, x in exported.items()]))
    folder = path_of("the folder", folder)
    path = folder / f"{prefix}.cu"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(text), encoding="ascii")
    except (OSError, ValueError) as error:  # the latter of names with a null character
        pass_on_signals(error)
        raise LiebodyError(f"cannot write into {str(folder)!r}: {error}") from None
    return path


_RULES = """
Each kernel evaluates a function for n states, one in each thread. Its arrays hold {real}, on the
device, in {layout}: {stored}. Entries of matrices are row-major. Units are SI.
Quaternions are (w, x, y, z). Twists and wrenches have the angular part first. Velocities are
left-trivialised: those of a free or spherical joint are in the axes of its body.
Results must not overlap with arguments. Arguments are not checked; quaternions must be unit.
Launch with blocks of at most {block} threads, in a grid of any size. NVRTC compiles this file
with no option but the architecture, nvcc as well; -fmad=false gives the numbers of the C of this
library to the bit, as long as tan, exp, log, hyperbolic and inverse functions do not occur."""


def _head(prefix: str, about: About, layout: Layout, real: str) -> str:
    """The comment at the head of a file."""
    stored = "(n, size), state by state" if layout == "rows" else "(size, n), entry by entry"
    rules = _RULES.format(real=real, layout=layout, stored=stored, block=BLOCK)
    lines = [f"/* {prefix}: CUDA C++ generated by liebody {version()}.", ""]
    lines += [comment_of_c(line) for line in about.lines]
    return (
        "\n".join([lines[0], *(f"   {line}".rstrip() for line in [*lines[1:], *rules.splitlines()])])
        + " */\n"
    )


def _documented(key: str, kernel: Kernel, layout: Layout) -> str:
    """The comment before a kernel: its documentation, and the shapes of its arrays."""
    _, arguments, results = cuda_names(kernel.function)
    shapes = [*kernel.inputs.values(), *kernel.outputs.values()]
    lines = [f"/* {key}", *(kernel.__doc__ or "").strip().splitlines()]
    for name, shape in zip([*arguments, *results], shapes, strict=True):
        sizes = ["n", *map(str, shape)] if layout == "rows" else [*map(str, shape), "n"]
        lines.append(f"{name}  {' x '.join(sizes)}")
    lines = [lines[0], *(f"   {comment_of_c(line)}".rstrip() for line in lines[1:])]
    return "\n".join(lines) + " */"


def _launches(kernels: Sequence[tuple[str, Function | Program]]) -> str:
    """Functions of the host that launch the kernels in a stream, for nvcc."""
    text = [
        "#ifndef __CUDACC_RTC__",
        f"/* Launch a kernel for n states in blocks of {BLOCK} threads. The arrays are on the device. */",
        "#undef static",
    ]
    for name, function in kernels:
        name, arguments, results = cuda_names(function, name)
        takes = ["int64_t n", *(f"const real *{x}" for x in arguments), *(f"real *{y}" for y in results)]
        passed = ", ".join(["n", *arguments, *results])
        head = f'extern "C" cudaError_t {name}_launch({", ".join([*takes, "cudaStream_t stream"])})'
        blocks = f"const unsigned blocks = (unsigned)((n + {BLOCK - 1}) / {BLOCK});"
        launch = f"if (n > 0) {name}<<<blocks, {BLOCK}, 0, stream>>>({passed});"
        text.append(c_function(head, [blocks, launch, "return cudaGetLastError();"]))
    return "\n".join([*text, "#endif", ""])
