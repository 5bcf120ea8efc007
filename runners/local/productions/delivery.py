"""Which tasks are strong, and which are weak.

A task's steps are done together, and are one production: it is as strong as the strongest of its steps.  Sources
and sinks are as what stands beside them: a source reads the same again, and a sink is told only of
what is durable.
"""

from __future__ import annotations

from ...execution.plan.execution_graph import ExecutionGraph, Task
from ...execution.plan.fusion import Grouping, Keyed, Stage, Step

STRONG, WEAK = "strong", "weak"


def weak_tasks(execution_graph: ExecutionGraph, default: str) -> frozenset[int]:
    """The tasks all of whose steps are weak.

    Args:
      default: "strong" or "weak", of the transforms of which nothing was said.
    """
    return frozenset(task.id for task in execution_graph.tasks if _is_weak(task, default))


def _is_weak(task: Task, default: str) -> bool:
    said = [delivery or default for step in task.steps for delivery in _said(step)]
    return STRONG not in (said or [default])


def _said(step: Step) -> list[str | None]:
    """What was said of the transforms of a step, if they have outputs of their own making."""
    if isinstance(step, Stage):
        return [transform.delivery for transform in step.operations]
    return [step.transform.delivery] if isinstance(step, (Grouping, Keyed)) else []
