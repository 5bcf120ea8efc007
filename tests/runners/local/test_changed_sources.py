"""A pipeline whose sources aren't what they were: the next start with its checkpoints."""

from __future__ import annotations

import os
import pathlib
import sqlite3
import time
from itertools import pairwise
from typing import Any

import pytest
from support.programs.running_program import wait_until

import penstock as beam
from penstock.io.restriction_trackers import OffsetRange, OffsetRestrictionTracker
from penstock.options.pipeline_options import PipelineOptions
from penstock.sdk.dofn.splittable_dofn import RestrictionProvider
from penstock.sdk.errors import CheckpointMismatchError, SourceError
from penstock.testing import TestStream
from penstock.windowing import Duration, Timestamp

STRONG = {"delivery": "strong"}
WAYS: dict[str, dict[str, Any]] = {
    "one subtask": {"parallelism": 1},
    "barriers": {"parallelism": 2, "workers": 1},
    "unaligned": {"parallelism": 2, "workers": 1, "checkpoint_mode": "unaligned"},
    "regions": {"parallelism": 2, "workers": 2, "recovery": "region"},
}


def started(directory: pathlib.Path, read: Any, **flags: Any) -> Any:
    """A stream of what a source gives, each with how often it came."""
    options = PipelineOptions(checkpoint_interval=0.05, checkpoint_dir=str(directory / "kept"), **flags)
    p = beam.Pipeline(options=options)
    # What ends doesn't publish before its end, so another source keeps it a stream.
    _ = (
        p
        | "Endless" >> beam.io.GenerateSequence(0, None, 100, 1)
        | "No" >> beam.Filter(lambda n: n < 0)
        | beam.Map(print)
    )
    rows = p | "Read" >> read | "Rows" >> beam.Map(lambda value: {"value": str(value)})
    sink = beam.io.WriteToSQLite(directory / "out.db", "rows", columns=["value"], count_column="n")
    _ = rows | beam.Reshuffle() | "Out" >> sink
    return p.run()


def counts(directory: pathlib.Path) -> dict[str, int]:
    """How often each value was written."""
    if not (directory / "out.db").exists():
        return {}
    connection = sqlite3.connect(directory / "out.db")
    try:
        return dict(connection.execute("SELECT value, SUM(n) FROM rows GROUP BY value"))
    except sqlite3.OperationalError:
        return {}
    finally:
        connection.close()


def run_until(directory: pathlib.Path, read: Any, number: int, **flags: Any) -> None:
    """Run it until so many values are written, and stop it."""
    result = started(directory, read, **flags)
    # A worker that is forked while SQLite is at work here would wait for it forever.
    wait_until(lambda: result._job.status.attempted.counts.steps or result.state != "RUNNING", "a report")
    wait_until(lambda: len(counts(directory)) >= number or result.state != "RUNNING", f"{number} values")
    assert "CANCELLED" == result.stop_with_savepoint()


@pytest.mark.parametrize("way", WAYS)
def test_a_sequence_goes_on_with_other_partitions(tmp_path: pathlib.Path, way: str) -> None:
    """From 1 to 3 to 2 to 4: each number once."""
    rate = {"elements_per_period": 300, "period": 1, "start_time": Timestamp.now()}
    for partitions, number in ((1, 50), (3, 200), (2, 400), (4, 600)):
        run_until(tmp_path, beam.io.GenerateSequence(0, 600, partitions=partitions, **rate), number, **WAYS[way])

    assert dict.fromkeys(map(str, range(600)), 1) == counts(tmp_path)


def test_with_productions_a_sequence_goes_on_with_its_partitions_only(tmp_path: pathlib.Path) -> None:
    """The partitions to redistribute are in several logs; the refusal changes nothing."""

    def read(partitions: int) -> Any:
        return beam.io.GenerateSequence(0, 600, 500, 1, partitions=partitions)

    run_until(tmp_path, read(1), 50, **STRONG)
    with pytest.raises(
        CheckpointMismatchError, match=r"'Read/Read.*: partitions \(then: 1; now: 2\)\. With --delivery=strong"
    ):
        started(tmp_path, read(2), allow_changed_sources=True, **STRONG).wait_until_finish()
    run_until(tmp_path, read(1), 600, **STRONG)

    assert dict.fromkeys(map(str, range(600)), 1) == counts(tmp_path)


def numbers(start: int = 0, rate: int = 500, **options: Any) -> Any:
    return beam.io.GenerateSequence(start, None, rate, 1, **options)


def scripted(*values: int) -> Any:
    return TestStream().add_elements(list(values))


def growing(directory: pathlib.Path, pattern: str = "*.log", **options: Any) -> Any:
    (directory / "a.log").write_text("h\nx\ny\n")
    return beam.io.ReadContinuouslyFromText(directory / pattern, 0.01, **options)


def table(directory: pathlib.Path, **options: Any) -> Any:
    connection = sqlite3.connect(directory / "in.db")
    connection.executescript("CREATE TABLE IF NOT EXISTS t (id, value); CREATE TABLE IF NOT EXISTS u (id, value)")
    connection.execute("INSERT INTO t VALUES ((SELECT COUNT(*) FROM t), 'x')")
    connection.commit()
    connection.close()
    chosen = {"table": "t", "increasing_column": "id", "poll_interval": 0.01} | options
    return beam.io.ReadFromSQL(directory / "in.db", **chosen)


class Work(beam.DoFn):
    """Gives an element again and again, without an end."""

    class Provider(RestrictionProvider):
        def initial_restriction(self, element: Any) -> Any:
            return OffsetRange(0, 10**9)

        def create_tracker(self, restriction: Any) -> Any:
            return OffsetRestrictionTracker(restriction)

        def restriction_size(self, element: Any, restriction: Any) -> Any:
            return restriction.size()

    @beam.DoFn.unbounded_per_element()
    def process(self, element: Any, tracker: Any = beam.DoFn.RestrictionParam(Provider())) -> Any:
        at = tracker.current_restriction().start
        while tracker.try_claim(at):
            yield element, at
            at += 1
            tracker.defer_remainder(Duration(0.001))
            return


NOW = Timestamp.now()

# What is read at first, what then, and what the refusal says.
CHANGES: dict[str, tuple[Any, Any, str]] = {
    "start": (lambda d: numbers(), lambda d: numbers(7), r"start \(then: 0; now: 7\)"),
    "rate": (lambda d: numbers(), lambda d: numbers(rate=50), r"elements_per_period \(then: 500; now: 50\)"),
    "start_time": (
        lambda d: numbers(start_time=NOW),
        lambda d: numbers(start_time=NOW + 1),
        r"start_time \(then: Timestamp\(.*\); now: Timestamp\(.*\)\)",
    ),
    "interval": (
        lambda d: beam.PeriodicImpulse(fire_interval=0.01),
        lambda d: beam.PeriodicImpulse(fire_interval=0.02),
        r"fire_interval \(then: 0.01; now: 0.02\)",
    ),
    "data": (
        lambda d: beam.PeriodicImpulse(fire_interval=0.01, data=[1, 2]),
        lambda d: beam.PeriodicImpulse(fire_interval=0.01, data=[1, 3]),
        r"data \(then: 2 values, digest \w+; now: 2 values, digest \w+\)",
    ),
    "values": (
        lambda d: beam.Create([1, 2]),
        lambda d: beam.Create([1, 2, 3]),
        r"values \(then: 2 values, digest \w+; now: 3 values, digest \w+\)",
    ),
    "files": (
        lambda d: (d / "a.txt").write_text("x\ny\n") and beam.io.ReadFromText(d / "*.txt"),
        lambda d: (d / "b.txt").write_text("z\n") and beam.io.ReadFromText(d / "b.txt"),
        r"file_pattern \(then: .*/\*\.txt; now: .*/b\.txt\)",
    ),
    "header": (
        lambda d: (d / "a.txt").write_text("x\ny\n") and beam.io.ReadFromText(d / "*.txt"),
        lambda d: beam.io.ReadFromText(d / "*.txt", skip_header_lines=1),
        r"skip_header_lines \(then: 0; now: 1\)",
    ),
    "pattern": (growing, lambda d: growing(d, "a*"), r"file_pattern \(then: .*/\*\.log; now: .*/a\*\)"),
    "delimiter": (growing, lambda d: growing(d, delimiter=b"x"), r"delimiter \(then: none; now: b'x'\)"),
    "watched pattern": (
        lambda d: growing(d) and beam.io.fileio.MatchContinuously(d / "*.log", 0.01),
        lambda d: beam.io.fileio.MatchContinuously(d / "a*", 0.01),
        r"file_pattern \(then: .*/\*\.log; now: .*/a\*\)",
    ),
    "table": (table, lambda d: table(d, table="u"), r"table \(then: t; now: u\)"),
    "query": (
        lambda d: table(d, table=None, query="SELECT * FROM t"),
        lambda d: table(d, table=None, query="SELECT * FROM t WHERE id > 0"),
        r"query \(then: SELECT \* FROM t; now: SELECT \* FROM t WHERE id > 0\)",
    ),
    "elements to watch": (
        lambda d: Watched("ab"),
        lambda d: Watched("b"),
        r"elements \(then: 2 values, digest \w+; now: 1 value, digest \w+\)",
    ),
    "elements to work on": (
        lambda d: Worked("ab"),
        lambda d: Worked("cab"),
        r"elements \(then: 2 values, digest \w+; now: 3 values, digest \w+\)",
    ),
    "script": (
        lambda d: scripted(1, 2),
        lambda d: scripted(0, 1, 2).advance_watermark_to_infinity(),
        r"events \(then: 1 value, digest \w+; now: 2 values, digest \w+\)",
    ),
}


class Watched(beam.PTransform):
    """Watches letters, of which one thing after the other is found."""

    def __init__(self, letters: str) -> None:
        super().__init__()
        self.letters = letters

    def expand(self, p: Any) -> Any:
        return p | beam.Create(self.letters.split()[0] and list(self.letters)) | beam.Watch(lambda word: [word], 0.01)


class Worked(Watched):
    """Works on letters."""

    def expand(self, p: Any) -> Any:
        return p | beam.Create(list(self.letters)) | beam.ParDo(Work())


@pytest.mark.parametrize(
    ("change", "delivery"),
    [*((change, "barriers") for change in CHANGES), *((change, "strong") for change in ("start", "values", "query"))],
)
def test_a_source_that_can_not_go_on_where_it_stood_is_refused_by_name(
    tmp_path: pathlib.Path, change: str, delivery: str
) -> None:
    """It lost and repeated elements without a word."""
    first, second, expected = CHANGES[change]
    is_script = change == "script"
    flags = {"delivery": delivery}
    if is_script:
        script_until_a_checkpoint(tmp_path, first(tmp_path), flags)
    else:
        run_until(tmp_path, first(tmp_path), 1, **flags)

    with pytest.raises(CheckpointMismatchError, match=rf"'Read.*': {expected}\..*--allow_changed_sources"):
        started(tmp_path, second(tmp_path), **flags).wait_until_finish()


def script_until_a_checkpoint(directory: pathlib.Path, script: Any, flags: Any) -> None:
    """Run a script until its events are in a checkpoint, and stop it."""
    result = started(directory, script, **flags)
    wait_until(lambda: result._job.checkpoints_completed > 0 or result.state != "RUNNING", "a checkpoint")
    result.stop_with_savepoint()


def test_a_source_that_has_changed_is_read_anew_where_state_may_be_dropped(tmp_path: pathlib.Path) -> None:
    """From its beginning; what it has written stays."""
    run_until(tmp_path, numbers(), 20)
    run_until(tmp_path, numbers(-10), len(counts(tmp_path)) + 10, allow_dropped_state=True)

    assert {1} == {counts(tmp_path)[str(n)] for n in range(-10, 0)}
    assert 2 == counts(tmp_path)["0"]


@pytest.mark.parametrize("delivery", ["barriers", "strong"])
def test_a_source_may_be_at_another_address(tmp_path: pathlib.Path, delivery: str) -> None:
    """The database was moved, and is gone on with; the next start needs no flag any more."""
    for name, flags in (("here", {}), ("there", {"allow_changed_sources": True}), ("there", {})):
        (tmp_path / name).mkdir(exist_ok=True)
        if name == "there" and flags:
            os.rename(tmp_path / "here" / "in.db", tmp_path / "there" / "in.db")
        read = table(tmp_path / name)
        run_until(tmp_path, read, len(counts(tmp_path)) + 1, delivery=delivery, **flags)

    assert [1, 1, 1] == list(counts(tmp_path).values())


@pytest.mark.parametrize("delivery", ["barriers", "strong"])
def test_impulses_go_on_by_the_schedule_that_has_begun(tmp_path: pathlib.Path, delivery: str) -> None:
    """A program that starts them now, as Beam's do, is another one each time."""
    began = Timestamp.now()
    for number in (3, 6):
        now = Timestamp.now()
        run_until(tmp_path, beam.PeriodicImpulse(now, now + 1000, 0.01), number, delivery=delivery)

    values = sorted(map(float, counts(tmp_path)))
    assert {1} == set(counts(tmp_path).values())
    assert {10_000} == {round((b - a) * 1_000_000) for a, b in pairwise(values)}
    assert began <= values[0]


def test_a_file_that_has_changed_behind_a_checkpoint_is_refused(tmp_path: pathlib.Path) -> None:
    """Elements were counted from its beginning, which is another now."""
    path = tmp_path / "in.txt"
    path.write_text("".join(f"line {n}\n" for n in range(200_000)))
    options = PipelineOptions(checkpoint_interval=0.02, max_restarts=0, checkpoint_dir=str(tmp_path / "kept"))

    def run(fails: bool) -> None:
        def slow(line: str) -> str:
            if fails and line.endswith("00"):
                # A checkpoint comes before the last line, however busy the machine is.
                time.sleep(0.002)
                if any((tmp_path / "kept").glob("manifest-*")):
                    raise RuntimeError("stops here")
            return line

        with beam.Pipeline(options=options) as p:
            lines = p | "Read" >> beam.io.ReadFromText(path) | "Slow" >> beam.Map(slow)
            lines | beam.io.WriteToText(tmp_path / "out", num_shards=1)

    with pytest.raises(Exception, match="stops here"):
        run(fails=True)
    path.write_text("a line before all others\n" + path.read_text())
    with pytest.raises(
        SourceError, match=r"Read: '.*in.txt' has changed since it was first read, .*expected \d+ bytes"
    ):
        run(fails=False)
