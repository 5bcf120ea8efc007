"""The checkpoint coordinator: when a checkpoint begins, who has acknowledged it, and when it has failed.

It only decides.  Whoever runs the pipeline injects the barriers and writes the manifest.
Source: ABS, section 4.2; timeouts, pauses and tolerance as in Flink.

>>> coordinator = CheckpointCoordinator(["a", "b"], CheckpointSettings(interval=1_000_000), now=0)
>>> coordinator.is_due(999_999), coordinator.is_due(1_000_000)
(False, True)
>>> coordinator.begin(7, 1_000_000)
>>> coordinator.acknowledge("a", 7, "a's part"), coordinator.acknowledge("b", 7, "b's part")
(None, {'a': "a's part", 'b': "b's part"})
"""

from __future__ import annotations

from collections.abc import Collection, Hashable
from typing import Any

import attrs

# Of pauses that nobody has asked for, in microseconds.
_LONGEST_PAUSE = 1_000_000


@attrs.frozen
class CheckpointSettings:
    """When checkpoints are taken; times in microseconds.

    Attributes:
      interval: from the beginning of one to that of the next; None for never.
      timeout: one that takes longer has failed.
      min_pause: from the end of one to the beginning of the next, at least; None for as long as the last one took,
        up to a second: so that checkpoints don't take all the time, however short the interval is.
    """

    interval: int | None = None
    timeout: int = 600_000_000
    min_pause: int | None = None


class CheckpointCoordinator:
    """Keeps the book of checkpoints under way; there is at most one.

    Args:
      subtasks: who has to acknowledge.

    Attributes:
      epoch: that of the checkpoint under way; None if there is none.
      began: when the last one began.
    """

    def __init__(self, subtasks: Collection[Hashable], settings: CheckpointSettings, now: int) -> None:
        self._subtasks = frozenset(subtasks)
        self._settings = settings
        self._next = None if settings.interval is None else now + settings.interval
        self.began = 0
        self._acknowledged: dict[Hashable, Any] = {}
        self.epoch: int | None = None

    def is_due(self, now: int) -> bool:
        """Whether a checkpoint is to begin."""
        return self.epoch is None and self._next is not None and now >= self._next

    def begin(self, epoch: int, now: int) -> None:
        """A checkpoint begins."""
        assert self.epoch is None
        self.epoch, self.began, self._acknowledged = epoch, now, {}

    def acknowledge(self, subtask: Hashable, epoch: int, part: Any) -> dict[Any, Any] | None:
        """A subtask has done its part; all parts, if it was the last one.  Of an epoch that is over, nothing."""
        if epoch != self.epoch:
            return None
        assert subtask in self._subtasks
        self._acknowledged[subtask] = part
        return self._acknowledged if len(self._acknowledged) == len(self._subtasks) else None

    def is_late(self, now: int) -> bool:
        """Whether the checkpoint under way has taken too long."""
        return self.epoch is not None and now - self.began > self._settings.timeout

    @property
    def missing(self) -> list[Any]:
        """Who has not acknowledged yet."""
        return sorted(self._subtasks - self._acknowledged.keys())

    def over(self, now: int) -> None:
        """The checkpoint under way is complete, or has failed."""
        self.epoch = None
        settings = self._settings
        if settings.interval is None:
            return
        pause = min(now - self.began, _LONGEST_PAUSE) if settings.min_pause is None else settings.min_pause
        self._next = max(self.began + settings.interval, now + pause)
