"""The plan of a pipeline: its fused stages, and its cuts at shuffles.

`fusion` turns the graph into steps.  `execution_graph` cuts the plan into the tasks of a stream, and `segments` into
those of a batch.
"""
