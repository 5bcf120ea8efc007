"""ToDict: a collection of (key, value) pairs as one dict."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, TypeVar

from ...sdk.combine_fn import CombineFn
from ...sdk.typehints import key_type, value_type, with_input_types
from .globally_and_per_key import GlobalCombiner

if TYPE_CHECKING:
    from ...sdk.pvalue import PCollection
    from ...sdk.static_results import MakesDicts

    K = TypeVar("K")
    V = TypeVar("V")


@with_input_types(tuple[Any, Any])
class ToDictCombineFn(CombineFn[tuple[Any, Any], dict[Any, Any], dict[Any, Any]]):
    """The pairs as a dict, with any one of several values of a key.

    >>> ToDictCombineFn().apply([("a", 1), ("b", 2)])
    {'a': 1, 'b': 2}
    """

    output_is_accumulator = True

    def create_accumulator(self) -> dict[Any, Any]:
        return {}

    def add_input(self, accumulator: dict[Any, Any], element: tuple[Any, Any]) -> dict[Any, Any]:
        key, value = element
        accumulator[key] = value
        return accumulator

    def add_inputs(self, accumulator: dict[Any, Any], elements: Iterable[tuple[Any, Any]]) -> dict[Any, Any]:
        accumulator.update(elements)
        return accumulator

    def merge_accumulators(self, accumulators: Iterable[dict[Any, Any]]) -> dict[Any, Any]:
        merged: dict[Any, Any] = {}
        for accumulator in accumulators:
            merged.update(accumulator)
        return merged

    def infer_output_type(self, input_type: Any) -> Any:
        return dict[key_type(input_type), value_type(input_type)]  # type: ignore[misc]

    def extract_output(self, accumulator: dict[Any, Any]) -> dict[Any, Any]:
        return accumulator


class ToDict(GlobalCombiner):
    """The (key, value) pairs of a collection as one dict, with any one of several values of a key.

    Returns a `PCollection[dict[K, V]]` for pairs of K and V.

    >>> import penstock as beam
    >>> [("a", 1), ("b", 2)] | beam.combiners.ToDict()
    [{'a': 1, 'b': 2}]
    """

    if TYPE_CHECKING:
        __ror__: MakesDicts  # type: ignore[assignment]

        def expand(self, pcoll: PCollection[tuple[K, V]]) -> PCollection[dict[K, V]]: ...  # type: ignore[override]

    def __init__(self, has_defaults: bool = True) -> None:
        super().__init__(ToDictCombineFn(), has_defaults)
