"""Progress on a terminal, and none where there is no terminal."""

from __future__ import annotations

import io
import os
import pathlib
import pty
import re
import subprocess
import sys
import threading

import pytest
from rich.console import Console
from support.programs.running_program import wait_until
from support.programs.spark_programs import environment

from penstock.runners.execution import progress
from penstock.runners.execution.counters import Counts
from penstock.runners.execution.progress import Progress
from penstock.sdk.errors import MissingExtraError

SLOW = """\
import pathlib
import time
import penstock as beam


def slowly(x):
    until = time.monotonic() + 60
    while x == 0 and not pathlib.Path({seen!r}).exists() and time.monotonic() < until:
        time.sleep(0.01)
    return x, 1


with beam.Pipeline() as p:
    (
        p
        | "Read" >> beam.Create(range(1200), reshuffle=False)
        | "Slowly" >> beam.Map(slowly)
        | "Sum" >> beam.CombinePerKey(sum)
        | "Show" >> beam.Filter(lambda pair: pair[0] == 7)
        | "Print" >> beam.Map(print)
    )
"""


def terminal(width: int = 100) -> Console:
    return Console(file=io.StringIO(), force_terminal=True, width=width)


def last_table(console: Console) -> list[str]:
    """The lines of the last table that was shown, without control codes."""
    assert isinstance(console.file, io.StringIO)
    return lines_of(console.file.getvalue())


def lines_of(shown: str) -> list[str]:
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown).replace("\r", "")
    last = plain[plain.rindex(" read ") :]
    return [" ".join(line.split()) for line in last.splitlines()[2:] if line.strip()]


def run_on_a_terminal(directory: pathlib.Path, *flags: str, waits_for: bytes = b"", prints: bytes = b"(7, 1)\n") -> str:
    """What the slow program shows when its standard error is a terminal.

    It goes on when `waits_for`, a pattern, was seen.
    """
    seen = directory / "seen"
    (directory / "slow.py").write_text(SLOW.format(seen=str(seen)))
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "penstock", "run", "slow.py", *flags]
    variables = environment(COLUMNS="100", TERM="xterm")
    process = subprocess.Popen(command, cwd=directory, env=variables, stdout=subprocess.PIPE, stderr=theirs)
    os.close(theirs)
    shown = b""
    # Linux tells by an error that the other side is closed.
    with os.fdopen(ours, "rb", buffering=0) as terminal:
        try:
            while not re.search(waits_for, shown) and (chunk := terminal.read(4096)):
                shown += chunk
            seen.touch()
            while chunk := terminal.read(4096):
                shown += chunk
        except OSError:
            pass
    assert process.stdout is not None
    printed = process.stdout.read()
    assert 0 == process.wait(), shown
    assert prints == printed
    return shown.decode()


def test_the_last_state_of_the_counts_stays_on_the_terminal() -> None:
    """Also what was counted between the last look and the end; steps in the order of the plan."""
    counts, console = Counts(), terminal()

    with Progress(counts, ["Read", "Format", "Write"], wanted=True, console=console):
        counts.of("Write").read += 5
        counts.of("Read").read += 1234567
        counts.of("Read").written += 1234567
        counts.of("Write").written += 5

    assert ["Read 1,234,567 1,234,567", "Write 5 5"] == last_table(console)


def test_the_table_follows_the_counts() -> None:
    """Several states are shown while the run goes on."""
    counts, console = Counts(), terminal()
    count = counts.of("Read")

    def is_shown(number: int) -> bool:
        assert isinstance(console.file, io.StringIO)
        return re.search(rf"Read +{number}\b", console.file.getvalue()) is not None

    with Progress(counts, wanted=True, console=console):
        for number in (1, 2):
            count.read = number
            wait_until(lambda: is_shown(number), f"{number} on the terminal")
        count.read = 3

    assert ["Read 3"] == last_table(console)


def test_long_labels_leave_room_for_the_numbers() -> None:
    """On a narrow terminal."""
    counts, console = Counts(), terminal(width=60)
    counts.of("A very long label " * 10).read = 1_000_000_000

    with Progress(counts, wanted=True, console=console):
        pass

    assert ["A very long label A ver… 1,000,000,000"] == last_table(console)


def test_a_label_is_shown_as_it_is() -> None:
    """Square brackets are markup for rich."""
    counts, console = Counts(), terminal()
    counts.of("Tag[red]/Map").read = 1

    with Progress(counts, wanted=True, console=console):
        pass

    assert ["Tag[red]/Map 1"] == last_table(console)


def test_when_the_run_fails_the_table_stays_and_the_error_goes_on() -> None:
    """How far it got is worth knowing."""
    counts, console = Counts(), terminal()

    def fail() -> None:
        with Progress(counts, wanted=True, console=console):
            counts.of("Read").read = 3
            raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        fail()
    assert ["Read 3"] == last_table(console)


def test_a_short_run_shows_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a terminal, where nothing was said about progress."""
    monkeypatch.setattr(sys, "stderr", terminal().file)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    console = terminal()

    with Progress(Counts(), console=console):
        assert any(thread.name == "penstock-progress" for thread in threading.enumerate())

    assert isinstance(console.file, io.StringIO)
    assert "" == console.file.getvalue()


@pytest.mark.parametrize("wanted", [None, False])
def test_without_a_terminal_or_when_not_wanted_there_is_not_even_a_thread(wanted: bool | None) -> None:
    """pytest's standard error is a file."""
    before = threading.active_count()

    with Progress(Counts(), wanted=wanted):
        assert before == threading.active_count()


def test_without_rich_there_is_nothing_unless_it_was_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Then the extra is named."""
    monkeypatch.setattr(progress, "find_spec", lambda name: None)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)

    assert not progress.is_shown(None)
    with pytest.raises(
        MissingExtraError, match=r"--progress needs the package 'rich': pip install 'penstock\[progress\]'"
    ):
        progress.is_shown(True)


def without_times(lines: list[str]) -> list[str]:
    """Return lines without the sampled times and busy shares, which differ from run to run."""
    return [re.sub(r"( [\d.,]+ s)?( [\d–]+%)?$", "", line) for line in lines]


def test_the_local_runner_shows_its_steps_on_a_terminal(tmp_path: pathlib.Path) -> None:
    """In a real one; standard output is for the pipeline alone."""
    shown = run_on_a_terminal(tmp_path, waits_for=rb"Read/Values")

    assert ["Read/Values 1,200 1,200", "Slowly + Sum 1,200", "Show + Print 1,200 1"] == without_times(lines_of(shown))


def test_progress_can_be_switched_off(tmp_path: pathlib.Path) -> None:
    """By `--no_progress`."""
    assert "" == run_on_a_terminal(tmp_path, "--no_progress")


@pytest.mark.spark
def test_the_spark_runner_shows_its_steps_and_how_many_tasks_are_done(tmp_path: pathlib.Path) -> None:
    """On the driver's terminal; what workers print goes where Spark writes its log."""
    pytest.importorskip("pyspark")
    tasks = rb"\d s, \d of 2 tasks"
    shown = run_on_a_terminal(tmp_path, "--runner=spark-batch", "--spark_master=local[2]", waits_for=tasks, prints=b"")

    assert re.search(tasks.decode(), shown)
    steps = ["Read/Values 1,200 1,200", "Slowly + Sum 1,200", "Sum 1,200 1,200", "Show + Print 1,200 1"]
    # After them may come what Spark logs when it stops.
    assert steps == without_times(lines_of(shown)[: len(steps)])


def test_of_two_pipelines_one_is_shown_at_a_time() -> None:
    """Their tables would overwrite each other; the second is shown when the first is over."""
    consoles = [terminal(), terminal()]

    def shown(console: Console) -> bool:
        return "Read" in console.file.getvalue()  # type: ignore[attr-defined]

    counts = Counts()
    counts.of("Read").read = 1
    first, second = (Progress(counts, ["Read"], True, console) for console in consoles)
    with first:
        wait_until(lambda: shown(consoles[0]), "the first one's table")
        with second:
            # Its last state is shown at the end of the block, if it has its turn.
            pass
        assert not shown(consoles[1])
    with Progress(counts, ["Read"], True, consoles[1]):
        wait_until(lambda: shown(consoles[1]), "the other one's table")
