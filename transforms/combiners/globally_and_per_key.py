"""A combiner of this library as two transforms: over a whole collection, and for each key."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...sdk.combine_fn import CombineFn
from ..combine import CombineGlobally, CombinePerKey


class GlobalCombiner(CombineGlobally[Any]):
    """`CombineGlobally` of a given combiner; `has_defaults` as in `with_defaults`."""

    if TYPE_CHECKING:
        # A subclass says what its combiner's result is.
        def expand(self, pcoll: Any) -> Any: ...

    def __init__(self, fn: CombineFn[Any, Any, Any], has_defaults: bool = True) -> None:
        super().__init__(fn)
        self.has_defaults = has_defaults

    def default_label(self) -> str:
        return type(self).__qualname__


class KeyedCombiner(CombinePerKey[Any]):
    """`CombinePerKey` of a given combiner."""

    if TYPE_CHECKING:
        # A subclass says what its combiner's result is.
        def expand(self, pcoll: Any) -> Any: ...

    def __init__(self, fn: CombineFn[Any, Any, Any], label: str | None = None) -> None:
        super().__init__(fn)
        self._label = label

    def default_label(self) -> str:
        return type(self).__qualname__
