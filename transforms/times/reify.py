"""Reify: an element's timestamp or window as a part of its value."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from ...sdk.dofn.dofn import DoFn, MapDoFn
from ...windowing import TimestampedValue
from ..par_do.pardo import ParDo

if TYPE_CHECKING:
    from ...sdk.pvalue import PCollection
    from ...windowing import BoundedWindow
    from ...windowing.timestamp import Timestamp as EventTime

    K = TypeVar("K")
    T = TypeVar("T")
    V = TypeVar("V")


class _Reify(ParDo[Any, Any]):
    if TYPE_CHECKING:
        _unwraps: None  # type: ignore[assignment]

        def _expands(self) -> None: ...  # type: ignore[override]

    fn: Any

    def __init__(self, label: str | None = None) -> None:
        super().__init__(MapDoFn(type(self).reified))
        self._label = label

    reified: Callable[..., Any]

    def default_label(self) -> str:
        return type(self).__qualname__


class Reify:
    """Transforms that add an element's timestamp or window to its value.

    >>> import penstock as beam
    >>> with beam.Pipeline() as p:
    ...     stamped = p | beam.Create([beam.window.TimestampedValue(("a", 1), 5)])
    ...     _ = stamped | beam.Reify.TimestampInValue() | beam.Map(print)
    ('a', TimestampedValue(1, Timestamp(5)))
    """

    class Timestamp(_Reify):
        """The element as a `TimestampedValue` with its timestamp.

        Returns a `PCollection[TimestampedValue[T]]` for elements of type T.
        """

        if TYPE_CHECKING:

            def expand(self, pcoll: PCollection[T]) -> PCollection[TimestampedValue[T]]: ...

        @staticmethod
        def reified(element: Any, timestamp: Any = DoFn.TimestampParam) -> Any:
            """Return the output for an element."""
            return TimestampedValue(element, timestamp)

    class Window(_Reify):
        """The element as `(element, timestamp, window)`; once for each of its windows.

        Returns a `PCollection[tuple[T, Timestamp, BoundedWindow]]` for elements of type T.
        """

        if TYPE_CHECKING:

            def expand(self, pcoll: PCollection[T]) -> PCollection[tuple[T, EventTime, BoundedWindow]]: ...

        @staticmethod
        def reified(element: Any, timestamp: Any = DoFn.TimestampParam, window: Any = DoFn.WindowParam) -> Any:
            """Return the output for an element."""
            return element, timestamp, window

    class TimestampInValue(_Reify):
        """A pair as `(key, TimestampedValue(value, timestamp))`.

        Returns a `PCollection[tuple[K, TimestampedValue[V]]]` for pairs of K and V.
        """

        if TYPE_CHECKING:

            def expand(self, pcoll: PCollection[tuple[K, V]]) -> PCollection[tuple[K, TimestampedValue[V]]]: ...

        @staticmethod
        def reified(element: Any, timestamp: Any = DoFn.TimestampParam) -> Any:
            """Return the output for an element."""
            key, value = element
            return key, TimestampedValue(value, timestamp)

    class WindowInValue(_Reify):
        """A pair as `(key, (value, timestamp, window))`; once for each of its windows.

        Returns a `PCollection[tuple[K, tuple[V, Timestamp, BoundedWindow]]]` for pairs of K and V.
        """

        if TYPE_CHECKING:

            def expand(
                self, pcoll: PCollection[tuple[K, V]]
            ) -> PCollection[tuple[K, tuple[V, EventTime, BoundedWindow]]]: ...

        @staticmethod
        def reified(element: Any, timestamp: Any = DoFn.TimestampParam, window: Any = DoFn.WindowParam) -> Any:
            """Return the output for an element."""
            key, value = element
            return key, (value, timestamp, window)
