"""Groupings of a task: key groups whose groups are larger than memory."""

from __future__ import annotations

import os
from functools import partial
from typing import Any

import numpy
import pyarrow
import pytest

import penstock as beam
from penstock.runners.execution.batch import groupings
from penstock.runners.execution.batch.groupings import Groupings
from penstock.runners.execution.batch.segment_task import SegmentTask, steps_of
from penstock.runners.execution.clock import Clock
from penstock.runners.execution.counters import Counts
from penstock.runners.execution.plan.fusion import Grouping, Source, fuse, shrinks
from penstock.runners.execution.plan.segments import cut
from penstock.runners.execution.shuffle.blocks import Rows, encode_rows
from penstock.runners.execution.shuffle.reader import receive as receive_block
from penstock.runners.execution.shuffle.writer import PairWriter
from penstock.runners.execution.stages.side_input_views import SideInputViews
from penstock.runners.execution.windows.cell_table import WindowOperator
from penstock.runners.execution.windows.combining import Fold
from penstock.runners.execution.windows.spilled_groups import GroupSpill
from penstock.sdk.columns.column_bundle import ColumnBundle
from penstock.sdk.columns.column_elements import Pairs, as_values, of_columns
from penstock.sdk.elements.bundle import Bundle
from penstock.sdk.metrics import MetricsContainer
from penstock.sdk.userstate import ReadModifyWriteStateSpec
from penstock.windowing import FixedWindows, Sessions, TimestampCombiner

SECOND = 1_000_000


class Results:
    """The dataflow behind a grouping, which keeps its results."""

    def __init__(self) -> None:
        self.rows: list[Any] = []

    def send_to(self, pcollection: int) -> Any:
        return lambda bundle: self.rows.extend(bundle.rows())


def root_of(combiner: TimestampCombiner) -> Grouping:
    p = beam.Pipeline()
    windows = beam.WindowInto(FixedWindows(10), timestamp_combiner=combiner)
    _ = p | beam.Create([(1, 1)]) | windows | "Group" >> beam.GroupByKey()
    (root,) = [s.root for s in cut(fuse(p.graph(), shrinks)) if isinstance(s.root, Grouping)]
    return root


def blocks_of(root: Grouping, pairs: list[Any], is_columnar: bool) -> list[bytes]:
    """Return the blocks of pairs in two windows, as if all belonged to one key group."""
    blocks: list[bytes] = []
    writer = PairWriter(Fold(root.transform), lambda group, block: blocks.append(block), 2)
    windows = FixedWindows(10)
    for start in range(0, len(pairs), 1000):
        micros = [i % 20 * SECOND for i in range(start, min(len(pairs), start + 1000))]
        own = [windows.assign_micros(at) for at in micros]
        bundle = Bundle(pairs[start : start + 1000], micros, own)
        if is_columnar:
            keys, values = zip(*bundle.values)
            parts = zip(*keys) if type(keys[0]) is tuple else [keys]
            columns = [pyarrow.array(column) for column in (*parts, values)]
            batch = pyarrow.RecordBatch.from_arrays(columns, [f"c{i}" for i in range(len(columns))])
            elements = Pairs(len(columns) - 1, of_columns if len(columns) > 2 else as_values, as_values)
            bundle = ColumnBundle(batch, elements, numpy.array(micros), (numpy.arange(len(own)), own))
        writer.receive(bundle)
        writer.flush()
    return blocks


@pytest.mark.parametrize(
    ("combiner", "key_of", "is_columnar"),
    [
        (TimestampCombiner.OUTPUT_AT_EOW, int, False),
        (TimestampCombiner.OUTPUT_AT_LATEST, int, True),
        (TimestampCombiner.OUTPUT_AT_EOW, str, True),
        (TimestampCombiner.OUTPUT_AT_LATEST, str, False),
        (TimestampCombiner.OUTPUT_AT_LATEST, lambda i: (i, str(i)), False),
        (TimestampCombiner.OUTPUT_AT_EOW, lambda i: (i, str(i)), True),
    ],
    ids=["integers", "integers in columns", "texts in columns", "texts", "tuples", "tuples in columns"],
)
def test_small_groups_beyond_the_memory_are_grouped_in_parts(
    key_of: Any, combiner: TimestampCombiner, is_columnar: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The memory holds a fraction of them at a time; large groups are spilled, and all is as without a limit."""
    pairs = [(key_of(i % 2400 if i % 4 else -1), i) for i in range(12_000)]
    root = root_of(combiner)
    blocks = blocks_of(root, pairs, is_columnar)
    held: list[int] = []

    def receive(operator: WindowOperator, *arguments: Any) -> int:
        received = receive_block(operator, *arguments)
        held.append(len(operator.cells))
        return received

    def run(limit: int) -> tuple[list[Any], int, int]:
        """Return the results, the number of groups in memory, at most, and the number of elements."""
        monkeypatch.setattr(groupings, "GroupSpill", partial(GroupSpill, memory_bytes=limit))
        monkeypatch.setattr(groupings, "SMALL_BYTES", limit)
        monkeypatch.setattr(groupings, "receive", receive)
        counts, results = Counts(), Results()
        held.clear()
        run = Groupings([root], Clock(), MetricsContainer(), counts)
        for _ in run.run(root, [(0, blocks)], results):  # type: ignore[arg-type]
            pass
        rows = [((key, list(values)), *rest) for (key, values), *rest in results.rows]
        return sorted(rows, key=repr), max(held), counts.of(root.transform.label).read

    whole, most, read = run(1 << 30)
    found, most_of_parts, read_of_parts = run(20_000)
    assert whole == found
    assert 12_000 == read == read_of_parts
    assert most > 2 * most_of_parts


@pytest.mark.parametrize(("bytes_together", "expected"), [(1 << 18, [20] * 2), (0, [1] * 40)])
def test_key_groups_with_few_accumulators_are_emitted_together(
    bytes_together: int, expected: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One bundle a window, instead of one for each window and key group."""
    monkeypatch.setattr(groupings, "TOGETHER_BYTES", bytes_together)
    p = beam.Pipeline()
    windowed = p | beam.Create([(1, 1)]) | beam.WindowInto(FixedWindows(10))
    _ = windowed | "Sum" >> beam.CombinePerKey(sum)
    (root,) = [s.root for s in cut(fuse(p.graph(), shrinks)) if isinstance(s.root, Grouping)]
    windows = [(FixedWindows(10).assign_micros(second * SECOND)) for second in (0, 10)]
    blocks = [
        (key, list(encode_rows(Rows(2, [window for (window,) in windows], [1, 1], [[key, key, key, -key]]))))
        for key in range(20)
    ]
    sizes: list[int] = []
    results = Results()
    results.send_to = lambda pcollection: lambda bundle: (sizes.append(len(bundle)), results.rows.extend(bundle.rows()))  # type: ignore[method-assign]
    for _ in Groupings([root], Clock(), MetricsContainer(), Counts()).run(root, blocks, results):  # type: ignore[arg-type]
        pass
    found = sorted((key, window.start.seconds(), total) for (key, total), _, (window,), *_ in results.rows)
    assert sorted((key, start, key if start == 0 else -key) for key in range(20) for start in (0, 10)) == found
    assert expected == sizes


class Last(beam.DoFn):
    """A ParDo with state."""

    LAST = ReadModifyWriteStateSpec("last", beam.coders.BytesCoder())

    def process(self, pair: tuple[int, bytes], last: Any = beam.DoFn.StateParam(LAST)) -> None:
        last.write(pair[1])


@pytest.mark.parametrize(
    "step",
    [
        lambda: beam.GroupByKey(),
        lambda: beam.CombinePerKey(b"".join),
        lambda: beam.ParDo(Last()),
        lambda: beam.WindowInto(Sessions(10)) | beam.GroupByKey(),
    ],
    ids=["plain", "combining", "state", "sessions"],
)
def test_outputs_of_a_map_are_sent_before_all_are_made(step: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of one bundle may be larger than memory, as where paths become pictures."""
    monkeypatch.setattr(groupings, "TABLE_BYTES", 1 << 20)
    # Functions are pickled by value.
    monkeypatch.setenv("MADE", "0")
    made_before: list[int] = []

    def picture(n: int) -> tuple[int, bytes]:
        os.environ["MADE"] = str(int(os.environ["MADE"]) + 1)
        return n, bytes([n % 256]) * 20_000

    p = beam.Pipeline()
    _ = p | beam.Create(range(1000)) | beam.Map(picture) | step()
    plan = fuse(p.graph(), shrinks)
    segment = cut(plan)[0]
    assert isinstance(segment.root, Source)
    task = SegmentTask(
        plan,
        [segment],
        steps_of(segment),
        SideInputViews(),
        "run",
        "unit",
        Counts(),
        MetricsContainer(),
        lambda destination, group, block: made_before.append(int(os.environ["MADE"])),
    )
    source: Any = segment.root.transform.primitive
    for _ in (*task.run(segment, source.source.split(1)), *task.finish()):
        pass
    assert 100 > made_before[0]
    assert "1000" == os.environ["MADE"]
