"""Optimal control: trajectories of least cost, and controllers that plan as they go."""

from .fddp import Iteration
from .model import Violation
from .mpc import BrokenConstraints, Closed, Controller
from .problem import OptimalControl, OptimalPlan, optimal_control

__all__ = [
    "BrokenConstraints",
    "Closed",
    "Controller",
    "Iteration",
    "OptimalControl",
    "OptimalPlan",
    "Violation",
    "optimal_control",
]
