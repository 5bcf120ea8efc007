"""Values of options with a method `get`, as in Beam's templates."""

from __future__ import annotations

from typing import Any


class StaticValueProvider:
    """A value that is known while the pipeline is built.

    Args:
      value_type: its type, which is displayed and not checked.

    >>> StaticValueProvider(int, 3).get()
    3
    """

    def __init__(self, value_type: type, value: Any) -> None:
        self.value_type = value_type
        self.value = value

    def is_accessible(self) -> bool:
        """Return True.  In Beam, values of a template are inaccessible before the template runs."""
        return True

    def get(self) -> Any:
        """Return the value."""
        return self.value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StaticValueProvider) and self.value == other.value

    __hash__ = None  # type: ignore[assignment]

    def __str__(self) -> str:
        return str(self.value)

    def __repr__(self) -> str:
        return f"StaticValueProvider({getattr(self.value_type, '__name__', self.value_type)}, {self.value!r})"
