"""Taps of a task: how many elements are sampled for their keys."""

from __future__ import annotations

import penstock as beam
from penstock.runners.execution.clock import Clock
from penstock.runners.execution.counters import Counts
from penstock.runners.execution.operators.edge_sampler import HotKeys
from penstock.runners.execution.operators.traffic import WorkerTraffic
from penstock.runners.execution.plan.execution_graph import cut
from penstock.runners.execution.plan.fusion import fuse
from penstock.runners.execution.streaming.output_sampler import OutputSampler
from penstock.runners.execution.streaming.task_program import TaskProgram
from penstock.sdk.elements.bundle import Bundle
from penstock.sdk.metrics import MetricsContainer


class Tapped:
    """A task whose output goes to a grouping, and its sampler."""

    def __init__(self) -> None:
        p = beam.Pipeline()
        pairs = p | beam.Create([("a", 1)])
        _ = pairs | "Sum" >> beam.CombinePerKey(sum)
        graph = cut(fuse(p.graph(), lambda *_: False), 1)
        self.clock = Clock()
        execution = TaskProgram(graph.plan, graph.tasks[0], self.clock, MetricsContainer(), Counts(), "run-1")
        self._sampler = OutputSampler(execution, self.clock, None, None, WorkerTraffic())
        (grouping,) = [transform for transform in graph.plan.graph.transforms if transform.label == "Sum"]
        self._send = execution.dataflow.send_to(grouping.inputs[0])
        self._sent = 0

    def receive(self, bundles: int, size: int) -> HotKeys:
        """Return the keys found so far, of which each bundle has one of its own."""
        for _ in range(bundles):
            self._send(Bundle([(self._sent, 1)] * size))
            self._sent += 1
        return self._sampler.keys["Sum"]


def test_each_of_the_first_elements_of_a_slow_stream_is_sampled() -> None:
    """The keys of the first hundred are known at once; then one in a second, or one of many."""
    tapped = Tapped()
    assert (100, 100) == (len(tapped.receive(150, 1).counts), tapped.receive(0, 1).total)
    tapped.clock.advance(1_000_000)
    assert (101, 151) == (len(tapped.receive(1, 1).counts), tapped.receive(0, 1).total)


def test_few_bundles_of_a_fast_stream_are_sampled() -> None:
    """The first one has a hundred elements already; then one bundle for each 8,192 elements."""
    tapped = Tapped()
    assert {0: 1_000} == {int(key): count for key, count in tapped.receive(1, 1_000).counts.items()}
    assert {0: 1_000, 9: 9_000} == {int(key): count for key, count in tapped.receive(9, 1_000).counts.items()}
