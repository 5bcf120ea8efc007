"""Backlog: what waits for each step of a subtask, wherever it waits."""

from __future__ import annotations

import asyncio
import pickle
import socket
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from support.execution.subtasks import ByHand, graph_of

import penstock as beam
from penstock.runners.execution.clock import StepClock
from penstock.runners.execution.shuffle.blocks import encode_bundle
from penstock.runners.execution.streaming.observation import StepBacklog
from penstock.runners.local.channels.channel import Channel, ChannelId, ReceivingEnd, SendingEnd
from penstock.runners.local.channels.exchange import SpillingQueue
from penstock.runners.local.channels.messages import Elements, Encoded, WatermarkMoved
from penstock.runners.local.subtask.backlog import BacklogMeter
from penstock.sdk.elements.bundle import Bundle

PAIRS = Bundle([("key", "x" * 20)] * 100, 0)
PICKLED = 100 * len(pickle.dumps(PAIRS.values[0], protocol=5))


def grouped(p: beam.Pipeline) -> Any:
    """Group pairs behind a shuffle."""
    pairs = p | "Read" >> beam.io.GenerateSequence(0, 10, 1, 1) | "Pair" >> beam.Map(lambda n: ("key", n))
    return pairs | beam.WindowInto(beam.window.FixedWindows(1)) | "Group" >> beam.GroupByKey()


def waiting(job: ByHand, clock: Callable[[], float] = lambda: 0.0) -> dict[str, StepBacklog]:
    """What waits for each step; the backlogs of sources aside."""
    found = BacklogMeter(job.graph.tasks, clock).measure(job.subtasks.values())
    return {label: own for label, own in found.items() if own.elements or own.uncounted}


def into(job: ByHand) -> Channel:
    """The channel to the grouping."""
    (channel,) = job[1, 0].inputs.values()
    return channel


def test_elements_in_a_channel_wait_for_the_step_that_it_leads_to() -> None:
    """They have the size of their pickles; messages without elements don't count."""
    job = ByHand(graph_of(grouped, 1))
    into(job).put(Elements(PAIRS))
    into(job).put(WatermarkMoved(5))
    into(job).put(Elements(PAIRS))

    assert StepBacklog(200, 2 * PICKLED) == waiting(job)["Group"]
    job.run(1)
    assert "Group" not in waiting(job)


def test_encoded_elements_are_counted_by_their_bytes() -> None:
    """The number of elements in all blocks follows from that of the first."""
    job = ByHand(graph_of(grouped, 1))
    blocks = list(encode_bundle(PAIRS))
    for _ in range(3):
        for block in blocks:
            into(job).arrive(Encoded(block))

    assert StepBacklog(300, 3 * sum(map(len, blocks))) == waiting(job)["Group"]


def test_the_size_of_an_element_is_sampled_again_after_a_while() -> None:
    """Not at each report."""
    job, now = ByHand(graph_of(grouped, 1)), [0.0]
    meter = BacklogMeter(job.graph.tasks, lambda: now[0])
    into(job).put(Elements(PAIRS))
    before = meter.measure([job[1, 0]])["Group"]
    into(job).queue.clear()
    into(job).put(Elements(Bundle([("key", "x" * 2_000)] * 100, 0)))
    now[0] = 9.9
    assert before == meter.measure([job[1, 0]])["Group"]
    now[0] = 10.0
    assert 200_000 < (meter.measure([job[1, 0]])["Group"].size or 0)


def test_a_source_says_how_much_it_has_yet_to_read() -> None:
    """In elements; their bytes aren't known."""
    job = ByHand(graph_of(grouped, 1))
    found = BacklogMeter(job.graph.tasks).measure([job[0, 0]])
    assert {"Read/Read(SequenceSource)": StepBacklog(10, None)} == found


@pytest.fixture
def pipe() -> Iterator[tuple[SendingEnd, ReceivingEnd]]:
    """The two ends of a channel between processes."""
    sending, receiving = socket.socketpair()
    id = ChannelId(0, 0, 0)
    with sending, receiving:
        yield SendingEnd(id, sending), ReceivingEnd(id, receiving)


def test_what_a_full_pipe_holds_waits_for_the_receiver(pipe: tuple[SendingEnd, ReceivingEnd]) -> None:
    """On both of its ends, and in between: no byte is missing, and none counts twice."""
    sender, receiver = pipe
    job = ByHand(graph_of(grouped, 1))
    (id,) = job[1, 0].inputs
    job[1, 0].inputs[id] = receiver
    job[0, 0].exchanges[0].channels = [sender]  # type: ignore[assignment]
    messages = 0
    while not sender.is_full:
        sender.put(Elements(PAIRS))
        messages += 1
        while not receiver.is_full and receiver.read() and sender.has_pending and not receiver.is_full:
            sender.flush()
    block = len(next(encode_bundle(PAIRS)))

    found = waiting(job)["Group"]
    assert found.size is not None
    assert found.uncounted > 0
    # Each frame has a header of five bytes; those of queued messages are gone.
    assert messages * (block + 5) == found.size + found.uncounted + 5 * (found.size // block)
    elements, size = found.counted()
    assert (size, True) == (found.size + found.uncounted, abs(elements - 100 * messages) <= 5 * messages)


def test_a_closed_pipe_holds_nothing(pipe: tuple[SendingEnd, ReceivingEnd]) -> None:
    """The sender may have ended."""
    _, receiver = pipe
    receiver.queue.extend([WatermarkMoved(n) for n in range(100)])
    receiver.socket.close()
    assert 0 == receiver.unread


def test_elements_wait_for_side_inputs() -> None:
    """At the stage that has the side input; the side input's own elements wait there, too."""

    def build(p: beam.Pipeline) -> Any:
        side = p | "Side" >> beam.io.GenerateSequence(0, None, 1, 1) | beam.WindowInto(beam.window.FixedWindows(10))
        main = (
            p
            | "Main" >> beam.io.GenerateSequence(0, 10, 1, 1)
            | "Window" >> beam.WindowInto(beam.window.FixedWindows(10))
        )
        return main | "Look" >> beam.Map(lambda n, view: n, beam.pvalue.AsList(side))

    job = ByHand(graph_of(build, 1))
    (look,) = [own for own in job.subtasks.values() if own.execution.side_inputs]
    (edge,) = [edge for edge in look.task.inputs if edge.step is None]
    step = next(step for step in look.task.steps if getattr(step, "side_inputs", ()))
    look.execution.dataflow.stages[step.id].receive(Bundle([1, 2, 3], 0, (beam.window.IntervalWindow(0, 10),)))
    assert 3 == waiting(job)["Look"].elements
    look.inputs[ChannelId(edge.id, 0, 0)].put(Elements(Bundle([1], 0)))
    assert 4 == waiting(job)["Look"].elements


def test_pending_work_waits() -> None:
    """Until the next step."""

    def build(p: beam.Pipeline) -> Any:
        return p | "Read" >> beam.io.GenerateSequence(0, None, 1, 1) | "Slow" >> beam.Map(abs)

    step_clock = StepClock(1_000)
    job = ByHand(graph_of(build, 1), step_clock=step_clock)
    (stage,) = [
        run for own in job.subtasks.values() for id, run in own.execution.dataflow.stages.items() if id == "Slow"
    ]
    stage.put_off(Bundle(list(range(50)), 0))
    assert 50 == waiting(job)["Slow"].elements


def test_elements_wait_for_the_end_of_their_calls() -> None:
    """Those in flight, and those for which there is no room."""
    ended = asyncio.Event()

    class Ask(beam.DoFn):
        concurrency = 2

        async def process(self, n: int) -> Any:
            await ended.wait()
            yield n

    def build(p: beam.Pipeline) -> Any:
        numbers = p | "Read" >> beam.io.GenerateSequence(0, None, 1, 1)
        return numbers | "Ask" >> beam.ParDo(Ask())

    job = ByHand(graph_of(build, 1), step_clock=StepClock(1_000))
    (asking,) = [own for own in job.subtasks.values() if own.execution.async_runs is not None]
    asking.execution.dataflow.stages["Ask"].receive(Bundle(list(range(9)), 0))
    try:
        assert 9 == waiting(job)["Ask"].elements
    finally:
        asking.abandon()


def test_feedback_waits_for_the_head_of_its_loop() -> None:
    """In memory, and on disk."""
    queue = SpillingQueue()
    for _ in range(300):
        queue.put(Elements(PAIRS))
    block = len(next(encode_bundle(PAIRS)))
    assert (256, 44 * block) == (len(queue.bundles()), queue.spilled_bytes)
    while queue:
        queue.take()
    assert ([], 0) == (queue.bundles(), queue.spilled_bytes)
