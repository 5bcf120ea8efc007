"""Substitutes for Beam's runners, for the results of their jobs, and for `interactive_beam`.

named_runners.py     runners that a program names and penstock doesn't have
job_results.py       methods that results of Beam's services have
interactive_beam.py  elements of PCollections in a notebook: `ib.show`, `ib.collect` and others
"""
