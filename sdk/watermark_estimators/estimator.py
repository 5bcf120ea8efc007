"""WatermarkEstimator: what is known of event times yet to come, from those that came."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

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
