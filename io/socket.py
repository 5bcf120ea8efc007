"""ReadFromSocket: lines that a server sends over TCP."""

from __future__ import annotations

import copy
import socket
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..sdk.errors import SourceError
from ..sdk.ptransform import PTransform
from ..sdk.pvalue import PBegin, PCollection
from ..sdk.sources.event_time_reader import EventTimeReader, EventTimes
from ..sdk.sources.unbounded import UnboundedSource
from ..sdk.user_code.error_text import text_or_class
from ..sdk.watermark_estimators import EstimatorTypes
from ..transforms.read import Read
from ..windowing.duration import DurationTypes, seconds_of_span
from ..windowing.timestamp import Timestamp

_BLOCK = 64 * 1024

# Limit of the bytes that are read ahead.  The server can't send more until they are taken.
_READ_AHEAD = 1024 * 1024


class SocketSource(UnboundedSource[str]):
    """One connection, as the only partition.  Lines can't be read again."""

    replayable = False

    def __init__(self, host: str, port: int, times: EventTimes, connect_timeout: float) -> None:
        self.host = host
        self.port = port
        self.times = times
        self.connect_timeout = connect_timeout
        self.transform = "ReadFromSocket"

    def __str__(self) -> str:
        return f"{self.transform}: {self.host}:{self.port}"

    def partitions(self) -> Sequence[str]:
        return ["connection"]

    def identity(self) -> Mapping[str, Any]:
        return {"address": f"{self.host}:{self.port}"}

    def open(self, partition: str, offset: Any | None) -> SocketReader:
        try:
            connection = socket.create_connection((self.host, self.port), timeout=self.connect_timeout)
        except OSError as error:
            raise SourceError(f"{self} can't be reached: {text_or_class(error)}; is the server running?") from error
        connection.setblocking(False)
        return SocketReader(self, connection, offset or 0)


class SocketReader(EventTimeReader[str]):
    """Reader of one connection.  Its offset is the number of lines read."""

    def __init__(self, source: SocketSource, connection: socket.socket, lines: int) -> None:
        super().__init__(source.times)
        self.source = source
        self._connection = connection
        self._count = lines
        self._lines: list[bytes] = []
        self._rest = bytearray()
        self._has_ended = False

    def take(self, max_elements: int, now: Timestamp) -> tuple[list[str], list[int] | int | None]:
        if len(self._lines) < max_elements:
            self._receive()
        taken, self._lines = self._lines[:max_elements], self._lines[max_elements:]
        self._count += len(taken)
        try:
            return [line.removesuffix(b"\r").decode() for line in taken], None
        except UnicodeDecodeError as error:
            found = error.object[error.start]
            raise SourceError(
                f"{self.source}: one of the lines {self._count - len(taken) + 1} to {self._count} is not UTF-8 "
                f"(0x{found:02x})"
            ) from error

    def offset(self) -> int:
        return self._count

    def is_finished(self) -> bool:
        return self._has_ended and not self._lines

    def backlog(self) -> int | None:
        return len(self._lines)

    def close(self) -> None:
        self._connection.close()

    def _receive(self) -> None:
        while not self._has_ended and len(self._rest) < _READ_AHEAD:
            try:
                block = self._connection.recv(_BLOCK)
            except BlockingIOError:
                break
            except OSError as error:
                raise SourceError(
                    f"{self.source}: the connection broke after {self._count} lines: {text_or_class(error)}"
                ) from error
            self._rest += block
            self._has_ended = not block
        *lines, rest = bytes(self._rest).split(b"\n")
        self._rest = bytearray(rest)
        if self._has_ended and rest:
            lines.append(rest)
            self._rest.clear()
        self._lines += lines


class ReadFromSocket(PTransform):
    """The lines, as UTF-8, that a server sends over TCP until it closes the connection.

    Returns a `PCollection[str]`.

    A socket can't be read twice.  A failure loses the lines read since the last checkpoint, and the lines sent while no
    connection is open.  So the guarantee is at most once, which `at_most_once=True` accepts.

    Args:
      at_most_once: accepts that lines may be lost.
      timestamp_fn, watermark_estimator, idle_after: see `EventTimes`.  Without them the event time of a line is the
        time of reading.
      connect_timeout: in seconds.

    >>> import penstock as beam
    >>> p = beam.Pipeline()
    >>> (p | beam.io.ReadFromSocket("localhost", 9999, at_most_once=True)).is_bounded
    False
    """

    def __init__(
        self,
        host: str,
        port: int,
        *,
        at_most_once: bool = False,
        timestamp_fn: Callable[[str], Any] | None = None,
        watermark_estimator: EstimatorTypes | None = None,
        idle_after: Any = None,
        connect_timeout: DurationTypes = 10.0,
    ) -> None:
        super().__init__()
        if not isinstance(port, int) or not 0 < port < 65536:
            raise ValueError(f"ReadFromSocket: expected a port between 1 and 65535, got {port!r}")
        if not at_most_once:
            raise ValueError(
                f"ReadFromSocket: lines of {host}:{port} can't be read again after a failure, so lines may be lost, "
                "and nothing read from it is exactly once; say at_most_once=True if that will do, or have it written "
                "to a file or a Redis stream and read that"
            )
        times = EventTimes.of("ReadFromSocket", timestamp_fn, watermark_estimator, idle_after)
        self.source = SocketSource(host, port, times, seconds_of_span(connect_timeout))

    def expand(self, pbegin: PBegin) -> PCollection[str]:
        source = copy.copy(self.source)
        source.transform = pbegin.pipeline.full_label
        lines: PCollection[str] = pbegin | Read(source).with_output_types(str)
        return lines
