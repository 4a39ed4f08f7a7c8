"""The low-latency entry: a generated C function as a Python callable, without Python's headers.

The library holds a function with CPython's fast calling convention (METH_FASTCALL), which reads NumPy's array
structure directly. Here it is wrapped as a built-in function through `ctypes.pythonapi`. The layout it relies
on is checked on a probe array; where it differs (free-threaded or debug builds, other interpreters) there is
no such entry, and calls take the portable way.
"""

from __future__ import annotations

import ctypes
import functools
import sys
import weakref
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from .build import fields

METH_FASTCALL_KEYWORDS = 0x0080 | 0x0002
# PyArray_New, PyArray_FromAny, PyArray_Scalar in NumPy's table of C functions, fixed since NumPy 1.0
NEW_ARRAY, AS_ARRAY, NEW_SCALAR = 93, 69, 60
OUT, THREADS = sys.intern("out"), sys.intern("threads")  # keywords of the entry, compared by identity
ONE = 1  # of which CPython has one object


class _Array(ctypes.Structure):
    _fields_ = (
        *fields("ssize_t count, void_p type data, int dimensions"),
        *((name, ctypes.POINTER(ctypes.c_ssize_t)) for name in ("shape", "strides")),
        *fields("void_p base description, int flags, void_p weak_references"),
    )


class _MethodDef(ctypes.Structure):
    _fields_ = fields("char_p name, void_p function, int flags, char_p doc")


@functools.cache
def available() -> bool:
    """Whether arrays of this interpreter have the layout that the entry reads."""
    if sys.implementation.name != "cpython" or object.__basicsize__ != 2 * ctypes.sizeof(ctypes.c_void_p):
        return False
    probe, numbers = np.zeros((3, 5)), (0.625, np.float64(0.625))
    seen = _Array.from_address(id(probe))
    count, weak = seen.count, seen.weak_references
    other, reference = probe, weakref.ref(probe)
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
        and _numpy_functions() is not None
    )


@functools.cache
def _numpy_functions() -> Any:
    """NumPy's table of C functions."""
    from numpy._core import _multiarray_umath as table_of  # type: ignore[attr-defined]

    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    address = pointer(table_of._ARRAY_API, None)
    return ctypes.cast(address, ctypes.POINTER(ctypes.c_void_p)) if address else None


def builtin(
    library: ctypes.CDLL, general: Callable[..., Any], name: str, doc: str, options: Mapping[str, Any]
) -> Callable[..., Any]:
    """The function `call` of a generated library as a built-in; calls it cannot take go to `general`.

    options  what must be given behind the arrays, these very objects
    """
    library.setup(_table())
    definition = _definition(_address(library.call), name, doc)
    make = (
        ctypes.PyDLL(None).PyCFunction_NewEx
        if sys.platform != "win32"
        else ctypes.pythonapi.PyCFunction_NewEx
    )
    make.restype, make.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p]
    bound = [x for name, value in options.items() for x in (sys.intern(name), value)]
    return make(ctypes.addressof(definition), (general, *bound), None)


def use_loops(library: ctypes.CDLL, loops: Mapping[str, ctypes.CDLL]) -> None:
    """Let the entry of a generated library use the loops over one lane and over many that are loaded."""
    addresses = (_address(loops[kind].run) if kind in loops else None for kind in ("one", "many"))
    library.use_loops.argtypes = [ctypes.c_void_p] * 2
    library.use_loops(*addresses)


def _address(function: Any) -> int | None:
    return ctypes.cast(function, ctypes.c_void_p).value


@functools.cache
def _table() -> Any:
    """What generated code needs of Python and NumPy: the structure `python` of runtime/call.h."""
    api, numpy_functions = ctypes.pythonapi, _numpy_functions()
    known = (np.ndarray, float, np.float64, list, tuple, np.dtype(float), OUT, THREADS, ONE)
    table = (
        *map(id, known),
        tuple.__basicsize__ // ctypes.sizeof(ctypes.c_void_p),
        *(numpy_functions[k] for k in (NEW_ARRAY, AS_ARRAY, NEW_SCALAR)),
        _address(api.PyObject_Vectorcall),
        _address(api.PyTuple_New),
        _address(api.PyTuple_SetItem),
        _address(api.Py_IncRef),
        _address(api.Py_DecRef),
        _address(api.PyErr_Clear),
        _address(api.PyEval_SaveThread),
        _address(api.PyEval_RestoreThread),
    )
    return (ctypes.c_void_p * len(table))(*table)


@functools.cache  # built-in functions refer to their definition for as long as they live
def _definition(function: int, name: str, doc: str) -> _MethodDef:
    return _MethodDef(name.encode(), function, METH_FASTCALL_KEYWORDS, doc.encode())
