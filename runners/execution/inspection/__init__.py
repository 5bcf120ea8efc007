"""State from outside: reads, compares and migrates the state of a checkpoint without the pipeline.

stored_objects.py   unpickles plain data only; instances of users' classes become `StoredObject`s
json_values.py      values as JSON
entries.py          StateReader: the entries of a checkpoint, streamed: state cells, windows and timers
export.py           entries as lines of JSON, lines of text, or Parquet
comparison.py       what differs between two checkpoints
migration.py        a new checkpoint of converted values
committed_state.py  StepState: committed reads of a running or finished job
entry_join.py       join of the entries of two checkpoints, as digests
recordings.py       recordings of panes, by the key that they are of
keys.py             keys as the command line names them, and their entries
"""
