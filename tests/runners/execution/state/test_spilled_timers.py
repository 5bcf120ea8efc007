"""Timers on disk: they fire as those in memory do."""

from __future__ import annotations

import pickle
from random import Random
from typing import Any

from support.execution.stateful_pardo import REAL_TIME, WATERMARK, S, Work, at

import penstock as beam
from penstock.runners.execution.spilling.rocksdb import SpillDatabase, SpilledEntries
from penstock.runners.execution.spilling.spilled_step import NumberedWindows, SpillContext
from penstock.runners.execution.state.spilled_state import SpilledState
from penstock.runners.execution.state.spilled_timers import SpilledTimers
from penstock.runners.execution.state.stateful_pardo import StatefulExecutor
from penstock.sdk.userstate import ReadModifyWriteStateSpec, TimerSpec, on_timer
from penstock.windowing import FixedWindows
from penstock.windowing.timestamp import MAX_MICROS


class Busy(beam.DoFn):
    """Sets and clears timers as its elements say, and counts the calls of a key."""

    COUNT = ReadModifyWriteStateSpec("count")
    EVENT = TimerSpec("event", WATERMARK)
    CLOCK = TimerSpec("clock", REAL_TIME)

    def process(
        self,
        element: Any,
        count: Any = beam.DoFn.StateParam(COUNT),
        event: Any = beam.DoFn.TimerParam(EVENT),
        clock: Any = beam.DoFn.TimerParam(CLOCK),
    ) -> None:
        _, (is_event, tag, time) = element
        count.write((count.read() or 0) + 1)
        timer = event if is_event else clock
        if time is None:
            timer.clear(dynamic_timer_tag=tag)
        else:
            timer.set(time, dynamic_timer_tag=tag)

    @on_timer(EVENT)
    def on_event(
        self,
        key: Any = beam.DoFn.KeyParam,
        time: Any = beam.DoFn.TimestampParam,
        tag: Any = beam.DoFn.DynamicTimerTagParam,
        count: Any = beam.DoFn.StateParam(COUNT),
        clock: Any = beam.DoFn.TimerParam(CLOCK),
    ) -> Any:
        count.write((count.read() or 0) + 100)
        if tag:
            clock.set(float(time) % 7 + 3)
        yield "event", key, float(time), tag, count.read()

    @on_timer(CLOCK)
    def on_clock(
        self,
        key: Any = beam.DoFn.KeyParam,
        tag: Any = beam.DoFn.DynamicTimerTagParam,
        count: Any = beam.DoFn.StateParam(COUNT),
    ) -> Any:
        yield "clock", key, tag, count.read()


class OnDisk(Work):
    """A worker whose memory has no room at random times, and which is restarted at others."""

    def __init__(self, database: SpillDatabase, random: Random, window_fn: Any) -> None:
        super().__init__(Busy(), window_fn, tracking=True)
        self.random = random
        self.database = database
        self.state: list[Any] = []
        self.timers: list[Any] = []
        self.is_restoring = False
        database.rocksdb.delete_range(b"\x00", b"\x02")
        self._begin()

    def _begin(self) -> None:
        executor = self.executor
        state, timers = (SpillContext("Busy", SpilledEntries(self.database, n), self.spill) for n in range(2))
        executor.spilled = SpilledState(executor.state, state)
        self.spilled_timers = SpilledTimers(executor.timers, timers)

    @property
    def steps(self) -> list[Any]:
        return [self.executor.spilled, self.spilled_timers]

    def spill(self) -> None:
        """Spill some of it, or nothing; while it is restored, tables would have to precede."""
        if self.is_restoring:
            return
        for step in self.steps:
            step.spill(self.random.choice([0, 0.5, 1]))

    def record(self) -> None:
        executor, spilled = self.executor, self.executor.spilled
        assert spilled is not None
        removed = [change for _, own in spilled.removed() for change in own]
        self.state = pickle.loads(pickle.dumps([*self.state, *removed, *executor.state.changes()]))
        self.timers = pickle.loads(pickle.dumps([*self.timers, *map(tuple, executor.timers.changes())]))

    def restart(self) -> None:
        self.record()
        noted = pickle.loads(pickle.dumps([step.noted() for step in self.steps]))
        before = self.executor
        self.executor = StatefulExecutor(self.transform, self.emit, tracking=True)
        self.executor.watermark, self.executor.processing_time = before.watermark, before.processing_time
        self._begin()
        self.is_restoring = True
        for step, records in zip(self.steps, (self.state, self.timers), strict=True):
            step.restore(records)
        for step, (number, count, windows) in zip(self.steps, noted, strict=True):
            step.adopt(number, count, NumberedWindows.of(windows))
        self.is_restoring = False
        self.executor.restore([], [])


def test_timers_on_disk_fire_as_those_in_memory(database: SpillDatabase) -> None:
    """In the order of time, those of a key and time in the order in which they were set; also after a restart."""
    for seed in range(300):
        random = Random(seed)
        window_fn = random.choice([None, FixedWindows(20)])
        one, other = Work(Busy(), window_fn), OnDisk(database, random, window_fn)
        watermark = clock = 0
        for _ in range(random.randint(3, 20)):
            kind = random.choice(["elements", "elements", "watermark", "clock", "spill", "record", "restart"])
            if kind == "elements":
                elements = []
                for _ in range(random.randint(1, 6)):
                    time = random.choice([None, *range(watermark, watermark + 15)])
                    content = random.random() < 0.6, random.choice(["", "", "x"]), time
                    elements.append(at((random.choice("abcdef"), content), watermark))
                one.process(*elements)
                other.process(*elements)
            elif kind == "watermark":
                watermark += random.randint(0, 12)
                one.watermark(watermark)
                other.watermark(watermark)
            elif kind == "clock":
                clock += random.randint(0, 12)
                one.clock(clock)
                other.clock(clock)
            elif kind == "spill":
                other.spill()
            elif kind == "record":
                other.record()
            else:
                other.restart()
            _compare(one, other, seed)
        for work in (one, other):
            work.executor.finish()
            work.executor.fire_due()
        _compare(one, other, seed)
        assert [0, 0] == [len(one.executor.timers), len(other.executor.timers)]
        assert 0 == other.spilled_timers.number_spilled


def _compare(one: Work, other: Work, seed: int) -> None:
    found = [(work.executor.next_event_time(), work.executor.next_processing_time()) for work in (one, other)]
    assert found[0] == found[1], seed
    assert one.executor.hold() == other.executor.hold(), seed
    expected, rows = one.rows, other.rows
    one.rows, other.rows = [], []
    assert sorted(map(repr, expected)) == sorted(map(repr, rows)), seed
    for key in "abcdef":
        assert [row for row in expected if row[0][1] == key] == [row for row in rows if row[0][1] == key], seed
    times = [row[0][2] for row in rows if row[0][0] == "event"]
    if one.executor.watermark < MAX_MICROS // S * S:
        assert sorted(times) == times, seed
