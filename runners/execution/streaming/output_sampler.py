"""Output sampler: counts and samples the outputs of the steps of a task while a page shows it.

A listener receives each bundle of a PCollection before its consumers do.  Without a page no listener is added, and
nothing is spent.  Sizes and keys are of samples, whose number is limited by elements and by time,
however small the bundles are.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from ....sdk import graph
from ....sdk.elements.bundle import Bundle
from ....windowing import IntervalWindow
from ....windowing.timestamp import MIN_MICROS
from ....windowing.windows import end_of_window
from ..clock import Clock
from ..operators.traffic import DataflowTraffic, WorkerTraffic
from ..plan.fusion import Grouping, Keyed
from ..stages.traffic import MANY
from ..user_errors import shortened
from ..windows.combining import FoldedBundle
from .task_execution import TaskExecution

# After so many microseconds the key of an element is sampled, or after as many elements as its size is.
_KEYED = 1_000_000

# Of the first elements one of each bundle is sampled for its key, so that the keys of a slow stream are known soon.
_FIRST = 100

# The golden ratio, whose multiples fill an interval evenly.
_GOLDEN = 0.6180339887498949

# Keys in a sketch; panes and inputs of one report.
_KEYS, _MOST = 256, 500


class DrawnPane(NamedTuple):
    """A pane, or its retraction, of the step and key that are drawn; times in microseconds.

    Attributes:
      start: None for windows without a beginning, such as the global one.
      at: processing time.
      watermark: of the step's input, when the pane was emitted; None before the first.
    """

    key: str
    value: str
    start: int | None
    end: int
    timing: str
    number: int
    sign: int
    at: int
    watermark: int | None


class DrawnInput(NamedTuple):
    """An element of the step and key that are drawn: its event time and processing time, in microseconds."""

    key: str
    value: str
    timestamp: int
    at: int
    sign: int


class HotKeys:
    """Counts of the most frequent keys among samples, after the Space-Saving sketch of Metwally et al. (2005).

    When twice the keys are counted, the less frequent half is dropped at once.  A new key begins with the greatest
    count that was dropped, so that no count is too low.

    >>> keys = HotKeys(2)
    >>> for key in "aabacdbe":
    ...     keys.add(key)
    >>> keys.total, sorted(keys.counts.items())
    (8, [('a', 3), ('b', 2), ('e', 2)])
    """

    def __init__(self, size: int = _KEYS) -> None:
        self._size = size
        self._dropped = 0
        self.total = 0
        self.counts: dict[str, int] = {}

    def add(self, key: str, count: int = 1) -> None:
        """Count a key."""
        self.total += count
        counts = self.counts
        counts[key] = counts.get(key, self._dropped) + count
        if len(counts) >= 2 * self._size:
            ordered = sorted(counts.items(), key=lambda entry: -entry[1])
            self._dropped = max(self._dropped, ordered[self._size][1])
            self.counts = dict(ordered[: self._size])


class _KeySamples:
    """The samples of the keys of a PCollection.

    Args:
      keys: counts them.

    Attributes:
      passed, due_at: the elements since the last sample, and the time in microseconds at which the next one is due.
    """

    __slots__ = ("due_at", "keys", "passed")

    def __init__(self, keys: HotKeys) -> None:
        self.keys = keys
        self.passed = self.due_at = 0


class OutputSampler:
    """Counts and samples of the outputs of the steps of one subtask.

    Args:
      step, key: the label of the grouping whose panes are drawn, and the text of the key; None for none, and for all
        keys.
      traffic: where what passes the edges is counted, with that of the other subtasks of the worker.

    Attributes:
      execution: the execution of the subtask's task.
      keys: the most frequent keys of each step.
      panes, inputs: of the step and key that are drawn.
    """

    def __init__(
        self, execution: TaskExecution, clock: Clock, step: str | None, key: str | None, traffic: WorkerTraffic
    ) -> None:
        self.execution = execution
        self.traffic = traffic
        self._clock = clock
        self._step = step
        self._key = key
        self._attached: list[tuple[int, Callable[[Bundle], None]]] = []
        self._samples = 0
        self.keys: dict[str, HotKeys] = {}
        self.panes: list[DrawnPane] = []
        self.inputs: list[DrawnInput] = []
        self._attach()

    def _attach(self) -> None:
        execution = self.execution
        self._counting = DataflowTraffic(execution.dataflow, execution.produced, self._clock, self.traffic)
        plan = execution.plan
        keyed: dict[int, list[graph.Transform]] = {}
        for step in plan.steps:
            if isinstance(step, (Grouping, Keyed)):
                keyed.setdefault(step.transform.inputs[0], []).append(step.transform)
        for pcollection in execution.produced:
            for transform in keyed.get(pcollection, ()):
                sketch = self.keys.setdefault(transform.label, HotKeys())
                self._listen(pcollection, partial(self._take_keys, _KeySamples(sketch)))
                if transform.label == self._step:
                    self._listen(pcollection, self._draw_inputs)
        for step in execution.task.steps:
            if isinstance(step, Grouping) and step.transform.label == self._step:
                self._listen(step.transform.outputs[None], partial(self._draw_panes, step.transform.label))

    def _listen(self, pcollection: int, receive: Callable[[Bundle], None]) -> None:
        self.execution.dataflow.add_listener(pcollection, receive)
        self._attached.append((pcollection, receive))

    def detach(self) -> None:
        """Remove all listeners."""
        for pcollection, receive in self._attached:
            self.execution.dataflow.remove_listener(pcollection, receive)
        self._attached = []
        self._counting.detach()

    def _take_keys(self, samples: _KeySamples, bundle: Bundle) -> None:
        if isinstance(bundle, FoldedBundle):
            return
        # As `EdgeTraffic.count`, it calls next to nothing for most bundles.
        n, now = len(bundle), self._clock.now
        samples.passed += n
        if not n or (samples.passed < MANY and now < samples.due_at and samples.keys.total >= _FIRST):
            return
        # Spread over bundles of any size, and of the same size, too.
        self._samples += 1
        at = int(self._samples * _GOLDEN % 1.0 * n)
        for value in bundle.part(at, at + 1).values:
            # Elements that are no pairs are an error of the step itself.
            if isinstance(value, (tuple, list)) and len(value) == 2:
                samples.keys.add(shortened(value[0]), samples.passed)
        samples.passed, samples.due_at = 0, now + _KEYED

    def _draw_inputs(self, bundle: Bundle) -> None:
        if len(self.inputs) >= _MOST or isinstance(bundle, FoldedBundle):
            return
        now = self._clock.now
        for value, micros, _, _, sign in bundle.rows():
            if not isinstance(value, (tuple, list)) or len(value) != 2 or not self._is_drawn(value[0]):
                continue
            self.inputs.append(DrawnInput(shortened(value[0]), shortened(value[1]), micros, now, sign))
            if len(self.inputs) >= _MOST:
                return

    def _draw_panes(self, label: str, bundle: Bundle) -> None:
        if len(self.panes) >= _MOST:
            return
        now, watermark = self._clock.now, self.execution.groupings[label].windows.watermark
        for (key, value), _, windows, pane, sign in bundle.rows():
            if not self._is_drawn(key):
                continue
            (window, *_) = windows
            start, end = window[:2] if isinstance(window, IntervalWindow) else (None, end_of_window(window))
            self.panes.append(
                DrawnPane(
                    shortened(key),
                    shortened(value),
                    start,
                    end,
                    pane.timing.name,
                    pane.index,
                    sign,
                    now,
                    watermark if watermark > MIN_MICROS else None,
                )
            )
            if len(self.panes) >= _MOST:
                return

    def _is_drawn(self, key: Any) -> bool:
        return self._key is None or shortened(key) == self._key
