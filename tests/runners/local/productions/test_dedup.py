"""The ids of the records that have arrived on a channel, in memory and spilled."""

from __future__ import annotations

import sys
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.runners.local.productions.dedup import KeptIds, SeenIds


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 60))))
def test_ids_are_new_once(steps: list[tuple[bool, int]]) -> None:
    """Compared with a plain set, in any order of arrivals and collections: two in memory, the rest spilled."""
    seen, known, collected = SeenIds(limit=2), set(), 0
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
    """Of a hundred thousand ids only the ten that may arrive again are remembered."""
    seen = SeenIds()
    for id in range(100_000):
        assert seen.add(id)
        seen.collect(id - 10)

    assert 11 == len(seen)


def test_ids_beyond_the_memory_limit_are_recognised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also after a restart, which begins with the ids of the log; and the disk is used for them."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    seen = SeenIds(limit=100)
    assert all(seen.add(id) for id in range(1_000))
    assert 1 == len(list(tmp_path.glob("penstock-spilled-*")))
    seen.collect(10)
    assert not any(seen.add(id) for id in range(1_000))

    again = SeenIds(seen.kept(), limit=100)

    assert KeptIds(10, tuple(range(10, 1_000))) == seen.kept() == again.kept()
    assert 2 == len(list(tmp_path.glob("penstock-spilled-*")))
    assert not any(again.add(id) for id in range(1_000))
    assert again.add(1_000)


def test_without_rocksdb_all_ids_stay_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """The extra is optional: duplicates are recognised all the same."""
    monkeypatch.setitem(sys.modules, "rocksdict", None)
    seen = SeenIds(limit=100)

    assert all(seen.add(id) for id in range(1_000))
    assert not any(seen.add(id) for id in range(1_000))
    assert 1_000 == len(seen)


def test_an_id_that_comes_out_of_turn_is_new_once() -> None:
    """Deliveries may be delayed, each on its own, and doubled."""
    ids = list(range(200)) * 2
    Random(3).shuffle(ids)
    seen = SeenIds()

    assert 200 == sum(seen.add(id) for id in ids)
