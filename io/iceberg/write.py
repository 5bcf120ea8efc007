"""WriteToIceberg: rows of a table of Iceberg."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..lakehouse.table import Compaction
from ..lakehouse.write import WriteToTable
from .catalog import Catalog, package
from .partitions import parsed
from .table import IcebergTable


class WriteToIceberg(WriteToTable):
    """Rows of an Iceberg table, committed exactly once; inserted, updated and deleted by key if there is one.

    Takes a `PCollection[T]` of records.

    Workers write data files, which no reader sees.  When the run or a checkpoint is complete, one commit appends them;
    the properties of its snapshot have its name.  A recovery looks for that, and commits what is missing.  The commits
    of other writers are no obstacle.

    Without a `key`, rows are appended, and an input with retractions is refused while the pipeline is built.  With a
    key, the commit applies the net effect of its rows, and rewrites the files that have one of their keys: the latest
    row of each key is written, and a retracted row is deleted, if the table still has it.  Needs the extra `iceberg`.

    Args:
      table: the name of the table, with its namespace, such as 'shop.sales'.
      catalog_name: the name of the catalog; the client looks for its properties in the environment and in its file
        `.pyiceberg.yaml`, too.
      catalog_properties: the client's properties of the catalog.  With {"warehouse": "some/directory"} alone, the
        catalog is an SQLite database in this directory.
      partition_fields: of a table that is created, such as ['word', 'day(at)', 'bucket(word, 16)'].
      table_properties: of a table that is created.
      schema: the `pyarrow.Schema` of the elements; by default the fields of their class, or the table's columns.
      key: the columns that identify a row.
      create: whether a missing table is created.
      merge_schema: adds columns of the schema that the table doesn't have.
      target_file_size: the size of rows in memory, in bytes, for which a worker writes a file.
      compact_every: the number of snapshots after which files smaller than `target_file_size` are joined; None for
        never.

    Raises `MissingExtraError` while the pipeline is built, and `SinkError` before the run starts if the table is
    missing or doesn't fit the schema.

    >>> import penstock as beam
    >>> import pyarrow, tempfile
    >>> warehouse = {"warehouse": tempfile.mkdtemp()}
    >>> schema = pyarrow.schema([("word", pyarrow.string()), ("n", pyarrow.int64())])
    >>> with beam.Pipeline() as p:
    ...     words = p | beam.Create(["to", "be", "to"]) | beam.combiners.Count.PerElement()
    ...     rows = words | beam.MapTuple(lambda word, n: beam.Row(word=word, n=n))
    ...     _ = rows | beam.io.WriteToIceberg("docs.words", catalog_properties=warehouse, schema=schema, key="word")
    >>> with beam.Pipeline() as p:
    ...     read = beam.io.ReadFromIceberg("docs.words", catalog_properties=warehouse, filter=beam.col("n") > 1)
    ...     _ = p | read | beam.Map(print)
    Row(word='to', n=2)
    """

    def __init__(
        self,
        table: str,
        catalog_name: str | None = None,
        catalog_properties: Mapping[str, str] | None = None,
        partition_fields: Sequence[str] = (),
        table_properties: Mapping[str, str] | None = None,
        *,
        schema: Any = None,
        key: str | Sequence[str] | None = None,
        create: bool = True,
        merge_schema: bool = False,
        target_file_size: int = 64 << 20,
        compact_every: int | None = None,
    ) -> None:
        name = type(self).__name__
        package(name)
        package(name, "pyarrow")
        fields = (partition_fields,) if isinstance(partition_fields, str) else tuple(partition_fields)
        for field in fields:
            column = parsed(field, name)[1]
            if schema is not None and column not in schema.names:
                raise ValueError(f"{name}: partition_fields has {field!r}, whose column the schema doesn't have")
        made = IcebergTable(
            Catalog(catalog_name, catalog_properties),
            checked_name(table, name),
            name,
            table_properties,
            Compaction.of(name, compact_every, target_file_size),
        )
        super().__init__(made, schema, key, (), create, merge_schema, target_file_size)
        self.sink.partition_by = fields


def checked_name(table: str, transform: str) -> str:
    """Return the name of a table.  Raises `ValueError` for one without a namespace."""
    if not isinstance(table, str) or "." not in table.strip("."):
        raise ValueError(
            f"{transform}: expected the name of a table with its namespace, as 'shop.sales'; got {table!r}"
        )
    return table
