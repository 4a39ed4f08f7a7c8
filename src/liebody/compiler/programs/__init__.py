"""Programs: passes of small functions over one memory, and what makes and orders them. The modules:

program   a program, its passes and applications
repeats   what an algorithm does for each body: the decorator `repeated`, and traces that keep repeats apart
passes    from repeats to passes
schedule  the order of operations
layout    names and places of numbers in a flat array
sparse    Jacobians by their nonzero entries
hoisting  what can be computed once, before a loop
quadratic_program  a function that solves a quadratic program, and the solver in NumPy
packing   functions over the nonzero entries of their arguments

An algorithm that is written with `repeated` needs none of these: `compiler.traced` makes its program. The
names below serve programs that are put together by hand, such as derivatives of a step of optimal control:

    program = Program("knot", {"x": n, "u": m})
    first = apply_once(program, rates, program.cells("x"), program.cells("u"))
    columns = apply_hoisted(program, along, {"unit": np.eye(n)}, [first])  # a loop, its common part before it
    program.output("knot", ...)
    short, packing = packed(program, width)  # each number once; packing.unpack makes the whole again
"""

from .hoisting import apply_hoisted
from .packing import Packing, apply_once, packed
from .program import Cells
from .repeats import looped_where_long

__all__ = ["Cells", "Packing", "apply_hoisted", "apply_once", "looped_where_long", "packed"]
