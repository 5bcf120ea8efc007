"""Keys as the command line names them, and their entries.

>>> named_keys('5'), named_keys('"5"'), named_keys('["a", 1]')
(['5', 5], ['"5"', '5'], ['["a", 1]', ('a', 1)])
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from ....sdk.coders.key_encoding import key_groups
from ....sdk.errors import InvalidKeyError, StateNotFoundError
from ..user_errors import shortened
from .entries import StateEntry, StateReader, identity_of
from .json_values import text_of

# The number of keys that an error names.
_NAMED = 5


def named_keys(text: str) -> list[Any]:
    """Return the keys that a text may mean: the text itself, and its value in JSON, with arrays as tuples."""
    try:
        return [text, _with_tuples(json.loads(text))]
    except ValueError:
        return [text]


def _with_tuples(value: Any) -> Any:
    return tuple(map(_with_tuples, value)) if isinstance(value, list) else value


def check_step(reader: StateReader, step: str) -> None:
    """Raise `StateNotFoundError`, naming the steps, if a step has no state."""
    steps = reader.steps()
    if step in steps:
        return
    from difflib import get_close_matches

    matches = get_close_matches(step, steps, n=1)
    hint = f"; did you mean {matches[0]!r}?" if matches else "."
    have = ", ".join(map(repr, steps)) or "none"
    raise StateNotFoundError(
        f"checkpoint {reader.checkpoint.epoch} has no state of a step {step!r}{hint} Steps with state: {have}"
    )


def entries_of_key(reader: StateReader, step: str, keys: list[Any]) -> list[StateEntry]:
    """Return the entries of one key of a step.

    Args:
      keys: the values that it may be.

    Raises `StateNotFoundError` if there is no entry, naming some keys that there are.
    """
    groups: set[int] = set()
    wanted: set[Any] = set()
    texts: set[str] = set()
    for key in keys:
        try:
            groups |= set(key_groups([key]))
            wanted.add(identity_of(key))
        except InvalidKeyError:
            pass
        if not isinstance(key, str):
            texts.add(text_of(key))
    found = [entry for entry in reader.entries(step, groups) if identity_of(entry.key) in wanted]
    if found:
        return found
    # A key of a class of users may be in any key group, and is found by its text.
    others: dict[str, Any] = {}
    for entry in reader.entries(step):
        text = text_of(entry.key)
        if text in texts:
            found.append(entry)
        elif len(others) < _NAMED:
            others[text] = None
    if found:
        return found
    named = f"Keys are, for example, {', '.join(map(shortened_text, others))}" if others else "It has no keys"
    shown = " or ".join(shortened(key) for key in keys)
    raise StateNotFoundError(f"{step}: no state of the key {shown} in checkpoint {reader.checkpoint.epoch}. {named}")


def shortened_text(text: str, longest: int = 80) -> str:
    """Return the beginning of a long text."""
    return text if len(text) <= longest else f"{text[:longest]}..."


def entries_of(reader: StateReader, step: str, key: str | None) -> Iterator[StateEntry]:
    """Yield the entries of a step, or of one of its keys.

    Raises `StateNotFoundError` for an unknown step or key.
    """
    check_step(reader, step)
    yield from reader.entries(step) if key is None else entries_of_key(reader, step, named_keys(key))
