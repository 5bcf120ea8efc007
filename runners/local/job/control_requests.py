"""Requests of other processes to a running job: files among its checkpoints, and files that answer them.

Write access to the directory is all that a request takes; nothing listens on the network.  A run of a job notes its
name in a file, `run`.  A request is addressed to a run by that name, so a request that comes while a job starts waits
for it, and a request to a run that has ended is never obeyed by the next one.  A run takes a request by removing it;
every request that is taken is answered.

>>> import tempfile
>>> directory = tempfile.mkdtemp()
>>> disk = disk_of(directory)
>>> inbox = Inbox(disk, directory)
>>> inbox.open("a1")
>>> disk.write_atomically(f"{directory}/request-1", msgspec.json.encode(Addressed(Wish.SAVEPOINT, "a1")))
>>> inbox.look(now=0)
[Request(id='1', wish=<Wish.SAVEPOINT: 'savepoint'>)]
>>> inbox.answer("1", Answer(True, "done", 7))
>>> read_answer(disk, directory, "1")
Answer(is_done=True, text='done', epoch=7, is_misdirected=False)
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable
from enum import Enum
from typing import Any, NoReturn, TypeAlias

import attrs
import msgspec

from ....sdk.errors import PenstockError
from ....sdk.redaction import logger_of
from ...execution.checkpoints.storage import Disk, LocalDisk, disk_of
from ...execution.checkpoints.store import fresh_token

__all__ = ["Addressed", "Answer", "Inbox", "Listener", "Request", "Run", "Wish", "ask", "disk_of", "read_answer"]

_logger = logger_of(__name__)

_RUN, _REQUEST, _ANSWER = "run", "request-", "answer-"

# How often a job looks, in microseconds: looking at a bucket costs money.
_OFTEN, _SELDOM = 200_000, 5_000_000

# Microseconds after its start at which a run removes answers that no command has fetched.
_OLD = 600_000_000


class Wish(Enum):
    """What can be asked of a job."""

    SAVEPOINT = "savepoint"
    STOP = "stop"
    DRAIN = "drain"
    CANCEL = "cancel"


@attrs.frozen
class Request:
    """A wish, and what its answer is to be called."""

    id: str
    wish: Wish


class Run(msgspec.Struct, frozen=True):
    """A run of a job, as its file describes it.

    Attributes:
      id: its name.
      host, pid: the process that it is in.
      ended: the state in which it ended; None while it runs.
    """

    id: str
    host: str
    pid: int
    ended: str | None = None

    @property
    def is_here(self) -> bool:
        """Whether its process is known to live: it is on this host, and has not ended."""
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
    """A request as it is written: the wish, and the run that it is addressed to."""

    wish: Wish
    run: str


class Answer(msgspec.Struct, frozen=True):
    """The result of a request.

    Attributes:
      is_done: whether it was granted.
      text: what happened, for people.
      epoch: of the checkpoint that the next start goes on from; None if there is none.
      is_misdirected: whether the request was addressed to another run, and nothing was done.
    """

    is_done: bool
    text: str
    epoch: int | None = None
    is_misdirected: bool = False


# Is told what came of a request.
Listener: TypeAlias = Callable[[Answer], None]


class Inbox:
    """The job's side.

    Args:
      directory: that of the checkpoints.
      allow_untrusted: obey files that other users could have written.
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
        """Take requests that are addressed to this run, from now on."""
        self._run = Run(run, socket.gethostname(), os.getpid())
        try:
            names = self._disk.list(self._directory)
            self._old = [f"{self._directory}/{name}" for name in names if name.startswith(_ANSWER)]
            self._write_run(self._run)
        except OSError as error:
            _logger.warning("%s: this run can't receive requests: %s", self._directory, error)

    def close(self, state: str) -> None:
        """Note that the run has ended; if another one has begun, that one is in the file, and stays there."""
        if self._run is None:
            return
        run, self._run = self._run, None
        try:
            current = _read_run(self._disk, self._directory)
            if current is not None and current.id == run.id:
                self._write_run(Run(run.id, run.host, run.pid, state))
        except OSError as error:
            _logger.warning("%s: the end of this run can't be noted: %s", self._directory, error)

    def _write_run(self, run: Run) -> None:
        self._disk.write_atomically(f"{self._directory}/{_RUN}", msgspec.json.encode(run))

    def look(self, now: int, at_once: bool = False) -> list[Request]:
        """Take the requests that have come, and return them.

        Args:
          at_once: look even if the last look was a moment ago.

        A request that can't be read is logged, and removed.
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
            # It was withdrawn.
            return None
        if why is not None:
            self._disk.remove(path)
            _logger.warning("%s: not obeyed, because %s", path, why)
            return None
        try:
            addressed = msgspec.json.decode(content, type=Addressed)
        except msgspec.DecodeError as error:
            self._disk.remove(path)
            _logger.warning("%s: not a request: %s", path, error)
            return None
        if addressed.run == run:
            self._disk.remove(path)
            return Request(id, addressed.wish)
        current = _read_run(self._disk, self._directory)
        if current is not None and current.id == run:
            # The run that it is addressed to has ended.  Otherwise the newer run answers.
            self._disk.remove(path)
            self.answer(id, Answer(False, "it was addressed to a run that has ended", is_misdirected=True))
        return None

    def answer(self, id: str, answer: Answer) -> None:
        """Answer a request."""
        try:
            self._disk.write_atomically(f"{self._directory}/{_ANSWER}{id}", msgspec.json.encode(answer))
        except OSError as error:
            _logger.warning("%s: the request %s can't be answered: %s", self._directory, id, error)


def _read_run(disk: Disk, directory: str) -> Run | None:
    """Return the newest run in a directory, or None."""
    try:
        return msgspec.json.decode(disk.read(f"{directory}/{_RUN}"), type=Run)
    except (FileNotFoundError, msgspec.DecodeError):
        return None


def read_answer(disk: Disk, directory: str, id: str) -> Answer | None:
    """The answer to a request, which is removed; None if there is none yet."""
    path = f"{directory}/{_ANSWER}{id}"
    if not disk.exists(path):
        return None
    answer = msgspec.json.decode(disk.read(path), type=Answer)
    disk.remove(path)
    return answer


def ask(
    disk: Disk,
    directory: str,
    wish: Wish,
    timeout: float,
    sleep: Callable[[float], Any] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> Answer:
    """Ask the job whose checkpoints are there, and wait for its answer.

    A job that is about to start is waited for; a job that starts again is asked again.

    Args:
      timeout: seconds until it is given up.

    Raises `PenstockError` if the job doesn't answer in time, or no job is there; the error says whether the request
    was heard.  A request that was not heard is withdrawn.
    """
    try:
        return _Client(disk, directory.rstrip("/"), wish, timeout, sleep, clock).answer()
    except OSError as error:
        raise PenstockError(
            f"{directory}: nothing can be asked there: {error}; expected a running job's --checkpoint_dir, and leave "
            "to write in it"
        ) from error


class _Client:
    """The other process's side of a request."""

    def __init__(
        self,
        disk: Disk,
        directory: str,
        wish: Wish,
        timeout: float,
        sleep: Callable[[float], Any],
        clock: Callable[[], float],
    ) -> None:
        self._disk = disk
        self._directory = directory
        self._wish = wish
        self._timeout = timeout
        self._clock = clock
        self._sleep = sleep
        is_local = isinstance(disk, LocalDisk)
        self._interval = 0.05 if is_local else 1.0
        # Seconds for which a job that can't be seen may be silent.
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
        """Return a run's answer, or None if the run has ended, or another one has begun, without taking the request."""
        id = fresh_token()
        path = f"{self._directory}/{_REQUEST}{id}"
        self._disk.write_atomically(path, msgspec.json.encode(Addressed(self._wish, run.id)))
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
