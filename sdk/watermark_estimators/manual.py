"""ManualWatermarkEstimator: logically, "the watermark is set by the reader"."""

from __future__ import annotations

from typing import Any

from ...windowing.timestamp import Timestamp
from .estimator import DefaultProvider, WatermarkEstimator, WatermarkEstimatorProvider


class ManualWatermarkEstimator(WatermarkEstimator):
    """A watermark that the reader sets, independent of timestamps.

    >>> from penstock.windowing import Timestamp
    >>> estimator = ManualWatermarkEstimator(None)
    >>> estimator.set_watermark(Timestamp(5))
    >>> estimator.current_watermark()
    Timestamp(5)
    """

    def __init__(self, watermark: Timestamp | None) -> None:
        self._watermark = watermark

    def set_watermark(self, timestamp: Timestamp) -> None:
        """Set the watermark.  Raises `ValueError` if it would go back."""
        if not isinstance(timestamp, Timestamp):
            raise ValueError(f"set_watermark: expected a Timestamp, got {timestamp!r}")
        if self._watermark is not None and timestamp < self._watermark:
            raise ValueError(f"set_watermark: the watermark is at {self._watermark} and can't go back to {timestamp}")
        self._watermark = timestamp

    def observe_timestamp(self, timestamp: Timestamp) -> None:
        pass

    def observe_all(self, timestamps: list[int] | int) -> None:
        pass

    def current_watermark(self) -> Timestamp | None:
        return self._watermark

    def get_estimator_state(self) -> Any:
        return self._watermark

    @staticmethod
    def default_provider() -> WatermarkEstimatorProvider:
        """Return a provider of these estimators."""
        return DefaultProvider(ManualWatermarkEstimator)
