"""The wall clock is set back by an hour, and forward, while a stream runs and while it doesn't."""

import contextlib
import pathlib
import signal
import sqlite3
from collections import Counter

import pytest
from support.programs.command_line import command_in
from support.programs.running_program import RunningProgram
from support.programs.wall_clock import SetClock

HOUR = 3_600

# Numbers, each of which has a timer of its own, a moment later.
PROGRAM = """
import sys
import penstock as beam
from penstock.sdk.userstate import ReadModifyWriteStateSpec, TimerSpec, on_timer
from penstock import TimeDomain


class Echo(beam.DoFn):
    NUMBER = ReadModifyWriteStateSpec("number", beam.coders.VarIntCoder())
    TIMER = TimerSpec("timer", TimeDomain.REAL_TIME)

    def process(self, element, number=beam.DoFn.StateParam(NUMBER), timer=beam.DoFn.TimerParam(TIMER)):
        number.write(element[1])
        timer.set_relative(0.2)
        yield "came", element[1]

    @on_timer(TIMER)
    def fire(self, number=beam.DoFn.StateParam(NUMBER)):
        yield "fired", number.read()


p = beam.Pipeline(argv=sys.argv[1:])
numbers = p | beam.io.GenerateSequence(0, elements_per_period=200, period=1, partitions=2)
rows = numbers | beam.Map(lambda n: (f"key {n}", n)) | beam.ParDo(Echo())
rows | beam.io.WriteToSQLite("out.db", "rows", columns=["what", "number"], count_column="times")
p.run().wait_until_finish()
"""

LAYOUTS = {
    "one process": ["--parallelism=2", "--workers=1", "--checkpoint_mode=unaligned"],
    "forks of the template": ["--parallelism=2", "--recovery=region"],
    "strong delivery": ["--parallelism=2", "--delivery=strong"],
}


class Stream:
    """The program, which may be started several times."""

    def __init__(self, directory: pathlib.Path, flags: list[str]) -> None:
        self.directory = directory
        self.checkpoints = directory / "checkpoints"
        self._flags = [*flags, f"--checkpoint_dir={self.checkpoints}", "--checkpoint_interval=0.1"]

    def start(self) -> RunningProgram:
        return RunningProgram(self.directory, PROGRAM, *self._flags)

    def rows(self) -> list[tuple[str, int, int]]:
        with contextlib.closing(sqlite3.connect(self.directory / "out.db")) as connection:
            try:
                return connection.execute("SELECT what, number, times FROM rows").fetchall()
            except sqlite3.OperationalError:
                return []

    def goes_on(self, program: RunningProgram) -> None:
        """Numbers come, timers fire, and both are committed."""
        before = Counter(what for what, _, _ in self.rows())

        def more() -> bool:
            now = Counter(what for what, _, _ in self.rows())
            return now["came"] >= before["came"] + 50 and now["fired"] >= before["fired"] + 50

        program.wait_until(more, "numbers and timers")


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_stream_goes_on_while_its_wall_clock_is_set(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, layout: str
) -> None:
    """Back and forward, in a run and before the next: nothing stops, comes twice, or comes in a flood."""
    clock, stream = SetClock(tmp_path, monkeypatch), Stream(tmp_path, LAYOUTS[layout])
    with stream.start() as program:
        stream.goes_on(program)
        clock.set(-HOUR)
        stream.goes_on(program)
        warning = "The wall clock was set back: processing time is 3600 seconds ahead of it"
        program.wait_until(lambda: warning in program.log, warning)
        if layout != "strong delivery":
            asked = command_in(tmp_path)("checkpoints", "savepoint", str(stream.checkpoints))
            assert "savepoint" in asked.stdout, asked.stderr
        clock.set(2 * HOUR)
        stream.goes_on(program)
        program.signal(signal.SIGTERM)
        assert 0 == program.ended(), program.log
    clock.set(-2 * HOUR)
    with stream.start() as program:
        stream.goes_on(program)
        asked = command_in(tmp_path)("checkpoints", "drain", str(stream.checkpoints))
        assert "DRAINED" in asked.stdout, asked.stderr
        assert 0 == program.ended(), program.log
    came = sorted(number for what, number, _ in stream.rows() if what == "came")
    fired = sorted(number for what, number, _ in stream.rows() if what == "fired")
    # One of the two partitions may be further than the other.
    evens, odds = [number for number in came if number % 2 == 0], [number for number in came if number % 2]
    assert list(range(0, 2 * len(evens), 2)) == evens
    assert list(range(1, 2 * len(odds), 2)) == odds
    assert came == fired
    assert {1} == {times for _, _, times in stream.rows()}
    assert len(came) < 20_000
