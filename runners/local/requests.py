"""What other processes ask of a running job: files among its checkpoints, and files that answer them.

Whoever may write to the directory may ask; nothing listens on the network.  The job takes a request by
removing it, so one that stays has nobody to hear it.

>>> import tempfile
>>> directory = tempfile.mkdtemp()
>>> disk = disk_of(directory)
>>> inbox = Inbox(disk, directory)
>>> disk.write_atomically(f"{directory}/request-1", b'"savepoint"')
>>> inbox.look(now=0)
[Request(id='1', wish=<Wish.SAVEPOINT: 'savepoint'>)]
>>> inbox.answer("1", Answer(True, "done", 7))
>>> read_answer(disk, directory, "1")
Answer(is_done=True, text='done', epoch=7)
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from enum import Enum
from typing import Any, TypeAlias

import attrs
import msgspec

from ...sdk.errors import PenstockError
from ..execution.disk import Disk, LocalDisk, disk_of
from ..execution.snapshot_store import fresh_token

__all__ = ["Answer", "Inbox", "Listener", "Request", "Wish", "ask", "disk_of", "read_answer"]

_logger = logging.getLogger(__name__)

_REQUEST, _ANSWER = "request-", "answer-"

# How often a job looks, in microseconds: looking at a bucket costs money.
_OFTEN, _SELDOM = 200_000, 5_000_000


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


class Answer(msgspec.Struct, frozen=True):
    """What came of a request.

    Attributes:
      is_done: whether it was granted.
      text: what happened, for people.
      epoch: of the checkpoint that the next start goes on from; None if there is none.
    """

    is_done: bool
    text: str
    epoch: int | None = None


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

    def clear(self) -> None:
        """Remove what was asked of an earlier job."""
        try:
            names = self._disk.list(self._directory)
            self._disk.remove(*(f"{self._directory}/{name}" for name in names if name.startswith((_REQUEST, _ANSWER))))
        except OSError as error:
            _logger.warning("%s: requests of an earlier job can't be removed: %s", self._directory, error)

    def look(self, now: int) -> list[Request]:
        """The requests that have come; none if it has looked a moment ago.  What can't be read is logged, and gone."""
        if now < self._next:
            return []
        self._next = now + self._interval
        try:
            names = [name for name in self._disk.list(self._directory) if name.startswith(_REQUEST)]
            found = [self._take(name) for name in names if not name.endswith(".unfinished")]
        except OSError as error:
            _logger.warning("%s: requests can't be read: %s", self._directory, error)
            return []
        return [request for request in found if request is not None]

    def _take(self, name: str) -> Request | None:
        path, id = f"{self._directory}/{name}", name.removeprefix(_REQUEST)
        why = None if self._allow_untrusted else self._disk.why_untrusted(path)
        content = self._disk.read(path)
        self._disk.remove(path)
        if why is not None:
            _logger.warning("%s: not obeyed, because %s", path, why)
            return None
        try:
            return Request(id, msgspec.json.decode(content, type=Wish))
        except msgspec.DecodeError as error:
            _logger.warning("%s: not a request: %s", path, error)
            return None

    def answer(self, id: str, answer: Answer) -> None:
        """Answer a request."""
        try:
            self._disk.write_atomically(f"{self._directory}/{_ANSWER}{id}", msgspec.json.encode(answer))
        except OSError as error:
            _logger.warning("%s: the request %s can't be answered: %s", self._directory, id, error)


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

    Args:
      timeout: seconds until it is given up.

    Raises `PenstockError` if nobody answers in time, or can be asked there; a request that nobody has taken is
    withdrawn.
    """
    try:
        return _ask(disk, directory.rstrip("/"), wish, timeout, sleep, clock)
    except OSError as error:
        raise PenstockError(
            f"{directory}: nothing can be asked there: {error}; expected a running job's --checkpoint_dir, and leave "
            "to write in it"
        ) from error


def _ask(
    disk: Disk,
    directory: str,
    wish: Wish,
    timeout: float,
    sleep: Callable[[float], Any],
    clock: Callable[[], float],
) -> Answer:
    if not disk.list(directory):
        raise PenstockError(f"{directory}: no checkpoints are here; expected a running job's --checkpoint_dir")
    id = fresh_token()
    path = f"{directory}/{_REQUEST}{id}"
    disk.write_atomically(path, msgspec.json.encode(wish))
    began, patience = clock(), min(timeout, 10.0 if isinstance(disk, LocalDisk) else 30.0)
    try:
        is_taken = False
        while (passed := clock() - began) < timeout:
            if (answer := read_answer(disk, directory, id)) is not None:
                return answer
            is_taken = is_taken or not disk.exists(path)
            if not is_taken and passed > patience:
                break
            sleep(0.05 if isinstance(disk, LocalDisk) else 1.0)
    finally:
        disk.remove(path)
    if is_taken:
        raise PenstockError(
            f"{directory}: the job has heard the request, but not answered within {timeout:.0f} s; it may still do "
            "it: see `penstock checkpoints list`"
        )
    raise PenstockError(f"{directory}: no job has answered; is one running with this --checkpoint_dir?")
