"""How far a subtask is: the watermarks of its channels and sources, what they move in it, and what it says itself.

The least counts of what has been said on an edge; a channel or a source that is idle, or at its end, holds nobody
back.  Percentile watermarks go the same way, where a trigger looks at one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from ....windowing.timestamp import MAX_MICROS, MIN_MICROS
from ...execution.plan.execution_graph import Edge, ExecutionGraph
from ...execution.plan.fusion import Grouping
from ...execution.streaming.percentile_watermarks import Percentiles
from ...execution.streaming.task_execution import TaskExecution
from ..channels.channel import ChannelId
from ..channels.exchange import Exchange
from ..channels.messages import Message, PercentileMoved
from .sources import SubtaskSources


class SubtaskWatermarks:
    """The watermarks of one subtask.

    Args:
      inputs, back: its channels, and those of them that come back in a loop.
      edges: those that its inputs are of, by number.
      tell: sends a message to all that take its output.
      percentiles: those that some trigger looks at.
    """

    def __init__(
        self,
        execution: TaskExecution,
        inputs: Collection[ChannelId],
        back: Collection[ChannelId],
        edges: Mapping[int, Edge],
        sources: SubtaskSources,
        exchanges: Sequence[Exchange],
        tell: Callable[[Message], None],
        percentiles: frozenset[float],
    ) -> None:
        self._execution = execution
        self._edges = edges
        self._sources = sources
        self._exchanges = exchanges
        self._tell = tell
        self._watched = percentiles
        self._regular = frozenset(inputs) - frozenset(back)
        # What each channel has said, for the least of them.
        self._said: dict[ChannelId, int | None] = dict.fromkeys(inputs, MIN_MICROS)
        self._percentiles = Percentiles([*(id for id in inputs if id in self._regular), *sources.labels])

    def heard(self) -> tuple[dict[ChannelId, int | None], dict[float, dict[Any, int]]]:
        """What the channels have said: watermarks, and percentile watermarks."""
        return dict(self._said), self._percentiles.kept()

    def hear_again(
        self, watermarks: Mapping[ChannelId, int | None], percentiles: Mapping[float, Mapping[Any, int]]
    ) -> None:
        """Know again what the channels had said."""
        self._said.update(watermarks)
        for edge in self._edges:
            self._move_edge(edge)
        self._percentiles.restore(percentiles)
        if self._watched:
            for id, micros in self._said.items():
                if id in self._regular:
                    self._percentiles.lets_go(id, _holds_nothing(micros))

    def moved(self, id: ChannelId, micros: int | None) -> None:
        """A channel says how far it is; None when it has nothing to say."""
        self._said[id] = micros
        self._move_edge(id.edge)
        if self._watched and id in self._regular:
            self._percentiles.lets_go(id, _holds_nothing(micros))
            self._advance_percentiles()

    def percentile_moved(self, input: Any, share: float, micros: int) -> None:
        """A channel, or a source, says how far a share of its elements is."""
        self._percentiles.said(input, share, micros)
        self._advance_percentiles()

    def _move_edge(self, edge: int) -> None:
        known = [micros for id, micros in self._said.items() if id.edge == edge and micros is not None]
        self._execution.rest_edge(self._edges[edge], not known)
        if known:
            self._execution.move_edge(self._edges[edge], min(known))

    def _advance_percentiles(self) -> None:
        for share, micros in self._percentiles.moved().items():
            self._tell(PercentileMoved(share, micros))
            self._execution.advance_percentile(share, micros)

    def take_effect(self, now: int, asks: bool = True) -> None:
        """Ask the sources how far they are, if that is wanted, and have what has moved take effect here and beyond."""
        execution = self._execution
        if execution.is_behind:
            # What was left must not become late.
            execution.propagate()
            if execution.is_behind:
                return
        for injector in self._sources.injectors if asks else ():
            micros = injector.watermark(now)
            execution.rest(injector.output, micros is None)
            if micros is not None:
                execution.move(injector.output, micros)
            if self._watched:
                self._percentiles.lets_go(injector.label, _holds_nothing(micros))
                for share, own in injector.percentiles(now).items():
                    if share in self._watched:
                        self._percentiles.said(injector.label, share, own)
        if self._watched:
            for script in self._sources.scripts:
                self._percentiles.lets_go(script.label, script.is_finished)
            self._advance_percentiles()
        execution.propagate()
        for exchange in self._exchanges:
            pcollection = exchange.edge.pcollection
            watermark = execution.watermark(pcollection)
            exchange.emit_watermark(None if execution.is_idle(pcollection) and watermark < MAX_MICROS else watermark)


def _holds_nothing(micros: int | None) -> bool:
    return micros is None or micros >= MAX_MICROS


def percentiles_of(execution_graph: ExecutionGraph) -> frozenset[float]:
    """The percentile watermarks that some trigger looks at."""
    groupings = [step for step in execution_graph.plan.steps if isinstance(step, Grouping)]
    return frozenset(share for step in groupings for share in step.primitive.windowing.trigger.percentiles())
