"""Avro's schemas as Beam's, and back."""

from __future__ import annotations

import pytest

from penstock.beam.io.avro_schemas import (
    avro_dict_to_beam_row,
    avro_schema_to_beam_schema,
    avro_type_to_beam_type,
    avro_union_type_to_beam_type,
    beam_row_to_avro_dict,
    beam_schema_to_avro_schema,
    beam_type_to_avro_type,
)
from penstock.beam.typehints.schema_messages import INT64, STRING, FieldType, MapType
from penstock.sdk.elements.row import Row

SCHEMA = {
    "type": "record",
    "name": "",
    "fields": [
        {"name": "name", "type": "string"},
        {"name": "age", "type": ["int", "null"]},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
        {"name": "scores", "type": {"type": "map", "values": "double"}},
        {
            "name": "home",
            "type": {"type": "record", "name": "", "fields": [{"name": "zip", "type": "long"}]},
        },
    ],
}
RECORD = {"name": "Ada", "age": None, "tags": ["a"], "scores": {"x": 1.5}, "home": {"zip": 7}}


def test_a_schema_comes_back():
    assert SCHEMA == beam_schema_to_avro_schema(avro_schema_to_beam_schema(SCHEMA))


def test_records_become_rows_and_come_back():
    schema = avro_schema_to_beam_schema(SCHEMA)

    row = avro_dict_to_beam_row(SCHEMA, schema)(RECORD)

    assert Row(name="Ada", age=None, tags=["a"], scores={"x": 1.5}, home=Row(zip=7)) == row
    assert RECORD == beam_row_to_avro_dict(SCHEMA, schema)(row)


def test_other_values_are_a_field_of_a_row():
    schema = avro_schema_to_beam_schema("long")

    assert ["record"] == [field.name for field in schema.fields]
    assert Row(record=5) == avro_dict_to_beam_row("long", schema)(5)
    assert 5 == beam_row_to_avro_dict("long", schema)(Row(record=5))


def test_a_union_with_null_is_nullable_and_another_one_is_of_any_type():
    assert FieldType(atomic_type=INT64, nullable=True) == avro_union_type_to_beam_type(["null", "long"])
    assert "logical_type" == avro_union_type_to_beam_type(["string", "long"]).WhichOneof("type_info")
    assert FieldType(atomic_type=STRING) == avro_type_to_beam_type({"type": "enum", "symbols": ["A"]})


def test_types_without_a_counterpart_are_refused():
    number = FieldType(atomic_type=INT64)
    with pytest.raises(ValueError, match="Unable to convert"):
        avro_type_to_beam_type("decimal")
    with pytest.raises(TypeError, match="Only strings allowed as map keys"):
        beam_type_to_avro_type(FieldType(map_type=MapType(key_type=number, value_type=number)))
    with pytest.raises(ValueError, match="Avro has no type"):
        beam_type_to_avro_type(FieldType())
