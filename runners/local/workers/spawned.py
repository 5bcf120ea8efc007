"""Worker processes with interpreters of their own: where forking isn't possible, or safe.

The work is sent to them pickled; sockets and heartbeats are inherited as open files.  The user's program is not run
again in them: functions of its main module are pickled by value, and others are imported.
"""

from __future__ import annotations

import io
import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any

import cloudpickle

from ....sdk.coders import registry
from ....sdk.compat import install_import_hook, is_hook_installed
from ....sdk.errors import OptionsError
from ....sdk.sources.bounded import ValuesSource
from ....sdk.user_code.error_text import text_or_class
from ....sdk.user_code.pickler import Pickler
from .heartbeats import Heartbeats, end_with_parent

_PROGRAM = """
import json, sys
sys.path[:] = json.loads(sys.argv[1])
from penstock.runners.local.workers.spawned import main
main(*map(int, sys.argv[2:]))
"""


def spawned(
    number: int,
    run: Callable[..., None],
    arguments: tuple[Any, ...],
    sockets: Sequence[socket.socket],
    ours: Connection,
    theirs: Connection,
    beats: Heartbeats,
) -> Any:
    """Start an interpreter that calls a function with the worker's end of a pipe, sockets, and arguments.

    Args:
      ours, theirs: the ends of the pipe; the worker's is closed here.

    Raises `OptionsError` if the arguments can't be pickled.
    """
    descriptors = [each.fileno() for each in sockets]
    try:
        pickled = _pickled((run, arguments, descriptors, number, beats.workers, registry.registered()))
    except Exception as error:  # whatever pickling a user's object raises
        raise OptionsError(
            f"option --worker_start=spawn: the pipeline can't be pickled: {text_or_class(error)}; use "
            "--worker_start=fork, or keep what can't be pickled out of functions, such as by making it in DoFn.setup"
        ) from error
    shared, with_hook = beats.file.fileno(), is_hook_installed()
    path = json.dumps(list(_import_path()))
    process = subprocess.Popen(
        [sys.executable, "-c", _PROGRAM, path, *map(str, (os.getpid(), theirs.fileno(), shared, int(with_hook)))],
        stdin=subprocess.DEVNULL,
        pass_fds=[theirs.fileno(), shared, *descriptors],
    )
    # So that its death, before it has read everything, is seen here.
    theirs.close()
    try:
        ours.send_bytes(pickled)
    except OSError:
        pass
    return _Process(process)


def _import_path() -> Iterator[str]:
    """Yield the absolute entries of `sys.path`; in a working directory that was deleted there is nothing to import."""
    for entry in sys.path:
        with suppress(FileNotFoundError):
            yield os.path.abspath(entry)


class _WithValues(Pickler):
    """Pickles sources with their values, since each worker makes the splits, which have the values otherwise."""

    def reducer_override(self, obj: Any) -> Any:
        if type(obj) is ValuesSource:
            return ValuesSource, (obj.values,)
        return super().reducer_override(obj)


def _pickled(value: Any) -> bytes:
    file = io.BytesIO()
    _WithValues(file, protocol=5).dump(value)
    return file.getvalue()


class _Process:
    """Spawned process with the interface of a `multiprocessing.Process`."""

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
        """Do nothing: no resources are left."""


def main(job: int, control: int, beats: int, with_hook: int) -> None:
    """Run a worker in this interpreter.

    Args:
      job: the id of the process that has started it.
      control, beats: descriptors of the pipe to the job, and of the heartbeats.
      with_hook: 1 if `import apache_beam` imports penstock, as in the process that has started it.
    """
    if with_hook:
        install_import_hook()
    end_with_parent(job)
    connection = Connection(control)
    run, arguments, descriptors, number, workers, coders = cloudpickle.loads(connection.recv_bytes())
    registry.register_all(coders)
    Heartbeats(workers, os.fdopen(beats, "r+b")).beat_on(number)
    run(connection, [socket.socket(fileno=descriptor) for descriptor in descriptors], *arguments)
