"""Which tasks are strong, and which are weak.

A task's steps are done together, and are one production: it is as strong as the strongest of its steps.  A
source is as its readers are, since it reads the same again.
"""

from __future__ import annotations

from ...execution.execution_graph import ExecutionGraph

STRONG, WEAK = "strong", "weak"


def weak_tasks(execution_graph: ExecutionGraph, default: str) -> frozenset[int]:
    """The tasks all of whose steps are weak.

    Args:
      default: "strong" or "weak", of the transforms that don't say anything.
    """
    return frozenset(task.id for task in execution_graph.tasks if default == WEAK)
