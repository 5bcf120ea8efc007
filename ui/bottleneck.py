"""The bottleneck of a run, and its probable cause, from one status.

The bottleneck is the busiest task that doesn't wait for those behind it.  Tasks before it are backpressured, and those
behind it wait for input.  Where several subtasks share a worker, none of which is busy for long, it is the task that
takes most of the time of a busy worker.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

# The share of time from which a task is called busy, or backpressured.
_BUSY, _PRESSED = 0.6, 0.5

# The share of time from which a worker with several subtasks is called busy: it also has work of its own.
_SHARED = 0.75

# A subtask with this many times the load of the median one is called skewed.
_SKEWED = 1.8

# The longest label of a task in a sentence, in characters.
_LONGEST = 90

# A key with this share of the elements of a step is called hot.
_HOT = 0.2


def bottleneck(graph: Mapping[str, Any], status: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the bottleneck: task, step, cause, and a sentence; None if nothing is known yet.

    Causes are `user function`, `slow sink`, `slow source`, `skewed key`, `runner`, `source without data`, and `none`
    where no task is busy.

    >>> graph = {"tasks": [{"id": 0, "label": "Read → Parse", "steps": ["Read", "Parse"]}], "transforms": [
    ...     {"label": "Read", "kind": "Read", "task": 0}, {"label": "Parse", "kind": "ParDo", "task": 0}]}
    >>> status = {"subtasks": [[[0.9, 0.0, 100]]], "seconds_rates": {"Read": 0.1, "Parse": 0.8}}
    >>> bottleneck(graph, status)["cause"], bottleneck(graph, status)["step"]
    ('user function', 'Parse')
    """
    tasks: Sequence[Mapping[str, Any]] = graph.get("tasks", ())
    loads = list(status.get("subtasks", ()))
    if not tasks or len(loads) != len(tasks) or not any(loads):
        return None
    found = [
        (max(busy for busy, _, _ in own), task, own)
        for task, own in zip(tasks, loads, strict=True)
        if own and max(pressed for _, pressed, _ in own) < _PRESSED
    ]
    if not found:
        # A ring of tasks that wait for each other, or a moment between two.
        found = [(max(busy for busy, _, _ in own), t, own) for t, own in zip(tasks, loads, strict=True) if own]
    busy, task, own = max(found, key=lambda each: each[0])
    seconds = status.get("seconds_rates", {})
    if busy < _BUSY:
        worker, total = _busiest_worker(loads, status.get("workers"))
        if total < _SHARED:
            return _idle(graph, status)
        _, task, own = max(found, key=lambda each: sum(busy for busy, _, _ in each[2]))
        step, _ = _longest(graph, task, seconds)
        text = f"Worker {worker} is busy {total:.0%} of the time, with all its subtasks; most of it is spent on "
        text += _brief(task) if step is None else f"{_brief(task)}, and there on {step}"
        return _result(task, step, "runner" if step is None else _cause(graph, step), f"{text}.")
    step, share = _longest(graph, task, seconds)
    skew = _skew(own)
    reads = any(t["kind"] == "Read" for t in graph["transforms"] if t["task"] == task["id"])
    if skew is not None and reads and step is not None:
        # A task that reads has no keys: partitions are uneven, or fewer than subtasks.
        text = f"{step} takes {share:.0%} of the time of {_brief(task)}, whose subtask {skew} is busy {busy:.0%} "
        text += "of the time, the others much less: its partitions have most of the elements."
        return _result(task, step, _cause(graph, step), text)
    if skew is not None:
        key = _hottest(task, status.get("hot_keys", {}))
        text = f"Subtask {skew} of {_brief(task)} is busy {own[skew][0]:.0%} of the time, the others much less"
        if key is not None:
            text += f": the key {key[1]} has {key[2]:.0%} of the elements of {key[0]}"
        return _result(task, step if key is None else key[0], "skewed key", text + ".")
    if step is None:
        text = f"{_brief(task)} is busy {busy:.0%} of the time, mostly outside of its steps."
        return _result(task, None, "runner", text)
    text = f"{step} takes {share:.0%} of the time of {_brief(task)}, which is busy {busy:.0%} of the time."
    return _result(task, step, _cause(graph, step), text)


def _cause(graph: Mapping[str, Any], step: str) -> str:
    kind = next((t["kind"] for t in graph["transforms"] if t["label"] == step), "")
    return {"Write": "slow sink", "Read": "slow source"}.get(kind, "user function")


def _busiest_worker(loads: Sequence[Sequence[Sequence[float]]], workers: int | None) -> tuple[int, float]:
    """Return the number and the busy share of the busiest worker; None for one worker for each number of a subtask."""
    n = workers or max(map(len, loads))
    totals = [sum(busy for own in loads for busy, _, _ in own[number::n]) for number in range(n)]
    worker = max(range(n), key=totals.__getitem__)
    return worker, min(1.0, totals[worker])


def _brief(task: Mapping[str, Any]) -> str:
    """Return the label of a task, which has those of all its steps, without those in the middle of a long one."""
    label: str = task["label"]
    return label if len(label) <= _LONGEST else f"{label[: _LONGEST - 30]} … {label[-25:]}"


def _idle(graph: Mapping[str, Any], status: Mapping[str, Any]) -> dict[str, Any]:
    reads = [t["label"] for t in graph["transforms"] if t["kind"] == "Read"]
    rates = status.get("read_rates", {})
    if reads and rates and not any(rates.get(label, 0.0) > 0 for label in reads):
        return _result(None, reads[0], "source without data", f"{', '.join(reads)}: no data has arrived lately.")
    return _result(None, None, "none", "No task is busy most of the time.")


def _result(task: Mapping[str, Any] | None, step: str | None, cause: str, text: str) -> dict[str, Any]:
    return {"task": None if task is None else task["id"], "step": step, "cause": cause, "text": text}


def _longest(
    graph: Mapping[str, Any], task: Mapping[str, Any], seconds: Mapping[str, float]
) -> tuple[str | None, float]:
    """Return the transform of a task that takes most of its time, and its share."""
    own = {t["label"]: seconds.get(t["label"], 0.0) for t in graph["transforms"] if t["task"] == task["id"]}
    total = sum(own.values())
    if not total:
        return None, 0.0
    step = max(own, key=lambda label: own[label])
    return step, own[step] / total


def _skew(own: Sequence[Sequence[float]]) -> int | None:
    """Return the subtask that is much busier than the median one; None if there is none."""
    if len(own) < 2:
        return None
    shares = [busy for busy, _, _ in own]
    most = max(range(len(own)), key=lambda i: shares[i])
    others = [share for i, share in enumerate(shares) if i != most]
    return most if shares[most] > _SKEWED * max(median(others), 0.01) else None


def _hottest(task: Mapping[str, Any], keys: Mapping[str, Any]) -> tuple[str, str, float] | None:
    """Return the hottest key of the steps of a task, with its step and its share of the step's elements."""
    found = [
        (label, key, count / sketch["total"])
        for label, sketch in keys.items()
        if label in task["steps"] and sketch["total"]
        for key, count in sketch["keys"][:1]
    ]
    best = max(found, key=lambda each: each[2], default=None)
    return best if best is not None and best[2] >= _HOT else None
