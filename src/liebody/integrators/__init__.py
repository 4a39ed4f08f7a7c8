"""Integrators on Lie groups. They know groups, and nothing of bodies. The modules, from data to a solution:

tableaux  explicit Runge-Kutta methods as data that checks itself
rkmk      one Runge-Kutta-Munthe-Kaas step, for any group and tableau; dense output on the group
commutator_free  methods that compose exponentials: commutator-free, Crouch-Grossman; data that checks itself
methods   explicit methods by their names
ivp       solve_ivp: error control, events, output, called as SciPy's
"""

from .commutator_free import CommutatorFree
from .ivp import DenseOutput, Solution, solve_ivp
from .methods import Method, method_named
from .rkmk import rkmk_step
from .tableaux import Tableau, tableau

__all__ = [
    "CommutatorFree",
    "DenseOutput",
    "Method",
    "Solution",
    "Tableau",
    "method_named",
    "rkmk_step",
    "solve_ivp",
    "tableau",
]
