"""A source of numbers whose partitions are others than when its offsets were taken."""

from __future__ import annotations

import pickle
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from support.pipelines.unbounded_readers import elements, polled

from penstock.io.generate_sequence import SequenceSource
from penstock.windowing import Timestamp


def source(partitions: int, count: int | None, rate: int | None = 10) -> SequenceSource:
    """Numbers from 0 on, ten a second."""
    return SequenceSource(rate, 1_000_000, 0, count, partitions)


def rescaled(old: SequenceSource, new: SequenceSource, offsets: dict[int, Any]) -> dict[int, Any]:
    """The offsets that the new source goes on with."""
    return dict(new.rescale(old.identity(), pickle.loads(pickle.dumps(offsets))))


@given(
    st.lists(st.tuples(st.integers(1, 6), st.lists(st.integers(0, 9), min_size=6, max_size=6)), min_size=1, max_size=4),
    st.integers(1, 6),
    st.booleans(),
)
def test_each_number_is_read_once_in_order_and_never_late(
    runs: list[tuple[int, list[int]]], last: int, has_rate: bool
) -> None:
    """With any progress of each partition, and any changes of their number."""
    count = 60
    found: list[int] = []
    reached = 0
    before: SequenceSource | None = None
    offsets: dict[int, Any] = {}
    for partitions, wanted in [*runs, (last, [count] * 6)]:
        now = source(partitions, count, 10 if has_rate else None)
        if before is not None:
            offsets = rescaled(before, now, offsets)
        readers = {i: now.open(i, offsets.get(i)) for i in range(partitions)}
        for i, reader in readers.items():
            own: list[int] = []
            while len(own) < wanted[i] and (bundle := reader.poll(min(3, wanted[i] - len(own)), Timestamp(10**6))):
                own += bundle.values
                assert not has_rate or all(micros >= reached for _, micros in elements(bundle))
            assert sorted(own) == own
            found += own
        if has_rate:
            reached = max(reached, min(reader.watermark(Timestamp(10**6)) for reader in readers.values()))
        # A partition that has finished may be closed, and its offset forgotten.
        offsets = {i: None if reader.is_finished() else reader.offset() for i, reader in readers.items()}
        before = now

    assert list(range(count)) == sorted(found)
    assert all(reader.is_finished() for reader in readers.values())


def test_what_was_left_is_read_in_micro_batches_too() -> None:
    """Each batch up to the offset that the driver gave."""
    old, new = source(3, 40), source(2, 40)
    offsets = rescaled(old, new, {0: (0, 0), 1: (31, 0), 2: (14, 0)})
    read = []
    for i in range(2):
        planner = new.open(i, offsets[i])
        start = offsets[i]
        while (end := planner.admit(3, None, Timestamp(100))) != start:
            executor = new.open(i, pickle.loads(pickle.dumps(start)))
            read += [value for bundle in executor.read_to(end, Timestamp(100)) for value in bundle.values]
            assert end == executor.offset()
            start = end

    assert sorted([*range(0, 40, 3), 31, 34, 37, *range(14, 40, 3)]) == sorted(read)


def test_a_sequence_that_stops_later_goes_on_also_in_partitions_that_had_finished() -> None:
    """Their offsets are gone, but where they stopped is known."""
    offsets = rescaled(source(2, 9), source(2, 13), {0: None, 1: (3, 0)})

    assert [10, 12] == polled(source(2, 13).open(0, offsets[0]), 100)
    assert [3, 5, 7, 9, 11] == polled(source(2, 13).open(1, offsets[1]), 100)
