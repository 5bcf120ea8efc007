"""Steps of a plan wired together: each bundle is pushed from one step to the next.

A runner wires the steps that run in one place: all of them, or those between two shuffles.  It passes in the inputs of
groupings and the sinks; stages and unions are the same in every runner.

A bundle is processed to its end, through all steps that follow, before the task looks at anything else.  So those who
hand bundles in cut them to what a step of the task's may take (`clock.py`).  What a clock makes due in one step, and
what waits for something else, may be more: a step then has *pending work*, which the task does part by part, before it
processes any other input.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from ....sdk import graph
from ....sdk.elements.bundle import BUNDLE_SIZE, Bundle
from ....sdk.elements.element_wrappers import Remainder
from ....windowing import BoundedWindow
from ..clock import StepClock, UnboundedSteps
from ..counters import Counts
from ..plan.fusion import Back, Grouping, Head, Keyed, Output, Plan, Source, Stage, Step, Union
from ..stages.executor import Emit, StageExecutor
from ..stages.side_input_views import SideInputViews

if TYPE_CHECKING:
    from ..stages.traffic import StageTraffic
    from ..windows.cell_table import CellTable
    from ..windows.combining import Fold

# Elements that wait, with the index of the next operation for them in a fused stage.
Pending: TypeAlias = tuple[int, Bundle]


class PendingStep(ABC):
    """A step that may have pending work.

    Args:
      step_clock: the worker's; None if the step processes everything at once.
      unfinished: the steps of the task that have pending work.

    Attributes:
      has_pending: True if it has pending work.
    """

    def __init__(self, step_clock: StepClock | None, unfinished: set[PendingStep] | None) -> None:
        self.has_pending = False
        self._step_clock = step_clock or UnboundedSteps()
        self._unfinished = set() if unfinished is None else unfinished

    def note(self, has_pending: bool) -> None:
        """Update `has_pending`."""
        self.has_pending = has_pending
        (self._unfinished.add if has_pending else self._unfinished.discard)(self)

    def must_yield(self) -> bool:
        """Return True if the rest of the pending work has to wait for the next step."""
        return self._step_clock.must_yield()

    @property
    def has_records(self) -> bool:
        """True if it has records that an aligned barrier waits for."""
        return self.has_pending

    @property
    def waits_for_a_call(self) -> bool:
        """True if `resume` can do nothing until a call has ended."""
        return False

    @abstractmethod
    def resume(self) -> None:
        """Go on with the pending work, until none remains or the step has taken its time."""


Receiver = Callable[[Bundle], None]

# The depth of nested calls from step to step; each step takes up to ten frames of Python's stack.
NESTED_STEPS = 40

# A step's input that another task sends: the id of the step, and the PCollection.
Arrival = tuple[str, int]

# Cuts a bundle into parts, each of which is processed before the next is asked for.
Cut = Callable[[Bundle], Iterable[Bundle]]


def uncut(bundle: Bundle) -> tuple[Bundle]:
    """Return a bundle as one part."""
    return (bundle,)


class GroupingInput(Protocol):
    """The cells that elements for a grouping are folded into: a window operator's, or those of a shuffle."""

    @property
    def fold(self) -> Fold: ...

    @property
    def cells(self) -> CellTable: ...


class AsyncStages(Protocol):
    """Opens the stages whose calls run in an event loop."""

    def open(
        self,
        stage: Stage,
        emit: Emit,
        counts: Counts,
        views: SideInputViews,
        step_clock: StepClock | None,
        unfinished: set[PendingStep] | None,
    ) -> StageRun: ...


def _to_both(one: Receiver, other: Receiver) -> Receiver:
    def receive(bundle: Bundle) -> None:
        one(bundle)
        other(bundle)

    return receive


class Dataflow:
    """Some steps of a plan, wired.

    Args:
      plan: the whole plan.
      steps: the steps to run here.
      views: side inputs; the bundles of a stage that has any are kept until `unblock`.
      groupings: by label, the cells that elements for a grouping are folded into.
      outputs: by label, the receivers of the elements for a sink.
      counts: counts elements.
      bundles: by label, the receivers of elements that are not folded for a grouping; and of those for a ParDo with
        state that doesn't run here.
      portions: by label of a grouping, or of a ParDo with state, how to cut the bundles of which its input is made.
      arrivals: the inputs that other tasks send, as the id of a step and a PCollection.  They are not wired to the
        producer of the PCollection, should that run here too.
      tracking: True if snapshots will be taken of the ParDos with state.
      async_stages: opens async stages; None if there are none.

    Attributes:
      entries: by the id of a step and a PCollection, the receiver of that input.
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
        step_clock: StepClock | None = None,
        unfinished: set[PendingStep] | None = None,
        async_stages: AsyncStages | None = None,
    ) -> None:
        self.stages: dict[str, StageRun] = {}
        self.entries: dict[Arrival, Receiver] = {}
        self._arrivals = arrivals
        self._hops = _Hops()
        self._receivers: dict[int, list[Receiver]] = {i: [] for i in plan.graph.pcollections}
        portions = portions or {}
        cuts = {t.inputs[0]: portions[t.label] for t in plan.graph.transforms if t.label in portions}
        for step in steps:
            if isinstance(step, Stage) and step.is_async:
                assert async_stages is not None
                run = async_stages.open(step, self.emit_of(step, counts), counts, views, step_clock, unfinished)
                self.stages[step.id] = run
                self._enter(step, step.input, run.receive)
            elif isinstance(step, Stage):
                grouping = groupings[step.fold.label] if step.fold is not None else None
                executor = StageExecutor(step, self.emit_of(step, counts), views, *_folding(grouping))
                made = step.outputs.values() if step.fold is None else step.fold.inputs
                cut = next((cuts[pcollection] for pcollection in made if pcollection in cuts), None)
                run = self.stages[step.id] = StageRun(executor, counts, cut, step_clock, unfinished)
                self._enter(step, step.input, run.receive)
            elif isinstance(step, Grouping) and not step.fused:
                (pcollection,) = step.transform.inputs
                if step.transform.label in bundles:
                    self._enter(step, pcollection, bundles[step.transform.label])
                    continue
                grouping = groupings[step.transform.label]
                fold = StageExecutor(Stage((), pcollection, step.transform), _no_output, None, *_folding(grouping))
                self._enter(step, pcollection, _in_parts(fold.process, portions.get(step.transform.label)))
            elif isinstance(step, Union):
                (union,) = step.transform.outputs.values()
                for pcollection in step.transform.inputs:
                    self._enter(step, pcollection, self.send_to(union))
            elif isinstance(step, Keyed):
                (pcollection,) = step.transform.inputs
                if step.transform.label in bundles:
                    self._enter(step, pcollection, bundles[step.transform.label])
                    continue
                # Takes as long to import as a small pipeline without state runs.
                from ..state.stateful_pardo import StatefulExecutor

                stateful = StatefulExecutor(step.transform, self.emit_of(step.stage, counts), views, tracking)
                self.stages[step.id] = StageRun(stateful, counts, None, step_clock, unfinished)
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
        arrival = step.id, pcollection
        if arrival not in self._arrivals:
            self.attach(pcollection, receive)
        elif arrival in self.entries:
            # A Flatten has it several times, and one edge brings it.
            receive = _to_both(self.entries[arrival], receive)
        self.entries[arrival] = receive

    def attach(self, pcollection: int, receive: Receiver) -> None:
        """Have `receive` called with each bundle of a PCollection."""
        self._receivers[pcollection].append(receive)

    def add_listener(self, pcollection: int, receive: Receiver) -> None:
        """Have `receive` called with each bundle of a PCollection before its consumers are; between two steps only."""
        self._receivers[pcollection].insert(0, receive)

    def remove_listener(self, pcollection: int, receive: Receiver) -> None:
        """Undo `add_listener`."""
        self._receivers[pcollection].remove(receive)

    def send_to(self, pcollection: int) -> Receiver:
        """Return a function that sends a bundle of this PCollection to its consumers."""
        return partial(self._hops.hand_on, self._receivers[pcollection])

    def teardown(self) -> None:
        """Tear down every DoFn that was set up."""
        for run in self.stages.values():
            run.executor.teardown()

    def emit_of(self, stage: Stage, counts: Counts) -> Emit:
        """Return a function that sends a stage's output to its consumers."""
        receivers = {tag: self._receivers[i] for tag, i in stage.outputs.items()}
        count = counts.of(stage.label)
        hand_on = self._hops.hand_on

        def emit(tag: graph.Tag, bundle: Bundle) -> None:
            count.written += len(bundle)
            hand_on(receivers[tag], bundle)

        return emit


class _Hops:
    """The way of bundles from step to step: by a call, from within the step that outputs the bundle.

    So a bundle has passed all following steps before the next one is made, and few are in memory.  In a long pipeline
    calls would nest deeper than Python allows: behind `NESTED_STEPS` steps bundles are queued, in order, until the call
    of the first step has passed the steps before them.
    """

    def __init__(self) -> None:
        self._depth = 0
        self._waiting: deque[tuple[Receiver, Bundle]] = deque()

    def hand_on(self, receivers: Sequence[Receiver], bundle: Bundle) -> None:
        """Send a bundle to each of these, before this call or the outermost one returns."""
        if not receivers:
            return
        *others, last = receivers
        if self._depth >= NESTED_STEPS:
            self._waiting.extend((receive, bundle.unshared()) for receive in others)
            self._waiting.append((last, bundle))
            return
        self._depth += 1
        try:
            for receive in others:
                # One consumer may change an element in place; the others have elements of their own.
                receive(bundle.unshared())
            last(bundle)
            if self._depth == 1:
                while self._waiting:
                    receive, waiting = self._waiting.popleft()
                    receive(waiting)
        except BaseException:
            self._waiting.clear()
            raise
        finally:
            self._depth -= 1


class StageRun(PendingStep):
    """A stage at work, with the bundles that wait for its side inputs, and its pending work.

    Attributes:
      pending: the elements that wait for their turn, in their order: those that follow an unfinished restriction, due
        timers, or elements that side inputs have let through.
      waits_for_calls: True if its elements may be in an event loop, and have to be waited for (`drain`).
      is_ready: returns True if the side inputs are ready for elements of a window.
      is_late: returns True for a window whose side inputs were freed; None while none is.
      dropped: the number of elements of such windows, which are late.
      tick: called before a bundle is processed, to advance a clock.
      traffic: counts what passes between its operations; None while no page shows that.
    """

    def __init__(
        self,
        executor: StageExecutor,
        counts: Counts,
        cut: Cut | None = None,
        step_clock: StepClock | None = None,
        unfinished: set[PendingStep] | None = None,
    ) -> None:
        super().__init__(step_clock, unfinished)
        self.pending: deque[Pending] = deque()
        self.executor = executor
        self.waits_for_calls = False
        self._cut = cut
        self.is_ready: Callable[[BoundedWindow], bool] = _not_yet
        self.is_late: Callable[[BoundedWindow], bool] | None = None
        self.dropped = 0
        self.tick: Callable[[], None] | None = None
        self.traffic: StageTraffic | None = None
        self._count = counts.of(executor.stage.label)
        self._kept = Kept() if executor.stage.side_inputs else None
        self._splittable = executor.splittable if self._step_clock.is_bounded else []
        self._pace, self._claims, self._due_pace = (self._step_clock.pace(BUNDLE_SIZE) for _ in range(3))

    def receive(self, bundle: Bundle) -> None:
        """Process the elements of a bundle whose side inputs are ready, and keep the others."""
        if self.tick is not None:
            self.tick()
        if self.is_late is not None:
            bundle = self._without_late(bundle)
        if self._kept is not None:
            bundle, later = self._split(bundle)
            if len(later):
                self._kept.add(later)
            if not len(bundle):
                return
        if self.has_pending:
            self.put_off(bundle)
        elif self._cut is None:
            self._process(bundle, 0)
        else:
            for part in self._cut(bundle):
                self._process(part, 0)

    def _process(self, bundle: Bundle, index: int) -> None:
        executor, traffic = self.executor, self.traffic
        n = len(bundle)
        if traffic is not None:
            if traffic.entered[index] >= traffic.due[index]:
                traffic.sample(executor, index, n)
            traffic.entered[index] += n
        if self._splittable:
            self._process_claims(bundle, index)
        else:
            executor.process(bundle, index)
        if executor.passed is not None:
            assert traffic is not None
            traffic.sampled(executor)
        if not index:
            self._count.read += n
        if executor.remainders:
            # Those of later operations are of earlier elements.
            remainders = sorted(executor.remainders, key=lambda entry: -entry[0])
            executor.remainders = []
            self.pending.extendleft(reversed(remainders))
        if self.pending or executor.is_due:
            self.look_at_pending()

    def _process_claims(self, bundle: Bundle, index: int) -> None:
        """Process a bundle, with as many claims of a restriction as a step may take."""
        pace = self._claims
        for fn in self._splittable:
            fn.most_claims, fn.claims = pace.count, 0
        pace.begin()
        self.executor.process(bundle, index)
        pace.end(max(fn.claims for fn in self._splittable))

    def put_off(self, bundle: Bundle, index: int = 0) -> None:
        """Add elements to the pending work."""
        self.pending.append((index, bundle))
        self.note(True)

    def stop_counting(self) -> None:
        """Count no more what passes between its operations."""
        self.traffic = self.executor.passed = None

    def look_at_pending(self) -> None:
        """Update `has_pending`."""
        self.note(self.executor.is_due or bool(self.pending))

    def resume(self) -> None:
        self.fire_due()
        while self.pending and not self.executor.is_due:
            self._process_next()
            if self.must_yield():
                break
        self.look_at_pending()

    def _process_next(self) -> None:
        """Process the first of the pending elements, as many as a step may take."""
        index, bundle = self.pending.popleft()
        pace, n = self._pace, len(bundle)
        if n > pace.count:
            self.pending.appendleft((index, bundle.part(pace.count, n)))
            bundle = bundle.part(0, pace.count)
        pace.begin()
        self._process(bundle, index)
        pace.end(len(bundle))

    def fire_due(self) -> None:
        """Fire the executor's due timers, until none remains or the step has taken its time."""
        executor, pace = self.executor, self._due_pace
        while executor.is_due:
            pace.begin()
            pace.end(executor.fire_due(pace.count))
            if self.must_yield():
                break
        self.look_at_pending()

    @property
    def has_records(self) -> bool:
        # The remainder of a restriction is a position, as a source's is, and so are the elements behind it.
        return self.executor.is_due or (bool(self.pending) and not _is_remainder(self.pending[0][1]))

    def pending_elements(self) -> list[Pending]:
        """Return the elements that a snapshot has to contain, in their order."""
        return list(self.pending)

    def drain(self) -> None:
        """Wait for the elements that are in an event loop."""

    def _without_late(self, bundle: Bundle) -> Bundle:
        assert self.is_late is not None
        columns = bundle.windows if isinstance(bundle.windows, list) else [bundle.windows]
        late = {window for windows in set(columns) for window in windows if self.is_late(window)}
        if not late:
            return bundle
        rows: list[Any] = []
        for value, micros, windows, pane, sign in bundle.rows():
            own = tuple(window for window in windows if window not in late)
            self.dropped += len(windows) - len(own)
            if own:
                rows.append((value, micros, own, pane, sign))
        return _of_rows(rows)

    def _split(self, bundle: Bundle) -> tuple[Bundle, Bundle]:
        nothing = Bundle([])
        if type(bundle.windows) is tuple and len(bundle.windows) == 1:
            return (bundle, nothing) if self.is_ready(bundle.windows[0]) else (nothing, bundle)
        now: list[Any] = []
        later: list[Any] = []
        parts: dict[BoundedWindow, list[Any]] = {}
        for value, micros, windows, pane, sign in bundle.rows():
            for window in windows:
                part = parts.get(window)
                if part is None:
                    part = parts[window] = now if self.is_ready(window) else later
                part.append((value, micros, (window,), pane, sign))
        return _of_rows(now), _of_rows(later)

    def hold(self) -> int | None:
        """Return the earliest timestamp of the elements that wait for side inputs; None if there are none."""
        return None if self._kept is None else self._kept.earliest

    def kept(self) -> list[Bundle]:
        """Return the bundles that wait for the side inputs."""
        return [] if self._kept is None else list(self._kept.bundles)

    def keep(self, bundles: Iterable[Bundle]) -> None:
        """Add bundles of a snapshot that waited for the side inputs."""
        if self._kept is not None:
            for bundle in bundles:
                self._kept.add(bundle)
            return
        for bundle in bundles:
            self.put_off(bundle)
        if not self._step_clock.is_bounded:
            self.resume()

    def process_ready(self) -> None:
        """Process the kept bundles whose side inputs are ready now."""
        if self._kept is not None and any(map(self.is_ready, self._kept.windows)):
            kept, self._kept = self._kept, Kept()
            self._let_through(kept)

    def unblock(self) -> None:
        """Process all kept bundles: the side inputs are complete."""
        kept, self._kept = self._kept, None
        if kept is not None:
            self._let_through(kept)

    def _let_through(self, kept: Kept) -> None:
        if self._step_clock.is_bounded:
            # There may be many: a part of them in each step.
            self.note(True)
        for bundle in kept.bundles:
            self.receive(bundle)
        self.resume()


class Kept:
    """Bundles that wait for side inputs.

    Attributes:
      windows: the windows of their elements.
      earliest: the earliest timestamp of their elements; None without bundles.
    """

    def __init__(self) -> None:
        self.bundles: list[Bundle] = []
        self.windows: set[BoundedWindow] = set()
        self.earliest: int | None = None

    def add(self, bundle: Bundle) -> None:
        """Add a bundle."""
        stamps, windows = bundle.timestamps, bundle.windows
        earliest = min(stamps) if isinstance(stamps, list) else stamps
        self.bundles.append(bundle)
        self.windows.update(*(set(windows) if isinstance(windows, list) else (windows,)))
        self.earliest = earliest if self.earliest is None else min(self.earliest, earliest)


def _is_remainder(bundle: Bundle) -> bool:
    """Return True if a bundle begins with the unfinished work of a splittable DoFn."""
    return type(bundle) is Bundle and type(bundle.values[0]) is Remainder


def _not_yet(window: BoundedWindow) -> bool:
    return False


def _of_rows(rows: list[Any]) -> Bundle:
    return Bundle(*map(list, zip(*rows, strict=True))) if rows else Bundle([])


def _folding(grouping: GroupingInput | None) -> tuple[CellTable | None, Fold | None]:
    return (None, None) if grouping is None else (grouping.cells, grouping.fold)


def _in_parts(receive: Receiver, cut: Cut | None) -> Receiver:
    if cut is None:
        return receive

    def receive_parts(bundle: Bundle) -> None:
        for part in cut(bundle):
            receive(part)

    return receive_parts


def _no_output(tag: graph.Tag, bundle: Bundle) -> None:
    raise AssertionError("a fold has no output")
