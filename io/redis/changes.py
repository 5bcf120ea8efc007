"""Signed changes of Redis' keys, and their net effect.

>>> first, second = Change(b"a", b"1", 1, (0, 0, 0)), Change(b"a", b"2", 1, (0, 1, 0))
>>> net_effects([second, Change(b"a", b"1", -1, (0, 0, 0)), first])
([Effect(key=b'a', value=b'2', is_gone=False)], [])
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs
import msgspec

from ...sdk.coders.coder import shortened
from ..dead_letters import Rejected

# The value of a key in Redis: text, or fields with their texts.
Stored = bytes | dict[bytes, bytes]

# Deletes a key if it holds exactly this value.
_DELETE = """
local kind = redis.call('TYPE', KEYS[1]).ok
if ARGV[1] == 'string' then
  if kind ~= 'string' or redis.call('GET', KEYS[1]) ~= ARGV[2] then return 0 end
else
  if kind ~= 'hash' or redis.call('HLEN', KEYS[1]) * 2 ~= #ARGV - 1 then return 0 end
  for i = 2, #ARGV, 2 do
    if redis.call('HGET', KEYS[1], ARGV[i]) ~= ARGV[i + 1] then return 0 end
  end
end
return redis.call('DEL', KEYS[1])
"""


class Change(msgspec.Struct, array_like=True, frozen=True):
    """A staged element.

    Attributes:
      version: end of the window, number of the pane, and timestamp.  The latest of several values of a key is stored.
    """

    key: bytes
    value: Stored
    sign: int
    version: tuple[int, int, int]


encode_change = msgspec.msgpack.Encoder().encode
decode_change = msgspec.msgpack.Decoder(Change).decode


@attrs.define
class _Value:
    """A value of a key."""

    stored: Stored
    net: int = 0
    version: tuple[int, int, int] = (-(2**63), -1, -(2**63))


@attrs.frozen
class Effect:
    """The net effect of changes on a key."""

    key: bytes
    value: Stored
    is_gone: bool = False

    def apply(self, pipe: Any) -> None:
        """Append the commands for Redis.  They can't fail half-way."""
        if self.is_gone and isinstance(self.value, bytes):
            pipe.eval(_DELETE, 1, self.key, "string", self.value)
        elif self.is_gone:
            assert isinstance(self.value, dict)
            pipe.eval(_DELETE, 1, self.key, "hash", *(part for item in self.value.items() for part in item))
        elif isinstance(self.value, bytes):
            pipe.set(self.key, self.value)
        else:
            # Removes former fields, and a value that isn't a hash.
            pipe.delete(self.key)
            pipe.hset(self.key, mapping=self.value)


def net_effects(changes: Sequence[Change]) -> tuple[list[Effect], list[Rejected]]:
    """Return the net effect of changes, independent of their order: each key's latest remaining value, or its removal.

    Returns as rejected the latest values of each key that has several.
    """
    by_key: dict[bytes, dict[Any, _Value]] = {}
    for change in changes:
        values = by_key.setdefault(change.key, {})
        value = values.setdefault(_hashable(change.value), _Value(change.value))
        value.net += change.sign
        if change.sign > 0:
            value.version = max(value.version, change.version)
    effects: list[Effect] = []
    rejected: list[Rejected] = []
    for key, values in by_key.items():
        remaining = sorted((value for value in values.values() if value.net > 0), key=lambda value: value.version)
        if len(remaining) > 1 and remaining[-1].version == remaining[-2].version:
            latest = [value for value in remaining if value.version == remaining[-1].version]
            shown = " and ".join(shortened(value.stored, 100) for value in latest[-2:])
            why = (
                f"key {key.decode(errors='replace')!r} has two values of one window, pane and "
                f"timestamp, {shown}. Add what distinguishes them to the key, or combine them"
            )
            rejected += [Rejected({"key": key, "value": _shown(value.stored)}, +1, why) for value in latest]
            remaining = []
        if remaining:
            effects.append(Effect(key, remaining[-1].stored))
        else:
            effects += [Effect(key, value.stored, is_gone=True) for value in values.values() if value.net < 0]
    return effects, rejected


def _shown(value: Stored) -> Any:
    """Return a value with text as names, for JSON."""
    return value if isinstance(value, bytes) else {name.decode(errors="replace"): v for name, v in value.items()}


def _hashable(value: Stored) -> Any:
    return value if isinstance(value, bytes) else tuple(sorted(value.items()))
