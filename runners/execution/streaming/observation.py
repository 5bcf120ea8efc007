"""Observation of subtasks for a page: what it wants observed, and what was.

Nothing is observed, and nothing is spent, until a page asks for it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from .taps import DrawnInput, DrawnPane, TaskTaps, Traffic

# The keys of a step that are reported.
_TOP = 12


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


class Observed(NamedTuple):
    """What a process has observed of its subtasks since its last report, for a page.

    Attributes:
      traffic: by PCollection, what has passed since the page was opened.
      keys: by step, the most frequent keys and their counts, and the number of all elements.
      kept: by step, the windows and state cells in memory.
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


def observed_of(taps: Iterable[TaskTaps]) -> Observed:
    """Return what was observed by the taps of subtasks in one process: inputs and panes since the last call."""
    traffic: dict[int, Traffic] = {}
    keys: dict[str, Counter[str]] = {}
    totals: Counter[str] = Counter()
    kept: Counter[str] = Counter()
    overdue: dict[str, int] = {}
    inputs: list[DrawnInput] = []
    panes: list[DrawnPane] = []
    for each in taps:
        for pcollection, (elements, size) in each.traffic().items():
            before = traffic.get(pcollection, Traffic(0, 0))
            traffic[pcollection] = Traffic(before.elements + elements, before.size + size)
        for label, sketch in each.keys.items():
            totals[label] += sketch.total
            keys.setdefault(label, Counter()).update(sketch.counts)
        inputs += each.inputs
        panes += each.panes
        each.inputs, each.panes = [], []
        execution = each.execution
        kept.update(execution.kept())
        due = execution.next_processing_time()
        if due is not None and due < execution.clock.now:
            label = execution.task.label
            overdue[label] = max(overdue.get(label, 0), execution.clock.now - due)
    hottest = {label: (totals[label], counts.most_common(_TOP)) for label, counts in keys.items()}
    return Observed(traffic, hottest, dict(kept), overdue, inputs, panes)
