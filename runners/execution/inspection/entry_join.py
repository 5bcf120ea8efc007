"""Join of the entries of two checkpoints, as digests: a Grace hash join (Kitsuregawa et al., 1983).

The entries of each side are partitioned by the digest of their identity, in a temporary file if there are many.  Then
one partition after the other is joined in memory, which so holds the digests of about one entry in a hundred.
"""

from __future__ import annotations

import marshal
from collections.abc import Iterator
from hashlib import blake2b
from typing import Any, NamedTuple

from ....sdk.coders.coded_key import plain
from ....sdk.elements.hash_partitions import HashPartitions
from ....windowing import GLOBAL_WINDOW, IntervalWindow
from ..streaming.snapshot_chunks import STATE
from .entries import CELL, StateEntry, StateReader
from .export import record_of
from .json_values import as_line, text_of

# The entries that are held before they are written.
_HELD = 65_536

# The version of `marshal` in which equal values of these types have equal bytes: later ones refer to earlier objects.
_NO_REFERENCES = 2

# Types of the values that it takes as they are.  Of others it takes parts, or nothing.
_DATA = frozenset({type(None), bool, int, float, str, bytes, tuple, list, dict})

# The characters of a key that are shown.
_LONGEST_KEY = 80


class Digested(NamedTuple):
    """An entry as digests of 16 bytes.

    Attributes:
      step, name: the label of the step, and the kind of the entry with its name, such as "state last".
      identity: of the step, the name, the key and the window.
      value: of all that two checkpoints may have differently.
      key: the key as it is, or as the beginning of its text: see `shown_key`.
    """

    step: str
    name: str
    identity: bytes
    value: bytes
    key: tuple[Any, bool]


def digests(reader: StateReader) -> Iterator[Digested]:
    """Yield the entries of a checkpoint."""
    for found in reader.stored_records():
        if found.kind == STATE and type(found.record[4]) in _DATA:
            window, key, name, _, stored = found.record
            value = _of_data(stored)
            if value is not None:
                yield _digested(found.label, f"{CELL} {name}", "", plain(key), window, value)
                continue
        yield from map(_digest_of, reader.entries_of(found))


def _digest_of(entry: StateEntry) -> Digested:
    timer, state = entry.timer, entry.window_state
    data: Any = entry.value
    if timer is not None:
        data = str(timer.domain), timer.fire, timer.output
    elif state is not None:
        decision, current = state.decision, [pair[1] for pair, *_ in state.current_panes]
        due = decision.event_time, decision.processing_time
        data = entry.value, state.panes, state.has_new, state.expiry, *due, current
    value = _of_data(data)
    if value is None:
        value = _of_text(as_line(record_of(entry)))
    tag = "" if timer is None else timer.tag
    return _digested(entry.step, f"{entry.kind} {entry.name}".rstrip(), tag, entry.key, entry.window, value)


def _digested(step: str, name: str, tag: str, key: Any, window: Any, value: bytes) -> Digested:
    window_key: Any = None
    if type(window) is IntervalWindow:
        window_key = window.start_micros, window.end_micros
    elif window is not None and window != GLOBAL_WINDOW:
        window_key = text_of(window)
    identity = _of_data((step, name, tag, key, window_key)) if type(key) in _DATA else None
    if identity is None:
        identity = _of_data((step, name, tag, "$", text_of(key), window_key))
        assert identity is not None
    if key is None or type(key) in (bool, int, float) or (type(key) is str and len(key) <= _LONGEST_KEY):
        return Digested(step, name, identity, value, (key, False))
    return Digested(step, name, identity, value, (text_of(key)[:_LONGEST_KEY], True))


def _of_data(data: Any) -> bytes | None:
    """Return the digest of plain data; None if any part of it is something else."""
    try:
        return blake2b(marshal.dumps(data, _NO_REFERENCES), digest_size=16).digest()
    except ValueError:
        return None


def _of_text(text: str) -> bytes:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def shown_key(key: tuple[Any, bool]) -> str:
    """Return the text of a key of `Digested`, of at most 80 characters.

    >>> shown_key(("key 1", False)), shown_key(('["a",1]', True))
    ('"key 1"', '["a",1]')
    """
    own, is_text = key
    return own if is_text else text_of(own)[:_LONGEST_KEY]


def partitioned() -> HashPartitions[tuple[Any, ...]]:
    """Return partitions of entries, as plain data, of which some ten thousand are held in memory."""
    return HashPartitions(marshal.dumps, marshal.loads, held=_HELD)
