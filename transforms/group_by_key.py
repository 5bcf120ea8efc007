"""GroupByKey (the paper's GroupByKeyAndWindow): the values of each key and window."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Tuple, TypeVar  # noqa: UP035

import attrs

from ..sdk import graph, typehints
from ..sdk.adapters import typehint_of
from ..sdk.combine_fn import CombineFn
from ..sdk.errors import EndlessGroupError, TypeHintError, UnsupportedError
from ..sdk.options import SetupOptions
from ..sdk.ptransform import PTransform
from ..sdk.pvalue import DoOutputsTuple, PCollection
from ..sdk.typehints.forms import constraint_of
from ..sdk.user_code.serialization import Serialized
from ..triggers import AccumulationMode, DataLossReason, DefaultTrigger, check_safe
from ..windowing.global_windows import GlobalWindows

if TYPE_CHECKING:
    from ..sdk.static_results import Groups

    K = TypeVar("K")
    V = TypeVar("V")

_LOGGER = logging.getLogger(__name__)


class GroupByKey(PTransform):
    """(key, value) pairs to (key, iterable of values), for each key and window.

    Returns a `PCollection[tuple[K, Iterable[V]]]` for pairs of K and V.

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

    if TYPE_CHECKING:
        _declares: None  # type: ignore[assignment]
        __ror__: Groups  # type: ignore[assignment]

    late_tag: str | None = None
    # Whether elements may be emitted as they arrive, and nothing looks at panes.
    only_shuffles: bool = False
    # Whether the elements are encrypted already.
    is_encrypted = False
    # The mode of this grouping, in place of its input's.
    accumulation_mode: AccumulationMode | None = None

    def default_label(self) -> str:
        return "GroupByKey"

    def with_late_data(self, tag: str = "late") -> PTransform[Any, Any]:
        """Return the transform with a second output: the elements that arrived after their window had expired."""
        grouping = GroupByKey(self._label)
        grouping.late_tag = tag
        return grouping

    def infer_output_type(self, input_type: Any) -> Any:
        """Return the type of groups, for elements of this type."""
        key, value = typehints.key_type(typehint_of(input_type)), typehints.value_type(typehint_of(input_type))
        return Tuple[key, Iterable[value]]  # type: ignore[valid-type]  # noqa: UP006

    def expand(self, pcoll: PCollection[tuple[K, V]]) -> PCollection[tuple[K, Iterable[V]]]:
        pair_types(pcoll)
        hint, mode = self.infer_output_type(pcoll.hint), self.accumulation_mode
        # With a tag for late data there are several.
        grouped: Any = add_grouping(pcoll, None, hint, self.late_tag, mode, self.only_shuffles, self.is_encrypted)
        return grouped  # type: ignore[no-any-return]


# The paper's name.
GroupByKeyAndWindow = GroupByKey


def add_grouping(
    pcoll: PCollection[Any],
    combine: Serialized[CombineFn[Any, Any, Any]] | None,
    element_type: Any,
    late_tag: str | None = None,
    accumulation_mode: AccumulationMode | None = None,
    only_shuffles: bool = False,
    is_encrypted: bool = False,
) -> PCollection[Any] | DoOutputsTuple[Any]:
    """Apply the primitive, and return its output, or with `late_tag` its output and the late data.

    `accumulation_mode` overrides the mode of the input for this grouping.

    Raises `UnsafeTriggerError` if the trigger may finish and drop data, and `EndlessGroupError` for the global window
    of an unbounded input with the default trigger, unless the option `--allow_unsafe_triggers` is given; and
    `UnsupportedError` for the option `--gbek`, unless the elements are encrypted.
    """
    pipeline, windowing = pcoll.pipeline, pcoll.windowing
    if not is_encrypted and pipeline.options.view_as(SetupOptions).gbek is not None:
        raise UnsupportedError(
            f"{pipeline.full_label}: --gbek, which encrypts all groupings, isn't supported; use GroupByEncryptedKey, "
            "with CombineValues behind it for an aggregation"
        )
    own = windowing if accumulation_mode is None else attrs.evolve(windowing, accumulation_mode=accumulation_mode)
    primitive = graph.GroupByKeyAndWindow(own, combine, only_shuffles=only_shuffles)
    _check_that_it_ends(pcoll)
    if windowing.trigger.may_lose_data(windowing) != DataLossReason.NO_POTENTIAL_LOSS:
        check_safe(windowing, pipeline.type_options.allow_unsafe_triggers, pipeline.full_label)
    # Groupings behind this one continue its trigger.
    after = attrs.evolve(windowing, trigger=windowing.trigger.continuation())
    if late_tag is None:
        return pipeline.add(primitive, [pcoll], after, element_type)[None]
    outputs = pipeline.add(primitive, [pcoll], after, element_type, (None, late_tag))
    late = outputs[late_tag]
    late.windowing, late.hint, late.retracted_by = windowing, pcoll.hint, pcoll.retracted_by
    late.retractable_for = None
    return DoOutputsTuple(outputs, None)


def _check_that_it_ends(pcoll: PCollection[Any]) -> None:
    windowing, pipeline = pcoll.windowing, pcoll.pipeline
    waits = isinstance(windowing.window_fn, GlobalWindows) and isinstance(windowing.trigger, DefaultTrigger)
    if pcoll.is_bounded or not waits:
        return
    read = pipeline.outline().unbounded_read_above(pcoll.id)
    # A TestStream ends.
    if read is None:
        return
    found = (
        f"{pipeline.full_label}: GroupByKey cannot be applied to an unbounded PCollection with global windowing and a "
        f"default trigger: {read.label} is unbounded, so that no group would ever be complete."
    )
    if not pipeline.type_options.allow_unsafe_triggers:
        raise EndlessGroupError(
            f"{found} Give it windows, or a trigger, by WindowInto before it; or allow it with the "
            "--allow_unsafe_triggers flag: groups are then emitted when the pipeline is drained."
        )
    _LOGGER.warning("%s This is allowed by --allow_unsafe_triggers.", found)


def pair_types(pcoll: PCollection[Any]) -> tuple[Any, Any]:
    """Return the types of a PCollection's keys and values.

    Raises `TypeHintError` if its elements are known not to be pairs.
    """
    label = pcoll.pipeline.full_label
    if typehints.is_definitely_not_pair(pcoll.hint):
        raise TypeHintError(
            f"Input type hint violation at {label}: expected Tuple[TypeVariable[K], TypeVariable[V]], "
            f"got {constraint_of(pcoll.hint)!r} (produced by the transform {pcoll.producer_label!r}); "
            "did you forget WithKeys, or a Map to a pair?"
        )
    return typehints.key_type(pcoll.hint), typehints.value_type(pcoll.hint)
