"""StringSetData: a bounded set of texts."""

from __future__ import annotations

from collections.abc import Iterable

from ..redaction import logger_of

_logger = logger_of(__name__)

# The length of all texts of a set, above which no more are added.
MAX_CHARACTERS = 1_000_000


class StringSetData:
    """A set of texts that takes no more once it has a million characters.

    Args:
      string_set: the texts.
      string_size: their length, if it is known.

    >>> StringSetData({"a"}).combine(StringSetData({"b"})).get_result() == {"a", "b"}
    True
    """

    __slots__ = ("string_set", "string_size")

    def __init__(self, string_set: set[str] | None = None, string_size: int = 0) -> None:
        self.string_set = set() if string_set is None else string_set
        self.string_size = string_size or sum(map(len, self.string_set))

    @staticmethod
    def singleton(value: str) -> StringSetData:
        """Return the data of one text."""
        return StringSetData({value})

    @staticmethod
    def identity_element() -> StringSetData:
        """Return the data of no text."""
        return StringSetData()

    def add(self, *strings: str) -> StringSetData:
        """Add texts, in place, and return itself.  Logs a warning when the set is full."""
        self._add_all(strings)
        return self

    def combine(self, other: StringSetData | None) -> StringSetData:
        """Return a set with the texts of both."""
        combined = self.get_cumulative()
        if other is not None:
            combined._add_all(other.string_set)
        return combined

    def _add_all(self, strings: Iterable[str]) -> None:
        for string in strings:
            if self.string_size > MAX_CHARACTERS:
                return
            if string in self.string_set:
                continue
            self.string_set.add(string)
            self.string_size += len(string)
            if self.string_size > MAX_CHARACTERS:
                _logger.warning("A string set of the metrics is full, with %d characters.", self.string_size)

    def get_cumulative(self) -> StringSetData:
        """Return a copy."""
        return StringSetData(set(self.string_set), self.string_size)

    def get_result(self) -> set[str]:
        """Return a copy of the texts, which a query returns."""
        return set(self.string_set)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, StringSetData)
            and self.string_set == other.string_set
            and self.string_size == other.string_size
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"StringSetData{self.string_set}:{self.string_size}"
