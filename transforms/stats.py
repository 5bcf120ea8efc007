"""Statistics, where Beam's users look for them: the approximate combiners."""

from .combiners.approximate_quantiles import ApproximateQuantiles, ApproximateQuantilesCombineFn
from .combiners.approximate_unique import ApproximateUnique, ApproximateUniqueCombineFn

__all__ = [
    "ApproximateQuantiles",
    "ApproximateQuantilesCombineFn",
    "ApproximateUnique",
    "ApproximateUniqueCombineFn",
]
