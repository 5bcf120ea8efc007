"""Unaligned barriers: a barrier overtakes what waits in the channels, which joins the snapshot (Flink, 2020).

Alignment makes a fast input wait for a slow one.  Here a subtask takes its snapshot as soon as the first
barrier has come, wherever that is in its queue.  What was sent before the barrier on each input and
has not been taken by then is *in flight*: it is processed as ever, and is also written down; after a
failure it is processed first.  What has come from another process is still encoded, and is written as it came.

>>> overtaking = Overtaking(["left", "right"])
>>> overtaking.seen("left", 1, ["a"]), overtaking.is_complete
(True, False)
>>> overtaking.taken("right", "b")
>>> overtaking.seen("right", 1, ["c"]), overtaking.is_complete
(False, True)
>>> overtaking.in_flight()
{'left': ['a'], 'right': ['b', 'c']}
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterator, Sequence
from itertools import chain
from typing import Any

from ...execution.shuffle.blocks import encode_bundle
from ..channels.messages import Elements, Encoded


class Overtaking:
    """Which inputs' barriers have been seen, and what is in flight before them.

    Args:
      inputs: the channels.
    """

    def __init__(self, inputs: Collection[Hashable]) -> None:
        self._inputs = tuple(inputs)
        self._number = -1
        self._waiting: set[Hashable] = set()
        self._in_flight: dict[Hashable, list[Any]] = {}

    def seen(self, channel: Hashable, number: int, ahead: Sequence[Any]) -> bool:
        """A barrier has come to an input; whether it is the first of its number, so that the state is to be copied.

        Args:
          ahead: what waits on that input before the barrier.
        """
        is_first = number > self._number
        if is_first:
            self._number = number
            self._waiting = set(self._inputs)
            self._in_flight = {input: [] for input in self._inputs}
        if number == self._number and channel in self._waiting:
            self._waiting.discard(channel)
            self._in_flight[channel].extend(chain.from_iterable(map(as_it_is, ahead)))
        return is_first

    def taken(self, channel: Hashable, message: Any) -> None:
        """A message is about to be taken from an input."""
        if channel in self._waiting:
            self._in_flight[channel].extend(as_it_is(message))

    @property
    def is_under_way(self) -> bool:
        """Whether some inputs' barriers are yet to come."""
        return bool(self._waiting)

    @property
    def is_complete(self) -> bool:
        """Whether the barrier has been seen on every input."""
        return self._number >= 0 and not self._waiting

    def in_flight(self) -> dict[Hashable, list[Any]]:
        """What was in flight on each input; it is given once."""
        taken, self._in_flight = self._in_flight, {}
        return taken


def as_it_is(message: Any) -> Iterator[Any]:
    """A message that stays what it is now, as one or more: what elements hold may be changed by whoever takes them."""
    if isinstance(message, Elements):
        yield from map(Encoded, encode_bundle(message.bundle))
    else:
        yield message
