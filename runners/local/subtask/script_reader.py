"""Script reader: plays a script (TestStream), one event at a time."""

from __future__ import annotations

from ....sdk import graph
from ....sdk.sources.scripted_source import ElementsArrive, Event, Script, WatermarkMoves
from ....windowing.timestamp import MAX_MICROS
from ...execution.counters import Counts
from ...execution.plan.fusion import Source
from ...execution.streaming.task_program import TaskProgram


class ScriptReader:
    """Plays a script in the first of its task's subtasks; in the others there is nothing to play.

    Attributes:
      position: how many events have been played.
      is_player: true in the first subtask.
      is_finished: true when all events have been played.
    """

    def __init__(self, step: Source, index: int) -> None:
        script = script_of(step)
        assert script is not None
        self.label = step.transform.label
        self._outputs = step.transform.outputs
        self._events = script.events if index == 0 else ()
        self.position = 0
        self.is_player = index == 0
        self.is_finished = not self.is_player

    def start(self, execution: TaskProgram, position: int) -> None:
        """Begin at a position."""
        self.position = position
        if self.is_finished:
            self._finish(execution)

    def play(self, execution: TaskProgram, counts: Counts) -> Event | None:
        """Play the next event, or end the script.

        Returns an event of processing time, of a signal or of a percentile watermark, which concerns all subtasks: the
        caller applies it.
        """
        if self.position == len(self._events):
            self._finish(execution)
            return None
        event = self._events[self.position]
        self.position += 1
        if isinstance(event, ElementsArrive):
            count = counts.of(self.label)
            count.read += len(event.bundle)
            count.written += len(event.bundle)
            execution.dataflow.send_to(self._outputs[event.tag])(event.bundle.unshared())
            return None
        if isinstance(event, WatermarkMoves):
            execution.move(self._outputs[event.tag], event.micros)
            return None
        return event

    def _finish(self, execution: TaskProgram) -> None:
        self.is_finished = True
        for output in self._outputs.values():
            execution.move(output, MAX_MICROS)


def script_of(step: Source) -> Script | None:
    """Return the script of a source step, or None if it has another source."""
    primitive = step.transform.primitive
    assert isinstance(primitive, graph.Read)
    return primitive.source if isinstance(primitive.source, Script) else None
