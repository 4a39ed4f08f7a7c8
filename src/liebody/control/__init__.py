"""Control: poses to reach, motions of least cost, and arms that learn their masses. The modules:

inverse_kinematics  configurations that reach poses
optimal/            optimal control and model predictive control
adaptive            motions followed by a robot with unknown masses
"""

from .adaptive import Adaptive, AdaptiveCommand

__all__ = ["Adaptive", "AdaptiveCommand"]
