"""WithTimestamps: event times computed from elements."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, overload

from ...sdk.columns.expressions import Column, Stamps, col
from ...sdk.dofn.dofn import ColumnDoFn, DoFn, TimestampDoFn
from ...sdk.type_variables import A
from ...sdk.user_code.signatures import label_of
from ..par_do.pardo import ParDo

if TYPE_CHECKING:
    from ...sdk.pvalue import PCollection
    from ...sdk.static_types import Function, Same, WithDefault

    P = ParamSpec("P")
    T = TypeVar("T")


class WithTimestamps(ParDo[A, A]):
    """Each element with an event time that a function returns, in seconds or as a `Timestamp`.

    Returns a `PCollection[T]`, as its input is.

    Instead of a function, the name of a field or an expression of `col` may give the event time.

    Windows are unchanged: a `WindowInto` after it assigns those of the new timestamps.  Elements may be late, since the
    source's watermark is independent of these timestamps; so prefer event times of the source.

    >>> import penstock as beam
    >>> with beam.Pipeline() as p:
    ...     events = p | beam.Create([("a", 3), ("b", 7)]) | beam.WithTimestamps(lambda event: event[1])
    ...     _ = events | beam.LogElements(with_timestamp=True, use_epoch_time=True)
    ('a', 3), timestamp=3
    ('b', 7), timestamp=7
    """

    if TYPE_CHECKING:
        _unwraps: None  # type: ignore[assignment]

        def _takes(self, element: A, /) -> None: ...
        def _keeps(self) -> Same: ...
        def _gives(self, pcoll: PCollection[T], /) -> PCollection[T]: ...

    @overload
    def __init__(self, fn: Function[A, P, Any], *args: P.args, **kwargs: P.kwargs) -> None: ...
    @overload
    def __init__(self, fn: WithDefault[A, Any]) -> None: ...
    @overload
    def __init__(self: WithTimestamps[object], fn: str) -> None: ...
    def __init__(self, fn: Any, *args: Any, **kwargs: Any) -> None:
        if isinstance(fn, (str, Column)):
            self.timestamp_of: Any = fn
            super().__init__(ColumnDoFn(Stamps(col(fn) if isinstance(fn, str) else fn), ""))
            return
        if isinstance(fn, DoFn) or not callable(fn):
            raise TypeError(f"WithTimestamps: expected a function from element to timestamp, got {fn!r}")
        super().__init__(TimestampDoFn(fn), *args, **kwargs)
        self.timestamp_of = fn

    def default_label(self) -> str:
        of = self.timestamp_of
        return f"WithTimestamps({of.text if isinstance(of, Column) else of if isinstance(of, str) else label_of(of)})"

    def infer_output_type(self, input_type: Any) -> Any:
        return input_type
