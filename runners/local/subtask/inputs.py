"""Which channels begin and end at a subtask, and what sends into those that begin there."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...execution.plan.execution_graph import Edge, EdgeKind
from ...execution.streaming.task_execution import TaskExecution
from ...execution.time_slice import TimeSlice
from ..channels.channel import Channel, ChannelId
from ..channels.exchange import Exchange
from .replay_dedup import NumberedExchange, Numbering

# Edges from each subtask to the one with the same number.
_ONE_TO_ONE = (EdgeKind.FORWARD, EdgeKind.BACK)

# The channel of an id.
Channels = Callable[[ChannelId], Channel]


def _others(edge: Edge, index: int, parallelism: int) -> Sequence[int]:
    """The subtasks at the other end of an edge."""
    return [index] if edge.kind in _ONE_TO_ONE else range(parallelism)


def inputs_of(execution: TaskExecution, index: int, parallelism: int, channels: Channels) -> dict[ChannelId, Channel]:
    """The channels that end at a subtask."""
    ids = [
        ChannelId(edge.id, source, index)
        for edge in execution.task.inputs
        for source in _others(edge, index, parallelism)
    ]
    return {channel.id: channel for channel in map(channels, ids)}


def exchanges_of(
    execution: TaskExecution,
    index: int,
    parallelism: int,
    channels: Channels,
    numbering: Numbering | None,
    time_slice: TimeSlice | None,
) -> list[Exchange]:
    """What sends into the channels that begin at a subtask: an exchange for each edge, fed by the task's steps.

    Args:
      numbering: gives numbers to what is sent; None if it has none.
      time_slice: the worker's; None if everything is done at once.
    """
    exchanges: list[Exchange] = []
    for edge in execution.task.outputs:
        own = [channels(ChannelId(edge.id, index, target)) for target in _others(edge, index, parallelism)]
        producer = execution.plan.graph.pcollections[edge.pcollection].producer
        label = edge.step.transform.label if edge.kind is EdgeKind.SHUFFLE else producer  # type: ignore[union-attr]
        if numbering is None:
            exchange = Exchange(edge, own, label, time_slice)
        else:
            exchange = NumberedExchange(edge, own, label, numbering, time_slice)
        exchanges.append(exchange)
        execution.dataflow.attach(edge.pcollection, exchange.send)
    return exchanges
