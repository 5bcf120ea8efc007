"""DeltaSource: the rows of a version of a Delta table, as columns.  A split is a file, or some of its row groups."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

from ...frozen import frozen
from ...sdk.columns.column_bundle import ColumnBundle, in_microseconds, rows_of_bundle
from ...sdk.columns.column_elements import as_rows
from ...sdk.elements.bundle import Bundle
from ...sdk.errors import ColumnError, SourceError
from ..files.filesystem import filesystem_for, join_path
from ..lakehouse.source import TableReading, TableSource
from .log import DataFile, check_protocol, files_of
from .package import arrow_schema, explained, opened

# Files above this size are cut at their row groups.
_CUT_BYTES = 8 << 20


@frozen
class Reading(TableReading):
    """How the rows of data files are read.

    Attributes:
      schema: the `pyarrow.Schema` of the table.
      partition_by: the columns that the files don't have.
      columns: the columns of the elements.
      filter: a `pyarrow.dataset.Expression`; None for all rows.
    """

    uri: str
    label: str
    schema: Any
    partition_by: tuple[str, ...]
    columns: tuple[str, ...]
    filter: Any = None

    @property
    def table(self) -> str:
        return self.uri

    def explained(self, what: str) -> AbstractContextManager[None]:
        return explained(self.uri, self.label, what)

    def expression(self, file: DataFile) -> Any:
        """Return what is known of all rows of a file, by its partition."""
        import pyarrow.compute as pc

        known = pc.scalar(True)
        for name in self.partition_by:
            value = self._value(name, file.partition.get(name))
            own = pc.field(name).is_null() if value is None else pc.field(name) == value
            known = own if len(self.partition_by) == 1 else known & own
        return known

    def _value(self, name: str, text: str | None) -> Any:
        import pyarrow

        kind = self.schema.field(name).type
        if text is None:
            return None
        if pyarrow.types.is_binary(kind) or pyarrow.types.is_large_binary(kind):
            return pyarrow.scalar(text.encode("latin-1"), kind)
        if pyarrow.types.is_timestamp(kind):
            # The log has times in UTC, without saying so.
            return pyarrow.scalar(text.rstrip("Z").replace("T", " ")).cast(pyarrow.timestamp(kind.unit)).cast(kind)
        return pyarrow.scalar(text).cast(kind)

    def batches(self, file: DataFile, part: int = 0, parts: int = 1) -> Iterator[Any]:
        """Yield the rows of a part of a file, as record batches of the columns."""
        from pyarrow import dataset

        with filesystem_for(file.path).open(file.path) as opened_file:
            fragment = dataset.ParquetFileFormat().make_fragment(
                opened_file, partition_expression=self.expression(file) if self.partition_by else None
            )
            if parts > 1:
                groups = [group.id for group in fragment.row_groups]
                chosen = groups[len(groups) * part // parts : len(groups) * (part + 1) // parts]
                if not chosen:
                    return
                fragment = fragment.subset(row_group_ids=chosen)
            rows = rows_of_bundle(file.size, max(fragment.metadata.num_rows, 1))
            scanner = fragment.to_batches(
                schema=self.schema,
                columns=list(self.columns),
                filter=self.filter,
                batch_size=rows,
                use_threads=False,
                batch_readahead=0,
                fragment_readahead=0,
            )
            for batch in scanner:
                if batch.num_rows:
                    try:
                        yield in_microseconds(batch)
                    except ColumnError as error:
                        raise SourceError(f"{self.label}: {file.path!r}: {error}") from None

    def check(self, schema: Any, is_whole: bool = True) -> None:
        """Raise `SourceError` for a `pyarrow.Schema` that doesn't have the columns, or has them with other types.

        Args:
          is_whole: False for a schema of earlier rows, which may have fewer columns.
        """
        for name in self.columns:
            kind = self.schema.field(name).type
            if name not in schema.names:
                is_other = is_whole
            else:
                is_other = schema.field(name).type != kind
            if is_other:
                own = f"of {schema.field(name).type}" if name in schema.names else "missing"
                raise SourceError(
                    f"{self.label}: column {name!r} of Delta table {self.uri!r} is {own}, expected {kind}, as when the "
                    "pipeline was built; build it again"
                )


class DeltaSource(TableSource):
    """The rows of a version of a table.

    Args:
      reading: how; its label is that of the transform.
      version: the number or time of the version; None for the last one when the run begins.
    """

    reading: Reading

    def __init__(self, reading: Reading, version: Any) -> None:
        super().__init__(reading)
        self.version = version

    def identity(self) -> Mapping[str, Any]:
        return {"table": self.reading.uri, "version": None if self.version is None else str(self.version)}

    def estimate_size(self) -> int:
        return sum(file.size for file in self._files())

    def split(self, desired_splits: int) -> Sequence[Any]:
        files = self._files()
        target = max(-(-sum(file.size for file in files) // max(desired_splits, 1)), _CUT_BYTES)
        splits = []
        for file in files:
            parts = max(1, round(file.size / target))
            splits += [(file.path, file.size, tuple(file.partition.items()), part, parts) for part in range(parts)]
        return splits

    def read_bundles(self, split: Any) -> Iterator[Bundle]:
        path, size, partition, part, parts = split
        with explained(self.reading.uri, self.reading.label, "can't be read"):
            for batch in self.reading.batches(DataFile(path, size, dict(partition)), part, parts):
                yield ColumnBundle(batch, as_rows)

    def _files(self) -> list[DataFile]:
        """Return the files that may have rows for the filter."""
        reading = self.reading

        def found() -> list[DataFile]:
            table = opened(reading.uri, reading.label, self.version)
            check_protocol(table, reading.uri, reading.label)
            schema = arrow_schema(table)
            if not schema.equals(reading.schema):
                reading.check(schema)
            files = files_of(table, reading.uri)
            if reading.filter is None:
                return files
            # The client knows the bounds of each file's columns.
            fragments = table.to_pyarrow_dataset().get_fragments(reading.filter)
            kept = {join_path(reading.uri, fragment.path) for fragment in fragments}
            return [file for file in files if file.path in kept or "://" in file.path[len(reading.uri) :]]

        return reading.reached(found)
