"""Steps of a plan wired together: a bundle is pushed from one to the next.

A runner wires the steps that run in one place: all of them, or what lies between two
shuffles.  It says what a grouping's input and a sink are there; stages and unions are the
same everywhere.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from typing import Any, Protocol

from ....sdk import graph
from ....sdk.bundle import Bundle
from ....windowing import BoundedWindow
from ..counters import Counts
from ..plan.fusion import Back, Grouping, Head, Keyed, Output, Plan, Source, Stage, Step, Union
from ..stages.executor import Emit, StageExecutor
from ..stages.side_input_views import SideInputViews
from ..state.stateful_pardo import StatefulExecutor
from ..time_slice import TimeSlice
from ..windows.bounded_operator import Cells
from ..windows.combining import Fold
from .left_work import LeavingStep

Receiver = Callable[[Bundle], None]

# How many steps are called from within each other; of each there are up to ten calls on Python's stack.
NESTED_STEPS = 40

# A step's input that comes from elsewhere: the id of the step, and the PCollection.
Arrival = tuple[str, int]

# What gives a bundle in parts, each of which is processed before the next is asked for.
Cut = Callable[[Bundle], Iterable[Bundle]]


class GroupingInput(Protocol):
    """Where elements for a grouping are folded: a window operator's cells, or cells that will be shuffled."""

    @property
    def fold(self) -> Fold: ...

    @property
    def cells(self) -> Cells: ...

    def folded(self) -> None:
        """Called when a bundle has been folded into the cells."""


class Dataflow:
    """Some steps of a plan, wired.

    Args:
      plan: the whole plan.
      steps: those of its steps that run here.
      views: side inputs; a stage that has any gets its bundles kept until `unblock`.
      groupings: by label, where elements for a grouping are folded.
      outputs: by label, what takes the elements for a sink.
      counts: what to count in.
      bundles: by label, what takes the elements for a grouping as they are, where they aren't
        folded; and for a ParDo with state, where it doesn't run here.
      portions: by label of a grouping, how to cut the bundles of the stage that folds for it.
      arrivals: the inputs, as the id of a step and a PCollection, that come from elsewhere: they
        aren't wired to what makes the PCollection, should that run here too.
      tracking: whether snapshots will be taken of the ParDos with state.

    Attributes:
      entries: by the id of a step and a PCollection, what takes the input of that step from elsewhere.
      stages: stages, and ParDos with state that run here, by the id of their step.
    """

    def __init__(
        self,
        plan: Plan,
        steps: Iterable[Step],
        views: SideInputViews,
        groupings: Mapping[str, GroupingInput],
        outputs: Mapping[str, Receiver],
        counts: Counts,
        bundles: Mapping[str, Receiver],
        portions: Mapping[str, Cut] | None = None,
        arrivals: Collection[Arrival] = (),
        tracking: bool = False,
        time_slice: TimeSlice | None = None,
        behind: set[LeavingStep] | None = None,
    ) -> None:
        over = None if time_slice is None else time_slice.over
        self.stages: dict[str, StageRun] = {}
        self.entries: dict[Arrival, Receiver] = {}
        self._arrivals = arrivals
        self._hops = _Hops()
        self._receivers: dict[int, list[Receiver]] = {i: [] for i in plan.graph.pcollections}
        self._folds: list[StageExecutor] = []
        for step in steps:
            if isinstance(step, Stage):
                grouping = groupings[step.fold.label] if step.fold is not None else None
                executor = StageExecutor(step, self.emit_of(step, counts), views, *_folding(grouping), over=over)
                cut = None if portions is None or step.fold is None else portions.get(step.fold.label)
                run = self.stages[step.id] = StageRun(executor, counts, cut, time_slice, behind)
                self._enter(step, step.input, run.receive)
            elif isinstance(step, Grouping) and not step.fused:
                (pcollection,) = step.transform.inputs
                if step.transform.label in bundles:
                    self._enter(step, pcollection, bundles[step.transform.label])
                    continue
                grouping = groupings[step.transform.label]
                fold = StageExecutor(
                    Stage((), pcollection, step.transform),
                    _no_output,
                    None,
                    *_folding(grouping),
                )
                self._folds.append(fold)
                self._enter(step, pcollection, fold.process)
            elif isinstance(step, Union):
                (union,) = step.transform.outputs.values()
                for pcollection in step.transform.inputs:
                    self._enter(step, pcollection, self.send_to(union))
            elif isinstance(step, Keyed):
                (pcollection,) = step.transform.inputs
                if step.transform.label in bundles:
                    self._enter(step, pcollection, bundles[step.transform.label])
                    continue
                stateful = StatefulExecutor(step.transform, self.emit_of(step.stage, counts), views, tracking, over)
                self.stages[step.id] = StageRun(stateful, counts, None, time_slice, behind)
                self._enter(step, pcollection, self.stages[step.id].receive)
            elif isinstance(step, Head):
                (looped,) = step.transform.outputs.values()
                self._enter(step, step.transform.inputs[0], self.send_to(looped))
            elif isinstance(step, Back):
                self._enter(step, step.transform.inputs[0], bundles[step.transform.label])
            elif isinstance(step, Output):
                self._enter(step, step.transform.inputs[0], outputs[step.transform.label])
            else:
                assert isinstance(step, (Source, Grouping))

    def _enter(self, step: Step, pcollection: int, receive: Receiver) -> None:
        self.entries[step.id, pcollection] = receive
        if (step.id, pcollection) not in self._arrivals:
            self.attach(pcollection, receive)

    def attach(self, pcollection: int, receive: Receiver) -> None:
        """Have `receive` called with each bundle of a PCollection."""
        self._receivers[pcollection].append(receive)

    def send_to(self, pcollection: int) -> Receiver:
        """A function that takes a bundle of this PCollection to whoever wants it."""
        return partial(self._hops.hand_on, self._receivers[pcollection])

    def teardown(self) -> None:
        """Tear down every DoFn that was set up."""
        for run in self.stages.values():
            run.executor.teardown()

    def emit_of(self, stage: Stage, counts: Counts) -> Emit:
        """A function that takes a stage's output to whoever wants it."""
        receivers = {tag: self._receivers[i] for tag, i in stage.outputs.items()}
        count = counts.of(stage.label)
        hand_on = self._hops.hand_on

        def emit(tag: graph.Tag, bundle: Bundle) -> None:
            count.written += len(bundle)
            hand_on(receivers[tag], bundle)

        return emit


class _Hops:
    """How bundles get from step to step: by a call, from within the step that makes the bundle.

    So a bundle has gone through everything that follows before the next one is made, and little is in memory.  In a
    long pipeline calls would be nested deeper than Python allows: behind so many steps bundles wait, in
    order, until the first step's call is through with the steps before them.
    """

    def __init__(self) -> None:
        self._depth = 0
        self._waiting: deque[tuple[Receiver, Bundle]] = deque()

    def hand_on(self, receivers: Iterable[Receiver], bundle: Bundle) -> None:
        """Have each of these receive a bundle, before this returns or before the outermost such call does."""
        if self._depth >= NESTED_STEPS:
            self._waiting.extend((receive, bundle) for receive in receivers)
            return
        self._depth += 1
        try:
            for receive in receivers:
                receive(bundle)
            if self._depth == 1:
                while self._waiting:
                    receive, waiting = self._waiting.popleft()
                    receive(waiting)
        except BaseException:
            self._waiting.clear()
            raise
        finally:
            self._depth -= 1


class StageRun(LeavingStep):
    """A stage, and what has come for it before its side inputs are ready, or while it was behind.

    Attributes:
      is_ready: whether the side inputs are ready for elements of a window.
      tick: what is to be done before a bundle is processed, such as moving a clock on.
    """

    def __init__(
        self,
        executor: StageExecutor,
        counts: Counts,
        cut: Cut | None = None,
        time_slice: TimeSlice | None = None,
        behind: set[LeavingStep] | None = None,
    ) -> None:
        super().__init__(time_slice, behind)
        self.executor = executor
        self._cut = cut
        self.is_ready: Callable[[BoundedWindow], bool] = _not_yet
        self.tick: Callable[[], None] | None = None
        self._count = counts.of(executor.stage.label)
        self._kept: list[Bundle] | None = [] if executor.stage.side_inputs else None

    def receive(self, bundle: Bundle) -> None:
        """Process a bundle, or keep what of it the side inputs aren't ready for."""
        if self.tick is not None:
            self.tick()
        if self._kept is not None:
            bundle, later = self._split(bundle)
            if len(later):
                self._kept.append(later)
            if not len(bundle):
                return
        if self.waits:
            self.put_off(bundle)
        elif self._cut is None:
            self._process(bundle, 0)
        else:
            for part in self._cut(bundle):
                self._process(part, 0)

    def _process(self, bundle: Bundle, place: int) -> None:
        executor = self.executor
        executor.process(bundle, place)
        if not place:
            self._count.read += len(bundle)
        if executor.left:
            left, executor.left = executor.left, []
            self._count.read -= sum(len(bundle) for place, bundle in left if not place)
            # What is further on came earlier.
            self.leave(sorted(left, key=lambda entry: -entry[0]))
        if executor.is_behind:
            self.look_at_due()

    def look_at_due(self) -> None:
        """Note whether work that is due has been left."""
        self.note(self.executor.is_behind)

    def resume(self) -> None:
        executor = self.executor
        if executor.is_behind:
            executor.catch_up()
        while self.left and not executor.is_behind:
            place, bundle = self.left.popleft()
            self._process(bundle, place)
            if self.over:
                break
        self.look_at_due()

    def _split(self, bundle: Bundle) -> tuple[Bundle, Bundle]:
        nothing = Bundle([])
        if type(bundle.windows) is tuple and len(bundle.windows) == 1:
            return (bundle, nothing) if self.is_ready(bundle.windows[0]) else (nothing, bundle)
        now: list[Any] = []
        later: list[Any] = []
        for value, micros, windows, pane, sign in bundle.rows():
            for window in windows:
                part = now if self.is_ready(window) else later
                part.append((value, micros, (window,), pane, sign))
        return _of_rows(now), _of_rows(later)

    def hold(self) -> int | None:
        """The earliest timestamp among what is kept; None if nothing is."""
        if not self._kept:
            return None
        return min(min(b.timestamps) if isinstance(b.timestamps, list) else b.timestamps for b in self._kept)

    def kept(self) -> list[Bundle]:
        """What waits for the side inputs."""
        return list(self._kept or ())

    def keep(self, bundles: Iterable[Bundle]) -> None:
        """Have these wait too, as they did when a snapshot was taken."""
        if self._kept is not None:
            self._kept.extend(bundles)
            return
        for bundle in bundles:
            if self.over is None:
                self.receive(bundle)
            else:
                self.put_off(bundle)

    def look(self) -> None:
        """More of the side inputs has come, or their watermarks have moved."""
        if self._kept:
            kept, self._kept = self._kept, []
            for bundle in kept:
                self.receive(bundle)

    def unblock(self) -> None:
        """The side inputs are complete."""
        kept, self._kept = self._kept, None
        for bundle in kept or ():
            self.receive(bundle)


def _not_yet(window: BoundedWindow) -> bool:
    return False


def _of_rows(rows: list[Any]) -> Bundle:
    return Bundle(*map(list, zip(*rows, strict=True))) if rows else Bundle([])


def _folding(grouping: GroupingInput | None) -> tuple[Cells | None, Fold | None, Callable[[], None] | None]:
    return (None, None, None) if grouping is None else (grouping.cells, grouping.fold, grouping.folded)


def _no_output(tag: graph.Tag, bundle: Bundle) -> None:
    raise AssertionError("a fold has no output")
