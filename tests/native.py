"""Generated C, compiled and called without the machinery of `Kernel`, at any number of lanes."""

import ctypes
import os
import subprocess

import numpy as np

from liebody.codegen import build
from liebody.codegen.printers.c import PIECE, Guard, batch_units, c99

LANES = (1, 2, 4, 8, 16)  # vectors wider than the processor's are compiled to several


def compiled(function, lanes=1, single=False, piece=PIECE, guard=None, units=1):
    """The batch loop of `function` as a call on arrays (n, *shape): (status of `run`, list of results)."""
    compiler = build.find_compiler()
    sources = batch_units(function, lanes, single, guard or Guard(), units, piece)
    library = build.library(build.Source(sources), compiler)
    real = np.float32 if single else np.float64

    def call(*arrays):
        arrays = [np.ascontiguousarray(a, real) for a in arrays]
        n = len(arrays[0]) if arrays else 1
        results = [np.full((n, *y.shape), 7.0, real) for y in function.outputs.values()]
        status = run(n, arrays, results)
        return status, results

    def run(n, arrays, results):
        def pointers(xs):
            return (ctypes.c_void_p * (len(xs) + 1))(*[x.ctypes.data for x in xs])

        def strides(xs):
            return (ctypes.c_long * (len(xs) + 1))(*[x[0].size if len(x) else 0 for x in xs])

        library.run.restype = ctypes.c_long
        library.run.argtypes = [ctypes.c_long, *[ctypes.c_void_p] * 4, ctypes.c_int]
        return library.run(n, pointers(arrays), strides(arrays), pointers(results), strides(results), 0)

    return call


STRICT = "-std=c99 -O1 -Wall -Wextra -Werror -pedantic -fPIC -shared".split()


def compiled_c99(function, folder, name=None, piece=PIECE):
    """The C99 text of `function`, with every warning an error, as a call on one state: a list of results."""
    name = name or function.name
    (folder / "f.c").write_text(
        "#include <math.h>\n" + prototype(function, name, piece) + c99(function, name, piece=piece)
    )
    command = [
        *build.find_compiler().command,
        *STRICT,
        "-o",
        str(folder / "f.so"),
        str(folder / "f.c"),
        "-lm",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    entry = getattr(ctypes.CDLL(os.fspath(folder / "f.so")), name)

    def call(*arrays):
        arrays = [np.ascontiguousarray(a, float) for a in arrays]
        results = [np.full(y.shape, 7.0) for y in function.outputs.values()]
        entry(*[ctypes.c_void_p(a.ctypes.data) for a in (*arrays, *results)])
        return results

    return call


def prototype(function, name, piece):
    lines = c99(function, name, piece=piece).splitlines()
    return next(line for line in lines if line.startswith(f"void {name}(")) + ";\n"
