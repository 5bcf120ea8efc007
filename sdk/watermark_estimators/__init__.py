"""Where a source's watermark comes from: one policy a file.

estimator.py           WatermarkEstimator, WatermarkEstimatorProvider
monotonic.py           timestamps never go back
bounded_disorder.py    timestamps go back by so much at most
manual.py              whoever reads says it
wall_time.py           the clock on the wall

Idleness isn't a policy of these: it is declared by `idle_after`, see `EventTimes`.
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
