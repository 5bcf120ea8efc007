"""Timers of a key fire in the order of their times, in each time domain, however they are set, moved and cleared."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import attrs
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.pipelines.recording import Change

import penstock as beam
from penstock.sdk.userstate import TimerSpec, on_timer
from penstock.testing import TestStream
from penstock.windowing import FixedWindows, GlobalWindows, TimestampedValue, WindowFn
from penstock.windowing.timestamp import MAX_MICROS

MANY = settings(max_examples=250, suppress_health_check=[HealthCheck.too_slow])
SECOND = 1_000_000
EVENT, CLOCK = "event", "clock"

# What a timer does when it fires, by its tag: nothing but to say so; set the one that does
# nothing to three seconds later; clear it, in both domains; set that of the other domain to the same number.
TAGS = ["plain", "again", "stop", "cross"]


@attrs.frozen
class Command:
    """Set a timer to this second of its time domain; clear it if there is none."""

    family: str
    tag: str
    at: int | None


class Alarms(beam.DoFn):
    """Does what its elements say, and says which timers have fired."""

    ON_EVENT = TimerSpec(EVENT, beam.TimeDomain.WATERMARK)
    ON_CLOCK = TimerSpec(CLOCK, beam.TimeDomain.REAL_TIME)

    def process(
        self, element: Any, event: Any = beam.DoFn.TimerParam(ON_EVENT), clock: Any = beam.DoFn.TimerParam(ON_CLOCK)
    ) -> None:
        for command in element[1]:
            timer = event if command.family == EVENT else clock
            if command.at is None:
                timer.clear(dynamic_timer_tag=command.tag)
            else:
                timer.set(command.at, dynamic_timer_tag=command.tag)

    @on_timer(ON_EVENT)
    def at_event_time(
        self,
        key: Any = beam.DoFn.KeyParam,
        time: Any = beam.DoFn.TimestampParam,
        tag: Any = beam.DoFn.DynamicTimerTagParam,
        event: Any = beam.DoFn.TimerParam(ON_EVENT),
        clock: Any = beam.DoFn.TimerParam(ON_CLOCK),
    ) -> Iterator[Any]:
        react(tag, time, event, clock)
        yield key, (EVENT, tag, time.micros)

    @on_timer(ON_CLOCK)
    def at_processing_time(
        self,
        key: Any = beam.DoFn.KeyParam,
        time: Any = beam.DoFn.TimestampParam,
        tag: Any = beam.DoFn.DynamicTimerTagParam,
        event: Any = beam.DoFn.TimerParam(ON_EVENT),
        clock: Any = beam.DoFn.TimerParam(ON_CLOCK),
    ) -> Iterator[Any]:
        react(tag, time, clock, event)
        yield key, (CLOCK, tag, time.micros)


def react(tag: str, time: Any, own: Any, other: Any) -> None:
    """React to a timer: `own` are the timers of its domain."""
    if tag == "again":
        own.set(time + 3, dynamic_timer_tag="plain")
    elif tag == "stop":
        own.clear(dynamic_timer_tag="plain")
        other.clear(dynamic_timer_tag="plain")
    elif tag == "cross":
        other.set(time, dynamic_timer_tag="plain")


# Scripts: ("elements", [(key, commands, second)]), ("watermark", by) or ("clock", by).
Move = tuple[str, Any]

COMMANDS = st.lists(
    st.builds(Command, st.sampled_from([EVENT, CLOCK]), st.sampled_from(TAGS), st.none() | st.integers(0, 40)),
    min_size=1,
    max_size=4,
).map(tuple)
ELEMENTS = st.lists(st.tuples(st.sampled_from("ab"), COMMANDS, st.integers(0, 40)), min_size=1, max_size=2)
MOVES = st.one_of(
    st.tuples(st.just("elements"), ELEMENTS),
    st.tuples(st.just("watermark"), st.integers(1, 12)),
    st.tuples(st.just("clock"), st.integers(1, 12)),
)


def stream_of(moves: Sequence[Move]) -> TestStream:
    stream, watermark = TestStream(), 0
    for kind, what in moves:
        if kind == "elements":
            stream.add_elements([TimestampedValue((key, commands), second) for key, commands, second in what])
        elif kind == "watermark":
            watermark += what
            stream.advance_watermark_to(watermark)
        else:
            stream.advance_processing_time(what)
    return stream


def fired(run: Any, moves: Sequence[Move], window_fn: WindowFn, lateness: int) -> dict[str, list[Any]]:
    """Return the timers of each key that fired, in order."""
    windows = beam.WindowInto(window_fn, allowed_lateness=lateness)
    changes: list[Change] = run(lambda p: p | stream_of(moves) | windows | beam.ParDo(Alarms())).changes
    return {key: [change.value[1] for change in changes if change.value[0] == key] for key in "ab"}


# What is expected, as plainly as it can be written: a list of all timers, sorted before each one that fires.


@attrs.define
class Alarm:
    """A timer that is set: when, and after how many others; times are microseconds."""

    fire: int
    output: int
    number: int


class Model:
    """The timers of one key."""

    def __init__(self, key: str, window_fn: WindowFn, lateness: int) -> None:
        self.key = key
        self.window_fn = window_fn
        self.lateness = lateness
        self.now: dict[str, int] = {EVENT: -MAX_MICROS, CLOCK: 0}
        # By window, family and tag.
        self.alarms: dict[tuple[Any, str, str], Alarm] = {}
        self.open: set[Any] = set()
        self.count = 0
        self.fired: list[Any] = []

    def last(self, window: Any) -> int:
        """The last watermark at which a window is there."""
        return min(int(window.max_micros) + 1 + self.lateness * SECOND, MAX_MICROS - 1)

    def play(self, moves: Sequence[Move]) -> list[Any]:
        for kind, what in [*moves, ("end", None)]:
            if kind == "elements":
                for key, commands, second in what:
                    if key == self.key:
                        self.element(commands, second)
            elif kind == "end":
                self.now[EVENT] = MAX_MICROS
            elif kind == "watermark":
                self.now[EVENT] = max(self.now[EVENT], 0) + what * SECOND
            else:
                self.now[CLOCK] += what * SECOND
            self.fire_due()
        return self.fired

    def element(self, commands: Sequence[Command], second: int) -> None:
        (window,) = self.window_fn.assign(WindowFn.AssignContext(second))
        if self.last(window) < self.now[EVENT]:
            return
        self.open.add(window)
        micros = second * SECOND
        for command in commands:
            if command.at is None:
                self.alarms.pop((window, command.family, command.tag), None)
            else:
                self.set(window, command.family, command.tag, command.at * SECOND, micros, micros)
        self.fire_due()

    def set(self, window: Any, family: str, tag: str, fire: int, now: int, output: int) -> None:
        name, last = (window, family, tag), self.last(window)
        if family == EVENT:
            if fire > last and now >= last:
                self.alarms.pop(name, None)
                return
            fire = min(fire, last)
            output = max(window.max_micros if fire == window.max_micros + 1 else fire, output)
        before = self.alarms.get(name)
        # One that is set to what it is set to stays where it is.
        if before is None or (before.fire, before.output) != (fire, output):
            self.count += 1
            self.alarms[name] = Alarm(fire, output, self.count)

    def fire_due(self) -> None:
        """Event time first, where a window expires after the timers at its last moment; then processing time."""
        while True:
            due = [
                (family == CLOCK, alarm.fire, 0, alarm.number, (window, family, tag))
                for (window, family, tag), alarm in self.alarms.items()
                if alarm.fire <= self.now[family]
            ]
            due += [(False, self.last(w), 1, 0, w) for w in self.open if self.last(w) < self.now[EVENT]]
            if not due:
                return
            _, _, is_expiry, _, which = min(due, key=lambda d: d[:4])
            if is_expiry:
                self.open.remove(which)
                self.alarms = {name: alarm for name, alarm in self.alarms.items() if name[0] != which}
            else:
                self.fire(*which)

    def fire(self, window: Any, family: str, tag: str) -> None:
        alarm = self.alarms.pop((window, family, tag))
        other = CLOCK if family == EVENT else EVENT
        now = alarm.fire if family == EVENT else alarm.output
        if tag == "again":
            self.set(window, family, "plain", alarm.fire + 3 * SECOND, now, alarm.output)
        elif tag == "stop":
            self.alarms.pop((window, family, "plain"), None)
            self.alarms.pop((window, other, "plain"), None)
        elif tag == "cross":
            self.set(window, other, "plain", alarm.fire, now, alarm.output)
        self.fired.append((family, tag, alarm.fire))


@MANY
@given(st.lists(MOVES, max_size=12), st.sampled_from([GlobalWindows(), FixedWindows(20)]), st.sampled_from([0, 5]))
def test_random_timers_fire_as_a_list_of_them_says(
    run: Any, moves: list[Move], window_fn: WindowFn, lateness: int
) -> None:
    """Also those that others set, move and clear when they fire, that are set to the past, and whose window expires."""
    expected = {key: Model(key, window_fn, lateness).play(moves) for key in "ab"}
    assert expected == fired(run, moves, window_fn, lateness)


@MANY
@given(
    st.lists(
        st.tuples(
            st.sampled_from("ab"), st.sampled_from([EVENT, CLOCK]), st.integers(0, 9), st.none() | st.integers(1, 60)
        ),
        max_size=60,
    ),
    st.lists(st.tuples(st.sampled_from(["watermark", "clock"]), st.integers(1, 30)), max_size=8),
)
def test_timers_that_are_set_before_any_time_fire_in_its_order(
    run: Any, settings: list[tuple[str, str, int, int | None]], moves: list[Move]
) -> None:
    """Each at the time that it was set to last, unless it was cleared; those that no clock has reached do not fire."""
    commands = [(key, (Command(family, f"plain {number}", at),), 0) for key, family, number, at in settings]
    at_the_end = {EVENT: MAX_MICROS, CLOCK: sum(by for kind, by in moves if kind == "clock") * SECOND}
    last = {(key, family, number): at for key, family, number, at in settings}
    actual = fired(run, [("elements", commands), *moves], GlobalWindows(), 0)
    for key in "ab":
        for family in (EVENT, CLOCK):
            times = [at * SECOND for (k, f, _), at in last.items() if (k, f) == (key, family) and at is not None]
            due = sorted(time for time in times if time <= at_the_end[family])
            assert due == [time for f, _, time in actual[key] if f == family]
