"""In-flight records of a snapshot: stored as blocks, and split by key group on restore."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

import penstock as beam
from penstock.runners.execution.clock import Clock
from penstock.runners.execution.counters import Counts
from penstock.runners.execution.plan.execution_graph import Edge, EdgeKind, ExecutionGraph, cut
from penstock.runners.execution.plan.fusion import fuse
from penstock.runners.execution.shuffle.blocks import encode_bundle
from penstock.runners.execution.shuffle.partitioner import Partitioner
from penstock.runners.execution.streaming.in_flight import by_key_group, in_flight_chunks, restored_on_edge
from penstock.runners.execution.streaming.snapshot import Restored
from penstock.runners.execution.streaming.snapshot_chunks import Chunk
from penstock.runners.execution.streaming.task_program import TaskProgram
from penstock.runners.execution.windows.combining import FoldedBundle
from penstock.runners.local.channels.channel import Channel, ChannelId, arrived, payloads_of
from penstock.runners.local.channels.messages import Elements, Encoded
from penstock.runners.local.subtask.barriers import MessageLog
from penstock.sdk.elements.bundle import Bundle
from penstock.sdk.metrics import MetricsContainer

PAIRS = [(f"key{n % 40}", n) for n in range(200)]


def sums(parallelism: int) -> ExecutionGraph:
    """A graph with one shuffle."""
    p = beam.Pipeline()
    _ = p | beam.Create([("a", 1)]) | "Sum" >> beam.CombinePerKey(sum)
    return cut(fuse(p.graph(), lambda *_: False), parallelism)


def shuffle(graph: ExecutionGraph) -> Edge:
    (edge,) = [edge for task in graph.tasks for edge in task.inputs if edge.kind is EdgeKind.SHUFFLE]
    return edge


def found(chunks: Iterable[tuple[int, list[Chunk]]], before: int, parallelism: int) -> list[list[Bundle]]:
    """By subtask, what each of so many finds of what so many had written."""
    graph = sums(parallelism)
    bundles = []
    for index in range(parallelism):
        restored = Restored(index, parallelism)
        for own, written in chunks:
            restored.add([written], own, before)
        execution = TaskProgram(graph.plan, graph.tasks[1], Clock(), MetricsContainer(), Counts(), "t")
        bundles.append(list(restored_on_edge(execution, shuffle(graph), restored)))
    return bundles


@pytest.mark.parametrize("restored_in", [2, 3, 5])
@pytest.mark.parametrize("kind", [Bundle, FoldedBundle])
def test_each_key_group_goes_to_its_owner_and_stays_in_order(restored_in: int, kind: type[Bundle]) -> None:
    """Blocks that two subtasks had before them, whole, and what others make of them."""
    values: list[Any] = PAIRS if kind is Bundle else [(key, ([n], 1)) for key, n in PAIRS]
    graph = sums(2)
    parts = Partitioner(2, "Sum").parts(kind(values, list(range(len(values)))))
    chunks = [
        (index, in_flight_chunks(graph.plan, shuffle(graph), list(encode_bundle(p)))) for index, p in enumerate(parts)
    ]
    expected = [part.values for part in Partitioner(restored_in, "Sum").parts(kind(values))]
    again = found(chunks, 2, restored_in)

    assert {kind} == {type(bundle) for own in again for bundle in own}
    for own, mine in zip(expected, again, strict=True):
        in_flight = [value for bundle in mine for value in bundle.values]
        assert sorted(own, key=str) == sorted(in_flight, key=str)
        for key in {key for key, _ in own}:
            assert [pair for pair in own if pair[0] == key] == [pair for pair in in_flight if pair[0] == key]


def test_in_flight_records_are_cut_into_one_chunk_a_key_group() -> None:
    """And they are found as the others are."""
    graph = sums(2)
    chunks = by_key_group(graph.plan, shuffle(graph), [Bundle(PAIRS[:90]), Bundle(PAIRS[90:])])
    again = found([(0, chunks)], 2, 3)

    assert None not in [chunk.group for chunk in chunks]
    assert len(chunks) == len({chunk.group for chunk in chunks})
    assert sorted(PAIRS) == sorted(value for own in again for bundle in own for value in bundle.values)


def test_what_came_through_a_pipe_is_written_as_it_came() -> None:
    """Without being decoded; and it is decoded when it is taken."""
    ((kind, payload),) = payloads_of(Elements(Bundle(PAIRS, 5)))
    channel = Channel(ChannelId(0, 0, 0))
    channel.arrive(arrived(kind, payload))
    log = MessageLog(["input"])
    log.begin(1)
    log.arrived("input", 1, list(channel.queue))
    ((written,),) = log.messages().values()
    taken = channel.take()

    assert Encoded(payload) == written
    assert written.block is payload
    assert isinstance(taken, Elements)
    assert (PAIRS, 5) == (taken.bundle.values, taken.bundle.timestamps)
