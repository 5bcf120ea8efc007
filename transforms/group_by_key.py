"""GroupByKeyAndWindow (Beam's GroupByKey): the values of each key and window, together."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Tuple  # noqa: UP035

from ..sdk import graph, typehints
from ..sdk.errors import TypeHintError
from ..sdk.ptransform import PTransform
from ..sdk.pvalue import PCollection


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

    def default_label(self) -> str:
        return "GroupByKey"

    def expand(self, pcoll: PCollection[Any]) -> PCollection[Any]:
        key, value = pair_types(pcoll)
        hint = Tuple[key, Iterable[value]]  # type: ignore[valid-type]  # noqa: UP006
        windowing = pcoll.windowing
        return pcoll.pipeline.add(graph.GroupByKeyAndWindow(windowing), [pcoll], windowing, hint)[None]


GroupByKey = GroupByKeyAndWindow


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
