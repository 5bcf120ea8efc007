"""The graph and the metrics of a run as data, for a page: transforms with their positions, PCollections and tasks.

>>> import penstock as beam
>>> from penstock.runners.execution.plan.execution_graph import cut
>>> from penstock.runners.execution.plan.fusion import fuse
>>> p = beam.Pipeline()
>>> _ = p | beam.Create(["a", "b"]) | beam.combiners.Count.PerElement() | "Print" >> beam.Map(print)
>>> described = described_graph(cut(fuse(p.graph())))
>>> [(transform["label"], transform["kind"], transform["task"]) for transform in described["transforms"]][-1]
('Print', 'ParDo', 1)
>>> [edge["crosses"] for edge in described["edges"]]
['', 'shuffle', '']
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ....sdk import graph
from ....sdk.drawing.drawing import drawn_transforms
from ....sdk.metrics import MetricsContainer
from ..counters import Counts
from ..plan.execution_graph import EdgeKind, ExecutionGraph, label_of
from ..plan.fusion import Grouping, Keyed, Plan, Stage, Step
from ..plan.segments import Segment, Stored
from ..stages.traffic import Traffic
from ..streaming.observation import Observed, StepBacklog


def described_graph(execution_graph: ExecutionGraph) -> dict[str, Any]:
    """Return the graph as data (docs/ui.md)."""
    plan = execution_graph.plan
    task_of = {label: task.id for task in execution_graph.tasks for step in task.steps for label in _labels(step)}
    crossing = {edge.pcollection: edge.kind.value for task in execution_graph.tasks for edge in task.outputs}
    described = _described(plan, task_of, crossing)
    described["parallelism"] = execution_graph.parallelism
    described["tasks"] = [
        {"id": task.id, "label": task.label, "steps": [label_of(step) for step in task.steps]}
        for task in execution_graph.tasks
    ]
    return described


def described_segments(plan: Plan, segments: Sequence[Segment], parallelism: int) -> dict[str, Any]:
    """Return the graph of a plan as data, of which the segments run as tasks in so many workers."""
    steps = [[step for step in (segment.root, *segment.steps) if not isinstance(step, Stored)] for segment in segments]
    # A step behind a Flatten is in several segments.
    task_of = {
        label: number for number, own in reversed([*enumerate(steps)]) for step in own for label in _labels(step)
    }
    crossing: dict[int, str] = {}
    if parallelism > 1:
        for segment in segments:
            if isinstance(segment.root, (Grouping, Keyed)):
                crossing[segment.root.transform.inputs[0]] = EdgeKind.SHUFFLE.value
            crossing |= dict.fromkeys(segment.side_outputs, EdgeKind.BROADCAST.value)
    described = _described(plan, task_of, crossing)
    described["parallelism"] = parallelism
    described["tasks"] = [
        {"id": number, "label": segment.label, "steps": [label_of(step) for step in own]}
        for number, (segment, own) in enumerate(zip(segments, steps, strict=True))
    ]
    return described


def _described(plan: Plan, task_of: dict[str, int], crossing: dict[int, str]) -> dict[str, Any]:
    drawing = drawn_transforms(plan.graph)
    stage_of = {t.label: step.label for step in plan.steps if isinstance(step, Stage) for t in step.operations}
    for transform, drawn in zip(plan.graph.transforms, drawing["transforms"], strict=True):
        drawn["task"] = task_of.get(transform.label)
        drawn["stage"] = stage_of.get(transform.label, transform.label)
        drawn["windowing"] = _windowing_of(transform)
    labels = [transform.label for transform in plan.graph.transforms]
    for edge in drawing["edges"]:
        source, target = stage_of.get(labels[edge["source"]]), stage_of.get(labels[edge["target"]])
        # Within a fused stage elements are passed on by generated code, one by one.
        edge["is_fused"] = source is not None and source == target
        edge["crosses"] = crossing.get(edge["pcollection"], "")
    return drawing


def _labels(step: Step) -> list[str]:
    return [t.label for t in step.operations] if isinstance(step, Stage) else [step.transform.label]


def _windowing_of(transform: graph.Transform) -> dict[str, str] | None:
    """Return the windowing of a grouping as texts; None for other transforms."""
    primitive = transform.primitive
    if not isinstance(primitive, graph.GroupByKeyAndWindow):
        return None
    windowing = primitive.windowing
    return {
        "windows": str(windowing.window_fn),
        "trigger": str(windowing.trigger),
        "accumulation": windowing.accumulation_mode.name,
        "combine": "" if primitive.combine is None else "combining",
    }


def described_counts(counts: Counts) -> dict[str, Any]:
    """Return counts of elements by stage, and seconds by transform.

    >>> counts = Counts()
    >>> counts.of("Parse").read, counts.seconds["Parse"] = 2, 0.5
    >>> described_counts(counts)
    {'read': {'Parse': 2}, 'written': {'Parse': 0}, 'seconds': {'Parse': 0.5}}
    """
    steps = list(counts.steps.items())
    return {
        "read": {label: count.read for label, count in steps},
        "written": {label: count.written for label, count in steps},
        "seconds": {label: round(seconds, 4) for label, seconds in list(counts.seconds.items())},
    }


def described_run(
    state: str,
    now: int,
    started: int,
    counts: Counts,
    metrics: MetricsContainer,
    subtasks: Sequence[Sequence[Sequence[float]]],
    **more: Any,
) -> dict[str, Any]:
    """Return the status of a run as data (docs/ui.md).

    Args:
      subtasks: for each task and subtask the share of time in which it was busy, and in which it was backpressured, and
        the elements that it has read.
      more: what not every run has.
    """
    about = {"state": state, "now": now, "started": started, "watermarks": {}, "subtasks": subtasks, "backlog": None}
    return about | described_counts(counts) | {"metrics": described_metrics(metrics)} | more


def described_metrics(metrics: MetricsContainer) -> list[dict[str, Any]]:
    """Return counters, distributions and gauges, by step.

    >>> from penstock.sdk.metrics import Metrics, scoped
    >>> metrics = MetricsContainer()
    >>> with scoped(metrics, "Parse"):
    ...     Metrics.counter("app", "lines").inc(2)
    >>> described_metrics(metrics)
    [{'step': 'Parse', 'namespace': 'app', 'name': 'lines', 'kind': 'counter', 'value': 2}]
    """
    found = []
    for step, own in list(metrics.steps.items()):
        kinds: list[tuple[str, dict[Any, Any]]] = [
            ("counter", dict(own.counters)),
            ("distribution", {name: list(cell) for name, cell in list(own.distributions.items())}),
            ("gauge", {name: str(value)[:200] for name, (_, value) in list(own.gauges.items())}),
        ]
        for kind, values in kinds:
            found += [
                {"step": step, "namespace": name.namespace, "name": name.name, "kind": kind, "value": value}
                for name, value in values.items()
            ]
    return found


def described_observation(latest: Iterable[Observed]) -> dict[str, Any]:
    """Return the latest observations of processes as data (docs/ui.md)."""
    traffic: dict[int, Traffic] = {}
    shuffles: dict[str, Traffic] = {}
    keys: dict[str, dict[str, int]] = {}
    totals: dict[str, int] = {}
    kept: dict[str, int] = {}
    overdue: dict[str, int] = {}
    backlogs: dict[str, StepBacklog] = {}
    for each in latest:
        for label, backlog in each.backlogs.items():
            backlogs[label] = backlogs[label].plus(backlog) if label in backlogs else backlog
        for pcollection, own in each.traffic.items():
            traffic[pcollection] = traffic.get(pcollection, Traffic(0, 0)).plus(own)
        for label, own in each.shuffles.items():
            shuffles[label] = shuffles.get(label, Traffic(0, 0)).plus(own)
        for label, (total, top) in each.keys.items():
            totals[label] = totals.get(label, 0) + total
            for key, count in top:
                keys.setdefault(label, {})[key] = keys.get(label, {}).get(key, 0) + count
        for label, n in each.kept.items():
            kept[label] = kept.get(label, 0) + n
        for label, micros in each.overdue.items():
            overdue[label] = max(overdue.get(label, 0), micros)
    hot = {
        label: {"total": totals[label], "keys": sorted(counts.items(), key=lambda entry: -entry[1])[:12]}
        for label, counts in keys.items()
    }
    return {
        "traffic": {i: [each.elements, each.size] for i, each in traffic.items()},
        "estimated": {i: list(each.estimates) for i, each in traffic.items()},
        "shuffles": {label: [each.elements, each.size] for label, each in shuffles.items()},
        "hot_keys": hot,
        "kept": kept,
        "overdue": overdue,
        "backlogs": {label: list(each.counted()) for label, each in backlogs.items()},
    }
