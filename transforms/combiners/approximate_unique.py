"""ApproximateUnique: about how many different elements there are."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from ...sdk.coders.key_encoding import encode_key
from ...sdk.combine_fn import CombineFn
from ...sdk.errors import InvalidKeyError, PenstockError
from .distinct_sketch import DistinctSketch
from .globally_and_per_key import GlobalCombiner, KeyedCombiner


class ApproximateUniqueCombineFn(CombineFn[Any, DistinctSketch, int]):
    """About how many different elements there are; exact up to `sample_size` of them.

    Beyond, the estimate is within 2 / sqrt(sample_size) of the truth, as a part of it, with
    95% confidence.  Elements are the same if they are encoded the same.

    Args:
      sample_size: how many hashes of elements are kept, at least.
      coder: what encodes elements, deterministically; by default the encoding of keys.

    >>> ApproximateUniqueCombineFn(16).apply(["a", "b", "a"])
    2
    """

    def __init__(self, sample_size: int, coder: Any = None) -> None:
        self._sample_size = sample_size
        self._coder = None if coder is None else coder.as_deterministic_coder("ApproximateUnique")
        # The sketch keeps a power of two between 2 ** 5 and 2 ** 26.
        self._lg_k = min(26, max(5, (sample_size - 1).bit_length()))

    def create_accumulator(self) -> DistinctSketch:
        return DistinctSketch(self._lg_k)

    def add_input(self, accumulator: DistinctSketch, element: Any) -> DistinctSketch:
        accumulator.add(_encoded(element) if self._coder is None else self._coder.encode(element))
        return accumulator

    def merge_accumulators(self, accumulators: Iterable[DistinctSketch]) -> DistinctSketch:
        return self.create_accumulator().merged_with(accumulators)

    def extract_output(self, accumulator: DistinctSketch) -> int:
        return accumulator.estimate()

    def display_data(self) -> dict[str, Any]:
        """What a drawing of the pipeline may show of it."""
        return {"sample_size": self._sample_size}


def _encoded(element: Any) -> bytes:
    try:
        return encode_key(element)
    except InvalidKeyError as error:
        # Refused as a key, since no group would hold it; but as good an element as any.
        if isinstance(element, float):
            return b"nan"
        raise PenstockError(
            f"ApproximateUnique tells elements apart as a grouping does keys: {error}; or combine with "
            f"ApproximateUniqueCombineFn(size, coder), whose coder is deterministic"
        ) from None


class ApproximateUnique:
    """About how many different elements there are.

    Either `size` is given, the number of elements up to which the result is exact (at least
    16), or `error`, by how much of the truth the result may be off (0.01 to 0.5), with 95%
    confidence: an error of e is a size of 4 / e ** 2.
    """

    @staticmethod
    def parse_input_params(size: int | None = None, error: float | None = None) -> int:
        """The sample size that these arguments ask for; raises ValueError for any others.

        >>> ApproximateUnique.parse_input_params(error=0.1)
        400
        """
        if (size is None) == (error is None):
            raise ValueError(f"ApproximateUnique needs either a size or an error, got size={size!r}, error={error!r}")
        if error is None:
            if not isinstance(size, int) or size < 16:
                raise ValueError(
                    f"ApproximateUnique needs a whole size of 16 or more (the error is about 2 / sqrt(size)), "
                    f"got size={size!r}"
                )
            return size
        if not 0.01 <= error <= 0.5:
            raise ValueError(f"ApproximateUnique needs an error between 0.01 and 0.5, got error={error!r}")
        return math.ceil(4 / error**2)

    class Globally(GlobalCombiner):
        """How many in a whole collection.

        >>> import penstock as beam
        >>> ["a", "b", "a"] | beam.ApproximateUnique.Globally(size=16)
        [2]
        """

        def __init__(self, size: int | None = None, error: float | None = None) -> None:
            super().__init__(ApproximateUniqueCombineFn(ApproximateUnique.parse_input_params(size, error)))

    class PerKey(KeyedCombiner):
        """How many among each key's values.

        >>> import penstock as beam
        >>> [("k", "a"), ("k", "b"), ("k", "a")] | beam.ApproximateUnique.PerKey(size=16)
        [('k', 2)]
        """

        def __init__(self, size: int | None = None, error: float | None = None) -> None:
            super().__init__(ApproximateUniqueCombineFn(ApproximateUnique.parse_input_params(size, error)))
