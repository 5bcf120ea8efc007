"""WalltimeWatermarkEstimator: logically, "the event time is the time of arrival"."""

from __future__ import annotations

from typing import Any

from ...windowing.timestamp import Timestamp
from .estimator import DefaultProvider, WatermarkEstimator, WatermarkEstimatorProvider


class WalltimeWatermarkEstimator(WatermarkEstimator):
    """The current time, for elements whose event time is their time of arrival.

    It has no clock: the watermark is the last time that was passed, and None before.

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
        """Return a provider of these estimators."""
        return DefaultProvider(WalltimeWatermarkEstimator)
