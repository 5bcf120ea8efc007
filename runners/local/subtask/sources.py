"""The sources in a subtask: injectors that are polled in turn, and scripts that are played when everybody is ready."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from ....sdk import graph
from ....sdk.bundle import BUNDLE_SIZE
from ....sdk.sources.scripted_source import Script
from ...execution.plan.execution_graph import Task
from ...execution.streaming.snapshot import Restored
from ...execution.streaming.snapshot_chunks import POSITIONS, SCRIPT
from ...execution.streaming.task_execution import TaskExecution
from ...execution.time_slice import Pace, TimeSlice
from ..channels.messages import Message
from .replay_dedup import Numbering
from .script_reader import ScriptInjector
from .source_reader import Injector
from .tally import Tally

# Busy sources aren't asked for their watermarks more often, in microseconds: one for every record would be as much
# work, for all that it goes to, as the record.
_RARELY = 2_000

# How many elements of a stream are read at first.
_FIRST = 1_024

# The same in a pipeline with a loop, and the most.  A task behind a shuffle may be slower than the sources know.
_FIRST_IN_LOOPS, _MOST_IN_LOOPS = 16, 256


class PlayedEvent(NamedTuple):
    """An event of a script: how far the script is, and what everybody has to be told of it, if anything."""

    position: int
    news: Message | None


class SubtaskSources:
    """Reads one subtask's part of its task's sources.

    Args:
      index, parallelism: which of how many subtasks it is.
      numbering: of what it sends, if that is numbered.
      is_timed: whether time goes by while they are read.
      time_slice: the worker's; None where a script has the clock.
      has_loops: whether bundles have to be processed to their end, with all that goes round: they are small then.

    Attributes:
      is_paused: whether they have to wait.
    """

    def __init__(
        self,
        task: Task,
        execution: TaskExecution,
        index: int,
        parallelism: int,
        tally: Tally,
        numbering: Numbering | None,
        is_timed: bool,
        time_slice: TimeSlice | None = None,
        has_loops: bool = False,
    ) -> None:
        self._time_slice = time_slice
        self._execution = execution
        self._counts = tally.counts
        self._numbering = numbering
        self.injectors: list[Injector] = []
        self.scripts: list[ScriptInjector] = []
        for step in task.sources:
            primitive = step.transform.primitive
            assert isinstance(primitive, graph.Read)
            if isinstance(primitive.source, Script):
                self.scripts.append(ScriptInjector(step, index))
            else:
                self.injectors.append(Injector(step, index, parallelism, () if time_slice is None else time_slice.over))
        self._is_timed = is_timed and not self.scripts
        # Where no time goes by, bundles don't depend on how fast this machine is.
        is_paced = self._is_timed and time_slice is not None
        first, most = (_FIRST, BUNDLE_SIZE) if is_paced else (BUNDLE_SIZE, BUNDLE_SIZE)
        if is_paced and has_loops:
            first, most = _FIRST_IN_LOOPS, _MOST_IN_LOOPS
        self._paces = {injector.label: Pace(most, first) for injector in self.injectors}
        self._has_loops = has_loops
        # Of the last bundle, where it is not over before what goes round is.
        self._unpaced: tuple[Pace, int, int] | None = None
        self._asked_at = 0
        self.is_paused = False
        self._may_play = False

    @property
    def labels(self) -> Iterator[str]:
        """What they are called."""
        yield from (injector.label for injector in self.injectors)
        yield from (script.label for script in self.scripts)

    @property
    def are_finished(self) -> bool:
        """Whether nothing more will come."""
        has_read = all(injector.is_finished for injector in self.injectors)
        return has_read and all(script.is_finished for script in self.scripts)

    def start_injectors(self, restored: Restored | None, now: int) -> None:
        """Begin to read: at the beginning, or where a snapshot says."""
        for injector in self.injectors:
            positions: Sequence[Any] | None = None
            if restored is not None and (known := restored.newest(injector.label, POSITIONS)):
                positions = [position for own in known for position in own]
            injector.start(now, positions, None if restored is None else restored.sources.get(injector.label))

    def start_scripts(self, restored: Restored | None) -> None:
        """Begin to play: at the beginning, or where a snapshot says."""
        for script in self.scripts:
            position = max(restored.newest(script.label, SCRIPT), default=0) if restored is not None else 0
            script.start(self._execution, position)

    def poll(self, now: int) -> bool:
        """Read a bundle of some source, or that there are no more; whether there was anything."""
        if self.is_paused:
            return False
        for injector in [injector for injector in self.injectors if not injector.is_finished]:
            time_slice, pace = self._time_slice, self._paces[injector.label]
            began = 0 if time_slice is None else time_slice.clock()
            bundle = injector.poll(pace.count, now)
            if bundle is not None:
                if self._numbering is not None:
                    self._numbering.origin = injector.label, injector.polled
                count = self._counts.of(injector.label)
                count.read += len(bundle)
                count.written += len(bundle)
                self._execution.dataflow.send_to(injector.output)(bundle)
                if time_slice is not None and self._is_timed and self._has_loops:
                    self._unpaced = pace, len(bundle), began
                elif time_slice is not None and self._is_timed:
                    done = len(bundle) if not self._execution.is_behind else max(1, len(bundle) // 8)
                    pace.took(done, time_slice.clock() - began)
                return True
            # That is news too, and nobody may be idle for as long as it would otherwise wait.
            if injector.is_finished:
                return True
        return False

    def done(self) -> None:
        """All that follows from the last bundle has been done here."""
        if self._unpaced is not None and self._time_slice is not None:
            pace, n, began = self._unpaced
            self._unpaced = None
            pace.took(n, self._time_slice.clock() - began)

    def may_ask(self, now: int) -> bool:
        """Whether it is time, behind elements, to ask how far watermarks are."""
        if self._is_timed and now - self._asked_at < _RARELY and not self.are_finished:
            return False
        self._asked_at = now
        return True

    def may_play(self) -> None:
        """Everything is done that a script's last event has made due."""
        self._may_play = True

    def play(self) -> PlayedEvent | None:
        """Play the next event of a script, if it may be."""
        if self.is_paused or not self._may_play:
            return None
        for script in self.scripts:
            if not script.is_finished:
                self._may_play = False
                news = script.play(self._execution, self._counts)
                return PlayedEvent(script.position, news)
        return None

    def drain(self) -> None:
        """Read nothing more, as if the input had ended here."""
        for injector in self.injectors:
            injector.drained = True

    def close(self) -> None:
        """Close every reader."""
        for injector in self.injectors:
            injector.close()
