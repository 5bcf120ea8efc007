"""A stateful ParDo on its own, its clocks in a test's hand, and DoFns that several tests give it."""

from __future__ import annotations

from typing import Any

import penstock as beam
from penstock.runners.execution.state.stateful_pardo import StatefulExecutor
from penstock.sdk import graph
from penstock.sdk.elements.bundle import Bundle
from penstock.sdk.userstate import BagStateSpec, CombiningValueStateSpec, TimerSpec, on_timer, on_window_expiration
from penstock.testing import TestPipeline
from penstock.triggers import PANE_INFO_UNKNOWN, PaneInfo
from penstock.windowing import GLOBAL_WINDOW, TimestampedValue

WATERMARK, REAL_TIME = beam.TimeDomain.WATERMARK, beam.TimeDomain.REAL_TIME
S = 1_000_000


class Work:
    """An executor, and what has come out of it."""

    def __init__(
        self,
        dofn: beam.DoFn,
        window_fn: Any = None,
        lateness: int = 0,
        tags: tuple[str, ...] = (),
        tracking: bool = False,
    ) -> None:
        pcoll = TestPipeline() | beam.Create([("a", 1)])
        if window_fn is not None:
            pcoll = pcoll | beam.WindowInto(window_fn, allowed_lateness=lateness)
        self.window_fn = window_fn
        applied = beam.ParDo(dofn)
        # The tag "" stands for any.
        pcoll | "Apply" >> (applied.with_outputs(*filter(None, tags)) if tags else applied)
        self.transform = pcoll.pipeline.graph().transforms[-1]
        self.rows: list[Any] = []
        self.bundles: list[tuple[graph.Tag, Bundle]] = []
        self.executor = StatefulExecutor(self.transform, self.emit, tracking=tracking)

    def emit(self, tag: graph.Tag, bundle: Bundle) -> None:
        self.bundles.append((tag, bundle))
        self.rows.extend(bundle.rows())

    def process(self, *elements: Any, sign: int = 1, pane: PaneInfo = PANE_INFO_UNKNOWN) -> Work:
        """Elements in one bundle; `TimestampedValue`s, or plain ones at time 0."""
        stamped = [e if isinstance(e, TimestampedValue) else TimestampedValue(e, 0) for e in elements]
        micros = [e.micros for e in stamped]
        windows = [(GLOBAL_WINDOW,) if self.window_fn is None else self.window_fn.assign_micros(m) for m in micros]
        self.executor.process(Bundle([e.value for e in stamped], micros, windows, pane, sign))
        return self

    def watermark(self, seconds: float) -> Work:
        self.executor.advance_watermark(round(seconds * S))
        return self

    def clock(self, seconds: float) -> Work:
        self.executor.advance_processing_time(round(seconds * S))
        return self

    def taken(self) -> list[Any]:
        """The values that have come out since the last time."""
        rows, self.rows = self.rows, []
        return [row[0] for row in rows]

    def taken_at(self) -> list[Any]:
        """The values with their timestamps in seconds."""
        rows, self.rows = self.rows, []
        return [(value, micros / S) for value, micros, *_ in rows]


def at(value: Any, seconds: float) -> TimestampedValue:
    return TimestampedValue(value, seconds)


class Index(beam.DoFn):
    """Numbers the elements of a key."""

    INDEX = CombiningValueStateSpec("index", sum)

    def process(self, element: Any, index: Any = beam.DoFn.StateParam(INDEX), key: Any = beam.DoFn.KeyParam) -> Any:
        yield key, element[1], index.read()
        index.add(1)


class Alarm(beam.DoFn):
    """Sets a timer to the element's value, and says when it fired."""

    TIMER = TimerSpec("timer", WATERMARK)

    def process(self, element: Any, timer: Any = beam.DoFn.TimerParam(TIMER)) -> None:
        timer.set(element[1])

    @on_timer(TIMER)
    def fired(self, key: Any = beam.DoFn.KeyParam, time: Any = beam.DoFn.TimestampParam) -> Any:
        yield key, float(time)


class Delayed(beam.DoFn):
    """Sets a timer so many seconds from now, in both domains."""

    CLOCK = TimerSpec("clock", REAL_TIME)
    EVENT = TimerSpec("event", WATERMARK)

    def process(
        self, element: Any, clock: Any = beam.DoFn.TimerParam(CLOCK), event: Any = beam.DoFn.TimerParam(EVENT)
    ) -> None:
        clock.set_relative(element[1])
        event.set_relative(element[1])

    @on_timer(CLOCK)
    def on_clock(self, key: Any = beam.DoFn.KeyParam, time: Any = beam.DoFn.TimestampParam) -> Any:
        yield "clock", key, int(time)

    @on_timer(EVENT)
    def on_event(self, key: Any = beam.DoFn.KeyParam, time: Any = beam.DoFn.TimestampParam) -> Any:
        yield "event", key, int(time)


class Collect(beam.DoFn):
    """Keeps values until the window is over."""

    VALUES = BagStateSpec("values")
    CLOCK = TimerSpec("clock", REAL_TIME)

    def process(
        self,
        element: Any,
        values: Any = beam.DoFn.StateParam(VALUES),
        clock: Any = beam.DoFn.TimerParam(CLOCK),
    ) -> None:
        if element[1] is not None:
            values.add(element[1])
        clock.set(500)

    @on_timer(CLOCK)
    def on_clock(self, key: Any = beam.DoFn.KeyParam) -> Any:
        yield "clock", key

    @on_window_expiration
    def at_last(
        self,
        key: Any = beam.DoFn.KeyParam,
        values: Any = beam.DoFn.StateParam(VALUES),
        window: Any = beam.DoFn.WindowParam,
        time: Any = beam.DoFn.TimestampParam,
    ) -> Any:
        yield key, values.read(), window, time
