"""Digests of entries are equal for equal entries."""

from __future__ import annotations

import copy
from decimal import Decimal
from typing import Any

import pytest

from penstock.runners.execution.inspection import entry_join
from penstock.runners.execution.inspection.entries import CELL, StateEntry, StoredRecord
from penstock.runners.execution.inspection.entry_join import shown_key
from penstock.windowing import GLOBAL_WINDOW, IntervalWindow


class Reader:
    """A reader of entries that are no plain records."""

    def __init__(self, *entries: StateEntry) -> None:
        self.entries = entries

    def stored_records(self) -> Any:
        return [StoredRecord(entry.step, "windows", 0, entry) for entry in self.entries]

    def entries_of(self, found: Any) -> Any:
        return [found.record]


def digested(key: Any = "key", value: Any = 1, window: Any = GLOBAL_WINDOW) -> entry_join.Digested:
    """The digests of an entry."""
    reader: Any = Reader(StateEntry("Step", CELL, "last", key, window, value))
    (found,) = entry_join.digests(reader)
    return found


VALUES = [None, True, 1, 1.0, "1", b"1", (1,), [1], {"1": 1}, {1: "1"}, Decimal(1), (Decimal(1),), [Decimal(1)]]


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_values_differ_from_those_of_other_types_and_equal_their_copies(value: Any) -> None:
    """Plain data is digested as `marshal` has it, and all else as its text."""
    assert digested(value=value).value == digested(value=copy.deepcopy(value)).value
    others = [other for other in VALUES if repr(other) != repr(value)]
    alike = [other for other in others if digested(value=other).value == digested(value=value).value]
    # A list of values that are no plain data is written as a tuple is.
    assert [] == [other for other in alike if type(other) not in (list, tuple)]


def test_sets_are_digested_in_an_order_of_their_own() -> None:
    """Whatever was added first."""
    one, other = {8, 0}, {0, 8}
    assert list(one) != list(other)
    assert digested(value=one).value == digested(value=other).value


def test_a_part_that_is_shared_is_as_one_that_is_there_twice() -> None:
    """As it may be in one of two checkpoints."""
    part = ("a", 1)
    assert digested(value=[part, part]).value == digested(value=[("a", 1), ("a", int("1"))]).value


def test_keys_and_windows_tell_entries_apart() -> None:
    """Also keys that are no plain data, and keys of other types."""
    places = [
        (key, window) for key in ("1", 1, Decimal(1), ("1", 1)) for window in (GLOBAL_WINDOW, IntervalWindow(0, 1))
    ]
    assert len(places) == len({digested(key, window=window).identity for key, window in places})
    assert digested(("a", Decimal(1))).identity == digested(("a", Decimal(1))).identity


def test_long_keys_are_cut() -> None:
    """They are shown only."""
    assert 80 == len(shown_key(digested("a" * 1000).key))
    assert '"key"' == shown_key(digested().key)
    assert '["a",1]' == shown_key(digested(("a", 1)).key)
