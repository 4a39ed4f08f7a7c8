"""Compiled libraries: built, kept, found, called. The modules:

build      compilers, their options, and the user's cache folder of libraries
cache      files of the cache folder
libraries  a library that is compiled when it is first asked for
kernel     a function or program as a call on arrays
entry      the built-in function of Python by which C is called
pool       memory of large results, used again
casadi_external  kernels as external functions of CasADi
"""
