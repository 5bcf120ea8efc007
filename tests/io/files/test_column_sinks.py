"""Columns are written as the elements that they stand for, to Parquet and CSV files."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.pipelines.arrow_tables import Table, tables

import penstock as beam
from penstock.io.files.csv import CsvFormat
from penstock.io.files.format import FileFormat
from penstock.io.files.json import JsonFormat
from penstock.io.files.parquet import ParquetFormat
from penstock.io.files.write import FileSink
from penstock.sdk.columns.column_bundle import ColumnBundle
from penstock.sdk.columns.column_elements import as_dicts, as_rows, as_values
from penstock.sdk.elements.bundle import Bundle
from penstock.sdk.errors import SinkError
from penstock.sdk.sink import LabelledSink

ELEMENTS = st.sampled_from([as_rows, as_dicts])


def written(form: FileFormat, bundles: list[Any]) -> bytes | str:
    """Return the content of a file of some bundles, or the error."""
    file = io.BytesIO()
    writer = form.open(file)
    try:
        for bundle in bundles:
            if isinstance(bundle, ColumnBundle):
                writer.write_columns(bundle)
            else:
                writer.write(bundle)
        writer.close()
    except (SinkError, pa.ArrowException) as error:
        writer.abandon()
        return f"{type(error).__name__}: {error}"
    return file.getvalue()


@given(table=tables(), elements=ELEMENTS, data=st.data())
def test_a_csv_file_has_the_same_bytes(table: Table, elements: Any, data: st.DataObject) -> None:
    """With columns in any order, too few of them, too many, and rows in between."""
    names = table.arrow.column_names
    columns = data.draw(st.sampled_from([None, names[::-1], [*names, "more"], names[1:]]))
    (batch,) = table.arrow.combine_chunks().to_batches() or [pa.RecordBatch.from_pylist([], table.arrow.schema)]
    form = CsvFormat(columns, delimiter=data.draw(st.sampled_from(",;")))
    rows = elements(batch)
    expected = written(form, [rows, rows, rows])
    assert expected == written(form, [ColumnBundle(batch, elements)] * 3)
    assert expected == written(form, [rows, ColumnBundle(batch, elements), rows])


@given(table=tables(), elements=ELEMENTS, data=st.data())
def test_a_parquet_file_has_the_same_content(table: Table, elements: Any, data: st.DataObject) -> None:
    """Of the schema of the columns, of another order, of wider and narrower types; or the error is the same."""
    (batch,) = table.arrow.combine_chunks().to_batches() or [pa.RecordBatch.from_pylist([], table.arrow.schema)]
    fields = list(batch.schema)
    change = data.draw(st.sampled_from(["none", "order", "wider", "narrower", "less", "more", "not null", "text"]))
    if change == "order":
        fields = fields[::-1]
    elif change in ("wider", "narrower", "text"):
        kind = {"wider": pa.int64(), "narrower": pa.int8(), "text": pa.string()}[change]
        fields = [field.with_type(kind) if pa.types.is_integer(field.type) else field for field in fields]
    elif change == "less":
        fields = fields[1:]
    elif change == "more":
        fields.append(pa.field("more", pa.int64()))
    elif change == "not null":
        fields = [field.with_nullable(pa.types.is_null(field.type)) for field in fields]
    form = ParquetFormat(pa.schema(fields), record_batch_size=2)
    rows = elements(batch)
    expected = written(form, [rows, rows, rows])
    for bundles in ([ColumnBundle(batch, elements)] * 3, [rows, ColumnBundle(batch, elements), rows]):
        found = written(form, bundles)
        if isinstance(expected, str) or isinstance(found, str):
            assert expected == found
        else:
            assert content(expected) == content(found)


def content(file: bytes) -> tuple[Any, str]:
    """Return the schema and the rows of a Parquet file, with NaN as text."""
    table = pyarrow.parquet.read_table(pa.py_buffer(file))
    return table.schema, repr(table.to_pylist())


def test_elements_that_are_no_records_are_written_as_they_are() -> None:
    """Those of a computed column, and objects that exist already."""
    batch = pa.record_batch({"a": [1, 2]})
    assert b"1\n2\n" == written(JsonFormat(), [ColumnBundle(batch, as_values)])
    assert "SinkError: expected a record" in str(written(CsvFormat(), [ColumnBundle(batch, as_values)]))
    known = ColumnBundle(batch, as_rows).with_values([beam.Row(a=1, b=2), beam.Row(a=3, b=4)])
    assert b"a,b\n1,2\n3,4\n" == written(CsvFormat(), [known])


@pytest.mark.parametrize("most", [None, 1, 3, 100])
def test_files_of_columns_have_at_most_so_many_records(tmp_path: Path, most: int | None) -> None:
    sink = LabelledSink(FileSink(tmp_path / "out", CsvFormat(header=False), max_records_per_shard=most), "Write")
    bundle: Bundle = ColumnBundle(pa.record_batch({"a": range(7)}), as_rows)
    sink.prepare("t")
    writer = sink.sink.open_writer(sink.context("t", "0"))
    writer.write(bundle)
    writer.write(bundle)
    sink.commit("t", [writer.stage()])
    files = [path.read_text().split() for path in sorted(tmp_path.glob("out-*"))]
    assert [str(i) for i in [*range(7), *range(7)]] == [line for lines in files for line in lines]
    assert len(files) == (1 if most is None else -(-14 // most))
