"""A script (TestStream) as the driver sees it: event by event."""

from __future__ import annotations

from typing import Any

from ....sdk import graph
from ....sdk.sources.scripted_source import (
    ClockMoves,
    ElementsArrive,
    Event,
    PercentileMoves,
    Script,
    SignalArrives,
    WatermarkMoves,
)
from ....windowing.timestamp import MAX_MICROS
from ...execution.plan.execution_graph import inputs_of, outputs_of, side_inputs_of
from ...execution.plan.fusion import Grouping, Keyed, Output, Plan, Source
from .plan import Arriving, Gathered


class ScriptOnDriver:
    """A script: each of its events is a batch, but for those that can't have to do with each other.

    Elements that come one after the other to one output are one batch; so are the events of outputs
    that nothing downstream brings together.
    """

    def __init__(self, step: Source, plan: Plan) -> None:
        self.label = step.transform.label
        primitive = step.transform.primitive
        assert isinstance(primitive, graph.Read)
        assert isinstance(primitive.source, Script)
        self._events = primitive.source.events
        self._outputs = step.transform.outputs
        self._reached = {tag: _reached(plan, output) for tag, output in self._outputs.items()}
        self._position = 0
        self.is_finished = False

    def gather(self, into: Gathered) -> None:
        """Play what comes next; at the end, the end of time."""
        if self.is_finished:
            return
        events = self._next()
        if not events:
            self.is_finished = True
            into.watermarks.update(dict.fromkeys(self._outputs.values(), MAX_MICROS))
        for event in events:
            self._play(event, into)

    def _next(self) -> list[Event]:
        events: list[Event] = []
        while self._position < len(self._events):
            event = self._events[self._position]
            if events and not all(self._may_be_together(earlier, event) for earlier in events):
                break
            events.append(event)
            self._position += 1
        return events

    def _may_be_together(self, earlier: Event, event: Event) -> bool:
        if isinstance(earlier, ElementsArrive) and isinstance(event, ElementsArrive) and earlier.tag == event.tag:
            return True
        of_output = (ElementsArrive, WatermarkMoves)
        if not isinstance(earlier, of_output) or not isinstance(event, of_output) or earlier.tag == event.tag:
            return False
        return self._reached[earlier.tag].isdisjoint(self._reached[event.tag])

    def _play(self, event: Event, into: Gathered) -> None:
        if isinstance(event, ElementsArrive):
            into.readings.append(Arriving(self.label, self._outputs[event.tag], event.bundle))
        elif isinstance(event, WatermarkMoves):
            into.watermarks[self._outputs[event.tag]] = event.micros
        elif isinstance(event, ClockMoves):
            into.now += event.micros
        elif isinstance(event, SignalArrives):
            into.signals.append(event.name)
        else:
            assert isinstance(event, PercentileMoves)
            into.percentiles[event.percentile] = event.micros

    def position(self) -> Any:
        """Where it stands."""
        return self._position, self.is_finished

    def restore(self, position: Any) -> None:
        """Go on from there."""
        self._position, self.is_finished = position


def _reached(plan: Plan, pcollection: int) -> set[int | str]:
    """What keeps anything of what comes of a PCollection, or shows it: groupings, ParDos with state, sinks."""
    reached: set[int | str] = set()
    todo, seen = [pcollection], {pcollection}
    while todo:
        current = todo.pop()
        for step in plan.steps:
            is_side = current in side_inputs_of(step)
            if current not in inputs_of(step) and not is_side:
                continue
            if isinstance(step, Output):
                primitive = step.transform.primitive
                assert isinstance(primitive, graph.ParDo)
                reached.add(id(primitive.sink))
            elif is_side or isinstance(step, (Grouping, Keyed)) or side_inputs_of(step):
                reached.add(step.id)
            more = [output for output in outputs_of(step) if output not in seen]
            seen.update(more)
            todo.extend(more)
    return reached
