"""Which tasks say the same again, when they start again from a checkpoint, and why others don't.

It has to be the same elements, in the same order for each partition of a source, however they are cut into bundles.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ...sdk import graph
from ...sdk.dofn import DoFn
from ...sdk.sources.scripted_source import Script
from ...sdk.sources.unbounded import UnboundedSource
from ..execution.plan.execution_graph import EdgeKind, ExecutionGraph, Task, inputs_of, outputs_of
from ..execution.plan.fusion import Output, Source, Stage, Step, Union


def why_not_repeatable(execution_graph: ExecutionGraph) -> dict[int, str | None]:
    """By the number of each task that has sources why it wouldn't say the same again; None if it would."""
    return {task.id: _why_not(task) for task in execution_graph.tasks if task.sources}


def _why_not(task: Task) -> str | None:
    checks: dict[type, Callable[[Task, Step], str | None]] = {
        Source: _of_source,
        Stage: _of_stage,
        Union: _of_union,
        Output: lambda task, step: None,
    }
    if any(edge.kind is not EdgeKind.BACK for edge in task.inputs):
        return f"{task.label} takes what others send, too"
    for step in task.steps:
        check = checks.get(type(step))
        why = f"{task.label} does more than read" if check is None else check(task, step)
        if why is not None:
            return why
    return None


def _of_source(task: Task, step: Step) -> str | None:
    assert isinstance(step, Source)
    primitive = step.transform.primitive
    assert isinstance(primitive, graph.Read)
    source = primitive.source
    if isinstance(source, Script):
        return f"{step.transform.label} is a script"
    # Of a bounded source an offset is a number of elements, which rests on their order anyway.
    if isinstance(source, UnboundedSource) and not source.repeatable:
        return f"{step.transform.label} reads from a source that isn't declared to be repeatable"
    return None


def _of_stage(task: Task, step: Step) -> str | None:
    assert isinstance(step, Stage)
    for operation in step.operations:
        primitive = operation.primitive
        if not isinstance(primitive, graph.ParDo) or primitive.fn is None:
            continue
        fn = primitive.fn.object[0]
        if not fn.deterministic:
            return f"the DoFn of {operation.label} is declared not to be deterministic"
        for method in ("start_bundle", "finish_bundle"):
            if getattr(type(fn), method) is not getattr(DoFn, method):
                return f"{operation.label} has a {method}, and bundles may be others when they are read again"
    return None


def _of_union(task: Task, step: Step) -> str | None:
    """Elements of one source that come on two ways are in an order that depends on bundles."""
    origins = _origins(task)
    seen: set[str] = set()
    for pcollection in inputs_of(step):
        own = origins.get(pcollection, frozenset())
        if seen & own:
            assert isinstance(step, Union)
            return f"{step.transform.label} puts together what comes of {min(seen & own)} in several ways"
        seen |= own
    return None


def _origins(task: Task) -> Mapping[int, frozenset[str]]:
    """By PCollection, the sources in this task that it comes of."""
    found: dict[int, frozenset[str]] = {}
    for step in task.steps:
        if isinstance(step, Source):
            own = frozenset([step.transform.label])
        else:
            own = frozenset().union(*(found.get(pcollection, frozenset()) for pcollection in inputs_of(step)))
        found.update(dict.fromkeys(outputs_of(step), own))
    return found
