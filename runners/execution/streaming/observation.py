"""Observation of subtasks for a page: what it wants observed, and what was.

Nothing is observed, and nothing is spent, until a page asks for it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from ..operators.edge_sampler import HotKeys
from ..operators.traffic import WorkerTraffic
from ..stages.traffic import Traffic
from .output_sampler import DrawnInput, DrawnPane, OutputSampler

# The keys of a step that are reported.
_TOP = 12

# Seconds between two looks of a page at the same thing: at least and at most.
_SHORTEST, _LONGEST = 1.0, 5.0


def pause_after(took: float, share: int) -> float:
    """Return the seconds until work for a page is repeated, so that it takes one part in `share` of the time.

    The pause has limits: a page of a small job isn't too lively, and that of a large job not too old.

    Args:
      took: the seconds that the work has taken.

    >>> [pause_after(took, 500) for took in (0.0001, 0.004, 1.0)]
    [1.0, 2.0, 5.0]
    """
    return min(max(_SHORTEST, share * took), _LONGEST)


class Observe(NamedTuple):
    """Say what a page shows, and so what the subtasks have to observe.

    Attributes:
      is_open: some browser shows the page; otherwise nothing is observed but logs.
      step, key: the grouping whose panes are drawn, and the text of the key; None for none, and for all keys.
      profile: the number of the last profile that was requested; 0 for none.
      seconds: how long stacks are sampled for it.
    """

    is_open: bool = False
    step: str | None = None
    key: str | None = None
    profile: int = 0
    seconds: float = 10.0


class StepBacklog(NamedTuple):
    """What waits for a step.

    Attributes:
      elements: about how many.
      size: about how many bytes they are; None for those that a source has yet to read.
      uncounted: further bytes, of an unknown number of elements.
    """

    elements: int = 0
    size: int | None = 0
    uncounted: int = 0

    def plus(self, other: StepBacklog) -> StepBacklog:
        """Return the sum."""
        size = None if self.size is None or other.size is None else self.size + other.size
        return StepBacklog(self.elements + other.elements, size, self.uncounted + other.uncounted)

    def counted(self) -> tuple[int, int | None]:
        """Return all elements and bytes: those that weren't counted are as large as the others.

        >>> StepBacklog(10, 200, 100).counted()
        (15, 300)
        """
        if self.size is None:
            return self.elements, None
        more = round(self.uncounted * self.elements / self.size) if self.size else 0
        return self.elements + more, self.size + self.uncounted


class Observed(NamedTuple):
    """What a process has observed of its subtasks since its last report, for a page.

    Attributes:
      traffic: by PCollection, what has passed since the page was opened.
      shuffles: in batch by the step behind it, the records and bytes of the blocks of a shuffle.
      keys: by step, the most frequent keys and their counts, and the number of all elements.
      kept: by step, the windows and state cells.
      backlogs: by step, what waits for it.
      overdue: by task, microseconds since the earliest processing-time timer that is due was set for.
      inputs, panes: of the step and key that are drawn.
      logs: lines of this process: microseconds since 1970, level, and text.
      profile: the number of a profile, and how often each stack was seen; frames are joined by line ends.
    """

    traffic: Mapping[int, Traffic] = {}
    keys: Mapping[str, tuple[int, list[tuple[str, int]]]] = {}
    kept: Mapping[str, int] = {}
    overdue: Mapping[str, int] = {}
    inputs: Sequence[DrawnInput] = ()
    panes: Sequence[DrawnPane] = ()
    logs: Sequence[tuple[int, str, str]] = ()
    profile: tuple[int, Mapping[str, int]] | None = None
    backlogs: Mapping[str, StepBacklog] = {}
    shuffles: Mapping[str, Traffic] = {}


def sampled(traffics: Iterable[WorkerTraffic], keys: Iterable[Mapping[str, HotKeys]]) -> Observed:
    """Return what has passed the edges of some tasks in one process, and their most frequent keys."""
    traffic: dict[int, Traffic] = {}
    for counted in traffics:
        for pcollection, own in counted.traffic().items():
            traffic[pcollection] = traffic.get(pcollection, Traffic(0, 0)).plus(own)
    counts: dict[str, Counter[str]] = {}
    totals: Counter[str] = Counter()
    for sketches in keys:
        for label, sketch in sketches.items():
            totals[label] += sketch.total
            counts.setdefault(label, Counter()).update(sketch.counts)
    return Observed(traffic, {label: (totals[label], own.most_common(_TOP)) for label, own in counts.items()})


def observed_of(samplers: Iterable[OutputSampler]) -> Observed:
    """Return what was observed by the samplers of subtasks in one process, but what was drawn (`drawn_by`)."""
    samplers = list(samplers)
    kept: Counter[str] = Counter()
    overdue: dict[str, int] = {}
    for each in samplers:
        execution = each.execution
        kept.update(execution.kept())
        due = execution.next_processing_time()
        if due is not None and due < execution.clock.now:
            label = execution.task.label
            overdue[label] = max(overdue.get(label, 0), execution.clock.now - due)
    found = sampled({each.traffic for each in samplers}, [each.keys for each in samplers])
    return found._replace(kept=dict(kept), overdue=overdue)


def drawn_by(samplers: Iterable[OutputSampler]) -> tuple[list[DrawnInput], list[DrawnPane]]:
    """Return the inputs and panes since the last call, of the step and key that are drawn."""
    inputs: list[DrawnInput] = []
    panes: list[DrawnPane] = []
    for each in samplers:
        inputs += each.inputs
        panes += each.panes
        each.inputs, each.panes = [], []
    return inputs, panes
