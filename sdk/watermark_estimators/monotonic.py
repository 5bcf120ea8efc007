"""MonotonicWatermarkEstimator: logically, "timestamps never go back"."""

from __future__ import annotations

from typing import Any

from ...windowing.timestamp import Timestamp
from .estimator import DefaultProvider, WatermarkEstimator, WatermarkEstimatorProvider


class MonotonicWatermarkEstimator(WatermarkEstimator):
    """The timestamp of the last element.  Timestamps may not go back.

    Raises `ValueError` for a timestamp that goes back, since the watermark has passed it.

    >>> from penstock.windowing import Timestamp
    >>> estimator = MonotonicWatermarkEstimator(None)
    >>> estimator.observe_timestamp(Timestamp(5))
    >>> estimator.current_watermark()
    Timestamp(5)
    """

    def __init__(self, timestamp: Timestamp | None) -> None:
        self._watermark = timestamp

    def observe_timestamp(self, timestamp: Timestamp) -> None:
        if self._watermark is not None and timestamp < self._watermark:
            raise ValueError(
                f"MonotonicWatermarkEstimator: an element of {timestamp} came after one of {self._watermark}; "
                "if timestamps may go back, give a bound: BoundedOutOfOrdernessWatermarkEstimator"
            )
        self._watermark = timestamp

    def observe_all(self, timestamps: list[int] | int) -> None:
        column = timestamps if isinstance(timestamps, list) else [timestamps]
        # Fast in the usual case, since a sorted list is sorted again in linear time.
        if column and column == sorted(column):
            self.observe_timestamp(Timestamp.of_micros(column[0]))
            self.observe_timestamp(Timestamp.of_micros(column[-1]))
        else:
            super().observe_all(column)

    def current_watermark(self) -> Timestamp | None:
        return self._watermark

    def get_estimator_state(self) -> Any:
        return self._watermark

    @staticmethod
    def default_provider() -> WatermarkEstimatorProvider:
        """Return a provider of these estimators."""
        return DefaultProvider(MonotonicWatermarkEstimator)
