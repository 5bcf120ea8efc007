"""The bottleneck of a run and its probable cause."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.ui.bottleneck import bottleneck

GRAPH = {
    "tasks": [
        {"id": 0, "label": "Read → Parse", "steps": ["Read", "Parse"]},
        {"id": 1, "label": "Sum → Write", "steps": ["Sum", "Write"]},
    ],
    "transforms": [
        {"label": "Read", "kind": "Read", "task": 0},
        {"label": "Parse", "kind": "ParDo", "task": 0},
        {"label": "Sum", "kind": "GroupByKeyAndWindow", "task": 1},
        {"label": "Write", "kind": "Write", "task": 1},
    ],
}


def even(busy: float, pressed: float = 0.0) -> list[list[float]]:
    """Return the loads of two subtasks that are alike."""
    return [[busy, pressed, 100], [busy, pressed, 100]]


@pytest.mark.parametrize(
    ("step", "cause"), [("Parse", "user function"), ("Read", "slow source"), ("Write", "slow sink")]
)
def test_the_step_that_takes_most_of_the_time_is_the_cause(step: str, cause: str) -> None:
    """By its kind; tasks before it are backpressured, and those behind it wait."""
    subtasks = [even(0.9), even(0.1)] if step != "Write" else [even(0.95, pressed=0.9), even(0.9)]
    rates = {"Read": 0.1, "Parse": 0.1, "Write": 0.1} | {step: 0.8}

    found: Any = bottleneck(GRAPH, {"subtasks": subtasks, "seconds_rates": rates})

    assert (step, cause) == (found["step"], found["cause"])


def test_a_subtask_that_is_busy_alone_has_a_skewed_key() -> None:
    """With the key, and its share of the elements."""
    status = {
        "subtasks": [even(0.2), [[0.95, 0.0, 900], [0.1, 0.0, 100]]],
        "seconds_rates": {"Sum": 0.9},
        "hot_keys": {"Sum": {"total": 100, "keys": [("'hot'", 85), ("'cold'", 5)]}},
    }

    found: Any = bottleneck(GRAPH, status)

    assert (1, "Sum", "skewed key") == (found["task"], found["step"], found["cause"])
    assert "Subtask 0 of Sum → Write is busy 95% of the time" in found["text"]
    assert "the key 'hot' has 85% of the elements of Sum" in found["text"]


@pytest.mark.parametrize(("step", "cause"), [("Parse", "user function"), ("Read", "slow source")])
def test_a_task_that_reads_has_no_keys(step: str, cause: str) -> None:
    """Where one partition has all elements, its subtask is busy alone."""
    subtasks = [[[0.95, 0.0, 900], [0.0, 0.0, 0]], even(0.1)]

    found: Any = bottleneck(GRAPH, {"subtasks": subtasks, "seconds_rates": {step: 0.9}})

    assert (0, step, cause) == (found["task"], found["step"], found["cause"])
    assert "whose subtask 0 is busy 95% of the time, the others much less" in found["text"]


def test_a_source_without_data_is_the_cause_where_nothing_is_busy() -> None:
    """And where elements arrive there is none."""
    idle = {"subtasks": [even(0.0), even(0.0)], "seconds_rates": {}, "read_rates": {"Read": 0.0}}

    assert "source without data" == (bottleneck(GRAPH, idle) or {})["cause"]
    assert "none" == (bottleneck(GRAPH, idle | {"read_rates": {"Read": 5.0}}) or {})["cause"]


def test_time_outside_of_steps_is_the_runners() -> None:
    """Such as that of a shuffle."""
    found = bottleneck(GRAPH, {"subtasks": [even(0.9), even(0.1)], "seconds_rates": {}})

    assert ("runner", None) == ((found or {})["cause"], (found or {})["step"])


def test_nothing_is_said_before_the_first_load() -> None:
    """Nor without tasks, as in batch."""
    assert bottleneck(GRAPH, {"subtasks": [[], []]}) is None
    assert bottleneck(GRAPH | {"tasks": []}, {"subtasks": []}) is None


def test_a_task_of_many_steps_is_named_by_its_ends() -> None:
    """The label of a task has those of all its steps."""
    label = " + ".join(["Sum", *(f"Step {number}" for number in range(100)), "Write"])
    tasks = [GRAPH["tasks"][0], GRAPH["tasks"][1] | {"label": label}]

    found = bottleneck(GRAPH | {"tasks": tasks}, {"subtasks": [even(0.1), even(0.9)], "seconds_rates": {"Sum": 0.9}})

    assert (found or {})["text"].startswith("Sum takes 100% of the time of Sum + Step 0 + Step 1")
    assert (found or {})["text"].endswith("+ Step 99 + Write, which is busy 90% of the time.")
    assert len((found or {})["text"]) < 180


def test_the_subtasks_of_a_busy_worker_share_its_time() -> None:
    """No task is busy most of the time, but each worker is, with the subtasks of both."""
    rates = {"Parse": 0.5, "Sum": 0.8}
    status = {"subtasks": [even(0.35), even(0.55)], "seconds_rates": rates, "workers": 2}

    found: Any = bottleneck(GRAPH, status)

    assert (1, "Sum", "user function") == (found["task"], found["step"], found["cause"])
    text = (
        "Worker 0 is busy 90% of the time, with all its subtasks; most of it is spent on Sum → Write, and there on Sum"
    )
    assert f"{text}." == found["text"]


def test_many_subtasks_of_two_workers_are_added_up() -> None:
    """Each of them is seldom busy."""
    subtasks = [[[0.01, 0.0, 5]] * 32, [[0.05, 0.0, 5], [0.01, 0.0, 5]] * 16]

    found: Any = bottleneck(GRAPH, {"subtasks": subtasks, "seconds_rates": {}, "workers": 2})
    alone: Any = bottleneck(GRAPH, {"subtasks": subtasks, "seconds_rates": {}, "workers": 32})

    assert (1, "runner", "Worker 0 is busy 96% of the time") == (found["task"], found["cause"], found["text"][:32])
    assert "none" == alone["cause"]
