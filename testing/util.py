"""assert_that, and matchers of PCollections."""

from __future__ import annotations

import contextlib
import glob
import inspect
import math
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from io import BytesIO, TextIOWrapper
from itertools import chain, count
from pathlib import Path
from typing import IO, Any

from ..sdk.dofn.dofn import DoFn
from ..sdk.errors import PenstockError
from ..sdk.ptransform import PTransform
from ..sdk.pvalue import PCollection
from ..sdk.side_inputs import AsList
from ..transforms import Create, GroupByKey, Map, ParDo, WindowInto
from ..triggers import PaneInfo
from ..windowing import GlobalWindows, Timestamp
from .panes import PanesMatcher, ReifyPanes, TestPane

Matcher = Callable[[Any], None]


class PenstockAssertionError(PenstockError, AssertionError):
    """A PCollection does not match its `assert_that`."""

    # Compared values are shown without redaction, which might hide their difference.
    def __init__(self, *args: object) -> None:
        AssertionError.__init__(self, *args)


class TestWindowedValue:
    """An element as the matcher of `assert_that(..., reify_windows=True)` gets it.

    A pane of None equals any pane.

    >>> import penstock as beam
    >>> from penstock.testing import TestPipeline, TestWindowedValue, assert_that, equal_to
    >>> from penstock.window import FixedWindows, IntervalWindow, TimestampedValue
    >>> with TestPipeline() as p:
    ...     windowed = p | beam.Create([TimestampedValue("a", 7)]) | beam.WindowInto(FixedWindows(60))
    ...     expected = [TestWindowedValue("a", 7, [IntervalWindow(0, 60)])]
    ...     assert_that(windowed, equal_to(expected), reify_windows=True)
    """

    # Keep pytest from collecting it as a test.
    __test__ = False

    def __init__(self, value: Any, timestamp: Any, windows: Sequence[Any], pane_info: PaneInfo | None = None) -> None:
        self.value = value
        self.timestamp = Timestamp.of(timestamp)
        self.windows = list(windows)
        self.pane_info = pane_info

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TestWindowedValue):
            return NotImplemented
        if None not in (self.pane_info, other.pane_info) and self.pane_info != other.pane_info:
            return False
        mine, theirs = (self.value, self.timestamp, self.windows), (other.value, other.timestamp, other.windows)
        return mine == theirs

    # Equality isn't transitive, so there is no hash.
    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        pane = "" if self.pane_info is None else f", {self.pane_info}"
        return f"TestWindowedValue({self.value!r}, {self.timestamp}, {self.windows!r}{pane})"


def assert_that(
    actual: PCollection[Any],
    matcher: Matcher,
    label: str = "assert_that",
    reify_windows: bool = False,
    use_global_window: bool = True,
) -> None:
    """Call `matcher` with all elements of a PCollection when the pipeline runs.

    Args:
      matcher: raises if the list of elements doesn't match.  Retracted elements are removed from the list, and a
        failure lists all panes as well.  `equal_to_panes` compares all panes and signs.
      reify_windows: passes `TestWindowedValue`s instead of values.
      use_global_window: calls the matcher once with all elements; otherwise once for each window, with the pair of the
        window's elements and the window.

    A label that is taken gets a number: the second assertion is "assert_that_2".

    >>> from penstock.testing import TestPipeline, assert_that, equal_to
    >>> import penstock as beam
    >>> with TestPipeline() as p:
    ...     assert_that(p | beam.Create([2, 1]), equal_to([1, 2]))
    """
    if not isinstance(actual, PCollection):
        raise TypeError(f"assert_that: expected a PCollection, got {actual!r}")
    if isinstance(matcher, _PerWindow):
        reify_windows = use_global_window = True
    if actual.pipeline.result is not None:
        raise RuntimeError(f"{label}: the pipeline has run; assert_that belongs into the pipeline's with block")
    actual | _unused_label(actual, label) >> _AssertThat(matcher, reify_windows, use_global_window)


def _unused_label(pcoll: PCollection[Any], label: str) -> str:
    taken, around = pcoll.pipeline.applied_labels, pcoll.pipeline.full_label
    labels = chain([label], (f"{label}_{i}" for i in count(2)))
    return next(each for each in labels if "/".join(filter(None, [around, each])) not in taken)


class _AssertThat(PTransform):
    def __init__(self, matcher: Matcher, reify_windows: bool, use_global_window: bool) -> None:
        super().__init__()
        self.matcher = matcher
        self.reify_windows = reify_windows
        self.use_global_window = use_global_window

    def expand(self, pcoll: PCollection[Any]) -> PCollection[Any]:
        matcher = self.matcher
        if isinstance(matcher, PanesMatcher):
            panes = pcoll | "ReifyPanes" >> ParDo(ReifyPanes()) | "Global" >> WindowInto(GlobalWindows())
            once = pcoll.pipeline | "Once" >> Create([None])
            return once | "Match" >> Map(lambda _, panes: matcher(panes), AsList(panes))  # type: ignore[no-any-return]
        reified: list[PCollection[Any]] = []
        if pcoll.retracted_by and self.use_global_window:
            reified = [pcoll | "ReifyPanes" >> ParDo(ReifyPanes()) | "GlobalPanes" >> WindowInto(GlobalWindows())]
        if self.reify_windows:
            pcoll = pcoll | "Reify" >> ParDo(_ReifyWindows())
        if not self.use_global_window:
            grouped = pcoll | "ToVoidKey" >> Map(lambda value: (None, value)) | "Group" >> GroupByKey()
            return grouped | "Match" >> ParDo(_MatchWindow(matcher))
        everything = pcoll | "Global" >> WindowInto(GlobalWindows())
        return (  # type: ignore[no-any-return]
            pcoll.pipeline
            | "Once" >> Create([None])
            | "Match" >> Map(_match, matcher, AsList(everything), *map(AsList, reified))
        )


def _match(_: None, matcher: Matcher, elements: Any, panes: Sequence[TestPane] = ()) -> None:
    """Call the matcher; if an element was retracted, its failure lists all panes."""
    try:
        matcher(elements)
    except AssertionError as error:
        if all(pane.sign > 0 for pane in panes):
            raise
        shown = "; ".join(map(str, panes))
        raise PenstockAssertionError(
            f"{error}. Elements were retracted; the elements that are left are compared. All panes, with their signs: "
            f"{shown}. equal_to_panes(...) compares panes and signs"
        ) from None


class _ReifyWindows(DoFn):
    def process(
        self,
        element: Any,
        timestamp: Timestamp = DoFn.TimestampParam,
        window: Any = DoFn.WindowParam,
        pane_info: PaneInfo = DoFn.PaneInfoParam,
    ) -> Iterable[Any]:
        yield TestWindowedValue(element, timestamp, [window], pane_info)


class _MatchWindow(DoFn):
    def __init__(self, matcher: Matcher) -> None:
        self.matcher = matcher

    def process(self, element: Any, window: Any = DoFn.WindowParam) -> Iterable[Any]:
        _, values = element
        self.matcher((list(values), window))
        return ()


def row_namedtuple_equals_fn(
    expected: Any, actual: Any, fallback_equals_fn: Callable[[Any, Any], bool] | None = None
) -> bool:
    """Return whether two values are equal; a `Row` equals a named tuple with the same fields.

    >>> from collections import namedtuple
    >>> import penstock as beam
    >>> row_namedtuple_equals_fn(beam.Row(x=1), namedtuple("Point", ["x"])(1))
    True
    """
    mine, theirs = (getattr(type(value), "_asdict", None) for value in (expected, actual))
    if mine is None or theirs is None:
        return bool((fallback_equals_fn or operator.eq)(expected, actual))
    mine, theirs = mine(expected), theirs(actual)
    return mine.keys() == theirs.keys() and all(row_namedtuple_equals_fn(mine[name], theirs[name]) for name in mine)


def equal_to(expected: Iterable[Any], equals_fn: Callable[[Any, Any], bool] | None = None) -> Matcher:
    """Match equal elements, equally often, in any order.  `equals_fn(expected, actual)` may define equality.

    A `Row` equals a named tuple with the same fields.

    >>> equal_to([1, 2])([2, 1])
    >>> equal_to([1, 2])([1, 3])
    Traceback (most recent call last):
    penstock.testing.util.PenstockAssertionError: Failed assert: expected [1, 2], got [1, 3]: unexpected elements [3], \
missing elements [2]
    """
    expected = list(expected)
    equal = equals_fn or _equal

    def matches(actual: Any) -> None:
        missing, unexpected = _differences(expected, actual, equal)
        if missing or unexpected:
            raise _failure(expected, actual, missing, unexpected)

    return matches


def _equal(expected: Any, actual: Any) -> bool:
    return bool(expected == actual) or row_namedtuple_equals_fn(expected, actual)


def _differences(
    expected: Iterable[Any], actual: Iterable[Any], equal: Callable[[Any, Any], bool] = _equal
) -> tuple[list[Any], list[Any]]:
    """Return the missing and the unexpected elements."""
    missing, unexpected = dict(enumerate(expected)), []
    # Elements that are equal have the same hash.
    indices = _indices(missing) if equal is _equal else {}
    for element in actual:
        index = _index_of(element, indices, missing)
        if index is None:
            index = next((i for i, candidate in missing.items() if equal(candidate, element)), None)
        if index is None:
            unexpected.append(element)
        else:
            del missing[index]
    return list(missing.values()), unexpected


def _indices(elements: Mapping[int, Any]) -> dict[Any, list[int]]:
    """Return the indices of elements that have a hash."""
    indices: dict[Any, list[int]] = {}
    for index, element in elements.items():
        with contextlib.suppress(TypeError):
            indices.setdefault(element, []).append(index)
    return indices


def _index_of(element: Any, indices: Mapping[Any, list[int]], missing: Mapping[int, Any]) -> int | None:
    """Return the index of an equal element that is missing so far; None if the hash doesn't find it."""
    try:
        found = indices.get(element, [])
    except TypeError:
        return None
    while found:
        index = found.pop()
        # Not so for NaN.
        if index in missing and _equal(missing[index], element):
            return index
    return None


def equal_to_panes(expected: Iterable[TestPane]) -> Matcher:
    """Match equal panes, equally often, in any order: values with windows, pane infos, timestamps and signs.

    For `assert_that(pcoll, equal_to_panes([...]))`.  Attributes of an expected pane may be left out, see `TestPane`.

    >>> from penstock.testing import TestPane, TestPipeline, TestStream, assert_that, equal_to_panes
    >>> import penstock as beam
    >>> stream = TestStream().add_elements([1]).add_elements([2]).advance_watermark_to_infinity()
    >>> with TestPipeline() as p:
    ...     sums = p | stream | beam.WindowInto(
    ...         beam.window.GlobalWindows(),
    ...         trigger=beam.trigger.Repeatedly(beam.trigger.AfterCount(1)),
    ...         accumulation_mode=beam.trigger.AccumulationMode.RETRACTING,
    ...     ) | beam.CombineGlobally(sum).without_defaults()
    ...     assert_that(sums, equal_to_panes([TestPane(1), TestPane(1, sign=-1), TestPane(3)]))
    """
    expected = list(expected)
    for pane in expected:
        if not isinstance(pane, TestPane):
            raise TypeError(f"equal_to_panes: expected a TestPane(value, window, pane_info, sign), got {pane!r}")
    return PanesMatcher(equal_to(expected, TestPane.expects))


def _failure(expected: Any, actual: Any, missing: Any = (), unexpected: Any = ()) -> PenstockAssertionError:
    differences = [
        f"{kind} elements {list(elements)!r}"
        for kind, elements in (("unexpected", unexpected), ("missing", missing))
        if elements
    ]
    message = f"Failed assert: expected {expected!r}, got {list(actual)!r}"
    return PenstockAssertionError(": ".join(filter(None, [message, ", ".join(differences)])))


def equal_to_approx(expected: Iterable[Any], rel_tol: float = 1e-9, abs_tol: float = 0.0) -> Matcher:
    """Match like `equal_to`, with approximate floats, also within tuples, lists and dicts.

    >>> import penstock as beam
    >>> from penstock.testing import TestPipeline, assert_that, equal_to_approx
    >>> with TestPipeline() as p:
    ...     assert_that(p | beam.Create([0.1 + 0.2]), equal_to_approx([0.3]))
    """

    def close(a: Any, b: Any) -> bool:
        if isinstance(a, (float, int)) and isinstance(b, (float, int)):
            return math.isclose(a, b, rel_tol=rel_tol, abs_tol=abs_tol)
        if isinstance(a, (tuple, list)) and isinstance(b, (tuple, list)):
            return len(a) == len(b) and all(map(close, a, b))
        if isinstance(a, dict) and isinstance(b, dict):
            return a.keys() == b.keys() and all(close(a[k], b[k]) for k in a)
        return bool(a == b)

    return equal_to(expected, close)


class _PerWindow:
    """Matcher of `TestWindowedValue`s, by window."""

    def __init__(self, expected: Mapping[Any, Iterable[Any]]) -> None:
        self.expected = {window: list(elements) for window, elements in expected.items()}

    def __call__(self, actual: Any) -> None:
        by_window: dict[Any, list[Any]] = {window: [] for window in self.expected}
        for element in actual:
            by_window.setdefault(element.windows[0], []).append(element.value)
        unknown = {window: elements for window, elements in by_window.items() if window not in self.expected}
        if unknown:
            raise PenstockAssertionError(
                f"Failed assert: elements in windows {unknown!r} not found in any expected windows "
                f"{list(self.expected)!r}"
            )
        for window, elements in by_window.items():
            missing, unexpected = _differences(self.expected[window], elements)
            problems = [f"elements {unexpected!r} not found in window {window!r}"] if unexpected else []
            problems += [f"unmatched elements {missing!r} in window {window!r}"] if missing else []
            if problems:
                raise PenstockAssertionError(
                    f"Failed assert: expected {self.expected[window]!r}, got {elements!r}: {', '.join(problems)}"
                )


def equal_to_per_window(expected_window_to_elements: Mapping[Any, Iterable[Any]]) -> Matcher:
    """Match the elements of each window, with or without `reify_windows=True`.

    >>> from penstock.testing import TestPipeline, assert_that, equal_to_per_window
    >>> import penstock as beam
    >>> with TestPipeline() as p:
    ...     windowed = p | beam.Create([1, 2]) | beam.WindowInto(beam.window.GlobalWindows())
    ...     assert_that(windowed, equal_to_per_window({beam.window.GlobalWindow(): [1, 2]}))
    """
    return _PerWindow(expected_window_to_elements)


def matches_all(expected: Iterable[Matcher | Any]) -> Matcher:
    """Match elements or predicates, such as a hamcrest matcher's `matches`.

    >>> import penstock as beam
    >>> from penstock.testing import TestPipeline, assert_that, matches_all
    >>> class Even:
    ...     def matches(self, n):
    ...         return n % 2 == 0
    >>> with TestPipeline() as p:
    ...     assert_that(p | beam.Create([1, 12]), matches_all([1, Even()]))
    """

    def equal(candidate: Any, element: Any) -> bool:
        matches = getattr(candidate, "matches", None)
        if matches is not None:
            return bool(matches(element))
        return bool(candidate == element)

    return equal_to(list(expected), equal)


def is_empty() -> Matcher:
    """Match no elements.

    >>> import penstock as beam
    >>> from penstock.testing import TestPipeline, assert_that, is_empty
    >>> with TestPipeline() as p:
    ...     assert_that(p | beam.Create([1]) | beam.Filter(lambda n: n > 1), is_empty())
    """

    def matches(actual: Any) -> None:
        if list(actual):
            raise _failure([], actual)

    return matches


def is_not_empty() -> Matcher:
    """Match at least one element.

    >>> import penstock as beam
    >>> from penstock.testing import TestPipeline, assert_that, is_not_empty
    >>> with TestPipeline() as p:
    ...     assert_that(p | beam.Create([1]), is_not_empty())
    """

    def matches(actual: Any) -> None:
        if not list(actual):
            raise PenstockAssertionError("Failed assert: pcol is empty, expected at least one element")

    return matches


def _with_sorted_lists(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(map(_with_sorted_lists, value))
    if isinstance(value, dict):
        return {key: _with_sorted_lists(each) for key, each in value.items()}
    return sorted(value) if isinstance(value, Iterable) and not isinstance(value, (str, bytes)) else value


# Sorts lists and other iterables, also those in tuples and dictionaries, whose order a matcher would compare.
SortLists = Map(_with_sorted_lists)


def contains_in_any_order(iterable: Iterable[Any]) -> Any:
    """Return a value that equals any list or tuple of the same items in any order, for use in `equal_to`.

    >>> import penstock as beam
    >>> from penstock.testing import TestPipeline, assert_that, contains_in_any_order, equal_to
    >>> with TestPipeline() as p:
    ...     groups = p | beam.Create([("a", 1), ("a", 2)]) | beam.GroupByKey()
    ...     assert_that(groups, equal_to([("a", contains_in_any_order([2, 1]))]))
    """
    return _InAnyOrder(list(iterable))


class _InAnyOrder:
    def __init__(self, items: list[Any]) -> None:
        self.items = items

    def __eq__(self, other: object) -> bool:
        try:
            equal_to(self.items)(list(other))  # type: ignore[call-overload]
        except (PenstockAssertionError, TypeError):
            return False
        return True

    def __hash__(self) -> int:
        return hash(len(self.items))

    def __repr__(self) -> str:
        return f"contains_in_any_order({self.items!r})"


def has_at_least_one(input: PCollection[Any], criterion: Callable[..., bool], label: str = "has_at_least_one") -> None:
    """Fail the pipeline unless `criterion` holds for at least one element.

    `criterion` takes the element; or the element, its timestamp, its window and its pane, as Beam's does.

    >>> import penstock as beam
    >>> from penstock.testing import TestPipeline, has_at_least_one
    >>> with TestPipeline() as p:
    ...     has_at_least_one(p | beam.Create([1, 5]), lambda n: n > 3)
    """
    takes_all = _takes(criterion, 4)

    def matches(actual: Any) -> None:
        found = list(actual)
        if not any(criterion(*each) if takes_all else criterion(each[0]) for each in found):
            raise PenstockAssertionError(
                f"no element meets the criterion of {label!r}, among {[each[0] for each in found]!r}"
            )

    assert_that(input | _unused_label(input, f"{label}_reify") >> ParDo(_Reified()), matches, label)


class _Reified(DoFn):
    def process(
        self,
        element: Any,
        timestamp: Any = DoFn.TimestampParam,
        window: Any = DoFn.WindowParam,
        pane: Any = DoFn.PaneInfoParam,
    ) -> Any:
        yield element, timestamp, window, pane


def _takes(function: Callable[..., Any], count: int) -> bool:
    try:
        inspect.signature(function).bind(*range(count))
    except (TypeError, ValueError):
        return False
    return True


def open_shards(glob_pattern: str, mode: str = "rt", encoding: str | None = "utf-8") -> IO[Any]:
    """Return a file with the concatenated content of the files that match a pattern, in the order of their names.

    Args:
      glob_pattern: a path on the local disk, with `*`, `?` or `[...]`.
      mode: as of `open`: "rt", or "rb" for bytes.
      encoding: of text.

    >>> import pathlib, tempfile
    >>> directory = pathlib.Path(tempfile.mkdtemp())
    >>> _ = (directory / "out-0").write_text("a\\n"), (directory / "out-1").write_text("b\\n")
    >>> with open_shards(f"{directory}/out-*") as lines:
    ...     lines.readlines()
    ['a\\n', 'b\\n']
    """
    content = b"".join(Path(shard).read_bytes() for shard in sorted(glob.glob(glob_pattern)))
    whole = BytesIO(content)
    return whole if "b" in mode else TextIOWrapper(whole, encoding=encoding)
