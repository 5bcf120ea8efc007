"""TestStream: an unbounded source with scripted elements, watermarks and times."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Self, overload

from ..sdk import graph
from ..sdk.elements.bundle import GLOBAL_WINDOWS, Bundle
from ..sdk.elements.element_wrappers import WindowedValue, unwrapped
from ..sdk.errors import PenstockError
from ..sdk.ptransform import PTransform
from ..sdk.pvalue import PBegin, PCollection
from ..sdk.sources import scripted_source
from ..sdk.sources.scripted_source import (
    ClockMoves,
    ElementsArrive,
    PercentileMoves,
    Script,
    SignalArrives,
    WatermarkMoves,
)
from ..sdk.type_variables import OutputT
from ..sdk.windowing_strategy import DEFAULT_WINDOWING
from ..windowing import MAX_TIMESTAMP, TimestampedValue
from ..windowing.duration import micros_of_span
from ..windowing.timestamp import MAX_MICROS, MIN_MICROS, Timestamp
from .stream_events import ElementEvent, Event, ProcessingTimeEvent, WatermarkEvent, WindowedValueHolder

if TYPE_CHECKING:
    from typing import TypeVar

    from typing_extensions import TypeForm

    T = TypeVar("T")


class TestStreamError(PenstockError, ValueError, AssertionError):
    """An event of a `TestStream` goes back in time, or an element has the end of time."""

    # Keep pytest from collecting it as a test.
    __test__ = False


class TestStream(PTransform[PBegin, OutputT]):
    """A script of elements, watermarks and processing times.

    Returns a `PCollection[T]` for elements of type T; with tags, a dict of them.

    All work that an event makes due is complete before the next event.  The clock starts at zero, and only
    `advance_processing_time` advances it.

    Args:
      coder: Beam's; accepted.  Elements aren't encoded.
      events: the initial script: `ElementEvent`s, `WatermarkEvent`s and `ProcessingTimeEvent`s, or those of another
        TestStream.
      output_tags: names of outputs, each with its own watermark, besides those of the events.  With any name the output
        of the transform is a dictionary of PCollections, where events without a tag belong to None.

    >>> import penstock as beam
    >>> from penstock.testing import TestPipeline, TestStream, assert_that, equal_to
    >>> with TestPipeline() as p:
    ...     stream = (
    ...         TestStream()
    ...         .add_elements([beam.window.TimestampedValue(("a", 1), 5)])
    ...         .advance_watermark_to(10)
    ...         .add_elements([beam.window.TimestampedValue(("a", 2), 15)])
    ...         .advance_watermark_to_infinity()
    ...     )
    ...     sums = p | stream | beam.WindowInto(beam.window.FixedWindows(10)) | beam.CombinePerKey(sum)
    ...     assert_that(sums, equal_to([("a", 1), ("a", 2)]))
    """

    # Keep pytest from collecting it as a test.
    __test__ = False

    def __init__(
        self,
        coder: Any = None,
        events: Iterable[Event | scripted_source.Event] | None = None,
        output_tags: Iterable[str] | None = None,
        endpoint: str | None = None,
    ) -> None:
        super().__init__()
        if endpoint is not None:
            raise ValueError("TestStream: an endpoint to read events from isn't supported; add them to the stream")
        self.events: list[scripted_source.Event] = []
        self._declared = list(output_tags or [])
        self._watermarks: dict[str | None, int] = {}
        for event in events or ():
            self._add(event)

    def _add(self, event: Event | scripted_source.Event) -> None:
        if isinstance(event, ElementEvent):
            self.add_elements(event.timestamped_values, event.tag)
        elif isinstance(event, WatermarkEvent):
            self.advance_watermark_to(event.new_watermark, event.tag)
        elif isinstance(event, ProcessingTimeEvent):
            self.advance_processing_time(event.advance_by)
        elif isinstance(event, scripted_source.Event):
            self.events.append(event)
            if isinstance(event, WatermarkMoves):
                self._watermarks[event.tag] = event.micros
        else:
            raise TypeError(f"TestStream: expected an event, such as WatermarkEvent(10), got {event!r}")

    if TYPE_CHECKING:

        def with_output_types(self, hint: TypeForm[T], **tagged: Any) -> TestStream[PCollection[T]]: ...  # type: ignore[override]

    @overload
    def add_elements(
        self, elements: Iterable[TimestampedValue[T]], tag: None = None, event_timestamp: Any = None
    ) -> TestStream[PCollection[T]]: ...
    @overload
    def add_elements(
        self, elements: Iterable[T], tag: None = None, event_timestamp: Any = None
    ) -> TestStream[PCollection[T]]: ...
    @overload
    def add_elements(
        self, elements: Iterable[Any], tag: str | None, event_timestamp: Any = None
    ) -> TestStream[Any]: ...
    def add_elements(
        self, elements: Iterable[Any], tag: str | None = None, event_timestamp: Any = None
    ) -> TestStream[Any]:
        """Add the arrival of elements as one bundle.

        `TimestampedValue`s and `WindowedValue`s have their own event times.  Other elements have `event_timestamp`, or
        else the watermark.  The windows of a `WindowedValue` count only in a `WindowedValueHolder`.
        """
        default = self._watermarks.get(tag, MIN_MICROS)
        if event_timestamp is not None:
            default = Timestamp.of(event_timestamp).micros
        if isinstance(elements, (str, bytes, TimestampedValue, WindowedValue)):
            raise TypeError(f"TestStream.add_elements: expected a list of elements, got {elements!r}")
        rows = [unwrapped(_arriving(element), default) for element in elements]
        for value, micros, *_ in rows:
            if micros >= MAX_MICROS:
                raise TestStreamError(
                    f"TestStream.add_elements: expected a time before MAX_TIMESTAMP, got that for {value!r}"
                )
        columns = [list(column) for column in zip(*rows, strict=True)] if rows else [[], [], [], []]
        self.events.append(ElementsArrive(tag, Bundle(*columns).unshared()))
        return self

    def advance_watermark_to(self, new_watermark: Any, tag: str | None = None) -> Self:
        """Advance the watermark, which can't go back."""
        micros = Timestamp.of(new_watermark).micros
        current = self._watermarks.get(tag, MIN_MICROS)
        if micros < current:
            raise TestStreamError(
                f"TestStream.advance_watermark_to: the watermark is at {Timestamp.of_micros(current)} "
                f"and can't go back to {Timestamp.of_micros(micros)}"
            )
        self._watermarks[tag] = micros
        self.events.append(WatermarkMoves(tag, micros))
        return self

    def advance_watermark_to_infinity(self, tag: str | None = None) -> Self:
        """Complete the input."""
        return self.advance_watermark_to(MAX_TIMESTAMP, tag)

    def advance_percentile_watermark_to(self, percentile: float, watermark: Any, tag: str | None = None) -> Self:
        """Advance the watermark for a share of the elements, above 0 and up to 1.

        `AfterWatermarkPercentile` of the same share fires by it.
        """
        if not 0 < percentile <= 1:
            hint = f"; did you mean {percentile / 100}?" if 1 < percentile <= 100 else ""
            raise ValueError(
                "TestStream.advance_percentile_watermark_to: expected a share of the elements between 0 and 1, "
                f"got {percentile!r}{hint}"
            )
        self.events.append(PercentileMoves(tag, percentile, Timestamp.of(watermark).micros))
        return self

    def advance_processing_time(self, advance_by: Any) -> Self:
        """Advance the clock by a number of seconds."""
        micros = micros_of_span(advance_by)
        if micros < 0:
            raise TestStreamError(f"TestStream.advance_processing_time: the clock can't go back, got {advance_by!r}")
        self.events.append(ClockMoves(micros))
        return self

    def signal(self, name: str) -> Self:
        """Send a signal to the pipeline: see `AfterSignal`."""
        self.events.append(SignalArrives(name))
        return self

    @property
    def output_tags(self) -> list[str | None]:
        """The tags of the outputs: those declared, and those of events; None is the tag of events without one."""
        tagged = (ElementsArrive, WatermarkMoves, PercentileMoves)
        used = [event.tag for event in self.events if isinstance(event, tagged)]
        return list(dict.fromkeys([*self._declared, *used])) or [None]

    # A PCollection, or with tags a dictionary of several.
    def expand(self, pbegin: PBegin) -> Any:
        tags = tuple(self.output_tags)
        hint = self._output_hint if self._output_hint is not None else Any
        script = Script(tuple(self.events), tags)
        outputs = pbegin.pipeline.add(graph.Read(script), [], DEFAULT_WINDOWING, hint, tags, is_bounded=False)
        return outputs[None] if tags == (None,) else outputs


def _arriving(element: Any) -> Any:
    """Return what a `WindowedValueHolder` holds; other elements arrive in the global window, as in Beam."""
    value = element.value if isinstance(element, TimestampedValue) else element
    if isinstance(value, WindowedValueHolder):
        held: WindowedValue = value.windowed_value
        return WindowedValue(held.value, held.timestamp, held.windows or GLOBAL_WINDOWS, held.pane_info)
    return TimestampedValue(element.value, element.timestamp) if isinstance(element, WindowedValue) else element
