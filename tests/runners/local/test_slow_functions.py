"""Streams whose functions are slow, or never return: checkpoints, signals and commands wait for one element."""

from __future__ import annotations

import pathlib
import re
import signal

import pytest
from support.programs.running_program import RunningProgram, wait_until

import penstock as beam
from penstock.options.pipeline_options import PipelineOptions

# Functions that note each element before they take ten milliseconds for it.
SLOW = """
import time
import penstock as beam
from penstock.options.pipeline_options import PipelineOptions

def slow(value):
    with open("seen", "a") as seen:
        seen.write(".")
    time.sleep(0.01)
    return str(value)

def slow_read(numbers):
    return numbers | beam.Map(slow)

def slow_after_a_shuffle(numbers):
    return numbers | beam.Map(lambda n: (n % 100, n)) | beam.Reshuffle() | beam.Map(slow)

def slow_panes(numbers):
    pairs = numbers | beam.Map(lambda n: (n % 5000, 1))
    return pairs | beam.WindowInto(beam.window.FixedWindows(0.1)) | beam.CombinePerKey(sum) | beam.Map(slow)

def slow_loop(numbers):
    return numbers | beam.Feedback(beam.Map(lambda n: int(slow(n)) + 1), until=lambda n: n % 3 == 0) | beam.Map(str)

class SlowSum(beam.CombineFn):
    def create_accumulator(self):
        return 0

    def add_input(self, accumulator, value):
        slow(value)
        return accumulator + value

    def merge_accumulators(self, accumulators):
        return sum(accumulators)

    def extract_output(self, accumulator):
        return accumulator

def slow_folds(numbers):
    pairs = numbers | beam.Map(lambda n: (n % 3, n)) | beam.WindowInto(beam.window.FixedWindows(1))
    return pairs | beam.CombinePerKey(SlowSum()) | beam.Map(str)

class SlowCompact(beam.CombineFn):
    def create_accumulator(self):
        return 0

    def add_input(self, accumulator, value):
        return accumulator + value

    def merge_accumulators(self, accumulators):
        return sum(accumulators)

    def compact(self, accumulator):
        slow(accumulator)
        return accumulator

    def extract_output(self, accumulator):
        return accumulator

def slow_compact(numbers):
    pairs = numbers | beam.Map(lambda n: (n % 300, n)) | beam.WindowInto(beam.window.FixedWindows(1))
    return pairs | beam.CombinePerKey(SlowCompact()) | beam.Map(str)

def slow_outputs(numbers):
    return numbers | beam.Map(lambda n: beam.window.TimestampedValue(n, n)) | "Slow" >> beam.Map(slow)

if __name__ == "__main__":
    with beam.Pipeline(options=PipelineOptions(checkpoint_interval=0.1)) as p:
        results = {build}(p | beam.io.GenerateSequence(0, None, 50_000, 1))
        _ = results | beam.io.WriteToText("out")
    print("after the pipeline:", p.result.state)
"""

# What a bundle, or a few frames, would have been.
FEW = 1_000


@pytest.mark.parametrize(
    ("build", "flags"),
    [
        ("slow_read", ()),
        ("slow_read", ("--parallelism=2",)),
        ("slow_outputs", ()),
        ("slow_loop", ()),
        ("slow_after_a_shuffle", ("--parallelism=2",)),
        ("slow_panes", ("--alignment_timeout=0.1",)),
        ("slow_folds", ("--parallelism=2",)),
        ("slow_compact", ("--parallelism=2",)),
    ],
)
def test_a_checkpoint_and_a_signal_wait_for_the_element_at_hand(
    build: str, flags: tuple[str, ...], tmp_path: pathlib.Path
) -> None:
    """Not for its bundle, nor for what a shuffle or a grouping has brought."""
    program = SLOW.replace("{build}", build)
    with RunningProgram(tmp_path, program, "--checkpoint_dir=kept", *flags) as running:
        seen, kept = tmp_path / "seen", tmp_path / "kept"
        running.wait_until(lambda: seen.exists() and list(kept.glob("manifest-*.checkpoint")), "a checkpoint")
        before = len(seen.read_text())
        running.wait_until(lambda: len(list(kept.glob("manifest-*"))) > 1, "another checkpoint")
        until_signal = len(seen.read_text())
        running.signal(signal.SIGTERM)
        assert 0 == running.ended()
    assert "after the pipeline: CANCELLED" in running.log
    assert (True, True) == (before < FEW, len(seen.read_text()) - until_signal < FEW // 3)


def test_producers_obey_a_signal_behind_the_element_at_hand(tmp_path: pathlib.Path) -> None:
    """With --delivery=strong a production isn't longer than a bundle's part that was done."""
    program = SLOW.replace("{build}", "slow_after_a_shuffle")
    flags = "--checkpoint_dir=kept", "--delivery=strong", "--parallelism=2", "--workers=1"
    with RunningProgram(tmp_path, program, *flags) as running:
        running.wait_until((tmp_path / "seen").exists, "an element")
        running.signal(signal.SIGTERM)
        assert 0 == running.ended()
    assert "after the pipeline: CANCELLED" in running.log
    assert len((tmp_path / "seen").read_text()) < FEW


def held_back(n: int, path: str) -> int:
    """Return when there is a file."""
    wait_until(pathlib.Path(path).exists, "leave to return")
    return n


@pytest.mark.parametrize("parallelism", [1, 2])
def test_a_function_that_does_not_return_is_named(
    parallelism: int, tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    """With its step's label and its stack, once it has taken longer than --worker_timeout; and so is its return."""
    options = PipelineOptions(
        parallelism=parallelism,
        checkpoint_dir=str(tmp_path / "kept"),
        checkpoint_interval=0.05,
        checkpoint_timeout=0.2,
        worker_timeout=2.0,
    )
    p = beam.Pipeline(options=options)
    numbers = p | beam.io.GenerateSequence(0, None, 100, 1)
    _ = numbers | "Holds back" >> beam.Map(held_back, path=str(tmp_path / "leave"))
    result = p.run()

    def said(pattern: str) -> bool:
        return any(re.search(pattern, record.getMessage(), re.DOTALL) for record in caplog.records)

    stuck = r"'Holds back' has been in one call for \d+\.\d s.*held_back\n.*wait_until"
    wait_until(lambda: said(stuck), "the name of the call")
    if parallelism > 1:
        # In this process none begins meanwhile.
        late = r"checkpoint \d+ failed: it was not complete in time.*'Holds back' has been in one call"
        wait_until(lambda: said(late), "a late checkpoint")
    (tmp_path / "leave").touch()
    wait_until(lambda: said(r"'Holds back' has returned after \d+\.\d s"), "its return")
    result.cancel()


# A function that does not return.
FOREVER = """
import time
import penstock as beam
from penstock.options.pipeline_options import PipelineOptions

def never(value):
    while True:
        time.sleep(0.01)

if __name__ == "__main__":
    with beam.Pipeline(options=PipelineOptions(worker_timeout=0.5)) as p:
        _ = p | beam.io.GenerateSequence(0, None, 1_000, 1) | "Never" >> beam.Map(never)
"""


@pytest.mark.parametrize("flags", [(), ("--parallelism=2",), ("--checkpoint_dir=kept", "--parallelism=2")])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_names_the_function_that_it_waits_for_and_a_second_one_ends_the_program(
    flags: tuple[str, ...], number: int, tmp_path: pathlib.Path
) -> None:
    """A polite stop can't interrupt a call."""
    with RunningProgram(tmp_path, FOREVER, *flags) as running:
        running.wait_until(lambda: "'Never' has been in one call" in running.log, "the name of the call")
        running.signal(number)
        running.wait_until(lambda: "penstock: it waits for 'Never'" in running.log, "the name of the step")
        running.signal(number)
        assert -number == running.ended()
