"""The percentile watermarks that a subtask knows of: the least of what its inputs say, as with watermarks.

An input that is idle, or at its end, holds nobody back; of one that has said nothing yet nothing is known.

>>> percentiles = Percentiles(["left", "right"])
>>> percentiles.said("left", 0.9, 5), percentiles.moved()
(None, {})
>>> percentiles.said("right", 0.9, 3), percentiles.moved(), percentiles.moved()
(None, {0.9: 3}, {})
>>> percentiles.lets_go("right", True), percentiles.moved()
(None, {0.9: 5})
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping

from ....windowing.timestamp import MIN_MICROS


class Percentiles:
    """Percentile watermarks, in microseconds, by their share.

    Args:
      inputs: whoever may say how far they are: channels, or sources.
    """

    def __init__(self, inputs: Collection[Hashable]) -> None:
        self._holding = dict.fromkeys(inputs)
        self._said: dict[float, dict[Hashable, int]] = {}
        self._least: dict[float, int] = {}

    def said(self, input: Hashable, share: float, micros: int) -> None:
        """An input has moved a percentile watermark on."""
        own = self._said.setdefault(share, {})
        own[input] = max(micros, own.get(input, MIN_MICROS))

    def lets_go(self, input: Hashable, holds_nothing: bool) -> None:
        """Whether an input is idle or at its end."""
        if holds_nothing:
            self._holding.pop(input, None)
        else:
            self._holding.setdefault(input)

    def kept(self) -> dict[float, dict[Hashable, int]]:
        """What the inputs have said, as data."""
        return {share: dict(own) for share, own in self._said.items()}

    def restore(self, kept: Mapping[float, Mapping[Hashable, int]]) -> None:
        """Know again what the inputs have said."""
        for share, own in kept.items():
            for input, micros in own.items():
                self.said(input, share, micros)

    def moved(self) -> dict[float, int]:
        """What has moved on since the last time that somebody asked; it never goes back."""
        found = {}
        for share, own in self._said.items():
            # Where all are at their ends, as far as the last of them was.
            asked = self._holding or own
            least = min((own.get(input, MIN_MICROS) for input in asked), default=MIN_MICROS)
            if least > self._least.get(share, MIN_MICROS):
                self._least[share] = found[share] = least
        return found
