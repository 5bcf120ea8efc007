"""Backlog: the elements that wait for each step of a subtask, while a page shows them.

They wait in the channels of its inputs, with their senders while a pipe is full, as left work at the end of a slice of
time, for side inputs, for the end of an asynchronous call, and as feedback of a loop.  A source tells how many elements
it has yet to read.  Elements in another process's encoding are counted by the size of one in a sample.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from ....sdk.elements.bundle import Bundle
from ...execution.operators.dataflow import StageRun
from ...execution.plan.execution_graph import Edge, Task, label_of
from ...execution.plan.fusion import Keyed, Stage
from ...execution.shuffle.blocks import decode_bundle
from ...execution.stages.traffic import size_of_bundle
from ...execution.streaming.observation import StepBacklog
from ..channels.channel import Channel, SendingEnd
from ..channels.messages import Elements, Encoded
from .subtask import Subtask

# Seconds after which the size of an element is sampled again.
_KNOWN = 10.0


class BacklogMeter:
    """Measures the backlogs of the subtasks of a slot; it remembers sizes of elements for a while.

    Args:
      tasks: all tasks of the job.
      clock: seconds, of any beginning.
    """

    def __init__(self, tasks: Sequence[Task], clock: Callable[[], float] = time.monotonic) -> None:
        self._tasks = tasks
        self._clock = clock
        # By the edge or the label, and whether it is encoded: until when the size is known, and the size.
        self._sizes: dict[tuple[Any, bool], tuple[float, float]] = {}

    def measure(self, subtasks: Iterable[Subtask]) -> dict[str, StepBacklog]:
        """Return what waits for each step, by label."""
        found: dict[str, StepBacklog] = {}
        for subtask in subtasks:
            for label, own in self._of(subtask):
                found[label] = found[label].plus(own) if label in found else own
        return found

    def _of(self, subtask: Subtask) -> Iterator[tuple[str, StepBacklog]]:
        for reader in subtask.readers:
            backlog = reader.backlog()
            if backlog is not None:
                yield reader.label, StepBacklog(backlog, None)
        edges = {edge.id: edge for edge in subtask.task.inputs}
        for id, channel in subtask.inputs.items():
            if channel.queue or channel.unread:
                yield self._receiver(edges[id.edge]), self._in_channel(id.edge, channel)
        for exchange in subtask.exchanges:
            bundles, unsent = exchange.overflowed()
            unsent += sum(channel.unsent for channel in exchange.channels if isinstance(channel, SendingEnd))
            if unsent or bundles:
                own = self._of_bundles(exchange.edge.id, bundles)
                yield self._receiver(exchange.edge), own._replace(uncounted=unsent)
        for step, run in subtask.execution.leaving:
            bundles = [bundle for _, bundle in run.left_work()]
            if isinstance(run, StageRun):
                bundles += run.kept()
            if bundles:
                yield label_of(step), self._of_bundles(label_of(step), bundles)
        for label, loop in subtask.execution.loops.within.items():
            if loop.waiting:
                yield label, self._of_bundles(label, list(loop.waiting))

    def _in_channel(self, edge: int, channel: Channel) -> StepBacklog:
        bundles = [message.bundle for message in channel.queue if type(message) is Elements]
        blocks = [message.block for message in channel.queue if type(message) is Encoded]
        backlog = self._of_bundles(edge, bundles)
        size = sum(map(len, blocks))
        if blocks:
            each = self._size((edge, True), lambda: len(blocks[0]) / max(1, len(decode_bundle(blocks[0]))))
            backlog = backlog.plus(StepBacklog(round(size / each), size))
        return backlog._replace(uncounted=channel.unread)

    def _of_bundles(self, where: Any, bundles: list[Bundle]) -> StepBacklog:
        elements = sum(map(len, bundles))
        if not elements:
            return StepBacklog(0, 0)
        sample = next(bundle for bundle in bundles if len(bundle))
        return StepBacklog(elements, round(elements * self._size((where, False), lambda: size_of_bundle(sample))))

    def _size(self, what: tuple[Any, bool], measure: Callable[[], float]) -> float:
        until, size = self._sizes.get(what, (0.0, 0.0))
        if self._clock() >= until:
            size = measure()
            self._sizes[what] = self._clock() + _KNOWN, size
        return size

    def _receiver(self, edge: Edge) -> str:
        """Return the label of the step that an edge leads to: for a side input, the first that has it."""
        if edge.step is not None:
            return label_of(edge.step)
        steps = self._tasks[edge.consumer].steps
        having = (step for step in steps if isinstance(step, (Stage, Keyed)) and edge.pcollection in _side_inputs(step))
        return label_of(next(having))


def _side_inputs(step: Stage | Keyed) -> list[int]:
    return [side_input.pcollection for side_input in step.side_inputs]
