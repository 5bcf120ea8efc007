"""Functions that kernels call."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ....sdk.dofn.arrangement import ArrangementDoFn
from ....sdk.dofn.signature import called_function
from ....sdk.elements.defensive_copy import IMMUTABLE, defensive_copy
from ....sdk.elements.element_wrappers import SPECIAL_TYPES, WindowedValue
from ....windowing import TimestampedValue, WindowFn, checked_windows
from ....windowing.buckets import bucketing
from ....windowing.timestamp import Timestamp, micros_of
from ....windowing.timestamp_combiner import TimestampCombiner, for_element
from ..user_errors import pair_type, shortened
from .descriptions import FoldOperation, Operation, WindowOperation
from .folds import MISSING, names_of_combiner

# The number of timestamp buckets whose windows a stage caches.
_REMEMBERED_BUCKETS = 1_000


def names_of(i: int, operation: Operation) -> Mapping[str, Any]:
    """Return the globals of operation `i`."""
    if isinstance(operation, WindowOperation):
        return _window_names(i, operation.window_fn)
    if isinstance(operation.fn, ArrangementDoFn):
        return {}
    arguments = {f"a{i}_{j}": argument.value for j, argument in enumerate(operation.arguments)}
    return {f"f{i}": called_function(operation.fn), **arguments}


def names_of_fold(fold: FoldOperation) -> Mapping[str, Any]:
    """Return the globals of a fold."""
    return {**names_of_combiner(fold.combine_fn), "transformed": _transformed(fold.window_fn)}


def _window_names(i: int, window_fn: WindowFn) -> Mapping[str, Any]:
    if not window_fn.depends_only_on_timestamp:

        def assign(value: Any, micros: int, windows: Any) -> Any:
            context = WindowFn.AssignContext(Timestamp.of_micros(micros), value, windows[0] if windows else None)
            return checked_windows(window_fn, window_fn.assign_windows(context))

        return {f"assign{i}": assign}
    cache: dict[Any, Any] = {}

    def remember(bucket: Any, micros: int) -> Any:
        if len(cache) >= _REMEMBERED_BUCKETS:
            cache.clear()
        windows = cache[bucket] = window_fn.assign_micros(micros)
        return windows

    bucket_of = bucketing(window_fn)
    return {
        f"assign{i}": window_fn.assign_micros,
        f"bucket_of{i}": bucket_of,
        f"cache{i}": cache,
        f"remember{i}": remember,
    }


def _transformed(window_fn: WindowFn) -> Callable[[Any, int], int | None]:
    def transformed(window: Any, micros: int) -> int | None:
        return for_element(TimestampCombiner.OUTPUT_AT_EARLIEST_TRANSFORMED, window, micros, window_fn)

    return transformed


def windowed_value(value: Any, micros: int, windows: Any, pane: Any) -> WindowedValue:
    """Return the value of `DoFn.WindowedValueParam`, whose windows are a list, as in Beam."""
    windowed = WindowedValue(value, Timestamp.of_micros(micros), (), pane)
    windowed.windows = list(windows)  # type: ignore[assignment]
    return windowed


def iterable_type(result: Any) -> type:
    """Return the type of the outputs that a DoFn's method has returned.

    Raises `TypeError` if that isn't an iterable, or is one that is hardly meant as outputs.

    >>> iterable_type([1, 2])
    <class 'list'>
    """
    if isinstance(result, (str, bytes, dict)):
        raise TypeError(
            f"Returning a {type(result).__name__} from a ParDo or FlatMap is not allowed: the function must return an "
            f"iterable of outputs, got the {type(result).__name__} {shortened(result)}; "
            "return a list of it, or use Map"
        )
    return function_type(result)


def function_type(result: Any) -> type:
    """Return the type of the outputs that the function of a FlatMap has returned; those of a string are characters.

    Raises `TypeError` if that isn't an iterable.

    >>> function_type("ab")
    <class 'str'>
    """
    if result is not None and not hasattr(result, "__iter__") and not hasattr(result, "__getitem__"):
        is_async = hasattr(result, "__await__") or hasattr(result, "__aiter__")
        instead = "declare the function itself async, or use AsyncMap" if is_async else "did you mean Map?"
        raise TypeError(
            f"FlatMap and ParDo must return an iterable of outputs or None, got {shortened(result)}; {instead} "
            f"{type(result).__name__!r} object is not iterable"
        )
    return type(result)


def _out_of_range(seconds: Any) -> None:
    Timestamp.of(seconds)
    raise ValueError(f"the timestamp {seconds!r} is out of range")


# The globals of all stages.
NAMES: Mapping[str, Any] = {
    "IMMUTABLE": IMMUTABLE,
    "MISSING": MISSING,
    "SPECIAL": SPECIAL_TYPES,
    "TIMESTAMPED": TimestampedValue,
    "function_type": function_type,
    "iterable_type": iterable_type,
    "micros_of": micros_of,
    "of_micros": Timestamp.of_micros,
    "out_of_range": _out_of_range,
    "pair_type": pair_type,
    "unshared": defensive_copy,
    "windowed_value": windowed_value,
}
