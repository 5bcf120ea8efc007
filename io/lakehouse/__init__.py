"""Tables of a lakehouse: what `io.delta` and `io.iceberg` share.

`sink` has the two phases of a write, `staging` the data of a worker until its commit, `commits` the names by which a
table knows its commits.  `rows` converts elements to the columns of a table.  `changes` are signed rows, and `net_rows`
what they come to by key.  `table` is the interface of a table format, `source` what reads the files of both.
"""
