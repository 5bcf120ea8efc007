"""Kernels: generated code, which is built, compiled and run in this package only.

A kernel is a function.  It is asked for by a frozen description, which holds functions, classes and names of fields;
never text.

descriptions.py   what kernels are asked for by: operations, folds, and shapes of bundles
folds.py          the folds of combiners: of built-in ones known by their class, of all others by their methods
stages.py         the kernel of a fused stage
windows.py        its assignment of windows, and its fold
stateful.py       the kernels of a stateful ParDo
source.py         source under construction, and its compilation
runtime.py        functions that kernels call
"""
