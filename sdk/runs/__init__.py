"""Runs of a part of a pipeline, or of one transform.

run_on_values.py  `[1, 2, 3] | transform`
preview.py        the elements of a PCollection in the program
run_transform.py  runners that run a transform without a pipeline
"""
