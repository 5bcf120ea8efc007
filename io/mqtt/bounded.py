"""OwnSessionSource: the messages of a session that ends with the read, for bounded reads."""

from __future__ import annotations

import uuid

import attrs

from .session import Position
from .source import MqttReader, MqttSource

# How long the broker keeps the session of a bounded read whose connection is lost, in seconds.
_KEPT = 300


class OwnSessionSource(MqttSource):
    """Source whose readers have sessions of their own: they take no messages from others."""

    def open(self, partition: str, offset: Position | None) -> MqttReader:
        client_id = f"{self.reading.client_id}-{uuid.uuid4().hex[:8]}"
        # A session of 3.1.1 would outlive the read.
        kept = _KEPT if self.reading.connection.is_version_5 else 0
        own = attrs.evolve(self.reading, client_id=client_id, session_seconds=kept)
        return _OwnSessionReader(MqttSource(own, self.times), offset)


class _OwnSessionReader(MqttReader):
    def close(self) -> None:
        self.forget()
