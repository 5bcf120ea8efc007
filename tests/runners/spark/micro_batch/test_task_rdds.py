"""Shards that come back to their workers, and shuffles in between."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest

from penstock.runners.spark.micro_batch import task_rdds as shard_chain
from penstock.runners.spark.micro_batch.task_rdds import SHARD_VARIABLE, Row, ShardChain, ShardTask

SHARDS = 3


def telling(shard: int) -> ShardTask:
    """A first level: each shard tells every shard its number and process."""

    def task(rows: Iterable[bytes]) -> Iterator[Row]:
        assert [b""] == list(rows)
        for target in range(SHARDS):
            yield target, f"{shard} {os.getpid()}".encode()

    return task


def hearing(shard: int) -> ShardTask:
    """A second one: what a shard was told, and its own process."""

    def task(rows: Iterable[bytes]) -> Iterator[Row]:
        told = sorted(row.decode() for row in rows)
        yield shard, repr((shard, os.getpid(), told)).encode()

    return task


@pytest.fixture
def run(spark: Any) -> Callable[[], list[Any]]:
    """`run()` is two levels: by shard its process, and what it was told."""

    def run() -> list[Any]:
        chain = ShardChain(spark.sparkContext, SHARDS)
        chain.level(telling, "telling")
        chain.level(hearing, "hearing")
        return sorted(eval(row.decode()) for row in chain.collect())

    return run


def test_a_shard_comes_back_to_its_process(run: Callable[[], list[Any]]) -> None:
    """In each level of each job; and no two shards have the same."""
    first, second = run(), run()

    processes = {shard: process for shard, process, _ in first}
    assert SHARDS == len(set(processes.values()))
    told = [f"{shard} {process}" for shard, process in processes.items()]
    assert [(shard, process, told) for shard, process in processes.items()] == first == second


def test_shards_beyond_the_most_share_workers(run: Callable[[], list[Any]], monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is sent what is for it all the same."""
    monkeypatch.setattr(shard_chain, "MOST_OWN", 2)

    found = run()
    assert list(range(SHARDS)) == [shard for shard, _, _ in found]
    assert [["0", "1", "2"]] * SHARDS == [[one.split()[0] for one in told] for _, _, told in found]


def test_the_sessions_other_jobs_dont_see_the_variable(run: Callable[[], list[Any]], spark: Any) -> None:
    """The environment is put back."""
    run()
    seen = spark.sparkContext.parallelize([0], 1).map(lambda _: os.environ.get(SHARD_VARIABLE)).collect()
    assert [None] == seen
