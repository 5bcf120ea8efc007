"""Number columns: pairs of numbers are distributed to key groups, and grouped behind the shuffle, by NumPy."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy
import pytest
from groupings import grouping_of
from hypothesis import given
from hypothesis import strategies as st

import penstock as beam
from penstock.runners.execution.plan.fusion import Stage
from penstock.runners.execution.shuffle import element_columns, number_columns
from penstock.runners.execution.shuffle.element_columns import ColumnWriter, receive_columns
from penstock.runners.execution.shuffle.number_columns import NumberColumns
from penstock.runners.execution.stages.executor import StageExecutor
from penstock.runners.execution.windows.bounded_operator import WindowOperator
from penstock.runners.execution.windows.columns import number_groups
from penstock.runners.execution.windows.columns.number_groups import NUMBERS, NumberGroups, starts_of_runs
from penstock.runners.execution.windows.combining import Fold
from penstock.sdk.elements.bundle import Bundle
from penstock.sdk.errors import InvalidKeyError
from penstock.windowing import BoundedWindow, FixedWindows, IntervalWindow

GROUPS = 7
WINDOWS: list[BoundedWindow] = [IntervalWindow(start, start + 10) for start in range(0, 1000, 10)]

# The hashes of -1 and -2 are equal, and those of many others in their lower digits.
keys = st.one_of(
    st.sampled_from([-2, -1, 0, 1, 1 << 16, 1 << 20, (1 << 31) - 1, -(1 << 31)]), st.integers(-70_000, 70_000)
)
values = {int: st.integers(-(1 << 31), (1 << 31) - 1), float: st.floats(allow_nan=False)}


@st.composite
def parts_of(draw: st.DrawFn, kind: type) -> list[dict[BoundedWindow, list[Any]]]:
    """Columns by window, as they are added one after the other."""
    pairs = st.lists(st.tuples(keys, values[kind]), min_size=1, max_size=20)
    columns = pairs.map(lambda pairs: [item for pair in pairs for item in pair])
    return draw(st.lists(st.dictionaries(st.sampled_from(WINDOWS), columns, min_size=1, max_size=4), max_size=6))


class _Groups:
    """The groups of pairs, by window."""

    def __init__(self) -> None:
        self.by_window: dict[BoundedWindow, Any] = {}
        self.numbers = NumberGroups(self.of)

    def of(self, window: BoundedWindow) -> Any:
        return self.by_window.setdefault(window, WindowOf())

    def settled(self) -> dict[tuple[BoundedWindow, int], list[Any]]:
        self.numbers.settle()
        return {
            (window, key): group for window, own in self.by_window.items() for key, group in own.accumulators.items()
        }


class WindowOf:
    def __init__(self) -> None:
        self.accumulators: dict[int, list[Any]] = {}


@given(kind=st.sampled_from([int, float]), data=st.data(), together=st.sampled_from([1, 50, 1 << 20]))
def test_pairs_come_to_their_groups_in_their_order(kind: type, data: st.DataObject, together: int) -> None:
    """Each at the key group of its hash, whatever is distributed together and how many blocks there are."""
    parts = data.draw(parts_of(kind))
    most = data.draw(st.sampled_from([1, 30, 1 << 20]))
    expected: dict[tuple[BoundedWindow, int], list[Any]] = defaultdict(list)
    for part in parts:
        for window, items in part.items():
            for key, value in zip(items[::2], items[1::2], strict=True):
                expected[window, key].append(value)
    columns = NumberColumns(GROUPS)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(number_columns, "_TOGETHER", together)
        for part in parts:
            assert columns.add(part)
    blocks = list(columns.blocks(most))
    assert 0 == columns.nbytes
    assert [] == list(columns.blocks(most))

    found = _Groups()
    received = sum(found.numbers.receive(block) for _, block in blocks)
    assert received == len(found.numbers) == sum(map(len, expected.values()))
    settled = found.settled()
    assert expected == settled
    assert {kind} >= {type(value) for group in settled.values() for value in group}
    assert {int} >= {type(key) for _, key in settled}
    assert 0 == len(found.numbers)

    for group, block in blocks:
        own = _Groups()
        own.numbers.receive(block)
        assert {group} == {hash(key) % GROUPS for _, key in own.settled()}


@given(parts=parts_of(int), divisor=st.sampled_from([2, 4, 16]))
def test_a_key_group_can_be_received_in_parts(parts: list[dict[BoundedWindow, list[int]]], divisor: int) -> None:
    """Each key in one of them."""
    columns = NumberColumns(GROUPS)
    for part in parts:
        columns.add(part)
    blocks = [block for _, block in columns.blocks(1 << 20)]
    whole = _Groups()
    for block in blocks:
        whole.numbers.receive(block)
    together: dict[Any, Any] = {}
    for remainder in range(divisor):
        own = _Groups()
        received = sum(own.numbers.receive(block, divisor, remainder) for block in blocks)
        settled = own.settled()
        assert received == sum(map(len, settled.values()))
        assert all(hash(key) // 128 % divisor == remainder for _, key in settled)
        assert together.keys().isdisjoint(settled)
        together |= settled
    assert whole.settled() == together


def test_pairs_are_added_to_their_groups_when_there_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before windows are complete, so that the arrays of a hot key are no larger than those of others."""
    monkeypatch.setattr(number_groups, "_KEPT", 10)
    columns, found = NumberColumns(GROUPS), _Groups()
    for start in range(0, 100, 4):
        columns.add({WINDOWS[0]: [item for i in range(start, start + 4) for item in (7 * (i % 3), i)]})
        ((_, block),) = columns.blocks(1 << 20)
        assert 4 == found.numbers.receive(block)
        assert 10 > len(found.numbers)
    assert {(WINDOWS[0], 7 * key): list(range(key, 100, 3)) for key in range(3)} == found.settled()


def test_values_of_another_type_come_after_those_before() -> None:
    """Of one writer integers, of another floats."""
    found = _Groups()
    for value in ([1, 2], [0.5], [3]):
        columns = NumberColumns(GROUPS)
        assert columns.add({WINDOWS[0]: [item for number in value for item in (7, number)]})
        ((_, block),) = columns.blocks(1 << 20)
        found.numbers.receive(block)
    assert {(WINDOWS[0], 7): [1, 2, 0.5, 3]} == found.settled()


def test_pairs_that_are_not_all_numbers_are_not_added() -> None:
    """Nor floats after integers; and what was added before stays."""
    columns = NumberColumns(GROUPS)
    assert not columns.add({WINDOWS[0]: ["a", 1]})
    assert columns.add({WINDOWS[0]: [1, 2]})
    assert not columns.add({WINDOWS[0]: [1, 0.5]})
    assert not columns.add({WINDOWS[1]: [1, 2, 3, "a", 5, 6]})
    ((_, block),) = columns.blocks(1 << 20)
    found = _Groups()
    assert 1 == found.numbers.receive(block)
    assert {(WINDOWS[0], 1): [2]} == found.settled()


def test_runs_start_where_a_column_changes() -> None:
    columns = [numpy.array([1, 1, 2, 2, 2]), numpy.array([1, 1, 1, 3, 3])]
    assert [0, 2, 3] == starts_of_runs(columns).tolist()
    assert [0] == starts_of_runs([columns[0][:1]]).tolist()


# The writer of a plain grouping


class _Shuffle:
    """A writer and the operator behind it."""

    def __init__(self, window_fn: Any = None, memory_bytes: int = 1 << 24) -> None:
        transform = grouping_of("Group" >> beam.GroupByKey(), window_fn or beam.window.GlobalWindows())
        self.blocks: list[tuple[int, bytes]] = []
        send = lambda group, block: self.blocks.append((group, block))
        self.writer = ColumnWriter(Fold(transform), send, 128, memory_bytes, forked=True)
        stage = Stage((), transform.inputs[0], transform)
        self._executor = StageExecutor(stage, lambda tag, bundle: None, None, self.writer.cells, self.writer.fold)
        self._operator = WindowOperator(Fold(transform))

    def add(self, bundle: Bundle) -> None:
        for part in self.writer.portions(bundle):
            self._executor.process(part)

    def results(self) -> dict[Any, list[Any]]:
        self.writer.flush()
        for _, block in self.blocks:
            receive_columns(self._operator, block)
        return {key: values for bundle in self._operator.flush() for key, values in bundle.values}

    @property
    def kinds(self) -> set[bool]:
        """Whether blocks are of numbers."""
        return {block[:1] == NUMBERS for _, block in self.blocks}


def test_integers_are_marshalled_early_and_sent_together() -> None:
    """They take ten bytes for each element, and one block for each key group."""
    shuffle = _Shuffle()
    for start in range(0, 100_000, 10_000):
        shuffle.add(Bundle([(i % 1000, i) for i in range(start, start + 10_000)]))
    assert 100_000 * 12 > shuffle.writer._memory()
    assert {key: list(range(key, 100_000, 1000)) for key in range(1000)} == shuffle.results()
    assert 127 == len(shuffle.blocks)
    assert {True} == shuffle.kinds


def test_records_are_sent_when_they_are_enough() -> None:
    """Two megabytes of them, or what the memory of the writer holds."""
    shuffle = _Shuffle()
    shuffle.add(Bundle([(i, i) for i in range(1 << 18)]))
    assert 127 == len(shuffle.blocks)
    assert 0 == shuffle.writer._memory()
    small = _Shuffle(memory_bytes=20_000)
    for i in range(20):
        small.add(Bundle([(k, i) for k in range(1000)]))
    assert 5 * 127 < len(small.blocks)
    assert {k: list(range(20)) for k in range(1000)} == small.results()
    assert {True} == small.kinds


@pytest.mark.parametrize("other", ["a", 1 << 40, 0.5, True], ids=repr)
def test_values_keep_their_order_when_some_are_not_integers(other: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that were marshalled come first."""
    monkeypatch.setattr(element_columns, "_MARSHALLED_TOGETHER", 4)
    shuffle = _Shuffle(FixedWindows(10))
    values = [*range(10), other, *range(10, 20), other]
    for start in range(0, len(values), 3):
        part = [(7, value) for value in values[start : start + 3]]
        shuffle.add(Bundle(part, [1] * len(part), FixedWindows(10).assign_micros(1)))
    assert not shuffle.writer.cells.undivided
    assert {7: values} == shuffle.results()
    assert {True, False} == shuffle.kinds


def test_a_hot_key_has_several_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever a FlatMap outputs for an element."""
    monkeypatch.setattr(element_columns, "BLOCK_BYTES", 2000)
    monkeypatch.setattr(element_columns, "_MARSHALLED_TOGETHER", 4)
    monkeypatch.setattr(number_columns, "_TOGETHER", 500)
    shuffle = _Shuffle()
    sizes = [4, 50, 60, 5, 90, 90, 90, 90]
    for size in sizes:
        shuffle.add(Bundle([(7, i) for i in range(size)]))
    assert {7: [i for size in sizes for i in range(size)]} == shuffle.results()
    assert 2000 >= max(len(block) for _, block in shuffle.blocks)


def test_a_key_without_a_hash_is_refused_when_columns_are_divided() -> None:
    """By the name of the grouping."""
    shuffle = _Shuffle()
    shuffle.add(Bundle([(1, 2), ([1], 2)]))
    with pytest.raises(InvalidKeyError, match=r"^Group: the key \[1\] is a list, which is unhashable"):
        shuffle.writer.flush()


class Moody:
    def __hash__(self) -> int:
        raise TypeError("not today")


def test_a_key_whose_hash_fails_fails_with_its_own_error() -> None:
    shuffle = _Shuffle()
    shuffle.add(Bundle([(Moody(), 2)]))
    with pytest.raises(TypeError, match=r"not today \[while running 'Group' at .*test_number_columns"):
        shuffle.writer.flush()


def test_columns_of_many_windows_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """A window that was marshalled isn't looked at for each bundle that follows."""
    monkeypatch.setattr(element_columns, "_MARSHALLED_TOGETHER", 10)
    shuffle = _Shuffle(FixedWindows(1))
    times = [i * 1_000_000 for i in range(1000)]
    shuffle.add(Bundle([(1, i) for i in range(1000)], times, [FixedWindows(1).assign_micros(t) for t in times]))
    assert 4 >= len(shuffle.writer.cells.by_window)
    shuffle.writer.flush()
    assert 1 == len(shuffle.blocks)
