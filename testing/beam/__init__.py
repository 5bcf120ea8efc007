"""What tests of programs for Beam import besides pipelines and assertions.

matching.py        values and matchers of PyHamcrest as conditions
metric_results.py  matchers of the metrics of a run
run_results.py     matchers of a run's state, and of the files that it has written
display_items.py   a matcher of display data
extra_assertions.py assertions of `unittest` for values that can't be hashed
"""
