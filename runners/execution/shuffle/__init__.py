"""Shuffles: the partition of each key, elements and accumulators as blocks, and folding before a shuffle."""
