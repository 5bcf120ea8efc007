"""Sketches of quantiles: the accumulators of `ApproximateQuantilesCombineFn`.

The sketches are Apache DataSketches'.  They discard values at random, so two runs over the same input may differ within
the error.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from functools import cache
from typing import Any, Protocol

from ...persistence import restores
from .apache_datasketches import datasketches


class QuantileSketch(Protocol):
    """A summary of weighted values, which are ordered by `<`."""

    def add(self, value: Any, weight: float) -> None:
        """Add a value."""

    def merge(self, other: Any) -> None:
        """Add the values of another sketch of the same class."""

    def extremes(self) -> tuple[Any, Any] | None:
        """Return the exact minimum and maximum, or None without values."""

    def weighted_values(self) -> Iterator[tuple[Any, float]]:
        """Yield values, in any order, with their weights."""


class KllSketch:
    """Quantiles of values of equal weight: a KLL sketch.

    It is exact for up to `k` values.  Beyond, the error of a rank is at most `rank_error(k)` of their number, with 99%
    confidence, for any number of values.
    Source: Karnin, Lang, Liberty, "Optimal Quantile Approximation in Streams", FOCS 2016.

    >>> sketch = KllSketch(200)
    >>> for value in (3, 1, 2):
    ...     sketch.add(value, 1)
    >>> sketch.extremes(), sorted(sketch.weighted_values())
    ((1, 3), [(1, 1), (2, 1), (3, 1)])
    """

    MAX_K = 65535

    def __init__(self, k: int, serialized: bytes | None = None) -> None:
        self._k = k
        sketch = datasketches().kll_items_sketch
        self._sketch = sketch(k) if serialized is None else sketch.deserialize(serialized, _serde())

    @staticmethod
    def rank_error(k: int) -> float:
        """Return the relative error of a rank."""
        return float(datasketches().kll_items_sketch.get_normalized_rank_error(k, False))

    @classmethod
    def k_for(cls, epsilon: float) -> int:
        """Return the least k with that rank error, or else the greatest possible k."""
        low, high = 8, cls.MAX_K
        while low < high:
            middle = (low + high) // 2
            if cls.rank_error(middle) <= epsilon:
                high = middle
            else:
                low = middle + 1
        return low

    def add(self, value: Any, weight: float) -> None:
        self._sketch.update(value)

    def merge(self, other: KllSketch) -> None:
        self._sketch.merge(other._sketch)

    def extremes(self) -> tuple[Any, Any] | None:
        if self._sketch.is_empty():
            return None
        return self._sketch.get_min_value(), self._sketch.get_max_value()

    def weighted_values(self) -> Iterator[tuple[Any, float]]:
        """Yield the values in order with their weights; 0 for all but the first of equal values.

        Ranks give the weights: the iterator of datasketches 5.2 gives each value the weight 1 where a merge has left
        the sketch's lowest level empty.
        """
        below = 0
        for value in sorted(value for value, _ in self._sketch):
            reached = round(self._sketch.get_rank(value, True) * self._sketch.n)
            yield value, reached - below
            below = reached

    def __reduce__(self) -> tuple[Any, ...]:
        return _kll, (self._k, self._sketch.serialize(_serde()))


@restores("kll-sketch", 1)
def _kll(k: int, serialized: bytes) -> KllSketch:
    return KllSketch(k, serialized)


class VarOptSketch:
    """Quantiles of weighted values: a weighted sample of at most `k` of them.

    It is exact for up to `k` values.  Beyond, the error of a quantile's rank is at most about 1.29 / sqrt(k) of the
    total weight, with 99% confidence.
    Source: Cohen, Duffield, Kaplan, Lund, Thorup, "Efficient Stream Sampling for
    Variance-Optimal Estimation of Subset Sums", SIAM J. Comput. 40(5), 2011.

    >>> sketch = VarOptSketch(200)
    >>> sketch.add("a", 2.5)
    >>> sketch.extremes(), list(sketch.weighted_values())
    (('a', 'a'), [('a', 2.5)])
    """

    def __init__(self, k: int, serialized: bytes | None = None, extremes: tuple[Any, Any] | None = None) -> None:
        self._k = k
        self._extremes = extremes
        sketch = datasketches().var_opt_sketch
        self._sketch = sketch(k) if serialized is None else sketch.deserialize(serialized, _serde())

    @staticmethod
    def k_for(epsilon: float) -> int:
        """Return the least k with that rank error."""
        return int((1.29 / epsilon) ** 2) + 1

    # A value without weight is never in the sample, but may be the least or the greatest.
    def add(self, value: Any, weight: float) -> None:
        self._sketch.update(value, weight)
        self._extend(value, value)

    def merge(self, other: VarOptSketch) -> None:
        union = datasketches().var_opt_union(self._k)
        union.update(self._sketch)
        union.update(other._sketch)
        self._sketch = union.get_result()
        if other._extremes is not None:
            self._extend(*other._extremes)

    def _extend(self, least: Any, greatest: Any) -> None:
        if self._extremes is not None:
            least = min(self._extremes[0], least)
            greatest = max(self._extremes[1], greatest)
        self._extremes = least, greatest

    def extremes(self) -> tuple[Any, Any] | None:
        return self._extremes

    def weighted_values(self) -> Iterator[tuple[Any, float]]:
        return iter(self._sketch)

    def __reduce__(self) -> tuple[Any, ...]:
        return _var_opt, (self._k, self._sketch.serialize(_serde()), self._extremes)


@restores("varopt-sketch", 1)
def _var_opt(k: int, serialized: bytes, extremes: tuple[Any, Any] | None) -> VarOptSketch:
    return VarOptSketch(k, serialized, extremes)


@cache
def _serde() -> Any:
    """Return the serialization of a sketch's items: pickles with a length prefix."""

    class PickleSerDe(datasketches().PyObjectSerDe):  # type: ignore[misc]
        def get_size(self, item: Any) -> int:
            return len(self.to_bytes(item))

        def to_bytes(self, item: Any) -> bytes:
            pickled = pickle.dumps(item, protocol=5)
            return len(pickled).to_bytes(8, "little") + pickled

        def from_bytes(self, data: bytes, offset: int) -> tuple[Any, int]:
            start = offset + 8
            length = int.from_bytes(data[offset:start], "little")
            return pickle.loads(data[start : start + length]), 8 + length

    return PickleSerDe()
