"""WindowInto (the paper's AssignWindows): windows in event time, and triggers in processing time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from ..sdk import graph
from ..sdk.ptransform import PTransform
from ..sdk.pvalue import PCollection
from ..sdk.user_code.serialization import dumps
from ..sdk.windowing_strategy import WindowingStrategy, lateness_of
from ..triggers import AccumulationMode, DefaultTrigger, Trigger
from ..windowing import WindowFn

if TYPE_CHECKING:
    from ..sdk.static_results import Keeps

    T = TypeVar("T")


class WindowInto(PTransform):
    """Assignment of windows to elements, with the windowing of the groupings after it.

    Returns a `PCollection[T]`, as its input is.

    Args:
      windowfn: a `WindowFn`, or another `WindowInto`, whose settings are used.
      trigger: decides when results are emitted; needs an accumulation mode, as in Beam.
      accumulation_mode: the relation between a window's panes.
      timestamp_combiner: decides the timestamp of a result; by default the end of the window.
      allowed_lateness: seconds by which the watermark may be past a window's end before the window expires.
      emit_unchanged: retracts and repeats, in RETRACTING mode, an on-time or closing pane that equals the pane before
        it.

    Source: Dataflow Model, section 2.2.

    >>> import penstock as beam
    >>> with beam.Pipeline() as p:
    ...     _ = (
    ...         p
    ...         | beam.Create([("a", 10), ("a", 50), ("a", 70)])
    ...         | beam.WithTimestamps(lambda pair: pair[1])
    ...         | beam.WindowInto(beam.window.FixedWindows(60))
    ...         | beam.CombinePerKey(sum)
    ...         | beam.Map(print)
    ...     )
    ('a', 60)
    ('a', 70)
    """

    if TYPE_CHECKING:
        _declares: None  # type: ignore[assignment]
        __ror__: Keeps  # type: ignore[assignment]

    def __init__(
        self,
        windowfn: WindowFn | WindowInto,
        trigger: Trigger | None = None,
        accumulation_mode: AccumulationMode | None = None,
        timestamp_combiner: Any = None,
        allowed_lateness: Any = 0,
        emit_unchanged: bool = False,
    ) -> None:
        super().__init__()
        self.windowing: WindowingStrategy
        if isinstance(windowfn, WindowInto):
            self.windowing = windowfn.windowing
            return
        if not isinstance(windowfn, WindowFn):
            raise TypeError(f"WindowInto: expected a WindowFn such as FixedWindows(60), got {windowfn!r}")
        if trigger is not None and not isinstance(trigger, Trigger):
            raise TypeError(f"WindowInto: trigger must be a Trigger, got {trigger!r}")
        if trigger is not None and accumulation_mode is None and not isinstance(trigger, DefaultTrigger):
            raise ValueError("WindowInto: a trigger needs an accumulation_mode: DISCARDING or ACCUMULATING")
        changes: dict[str, Any] = {}
        if timestamp_combiner is not None:
            changes["timestamp_combiner"] = timestamp_combiner
        self.windowing = WindowingStrategy(
            window_fn=windowfn,
            trigger=trigger or DefaultTrigger(),
            accumulation_mode=accumulation_mode or AccumulationMode.DISCARDING,
            allowed_lateness=lateness_of(allowed_lateness),
            emit_unchanged=emit_unchanged,
            **changes,
        )

    def default_label(self) -> str:
        return "WindowInto"

    def expand(self, pcoll: PCollection[T]) -> PCollection[T]:
        dumps((self.windowing.window_fn, self.windowing.trigger), pcoll.pipeline.full_label)
        primitive = graph.AssignWindows(self.windowing)
        return pcoll.pipeline.add(primitive, [pcoll], self.windowing, pcoll.hint)[None]


# The paper's name.
AssignWindows = WindowInto


def Windowing(
    windowfn: WindowFn,
    triggerfn: Trigger | None = None,
    accumulation_mode: AccumulationMode | None = None,
    timestamp_combiner: Any = None,
    allowed_lateness: Any = 0,
    environment_id: str | None = None,
) -> WindowingStrategy:
    """Return the windowing that `WindowInto` gives a PCollection.

    Args:
      environment_id: Beam's; accepted.

    Raises the errors of `WindowInto`.

    >>> import penstock as beam
    >>> beam.Windowing(beam.window.FixedWindows(60)).windowfn.size
    Duration(60)
    """
    return AssignWindows(windowfn, triggerfn, accumulation_mode, timestamp_combiner, allowed_lateness).windowing
