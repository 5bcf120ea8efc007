"""A stateful class that is migrated from one version to the next, by a process that is killed half-way at first.

The numbers of a stream are counted by key in an object.  Version 2 of its class has another attribute, without which
the new pipeline fails.  What was counted is compared with the source's position, so that nothing is lost or repeated.
"""

from __future__ import annotations

import json
import pathlib
import re
import signal
import subprocess
import sys

import pytest

VISIT_1 = """\
class Visit:
    def __init__(self, count):
        self.count = count

    def next(self, n):
        return Visit(self.count + 1)

NONE = Visit(0)
"""

VISIT_2 = """\
class Visit:
    def __init__(self, total, last):
        self.total, self.last = total, last

    def next(self, n):
        assert self.last < n
        return Visit(self.total + 1, n)

NONE = Visit(0, -1)
"""

PIPELINE = """\
import sys, time
import penstock as beam
from penstock.sdk.runner import PipelineState
from penstock.sdk.userstate import ReadModifyWriteStateSpec
import visits

class Count(beam.DoFn):
    VISIT = ReadModifyWriteStateSpec("visit")

    def process(self, element, visit=beam.DoFn.StateParam(VISIT)):
        known = visit.read() or visits.NONE
        visit.write(known.next(element[1]))
        yield element

if __name__ == "__main__":
    p = beam.Pipeline(argv=["--checkpoint_dir=kept", "--checkpoint_interval=0.05", "--max_restarts=0", "--no_progress"])
    numbers = p | beam.io.GenerateSequence(0, elements_per_period=5, period=0.005)
    counted = beam.metrics.Metrics.counter("visits", "counted")
    visited = numbers | beam.Map(lambda n: (n % 7, n)) | "Count" >> beam.ParDo(Count())
    visited | "Counted" >> beam.Map(lambda _: counted.inc())
    result = p.run()
    # All keys occur, and what was there before has more.
    while sum(counter.attempted for counter in result.metrics().query()["counters"]) < 50:
        if PipelineState.is_terminal(result.state):
            break
        time.sleep(0.01)
    result.stop_with_savepoint()
"""

MIGRATION = """\
import os, pathlib, signal
from visits import Visit

def to_version_2(entry):
    half_way = pathlib.Path("dies")
    if half_way.exists() and entry.key == int(half_way.read_text()):
        half_way.unlink()
        os.kill(os.getpid(), signal.SIGKILL)
    return entry.with_value(Visit(entry.value.count, last=-1))
"""


class Project:
    """A pipeline, its class and its checkpoints, in a directory."""

    def __init__(self, directory: pathlib.Path) -> None:
        self.directory = directory
        self.write("pipeline.py", PIPELINE)
        self.write("migration.py", MIGRATION)

    def write(self, name: str, content: str) -> None:
        (self.directory / name).write_text(content)

    def penstock(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "penstock", *arguments]
        return subprocess.run(command, cwd=self.directory, capture_output=True, text=True, check=False)

    def run(self) -> subprocess.CompletedProcess[str]:
        return self.penstock("run", "pipeline.py")

    def counted(self, attribute: str) -> tuple[int, int]:
        """How many numbers were counted, and the position of the source."""
        shown = self.penstock("state", "kept", "--step=Count", "--format=json")
        assert 0 == shown.returncode, shown.stderr
        values = [json.loads(line)["value"]["fields"][attribute] for line in shown.stdout.splitlines()]
        (position,) = re.findall(r"source .* at \(?(\d+)", self.penstock("state", "kept").stdout)
        return sum(values), int(position)


@pytest.mark.parametrize("dies_at", [3])
def test_a_killed_migration_leaves_the_original_and_a_whole_one_goes_on(dies_at: int, tmp_path: pathlib.Path) -> None:
    """Killed at the entry of a key; then version 1 goes on, is migrated, and version 2 goes on."""
    project = Project(tmp_path)
    project.write("visits.py", VISIT_1)
    assert 0 == (ran := project.run()).returncode, ran.stderr
    first, position = project.counted("count")
    assert 0 < first == position

    project.write("visits.py", VISIT_2)
    failed = project.run()
    assert 1 == failed.returncode
    assert "'Visit' object has no attribute 'last'" in failed.stderr

    project.write("dies", str(dies_at))
    killed = project.penstock("checkpoints", "migrate", "kept", "--with=migration:to_version_2")
    assert -signal.SIGKILL == killed.returncode
    assert (first, position) == project.counted("count")
    project.write("visits.py", VISIT_1)
    assert 0 == (ran := project.run()).returncode, ran.stderr
    second, position = project.counted("count")
    assert first < second == position

    project.write("visits.py", VISIT_2)
    migrated = project.penstock("checkpoints", "migrate", "kept", "--with=migration:to_version_2")
    assert "7 entries changed" in migrated.stdout, migrated.stderr
    assert (second, position) == project.counted("total")
    assert 0 == (ran := project.run()).returncode, ran.stderr
    third, position = project.counted("total")
    assert second < third == position
