"""Runs: the results of simulations, with energies, efforts, events, and their files. The modules:

run          the result of any simulation: `Run`; how it is saved, loaded and tabulated
constrained  of a mechanism with constraints: `ConstrainedRun`
hybrid       of a hybrid system: `HybridRun`
netcdf       netCDF files, read without following what leads elsewhere
"""

from .constrained import ConstrainedRun
from .hybrid import HybridRun, HybridStates
from .run import EventLog, Run

__all__ = ["ConstrainedRun", "EventLog", "HybridRun", "HybridStates", "Run"]
