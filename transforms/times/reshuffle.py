"""Reshuffle: redistribution of elements over the workers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, TypeVar

from ...sdk.coders.key_encoding import key_group
from ...sdk.coders.mixed_hash import bucket, pickled_hash
from ...sdk.columns.column_bundle import ColumnBundle
from ...sdk.dofn.batch_bundle import joined
from ...sdk.dofn.batched_dofn import BundleDoFn
from ...sdk.dofn.dofn import DoFn
from ...sdk.elements.bundle import BUNDLE_SIZE, GLOBAL_WINDOWS, Bundle, expanded, narrowed
from ...sdk.errors import ColumnError, InvalidKeyError
from ...sdk.process.task_name import is_task_named, worker_id
from ...sdk.ptransform import PTransform
from ...sdk.pvalue import PCollection
from ...triggers import ONLY_PANE, AccumulationMode, AfterCount, Repeatedly
from ...windowing import GlobalWindows
from ..assign_windows import WindowInto
from ..group_by_key import GroupByKey, pair_types
from ..par_do.map_and_filter import Map
from ..par_do.pardo import ParDo

if TYPE_CHECKING:
    from ...sdk.static_results import Keeps, KeepsPairs

    K = TypeVar("K")
    T = TypeVar("T")
    V = TypeVar("V")

# Columns of fewer elements are sent as elements.  A part costs as much as ten elements.
_MANY = 512
# Columns are cut into this many parts, of at least this many elements; and into more where they have more bytes.
_PARTS = 128
_ROWS_OF_A_PART = 16
_BYTES_OF_A_PART = 1 << 20


class Reshuffle(PTransform):
    """The elements with their timestamps and windows, after a shuffle.

    Returns a `PCollection[T]`, as its input is.

    The transforms behind it run with full parallelism, independent of the input's partitions, and aren't fused with the
    transforms before it.

    Retractions are passed on as they are, each behind its element: where the input may be retracted, pairs are
    distributed by their keys, and other elements by their contents.

    Args:
      num_buckets: the largest number of parts, by default 16,384.

    >>> import penstock as beam
    >>> sorted([3, 1, 2] | beam.Reshuffle())
    [1, 2, 3]
    """

    if TYPE_CHECKING:
        _declares: None  # type: ignore[assignment]
        __ror__: Keeps  # type: ignore[assignment]

    # Enough for an even distribution over a hundred workers, and few enough for several elements in a group.
    DEFAULT_BUCKETS = 1 << 14

    def __init__(self, num_buckets: int | None = None) -> None:
        super().__init__()
        if num_buckets is not None and (not isinstance(num_buckets, int) or num_buckets < 1):
            raise ValueError(
                f"Reshuffle: If `num_buckets` is set, it has to be an integer greater than 0, got {num_buckets!r}"
            )
        self.num_buckets = num_buckets or self.DEFAULT_BUCKETS

    def expand(self, pcoll: PCollection[T]) -> PCollection[T]:
        scatter = _Scatter(self.num_buckets, _is_plain(pcoll), bool(pcoll.retracted_by))
        keyed = pcoll | "AddRandomKeys" >> ParDo(scatter).with_output_types(tuple[int, Any])
        return _regrouped(keyed, pcoll, of_pairs=False)


class ReshufflePerKey(PTransform):
    """Pairs with their timestamps and windows, after a shuffle by key.

    Returns a `PCollection[tuple[K, V]]`, as its input is.

    Panes are kept as well, unless the input is in the default windowing.  Elements of an unbounded input are emitted on
    arrival.  Retractions are passed on as they are, each behind its element.

    >>> import penstock as beam
    >>> sorted([("a", 2), ("b", 3), ("a", 1)] | beam.ReshufflePerKey())
    [('a', 1), ('a', 2), ('b', 3)]
    """

    if TYPE_CHECKING:
        _declares: None  # type: ignore[assignment]
        __ror__: KeepsPairs  # type: ignore[assignment]

    def expand(self, pcoll: PCollection[tuple[K, V]]) -> PCollection[tuple[K, V]]:
        pair_types(pcoll)
        reify = _signed if pcoll.retracted_by else _with_micros if _is_plain(pcoll) else _reified
        return _regrouped(pcoll | "Reify" >> Map(reify).with_output_types(tuple[Any, Any]), pcoll, of_pairs=True)


def _is_plain(pcoll: PCollection[Any]) -> bool:
    """Return True if only the timestamps of elements have to be restored."""
    return pcoll.windowing.is_default() and pcoll.is_bounded and not pcoll.retracted_by


def _regrouped(keyed: PCollection[Any], pcoll: PCollection[Any], of_pairs: bool) -> PCollection[Any]:
    """Return the elements of `pcoll` after a shuffle.

    Args:
      keyed: pairs of a key and an element's properties.
      of_pairs: True if elements are pairs of the key and a value.
    """
    is_plain = _is_plain(pcoll)
    # A retraction is an element of the shuffle, with its sign among its properties.
    keyed.retracted_by = ""
    if not is_plain:
        # Elements don't wait for the end of a window, and none is late.
        keyed = keyed | "Globally" >> _globally(pcoll.is_bounded)
    restore = ParDo(_Restore(is_plain, of_pairs)).with_output_types(pcoll.hint)
    restored: PCollection[Any] = keyed | "Group" >> _Regroup() | "Restore" >> restore
    # The elements are in their former windows again, which the graph must record.
    restored.windowing, restored.retracted_by = pcoll.windowing, pcoll.retracted_by
    restored.retractable_for = pcoll.retractable_for
    return restored


def _globally(is_bounded: bool) -> PTransform:
    if is_bounded:
        return WindowInto(GlobalWindows())
    return WindowInto(GlobalWindows(), trigger=Repeatedly(AfterCount(1)), accumulation_mode=AccumulationMode.DISCARDING)


class _Regroup(GroupByKey):
    only_shuffles = True


class _Scatter(BundleDoFn):
    """Pairs of a bucket's number and an element with its properties, with the buckets in turn.

    The first element of a bundle decides the first bucket: bundles start at different buckets, and a recomputed bundle
    fills the same buckets.  In a task with a name, the name decides the first bucket of the task.

    Many columns are cut into parts, each of which is an element of the shuffle.  Their buckets have negative numbers.

    Elements that may be retracted are put into the buckets of their contents, so that a retraction stays behind its
    element.
    """

    def __init__(self, num_buckets: int, is_plain: bool, is_signed: bool = False) -> None:
        self.num_buckets = num_buckets
        self.is_plain = is_plain
        self.is_signed = is_signed
        # True if the buckets go on from bundle to bundle.
        self.is_counted = False

    def setup(self) -> None:
        self.is_counted = is_task_named()
        self.turn = int.from_bytes(worker_id()[:4], "little") if self.is_counted else -1

    def start_bundle(self) -> None:
        if not self.is_counted:
            self.turn = -1

    def outputs(self, bundle: Bundle) -> Iterator[Bundle]:
        parts = [] if self.is_signed else _parts_of(bundle)
        if parts:
            yield Bundle(
                [(~bucket, part) for bucket, part in zip(self._buckets(parts[0].part(0, 1), len(parts)), parts)]
            )
            return
        n = len(bundle)
        properties = [bundle.timestamps] if self.is_plain else [bundle.timestamps, bundle.windows, bundle.panes]
        if self.is_signed:
            properties.append(bundle.signs)
            buckets = [_bucket_of(value, self.num_buckets) for value in bundle.values]
        else:
            buckets = self._buckets(bundle, n)
        stamped = zip(bundle.values, *(expanded(column, n) for column in properties), strict=True)
        yield Bundle(list(zip(buckets, stamped, strict=True)))

    def process(
        self,
        element: Any,
        timestamp: Any = DoFn.TimestampParam,
        windowed: Any = DoFn.WindowedValueParam,
        sign: Any = DoFn.SignParam,
    ) -> Iterable[Any]:
        bundle = Bundle([element], timestamp.micros, windowed.windows, windowed.pane_info, sign)
        return [pair for output in self.outputs(bundle) for pair in output.values]

    def _buckets(self, bundle: Bundle, n: int) -> list[int]:
        """Return the next buckets; of a bundle's first elements, the first ones."""
        if self.turn < 0:
            self.turn = bucket(pickled_hash(bundle.values[0]), self.num_buckets)
        start, self.turn = self.turn + 1, self.turn + n
        return [turn % self.num_buckets for turn in range(start, start + n)]


def _bucket_of(value: Any, num_buckets: int) -> int:
    """Return the bucket of an element that may be retracted: by its key, else by its contents.

    An equal element has the same bucket in every process, and behind a snapshot.  Those that have no canonical encoding
    share the first one.

    >>> [_bucket_of(value, 1000) for value in (("a", 1), ("a", {2}), {"x": [1], "y": 2}, {"y": 2, "x": [1]}, object())]
    [929, 929, 4, 4, 0]
    """
    content = value[0] if type(value) is tuple and len(value) == 2 else value
    try:
        return key_group(_frozen(content), num_buckets)
    except (InvalidKeyError, TypeError, RecursionError):
        return 0


def _frozen(value: Any) -> Any:
    """Return a value with tuples for its lists and dicts, and frozensets for its sets."""
    kind = type(value)
    if kind is dict:
        return frozenset((key, _frozen(each)) for key, each in value.items())
    if kind is list or kind is tuple:
        return tuple(map(_frozen, value))
    return frozenset(value) if kind is set else value


def _parts_of(bundle: Bundle) -> list[ColumnBundle]:
    """Return columns in parts for the shuffle; nothing for elements, and for few columns."""
    n = len(bundle)
    if not isinstance(bundle, ColumnBundle) or bundle.has_given_elements or n < _MANY:
        return []
    try:
        bundle = bundle.in_columns()
    except ColumnError:
        return []
    number = max(min(_PARTS, n // _ROWS_OF_A_PART), min(n, bundle.batch.nbytes // _BYTES_OF_A_PART))
    return [bundle.part(i * n // number, (i + 1) * n // number) for i in range(number)]


class _Restore(BundleDoFn):
    """The elements of groups, with their properties.

    Args:
      is_plain: True if these are timestamps only; panes are those of complete groups then.
      of_pairs: True if elements are pairs with the key.
    """

    def __init__(self, is_plain: bool, of_pairs: bool) -> None:
        self.is_plain = is_plain
        self.of_pairs = of_pairs

    def outputs(self, bundle: Bundle) -> Iterator[Bundle]:
        groups = bundle.values
        if self.of_pairs:
            found: Iterator[Any] = (((key, item[0]), *item[1:]) for key, items in groups for item in items)
        else:
            parts = chain.from_iterable(parts for bucket, parts in groups if bucket < 0)
            for columns in joined(parts):
                if self.is_plain:
                    columns.panes = ONLY_PANE
                yield columns
            found = chain.from_iterable(items for bucket, items in groups if bucket >= 0)
        while chunk := list(islice(found, BUNDLE_SIZE)):
            values, *properties = map(list, zip(*chunk, strict=True))
            micros, *others = map(narrowed, properties)
            windows, panes, *signs = others or (GLOBAL_WINDOWS, ONLY_PANE)
            yield Bundle(values, micros, windows, panes, *signs)


def _with_micros(element: Any, timestamp: Any = DoFn.TimestampParam) -> Any:
    key, value = element
    return key, (value, timestamp.micros)


def _reified(
    element: Any,
    timestamp: Any = DoFn.TimestampParam,
    window: Any = DoFn.WindowParam,
    pane: Any = DoFn.PaneInfoParam,
) -> Any:
    key, value = element
    return key, (value, timestamp.micros, (window,), pane)


def _signed(
    element: Any,
    timestamp: Any = DoFn.TimestampParam,
    window: Any = DoFn.WindowParam,
    pane: Any = DoFn.PaneInfoParam,
    sign: Any = DoFn.SignParam,
) -> Any:
    key, value = element
    return key, (value, timestamp.micros, (window,), pane, sign)
