"""Folding of elements into uniform windows.

The loop takes elements of windows that are uniform, or may begin as such: no key of theirs has a state of its own, and
the watermark has not reached their end.  All other elements are left to the operator's own loop.
"""

from __future__ import annotations

from itertools import islice
from typing import Any

from ....sdk.coders.coded_key import check_keys
from ....sdk.elements.bundle import Bundle, Windows, expanded
from ....sdk.elements.defensive_copy import defensive_copy
from ....windowing import BoundedWindow
from ....windowing.timestamp_combiner import TimestampCombiner
from ....windowing.windows import lifetime_of
from ..kernels.folds import MISSING
from ..user_errors import not_a_pair, pair_type, unhashable
from .combining import Fold, FoldedBundle
from .panes import RETRACTING
from .trigger_state import Clocks, Decision, TriggerDecisions, fires_early
from .window_state import UniformWindow, WindowState
from .window_table import WindowTable

# The accumulators of a window, and its keys that have changed since the last snapshot.
Cells = tuple[dict[Any, Any], dict[Any, None]]

# Of the windows of an element: the cells if it is one uniform window; those of all uniform ones, and the others.
Place = tuple[dict[Any, Any] | None, Any, list[Cells], Windows]


def may_be_uniform(fold: Fold, retracted: bool) -> bool:
    """Return whether the keys of a window of this grouping differ in their accumulators only until its end.

    Args:
      retracted: whether inputs may be retractions.
    """
    windowing = fold.windowing
    return not (
        retracted
        or windowing.window_fn.is_merging
        or windowing.accumulation_mode is RETRACTING
        or windowing.timestamp_combiner is not TimestampCombiner.OUTPUT_AT_EOW
        or fires_early(windowing.trigger)
    )


class UniformFold:
    """Folds the elements of a grouping into its uniform windows, where `may_be_uniform`."""

    def __init__(self, table: WindowTable, fold: Fold, clocks: Clocks, decisions: TriggerDecisions) -> None:
        self._table = table
        self._clocks = clocks
        self._decisions = decisions
        self._lateness = fold.windowing.allowed_lateness.micros
        self._functions = fold.functions
        # Of a bundle: its uniform windows and the number of their keys before, and the places of its windows.
        self._sizes: dict[UniformWindow, int] = {}
        self._places: dict[Windows, Place] = {}

    def process(self, bundle: Bundle) -> Bundle | None:
        """Fold a bundle of elements, or of accumulators.  Return the elements of other windows; None if none are."""
        others: list[tuple[Any, int, Windows]] = []
        try:
            self._fold(bundle, others)
            self._check()
        finally:
            self._places.clear()
            self._sizes.clear()
        kind = FoldedBundle if type(bundle) is FoldedBundle else Bundle
        return kind(*map(list, zip(*others, strict=True))) if others else None

    def _fold(self, bundle: Bundle, others: list[tuple[Any, int, Windows]]) -> None:
        """Fold the elements of uniform windows.

        Args:
          others: gets the elements of other windows.
        """
        functions, places, n = self._functions, self._places, len(bundle)
        is_folded = type(bundle) is FoldedBundle
        first, add = (_same, functions.merge) if is_folded else (functions.first, functions.add)
        near: Windows | None = None
        pair: type | None = None
        columns = expanded(bundle.timestamps, n), expanded(bundle.windows, n)
        for element, micros, own in zip(bundle.values, *columns, strict=True):
            if type(element) is not pair:
                pair = pair_type(element)
            try:
                key, x = element
            except ValueError:
                raise not_a_pair(element) from None
            if own is not near:
                near = own
                cells, changed, several, missed = places.get(own) or self._place(own)
            if is_folded:
                x, _ = x
            if cells is not None:
                try:
                    acc = cells.get(key, MISSING)
                except TypeError:
                    raise unhashable(key) from None
                cells[key] = first(x) if acc is MISSING else add(acc, x)
                changed[key] = None
                continue
            for each, its_changed in several:
                # A consumer of one of the windows may change the value.
                x = defensive_copy(x)
                try:
                    acc = each.get(key, MISSING)
                except TypeError:
                    raise unhashable(key) from None
                each[key] = first(x) if acc is MISSING else add(acc, x)
                its_changed[key] = None
            if missed:
                others.append((element, micros, missed))

    def _place(self, windows: Windows) -> Place:
        """Return the place of an element's windows; called once for each bundle."""
        several: list[Cells] = []
        missed: Windows = ()
        for window in windows:
            uniform = self._uniform(window)
            if uniform is None:
                missed += (window,)
            else:
                several.append((uniform.accumulators, uniform.changed))
                self._sizes.setdefault(uniform, len(uniform.accumulators))
        is_one = len(several) == len(windows) == 1
        place: Place = (*(several[0] if is_one else (None, None)), several, missed)
        self._places[windows] = place
        return place

    def _uniform(self, window: BoundedWindow) -> UniformWindow | None:
        """Return a uniform window, which may begin now; None if its keys have a state each, or it has ended."""
        table, watermark = self._table, self._clocks.watermark
        found = table.uniform.get(window)
        if found is not None:
            if found.end > watermark:
                return found
            # It is due, but others were first.
            table.separate(found)
        if window in table.by_window:
            return None
        end, expiry = lifetime_of(window, self._lateness)
        if end <= watermark:
            return None
        found = UniformWindow((window,), end, expiry, self._decisions.after_bundle(self._decisions.start, end))
        table.begin(found)
        return found

    def unify_restored(self) -> None:
        """Make windows of a snapshot uniform, which has a state for each key."""
        table = self._table
        for window, states in list(table.by_window.items()):
            end, _ = lifetime_of(window, self._lateness)
            decision = self._decisions.after_bundle(self._decisions.start, end)
            if end > self._clocks.watermark and all(_is_first(state, decision) for state in states.values()):
                table.unify(window, decision)
        table.times.forget_stale()

    def _check(self) -> None:
        """Check the new keys of a bundle after folding it."""
        is_tracking = self._table.changed is not None
        for window, before in self._sizes.items():
            new = len(window.accumulators) - before
            if new:
                check_keys(islice(reversed(window.accumulators), new))
            if not is_tracking:
                window.changed.clear()


def _is_first(state: WindowState, decision: Decision) -> bool:
    """Return whether a state is that of a window before its first pane, and after this decision of the trigger."""
    if state.panes or not state.has_new or state.was_on_time or state.held is not None:
        return False
    own = state.decision
    return (own.state, own.is_finished, own.event_time, own.processing_time) == (
        decision.state,
        decision.is_finished,
        decision.event_time,
        decision.processing_time,
    )


def _same(accumulator: Any) -> Any:
    return accumulator
