"""Blocks of a shuffle: records are read as they were written, and folds give the same results as without a shuffle."""

from __future__ import annotations

import tracemalloc
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any

import msgspec
import pyarrow
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.execution.groupings import fold_of, grouping_of

import penstock as beam
from penstock.runners.execution.plan.fusion import Stage, fuse, shrinks
from penstock.runners.execution.serialization.column_codec import encode_column
from penstock.runners.execution.shuffle import blocks as shuffle_blocks
from penstock.runners.execution.shuffle.blocks import Rows, decode_bundle, decode_rows, encode_bundle, encode_rows
from penstock.runners.execution.shuffle.reader import receive
from penstock.runners.execution.shuffle.writer import CellWriter, ElementWriter, PairWriter, ShuffleWriter
from penstock.runners.execution.spilling.memory import memory_of
from penstock.runners.execution.stages.executor import StageExecutor
from penstock.runners.execution.windows.cell_table import WindowOperator
from penstock.runners.execution.windows.combining import Fold, FoldedBundle
from penstock.sdk.coders import VarIntCoder, registry
from penstock.sdk.coders.coded_key import coded
from penstock.sdk.columns.column_bundle import ColumnBundle
from penstock.sdk.columns.column_elements import of_columns
from penstock.sdk.elements.bundle import GLOBAL_WINDOWS, Bundle
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
times = st.integers(0, 60)
# Hashes of -1 and -2 are equal; integers beyond 32 bits and numbers of other types aren't encoded as others are.
numbers = st.sampled_from([-1, 1, 1 << 31, 1 << 40, 0.5, True])
elements = st.one_of(
    st.lists(st.tuples(keys, st.integers(-50, 50), times), max_size=25),
    st.lists(st.tuples(st.integers(-3, 200), st.integers(-50, 50), times), max_size=25),
    st.lists(st.tuples(st.sampled_from([-2, -1, 0, 1 << 16, 1 << 31, 1 << 40, 0.5]), numbers, times), max_size=25),
)


def bundle_of(rows: list[Any], window_fn: Any) -> Bundle:
    values = [(key, value) for key, value, _ in rows]
    times = [at * SECOND for _, _, at in rows]
    windows: Any = [window_fn.assign_micros(t) for t in times] if window_fn is not None else GLOBAL_WINDOWS
    return Bundle(values, times, windows)


def fold_into(transform: Any, target: Any, bundles: Iterable[Bundle]) -> None:
    """Fold bundles as a stage does, or send them as a dataflow does."""
    if isinstance(target, (PairWriter, ElementWriter)):
        for bundle in bundles:
            target.receive(bundle)
        return
    stage = Stage((), transform.inputs[0], transform)
    executor = StageExecutor(stage, lambda tag, bundle: None, None, target.cells, target.fold)
    for bundle in bundles:
        for part in target.portions(bundle):
            executor.process(part)


def writer_of(transform: Any, send: Any, *settings: Any) -> ShuffleWriter:
    """Return the writer of a grouping's shuffle.

    Args:
      settings: the number of key groups, and the memory.
    """
    fold = Fold(transform)
    window_fn = fold.windowing.window_fn
    if fold.combine_fn is not None and (window_fn.merges_by_overlap or not window_fn.is_merging):
        return CellWriter(fold, send, *settings)
    if fold.combine_fn is not None or window_fn.is_merging:
        return ElementWriter(fold.label, send, *settings)
    return PairWriter(fold, send, *settings)


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
    limit=st.sampled_from([1, 1000, 3000, 1 << 20]),
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

        def portions(self, bundle: Bundle) -> list[Bundle]:
            return [bundle]

    whole = Target(Fold(transform))
    fold_into(transform, whole, [bundle_of(rows, window_fn) for part in parts for rows in part])

    sent: dict[int, list[bytes]] = defaultdict(list)
    for part in parts:
        writer = writer_of(transform, lambda group, block: sent[group].append(block), 128, limit)
        fold_into(transform, writer, [bundle_of(rows, window_fn) for rows in part])
        writer.flush()
    operator = WindowOperator(Fold(transform))
    received = []
    owners: dict[Any, int] = {}
    for group, blocks in sent.items():
        for block in blocks:
            receive(operator, block)
        found = results(operator)
        assert all(owners.setdefault(key, group) == group for key, *_ in found), "a key is in two key groups"
        received += found
    assert sorted(results(whole.operator), key=repr) == sorted(received, key=repr)


def test_a_combiner_is_lifted_before_the_shuffle() -> None:
    """A row for each key and window, of windows that merge too."""
    for window_fn in (None, FixedWindows(10), Sessions(10)):
        transform = grouping_of(beam.CombinePerKey(sum), window_fn)
        sent: list[bytes] = []
        writer = CellWriter(Fold(transform), lambda group, block: sent.append(block))
        rows = [("a", value, value % 7) for value in range(1000)]
        fold_into(transform, writer, [bundle_of(rows, window_fn)])
        writer.flush()
        ((_, _, keys, accumulators),) = map(decode_rows, sent)
        assert (["a"], [sum(range(1000))]) == (keys, accumulators)


def contents(writer: Any) -> list[Any]:
    """Return the data that a writer holds."""
    if isinstance(writer, PairWriter):
        return [column for by_group in writer._by_window.values() for column in by_group.values()]
    return [own.accumulators for own in writer.cells.by_window.values()]


class Sets(ListCombineFn):
    """Sets of values, one key's growing with each element."""

    def create_accumulator(self) -> Any:
        return set()

    def add_input(self, accumulator: Any, element: Any) -> Any:
        accumulator.add(element)
        return accumulator


@pytest.mark.parametrize("hot", [True, False], ids=["one key", "many keys"])
@pytest.mark.parametrize(
    "make",
    [
        beam.GroupByKey,
        lambda: beam.CombinePerKey(ListCombineFn()),
        lambda: beam.CombinePerKey(Sets()),
        lambda: beam.CombinePerKey(lambda texts: b"".join(texts)),
    ],
    ids=["group", "lists", "sets", "texts"],
)
def test_a_table_of_any_accumulators_is_bounded_by_their_bytes(make: Any, hot: bool) -> None:
    """It is sent in parts, of about the bytes of the bound, whether the keys are many or the accumulators are large."""
    transform = grouping_of(make())
    bound = 1 << 20
    sizes: list[int] = []
    held = []

    def send(group: int, block: bytes) -> None:
        sizes.append(len(block))

    writer = writer_of(transform, send, 128, bound * 4 if make is beam.GroupByKey else bound)
    for number in range(400):
        values = [bytes([number % 256]) * 500 + bytes([i]) for i in range(50)]
        fold_into(transform, writer, [Bundle([(0 if hot else number * 50 + i, v) for i, v in enumerate(values)])])
        held.append(memory_of(*contents(writer)))
    assert bound * 1.25 > max(held)
    assert bound / 4 < max(held)


def test_a_block_that_would_be_too_large_is_several(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut between rows."""
    monkeypatch.setattr(shuffle_blocks, "BLOCK_BYTES", 2000)
    windows = [IntervalWindow(0, 10), IntervalWindow(10, 20)]
    rows = Rows(3)
    rows.add(windows[0], [item for value in range(5000) for item in ("a", value, 7)])
    rows.add(windows[1], ["b", 1, 8, *(item for value in range(10, 1000) for item in ("c", value, 9))])
    blocks = list(encode_rows(rows))
    assert 2000 >= max(map(len, blocks))
    found: dict[Any, list[int]] = defaultdict(list)
    for block in blocks:
        own, counts, keys, values, stamps = decode_rows(block)
        of_rows = [window for window, count in zip(own, counts, strict=True) for _ in range(count)]
        for key, window, value, stamp in zip(keys, of_rows, values, stamps, strict=True):
            found[key, window, stamp].append(value)
    assert found == {
        ("a", windows[0], 7): list(range(5000)),
        ("b", windows[1], 8): [1],
        ("c", windows[1], 9): list(range(10, 1000)),
    }


def test_a_single_large_value_is_a_block(monkeypatch: pytest.MonkeyPatch) -> None:
    """There is nothing to cut."""
    monkeypatch.setattr(shuffle_blocks, "BLOCK_BYTES", 100)
    rows = Rows(2)
    rows.add(IntervalWindow(0, 10), ["a", "x" * 1000])
    (block,) = encode_rows(rows)
    assert [[IntervalWindow(0, 10)], [1], ["a"], ["x" * 1000]] == list(decode_rows(block))


def test_an_operator_lets_go_of_what_it_has_received() -> None:
    """A task goes from key group to key group, and would otherwise hold them all in the end."""
    operator = WindowOperator(fold_of(beam.CombinePerKey(sum)))
    rows = Rows(2)
    rows.add(GLOBAL_WINDOWS[0], ["a", 1])
    (block,) = encode_rows(rows)
    receive(operator, block)
    assert [("a", 1)] == [value for bundle in operator.flush() for value in bundle.values]
    assert (0, [], {}) == (len(operator.cells), operator.cells._sizes, operator._merged)


def test_a_key_without_an_encoding_names_the_grouping() -> None:
    """Where the rows are sent, at the latest."""
    transform = grouping_of("Sum" >> beam.CombinePerKey(sum))
    writer = CellWriter(Fold(transform), lambda group, block: None)
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


def test_a_block_of_an_earlier_version_is_read() -> None:
    """Checkpoints and logs of productions have blocks whose shared columns are pickled."""
    windows = [(IntervalWindow(0, 10),), (IntervalWindow(10, 20),)]
    encode = msgspec.msgpack.encode
    columns = [[[5, windows, ONLY_PANE, None, True]], ["a", "b"], [1, 0], [1, -1]]
    of_windows = decode_bundle(encode(list(map(encode_column, columns))))
    of_one = decode_bundle(encode(list(map(encode_column, [[[None, windows[0], ONLY_PANE, 1]], ["a"], [7]]))))

    assert [("a", 5, windows[1], ONLY_PANE, 1), ("b", 5, windows[0], ONLY_PANE, -1)] == list(of_windows.rows())
    assert isinstance(of_windows, FoldedBundle)
    assert [("a", 7, windows[0], ONLY_PANE, 1)] == list(of_one.rows())


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


@pytest.mark.parametrize("window_fn", [None, Sessions(10)], ids=["global", "sessions"])
@pytest.mark.parametrize("expansion", [1, 10, 1000, 5000])
def test_a_table_is_bounded_whatever_a_flat_map_outputs(expansion: int, window_fn: Any) -> None:
    """All elements are processed."""
    p = beam.Pipeline()
    pcoll = p | beam.Create([0]) | beam.FlatMap(lambda i: [(i * 100_000 + j, 1) for j in range(expansion)])
    if window_fn is not None:
        pcoll = pcoll | beam.WindowInto(window_fn)
    pcoll | beam.CombinePerKey(sum)
    (stage,) = (s for s in fuse(p.graph(), shrinks).steps if isinstance(s, Stage))
    assert stage.fold is not None
    writer = CellWriter(Fold(stage.fold), lambda group, block: None, 128, 2 << 20)
    executor = StageExecutor(stage, lambda tag, bundle: None, None, writer.cells, writer.fold)
    n, done, most = 100_000 // expansion, 0, 0.0
    for part in writer.portions(Bundle(list(range(n)))):
        done += len(part)
        executor.process(part)
        most = max(most, writer._memory())
    assert n == done
    assert 3 << 20 > most


def test_a_key_that_has_no_encoding_is_refused() -> None:
    """The error names the grouping."""
    transform = grouping_of("Group" >> beam.GroupByKey())
    writer = PairWriter(Fold(transform), lambda group, block: None)
    with pytest.raises(InvalidKeyError, match="^Group: "):
        fold_into(transform, writer, [Bundle([((1, object()), 1)])])


class NumberCoder(VarIntCoder):
    """Registered after the start of a pipeline."""


def test_a_tuple_of_a_part_with_a_coder_is_refused_when_columns_are_sent() -> None:
    """As other keys with a coder that aren't in coded form."""
    before = registry.registered()
    transform = grouping_of("Group" >> beam.GroupByKey())
    writer = PairWriter(Fold(transform), lambda group, block: None)
    fold_into(transform, writer, [Bundle([(("a", 1), 1)])])
    try:
        registry.register_coder(int, NumberCoder)
        assert coded(1) != 1
        with pytest.raises(InvalidKeyError, match=r"^Group: the key \('a', 1\) \(tuple\) has a registered coder"):
            writer.flush()
    finally:
        registry.register_all(before)


def test_columns_that_would_be_too_large_are_several_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut between windows, and between elements."""
    monkeypatch.setattr(shuffle_blocks, "BLOCK_BYTES", 2000)
    transform = grouping_of(beam.GroupByKey(), FixedWindows(10))
    blocks: list[bytes] = []
    writer = PairWriter(Fold(transform), lambda group, block: blocks.append(block))
    rows = [("a", str(i) * 10, i % 40) for i in range(1000)]
    fold_into(transform, writer, [bundle_of(rows, FixedWindows(10))])
    writer.flush()
    assert 2000 >= max(map(len, blocks))
    operator = WindowOperator(Fold(transform))
    assert 1000 == sum(receive(operator, block) for block in blocks)
    assert [250] * 4 == [len(values) for _, values, *_ in results(operator)]


@pytest.mark.parametrize("value", [1, 0.5, "1", 1 << 40, True], ids=repr)
@pytest.mark.parametrize("key", [1, 0.5, "a", 1 << 40, (1, "a")], ids=repr)
def test_keys_and_values_of_all_types_come_back(key: Any, value: Any) -> None:
    """Those that are encoded together, and those that are not."""
    transform = grouping_of(beam.GroupByKey(), FixedWindows(10))
    operator = WindowOperator(Fold(transform))
    writer = PairWriter(Fold(transform), lambda group, block: None)
    received: list[int] = []
    writer._send = lambda group, block: received.append(receive(operator, block))
    fold_into(transform, writer, [bundle_of([(key, value, i) for i in range(20)], FixedWindows(10))])
    writer.flush()
    assert 20 == sum(received)
    found = [(k, type(k), values, {type(v) for v in values}) for k, values, *_ in results(operator)]
    assert [(key, type(key), [value] * 10, {type(value)})] * 2 == found


def test_integers_that_are_multiples_of_the_key_groups_are_distributed() -> None:
    """The number of groups that are used is a prime."""
    transform = grouping_of(beam.GroupByKey())
    groups: set[int] = set()
    writer = PairWriter(Fold(transform), lambda group, block: groups.add(group), 128)
    fold_into(transform, writer, [Bundle([(128 * i, 1) for i in range(1000)])])
    writer.flush()
    assert 127 == len(groups)


@pytest.mark.parametrize("other", ["a", 1 << 40, 0.5, True], ids=repr)
def test_values_of_a_key_keep_their_order(other: Any) -> None:
    """Whatever their types, over several bundles and blocks."""
    transform = grouping_of(beam.GroupByKey())
    operator = WindowOperator(Fold(transform))
    writer = PairWriter(Fold(transform), lambda group, block: None)
    writer._send = lambda group, block: receive(operator, block)
    values = [*range(10), other, *range(10, 20), other]
    for start in range(0, len(values), 3):
        fold_into(transform, writer, [Bundle([(7, value) for value in values[start : start + 3]])])
        if start % 2:
            writer.flush()
    writer.flush()
    assert [(7, values)] == [pair for bundle in operator.flush() for pair in bundle.values]


@pytest.mark.parametrize("kind", ["rows", "bundle", "columns"])
def test_what_is_too_large_for_a_block_is_not_kept_while_its_parts_are_sent(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its bytes, those of its halves and those of their halves would be three times what is sent."""
    limit = 20_000
    monkeypatch.setattr(shuffle_blocks, "BLOCK_BYTES", limit)
    pairs = [(i, b"." * 10_000) for i in range(400)]
    bundle: Bundle = Bundle(pairs)
    if kind == "columns":
        bundle = ColumnBundle(pyarrow.record_batch({"text": [text for _, text in pairs]}), of_columns)
    rows = Rows(2)
    rows.add(GLOBAL_WINDOWS[0], [item for pair in pairs for item in pair])
    blocks = encode_rows(rows) if kind == "rows" else encode_bundle(bundle, limit)
    tracemalloc.start()
    try:
        assert limit >= len(next(blocks))
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held < 20 * limit


class Moody:
    def __hash__(self) -> int:
        raise RuntimeError("not today")


def test_a_key_without_a_hash_is_refused() -> None:
    """By the name of the grouping; and one whose hash fails has its own error."""
    transform = grouping_of("Group" >> beam.GroupByKey())
    writer = PairWriter(Fold(transform), lambda group, block: None)
    with pytest.raises(InvalidKeyError, match=r"^Group: \[1\] \(a list\) is unhashable, .*: use a tuple$"):
        fold_into(transform, writer, [Bundle([(1, 2), ([1], 2)])])
    with pytest.raises(RuntimeError, match=r"not today \[while running 'Group' on element \(<.*Moody.*>, 2\)"):
        fold_into(transform, writer, [Bundle([(Moody(), 2)])])


def test_columns_of_many_windows_are_forgotten() -> None:
    """A window that was sent isn't looked at for each bundle that follows."""
    transform = grouping_of(beam.GroupByKey(), FixedWindows(1))
    writer = PairWriter(Fold(transform), lambda group, block: None)
    fold_into(transform, writer, [bundle_of([(1, i, i) for i in range(1000)], FixedWindows(1))])
    writer.flush()
    assert {} == writer._by_window


class OverlappingSessions(NearbySessions):
    """Two windows for each element, which a user's function merges."""

    def assign(self, assign_context: WindowFn.AssignContext) -> list[IntervalWindow]:
        start = assign_context.timestamp
        return [IntervalWindow(start, start + 10), IntervalWindow(start + 100, start + 110)]


@pytest.mark.parametrize("window_fn", [SlidingWindows(20, 10), OverlappingSessions(10)], ids=repr)
def test_values_of_several_windows_are_several_objects(window_fn: Any) -> None:
    """Since the consumer of a group may change its values."""
    transform = grouping_of(beam.GroupByKey(), window_fn)
    operator = WindowOperator(Fold(transform))
    writer = writer_of(transform, lambda group, block: receive(operator, block))
    fold_into(transform, writer, [bundle_of([("a", [1], 25), ("a", [2], 35)], window_fn)])
    writer.flush()
    values = [value for _, group, *_ in results(operator) for value in group]
    assert 4 == len(values) == len(set(map(id, values)))
