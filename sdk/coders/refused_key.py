"""Error messages for keys that can't be encoded."""

from __future__ import annotations

import dataclasses
from typing import Any

import attr

from .coder import shortened

_INSTEAD: dict[type, str] = {
    list: "use a tuple",
    set: "use a frozenset",
    dict: "use a tuple of its sorted items, or a frozenset of them",
    bytearray: "use bytes",
}


class Refused(Exception):
    """The part of a key that has no encoding, the reason, and advice."""

    def __init__(self, part: Any, fault: str, advice: str) -> None:
        self.part = part
        self.fault = fault
        self.advice = advice


def refused(key: Any) -> Refused:
    """Return the reason why a value's type can't be encoded, and advice."""
    kind: Any = type(key)
    if kind.__hash__ is not None:
        name = kind.__name__
        advice = f"use a tuple of simple values, a frozen dataclass, or coders.registry.register_coder({name}, ...)"
        return Refused(key, "has no deterministic encoding", advice)
    if kind.__module__ == "numpy":
        return Refused(key, "is unhashable", "use tuple(array.tolist())")
    if dataclasses.is_dataclass(kind) or attr.has(kind):
        return Refused(key, "is unhashable", f"declare {type(key).__name__} frozen")
    return Refused(key, "is unhashable", _INSTEAD.get(kind, "use a tuple of simple values"))


def message(key: Any, refused: Refused) -> str:
    """Return the error message, which starts with the key."""
    if refused.part is key:
        return f"{_found(key)} {refused.fault}, so it can't be a key: {refused.advice}"
    return f"{_found(key)} can't be a key, for {_found(refused.part)} inside it {refused.fault}: {refused.advice}"


def _found(value: Any) -> str:
    kind = type(value)
    module = "" if kind.__module__ in ("builtins", "__main__") else f"{kind.__module__}."
    name = f"{module}{kind.__qualname__}"
    return f"{shortened(value)} ({'an' if name[0] in 'aeiouAEIOU' else 'a'} {name})"
