"""Watermarks of a subtask: of its channels and sources, of its steps, and of its output.

The watermark of an edge is the least of its channels'.  An idle channel or source, or one at its end, doesn't hold it
back.  Percentile watermarks are propagated in the same way, if a trigger uses them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from ....windowing.timestamp import MAX_MICROS, MIN_MICROS
from ...execution.plan.execution_graph import Edge, ExecutionGraph
from ...execution.plan.fusion import Grouping
from ...execution.streaming.percentile_watermarks import Percentiles
from ...execution.streaming.task_program import TaskProgram
from ..channels.channel import ChannelId
from ..channels.exchange import Exchange
from ..channels.messages import Message, PercentileMoved
from .sources import SubtaskSources


class SubtaskWatermarks:
    """The watermarks of one subtask.

    Args:
      inputs, back: its channels, and those of them from back-edges.
      edges: the edges of its inputs, by number.
      broadcast: sends a message on all of its output channels.
      percentiles: the percentile watermarks that some trigger uses.
    """

    def __init__(
        self,
        execution: TaskProgram,
        inputs: Collection[ChannelId],
        back: Collection[ChannelId],
        edges: Mapping[int, Edge],
        sources: SubtaskSources,
        exchanges: Sequence[Exchange],
        broadcast: Callable[[Message], None],
        percentiles: frozenset[float],
    ) -> None:
        self._execution = execution
        self._edges = edges
        self._sources = sources
        self._exchanges = exchanges
        self._broadcast = broadcast
        self._used = percentiles
        self._regular = frozenset(inputs) - frozenset(back)
        self._channels: dict[ChannelId, int | None] = dict.fromkeys(inputs, MIN_MICROS)
        self._percentiles = Percentiles([*(id for id in inputs if id in self._regular), *sources.labels])

    def inputs(self) -> tuple[dict[ChannelId, int | None], dict[float, dict[Any, int]]]:
        """Return the watermarks of the channels, and their percentile watermarks."""
        return dict(self._channels), self._percentiles.kept()

    def restore(
        self, watermarks: Mapping[ChannelId, int | None], percentiles: Mapping[float, Mapping[Any, int]]
    ) -> None:
        """Restore what `inputs` returned."""
        self._channels.update(watermarks)
        for edge in self._edges:
            self._move_edge(edge)
        self._percentiles.restore(percentiles)
        if self._used:
            for id, micros in self._channels.items():
                if id in self._regular:
                    self._percentiles.set_idle(id, _holds_nothing(micros))

    def moved(self, id: ChannelId, micros: int | None) -> None:
        """Take in the watermark of a channel; None while its sender is idle."""
        self._channels[id] = micros
        self._move_edge(id.edge)
        if self._used and id in self._regular:
            self._percentiles.set_idle(id, _holds_nothing(micros))
            self._advance_percentiles()

    def percentile_moved(self, input: Any, share: float, micros: int) -> None:
        """Take in a percentile watermark of a channel or a source."""
        self._percentiles.advance(input, share, micros)
        self._advance_percentiles()

    def _move_edge(self, edge: int) -> None:
        known = [micros for id, micros in self._channels.items() if id.edge == edge and micros is not None]
        self._execution.set_edge_idle(self._edges[edge], not known)
        if known:
            self._execution.move_edge(self._edges[edge], min(known))

    def _advance_percentiles(self) -> None:
        for share, micros in self._percentiles.moved().items():
            self._broadcast(PercentileMoved(share, micros))
            self._execution.advance_percentile(share, micros)

    def take_effect(self, now: int, reads_sources: bool = True) -> None:
        """Propagate watermarks through the steps and to the output, after reading those of the sources."""
        execution = self._execution
        if execution.has_pending:
            # Pending work must not become late.
            execution.propagate()
            if execution.has_pending:
                return
        for reader in self._sources.readers if reads_sources else ():
            micros = reader.watermark(now)
            execution.set_idle(reader.output, micros is None)
            if micros is not None:
                execution.move(reader.output, micros)
            if self._used:
                self._percentiles.set_idle(reader.label, _holds_nothing(micros))
                for share, own in reader.percentiles(now).items():
                    if share in self._used:
                        self._percentiles.advance(reader.label, share, own)
        if self._used:
            for script in self._sources.scripts:
                self._percentiles.set_idle(script.label, script.is_finished)
            self._advance_percentiles()
        execution.propagate()
        for exchange in self._exchanges:
            pcollection = exchange.edge.pcollection
            watermark = execution.watermark(pcollection)
            exchange.emit_watermark(None if execution.is_idle(pcollection) and watermark < MAX_MICROS else watermark)


def _holds_nothing(micros: int | None) -> bool:
    return micros is None or micros >= MAX_MICROS


def percentiles_of(execution_graph: ExecutionGraph) -> frozenset[float]:
    """Return the percentile watermarks that some trigger uses."""
    groupings = [step for step in execution_graph.plan.steps if isinstance(step, Grouping)]
    return frozenset(share for step in groupings for share in step.primitive.windowing.trigger.percentiles())
