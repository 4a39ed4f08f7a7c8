"""Runs: the results of simulations, with energies, efforts, events, and their files. The modules:

run          the result of any simulation: `Run`
constrained  of a mechanism with constraints: `ConstrainedRun`
hybrid       of a hybrid system: `HybridRun`
events       the log of a member's events: `EventLog`
device       runs whose states stay on a CUDA device: `DeviceRun`, `DeviceEvents`
kinds        the classes of runs, among which a file finds its own; importing this package registers all
variables    a run as variables with named dimensions, of which files and tables are made
files        netCDF files: written as a whole, checked, loaded
netcdf       netCDF files, read without following what leads elsewhere
table        Datasets, DataFrames, text with commas, summaries
"""

from .constrained import ConstrainedRun
from .device import DeviceEvents, DeviceRun
from .events import EventLog
from .hybrid import HybridRun, HybridStates
from .run import Run

__all__ = ["ConstrainedRun", "DeviceEvents", "DeviceRun", "EventLog", "HybridRun", "HybridStates", "Run"]
