"""ParquetSource: the records of Parquet files, as columns.

A file is cut at its row groups.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ...sdk.columns.column_bundle import ColumnBundle, in_microseconds, rows_of_bundle
from ...sdk.columns.column_elements import Elements, as_dicts, as_rows
from ...sdk.elements.bundle import BUNDLE_SIZE, Bundle
from ...sdk.errors import ColumnError, SourceError
from ...sdk.typehints.column_types import fields_of
from ..optional_package import optional_package
from .compression import CompressionTypes, naming_the_file
from .filesystem import AnyPath, FileMetadata, filesystem_for
from .source import FileRange, FileSource, FileSplit


def pyarrow_for(transform: str, module: str = "pyarrow") -> Any:
    """Return a module of pyarrow.  Raises `MissingExtraError` without it."""
    return optional_package(module, extra="parquet", needed_for=transform)


class ParquetSource(FileSource[Any]):
    """The records of Parquet files as dicts or Rows, or each row group as a `pyarrow.Table`.

    Args:
      columns: the columns to read; None for all.
      as_rows: give Rows instead of dicts.
      batched: give one table for each row group.

    A row group belongs to the split that it starts in.  Rows have the fields of the first file: those of another file
    are in the same order, and a field that is missing, new or of another type raises `SourceError`.  Raises
    `MissingExtraError` without pyarrow.
    """

    compresses_itself = True

    def __init__(
        self,
        pattern: AnyPath,
        *,
        columns: Sequence[str] | None = None,
        as_rows: bool = False,
        batched: bool = False,
        min_bundle_size: int = 0,
        transform: str = "ReadFromParquet",
    ) -> None:
        super().__init__(
            pattern,
            compression_type=CompressionTypes.UNCOMPRESSED,
            min_bundle_size=min_bundle_size,
            transform=transform,
        )
        self.columns = list(columns) if columns is not None else None
        self.as_rows = as_rows
        self.batched = batched
        self.gives_columns = not batched
        # The columns that are used of all; None for all of them.
        self.used: tuple[str, ...] | None = None
        # The path and the schema of the first file.
        self._first: tuple[str, Any] | None = None
        pyarrow_for(transform, "pyarrow.parquet")

    def using(self, names: tuple[str, ...]) -> ParquetSource:
        """Return a source of elements of which these fields are used; with all fields where one of these is missing."""
        if self.batched or self.columns is not None:
            return self
        twin = copy.copy(self)
        twin.used = names
        return twin

    def element_type(self, files: Sequence[FileMetadata]) -> Any:
        if self.batched and self.columns is None:
            return Any
        path = files[0].path
        try:
            schema = self._schema_of(path)
        except Exception:
            # Of pyarrow, or of a file system.  The run reads the file again, and fails then.
            return Any
        self._check_names(path, schema.names)
        if self.batched:
            return Any
        kinds = dict(fields_of(schema))
        if self.columns is not None:
            # Of a struct, some of the fields may be read.
            kinds = {name.partition(".")[0]: None if "." in name else kinds[name] for name in self.columns}
        if self.as_rows:
            self._first = path, schema
        elif len(files) > 1:
            # A field of dicts may be of another type in another file.
            kinds = dict.fromkeys(kinds)
        return self.record_type(files, kinds.items(), self.as_rows, not self.as_rows and self.columns is None)

    def names_of(self, path: str) -> Sequence[str] | None:
        try:
            names: list[str] = self._schema_of(path).names
        except Exception:
            return None
        return names

    def _schema_of(self, path: str) -> Any:
        with filesystem_for(path).open(path) as opened:
            return pyarrow_for(self.transform, "pyarrow.parquet").read_schema(opened).remove_metadata()

    def format_identity(self) -> Mapping[str, Any]:
        return {"batched": self.batched}

    def read_range(self, file_range: FileRange) -> Iterator[tuple[list[Any], int]]:
        path = file_range.path
        with naming_the_file(path, self.compression_type), filesystem_for(path).open(path) as opened:
            file = self._opened(path, opened)
            for group in _row_groups(file.metadata, file_range):
                if self.batched:
                    table = file.read_row_group(group, columns=self.columns)
                    # Each table is a bundle.
                    yield [table], max(table.nbytes, 1 << 20)
                else:
                    for batch in self._batches(path, opened, file, [group]):
                        yield self._elements(batch), batch.nbytes

    def read_bundles(self, split: FileSplit) -> Iterator[Bundle]:
        if self.batched:
            yield from super().read_bundles(split)
            return
        for file_range in split:
            path = file_range.path
            with naming_the_file(path, self.compression_type), filesystem_for(path).open(path) as opened:
                file = self._opened(path, opened)
                groups = _row_groups(file.metadata, file_range)
                for batch in self._batches(path, opened, file, groups):
                    yield ColumnBundle(batch, self._elements)

    def _batches(self, path: str, opened: Any, file: Any, groups: list[int]) -> Iterator[Any]:
        fields = self._checked_fields(path, file.schema_arrow) if self.as_rows else None
        columns = self.columns
        if self.used and {*self.used} <= {*file.schema_arrow.names}:
            columns = list(self.used)
            fields = None if fields is None else [name for name in fields if name in self.used]
            encoded = _encoded_strings(file, groups, columns)
            if encoded:
                file = self._opened(path, opened, metadata=file.metadata, read_dictionary=encoded)
        for batch in file.iter_batches(_rows_of(file.metadata), groups, columns, use_threads=False):
            try:
                yield in_microseconds(batch if fields is None or batch.schema.names == fields else batch.select(fields))
            except ColumnError as error:
                raise SourceError(f"{self.transform}: {path!r}: {error}, or use ReadFromParquetBatched") from None

    def _checked_fields(self, path: str, schema: Any) -> list[str]:
        """Return the columns to read of a file, in the order of the first one.  Raises `SourceError`."""
        if self._first is None:
            first = next((file.path for file in (self.files() if self.pattern else ())), path)
            with naming_the_file(first, self.compression_type), filesystem_for(first).open(first) as opened:
                self._first = first, self._opened(first, opened).schema_arrow
        first, expected = self._first
        wanted = None if self.columns is None else dict.fromkeys(column.partition(".")[0] for column in self.columns)
        fields = list(expected.names if wanted is None else wanted)
        for name in [*fields, *(schema.names if wanted is None else ())]:
            kinds = [str(each.field(name).type) if name in each.names else None for each in (expected, schema)]
            if kinds[0] != kinds[1] and (None in kinds or not _are_alike(expected.field(name), schema.field(name))):
                of_first, own = (f"of the type {kind}" if kind else "missing" for kind in kinds)
                advice = "Read them apart, choose others by columns=, or give dicts by as_rows=False"
                raise SourceError(
                    f"{self.transform}: {path!r} has another schema than "
                    f"{repr(first) if path != first else 'when the pipeline was built'}: the field {name!r} is {own}, "
                    f"expected it to be {of_first}. {advice if path != first else 'Build the pipeline again'}"
                )
        return fields

    @property
    def _elements(self) -> Elements:
        return as_rows if self.as_rows else as_dicts

    def _opened(self, path: str, opened: Any, **options: Any) -> Any:
        try:
            file = pyarrow_for(self.transform, "pyarrow.parquet").ParquetFile(opened, **options)
        except pyarrow_for(self.transform).ArrowInvalid as error:
            raise SourceError(f"{self.transform}: {path!r} is not a Parquet file: {error}") from error
        self._check_names(path, file.schema_arrow.names)
        return file

    def _check_names(self, path: str, names: list[str]) -> None:
        """Raise `SourceError` if the columns of a file can't be read."""
        doubled = sorted({name for name in names if names.count(name) > 1})
        if doubled and not self.batched:
            raise SourceError(f"{self.transform}: {path!r} has more than one column named {doubled[0]!r}")
        for column in self.columns or ():
            if column.partition(".")[0] not in names:
                raise SourceError(f"{self.transform}: {path!r} has no column {column!r}; it has {', '.join(names)}")


# Arrow types whose values are of one type in Python, by the names of pyarrow's predicates.
_ALIKE = ("integer", "floating", "decimal", "struct", "map", "time", "duration")
_ALIKE_IN_SIZES = ("string", "binary", "list")


def _are_alike(left: Any, right: Any) -> bool:
    """Return True if the values of two fields are of one type in Python, or one has nulls only."""
    from pyarrow import types

    def name(kind: Any) -> str:
        if types.is_timestamp(kind):
            return f"timestamp {kind.tz is None}"
        sizes = ((f"{prefix}{name}", name) for name in _ALIKE_IN_SIZES for prefix in ("", "large_", "fixed_size_"))
        known = [(name, name) for name in _ALIKE] + [pair for pair in sizes if hasattr(types, f"is_{pair[0]}")]
        return next((name for test, name in known if getattr(types, f"is_{test}")(kind)), str(kind))

    kinds = [field.type.value_type if types.is_dictionary(field.type) else field.type for field in (left, right)]
    return any(map(types.is_null, kinds)) or name(kinds[0]) == name(kinds[1])


def _encoded_strings(file: Any, groups: list[int], columns: list[str]) -> list[str]:
    """Return the columns of strings that are read in half the time with dictionaries.

    These have at most one byte for each value of the column.
    """
    from pyarrow import types

    def is_encoded(column: Any) -> bool:
        if not column.has_dictionary_page or column.num_values < BUNDLE_SIZE:
            return False
        return bool(column.data_page_offset - column.dictionary_page_offset <= column.num_values)

    indices = {file.metadata.schema.column(i).path: i for i in range(file.metadata.num_columns)}
    row_groups = [file.metadata.row_group(group) for group in groups]
    return [
        name
        for name in columns
        if types.is_string(file.schema_arrow.field(name).type)
        and all(is_encoded(row_group.column(indices[name])) for row_group in row_groups)
    ]


def _rows_of(metadata: Any) -> int:
    """Return the number of rows of a bundle, by their size."""
    size = sum(metadata.row_group(group).total_byte_size for group in range(metadata.num_row_groups))
    return rows_of_bundle(size, metadata.num_rows)


def _row_groups(metadata: Any, file_range: FileRange) -> list[int]:
    stop = file_range.stop if file_range.stop is not None else file_range.file_size
    return [g for g in range(metadata.num_row_groups) if file_range.start <= _start(metadata.row_group(g)) < stop]


def _start(row_group: Any) -> int:
    if row_group.num_columns == 0:
        return 0
    column = row_group.column(0)
    return int(min(column.data_page_offset, column.dictionary_page_offset or column.data_page_offset))
