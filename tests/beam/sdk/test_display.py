"""Display data, as items."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

import penstock as beam
from penstock.beam.sdk.display import DisplayData, DisplayDataItem, HasDisplayData
from penstock.sdk.options import PipelineOptions


class Limited(beam.DoFn):
    def process(self, element: Any) -> Any:
        yield element

    def display_data(self) -> dict[str, Any]:
        note = DisplayDataItem("n", label="Note", url="http://example.org")
        unset, default = DisplayDataItem(None).drop_if_none(), DisplayDataItem(3).drop_if_default(3)
        return {**super().display_data(), "limit": 5, "note": note, "unset": unset, "default": default}


def test_a_pardo_shows_its_dofn_with_its_data() -> None:
    """Items have the namespace of the object that they belong to; some are left out."""
    items = DisplayData.create_from("label" >> beam.ParDo(Limited()), {"more": True}).items
    found = [(str(item.namespace).rpartition(".")[2], item.key, item.value, item.type) for item in items]
    expected = [("fn", Limited, "CLASS"), ("more", True, "BOOLEAN")]
    assert expected == [item[1:] for item in found if item[0] != "Limited"]
    assert [("Limited", "limit", 5, "INTEGER"), ("Limited", "note", "n", "STRING")] == [
        item for item in found if item[0] == "Limited"
    ]


def test_an_items_dictionary_has_values_of_json() -> None:
    """A class is its path, a duration and a time are milliseconds."""
    values = [Limited, dt.timedelta(seconds=2), dt.datetime(1970, 1, 1, 0, 0, 3), 1.5]
    items = [DisplayDataItem(value, key="k", namespace="n").get_dict() for value in values]
    assert [f"{__name__}.Limited", 2000.0, 3000, 1.5] == [item["value"] for item in items]
    assert ["STRING", "DURATION", "TIMESTAMP", "FLOAT"] == [item["type"] for item in items]
    assert "Limited" == items[0]["shortValue"]


def test_an_invalid_item_is_refused() -> None:
    """Without a key, a namespace or a value, or with a value of another type."""
    for item, message in (
        (DisplayDataItem(1, namespace="n"), "Key must not be None"),
        (DisplayDataItem(1, key="k"), "Namespace must not be None"),
        (DisplayDataItem(None, key="k", namespace="n"), "Value must not be None"),
        (DisplayDataItem([1], key="k", namespace="n"), r"\[1\] is of an unsupported type"),
    ):
        with pytest.raises(ValueError, match=message):
            item.get_dict()
    with pytest.raises(ValueError, match="does not subclass HasDisplayData"):
        DisplayData.create_from(5)


def test_options_show_what_differs_from_the_default() -> None:
    """Values of other types as text; any class can have display data."""
    items = DisplayData.create_from_options(PipelineOptions([], parallelism=2)).items
    assert [("parallelism", 2)] == [(item.key, item.value) for item in items]

    class Own(HasDisplayData):
        pass

    assert {} == Own().display_data()
    assert [] == DisplayData.create_from(Own()).items


def test_transforms_of_files_tell_their_settings():
    """As in Beam."""

    def shown(transform):
        return {item.key: item.value for item in DisplayData.create_from(transform).items}

    schema = {"type": "record", "name": "A", "fields": [{"name": "a", "type": "int"}]}
    names = {"file_pattern": "out-%(shard_num)05d-of-%(num_shards)05d.avro", "compression": "uncompressed"}
    write = beam.io.WriteToAvro("out", schema, file_name_suffix=".avro", num_shards=2)
    assert {**names, "schema": str(schema), "codec": "deflate", "shards": 2} == shown(write)
    read = beam.io.ReadFromText("in*.gz", validate=False)
    assert {"file_pattern": "in*.gz", "compression": "auto"} == shown(read)
    pyarrow = pytest.importorskip("pyarrow")
    fields = pyarrow.schema([("a", pyarrow.int64())])
    parquet = {**names, "file_pattern": names["file_pattern"][:-5], "schema": str(fields), "codec": "none"}
    assert {**parquet, "row_group_buffer_size": str(64 * 1024 * 1024)} == shown(beam.io.WriteToParquet("out", fields))
    assert parquet == shown(beam.io.WriteToParquetBatched("out", fields))
