"""Output sampler: counts and samples the outputs of the steps of a subtask, and draws panes, while a page shows it."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

from ....sdk.elements.bundle import Bundle
from ....windowing import IntervalWindow
from ....windowing.timestamp import MIN_MICROS
from ....windowing.windows import end_of_window
from ..clock import Clock
from ..operators.edge_sampler import EdgeSampler
from ..operators.traffic import WorkerTraffic
from ..plan.fusion import Grouping, Keyed
from ..user_errors import shortened
from ..windows.combining import FoldedBundle
from .task_program import TaskProgram

# Panes and inputs of one report.
_MOST = 500


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


class OutputSampler(EdgeSampler):
    """Counts and samples of the outputs of the steps of one subtask.

    Args:
      step, key: the label of the grouping whose panes are drawn, and the text of the key; None for none, and for all
        keys.

    Attributes:
      execution: the execution of the subtask's task.
      panes, inputs: of the step and key that are drawn.
    """

    def __init__(
        self, execution: TaskProgram, clock: Clock, step: str | None, key: str | None, traffic: WorkerTraffic
    ) -> None:
        produced = execution.produced
        super().__init__(execution.dataflow, execution.plan, produced, clock, traffic, {})
        self.execution = execution
        self._key = key
        self.panes: list[DrawnPane] = []
        self.inputs: list[DrawnInput] = []
        for drawn in execution.plan.steps:
            if isinstance(drawn, (Grouping, Keyed)) and drawn.transform.label == step:
                (source, *_), output = drawn.transform.inputs, drawn.transform.outputs.get(None)
                if source in produced:
                    self._listen(source, self._draw_inputs)
                if isinstance(drawn, Grouping) and output in produced:
                    self._listen(output, partial(self._draw_panes, drawn.transform.label))

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
