"""Where a robot on legs is, from its IMU, its encoders and the feet that touch. The modules:

equations   the invariant Kalman filter on SE_n(3), as functions that can be traced
noise       FilterNoise: what the sensors' data sheets say
filter      InvariantFilter and its FilterState
"""

from .filter import FilterState, InvariantFilter
from .noise import FilterNoise

__all__ = ["FilterNoise", "FilterState", "InvariantFilter"]
