"""CsvFormat: separated values, under a line with their names."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from typing import Any, BinaryIO

from ..sdk.coders.coder import shortened
from ..sdk.errors import SinkError
from .file_format import FileFormat, RecordWriter
from .records import as_dicts


class CsvFormat(FileFormat):
    r"""One line for each record.  Records are dicts, Rows, named tuples or dataclasses.

    Args:
      columns: which fields, in which order; None for those of a file's first record.
      header: whether the first line names the columns.
      dialect: `delimiter`, `quotechar` and so on, as for `csv.writer`.

    A record with other fields raises `SinkError`.  None is written as an empty value.

    >>> import io
    >>> file = io.BytesIO()
    >>> writer = CsvFormat().open(file)
    >>> writer.write([{"name": "Ada", "age": 36}]); writer.close()
    >>> file.getvalue()
    b'name,age\nAda,36\n'
    """

    def __init__(self, columns: Sequence[str] | None = None, header: bool = True, **dialect: Any) -> None:
        self.columns = list(columns) if columns is not None else None
        self.header = header
        self.dialect = {"lineterminator": "\n", **dialect}
        # Wrong options show here, and not in a worker.
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
        records = as_dicts(values)
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

    def close(self) -> None:
        pass

    def _begin(self, columns: list[str]) -> None:
        self._columns = columns
        if self._form.header:
            self._write_rows([columns])

    def _write_rows(self, rows: list[list[Any]]) -> None:
        text = io.StringIO()
        csv.writer(text, **self._form.dialect).writerows(rows)
        self._file.write(text.getvalue().encode())
