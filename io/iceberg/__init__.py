"""Apache Iceberg: `ReadFromIceberg` in `read`, `WriteToIceberg` in `write`.

`catalog` finds tables, and explains the client's errors.  `source` reads the files of a snapshot, `stream` the files
that later snapshots append.  `table` commits; `data_files` writes.  `filters` and `partitions` are the arguments in the
client's form.
"""
