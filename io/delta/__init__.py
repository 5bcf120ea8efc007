"""Delta Lake: `ReadFromDelta` and `ReadFromDeltaChanges` in `read`, `WriteToDelta` in `write`.

`source` reads the files of a version, `stream` the files that later versions add, `changes` also those that they
remove.  `table` commits; `package` has the client, and explains its errors.
"""
