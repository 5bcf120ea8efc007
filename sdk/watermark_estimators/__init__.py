"""Watermark estimators of sources, one policy a file.

estimator.py           WatermarkEstimator, WatermarkEstimatorProvider
monotonic.py           timestamps never go back
bounded_disorder.py    timestamps go back by a bound at most
manual.py              the reader sets the watermark
wall_time.py           the watermark follows the clock

Idleness is declared by `idle_after`, see `EventTimes`.
"""

from .bounded_disorder import BoundedOutOfOrdernessWatermarkEstimator
from .estimator import EstimatorTypes, WatermarkEstimator, WatermarkEstimatorProvider
from .manual import ManualWatermarkEstimator
from .monotonic import MonotonicWatermarkEstimator
from .wall_time import WalltimeWatermarkEstimator

__all__ = [
    "EstimatorTypes",
    "BoundedOutOfOrdernessWatermarkEstimator",
    "ManualWatermarkEstimator",
    "MonotonicWatermarkEstimator",
    "WalltimeWatermarkEstimator",
    "WatermarkEstimator",
    "WatermarkEstimatorProvider",
]
