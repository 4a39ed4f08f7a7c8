"""The low-latency entry: a C function as the Python callable of every kernel, without Python's headers.

runtime/call.h, compiled once, has a function with CPython's fast calling convention (METH_FASTCALL), which
reads NumPy's array structure directly and runs the loops of the kernel that it is bound to. Here it is
wrapped as a built-in function through `ctypes.pythonapi`. The layout it relies on is checked on a probe
array; where it differs (free-threaded or debug builds, other interpreters) there is no such entry, and calls
take the portable way.
"""

from __future__ import annotations

import ctypes
import functools
import math
import sys
import weakref
from collections.abc import Callable, Collection, Mapping
from typing import Any

import numpy as np

from . import build, pool

METH_FASTCALL_KEYWORDS = 0x0080 | 0x0002
# PyArray_New, PyArray_FromAny, PyArray_Scalar in NumPy's table of C functions, fixed since NumPy 1.0
NEW_ARRAY = 93
AS_ARRAY = 69
NEW_SCALAR = 60
# Keywords of the entry, which are compared by identity.
OUT = sys.intern("out")
THREADS = sys.intern("threads")
ONE = 1  # of which CPython has one object
# Words of the structures `Kernel` and `Argument` of runtime/call.h.
HEAD = 9
ARGUMENT = 4
LAST = 2  # results of each kind that are kept there
MOST = 32  # inputs, or results
MOST_AXES = 16  # of each of them


class _Array(ctypes.Structure):
    """The head of NumPy's array objects, behind the reference count and the type of every object."""

    _fields_ = (
        *build.fields("ssize_t count, void_p type data, int dimensions"),
        *((name, ctypes.POINTER(ctypes.c_ssize_t)) for name in ("shape", "strides")),
        *build.fields("void_p base description, int flags, void_p weak_references"),
    )


class _MethodDef(ctypes.Structure):
    """CPython's PyMethodDef."""

    _fields_ = build.fields("char_p name, void_p function, int flags, char_p doc")


@functools.cache
def available() -> bool:
    """Whether arrays of this interpreter have the layout that the entry reads."""
    if sys.implementation.name != "cpython" or object.__basicsize__ != 2 * ctypes.sizeof(ctypes.c_void_p):
        return False
    # Read a known array by the assumed layout, and compare every field, reference counts included.
    probe = np.zeros((3, 5))
    numbers = (0.625, np.float64(0.625))
    seen = _Array.from_address(id(probe))
    count = seen.count
    weak = seen.weak_references
    other = probe
    reference = weakref.ref(probe)
    return (
        seen.type == id(np.ndarray)
        and seen.data == probe.ctypes.data
        and seen.dimensions == 2
        and seen.shape[0] == 3
        and seen.shape[1] == 5
        and seen.strides[0] == 40
        and seen.description == id(np.dtype(float))
        and seen.flags & 0x501 == 0x501
        and (seen.count, weak) == (count + 1, None)
        and seen.weak_references == id(reference)
        and other is probe
        and all(ctypes.c_double.from_address(id(x) + object.__basicsize__).value == x for x in numbers)
        and pool.numpy_functions() is not None
    )


def takes(inputs: Collection[tuple[int, ...]], outputs: Collection[tuple[int, ...]]) -> bool:
    """Whether there is an entry here, with room for kernels of arrays of these shapes."""
    fit = max(len(inputs), len(outputs)) <= MOST and max(map(len, [*inputs, *outputs])) <= MOST_AXES
    return fit and available()


class Described(np.ndarray):
    """The structure that the entry reads of a kernel; it keeps alive the libraries that it points to."""

    libraries: tuple[ctypes.CDLL, ...] = ()
    single: Described | None = None


def described(
    inputs: Collection[tuple[int, ...]], outputs: Collection[tuple[int, ...]], few: int, dtype: np.dtype[Any]
) -> Described:
    """The structure `Kernel` of runtime/call.h, for arrays of these shapes; its loops come by `use_loops`.

    few    rows from which on the loop over lanes serves
    dtype  the type of numbers, one of NumPy's own objects, which live as long as NumPy
    """
    shapes = [*inputs, *outputs]
    kernel = np.zeros(HEAD + ARGUMENT * len(shapes) + sum(map(len, shapes)), np.intp)
    kernel[:6] = len(inputs), len(outputs), few, id(dtype), dtype.num, dtype.itemsize
    # Behind the head: for each argument its number of axes, the address of its shape and its size; then all
    # shapes.
    at = HEAD + ARGUMENT * len(shapes)
    for argument, shape in zip(kernel[HEAD:at].reshape(-1, ARGUMENT), shapes, strict=True):
        argument[:3] = len(shape), kernel.ctypes.data + at * kernel.itemsize, math.prod(shape)
        kernel[at : at + len(shape)] = shape
        at += len(shape)
    return kernel.view(Described)


def use_loops(kernel: Described, loops: Mapping[bool, ctypes.CDLL]) -> None:
    """Let a described kernel use its loaded loops, over one lane and over many."""
    kernel.libraries = tuple(loops.values())  # they stay open as long as the kernel holds their addresses
    kernel[HEAD - 2 : HEAD] = addresses(loops)


def use_single(kernel: Described, single: Described) -> None:
    """Let the entry of a described kernel take arrays of float32 as well, by this kernel of float32."""
    kernel.single = single  # it lives as long as the kernel holds its address
    kernel[HEAD - 3] = single.ctypes.data


def addresses(loops: Mapping[bool, ctypes.CDLL]) -> list[int]:
    """The addresses of the loops over one lane and over many; 0 for one that is not loaded."""
    return [_address(loops[many].run) if many in loops else 0 for many in (False, True)]


def builtin(
    kernel: Described,
    general: Callable[..., Any],
    name: str,
    doc: str,
    options: Mapping[str, Any],
    compiler: build.Compiler,
) -> Callable[..., Any]:
    """A built-in function that runs a described kernel; calls it cannot take go to `general`.

    options  names and values of arguments behind the arrays: a call has to give these very objects
    """
    last = np.full((int(kernel[1]), LAST), None)
    definition = _definition(_call(compiler), name, doc)
    make = (
        ctypes.PyDLL(None).PyCFunction_NewEx
        if sys.platform != "win32"
        else ctypes.pythonapi.PyCFunction_NewEx
    )
    make.restype = ctypes.py_object
    make.argtypes = [ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p]
    bound = [x for name, value in options.items() for x in (sys.intern(name), value)]
    return make(ctypes.addressof(definition), (general, kernel, last, *bound), None)


@functools.cache
def _call(compiler: build.Compiler) -> int:
    """The function `call` of runtime/call.h."""
    library = pool.library(compiler)
    library.setup(_table(compiler))
    return _address(library.call)


def _address(function: Any) -> int:
    return ctypes.cast(function, ctypes.c_void_p).value or 0


@functools.cache
def _table(compiler: build.Compiler) -> Any:
    """The structure `python` of runtime/call.h: objects and functions of Python and NumPy for C code."""
    # The order is the order of the structure's fields.
    api = ctypes.pythonapi
    functions = pool.numpy_functions()
    known = (np.ndarray, float, np.float64, list, tuple, np.dtype(float), OUT, THREADS, ONE)
    table = (
        *map(id, known),
        tuple.__basicsize__ // ctypes.sizeof(ctypes.c_void_p),
        *(functions[k] for k in (NEW_ARRAY, AS_ARRAY, NEW_SCALAR)),
        _address(api.PyObject_Vectorcall),
        _address(api.PyTuple_New),
        _address(api.PyTuple_SetItem),
        _address(api.Py_IncRef),
        _address(api.Py_DecRef),
        _address(api.PyErr_Clear),
        _address(api.PyEval_SaveThread),
        _address(api.PyEval_RestoreThread),
        functions[pool.SET_HANDLER],
        id(pool.handler(compiler)),
    )
    return (ctypes.c_void_p * len(table))(*table)


@functools.cache  # built-in functions refer to their definition for as long as they live
def _definition(function: int, name: str, doc: str) -> _MethodDef:
    return _MethodDef(name.encode(), function, METH_FASTCALL_KEYWORDS, doc.encode())
