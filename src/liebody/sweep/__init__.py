"""Sweeps: a function or a system at many parameters, in chunks, into a labelled store that survives kills.

sweep     the call
space     grids and samples, cut into chunks
runs      a chunk as a call of a function, or as an ensemble of a system
workers   a pool of processes, a Dask cluster or this process, which run chunks
store     results on disk (Zarr), each chunk whole or not at all
inventory their digests, by which damage is found and undone
identity  digests that tell whether a function began a sweep
"""

from .inventory import repair, verify
from .space import Sample, sample
from .store import DamagedStore
from .sweep import FailedChunks, sweep

__all__ = ["DamagedStore", "FailedChunks", "Sample", "repair", "sample", "sweep", "verify"]
