"""The messages between the subtasks of a micro-batch."""

from __future__ import annotations

import pickle
from typing import Any

import penstock as beam
from penstock.runners.execution.plan.execution_graph import EdgeKind, SubtaskId, cut
from penstock.runners.execution.plan.fusion import fuse
from penstock.runners.execution.shuffle.blocks import decode_bundle
from penstock.runners.spark.micro_batch.exchange import MessageWriter, ShuffleMessage, addressed
from penstock.sdk.elements.bundle import Bundle
from penstock.triggers import AccumulationMode, AfterCount, Repeatedly


def sent(pairs: list[tuple[str, int]], times: int = 1, **windowing: Any) -> list[Any]:
    """Return the elements of the messages that a subtask sends to the two subtasks of a grouping.

    Args:
      times: how often it has these pairs, each time as a bundle.
    """
    p = beam.Pipeline()
    _ = (
        p
        | beam.Create(pairs)
        | beam.WindowInto(beam.window.GlobalWindows(), **windowing)
        | "sum" >> beam.CombinePerKey(sum)
    )
    first, _ = cut(fuse(p.graph(), lambda *_: False), 2, by_level=True).tasks
    (edge,) = first.outputs
    assert edge.kind is EdgeKind.SHUFFLE
    writer = MessageWriter(SubtaskId(0, 0), first.outputs, 2, {edge.id: "sum"})
    writer.begin("attempt")
    for _ in range(times):
        writer.write(edge, Bundle(pairs))
    writer.flush_tables()
    messages: list[ShuffleMessage] = [pickle.loads(addressed(row)[1]) for _, row in writer.finish({edge.id: 0})]
    blocks = [block for message in messages for _, _, block in message.blocks]
    return sorted(value for block in blocks for value in decode_bundle(block).values)


def test_elements_with_few_keys_are_combined_before_the_shuffle() -> None:
    """For two keys with fifty elements each, two accumulators are sent, with their numbers of elements."""
    assert [("a", (50, 50)), ("b", (100, 50))] == sent([("a", 1), ("b", 2)] * 50)


def test_bundles_of_a_batch_are_combined_together() -> None:
    """Watermarks come with the batch's last message only, so nothing has to be sent before."""
    assert [("a", (150, 150)), ("b", (300, 150))] == sent([("a", 1), ("b", 2)] * 50, times=3)


def test_a_trigger_that_counts_elements_sees_each_of_them() -> None:
    """Nothing is combined then."""
    counting = {"trigger": Repeatedly(AfterCount(3)), "accumulation_mode": AccumulationMode.DISCARDING}
    assert [("a", 1)] * 100 == sent([("a", 1)] * 100, **counting)
