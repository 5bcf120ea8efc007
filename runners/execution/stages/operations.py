"""The operations of a fused stage, ready to be called, and the globals of the generated function."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import attrs

from ....sdk import graph
from ....sdk.dofn.batched_dofn import BatchedDoFn
from ....sdk.dofn.dofn import DoFn, ExpressionDoFn
from ....sdk.dofn.signature import Argument, bind, called_function
from ....sdk.elements.defensive_copy import IMMUTABLE, defensive_copy
from ....sdk.elements.element_wrappers import SPECIAL_TYPES, WindowedValue
from ....windowing import GlobalWindows, TimestampedValue, WindowFn, checked_windows
from ....windowing.timestamp import Timestamp, micros_of
from ....windowing.timestamp_combiner import TimestampCombiner, for_element
from ..user_errors import pair_type, shortened
from ..windows.combining import MISSING, Fold


@attrs.frozen
class ParDoOperation:
    """A ParDo, ready to be called.

    Attributes:
      label: its full label.
      fn: the worker's own copy of the DoFn.
      arguments: the arguments of its function.
      windowed_views: indices of the side inputs whose view depends on the element's window.
      remembers: True if its outputs are recorded, to be retracted unchanged.
      batch_arguments: the arguments of its function of a batch.
    """

    label: str
    fn: DoFn
    arguments: tuple[Argument, ...]
    windowed_views: frozenset[int] = frozenset()
    remembers: bool = False
    batch_arguments: tuple[Argument, ...] = ()

    @property
    def decides_signs(self) -> bool:
        """Return True if it receives the sign; then its outputs are retractions only if it says so."""
        return any(argument.marker is DoFn.SignParam for argument in self.arguments)

    @property
    def observes_window(self) -> bool:
        """Return True if an element in several windows has to be processed in each of them."""
        for argument in (*self.arguments, *self.batch_arguments):
            if argument.marker is DoFn.WindowParam:
                return True
            if isinstance(argument.value, graph.SideInputArgument) and argument.value.index in self.windowed_views:
                return True
        return False


@attrs.frozen
class WindowOperation:
    """An AssignWindows."""

    label: str
    window_fn: WindowFn


Operation: TypeAlias = ParDoOperation | WindowOperation


def operation_of(transform: graph.Transform) -> Operation:
    """Return the operation of a ParDo or an AssignWindows, with a copy of the DoFn for this worker alone."""
    primitive = transform.primitive
    if isinstance(primitive, graph.AssignWindows):
        return WindowOperation(transform.label, primitive.windowing.window_fn)
    assert isinstance(primitive, graph.ParDo)
    assert primitive.fn is not None
    fn, args, kwargs = primitive.fn.load()
    windowed = frozenset(
        i for i, s in enumerate(primitive.side_inputs) if not isinstance(s.windowing.window_fn, GlobalWindows)
    )
    remembers = primitive.retracted and not fn.deterministic
    of_batch: tuple[Argument, ...] = ()
    if isinstance(fn.column_operation, BatchedDoFn):
        of_batch = fn.column_operation.batch_arguments(args, kwargs, transform.label)
    return ParDoOperation(transform.label, fn, bind(fn, args, kwargs, transform.label), windowed, remembers, of_batch)


# The number of timestamp buckets whose windows a stage caches.
_REMEMBERED_BUCKETS = 1_000


def names_of(i: int, operation: Operation) -> Mapping[str, Any]:
    """Return the globals of operation `i`."""
    if isinstance(operation, WindowOperation):
        return _window_names(i, operation.window_fn)
    if isinstance(operation.fn, ExpressionDoFn):
        return operation.fn.names
    arguments = {f"a{i}_{j}": argument.value for j, argument in enumerate(operation.arguments)}
    return {f"f{i}": called_function(operation.fn), **arguments}


def names_of_fold(fold: Fold) -> Mapping[str, Any]:
    """Return the globals of a fold."""
    return {**fold.names, "transformed": _transformed(fold.operation.window_fn)}


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

    return {f"assign{i}": window_fn.assign_micros, f"cache{i}": cache, f"remember{i}": remember}


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
