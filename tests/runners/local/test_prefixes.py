"""An aligned barrier waits for the records before it, unless that takes too long."""

from __future__ import annotations

import pathlib
import signal
from typing import Any

import pytest
from support.execution.step_clocks import ShortSteps
from support.execution.subtasks import ByHand, graph_of
from support.pipelines.recording import Recording
from support.programs.running_program import RunningProgram

import penstock as beam
from penstock.options.pipeline_options import PipelineOptions
from penstock.runners.execution.streaming.snapshot_chunks import IN_FLIGHT, LEFT
from penstock.runners.local.channels.messages import Barrier, BarrierKind, Elements, Encoded
from penstock.sdk.errors import OptionsError
from penstock.testing import ScriptedSource
from penstock.windowing import TimestampedValue


def slow_stream(p: Any) -> None:
    """Eight elements, shuffled, each of which becomes five."""
    source = ScriptedSource([[TimestampedValue(n, n) for n in range(8)]])
    shuffled = p | beam.io.Read(source) | beam.Map(lambda n: (n, 5 * n)) | beam.Reshuffle()
    numbers = shuffled | beam.FlatMap(lambda pair: range(pair[1], pair[1] + 5))
    _ = numbers | "Slow" >> beam.Map(abs) | beam.io.Write(Recording())


def with_waiting_work(parallelism: int) -> ByHand:
    """Return the subtasks, whose receivers have taken a part of a bundle, at an aligned barrier."""
    hand = ByHand(graph_of(slow_stream, parallelism), step_clock=ShortSteps())
    hand.run(0)
    assert all(hand[1, index].step() for index in range(parallelism))
    waiting = [m for channel in hand.channels.values() for m in channel.queue if isinstance(m, (Elements, Encoded))]
    assert waiting
    barrier = Barrier(1, transaction="next")
    for subtask in hand.subtasks.values():
        subtask.expect(barrier)
    hand.inject(barrier)
    return hand


def kinds_in_flight(hand: ByHand) -> set[str]:
    """Return the kinds of records in flight that the snapshots have."""
    kinds = {chunk.kind for chunks in hand.chunks.values() for chunk in chunks}
    return {LEFT for kind in kinds if kind == LEFT} | {IN_FLIGHT for kind in kinds if IN_FLIGHT in kind}


@pytest.mark.parametrize("parallelism", [1, 2])
def test_an_aligned_snapshot_has_no_records_in_flight(parallelism: int) -> None:
    """All records before the barrier were processed, those of a bundle that was cut included."""
    hand = with_waiting_work(parallelism)
    hand.run()
    assert set(hand.subtasks) == set(hand.chunks)
    assert set() == kinds_in_flight(hand)
    assert list(range(40)) == sorted(hand.written())


@pytest.mark.parametrize("parallelism", [1, 2])
def test_an_alignment_that_takes_too_long_is_given_up(parallelism: int) -> None:
    """The barrier overtakes what is in the channels; a restart does the rest, once."""
    hand = with_waiting_work(parallelism)
    # On some inputs the barrier has arrived, and on others it hasn't.
    hand[1, 0].step()
    barrier = Barrier(1, BarrierKind.UNALIGNED, transaction="next")
    for subtask in hand.subtasks.values():
        subtask.change_over(barrier)
    while set(hand.subtasks) != set(hand.chunks):
        assert any(tuple(subtask.step() for subtask in hand.subtasks.values()))
    assert kinds_in_flight(hand)
    staged = [
        change.value
        for subtask in hand.subtasks.values()
        for tokens in subtask.snapshots.staged.values()
        for transaction, token in tokens
        if transaction == "t"
        for change in token.values()
    ]
    assert len(staged) < 40
    again = ByHand(hand.graph, hand.snapshots())
    again.run()
    again.inject(Barrier(2, transaction="last"))
    again.run()
    assert list(range(40)) == sorted(staged + again.written())


@pytest.mark.parametrize("flags", [(), ("--parallelism=2",)], ids=["one worker", "two workers"])
def test_checkpoints_change_over_by_themselves(flags: tuple[str, ...], tmp_path: pathlib.Path) -> None:
    """A window fires for 5,000 keys, each of which takes ten milliseconds, and checkpoints go on."""
    program = """
import time
import penstock as beam
from penstock.options.pipeline_options import PipelineOptions

def slow(pair):
    time.sleep(0.01)
    return str(pair)

if __name__ == "__main__":
    with beam.Pipeline(options=PipelineOptions()) as p:
        pairs = p | beam.io.GenerateSequence(0, None, 50_000, 1) | beam.Map(lambda n: (n % 5000, 1))
        sums = pairs | beam.WindowInto(beam.window.FixedWindows(0.1)) | beam.CombinePerKey(sum)
        _ = sums | beam.Map(slow) | beam.io.WriteToText("out")
"""
    options = "--checkpoint_dir=kept", "--checkpoint_interval=0.1", "--alignment_timeout=0.2", *flags
    with RunningProgram(tmp_path, program, *options) as running:
        found: set[str] = set()

        def has_found(count: int) -> bool:
            found.update(path.name for path in (tmp_path / "kept").glob("manifest-*.checkpoint"))
            return len(found) >= count

        running.wait_until(lambda: has_found(6), "checkpoints")
        running.signal(signal.SIGTERM)
        assert 0 == running.ended()


@pytest.mark.parametrize(
    ("flags", "why"),
    [
        (["--checkpoint_mode=unaligned"], "with --checkpoint_mode=unaligned there is no alignment"),
        (["--delivery=strong"], "with --delivery=strong there are no barriers"),
        (["--recovery=region", "--parallelism=2"], "with --recovery=region a checkpoint may have no in-flight records"),
    ],
)
def test_a_timeout_without_alignment_is_refused(flags: list[str], why: str) -> None:
    """By the option's name, with the other option that excludes it."""
    p = beam.Pipeline(options=PipelineOptions(["--alignment_timeout=2", *flags]))
    _ = p | beam.io.GenerateSequence(0, None, 10, 1)
    with pytest.raises(OptionsError, match=f"--alignment_timeout=2: {why}"):
        p.run()


def test_a_timeout_with_a_loop_is_refused() -> None:
    """Its checkpoints are aligned."""
    p = beam.Pipeline(options=PipelineOptions(["--alignment_timeout=2"]))
    _ = p | beam.io.GenerateSequence(0, None, 10, 1) | beam.Feedback(beam.Map(abs), until=bool)
    with pytest.raises(OptionsError, match="--alignment_timeout=2: with the loop Feedback.* have to be aligned"):
        p.run()
