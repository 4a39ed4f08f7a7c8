"""The robot that users hold: its equations of motion are compiled at first use.

table         the algorithms, a line each
algorithm     how a line becomes a method, kernels, C source
derived       derivatives of algorithms and of traced functions
building      trees made of trees: attached, with frames and payloads, with locked joints, placed elsewhere
on_device     the calls of a robot on arrays of a CUDA device
robot         Robot: the methods of the table, and methods that combine several of them
reference     writes table.pyi, which editors and type checkers read, and docs/algorithms.md
"""

from .algorithm import PARAMETERS, Algorithm, kernels_of
from .derived import derivatives
from .on_device import RobotOnDevice
from .robot import GRAVITY, Robot

__all__ = ["GRAVITY", "PARAMETERS", "Algorithm", "Robot", "RobotOnDevice", "derivatives", "kernels_of"]
