"""LogElements: prints or logs elements."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, TypeVar

from ...sdk.dofn.dofn import DoFn, MapDoFn
from ...sdk.ptransform import PTransform
from ...sdk.pvalue import PCollection
from ...triggers import PaneInfo
from ...windowing import BoundedWindow, Timestamp
from ..par_do.pardo import ParDo

if TYPE_CHECKING:
    from ...sdk.static_results import Keeps

    T = TypeVar("T")

_logger = logging.getLogger(__name__)


class LogElements(PTransform):
    """Its input, with each element printed or logged, an element in several windows for each of them.

    Returns a `PCollection[T]`, as its input is.

    Args:
      label: the label of this transform.
      prefix: text before each element.
      with_timestamp: adds the element's timestamp.
      with_window: adds the start and the end of its window.
      level: a level of `logging`, such as `logging.INFO`; None for standard output.
      with_pane_info: adds the element's pane.
      use_epoch_time: writes times as seconds since 1970 instead of text.

    >>> import penstock as beam
    >>> _ = ["a", "b"] | beam.LogElements(prefix="saw ")
    saw a
    saw b
    """

    if TYPE_CHECKING:
        _declares: None  # type: ignore[assignment]
        __ror__: Keeps  # type: ignore[assignment]

    def __init__(
        self,
        label: str | None = None,
        prefix: str = "",
        with_timestamp: bool = False,
        with_window: bool = False,
        level: int | None = None,
        with_pane_info: bool = False,
        use_epoch_time: bool = False,
    ) -> None:
        super().__init__(label)
        self.prefix = prefix
        self.with_timestamp = with_timestamp
        self.with_window = with_window
        self.level = level
        self.with_pane_info = with_pane_info
        self.use_epoch_time = use_epoch_time

    def expand(self, pcoll: PCollection[T]) -> PCollection[T]:
        prefix, level, epoch = self.prefix, self.level, self.use_epoch_time
        with_timestamp, with_window, with_pane = self.with_timestamp, self.with_window, self.with_pane_info

        def logged(
            element: Any,
            timestamp: Any = DoFn.TimestampParam,
            window: Any = DoFn.WindowParam,
            pane: Any = DoFn.PaneInfoParam,
        ) -> Any:
            parts = [f"{prefix}{element}"]
            if with_timestamp:
                parts.append(f"timestamp={_time(timestamp, epoch)!r}")
            if with_window:
                parts.append(_window(window, epoch))
            if with_pane:
                parts.append(_pane(pane))
            line = ", ".join(parts)
            if level is None:
                print(line)
            else:
                _logger.log(level, line)
            return element

        return pcoll | "Log" >> ParDo(MapDoFn(logged)).with_output_types(pcoll.hint)


def _time(timestamp: Timestamp, epoch: bool) -> Any:
    if epoch:
        return timestamp.seconds()
    try:
        return timestamp.to_rfc3339()
    except OverflowError:  # the minimum or the maximum timestamp
        return str(timestamp)


def _window(window: BoundedWindow, epoch: bool) -> str:
    start = getattr(window, "start", None)
    if not isinstance(start, Timestamp):
        return f"window({window!r})"
    return f"window(start={_time(start, epoch)}, end={_time(window.end, epoch)})"


def _pane(pane: PaneInfo) -> str:
    return f"pane_info={pane!r}"
