"""Hand-over of its work to a new worker process, which was forked from the template or has an interpreter of its own.

Through the worker's pipe go the settings of this process, the pickled work, and the sockets.  The user's program isn't
run again in the worker: functions of its main module are pickled by value, and others are imported.
"""

from __future__ import annotations

import gc
import io
import logging
import os
import pickle
import socket
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

import attrs
import cloudpickle

from ....sdk.errors import SerializationError
from ....sdk.sources.bounded import ValuesSource
from ....sdk.user_code.error_text import text_or_class
from ....sdk.user_code.pickler import Pickler
from ....sdk.user_code.serialization import dumps
from ...execution.batch.file_tasks import PartitionedProgram
from ...execution.error_transport import remote
from ...execution.plan.execution_graph import ExecutionGraph
from .heartbeats import Heartbeats
from .inheritance import ProcessSettings, ProgramSettings, reduced_handler
from .pipe import receive_sockets, send, send_sockets

_LOADED = "workers import the program's modules anew, and unpickle its objects"


class Work(NamedTuple):
    """The work of a process.

    Attributes:
      run: a module's function, called with the worker's end of the pipe to the job, the sockets, and the arguments.
      sockets: the sockets that the process gets.
    """

    run: Callable[..., None]
    arguments: tuple[Any, ...]
    sockets: Sequence[socket.socket] = ()


class _Pickler(Pickler):
    """Pickles sources with their values, since each worker makes the splits, which have the values otherwise.

    Handlers of `logging` are pickled, too.
    """

    def reducer_override(self, obj: Any) -> Any:
        if type(obj) is ValuesSource:
            return ValuesSource, (obj.values,)
        if isinstance(obj, logging.Handler):
            return reduced_handler(obj)
        return super().reducer_override(obj)


def _pickled(value: Any) -> bytes:
    file = io.BytesIO()
    _Pickler(file, protocol=5).dump(value)
    return file.getvalue()


def pickled_work(work: Work) -> bytes:
    """Return the pickle of what a worker is to do.

    Raises `SerializationError`, naming the transform, if an object of the user's can't be pickled.
    """
    try:
        return _pickled((work.run, work.arguments, ProgramSettings.of_this_process(_pickled)))
    except Exception:  # whatever pickling a user's object raises
        for argument in work.arguments:
            if isinstance(argument, (ExecutionGraph, PartitionedProgram)):
                plan = argument.plan if isinstance(argument, ExecutionGraph) else argument.program.plan
                for transform in plan.graph.transforms:
                    for part in attrs.astuple(transform.primitive, recurse=False):
                        dumps(part, transform.label)
        dumps(work.arguments)
        raise


def hand_over(control: Connection, number: int, workers: int, pickled: bytes, sockets: Sequence[socket.socket]) -> None:
    """Send a new worker what it begins with.  If it is gone, that is seen when it is listened to.

    Args:
      control: this end of the pipe to it.
      number: the worker's.
      workers: how many there are.
    """
    with suppress(OSError):
        control.send_bytes(pickle.dumps((ProcessSettings.of_this_process(), number, workers, len(sockets))))
        control.send_bytes(pickled)
        send_sockets(control, sockets)


def take_over(control: int, beats: int) -> None:
    """Do the work of a new worker, in its process.

    Args:
      control, beats: the descriptors of the pipe to the job, and of the heartbeats.
    """
    # It is off in the interpreters that `start_interpreter` starts, and in what they fork.
    gc.enable()
    connection = Connection(control)
    try:
        settings, number, workers, count = pickle.loads(connection.recv_bytes())
        settings.apply()
        pickled = connection.recv_bytes()
        sockets = receive_sockets(connection, count)
    except (EOFError, OSError):
        # The job is gone.
        os._exit(0)
    try:
        run, arguments, program = cloudpickle.loads(pickled)
        program.apply()
    except Exception as error:  # modules of the program are imported
        traceback.print_exc()
        why = f"a worker can't load the pipeline: {type(error).__name__}: {text_or_class(error)}; {_LOADED}"
        with suppress(OSError):
            send(connection, remote(SerializationError(why)))
        os._exit(1)
    Heartbeats(workers, os.fdopen(beats, "r+b")).beat_on(number)
    run(connection, sockets, *arguments)
