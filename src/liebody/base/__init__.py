"""Modules that every room uses:

arguments    checks of the arguments of users' calls
extensions   what other packages add: readers of descriptions, printers of languages
errors       the errors and warnings of liebody, and how optional packages are asked for
texts        names, paths and texts that come from elsewhere
digests      digests of files and of texts, by which damage is found
deprecation  old names of public things, which warn for one minor version
concurrency  what threads and forked processes share: locks, cached properties, spare buffers
interrupts   signals and their handlers while C code runs
progress     progress bars
public       public functions of liebody by their names, for methods that lead to a room above; the version
"""
