"""Optimal control: trajectories of least cost, and controllers that plan as they go."""

from .fddp import Iteration
from .lagrangian import Multipliers
from .model import Violation
from .mpc import BrokenConstraints, Closed, Controller, UnfinishedPlan
from .problem import OptimalControl, OptimalPlan, optimal_control

__all__ = [
    "BrokenConstraints",
    "Closed",
    "Controller",
    "Iteration",
    "Multipliers",
    "OptimalControl",
    "OptimalPlan",
    "UnfinishedPlan",
    "Violation",
    "optimal_control",
]
