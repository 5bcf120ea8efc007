"""ShardedKey: a key split into shards, so that a hot key is processed in parallel."""

from __future__ import annotations

from typing import Any

from ...frozen import frozen
from ...persistence import stored_as
from .coder import Coder, wrong_type
from .primitive import BytesCoder


@stored_as("sharded-key", 1)
@frozen(repr=False)
class ShardedKey:
    """A shard of a key: the key and the id of the shard, as bytes.

    >>> ShardedKey("k", b"1")
    ('k', b'1')
    """

    key: Any
    shard_id: bytes

    def __repr__(self) -> str:
        return f"({self.key!r}, {self.shard_id!r})"


class ShardedKeyCoder(Coder):
    """`ShardedKey`s: the shard's id, then the key.

    >>> from penstock.sdk.coders import StrUtf8Coder
    >>> ShardedKeyCoder(StrUtf8Coder()).encode(ShardedKey("k", b"1"))
    b'\\x011k'
    """

    def __init__(self, key_coder: Coder) -> None:
        self._key_coder = key_coder

    def encode(self, value: Any) -> bytes:
        if not isinstance(value, ShardedKey):
            raise wrong_type(self, "ShardedKey", value)
        return BytesCoder().encode_nested(value.shard_id) + self._key_coder.encode(value.key)

    def decode(self, encoded: bytes) -> ShardedKey:
        shard_id, start = BytesCoder().read_nested(encoded, 0)
        return ShardedKey(self._key_coder.decode(encoded[start:]), shard_id)

    def is_deterministic(self) -> bool:
        return self._key_coder.is_deterministic()

    def as_deterministic_coder(self, step_label: str, error_message: str | None = None) -> Coder:
        return ShardedKeyCoder(self._key_coder.as_deterministic_coder(step_label, error_message))

    def to_type_hint(self) -> Any:
        return ShardedKey
