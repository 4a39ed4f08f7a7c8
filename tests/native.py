"""Generated C, compiled and called without the machinery of `Kernel`, at any number of lanes."""

import ctypes
import os
import subprocess

import numpy as np

from liebody.compiler.native import build
from liebody.compiler.printers.c import PIECE, Guard, batch_units, c99

LANES = (1, 2, 4, 8, 16)  # vectors wider than the processor's are compiled to several


def compiled(function, lanes=1, single=False, piece=PIECE, guard=None, units=1, flags=build.FLAGS):
    """The batch loop of `function` as a call on arrays (n, *shape): (status of `run`, list of results)."""
    run = compiled_run(function, lanes, single, piece, guard, units, flags)
    real = np.float32 if single else np.float64

    def call(*arrays):
        arrays = [np.ascontiguousarray(a, real) for a in arrays]
        n = len(arrays[0]) if arrays else 1
        results = [np.full((n, *y.shape), 7.0, real) for y in function.outputs.values()]
        places = [[x.ctypes.data for x in xs] for xs in (arrays, results)]
        steps = [[x[0].size if len(x) else 0 for x in xs] for xs in (arrays, results)]
        return run(n, places[0], steps[0], places[1], steps[1]), results

    return call


def compiled_run(function, lanes=1, single=False, piece=PIECE, guard=None, units=1, flags=build.FLAGS):
    """The function `run` itself, of runtime/batch.h: run(n, addresses, strides, addresses, strides)."""
    sources = batch_units(function, lanes, single, guard or Guard(), units, piece)
    library = build.library(build.Source(sources, flags), build.find_compiler())
    library.run.restype = ctypes.c_int64
    library.run.argtypes = [ctypes.c_int64, *[ctypes.c_void_p] * 4, ctypes.c_int]

    def run(n, places, steps, result_places, result_steps):
        inputs, results = len(places) + 1, len(result_places) + 1
        return library.run(
            n,
            (ctypes.c_void_p * inputs)(*places),
            (ctypes.c_int64 * inputs)(*steps),
            (ctypes.c_void_p * results)(*result_places),
            (ctypes.c_int64 * results)(*result_steps),
            0,
        )

    return run


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
