"""Elementary functions over arrays of any scalar: floats, or the symbols of a trace.

An algorithm written with these and with `+ - * / @` runs on float arrays as NumPy code, and on object
arrays of symbols (`liebody.compiler.Expr`) as a trace. A scalar that is not a float takes part by a
method `apply(name, operands)`, which returns the named function of the operands (itself among them).

elementary     the functions, and the names of arrays in annotations
tables         `Table`: numbers in memory, and `lookup`, which reads them
interpolation  `interp`: values between the points of a table
linear         small linear algebra
"""

from .elementary import (
    Array,
    Coordinates,
    GroupElement,
    absolute,
    arccos,
    arcsin,
    arctan2,
    clip,
    cos,
    cosh,
    exp,
    floor,
    hypot,
    log,
    maximum,
    minimum,
    sign,
    sin,
    sinh,
    sqrt,
    tan,
    tanh,
    where,
)
from .interpolation import interp
from .tables import Table, lookup

__all__ = [
    "Array",
    "Coordinates",
    "GroupElement",
    "Table",
    "absolute",
    "arccos",
    "arcsin",
    "arctan2",
    "clip",
    "cos",
    "cosh",
    "exp",
    "floor",
    "hypot",
    "interp",
    "log",
    "lookup",
    "maximum",
    "minimum",
    "sign",
    "sin",
    "sinh",
    "sqrt",
    "tan",
    "tanh",
    "where",
]
