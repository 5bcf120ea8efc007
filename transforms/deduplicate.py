"""Deduplicate: each element once within a span of time.

`Distinct` waits for the end of a window.  `Deduplicate` emits an element on arrival, and forgets it after a while.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, TypeVar

from ..sdk import typehints
from ..sdk.dofn.dofn import DoFn
from ..sdk.elements.element_wrappers import Retracted
from ..sdk.ptransform import PTransform
from ..sdk.pvalue import PCollection
from ..sdk.userstate import ReadModifyWriteStateSpec, TimeDomain, TimerSpec, on_timer
from ..windowing.duration import DurationTypes, micros_of_span
from .group_by_key import pair_types
from .par_do.map_and_filter import Map
from .par_do.pardo import ParDo

if TYPE_CHECKING:
    from ..sdk.static_results import Keeps, KeepsPairs

    K = TypeVar("K")
    T = TypeVar("T")
    V = TypeVar("V")


class DeduplicatePerKey(PTransform):
    """The first (key, value) pair of each key and window.

    Returns a `PCollection[tuple[K, V]]`, as its input is.

    Args:
      processing_time_duration: seconds of processing time after which a key is forgotten.
      event_time_duration: seconds of event time, from the timestamp of the first pair, after which a key is forgotten.
        With both given, a key is forgotten after the first of them.

    A pair is retracted once all equal pairs of the input are retracted.

    >>> import penstock as beam
    >>> [("a", 1), ("b", 2), ("a", 3)] | beam.DeduplicatePerKey(processing_time_duration=10)
    [('a', 1), ('b', 2)]
    """

    if TYPE_CHECKING:
        _declares: None  # type: ignore[assignment]
        __ror__: KeepsPairs  # type: ignore[assignment]

    def __init__(
        self,
        processing_time_duration: DurationTypes | None = None,
        event_time_duration: DurationTypes | None = None,
    ) -> None:
        super().__init__()
        if processing_time_duration is None and event_time_duration is None:
            raise ValueError(
                f"{type(self).__name__} requires at least one of processing_time_duration and event_time_duration"
            )
        for span in (processing_time_duration, event_time_duration):
            if span is not None:
                micros_of_span(span, type(self).__name__)
        self.processing_time_duration = processing_time_duration
        self.event_time_duration = event_time_duration

    def expand(self, pcoll: PCollection[tuple[K, V]]) -> PCollection[tuple[K, V]]:
        key, value = pair_types(pcoll)
        kind = _Counted if pcoll.retracted_by else _First
        first = kind(self.processing_time_duration, self.event_time_duration)
        return pcoll | "DeduplicateFn" >> ParDo(first).with_output_types(typehints.pair_of(key, value))


class Deduplicate(DeduplicatePerKey):
    """Elements, each once within a span of time, for each window; see `DeduplicatePerKey`.

    Returns a `PCollection[T]`, as its input is.

    >>> import penstock as beam
    >>> ["a", "b", "a"] | beam.Deduplicate(processing_time_duration=10)
    ['a', 'b']
    """

    if TYPE_CHECKING:
        _declares: None
        __ror__: Keeps  # type: ignore[assignment]

    def expand(self, pcoll: PCollection[T]) -> PCollection[T]:
        pairs = pcoll | "Use Value as Key" >> Map(lambda x: (x, None))
        once = pairs | "DeduplicatePerKey" >> DeduplicatePerKey(self.processing_time_duration, self.event_time_duration)
        return once | "Output Value" >> Map(lambda pair: pair[0]).with_output_types(pcoll.hint)


class _First(DoFn):
    """The first pair of a key."""

    SEEN = ReadModifyWriteStateSpec("seen")
    PROCESSING = TimerSpec("processing", TimeDomain.REAL_TIME)
    EVENT = TimerSpec("event", TimeDomain.WATERMARK)

    def __init__(self, processing_time: DurationTypes | None, event_time: DurationTypes | None) -> None:
        self.processing_time = processing_time
        self.event_time = event_time

    def process(
        self,
        element: Any,
        seen: Any = DoFn.StateParam(SEEN),
        processing: Any = DoFn.TimerParam(PROCESSING),
        event: Any = DoFn.TimerParam(EVENT),
    ) -> Iterator[Any]:
        if seen.read():
            return
        seen.write(True)
        self.remember(processing, event)
        yield element

    def remember(self, processing: Any, event: Any) -> None:
        """Set the timers that forget the key."""
        if self.processing_time is not None:
            processing.set_relative(self.processing_time)
        if self.event_time is not None:
            event.set_relative(self.event_time)

    @on_timer(PROCESSING)
    def after_processing_time(self, seen: Any = DoFn.StateParam(SEEN)) -> None:
        seen.clear()

    @on_timer(EVENT)
    def after_event_time(self, seen: Any = DoFn.StateParam(SEEN)) -> None:
        seen.clear()


class _Counted(_First):
    """The first pair of a key, with retractions: the state has the emitted pair, and the number of equal pairs."""

    def process(  # type: ignore[override]
        self,
        element: Any,
        sign: int = DoFn.SignParam,
        seen: Any = DoFn.StateParam(_First.SEEN),
        processing: Any = DoFn.TimerParam(_First.PROCESSING),
        event: Any = DoFn.TimerParam(_First.EVENT),
    ) -> Iterator[Any]:
        # For a forgotten key, the emitted pair is retracted.
        first, count = seen.read() or (element, 0 if sign > 0 else 1)
        if count + sign == 0:
            seen.clear()
            processing.clear()
            event.clear()
            yield Retracted(first)
            return
        seen.write((first, count + sign))
        if count == 0:
            self.remember(processing, event)
            yield element
