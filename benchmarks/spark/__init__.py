"""Batch and micro-batch pipelines on Spark, against programs written by hand."""
