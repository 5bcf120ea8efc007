"""Readers of what `account_transfers` publishes, each in the way that the documentation of its store describes.

A reader notes each state that it finds, and whether it is the result of a prefix of the input.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import pathlib
import re
import sqlite3
import threading
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

from support.io.account_transfers import are_of_a_prefix
from support.programs.running_program import PATIENCE

_numbers = itertools.count()

# What a test publishes behind the program's messages.
_END = b"end"

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


class Redis(Tables):
    kind = "redis"

    def state(self, name: str) -> tuple[Any, bool] | None:
        import redis

        with contextlib.closing(redis.Redis.from_url(self.where)) as client:
            # One command, so one state.
            found = client.mget([f"{name}:{account}" for account in range(100)])
        return (tuple(found), sum(int(total) for total in found if total) == 0) if any(found) else None


class RedisStream(Tables):
    kind, computed = "redis stream", "entries"

    def __init__(self, where: str) -> None:
        super().__init__(where)
        self._found: dict[str, list[Entry]] = {name: [] for name in self.names}
        self._last = dict.fromkeys(self.names, "-")

    def state(self, name: str) -> tuple[Any, bool] | None:
        import redis

        with contextlib.closing(redis.Redis.from_url(self.where, decode_responses=True)) as client:
            # One command, which returns what was added since the last.
            found = client.xrange(name, self._last[name])
        if found:
            self._last[name] = f"({found[-1][0]}"
            self._found[name] += [json.loads(fields["entry"]) for _, fields in found]
        return (len(self._found[name]), are_of_a_prefix(self._found[name])) if found else None


class Iceberg(Tables):
    kind = "iceberg"

    def state(self, name: str) -> tuple[Any, bool] | None:
        from pyiceberg.catalog import load_catalog
        from pyiceberg.exceptions import NoSuchTableError

        uri = f"sqlite:///{self.where}/catalog.db"
        catalog = load_catalog("default", type="sql", uri=uri, warehouse=self.where)
        try:
            table = catalog.load_table(f"bank.{name}")
        except NoSuchTableError:
            return None
        snapshot = table.current_snapshot()
        if snapshot is None:
            return None
        totals = table.scan(snapshot_id=snapshot.snapshot_id).to_arrow()["total"].to_pylist()
        return snapshot.snapshot_id, sum(totals) == 0


class Delta(Tables):
    kind = "delta"

    def state(self, name: str) -> tuple[Any, bool] | None:
        import deltalake
        from deltalake.exceptions import TableNotFoundError

        try:
            table = deltalake.DeltaTable(f"{self.where}/{name}")
        except TableNotFoundError:
            return None
        return table.version(), sum(table.to_pyarrow_table()["total"].to_pylist()) == 0


class Files(Tables):
    """Reader that waits until the staging directories of an epoch are removed: all its files are there then."""

    def state(self, name: str) -> tuple[Any, bool] | None:
        directory = pathlib.Path(self.where)
        begun = {self._epoch(path.name) for path in directory.glob(f"{name}-*")}
        staging = {self._epoch(path.name) for path in directory.glob(f".{name}.penstock-*")}
        whole = begun - staging
        lines = [
            json.loads(line)
            for path in directory.glob(f"{name}-*")
            if self._epoch(path.name) in whole
            for line in path.read_text().splitlines()
        ]
        return (frozenset(whole), self.is_prefix(lines)) if whole else None

    def _epoch(self, name: str) -> str:
        found = re.search(r"-(\d{8}-[0-9a-f]+)", name)
        assert found is not None, name
        return found[1]

    def is_prefix(self, lines: Sequence[Any]) -> bool:
        """Return True if the lines of some files are the result of a prefix."""
        raise NotImplementedError


class ChangelogFiles(Files):
    kind = "changelog"

    def is_prefix(self, lines: Sequence[Any]) -> bool:
        return 0 == sum({"+": 1, "-": -1}[line["op"]] * line["value"]["total"] for line in lines)


class TextFiles(Files):
    kind, computed = "text", "entries"

    def is_prefix(self, lines: Sequence[Any]) -> bool:
        return are_of_a_prefix(lines)


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
                for place in sorted({*gaps, *(max(n for n in offsets if n < end) for end in seen), offsets[-1]}):
                    before = own[: offsets.index(place) + 1]
                    states[partition, place] = self.is_prefix(before)

    def is_prefix(self, messages: Sequence[Any]) -> bool:
        """Return True if the records of a partition, from its beginning, are the result of a prefix."""
        found = sorted(json.loads(message.value()) for message in messages)
        numbers = sorted({number for number, _ in found})
        return found == [[number, sign] for number in numbers for sign in (-1, 1)]


class KafkaUpserts(Kafka):
    kind, computed = "kafka upsert", "balances"

    def is_prefix(self, messages: Sequence[Any]) -> bool:
        latest = {message.key(): message.value() for message in messages}
        return 0 == sum(json.loads(value) for value in latest.values() if value is not None)


class KafkaChanges(Kafka):
    kind, computed = "kafka changelog", "balances"

    def is_prefix(self, messages: Sequence[Any]) -> bool:
        signs = [int(dict(message.headers())["penstock-sign"]) for message in messages]
        return 0 == sum(sign * json.loads(message.value()) for sign, message in zip(signs, messages, strict=True))


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


class Mqtt(Messages):
    """Subscriber, which drops doubles by their ids."""

    kind = "mqtt"

    def __init__(self, broker: Any) -> None:
        super().__init__(broker.url)
        self._broker = broker
        self._client: Any = None
        self._found: dict[str, list[tuple[str, bytes]]] = {name: [] for name in self.names}
        self._ended = {name: threading.Event() for name in self.names}

    def prepare(self, workers: int) -> None:
        super().prepare(workers)
        subscribed = threading.Event()
        self._client = self._broker.client()
        self._client.on_message = self._came
        self._client.on_subscribe = lambda *_: subscribed.set()
        self._client.subscribe([(name, 1) for name in self.names])
        assert subscribed.wait(PATIENCE)

    def _came(self, client: Any, data: Any, message: Any) -> None:
        if message.payload == _END:
            self._ended[message.topic].set()
        else:
            ids = dict(message.properties.UserProperty)
            self._found[message.topic].append((ids["penstock-id"], message.payload))

    def look(self) -> None:
        for name, states in self.states.items():
            states[len(self._found[name])] = True

    def messages(self, name: str) -> Iterable[tuple[str, bytes]]:
        return list(self._found[name])

    def end(self) -> None:
        # The broker has all messages of the program, and delivers those of a topic in order.
        for name, ended in self._ended.items():
            self._broker.publish(name, [_END])
            assert ended.wait(PATIENCE)
        self._client.disconnect()
        self._client.loop_stop()
        super().end()
