"""Bounded pipelines in this process and on several cores, against programs written by hand."""
