"""Ready-made combiners: each as a CombineFn, and as transforms over a collection and for each key.

count.py                  Count: the number of elements, in total, by key, by element
count_distinct.py         CountDistinct: the number of distinct elements
sum_min_max.py            Sum, Min, Max
mean.py                   Mean
top.py                    Top: the n greatest or least
sample.py                 Sample: n elements at random, or any n
latest.py                 Latest: the element with the latest event timestamp
to_list.py                ToList
to_set.py                 ToSet
to_dict.py                ToDict
tuple_combine.py          TupleCombineFn: several combiners at once

Approximate combiners, with bounded memory (the extra `sketches`):

approximate_quantiles.py  ApproximateQuantiles: quartiles, percentiles and so on
quantile_sketches.py      the sketches of quantiles
approximate_unique.py     ApproximateUnique: the number of distinct elements
distinct_sketch.py        the sketch of distinct elements
apache_datasketches.py    the package of sketches

For all of them:

globally_and_per_key.py   a combiner as two transforms
equal_copies.py           values that equal their copies from a shuffle
"""

from ...sdk.combine_fn import (
    AllCombineFn,
    AnyCombineFn,
    CountCombineFn,
    MaxCombineFn,
    MinCombineFn,
    SumCombineFn,
)
from .approximate_quantiles import ApproximateQuantiles, ApproximateQuantilesCombineFn
from .approximate_unique import ApproximateUnique, ApproximateUniqueCombineFn
from .count import Count
from .count_distinct import CountDistinct, CountDistinctCombineFn
from .latest import Latest, LatestCombineFn
from .mean import Mean, MeanCombineFn
from .sample import AnyElementsCombineFn, Sample, SampleCombineFn
from .sum_min_max import Max, Min, Sum
from .to_dict import ToDict, ToDictCombineFn
from .to_list import ToList, ToListCombineFn
from .to_set import ToSet, ToSetCombineFn
from .top import Largest, Smallest, Top, TopCombineFn
from .tuple_combine import SingleInputTupleCombineFn, TupleCombineFn

__all__ = [
    # Counting and arithmetic.
    "Count",
    "CountCombineFn",
    "CountDistinct",
    "CountDistinctCombineFn",
    "Sum",
    "SumCombineFn",
    "Min",
    "MinCombineFn",
    "Max",
    "MaxCombineFn",
    "Mean",
    "MeanCombineFn",
    "AnyCombineFn",
    "AllCombineFn",
    # Some of the elements.
    "Top",
    "TopCombineFn",
    "Largest",
    "Smallest",
    "Sample",
    "SampleCombineFn",
    "AnyElementsCombineFn",
    "Latest",
    "LatestCombineFn",
    # All of them, in one.
    "ToList",
    "ToListCombineFn",
    "ToSet",
    "ToSetCombineFn",
    "ToDict",
    "ToDictCombineFn",
    # Several combiners.
    "TupleCombineFn",
    "SingleInputTupleCombineFn",
    # Approximations.
    "ApproximateQuantiles",
    "ApproximateQuantilesCombineFn",
    "ApproximateUnique",
    "ApproximateUniqueCombineFn",
]
