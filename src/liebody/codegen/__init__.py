"""From NumPy functions to compiled kernels: tracing, derivatives, printers, build, calls on batches.

This package knows operations, not mechanics.
"""

from .derivatives import hessian, hvp, jacobian, jvp, vjp
from .flow import Flow, together
from .graph import Expr, Function, Graph, trace
from .implicit import ImplicitFlow, Phase
from .kernel import Buffer, Guard, Kernel
from .printers.casadi_external import to_casadi_external
from .printers.casadi_source import to_casadi
from .program import Program
from .samples import Samples
from .steps import step, traced

__all__ = [
    "Buffer",
    "Expr",
    "Flow",
    "Function",
    "Graph",
    "Guard",
    "ImplicitFlow",
    "Kernel",
    "Phase",
    "Program",
    "Samples",
    "hessian",
    "hvp",
    "jacobian",
    "jvp",
    "step",
    "to_casadi",
    "to_casadi_external",
    "together",
    "trace",
    "traced",
    "vjp",
]
