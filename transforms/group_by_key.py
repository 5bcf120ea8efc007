"""GroupByKeyAndWindow (Beam's GroupByKey): the values of each key and window, together."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Tuple  # noqa: UP035

import attrs

from ..sdk import graph, typehints
from ..sdk.combine_fn import CombineFn
from ..sdk.errors import TypeHintError
from ..sdk.options import TypeOptions
from ..sdk.ptransform import PTransform
from ..sdk.pvalue import DoOutputsTuple, PCollection
from ..sdk.serialization import Serialized
from ..triggers import check_safe


class GroupByKeyAndWindow(PTransform):
    """(key, value) pairs to (key, iterable of values), for each key and window.

    The paper's five steps: DropTimestamps, GroupByKey, MergeWindows, GroupAlsoByWindow,
    ExpandToElements.  Keys need a hash and a deterministic encoding; an element that is not
    a pair is an error.  Source: Dataflow Model, section 2.2.

    >>> import penstock as beam
    >>> with beam.Pipeline() as p:
    ...     pairs = p | beam.Create([("a", 1), ("b", 2), ("a", 3)])
    ...     _ = pairs | beam.GroupByKey() | beam.MapTuple(lambda k, vs: (k, sorted(vs))) | beam.Map(print)
    ('a', [1, 3])
    ('b', [2])
    """

    late_tag: str | None = None

    def default_label(self) -> str:
        return "GroupByKey"

    def with_late_data(self, tag: str = "late") -> PTransform:
        """The same with a second output: the elements that came when their window had expired."""
        grouping = GroupByKeyAndWindow(self._label)
        grouping.late_tag = tag
        return grouping

    def expand(self, pcoll: PCollection[Any]) -> Any:
        key, value = pair_types(pcoll)
        hint = Tuple[key, Iterable[value]]  # type: ignore[valid-type]  # noqa: UP006
        return add_grouping(pcoll, None, hint, self.late_tag)


GroupByKey = GroupByKeyAndWindow


def add_grouping(
    pcoll: PCollection[Any],
    combine: Serialized[CombineFn[Any, Any, Any]] | None,
    element_type: Any,
    late_tag: str | None = None,
) -> PCollection[Any] | DoOutputsTuple:
    """The primitive, applied: its output, or with `late_tag` its output and the late data.

    Raises `UnsafeTriggerError` if the trigger might leave data behind, unless the option
    `--allow_unsafe_triggers` is given.
    """
    pipeline, windowing = pcoll.pipeline, pcoll.windowing
    primitive = graph.GroupByKeyAndWindow(windowing, combine)
    check_safe(windowing, pipeline.options.view_as(TypeOptions).allow_unsafe_triggers, pipeline.full_label)
    # What this grouping's trigger has let through, one after it is to pass on.
    after = attrs.evolve(windowing, trigger=windowing.trigger.continuation())
    if late_tag is None:
        return pipeline.add(primitive, [pcoll], after, element_type)[None]
    outputs = pipeline.add(primitive, [pcoll], after, element_type, (None, late_tag))
    late = outputs[late_tag]
    late.windowing, late.element_type, late.retracted_by = windowing, pcoll.element_type, pcoll.retracted_by
    return DoOutputsTuple(outputs, None)


def pair_types(pcoll: PCollection[Any]) -> tuple[Any, Any]:
    """The types of a PCollection's keys and values.

    Raises `TypeHintError` when its elements are known not to be pairs.
    """
    label = pcoll.pipeline.full_label
    if typehints.is_definitely_not_pair(pcoll.element_type):
        raise TypeHintError(
            f"{label} takes (key, value) pairs, but {pcoll.producer} produces "
            f"{typehints.describe(pcoll.element_type)}; did you forget WithKeys, or a Map to a pair?"
        )
    return typehints.key_type(pcoll.element_type), typehints.value_type(pcoll.element_type)
