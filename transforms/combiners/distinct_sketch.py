"""Sketch of distinct elements: the accumulator of `ApproximateUniqueCombineFn`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ...persistence import restores
from .apache_datasketches import datasketches


class DistinctSketch:
    """Estimate of the number of distinct byte strings: a theta sketch.

    Exact up to 2 ** lg_k of them; then the relative standard error is 1 / sqrt(2 ** lg_k).
    Source: Dasgupta, Lang, Rhodes, Thaler, "A Framework for Estimating Stream Expression
    Cardinalities", ICDT 2016.

    >>> sketch = DistinctSketch(lg_k=12)
    >>> for encoded in (b"a", b"b", b"a"):
    ...     sketch.add(encoded)
    >>> sketch.estimate()
    2
    """

    def __init__(self, lg_k: int, merged: bytes | None = None) -> None:
        self._lg_k = lg_k
        package = datasketches()
        # A sketch that was read from bytes can be merged, but not added to.
        self._merged = None if merged is None else package.compact_theta_sketch.deserialize(merged)
        self._added = package.update_theta_sketch(lg_k)

    # The sketch hashes str but not bytes, and ignores the empty one.
    def add(self, encoded: bytes) -> None:
        """Add a byte string."""
        self._added.update("=" + encoded.decode("latin-1"))

    def merged_with(self, others: Iterable[DistinctSketch]) -> DistinctSketch:
        """Return a new sketch of the byte strings of this sketch and the others."""
        union = datasketches().theta_union(self._lg_k)
        for sketch in (self, *others):
            union.update(sketch._added)
            if sketch._merged is not None:
                union.update(sketch._merged)
        result = DistinctSketch(self._lg_k)
        result._merged = union.get_result()
        return result

    def _whole(self) -> Any:
        return self._added.compact() if self._merged is None else self.merged_with(())._merged

    def estimate(self) -> int:
        """Return the estimated number of distinct byte strings."""
        return round(float(self._whole().get_estimate()))

    def __reduce__(self) -> tuple[Any, ...]:
        return _sketch, (self._lg_k, self._whole().serialize())


@restores("distinct-sketch", 1)
def _sketch(lg_k: int, merged: bytes) -> DistinctSketch:
    return DistinctSketch(lg_k, merged)
