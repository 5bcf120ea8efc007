"""Groups that move to disk."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.execution.groupings import fold_of

import penstock as beam
from penstock.runners.execution.shuffle.reader import receive
from penstock.runners.execution.shuffle.writer import ElementWriter
from penstock.runners.execution.windows.cell_table import WindowOperator
from penstock.runners.execution.windows.spilled_groups import GroupSpill, SpilledValues, SpillFile
from penstock.sdk.elements.bundle import Bundle
from penstock.sdk.errors import LargeGroupError, SerializationError
from penstock.windowing import GLOBAL_WINDOW, IntervalWindow


@given(st.lists(st.lists(st.integers(), max_size=9)), st.integers(1, 5))
def test_values_come_in_the_order_in_which_they_were_added(parts: list[list[int]], chunk: int) -> None:
    """Any number of times, and in loops within loops."""
    values = SpilledValues([], SpillFile(), chunk)
    for part in parts:
        values.extend(part)
    expected = [value for part in parts for value in part]
    assert (expected, expected, len(expected)) == (list(values), list(values), len(values))
    assert [(a, b) for a in expected for b in expected] == [(a, b) for a in values for b in values]


def test_one_group_can_be_added_to_another_of_the_same_file() -> None:
    """While both are read from it."""
    file = SpillFile()
    first, second = SpilledValues(range(10), file, 3), SpilledValues(range(10, 20), file, 3)
    first.extend(second)
    assert (list(range(20)), list(range(10, 20))) == (list(first), list(second))


def test_a_group_travels_as_a_list() -> None:
    """Its file stays here."""
    assert [1, 2, 3] == pickle.loads(pickle.dumps(SpilledValues([1, 2, 3], SpillFile(), 2)))


def test_a_group_has_a_short_repr() -> None:
    """In errors, for example."""
    assert "<3 values, on disk>" == repr(SpilledValues([1, 2, 3], SpillFile(), 2))


@pytest.mark.parametrize(
    ("use", "shown"),
    [
        (lambda values: values[0], "be indexed"),
        (lambda values: values[1:], "be indexed"),
        (reversed, "be reversed"),
        (lambda values: values.sort(), "do .sort() as a list does"),
    ],
)
def test_a_group_is_no_list_and_says_why(use: Any, shown: str) -> None:
    """As a list, it would be in memory; smaller ones are."""
    expected = (
        f"Sum: a group of 1,000 values is too large for the memory of a task (64 MB), and so it is on disk and can't "
        f"{shown}; iterate over it, any number of times, or make a list of it, if memory has room: list(values)"
    )
    with pytest.raises(LargeGroupError) as raised:
        use(SpilledValues(range(1000), SpillFile(), 100, "Sum"))
    assert expected == str(raised.value)


def test_a_group_has_no_other_attributes() -> None:
    """Those that a library asks for are missing, as of any object."""
    values = SpilledValues([1], SpillFile(), 1)
    assert not any(hasattr(values, name) for name in ("sort", "tolist", "__array__"))
    assert 1 in values


def plain(window_fn: Any = None) -> WindowOperator:
    return WindowOperator(fold_of(beam.GroupByKey(), window_fn))


def results(operator: WindowOperator) -> dict[Any, Any]:
    return {row[0][0]: row[0][1] for bundle in operator.flush() for row in bundle.rows()}


def test_large_groups_move_to_disk_and_small_ones_stay() -> None:
    """When the operator holds more than it may."""
    operator = plain()
    spill = GroupSpill(operator, memory_bytes=5_000_000)
    for start in range(0, 100_000, 1000):
        operator.merge(GLOBAL_WINDOW, ["small", "large"], [[start], list(range(start, start + 1000))], [])
        spill.received(1001, 5000)
    groups = results(operator)
    assert (list, SpilledValues) == (type(groups["small"]), type(groups["large"]))
    assert list(range(0, 100_000, 1000)) == groups["small"]
    assert list(range(100_000)) == list(groups["large"])


def test_below_the_limit_nothing_moves() -> None:
    """Lists are faster."""
    operator = plain()
    spill = GroupSpill(operator)
    operator.merge(GLOBAL_WINDOW, ["a"], [list(range(100_000))], [])
    spill.received(100_000, 400_000)
    assert list is type(results(operator)["a"])


def test_few_large_values_move_as_well_as_many_small_ones() -> None:
    """The limit counts bytes."""
    operator = plain()
    spill = GroupSpill(operator, memory_bytes=1 << 20)
    for i in range(40):
        operator.merge(GLOBAL_WINDOW, ["a"], [[bytes([i]) * 100_000]], [])
        spill.received(1, 100_000)
    group = results(operator)["a"]
    assert SpilledValues is type(group)
    assert [bytes([i]) * 100_000 for i in range(40)] == list(group)


def test_groups_of_windows_that_merge_move_too() -> None:
    """Their windows are merged first; a session that grows on goes on in the file."""
    operator = plain(beam.window.Sessions(10))
    spill = GroupSpill(operator, memory_bytes=2_000_000)
    for start in range(0, 60_000, 1000):
        session = IntervalWindow(start % 7, start % 7 + 10), list(range(start, start + 1000)), None
        alone = IntervalWindow(start + 100, start + 110), [start], None
        operator.put_merged(["a", "b"], [session, alone])
        spill.received(1001, 4000)
    rows = [row for bundle in operator.flush() for row in bundle.rows()]
    (large,) = [values for (key, values), *_ in rows if key == "a"]
    assert SpilledValues is type(large)
    assert list(range(60_000)) == sorted(large)
    assert 60 == len([1 for (key, _), *_ in rows if key == "b"])


def test_groups_of_elements_whose_windows_merge_move_too() -> None:
    """A shuffle sends the elements; their windows are merged where groups are spilled."""
    operator = plain(beam.window.Sessions(10))
    spill = GroupSpill(operator, memory_bytes=2_000_000)
    writer = ElementWriter("Group", lambda group, block: spill.received(receive(operator, block), len(block)))
    for start in range(0, 60_000, 1000):
        pairs = [("a", n) for n in range(start, start + 1000)] + [(("b", start), start)]
        times = [n % 1000 * 1_000 for n in range(1001)]
        writer.receive(Bundle(pairs, times, [beam.window.Sessions(10).assign_micros(t) for t in times]))
        writer.flush()
    groups = results(operator)
    large = groups.pop("a")
    assert SpilledValues is type(large)
    assert list(range(60_000)) == sorted(large)
    assert {("b", start): [start] for start in range(0, 60_000, 1000)} == groups


def test_an_operator_that_is_flushed_starts_anew() -> None:
    """The next key group's groups are in a file of their own, so that this one's can go."""
    operator = plain()
    spill = GroupSpill(operator, memory_bytes=1 << 20)
    found = []
    for key in ("a", "b"):
        operator.merge(GLOBAL_WINDOW, [key], [list(range(50_000))], [])
        spill.received(50_000, 250_000)
        found.append(results(operator)[key])
        spill.flushed()
    assert [SpilledValues, SpilledValues] == [type(group) for group in found]
    assert found[0]._file is not found[1]._file
    assert [list(range(50_000))] * 2 == [list(group) for group in found]


def test_values_that_cannot_be_written_are_an_error() -> None:
    """Where they are written; they have been pickled before, so hardly ever."""
    with pytest.raises(SerializationError, match="pickle"):
        SpilledValues([(i for i in "generator")], SpillFile(), 1)
