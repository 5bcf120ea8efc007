"""WriteToDelta: rows of a table of Delta Lake."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..files.filesystem import AnyPath
from ..lakehouse.table import Compaction
from ..lakehouse.write import WriteToTable
from .package import package, uri_of
from .table import DeltaTable


class WriteToDelta(WriteToTable):
    """Rows of a Delta table, committed exactly once; inserted, updated and deleted by key if there is one.

    Takes a `PCollection[T]` of records.

    Workers write data files, which no reader sees.  When the run or a checkpoint is complete, one commit adds them to
    the table, together with an application transaction; a recovery looks for that, and commits what is missing.  The
    commits of other writers are no obstacle.

    Without a `key`, rows are appended, and an input with retractions is refused while the pipeline is built.  With a
    key, the commit merges the net effect of its rows: the latest row of each key is written, and a retracted row is
    deleted, if the table still has it.  Needs the extra `delta`.

    Args:
      table: the path or URL of the table, such as 's3://bucket/table'.  Credentials are taken from the environment.
      schema: the `pyarrow.Schema` of the elements; by default the fields of their class, or the table's columns.
      key: the columns that identify a row.
      partition_by: the columns that a table is partitioned by when it is created.
      create: whether a missing table is created.
      merge_schema: adds columns of the schema that the table doesn't have.
      configuration: the properties of a table that is created, such as {"delta.enableChangeDataFeed": "true"}.
      target_file_size: the size of rows in memory, in bytes, for which a worker writes a file.
      compact_every: the number of versions after which files smaller than `target_file_size` are joined; None for
        never.

    Raises `MissingExtraError` while the pipeline is built, and `SinkError` before the run starts if the table is
    missing or doesn't fit the schema.

    >>> import penstock as beam
    >>> import deltalake, pathlib, pyarrow, tempfile
    >>> table = pathlib.Path(tempfile.mkdtemp(), "words")
    >>> schema = pyarrow.schema([("word", pyarrow.string()), ("n", pyarrow.int64())])
    >>> with beam.Pipeline() as p:
    ...     words = p | beam.Create(["to", "be", "to"]) | beam.combiners.Count.PerElement()
    ...     rows = words | beam.MapTuple(lambda word, n: beam.Row(word=word, n=n))
    ...     _ = rows | beam.io.WriteToDelta(table, schema, key="word")
    >>> deltalake.DeltaTable(table).to_pyarrow_table().sort_by("word").to_pylist()
    [{'word': 'be', 'n': 1}, {'word': 'to', 'n': 2}]
    """

    def __init__(
        self,
        table: AnyPath,
        schema: Any = None,
        *,
        key: str | Sequence[str] | None = None,
        partition_by: str | Sequence[str] = (),
        create: bool = True,
        merge_schema: bool = False,
        configuration: Mapping[str, str] | None = None,
        target_file_size: int = 64 << 20,
        compact_every: int | None = None,
    ) -> None:
        name = type(self).__name__
        package(name)
        package(name, "pyarrow")
        compaction = Compaction.of(name, compact_every, target_file_size)
        made = DeltaTable(uri_of(table, name), name, dict(configuration or {}) or None, compaction)
        super().__init__(made, schema, key, partition_by, create, merge_schema, target_file_size)
