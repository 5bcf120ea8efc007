"""The local runner.

runner.py                LocalStreamingRunner: what `--runner=local` starts

A bounded pipeline, or a script, in the process that starts it:

in_process.py            which engine a run in this process has
bounded_run.py           a bounded run: segment by segment, sinks committed
scripted_run.py          a run of a script, or of loops

A bounded pipeline in several processes:

parallel_run.py          segments handed to workers, what they make collected, sinks committed
batch_workers.py         the workers, and one worker's life

A stream, side by side or with checkpoints:

streaming.py             a job from the flags
job.py                   what is decided where the pipeline was started: from where to start, and again
attempt.py               from one start of the workers to their end
settling.py              whether everything before a barrier is done
checkpointed_attempt.py  checkpoints, and what is published with them
coordinator.py           when a checkpoint begins, and who has acknowledged it
tally.py                 what was counted
regional_attempt.py      some go back to the last checkpoint, and the others go on
region_recovery.py       who goes back, and who is yet to be heard of
region.py                who has to go back
repeatable_tasks.py      which tasks say the same again
handing_over.py          pipes between processes that run
vitals.py                how a job is getting on
metrics_port.py          the same for Prometheus
job_progress.py          the same on a terminal
restarts.py              how often a job starts again
signals.py               SIGTERM and Ctrl-C
requests.py              what other processes ask of a job: savepoints, to drain, to end
workers.py               who runs the subtasks; in this process
forked_workers.py        the same in processes of their own
watch.py                 ending slices of time, and naming a call that does not return
heartbeats.py            telling a process that hangs from one that works for long
spawned_workers.py       the same with interpreters of their own
slot_process.py          the loop of such a process
orphans.py               and that it ends with the one that started it
start.py                 what subtasks start from
slot.py                  subtasks that take turns
snapshot_parts.py        what they write of a checkpoint, and read again
written_behind.py        small snapshots, which a thread makes durable
forked_snapshots.py      large snapshots, written by children
commands.py              what is said between job and slots
conversation.py          and that each thing is heard once

A subtask, whose work is done by `runners/execution/streaming/task_execution.py`:

subtask.py               messages in, messages out, one at a time
subtask_channels.py      where its messages come from, and go to
subtask_sources.py       what it reads
subtask_watermarks.py    how far it is
subtask_reports.py       what it has to say
subtask_snapshots.py     its state, its sources' positions, and what its sinks have staged
barriers.py              what comes of a barrier
alignment.py             ABS, algorithm 1
overtaking.py            unaligned barriers
loop_log.py              ABS, algorithm 2
numbering.py             what is sent has numbers
repetitions.py           what comes again is dropped by them
injector.py              a source's partitions, offsets and watermarks
script_injector.py       a script, played event by event

Without barriers, MillWheel's guarantees:

productions/             each subtask's steps in a log of its own, before anybody hears of them

A simulation:

simulation.py            a whole run under a seed, and what has to come of it
simulated_world.py       time, chance and misfortune
simulated_workers.py     slots in one thread, whose every next step is drawn
simulated_pipes.py       channels, and deliveries that come twice
simulated_sink.py        a table that holds everybody to the rules of two-phase commit
simulated_graph.py       the pipeline with such sinks, and once in batch
merging_often.py         combiners that merge where they needn't

Channels:

messages.py              what travels
channel.py               first in, first out
pipe_channel.py          the same from process to process
exchange.py              who gets which elements
spilling_queue.py        what a back-edge does instead of waiting
"""

from .runner import LocalStreamingRunner

__all__ = ["LocalStreamingRunner"]
