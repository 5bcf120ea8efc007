"""ShardedKeyType: the type hint of sharded keys, which `GroupIntoBatches.WithShardedKey` makes."""

from __future__ import annotations

from typing import Any

from ...sdk.coders import ShardedKey
from .constraints import SequenceTypeConstraint
from .subscripts import hint_of_one


class ShardedKeyTypeConstraint(SequenceTypeConstraint):
    """A `ShardedKey`, with the type of its key.

    >>> ShardedKeyType[str]
    ShardedKey[<class 'str'>]
    """

    name, kind = "ShardedKey", ShardedKey

    @property
    def key_type(self) -> Any:
        """The type of the key."""
        return self.inner_type

    def _check_parts(self, instance: Any) -> None:
        self._check_part(self.key_type, instance.key, "the key")

    def to_python_type(self) -> Any:
        return ShardedKey


ShardedKeyType: Any = hint_of_one(ShardedKeyTypeConstraint, ShardedKey)
