"""Memory of large results, which later results use again: the allocator of runtime/pool.h for NumPy's arrays.

`y = f(x)` asks for a new array in each call. Large arrays come from the system page by page, at a page fault
for every 4 kB, which takes longer than computing most results. So the memory that an array of the pool gives
back stays here for the next array of about its size. The idle memory is at most 256 MB, or as much as arrays
of the pool hold at that time if that is more. These arrays own their memory, like others, and `resize` works.
"""

from __future__ import annotations

import ctypes
import functools
import math
import sys
from typing import Any

import numpy as np

from ..runtime import runtime
from . import build

LARGE = 1 << 16  # bytes of an array above which its memory is the pool's
SET_HANDLER = 304  # PyDataMem_SetHandler in NumPy's table of C functions, fixed since NumPy 1.22
CAPSULE = b"mem_handler"  # what NumPy calls the capsules of allocators


@functools.cache
def numpy_functions() -> Any:
    """NumPy's table of C functions; None if there is none."""
    from numpy._core import _multiarray_umath as table_of  # type: ignore[attr-defined]

    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype = ctypes.c_void_p
    pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
    # C code gets the table by this very name (`import_array` of NumPy's headers); Python has no other one
    address = pointer(table_of._ARRAY_API, None)
    return ctypes.cast(address, ctypes.POINTER(ctypes.c_void_p)) if address else None


@functools.cache
def library(compiler: build.Compiler) -> ctypes.CDLL:
    """The compiled pool, and the entry of kernels (runtime/call.h), which asks it for memory.

    It stays loaded: arrays may give their memory back when the interpreter ends.
    """
    texts = [runtime("pool.h"), runtime("call.h")]
    return _immortal(build.library(build.Source(["\n".join(texts)]), compiler))


@functools.cache
def handler(compiler: build.Compiler) -> Any:
    """The pool as NumPy takes allocators, a capsule."""
    make = ctypes.pythonapi.PyCapsule_New
    make.restype = ctypes.py_object
    make.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    return _immortal(make(ctypes.addressof(ctypes.c_char.in_dll(library(compiler), "pool")), CAPSULE, None))


def _immortal(thing: Any) -> Any:
    """Keep an object alive until the process ends, because C code refers to it."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))
    return thing


def empty(shape: tuple[int, ...], dtype: Any, compiler: build.Compiler | None) -> np.ndarray:
    """An array with arbitrary entries, as `np.empty`; a large one comes from the pool, with a compiler."""
    dtype = np.dtype(dtype)
    large = math.prod(shape) * dtype.itemsize > LARGE
    if not large or compiler is None or sys.implementation.name != "cpython":
        return np.empty(shape, dtype)
    # The allocator is set for this thread, around the one call that allocates.
    use_memory = _use_memory()
    try:
        previous = use_memory(handler(compiler))
    except build.NoPlace:
        return np.empty(shape, dtype)
    try:
        return np.empty(shape, dtype)
    finally:
        use_memory(previous)


@functools.cache
def _use_memory() -> Any:
    """NumPy's function that sets the allocator of this thread's new arrays, and returns the previous one."""
    return ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object)(numpy_functions()[SET_HANDLER])


def state(compiler: build.Compiler, most: int = 2**62) -> tuple[int, int]:
    """Idle bytes, after returning those above `most` to the system; and bytes that arrays use."""
    numbers = (ctypes.c_ssize_t * 2)()
    library(compiler).pool_state(ctypes.c_ssize_t(most), numbers)
    return numbers[0], numbers[1]
