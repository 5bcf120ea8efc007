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
