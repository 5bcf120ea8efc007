"""The checkpoint coordinator: when a checkpoint begins, which subtasks have acknowledged it, and when it has failed.

It only decides; the attempt injects the barriers and writes the manifest.
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

from ....frozen import frozen

# The longest default pause, in microseconds.
_LONGEST_PAUSE = 1_000_000


@frozen
class CheckpointSettings:
    """When checkpoints are taken; times in microseconds.

    Attributes:
      interval: between the beginnings of two checkpoints; None for no checkpoints.
      timeout: after which a checkpoint fails.
      alignment_timeout: after which an aligned checkpoint changes over to unaligned; None for never.
      min_pause: between the end of a checkpoint and the beginning of the next, at least; None for the duration of the
        last one, up to a second, so that a short interval leaves time for processing.
    """

    interval: int | None = None
    timeout: int = 600_000_000
    min_pause: int | None = None
    alignment_timeout: int | None = None


class CheckpointCoordinator:
    """The checkpoint in progress; there is at most one.

    Args:
      subtasks: the subtasks that acknowledge each checkpoint.

    Attributes:
      epoch: the epoch of the checkpoint in progress, or None.
      began: when the last checkpoint began.
      has_changed_over: whether the checkpoint in progress has changed over to unaligned.
    """

    def __init__(self, subtasks: Collection[Hashable], settings: CheckpointSettings, now: int) -> None:
        self._subtasks = frozenset(subtasks)
        self._settings = settings
        self._next = None if settings.interval is None else now + settings.interval
        self.began = 0
        self._acknowledged: dict[Hashable, Any] = {}
        self.epoch: int | None = None
        self.has_changed_over = False

    def is_due(self, now: int) -> bool:
        """Return whether a checkpoint is due."""
        return self.epoch is None and self._next is not None and now >= self._next

    def begin(self, epoch: int, now: int) -> None:
        """Begin a checkpoint."""
        assert self.epoch is None
        self.epoch, self.began, self._acknowledged = epoch, now, {}
        self.has_changed_over = False

    def acknowledge(self, subtask: Hashable, epoch: int, part: Any) -> dict[Any, Any] | None:
        """Record the part of a subtask.  Returns all parts if it was the last one, else None."""
        if epoch != self.epoch:
            return None
        assert subtask in self._subtasks
        self._acknowledged[subtask] = part
        return self._acknowledged if len(self._acknowledged) == len(self._subtasks) else None

    def is_late(self, now: int) -> bool:
        """Return whether the checkpoint in progress has timed out."""
        return self.epoch is not None and now - self.began > self._settings.timeout

    def changes_over(self, now: int) -> bool:
        """Return True, once, when the checkpoint in progress is to change over to unaligned."""
        timeout = self._settings.alignment_timeout
        if timeout is None or self.epoch is None or self.has_changed_over or now - self.began < timeout:
            return False
        self.has_changed_over = True
        return True

    @property
    def missing(self) -> list[Any]:
        """The subtasks that have not acknowledged the checkpoint in progress."""
        return sorted(self._subtasks - self._acknowledged.keys())

    def over(self, now: int) -> None:
        """End the checkpoint in progress: it is complete, or has failed."""
        self.epoch = None
        settings = self._settings
        if settings.interval is None:
            return
        pause = min(now - self.began, _LONGEST_PAUSE) if settings.min_pause is None else settings.min_pause
        self._next = max(self.began + settings.interval, now + pause)
