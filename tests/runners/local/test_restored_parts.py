"""The parts of a checkpoint that a subtask restores, and the base of its own part: cases found by the simulation."""

from __future__ import annotations

from random import Random
from typing import Any

import penstock as beam
from penstock.runners.execution.checkpoints.simulated_storage import SimulatedDisk
from penstock.runners.execution.checkpoints.store import SnapshotStore
from penstock.runners.execution.clock import Clock
from penstock.runners.execution.counters import Counts
from penstock.runners.execution.plan.execution_graph import SubtaskId, whole
from penstock.runners.execution.plan.fusion import Plan, fuse
from penstock.runners.execution.shuffle.blocks import encode_bundle
from penstock.runners.execution.stages.side_inputs import ViewChange, ViewChangeKind
from penstock.runners.execution.streaming.in_flight import restored_within_task
from penstock.runners.execution.streaming.snapshot import Restored
from penstock.runners.execution.streaming.snapshot_chunks import IN_FLIGHT_BROADCAST, IN_FLIGHT_BY_KEY, VIEW, Chunk
from penstock.runners.execution.streaming.task_program import TaskProgram
from penstock.runners.local.channels.channel import Channel
from penstock.runners.local.channels.messages import Barrier
from penstock.runners.local.workers.protocol import Acknowledged, Inject
from penstock.runners.local.workers.slot import Slot, Start
from penstock.sdk.elements.bundle import Bundle
from penstock.sdk.metrics import MetricsContainer
from penstock.windowing import GLOBAL_WINDOW


def sums() -> Plan:
    """A plan with a shuffle in it."""
    pipeline = beam.Pipeline()
    _ = pipeline | beam.Create([("a", 1)]) | "Sum" >> beam.CombinePerKey(sum)
    return fuse(pipeline.graph(), lambda *_: False)


def test_what_was_in_flight_is_found_where_there_are_no_edges_any_more() -> None:
    """An unaligned checkpoint of two subtasks, restored in one, which has no channels: nothing used to take it."""
    plan = sums()
    (task,) = whole(plan).tasks
    execution = TaskProgram(plan, task, Clock(), MetricsContainer(), Counts(), "run-1")
    bundle = Bundle([("a", 5)], 0)
    (name,) = {node.producer for node in plan.graph.pcollections.values() if node.producer.startswith("Create")}
    restored = Restored(0, 1)
    restored.add([[Chunk("Sum", f"{IN_FLIGHT_BY_KEY} from {name}", None, list(encode_bundle(bundle)))]], 1, 2)

    assert [list(bundle.rows())] == [list(found.rows()) for _, found in restored_within_task(execution, restored)]


def test_a_view_is_taken_with_what_was_on_its_way_to_the_same_subtask() -> None:
    """Each subtask had all of the side input, but not the same part of it in flight."""
    parts = [
        [Chunk("Limits", VIEW, None, [of_view("all")])],
        [Chunk("Limits", VIEW, None, [of_view("half")]), Chunk("Limits", IN_FLIGHT_BROADCAST, None, ["rest"])],
    ]

    def found(index: int, parallelism: int) -> list[Any]:
        restored = Restored(index, parallelism)
        for number, chunks in enumerate(parts):
            restored.add([chunks], number, 2)
        return [restored.chained("Limits", VIEW), restored.newest("Limits", IN_FLIGHT_BROADCAST)]

    assert [[of_view("all")], []] == found(0, 2)
    assert [[of_view("half")], [["rest"]]] == found(1, 2)
    assert [[of_view("all")], []] == found(2, 3)


def of_view(value: str) -> ViewChange:
    """The only value of a view."""
    return ViewChange(GLOBAL_WINDOW, ViewChangeKind.ALL, [value])


def test_changes_are_based_on_the_part_that_was_written_last() -> None:
    """An unaligned barrier may arrive before the report that the checkpoint before it is committed."""
    store = SnapshotStore(SimulatedDisk(Random(0)), "dir")
    store.take_over()
    reports: list[Any] = []
    start = Start(store, None, "run-1", "run")
    slot = Slot(whole(sums()), [SubtaskId(0, 0)], start, Channel, reports.append, lambda: 0)
    slot.start()
    for epoch, is_whole in ((1, True), (2, False), (3, False)):
        slot.obey(Inject(Barrier(epoch, transaction=f"run-{epoch + 1}", is_whole=is_whole, epoch=epoch)))

    parts = [report.part for _, report in reports if isinstance(report, Acknowledged)]
    assert [1, 2, 3] == [len(part.files) for part in parts if part is not None]
    assert parts[1].files == parts[2].files[:2]
