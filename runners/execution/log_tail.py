"""The tail of a process's log, for a page."""

from __future__ import annotations

import logging
from collections import deque

from ...sdk.redaction import redacted

# The lines that are kept between two reports, and the longest line in characters.
_LINES, _LONGEST = 200, 4_000


def _first_of(name: str) -> LogTail | None:
    """Return the tail that stands for all handlers of a logger, if it has no others: then `logging` uses its last
    resort, which it doesn't do for a logger with a tail.
    """
    logger: logging.Logger | None = logging.getLogger(name)
    handlers: list[logging.Handler] = []
    while logger is not None:
        handlers += logger.handlers
        logger = logger.parent if logger.propagate else None
    tails = [each for each in handlers if isinstance(each, LogTail)]
    return tails[0] if tails and len(tails) == len(handlers) else None


class LogTail(logging.Handler):
    """Keeps the last records of the root logger until they are taken.

    >>> tail = LogTail()
    >>> tail.handle(logging.LogRecord("app", logging.WARNING, "", 0, "half of %d", (2,), None))
    True
    >>> [(level, text) for _, level, text in tail.taken()], tail.taken()
    ([('WARNING', 'app: half of 2')], [])
    """

    def __init__(self) -> None:
        super().__init__()
        self._lines: deque[tuple[int, str, str]] = deque(maxlen=_LINES)

    def install(self) -> None:
        """Receive the records of all loggers from now on."""
        logging.getLogger().addHandler(self)

    def remove(self) -> None:
        """Undo `install`."""
        logging.getLogger().removeHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a record."""
        try:
            text = record.getMessage()
            if record.exc_info:
                text += "\n" + logging.Formatter().formatException(record.exc_info)
        except Exception as error:  # wrong arguments of user code
            text = f"{record.msg} ({error})"
        text = redacted(f"{record.name}: {text}"[:_LONGEST])
        self._lines.append((round(record.created * 1_000_000), record.levelname, text))
        last = logging.lastResort
        if last is not None and record.levelno >= last.level and _first_of(record.name) is self:
            last.handle(record)

    def taken(self) -> list[tuple[int, str, str]]:
        """Remove and return the kept lines: microseconds since 1970, level, and text."""
        taken = []
        while self._lines:
            taken.append(self._lines.popleft())
        return taken
