"""Waiting for a store or a server that doesn't answer: in a call, or between the polls of a reader."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import TypeVar

from ...sdk.redaction import logger_of, redacted
from ...sdk.user_code.error_text import text_or_class
from .lost_connections import is_limited, is_lost
from .retry import FuzzedExponentialIntervals

T = TypeVar("T")

_logger = logger_of(__name__)

# How long a store is waited for, in seconds.  A runner's restart tries again after that.
WAITS = 600.0

# How long a server is waited for that answers, and can't do yet what it is asked, in seconds.
WAITS_WHILE_BUSY = 60.0

# A delay before a reader asks a lost server again, in seconds.
RETRIED_AFTER = 1.0


class Busy(ConnectionError):
    """A server that answers, and can't do yet what it is asked, such as to store a message in a stream that is full."""


# When the program was asked to stop; None while it may wait.
_stopped_at: float | None = None

# How long, after that and after the last answer, a server is waited for, in seconds.
_GRACE = 2.0


def stop_waiting() -> None:
    """End what waits for servers: the program was asked to stop, by a signal.

    A commit that waits fails soon; the next start commits what is staged.  One to which a server answers goes on.
    """
    global _stopped_at
    _stopped_at = time.monotonic()


def wait_again() -> None:
    """Let calls wait for servers, as before `stop_waiting`."""
    global _stopped_at
    _stopped_at = None


def is_stopping(answered: float = 0.0) -> bool:
    """Return True if nothing is waited for any more.

    Args:
      answered: when a server has answered last, or when the wait for its answer began, by `time.monotonic`.
    """
    return _stopped_at is not None and time.monotonic() - max(_stopped_at, answered) > _GRACE


def paused(seconds: float) -> None:
    """Sleep before a call is made again; less if the program is to stop."""
    until = time.monotonic() + seconds
    while (remaining := until - time.monotonic()) > 0 and not is_stopping():
        time.sleep(min(remaining, 0.2))


class Outage:
    """The outage of a server: logged once, and once when it is over.

    A reader's `poll` during it returns no elements, so that checkpoints go on.  A task of a micro-batch, which has
    nothing else to do, waits in `poll` for at most `WAITS` seconds.

    Args:
      label: the transform's, for the log.
      server: its name and address.
      said: returns what an error says, without secrets.
      may_answer: tells the errors of a server that may answer later from others.

    >>> outage = Outage("ReadFromSQL", "shop.db")
    >>> outage.poll(lambda: [5], close=lambda: None, waits=False)
    [5]
    """

    def __init__(
        self,
        label: str,
        server: str,
        said: Callable[[BaseException], str] = text_or_class,
        may_answer: Callable[[BaseException], bool] = is_lost,
    ) -> None:
        self._label = label
        self._server = redacted(server)
        self._said = said
        self._may_answer = may_answer
        self._began: float | None = None
        self._retry_at = 0.0

    def poll(self, call: Callable[[], T], close: Callable[[], None], waits: bool) -> T | None:
        """Return the result of a call; None while the server doesn't answer.

        Args:
          close: closes the lost connection.
          waits: calls again until the server answers, instead of returning None.
        """
        if not waits and self._began is not None and time.monotonic() < self._retry_at:
            return None
        while True:
            try:
                result = call()
            except Exception as error:
                if not self._may_answer(error) or (waits and self._seconds() > WAITS):
                    raise
                close()
                self.lost(error)
                if not waits:
                    return None
                time.sleep(RETRIED_AFTER)
            else:
                self.over()
                return result

    @property
    def goes_on(self) -> bool:
        """True while the server doesn't answer."""
        return self._began is not None

    def lost(self, error: BaseException | str) -> None:
        """Note that the server doesn't answer, or is `Busy`."""
        self._retry_at = time.monotonic() + RETRIED_AFTER
        if self._began is None:
            self._began = time.monotonic()
            said = error if isinstance(error, str) else self._said(error)
            shown = redacted(said).partition("\n")[0][:200]
            _logger.warning("%s: %s %s (%s); waiting for it", self._label, self._server, _does(error), shown)

    def over(self, at_least: float = 0.0) -> None:
        """Note that the server answers.

        Args:
          at_least: seconds within which an answer may have been under way before the loss.
        """
        if self._began is not None and self._seconds() >= at_least:
            _logger.warning("%s: %s answers again, after %.0f s", self._label, self._server, self._seconds())
            self._began = None

    @contextmanager
    def watched(self, seconds: float) -> Iterator[None]:
        """Log the outage of a server that lets a call wait for longer than so many seconds, while the call waits."""
        timer = threading.Timer(seconds, self.lost, (f"no answer within {round(seconds, 1):g} s",))
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()

    def _seconds(self) -> float:
        return 0.0 if self._began is None else time.monotonic() - self._began


def _does(error: BaseException | str) -> str:
    """Return what a server does that gives an error."""
    if isinstance(error, Busy):
        return "can't do it yet"
    return "limits requests" if isinstance(error, BaseException) and is_limited(error) else "doesn't answer"


def patiently(
    label: str,
    store: str,
    call: Callable[[], T],
    seconds: float = WAITS,
    may_answer: Callable[[BaseException], bool] = is_lost,
    said: Callable[[BaseException], str] = text_or_class,
    silent: float | None = None,
) -> T:
    """Return the result of a call; while the store doesn't answer, call again with growing delays.

    A store that is `Busy` is waited for as long as `WAITS_WHILE_BUSY` says, at most.

    Args:
      label, store, said, may_answer: as those of `Outage`.
      seconds: how long the store is waited for.
      silent: how long a call may wait until that is logged, in seconds; None for a client that gives up soon itself.
    """
    outage = Outage(label, store, said, may_answer)
    delays: Iterator[float] = iter(FuzzedExponentialIntervals(0.1, 10_000, max_delay_secs=5.0))
    began = time.monotonic()
    while True:
        try:
            with nullcontext() if silent is None else outage.watched(silent):
                result = call()
        except Exception as error:
            limit = min(seconds, WAITS_WHILE_BUSY) if isinstance(error, Busy) else seconds
            if not may_answer(error) or time.monotonic() - began > limit or is_stopping():
                raise
            outage.lost(error)
            paused(next(delays, 5.0))
        else:
            outage.over()
            return result
