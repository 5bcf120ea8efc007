"""Files that are published together: staged by workers, renamed by one commit.

sink.py            StagedFileSink: the two phases, and the names of files
staging_writer.py  the first phase: a worker's elements in files of the staging directory
staged_file.py     StagedFile: a file between the phases
commit_plan.py     the second phase: the final names of files, written down before they are renamed
sharding.py        names of shards
final_names.py     names that only one sink of a pipeline writes
windowed_sink.py   the files of an unbounded input, one for each window, pane and shard
dynamic_write.py   WriteToFiles: elements into files by destination (Beam's `fileio`)
published_files.py names of published files, as a PCollection
"""
