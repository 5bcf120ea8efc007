"""What a page shows of micro-batches: hot keys, windows, rates of edges, and panes, reported at the end of a batch."""

from __future__ import annotations

from random import Random
from typing import Any
from unittest.mock import patch

from support.runners.micro_batches import BatchesInThisProcess

import penstock as beam
from penstock.runners.execution.checkpoints.simulated_storage import SimulatedDisk
from penstock.runners.execution.checkpoints.store import SnapshotStore
from penstock.runners.execution.clock import time_of_day
from penstock.runners.execution.page.description import described_observation
from penstock.runners.execution.plan.execution_graph import cut
from penstock.runners.execution.plan.fusion import fuse
from penstock.runners.execution.streaming.observation import Observe
from penstock.runners.spark.micro_batch import query as micro_batch_query
from penstock.runners.spark.micro_batch.query import MicroBatchQuery, QuerySettings
from penstock.testing import TestStream
from penstock.windowing import FixedWindows, TimestampedValue


def query_of(observe: Observe) -> tuple[MicroBatchQuery, list[dict[str, Any]]]:
    """Run a stream in batches, of which the page shows something; return the query and its events."""
    stream = TestStream()
    for number in range(20):
        pairs = [("often" if number % 4 else "seldom", number)]
        stream = stream.add_elements([TimestampedValue(pair, number) for pair in pairs]).advance_watermark_to(number)
    p = beam.Pipeline()
    windows = p | stream.advance_watermark_to_infinity() | beam.WindowInto(FixedWindows(10))
    _ = windows | "Group" >> beam.GroupByKey() | "Out" >> beam.Map(lambda pair: pair)
    store = SnapshotStore(SimulatedDisk(Random(0)), "checkpoints")
    execution_graph = cut(fuse(p.graph(), lambda *_: False), 2, by_level=True)
    query = MicroBatchQuery(execution_graph, None, store, time_of_day, QuerySettings())  # type: ignore[arg-type]
    query.events.keep(True)
    query.observe = observe

    def batches(program: Any, session: Any) -> BatchesInThisProcess:
        return BatchesInThisProcess(program, session, lambda number: False)

    with patch.object(micro_batch_query, "MicroBatches", batches):
        query.run()
    return query, query.events.taken()


def test_batches_report_keys_and_rates_of_edges_to_an_open_page() -> None:
    """Of all subtasks, as on the local runner."""
    query, _ = query_of(Observe(is_open=True))

    found = described_observation(query.observed.values())
    assert [("often", 15), ("seldom", 5)] == [(eval(key), n) for key, n in found["hot_keys"]["Group"]["keys"]]
    assert 20 == found["hot_keys"]["Group"]["total"]
    assert 20 in [elements for elements, _ in found["traffic"].values()]
    assert {"Group"} == set(found["kept"])


def test_batches_report_the_panes_of_the_step_and_key_that_are_drawn() -> None:
    """With the elements before them."""
    _, events = query_of(Observe(True, "Group", "'seldom'"))

    drawn = [event for event in events if event["kind"] == "panes"]
    assert {"Group"} == {event["step"] for event in drawn}
    inputs = [each for event in drawn for each in event["inputs"]]
    assert ["0", "4", "8", "12", "16"] == [each["value"] for each in inputs]
    panes = [each for event in drawn for each in event["panes"]]
    assert [("[0, 4, 8]", 0, "ON_TIME"), ("[12, 16]", 10_000_000, "ON_TIME")] == [
        (pane["value"], pane["start"], pane["timing"]) for pane in panes
    ]


def test_batches_report_nothing_without_a_page() -> None:
    """And no event."""
    query, events = query_of(Observe())

    assert {} == query.observed
    assert set() == {event["kind"] for event in events} & {"panes"}
