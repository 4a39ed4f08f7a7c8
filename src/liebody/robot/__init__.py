"""What a user holds: a robot whose equations of motion are compiled at first use.

table         the algorithms, a line each
algorithm     how a line becomes a method, kernels, C source
derived       derivatives of algorithms, and of any traced function
robot         Robot: the methods of the table, and those that combine them
reference     writes table.pyi, which editors and type checkers read, and docs/algorithms.md
"""

from .algorithm import Algorithm, kernels_of
from .derived import derivatives
from .robot import GRAVITY, Robot

__all__ = ["GRAVITY", "Algorithm", "Robot", "derivatives", "kernels_of"]
