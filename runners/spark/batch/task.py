"""A segment on one partition, in an executor: the batch engine's task, with rows of an RDD in and out."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import cloudpickle

from ....sdk import graph
from ....sdk.coders import registry
from ....sdk.metrics import MetricsContainer, scoped
from ....sdk.serialization import dumps
from ...execution.batch.block_spool import BlockSpool
from ...execution.batch.segment_task import Destination, KeyGroups, SegmentTask, steps_of
from ...execution.counters import Counts
from ...execution.error_transport import wrapped
from ...execution.gc_tuning import rarely_collected
from ...execution.plan.fusion import Grouping, Keyed, Plan, Source
from ...execution.plan.segments import Segment
from ...execution.shuffle.blocks import decode_bundle
from ...execution.stages.side_input_views import SideInputViews
from ...execution.stuck_calls import CallWatch
from ...execution.user_errors import as_exception
from ..dataframes import FrameOutput, Pack

if TYPE_CHECKING:
    from pyspark import Broadcast

# What a row is: its destination, and there a number and bytes.  Besides those of blocks there are ("sink", label), for
# tokens, and ("frame", label).
Row = tuple[Destination, int, bytes]


class PartitionFunction:
    """The function that Spark calls with each partition of a segment's input.

    Args:
      plan, segment: what is to be done.
      transaction: the run's, for its sinks.
      side_inputs: a broadcast of the blocks of the segment's side inputs.
      reports: an accumulator of `Reports`.
      number: the segment's.
      groups: how many key groups there are.
      packs: what packs the rows of a DataFrame, by the label of its sink.
      timeout: seconds after which a call that has not returned is named in the worker's log.

    Raises `SerializationError` when something in the segment can't be pickled.
    """

    def __init__(
        self,
        plan: Plan,
        segment: Segment,
        transaction: str,
        side_inputs: Broadcast[dict[int, list[bytes]]] | None,
        reports: Any,
        number: int,
        groups: int,
        packs: Mapping[str, Pack],
        timeout: float,
    ) -> None:
        # Of the plan a task needs what the segment sends to.  With the coders that users
        # registered: they decide what can be a key.
        targets = tuple(t for t in plan.graph.transforms if t.label in segment.groupings)
        needed = Plan((), graph.Graph(targets, plan.graph.pcollections))
        self._payload = dumps((needed, segment, registry.registered(), packs), segment.label)
        self._transaction = transaction
        self._side_inputs = side_inputs
        self._reports = reports
        self._number = number
        self._groups = groups
        self._timeout = timeout

    def __call__(self, partition: int, rows: Iterable[Any]) -> Iterator[Row]:
        """The rows that the segment makes of one partition of its input."""
        container, counts = MetricsContainer(), Counts()
        try:
            with scoped(container), rarely_collected(), CallWatch(self._timeout):
                plan, segment, coders, packs = cloudpickle.loads(self._payload)
                registry.register_all(coders)
                views = SideInputViews()
                if self._side_inputs is not None:
                    for pcollection, blocks in self._side_inputs.value.items():
                        for block in blocks:
                            views.add(pcollection, decode_bundle(block))
                # What another attempt writes has other names.
                unit = f"{partition}-{uuid.uuid4().hex[:8]}"
                arguments = views, self._transaction, unit, counts, container, self._groups
                yield from rows_of(plan, segment, rows, *arguments, packs)
        except GeneratorExit:
            # Spark wants no more of the rows.
            raise
        except BaseException as error:
            raise wrapped(as_exception(error)) from None
        self._reports.add({(self._number, partition): (container, counts)})


def rows_of(
    plan: Plan,
    segment: Segment,
    rows: Iterable[Any],
    views: SideInputViews,
    transaction: str,
    unit: str,
    counts: Counts,
    metrics: MetricsContainer,
    groups: int,
    packs: Mapping[str, Pack],
) -> Iterator[Row]:
    """Run a segment on one partition, and yield the rows that it makes.

    Args:
      rows: the partition's rows: pickled splits, or numbers with blocks.
      packs: what packs the rows of a DataFrame, by the label of its sink.
      groups: how many key groups there are.
    """
    made: list[Row] = []

    def send(destination: Destination, number: int, block: bytes) -> None:
        made.append((destination, number, block))

    def taken() -> list[Row]:
        taken, made[:] = list(made), []
        return taken

    frames = {
        label: FrameOutput(label, pack, partial(send, ("frame", label), 0), counts) for label, pack in packs.items()
    }
    task = SegmentTask(
        plan, [segment], steps_of(segment), views, transaction, unit, counts, metrics, send, groups, frames
    )
    try:
        for _ in task.run(segment, _partition(segment, rows)):
            yield from taken()
        for _ in task.finish():
            yield from taken()
        yield from taken()
        for label, token in task.stage():
            yield ("sink", label), 0, dumps(token, label)
    except BaseException:
        task.discard()
        raise


def _partition(segment: Segment, rows: Iterable[Any]) -> Iterable[Any]:
    """Return a task's rows as the engine takes them."""
    if isinstance(segment.root, Source):
        return map(cloudpickle.loads, rows)
    if not isinstance(segment.root, (Grouping, Keyed)):
        stored: KeyGroups = [(0, (block for _, block in rows))]
        return stored
    spool = BlockSpool()
    for group, block in rows:
        spool.add(group, block)
    return spool.groups()
