"""Pipelines on a cluster that loses executors: `python lossy_program.py NAME --directory=DIR --kill_at=5 FLAGS`.

User code calls `Losses.tick`.  When the given number of tasks have ticked, the executor of the last one is killed; or
its shuffle files and cached blocks are removed; or the task fails, or takes long.  Each pipeline writes into the
directory, and `expected` says what it has to write.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import random
import signal
import sqlite3
import sys
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Any

import attrs

import penstock as beam
from penstock.options.pipeline_options import PipelineOptions

PARTS = 8

# The tasks that have ticked in this process.
_ticked: set[int] = set()


@attrs.frozen
class Losses:
    """What is lost during a run, and when.

    Attributes:
      directory: of the run; each loss leaves a file in its `losses`.
      plan: by the number of tasks that have ticked, what is lost: "executor", "files", "task" or "time".
    """

    directory: str
    plan: tuple[tuple[int, str], ...]

    def tick(self) -> None:
        """Note the task, at its first call; lose what is to be lost now."""
        from pyspark import TaskContext

        context = TaskContext.get()
        if context is None or context.taskAttemptId() in _ticked:
            return
        _ticked.add(context.taskAttemptId())
        place = pathlib.Path(self.directory)
        with suppress(FileExistsError):
            name = f"{context.stageId()}-{context.partitionId()}-{context.attemptNumber()}"
            os.close(os.open(place / "tasks" / name, os.O_CREAT | os.O_EXCL))
        number = len(list((place / "tasks").iterdir()))
        for at, kind in self.plan:
            with suppress(FileExistsError):
                if number >= at:
                    os.close(os.open(place / "losses" / f"{at}-{kind}", os.O_CREAT | os.O_EXCL))
                    _lose(kind)


def _lose(kind: str) -> None:
    if kind == "time":
        # Speculation begins another attempt meanwhile.
        time.sleep(4)
        return
    if kind == "task":
        raise ConnectionError("the task fails once")
    if kind == "files":
        for directory in os.environ["SPARK_LOCAL_DIRS"].split(","):
            for file in [*pathlib.Path(directory).rglob("shuffle_*"), *pathlib.Path(directory).rglob("rdd_*")]:
                file.unlink(missing_ok=True)
        return
    # The daemon that has forked this worker is a child of the executor.
    os.kill(parent_of(os.getppid()), signal.SIGKILL)
    os._exit(1)


def parent_of(pid: int) -> int:
    """Return the parent of a process."""
    return int(pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


class Sum(beam.CombineFn):
    """Sums."""

    def __init__(self, losses: Losses) -> None:
        self._losses = losses

    def create_accumulator(self) -> int:
        return 0

    def add_input(self, accumulator: int, element: int) -> int:
        return accumulator + element

    def merge_accumulators(self, accumulators: Iterable[int]) -> int:
        self._losses.tick()
        return sum(accumulators)

    def extract_output(self, accumulator: int) -> int:
        self._losses.tick()
        return accumulator


class Program:
    """One pipeline on the numbers below `size`.

    Attributes:
      broker: the address of a Kafka broker, for the pipeline that needs one.
    """

    def __init__(self, size: int, losses: Losses, broker: str) -> None:
        self.size = size
        self.losses = losses
        self.broker = broker

    def numbers(self, p: beam.Pipeline) -> beam.PCollection[int]:
        """Return the numbers, from several tasks."""
        size = self.size

        def of_part(part: int) -> Iterator[int]:
            yield from range(part, size, PARTS)

        return p | "Parts" >> beam.Create(range(PARTS)) | "Numbers" >> beam.FlatMap(of_part)

    def ticking(self, name: str) -> beam.PTransform:
        """Return the identity, which ticks."""
        losses = self.losses

        def same(element: Any) -> Any:
            losses.tick()
            return element

        return name >> beam.Map(same)

    def write(self, name: str) -> beam.PTransform:
        """Return a sink of lines."""
        return f"Write {name}" >> beam.io.WriteToText(os.path.join(self.losses.directory, name), ".txt")

    def hot_key_fanout(self, p: beam.Pipeline) -> None:
        """The sum of one key, in parts."""
        summed = beam.CombinePerKey(Sum(self.losses)).with_hot_key_fanout(64)
        _ = self.numbers(p) | beam.Map(lambda n: ("key", n)) | summed | beam.Map(str) | self.write("sums")

    def fanout(self, p: beam.Pipeline) -> None:
        """The sum of all, in parts."""
        summed = beam.CombineGlobally(Sum(self.losses)).with_fanout(64)
        _ = self.numbers(p) | summed | beam.Map(str) | self.write("sums")

    def reshuffled(self, p: beam.Pipeline) -> None:
        """Elements that are redistributed behind a grouping."""
        _ = (
            self.numbers(p)
            | beam.Map(lambda n: (n % 1000, n))
            | beam.GroupByKey()
            | beam.FlatMap(lambda group: sorted(group[1]))
            | "Group" >> self.ticking("Tick group")
            | beam.Reshuffle()
            | self.ticking("Tick")
            | beam.Map(str)
            | self.write("numbers")
        )

    def ids(self, p: beam.Pipeline) -> None:
        """Random ids, written by one sink and, behind a grouping, by another."""
        losses = self.losses

        def identified(n: int) -> tuple[int, str]:
            losses.tick()
            return n, uuid.uuid4().hex

        ids = self.numbers(p) | beam.Map(identified)
        _ = ids | "Line" >> beam.MapTuple(lambda n, id: f"{n} {id}") | self.write("ids")
        _ = (
            ids
            | beam.Map(lambda pair: (pair[0] % 100, pair))
            | beam.GroupByKey()
            | self.ticking("Tick")
            | beam.FlatMap(lambda group: [f"{n} {id}" for n, id in group[1]])
            | self.write("grouped")
        )

    def random_buckets(self, p: beam.Pipeline) -> None:
        """Elements under random keys, grouped twice."""
        shuffled = self.numbers(p) | beam.Map(lambda n: (random.randrange(500), n)) | "First" >> beam.GroupByKey()
        again = shuffled | beam.FlatMap(lambda group: [(random.randrange(500), n) for n in group[1]])
        _ = (
            again
            | self.ticking("Tick first")
            | "Second" >> beam.GroupByKey()
            | self.ticking("Tick")
            | "Flat" >> beam.FlatMap(lambda group: group[1])
            | beam.Map(str)
            | self.write("numbers")
        )

    def side_input(self, p: beam.Pipeline) -> None:
        """Random ids as a side input, and written."""
        losses = self.losses

        def identified(n: int) -> tuple[int, str]:
            losses.tick()
            return n, uuid.uuid4().hex

        def joined(n: int, table: dict[int, str]) -> str:
            losses.tick()
            return f"{n} {table[n]}"

        few = self.numbers(p) | beam.Filter(lambda n: n % 10 == 0)
        ids = few | beam.Map(identified)
        _ = ids | "Line" >> beam.MapTuple(lambda n, id: f"{n} {id}") | self.write("ids")
        _ = (
            ids
            | beam.Map(lambda pair: (pair[0] % 100, pair[0]))
            | beam.GroupByKey()
            | beam.FlatMap(lambda group: group[1])
            | beam.Map(joined, beam.pvalue.AsDict(ids))
            | self.write("joined")
        )

    def length_buckets(self, p: beam.Pipeline) -> None:
        """Lists of elements of similar length, under the keys of their workers."""
        keyed = beam.ParDo(beam.transforms.util.WithLengthBucketKey(len, [2, 3, 4, 5]))
        _ = (
            self.numbers(p)
            | beam.Map(str)
            | keyed
            | self.ticking("Tick key")
            | beam.GroupIntoBatches(100)
            | self.ticking("Tick")
            | beam.FlatMap(lambda batch: batch[1])
            | self.write("numbers")
        )

    def shards(self, p: beam.Pipeline) -> None:
        """Lists of a hot key's values, in shards."""
        _ = (
            self.numbers(p)
            | beam.Map(lambda n: ("key", n))
            | beam.GroupIntoBatches.WithShardedKey(100)
            | self.ticking("Tick")
            | beam.FlatMap(lambda batch: map(str, batch[1]))
            | beam.Map(lambda line: (int(line) % 100, line))
            | beam.GroupByKey()
            | self.ticking("Tick again")
            | "Lines" >> beam.FlatMap(lambda group: group[1])
            | self.write("numbers")
        )

    def sql(self, p: beam.Pipeline) -> None:
        """Random ids in two tables."""
        losses = self.losses

        def identified(n: int) -> dict[str, Any]:
            losses.tick()
            return {"n": n, "id": uuid.uuid4().hex}

        path = os.path.join(losses.directory, "out.db")
        ids = self.numbers(p) | beam.Map(identified)
        _ = ids | "Write ids" >> beam.io.WriteToSQLite(path, "ids", ["n"], ["n", "id"])
        _ = (
            ids
            | beam.Map(lambda row: (row["n"] % 100, row))
            | beam.GroupByKey()
            | self.ticking("Tick")
            | beam.FlatMap(lambda group: group[1])
            | "Write grouped" >> beam.io.WriteToSQLite(path, "grouped", ["n"], ["n", "id"])
        )

    def kafka(self, p: beam.Pipeline) -> None:
        """Random ids in a topic, and in a file."""
        losses = self.losses

        def identified(n: int) -> tuple[bytes, bytes]:
            losses.tick()
            return str(n).encode(), uuid.uuid4().hex.encode()

        ids = self.numbers(p) | beam.Map(identified)
        _ = ids | beam.io.WriteToKafka({"bootstrap.servers": self.broker}, topic=self.topic)
        _ = (
            ids
            | beam.GroupByKey()
            | self.ticking("Tick")
            | beam.FlatMap(lambda group: [f"{group[0].decode()} {id.decode()}" for id in group[1]])
            | self.write("grouped")
        )

    @property
    def topic(self) -> str:
        """The topic of the run."""
        return pathlib.Path(self.losses.directory).name

    def lines(self, name: str) -> list[str]:
        """Return the lines of a sink, sorted."""
        files = pathlib.Path(self.losses.directory).glob(f"{name}-*.txt")
        return sorted(line for file in files for line in file.read_text().splitlines())

    def rows(self, table: str) -> list[str]:
        """Return the rows of a table as lines, sorted."""
        with sqlite3.connect(os.path.join(self.losses.directory, "out.db")) as connection:
            return sorted(f"{n} {id}" for n, id in connection.execute(f"SELECT n, id FROM {table}"))

    def records(self) -> list[str]:
        """Return the committed records of the topic as lines, sorted."""
        from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

        consumer = Consumer({"bootstrap.servers": self.broker, "group.id": self.topic, "enable.partition.eof": "true"})
        partitions = consumer.list_topics(self.topic, 30).topics[self.topic].partitions
        consumer.assign([TopicPartition(self.topic, each, OFFSET_BEGINNING) for each in partitions])
        found, ended = [], 0
        while ended < len(partitions):
            message = consumer.poll(30.0)
            assert message is not None, "the broker does not answer"
            if message.error():
                ended += 1
            else:
                found.append(f"{message.key().decode()} {message.value().decode()}")
        consumer.close()
        return sorted(found)

    def wrong(self, name: str) -> str:
        """Compare what a pipeline has written with what it had to.  Return the difference; "" for none."""
        everything = sorted(map(str, range(self.size)))
        if name in ("hot_key_fanout", "fanout"):
            total = sum(range(self.size))
            return _difference([str(("key", total) if name == "hot_key_fanout" else total)], self.lines("sums"))
        if name in ("ids", "sql", "kafka", "side_input"):
            if name == "side_input":
                everything = sorted(map(str, range(0, self.size, 10)))
            one, other = {
                "ids": lambda: (self.lines("ids"), self.lines("grouped")),
                "sql": lambda: (self.rows("ids"), self.rows("grouped")),
                "kafka": lambda: (self.records(), self.lines("grouped")),
                "side_input": lambda: (self.lines("ids"), self.lines("joined")),
            }[name]()
            numbers = sorted(line.partition(" ")[0] for line in one)
            return _difference(everything, numbers) or _difference(one, other)
        return _difference(everything, self.lines("numbers"))


PIPELINES = (
    *("hot_key_fanout", "fanout", "reshuffled", "ids", "random_buckets", "side_input", "length_buckets", "shards"),
    *("sql", "kafka"),
)


def _difference(expected: list[str], actual: list[str]) -> str:
    lost, more = Counter(expected) - Counter(actual), Counter(actual) - Counter(expected)
    if not lost and not more:
        return ""
    examples = [*list(lost)[:2], *list(more)[:2]]
    return f"{lost.total()} of {len(expected)} are missing, {more.total()} are too many: {examples}"


def main() -> None:
    """Run a pipeline to the end."""
    parser = argparse.ArgumentParser()
    parser.add_argument("name", choices=PIPELINES)
    parser.add_argument("--directory")
    parser.add_argument("--size", type=int)
    parser.add_argument("--broker", default="")
    parser.add_argument("--lose", action="append", default=[], help="such as 5:executor")
    ours, flags = parser.parse_known_args()
    for each in ("tasks", "losses"):
        pathlib.Path(ours.directory, each).mkdir(parents=True, exist_ok=True)
    plan = [each.split(":") for each in ours.lose]
    losses = Losses(ours.directory, tuple((int(at), kind) for at, kind in plan))
    build: Callable[[beam.Pipeline], None] = getattr(Program(ours.size, losses, ours.broker), ours.name)
    with beam.Pipeline(options=PipelineOptions(flags)) as p:
        build(p)


if __name__ == "__main__":
    sys.exit(main())
