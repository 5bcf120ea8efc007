"""What every runner shares, in the order in which a bundle meets it.

A plan, and a fused stage:

coded_keys.py          keys that a coder tells apart, put so into the graph
fusion.py              the graph as stages, groupings and sinks
dataflow.py            steps wired together
stage.py               a fused stage at work
time_slice.py          how long a step may take before its loops are left
stuck_calls.py         calls that don't return: found on a thread's stack, and named
left_work.py           what a step has left, and goes on with
stage_chain.py         its function, compiled for each shape of bundle, and run
stage_names.py         what it finds in its globals
stage_operations.py    its ParDos and AssignWindows, and the fold behind them
stage_source.py        the function that is generated for it
source_lines.py        its lines, while they are written
window_source.py       those that assign windows
fold_source.py         those that fold, where a grouping follows
plain_results.py       which results need no second look
side_input_contents.py what has come of a side input, by window
side_input_views.py    the views of it that a stage sees
output_memory.py       what a DoFn that isn't deterministic has emitted
output.py              a sink's writer at work
sink_committer.py      two-phase commit of all sinks
commit_errors.py       the events that decide a commit, and errors that name the way out
checkpoint_commits.py  those by manifests: names of open transactions, notes of failed commits
rollback.py            the way back to the checkpoint before one that can't be published
user_code.py           errors of user code
remote_error.py        the same, on their way from a worker

A grouping:

windows/               the window operator, bounded and triggered
parking.py             what of a task has no room in memory, on disk meanwhile
parked_state.py        keyed state that does
parked_entries.py      RocksDB: entries by id, and in the order of their times
memory_size.py         how much memory things take

A ParDo with state:

stateful.py            one at work
keyed_calls.py         how its methods are called
keyed_state.py         values by key, window and tag
keyed_timers.py        the timers that it is given
timers.py              timers by key and window, in both domains
fresh_and_gone.py      what has come and gone since the last snapshot

Checkpoints, as they are stored:

snapshot_store.py      written in parts by many, committed by one
restored.py            what a start logs of the checkpoint that it goes on from
snapshot_reader.py     found by anybody, and restored whole or not at all
stored_checkpoints.py  what a directory holds, and which of it is whole
generations.py         who may commit
retention.py           what is kept, and what is removed
manifest.py            a checkpoint's files, their lengths and checksums
snapshot_files.py      one file: records, each with a checksum
snapshot_chunks.py     chunks of a snapshot, and their bytes
records.py             records by tag and version
disk.py                durable storage: local, or an object store
simulated_disk.py      one that fails, tears and forgets under a seed

Productions, each durable before it is delivered:

production_log.py      one writer's log, and its sequencer
seen_ids.py            what has come before
bloom_filter.py        what surely has not

Tasks: what one worker does between two shuffles, while time goes by:

execution_graph.py     tasks and edges: the plan cut at its shuffles
task_execution.py      the steps of a task at work
task_snapshot.py       what it puts into a snapshot, and takes out of one
state_shapes.py        what kind of state a step keeps, and what it can go on with
key_types.py           the types of keys, compared with those of a checkpoint
in_flight.py           what was on its way to it then
grouping.py            a grouping, fed and advanced
keyed.py               a ParDo with state, fed and advanced
loops.py               the heads of loops, and the watermark behind them
percentiles.py         percentile watermarks, the least of the inputs'
partitioning.py        which worker has a key
pre_aggregation.py     folded where it is sent, if that makes less of it
bounded_reader.py      a bounded source as partitions with offsets
source_contract.py     what an unbounded one is held to
source_identities.py   what sources were when a checkpoint was taken, and are now
streaming_flags.py     and the flags of a stream
clock.py               processing time
background_run.py      a run in a thread beside the one that started it

What leaves the process, and what is counted:

column_codec.py        columns as bytes
shuffle_blocks.py      cells on their way through a shuffle
portions.py            bundles cut, where a stage folds for a shuffle
element_shuffle.py     elements on their way through one
output_rows.py         elements gathered one by one
garbage.py             when the garbage collector may run
counters.py            elements, by step
progress.py            the same, on a terminal
forking.py             threads beside a job that forks
"""
