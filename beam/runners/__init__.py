"""Beam's runners, in whose place penstock's run, and what comes with them.

named_runners.py     runners that a program names and penstock doesn't have
job_results.py       methods that results of Beam's services have
interactive_beam.py  elements of PCollections in a notebook: `ib.show`, `ib.collect` and others
"""
