"""Beam's own form of type hints, which penstock converts to those of `typing` when it builds a pipeline.

In reading order: the constraints (`constraints`), their conversion from and to the hints of `typing`
(`native_types`), the names that users write, such as `KV[str, int]` (`subscripts`), and the hints of a transform's
inputs and outputs (`io_type_hints`).  Nothing is imported before a program uses one of these names.
"""
