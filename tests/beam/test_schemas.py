"""Types as Beam's portable schemas, the messages of these, and logical types."""

import dataclasses
import datetime
import decimal
import pickle
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Optional

import numpy as np
import pytest
from hypothesis import given

from penstock import Row
from penstock.portability.api import schema_pb2
from penstock.sdk.typehints.schema import with_schema
from penstock.typehints import typehints
from penstock.typehints.row_type import RowTypeConstraint
from penstock.typehints.schemas import (
    Date,
    DecimalLogicalType,
    FixedBytes,
    FixedString,
    LogicalType,
    MicrosInstant,
    MillisInstant,
    NoArgumentLogicalType,
    ParameterizedTimestamp,
    SchemaTypeRegistry,
    VariableBytes,
    named_fields_from_element_type,
    named_tuple_from_schema,
    named_tuple_to_schema,
    schema_field,
    schema_from_element_type,
    typing_from_runner_api,
    typing_to_runner_api,
)
from penstock.typehints.testing.strategies import named_fields
from penstock.utils.timestamp import Timestamp


class Sale(NamedTuple):
    item: str
    price: float
    count: int | None


def back(hint: Any) -> Any:
    return typing_from_runner_api(typing_to_runner_api(hint, SchemaTypeRegistry()), SchemaTypeRegistry())


@pytest.mark.parametrize(
    "hint",
    [np.int8, np.float32, bytes, Optional[str], Sequence[np.int64], Mapping[str, float], Any],  # noqa: UP045
)
def test_a_type_is_the_same_when_it_comes_back(hint: Any) -> None:
    assert str(hint).replace("collections.abc", "typing") == str(back(hint)).replace("numpy.float64", "float")


@given(named_fields())
def test_fields_are_the_same_when_they_come_back(fields: Any) -> None:
    kind = RowTypeConstraint.from_fields(fields)
    assert kind == back(kind)


def test_numbers_of_python_have_64_bits() -> None:
    assert [np.int64, np.float64] == [back(int), back(float)]


def test_an_unknown_class_is_any_value() -> None:
    class Unknown:
        pass

    assert Any is back(Unknown)


def test_a_named_tuple_and_a_dataclass_have_a_schema() -> None:
    @dataclasses.dataclass
    class Sold:
        item: str
        at: Timestamp

    assert ["item", "price", "count"] == [field.name for field in named_tuple_to_schema(Sale).fields]
    assert [("item", str), ("at", Timestamp)] == named_fields_from_element_type(Sold)
    assert named_tuple_to_schema(Sale).id == schema_from_element_type(Sale).id


def test_rows_whose_fields_were_inferred_have_a_schema() -> None:
    hint = with_schema(Row, [("item", "string"), ("price", None)])
    assert [("item", str), ("price", Any)] == named_fields_from_element_type(hint)


def test_the_fields_of_a_union_allow_the_types_of_each_member() -> None:
    first = RowTypeConstraint.from_fields([("name", str), ("n", int)])
    second = RowTypeConstraint.from_fields([("name", str), ("n", Any)])
    assert [("name", str), ("n", Any)] == named_fields_from_element_type(typehints.Union[first, second])


def test_elements_without_fields_have_no_schema() -> None:
    with pytest.raises(TypeError, match="the fields of <class 'int'> aren't known"):
        schema_from_element_type(int)


def test_a_field_without_a_type_is_named() -> None:
    schema = schema_pb2.Schema(id="untyped", fields=[schema_pb2.Field(name="blob", type=schema_pb2.FieldType())])
    with pytest.raises(ValueError, match="field 'blob'"):
        named_tuple_from_schema(schema)


def test_a_generated_row_is_pickled_with_its_fields() -> None:
    kind = named_tuple_from_schema(schema_pb2.Schema(id="teas", fields=[schema_field("name", str)]))
    assert kind("Assam") == pickle.loads(pickle.dumps(kind("Assam")))
    constraint = RowTypeConstraint.from_fields([("name", str)])
    assert constraint == pickle.loads(pickle.dumps(constraint))


def test_options_come_back_with_the_schema() -> None:
    kind = RowTypeConstraint.from_fields(
        [("item", str)], schema_options=[("source", "shop")], field_options={"item": [("key", None)]}
    )
    message = typing_to_runner_api(kind, SchemaTypeRegistry())
    assert ["source"] == [option.name for option in message.row_type.schema.options]
    found = typing_from_runner_api(message, SchemaTypeRegistry())
    assert ([("source", "shop")], [("key", None)]) == (found.schema_options, found.field_options("item"))


def test_a_message_is_the_same_in_the_wire_format() -> None:
    message = typing_to_runner_api(Sale)
    assert message == schema_pb2.FieldType.FromString(message.SerializeToString())
    assert message == pickle.loads(pickle.dumps(message))
    assert b"\x08\x01\x10\x04" == typing_to_runner_api(int | None).SerializeToString()


def test_one_field_of_a_oneof_replaces_the_others() -> None:
    message = schema_pb2.FieldType(atomic_type=schema_pb2.INT64)
    message.row_type.schema.fields.add(name="a").type.atomic_type = schema_pb2.BYTES
    assert "row_type" == message.WhichOneof("type_info")
    assert not message.HasField("atomic_type")


def test_a_wrong_value_of_a_message_is_refused() -> None:
    with pytest.raises(ValueError, match="FieldType has no field 'size'"):
        schema_pb2.FieldType(size=3)
    with pytest.raises(TypeError, match="Field.name: expected a value of string, got 3"):
        schema_pb2.Field(name=3)
    with pytest.raises(ValueError, match="AtomicTypeValue.int32: 4294967296 is out of range"):
        schema_pb2.AtomicTypeValue(int32=1 << 32)
    with pytest.raises(ValueError, match="ends inside"):
        schema_pb2.Field.FromString(b"\x0a\x05ab")


@pytest.mark.parametrize(
    ("logical", "value"),
    [
        (MicrosInstant(), Timestamp(-1.5)),
        (ParameterizedTimestamp(3), Timestamp(12.5)),
        (Date(), datetime.date(2024, 2, 29)),
        (DecimalLogicalType(), decimal.Decimal("1.50")),
        (VariableBytes(3), b"ab"),
    ],
)
def test_a_value_of_a_logical_type_comes_back(logical: Any, value: Any) -> None:
    assert value == logical.to_language_type(logical.to_representation_type(value))
    again = LogicalType.from_runner_api(typing_to_runner_api(type(logical)).logical_type) if value is None else logical
    assert type(logical) is type(again)


def test_text_and_bytes_of_one_length_are_padded() -> None:
    assert ("a  ", b"a\0\0") == (FixedString(3).to_language_type("a"), FixedBytes(3).to_language_type(b"a"))
    with pytest.raises(ValueError, match="longer than 1"):
        FixedString(1).to_language_type("ab")


def test_instants_of_java_are_shifted() -> None:
    assert Timestamp(1) == MillisInstant().to_language_type(1000 - (1 << 63))


def test_digits_that_a_timestamp_type_lacks_are_refused() -> None:
    with pytest.raises(ValueError, match="more than 3 digits"):
        ParameterizedTimestamp(3).to_representation_type(Timestamp(micros=1))
    with pytest.raises(ValueError, match="needs a precision"):
        ParameterizedTimestamp()


def test_a_registered_type_has_a_schema() -> None:
    class Celsius(float):
        pass

    @LogicalType.register_logical_type
    class _CelsiusType(NoArgumentLogicalType[Celsius, float]):
        @classmethod
        def urn(cls) -> str:
            return "test:celsius:v1"

        @classmethod
        def language_type(cls) -> Any:
            return Celsius

        @classmethod
        def representation_type(cls) -> Any:
            return float

    message = typing_to_runner_api(Celsius)
    assert "test:celsius:v1" == message.logical_type.urn
    assert Celsius is typing_from_runner_api(message)
    with pytest.raises(ValueError, match="no logical type is registered for <class 'complex'>"):
        LogicalType.from_typing(complex)
