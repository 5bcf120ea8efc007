"""Plays a transcript to the window operator alone."""

from __future__ import annotations

from typing import Any

from transcripts.runner import Element, Pane, Transcript

from penstock.runners.execution.windows.combining import Fold
from penstock.runners.execution.windows.triggered_operator import TriggeredWindows
from penstock.sdk import graph
from penstock.sdk.combine_fn import CombineFn
from penstock.sdk.elements.bundle import Bundle
from penstock.sdk.user_code.serialization import Serialized
from penstock.windowing import GLOBAL_WINDOW


class OperatorPlayer:
    """The window operator, with nothing around it."""

    def __init__(self, transcript: Transcript) -> None:
        combine = transcript.combine_fn
        if combine is not None:
            combine = Serialized(CombineFn.maybe_from_callable(combine), "Transcript")
        self.windowing = transcript.windowing
        primitive = graph.GroupByKeyAndWindow(self.windowing, combine)
        self.operator = TriggeredWindows(Fold(graph.Transform("Transcript", primitive, (), {})))

    @property
    def dropped(self) -> int:
        return self.operator.dropped

    def elements(self, elements: list[Element]) -> list[Pane]:
        values = [(element.key, element.value) for element in elements]
        times = [element.timestamp for element in elements]
        self.operator.process(Bundle(values, times, [self.windowing.window_fn.assign_micros(time) for time in times]))
        return self.taken()

    def watermark(self, micros: int) -> list[Pane]:
        self.operator.advance_watermark(micros)
        return self.taken()

    def processing_time(self, micros: int) -> list[Pane]:
        self.operator.advance_processing_time(micros)
        return self.taken()

    def percentile(self, share: float, micros: int) -> list[Pane]:
        self.operator.advance_percentile(share, micros)
        return self.taken()

    def signal(self, name: str) -> list[Pane]:
        self.operator.signal(name)
        return self.taken()

    def taken(self) -> list[Pane]:
        bundle = self.operator.taken()
        return [] if bundle is None else [_pane(*row) for row in bundle.rows()]


def _pane(pair: Any, timestamp: int, windows: Any, info: Any, sign: int) -> Pane:
    (key, value), (window,) = pair, windows
    interval = None if window == GLOBAL_WINDOW else (window.start_micros, window.end_micros)
    return Pane(key, value, interval, timestamp, info, sign)
