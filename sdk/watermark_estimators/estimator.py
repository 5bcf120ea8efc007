"""WatermarkEstimator: what is known of event times yet to come, from those that came."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, TypeAlias

import attrs

from ...windowing.timestamp import MIN_MICROS, Timestamp


class WatermarkEstimator(ABC):
    """Sees the event times of what was read, and estimates the watermark.

    The first three methods are Beam's.  A source asks `at`, which says what time it is: an
    estimator has no clock of its own.
    """

    @abstractmethod
    def current_watermark(self) -> Timestamp | None:
        """The watermark as of what was seen; None if nothing was."""

    @abstractmethod
    def get_estimator_state(self) -> Any:
        """What a provider makes an estimator from that goes on where this one is."""

    @abstractmethod
    def observe_timestamp(self, timestamp: Timestamp) -> None:
        """An element of this event time was read."""

    def with_state(self, state: Any) -> WatermarkEstimator:
        """Return an estimator like this one, in a state that `get_estimator_state` gave.

        One whose class is made of more than a state says here of what.
        """
        return type(self)(state)  # type: ignore[call-arg]

    def observe_all(self, timestamps: list[int] | int) -> None:
        """The column of timestamps of a bundle, in microseconds."""
        for micros in timestamps if isinstance(timestamps, list) else [timestamps]:
            self.observe_timestamp(Timestamp.of_micros(micros))

    def at(self, now: Timestamp) -> int:
        """The watermark at this time, in microseconds."""
        watermark = self.current_watermark()
        return MIN_MICROS if watermark is None else watermark.micros


class WatermarkEstimatorProvider(ABC):
    """Makes estimators; picklable."""

    @abstractmethod
    def create_watermark_estimator(self, estimator_state: Any) -> WatermarkEstimator:
        """An estimator in a state that `get_estimator_state`, or `initial_estimator_state`, gave."""

    def initial_estimator_state(self, element: Any, restriction: Any) -> Any:
        """The state to begin with."""
        return None

    def estimator_state_coder(self) -> Any:
        """Beam's; states are pickled."""
        return None


@attrs.frozen
class DefaultProvider(WatermarkEstimatorProvider):
    """Calls an estimator's class, or a function, with the state; None to begin with."""

    make: Callable[[Any], WatermarkEstimator]

    def create_watermark_estimator(self, estimator_state: Any) -> WatermarkEstimator:
        return self.make(estimator_state)


@attrs.frozen
class EstimatorsLike(WatermarkEstimatorProvider):
    """Makes estimators like one that is given."""

    estimator: WatermarkEstimator

    def create_watermark_estimator(self, estimator_state: Any) -> WatermarkEstimator:
        return self.estimator.with_state(estimator_state)

    def initial_estimator_state(self, element: Any, restriction: Any) -> Any:
        return self.estimator.get_estimator_state()


# What a provider can be given as; see `provider_of`.
EstimatorTypes: TypeAlias = WatermarkEstimator | type[WatermarkEstimator] | WatermarkEstimatorProvider


def provider_of(given: Any, who: str) -> WatermarkEstimatorProvider:
    """Return the provider for what a user gives: a provider, an estimator, or an estimator's class.

    Args:
      who: what errors begin with.

    Raises `TypeError` for anything else, and for a class that can't be made without arguments of its own.
    """
    if isinstance(given, WatermarkEstimatorProvider):
        return given
    is_class = isinstance(given, type) and issubclass(given, WatermarkEstimator)
    if not is_class and not isinstance(given, WatermarkEstimator):
        raise TypeError(
            f"{who}: expected a watermark estimator, its class, or a WatermarkEstimatorProvider, got {given!r}"
        )
    provider = DefaultProvider(given) if is_class else EstimatorsLike(given)
    try:
        provider.create_watermark_estimator(provider.initial_estimator_state(None, None))
    except Exception as error:
        name = given.__name__ if is_class else type(given).__name__
        advice = f"give one that is made, {name}(...)" if is_class else "define with_state(state), or give a provider"
        raise TypeError(f"{who}: a {name} can't be made of a state alone ({error}); {advice}") from error
    return provider
