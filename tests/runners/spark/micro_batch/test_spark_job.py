"""Subtasks that return to their workers, and the shuffles between them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest

from penstock.runners.spark.micro_batch import spark_job
from penstock.runners.spark.micro_batch.exchange import Row
from penstock.runners.spark.micro_batch.spark_job import RowFunction, SubtaskRdds
from penstock.runners.spark.private import GROUP_VARIABLE

PARALLELISM = 3


def sender(index: int) -> RowFunction:
    """A first task: each subtask sends its index and process to all subtasks."""

    def task(rows: Iterable[bytes]) -> Iterator[Row]:
        assert [b""] == list(rows)
        for target in range(PARALLELISM):
            yield target, f"{index} {os.getpid()}".encode()

    return task


def receiver(index: int) -> RowFunction:
    """A second task: the messages that a subtask has received, and its own process."""

    def task(rows: Iterable[bytes]) -> Iterator[Row]:
        received = sorted(row.decode() for row in rows)
        yield index, repr((index, os.getpid(), received)).encode()

    return task


@pytest.fixture
def run(spark: Any) -> Callable[[], list[Any]]:
    """`run()` runs both tasks and returns each subtask's index, process and messages."""

    def run() -> list[Any]:
        rdds = SubtaskRdds(spark.sparkContext, PARALLELISM)
        rdds.add_task(sender, "sender")
        rdds.add_task(receiver, "receiver")
        return sorted(eval(row.decode()) for row in rdds.collect())

    return run


def test_a_subtask_returns_to_its_process(run: Callable[[], list[Any]]) -> None:
    """In each task of each job; and no two subtasks share one."""
    first, second = run(), run()

    processes = {index: process for index, process, _ in first}
    assert PARALLELISM == len(set(processes.values()))
    received = [f"{index} {process}" for index, process in processes.items()]
    assert [(index, process, received) for index, process in processes.items()] == first == second


def test_more_subtasks_than_worker_groups_share_workers(
    run: Callable[[], list[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each still receives its own messages."""
    monkeypatch.setattr(spark_job, "MAX_WORKER_GROUPS", 2)

    found = run()
    assert list(range(PARALLELISM)) == [index for index, _, _ in found]
    assert [["0", "1", "2"]] * PARALLELISM == [[one.split()[0] for one in received] for _, _, received in found]


def test_the_sessions_other_jobs_dont_see_the_variable(run: Callable[[], list[Any]], spark: Any) -> None:
    """The context's environment is restored."""
    run()
    seen = spark.sparkContext.parallelize([0], 1).map(lambda _: os.environ.get(GROUP_VARIABLE)).collect()
    assert [None] == seen
