"""MqttSource: the messages of a session as an unbounded source."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence, Set
from typing import Any

from ...sdk.claims import Claim, Claimant, server_key
from ...sdk.sources.event_time_reader import EventTimeReader, EventTimes
from ...sdk.sources.unbounded import UnboundedSource
from ...windowing.timestamp import Timestamp
from .client import Client
from .messages import MqttMessage
from .session import Position, Reading, Session


class MqttSource(UnboundedSource[MqttMessage], Claimant):
    """Source of one session, its only partition.

    A reader at an earlier position doesn't get messages again that were acknowledged, so it can't be replayed.
    """

    replayable = False

    def __init__(self, reading: Reading, times: EventTimes) -> None:
        self.reading = reading
        self.times = times

    def partitions(self) -> Sequence[str]:
        reading = self.reading
        # Another client id, since a connection of the same one would end the session's.
        probe = Client(reading.connection, f"{reading.client_id}-{uuid.uuid4().hex[:8]}")
        probe.start()
        try:
            probe.wait(reading.what)
        finally:
            probe.close()
        return ["session"]

    def claims(self) -> Sequence[Claim]:
        connection, id = self.reading.connection, self.reading.client_id
        what = f"it reads as client_id {id!r} of {connection.shown}"
        advice = "the broker ends a connection when another one has its client_id; give one of them another client_id"
        return [Claim(what, advice, ("mqtt", server_key(connection.host, connection.port), id))]

    def identity(self) -> Mapping[str, Any]:
        return {"client_id": self.reading.client_id, "topics": sorted(self.reading.topics)}

    def rescalable_from(self, before: Mapping[str, Any]) -> Set[str]:
        # The broker adds subscriptions to the session.
        return {"topics"} if set(before["topics"]) <= set(self.reading.topics) else frozenset()

    def open(self, partition: str, offset: Position | None) -> MqttReader:
        return MqttReader(self, offset)


class MqttReader(EventTimeReader[MqttMessage]):
    """Reader of the session."""

    def __init__(self, source: MqttSource, position: Position | None) -> None:
        super().__init__(source.times)
        self._session = Session(source.reading, position)

    def take(self, max_elements: int, now: Timestamp) -> tuple[list[MqttMessage], None]:
        return self._session.take(max_elements), None

    def offset(self) -> Position:
        return self._session.position()

    def backlog(self) -> int | None:
        return self._session.waiting()

    def acknowledge(self, offset: Any) -> None:
        if offset is not None:
            self._session.acknowledge(offset)

    def close(self) -> None:
        self._session.close()

    def forget(self) -> None:
        """Close, and let the broker forget the session."""
        self._session.forget()
