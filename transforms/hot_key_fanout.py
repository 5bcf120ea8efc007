"""Hot-key fanout: one key's values combined in several parts, then the parts."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from operator import index
from typing import Any

from ..sdk.combine_fn import CombineFn
from ..sdk.dofn.arrangement import SECOND, ArrangementDoFn, Part
from ..sdk.dofn.dofn import DoFn
from ..sdk.process.task_name import worker_id
from ..sdk.ptransform import PTransform
from ..sdk.pvalue import DoOutputsTuple, PCollection
from ..sdk.user_code.serialization import Serialized
from ..triggers import AccumulationMode
from .group_by_key import add_grouping
from .par_do.pardo import ParDo

Fanout = int | Callable[[Any], int]


class WithHotKeyFanout(PTransform):
    """Transform of `CombinePerKey(...).with_hot_key_fanout(n)`.

    Panes of the parts are inputs of the second step, so the first step discards emitted elements in every accumulation
    mode.  Inputs with retractions are combined in one step, since a part can't retract a discarded input.

    Args:
      plain: the transform in one step.
      fn: its combiner; None if it takes side inputs, which are available only after the shuffle.
      late_tag: the tag of late data, or None.
    """

    def __init__(
        self,
        plain: PTransform,
        fn: CombineFn[Any, Any, Any] | None,
        fanout: Fanout,
        late_tag: str | None,
        label: str,
    ) -> None:
        super().__init__(label)
        self.plain = plain
        self.fn = fn
        self.fanout = fanout if callable(fanout) else checked_fanout(fanout, "with_hot_key_fanout: the fanout")
        self.late_tag = late_tag

    def element_types(self) -> tuple[Any, Any]:
        accepted, produced = super().element_types()
        of_plain = self.plain.element_types()
        return of_plain[0] if accepted is None else accepted, of_plain[1] if produced is None else produced

    def expand(self, pcoll: PCollection[Any]) -> Any:
        is_one_step = not callable(self.fanout) and self.fanout <= 1
        if self.fn is None or is_one_step or pcoll.retracted_by:
            return self.plain.expand(pcoll)
        parts = pcoll | "Spread" >> ParDo(_Spread(self.fanout)) | "PreCombine" >> _PreCombine(self.fn, self.late_tag)
        pre_combined = parts if self.late_tag is None else parts[None]
        combined = pre_combined | "Gather" >> _gather("Gather") | "PostCombine" >> _PostCombine(self.fn)
        if self.late_tag is None:
            return combined
        late = parts[self.late_tag] | "GatherLate" >> _gather("GatherLate")
        late.hint = pcoll.hint
        return DoOutputsTuple({None: combined, self.late_tag: late}, None)


def checked_fanout(fanout: Any, what: str) -> int:
    """Return a fanout.  Raises `ValueError` if it isn't a number of parts; 0 and 1 both mean no fanout."""
    try:
        number = index(fanout)
    except TypeError:
        number = -1
    if number < 0 or isinstance(fanout, bool):
        raise ValueError(f"{what} must be an int of at least 0 (0 and 1: no fanout), got {fanout!r}")
    return number


def _gather(label: str) -> PTransform:
    return ParDo(ArrangementDoFn((Part((0, 0)), SECOND), label))


class _PreCombine(PTransform):
    """The first step: inputs to accumulators, by key and part."""

    def __init__(self, fn: CombineFn[Any, Any, Any], late_tag: str | None) -> None:
        super().__init__()
        self.fn = fn
        self.late_tag = late_tag

    def expand(self, pcoll: PCollection[Any]) -> Any:
        pre: CombineFn[Any, Any, Any] = _PreCombineFn(self.fn)
        fn = Serialized(pre, pcoll.pipeline.full_label)
        return add_grouping(pcoll, fn, Any, self.late_tag, accumulation_mode=AccumulationMode.DISCARDING)


class _PostCombine(PTransform):
    """The second step: accumulators to results, by key."""

    def __init__(self, fn: CombineFn[Any, Any, Any]) -> None:
        super().__init__()
        self.fn = fn

    def expand(self, pcoll: PCollection[Any]) -> Any:
        post: CombineFn[Any, Any, Any] = _PostCombineFn(self.fn)
        return add_grouping(pcoll, Serialized(post, pcoll.pipeline.full_label), Any)


class _Spread(DoFn):
    """(key, value) to ((key, part), value), the parts in turn."""

    def __init__(self, fanout: Fanout) -> None:
        self.fanout = fanout

    def setup(self) -> None:
        # Workers begin with different parts.
        self.turn = int.from_bytes(worker_id()[:2], "little")

    def process(self, element: Any) -> Iterable[Any]:
        key, value = element
        if callable(self.fanout):
            fanout = checked_fanout(self.fanout(key), f"with_hot_key_fanout: the fanout of the key {key!r}")
        else:
            fanout = self.fanout
        self.turn += 1
        yield (key, self.turn % (fanout or 1)), value


class _PreCombineFn(CombineFn[Any, Any, Any]):
    """The combiner with accumulators as output."""

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
    """The combiner with accumulators as input."""

    def __init__(self, fn: CombineFn[Any, Any, Any]) -> None:
        super().__init__(fn)
        self.extract_output = fn.extract_output  # type: ignore[method-assign]
        self.add_input = self._merge  # type: ignore[method-assign]

    def _merge(self, accumulator: Any, element: Any) -> Any:
        return self.fn.merge_accumulators([accumulator, element])
