"""From NumPy functions to compiled kernels: tracing, derivatives, printers, build, calls on batches.

The folders, from the ground up; each imports from the ones above it in this list only:

graph/     the expression graph of a trace, and derivatives
programs/  passes of small functions over one memory: repeated steps become loops
runtime/   all C text that is not generated
printers/  C, NumPy, SymPy, CasADi
native/    compiled libraries: built, kept in a cache, called

This package knows operations, not mechanics.
"""

from .graph.conditions import Decided, decided
from .graph.derivatives import hessian, hvp, jacobian, jvp, vjp
from .graph.graph import CONDITIONS, Expr, Function, Graph, evaluate, trace
from .native.casadi_external import to_casadi_external
from .native.device import DeviceKernel, DeviceMarch, cuda_device
from .native.device_rows import DeviceMemory, DeviceSource, DeviceTake
from .native.foreign import Foreign, ForeignCall, ForeignDeviceCall
from .native.intervals import IntervalLibrary, NotProved, exactly, middle, rounded_outward
from .native.kernel import Buffer, Guard, Kernel
from .printers import interpreted
from .printers.casadi_source import to_casadi
from .printers.interval import Constants, Tape, outward, tape_of
from .printers.sympy_source import sympy_rules, to_sympy
from .programs.layout import FlatLayout, Named
from .programs.program import Program
from .programs.quadratic_program import ACTIVE_SET, INTERIOR_POINT, METHODS, Minimizer, Otherwise
from .programs.quadratic_terms import Measures
from .programs.repeats import repeated, traced

__all__ = [
    "ACTIVE_SET",
    "CONDITIONS",
    "INTERIOR_POINT",
    "METHODS",
    "Buffer",
    "Constants",
    "Decided",
    "DeviceKernel",
    "DeviceMarch",
    "DeviceMemory",
    "DeviceSource",
    "DeviceTake",
    "Expr",
    "FlatLayout",
    "Foreign",
    "ForeignCall",
    "ForeignDeviceCall",
    "Function",
    "Graph",
    "Guard",
    "IntervalLibrary",
    "Kernel",
    "Measures",
    "Minimizer",
    "Named",
    "NotProved",
    "Otherwise",
    "Program",
    "Tape",
    "cuda_device",
    "decided",
    "evaluate",
    "exactly",
    "hessian",
    "hvp",
    "interpreted",
    "jacobian",
    "jvp",
    "middle",
    "outward",
    "repeated",
    "rounded_outward",
    "sympy_rules",
    "tape_of",
    "to_casadi",
    "to_casadi_external",
    "to_sympy",
    "trace",
    "traced",
    "vjp",
]
