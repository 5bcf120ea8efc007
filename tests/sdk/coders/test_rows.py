"""RowCoder: values with named fields, of classes and of schemas; and the coders that the registry finds for classes."""

import dataclasses
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import pytest

from penstock.coders import RowCoder, coders, registry
from penstock.coders.avro_record import AvroRecord
from penstock.sdk.errors import CoderClassError, SerializationError
from penstock.utils.timestamp import Timestamp


class Player(NamedTuple):
    name: str
    level: np.int32
    team: str | None
    items: Mapping[str, int]
    seen: Timestamp


ANN = Player("Ann", np.int32(-3), None, {"cup": 2}, Timestamp(1.5))


def test_register_row_decorates_a_class() -> None:
    @registry.register_row
    @dataclasses.dataclass(frozen=True)
    class Team:
        name: str

    coder = registry.get_coder(Team)
    assert Team("red") == coder.decode(coder.encode(Team("red")))
    with pytest.raises(SerializationError, match="the field 'name' is None"):
        coder.encode(Team(None))  # type: ignore[arg-type]


def test_only_classes_are_registered() -> None:
    with pytest.raises(CoderClassError, match="is not a subclass of Coder") as raised:
        registry.register_coder(Player, RowCoder([], [], Player))  # type: ignore[arg-type]
    assert isinstance(raised.value, TypeError)


def test_records_of_subclasses_are_equal_to_their_base() -> None:
    class Mine(AvroRecord):
        pass

    assert Mine({"a": 1}) == AvroRecord({"a": 1}) != AvroRecord({"a": 2})


def test_messages_have_the_coder_of_their_class() -> None:
    from google.protobuf.timestamp_pb2 import Timestamp as Message

    assert coders.ProtoCoder(Message) == registry.get_coder(Message)


def test_messages_of_proto_plus_are_encoded_as_the_message_inside() -> None:
    from google.protobuf.timestamp_pb2 import Timestamp as Message

    class Plus:
        """What `proto.Message` has."""

        meta = None

        def __init__(self, seconds: int) -> None:
            self._pb = Message(seconds=seconds)

        @staticmethod
        def pb(value: Any) -> Any:
            return value._pb

        @staticmethod
        def serialize(value: Any) -> bytes:
            return value._pb.SerializeToString()  # type: ignore[no-any-return]

        @classmethod
        def deserialize(cls, payload: bytes) -> Any:
            return cls(Message.FromString(payload).seconds)

    coder = registry.get_coder(Plus)
    assert coders.ProtoPlusCoder(Plus) == coder
    assert b"\x08\x05" == coder.encode(Plus(5))
    assert 5 == coder.decode(b"\x08\x05")._pb.seconds


def test_integers_of_numpy_are_integers() -> None:
    encoded = [coders.VarInt32Coder().encode(np.int32(5)), coders.ByteCoder().encode(np.int8(-1))]
    assert [b"\x05", b"\xff", b"\x05"] == [*encoded, coders.BigIntegerCoder().encode(np.int64(5))]
