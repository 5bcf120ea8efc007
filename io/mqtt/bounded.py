"""FirstMessages: the messages that arrive, up to a number or for a time, as a bounded source."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import attrs

from ...sdk.elements.bundle import Bundle
from ...sdk.sources.bounded import BoundedSource
from ...sdk.sources.event_time_reader import EventTimes
from ...sdk.watermark_estimators import WalltimeWatermarkEstimator
from ..first_bundles import first_bundles
from .session import Reading
from .source import MqttReader, MqttSource

# How long the broker keeps the session of a bounded read whose connection is lost, in seconds.
_KEPT = 300


class FirstMessages(BoundedSource[Any]):
    """The messages of a session of its own, which ends with the read: it takes none from others."""

    def __init__(self, reading: Reading, times: EventTimes, number: int | None, seconds: float | None) -> None:
        times = attrs.evolve(times, estimator=WalltimeWatermarkEstimator.default_provider())
        self.source = MqttSource(reading, times)
        self.number = number
        self.seconds = seconds

    def identity(self) -> Mapping[str, Any]:
        topics = sorted(self.source.reading.topics)
        return {"topics": topics, "max_num_records": self.number, "max_read_time": self.seconds}

    def split(self, desired_splits: int) -> Sequence[str]:
        return self.source.partitions()

    def read_bundles(self, split: str) -> Iterator[Bundle]:
        reading = self.source.reading
        client_id = f"{reading.client_id}-{uuid.uuid4().hex[:8]}"
        # A session of 3.1.1 would outlive the read.
        kept = _KEPT if reading.connection.is_version_5 else 0
        own = attrs.evolve(reading, client_id=client_id, session_seconds=kept)
        reader = MqttReader(MqttSource(own, self.source.times), None)
        try:
            for bundle in first_bundles([reader], self.number, self.seconds):
                yield bundle
                reader.acknowledge(reader.offset())
        finally:
            reader.forget()
