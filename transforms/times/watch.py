"""Watch: new outputs of a function that is polled."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import attrs

from ...frozen import frozen
from ...persistence import stored_as
from ...sdk import graph
from ...sdk.coders.coded_key import coded
from ...sdk.coders.digest import digest_of
from ...sdk.elements.bundle import Bundle
from ...sdk.elements.element_wrappers import unwrapped
from ...sdk.errors import PipelineError, UnsupportedError
from ...sdk.ptransform import PTransform
from ...sdk.pvalue import PBegin, PCollection
from ...sdk.sources.bounded import ValuesSource
from ...sdk.sources.event_time_reader import EventTimeReader, EventTimes
from ...sdk.sources.unbounded import UnboundedReader, UnboundedSource
from ...sdk.user_code.serialization import Serialized
from ...sdk.watermark_estimators import ManualWatermarkEstimator
from ...windowing.duration import micros_of_span
from ...windowing.timestamp import MAX_TIMESTAMP, MIN_MICROS, Timestamp
from ..read import Read
from .poll_result import PollFn, PollResult, Termination, TerminationCondition, never


@stored_as("watched-growth", 1)
@frozen
class _Growth:
    """Offset of a reader: outputs that are not emitted yet, and all known outputs."""

    next_look: int | None = None
    quiet_since: int | None = None
    is_complete: bool = False
    watermark: int = MIN_MICROS
    pending: tuple[tuple[Any, int], ...] = ()
    seen: tuple[tuple[Hashable, Any, int], ...] = ()
    began: int | None = None
    # Of the termination condition; earlier versions stored the two times above.
    state: Any = None


class WatchedGrowth(UnboundedSource[Any]):
    """Source of polled outputs.  A partition is an element, and its values are pairs of the element and an output."""

    keeps_partitions = True

    def __init__(
        self,
        poll: Serialized[tuple[Callable[[Any], Any], Callable[[Any], Hashable] | None, Callable[[], float] | None]],
        interval: int,
        termination: TerminationCondition,
        elements: Sequence[Any],
        label: str,
        lateness: int | None = None,
    ) -> None:
        self.lateness = lateness
        self.poll = poll
        self.interval = interval
        self.termination = termination
        self.elements = list(elements)
        self.label = label

    def for_run(self) -> WatchedGrowth:
        poll = self.poll.frozen()
        return WatchedGrowth(poll, self.interval, self.termination, self.elements, self.label, self.lateness)

    def partitions(self) -> Sequence[int]:
        return range(len(self.elements))

    def identity(self) -> Mapping[str, Any]:
        return {"elements": digest_of(self.elements)}

    def open(self, partition: int, offset: _Growth | None) -> UnboundedReader[Any]:
        return WatchedGrowthReader(self, self.elements[partition], offset or _Growth())


class WatchedGrowthReader(EventTimeReader[Any]):
    """Reader that polls the function, and emits new outputs."""

    def __init__(self, source: WatchedGrowth, element: Any, growth: _Growth) -> None:
        super().__init__(EventTimes(None, ManualWatermarkEstimator.default_provider()))
        self.source = source
        self.element = element
        self._fn, self._key, self._clock = source.poll.load()
        self._pending: list[tuple[Any, int]] = []
        # Of the termination condition; None before the first poll.
        self._state: Any = None
        self._go_on_from(growth)

    def take(self, max_elements: int, now: Timestamp) -> tuple[list[Any], list[int] | int | None]:
        if not self._pending and not self._is_complete and (self._next is None or now.micros >= self._next):
            self._look(now.micros)
        taken, self._pending = self._pending[:max_elements], self._pending[max_elements:]
        return [(self.element, value) for value, _ in taken], [micros for _, micros in taken]

    def offset(self) -> _Growth:
        seen = tuple((key, value, micros) for key, (value, micros) in self._seen.items())
        pending = tuple(self._pending)
        reached, state = self._reached, self._state
        return _Growth(self._next, None, self._is_complete, reached, pending, seen, state=state)

    def watermark(self, now: Timestamp) -> int:
        # Outputs that aren't emitted yet may be earlier than later ones.
        if not self._pending and self._reached > MIN_MICROS:
            self._watermark = max(self._watermark, self._reached)
        if self.is_finished():
            return super().watermark(now)
        return self._watermark

    def is_finished(self) -> bool:
        return self._is_complete and not self._pending

    def backlog(self) -> int | None:
        return len(self._pending)

    def time_jumped(self, micros: int) -> None:
        super().time_jumped(micros)
        if self._state is not None:
            self._state = self.source.termination.time_jumped(self._state, micros)

    def read_to(self, offset_end: Any, now: Timestamp) -> Iterator[Bundle]:
        """Yield the outputs of the offsets, without polling the function."""
        new = [(value, micros) for key, value, micros in offset_end.seen if key not in self._seen]
        found = [*self._pending, *new]
        given = found[: len(found) - len(offset_end.pending)]
        self._go_on_from(offset_end)
        if given:
            yield Bundle([(self.element, value) for value, _ in given], [micros for _, micros in given])

    def _go_on_from(self, growth: _Growth) -> None:
        self._state = growth.state
        if self._state is None and growth.began is not None:
            self._state = growth.began, growth.quiet_since
        self._next, self._is_complete, self._reached = growth.next_look, growth.is_complete, growth.watermark
        self._pending = list(growth.pending)
        self._seen = {key: (value, micros) for key, value, micros in growth.seen}

    def _forget(self) -> int:
        """Forget outputs before the cursor, and return the least event time of new ones.

        Those of the last poll are kept until the next one, so that `read_to` finds them in the offset.
        """
        if self.source.lateness is None or not self._seen:
            return MIN_MICROS
        floor = max(micros for _, micros in self._seen.values()) - self.source.lateness
        self._seen = {key: output for key, output in self._seen.items() if output[1] >= floor}
        return floor

    def _look(self, now: int) -> None:
        found = self._fn(self.element)
        if not isinstance(found, PollResult):
            if not isinstance(found, Iterable) or isinstance(found, (str, bytes)):
                raise PipelineError(
                    f"{self.source.label}: expected its function to return a PollResult or a list, got {found!r}"
                )
            found = PollResult(list(found))
        new = []
        floor = self._forget()
        for output in found.outputs:
            value, micros, _windows, _pane = unwrapped(output, now)
            if micros < floor:
                continue
            key = coded(value if self._key is None else self._key(value))
            if key not in self._seen:
                self._seen[key] = value, micros
                new.append((value, micros))
        self._pending += new
        self._next = now + self.source.interval
        condition = self.source.termination
        time = Timestamp.of_micros(now) if self._clock is None else Timestamp.of(self._clock())
        if self._state is None:
            self._state = condition.for_new_input(time, self.element)
        if new:
            self._state = condition.on_seen_new_output(time, self._state)
        self._state = condition.on_poll_complete(self._state)
        if found.watermark is not None:
            self._reached = max(self._reached, found.watermark.micros)
        elif found.is_in_order and new:
            self._reached = max(self._reached, min(micros for _, micros in new))
        is_over = condition.can_stop_polling(time, self._state)
        is_at_the_end = found.watermark is not None and found.watermark >= MAX_TIMESTAMP
        self._is_complete = found.is_complete or is_at_the_end or is_over


class Watch(PTransform):
    """Pairs of an element and each new output of a function, which is polled for the element.

    Returns a `PCollection[tuple[A, B]]` for elements of type A and outputs of type B.

    Its input must be Create.  Every checkpoint has all outputs, unless `timestamp_cursor` is set.

    Args:
      poll_fn: returns all present outputs for an element: a list, or a `PollResult`.
      poll_interval: seconds between two polls.
      termination: `after_total_of(seconds)` to stop polling an element after that time, or another
        `TerminationCondition`; by default `never()`.
      output_coder: Beam's; its type is that of the outputs, which are stored pickled.  By default that of
        `PollFn.default_output_coder`, or of the function's annotation `PollResult[T]`.
      output_key_coder: Beam's; it must have a deterministic form, and is not used.
      output_key_fn: returns the identity of an output; None for the output itself, which then needs a hash.
      timestamp_cursor: takes outputs that are earlier than the latest event time of all former ones as seen, so that
        checkpoints don't grow.
      allowed_lateness: seconds by which, with `timestamp_cursor`, a new output may be earlier.
      now_fn: returns the time in seconds that the termination condition is given; by default the runner's clock.
      stop_after_quiet: seconds without new outputs after which an element is not polled any more; None for never.

    Without timestamps the event time of an output is its time of polling.  `PollResult`s determine the watermark; an
    element without one holds it back until it is complete.  With `PollResult.incomplete` it is at the earliest new
    output.  Raises `UnsupportedError` for elements that are known only in the run.

    >>> import penstock as beam
    >>> with beam.Pipeline() as p:
    ...     found = p | beam.Create(["ab"]) | beam.Watch(lambda word: beam.PollResult(list(word), is_complete=True), 1)
    ...     _ = found | beam.Map(print)
    ('ab', 'a')
    ('ab', 'b')
    """

    def __init__(
        self,
        poll_fn: Callable[[Any], Any],
        poll_interval: Any,
        termination: TerminationCondition | None = None,
        output_coder: Any = None,
        output_key_fn: Callable[[Any], Hashable] | None = None,
        output_key_coder: Any = None,
        timestamp_cursor: bool = False,
        allowed_lateness: Any = 0,
        now_fn: Callable[[], float] | None = None,
        *,
        stop_after_quiet: Any = None,
    ) -> None:
        super().__init__()
        if micros_of_span(poll_interval) <= 0:
            raise ValueError(f"Watch: poll_interval must be more than 0 seconds, got {poll_interval!r}")
        if termination is not None and not isinstance(termination, TerminationCondition):
            raise TypeError(
                "Watch: termination must be never(), after_total_of(...) or a TerminationCondition, got "
                f"{termination!r}"
            )
        if micros_of_span(allowed_lateness) < 0:
            raise ValueError(f"Watch: allowed_lateness must not be negative, got {allowed_lateness!r}")
        self.lateness = micros_of_span(allowed_lateness) if timestamp_cursor else None
        if output_key_coder is not None:
            output_key_coder.as_deterministic_coder("Watch")
        self.output_coder = output_coder
        self.poll = poll_fn, output_key_fn, now_fn
        self.interval = micros_of_span(poll_interval)
        self.termination = termination or never()
        if stop_after_quiet is not None:
            if not isinstance(self.termination, Termination):
                raise TypeError(f"Watch: stop_after_quiet isn't for a condition of the user, got {termination!r}")
            self.termination = attrs.evolve(self.termination, quiet=micros_of_span(stop_after_quiet))

    def expand(self, pcoll: PCollection[Any]) -> PCollection[Any]:
        label, producer = pcoll.pipeline.full_label, pcoll.pipeline.producer(pcoll)
        source = producer.primitive.source if isinstance(producer.primitive, graph.Read) else None
        if not isinstance(source, ValuesSource):
            raise UnsupportedError(
                f"{label}: no runner can watch elements that are known only in the run, as those of "
                f"{producer.label}; apply it to Create"
            )
        elements = [unwrapped(value)[0] for value in source.values]
        poll = Serialized(self.poll, label)
        growth = WatchedGrowth(poll, self.interval, self.termination, elements, label, self.lateness)
        of_both: Any = pcoll.hint, self._output_type()
        element_type: Any = tuple.__class_getitem__(of_both)
        found: PCollection[Any] = PBegin(pcoll.pipeline) | Read(growth).with_output_types(element_type)
        return found

    def _output_type(self) -> Any:
        poll = self.poll[0]
        coder = self.output_coder
        if coder is None and isinstance(poll, PollFn):
            coder = poll.default_output_coder()
        if coder is not None:
            return coder.to_type_hint()
        function = poll if inspect.isroutine(poll) else type(poll).__call__
        try:
            result = typing.get_type_hints(function).get("return")
        except (NameError, TypeError):
            # An annotation of names that only type checkers know.
            return Any
        return typing.get_args(result)[0] if typing.get_origin(result) is PollResult else Any
