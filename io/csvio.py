"""ReadFromCsv and WriteToCsv: one element for each record."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .compression import CompressionTypes
from .csv_format import CsvFormat
from .csv_source import CsvSource
from .file_sink import FileSink
from .filesystem import AnyPath
from .read_files import ReadFiles
from .write import WriteFiles


class ReadFromCsv(ReadFiles):
    r"""A dict of strings, or a Row, for each record of the CSV files that match a pattern.

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

    def __init__(
        self,
        path: AnyPath,
        *,
        names: Sequence[str] | None = None,
        usecols: Sequence[str] | None = None,
        converters: Mapping[str, Callable[[str], Any]] | None = None,
        as_rows: bool = False,
        filename_column: str | None = None,
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
            compression_type=compression_type,
            transform=type(self).__name__,
            **dialect,
        )
        super().__init__(source, validate)


class WriteToCsv(WriteFiles):
    r"""One line for each record, below a line with the names of the fields.

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
        file_name_suffix: str = "",
        shard_name_template: str | None = None,
        compression_type: str = CompressionTypes.AUTO,
        skip_if_empty: bool = False,
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
                transform=type(self).__name__,
            )
        )
