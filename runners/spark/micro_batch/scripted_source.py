"""A script (TestStream) on the driver: it plans batches of the script's events."""

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
from .plan import BatchInput, ScriptedElements


class DriverScript:
    """A script with one batch for each of its events.

    Independent events share a batch: consecutive elements of one output, and events of outputs that have no stateful
    step or sink in common downstream.
    """

    def __init__(self, step: Source, plan: Plan) -> None:
        self.label = step.transform.label
        primitive = step.transform.primitive
        assert isinstance(primitive, graph.Read)
        assert isinstance(primitive.source, Script)
        self._events = primitive.source.events
        self._outputs = step.transform.outputs
        self._downstream = {tag: _stateful_downstream(plan, output) for tag, output in self._outputs.items()}
        self._position = 0
        self.is_finished = False

    def add_input(self, into: BatchInput) -> None:
        """Add the next events to a batch; after the last one, advance the watermarks to the end of time."""
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
            if events and not all(self._are_independent(earlier, event) for earlier in events):
                break
            events.append(event)
            self._position += 1
        return events

    def _are_independent(self, earlier: Event, event: Event) -> bool:
        if isinstance(earlier, ElementsArrive) and isinstance(event, ElementsArrive) and earlier.tag == event.tag:
            return True
        of_output = (ElementsArrive, WatermarkMoves)
        if not isinstance(earlier, of_output) or not isinstance(event, of_output) or earlier.tag == event.tag:
            return False
        return self._downstream[earlier.tag].isdisjoint(self._downstream[event.tag])

    def _play(self, event: Event, into: BatchInput) -> None:
        if isinstance(event, ElementsArrive):
            into.splits.append(ScriptedElements(self.label, self._outputs[event.tag], event.bundle))
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
        """Return the number of played events, and True if the script has ended."""
        return self._position, self.is_finished

    def restore(self, position: Any) -> None:
        """Continue from a position."""
        self._position, self.is_finished = position


def _stateful_downstream(plan: Plan, pcollection: int) -> set[int | str]:
    """Return the ids of the stateful steps, steps with side inputs, and sinks downstream of a PCollection."""
    found: set[int | str] = set()
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
                found.add(id(primitive.sink))
            elif is_side or isinstance(step, (Grouping, Keyed)) or side_inputs_of(step):
                found.add(step.id)
            more = [output for output in outputs_of(step) if output not in seen]
            seen.update(more)
            todo.extend(more)
    return found
