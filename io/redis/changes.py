"""Signed changes of Redis' keys, and their net effect.

>>> first, second = Change(b"a", b"1", 1, (0, 0, 0)), Change(b"a", b"2", 1, (0, 1, 0))
>>> list(net_effects([second, Change(b"a", b"1", -1, (0, 0, 0)), first], rejected=[]))
[Effect(key=b'a', operation='set', arguments=(b'2',))]
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any

import msgspec

from ...frozen import frozen
from ...sdk.coders.coder import shortened
from ..sinks.dead_letters import Rejected
from ..sinks.net_changes import NetChanges

# The value of a key in Redis: text, or fields with their texts.
Stored = bytes | dict[bytes, bytes]

# Applies effects.  A key of the arguments has an operation, the number of its arguments, and these.
_APPLY = """
local at = 1
for _, key in ipairs(KEYS) do
  local operation, number = ARGV[at], tonumber(ARGV[at + 1])
  local first, last = at + 2, at + 1 + number
  at = last + 1
  if operation == 'set' then
    redis.call('SET', key, ARGV[first])
  elseif operation == 'set hash' then
    redis.call('DEL', key)
    for i = first, last, 2 do redis.call('HSET', key, ARGV[i], ARGV[i + 1]) end
  elseif operation == 'delete' then
    if redis.call('TYPE', key).ok == 'string' and redis.call('GET', key) == ARGV[first] then redis.call('DEL', key) end
  elseif operation == 'delete hash' then
    local is_equal = redis.call('TYPE', key).ok == 'hash' and redis.call('HLEN', key) * 2 == number
    for i = first, last, 2 do
      is_equal = is_equal and redis.call('HGET', key, ARGV[i]) == ARGV[i + 1]
    end
    if is_equal then redis.call('DEL', key) end
  else
    redis.call('XADD', key, unpack(ARGV, first, last))
  end
end
return #KEYS
"""

# The arguments of one operation that the server's interpreter takes, at most.
_MOST_ARGUMENTS = 4_000

# The effects, and about the bytes of their arguments, that are sent at a time.
_AT_ONCE, _BYTES_AT_ONCE = 500, 256 << 10


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


@frozen
class Effect:
    """What happens to a key.

    Attributes:
      operation: 'set' or 'set hash'; 'delete' or 'delete hash', if it has exactly this value; or 'add'.
      arguments: the value, or names and values of a hash; of 'add', those of XADD.
    """

    key: bytes
    operation: str
    arguments: Sequence[bytes]

    @staticmethod
    def of(change: Change, is_gone: bool) -> Effect:
        """Return the effect of a value that is left, or gone."""
        operation, value = "delete" if is_gone else "set", change.value
        if isinstance(value, bytes):
            return Effect(change.key, operation, (value,))
        return Effect(change.key, f"{operation} hash", [part for item in value.items() for part in item])


def commands(effects: Iterable[Effect]) -> Iterator[Sequence[Any]]:
    """Yield commands of the server that apply effects, in their order, many at a time.

    The server answers each command, and the client holds the answers of a transaction.
    """
    together: list[Effect] = []
    size = 0
    for effect in effects:
        is_long = len(effect.arguments) > _MOST_ARGUMENTS
        if together and (is_long or len(together) == _AT_ONCE or size > _BYTES_AT_ONCE):
            yield _applied(together)
            together, size = [], 0
        if is_long and effect.operation == "add":
            yield ("XADD", effect.key, *effect.arguments)
            continue
        together.append(effect)
        size += len(effect.key) + sum(map(len, effect.arguments))
    if together:
        yield _applied(together)


def _applied(effects: Sequence[Effect]) -> Sequence[Any]:
    keys = [effect.key for effect in effects]
    arguments = [(effect.operation, len(effect.arguments), *effect.arguments) for effect in effects]
    return "EVAL", _APPLY, len(keys), *keys, *chain.from_iterable(arguments)


def net_effects(changes: Iterable[Change], rejected: list[Rejected]) -> Iterator[Effect]:
    """Return the net effect of changes, independent of their order: each key's latest remaining value, or its removal.

    Adds to `rejected`, while it is iterated over, the latest values of each key that has several.
    """
    return _effects_of(NetChanges(changes, Change, _key_and_value, _size), rejected)


def _effects_of(net: NetChanges[Change], rejected: list[Rejected]) -> Iterator[Effect]:
    for values in net:
        if values[0].count < 0:
            yield from (Effect.of(value.change, is_gone=True) for value in values)
        elif len(values) == 1:
            yield Effect.of(values[0].change, is_gone=False)
        else:
            key = values[0].change.key
            shown = " and ".join(shortened(value.change.value, 100) for value in values[-2:])
            why = (
                f"key {key.decode(errors='replace')!r} has two values of one window, pane and "
                f"timestamp, {shown}. Add what distinguishes them to the key, or combine them"
            )
            rejected += [Rejected({"key": key, "value": _shown(value.change.value)}, +1, why) for value in values]


def _key_and_value(change: Change) -> tuple[bytes, Any]:
    value = change.value
    return change.key, value if isinstance(value, bytes) else tuple(sorted(value.items()))


def _size(change: Change) -> int:
    value = change.value
    if isinstance(value, bytes):
        return len(change.key) + len(value)
    return len(change.key) + sum(100 + len(name) + len(text) for name, text in value.items())


def _shown(value: Stored) -> Any:
    """Return a value with text as names, for JSON."""
    return value if isinstance(value, bytes) else {name.decode(errors="replace"): v for name, v in value.items()}
