"""Folding of elements into uniform windows, by a generated loop.

The loop has the combiner's fold as expressions, and so no call for each element.  It takes elements of windows that are
uniform, or may begin as such: no key of theirs has a state of its own, and the watermark has not reached their end.
All other elements are left to the operator's own loop.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import Any

from ....sdk.coders.coded_key import check_keys
from ....sdk.elements.bundle import Bundle, Windows, expanded
from ....sdk.elements.defensive_copy import defensive_copy
from ....windowing import BoundedWindow
from ....windowing.timestamp_combiner import TimestampCombiner
from ....windowing.windows import lifetime_of
from ..user_errors import not_a_pair, pair_type, unhashable
from .combining import MISSING, Fold, FoldedBundle, compiled, merge_of
from .panes import RETRACTING
from .trigger_state import Clocks, Decision, TriggerDecisions, fires_early
from .window_state import UniformWindow, WindowState
from .window_table import WindowTable

# The accumulators of a window, and its keys that have changed since the last snapshot.
Cells = tuple[dict[Any, Any], dict[Any, None]]

# Of the windows of an element: the cells if it is one uniform window; else those of the uniform ones, and the others.
Place = tuple[dict[Any, Any] | None, dict[Any, None] | None, list[Cells], Windows]

_LOOP = """
def fold(values, timestamps, windows, over, places, place, others):
    near = pair = cells = None
    for element, micros, own in zip(values, timestamps, windows):
        {unpack}
        if own is not near:
            near = own
            cells, changed, several, missed = places.get(own) or place(own)
        if cells is not None:
            if over:
                return values.__length_hint__() + 1
            try:
                acc = cells.get(key, MISSING)
            except TypeError:
                raise unhashable(key) from None
            cells[key] = {first} if acc is MISSING else {step}
            changed[key] = None
            continue
        if several and over:
            return values.__length_hint__() + 1
        for each, changed in several:
            # A consumer of one of the windows may change the value.
            x = unshared(x)
            try:
                acc = each.get(key, MISSING)
            except TypeError:
                raise unhashable(key) from None
            each[key] = {first} if acc is MISSING else {step}
            changed[key] = None
        if missed:
            others.append((element, micros, missed))
    return 0
"""

_UNPACK = """
        if type(element) is not pair:
            pair = pair_type(element)
        try:
            key, x = element
        except ValueError:
            raise not_a_pair(element) from None
"""


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
        operation = fold.operation
        first, step = operation.first or "[x]", operation.step or "acc.append(x) or acc"
        self._folding = _loop(_UNPACK.strip(), first, step, fold.names)
        self._merging = _loop("key, (x, _) = element", "x", *merge_of(fold))
        # Of a bundle: its uniform windows and the number of their keys before, and the places of its windows.
        self._sizes: dict[UniformWindow, int] = {}
        self._places: dict[Windows, Place] = {}

    def process(self, bundle: Bundle, over: Any) -> tuple[Bundle | None, Bundle | None]:
        """Fold a bundle of elements, or of accumulators.

        Returns the elements of other windows, and those left when the time slice was over.
        """
        is_folded = type(bundle) is FoldedBundle
        loop = self._merging if is_folded else self._folding
        n, values = len(bundle), iter(bundle.values)
        columns = expanded(bundle.timestamps, n), expanded(bundle.windows, n)
        others: list[tuple[Any, int, Windows]] = []
        try:
            left = loop(values, *columns, over, self._places, self._place, others)
            self._check()
        finally:
            self._places.clear()
            self._sizes.clear()
        kind = FoldedBundle if is_folded else Bundle
        return (
            kind(*map(list, zip(*others, strict=True))) if others else None,
            bundle.part(n - left, n) if left else None,
        )

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
        place: Place = (*several[0], [], ()) if is_one else (None, None, several, missed)
        self._places[windows] = place
        return place

    def _uniform(self, window: BoundedWindow) -> UniformWindow | None:
        """Return a uniform window, which may begin now; None if its keys have a state each, or it has ended."""
        table, watermark = self._table, self._clocks.watermark
        found = table.uniform.get(window)
        if found is not None:
            if found.end > watermark:
                return found
            # It is due, but was left when a time slice was over.
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


def _loop(unpack: str, first: str, step: str, names: dict[str, Any]) -> Callable[..., int]:
    names = names | {
        "MISSING": MISSING,
        "not_a_pair": not_a_pair,
        "pair_type": pair_type,
        "unhashable": unhashable,
        "unshared": defensive_copy,
    }
    exec(compiled(_LOOP.format(unpack=unpack, first=first, step=step), "exec"), names)
    loop: Callable[..., int] = names["fold"]
    return loop
