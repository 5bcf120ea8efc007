"""Bounded programs: a bounded pipeline as segments, whose tasks any scheduler can run."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from functools import cached_property
from typing import Any

from ....sdk import graph
from ....sdk.errors import UnsupportedError
from ....sdk.options import PipelineOptions, StreamingOptions
from ....sdk.runner import Capability
from ....sdk.sources.bounded import BoundedSource
from ....sdk.spark_interfaces import refuse_frames
from ..plan.fusion import Plan, Source, fuse, shrinks
from ..plan.segments import Segment, Stored, cut, dependencies
from ..sinks.committer import with_dead_letters
from ..streaming_options import check_streaming_flags, refuse_unheeded
from ..user_errors import guarded
from .segment_task import Destination, key_groups_for

# What a runner has whose tasks run segment programs.
BOUNDED_CAPABILITIES = {
    Capability.BOUNDED_SOURCES: "yes",
    Capability.WINDOWS: "yes",
    Capability.SIDE_INPUTS: "yes",
    Capability.TRIGGERS: "yes; time advances only at the end of input, so no element is late",
    Capability.ACCUMULATION: "yes",
    Capability.STATE_AND_TIMERS: "yes; timers still set at the end of input fire then",
    Capability.COLUMNS: "yes",
    Capability.SINKS: "yes",
    Capability.ASYNC_CALLS: "yes",
    Capability.NATS: "yes, bounded reads",
    Capability.MQTT: "yes, bounded reads",
    Capability.PUBSUB: "yes, bounded reads",
    Capability.BIGQUERY: "yes",
}

# Options of supervised jobs, which a bounded run would ignore.
_OF_LOCAL_JOBS = {"health_port", "health_host", "health_timeout", "on_signal"}

# Options of streams: the groups of a bounded run may be larger than memory without them.
_OF_STREAMS = {"state_backend", "state_memory", "state_dir"}


class BoundedProgram:
    """A bounded pipeline, cut into segments.

    Attributes:
      plan: the fused pipeline.
      segments: the work between two shuffles; inputs and side inputs first.
      needs: by segment, the numbers of those that produce its input and its side inputs.
      partitions: the number of partitions of each shuffle.
      transaction: the transaction of the run's sinks.
    """

    def __init__(self, plan: Plan, partitions: int = 1) -> None:
        self.plan = plan
        self.segments = cut(plan)
        self.needs = dependencies(self.segments)
        self.partitions = partitions
        self.transaction = uuid.uuid4().hex[:12]

    @classmethod
    def of(cls, pipeline: graph.Graph, options: PipelineOptions, runner: str, partitions: int) -> BoundedProgram:
        """Return the program of a pipeline.

        Args:
          runner: the runner's name, for errors.
          partitions: the number of partitions of each shuffle.

        Raises `UnsupportedError`, naming the transform, for a pipeline that isn't bounded, and `OptionsError` for flags
        that have no effect on a bounded run.
        """
        check_bounded(pipeline, options, runner)
        return cls(fuse(with_dead_letters(pipeline, options), shrinks), partitions)

    @cached_property
    def groups(self) -> int:
        """The number of key groups."""
        return key_groups_for(self.partitions)

    def is_source(self, number: int) -> bool:
        """Return True if a segment reads a source, whose splits are its partitions."""
        return isinstance(self.segments[number].root, Source)

    def is_stored(self, number: int) -> bool:
        """Return True if a segment reads what others have stored: its partitions are their tasks."""
        return isinstance(self.segments[number].root, Stored)

    def senders(self, number: int) -> tuple[Destination, tuple[int, ...]]:
        """Return the destination of blocks that a segment reads, and the numbers of the segments that send there."""
        root = self.segments[number].root
        assert not isinstance(root, Source)
        sending = enumerate(self.segments)
        if isinstance(root, Stored):
            label = root.stage.label
            return ("stored", root.pcollection), tuple(i for i, each in sending if label in each.stores_for)
        label = root.transform.label
        return ("grouping", label), tuple(i for i, each in sending if label in each.groupings)


def check_bounded(pipeline: graph.Graph, options: PipelineOptions, runner: str) -> None:
    """Check that a runner of bounded pipelines can run this one.

    Raises `UnsupportedError`, naming the transform, and `OptionsError`.
    """
    for head in pipeline.loops():
        raise UnsupportedError(f"{head.label}: --runner={runner} has no loops; --runner=local runs them")
    refuse_frames(pipeline, runner)
    check_streaming_flags(options)
    for transform in pipeline.transforms:
        if any(not pipeline.pcollections[i].is_bounded for i in transform.outputs.values()):
            raise UnsupportedError(
                f"{transform.label}: its output is unbounded, and --runner={runner} runs bounded pipelines only; "
                "--runner=spark-microbatch or --runner=local runs it"
            )
    given = options.view_as(StreamingOptions).changed()
    refuse_unheeded((name for name in given if name in _OF_LOCAL_JOBS), runner, "local")
    refuse_unheeded((name for name in given if name in _OF_STREAMS), runner, "local or --runner=spark-microbatch")


def source_of(segment: Segment) -> tuple[str, BoundedSource[Any]]:
    """Return the label and the source of a segment that begins with one."""
    assert isinstance(segment.root, Source)
    transform = segment.root.transform
    assert isinstance(transform.primitive, graph.Read)
    assert isinstance(transform.primitive.source, BoundedSource)
    return transform.label, transform.primitive.source


def splits_of(segment: Segment, desired: int) -> Sequence[Any]:
    """Return the splits of a segment's source, about so many; one, if they have to be read in their order."""
    label, source = source_of(segment)
    return guarded(label, lambda: source.split(1 if segment.is_of_one_task else desired))
