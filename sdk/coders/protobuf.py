"""Coders of Protocol Buffers' messages, whose class the program brings."""

from __future__ import annotations

from typing import Any

from .coder import Coder, wrong_type


class ProtoCoder(Coder):
    """Messages of one class, in the wire format.  Maps of a message have no order, so that it isn't deterministic.

    >>> from google.protobuf.timestamp_pb2 import Timestamp
    >>> coder = ProtoCoder(Timestamp)
    >>> coder.decode(coder.encode(Timestamp(seconds=5))).seconds
    5
    """

    def __init__(self, proto_message_type: type[Any]) -> None:
        self.proto_message_type = proto_message_type

    @classmethod
    def from_type_hint(cls, typehint: Any, registry: Any) -> ProtoCoder:
        if not (isinstance(typehint, type) and hasattr(typehint, "SerializeToString")):
            raise ValueError(f"expected a subclass of google.protobuf.message.Message, got {typehint!r}")
        return cls(typehint)

    def encode(self, value: Any) -> bytes:
        if not isinstance(value, self.proto_message_type):
            raise wrong_type(self, self.proto_message_type.__name__, value)
        return value.SerializePartialToString(deterministic=self.is_deterministic())  # type: ignore[no-any-return]

    def decode(self, encoded: bytes) -> Any:
        return self.proto_message_type.FromString(encoded)

    def as_deterministic_coder(self, step_label: str, error_message: str | None = None) -> Coder:
        return DeterministicProtoCoder(self.proto_message_type)

    def to_type_hint(self) -> Any:
        return self.proto_message_type


class DeterministicProtoCoder(ProtoCoder):
    """Messages of one class, in the wire format, the entries of maps sorted by key.

    >>> from google.protobuf.timestamp_pb2 import Timestamp
    >>> DeterministicProtoCoder(Timestamp).encode(Timestamp(seconds=5))
    b'\\x08\\x05'
    """

    def is_deterministic(self) -> bool:
        return True

    def as_deterministic_coder(self, step_label: str, error_message: str | None = None) -> Coder:
        return self


class ProtoPlusCoder(Coder):
    """Messages of one class of proto-plus, in the wire format, the entries of maps sorted by key.

    Args:
      proto_plus_message_type: a subclass of `proto.Message`.
    """

    def __init__(self, proto_plus_message_type: Any) -> None:
        self.proto_plus_message_type = proto_plus_message_type

    @classmethod
    def from_type_hint(cls, typehint: Any, registry: Any) -> ProtoPlusCoder:
        if not _is_proto_plus(typehint):
            raise ValueError(f"expected a subclass of proto.Message, got {typehint!r}")
        return cls(typehint)

    def encode(self, value: Any) -> bytes:
        if not isinstance(value, self.proto_plus_message_type):
            raise wrong_type(self, self.proto_plus_message_type.__name__, value)
        message = self.proto_plus_message_type.pb(value)
        return message.SerializePartialToString(deterministic=True)  # type: ignore[no-any-return]

    def decode(self, encoded: bytes) -> Any:
        return self.proto_plus_message_type.deserialize(encoded)

    def is_deterministic(self) -> bool:
        return True

    def to_type_hint(self) -> Any:
        return self.proto_plus_message_type


def coder_of_message(kind: Any) -> Coder | None:
    """Return the coder of a class of messages; None for another class, and for the base class of all messages.

    >>> from google.protobuf.timestamp_pb2 import Timestamp
    >>> type(coder_of_message(Timestamp)), coder_of_message(int)
    (<class 'penstock.sdk.coders.protobuf.ProtoCoder'>, None)
    """
    if not isinstance(kind, type):
        return None
    if _is_proto_plus(kind):
        return ProtoPlusCoder(kind)
    return ProtoCoder(kind) if getattr(kind, "DESCRIPTOR", None) is not None and hasattr(kind, "FromString") else None


def _is_proto_plus(kind: Any) -> bool:
    return isinstance(kind, type) and all(hasattr(kind, name) for name in ("pb", "serialize", "deserialize", "meta"))
