"""Integrators on Lie groups. They know groups, and nothing of bodies. The modules, from data to a solution:

    tableaux         explicit Runge-Kutta methods as data that checks itself
    rkmk             one Runge-Kutta-Munthe-Kaas step, for any group and tableau; dense output on the group
    commutator_free  methods that compose exponentials: commutator-free, Crouch-Grossman; checked likewise
    methods          all methods by their names
    stage_tangents   steps of explicit methods that carry derivatives along
    ivp              solve_ivp: error control, events, output, called as SciPy's

and for mechanical systems M dv/dt + b + J^T lambda = Q, g = 0, compiled:

    blocks              matrices by blocks
    saddle_point        accelerations and multipliers of constrained systems, redundant constraints included
    equations           the system: M, b, Q, g, J, with their defaults
    mechanical_flow     the compiled steps of a method for a system: start, steps, run
    trajectory          the result of a run
    mechanical_method   the base class of methods
    implicit_tableaux   Gauss, Radau IIA and half-explicit methods as data that checks itself
    collocation         Gauss, RadauIIA; also for any vector field
    generalized_alpha, half_explicit, variational   the others
    retractions         exp and Cayley's map, for variational
"""

from .collocation import Collocation, Gauss, RadauIIA
from .commutator_free import CommutatorFree
from .equations import MechanicalEquations
from .generalized_alpha import GeneralizedAlpha
from .half_explicit import HalfExplicit
from .implicit_tableaux import ImplicitTableau
from .ivp import DenseOutput, Solution, solve_ivp
from .mechanical_flow import MechanicalFlow
from .mechanical_method import MechanicalMethod
from .methods import Method, any_method, is_mechanical, mechanical_method, method_named
from .rkmk import Step, advance, coefficients, rkmk_step
from .stage_tangents import StageTangents, StateTangents, differentiated
from .tableaux import Tableau, tableau
from .trajectory import Trajectory
from .variational import Variational

__all__ = [
    "Collocation",
    "CommutatorFree",
    "DenseOutput",
    "Gauss",
    "GeneralizedAlpha",
    "HalfExplicit",
    "ImplicitTableau",
    "MechanicalEquations",
    "MechanicalFlow",
    "MechanicalMethod",
    "Method",
    "RadauIIA",
    "Solution",
    "StageTangents",
    "StateTangents",
    "Step",
    "Tableau",
    "Trajectory",
    "Variational",
    "advance",
    "any_method",
    "coefficients",
    "differentiated",
    "is_mechanical",
    "mechanical_method",
    "method_named",
    "rkmk_step",
    "solve_ivp",
    "tableau",
]
