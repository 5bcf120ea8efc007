"""Blocks of a shuffle: records are read as they were written, and folds give the same results as without a shuffle."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from groupings import fold_of, grouping_of
from hypothesis import given, settings
from hypothesis import strategies as st

import penstock as beam
from penstock.runners.execution.plan.fusion import Stage, fuse, shrinks
from penstock.runners.execution.shuffle import blocks as shuffle_blocks
from penstock.runners.execution.shuffle.blocks import (
    Portions,
    Rows,
    ShuffleWriter,
    decode_bundle,
    decode_rows,
    encode_bundle,
    encode_rows,
    receive_block,
)
from penstock.runners.execution.stages.executor import StageExecutor
from penstock.runners.execution.windows.bounded_operator import WindowOperator
from penstock.runners.execution.windows.combining import Fold
from penstock.sdk.bundle import GLOBAL_WINDOWS, Bundle
from penstock.sdk.coders.key_encoding import key_group
from penstock.sdk.errors import InvalidKeyError
from penstock.triggers import ONLY_PANE
from penstock.windowing import FixedWindows, IntervalWindow, Sessions, SlidingWindows, TimestampCombiner, WindowFn

SECOND = 1_000_000


class NearbySessions(Sessions):
    """Sessions that say nothing of how they merge: a user's function."""

    def merge_windows(self, merge_context: WindowFn.MergeContext) -> None:
        super().merge_windows(merge_context)


class ListCombineFn(beam.CombineFn):
    """A combiner without expressions, whose accumulators are compacted."""

    def create_accumulator(self) -> Any:
        return []

    def add_input(self, accumulator: Any, element: Any) -> Any:
        return [*accumulator, element]

    def merge_accumulators(self, accumulators: Iterable[Any]) -> Any:
        return [value for accumulator in accumulators for value in accumulator]

    def compact(self, accumulator: Any) -> Any:
        return tuple(sorted(accumulator))

    def extract_output(self, accumulator: Any) -> Any:
        return sorted(accumulator)


WINDOW_FNS = [None, FixedWindows(10), SlidingWindows(10, 5), Sessions(10), NearbySessions(10)]
TRANSFORMS: list[Callable[[], beam.PTransform]] = [
    beam.GroupByKey,
    lambda: beam.CombinePerKey(sum),
    beam.combiners.Mean.PerKey,
    lambda: beam.CombinePerKey(ListCombineFn()),
    lambda: beam.CombinePerKey(lambda values: max(values)),
]

keys = st.sampled_from(["a", "b", ("c", 1), 7, None])
elements = st.lists(st.tuples(keys, st.integers(-50, 50), st.integers(0, 60)), max_size=25)


def bundle_of(rows: list[Any], window_fn: Any) -> Bundle:
    values = [(key, value) for key, value, _ in rows]
    times = [at * SECOND for _, _, at in rows]
    windows: Any = [window_fn.assign_micros(t) for t in times] if window_fn is not None else GLOBAL_WINDOWS
    return Bundle(values, times, windows)


def fold_into(transform: Any, target: Any, bundles: Iterable[Bundle]) -> None:
    """Fold bundles as a stage does."""
    stage = Stage((), transform.inputs[0], transform)
    executor = StageExecutor(stage, lambda tag, bundle: None, None, target.cells, target.fold, target.folded)
    for bundle in bundles:
        executor.process(bundle)


def results(operator: WindowOperator) -> list[Any]:
    """Return the results, with lists in order."""
    return [
        (key, sorted(value) if isinstance(value, list) else value, windows, micros)
        for bundle in operator.flush()
        for (key, value), micros, windows, _, _ in bundle.rows()
    ]


@pytest.mark.parametrize("window_fn", WINDOW_FNS, ids=str)
@pytest.mark.parametrize("make", TRANSFORMS, ids=["group", "sum", "mean", "lists", "callable"])
@settings(max_examples=25)
@given(
    parts=st.lists(st.lists(elements, min_size=1, max_size=3), min_size=1, max_size=3),
    combiner=st.sampled_from(list(TimestampCombiner)),
    limit=st.integers(1, 30),
)
def test_a_shuffle_changes_nothing(
    window_fn: Any, make: Any, parts: list[list[list[Any]]], combiner: Any, limit: int
) -> None:
    """Any cut into writers, bundles and blocks; every window function, combiner and timestamp combiner."""
    transform = grouping_of(make(), window_fn or beam.window.GlobalWindows(), timestamp_combiner=combiner)

    class Target:
        def __init__(self, fold: Fold) -> None:
            self.fold = fold
            self.operator = WindowOperator(fold)
            self.cells = self.operator.cells

        def folded(self) -> None:
            pass

    whole = Target(Fold(transform))
    fold_into(transform, whole, [bundle_of(rows, window_fn) for part in parts for rows in part])

    sent: dict[int, list[bytes]] = defaultdict(list)
    for part in parts:
        writer = ShuffleWriter(Fold(transform), lambda group, block: sent[group].append(block))
        writer._limit = limit
        fold_into(transform, writer, [bundle_of(rows, window_fn) for rows in part])
        writer.flush()
    operator = WindowOperator(Fold(transform))
    received = []
    for group, blocks in sent.items():
        for block in blocks:
            receive_block(operator, block)
        found = results(operator)
        assert {group} == {key_group(key) for key, *_ in found}
        received += found
    assert sorted(results(whole.operator), key=repr) == sorted(received, key=repr)


def test_a_combiner_is_lifted_before_the_shuffle() -> None:
    """A row for each key and window, of windows that merge too."""
    for window_fn in (None, FixedWindows(10), Sessions(10)):
        transform = grouping_of(beam.CombinePerKey(sum), window_fn)
        sent: list[bytes] = []
        writer = ShuffleWriter(Fold(transform), lambda group, block: sent.append(block))
        rows = [("a", value, value % 7) for value in range(1000)]
        fold_into(transform, writer, [bundle_of(rows, window_fn)])
        writer.flush()
        assert [["a"]] == [decode_rows(block).keys for block in sent]
        assert [[sum(range(1000))]] == [decode_rows(block).accumulators for block in sent]


def test_a_writer_sends_on_what_is_large_before_it_is_much() -> None:
    """The buffer is bounded by bytes; the size of an entry is estimated from those sent before."""
    transform = grouping_of(beam.GroupByKey())
    sizes: list[int] = []
    writer = ShuffleWriter(Fold(transform), lambda group, block: sizes.append(len(block)))
    bundles = [Bundle([(i, bytes(1000)) for i in range(1000)]) for _ in range(70)]
    held = []
    for bundle in bundles:
        fold_into(transform, writer, [bundle])
        held.append(writer.cells.size)
    assert 20_000 > max(held[30:])
    assert 50_000_000 < sum(sizes)


def test_a_block_that_would_be_too_large_is_several(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut between rows, and of a plain grouping between values."""
    monkeypatch.setattr(shuffle_blocks, "BLOCK_BYTES", 2000)
    windows = [IntervalWindow(0, 10), IntervalWindow(10, 20)]
    rows = Rows(["a", "b", "c"], windows, [1, 2], [list(range(5000)), [1], list(range(10, 1000))], [7, 8, 9])
    blocks = list(encode_rows(rows, plain=True))
    assert 2000 >= max(map(len, blocks))
    found: dict[Any, list[int]] = defaultdict(list)
    for block in blocks:
        part = decode_rows(block)
        for key, window, values, stamp in zip(part.keys, part.row_windows(), part.accumulators, part.stamps):
            found[key, window, stamp] += values
    assert found == {
        ("a", windows[0], 7): list(range(5000)),
        ("b", windows[1], 8): [1],
        ("c", windows[1], 9): list(range(10, 1000)),
    }


def test_a_single_large_value_is_a_block(monkeypatch: pytest.MonkeyPatch) -> None:
    """There is nothing to cut."""
    monkeypatch.setattr(shuffle_blocks, "BLOCK_BYTES", 100)
    rows = Rows(["a"], [IntervalWindow(0, 10)], [1], [["x" * 1000]], [])
    (block,) = encode_rows(rows, plain=True)
    assert rows == decode_rows(block)


def test_an_operator_lets_go_of_what_it_has_received() -> None:
    """A task goes from key group to key group, and would otherwise hold them all in the end."""
    operator = WindowOperator(fold_of(beam.CombinePerKey(sum)))
    (block,) = encode_rows(Rows(["a"], [GLOBAL_WINDOWS[0]], [1], [1], []))
    receive_block(operator, block)
    assert [("a", 1)] == [value for bundle in operator.flush() for value in bundle.values]
    assert (0, [], {}) == (len(operator.cells), operator.cells._sizes, operator._merged)


def test_a_key_without_an_encoding_names_the_grouping() -> None:
    """Where the rows are sent, at the latest."""
    transform = grouping_of("Sum" >> beam.CombinePerKey(sum))
    writer = ShuffleWriter(Fold(transform), lambda group, block: None)
    with pytest.raises(InvalidKeyError, match="^Sum: "):
        fold_into(transform, writer, [Bundle([(object(), 1)])])


some_windows = st.tuples(st.integers(0, 9), st.integers(1, 9)).map(lambda t: IntervalWindow(t[0], sum(t)))


@given(
    st.lists(
        st.tuples(st.integers() | st.text(), st.integers(0, 100), st.tuples(some_windows), st.sampled_from([1, -1])),
        min_size=1,
    ),
    st.sets(st.integers(0, 3)),
    st.integers(20, 500),
)
def test_bundles_come_back_as_they_were(rows: list[Any], shared: set[int], most: int) -> None:
    """With the columns that all elements share still shared; cut where they are too large."""
    values, times, windows, signs = map(list, zip(*rows))
    columns: list[Any] = [times, windows, [ONLY_PANE] * len(rows), signs]
    for i in shared:
        columns[i] = columns[i][0]
    bundle = Bundle(values, *columns)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shuffle_blocks, "BLOCK_BYTES", most)
        blocks = list(encode_bundle(bundle))
    parts = [decode_bundle(block) for block in blocks]
    assert list(bundle.rows()) == [row for part in parts for row in part.rows()]
    for part in parts:
        assert [type(c) for c in columns] == [type(c) for c in (part.timestamps, part.windows, part.panes, part.signs)]


def test_an_empty_bundle_is_no_block() -> None:
    """Nothing has to be sent."""
    assert [] == list(encode_bundle(Bundle([])))


def test_windows_that_elements_share_are_sent_once() -> None:
    """And come out as one object each, in whatever order elements have them."""
    windows = [(IntervalWindow(start, start + 10),) for start in (0, 10)]
    bundle = Bundle(list(range(100)), 0, [windows[i % 3 == 0] for i in range(100)])
    (block,) = encode_bundle(bundle)
    decoded = decode_bundle(block)

    assert list(bundle.rows()) == list(decoded.rows())
    assert 2 == len(set(map(id, decoded.windows)))


class Run:
    """A stage of a FlatMap and a fold; `most` is the most that its writer has held, in entries."""

    def __init__(self, expansion: int, window_fn: Any) -> None:
        p = beam.Pipeline()
        pcoll = p | beam.Create([0]) | beam.FlatMap(lambda i: [(i * 100_000 + j, 1) for j in range(expansion)])
        if window_fn is not None:
            pcoll = pcoll | beam.WindowInto(window_fn)
        pcoll | beam.CombinePerKey(sum)
        (stage,) = (s for s in fuse(p.graph(), shrinks).steps if isinstance(s, Stage))
        assert stage.fold is not None
        self.writer = ShuffleWriter(Fold(stage.fold), lambda group, block: None)
        self.most = 0
        self.executor = StageExecutor(
            stage, lambda tag, bundle: None, None, self.writer.cells, self.writer.fold, self.folded
        )
        self.portions = Portions(self.writer)

    def folded(self) -> None:
        cells = self.writer.cells
        # Of sessions a start, a size and a value.
        held = sum(map(len, cells.pending.values())) // 3 + sum(len(c.accumulators) for c in cells.by_window.values())
        self.most = max(self.most, held)
        self.writer.folded()

    def process(self, bundle: Bundle) -> list[int]:
        sizes = []
        for part in self.portions(bundle):
            sizes.append(len(part))
            self.executor.process(part)
        return sizes


@pytest.mark.parametrize("window_fn", [None, Sessions(10)], ids=["global", "sessions"])
@pytest.mark.parametrize("expansion", [1, 10, 1000, 5000])
def test_what_is_held_is_bounded_whatever_a_flat_map_makes(
    expansion: int, window_fn: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All elements are processed, and counted."""
    monkeypatch.setattr(shuffle_blocks, "BUFFERED_ENTRIES", 10_000)
    run = Run(expansion, window_fn)
    n = 100_000 // expansion
    assert n == sum(run.process(Bundle(list(range(n)))))
    assert 15_000 >= run.most
    assert n * expansion == run.writer.entries()


def test_a_stage_that_makes_little_soon_gets_whole_bundles() -> None:
    """The overhead is a few small portions, once."""
    run = Run(1, None)
    assert [1, 4, 16, 64, 256, 659] == run.process(Bundle(list(range(1000))))
    assert [1000] == run.process(Bundle(list(range(1000, 2000))))


def test_a_bundle_keeps_its_columns_in_its_portions() -> None:
    """Timestamps and windows go with their values."""
    portions = Portions(ShuffleWriter(Fold(grouping_of(beam.GroupByKey())), lambda group, block: None))
    parts = list(portions(Bundle(["a", "b", "c"], [1, 2, 3])))
    assert [(["a"], [1]), (["b", "c"], [2, 3])] == [(part.values, part.timestamps) for part in parts]
