"""Splittable DoFns: work on one element that is claimed in steps, so that it can be interrupted and resumed.

A *restriction* is a part of an element's work, such as a range of offsets.  A tracker records the claimed positions.
The unclaimed rest can be split off at any time: checkpoints store it, and `defer_remainder` defers it.

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

from ...frozen import frozen
from ...windowing.duration import Duration, DurationTypes, is_span
from ...windowing.timestamp import Timestamp
from ..errors import PipelineError, UnsupportedError
from ..user_code.signatures import signature
from ..watermark_estimators import WatermarkEstimator, WatermarkEstimatorProvider
from .dofn import CallableDoFn, DoFn, DoFnParam, RestrictionParam, WatermarkEstimatorParam
from .signature import user_function


@frozen(init=False)
class RestrictionProgress:
    """Completed and remaining work of a restriction, in any unit; or its completed share, `fraction`.

    >>> progress = RestrictionProgress(completed=1, remaining=3)
    >>> progress.completed_work, progress.total_work, progress.fraction_completed
    (1, 4, 0.25)
    """

    completed: float
    remaining: float

    def __init__(
        self, fraction: float | None = None, remaining: float | None = None, completed: float | None = None
    ) -> None:
        if fraction is not None:
            if not 0 <= fraction <= 1 or (remaining, completed) != (None, None):
                raise ValueError(
                    f"RestrictionProgress: expected a fraction from 0 to 1, or completed and remaining work; got "
                    f"fraction={fraction}, remaining={remaining}, completed={completed}"
                )
            remaining, completed = 1 - fraction, fraction
        if remaining is None or completed is None:
            raise ValueError("RestrictionProgress needs a fraction, or completed and remaining work")
        self.__attrs_init__(completed, remaining)

    @property
    def completed_work(self) -> float:
        """The completed work."""
        return self.completed

    @property
    def remaining_work(self) -> float:
        """The remaining work."""
        return self.remaining

    @property
    def total_work(self) -> float:
        """The sum of both."""
        return self.completed + self.remaining

    @property
    def fraction_completed(self) -> float:
        """The completed share of the total work; 1 if there is none."""
        return self.completed / self.total_work if self.total_work else 1.0

    @property
    def fraction_remaining(self) -> float:
        """The remaining share of the total work; 0 if there is none."""
        return self.remaining / self.total_work if self.total_work else 0.0


class RestrictionTracker(ABC):
    """Tracker of the claimed positions of a restriction."""

    @abstractmethod
    def current_restriction(self) -> Any:
        """Return the tracked restriction, which `try_split` makes smaller."""

    @abstractmethod
    def try_claim(self, position: Any) -> bool:
        """Claim a position, and return True if it is part of the restriction.  After False, `process` must return."""

    @abstractmethod
    def try_split(self, fraction_of_remainder: float) -> tuple[Any, Any] | None:
        """Split the unclaimed work, and return the restriction that is kept, and the rest.

        With 0, the rest is as large as possible.  Returns None if there is no rest.
        """

    @abstractmethod
    def check_done(self) -> Any:
        """Raise `ValueError` if a part of the restriction was not claimed."""

    def current_progress(self) -> RestrictionProgress:
        """Return the progress."""
        return RestrictionProgress(completed=0.0, remaining=1.0)

    def is_bounded(self) -> bool:
        """Return whether the restriction is finite."""
        return True


class RestrictionProvider(ABC):
    """Provider of the restrictions of an element.  It must be deterministic.

    >>> import penstock as beam
    >>> from penstock.io.restriction_trackers import OffsetRange, OffsetRestrictionTracker
    >>> class WholeText(beam.RestrictionProvider):
    ...     def initial_restriction(self, text):
    ...         return OffsetRange(0, len(text))
    ...     def create_tracker(self, restriction):
    ...         return OffsetRestrictionTracker(restriction)
    ...     def restriction_size(self, text, restriction):
    ...         return restriction.size()
    >>> WholeText().initial_restriction("to be")
    OffsetRange(start=0, stop=5)
    """

    @abstractmethod
    def initial_restriction(self, element: Any) -> Any:
        """Return the restriction of all work on an element."""

    @abstractmethod
    def create_tracker(self, restriction: Any) -> RestrictionTracker:
        """Return a tracker of a restriction without claims."""

    def split(self, element: Any, restriction: Any) -> Iterable[Any]:
        """Return initial parts, which may be processed in parallel."""
        yield restriction

    def restriction_size(self, element: Any, restriction: Any) -> float:
        """Return the size of a restriction, in elements or bytes."""
        raise NotImplementedError(f"{type(self).__name__}.restriction_size")


class RestrictionTrackerView:
    """The tracker that is passed to `process`.

    Args:
      most_claims: the number of claims after which the unclaimed rest is split off, at least one; None for never.

    Attributes:
      claims: the number of claims that were made.
      rest: the rest that was split off for that reason, or None.
    """

    def __init__(self, tracker: RestrictionTracker, most_claims: int | None = None) -> None:
        self._tracker = tracker
        self._most_claims = most_claims
        self.claims = 0
        self.rest: Any = None
        # The deferred restriction and its time, once `defer_remainder` was called.
        self.deferred: tuple[Any, Timestamp | Duration | None] | None = None

    def current_restriction(self) -> Any:
        """Return the restriction."""
        return self._tracker.current_restriction()

    def try_claim(self, position: Any) -> bool:
        """Claim a position, and return True if it is part of the restriction.  After False, `process` must return."""
        if self._most_claims is not None and self.claims >= max(1, self._most_claims):
            self.split_off()
        if self.deferred is not None or not self._tracker.try_claim(position):
            return False
        self.claims += 1
        return True

    def split_off(self) -> None:
        """Split off the unclaimed rest, unless it was split off or deferred before."""
        if self.rest is None and self.deferred is None:
            split = self._tracker.try_split(0)
            self.rest = None if split is None else split[1]

    def defer_remainder(self, deferred_time: Timestamp | datetime | DurationTypes | None = None) -> None:
        """Defer the unclaimed rest: until a time, for a span of time, or until other elements are processed.

        A number is a span in seconds.
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


@frozen
class SplittableSignature:
    """The parameters of a splittable DoFn's `process`.

    Attributes:
      tracker, estimator: the names of the parameters; None without an estimator.
      is_unbounded: whether the work on one element may be unbounded (`DoFn.unbounded_per_element`).
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
        """Yield the outputs of `process` for an element."""
        asked: dict[str, Any] = {self.tracker: view}
        if self.estimator is not None:
            asked[self.estimator] = estimator
        return iter(user_function(fn)(element, *args, **kwargs, **asked) or ())


def splittable_signature(fn: DoFn, label: str) -> SplittableSignature | None:
    """Return the parameters of a splittable DoFn, or None if a DoFn isn't splittable.

    Raises `PipelineError`, naming the transform, if a provider is missing, and `UnsupportedError` for other parameters.
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
            raise PipelineError(f"{label}: it has a WatermarkEstimatorParam, but no RestrictionParam")
        return None
    others = [repr(m) for n, m in markers.items() if n not in (*trackers, *estimators) and m is not DoFn.ElementParam]
    if others:
        raise UnsupportedError(
            f"{label}: a splittable DoFn can't have {', '.join(others)}; only a tracker and a watermark estimator"
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
