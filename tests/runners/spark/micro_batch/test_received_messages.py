"""The messages of a batch, in memory and spilled."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from random import Random
from typing import Any
from unittest.mock import patch

import pytest
from support.runners.micro_batches import RunnerInThisProcess

import penstock as beam
from penstock.options.pipeline_options import PipelineOptions
from penstock.runners.execution.plan.execution_graph import SubtaskId
from penstock.runners.execution.shuffle import reader
from penstock.runners.spark.micro_batch import exchange
from penstock.runners.spark.micro_batch.exchange import ReceivedMessages, ShuffleMessage
from penstock.runners.spark.micro_batch.subtask import MicroBatchSubtask

SENDERS = [SubtaskId(0, 0), SubtaskId(0, 1), SubtaskId(1, 0)]


def message(source: SubtaskId, number: int) -> ShuffleMessage:
    """Return a message with two blocks for an edge, and one for a side input."""
    blocks = [(3 * number + i, (7, 8, 7)[i], f"{source.task}-{source.index}-{number}-{i}".encode()) for i in range(3)]
    return ShuffleMessage(
        source, f"of {source.index}", number, blocks, {7: number, 8: -number} if number == 2 else None
    )


@pytest.mark.parametrize("memory", [0, 20, 10_000])
def test_blocks_are_in_the_order_of_senders_and_messages_however_they_arrive(memory: int) -> None:
    """Whether all of them are spilled, some, or none."""
    messages = [message(source, number) for source in SENDERS for number in (1, 2)]
    expected = [(edge, block) for each in messages for _, edge, block in each.blocks]
    for seed in range(5):
        arriving = list(messages)
        Random(seed).shuffle(arriving)
        with patch.object(reader, "MEMORY_BYTES", memory):
            received = ReceivedMessages({8})
        for each in arriving:
            received.add(each)
        of_side_inputs = [(edge, bytes(block)) for edge, block in received.blocks(True)]
        others = [(edge, bytes(block)) for edge, block in received.blocks(False)]
        assert [each for each in expected if each[0] == 8] == of_side_inputs
        assert [each for each in expected if each[0] == 7] == others
        assert dict.fromkeys(SENDERS) | {s: f"of {s.index}" for s in SENDERS} == received.attempts
        assert {7: [2, 2, 2], 8: [-2, -2, -2]} == received.watermarks
        received.close()


def test_messages_larger_than_the_limit_are_on_disk() -> None:
    """A subtask that receives 400 MB holds the spool's 64 MB and a message of it."""
    source = SubtaskId(0, 0)
    received = ReceivedMessages(set())
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for number in range(50):
        received.add(ShuffleMessage(source, "a", number, [(number, 1, bytes([number]) * (8 << 20))], None))
    found = [block[0] for _, block in received.blocks(False)]
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    received.close()

    assert list(range(50)) == found
    assert grown < 200_000


# The number of elements that were read: functions are copied, but the environment is that of the process.
READ = "PENSTOCK_TEST_READ"


def test_a_subtask_sends_messages_while_it_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bounded input is read in one batch, and isn't held meanwhile; a shuffle of it doesn't wait for the end."""
    monkeypatch.setattr(exchange, "MESSAGE_BYTES", 1_000)
    monkeypatch.setenv(READ, "0")
    sent: dict[int, list[int]] = {}
    run = MicroBatchSubtask.run

    def noted(subtask: MicroBatchSubtask, *arguments: Any) -> Iterator[Any]:
        for row in run(subtask, *arguments):
            sent.setdefault(subtask.id.task, []).append(int(os.environ[READ]))
            yield row

    def read(number: int) -> int:
        os.environ[READ] = str(int(os.environ[READ]) + 1)
        return number

    monkeypatch.setattr(MicroBatchSubtask, "run", noted)
    with beam.Pipeline(RunnerInThisProcess(1), options=PipelineOptions([])) as p:
        shuffled = p | beam.Create(range(20_000)) | beam.Map(read) | beam.Reshuffle()
        _ = (
            shuffled
            | "Behind" >> beam.Map(lambda number: number - 20_000)
            | "Count" >> beam.Map(read)
            | "2" >> beam.Reshuffle()
        )
    assert sent[0][0] < 20_000 < sent[1][0] < 40_000
