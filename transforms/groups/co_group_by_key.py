"""CoGroupByKey: the values of several PCollections for each key."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import reduce
from types import GenericAlias
from typing import TYPE_CHECKING, Any, Tuple, TypeVar, Union, overload  # noqa: UP035

import attrs

from ...sdk import typehints
from ...sdk.columns.column_bundle import ColumnBundle
from ...sdk.columns.expressions import Rearrangement
from ...sdk.dofn.arrangement import FIRST, SECOND, ArrangementDoFn, Constant
from ...sdk.dofn.dofn import DoFn, MapDoFn
from ...sdk.errors import InputError, PipelineError
from ...sdk.ptransform import PTransform
from ...sdk.pvalue import PBegin, PCollection
from ..create import Create
from ..flatten import Flatten
from ..group_by_key import GroupByKey, pair_types
from ..par_do.pardo import ParDo

if TYPE_CHECKING:
    K = TypeVar("K")
    Tag = TypeVar("Tag")
    V = TypeVar("V")
    V1 = TypeVar("V1")
    V2 = TypeVar("V2")
    V3 = TypeVar("V3")
    V4 = TypeVar("V4")


class CoGroupByKey(PTransform):
    """Pairs of several PCollections to (key, values of each), for each key and window.

    Returns a `PCollection[tuple[K, dict[str, list]]]` for a dict, and a `PCollection[tuple[K, tuple[list, ...]]]` for
    others.

    For a dict of PCollections, the values are a dict from its keys to lists; for a tuple or list, a tuple of lists. The
    list of a PCollection without the key is empty.

    Args:
      pipeline: the pipeline, needed only if there may be no PCollection.

    Raises `TypeHintError` if the elements of an input are known not to be pairs, and `PipelineError` if the inputs are
    windowed differently.

    >>> import penstock as beam
    >>> with beam.Pipeline() as p:
    ...     emails = p | "emails" >> beam.Create([("amy", "amy@example.com")])
    ...     phones = p | "phones" >> beam.Create([("amy", "111"), ("amy", "222"), ("carl", "444")])
    ...     _ = {"emails": emails, "phones": phones} | beam.CoGroupByKey() | beam.Map(print)
    ('amy', {'emails': ['amy@example.com'], 'phones': ['111', '222']})
    ('carl', {'emails': [], 'phones': ['444']})
    """

    def __init__(self, *, pipeline: Any = None) -> None:
        super().__init__()
        self.pipeline = pipeline

    if TYPE_CHECKING:

        @overload  # type: ignore[override]
        def __ror__(
            self, left: tuple[PCollection[tuple[K, V1]], PCollection[tuple[K, V2]]]
        ) -> PCollection[tuple[K, tuple[list[V1], list[V2]]]]: ...
        @overload
        def __ror__(
            self, left: tuple[PCollection[tuple[K, V1]], PCollection[tuple[K, V2]], PCollection[tuple[K, V3]]]
        ) -> PCollection[tuple[K, tuple[list[V1], list[V2], list[V3]]]]: ...
        @overload
        def __ror__(  # type: ignore[overload-overlap]
            self, left: Mapping[Tag, PCollection[tuple[K, object]]]
        ) -> PCollection[tuple[K, dict[Tag, list[Any]]]]: ...
        @overload
        def __ror__(self, left: Iterable[PCollection[tuple[K, V]]]) -> PCollection[tuple[K, tuple[list[V], ...]]]: ...
        # Values of keys, as they are.
        @overload
        def __ror__(self, left: Mapping[Any, Iterable[Any]] | Iterable[Iterable[Any]]) -> Any: ...
        def __ror__(self, left: Any) -> Any: ...

    @overload
    def expand(
        self, pcolls: tuple[PCollection[tuple[K, V1]], PCollection[tuple[K, V2]]]
    ) -> PCollection[tuple[K, tuple[list[V1], list[V2]]]]: ...
    @overload
    def expand(
        self, pcolls: tuple[PCollection[tuple[K, V1]], PCollection[tuple[K, V2]], PCollection[tuple[K, V3]]]
    ) -> PCollection[tuple[K, tuple[list[V1], list[V2], list[V3]]]]: ...
    @overload
    def expand(  # type: ignore[overload-overlap]
        self, pcolls: Mapping[Tag, PCollection[tuple[K, object]]]
    ) -> PCollection[tuple[K, dict[Tag, list[Any]]]]: ...
    @overload
    def expand(self, pcolls: Iterable[PCollection[tuple[K, V]]]) -> PCollection[tuple[K, tuple[list[V], ...]]]: ...
    def expand(self, pcolls: Any) -> Any:
        if isinstance(pcolls, PBegin):
            return pcolls | Create([])
        if isinstance(pcolls, PCollection):
            raise InputError(
                f"{self.label}: expected a dict or a tuple of PCollections, got one; did you forget a comma?"
            )
        tags = list(pcolls) if isinstance(pcolls, Mapping) else None
        inputs = list(pcolls.values()) if isinstance(pcolls, Mapping) else list(pcolls)
        names = [str(tag) for tag in (tags if tags is not None else range(len(inputs)))]
        for name, pcoll in zip(names, inputs):
            if not isinstance(pcoll, PCollection):
                raise PipelineError(f"{self.label}: expected PCollections, got {pcoll!r} for {name!r}")
        keys, values = zip(*(pair_types(pcoll) for pcoll in inputs))
        tagged = [pcoll | f"Tag[{name}]" >> ParDo(tagging(i)) for i, (name, pcoll) in enumerate(zip(names, inputs))]
        grouped = tagged | Flatten() | GroupByKey()
        lists = tuple(GenericAlias(list, (value,)) for value in values)
        key: Any = reduce(lambda a, b: Union[a, b], keys)  # noqa: UP007
        hint = typehints.pair_of(key, Tuple[lists] if tags is None else dict)  # noqa: UP006
        collect = MapDoFn(_collector(len(inputs), tags))
        known, n = None if tags is None else tuple(tags), len(inputs)

        def collected(batch: Any, of: Any) -> tuple[Any, Any]:
            from ...sdk.columns.column_groups import Collected

            return batch, attrs.evolve(of, values=Collected(of.values, n, known))

        collect.column_operation = _Collecting(collected)
        return grouped | "Collect" >> ParDo(collect).with_output_types(hint)


def tagging(i: int) -> DoFn:
    """Return the DoFn from (key, value) to (key, (i, value))."""
    dofn = ArrangementDoFn((FIRST, (Constant(i), SECOND)), "Tag")

    def tagged(batch: Any, of: Any) -> tuple[Any, Any]:
        from ...sdk.columns.column_groups import Tagged

        return batch, attrs.evolve(of, values=Tagged(i, of.values))

    dofn.column_operation = Rearrangement(tagged)
    return dofn


class _Collecting(Rearrangement):
    """Operation on columns: the function of `_collector`."""

    def takes(self, bundle: ColumnBundle) -> bool:
        from ...sdk.columns.column_groups import Lists

        return super().takes(bundle) and isinstance(bundle.elements.values, Lists)  # type: ignore[attr-defined]


def _collector(n: int, tags: list[Any] | None) -> Any:
    """Return the function from (key, tagged values) to (key, values of each input)."""

    def collected(element: Any) -> tuple[Any, Any]:
        key, tagged = element
        slots: list[list[Any]] = [[] for _ in range(n)]
        for i, value in tagged:
            slots[i].append(value)
        return key, (tuple(slots) if tags is None else dict(zip(tags, slots)))

    return collected
