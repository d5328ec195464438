"""Where threads and tasks differ: `_sync` and `_async` have the same names.

Every other module that waits is written once, for tasks, in a folder `_async`; `make codegen`
derives the folder `_sync` beside it for threads.
"""
