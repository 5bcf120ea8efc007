"""Notebooks: `StepByStep` plays a `TestStream` event by event, and draws the panes after each.

`beam.collect(pcoll)`, `p.show(pcoll)` and `pcoll.to_pandas()` need no import.  A PCollection, a pipeline and a
`StepByStep` as the last expression of a cell are displayed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ..sdk.drawing.panes import PaneRecording
from ..sdk.pipeline import Pipeline
from ..sdk.pvalue import PCollection
from ..sdk.runner import DEFAULT_RUNNER, create_runner
from ..testing import TestStream

__all__ = ["StepByStep"]


class StepByStep:
    """A `TestStream` that is played event by event, with a drawing of the panes so far.

    Each method adds an event, and returns the stream, which a notebook displays as a drawing.  The script is played
    again from its beginning for each drawing.

    Args:
      transform: applied to the stream; it has one grouping, or `step` names one.
      step: the full label of the grouping.
      key: the key whose panes are drawn, as text or JSON; None for the only one.

    >>> import penstock as beam
    >>> from penstock.ui.notebook import StepByStep
    >>> minutes = beam.WindowInto(beam.window.FixedWindows(60))
    >>> stream = StepByStep(minutes | beam.CombinePerKey(sum))
    >>> at = beam.window.TimestampedValue
    >>> stream.add_elements([at(("a", 1), 5), at(("a", 2), 20)]).panes
    []
    >>> stream.advance_watermark_to(60).panes
    ['+3 [0, 60) ON_TIME']
    """

    def __init__(
        self, transform: Callable[[PCollection[Any]], Any] | Any, step: str | None = None, key: str | None = None
    ) -> None:
        self.transform = transform
        self.step = step
        self.key = key
        self.stream = TestStream()

    def add_elements(self, elements: Iterable[Any]) -> StepByStep:
        """Add elements, which arrive now."""
        self.stream.add_elements(elements)
        return self

    def advance_watermark_to(self, time: Any) -> StepByStep:
        """Advance the watermark to an event time."""
        self.stream.advance_watermark_to(time)
        return self

    def advance_watermark_to_infinity(self) -> StepByStep:
        """Advance the watermark to the end of time: no more elements will arrive."""
        self.stream.advance_watermark_to_infinity()
        return self

    def advance_processing_time(self, seconds: Any) -> StepByStep:
        """Advance the clock."""
        self.stream.advance_processing_time(seconds)
        return self

    def signal(self, name: str) -> StepByStep:
        """Send a signal, for `AfterSignal`."""
        self.stream.signal(name)
        return self

    def recording(self) -> PaneRecording | None:
        """Return what the grouping has received and emitted so far; None before its first element."""
        from ..runners.execution.inspection.recordings import recording_of_key
        from ..sdk.metrics import MetricsContainer

        if not self.stream.events:
            return None
        p = Pipeline("local")
        # One event more, so that the end of the script is not part of the recording.
        pcoll = p | TestStream(events=list(self.stream.events)).signal("end of the steps so far")
        _ = pcoll | self.transform if hasattr(self.transform, "expand") else self.transform(pcoll)
        found = create_runner(DEFAULT_RUNNER).recordings(
            p.graph(), p.options, self.step, MetricsContainer(), len(self.stream.events)
        )
        return recording_of_key(found, self.key) if found else None

    @property
    def panes(self) -> list[str]:
        """The panes so far, as text."""
        recording = self.recording()
        return [_text_of(pane) for pane in recording.panes] if recording is not None else []

    def _repr_html_(self) -> str:
        from ..sdk.drawing.figure import figure_of
        from ..sdk.drawing.render import to_svg

        recording = self.recording()
        return "<p>no element has arrived</p>" if recording is None else to_svg(figure_of(recording))


def _text_of(pane: Any) -> str:
    window = "global"
    if pane.window is not None:
        window = f"[{pane.window.start / 1e6:g}, {pane.window.end / 1e6:g})"
    return f"{'+' if pane.sign > 0 else '-'}{pane.value!r} {window} {pane.timing}"
