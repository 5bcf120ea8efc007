"""Backlog: the elements that wait for each step of a subtask, while a page shows them.

They wait in the channels of its inputs, with their senders while a pipe is full, as pending work, for side inputs, for
the end of an asynchronous call, and as feedback of a loop.  A source tells how many elements
it has yet to read.  Elements in another process's encoding are counted by the size of one in a sample.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import Any

from ....sdk.elements.bundle import Bundle
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


class _Waiting:
    """What waits at one place, in all subtasks of a slot.

    Attributes:
      elements: of bundles, of which `bundle` is one.
      encoded: bytes of encoded bundles, of which `block` is one.
      uncounted: further bytes, of an unknown number of elements.
    """

    __slots__ = ("block", "bundle", "elements", "encoded", "uncounted")

    def __init__(self) -> None:
        self.elements = self.encoded = self.uncounted = 0
        self.bundle: Bundle | None = None
        self.block: Any = None

    def add(self, bundles: Iterable[Bundle]) -> None:
        for bundle in bundles:
            if n := len(bundle):
                self.elements += n
                self.bundle = bundle

    def add_channel(self, channel: Channel, unread: int) -> None:
        for message in channel.queue:
            if type(message) is Elements:
                self.add((message.bundle,))
            elif type(message) is Encoded:
                self.encoded += len(message.block)
                self.block = message.block
        self.uncounted += unread


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
        # A job has thousands of channels: what is in them is summed up before it gets its label and its size.
        edges: defaultdict[Edge, _Waiting] = defaultdict(_Waiting)
        labels: defaultdict[str, _Waiting] = defaultdict(_Waiting)
        for subtask in subtasks:
            for label, elements in _to_read(subtask):
                found[label] = found.get(label, StepBacklog()).plus(StepBacklog(elements, None))
            _add_edges(subtask, edges)
            _add_pending(subtask, labels)
        of_edges = ((self._receiver(edge), edge.id, waiting) for edge, waiting in edges.items())
        of_labels = ((label, label, waiting) for label, waiting in labels.items())
        for label, where, waiting in chain(of_edges, of_labels):
            found[label] = found.get(label, StepBacklog()).plus(self._of(where, waiting))
        return found

    def _of(self, where: Any, waiting: _Waiting) -> StepBacklog:
        elements, size = waiting.elements, 0
        if (bundle := waiting.bundle) is not None:
            size = round(elements * self._size((where, False), lambda: size_of_bundle(bundle)))
        if (block := waiting.block) is not None:
            each = self._size((where, True), lambda: len(block) / max(1, len(decode_bundle(block))))
            elements += round(waiting.encoded / each)
            size += waiting.encoded
        return StepBacklog(elements, size, waiting.uncounted)

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


def _to_read(subtask: Subtask) -> Iterator[tuple[str, int]]:
    for reader in subtask.readers:
        backlog = reader.backlog()
        if backlog is not None:
            yield reader.label, backlog


def _add_edges(subtask: Subtask, waiting: defaultdict[Edge, _Waiting]) -> None:
    edges = {edge.id: edge for edge in subtask.task.inputs}
    for id, channel in subtask.inputs.items():
        unread = channel.unread
        if unread or channel.queue:
            waiting[edges[id.edge]].add_channel(channel, unread)
    for exchange in subtask.exchanges:
        bundles, unsent = exchange.overflowed()
        unsent += sum([channel.unsent for channel in exchange.channels if isinstance(channel, SendingEnd)])
        if unsent or bundles:
            own = waiting[exchange.edge]
            own.add(bundles)
            own.uncounted += unsent


def _add_pending(subtask: Subtask, waiting: defaultdict[str, _Waiting]) -> None:
    for step, run in subtask.execution.stages():
        bundles = [bundle for _, bundle in run.pending_elements()] + run.kept()
        if bundles:
            waiting[label_of(step)].add(bundles)
    for label, loop in subtask.execution.loops.within.items():
        if loop.waiting:
            waiting[label].add(loop.waiting)


def _side_inputs(step: Stage | Keyed) -> list[int]:
    return [side_input.pcollection for side_input in step.side_inputs]
