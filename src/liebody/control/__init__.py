"""Control: poses to reach, motions of least cost, arms that learn their masses, state estimation.

The modules:

inverse_kinematics  configurations that reach poses
optimal/            optimal control and model predictive control
adaptive            motions followed by a robot with unknown masses
estimation/         pose and velocity of a robot on legs from its IMU and its encoders
"""

from .adaptive import Adaptive, AdaptiveCommand
from .estimation import FilterNoise, FilterState, InvariantFilter

__all__ = ["Adaptive", "AdaptiveCommand", "FilterNoise", "FilterState", "InvariantFilter"]
