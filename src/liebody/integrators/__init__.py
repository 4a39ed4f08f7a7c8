"""Integrators on Lie groups. They know groups, and nothing of bodies. The modules, from data to a solution:

tableaux  explicit Runge-Kutta methods as data that checks itself
rkmk      one Runge-Kutta-Munthe-Kaas step, for any group and tableau; dense output on the group
ivp       solve_ivp: error control, events, output, called as SciPy's
"""

from .ivp import DenseOutput, Solution, solve_ivp
from .rkmk import rkmk_step
from .tableaux import Tableau, tableau

__all__ = ["DenseOutput", "Solution", "Tableau", "rkmk_step", "solve_ivp", "tableau"]
