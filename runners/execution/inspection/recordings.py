"""Recordings of panes, by the key that they are of."""

from __future__ import annotations

from collections.abc import Iterable

from ....sdk.drawing.panes import PaneRecording
from ....sdk.errors import StateNotFoundError
from .json_values import text_of
from .keys import named_keys


def recording_of_key(recordings: Iterable[PaneRecording], key: str | None) -> PaneRecording:
    """Return the recording of a key, named as text or JSON; without a name, of the only key.

    Raises `StateNotFoundError`, naming the keys.
    """
    found = list(recordings)
    names = ", ".join(text_of(each.key) for each in found[:10]) or "none"
    if key is None:
        if len(found) == 1:
            return found[0]
        raise StateNotFoundError(f"the step has {len(found)} keys: give one with --key. Keys: {names}")
    wanted = {text_of(each) for each in named_keys(key)}
    for each in found:
        if text_of(each.key) in wanted:
            return each
    raise StateNotFoundError(f"{found[0].step if found else 'the step'}: no element of the key {key!r}. Keys: {names}")
