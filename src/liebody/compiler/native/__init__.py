"""Compiled libraries: built, kept in a cache, called. The modules:

build      compilers, their options, and the calls of them
cache      the user's folder of libraries, and its files
libraries  the compiled forms of a source, made when they are first needed
kernel     a function or program as a call on arrays
entry      the built-in function of Python by which C is called
foreign    kernels that other libraries call from C
pool       memory of large results, used again
nvrtc      the compiler of CUDA
driver     the driver of CUDA devices
device_arrays  arrays of other libraries in the memory of a device
device_code  compiled CUDA text, loaded on devices
device     a function as a call on arrays of a device
casadi_external  kernels as external functions of CasADi
"""

from .build import cross_compiler, find_compiler, library_file

__all__ = ["cross_compiler", "find_compiler", "library_file"]
