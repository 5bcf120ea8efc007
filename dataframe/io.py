"""read_csv and read_parquet: files as deferred frames.  Frames have methods to write them."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from typing import Any

from ..io import ReadFromCsv, ReadFromParquet
from ..io.beam.file_systems import FileSystems
from ..io.files.csv import padded
from ..sdk.columns.expressions import field_of
from ..sdk.columns.pandas_functions import parsed
from ..sdk.errors import SourceError, missing_extra
from ..sdk.ptransform import PTransform
from ..sdk.pvalue import PBegin
from .convert import to_dataframe
from .frame_base import refuse_arguments
from .frames import DeferredDataFrame, frame_of
from .grouping import projected

# The bytes of the first file by which the types of columns are inferred.
_SAMPLE = 1 << 20

# What pandas reads as missing.
_MISSING = ("", "NA", "N/A", "n/a", "NaN", "nan", "-NaN", "-nan", "NULL", "null", "None", "<NA>", "#N/A", "#NA")


class _ReadCsv(PTransform):
    def __init__(
        self, path: Any, sep: str, usecols: Sequence[str] | None, dtype: dict[str, Any], filename_column: str | None
    ) -> None:
        super().__init__()
        self.path, self.sep, self.usecols, self.dtype = path, sep, usecols, dtype
        self.filename_column = filename_column

    def default_label(self) -> str:
        return f"read_csv({self.path})"

    def expand(self, pbegin: PBegin) -> DeferredDataFrame:
        kinds = _types(self.path, self.sep, pbegin.pipeline.full_label)
        names = [name for name in kinds if self.usecols is None or name in self.usecols]
        options: Any = {} if self.sep == "," else {"delimiter": self.sep}
        of_file = self.filename_column
        text = pbegin | "Read" >> ReadFromCsv(
            self.path, as_rows=True, usecols=names, filename_column=of_file, restval="", **options
        )
        columns = {name: parsed(field_of(name), kinds[name], _MISSING) for name in names}
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
    **arguments: Any,
) -> Any:
    """Return a transform that reads CSV files into a deferred frame: `df = p | read_csv(pattern)`.

    The types of columns are inferred by the beginning of the first file: whole numbers, numbers, truth values, or text.
    Empty text, `NA`, `NaN`, `null` and the like are missing values, and so are those that a row is too short for.

    Args:
      path: a path or a pattern.
      sep: the separator of fields.
      usecols: the names of the columns to read; None for all.
      dtype: types of columns by name, as in `astype`.
      splittable: Beam's, without effect: files are split where that is possible.
      filename_column: another column, with the path of the file.

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
    return _ReadCsv(path, sep, usecols, dict(dtype or {}), filename_column)


def _types(path: Any, sep: str, label: str) -> dict[str, str]:
    """Return the types of the columns by the beginning of the first file, as names of Arrow's types."""
    try:
        import pyarrow.csv
    except ImportError as error:
        raise missing_extra("pyarrow", "dataframes", label) from error
    found = FileSystems.match([str(path)])[0].metadata_list
    if not found:
        raise SourceError(f"{label}: no file matches {path}")
    first = min(one.path for one in found)
    with FileSystems.open(first) as file:
        sample = file.read(_SAMPLE)
    if len(sample) == _SAMPLE:
        sample = sample[: sample.rfind(b"\n") + 1]
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
            raise SourceError(f"{label}: {first} isn't CSV with a line of column names: {error}") from error
    known = ("int64", "double", "bool")
    return {field.name: str(field.type) if str(field.type) in known else "string" for field in table.schema}


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
