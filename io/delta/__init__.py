"""Delta Lake: `ReadFromDelta` in `read`, `WriteToDelta` in `write`.

`source` reads the files of a version, `stream` the files that later versions add.  `table` commits; `package` has the
client, and explains its errors.
"""
