"""Apache Iceberg: `ReadFromIceberg` and `ReadFromIcebergChanges` in `read`, `WriteToIceberg` in `write`.

`catalog` finds tables, and explains the client's errors.  `source` reads the files of a snapshot, `stream` the files
that later snapshots append, `changes` also those that they remove.  `table` commits; `data_files` writes, `compaction`
joins small files.  `filters` and `partitions` are the arguments in the client's form.
"""
