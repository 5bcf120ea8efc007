"""Lateness: elements that arrive before a window expires are in its panes; later there are no panes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from support.pipelines.recording import Change
from support.pipelines.strategies import (
    ANY_TIMESTAMPS,
    MODES,
    Bundle,
    Step,
    StepsDone,
    Watermark,
    Windowing,
    scripts,
    stream_of,
    watermarks,
    window_fns,
    windowings,
)

import penstock as beam
from penstock.sdk.userstate import CombiningValueStateSpec
from penstock.triggers import AccumulationMode, DefaultTrigger, PaneInfo, PaneInfoTiming
from penstock.windowing import BoundedWindow, FixedWindows, Sessions

MANY = settings(max_examples=200, suppress_health_check=[HealthCheck.too_slow])

LATENESS = st.sampled_from([0, 4, 30])
BOUNDED = windowings(mode=MODES, lateness=LATENESS, timestamps=ANY_TIMESTAMPS)

# The watermark is where the window that ends after ten seconds expires, to the microsecond, with a lateness of four.
JUST_TOO_LATE: list[Step] = [Watermark(14, micros=1), Bundle((("a", 1, 5),))]


def changes_by_step(run: Any, script: Sequence[Step], windowing: Windowing) -> list[tuple[int, Change]]:
    """Sums by key and window: every change, with the number of the step during which it came.

    The number after the last step is that of the end of the stream.
    """

    def build(p: Any) -> dict[str, Any]:
        outputs = p | stream_of(script, ["data"], counter="steps")
        sums = outputs["data"] | windowing.stream() | beam.CombinePerKey(sum)
        return {"count the steps": outputs["steps"], "sums": sums}

    number, found = 0, []
    for change in run(build).changes:
        if isinstance(change.value, StepsDone):
            number = change.value.number
        else:
            found.append((number, change))
    return found


@MANY
@given(scripts(), BOUNDED)
@example(JUST_TOO_LATE, Windowing(Sessions(5), DefaultTrigger(), lateness=4))
def test_no_pane_comes_after_the_end_of_its_window_and_the_lateness(
    run: Any, script: list[Step], windowing: Windowing
) -> None:
    """Neither a pane nor a retraction; but a session may have grown beyond what it takes back."""
    at = watermarks(script)
    may_grow = windowing.window_fn.is_merging
    for step, change in changes_by_step(run, script, windowing):
        if change.sign > 0 or not may_grow:
            assert at[step] < windowing.expiry(change.windows[0]), (step, str(change))


@MANY
@given(scripts(), BOUNDED)
def test_the_last_pane_is_the_one_of_the_expiry(run: Any, script: list[Step], windowing: Windowing) -> None:
    """A pane says that it is the last just if its window expires; and nothing of the window follows."""
    at = watermarks(script)
    closed: set[Any] = set()
    for step, change in changes_by_step(run, script, windowing):
        if change.sign > 0:
            key, window = change.value[0], change.windows[0]
            assert (key, window) not in closed
            expires = at[step + 1] >= windowing.expiry(window)
            assert expires == change.pane.is_last
            if expires:
                closed.add((key, window))


@MANY
@given(scripts(), BOUNDED)
def test_panes_are_early_until_the_end_of_the_window_then_on_time_once_then_late(
    run: Any, script: list[Step], windowing: Windowing
) -> None:
    """And numbered from zero; where windows don't merge."""
    at = watermarks(script)
    found: dict[Any, list[PaneInfo]] = {}
    # Windows whose first pane that is not early came when the watermark had been at their end: it may be late.
    begun_late = set()
    for step, change in changes_by_step(run, script, windowing):
        if change.sign > 0:
            key, window = change.value[0], change.windows[0]
            is_early = at[step + 1] <= window.max_micros
            assert is_early == (change.pane.timing is PaneInfoTiming.EARLY)
            found.setdefault((key, window), []).append(change.pane)
            not_early = [pane for pane in found[key, window] if pane.timing is not PaneInfoTiming.EARLY]
            if len(not_early) == 1 and at[step] > window.max_micros:
                begun_late.add((key, window))
    if windowing.window_fn.is_merging:
        return
    for name, panes in found.items():
        assert list(range(len(panes))) == [pane.index for pane in panes]
        timings = [pane.timing for pane in panes if pane.timing is not PaneInfoTiming.EARLY]
        late = [PaneInfoTiming.LATE] * len(timings)
        # Where it would say what stands, the one on time isn't there.
        may_miss = windowing.mode is AccumulationMode.RETRACTING or name in begun_late
        assert (may_miss and timings == late) or [PaneInfoTiming.ON_TIME, *late][: len(timings)] == timings


@MANY
@given(scripts(), windowings(window_fns(merging=False), MODES, LATENESS))
@example(JUST_TOO_LATE, Windowing(FixedWindows(10), DefaultTrigger(), lateness=4))
def test_all_that_is_not_too_late_is_kept(run: Any, script: list[Step], windowing: Windowing) -> None:
    """Elements that are too late go to the late output, and only there."""

    def pipeline(p: Any) -> dict[str, Any]:
        outputs = p | stream_of(script) | windowing.stream() | beam.GroupByKey().with_late_data()
        return {"panes": outputs[None], "late": outputs["late"] | beam.Map(TooLate)}

    changes = run(pipeline).changes
    kept = Counter((key, value, window) for (key, value, _), window in windowing.kept(script))
    dropped = Counter(
        (event[0], event[1], window)
        for step in script
        for event in getattr(step, "events", ())
        for window in windowing.windows(event[2])
    )
    dropped.subtract(kept)
    late = Counter((*change.value.pair, change.windows[0]) for change in changes if isinstance(change.value, TooLate))
    assert +dropped == late
    panes = [change for change in changes if not isinstance(change.value, TooLate)]
    assert kept == values_of(panes, windowing.mode)


class TooLate:
    """A pair that came too late."""

    def __init__(self, pair: Any) -> None:
        self.pair = pair


def values_of(panes: Sequence[Change], mode: AccumulationMode) -> Counter[Any]:
    """Return the values in each key's window, according to the panes."""
    found: dict[tuple[Any, BoundedWindow], Counter[Any]] = {}
    for pane in panes:
        (key, values), (window,) = pane.value, pane.windows
        own = Counter((key, value, window) for value in values)
        before = found.get((key, window), Counter())
        if mode is AccumulationMode.ACCUMULATING:
            found[key, window] = own
        elif pane.sign > 0:
            found[key, window] = before + own
        else:
            found[key, window] = before - own
    return sum(found.values(), Counter())


class Seen(beam.DoFn):
    """Has state, so it looks after windows."""

    COUNT = CombiningValueStateSpec("count", sum)

    def process(self, element: Any, count: Any = beam.DoFn.StateParam(COUNT)) -> Any:
        count.add(1)
        yield element[0], count.read()


@MANY
@given(scripts(), windowings(window_fns(merging=False), lateness=LATENESS))
def test_a_dofn_with_state_gets_all_that_is_not_too_late(run: Any, script: list[Step], windowing: Windowing) -> None:
    """It counts just the elements whose windows have not expired."""
    counts = Counter((key, window) for (key, _, _), window in windowing.kept(script))
    expected = {(key, window, n + 1) for (key, window), count in counts.items() for n in range(count)}
    changes = run(lambda p: p | stream_of(script) | windowing.stream() | beam.ParDo(Seen())).changes
    assert sorted(map(repr, expected)) == sorted(repr((*c.value[:1], c.windows[0], c.value[1])) for c in changes)
