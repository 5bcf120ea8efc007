"""The percentile watermarks of a subtask: the minimum over its inputs, as with watermarks.

An input that is idle or finished doesn't hold a percentile watermark back; one that has reported none yet does.

>>> percentiles = Percentiles(["left", "right"])
>>> percentiles.advance("left", 0.9, 5), percentiles.moved()
(None, {})
>>> percentiles.advance("right", 0.9, 3), percentiles.moved(), percentiles.moved()
(None, {0.9: 3}, {})
>>> percentiles.set_idle("right", True), percentiles.moved()
(None, {0.9: 5})
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping

from ....windowing.timestamp import MIN_MICROS


class Percentiles:
    """Percentile watermarks, in microseconds, by their share.

    Args:
      inputs: the channels, or sources, that report them.
    """

    def __init__(self, inputs: Collection[Hashable]) -> None:
        self._holding = dict.fromkeys(inputs)
        self._said: dict[float, dict[Hashable, int]] = {}
        self._least: dict[float, int] = {}

    def advance(self, input: Hashable, share: float, micros: int) -> None:
        """Advance an input's percentile watermark."""
        own = self._said.setdefault(share, {})
        own[input] = max(micros, own.get(input, MIN_MICROS))

    def set_idle(self, input: Hashable, holds_nothing: bool) -> None:
        """Note whether an input is idle or finished."""
        if holds_nothing:
            self._holding.pop(input, None)
        else:
            self._holding.setdefault(input)

    def kept(self) -> dict[float, dict[Hashable, int]]:
        """Return the inputs' percentile watermarks, as data."""
        return {share: dict(own) for share, own in self._said.items()}

    def restore(self, kept: Mapping[float, Mapping[Hashable, int]]) -> None:
        """Restore the inputs' percentile watermarks."""
        for share, own in kept.items():
            for input, micros in own.items():
                self.advance(input, share, micros)

    def moved(self) -> dict[float, int]:
        """Return the percentile watermarks that have advanced since the last call; none ever regresses."""
        found = {}
        for share, own in self._said.items():
            # If all inputs are finished, the minimum over their last watermarks counts.
            asked = self._holding or own
            least = min((own.get(input, MIN_MICROS) for input in asked), default=MIN_MICROS)
            if least > self._least.get(share, MIN_MICROS):
                self._least[share] = found[share] = least
        return found
