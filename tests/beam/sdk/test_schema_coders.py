"""RowCoder with the schemas of Beam, and the types of its wrappers of values."""

import pickle
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import pytest

from penstock.coders import RowCoder, coders, registry
from penstock.portability.api import schema_pb2
from penstock.typehints import typehints
from penstock.typehints.schemas import named_tuple_from_schema, schema_field, typing_to_runner_api
from penstock.utils.timestamp import Timestamp
from penstock.utils.windowed_value import PaneInfo


class Player(NamedTuple):
    name: str
    level: np.int32
    team: str | None
    items: Mapping[str, int]
    seen: Timestamp


ANN = Player("Ann", np.int32(-3), None, {"cup": 2}, Timestamp(1.5))


def test_rows_of_a_schema_come_back() -> None:
    coder = RowCoder(typing_to_runner_api(Player).row_type.schema)
    assert ANN == coder.decode(coder.encode(ANN))
    assert coder == pickle.loads(pickle.dumps(coder))
    assert Player is coder.to_type_hint()


def test_nested_rows_come_back() -> None:
    class Pair(NamedTuple):
        left: Player
        right: Player | None

    coder = RowCoder(typing_to_runner_api(Pair).row_type.schema)
    assert Pair(ANN, None) == coder.decode(coder.encode(Pair(ANN, None)))


def test_the_format_of_a_schemas_rows_is_beams() -> None:
    class Item(NamedTuple):
        name: str | None
        count: int

    coder = RowCoder(typing_to_runner_api(Item).row_type.schema)
    assert b"\x02\x00\x01a\x05" == coder.encode(Item("a", 5))
    assert b"\x02\x01\x01\x05" == coder.encode(Item(None, 5))


def test_fields_are_encoded_in_the_order_of_their_positions() -> None:
    count, name = schema_field("count", np.int32), schema_field("name", str)
    first = schema_pb2.Schema(id="positions-1", fields=[count, name])
    count.encoding_position, name.encoding_position = 0, 1
    second = schema_pb2.Schema(id="positions-2", fields=[name, count], encoding_positions_set=True)
    encoded = RowCoder(first).encode(named_tuple_from_schema(first)(5, "a"))
    assert named_tuple_from_schema(second)("a", 5) == RowCoder(second).decode(encoded)


def test_a_schema_without_a_type_is_refused_when_the_coder_is_made() -> None:
    with pytest.raises(ValueError, match="field 'blob'"):
        RowCoder(schema_pb2.Schema(id="no-type", fields=[schema_pb2.Field(name="blob", type=schema_pb2.FieldType())]))


def test_panes_and_values_with_windows_have_types() -> None:
    assert coders.PaneInfoCoder() == registry.get_coder(PaneInfo)
    assert typehints.WindowedValue[int] == coders.WindowedValueCoder(coders.VarIntCoder()).to_type_hint()


def test_none_is_refused_for_a_field_that_is_not_optional() -> None:
    class Named(NamedTuple):
        name: str

    for coder in RowCoder.from_type_hint(Named, None), RowCoder.from_type_hint(Named, registry):
        with pytest.raises(ValueError, match="the field 'name' is None"):
            coder.encode(Named(None))  # type: ignore[arg-type]


def test_fields_may_be_added_and_removed_at_the_end() -> None:
    class Old(NamedTuple):
        name: str

    class New(NamedTuple):
        name: str
        team: str | None

    old, new = RowCoder.from_type_hint(Old, None), RowCoder.from_type_hint(New, None)
    assert New("Ann", None) == new.decode(old.encode(Old("Ann")))
    assert Old("Ann") == old.decode(new.encode(New("Ann", "red")))
