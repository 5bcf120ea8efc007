"""Topics of a real broker, with numbers in them."""

from __future__ import annotations

import itertools
from typing import Any

from kafka.broker import KafkaBroker, Record

_numbers = itertools.count()

# Seconds since 1970.
BEGIN = 1_700_000_000


class Topic:
    """A topic of a test's own."""

    def __init__(self, broker: KafkaBroker, partitions: int = 2, **config: str) -> None:
        self.broker = broker
        self.partitions = partitions
        self.name = f"topic-{next(_numbers)}"
        broker.create_topic(self.name, partitions, **config)

    @property
    def config(self) -> dict[str, Any]:
        """What a client needs to know, to read from the beginning."""
        return {"bootstrap.servers": self.broker.address, "auto.offset.reset": "earliest"}

    @property
    def producer_config(self) -> dict[str, Any]:
        return {"bootstrap.servers": self.broker.address}

    def write(self, numbers: range) -> None:
        """Add numbers, with their last digits as keys, one after the other in time."""
        self.broker.write(self.name, map(self.record, numbers))

    def write_values(self, *values: bytes) -> None:
        """Add records without keys to the first partition."""
        self.broker.write(self.name, [Record(0, None, value, BEGIN * 1000) for value in values])

    def record(self, n: int) -> Record:
        return Record(n % self.partitions, str(n % 10).encode(), str(n).encode(), (BEGIN + n) * 1000)

    def found(self, isolation: str = "read_committed") -> list[Any]:
        """All records, in the order of their partitions and offsets."""
        return self.broker.read(self.name, self.partitions, isolation)

    def values(self) -> list[int]:
        """The numbers among the committed records, sorted."""
        return sorted(int(message.value()) for message in self.found())
