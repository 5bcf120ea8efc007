"""WalltimeWatermarkEstimator: logically, "things happen when they come"."""

from __future__ import annotations

from typing import Any

from ...windowing.timestamp import Timestamp
from .estimator import DefaultProvider, WatermarkEstimator, WatermarkEstimatorProvider


class WalltimeWatermarkEstimator(WatermarkEstimator):
    """The time that it is: right for elements whose event time is when they arrive.

    It has no clock, and knows the time that it was told last: None before that.

    >>> from penstock.windowing import Timestamp
    >>> WalltimeWatermarkEstimator().at(Timestamp(5))
    5000000
    """

    def __init__(self, timestamp: Timestamp | None = None) -> None:
        self._timestamp = timestamp

    def observe_timestamp(self, timestamp: Timestamp) -> None:
        pass

    def observe_all(self, timestamps: list[int] | int) -> None:
        pass

    def at(self, now: Timestamp) -> int:
        if self._timestamp is None or now > self._timestamp:
            self._timestamp = now
        return self._timestamp.micros

    def current_watermark(self) -> Timestamp | None:
        return self._timestamp

    def get_estimator_state(self) -> Any:
        return self._timestamp

    @staticmethod
    def default_provider() -> WatermarkEstimatorProvider:
        """Make these."""
        return DefaultProvider(WalltimeWatermarkEstimator)
