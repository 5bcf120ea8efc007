"""read_csv and read_parquet: files as deferred frames.  Frames have methods to write them."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from typing import Any

from ..frozen import frozen
from ..io import ReadFromCsv, ReadFromParquet
from ..io.files.compression import open_for_reading
from ..io.files.csv import padded
from ..io.files.filesystem import filesystem_for
from ..sdk.coders.coder import shortened
from ..sdk.columns.expressions import field_of
from ..sdk.columns.pandas_functions import parsed
from ..sdk.errors import SourceError, missing_extra
from ..sdk.ptransform import PTransform
from ..sdk.pvalue import PBegin
from .convert import to_dataframe
from .frame_base import refuse_arguments
from .frames import DeferredDataFrame, frame_of
from .grouping import projected

# The bytes at the beginning of each file by which the types of columns are inferred.
_SAMPLE = 1 << 20

# What pandas reads as missing.
_MISSING = ("", "NA", "N/A", "n/a", "NaN", "nan", "-NaN", "-nan", "NULL", "null", "None", "<NA>", "#N/A", "#NA")


# The types of text in `dtype`.
_TEXT = (str, "str", "string", object, "object")


class _ReadCsv(PTransform):
    def __init__(
        self,
        path: Any,
        sep: str,
        usecols: Sequence[str] | None,
        dtype: dict[str, Any],
        filename_column: str | None,
        sample_bytes: int,
    ) -> None:
        super().__init__()
        self.path, self.sep, self.usecols, self.dtype = path, sep, usecols, dtype
        self.filename_column = filename_column
        self.sample_bytes = sample_bytes

    def default_label(self) -> str:
        return f"read_csv({self.path})"

    def expand(self, pbegin: PBegin) -> DeferredDataFrame:
        kinds = _types(self.path, self.sep, self.sample_bytes, pbegin.pipeline.full_label)
        kinds |= {name: "string" for name, kind in self.dtype.items() if name in kinds and kind in _TEXT}
        names = [name for name in kinds if self.usecols is None or name in self.usecols]
        options: Any = {} if self.sep == "," else {"delimiter": self.sep}
        of_file = self.filename_column
        text = pbegin | "Read" >> ReadFromCsv(
            self.path, as_rows=True, usecols=names, filename_column=of_file, restval="", **options
        )
        columns = {
            name: parsed(field_of(name), kinds[name], _MISSING, Misfit(str(self.path), self.sep, name, kinds[name]))
            for name in names
        }
        if of_file is not None:
            columns[of_file] = field_of(of_file)
        frame = frame_of(projected(text, columns, "Parse"), list(columns))
        return frame.astype(self.dtype) if self.dtype else frame


def read_csv(
    path: Any,
    sep: str = ",",
    usecols: Any = None,
    dtype: Any = None,
    splittable: bool = True,
    filename_column: str | None = None,
    sample_bytes: int = _SAMPLE,
    **arguments: Any,
) -> Any:
    """Return a transform that reads CSV files into a deferred frame: `df = p | read_csv(pattern)`.

    The types of columns are inferred by the beginnings of all files: whole numbers, numbers, truth values, or text.  A
    column with whole numbers in one file and other numbers in another one has numbers; one with values of several
    other types has text.  Empty text, `NA`, `NaN`, `null` and the like are missing values, and so are those that a row
    is too short for.  A column that has nothing else in these beginnings is looked for in the rest of the files.

    Args:
      path: a path or a pattern.
      sep: the separator of fields.
      usecols: the names of the columns to read; None for all.
      dtype: types of columns by name, as in `astype`.
      splittable: Beam's, without effect: files are split where that is possible.
      filename_column: another column, with the path of the file.
      sample_bytes: the size of the beginning of each file, in bytes.

    Raises `SourceError` while the pipeline runs for a later value of another type, with its file and line.

    >>> import pathlib, tempfile
    >>> import penstock as beam
    >>> from penstock.dataframe.convert import to_pcollection
    >>> path = pathlib.Path(tempfile.mkdtemp(), "sales.csv")
    >>> _ = path.write_text("item,cups\\ntea,2\\n")
    >>> with beam.Pipeline() as p:
    ...     df = p | read_csv(path)
    ...     _ = to_pcollection(df[df.cups > 1]) | beam.Map(print)
    Result(item='tea', cups=2)
    """
    refuse_arguments("read_csv", arguments, delimiter=None, header="infer", index_col=None, encoding=None)
    if not isinstance(sample_bytes, int) or sample_bytes < 1:
        raise ValueError(f"read_csv: sample_bytes must be a number of bytes of 1 or more, got {sample_bytes!r}")
    return _ReadCsv(path, sep, usecols, dict(dtype or {}), filename_column, sample_bytes)


def _types(path: Any, sep: str, sample_bytes: int, label: str) -> dict[str, str]:
    """Return the types of the columns by the beginnings of all files, as names of Arrow's types.

    The columns are those of the first file.
    """
    try:
        import pyarrow.csv  # noqa: F401
    except ImportError as error:
        raise missing_extra("pyarrow", "dataframes", label) from error
    paths = _paths(path)
    if not paths:
        raise SourceError(f"{label}: no file matches {path}")
    kinds: dict[str, str] = {}
    for one in paths:
        own = _types_of_beginning(one, sep, sample_bytes, label)
        kinds = own if not kinds else {name: _common(kind, own.get(name, "null")) for name, kind in kinds.items()}
    if "null" in kinds.values():
        kinds = _completed(kinds, paths, sep)
    return {name: "string" if kind == "null" else kind for name, kind in kinds.items()}


def _paths(path: Any) -> list[str]:
    return sorted(one.path for one in filesystem_for(str(path)).match(str(path)))


def _types_of_beginning(path: str, sep: str, sample_bytes: int, label: str) -> dict[str, str]:
    import pyarrow.csv

    with open_for_reading(path) as file:
        sample = file.read(sample_bytes)
    if len(sample) == sample_bytes:
        # The header and a row at least.
        sample = sample[: sample.rfind(b"\n") + 1] or sample
    parse = pyarrow.csv.ParseOptions(delimiter=sep, newlines_in_values=True)
    convert = pyarrow.csv.ConvertOptions(null_values=list(_MISSING), strings_can_be_null=True)

    def read(data: bytes) -> Any:
        return pyarrow.csv.read_csv(io.BytesIO(data), parse_options=parse, convert_options=convert)

    try:
        table = read(sample)
    except pyarrow.ArrowInvalid:
        # Rows of several lengths.
        try:
            table = read(_padded_rows(sample, sep))
        except (pyarrow.ArrowInvalid, ValueError, csv.Error) as error:
            raise SourceError(f"{label}: {path} isn't CSV with a line of column names: {error}") from error
    known = ("int64", "double", "bool", "null")
    return {field.name: str(field.type) if str(field.type) in known else "string" for field in table.schema}


def _common(one: str, other: str) -> str:
    """Return the type that values of both types have.

    >>> _common("int64", "double"), _common("null", "bool"), _common("bool", "int64")
    ('double', 'bool', 'string')
    """
    if one == other or other == "null":
        return one
    if one == "null":
        return other
    return "double" if {one, other} == {"int64", "double"} else "string"


def _completed(kinds: dict[str, str], paths: Sequence[str], sep: str) -> dict[str, str]:
    """Return the types with those of columns that have no value yet, by the first values in the files."""
    found = dict(kinds)
    for path in paths:
        for _, record in _records(path, sep):
            for name in [name for name, kind in found.items() if kind == "null"]:
                if (value := record.get(name, "")) not in _MISSING:
                    found[name] = _type_of_text(value)
            if "null" not in found.values():
                return found
    return found


def _type_of_text(value: str) -> str:
    return next((kind for kind in ("int64", "double", "bool") if _fits(value, kind)), "string")


def _fits(value: str, kind: str) -> bool:
    text = value.strip().lower()
    if kind == "bool":
        return text in ("true", "false", "0", "1")
    try:
        number = int(text) if kind == "int64" else float(text)
    except ValueError:
        return False
    return "_" not in text and (kind != "int64" or -(1 << 63) <= number < 1 << 63)


def _records(path: str, sep: str) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield the records of a file with the numbers of their last lines."""
    with open_for_reading(path) as file:
        reader = csv.reader(io.TextIOWrapper(file, "utf-8-sig", newline=""), delimiter=sep)
        columns = next(filter(None, reader), [])
        for row in filter(None, reader):
            yield reader.line_num, dict(zip(columns, row, strict=False))


@frozen
class Misfit:
    """What is said of a value that isn't of the type that was inferred for its column."""

    path: str
    sep: str
    column: str
    kind: str

    def __call__(self) -> str:
        """Return the message, with the first such value of the files."""
        expected = f"column {self.column!r} is of {self.kind} by the beginnings of the files"
        for path in _paths(self.path):
            for line, record in _records(path, self.sep):
                value = record.get(self.column, "")
                if value not in _MISSING and not _fits(value, self.kind):
                    return (
                        f"{path}, line {line}: {expected}, got {shortened(value)}; read more of the files by "
                        f"sample_bytes=, or have text by dtype={{{self.column!r}: str}}"
                    )
        return expected


def _padded_rows(sample: bytes, sep: str) -> bytes:
    """Return CSV whose rows have a value for each column."""
    rows = list(csv.reader(io.StringIO(sample.decode("utf-8-sig"), newline=""), delimiter=sep))
    width = len(next(filter(None, rows), ()))
    written = io.StringIO(newline="")
    csv.writer(written, delimiter=sep).writerows(filter(None, (padded(row, width, "") for row in rows)))
    return written.getvalue().encode()


class _ReadParquet(PTransform):
    def __init__(self, path: Any, columns: Sequence[str] | None) -> None:
        super().__init__()
        self.path, self.columns = path, columns

    def default_label(self) -> str:
        return f"read_parquet({self.path})"

    def expand(self, pbegin: PBegin) -> DeferredDataFrame:
        columns = None if self.columns is None else list(self.columns)
        rows = pbegin | "Read" >> ReadFromParquet(self.path, columns=columns, as_rows=True)
        frame: DeferredDataFrame = to_dataframe(rows, label="Frame")
        return frame


def read_parquet(path: Any, columns: Sequence[str] | None = None, **arguments: Any) -> Any:
    """Return a transform that reads Parquet files into a deferred frame: `df = p | read_parquet(pattern)`.

    Args:
      path: a path or a pattern.
      columns: the names of the columns to read; None for all.

    >>> import pathlib, tempfile
    >>> import penstock as beam
    >>> from penstock.dataframe.convert import to_pcollection
    >>> import pyarrow.parquet
    >>> path = pathlib.Path(tempfile.mkdtemp(), "sales.parquet")
    >>> pyarrow.parquet.write_table(pyarrow.table({"item": ["tea"], "cups": [2]}), path)
    >>> with beam.Pipeline() as p:
    ...     df = p | read_parquet(path)
    ...     _ = to_pcollection(df[df.cups > 1]) | beam.Map(print)
    Result(item='tea', cups=2)
    """
    refuse_arguments("read_parquet", arguments)
    return _ReadParquet(path, columns)
