"""Splittable DoFns: work on one element that is claimed bit by bit, so that it can be stopped and taken up again.

A *restriction* says what part of an element's work there is, such as a range of offsets; a
tracker, which bits of it were claimed.  What isn't claimed can be split off at any time:
that is what a checkpoint keeps, and what `defer_remainder` puts off.

>>> import penstock as beam
>>> from penstock.io.restriction_trackers import OffsetRange, OffsetRestrictionTracker
>>> class Whole(RestrictionProvider):
...     def initial_restriction(self, word):
...         return OffsetRange(0, len(word))
...     def create_tracker(self, restriction):
...         return OffsetRestrictionTracker(restriction)
...     def restriction_size(self, word, restriction):
...         return restriction.size()
>>> class Letters(beam.DoFn):
...     def process(self, word, tracker=beam.DoFn.RestrictionParam(Whole())):
...         position = tracker.current_restriction().start
...         while tracker.try_claim(position):
...             yield word[position]
...             position += 1
>>> ["be", "to"] | beam.ParDo(Letters())
['b', 'e', 't', 'o']
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any

import attrs

from ...windowing.duration import Duration, DurationTypes, is_span
from ...windowing.timestamp import Timestamp
from ..dofn import CallableDoFn, DoFn, DoFnParam, RestrictionParam, WatermarkEstimatorParam
from ..dofn_signature import user_function
from ..errors import PipelineError, UnsupportedError
from ..signatures import signature
from ..watermark_estimators import WatermarkEstimator, WatermarkEstimatorProvider


@attrs.frozen
class RestrictionProgress:
    """How much of a restriction is done, and how much isn't; in whatever unit it is measured."""

    completed: float
    remaining: float


class RestrictionTracker(ABC):
    """Which bits of a restriction have been claimed."""

    @abstractmethod
    def current_restriction(self) -> Any:
        """What it tracks now; `try_split` makes it smaller."""

    @abstractmethod
    def try_claim(self, position: Any) -> bool:
        """Return whether the bit at this position is to be worked on; after a False, stop."""

    @abstractmethod
    def try_split(self, fraction_of_remainder: float) -> tuple[Any, Any] | None:
        """Split what isn't claimed: the restriction that is kept, and the rest.

        With 0, as much as can be goes into the rest.  None where there is no rest.
        """

    @abstractmethod
    def check_done(self) -> Any:
        """Raise `ValueError` if something of the restriction was not claimed."""

    def current_progress(self) -> RestrictionProgress:
        """How far it is."""
        return RestrictionProgress(0.0, 1.0)

    def is_bounded(self) -> bool:
        """Return whether the restriction is finite."""
        return True


class RestrictionProvider(ABC):
    """What there is to do for an element.  Must say the same whenever it is asked of the same element."""

    @abstractmethod
    def initial_restriction(self, element: Any) -> Any:
        """All of the work."""

    @abstractmethod
    def create_tracker(self, restriction: Any) -> RestrictionTracker:
        """A tracker of a restriction of which nothing is claimed."""

    def split(self, element: Any, restriction: Any) -> Iterable[Any]:
        """The parts that may be worked on in parallel, to begin with."""
        yield restriction

    def restriction_size(self, element: Any, restriction: Any) -> float:
        """How much work a restriction is, in elements or bytes."""
        raise NotImplementedError(f"{type(self).__name__}.restriction_size")


class RestrictionTrackerView:
    """The tracker as `process` is given it.

    Args:
      over: once it is true, and something has been claimed, what isn't claimed is split off.

    Attributes:
      rest: what was split off for that reason; None if nothing was.
    """

    def __init__(self, tracker: RestrictionTracker, over: Any = ()) -> None:
        self._tracker = tracker
        self._over = over
        self._has_claimed = False
        self.rest: Any = None
        # What was put off, and until when; there once `defer_remainder` was called.
        self.deferred: tuple[Any, Timestamp | Duration | None] | None = None

    def current_restriction(self) -> Any:
        """What there is to do."""
        return self._tracker.current_restriction()

    def try_claim(self, position: Any) -> bool:
        """Return whether to work on the bit at this position; after a False, return."""
        if self._has_claimed and self._over:
            self.split_off()
        if self.deferred is not None or not self._tracker.try_claim(position):
            return False
        self._has_claimed = True
        return True

    def split_off(self) -> None:
        """Split off what isn't claimed, unless that has been done, or was put off."""
        if self.rest is None and self.deferred is None:
            split = self._tracker.try_split(0)
            self.rest = None if split is None else split[1]

    def defer_remainder(self, deferred_time: Timestamp | datetime | DurationTypes | None = None) -> None:
        """Put off what isn't claimed, and return: until a time, for a while, or until there is time.

        A number is one of seconds to wait.
        """
        if isinstance(deferred_time, datetime):
            deferred_time = Timestamp.of(deferred_time)
        if deferred_time is not None and not isinstance(deferred_time, Timestamp):
            if not is_span(deferred_time):
                raise ValueError(f"defer_remainder: expected a time or a span of time, got {deferred_time!r}")
            deferred_time = Duration.of(deferred_time)
        split = self._tracker.try_split(0)
        if split is not None:
            self.deferred = split[1], deferred_time

    def is_bounded(self) -> bool:
        """Return whether the restriction is finite."""
        return self._tracker.is_bounded()


@attrs.frozen
class SplittableSignature:
    """What a splittable DoFn's `process` asks for.

    Attributes:
      tracker, estimator: the names of the parameters; that of the estimator, if there is one.
      is_unbounded: whether one element may be worked on for ever (`DoFn.unbounded_per_element`).
    """

    tracker: str
    provider: RestrictionProvider
    estimator: str | None = None
    estimator_provider: WatermarkEstimatorProvider | None = None
    is_unbounded: bool = False

    def run(
        self,
        fn: DoFn,
        element: Any,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        view: RestrictionTrackerView,
        estimator: WatermarkEstimator | None,
    ) -> Iterator[Any]:
        """What `process` gives for an element, as it gives it."""
        asked: dict[str, Any] = {self.tracker: view}
        if self.estimator is not None:
            asked[self.estimator] = estimator
        return iter(user_function(fn)(element, *args, **kwargs, **asked) or ())


def splittable_signature(fn: DoFn, label: str) -> SplittableSignature | None:
    """What a DoFn asks for if it is splittable; None if it isn't.

    Raises `PipelineError`, naming the transform, where a provider is missing, and
    `UnsupportedError` for what such a DoFn can't have.
    """
    function = user_function(fn)
    try:
        parameters = signature(function).parameters.values()
    except (TypeError, ValueError):
        return None
    markers = {p.name: p.default for p in parameters if isinstance(p.default, DoFnParam)}
    trackers = {name: marker for name, marker in markers.items() if isinstance(marker, RestrictionParam)}
    estimators = {name: marker for name, marker in markers.items() if isinstance(marker, WatermarkEstimatorParam)}
    if not trackers:
        if estimators:
            raise PipelineError(f"{label}: it asks for a WatermarkEstimatorParam, and for no RestrictionParam")
        return None
    others = [repr(m) for n, m in markers.items() if n not in (*trackers, *estimators) and m is not DoFn.ElementParam]
    if others:
        raise UnsupportedError(
            f"{label}: a splittable DoFn can't have {', '.join(others)}; only what it tracks and estimates"
        )
    own: Any = fn
    (tracker, wanted), *_ = trackers.items()
    provider = wanted.restriction_provider or own
    if not isinstance(provider, RestrictionProvider):
        raise PipelineError(f"{label}: DoFn.RestrictionParam(): expected a RestrictionProvider, or a DoFn that is one")
    estimator, estimator_provider = next(iter(estimators), None), None
    if estimator is not None:
        estimator_provider = estimators[estimator].watermark_estimator_provider or own
        if not isinstance(estimator_provider, WatermarkEstimatorProvider):
            raise PipelineError(f"{label}: DoFn.WatermarkEstimatorParam(): expected a WatermarkEstimatorProvider")
    is_unbounded = bool(getattr(function, "unbounded_per_element", False))
    if isinstance(fn, CallableDoFn):
        raise UnsupportedError(f"{label}: a function can't be splittable; write a DoFn")
    return SplittableSignature(tracker, provider, estimator, estimator_provider, is_unbounded)
