"""Beam's `io.watermark_estimators`: what a watermark is estimated from.

See `penstock.sdk.watermark_estimators`, where each has a file.
"""

from ..sdk.watermark_estimators import (
    BoundedOutOfOrdernessWatermarkEstimator,
    ManualWatermarkEstimator,
    MonotonicWatermarkEstimator,
    WalltimeWatermarkEstimator,
    WatermarkEstimator,
    WatermarkEstimatorProvider,
)

__all__ = [
    "BoundedOutOfOrdernessWatermarkEstimator",
    "ManualWatermarkEstimator",
    "MonotonicWatermarkEstimator",
    "WalltimeWatermarkEstimator",
    "WatermarkEstimator",
    "WatermarkEstimatorProvider",
]
