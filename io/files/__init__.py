"""Files as inputs and outputs, on local disks and in object stores.

A module for each format has its transforms, its source and its format: `text`, `csv`, `json`, `avro`, `parquet`,
`growing_text` and `changelog`. `matching` and `dynamic_write` are Beam's `fileio`: files as elements, and elements into
files by destination.

The formats share `source` (patterns, ranges, splits), `sink` (files staged by workers, published by one commit) and
`write` (the shards and windows of a sink).
Below these are `filesystem`, `compression`, `line_blocks`, `sharding` (names of files) and `commit_plan`.
"""
