"""Hot-key fanout: one key's values combined in several parts, then the parts."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from typing import Any

from ..sdk.combine_fn import CombineFn
from ..sdk.dofn import DoFn, ExpressionDoFn
from ..sdk.ptransform import PTransform
from ..sdk.pvalue import PCollection
from ..sdk.serialization import Serialized
from .group_by_key import add_grouping
from .pardo import ParDo


class WithHotKeyFanout(PTransform):
    """What `CombinePerKey(...).with_hot_key_fanout(n)` applies."""

    def __init__(self, fn: CombineFn[Any, Any, Any], fanout: int | Callable[[Any], int], label: str) -> None:
        super().__init__(label)
        if not callable(fanout) and fanout < 1:
            raise ValueError(f"with_hot_key_fanout: the fanout must be at least 1, got {fanout!r}")
        self.fn = fn
        self.fanout = fanout

    def expand(self, pcoll: PCollection[Any]) -> PCollection[Any]:
        return (  # type: ignore[no-any-return]
            pcoll
            | "Spread" >> ParDo(_Spread(self.fanout))
            | "PreCombine" >> _Combine(_PreCombineFn(self.fn))
            | "Gather" >> ParDo(ExpressionDoFn("(v[0][0], v[1])", "Gather", plain=True))
            | "PostCombine" >> _Combine(_PostCombineFn(self.fn))
        )


class _Combine(PTransform):
    def __init__(self, fn: CombineFn[Any, Any, Any]) -> None:
        super().__init__()
        self.fn = fn

    def expand(self, pcoll: PCollection[Any]) -> Any:
        fn = Serialized(self.fn, pcoll.pipeline.full_label)
        return add_grouping(pcoll, fn, Any)


class _Spread(DoFn):
    """(key, value) to ((key, part), value), the parts in turn."""

    def __init__(self, fanout: int | Callable[[Any], int]) -> None:
        self.fanout = fanout

    def setup(self) -> None:
        self.turn = random.randrange(1 << 16)

    def process(self, element: Any) -> Iterable[Any]:
        key, value = element
        fanout = self.fanout(key) if callable(self.fanout) else self.fanout
        self.turn += 1
        yield (key, self.turn % fanout), value


class _PreCombineFn(CombineFn[Any, Any, Any]):
    """The same combiner, stopping at the accumulator."""

    def __init__(self, fn: CombineFn[Any, Any, Any]) -> None:
        self.fn = fn
        self.setup = fn.setup  # type: ignore[method-assign]
        self.create_accumulator = fn.create_accumulator  # type: ignore[method-assign]
        self.add_input = fn.add_input  # type: ignore[method-assign]
        self.merge_accumulators = fn.merge_accumulators  # type: ignore[method-assign]
        self.compact = fn.compact  # type: ignore[method-assign]
        self.teardown = fn.teardown  # type: ignore[method-assign]

    def extract_output(self, accumulator: Any, *args: Any, **kwargs: Any) -> Any:
        return self.fn.compact(accumulator)


class _PostCombineFn(_PreCombineFn):
    """The same combiner, of accumulators."""

    def __init__(self, fn: CombineFn[Any, Any, Any]) -> None:
        super().__init__(fn)
        self.extract_output = fn.extract_output  # type: ignore[method-assign]
        self.add_input = self._merge  # type: ignore[method-assign]

    def _merge(self, accumulator: Any, element: Any) -> Any:
        return self.fn.merge_accumulators([accumulator, element])
