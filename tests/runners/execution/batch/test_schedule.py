"""The order of batch tasks: by the dependencies of segments, and again after the failure of a worker."""

from __future__ import annotations

from typing import Any

import penstock as beam
from penstock.runners.execution.batch.schedule import Schedule
from penstock.runners.execution.plan.fusion import fuse, shrinks
from penstock.runners.execution.plan.segments import Segment, cut


def segments_of_two_sums() -> tuple[Segment, ...]:
    """Two sources, a sum of each, and a Flatten of the sums into a third."""
    p = beam.Pipeline()
    sums = [
        p | f"read {name}" >> beam.Create([(name, 1)]) | f"sum {name}" >> beam.CombinePerKey(sum) for name in ("a", "b")
    ]
    _ = sums | beam.Flatten() | "all" >> beam.CombinePerKey(sum)
    return cut(fuse(p.graph(), shrinks))


def drained(schedule: Schedule, worker: int) -> list[Any]:
    """Take all partitions of a worker's task."""
    taken = []
    while (partition := schedule.next(worker)) is not None:
        taken.append(partition)
    return taken


def test_a_segment_begins_when_those_that_it_needs_are_complete() -> None:
    """Others may be under way at the same time, and each partition is given to one task."""
    segments = segments_of_two_sums()
    schedule = Schedule(segments, lambda number: [0, 1])
    roots = [segment.root.transform.label for segment in segments]  # type: ignore[union-attr]
    order = []
    running: dict[int, int] = {}
    while not schedule.is_over:
        for worker in (0, 1, 2):
            number = schedule.begin(worker)
            if number is not None:
                running[worker] = number
                drained(schedule, worker)
        for worker in list(running):
            order.append(running.pop(worker))
            schedule.complete(worker)
    assert sorted(order) == [0, 1, 2, 3, 4]
    places = {root: order.index(number) for number, root in enumerate(roots)}
    assert places["read a/Values"] < places["sum a"] < places["all"]
    assert places["read b/Values"] < places["sum b"] < places["all"]
    assert schedule.completed[-1] == roots.index("all")


def test_what_a_lost_worker_had_taken_is_given_to_another() -> None:
    """In the order that it had; the segment isn't complete before."""
    schedule = Schedule(segments_of_two_sums()[:1], lambda number: ["x", "y", "z"])
    assert (0, "x", "y") == (schedule.begin(0), schedule.next(0), schedule.next(0))
    assert (0, "z", None) == (schedule.begin(1), schedule.next(1), schedule.next(1))
    schedule.complete(1)
    assert not schedule.is_over
    schedule.lose(0)
    assert schedule.segment_of(0) is None
    assert (0, ["x", "y"]) == (schedule.begin(1), drained(schedule, 1))
    schedule.complete(1)
    assert schedule.is_over


def test_a_segment_whose_last_task_is_lost_without_a_partition_is_complete() -> None:
    """No other worker begins a task of it; the run would wait forever."""
    schedule = Schedule(segments_of_two_sums()[:1], lambda number: ["x"])
    assert (0, 0, "x") == (schedule.begin(0), schedule.begin(1), schedule.next(0))
    schedule.complete(0)
    assert not schedule.is_over
    schedule.lose(1)
    assert schedule.is_over


def test_a_segment_without_partitions_is_complete_at_once() -> None:
    """And so is what needs nothing but such segments."""
    schedule = Schedule(segments_of_two_sums(), lambda number: [])
    assert schedule.is_over
    assert [0, 1, 2, 3, 4] == sorted(schedule.completed)


def test_a_task_takes_adjacent_partitions() -> None:
    """As far from others as possible; the last partitions of the longest run when its own run is over."""
    schedule = Schedule(segments_of_two_sums()[:1], lambda number: range(8))
    workers = (0, 1, 2, 3)
    assert [0] * 4 == [schedule.begin(worker) for worker in workers]
    assert [0, 4, 2, 6] == [schedule.next(worker) for worker in workers]
    assert [1, 5, 3] == [schedule.next(worker) for worker in (0, 1, 2)]
    assert 7 == schedule.next(0)
    assert [None] * 4 == [schedule.next(worker) for worker in workers]


def test_the_partitions_of_a_lost_worker_are_taken_in_their_order() -> None:
    """From the first on, as no task is to continue there."""
    schedule = Schedule(segments_of_two_sums()[:1], lambda number: range(8))
    for worker in (0, 1):
        schedule.begin(worker)
    assert ([0, 4], 1) == ([schedule.next(worker) for worker in (0, 1)], schedule.next(0))
    schedule.lose(0)
    schedule.begin(2)
    assert [0, 1, 2, 3, 6, 7] == [schedule.next(2) for _ in range(6)]
    assert [5, None] == [schedule.next(1), schedule.next(1)]
