"""How a job is getting on, for people and machines to look at while it runs; and what it counts.

What a failed attempt has counted after its last checkpoint doesn't count: it is done, and counted, again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import attrs

from ...execution.checkpoints.manifest import Checkpoint
from ..subtask.tally import Tally, sum_of
from ..workers.protocol import Counted

# The shares of backpressure are of so many looks, of which there are four a second.
_LOOKS = 20

# Of so many checkpoints it is remembered what had been counted.
_REMEMBERED = 100


@attrs.frozen
class Vitals:
    """A job at one moment; times in microseconds.

    Attributes:
      now, started: moments, of processing time.
      committed: what was reported and counted before the last checkpoint.
      attempted: the same up to now.
      watermarks: by the step that puts it out.
      backpressure: by task, the share of the last seconds in which it had to wait for those behind it.
      backlog: about how many elements wait to be read, as far as that is known.
      checkpoints, failed_checkpoints: how many there were.
      epoch: that of the last checkpoint; None if there was none yet.
      checkpoint_at, checkpoint_duration, checkpoint_size: of the last one; its size in bytes.
      restarts: how often it has started again.
      failure: why, the last time.
    """

    now: int
    started: int
    committed: Tally
    attempted: Tally
    watermarks: Mapping[str, int]
    backpressure: Mapping[str, float]
    backlog: int | None
    checkpoints: int
    failed_checkpoints: int
    epoch: int | None
    checkpoint_at: int | None
    checkpoint_duration: int | None
    checkpoint_size: int | None
    restarts: int
    failure: str | None


class Observations:
    """Keeps what `Vitals` are made of.  One thread tells it; what `vitals` gives may be read by any.

    Args:
      tasks: their labels.
      now: the moment, in microseconds.
    """

    def __init__(self, tasks: Iterable[str], now: int) -> None:
        self._held_up = {label: deque[bool](maxlen=_LOOKS) for label in tasks}
        self._base = Tally()
        # By epoch.
        self._tallies: dict[int, Tally] = {}
        self.vitals = Vitals(
            now=now,
            started=now,
            committed=Tally(),
            attempted=Tally(),
            watermarks={},
            backpressure={},
            backlog=None,
            checkpoints=0,
            failed_checkpoints=0,
            epoch=None,
            checkpoint_at=None,
            checkpoint_duration=None,
            checkpoint_size=None,
            restarts=0,
            failure=None,
        )

    def _change(self, **changes: Any) -> None:
        self.vitals = attrs.evolve(self.vitals, **changes)

    def restored(self, epoch: int | None) -> None:
        """An attempt begins where this checkpoint was; None for the beginning."""
        self._base = Tally() if epoch is None else self._tallies.get(epoch, Tally())
        # Epochs are given again.
        self._tallies = {known: tally for known, tally in self._tallies.items() if epoch is not None and known <= epoch}
        self._change(committed=self._base, attempted=self._base)
        for looks in self._held_up.values():
            looks.clear()

    def restarted(self, failure: str) -> None:
        """The job starts again."""
        self._change(restarts=self.vitals.restarts + 1, failure=failure)

    def looked(self, now: int, slots: Sequence[Counted]) -> None:
        """So the slots are getting on."""
        watermarks: dict[str, int] = {}
        for slot in slots:
            for label, micros in slot.watermarks.items():
                watermarks[label] = min(micros, watermarks.get(label, micros))
        held_up = {label for slot in slots for label in slot.held_up}
        for label, looks in self._held_up.items():
            looks.append(label in held_up)
        known = [slot.backlog for slot in slots if slot.backlog is not None]
        self._change(
            now=now,
            attempted=_later(sum_of([self._base, *(slot.tally for slot in slots)]), self.vitals.committed),
            watermarks=watermarks,
            backpressure={label: sum(looks) / len(looks) for label, looks in self._held_up.items()},
            backlog=sum(known) if known else None,
        )

    def checkpointed(
        self, now: int, epoch: int, duration: int, checkpoint: Checkpoint | None, tallies: Iterable[Tally]
    ) -> None:
        """A checkpoint is complete, which took `duration`, and before which so much had been counted."""
        tally = self._tallies[epoch] = sum_of([self._base, *tallies])
        for old in sorted(self._tallies)[:-_REMEMBERED]:
            del self._tallies[old]
        size = None if checkpoint is None else sum(file.length for file in checkpoint.files())
        self._change(
            now=now,
            committed=tally,
            attempted=_later(self.vitals.attempted, tally),
            checkpoints=self.vitals.checkpoints + 1,
            epoch=epoch,
            checkpoint_at=now,
            checkpoint_duration=duration,
            checkpoint_size=size,
        )

    def checkpoint_failed(self) -> None:
        """A checkpoint has failed."""
        self._change(failed_checkpoints=self.vitals.failed_checkpoints + 1)

    def ended(self, now: int, tallies: Iterable[Tally]) -> None:
        """All is done, and this is what the last attempt has counted."""
        total = sum_of([self._base, *tallies])
        self._change(now=now, committed=total, attempted=total)


def _later(attempted: Tally, committed: Tally) -> Tally:
    """What was attempted, unless that was heard before the checkpoint: news of the two come apart."""
    steps = attempted.counts.steps
    is_behind = any(
        label not in steps or count.read > steps[label].read for label, count in committed.counts.steps.items()
    )
    return committed if is_behind else attempted
