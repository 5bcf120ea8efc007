"""The interface for runners of other packages: what a scheduler is given, and what it calls.

- A `Runner` is given the `Graph` of a pipeline, whose transforms have one of six primitives, and its options.
- `BoundedProgram` cuts a bounded pipeline into segments.  A scheduler sends a `SegmentProgram` wherever it likes, calls
  `compute` with each partition, and brings each `TaskPart` of a `TaskOutput` to the task that reads it.
  `SegmentResults` says what is to run, and publishes what sinks have staged when all of it has.
- `TaskProgram` is a task of a stream in one subtask: it is given elements, watermarks and times, and takes snapshots.
  A scheduler of streams cuts the pipeline by `fuse` and `cut_stream`, and carries what `TaskProgram` sends.
- `Capability` names the features that a runner may declare.

`penstock.testing.runner_suite` has tests that every runner passes.  `examples/dask_runner.py` is a runner in full, and
`docs/howto/runner.md` explains it.
"""

from ..sdk.errors import RunnerError, UnsupportedError
from ..sdk.graph import (
    AssignWindows,
    Feedback,
    Flatten,
    Graph,
    GroupByKeyAndWindow,
    ParDo,
    PCollectionNode,
    Read,
    Transform,
)
from ..sdk.options import PipelineOptions, StreamingOptions
from ..sdk.runner import Capability, FinishedResult, PipelineResult, PipelineState, Runner
from .execution.batch.bounded_program import BOUNDED_CAPABILITIES, BoundedProgram, check_bounded
from .execution.batch.segment_program import SegmentProgram, TaskOutput, TaskPart
from .execution.batch.segment_results import SegmentResults
from .execution.plan.execution_graph import ExecutionGraph, Task
from .execution.plan.execution_graph import cut as cut_stream
from .execution.plan.fusion import Plan, fuse
from .execution.sinks.committer import SinkCommitter
from .execution.streaming.task_program import TaskProgram
from .execution.streaming_options import parallelism_of

__all__ = [
    "AssignWindows",
    "BOUNDED_CAPABILITIES",
    "BoundedProgram",
    "Capability",
    "check_bounded",
    "cut_stream",
    "ExecutionGraph",
    "Feedback",
    "FinishedResult",
    "Flatten",
    "fuse",
    "Graph",
    "GroupByKeyAndWindow",
    "parallelism_of",
    "ParDo",
    "PCollectionNode",
    "PipelineOptions",
    "PipelineResult",
    "PipelineState",
    "Plan",
    "Read",
    "Runner",
    "RunnerError",
    "SegmentProgram",
    "SegmentResults",
    "SinkCommitter",
    "StreamingOptions",
    "Task",
    "TaskOutput",
    "TaskPart",
    "TaskProgram",
    "Transform",
    "UnsupportedError",
]
