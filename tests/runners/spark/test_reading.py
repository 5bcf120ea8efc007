"""The division of files among Spark's tasks."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import penstock as beam
from penstock.runners.spark import SparkBatchRunner
from penstock.testing import assert_that

LINES = [f"line {number}" for number in range(200_000)]


def with_task(line: str) -> tuple[int, int]:
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None
    return context.partitionId(), int(line.removeprefix("line "))


def read_by(tasks: int) -> Callable[[list[tuple[int, tuple[int, int]]]], None]:
    """Checks the number of tasks that have read lines, and the lines."""

    def check(found: list[tuple[int, tuple[int, int]]]) -> None:
        counts = [count for _, (count, _) in found]
        assert (tasks, len(LINES)) == (len(counts), sum(counts))
        assert sum(range(len(LINES))) == sum(total for _, (_, total) in found)

    return check


@pytest.mark.parametrize(("name", "tasks"), [("lines.txt", 2), ("lines.txt.gz", 1)])
def test_a_file_is_read_by_as_many_tasks_as_there_are_cores(spark: Any, tmp_path: Path, name: str, tasks: int) -> None:
    """Files are read in byte ranges, each line once; compressed files can't be split."""
    text = "".join(f"{line}\n" for line in LINES).encode()
    (tmp_path / name).write_bytes(gzip.compress(text) if name.endswith(".gz") else text)

    with beam.Pipeline(SparkBatchRunner(spark_session=spark)) as p:
        read = (
            p
            | beam.io.ReadFromText(tmp_path / name)
            | beam.Map(with_task)
            | beam.CombinePerKey(
                beam.combiners.TupleCombineFn(beam.combiners.CountCombineFn(), sum).with_common_input()
            )
        )
        assert_that(read, read_by(tasks))
