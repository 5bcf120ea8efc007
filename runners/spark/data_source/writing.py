"""Writers of the data source: tasks stage output, and the driver has the sink publish it.

The transaction of a batch of a stream is named by the batch and the query, so each attempt of a batch has the same one;
a sink removes what earlier attempts have staged in it.  `Decisions` makes a batch that was decided publish the same
output again, whatever its tasks have staged since.
"""

from __future__ import annotations

import pickle
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any

import attrs
from pyspark.sql import datasource
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamWriter, WriterCommitMessage

from ....io.spark.arrow_rows import Packer, pyarrow
from ....sdk.errors import RunnerError, SinkError
from ....sdk.sink import LabelledSink
from ....sdk.spark_interfaces import Block
from ....sdk.user_code.serialization import dumps
from ...execution.user_errors import guarded
from ..batch.partition_function import pickled_split
from ..executor_functions import ExecutorFunction
from .decisions import Decision, Decisions
from .programs import Output, staged

# Properties of a streaming query's jobs.
_QUERY, _BATCH = "sql.streaming.queryId", "streaming.sql.batchId"

# How often a task tries to prepare its batch, and the seconds in between.
_ATTEMPTS, _BETWEEN = 3, 0.5

# The most rows of a block, where Spark passes rows.
_ROWS = 10_000


@attrs.define
class Staged(WriterCommitMessage):
    """What a task has staged.

    Attributes:
      transaction: "" for a batch that was decided before.
      tokens: pickled.
    """

    transaction: str
    tokens: list[bytes]


class _Writer(ExecutorFunction):
    """The part of writers that tasks and the driver share."""

    def __init__(self, output: Output, many_transactions: bool) -> None:
        self._label = output.sink_label
        self._program = output.pickled()
        self._sink = dumps(attrs.evolve(output.sink, many_transactions=many_transactions), self._label)
        self._schema = output.schema

    @property
    def sink(self) -> LabelledSink:
        """The sink."""
        sink: LabelledSink = pickle.loads(self._sink)
        return sink

    def stage(self, transaction: str, blocks: Iterator[bytes]) -> Staged:
        """Stage the rows of a task."""
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        return Staged(transaction, staged(self._program, transaction, context.partitionId(), blocks))

    def blocks(self, batches: Iterable[Any]) -> Iterator[bytes]:
        """Yield record batches as pickled splits."""
        schema = self._schema.serialize().to_pybytes()
        for batch in batches:
            # Spark's timestamps are in the time zone of the session.
            yield pickled_split(Block(schema, batch.cast(self._schema).serialize().to_pybytes()))

    def publish(self, transaction: str, tokens: Sequence[bytes]) -> None:
        """Have the sink publish staged output."""
        sink = self.sink
        own = list(map(pickle.loads, tokens))
        guarded(self._label, partial(sink.commit, transaction, own))
        guarded(self._label, sink.close)

    def check(self, transaction: str, tokens: Sequence[bytes]) -> None:
        """Raise the sink's error if it can't publish staged output."""
        if tokens:
            guarded(self._label, partial(self.sink.precommit, {transaction: list(map(pickle.loads, tokens))}))

    def remove(self, transactions: Iterable[str]) -> None:
        """Have the sink remove staged output."""
        for transaction in transactions:
            guarded(self._label, partial(self.sink.abort, transaction))


class BatchWriter(_Writer, DataSourceArrowWriter):
    """The writer of a DataFrame, whose rows are one transaction."""

    def __init__(self, output: Output) -> None:
        super().__init__(output, many_transactions=False)
        self._transaction = uuid.uuid4().hex[:12]
        guarded(self._label, partial(self.sink.prepare, self._transaction))

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        """Stage the rows of a task."""
        return self.stage(self._transaction, self.blocks(iterator))

    def commit(self, messages: Sequence[Any]) -> None:
        """Publish what the tasks have staged; remove it if the sink refuses it."""
        tokens = [token for each in messages if each is not None for token in each.tokens]
        try:
            self.check(self._transaction, tokens)
        except Exception:
            self.remove([self._transaction])
            raise
        self.publish(self._transaction, tokens)

    def abort(self, messages: Sequence[Any]) -> None:
        """Remove what the tasks have staged."""
        self.remove([self._transaction])


class _StreamWriter(_Writer):
    def __init__(self, output: Output, decisions: Decisions) -> None:
        super().__init__(output, many_transactions=True)
        self._decisions = decisions

    def commit(self, messages: Sequence[Any], batchId: int) -> None:
        """Publish what the tasks of a batch have staged, unless the batch was decided before."""
        decision = self._decisions.of(batchId)
        if decision is None:
            given = [each for each in messages if each is not None]
            transaction = max((each.transaction for each in given), default="")
            decision = Decision(transaction, [token for each in given for token in each.tokens])
            self.check(transaction, decision.tokens)
            self._decisions.write(batchId, decision)
        if decision.transaction:
            self.publish(decision.transaction, decision.tokens)
        self._decisions.forget_before(batchId)

    def abort(self, messages: Sequence[Any], batchId: int) -> None:
        """Remove what the tasks of a batch have staged, unless the batch was decided before."""
        if self._decisions.of(batchId) is None:
            self.remove({each.transaction for each in messages if each is not None})

    def stage_batch(self, blocks: Iterator[bytes]) -> Staged:
        """Stage the rows of a task, unless its batch was decided before."""
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        query, batch = context.getLocalProperty(_QUERY), context.getLocalProperty(_BATCH)
        if not query or not batch:
            raise RunnerError(
                f"{self._label}: expected Spark to tell the query and the batch of a task by the properties {_QUERY} "
                f"and {_BATCH}, got {query!r} and {batch!r}; write each batch by foreachBatch with df.write instead"
            )
        if self._decisions.of(int(batch)) is not None:
            return Staged("", [])
        transaction = f"{int(batch):08d}-{query.replace('-', '')[:12]}"
        self._prepare(transaction)
        return self.stage(transaction, blocks)

    def _prepare(self, transaction: str) -> None:
        # Several tasks prepare a batch, and one may find half of what another makes.
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                guarded(self._label, partial(self.sink.prepare, transaction))
            except SinkError:
                if attempt == _ATTEMPTS:
                    raise
                time.sleep(_BETWEEN)
            else:
                return


class RowStreamWriter(_StreamWriter, DataSourceStreamWriter):
    """The writer of a streaming query before PySpark 4.1, which gets rows."""

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        """Stage the rows of a task."""
        return self.stage_batch(self.blocks(self._batches(iterator)))

    def _batches(self, rows: Iterator[Any]) -> Iterator[Any]:
        pa, pack = pyarrow(), Packer(self._schema, self._label)
        chunk: list[Any] = []
        for row in rows:
            chunk.append(row)
            if len(chunk) == _ROWS:
                yield from pa.ipc.open_stream(pack(chunk))
                chunk = []
        if chunk:
            yield from pa.ipc.open_stream(pack(chunk))


StreamWriter: Callable[[Output, Decisions], Any] = RowStreamWriter
if hasattr(datasource, "DataSourceStreamArrowWriter"):

    class ArrowStreamWriter(_StreamWriter, datasource.DataSourceStreamArrowWriter):
        """The writer of a streaming query, which gets record batches."""

        def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
            """Stage the rows of a task."""
            return self.stage_batch(self.blocks(iterator))

    StreamWriter = ArrowStreamWriter
