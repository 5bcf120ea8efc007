"""Readers of what `account_transfers` publishes, each in the way that the documentation of its store describes.

A reader notes each state that it finds, and whether it is the result of a prefix of the input.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import pathlib
import sqlite3
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

from support.io.account_transfers import are_of_a_prefix

_numbers = itertools.count()

Entry = tuple[int, int]


class Reader(ABC):
    """Reader of what two sinks have published.

    Attributes:
      kind: of the sinks.
      computed: what the program computes.
      where: the store, for the program.
      names: what the sinks write to.
      states: of each, the states that were found, by what tells one from others: whether it is a prefix's.
    """

    kind: ClassVar[str]
    computed: str = "balances"

    def __init__(self, where: str, names: Sequence[str] | None = None) -> None:
        self.where = where
        # Another test may have the same server.
        number = next(_numbers)
        self.names = list(names) if names is not None else [f"west{number}", f"east{number}"]
        self.states: dict[str, dict[Any, bool]] = {name: {} for name in self.names}

    def prepare(self, workers: int) -> None:
        """Get ready, before the program is started with so many workers."""

    @abstractmethod
    def look(self) -> None:
        """Note the states that are found now."""

    def has_seen(self, count: int) -> bool:
        """Return True if of each sink so many states were seen."""
        self.look()
        return all(len(own) >= count for own in self.states.values())

    def end(self) -> None:
        """Note the states that are found after the end of the program."""
        self.look()


class Tables(Reader):
    """Reader of tables, of which each look finds one state."""

    @abstractmethod
    def state(self, name: str) -> tuple[Any, bool] | None:
        """Return what tells the state from others, and whether it is a prefix's; None before the first commit."""

    def look(self) -> None:
        for name, own in self.states.items():
            if (state := self.state(name)) is not None:
                own[state[0]] = state[1]


class Sqlite(Tables):
    kind = "sql"

    def __init__(self, directory: pathlib.Path) -> None:
        self._file = directory / "out.db"
        super().__init__(f"sqlite:///{self._file}")

    def state(self, name: str) -> tuple[Any, bool] | None:
        with contextlib.suppress(sqlite3.OperationalError):
            # The pipeline makes the file.
            with contextlib.closing(sqlite3.connect(f"file:{self._file}?mode=rw", uri=True, timeout=5)) as connection:
                found = connection.execute(f"SELECT account, total FROM {name} ORDER BY account").fetchall()
            return _of_balances(found)
        return None


class PostgreSQL(Tables):
    kind = "sql"

    def state(self, name: str) -> tuple[Any, bool] | None:
        import psycopg

        with psycopg.connect(self.where.replace("+psycopg", "")) as connection:
            if connection.execute("SELECT to_regclass(%s)", [name]).fetchone() == (None,):
                return None
            return _of_balances(connection.execute(f"SELECT account, total FROM {name} ORDER BY account").fetchall())


def _of_balances(rows: Sequence[tuple[int, int]]) -> tuple[Any, bool] | None:
    return (tuple(rows), sum(total for _, total in rows) == 0) if rows else None


class Kafka(Reader):
    """Reader of committed records: up to the last stable offset, each partition has the results of a prefix.

    A transaction's end takes an offset, so a gap in the offsets divides the records of two commits.

    Args:
      topics: two topics, with two partitions each.
    """

    kind, computed = "kafka", "entries"

    def __init__(self, broker: Any, topics: Sequence[Any]) -> None:
        super().__init__(broker.address, [topic.name for topic in topics])
        self._broker = broker
        self._stable: dict[str, set[tuple[int, int]]] = {name: set() for name in self.names}

    def look(self) -> None:
        from confluent_kafka import TopicPartition

        for name, stable in self._stable.items():
            ends = self._broker.ends([TopicPartition(name, partition) for partition in range(2)], committed=True)
            stable.update((partition, end) for partition, end in enumerate(ends) if end)

    def has_seen(self, count: int) -> bool:
        self.look()
        return all(len(stable) >= 2 * count for stable in self._stable.values())

    def end(self) -> None:
        self.look()
        for name, states in self.states.items():
            messages = self._broker.read(name, 2)
            for partition in range(2):
                own = [message for message in messages if message.partition() == partition]
                offsets = [message.offset() for message in own]
                gaps = {end for end, next in itertools.pairwise(offsets) if next > end + 1}
                seen = {end for of, end in self._stable[name] if of == partition}
                # Behind each record that a transaction or a look may end with.
                places = {*gaps, *(max(n for n in offsets if n < end) for end in seen), offsets[-1]}
                for offset, is_prefix in zip(offsets, self.are_prefixes(own), strict=True):
                    if offset in places:
                        states[partition, offset] = is_prefix

    def are_prefixes(self, messages: Sequence[Any]) -> Iterator[bool]:
        """Yield whether the records of a partition, up to each one, are the result of a prefix: each number twice."""
        signs: dict[int, set[int]] = {}
        halves: set[int] = set()
        is_once = True
        for message in messages:
            number, sign = json.loads(message.value())
            of_number = signs.setdefault(number, set())
            is_once &= sign in (-1, 1) and sign not in of_number
            of_number.add(sign)
            (halves.discard if len(of_number) == 2 else halves.add)(number)
            yield is_once and not halves


class Messages(Reader):
    """Reader of messages that come one after the other: their commits aren't atomic.

    Each worker's messages of a commit follow each other, with ids that begin alike.  Those of a commit are followed by
    those of the next one.  So among as many ends of workers' messages as there are workers, one is that of a commit.
    """

    computed = "entries"
    _workers = 0

    def prepare(self, workers: int) -> None:
        self._workers = workers

    @abstractmethod
    def messages(self, name: str) -> Iterable[tuple[str, bytes]]:
        """Return the ids and the data of all messages, in their order."""

    def end(self) -> None:
        self.look()
        for name, states in self.states.items():
            # By the beginning of their ids, in the order in which they begin; doubles have the id of the first.
            parts: dict[str, dict[str, Entry]] = defaultdict(dict)
            for id, data in self.messages(name):
                parts[id.rpartition("-")[0]].setdefault(id, json.loads(data))
            states.clear()
            states.update(self._ends_of_commits(parts))

    def _ends_of_commits(self, parts: Mapping[str, Mapping[str, Entry]]) -> dict[str, bool]:
        """Return, by the number of messages, the ends of commits, and of more parts than a commit has."""
        found: dict[str, bool] = {}
        entries: list[Entry] = []
        since = 0
        for part in parts.values():
            entries += part.values()
            since += 1
            is_prefix = are_of_a_prefix(entries)
            if is_prefix or since >= self._workers:
                found[f"{len(entries)} messages"] = is_prefix
                since = 0
        return found


class Nats(Messages):
    """Reader of streams of JetStream, which have dropped doubles.

    Args:
      streams: two streams, whose names the sinks' subjects begin with.
    """

    kind = "nats"

    def __init__(self, server: Any, streams: Sequence[Any]) -> None:
        super().__init__(server.url, [stream.name for stream in streams])
        self._server = server
        self._streams = {stream.name: stream for stream in streams}

    def look(self) -> None:
        for name, states in self.states.items():
            states[self._streams[name].count()] = True

    def messages(self, name: str) -> Iterable[tuple[str, bytes]]:
        async def fetched(js: Any) -> list[tuple[str, bytes]]:
            from nats.js.api import AckPolicy, ConsumerConfig

            config = ConsumerConfig(ack_policy=AckPolicy.NONE)
            consumer = await js.pull_subscribe(f"{name}.entries", stream=name, config=config)
            found: list[tuple[str, bytes]] = []
            count = (await js.stream_info(name)).state.messages
            while len(found) < count:
                fresh = await consumer.fetch(min(1_000, count - len(found)), timeout=10)
                found += [(message.headers["Nats-Msg-Id"], message.data) for message in fresh]
            return found

        return self._server.call(fetched)  # type: ignore[no-any-return]
