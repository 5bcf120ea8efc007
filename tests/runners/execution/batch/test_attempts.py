"""Tasks that are executed again: what is penstock's is the same, and what differs is never mixed."""

from __future__ import annotations

import random
import re
import uuid
from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from support.runners.batch_execution import BatchInThisProcess
from support.runners.segments import MemorySink

import penstock as beam
from penstock.runners.execution.batch.segment_results import MOST_REPETITIONS
from penstock.sdk.errors import RunnerError

NUMBERS = 400


def numbers(p: beam.Pipeline) -> beam.PCollection[int]:
    return p | "Numbers" >> beam.Create(range(NUMBERS))


def spread(n: int) -> tuple[str, int]:
    return "key", n


DERIVED: dict[str, Callable[[beam.PCollection[int]], Any]] = {
    "hot key fanout": lambda n: n | beam.Map(spread) | beam.CombinePerKey(sum).with_hot_key_fanout(16),
    "fanout": lambda n: n | beam.CombineGlobally(sum).with_fanout(16),
    "reshuffle": lambda n: n | beam.Reshuffle(),
    "reshuffle behind a grouping": lambda n: (
        n | beam.Map(lambda n: (n % 7, n)) | beam.GroupByKey() | beam.FlatMap(lambda group: group[1]) | beam.Reshuffle()
    ),
    "sharded keys": lambda n: n | beam.Map(spread) | beam.GroupIntoBatches.WithShardedKey(10),
    "length buckets": lambda n: (
        n | beam.Map(str) | beam.ParDo(beam.transforms.util.WithLengthBucketKey(len, [2, 3])) | beam.GroupByKey()
    ),
    "buffered batches": lambda n: n | beam.BatchElements(8, 8, max_batch_duration_secs=1000),
    "positions in a group": lambda n: (
        n
        | beam.Map(lambda n: (n % 3, n))
        | beam.GroupByKey()
        | beam.FlatMap(lambda group: [(place, n) for place, n in enumerate(group[1])])
        | "Again" >> beam.GroupByKey()
    ),
}


@pytest.mark.parametrize("name", DERIVED)
def test_tasks_that_are_executed_again_send_the_same(name: str) -> None:
    """Although blocks arrive in another order, the process's random numbers are others, and the state is new."""

    def execution(seed: int) -> dict[tuple[int, int], list[Any]]:
        random.seed(seed)
        sink = MemorySink()
        p = beam.Pipeline()
        _ = DERIVED[name](numbers(p)) | "Write" >> beam.io.Write(sink)
        run = BatchInThisProcess(p, 4, order=Random(seed))
        run.run()
        # The tokens of a sink, and of attempts that have written to it, differ.
        return {
            task: [(where, *row) for where, *row in rows if where[0] in ("grouping", "stored", "side")]
            for task, rows in run.made.items()
            if "Write" not in run.program.segments[task[0]].sinks
        }

    expected, actual = execution(1), execution(2)
    assert any(expected.values())
    assert expected == actual


class Mixed:
    """A run that loses the output of tasks of its first segment when it is read for the second time.

    Args:
      times: how often.
    """

    def __init__(self, times: int, segment: int = 0) -> None:
        self._times = times
        self._segment = segment

    def __call__(self, segment: int, partition: int, read: int) -> bool:
        if segment != self._segment or partition != 0 or read % 2 or not self._times:
            return False
        self._times -= 1
        return True


def random_groups(p: beam.Pipeline, sink: MemorySink) -> None:
    _ = (
        numbers(p)
        | "Random" >> beam.Map(lambda n: (random.randrange(1000), n))
        | beam.GroupByKey()
        | beam.FlatMap(lambda group: group[1])
        | "Write" >> beam.io.Write(sink)
    )


@pytest.mark.parametrize("times", [0, 1, MOST_REPETITIONS])
def test_segments_run_again_until_they_have_read_one_attempt(times: int) -> None:
    """Each number is written once, although half of the second segment's tasks have read another attempt."""
    sink = MemorySink()
    p = beam.Pipeline()
    random_groups(p, sink)
    run = BatchInThisProcess(p, 2, Mixed(times))
    run.run()

    assert list(range(NUMBERS)) == sorted(sink.values)
    assert {0: 1 + times, 1: 1 + times} == run.runs


def test_a_run_whose_attempts_are_mixed_again_and_again_fails_and_names_the_segment() -> None:
    """Nothing is committed."""
    sink = MemorySink()
    p = beam.Pipeline()
    random_groups(p, sink)
    with pytest.raises(
        RunnerError, match=f"Random.*: in each of {MOST_REPETITIONS + 1} runs one of its tasks was computed again"
    ):
        BatchInThisProcess(p, 2, Mixed(MOST_REPETITIONS + 1)).run()
    assert [] == sink.values


def test_a_task_that_sends_the_same_again_makes_nothing_run_again() -> None:
    """A deterministic pipeline costs no more than Spark's own repetition."""
    sink = MemorySink()
    p = beam.Pipeline()
    _ = numbers(p) | beam.Map(lambda n: (n % 9, n)) | beam.CombinePerKey(sum) | "Write" >> beam.io.Write(sink)
    run = BatchInThisProcess(p, 2, Mixed(100))
    run.run()

    assert sum(range(NUMBERS)) == sum(total for _, total in sink.values)
    assert {0: 1, 1: 1} == run.runs


class _Failing(BatchInThisProcess):
    """Its first job fails as one of Spark's does whose last stage can't be repeated."""

    has_failed = False

    def _collect(self, numbers: Any) -> Any:
        if not self.has_failed:
            self.has_failed = True
            raise RuntimeError("Job aborted: A shuffle map stage with indeterminate output was failed and retried.")
        return super()._collect(numbers)


def test_a_segment_that_spark_has_given_up_runs_again() -> None:
    """Spark compares the outputs of DataFrames' stages by itself."""
    sink = MemorySink()
    p = beam.Pipeline()
    random_groups(p, sink)
    run = _Failing(p, 2)
    run.run()

    assert list(range(NUMBERS)) == sorted(sink.values)
    assert {0: 1, 1: 2} == run.runs


IDS = 50


def identified(p: beam.Pipeline) -> beam.PCollection[tuple[int, str]]:
    return p | "Numbers" >> beam.Create(range(IDS)) | "Id" >> beam.Map(lambda n: (n, uuid.uuid4().hex))


def test_a_sink_and_one_behind_a_grouping_get_the_same_ids() -> None:
    """The driver has kept what the first sink has staged when the task's output is lost."""
    one, other = MemorySink(), MemorySink()
    p = beam.Pipeline()
    ids = identified(p)
    _ = ids | "One" >> beam.io.Write(one)
    _ = ids | beam.GroupByKey() | beam.FlatMap(lambda g: [(g[0], id) for id in g[1]]) | "Other" >> beam.io.Write(other)
    run = BatchInThisProcess(p, 2, Mixed(1))
    run.run()

    assert IDS == len(one.values)
    assert sorted(one.values) == sorted(other.values)
    assert {0: 2, 1: 2} == run.runs


def test_a_side_input_and_a_sink_get_the_same_ids() -> None:
    """The driver has kept the side input when the task's output is lost."""
    one, other = MemorySink(), MemorySink()
    p = beam.Pipeline()
    ids = identified(p)
    grouped = ids | beam.GroupByKey() | beam.FlatMap(lambda g: [(g[0], id) for id in g[1]])
    _ = grouped | "One" >> beam.io.Write(one)
    looked_up = beam.Map(lambda n, table: (n, table[n]), beam.pvalue.AsDict(ids))
    _ = p | "Keys" >> beam.Create(range(IDS)) | looked_up | "Other" >> beam.io.Write(other)
    BatchInThisProcess(p, 2, Mixed(1, _segment_of(p, "Id"))).run()

    assert IDS == len(one.values)
    assert sorted(one.values) == sorted(other.values)


def test_a_stored_pcollection_is_of_one_attempt() -> None:
    """It is stored for a stage that waits for its side input, and also grouped."""
    one, other = MemorySink(), MemorySink()
    p = beam.Pipeline()
    ids = identified(p)
    total = ids | beam.GroupByKey() | beam.combiners.Count.Globally()
    waiting = ids | "Wait" >> beam.Map(lambda pair, total: pair, beam.pvalue.AsSingleton(total))
    _ = waiting | "One" >> beam.io.Write(one)
    grouped = ids | "Regroup" >> beam.GroupByKey() | beam.FlatMap(lambda g: [(g[0], id) for id in g[1]])
    _ = grouped | "Other" >> beam.io.Write(other)
    lost = Mixed(1, _segment_of(p, "Id"))
    run = BatchInThisProcess(p, 2, lost)
    run.run()

    assert any(segment.stores for segment in run.program.segments)
    assert IDS == len(one.values)
    assert sorted(one.values) == sorted(other.values)


def _segment_of(p: beam.Pipeline, label: str) -> int:
    (number,) = (i for i, s in enumerate(BatchInThisProcess(p).program.segments) if re.search(rf"\b{label}\b", s.label))
    return number
