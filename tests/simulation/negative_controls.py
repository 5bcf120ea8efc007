"""Negative controls: components that are wrong on purpose, and slots and workers that use them.

Each leaves out one mechanism that exactly once rests on; the tests demand that results are wrong then.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

from penstock.runners.local.channels.channel import ChannelId, message_of
from penstock.runners.local.channels.messages import Elements
from penstock.runners.local.productions.production import Sent
from penstock.runners.local.productions.receiver import Receiver
from penstock.runners.local.productions.slot import ProductionSlot
from penstock.runners.local.simulation.workers import SimulatedWorkers
from penstock.runners.local.subtask.barriers import Alignment, MessageLog
from penstock.runners.local.subtask.replay_dedup import Repetitions
from penstock.runners.local.subtask.subtask import Subtask
from penstock.runners.local.workers.protocol import Envelope, FencedEndpoint
from penstock.runners.local.workers.slot import Slot
from penstock.sdk.elements.bundle import Bundle


class FirstBarrier(Alignment):
    """Treats the first barrier of a checkpoint as the barriers of all inputs, and blocks no input.

    >>> alignment = FirstBarrier(["left", "right"])
    >>> alignment.arrived("left"), alignment.blocked, alignment.arrived("right"), alignment.arrived("left")
    (True, set(), False, True)
    """

    def __init__(self, inputs: Sequence[Hashable]) -> None:
        super().__init__(inputs)
        self._rounds: dict[Hashable, int] = dict.fromkeys(inputs, 0)

    def arrived(self, channel: Hashable) -> bool:
        last = max(self._rounds.values())
        self._rounds[channel] += 1
        return self._rounds[channel] > last


class SubtaskWithoutAlignment(Subtask):
    """Takes its snapshot at the first barrier."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self.barriers.alignment = FirstBarrier([id for id in self.inputs if id not in self.barriers.back])


class EmptyLog(MessageLog):
    """Logs no re-injected records."""

    def taken(self, input: Hashable, message: Any) -> None:
        pass


class SubtaskWithoutFeedbackLog(Subtask):
    """Takes snapshots without the records that are in the loop."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        log = self.barriers.feedback_log = EmptyLog(self.barriers.back)
        self.barriers.logs.update(dict.fromkeys(self.barriers.back, log))


class KeptRepetitions(Repetitions):
    """Treats replayed records as new ones."""

    def new_elements(self, channel: ChannelId, message: Elements) -> Bundle | None:
        super().new_elements(channel, message)
        return message.bundle


class SubtaskWithoutReplayDedup(Subtask):
    """Processes replayed records again."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        if self.repetitions is not None:
            self.repetitions = KeptRepetitions()


class ReceiverWithDuplicates(Receiver):
    """Processes duplicate messages as new ones."""

    def _deliver(self, sent: Sent) -> None:
        self._seen.add(sent.number)
        self.arrive(message_of(sent.kind, sent.payload))
        self._numbers.append(sent.number)


class BelievesAll(FencedEndpoint):
    """Accepts all reports: duplicates, and those of other attempts."""

    def accepts(self, message: Envelope) -> bool:
        return True


class SlotWithoutAlignment(Slot):
    subtask_type = SubtaskWithoutAlignment


class SlotWithoutFeedbackLog(Slot):
    subtask_type = SubtaskWithoutFeedbackLog


class SlotWithoutReplayDedup(Slot):
    subtask_type = SubtaskWithoutReplayDedup


class SlotWithDuplicates(ProductionSlot):
    receiver_type = ReceiverWithDuplicates


class WorkersWithoutAlignment(SimulatedWorkers):
    make_slot = staticmethod(SlotWithoutAlignment)


class WorkersWithoutFeedbackLog(SimulatedWorkers):
    make_slot = staticmethod(SlotWithoutFeedbackLog)


class WorkersWithoutReplayDedup(SimulatedWorkers):
    make_slot = staticmethod(SlotWithoutReplayDedup)


class WorkersWithDuplicates(SimulatedWorkers):
    make_slot = staticmethod(SlotWithDuplicates)


class UnfencedWorkers(SimulatedWorkers):
    endpoint_type = BelievesAll


class EndlesslyAwaitedWorkers(SimulatedWorkers):
    timeout = 1 << 62
