"""The program of a task of a stream in one subtask: its steps process elements, watermarks and clocks.

Each bundle is pushed through all following steps before the next one is taken.  Then the watermarks advance, step by
step in the graph's order: a step's output watermark is the minimum of its inputs' and of its holds, and never
regresses.  A stage with side inputs waits until they are ready; elements that wait for them hold the watermark.

While any step has pending work, no watermark advances, so that pending elements don't become late; only processing time
passes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from ....sdk.metrics import MetricsContainer
from ....triggers import DefaultTrigger
from ....windowing import BoundedWindow
from ....windowing.timestamp import MAX_MICROS, MIN_MICROS
from ....windowing.windows import end_of_window
from ..clock import Clock, StepClock, UnboundedSteps
from ..counters import Counts
from ..operators.dataflow import Arrival, Dataflow, PendingStep, Receiver, StageRun
from ..operators.grouping import DROPPED_LATE, GroupingRun
from ..operators.keyed import KeyedRun
from ..plan.execution_graph import Edge, EdgeKind, Task, inputs_of, label_of, outputs_of
from ..plan.fusion import Grouping, Head, Keyed, Output, Plan, Stage, Step, Union, has_async
from ..plan.segments import any_records
from ..sinks.writer import OutputRun
from ..stages.side_input_views import SideInputViews
from .feedback import TaskLoops
from .memory_watch import MemoryWatch
from .side_input_expiry import SideInputExpiry
from .state_backend import StateBackend
from .state_settings import StateSettings, has_state

if TYPE_CHECKING:
    from ..operators.async_run import AsyncRuns


class TaskProgram:
    """The program of a task, at work in one subtask.

    Args:
      plan: the task's plan.
      task: the steps, and the edges that end here.
      clock: processing time.
      metrics: receives user code's metrics.
      counts: counts elements.
      transaction, unit: identify the output of the sinks' writers.
      step_clock: the worker's; None if everything is done at once.
      state: how much state may be in memory; None for all of it.

    Attributes:
      outputs: its sinks at work.
      backend: has the state that isn't in memory; None if all of it is.
      views: its side inputs.
      loops: its loops.
      async_runs: its async stages; None if there are none.
    """

    def __init__(
        self,
        plan: Plan,
        task: Task,
        clock: Clock,
        metrics: MetricsContainer,
        counts: Counts,
        transaction: str,
        unit: str = "0",
        step_clock: StepClock | None = None,
        state: StateSettings | None = None,
    ) -> None:
        self.plan = plan
        self._step_clock = step_clock or UnboundedSteps()
        self._unfinished: set[PendingStep] = set()
        self.task = task
        # By step, its outputs and, unless it is a sink, its label.
        self._outputs = {step.id: outputs_of(step) for step in task.steps}
        self._labels = {step.id: label_of(step) for step in task.steps if not isinstance(step, Output)}
        self.clock = clock
        self.counts = counts
        self._metrics = metrics
        self.views = SideInputViews()
        self.views.keep_seen_panes(
            s for step in task.steps if isinstance(step, (Stage, Keyed)) for s in step.side_inputs
        )
        # A loop over a bounded input has no end of its own.
        is_batch = plan.graph.is_bounded and not plan.graph.loops()
        steps = task.steps
        self.groupings = {
            s.transform.label: GroupingRun(s, clock, metrics, step_clock, self._unfinished)
            for s in steps
            if isinstance(s, Grouping)
        }
        self.outputs = [OutputRun(s.transform, transaction, counts, unit) for s in steps if isinstance(s, Output)]
        receivers = {output.label: output.receive for output in self.outputs}
        bundles: dict[str, Receiver] = {label: run.receive for label, run in self.groupings.items()}
        self.loops = TaskLoops(steps, lambda pcollection: self.dataflow.send_to(pcollection), self._input_watermark)
        bundles.update(self.loops.receivers())
        self._by_arrival: dict[Arrival, Edge] = {
            (edge.step.id, edge.pcollection): edge
            for edge in task.inputs
            if edge.step is not None and edge.kind is not EdgeKind.BACK
        }
        self._watermarks: dict[int, int] = dict.fromkeys(plan.graph.pcollections, MIN_MICROS)
        self._edge_watermarks: dict[int, int] = {edge.id: MIN_MICROS for edge in task.inputs}
        # Edges and sources that were declared idle, and PCollections whose inputs are all idle.
        self._idle_inputs: set[tuple[bool, int]] = set()
        self._idle: set[int] = set()
        broadcast = {edge.pcollection: edge.id for edge in task.inputs if edge.kind is EdgeKind.BROADCAST}
        self._side_input_edges = broadcast
        self.async_runs: AsyncRuns | None = None
        if has_async(steps):
            # asyncio takes longer to import than a small pipeline without it runs.
            from ..operators.async_run import AsyncRuns

            self.async_runs = AsyncRuns()
        self.dataflow = Dataflow(
            plan,
            steps,
            self.views,
            {},
            receivers,
            counts,
            bundles,
            arrivals=self._by_arrival,
            tracking=True,
            step_clock=step_clock,
            unfinished=self._unfinished,
            async_stages=self.async_runs,
        )
        for grouping in self.groupings.values():
            grouping.wire(self.dataflow)
        self.keyed = {
            s.transform.label: KeyedRun(self.dataflow.stages[s.id], clock, is_batch, metrics, plan.graph.has_script)
            for s in steps
            if isinstance(s, Keyed)
        }
        self.backend: StateBackend | None = None
        if state is not None and has_state(task):
            self.backend = StateBackend(state, self.groupings, self.keyed)
        self._memory = MemoryWatch(self.backend is None)
        self._clocked: list[GroupingRun | KeyedRun] = [*self.groupings.values(), *self.keyed.values()]
        self._expiry = SideInputExpiry(plan, steps, self.views, self.dataflow.stages)
        for run in self.dataflow.stages.values():
            run.is_ready = self._readiness(run.executor.stage)
        for pcollection in self.side_inputs - broadcast.keys():
            self.dataflow.attach(pcollection, partial(self.views.add, pcollection))
        moves = [self._move_of(step) for step in steps]
        self._moves = [move for move in moves if move is not None]
        # The last steps come first, because their elements are earlier ones.
        self._pending: list[PendingStep] = []
        for step in reversed(steps):
            if isinstance(step, (Stage, Keyed)):
                self._pending.append(self.dataflow.stages[step.id])
            elif isinstance(step, Grouping):
                self._pending.append(self.groupings[step.transform.label])

    def stages(self) -> Iterator[tuple[Stage | Keyed, StageRun]]:
        """Yield the stages and the ParDos with state; the last ones first, because their elements are earlier ones."""
        for step in reversed(self.task.steps):
            if isinstance(step, (Stage, Keyed)):
                yield step, self.dataflow.stages[step.id]

    @property
    def side_inputs(self) -> set[int]:
        """Return the PCollections that are side inputs of its steps."""
        return {s.pcollection for step in self.task.steps if isinstance(step, (Stage, Keyed)) for s in step.side_inputs}

    @property
    def produced(self) -> set[int]:
        """Return the PCollections that are outputs of its steps."""
        return {pcollection for outputs in self._outputs.values() for pcollection in outputs}

    def kept(self) -> dict[str, int]:
        """Return the number of windows and of state cells of each step, by label.

        What isn't in memory counts once for a key and window, or for a key where windows merge.
        """
        kept = {label: len(run.windows.table) for label, run in self.groupings.items()}
        kept |= {label: run.kept for label, run in self.keyed.items()}
        for label, number in (self.backend.spilled if self.backend is not None else {}).items():
            kept[label] += number
        return kept

    def look_at_memory(self) -> None:
        """Warn if memory runs out, before a snapshot is taken."""
        self._memory.look(self.kept())

    # Pending work

    @property
    def has_pending(self) -> bool:
        """Return True if a step has pending work, which comes before any other input."""
        return bool(self._unfinished) or bool(self.loops.within and self.loops.are_waiting)

    @property
    def is_waiting_for_calls(self) -> bool:
        """Return True if all steps that have pending work wait for the end of a call."""
        return self.async_runs is not None and bool(self._unfinished) and self.async_runs.are_full(self._unfinished)

    @property
    def has_results(self) -> bool:
        """Return True if calls have ended whose outputs are to be emitted."""
        return self.async_runs is not None and self.async_runs.has_results

    @property
    def has_records(self) -> bool:
        """Return True if records are pending or in calls, which an aligned barrier waits for."""
        if self.async_runs is not None and self.async_runs.has_records:
            return True
        return any(run.has_records for run in self._unfinished) or bool(self.loops.within and self.loops.are_waiting)

    def resume(self, records_only: bool = False) -> bool:
        """Go on with pending work, until none remains or the step has taken its time.

        Args:
          records_only: True for the records that an aligned barrier waits for, if they don't wait for calls themselves.

        Returns whether there was any.
        """
        done = False
        for run in self._pending:
            if (run.has_records and not run.waits_for_a_call) if records_only else run.has_pending:
                run.resume()
                done = True
                if self._step_clock.must_yield():
                    return True
        for label, loop in self.loops.within.items():
            done |= bool(loop.waiting)
            if not self.loops.process(label, self._stops):
                return True
        return done

    def _stops(self) -> bool:
        """Return True if feedback waits, since there is pending work or the step has taken its time."""
        return bool(self._unfinished) or self._step_clock.must_yield()

    def pass_time(self) -> None:
        """Advance processing time only, while there is pending work."""
        for run in self._clocked:
            run.pass_time()

    def look_at_restored(self) -> None:
        """Note restored work that is due."""
        for run in self._clocked:
            run.look_at_restored()
        self._expiry.restored()

    # Inputs

    def receiver(self, edge: Edge) -> Receiver:
        """Return the receiver of an edge's elements."""
        if edge.step is None:
            return partial(self.views.add, edge.pcollection)
        if edge.kind is EdgeKind.BACK:
            assert isinstance(edge.step, Head)
            return partial(self.loops.receive, edge.step)
        return self.dataflow.entries[edge.step.id, edge.pcollection]

    def output_label(self, edge: Edge) -> str:
        """Return the label in errors of sending on an edge: the grouping's, or that of the elements' producer."""
        if edge.kind is EdgeKind.SHUFFLE:
            return edge.step.transform.label  # type: ignore[union-attr]
        return self.plan.graph.pcollections[edge.pcollection].producer

    def move(self, pcollection: int, watermark: int) -> None:
        """Advance the watermark of a PCollection of this task."""
        if watermark > self._watermarks[pcollection]:
            self._watermarks[pcollection] = watermark

    def move_edge(self, edge: Edge, watermark: int) -> None:
        """Advance the watermark of an edge that ends here."""
        if watermark > self._edge_watermarks[edge.id]:
            self._edge_watermarks[edge.id] = watermark

    def set_idle(self, pcollection: int, is_idle: bool) -> None:
        """Declare a source idle or active, by its PCollection."""
        (self._idle_inputs.add if is_idle else self._idle_inputs.discard)((False, pcollection))

    def set_edge_idle(self, edge: Edge, is_idle: bool) -> None:
        """Declare an edge that ends here idle or active."""
        (self._idle_inputs.add if is_idle else self._idle_inputs.discard)((True, edge.id))

    def is_idle(self, pcollection: int) -> bool:
        """Return True if a PCollection of this task is idle, so that it holds no watermark."""
        return pcollection in self._idle

    def watermark(self, pcollection: int) -> int:
        """Return the watermark of a PCollection of this task."""
        return self._watermarks[pcollection]

    def signal(self, name: str) -> None:
        """Deliver a signal to the triggers."""
        for grouping in self.groupings.values():
            grouping.signal(name)

    def advance_percentile(self, percentile: float, watermark: int) -> None:
        """Advance a percentile watermark."""
        for grouping in self.groupings.values():
            grouping.advance_percentile(percentile, watermark)

    # Watermarks and side inputs

    def _input_watermark(self, step: Step, pcollection: int) -> int:
        watermarks, at = self._known_at(step, pcollection)
        return watermarks[at]

    def _side_watermark(self, pcollection: int) -> int:
        edge = self._side_input_edges.get(pcollection)
        return self._watermarks[pcollection] if edge is None else self._edge_watermarks[edge]

    def has_side_inputs(self, step: Stage | Keyed) -> bool:
        """Return True if a step's side inputs are complete."""
        return all(self._side_watermark(s.pcollection) >= MAX_MICROS for s in step.side_inputs)

    def _readiness(self, stage: Stage) -> Callable[[BoundedWindow], bool]:
        """Return a function that says for a window whether a stage's side inputs have contents, or never will."""

        def is_ready(window: BoundedWindow) -> bool:
            for side_input in stage.side_inputs:
                windowing = side_input.windowing
                own = windowing.window_fn.side_input_window(window)
                if self._side_watermark(side_input.pcollection) >= end_of_window(own):
                    continue
                # With the default trigger a window's contents are ready when the window is complete.
                waits = isinstance(windowing.trigger, DefaultTrigger)
                if waits or not self.views.has_any(side_input.pcollection, own):
                    return False
            return True

        return is_ready

    def propagate(self) -> None:
        """Advance every watermark as far as it goes, in the graph's order, and process the due timers."""
        if self._unfinished:
            self.pass_time()
            if self._unfinished:
                return
        if self._idle_inputs or self._idle:
            self._propagate_idleness()
        self._propagate_once()
        while self.loops.within and not self._unfinished and self.loops.are_waiting:
            if self._step_clock.must_yield():
                return
            self._propagate_once()

    def _propagate_once(self) -> None:
        unfinished = self._unfinished
        for move_on in self._moves:
            move_on()
            if unfinished:
                return

    # This runs after every message, and most messages advance little: constant lookups are done once, and only advances
    # are passed on.

    def _move_of(self, step: Step) -> Callable[[], None] | None:
        """Return the function that advances the watermarks behind a step; None where there are none."""
        move = self.move
        # A stage that ends in a fold counts too: its grouping has the same watermark.
        outputs = tuple(step.operations[-1].outputs.values()) if isinstance(step, Stage) else outputs_of(step)
        watermarks, at = self._known_at(step, inputs_of(step)[0]) if inputs_of(step) else (self._watermarks, -1)
        last = MIN_MICROS

        def through() -> None:
            nonlocal last
            watermark = watermarks[at]
            if watermark > last:
                last = watermark
                for output in outputs:
                    move(output, watermark)

        if isinstance(step, Union):
            known = [(pcollection, *self._known_at(step, pcollection)) for pcollection in inputs_of(step)]
            return partial(self._advance_union, step, known, outputs[0])
        if isinstance(step, Stage) and not (step.side_inputs or step.is_async or any_records(step.operations)):
            return through
        if isinstance(step, Head):
            return partial(self._advance_loop, step.transform.label, outputs[0])
        if not isinstance(step, (Stage, Keyed, Grouping)):
            return None
        advance = partial(self._advance_stage, step) if isinstance(step, Stage) else self._advanced(step)

        def moved() -> None:
            watermark = advance(watermarks[at])
            for output in outputs:
                move(output, watermark)

        return moved

    def _advance_union(self, union: Union, known: Sequence[tuple[int, dict[int, int], int]], output: int) -> None:
        if output not in self._idle:
            none_idle = not self._idle_inputs
            active = (own[at] for i, own, at in known if none_idle or not self._is_idle_input(union, i))
            self.move(output, min(active, default=MAX_MICROS))

    def _known_at(self, step: Step, pcollection: int) -> tuple[dict[int, int], int]:
        """Return the dictionary and key of the watermark of a step's input."""
        edge = self._by_arrival.get((step.id, pcollection))
        return (self._watermarks, pcollection) if edge is None else (self._edge_watermarks, edge.id)

    def _advance_stage(self, stage: Stage, watermark: int) -> int:
        kept = self._let_through(stage)
        run = self.dataflow.stages[stage.id]
        if run.waits_for_calls:
            run.drain()
            kept = run.hold()
        if run.has_pending:
            # Elements that were let through and are pending are not among the kept ones.
            return MIN_MICROS
        watermark = watermark if kept is None else min(watermark, kept)
        run.executor.expire(watermark)
        if stage.side_inputs:
            self._pass_expiry(stage, watermark)
        return watermark

    def _advanced(self, step: Keyed | Grouping) -> Callable[[int], int]:
        run = self.groupings[step.transform.label] if isinstance(step, Grouping) else self.keyed[step.transform.label]
        if not isinstance(step, Keyed) or not step.side_inputs:
            return run.advance

        def advance(watermark: int) -> int:
            kept = self._let_through(step)
            if self.dataflow.stages[step.id].has_pending:
                return MIN_MICROS
            held = run.advance(watermark)
            self._pass_expiry(step, watermark if kept is None else min(watermark, kept))
            return held

        return advance

    def _pass_expiry(self, step: Stage | Keyed, watermark: int) -> None:
        """Free the windows of side inputs that no element of a step can reach, and count those that came too late."""
        self._expiry.advance(step, watermark)
        run = self.dataflow.stages[step.id]
        if run.dropped:
            self._metrics.step(run.executor.stage.operations[0].label).counters[DROPPED_LATE] += run.dropped
            run.dropped = 0

    def _propagate_idleness(self) -> None:
        """Mark PCollections as idle whose inputs are all idle, once no earlier element holds them."""
        self._idle = {pcollection for is_edge, pcollection in self._idle_inputs if not is_edge}
        for step in self.task.steps:
            inputs = inputs_of(step)
            if not inputs or isinstance(step, Head) or not all(self._is_idle_input(step, i) for i in inputs):
                continue
            if not isinstance(step, Union):
                watermark = self._input_watermark(step, inputs[0])
                self._idle.update(output for output in self._outputs[step.id] if self._watermarks[output] >= watermark)
            else:
                self._idle.update(self._outputs[step.id])

    def _is_idle_input(self, step: Step, pcollection: int) -> bool:
        edge = self._by_arrival.get((step.id, pcollection))
        return pcollection in self._idle if edge is None else (True, edge.id) in self._idle_inputs

    def _advance_loop(self, label: str, looped: int) -> None:
        """Process feedback; then advance the watermark as far as records in the loop allow."""
        if label not in self.loops.within or self.loops.process(label, self._stops):
            self.move(looped, self.loops.watermark(label))

    def _let_through(self, step: Stage | Keyed) -> int | None:
        """Process the elements whose side inputs are ready; return the earliest timestamp that still waits."""
        run = self.dataflow.stages[step.id]
        if self.has_side_inputs(step):
            run.unblock()
        else:
            run.process_ready()
        return run.hold()

    def next_processing_time(self) -> int | None:
        """Return the processing time, in microseconds, at which the next timer fires."""
        times = [run.next_processing_time() for run in self._clocked]
        return min((time for time in times if time is not None), default=None)

    def next_event_times(self) -> set[int]:
        """Return for each step the next watermark, in microseconds, at which a window or timer fires.

        Steps with elements that wait for side inputs have the least watermark, because any change may make those ready.
        """
        times = {run.next_event_time() for run in self._clocked}
        times |= {MIN_MICROS for run in self.dataflow.stages.values() if run.kept()}
        return {time for time in times if time is not None}

    def watermarks(self) -> dict[str, int]:
        """Return the output watermark of each step, in microseconds, by label."""
        return {
            label: min(self._watermarks[i] for i in self._outputs[step])
            for step, label in self._labels.items()
            if self._outputs[step]
        }

    def is_complete(self) -> bool:
        """Return True if all inputs are complete and no more output will be produced."""
        if self.has_pending:
            return False
        if any(self._edge_watermarks[edge.id] < MAX_MICROS for edge in self.task.inputs):
            return False
        return all(self._watermarks[i] >= MAX_MICROS for step in self._labels for i in self._outputs[step])

    def abandon_calls(self) -> None:
        """Cancel all calls of async DoFns, after a failure."""
        if self.async_runs is not None:
            self.async_runs.abandon()

    def spill_excess(self) -> None:
        """Remove state beyond its memory from memory; called between bundles."""
        if self.backend is not None:
            self.backend.spill_excess()

    def close_backend(self) -> None:
        """Remove the state on the disk."""
        if self.backend is not None:
            self.backend.close()

    def teardown(self) -> None:
        """Tear down user code."""
        for grouping in self.groupings.values():
            grouping.teardown()
        self.dataflow.teardown()
