"""Requests to a running job: to take a savepoint, to stop, to drain or to cancel.

Other processes request by files among the checkpoints, and files answer them.  A request needs write access to the
directory; nothing listens on the network.  A run of a job writes its id into a file, `run`.  A request is addressed to
a run by that id, so a request that is written while a job starts waits for it, and a request to a run that has ended
is never executed by the next one.  A run takes a request by removing it, and answers every request that it takes.

>>> import tempfile
>>> directory = tempfile.mkdtemp()
>>> disk = LocalDisk()
>>> inbox = RequestInbox(disk, directory)
>>> inbox.open("a1")
>>> disk.write_atomically(f"{directory}/request-1", msgspec.json.encode(Addressed(RequestKind.SAVEPOINT, "a1")))
>>> inbox.poll(now=0)
[Request(id='1', kind=<RequestKind.SAVEPOINT: 'savepoint'>)]
>>> inbox.answer("1", Answer(True, "done", 7))
>>> read_answer(disk, directory, "1")
Answer(is_done=True, text='done', epoch=7, is_misdirected=False)
"""

from __future__ import annotations

import os
import socket
import time
from collections import deque
from collections.abc import Callable
from enum import Enum
from functools import partial
from typing import Any, NoReturn, TypeAlias

import msgspec

from ....frozen import frozen
from ....sdk.errors import PenstockError
from ....sdk.redaction import logger_of
from ....sdk.runner import PipelineState
from ....sdk.user_code.error_text import text_or_class
from .storage import Disk, LocalDisk
from .store import fresh_token

_logger = logger_of(__name__)

_RUN, _REQUEST, _ANSWER = "run", "request-", "answer-"

# How often a job looks for requests on a local disk and in a bucket, where each look costs money; in microseconds.
_OFTEN, _SELDOM = 200_000, 5_000_000

# Microseconds after its start at which a run removes answers that no command has fetched.
_OLD = 600_000_000


class RequestKind(Enum):
    """What a job can be requested to do."""

    SAVEPOINT = "savepoint"
    STOP = "stop"
    DRAIN = "drain"
    CANCEL = "cancel"


@frozen
class Request:
    """A request, and the id of its answer."""

    id: str
    kind: RequestKind


class Run(msgspec.Struct, frozen=True):
    """A run of a job, as its file describes it.

    Attributes:
      id: unique to it.
      host, pid: its process.
      ended: its final state; None while it runs.
    """

    id: str
    host: str
    pid: int
    ended: str | None = None

    @property
    def is_here(self) -> bool:
        """Whether its process is known to run: it is on this host, and has not exited."""
        if self.ended is not None or self.host != socket.gethostname():
            return False
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return False
        except PermissionError:
            pass
        return True


class Addressed(msgspec.Struct, frozen=True):
    """A request as it is written: its kind, and the id of the run that it is addressed to."""

    kind: RequestKind = msgspec.field(name="wish")
    run: str


class Answer(msgspec.Struct, frozen=True):
    """The result of a request.

    Attributes:
      is_done: the request was executed.
      text: what happened, for the user.
      epoch: the epoch of the checkpoint from which the next run resumes; None if there is none.
      is_misdirected: the request was addressed to another run, and was not executed.
    """

    is_done: bool
    text: str
    epoch: int | None = None
    is_misdirected: bool = False


# Receives the answer to a request.
Listener: TypeAlias = Callable[[Answer], None]


class RequestInbox:
    """Requests of other processes, on the job's side.

    Args:
      directory: that of the checkpoints.
      allow_untrusted: execute requests that other users could have written.
    """

    def __init__(self, disk: Disk, directory: str, allow_untrusted: bool = False) -> None:
        self._disk = disk
        self._directory = directory
        self._allow_untrusted = allow_untrusted
        self._interval = _OFTEN if isinstance(disk, LocalDisk) else _SELDOM
        self._next = 0
        self._run: Run | None = None
        self._began: int | None = None
        # Answers that were there when the run began.
        self._old: list[str] = []

    def open(self, run: str) -> None:
        """Take the requests that are addressed to this run from now on."""
        self._run = Run(run, socket.gethostname(), os.getpid())
        try:
            names = self._disk.list(self._directory)
            self._old = [f"{self._directory}/{name}" for name in names if name.startswith(_ANSWER)]
            self._write_run(self._run)
        except OSError as error:
            _logger.warning("%s: this run can't receive requests: %s", self._directory, error)

    def close(self, state: str) -> None:
        """Record that the run has ended, unless another one has begun."""
        if self._run is None:
            return
        run, self._run = self._run, None
        try:
            current = _read_run(self._disk, self._directory)
            if current is not None and current.id == run.id:
                self._write_run(Run(run.id, run.host, run.pid, state))
        except OSError as error:
            _logger.warning("%s: the end of this run can't be recorded: %s", self._directory, error)

    def _write_run(self, run: Run) -> None:
        self._disk.write_atomically(f"{self._directory}/{_RUN}", msgspec.json.encode(run))

    def poll(self, now: int, at_once: bool = False) -> list[Request]:
        """Take the requests that were written, and return them.  A request that can't be read is logged, and removed.

        Args:
          at_once: look for them even if the last look was a moment ago.
        """
        if self._run is None or (now < self._next and not at_once):
            return []
        if self._began is None:
            self._began = now
        self._next = now + self._interval
        try:
            names = [name for name in self._disk.list(self._directory) if name.startswith(_REQUEST)]
            found = [self._take(name, self._run.id) for name in names if not name.endswith(".unfinished")]
            if self._old and now - self._began >= _OLD:
                old, self._old = self._old, []
                self._disk.remove(*old)
        except OSError as error:
            _logger.warning("%s: requests can't be read: %s", self._directory, error)
            return []
        return [request for request in found if request is not None]

    def _take(self, name: str, run: str) -> Request | None:
        path, id = f"{self._directory}/{name}", name.removeprefix(_REQUEST)
        try:
            why = None if self._allow_untrusted else self._disk.why_untrusted(path)
            content = self._disk.read(path)
        except FileNotFoundError:
            # The client has withdrawn it.
            return None
        if why is not None:
            self._disk.remove(path)
            _logger.warning("%s: not executed, because %s", path, why)
            return None
        try:
            addressed = msgspec.json.decode(content, type=Addressed)
        except msgspec.DecodeError as error:
            self._disk.remove(path)
            _logger.warning("%s: not a request: %s", path, error)
            return None
        if addressed.run == run:
            self._disk.remove(path)
            return Request(id, addressed.kind)
        current = _read_run(self._disk, self._directory)
        if current is not None and current.id == run:
            # The run that it is addressed to has ended.  If this run has ended too, the newest run answers.
            self._disk.remove(path)
            self.answer(id, Answer(False, "it was addressed to a run that has ended", is_misdirected=True))
        return None

    def answer(self, id: str, answer: Answer) -> None:
        """Answer a request."""
        try:
            self._disk.write_atomically(f"{self._directory}/{_ANSWER}{id}", msgspec.json.encode(answer))
        except OSError as error:
            _logger.warning("%s: the request %s can't be answered: %s", self._directory, id, error)


class PendingRequests:
    """The requests to a job that have not been answered, from its own process and from others.

    Methods may be called by any thread until the job ends.

    Args:
      inbox: the requests of other processes; None if there can be none.
      clock: returns microseconds.

    Attributes:
      kinds: the kinds of requests that end the job.
      savepoints: the listeners of savepoints to take; kept until one was taken, whatever fails before.
      restarts: the listeners of restarts from the last checkpoint.
    """

    def __init__(self, inbox: RequestInbox | None, clock: Callable[[], int]) -> None:
        self.kinds: set[RequestKind] = set()
        self.savepoints: deque[Listener] = deque()
        self.restarts: deque[Listener] = deque()
        self._inbox = inbox
        self._clock = clock
        self._listeners: list[tuple[RequestKind, Listener]] = []

    def open(self, token: Callable[[], str]) -> None:
        """Receive requests of other processes from now on: the run owns the directory."""
        if self._inbox is not None:
            self._inbox.open(token())

    def poll(self, at_once: bool = False) -> None:
        """Receive the requests of other processes.

        Args:
          at_once: look for them even if the last poll was a moment ago.
        """
        if self._inbox is None:
            return
        for request in self._inbox.poll(self._clock(), at_once):
            listener = partial(self._inbox.answer, request.id)
            if request.kind is RequestKind.SAVEPOINT:
                self.savepoints.append(listener)
            else:
                self._listeners.append((request.kind, listener))
                self.kinds.add(request.kind)

    def close(self, state: str, epoch: int | None, ends_with_savepoint: bool) -> None:
        """Answer all requests when the job has ended.

        Args:
          state: the final state of the run.
          epoch: the epoch of the last checkpoint, or None.
          ends_with_savepoint: the next run loses nothing of this one.
        """
        self.poll(at_once=True)
        for kind, listener in self._listeners:
            is_done = state in (PipelineState.DONE, PipelineState.DRAINED)
            if state == PipelineState.CANCELLED:
                is_done = kind is RequestKind.CANCEL or (kind is RequestKind.STOP and ends_with_savepoint)
            listener(Answer(is_done, f"the job has ended: {state}", epoch))
        for listener in self.restarts:
            listener(Answer(False, f"the job has ended without a restart: {state}", epoch))
        for listener in self.savepoints:
            listener(Answer(False, f"the job has ended without a savepoint: {state}", epoch))
        if self._inbox is not None:
            self._inbox.close(state)


def running_job(disk: Disk, directory: str) -> str | None:
    """Return the process of the job that runs in a directory, or may run there on another host; None if none does."""
    run = _read_run(disk, directory)
    if run is None or run.ended is not None or (run.host == socket.gethostname() and not run.is_here):
        return None
    return f"process {run.pid} on {run.host}"


def _read_run(disk: Disk, directory: str) -> Run | None:
    """Return the newest run in a directory, or None."""
    try:
        return msgspec.json.decode(disk.read(f"{directory}/{_RUN}"), type=Run)
    except (FileNotFoundError, msgspec.DecodeError):
        return None


def read_answer(disk: Disk, directory: str, id: str) -> Answer | None:
    """Remove and return the answer to a request, or return None if there is none yet."""
    path = f"{directory}/{_ANSWER}{id}"
    if not disk.exists(path):
        return None
    answer = msgspec.json.decode(disk.read(path), type=Answer)
    disk.remove(path)
    return answer


def ask(
    disk: Disk,
    directory: str,
    kind: RequestKind,
    timeout: float,
    sleep: Callable[[float], Any] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> Answer:
    """Send a request to the job with this checkpoint directory, and wait for its answer.

    A job that is about to start receives the request, too.  A job that restarts receives it again.

    Args:
      timeout: in seconds.

    Raises `PenstockError` if the job doesn't answer in time, or there is none; the error says whether the job has
    received the request.  A request that was not received is withdrawn.
    """
    try:
        return _Client(disk, directory.rstrip("/"), kind, timeout, sleep, clock).answer()
    except OSError as error:
        raise PenstockError(
            f"{directory}: no request can be written there: {text_or_class(error)}; expected a running "
            "job's --checkpoint_dir, with write access"
        ) from error


class _Client:
    """A request of another process, on that process's side."""

    def __init__(
        self,
        disk: Disk,
        directory: str,
        kind: RequestKind,
        timeout: float,
        sleep: Callable[[float], Any],
        clock: Callable[[], float],
    ) -> None:
        self._disk = disk
        self._directory = directory
        self._kind = kind
        self._timeout = timeout
        self._clock = clock
        self._sleep = sleep
        is_local = isinstance(disk, LocalDisk)
        self._interval = 0.05 if is_local else 1.0
        # In seconds, how long to wait for a run whose process is not known to run.
        self._patience = min(timeout, 10.0 if is_local else 30.0)
        self._until = clock() + timeout

    def answer(self) -> Answer:
        """Return the answer of the first run that takes the request."""
        silent_until = self._clock() + self._patience
        while True:
            run = _read_run(self._disk, self._directory)
            if run is not None and run.ended is None:
                answer = self._answer_of(run, silent_until)
                if answer is not None:
                    return answer
            if self._clock() >= min(silent_until, self._until):
                self._give_up(run)
            self._sleep(self._interval)

    def _answer_of(self, run: Run, silent_until: float) -> Answer | None:
        """Return a run's answer, or None if the run has ended, or another one has begun, before it took the request."""
        id = fresh_token()
        path = f"{self._directory}/{_REQUEST}{id}"
        self._disk.write_atomically(path, msgspec.json.encode(Addressed(self._kind, run.id)))
        is_taken = False
        try:
            while True:
                answer = read_answer(self._disk, self._directory, id)
                if answer is not None:
                    return None if answer.is_misdirected else answer
                if not is_taken and not self._disk.exists(path):
                    is_taken = True
                now = self._clock()
                if is_taken and now >= self._until:
                    break
                if not is_taken:
                    current = _read_run(self._disk, self._directory)
                    if current != run:
                        return None
                    if now >= self._until or (now >= silent_until and not run.is_here):
                        self._give_up(run)
                self._sleep(self._interval)
        finally:
            self._disk.remove(path)
        raise PenstockError(
            f"{self._directory}: the job has received the request, but not answered within {self._timeout:.0f} s; it "
            "may still execute it: see `penstock checkpoints list`"
        )

    def _give_up(self, run: Run | None) -> NoReturn:
        if run is None and not self._disk.list(self._directory):
            raise PenstockError(
                f"{self._directory}: no checkpoints are here; expected a running job's --checkpoint_dir"
            )
        if run is None:
            last = "no run has begun there"
        elif run.ended is not None:
            last = f"the last run has ended: {run.ended}"
        elif run.is_here:
            last = f"the run in process {run.pid} doesn't answer; it may be starting, or in a slow function"
        else:
            last = f"the last run was in process {run.pid} on {run.host}, which no longer runs"
        raise PenstockError(
            f"{self._directory}: no job has received the request, which is withdrawn: {last}; expected the "
            "--checkpoint_dir of a running job"
        )
