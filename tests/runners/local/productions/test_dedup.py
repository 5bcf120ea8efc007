"""The ids of what has come on a channel, and the filter before them."""

from __future__ import annotations

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from penstock.runners.local.productions.bloom_filter import BloomFilter
from penstock.runners.local.productions.dedup import SeenIds


@given(st.sets(st.integers(0, 1 << 64)))
def test_a_filter_never_denies_what_it_holds(numbers: set[int]) -> None:
    """Otherwise a duplicate would be taken for new."""
    seen = BloomFilter(max(1, len(numbers)))
    for number in numbers:
        seen.add(number)

    assert all(number in seen for number in numbers)


def test_a_filter_errs_about_as_often_as_it_may() -> None:
    """Neighbours too: ids are given one after the other."""
    seen = BloomFilter(10_000, error_rate=0.01)
    for number in range(10_000):
        seen.add(number)

    wrong = sum(number in seen for number in range(10_000, 110_000))

    assert 200 < wrong < 2_000


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 60))))
def test_ids_are_new_once(steps: list[tuple[bool, int]]) -> None:
    """Against a plain set: whatever comes and is collected, in any order."""
    seen, known, collected = SeenIds(), set(), 0
    for is_collection, id in steps:
        if is_collection:
            seen.collect(id)
            collected = max(collected, id)
        else:
            assert seen.add(id) == (id >= collected and id not in known)
            known.add(id)
    assert len(seen) == len({id for id in known if id >= collected})


def test_what_was_kept_is_known_again() -> None:
    """After a restart duplicates are still duplicates."""
    seen = SeenIds()
    for id in (5, 6, 9):
        seen.add(id)
    seen.collect(6)

    again = SeenIds(seen.kept())

    assert [False, False, True, False] == [again.add(id) for id in (5, 6, 7, 9)]


def test_memory_stays_small_when_senders_let_go() -> None:
    """A hundred thousand ids, of which ten may come again at any time; the filter is asked, and mostly answers."""
    seen = SeenIds()
    for id in range(100_000):
        assert seen.add(id)
        seen.collect(id - 10)

    assert 11 == len(seen)
    assert seen.lookups < 5_000


def test_an_id_that_comes_out_of_turn_is_new_once() -> None:
    """Deliveries may be delayed, each on its own, and doubled."""
    ids = list(range(200)) * 2
    Random(3).shuffle(ids)
    seen = SeenIds()

    assert 200 == sum(seen.add(id) for id in ids)
