"""Keys that only a registered coder can compare."""

from __future__ import annotations

from typing import Any

from penstock.sdk.coders import Coder


class Name:
    """A name without `__eq__`: each object is equal only to itself."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"


class NameCoder(Coder):
    def encode(self, value: Any) -> bytes:
        return str(value.name).encode()

    def decode(self, encoded: bytes) -> Any:
        return Name(encoded.decode())

    def is_deterministic(self) -> bool:
        return True
