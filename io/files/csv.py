"""CSV files: `ReadFromCsv` and `WriteToCsv`, with the source and the format behind them.

A quoted value may contain a newline, so a CSV file is read as one split.  It is read as columns where pyarrow gives the
same values as the csv module (`csv_columns`).
"""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, BinaryIO, Literal, overload

from ...sdk.coders.coder import shortened
from ...sdk.columns.column_bundle import ColumnBundle
from ...sdk.columns.column_elements import as_dicts, as_rows
from ...sdk.elements.bundle import Bundle
from ...sdk.elements.row import rows_of_dicts
from ...sdk.errors import SinkError, SourceError
from ...sdk.options.value_provider import ValueProvider
from ...sdk.type_variables import A
from ..records import as_dicts as dicts_of
from .compression import CompressionTypes, naming_the_file, open_for_reading
from .csv_columns import CsvColumns, DifferentlyParsedError, can_be_columns
from .filesystem import AnyPath, FileMetadata
from .format import FileFormat, RecordWriter
from .source import FileRange, FileSource, FileSplit, ReadFiles, bundles_of
from .text import TextSource
from .write import FileSink, WriteFiles

if TYPE_CHECKING:
    from ...sdk.static_types import Record  # noqa: F401 (in parameters of classes)

# The default limit of 128 KiB guards against unclosed quotes, which strict=True finds.
csv.field_size_limit(min(sys.maxsize, 2**31 - 1))

_ROWS_AT_ONCE = 256

# The types of converters, as in `Schema`.
_ARROW_TYPES: dict[Any, str] = {str: "string", int: "int64", float: "double"}

# The size of a file below which importing pyarrow takes longer than reading it.
_SMALL = 1 << 20


class CsvFormat(FileFormat):
    r"""One line for each record.  Records are dicts, Rows, named tuples or dataclasses.

    Args:
      columns: the fields, in order; None for the fields of a file's first record.
      header: writes the names of the columns as the first line.
      dialect: `delimiter`, `quotechar` and so on, as for `csv.writer`.

    A record with other fields raises `SinkError`.  None is written as an empty value.

    >>> import io
    >>> file = io.BytesIO()
    >>> writer = CsvFormat().open(file)
    >>> writer.write([{"name": "Ada", "age": 36}]); writer.close()
    >>> file.getvalue()
    b'name,age\nAda,36\n'
    """

    writes_columns = True

    def __init__(self, columns: Sequence[str] | None = None, header: bool = True, **dialect: Any) -> None:
        self.columns = list(columns) if columns is not None else None
        self.header = header
        self.dialect = {"lineterminator": "\n", **dialect}
        # Raises for wrong options here instead of in a worker.
        csv.writer(io.StringIO(), **self.dialect)

    def open(self, file: BinaryIO) -> RecordWriter:
        return _CsvWriter(self, file)


class _CsvWriter(RecordWriter):
    def __init__(self, form: CsvFormat, file: BinaryIO) -> None:
        self._form = form
        self._file = file
        self._columns: list[str] = []
        if form.columns is not None:
            self._begin(form.columns)

    def write(self, values: list[Any]) -> None:
        records = dicts_of(values)
        if records and not self._columns:
            self._begin(list(records[0]))
        columns, fields = self._columns, set(self._columns)
        for record in records:
            if record.keys() != fields:
                raise SinkError(
                    f"a CSV file with the columns {', '.join(columns)} can't take the record {shortened(record)}; "
                    "make all records alike, or give columns"
                )
        self._write_rows([[record[name] for name in columns] for record in records])

    def write_columns(self, bundle: ColumnBundle) -> None:
        batch = bundle.records
        if batch is not None and batch.num_rows and batch.num_columns and not self._columns:
            self._begin(batch.schema.names)
        if batch is None or sorted(batch.schema.names) != sorted(self._columns) or not self._columns:
            self.write(bundle.values)
        else:
            self._write_rows(zip(*(batch.column(name).to_pylist() for name in self._columns), strict=True))

    def close(self) -> None:
        pass

    def _begin(self, columns: list[str]) -> None:
        self._columns = columns
        if self._form.header:
            self._write_rows([columns])

    def _write_rows(self, rows: Iterable[Sequence[Any]]) -> None:
        text = io.StringIO()
        csv.writer(text, **self._form.dialect).writerows(rows)
        self._file.write(text.getvalue().encode())


class CsvSource(FileSource[Any]):
    r"""One dict of strings, or one Row, for each record.

    Args:
      names: the columns; None if each file's first record names them.
      usecols: the columns to keep; None for all.
      converters: by column, a function from text to value, such as `int`.
      as_rows: give Rows instead of dicts.
      filename_column: another column, with the path of the file.
      restval: the value of the columns for which a record is too short, as for `csv.DictReader`; None refuses such a
        record.  With a value, lines of spaces are skipped in files of several columns, as by pandas.
      dialect: `delimiter`, `quotechar` and so on, as for `csv.reader`.

    A quoted value may have newlines in it, so a file is never cut.  A record that doesn't
    fit the columns raises `SourceError`, with the file and the line.

    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp(), "a.csv")
    >>> _ = path.write_text('name,age\nAda,36\n"Grace\nHopper",85\n')
    >>> source = CsvSource(path, converters={"age": int})
    >>> [bundle.values for split in source.split(1) for bundle in source.read_bundles(split)]
    [[{'name': 'Ada', 'age': 36}, {'name': 'Grace\nHopper', 'age': 85}]]
    """

    def __init__(
        self,
        pattern: AnyPath,
        *,
        names: Sequence[str] | None = None,
        usecols: Sequence[str] | None = None,
        converters: Mapping[str, Callable[[str], Any]] | None = None,
        as_rows: bool = False,
        filename_column: str | None = None,
        restval: str | None = None,
        compression_type: str = CompressionTypes.AUTO,
        transform: str = "ReadFromCsv",
        **dialect: Any,
    ) -> None:
        super().__init__(pattern, compression_type=compression_type, transform=transform)
        self.names = list(names) if names is not None else None
        self.usecols = list(usecols) if usecols is not None else None
        self.converters = dict(converters or {})
        self.as_rows = as_rows
        self.filename_column = filename_column
        self.restval = restval
        self.dialect = dialect
        # Raises for wrong options here instead of in a worker.
        csv.reader([], **dialect)
        self._lines = TextSource(
            pattern, strip_trailing_newlines=False, compression_type=compression_type, transform=transform
        )
        self._columns = (
            CsvColumns(self.names, self.usecols, self.converters, filename_column, **dialect)
            if can_be_columns(self.names, self.usecols, self.converters, dialect)
            else None
        )
        self.gives_columns = self._columns is not None

    def can_be_cut(self, path: str) -> bool:
        return False

    def element_type(self, files: Sequence[FileMetadata]) -> Any:
        path = files[0].path
        names = self.names_of(path)
        if names is None:
            return Any
        self._check_columns(path, list(names))
        kinds: dict[str, str | None] = dict.fromkeys(names if self.usecols is None else self.usecols, "string")
        kinds |= {name: _ARROW_TYPES.get(convert) for name, convert in self.converters.items() if name in kinds}
        if self.filename_column is not None:
            kinds[self.filename_column] = "string"
        return self.record_type(files, kinds.items(), self.as_rows, self.names is None and self.usecols is None)

    def names_of(self, path: str) -> Sequence[str] | None:
        if self.names is not None:
            return self.names
        try:
            with open_for_reading(path, self.compression_type) as file:
                lines = io.TextIOWrapper(file, "utf-8-sig", newline="")
                return next((row for row in csv.reader(lines, strict=True, **self.dialect) if row), None)
        except Exception:
            # Of the csv module, of a codec, or of a file system.  The run reads the file again, and fails then.
            return None

    def format_identity(self) -> Mapping[str, Any]:
        dialect = ", ".join(f"{name}={value!r}" for name, value in sorted(self.dialect.items()))
        return {"header": "in names" if self.names is not None else "in the first record", "dialect": dialect}

    def read_bundles(self, split: FileSplit) -> Iterator[Bundle]:
        rows: list[FileRange] = []
        for file_range in split:
            # Importing pyarrow takes as long as reading a small file.
            if self._columns is None or (file_range.size < _SMALL and "pyarrow" not in sys.modules):
                rows.append(file_range)
                continue
            yield from super().read_bundles(tuple(rows))
            rows = []
            yield from self._column_bundles(self._columns, file_range)
        yield from super().read_bundles(tuple(rows))

    def _column_bundles(self, columns: CsvColumns, file_range: FileRange) -> Iterator[Bundle]:
        path, kind = file_range.path, self.compression_type
        n = 0
        try:
            with naming_the_file(path, kind), open_for_reading(path, kind) as file:
                for batch in columns.batches(path, file, self._check_columns):
                    yield ColumnBundle(batch, as_rows if self.as_rows else as_dicts)
                    n += batch.num_rows
        except DifferentlyParsedError:
            for bundle in bundles_of(self.read_range(file_range)):
                if n < len(bundle):
                    yield bundle.part(n, len(bundle))
                n = max(n - len(bundle), 0)

    def read_range(self, file_range: FileRange) -> Iterator[tuple[list[Any], int]]:
        path = file_range.path
        consumed = 0

        def lines() -> Iterator[str]:
            nonlocal consumed
            first = True
            for chunk, size in self._lines.read_range(file_range):
                if first:
                    chunk[0] = chunk[0].removeprefix("\ufeff")
                    first = False
                consumed += size
                yield from chunk

        reader = csv.reader(lines(), strict=True, **self.dialect)
        try:
            columns = self.names if self.names is not None else next((row for row in reader if row), None)
            if columns is None:
                return
            self._check_columns(path, columns)
            while chunk := list(islice(reader, _ROWS_AT_ONCE)):
                size, consumed = consumed, 0
                yield self._records(path, columns, chunk, reader.line_num), size
        except csv.Error as error:
            raise SourceError(f"{self.transform}: {path!r}, line {reader.line_num}, is not CSV: {error}") from error

    def _records(self, path: str, columns: list[str], chunk: list[list[str]], line_number: int) -> list[Any]:
        width = len(columns)
        if not {len(row) for row in chunk} <= {width, 0}:
            chunk = chunk if self.restval is None else [padded(row, width, self.restval) for row in chunk]
            if not {len(row) for row in chunk} <= {width, 0}:
                self._refuse_width(path, columns, chunk, line_number)
        records: list[dict[str, Any]] = [dict(zip(columns, row)) for row in chunk if row]
        if self.usecols is not None:
            records = [{name: record[name] for name in self.usecols} for record in records]
        for name, convert in self.converters.items():
            for record in records:
                try:
                    record[name] = convert(record[name])
                except (ValueError, TypeError, ArithmeticError) as error:
                    raise SourceError(
                        f"{self.transform}: {path!r}, at or before line {line_number}: {record[name]!r} in the column "
                        f"{name!r} can't be converted: {error}"
                    ) from error
        if self.filename_column is not None:
            for record in records:
                record[self.filename_column] = path
        return rows_of_dicts(records) if self.as_rows else records

    def _check_columns(self, path: str, columns: list[str]) -> None:
        doubled = sorted({name for name in columns if columns.count(name) > 1})
        if doubled:
            raise SourceError(f"{self.transform}: {path!r} has more than one column named {doubled[0]!r}; give names")
        for wanted in [*(self.usecols or ()), *self.converters]:
            if wanted not in columns:
                raise SourceError(
                    f"{self.transform}: {path!r} has no column {wanted!r}; it has {', '.join(map(repr, columns))}"
                )

    def _refuse_width(self, path: str, columns: list[str], chunk: list[list[str]], line_number: int) -> None:
        for i, row in enumerate(chunk):
            if row and len(row) != len(columns):
                # The number is a guess if values contain newlines; the error shows the record.
                line = line_number - sum(1 + "".join(later).count("\n") for later in chunk[i + 1 :])
                raise SourceError(
                    f"{self.transform}: {path!r}, line {line}: expected {len(columns)} values "
                    f"({', '.join(columns)}), got {len(row)}: {shortened(row)}"
                )


def padded(row: list[str], width: int, restval: str) -> list[str]:
    """Return a record with as many values as there are columns, if it has fewer; a line of spaces has none.

    >>> padded(["a"], 3, ""), padded([" "], 3, ""), padded([], 3, "")
    (['a', '', ''], [], [])
    """
    if not row or (len(row) == 1 < width and not row[0].strip()):
        return []
    return row + [restval] * (width - len(row))


class ReadFromCsv(ReadFiles[A]):
    r"""A dict of strings, or a Row, for each record of the CSV files that match a pattern.

    Returns a `PCollection[dict[str, str]]`, or of Rows.

    See `CsvSource`.  Raises `SourceError` when the pattern matches nothing, or a record
    doesn't fit the columns.

    >>> import penstock as beam
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp(), "people.csv")
    >>> _ = path.write_text("name,age\nAda,36\n")
    >>> with beam.Pipeline() as p:
    ...     _ = p | beam.io.ReadFromCsv(path, converters={"age": int}) | beam.Map(print)
    {'name': 'Ada', 'age': 36}
    """

    @overload
    def __init__(
        self: ReadFromCsv[dict[str, Any]],
        path: AnyPath,
        *,
        names: Sequence[str] | None = ...,
        usecols: Sequence[str] | None = ...,
        converters: Mapping[str, Callable[[str], Any]] | None = ...,
        as_rows: Literal[False] = ...,
        filename_column: str | None = ...,
        restval: str | None = ...,
        compression_type: str = ...,
        validate: bool = ...,
        **dialect: Any,
    ) -> None: ...
    @overload
    def __init__(
        self: ReadFromCsv[Any],
        path: AnyPath,
        *,
        names: Sequence[str] | None = ...,
        usecols: Sequence[str] | None = ...,
        converters: Mapping[str, Callable[[str], Any]] | None = ...,
        as_rows: bool = ...,
        filename_column: str | None = ...,
        restval: str | None = ...,
        compression_type: str = ...,
        validate: bool = ...,
        **dialect: Any,
    ) -> None: ...
    def __init__(
        self,
        path: AnyPath,
        *,
        names: Sequence[str] | None = None,
        usecols: Sequence[str] | None = None,
        converters: Mapping[str, Callable[[str], Any]] | None = None,
        as_rows: bool = False,
        filename_column: str | None = None,
        restval: str | None = None,
        compression_type: str = CompressionTypes.AUTO,
        validate: bool = True,
        **dialect: Any,
    ) -> None:
        source = CsvSource(
            path,
            names=names,
            usecols=usecols,
            converters=converters,
            as_rows=as_rows,
            filename_column=filename_column,
            restval=restval,
            compression_type=compression_type,
            transform=type(self).__name__,
            **dialect,
        )
        super().__init__(source, validate)


class WriteToCsv(WriteFiles["Record"]):
    r"""One line for each record, below a line with the names of the fields.

    Takes a `PCollection[T]` of records.

    See `FileSink` and `CsvFormat`.

    >>> import penstock as beam
    >>> import pathlib, tempfile
    >>> directory = pathlib.Path(tempfile.mkdtemp())
    >>> with beam.Pipeline() as p:
    ...     _ = p | beam.Create([beam.Row(name="Ada", age=36)]) | beam.io.WriteToCsv(directory / "people")
    >>> [(path.name, path.read_text()) for path in directory.iterdir()]
    [('people-00000-of-00001', 'name,age\nAda,36\n')]
    """

    def __init__(
        self,
        path: AnyPath,
        *,
        columns: Sequence[str] | None = None,
        header: bool = True,
        num_shards: int = 0,
        file_name_suffix: str | ValueProvider = "",
        shard_name_template: str | None = None,
        compression_type: str = CompressionTypes.AUTO,
        skip_if_empty: bool = False,
        triggering_frequency: float | None = None,
        **dialect: Any,
    ) -> None:
        super().__init__(
            FileSink(
                path,
                CsvFormat(columns, header, **dialect),
                file_name_suffix=file_name_suffix,
                num_shards=num_shards,
                shard_name_template=shard_name_template,
                compression_type=compression_type,
                skip_if_empty=skip_if_empty,
                triggering_frequency=triggering_frequency,
                transform=type(self).__name__,
            )
        )
