"""ApproximateUnique: the approximate number of distinct elements."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from ...sdk.coders.key_encoding import encode_key
from ...sdk.combine_fn import CombineFn
from ...sdk.errors import InvalidKeyError, PenstockError
from .distinct_sketch import DistinctSketch
from .globally_and_per_key import GlobalCombiner, KeyedCombiner

if TYPE_CHECKING:
    from ...sdk.pvalue import PCollection
    from ...sdk.static_results import CombinesGlobally, CombinesPerKey

    K = TypeVar("K")


class ApproximateUniqueCombineFn(CombineFn[Any, DistinctSketch, int]):
    """The approximate number of distinct elements, exact up to `sample_size` of them.

    Beyond, the relative error of the estimate is at most 2 / sqrt(sample_size) with 95% confidence.  Elements are equal
    if their encodings are.

    Args:
      sample_size: the least number of hashes to keep.
      coder: a deterministic coder of elements; by default the encoding of keys.

    >>> ApproximateUniqueCombineFn(16).apply(["a", "b", "a"])
    2
    """

    def __init__(self, sample_size: int, coder: Any = None) -> None:
        self._sample_size = sample_size
        self._coder = None if coder is None else coder.as_deterministic_coder("ApproximateUnique")
        # The size of the sketch is a power of two between 2 ** 5 and 2 ** 26.
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
        """Return the settings to show in a drawing of the pipeline."""
        return {"sample_size": self._sample_size}


def _encoded(element: Any) -> bytes:
    try:
        return encode_key(element)
    except InvalidKeyError as error:
        # Refused as a key, since it belongs to no group, but a valid element.
        if isinstance(element, float):
            return b"nan"
        raise PenstockError(
            f"ApproximateUnique compares elements as a grouping compares keys: {error}; or combine with "
            f"ApproximateUniqueCombineFn(size, coder), whose coder is deterministic"
        ) from None


class ApproximateUnique:
    """The approximate number of distinct elements.

    Either `size` is given, the number of elements up to which the result is exact (at least 16), or `error`, the
    largest relative error (0.01 to 0.5) with 95% confidence: an error of e is a size of 4 / e ** 2.

    >>> import penstock as beam
    >>> ["a", "b", "a", "c"] | beam.combiners.ApproximateUnique.Globally(size=16)
    [3]
    """

    # Messages of errors.
    _NO_VALUE_ERR_MSG: ClassVar[str] = "ApproximateUnique needs either a size or an error, got neither"
    _MULTI_VALUE_ERR_MSG: ClassVar[str] = "ApproximateUnique needs either a size or an error, got size=%s, error=%s"
    _INPUT_SIZE_ERR_MSG: ClassVar[str] = (
        "ApproximateUnique needs a whole size of 16 or more (the error is about 2 / sqrt(size)), got size=%s"
    )
    _INPUT_ERROR_ERR_MSG: ClassVar[str] = "ApproximateUnique needs an error between 0.01 and 0.5, got error=%s"

    @staticmethod
    def parse_input_params(size: int | None = None, error: float | None = None) -> int:
        """Return the sample size for these arguments.  Raises `ValueError` for invalid ones.

        >>> ApproximateUnique.parse_input_params(error=0.1)
        400
        """
        if size is not None and error is not None:
            raise ValueError(ApproximateUnique._MULTI_VALUE_ERR_MSG % (size, error))
        if size is not None:
            if not isinstance(size, int) or size < 16:
                raise ValueError(ApproximateUnique._INPUT_SIZE_ERR_MSG % (size,))
            return size
        if error is None:
            raise ValueError(ApproximateUnique._NO_VALUE_ERR_MSG)
        if not 0.01 <= error <= 0.5:
            raise ValueError(ApproximateUnique._INPUT_ERROR_ERR_MSG % (error,))
        return math.ceil(4 / error**2)

    class Globally(GlobalCombiner):
        """The number in a whole collection.

        Returns a `PCollection[int]`.

        >>> import penstock as beam
        >>> ["a", "b", "a"] | beam.ApproximateUnique.Globally(size=16)
        [2]
        """

        if TYPE_CHECKING:
            __ror__: CombinesGlobally[object, int]  # type: ignore[assignment]

            def expand(self, pcoll: PCollection[Any]) -> PCollection[int]: ...  # type: ignore[override]

        def __init__(self, size: int | None = None, error: float | None = None) -> None:
            super().__init__(ApproximateUniqueCombineFn(ApproximateUnique.parse_input_params(size, error)))

    class PerKey(KeyedCombiner):
        """The number among each key's values.

        Returns a `PCollection[tuple[K, int]]` for pairs with keys of type K.

        >>> import penstock as beam
        >>> [("k", "a"), ("k", "b"), ("k", "a")] | beam.ApproximateUnique.PerKey(size=16)
        [('k', 2)]
        """

        if TYPE_CHECKING:
            __ror__: CombinesPerKey[object, int]  # type: ignore[assignment]

            def expand(self, pcoll: PCollection[tuple[K, Any]]) -> PCollection[tuple[K, int]]: ...  # type: ignore[override]

        def __init__(self, size: int | None = None, error: float | None = None) -> None:
            super().__init__(ApproximateUniqueCombineFn(ApproximateUnique.parse_input_params(size, error)))
