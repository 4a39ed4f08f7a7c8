"""The low-latency entry: a generated C function as a Python callable, without Python's headers.

The library holds a function with CPython's fast calling convention (METH_FASTCALL), which reads NumPy's array
structure directly. Here it is wrapped as a built-in function through `ctypes.pythonapi`. The layout it relies on is
checked on a probe array; where it differs (free-threaded or debug builds, other interpreters) there is no such
entry, and calls take the portable way.
"""

from __future__ import annotations

import ctypes
import functools
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

METH_FASTCALL_KEYWORDS = 0x0080 | 0x0002
NEW_ARRAY = 93  # place of PyArray_New in NumPy's table of C functions, fixed since NumPy 1.0


class _Array(ctypes.Structure):
    _fields_ = (
        ("count", ctypes.c_ssize_t),
        ("type", ctypes.c_void_p),
        ("data", ctypes.c_void_p),
        ("dimensions", ctypes.c_int),
        ("shape", ctypes.POINTER(ctypes.c_ssize_t)),
        ("strides", ctypes.POINTER(ctypes.c_ssize_t)),
        ("base", ctypes.c_void_p),
        ("description", ctypes.c_void_p),
        ("flags", ctypes.c_int),
    )


class _MethodDef(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


@functools.cache
def available() -> bool:
    """Whether arrays of this interpreter have the layout that the entry reads."""
    if sys.implementation.name != "cpython" or object.__basicsize__ != 2 * ctypes.sizeof(ctypes.c_void_p):
        return False
    probe = np.zeros((3, 5))
    seen = _Array.from_address(id(probe))
    return (
        seen.type == id(np.ndarray)
        and seen.data == probe.ctypes.data
        and seen.dimensions == 2
        and seen.shape[0] == 3
        and seen.shape[1] == 5
        and seen.strides[0] == 40
        and seen.description == id(np.dtype(float))
        and seen.flags & 0x501 == 0x501
        and _new_array() is not None
    )


@functools.cache
def _new_array() -> int | None:
    """The address of PyArray_New."""
    try:
        from numpy._core import _multiarray_umath as table_of
    except ImportError:
        from numpy.core import _multiarray_umath as table_of  # type: ignore[no-redef]  # NumPy 1
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    address = pointer(table_of._ARRAY_API, None)
    return ctypes.cast(address, ctypes.POINTER(ctypes.c_void_p))[NEW_ARRAY] if address else None


def builtin(library: ctypes.CDLL, general: Callable[..., Any], name: str, doc: str) -> Callable[..., Any]:
    """The function `call` of a generated library as a built-in; calls it cannot take go to `general`."""
    api = ctypes.pythonapi
    out = sys.intern("out")

    def address(function: Any) -> int | None:
        return ctypes.cast(function, ctypes.c_void_p).value

    table = (ctypes.c_void_p * 10)(
        id(np.ndarray),
        id(np.dtype(float)),
        id(out),
        id(general),
        _new_array(),
        address(api.PyObject_Vectorcall),
        address(api.PyTuple_New),
        address(api.PyTuple_SetItem),
        address(api.Py_IncRef),
        address(api.Py_DecRef),
    )
    library.setup(table)
    definition = _MethodDef(name.encode(), address(library.call), METH_FASTCALL_KEYWORDS, doc.encode())
    make = ctypes.PyDLL(None).PyCFunction_NewEx if sys.platform != "win32" else api.PyCFunction_NewEx
    make.restype, make.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p]
    function = make(ctypes.addressof(definition), None, None)
    _ALIVE.append((library, definition, general, out))  # the built-in refers to them for as long as it lives
    return function  # type: ignore[no-any-return]


_ALIVE: list[Any] = []
