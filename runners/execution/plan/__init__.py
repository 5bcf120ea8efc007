"""The plan of a pipeline: which transforms run together, and where shuffles cut them apart.

`fusion` makes stages of the graph.  `execution_graph` cuts the plan into tasks of a stream, and `segments` into those
of a batch.
"""
