"""Beam's names, for programs that are written for Beam.

metric_cells.py    cells of metrics, which threads report to
matching.py        values and matchers of PyHamcrest as conditions
metric_results.py  matchers of the metrics of a run
display_items.py   a matcher of display data
extra_assertions.py  assertions of `unittest` for values that can't be hashed
processes.py       programs that are run, with errors that show what they have printed
annotations.py     Beam's decorators for what is deprecated or experimental
coder_impl.py      Beam's implementations of coders
coder_streams.py   Beam's streams of bytes, which users' coders read and write
display.py         display data
observable.py      iterables with observers
pickler.py         Beam's functions that pickle objects
resources.py       resource hints
strategies.py      strategies of hypothesis for types of rows' fields
urns.py            the names of Beam's logical types, as attributes with an `urn`
windowing.py       Beam's class `Windowing`
"""
