"""Elements of a PCollection, and bundles of them.

bundle.py            many elements, as columns
row.py               Row: a record with named fields
element_wrappers.py  WindowedValue, TaggedOutput, Retracted: wrappers of outputs
defensive_copy.py    copies of elements that user code may modify after they were emitted
hash_partitions.py   records on disk, which are read one partition of their hash after the other
windowed_batch.py    batches of values with one timestamp, windows and pane
"""
