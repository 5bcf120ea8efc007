"""What travels between the tasks of a micro-batch."""

from __future__ import annotations

import pickle
from typing import Any

import penstock as beam
from penstock.runners.execution.plan.execution_graph import EdgeKind, cut
from penstock.runners.execution.plan.fusion import fuse
from penstock.runners.execution.shuffle.blocks import decode_bundle
from penstock.runners.spark.micro_batch.exchange import Outbox, Parcel, TaskId, addressed
from penstock.sdk.bundle import Bundle
from penstock.triggers import AccumulationMode, AfterCount, Repeatedly


def sent(pairs: list[tuple[str, int]], **windowing: Any) -> list[Any]:
    """What is in the parcels of a task that has these pairs for a grouping on two shards."""
    p = beam.Pipeline()
    _ = (
        p
        | beam.Create(pairs)
        | beam.WindowInto(beam.window.GlobalWindows(), **windowing)
        | "sum" >> beam.CombinePerKey(sum)
    )
    first, _ = cut(fuse(p.graph(), lambda grouping: False), 2, by_level=True).tasks
    (edge,) = first.outputs
    assert edge.kind is EdgeKind.SHUFFLE
    outbox = Outbox(TaskId(0, 0), first.outputs, 2, {edge.id: "sum"})
    outbox.begin("attempt")
    outbox.send(edge, Bundle(pairs))
    parcels: list[Parcel] = [pickle.loads(addressed(row)[1]) for _, row in outbox.finish({edge.id: 0})]
    return sorted(value for parcel in parcels for _, _, block in parcel.blocks for value in decode_bundle(block).values)


def test_what_comes_often_is_folded_before_it_is_shuffled() -> None:
    """Of two keys with fifty elements each an accumulator travels, with the number of its elements."""
    assert [("a", (50, 50)), ("b", (100, 50))] == sent([("a", 1), ("b", 2)] * 50)


def test_a_trigger_that_counts_elements_sees_each_of_them() -> None:
    """Then nothing is folded."""
    counting = {"trigger": Repeatedly(AfterCount(3)), "accumulation_mode": AccumulationMode.DISCARDING}
    assert [("a", 1)] * 100 == sent([("a", 1)] * 100, **counting)
