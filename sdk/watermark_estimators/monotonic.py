"""MonotonicWatermarkEstimator: logically, "nothing earlier than the last will come"."""

from __future__ import annotations

from typing import Any

from ...windowing.timestamp import Timestamp
from .estimator import DefaultProvider, WatermarkEstimator, WatermarkEstimatorProvider


class MonotonicWatermarkEstimator(WatermarkEstimator):
    """The timestamp of the last element, each being at or after the one before.

    Raises `ValueError` for one that goes back: its watermark has been told already.

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
                "if timestamps may go back, say how far: BoundedOutOfOrdernessWatermarkEstimator"
            )
        self._watermark = timestamp

    def observe_all(self, timestamps: list[int] | int) -> None:
        column = timestamps if isinstance(timestamps, list) else [timestamps]
        # The usual case at the speed of a sort that finds nothing to do.
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
        """Make these."""
        return DefaultProvider(MonotonicWatermarkEstimator)
