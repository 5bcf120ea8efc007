"""The data source `penstock` of Spark: a pipeline's sources and sinks in programs of DataFrames.

`registration` registers the class of `data_source`; `programs` makes the program of a transform's tasks, `reading` and
`writing` have the readers and the writers, `offsets` the positions of a stream in Spark's checkpoint, and `decisions`
the batches of a stream whose output is decided.
"""
