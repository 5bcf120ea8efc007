"""The plan of a pipeline: which steps run together.

segments.py            the plan cut at its shuffles, for batch runs
"""
