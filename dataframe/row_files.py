"""Reads and writes of CSV and JSON as Beam has them: rows with fields, and the arguments of pandas.

penstock's own reads give dicts.
"""

from __future__ import annotations

from keyword import iskeyword
from typing import Any

from .. import io
from ..sdk.elements.row import Row
from ..sdk.ptransform import PTransform
from ..sdk.pvalue import PBegin, PCollection
from ..transforms import Map
from ..transforms.groups.group_by import named_tuple
from .convert import to_pcollection
from .frame_base import refuse_arguments
from .io import read_csv


class ReadFromCsv(PTransform):
    """The records of CSV files as rows, whose types are inferred as by `read_csv`: `row.cups`.

    Args:
      path: a path or a pattern.
      splittable: Beam's, without effect.
      filename_column: another column, with the path of the file.
      arguments: those of `read_csv`.

    Raises `SourceError` if the pattern matches nothing.

    >>> import penstock as beam
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp(), "sales.csv")
    >>> _ = path.write_text("item,cups\\ntea,2\\n")
    >>> with beam.Pipeline() as p:
    ...     _ = p | ReadFromCsv(path) | beam.Map(lambda sale: sale.item * sale.cups) | beam.Map(print)
    teatea
    """

    def __init__(
        self, path: Any, *, splittable: bool = True, filename_column: str | None = None, **arguments: Any
    ) -> None:
        super().__init__()
        self._read = read_csv(path, filename_column=filename_column, **arguments)

    def expand(self, pbegin: PBegin) -> PCollection[Any]:
        return to_pcollection(pbegin | "Frame" >> self._read, label="Rows")  # type: ignore[no-any-return]


class ReadFromJson(PTransform):
    """The objects of JSON files as named tuples, or as Rows if a name can't be that of a field.

    Args:
      path: a path or a pattern.
      orient: "records".
      lines: an object on each line, or else one array a file.
      dtype: False; values have the types that JSON gives them.

    Raises `SourceError` if the pattern matches nothing, or for what is no JSON.

    >>> import penstock as beam
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp(), "sales.jsonl")
    >>> _ = path.write_text('{"item": "tea", "cups": 2}\\n')
    >>> with beam.Pipeline() as p:
    ...     _ = p | ReadFromJson(path) | beam.Map(lambda sale: sale.item * sale.cups) | beam.Map(print)
    teatea
    """

    def __init__(
        self, path: Any, *, orient: str = "records", lines: bool = True, dtype: Any = False, **arguments: Any
    ) -> None:
        super().__init__()
        refuse_arguments("ReadFromJson", {**arguments, "orient": orient, "dtype": dtype}, orient="records", dtype=False)
        self.path, self.lines = path, lines

    def expand(self, pbegin: PBegin) -> PCollection[Any]:
        rows: PCollection[Any] = pbegin | io.ReadFromJson(self.path, lines=self.lines) | "Rows" >> Map(_row)
        return rows


class WriteToCsv(io.WriteToCsv):
    """Rows as lines of CSV files.

    Args:
      path: the beginning of the names of the files.
      num_shards: the number of files; None for one for each worker that has rows.
      sep, header, columns, na_rep: those of pandas; `na_rep` is "".
      compression: "infer", or a name of `CompressionTypes`.

    Raises `WontImplementError` for other arguments.
    """

    def __init__(
        self,
        path: Any,
        num_shards: int | None = None,
        file_naming: Any = None,
        *,
        sep: str = ",",
        header: bool = True,
        columns: Any = None,
        compression: str | None = "infer",
        **arguments: Any,
    ) -> None:
        refuse_arguments("WriteToCsv", {**arguments, "file_naming": file_naming}, na_rep="", file_naming=None)
        super().__init__(
            path,
            columns=columns,
            header=header,
            num_shards=num_shards or 0,
            compression_type=_compression(compression),
            delimiter=sep,
        )


class WriteToJson(io.WriteToJson):
    """Rows as JSON objects, each on a line, or with `lines=False` as one array a file.

    Args:
      path: the beginning of the names of the files.
      num_shards: the number of files; None for one for each worker that has rows.
      orient: "records".
      compression: "infer", or a name of `CompressionTypes`.

    Raises `WontImplementError` for other arguments.
    """

    def __init__(
        self,
        path: Any,
        *,
        num_shards: int | None = None,
        file_naming: Any = None,
        orient: str = "records",
        lines: bool | None = None,
        compression: str | None = "infer",
        **arguments: Any,
    ) -> None:
        given = {**arguments, "orient": orient, "file_naming": file_naming}
        refuse_arguments("WriteToJson", given, orient="records", file_naming=None)
        super().__init__(
            path,
            lines=lines is not False,
            num_shards=num_shards or 0,
            compression_type=_compression(compression),
        )


def _compression(name: str | None) -> str:
    names = {"infer": io.CompressionTypes.AUTO, None: io.CompressionTypes.UNCOMPRESSED}
    return names.get(name, name or "")


def _row(record: Any) -> Any:
    """Return a named tuple, as `ReadFromCsv` gives; or a Row, if a name can't be that of a field."""
    if all(name.isidentifier() and not iskeyword(name) and not name.startswith("_") for name in record):
        return named_tuple("Result", tuple(record))(**record)
    return Row(**record)
