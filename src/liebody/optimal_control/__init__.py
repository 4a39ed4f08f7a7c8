"""Optimal control: trajectories of least cost, and controllers that plan as they go."""

from .fddp import Iteration
from .mpc import Closed, Controller
from .problem import OptimalControl, OptimalPlan, optimal_control

__all__ = ["Closed", "Controller", "Iteration", "OptimalControl", "OptimalPlan", "optimal_control"]
