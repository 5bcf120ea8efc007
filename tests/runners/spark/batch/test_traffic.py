"""The traffic that tasks of a batch on Spark report: exact where elements are encoded, sampled elsewhere."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

from support.runners.segments import MemorySink, run_in_this_process

import penstock as beam
from penstock.runners.execution.batch.segment_program import SegmentProgram
from penstock.runners.execution.shuffle.blocks import decode_bundle
from penstock.runners.execution.stages.traffic import Traffic


def traffic_of(
    build: Any, has_page: bool
) -> tuple[dict[str, Traffic], dict[str, Traffic], list[tuple[Any, int, bytes]]]:
    """Run a pipeline; return the traffic of shuffles, that of edges by the label of a consumer, and all tasks' rows."""
    p = beam.Pipeline()
    build(p)
    rows: list[Any] = []
    rows_of = SegmentProgram.rows

    def kept(*arguments: Any, **others: Any) -> Any:
        for row in rows_of(*arguments, **others):
            rows.append(row)
            yield row

    with patch.object(SegmentProgram, "rows", kept):
        traffic = run_in_this_process(p, has_page=has_page)
    consumers = {i: t.label for t in p.graph().transforms for i in (*t.inputs, *(s.pcollection for s in t.side_inputs))}
    return traffic.shuffles, {consumers[i]: own for i, own in traffic.edges.items() if i in consumers}, rows


def bytes_to(rows: list[tuple[Any, int, bytes]], kind: str) -> int:
    """The bytes of the blocks that were sent to a kind of destination."""
    return sum(len(block) for (to, _), _, block in rows if to == kind)


def grouped(p: Any) -> None:
    """Group the even ones of a hundred numbers, and write the groups."""
    evens = p | "Create" >> beam.Create(range(100)) | "Even" >> beam.Filter(lambda n: n % 2 == 0)
    pairs = evens | "Pair" >> beam.Map(lambda n: (n % 5, n)) | "Group" >> beam.GroupByKey()
    _ = pairs | "Size" >> beam.MapTuple(lambda key, values: len(list(values))) | "Write" >> beam.io.Write(MemorySink())


def test_records_and_bytes_of_a_shuffle_are_those_of_its_blocks() -> None:
    """With a page and without; nothing else is counted without one."""
    shuffles, edges, rows = traffic_of(grouped, has_page=False)
    assert ({"Group": (50, bytes_to(rows, "grouping"), ())}, {}) == (shuffles, edges)

    shuffles, _, rows = traffic_of(grouped, has_page=True)
    assert {"Group": (50, bytes_to(rows, "grouping"), ())} == shuffles


def test_a_combiner_before_the_shuffle_is_seen_in_its_records() -> None:
    """A task sends one accumulator for each key."""

    def build(p: Any) -> None:
        pairs = p | beam.Create(range(100)) | beam.Map(lambda n: (n % 5, n))
        _ = pairs | "Sum" >> beam.CombinePerKey(sum) | "Write" >> beam.io.Write(MemorySink())

    shuffles, _, rows = traffic_of(build, has_page=False)
    (records,) = shuffles.values()
    assert (True, bytes_to(rows, "grouping"), ()) == (5 <= records.elements <= 10, *records[1:])


def test_a_run_with_a_page_reports_the_other_edges_too() -> None:
    """Elements between stages are counted; those within a stage, and all bytes, are estimated from samples."""
    _, found, _ = traffic_of(grouped, has_page=True)
    elements = {label: own.elements for label, own in found.items()}
    estimates = {label: own.estimates for label, own in found.items()}

    shown = ("Even", "Pair", "Size", "Write")
    assert {"Even": 100, "Pair": 50, "Size": 5, "Write": 5} == {label: elements[label] for label in shown}
    assert [("bytes",), ("elements", "bytes"), ("bytes",)] == [estimates[each] for each in ("Even", "Pair", "Write")]
    assert all(own.size > 0 for own in found.values())


def test_a_side_input_has_the_bytes_of_its_blocks() -> None:
    """Which the driver collects."""

    def build(p: Any) -> None:
        side = p | "Side" >> beam.Create([1, 2, 3])
        main = p | "Main" >> beam.Create([10, 20])
        added = main | "Add" >> beam.Map(lambda n, view: n + sum(view), beam.pvalue.AsList(side))
        _ = added | "Write" >> beam.io.Write(MemorySink())

    _, found, rows = traffic_of(build, has_page=False)
    blocks = [block for (kind, _), _, block in rows if kind == "side"]
    assert [1, 2, 3] == sorted(n for block in blocks for n in decode_bundle(block).values)
    assert {"Add": (3, sum(map(len, blocks)), ())} == found


def test_a_stateful_step_has_the_records_and_bytes_of_its_shuffle() -> None:
    """As a grouping has."""

    class Last(beam.DoFn):
        SEEN = beam.transforms.userstate.ReadModifyWriteStateSpec("seen", beam.coders.VarIntCoder())

        def process(self, pair: Any, seen: Any = beam.DoFn.StateParam(SEEN)) -> Any:
            seen.write(pair[1])

    def build(p: Any) -> None:
        pairs = p | beam.Create(range(20)) | beam.Map(lambda n: (n % 3, n))
        _ = pairs | "Last" >> beam.ParDo(Last())

    shuffles, _, rows = traffic_of(build, has_page=False)
    assert {"Last": (20, bytes_to(rows, "grouping"), ())} == shuffles


def test_two_shuffles_of_one_pcollection_have_their_own_numbers() -> None:
    """Those of the combining one are fewer."""

    def build(p: Any) -> None:
        pairs = p | beam.Create(range(100)) | "Pair" >> beam.Map(lambda n: (n % 5, n))
        _ = pairs | "Group" >> beam.GroupByKey()
        _ = pairs | "Sum" >> beam.CombinePerKey(sum)

    shuffles, edges, rows = traffic_of(build, has_page=True)
    group, total = shuffles["Group"], next(own for label, own in shuffles.items() if label.startswith("Sum"))
    assert (100, True) == (group.elements, 5 <= total.elements <= 10)
    assert bytes_to(rows, "grouping") == group.size + total.size
    assert 100 in [own.elements for own in edges.values()]
