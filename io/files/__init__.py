"""Files as inputs and outputs, on local disks and in object stores.

A module for each format has its transforms, its source and its format: `text`, `csv`, `json`, `avro`, `parquet`,
`growing_text` and `changelog`. `matching` is Beam's `fileio`: files as elements.

The formats share `source` (patterns, ranges, splits), `sinks/` (files staged by workers, published by one commit) and
`write` (the shards and windows of a sink).
Below these are `filesystem`, `compression` and `line_blocks`.
"""
