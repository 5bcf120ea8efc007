"""NumberedWindows: a number for each window that anything is parked of, which is shorter than the window."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ...sdk.bundle import Windows
from ...sdk.coders.key_encoding import encode_key, key_groups
from ...windowing import BoundedWindow

_SIZE = 8
# Stands for no window.
_NONE = bytes(_SIZE)


class NumberedWindows:
    """Windows by number, as long as there are entries of them.

    An entry's id has a byte for the key group, the number of the window, and then the key.

    >>> from penstock.windowing import IntervalWindow
    >>> windows = NumberedWindows()
    >>> number = windows.entered(IntervalWindow(0, 10))
    >>> windows.windows(b"g" + number + b"key"), IntervalWindow(0, 10) in windows
    (([0.0, 10.0),), True)
    >>> windows.left(b"g" + number + b"key")
    >>> IntervalWindow(0, 10) in windows
    False
    """

    def __init__(self) -> None:
        self._numbers: dict[BoundedWindow, bytes] = {}
        self._windows: dict[bytes, Windows] = {}
        self._counts: dict[bytes, int] = {}
        self._last = 0

    def __contains__(self, window: BoundedWindow | None) -> bool:
        return window in self._numbers

    def __iter__(self) -> Iterator[BoundedWindow]:
        return iter(self._numbers)

    def entered(self, window: BoundedWindow | None) -> bytes:
        """The number of the window of an entry that is about to be parked."""
        if window is None:
            return _NONE
        number = self._numbers.get(window)
        if number is None:
            self._last += 1
            number = self._numbers[window] = self._last.to_bytes(_SIZE, "big")
            self._windows[number] = (window,)
            self._counts[number] = 0
        self._counts[number] += 1
        return number

    def left(self, id: bytes) -> None:
        """The entry with this id isn't parked any more."""
        number = id[1 : 1 + _SIZE]
        if number == _NONE:
            return
        self._counts[number] -= 1
        if not self._counts[number]:
            (window,) = self._windows.pop(number)
            del self._numbers[window], self._counts[number]

    def number_of(self, window: BoundedWindow | None) -> bytes:
        """The number of a window that has entries."""
        return _NONE if window is None else self._numbers[window]

    def ids(self, keys: list[Any], windows: Sequence[BoundedWindow | None], new: bool = False) -> list[bytes]:
        """The ids of entries by key and window; new ones are about to be parked."""
        number = self.entered if new else self.number_of
        return [
            bytes([group]) + number(window) + encode_key(key)
            for group, key, window in zip(key_groups(keys), keys, windows)
        ]

    def windows(self, id: bytes) -> Windows:
        """The window of an entry with this id, as the windows of an element."""
        return self._windows[id[1 : 1 + _SIZE]]
