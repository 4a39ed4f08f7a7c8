"""Control: poses to reach, motions of least cost, learned masses, tasks of whole bodies, state estimation.

The modules:

inverse_kinematics  configurations that reach poses
optimal/            optimal control and model predictive control
adaptive            motions followed by a robot with unknown masses
quadratic_program   convex quadratic programs with slack
whole_body_tasks    tasks and supports of whole-body control
clearances          distances that stay above a margin
differential_ik     velocities that do tasks, by a quadratic program in each call
task_programs       the quadratic programs that tasks make
whole_body          efforts and contact forces by a quadratic program in each call
whole_body_element  the same within simulations, as an element of robot systems
estimation/         pose and velocity of a robot on legs from its IMU and its encoders
"""

from .adaptive import Adaptive, AdaptiveCommand
from .clearances import Clearance
from .differential_ik import DifferentialIK, Reached, VelocityCommand
from .estimation import FilterNoise, FilterState, InvariantFilter
from .quadratic_program import QuadraticProgram, QuadraticSolution
from .whole_body import (
    ActiveSetCommand,
    ClosedActiveSetCommand,
    ClosedBodyCommand,
    WholeBody,
    WholeBodyCommand,
)
from .whole_body_element import WholeBodyElement
from .whole_body_tasks import MotionTask, Support

__all__ = [
    "ActiveSetCommand",
    "Adaptive",
    "AdaptiveCommand",
    "Clearance",
    "ClosedActiveSetCommand",
    "ClosedBodyCommand",
    "DifferentialIK",
    "FilterNoise",
    "FilterState",
]
__all__ += ["InvariantFilter", "MotionTask", "QuadraticProgram", "QuadraticSolution", "Reached", "Support"]
__all__ += ["VelocityCommand", "WholeBody", "WholeBodyCommand", "WholeBodyElement"]
