"""BoundedOutOfOrdernessWatermarkEstimator: logically, "timestamps go back by a bound at most"."""

from __future__ import annotations

from functools import partial
from typing import Any

from ...windowing.duration import Duration, micros_of_span
from ...windowing.timestamp import MIN_MICROS, Timestamp
from .estimator import DefaultProvider, WatermarkEstimator, WatermarkEstimatorProvider


class BoundedOutOfOrdernessWatermarkEstimator(WatermarkEstimator):
    """The latest timestamp seen, less a bound.  Elements with earlier timestamps are late.

    Args:
      bound: seconds, or a Duration.
      state: the latest timestamp of an earlier estimator.

    >>> from penstock.windowing import Timestamp
    >>> estimator = BoundedOutOfOrdernessWatermarkEstimator(3)
    >>> estimator.observe_all([10_000_000, 8_000_000])
    >>> estimator.current_watermark()
    Timestamp(7)
    """

    def __init__(self, bound: Any, state: Timestamp | None = None) -> None:
        self._bound = micros_of_span(bound)
        if self._bound < 0:
            raise ValueError(f"BoundedOutOfOrdernessWatermarkEstimator: expected a span of 0 or more, got {bound!r}")
        self._latest = state

    def observe_timestamp(self, timestamp: Timestamp) -> None:
        if self._latest is None or timestamp > self._latest:
            self._latest = timestamp

    def observe_all(self, timestamps: list[int] | int) -> None:
        if timestamps != []:
            self.observe_timestamp(Timestamp.of_micros(max(timestamps) if isinstance(timestamps, list) else timestamps))

    def current_watermark(self) -> Timestamp | None:
        if self._latest is None:
            return None
        return Timestamp.of_micros(max(self._latest.micros - self._bound, MIN_MICROS))

    def get_estimator_state(self) -> Any:
        return self._latest

    def with_state(self, state: Timestamp | None) -> BoundedOutOfOrdernessWatermarkEstimator:
        return BoundedOutOfOrdernessWatermarkEstimator(Duration.of_micros(self._bound), state)

    @staticmethod
    def default_provider(bound: Any) -> WatermarkEstimatorProvider:
        """Return a provider with this bound.  The estimator itself can be given instead."""
        BoundedOutOfOrdernessWatermarkEstimator(bound)
        return DefaultProvider(partial(BoundedOutOfOrdernessWatermarkEstimator, bound))
