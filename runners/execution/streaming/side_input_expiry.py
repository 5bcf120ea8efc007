"""Expiry of the windows of side inputs: those that no element of a main input can reach any more are freed.

A window of a side input is that of the main windows whose last instants it contains.  When the watermark of the main
input has passed its end and the allowed lateness, all of these have expired, and elements that come for them yet are
late: they are dropped and counted, as in front of a grouping.  So no element finds a freed window empty.

A window function that maps main windows by a rule of its own (`side_input_window`) keeps all windows.
"""

from __future__ import annotations

from collections.abc import Iterable

from ....sdk import graph
from ....windowing import BoundedWindow, GlobalWindows, WindowFn
from ....windowing.timestamp import MIN_MICROS
from ....windowing.windows import end_of_window
from ..operators.dataflow import StageRun
from ..plan.fusion import Keyed, Plan, Stage, Step
from ..stages.side_input_views import SideInputViews


class SideInputExpiry:
    """Frees the windows of the side inputs of a task's steps.

    Args:
      runs: the steps at work, by id.
    """

    def __init__(self, plan: Plan, steps: Iterable[Step], views: SideInputViews, runs: dict[str, StageRun]) -> None:
        self._views = views
        self._runs = runs
        self._side_inputs: dict[str, tuple[graph.SideInput, ...]] = {}
        self._lateness: dict[str, int] = {}
        # By step, the end of the last window that its elements can't reach.
        self._through: dict[str, int] = {}
        # By side input, the steps that see it; without those of which a step needs all windows.
        self._seen_by: dict[int, list[str]] = {}
        for step in steps:
            if not isinstance(step, (Stage, Keyed)):
                continue
            own = self._side_inputs[step.id] = tuple(filter(_expires, step.side_inputs))
            if own:
                (main,) = {step.input} if isinstance(step, Stage) else step.transform.inputs
                self._lateness[step.id] = plan.graph.pcollections[main].windowing.allowed_lateness.micros
            for pcollection in dict.fromkeys(side_input.pcollection for side_input in own):
                self._seen_by.setdefault(pcollection, []).append(step.id)

    def restored(self) -> None:
        """Continue after a snapshot, whose windows that were freed stay so."""
        for id, own in self._side_inputs.items():
            through = max((self._views.contents(each.pcollection).freed for each in own), default=MIN_MICROS)
            self._move(id, through)

    def advance(self, step: Stage | Keyed, watermark: int) -> None:
        """Free what a step's elements can't reach at a watermark, in microseconds, of those that wait as well."""
        lateness = self._lateness.get(step.id)
        if lateness is None or not self._move(step.id, watermark - lateness - 1):
            return
        for side_input in self._side_inputs[step.id]:
            steps = self._seen_by[side_input.pcollection]
            self._views.free(side_input.pcollection, min(self._through.get(id, MIN_MICROS) for id in steps))

    def _move(self, id: str, through: int) -> bool:
        if through <= self._through.get(id, MIN_MICROS):
            return False
        self._through[id] = through
        own = self._side_inputs[id]

        def is_late(window: BoundedWindow) -> bool:
            mapped = (each.windowing.window_fn.side_input_window(window) for each in own)
            return any(end_of_window(own_window) <= through for own_window in mapped)

        self._runs[id].is_late = is_late
        return True


def _expires(side_input: graph.SideInput) -> bool:
    """Return whether a window is reached only by main windows that end within it."""
    window_fn = side_input.windowing.window_fn
    is_default = type(window_fn).side_input_window is WindowFn.side_input_window
    return is_default and not isinstance(window_fn, GlobalWindows)
