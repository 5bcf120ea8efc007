"""Repetitions: what a source task sends again after it has gone back, dropped by who knows it (ABS, section 5).

>>> repetitions = Repetitions()
>>> channel, origin = ChannelId(0, 0, 1), ("Read", 0)
>>> repetitions.resumed(channel, {})
>>> repetitions.fresh(channel, Elements(Bundle(["a", "b"], [0, 0]), origin, 1)).values
['a', 'b']
>>> repetitions.come_again([channel])
>>> repetitions.resumed(channel, {})
>>> repetitions.fresh(channel, Elements(Bundle(["a"], [0]), origin, 1)) is None, repetitions.are_coming
(True, True)
>>> repetitions.fresh(channel, Elements(Bundle(["b", "c"], [0, 0]), origin, 2)).values, repetitions.are_coming
(['c'], False)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ...sdk.bundle import Bundle
from ...sdk.errors import PenstockError
from ..execution.windows.combining import FoldedBundle
from .channel import ChannelId
from .messages import Elements, Origin


class NotRepeatedError(PenstockError):
    """What a source gave again isn't what it had given, or not where it belongs."""


class Repetitions:
    """What one subtask has processed of what is numbered.

    That isn't part of its snapshots: none is taken before everybody who went back has caught up, and then both ends of
    a channel are as far.

    Args:
      drops: False takes what comes again for new, to show that the results are wrong then.
    """

    def __init__(self, drops: bool = True) -> None:
        self._drops = drops
        self._processed: dict[ChannelId, dict[Origin, int]] = {}
        # Of the channels whose senders have gone back: what they are yet to send again; None until that is known.
        self._awaited: dict[ChannelId, dict[Origin, int] | None] = {}

    @property
    def are_coming(self) -> bool:
        """Whether somebody who sends to this subtask has yet to catch up with it."""
        return bool(self._awaited)

    def come_again(self, channels: Iterable[ChannelId]) -> None:
        """The senders on these channels have gone back."""
        self._awaited.update(dict.fromkeys(channels))

    def resumed(self, channel: ChannelId, sent: Mapping[Origin, int]) -> None:
        """A sender says from where its numbers go on."""
        processed = self._processed.setdefault(channel, {})
        if channel not in self._awaited:
            processed.update(sent)
            return
        for origin, number in sent.items():
            if number > processed.get(origin, 0):
                raise self._misplaced(origin, processed.get(origin, 0), number)
        awaited = {origin: number for origin, number in processed.items() if number > sent.get(origin, 0)}
        self._awaited[channel] = awaited
        self._look(channel)

    def fresh(self, channel: ChannelId, message: Elements) -> Bundle | None:
        """What is new of a message's elements; None if nothing is."""
        origin, first, bundle = message.origin, message.first, message.bundle
        assert origin is not None
        processed = self._processed.setdefault(channel, {})
        before, last = processed.get(origin, 0), first + message.elements - 1
        if first > before + 1:
            raise self._misplaced(origin, before, first)
        awaited = self._awaited.get(channel)
        if awaited and last >= awaited.get(origin, last + 1):
            del awaited[origin]
            self._look(channel)
        if not self._drops:
            processed[origin] = max(before, last)
            return bundle
        if last <= before:
            return None
        processed[origin] = last
        if first == before + 1:
            return bundle
        if isinstance(bundle, FoldedBundle):
            raise NotRepeatedError(
                f"{origin[0]}: of partition {origin[1]!r} elements number {first} to {last} came folded after number "
                f"{before}, where they can't be cut; what may have been sent before has to be sent as elements"
            )
        return bundle.part(before + 1 - first, len(bundle))

    def ended(self, channel: ChannelId) -> None:
        """A sender has nothing more to send.  Raises `NotRepeatedError` if that is less than it had sent."""
        awaited = self._awaited.get(channel)
        if awaited:
            origin, number = next(iter(awaited.items()))
            raise NotRepeatedError(
                f"{origin[0]}: partition {origin[1]!r} has ended before its element number {number} came again; "
                "a source that is declared to be repeatable has to give the same elements whenever it is opened"
            )

    def _look(self, channel: ChannelId) -> None:
        if not self._awaited[channel]:
            del self._awaited[channel]

    def _misplaced(self, origin: Origin, before: int, first: int) -> NotRepeatedError:
        return NotRepeatedError(
            f"{origin[0]}: of partition {origin[1]!r} element number {first} came after number {before}; "
            "expected the one after that, or one that came before"
        )
