"""Timers: set, moved, cleared; fired in order; and what they hold."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from penstock.runners.execution.state.timers import EVENT_TIME, PROCESSING_TIME, Timer, Timers
from penstock.sdk.userstate.timer_spec import TimeDomain

keys = st.sampled_from(["a", "b"])
windows = st.sampled_from(["w", "v"])
families = st.sampled_from(["event", "processing"])
tags = st.sampled_from(["", "x"])
times = st.integers(0, 10)

DOMAINS = {"event": EVENT_TIME, "processing": PROCESSING_TIME}


def timer(fire: int, key: Any = "a", window: Any = "w", family: str = "event", tag: str = "") -> Timer:
    """A timer whose output has its own time."""
    return Timer(fire, fire, key, window, family, tag)


def fired_of(timers: Timers, domain: TimeDomain, time: int) -> Iterator[Timer]:
    """The timers up to a time, with those that are set meanwhile, each of which is removed."""
    while (first := timers.next(domain)) is not None and first <= time:
        yield timers.pop(domain)


@given(st.permutations(list(range(30))))
def test_timers_fire_in_the_order_of_their_times(order: list[int]) -> None:
    """For any order of setting."""
    timers = Timers()
    for at in order:
        timers.set(timer(at, key=at), EVENT_TIME)
    assert list(range(20)) == [fired.fire for fired in fired_of(timers, EVENT_TIME, 19)]
    assert (20, 10) == (timers.next(EVENT_TIME), len(timers))


def test_those_of_one_time_fire_in_the_order_in_which_they_were_set() -> None:
    """One that is moved goes to the end; one that is set to what it is set to stays where it is."""
    timers = Timers()
    for key in ("c", "a", "b"):
        timers.set(timer(5, key=key), EVENT_TIME)
    timers.set(timer(6, key="c"), EVENT_TIME)
    timers.set(timer(5, key="c"), EVENT_TIME)
    timers.set(timer(5, key="a"), EVENT_TIME)
    assert ["a", "b", "c"] == [t.key for t in timers.of("w", EVENT_TIME)]
    assert ["a", "b", "c"] == [t.key for t in fired_of(timers, EVENT_TIME, 5)]


def test_a_timer_that_is_set_anew_has_one_time() -> None:
    """The last one, be it later or earlier."""
    timers = Timers()
    for at in (10, 30, 20):
        timers.set(timer(at), EVENT_TIME)
    assert [20] == [t.fire for t in fired_of(timers, EVENT_TIME, 100)]
    assert None is timers.next(EVENT_TIME)


def test_a_timer_that_is_cleared_does_not_fire() -> None:
    """Others of its family, key and window do."""
    timers = Timers()
    for t in (timer(1), timer(2, tag="x"), timer(3, key="b"), timer(4, window="v")):
        timers.set(t, EVENT_TIME)
    timers.clear("w", "a", "event")
    timers.clear("w", "unknown", "event")
    assert [2, 3, 4] == [t.fire for t in fired_of(timers, EVENT_TIME, 10)]


def test_what_is_set_while_others_fire_fires_in_its_turn() -> None:
    """In the past: at once."""
    timers = Timers()
    timers.set(timer(10, key="first"), EVENT_TIME)
    timers.set(timer(20, key="last"), EVENT_TIME)
    fired = []
    for t in fired_of(timers, EVENT_TIME, 30):
        fired.append((t.fire, t.key))
        if t.key == "first":
            timers.set(timer(15, key="between"), EVENT_TIME)
            timers.set(timer(5, key="past"), EVENT_TIME)
            timers.set(timer(31, key="future"), EVENT_TIME)
    assert [(10, "first"), (5, "past"), (15, "between"), (20, "last")] == fired


def test_the_domains_are_apart_and_both_hold_the_watermark() -> None:
    """At their outputs' timestamps, not at the times at which they fire."""
    timers = Timers()
    timers.set(Timer(100, 40, "a", "w", "event"), EVENT_TIME)
    timers.set(Timer(1, 50, "a", "w", "processing"), PROCESSING_TIME)
    assert (100, 1, 40) == (timers.next(EVENT_TIME), timers.next(PROCESSING_TIME), timers.hold())
    timers.pop(EVENT_TIME)
    assert 50 == timers.hold()
    timers.clear("w", "a", "processing")
    assert None is timers.hold()


def test_a_window_that_is_over_leaves_nothing() -> None:
    """Neither timers nor holds."""
    timers = Timers()
    for window in ("w", "v"):
        timers.set(timer(1, window=window), EVENT_TIME)
        timers.set(timer(2, window=window, family="processing"), PROCESSING_TIME)
    timers.free("w")
    assert (2, ["v"], 1) == (len(timers), timers.windows(), timers.hold())
    timers.free("v")
    assert (0, [], None) == (len(timers), timers.windows(), timers.hold())


def test_timers_that_are_moved_again_and_again_take_no_more_memory() -> None:
    """Their old places are tidied up."""
    timers = Timers()
    for at in range(100_000):
        timers.set(timer(at), EVENT_TIME)
    assert max(len(heap.items) for heap in (timers._heaps[EVENT_TIME], timers._holds)) < 200
    assert [99_999] == [t.fire for t in fired_of(timers, EVENT_TIME, 1_000_000)]


class TimersAgainstADictionary(RuleBasedStateMachine):
    """Timers do what a dictionary that is sorted each time does."""

    def __init__(self) -> None:
        super().__init__()
        self.timers = Timers()
        self.model: dict[tuple[str, str, str, str], tuple[int, int, int]] = {}
        self.count = 0

    @rule(fire=times, output=times, key=keys, window=windows, family=families, tag=tags)
    def set(self, fire: int, output: int, key: str, window: str, family: str, tag: str) -> None:
        self.timers.set(Timer(fire, output, key, window, family, tag), DOMAINS[family])
        name = (window, key, family, tag)
        if self.model.get(name, ())[:2] != (fire, output):
            self.count += 1
            self.model.pop(name, None)
            self.model[name] = (fire, output, self.count)

    @rule(key=keys, window=windows, family=families, tag=tags)
    def clear(self, key: str, window: str, family: str, tag: str) -> None:
        self.timers.clear(window, key, family, tag)
        self.model.pop((window, key, family, tag), None)

    @rule(time=times, family=families)
    def fire(self, time: int, family: str) -> None:
        due = sorted((at, n, name) for name, (at, _, n) in self.model.items() if name[2] == family and at <= time)
        for _, _, name in due:
            del self.model[name]
        fired = [(t.window, t.key, t.family, t.tag) for t in fired_of(self.timers, DOMAINS[family], time)]
        assert [name for _, _, name in due] == fired

    @rule(window=windows)
    def free(self, window: str) -> None:
        self.timers.free(window)
        self.model = {name: value for name, value in self.model.items() if name[0] != window}

    @rule()
    def restore(self) -> None:
        restored = Timers()
        restored.restore(pickle.loads(pickle.dumps(self.timers.snapshot())))
        self.timers = restored

    @invariant()
    def agrees(self) -> None:
        assert len(self.model) == len(self.timers)
        assert min((output for _, output, _ in self.model.values()), default=None) == self.timers.hold()
        for family, domain in DOMAINS.items():
            first = min((fire for name, (fire, _, _) in self.model.items() if name[2] == family), default=None)
            assert first == self.timers.next(domain)
        for window, key, family, tag in self.model:
            found = self.timers.get(window, key, family, tag)
            assert found is not None
            assert self.model[window, key, family, tag][:2] == (found.fire, found.output)


TestTimersAgainstADictionary = TimersAgainstADictionary.TestCase
