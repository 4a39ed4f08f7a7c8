"""Optimal control: trajectories of least cost, and controllers that plan as they go."""

from .fddp import Iteration
from .problem import OptimalControl, Plan, optimal_control

__all__ = ["Iteration", "OptimalControl", "Plan", "optimal_control"]
