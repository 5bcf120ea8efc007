"""A batch run over Spark Connect: one DataFrame for each segment of the plan.

A row is a block: hundreds of elements, as bytes, with its destination and a number in it.  A segment is a
`mapInArrow`; a shuffle is a repartitioning by key group.  DataFrames are chained lazily, as RDDs are in
`segment_rdds.py`.  What RDDs have and Spark Connect lacks is replaced:

- Reports of tasks, which accumulators carry elsewhere, are rows.  They go along with the blocks to the next segment
  that the driver reads.
- Side inputs, elsewhere broadcast, are part of the function, and limited in size.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import reduce
from typing import TYPE_CHECKING, Any

from ....io.optional_package import optional_package
from ....io.spark.arrow_rows import arrow_schema, pyarrow
from ....sdk.errors import RunnerError
from ....sdk.spark_interfaces import Block, BoundedFrame
from ....sdk.user_code.serialization import local_modules_by_value
from ...execution.batch.bounded_program import BoundedProgram, source_of
from ...execution.batch.segment_program import SegmentProgram, decoded
from ...execution.batch.segment_task import Destination
from ...execution.plan.fusion import Plan, Source
from ...execution.plan.segments import Segment
from ..dataframes import opened, unpacked
from ..remote_jobs import RemoteJobs, by_number, default_parallelism
from .execution import BatchExecution, TaskReports, pickled_splits, uses_of
from .partition_function import ROW_BITS, PartitionFunction, Reports, pickled_split, segment_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# The columns of a segment's rows.
_SCHEMA = "target string, number int, place bigint, block binary"

# The destination of a report.
_REPORT = "report"

# The destination of attempts for the driver.
_ATTEMPT = "attempt"

# The setting of a server's cache of a session's last plans, which keeps the rows that they read.
_PLAN_CACHE = "spark.connect.session.planCache.enabled"

# About the size of a record batch that a task sends, in bytes.
_BATCH_BYTES = 1 << 20

# The most bytes of side inputs of a segment, which are sent to the server within one message.
MOST_SIDE_INPUT_BYTES = 64 << 20


class FrameReports(TaskReports):
    """Reports as of the last segment that the driver has read."""

    def __init__(self) -> None:
        super().__init__()
        self._reports: Reports = {}

    def reports(self) -> Reports:
        return self._reports

    def add(self, pickled: bytes) -> None:
        """Add a report."""
        self._reports.update(pickle.loads(pickled))


class SparkConnectExecution(BatchExecution):
    """One run of a plan over Spark Connect.

    Args:
      partitions: the number of partitions of a shuffle; None for the default parallelism of the server.
      timeout: seconds after which a call that has not returned is named in the executor's log.
      has_page: whether tasks report the stacks of their steps.
    """

    def __init__(
        self,
        plan: Plan,
        session: SparkSession,
        partitions: int | None = None,
        timeout: float = 10.0,
        has_page: bool = False,
    ) -> None:
        pyarrow()
        optional_package("pandas", extra="connect", needed_for="--spark_remote")
        self._parallelism = default_parallelism(session)
        self._returned = FrameReports()
        program = BoundedProgram(plan, partitions or self._parallelism)
        super().__init__(program, session, self._returned, timeout, has_page)
        self._jobs = RemoteJobs(session, f"penstock-{program.transaction}", self._parallelism)
        # By the number of a segment, its rows, and the packed rows of each DataFrame that it writes.
        self._rows_of: dict[int, DataFrame] = {}
        self._frame_rows: dict[int, dict[str, DataFrame]] = {}
        self._persisted: dict[int, DataFrame] = {}

    def run(self) -> None:
        with self._jobs.tagged(), self._plans_forgotten():
            super().run()

    def _cancel_jobs(self) -> None:
        # The page's thread doesn't wait: it cancels again until the run is over.
        self._jobs.cancel(waits=self._is_over.is_set())

    @contextmanager
    def _plans_forgotten(self) -> Iterator[None]:
        """Turn the session's cache of plans off in the block, if the run makes DataFrames."""
        conf = self._session.conf
        before = conf.get(_PLAN_CACHE, "true") if self._frame_sinks else "false"
        if before != "true":
            yield
            return
        conf.set(_PLAN_CACHE, "false")
        try:
            yield
        finally:
            with suppress(Exception):
                conf.set(_PLAN_CACHE, before)

    def _discard(self) -> None:
        # The client tells the server when it has no DataFrame of them any more.
        self._frame_rows.clear()
        self._rows_of.clear()

    def _release(self) -> None:
        for frame in self._persisted.values():
            with suppress(Exception):
                frame.unpersist()

    def _forget(self, number: int) -> None:
        self._rows_of.pop(number, None)
        self._frame_rows.pop(number, None)
        persisted = self._persisted.pop(number, None)
        if persisted is not None:
            with suppress(Exception):
                persisted.unpersist()

    def _describe(self, number: int, segment: Segment) -> None:
        side_inputs = self.results.side_inputs_of(number)
        _check_size(segment, side_inputs)
        packs = self._frames_of(segment)
        program = SegmentProgram.of(self.program, number)
        frame, schema = self._input(number, segment)
        with local_modules_by_value():
            task = FrameFunction(
                # Spark hashes the key groups, so each reader gets what is sent to all of them.
                *(program, self.program.groups, packs, self._timeout, self._has_page),
                side_inputs=side_inputs,
                schema=schema,
            )
        rows = frame.mapInArrow(task, _SCHEMA)
        if uses_of(segment, len(packs)) > 1:
            rows = self._persisted[number] = rows.persist()
        self._rows_of[number] = rows

    def _collect(self, numbers: Sequence[int]) -> list[tuple[int, str, Any, bytes]]:
        from pyspark.sql.connect.functions import col

        target = col("target")
        wanted = target.isin(_REPORT, _ATTEMPT) | target.startswith("sink:") | target.startswith("side:")
        rows = [self._rows_of[number].filter(wanted) for number in numbers]
        table = reduce(lambda one, other: one.union(other), rows).select("target", "place", "block").toArrow()
        kept: list[tuple[int, str, Any, bytes]] = []
        for name, place, block in zip(*(column.to_pylist() for column in table.columns), strict=True):
            kind, _, where = name.partition(":")
            if name == _REPORT:
                self._returned.add(block)
            else:
                kept.append((segment_of(place), kind, int(where) if kind == "side" else where, block))
        return kept

    def _keep_frame(self, number: int, segment: Segment, label: str) -> list[tuple[str, Any, bytes]]:
        from pyspark import StorageLevel

        # Without their lineage: user code would run again, and what it returns may differ.  Two executors keep them.
        rows = _with_targets(self._rows_of[number], target_of(("frame", label)))
        packed = rows.localCheckpoint(storageLevel=StorageLevel.MEMORY_AND_DISK_2)
        self._frame_rows.setdefault(number, {})[label] = packed
        table = packed.filter(_of_attempt()).toArrow()
        return [("attempt", None, block) for block in table["block"].to_pylist()]

    def frames(self) -> dict[str, Any]:
        found = {}
        for label in self._frame_sinks:
            rows = [own[label] for own in self._frame_rows.values() if label in own]
            blocks = reduce(lambda one, other: one.union(other), rows).filter(~_of_attempt()).select("block")
            found[label] = blocks.mapInArrow(unpacked, self._schemas[label])
        return found

    def _input(self, number: int, segment: Segment) -> tuple[DataFrame, bytes | None]:
        """Return the rows that a segment reads; with their schema, serialised, if they are those of a DataFrame."""
        if self.program.is_source(number):
            return self._source(number, segment)
        destination, senders = self.program.senders(number)
        rows = self._rows(destination, [self._rows_of[i] for i in senders])
        return (rows if self.program.is_stored(number) else rows.repartition(self.program.partitions, "number")), None

    def _rows(self, destination: Destination, senders: list[DataFrame]) -> DataFrame:
        """Return the rows with a destination, and the reports of the tasks that have sent them."""
        selected = [_with_targets(rows, target_of(destination), _REPORT) for rows in senders]
        if not selected:
            return self._session.createDataFrame([], _SCHEMA)
        return reduce(lambda one, other: one.union(other), selected)

    def _source(self, number: int, segment: Segment) -> tuple[DataFrame, bytes | None]:
        label, source = source_of(segment)
        if isinstance(source, BoundedFrame):
            frame = opened(label, source, self._session)
            large = self._session.conf.get("spark.sql.execution.arrow.useLargeVarTypes", "false") == "true"
            return frame, arrow_schema(frame.schema, label, large).serialize().to_pybytes()
        splits, partitions = pickled_splits(self.program, number, self._parallelism)
        pa = pyarrow()
        columns = [
            pa.array(["split"] * len(splits), pa.string()),
            pa.array([i % partitions for i in range(len(splits))], pa.int32()),
            pa.array(range(len(splits)), pa.int64()),
            pa.array(splits, pa.binary()),
        ]
        rows = self._session.createDataFrame(pa.table(columns, names=["target", "number", "place", "block"]))
        if partitions == 1:
            # In their order.
            return rows.coalesce(1), None
        return by_number(rows, partitions), None


def _with_targets(rows: DataFrame, *targets: str) -> DataFrame:
    from pyspark.sql.connect.functions import col

    return rows.filter(col("target").isin(*targets))


def _of_attempt() -> Any:
    """Return the condition of rows of attempts."""
    from pyspark.sql.connect.functions import col

    return col("place").bitwiseAND((1 << ROW_BITS) - 1) == 0


def target_of(destination: Destination) -> str:
    """Return a destination as text.

    >>> target_of(("grouping", "Sum"))
    'grouping:Sum'
    """
    kind, where = destination
    return kind if where is None else f"{kind}:{where}"


def _check_size(segment: Segment, side_inputs: Mapping[int, list[bytes]]) -> None:
    size = sum(len(block) for blocks in side_inputs.values() for block in blocks)
    if size > MOST_SIDE_INPUT_BYTES:
        raise RunnerError(
            f"{segment.label}: its side inputs have {size / 1e6:.0f} MB, and over Spark Connect at most "
            f"{MOST_SIDE_INPUT_BYTES / 1e6:.0f} MB are sent to the executors; join by CoGroupByKey instead, or run the "
            "pipeline with spark-submit, without --spark_remote"
        )


# --- Tasks


class FrameFunction(PartitionFunction):
    """The function that Spark calls with each partition of a segment's input.

    Args:
      side_inputs: the blocks of the segment's side inputs.
      schema: the schema of the DataFrame that it reads; None for the rows of segments and splits.
    """

    def __init__(self, *arguments: Any, side_inputs: Mapping[int, list[bytes]], schema: bytes | None) -> None:
        super().__init__(*arguments)
        self._own_side_inputs = dict(side_inputs)
        self._schema = schema
        self._is_source = isinstance(arguments[0].segment.root, Source)

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Yield the rows that the segment outputs for a partition, as record batches."""
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        passed_on: list[bytes] = []
        reports: Reports = {}
        output = _Output()
        for destination, number, position, block in self.run(
            context.partitionId(), self._rows(batches, passed_on), lambda: decoded(self._own_side_inputs), reports
        ):
            if output.add(target_of(destination), number, position, block):
                yield output.take()
        for report in [pickle.dumps(reports), *passed_on]:
            output.add(_REPORT, 0, 0, report)
        yield output.take()

    def _rows(self, batches: Iterable[Any], reports: list[bytes]) -> Iterator[Any]:
        """Return the rows of a partition as segments read them, and set aside the reports of other tasks."""
        for batch in batches:
            if self._schema is not None:
                yield pickled_split(Block(self._schema, batch.serialize().to_pybytes()))
                continue
            for target, number, position, block in zip(*batch.columns, strict=True):
                if target.as_py() == _REPORT:
                    reports.append(block.as_py())
                else:
                    yield block.as_py() if self._is_source else (number.as_py(), position.as_py(), block.as_py())


class _Output:
    """Rows for a record batch."""

    def __init__(self) -> None:
        self._rows: list[tuple[str, int, int, bytes]] = []
        self._bytes = 0

    def add(self, target: str, number: int, position: int, block: bytes) -> bool:
        """Add a row.  Returns whether there are enough for a batch."""
        self._rows.append((target, number, position, block))
        self._bytes += len(block)
        return self._bytes >= _BATCH_BYTES

    def take(self) -> Any:
        """Remove and return the rows as a record batch."""
        pa = pyarrow()
        kinds = (pa.string(), pa.int32(), pa.int64(), pa.binary())
        arrays = [pa.array([row[i] for row in self._rows], kind) for i, kind in enumerate(kinds)]
        self._rows, self._bytes = [], 0
        return pa.RecordBatch.from_arrays(arrays, ["target", "number", "place", "block"])
