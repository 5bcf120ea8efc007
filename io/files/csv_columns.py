"""CSV files as columns: blocks of whole records, parsed by pyarrow.

pyarrow and the csv module parse differently what is malformed, a quote within a value, a bare carriage return, and some
numbers.  A file is parsed by pyarrow up to the first block in which they could differ; the csv module reads the rest.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.util import find_spec
from typing import Any, BinaryIO

from ...frozen import frozen
from ...sdk.columns.column_bundle import rows_of_bundle

# The mark of UTF-8, which pyarrow drops at the beginning of a block.
_BOM = b"\xef\xbb\xbf"

# A quoted value that is longer is left to the csv module.
_LONGEST = 1 << 26

# The Arrow types of converters, and a part of a text that pyarrow converts but Python doesn't: 0x10 and nan(1).
_TYPES: dict[Any, tuple[str, str]] = {int: ("int64", "x"), float: ("float64", "(")}


class DifferentlyParsedError(Exception):
    """A block that pyarrow may parse differently from the csv module."""


@frozen
class CsvColumns:
    """The records of a CSV file as record batches.

    Args:
      names: the columns; None if the first record names them.
      usecols: the columns to keep; None for all.
      converters: by column, `int`, `float` or `str`.
      block_size: the number of bytes that are parsed at once.
    """

    names: Sequence[str] | None
    usecols: Sequence[str] | None
    converters: Mapping[str, Any]
    filename_column: str | None
    delimiter: str = ","
    quotechar: str = '"'
    block_size: int = 1 << 20

    def batches(self, path: str, file: BinaryIO, check: Callable[[str, list[str]], None]) -> Iterator[Any]:
        """Yield record batches of a bundle's rows.

        Args:
          check: called with the path and the columns of the file.

        Raises `DifferentlyParsedError` for the rest of the file.
        """
        names = None if self.names is None else list(self.names)
        if names is not None:
            check(path, names)
        for data in self._blocks(file):
            if names is None:
                names, data = self._header(data)
                if names is None:
                    continue
                check(path, names)
            if data.strip(b"\r\n"):
                batch = self._batch(path, names, data)
                size = rows_of_bundle(batch.nbytes, batch.num_rows)
                for start in range(0, batch.num_rows, size):
                    yield batch.slice(start, size)

    def _blocks(self, file: BinaryIO) -> Iterator[bytes]:
        """Yield the file in blocks that end between two records."""
        rest = file.read(self.block_size).removeprefix(_BOM)
        wanted = self.block_size
        while rest:
            block = file.read(wanted)
            end = self._end_of_records(rest, rest.rfind(b"\n") + 1 if block else len(rest))
            if end:
                yield rest[:end]
                rest, wanted = rest[end:] + block, self.block_size
            elif block and len(rest) < _LONGEST:
                # The record is longer than a block.
                rest, wanted = rest + block, 2 * wanted
            else:
                raise DifferentlyParsedError

    def _end_of_records(self, data: bytes, end: int) -> int:
        """Return the end of the last record before `end`, or 0.

        Raises `DifferentlyParsedError` unless quotes enclose whole values, within which they are doubled.
        """
        import numpy

        if data.startswith(_BOM) or (b"\r" in data and data.count(b"\r", 0, end) != data.count(b"\r\n", 0, end)):
            raise DifferentlyParsedError
        quote = self.quotechar.encode()
        if quote not in data:
            return end
        # With something before the first byte and behind the last one.
        content = numpy.frombuffer(b"\n%b\n" % data[:end], numpy.uint8)
        quotes = numpy.flatnonzero(content == quote[0])
        may_be_beside = numpy.zeros(256, bool)
        may_be_beside[[*b"\r\n", quote[0], ord(self.delimiter)]] = True
        # A quote beside another one is half of a doubled quote.
        if not (may_be_beside[content[quotes[::2] - 1]].all() and may_be_beside[content[quotes[1::2] + 1]].all()):
            raise DifferentlyParsedError
        while end:
            before = int(numpy.searchsorted(quotes, end, "right"))
            if before % 2 == 0:
                return end
            end = data.rfind(b"\n", 0, quotes[before - 1] - 1) + 1
        return 0

    def _header(self, data: bytes) -> tuple[list[str] | None, bytes]:
        """Return the first record, None if there is none, and the rest of the block."""
        file = io.BytesIO(data)
        try:
            lines = (line.decode() for line in file)
            reader = csv.reader(lines, strict=True, delimiter=self.delimiter, quotechar=self.quotechar)
            names = next((row for row in reader if row), None)
        except (csv.Error, UnicodeDecodeError) as error:
            raise DifferentlyParsedError from error
        return names, data[file.tell() :]

    def _batch(self, path: str, names: list[str], data: bytes) -> Any:
        import pyarrow.csv
        from pyarrow import compute

        quote = self.quotechar.encode()
        try:
            table = pyarrow.csv.read_csv(
                pyarrow.py_buffer(data),
                pyarrow.csv.ReadOptions(use_threads=False, block_size=len(data) + 1, column_names=names),
                pyarrow.csv.ParseOptions(
                    delimiter=self.delimiter,
                    quote_char=self.quotechar,
                    newlines_in_values=quote in data,
                ),
                pyarrow.csv.ConvertOptions(
                    column_types=dict.fromkeys(names, pyarrow.string()), strings_can_be_null=False, null_values=[]
                ),
            )
            columns = dict(zip(names, (column.combine_chunks() for column in table.columns), strict=True))
            if self.usecols is not None:
                columns = {name: columns[name] for name in self.usecols}
            for name, convert in self.converters.items():
                if convert is not str:
                    kind, other = _TYPES[convert]
                    if (
                        other.encode() in data.lower()
                        and compute.any(compute.match_substring(columns[name], other, ignore_case=True)).as_py()
                    ):
                        raise DifferentlyParsedError
                    columns[name] = columns[name].cast(kind)
        except pyarrow.ArrowException as error:
            raise DifferentlyParsedError from error
        if self.filename_column is not None:
            columns[self.filename_column] = pyarrow.repeat(path, table.num_rows)
        return pyarrow.RecordBatch.from_pydict(columns)


def can_be_columns(
    names: Sequence[str] | None,
    usecols: Sequence[str] | None,
    converters: Mapping[str, Any],
    dialect: Mapping[str, Any],
) -> bool:
    """Return True if pyarrow is installed, and can read CSV files with these options as the csv module reads them."""
    signs = [dialect.get("delimiter", ","), dialect.get("quotechar", '"')]
    return bool(
        dialect.keys() <= {"delimiter", "quotechar"}
        and all(isinstance(sign, str) and len(sign) == 1 and sign.isascii() for sign in signs)
        and signs[0] != signs[1]
        and set(converters.values()) <= {int, float, str}
        and names != []
        and (usecols is None or (usecols and converters.keys() <= set(usecols)))
        and find_spec("pyarrow") is not None
        and find_spec("numpy") is not None
    )
