"""Sweeps: a function or a system at many parameters, in chunks, into a labelled store that survives kills.

sweep     the call
space     grids and samples, cut into chunks
runs      what a chunk is: a call of a function, or an ensemble of a system
workers   who runs them: a pool of processes, a Dask cluster, this process
store     results on disk (Zarr), each chunk whole or not at all
inventory their digests, by which damage is found and undone
identity  whether a function is the one that began a sweep
"""

from .inventory import repair, verify
from .space import Sample, sample
from .store import DamagedStore
from .sweep import FailedChunks, sweep

__all__ = ["DamagedStore", "FailedChunks", "Sample", "repair", "sample", "sweep", "verify"]
