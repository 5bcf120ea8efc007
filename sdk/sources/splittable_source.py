"""SplittableSource: a splittable DoFn, with elements that are known while the pipeline is built, as a source.

A partition is one of the restrictions of an element.  An offset is its unfinished rest: a restriction with the state of
the watermark estimator and the time that it is deferred to.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import attrs

from ...frozen import frozen
from ...persistence import stored_as
from ...windowing import TimestampedValue
from ...windowing.duration import Duration
from ...windowing.timestamp import MAX_MICROS, MIN_MICROS, Timestamp
from ..coders.digest import digest_of
from ..dofn.dofn import DoFn
from ..dofn.splittable_dofn import RestrictionTrackerView, splittable_signature
from ..elements.bundle import Bundle
from ..elements.element_wrappers import TaggedOutput, unwrapped
from ..errors import PipelineError
from ..user_code.serialization import Serialized
from .event_time_reader import EventTimeReader, EventTimes
from .unbounded import UnboundedReader, UnboundedSource, ended_early

# The unfinished restriction (or None), the estimator's state, and the time to resume, in microseconds.
Offset = tuple[Any, Any, int]


@stored_as("initial-restriction", 1)
@frozen
class InitialRestriction:
    """A part of an element's work, identified by its numbers."""

    element_number: int
    number: int
    element: Any = attrs.field(eq=False)
    restriction: Any = attrs.field(eq=False)


class SplittableSource(UnboundedSource[Any]):
    """A splittable DoFn's outputs for a list of elements.

    Args:
      call: the DoFn, and the further arguments of its `process`.
      elements: values with their event times in microseconds.
      label: the full label of the transform.
    """

    # Elements are split once.
    keeps_partitions = True

    def __init__(
        self,
        call: Serialized[tuple[DoFn, tuple[Any, ...], Mapping[str, Any]]],
        elements: Sequence[tuple[Any, int]],
        label: str,
    ) -> None:
        self.call = call
        self.elements = list(elements)
        self.label = label

    def for_run(self) -> SplittableSource:
        return SplittableSource(self.call.frozen(), self.elements, self.label)

    def partitions(self) -> Sequence[InitialRestriction]:
        signature = splittable_signature(self.call.object[0], self.label)
        assert signature is not None
        provider = signature.provider
        return [
            InitialRestriction(i, j, element, restriction)
            for i, (element, _) in enumerate(self.elements)
            for j, restriction in enumerate(provider.split(element, provider.initial_restriction(element)))
        ]

    def identity(self) -> Mapping[str, Any]:
        return {"splittable DoFn": type(self.call.object[0]).__qualname__, "elements": digest_of(self._timestamped())}

    def _timestamped(self) -> list[TimestampedValue]:
        return [TimestampedValue(element, Timestamp.of_micros(micros)) for element, micros in self.elements]

    def open(self, partition: InitialRestriction, offset: Offset | None) -> UnboundedReader[Any]:
        return SplittableReader(self, partition, offset)


class SplittableReader(EventTimeReader[Any]):
    """Reader that runs the DoFn on one restriction, a few outputs at a time.

    A poll may return more than the requested number of elements, since the outputs for a claimed position stay
    together.
    """

    def __init__(self, source: SplittableSource, partition: InitialRestriction, offset: Offset | None) -> None:
        self._fn, self._args, self._kwargs = source.call.load()
        signature = splittable_signature(self._fn, source.label)
        assert signature is not None
        self._signature = signature
        super().__init__(
            EventTimes() if signature.estimator_provider is None else EventTimes(None, signature.estimator_provider)
        )
        self.source = source
        self.partition = partition
        self._micros = source.elements[partition.element_number][1]
        provider = signature.estimator_provider
        if offset is None:
            state = None
            if provider is not None:
                state = provider.initial_estimator_state(partition.element, partition.restriction)
            offset = partition.restriction, state, MIN_MICROS
        self._restriction, state, self._resume_at = offset
        self._estimates = provider is not None
        if provider is not None:
            self.estimator = provider.create_watermark_estimator(state)
        self._fn.setup()

    def poll(self, max_elements: int, now: Timestamp) -> Bundle | None:
        if self._restriction is None or now.micros < self._resume_at:
            return None
        if self._estimates:
            # Sets the time of a watermark estimator that follows the clock.
            self.estimator.at(now)
        tracker = self._signature.provider.create_tracker(self._restriction)
        view = RestrictionTrackerView(tracker, max_elements)
        estimator = self.estimator if self._estimates else None
        values: list[Any] = []
        timestamps: list[int] = []
        outputs = self._signature.run(self._fn, self.partition.element, self._args, self._kwargs, view, estimator)
        for output in outputs:
            if isinstance(output, TaggedOutput):
                raise PipelineError(
                    f"{self.source.label}: a splittable DoFn has one output, got one for {output.tag!r}"
                )
            value, micros, _windows, _pane = unwrapped(output, self._micros)
            values.append(value)
            timestamps.append(micros)
            if estimator is not None:
                estimator.observe_timestamp(Timestamp.of_micros(micros))
            if len(values) >= max_elements:
                view.split_off()
        tracker.check_done()
        self._go_on_with(view.rest, view.deferred, now)
        if not values:
            return None
        self.lags.observe(timestamps, now.micros)
        return Bundle(values, timestamps)

    def take(self, max_elements: int, now: Timestamp) -> tuple[list[Any], list[int] | int | None]:
        raise AssertionError("polled as a whole")

    def offset(self) -> Offset:
        return self._restriction, self.estimator.get_estimator_state() if self._estimates else None, self._resume_at

    def watermark(self, now: Timestamp) -> int:
        known = self.estimator.at(now) if self._estimates else self._micros
        self._watermark = max(self._watermark, MAX_MICROS if self.is_finished() else known)
        return self._watermark

    def is_finished(self) -> bool:
        return self._restriction is None

    def close(self) -> None:
        self._fn.teardown()

    def read_to(self, offset_end: Any, now: Timestamp) -> Iterator[Bundle]:
        # Position by position, since no batch ends within one.
        while (before := self.offset()) != offset_end:
            bundle = self.poll(1, now)
            if bundle is not None:
                yield bundle
            elif self.offset() == before:
                raise ended_early(self, offset_end)

    def _go_on_with(self, rest: Any, deferred: tuple[Any, Any] | None, now: Timestamp) -> None:
        self._restriction, self._resume_at = rest, MIN_MICROS
        if deferred is not None:
            self._restriction, until = deferred
            if isinstance(until, Duration):
                until = now + until
            self._resume_at = MIN_MICROS if until is None else until.micros
