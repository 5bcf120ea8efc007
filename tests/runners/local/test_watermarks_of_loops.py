"""How far the watermark behind a loop is, while there is something in it."""

from __future__ import annotations

import pathlib
import sqlite3
import time
from typing import Any

from support.execution.subtasks import ByHand
from support.pipelines.recording import Recording
from support.programs.running_program import wait_until

import penstock as beam
from penstock.options.pipeline_options import PipelineOptions
from penstock.runners.execution.plan.execution_graph import whole
from penstock.runners.execution.plan.fusion import fuse
from penstock.runners.execution.streaming.feedback import LoopBetweenTasks
from penstock.runners.local.channels.messages import Barrier
from penstock.sdk.elements.bundle import Bundle
from penstock.testing import ScriptedSource
from penstock.windowing.timestamp import MIN_MICROS


class Circling:
    """Whether an element leaves the loop: one of them when there is a file, the others when they come by twice."""

    def __init__(self, file: pathlib.Path) -> None:
        self.file = str(file)

    def step(self, element: tuple[str, int]) -> tuple[str, int]:
        if element[0] == "long":
            # It is there for others.
            time.sleep(0.01)
        return element[0], element[1] + 1

    def until(self, element: tuple[str, int]) -> bool:
        return pathlib.Path(self.file).exists() if element[0] == "long" else element[1] >= 2


def test_a_window_before_all_that_circles_is_complete(tmp_path: pathlib.Path) -> None:
    """It waited until nothing at all was in the loop, which in a stream may never be."""
    circling = Circling(tmp_path / "enough")
    options = PipelineOptions(parallelism=2, workers=1, checkpoint_interval=0.1)
    p = beam.Pipeline(options=options)
    elements = p | beam.Create([(("short", 0), 1), (("short", 0), 2), (("long", 0), 15)])
    endless = p | beam.io.GenerateSequence(0, None, 10, 1, start_time=100) | beam.Filter(lambda n: False)
    timed = elements | "Timed" >> beam.Map(lambda pair: beam.window.TimestampedValue(*pair))
    both = (timed, endless) | beam.Flatten() | beam.WindowInto(beam.window.FixedWindows(10))
    body = beam.Map(circling.step) | beam.Reshuffle()
    left = both | beam.Feedback(body, until=circling.until)
    counts = left | "Counted" >> beam.Map(lambda pair: (pair[0], 1)) | beam.CombinePerKey(sum)
    rows = counts | "Rows" >> beam.Map(lambda pair: {"name": pair[0], "n": pair[1]})
    _ = rows | beam.io.WriteToSQLite(tmp_path / "out.db", "sums", columns=["name", "n"], key=["name"])
    result = p.run()

    def found() -> list[Any]:
        assert "RUNNING" == result.state
        connection = sqlite3.connect(tmp_path / "out.db")
        try:
            return connection.execute("SELECT name, n FROM sums ORDER BY n").fetchall()
        except sqlite3.OperationalError:
            return []
        finally:
            connection.close()

    wait_until(found, "the first window")
    assert [("short", 2)] == found()
    pathlib.Path(circling.file).touch()
    wait_until(lambda: len(found()) == 2, "the second window")
    assert [("long", 1), ("short", 2)] == found()
    result.drain()


def test_what_is_late_everywhere_doesnt_hold_the_watermark_of_a_loop() -> None:
    """Otherwise one late element in the loop would hold up all elements that are on time."""
    loop = LoopBetweenTasks()
    loop.mark(1, 50)
    loop.mark(2, 60)
    loop.complete_round(1, None, 50)
    loop.add_feedback(Bundle(["late", "on time"], [7, 55]))
    assert 55 == loop.mark(3, 70)
    loop.complete_round(2, 55, 55)
    assert 55 == loop.watermark
    loop.add_feedback(Bundle(["late"], 7))
    assert None is loop.mark(4, 70)
    loop.complete_round(3, None, 70)
    assert 70 == loop.watermark


def test_a_loop_waits_for_what_may_be_from_the_beginning_of_time() -> None:
    """Elements that were never given a timestamp."""
    loop = LoopBetweenTasks()
    loop.mark(1, 50)
    loop.add_feedback(Bundle(["a"], MIN_MICROS))
    earliest = loop.mark(2, 60)
    loop.complete_round(1, earliest, MIN_MICROS)
    assert (MIN_MICROS, MIN_MICROS) == (earliest, loop.watermark)


def test_what_goes_round_in_one_task_has_gone_round_before_a_barrier_comes() -> None:
    """Behind each element, also where the source isn't asked for its watermark: it was lost with the next failure."""
    values = [beam.window.TimestampedValue(n, n) for n in (8, 9)]
    p = beam.Pipeline()
    elements = p | beam.io.Read(ScriptedSource([values], at_a_time=1))
    left = elements | beam.Feedback(beam.Map(lambda n: n // 2), until=lambda n: n < 2)
    _ = left | beam.io.Write(Recording())
    found = ByHand(whole(fuse(p.graph(), lambda *_: False)))

    for _ in values:
        assert found[0, 0].step()
    found.inject(Barrier(1, epoch=1))

    assert [1, 1] == found.written()
