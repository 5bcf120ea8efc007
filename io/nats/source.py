"""NatsSource: the messages of a stream as an unbounded source.  An offset is the sequence of the next message."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import Any

import attrs

from ...frozen import frozen
from ...sdk.claims import Claim, Claimant
from ...sdk.errors import SourceError
from ...sdk.redaction import logger_of
from ...sdk.sources.event_time_reader import EventTimes
from ...sdk.sources.unbounded import UnboundedSource
from ...windowing.timestamp import Timestamp
from ..connections.prefetching_reader import PrefetchingReader
from .acknowledging import Acknowledger, durable_of
from .client import called, js_errors
from .messages import NatsMessage
from .pulling import Pull, Reading

_logger = logger_of(__name__)


@frozen
class Start:
    """Where reading begins without a checkpoint.

    Attributes:
      sequence: of the first message; None for `at`.
      at: 'earliest', 'latest', or a time in microseconds since 1970.
      durable: a durable consumer, whose position comes first.
    """

    sequence: int | None = None
    at: str | int = "earliest"
    durable: str | None = None


async def first_position(js: Any, reading: Reading, start: Start) -> int:
    """Return the sequence at which reading begins without a checkpoint."""
    info = await reading.stream_info(js)
    if start.durable is not None:
        try:
            known = await js.consumer_info(reading.stream, durable_of(start.durable, reading.subject))
        except js_errors(reading.label).NotFoundError:
            pass
        else:
            if known.ack_floor.stream_seq:
                return int(known.ack_floor.stream_seq) + 1
    if start.sequence is not None:
        return start.sequence
    if start.at == "latest":
        return int(info.state.last_seq) + 1
    if start.at == "earliest":
        return max(int(info.state.first_seq), 1)
    return await _first_since(js, reading, int(start.at), info)


async def _first_since(js: Any, reading: Reading, micros: int, info: Any) -> int:
    """Return the sequence of the first message that the server stored at a time or later."""
    low, high = max(int(info.state.first_seq), 1), int(info.state.last_seq) + 1
    while low < high:
        middle = (low + high) // 2
        message = await js.get_msg(reading.stream, middle, next=True, subject=">") if middle < high else None
        if message is None or message.seq >= high or _micros(message.time) >= micros:
            high = middle
        else:
            low = message.seq + 1
    return low


def _micros(time: Any) -> int:
    return int(time.timestamp() * 1_000_000)


async def last_sequence(js: Any, reading: Reading) -> int:
    """Return the sequence of the last message; 0 if there is none."""
    if reading.subject is None:
        return int((await reading.stream_info(js)).state.last_seq)
    try:
        return int((await js.get_last_msg(reading.stream, reading.subject)).seq)
    except js_errors(reading.label).NotFoundError:
        return 0


class NatsSource(UnboundedSource[NatsMessage], Claimant):
    """Source of a stream.  A partition is a filter of subjects.

    Args:
      durable: a durable consumer, which acknowledges the messages of durable checkpoints.
    """

    repeatable = True

    def __init__(
        self, reading: Reading, subjects: tuple[str | None, ...], start: Start, times: EventTimes, durable: str | None
    ) -> None:
        self.reading = reading
        self.subjects = subjects
        self.start = start
        self.times = times
        self.durable = durable

    def claims(self) -> Sequence[Claim]:
        if self.durable is None:
            return ()
        reading, found = self.reading, []
        for subject in self.subjects:
            name = durable_of(self.durable, subject)
            of = f"stream {reading.stream!r} of {reading.connection.shown}"
            what = f"it acknowledges as durable consumer {name!r} of {of}"
            advice = "it must not have other users, which acknowledge other messages; give one of them another durable"
            found.append(Claim(what, advice, ("nats", reading.connection.server_keys, reading.stream, name)))
        return found

    def partitions(self) -> Sequence[str]:
        called(self.reading.connection, f"{self.reading.what} can't be read", self._checked)
        return [subject or ">" for subject in self.subjects]

    async def _checked(self, js: Any) -> None:
        info = await self.reading.stream_info(js)
        # An enumeration of texts.
        retention = info.config.retention
        if retention == "workqueue":
            raise SourceError(
                f"{self.reading.label}: {self.reading.what} is a work queue, which removes messages that one consumer "
                "has acknowledged and can't be read from a position; read a stream with the retention 'limits' or "
                "'interest', such as one that has this stream as its source"
            )
        if self.durable is None:
            if retention == "interest":
                raise SourceError(
                    f"{self.reading.label}: {self.reading.what} has the retention 'interest', which keeps messages for "
                    "durable consumers only; name one by durable=..."
                )
            return
        for subject in self.subjects:
            reading = attrs.evolve(self.reading, subject=subject)
            await Acknowledger(reading, self.durable).make(js, await first_position(js, reading, self.start))

    def identity(self) -> Mapping[str, Any]:
        return {"stream": self.reading.stream, "subjects": sorted(subject or ">" for subject in self.subjects)}

    def rescalable_from(self, before: Mapping[str, Any]) -> Set[str]:
        # Other subjects are read from where a new pipeline begins.
        return {"subjects"} if set(before["subjects"]) <= set(self.identity()["subjects"]) else frozenset()

    def open(self, partition: str, offset: int | None) -> NatsReader:
        reading = attrs.evolve(self.reading, subject=None if partition == ">" else partition)
        if offset is None:
            offset = called(
                reading.connection,
                f"{reading.what} can't be read",
                lambda js: first_position(js, reading, self.start),
            )
        return NatsReader(self, reading, offset)


class NatsReader(PrefetchingReader[NatsMessage]):
    """Reader of the messages of one filter."""

    def __init__(self, source: NatsSource, reading: Reading, position: int) -> None:
        super().__init__(source.times)
        self.reading = reading
        self._next = position
        self._pull = Pull(reading, position)
        self._durable = None if source.durable is None else Acknowledger(reading, source.durable)

    def take(self, max_elements: int, now: Timestamp) -> tuple[list[NatsMessage], list[int] | int | None]:
        while True:
            # Before messages are taken: what arrives later may be after the end.
            is_drained = self._pull.is_drained
            found = self._pull.take(max_elements, self.end)
            if found:
                self._next = found[-1].sequence + 1
                if self.end is not None and self._next > self.end:
                    self._next = self.end
                return found, [message.micros for message in found]
            if self.end is not None:
                if is_drained or self._pull.following() is not None or self._next >= self.end:
                    self._next = self.end
                    return [], None
            elif not self.is_awaited(self._pull.seen + 1):
                return [], None
            self._pull.wait(0.2)

    def offset(self) -> int:
        return self._next

    def backlog(self) -> int | None:
        pending = self._pull.pending
        return None if pending is None else pending + self._pull.waiting()

    def acknowledge(self, offset: Any) -> None:
        if self._durable is not None and offset is not None:
            self._durable.acknowledge(offset - 1)

    def close(self) -> None:
        self._pull.close()
        if self._durable is not None:
            self._durable.close()

    def available(self) -> int:
        last = called(
            self.reading.connection,
            f"{self.reading.what} can't be read",
            lambda js: last_sequence(js, self.reading),
        )
        return last + 1
