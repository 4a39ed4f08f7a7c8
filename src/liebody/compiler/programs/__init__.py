"""Programs: passes of small functions over one memory, and what makes and orders them. The modules:

program   a program, its passes and applications
repeats   what an algorithm does for each body: the decorator `repeated`, and traces that keep repeats apart
passes    from repeats to passes
schedule  the order of operations
layout    names and places of numbers in a flat array
sparse    Jacobians by their nonzero entries
hoisting  what can be computed once, before a loop
packing   functions over the nonzero entries of their arguments
"""
