"""Events of a run: its start, checkpoints, failures, restarts, status and end, for a page and for later.

With a checkpoint directory the events are appended to `events.jsonl` there, one JSON object a line, from which
`penstock ui DIR` shows the run when it has ended.  docs/ui.md has the schema.  An error of the log is logged once, and
never touches the job.

>>> events = Events()
>>> events.keep(True)
>>> events.add("restart", delay=0.5)
>>> [(event["kind"], event["delay"]) for event in events.taken()]
[('restart', 0.5)]
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec

from ....sdk.redaction import logger_of, redacted
from ....sdk.user_code.error_text import text_or_class
from ..checkpoints.storage import Disk
from ..clock import time_of_day
from ..error_transport import remote

_logger = logger_of(__name__)

NAME, OLD = "events.jsonl", "events-old.jsonl"

# The length of a log in bytes at which the next one begins; one old log is kept.
_LONGEST = 8_000_000

# Where files can only be written whole: how many of the last events are written, and microseconds between two writes.
_KEPT, _SELDOM = 2_000, 60_000_000

# Events that wait for a page.
_WAITING = 5_000


class EventLog:
    """The log of the events in a directory.

    Args:
      disk, directory: those of the checkpoints.
    """

    def __init__(self, disk: Disk, directory: str) -> None:
        self._disk = disk
        self._directory = directory
        self._offset: int | None = None
        self._last: deque[bytes] = deque(maxlen=_KEPT)
        self._next = 0
        self._is_broken = False

    def append(self, event: Mapping[str, Any], is_last: bool = False) -> None:
        """Append an event; the last one of the run is written at once."""
        if self._is_broken:
            return
        line = msgspec.json.encode(event, enc_hook=str) + b"\n"
        try:
            if self._disk.can_append:
                self._append(line)
            else:
                self._write_whole(line, is_last)
        except Exception as error:  # of any file system; a log of events must not end a job
            self._is_broken = True
            _logger.warning("%s: this run's events can't be logged there: %s", self._directory, error)

    def _append(self, line: bytes) -> None:
        path = f"{self._directory}/{NAME}"
        if self._offset is None:
            self._disk.make_directory(self._directory)
            if not self._disk.exists(path):
                self._disk.write_atomically(path, b"")
            before = self._disk.read(path)
            # A line that a killed run has left unfinished is overwritten.
            self._offset = before.rfind(b"\n") + 1
        if self._offset > _LONGEST:
            self._disk.write_atomically(f"{self._directory}/{OLD}", self._disk.read(path))
            self._disk.write_atomically(path, b"")
            self._offset = 0
        self._disk.write_soon(path, self._offset, line)
        self._offset += len(line)

    def _write_whole(self, line: bytes, is_last: bool) -> None:
        self._last.append(line)
        now = time_of_day()
        if now >= self._next or is_last:
            self._next = now + _SELDOM
            self._disk.write_atomically(f"{self._directory}/{NAME}", list(self._last))


def read_events(disk: Disk, directory: str) -> Iterator[dict[str, Any]]:
    """Yield the logged events of a directory, oldest first.  An unfinished last line is left out."""
    for name in (OLD, NAME):
        try:
            content = disk.read(f"{directory}/{name}")
        except FileNotFoundError:
            continue
        for line in content.splitlines():
            try:
                yield msgspec.json.decode(line, type=dict[str, Any])
            except msgspec.DecodeError:
                continue


class Events:
    """The events of a run.  Methods may be called from any thread.

    Args:
      log: where they are kept; None for nowhere.
      clock: microseconds since 1970.
    """

    def __init__(self, log: EventLog | None = None, clock: Callable[[], int] = time_of_day) -> None:
        self._log = log
        self._is_kept = False
        self._lock = threading.Lock()
        self._clock = clock
        # Events from before the run owns the directory; None once it does.
        self._before: list[dict[str, Any]] | None = []
        self._waiting: deque[dict[str, Any]] = deque(maxlen=_WAITING)

    @property
    def is_logged(self) -> bool:
        """True if events are kept after the run."""
        return self._log is not None

    def add(self, kind: str, **content: Any) -> None:
        """Add an event that happens now."""
        event = {"kind": kind, "at": self._clock(), **content}
        if self._is_kept:
            self._waiting.append(event)
        with self._lock:
            if self._log is None:
                return
            if self._before is not None:
                self._before.append(event)
            else:
                self._log.append(event, kind == "ended")

    def keep(self, is_kept: bool) -> None:
        """Keep events for `taken` from now on, or no longer: without a page nothing takes them."""
        self._is_kept = is_kept
        if not is_kept:
            self._waiting.clear()

    def open_log(self) -> None:
        """Log the events so far, and all later ones; called when the run owns the directory."""
        with self._lock:
            before, self._before = self._before or [], None
            for event in before if self._log is not None else ():
                assert self._log is not None
                self._log.append(event)

    def close_log(self) -> None:
        """Log nothing more: another run owns the directory."""
        with self._lock:
            self._log = None

    def taken(self) -> list[dict[str, Any]]:
        """Remove and return the events that were added since the last call."""
        taken = []
        while self._waiting:
            taken.append(self._waiting.popleft())
        return taken


def described_error(error: BaseException) -> dict[str, Any]:
    """Return an error as data: its class, text, transform, element, and the user's part of its traceback."""
    if not isinstance(error, Exception):
        return {
            "type": type(error).__name__,
            "message": text_or_class(error),
            "transform": "",
            "element": None,
            "frames": "",
        }
    sent = remote(error)
    return {
        "type": type(error).__name__,
        "message": redacted(text_or_class(error)),
        "transform": sent.transform,
        "element": None if sent.element is None else redacted(sent.element),
        "location": sent.location,
        "frames": redacted(str(error.__cause__).lstrip() if _is_remote(error) else sent.frames),
    }


def _is_remote(error: Exception) -> bool:
    # The traceback of a worker's error is the text of its cause.
    return error.__cause__ is not None and type(error.__cause__).__name__ == "RemoteTraceback"
