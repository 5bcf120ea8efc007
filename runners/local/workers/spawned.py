"""Slots in processes that are started anew, each with an interpreter of its own: where forking isn't possible, or safe.

The pipeline is sent to them pickled; pipes and heartbeats are inherited as open files.  The user's program is not run
again in them: functions of its main module travel with the pipeline, others are imported there.
"""

from __future__ import annotations

import io
import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping
from multiprocessing.connection import Connection
from typing import Any

import cloudpickle

from ....sdk.coders import registry
from ....sdk.errors import OptionsError
from ....sdk.sources.bounded import ValuesSource
from ...execution.plan.execution_graph import ExecutionGraph, SubtaskId
from ..channels.channel import ChannelId
from .forked import ForkedWorkers, Launch
from .heartbeats import Heartbeats
from .process_loop import SlotProcess
from .processes import end_with_parent
from .slot import Start

_PROGRAM = """
import json, sys
sys.path[:] = json.loads(sys.argv[1])
from penstock.runners.local.workers.spawned import main
main(*map(int, sys.argv[2:]))
"""


class SpawnedWorkers(ForkedWorkers):
    """The same as forked ones, but for how they begin.

    Raises `OptionsError` from `start` if the pipeline can't be pickled.
    """

    def _launch(self, launch: Launch) -> Any:
        ends = {id: tuple(end.fileno() for end in pair) for id, pair in launch.pipes.items()}
        own = {
            id: (
                entry if id.source % self.slots == launch.number else -1,
                exit if id.target % self.slots == launch.number else -1,
            )
            for id, (entry, exit) in ends.items()
        }
        arguments = (
            launch.execution_graph,
            launch.ids,
            launch.start,
            own,
            self._clock,
            launch.number,
            self.slots,
            launch.timeout,
        )
        ends_of_own = [end for pair in own.values() for end in pair if end >= 0]
        return spawned(_run_slot, arguments, launch.number, launch.ours, launch.theirs, launch.beats, ends_of_own)


def spawned(
    run: Callable[..., None],
    arguments: tuple[Any, ...],
    number: int,
    ours: Connection,
    theirs: Connection,
    beats: Heartbeats,
    files: Iterable[int] = (),
) -> Any:
    """Start an interpreter that calls a function of ours with the worker's end of a pipe and these arguments.

    Args:
      ours, theirs: the ends of the pipe; the worker's is closed here.
      files: descriptors that it inherits besides.

    Raises `OptionsError` if the arguments can't be pickled.
    """
    try:
        pickled = _pickled((run, arguments, number, beats.workers, registry.registered()))
    except Exception as error:  # whatever pickling a user's object raises
        raise OptionsError(
            f"option --worker_start=spawn: the pipeline can't be pickled: {error}; use --worker_start=fork, or "
            "keep what can't be pickled out of functions, such as by making it in DoFn.setup"
        ) from error
    shared = beats.file.fileno()
    path = json.dumps([os.path.abspath(entry) for entry in sys.path])
    process = subprocess.Popen(
        [sys.executable, "-c", _PROGRAM, path, str(os.getpid()), str(theirs.fileno()), str(shared)],
        stdin=subprocess.DEVNULL,
        pass_fds=[theirs.fileno(), shared, *files],
    )
    # If it dies before it has read everything, that shows here.
    theirs.close()
    try:
        ours.send_bytes(pickled)
    except OSError:
        pass
    return _Process(process)


class _WithValues(cloudpickle.Pickler):  # type: ignore[misc]
    """Pickles values with their source.  Elsewhere they travel with its splits, which are made in each worker here."""

    def reducer_override(self, obj: Any) -> Any:
        if type(obj) is ValuesSource:
            return ValuesSource, (obj.values,)
        return super().reducer_override(obj)


def _pickled(value: Any) -> bytes:
    file = io.BytesIO()
    _WithValues(file, protocol=5).dump(value)
    return file.getvalue()


class _Process:
    """What a forked process offers, of one that was started anew."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self.pid = process.pid

    def join(self, seconds: float | None = None) -> None:
        """Wait for its end, at most so long."""
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            pass

    @property
    def exitcode(self) -> int | None:
        """Its exit code; negative if a signal has ended it."""
        return self._process.poll()

    def close(self) -> None:
        """Nothing is kept."""


def main(job: int, control: int, beats: int) -> None:
    """The life of a worker.

    Args:
      job: the process id of whoever has started it.
      control, beats: descriptors of the pipe to the job, and of the heartbeats.
    """
    end_with_parent(job)
    connection = Connection(control)
    run, arguments, number, workers, coders = cloudpickle.loads(connection.recv_bytes())
    registry.register_all(coders)
    Heartbeats(workers, os.fdopen(beats, "r+b")).beat_on(number)
    run(connection, *arguments)


def _run_slot(
    connection: Connection,
    execution_graph: ExecutionGraph,
    ids: list[SubtaskId],
    start: Start,
    ends: Mapping[ChannelId, tuple[int, int]],
    *others: Any,
) -> None:
    """Run a slot; its pipes come as descriptors."""
    pipes = {ChannelId(*id): (_end_of(entry), _end_of(exit)) for id, (entry, exit) in ends.items()}
    SlotProcess(execution_graph, ids, start, pipes, connection, *others).run()


def _end_of(descriptor: int) -> socket.socket:
    """An end of a pipe; of one that belongs to others, a socket that is of no use."""
    return socket.socket(fileno=descriptor) if descriptor >= 0 else socket.socket()
