"""Control: poses to reach, motions of least cost, learned masses, tasks of whole bodies, state estimation.

The modules:

inverse_kinematics  configurations that reach poses
optimal/            optimal control and model predictive control
adaptive            motions followed by a robot with unknown masses
quadratic_program   convex quadratic programs with slack
whole_body_tasks    tasks and supports of whole-body control
whole_body          efforts and contact forces by a quadratic program in each call
estimation/         pose and velocity of a robot on legs from its IMU and its encoders
"""

from .adaptive import Adaptive, AdaptiveCommand
from .estimation import FilterNoise, FilterState, InvariantFilter
from .quadratic_program import QuadraticProgram, QuadraticSolution
from .whole_body import WholeBody, WholeBodyCommand
from .whole_body_tasks import MotionTask, Support

__all__ = ["Adaptive", "AdaptiveCommand", "FilterNoise", "FilterState", "InvariantFilter", "MotionTask"]
__all__ += ["QuadraticProgram", "QuadraticSolution", "Support", "WholeBody", "WholeBodyCommand"]
